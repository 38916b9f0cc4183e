--- export/prelude.lua -- C text that exported models stand on: primitives, conversions, orders of summation.
-- In: names of what a model uses. Out: the text of these and of what they need, in order.
--
-- Rules that a change must keep:
--  1. Nothing needs libm or a header beyond stdint.h and stddef.h; intrinsics, where there are any, have a plain twin
--     that gives the same bits.
--  2. A float operation is written so that no compiler may contract it: the head turns contraction off where that can
--  be
--     said, and ty_environment asks at run time where it cannot.
--  3. Every value is what core/ir/program.h says of its primitive.

local M = {}

local concat, ipairs, pairs, gsub = table.concat, ipairs, pairs, string.gsub

local pieces, order = {}, {}

local function piece(name, needs, text)
  pieces[name] = { needs = needs, text = text, at = #order + 1 }
  order[#order + 1] = name
end

--- A piece for each of some types: @T the C type, @S its name, other @ words as given.
local function family(name, types, needs, text)
  for _, t in ipairs(types) do
    local list = {}
    for i, n in ipairs(needs) do list[i] = gsub(n, "@S", t.S) end
    piece(gsub(name, "@S", t.S), list, (gsub(text, "@(%w)", t)))
  end
end

local F32 = { T = "float", S = "f32", U = "uint32_t", I = "int32_t", W = "31", D = "f", B = "23",
  Q = "0x7fc00000u", M = "0x80000000u",
  P = "0x1p23f", N = "ty_float_f32(0xff800000u)" }
local F64 = { T = "double", S = "f64", U = "uint64_t", I = "int64_t", W = "63", D = "", B = "52",
  Q = "0x7ff8000000000000u",
  M = "0x8000000000000000u", P = "0x1p52", N = "ty_float_f64(UINT64_C(0xfff0000000000000))" }
local I32 = { T = "int32_t", S = "i32", U = "uint32_t", W = "31" }
local I64 = { T = "int64_t", S = "i64", U = "uint64_t", W = "63" }
local FLOATS, INTS, ALL = { F32, F64 }, { I32, I64 }, { F32, F64, I32, I64 }

--- What stands at the top of every model.
M.head = [[
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "this model keeps its bits: compile it without -ffast-math and its parts"
#endif
#if !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#error "this model is C11"
#endif
#include <float.h>
#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0
#error "this model keeps its bits: float and double must round after each operation (-msse2 -mfpmath=sse)"
#endif
#if FLT_RADIX != 2 || FLT_MANT_DIG != 24 || DBL_MANT_DIG != 53
#error "this model needs IEEE 754 floats"
#endif
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__) /* no-tree-pre: or conditions become branches, and loops with them no vectors */
#pragma GCC optimize("fp-contract=off", "no-trapping-math", "no-tree-pre")
#else
#pragma STDC FP_CONTRACT OFF
#endif
#if defined(__GNUC__)
#define TY_INLINE static inline __attribute__((always_inline, unused))
#define TY_STEP static __attribute__((noinline))
#define TY_SPARE static __attribute__((unused))
#define TY_APART static __attribute__((noinline, unused)) /* vectors of its loops are better where nothing is known */
#define TY_ALIAS __attribute__((may_alias))
#define TY_KNOWN(x) __builtin_constant_p(x)
#else
#define TY_INLINE static inline
#define TY_STEP static
#define TY_SPARE static
#define TY_APART static
#define TY_ALIAS
#define TY_KNOWN(x) 0
#endif
#if defined(__clang__) /* of a loop around another one, of which vectors are to be made */
#define TY_ROLLED _Pragma("clang loop vectorize(disable) unroll(disable)")
#else
#define TY_ROLLED
#endif
#if defined(__clang__) /* of a loop whose rounds have nothing to do with each other; of one of at most 32 rounds */
#pragma clang diagnostic ignored "-Wpass-failed"
#define TY_FREE _Pragma("clang loop vectorize(assume_safety) vectorize_width(8) interleave_count(2) unroll(disable)")
#define TY_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define TY_FREE _Pragma("GCC ivdep")
#define TY_UNROLL _Pragma("GCC unroll 32")
#else
#define TY_FREE
#define TY_UNROLL
#endif
#if defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMAF)
#define TY_HAS_FMA 1
#endif
]]

-- Bits ----------------------------------------------------------------------------------------------------------------

family("bits_@S", FLOATS, {}, [[
typedef union ty_u_@S {
  @T f;
  @U u;
} ty_u_@S;
TY_INLINE @U ty_raw_@S(@T a) { return (ty_u_@S){.f = a}.u; }
TY_INLINE @T ty_float_@S(@U a) { return (ty_u_@S){.u = a}.f; }
TY_INLINE @T ty_abs_@S(@T a) { return ty_float_@S(ty_raw_@S(a) & ~@M); }
TY_INLINE @T ty_sign_@S(@T a, @T of) { return ty_float_@S(ty_raw_@S(a) | (ty_raw_@S(of) & @M)); }
TY_INLINE @U ty_bits_@S(@T a) { return a != a ? @Q : ty_raw_@S(a); }
]])

-- Extremes ------------------------------------------------------------------------------------------------------------

family("extremes_@S", FLOATS, { "bits_@S" }, [[
/* Both ways, as bits tell equal zeros apart; known numbers need one. Compilers make vectors of it, and no branches. */
TY_INLINE @T ty_ordered_@S(@T a, @T b, @U y) {
  const @U nan = -(@U)((a != a) | (b != b));
  return ty_float_@S((y & ~nan) | (@Q & nan));
}
TY_INLINE @T ty_max_@S(@T a, @T b) {
  if (TY_KNOWN(b) && b == b && ty_raw_@S(b) != @M) return a > b ? a : a != a ? ty_float_@S(@Q) : b;
  return ty_ordered_@S(a, b, ty_raw_@S(a > b ? a : b) & ty_raw_@S(b > a ? b : a));
}
TY_INLINE @T ty_min_@S(@T a, @T b) {
  if (TY_KNOWN(b) && b == b && ty_raw_@S(b) != 0) return a < b ? a : a != a ? ty_float_@S(@Q) : b;
  return ty_ordered_@S(a, b, ty_raw_@S(a < b ? a : b) | ty_raw_@S(b < a ? b : a));
}
]])

family("extremes_@S", INTS, {}, [[
TY_INLINE @T ty_max_@S(@T a, @T b) { return a > b ? a : b; }
TY_INLINE @T ty_min_@S(@T a, @T b) { return a < b ? a : b; }
]])

-- NaNs are beyond all others.
family("order_@S", FLOATS, { "bits_@S" }, [[
/* Whole numbers in the order of floats, a NaN as the largest or as the least; and back. */
TY_INLINE @I ty_order_@S(@T a) {
  const @U u = ty_raw_@S(a);
  return (@I)(u ^ (((@U)0 - (u >> @W)) & ~@M));
}
TY_INLINE @I ty_order_max_@S(@T a) { /* no branch, or gcc makes no vectors of what follows */
  const @U nan = -(@U)(a != a);
  return (@I)(((@U)ty_order_@S(a) & ~nan) | nan >> 1);
}
TY_INLINE @I ty_order_min_@S(@T a) {
  const @U nan = -(@U)(a != a);
  return (@I)(((@U)ty_order_@S(a) & ~nan) | (nan & @M));
}
TY_INLINE @T ty_unorder_@S(@I a) {
  const @U u = (@U)a;
  const @T y = ty_float_@S(u ^ (((@U)0 - (u >> @W)) & ~@M));
  return y != y ? ty_float_@S(@Q) : y;
}
]])

-- Rounding, roots -----------------------------------------------------------------------------------------------------

-- Below 2^23 (2^52) adding that number rounds to a whole one, to even.
family("round_@S", FLOATS, { "bits_@S" }, [[
#if defined(__GNUC__) && (defined(__SSE4_1__) || defined(__aarch64__)) /* an instruction each */
TY_INLINE @T ty_rint_@S(@T a) { return __builtin_rint@D(a); }
TY_INLINE @T ty_trunc_@S(@T a) { return __builtin_trunc@D(a); }
TY_INLINE @T ty_floor_@S(@T a) { return __builtin_floor@D(a); }
TY_INLINE @T ty_ceil_@S(@T a) { return __builtin_ceil@D(a); }
#else
TY_INLINE @T ty_rint_@S(@T a) {
  const @T m = ty_abs_@S(a), r = (m + @P) - @P;
  return m < @P ? ty_sign_@S(r, a) : a;
}
TY_INLINE @T ty_trunc_@S(@T a) {
  const @T m = ty_abs_@S(a), r = (m + @P) - @P, t = r > m ? r - 1 : r;
  return m < @P ? ty_sign_@S(t, a) : a;
}
TY_INLINE @T ty_floor_@S(@T a) {
  const @T t = ty_trunc_@S(a);
  return t > a ? t - 1 : t;
}
TY_INLINE @T ty_ceil_@S(@T a) {
  const @T t = ty_trunc_@S(a);
  return t < a ? t + 1 : t;
}
#endif
]])

piece("sqrt_f64", { "bits_f64" }, [[
/* An instruction, never the library's function. gcc makes vectors of one that is const, and no call where no argument
** is negative. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && \
    (defined(__SSE2__) || defined(__aarch64__))
extern __attribute__((const)) double sqrt(double);
TY_INLINE double ty_sqrt_f64(double a) {
  const double y = sqrt(a < 0 ? 0 : a);
  return a < 0 ? ty_float_f64(0xfff8000000000000u) : y;
}
#elif defined(__GNUC__) && defined(__SSE2__)
#include <emmintrin.h>
TY_INLINE double ty_sqrt_f64(double a) {
  const __m128d x = _mm_set_sd(a);
  return _mm_cvtsd_f64(_mm_sqrt_sd(x, x));
}
#elif defined(__GNUC__) && defined(__aarch64__)
TY_INLINE double ty_sqrt_f64(double a) {
  __asm__("fsqrt %d0, %d1" : "=w"(a) : "w"(a));
  return a;
}
#else
/* Bit by bit; the rest decides how the last bit rounds. */
TY_INLINE double ty_sqrt_f64(double a) {
  if (!(a > 0) || a > 0x1.fffffffffffffp1023) return a == 0 || a > 0 ? a : ty_float_f64(0x7ff8000000000000u);
  int e = 0;
  if (a < 0x1p-1022) a *= 0x1p108, e = -54;
  const uint64_t u = ty_raw_f64(a);
  int x = (int)(u >> 52) - 1023;
  uint64_t m = (u & 0xfffffffffffffu) | 0x10000000000000u, root = 0, rest = 0;
  if (x & 1) m <<= 1, x--;
  for (int i = 53; i >= 0; i--) { /* 54 bits of the root of m * 2^54 */
    const int at = 2 * i - 54;
    const uint64_t two = at >= 0 ? m >> at & 3 : at == -1 ? m << 1 & 2 : 0;
    const uint64_t t = root << 2 | 1;
    rest = rest << 2 | two;
    root <<= 1;
    if (rest >= t) rest -= t, root |= 1;
  }
  root = (root >> 1) + (root & 1);
  const double y = (double)root;
  return ty_float_f64(ty_raw_f64(y) + ((uint64_t)(x / 2 + e - 52) << 52));
}
#endif
]])

piece("sqrt_f32", { "bits_f32", "sqrt_f64" }, [[
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && \
    (defined(__SSE2__) || defined(__aarch64__))
extern __attribute__((const)) float sqrtf(float);
TY_INLINE float ty_sqrt_f32(float a) {
  const float y = sqrtf(a < 0 ? 0 : a);
  return a < 0 ? ty_float_f32(0xffc00000u) : y;
}
#elif defined(__GNUC__) && defined(__SSE2__)
TY_INLINE float ty_sqrt_f32(float a) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(a))); }
#elif defined(__GNUC__) && defined(__aarch64__)
TY_INLINE float ty_sqrt_f32(float a) {
  __asm__("fsqrt %s0, %s1" : "=w"(a) : "w"(a));
  return a;
}
#else
TY_INLINE float ty_sqrt_f32(float a) { return (float)ty_sqrt_f64(a); } /* twice as many bits and two: rounds once */
#endif
]])

