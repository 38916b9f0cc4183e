/*
** ptx_scan_step.c -- a scan's instruction: a warp's 32 elements, behind what has come before them.
*/
#include "device/cuda/ptx_gen.h"

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
