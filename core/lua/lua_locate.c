/*
** lua_locate.c -- errors name the module in which they arise, as lua/tycho/nn/location.lua tells.
** In: the user's line and an error's text, as it is raised: calls of modules cost nothing more. Out: the text with the
** module's path. Fails silently: the error is raised as it was, but for what a debug hook raises.
*/
#include "lua/lua_protect.h"

/* Pushes the text; false: no module runs, or this cannot be told. What is recorded of a capture is nobody's to see. */
static bool locate(lua_State *L, Binding *B, const char *where, const char *text) {
  bool hooked;
  const int top = lua_gettop(L);
  if (B->session || !lua_checkstack(L, LUA_MINSTACK)) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, B->located);
  lua_pushstring(L, where);
  lua_pushstring(L, text);
  if (!ty_lua_undisturbed(L, B, 2, 1, &hooked) && lua_type(L, -1) == LUA_TSTRING) return true;
  if (hooked) lua_error(L);
  lua_settop(L, top);
  return false;
}

/* located(f): f(where, text) gives the text of an error that arises inside of a module, or nil */
int ty_lua_located(lua_State *L) {
  Binding *B = ty_lua_binding(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  if (B->located) luaL_unref(L, LUA_REGISTRYINDEX, B->located);
  B->located = luaL_ref(L, LUA_REGISTRYINDEX);
  B->locate = locate;
  return 0;
}
