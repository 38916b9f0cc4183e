/*
** lua_released.c -- handles of tensors that were released.
** In: a userdata with the mark of such a handle, which may be what is left in its memory. Out: whether it is one, by its
** metatable. Cannot fail.
*/
#include "lua/lua_tycho.h"

bool ty_lua_is_released(lua_State *L, const Binding *B, int i) {
  if (!lua_getmetatable(L, i)) return false;
  const bool is = lua_topointer(L, -1) == B->released;
  lua_pop(L, 1);
  return is;
}
