/*
** ptx_tiles.c -- matrix products by tiles in shared memory, in the canonical order.
** In:  how the operands lie.  Out: a module. Fails when out of memory alone.
**
** A block of 256 threads has a tile of 64 x 64 of y, a thread 4 x 4 of it. 16 of k at a time are brought to shared memory,
** k by rows or columns; two barriers keep those who read from those who write. Sums of blocks of 256 of k are added to
** totals as in ptx_product.c. Beyond the ends of k stand +0 in a and -0 in b, whose product changes no sum.
*/
#include "device/cuda/ptx_address.h"
#include "device/cuda/ptx_product.h"

enum {
  TILE = 64,
  DEPTH = 16,
  OWN = 4,
  QUARTERS = TILE * DEPTH / TILE_THREADS,
  K_BLOCK = 256,
  PAD = 16
};

typedef struct Tiles {
  Ptx E;
  const ProductVariant *v;
  ProductLayout l;
  int ctype, size; /* computed in; bytes of that */
  Reg thread;
} Tiles;

/* What a thread brings of an operand at a time. */
typedef struct Bring {
  Reg at[QUARTERS], inside[QUARTERS],
      depth[QUARTERS]; /* address; row or column is there; place along k */
  Reg to[QUARTERS];    /* in shared memory */
  Reg step;            /* bytes to the next 16 of k */
} Bring;

static Reg constant(Ptx *E, i64 v) { return ty_ptx_const(E, C_I64, (u64)v); }

/* y = x mod n, *rest = x / n, n a power of two. */
static Reg cut(Ptx *E, Reg x, i64 n, Reg *rest) {
  const Reg y = ty_ptx_reg(E, REG_64);
  *rest = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "and.b64 $, $, #", y, x, n - 1);
  ty_ptx(E, "shr.u64 $, $, #", *rest, x, (i64)__builtin_ctzll((u64)n));
  return y;
}

/* base: of the operand's item; first: the tile's first row or column, of `all`; shared: where its tile lies. */
static void bring_begin(Tiles *T, Bring *y, Reg base, Reg first, Reg all, Reg along, Reg across,
                        bool along_k, i64 shared) {
  Ptx *E = &T->E;
  const i64 pitch = TILE * T->size + PAD;
  y->step = op(E, "mul.lo", along, constant(E, DEPTH));
  for (int q = 0; q < QUARTERS; q++) {
    Reg i, rest;
    const Reg e = op(E, "add", T->thread, constant(E, (i64)q * TILE_THREADS));
    i = cut(E, e, along_k ? DEPTH : TILE, &rest);
    const Reg k = along_k ? i : rest, x = along_k ? rest : i, place = op(E, "add", first, x);
    y->depth[q] = k;
    y->inside[q] = ty_ptx_reg(E, REG_PRED);
    ty_ptx(E, "setp.lt.s64 $, $, $", y->inside[q], place, all);
    const Reg from = mad(E, place, across, mad(E, k, along, base));
    ty_ptx(E, "mov.b64 $, $", y->at[q] = ty_ptx_reg(E, REG_64), from);
    const Reg start = ty_ptx_reg(E, REG_64);
    ty_ptx(E, "mov.u64 $, tile", start);
    y->to[q] = mad(E, k, constant(E, pitch),
                   mad(E, x, constant(E, T->size), op(E, "add", start, constant(E, shared))));
  }
}

/* The next 16 of k; `left`: from there to the end of k. */
static void bring(Tiles *T, Bring *b, Reg left, u64 beyond) {
  Ptx *E = &T->E;
  const char *bits = ty_ptx_wide(T->ctype) ? "b64" : "b32";
  const Reg none = ty_ptx_const(E, T->ctype, beyond);
  for (int q = 0; q < QUARTERS; q++) {
    const Reg p = ty_ptx_reg(E, REG_PRED), y = ty_ptx_value(E, T->ctype);
    ty_ptx(E, "setp.lt.s64 $, $, $", p, b->depth[q], left);
    ty_ptx(E, "and.pred $, $, $", p, p, b->inside[q]);
    E->guard = p;
    const Reg v = ty_ptx_load(E, T->v->dtype, b->at[q]);
    E->guard = 0;
    ty_ptx(E, "selp.~ $, $, $, $", bits, y, v, none, p);
    ty_ptx(E, "st.shared.~ [$], $", bits, b->to[q], y);
    ty_ptx(E, "add.s64 $, $, $", b->at[q], b->at[q], b->step);
  }
}

