/*
** lua_check.c -- what jit.check needs of the core: contents of tensors, their tapes and gradients kept and put
** back, the random state rewound, the first element in which two tensors differ.
** In: tensors. Out: under `internals.check` the functions below. Fails when out of memory.
**
** What a tensor holds is kept by holding its buffer, which costs nothing until somebody writes. A
** buffer whose address left is copied, and gets its bytes back in place.
*/
#include <stdio.h>
#include "record/grad.h"
#include "lua/lua_protect.h"

static bool is_fixed(const Buffer *b) { return b->exposed || b->foreign; }

static void compute(lua_State *L, State *S, const Tensor *t) {
  if (t->st->batched) ty_lua_error(L, "check: a tensor belongs to a vmap that has ended");
  if (t->st->recording && !S->cut(S, t->st->recording, t->st)) ty_lua_fail(L, S);
}

/* still(tensor) -> another tensor, which keeps what the storage holds now; its version */
static int check_still(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *t = ty_lua_check(L, "check", 1);
  compute(L, S, t);
  Tensor *y = ty_lua_push(L);
  Storage *st = ty_storage_new(S, t->st->dtype, t->st->device, t->st->numel);
  if (!st) ty_lua_fail(L, S);
  Buffer *from = t->st->buf, *buf = from;
  if (is_fixed(from) && (buf = ty_buffer_new(S, from->device, from->bytes))) {
    if (from->bytes) memcpy(buf->data, from->data, (size_t)from->bytes);
  } else if (buf) {
    ty_buffer_hold(buf);
  }
  if (!buf) {
    ty_storage_drop(st);
    return ty_lua_fail(L, S);
  }
  ty_storage_settle(st, buf);
  y->type = t->type;
  y->offset = t->offset;
  memcpy(y->strides, t->strides, sizeof y->strides);
  y->st = st;
  lua_pushnumber(L, t->st->version);
  return 2;
}

/* put_back(tensor, still, version) */
static int check_put_back(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *t = ty_lua_test(L, 1), *was = ty_lua_check(L, "check", 2);
  if (!t) return 0;
  if (!t->st) { /* it was released */
    ty_tensor_alias(t, was);
    return 0;
  }
  Storage *st = t->st;
  compute(L, S, t);
  if (is_fixed(st->buf) && st->buf->bytes == was->st->buf->bytes) {
    if (st->buf->bytes) memcpy(st->buf->data, was->st->buf->data, (size_t)st->buf->bytes);
    ty_buffer_changed(st->buf);
  } else if (st->buf != was->st->buf) {
    ty_storage_settle(st, ty_buffer_hold(was->st->buf));
  }
  st->version = (u32)lua_tonumber(L, 3);
  return 0;
}

/* changed(tensor, still) -> whether the storage was written since, or released */
static int check_changed(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *t = ty_lua_test(L, 1), *was = ty_lua_check(L, "check", 2);
  bool changed = !t || !t->st;
  if (!changed) {
    compute(L, S, t);
    const Buffer *a = t->st->buf, *b = was->st->buf;
    changed = a != b && !(is_fixed(a) && a->bytes == b->bytes &&
                          (!a->bytes || !memcmp(a->data, b->data, (size_t)a->bytes)));
  }
  lua_pushboolean(L, changed);
  return 1;
}

/* --- what is differentiated */

#define META_PAST "tycho.past"

/* What a handle was: a storage, gradients that go through or not, where the contents came from. */
typedef struct Past {
  Tensor t;
  Record *tape; /* held, as is t's storage */
} Past;

static int past_gc(lua_State *L) {
  Past *p = lua_touserdata(L, 1);
  if (p->t.st) ty_tensor_release(&p->t);
  if (p->tape) ty_record_drop(p->tape);
  p->tape = NULL;
  return 0;
}

