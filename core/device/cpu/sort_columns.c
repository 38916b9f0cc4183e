/*
** sort_columns.c -- eight rows of words sorted side by side, one a lane of AVX-512.
** In:  words of 8 bytes, row k at k, k + 8, k + 16 ...; no two of a row are equal.  Out: each row ascends. Cannot fail.
**
** A bitonic network of comparators whose larger element always goes behind, so that a row of any length is one of the
** next power of two whose last elements are the largest there can be: comparators with them do nothing and are left
** out. A block of p sorted elements comes from two of p / 2: first i meets p - 1 - i, then halves are cleaned at
** distances p / 4, p / 8 ... 1. Two distances go in one pass over memory, those of 16 elements in registers. There are
** log2(n) (log2(n) + 1) / 2 comparators for two elements of all eight rows, and no branch looks at the data.
*/
#include "device/cpu/tile.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,prefer-vector-width=512")))
#define INTO static inline WIDE __attribute__((always_inline))
typedef __m512i V;

INTO V get(const u64 *x, i64 i) { return _mm512_loadu_si512(x + 8 * i); }
INTO void put(u64 *x, i64 i, V v) { _mm512_storeu_si512(x + 8 * i, v); }
INTO void order(V *a, V *b) {
  const V low = _mm512_min_epu64(*a, *b);
  *b = _mm512_max_epu64(*a, *b);
  *a = low;
}

INTO void load(V *v, const u64 *x, i64 n) {
  for (i64 i = 0; i < n; i++) v[i] = get(x, i);
}
INTO void store(u64 *x, const V *v, i64 n) {
  for (i64 i = 0; i < n; i++) put(x, i, v[i]);
}

/* Any eight, by 19 comparators. */
INTO void sort_eight(V *v) {
  static const u8 pairs[19][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6},
                                  {3, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}, {2, 4}, {3, 5},
                                  {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
#pragma GCC unroll 19
  for (int k = 0; k < 19; k++) order(&v[pairs[k][0]], &v[pairs[k][1]]);
}

/* Distances 4, 2, 1. */
INTO void clean_eight(V *v) {
#pragma GCC unroll 3
  for (int d = 4; d; d /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
      if (!(i & d)) order(&v[i], &v[i + d]);
}

/* Any sixteen, or the eight that are left. */
WIDE static void sort_sixteen(u64 *x, i64 n) {
  V v[16];
  load(v, x, 8), sort_eight(v);
  if (n >= 16) {
    load(v + 8, x + 64, 8), sort_eight(v + 8);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) order(&v[i], &v[15 - i]);
    clean_eight(v), clean_eight(v + 8);
    store(x + 64, v + 8, 8);
  }
  store(x, v, 8);
}

/* Distances 8 to 1, or for the eight that are left from 4. */
WIDE static void clean_sixteen(u64 *x, i64 n) {
  V v[16];
  load(v, x, 8);
  if (n >= 16) {
    load(v + 8, x + 64, 8);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) order(&v[i], &v[i + 8]);
    clean_eight(v + 8), store(x + 64, v + 8, 8);
  }
  clean_eight(v), store(x, v, 8);
}

WIDE static void clean_eights(u64 *x, i64 n) {
  V v[8];
  for (i64 i = 0; i < n; i += 8, x += 64) load(v, x, 8), clean_eight(v), store(x, v, 8);
}

INTO void meet(u64 *x, i64 i, i64 j) {
  V a = get(x, i), b = get(x, j);
  order(&a, &b);
  put(x, i, a), put(x, j, b);
}

WIDE static void clean(u64 *x, i64 n, i64 d) {
  for (i64 b = 0; b < n; b += 2 * d)
    for (i64 i = b; i < b + d && i + d < n; i++) meet(x, i, i + d);
}

/* Distances 2 d and d. */
WIDE static void clean_twice(u64 *x, i64 n, i64 d) {
  i64 b = 0;
  for (; b + 4 * d <= n; b += 4 * d)
    for (i64 i = b; i < b + d; i++) {
      V p = get(x, i), q = get(x, i + d), r = get(x, i + 2 * d), s = get(x, i + 3 * d);
      order(&p, &r), order(&q, &s), order(&p, &q), order(&r, &s);
      put(x, i, p), put(x, i + d, q), put(x, i + 2 * d, r), put(x, i + 3 * d, s);
    }
  clean(x + 8 * b, n - b, 2 * d);
  clean(x + 8 * b, n - b, d);
}

/* Blocks of p, of two sorted halves: i meets p - 1 - i; then distance p / 4. */
WIDE static void fold(u64 *x, i64 n, i64 p) {
  const i64 d = p / 4;
  i64 b = 0;
  for (; b + p <= n; b += p)
    for (i64 i = b, j = b + p - 1; i < b + d; i++, j--) {
      V k = get(x, i), l = get(x, i + d), m = get(x, j - d), o = get(x, j);
      order(&k, &o), order(&l, &m), order(&k, &l), order(&m, &o);
      put(x, i, k), put(x, i + d, l), put(x, j - d, m), put(x, j, o);
    }
  for (i64 i = b + p - n; i < p / 2; i++) meet(x, b + i, b + p - 1 - i);
  clean(x + 8 * b, n - b, d);
}

WIDE void ty_sort_columns(u64 *x, i64 n) {
  for (i64 i = 0; i < n; i += 16) sort_sixteen(x + 8 * i, n - i);
  for (i64 p = 32; p < 2 * n; p *= 2) {
    i64 d = p / 8;
    fold(x, n, p);
    for (; d >= 16; d /= 4) clean_twice(x, n, d / 2);
    if (d < 8) clean_eights(x, n);
    else
      for (i64 i = 0; i < n; i += 16) clean_sixteen(x + 8 * i, n - i);
  }
}
#endif
