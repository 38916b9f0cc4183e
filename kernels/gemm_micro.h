/*
** gemm_micro.h -- the algorithms of matrix products for one element type and instruction set.
** In:  T, TBYTES, FMA MAX MIN (of vectors), FMA1 (of one), TAG, ROWS (most rows of a tile, even),
**      APPLY (whether tiles apply operations), FLOATING, TRANSPOSE (whether columns are transposed for a
**      stream), SPEED, and all that gemm_isa.h defines.
** Out: static const Kern NAME(kern); see struct Kern in gemm.h for what each function does.
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
  if (VECTOR_FMA && w == VL) return *(const V *)p;
  for (int i = 0; i < w; i++) v[i] = p[i];
  return v;
}
INLINE void NAME(mstore)(T *p, int w, V v) {
  if (VECTOR_FMA && w == VL) *(V *)p = v;
  else
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

#if APPLY
/* What follows the product is applied to its sums in their registers. The last row may be missing,
** and then reads what the one before it does. The instructions for extremes give their second
** operand for a NaN, and for two zeros: RELU's addition makes its zero positive. */
INLINE void NAME(apply)(const int mr, const int nv, V sum[ROWS][2], const GemmTile *t,
                        const __typeof__(MASK(0)) m) {
  for (const GemmOp *op = t->op, *end = op + t->nops; op < end; op++) {
    const T *x = (const T *)op->x + t->row * op->rs + t->col * op->cs;
    const i64 rs = op->rs, below = t->rows - 1;
    V x0 = op->cs ? nv == 2 ? *(const V *)x : MLOAD(x, m) : NAME(splat)(*x);
    V x1 = op->cs && nv == 2 ? MLOAD(x + VL, m) : x0;
#define ROWS_DO(f0, f1) \
  UNROLL \
  for (int r = 0; r < mr; r++) { \
    V *s = sum[r]; \
    s[0] = f0; \
    if (nv == 2) s[1] = f1; \
  }
#define X (x + rs * (r < mr - 1 ? r : below))
    switch (op->kind + (rs ? op->cs ? APART : DOWN : SAME)) {
    case SAME + GEMM_ADD: ROWS_DO(s[0] + x0, s[1] + x1) break;
    case SAME + GEMM_MUL: ROWS_DO(s[0] * x0, s[1] * x1) break;
    case SAME + GEMM_MAX: ROWS_DO(MAX(x0, s[0]), MAX(x0, s[1])) break;
    case SAME + GEMM_MIN: ROWS_DO(MIN(x0, s[0]), MIN(x0, s[1])) break;
    case SAME + GEMM_RELU: ROWS_DO(MAX(x0, s[0]) + x0, MAX(x0, s[1]) + x0) break;
    case DOWN + GEMM_ADD: ROWS_DO(s[0] + NAME(splat)(*X), s[1] + NAME(splat)(*X)) break;
    case DOWN + GEMM_MUL: ROWS_DO(s[0] * NAME(splat)(*X), s[1] * NAME(splat)(*X)) break;
#define LOAD0 (nv == 2 ? *(const V *)X : MLOAD(X, m))
    case APART + GEMM_ADD: ROWS_DO(s[0] + LOAD0, s[1] + MLOAD(X + VL, m)) break;
    default: ROWS_DO(s[0] * LOAD0, s[1] * MLOAD(X + VL, m))
    }
#undef ROWS_DO
#undef X
#undef LOAD0
  }
}
#endif

