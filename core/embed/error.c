/*
** error.c -- what went wrong, as text, for each thread.
** In: a code and a sentence. Out: the same, until the thread's next failure. Cannot fail.
*/
#include <stdarg.h>
#include <stdio.h>
#include "base/base.h"
#include "embed/handle.h"

enum { TEXT_MAX = 2048 };
static _Thread_local char text[TEXT_MAX];

ty_status ty_failed(ty_status status, const char *fmt, ...) {
  char fresh[TEXT_MAX]; /* arguments may lie in the old text */
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(fresh, sizeof fresh, fmt, ap);
  va_end(ap);
  memcpy(text, fresh, sizeof text);
  return status;
}

const char *ty_error(void) { return text; }

const char *ty_version(void) { return TY_VERSION; }

const char *ty_status_name(ty_status status) {
  static const char *const names[] = {"TY_OK",        "TY_INVALID",   "TY_CLOSED",  "TY_BUSY",
                                      "TY_NO_LUAJIT", "TY_NO_MEMORY", "TY_TIMEOUT", "TY_FAILED"};
  return (unsigned)status < TY_COUNT(names) ? names[status] : "unknown";
}
