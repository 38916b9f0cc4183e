/*
** lua_composite.c -- composites in eager mode: functions of several operations run as one plan.
** In: a function of the library's that records operations, its arguments. Out: its results, computed. Raises what it raises.
**
** While a composite of large tensors runs, its operations are recorded, and cut once at its end: what it computes on the way
** needs no memory. Only its results are looked at afterwards, so the rest is let go of at once, with the inputs
** that it pins. For small tensors recording costs more than it saves. Where the tape needs an operand, operations run one
** by one: it keeps values on the way.
*/
#include "engine/entry.h"
#include "lua/lua_protect.h"
#include "lua/lua_tycho.h"
#include "record/grad.h"

enum { WORTH = 8192 }; /* elements of the first argument */

/* Whether to record a call with the arguments from index 1 on. */
static bool is_worth(lua_State *L, const State *S) {
  const Tensor *x = ty_lua_test(L, 1);
  if (!x || !x->st || x->st->numel < WORTH || ty_type_numel(&x->type) < WORTH) return false;
  for (int i = 1, n = lua_gettop(L); S->tracks && i <= n; i++) {
    const Tensor *t = ty_lua_test(L, i);
    if (t ? t->st && ty_needs_grad(t) : lua_istable(L, i)) return false;
  }
  return true;
}

/* eager() -> whether operations are computed one by one */
static int composite_eager(lua_State *L) {
  const State *S = ty_lua_enter(L);
  lua_pushboolean(L, !S->open && !S->capture && !S->level);
  return 1;
}

/* worth(...) -> whether run(f, ...) is, in eager mode */
static int composite_worth(lua_State *L) {
  lua_pushboolean(L, is_worth(L, ty_lua_state(L)));
  return 1;
}

/* Results are computed at the cut, whoever reads them. False: there are others than tensors and plain values. */
static bool want_results(lua_State *L, Recording *b) {
  bool known = true;
  for (int i = 1, n = lua_gettop(L); i <= n; i++) {
    const Tensor *t = ty_lua_test(L, i);
    if (t && t->st && t->st->recording == b) b->g.uses[t->st->node] = 0;
    known = known && (t || lua_type(L, i) <= LUA_TSTRING);
  }
  return known;
}

/* run(f, ...) -> what f gives */
static int composite_run(lua_State *L) {
  State *S = ty_lua_enter(L);
  Protect p;
  bool hooked;
  Lazy like = {.thread = L, .pinned = &p}, *z = ty_lazy_open(S, &like);
  if (!z) { /* no memory: one by one */
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  const int status = ty_lua_protect(L, (Binding *)S, &p, lua_gettop(L) - 1, LUA_MULTRET, &hooked);
  Recording *b = z->open;
  const bool known = !status && want_results(L, b);
  b->refs++;
  const bool ok = !b->waiting || S->cut(S, b, NULL);
  if (ok && known) ty_recording_end(b);
  ty_recording_drop(S, b);
  ty_lazy_abandon(S, z);
  if (status) return lua_error(L);
  if (!ok) return ty_lua_fail(L, S);
  return lua_gettop(L);
}

void ty_lua_open_composite(lua_State *L, int m) {
  static const luaL_Reg fns[] = {
      {"eager", composite_eager}, {"worth", composite_worth}, {"run", composite_run}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "composite");
  lua_pop(L, 1);
}
