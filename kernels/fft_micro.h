/*
** fft_micro.h -- the Fourier transform's arithmetic for one element type and instruction set.
** In:  T and I (the element, an integer as wide), VL, TAG, and what fft_isa.h says. Out: fft_<TAG>_<ISA>.
**
** Rules that a change must keep, for bits are those of every machine:
** 1. An element's value comes from one formula in additions, subtractions and products, each rounded; a vector does the
**    same for VL of them. Nothing is fused, no lane meets another, negatives are exact.
** 2. Every output of a pass but the last is multiplied by its w, by the 1 of p = 0 too.
** 3. Vectors at the end of an array go on into what follows: rows are done from their ends, so that what was
**    overwritten comes after; FFT_PAD elements behind the last one belong to nobody.
*/
typedef T NAME(Vec) __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));
typedef I NAME(Index) __attribute__((vector_size(VBYTES)));
#define V NAME(Vec)
#define AT(p) (*(V *)(p))
#define GET(p) (*(const V *)(p))
#define PICK3(what, lanes) what##lanes
#define PICK2(what, lanes) PICK3(what, lanes)
#define PICK(what, x, y) ((V)TAKE(x, y, PICK2(what, VL)))

/* ---- butterflies: the transform of re[k], im[k] for k below r, in place ------------------------ */

INLINE void NAME(two)(V *re, V *im, int a, int b) {
  const V r = re[a], i = im[a];
  re[a] = r + re[b], im[a] = i + im[b];
  re[b] = r - re[b], im[b] = i - im[b];
}

/* Of elements a, b, c, d, in this order. */
INLINE void NAME(four)(V *re, V *im, int a, int b, int c, int d) {
  NAME(two)(re, im, a, c);
  NAME(two)(re, im, b, d);
  const V r = re[b], i = im[b], r1 = re[c], i1 = im[c], r3 = re[d], i3 = im[d];
  re[b] = r1 + i3, im[b] = i1 - r3;
  re[d] = r1 - i3, im[d] = i1 + r3;
  const V r0 = re[a], i0 = im[a];
  re[a] = r0 + r, im[a] = i0 + i;
  re[c] = r0 - r, im[c] = i0 - i;
}

INLINE void NAME(eight)(V *re, V *im) {
  const T half = (T)0.70710678118654752440;
  NAME(four)(re, im, 0, 2, 4, 6);
  NAME(four)(re, im, 1, 3, 5, 7);
  const V r1 = re[3], i1 = im[3], r2 = re[5], i2 = im[5], r3 = re[7], i3 = im[7];
  re[3] = (r1 + i1) * half, im[3] = (i1 - r1) * half;
  re[5] = i2, im[5] = -r2;
  re[7] = (i3 - r3) * half, im[7] = -(r3 + i3) * half;
  V yr[8], yi[8];
  UNROLL
  for (int k = 0; k < 4; k++) {
    yr[k] = re[2 * k] + re[2 * k + 1], yi[k] = im[2 * k] + im[2 * k + 1];
    yr[k + 4] = re[2 * k] - re[2 * k + 1], yi[k + 4] = im[2 * k] - im[2 * k + 1];
  }
  UNROLL
  for (int k = 0; k < 8; k++) re[k] = yr[k], im[k] = yi[k];
}

/* ---- passes ------------------------------------------------------------------------------------ */

/* A pass, or a part of it: m butterflies of n vectors each. Input k at x + k xs, output k at y + k ys; the next butterfly's
** r inputs xo, its outputs yo, and its factors wo behind. Factors of k: real parts, then imaginary ones, each ws behind the
** other, NULL: none; wstep: how they go on from vector to vector. */
typedef struct NAME(Job) {
  const T *xr, *xi;
  T *yr, *yi;
  const T *w, *turn;
  i64 xs, ys, ws, xo, yo, wo, wstep, m, n;
  int r;
} NAME(Job);
typedef void NAME(BlockFn)(const NAME(Job) * j);

INLINE void NAME(put)(const NAME(Job) * j, const T *w, T *yr, T *yi, int k, V re, V im) {
  yr += k * j->ys, yi += k * j->ys;
  if (w) {
    const V wr = GET(w + (k - 1) * 2 * j->ws), wi = GET(w + (k - 1) * 2 * j->ws + j->ws);
    AT(yr) = re * wr - im * wi;
    AT(yi) = re * wi + im * wr;
  } else AT(yr) = re, AT(yi) = im;
}

