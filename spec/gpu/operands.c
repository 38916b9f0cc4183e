/*
** operands.c -- names and operands: symbols by scope, registers and their slots, addresses, vectors, special registers.
*/
#include <ctype.h>

#include "ptx.h"

/* --- special registers */

enum {
  K_TID,
  K_NTID = 4,
  K_CTAID = 8,
  K_NCTAID = 12,
  K_LANEID = 16,
  K_WARPID,
  K_NWARPID,
  K_SMID,
  K_NSMID,
  K_MASK_EQ,
  K_MASK_LE,
  K_MASK_LT,
  K_MASK_GE,
  K_MASK_GT,
  K_CLOCK,
  K_CLOCK_HI,
  K_CLOCK64,
  K_GRIDID,
  K_GLOBALTIMER,
  K_DYNAMIC,
  K_TOTAL
};

static const struct {
  const char *name;
  int kind;
  Type type;
} specials[] = {
    {"%tid.x", K_TID, T_U32},
    {"%tid.y", K_TID + 1, T_U32},
    {"%tid.z", K_TID + 2, T_U32},
    {"%ntid.x", K_NTID, T_U32},
    {"%ntid.y", K_NTID + 1, T_U32},
    {"%ntid.z", K_NTID + 2, T_U32},
    {"%ctaid.x", K_CTAID, T_U32},
    {"%ctaid.y", K_CTAID + 1, T_U32},
    {"%ctaid.z", K_CTAID + 2, T_U32},
    {"%nctaid.x", K_NCTAID, T_U32},
    {"%nctaid.y", K_NCTAID + 1, T_U32},
    {"%nctaid.z", K_NCTAID + 2, T_U32},
    {"%laneid", K_LANEID, T_U32},
    {"%warpid", K_WARPID, T_U32},
    {"%nwarpid", K_NWARPID, T_U32},
    {"%smid", K_SMID, T_U32},
    {"%nsmid", K_NSMID, T_U32},
    {"%lanemask_eq", K_MASK_EQ, T_U32},
    {"%lanemask_le", K_MASK_LE, T_U32},
    {"%lanemask_lt", K_MASK_LT, T_U32},
    {"%lanemask_ge", K_MASK_GE, T_U32},
    {"%lanemask_gt", K_MASK_GT, T_U32},
    {"%clock", K_CLOCK, T_U32},
    {"%clock_hi", K_CLOCK_HI, T_U32},
    {"%clock64", K_CLOCK64, T_U64},
    {"%gridid", K_GRIDID, T_U64},
    {"%globaltimer", K_GLOBALTIMER, T_U64},
    {"%dynamic_smem_size", K_DYNAMIC, T_U32},
    {"%total_smem_size", K_TOTAL, T_U32},
};

int special_find(const char *name, Type *type) {
  for (size_t i = 0; i < COUNT(specials); i++)
    if (strcmp(specials[i].name, name) == 0) {
      *type = specials[i].type;
      return specials[i].kind;
    }
  return -1;
}

static uint64_t special_value(int kind, const Warp *w, int lane) {
  const Launch *l = w->block->launch;
  uint32_t thread = (uint32_t)(w->index * WARP + lane), bit = 1u << lane;
  if (kind < K_NTID) {
    uint32_t x = l->block[0], y = l->block[1];
    return kind == K_TID ? thread % x : kind == K_TID + 1 ? thread / x % y : thread / x / y;
  }
  if (kind < K_CTAID) return l->block[kind - K_NTID];
  if (kind < K_NCTAID) return w->block->id[kind - K_CTAID];
  if (kind < K_LANEID) return l->grid[kind - K_NCTAID];
  switch (kind) {
  case K_LANEID: return (uint64_t)lane;
  case K_WARPID: return (uint64_t)w->index;
  case K_NWARPID: return MAX_WARPS * 2;
  case K_NSMID: return 16;
  case K_SMID: return w->block->number % 16;
  case K_MASK_EQ: return bit;
  case K_MASK_LE: return bit | (bit - 1);
  case K_MASK_LT: return bit - 1;
  case K_MASK_GE: return ~(bit - 1);
  case K_MASK_GT: return ~(bit | (bit - 1));
  case K_DYNAMIC: return l->dynamic;
  case K_TOTAL: return w->block->shared_bytes;
  default: return counts.warp_instructions + w->block->steps;
  }
}

