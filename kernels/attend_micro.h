/*
** attend_micro.h -- what attention does between its products, for one element type and instruction set.
** In:  what gemm_micro.h has, which includes this file for floats.
** Out: static const AttendKern NAME(attend); attend.h says what each function does. Cannot fail.
**
** Scores lie with a query to a lane: maxima and sums go down the keys, and no lane meets another.
** 1. exp is s_exp of scalar.def for arguments up to 0, operation by operation, so that its bits are
**    those of every machine. NaN gives NaN.
** 2. A score that is NaN is no maximum; it makes the sum NaN.
** 3. Sums go over ascending keys from +0.
*/
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

INLINE V NAME(exponential)(V a) {
#if TBYTES == 4
  static const T c[] = {0.5, 0.166665196, 0.0416663848, 0.00836884882, 0.00139422144};
  const T least = -104, magic = 0x1.8p23f + 127 + 64, undo = 0x1p-64f;
  const T ln2 = -0x1.62e430p-1f, rest = 0x1.05c610p-29f;
  enum { SHIFT = 23 };
#else
  static const T c[] = {0x1.0000000000007p-1,  0x1.55555555554fbp-3,  0x1.55555555514b6p-5,
                        0x1.1111111128290p-7,  0x1.6c16c1821e6a3p-10, 0x1.a01a012578457p-13,
                        0x1.a0199e856e37ap-16, 0x1.71df33f25626cp-19, 0x1.28aa01afc03a2p-22,
                        0x1.ad6473426ac4ep-26};
  const T least = -746, magic = 0x1.8p52 + 1023 + 512, undo = 0x1p-512;
  const T ln2 = -0x1.62e42fefa39efp-1, rest = -0x1.abc9e3b39803fp-56;
  enum { SHIFT = 52 };
#endif
  const V one = NAME(splat)(1);
  V x = ABOVE(NAME(splat)(least), a);
  V t = FMA(x, NAME(splat)((T)(1 / 0x1.62e42fefa39efp-1)), NAME(splat)(magic));
  V n = t - NAME(splat)(magic), y = NAME(splat)(c[TY_COUNT(c) - 1]);
  V r = FMA(n, NAME(splat)(ln2), x);
  r = FMA(n, NAME(splat)(rest), r);
  UNROLL
  for (int i = TY_COUNT(c) - 2; i >= 0; i--) y = FMA(y, r, NAME(splat)(c[i]));
  y = FMA(FMA(y, r, one), r, one);
  return y * (V)((U)t << SHIFT) * NAME(splat)(undo);
}

static ATTR void NAME(soften)(i64 keys, i64 width, void *scores, void *max, void *sum,
                              void *shrink) {
  for (i64 v = 0; v < width; v += VL) {
    T *s = (T *)scores + v, *m = (T *)max + v, *l = (T *)sum + v;
    const V before = AT(m), none = NAME(splat)(-__builtin_inff());
    V most = before, total = {0};
    for (i64 j = 0; j < keys; j++) most = ABOVE(AT(s + j * width), most);
    const V from = (V)((U)most & (U)(most != none));
    for (i64 j = 0; j < keys; j++) {
      V p = NAME(exponential)(AT(s + j * width) - from);
      AT(s + j * width) = p;
      total += p;
    }
    const V less = NAME(exponential)(before - from);
    AT(m) = most;
    AT(l) = AT(l) * less + total;
    AT((T *)shrink + v) = less;
  }
}

static ATTR void NAME(slope)(i64 keys, i64 width, void *scores, void *dp, const void *max,
                             const void *mean, const void *kept) {
  for (i64 v = 0; v < width; v += VL) {
    T *s = (T *)scores + v, *d = (T *)dp + v;
    const T *z = (const T *)kept + v;
    const V m = AT((T *)max + v), a = AT((T *)mean + v);
    for (i64 j = 0; j < keys * width; j += width) {
      V p = NAME(exponential)(AT(s + j) - m), g = AT(d + j);
      if (kept) {
        AT(s + j) = p * AT(z + j);
        g = g * AT(z + j);
      } else {
        AT(s + j) = p;
      }
      AT(d + j) = p * (g - a);
    }
  }
}

static ATTR void NAME(veil)(void *scores, const u32 *seen, i64 n) {
  for (i64 i = 0; i < n; i += VL) {
    U on = __builtin_convertvector(*(const NAME(Words) *)(seen + i), U);
    U off = (U)(on == 0);
    AT((T *)scores + i) =
        (V)(((U)AT((T *)scores + i) & ~off) | ((U)NAME(splat)(-__builtin_inff()) & off));
  }
}

static ATTR void NAME(scale)(void *Y, i64 yrs, const void *X, i64 xrs, i64 rows, i64 cols,
                             const void *By, i64 bs, bool divide) {
  for (i64 r = 0; r < rows; r++) {
    T *y = (T *)Y + r * yrs, by = ((const T *)By)[r * bs];
    const T *x = (const T *)X + r * xrs;
    i64 c = 0;
    for (; c + VL <= cols; c += VL) AT(y + c) = divide ? AT(x + c) / by : AT(x + c) * by;
    for (; c < cols; c++) y[c] = divide ? x[c] / by : x[c] * by;
  }
}

static const AttendKern NAME(attend) = {NAME(soften), NAME(slope), NAME(veil), NAME(scale)};

#undef U
#undef AT
#undef ABOVE
