/*
** lua_session.c -- the session of a capture: from its beginning to its end, whatever happens between.
** In: a function that evaluates a call and tells what it meets (capture.lua, tape.lua), under the names of
** `internals.capture`. Out: its results, or what it raised; when the session is over, all is as it was. Raises what
** debug hooks raise.
**
** 1. A session lasts as long as one call of C (capture_session): it ends in any case, and only here.
** 2. What is recorded is what the evaluator calls. Whoever else comes while a session is open, a debug hook or another
**    coroutine that one resumes, ends it by the first thing that is asked of Tycho, and then finds all as it was before
**    the session. The evaluator is told at its next step (ty_lua_session_enter), and gives up.
** 3. Lua's collector stands still meanwhile: a finaliser would record.
*/
#include <stdio.h>
#include "grad.h"
#include "lua_modes.h"
#include "lua_session.h"

/* --- its extent */

static bool begin(Session *s, Host *H) {
  State *S = &H->S;
  Lazy like = {.thread = s->L, .pinned = &s->protect};
  s->lazy = ty_lazy_open(S, &like);
  if (!s->lazy) return false;
  if (!ty_capture_begin(S, s->lazy->open)) {
    ty_lazy_abandon(S, s->lazy);
    return false;
  }
  s->entered = H->entered;
  s->collects = lua_gc(s->L, LUA_GCISRUNNING, 0) != 0;
  if (s->collects) lua_gc(s->L, LUA_GCSTOP, 0);
  H->session = s;
  return true;
}

/* Cannot fail: it runs while errors are on their way. */
static void end(lua_State *L, Host *H, Session *s) {
  State *S = &H->S;
  if (s->ended) return;
  s->ended = true;
  ty_lua_modes_cut(L, H, s->entered);
  ty_capture_end(S);
  ty_lazy_abandon(S, s->lazy);
  if (s->collects) lua_gc(L, LUA_GCRESTART, 0);
}

void ty_lua_session_done(lua_State *L, Host *H) {
  Session *s = H->session;
  H->session = NULL;
  end(L, H, s);
}

void ty_lua_session_enter(lua_State *L, Host *H) {
  Session *s = H->session;
  if (L != s->L || ty_lua_in_hook(L, &s->protect)) end(L, H, s);
  else if (s->ended) luaL_error(L, "the session has ended");
}

void ty_lua_hook_ran(lua_State *L, Host *H) {
  Session *s = H->session;
  if (!s || lua_gc(L, LUA_GCISRUNNING, 0) != 1) return;
  s->collects = true;
  lua_gc(L, LUA_GCSTOP, 0);
}

/* session(handle, fn, ...) -> true and fn's results; false, what it raised, what the core refused; nil and why there is
** no session */
static int capture_session(lua_State *L) {
  State *S = ty_lua_enter(L);
  Host *H = (Host *)S;
  Session s = {.L = L};
  char why[ERR_MAX] = "";
  bool busy = S->open || H->session, hooked;
  luaL_checkudata(L, 1, ENTRY_META);
  if (busy || !begin(&s, H)) {
    lua_pushnil(L);
    lua_pushstring(L, busy ? "another function is being recorded" : "out of memory");
    return 2;
  }
  int status = ty_lua_protect(L, H, &s.protect, lua_gettop(L) - 2, LUA_MULTRET, &hooked);
  if (S->capture && S->capture->refused) memcpy(why, S->capture->why, sizeof why);
  if (s.ended && H->session) snprintf(why, sizeof why, "a debug hook used tensors meanwhile");
  end(L, H, &s);
  if (s.collects) lua_gc(L, LUA_GCRESTART, 0); /* a hook may have ended the session long before */
  H->session = NULL;
  if (hooked) return lua_error(L);
  lua_pushboolean(L, !status);
  lua_replace(L, 1);
  if (!status) return lua_gettop(L);
  if (*why) lua_pushstring(L, why);
  return *why ? 3 : 2;
}

/* --- what the evaluator tells and asks */

static int capture_reason(lua_State *L) {
  State *S = ty_lua_state(L);
  if (!S->capture || !S->capture->refused) return 0;
  lua_pushstring(L, S->capture->why);
  return 1;
}

/* outside(tensor, slot) */
static int capture_outside(lua_State *L) {
  State *S = ty_lua_state(L);
  Tensor *t = ty_lua_check(L, "capture", 1);
  i32 slot = (i32)luaL_checkinteger(L, 2);
  if (!S->capture) return luaL_error(L, "no capture");
  for (i32 i = 0; i < S->capture->noutside; i++)
    if (S->capture->outside[i].slot == slot) return 0;
  if (t->st->batch && t->st->batch != S->capture->batch && !S->cut(S, t->st->batch, t->st))
    return ty_lua_fail(L, S);
  if (!ty_capture_outside(S, t, slot)) return ty_lua_fail(L, S);
  return 0;
}

/* symbols(n, i1, id1, i2, id2 ...): of the next call */
static int capture_symbols(lua_State *L) {
  Capture *c = ty_lua_state(L)->capture;
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
  Capture *c = ty_lua_state(L)->capture;
  lua_pushnumber(L, c ? c->taken : 0);
  if (!c) return 1;
  memset(c->symbol, 0, sizeof c->symbol);
  c->taken = 0;
  return 1;
}

static int capture_wholeness(lua_State *L) {
  Capture *c = ty_lua_state(L)->capture;
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

void ty_lua_open_session(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"session", capture_session},
                                 {"reason", capture_reason},
                                 {"outside", capture_outside},
                                 {"symbols", capture_symbols},
                                 {"taken", capture_taken},
                                 {"wholeness", capture_wholeness},
                                 {"upvalue", capture_upvalue},
                                 {"upvalue_id", capture_upvalue_id},
                                 {"environment", capture_environment},
                                 {"is_tensor", capture_is_tensor},
                                 {"is_native", capture_is_native},
                                 {"gradient", ty_lua_leaf_gradient},
                                 {"gradients", ty_lua_leaf_gradients},
                                 {"lone", ty_lua_leaf_lone},
                                 {"whole", ty_lua_leaf_whole},
                                 {"alias", ty_lua_leaf_alias},
                                 {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "capture");
  lua_pop(L, 1);
}
