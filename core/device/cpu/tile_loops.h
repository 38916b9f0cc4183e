/*
** tile_loops.h -- the loops of the tile machine for one instruction set.
** Included by tile_prims.c once for each, with ISA defined; ID(x) is a name of that set. MAPS: the set
** whose loops element by element are used, its own or one that came before. A loop
** does the same to the bit in every set: there is no contraction, and the order of every sum is
** written out. A result may lie on an operand element for element, which `ivdep` allows.
*/
#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define ID(x) CAT(x, ISA)
#define OF_MAPS(x) CAT(x, MAPS)
#define LOOP(n) _Pragma("GCC ivdep") for (i64 i = 0; i < (n); i++)
#define ARGS \
  void *yv, const void *av UNUSED, const void *bv UNUSED, const void *cv UNUSED, i64 n, \
      u64 imm UNUSED

/* ---- element by element: U result, T operands ----------------------------------------------- */

#define UN(NAME, U, T, E) \
  static void ID(NAME)(ARGS) { \
    U *y = yv; \
    const T *pa = av; \
    LOOP(n) { \
      T a = pa[i]; \
      y[i] = (U)(E); \
    } \
  }
#define BIN_(NAME, U, T, E, A, B) \
  static void ID(NAME)(ARGS) { \
    U *y = yv; \
    const T *pa = av, *pb = bv; \
    const T a0 UNUSED = n ? *pa : 0, b0 UNUSED = n ? *pb : 0; \
    LOOP(n) { \
      T a = A, b = B; \
      y[i] = (U)(E); \
    } \
  }
#define VV(NAME, U, T, E) BIN_(NAME##_vv, U, T, E, pa[i], pb[i])
#define VS(NAME, U, T, E) BIN_(NAME##_vs, U, T, E, pa[i], b0)
#define SV(NAME, U, T, E) BIN_(NAME##_sv, U, T, E, a0, pb[i])
#define COMMUTES(NAME, U, T, E) VV(NAME, U, T, E) VS(NAME, U, T, E)
#define ORDERED(NAME, U, T, E) COMMUTES(NAME, U, T, E) SV(NAME, U, T, E)

/* MIN and MAX: total, so that any order gives the same bits. Of equal values the bits differ for
** zeros alone: AND clears the sign, OR keeps it. */
#define TOTAL(NAME, T, U, LESS, BITS, NAN_BITS) \
  static inline T ID(NAME)(T a, T b) { \
    union { \
      T f; \
      U u; \
    } x = {.f = a}, z = {.f = b}, e = {.u = x.u BITS z.u}, none = {.u = NAN_BITS}; \
    T r = a LESS b ? a : b; \
    r = a == b ? e.f : r; \
    return __builtin_isunordered(a, b) ? none.f : r; \
  }
TOTAL(max_f32, f32, u32, >, &, NAN32)
TOTAL(min_f32, f32, u32, <, |, NAN32)
TOTAL(max_f64, f64, u64, >, &, NAN64)
TOTAL(min_f64, f64, u64, <, |, NAN64)
static inline i32 ID(max_i32)(i32 a, i32 b) { return a > b ? a : b; }
static inline i32 ID(min_i32)(i32 a, i32 b) { return a < b ? a : b; }
static inline i64 ID(max_i64)(i64 a, i64 b) { return a > b ? a : b; }
static inline i64 ID(min_i64)(i64 a, i64 b) { return a < b ? a : b; }

