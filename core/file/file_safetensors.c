/*
** file_safetensors.c -- safetensors: 8 bytes of length, a JSON header, the elements.
** In: an open file. Out: entries in the order of the header, metadata (pairs of texts).
** Format: https://github.com/huggingface/safetensors. What its rules refuse is refused: the header
** begins with { and has at most 100 MB; ranges tile the rest of the file without holes or overlaps;
** sizes agree with shape and dtype; no key stands twice. Names are also free of control characters.
** Dtypes and ranks that are good there but not here refuse the one tensor, not the file.
*/
#include "file/file.h"

#include <stdio.h>
#include <stdlib.h>

#define HEADER_MOST 100000000

enum { NO_CODE = 255 };

/* In the order in which writers sort: see files.lua. */
static const struct {
  const char *name;
  u8 bits, code;
} dtypes[] = {
    {"BOOL", 8, E_BOOL},
    {"F4", 4, NO_CODE},
    {"F6_E2M3", 6, NO_CODE},
    {"F6_E3M2", 6, NO_CODE},
    {"U8", 8, E_U8},
    {"I8", 8, E_I8},
    {"F8_E5M2", 8, NO_CODE},
    {"F8_E4M3", 8, NO_CODE},
    {"F8_E8M0", 8, NO_CODE},
    {"F8_E4M3FNUZ", 8, NO_CODE},
    {"F8_E5M2FNUZ", 8, NO_CODE},
    {"I16", 16, E_I16},
    {"U16", 16, E_U16},
    {"F16", 16, E_F16},
    {"BF16", 16, E_BF16},
    {"I32", 32, E_I32},
    {"U32", 32, E_U32},
    {"F32", 32, E_F32},
    {"C64", 64, E_C64},
    {"F64", 64, E_F64},
    {"I64", 64, E_I64},
    {"U64", 64, E_U64},
};

typedef struct Header {
  Archive *a;
  Json j;
  i64 text; /* bytes of names and metadata */
} Header;

static bool header_fail(Header *h, const char *what) {
  if (h->j.err[0]) return ty_file_fail(&h->a->file, "the header: %s", h->j.err);
  return ty_file_fail(&h->a->file, "the header: %s at byte %lld", what,
                      (long long)(h->j.p - h->j.begin));
}

static bool entry_fail(Header *h, const Entry *e, const char *what) {
  if (h->j.err[0]) return header_fail(h, what);
  return ty_file_fail(&h->a->file, "%s: %s", ty_file_quote(e->name, e->length), what);
}

static bool add_text(Header *h, i64 n) {
  h->text += n;
  return h->text <= TEXT_MOST ||
         ty_file_fail(&h->a->file, "more than %d MB of names and metadata", (int)(TEXT_MOST >> 20));
}

static bool expect(Header *h, JsonToken t, const char *what) {
  return ty_json_next(&h->j) == t || header_fail(h, what);
}

/* Which of the dtypes; -1: none of them. */
static int find_dtype(const Json *j) {
  for (int i = 0; i < TY_COUNT(dtypes); i++)
    if (j->n == (i64)strlen(dtypes[i].name) && !memcmp(j->s, dtypes[i].name, (size_t)j->n))
      return i;
  return -1;
}

/* [2, 3]: dims beyond MAX_RANK only count. numel < 0: too many. */
static bool read_shape(Header *h, Entry *e, i64 *rank, i64 *numel) {
  JsonToken t;
  if (!expect(h, J_ARRAY, "shape must be a list")) return false;
  for (*rank = 0, *numel = 1; (t = ty_json_next(&h->j)) == J_NUMBER; ++*rank) {
    i64 v;
    if (!ty_json_whole(&h->j, &v)) return entry_fail(h, e, "shape must hold whole numbers");
    if (*rank < MAX_RANK) e->type.dims[*rank] = v;
    if (*numel >= 0 && !ty_mul(*numel, v, numel)) *numel = -1;
  }
  e->type.rank = (u8)TY_MIN(*rank, MAX_RANK);
  return t == J_ARRAY_END || entry_fail(h, e, "shape must hold whole numbers");
}

static bool read_offsets(Header *h, Entry *e) {
  i64 v[2];
  if (!expect(h, J_ARRAY, "data_offsets must be a list")) return false;
  for (int i = 0; i < 2; i++)
    if (ty_json_next(&h->j) != J_NUMBER || !ty_json_whole(&h->j, &v[i]))
      return entry_fail(h, e, "data_offsets must be two whole numbers");
  if (ty_json_next(&h->j) != J_ARRAY_END)
    return entry_fail(h, e, "data_offsets must be two whole numbers");
  if (v[1] < v[0]) return entry_fail(h, e, "data_offsets run backwards");
  e->at = v[0];
  e->bytes = v[1] - v[0];
  return true;
}

