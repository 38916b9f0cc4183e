/*
** ptx_stage.h -- pieces of matrices on their way to shared memory, and sums of products of them: what product kernels are made
** of. A block has STAGE_THREADS threads, a piece `depth` lines of STAGE_SIDE elements, in the compute type.
*/
#ifndef TY_PTX_STAGE_H
#define TY_PTX_STAGE_H

#include "device/cuda/ptx_address.h"

enum { STAGE_SIDE = 64, STAGE_THREADS = 256, STAGE_OWN = 4, STAGE_MOST = 8, STAGE_PAD = 16 };

typedef struct Stage {
  int dtype, ctype, depth;
  bool mma;   /* products of f32 on tensor cores: what is brought is rounded to TF32 */
  Reg thread; /* of the block, 64 bits */
  Reg memory; /* the address of shared memory */
} Stage;

/* From line to line, in bytes: lines are padded, so that neighbours down a column lie in different banks. */
static inline i64 ty_ptx_pitch(const Stage *S) {
  return STAGE_SIDE * (ty_ptx_wide(S->ctype) ? 8 : 4) + (S->mma ? 2 * STAGE_PAD : STAGE_PAD);
}

/* What is brought: element (k, i) lies at base + k along + i across; i below `left`. by, line: numbers that it is
** multiplied by on the way, one, or one for each i or k from an address on; 0: none. */
typedef struct Piece {
  Reg base, left, along, across;
  Reg by, line;
  bool line_along_k;
  bool along_k; /* neighbours in memory are neighbours along k */
  i64 to;       /* in shared memory */
} Piece;

/* What a thread brings of it at a time: n elements, which are so many lines or columns apart. */
typedef struct Bring {
  Reg at, to, depth; /* of the first one: its addresses, its place along k; */
  Reg inside;        /* how many rows or columns there are from its own on, 32 bits */
  Reg hop, step;     /* bytes to the next one, to the next lines */
  Reg by, line;      /* line: along k, the first of the lines at hand */
  Reg times[STAGE_MOST];
  int n;
  i64 lines, across,
      bytes; /* from one to the next: lines; rows or columns; bytes of shared memory */
} Bring;

void ty_ptx_bring_begin(Ptx *E, const Stage *S, const Piece *p, Bring *y);
/* The next `depth` of k; left: from there to its end. What is beyond an end becomes `beyond`. */
void ty_ptx_bring(Ptx *E, const Stage *S, Bring *b, Reg left, u64 beyond);

/* Four neighbours in shared memory. */
void ty_ptx_four(Ptx *E, int ctype, Reg at, i64 offset, Reg y[STAGE_OWN]);
void ty_ptx_put_four(Ptx *E, int ctype, Reg at, i64 offset, const Reg y[STAGE_OWN]);

typedef Reg Own[STAGE_OWN][STAGE_OWN];
void ty_ptx_own(Ptx *E, int ctype, u64 bits, Own y); /* new registers with that value */
/* acc[i][j] = fma(rows[i], columns[j], acc[i][j]) for `depth` lines, that begin so many bytes behind the addresses. */
void ty_ptx_outer(Ptx *E, const Stage *S, Reg rows, i64 row, Reg columns, i64 column, Own acc);

/* The same of `depth` lines by the tensor cores, with S->mma: a warp has 16 rows by 32 columns, a thread of them what the manual says
** of m16n8k8's fragments, acc[n] of columns 8 n and on. rows, columns: of the thread, see ty_ptx_fragments. */
typedef struct Fragments {
  Reg rows, columns, /* bytes from a piece's beginning to the thread's first element */
      sums, own;     /* from a square's: to its first sum by fragments, to its 4 x 4 */
} Fragments;
Fragments ty_ptx_fragments(Ptx *E, const Stage *S);
void ty_ptx_outer_mma(Ptx *E, const Stage *S, Reg rows, i64 row, Reg columns, i64 column, Own acc);
/* Sums by fragments become those of ty_ptx_outer: through 64 lines of shared memory from an address on, between two barriers. */
void ty_ptx_from_fragments(Ptx *E, const Stage *S, const Fragments *f, Reg square, Own acc);
Reg ty_ptx_tf32(Ptx *E, Reg v); /* rounded */

/* y = x mod n, *rest = x / n, n a power of two. */
Reg ty_ptx_cut(Ptx *E, Reg x, i64 n, Reg *rest);

#endif
