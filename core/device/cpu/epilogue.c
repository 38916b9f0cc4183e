/*
** epilogue.c -- a product with a chain of maps behind it, and products of weights that stay.
** In:  a product and the addresses of its operands.  Out: its outputs are written.
** Fails when out of memory; the outputs are then undefined.
**
** The maps are one kernel, from the same machine as any other, and run on a tile of the product as
** soon as ty_gemm has summed it, by the thread that did: the tile is still in its cache. The launch
** that lower.c wrote is for the whole product; a tile is a box in it, or several where rows or
** columns are split into dims (rows that are batches and positions, columns that are heads), since
** other operands broadcast along some of these dims. Nothing of this shows in the bits: the kernel
** computes every element alone, from the product as rounded to its dtype.
**
** Lists of a few common operations (list.c) are not even run on tiles: kernels of products apply
** them to sums in their registers. Which of the two depends on the way that the product takes.
**
** A product whose elements are as wide as those of y is summed in y itself, and the kernel reads
** what it overwrites; else its tiles lie in scratch.
*/
#include "device/cpu/epilogue.h"

typedef struct Epilogue {
  GemmEpilogue base;
  const Job *j;
  void *const *buf; /* of the kernel's operands; that of the product is put in for each tile */
  const u64 *scalar;
  i64 rows, cols; /* of the product and its batch */
} Epilogue;

/* Part of a range over dims: index `at[d]` in each dim, `count` of them in dim `over`, and all of
** the dims behind it. */
typedef struct Box {
  i64 at[MAX_DIMS], count;
  int over;
} Box;

/* The largest box at the front of [lo, hi), counted row-major over n dims; returns its elements. */
static i64 box_front(const i64 *dims, int n, i64 lo, i64 hi, Box *y) {
  i64 inner = 1, elems = hi - lo, rest = lo;
  y->over = n; /* no dims: one element */
  y->count = 1;
  for (int d = n - 1; d >= 0; d--) {
    i64 i = rest % dims[d];
    rest /= dims[d];
    y->at[d] = i;
    if (y->over == d + 1 && (d + 1 == n || !y->at[d + 1]) && elems >= inner) {
      y->over = d;
      y->count = TY_MIN(elems / inner, dims[d] - i);
    }
    inner *= dims[d];
  }
  i64 size = n ? y->count : 1;
  for (int d = y->over + 1; d < n; d++) size *= dims[d];
  return size;
}

/* A dim of operands that walk on as along the dim before it is one with it. */
static void launch_add(Launch *y, const Launch *l, int noperands, int d, i64 extent, int product,
                       i64 step) {
  int n = y->ni;
  if (extent == 1) return;
  bool merge = n > 0;
  for (int i = 0; i < noperands && merge; i++)
    merge = y->strides[i][n - 1] == (i == product ? step : l->strides[i][d]) * extent;
  if (!merge) n = ++y->ni, y->dims[n - 1] = 1;
  y->dims[n - 1] *= extent;
  for (int i = 0; i < noperands; i++) y->strides[i][n - 1] = i == product ? step : l->strides[i][d];
}

/* Adds the box over dims [from, from + n) of l. The product's rows are `unit` apart where the
** launch has 1. */
static void launch_box(Launch *y, const Launch *l, int noperands, int from, int n, const Box *b,
                       int product, i64 unit, i64 steps) {
  for (int d = 0; d < n; d++) {
    i64 extent = d < b->over ? 1 : d == b->over ? b->count : l->dims[from + d];
    for (int i = 0; i < noperands; i++)
      if (i != product) y->start[i] += b->at[d] * l->strides[i][from + d];
    launch_add(y, l, noperands, from + d, extent, product,
               l->strides[product][from + d] / steps * unit);
  }
}

static bool epilogue_tile(const GemmEpilogue *e, void *tile, i64 stride, i64 row, i64 rows, i64 col,
                          i64 cols) {
  const Epilogue *E = (const Epilogue *)e;
  const Job *s = E->j;
  const Launch *l = s->launch;
  const int noperands = s->noperands - 3, nd = l->ni, nrows = s->nrows, p = s->product;
  const i64 esize = ty_dtypes[s->gemm->dtype].bytes;
  void *buf[MAX_OPERANDS];
  Launch y;
  Run run = {.launch = &y, .buf = buf, .scalar = E->scalar};
  memcpy(buf, E->buf, sizeof *buf * (size_t)noperands);
  if (rows == E->rows && cols == E->cols && stride == cols) { /* all of it: the launch as it is */
    run.launch = l;
    buf[p] = tile;
    return s->machine->run(s->kernel, &run);
  }
  memcpy(y.gstride, l->gstride, sizeof *y.gstride * (size_t)noperands);
  y.no = y.nr = 0;
  y.flat = false;
  for (i64 i = row, h; i < row + rows; i += h) {
    Box down, across;
    h = box_front(l->dims, nrows, i, row + rows, &down);
    for (i64 j = col, w; j < col + cols; j += w) {
      w = box_front(l->dims + nrows, nd - nrows, j, col + cols, &across);
      memcpy(y.start, l->start, sizeof *y.start * (size_t)noperands);
      y.start[p] = 0;
      y.ni = 0;
      launch_box(&y, l, noperands, 0, nrows, &down, p, stride, E->cols);
      launch_box(&y, l, noperands, nrows, nd - nrows, &across, p, 1, 1);
      buf[p] = (char *)tile + ((i - row) * stride + j - col) * esize;
      if (!s->machine->run(s->kernel, &run)) return false;
    }
  }
  return true;
}

/* The list with addresses; false where a number is none that extremes can have. */
static bool bind_list(const Job *s, void *const *buf, const u64 *scalar, GemmOp *y) {
  for (i32 i = 0; i < s->nlist; i++, y++) {
    const ListOp *op = &s->list[i];
    *y = (GemmOp){.kind = op->kind, .cs = op->cs, .rs = op->rs};
    y->x = op->operand >= 0  ? (char *)buf[op->operand] + op->start
           : op->scalar >= 0 ? (const void *)&scalar[op->scalar]
                             : &op->imm;
    if (op->kind != GEMM_MAX && op->kind != GEMM_MIN) continue;
    const bool f4 = s->gemm->dtype == T_F32;
    const double v = f4 ? (double)*(const float *)y->x : *(const double *)y->x;
    const bool negative = __builtin_signbit(v) != 0;
    if (v != v || (v == 0 && negative && op->kind == GEMM_MIN)) return false;
    if (v == 0 && !negative && op->kind == GEMM_MAX) y->kind = GEMM_RELU;
  }
  return true;
}

bool ty_epilogue_gemm(const Job *s, const void *a, const void *b, const void *panels,
                      void *const *buf, const u64 *scalar, void *y) {
  if (!s->kernel) return ty_gemm(s->gemm, a, b, panels, y, NULL);
  GemmOp op[LIST_MOST];
  const GemmList list = {op, s->nlist, s->store};
  Epilogue E = {.base = {epilogue_tile, s->aside, NULL},
                .j = s,
                .buf = buf,
                .scalar = scalar,
                .rows = s->gemm->batch * s->gemm->m,
                .cols = s->gemm->n};
  if (s->listed && bind_list(s, buf, scalar, op)) E.base.list = &list;
  return ty_gemm(s->gemm, a, b, panels, y, &E.base);
}
