/*
** ptx_class.h -- which values of a loop program are computed where.
*/
#ifndef TY_PTX_CLASS_H
#define TY_PTX_CLASS_H

#include "device/cuda/ptx_program.h"

/* UNIFORM: of constants and scalars alone, once a thread. ROW: once a row or column. ELEM: once an element. */
enum { CLASS_DEAD, CLASS_UNIFORM, CLASS_ROW, CLASS_ELEM };
/* A value's phase is how many reductions stand one behind another before it: elements of phase p can be computed when
** p passes over the row have reduced. */
typedef struct Classes {
  u8 class[MAX_BODY];
  i16 phase[MAX_BODY];
  i32 phases; /* passes over elements */
  bool scans;
} Classes;
void ty_ptx_classify(const Program *p, Classes *C);
/* About how many registers a thread holds at once: addresses, scalars, what reductions have come to, values of one element. */
i32 ty_ptx_live(const Program *p, const Classes *C);
/* The bits of what changes nothing when it is joined by op: -0, 1, the ends. */
u64 ty_ptx_identity(int op, int ctype);

static inline bool ty_ptx_is_reduce(int op) { return op >= P_RSUM && op <= P_RARGMIN; }
static inline bool ty_ptx_is_arg(int op) { return op == P_RARGMAX || op == P_RARGMIN; }
static inline bool ty_ptx_is_scan(int op) { return op >= P_SSUM && op <= P_SLIN; }
/* Lanes of a reduction that one thread has: of a row's 64 or 32, among 32 threads; of a column all. */
static inline i32 ty_ptx_lanes(const Program *p, const Instr *in) {
  if (ty_ptx_is_arg(in->op)) return 1;
  if (p->kind == K_COL) return COL_LANES;
  return LANES(ty_ptx_wide(in->type) ? 8 : 4) / 32;
}

#endif
