/*
** pick_values.c -- what instructions on values become: arithmetic, logic, comparisons, moves, conversions.
*/
#include "forms.h"

int rounding(const Inst *i) {
  static const char *const words[] = {".rn", ".rz", ".rm", ".rp", ".rna"};
  int r = inst_which(i, words, 5);
  return r < 0 ? ROUND_RN : r;
}

void pick_table(Parser *p, const Form *f, const Inst *i, Code *c) {
  Run *const *table = f->table;
  c->run = table[i->types[0]];
  if (!c->run) mismatch(p, i);
}

void pick_run(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)i;
  c->run = (Run *)f->table;
}

static void set_float(const Form *f, const Inst *i, Code *c) {
  c->op = (uint8_t)f->op;
  c->round = (uint8_t)rounding(i);
  c->ftz = inst_has(i, ".ftz");
  c->sat = inst_has(i, ".sat") ? SAT_ONE : inst_has(i, ".relu") ? SAT_RELU : 0;
  c->from = inst_has(i, ".NaN") ? NAN_PASSES : 0;
}

void pick_real(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".rn", ".rz", ".rm", ".rp"};
  set_float(f, i, c);
  bool usual = c->round == ROUND_RN && !c->ftz && !c->sat && !c->from;
  c->run = usual ? run_real[f->op][i->types[0] == T_F64] : run_real_slow;
  if (f->op <= R_MUL && inst_which(i, words, 4) < 0) p->kernel->unmarked++;
}

void pick_half(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".rn"};
  set_float(f, i, c);
  c->run = run_half;
  if (f->op <= R_MUL && inst_which(i, words, 1) < 0) p->kernel->unmarked++;
}

void pick_approx(Parser *p, const Form *f, const Inst *i, Code *c) {
  if (!settings.approximate)
    ptx_error(p, i->line,
              "'%s' is approximate: its bits are not defined (SOFT_GPU_APPROXIMATE=1 allows it)",
              i->name);
  set_float(f, i, c);
  c->run = run_real_slow;
}

void pick_carry(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p;
  c->op = (uint8_t)(f->op | (inst_has(i, ".cc") ? CARRY_OUT : 0));
  c->run = run_carry;
}

static int comparison(const Inst *i) {
  static const char *const words[] = {".eq",  ".ne",  ".lt",  ".le",  ".gt",  ".ge",
                                      ".equ", ".neu", ".ltu", ".leu", ".gtu", ".geu",
                                      ".num", ".nan", ".lo",  ".ls",  ".hi",  ".hs"};
  int op = inst_which(i, words, 18);
  if (op >= 14) op -= 12;
  return op;
}

static int boolean(const Inst *i) {
  static const char *const words[] = {".and", ".or", ".xor"};
  return 1 + inst_which(i, words, 3);
}

void pick_setp(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f;
  c->op = (uint8_t)comparison(i);
  c->from = (uint8_t)boolean(i);
  c->ftz = inst_has(i, ".ftz");
  c->run = run_setp;
}

void pick_set(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f;
  c->op = (uint8_t)comparison(i);
  c->from = (uint8_t)boolean(i);
  c->ftz = inst_has(i, ".ftz");
  c->type = (uint8_t)i->types[1];
  c->target = i->types[0] == T_F32 ? 0x3f800000 : -1;
  c->run = run_set;
}

void pick_logic(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)i;
  c->op = (uint8_t)f->op;
  c->run = run_pred_logic;
}

void pick_shf(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f;
  c->op = (uint8_t)(inst_has(i, ".r") | inst_has(i, ".wrap") << 1);
  c->run = run_shf;
}

void pick_word(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
  (void)p;
  c->op = (uint8_t)(1 + inst_which(i, words, 6));
  c->run = (Run *)f->table;
}

void pick_bfind(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_table(p, f, i, c);
  c->op = inst_has(i, ".shiftamt");
}

void pick_dp4a(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_run(p, f, i, c);
  c->op = (uint8_t)((i->types[0] == T_S32) | (i->types[1] == T_S32) << 1);
}

void pick_slct(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_run(p, f, i, c);
  c->from = (uint8_t)i->types[1];
  c->ftz = inst_has(i, ".ftz");
}