/* An odd r: sums and differences of elements that lie opposite, then cosines and sines of them, ascending. re, im: sums
** below r / 2, differences above; ur, ui: outputs from the last on (rule 3). EACH: how loops are written out. */
#define ODD(name, EACH) \
  INLINE void NAME(name)(const NAME(Job) * j, const T *w, const T *xr, const T *xi, T *yr, T *yi, \
                         int r) { \
    const int h = r / 2; \
    const T *turn = j->turn; \
    V re[FFT_RADIX_MOST], im[FFT_RADIX_MOST]; \
    V ur[FFT_RADIX_MOST / 2], ui[FFT_RADIX_MOST / 2]; \
    V r0 = GET(xr), i0 = GET(xi); \
    re[0] = r0, im[0] = i0; \
    EACH for (int k = 1; k <= h; k++) { \
      const V ar = GET(xr + k * j->xs), ai = GET(xi + k * j->xs); \
      const V br = GET(xr + (r - k) * j->xs), bi = GET(xi + (r - k) * j->xs); \
      re[k] = ar + br, im[k] = ai + bi, re[r - k] = ar - br, im[r - k] = ai - bi; \
      r0 += re[k], i0 += im[k]; \
    } \
    AT(yr) = r0, AT(yi) = i0; \
    EACH for (int k = 1; k <= h; k++) { \
      V mr = re[0] + re[1] * turn[k], mi = im[0] + im[1] * turn[k]; \
      V nr = re[r - 1] * turn[r + k], ni = im[r - 1] * turn[r + k]; \
      EACH for (int i = 2, at = 2 * k; i <= h; i++, at += k) { \
        at = at >= r ? at - r : at; \
        mr += re[i] * turn[at], mi += im[i] * turn[at]; \
        nr += re[r - i] * turn[r + at], ni += im[r - i] * turn[r + at]; \
      } \
      NAME(put)(j, w, yr, yi, k, mr + ni, mi - nr); \
      ur[k - 1] = mr - ni, ui[k - 1] = mi + nr; \
    } \
    EACH for (int k = h; k > 0; k--) NAME(put)(j, w, yr, yi, r - k, ur[k - 1], ui[k - 1]); \
  }
ODD(odd, )
ODD(small, _Pragma("GCC unroll 2"))
#undef ODD

INLINE void NAME(even)(const NAME(Job) * j, const T *w, const T *xr, const T *xi, T *yr, T *yi,
                       int r) {
  V re[8], im[8];
  UNROLL
  for (int k = 0; k < r; k++) re[k] = GET(xr + k * j->xs), im[k] = GET(xi + k * j->xs);
  if (r == 2) NAME(two)(re, im, 0, 1);
  else if (r == 4) NAME(four)(re, im, 0, 1, 2, 3);
  else NAME(eight)(re, im);
  AT(yr) = re[0], AT(yi) = im[0];
  UNROLL
  for (int k = 1; k < r; k++) NAME(put)(j, w, yr, yi, k, re[k], im[k]);
}

#define RADIX(radix, what, given) \
  FAR void NAME(block##radix)(const NAME(Job) * j) { \
    for (i64 p = 0; p < j->m; p++) { \
      const T *w = j->w ? j->w + p * j->wo : NULL; \
      for (i64 q = j->n - 1; q >= 0; q--) { \
        const i64 x = p * j->xo + q * VL, y = p * j->yo + q * VL; \
        NAME(what) \
        (j, w ? w + q * j->wstep : w, j->xr + x, j->xi + x, j->yr + y, j->yi + y, given); \
      } \
    } \
  }
RADIX(2, even, 2)
RADIX(4, even, 4)
RADIX(8, even, 8)
RADIX(_odd, odd, j->r)
RADIX(3, small, 3)
RADIX(5, small, 5)
#undef RADIX

INLINE NAME(BlockFn) * NAME(block_of)(int r) {
  switch (r) {
  case 2: return NAME(block2);
  case 4: return NAME(block4);
  case 8: return NAME(block8);
  case 3: return NAME(block3);
  case 5: return NAME(block5);
  default: return NAME(block_odd);
  }
}

/* Vectors of r outputs for consecutive p, one element each, to vectors of r numbers for each p. */
INLINE void NAME(together)(V *v, int r) {
  V t[8];
  UNROLL
  for (int d = r; d > 1; d /= 2) {
    UNROLL
    for (int k = 0; k < r / 2; k++) {
      t[2 * k] = PICK(LOW, v[k], v[k + r / 2]);
      t[2 * k + 1] = PICK(HIGH, v[k], v[k + r / 2]);
    }
    UNROLL
    for (int k = 0; k < r; k++) v[k] = t[k];
  }
}

