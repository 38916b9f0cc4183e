/*
** fuzz_files.c -- libFuzzer targets of the file formats, one for each value of FORMAT.
** In: any bytes. Out: nothing; a sanitizer or a failed claim ends the process.
** Claims beyond "no crash": a file that is refused has a message; the elements of one that is taken
** lie within it; a parser takes no more memory than the file's size and 64 MB (checked by the limit
** that the fuzzer runs under).
*/
#include <stdio.h>
#include <stdlib.h>

#include "../core/file.h"

enum { NPY, NPZ, SAFETENSORS, GGUF, JSON };

static bool (*const open_archive[])(Archive *) = {ty_npy_open, ty_npz_open, ty_safetensors_open,
                                                  ty_gguf_open};

static void claim(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "claim does not hold: %s\n", what);
  abort();
}

/* Walks the metadata of GGUF as the binding does, without recursion. */
static void walk_metadata(Archive *a) {
  Head h = a->head;
  h.at = a->meta_at;
  for (i64 i = 0; i < a->meta_count; i++) {
    GgufValue v;
    u32 type;
    claim(ty_gguf_value(&h, GGUF_STRING, &v), "a key is there");
    claim(ty_head_u32(&h, &type, "a type"), "a type is there");
    struct {
      u32 element;
      i64 left;
    } stack[GGUF_DEPTH + 1]; /* those of numbers are not counted */
    int depth = 0;
    for (;;) {
      claim(ty_gguf_value(&h, type, &v), "a value is there");
      if (type == GGUF_ARRAY) {
        claim(depth <= GGUF_DEPTH, "arrays are not nested too deep");
        stack[depth].element = v.element;
        stack[depth++].left = v.n;
      }
      while (depth && stack[depth - 1].left == 0) depth--;
      if (!depth) break;
      stack[depth - 1].left--;
      type = stack[depth - 1].element;
    }
  }
}

static void read_entries(Archive *a) {
  static const u8 bytes[T_COUNT] = {
#define _(NAME, name, bytes, kind, ctype) [T_##NAME] = bytes,
      TY_DTYPES(_)
#undef _
  };
  for (i64 i = 0; i < a->count; i++) {
    const Entry *e = &a->entry[i];
    i64 n = 1;
    claim(!ty_file_bad_name(e->name, e->length), "names are good");
    if (e->why[0]) continue;
    for (int d = 0; d < e->type.rank; d++) n *= e->type.dims[d];
    claim(n >= 0, "sizes do not overflow");
    if (n > 1 << 24) continue; /* blocks of 4 bits become 32: reading all takes long */
    void *to = malloc((size_t)(n * bytes[e->type.dtype]) + 1);
    if (to && !ty_archive_read(a, e, to)) claim(a->file.err[0], "a refusal says why");
    free(to);
  }
}

static void run_json(const u8 *data, size_t size) {
  char *text = malloc(size + 1);
  Json j;
  JsonToken t;
  memcpy(text, data, size);
  ty_json_open(&j, text, (i64)size);
  do {
    t = ty_json_next(&j);
    if (t == J_KEY || t == J_STRING || t == J_NUMBER)
      for (i64 i = 0, n; i < j.n; i += n) {
        n = ty_file_utf8((const u8 *)j.s + i, j.n - i);
        claim(n > 0, "texts are UTF-8");
      }
  } while (t != J_ERROR && t != J_END);
  claim(t == J_END || j.err[0], "a refusal says why");
  free(text);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
  if (FORMAT == JSON) {
    run_json(data, size);
    return 0;
  }
  Archive a = {.limit = (i64)size + FILE_SPARE};
  if (!ty_file_memory(&a.file, "fuzz", data, (i64)size)) return 0;
  if (open_archive[FORMAT % 4](&a)) {
    if (FORMAT == GGUF) walk_metadata(&a);
    read_entries(&a);
  } else {
    claim(a.file.err[0], "a refusal says why");
  }
  ty_archive_close(&a);
  return 0;
}
