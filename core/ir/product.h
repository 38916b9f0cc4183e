/*
** product.h -- products and attention as data: what a step of a plan computes, and where its operands lie.
*/
#ifndef TY_PRODUCT_H
#define TY_PRODUCT_H

#include "ir/type.h"

/*
** Products: y[b, m, n] = sum over k of a[b, m, k] * b[b, k, n] in the canonical order. Strides in
** elements.
** dtype is that of a, b and y: i32 i64 f16 bf16 f32 f64 (narrow integers: u8 i8 i16 too, wrapping).
** y is row-major and contiguous in its last two dims (row stride `n`). Batch strides may be 0.
*/
enum { PATH_DIMS = 5, BORDERS = 3 };
/* How an index of an operand moves: its dims, the last one fastest, each by a stride; and by how much
** each of them moves towards a border. */
typedef struct Path {
  i32 n;
  i64 dims[PATH_DIMS], strides[PATH_DIMS], steps[BORDERS][PATH_DIMS];
} Path;
/* An operand that is a matrix only by its addresses, as implicit im2col makes of an image: rows and columns are
** no two strides but go over several dims each. What lies beyond a border is zero padding, and is not read: an
** element is there where every border's index, which is start + what its row and its column step, is in
** [0, extent). */
typedef struct Im2col {
  Path row, col;
  i32 borders;
  i64 start[BORDERS], extent[BORDERS];
} Im2col;

typedef struct Gemm {
  i32 dtype;
  i64 m, n, k, batch; /* batch: product of the leading dims of y */
  i32 nlead;          /* leading dims: a and b step by strides, y is contiguous */
  i64 lead[MAX_RANK], abs[MAX_RANK], bbs[MAX_RANK];
  i64 ars, acs, brs, bcs;            /* row and column strides of a and b, 0 where there are ... */
  const Im2col *a_im2col, *b_im2col; /* or NULL */
  i64 k0, kstep;                     /* item i begins at this element of their k, plus i * kstep */
  bool amx;                          /* bf16 on a unit of its own, in its own order (gemm_amx.c) */
  u8 library; /* not 0: by the device's library where it has one; PRODUCT_* bits of graph.h */
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

/* Attention (attend.c). Operands by number, in the order of the rows ATTEND and ATTEND_GRAD; strides over
** the leading dims and the last two. */
enum { AT_Q, AT_K, AT_V, AT_MASK, AT_KEY, AT_R, AT_G, AT_OPERANDS };
typedef struct Attend {
  i32 dtype, nlead;
  i32 operands;            /* dtype of q, k, v: that, or half floats where the device takes them */
  bool grad, causal, fast; /* fast: by tensor cores, where the device has them */
  bool mask, bits, key;    /* there is a mask, it is of bools; weights are dropped */
  u32 drop;                /* by chance drop / 2^30 */
  i64 lead[MAX_RANK], batch, n, m, d, dv;
  i64 start[AT_OPERANDS], strides[AT_OPERANDS][MAX_RANK];
  double scale;
} Attend;

#endif
