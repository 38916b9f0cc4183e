/*
** ptx_turn.c -- maps that read operands across what they write, such as transposed ones, by way of shared memory.
** A block of threads has a tile: TURN_SIDE elements along the last dim, along which all that is stored lies side by side, and
** as many along the dim `turn`, along which those operands do. It reads them along the one and computes along the other, so that
** both go by whole sectors. Lines of a tile are one element more than TURN_SIDE apart: neither way meets in a bank.
*/
#include "device/cuda/ptx_gen.h"

enum { LINES = PROGRAM_THREADS / TURN_SIDE, PITCH = TURN_SIDE + 1 };

typedef struct Turn {
  int dim, last;        /* of turned operands' neighbours; of what is stored */
  Reg x, y;             /* of the thread in its block: 0 .. TURN_SIDE - 1, 0 .. LINES - 1 */
  i32 at[MAX_OPERANDS]; /* bytes of shared memory before an operand's tile */
} Turn;

static Reg narrow_of(Gen *G, const char *how, Reg r, i64 by) {
  const Reg y = ty_ptx_reg(&G->E, REG_32);
  ty_ptx(&G->E, "~.b32 $, $, #", how, y, r, by);
  return index_of(G, y);
}

static Reg dim_of(Gen *G, int d) { return index_param(G, G->l.dims + 8 * d); }
static Reg stride_of(Gen *G, int operand, int d) {
  return ty_ptx_param(&G->E, REG_64, G->l.strides + 8 * (operand * G->l.nd + d));
}

static Reg wide_of(Gen *G, Reg index) {
  if (G->v.wide) return index;
  const Reg y = ty_ptx_reg(&G->E, REG_64);
  ty_ptx(&G->E, "cvt.u64.u32 $, $", y, index);
  return y;
}

/* Tiles along a dim, and the tile's place among them, which is taken from *number. */
static Reg tile_along(Gen *G, int d, Reg *number) {
  const Reg up = index_reg(G), n = index_reg(G), first = index_reg(G);
  ty_ptx(&G->E, "add.~ $, $, #", G->index, up, dim_of(G, d), (i64)TURN_SIDE - 1);
  ty_ptx(&G->E, "shr.~ $, $, #", G->index, n, up, (i64)__builtin_ctz(TURN_SIDE));
  const Reg q = index_op(G, "div", *number, n),
            rest = index_op(G, "sub", *number, index_op(G, "mul.lo", q, n));
  ty_ptx(&G->E, "shl.~ $, $, #", index_bits(G), first, rest, (i64)__builtin_ctz(TURN_SIDE));
  *number = q;
  return first;
}

/* Coordinates of the tile's first element. */
static void begin_tile(Gen *G, const Turn *t, Reg tile) {
  Reg number = tile;
  G->coord[t->last] = tile_along(G, t->last, &number);
  G->coord[t->dim] = tile_along(G, t->dim, &number);
  for (int d = t->last; d >= 0; d--) {
    if (d == t->last || d == t->dim) continue;
    const Reg n = dim_of(G, d), q = index_op(G, "div", number, n);
    G->coord[d] = index_op(G, "sub", number, index_op(G, "mul.lo", q, n));
    number = q;
  }
  ty_gen_begin_unit(G);
}

/* The address of the thread's element: `along` elements on along one dim, `down` along the other. */
static Reg own_place(Gen *G, int operand, int along, int down, const Turn *t) {
  const Reg a = ty_ptx_reg(&G->E, REG_64), y = ty_ptx_reg(&G->E, REG_64);
  ty_ptx(&G->E, "mad.lo.s64 $, $, $, $", a, wide_of(G, t->x), stride_of(G, operand, along),
         ty_gen_row_place(G, operand));
  ty_ptx(&G->E, "mad.lo.s64 $, $, $, $", y, wide_of(G, t->y), stride_of(G, operand, down), a);
  return y;
}

/* LINES lines further. */
static Reg hop_of(Gen *G, int operand, int down) {
  const Reg y = ty_ptx_reg(&G->E, REG_64);
  ty_ptx(&G->E, "mul.lo.s64 $, $, #", y, stride_of(G, operand, down), (i64)LINES);
  return y;
}

/* Of the thread in a tile of elements of so many bytes: line, column. */
static Reg shared_place(Gen *G, i32 tile, Reg line, Reg column, i64 size) {
  Ptx *E = &G->E;
  const Reg base = ty_ptx_reg(E, REG_64), a = ty_ptx_reg(E, REG_64), y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.u64 $, tile", base);
  ty_ptx(E, "mad.lo.s64 $, $, #, $", a, wide_of(G, line), PITCH * size, base);
  ty_ptx(E, "mad.lo.s64 $, $, #, $", y, wide_of(G, column), size, a);
  const Reg all = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "add.s64 $, $, #", all, y, (i64)tile);
  return all;
}

static int ctype_of(const Gen *G, int operand) {
  return ty_dtypes[G->p->operand[operand].dtype].ctype;
}
static i64 size_of(const Gen *G, int operand) { return ty_ptx_wide(ctype_of(G, operand)) ? 8 : 4; }

