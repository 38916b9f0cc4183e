/*
** file_jpeg.c -- JPEG by libturbojpeg, which is loaded when the first one comes.
** In: the file's bytes, or pixels. Out: grey, RGB, or CMYK as RGB; or a file's bytes.
** Fails on what the library warns of too (cut files, damaged data), and without the library.
*/
#include "file_image.h"

#include <pthread.h>
#include <stdio.h>

/* As turbojpeg.h has them, since version 1.4 (the last three flags since 2.0). */
enum { PIXEL_RGB = 0, PIXEL_GREY = 6, PIXEL_CMYK = 11 };
enum { SAMPLE_444 = 0, SAMPLE_420 = 2, SAMPLE_GREY = 3 };
enum { SPACE_GREY = 2, SPACE_CMYK = 3, SPACE_YCCK = 4 };
enum { STOP_ON_WARNING = 8192, LIMIT_SCANS = 32768 };

#define JPEG_FUNCTIONS(_) \
  _(void *, InitDecompress, (void)) \
  _(void *, InitCompress, (void)) \
  _(int, Destroy, (void *)) \
  _(char *, GetErrorStr2, (void *)) \
  _(int, DecompressHeader3, (void *, const u8 *, unsigned long, int *, int *, int *, int *)) \
  _(int, Decompress2, (void *, const u8 *, unsigned long, u8 *, int, int, int, int, int)) \
  _(int, Compress2, \
    (void *, const u8 *, int, int, int, int, u8 **, unsigned long *, int, int, int)) \
  _(void, Free, (u8 *))

static struct {
#define _(type, name, args) type(*name) args;
  JPEG_FUNCTIONS(_)
#undef _
} lib;
static bool loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
  static const char *const names[] = {"libturbojpeg.so.0", "libturbojpeg.so", "libturbojpeg.dylib",
                                      NULL};
  static const Symbol symbols[] = {
#define _(type, name, args) {"tj" #name, (void **)&lib.name},
      JPEG_FUNCTIONS(_)
#undef _
          {NULL, NULL}};
  loaded = ty_image_library(names, symbols);
}

static bool have_library(char *err, i64 room) {
  pthread_once(&once, load);
  if (!loaded)
    snprintf(err, (size_t)room, "jpeg needs libturbojpeg: apt-get install libturbojpeg0");
  return loaded;
}

/* Four inks, inverted as Adobe writes them, to RGB: each ink over the black, rounded. */
static void inks_to_rgb(Image *x) {
  i64 n = (i64)x->width * x->height;
  for (i64 i = 0; i < n; i++) {
    const u8 *p = x->data + 4 * i;
    u8 *q = x->data + 3 * i;
    u8 c = p[0], m = p[1], y = p[2], k = p[3];
    q[0] = (u8)((c * k + 127) / 255), q[1] = (u8)((m * k + 127) / 255);
    q[2] = (u8)((y * k + 127) / 255);
  }
  x->channels = 3;
}

static bool read_with(void *tj, File *f, const ImageWant *want, Image *y) {
  int width = 0, height = 0, sampling, space = SPACE_GREY; /* stay so where tables end the file */
  unsigned long size = (unsigned long)f->size;
  if (lib.DecompressHeader3(tj, f->data, size, &width, &height, &sampling, &space))
    return ty_file_fail(f, "damaged JPEG: %s", lib.GetErrorStr2(tj));
  if (width < 1 || height < 1) return ty_file_fail(f, "damaged JPEG: holds no picture");
  bool inks = space == SPACE_CMYK || space == SPACE_YCCK;
  bool grey = want->channels == 1 || (!want->channels && space == SPACE_GREY);
  int pixel = inks ? PIXEL_CMYK : grey ? PIXEL_GREY : PIXEL_RGB;
  i32 channels = inks ? 4 : grey ? 1 : 3;
  if (!ty_image_room(f, want, width, height, channels, y)) return false;
  if (lib.Decompress2(tj, f->data, size, y->data, width, width * channels, height, pixel,
                      STOP_ON_WARNING | LIMIT_SCANS))
    return ty_file_fail(f, "damaged JPEG: %s", lib.GetErrorStr2(tj));
  if (inks) inks_to_rgb(y);
  return true;
}

bool ty_jpeg_read(File *f, const ImageWant *want, Image *y) {
  char why[FILE_ERR];
  if (!have_library(why, FILE_ERR)) return ty_file_fail(f, "%s", why);
  void *tj = lib.InitDecompress();
  if (!tj) return ty_file_fail_memory(f, 0);
  bool ok = read_with(tj, f, want, y);
  lib.Destroy(tj);
  return ok;
}

bool ty_jpeg_write(Bytes *b, const Image *x, int quality) {
  if (!have_library(b->err, FILE_ERR)) return false;
  snprintf(b->err, FILE_ERR, "out of memory");
  void *tj = lib.InitCompress();
  u8 *data = NULL;
  unsigned long n = 0;
  if (!tj) return false;
  bool grey = x->channels == 1;
  int sampling = grey ? SAMPLE_GREY : quality >= 95 ? SAMPLE_444 : SAMPLE_420;
  bool ok = !lib.Compress2(tj, x->data, x->width, x->width * x->channels, x->height,
                           grey ? PIXEL_GREY : PIXEL_RGB, &data, &n, sampling, quality, 0);
  if (!ok) snprintf(b->err, FILE_ERR, "jpeg: %s", lib.GetErrorStr2(tj));
  ok = ok && ty_bytes_add(b, data, (i64)n);
  if (data) lib.Free(data);
  lib.Destroy(tj);
  return ok;
}
