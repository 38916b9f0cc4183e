/*
** ptx_reduce.c -- reductions: accumulators, nodes of the canonical tree, how lanes join.
** Blocks are complete nodes, which wait in local memory and are joined as a binary counter counts. Where rows are cut
** into groups, nodes go by way of scratch.
*/
#include "device/cuda/ptx_gen.h"

/* The reductions of a pass. */
void ty_gen_begin_accs(Gen *G, int phase) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN};
  G->nacc = 0, G->words = 0;
  for (int i = 0; i < G->p->nbody; i++) {
    const Instr *in = &G->p->body[i];
    if (!ty_ptx_is_reduce(in->op) || !G->C.class[i] || G->C.phase[i] != phase + 1) continue;
    const bool arg = ty_ptx_is_arg(in->op);
    Acc *a = &G->acc[G->nacc++];
    *a = (Acc){.instr = i, .op = arg ? in->op : joins[in->op - P_RSUM], .ctype = in->from};
    a->lanes = (u8)(G->v.each && !arg ? G->v.each : ty_ptx_lanes(G->p, in)), a->word = G->words;
    a->product = in->op == P_RSUM && in->imm == SUM_OF_PRODUCTS;
    for (int k = 0; k < a->lanes; k++) a->lane[k] = ty_ptx_value(&G->E, a->ctype);
    if (arg) a->at = ty_ptx_reg(&G->E, REG_64);
    G->words += arg ? 2 : a->lanes;
  }
}

/* at: of positions too. */
void ty_gen_clear_accs(Gen *G, bool at) {
  for (int n = 0; n < G->nacc; n++) {
    Acc *a = &G->acc[n];
    if (a->at && !at) continue;
    for (int k = 0; k < a->lanes; k++)
      set(G, a->ctype, a->lane[k], a->product ? 0 : ty_ptx_identity(a->op, a->ctype));
    if (a->at) ty_ptx(&G->E, "mov.b64 $, 0", a->at);
  }
}

static const char *name_of(int ctype) {
  static const char *const names[] = {"s32", "s64", "f32", "f64"};
  return names[ctype];
}

/* Whether e is better than b, as a predicate: a NaN is, than what is none. */
static Reg better(Gen *G, const Acc *a, Reg e, Reg b) {
  Ptx *E = &G->E;
  const Reg p = ty_ptx_reg(E, REG_PRED), nan = ty_ptx_reg(E, REG_PRED),
            number = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.~.~ $, $, $", a->op == P_RARGMAX ? "gt" : "lt", name_of(a->ctype), p, e, b);
  if (a->ctype < C_F32) return p;
  ty_ptx(E, "setp.nan.~ $, $, $", name_of(a->ctype), nan, e, e);
  ty_ptx(E, "setp.num.~ $, $, $", name_of(a->ctype), number, b, b);
  ty_ptx(E, "and.pred $, $, $", nan, nan, number);
  ty_ptx(E, "or.pred $, $, $", p, p, nan);
  return p;
}

static void take(Gen *G, const Acc *a, Reg p, Reg e, Reg at) {
  ty_ptx(&G->E, "selp.~ $, $, $, $", bits_type(a->ctype), a->lane[0], e, a->lane[0], p);
  ty_ptx(&G->E, "selp.b64 $, $, $, $", a->at, at, a->at, p);
}

/* The extreme takes in another of any place: of equal ones the first. */
static void join_arg(Gen *G, const Acc *a, Reg e, Reg at) {
  Ptx *E = &G->E;
  const Reg p = better(G, a, e, a->lane[0]), q = better(G, a, a->lane[0], e),
            first = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.lt.s64 $, $, $", first, at, a->at);
  ty_ptx(E, "not.pred $, $", q, q);
  ty_ptx(E, "and.pred $, $, $", first, first, q);
  ty_ptx(E, "or.pred $, $, $", p, p, first);
  take(G, a, p, e, at);
}

/* A product that is added by fma. */
bool ty_gen_is_fused(const Gen *G, int i) {
  for (int n = 0; n < G->nacc; n++)
    if (G->acc[n].product && G->p->body[G->acc[n].instr].a == i) return true;
  return false;
}

void ty_gen_fold(Gen *G, int sub) {
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    const Instr *of = &G->p->body[G->p->body[a->instr].a];
    const Reg lane = a->lane[sub % a->lanes], x = G->reg[of - G->p->body];
    if (a->product) {
      static const char *const how[] = {"mad.lo.s32", "mad.lo.s64", "fma.rn.f32", "fma.rn.f64"};
      ty_ptx(&G->E, "~ $, $, $, $", how[a->ctype], lane, G->reg[of->a], G->reg[of->b], lane);
      continue;
    }
    if (a->at) {
      Reg at = G->r;
      if (!G->v.wide) ty_ptx(&G->E, "cvt.u64.u32 $, $", at = ty_ptx_reg(&G->E, REG_64), G->r);
      take(G, a, better(G, a, x, a->lane[0]), x, at);
      continue;
    }
    move(G, a->ctype, lane, ty_ptx_binary(&G->E, a->op, a->ctype, lane, x));
  }
}