void special_fill(int kind, const Warp *w, uint32_t *out) {
  bool wide = kind == K_CLOCK64 || kind == K_GRIDID || kind == K_GLOBALTIMER;
  for (int lane = 0; lane < WARP; lane++) {
    uint64_t v = special_value(kind, w, lane);
    if (wide) ((uint64_t *)out)[lane] = v;
    else out[lane] = (uint32_t)v;
  }
}

/* --- symbols */

/* %r12 is number 12 of %r<20>; .x to .w is a lane of a vector register. */
static Symbol *symbol_exact(Parser *p, const char *name, size_t n, bool many) {
  for (int i = p->n_symbols - 1; i >= 0; i--) {
    Symbol *s = p->symbols + i;
    if ((s->many > 0) == many && strncmp(s->name, name, n) == 0 && !s->name[n]) return s;
  }
  return NULL;
}

Symbol *symbol_find(Parser *p, const char *name, int *number, int *lane) {
  size_t n = strlen(name);
  *number = 0;
  *lane = 0;
  Symbol *s = symbol_exact(p, name, n, false);
  if (s) return s;
  size_t digits = 0;
  while (digits < n && isdigit((unsigned char)name[n - 1 - digits])) digits++;
  for (size_t d = digits; d > 0; d--) { /* %r1<10> may be declared, too */
    if (name[n - d] == '0' && d > 1) continue;
    s = symbol_exact(p, name, n - d, true);
    if (!s) continue;
    unsigned long v = strtoul(name + n - d, NULL, 10);
    if (v < (unsigned long)s->many) {
      *number = (int)v;
      return s;
    }
  }
  return NULL;
}

Symbol *symbol_add(Parser *p, const char *name, Space space, Type type) {
  for (int i = p->n_symbols - 1; i >= 0 && p->symbols[i].scope == p->scope; i--)
    if (strcmp(p->symbols[i].name, name) == 0 && p->symbols[i].space != S_FUNC)
      ptx_error(p, p->line, "Duplicate definition of '%s'", name);
  if (p->n_symbols == MAX_SYMBOLS) ptx_error(p, p->line, "too many names");
  Symbol *s = p->symbols + p->n_symbols++;
  *s = (Symbol){.name = arena_text(p->arena, name, strlen(name)),
                .space = space,
                .type = type,
                .scope = p->scope,
                .lanes = 1};
  return s;
}

int register_slot(Parser *p, const Symbol *s, int number, int lane) {
  int *slot = s->slots + number * s->lanes + lane;
  if (*slot < 0) *slot = s->type == T_PRED ? p->kernel->n_preds++ : slots_take(p, s->type);
  return *slot;
}

/* --- operands */

static int lane_index(const char *word) {
  static const char letters[] = "xyzwrgba";
  if (word[0] != '.' || !word[1] || word[2]) return -1;
  for (int i = 0; i < 8; i++)
    if (letters[i] == word[1]) return i % 4;
  return -1;
}

static void parse_special(Parser *p, Operand *o, char *word, size_t size) {
  size_t n = strlen(word);
  if (*p->at == '.') lex_dotted(p, word + n, size - n);
  o->special = special_find(word, &o->type);
  if (o->special < 0) ptx_error(p, p->line, "Unknown symbol '%s'", word);
  o->kind = O_SPECIAL;
}

