/*
** real.c -- f32 and f64 arithmetic, by the host's own: IEEE 754, no contraction, denormals kept. A NaN that f32 gives is
** 0x7fffffff. What is rounded otherwise than to nearest, flushed (.ftz), saturated (.sat) or approximate takes the slow way.
*/
#include <fenv.h>
#include <math.h>

#include "exec.h"

uint32_t f32_canonical(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return f != f ? 0x7fffffff : bits;
}

static inline float canonical(float f) {
  uint32_t nan = 0x7fffffff;
  float n;
  memcpy(&n, &nan, 4);
  return f == f ? f : n;
}

/* -0 is below +0; a NaN loses against a number. */
#define MIN(x, y) \
  ((x) != (x) ? (y) : (y) != (y) ? (x) : (x) < (y) || ((x) == (y) && signbit(x)) ? (x) : (y))
#define MAX(x, y) \
  ((x) != (x) ? (y) : (y) != (y) ? (x) : (x) > (y) || ((x) == (y) && !signbit(x)) ? (x) : (y))

#define REAL1(NAME, EXPR32, EXPR64) \
  RUN(NAME##_f32) { \
    float *d = SLOT(float, 0); \
    const float *a = SLOT(float, 1); \
    LANES(float x = a[l]; d[l] = canonical(EXPR32);); \
  } \
  RUN(NAME##_f64) { \
    double *d = SLOT(double, 0); \
    const double *a = SLOT(double, 1); \
    LANES(double x = a[l]; d[l] = (EXPR64);); \
  }
#define REAL2(NAME, EXPR) \
  RUN(NAME##_f32) { \
    float *d = SLOT(float, 0); \
    const float *a = SLOT(float, 1), *b = SLOT(float, 2); \
    LANES(float x = a[l]; float y = b[l]; d[l] = canonical(EXPR);); \
  } \
  RUN(NAME##_f64) { \
    double *d = SLOT(double, 0); \
    const double *a = SLOT(double, 1), *b = SLOT(double, 2); \
    LANES(double x = a[l]; double y = b[l]; d[l] = (EXPR);); \
  }

REAL2(add, x + y)
REAL2(sub, x - y)
REAL2(mul, x *y)
REAL2(div, x / y)
REAL2(min, MIN(x, y))
REAL2(max, MAX(x, y))
REAL1(sqrt, sqrtf(x), sqrt(x))
REAL1(rcp, 1 / x, 1 / x)

RUN(fma_f32) {
  float *d = SLOT(float, 0);
  const float *a = SLOT(float, 1), *b = SLOT(float, 2), *e = SLOT(float, 3);
  LANES(d[l] = canonical(__builtin_fmaf(a[l], b[l], e[l])););
}
RUN(fma_f64) {
  double *d = SLOT(double, 0);
  const double *a = SLOT(double, 1), *b = SLOT(double, 2), *e = SLOT(double, 3);
  LANES(d[l] = __builtin_fma(a[l], b[l], e[l]););
}

