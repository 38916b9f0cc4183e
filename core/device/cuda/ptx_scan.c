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