/* To their places. */
INLINE void NAME(interleave)(T *y, const T *from, int r) {
  V v[8];
  UNROLL
  for (int k = 0; k < r; k++) v[k] = GET(from + k * VL);
  NAME(together)(v, r);
  UNROLL
  for (int k = 0; k < r; k++) AT(y + k * VL) = v[k];
}

/* The same of groups of s elements, from position j on; so many of a vector count. */
INLINE void NAME(place)(T *y, const T *from, int r, i64 s, i64 j, i64 count) {
  i64 q = j % s, at = j / s * s * r;
  for (i64 l = 0; l < count; l++) {
    for (int k = 0; k < r; k++) y[at + q + k * s] = from[k * VL + l];
    if (++q == s) q = 0, at += s * r;
  }
}

FAR void NAME(spread)(T *y, const T *from, int r, i64 s, i64 j, i64 count) {
  if (s == 1 && r == 8) NAME(interleave)(y + j * 8, from, 8);
  else if (s == 1 && r == 4) NAME(interleave)(y + j * 4, from, 4);
  else if (s == 1 && r == 2) NAME(interleave)(y + j * 2, from, 2);
  else if (s == 8 && VL >= 8) {
    for (int h = 0; h < VL / 8; h++)
      for (int k = 0; k < r; k++)
        memcpy(y + (j + 8 * h) * r + 8 * k, from + k * VL + 8 * h, 8 * sizeof(T));
  } else NAME(place)(y, from, r, s, j, count);
}

/* Vectors go over p and q at once: outputs lie side by side, and are spread to their places. */
FAR void NAME(pass_flat)(const FftPass *p, NAME(Job) * j) {
  NAME(BlockFn) *block = NAME(block_of)(p->r);
  const i64 n = p->m * p->s;
  T *yr = j->yr, *yi = j->yi, tr[FFT_RADIX_FLAT * VL], ti[FFT_RADIX_FLAT * VL];
  j->yr = tr, j->yi = ti, j->xs = n, j->ys = VL, j->m = j->n = 1;
  j->w = p->wide, j->ws = p->span;
  for (i64 at = 0; at < n; at += VL) {
    const i64 count = TY_MIN(VL, n - at);
    block(j);
    NAME(spread)(yr, tr, p->r, p->s, at, count);
    NAME(spread)(yi, ti, p->r, p->s, at, count);
    j->xr += VL, j->xi += VL;
    if (j->w) j->w += VL;
  }
}

static ATTR void NAME(pass)(const FftPass *p, const void *xr, const void *xi, void *yr, void *yi,
                            i64 cols) {
  const i64 s = p->s * cols;
  const int parts = 2 * (p->r - 1);
  NAME(Job) j = {.xr = xr, .xi = xi, .yr = yr, .yi = yi, .turn = p->odd, .r = p->r};
  if (cols == 1 && s < VL && p->wide) {
    NAME(pass_flat)(p, &j);
    return;
  }
  j.xs = s * p->m, j.ys = s, j.xo = s, j.yo = s * p->r;
  j.m = p->m, j.n = (s + VL - 1) / VL;
  NAME(BlockFn) *block = NAME(block_of)(p->r);
  if (p->m == 1 || (p->wide && cols == 1)) {
    j.w = p->m == 1 ? NULL : p->wide, j.ws = p->span, j.wo = s, j.wstep = VL;
    block(&j);
    return;
  }
  T w[2 * (FFT_RADIX_MOST - 1) * VL];
  j.w = w, j.ws = VL, j.m = 1;
  for (i64 i = 0; i < p->m; i++) {
    const T *each = (const T *)p->each + i * parts;
    for (int k = 0; k < parts; k++) AT(w + k * VL) = (V){0} + each[k];
    block(&j);
    j.xr += j.xo, j.xi += j.xo, j.yr += j.yo, j.yi += j.yo;
  }
}

#if MOVES /* else those of another set */
/* ---- from elsewhere and back ------------------------------------------------------------------- */

#define LANE (16 / (int)sizeof(T)) /* elements that a shuffle moves among each other */

