/*
** lua_release.c -- release, which frees one tensor at once.
** In: a tensor. Out: it has no memory, unless a function of ours is in the middle of something: then all stays as it
** is. Raises for what is no tensor.
*/
#include "lua/lua_tycho.h"

#define FRAMES_MAX 1000 /* looked at */

/* Whether the running function stands in the middle of another one of ours, as in a finaliser or a
** metamethod: what that works on must stay. Every function of ours that does so has told (ty_lua_works) how low on the
** stack it lies: frames below all of them have been looked at before. */
static bool inside_ours(lua_State *L, Binding *B) {
  lua_Debug ar;
  /* Lua's collector does not run in finalisers, and counts as stopped there, unless one restarts it. */
  const bool may_be_finaliser = lua_gc(L, LUA_GCISRUNNING, 0) != 1;
  const bool known = L == B->at && L != B->aside && !may_be_finaliser;
  const int clear = known ? B->clear : 0, own = lua_getstack(L, 0, &ar) ? SLOT(&ar) : 0;
  for (int level = 1; level < FRAMES_MAX; level++) {
    const bool there = lua_getstack(L, level, &ar);
    if (!there || SLOT(&ar) < clear) {
      if (known) B->clear = TY_MAX(clear, own);
      return L == B->aside; /* what it interrupts is not seen */
    }
    lua_getinfo(L, "f", &ar);
    lua_CFunction fn = lua_tocfunction(L, -1);
    bool ours = fn && lua_getupvalue(L, -1, 1) && lua_touserdata(L, -1) == B;
    lua_settop(L, 1);
    if (ours) return may_be_finaliser || !ty_lua_is_caller(fn);
  }
  return may_be_finaliser;
}

static int l_release(lua_State *L) {
  Tensor *t = ty_lua_test(L, 1);
  if (!t) ty_lua_check(L, "release", 1);
  lua_settop(L, 1);
  ty_lua_apart(L, ty_lua_binding(L));
  if (inside_ours(L, ty_lua_binding(L))) return 0;
  Binding *B = ty_lua_binding(L);
  Handle *h = (Handle *)t;
  ty_lua_scope_forget(h);
  ty_lua_result_forget(h);
  ty_tensor_release(t);
  if (h->mark != ty_lua_mark(B) || B->closing)
    return 0; /* again; or the last finaliser is waited for */
  h->mark = ~h->mark;
  lua_rawgeti(L, lua_upvalueindex(2), 1); /* there is nothing left to do for a finaliser */
  lua_setmetatable(L, 1);
  B->handles--;
  return 0;
}

void ty_lua_open_release(lua_State *L, int m, int t) {
  static const LuaFunction rows[] = {
      {"release", l_release, 'b', "x",
       "frees the memory of x at once, unless others share it; x cannot be used afterwards"},
      {NULL, NULL, 0, NULL, NULL}};
  ty_lua_define(L, m, t, rows);
}
