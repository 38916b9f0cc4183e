/*
** lua_fields.h -- fields of the table on top of the stack, for functions that describe what there is.
*/
#ifndef TY_LUA_FIELDS_H
#define TY_LUA_FIELDS_H

#include <lua.h>
#include "base/base.h"

static inline void set_number(lua_State *L, const char *key, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, key);
}

static inline void set_string(lua_State *L, const char *key, const char *s) {
  lua_pushstring(L, s); /* nil for NULL */
  lua_setfield(L, -2, key);
}

static inline void set_flag(lua_State *L, const char *key, bool on) {
  lua_pushboolean(L, on);
  lua_setfield(L, -2, key);
}

#endif