/* A square of VL rows to its columns: squares within lanes, then lanes. */
INLINE void NAME(transpose)(V *v) {
  V t[VL];
  UNROLL
  for (int g = 0; g < VL; g += LANE) {
    UNROLL
    for (int d = LANE; d > 1; d /= 2) {
      UNROLL
      for (int k = 0; k < LANE / 2; k++) {
        t[2 * k] = PICK(ZIP, v[g + k], v[g + k + LANE / 2]);
        t[2 * k + 1] = PICK(ZAP, v[g + k], v[g + k + LANE / 2]);
      }
      UNROLL
      for (int k = 0; k < LANE; k++) v[g + k] = t[k];
    }
  }
#if VBYTES == 32
  UNROLL
  for (int k = 0; k < LANE; k++) {
    const V low = PICK(FIRST, v[k], v[k + LANE]);
    v[k + LANE] = PICK(LAST, v[k], v[k + LANE]);
    v[k] = low;
  }
#endif
}

/* Lines that lie along memory, `col` apart, to rows of `cols` and back: rows by turns of one array and another, `step` to the
** next of the same. Such arrays are those of real and imaginary parts, or the odd and the even rows of one. */
typedef struct NAME(Rows) {
  T *a, *b;
  i64 step;
} NAME(Rows);

/* n numbers of each line, VL of VL lines at once; the last ones once more. Rule 3: the last columns come first, rows ascend. */
FAR void NAME(lines_in)(NAME(Rows) y, const T *x, i64 col, i64 n, i64 cols) {
  for (i64 c = (cols - 1) / VL * VL; c >= 0; c -= VL) {
    const i64 lines = TY_MIN(VL, cols - c);
    const T *from = x + c * col;
    T *a = y.a + c, *b = y.b + c;
    i64 i = 0;
    for (; i + VL <= n; i = i + VL < n && i + 2 * VL > n ? n - VL : i + VL) {
      V v[VL];
      UNROLL
      for (int k = 0; k < VL; k++) v[k] = GET(from + i + TY_MIN(k, lines - 1) * col);
      NAME(transpose)(v);
      UNROLL
      for (int k = 0; k < VL; k++) AT((k & 1 ? b : a) + i * y.step / 2 + k / 2 * y.step) = v[k];
    }
    for (; i < n; i++)
      for (i64 k = 0; k < lines; k++) (i & 1 ? b : a)[i / 2 * y.step + k] = from[i + k * col];
  }
}

FAR void NAME(lines_out)(T *y, i64 col, NAME(Rows) x, i64 n, i64 cols, T by) {
  for (i64 c = 0; c < cols; c += VL, y += VL * col) {
    const i64 lines = TY_MIN(VL, cols - c);
    const T *a = x.a + c, *b = x.b + c;
    i64 i = 0;
    for (; i + VL <= n; i = i + VL < n && i + 2 * VL > n ? n - VL : i + VL) {
      V v[VL];
      UNROLL
      for (int k = 0; k < VL; k++)
        v[k] = GET((k & 1 ? b : a) + i * x.step / 2 + k / 2 * x.step) * by;
      NAME(transpose)(v);
      UNROLL
      for (int k = 0; k < VL; k++)
        if (k < lines) AT(y + i + k * col) = v[k];
    }
    for (; i < n; i++)
      for (i64 k = 0; k < lines; k++) y[i + k * col] = (i & 1 ? b : a)[i / 2 * x.step + k] * by;
  }
}

/* Of one array. */
INLINE NAME(Rows) NAME(rows)(const T *x, i64 cols) {
  T *a = (T *)(uintptr_t)x;
  return (NAME(Rows)){a, a + cols, 2 * cols};
}

