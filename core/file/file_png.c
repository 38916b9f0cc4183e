/*
** file_png.c -- PNG by libpng 1.6, which is loaded when the first one comes.
** In: the file's bytes, or pixels. Out: 8 bits a channel as the file has them (1, 2, 3 or 4
** channels; palettes and smaller depths are expanded, 16 bits rounded to 8), or a file's bytes.
** Gamma is left alone. Fails on damaged and cut files, checksums that differ, and without libpng.
**
** libpng reports errors by jumping. The jump's goal is always in this file, in a function that
** holds nothing but what the Job knows, and no frame of Lua lies between: that must stay so.
*/
#include "file/file_image.h"

#include <setjmp.h>
#include <stdio.h>

typedef struct Png Png; /* png_struct and png_info: only their addresses are known here */
typedef struct PngInfo PngInfo;
typedef void PngError(Png *, const char *);
typedef void PngMove(Png *, u8 *, size_t);

enum { GREY, ALPHA = 4, PALETTE = 3, COLOR = 2 }; /* color types of PNG, ALPHA is a bit */
enum { HAS_TRNS = 0x10, CHUNK_MOST = 1 << 20, NEVER = 1, ALL_ANCILLARY = -1 };
enum { ROW_WORK = 20 }; /* bytes a pixel of a row: libpng holds two, of up to 64 bits each */

/* The functions that are used, with their types as png.h declares them. */
#define PNG_FUNCTIONS(_) \
  _(const char *, get_libpng_ver, (const Png *)) \
  _(Png *, create_read_struct, (const char *, void *, PngError *, PngError *)) \
  _(Png *, create_write_struct, (const char *, void *, PngError *, PngError *)) \
  _(PngInfo *, create_info_struct, (const Png *)) \
  _(void, destroy_read_struct, (Png **, PngInfo **, PngInfo **)) \
  _(void, destroy_write_struct, (Png **, PngInfo **)) \
  _(void *, get_error_ptr, (const Png *)) \
  _(void *, get_io_ptr, (const Png *)) \
  _(void, error, (const Png *, const char *)) \
  _(void, set_read_fn, (Png *, void *, PngMove *)) \
  _(void, set_write_fn, (Png *, void *, PngMove *, void (*)(Png *))) \
  _(void, set_user_limits, (Png *, u32, u32)) \
  _(void, set_chunk_malloc_max, (Png *, size_t)) \
  _(void, set_keep_unknown_chunks, (Png *, int, const u8 *, int)) \
  _(void, read_info, (Png *, PngInfo *)) \
  _(u32, get_image_width, (const Png *, const PngInfo *)) \
  _(u32, get_image_height, (const Png *, const PngInfo *)) \
  _(u8, get_bit_depth, (const Png *, const PngInfo *)) \
  _(u8, get_color_type, (const Png *, const PngInfo *)) \
  _(u32, get_valid, (const Png *, const PngInfo *, u32)) \
  _(void, set_palette_to_rgb, (Png *)) \
  _(void, set_expand_gray_1_2_4_to_8, (Png *)) \
  _(void, set_tRNS_to_alpha, (Png *)) \
  _(void, set_scale_16, (Png *)) \
  _(int, set_interlace_handling, (Png *)) \
  _(void, read_update_info, (Png *, PngInfo *)) \
  _(size_t, get_rowbytes, (const Png *, const PngInfo *)) \
  _(void, read_row, (Png *, u8 *, u8 *)) \
  _(void, read_end, (Png *, PngInfo *)) \
  _(void, set_IHDR, (const Png *, PngInfo *, u32, u32, int, int, int, int, int)) \
  _(void, set_compression_level, (Png *, int)) \
  _(void, write_info, (Png *, const PngInfo *)) \
  _(void, write_row, (Png *, const u8 *)) \
  _(void, write_end, (Png *, PngInfo *))

static struct {
#define _(type, name, args) type(*name) args;
  PNG_FUNCTIONS(_)
#undef _
} lib;
static bool loaded;
static Once once = ONCE_INIT;

static void load(void) {
  static const char *const names[] = {"libpng16.so.16", "libpng16.so", "libpng16.16.dylib", NULL};
  static const Symbol symbols[] = {
#define _(type, name, args) {"png_" #name, (void **)&lib.name},
      PNG_FUNCTIONS(_)
#undef _
          {NULL, NULL}};
  loaded = ty_image_library(names, symbols);
}

static bool have_library(char *err, i64 room) {
  ty_once(&once, load);
  if (!loaded) snprintf(err, (size_t)room, "png needs libpng: apt-get install libpng16-16");
  return loaded;
}

/* Everything that a call holds, so that the jump loses nothing. */
typedef struct Job {
  Png *png;
  PngInfo *info;
  jmp_buf jump;
  char text[128]; /* libpng's message */
  File *f;        /* reading */
  i64 at;
  const ImageWant *want;
  Image *image;
  Bytes *bytes; /* writing */
  const Image *from;
  int level;
} Job;

static void on_error(Png *png, const char *text) {
  Job *j = lib.get_error_ptr(png);
  snprintf(j->text, sizeof j->text, "%s", text);
  longjmp(j->jump, 1);
}

static void on_warning(Png *png, const char *text) { (void)png, (void)text; }