-- Fused multiply and add ----------------------------------------------------------------------------------------------

piece("fma_f32", { "bits_f64" }, [[
#ifdef TY_HAS_FMA
#define ty_fma_f32(a, b, c) __builtin_fmaf(a, b, c)
#else
/* The product is exact in double; their sum, rounded to odd, rounds to float as the exact one does. */
TY_INLINE float ty_fma_f32(float a, float b, float c) {
  const double p = (double)a * (double)b, d = c, s = p + d, t = s - p;
  const double e = (p - (s - t)) + (d - t);
  const uint64_t u = ty_raw_f64(s), off = (uint64_t)((e > 0 || e < 0) && !(u & 1));
  const uint64_t odd = (e > 0) == (s > 0) ? u + off : u - off;
  return (float)ty_float_f64(odd);
}
#endif
]])

piece("mulhi", {}, [[
TY_INLINE uint64_t ty_mulhi(uint64_t a, uint64_t b) {
  const uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
  const uint64_t low = al * bl, m1 = ah * bl + (low >> 32), m2 = al * bh + (m1 & 0xffffffffu);
  return ah * bh + (m1 >> 32) + (m2 >> 32);
}
]])

piece("fma_f64", { "bits_f64", "mulhi" }, [[
#ifdef TY_HAS_FMA
#define ty_fma_f64(a, b, c) __builtin_fma(a, b, c)
#else
/* By whole numbers of 128 bits: the product has 106, and the sum is rounded once. */
typedef struct ty_wide {
  uint64_t h, l;
} ty_wide;
TY_INLINE ty_wide ty_up(ty_wide a, int n) {
  if (n >= 64) return (ty_wide){a.l << (n - 64), 0};
  return n ? (ty_wide){a.h << n | a.l >> (64 - n), a.l << n} : a;
}
/* Downwards: the last bit is set where any bit was cut off. */
TY_INLINE ty_wide ty_down(ty_wide a, int n) {
  if (n == 0) return a;
  if (n < 64) return (ty_wide){a.h >> n, a.h << (64 - n) | a.l >> n | (a.l << (64 - n) != 0)};
  if (n == 64) return (ty_wide){0, a.h | (a.l != 0)};
  if (n < 128) return (ty_wide){0, a.h >> (n - 64) | (a.h << (128 - n) != 0 || a.l)};
  return (ty_wide){0, (a.h | a.l) != 0};
}
/* |a| = the result * 2^e; e = 972 for what is not finite. */
TY_INLINE uint64_t ty_split(double a, int *e) {
  const uint64_t u = ty_raw_f64(a) & 0x7fffffffffffffffu, x = u >> 52;
  *e = (int)(x ? x : 1) - 1075;
  return x ? (u & 0xfffffffffffffu) | 0x10000000000000u : u;
}
TY_INLINE int ty_zeros(ty_wide a) {
  uint64_t v = a.h ? a.h : a.l;
  int n = a.h ? 0 : 64;
  for (int s = 32; s; s >>= 1)
    if (!(v >> (64 - s))) v <<= s, n += s;
  return n;
}
static double ty_fma_f64(double a, double b, double c) {
  int ea, eb, ec;
  const uint64_t ma = ty_split(a, &ea), mb = ty_split(b, &eb), mc = ty_split(c, &ec);
  if (ea == 972 || eb == 972) return a * b + c;
  if (ec == 972) return c;
  if (!ma || !mb) return a * b + c;
  if (!mc) return a * b;
  ty_wide p = {ty_mulhi(ma, mb), ma * mb}, q = {0, mc};
  const uint64_t top = 0x8000000000000000u, sp = (ty_raw_f64(a) ^ ty_raw_f64(b)) & top, sq = ty_raw_f64(c) & top;
  const int np = ty_zeros(p) - 2, nq = ty_zeros(q) - 2;
  int e = ea + eb - np, f = ec - nq;
  p = ty_up(p, np), q = ty_up(q, nq);
  if (e >= f) q = ty_down(q, e - f);
  else p = ty_down(p, f - e), e = f;
  uint64_t sign = sp;
  ty_wide r;
  if (sp == sq) {
    r.l = p.l + q.l, r.h = p.h + q.h + (r.l < p.l);
  } else {
    if (p.h < q.h || (p.h == q.h && p.l < q.l)) {
      const ty_wide t = p;
      p = q, q = t, sign = sq;
    }
    r.l = p.l - q.l, r.h = p.h - q.h - (p.l < q.l);
    if (!(r.h | r.l)) return 0;
  }
  const int first = 127 - ty_zeros(r) + e, unit = first - 52 > -1074 ? first - 52 : -1074, n = unit - e - 2;
  r = n >= 0 ? ty_down(r, n) : ty_up(r, -n);
  uint64_t m = r.l >> 2;
  const uint64_t rest = r.l & 3;
  m += rest == 3 || (rest == 2 && (m & 1));
  m += (uint64_t)(unit + 1074) << 52;
  if (m >> 52 >= 2047) m = 0x7ff0000000000000u;
  return ty_float_f64(m | sign);
}
#endif
]])

