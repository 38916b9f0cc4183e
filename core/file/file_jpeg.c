/*
** file_jpeg.c -- JPEG by libturbojpeg, which is loaded when the first one comes.
** In: the file's bytes, or pixels. Out: grey, RGB, or CMYK as RGB; or a file's bytes.
** Fails on what the library warns of too (cut files, damaged data), and without the library.
*/
#include "file/file_image.h"

#include <math.h>
#include <stdio.h>

/* As turbojpeg.h has them, since version 1.4 (the last three flags since 2.0). */
enum { PIXEL_RGB = 0, PIXEL_GREY = 6, PIXEL_CMYK = 11 };
enum { SAMPLE_444 = 0, SAMPLE_420 = 2, SAMPLE_GREY = 3 };
enum { SPACE_YCC = 1, SPACE_GREY = 2, SPACE_CMYK = 3, SPACE_YCCK = 4 };
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
static Once once = ONCE_INIT;

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
  ty_once(&once, load);
  if (!loaded)
    snprintf(err, (size_t)room, "jpeg needs libturbojpeg: apt-get install libturbojpeg0");
  return loaded;
}

/* Four inks, inverted as Adobe writes them, to RGB or RGBA: each ink over the black, rounded. */
static void inks_to_rgb(Image *x, i32 channels) {
  i64 n = (i64)x->width * x->height;
  for (i64 i = 0; i < n; i++) {
    const u8 *p = x->data + 4 * i;
    u8 *q = x->data + channels * i;
    u8 c = p[0], m = p[1], y = p[2], k = p[3];
    q[0] = (u8)((c * k + 127) / 255), q[1] = (u8)((m * k + 127) / 255);
    q[2] = (u8)((y * k + 127) / 255);
    if (channels == 4) q[3] = 255;
  }
  x->channels = channels;
}

/* ---- the decoder's own memory -------------------------------------------------------------------- */

enum { FRAME_COMPONENTS = 4, ROW_WORK = 64 }; /* ROW_WORK: bytes a sample of a row of blocks */
enum { M_TEM = 0x01, M_SOF = 0xc0, M_RST = 0xd0, M_SOI = 0xd8, M_SOS = 0xda };

/* What the frame's header says; scanned: how many components the first scan holds. */
typedef struct Frame {
  int width, height, components, scanned, h[FRAME_COMPONENTS], v[FRAME_COMPONENTS];
  bool progressive;
} Frame;

/* Kinds of frames are C0 to CF but C4, C8, CC; every second pair of them is progressive. */
static bool is_frame(int m) { return (m & 0xf0) == M_SOF && (m & 3 || m == M_SOF); }

/* The segment of a frame at p; false: it is not as it must be. */
static bool read_frame(Frame *y, int marker, const u8 *p, i64 n) {
  if (n < 8 || p[7] < 1 || p[7] > FRAME_COMPONENTS || n < 8 + 3 * p[7]) return false;
  *y = (Frame){.width = p[5] << 8 | p[6],
               .height = p[3] << 8 | p[4],
               .components = p[7],
               .progressive = (marker & 3) == 2};
  for (int i = 0; i < y->components; i++) {
    y->h[i] = p[9 + 3 * i] >> 4, y->v[i] = p[9 + 3 * i] & 15;
    if (!y->h[i] || !y->v[i] || y->h[i] > 4 || y->v[i] > 4) return false;
  }
  return true;
}

/* Walks over the segments up to the first scan, as libjpeg does. false: there is none. */
static bool find_scan(Frame *y, const u8 *p, i64 n) {
  bool frame = false;
  for (i64 i = 2, length; i < n; i += length) {
    length = 0;
    while (i < n && p[i] != 0xff) i++;
    while (i < n && p[i] == 0xff) i++;
    int m = i < n ? p[i++] : 0;
    if (m == 0 || m == M_TEM || (m >= M_RST && m <= M_SOI)) continue;
    if (n - i < 3 || (length = p[i] << 8 | p[i + 1]) < 2 || length > n - i) return false;
    if (is_frame(m) && !frame && !(frame = read_frame(y, m, p + i, length))) return false;
    if (m != M_SOS) continue;
    y->scanned = p[i + 2];
    return frame;
  }
  return false;
}

static bool has_scans(const Frame *x) { return x->progressive || x->scanned < x->components; }

/* Images that come in several scans are kept as coefficients, 2 bytes for each sample, until all
** are there; of others some rows are. */
static double decoder_work(const Frame *x, double width, double height) {
  int h = 1, v = 1;
  for (int i = 0; i < x->components; i++) h = TY_MAX(h, x->h[i]), v = TY_MAX(v, x->v[i]);
  double wide = ceil(width / (8 * h)) * 8, high = ceil(height / (8 * v)) * 8, samples = 0;
  for (int i = 0; i < x->components; i++) samples += wide * x->h[i] * high * x->v[i];
  double rows = wide * h * x->components * ROW_WORK + height * (double)sizeof(u8 *);
  return rows + (has_scans(x) ? 2 * samples : 0);
}

static bool read_with(void *tj, File *f, const ImageWant *want, Image *y) {
  int sampling, space = SPACE_GREY; /* stays so where tables end the file */
  unsigned long size = (unsigned long)f->size;
  Frame x = {0};
  bool known = find_scan(&x, f->data, f->size);
  bool plain = known && x.width && x.height && (x.components == 1 || x.components == 3);
  if (plain) space = x.components == 1 ? SPACE_GREY : SPACE_YCC;
  else if (lib.DecompressHeader3(tj, f->data, size, &x.width, &x.height, &sampling, &space))
    return ty_file_fail(f, "damaged JPEG: %s", lib.GetErrorStr2(tj));
  if (x.width < 1 || x.height < 1) return ty_file_fail(f, "damaged JPEG: holds no image");
  int width = x.width, height = x.height;
  if (!known) /* what cannot be made out counts as the worst */
    x = (Frame){width, height, FRAME_COMPONENTS, 0, {4, 4, 4, 4}, {4, 4, 4, 4}, true};
  bool inks = space == SPACE_CMYK || space == SPACE_YCCK;
  bool grey = want->channels == 1 || (!want->channels && space == SPACE_GREY);
  int pixel = inks ? PIXEL_CMYK : grey ? PIXEL_GREY : PIXEL_RGB;
  i32 channels = inks ? 4 : grey ? 1 : 3;
  if (!ty_image_room(f, want, width, height, channels, decoder_work(&x, width, height), y))
    return false;
  if (lib.Decompress2(tj, f->data, size, y->data, width, width * channels, height, pixel,
                      STOP_ON_WARNING | (has_scans(&x) ? LIMIT_SCANS : 0)))
    return ty_file_fail(f, "damaged JPEG: %s", lib.GetErrorStr2(tj));
  if (inks) inks_to_rgb(y, want->channels == 4 ? 4 : 3);
  return true;
}

bool ty_jpeg_read(File *f, const ImageWant *want, Image *y) {
  char why[FILE_ERR];
  if (!have_library(why, FILE_ERR)) return ty_file_fail(f, "%s", why);
  void **kept = want->scratch ? &want->scratch->jpeg : NULL, *tj = kept ? *kept : NULL;
  if (!tj && !(tj = lib.InitDecompress())) return ty_file_fail_memory(f, 0);
  bool ok = read_with(tj, f, want, y);
  if (kept) *kept = tj;
  else lib.Destroy(tj);
  return ok;
}

void ty_jpeg_drop(void *decoder) {
  if (decoder) lib.Destroy(decoder);
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
