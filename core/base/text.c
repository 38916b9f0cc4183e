/*
** text.c -- a string that grows.
** In: pieces.  Out: one zero-terminated string. Fails when memory is exhausted: the text is then empty, and stays so.
*/
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

char *ty_text_room(Text *t, size_t n) {
  if (t->failed) return NULL;
  if (t->cap - t->n <= n) {
    size_t cap = TY_MAX(t->n + n + 1, TY_MAX(t->cap * 2, (size_t)256));
    char *s = ty_mem_realloc(t->s, cap);
    if (!s) {
      ty_text_free(t);
      t->failed = true;
      return NULL;
    }
    t->s = s;
    t->cap = cap;
  }
  return t->s + t->n;
}

void ty_text_add(Text *t, const char *s, size_t n) {
  char *at = ty_text_room(t, n);
  if (!at) return;
  memcpy(at, s, n);
  at[n] = 0;
  t->n += n;
}

void ty_text_printf(Text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *at = n > 0 ? ty_text_room(t, (size_t)n) : NULL;
  if (!at) return;
  va_start(ap, fmt);
  vsnprintf(at, (size_t)n + 1, fmt, ap);
  va_end(ap);
  t->n += (size_t)n;
}

const char *ty_text_str(const Text *t) { return t->s ? t->s : ""; }

void ty_text_free(Text *t) {
  ty_mem_free(t->s);
  *t = (Text){0};
}
