/*
** file_gguf.c -- GGUF, versions 2 and 3: metadata, tensors of whole or quantised numbers.
** In: an open file. Out: entries; the place of the metadata, which ty_gguf_value walks again.
** Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; where that is silent, what ggml
** itself refuses is refused: tensors lie one behind the other, each begun at a multiple of the
** alignment, in the order of their descriptions; no name stands twice.
** Dims are stored innermost first: ours are in the other order.
*/
#include "file/file.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_MOST = 64, DIMS_MOST = 4, NO_CODE = 255 };

/* ggml's types by number: numbers in a block, its bytes. */
static const struct {
  const char *name; /* NULL: there is none of this number */
  u16 elements, bytes;
  u8 code;
} types[] = {
    [0] = {"F32", 1, 4, E_F32},
    [1] = {"F16", 1, 2, E_F16},
    [2] = {"Q4_0", 32, 18, E_Q4_0},
    [3] = {"Q4_1", 32, 20, E_Q4_1},
    [6] = {"Q5_0", 32, 22, E_Q5_0},
    [7] = {"Q5_1", 32, 24, E_Q5_1},
    [8] = {"Q8_0", 32, 34, E_Q8_0},
    [9] = {"Q8_1", 32, 40, NO_CODE},
    [10] = {"Q2_K", 256, 84, NO_CODE},
    [11] = {"Q3_K", 256, 110, NO_CODE},
    [12] = {"Q4_K", 256, 144, E_Q4_K},
    [13] = {"Q5_K", 256, 176, E_Q5_K},
    [14] = {"Q6_K", 256, 210, E_Q6_K},
    [15] = {"Q8_K", 256, 292, NO_CODE},
    [16] = {"IQ2_XXS", 256, 66, NO_CODE},
    [17] = {"IQ2_XS", 256, 74, NO_CODE},
    [18] = {"IQ3_XXS", 256, 98, NO_CODE},
    [19] = {"IQ1_S", 256, 50, NO_CODE},
    [20] = {"IQ4_NL", 32, 18, NO_CODE},
    [21] = {"IQ3_S", 256, 110, NO_CODE},
    [22] = {"IQ2_S", 256, 82, NO_CODE},
    [23] = {"IQ4_XS", 256, 136, NO_CODE},
    [24] = {"I8", 1, 1, E_I8},
    [25] = {"I16", 1, 2, E_I16},
    [26] = {"I32", 1, 4, E_I32},
    [27] = {"I64", 1, 8, E_I64},
    [28] = {"F64", 1, 8, E_F64},
    [29] = {"IQ1_M", 256, 56, NO_CODE},
    [30] = {"BF16", 1, 2, E_BF16},
    [34] = {"TQ1_0", 256, 54, NO_CODE},
    [35] = {"TQ2_0", 256, 66, NO_CODE},
    [39] = {"MXFP4", 32, 17, NO_CODE},
    [40] = {"NVFP4", 64, 36, NO_CODE},
    [41] = {"Q1_0", 128, 18, NO_CODE},
};

/* Bytes of a value by its type; 0: not fixed. */
static const u8 value_bytes[GGUF_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};

typedef struct GgufWalk {
  File *f;
  Head *h;
  i64 cost;  /* bytes that metadata will take as Lua's values, about */
  u32 align; /* as found on the way */
  i64 budget;
} GgufWalk;

/* A length and so many bytes; the length must be in the file before anything is done about it. */
static const u8 *take_string(Head *h, i64 *n, const char *what) {
  u64 length;
  if (!ty_head_u64(h, &length, what)) return NULL;
  *n = length > INT64_MAX ? INT64_MAX : (i64)length;
  return ty_head_take(h, *n, what);
}

bool ty_gguf_value(Head *h, u32 type, GgufValue *v) {
  static const char what[] = "a value of the metadata";
  *v = (GgufValue){.type = type};
  if (type >= GGUF_TYPES) return ty_file_fail(h->f, "a value of the unknown type %u", type);
  if (type == GGUF_STRING) return (v->bytes = take_string(h, &v->n, what)) != NULL;
  if (type != GGUF_ARRAY) return (v->bytes = ty_head_take(h, value_bytes[type], what)) != NULL;
  u64 n;
  if (!ty_head_u32(h, &v->element, what) || !ty_head_u64(h, &n, what)) return false;
  if (v->element >= GGUF_TYPES)
    return ty_file_fail(h->f, "a value of the unknown type %u", v->element);
  i64 least = v->element == GGUF_STRING  ? 8
              : v->element == GGUF_ARRAY ? 12
                                         : value_bytes[v->element];
  if (n > (u64)(h->f->size - h->at) / (u64)least)
    return ty_file_fail(h->f, "an array of %llu elements, more than the file has room for",
                        (unsigned long long)n);
  v->n = (i64)n;
  return true;
}

#define ARRAY_MOST ((i64)1 << 26) /* elements of a Lua table */

