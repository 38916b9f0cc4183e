/*
** lua_evaluator.c -- what the evaluator of a capture calls: the functions of `internals.capture`.
** In: a function that evaluates a call and tells what it meets (capture.lua, tape.lua). Out: of a session its results,
** or what it raised; the notes of the capture (record/capture.h). Raises what debug hooks raise.
*/
#include <stdio.h>
#include "ir/site.h"
#include "lua/lua_session.h"

/* session(handle, fn, ...) -> true and fn's results; false, what it raised, what the core refused, whether another
** session is worth it at once; nil and why there is no session */
static int capture_session(lua_State *L) {
  static const char *const by[] = {[ENDED_BY_HOOK] = "a debug hook used tensors meanwhile",
                                   [ENDED_BY_FINALISER] = "a finaliser uses tensors meanwhile"};
  State *S = ty_lua_enter(L);
  Binding *B = (Binding *)S;
  Session s;
  char why[ERR_MAX] = "";
  bool busy = S->open || B->session, hooked;
  luaL_checkudata(L, 1, ENTRY_META);
  if (busy || !ty_lua_session_begin(L, B, &s)) {
    lua_pushnil(L);
    lua_pushstring(L, busy ? "another function is being recorded" : "out of memory");
    return 2;
  }
  int status = ty_lua_protect(L, B, &s.protect, lua_gettop(L) - 2, LUA_MULTRET, &hooked);
  if (S->capture && S->capture->refused) memcpy(why, S->capture->why, sizeof why);
  if (B->session && s.ended) snprintf(why, sizeof why, "%s", by[s.ended]);
  ty_lua_session_close(L, B, &s);
  if (hooked) return lua_error(L);
  lua_pushboolean(L, !status);
  lua_replace(L, 1);
  if (!status) return lua_gettop(L);
  if (!*why) return 2;
  lua_pushstring(L, why);
  lua_pushboolean(L, s.ended == ENDED_BY_FINALISER);
  return 4;
}

/* --- what it tells and asks */

/* located(f): f() tells where the code stands that is evaluated in this session. */
static int capture_located(lua_State *L) {
  Session *s = ty_lua_binding(L)->session;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  if (s && s->located == LUA_NOREF) s->located = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

/* place(where): what is recorded from now on in this session is so there. */
static int capture_place(lua_State *L) {
  State *S = ty_lua_state(L);
  if (S->capture) S->site = ty_site("", luaL_checkstring(L, 1));
  return 0;
}

static int capture_reason(lua_State *L) {
  const Capture *c = ty_lua_capture(L);
  if (!c || !c->refused) return 0;
  lua_pushstring(L, c->why);
  return 1;
}

/* outside(tensor, slot) */
static int capture_outside(lua_State *L) {
  State *S = ty_lua_state(L);
  Tensor *t = ty_lua_check(L, "capture", 1);
  i32 slot = (i32)luaL_checkinteger(L, 2);
  if (!ty_lua_capture(L)) return luaL_error(L, "no capture");
  for (i32 i = 0; i < S->capture->noutside; i++)
    if (S->capture->outside[i].slot == slot) return 0;
  if (t->st->recording && t->st->recording != S->capture->recording &&
      !S->cut(S, t->st->recording, t->st))
    return ty_lua_fail(L, S);
  if (!ty_capture_outside(S, t, slot)) return ty_lua_fail(L, S);
  return 0;
}

/* another(tensor) -> the same in a handle of its own, of unknown origin */
static int capture_another(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *t = ty_lua_check(L, "capture", 1);
  Tensor *y = ty_lua_push(L);
  ty_tensor_alias(y, t);
  y->origin = 0;
  return 1;
}

/* viewed(tensor) -> the slot of the tensor from outside that it is a view of, whether that one is detached; nothing:
** it is none */
static int capture_viewed(lua_State *L) {
  const Capture *c = ty_lua_capture(L);
  const Tensor *t = ty_lua_check(L, "capture", 1);
  i32 i = c ? ty_capture_from(c, t) : -1;
  if (i < 0 || c->outside[i].t.st != t->st) return 0;
  lua_pushinteger(L, c->outside[i].slot);
  lua_pushboolean(L, c->outside[i].t.detached);
  return 2;
}

/* sharing() -> a text that tells which leaves from outside whose gradients are asked for share memory with which */
static int capture_sharing(lua_State *L) {
  const Capture *c = ty_lua_capture(L);
  lua_pushliteral(L, "");
  for (i32 i = 0; c && i < c->noutside; i++) {
    i32 with = ty_capture_shares(c, i);
    if (with < 0) continue;
    lua_pushfstring(L, "%d=%d ", (int)c->outside[i].slot, (int)c->outside[with].slot);
    lua_concat(L, 2);
  }
  return 1;
}

/* symbols(n, i1, id1, i2, id2 ...): of the next call */
static int capture_symbols(lua_State *L) {
  Capture *c = ty_lua_capture(L);
  if (!c) return 0;
  memset(c->symbol, 0, sizeof c->symbol);
  c->taken = 0;
  for (int i = 2, top = lua_gettop(L); i + 1 <= top; i += 2) {
    int at = (int)lua_tointeger(L, i);
    if (at >= 1 && at <= SYMBOLS_MAX) c->symbol[at - 1] = (i32)lua_tointeger(L, i + 1);
  }
  return 0;
}

static int capture_taken(lua_State *L) {
  Capture *c = ty_lua_capture(L);
  lua_pushnumber(L, c ? c->taken : 0);
  if (!c) return 1;
  memset(c->symbol, 0, sizeof c->symbol);
  c->taken = 0;
  return 1;
}

static int capture_wholeness(lua_State *L) {
  Capture *c = ty_lua_capture(L);
  int n = c ? c->nwhole : 0;
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, c->whole[i] < 0 ? -c->whole[i] : c->whole[i]);
    lua_pushboolean(L, c->whole[i] > 0);
  }
  if (c) c->nwhole = 0;
  return 2 * n;
}