/* Four neighbours in shared memory. */
static void read_four(Tiles *T, Reg at, i64 offset, Reg *y) {
  Ptx *E = &T->E;
  for (int i = 0; i < OWN; i++) y[i] = ty_ptx_value(E, T->ctype);
  if (T->size == 4) {
    ty_ptx(E, "ld.shared.v4.b32 {$, $, $, $}, [$+#]", y[0], y[1], y[2], y[3], at, offset);
    return;
  }
  ty_ptx(E, "ld.shared.v2.b64 {$, $}, [$+#]", y[0], y[1], at, offset);
  ty_ptx(E, "ld.shared.v2.b64 {$, $}, [$+#]", y[2], y[3], at, offset + 16);
}

/* The sums over k of the thread's 4 x 4. */
static void sums(Tiles *T, Bring *a, Bring *b, Reg rows, Reg columns, Reg total[OWN][OWN]) {
  Ptx *E = &T->E;
  const char *bits = ty_ptx_wide(T->ctype) ? "b64" : "b32",
             *fma = T->size == 8 ? "fma.rn.f64" : "fma.rn.f32";
  const u64 minus = T->size == 8 ? 1ull << 63 : 1ull << 31;
  const i64 pitch = TILE * T->size + PAD, second = DEPTH * pitch;
  const Reg k = param(E, PRODUCT_K), at = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED),
            block = ty_ptx_reg(E, REG_PRED);
  const int next = ty_ptx_label(E), on = ty_ptx_label(E);
  Reg acc[OWN][OWN];
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      ty_ptx(E, "mov.~ $, 0", bits, acc[i][j] = ty_ptx_value(E, T->ctype));
      ty_ptx(E, "mov.~ $, ^", bits, total[i][j] = ty_ptx_value(E, T->ctype), minus);
    }
  ty_ptx(E, "mov.b64 $, 0", at);
  ty_ptx_here(E, next);
  const Reg left = op(E, "sub", k, at);
  bring(T, a, left, 0);
  bring(T, b, left, minus);
  ty_ptx(E, "bar.sync 0");
  for (int d = 0; d < DEPTH; d++) {
    Reg x[OWN], y[OWN];
    read_four(T, rows, d * pitch, x);
    read_four(T, columns, second + d * pitch, y);
    for (int i = 0; i < OWN; i++)
      for (int j = 0; j < OWN; j++)
        ty_ptx(E, "~ $, $, $, $", fma, acc[i][j], x[i], y[j], acc[i][j]);
  }
  ty_ptx(E, "bar.sync 0");
  ty_ptx(E, "add.s64 $, $, #", at, at, (i64)DEPTH);
  Reg rest;
  const Reg within = cut(E, at, K_BLOCK, &rest);
  ty_ptx(E, "setp.ge.s64 $, $, $", p, at, k);
  ty_ptx(E, "setp.eq.s64 $, $, 0", block, within);
  ty_ptx(E, "or.pred $, $, $", block, block, p);
  ty_ptx(E, "@!$ bra @", block, on);
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      ty_ptx(E, "mov.~ $, $", bits, total[i][j],
             ty_ptx_binary(E, P_ADD, T->ctype, total[i][j], acc[i][j]));
      ty_ptx(E, "mov.~ $, 0", bits, acc[i][j]);
    }
  ty_ptx_here(E, on);
  ty_ptx(E, "@!$ bra @", p, next);
}

/* first_row, first_column: of the thread's 4 x 4. */
static void store(Tiles *T, Reg y, Reg first_row, Reg first_column, Reg m, Reg n,
                  Reg total[OWN][OWN]) {
  Ptx *E = &T->E;
  const Reg size = constant(E, ty_dtypes[T->v->dtype].bytes);
  for (int i = 0; i < OWN; i++) {
    const Reg row = op(E, "add", first_row, constant(E, i)), in_row = ty_ptx_reg(E, REG_PRED),
              start = op(E, "mul.lo", row, n);
    ty_ptx(E, "setp.lt.s64 $, $, $", in_row, row, m);
    for (int j = 0; j < OWN; j++) {
      const Reg column = op(E, "add", first_column, constant(E, j)), p = ty_ptx_reg(E, REG_PRED);
      ty_ptx(E, "setp.lt.s64 $, $, $", p, column, n);
      ty_ptx(E, "and.pred $, $, $", p, p, in_row);
      const Reg at = mad(E, op(E, "add", start, column), size, y),
                v = ty_ptx_narrow(E, T->v->dtype, total[i][j]);
      E->guard = p;
      ty_ptx_store(E, T->v->dtype, at, v);
      E->guard = 0;
    }
  }
}

