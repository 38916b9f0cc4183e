/*
** lua_table.h -- which LuaJIT the library calls; see lua_table.c.
*/
#ifndef TY_LUA_TABLE_H
#define TY_LUA_TABLE_H

#include "base/base.h"

/* Finds the process's LuaJIT: the linked one, or one that was loaded for all to see; else, where `library` is not NULL,
** opens that, or "" by its usual names. The first success holds for the process. of_host: a state of the host's is to be
** used, which is not of a library that was opened here. False: `why` says what is missing. */
bool ty_lua_find(const char *library, bool of_host, char *why, size_t n);
/* Where it was found: "linked", or the library's name. */
const char *ty_lua_found(void);

#endif
