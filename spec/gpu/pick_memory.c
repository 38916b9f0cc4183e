/*
** pick_memory.c -- what accesses to memory, flow of control, and instructions among lanes become.
*/
#include "forms.h"

static Space inst_space(const Inst *i) {
  static const struct {
    const char *word;
    Space space;
  } words[] = {{".const", S_CONST},       {".global", S_GLOBAL},      {".local", S_LOCAL},
               {".param", S_PARAM},       {".param::entry", S_PARAM}, {".shared", S_SHARED},
               {".shared::cta", S_SHARED}};
  for (size_t k = 0; k < COUNT(words); k++)
    if (inst_has(i, words[k].word)) return words[k].space;
  return S_GENERIC;
}

/* What loads and stores have in common. */
static void set_access(Parser *p, const Inst *i, Code *c, int address) {
  const Operand *o = i->ops + address;
  int vector = inst_has(i, ".v2") ? 2 : inst_has(i, ".v4") ? 4 : 1, size = type_size(i->types[0]);
  if (c->n_more != vector) mismatch(p, i);
  if (vector * size > 16)
    ptx_error(p, i->line, "Vector operand of '%s' is wider than 16 bytes", i->name);
  Space space = inst_space(i);
  const Variable *v = !o->has_base && o->symbol ? o->symbol->variable : NULL;
  if (v && space == S_GENERIC && v->space == S_CONST) space = S_CONST;
  if (v && space == S_PARAM && v->space == S_LOCAL) space = S_LOCAL; /* of a call */
  if (v && space == S_GENERIC)
    c->offset += v->space == S_SHARED  ? (int64_t)SHARED_WINDOW
                 : v->space == S_LOCAL ? (int64_t)LOCAL_WINDOW
                                       : 0;
  if (v && space != S_GENERIC && v->space != space)
    ptx_error(p, i->line, "State space mismatch between instruction and address in '%s'", i->name);
  if (o->has_base && c->from != 8 && (space == S_GLOBAL || space == S_GENERIC || space == S_CONST))
    mismatch(p, i);
  c->space = (uint8_t)(space == S_CONST ? S_GLOBAL : space);
  c->strong = inst_has(i, ".volatile") || inst_has(i, ".relaxed") || inst_has(i, ".acquire") ||
              inst_has(i, ".release");
  if (space == S_CONST && !v) c->space = S_GLOBAL;
  int granule = size == 1 ? 0 : size == 2 ? 1 : 2;
  if ((space == S_SHARED || space == S_GENERIC) && granule < p->kernel->granule)
    p->kernel->granule = granule;
}

void pick_ld(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  set_access(p, i, c, 1);
  c->sat = type_is_signed(i->types[0]) && c->width > type_size(i->types[0]);
  c->plain = (c->width == 4 || c->width == 8) && c->width == type_size(i->types[0]);
  for (int k = 0; k < c->n_more; k++) c->plain &= c->more[k] != NO_SLOT;
  c->run = c->space == S_PARAM && c->o[0] == NO_SLOT ? run_ld_param : run_ld;
}

void pick_st(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  set_access(p, i, c, 0);
  if (c->space == S_PARAM) ptx_error(p, i->line, "a kernel's parameters cannot be stored to");
  c->plain = (c->width == 4 || c->width == 8) && c->width == type_size(i->types[0]);
  c->run = run_st;
}

void pick_cvta(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f;
  c->op = inst_has(i, ".to");
  c->space = (uint8_t)inst_space(i);
  c->run = run_cvta;
}

void pick_isspacep(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  if (i->n_ops != 2) mismatch(p, i);
  push(c, source_slot(p, i, i->ops + 1, T_B64, false));
  c->space = (uint8_t)inst_space(i);
  c->run = run_isspacep;
}

static const char *const atom_words[] = {".add", ".min",  ".max", ".and", ".or",
                                         ".xor", ".exch", ".cas", ".inc", ".dec"};

void pick_atom(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  c->op = (uint8_t)inst_which(i, atom_words, 10);
  Space space = inst_space(i);
  if (i->ops[1].has_base && c->from != 8 && space != S_SHARED) mismatch(p, i);
  c->space = (uint8_t)space;
  if (i->types[0] == T_F16) p->kernel->granule = p->kernel->granule < 1 ? p->kernel->granule : 1;
  c->strong = true;
  c->run = run_atom;
}

void pick_red(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  memmove(c->o + 1, c->o, c->n * sizeof *c->o);
  c->o[0] = NO_SLOT;
  c->n++;
  c->op = (uint8_t)inst_which(i, atom_words, 10);
  Space space = inst_space(i);
  if (i->ops[0].has_base && c->from != 8 && space != S_SHARED) mismatch(p, i);
  c->space = (uint8_t)space;
  c->strong = true;
  c->run = run_atom;
}

/* Code.sat: 0 sync, 1 arrive, 2 red. */
void pick_bar(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".popc", ".and", ".or"};
  const Operand *id = i->ops + (f->op == 2);
  if (id->kind == O_NUMBER && id->bits > 15)
    ptx_error(p, i->line, "Barrier number '%d' out of range, expected to be in range [0..15]",
              (int)id->bits);
  need(p, i, inst_has(i, ".cta"), "barrier.cta", 78, 0);
  c->flow = F_BAR;
  c->sat = (uint8_t)f->op;
  if (f->op < 2) {
    if (c->n < 2) push(c, NO_SLOT);
    return;
  }
  if (i->n_ops < 3 || i->n_ops > 4) mismatch(p, i);
  c->op = (uint8_t)inst_which(i, words, 3);
  if (c->op == 0) push(c, dest_slot(p, i, i->ops, T_U32, false));
  else push_pred_dest(p, i, c, i->ops);
  push(c, source_slot(p, i, i->ops + 1, T_B32, false));
  push(c, i->n_ops == 4 ? source_slot(p, i, i->ops + 2, T_B32, false) : NO_SLOT);
  push_pred_source(p, i, c, i->ops + i->n_ops - 1);
}