void pick_testp(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".finite",     ".infinite", ".number",
                                      ".notanumber", ".normal",   ".subnormal"};
  pick_run(p, f, i, c);
  c->op = (uint8_t)inst_which(i, words, 6);
}

/* mov d, a; mov d, {a, b}; mov {a, b}, d */
void pick_mov(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  if (i->n_ops != 2) mismatch(p, i);
  const Operand *d = i->ops, *a = i->ops + 1;
  Type t = i->types[0];
  const Operand *v = d->kind == O_VECTOR ? d : a->kind == O_VECTOR ? a : NULL;
  if (!v) {
    push(c, dest_slot(p, i, d, t, false));
    push(c, source_slot(p, i, a, t, false));
    c->run = run_mov[type_size(t) == 8 ? T_B64 : type_size(t) == 4 ? T_B32 : T_B16];
    return;
  }
  if (!type_is_bits(t) || type_size(t) % v->n) mismatch(p, i);
  int width = type_size(t) / v->n;
  Type part = width == 1 ? T_B8 : width == 2 ? T_B16 : T_B32;
  if (v->n != 2 && v->n != 4) mismatch(p, i);
  push(c, v == d ? source_slot(p, i, a, t, false) : dest_slot(p, i, d, t, false));
  push_registers(p, i, c, v, part, v == d);
  c->width = (uint8_t)width;
  c->run = v == d ? run_unpack : run_pack;
}

static void cvt_check(Parser *p, const Inst *i, bool marked, bool integral) {
  Type to = i->types[0], from = i->types[1];
  bool to_real = type_is_float(to), from_real = type_is_float(from);
  bool narrows = to_real && from_real && type_size(to) < type_size(from);
  bool same = to_real && from_real && type_size(to) == type_size(from);
  bool needed = (to_real && !from_real) || (!to_real && from_real) || narrows ||
                (to == T_F16 && from == T_BF16);
  if (needed && !marked && !integral)
    ptx_error(p, i->line, "Rounding modifier required for instruction 'cvt'");
  if (!to_real && from_real ? !integral : integral && !same)
    ptx_error(p, i->line, "Illegal rounding modifier for instruction 'cvt'");
  if (marked && !needed && !same)
    ptx_error(p, i->line, "Illegal rounding modifier for instruction 'cvt'");
}

static void cvt_brain(Parser *p, const Inst *i) {
  Type to = i->types[0], from = i->types[1];
  bool brain = to == T_BF16 || from == T_BF16, early = to == T_BF16 && from == T_F32;
  need(p, i, brain, "cvt with .bf16", early ? 70 : 78, early ? 80 : 90);
}

void pick_cvt(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const integral[] = {".rni", ".rzi", ".rmi", ".rpi"}, *const marks[] = {
                                                                              ".rn", ".rz", ".rm",
                                                                              ".rp", ".rna"};
  Type to = i->types[0], from = i->types[1];
  set_float(f, i, c);
  int whole = inst_which(i, integral, 4);
  if (to != T_TF32) {
    cvt_check(p, i, inst_which(i, marks, 5) >= 0, whole >= 0);
    cvt_brain(p, i);
  }
  c->op = 0;
  c->from = (uint8_t)from;
  if (whole >= 0 && type_is_float(to)) c->op = (uint8_t)(1 + whole), c->round = ROUND_RN;
  else if (whole >= 0) c->round = (uint8_t)whole;
  bool plain = !c->op && to != from && !c->sat && !c->ftz &&
               c->width == (type_size(to) < 4 && !type_is_float(to) ? 2 : type_size(to)) &&
               c->n_more == (type_size(from) < 2 ? 4 : type_size(from));
  if (type_size(from) == 1) plain = plain || (!c->sat && c->width == 4 && c->n_more <= 4);
  c->run = plain && type_size(to) > 1 ? convert_fast(to, from, c->round, c->sat, c->ftz) : NULL;
  if (!c->run) c->run = run_cvt;
}

void pick_cvt_pack(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p;
  set_float(f, i, c);
  c->from = T_F32;
  c->run = run_cvt_pack;
}
