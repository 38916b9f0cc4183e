/*
** tile_scans.h -- running sums, products and extremes for one instruction set; part of tile_loops.h.
** In:  a stretch of a row, the state that the stretches before left.  Out: the running values, the state. The
** order of sums and products is tile.c's, to the bit, whatever the vectors.
**
** Groups of 16 by Hillis and Steele: what the order asks of floats, and the fastest for the others, which are
** exact in any. A group is H vectors of E elements, or 16 numbers where vectors do not pay.
*/
/* SLIDE(a, b, k): the last k of a, then the first of b. */
#if VB == 64
#define SLIDE_i64(a, b, k) \
  __builtin_shufflevector(a, b, 8 - k, 9 - k, 10 - k, 11 - k, 12 - k, 13 - k, 14 - k, 15 - k)
#define SLIDE_i32(a, b, k) \
  __builtin_shufflevector(a, b, 16 - k, 17 - k, 18 - k, 19 - k, 20 - k, 21 - k, 22 - k, 23 - k, \
                          24 - k, 25 - k, 26 - k, 27 - k, 28 - k, 29 - k, 30 - k, 31 - k)
#elif VB == 32 && defined(HAS_F16C)
#define SLIDE_(a, b, bytes) \
  (V) _mm256_alignr_epi8( \
      (__m256i)(b), _mm256_permute2x128_si256((__m256i)(a), (__m256i)(b), 0x21), 16 - (bytes))
#define SLIDE_i64(a, b, k) SLIDE_(a, b, 8 * (k))
#define SLIDE_i32(a, b, k) SLIDE_(a, b, 4 * (k))
#endif
#ifdef SLIDE_i32
#define EACH _Pragma("GCC unroll 4") for (int j = H - 1; j >= 0; j--)
#define UNIT(T) T __attribute__((vector_size(VB), may_alias))
#define PER_UNIT(T) (VB / (int)sizeof(T))
#define SCAN_STEP(SLIDE, OP, k) \
  EACH { \
    const int apart = (k) / E; \
    V low = apart ? none : j ? w[j - 1] : none, by; \
    if (apart) by = j >= apart ? w[j - apart] : none; \
    else by = SLIDE(low, w[j], ((k) < E ? (k) : 1)); \
    w[j] = OP(by, w[j]); \
  }