/* past(tensor) -> what its handle is now */
static int check_past(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *t = ty_lua_check(L, "check", 1);
  Past *p = lua_newuserdata(L, sizeof *p);
  memset(p, 0, sizeof *p);
  if (luaL_newmetatable(L, META_PAST)) {
    lua_pushcfunction(L, past_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  ty_tensor_alias(&p->t, t);
  if (t->st->tape) p->tape = ty_record_hold(t->st->tape);
  return 1;
}

/* restore(tensor, past) */
static int check_restore(lua_State *L) {
  ty_lua_enter(L);
  Tensor *t = ty_lua_check(L, "check", 1);
  const Past *p = luaL_checkudata(L, 2, META_PAST);
  Storage *st = p->t.st, *now = t->st;
  Record *tape = st->tape;
  st->tape = p->tape ? ty_record_hold(p->tape) : NULL;
  if (tape) ty_record_drop(tape);
  ty_tensor_alias(t, &p->t);
  ty_storage_drop(now);
  return 0;
}

/* gradient(tensor) -> that of all that its storage holds, nil where there is none */
static int check_gradient(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *t = ty_lua_check(L, "check", 1);
  const Record *r = ty_grad_leaf(t);
  if (!r || !r->t.st) return 0;
  ty_tensor_alias(ty_lua_push(L), &r->t);
  return 1;
}

/* set_gradient(tensor, gradient = nil), as gradient() gave it */
static int check_set_gradient(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *t = ty_lua_check(L, "check", 1);
  Record *r = ty_grad_leaf(t);
  if (!r) return 0;
  Tensor was = r->t;
  r->t = (Tensor){0};
  if (!lua_isnoneornil(L, 2)) ty_tensor_alias(&r->t, ty_lua_check(L, "check", 2));
  if (was.st) ty_tensor_release(&was);
  return 0;
}

/* random() -> the random state; random(state) sets it */
static int check_random(lua_State *L) {
  State *S = ty_lua_state(L);
  ty_lua_apart(L, ty_lua_binding(L));
  ty_lua_follow(L, ty_lua_binding(L));
  u64 state[2] = {S->seed, S->stream};
  if (lua_type(L, 1) == LUA_TSTRING && lua_objlen(L, 1) == sizeof state) {
    memcpy(state, lua_tostring(L, 1), sizeof state);
    S->seed = state[0];
    S->stream = state[1];
    return 0;
  }
  lua_pushlstring(L, (const char *)state, sizeof state);
  return 1;
}

/* --- bits */

static const char *element(const Tensor *t, const char *data, i64 i) {
  return data + ty_type_offset(&t->type, t->strides, i) * ty_dtypes[t->type.dtype].bytes;
}

static u64 bits_of(const Tensor *t, const char *data, i64 i, double *v) {
  u64 bits = 0;
  const char *p = element(t, data, i);
  memcpy(&bits, p, (size_t)ty_dtypes[t->type.dtype].bytes);
  *v = ty_elem_load(t->type.dtype, p);
  return bits;
}

/* differ(a, b) -> nil when both have the same elements, NaNs being one value; else the number of the
** first that differs, from 1, both values, and both as bits. Types are equal. */
static int check_differ(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *a = ty_lua_check(L, "check", 1), *b = ty_lua_check(L, "check", 2);
  i64 n = ty_type_numel(&a->type);
  if (!ty_type_equal(&a->type, &b->type)) return luaL_error(L, "check: types differ");
  if (!n) return 0;
  const char *p = ty_tensor_read(S, a);
  if (!p) return ty_lua_fail(L, S);
  const char *q = ty_tensor_read(S, b);
  if (!q) return ty_lua_fail(L, S);
  for (i64 i = 0; i < n; i++) {
    double v, w;
    u64 x = bits_of(a, p, i, &v), y = bits_of(b, q, i, &w);
    if (x == y || (v != v && w != w)) continue;
    char text[2][24];
    snprintf(text[0], sizeof text[0], "0x%llx", (unsigned long long)x);
    snprintf(text[1], sizeof text[1], "0x%llx", (unsigned long long)y);
    lua_pushnumber(L, (double)(i + 1));
    lua_pushnumber(L, v);
    lua_pushnumber(L, w);
    lua_pushstring(L, text[0]);
    lua_pushstring(L, text[1]);
    return 5;
  }
  return 0;
}

/* set_upvalue(fn, i, v) */
static int check_set_upvalue(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 3);
  lua_setupvalue(L, 1, (int)luaL_checkinteger(L, 2));
  return 0;
}

/* alone(fn, ...) -> true and fn's results, or false and what it raised, from a coroutine of its own; nothing where it
** yields, which nobody resumes. What debug hooks raise goes on. */
static int check_alone(lua_State *L) {
  Protect p;
  int n = lua_gettop(L);
  lua_State *co = lua_newthread(L);
  if (!lua_checkstack(co, n)) return luaL_error(L, "too many arguments");
  lua_insert(L, 1); /* who asks what was resumed finds it here */
  lua_xmove(L, co, n);
  ty_lua_protect_begin(L, ty_lua_binding(L), &p);
  int status = lua_resume(co, n - 1);
  bool hooked = ty_lua_protect_end(L, ty_lua_binding(L), &p, status > LUA_YIELD);
  if (status == LUA_YIELD) return 0;
  n = status ? 1 : lua_gettop(co);
  luaL_checkstack(L, n + 1, "too many results");
  lua_pushboolean(L, !status);
  lua_xmove(co, L, n);
  return hooked ? lua_error(L) : n + 1;
}

/* upvalues(fn) -> how many there are */
static int check_upvalues(lua_State *L) {
  int n = 0;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  while (lua_getupvalue(L, 1, n + 1)) lua_pop(L, 1), n++;
  lua_pushinteger(L, n);
  return 1;
}

void ty_lua_open_check(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"still", check_still},
                                 {"put_back", check_put_back},
                                 {"changed", check_changed},
                                 {"random", check_random},
                                 {"differ", check_differ},
                                 {"set_upvalue", check_set_upvalue},
                                 {"past", check_past},
                                 {"restore", check_restore},
                                 {"gradient", check_gradient},
                                 {"set_gradient", check_set_gradient},
                                 {"upvalues", check_upvalues},
                                 {"alone", check_alone},
                                 {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "check");
  lua_pop(L, 1);
}
