/*
** fuzz_files.c -- libFuzzer targets of the file formats, one for each value of FORMAT.
** In: any bytes. Out: nothing; a sanitizer or a failed claim ends the process.
** Claims beyond "no crash": a file that is refused has a message; the elements of one that is taken
** lie within it; a parser takes no more memory than the file's size and 64 MB (checked by the limit
** that the fuzzer runs under).
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "file/file.h"
#include "file/file_csv.h"
#include "file/file_image.h"

enum { NPY, NPZ, SAFETENSORS, GGUF, JSON, CSV, PNM, PNG, JPEG };

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

/* A table, read as the binding does: guesses, numbers, then a walk over all fields. The size chooses options. */
static void run_csv(const u8 *data, size_t size) {
  File f = {.fd = -1};
  CsvOptions o = {.header = (i8)(size % 3) - 1, .missing = "NA\0nan\0", .floats = CSV_F32};
  if (size % 5 == 0) o.comment = '#', o.point = ',', o.delimiter = ';';
  if (size % 7 == 0) o.plain = true, o.floats = CSV_F64;
  o.fill = size % 4 == 0 ? 1 : size % 4 == 1 ? -1 : NAN;
  Csv c;
  if (!ty_file_memory(&f, "fuzz", data, (i64)size)) return;
  bool ok = ty_csv_open(&c, &f, &o) && ty_csv_rows(&c);
  char *to = NULL;
  if (ok) {
    claim(c.rows * c.columns <= (i64)size + c.rows + 1, "each field takes a byte");
    to = malloc((size_t)(c.rows * c.columns * 8) + 1);
    if (size % 6 == 0) c.column[0].kind = CSV_BOOL, c.column[0].fixed = true;
    ok = ty_csv_guess(&c);
  }
  CsvResult result = CSV_AGAIN;
  for (int pass = 0; ok && result == CSV_AGAIN; pass++) {
    claim(pass < 2, "two passes suffice");
    for (int j = 0; j < c.columns; j++) {
      c.column[j].to = to + (i64)j * 8;
      c.column[j].stride = (i64)c.columns * 8;
    }
    result = ty_csv_parse(&c);
    ok = result != CSV_FAILED;
  }
  if (ok) {
    CsvCursor at = c.body;
    CsvField x;
    i64 rows = 0;
    for (; ty_csv_next(&c, &at); rows++)
      for (int j = 0; j < c.columns; j++) {
        claim(ty_csv_field(&c, &at, &x) == (j + 1 < c.columns), "rows have the header's columns");
        ty_csv_unquote(&x);
        claim(x.p >= c.text && x.p + x.n <= c.end, "fields lie in the text");
      }
    claim(rows == c.rows, "rows were counted");
    for (int j = 0; j < c.columns; j++)
      for (i64 i = 0; i < rows && c.column[j].kind == CSV_BOOL; i++)
        claim((u8)c.column[j].to[i * c.column[j].stride] < 2, "true and false are 1 and 0");
  }
  claim(ok || f.err[0], "a refusal says why");
  free(to);
  ty_csv_close(&c);
  ty_file_close(&f);
}

static void run_picture(const u8 *data, size_t size) {
  static const i32 channels[] = {0, 1, 3, 4};
  static bool (*const read[])(File *, const ImageWant *, Image *) = {
      [PNM] = ty_pnm_read, [PNG] = ty_png_read, [JPEG] = ty_jpeg_read};
  File f = {.fd = -1};
  static Scratch scratch; /* used again, as by readers in the background */
  ImageWant want = {.channels = channels[size % 4], .limit = 1 << 22};
  if (size % 5 == 0) want.scratch = &scratch;
  Image x = {0};
  if (size % 3 == 0) want.height = 5, want.width = 7;
  if (!ty_file_memory(&f, "fuzz", data, (i64)size)) return;
  bool ok;
  if (size % 8 == 1 && size > 2) ok = read[FORMAT < PNM ? PNM : FORMAT](&f, &want, &x);
  else ok = ty_image_read(&f, &want, &x);
  claim(ok || f.err[0], "a refusal says why");
  if (ok) {
    i64 bytes = (i64)x.width * x.height * x.channels;
    claim(bytes > 0 && bytes <= 1 << 23, "pixels keep to the limit");
    u8 *planes = malloc((size_t)bytes);
    ty_image_take(&x, planes);
    free(planes);
  }
  ty_image_free(&x);
  ty_file_close(&f);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
  if (FORMAT == JSON) {
    run_json(data, size);
    return 0;
  }
  if (FORMAT >= CSV) {
    (FORMAT == CSV ? run_csv : run_picture)(data, size);
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
