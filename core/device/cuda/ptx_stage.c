/*
** ptx_stage.c -- pieces of matrices on their way to shared memory, and sums of products of them.
** In:  where operands lie.  Out: code. Cannot fail, but for memory.
*/
#include "device/cuda/ptx_stage.h"

static Reg constant(Ptx *E, i64 v) { return ty_ptx_const(E, C_I64, (u64)v); }
static int size_of(int ctype) { return ty_ptx_wide(ctype) ? 8 : 4; }
static const char *bits_of(int ctype) { return ty_ptx_wide(ctype) ? "b64" : "b32"; }
static const char *type_of(int ctype) { return ty_ptx_wide(ctype) ? "f64" : "f32"; }

Reg ty_ptx_cut(Ptx *E, Reg x, i64 n, Reg *rest) {
  const Reg y = ty_ptx_reg(E, REG_64);
  *rest = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "and.b64 $, $, #", y, x, n - 1);
  ty_ptx(E, "shr.u64 $, $, #", *rest, x, (i64)__builtin_ctzll((u64)n));
  return y;
}

/* n - x in 32 bits, where no more than `most` of n count. */
static Reg rest_of(Ptx *E, Reg n, i64 most, Reg x) {
  const Reg y = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "cvt.u32.u64 $, $", y, op(E, "sub", op(E, "min", n, constant(E, most)), x));
  return y;
}

/* There are more than so many. */
static Reg more_than(Ptx *E, Reg rest, i64 n) {
  const Reg p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.gt.s32 $, $, #", p, rest, n);
  return p;
}

void ty_ptx_bring_begin(Ptx *E, const Stage *S, const Piece *p, Bring *y) {
  const i64 size = size_of(S->ctype), pitch = ty_ptx_pitch(S),
            fast = p->along_k ? S->depth : STAGE_SIDE, hop = STAGE_THREADS / fast;
  Reg slow;
  const Reg first = ty_ptx_cut(E, S->thread, fast, &slow), k = p->along_k ? first : slow,
            i = p->along_k ? slow : first;
  *y = (Bring){.n = STAGE_SIDE * S->depth / STAGE_THREADS, .by = p->by, .depth = k};
  y->lines = p->along_k ? 0 : hop, y->across = p->along_k ? hop : 0;
  y->bytes = p->along_k ? hop * size : hop * pitch;
  y->hop = op(E, "mul.lo", p->along_k ? p->across : p->along, constant(E, hop));
  y->step = op(E, "mul.lo", p->along, constant(E, S->depth));
  y->to = mad(E, k, constant(E, pitch),
              mad(E, i, constant(E, size), op(E, "add", S->memory, constant(E, p->to))));
  y->inside = rest_of(E, p->left, STAGE_SIDE, i);
  ty_ptx(E, "mov.b64 $, $", y->at = ty_ptx_reg(E, REG_64),
         mad(E, i, p->across, mad(E, k, p->along, p->base)));
  if (!p->line) return;
  if (p->line_along_k) {
    ty_ptx(E, "mov.b64 $, $", y->line = ty_ptx_reg(E, REG_64), p->line);
    return;
  }
  const Reg line = mad(E, i, constant(E, size), p->line);
  for (int q = 0; q < y->n; q++) {
    E->guard = more_than(E, y->inside, q * y->across);
    y->times[q] = ty_ptx_load(E, S->dtype, op(E, "add", line, constant(E, q * y->across * size)));
    E->guard = 0;
  }
}

