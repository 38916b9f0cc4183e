/*
** dist_system.c -- what the messages between ranks ask the operating system.
*/
#include "dist/dist.h"
#include "base/system.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

void *ty_dist_library(const char *const *names) {
  void *library = NULL;
  for (; *names && !library; names++) library = dlopen(*names, RTLD_NOW | RTLD_GLOBAL);
  return library;
}

void ty_dist_sleep(i64 nanoseconds) {
  const struct timespec t = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  nanosleep(&t, NULL);
}

enum { LEAVERS = 4 };
static void (*at_exit[LEAVERS])(int);
static int nleavers, left;
static i64 process;

static void call_leaver(int status) {
  if (process == ty_system_process() && left < nleavers) at_exit[nleavers - ++left](status);
}

#ifdef __GLIBC__
static void leave(int status, void *ctx) {
  (void)ctx;
  call_leaver(status);
}
#else
/* The status is not known: as if all were well. */
static void leave(void) { call_leaver(0); }
#endif

void ty_dist_at_exit(void (*fn)(int status)) {
  if (nleavers == LEAVERS) return;
  at_exit[nleavers++] = fn;
  process = ty_system_process();
#ifdef __GLIBC__
  on_exit(leave, NULL);
#else
  atexit(leave);
#endif
}

/* --- abort() */

static struct {
  sigjmp_buf point;
  volatile sig_atomic_t armed;
  pthread_t thread;
  struct sigaction before;
} caught;

static void on_abort(int signal) {
  if (caught.armed && pthread_equal(pthread_self(), caught.thread)) {
    caught.armed = 0;
    siglongjmp(caught.point, 1);
  }
  if (caught.before.sa_handler != SIG_DFL && caught.before.sa_handler != SIG_IGN &&
      !(caught.before.sa_flags & SA_SIGINFO))
    caught.before.sa_handler(signal);
} /* abort() goes on where a handler returns */

void ty_dist_catch_abort(void) {
  struct sigaction a = {.sa_handler = on_abort, .sa_flags = SA_NODEFER};
  sigemptyset(&a.sa_mask);
  sigaction(SIGABRT, &a, &caught.before);
  setenv("UCX_HANDLE_ERRORS", "none",
         0); /* no backtrace of what is caught: UCX reads it when it is loaded */
}

sigjmp_buf *ty_dist_arm(void) {
  caught.thread = pthread_self();
  caught.armed = 1;
  return &caught.point;
}

int ty_dist_disarm(int y) {
  caught.armed = 0;
  return y;
}
