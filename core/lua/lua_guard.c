/*
** lua_guard.c -- the rows of the table of guard instructions (lua_guard.h), for C and for Lua.
** In: nothing. Out: ty_guards, by opcode; the same as a Lua table, by name. Fails when out of memory.
*/
#include "lua/lua_guard.h"

#define O0 \
  { 0 }
#define O1(a) \
  { ON_##a }
#define O2(a, b) \
  { ON_##a, ON_##b }
#define O3(a, b, c) \
  { ON_##a, ON_##b, ON_##c }
#define O4(a, b, c, d) \
  { ON_##a, ON_##b, ON_##c, ON_##d }
#define GUARD_ROW(op, name, kind, table, operands, text) \
  [G_##op] = {name, text, GUARD_##kind, table, operands},
const GuardRow ty_guards[G_COUNT] = {TY_GUARDS(GUARD_ROW)};

static const char *kind_name(GuardKind kind) {
  switch (kind) {
  case GUARD_READ: return "read";
  case GUARD_CHECK: return "check";
  case GUARD_NUMBER: return "number";
  case GUARD_OUTCOME: return "outcome";
  }
  return NULL;
}

/* What an operand is to the one who reads explain. */
static const char *operand_name(GuardOperand operand) {
  switch (operand) {
  case ON_NONE: break;
  case ON_SLOT:
  case ON_LAST: return "slot";
  case ON_INDEX: return "index";
  case ON_KEY:
  case ON_VALUE: return "value";
  case ON_TYPE: return "type";
  case ON_KEYS: return "keys";
  case ON_TENSOR: return "tensor";
  case ON_CODE:
  case ON_FUNCTION: return "function";
  case ON_ARGUMENTS: return "keys";
  case ON_NUMBER:
  case ON_MAYBE: return "number";
  case ON_CONST: return "const";
  case ON_SIZE:
  case ON_BOUND: return "size";
  case ON_OUTCOME: return "outcome";
  }
  return NULL;
}

void ty_guard_push_rows(lua_State *L) {
  lua_createtable(L, 0, G_COUNT);
  for (int op = 0; op < G_COUNT; op++) {
    const GuardRow *row = &ty_guards[op];
    if (!row->name) continue;
    lua_createtable(L, 0, 3);
    lua_pushstring(L, kind_name((GuardKind)row->kind));
    lua_setfield(L, -2, "kind");
    lua_createtable(L, GUARD_OPERANDS, 0);
    for (int i = 0; i < GUARD_OPERANDS && row->operand[i]; i++) {
      lua_pushstring(L, operand_name((GuardOperand)row->operand[i]));
      lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "operands");
    if (row->text) lua_pushstring(L, row->text);
    else lua_pushnil(L);
    lua_setfield(L, -2, "text");
    lua_setfield(L, -2, row->name);
  }
}

/* --- the end of a trace */

void ty_trace_drop_samples(Trace *T) {
  for (int i = 0; i < RANGE_SAMPLES; i++) {
    if (T->sample[i]) ty_instance_free(T->sample[i]);
    T->sample[i] = NULL;
  }
}

static void trace_free(Trace *T) {
  for (i32 i = 0; i < T->nguards; i++) {
    Guard *g = &T->guard[i];
    if (g->op == G_TENSOR) ty_mem_free(g->tensor);
    if (g->op == G_CLOSURE && g->dump) {
      ty_mem_free(g->dump->bytes);
      ty_mem_free(g->dump);
    }
  }
  for (i32 i = 0; i < T->ninstance; i++) ty_instance_free(T->instance[i]);
  for (i32 i = 0; i < T->nranges; i++) ty_shape_range_free(T->range[i]);
  ty_trace_drop_samples(T);
  ty_mem_free(T->guard);
  ty_mem_free(T->result);
  ty_mem_free(T->meta);
  ty_mem_free(T->pair);
  ty_mem_free(T->effect);
  ty_mem_free(T->hidden);
  ty_mem_free(T->size);
  ty_mem_free(T->instance);
  ty_mem_free(T->hash);
  ty_mem_free(T->bound);
  ty_mem_free(T);
}

/* Finalisers run in the middle of a call, and may drop any trace: the one that runs waits. */
void ty_trace_drop(Trace *T) {
  if (!--T->refs) trace_free(T);
}
