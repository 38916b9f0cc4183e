/*
** ptx_class.c -- which values of a loop program are computed where, what reductions begin with, and the bytes that its
** kernels are given.
*/
#include "device/cuda/ptx_class.h"

static bool is_leaf(int op) {
  return op == P_LOAD || op == P_IOTA || op == P_GLOAD || op == P_STORE;
}

void ty_ptx_classify(const Program *p, Classes *C) {
  memset(C, 0, sizeof *C);
  C->phases = 1;
  for (int i = p->nbody - 1; i >= 0; i--) {
    const Instr *in = &p->body[i];
    if (in->op == P_STORE) C->class[i] = CLASS_ELEM;
    if (!C->class[i]) continue;
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3; k++)
      if (ops[k] >= 0) C->class[ops[k]] = CLASS_ELEM; /* read: settled below */
  }
  for (int i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    if (!C->class[i]) continue;
    int phase = 0, class = CLASS_UNIFORM;
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3; k++)
      if (ops[k] >= 0) {
        phase = TY_MAX(phase, C->phase[ops[k]]);
        class = TY_MAX(class, C->class[ops[k]]);
      }
    if (is_leaf(in->op) || ty_ptx_is_scan(in->op))
      class = p->kind != K_MAP && in->level == L_ROW ? CLASS_ROW : CLASS_ELEM;
    if (ty_ptx_is_reduce(in->op)) class = CLASS_ROW, phase++;
    C->class[i] = (u8) class;
    C->phase[i] = (i16)phase;
    C->scans |= ty_ptx_is_scan(in->op);
    C->phases = TY_MAX(C->phases, ty_ptx_is_reduce(in->op) ? phase
                                  : class == CLASS_ELEM    ? phase + 1
                                                           : 0);
  }
}

/* Of a value of that type. */
static i32 words(int type) { return ty_ptx_wide(type) ? 2 : 1; }

i32 ty_ptx_live(const Program *p, const Classes *C) {
  i32 last[MAX_BODY] = {0}, all = 2 * p->noperands, now = 0, most = 0;
  for (int i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3 && C->class[i]; k++)
      if (ops[k] >= 0) last[ops[k]] = i;
    if (!C->class[i] || in->op == P_STORE) continue;
    if (ty_ptx_is_reduce(in->op))
      all += ty_ptx_lanes(p, in) * words(in->type) + (ty_ptx_is_arg(in->op) ? 2 : 0);
    else if (in->op == P_SCALAR) all += words(in->type);
  }
  for (int i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    if (C->class[i] != CLASS_ELEM || in->op == P_STORE) continue;
    const i16 ops[3] = {in->a, in->b, in->c};
    now += words(in->type);
    most = TY_MAX(most, now);
    for (int k = 0; k < 3; k++) {
      bool ends = ops[k] >= 0 && C->class[ops[k]] == CLASS_ELEM && last[ops[k]] == i;
      for (int j = 0; j < k; j++) ends &= ops[j] != ops[k];
      if (ends) now -= words(p->body[ops[k]].type);
    }
  }
  return all + most;
}

bool ty_ptx_is_split(const Program *p) {
  Classes *C = ty_mem_alloc(sizeof *C);
  if (!C) return false;
  ty_ptx_classify(p, C);
  bool one = p->kind != K_MAP && !C->scans && C->phases == 1, reduces = false;
  for (int i = 0; i < p->nbody; i++) {
    one &= C->class[i] != CLASS_ELEM || !C->phase[i]; /* nothing is reduced later */
    reduces |= C->class[i] && ty_ptx_is_reduce(p->body[i].op);
  }
  ty_mem_free(C);
  return one && reduces;
}

i32 ty_ptx_row_each(const Program *p) {
  Classes *C = p->kind == K_ROW ? ty_mem_alloc(sizeof *C) : NULL;
  bool wide = false, narrow = false;
  if (!C) return 0;
  ty_ptx_classify(p, C);
  for (int i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    if (!C->class[i] || !ty_ptx_is_reduce(in->op) || ty_ptx_is_arg(in->op)) continue;
    if (ty_ptx_wide(in->from)) wide = true;
    else narrow = true;
  }
  const i32 each = C->scans || (wide && narrow) ? 0 : wide ? 2 : 4;
  ty_mem_free(C);
  return each;
}

/* SLIN is one chain; a scan of what was scanned would want its elements before there are any. */
i32 ty_ptx_split_scans(const Program *p) {
  Classes *C = ty_mem_alloc(sizeof *C);
  bool scanned[MAX_BODY];
  i32 n = 0;
  if (!C) return 0;
  ty_ptx_classify(p, C);
  for (int i = 0; i < p->nbody && n >= 0; i++) {
    const Instr *in = &p->body[i];
    const i16 ops[3] = {in->a, in->b, in->c};
    scanned[i] = false;
    for (int k = 0; k < 3; k++) scanned[i] |= ops[k] >= 0 && scanned[ops[k]];
    if (!C->class[i] || !ty_ptx_is_scan(in->op)) continue;
    n = in->op == P_SLIN || scanned[i] ? -1 : n + 1;
    scanned[i] = true;
  }
  ty_mem_free(C);
  return TY_MAX(n, 0);
}

i32 ty_ptx_node_words(const Program *p) {
  i32 n = 0;
  for (int i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    if (ty_ptx_is_reduce(in->op)) n += ty_ptx_is_arg(in->op) ? 2 : ty_ptx_lanes(p, in);
  }
  return p->kind == K_ROW ? n * 32 : n;
}

Layout ty_ptx_layout(const Program *p, const Variant *v) {
  Layout l = {.nd = v->no + v->nr + v->ni};
  for (int i = 0; i < p->nbody; i++)
    if (p->body[i].op == P_SCALAR) l.nscalar = TY_MAX(l.nscalar, (i32)p->body[i].imm + 1);
  l.strides = PARAM_OPERANDS + 8 * p->noperands;
  l.dims = l.strides + 8 * p->noperands * l.nd;
  l.gstrides = l.dims + 8 * l.nd;
  l.scalars = l.gstrides + 8 * p->noperands;
  l.bytes = l.scalars + 8 * l.nscalar;
  return l;
}

static u64 lowest(int ctype) {
  static const u64 table[] = {0x80000000, 1ull << 63, 0xff800000, 0xfffull << 52};
  return table[ctype];
}

u64 ty_ptx_identity(int op, int ctype) {
  static const u64 one[] = {1, 1, 0x3f800000, 0x3ffull << 52},
                   nothing[] = {0, 0, 0x80000000, 1ull << 63},
                   highest[] = {0x7fffffff, ~(1ull << 63), 0x7f800000, 0x7ffull << 52};
  switch (op) {
  case P_ADD: return nothing[ctype];
  case P_MUL: return one[ctype];
  case P_MAX:
  case P_RARGMAX: return lowest(ctype);
  default: return highest[ctype];
  }
}