/* Tile number `number`, counted through the batch. */
static void one_tile(Tiles *T, Reg number) {
  Ptx *E = &T->E;
  const ProductVariant *v = T->v;
  const SideLayout *sa = &T->l.side[0], *sb = &T->l.side[1];
  const Reg m = param(E, PRODUCT_M), n = param(E, PRODUCT_N), most = constant(E, TILE - 1),
            tile = constant(E, TILE);
  Reg rest, q;
  cut(E, op(E, "add", n, most), TILE, &rest);
  const Reg across = rest, row = op(E, "div", number, across),
            tn = op(E, "sub", number, op(E, "mul.lo", row, across));
  cut(E, op(E, "add", m, most), TILE, &rest);
  const Reg item = op(E, "div", row, rest), tm = op(E, "sub", row, op(E, "mul.lo", item, rest)),
            m0 = op(E, "mul.lo", tm, tile), n0 = op(E, "mul.lo", tn, tile);
  Reg a = param(E, PRODUCT_A), b = param(E, PRODUCT_B), left = item;
  for (int d = v->nlead - 1; d >= 0; d--) {
    const Reg size = param(E, PRODUCT_LEAD + 8 * d), up = op(E, "div", left, size),
              c = op(E, "sub", left, op(E, "mul.lo", up, size));
    a = mad(E, c, param(E, PRODUCT_LEAD + 8 * (v->nlead + d)), a);
    b = mad(E, c, param(E, PRODUCT_LEAD + 8 * (2 * v->nlead + d)), b);
    left = up;
  }
  const i64 second = DEPTH * (TILE * T->size + PAD);
  Bring of_a, of_b;
  bring_begin(T, &of_a, a, m0, m, param(E, sa->col + 8), param(E, sa->row + 8),
              v->tiles & TILES_A_K, 0);
  bring_begin(T, &of_b, b, n0, n, param(E, sb->row + 8), param(E, sb->col + 8),
              v->tiles & TILES_B_K, second);
  const Reg tx = cut(E, T->thread, TILE / OWN, &q), start = ty_ptx_reg(E, REG_64),
            four = constant(E, (i64)OWN * T->size);
  ty_ptx(E, "mov.u64 $, tile", start);
  Reg total[OWN][OWN];
  sums(T, &of_a, &of_b, mad(E, q, four, start), mad(E, tx, four, start), total);
  const Reg own = constant(E, OWN), elements = op(E, "mul.lo", m, n),
            bytes = op(E, "mul.lo", elements, constant(E, ty_dtypes[v->dtype].bytes));
  store(T, mad(E, item, bytes, param(E, PRODUCT_Y)), mad(E, q, own, m0), mad(E, tx, own, n0), m, n,
        total);
}

Text ty_ptx_tiles(const ProductVariant *v) {
  Tiles T = {.v = v, .l = ty_ptx_product_layout(v), .ctype = ty_dtypes[v->dtype].ctype};
  Ptx *E = &T.E;
  T.size = ty_ptx_wide(T.ctype) ? 8 : 4;
  E->shared = 2 * DEPTH * (TILE * T.size + PAD);
  const int end = ty_ptx_begin(E), next = ty_ptx_label(E);
  const Reg t = ty_ptx_reg(E, REG_32), b = ty_ptx_reg(E, REG_32), n = ty_ptx_reg(E, REG_32),
            p = ty_ptx_reg(E, REG_PRED), number = ty_ptx_reg(E, REG_64),
            step = ty_ptx_reg(E, REG_64), count = param(E, PRODUCT_COUNT);
  T.thread = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.u32 $, %tid.x", t);
  ty_ptx(E, "mov.u32 $, %ctaid.x", b);
  ty_ptx(E, "mov.u32 $, %nctaid.x", n);
  ty_ptx(E, "cvt.u64.u32 $, $", T.thread, t);
  ty_ptx(E, "cvt.u64.u32 $, $", number, b);
  ty_ptx(E, "cvt.u64.u32 $, $", step, n);
  ty_ptx_here(E, next);
  ty_ptx(E, "setp.ge.s64 $, $, $", p, number, count);
  ty_ptx(E, "@$ bra @", p, end);
  one_tile(&T, number);
  ty_ptx(E, "add.s64 $, $, $", number, number, step);
  ty_ptx(E, "bra @", next);
  return ty_ptx_end(E, end, T.l.bytes, TILE_THREADS);
}