/* A turned operand's tile goes to shared memory: all loads first. */
static void bring_tile(Gen *G, const Turn *t, int operand) {
  enum { N = TURN_SIDE / LINES };
  Ptx *E = &G->E;
  const int ctype = ctype_of(G, operand);
  const i64 size = size_of(G, operand);
  const Reg hop = hop_of(G, operand, t->last),
            to = shared_place(G, t->at[operand], t->y, t->x, size),
            along = index_op(G, "add", G->coord[t->dim], t->x), inside = ty_ptx_reg(E, REG_PRED);
  Reg at = own_place(G, operand, t->dim, t->last, t), there[N], v[N];
  Reg line = index_op(G, "add", G->coord[t->last], t->y);
  ty_ptx(E, "setp.lt.~ $, $, $", G->index, inside, along, dim_of(G, t->dim));
  for (int k = 0; k < N; k++) {
    there[k] = ty_ptx_reg(E, REG_PRED);
    ty_ptx(E, "setp.lt.~ $, $, $", G->index, there[k], line, dim_of(G, t->last));
    ty_ptx(E, "and.pred $, $, $", there[k], there[k], inside);
    E->guard = there[k];
    v[k] = ty_ptx_load(E, G->p->operand[operand].dtype, at);
    E->guard = 0;
    const Reg next = ty_ptx_reg(E, REG_64), below = index_reg(G);
    ty_ptx(E, "add.s64 $, $, $", next, at, hop);
    ty_ptx(E, "add.~ $, $, #", G->index, below, line, (i64)LINES);
    at = next, line = below;
  }
  for (int k = 0; k < N; k++)
    ty_ptx(E, "@$ st.shared.~ [$+#], $", there[k], bits_type(ctype), to, k * LINES * PITCH * size,
           v[k]);
}

/* The thread's elements, from line to line. */
static void compute_tile(Gen *G, const Turn *t) {
  Ptx *E = &G->E;
  const int n = G->p->noperands, next = ty_ptx_label(E), out = ty_ptx_label(E);
  Reg hop[MAX_OPERANDS], at[MAX_OPERANDS], line = index_reg(G), end = index_reg(G);
  const Reg column = index_op(G, "add", G->coord[t->last], t->x);
  jump(G, "ge", column, dim_of(G, t->last), out);
  index_move(G, line, index_op(G, "add", G->coord[t->dim], t->y));
  ty_ptx(E, "add.~ $, $, #", G->index, end, G->coord[t->dim], (i64)TURN_SIDE);
  end = index_op(G, "min", end, dim_of(G, t->dim));
  for (int o = 0; o < n; o++) {
    at[o] = ty_ptx_reg(E, REG_64);
    if (is_flat(G, o))
      ty_ptx(E, "mov.b64 $, $", at[o], shared_place(G, t->at[o], t->x, t->y, size_of(G, o)));
    else {
      hop[o] = hop_of(G, o, t->dim);
      ty_ptx(E, "mov.b64 $, $", at[o], own_place(G, o, t->last, t->dim, t));
    }
  }
  ty_ptx_here(E, next);
  jump(G, "ge", line, end, out);
  for (int o = 0; o < n; o++) {
    G->row_place[o] = at[o];
    if (!is_flat(G, o)) continue;
    G->four[o][0] = ty_ptx_value(E, ctype_of(G, o));
    ty_ptx(E, "ld.shared.~ $, [$]", bits_type(ctype_of(G, o)), G->four[o][0], at[o]);
  }
  ty_gen_element(G, 0);
  for (int o = 0; o < n; o++) {
    if (is_flat(G, o)) ty_ptx(E, "add.s64 $, $, #", at[o], at[o], LINES * size_of(G, o));
    else ty_ptx(E, "add.s64 $, $, $", at[o], at[o], hop[o]);
  }
  ty_ptx(E, "add.~ $, $, #", G->index, line, line, (i64)LINES);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

void ty_gen_turn_kernel(Gen *G) {
  Ptx *E = &G->E;
  Reg i, step;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  Turn t = {.dim = G->v.turn - 1, .last = G->l.nd - 1};
  ty_gen_number(G, __builtin_ctz(PROGRAM_THREADS), &i, &step);
  t.x = narrow_of(G, "and", G->lane, TURN_SIDE - 1);
  t.y = narrow_of(G, "shr", G->lane, __builtin_ctz(TURN_SIDE));
  for (int o = 0; o < G->p->noperands; o++) {
    t.at[o] = E->shared;
    if (is_flat(G, o)) E->shared += TURN_BYTES(size_of(G, o));
  }
  ty_gen_need(G, 0);
  ty_ptx_here(E, next);
  jump(G, "ge", i, G->count, out);
  begin_tile(G, &t, i);
  for (int o = 0; o < G->p->noperands; o++)
    if (is_flat(G, o)) bring_tile(G, &t, o);
  ty_ptx(E, "bar.sync 0");
  compute_tile(G, &t);
  ty_ptx(E, "bar.sync 0");
  ty_ptx(E, "add.~ $, $, $", G->index, i, i, step);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}
