/*
** lua_lazy.c -- whether the call of a compiled function that records is still in progress.
** In: the coroutine that asks, Lua's stack. Out: the recording where its operations go, or none: its call has returned,
** and what was recorded is closed. Cannot fail.
**
** Lua has no hook for the return of the user's function that would not be a frame of ours under it. Instead every entry
** of Tycho asks Lua's stack: frames are numbered by stack slots (lua_Debug.i_ci), so the frame right above the caller
** is found and compared. A wrong answer costs fusion, never a result: recording longer or shorter gives the same
** values.
*/
#include "engine/entry.h"
#include "lua/lua_protect.h"

#define WALK_MAX 12 /* frames looked at; deeper calls are taken to be inside */

/* The frame right above the caller's is the function, or what it became by a tail call: then the
** caller still stands on the line of the call. */
static bool still_inside(lua_State *L, Lazy *z) {
  lua_Debug ar, above;
  bool any = false;
  if (z->pinned) return true;
  /* Most often the function itself asks, from where it was found before. */
  if (z->slot && lua_getstack(L, 1, &ar) && SLOT(&ar) == z->slot &&
      ty_lua_function_at(L, &ar) == z->fn)
    return true;
  for (int level = 0; level <= WALK_MAX; level++) {
    bool bottom = !lua_getstack(L, level, &ar);
    if (!bottom && SLOT(&ar) > z->caller) {
      above = ar;
      any = true;
      continue;
    }
    if (!any || (bottom ? z->caller != -1 : SLOT(&ar) != z->caller)) return false;
    if (ty_lua_function_at(L, &above) == z->fn) {
      z->slot = SLOT(&above);
      return true;
    }
    if (SLOT(&above) >= z->wrapper) return false;
    if (bottom) return true;
    lua_getinfo(L, "l", &ar);
    return ar.currentline == z->line;
  }
  return true;
}

void ty_lua_sync(lua_State *L, State *S) {
  Lazy *z = ty_lazy_find(S, L);
  if (z && z->pinned && ((const Protect *)z->pinned)->by->in_hook) z = NULL;
  if (z && !still_inside(L, z)) {
    ty_lazy_close(S, z);
    z = NULL;
  }
  S->open = z ? z->open : NULL;
}
