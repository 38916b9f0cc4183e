/*
** text.c -- a string that grows.
** In: pieces.  Out: one zero-terminated string. Fails when memory is exhausted: the text is then empty, and stays so.
*/
#include "base/system.h"
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
  int n = ty_system_vformat(NULL, 0, fmt, ap);
  va_end(ap);
  char *at = n > 0 ? ty_text_room(t, (size_t)n) : NULL;
  if (!at) return;
  va_start(ap, fmt);
  ty_system_vformat(at, (size_t)n + 1, fmt, ap);
  va_end(ap);
  t->n += (size_t)n;
}

const char *ty_text_str(const Text *t) { return t->s ? t->s : ""; }

void ty_text_free(Text *t) {
  ty_mem_free(t->s);
  *t = (Text){0};
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c; }

int ty_text_distance(const char *a, const char *b, int most) {
  int row[3][34], n = (int)strlen(a), m = (int)strlen(b);
  if (n > 32 || m > 32 || n - m > most || m - n > most) return most + 1;
  for (int j = 0; j <= m; j++) row[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *up2 = row[(i + 1) % 3], *up = row[(i + 2) % 3], *at = row[i % 3];
    at[0] = i;
    for (int j = 1; j <= m; j++) {
      int best = up[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
      best = TY_MIN(best, TY_MIN(up[j], at[j - 1]) + 1);
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1]))
        best = TY_MIN(best, up2[j - 2] + 1);
      at[j] = best;
    }
  }
  return row[n % 3][m];
}

void ty_text_nearer(const char *name, const char *candidate, int *best, const char **found) {
  int d = ty_text_distance(name, candidate, *best);
  if (d > *best || (d == *best && *found && strcmp(candidate, *found) > 0)) return;
  *best = d;
  *found = candidate;
}