#ifdef OWN_MAPS
#define FLOATS(S, T, U, FN) \
  COMMUTES(add_##S, T, T, a + b) \
  ORDERED(sub_##S, T, T, a - b) \
  COMMUTES(mul_##S, T, T, a *b) \
  ORDERED(div_##S, T, T, a / b) \
  UN(sqrt_##S, T, T, FN(sqrt)(a)) \
  UN(floor_##S, T, T, FN(floor)(a)) \
  UN(ceil_##S, T, T, FN(ceil)(a)) \
  UN(trunc_##S, T, T, FN(trunc)(a)) \
  UN(rint_##S, T, T, FN(rint)(a)) \
  UN(neg_##S, U, U, a ^ ((U)1 << (sizeof(U) * 8 - 1))) \
  UN(abs_##S, U, U, a & ~((U)1 << (sizeof(U) * 8 - 1)))
#define F_(x) __builtin_##x##f
#define D_(x) __builtin_##x
FLOATS(f32, f32, u32, F_)
FLOATS(f64, f64, u64, D_)

/* Integers wrap: unsigned where C leaves overflow open. */
#define INTS(S, T, U, W) \
  COMMUTES(add_##S, U, U, a + b) \
  ORDERED(sub_##S, U, U, a - b) \
  COMMUTES(mul_##S, U, U, a *b) \
  UN(neg_##S, U, U, 0 - a) \
  UN(abs_##S, U, T, a < 0 ? 0 - (U)a : (U)a) \
  COMMUTES(and_##S, U, U, a &b) \
  COMMUTES(or_##S, U, U, a | b) \
  COMMUTES(xor_##S, U, U, a ^ b) \
  COMMUTES(shl_##S, U, U, a << (b & (W - 1))) \
  COMMUTES(shr_##S, T, T, a >> (b & (W - 1))) \
  COMMUTES(shru_##S, U, U, a >> (b & (W - 1)))
INTS(i32, i32, u32, 32)
INTS(i64, i64, u64, 64)

#define COMPARISONS(S, T) \
  COMMUTES(min_##S, T, T, ID(min_##S)(a, b)) \
  COMMUTES(max_##S, T, T, ID(max_##S)(a, b)) \
  COMMUTES(eq_##S, i32, T, a == b) \
  ORDERED(lt_##S, i32, T, a < b) \
  ORDERED(le_##S, i32, T, a <= b)
COMPARISONS(i32, i32)
COMPARISONS(i64, i64)
COMPARISONS(f32, f32)
COMPARISONS(f64, f64)
#endif

/* A quotient of two i32 is exact in f64 before it is cut. Divisors 0 and -1 go their own way. */
#define DIV32(a, b) \
  (b == 0 ? 0 : b == -1 ? (i32)(0 - (u32)a) : (i32)((f64)a / (f64)(b == 0 || b == -1 ? 1 : b)))
#define DIV64(a, b) (b == 0 ? 0 : b == -1 ? (i64)(0 - (u64)a) : a / b)
VV(divi_i32, i32, i32, DIV32(a, b))
VV(remi_i32, i32, i32, b == 0 ? 0 : (i32)((u32)a - (u32)DIV32(a, b) * (u32)b))
/* Of two i64 below 2^51, too; and these become floats, and are taken back, by adding what puts them into the
** fraction's low bits. Strips of such numbers go by vectors, others one by one. */
#define MAGIC64 0x4338000000000000
static inline f64 ID(to_f64)(i64 a) {
  union {
    i64 i;
    f64 f;
  } x = {a + MAGIC64};
  return x.f - 0x1.8p52;
}
static inline i64 ID(to_i64)(f64 a) {
  union {
    f64 f;
    i64 i;
  } x = {a + 0x1.8p52};
  return x.i - MAGIC64;
}
#define STRIPS(NAME, SMALL, ANY) \
  static void ID(NAME)(ARGS) { \
    i64 *y = yv; \
    const i64 *pa = av, *pb = bv; \
    for (i64 m; n > 0; n -= m, y += m, pa += m, pb += m) { \
      u64 any = 0; \
      m = TY_MIN(n, 128); \
      LOOP(m) any |= ((u64)pa[i] + (1ull << 51)) | ((u64)pb[i] + (1ull << 51)); \
      if (any >> 52) LOOP(m) { \
          i64 a = pa[i], b = pb[i]; \
          y[i] = ANY; \
        } \
      else LOOP(m) { \
          i64 b = pb[i]; \
          f64 fa = ID(to_f64)(pa[i]), fb = ID(to_f64)(b == 0 ? 1 : b), \
              q = __builtin_trunc(fa / fb); \
          i64 r = ID(to_i64)(SMALL); \
          y[i] = b == 0 ? 0 : r; \
        } \
    } \
  }
STRIPS(divi_i64_vv, q, DIV64(a, b))
STRIPS(remi_i64_vv, fa - q * fb, b == 0 || b == -1 ? 0 : a % b)
static void ID(iota)(i64 *y, i64 first, i64 stride, i64 n) { LOOP(n) y[i] = first + i * stride; }
#ifdef OWN_MAPS
COMMUTES(mulhi_i64, u64, u64, (u64)((unsigned __int128)a *b >> 64))
#endif

#define TRI_(NAME, T, A, E, BB, CC) \
  static void ID(NAME)(ARGS) { \
    T *y = yv; \
    const A *pa = av; \
    const T *pb = bv, *pc = cv; \
    const T b0 UNUSED = n ? *pb : 0, c0 UNUSED = n ? *pc : 0; \
    LOOP(n) { \
      A a = pa[i]; \
      T b = BB, c = CC; \
      y[i] = E; \
    } \
  }
#define TRI(NAME, T, A, E) \
  TRI_(NAME##_vvv, T, A, E, pb[i], pc[i]) \
  TRI_(NAME##_vsv, T, A, E, b0, pc[i]) \
  TRI_(NAME##_vvs, T, A, E, pb[i], c0) \
  TRI_(NAME##_vss, T, A, E, b0, c0)
#ifdef OWN_MAPS
TRI(fma_f32, f32, f32, __builtin_fmaf(a, b, c))
TRI(fma_f64, f64, f64, __builtin_fma(a, b, c))
TRI(sel_4, u32, i32, a ? b : c)
TRI(sel_8, u64, i32, a ? b : c)
#endif

/* ---- conversions ---------------------------------------------------------------------------- */

/* Towards zero, saturating, NaN 0: the value is brought into range first. HIGH is the first power
** of two that does not fit. */
#define SATURATE(NAME, I, F, HIGH, MAX) \
  UN(NAME, I, F, \
     a >= HIGH ? MAX \
               : (I)(a < -HIGH                                  ? -HIGH \
                     : a >= HIGH || __builtin_isunordered(a, a) ? 0 \
                                                                : a))
SATURATE(cvt_f32_i32, i32, f32, 0x1p31f, INT32_MAX)
SATURATE(cvt_f32_i64, i64, f32, 0x1p63f, INT64_MAX)
SATURATE(cvt_f64_i32, i32, f64, 0x1p31, INT32_MAX)
SATURATE(cvt_f64_i64, i64, f64, 0x1p63, INT64_MAX)
UN(cvt_i32_i64, i64, i32, a)
UN(cvt_i32_f32, f32, i32, a)
UN(cvt_i32_f64, f64, i32, a)
UN(cvt_i64_i32, u32, u64, a)
UN(cvt_i64_f32, f32, i64, a)
UN(cvt_i64_f64, f64, i64, a)
UN(cvt_f32_f64, f64, f32, a)
UN(cvt_f64_f32, f32, f64, a)
#ifdef OWN_MAPS
UN(bits_f32, u32, u32, (a & 0x7fffffff) > 0x7f800000 ? NAN32 : a)
UN(bits_f64, u64, u64, (a & ~SIGN64) > 0x7ff0000000000000 ? NAN64 : a)
#endif
UN(narrow_bool, i32, i32, a != 0)
UN(narrow_u8, i32, i32, (u8)a)
UN(narrow_i8, i32, i32, (i8)a)
UN(narrow_i16, i32, i32, (i16)a)
UN(copy_4, u32, u32, a)
UN(copy_8, u64, u64, a)

/* bf16: the upper half of an f32, rounded to even; a NaN becomes the plain one. */
#define TO_BF16(u) \
  ((u16)(((u)&0x7fffffff) > 0x7f800000 ? 0x7fc0 : ((u) + 0x7fff + ((u) >> 16 & 1)) >> 16))
UN(narrow_bf16, u32, u32, (u32)TO_BF16(a) << 16)

#ifdef HAS_F16C
static inline f32 ID(from_f16)(u16 h) { return _cvtsh_ss(h); }
static inline u16 ID(to_f16)(f32 f) { return f != f ? 0x7e00 : _cvtss_sh(f, 0); }
/* Eight at a time: the compiler does not make these out of the scalar form. */
static void ID(narrow_f16)(ARGS) {
  f32 *y = yv;
  const f32 *a = av;
  const __m256 nan = _mm256_set1_ps(__builtin_nanf(""));
  i64 i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_loadu_ps(a + i);
    x = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm256_cvtps_ph(x, 0)));
  }
  for (; i < n; i++) y[i] = ID(from_f16)(ID(to_f16)(a[i]));
}
static void ID(load8_f16)(f32 *y, const u16 *x, i64 n) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
  for (; i < n; i++) y[i] = ID(from_f16)(x[i]);
}
static void ID(store8_f16)(u16 *x, const f32 *y, i64 n) {
  const __m256 nan = _mm256_set1_ps(__builtin_nanf(""));
  i64 i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 v = _mm256_loadu_ps(y + i);
    v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    _mm_storeu_si128((__m128i *)(x + i), _mm256_cvtps_ph(v, 0));
  }
  for (; i < n; i++) x[i] = ID(to_f16)(y[i]);
}
#elif defined(__aarch64__)
/* A NaN has no sign and no bits of its own. */
static inline float16x4_t ID(to4_f16)(const f32 *p) {
  const float32x4_t x = vld1q_f32(p), nan = vdupq_n_f32(__builtin_nanf(""));
  return vcvt_f16_f32(vbslq_f32(vceqq_f32(x, x), x, nan));
}
static inline f32 ID(from_f16)(u16 h) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}
static inline u16 ID(to_f16)(f32 f) {
  return vget_lane_u16(vreinterpret_u16_f16(ID(to4_f16)((f32[4]){f})), 0);
}
static void ID(narrow_f16)(ARGS) {
  f32 *y = yv;
  const f32 *a = av;
  i64 i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vcvt_f32_f16(ID(to4_f16)(a + i)));
  for (; i < n; i++) y[i] = ID(from_f16)(ID(to_f16)(a[i]));
}
static void ID(load8_f16)(f32 *y, const u16 *x, i64 n) {
  i64 i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + i))));
  for (; i < n; i++) y[i] = ID(from_f16)(x[i]);
}
static void ID(store8_f16)(u16 *x, const f32 *y, i64 n) {
  i64 i = 0;
  for (; i + 4 <= n; i += 4) vst1_u16(x + i, vreinterpret_u16_f16(ID(to4_f16)(y + i)));
  for (; i < n; i++) x[i] = ID(to_f16)(y[i]);
}
#else
static inline f32 ID(from_f16)(u16 h) { return ty_f16_to_f32(h); }
static inline u16 ID(to_f16)(f32 f) { return ty_f32_to_f16(f); }
static void ID(narrow_f16)(ARGS) {
  f32 *y = yv;
  const f32 *a = av;
  LOOP(n) y[i] = ID(from_f16)(ID(to_f16)(a[i]));
}
static void ID(load8_f16)(f32 *y, const u16 *x, i64 n) { LOOP(n) y[i] = ID(from_f16)(x[i]); }
static void ID(store8_f16)(u16 *x, const f32 *y, i64 n) { LOOP(n) x[i] = ID(to_f16)(y[i]); }
#endif

/* ---- memory --------------------------------------------------------------------------------- */

#define MEMORY(NAME, M, T, READ, WRITE, READ_ALL, WRITE_ALL, READ_APART) \
  static void ID(load_##NAME)(void *yv, const void *xv, i64 stride, i64 n) { \
    T *y = yv; \
    const M *x = xv; \
    if (stride == 1) READ_ALL; \
    else if (stride == 0) { \
      T v = n ? READ(x[0]) : 0; \
      LOOP(n) y[i] = v; \
    } else READ_APART; \
  } \
  static void ID(store_##NAME)(void *xv, i64 stride, const void *yv, i64 n) { \
    M *x = xv; \
    const T *y = yv; \
    if (stride == 1) WRITE_ALL; \
    else LOOP(n) x[i * stride] = WRITE(y[i]); \
  } \
  static ONE_BY_ONE void ID(gload_##NAME)(void *yv, const void *xv, i64 stride, const i64 *at, \
                                          i64 gstride, i64 n) { \
    T *y = yv; \
    const M *x = xv; \
    if (gstride == 1 && !stride) LOOP(n) y[i] = READ(x[at[i]]); \
    else LOOP(n) y[i] = READ(x[i * stride + at[i] * gstride]); \
  }
#define APART(READ) LOOP(n) y[i] = READ(x[i * stride])
/* Every other element, and the other way round, by vectors. */
#define APART_FAST(T) \
  { \
    if (stride == 2) LOOP(n) y[i] = x[2 * i]; \
    else if (stride == -1) LOOP(n) y[i] = x[-i]; \
    else APART((T)); \
  }
#define SIMPLE(NAME, M, T, READ_APART) \
  MEMORY(NAME, M, T, (T), (M), LOOP(n) y[i] = (T)x[i], LOOP(n) x[i] = (M)y[i], READ_APART)
SIMPLE(u8, u8, u32, APART((u32)))
SIMPLE(i8, i8, i32, APART((i32)))
SIMPLE(i16, i16, i32, APART((i32)))
SIMPLE(4, u32, u32, APART_FAST(u32))
SIMPLE(8, u64, u64, APART_FAST(u64))
MEMORY(f16, u16, f32, ID(from_f16), ID(to_f16), ID(load8_f16)(y, x, n), ID(store8_f16)(x, y, n),
       APART(ID(from_f16)))
#define FROM_BF16(h) ((u32)(h) << 16)
MEMORY(bf16, u16, u32, FROM_BF16, TO_BF16, LOOP(n) y[i] = FROM_BF16(x[i]),
       LOOP(n) x[i] = TO_BF16(y[i]), APART(FROM_BF16))

#if VB == 32 && defined(HAS_F16C)
/* Squares are turned in registers: by pairs of elements, of pairs, of halves. AVX-512 takes these too. */
#define LO(a, b) (__m256) _mm256_unpacklo_ps(a, b)
#define HI(a, b) (__m256) _mm256_unpackhi_ps(a, b)
#define LO2(a, b) (__m256) _mm256_unpacklo_pd((__m256d)(a), (__m256d)(b))
#define HI2(a, b) (__m256) _mm256_unpackhi_pd((__m256d)(a), (__m256d)(b))
#define HALVES_(a, b, which) _mm256_permute2f128_ps(a, b, which)
#define TURN(SIZE, E, ...) \
  static void ID(turn_##SIZE)(void *yv, i64 ys, const void *xv, i64 xs, i64 rows, i64 cols) { \
    for (i64 c = 0; c < cols; c += E) \
      for (i64 r = 0; r < rows; r += E) { \
        char *y = (char *)yv + (r * ys + c) * SIZE; \
        const char *x = (const char *)xv + (c * xs + r) * SIZE; \
        __m256 v[E], w[E]; \
        ALL for (int i = 0; i < E; i++) v[i] = \
            _mm256_loadu_ps((const float *)(x + i * xs * SIZE)); \
        __VA_ARGS__ \
        ALL for (int i = 0; i < E; i++) _mm256_storeu_ps((float *)(y + i * ys * SIZE), v[i]); \
      } \
  }
#define ALL _Pragma("GCC unroll 8")
TURN(4, 8, {
  ALL for (int i = 0; i < 8; i += 2) w[i] = LO(v[i], v[i + 1]), w[i + 1] = HI(v[i], v[i + 1]);
  ALL for (int i = 0; i < 8; i += 4) {
    v[i] = LO2(w[i], w[i + 2]), v[i + 1] = HI2(w[i], w[i + 2]);
    v[i + 2] = LO2(w[i + 1], w[i + 3]), v[i + 3] = HI2(w[i + 1], w[i + 3]);
  }
  ALL for (int i = 0; i < 8; i++) w[i] = v[i];
  ALL for (int i = 0; i < 4; i++) {
    v[i] = HALVES_(w[i], w[i + 4], 0x20), v[i + 4] = HALVES_(w[i], w[i + 4], 0x31);
  }
})
TURN(8, 4, {
  ALL for (int i = 0; i < 4; i += 2) w[i] = LO2(v[i], v[i + 1]), w[i + 1] = HI2(v[i], v[i + 1]);
  ALL for (int i = 0; i < 2; i++) {
    v[i] = HALVES_(w[i], w[i + 2], 0x20), v[i + 2] = HALVES_(w[i], w[i + 2], 0x31);
  }
})
#undef ALL
#endif

static void ID(fill_4)(ARGS) {
  u32 *y = yv, v = *(const u32 *)av;
  LOOP(n) y[i] = v;
}
static void ID(fill_8)(ARGS) {
  u64 *y = yv, v = *(const u64 *)av;
  LOOP(n) y[i] = v;
}
static void ID(lut_4)(ARGS) {
  u32 *y = yv;
  const u32 *table = ty_luts[imm].data;
  const i32 *a = av;
  LOOP(n) y[i] = table[a[i]];
}
static void ID(lut_8)(ARGS) {
  u64 *y = yv;
  const u64 *table = ty_luts[imm].data;
  const i32 *a = av;
  LOOP(n) y[i] = table[a[i]];
}

/* Philox4x32-10 in strips of 16, the four words of the counter side by side. */
static void ID(philox)(ARGS) {
  u32 *y = yv;
  const u64 *a = av, *b = bv, *c = cv;
  for (i64 at = 0; at < n; at += 16) {
    i64 m = TY_MIN(n - at, 16);
    u32 w[4][16] = {{0}}, k0[16] = {0}, k1[16] = {0};
    for (i64 i = 0; i < m; i++) {
      w[0][i] = (u32)a[at + i], w[1][i] = (u32)(a[at + i] >> 32);
      w[2][i] = (u32)b[at + i], w[3][i] = (u32)(b[at + i] >> 32);
      k0[i] = (u32)c[at + i], k1[i] = (u32)(c[at + i] >> 32);
    }
    for (int round = 0; round < 10; round++) LOOP(16) {
        u64 p = (u64)w[0][i] * 0xd2511f53u, q = (u64)w[2][i] * 0xcd9e8d57u;
        w[0][i] = (u32)(q >> 32) ^ w[1][i] ^ k0[i], w[1][i] = (u32)q;
        w[2][i] = (u32)(p >> 32) ^ w[3][i] ^ k1[i], w[3][i] = (u32)p;
        k0[i] += 0x9e3779b9u, k1[i] += 0xbb67ae85u;
      }
    memcpy(y + at, w[imm], (size_t)m * 4);
  }
}

/* ---- reductions ----------------------------------------------------------------------------- */

#define ADD_(a, b) ((a) + (b))
#define MUL_(a, b) ((a) * (b))

/* The common period, all lanes of a trailing run, is kept in four vectors of 64 bytes. */
#define FOLD_FAST(T, OP) \
  typedef T V __attribute__((vector_size(64), aligned(sizeof(T)), may_alias)); \
  V *s = av, p = s[0], q = s[1], r = s[2], t = s[3]; \
  for (; n >= period; n -= period, x += period) { \
    const V *z = (const V *)x; \
    p = OP(p, z[0]), q = OP(q, z[1]), r = OP(r, z[2]), t = OP(t, z[3]); \
  } \
  s[0] = p, s[1] = q, s[2] = r, s[3] = t;
#define FOLD_SIMPLE(T, OP) /* what is seldom reduced is not worth its code */
/* Extremes of floats by plain comparison, which leaves NaN and the sign of zero aside: `some`
** gathers what was a NaN, `signs` the sign bits (AND for the largest, OR for the smallest: of
** zeros alone the sign is that of any other). */
/* Four vectors of lanes at a time, so that none waits for the one before. */
#define FOLD_EXTREME(NAME, T, U, LESS, BITS, NAN_BITS) \
  static NOINLINE void ID(extreme_##NAME)(T * a, const T *x, i64 n) { \
    typedef T V __attribute__((vector_size(VB), aligned(sizeof(T)), may_alias)); \
    typedef U W __attribute__((vector_size(VB))); \
    enum { L = VB / sizeof(T), SIDE = 4 }; \
    for (int from = 0; from < NODE / VB; from += SIDE, a += SIDE * L, x += SIDE * L) { \
      V m[SIDE]; \
      W some[SIDE], signs[SIDE]; \
      _Pragma("GCC unroll 4") for (int k = 0; k < SIDE; k++) { \
        m[k] = *(const V *)(a + k * L); \
        some[k] = (W)(m[k] != m[k]), signs[k] = (W)m[k]; \
      } \
      for (i64 i = 0; i < n; i += NODE / sizeof(T)) \
        _Pragma("GCC unroll 4") for (int k = 0; k < SIDE; k++) { \
          V v = *(const V *)(x + i + k * L); \
          m[k] = (V)BETTER_OF(NAME, T, LESS, v, m[k]); \
          some[k] |= (W)(v != v), signs[k] = signs[k] BITS(W) v; \
        } \
      _Pragma("GCC unroll 4") for (int k = 0; k < SIDE; k++) { \
        W zero = (W)(m[k] == (V){0}); \
        W r = (zero & signs[k] & ((U)1 << (sizeof(U) * 8 - 1))) | (~zero & (W)m[k]); \
        *(V *)(a + k * L) = (V)((some[k] & NAN_BITS) | (~some[k] & r)); \
      } \
    } \
  }
/* v where it is better than m, else m: what the processor's own instructions do. */
#undef BETTER_OF
#if defined(MANY_ISAS) && VB == 64
#define BETTER_OF(NAME, T, LESS, v, m) better512_##NAME((__m512)(v), (__m512)(m))
#define better512_max_f32 _mm512_max_ps
#define better512_min_f32 _mm512_min_ps
#elif defined(MANY_ISAS) && VB == 32
#define BETTER_OF(NAME, T, LESS, v, m) better256_##NAME((__m256)(v), (__m256)(m))
#define better256_max_f32 _mm256_max_ps
#define better256_min_f32 _mm256_min_ps
#else
#define BETTER_OF(NAME, T, LESS, v, m) (((W)(v LESS m) & (W)v) | (~(W)(v LESS m) & (W)m))
#endif
#if VB > 16 || defined(STRANDS)
FOLD_EXTREME(max_f32, f32, u32, >, &, NAN32)
FOLD_EXTREME(min_f32, f32, u32, <, |, NAN32)
#define FAST_max_f32(T, OP) \
  i64 whole = n - n % period; \
  ID(extreme_max_f32)(a, x, whole), n -= whole, x += whole;
#define FAST_min_f32(T, OP) \
  i64 whole = n - n % period; \
  ID(extreme_min_f32)(a, x, whole), n -= whole, x += whole;
#else
#define FAST_max_f32 FOLD_SIMPLE
#define FAST_min_f32 FOLD_SIMPLE
#endif
#define FOLD(NAME, T, OP, FAST) \
  static NOINLINE void ID(fold_##NAME)(void *av, const void *xv, i64 period, i64 n) { \
    T *a = av; \
    const T *x = xv; \
    if (period == NODE / sizeof(T)) { FAST(T, OP) } \
    for (; n >= period; n -= period, x += period) LOOP(period) a[i] = OP(a[i], x[i]); \
    LOOP(n) a[i] = OP(a[i], x[i]); \
  }
#define fill_u32 fill_4
#define fill_i32 fill_4
#define fill_f32 fill_4
#define fill_u64 fill_8
#define fill_i64 fill_8
#define fill_f64 fill_8
#define FOLDS(S, U, SUM, MAX, MIN) \
  FOLD(sum_##S, U, ADD_, SUM) \
  FOLD(prod_##S, U, MUL_, FOLD_SIMPLE) \
  FOLD(max_##S, S, ID(max_##S), MAX) \
  FOLD(min_##S, S, ID(min_##S), MIN)
FOLDS(i32, u32, FOLD_SIMPLE, FOLD_SIMPLE, FOLD_SIMPLE)
FOLDS(i64, u64, FOLD_SIMPLE, FOLD_SIMPLE, FOLD_SIMPLE)
FOLDS(f32, f32, FOLD_FAST, FAST_max_f32, FAST_min_f32)
FOLDS(f64, f64, FOLD_FAST, FOLD_SIMPLE, FOLD_SIMPLE)

/* Rows of the kinds that programs are full of; tile_reduce.c does the others by fold. Lanes are a few
** vectors, those without an element hold the identity; lanes join from vector to vector, then
** within one. A row that is not longer than a vector starts there. */
#if VB == 64
#define DOWN_f32(v, k) \
  __builtin_shufflevector(v, v, k, k + 1, k + 2, k + 3, k + 4, k + 5, k + 6, k + 7, 8, 9, 10, 11, \
                          12, 13, 14, 15)
#define DOWN_f64(v, k) __builtin_shufflevector(v, v, k, k + 1, k + 2, k + 3, 4, 5, 6, 7)
#elif VB == 32
#define DOWN_f32(v, k) __builtin_shufflevector(v, v, k, k + 1, k + 2, k + 3, 4, 5, 6, 7)
#define DOWN_f64(v, k) __builtin_shufflevector(v, v, k, k + 1, 2, 3)
#else
#define DOWN_f32(v, k) __builtin_shufflevector(v, v, k, k + 1, 2, 3)
#define DOWN_f64(v, k) __builtin_shufflevector(v, v, k, 1)
#endif
#if VB == 64
#define WITHIN_8(OP, v) OP(v, v, DOWN_f32(v, 8));
#define WITHIN_4(OP, v) OP(v, v, DOWN_f64(v, 4));
#else
#define WITHIN_8(OP, v)
#define WITHIN_4(OP, v)
#endif
#if VB >= 32
#define WITHIN_f32(OP, v) \
  WITHIN_8(OP, v) \
  OP(v, v, DOWN_f32(v, 4)); \
  OP(v, v, DOWN_f32(v, 2)); \
  OP(v, v, DOWN_f32(v, 1))
#define WITHIN_f64(OP, v) \
  WITHIN_4(OP, v) \
  OP(v, v, DOWN_f64(v, 2)); \
  OP(v, v, DOWN_f64(v, 1))
#else
#define WITHIN_f32(OP, v) \
  OP(v, v, DOWN_f32(v, 2)); \
  OP(v, v, DOWN_f32(v, 1))
#define WITHIN_f64(OP, v) OP(v, v, DOWN_f64(v, 1))
#endif
#define SUM_V(y, a, b) y = (a) + (b)
#define SAME(v) (v)
/* Extremes join as integers of the same order; a NaN is beyond all, on the side that wins. */
#define BITS_IF(m, a, b) (((J)(m) & (a)) | (~(J)(m) & (b)))
#if VB == 64 && defined(HAS_F16C)
#define MAX_V(y, a, b) y = (J)_mm512_max_epi32((__m512i)(a), (__m512i)(b))
#define MIN_V(y, a, b) y = (J)_mm512_min_epi32((__m512i)(a), (__m512i)(b))
#define KEY(v, NONE) \
  (J) _mm512_mask_set1_epi32((__m512i)((J)(v) ^ (((J)(v) >> 31) & INT32_MAX)), \
                             _mm512_cmp_ps_mask((__m512)(v), (__m512)(v), _CMP_UNORD_Q), NONE)
#else
#define MAX_V(y, a, b) y = BITS_IF((a) > (b), a, b)
#define MIN_V(y, a, b) y = BITS_IF((a) < (b), a, b)
#define KEY(v, NONE) \
  BITS_IF(((J)(v)&INT32_MAX) > 0x7f800000, (J){0} + (NONE), (J)(v) ^ (((J)(v) >> 31) & INT32_MAX))
#endif
#define KEY_MAX(v) KEY(v, INT32_MAX)
#define KEY_MIN(v) KEY(v, INT32_MIN)
/* Keys of a vector to floats, every NaN to the one of ID(unkey). */
#define UNKEY(k) UNKEYED((k) ^ (((k) >> 31) & INT32_MAX))
#define UNKEYED(x) BITS_IF(((x)&INT32_MAX) > 0x7f800000, (J){0} + 0x7fc00000, x)
static inline f32 ID(unkey)(i32 k) {
  union {
    i32 k;
    f32 f;
  } x = {k ^ ((k >> 31) & INT32_MAX)};
  return x.f == x.f ? x.f : __builtin_nanf("");
}
#if VB == 64 && defined(HAS_F16C)
#define PART_f32(v, x, m) v = (V)_mm512_mask_loadu_ps((__m512)v, (__mmask16)((1u << (m)) - 1), x)
#define PART_f64(v, x, m) v = (V)_mm512_mask_loadu_pd((__m512d)v, (__mmask8)((1u << (m)) - 1), x)
#elif VB == 32 && defined(HAS_F16C)
#define PART_f32(v, x, m) \
  { \
    const __m256i to = _mm256_cmpgt_epi32(_mm256_set1_epi32((i32)(m)), \
                                          _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); \
    v = (V)_mm256_blendv_ps((__m256)(v), _mm256_maskload_ps(x, to), (__m256)to); \
  }
#define PART_f64(v, x, m) \
  { \
    const __m256i to = _mm256_cmpgt_epi64(_mm256_set1_epi64x(m), _mm256_setr_epi64x(0, 1, 2, 3)); \
    v = (V)_mm256_blendv_pd((__m256d)(v), _mm256_maskload_pd(x, to), (__m256d)to); \
  }
#else
#define PART(T, v, x, m) \
  { \
    T part[VB / sizeof(T)]; \
    memcpy(part, &v, sizeof v); \
    for (i64 e = 0; e < (m); e++) part[e] = (x)[e]; \
    memcpy(&v, part, sizeof v); \
  }
#define PART_f32(v, x, m) PART(f32, v, x, m)
#define PART_f64(v, x, m) PART(f64, v, x, m)
#endif
/* Loops over the vectors of a state unroll, so that it stays in registers. */
#define ALL _Pragma("GCC unroll 16")
#include "device/cpu/tile_short.h"
/* J: elements while lanes join; IN and OUT: to them and back. */
#define ROWS(NAME, T, U, JOINED, KIND, TYPE, OP, IN, OUT) \
  static void ID(rows_##NAME)(void *yv, const void *xv, i64 rows, i64 n) { \
    typedef T V __attribute__((vector_size(VB), aligned(sizeof(T)), may_alias)); \
    typedef U W __attribute__((vector_size(VB), may_alias)); \
    typedef JOINED J __attribute__((vector_size(VB), may_alias)); \
    enum { E = VB / sizeof(T), L = NODE / sizeof(T), Q = NODE / VB }; \
    const W none = (U)ty_tile_identity(KIND, TYPE) - (W){0}; \
    const u64 empty = ty_tile_empty(KIND, TYPE); \
    T *y = yv; \
    const T *x = xv; \
    if (!n) ID(fill_##T)(y, &empty, NULL, NULL, rows, 0); \
    i64 k = SHORT(ID(short_##NAME), y, x, rows, n); \
    x += k * n; \
    for (; k < rows && (n == E || n == 2 * E); k++, x += n) { \
      J v = IN(*(const V *)x); \
      if (n > E) { \
        const J b = IN(*(const V *)(x + E)); \
        OP(v, v, b); \
      } \
      WITHIN_##T(OP, v); \
      y[k] = OUT(v[0]); \
    } \
    for (; k < rows && n; k++, x += n) { \
      J v; \
      if (n <= 2 * E) { /* the other lanes are empty, and change nothing */ \
        V p = (V)none, q = (V)none; \
        PART_##T(p, x, TY_MIN(n, E)); \
        v = IN(p); \
        if (n > E) { \
          PART_##T(q, x + E, n - E); \
          J b = IN(q); \
          OP(v, v, b); \
        } \
      } else { \
        V p[Q]; \
        J w[Q]; \
        ALL for (int i = 0; i < Q; i++) p[i] = (V)none; \
        if (n > L) { \
          V lanes[Q]; \
          memcpy(lanes, p, sizeof p); \
          ID(fold_##NAME)(lanes, x, L, n); \
          memcpy(p, lanes, sizeof p); \
        } else { \
          ALL for (int i = 0; i < Q; i++) { \
            const i64 m = TY_MAX(TY_MIN(n - i * E, E), 0); \
            PART_##T(p[i], x + i * E, m); \
          } \
        } \
        ALL for (int i = 0; i < Q; i++) w[i] = IN(p[i]); \
        ALL for (int h = Q / 2; h; h /= 2) ALL for (int i = 0; i < h; i++) \
            OP(w[i], w[i], w[i + h]); \
        v = w[0]; \
      } \
      WITHIN_##T(OP, v); \
      y[k] = OUT(v[0]); \
    } \
  }
#if VB > 16 || defined(STRANDS)
#define ROWS_FAST
#if VB > 16
SHORT_ROWS(sum_f32, f32, u32, f32, SUM_V, SAME, SAME)
SHORT_ROWS(sum_f64, f64, u64, f64, SUM_V, SAME, SAME)
SHORT_ROWS(max_f32, f32, u32, i32, MAX_V, KEY_MAX, UNKEY)
SHORT_ROWS(min_f32, f32, u32, i32, MIN_V, KEY_MIN, UNKEY)
#endif
ROWS(sum_f32, f32, u32, f32, R_SUM, C_F32, SUM_V, SAME, SAME)
ROWS(sum_f64, f64, u64, f64, R_SUM, C_F64, SUM_V, SAME, SAME)
ROWS(max_f32, f32, u32, i32, R_MAX, C_F32, MAX_V, KEY_MAX, ID(unkey))
ROWS(min_f32, f32, u32, i32, R_MIN, C_F32, MIN_V, KEY_MIN, ID(unkey))
#endif

/* y[k * n + j] = a[k]. Whole vectors reach into what the next rows then write. */
#define SPREAD(SIZE, T) \
  static void ID(spread_##SIZE)(void *yv, const void *av, i64 rows, i64 n) { \
    typedef T V __attribute__((vector_size(64), aligned(sizeof(T)), may_alias)); \
    enum { E = 64 / sizeof(T) }; \
    T *y = yv; \
    const T *a = av; \
    i64 reach = (n + E - 1) / E * E, safe = rows * n - reach; \
    const i64 done = SHORT_REPEAT(ID(repeat_##SIZE), y, a, rows, n); \
    i64 k = done, at = done * n; \
    for (; n <= E && k < rows && at <= safe; k++, at += n) *(V *)(y + at) = a[k] - (V){0}; \
    for (; k < rows; k++, at += n) { \
      const V v = a[k] - (V){0}; \
      if (at <= safe) \
        for (i64 j = 0; j < n; j += E) *(V *)(y + at + j) = v; \
      else \
        for (i64 j = 0; j < n; j++) y[at + j] = a[k]; \
    } \
  }
SPREAD(4, u32)
SPREAD(8, u64)

/* Positions, column by column: the first NaN, else the first element that no other exceeds. */
#define BETTER(LESS, x, best) ((x)LESS(best) || ((x) != (x) && (best) == (best)))
#define POSITION(NAME, T, LESS) \
  static void ID(argcol_##NAME##_##T)(void *bv, i64 *at, const void *xv, i64 row, i64 n) { \
    T *best = bv; \
    const T *x = xv; \
    LOOP(n) { \
      bool wins = BETTER(LESS, x[i], best[i]); \
      best[i] = wins ? x[i] : best[i]; \
      at[i] = wins ? row : at[i]; \
    } \
  }
#define POSITIONS(T) POSITION(max, T, >) POSITION(min, T, <)
POSITIONS(i32)
POSITIONS(i64)
POSITIONS(f32)
POSITIONS(f64)

#include "device/cpu/tile_positions.h"
#include "device/cpu/tile_scans.h"
#ifdef STRANDS
#include "device/cpu/tile_strands.h"
#endif

/* ---- the table ------------------------------------------------------------------------------ */

#define PUT(P, T, FORM, F) t->fn[(P)-P_ADD][T][FORM] = F;
#define ROW_U(P, NAME, S, T) PUT(P, T, 0, OF_MAPS(NAME##_##S))
#define ROW_C(P, NAME, S, T) \
  PUT(P, T, 0, OF_MAPS(NAME##_##S##_vv)) PUT(P, T, 2, OF_MAPS(NAME##_##S##_vs))
#define ROW_O(P, NAME, S, T) ROW_C(P, NAME, S, T) PUT(P, T, 1, OF_MAPS(NAME##_##S##_sv))
#define ROW_T(P, NAME, T) \
  PUT(P, T, 0, OF_MAPS(NAME##_vvv)) \
  PUT(P, T, 2, OF_MAPS(NAME##_vsv)) \
  PUT(P, T, 3, OF_MAPS(NAME##_vvs)) PUT(P, T, 4, OF_MAPS(NAME##_vss))
#define ALL4(M, P, NAME) IN(M, P, NAME) FL(M, P, NAME)
#define FL(M, P, NAME) M(P, NAME, f32, C_F32) M(P, NAME, f64, C_F64)
#define IN(M, P, NAME) M(P, NAME, i32, C_I32) M(P, NAME, i64, C_I64)
#define FOUR(LIST, NAME) \
  LIST[C_I32] = ID(NAME##_i32), LIST[C_I64] = ID(NAME##_i64), LIST[C_F32] = ID(NAME##_f32), \
  LIST[C_F64] = ID(NAME##_f64);
#define MEM(LIST, NAME) \
  LIST[T_BOOL] = LIST[T_U8] = ID(NAME##_u8), LIST[T_I8] = ID(NAME##_i8), \
  LIST[T_I16] = ID(NAME##_i16), LIST[T_I32] = LIST[T_F32] = ID(NAME##_4), \
  LIST[T_I64] = LIST[T_F64] = ID(NAME##_8), LIST[T_F16] = ID(NAME##_f16), \
  LIST[T_BF16] = ID(NAME##_bf16);

/* Statements: as a constant each address would cost a relocation, 32 bytes instead of 14. */
static SMALL_CODE void ID(isa)(TileIsa *t) {
#ifdef STRANDS
  t->strands = &ID(strands);
#elif defined(HAS_F16C)
  t->strands = &strands_avx2;
#endif
  ALL4(ROW_C, P_ADD, add)
  ALL4(ROW_O, P_SUB, sub)
  ALL4(ROW_C, P_MUL, mul)
  FL(ROW_O, P_DIV, div)
  ROW_T(P_FMA, fma_f32, C_F32)
  ROW_T(P_FMA, fma_f64, C_F64)
  FL(ROW_U, P_SQRT, sqrt)
  ALL4(ROW_C, P_MIN, min)
  ALL4(ROW_C, P_MAX, max)
  ALL4(ROW_U, P_NEG, neg)
  ALL4(ROW_U, P_ABS, abs)
  FL(ROW_U, P_FLOOR, floor)
  FL(ROW_U, P_CEIL, ceil)
  FL(ROW_U, P_TRUNC, trunc)
  FL(ROW_U, P_RINT, rint)
  PUT(P_DIVI, C_I32, 0, ID(divi_i32_vv))
  PUT(P_DIVI, C_I64, 0, ID(divi_i64_vv))
  PUT(P_REMI, C_I32, 0, ID(remi_i32_vv))
  PUT(P_REMI, C_I64, 0, ID(remi_i64_vv))
  IN(ROW_C, P_AND, and)
  IN(ROW_C, P_OR, or)
  IN(ROW_C, P_XOR, xor)
  IN(ROW_C, P_SHL, shl)
  IN(ROW_C, P_SHR, shr)
  IN(ROW_C, P_SHRU, shru)
  ROW_C(P_MULHI, mulhi, i64, C_I64)
  ALL4(ROW_C, P_EQ, eq)
  ALL4(ROW_O, P_LT, lt)
  ALL4(ROW_O, P_LE, le)
  ROW_T(P_SEL, sel_4, C_I32)
  ROW_T(P_SEL, sel_4, C_F32)
  ROW_T(P_SEL, sel_8, C_I64)
  ROW_T(P_SEL, sel_8, C_F64)
  FL(ROW_U, P_BITS, bits)
  PUT(P_LUT, C_I32, 0, ID(lut_4))
  PUT(P_LUT, C_I64, 0, ID(lut_8))
  PUT(P_LUT, C_F32, 0, ID(lut_4))
  PUT(P_LUT, C_F64, 0, ID(lut_8))
  PUT(P_PHILOX, C_I64, 0, ID(philox))
#define CVT(FROM, from, TO, to) t->cvt[FROM][TO] = ID(cvt_##from##_##to);
#define CVT3(A, a, B, b, C, c, D, d) CVT(A, a, B, b) CVT(A, a, C, c) CVT(A, a, D, d)
  CVT3(C_I32, i32, C_I64, i64, C_F32, f32, C_F64, f64)
  CVT3(C_I64, i64, C_I32, i32, C_F32, f32, C_F64, f64)
  CVT3(C_F32, f32, C_I32, i32, C_I64, i64, C_F64, f64)
  CVT3(C_F64, f64, C_I32, i32, C_I64, i64, C_F32, f32)
#undef CVT3
#undef CVT
  t->narrow[T_BOOL] = ID(narrow_bool);
  t->narrow[T_U8] = ID(narrow_u8);
  t->narrow[T_I8] = ID(narrow_i8);
  t->narrow[T_I16] = ID(narrow_i16);
  t->narrow[T_F16] = ID(narrow_f16);
  t->narrow[T_BF16] = ID(narrow_bf16);
  t->narrow[T_I32] = t->narrow[T_F32] = ID(copy_4);
  t->narrow[T_I64] = t->narrow[T_F64] = ID(copy_8);
  MEM(t->load, load)
  MEM(t->store, store)
  MEM(t->gload, gload)
  t->fill[0] = ID(fill_4);
  t->fill[1] = ID(fill_8);
  FOUR(t->fold[R_SUM], fold_sum)
  FOUR(t->fold[R_PROD], fold_prod)
  FOUR(t->fold[R_MAX], fold_max)
  FOUR(t->fold[R_MIN], fold_min)
  t->iota = ID(iota);
  t->spread[0] = ID(spread_4);
  t->spread[1] = ID(spread_8);
#ifdef HAS_F16C
  t->turn[0] = turn_4_avx2;
  t->turn[1] = turn_8_avx2;
#endif
#ifdef ROWS_FAST
  t->rows[R_SUM][C_F32] = ID(rows_sum_f32);
  t->rows[R_SUM][C_F64] = ID(rows_sum_f64);
  t->rows[R_MAX][C_F32] = ID(rows_max_f32);
  t->rows[R_MIN][C_F32] = ID(rows_min_f32);
#endif
  FOUR(t->argcol[0], argcol_max)
  FOUR(t->argcol[1], argcol_min)
  FOUR(t->arg[0], arg_max)
  FOUR(t->arg[1], arg_min)
  FOUR(t->scan[0], scan_sum)
  FOUR(t->scan[1], scan_prod)
  FOUR(t->scan[2], scan_max)
  FOUR(t->scan[3], scan_min)
  FOUR(t->scan[4], scan_maxx)
  t->scan[P_SLIN - P_SSUM][C_F32] = ID(scan_lin_f32);
  t->scan[P_SLIN - P_SSUM][C_F64] = ID(scan_lin_f64);
}
#undef ISA
#undef MAPS
#undef OWN_MAPS
#undef VB
#undef ROWS_FAST
#undef LOWER
#undef HALVE
#undef SHORT_ROWS
#undef SHORT
#undef SHORT_REPEAT
#undef COLUMN
#undef OF_COLUMN
#undef REPEAT
#undef PART_f32
#undef PART_f64
#undef ALL
#undef DOWN_f32
#undef DOWN_f64
#undef WITHIN_8
#undef WITHIN_4
#undef WITHIN_f32
#undef WITHIN_f64
#undef MAX_V
#undef MIN_V
#undef KEY
#undef UNKEY
#undef UNKEYED
#undef FAST_max_f32
#undef FAST_min_f32