/* Sizes by shape and dtype against the bytes that data_offsets give. */
static bool check_entry(Header *h, Entry *e, int dtype, i64 rank, i64 numel) {
  i64 bits, n, bytes;
  if (numel < 0 || !ty_mul(numel, dtypes[dtype].bits, &bits))
    return entry_fail(h, e, "its shape overflows");
  if (bits % 8 || bits / 8 != e->bytes)
    return entry_fail(h, e, "shape and dtype do not make the bytes of data_offsets");
  e->code = dtypes[dtype].code;
  if (e->code == NO_CODE) {
    snprintf(e->why, sizeof e->why, "is of the dtype %s, which is not read", dtypes[dtype].name);
    e->code = E_U8;
  } else if (rank > MAX_RANK) {
    snprintf(e->why, sizeof e->why, "has %lld dims, at most %d are read", (long long)rank,
             MAX_RANK);
  }
  e->type.dtype = ty_file_codes[e->code].dtype;
  if (!e->why[0] && !ty_entry_size(&e->type, e->code, &n, &bytes))
    return entry_fail(h, e, "its shape is larger than any memory");
  return true;
}

static bool is_key(const Json *j, const char *name) {
  return j->n == (i64)strlen(name) && !memcmp(j->s, name, (size_t)j->n);
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...}; other keys are passed over. */
static bool read_entry(Header *h) {
  enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
  const char *bad = ty_file_bad_name(h->j.s, h->j.n);
  if (bad) return ty_file_fail(&h->a->file, "the name %s %s", ty_file_quote(h->j.s, h->j.n), bad);
  Entry *e = ty_archive_add(h->a, h->j.s, h->j.n);
  int seen = 0, dtype = -1;
  i64 rank = 0, numel = 1;
  JsonToken t;
  if (!e || !add_text(h, h->j.n)) return false;
  if (ty_json_next(&h->j) != J_OBJECT) return entry_fail(h, e, "must be an object");
  while ((t = ty_json_next(&h->j)) == J_KEY) {
    int which = is_key(&h->j, "dtype")          ? DTYPE
                : is_key(&h->j, "shape")        ? SHAPE
                : is_key(&h->j, "data_offsets") ? OFFSETS
                                                : 0;
    if (seen & which) return entry_fail(h, e, "a key stands there twice");
    seen |= which;
    if (which == SHAPE) {
      if (!read_shape(h, e, &rank, &numel)) return false;
    } else if (which == OFFSETS) {
      if (!read_offsets(h, e)) return false;
    } else if (which == DTYPE) {
      if (ty_json_next(&h->j) != J_STRING || (dtype = find_dtype(&h->j)) < 0)
        return entry_fail(h, e, "its dtype is not known");
    } else if (!ty_json_skip(&h->j, ty_json_next(&h->j))) {
      return header_fail(h, "");
    }
  }
  if (t != J_OBJECT_END) return header_fail(h, "");
  if (seen != (DTYPE | SHAPE | OFFSETS))
    return entry_fail(h, e, "dtype, shape or data_offsets is missing");
  return check_entry(h, e, dtype, rank, numel);
}

/* --- metadata */

static bool add_pair(Archive *a, const char *key, i64 n, const char *value, i64 m) {
  Metadata *meta = a->inside;
  if (a->meta_count == ENTRIES_MOST)
    return ty_file_fail(&a->file, "more than %d entries of metadata", ENTRIES_MOST);
  if ((a->meta_count & (a->meta_count - 1)) == 0) { /* full: 0, 1, 2, 4 ... */
    meta = ty_file_grow(meta, TY_MAX(2 * a->meta_count, 1) * (i64)sizeof *meta);
    if (!meta) return ty_file_fail_memory(&a->file, 0);
    a->inside = meta;
  }
  meta[a->meta_count++] = (Metadata){key, value, n, m};
  return true;
}

static int by_key(const void *p, const void *q) {
  const Metadata *a = p, *b = q;
  int order = memcmp(a->key, b->key, (size_t)TY_MIN(a->n, b->n));
  return order ? order : (a->n > b->n) - (a->n < b->n);
}

