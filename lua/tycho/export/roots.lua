--- export/roots.lua -- C text of roots of unity, and of who makes the tables that hold them.
-- In: names of what a model uses (prelude.lua). Out: the pieces; nothing fails.

local prelude = require "tycho.export.prelude"

prelude.piece("fft_roots", { "fma_f64" }, [[
/* The cosine and the sine of t / n turns. */
static void ty_fft_root(int64_t t, int64_t n, double *c, double *s) {
  const double quarter = 0x1.921fb54442d18p-1, rest = 0x1.1a62633145c07p-55;
  const int64_t octant = 8 * t / n, part = 8 * t - octant * n;
  const int down = (int)(octant & 1);
  const double a = (double)(down ? n - part : part), b = (double)n, d = a / b;
  const double more = ty_fma_f64(-d, b, a) / b, h = d * quarter;
  const double l = ty_fma_f64(d, quarter, -h) + (d * rest + more * quarter);
  static const double ps[] = {1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
                              1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
  static const double qs[] = {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                              1.0 / 40320, -1.0 / 720, 1.0 / 24};
  const double z = h * h, half = 0.5 * z, one = 1 - half;
  double p = ps[0], q = qs[0];
  for (int i = 1; i < 8; i++) p = ps[i] + z * p;
  for (int i = 1; i < 7; i++) q = qs[i] + z * q;
  double sine = h + (h * (z * p) + l * one);
  const double cosine = one + (((1 - one) - half) + (z * (z * q) - h * l));
  if (down) sine = -sine;
  switch ((octant + down) / 2 & 3) {
  case 0: *c = cosine, *s = sine; break;
  case 1: *c = -sine, *s = cosine; break;
  case 2: *c = -cosine, *s = -sine; break;
  default: *c = sine, *s = -cosine;
  }
}
]])

prelude.piece("fft_once", {}, [[
/* Tables are made by the first call. ty_claim: 2: they are there; 1: this call makes them, and says ty_ready then; 0:
   another one is about it, or nobody can tell: this call makes its own. */
#if defined(__STDC_NO_ATOMICS__)
typedef int ty_once;
TY_INLINE int ty_claim(ty_once *once) { return *once; }
TY_INLINE void ty_ready(ty_once *once) { (void)once; }
#else
#include <stdatomic.h>
typedef atomic_int ty_once;
TY_INLINE int ty_claim(ty_once *once) {
  int none = 0;
  if (atomic_load_explicit(once, memory_order_acquire) == 2) return 2;
  if (atomic_compare_exchange_strong(once, &none, 1)) return 1;
  return none == 2 ? 2 : 0;
}
TY_INLINE void ty_ready(ty_once *once) { atomic_store_explicit(once, 2, memory_order_release); }
#endif
]])