-- Whole numbers -------------------------------------------------------------------------------------------------------

-- By way of doubles, of which there are vectors and which are faster where there are none: a quotient of less than 2^51
-- is further from the next whole number than it is rounded.
for _, i in ipairs { { I32, "(int32_t)((double)a / (double)by)" }, { I64, "ty_quotient_i64(a, by)", [[
TY_INLINE int64_t ty_quotient_i64(int64_t a, int64_t b) {
  const uint64_t most = UINT64_C(1) << 51;
  if (((uint64_t)a + most) >> 52 || ((uint64_t)b + most) >> 52) return a / b;
  return (int64_t)((double)a / (double)b);
}
]] } } do
  family("divi_@S", { i[1] }, {}, (gsub((i[3] or "") .. [[
TY_INLINE @T ty_divi_@S(@T a, @T b) {
  const @T by = ((b == 0) | (b == -1)) ? 1 : b, q = @Q;
  return b == 0 ? 0 : b == -1 ? (@T)(0 - (@U)a) : q;
}
TY_INLINE @T ty_remi_@S(@T a, @T b) {
  const @T by = ((b == 0) | (b == -1)) ? 1 : b, q = @Q;
  return ((b == 0) | (b == -1)) ? 0 : (@T)((@U)a - (@U)q * (@U)by);
}
]], "@Q", i[2])))
end

