/*
** file_lua.h -- what the files of files.so share that bind formats to Lua (file_*_lua.c).
** A format's functions are rows of a luaL_Reg list, which file_lua.c registers as closures over the
** State and the tensors' metatable. Each begins with ty_file_enter. Trouble with the world is
** answered by nil and a message, misuse raises. What must be closed lies in a userdata with __gc
** before anything that may raise is called.
*/
#ifndef TY_FILE_LUA_H
#define TY_FILE_LUA_H

#include <lua.h>
#include <lauxlib.h>
#include "file/file.h"
#include "lua/lua_seam.h"

extern const luaL_Reg ty_file_archives[]; /* file_lua.c: npy, npz, safetensors, gguf, writing */
extern const luaL_Reg ty_file_csv[];      /* file_csv_lua.c: tables in text */
extern const luaL_Reg ty_file_image[];    /* file_image_lua.c: images */
extern const luaL_Reg ty_file_ring[];     /* file_ring_lua.c: reading in the background */
extern const luaL_Reg ty_file_protobuf[]; /* file_protobuf_lua.c: messages of Protocol Buffers */

/* --- file_seam_lua.c */

/* Takes what core.so lends, as files.so is loaded. Raises where they do not belong together. */
void ty_file_take_seam(lua_State *L);
/* What core.so lends. */
const Seam *ty_file_seam(void);
/* The same, at the start of each function. What follows may be ended by Ctrl-C, as lua_interrupt.c has it. */
const Seam *ty_file_enter(lua_State *L);
/* Pushes nil and the message. */
int ty_file_answer(lua_State *L, const char *message);
/* Pushes a function as the closure that every function of ours is. */
void ty_file_push_function(lua_State *L, lua_CFunction fn);
/* A userdata of that size, zeroed, whose __gc is `drop`. Raises when out of memory. */
void *ty_file_push_owner(lua_State *L, size_t size, const char *kind, lua_CFunction drop);
/* The one at index i, or raises. */
void *ty_file_check_owner(lua_State *L, int i, const char *kind);

#endif
