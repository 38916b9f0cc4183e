/*
** lua_probe.c -- what proofs need and users do not: the table of operations, allocations that fail,
** the intermediate languages read back.
** In: arguments of the specs. Out: tables and text, under `internals.probe`. A text that does not
** parse gives nil and what is wrong.
*/
#include "record/grad.h"
#include "lua/lua_fields.h"
#include "lua/lua_tycho.h"

/* ops() -> a list of the rows, in the order of the table */
static int probe_ops(lua_State *L) {
  static const char *const classes[] = {
      [LEAF] = "leaf", [MAP] = "map", [VIEW] = "view", [REDUCE] = "reduce",
      [SCAN] = "scan", [DOT] = "dot", [MOVE] = "move"};
  static const char *const rules[] = {
      [TR_NONE] = "none", [TR_ARITH] = "arith", [TR_ANY] = "any",     [TR_FLOAT] = "float",
      [TR_INT] = "int",   [TR_BITS] = "bits",   [TR_CMP] = "cmp",     [TR_WHERE] = "where",
      [TR_SUM] = "sum",   [TR_KEEP] = "keep",   [TR_INDEX] = "index", [TR_DOT] = "dot"};
  lua_createtable(L, OP_COUNT, 0);
  for (int op = 0; op < OP_COUNT; op++) {
    const OpInfo *row = &ty_ops[op];
    int gradients = 0; /* bit i: operand i has one */
    for (int i = 0; i < row->arity; i++) gradients |= !ty_rule_none(op, i) << i;
    lua_createtable(L, 0, 13);
    set_string(L, "name", row->name);
    set_string(L, "lua", row->lua);
    set_string(L, "help", row->help);
    set_string(L, "class", classes[row->class]);
    set_string(L, "rule", rules[row->rule]);
    set_number(L, "arity", row->arity);
    set_number(L, "bound", row->bound);
    set_number(L, "gradients", gradients);
    set_flag(L, "commutes", row->flags & F_COMM);
    set_flag(L, "random", row->flags & F_RANDOM);
    set_flag(L, "checks", row->flags & F_CHECK);
    set_flag(L, "in_place", row->flags & F_INPLACE);
    set_flag(L, "host", row->flags & F_ROUTINE);
    lua_rawseti(L, -2, op + 1);
  }
  return 1;
}

/* dtypes() -> a list of {name, bytes, kind} */
static int probe_dtypes(lua_State *L) {
  lua_createtable(L, T_COUNT, 0);
  for (int d = 0; d < T_COUNT; d++) {
    char kind[2] = {ty_dtypes[d].kind, 0};
    lua_createtable(L, 0, 3);
    set_string(L, "name", ty_dtypes[d].name);
    set_string(L, "kind", kind);
    set_number(L, "bytes", ty_dtypes[d].bytes);
    lua_rawseti(L, -2, d + 1);
  }
  return 1;
}

/* fail(after, times): the allocations of tensors and plans that will fail; after < 0: none. Returns
** how many were asked for since the last call. */
static int probe_fail(lua_State *L) {
  i64 after = (i64)luaL_checknumber(L, 1), times = (i64)luaL_optnumber(L, 2, -1);
  lua_pushnumber(L, (lua_Number)ty_mem_fail(after, times));
  return 1;
}

/* memory() -> {used, cached, peak, general} in bytes */
static int probe_memory(lua_State *L) {
  MemStats m = ty_mem_stats();
  lua_createtable(L, 0, 4);
  set_number(L, "used", (double)m.buf_used);
  set_number(L, "cached", (double)m.buf_cached);
  set_number(L, "peak", (double)m.buf_peak);
  set_number(L, "general", (double)m.general);
  return 1;
}

/* turns() -> how many turns of loops traces have taken by themselves */
static int probe_turns(lua_State *L) {
  lua_pushnumber(L, (lua_Number)ty_lua_binding(L)->turned);
  return 1;
}

/* graph(text) -> the text of the graph that was read from it */
static int probe_graph(lua_State *L) {
  const char *text = luaL_checkstring(L, 1);
  Graph g = {0};
  const char *wrong = ty_graph_parse(&g, text);
  if (!wrong) wrong = ty_graph_verify(&g);
  size_t n = wrong ? 0 : ty_graph_print(&g, NULL, 0);
  char *buf = ty_mem_alloc(n + 1);
  if (buf && n) ty_graph_print(&g, buf, n + 1);
  ty_graph_free(&g);
  if (!buf) return luaL_error(L, "graph: out of memory");
  lua_pushnil(L);
  lua_pushstring(L, wrong);
  if (!wrong) lua_pushlstring(L, buf, n);
  ty_mem_free(buf);
  return wrong ? 2 : 1;
}

/* program(text) -> the text of the loop program that was read from it */
static int probe_program(lua_State *L) {
  const char *wrong = NULL;
  Program *p = ty_program_parse(luaL_checkstring(L, 1), &wrong);
  if (p) wrong = ty_program_verify(p);
  size_t n = p && !wrong ? ty_program_print(p, NULL, 0) : 0;
  char *buf = ty_mem_alloc(n + 1);
  if (buf && n) ty_program_print(p, buf, n + 1);
  ty_mem_free(p);
  if (!buf) return luaL_error(L, "program: out of memory");
  lua_pushnil(L);
  lua_pushstring(L, wrong);
  if (!wrong) lua_pushlstring(L, buf, n);
  ty_mem_free(buf);
  return wrong ? 2 : 1;
}

void ty_lua_open_probe(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"ops", probe_ops},         {"dtypes", probe_dtypes},
                                 {"fail", probe_fail},       {"memory", probe_memory},
                                 {"turns", probe_turns},     {"graph", probe_graph},
                                 {"program", probe_program}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "probe");
  lua_pop(L, 1);
}
