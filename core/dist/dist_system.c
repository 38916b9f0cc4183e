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

static void (*at_exit)(int);
static i64 process;

#ifdef __GLIBC__
static void leave(int status, void *ctx) {
  (void)ctx;
  if (process == ty_system_process()) at_exit(status);
}
#else
/* The status is not known: as if all were well. */
static void leave(void) {
  if (process == ty_system_process()) at_exit(0);
}
#endif

void ty_dist_at_exit(void (*fn)(int status)) {
  at_exit = fn;
  process = ty_system_process();
#ifdef __GLIBC__
  on_exit(leave, NULL);
#else
  atexit(leave);
#endif
}
