/*
** machine.h -- what a machine is: a struct of a few functions over loop programs; and the two
** things beside it that execute steps of a plan: matrix products and host routines.
*/
#ifndef TY_MACHINE_H
#define TY_MACHINE_H

#include "ir/program.h"

typedef struct Kernel Kernel;

typedef struct Machine {
  const char *name;
  /* A kernel for the program, which is copied. NULL: out of memory, or not a program for this
  ** machine. */
  Kernel *(*make)(const Program *p);
  /* Runs the whole domain, splitting it over the pool. False: out of memory, and nothing was
  ** written. Operands that are written may share memory with operands that are read only when
  ** both are accessed by the same strides and start and have the same element size (an element
  ** is read before it is written). */
  bool (*run)(const Kernel *k, const Run *r);
  /* Gets hold of the memory that a run of k with this launch will want from the calling thread,
  ** and keeps it: later runs then cannot fail. Reservations do not shrink: all steps of a plan
  ** are reserved before the first one overwrites a tensor in place. False: out of memory. NULL:
  ** no such promise is given, and plans write in place only where nothing that can fail follows. */
  bool (*reserve)(const Kernel *k, const Launch *l);
  void (*drop)(Kernel *k);
  size_t (*bytes)(const Kernel *k);
} Machine;

extern const Machine ty_machine_tile;
extern const Machine ty_machine_x64;         /* x86-64 with AVX2 or AVX-512 */
const char *ty_x64_refusal(void);            /* why this system has it not, or NULL */
bool ty_x64_guard(void);                     /* forks leave its code whole; false: no memory */
const char *ty_x64_listing(const Kernel *k); /* bytes and instructions; NULL without TYCHO_DUMP=a */

/*
** Products: y[b, m, n] = sum over k of a[b, m, k] * b[b, k, n] in the canonical order. Strides in
** elements.
** dtype is that of a, b and y: i32 i64 f16 bf16 f32 f64 (narrow integers: u8 i8 i16 too, wrapping).
** y is row-major and contiguous in its last two dims (row stride `n`). Recording strides may be 0.
**
** A tail is told of every tile of the product when its last sum is in, while it lies in a cache: it
** applies an epilogue. Panels are b in the layout that kernels read, packed ahead by
** ty_gemm_pack for a b that serves many products. Neither shows in the bits of the product.
*/
enum { PATH_DIMS = 5, BORDERS = 3 };
/* How an index of an operand moves: its dims, the last one fastest, each by a stride; and by how much
** each of them moves towards a border. */
typedef struct Path {
  i32 n;
  i64 dims[PATH_DIMS], strides[PATH_DIMS], steps[BORDERS][PATH_DIMS];
} Path;
/* Rows and columns of an operand that are no two strides: windows over an image are not. What lies
** beyond a border is zero, and is not read: an element is there where every border's index, which is
** start + what its row and its column step, is in [0, extent). */
typedef struct Places {
  Path row, col;
  i32 borders;
  i64 start[BORDERS], extent[BORDERS];
} Places;

typedef struct Gemm {
  i32 dtype;
  i64 m, n, k, batch; /* batch: product of the leading dims of y */
  i32 nlead;          /* leading dims: a and b step by strides, y is contiguous */
  i64 lead[MAX_RANK], abs[MAX_RANK], bbs[MAX_RANK];
  i64 ars, acs, brs, bcs; /* row and column strides of a and b, 0 where there are ... */
  const Places *ap, *bp;  /* places of a and of b; or NULL */
  i64 k0, kstep;          /* item i begins at this element of the places' k, plus i * kstep */
  bool amx;               /* bf16 on a unit of its own, in its own order (gemm_amx.c) */
} Gemm;
/* An operation on every sum: with one number, one of each row or column, or one of each element.
** Row i and column j of the product (rows counted through the batch) go with x[i * rs + j * cs]; cs
** is 0 or 1. Extremes are with one number that is no NaN: MAX not with +0, MIN not with -0. */
typedef enum { GEMM_ADD, GEMM_MUL, GEMM_MAX, GEMM_MIN, GEMM_RELU } GemmOpKind;
typedef struct GemmOp {
  i32 kind, cs;
  i64 rs;
  const void *x; /* of the product's dtype; RELU: a zero */
} GemmOp;

