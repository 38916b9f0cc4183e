/*
** gemm_place.c -- rows and columns of a product's operand that lie at places, copied for kernels.
** In:  two walks, which rows and which columns.  Out: a dense block in the compute type, zero beyond
** the edge. Cannot fail.
**
** An element lies where its row and its column say together: src[row(i) + col(j)], and each of the
** two is a sum over a few dims. So windows over an image, which share most of their elements, are
** read where the image lies, a block of them at a time. Along the last dim of a walk the places go
** on evenly: a block falls into rectangles of rows and columns, each of which is an ordinary
** strided matrix. Where columns lie side by side the instruction set has a quicker way.
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

/* Up to CHUNK rows and columns. */
static void place(int dtype, char *dst, i64 ds, const char *src, const Path *row, i64 i0, i64 ni,
                  const Path *col, i64 j0, i64 nj, i64 pad) {
  const Kern *K = ty_gemm_kern(dtype);
  const i64 es = ty_dtypes[dtype].bytes, cs = K->size;
  const i64 rs = row->strides[row->n - 1], st = col->strides[col->n - 1];
  Piece down[CHUNK], across[CHUNK];
  const i64 nd = cut(row, i0, ni, down), na = cut(col, j0, nj, across);
  if (st == 1 && K->lay && es == cs) {
    i64 off[CHUNK];
    for (i64 u = 0; u < nd; u++)
      for (i64 i = 0; i < down[u].n; i++) off[down[u].at + i] = down[u].off + i * rs;
    K->lay(dst, ds, src, off, ni, across, na);
    for (i64 i = 0; i < ni && pad > nj; i++)
      memset(dst + (i * ds + nj) * cs, 0, (size_t)((pad - nj) * cs));
    return;
  }
  PackFn *pack = ty_gemm_packer(dtype);
  for (i64 u = 0; u < nd; u++)
    for (i64 v = 0; v < na; v++) {
      const Piece *d = &down[u], *a = &across[v];
      pack(dst + (d->at * ds + a->at) * cs, ds, src + (d->off + a->off) * es, rs, st, d->n, a->n,
           v + 1 < na ? a->n : pad - a->at);
    }
}

void ty_gemm_place(int dtype, void *dst, i64 ds, const void *src, const Path *row, i64 i0, i64 ni,
                   const Path *col, i64 j0, i64 nj, i64 pad) {
  const i64 cs = ty_gemm_kern(dtype)->size;
  for (i64 i = 0; i < ni; i += CHUNK)
    for (i64 j = 0; j < nj; j += CHUNK) {
      const bool last = j + CHUNK >= nj;
      place(dtype, (char *)dst + (i * ds + j) * cs, ds, src, row, i0 + i, TY_MIN(CHUNK, ni - i),
            col, j0 + j, TY_MIN(CHUNK, nj - j), last ? pad - j : CHUNK);
    }
}