static ATTR void NAME(gather)(void *ar, void *ai, const FftLine *x, i64 col, i64 n, i64 cols) {
  const T *re = x->re, *im = x->im;
  i64 row = x->row;
  if (im && re == im + 1) { /* pairs the other way round */
    const T *t = re;
    void *a = ar;
    re = im, im = t;
    ar = ai, ai = a;
  }
  T *yr = ar, *yi = ai;
  const bool pairs = im == re + 1;
  if (cols > 1 && col > 2 && pairs && row == 2) {
    NAME(lines_in)((NAME(Rows)){yr, yi, cols}, re, col, 2 * n, cols);
    return;
  }
  if (!im && yi) memset(yi, 0, (size_t)(n * cols) * sizeof(T));
  if (cols > 1 && col > 2 && row == 1) {
    NAME(lines_in)(NAME(rows)(yr, cols), re, col, n, cols);
    if (im) NAME(lines_in)(NAME(rows)(yi, cols), im, col, n, cols);
    return;
  }
  if (cols == 1) cols = n, col = row, n = 1;
  for (i64 i = 0; i < n; i++, yr += cols, yi = yi ? yi + cols : yi) {
    const T *p = re + i * row, *q = im ? im + i * row : NULL;
    i64 c = 0;
    if (col == 2 && pairs) {
      for (; c + VL <= cols; c += VL) {
        const V a = GET(p + 2 * c), b = GET(p + 2 * c + VL);
        AT(yr + c) = PICK(EVEN, a, b);
        AT(yi + c) = PICK(ODD, a, b);
      }
    } else if (col == 1) {
      for (; c + VL <= cols; c += VL) {
        AT(yr + c) = GET(p + c);
        if (q) AT(yi + c) = GET(q + c);
      }
    }
    for (; c < cols; c++) {
      yr[c] = p[c * col];
      if (q) yi[c] = q[c * col];
    }
  }
}

static ATTR void NAME(scatter)(const FftLine *y, i64 col, const void *ar, const void *ai, i64 n,
                               i64 cols, double scale) {
  T *re = y->re, *im = y->im;
  i64 row = y->row;
  const T by = (T)scale;
  if (im && re == im + 1) {
    T *t = re;
    const void *a = ar;
    re = im, im = t;
    ar = ai, ai = a;
  }
  const T *xr = ar, *xi = ai;
  const bool pairs = im == re + 1;
  if (cols > 1 && col > 2 && pairs && row == 2) {
    NAME(lines_out)
    (re, col, (NAME(Rows)){(T *)(uintptr_t)xr, (T *)(uintptr_t)xi, cols}, 2 * n, cols, by);
    return;
  }
  if (cols > 1 && col > 2 && !im && row == 1) {
    NAME(lines_out)(re, col, NAME(rows)(xr, cols), n, cols, by);
    return;
  }
  if (cols == 1) cols = n, col = row, n = 1;
  for (i64 i = 0; i < n; i++, xr += cols, xi += cols) {
    T *p = re + i * row, *q = im ? im + i * row : NULL;
    i64 c = 0;
    if (col == 2 && pairs) {
      for (; c + VL <= cols; c += VL) {
        const V a = GET(xr + c) * by, b = GET(xi + c) * by;
        AT(p + 2 * c) = PICK(LOW, a, b);
        AT(p + 2 * c + VL) = PICK(HIGH, a, b);
      }
    } else if (col == 1) {
      for (; c + VL <= cols; c += VL) {
        AT(p + c) = GET(xr + c) * by;
        if (q) AT(q + c) = GET(xi + c) * by;
      }
    }
    for (; c < cols; c++) {
      p[c * col] = xr[c] * by;
      if (q) q[c * col] = xi[c] * by;
    }
  }
}

/* ---- factors ----------------------------------------------------------------------------------- */

static ATTR void NAME(turn)(void *ar, void *ai, const void *w, i64 n, i64 cols) {
  T *re = ar, *im = ai;
  const T *by = w;
  if (cols == 1) {
    i64 i = 0;
    for (; i + VL <= n; i += VL) {
      const V a = GET(by + 2 * i), b = GET(by + 2 * i + VL);
      const V wr = PICK(EVEN, a, b), wi = PICK(ODD, a, b), r = AT(re + i), m = AT(im + i);
      AT(re + i) = r * wr - m * wi;
      AT(im + i) = r * wi + m * wr;
    }
    for (; i < n; i++) {
      const T r = re[i], m = im[i];
      re[i] = r * by[2 * i] - m * by[2 * i + 1];
      im[i] = r * by[2 * i + 1] + m * by[2 * i];
    }
    return;
  }
  for (i64 i = n - 1; i >= 0; i--) { /* in place: what is beyond a row is kept */
    T *p = re + i * cols, *q = im + i * cols;
    const T wr = by[2 * i], wi = by[2 * i + 1];
    i64 c = 0;
    for (; c + VL <= cols; c += VL) {
      const V r = AT(p + c), m = AT(q + c);
      AT(p + c) = r * wr - m * wi;
      AT(q + c) = r * wi + m * wr;
    }
    for (; c < cols; c++) {
      const T r = p[c], m = q[c];
      p[c] = r * wr - m * wi;
      q[c] = r * wi + m * wr;
    }
  }
}

