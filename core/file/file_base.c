/*
** file_base.c -- memory, messages, names.
** In: sizes, text. Out: memory, or a text in err that begins with the path. Fails when out of memory.
*/
#include "file/file.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* --- memory */

static _Atomic i64 starve_after = -1; /* allocations that still succeed; < 0: all */

void ty_file_starve(i64 after) { atomic_store(&starve_after, after); }

static bool starved(void) {
  if (TY_LIKELY(atomic_load_explicit(&starve_after, memory_order_relaxed) < 0)) return false;
  if (atomic_load(&starve_after) == 0) return true;
  atomic_fetch_sub(&starve_after, 1);
  return false;
}

void *ty_file_alloc(i64 n) {
  if (n < 0 || starved()) return NULL;
  return TY_UNLIKELY(ty_guarded) ? ty_guard_alloc((size_t)n, 16) : malloc(n ? (size_t)n : 1);
}

static void *checked_grow(void *p, size_t n) {
  void *y = ty_guard_alloc(n, 16);
  size_t old = y && p ? ty_guard_size(p) : 0;
  if (!y) return NULL;
  if (p) memcpy(y, p, TY_MIN(n, old));
  ty_guard_free(p);
  return y;
}

void *ty_file_grow(void *p, i64 n) {
  if (n < 0 || starved()) return NULL;
  return TY_UNLIKELY(ty_guarded) ? checked_grow(p, (size_t)n) : realloc(p, n ? (size_t)n : 1);
}

void ty_file_free(void *p) {
  if (TY_UNLIKELY(ty_guarded)) ty_guard_free(p);
  else free(p);
}

const void *ty_file_discard(const void *from, const void *end) {
  enum { SMALL_PAGE = 4096 };
  uintptr_t huge = (uintptr_t)FILE_PAGE, to = (uintptr_t)end / huge * huge;
  uintptr_t at = ((uintptr_t)from + SMALL_PAGE - 1) / SMALL_PAGE * SMALL_PAGE;
  if (to <= at) return from;
  ty_system_discard((void *)at, to - at); /* no harm where it is refused */
  return (const void *)to;
}

/* --- messages */

bool ty_file_fail(File *f, const char *fmt, ...) {
  va_list ap;
  const char *path = f->path ? f->path : "file";
  int n = snprintf(f->err, FILE_ERR, strlen(path) > 200 ? "%.200s...: " : "%s: ", path);
  va_start(ap, fmt);
  vsnprintf(f->err + n, (size_t)(FILE_ERR - n), fmt, ap);
  va_end(ap);
  return false;
}

bool ty_file_fail_memory(File *f, i64 bytes) {
  f->memory = true;
  if (bytes <= 0) return ty_file_fail(f, "out of memory");
  return ty_file_fail(f, "out of memory (%lld bytes)", (long long)bytes);
}

const char *ty_file_quote(const char *s, i64 n) {
  enum { SHOWN = 60, TURNS = 4 };
  static _Thread_local char text[TURNS][SHOWN * 4 + 8];
  static _Thread_local int turn;
  char *y = text[turn = (turn + 1) % TURNS], *p = y;
  *p++ = '"';
  for (i64 i = 0, step; i < n && i < SHOWN; i += step) {
    step = ty_file_utf8((const u8 *)s + i, n - i);
    if (step && (u8)s[i] >= 0x20 && s[i] != 0x7f) {
      memcpy(p, s + i, (size_t)step);
      p += step;
    } else {
      p += snprintf(p, 5, "\\x%02x", (u8)s[i]);
      step = 1;
    }
  }
  strcpy(p, n > SHOWN ? "...\"" : "\"");
  return y;
}

int ty_file_utf8(const u8 *s, i64 n) {
  if (n <= 0) return 0;
  if (s[0] < 0x80) return 1;
  int length = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 4;
  if (s[0] < 0xc2 || s[0] > 0xf4 || n < length) return 0;
  for (int i = 1; i < length; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if (s[0] == 0xe0 && s[1] < 0xa0) return 0; /* longer than it must be */
  if (s[0] == 0xed && s[1] > 0x9f) return 0; /* a surrogate */
  if (s[0] == 0xf0 && s[1] < 0x90) return 0;
  if (s[0] == 0xf4 && s[1] > 0x8f) return 0; /* above U+10FFFF */
  return length;
}

const char *ty_file_bad_name(const char *s, i64 n) {
  for (i64 i = 0, step; i < n; i += step) {
    if ((u8)s[i] < 0x20 || s[i] == 0x7f) return "holds a control character";
    if (!(step = ty_file_utf8((const u8 *)s + i, n - i))) return "is not UTF-8";
  }
  return NULL;
}

char *ty_file_copy_text(const char *s) {
  i64 n = (i64)strlen(s) + 1;
  char *y = ty_file_alloc(n);
  return y ? memcpy(y, s, (size_t)n) : NULL;
}

/* --- an end that is asked for */

static _Thread_local struct {
  FileStops *stops;
  void *ctx;
} watching;

void ty_file_watch(FileStops *stops, void *ctx) { watching.stops = stops, watching.ctx = ctx; }

bool ty_file_stops(void) { return watching.stops && watching.stops(watching.ctx); }

/* --- what is wrong with a draft */

bool ty_draft_fail(Draft *d, const char *what, int why) {
  snprintf(d->err, FILE_ERR, "%.250s: %s: %s", d->given, what, strerror(why));
  return false;
}

bool ty_draft_fail_memory(Draft *d, const char *path) {
  snprintf(d->err, FILE_ERR, "%.250s: out of memory", path);
  return false;
}