static void take(Png *png, u8 *to, size_t n) {
  Job *j = lib.get_io_ptr(png);
  if ((i64)n > j->f->size - j->at) lib.error(png, "the file ends too early");
  memcpy(to, j->f->data + j->at, n);
  j->at += (i64)n;
}

static void give(Png *png, u8 *from, size_t n) {
  Job *j = lib.get_io_ptr(png);
  if (!ty_bytes_add(j->bytes, from, (i64)n)) lib.error(png, "out of memory");
}

static void flush(Png *png) { (void)png; }

/* ---- reading ------------------------------------------------------------------------------------ */

/* Channels of the rows that libpng is asked for. */
static int ask(Job *j) {
  int type = lib.get_color_type(j->png, j->info), depth = lib.get_bit_depth(j->png, j->info);
  bool clear = lib.get_valid(j->png, j->info, HAS_TRNS) != 0;
  if (depth == 16) lib.set_scale_16(j->png);
  if (type == PALETTE) lib.set_palette_to_rgb(j->png);
  else if (depth < 8) lib.set_expand_gray_1_2_4_to_8(j->png);
  if (clear) lib.set_tRNS_to_alpha(j->png);
  return (type & COLOR ? 3 : 1) + (type & ALPHA || clear);
}

/* May jump, and may fail with j->f->err set. */
static bool read_rows(Job *j) {
  lib.set_read_fn(j->png, j, take);
  lib.set_user_limits(j->png, INT32_MAX, INT32_MAX);
  lib.set_chunk_malloc_max(j->png, CHUNK_MOST);
  /* Texts and profiles would be unpacked, a thousand of CHUNK_MOST: nothing here reads them. */
  lib.set_keep_unknown_chunks(j->png, NEVER, NULL, ALL_ANCILLARY);
  lib.read_info(j->png, j->info);
  int channels = ask(j), passes = lib.set_interlace_handling(j->png);
  i64 width = lib.get_image_width(j->png, j->info), height = lib.get_image_height(j->png, j->info);
  if (!ty_image_room(j->f, j->want, width, height, channels, (double)(width * ROW_WORK), j->image))
    return false;
  lib.read_update_info(j->png, j->info);
  size_t row = (size_t)(width * channels);
  if (lib.get_rowbytes(j->png, j->info) != row) lib.error(j->png, "rows of a strange length");
  for (int pass = 0; pass < passes; pass++)
    for (i64 y = 0; y < height; y++) lib.read_row(j->png, j->image->data + (size_t)y * row, NULL);
  lib.read_end(j->png, NULL);
  return true;
}

/* The jump's goal for reading. */
static bool read_guarded(Job *j) {
  if (setjmp(j->jump)) return ty_file_fail(j->f, "damaged PNG: %s", j->text);
  return read_rows(j);
}

bool ty_png_read(File *f, const ImageWant *want, Image *y) {
  Job *j;
  char why[FILE_ERR];
  if (!have_library(why, FILE_ERR)) return ty_file_fail(f, "%s", why);
  if (!(j = ty_file_alloc(sizeof *j))) return ty_file_fail_memory(f, 0);
  *j = (Job){.f = f, .want = want, .image = y};
  j->png = lib.create_read_struct(lib.get_libpng_ver(NULL), j, on_error, on_warning);
  if (j->png) j->info = lib.create_info_struct(j->png);
  bool ok = j->info ? read_guarded(j) : ty_file_fail_memory(f, 0);
  if (j->png) lib.destroy_read_struct(&j->png, &j->info, NULL);
  ty_file_free(j);
  return ok;
}

/* ---- writing ------------------------------------------------------------------------------------ */

static void write_rows(Job *j) {
  static const int types[] = {0, GREY, GREY | ALPHA, COLOR, COLOR | ALPHA};
  const Image *x = j->from;
  lib.set_write_fn(j->png, j, give, flush);
  lib.set_IHDR(j->png, j->info, (u32)x->width, (u32)x->height, 8, types[x->channels], 0, 0, 0);
  lib.set_compression_level(j->png, j->level);
  lib.write_info(j->png, j->info);
  for (i64 y = 0; y < x->height; y++) lib.write_row(j->png, x->data + y * x->width * x->channels);
  lib.write_end(j->png, j->info);
}

/* The jump's goal for writing. */
static bool write_guarded(Job *j) {
  if (setjmp(j->jump)) {
    snprintf(j->bytes->err, FILE_ERR, "png: %s", j->text);
    return false;
  }
  write_rows(j);
  return true;
}

bool ty_png_write(Bytes *b, const Image *x, int level) {
  Job *j;
  if (!have_library(b->err, FILE_ERR)) return false;
  snprintf(b->err, FILE_ERR, "out of memory");
  if (!(j = ty_file_alloc(sizeof *j))) return false;
  *j = (Job){.bytes = b, .from = x, .level = level};
  j->png = lib.create_write_struct(lib.get_libpng_ver(NULL), j, on_error, on_warning);
  if (j->png) j->info = lib.create_info_struct(j->png);
  bool ok = j->info && write_guarded(j);
  if (j->png) lib.destroy_write_struct(&j->png, &j->info);
  ty_file_free(j);
  return ok;
}
