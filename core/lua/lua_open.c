/*
** lua_open.c -- what require "tycho.core" gives: the State of a Lua universe, the metatable of its tensors, the module.
** In: a Lua state. Out: the module's table, filled by all files of the binding; nothing of theirs needs this one. Fails by
** Lua errors; a second call makes another table over the same State.
**
** Lifetimes. The State lies in a userdata that the registry anchors; every function of ours has it as an upvalue. Lua
** finalises in an order of its own when it closes: the State is torn down by its own finaliser or, if tensors are still
** there, by that of the last tensor.
*/
#include "base/text.h"
#include "engine/entry.h"
#include "lua/lua_seam.h"
#include "lua/lua_slice.h"
#include "lua/lua_trace.h"
#include "lua/lua_tycho.h"

#define KEY_STATE SEAM_STATE /* in the registry */
#define KEY_META SEAM_META
#define KEY_THREAD "tycho.thread"

/* --- the end of tensors and States */

static void binding_close(Binding *B) {
  if (B->closed) return;
  B->closed = true;
  ty_lua_composites_close(B->composites);
  B->composites = NULL;
  ty_mem_free(B->turns);
  B->turns = NULL;
  ty_trace_leave_all(&B->S);
  ty_engine_close(&B->S);
}

/* __gc of a tensor. Without its mark a handle is a tensor no longer, whoever still holds it. */
static int tensor_collect(lua_State *L) {
  Binding *B = ty_lua_binding(L);
  Tensor *t = ty_lua_test_in(L, B, 1);
  if (!t) return 0;
  Handle *h = (Handle *)t;
  h->mark = 0;
  ty_lua_scope_forget(h);
  ty_lua_result_forget(h);
  ty_tensor_release(t);
  B->handles--;
  if (B->closing && !B->handles) binding_close(B);
  return 0;
}

static int state_collect(lua_State *L) {
  Binding *B = (Binding *)lua_touserdata(L, 1);
  B->closing = true;
  if (!B->handles) binding_close(B);
  return 0;
}

/* --- fields of tensors: methods, then properties, then what is near */

static int get_shape(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_createtable(L, t->type.rank, 0);
  for (int d = 0; d < t->type.rank; d++) {
    lua_pushnumber(L, (lua_Number)t->type.dims[d]);
    lua_rawseti(L, -2, d + 1);
  }
  return 1;
}

static int get_dtype(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_pushstring(L, ty_dtypes[t->type.dtype].name);
  return 1;
}

static int get_device(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_pushstring(L, ty_device_names[t->type.device]);
  return 1;
}

static int get_ndim(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_pushinteger(L, t->type.rank);
  return 1;
}

static int get_requires_grad(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  return ty_lua_grad_required(L, t);
}

static int get_grad(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  return ty_lua_grad_get(L, t);
}

static int get_is_leaf(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  return ty_lua_grad_is_leaf(L, t);
}

static int get_nbytes(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_pushnumber(L, (lua_Number)ty_type_bytes(&t->type));
  return 1;
}

/* x.T and x.mT are views: all dims in reverse, or the last two exchanged. */
static int get_reversed(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_pushvalue(L, 1);
  if (t->type.rank < 2) return 1;
  lua_getfield(L, lua_upvalueindex(3), "permute");
  lua_insert(L, -2);
  for (int d = t->type.rank; d > 0; d--) lua_pushinteger(L, d);
  lua_call(L, t->type.rank + 1, 1);
  return 1;
}

static int get_matrix_transposed(lua_State *L, State *S, const Tensor *t) {
  (void)S, (void)t;
  lua_getfield(L, lua_upvalueindex(3), "transpose");
  lua_pushvalue(L, 1);
  lua_pushinteger(L, -2);
  lua_pushinteger(L, -1);
  lua_call(L, 3, 1);
  return 1;
}

static const struct Property {
  const char *name;
  int (*get)(lua_State *L, State *S, const Tensor *t);
} properties[] = {
    {"shape", get_shape},          {"dtype", get_dtype},   {"ndim", get_ndim},
    {"device", get_device},        {"grad", get_grad},     {"requires_grad", get_requires_grad},
    {"is_leaf", get_is_leaf},      {"nbytes", get_nbytes}, {"T", get_reversed},
    {"mT", get_matrix_transposed},
};

