/*
** file_resize.c -- images of another size, by filters whose support grows when they shrink.
** In: planes of bytes or floats. Out: planes of the new size. Fails only when out of memory.
**
** The definition is Pillow's (Resample.c), which antialiases: an output pixel's centre is mapped to
** the input, the filter is stretched by the scale when that is above 1, its weights are taken at
** the input's centres and divided by their sum. Rows first, then columns. Bytes: weights in 22 bits
** after the point, rounded after each direction and clipped, so all machines agree to the bit.
*/
#include "file/file_image.h"

#include <math.h>

enum { BITS = 22 }; /* of a weight after the point: 32 less 8 for a byte and 2 for sums */

/* The weights of one direction: output i is a sum over input first[i] .. first[i] + count[i] - 1. */
typedef struct Weights {
  i32 n, most; /* outputs; the most weights that one has */
  i32 *first, *count;
  double *weight; /* n x most */
  i32 *fixed;     /* the same in BITS */
} Weights;

static double filter_value(Resize how, double x) {
  if (how == RESIZE_BOX) return x > -0.5 && x <= 0.5 ? 1 : 0;
  if (x < 0) x = -x;
  if (how == RESIZE_BILINEAR) return x < 1 ? 1 - x : 0;
  const double a = -0.5; /* Catmull and Rom */
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double filter_support(Resize how) {
  return how == RESIZE_BOX ? 0.5 : how == RESIZE_BILINEAR ? 1 : 2;
}

static void weights_free(Weights *w) {
  ty_file_free(w->first);
  ty_file_free(w->count);
  ty_file_free(w->weight);
  ty_file_free(w->fixed);
}

/* Weights that an output has, at most. */
static double most_weights(double in, double out, Resize how) {
  return 2 * ceil(filter_support(how) * (in > out ? in / out : 1)) + 1;
}

double ty_resize_work(double h, double w, double oh, double ow, int bytes) {
  double across = ow * (8 + 12 * most_weights(w, ow, RESIZE_BICUBIC));
  return h * ow * bytes + across + oh * (8 + 12 * most_weights(h, oh, RESIZE_BICUBIC));
}

static bool weights_make(Weights *w, i32 in, i32 out, Resize how) {
  double scale = (double)in / out, stretch = scale < 1 ? 1 : scale, each = 1 / stretch;
  double support = filter_support(how) * stretch;
  i64 bytes;
  *w = (Weights){0};
  if (support > 1 << 28) return false;
  *w = (Weights){.n = out, .most = (i32)ceil(support) * 2 + 1};
  if (!ty_mul((i64)out * w->most, 8, &bytes)) return false;
  w->first = ty_file_alloc((i64)out * 4), w->count = ty_file_alloc((i64)out * 4);
  w->weight = ty_file_alloc(bytes), w->fixed = ty_file_alloc(bytes / 2);
  if (!w->first || !w->count || !w->weight || !w->fixed) return false;
  for (i32 i = 0; i < out; i++) {
    double centre = (i + 0.5) * scale, sum = 0, *k = w->weight + (i64)i * w->most;
    i32 lo = TY_MAX((i32)(centre - support + 0.5), 0),
        hi = TY_MIN((i32)(centre + support + 0.5), in);
    for (i32 x = lo; x < hi; x++) sum += k[x - lo] = filter_value(how, (x - centre + 0.5) * each);
    for (i32 x = 0; x < hi - lo; x++) {
      if (sum != 0) k[x] /= sum;
      double v = k[x] * (1 << BITS);
      w->fixed[(i64)i * w->most + x] = (i32)(v < 0 ? v - 0.5 : v + 0.5);
    }
    w->first[i] = lo, w->count[i] = hi - lo;
  }
  return true;
}

static inline u8 clip(i32 v) { return (u8)(v < 0 ? 0 : v >> BITS > 255 ? 255 : v >> BITS); }

/* One plane: rows to the new width, then columns to the new height. `mid` holds h x ow elements. */
#define RESIZE(NAME, type, wide, weights, START, ROUND) \
  static void NAME(const type *x, i32 h, i32 w, type *mid, type *y, const Weights *across, \
                   const Weights *down) { \
    i32 ow = across->n, oh = down->n; \
    for (i32 r = 0; r < h; r++) \
      for (i32 c = 0; c < ow; c++) { \
        const type *p = x + (i64)r * w + across->first[c]; \
        wide sum = START; \
        for (i32 k = 0; k < across->count[c]; k++) \
          sum += (wide)p[k] * across->weights[(i64)c * across->most + k]; \
        mid[(i64)r * ow + c] = ROUND(sum); \
      } \
    for (i32 r = 0; r < oh; r++) \
      for (i32 c = 0; c < ow; c++) { \
        const type *p = mid + (i64)down->first[r] * ow + c; \
        wide sum = START; \
        for (i32 k = 0; k < down->count[r]; k++) \
          sum += (wide)p[(i64)k * ow] * down->weights[(i64)r * down->most + k]; \
        y[(i64)r * ow + c] = ROUND(sum); \
      } \
  }
RESIZE(plane_bytes, u8, i32, fixed, 1 << (BITS - 1), clip)
RESIZE(plane_floats, float, double, weight, 0, (float))
#undef RESIZE

/* The input's element under each output's centre. */
static void plane_nearest(const u8 *x, i32 h, i32 w, u8 *y, i32 oh, i32 ow, i32 bytes) {
  double down = (double)h / oh, across = (double)w / ow;
  for (i32 r = 0; r < oh; r++)
    for (i32 c = 0; c < ow; c++) {
      i64 from = (i64)TY_MIN((i32)((r + 0.5) * down), h - 1) * w +
                 TY_MIN((i32)((c + 0.5) * across), w - 1);
      memcpy(y + ((i64)r * ow + c) * bytes, x + from * bytes, (size_t)bytes);
    }
}

static bool resize(const void *x, i64 planes, i32 h, i32 w, void *y, i32 oh, i32 ow, Resize how,
                   i32 bytes) {
  Weights across = {0}, down = {0};
  i64 room, in = (i64)h * w * bytes, out = (i64)oh * ow * bytes;
  const u8 *from = x;
  u8 *to = y, *mid = NULL;
  if (how == RESIZE_NEAREST) {
    for (i64 i = 0; i < planes; i++)
      plane_nearest(from + i * in, h, w, to + i * out, oh, ow, bytes);
    return true;
  }
  bool ok = ty_mul((i64)h * ow, bytes, &room) && (mid = ty_file_alloc(room)) &&
            weights_make(&across, w, ow, how) && weights_make(&down, h, oh, how);
  for (i64 i = 0; ok && i < planes; i++) {
    const void *p = from + i * in;
    void *q = to + i * out;
    if (bytes == 1) plane_bytes(p, h, w, mid, q, &across, &down);
    else plane_floats(p, h, w, (float *)(void *)mid, q, &across, &down);
  }
  weights_free(&across);
  weights_free(&down);
  ty_file_free(mid);
  return ok;
}

bool ty_resize_bytes(const u8 *x, i64 planes, i32 h, i32 w, u8 *y, i32 oh, i32 ow, Resize how) {
  return resize(x, planes, h, w, y, oh, ow, how, 1);
}

bool ty_resize_floats(const float *x, i64 planes, i32 h, i32 w, float *y, i32 oh, i32 ow,
                      Resize how) {
  return resize(x, planes, h, w, y, oh, ow, how, 4);
}
