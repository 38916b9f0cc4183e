/*
** ptx_each.h -- kernels whose threads share out numbers: what they begin and end with.
*/
#ifndef TY_PTX_EACH_H
#define TY_PTX_EACH_H

#include "device/cuda/ptx_address.h"

/* Each thread of the grid takes numbers below the parameter at `count`. */
typedef struct Each {
  Ptx E;
  int end, next, threads;
  Reg number, step;
} Each;

static inline Reg copy_of(Ptx *E, Reg from) {
  const Reg y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.b64 $, $", y, from);
  return y;
}

static inline Reg number_of(Ptx *E, i64 v) { return ty_ptx_const(E, C_I64, (u64)v); }

static inline Reg at_element(Ptx *E, Reg base, Reg number, int bytes) {
  return mad(E, number, number_of(E, bytes), base);
}

/* To the label where a is so to b, both signed. */
static inline void branch(Ptx *E, const char *how, Reg a, Reg b, int label) {
  const Reg p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.~.s64 $, $, $", how, p, a, b);
  ty_ptx(E, "@$ bra @", p, label);
}

/* blocks: numbers are those of blocks, not of threads. */
static inline void each_begin(Each *e, i32 count, int threads, bool blocks) {
  Ptx *E = &e->E;
  memset(e, 0, sizeof *e);
  e->threads = threads;
  e->end = ty_ptx_begin(E);
  e->next = ty_ptx_label(E);
  e->number = ty_ptx_reg(E, REG_64), e->step = ty_ptx_reg(E, REG_64);
  const Reg n = param(E, count);
  if (blocks) {
    ty_ptx(E, "mov.b64 $, $", e->number, special_of(E, "ctaid.x"));
    ty_ptx(E, "mov.b64 $, $", e->step, special_of(E, "nctaid.x"));
  } else ty_ptx_number(E, threads, e->number, e->step);
  ty_ptx_here(E, e->next);
  branch(E, "ge", e->number, n, e->end);
}

static inline Text each_end(Each *e, i32 bytes) {
  ty_ptx(&e->E, "add.s64 $, $, $", e->number, e->number, e->step);
  ty_ptx(&e->E, "bra @", e->next);
  return ty_ptx_end(&e->E, e->end, bytes, e->threads);
}

#endif