static int unknown_field(lua_State *L, const char *name, int methods) {
  int best = ty_text_edits(name);
  const char *found = ty_lua_nearest(L, name, methods);
  if (found) best = ty_text_distance(name, found, best);
  for (int i = 0; i < TY_COUNT(properties); i++)
    ty_text_nearer(name, properties[i].name, &best, &found);
  if (found)
    return ty_lua_error(L, "tensor: no field \"%.60s\"; did you mean \"%s\"?", name, found);
  return ty_lua_error(L, "tensor: no field \"%.60s\"", name);
}

/* __index; upvalue 3 is the table of methods. */
static int tensor_index(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return ty_lua_index(L);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(3));
  if (!lua_isnil(L, -1)) return 1;
  const char *name = lua_tostring(L, 2);
  for (int i = 0; i < TY_COUNT(properties); i++) {
    if (strcmp(name, properties[i].name)) continue;
    ty_lua_apart(L, ty_lua_binding(L));
    return properties[i].get(L, ty_lua_state(L), ty_lua_check(L, name, 1));
  }
  return unknown_field(L, name, lua_upvalueindex(3));
}

static int tensor_newindex(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return ty_lua_newindex(L);
  const char *name = lua_tostring(L, 2);
  if (!strcmp(name, "grad")) return ty_lua_grad_set(L, ty_lua_check(L, name, 1));
  for (int i = 0; i < TY_COUNT(properties); i++)
    if (!strcmp(name, properties[i].name))
      return ty_lua_error(L, "tensor: field \"%s\" cannot be set", name);
  return ty_lua_error(L, "tensor: cannot set the field \"%.60s\", tensors have no fields of users",
                      name);
}

/* --- opening */

/* Called by init.lua: its directory holds chunks that are ours. */
static int core_home(lua_State *L) {
  Binding *B = ty_lua_binding(L);
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return 0;
  lua_getinfo(L, "S", &ar);
  const char *end = strrchr(ar.source, '/'), *back = strrchr(ar.source, '\\');
  if (!end || (back && back > end)) end = back;
  size_t n = end ? (size_t)(end - ar.source) : 0;
  if (n == 0 || n >= sizeof B->home) return 0; /* no directory: all chunks count as the user's */
  memcpy(B->home, ar.source, n);
  B->home[n] = 0;
  return 0;
}

/* Lua's own wrappers raise as C functions do: error_(text). */
static int core_error(lua_State *L) { return ty_lua_error(L, "%s", luaL_checkstring(L, 1)); }

/* is_ours(source) -> whether a chunk is the library's. */
static int core_is_ours(lua_State *L) {
  lua_pushboolean(L, ty_lua_is_ours(ty_lua_binding(L), luaL_checkstring(L, 1)));
  return 1;
}

/* is_live(v): a tensor that was not released. */
static int core_is_live(lua_State *L) {
  const Tensor *t = ty_lua_test(L, 1);
  lua_pushboolean(L, t && t->st);
  return 1;
}

static int core_nearest(lua_State *L) {
  luaL_checktype(L, 2, LUA_TTABLE);
  const char *found = ty_lua_nearest(L, luaL_checkstring(L, 1), 2);
  if (!found) return 0;
  lua_pushstring(L, found);
  return 1;
}

static int core_describe(lua_State *L) {
  ty_lua_describe(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2), luaL_checkstring(L, 3));
  return 0;
}

/* What the Lua side of the library needs and users do not see. */
static void open_internals(lua_State *L, int m, int t) {
  static const luaL_Reg fns[] = {{"home", core_home},
                                 {"error", core_error},
                                 {"nearest", core_nearest},
                                 {"is_live", core_is_live},
                                 {"describe", core_describe},
                                 {"located", ty_lua_located},
                                 {"is_ours", core_is_ours},
                                 {"select_with", ty_lua_select_with},
                                 {NULL, NULL}};
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_pushvalue(L, t);
  lua_setfield(L, -2, "methods");
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setfield(L, -2, "metatable");
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_HELP);
  lua_setfield(L, -2, "help");
  lua_setfield(L, m, "internals");
}

/* The metatable of released tensors, as entry 1 of the tensors', which is on top. */
static void open_released(lua_State *L) {
  const int meta = lua_gettop(L);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, meta);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, meta + 1);
  }
  lua_pushnil(L);
  lua_setfield(L, -2, "__gc");
  ty_lua_binding(L)->released = lua_topointer(L, -1);
  lua_rawseti(L, meta, 1);
}

