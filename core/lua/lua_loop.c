/*
** lua_loop.c -- loops whose body is recorded once, as lua/tycho/scan.lua makes them.
** In: tensors; functions that record. Out: under `internals.loop` the functions below. Raises what they raise, what loop.c
** has to say, and when out of memory.
*/
#include "engine/entry.h"
#include "record/capture.h"
#include "lua/lua_protect.h"
#include "lua/lua_view.h"
#include "record/loop.h"

#define META_SCOPE "tycho.loop"
#define META_HASH "tycho.loop.hash"

static LoopScope *check_scope(lua_State *L) { return luaL_checkudata(L, 1, META_SCOPE); }

static int scope_gc(lua_State *L) {
  ty_loop_end(check_scope(L));
  return 0;
}

/* is(v) -> whether it is a scope, or a hash */
static int loop_is(lua_State *L) {
  bool is = lua_type(L, 1) == LUA_TUSERDATA && lua_getmetatable(L, 1);
  if (is) {
    luaL_getmetatable(L, META_SCOPE);
    luaL_getmetatable(L, META_HASH);
    is = lua_rawequal(L, -1, -3) || lua_rawequal(L, -2, -3);
  }
  lua_pushboolean(L, is);
  return 1;
}

/* recording() -> whether a body may be recorded where operations go now */
static int loop_recording(lua_State *L) {
  const State *S = ty_lua_enter(L);
  lua_pushboolean(L, S->capture || (S->open && S->open->body));
  return 1;
}

/* run(f, ...) -> what f gives. It records, and what it has recorded is computed when it has ended. */
static int loop_run(lua_State *L) {
  State *S = ty_lua_enter(L);
  Protect p;
  bool hooked;
  if (S->open && ty_lazy_find(S, L)->pinned)
    return ty_lua_error(L, "scan: a graph that is looked at from outside cannot hold one");
  Lazy like = {.thread = L, .pinned = &p}, *z = ty_lazy_open(S, &like);
  if (!z) return ty_lua_error(L, "scan: out of memory");
  z->open->body = true;
  const LoopScope *outer = S->loop;
  const int status = ty_lua_protect(L, (Binding *)S, &p, lua_gettop(L) - 1, LUA_MULTRET, &hooked);
  Recording *b = z->open;
  b->body = false;
  if (status) ty_loop_forget(S, b);
  while (S->loop && S->loop != outer) ty_loop_end(S->loop); /* an error has left them open */
  bool ok = !b->waiting || S->cut(S, b, NULL);
  ty_lazy_abandon(S, z);
  if (status) return lua_error(L);
  if (!ok) return ty_lua_fail(L, S);
  return lua_gettop(L);
}

