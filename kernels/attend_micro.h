/*
** attend_micro.h -- what attention does between its products, for one element type and instruction set.
** In:  what gemm_micro.h has, which includes this file for floats.
** Out: static const AttendKern NAME(attend); AttendKern in gemm.h says what each function does. Cannot fail.
**
** Scores lie with a query to a lane: maxima and sums go down the keys, and no lane meets another.
** 1. exp is s_exp of scalar.def for arguments up to 0, operation by operation, so that its bits are
**    those of every machine. NaN gives NaN.
** 2. A score that is NaN is no maximum; it makes the sum NaN.
** 3. Sums go over ascending keys from +0.
*/
#include "kernels/attend_exp.h"

#if TBYTES == 4
typedef u32 NAME(Bits) __attribute__((vector_size(VBYTES), aligned(TBYTES), may_alias));
#else
typedef u64 NAME(Bits) __attribute__((vector_size(VBYTES), aligned(TBYTES), may_alias));
#endif
typedef u32 NAME(Words) __attribute__((vector_size(VL * 4), aligned(4), may_alias));
#define U NAME(Bits)
#define AT(p) (*(V *)(p))

/* x where it is above y, else y: for a NaN y. */
#if VBYTES == 16
#define ABOVE(x, y) NAME(above)(x, y)
INLINE V NAME(above)(V x, V y) {
  U more = (U)(x > y);
  return (V)(((U)x & more) | ((U)y & ~more));
}
#else
#define ABOVE(x, y) MAX(x, y)
#endif

/* Where an fma is a call, one lane at a time: small. */
#if !VECTOR_FMA
#define X T
#define XFMA FMA1
#define XBITS(x) \
  ((union { \
     T f; \
     __typeof__(((U){0})[0]) u; \
   }){.f = (x)} \
       .u)
#define XFLOAT(x) \
  ((union { \
     __typeof__(((U){0})[0]) u; \
     T f; \
   }){.u = (x)} \
       .f)
#define XABOVE(x, y) ((x) > (y) ? (x) : (y))
#define K(x) ((T)(x))
#else
#define X V
#define XFMA FMA
#define XBITS(x) ((U)(x))
#define XFLOAT(x) ((V)(x))
#define XABOVE ABOVE
#define K(x) NAME(splat)((T)(x))
#endif
INLINE X NAME(exponential)(X a) {
#if TBYTES == 4
  static const T c[] = {EXP_F32};
  const T least = -104, magic = 0x1.8p23f + 127 + 64, undo = 0x1p-64f;
  const T ln2 = EXP_F32_LN2, rest = EXP_F32_REST;
  enum { SHIFT = 23 };
#else
  static const T c[] = {EXP_F64};
  const T least = -746, magic = 0x1.8p52 + 1023 + 512, undo = 0x1p-512;
  const T ln2 = EXP_F64_LN2, rest = EXP_F64_REST;
  enum { SHIFT = 52 };
#endif
  X x = XABOVE(K(least), a);
  X t = XFMA(x, K(1 / 0x1.62e42fefa39efp-1), K(magic));
  X n = t - K(magic), y = K(c[TY_COUNT(c) - 1]);
  X r = XFMA(n, K(rest), XFMA(n, K(ln2), x));
  UNROLL
  for (int i = TY_COUNT(c) - 2; i >= 0; i--) y = XFMA(y, r, K(c[i]));
  y = XFMA(XFMA(y, r, K(1)), r, K(1));
  return y * XFLOAT(XBITS(t) << SHIFT) * K(undo);
}

static ATTR void NAME(attend_max)(i64 keys, i64 width, const void *scores, void *max, void *from,
                                  void *before) {
  for (i64 v = 0; v < width; v += VL) {
    V most = AT((T *)max + v);
    AT((T *)before + v) = most;
    for (i64 j = 0; j < keys * width; j += width) most = ABOVE(AT((T *)scores + v + j), most);
    AT((T *)max + v) = most;
    AT((T *)from + v) = (V)((U)most & (U)(most != NAME(splat)(-__builtin_inff())));
  }
}

static ATTR void NAME(attend_exp)(i64 keys, i64 width, void *scores, const void *from, void *sum,
                                  const void *shrink) {
  for (i64 v = 0; v < width; v += VL) {
    const V m = AT((T *)from + v);
    V total = {0};
    for (i64 j = v; j < keys * width; j += width) {
      V p = AT((T *)scores + j) - m;
#if !VECTOR_FMA
      for (int i = 0; i < VL; i++) p[i] = NAME(exponential)(p[i]);
#else
      p = NAME(exponential)(p);
#endif
      AT((T *)scores + j) = p;
      total += p;
    }
    if (sum) AT((T *)sum + v) = AT((T *)sum + v) * AT((T *)shrink + v) + total;
  }
}

static ATTR void NAME(attend_grad)(i64 keys, i64 width, void *dp, const void *p, const void *mean) {
  for (i64 i = 0, end = keys * width; i < end;)
    for (i64 v = 0; v < width; v += VL, i += VL)
      AT((T *)dp + i) = AT((T *)p + i) * (AT((T *)dp + i) - AT((T *)mean + v));
}

static ATTR void NAME(attend_dot)(i64 n, i64 width, const void *a, const void *b, void *y) {
  for (i64 v = 0; v < width; v += VL) {
    V sum = {0};
    for (i64 c = v; c < n * width; c += width)
#if !VECTOR_FMA
      for (int l = 0; l < VL; l++) sum[l] = FMA1(((T *)a)[c + l], ((T *)b)[c + l], sum[l]);
#else
      sum = FMA(AT((T *)a + c), AT((T *)b + c), sum);
#endif
    AT((T *)y + v) = sum;
  }
}

static ATTR void NAME(attend_mask)(void *scores, const u32 *seen, i64 n) {
  for (i64 i = 0; i < n; i += VL) {
    U on = __builtin_convertvector(*(const NAME(Words) *)(seen + i), U), off = (U)(on == 0);
    U none = (U)NAME(splat)(-__builtin_inff());
    AT((T *)scores + i) = (V)(((U)AT((T *)scores + i) & ~off) | (none & off));
  }
}

static ATTR void NAME(scale)(void *out, i64 yrs, const void *in, i64 xrs, i64 rows, i64 cols,
                             const void *factor, i64 step) {
  for (i64 r = 0; r < rows; r++) {
    T *y = (T *)out + r * yrs, by = ((const T *)factor)[r * step];
    const T *x = (const T *)in + r * xrs;
    i64 c = 0;
    for (; c + VL <= cols; c += VL) AT(y + c) = AT(x + c) * by;
    for (; c < cols; c++) y[c] = x[c] * by;
  }
}

static const AttendKern NAME(attend) = {NAME(attend_max), NAME(attend_exp),  NAME(attend_grad),
                                        NAME(attend_dot), NAME(attend_mask), NAME(scale)};

#undef U
#undef AT
#undef ABOVE
#undef X
#undef XFMA
#undef XBITS
#undef XFLOAT
#undef XABOVE
#undef K