#if APPLY && TBYTES == 4
/* Stores sums as f16 or bf16, rounded as ty_f32_to_f16 and ty_f32_to_bf16 do. */
static __attribute__((noinline)) ATTR void NAME(shorten)(const int nv, const V sum[][2],
                                                         const GemmTile *t) {
  typedef u32 U __attribute__((vector_size(VBYTES)));
  typedef u16 H __attribute__((vector_size(VBYTES / 2)));
  u16 *y = (u16 *)t->y;
  for (int r = 0; r < t->rows; r++, y += t->yrs)
    for (int v = 0; v < nv; v++) {
      const V s = sum[r][v];
      const U nan = (U)(s != s);
      U u = ((U)s & ~nan) | (nan & 0x7fc00000);
      const H h = t->store == T_F16
                      ? (H)HALVES((V)u)
                      : __builtin_convertvector((u + 0x7fff + (u >> 16 & 1)) >> 16, H);
      memcpy(y + v * VL, &h, sizeof *y * (size_t)(v + 1 < nv ? VL : t->last));
    }
}
#endif

/* Sums of mr rows by nv vectors over one block of k. Rows of b are called a little before their turn
** where they are kept, as then they lie far apart. whole: the last vector is, for who has no masks. */
INLINE void NAME(sums)(const int mr, const int nv, V sum[ROWS][2], const GemmTile *t, T *keep,
                       const bool whole) {
  const i64 ars = t->ars, acs = t->acs, brs = t->brs, last = ars * (mr - 2 + (t->rows == mr));
  const T *a = (const T *)t->a, *b = (const T *)t->b;
  const __typeof__(MASK(0)) m = MASK(t->last);
  UNROLL
  for (int r = 0; r < mr; r++) sum[r][0] = sum[r][1] = (V){0};
  for (i64 p = t->k; p > 0; p--, a += acs, b += brs) {
    V b0 = nv == 2 || whole ? *(const V *)b : MLOAD(b, m);
    V b1 = nv == 1 ? b0 : whole ? *(const V *)(b + VL) : MLOAD(b + VL, m);
    if (keep) {
      __builtin_prefetch(b + 6 * brs);
      __builtin_prefetch(b + 6 * brs + VL);
      *(V *)keep = b0;
      *(V *)(keep + VL) = b1;
      keep += 2 * VL;
    }
    UNROLL
    for (int r = 0; r < mr; r++) {
      V x = NAME(splat)(a[r < mr - 1 ? r * ars : last]);
      sum[r][0] = FMA(x, b0, sum[r][0]);
      if (nv == 2) sum[r][1] = FMA(x, b1, sum[r][1]);
    }
  }
}

/* One tile of mr rows by nv vectors over one block of k. mr and nv are constants where this is
** inlined, so that the sums live in registers. Where the last row is missing the one before it is
** summed twice, and stored once. */
INLINE void NAME(tile)(const int mr, const int nv, const GemmTile *t) {
  V sum[ROWS][2];
  const bool full = t->rows == mr;
  const i64 yrs = t->yrs;
  T *y = (T *)t->y;
  const __typeof__(MASK(0)) m = MASK(t->last);
  if (APPLY && mr == ROWS && nv == 2 && t->keep) NAME(sums)(mr, nv, sum, t, (T *)t->keep, false);
  else if (VBYTES == 16 && VECTOR_FMA && t->last == VL) NAME(sums)(mr, nv, sum, t, NULL, true);
  else NAME(sums)(mr, nv, sum, t, NULL, false);
  if (!t->first) {
    UNROLL
    for (int r = 0; r < mr; r++) {
      const T *old = (const T *)t->sums + t->srs * (r < mr - 1 ? r : mr - 2 + full);
      sum[r][0] = (nv == 2 ? *(const V *)old : MLOAD(old, m)) + sum[r][0];
      if (nv == 2) sum[r][1] = MLOAD(old + VL, m) + sum[r][1];
    }
  }
#if APPLY
  if (t->nops) NAME(apply)(mr, nv, sum, t, m);
#endif
#if APPLY && TBYTES == 4
  if (t->store) {
    V all[ROWS][2];
    UNROLL
    for (int r = 0; r < mr; r++) all[r][0] = sum[r][0], all[r][1] = sum[r][1];
    NAME(shorten)(nv, (const V(*)[2])all, t);
    return;
  }
#endif
  UNROLL
  for (int r = 0; r < mr; r++, y += yrs) {
    if (r == mr - 1 && !full) break;
    if (nv == 2) *(V *)y = sum[r][0];
    MSTORE(nv == 2 ? y + VL : y, m, sum[r][nv - 1]);
  }
}

