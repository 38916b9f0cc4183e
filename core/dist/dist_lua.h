/*
** dist_lua.h -- what dist_lua.c, tensors of the CPU, and nccl_lua.c, those of CUDA devices, share: dist_seam.c.
*/
#ifndef TY_DIST_LUA_H
#define TY_DIST_LUA_H

#include <lua.h>
#include <lauxlib.h>
#include "dist/dist.h"
#include "lua/lua_seam.h"

extern Seam ty_dist_lent;
bool ty_dist_borrow(lua_State *L); /* false: this core.so lends something else */

/* The first call of each function that exchanges tensors. */
void ty_dist_enter(lua_State *L);
/* After an exchange that has failed: raises that. What its messages may still read and write, from index `from` on, stays. */
int ty_dist_fail(lua_State *L, int from);
/* list[i] */
i64 ty_dist_number(lua_State *L, int list, int i);

/* Pushes the result of an exchange in the capture in progress: as Seam.call, which has base and x. */
void ty_dist_push_call(lua_State *L, const ExchangeHead *h, const Message *m, const Type *t,
                       int base, int x);

/* Adds functions to the table at the top. */
void ty_dist_functions(lua_State *L, const luaL_Reg *fns);
/* nccl_lua.c: its functions. */
void ty_dist_open_nccl(lua_State *L);

#endif
