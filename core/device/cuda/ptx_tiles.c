/*
** ptx_tiles.c -- matrix products by tiles in shared memory, in the canonical order.
** In:  how the operands lie.  Out: a module. Fails when out of memory alone.
**
** A block of 256 threads has a tile of 64 x 64 of y, a thread 4 x 4 of it. 16 of k at a time are brought to shared memory,
** k by rows or columns; two barriers keep those who read from those who write. Sums of blocks of 256 of k are added to
** totals as in ptx_product.c. Beyond the ends of k stand +0 in a and -0 in b, whose product changes no sum.
*/
#include "device/cuda/ptx_product.h"
#include "device/cuda/ptx_stage.h"

enum { TILE = STAGE_SIDE, DEPTH = 16, OWN = STAGE_OWN, K_BLOCK = 256 };

typedef struct Tiles {
  Ptx E;
  Stage S;
  const ProductVariant *v;
  ProductLayout l;
  int ctype, size; /* computed in; bytes of that */
} Tiles;

static Reg constant(Ptx *E, i64 v) { return ty_ptx_const(E, C_I64, (u64)v); }

/* The sums over k of the thread's 4 x 4. */
static void sums(Tiles *T, Bring *a, Bring *b, Reg rows, Reg columns, Own total) {
  Ptx *E = &T->E;
  const char *bits = ty_ptx_wide(T->ctype) ? "b64" : "b32";
  const u64 minus = T->size == 8 ? 1ull << 63 : 1ull << 31;
  const Reg k = param(E, PRODUCT_K), at = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED),
            block = ty_ptx_reg(E, REG_PRED);
  const int next = ty_ptx_label(E), on = ty_ptx_label(E);
  Own acc;
  ty_ptx_own(E, T->ctype, 0, acc);
  ty_ptx_own(E, T->ctype, minus, total);
  ty_ptx(E, "mov.b64 $, 0", at);
  ty_ptx_here(E, next);
  const Reg left = op(E, "sub", k, at);
  ty_ptx_bring(E, &T->S, a, left, 0);
  ty_ptx_bring(E, &T->S, b, left, minus);
  ty_ptx(E, "bar.sync 0");
  ty_ptx_outer(E, &T->S, rows, 0, columns, DEPTH * ty_ptx_pitch(&T->S), acc);
  ty_ptx(E, "bar.sync 0");
  ty_ptx(E, "add.s64 $, $, #", at, at, (i64)DEPTH);
  Reg rest;
  const Reg within = ty_ptx_cut(E, at, K_BLOCK, &rest);
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
static void store(Tiles *T, Reg y, Reg first_row, Reg first_column, Reg m, Reg n, Own total) {
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
  ty_ptx_cut(E, op(E, "add", n, most), TILE, &rest);
  const Reg across = rest, row = op(E, "div", number, across),
            tn = op(E, "sub", number, op(E, "mul.lo", row, across));
  ty_ptx_cut(E, op(E, "add", m, most), TILE, &rest);
  const Reg item = op(E, "div", row, rest), tm = op(E, "sub", row, op(E, "mul.lo", item, rest)),
            m0 = op(E, "mul.lo", tm, tile), n0 = op(E, "mul.lo", tn, tile);
  Reg a, b;
  ty_ptx_product_item(E, v, item, &a, &b);
  Bring of_a, of_b;
  const Reg a_along = param(E, sa->col + 8), a_across = param(E, sa->row + 8),
            b_along = param(E, sb->row + 8), b_across = param(E, sb->col + 8);
  const Piece pa = {.base = mad(E, m0, a_across, a),
                    .left = op(E, "sub", m, m0),
                    .along = a_along,
                    .across = a_across,
                    .along_k = v->tiles & TILES_A_K},
              pb = {.base = mad(E, n0, b_across, b),
                    .left = op(E, "sub", n, n0),
                    .along = b_along,
                    .across = b_across,
                    .along_k = v->tiles & TILES_B_K,
                    .to = DEPTH * ty_ptx_pitch(&T->S)};
  ty_ptx_bring_begin(E, &T->S, &pa, &of_a);
  ty_ptx_bring_begin(E, &T->S, &pb, &of_b);
  const Reg tx = ty_ptx_cut(E, T->S.thread, TILE / OWN, &q), four = constant(E, (i64)OWN * T->size);
  Own total;
  sums(T, &of_a, &of_b, mad(E, q, four, T->S.memory), mad(E, tx, four, T->S.memory), total);
  const Reg own = constant(E, OWN), elements = op(E, "mul.lo", m, n),
            bytes = op(E, "mul.lo", elements, constant(E, ty_dtypes[v->dtype].bytes));
  store(T, mad(E, item, bytes, param(E, PRODUCT_Y)), mad(E, q, own, m0), mad(E, tx, own, n0), m, n,
        total);
}

Text ty_ptx_tiles(const ProductVariant *v) {
  Tiles T = {.v = v, .l = ty_ptx_product_layout(v), .ctype = ty_dtypes[v->dtype].ctype};
  Ptx *E = &T.E;
  T.size = ty_ptx_wide(T.ctype) ? 8 : 4;
  T.S = (Stage){.dtype = v->dtype, .ctype = T.ctype, .depth = DEPTH};
  E->shared = (i32)(2 * DEPTH * ty_ptx_pitch(&T.S));
  const int end = ty_ptx_begin(E), next = ty_ptx_label(E);
  const Reg t = ty_ptx_reg(E, REG_32), b = ty_ptx_reg(E, REG_32), n = ty_ptx_reg(E, REG_32),
            p = ty_ptx_reg(E, REG_PRED), number = ty_ptx_reg(E, REG_64),
            step = ty_ptx_reg(E, REG_64), count = param(E, PRODUCT_COUNT);
  T.S.thread = ty_ptx_reg(E, REG_64), T.S.memory = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.u64 $, tile", T.S.memory);
  ty_ptx(E, "mov.u32 $, %tid.x", t);
  ty_ptx(E, "mov.u32 $, %ctaid.x", b);
  ty_ptx(E, "mov.u32 $, %nctaid.x", n);
  ty_ptx(E, "cvt.u64.u32 $, $", T.S.thread, t);
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
