/*
** library.c -- libraries of CUDA's toolkit, found when they are first wanted.
** In:  names.  Out: a library whose functions were taken; lines for the user. None is needed: who asks has another way.
*/
#include "device/cuda/library.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"

bool ty_cuda_library(const char *variable, const char *const *usual, bool (*take)(void *library)) {
  const char *named = getenv(variable);
  const char *const only[] = {named, NULL};
  if (named && (!*named || !strcmp(named, "off"))) return false;
  for (const char *const *name = named ? only : usual; *name; name++) {
    const char *const one[] = {*name, NULL};
    void *library = ty_library_open(one);
    if (library && take(library)) return true;
  }
  return false;
}

void ty_cuda_say(const char *format, ...) {
  const char *log = getenv("TYCHO_LOG");
  char text[600];
  va_list args;
  if (ty_system_quiet || (log && !strcmp(log, "0"))) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "tycho: cuda: %s\n", text);
}
