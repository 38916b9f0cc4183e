/*
** ptx_body.c -- a loop program's body as PTX: which elements a thread has, where operands' elements lie, and the values of
** instructions.
*/
#include "device/cuda/ptx_gen.h"

static Reg special(Gen *G, const char *name) {
  const Reg y = ty_ptx_reg(&G->E, REG_32);
  ty_ptx(&G->E, "mov.u32 $, %~", y, name);
  return y;
}

void ty_gen_number(Gen *G, int shift, Reg *first, Reg *step) {
  Ptx *E = &G->E;
  const Reg t = special(G, "tid.x"), b = special(G, "ctaid.x"), n = special(G, "nctaid.x"),
            own = ty_ptx_reg(E, REG_32);
  const i64 each = PROGRAM_THREADS >> shift;
  ty_ptx(E, "shr.u32 $, $, #", own, t, (i64)shift);
  ty_ptx(E, "and.b32 $, $, #", G->lane = ty_ptx_reg(E, REG_32), t, (1ll << shift) - 1);
  const Reg by = index_reg(G);
  ty_ptx(E, "mov.~ $, #", index_bits(G), by, each);
  *step = index_op(G, "mul.lo", index_of(G, n), by);
  const Reg at = index_op(G, "add", index_op(G, "mul.lo", index_of(G, b), by), index_of(G, own));
  *first = index_reg(G);
  index_move(G, *first, at);
}

/* Coordinates along dims [from, to) of a number that counts over them. */
void ty_gen_decompose(Gen *G, Reg number, int from, int to) {
  for (int d = to - 1; d > from; d--) {
    const Reg n = index_param(G, G->l.dims + 8 * d), q = index_op(G, "div", number, n);
    G->coord[d] = index_op(G, "sub", number, index_op(G, "mul.lo", q, n));
    number = q;
  }
  if (from < to) G->coord[from] = number;
}

/* base + coordinates along [from, to) times the operand's strides. */
static Reg place_along(Gen *G, int operand, Reg base, int from, int to) {
  for (int d = from; d < to; d++) {
    const i32 at = G->l.strides + 8 * (operand * G->l.nd + d);
    const Reg stride = index_param(G, at), y = ty_ptx_reg(&G->E, REG_64);
    ty_ptx(&G->E, G->v.wide ? "mad.lo.s64 $, $, $, $" : "mad.wide.s32 $, $, $, $", y, G->coord[d],
           stride, base);
    base = y;
  }
  return base;
}

Reg ty_gen_row_place(Gen *G, int operand) {
  Reg *at = &G->row_place[operand];
  if (*at) return *at;
  const int no = G->v.no, nr = G->v.nr;
  *at = place_along(G, operand, ty_ptx_param(&G->E, REG_64, PARAM_OPERANDS + 8 * operand), 0, no);
  return *at = place_along(G, operand, *at, no + nr, G->l.nd - (G->v.four != FOUR_NONE));
}

/* Of neighbours the one at hand. Those of a map have a dim of their own, the last; those of a row go along R's last. */
Reg ty_gen_part_place(Gen *G, int operand) {
  const bool row = G->p->kind == K_ROW;
  const int no = G->v.no, nr = G->v.nr, dim = row ? no + nr - 1 : G->l.nd - 1;
  Reg first = ty_gen_row_place(G, operand), *at = &G->place[operand];
  if (row) {
    if (!G->first[operand]) G->first[operand] = place_along(G, operand, first, no, no + nr);
    first = G->first[operand];
  }
  if (!G->part) return first;
  if (*at) return *at;
  const i32 stride = G->l.strides + 8 * (operand * G->l.nd + dim);
  *at = ty_ptx_reg(&G->E, REG_64);
  ty_ptx(&G->E, "mad.lo.s64 $, $, #, $", *at, ty_ptx_param(&G->E, REG_64, stride), (i64)G->part,
         first);
  return *at;
}

static Reg place(Gen *G, const Instr *in, bool elem) {
  const int operand = (int)in->imm;
  if (by_parts(G) && (elem || G->v.four)) return ty_gen_part_place(G, operand);
  if (!elem || G->p->kind == K_MAP) return ty_gen_row_place(G, operand);
  Reg *at = &G->place[operand];
  return *at ? *at
             : (*at = place_along(G, operand, ty_gen_row_place(G, operand), G->v.no,
                                  G->v.no + G->v.nr));
}

/* What is new for each unit of work, whose coordinates are there: all of it, before anything branches. */
void ty_gen_begin_unit(Gen *G) {
  memset(G->row_place, 0, sizeof G->row_place);
  for (int o = 0; o < G->p->noperands; o++) ty_gen_row_place(G, o);
}

/* --- values */

