/*
** fma_windows.c -- a * b + c, rounded once: the C library of MinGW rounds in between.
** In: any numbers. Out: the nearest one, the even one of two. Cannot fail.
** Where the processor has the instruction, compilers put it in place of most calls.
*/
#include "base/base.h"

#ifdef _WIN32

#include <math.h>

/* |x| = m * 2^e, m in [2^52, 2^53). x is finite and not 0. */
typedef struct Parts {
  u64 m;
  int e;
} Parts;

static u64 bits_of(double x) {
  u64 u;
  memcpy(&u, &x, 8);
  return u;
}

static Parts parts_of(double x) {
  enum { BIAS = 1075 };
  const u64 u = bits_of(x) & ~((u64)1 << 63), fraction = u & (((u64)1 << 52) - 1);
  const int e = (int)(u >> 52);
  if (e) return (Parts){fraction | (u64)1 << 52, e - BIAS};
  const int up = __builtin_clzll(fraction) - 11;
  return (Parts){fraction << up, 1 - BIAS - up};
}

typedef unsigned __int128 Wide;

/* Bits that fall off leave the lowest one set. */
static Wide shift_right(Wide v, int n) {
  if (n <= 0) return v;
  if (n >= 128) return v != 0;
  return v >> n | ((v & (((Wide)1 << n) - 1)) != 0);
}

/* v * 2^e, which is not 0, where the lowest bit of v stands for all below it. */
static double round_once(Wide v, int e, bool negative) {
  enum { LEAST = -1074, BIAS = 1075 };
  const u64 high = (u64)(v >> 64);
  const int top = high ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll((u64)v);
  const int drop = TY_MAX(top - 52, LEAST - e);
  u64 m;
  if (drop <= 0) m = (u64)(v << -drop);
  else if (drop > 127) m = 0;
  else {
    const Wide rest = v & (((Wide)1 << drop) - 1), half = (Wide)1 << (drop - 1);
    m = (u64)(v >> drop);
    m += rest > half || (rest == half && m & 1);
  }
  const int k = e + drop + BIAS - 1; /* the bit of weight 2^52 adds one */
  u64 u = k >= 0x7fe ? (u64)0x7ff << 52 : ((u64)k << 52) + m;
  double y;
  u |= (u64)negative << 63;
  memcpy(&y, &u, 8);
  return y;
}

/* Both terms have their highest bit at 124 to 126 and many zeros below: what a shift loses is far from what is rounded. */
double fma(double a, double b, double c) {
  enum { UP_PRODUCT = 20, UP_TERM = 73 };
  if (!isfinite(a) || !isfinite(b) || a == 0 || b == 0) return a * b + c;
  if (!isfinite(c)) return c + c; /* though the product may be beyond all doubles */
  if (c == 0) return a * b;
  const Parts x = parts_of(a), y = parts_of(b), z = parts_of(c);
  Wide p = (Wide)x.m * y.m << UP_PRODUCT, t = (Wide)z.m << UP_TERM;
  const int ep = x.e + y.e - UP_PRODUCT, et = z.e - UP_TERM, e = TY_MAX(ep, et);
  const bool below = (bits_of(a) ^ bits_of(b)) >> 63, minus = bits_of(c) >> 63;
  p = shift_right(p, e - ep), t = shift_right(t, e - et);
  if (below == minus) return round_once(p + t, e, below);
  if (p == t) return 0;
  return p > t ? round_once(p - t, e, below) : round_once(t - p, e, minus);
}

/* The product is exact in double, and a sum that is odd where it is not exact rounds to float as the exact one does. */
float fmaf(float a, float b, float c) {
  const double p = (double)a * b, s = p + c;
  if (!isfinite(s)) return (float)s;
  const double back = s - p, error = (p - (s - back)) + (c - back);
  u64 u = bits_of(s);
  if (error != 0 && !(u & 1)) u += (error > 0) == (s > 0) ? 1 : (u64)-1;
  double odd;
  memcpy(&odd, &u, 8);
  return (float)odd;
}

#endif
