/*
** range_decided.c -- where in a range of sizes the core would decide otherwise than at the samples.
** In: what the captures of five samples noted (Capture.decided): pairs of sizes and strides that were compared; dims. Out:
** the points at which two of them are equal that differ elsewhere, as holes of the range; whether dims may be those of a
** range. Fails where it cannot be said, or there are too many.
*/
#include <math.h>
#include "engine/shape_range.h"

const char ty_range_differ[] = "plans differ";

/* Sizes that come to be 1 or 0 broadcast, or are left out. Those that follow from t by no line may come to be so
** between the samples; but one may grow as the product of two sizes does: users' code knows none of these (proofs.lua),
** and what the library asks of its own dims holds at all sizes. */
const char *ty_range_dims(const Type *const *t, i64 last) {
  i64 v[RANGE_SAMPLES], c[3];
  for (int d = 0; d < t[0]->rank; d++) {
    for (int k = 0; k < RANGE_SAMPLES; k++) v[k] = t[k]->dims[d];
    if (!ty_patch_fit(v, last, c) || (c[2] && !ty_patch_grows(c)))
      return "a dim follows from sizes in its own way";
    if (c[1] && TY_MIN(v[0], v[RANGE_SAMPLES - 1]) < 2) return "a size comes to be 1";
  }
  return NULL;
}

bool ty_shape_range_hole(ShapeRange *r, i64 t) {
  for (i32 i = 0; i < r->nholes; i++)
    if (r->hole[i] == t) return true;
  if (r->nholes == RANGE_HOLES) return false;
  r->hole[r->nholes++] = t;
  return true;
}

/* Where the polynomial is 0, unless it is everywhere. */
static bool add_roots(ShapeRange *r, const i64 *c) {
  if (!c[1] && !c[2]) return true;
  if (!c[2])
    return c[0] % c[1] || -c[0] / c[1] < 0 || -c[0] / c[1] > r->last ||
           ty_shape_range_hole(r, -c[0] / c[1]);
  const double a = (double)c[2], middle = ((double)c[1] - a / 2) / a, under = 2 * (double)c[0] / a;
  const double by = middle * middle - under; /* t^2 + 2 middle t + under = 0 */
  if (by < -1) return true;
  for (int side = -1; side <= 1; side += 2) {
    const double root = side * sqrt(fmax(by, 0)) - middle;
    if (root < -2 || root > (double)r->last + 2) continue;
    for (i64 t = TY_MAX((i64)root - 2, 0); t <= TY_MIN((i64)root + 2, r->last); t++)
      if (!ty_patch_at(c, t) && !ty_shape_range_hole(r, t)) return false;
  }
  return true;
}

/* Whether the polynomial has one sign in all of the range. */
static bool has_one_sign(const i64 *c, i64 last) {
  const i64 v = c[0], w = ty_patch_at(c, last);
  if (!v || !w || (v > 0) != (w > 0)) return false;
  if (!c[2]) return true;
  const double a = (double)c[2],
               turn = 0.5 - (double)c[1] / a; /* furthest from the line between the ends */
  if (turn <= 0 || turn >= (double)last) return true;
  const double there = (double)v + (double)c[1] * turn + a * (turn * (turn - 1) / 2);
  return (v > 0) == (there > 0);
}

/* The k-th pair. */
static bool decide(Instance *const *sample, ShapeRange *r, i32 k, bool *many) {
  i64 v[2][RANGE_SAMPLES], c[2][3];
  for (int j = 0; j < 2; j++) {
    for (int i = 0; i < RANGE_SAMPLES; i++) v[j][i] = sample[i]->decided[k + j];
    if (!ty_patch_fit(v[j], r->last, c[j])) return false;
  }
  for (int j = 0; j < 3; j++) c[0][j] -= c[1][j];
  const bool is_order = sample[0]->decided[k + 2];
  if (is_order) return (!c[0][1] && !c[0][2]) || has_one_sign(c[0], r->last);
  if (!add_roots(r, c[0])) *many = true;
  return !*many;
}

const char *ty_range_decided(Instance *const *sample, ShapeRange *r) {
  const char *differs = "how tensors lie differs between sizes";
  bool many = false;
  for (int i = 1; i < RANGE_SAMPLES; i++)
    if (sample[i]->ndecided != sample[0]->ndecided) return differs;
  for (i32 k = 0; k < sample[0]->ndecided; k += 3)
    if (!decide(sample, r, k, &many)) return many ? "too many sizes decide otherwise" : differs;
  return NULL;
}