static void parse_name(Parser *p, Operand *o) {
  char word[512];
  if (!lex_word(p, word, sizeof word)) lex_expect(p, "operand");
  if (strcmp(word, "_") == 0) {
    o->kind = O_SINK;
    return;
  }
  if (strcmp(word, "WARP_SZ") == 0) {
    *o = (Operand){.kind = O_NUMBER, .type = T_S64, .bits = WARP};
    return;
  }
  int number, lane;
  const Symbol *s = symbol_find(p, word, &number, &lane);
  if (!s && word[0] == '%') {
    parse_special(p, o, word, sizeof word);
    return;
  }
  if (!s) { /* a label that comes later, or an unknown name: the end of the body tells */
    s = symbol_add(p, word, S_LABEL, T_NONE);
    ((Symbol *)s)->label = label_new(p, s->name);
  }
  o->symbol = s;
  o->type = s->type;
  if (s->space != S_REG) {
    o->kind = O_NAME;
    return;
  }
  o->kind = O_REG;
  if (s->lanes > 1 && *p->at == '.') {
    char dotted[64];
    lex_dotted(p, dotted, sizeof dotted);
    lane = lane_index(dotted);
    if (lane < 0 || lane >= s->lanes)
      ptx_error(p, p->line, "'%s' has no element '%s'", word, dotted);
  } else if (s->lanes > 1) {
    o->kind = O_VECTOR;
    o->n = s->lanes;
    o->list = arena_alloc(p->arena, (size_t)o->n * sizeof *o->list);
    for (int i = 0; i < o->n; i++)
      o->list[i] = (Operand){
          .kind = O_REG, .type = s->type, .symbol = s, .slot = register_slot(p, s, number, i)};
    return;
  }
  o->slot = register_slot(p, s, number, lane);
}

static void parse_vector(Parser *p, Operand *o) {
  Operand list[64];
  int n = 0;
  do {
    if (n == 64) ptx_error(p, p->line, "too many elements in a vector");
    list[n] = (Operand){0};
    parse_operand(p, list + n++);
  } while (lex_take(p, ","));
  lex_expect(p, "}");
  o->kind = O_VECTOR;
  o->n = n;
  o->list = arena_alloc(p->arena, (size_t)n * sizeof *list);
  memcpy(o->list, list, (size_t)n * sizeof *list);
}

static void parse_offset(Parser *p, Operand *o) {
  while (lex_take(p, "+")) o->offset += (int64_t)lex_integer(p);
}

static void parse_address(Parser *p, Operand *o) {
  Operand base = {0};
  Type type;
  uint64_t bits;
  o->kind = O_ADDRESS;
  if (lex_number(p, &type, &bits)) o->offset = (int64_t)bits;
  else {
    parse_name(p, &base);
    if (base.kind == O_REG) {
      o->has_base = true;
      o->slot = base.slot;
      o->type = base.type;
    } else if (base.kind != O_NAME) ptx_error(p, p->line, "an address expected");
    o->symbol = base.symbol;
  }
  parse_offset(p, o);
  lex_expect(p, "]");
}

void parse_operand(Parser *p, Operand *o) {
  *o = (Operand){0};
  if (lex_take(p, "{")) {
    parse_vector(p, o);
    return;
  }
  if (lex_take(p, "[")) {
    parse_address(p, o);
    return;
  }
  if (lex_take(p, "!")) {
    parse_name(p, o);
    o->negated = true;
    return;
  }
  if (lex_number(p, &o->type, &o->bits)) {
    o->kind = O_NUMBER;
    return;
  }
  parse_name(p, o);
  if (o->kind == O_NAME) parse_offset(p, o);
  if ((o->kind == O_REG || o->kind == O_SINK) && lex_take(p, "|")) {
    Operand *list = arena_alloc(p->arena, 2 * sizeof *list);
    list[0] = *o;
    parse_name(p, list + 1);
    *o = (Operand){.kind = O_PAIR, .type = list[0].type, .list = list, .n = 2};
  }
}