/* Runs as a closure with the two upvalues that every function of ours has. */
static int open_all(lua_State *L) {
  lua_newtable(L);
  lua_newtable(L);
  int m = lua_gettop(L) - 1, t = m + 1;
  open_internals(L, m, t);
  ty_lua_open_scope(L, m);
  ty_lua_open_release(L, m, t);
  ty_lua_open_ops(L, m, t);
  ty_lua_open_tensor(L, m, t);
  ty_lua_open_view(L, m, t);
  ty_lua_open_print(L, m, t);
  ty_lua_open_select(L, m, t);
  ty_lua_open_complex(L, m, t);
  ty_lua_open_random(L, m, t);
  ty_lua_open_linalg(L, m, t);
  ty_lua_open_settings(L, m, t);
  ty_lua_open_compile(L, m, t);
  ty_lua_open_instance(L, m);
  ty_lua_open_protect(L, m);
  ty_lua_open_evaluator(L, m);
  ty_lua_open_trace(L, m);
  ty_lua_open_range(L, m);
  ty_lua_open_custom(L, m);
  ty_lua_open_export(L, m);
  ty_lua_open_check(L, m);
  ty_lua_open_graph(L, m);
  ty_lua_open_grad(L, m, t);
  ty_lua_open_modes(L, m);
  ty_lua_open_vmap(L, m);
  ty_lua_open_loop(L, m);
  ty_lua_open_args(L, m);
  ty_lua_open_lifetimes(L, m);
  ty_lua_open_composite(L, m);
  ty_lua_open_probe(L, m);
  ty_lua_open_attend(L, m);
  ty_lua_open_fft(L, m);
  ty_lua_open_solve(L, m);
  ty_lua_open_profile(L, m);
  ty_lua_open_signal(L, m);
  ty_lua_open_slice(L, m);
  ty_lua_open_seam(L);
  lua_pushvalue(L, lua_upvalueindex(2));
  static const struct {
    const char *name;
    lua_CFunction fn;
  } with_methods[] = {{"__index", tensor_index}, {"__newindex", tensor_newindex}};
  for (int i = 0; i < TY_COUNT(with_methods); i++) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushvalue(L, t);
    lua_pushcclosure(L, with_methods[i].fn, 3);
    lua_setfield(L, -2, with_methods[i].name);
  }
  ty_lua_push_function(L, tensor_collect);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "tensor");
  lua_setfield(L, -2, "__metatable");
  open_released(L);
  lua_pushvalue(L, m);
  return 1;
}

static int note_aside(lua_State *L) {
  ((Binding *)lua_touserdata(L, lua_upvalueindex(1)))->aside = L;
  return 0;
}

/* Calls jit.attach(note_aside, event), or without an event to take it back. */
static void attach(lua_State *L, const char *event) {
  lua_pushvalue(L, -2);
  lua_pushvalue(L, -2);
  if (event) lua_pushstring(L, event);
  if (lua_pcall(L, event ? 2 : 1, 0, 0)) lua_pop(L, 1);
}

/* Current LuaJITs run finalisers, and events of theirs, in a thread of its own. Which it is the event tells that a text
** is compiled. Elsewhere that runs in this thread. */
static void find_aside(lua_State *L, Binding *B) {
  int top = lua_gettop(L);
  lua_pushliteral(L, "jit");
  lua_rawget(L, LUA_GLOBALSINDEX);
  if (lua_istable(L, -1)) {
    lua_pushliteral(L, "attach");
    lua_rawget(L, -2);
    lua_pushlightuserdata(L, B);
    lua_pushcclosure(L, note_aside, 1);
    attach(L, "bc");
    luaL_loadstring(L, "return");
    lua_pop(L, 1);
    attach(L, NULL);
  }
  lua_settop(L, top);
  if (B->aside == L) B->aside = NULL;
}

/* Pushes the State's userdata, which is made when the universe has none yet. */
static void push_state(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_STATE);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  Binding *B = (Binding *)lua_newuserdata(L, sizeof *B);
  memset(B, 0, sizeof *B);
  B->S.default_dtype = T_F32;
  B->L = lua_newthread(L);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_THREAD);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, LUA_HELP);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_META);
  B->closed = true; /* nothing to close yet */
  lua_newtable(L);
  lua_pushcfunction(L, state_collect);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  if (!ty_engine_open(&B->S)) luaL_error(L, "tycho: %s", B->S.err);
  B->S.where = ty_lua_where;
  B->S.interrupted = ty_lua_interrupted;
  B->closed = false;
  find_aside(L, B);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_STATE);
}

TY_EXPORT int luaopen_tycho_core(lua_State *L);
int luaopen_tycho_core(lua_State *L) {
  push_state(L);
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_META);
  lua_pushcclosure(L, open_all, 2);
  lua_call(L, 0, 1);
  return 1;
}
