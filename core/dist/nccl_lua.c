/*
** nccl_lua.c -- tensors of CUDA devices between ranks, for dist/world.lua.
** In:  the Lua stack; tensors that lie on a device. Results are tensors there that the caller has made, contiguous, and
** shares with nobody. Raises as dist_lua.c does.
*/
#include "dist/dist_lua.h"
#include "dist/nccl.h"

/* The first arguments of all that communicate: who, number, ranks, own index. */
enum { WHO = 1, NUMBER, RANKS, OWN, ARGS };

typedef struct Call {
  const char *who;
  int number;
  Party party;
  DeviceQueue queue;
} Call;

static Call begin(lua_State *L) {
  ty_dist_enter(L);
  const int n = (int)lua_objlen(L, RANKS);
  Call c = {.who = luaL_checkstring(L, WHO), .number = (int)luaL_checknumber(L, NUMBER)};
  int *ranks = lua_newuserdata(L, (size_t)n * sizeof *ranks);
  lua_replace(L, WHO); /* it stays until the call ends; `who` is a string of the caller's */
  for (int i = 0; i < n; i++) ranks[i] = (int)ty_dist_number(L, RANKS, i + 1);
  c.party = (Party){ranks, n, (int)luaL_checknumber(L, OWN) - 1};
  c.queue = (DeviceQueue){.get = ty_dist_lent.queue, .idle = ty_dist_lent.idle};
  return c;
}

static void *place(lua_State *L, Call *c, int i, Type *t) {
  void *p = (void *)(uintptr_t)ty_dist_lent.place(L, c->who, i, t);
  c->queue.device = t->device;
  return p;
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
  Call c = begin(L);
  Type t;
  place(L, &c, ARGS, &t);
  const int number = ty_nccl_join(c.who, &c.party, c.number, &c.queue);
  if (number < 0) return ty_dist_fail(L, ARGS);
  lua_pushnumber(L, number);
  return 1;
}

/* nccl_exchange(who, number, ranks, own index, x or nil, sends, y or nil, receives): lists as those of `exchange` */
static int l_exchange(lua_State *L) {
  enum { X = ARGS, SENDS, Y, RECEIVES };
  Call c = begin(L);
  const bool sends = !lua_isnil(L, X), receives = !lua_isnil(L, Y);
  Type t = {0};
  u8 *x = sends ? place(L, &c, X, &t) : NULL, *y = receives ? place(L, &c, Y, &t) : NULL;
  const i64 size = ty_dtypes[t.dtype].bytes;
  const int n = c.party.n;
  DeviceMessage *m = lua_newuserdata(L, 2 * (size_t)n * sizeof *m);
  int count = 0;
  for (int i = 0; i < n; i++) {
    const i64 out = sends ? ty_dist_number(L, SENDS, 2 * i + 2) : 0;
    const i64 in = receives ? ty_dist_number(L, RECEIVES, 2 * i + 2) : 0;
    if (i == c.party.own && (!out || !in)) continue;
    if (out)
      m[count++] =
          (DeviceMessage){x + size * ty_dist_number(L, SENDS, 2 * i + 1), size * out, i, true};
    if (in)
      m[count++] =
          (DeviceMessage){y + size * ty_dist_number(L, RECEIVES, 2 * i + 1), size * in, i, false};
  }
  if (!ty_nccl_exchange(c.who, c.number, &c.party, m, count, &c.queue)) return ty_dist_fail(L, X);
  return 0;
}

/* nccl_gather(who, number, ranks, own index, x, y): y is made of all ranks' x */
static int l_gather(lua_State *L) {
  Call c = begin(L);
  Type t;
  void *x = place(L, &c, ARGS, &t);
  const i64 bytes = ty_type_bytes(&t);
  void *y = place(L, &c, ARGS + 1, &t);
  if (!ty_nccl_gather(c.who, c.number, &c.party, x, y, bytes, &c.queue))
    return ty_dist_fail(L, ARGS);
  return 0;
}

/* nccl_broadcast(who, number, ranks, own index, x, y, index): y is x of rank `index` */
static int l_broadcast(lua_State *L) {
  Call c = begin(L);
  Type t;
  void *x = place(L, &c, ARGS, &t), *y = place(L, &c, ARGS + 1, &t);
  const int from = (int)luaL_checknumber(L, ARGS + 2) - 1;
  if (!ty_nccl_broadcast(c.who, c.number, &c.party, x, y, ty_type_bytes(&t), from, &c.queue))
    return ty_dist_fail(L, ARGS);
  return 0;
}

/* nccl_takes(dtype) -> whether NCCL reduces it */
static int l_takes(lua_State *L) {
  const int dtype = ty_dtype_find(luaL_checkstring(L, 1));
  lua_pushboolean(L, dtype >= 0 && ty_nccl_takes(dtype));
  return 1;
}

/* nccl_reduce(who, number, ranks, own index, x, y, op): NCCL's own reduction, in an order of its own */
static int l_reduce(lua_State *L) {
  static const char *const ops[] = {"sum", "prod", "max", "min", NULL};
  Call c = begin(L);
  Type t;
  const void *x = place(L, &c, ARGS, &t);
  void *y = place(L, &c, ARGS + 1, &t);
  const NcclOp op = (NcclOp)luaL_checkoption(L, ARGS + 2, NULL, ops);
  if (!ty_nccl_reduce(c.who, c.number, &c.party, x, y, ty_type_numel(&t), t.dtype, op, &c.queue))
    return ty_dist_fail(L, ARGS);
  return 0;
}

void ty_dist_open_nccl(lua_State *L) {
  static const luaL_Reg fns[] = {{"nccl_open", l_open},           {"nccl_join", l_join},
                                 {"nccl_exchange", l_exchange},   {"nccl_gather", l_gather},
                                 {"nccl_broadcast", l_broadcast}, {"nccl_takes", l_takes},
                                 {"nccl_reduce", l_reduce},       {NULL, NULL}};
  ty_dist_functions(L, fns);
}