/* --- nodes that wait */

/* acc = waiting op acc, for the node at `at` in local memory. */
static void join_waiting(Gen *G, Reg at) {
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    for (int k = 0; k < a->lanes && !a->at; k++) {
      const Reg x = ty_ptx_value(&G->E, a->ctype);
      ty_ptx(&G->E, "ld.local.~ $, [$+#]", bits_type(a->ctype), x, at, (i64)8 * (a->word + k));
      move(G, a->ctype, a->lane[k], ty_ptx_binary(&G->E, a->op, a->ctype, x, a->lane[k]));
    }
  }
}

static Reg waiting_first(Gen *G) {
  const Reg at = ty_ptx_reg(&G->E, REG_64);
  G->E.local = TY_MAX(G->E.local, 8 * G->words * (G->v.wide ? 44 : 24));
  ty_ptx(&G->E, "mov.u64 $, waiting", at);
  return at;
}

/* Walks over the bits of n from the lowest: `all` of them that are set (the end), or those up to the first that is not. */
static void over_waiting(Gen *G, Reg n, Reg at, bool all) {
  Ptx *E = &G->E;
  const int next = ty_ptx_label(E), skip = ty_ptx_label(E), done = ty_ptx_label(E);
  const Reg bits = ty_ptx_reg(E, REG_32), bit = ty_ptx_reg(E, REG_32), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "mov.b32 $, $", bits, n);
  ty_ptx_here(E, next);
  if (all) {
    ty_ptx(E, "setp.eq.u32 $, $, 0", p, bits);
    ty_ptx(E, "@$ bra @", p, done);
  }
  ty_ptx(E, "and.b32 $, $, 1", bit, bits);
  ty_ptx(E, "setp.eq.u32 $, $, 0", p, bit);
  ty_ptx(E, "@$ bra @", p, all ? skip : done);
  join_waiting(G, at);
  if (all) ty_ptx_here(E, skip);
  ty_ptx(E, "add.s64 $, $, #", at, at, (i64)8 * G->words);
  ty_ptx(E, "shr.u32 $, $, 1", bits, bits);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, done);
}

/* A node is complete, and waits; n nodes were before it. */
void ty_gen_push_node(Gen *G, Reg n) {
  const Reg at = waiting_first(G);
  over_waiting(G, n, at, false);
  for (int k = 0; k < G->nacc; k++) {
    const Acc *a = &G->acc[k];
    for (int j = 0; j < a->lanes && !a->at; j++)
      ty_ptx(&G->E, "st.local.~ [$+#], $", bits_type(a->ctype), at, (i64)8 * (a->word + j),
             a->lane[j]);
  }
  ty_ptx(&G->E, "add.u32 $, $, 1", n, n);
}

/* The last node takes in all that waits. */
void ty_gen_pop_nodes(Gen *G, Reg n) { over_waiting(G, n, waiting_first(G), true); }

/* --- lanes */

/* The lanes of a thread. */
static Reg join_own(Gen *G, const Acc *a) {
  Ptx *E = &G->E;
  const Reg *x = a->lane;
  if (a->lanes == 1) return x[0];
  if (a->lanes == 2) return ty_ptx_binary(E, a->op, a->ctype, x[0], x[1]);
  const Reg even = ty_ptx_binary(E, a->op, a->ctype, x[0], x[2]);
  return ty_ptx_binary(E, a->op, a->ctype, even, ty_ptx_binary(E, a->op, a->ctype, x[1], x[3]));
}

/* x, joined with those of the row's other threads. */
static Reg join_threads(Gen *G, Acc *a, Reg x) {
  Ptx *E = &G->E;
  for (u64 by = (u64)row_threads(G) / 2; by && G->p->kind == K_ROW; by /= 2) {
    const Reg step = ty_ptx_const(E, C_I32, by),
              y = ty_ptx_shuffle(E, "bfly", a->ctype, x, step, 32);
    if (a->at) join_arg(G, a, y, ty_ptx_shuffle(E, "bfly", C_I64, a->at, step, 32));
    else x = ty_ptx_binary(E, a->op, a->ctype, x, y);
  }
  return x;
}