static int capture_upvalue(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (!lua_getupvalue(L, 1, (int)luaL_checkinteger(L, 2))) lua_pushnil(L);
  return 1;
}

static int capture_upvalue_id(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  char id[32]; /* a light userdata could be too wide */
  snprintf(id, sizeof id, "%p", lua_upvalueid(L, 1, (int)luaL_checkinteger(L, 2)));
  lua_pushstring(L, id);
  return 1;
}

static int capture_environment(lua_State *L) {
  lua_getfenv(L, 1);
  return 1;
}

static int capture_is_tensor(lua_State *L) {
  lua_pushboolean(L, lua_type(L, 1) == LUA_TUSERDATA && ty_lua_test(L, 1));
  return 1;
}

static int capture_is_native(lua_State *L) {
  lua_pushboolean(L, lua_iscfunction(L, 1));
  return 1;
}

/* loaded() -> the modules by name, as require finds them */
static int capture_loaded(lua_State *L) {
  ty_lua_push_loaded(L);
  return 1;
}

/* is_scoped() -> whether any ty.scope is open */
static int capture_is_scoped(lua_State *L) {
  lua_pushboolean(L, ty_lua_binding(L)->scope != NULL);
  return 1;
}

void ty_lua_open_evaluator(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"session", capture_session},
                                 {"reason", capture_reason},
                                 {"located", capture_located},
                                 {"place", capture_place},
                                 {"outside", capture_outside},
                                 {"symbols", capture_symbols},
                                 {"taken", capture_taken},
                                 {"wholeness", capture_wholeness},
                                 {"upvalue", capture_upvalue},
                                 {"upvalue_id", capture_upvalue_id},
                                 {"environment", capture_environment},
                                 {"is_tensor", capture_is_tensor},
                                 {"is_native", capture_is_native},
                                 {"loaded", capture_loaded},
                                 {"is_scoped", capture_is_scoped},
                                 {"another", capture_another},
                                 {"viewed", capture_viewed},
                                 {"sharing", capture_sharing},
                                 {"gradient", ty_lua_leaf_gradient},
                                 {"gradients", ty_lua_leaf_gradients},
                                 {"lone", ty_lua_leaf_lone},
                                 {"whole", ty_lua_leaf_whole},
                                 {"seen", ty_lua_leaf_seen},
                                 {"hooked", ty_lua_leaf_hooked},
                                 {"hooks", ty_lua_leaf_hooks},
                                 {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "capture");
  lua_pop(L, 1);
}