static bool spend(GgufWalk *w, i64 bytes) {
  w->cost += bytes;
  if (w->cost <= w->budget + w->f->size && bytes <= 8 * ARRAY_MOST) return true;
  return ty_file_fail(w->f, "its metadata take too much memory");
}

/* Passes over a value; arrays in arrays by a stack of what is left of each. */
static bool pass_value(GgufWalk *w, u32 type) {
  struct {
    u32 element;
    i64 left;
  } stack[GGUF_DEPTH];
  int depth = 0;
  for (;;) {
    GgufValue v;
    if (!ty_gguf_value(w->h, type, &v)) return false;
    if (!spend(w, type == GGUF_STRING ? 48 + v.n : type == GGUF_ARRAY ? 80 : 8)) return false;
    if (type == GGUF_ARRAY && value_bytes[v.element]) {
      if (!spend(w, 8 * v.n)) return false;
      if (!ty_head_take(w->h, v.n * value_bytes[v.element], "an array")) return false;
    } else if (type == GGUF_ARRAY) {
      if (depth == GGUF_DEPTH) return ty_file_fail(w->f, "arrays nested too deep");
      stack[depth].element = v.element;
      stack[depth++].left = v.n;
    }
    while (depth && stack[depth - 1].left == 0) depth--;
    if (!depth) return true;
    stack[depth - 1].left--;
    type = stack[depth - 1].element;
  }
}

/* --- metadata: entries stand in for the keys, so that they are compared by the same words */

static bool pass_pair(GgufWalk *w, Archive *keys) {
  i64 n;
  u32 type;
  const char *name = (const char *)take_string(w->h, &n, "a key of the metadata");
  if (!name) return false;
  const char *bad = ty_file_bad_name(name, n);
  if (bad) return ty_file_fail(w->f, "the key %s %s", ty_file_quote(name, n), bad);
  bool align = n == 17 && !memcmp(name, "general.alignment", 17);
  Entry *e = ty_archive_add(keys, NULL, n);
  if (!e && keys->file.memory) return ty_file_fail_memory(w->f, 0);
  if (!e) return ty_file_fail(w->f, "more than %d entries of metadata", ENTRIES_MOST);
  e->at = w->h->at - n;
  if (!spend(w, 80 + n) || !ty_head_u32(w->h, &type, "the type of a value")) return false;
  i64 at = w->h->at;
  if (!pass_value(w, type)) return false;
  if (!align) return true;
  if (type != GGUF_U32) return ty_file_fail(w->f, "general.alignment must be a u32");
  memcpy(&w->align, w->h->data + at, 4);
  if (w->align == 0 || w->align & (w->align - 1))
    return ty_file_fail(w->f, "general.alignment is %u, no power of two", w->align);
  return true;
}

/* The head may have moved while it grew: names are set when all of it is there. */
static void name_entries(Archive *a, const Head *h) {
  for (i64 i = 0; i < a->count; i++) a->entry[i].name = (const char *)h->data + a->entry[i].at;
}

static bool read_metadata(GgufWalk *w, Archive *a, u64 count) {
  Archive keys = {.file = {.path = a->file.path, .fd = -1}};
  bool ok = true;
  a->meta_at = w->h->at;
  a->meta_count = (i64)count;
  for (u64 i = 0; i < count && ok; i++) ok = pass_pair(w, &keys);
  if (ok) {
    name_entries(&keys, w->h);
    ok = ty_archive_unique(&keys);
    if (!ok) memcpy(a->file.err, keys.file.err, FILE_ERR);
  }
  ty_file_free(keys.entry);
  return ok;
}

/* --- tensors */

static bool read_dims(Archive *a, Entry *e, const char *name, i64 *numel) {
  Head *h = &a->head;
  u32 rank;
  *numel = 1;
  if (!ty_head_u32(h, &rank, "the dims of a tensor")) return false;
  if (rank > DIMS_MOST) return ty_file_fail(&a->file, "%s: %u dims", name, rank);
  for (u32 d = 0; d < rank; d++) {
    u64 v;
    if (!ty_head_u64(h, &v, "the dims of a tensor")) return false;
    i64 dim = v > INT64_MAX ? -1 : (i64)v;
    if (dim < 0 || !ty_mul(*numel, dim, numel))
      return ty_file_fail(&a->file, "%s: its shape overflows", name);
    e->type.dims[rank - 1 - d] = dim;
  }
  e->type.rank = (u8)rank;
  return true;
}

