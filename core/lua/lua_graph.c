/*
** lua_graph.c -- what lua/tycho/graph.lua needs of the core: texts of graphs checked, elements as
** bits, and the graph that a function records.
** In: texts, numbers, functions. Out: under `internals`, graph_check, graph_element, graph_value,
** graph_record and graph_offset. A text that is no graph gives nil and what is wrong; all else that fails raises.
**
** Graphs pass between C and Lua as the text of graph.c in both directions: it is lossless, and
** reading it verifies it, so nothing that Lua makes reaches a pass of the core unchecked.
*/
#include <stdio.h>
#include <stdlib.h>
#include "engine/entry.h"
#include "lua/lua_protect.h"

/* --- text */

/* Pushes the text of g, or nothing and false when out of memory. */
static bool push_text(lua_State *L, const Graph *g) {
  size_t n = ty_graph_print(g, NULL, 0);
  char *buf = ty_mem_alloc(n + 1);
  if (!buf) return false;
  ty_graph_print(g, buf, n + 1);
  int status = lua_checkstack(L, 2);
  if (status) lua_pushlstring(L, buf, n);
  ty_mem_free(buf);
  return status;
}

/* graph_check(text) -> the text as ty_graph_print writes it, or nil and what is wrong */
static int graph_check(lua_State *L) {
  const char *text = luaL_checkstring(L, 1);
  Graph g = {0};
  const char *wrong = ty_graph_parse(&g, text);
  bool said = !wrong && push_text(L, &g);
  ty_graph_free(&g);
  if (said) return 1;
  if (!wrong) return ty_lua_error(L, "graph: out of memory");
  lua_pushnil(L);
  lua_pushstring(L, wrong);
  return 2;
}

/* --- elements */

/* The dtype whose elements are values of dtype d while they are computed. */
static int computed_in(int d) {
  static const u8 of[] = {[C_I32] = T_I32, [C_I64] = T_I64, [C_F32] = T_F32, [C_F64] = T_F64};
  return of[ty_dtypes[d].ctype];
}

/* graph_element(dtype, number, scalar) -> the bits of an element, or with `scalar` those of the
** compute type, as graphs write them */
static int graph_element(lua_State *L) {
  int d = ty_lua_dtype(L, "graph", 1);
  double v = luaL_checknumber(L, 2);
  u64 bits = 0;
  char text[24];
  if (lua_toboolean(L, 3)) bits = ty_elem_scalar(d, v);
  else ty_elem_store(d, &bits, v);
  snprintf(text, sizeof text, "0x%llx", (unsigned long long)bits);
  lua_pushstring(L, text);
  return 1;
}

/* graph_value(dtype, bits, scalar) -> the number; of a large i64 the nearest */
static int graph_value(lua_State *L) {
  int d = ty_lua_dtype(L, "graph", 1);
  u64 bits = strtoull(luaL_checkstring(L, 2), NULL, 16);
  if (lua_toboolean(L, 3)) d = computed_in(d);
  lua_pushnumber(L, ty_elem_load(d, &bits));
  return 1;
}

/* --- recording */

#define RECORD_NODES \
  100000 /* one more operation, cat of a list, takes at most three times as many */

typedef struct RecordedCall {
  State *S;
  Lazy *z;
  bool cut;
} RecordedCall;

static void hear_cut(void *ctx, Recording *b) {
  RecordedCall *r = ctx;
  if (b->g.n) r->cut = true;
}

/* Pushes a tensor that sees the input's buffer as its node does. */
static void push_input(lua_State *L, State *S, const Recording *b, i32 k) {
  Tensor *y = ty_lua_push(L); /* may collect garbage: pointers into the recording come after it */
  const struct RecordingInput *in = &b->input[k];
  const Node *n = &b->g.node[in->node];
  Storage *st = ty_storage_new(S, n->type.dtype, n->type.device,
                               in->buf->bytes / ty_dtypes[n->type.dtype].bytes);
  if (!st) ty_lua_fail(L, S);
  ty_storage_settle(st, ty_buffer_hold(in->buf));
  y->type = n->type;
  y->offset = in->offset;
  memcpy(y->strides, n->arg.strides, sizeof y->strides);
  y->st = st;
}

/* (results...) -> text, node numbers of the results, inputs. Upvalue 3: the RecordedCall. */
static int recorded(lua_State *L) {
  RecordedCall *r = lua_touserdata(L, lua_upvalueindex(3));
  Recording *b = r->z->open;
  int n = lua_gettop(L);
  lua_createtable(L, n, 0);
  for (int i = 1; i <= n; i++) {
    const Tensor *t = ty_lua_test(L, i);
    if (!t || !t->st)
      return ty_lua_error(L, "record: result %d must be a tensor, got %s", i, ty_lua_show(L, i));
    if (t->st->recording && t->st->recording != b)
      return ty_lua_error(L, "record: result %d is pending elsewhere", i);
    i32 node = ty_record_node(r->S, b, t);
    if (node < 0) return ty_lua_error(L, "record: out of memory");
    lua_pushnumber(L, node + 1);
    lua_rawseti(L, n + 1, i);
  }
  if (!push_text(L, &b->g)) return ty_lua_error(L, "record: out of memory");
  lua_insert(L, n + 1);
  lua_createtable(L, b->ninput, 0);
  for (i32 k = 0; k < b->ninput; k++) {
    push_input(L, r->S, b, k);
    lua_rawseti(L, -2, k + 1);
  }
  return 3;
}

/* graph_record(f, ...) -> text, list of node numbers, list of input tensors; nil when a value was
** wanted meanwhile, or the graph became too long. f runs once and does all that it does: nothing is
** put back. */
static int graph_record(lua_State *L) {
  State *S = ty_lua_enter(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (S->open) return ty_lua_error(L, "record: cannot be called inside a compiled function");
  RecordedCall r = {.S = S};
  Protect p;
  bool hooked;
  Lazy like = {.thread = L, .pinned = &p, .on_cut = hear_cut, .ctx = &r};
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushlightuserdata(L, &r);
  lua_pushcclosure(L, recorded, 3);
  lua_insert(L, 1);
  if (!(r.z = ty_lazy_open(S, &like))) return ty_lua_error(L, "record: out of memory");
  S->recording_nodes = RECORD_NODES;
  int status = ty_lua_protect(L, (Binding *)S, &p, lua_gettop(L) - 2, LUA_MULTRET, &hooked);
  S->recording_nodes = 0;
  /* Whatever raises, raises under pcall: the recording is closed in any case. */
  if (!status && !r.cut)
    status = ty_lua_protect(L, (Binding *)S, &p, lua_gettop(L) - 1, 3, &hooked);
  r.z->on_cut = NULL;
  ty_lazy_close(S, r.z);
  if (status) return lua_error(L);
  return r.cut ? 0 : 3;
}

/* graph_offset(x, base) -> how many elements the first of x lies behind that of base; nil where they lie in
** different memory, or in none yet */
static int graph_offset(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "graph", 1), *base = ty_lua_check(L, "graph", 2);
  if (!x->st->buf || x->st->buf != base->st->buf) return 0;
  lua_pushnumber(L, (lua_Number)(x->offset - base->offset));
  return 1;
}

void ty_lua_open_graph(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"graph_check", graph_check},   {"graph_element", graph_element},
                                 {"graph_value", graph_value},   {"graph_record", graph_record},
                                 {"graph_offset", graph_offset}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
