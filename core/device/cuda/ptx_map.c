/*
** ptx_map.c -- maps: a thread an element, or four neighbours.
*/
#include "device/cuda/ptx_gen.h"

/* Four values of an operand, to or from memory at once; at the tail those that are there. */
static void move_four(Gen *G, int operand, bool store) {
  Ptx *E = &G->E;
  const int dtype = G->p->operand[operand].dtype, ctype = ty_dtypes[dtype].ctype;
  const Reg first = ty_gen_row_place(G, operand);
  Reg *v = G->four[operand], each[FOUR];
  const int all = ty_ptx_label(E), done = ty_ptx_label(E);
  if (G->v.four == FOUR_TAIL) {
    ty_ptx(E, "@$ bra @", G->all, all);
    for (G->part = 0; G->part < FOUR; G->part++) {
      E->guard = G->there[G->part];
      if (store) ty_ptx_store(E, dtype, ty_gen_part_place(G, operand), v[G->part]);
      else each[G->part] = ty_ptx_load(E, dtype, ty_gen_part_place(G, operand));
      G->place[operand] = 0;
    }
    E->guard = 0;
    ty_ptx(E, "bra @", done);
    ty_ptx_here(E, all);
  }
  if (store) ty_ptx_store_vector(E, dtype, first, FOUR, v);
  else ty_ptx_load_vector(E, dtype, first, FOUR, v);
  if (G->v.four == FOUR_TAIL) {
    for (int i = 0; i < FOUR && !store; i++) move(G, ctype, each[i], v[i]);
    ty_ptx_here(E, done);
    if (!store) memcpy(v, each, sizeof each);
  }
}

/* Four neighbours: all loads first, then each by itself, then the stores. */
static void four_elements(Gen *G, Reg i) {
  Ptx *E = &G->E;
  const Program *p = G->p;
  if (G->v.four == FOUR_TAIL) {
    const Reg four = index_reg(G), first = index_reg(G);
    ty_ptx(E, "mov.~ $, 4", index_bits(G), four);
    index_move(G, first, index_op(G, "mul.lo", i, four));
    for (int k = 0; k < FOUR; k++) {
      const Reg own = index_reg(G);
      ty_ptx(E, "add.~ $, $, #", G->index, own, first, (i64)k);
      ty_ptx(E, "setp.lt.~ $, $, $", G->index, G->there[k] = ty_ptx_reg(E, REG_PRED), own,
             G->r_all);
    }
    G->all = G->there[FOUR - 1];
  }
  memset(G->place, 0, sizeof G->place);
  for (int k = 0; k < p->nbody; k++)
    if (p->body[k].op == P_LOAD && G->need[k] && is_flat(G, (int)p->body[k].imm))
      move_four(G, (int)p->body[k].imm, false);
  for (int part = 0; part < FOUR; part++) {
    G->part = part;
    E->guard = G->v.four == FOUR_TAIL ? G->there[part] : 0;
    ty_gen_element(G, 0);
    E->guard = 0;
  }
  for (int k = 0; k < p->nbody; k++)
    if (p->body[k].op == P_STORE && G->C.class[k]) move_four(G, (int)p->body[k].imm, true);
}

void ty_gen_map_kernel(Gen *G) {
  Ptx *E = &G->E;
  Reg i, step;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  ty_gen_number(G, 0, &i, &step);
  ty_ptx_here(E, next);
  jump(G, "ge", i, G->count, out);
  ty_gen_decompose(G, i, 0, G->l.nd - (G->v.four != FOUR_NONE));
  ty_gen_begin_unit(G);
  ty_gen_need(G, 0);
  if (G->v.four) four_elements(G, i);
  else ty_gen_element(G, 0);
  ty_ptx(E, "add.~ $, $, $", G->index, i, i, step);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}
