/*
** ptx_row.c -- rows and columns: passes over their elements, block by block.
*/
#include "device/cuda/ptx_gen.h"

/* Elements [from, to) of a row, which begin with lane 0. */
static void row_elements(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  const Reg base = index_reg(G), lane = index_of(G, G->lane);
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  index_move(G, base, from);
  ty_ptx_here(E, next);
  jump(G, "ge", base, to, out);
  for (int sub = 0; sub < 2; sub++) {
    const int skip = ty_ptx_label(E);
    G->r = index_op(G, "add", base, lane);
    jump(G, "ge", G->r, to, skip);
    ty_gen_decompose(G, G->r, G->v.no, G->v.no + G->v.nr);
    ty_gen_element(G, sub);
    ty_ptx_here(E, skip);
    ty_ptx(E, "add.~ $, $, 32", G->index, base, base);
  }
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

/* The same by neighbours, `each` a thread: loads of all of them first, stores of all of them last. */
static void row_parts(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  const Program *p = G->p;
  const int each = G->v.each, next = ty_ptx_label(E), out = ty_ptx_label(E), skip = ty_ptx_label(E);
  const Reg base = index_reg(G), own = index_reg(G), first = index_reg(G);
  ty_ptx(E, "mov.~ $, #", index_bits(G), own, (i64)each);
  const Reg lane = index_op(G, "mul.lo", index_of(G, G->lane), own);
  index_move(G, base, from);
  ty_ptx_here(E, next);
  jump(G, "ge", base, to, out);
  ty_ptx(E, "add.~ $, $, $", G->index, first, base, lane);
  jump(G, "ge", first, to, skip);
  ty_gen_decompose(G, first, G->v.no, G->v.no + G->v.nr);
  memset(G->first, 0, sizeof G->first);
  G->part = 0;
  for (int k = 0; k < p->nbody; k++) {
    const int o = (int)p->body[k].imm;
    if (p->body[k].op == P_LOAD && G->need[k] && G->C.class[k] == CLASS_ELEM && is_flat(G, o))
      ty_ptx_load_vector(E, p->operand[o].dtype, ty_gen_part_place(G, o), each, G->four[o]);
  }
  for (G->part = 0; G->part < each; G->part++) {
    ty_ptx(E, "add.~ $, $, #", G->index, G->r = index_reg(G), first, (i64)G->part);
    ty_gen_element(G, G->part);
  }
  G->part = 0;
  for (int k = 0; k < p->nbody; k++) {
    const int o = (int)p->body[k].imm;
    if (p->body[k].op == P_STORE && G->need[k] && G->C.class[k] == CLASS_ELEM && is_flat(G, o))
      ty_ptx_store_vector(E, p->operand[o].dtype, ty_gen_part_place(G, o), each, G->four[o]);
  }
  ty_ptx_here(E, skip);
  ty_ptx(E, "add.~ $, $, #", G->index, base, base, (i64)each * G->v.threads);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

/* Rows [from, to) of a column, which begin with lane 0. */
static void column_elements(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  const Reg base = index_reg(G);
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  index_move(G, base, from);
  ty_ptx_here(E, next);
  for (int sub = 0; sub < COL_LANES; sub++) {
    jump(G, "ge", base, to, out);
    G->r = base;
    ty_gen_decompose(G, base, G->v.no, G->v.no + G->v.nr);
    ty_gen_element(G, sub);
    ty_ptx(E, "add.~ $, $, 1", G->index, base, base);
  }
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

static void elements(Gen *G, Reg from, Reg to) {
  if (G->v.each) row_parts(G, from, to);
  else if (G->p->kind == K_ROW) row_elements(G, from, to);
  else column_elements(G, from, to);
}

/* Elements [from, to), block by block: the accumulators hold the node of all. */
static void blocks(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  ty_gen_clear_accs(G, true);
  if (G->v.one || !G->nacc) { /* nothing waits */
    elements(G, from, to);
    return;
  }
  const Reg at = index_reg(G), end = index_reg(G), n = ty_ptx_reg(E, REG_32), size = index_reg(G);
  const int next = ty_ptx_label(E), last = ty_ptx_label(E);
  ty_ptx(E, "mov.b32 $, 0", n);
  ty_ptx(E, "mov.~ $, #", index_bits(G), size, block_size(G));
  index_move(G, at, from);
  ty_ptx_here(E, next);
  index_move(G, end, index_op(G, "min", to, index_op(G, "add", at, size)));
  elements(G, at, end);
  jump(G, "ge", end, to, last);
  ty_gen_push_node(G, n);
  ty_gen_clear_accs(G, false);
  index_move(G, at, end);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, last);
  ty_gen_pop_nodes(G, n);
}

/* Passes over a row or column: reductions, what follows them, stores. */
void ty_gen_whole_unit(Gen *G) {
  ty_gen_emit_class(G, CLASS_ROW, 0);
  for (int phase = 0; phase < G->C.phases; phase++) {
    ty_gen_need(G, phase);
    ty_gen_begin_accs(G, phase);
    if (G->C.scans) ty_gen_begin_scans(G), ty_gen_scan_elements(G, zero_index(G), G->r_all);
    else blocks(G, zero_index(G), G->r_all);
    ty_gen_finish_accs(G);
    ty_gen_emit_class(G, CLASS_ROW, phase + 1);
  }
}

/* The group's part of R, from its number. */
void ty_gen_part_unit(Gen *G, Reg unit, Reg group) {
  const Reg size = index_reg(G);
  ty_ptx(&G->E, "mov.~ $, #", index_bits(G), size, block_size(G));
  const Reg each = index_op(G, "mul.lo", size, index_param(G, PARAM_GROUP)),
            from = index_op(G, "mul.lo", group, each),
            to = index_op(G, "min", G->r_all, index_op(G, "add", from, each));
  ty_gen_emit_class(G, CLASS_ROW, 0);
  ty_gen_need(G, 0);
  ty_gen_begin_accs(G, 0);
  blocks(G, from, to);
  ty_gen_store_node(G, unit, group);
}

void ty_gen_finish_unit(Gen *G, Reg unit) {
  Ptx *E = &G->E;
  const int next = ty_ptx_label(E), last = ty_ptx_label(E);
  const Reg group = zero_index(G), groups = index_param(G, PARAM_GROUPS), n = ty_ptx_reg(E, REG_32);
  ty_gen_emit_class(G, CLASS_ROW, 0);
  ty_gen_begin_accs(G, 0);
  ty_gen_clear_accs(G, true);
  ty_ptx(E, "mov.b32 $, 0", n);
  ty_ptx_here(E, next);
  ty_gen_load_node(G, unit, group);
  ty_ptx(E, "add.~ $, $, 1", G->index, group, group);
  jump(G, "ge", group, groups, last);
  ty_gen_push_node(G, n);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, last);
  ty_gen_pop_nodes(G, n);
  ty_gen_finish_accs(G);
  ty_gen_emit_class(G, CLASS_ROW, 1);
  ty_gen_row_stores(G);
}