static bool read_metadata(Header *h) {
  JsonToken t = ty_json_next(&h->j);
  if (t == J_NULL) return true;
  if (t != J_OBJECT) return header_fail(h, "__metadata__ must be an object");
  while ((t = ty_json_next(&h->j)) == J_KEY) {
    const char *key = h->j.s;
    i64 n = h->j.n;
    if (!expect(h, J_STRING, "metadata must be texts")) return false;
    if (!add_text(h, n + h->j.n) || !add_pair(h->a, key, n, h->j.s, h->j.n)) return false;
  }
  if (t != J_OBJECT_END) return header_fail(h, "");
  Metadata *meta = h->a->inside;
  if (meta) qsort(meta, (size_t)h->a->meta_count, sizeof *meta, by_key);
  for (i64 i = 1; i < h->a->meta_count; i++)
    if (by_key(&meta[i - 1], &meta[i]) == 0)
      return ty_file_fail(&h->a->file, "the metadata %s stand there twice",
                          ty_file_quote(meta[i].key, meta[i].n));
  return true;
}

/* --- the file */

static bool read_header(Header *h) {
  JsonToken t;
  bool metadata = false;
  if (!expect(h, J_OBJECT, "no object")) return false;
  while ((t = ty_json_next(&h->j)) == J_KEY) {
    if (is_key(&h->j, "__metadata__")) {
      if (metadata) return header_fail(h, "__metadata__ stands there twice");
      metadata = true;
      if (!read_metadata(h)) return false;
    } else if (!read_entry(h)) {
      return false;
    }
  }
  if (t != J_OBJECT_END || ty_json_next(&h->j) != J_END) return header_fail(h, "");
  return ty_archive_unique(h->a);
}

static int by_place(const void *p, const void *q) {
  const Entry *a = *(const Entry *const *)p, *b = *(const Entry *const *)q;
  if (a->at != b->at) return a->at < b->at ? -1 : 1;
  return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* The ranges must tile the `room` bytes behind the header. */
static bool check_tiling(Archive *a, i64 room) {
  i64 at = 0;
  const Entry **list = ty_file_alloc(a->count * (i64)sizeof *list);
  if (!list) return ty_file_fail_memory(&a->file, 0);
  for (i64 i = 0; i < a->count; i++) list[i] = &a->entry[i];
  qsort(list, (size_t)a->count, sizeof *list, by_place);
  const Entry *bad = NULL;
  for (i64 i = 0; i < a->count && !bad; i++) {
    if (list[i]->at != at || list[i]->bytes > room - at) bad = list[i];
    else at += list[i]->bytes;
  }
  ty_file_free(list);
  if (bad)
    return ty_file_fail(&a->file, "%s: its data_offsets %s", ty_file_quote(bad->name, bad->length),
                        bad->at < at   ? "overlap those of another"
                        : bad->at > at ? "leave a hole before them"
                                       : "lie behind the end of the file");
  return at == room ||
         ty_file_fail(&a->file, "%lld bytes behind the last tensor", (long long)(room - at));
}

static void safetensors_close(Archive *a) {
  ty_file_free(a->inside);
  a->inside = NULL;
}

bool ty_safetensors_open(Archive *a) {
  File *f = &a->file;
  u64 length;
  a->close = safetensors_close;
  if (f->size < 8)
    return ty_file_fail(f, "is no safetensors file (%lld bytes)", (long long)f->size);
  if (!ty_file_read(f, 0, &length, 8)) return false;
  if (length > HEADER_MOST)
    return ty_file_fail(f, "is no safetensors file: a header of %llu bytes, at most %d are read",
                        (unsigned long long)length, HEADER_MOST);
  i64 n = (i64)length;
  if (n > f->size - 8)
    return ty_file_fail(f, "ends at byte %lld, within the header of %lld bytes", (long long)f->size,
                        (long long)n);
  /* A copy: texts are decoded in place. */
  a->head = (Head){.f = f, .data = ty_file_alloc(n), .room = TY_MAX(n, 1)};
  if (!a->head.data) return ty_file_fail_memory(f, n);
  if (!ty_file_read(f, 8, a->head.data, n)) return false;
  if (n == 0 || a->head.data[0] != '{')
    return ty_file_fail(f, "is no safetensors file: the header must begin with {");
  Header h = {.a = a};
  ty_json_open(&h.j, (char *)a->head.data, n);
  if (!read_header(&h) || !check_tiling(a, f->size - 8 - n)) return false;
  for (i64 i = 0; i < a->count; i++) a->entry[i].at += 8 + n;
  return true;
}
