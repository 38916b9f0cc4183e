/*
** nccl_lua.c -- tensors of CUDA devices between ranks, for dist/nccl.lua.
** In:  the Lua stack; tensors that lie on a device. Results are tensors there that the caller has made, contiguous, and
** shares with nobody; in captures such a tensor stays as it is, and the result is another one. Raises as dist_lua.c does.
*/
#include "base/system.h"
#include "dist/dist_lua.h"
#include "dist/nccl.h"

/* The first arguments of all that exchange: who, the communicator's number, x, y. */
enum { WHO = 1, NUMBER, X, Y, MORE };

static ExchangeHead head_of(lua_State *L, ExchangeKind kind) {
  ExchangeHead h;
  memset(&h, 0, sizeof h);
  ty_system_format(h.who, sizeof h.who, "%.31s", luaL_checkstring(L, WHO));
  h.comm = (i32)luaL_checknumber(L, NUMBER) + 1;
  h.kind = (i32)kind;
  return h;
}

/* The type of y, or of x where nothing is received. */
static Type type_of(lua_State *L) {
  return *ty_dist_lent.type(L, luaL_checkstring(L, WHO), lua_isnil(L, Y) ? X : Y);
}

/* Bytes of the tensor at index i; 0 where there is none. */
static i64 bytes_at(lua_State *L, int i) {
  return lua_isnil(L, i) ? 0 : ty_type_bytes(ty_dist_lent.type(L, luaL_checkstring(L, WHO), i));
}

/* What sends alone has a result, too, that nobody sees. */
static int record(lua_State *L, ExchangeHead *h, const Message *m) {
  Type t = type_of(L);
  const bool gives = bytes_at(L, Y) != 0, takes = bytes_at(L, X) && !lua_rawequal(L, X, Y);
  if (ty_is_complex(t.dtype)) ty_dist_lent.enter(L, "exchanges complex numbers");
  h->device = t.device;
  if (!gives) t = (Type){.dtype = T_U8, .device = t.device, .rank = 1, .dims = {1}};
  if (gives || takes) ty_dist_push_call(L, h, m, &t, gives ? Y : 0, takes ? X : 0);
  if (!gives) lua_pushvalue(L, Y);
  return 1;
}

/* Does it, or makes it a step of the capture in progress. Pushes y, or what takes its place. */
static int exchange(lua_State *L, ExchangeHead *h, const Message *m) {
  const char *who = luaL_checkstring(L, WHO);
  Type t;
  ty_dist_lent.enter(L, NULL);
  if (ty_dist_lent.calls(L) >= 0) return record(L, h, m);
  ty_dist_enter(L);
  const void *x = lua_isnil(L, X) ? NULL : ty_dist_lent.place(L, who, X, &t);
  void *y = lua_isnil(L, Y) ? NULL : ty_dist_lent.fill(L, who, Y, &t);
  const CallRun r = ty_dist_lent.run(L);
  void *end = ty_nccl_begin(h, m, x, y);
  if (!end || !ty_nccl_end(h, end, r.stream)) return ty_dist_fail(L, X);
  lua_pushvalue(L, Y);
  return 1;
}

/* nccl_open() -> the version, 22809 for 2.28.9; nil and why there is none */
static int l_open(lua_State *L) {
  const char *err;
  const int version = ty_nccl_open(&err);
  if (version) lua_pushnumber(L, version);
  else lua_pushnil(L);
  lua_pushstring(L, version ? NULL : err);
  return 2;
}

/* nccl_join(who, tag, ranks, own index, x) -> the number of a communicator for tensors of x's device */
static int l_join(lua_State *L) {
  enum { TAG = 2, RANKS, OWN, LIKE };
  ty_dist_enter(L);
  const char *who = luaL_checkstring(L, WHO);
  const int n = (int)lua_objlen(L, RANKS), device = ty_dist_lent.type(L, who, LIKE)->device;
  int *ranks = lua_newuserdata(L, (size_t)n * sizeof *ranks);
  for (int i = 0; i < n; i++) ranks[i] = (int)ty_dist_number(L, RANKS, i + 1);
  const Party p = {ranks, n, (int)luaL_checknumber(L, OWN) - 1};
  const int number =
      ty_nccl_join(who, &p, (int)luaL_checknumber(L, TAG), ty_dist_lent.device(device));
  if (number < 0) return ty_dist_fail(L, LIKE);
  lua_pushnumber(L, number);
  return 1;
}