void pick_flow(Parser *p, const Form *f, const Inst *i, Code *c) {
  c->flow = (uint8_t)f->op;
  if (p->leave_label >= 0 && strcmp(i->name, "ret") == 0) {
    c->flow = F_BRA;
    c->target = p->leave_label;
  }
  if (f->op == F_BRX) {
    if (c->target >= 0) mismatch(p, i);
    c->target = -1 - c->target;
  } else if (f->op == F_BRA && c->target < 0) mismatch(p, i);
}

void pick_sync(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const votes[] = {".all", ".any", ".uni", ".ballot"}, *const sums[] = {
                                                                              ".add", ".min",
                                                                              ".max", ".and",
                                                                              ".or",  ".xor"};
  (void)p;
  c->flow = F_SYNC;
  c->run = (Run *)f->table;
  int op = c->run == run_redux ? inst_which(i, sums, 6) : inst_which(i, votes, 4);
  c->op = (uint8_t)(op < 0 ? 0 : op);
}

void pick_shfl(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".up", ".down", ".bfly", ".idx"};
  pick_sync(p, f, i, c);
  c->op = (uint8_t)inst_which(i, words, 4);
}

void pick_match(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_sync(p, f, i, c);
  c->op = inst_has(i, ".all");
}

void pick_elect(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_sync(p, f, i, c);
  c->op = 0;
}

/* [to], [from], size {, bytes read or a predicate that says none} */
void pick_cp_async(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  if (i->n_ops < 3 || i->n_ops > 4) mismatch(p, i);
  push_address(p, i, c, i->ops + 1);
  int64_t from = c->offset;
  if (from != (int32_t)from || (i->ops[1].has_base && c->from != 8)) mismatch(p, i);
  int source = c->o[0];
  if (source == NO_SLOT) source = constant_slot(p, (uint64_t)from, true), from = 0;
  c->n = 0;
  push_address(p, i, c, i->ops);
  int from_size = i->ops[0].has_base ? c->from : 0;
  push(c, source);
  Code copy = *c;
  push_number(p, i, &copy, i->ops + 2);
  int size = copy.target;
  if (size != 16 && (inst_has(i, ".cg") || (size != 4 && size != 8)))
    ptx_error(p, i->line, "cp.async copies 4, 8 or 16 bytes, with .cg 16");
  c->target = (int32_t)from;
  c->width = (uint8_t)size;
  c->from = (uint8_t)from_size;
  c->space = S_SHARED;
  c->run = run_cp_async;
  if (i->n_ops < 4) return;
  c->op = i->ops[3].kind == O_REG && i->ops[3].type == T_PRED ? 2 : 1;
  need(p, i, c->op == 2, "ignore-src on cp.async", 75, 80);
  if (c->op == 2) push_pred_source(p, i, c, i->ops + 3);
  else push(c, source_slot(p, i, i->ops + 3, T_B32, false));
}

void pick_cp_wait(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_run(p, f, i, c);
  c->target = -1;
}

/* All lanes of the warp take part. */
static void sync_all(Parser *p, Code *c) {
  c->flow = F_SYNC;
  c->width = c->n;
  push(c, constant_slot(p, UINT32_MAX, false));
}

static uint16_t *push_fragment(Parser *p, const Inst *i, uint16_t *more, const Operand *o, int n,
                               Type type, bool written) {
  if (o->kind != O_VECTOR || o->n != n) mismatch(p, i);
  for (int k = 0; k < n; k++) {
    const Operand *e = o->list + k;
    *more++ =
        (uint16_t)(written ? dest_slot(p, i, e, type, false) : source_slot(p, i, e, type, false));
  }
  return more;
}

/* {d}, {a}, {b}, {c} */
void pick_mma(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  if (i->n_ops != 4) mismatch(p, i);
  Type sum = i->types[0], in = i->types[1];
  int k = inst_has(i, ".m16n8k16") ? 16 : inst_has(i, ".m16n8k8") ? 8 : 4;
  int b = k / (in == T_TF32 ? 4 : 8), d = sum == T_F32 ? 4 : 2;
  Type held = sum == T_F32 ? T_F32 : T_B32;
  need(p, i, k == 16, "mma with shape .m16n8k16", 70, 80);
  uint16_t *more = arena_alloc(p->arena, (size_t)(2 * d + 3 * b) * sizeof *more);
  c->more = more;
  more = push_fragment(p, i, more, i->ops, d, held, true);
  more = push_fragment(p, i, more, i->ops + 1, 2 * b, T_B32, false);
  more = push_fragment(p, i, more, i->ops + 2, b, T_B32, false);
  push_fragment(p, i, more, i->ops + 3, d, held, false);
  c->type = (uint8_t)in;
  c->from = (uint8_t)sum;
  c->target = k;
  c->run = run_mma;
  sync_all(p, c);
}

void pick_ldmatrix(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  if (i->n_ops != 2) mismatch(p, i);
  push_address(p, i, c, i->ops + 1);
  int n = inst_has(i, ".x4") ? 4 : inst_has(i, ".x2") ? 2 : 1;
  uint16_t *more = arena_alloc(p->arena, (size_t)n * sizeof *more);
  push_fragment(p, i, more, i->ops, n, T_B32, true);
  c->more = more;
  c->n_more = (uint16_t)n;
  c->op = inst_has(i, ".trans");
  c->space = S_SHARED;
  c->run = run_ldmatrix;
  sync_all(p, c);
}

void pick_nothing(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f, (void)i;
  c->run = run_nothing;
}