static ATTR void NAME(twist)(void *ar, void *ai, const void *u, i64 ustep, const void *v, i64 n,
                             i64 cols) {
  T *re = ar, *im = ai;
  for (i64 i = 0; i < n; i++) {
    const T ur = ((const T *)u)[2 * i * ustep], ui = ((const T *)u)[2 * i * ustep + 1];
    const T *by = (const T *)v + 2 * FFT_COLUMNS * i;
    for (i64 c = 0; c < cols; c += VL) {
      const V vr = GET(by + c), vi = GET(by + FFT_COLUMNS + c);
      const V wr = ur * vr - ui * vi, wi = ur * vi + ui * vr;
      const V r = AT(re + i * cols + c), m = AT(im + i * cols + c);
      V yr = r * wr - m * wi, yi = r * wi + m * wr;
      if (c + VL > cols) { /* the next row is not to change */
        for (i64 l = 0; l < cols - c; l++)
          re[i * cols + c + l] = yr[l], im[i * cols + c + l] = yi[l];
        break;
      }
      AT(re + i * cols + c) = yr, AT(im + i * cols + c) = yi;
    }
  }
}

/* ---- real numbers, as pairs ---------------------------------------------------------------------- */

/* Numbers k and j = h - k of a transform and w^k give number k of the transform of pairs; and back. */
#define SPLIT(W) \
  INLINE void NAME(split_##W)(W * yr, W * yi, W xr, W xi, W zr, W zi, W wr, W wi) { \
    const W er = (xr + zr) * (T)0.5, ei = (xi - zi) * (T)0.5; \
    const W or = (xi + zi) * (T)0.5, oi = (zr - xr) * (T)0.5; \
    *yr = er + (or *wr - oi * wi); \
    *yi = ei + (or *wi + oi * wr); \
  } \
  INLINE void NAME(merge_##W)(W * yr, W * yi, W xr, W xi, W zr, W zi, W wr, W wi) { \
    const W sr = xr + zr, si = xi - zi, dr = xr - zr, di = xi + zi; \
    const W tr = dr * wr + di * wi, ti = di * wr - dr * wi; \
    *yr = sr - ti; \
    *yi = si + tr; \
  }
SPLIT(T)
SPLIT(V)
#undef SPLIT

/* The vector that ends at p, from its end on. */
INLINE V NAME(back)(const T *p) {
  const V v = GET(p - VL + 1);
  return PICK(BACK, v, v);
}

static ATTR void NAME(split)(void *y0, void *y1, const void *a0, const void *a1, const void *w,
                             i64 h, i64 cols) {
  T *yr = y0, *yi = y1;
  const T *ar = a0, *ai = a1, *by = w;
  for (i64 i = 0; i <= h; i++) {
    const i64 k = (i == h ? 0 : i) * cols, j = (i == 0 ? 0 : h - i) * cols;
    if (cols == 1 && i && i + VL <= h) {
      const V a = GET(by + 2 * i), b = GET(by + 2 * i + VL);
      V r, m;
      NAME(split_V)
      (&r, &m, GET(ar + k), GET(ai + k), NAME(back)(ar + j), NAME(back)(ai + j), PICK(EVEN, a, b),
       PICK(ODD, a, b));
      AT(yr + i) = r, AT(yi + i) = m;
      i += VL - 1;
    } else if (cols == 1) {
      NAME(split_T)(yr + i, yi + i, ar[k], ai[k], ar[j], ai[j], by[2 * i], by[2 * i + 1]);
    } else {
      const V wr = (V){0} + by[2 * i], wi = (V){0} + by[2 * i + 1];
      for (i64 c = 0; c < cols; c += VL) {
        V r, m;
        NAME(split_V)
        (&r, &m, GET(ar + k + c), GET(ai + k + c), GET(ar + j + c), GET(ai + j + c), wr, wi);
        AT(yr + i * cols + c) = r, AT(yi + i * cols + c) = m;
      }
    }
  }
}

