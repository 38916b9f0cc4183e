/*
** protect.c -- calls of Lua below which errors may be raised, and what such an error becomes.
** In: functions of C's. Out: a status, and a sentence for ty_error. Cannot fail itself.
*/
#include "embed/embed.h"
#include "lua/lua_seam.h"

static const char *text_of(lua_State *L) {
  if (lua_type(L, -1) == LUA_TSTRING) return lua_tostring(L, -1);
  return "an error that is no text";
}

ty_status ty_embed_failed(Universe *U, lua_State *L, const char *who, int status) {
  const char *text = text_of(L);
  ty_status y = TY_FAILED;
  if (status == LUA_ERRMEM || strstr(text, "out of memory") || strstr(text, "not enough memory"))
    y = TY_NO_MEMORY;
  else if (strstr(text, TY_LUA_LATE)) y = TY_TIMEOUT;
  (void)U;
  ty_failed(y, "%s%s%s", who ? who : "", who ? ": " : "", text);
  lua_pop(L, 1);
  return y;
}

ty_status ty_embed_protect(Universe *U, const char *who, lua_CFunction fn, void *p) {
  const int status = lua_cpcall(U->L, fn, p);
  return status ? ty_embed_failed(U, U->L, who, status) : TY_OK;
}

void ty_embed_push_function(lua_State *L, lua_CFunction fn, void *p) {
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_STATE);
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_META);
  lua_pushlightuserdata(L, p);
  lua_pushcclosure(L, fn, 3);
}

void ty_embed_push_lua(lua_State *L, const Universe *U, const char *name) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, U->lua);
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
}
