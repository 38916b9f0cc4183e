/*
** lua_vmap.c -- batched tensors as lua/tycho/vmap.lua makes and undoes them.
** In: tensors, dims. Out: under `internals.vmap` the functions below. Raises when out of memory and where a tensor has too many dims.
*/
#include "record/grad.h"
#include "lua/lua_modes.h"
#include "lua/lua_view.h"

static const char *const names[] = {"error", "different", "same", NULL}; /* by RandomRule */

/* open(count, randomness, id = a new one) -> mode, id; modes.leave ends it */
static int vmap_open(lua_State *L) {
  State *S = ty_lua_enter(L);
  i64 count = (i64)luaL_checknumber(L, 1);
  RandomRule rule = (RandomRule)luaL_checkoption(L, 2, "error", names);
  const u32 id = (u32)lua_tonumber(L, 3);
  Mode *m = ty_lua_mode_push(L, MODE_VMAP);
  m->level = ty_vmap_begin(S, id, count, rule);
  ty_lua_mode_open(L, m);
  lua_pushnumber(L, m->level.id);
  return 2;
}

/* outside() -> mode, in which no vmap runs; modes.leave ends it */
static int vmap_outside(lua_State *L) {
  const State *S = ty_lua_enter(L);
  Mode *m = ty_lua_mode_push(L, MODE_VMAP);
  m->level = ty_vmap_outside(S);
  ty_lua_mode_open(L, m);
  return 1;
}

static bool wrap(State *S, const Tensor *x, u32 id, const Type *t, Tensor *y) {
  Tensor all = {0}; /* let go of in any case */
  ty_tensor_alias(&all, x);
  return ty_vmap_wrap(S, &all, id, t, y);
}

/* wrap(x, dim, id) -> x without the dim, for each place there; whether that needed a copy of x */
static int vmap_wrap(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "vmap", 1);
  int dim = (int)lua_tointeger(L, 2) - 1;
  u32 id = (u32)lua_tonumber(L, 3);
  View v = ty_lua_view_of(x);
  i64 size = v.t.dims[dim], step = v.strides[dim];
  ty_lua_view_drop(&v, dim);
  Type t = v.t;
  ty_lua_view_insert(&v, 0, size, step);
  Tensor *all = ty_lua_view_push(L, x, &v), *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, wrap(S, all, id, &t, y));
  lua_pushboolean(L, y->st->batched->t.st != x->st);
  return 2;
}

/* unwrap(x, id) -> x for all examples, their dim first, whether it shares memory from before; nil where it is not
** batched there */
static int vmap_unwrap(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "vmap", 1);
  u32 id = (u32)lua_tonumber(L, 2);
  if (!x->st->batched || ty_vmap_level(x) != id) return 0;
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_vmap_lift(S, x, id, ty_vmap_count(S, id), 0, y));
  lua_pushboolean(L, !ty_vmap_has_made(S, id, y->st));
  return 2;
}

/* level(x) -> id of the innermost vmap that x is batched in, 0: none; level() of the innermost that runs */
static int vmap_level(lua_State *L) {
  const Tensor *x = ty_lua_test(L, 1);
  const Level *v = lua_gettop(L) ? NULL : ty_lua_enter(L)->level;
  lua_pushnumber(L, x && x->st ? ty_vmap_level(x) : v ? v->id : 0);
  return 1;
}

/* count(id) -> how many examples a vmap that runs has, -1: it has ended; its randomness */
static int vmap_count(lua_State *L) {
  const State *S = ty_lua_enter(L);
  const u32 id = (u32)luaL_checknumber(L, 1);
  lua_pushnumber(L, (lua_Number)ty_vmap_count(S, id));
  lua_pushstring(L, names[ty_vmap_randomness(S, id)]);
  return 2;
}

/* written(x) -> whether x was written since it was wrapped; how often since its storage is there */
static int vmap_written(lua_State *L) {
  const Storage *st = ty_lua_check(L, "vmap", 1)->st;
  lua_pushboolean(L, st->version > 0);
  lua_pushnumber(L, st->version);
  return 2;
}

