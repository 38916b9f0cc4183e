/*
** ptx_product.c -- matrix products as PTX, in the canonical order.
** In:  how the operands are walked.  Out: a module. Fails when out of memory alone.
**
** A thread has one element of y: blocks of 256 of k, each by fma over ascending k from +0, added ascending. The first
** block's sum stands as it is: -0 is what it is added to. An operand is walked along k as an odometer counts, so that
** windows over an image cost no division for each element; what lies beyond a border is not read, and is zero.
*/
#include "device/cuda/ptx_address.h"
#include "device/cuda/ptx_product.h"

enum { K_BLOCK = 256 };

ProductLayout ty_ptx_product_layout(const ProductVariant *v) {
  ProductLayout l;
  i32 at = PRODUCT_LEAD + 3 * 8 * v->nlead;
  for (int i = 0; i < 2; i++) {
    const Side *s = &v->side[i];
    SideLayout *y = &l.side[i];
    y->row = at, at += 16 * s->nrow;
    y->col = at, at += 16 * s->ncol;
    y->border = at, y->each = 8 * (2 + s->nrow + s->ncol);
    at += y->each * s->borders;
  }
  l.bytes = at;
  return l;
}

/* An operand on its way along k. */
typedef struct Walk64 {
  const Side *s;
  SideLayout l;
  int n;     /* dims along k */
  i32 path;  /* parameters of these dims, */
  i32 steps; /* and within a border of their steps */
  Reg at;    /* address */
  Reg border[BORDERS], extent[BORDERS];
  Reg count[PATH_DIMS], size[PATH_DIMS];
  Reg step[PATH_DIMS],
      turn[BORDERS][PATH_DIMS]; /* what dim d adds when it steps and those behind it begin anew */
} Walk64;

/* number -> coordinates over n dims, whose extents are parameters from `dims` on. */
static void coordinates(Ptx *E, Reg number, int n, i32 dims, Reg *y) {
  for (int d = n - 1; d > 0; d--) {
    const Reg size = param(E, dims + 8 * d), q = op(E, "div", number, size);
    y[d] = op(E, "sub", number, op(E, "mul.lo", q, size));
    number = q;
  }
  if (n) y[0] = number;
}

void ty_ptx_product_item(Ptx *E, const ProductVariant *v, Reg item, Reg *a, Reg *b) {
  Reg lead[MAX_RANK];
  coordinates(E, item, v->nlead, PRODUCT_LEAD, lead);
  *a = param(E, PRODUCT_A), *b = param(E, PRODUCT_B);
  for (int d = 0; d < v->nlead; d++) {
    *a = mad(E, lead[d], param(E, PRODUCT_LEAD + 8 * (v->nlead + d)), *a);
    *b = mad(E, lead[d], param(E, PRODUCT_LEAD + 8 * (2 * v->nlead + d)), *b);
  }
}