void ty_gen_emit(Gen *G, int i) {
  const Instr *in = &G->p->body[i];
  Ptx *E = &G->E;
  const bool elem = G->C.class[i] == CLASS_ELEM;
  const Reg a = in->a < 0 ? 0 : G->reg[in->a], b = in->b < 0 ? 0 : G->reg[in->b];
  switch (in->op) {
  case P_CONST: G->reg[i] = ty_ptx_const(E, in->type, in->imm); return;
  case P_SCALAR:
    G->reg[i] =
        ty_ptx_param(E, ty_ptx_wide(in->type) ? REG_64 : REG_32, G->l.scalars + 8 * (i32)in->imm);
    return;
  case P_IOTA: G->reg[i] = place(G, in, elem); return;
  case P_LOAD:
    if (elem && is_flat(G, (int)in->imm)) {
      G->reg[i] = G->four[in->imm][G->part];
      return;
    }
    if (elem && by_parts(G) && G->part && G->v.same >> in->imm & 1) return; /* as the first one's */
    G->reg[i] = ty_ptx_load(E, G->p->operand[in->imm].dtype, place(G, in, elem));
    return;
  case P_GLOAD: {
    const Reg step = ty_ptx_param(E, REG_64, G->l.gstrides + 8 * (i32)in->imm),
              at = ty_ptx_reg(E, REG_64);
    ty_ptx(E, "mad.lo.s64 $, $, $, $", at, a, step, place(G, in, elem));
    G->reg[i] = ty_ptx_load(E, G->p->operand[in->imm].dtype, at);
    return;
  }
  case P_STORE:
    if (elem && is_flat(G, (int)in->imm)) {
      G->four[in->imm][G->part] = a;
      return;
    }
    ty_ptx_store(E, G->p->operand[in->imm].dtype, place(G, in, elem), a);
    return;
  default: break;
  }
  if (ty_ptx_is_scan(in->op)) ty_gen_emit_scan(G, i);
  else
    G->reg[i] = ty_ptx_primitive(E, in, in->a < 0 ? 0 : G->p->body[in->a].type, a, b,
                                 in->c < 0 ? 0 : G->reg[in->c]);
}

void ty_gen_emit_class(Gen *G, int class, int phase) {
  for (int i = 0; i < G->p->nbody; i++) {
    const int op = G->p->body[i].op;
    if (G->C.class[i] == class && G->C.phase[i] == phase && op != P_STORE && !ty_ptx_is_reduce(op))
      ty_gen_emit(G, i);
  }
}

/* What a pass must compute of each element: for its reductions and, in the last one, for stores. */
void ty_gen_need(Gen *G, int phase) {
  const Program *p = G->p;
  memset(G->need, 0, sizeof G->need);
  for (int i = p->nbody - 1; i >= 0; i--) {
    const Instr *in = &p->body[i];
    bool sink = ty_ptx_is_reduce(in->op) && G->C.class[i] && G->C.phase[i] == phase + 1;
    sink |= in->op == P_STORE && G->C.class[i] == CLASS_ELEM && phase == G->C.phases - 1;
    G->need[i] |= sink;
    if (!sink && (!G->need[i] || G->C.class[i] != CLASS_ELEM)) continue;
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3; k++)
      if (ops[k] >= 0) G->need[ops[k]] = true;
  }
}

/* What scans of a row need of each element: their operands alone. */
void ty_gen_need_of_scans(Gen *G) {
  memset(G->need, 0, sizeof G->need);
  for (int i = G->p->nbody - 1; i >= 0; i--) {
    const Instr *in = &G->p->body[i];
    G->need[i] |= ty_ptx_is_scan(in->op) && G->C.class[i];
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3 && G->need[i]; k++)
      if (ops[k] >= 0) G->need[ops[k]] = true;
  }
}

/* One element: its coordinates are there. sub: the lane that its thread adds it to. */
void ty_gen_element(Gen *G, int sub) {
  memset(G->place, 0, sizeof G->place);
  for (int i = 0; i < G->p->nbody; i++)
    if (G->need[i] && G->C.class[i] == CLASS_ELEM && G->p->body[i].op != P_STORE &&
        !ty_gen_is_fused(G, i))
      ty_gen_emit(G, i);
  ty_gen_fold(G, sub);
  for (int i = 0; i < G->p->nbody; i++)
    if (G->need[i] && G->C.class[i] == CLASS_ELEM && G->p->body[i].op == P_STORE) ty_gen_emit(G, i);
}

void ty_gen_row_stores(Gen *G) {
  G->E.guard = G->one_lane;
  for (int i = 0; i < G->p->nbody; i++)
    if (G->p->body[i].op == P_STORE && G->C.class[i] == CLASS_ROW) ty_gen_emit(G, i);
  G->E.guard = 0;
}
