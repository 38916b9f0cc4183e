/*
** file_archive.c -- files of named tensors, whatever their format: entries, sizes, elements.
** In: an Archive that a format has filled. Out: elements as our dtypes have them.
** Fails when the file ends early, when a number has no place in our dtype, and when out of memory.
*/
#include "file/file.h"

#include <stdlib.h>

enum { CHUNK = 64 << 10 };

const FileCodeInfo ty_file_codes[E_COUNT] = {
#define _(NAME, n, bytes, dtype) [E_##NAME] = {n, bytes, dtype},
    FILE_CODES(_)
#undef _
};

static const u8 dtype_bytes[T_ALL] = {
#define _(NAME, name, bytes, kind, ctype) [T_##NAME] = bytes,
    TY_DTYPES(_) TY_COMPLEX_DTYPES(_)
#undef _
};

bool ty_entry_size(const Type *t, int code, i64 *numel, i64 *bytes) {
  const FileCodeInfo *c = &ty_file_codes[code];
  i64 n = 1, whole = dtype_bytes[c->dtype];
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] < 0) return false;
    /* Also the dims beside one of 0 must make a size that there could be. */
    if (!ty_mul(whole, TY_MAX(t->dims[d], 1), &whole) || whole > (i64)1 << 47) return false;
    n *= t->dims[d];
  }
  if (c->elements > 1 && (t->rank == 0 || t->dims[t->rank - 1] % c->elements)) return false;
  *numel = n;
  return ty_mul(n / c->elements, c->bytes, bytes);
}

int ty_entry_code(int dtype) {
  static const u8 codes[T_ALL] = {
      [T_BOOL] = E_BOOL, [T_U8] = E_U8,     [T_I8] = E_I8,     [T_I16] = E_I16, [T_I32] = E_I32,
      [T_I64] = E_I64,   [T_F16] = E_F16,   [T_BF16] = E_BF16, [T_F32] = E_F32, [T_F64] = E_F64,
      [T_C64] = E_C64,   [T_C128] = E_C128, [T_U16] = E_U16,   [T_U32] = E_U32, [T_U64] = E_U64};
  return codes[dtype];
}

Entry *ty_archive_add(Archive *a, const char *name, i64 length) {
  if (a->count == ENTRIES_MOST) {
    ty_file_fail(&a->file, "holds more than %d tensors", ENTRIES_MOST);
    return NULL;
  }
  if (a->count == a->room) {
    i64 room = a->room ? 2 * a->room : 16;
    Entry *entry = ty_file_grow(a->entry, room * (i64)sizeof *entry);
    if (!entry) {
      ty_file_fail_memory(&a->file, 0);
      return NULL;
    }
    a->entry = entry;
    a->room = room;
  }
  Entry *e = &a->entry[a->count++];
  memset(e, 0, sizeof *e);
  e->name = name;
  e->length = length;
  return e;
}

static int by_name(const void *p, const void *q) {
  const Entry *a = *(const Entry *const *)p, *b = *(const Entry *const *)q;
  int order = memcmp(a->name, b->name, (size_t)TY_MIN(a->length, b->length));
  return order ? order : (a->length > b->length) - (a->length < b->length);
}

bool ty_archive_unique(Archive *a) {
  const Entry **list = ty_file_alloc(a->count * (i64)sizeof *list);
  if (!list) return ty_file_fail_memory(&a->file, 0);
  for (i64 i = 0; i < a->count; i++) list[i] = &a->entry[i];
  qsort(list, (size_t)a->count, sizeof *list, by_name);
  const Entry *twice = NULL;
  for (i64 i = 1; i < a->count && !twice; i++)
    if (by_name(&list[i - 1], &list[i]) == 0) twice = list[i];
  ty_file_free(list);
  if (!twice) return true;
  return ty_file_fail(&a->file, "the name %s stands there twice",
                      ty_file_quote(twice->name, twice->length));
}

void ty_archive_close(Archive *a) {
  if (a->close) a->close(a);
  ty_head_close(&a->head);
  ty_file_close(&a->file);
  ty_file_free(a->entry);
  a->entry = NULL;
  a->count = a->room = 0;
  a->close = NULL;
}

/* --- elements */

static void swap_bytes(u8 *p, i64 n, int size) {
  for (i64 i = 0; i < n; i++, p += size)
    for (int k = 0; k < size / 2; k++) {
      u8 b = p[k];
      p[k] = p[size - 1 - k];
      p[size - 1 - k] = b;
    }
}

/* Elements that have the size of our own: in place. */
static void settle(const Entry *e, void *to, i64 n) {
  const FileCodeInfo *c = &ty_file_codes[e->code];
  const int width = ty_dtype_width(c->dtype); /* each part of a complex number by itself */
  if (e->swapped && c->bytes > 1) swap_bytes(to, n * width, c->bytes / width);
  if (e->code == E_BOOL) /* any other byte counts as true, as in NumPy */
    for (i64 i = 0; i < n; i++) ((u8 *)to)[i] = ((u8 *)to)[i] != 0;
}

bool ty_archive_decode(Archive *a, const Entry *e, StreamNext *next, void *ctx, void *to) {
  const FileCodeInfo *c = &ty_file_codes[e->code];
  i64 n, bytes, size = dtype_bytes[c->dtype];
  bool same = c->elements == 1 && c->bytes == size;
  if (!ty_entry_size(&e->type, e->code, &n, &bytes)) return ty_file_fail(&a->file, "too large");
  if (same && to) {
    if (!next(ctx, to, bytes)) return false;
    settle(e, to, n);
    return true;
  }
  u8 *chunk = ty_file_alloc(CHUNK);
  if (!chunk) return ty_file_fail_memory(&a->file, CHUNK);
  bool ok = true;
  for (i64 done = 0, most = CHUNK / c->bytes * c->elements; done < n && ok;) {
    i64 now = TY_MIN(n - done, most);
    ok = next(ctx, chunk, now / c->elements * c->bytes);
    if (!same && ok && to) ty_file_blocks(c, e->code, chunk, now, (float *)to + done);
    done += now;
  }
  ty_file_free(chunk);
  return ok;
}

typedef struct Span {
  File *f;
  i64 at;
} Span;

static bool span_next(void *ctx, void *to, i64 n) {
  Span *s = ctx;
  s->at += n;
  return ty_file_read(s->f, s->at - n, to, n);
}

bool ty_archive_read(Archive *a, const Entry *e, void *to) {
  if (e->why[0]) return ty_file_fail(&a->file, "%s %s", ty_file_quote(e->name, e->length), e->why);
  if (a->read) return a->read(a, e, to);
  Span s = {&a->file, e->at};
  return ty_archive_decode(a, e, span_next, &s, to);
}

bool ty_archive_check(Archive *a, const Entry *const *list, i64 count) {
  i64 total = 0;
  for (i64 i = 0; i < count; i++) {
    const Entry *e = list[i];
    i64 n, bytes;
    if (e->why[0]) return ty_archive_read(a, e, NULL);
    if (!ty_entry_size(&e->type, e->code, &n, &bytes) ||
        !ty_add(total, n * dtype_bytes[e->type.dtype], &total))
      return ty_file_fail(&a->file, "too large");
  }
  for (i64 i = 0; i < count && total > a->limit; i++)
    if (a->read && !ty_archive_read(a, list[i], NULL)) return false;
  return true;
}
