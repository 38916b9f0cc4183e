/*
** file_image_read.c -- images from files: which format, how many channels, which size.
** In: a file. Out: pixels as they are wanted, or false with the message in f->err.
** Grey of a colour is ITU-R 601-2 in 16 bits, as in Pillow; alpha is dropped, not blended.
*/
#include "file/file_image.h"

void ty_scratch_free(Scratch *s) {
  ty_file_free(s->bytes);
  ty_file_free(s->pixels);
  ty_jpeg_drop(s->jpeg);
  *s = (Scratch){0};
}

static inline u8 grey(const u8 *p) {
  return (u8)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
}

/* x with so many channels; into a new block, or where it lies when it becomes smaller. */
static bool to_channels(File *f, Image *x, i32 channels) {
  i64 n = (i64)x->width * x->height;
  i32 have = x->channels;
  u8 *to = x->data;
  if (have == channels) return true;
  if (channels > have && !(to = ty_file_alloc(n * channels)))
    return ty_file_fail_memory(f, n * channels);
  for (i64 i = 0; i < n; i++) {
    const u8 *p = x->data + i * have;
    u8 *q = to + i * channels;
    u8 alpha = have == 2 ? p[1] : have == 4 ? p[3] : 255, r = p[0], g = p[0], b = p[0];
    if (channels == 1) {
      *q = have < 3 ? *p : grey(p);
      continue;
    }
    if (have >= 3) g = p[1], b = p[2];
    q[0] = r, q[1] = g, q[2] = b;
    if (channels == 4) q[3] = alpha;
  }
  if (to != x->data) {
    if (!x->lent) ty_file_free(x->data);
    x->data = to;
    x->lent = false;
  }
  x->channels = channels;
  return true;
}

typedef bool ImageReader(File *f, const ImageWant *want, Image *y);

/* By the first bytes, of which there are as many as in the file, or 8; NULL: no format that is
** known, said. */
static ImageReader *reader_of(File *f, const u8 *p) {
  if (f->size >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8)) return ty_png_read;
  if (f->size >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) return ty_jpeg_read;
  if (f->size >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '6') return ty_pnm_read;
  ty_file_fail(f, "is no PNG, JPEG, PPM or PGM (its first bytes differ)");
  return NULL;
}

/* Pixels to planes, since resizing goes plane by plane, and so they stay. */
static bool resize(File *f, Image *x, i32 height, i32 width) {
  Image y = {.width = width, .height = height, .channels = x->channels, .planar = true};
  i64 have = (i64)x->width * x->height * x->channels, need;
  if (x->width == width && x->height == height) return true;
  if (!ty_mul((i64)width * height, x->channels, &need)) return ty_file_fail_memory(f, 0);
  u8 *from = ty_file_alloc(have);
  if (!from) return ty_file_fail_memory(f, have);
  ty_image_take(x, from);
  if (!x->lent) ty_file_free(x->data); /* before there are more */
  x->data = NULL;
  y.data = ty_file_alloc(need);
  bool ok = y.data && ty_resize_bytes(from, x->channels, x->height, x->width, y.data, height, width,
                                      RESIZE_BILINEAR);
  ty_file_free(from);
  *x = y;
  return ok || ty_file_fail_memory(f, need);
}

/* All bytes of the file, in memory that is `owned` or a scratch's. */
static bool read_bytes(File *f, Scratch *k, u8 **owned) {
  u8 *to = NULL;
  if (!k) to = *owned = ty_file_alloc(f->size);
  else if (ty_scratch_room(&k->bytes, &k->bytes_room, f->size)) to = k->bytes;
  if (!to) return ty_file_fail_memory(f, f->size);
  if (!ty_file_read(f, 0, to, f->size)) return false;
  f->data = to;
  return true;
}

bool ty_image_read(File *f, const ImageWant *want, Image *y) {
  enum { PEEK_FROM = 1 << 20 };
  u8 *owned = NULL, first[8];
  bool read = !f->data, ok = true;
  *y = (Image){0};
  if (read && f->size > PEEK_FROM) /* what is no image should not cost its size */
    ok = ty_file_read(f, 0, first, sizeof first) && reader_of(f, first);
  ok = ok && (!read || read_bytes(f, want->scratch, &owned));
  ImageReader *decode = ok ? reader_of(f, f->data) : NULL;
  ok = decode && decode(f, want, y);
  if (read) f->data = NULL;
  ty_file_free(owned); /* before the conversion: the peak counts */
  i32 channels = want->channels ? want->channels : y->channels == 2 ? 4 : y->channels;
  ok = ok && to_channels(f, y, channels);
  ok = ok && (!want->height || resize(f, y, want->height, want->width));
  if (!ok) ty_image_free(y);
  return ok;
}