/* Lanes join, those that are farthest apart first; the values are those of the instructions. */
void ty_gen_finish_accs(Gen *G) {
  Ptx *E = &G->E;
  for (int n = 0; n < G->nacc; n++) {
    Acc *a = &G->acc[n];
    Reg x;
    if (G->v.each && !a->at) {
      for (int k = 0; k < a->lanes; k++) a->lane[k] = join_threads(G, a, a->lane[k]);
      x = join_own(G, a);
      if (a->product && G->v.threads * G->v.each < LANES(ty_ptx_wide(a->ctype) ? 8 : 4))
        x = ty_ptx_binary(E, P_ADD, a->ctype, x, ty_ptx_const(E, a->ctype, 0)); /* of empty lanes */
    } else if (G->p->kind == K_COL) x = join_own(G, a);
    else x = join_threads(G, a, join_own(G, a));
    if (a->op == P_ADD && a->ctype >= C_F32) { /* of nothing: +0 */
      const Reg p = ty_ptx_reg(E, REG_PRED), zero = ty_ptx_const(E, a->ctype, 0),
                y = ty_ptx_value(E, a->ctype);
      ty_ptx(E, "setp.eq.~ $, $, 0", G->index, p, G->r_all);
      ty_ptx(E, "selp.~ $, $, $, $", bits_type(a->ctype), y, zero, x, p);
      x = y;
    }
    G->reg[a->instr] = a->at ? a->at : x;
  }
}

/* --- nodes by way of scratch */

/* The address of this thread's words: of group `group` of unit `unit`. */
static Reg node_place(Gen *G, Reg unit, Reg group) {
  Ptx *E = &G->E;
  const Reg y = ty_ptx_reg(E, REG_64), scratch = ty_ptx_param(E, REG_64, PARAM_SCRATCH);
  const char *step = G->v.wide ? "mad.lo.u64 $, $, $, $" : "mad.wide.u32 $, $, $, $";
  const bool row = G->p->kind == K_ROW;
  const Reg n =
      row ? index_op(G, "add", index_op(G, "mul.lo", unit, index_param(G, PARAM_GROUPS)), group)
          : group;
  Reg words = index_reg(G);
  index_move(G, words, n);
  Reg each = index_reg(G);
  if (row) { /* [unit][group][word][thread] */
    ty_ptx(E, "mov.~ $, #", index_bits(G), each, (i64)8 * row_threads(G) * G->words);
    ty_ptx(E, step, y, words, each, scratch);
    ty_ptx(E, "mad.wide.u32 $, $, 8, $", y, G->lane, y);
    return y;
  }
  /* [group][word][unit] */
  each = index_op(G, "mul.lo", words, index_param(G, PARAM_COUNT));
  ty_ptx(E, "mov.~ $, #", index_bits(G), words, (i64)8 * G->words);
  ty_ptx(E, step, y, each, words, scratch);
  ty_ptx(E, "mov.~ $, 8", index_bits(G), each = index_reg(G));
  ty_ptx(E, step, y, unit, each, y);
  return y;
}

/* From word to word. */
static Reg node_step(Gen *G) {
  Ptx *E = &G->E;
  const Reg y = ty_ptx_reg(E, REG_64);
  if (G->p->kind == K_ROW) {
    ty_ptx(E, "mov.b64 $, #", y, (i64)8 * row_threads(G));
    return y;
  }
  const Reg n = ty_ptx_param(E, REG_64, PARAM_COUNT);
  ty_ptx(E, "shl.b64 $, $, 3", y, n);
  return y;
}

void ty_gen_store_node(Gen *G, Reg unit, Reg group) {
  Ptx *E = &G->E;
  const Reg at = node_place(G, unit, group), step = node_step(G);
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    for (int k = 0; k < a->lanes; k++) {
      ty_ptx(E, "st.global.~ [$], $", bits_type(a->ctype), at, a->lane[k]);
      ty_ptx(E, "add.s64 $, $, $", at, at, step);
    }
    if (!a->at) continue;
    ty_ptx(E, "st.global.b64 [$], $", at, a->at);
    ty_ptx(E, "add.s64 $, $, $", at, at, step);
  }
}

/* The node of a group: it is the thread's now, but that positions are joined at once. */
void ty_gen_load_node(Gen *G, Reg unit, Reg group) {
  Ptx *E = &G->E;
  const Reg at = node_place(G, unit, group), step = node_step(G);
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    for (int k = 0; k < a->lanes; k++) {
      const Reg x = ty_ptx_value(E, a->ctype);
      ty_ptx(E, "ld.global.~ $, [$]", bits_type(a->ctype), x, at);
      ty_ptx(E, "add.s64 $, $, $", at, at, step);
      if (a->at) {
        const Reg position = ty_ptx_reg(E, REG_64);
        ty_ptx(E, "ld.global.b64 $, [$]", position, at);
        ty_ptx(E, "add.s64 $, $, $", at, at, step);
        join_arg(G, a, x, position);
      } else move(G, a->ctype, a->lane[k], x);
    }
  }
}