void ty_ptx_bring(Ptx *E, const Stage *S, Bring *b, Reg left, u64 beyond) {
  const char *bits = bits_of(S->ctype);
  const Reg none = ty_ptx_const(E, S->ctype, beyond), rest = rest_of(E, left, S->depth, b->depth);
  const int size = size_of(S->ctype);
  Reg there[STAGE_MOST], v[STAGE_MOST], at = b->at;
  for (int q = 0; q < b->n; q++) { /* all of them on their way, before the first is waited for */
    if (q) at = op(E, "add", at, b->hop);
    there[q] = more_than(E, rest, q * b->lines);
    ty_ptx(E, "and.pred $, $, $", there[q], there[q], more_than(E, b->inside, q * b->across));
    E->guard = there[q];
    v[q] = ty_ptx_load(E, S->dtype, at);
    if (b->line)
      b->times[q] = ty_ptx_load(
          E, S->dtype,
          mad(E, op(E, "add", b->depth, constant(E, q * b->lines)), constant(E, size), b->line));
    E->guard = 0;
  }
  ty_ptx(E, "add.s64 $, $, $", b->at, b->at, b->step);
  if (b->line) ty_ptx(E, "add.s64 $, $, #", b->line, b->line, (i64)S->depth * size);
  for (int q = 0; q < b->n; q++) {
    const Reg times = b->by ? b->by : b->times[q], y = ty_ptx_value(E, S->ctype);
    if (times) v[q] = ty_ptx_binary(E, P_MUL, S->ctype, v[q], times);
    if (S->mma) v[q] = ty_ptx_tf32(E, v[q]);
    ty_ptx(E, "selp.~ $, $, $, $", bits, y, v[q], none, there[q]);
    ty_ptx(E, "st.shared.~ [$+#], $", bits, b->to, q * b->bytes, y);
  }
}

void ty_ptx_four(Ptx *E, int ctype, Reg at, i64 offset, Reg y[STAGE_OWN]) {
  for (int i = 0; i < STAGE_OWN; i++) y[i] = ty_ptx_value(E, ctype);
  if (!ty_ptx_wide(ctype)) {
    ty_ptx(E, "ld.shared.v4.b32 {$, $, $, $}, [$+#]", y[0], y[1], y[2], y[3], at, offset);
    return;
  }
  ty_ptx(E, "ld.shared.v2.b64 {$, $}, [$+#]", y[0], y[1], at, offset);
  ty_ptx(E, "ld.shared.v2.b64 {$, $}, [$+#]", y[2], y[3], at, offset + 16);
}

void ty_ptx_put_four(Ptx *E, int ctype, Reg at, i64 offset, const Reg y[STAGE_OWN]) {
  if (!ty_ptx_wide(ctype)) {
    ty_ptx(E, "st.shared.v4.b32 [$+#], {$, $, $, $}", at, offset, y[0], y[1], y[2], y[3]);
    return;
  }
  ty_ptx(E, "st.shared.v2.b64 [$+#], {$, $}", at, offset, y[0], y[1]);
  ty_ptx(E, "st.shared.v2.b64 [$+#], {$, $}", at, offset + 16, y[2], y[3]);
}

void ty_ptx_own(Ptx *E, int ctype, u64 bits, Own y) {
  for (int i = 0; i < STAGE_OWN; i++)
    for (int j = 0; j < STAGE_OWN; j++)
      ty_ptx(E, "mov.~ $, ^", bits_of(ctype), y[i][j] = ty_ptx_value(E, ctype), bits);
}

void ty_ptx_outer(Ptx *E, const Stage *S, Reg rows, i64 row, Reg columns, i64 column, Own acc) {
  const i64 pitch = ty_ptx_pitch(S);
  for (int d = 0; d < S->depth; d++) {
    Reg x[STAGE_OWN], y[STAGE_OWN];
    ty_ptx_four(E, S->ctype, rows, row + d * pitch, x);
    ty_ptx_four(E, S->ctype, columns, column + d * pitch, y);
    for (int i = 0; i < STAGE_OWN; i++)
      for (int j = 0; j < STAGE_OWN; j++)
        ty_ptx(E, "fma.rn.~ $, $, $, $", type_of(S->ctype), acc[i][j], x[i], y[j], acc[i][j]);
  }
}

/* --- tensor cores */