/* tracked(x) -> whether x needs a gradient, its own or that of all examples */
static int vmap_tracked(lua_State *L) {
  const Tensor *x = ty_lua_test(L, 1);
  lua_pushboolean(L, x && x->st && (ty_needs_grad(x) || ty_grad_beyond(x)));
  return 1;
}

/* writable(x, y) -> whether y, which may differ from example to example, may be written to x */
static int vmap_writable(lua_State *L) {
  const Tensor *x = ty_lua_check(L, "vmap", 1), *y = ty_lua_check(L, "vmap", 2);
  lua_pushboolean(L, ty_vmap_may_write(ty_lua_state(L), x, y));
  return 1;
}

/* --- views of one storage */

/* Where a view lies: its first element in memory, how far it reaches. */
typedef struct Reach {
  i64 low, high, strides[MAX_RANK], steps[MAX_RANK];
  int n;
} Reach;

static Reach reach_of(const Tensor *x) {
  Reach r = {.low = x->offset};
  for (int d = 0; d < x->type.rank; d++) {
    const i64 steps = x->type.dims[d] - 1, stride = x->strides[d];
    if (stride < 0) r.low += steps * stride;
    if (steps <= 0 || !stride) continue;
    r.strides[r.n] = stride < 0 ? -stride : stride;
    r.steps[r.n++] = steps;
  }
  r.high = r.low;
  for (int d = 0; d < r.n; d++) r.high += r.steps[d] * r.strides[d];
  return r;
}

/* Places counted in steps of `by`: the first and the last, and what remains of the rest; false: the rest may carry
** over into them. */
static bool split(const Reach *r, i64 by, i64 *low, i64 *first, i64 *last) {
  i64 rest;
  *first = *last = *low / by;
  rest = *low %= by;
  for (int d = 0; d < r->n; d++)
    if (r->strides[d] == by) *last += r->steps[d];
    else if (r->strides[d] < by) rest += r->steps[d] * r->strides[d];
  return rest < by;
}

/* Whether the views may share an element: false is sure. Slices of one tensor are told apart dim by dim, by the
** digits of their places. */
static bool may_share(const Tensor *x, const Tensor *y) {
  Reach p = reach_of(x), q = reach_of(y);
  if (x->st != y->st || !ty_type_numel(&x->type) || !ty_type_numel(&y->type)) return false;
  if (p.high < q.low || q.high < p.low) return false;
  for (i64 by = INT64_MAX;;) {
    i64 next = 0, a, b, c, d;
    for (int k = 0; k < p.n; k++)
      if (p.strides[k] < by) next = TY_MAX(next, p.strides[k]);
    for (int k = 0; k < q.n; k++)
      if (q.strides[k] < by) next = TY_MAX(next, q.strides[k]);
    if (!next) return p.low == q.low;
    by = next;
    const bool plain = split(&p, by, &p.low, &a, &b) & split(&q, by, &q.low, &c, &d);
    if (!plain) return true;
    if (b < c || d < a) return false;
  }
}

/* overlap(x, y) -> whether the tensors may share an element */
static int vmap_overlap(lua_State *L) {
  const Tensor *x = ty_lua_check(L, "vmap", 1), *y = ty_lua_check(L, "vmap", 2);
  lua_pushboolean(L, may_share(x, y));
  return 1;
}

void ty_lua_open_vmap(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"open", vmap_open},
                                 {"outside", vmap_outside},
                                 {"wrap", vmap_wrap},
                                 {"unwrap", vmap_unwrap},
                                 {"level", vmap_level},
                                 {"count", vmap_count},
                                 {"written", vmap_written},
                                 {"tracked", vmap_tracked},
                                 {"writable", vmap_writable},
                                 {"overlap", vmap_overlap},
                                 {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "vmap");
  lua_pop(L, 1);
}
