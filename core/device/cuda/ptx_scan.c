/*
** ptx_scan.c -- scans: a warp goes along a row, 32 elements at a time, as two groups of 16.
** Long rows are cut into blocks, by three kernels: what each block comes to (TOTALS), what comes before it (OFFSETS), the
** elements (SCAN).
*/
#include "device/cuda/ptx_gen.h"

void ty_gen_begin_scans(Gen *G) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN, P_MAX, P_ADD};
  G->nscan = 0;
  for (int i = 0; i < G->p->nbody; i++) {
    const Instr *in = &G->p->body[i];
    if (!ty_ptx_is_scan(in->op) || !G->C.class[i]) continue;
    const bool linear = in->op == P_SLIN;
    const int ctype = linear ? C_F64 : in->type;
    Scan *s = &G->scan[G->nscan++];
    *s = (Scan){i, ty_ptx_value(&G->E, ctype), ty_ptx_value(&G->E, ctype)};
    const u64 none = linear ? 0 : ty_ptx_identity(joins[in->op - P_SSUM], ctype);
    set(G, ctype, s->carry, none);
    set(G, ctype, s->offset, none);
  }
}

/* s = fma(s, a, b), one element after another; each thread keeps its own. */
static Reg scan_linear(Gen *G, const Scan *s, const Instr *in) {
  Ptx *E = &G->E;
  Reg a = G->reg[in->a], b = G->reg[in->b];
  if (in->type == C_F32) {
    const Reg a8 = ty_ptx_reg(E, REG_64), b8 = ty_ptx_reg(E, REG_64);
    ty_ptx(E, "cvt.f64.f32 $, $", a8, a);
    ty_ptx(E, "cvt.f64.f32 $, $", b8, b);
    a = a8, b = b8;
  }
  const Reg j = ty_ptx_reg(E, REG_32), own = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED);
  const int next = ty_ptx_label(E);
  ty_ptx(E, "mov.b32 $, 0", j);
  ty_ptx(E, "mov.b64 $, 0", own);
  ty_ptx_here(E, next);
  const Reg aj = ty_ptx_shuffle(E, "idx", C_F64, a, j, 32),
            bj = ty_ptx_shuffle(E, "idx", C_F64, b, j, 32);
  ty_ptx(E, "fma.rn.f64 $, $, $, $", s->carry, s->carry, aj, bj);
  ty_ptx(E, "setp.eq.u32 $, $, $", p, j, G->lane);
  ty_ptx(E, "selp.b64 $, $, $, $", own, s->carry, own, p);
  ty_ptx(E, "add.u32 $, $, 1", j, j);
  ty_ptx(E, "setp.lt.u32 $, $, 32", p, j);
  ty_ptx(E, "@$ bra @", p, next);
  if (in->type == C_F64) return own;
  const Reg y = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "cvt.rn.f32.f64 $, $", y, own);
  return y;
}