enum { WARP_ROWS = 16, WARP_COLUMNS = 32, MMA_ROWS = 8, MMA_COLUMNS = 8, MMA_DEPTH = 8 };

Reg ty_ptx_tf32(Ptx *E, Reg v) {
  const Reg y = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "cvt.rna.tf32.f32 $, $", y, v);
  return y;
}

/* Lane 4 g + t of a warp has row g and g + 8 of its rows, column g of each 8, lines t and t + 4; of sums columns 2 t and 2 t + 1. */
Fragments ty_ptx_fragments(Ptx *E, const Stage *S) {
  const Reg pitch = constant(E, ty_ptx_pitch(S)), four = constant(E, 4);
  Reg g, t, warp, down, across, slow, quick;
  t = ty_ptx_cut(E, S->thread, 4, &g);
  g = ty_ptx_cut(E, g, MMA_COLUMNS, &warp);
  across = ty_ptx_cut(E, warp, STAGE_SIDE / WARP_COLUMNS, &down);
  const Reg row = mad(E, down, constant(E, WARP_ROWS), g),
            column = op(E, "mul.lo", across, constant(E, WARP_COLUMNS)),
            sum = mad(E, t, constant(E, 2), column);
  quick = ty_ptx_cut(E, S->thread, STAGE_SIDE / STAGE_OWN, &slow);
  return (Fragments){.rows = mad(E, t, pitch, op(E, "mul.lo", row, four)),
                     .columns = mad(E, t, pitch, op(E, "mul.lo", op(E, "add", column, g), four)),
                     .sums = mad(E, row, pitch, op(E, "mul.lo", sum, four)),
                     .own = mad(E, op(E, "mul.lo", slow, constant(E, STAGE_OWN)), pitch,
                                op(E, "mul.lo", quick, constant(E, STAGE_OWN * 4)))};
}

static Reg fragment(Ptx *E, Reg at, i64 offset) {
  const Reg y = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "ld.shared.b32 $, [$+#]", y, at, offset);
  return y;
}

void ty_ptx_outer_mma(Ptx *E, const Stage *S, Reg rows, i64 row, Reg columns, i64 column, Own acc) {
  const i64 pitch = ty_ptx_pitch(S), half = MMA_DEPTH / 2 * pitch;
  for (int d = 0; d < S->depth; d += MMA_DEPTH) {
    const i64 at = row + d * pitch;
    const Reg a[] = {fragment(E, rows, at), fragment(E, rows, at + MMA_ROWS * 4),
                     fragment(E, rows, at + half), fragment(E, rows, at + half + MMA_ROWS * 4)};
    for (int n = 0; n < WARP_COLUMNS / MMA_COLUMNS; n++) {
      const i64 from = column + d * pitch + n * MMA_COLUMNS * 4;
      const Reg b0 = fragment(E, columns, from), b1 = fragment(E, columns, from + half),
                *c = acc[n];
      ty_ptx(
          E,
          "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$, $, $, $}, {$, $, $, $}, {$, $}, "
          "{$, $, $, $}",
          c[0], c[1], c[2], c[3], a[0], a[1], a[2], a[3], b0, b1, c[0], c[1], c[2], c[3]);
    }
  }
}

void ty_ptx_from_fragments(Ptx *E, const Stage *S, const Fragments *f, Reg square, Own acc) {
  const i64 pitch = ty_ptx_pitch(S);
  const Reg sums = op(E, "add", square, f->sums), own = op(E, "add", square, f->own);
  for (int n = 0; n < STAGE_OWN; n++)
    for (int h = 0; h < 2; h++)
      ty_ptx(E, "st.shared.v2.b32 [$+#], {$, $}", sums, h * MMA_ROWS * pitch + n * MMA_COLUMNS * 4,
             acc[n][2 * h], acc[n][2 * h + 1]);
  ty_ptx(E, "bar.sync 0");
  for (int i = 0; i < STAGE_OWN; i++) ty_ptx_four(E, S->ctype, own, i * pitch, acc[i]);
}
