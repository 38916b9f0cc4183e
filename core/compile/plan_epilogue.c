/*
** plan_epilogue.c -- which epilogues of products are short lists of operations on one value.
** In:  the work of a product with an epilogue.  Out: the epilogue as a list that kernels of
** products can apply to sums in their registers; or it is not `listed`, and the program is run over
** tiles. Cannot fail.
**
** Scale, bias, residual, relu and clamps are such lists: one value, the product, meets one operand
** after the other by ADD, MUL, MAX or MIN, and is perhaps converted to f16 or bf16. An operand is a
** number, or lies by one stride for rows and side by side or all the same for columns. Each
** operation rounds as the program's instruction does, in the same order, so the bits are the same.
*/
#include "compile/plan.h"

/* Strides of the dims [from, to) as one: 0 or what one step moves. False: they are not one dim. */
static bool one_dim(const Launch *l, int operand, int from, int to, i64 *step) {
  i64 next = -1; /* what a step of the dim before must move */
  *step = 0;
  for (int d = to - 1; d >= from; d--) {
    const i64 s = l->strides[operand][d];
    if (l->dims[d] == 1) continue;
    if (next < 0) *step = s;
    else if (s != next) return false;
    next = s * l->dims[d];
    if (next < 0) return false;
  }
  return true;
}

/* How operand number `operand` lies along the product's rows and columns. */
static bool place(const Work *w, int operand, i64 *rs, i64 *cs) {
  const Launch *l = &w->launch;
  return one_dim(l, operand, 0, w->nrows, rs) && one_dim(l, operand, w->nrows, l->ni, cs);
}

/* What instruction i gives to the operation y; false: it is no operand that a list can have. */
static bool operand_of(const Work *w, i32 i, ListOp *y) {
  const Program *p = w->program;
  const Instr *in = &p->body[i];
  i64 cs = 0;
  y->operand = y->scalar = -1;
  y->rs = 0;
  if (in->op == P_CONST) y->imm = in->imm;
  else if (in->op == P_SCALAR) y->scalar = (i16)in->imm;
  else if (in->op == P_LOAD) {
    const int dtype = p->operand[in->imm].dtype;
    if ((i32)in->imm == w->product) return false; /* as it was before: it lies nowhere */
    if (dtype != w->gemm.dtype || !place(w, (int)in->imm, &y->rs, &cs)) return false;
    y->operand = (i16)in->imm;
    y->start = w->launch.start[in->imm] * ty_dtypes[dtype].bytes;
  } else return false;
  y->cs = (i8)cs;
  return cs == 0 || cs == 1;
}

/* A GemmOpKind, or -1. */
static int kind_of(int op) {
  switch (op) {
  case P_ADD: return GEMM_ADD;
  case P_MUL: return GEMM_MUL;
  case P_MAX: return GEMM_MAX;
  case P_MIN: return GEMM_MIN;
  default: return -1;
  }
}

void ty_list_find(Work *w) {
  const Program *p = w->program;
  const int type = w->gemm.dtype == T_F32 ? C_F32 : C_F64;
  i32 value = -1, n = 0; /* the instruction that has the product by now; operations */
  i64 rs, cs;
  w->listed = false;
  w->nlist = w->store = 0;
  if (p->kind != K_MAP || (w->gemm.dtype != T_F32 && w->gemm.dtype != T_F64)) return;
  for (i32 i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    const int kind = kind_of(in->op);
    if (in->type != type || (w->store && in->op != P_STORE)) return;
    if (in->op == P_CONST || in->op == P_SCALAR) continue;
    if (in->op == P_LOAD) {
      if ((i32)in->imm != w->product) continue;
      if (value >= 0) return;
      value = i;
    } else if (in->op == P_STORE) {
      /* The one output, where the product itself would lie. */
      const int dtype = w->store ? w->store : w->gemm.dtype;
      if (i + 1 < p->nbody || in->a != value || p->operand[in->imm].dtype != dtype) return;
      if (!place(w, (int)in->imm, &rs, &cs) || w->launch.start[in->imm]) return;
      if ((cs != 1 && w->gemm.n > 1) || (rs != w->gemm.n && w->gemm.batch * w->gemm.m > 1)) return;
      w->listed = true;
      w->nlist = n;
    } else if (in->op == P_NARROW) {
      if (in->a != value || (in->imm != T_F16 && in->imm != T_BF16)) return;
      w->store = (i32)in->imm;
      value = i;
    } else {
      ListOp *y = &w->list[n];
      if (kind < 0 || n == LIST_MOST || value < 0 || (in->a == value) == (in->b == value)) return;
      if (!operand_of(w, in->a == value ? in->b : in->a, y)) return;
      if ((kind == GEMM_MAX || kind == GEMM_MIN) && (y->rs || y->cs)) return;
      y->kind = (u8)kind;
      value = i;
      n++;
    }
  }
}