static ATTR void NAME(merge)(void *y0, void *y1, const void *x0, const void *x1, const void *w,
                             i64 h, i64 cols, double weight) {
  T *yr = y0, *yi = y1;
  const T *xr = x0, *xi = x1, *by = w;
  for (i64 i = 0; i < h; i++) {
    const i64 k = i * cols, j = (h - i) * cols;
    const T one = i ? (T)weight : 1; /* what is imaginary in 0 and h is not looked at */
    if (cols == 1 && i && i + VL <= h) {
      const V a = GET(by + 2 * i), b = GET(by + 2 * i + VL);
      V r, m;
      NAME(merge_V)
      (&r, &m, GET(xr + k) * one, GET(xi + k) * one, NAME(back)(xr + j) * one,
       NAME(back)(xi + j) * one, PICK(EVEN, a, b), PICK(ODD, a, b));
      AT(yr + i) = r, AT(yi + i) = m;
      i += VL - 1;
    } else if (cols == 1) {
      const T p = i ? xi[k] * one : 0, q = i ? xi[j] * one : 0;
      NAME(merge_T)(yr + i, yi + i, xr[k] * one, p, xr[j] * one, q, by[2 * i], by[2 * i + 1]);
    } else {
      const V wr = (V){0} + by[2 * i], wi = (V){0} + by[2 * i + 1];
      for (i64 c = 0; c < cols; c += VL) {
        V r, m, p = {0}, q = {0};
        if (i) p = GET(xi + k + c) * one, q = GET(xi + j + c) * one;
        NAME(merge_V)(&r, &m, GET(xr + k + c) * one, p, GET(xr + j + c) * one, q, wr, wi);
        AT(yr + i * cols + c) = r, AT(yi + i * cols + c) = m;
      }
    }
  }
}

static ATTR void NAME(mirror)(void *ar, void *ai, i64 n, i64 cols, double weight) {
  T *re = ar, *im = ai;
  const T by = (T)weight;
  for (i64 c = 0; c < cols; c++) im[c] = 0;
  for (i64 k = 1; k <= n / 2; k++)
    for (i64 c = 0; c < cols; c++) {
      const i64 at = k * cols + c, to = (n - k) * cols + c;
      re[at] = re[to] = re[at] * by;
      im[at] = im[at] * by;
      im[to] = -im[at];
    }
}

/* ---- real numbers, odd ---------------------------------------------------------------------------- */

/* Places that vectors go over: along one line, or across columns. w: factors of k = 1, real parts, then imaginary ones, `span`
** behind, and so on; NULL: none. far: from input to input; step: from output to output. */
typedef struct NAME(Side) {
  const T *turn, *w;
  i64 span, far, step;
  T weight;
  int r;
} NAME(Side);

INLINE void NAME(halve_at)(const NAME(Side) * j, const T *x, T *v, T *ur, T *ui, i64 count, int r) {
  V sum[FFT_ODD_MOST / 2 + 1], less[FFT_ODD_MOST / 2 + 1], all = GET(x);
  const T *turn = j->turn, *w = j->w;
  const int h = r / 2;
  (void)count;
  sum[0] = all;
  for (int k = 1; k <= h; k++) {
    const V a = GET(x + k * j->far), b = GET(x + (r - k) * j->far);
    sum[k] = a + b, less[k] = a - b;
    all += sum[k];
  }
  AT(v) = all;
  for (int k = 1; k <= h; k++, ur += j->step, ui += j->step) {
    V re = sum[0] + sum[1] * turn[k], im = less[1] * turn[r + k];
    for (int i = 2, at = 2 * k; i <= h; i++, at += k) {
      at = at >= r ? at - r : at;
      re += sum[i] * turn[at], im += less[i] * turn[r + at];
    }
    im = -im;
    if (w) {
      const V wr = GET(w), wi = GET(w + j->span);
      AT(ur) = re * wr - im * wi;
      AT(ui) = re * wi + im * wr;
      w += 2 * j->span;
    } else AT(ur) = re, AT(ui) = im;
  }
}

FAR void NAME(keep_some)(T *y, const T *v, i64 count) {
  for (i64 l = 0; l < count; l++) y[l] = v[l];
}
INLINE void NAME(keep)(T *y, V v, i64 count) {
  if (TY_LIKELY(count >= VL)) AT(y) = v;
  else NAME(keep_some)(y, (const T *)&v, count);
}

