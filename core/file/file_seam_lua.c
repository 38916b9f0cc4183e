/*
** file_seam_lua.c -- what the functions of all formats stand on: what core.so lends, answers, owners of what must be
** closed.
** In: the Lua stack. Out: the seam (lua/lua_seam.h), values on the stack. Raises for a core.so that this shared object
** does not belong to, for what is no owner, and when out of memory.
*/
#include "file/file_lua.h"

static Seam lent;
static Lock lent_lock = LOCK_INIT;

const Seam *ty_file_seam(void) { return &lent; }

void ty_file_take_seam(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_KEY);
  const Seam *seam = (const Seam *)lua_touserdata(L, -1);
  if (!seam || lua_objlen(L, -1) != sizeof *seam || seam->magic != SEAM_MAGIC ||
      seam->size != sizeof *seam)
    luaL_error(L, "tycho: files.so does not belong to this core.so");
  ty_lock(&lent_lock);
  lent = *seam;
  ty_unlock(&lent_lock);
  lua_pop(L, 1);
}

/* A hook for instructions that was not there when the function was called. */
static _Thread_local lua_Hook hook_before;

static bool is_interrupted(void *L) {
  lua_Hook hook = lua_gethook(L);
  return hook && hook != hook_before && lua_gethookmask(L) & LUA_MASKCOUNT;
}

const Seam *ty_file_enter(lua_State *L) {
  lent.enter(L, "reads or writes a file");
  hook_before = lua_gethook(L);
  ty_file_watch(is_interrupted, L);
  return &lent;
}

int ty_file_answer(lua_State *L, const char *message) {
  lua_pushnil(L);
  lua_pushstring(L, message);
  return 2;
}

void ty_file_push_function(lua_State *L, lua_CFunction fn) {
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_STATE);
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_META);
  lua_pushcclosure(L, fn, 2);
}

/* --- owners */

void *ty_file_push_owner(lua_State *L, size_t size, const char *kind, lua_CFunction drop) {
  void *p = lua_newuserdata(L, size);
  memset(p, 0, size);
  if (luaL_newmetatable(L, kind)) {
    lua_pushcfunction(L, drop);
    lua_setfield(L, -2, "__gc");
    lua_pushstring(L, kind);
    lua_setfield(L, -2, "__metatable"); /* not to be taken off, or called by others */
  }
  lua_setmetatable(L, -2);
  return p;
}

void *ty_file_check_owner(lua_State *L, int i, const char *kind) {
  void *p = lua_touserdata(L, i);
  if (p && lua_getmetatable(L, i)) {
    lua_getfield(L, LUA_REGISTRYINDEX, kind);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (same) return p;
  }
  luaL_error(L, "files: argument %d must be a %s", i, kind);
  return NULL;
}
