/*
** gemm_place.c -- rows and columns of a product's operand that lie at places, copied for kernels.
** In:  two walks, which rows and which columns.  Out: a dense block in the compute type, zero beyond
** the edge. Cannot fail.
**
** An element lies where its row and its column say together: src[row(i) + col(j)], and each of the
** two is a sum over a few dims. So windows over an image, which share most of their elements, are
** read where the image lies, a block of them at a time. Along the last dim of a walk the places go
** on evenly: a block falls into rectangles of rows and columns, each of which is an ordinary
** strided matrix. Where columns lie side by side, or one apart, the instruction set has a quicker
** way.
*/
#include "gemm.h"

enum { CHUNK = KC }; /* rows and columns that are looked at together */

/* The places of [begin, begin + n) as pieces: neighbours along the last dim. at: counted from begin. */
static i64 cut(const Path *w, i64 begin, i64 n, Piece *y) {
  i64 at[PATH_DIMS], rest = begin, off = 0, count = 0;
  const int last = w->n - 1;
  for (int d = last; d > 0; d--) {
    at[d] = rest % w->dims[d];
    rest /= w->dims[d];
    off += at[d] * w->strides[d];
  }
  at[0] = rest;
  off += rest * w->strides[0];
  for (i64 done = 0;;) {
    const i64 len = TY_MIN(w->dims[last] - at[last], n - done);
    y[count++] = (Piece){off, done, len};
    if ((done += len) == n) return count;
    off -= at[last] * w->strides[last];
    at[last] = 0;
    for (int d = last - 1; d >= 0; d--) {
      off += w->strides[d];
      if (++at[d] < w->dims[d] || !d) break;
      off -= at[d] * w->strides[d];
      at[d] = 0;
    }
  }
}

/* The places of rows [i0, i0 + ni), as pieces and one by one, unless they are there. */
static void look(const Path *row, i64 i0, i64 ni, Seen *y) {
  if (y->ni == ni && y->i0 == i0) return;
  y->i0 = i0, y->ni = ni;
  y->n = cut(row, i0, ni, y->piece);
  i64 *off = y->off, step = row->strides[row->n - 1];
  for (const Piece *p = y->piece; p < y->piece + y->n; p++)
    for (i64 i = 0; i < p->n; i++) *off++ = p->off + i * step;
}

void ty_gemm_place(int dtype, void *to, i64 ds, const void *from, const Path *row, i64 i0, i64 ni,
                   const Path *col, i64 j0, i64 nj, i64 pad, Seen *seen) {
  const Kern *K = ty_gemm_kern(dtype);
  PackFn *pack = ty_gemm_packer(dtype);
  const i64 es = ty_dtypes[dtype].bytes, cs = K->size;
  const i64 rs = row->strides[row->n - 1], st = col->strides[col->n - 1];
  Piece across[CHUNK];
  for (i64 j = 0; j < nj; j += CHUNK) {
    const i64 w = TY_MIN(CHUNK, nj - j), end = j + w < nj ? w : pad - j;
    const i64 n = cut(col, j0 + j, w, across);
    for (i64 i = 0; i < ni; i += CHUNK) {
      const i64 h = TY_MIN(CHUNK, ni - i);
      char *dst = (char *)to + (i * ds + j) * cs;
      look(row, i0 + i, h, seen);
      if ((st == 1 || st == 2) && K->lay && es == cs) {
        K->lay(dst, ds, from, seen->off, h, across, n, st, end);
        continue;
      }
      for (const Piece *d = seen->piece; d < seen->piece + seen->n; d++)
        for (const Piece *a = across; a < across + n; a++)
          pack(dst + (d->at * ds + a->at) * cs, ds, (const char *)from + (d->off + a->off) * es, rs,
               st, d->n, a->n, a + 1 < across + n ? a->n : end - a->at);
    }
  }
}

/* Pieces of at most `most` elements. */
static i64 shred(const Piece *p, i64 n, i64 most, Piece *y) {
  i64 count = 0;
  for (; n > 0; n--, p++)
    for (i64 i = 0; i < p->n; i += most)
      y[count++] = (Piece){p->off + i, p->at + i, TY_MIN(most, p->n - i)};
  return count;
}

void ty_gemm_near(const Gemm *d, const char *a, const char *b, i64 j0, i64 n, char *y, i64 yrs) {
  const Kern *K = ty_gemm_kern(d->dtype);
  Piece across[CHUNK], part[CHUNK];
  Seen seen;
  seen.ni = 0;
  for (i64 k0 = 0; k0 < d->k; k0 += KC) {
    const i64 kc = TY_MIN(KC, d->k - k0);
    look(&d->bp->row, k0, kc, &seen);
    for (i64 j = 0, w; j < n; j += w) {
      w = TY_MIN(CHUNK, n - j);
      const i64 count = shred(across, cut(&d->bp->col, j0 + j, w, across), K->vl, part);
      for (i64 i = 0; i < count; i += 2) /* two at a time keep the multiplier busy */
        K->near(d->m, kc, a + k0 * d->acs * K->size, d->ars, d->acs, b, seen.off, part + i,
                TY_MIN(2, count - i), i + 2 < count ? part[i + 2].off - part[i].off : 0,
                y + j * K->size, yrs, k0 == 0);
    }
  }
}
