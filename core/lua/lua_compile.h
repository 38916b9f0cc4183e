/*
** lua_compile.h -- functions of `jit` that have files of their own beside lua_compile.c, which registers them.
*/
#ifndef TY_LUA_COMPILE_H
#define TY_LUA_COMPILE_H

#include <lua.h>

int ty_explain_info(lua_State *L);  /* lua_explain.c: _info(handle) */
int ty_recorded_list(lua_State *L); /* lua_recorded.c: _graph(f, ...) */

#endif
