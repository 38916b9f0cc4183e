/*
** file_image.c -- pictures in files: which format, how many channels, planes.
** In: a file. Out: pixels as they are wanted, or false with the message in f->err.
** Dims are checked against a limit before anything is allocated for them (ImageWant.limit).
** Grey of a colour is ITU-R 601-2 in 16 bits, as in Pillow; alpha is dropped, not blended.
*/
#include "file_image.h"

#include <dlfcn.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <tmmintrin.h>
#endif

bool ty_image_library(const char *const *names, const Symbol *symbols) {
  void *lib = NULL;
  for (; *names && !lib; names++) lib = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
  if (!lib) return false;
  for (; symbols->name; symbols++)
    if (!(*symbols->to = dlsym(lib, symbols->name))) {
      dlclose(lib);
      return false;
    }
  return true;
}

bool ty_image_room(File *f, const ImageWant *want, i64 width, i64 height, i32 channels, Image *y) {
  i64 limit = want->limit > 0 ? want->limit : IMAGE_FREE + IMAGE_RATIO * f->size, bytes;
  if (width < 1 || height < 1)
    return ty_file_fail(f, "a picture of %lld x %lld pixels", (long long)width, (long long)height);
  if (width > INT32_MAX || height > INT32_MAX || !ty_mul(width, height, &bytes) ||
      !ty_mul(bytes, channels, &bytes) || bytes > limit)
    return ty_file_fail(f,
                        "%lld x %lld pixels of %d channels in a file of %lld bytes: over the limit "
                        "of %lld bytes (raise it by the option limit)",
                        (long long)width, (long long)height, channels, (long long)f->size,
                        (long long)limit);
  Scratch *k = want->scratch;
  *y = (Image){NULL, (i32)width, (i32)height, channels, k != NULL};
  if (!k) y->data = ty_file_alloc(bytes);
  else if (ty_scratch_room(&k->pixels, &k->pixels_room, bytes)) y->data = k->pixels;
  return y->data || ty_file_fail_memory(f, bytes);
}

/* ---- memory ------------------------------------------------------------------------------------- */

void ty_image_free(Image *x) {
  if (!x->lent) ty_file_free(x->data);
  *x = (Image){0};
}

bool ty_scratch_room(u8 **p, i64 *room, i64 n) {
  if (n <= *room && *p) return true;
  ty_file_free(*p);
  *room = 0;
  if (!(*p = ty_file_alloc(n))) return false;
  *room = n;
  return true;
}

void ty_scratch_free(Scratch *s) {
  ty_file_free(s->bytes);
  ty_file_free(s->pixels);
  *s = (Scratch){0};
}

/* ---- channels ----------------------------------------------------------------------------------- */

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

#if defined(__x86_64__)
/* Sixteen pixels at a time: a byte of output i comes from byte 3 i + c of 48, which lie in three
** vectors; each is shuffled, bytes of the others to zero, and the three are joined. Returns how
** many pixels were done. */
__attribute__((target("ssse3"))) static i64 planes_of_three(const u8 *p, i64 n, u8 *to) {
  __m128i pick[3][3];
  for (int c = 0; c < 3; c++)
    for (int v = 0; v < 3; v++) {
      i8 from[16];
      for (int i = 0; i < 16; i++) {
        int at = 3 * i + c - 16 * v;
        from[i] = (i8)(at >= 0 && at < 16 ? at : -1);
      }
      pick[c][v] = _mm_loadu_si128((const __m128i *)(const void *)from);
    }
  i64 i = 0;
  for (; i + 16 <= n; i += 16, p += 48) {
    __m128i x[3];
    for (int v = 0; v < 3; v++) x[v] = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * v));
    for (int c = 0; c < 3; c++) {
      __m128i y =
          _mm_or_si128(_mm_shuffle_epi8(x[0], pick[c][0]), _mm_shuffle_epi8(x[1], pick[c][1]));
      y = _mm_or_si128(y, _mm_shuffle_epi8(x[2], pick[c][2]));
      _mm_storeu_si128((__m128i *)(void *)(to + c * n + i), y);
    }
  }
  return i;
}
static bool has_shuffle(void) { return __builtin_cpu_supports("ssse3"); }
#else
static i64 planes_of_three(const u8 *p, i64 n, u8 *to) { return (void)p, (void)n, (void)to, 0; }
static bool has_shuffle(void) { return false; }
#endif

