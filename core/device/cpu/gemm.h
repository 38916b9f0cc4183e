/*
** gemm.h -- what the files of matrix products share; private to them.
*/
#ifndef TY_GEMM_H
#define TY_GEMM_H

#include "device/cpu/cpu.h"

#include <stdatomic.h>

typedef struct Slot { /* scratch of one thread at work */
  _Atomic int busy;
  char *mem;
} Slot;

/* There are more slots than threads that can be here at once, so one is free. */
static inline Slot *ty_slot_take(Slot *slot, int n) {
  for (;;)
    for (int i = 0; i < n; i++)
      if (!atomic_exchange_explicit(&slot[i].busy, 1, memory_order_acquire)) return &slot[i];
}

static inline void ty_slot_leave(Slot *s) {
  atomic_store_explicit(&s->busy, 0, memory_order_release);
}

/* Leading dims whose rows of a simply go on, with one b, become rows of one larger product. */
static inline void ty_gemm_merge(Gemm *d) {
  while (d->nlead > 0) {
    const int i = d->nlead - 1;
    if (d->lead[i] != 1) {
      if (d->a_im2col) break;
      if (d->bbs[i] != 0 || (d->m != 1 && d->abs[i] != d->m * d->ars)) break;
      if (d->m == 1) d->ars = d->abs[i];
      d->m *= d->lead[i];
      d->batch /= d->lead[i];
    }
    d->nlead--;
  }
}

enum {
  KC = 256,         /* the canonical block of k */
  STREAM_ROWS = 4,  /* most rows of a stream */
  SIDE_BYTES = 512, /* of a column of a that a column product reads at a time */
  LAY_BYTES = 9216, /* of what laying rows out of pieces works in */
};

/* A tile for a kernel: rows by one or two vectors of y, over one block of k. Strides are in
** elements. */
typedef struct GemmTile {
  i64 k;
  const char *a, *b, *sums; /* sums: of the blocks before, if there are */
  char *y, *keep; /* keep: takes b's rows, one behind the other, as they are read; or NULL */
  i64 ars, acs, brs, srs, yrs;
  int rows, last;   /* last: elements of the last vector */
  bool first;       /* the first block of k: sums are not read */
  int nops;         /* behind the last block: what is done with the sums */
  const GemmOp *op; /* for which the tile begins at ... */
  i64 row, col;
  int store, ybytes; /* as in GemmList, where y is no more of the compute type; an element of y */
} GemmTile;

/* n elements from src + off to dst + at. */
typedef struct Piece {
  i64 off, at, n;
} Piece;

typedef void GemmTileFn(const GemmTile *t);

/* What attention does between its products (kernels/attend_micro.h). Scores are rows of `width` queries,
** whole vectors of them, a row for each key. */
typedef struct AttendKern {
  /* Maxima go up to those of the scores, or stay: before. from: the same, 0 for -inf. */
  void (*max)(i64 keys, i64 width, const void *scores, void *max, void *from, void *before);
  /* Scores become exp(score - from). sum: becomes sum * shrink + theirs; or NULL. */
  void (*exp)(i64 keys, i64 width, void *scores, const void *from, void *sum, const void *shrink);
  void (*grad)(i64 keys, i64 width, void *dp, const void *p, const void *mean); /* p (dp - mean) */
  /* Sums of products down n rows. */
  void (*dot)(i64 n, i64 width, const void *a, const void *b, void *y);
  void (*mask)(void *scores, const u32 *seen, i64 n); /* -inf where not seen; n: whole vectors */
  /* Rows of y are those of x times by[r * bs]. */
  void (*scale)(void *y, i64 yrs, const void *x, i64 xrs, i64 rows, i64 cols, const void *by,
                i64 bs);
} AttendKern;

/* What an instruction set offers for one compute type. Strides are in elements. */
typedef struct Kern {
  int rows, vl, size; /* most rows of a tile; elements of a vector; bytes of an element */
  bool lists;         /* tiles know how to apply a GemmList */
  int speed;          /* multiply-adds in a microsecond, roughly: what stays on the caller */
  /* [vectors - 1][(rows - 1) / 2]: a kernel has an even number of rows, of which the last may be
  ** missing. */
  GemmTileFn *tile[2][4];
  void (*stream)(i64 m, i64 n, i64 k, const void *a, i64 ars, i64 acs, const void *b, i64 brs,
                 void *y, i64 yrs);
  void (*transposed)(i64 m, i64 n, i64 k, const void *a, i64 ars, i64 acs, const void *b, i64 bcs,
                     void *y, i64 yrs); /* the same for columns of b without gaps; of floats */
  void (*dot)(i64 nr, i64 n, const void *a, i64 ars, const void *b, void *lanes, i64 lrs);
  void (*side)(i64 nr, i64 n, const void *a, i64 acs, const void *b, void *lanes);
  /* For im2col operands, of floats; NULL: not for this type. Row to[i] of dst is put together from
  ** pieces at src[off[i]] whose elements are `step` apart, 1 or 2; zero between them and up to
  ** `pad`. scratch: LAY_BYTES, at a multiple of 64. */
  void (*lay)(void *dst, i64 ds, const i64 *to, const void *src, const i64 *off, i64 ni,
              const Piece *piece, i64 n, i64 step, i64 pad, void *scratch);
  /* n pieces, 1 or 2, of at most a vector, from each row of a product over one block of k, where row p
  ** of b lies at off[p]; of f32. */
  void (*direct)(i64 m, i64 k, const void *a, i64 ars, i64 acs, const void *b, const i64 *off,
                 const Piece *p, i64 n, i64 ahead, void *y, i64 yrs, bool first);
  void (*add)(void *lanes, const void *right, i64 bytes);
  void (*join)(void *lanes, void *y);
  const AttendKern *attend; /* floats only */
} Kern;

