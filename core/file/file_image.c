/*
** file_image.c -- what images of all formats need: room for pixels, planes, growing bytes, libraries.
** In: sizes from a header; pixels. Out: memory for them; planes of pixels and pixels of planes. False where memory runs
** out or a limit is passed, with the message in f->err.
** What an image takes at its peak is reckoned from its header and checked against a limit before
** anything is allocated for it (ImageWant.limit): pixels, the decoder's own work, the conversions.
*/
#include "file/file_image.h"

#include <stdio.h>
#if defined(__x86_64__)
#include <tmmintrin.h>
#endif

bool ty_image_library(const char *const *names, const Symbol *symbols) {
  void *lib = ty_library_open(names);
  if (!lib) return false;
  for (; symbols->name; symbols++)
    if (!(*symbols->to = ty_library_symbol(lib, symbols->name))) {
      ty_library_close(lib);
      return false;
    }
  return true;
}

/* ---- the peak ------------------------------------------------------------------------------------ */

/* Images from here on return their pages as they are turned into planes, in bands; what is there
** twice at most: a band, the planes' huge pages that are begun, a huge page that is half returned. */
#define RETURN_FROM ((i64)8 << 20)
#define RETURN_BAND ((i64)1 << 20)

/* An image of so many bytes and its planes, while one becomes the other. */
static double both(double bytes, i32 channels) {
  if (bytes < (double)RETURN_FROM) return 2 * bytes;
  return bytes + (double)(channels * FILE_PAGE + FILE_PAGE + RETURN_BAND);
}

/* Bytes beside the file's at the worst moment: decoding, other channels, another size, planes,
** floats. The file's own are counted as there all the time. */
static double peak_bytes(const ImageWant *want, double width, double height, i32 channels,
                         double work) {
  i32 become = want->channels ? want->channels : channels == 2 ? 4 : channels;
  double n = width * height, y = n * become, peak = n * channels + work;
  if (become > channels) peak = TY_MAX(peak, n * channels + y);
  if (want->height && (width != want->width || height != want->height)) {
    double to = (double)want->height * want->width * become;
    work = ty_resize_work(height, width, want->height, want->width, 1);
    peak = TY_MAX(peak, both(y, become) + to + work);
    y = to;
  }
  peak = TY_MAX(peak, both(y, become));
  if (!want->element) return peak;
  return TY_MAX(peak,
                y * (1 + want->element) + (double)(y < (double)RETURN_FROM ? 0 : 2 * FILE_PAGE));
}

bool ty_image_room(File *f, const ImageWant *want, i64 width, i64 height, i32 channels, double work,
                   Image *y) {
  i64 limit = want->limit > 0 ? want->limit : FILE_LIMIT;
  if (width < 1 || height < 1)
    return ty_file_fail(f, "an image of %lld x %lld pixels", (long long)width, (long long)height);
  double need = peak_bytes(want, (double)width, (double)height, channels, work);
  if (width > INT32_MAX || height > INT32_MAX || need > (double)limit)
    return ty_file_fail(f,
                        "%lld x %lld pixels of %d channel%s: to read them takes %.0f bytes beside "
                        "the file, over the limit of %lld (raise it by the option limit = bytes)",
                        (long long)width, (long long)height, channels, channels == 1 ? "" : "s",
                        need, (long long)limit);
  i64 bytes = width * height * channels; /* less than `need` */
  Scratch *k = want->scratch;
  *y = (Image){NULL, (i32)width, (i32)height, channels, k != NULL, false};
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

/* ---- planes ------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Sixteen pixels at a time: a byte of output i comes from byte 3 i + c of 48, which lie in three
** vectors; each is shuffled, bytes of the others to zero, and the three are joined. Planes lie n
** bytes apart. Returns how many of the `count` pixels were done. */
__attribute__((target("ssse3"))) static i64 planes_of_three(const u8 *p, i64 count, u8 *to, i64 n) {
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
  for (; i + 16 <= count; i += 16, p += 48) {
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
static bool has_shuffle(void) { return ty_cpu_has(CPU_SSSE3); }
#else
static i64 planes_of_three(const u8 *p, i64 count, u8 *to, i64 n) {
  return (void)p, (void)count, (void)to, (void)n, 0;
}
static bool has_shuffle(void) { return false; }
#endif

/* `count` pixels at p, side by side, to planes that lie n bytes apart. */
static void planes_of(const u8 *p, i64 count, i32 channels, u8 *to, i64 n) {
  i64 i = channels == 3 && has_shuffle() ? planes_of_three(p, count, to, n) : 0;
  for (i32 c = 0; c < channels; c++)
    for (i64 k = i; k < count; k++) to[c * n + k] = p[k * channels + c];
}

void ty_image_take(Image *x, u8 *to) {
  i64 n = (i64)x->width * x->height, c = x->channels, bytes = n * c;
  bool copied = x->planar || c == 1, large = bytes >= RETURN_FROM;
  i64 step = large ? RETURN_BAND / (copied ? 1 : c) : bytes, all = copied ? bytes : n;
  const u8 *kept = x->data;
  for (i64 i = 0; i < all; i += step) {
    i64 now = TY_MIN(step, all - i);
    if (copied) memcpy(to + i, x->data + i, (size_t)now);
    else planes_of(x->data + i * c, now, x->channels, to + i, n);
    if (large) kept = ty_file_discard(kept, x->data + (i + now) * (copied ? 1 : c));
  }
}

bool ty_image_weave(const u8 *planes, Image *y) {
  i64 n = (i64)y->width * y->height;
  if (!(y->data = ty_file_alloc(n * y->channels))) return false;
  for (i32 c = 0; c < y->channels; c++)
    for (i64 i = 0; i < n; i++) y->data[i * y->channels + c] = planes[c * n + i];
  return true;
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