family("shr_@S", INTS, {}, [[
TY_INLINE @T ty_shr_@S(@T a, int n) {
  const @U u = (@U)a, s = (@U)0 - (u >> @W);
  return (@T)(((u ^ s) >> n) ^ s);
}
]])

-- Conversions ---------------------------------------------------------------------------------------------------------

for _, f in ipairs(FLOATS) do
  for _, i in ipairs(INTS) do
    local t = { T = f.T, S = f.S, U = f.U, I = i.T, J = i.S, H = "0x1p" .. i.W .. f.D, X = i == I32 and "INT32" or
      "INT64" }
    piece("cvt_" .. f.S .. "_" .. i.S, { "bits_" .. f.S }, (gsub([[
TY_INLINE @I ty_cvt_@S_@J(@T a) { /* without a branch, or loops with it are no vectors */
  const int above = a >= @H, below = a < -@H, in = (a < @H) & (a >= -@H);
  const @I r = (@I)ty_float_@S(ty_raw_@S(a) & ((@U)0 - (@U)in));
  return r | (@X_MAX & -(@I)above) | (@X_MIN & -(@I)below);
}
]], "@(%w)", t)))
  end
end

piece("f16", { "bits_f32" }, [[
TY_INLINE float ty_from_f16(uint16_t h) {
  const uint32_t m = (uint32_t)(h & 0x7fffu) << 13, s = (uint32_t)(h & 0x8000u) << 16;
  const float small = ty_float_f32(m) * 0x1p112f;
  return ty_float_f32((m < 0x0f800000u ? ty_raw_f32(small) : m | 0x7f800000u) | s);
}
/* Numbers below the smallest normal one round by an addition, whose unit is theirs. */
TY_INLINE uint16_t ty_to_f16(float a) {
  const uint32_t u = ty_raw_f32(a), m = u & 0x7fffffffu, s = u >> 16 & 0x8000u;
  const uint32_t low = ty_raw_f32(ty_float_f32(m < 0x38800000u ? m : 0) + 0.5f) - 0x3f000000u;
  const uint32_t high = (m + 0x0fffu + (m >> 13 & 1) - 0x38000000u) >> 13;
  const uint32_t y = m < 0x38800000u ? low : m >= 0x477ff000u ? 0x7c00u : high;
  return (uint16_t)(m > 0x7f800000u ? 0x7e00u : y | s);
}
TY_INLINE float ty_narrow_f16(float a) {
  const uint32_t u = ty_raw_f32(a), m = u & 0x7fffffffu, s = u & 0x80000000u;
  const uint32_t low = ty_raw_f32((ty_float_f32(m) + 0.5f) - 0.5f);
  const uint32_t high = (m + 0x0fffu + (m >> 13 & 1)) & ~0x1fffu;
  const uint32_t r = m < 0x38800000u ? low : high, y = r > 0x477fe000u ? 0x7f800000u : r;
  return ty_float_f32(m > 0x7f800000u ? 0x7fc00000u : y | s);
}
]])