/* Two groups of 16, side by side; then the first one's end goes into the second. */
void ty_gen_emit_scan(Gen *G, int i) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN, P_MAX};
  const Instr *in = &G->p->body[i];
  Ptx *E = &G->E;
  const Scan *s = G->scan;
  while (s->instr != i) s++;
  if (in->op == P_SLIN) {
    G->reg[i] = scan_linear(G, s, in);
    return;
  }
  const int ctype = in->type, op = joins[in->op - P_SSUM];
  const char *bits = bits_type(ctype);
  const Reg none = ty_ptx_const(E, ctype, ty_ptx_identity(op, ctype)), v = ty_ptx_value(E, ctype),
            low = ty_ptx_reg(E, REG_32), p = ty_ptx_reg(E, REG_PRED),
            upper = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "selp.~ $, $, $, $", bits, v, G->reg[in->a], none, E->guard);
  ty_ptx(E, "and.b32 $, $, 15", low, G->lane);
  ty_ptx(E, "setp.ge.u32 $, $, 16", upper, G->lane);
  for (u64 by = 1; by < 16; by *= 2) {
    const Reg step = ty_ptx_const(E, C_I32, by), up = ty_ptx_shuffle(E, "up", ctype, v, step, 16),
              sum = ty_ptx_binary(E, op, ctype, up, v);
    ty_ptx(E, "setp.ge.u32 $, $, $", p, low, step);
    ty_ptx(E, "selp.~ $, $, $, $", bits, v, sum, v, p);
  }
  const Reg first = ty_ptx_binary(E, op, ctype, s->carry, v),
            between = ty_ptx_shuffle(E, "idx", ctype, first, ty_ptx_const(E, C_I32, 15), 32),
            second = ty_ptx_binary(E, op, ctype, between, v), all = ty_ptx_value(E, ctype);
  ty_ptx(E, "selp.~ $, $, $, $", bits, all, second, first, upper);
  const Reg end = ty_ptx_shuffle(E, "idx", ctype, all, ty_ptx_const(E, C_I32, 31), 32);
  if (in->op == P_SMAXX) {
    const Reg before = ty_ptx_shuffle(E, "up", ctype, all, ty_ptx_const(E, C_I32, 1), 32),
              y = ty_ptx_value(E, ctype);
    ty_ptx(E, "setp.eq.u32 $, $, 0", p, G->lane);
    ty_ptx(E, "selp.~ $, $, $, $", bits, y, s->carry, before, p);
    G->reg[i] = G->v.mode == MODE_SCAN ? ty_ptx_binary(E, op, ctype, s->offset, y) : y;
  } else G->reg[i] = ty_ptx_binary(E, op, ctype, s->offset, all);
  move(G, ctype, s->carry, end);
}

/* Sums and products of floats begin anew, on top of what the blocks before came to. */
static void end_scan_block(Gen *G) {
  for (int n = 0; n < G->nscan; n++) {
    const Scan *s = &G->scan[n];
    const Instr *in = &G->p->body[s->instr];
    if (in->op > P_SPROD || in->type < C_F32) continue;
    const int op = in->op == P_SSUM ? P_ADD : P_MUL;
    move(G, in->type, s->offset, ty_ptx_binary(&G->E, op, in->type, s->offset, s->carry));
    set(G, in->type, s->carry, ty_ptx_identity(op, in->type));
  }
}

