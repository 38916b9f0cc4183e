/*
** lua_instance.c -- functions that share the variables and the globals of one that is made anew in each call.
** In: a Lua function that makes functions of edited bytecode (capture/continuation.lua), the function that is running.
** Out: one of them, over the variables of that. Raises when memory is out.
**
** A closure of captured code has other variables in each call, so what goes on in its middle cannot be joined to them once
** and for all. Its parts are those of its prototype; the closure itself goes from part to part behind the registers, and
** what runs natively is made where it begins to run.
*/
#include <lauxlib.h>
#include "lua/lua_guard.h"
#include "lua/lua_instance.h"
#include "lua/lua_protect.h"
#include "lua/lua_trace.h"

/* Calls the maker on top, which is given `like`. */
static void make(lua_State *L, int like) {
  bool hooked;
  lua_pushvalue(L, like);
  if (TY_LIKELY(!lua_gethook(L))) lua_call(L, 1, 1);
  else if (ty_lua_undisturbed(L, ty_lua_binding(L), 1, 1, &hooked))
    lua_error(L); /* a hook would see what makes it */
}

void ty_lua_push_instance(lua_State *L, int maker, int like) {
  lua_Debug ar;
  luaL_checktype(L, like, LUA_TFUNCTION);
  lua_pushvalue(L, maker);
  make(L, like);
  lua_pushvalue(L, like);
  lua_getinfo(L, ">u", &ar);
  for (int i = 1; i <= ar.nups; i++) lua_upvaluejoin(L, -1, i, like, i);
  lua_getfenv(L, like);
  lua_setfenv(L, -2);
}

/* Upvalues: state, metatable, what makes it, the position of the function among the arguments. */
static int instance(lua_State *L) {
  ty_lua_push_instance(L, lua_upvalueindex(3), (int)lua_tointeger(L, lua_upvalueindex(4)));
  return 1;
}

/* instances(make, at) -> what gives a function that make makes, of arguments of which the one at that position is like it */
static int instance_maker(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_checkinteger(L, 2);
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, instance, 4);
  return 1;
}

/* What makes a closure, given the values of its own variables and the function it is made in. Upvalues: state, metatable,
** the maker, pairs of numbers of variables that it shares, its own and that function's. */
static int made_inside(lua_State *L) {
  const int like = lua_gettop(L);
  size_t n;
  const char *pair = lua_tolstring(L, lua_upvalueindex(4), &n);
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_insert(L, 1);
  lua_pushvalue(L, like + 1);
  lua_insert(L, 1);
  lua_call(L, like, 1);
  for (size_t i = 0; i < n; i += 2)
    lua_upvaluejoin(L, 2, (unsigned char)pair[i], 1, (unsigned char)pair[i + 1]);
  lua_getfenv(L, 1);
  lua_setfenv(L, 2);
  return 1;
}

/* inside(make, pairs) -> the same as a function */
static int instance_inside(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_checktype(L, 2, LUA_TSTRING);
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, made_inside, 4);
  return 1;
}

/* Gives the function that calls it, and the one that goes from part to part, new variables in place of some upvalues.
** Arguments: that one, the upvalues' numbers. Upvalue 3: what makes functions that have such variables. */
static int renew(lua_State *L) {
  lua_Debug ar;
  const int n = lua_gettop(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (!lua_getstack(L, 1, &ar)) return 0;
  lua_getinfo(L, "f", &ar);
  lua_pushvalue(L, lua_upvalueindex(3));
  make(L, 1);
  for (int i = 2; i <= n; i++) {
    const int k = (int)luaL_checkinteger(L, i);
    for (int f = 1; f <= n + 1; f += n) {
      if (lua_iscfunction(L, f) || !lua_getupvalue(L, f, k)) return 0;
      lua_pop(L, 1);
      lua_upvaluejoin(L, f, k, n + 2, k);
    }
  }
  return 0;
}

/* renews(make) -> the same as a function */
static int instance_renews(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, renew, 3);
  return 1;
}

/* carries(handle, at): the entry's function makes what runs, of the variables of the argument at that position */
static int instance_carries(lua_State *L) {
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  e->carried = (i32)luaL_checkinteger(L, 2);
  return 0;
}

/* has_code(f, dump) -> whether f is a function with that dump */
static int instance_has_code(lua_State *L) {
  size_t n;
  char *bytes = (char *)luaL_checklstring(L, 2, &n);
  lua_pushboolean(L, ty_guard_same_code(L, 1, &(Dump){n, n, bytes}));
  return 1;
}

void ty_lua_open_instance(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"_instances", instance_maker},   {"_inside", instance_inside},
                                 {"_renews", instance_renews},     {"_carries", instance_carries},
                                 {"_has_code", instance_has_code}, {NULL, NULL}};
  lua_pushvalue(L, m);
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
