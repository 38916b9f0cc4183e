/*
** ptx_program.c -- loop programs as PTX kernels.
** In:  a program, and what is known of its launches.  Out: a module. Fails when out of memory alone.
**
** How a domain is shared out:
**   map      a thread an element, or four where what is stored lies in aligned groups of four, and on by all threads of the
**            grid; where operands lie across what is stored, a block of threads a tile (ptx_turn.c)
**   rows     half a warp a row, fewer threads for a short one: thread t has elements 4 t .. 4 t + 3 of every 64, or two of every
**            32 where a lane of the canonical order is 8 bytes, by accesses of 16 bytes. Where memory does not lie so, a warp a
**            row: thread t has the elements t and t + 32 of every 64. Passes over the row compute anew what they need.
**   columns  a thread a column, going down R by the four lanes
**   scans    a warp a row, 32 elements at a time: two groups of 16. Where rows are few and long, three kernels: a warp a
**            block for what the block comes to, a thread a row for what comes before each block, a warp a block again
** The canonical order (device/cpu/tile.c) holds throughout: blocks of BLOCK elements (COL_BLOCK rows) are complete
** nodes, which wait in local memory and are joined as a binary counter counts; lanes join last.
** PART and FINISH do the same in two kernels, where rows are few and long: groups are subtrees, their nodes go by way
** of scratch.
** Stores come last, so that an output may be an operand's memory: an element is read by the thread that writes it.
*/
#include "device/cuda/ptx_gen.h"

static void reduce_kernel(Gen *G) {
  Ptx *E = &G->E;
  Reg i, step, units = G->count, unit, group = 0;
  const Mode mode = G->v.mode;
  const bool row = G->p->kind == K_ROW,
             cut = mode == MODE_PART || mode == MODE_TOTALS || mode == MODE_SCAN;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  ty_gen_number(G, row && mode != MODE_OFFSETS ? __builtin_ctz((u32)row_threads(G)) : 0, &i, &step);
  if (row && mode != MODE_OFFSETS)
    ty_ptx(E, "setp.eq.u32 $, $, 0", G->one_lane = ty_ptx_reg(E, REG_PRED), G->lane);
  if (cut) units = index_op(G, "mul.lo", units, index_param(G, PARAM_GROUPS));
  ty_ptx_here(E, next);
  jump(G, "ge", i, units, out);
  unit = i;
  if (cut) { /* neighbours have the same group: columns are read side by side */
    const Reg n = row ? index_param(G, PARAM_GROUPS) : G->count, q = index_op(G, "div", i, n),
              rest = index_op(G, "sub", i, index_op(G, "mul.lo", q, n));
    unit = row ? q : rest, group = row ? rest : q;
  }
  Reg o = unit;
  if (!row) {
    const Reg n = index_param(G, PARAM_I);
    o = index_op(G, "div", unit, n);
    ty_gen_decompose(G, index_op(G, "sub", unit, index_op(G, "mul.lo", o, n)), G->v.no + G->v.nr,
                     G->l.nd);
  }
  ty_gen_decompose(G, o, 0, G->v.no);
  ty_gen_begin_unit(G);
  switch (mode) {
  case MODE_PART: ty_gen_part_unit(G, unit, group); break;
  case MODE_FINISH: ty_gen_finish_unit(G, unit); break;
  case MODE_TOTALS:
  case MODE_SCAN: ty_gen_scan_unit(G, unit, group); break;
  case MODE_OFFSETS: ty_gen_offsets_unit(G, unit); break;
  default: ty_gen_whole_unit(G), ty_gen_row_stores(G);
  }
  ty_ptx(E, "add.~ $, $, $", G->index, i, i, step);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

Text ty_ptx_program(const Program *p, const Variant *v) {
  Gen *G = ty_mem_zalloc(sizeof *G);
  if (!G) return (Text){.failed = true};
  G->p = p, G->v = *v, G->l = ty_ptx_layout(p, v);
  G->index = v->wide ? "s64" : "u32";
  ty_ptx_classify(p, &G->C);
  const int end = ty_ptx_begin(&G->E);
  G->count = index_param(G, PARAM_COUNT);
  G->r_all = index_param(G, PARAM_R);
  for (int i = 0; i < p->nbody; i++)
    if (G->C.class[i] == CLASS_UNIFORM) ty_gen_emit(G, i);
  if (v->turn) ty_gen_turn_kernel(G);
  else if (p->kind == K_MAP) ty_gen_map_kernel(G);
  else reduce_kernel(G);
  G->E.blocks = ty_ptx_live(p, &G->C) <= LIVE_MOST ? PROGRAM_BLOCKS : PROGRAM_BLOCKS - 1;
  const Text t = ty_ptx_end(&G->E, end, G->l.bytes, PROGRAM_THREADS);
  ty_mem_free(G);
  return t;
}
