/*
** deadline.c -- the end of a call's time.
** In: how long a call may take. Out: an error, TY_LUA_LATE, in what goes on longer. Cannot fail itself.
**
** Operations look at a mode's, as in jit.deadline. Between them a hook does, where Lua code runs; code that LuaJIT has
** compiled knows no hooks, so it is forgotten, and none is made meanwhile. That is dear, for all of the Lua state: so it waits
** until a compiled function is about to run as Lua (ty_lua_runs). A call, or a step of one, that plans answer alone leaves
** LuaJIT's code as it is.
*/
#include <luajit.h>
#include "base/system.h"
#include "embed/model.h"
#include "lua/lua_modes.h"

enum { HOOK_PERIOD = 10000 }; /* instructions */

static void look_at_time(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_UNIVERSE);
  const Universe *U = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!U || !U->until || U->B->S.capture || ty_system_now() < U->until) return;
  lua_sethook(L, look_at_time, LUA_MASKCOUNT, 1); /* behind whatever catches the error */
  luaL_error(L, TY_LUA_LATE);
}

void ty_embed_watch(lua_State *L, void *universe) {
  const Universe *U = universe;
  if (!U->until || lua_gethook(L)) return; /* the host's own stays */
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH);
  lua_sethook(L, look_at_time, LUA_MASKCOUNT, HOOK_PERIOD);
  U->B->hook = look_at_time; /* it is no sign of Ctrl-C */
}

void ty_embed_unwatch(lua_State *L, const Universe *U) {
  if (lua_gethook(L) != look_at_time) return;
  lua_sethook(L, NULL, 0, 0);
  if (U->jit) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_ON);
}

void ty_embed_deadline_begin(lua_State *L, const Model *m, i64 left) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->record);
  lua_rawgeti(L, -1, RECORD_DEADLINE);
  Mode *mode = lua_touserdata(L, -1);
  lua_pop(L, 2);
  m->U->until = mode->until = ty_system_now() + left;
  ty_lua_mode_open(L, mode);
}

void ty_embed_deadline_end(lua_State *L, const Model *m) {
  if (!m->U->until) return;
  m->U->until = 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->record);
  lua_rawgeti(L, -1, RECORD_DEADLINE);
  ty_lua_mode_close(L, lua_touserdata(L, -1));
  lua_pop(L, 2);
}