/* Signs of f64 change in place, NaN or not. */
RUN(abs_f32) {
  uint32_t *d = SLOT(uint32_t, 0);
  const uint32_t *a = SLOT(uint32_t, 1);
  LANES(uint32_t x = a[l] & 0x7fffffff; d[l] = x > 0x7f800000 ? 0x7fffffff : x;);
}
RUN(neg_f32) {
  uint32_t *d = SLOT(uint32_t, 0);
  const uint32_t *a = SLOT(uint32_t, 1);
  LANES(uint32_t x = a[l]; d[l] = (x & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : x ^ 0x80000000;);
}
RUN(abs_f64) {
  uint64_t *d = SLOT(uint64_t, 0);
  const uint64_t *a = SLOT(uint64_t, 1);
  LANES(d[l] = a[l] & ~((uint64_t)1 << 63););
}
RUN(neg_f64) {
  uint64_t *d = SLOT(uint64_t, 0);
  const uint64_t *a = SLOT(uint64_t, 1);
  LANES(d[l] = a[l] ^ (uint64_t)1 << 63;);
}

Run *const run_real[R_COUNT][2] = {
    [R_ADD] = {add_f32, add_f64}, [R_SUB] = {sub_f32, sub_f64},    [R_MUL] = {mul_f32, mul_f64},
    [R_FMA] = {fma_f32, fma_f64}, [R_DIV] = {div_f32, div_f64},    [R_MIN] = {min_f32, min_f64},
    [R_MAX] = {max_f32, max_f64}, [R_SQRT] = {sqrt_f32, sqrt_f64}, [R_RCP] = {rcp_f32, rcp_f64},
    [R_ABS] = {abs_f32, abs_f64}, [R_NEG] = {neg_f32, neg_f64},
};

/* --- the slow way */

static int host_round(int round) {
  return round == ROUND_RZ   ? FE_TOWARDZERO
         : round == ROUND_RM ? FE_DOWNWARD
         : round == ROUND_RP ? FE_UPWARD
                             : FE_TONEAREST;
}

static float flushed(float f) { return fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f; }

static float apply32(const Code *c, float x, float y, float z) {
  switch (c->op) {
  case R_ADD: return x + y;
  case R_SUB: return x - y;
  case R_MUL: return x * y;
  case R_FMA: return fmaf(x, y, z);
  case R_DIV: return x / y;
  case R_SQRT: return sqrtf(x);
  case R_RCP: return 1 / x;
  case R_MIN: return c->from & NAN_PASSES && (x != x || y != y) ? NAN : MIN(x, y);
  case R_MAX: return c->from & NAN_PASSES && (x != x || y != y) ? NAN : MAX(x, y);
  case R_ABS: return fabsf(x);
  case R_NEG: return -x;
  case R_EX2: return exp2f(x);
  case R_LG2: return log2f(x);
  case R_SIN: return sinf(x);
  case R_COS: return cosf(x);
  case R_TANH: return tanhf(x);
  default: return 1 / sqrtf(x);
  }
}

static double apply64(const Code *c, double x, double y, double z) {
  switch (c->op) {
  case R_ADD: return x + y;
  case R_SUB: return x - y;
  case R_MUL: return x * y;
  case R_FMA: return fma(x, y, z);
  case R_DIV: return x / y;
  case R_SQRT: return sqrt(x);
  case R_RCP: return 1 / x;
  default: return 1 / sqrt(x);
  }
}

void run_real_slow(Warp *w, const Code *c, uint32_t mask) {
  fesetround(host_round(c->round));
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    if (c->type == T_F64) {
      SLOT(double, 0)
      [l] = apply64(c, SLOT(double, 1)[l], SLOT(double, c->n > 2 ? 2 : 1)[l],
                    SLOT(double, c->n > 3 ? 3 : 1)[l]);
      continue;
    }
    float v[3];
    for (int i = 0; i < 3; i++) {
      v[i] = SLOT(float, c->n > i + 1 ? i + 1 : 1)[l];
      if (c->ftz) v[i] = flushed(v[i]);
    }
    volatile float r = apply32(c, v[0], v[1], v[2]);
    float f = c->ftz ? flushed(r) : r;
    if (c->sat) f = f != f || f <= 0 ? 0 : f > 1 ? 1 : f;
    SLOT(uint32_t, 0)[l] = f32_canonical(f);
  }
  fesetround(FE_TONEAREST);
}

/* a + b rounded to odd: what is rounded again to fewer bits comes out as if rounded once. */
double round_odd_sum(double a, double b) {
  double s = a + b;
  if (!isfinite(s)) return s;
  double part = s - a, rest = (a - (s - part)) + (b - part);
  if (rest == 0) return s;
  uint64_t bits;
  memcpy(&bits, &s, 8);
  if (bits & 1) return s;
  bits += (rest > 0) == (s > 0) ? 1 : (uint64_t)-1;
  memcpy(&s, &bits, 8);
  return s;
}
