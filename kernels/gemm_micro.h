/*
** gemm_micro.h -- the algorithms of matrix products for one element type and instruction set.
** In:  T, TBYTES, FMA (of vectors), FMA1 (of one), TAG, and all that gemm_isa.h defines.
** Out: static const Kern NAME(kern); see struct Kern in gemm.c for what each function does.
**
** Rules that keep the bits the same everywhere:
** 1. Products are summed by fma over ascending k, from +0, within blocks of KC.
** 2. The first block's sum is taken as it is (a -0 stays), the others are added, ascending.
** 3. What lies beyond the edge of a matrix is never added, not even as zero times zero.
*/
#define VL (VBYTES / TBYTES) /* elements of a vector */
#define V NAME(Vec)
#define LN (256 / TBYTES) /* lanes of a trailing run: 64, or 32 of 8 bytes */

typedef T V __attribute__((vector_size(VBYTES), aligned(TBYTES), may_alias));

#if TBYTES == 4
#define MASK MASK4
#define MLOAD(p, m) (V) MLOAD4(p, m)
#define MSTORE MSTORE4
#else
#define MASK MASK8
#define MLOAD(p, m) (V) MLOAD8(p, m)
#define MSTORE MSTORE8
#endif

#if VBYTES == 16
INLINE V NAME(mload)(const T *p, int w) {
  V v = {0};
  for (int i = 0; i < w; i++) v[i] = p[i];
  return v;
}
INLINE void NAME(mstore)(T *p, int w, V v) {
  for (int i = 0; i < w; i++) p[i] = v[i];
}
#endif