INLINE void NAME(unite_at)(const NAME(Side) * j, T *y, T *v, T *ur, T *ui, i64 count, int r) {
  V re[FFT_ODD_MOST / 2 + 1], im[FFT_ODD_MOST / 2 + 1], all = GET(v);
  const T *turn = j->turn, *w = j->w;
  const int h = r / 2;
  re[0] = all;
  for (int k = 1; k <= h; k++, ur += j->step, ui += j->step) {
    const V a = GET(ur) * j->weight, b = GET(ui) * j->weight;
    re[k] = a, im[k] = b;
    if (w) {
      const V wr = GET(w), wi = GET(w + j->span);
      re[k] = a * wr + b * wi, im[k] = b * wr - a * wi;
      w += 2 * j->span;
    }
    all += re[k];
  }
  NAME(keep)(y, all, count);
  for (int k = 1; k <= h; k++) {
    V a = re[0] + re[1] * turn[k], b = im[1] * turn[r + k];
    for (int i = 2, at = 2 * k; i <= h; i++, at += k) {
      at = at >= r ? at - r : at;
      a += re[i] * turn[at], b += im[i] * turn[r + at];
    }
    NAME(keep)(y + k * j->far, a - b, count);
    NAME(keep)(y + (r - k) * j->far, a + b, count);
  }
}

/* x: of n numbers, v: of m of them, u: of r / 2 times m. */
#define OVER(name, what, X) \
  FAR void NAME(name)(const FftPass *p, NAME(Side) * j, X * x, T * v, T * ur, T * ui, i64 cols) { \
    const i64 rows = cols == 1 ? 1 : p->m, n = cols == 1 ? p->m : cols; \
    T own[(FFT_ODD_MOST - 1) * VL]; \
    const T *w = p->wide; \
    j->turn = p->odd, j->far = p->m * cols, j->r = p->r; \
    j->w = w && cols > 1 ? own : w, j->span = cols > 1 ? VL : p->span; \
    for (i64 i = 0; i < rows; i++) { \
      for (int k = 0; w && cols > 1 && k < p->r - 1; k++) \
        AT(own + k * VL) = (V){0} + w[k * p->span + i]; \
      for (i64 q = 0; q < n; q += VL, x += VL, v += VL, ur += VL, ui += VL) { \
        if (p->r == 3) NAME(what)(j, x, v, ur, ui, n - q, 3); \
        else if (p->r == 5) NAME(what)(j, x, v, ur, ui, n - q, 5); \
        else NAME(what)(j, x, v, ur, ui, n - q, j->r); \
        if (w && cols == 1) j->w += VL; \
      } \
      const i64 beyond = (n + VL - 1) / VL * VL - n; \
      x -= beyond, v -= beyond, ur -= beyond, ui -= beyond; \
    } \
  }
OVER(halve_all, halve_at, const T)
OVER(unite_all, unite_at, T)
#undef OVER

static ATTR void NAME(halve)(const FftPass *p, const void *x, void *v, void *ur, void *ui, i64 step,
                             i64 cols) {
  NAME(Side) j = {.step = step};
  NAME(halve_all)(p, &j, x, v, ur, ui, cols);
}

static ATTR void NAME(unite)(const FftPass *p, const void *v, const void *ur, const void *ui,
                             i64 step, void *y, i64 cols, double weight) {
  NAME(Side) j = {.step = step, .weight = (T)weight};
  /* Those but y are read. */
  NAME(unite_all)
  (p, &j, y, (T *)(uintptr_t)v, (T *)(uintptr_t)ur, (T *)(uintptr_t)ui, cols);
}

static ATTR void NAME(conjugate)(const FftLine *y, const FftLine *x, i64 n, i64 cols) {
  for (i64 i = 0; i < n; i++) {
    const T *xr = (const T *)x->re + i * x->row, *xi = (const T *)x->im + i * x->row;
    T *yr = (T *)y->re + i * y->row, *yi = (T *)y->im + i * y->row;
    i64 c = 0;
    for (; c + VL <= cols; c += VL) AT(yr + c) = GET(xr + c), AT(yi + c) = -GET(xi + c);
    for (; c < cols; c++) yr[c] = xr[c], yi[c] = -xi[c];
  }
}

#endif

static const FftKern NAME(fft) = {.size = sizeof(T),
                                  .pass = NAME(pass),
                                  .gather = MOVED(gather),
                                  .scatter = MOVED(scatter),
                                  .turn = MOVED(turn),
                                  .twist = MOVED(twist),
                                  .split = MOVED(split),
                                  .merge = MOVED(merge),
                                  .mirror = MOVED(mirror),
                                  .halve = MOVED(halve),
                                  .unite = MOVED(unite),
                                  .conjugate = MOVED(conjugate)};

#undef V
#undef AT
#undef GET
#undef PICK
#undef PICK2
#undef PICK3
#undef TAG
#undef T
#undef I
#undef VL
#undef LANE