typedef struct GemmList {
  const GemmOp *op;
  int n;
  int store; /* T_F16, T_BF16: what comes of an f32 product is stored so; 0: as the product */
} GemmList;

typedef struct GemmTail GemmTail;
struct GemmTail {
  /* Rows [row, row + rows), counted through the whole batch, of columns [col, col + cols) lie at
  ** `tile`, rows `stride` elements apart, rounded to the product's dtype. Each element is given
  ** once, by any thread. False: out of memory. */
  bool (*tile)(const GemmTail *t, void *tile, i64 stride, i64 row, i64 rows, i64 col, i64 cols);
  bool aside; /* y cannot hold the product: tiles lie in scratch, and y is the tail's business */
  /* The same as a list, if it can be said so, else NULL: where sums are in registers it is applied
  ** to them, and no tile is shown. */
  const GemmList *list;
};

/* panels, tail: NULL when there are none; K = 0 has no tail. False: out of memory; y is then undefined. */
bool ty_gemm(const Gemm *d, const void *a, const void *b, const void *panels, void *y,
             const GemmTail *tail);
/* Bytes of b's panels; 0 where they would not be read, or not save a noticeable share. */
i64 ty_gemm_panels(const Gemm *d);
void ty_gemm_pack(const Gemm *d, const void *b, void *panels);
/* What bf16 products can run on under precision "fast", as gemm_amx.c says: "AMX", "AVX512-BF16"; NULL:
** nothing but what all others do. Asks the system once. */
const char *ty_bf16_unit(void);
const char *ty_amx_refusal(void); /* why it is not AMX, or NULL */
bool ty_bf16_emulated(void);      /* as TYCHO_AMX wants it */
/* The same by OpenBLAS (f32, f64); false with *err set when it cannot be had. */
bool ty_gemm_blas(const Gemm *d, const void *a, const void *b, void *y, const char **err);
bool ty_blas_load(const char **err);    /* dlopen, once */
void *ty_blas_symbol(const char *name); /* cblas_*, LAPACK's dgesv_ ...; NULL when absent */
/* Runs fn, which calls them, where the stack has room for what they have there: on the caller's or on a
** thread's of its own. False: there is none. */
bool ty_blas_call(void (*fn)(void *), void *arg);

/* Attention (attend.c). Operands by number, in the order of the rows ATTEND and ATTEND_GRAD; strides over
** the leading dims and the last two. */
enum { AT_Q, AT_K, AT_V, AT_MASK, AT_KEY, AT_R, AT_G, AT_OPERANDS };
typedef struct Attend {
  i32 dtype, nlead;
  bool grad, causal;
  bool mask, bits, key; /* there is a mask, it is of bools; weights are dropped */
  u32 drop;             /* by chance drop / 2^30 */
  i64 lead[MAX_RANK], batch, n, m, d, dv;
  i64 start[AT_OPERANDS], strides[AT_OPERANDS][MAX_RANK];
  double scale;
} Attend;
/* x: the operands' addresses, NULL for what there is not. False: out of memory, nothing is written. */
bool ty_attend(const Attend *d, const void *const *x, void *y);

/* Host routines on contiguous operands; rows = product of the dims before, inner = of those behind.
** Positions count from 0. Argsort is stable in both directions; NaNs count as the largest, so they
** come last ascending and first descending; it fails for want of scratch memory alone. */
bool ty_host_argsort(int dtype, const void *x, i64 *y, i64 outer, i64 n, i64 inner,
                     bool descending);
void ty_host_searchsorted(int dtype, const void *sorted, const void *v, i64 *y, i64 rows, i64 n,
                          i64 m, bool right);
/* y already holds a's contents. index, src: dims of src, contiguous; y: dims ydims, contiguous. */
void ty_host_scatter(int dtype, void *y, const Type *ydims, const i64 *index, const void *src,
                     const Type *sdims, int dim, bool add);

#endif