/* Where the operand begins: at row or column `index`, whichever does not go along k. */
static void walk_begin(Ptx *E, Walk64 *w, const Side *s, SideLayout l, bool along_columns, Reg base,
                       Reg index) {
  Reg c[PATH_DIMS];
  const int still = along_columns ? s->nrow : s->ncol;
  const i32 path = along_columns ? l.row : l.col, steps = along_columns ? 16 : 16 + 8 * s->nrow;
  *w = (Walk64){.s = s, .l = l, .at = ty_ptx_reg(E, REG_64)};
  w->n = along_columns ? s->ncol : s->nrow;
  w->path = along_columns ? l.col : l.row;
  w->steps = along_columns ? 16 + 8 * s->nrow : 16;
  coordinates(E, index, still, path, c);
  for (int d = 0; d < still; d++) base = mad(E, c[d], param(E, path + 8 * (still + d)), base);
  ty_ptx(E, "mov.b64 $, $", w->at, base);
  for (int b = 0; b < s->borders; b++) {
    const i32 at = l.border + b * l.each;
    Reg sum = param(E, at);
    for (int d = 0; d < still; d++) sum = mad(E, c[d], param(E, at + steps + 8 * d), sum);
    ty_ptx(E, "mov.b64 $, $", w->border[b] = ty_ptx_reg(E, REG_64), sum);
    w->extent[b] = param(E, at + 8);
  }
  for (int d = 0; d < w->n; d++) {
    w->size[d] = param(E, w->path + 8 * d);
    ty_ptx(E, "mov.b64 $, 0", w->count[d] = ty_ptx_reg(E, REG_64));
    w->step[d] = param(E, w->path + 8 * (w->n + d));
    for (int b = 0; b < s->borders; b++)
      w->turn[b][d] = param(E, l.border + b * l.each + w->steps + 8 * d);
  }
  for (int d = 0; d + 1 < w->n; d++) { /* less all that the next dim has gone */
    w->step[d] = op(E, "sub", w->step[d],
                    op(E, "mul.lo", w->size[d + 1], param(E, w->path + 8 * (w->n + d + 1))));
    for (int b = 0; b < s->borders; b++)
      w->turn[b][d] = op(E, "sub", w->turn[b][d],
                         op(E, "mul.lo", w->size[d + 1],
                            param(E, l.border + b * l.each + w->steps + 8 * (d + 1))));
  }
}

/* The element at hand; 0 beyond a border. */
static Reg walk_load(Ptx *E, const Walk64 *w, int dtype) {
  Reg inside = 0;
  for (int b = 0; b < w->s->borders; b++) {
    const Reg p = ty_ptx_reg(E, REG_PRED);
    ty_ptx(E, "setp.lt.u64 $, $, $", p, w->border[b], w->extent[b]); /* one below 0 is large */
    if (inside) ty_ptx(E, "and.pred $, $, $", p, p, inside);
    inside = p;
  }
  E->guard = inside;
  const Reg y = ty_ptx_load(E, dtype, w->at);
  E->guard = 0;
  return y;
}

static void walk_next(Ptx *E, const Walk64 *w) {
  const int done = ty_ptx_label(E);
  for (int d = w->n - 1; d >= 0; d--) {
    ty_ptx(E, "add.s64 $, $, $", w->at, w->at, w->step[d]);
    for (int b = 0; b < w->s->borders; b++)
      ty_ptx(E, "add.s64 $, $, $", w->border[b], w->border[b], w->turn[b][d]);
    if (!d) break;
    const Reg p = ty_ptx_reg(E, REG_PRED);
    ty_ptx(E, "add.s64 $, $, 1", w->count[d], w->count[d]);
    ty_ptx(E, "setp.lt.s64 $, $, $", p, w->count[d], w->size[d]);
    ty_ptx(E, "@$ bra @", p, done);
    ty_ptx(E, "mov.b64 $, 0", w->count[d]);
  }
  ty_ptx_here(E, done);
}

static void set_zero(Ptx *E, int ctype, Reg y, bool negative) {
  const u64 sign = negative && ctype >= C_F32 ? ctype == C_F32 ? 1ull << 31 : 1ull << 63 : 0;
  ty_ptx(E, "mov.~ $, ^", ty_ptx_wide(ctype) ? "b64" : "b32", y, sign);
}

/* acc = a * b + acc, rounded once. */
static void add_product(Ptx *E, int ctype, Reg acc, Reg a, Reg b) {
  static const char *const how[] = {"mad.lo.s32", "mad.lo.s64", "fma.rn.f32", "fma.rn.f64"};
  ty_ptx(E, "~ $, $, $, $", how[ctype], acc, a, b, acc);
}

