/*
** lua_frame.h -- calls that Lua makes, by their frames: whether one is still in progress.
*/
#ifndef TY_LUA_FRAME_H
#define TY_LUA_FRAME_H

#include <lua.h>
#include <stdbool.h>

#define SLOT(ar) ((ar)->i_ci & 0xffff) /* LuaJIT numbers frames by stack slots */

/* A call in progress when it was noted. Of another one at the same place it is told by its function. */
typedef struct Frame {
  const void *fn;
  int slot;  /* 0: it lasts until its owner says otherwise */
  int level; /* where it was found last */
} Frame;

/* The function of a frame, as a number that tells it from others. */
static inline const void *ty_lua_function_at(lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "f", ar);
  const void *f = lua_topointer(L, -1);
  lua_pop(L, 1);
  return f;
}

/* The function that runs at a level of L: 0 is the running one, 1 has called it. */
Frame ty_lua_frame(lua_State *L, int level);
/* Whether that call is still in progress on L. Only calls that are noted while it is are told from those before: who
** notes one at the same slot drops the earlier. */
bool ty_lua_frame_lives(lua_State *L, Frame *f);

#endif
