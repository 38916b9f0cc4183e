/*
** lua_modes_enter.c -- modes as Lua enters and leaves them: the functions of `internals.modes`.
** In: what a mode is to say. Out: modes, open until they are left. Raises on other arguments, and when out of memory.
*/
#include "base/system.h"
#include "lua/lua_modes.h"
#include "lua/lua_trace.h"

/* Pushes whether the value at index 1 is a mode; gives it, or NULL. */
static Mode *push_is_mode(lua_State *L) {
  bool is = lua_type(L, 1) == LUA_TUSERDATA && lua_getmetatable(L, 1);
  if (is) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, ty_lua_binding(L)->mode_meta);
    is = lua_rawequal(L, -1, -2);
  }
  lua_pushboolean(L, is);
  return is ? (Mode *)lua_touserdata(L, 1) : NULL;
}

static Mode *check_mode(lua_State *L) {
  Mode *m = push_is_mode(L);
  if (!m) luaL_argerror(L, 1, "a mode expected");
  return m;
}

/* leave(mode) */
static int modes_leave(lua_State *L) {
  Mode *m = check_mode(L);
  ty_lua_apart(L, ty_lua_binding(L));
  ty_lua_mode_close(L, m);
  return 0;
}

/* grad(on) -> mode */
static int modes_grad(lua_State *L) {
  ty_lua_enter(L);
  Mode *m = ty_lua_mode_push(L, MODE_GRAD);
  m->on = lua_toboolean(L, 1);
  ty_lua_mode_open(L, m);
  return 1;
}

/* autocast(dtype, or false) -> mode */
static int modes_autocast(lua_State *L) {
  ty_lua_enter(L);
  const int dtype = lua_toboolean(L, 1) ? ty_lua_dtype(L, "autocast", 1) : -1;
  Mode *m = ty_lua_mode_push(L, MODE_CAST);
  m->cast = (u8)(dtype + 1);
  ty_lua_mode_open(L, m);
  return 1;
}

/* random(state) -> mode: numbers are drawn from that state on, and outside of it none were */
static int modes_random(lua_State *L) {
  ty_lua_enter(L);
  Mode *m = ty_lua_mode_push(L, MODE_RANDOM);
  size_t n;
  const char *state = luaL_checklstring(L, 1, &n);
  luaL_argcheck(L, n == sizeof m->random, 1, "no random state");
  memcpy(m->random, state, n);
  ty_lua_mode_open(L, m);
  return 1;
}

/* plain() -> mode: compiled functions run as if they were not */
static int modes_plain(lua_State *L) {
  ty_lua_enter(L);
  ty_lua_mode_open(L, ty_lua_mode_push(L, MODE_PLAIN));
  return 1;
}

/* about(handle, "check" or "warmup") -> mode of a compiled function */
static int modes_about(lua_State *L) {
  static const char *const names[] = {"check", "warmup", NULL};
  ty_lua_enter(L);
  const void *entry = luaL_checkudata(L, 1, ENTRY_META);
  const ModeKind kind = luaL_checkoption(L, 2, NULL, names) ? MODE_WARMUP : MODE_CHECK;
  Mode *m = ty_lua_mode_push(L, kind);
  m->of = entry;
  ty_lua_mode_open(L, m);
  return 1;
}

/* deadline(milliseconds from now) -> mode */
static int modes_deadline(lua_State *L) {
  ty_lua_enter(L);
  Mode *m = ty_lua_mode_push(L, MODE_DEADLINE);
  m->until = ty_system_now() + (i64)(luaL_checknumber(L, 1) * 1e6);
  ty_lua_mode_open(L, m);
  return 1;
}

/* half() -> the dtype that autocast was given, or nil */
static int modes_half(lua_State *L) {
  const State *S = ty_lua_enter(L);
  if (!S->cast) return 0;
  lua_pushstring(L, ty_dtypes[S->cast - 1].name);
  return 1;
}

/* parted(mode) -> whether others asked for something while its coroutine was suspended inside of it */
static int modes_parted(lua_State *L) {
  lua_pushboolean(L, check_mode(L)->parted);
  return 1;
}

/* is(v) -> whether it is a mode */
static int modes_is(lua_State *L) {
  push_is_mode(L);
  return 1;
}

void ty_lua_open_modes(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"grad", modes_grad},
                                 {"autocast", modes_autocast},
                                 {"random", modes_random},
                                 {"leave", modes_leave},
                                 {"plain", modes_plain},
                                 {"about", modes_about},
                                 {"half", modes_half},
                                 {"parted", modes_parted},
                                 {"deadline", modes_deadline},
                                 {"is", modes_is},
                                 {NULL, NULL}};
  ty_lua_modes_meta(L);
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "modes");
  lua_pop(L, 1);
}
