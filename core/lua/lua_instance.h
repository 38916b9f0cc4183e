/*
** lua_instance.h -- functions that share the variables and the globals of one that is made anew in each call.
*/
#ifndef TY_LUA_INSTANCE_H
#define TY_LUA_INSTANCE_H

#include <lua.h>
#include "lua/lua_tycho.h"

/* Pushes a function that the one at index maker makes, over the variables and globals of the one at index like. */
void ty_lua_push_instance(lua_State *L, int maker, int like);

#endif