/* The sum over k of two walks. */
static Reg sum(Ptx *E, int dtype, const Walk64 *a, const Walk64 *b, Reg k) {
  const int ctype = ty_dtypes[dtype].ctype, outer = ty_ptx_label(E), inner = ty_ptx_label(E),
            done = ty_ptx_label(E);
  const Reg total = ty_ptx_value(E, ctype), acc = ty_ptx_value(E, ctype),
            at = ty_ptx_reg(E, REG_64), end = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED),
            empty = ty_ptx_reg(E, REG_PRED);
  set_zero(E, ctype, total, true);
  ty_ptx(E, "mov.b64 $, 0", at);
  ty_ptx(E, "setp.eq.s64 $, $, 0", empty, k);
  ty_ptx(E, "@$ bra @", empty, done);
  ty_ptx_here(E, outer);
  set_zero(E, ctype, acc, false);
  ty_ptx(E, "add.s64 $, $, #", end, at, (i64)K_BLOCK);
  ty_ptx(E, "min.s64 $, $, $", end, end, k);
  ty_ptx_here(E, inner);
  add_product(E, ctype, acc, walk_load(E, a, dtype), walk_load(E, b, dtype));
  walk_next(E, a);
  walk_next(E, b);
  ty_ptx(E, "add.s64 $, $, 1", at, at);
  ty_ptx(E, "setp.lt.s64 $, $, $", p, at, end);
  ty_ptx(E, "@$ bra @", p, inner);
  const Reg next = ty_ptx_binary(E, P_ADD, ctype, total, acc);
  ty_ptx(E, "mov.~ $, $", ty_ptx_wide(ctype) ? "b64" : "b32", total, next);
  ty_ptx(E, "setp.lt.s64 $, $, $", p, at, k);
  ty_ptx(E, "@$ bra @", p, outer);
  ty_ptx_here(E, done);
  const Reg zero = ty_ptx_const(E, ctype, 0), y = ty_ptx_value(E, ctype);
  ty_ptx(E, "selp.~ $, $, $, $", ty_ptx_wide(ctype) ? "b64" : "b32", y, zero, total, empty);
  return y;
}

Text ty_ptx_product(const ProductVariant *v) {
  Ptx E = {0};
  const ProductLayout l = ty_ptx_product_layout(v);
  const int end = ty_ptx_begin(&E), next = ty_ptx_label(&E);
  const Reg number = ty_ptx_reg(&E, REG_64), step = ty_ptx_reg(&E, REG_64),
            count = param(&E, PRODUCT_COUNT), p = ty_ptx_reg(&E, REG_PRED),
            m = param(&E, PRODUCT_M), n = param(&E, PRODUCT_N), k = param(&E, PRODUCT_K);
  Reg a, b;
  Walk64 wa, wb;
  ty_ptx_number(&E, PRODUCT_THREADS, number, step);
  ty_ptx_here(&E, next);
  ty_ptx(&E, "setp.ge.s64 $, $, $", p, number, count);
  ty_ptx(&E, "@$ bra @", p, end);
  const Reg row = op(&E, "div", number, n), j = op(&E, "sub", number, op(&E, "mul.lo", row, n)),
            item = op(&E, "div", row, m), i = op(&E, "sub", row, op(&E, "mul.lo", item, m));
  ty_ptx_product_item(&E, v, item, &a, &b);
  walk_begin(&E, &wa, &v->side[0], l.side[0], true, a, i);
  walk_begin(&E, &wb, &v->side[1], l.side[1], false, b, j);
  const Reg y = ty_ptx_narrow(&E, v->dtype, sum(&E, v->dtype, &wa, &wb, k)),
            size = ty_ptx_const(&E, C_I64, ty_dtypes[v->dtype].bytes);
  ty_ptx_store(&E, v->dtype, mad(&E, number, size, param(&E, PRODUCT_Y)), y);
  ty_ptx(&E, "add.s64 $, $, $", number, number, step);
  ty_ptx(&E, "bra @", next);
  return ty_ptx_end(&E, end, l.bytes, PRODUCT_THREADS);
}
