/*
** tile_positions.h -- where the extreme of a run of elements is: the first NaN, else the first element that no other
** exceeds, where -0 equals +0. Included by tile_loops.h once for each instruction set.
**
** One pass: every lane of a few vectors keeps the best that it met and where the vector began that held it. Only what
** is better takes its place, so a lane keeps its first. Of the lanes the best wins, of equals the one that stands
** first. The last vector ends with the run and may overlap the one before, which changes nothing. NaNs are only
** noticed: where there was one the first is looked for.
*/
#if defined(MANY_ISAS) && VB == 32
#define WHERE(m, a, b) _mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(m))
#else
#define WHERE(m, a, b) (((J)(m) & (J)(a)) | (~(J)(m) & (J)(b)))
#endif
/* The vector at p goes to lanes q: `here`. */
#define MEET(LESS, q, p) \
  { \
    const V v = *(const V *)(p); \
    const J wins = (J)(v LESS best[q]); \
    best[q] = (V)WHERE(wins, v, best[q]); \
    at[q] = (J)WHERE(wins, here, at[q]); \
    none += (J)(v != v); \
  }
/* Lanes p go to lanes q. */
#define JOIN(LESS, q, p) \
  { \
    const J as_good = (J)(best[p] == best[q]) & (J)(at[p] < at[q]); \
    const J wins = (J)(best[p] LESS best[q]) | as_good; \
    best[q] = (V)WHERE(wins, best[p], best[q]); \
    at[q] = (J)WHERE(wins, at[p], at[q]); \
  }
#define EVERY _Pragma("GCC unroll 4") for (int q = 0; q < Q; q++)
#define ARG(NAME, T, I, LESS) \
  static i64 ID(arg_##NAME##_##T)(const void *xv, i64 n) { \
    typedef T V __attribute__((vector_size(VB), aligned(sizeof(T)), may_alias)); \
    typedef I J __attribute__((vector_size(VB), may_alias)); \
    enum { E = VB / sizeof(T), Q = 4 }; \
    const T *x = xv; \
    i64 y = 0, i = 0; \
    if (n < E) { \
      for (i = 1; i < n; i++) \
        if (BETTER(LESS, x[i], x[y])) y = i; \
      return y; \
    } \
    const i64 apart = n < Q * E ? 0 : E; \
    V best[Q]; \
    J at[Q], here = {0}, none = here; \
    T lane[E]; \
    I from[E], some[E]; \
    EVERY best[q] = *(const V *)(x + q * apart), at[q] = here; \
    for (; i + Q * E <= n; i += Q * E, here += Q * E) { EVERY MEET(LESS, q, x + i + q * E) } \
    EVERY at[q] += (I)(q * apart); \
    for (; i + E <= n; i += E, here += E) { MEET(LESS, 0, x + i) } \
    here += (I)(n - E - i); \
    MEET(LESS, 0, x + n - E) \
    JOIN(LESS, 0, 1) \
    JOIN(LESS, 2, 3) \
    JOIN(LESS, 0, 2) \
    memcpy(lane, &best[0], VB), memcpy(from, &at[0], VB), memcpy(some, &none, VB); \
    I nan = some[0]; \
    T most = lane[0]; \
    y = from[0]; \
    for (int e = 1; e < (int)E; e++) { \
      const bool wins = lane[e] LESS most || (lane[e] == most && from[e] + e < y); \
      most = wins ? lane[e] : most, y = wins ? from[e] + e : y, nan |= some[e]; \
    } \
    for (y = nan ? 0 : y; nan && x[y] == x[y];) y++; \
    return y; \
  }
#define ARGS_OF(T, I) ARG(max, T, I, >) ARG(min, T, I, <)
ARGS_OF(i32, i32)
ARGS_OF(i64, i64)
ARGS_OF(f32, i32)
ARGS_OF(f64, i64)
#undef WHERE
#undef MEET
#undef JOIN
#undef EVERY
#undef ARG
#undef ARGS_OF
