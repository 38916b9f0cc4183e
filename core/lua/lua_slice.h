/*
** lua_slice.h -- calls in slices of time, as pick asks for them.
*/
#ifndef TY_LUA_SLICE_H
#define TY_LUA_SLICE_H

#include "lua/lua_tycho.h"

/* Whether a call on this coroutine can wait: nothing of C's lies between it and who resumed it. */
bool ty_slice_can_wait(lua_State *L);
void ty_lua_open_slice(lua_State *L, int m);

#endif
