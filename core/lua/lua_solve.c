/*
** lua_solve.c -- linear algebra on tensors of a device, by a library of the device.
** In: arguments of ty.linalg's functions, of which lua/tycho/linalg_device.lua makes matrices for one routine after the other
** (SOLVE_*, ir/job.h).  Out: their results, or nothing where the device has no library: the CPU computes then. Raises when out of
** memory, and what the library says.
*/
#include "lua/lua_tycho.h"

#define KEY_DEVICE "tycho.linalg"

int ty_lua_linalg_device(lua_State *L, const char *who) {
  const int n = lua_gettop(L);
  bool away = false;
  for (int i = 1; i <= TY_MIN(n, 2); i++) {
    const Tensor *x = ty_lua_test(L, i);
    away |= x && x->type.device;
  }
  if (TY_LIKELY(!away)) return 0;
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_DEVICE);
  lua_getfield(L, -1, who);
  lua_remove(L, -2);
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_call(L, n, LUA_MULTRET);
  if (lua_gettop(L) > n && !lua_isnil(L, n + 1)) return lua_gettop(L) - n;
  lua_settop(L, n);
  return 0;
}

/* solve(routine, m, n, k, count, tensors ...) -> true: contiguous ones, which it overwrites; nil: the device has no library */
static int solve(lua_State *L) {
  enum { FIRST = 6 };
  static const char *const routines[] = {"cholesky", "lu",  "lu_solve", "qr",
                                         "qr_q",     "svd", "eigh",     NULL};
  State *S = ty_lua_enter(L);
  Solve d = {.kind = (u8)luaL_checkoption(L, 1, NULL, routines),
             .m = (i64)luaL_checknumber(L, 2),
             .n = (i64)luaL_checknumber(L, 3),
             .k = (i64)luaL_checknumber(L, 4),
             .count = (i64)luaL_checknumber(L, 5)};
  const char *who = routines[d.kind], *err = NULL;
  const Tensor *x = ty_lua_check(L, who, FIRST);
  const Device *device = ty_devices[x->type.device];
  void *buf[MAX_OPERANDS];
  d.dtype = x->type.dtype;
  const Job job = {.kind = JOB_SOLVE, .noperands = (u8)(lua_gettop(L) - FIRST + 1), .solve = &d};
  if (device == ty_cpu || !device->takes(&job)) return 0;
  for (int i = 0; i < job.noperands; i++) {
    x = ty_lua_check(L, who, FIRST + i);
    if (!ty_tensor_is_contiguous(x) || !(buf[i] = ty_tensor_own(S, x))) ty_lua_fail(L, S);
  }
  if (!device->perform(&job, buf, NULL, NULL, &S->runs, &err))
    return ty_lua_error(L, "%s: %s", who, err ? err : "out of memory");
  lua_pushboolean(L, 1);
  return 1;
}

/* internals.linalg: by name what ty_lua_linalg_device calls, which lua/tycho/linalg.lua fills in. */
void ty_lua_open_solve(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"solve", solve}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_DEVICE);
  lua_setfield(L, -2, "linalg");
  lua_pop(L, 1);
}