#define LAST(v) __builtin_shuffle(v, (E - 1) - (J){0})
#define ONE_UP(SLIDE) EACH w[j] = SLIDE((j ? w[j - 1] : before), w[j], 1)
#define NO_VALUE ((V){0})
#else
#define EACH for (int j = H - 1; j >= 0; j--)
#define UNIT(T) T
#define PER_UNIT(T) 1
#define SCAN_STEP(SLIDE, OP, k) EACH w[j] = OP((j >= (k) ? w[j - (k)] : none), w[j]);
#define LAST(v) (v)
#define ONE_UP(SLIDE) EACH w[j] = j ? w[j - 1] : before
#define NO_VALUE 0
#endif
/* T: element, I: integer of its size, IN and OUT: from memory and back. Of extremes: flip turns the order
** round, and with `early` each sees those before it. */
#define SCAN(NAME, T, I, OP, IN, OUT, PARAMETERS, EARLY) \
  static NOINLINE void ID(scan_##NAME)(T * y, const T *x, u64 *s, i64 n PARAMETERS) { \
    typedef UNIT(T) V; \
    typedef V U __attribute__((aligned(sizeof(T)))); \
    typedef UNIT(I) J UNUSED; \
    enum { E = PER_UNIT(T), H = 16 / E }; \
    T state[3]; \
    for (int k = 0; k < 3; k++) memcpy(&state[k], &s[k], sizeof(T)); \
    V carry = state[0] - NO_VALUE, offset = state[1] - NO_VALUE, none = state[2] - NO_VALUE, w[H], \
      part[H]; \
    carry = IN(carry), offset = IN(offset), none = IN(none); \
    for (; n > 0; n -= 16, x += 16, y += 16) { \
      if (n >= 16) EACH w[j] = *(const U *)(x + j * E); \
      else { \
        EACH part[j] = OUT(none); \
        memcpy(part, x, (size_t)n * sizeof(T)); \
        EACH w[j] = part[j]; \
      } \
      EACH w[j] = IN(w[j]); \
      SCAN_STEP(SLIDE_##I, OP, 1) \
      SCAN_STEP(SLIDE_##I, OP, 2) \
      SCAN_STEP(SLIDE_##I, OP, 4) \
      SCAN_STEP(SLIDE_##I, OP, 8) \
      V before UNUSED = carry; \
      EACH w[j] = OP(carry, w[j]); \
      carry = LAST(w[H - 1]); /* missing elements changed nothing */ \
      if (EARLY) ONE_UP(SLIDE_##I); \
      else EACH w[j] = OP(offset, w[j]); \
      EACH w[j] = OUT(w[j]); \
      if (n >= 16) EACH *(U *)(y + j * E) = w[j]; \
      else { \
        EACH part[j] = w[j]; \
        memcpy(y, part, (size_t)n * sizeof(T)); \
      } \
    } \
    carry = OUT(carry); \
    memcpy(&s[0], &carry, sizeof(T)); \
  }
/* Floats as integers of the same order, where a NaN is beyond all. */
#define MASK_(I) ((I)(~(u64)0 >> (65 - 8 * sizeof(I)))) /* all but the sign */
#define NAN_(I) (sizeof(I) == 8 ? (I)NAN64 : (I)NAN32)
#define INF_(I) (sizeof(I) == 8 ? (I)0x7ff0000000000000 : (I)0x7f800000)
#ifdef SLIDE_i32
#define IF_(c, a, b) (((J)(c) & (a)) | (~(J)(c) & (b)))
#else
#define IF_(c, a, b) ((c) ? (a) : (b))
#endif
#if VB == 64
#define LARGER_i32(a, b) (V) _mm512_max_epi32((__m512i)(a), (__m512i)(b))
#define LARGER_i64(a, b) (V) _mm512_max_epi64((__m512i)(a), (__m512i)(b))
#elif VB == 32
#define LARGER_i32(a, b) (V) _mm256_max_epi32((__m256i)(a), (__m256i)(b))
#define LARGER_i64(a, b) \
  (V) _mm256_blendv_epi8((__m256i)(b), (__m256i)(a), _mm256_cmpgt_epi64((__m256i)(a), (__m256i)(b)))
#else
#define LARGER_i32(a, b) ((a) > (b) ? (a) : (b))
#define LARGER_i64(a, b) ((a) > (b) ? (a) : (b))
#endif
#define ORDER_(I, v) ((v) ^ (((v) >> (8 * (int)sizeof(I) - 1)) & MASK_(I)))
#define TO_ORDER(I, v) IF_(((v)&MASK_(I)) > INF_(I), MASK_(I) - NO_VALUE, ORDER_(I, v) ^ flip)
#define FROM_ORDER(I, v) IF_((v) == MASK_(I), NAN_(I) - NO_VALUE, ORDER_(I, (v) ^ flip))
#define UP_i32(v) TO_ORDER(i32, v)
#define UP_i64(v) TO_ORDER(i64, v)
#define BACK_i32(v) FROM_ORDER(i32, v)
#define BACK_i64(v) FROM_ORDER(i64, v)
#define FLIP(v) ((v) ^ flip)
#define COMMA ,
#define SCAN_FN(NAME, T, FN, ...) \
  static void ID(scan_##NAME)(void *y, const void *a, const void *b UNUSED, u64 *s, i64 n) { \
    ID(scan_##FN)((T *)y, (const T *)a, s, n __VA_ARGS__); \
  }
#define SCANS(S, T, I) \
  SCAN(adds_##S, T, I, ADD_, SAME, SAME, , 0) \
  SCAN(muls_##S, T, I, MUL_, SAME, SAME, , 0) \
  SCAN_FN(sum_##S, T, adds_##S) \
  SCAN_FN(prod_##S, T, muls_##S)
#define SCAN_EXTREMES(S, I, IN, OUT) \
  SCAN(ends_##S, I, I, LARGER_##I, IN, OUT, COMMA I flip COMMA bool early, early) \
  SCAN_FN(max_##S, I, ends_##S, COMMA 0 COMMA false) \
  SCAN_FN(min_##S, I, ends_##S, COMMA - 1 COMMA false) \
  SCAN_FN(maxx_##S, I, ends_##S, COMMA 0 COMMA true)
SCANS(i32, u32, i32)
SCANS(i64, u64, i64)
SCANS(f32, f32, i32)
SCANS(f64, f64, i64)
SCAN_EXTREMES(i32, i32, FLIP, FLIP)
SCAN_EXTREMES(i64, i64, FLIP, FLIP)
SCAN_EXTREMES(f32, i32, UP_i32, BACK_i32)
SCAN_EXTREMES(f64, i64, UP_i64, BACK_i64)

/* In f64, or a long row would lose what it has gathered. */
#define SCAN_LINEAR(S, T) \
  static void ID(scan_lin_##S)(void *yv, const void *av, const void *bv, u64 *s, i64 n) { \
    T *y = yv; \
    const T *a = av, *b = bv; \
    f64 m; \
    memcpy(&m, &s[0], sizeof m); \
    for (i64 i = 0; i < n; i++) m = __builtin_fma(m, (f64)a[i], (f64)b[i]), y[i] = (T)m; \
    memcpy(&s[0], &m, sizeof m); \
  }
SCAN_LINEAR(f32, f32)
SCAN_LINEAR(f64, f64)

#undef SLIDE_i32
#undef SLIDE_i64
#undef LARGER_i32
#undef LARGER_i64
#undef EACH
#undef UNIT
#undef PER_UNIT
#undef SCAN_STEP
#undef LAST
#undef ONE_UP
#undef NO_VALUE
#undef IF_