/* The bytes that a tensor takes by its type and dims. */
static bool size_tensor(Archive *a, Entry *e, const char *name, u32 type, i64 numel) {
  i64 n, row = e->type.rank ? e->type.dims[e->type.rank - 1] : 1;
  if (type >= (u32)TY_COUNT(types) || !types[type].name)
    return ty_file_fail(&a->file, "%s: its type %u is not known", name, type);
  if (row % types[type].elements)
    return ty_file_fail(&a->file, "%s: %lld numbers in a row are no whole blocks of %s", name,
                        (long long)row, types[type].name);
  if (!ty_mul(numel / types[type].elements, types[type].bytes, &e->bytes))
    return ty_file_fail(&a->file, "%s: its shape overflows", name);
  e->code = types[type].code;
  if (e->code == NO_CODE) {
    snprintf(e->why, sizeof e->why, "is of the type %s, which is not read", types[type].name);
    e->code = E_U8;
  }
  e->type.dtype = ty_file_codes[e->code].dtype;
  i64 bytes;
  return e->why[0] || ty_entry_size(&e->type, e->code, &n, &bytes) ||
         ty_file_fail(&a->file, "%s: its shape is larger than any memory", name);
}

/* One description. expected: where its elements begin behind the start of all, and where the next
** ones do. */
static bool read_tensor(Archive *a, u32 align, i64 *expected) {
  Head *h = &a->head;
  i64 n, numel;
  u32 type;
  u64 offset;
  char name[4 * NAME_MOST + 16];
  const char *s = (const char *)take_string(h, &n, "the name of a tensor");
  if (!s) return false;
  const char *bad = n > NAME_MOST ? "is too long" : ty_file_bad_name(s, n);
  if (bad) return ty_file_fail(&a->file, "the name %s %s", ty_file_quote(s, n), bad);
  snprintf(name, sizeof name, "%s", ty_file_quote(s, n));
  Entry *e = ty_archive_add(a, NULL, n);
  if (!e) return false;
  e->at = h->at - n; /* of the name: see name_entries */
  if (!read_dims(a, e, name, &numel) || !ty_head_u32(h, &type, "the type of a tensor") ||
      !size_tensor(a, e, name, type, numel) || !ty_head_u64(h, &offset, "the place of a tensor"))
    return false;
  if (offset != (u64)*expected)
    return ty_file_fail(&a->file, "%s: begins at %llu, expected at %lld", name,
                        (unsigned long long)offset, (long long)*expected);
  i64 end;
  if (!ty_add(*expected, e->bytes, &end) || !ty_add(end, align - 1, &end))
    return ty_file_fail(&a->file, "%s: its shape overflows", name);
  *expected = end & -(i64)align;
  return true;
}

/* Names and places, now that the start of the elements is known. */
static bool place_tensors(Archive *a, u32 align) {
  File *f = &a->file;
  i64 at = 0, begin;
  if (!ty_add(a->head.at, align - 1, &begin)) return ty_file_fail(f, "general.alignment");
  begin &= -(i64)align;
  name_entries(a, &a->head);
  for (i64 i = 0; i < a->count; i++) {
    Entry *e = &a->entry[i];
    if (begin > f->size || at > f->size - begin || e->bytes > f->size - begin - at)
      return ty_file_fail(f, "%s: needs %lld bytes, the file ends at byte %lld",
                          ty_file_quote(e->name, e->length), (long long)e->bytes,
                          (long long)f->size);
    e->at = begin + at;
    at = (at + e->bytes + align - 1) & -(i64)align;
  }
  return ty_archive_unique(a);
}

bool ty_gguf_open(Archive *a) {
  File *f = &a->file;
  Head *h = &a->head;
  u32 version;
  u64 tensors, pairs;
  ty_head_open(h, f);
  const u8 *magic = ty_head_take(h, 4, "its first bytes");
  if (!magic) return false;
  if (memcmp(magic, "GGUF", 4)) return ty_file_fail(f, "is no GGUF file (its first bytes differ)");
  if (!ty_head_u32(h, &version, "the version")) return false;
  if (version && !(version & 0xffffff))
    return ty_file_fail(f, "was written for machines with the most significant byte first");
  if (version != 2 && version != 3) return ty_file_fail(f, "GGUF version %u is not read", version);
  if (!ty_head_u64(h, &tensors, "the number of tensors") ||
      !ty_head_u64(h, &pairs, "the number of metadata"))
    return false;
  /* A name may be empty: 24 bytes a tensor, 13 a pair, at least. */
  if (tensors > (u64)f->size / 24 || pairs > (u64)f->size / 13)
    return ty_file_fail(f, "%llu tensors and %llu metadata, more than the file has room for",
                        (unsigned long long)tensors, (unsigned long long)pairs);
  GgufWalk w = {.f = f, .h = h, .align = 32, .budget = FILE_SPARE / 8 * 7};
  if (!read_metadata(&w, a, pairs)) return false;
  i64 expected = 0;
  for (u64 i = 0; i < tensors; i++)
    if (!read_tensor(a, w.align, &expected)) return false;
  if (w.cost > w.budget + f->size - h->at) /* the head itself is in memory too */
    return ty_file_fail(f, "its metadata take too much memory");
  return place_tensors(a, w.align);
}
