/*
** push.c -- operands of an instruction to slots of code: registers by type, literals and names as constants, addresses, vectors.
*/
#include "forms.h"

_Noreturn void mismatch(Parser *p, const Inst *i) {
  ptx_error(p, i->line, "Arguments mismatch for instruction '%s'", i->name);
}

/* Whether a register of a type may stand where an instruction has another one. */
bool type_fits(Type want, Type reg) {
  if (reg == T_PRED || type_size(want) != type_size(reg)) return false;
  if (type_is_bits(want) || type_is_bits(reg)) return true;
  if (type_is_float(want)) return want == reg;
  return !type_is_float(reg);
}

/* The same for loads, stores and conversions, where the register may be wider. */
static bool type_fits_wide(Type want, Type reg) {
  if (type_size(reg) == type_size(want)) return type_fits(want, reg);
  if (type_size(reg) < type_size(want) || reg == T_PRED) return false;
  return type_is_bits(reg) || (!type_is_float(reg) && !type_is_float(want));
}

static Type wide_of(Type t) {
  return t == T_U16 ? T_U32 : t == T_S16 ? T_S32 : t == T_U32 ? T_U64 : T_S64;
}

static uint64_t literal(Parser *p, const Inst *i, Type want, const Operand *o) {
  bool real = type_is_float(o->type);
  if (type_is_float(want) ? !real : real && !type_is_bits(want)) mismatch(p, i);
  if (want == T_F16 || want == T_BF16 || want == T_F16X2 || want == T_BF16X2) mismatch(p, i);
  uint64_t bits = o->bits;
  if (real && o->type == T_F64 && type_size(want) == 4) {
    double d;
    memcpy(&d, &bits, 8);
    float f = (float)d;
    bits = 0;
    memcpy(&bits, &f, 4);
  } else if (real && o->type == T_F32 && type_size(want) == 8) {
    float f;
    memcpy(&f, &bits, 4);
    double d = f;
    memcpy(&bits, &d, 8);
  } else if (real && type_size(want) < 4) mismatch(p, i);
  int size = type_size(want);
  return size < 8 ? bits & (((uint64_t)1 << (8 * size)) - 1) : bits;
}

int source_slot(Parser *p, const Inst *i, const Operand *o, Type want, bool wide) {
  Kernel *k = p->kernel;
  int size = type_size(want);
  switch (o->kind) {
  case O_REG:
    if (wide ? !type_fits_wide(want, o->type) : !type_fits(want, o->type)) mismatch(p, i);
    if (o->negated) mismatch(p, i);
    touch_read(p, o->slot, o->type);
    return o->slot;
  case O_NUMBER: return constant_slot(p, literal(p, i, want, o), size == 8);
  case O_SPECIAL:
    if (strcmp(i->name, "mov") != 0 && strcmp(i->name, "cvt") != 0)
      ptx_error(p, i->line, "Special register argument not allowed for instruction '%s'", i->name);
    if (!type_fits(want, o->type) && !(size == 2 && type_size(o->type) == 4)) mismatch(p, i);
    return special_slot(p, o->special, type_size(o->type) == 8);
  case O_NAME: {
    if (!o->symbol->variable) mismatch(p, i);
    if (size < 4 || type_is_float(want)) mismatch(p, i);
    Variable *v = o->symbol->variable;
    uint64_t at = variable_address(p, v, false) + (uint64_t)o->offset;
    if (size == 4 && v->space != S_SHARED && v->space != S_LOCAL && v->space != S_PARAM)
      mismatch(p, i);
    if (!(v->space == S_SHARED && v->external)) return constant_slot(p, at, size == 8);
    int slot =
        constant_slot(p, at | (uint64_t)k->n_constants << 40, size == 8); /* one of its own */
    Constant *c = k->constants + k->n_constants - 1;
    c->bits = at;
    c->patched = true;
    patch_add(p, -1, k->n_constants - 1);
    return slot;
  }
  default: mismatch(p, i);
  }
}

int dest_slot(Parser *p, const Inst *i, const Operand *o, Type want, bool wide) {
  if (o->kind != O_REG || o->negated) mismatch(p, i);
  if (wide ? !type_fits_wide(want, o->type) : !type_fits(want, o->type)) mismatch(p, i);
  touch_write(p, o->slot, o->type);
  return o->slot;
}

void push(Code *c, int slot) { c->o[c->n++] = (uint16_t)slot; }

void push_pred_source(Parser *p, const Inst *i, Code *c, const Operand *o) {
  Kernel *k = p->kernel;
  if (o->kind == O_NUMBER) { /* mov.pred p, -1 */
    if (!k->pred_true) k->pred_true = 1 + k->n_preds++;
    if (!o->bits) c->neg |= (uint8_t)(1 << c->n);
    push(c, k->pred_true - 1);
    return;
  }
  if (o->kind != O_REG || o->type != T_PRED) mismatch(p, i);
  if (o->negated) c->neg |= (uint8_t)(1 << c->n);
  touch_read(p, o->slot, T_PRED);
  push(c, o->slot);
}

void push_pred_dest(Parser *p, const Inst *i, Code *c, const Operand *o) {
  if (o->kind == O_SINK) {
    push(c, NO_SLOT);
    return;
  }
  if (o->kind != O_REG || o->type != T_PRED || o->negated) mismatch(p, i);
  touch_write(p, o->slot, T_PRED);
  push(c, o->slot);
}

