/*
** lua_enter.c -- the start of every native function that records, demands or asks.
** In: the coroutine that calls. Out: the State, whose words hold for it: sessions that it is no part of have ended,
** modes and the open recording are its own. Raises when the State is closing, or when what is asked for does so.
*/
#include "engine/entry.h"
#include "lua/lua_tycho.h"

State *ty_lua_enter(lua_State *L) { return ty_lua_enter_in(L, ty_lua_binding(L)); }

void ty_lua_works(lua_State *L, Binding *B) {
  lua_Debug ar;
  if (B->at != L) B->at = L, B->clear = 0;
  if (B->clear && lua_getstack(L, 0, &ar)) B->clear = TY_MIN(B->clear, SLOT(&ar));
}

State *ty_lua_enter_in(lua_State *L, Binding *B) {
  if (TY_UNLIKELY(!B || B->closed)) ty_lua_error(L, "tycho: this Lua state is closing");
  State *S = &B->S;
  ty_lua_works(L, B);
  B->hook = lua_gethook(L);
  ty_lua_apart(L, B);
  ty_lua_follow(L, B);
  if (TY_UNLIKELY(S->sites)) ty_lua_place(L, B);
  if (TY_UNLIKELY(B->until != 0) && ty_lua_is_late(B)) ty_lua_error(L, TY_LUA_LATE);
  if (S->engine->compiled->lazy) ty_lua_sync(L, S);
  else S->open = NULL;
  return S;
}
