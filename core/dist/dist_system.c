/*
** dist_system.c -- what the messages between ranks ask the operating system.
*/
#include "dist/dist.h"
#include "base/system.h"

#include <dlfcn.h>
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
