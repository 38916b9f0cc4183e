/*
** job.h -- jobs: what steps of a plan do that are no loop programs. Products, attention, sorts, searches, scatters
** and copies as data: a device is given the addresses of a job's operands and carries it out (device/device.h).
*/
#ifndef TY_JOB_H
#define TY_JOB_H

#include "ir/graph.h"
#include "ir/product.h"
#include "ir/program.h"

typedef enum {
  JOB_PRODUCT,   /* a b y, then the operands of the epilogue's kernel, y among them */
  JOB_ATTEND,    /* those of ATTEND or ATTEND_GRAD, then y */
  JOB_SORT,      /* a y */
  JOB_FFT,       /* a y */
  JOB_SEARCH,    /* sorted values y */
  JOB_SCATTER,   /* index src y, which holds the base already */
  JOB_POSITIONS, /* index y; an index out of range is an error of whoever runs it */
  JOB_COPY,      /* from to */
  JOB_TO,        /* the same, from one device to another: the engine's own */
  JOB_LOOP,      /* the operands of LOOP, then y: the engine's own */
  JOB_CALL, /* the operands of CALL, then y, which holds the base; the first of them is absent: the engine's own */
  JOB_AWAIT, /* the same of its end */
  JOB_SOLVE, /* those of its routine: of no plan, asked for by ty.linalg (lua_solve.c) */
  JOB_COUNT
} JobKind;

/* An operation of an epilogue that is a list (GemmOp), its operand still by number. */
typedef struct ListOp {
  u8 kind; /* GemmOpKind; MAX stands for RELU too */
  i8 cs;
  i16 operand, scalar; /* of the program; both -1: the constant imm */
  i64 rs, start;       /* start: in bytes */
  u64 imm;
} ListOp;
enum { LIST_MOST = 8 };

/* Routines of linear algebra, on stacks of matrices that lie column by column, side by side. What they are given is overwritten;
** info, an i32 for each matrix, is LAPACK's. Operands and sizes:
**   CHOLESKY  a[n,n] info                          the lower triangle
**   LU        a[m,n] pivots, i64[min(m,n)], info
**   LU_SOLVE  a[n,n] pivots b[n,k] info            what LU left, right sides
**   QR        a[m,n] tau[min(m,n)] info
**   QR_Q      a[m,k] tau[k] info                   of what QR left
**   SVD       a[m,n] s[n] u[m,n] v[n,n] info       m >= n; v is its conjugate transpose
**   EIGH      a[n,n] w[n] info                     the lower triangle is read; eigenvectors */
typedef enum {
  SOLVE_CHOLESKY,
  SOLVE_LU,
  SOLVE_LU_SOLVE,
  SOLVE_QR,
  SOLVE_QR_Q,
  SOLVE_SVD,
  SOLVE_EIGH
} SolveKind;
typedef struct Solve {
  u8 kind, dtype; /* f32 f64 c64 c128 */
  i64 m, n, k, count;
} Solve;

typedef struct Job {
  u8 kind;
  u8 noperands;
  u8 nscalar; /* numbers that it is given, as the epilogue's kernel counts them */
  /* PRODUCT */
  bool blas;
  bool listed;
  bool aside; /* y's elements are not as wide as the product's */
  Gemm *gemm;
  i64 start[2];          /* of a and b, in bytes; SCATTER: of the index, */
  i64 strides[MAX_RANK]; /* which goes from element to element of src by these */
  /* ... and what follows: the maps as a kernel over the launch, NULL where there are none; `machine` runs it. */
  const Machine *machine;
  const Kernel *kernel;
  const Launch *launch;
  i32 product;      /* the operand that is the product, laid out row-major in the launch */
  i32 nrows;        /* so many dims of the launch are rows of the product, the rest columns */
  ListOp *list;     /* the same as a list, where it is `listed` */
  i32 nlist, store; /* store: as in GemmList */
  Attend *attend;   /* ATTEND */
  const Solve *solve;
  const Node *
      node; /* SORT, FFT, SEARCH, SCATTER, POSITIONS, LOOP, CALL: the node; COPY: an INPUT whose elements do not lie in order, or NULL */
  const Type *type; /* types of the node's operands */
  i64 bytes;        /* COPY and TO, in order */
} Job;

#endif