INLINE V NAME(splat)(T x) {
#if VBYTES == 64 && TBYTES == 4
  return (V){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif VBYTES / TBYTES == 8
  return (V){x, x, x, x, x, x, x, x};
#elif VBYTES / TBYTES == 4
  return (V){x, x, x, x};
#else
  return (V){x, x};
#endif
}

/* One tile of mr rows by nv vectors, the last of w elements, over one block of k. mr and nv are
** constants where this is inlined, so that the sums live in registers. */
INLINE void NAME(tile)(const int mr, const int nv, i64 kc, const T *a, i64 ars, i64 acs, const T *b,
                       i64 brs, T *y, i64 yrs, int w, bool first) {
  V sum[ROWS][2];
  __typeof__(MASK(w)) m = MASK(w);
#pragma GCC unroll 8
  for (int r = 0; r < mr; r++) sum[r][0] = sum[r][1] = (V){0};
  if (!first) /* y has left L1 since the last block of k: called back while the sums are made */
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++) {
      __builtin_prefetch(y + r * yrs, 1);
      if (nv == 2) __builtin_prefetch(y + r * yrs + 2 * VL - 1, 1);
    }
  for (i64 p = 0; p < kc; p++, a += acs, b += brs) {
    V b0 = nv == 2 ? *(const V *)b : MLOAD(b, m);
    V b1 = nv == 2 ? MLOAD(b + VL, m) : b0;
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++) {
      V x = NAME(splat)(a[r * ars]);
      sum[r][0] = FMA(x, b0, sum[r][0]);
      if (nv == 2) sum[r][1] = FMA(x, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < mr; r++, y += yrs) {
    T *tail = nv == 2 ? y + VL : y;
    V s0 = sum[r][0], s1 = nv == 2 ? sum[r][1] : s0;
    if (!first) {
      if (nv == 2) s0 = *(V *)y + s0;
      s1 = MLOAD(tail, m) + s1;
    }
    if (nv == 2) *(V *)y = s0;
    MSTORE(tail, m, s1);
  }
}

#define TILE(mr, nv) \
  static ATTR void NAME(tile##mr##x##nv)(i64 kc, const void *a, i64 ars, i64 acs, const void *b, \
                                         i64 brs, void *y, i64 yrs, int w, bool first) { \
    NAME(tile)(mr, nv, kc, a, ars, acs, b, brs, y, yrs, w, first); \
  }
#define TILES(mr) TILE(mr, 1) TILE(mr, 2)
TILES(1)
#if ROWS > 1
TILES(2)
TILES(3)
TILES(4)
#endif
#if ROWS > 4
TILES(5)
TILES(6)
#endif
#if ROWS > 6
TILES(7)
TILES(8)
#endif
#undef TILE
#undef TILES

#if TBYTES == 4 && VBYTES > 16
/* One row of a by nv vectors of b, the last of w elements: sums stay in registers. */
INLINE void NAME(thin)(const int nv, int w, i64 k, const T *a, i64 acs, const T *b, i64 brs, T *y) {
  __typeof__(MASK(w)) mask = MASK(w);
  for (i64 k0 = 0; k0 < k; k0 += KC) {
    V s[4] = {{0}};
    for (i64 p = TY_MIN(KC, k - k0); p > 0; p--, a += acs, b += brs) {
      V x = NAME(splat)(*a);
      UNROLL
      for (int v = 0; v < nv - 1; v++) s[v] = FMA(x, *(const V *)(b + v * VL), s[v]);
      s[nv - 1] = FMA(x, MLOAD(b + (nv - 1) * VL, mask), s[nv - 1]);
    }
    UNROLL
    for (int v = 0; v < nv - 1; v++) {
      if (k0) s[v] = *(V *)(y + v * VL) + s[v];
      *(V *)(y + v * VL) = s[v];
    }
    if (k0) s[nv - 1] = MLOAD(y + (nv - 1) * VL, mask) + s[nv - 1];
    MSTORE(y + (nv - 1) * VL, mask, s[nv - 1]);
  }
}
#endif

/* y[n] = row a[k] times b[k, n], one chunk of columns at a time: eight rows of b are read side by
** side and in full, which is what memory likes best. Up to STREAM_ROWS rows of a share the pass. */
static ATTR void NAME(stream)(i64 m, i64 n, i64 k, const void *A, i64 ars, i64 acs, const void *B,
                              i64 brs, void *Y, i64 yrs) {
  enum { CHUNK = 2048 / TBYTES };
  T sum[STREAM_ROWS][CHUNK];
#if TBYTES == 4 && VBYTES > 16
  if (n <= 4 * VL) {
    for (i64 r = 0; r < m; r++) {
      const T *a = (const T *)A + r * ars;
      T *y = (T *)Y + r * yrs;
      const int w = (int)(n - 1) % VL + 1;
      if (n <= VL) NAME(thin)(1, w, k, a, acs, B, brs, y);
      else if (n <= 2 * VL) NAME(thin)(2, w, k, a, acs, B, brs, y);
      else if (n <= 3 * VL) NAME(thin)(3, w, k, a, acs, B, brs, y);
      else NAME(thin)(4, w, k, a, acs, B, brs, y);
    }
    return;
  }
#endif
  for (i64 j0 = 0; j0 < n; j0 += CHUNK) {
    int nc = (int)TY_MIN(CHUNK, n - j0), w = (nc - 1) % VL + 1, last = nc - w;
    __typeof__(MASK(w)) mask = MASK(w);
    for (i64 p = 0; p < k;) {
      const bool first = p == 0;
      const i64 end = TY_MIN(p + KC, k);
      for (i64 r = 0; r < m; r++) memset(sum[r], 0, (size_t)(last + VL) * TBYTES);
      for (; p + 8 <= end; p += 8)
        for (i64 r = 0; r < m; r++) {
          const T *a = (const T *)A + r * ars + p * acs, *b = (const T *)B + p * brs + j0;
          V x[8];
          UNROLL
          for (int u = 0; u < 8; u++) x[u] = NAME(splat)(a[u * acs]);
          for (int j = 0; j < last; j += VL) {
            V s = *(V *)&sum[r][j];
            UNROLL
            for (int u = 0; u < 8; u++) s = FMA(x[u], *(const V *)(b + u * brs + j), s);
            *(V *)&sum[r][j] = s;
          }
          V s = *(V *)&sum[r][last];
          UNROLL
          for (int u = 0; u < 8; u++) s = FMA(x[u], MLOAD(b + u * brs + last, mask), s);
          *(V *)&sum[r][last] = s;
        }
      for (; p < end; p++)
        for (i64 r = 0; r < m; r++) {
          const T *b = (const T *)B + p * brs + j0;
          V x = NAME(splat)(((const T *)A)[r * ars + p * acs]);
          for (int j = 0; j < last; j += VL)
            *(V *)&sum[r][j] = FMA(x, *(const V *)(b + j), *(V *)&sum[r][j]);
          *(V *)&sum[r][last] = FMA(x, MLOAD(b + last, mask), *(V *)&sum[r][last]);
        }
      for (i64 r = 0; r < m; r++) {
        T *y = (T *)Y + r * yrs + j0;
        for (int j = 0; j < last; j += VL) {
          V s = *(V *)&sum[r][j];
          if (!first) s = *(V *)(y + j) + s;
          *(V *)(y + j) = s;
        }
        V s = *(V *)&sum[r][last];
        if (!first) s = MLOAD(y + last, mask) + s;
        MSTORE(y + last, mask, s);
      }
    }
  }
}

/* Where element c of a pair of vectors comes from when their off-diagonal squares of side h change
** places. */
#define EXCHANGE0(c, h) ((c) & (h) ? VL + (c) - (h) : (c))
#define EXCHANGE1(c, h) ((c) & (h) ? VL + (c) : (c) + (h))
#if VBYTES / TBYTES == 16
#define EACH(f, h) \
  f(0, h), f(1, h), f(2, h), f(3, h), f(4, h), f(5, h), f(6, h), f(7, h), f(8, h), f(9, h), \
      f(10, h), f(11, h), f(12, h), f(13, h), f(14, h), f(15, h)
#elif VBYTES / TBYTES == 8
#define EACH(f, h) f(0, h), f(1, h), f(2, h), f(3, h), f(4, h), f(5, h), f(6, h), f(7, h)
#elif VBYTES / TBYTES == 4
#define EACH(f, h) f(0, h), f(1, h), f(2, h), f(3, h)
#else
#define EACH(f, h) f(0, h), f(1, h)
#endif

/* Transposes a square of VL vectors. */
#define EXCHANGE(h) \
  UNROLL \
  for (int i = 0; h < VL && i < VL; i++) \
    if (!(i & h)) { \
      V p = x[i], q = x[i + h]; \
      x[i] = __builtin_shuffle(p, q, (Index){EACH(EXCHANGE0, h)}); \
      x[i + h] = __builtin_shuffle(p, q, (Index){EACH(EXCHANGE1, h)}); \
    }
INLINE void NAME(transpose)(V x[VL]) {
#if TBYTES == 4
  typedef i32 Index __attribute__((vector_size(VBYTES)));
#else
  typedef i64 Index __attribute__((vector_size(VBYTES)));
#endif
  EXCHANGE(8)
  EXCHANGE(4)
  EXCHANGE(2)
  EXCHANGE(1)
}

/* The same as stream for a b that lies column by column: VL columns are read side by side, and
** turned in registers. */
static ATTR void NAME(turned)(i64 m, i64 n, i64 k, const void *A, i64 ars, i64 acs, const void *B,
                              i64 bcs, void *Y, i64 yrs) {
  enum { AHEAD = 512 / TBYTES };
  for (i64 j0 = 0; j0 < n; j0 += VL) {
    const T *b[VL];
    const int w = (int)TY_MIN(VL, n - j0);
    for (int j = 0; j < VL; j++) b[j] = (const T *)B + (j0 + TY_MIN(j, w - 1)) * bcs;
    for (i64 k0 = 0; k0 < k; k0 += KC) {
      const i64 end = TY_MIN(k0 + KC, k);
      V sum[STREAM_ROWS] = {{0}}, x[VL];
      for (i64 p = k0; p < end; p += VL) {
        const int left = (int)TY_MIN(VL, end - p);
        if (left == VL) {
          UNROLL
          for (int j = 0; j < VL; j++) {
            x[j] = *(const V *)(b[j] + p);
            __builtin_prefetch(b[j] + p + AHEAD);
          }
        } else {
          for (int j = 0; j < VL; j++) x[j] = MLOAD(b[j] + p, MASK(left));
        }
        NAME(transpose)(x);
        for (i64 r = 0; r < m; r++) {
          const T *a = (const T *)A + r * ars + p * acs;
          V s = sum[r];
          if (left == VL) {
            UNROLL
            for (int u = 0; u < VL; u++) s = FMA(NAME(splat)(a[u * acs]), x[u], s);
          } else {
            for (int u = 0; u < left; u++) s = FMA(NAME(splat)(a[u * acs]), x[u], s);
          }
          sum[r] = s;
        }
      }
      for (i64 r = 0; r < m; r++) {
        T *y = (T *)Y + r * yrs + j0;
        V s = sum[r];
        if (k0) s = MLOAD(y, MASK(w)) + s;
        MSTORE(y, MASK(w), s);
      }
    }
  }
}

/* lanes[i mod LN] = fma over ascending i of column i of a, of at most SIDE_BYTES, times b[i]: the
** same as dot below for many rows at once, where a lies column by column. A lane is SIDE_BYTES
** long. */
INLINE void NAME(columns)(const int nv, int w, i64 n, const T *a, i64 acs, const T *b, T *lanes) {
  __typeof__(MASK(w)) m = MASK(w);
  for (i64 i = 0; i < n; i++, a += acs) {
    T *l = lanes + i % LN * (SIDE_BYTES / TBYTES);
    V x = NAME(splat)(b[i]), zero = {0};
    /* Columns are too far apart for the hardware to guess. */
    UNROLL
    for (int v = 0; v < nv; v += 64 / VBYTES) __builtin_prefetch(a + 16 * acs + v * VL, 0, 2);
    UNROLL
    for (int v = 0; v < nv; v++) {
      V s = i < LN ? zero : *(V *)(l + v * VL);
      *(V *)(l + v * VL) = FMA(v + 1 < nv ? *(const V *)(a + v * VL) : MLOAD(a + v * VL, m), x, s);
    }
  }
}

static ATTR void NAME(side)(i64 nr, i64 n, const void *A, i64 acs, const void *B, void *L) {
  enum { MOST = SIDE_BYTES / VBYTES };
  const int nv = (int)((nr + VL - 1) / VL), w = (int)(nr - (nv - 1) * VL);
  T *l = L;
  if (nv == MOST) NAME(columns)(MOST, w, n, A, acs, B, L);
  else
    for (int v = 0; v < nv; v++, l += VL) /* few rows: a vector of rows at a time */
      NAME(columns)(1, v + 1 < nv ? VL : w, n, (const T *)A + v * VL, acs, B, l);
  for (i64 i = n; i < LN; i++) memset((T *)L + i * (SIDE_BYTES / TBYTES), 0, SIDE_BYTES);
}

/* lanes[i mod LN] = fma over ascending i of a[i] * b[i], for n <= BLOCK elements of nr rows. */
INLINE void NAME(lanes)(const int nr, i64 n, const T *a, i64 ars, const T *b, T *lanes, i64 lrs) {
  V sum[2][LN / VL];
  UNROLL
  for (int r = 0; r < nr; r++) {
    UNROLL
    for (int v = 0; v < LN / VL; v++) sum[r][v] = (V){0};
  }
  i64 i = 0;
  for (; i + LN <= n; i += LN) {
    UNROLL
    for (int r = 0; r < nr; r++) {
      const T *x = a + r * ars + i, *z = b + i;
      UNROLL
      for (int v = 0; v < LN / VL; v++)
        sum[r][v] = FMA(*(const V *)(x + v * VL), *(const V *)(z + v * VL), sum[r][v]);
    }
  }
  UNROLL
  for (int r = 0; r < nr; r++) {
    UNROLL
    for (int v = 0; v < LN / VL; v++) *(V *)(lanes + r * lrs + v * VL) = sum[r][v];
  }
  /* The tail, in memory: whole vectors, then one by one, so that no lane sees a 0 * 0. */
  for (int r = 0; r < nr; r++) {
    const T *x = a + r * ars + i, *z = b + i;
    T *l = lanes + r * lrs;
    i64 j = 0;
    for (; j + VL <= n - i; j += VL)
      *(V *)(l + j) = FMA(*(const V *)(x + j), *(const V *)(z + j), *(V *)(l + j));
    for (; j < n - i; j++) l[j] = FMA1(x[j], z[j], l[j]);
  }
}

static ATTR void NAME(dot)(i64 nr, i64 n, const void *A, i64 ars, const void *B, void *L, i64 lrs) {
  const T *a = A;
  T *l = L;
  for (; VBYTES == 64 && nr >= 2; nr -= 2, a += 2 * ars, l += 2 * lrs)
    NAME(lanes)(2, n, a, ars, B, l, lrs);
  for (; nr; nr--, a += ars, l += lrs) NAME(lanes)(1, n, a, ars, B, l, lrs);
}

/* One block's lanes, or sums, join another's. */
static ATTR void NAME(add)(void *L, const void *R, i64 bytes) {
  T *l = L;
  const T *r = R;
  i64 v = 0, n = bytes / TBYTES;
  for (; v + VL <= n; v += VL) *(V *)(l + v) += *(const V *)(r + v);
  for (; v < n; v++) l[v] += r[v];
}

static ATTR void NAME(join)(void *L, void *y) { /* lanes join: j += j + 32, j + 16 ... j + 1 */
  T *l = L;
  int h = LN / 2;
  for (; h >= VL; h /= 2)
    for (int j = 0; j < h; j += VL) *(V *)(l + j) += *(const V *)(l + j + h);
  for (; h; h /= 2)
    for (int j = 0; j < h; j++) l[j] += l[j + h];
  *(T *)y = l[0];
}

static const Kern NAME(kern) = {
    .rows = ROWS,
    .vl = VL,
    .tile = {{NAME(tile1x1),
#if ROWS > 1
              NAME(tile2x1), NAME(tile3x1), NAME(tile4x1),
#endif
#if ROWS > 4
              NAME(tile5x1), NAME(tile6x1),
#endif
#if ROWS > 6
              NAME(tile7x1), NAME(tile8x1)
#endif
             },
             {NAME(tile1x2),
#if ROWS > 1
              NAME(tile2x2), NAME(tile3x2), NAME(tile4x2),
#endif
#if ROWS > 4
              NAME(tile5x2), NAME(tile6x2),
#endif
#if ROWS > 6
              NAME(tile7x2), NAME(tile8x2)
#endif
             }},
    .stream = NAME(stream),
    .turned = NAME(turned),
    .side = NAME(side),
    .dot = NAME(dot),
    .add = NAME(add),
    .join = NAME(join),
};

#undef TAG
#undef T
#undef TBYTES
#undef FMA
#undef FMA1
#undef VL
#undef V
#undef LN
#undef EXCHANGE
#undef EXCHANGE0
#undef EXCHANGE1
#undef EACH
#undef MASK
#undef MLOAD
#undef MSTORE