void ty_image_planes(const Image *x, u8 *to) {
  i64 n = (i64)x->width * x->height, i = 0;
  const u8 *p = x->data;
  if (x->channels == 1) {
    memcpy(to, p, (size_t)n);
    return;
  }
  if (x->channels == 3 && has_shuffle()) i = planes_of_three(p, n, to);
  for (i32 c = 0; c < x->channels; c++)
    for (i64 k = i; k < n; k++) to[c * n + k] = p[k * x->channels + c];
}

bool ty_image_weave(const u8 *planes, Image *y) {
  i64 n = (i64)y->width * y->height;
  if (!(y->data = ty_file_alloc(n * y->channels))) return false;
  for (i32 c = 0; c < y->channels; c++)
    for (i64 i = 0; i < n; i++) y->data[i * y->channels + c] = planes[c * n + i];
  return true;
}

/* ---- reading ------------------------------------------------------------------------------------ */

static bool decode(File *f, const ImageWant *want, Image *y) {
  const u8 *p = f->data;
  if (f->size >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8)) return ty_png_read(f, want, y);
  if (f->size >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) return ty_jpeg_read(f, want, y);
  if (f->size >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '6') return ty_pnm_read(f, want, y);
  return ty_file_fail(f, "is no PNG, JPEG, PPM or PGM (its first bytes differ)");
}

/* Pixels to planes and back, since resizing goes plane by plane. */
static bool resize(File *f, Image *x, i32 height, i32 width) {
  Image y = {.width = width, .height = height, .channels = x->channels};
  i64 have = (i64)x->width * x->height * x->channels, need;
  if (x->width == width && x->height == height) return true;
  if (!ty_mul((i64)width * height, x->channels, &need)) return ty_file_fail_memory(f, 0);
  u8 *from = ty_file_alloc(have), *to = ty_file_alloc(need);
  bool ok = from && to;
  if (ok) ty_image_planes(x, from);
  ok = ok &&
       ty_resize_bytes(from, x->channels, x->height, x->width, to, height, width, RESIZE_BILINEAR);
  ok = ok && ty_image_weave(to, &y);
  ty_file_free(from);
  ty_file_free(to);
  if (!ok) return ty_file_fail_memory(f, need);
  ty_image_free(x);
  *x = y;
  return true;
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
  u8 *owned = NULL;
  bool read = !f->data;
  *y = (Image){0};
  bool ok = (f->data || read_bytes(f, want->scratch, &owned)) && decode(f, want, y);
  if (read) f->data = NULL;
  ty_file_free(owned); /* before the conversion: the peak counts */
  i32 channels = want->channels ? want->channels : y->channels == 2 ? 4 : y->channels;
  ok = ok && to_channels(f, y, channels);
  ok = ok && (!want->height || resize(f, y, want->height, want->width));
  if (!ok) ty_image_free(y);
  return ok;
}

bool ty_bytes_add(Bytes *b, const void *p, i64 n) {
  if (b->n + n > b->room) {
    i64 room = TY_MAX(b->room * 2, b->n + n + 4096);
    u8 *data = ty_file_grow(b->data, room);
    if (!data) {
      snprintf(b->err, FILE_ERR, "out of memory (%lld bytes)", (long long)room);
      return false;
    }
    b->data = data;
    b->room = room;
  }
  memcpy(b->data + b->n, p, (size_t)n);
  b->n += n;
  return true;
}