/* A message of the pairs at index i; none where they are none, or its count is 0. */
static int add_message(lua_State *L, Message *m, int i, int peer, i64 size, bool sends) {
  if (lua_isnil(L, i)) return 0;
  const i64 n = ty_dist_number(L, i, 2 * peer + 2);
  if (!n) return 0;
  m->p = (void *)(uintptr_t)(size * ty_dist_number(L, i, 2 * peer + 1));
  m->bytes = size * n;
  m->rank = peer;
  m->sends = sends;
  return 1;
}

/* nccl_exchange(who, number, x or nil, y or nil, sends, receives) -> y: lists as those of `exchange` */
static int l_exchange(lua_State *L) {
  enum { SENDS = MORE, RECEIVES };
  ExchangeHead h = head_of(L, EXCHANGES);
  const Type t = type_of(L);
  const i64 size = ty_dtypes[t.dtype].bytes;
  const Party *p = ty_nccl_party(h.comm - 1);
  Message *m = lua_newuserdata(L, 2 * (size_t)p->n * sizeof *m);
  memset(m, 0, 2 * (size_t)p->n * sizeof *m);
  for (int i = 0; i < p->n; i++) {
    const int out = add_message(L, m + h.n, SENDS, i, size, true),
              in = add_message(L, m + h.n + out, RECEIVES, i, size, false);
    if (i != p->own || (out && in)) h.n += out + in;
  }
  return exchange(L, &h, m);
}

/* nccl_gather(who, number, x, y, at, n) -> y, whose elements behind `at` are n of each rank's x, or, where x is y, of their own
** place in y */
static int l_gather(lua_State *L) {
  ExchangeHead h = head_of(L, GATHERS);
  const Type t = type_of(L);
  const i64 size = ty_dtypes[t.dtype].bytes;
  h.to = size * (i64)luaL_checknumber(L, MORE);
  h.count = size * (i64)luaL_checknumber(L, MORE + 1);
  if (lua_rawequal(L, X, Y)) h.from = h.to + ty_nccl_party(h.comm - 1)->own * h.count;
  return exchange(L, &h, NULL);
}

/* nccl_broadcast(who, number, x, y, index) -> y, which is x of rank `index` */
static int l_broadcast(lua_State *L) {
  ExchangeHead h = head_of(L, SHOWS);
  const Type t = type_of(L);
  h.root = (i32)luaL_checknumber(L, MORE) - 1;
  h.count = ty_type_bytes(&t);
  return exchange(L, &h, NULL);
}

/* nccl_takes(dtype) -> whether NCCL reduces it */
static int l_takes(lua_State *L) {
  const int dtype = ty_dtype_find(luaL_checkstring(L, 1));
  lua_pushboolean(L, dtype >= 0 && ty_nccl_takes(dtype));
  return 1;
}

/* nccl_reduce(who, number, x, y, op) -> y: NCCL's own reduction, in an order of its own */
static int l_reduce(lua_State *L) {
  static const char *const ops[] = {"sum", "prod", "max", "min", NULL};
  ExchangeHead h = head_of(L, REDUCES);
  const Type t = type_of(L);
  h.op = luaL_checkoption(L, MORE, NULL, ops);
  h.dtype = t.dtype;
  h.count = ty_type_numel(&t);
  return exchange(L, &h, NULL);
}

void ty_dist_open_nccl(lua_State *L) {
  static const luaL_Reg fns[] = {{"nccl_open", l_open},           {"nccl_join", l_join},
                                 {"nccl_exchange", l_exchange},   {"nccl_gather", l_gather},
                                 {"nccl_broadcast", l_broadcast}, {"nccl_takes", l_takes},
                                 {"nccl_reduce", l_reduce},       {NULL, NULL}};
  ty_dist_functions(L, fns);
}
