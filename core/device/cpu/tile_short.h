/*
** tile_short.h -- rows of 2, 3, 4 or 8 elements for one instruction set; part of tile_loops.h.
** In:  rows that follow one another.  Out: the reduction of each, in the canonical order: the upper half of what is
** left joins the lower one, until one is left; or the other way, each value a row of itself, of up to 8.
**
** As many rows are worked on as a vector has elements: n vectors hold them. Halving takes two vectors to one, of the
** lower halves and of the upper halves of their rows, which keeps the order of rows. Of rows of 3 the last joins the
** first, then the middle one: their columns are taken apart.
*/
/* Element i of a pair of vectors' lower halves of rows of 2 * h. */
#define LOWER(i, h) ((i) / (h)*2 * (h) + (i) % (h))
#define HALVE(U, OP, s) \
  ALL for (int i = 0; i < 1 << (s); i++) { \
    a = __builtin_shuffle(v[2 * i], v[2 * i + 1], low[s]); \
    b = __builtin_shuffle(v[2 * i], v[2 * i + 1], low[s] + ((U)1 << (s))); \
    OP(v[i], a, b); \
  }
/* Column c of rows of 3: each of its elements lies in one of the three vectors, at a place of its own. */
#define COLUMN(c) \
  __builtin_shuffle( \
      __builtin_shuffle(__builtin_shuffle(v[0], v[1], OF_COLUMN(1, c)), v[2], OF_COLUMN(2, c)), \
      (3 * iota + (c)) % E)
#define OF_COLUMN(k, c) (iota + (E & (W)((iota + ((k)*E + 3 - (c))) % 3 == 0)))
#define SHORT_ROWS(NAME, T, U, JOINED, OP, IN, OUT) \
  __attribute__((always_inline)) static inline i64 ID(short_##NAME)(T * y, const T *x, i64 rows, \
                                                                    const i64 n) { \
    typedef T V __attribute__((vector_size(VB), aligned(sizeof(T)), may_alias)); \
    typedef U W __attribute__((vector_size(VB), may_alias)); \
    typedef JOINED J __attribute__((vector_size(VB), may_alias)); \
    enum { E = VB / sizeof(T) }; \
    W iota = {0}, low[3]; \
    i64 k = 0; \
    for (int i = 0; i < E; i++) iota[i] = (U)i; \
    for (int i = 0; i < 3; i++) low[i] = LOWER(iota, (U)1 << i); \
    for (; k + E <= rows; k += E, x += E * n) { \
      J v[8], a, b; \
      ALL for (int i = 0; i < n; i++) v[i] = IN(*(const V *)(x + i * E)); \
      if (n == 3) { \
        const J first = COLUMN(0), middle = COLUMN(1), end = COLUMN(2); \
        OP(v[0], first, end); \
        OP(v[0], v[0], middle); \
      } else { \
        if (n > 4) HALVE(U, OP, 2) \
        if (n > 2) HALVE(U, OP, 1) \
        HALVE(U, OP, 0) \
      } \
      v[0] = OUT(v[0]); \
      memcpy(y + k, &v[0], sizeof v[0]); \
    } \
    return k; \
  }
/* Whole vectors of rows of n elements by fn; how many rows that were. */
#if VB > 16
#define SHORT(fn, y, x, rows, n) \
  ((n) == 2   ? fn(y, x, rows, 2) \
   : (n) == 3 ? fn(y, x, rows, 3) \
   : (n) == 4 ? fn(y, x, rows, 4) \
   : (n) == 8 ? fn(y, x, rows, 8) \
              : 0)
#define SHORT_REPEAT(fn, y, a, rows, n) \
  ((n) == 5   ? fn(y, a, rows, 5) \
   : (n) == 6 ? fn(y, a, rows, 6) \
   : (n) == 7 ? fn(y, a, rows, 7) \
              : SHORT(fn, y, a, rows, n))
#else /* elements find their places one by one */
#define SHORT(fn, y, x, rows, n) 0
#define SHORT_REPEAT SHORT
#endif

#define REPEAT(SIZE, T) \
  __attribute__((always_inline)) static inline i64 ID(repeat_##SIZE)(T * y, const T *a, i64 rows, \
                                                                     const i64 n) { \
    typedef T V __attribute__((vector_size(VB), aligned(sizeof(T)), may_alias)); \
    typedef T W __attribute__((vector_size(VB), may_alias)); \
    enum { E = VB / sizeof(T) }; \
    W iota = {0}; \
    i64 k = 0; \
    for (int i = 0; i < E; i++) iota[i] = (T)i; \
    for (; k + E <= rows; k += E) { \
      const W v = *(const V *)(a + k); \
      ALL for (int i = 0; i < n; i++) * (V *)(y + k * n + i * E) = \
          __builtin_shuffle(v, (iota + (T)(i * E)) / (T)n); \
    } \
    return k; \
  }
#if VB > 16
REPEAT(4, u32)
REPEAT(8, u64)
#endif
