/*
** lua_frame.c -- calls that Lua makes, by their frames: whether one is still in progress.
** In: Lua's stack. Out: what holds for a call's extent holds as long as this says; errors may pass by whoever should
** have ended it. Cannot fail.
*/
#include "lua/lua_frame.h"

Frame ty_lua_frame(lua_State *L, int level) {
  lua_Debug ar;
  if (!lua_getstack(L, level, &ar)) return (Frame){0};
  return (Frame){.fn = ty_lua_function_at(L, &ar), .slot = SLOT(&ar), .level = level};
}

static int slot_at(lua_State *L, int level, lua_Debug *ar) {
  return lua_getstack(L, level, ar) ? SLOT(ar) : -1;
}

/* Most often whoever asks is as deep as the last one. Else the frame is between two levels: slots get smaller outwards. */
bool ty_lua_frame_lives(lua_State *L, Frame *f) {
  lua_Debug ar;
  int inside = -1, level = f->level, slot;
  if (!f->slot) return true;
  while ((slot = slot_at(L, level, &ar)) > f->slot) {
    inside = level;
    level = 2 * level + 1;
  }
  while (slot < f->slot && level - inside > 1) {
    int middle = (inside + level) / 2;
    lua_Debug other;
    int at = slot_at(L, middle, &other);
    if (at > f->slot) {
      inside = middle;
    } else {
      level = middle, slot = at, ar = other;
    }
  }
  if (slot != f->slot) return false;
  f->level = level;
  return ty_lua_function_at(L, &ar) == f->fn;
}