#define TILE(mr, nv) \
  static ATTR void NAME(tile##mr##x##nv)(const GemmTile *t) { NAME(tile)(mr, nv, t); }
TILE(2, 1)
TILE(2, 2)
#define HEIGHTS(nv) NAME(tile2x##nv)
#if ROWS >= 4
TILE(4, 1)
TILE(4, 2)
#undef HEIGHTS
#define HEIGHTS(nv) NAME(tile2x##nv), NAME(tile4x##nv)
#endif
#if ROWS >= 6
TILE(6, 1)
TILE(6, 2)
#undef HEIGHTS
#define HEIGHTS(nv) NAME(tile2x##nv), NAME(tile4x##nv), NAME(tile6x##nv)
#endif
#if ROWS >= 8
TILE(8, 1)
TILE(8, 2)
#undef HEIGHTS
#define HEIGHTS(nv) NAME(tile2x##nv), NAME(tile4x##nv), NAME(tile6x##nv), NAME(tile8x##nv)
#endif
#undef TILE

#if TBYTES == 4 && APPLY
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
** side and in full, which is what memory likes best. Up to STREAM_ROWS rows of a share the pass, and
** the room for sums, which is on the stack: small. */
static ATTR void NAME(stream)(i64 m, i64 n, i64 k, const void *A, i64 ars, i64 acs, const void *B,
                              i64 brs, void *Y, i64 yrs) {
  enum { CHUNK = 2048 / TBYTES, SUMS = 3328 / TBYTES };
  T sums[SUMS];
  const i64 chunk = m == 1 ? CHUNK : SUMS / m / VL * VL;
#if TBYTES == 4 && APPLY
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
  for (i64 j0 = 0; j0 < n; j0 += chunk) {
    int nc = (int)TY_MIN(chunk, n - j0), w = (nc - 1) % VL + 1, last = nc - w;
    __typeof__(MASK(w)) mask = MASK(w);
    for (i64 p = 0; p < k;) {
      const bool first = p == 0;
      const i64 end = TY_MIN(p + KC, k);
      for (i64 r = 0; r < m; r++) memset(sums + r * chunk, 0, (size_t)(last + VL) * TBYTES);
      for (; p + 8 <= end; p += 8)
        for (i64 r = 0; r < m; r++) {
          const T *a = (const T *)A + r * ars + p * acs, *b = (const T *)B + p * brs + j0;
          T *sum = sums + r * chunk;
          V x[8];
          UNROLL
          for (int u = 0; u < 8; u++) x[u] = NAME(splat)(a[u * acs]);
          for (int j = 0; j < last; j += VL) {
            V s = *(V *)(sum + j);
            UNROLL
            for (int u = 0; u < 8; u++) s = FMA(x[u], *(const V *)(b + u * brs + j), s);
            *(V *)(sum + j) = s;
          }
          V s = *(V *)(sum + last);
          UNROLL
          for (int u = 0; u < 8; u++) s = FMA(x[u], MLOAD(b + u * brs + last, mask), s);
          *(V *)(sum + last) = s;
        }
      for (; p < end; p++)
        for (i64 r = 0; r < m; r++) {
          const T *b = (const T *)B + p * brs + j0;
          T *sum = sums + r * chunk;
          V x = NAME(splat)(((const T *)A)[r * ars + p * acs]);
          for (int j = 0; j < last; j += VL)
            *(V *)(sum + j) = FMA(x, *(const V *)(b + j), *(V *)(sum + j));
          *(V *)(sum + last) = FMA(x, MLOAD(b + last, mask), *(V *)(sum + last));
        }
      for (i64 r = 0; r < m; r++) {
        T *y = (T *)Y + r * yrs + j0;
        const T *sum = sums + r * chunk;
        for (int j = 0; j < last; j += VL) {
          V s = *(const V *)(sum + j);
          if (!first) s = *(V *)(y + j) + s;
          *(V *)(y + j) = s;
        }
        V s = *(const V *)(sum + last);
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

#if TRANSPOSE
/* The same as stream for a b that lies column by column: VL columns are read side by side, and
** transposed in registers. */
static ATTR void NAME(transposed)(i64 m, i64 n, i64 k, const void *A, i64 ars, i64 acs,
                                  const void *B, i64 bcs, void *Y, i64 yrs) {
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
#endif

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

#if APPLY
/* Rows put together from pieces, zero between them and up to `pad`. A vector of the row is the sum, by
** OR, of the pieces that reach into it, each loaded so that its elements meet their lanes. Of a step of
** 2 two vectors are loaded, and the even elements taken. No element beyond a piece's ends is read. What
** some vectors are made of is found out once for all rows, each of which is then written in one go. */
static ATTR void NAME(lay)(void *dst, i64 ds, const i64 *to, const void *src, const i64 *off,
                           i64 ni, const Piece *piece, i64 n, i64 step, i64 pad, void *scratch) {
  enum { GROUP = 16 }; /* vectors */
  typedef __typeof__(MASK(0)) Mask;
  typedef u64 Bits __attribute__((vector_size(VBYTES)));
#if TBYTES == 4
  typedef i32 Index __attribute__((vector_size(VBYTES)));
#else
  typedef i64 Index __attribute__((vector_size(VBYTES)));
#endif
#define EVEN(c, h) (2 * (c))
#define LANE_MASK(from, to) (MASK(TY_MAX(0, TY_MIN(VL, to))) ^ MASK(TY_MAX(0, TY_MIN(VL, from))))
#define LAID(u) \
  ((Bits)(step == 1 ? MLOAD(from[u] + at, low[u]) \
                    : __builtin_shuffle(MLOAD(from[u] + at, low[u]), \
                                        MLOAD(from[u] + at + VL, high[u]), even)))
  const Index even = {EACH(EVEN, 0)};
  const Piece *end = piece + n;
  Mask *low = scratch, *high = low + GROUP * VL; /* parts, at most so many */
  const T **from = (const T **)(high + GROUP * VL);
  _Static_assert(GROUP * VL * (2 * sizeof(Mask) + sizeof *from) <= LAY_BYTES, "scratch");
  for (i64 c0 = 0; c0 < pad; c0 += GROUP * VL) {
    const int vectors = (int)TY_MIN(GROUP, (pad - c0 + VL - 1) / VL);
    const Mask last = MASK((int)TY_MIN(VL, pad - c0 - (vectors - 1) * VL));
    int first[GROUP + 1], u = 0; /* parts of each vector */
    for (int v = 0; v < vectors; v++) {
      const i64 c = c0 + v * VL;
      first[v] = u;
      for (; piece < end && piece->at < c + VL; piece++) {
        const int a = (int)TY_MAX(piece->at - c, 0);
        const int z = (int)TY_MIN(piece->at + piece->n - c, VL);
        const T *x = (const T *)src + piece->off + step * (c - piece->at);
        if (u == first[v] || x != from[u - 1]) /* else one load does for both */
          from[u] = x, low[u] = high[u] = MASK(0), u++;
        low[u - 1] |= step == 1 ? MASK(z) ^ MASK(a) : LANE_MASK(2 * a, 2 * z - 1);
        if (step > 1) high[u - 1] |= LANE_MASK(2 * a - VL, 2 * z - 1 - VL);
        if (piece->at + piece->n > c + VL) break;
      }
      if (u == first[v]) from[u] = src, low[u] = high[u] = MASK(0), u++; /* zeros */
    }
    first[vectors] = u;
    for (int v = 0; v < vectors && vectors <= 2; v++) { /* a panel: of neighbours, in its columns */
      const int one = first[v], stop = first[v + 1];
      const Mask all = v + 1 < vectors ? MASK(VL) : last;
      for (i64 i = 0; i < ni; i++) {
        const i64 at = off[i];
        __builtin_prefetch(from[one] + at + 2 * VL * step);
        Bits x = LAID(one);
        for (int w = one + 1; w < stop; w++) x |= LAID(w);
        MSTORE((T *)dst + to[i] * ds + c0 + v * VL, all, x);
      }
    }
    for (i64 i = 0; vectors > 2 && i < ni; i++) { /* rows of images, each in one go */
      const i64 at = off[i], far = off[TY_MIN(i + 2, ni - 1)];
      T *y = (T *)dst + to[i] * ds + c0;
      if (step == 1 && u == vectors)
        for (int v = 0; v < vectors - 1; v++) {
          __builtin_prefetch(from[v] + far);
          *(V *)(y + v * VL) = (V)MLOAD(from[v] + at, low[v]);
        }
      else
        for (int v = 0; v < vectors - 1; v++) {
          Bits x = LAID(first[v]);
          for (int w = first[v] + 1; w < first[v + 1]; w++) x |= LAID(w);
          *(V *)(y + v * VL) = (V)x;
        }
      Bits x = LAID(first[vectors - 1]);
      for (int w = first[vectors - 1] + 1; w < u; w++) x |= LAID(w);
      MSTORE(y + (vectors - 1) * VL, last, x);
      __builtin_prefetch(from[u - 1] + at + VL * step);
    }
  }
#undef EVEN
#undef LANE_MASK
#undef LAID
}
#endif

#if APPLY && TBYTES == 4
/* mr rows by nv pieces of at most a vector, over one block of k: row p of b begins at off[p]. What lies
** `ahead` of it will be wanted next. */
INLINE void NAME(direct_rows)(const int mr, const int nv, i64 k, const T *a, i64 ars, i64 acs,
                              const T *b, const i64 *off, i64 ahead, i64 gap,
                              const __typeof__(MASK(0)) m0, const __typeof__(MASK(0)) m1, T *y,
                              i64 ygap, i64 yrs, bool first) {
  V s[ROWS][2];
  UNROLL
  for (int r = 0; r < mr; r++) s[r][0] = s[r][1] = (V){0};
  for (i64 p = 0; p < k; p++, a += acs) {
    const T *x = b + off[p];
    if (mr == ROWS && nv == 2) { /* lines are too far apart for the hardware to guess */
      __builtin_prefetch(x + ahead);
      __builtin_prefetch(x + ahead + gap);
    }
    const V b0 = MLOAD(x, m0), b1 = nv == 2 ? MLOAD(x + gap, m1) : b0;
    UNROLL
    for (int r = 0; r < mr; r++) {
      const V z = NAME(splat)(a[r * ars]);
      s[r][0] = FMA(z, b0, s[r][0]);
      if (nv == 2) s[r][1] = FMA(z, b1, s[r][1]);
    }
  }
  UNROLL
  for (int r = 0; r < mr; r++, y += yrs) {
    if (!first) s[r][0] = MLOAD(y, m0) + s[r][0];
    MSTORE(y, m0, s[r][0]);
    if (nv < 2) continue;
    if (!first) s[r][1] = MLOAD(y + ygap, m1) + s[r][1];
    MSTORE(y + ygap, m1, s[r][1]);
  }
}

static ATTR void NAME(direct)(i64 m, i64 k, const void *A, i64 ars, i64 acs, const void *B,
                              const i64 *off, const Piece *p, i64 n, i64 ahead, void *Y, i64 yrs,
                              bool first) {
  const T *a = A, *b = (const T *)B + p->off;
  T *y = (T *)Y + p->at;
  const i64 gap = n > 1 ? p[1].off - p->off : 0, ygap = n > 1 ? p[1].at - p->at : 0;
  const __typeof__(MASK(0)) m0 = MASK((int)p->n), m1 = MASK(n > 1 ? (int)p[1].n : 0);
#define DIRECT_ROWS(mr, nv) \
  for (; m >= mr; m -= mr, a += mr * ars, y += mr * yrs) \
    NAME(direct_rows)(mr, nv, k, a, ars, acs, b, off, ahead, gap, m0, m1, y, ygap, yrs, first);
  if (n > 1) {
    DIRECT_ROWS(ROWS, 2)
    DIRECT_ROWS(2, 2)
    DIRECT_ROWS(1, 2)
  }
  DIRECT_ROWS(ROWS, 1)
  DIRECT_ROWS(1, 1)
#undef DIRECT_ROWS
}
#endif

/* One block's lanes, or sums, join another's. */
static ATTR void NAME(add)(void *L, const void *R, i64 bytes) {
  T *l = L;
  const T *r = R;
  i64 v = 0, n = bytes / TBYTES;
  for (; v + VL <= n; v += VL) *(V *)(l + v) += *(const V *)(r + v);
  for (; v < n; v++) l[v] += r[v];
}

/* Lanes join: j += j + 32, j + 16 ... j + 1. In registers: what was just stored is slow to read in other pieces. */
#define TURN(c, h) (((c) + (h)) % VL)
#define JOIN_REGISTERS(h) \
  UNROLL \
  for (int i = 0; i < (h) && 2 * (h) <= LN / VL; i++) v[i] += v[i + (h)];
#define JOIN_LANES(h) \
  if ((h) < VL) v[0] += __builtin_shuffle(v[0], (Index){EACH(TURN, h)});
static ATTR void NAME(join)(void *L, void *y) {
#if TBYTES == 4
  typedef i32 Index __attribute__((vector_size(VBYTES)));
#else
  typedef i64 Index __attribute__((vector_size(VBYTES)));
#endif
  V v[LN / VL];
  UNROLL
  for (int i = 0; i < LN / VL; i++) v[i] = *(const V *)((const T *)L + i * VL);
  JOIN_REGISTERS(8)
  JOIN_REGISTERS(4)
  JOIN_REGISTERS(2)
  JOIN_REGISTERS(1)
  JOIN_LANES(8)
  JOIN_LANES(4)
  JOIN_LANES(2)
  JOIN_LANES(1)
  *(T *)y = v[0][0];
}
#undef TURN
#undef JOIN_REGISTERS
#undef JOIN_LANES
_Static_assert(LN / VL <= 16 && VL <= 16, "join: more steps");

#if FLOATING && VL == 8 && VBYTES == 64 /* four lanes do: products take the time */
static const AttendKern attend_f64_avx2;
#define ATTEND attend_f64_avx2
#elif FLOATING
#include "attend_micro.h"
#define ATTEND NAME(attend)
#endif

static const Kern NAME(kern) = {
    .rows = ROWS,
    .vl = VL,
    .size = TBYTES,
    .lists = APPLY,
    .speed = SPEED,
    .tile = {{HEIGHTS(1)}, {HEIGHTS(2)}},
    .stream = NAME(stream),
#if TRANSPOSE
    .transposed = NAME(transposed),
#endif
    .side = NAME(side),
    .dot = NAME(dot),
#if APPLY
    .lay = NAME(lay),
#endif
#if APPLY && TBYTES == 4
    .direct = NAME(direct),
#endif
    .add = NAME(add),
    .join = NAME(join),
#if FLOATING
    .attend = &ATTEND,
#endif
};

#undef TAG
#undef T
#undef TBYTES
#undef FMA
#undef FMA1
#undef MAX
#undef MIN
#undef ROWS
#undef APPLY
#undef FLOATING
#undef ATTEND
#undef TRANSPOSE
#undef SPEED
#undef HEIGHTS
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