piece("halves", { "f16" }, [[
#if defined(__F16C__)
#include <immintrin.h>
#endif
TY_INLINE void ty_widen_f16(float *restrict to, const uint16_t *restrict from, int n) {
  int i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
#endif
  for (; i < n; i++) to[i] = ty_from_f16(from[i]);
}
TY_INLINE void ty_halve_f16(uint16_t *restrict to, const float *restrict from, int n) {
  int i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(from + i), nan = _mm256_set1_ps(ty_float_f32(0x7fc00000u));
    const __m256 y = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    _mm_storeu_si128((void *)(to + i), _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; i++) to[i] = ty_to_f16(from[i]);
}
]])

piece("bf16", { "bits_f32" }, [[
TY_INLINE float ty_from_bf16(uint16_t h) { return ty_float_f32((uint32_t)h << 16); }
TY_INLINE uint16_t ty_to_bf16(float a) {
  const uint32_t u = ty_raw_f32(a);
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
TY_INLINE float ty_narrow_bf16(float a) { return ty_from_bf16(ty_to_bf16(a)); }
]])

-- Random numbers ------------------------------------------------------------------------------------------------------

piece("philox", {}, [[
/* Word `word` of Philox4x32-10. */
TY_INLINE int32_t ty_philox(int64_t element, int64_t stream, int64_t seed, int word) {
  uint32_t a = (uint32_t)(uint64_t)element, b = (uint32_t)((uint64_t)element >> 32);
  uint32_t c = (uint32_t)(uint64_t)stream, d = (uint32_t)((uint64_t)stream >> 32);
  uint32_t k = (uint32_t)(uint64_t)seed, l = (uint32_t)((uint64_t)seed >> 32);
  for (int i = 0; i < 10; i++) {
    const uint64_t p = (uint64_t)0xd2511f53u * a, q = (uint64_t)0xcd9e8d57u * c;
    a = (uint32_t)(q >> 32) ^ b ^ k, b = (uint32_t)q;
    c = (uint32_t)(p >> 32) ^ d ^ l, d = (uint32_t)p;
    k += 0x9e3779b9u, l += 0xbb67ae85u;
  }
  return (int32_t)(word == 0 ? a : word == 1 ? b : word == 2 ? c : d);
}
]])

-- What callers give ---------------------------------------------------------------------------------------------------

piece("whole", { "round_f64" }, [[
/* A number that is whole and within bounds. */
TY_INLINE int ty_is_whole(double v, double low, double high, int64_t *y) {
  const int is = v >= low && v <= high && ty_trunc_f64(v) == v;
  *y = is ? (int64_t)v : 0;
  return is;
}
]])

piece("integer", { "round_f64" }, [[
TY_INLINE int ty_is_integer(double v) { return v - v == 0 && ty_trunc_f64(v) == v; }
]])

piece("index", {}, [[
/* Negative ones count from the end. */
TY_INLINE int ty_is_outside(int64_t v, int64_t size, int base, int skips, double skip) {
  const int64_t at = v < 0 ? v + size : v - base;
  if (skips && (double)v == skip) return 0;
  return at < 0 || at >= size;
}
]])

for _, half in ipairs { "f16", "bf16" } do
  piece("half_" .. half, { half, "bits_f64" }, (gsub([[
/* A double rounded once: by way of a float that keeps what a half needs, and whether more was cut off. */
TY_INLINE float ty_half_@S(double v) {
  const uint64_t u = ty_raw_f64(v), low = (UINT64_C(1) << 40) - 1;
  const uint64_t cut = (u & ~low) | (uint64_t)((u & low) != 0) << 40;
  return ty_narrow_@S((float)(v != v ? v : ty_float_f64(cut)));
}
]], "@(%w)", { S = half })))
end

-- What a model may rely on --------------------------------------------------------------------------------------------

piece("environment", { "bits_f32" }, [[
#if defined(__SSE2__)
#include <xmmintrin.h>
typedef unsigned ty_mode;
/* Round to nearest, keep denormals, no traps. */
TY_INLINE ty_mode ty_enter(void) {
  const ty_mode was = _mm_getcsr();
  if ((was & 0xffc0u) != 0x1f80u) _mm_setcsr(0x1f80u);
  return was;
}
TY_INLINE void ty_leave(ty_mode was) {
  if ((was & 0xffc0u) != 0x1f80u) _mm_setcsr(was);
}
#elif defined(__aarch64__) && defined(__GNUC__)
typedef uint64_t ty_mode;
TY_INLINE ty_mode ty_enter(void) {
  ty_mode was, none = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(was));
  if (was) __asm__ volatile("msr fpcr, %0" : : "r"(none));
  return was;
}
TY_INLINE void ty_leave(ty_mode was) {
  if (was) __asm__ volatile("msr fpcr, %0" : : "r"(was));
}
#else
typedef int ty_mode;
TY_INLINE ty_mode ty_enter(void) { return 0; }
TY_INLINE void ty_leave(ty_mode was) { (void)was; }
#endif
/* Whether products are fused with sums in spite of all, or small numbers lost. */
TY_INLINE int ty_is_inexact(void) {
  volatile float x = 0x1.001p0f, y = -0x1.002p0f, small = 0x1p-120f;
  const float a = x, b = y, s = small;
  const float fused = a * a + b;
  volatile float denormal = s * 0x1p-20f;
  return fused != 0 || denormal == 0;
}
]])

-- Reading -------------------------------------------------------------------------------------------------------------

--- The text of the pieces that are named, and of those that they need, in an order in which each stands behind them.
---@param used table<string, boolean>
---@return string
function M.text(used)
  local want, out = {}, {}
  local function visit(name)
    if want[name] then return end
    want[name] = true
    for _, n in ipairs(pieces[name].needs) do visit(n) end
  end
  for name in pairs(used) do visit(name) end
  for _, name in ipairs(order) do
    if want[name] then out[#out + 1] = pieces[name].text end
  end
  return concat(out, "\n")
end

M.piece, M.family, M.FLOATS, M.INTS, M.ALL = piece, family, FLOATS, INTS, ALL

return M