/* The same of a scan: all threads of the warp go along. Blocks end in a row that is not cut. */
void ty_gen_scan_elements(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  const Reg base = index_reg(G), lane = index_of(G, G->lane), p = ty_ptx_reg(E, REG_PRED);
  const Reg last = index_reg(G), mask = index_reg(G);
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  index_move(G, base, from);
  ty_ptx(E, "mov.~ $, #", index_bits(G), mask, (i64)BLOCK - 1);
  ty_ptx_here(E, next);
  jump(G, "ge", base, to, out);
  G->r = index_op(G, "add", base, lane);
  ty_ptx(E, "setp.lt.~ $, $, $", G->index, p, G->r, to);
  E->guard = p;
  ty_gen_decompose(G, G->r, G->v.no, G->v.no + G->v.nr);
  ty_gen_element(G, 0);
  E->guard = 0;
  ty_ptx(E, "add.~ $, $, 32", G->index, base, base);
  if (G->v.mode == MODE_WHOLE) {
    const Reg q = ty_ptx_reg(E, REG_PRED);
    ty_ptx(E, "and.~ $, $, $", index_bits(G), last, base, mask);
    ty_ptx(E, "setp.ne.~ $, $, 0", G->index, q, last);
    ty_ptx(E, "@$ bra @", q, next);
    end_scan_block(G);
  }
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

/* --- rows that are cut */

/* Where scratch has the numbers of a row's block, 8 bytes for each scan; *step: from block to block. */
static Reg scan_place(Gen *G, Reg unit, Reg group, i64 *step) {
  Ptx *E = &G->E;
  const Reg at = index_op(G, "add", index_op(G, "mul.lo", unit, index_param(G, PARAM_GROUPS)),
                          group),
            y = ty_ptx_reg(E, REG_64);
  *step = (i64)8 * G->nscan;
  ty_ptx(E, G->v.wide ? "mad.lo.s64 $, $, #, $" : "mad.wide.u32 $, $, #, $", y, at, *step,
         ty_ptx_param(E, REG_64, PARAM_SCRATCH));
  return y;
}

/* A block of a row: TOTALS stores what its scans come to, SCAN begins with what the blocks before came to. */
void ty_gen_scan_unit(Gen *G, Reg unit, Reg group) {
  Ptx *E = &G->E;
  const Reg size = index_reg(G);
  i64 step;
  ty_ptx(E, "mov.~ $, #", index_bits(G), size, (i64)BLOCK);
  const Reg from = index_op(G, "mul.lo", group, size),
            to = index_op(G, "min", G->r_all, index_op(G, "add", from, size));
  ty_gen_emit_class(G, CLASS_ROW, 0);
  ty_gen_begin_scans(G);
  const Reg at = scan_place(G, unit, group, &step);
  if (G->v.mode == MODE_TOTALS) ty_gen_need_of_scans(G);
  else {
    ty_gen_need(G, 0);
    for (int n = 0; n < G->nscan; n++)
      ty_ptx(E, "ld.global.~ $, [$+#]", bits_type(G->p->body[G->scan[n].instr].type),
             G->scan[n].offset, at, (i64)8 * n);
  }
  ty_gen_scan_elements(G, from, to);
  for (int n = 0; n < G->nscan && G->v.mode == MODE_TOTALS; n++)
    ty_ptx(E, "@$ st.global.~ [$+#], $", G->one_lane, bits_type(G->p->body[G->scan[n].instr].type),
           at, (i64)8 * n, G->scan[n].carry);
}

/* A row's totals become what comes before each block, one after another; AHEAD of them are read at a time. */
void ty_gen_offsets_unit(Gen *G, Reg unit) {
  enum { AHEAD = 16 };
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN, P_MAX};
  Ptx *E = &G->E;
  const Reg groups = index_param(G, PARAM_GROUPS);
  ty_gen_begin_scans(G);
  for (int n = 0; n < G->nscan; n++) {
    const Scan *s = &G->scan[n];
    const Instr *in = &G->p->body[s->instr];
    const char *bits = bits_type(in->type);
    const int next = ty_ptx_label(E), out = ty_ptx_label(E);
    const Reg group = index_reg(G), zero = zero_index(G);
    i64 step;
    Reg at = ty_ptx_reg(E, REG_64), there[AHEAD], total[AHEAD];
    index_move(G, group, zero);
    ty_ptx(E, "add.s64 $, $, #", at, scan_place(G, unit, zero, &step), (i64)8 * n);
    ty_ptx_here(E, next);
    jump(G, "ge", group, groups, out);
    for (int k = 0; k < AHEAD; k++) {
      const Reg own = index_reg(G);
      ty_ptx(E, "add.~ $, $, #", G->index, own, group, (i64)k);
      ty_ptx(E, "setp.lt.~ $, $, $", G->index, there[k] = ty_ptx_reg(E, REG_PRED), own, groups);
      set(G, in->type, total[k] = ty_ptx_value(E, in->type), 0);
      ty_ptx(E, "@$ ld.global.~ $, [$+#]", there[k], bits, total[k], at, k * step);
    }
    for (int k = 0; k < AHEAD; k++) {
      ty_ptx(E, "@$ st.global.~ [$+#], $", there[k], bits, at, k * step, s->offset);
      move(G, in->type, s->offset,
           ty_ptx_binary(E, joins[in->op - P_SSUM], in->type, s->offset, total[k]));
    }
    ty_ptx(E, "add.~ $, $, #", G->index, group, group, (i64)AHEAD);
    ty_ptx(E, "add.s64 $, $, #", at, at, AHEAD * step);
    ty_ptx(E, "bra @", next);
    ty_ptx_here(E, out);
  }
}