/* begin() -> scope */
static int loop_begin(lua_State *L) {
  State *S = ty_lua_enter(L);
  LoopScope *l = lua_newuserdata(L, sizeof *l);
  *l = (LoopScope){.S = S};
  if (luaL_newmetatable(L, META_SCOPE)) {
    lua_pushcfunction(L, scope_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  TY_LUA_MUST(L, S, ty_loop_begin(S, l));
  return 1;
}

/* A turn's values are reals, as its graph is. */
static const Tensor *check_real(lua_State *L, int i) {
  const Tensor *x = ty_lua_check(L, "scan", i);
  if (!ty_is_complex(x->type.dtype)) return x;
  ty_lua_error(L,
               "scan: complex numbers are not carried, nor rows or results, got %s (use "
               "ty.view_as_real, and ty.view_as_complex inside)",
               ty_lua_view_text(L, &x->type));
  return NULL;
}

/* param(scope, x, is_row) -> a parameter like x; of a sequence, like a row of it */
static int loop_param(lua_State *L) {
  State *S = ty_lua_enter(L);
  LoopScope *l = check_scope(L);
  const Tensor *x = check_real(L, 2);
  Type t = x->type;
  if (lua_toboolean(L, 3)) {
    memmove(t.dims, t.dims + 1, sizeof(i64) * (MAX_RANK - 1));
    t.dims[MAX_RANK - 1] = 0;
    t.rank--;
  }
  TY_LUA_MUST(L, S, ty_loop_param(l, &t, ty_lua_push(L)));
  return 1;
}

/* leave(scope): nothing will be recorded of it */
static int loop_leave(lua_State *L) {
  ty_loop_end(check_scope(L));
  return 0;
}

/* again(scope): the same, and the function's random numbers are drawn anew */
static int loop_again(lua_State *L) {
  LoopScope *l = check_scope(L);
  ty_lua_enter(L)->stream = l->stream;
  return loop_leave(L);
}

/* note(scope, x): x goes out of the turn: where it needs a gradient and is from outside, it is taped */
static int loop_note(lua_State *L) {
  State *S = ty_lua_enter(L);
  const LoopScope *l = check_scope(L);
  const Tensor *x = ty_lua_check(L, "scan", 2);
  if (S->loop == l) TY_LUA_MUST(L, S, ty_loop_note(S, x));
  return 0;
}

/* outside(x) -> whether a turn is recorded now to which x does not belong: it must not write to it */
static int loop_outside(lua_State *L) {
  const State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "scan", 1);
  lua_pushboolean(L, ty_loop_records(S) && ty_loop_outside(S->loop, x->st));
  return 1;
}

/* taped(scope) -> list of tensors from outside that the function used and that need gradients: each all of its
** storage, in one dim */
static int loop_taped(lua_State *L) {
  ty_lua_enter(L);
  const LoopScope *l = check_scope(L);
  lua_createtable(L, l->ntaped, 0);
  for (i32 i = 0; i < l->ntaped; i++) {
    const Tensor *x = &l->taped[i];
    const Type t = ty_type_line(x->st->dtype, x->type.device, x->st->numel);
    ty_tensor_view(ty_lua_push(L), x, &t, 0, &(i64){1});
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* The tensors of the list at an index, which holds them; pushes what the array lies in. */
static const Tensor **tensors_of(lua_State *L, int list, i32 *n) {
  luaL_checktype(L, list, LUA_TTABLE);
  *n = (i32)lua_objlen(L, list);
  const Tensor **x = lua_newuserdata(L, sizeof *x * (size_t)(*n + 1));
  for (i32 i = 0; i < *n; i++) {
    lua_rawgeti(L, list, i + 1);
    x[i] = check_real(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  return x;
}

/* Of the list at an index. */
static u64 hash_of(lua_State *L, State *S, LoopScope *l, int list) {
  i32 n;
  const Tensor **x = tensors_of(L, list, &n);
  *S->err = 0;
  const u64 h = S->loop == l ? ty_loop_hash(l, x, n) : 0;
  if (!h && !*S->err) ty_fail_memory(S, "scan", 0);
  if (!h) ty_lua_fail(L, S);
  return h;
}

/* hash(scope, results) -> a hash of what the turn makes of its parameters */
static int loop_hash(lua_State *L) {
  State *S = ty_lua_enter(L);
  const u64 h = hash_of(L, S, check_scope(L), 2);
  u64 *y = lua_newuserdata(L, sizeof *y);
  *y = h;
  if (luaL_newmetatable(L, META_HASH)) {
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  return 1;
}

/* reads(scope, results) -> list of the slots of tensors whose elements the turn reads, in a capture */
static int loop_reads(lua_State *L) {
  State *S = ty_lua_enter(L);
  LoopScope *l = check_scope(L);
  const Capture *c = ty_lua_capture(L);
  i32 n, count = 0;
  if (!c || S->loop != l) return 0;
  const Tensor **x = tensors_of(L, 2, &n);
  u8 *outside = lua_newuserdata(L, (size_t)c->noutside + 1);
  memset(outside, 0, (size_t)c->noutside + 1);
  if (!ty_loop_reads(l, x, n, outside)) return ty_lua_error(L, "scan: out of memory");
  lua_newtable(L);
  for (i32 i = 0; i < c->noutside; i++) {
    if (!outside[i]) continue;
    lua_pushinteger(L, c->outside[i].slot);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/* check(scope, hash, results): raises where the turn makes something else; true in place of a hash: it does */
static int loop_check(lua_State *L) {
  State *S = ty_lua_enter(L);
  const u64 *was = lua_isboolean(L, 2) ? NULL : luaL_checkudata(L, 2, META_HASH);
  if (!was || hash_of(L, S, check_scope(L), 3) != *was)
    return ty_lua_error(
        L, "scan: the function does something else when it runs again for its gradient: "
           "what it closes over has changed meanwhile");
  return 0;
}

/* record(scope, turns, order, init, next, sequences, made) -> a list of the last values and the results */
static int loop_record(lua_State *L) {
  State *S = ty_lua_enter(L);
  LoopScope *l = check_scope(L);
  LoopCall c = {.turns = (i64)luaL_checknumber(L, 2), .order = (i32)luaL_checkint(L, 3)};
  i32 nnext;
  c.init = tensors_of(L, 4, &c.ncarried);
  c.next = tensors_of(L, 5, &nnext);
  c.sequence = tensors_of(L, 6, &c.nrows);
  c.made = tensors_of(L, 7, &c.nmade);
  if (nnext != c.ncarried) return ty_lua_error(L, "scan: carried values are missing");
  const i32 results = c.ncarried + c.nmade;
  Tensor **y = lua_newuserdata(L, sizeof *y * (size_t)(results + 1));
  lua_createtable(L, results, 0);
  for (i32 i = 0; i < results; i++) {
    y[i] = ty_lua_push(L);
    lua_rawseti(L, -2, i + 1);
  }
  if (!ty_loop_record(l, &c, y)) return ty_lua_fail(L, S);
  return 1;
}

void ty_lua_open_loop(lua_State *L, int m) {
  static const luaL_Reg fns[] = {
      {"is", loop_is},         {"again", loop_again}, {"outside", loop_outside},
      {"leave", loop_leave},   {"hash", loop_hash},   {"check", loop_check},
      {"note", loop_note},     {"run", loop_run},     {"recording", loop_recording},
      {"begin", loop_begin},   {"param", loop_param}, {"taped", loop_taped},
      {"record", loop_record}, {"reads", loop_reads}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "loop");
  lua_pop(L, 1);
}
