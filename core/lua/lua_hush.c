/*
** lua_hush.c -- Lua's collector waits while a function is captured.
** In: the session, if there is one. Out: the collector's pause, and who is to have it back. Cannot fail.
**
** It waits until the heap has grown by as much as no capture takes. Were it stopped, nobody could tell finalisers from
** the call: in them it counts as stopped. But LuaJIT drives it on whenever it leaves compiled Lua code while finalisers
** wait. Finalisers of ours let go of things: what a session goes back to, it holds. And no function of ours is in the
** middle of anything when one comes: each hushes the collector as it begins.
*/
#include "lua/lua_session.h"

void ty_lua_hush(lua_State *L, Session *s) {
  const i64 far = (i64)1 << 30, percent = (i64)lua_gc(L, LUA_GCCOUNT, 0) * 1024 / 100 + 1;
  const int hushed = (int)TY_MAX(far / percent, 140), pause = lua_gc(L, LUA_GCSETPAUSE, hushed);
  if (pause != s->hushed) s->pause = pause; /* the script's, or a hook's lately */
  s->hushed = hushed;
  lua_gc(L, LUA_GCRESTART, -1); /* that pause begins now */
}

void ty_lua_wake(lua_State *L, const Session *s) {
  lua_gc(L, LUA_GCSETPAUSE, s->pause);
  lua_gc(L, s->collects ? LUA_GCRESTART : LUA_GCSTOP, 0);
}

Capture *ty_lua_capture(lua_State *L) {
  Binding *B = ty_lua_binding(L);
  if (B->S.capture) ty_lua_hush(L, B->session);
  return B->S.capture;
}

void ty_lua_hook_ran(lua_State *L, Binding *B) {
  Session *s = B->session;
  if (!s || s->ended) return;
  if (!lua_gc(L, LUA_GCISRUNNING, 0)) s->collects = false; /* the hook stopped it */
  ty_lua_hush(L, s);
}
