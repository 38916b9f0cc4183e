/*
** library.c -- libraries of CUDA's toolkit, found when they are first wanted.
** In:  names; dims and their steps.  Out: a library whose functions were taken; lines for the user; the step over dims
** as one. No library is needed: who asks has another way.
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

bool ty_cuda_one_step(int n, const i64 *lead, const i64 *steps, i64 *y) {
  i64 next = -1;
  for (int d = n - 1; d >= 0; d--) {
    if (lead[d] == 1) continue;
    if (next < 0) *y = steps[d];
    else if (steps[d] != next) return false;
    next = steps[d] * lead[d];
  }
  return true;
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
