/*
** lua_link.h -- results that wait for the function that pick answers with, and what goes on in the middle of a function.
*/
#ifndef TY_LUA_LINK_H
#define TY_LUA_LINK_H

#include <lua.h>
#include "engine/entry.h"
#include "lua/lua_tycho.h"

/* Takes n values from the top of the stack, which wait for the function that hands them out. */
void ty_lua_stash(lua_State *L, struct Compiled *C, i32 n, int stash);
/* Pushes that function; the stash is on top of the stack. */
void ty_lua_push_hand_out(lua_State *L);
/* The same for what goes on in the middle of the function at 1, and what that shares (2 values); what is at 2 is called
** when that is something else. */
void ty_lua_push_hand_on(lua_State *L);

/* Whether the globals and variables of the function at index f are still those that `shared`, of ty_lua_push_hand_on, knows. */
bool ty_lua_is_shared(lua_State *L, int f, const void *shared);

/* On top of the stack lie a link and n registers. Goes from part to part, and gives what pick answers: so many values. */
int ty_link_follow(lua_State *L, State *S, int n, int stash, int hand_out);
int ty_lua_link(lua_State *L);
int ty_lua_link_exit(lua_State *L);

#endif