/* dst[i * ds + j] = src[i * ss + j * st] in the compute type for i < ni, j < nj; zero for nj <= j <
** pad. */
typedef void PackFn(void *dst, i64 ds, const void *src, i64 ss, i64 st, i64 ni, i64 nj, i64 pad);

/* gemm_kern.c: for products of a dtype, on this machine. */
const Kern *ty_gemm_kern(int dtype);
PackFn *ty_gemm_packer(int dtype);
/* Sums to a y whose elements are narrower, where kernels have not stored them so. */
void ty_gemm_narrow(int dtype, void *y, i64 yrs, const void *sum, i64 srs, i64 m, i64 n);

/* gemm_im2col.c: as PackFn, for rows [i0, i0 + ni) and columns [j0, j0 + nj) of an im2col operand. The
** offsets of the rows are left in `seen` for the next call; it begins with ni = 0. All that is looked up
** lies in a Finder, which a thread has in its scratch: too large for small stacks. */
typedef struct Index { /* a part of the index of each border */
  i64 at[BORDERS];
} Index;
typedef struct Seen {
  i64 i0, ni, n;       /* n kinds of rows, which meet the borders alike */
  i64 first[KC + 1];   /* of each kind, among ... */
  i64 off[KC], to[KC]; /* the offsets, and the number of the row counted from i0 */
  Index index[KC];     /* of each kind */
} Seen;
typedef struct Finder {
  _Alignas(64) char lay[LAY_BYTES]; /* of Kern.lay */
  Seen a, b;                        /* for who calls */
  Piece across[KC], part[KC], down[KC];
  Index index[KC], row[KC];
  i64 off[KC], kind[KC];
} Finder;
void ty_gemm_im2col(int dtype, void *dst, i64 ds, const void *src, const Im2col *p, i64 i0, i64 ni,
                    i64 j0, i64 nj, i64 pad, Seen *seen, Finder *F);

/* A product with an im2col b that is read directly, without panels. Columns are `runs` of `steps` of `line`
** elements; a unit of work takes `chunk` of the steps. */
typedef struct Direct {
  i64 runs, steps, line, chunk;
  bool laid;        /* what a unit reads is laid out first: */
  Im2col p;         /* rows without dims that slide along the columns, which are longer */
  i64 longer, wide; /* by so many steps; elements of a step then */
  i64 group, inner; /* of so many rows of b come so many laid out */
  i64 depth, rows;  /* rows of b that are laid out together: all, or KC; as rows laid out */
  i64 items;        /* of a batch that are laid out together, each its own b */
  i64 pitch, bytes; /* between rows laid out; of an item's, all together */
  Path row, col;    /* where the product finds its rows, and a unit's columns, in them */
} Direct;
/* Whether that is the better way, for `threads` threads. */
bool ty_gemm_direct_plan(const Gemm *d, int threads, Direct *y);
i64 ty_gemm_direct_units(const Direct *w);
/* The columns of a unit; and the unit. */
i64 ty_gemm_direct_columns(const Direct *w, i64 unit, i64 *n);
/* Lays out the first `n` items from b on, n <= w->items, where that is more than 1. */
void ty_gemm_direct_lay(const Gemm *d, const Direct *w, const char *b, i64 n, char *scratch,
                        Finder *F);
/* laid: what was laid out for this item; or NULL: the unit is laid out in scratch, if it must be. */
void ty_gemm_direct(const Gemm *d, const Direct *w, const char *a, const char *b, const char *laid,
                    i64 unit, char *y, i64 yrs, char *scratch, Finder *F);

/* gemm_amx.c: as ty_gemm, ty_gemm_panels and ty_gemm_pack, for d->amx. K > 0, y has elements. */
bool ty_amx_gemm(const Gemm *d, const void *a, const void *b, const void *panels, void *y,
                 const GemmEpilogue *epilogue);
i64 ty_amx_panels(const Gemm *d);
void ty_amx_pack(const Gemm *d, const void *b, void *panels);

#endif