/* d|p or d alone; d of a type, or a predicate when the type is T_PRED. */
static void push_pair(Parser *p, const Inst *i, Code *c, const Operand *o, Type type) {
  const Operand *first = o->kind == O_PAIR ? o->list : o;
  if (type == T_PRED) push_pred_dest(p, i, c, first);
  else push(c, first->kind == O_SINK ? NO_SLOT : dest_slot(p, i, first, type, false));
  if (o->kind == O_PAIR) push_pred_dest(p, i, c, o->list + 1);
  else push(c, NO_SLOT);
}

void push_address(Parser *p, const Inst *i, Code *c, const Operand *o) {
  if (o->kind != O_ADDRESS) mismatch(p, i);
  c->offset = o->offset;
  c->from = 8;
  if (o->has_base) {
    if (type_is_float(o->type) || type_size(o->type) < 4) mismatch(p, i);
    c->from = (uint8_t)type_size(o->type);
    touch_read(p, o->slot, o->type);
    push(c, o->slot);
    return;
  }
  push(c, NO_SLOT);
  if (!o->symbol) return;
  Variable *v = o->symbol->variable;
  if (!v) ptx_error(p, i->line, "Unknown symbol '%s'", o->symbol->name);
  c->offset += (int64_t)variable_address(p, v, false);
  if (v->space == S_SHARED && v->external) patch_add(p, p->kernel->n_code - 1, -1);
}

void push_registers(Parser *p, const Inst *i, Code *c, const Operand *o, Type type, bool written) {
  const Operand *list = o->kind == O_VECTOR ? o->list : o;
  int n = o->kind == O_VECTOR ? o->n : 1;
  uint16_t *more = arena_alloc(p->arena, (size_t)n * sizeof *more);
  int width = 0;
  for (int k = 0; k < n; k++) {
    const Operand *e = list + k;
    int size = e->kind == O_REG || e->kind == O_SPECIAL ? type_size(e->type)
               : type_size(type) < 4                    ? 4
                                                        : type_size(type);
    if (e->kind == O_SINK && written) {
      more[k] = NO_SLOT;
      continue;
    }
    more[k] =
        (uint16_t)(written ? dest_slot(p, i, e, type, true) : source_slot(p, i, e, type, true));
    if (width && size != width && type_size(type) == 8) mismatch(p, i);
    width = size > width ? size : width;
  }
  for (int k = 0; k < n; k++) /* registers of different widths in one vector */
    if (list[k].kind == O_REG && type_size(list[k].type) != width &&
        (width == 8 || type_size(list[k].type) == 8))
      mismatch(p, i);
  c->more = more;
  c->n_more = (uint16_t)n;
  c->width = (uint8_t)(width ? width : 4);
}

void push_number(Parser *p, const Inst *i, Code *c, const Operand *o) {
  if (o->kind != O_NUMBER || type_is_float(o->type)) mismatch(p, i);
  c->target = (int32_t)o->bits;
}

static void push_label(Parser *p, const Inst *i, Code *c, const Operand *o) {
  if (o->kind != O_NAME || o->symbol->space != S_LABEL) mismatch(p, i);
  c->target = o->symbol->label;
}

static void push_operand(Parser *p, const Inst *i, Code *c, char letter, const Operand *o) {
  Type t = i->types[0], u = i->types[1];
  switch (letter) {
  case 'D':
    push(c, o->kind == O_SINK && strcmp(i->name, "atom") == 0 ? NO_SLOT
                                                              : dest_slot(p, i, o, t, false));
    break;
  case 'E': push(c, dest_slot(p, i, o, u, false)); break;
  case 'W': push(c, dest_slot(p, i, o, wide_of(t), false)); break;
  case 'U': push(c, dest_slot(p, i, o, T_B32, false)); break;
  case 'R':
    if (t == T_TF32 && type_is_float(o->type)) mismatch(p, i);
    push(c, dest_slot(p, i, o, t == T_TF32 ? T_B32 : t, true));
    c->width = (uint8_t)type_size(o->type);
    break;
  case 'a': push(c, source_slot(p, i, o, t, false)); break;
  case 'b': push(c, source_slot(p, i, o, u, false)); break;
  case 'w': push(c, source_slot(p, i, o, wide_of(t), false)); break;
  case 'u': push(c, source_slot(p, i, o, T_B32, false)); break;
  case 'r':
    push(c, source_slot(p, i, o, u, true));
    c->n_more =
        (uint16_t)(o->kind == O_REG || o->kind == O_SPECIAL ? type_size(o->type) : type_size(u));
    break;
  case 'm':
    c->width = c->n;
    push(c, source_slot(p, i, o, T_B32, false));
    break;
  case 'S': push_pair(p, i, c, o, t); break;
  case 'T': push_pair(p, i, c, o, T_B32); break;
  case 'Q': push_pair(p, i, c, o, T_PRED); break;
  case 'P': push_pred_dest(p, i, c, o); break;
  case 'p': push_pred_source(p, i, c, o); break;
  case 'V': push_registers(p, i, c, o, t, true); break;
  case 'v': push_registers(p, i, c, o, t, false); break;
  case 'M': push_address(p, i, c, o); break;
  case 'i': push_number(p, i, c, o); break;
  default: push_label(p, i, c, o); break;
  }
}

bool operands_count(const char *letters, int n) {
  if (strchr(letters, '*')) return true;
  const char *optional = strchr(letters, '?');
  int least = optional ? (int)(optional - letters) : (int)strlen(letters),
      most = (int)strlen(letters) - (optional != NULL);
  return n >= least && n <= most;
}

void push_operands(Parser *p, const Form *f, const Inst *i, Code *c) {
  int at = 0;
  for (const char *letter = f->operands; *letter && *letter != '*'; letter++)
    if (*letter != '?' && at < i->n_ops) push_operand(p, i, c, *letter, i->ops + at++);
}
