/*
** dist_lua.c -- messages between ranks, for dist.lua, which says what is exchanged, in which order.
** In:  the Lua stack; tensors of the CPU.  Out: tensors. Raises for what the world could not do, with the text that all
** ranks raise.
**
** Sends and receives are given as lists of pairs, one for each rank of a list: at which element, how many. Messages to
** the rank itself are copies.
*/
#include "base/system.h"
#include "dist/dist_lua.h"

/* open(names) -> rank, size, version of the library; nil and why not */
static int l_open(lua_State *L) {
  const char *names[8] = {NULL}, *err = NULL;
  for (int i = 0; i < TY_COUNT(names) - 1; i++) {
    lua_rawgeti(L, 1, i + 1);
    names[i] = lua_tostring(L, -1); /* the list keeps it */
    lua_pop(L, 1);
  }
  if (!ty_world.mpi && !ty_world_open(names, &err)) {
    lua_pushnil(L);
    lua_pushstring(L, err);
    return 2;
  }
  char *version = lua_newuserdata(L, MPI_VERSION_TEXT);
  ty_world.mpi->version(version);
  lua_pushnumber(L, ty_world.rank);
  lua_pushnumber(L, ty_world.size);
  lua_pushstring(L, version);
  return 3;
}

/* settings(seconds of patience, the launcher's file, ranks on this machine, bytes of a message if others than it has) */
static int l_settings(lua_State *L) {
  ty_world.patience = (i64)(luaL_checknumber(L, 1) * 1e9);
  ty_system_format(ty_world.file, sizeof ty_world.file, "%.511s", luaL_optstring(L, 2, ""));
  const int processors = ty_system_processors();
  ty_world.crowded = processors && luaL_optnumber(L, 3, 1) > processors;
  ty_world.piece = (i64)luaL_optnumber(L, 4, (double)ty_world.piece);
  return 0;
}

/* The ranks of the list at index i, as messages of which nothing else is set. */
static Message *ranks_at(lua_State *L, int i, int *n) {
  *n = (int)lua_objlen(L, i);
  Message *m = lua_newuserdata(L, (size_t)*n * sizeof *m + 1);
  memset(m, 0, (size_t)*n * sizeof *m);
  for (int k = 0; k < *n; k++) m[k].rank = (int)ty_dist_number(L, i, k + 1);
  return m;
}

/* The head of an exchange: who, tag and own index are the arguments 1, 2, 4. */
static ExchangeHead head_of(lua_State *L, int n) {
  ExchangeHead h;
  memset(&h, 0, sizeof h);
  ty_system_format(h.who, sizeof h.who, "%.31s", luaL_checkstring(L, 1));
  h.tag = (i32)luaL_checknumber(L, 2);
  h.own = (i32)luaL_checknumber(L, 4) - 1;
  h.n = n;
  return h;
}

/* records(does) -> whether what is called is captured, for plans. does: what no plan can hold, or nothing. */
static int l_records(lua_State *L) {
  ty_dist_lent.enter(L, luaL_optstring(L, 1, NULL));
  lua_pushboolean(L, ty_dist_lent.calls(L) >= 0);
  return 1;
}

/* What a call gives that nothing comes back from. */
static Type nothing(void) { return (Type){.dtype = T_U8, .rank = 1, .dims = {1}}; }

/* agree(who, tag, ranks, own index, text, again) -> true where all ranks gave the same text, else the texts by rank. again:
** the caller goes on where they did not; a plan can have it so at its first exchange alone. */
static int l_agree(lua_State *L) {
  const char *who = luaL_checkstring(L, 1), *text = luaL_checkstring(L, 5);
  const int tag = (int)luaL_checknumber(L, 2), own = (int)luaL_checknumber(L, 4);
  int n;
  bool same;
  ty_dist_lent.enter(L, NULL);
  const int calls = ty_dist_lent.calls(L);
  if (calls > 0 && lua_toboolean(L, 6))
    ty_dist_lent.enter(L, "exchanges something before it knows what other ranks do");
  Message *ranks = ranks_at(L, 3, &n);
  if (calls >= 0) {
    ExchangeHead h = head_of(L, n);
    const Type t = nothing();
    h.kind = AGREES;
    ty_system_format(h.text, sizeof h.text, "%.255s", text);
    ty_dist_push_call(L, &h, ranks, &t, 0, 0);
    lua_pushboolean(L, 1);
    return 1;
  }
  ty_dist_enter(L);
  Agreeing *a = ty_agree_begin(who, tag, ranks, n, own - 1, text, 0);
  if (!a || !ty_agree_wait(a, &same)) return ty_dist_fail(L, 6);
  if (same) {
    lua_pushboolean(L, 1);
  } else {
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
      const char *of = ty_agree_text(a, i);
      lua_pushlstring(L, of, strnlen(of, AGREE_TEXT));
      lua_rawseti(L, -2, i + 1);
    }
  }
  ty_agree_end(a);
  return 1;
}

/* The type of a result: dtype at index i, dims behind it. */
static Type result_type(lua_State *L, int i) {
  Type t = {0};
  const int dtype = ty_dtype_find(luaL_checkstring(L, i));
  t.dtype = (u8)(dtype < 0 ? T_U8 : dtype);
  t.rank = (u8)TY_MIN((int)lua_objlen(L, i + 1), MAX_RANK);
  for (int d = 0; d < t.rank; d++) t.dims[d] = ty_dist_number(L, i + 1, d + 1);
  return t;
}

/* The messages of l_exchange with other ranks, p being offsets; what goes to the rank itself is in the head. */
static Message *places_at(lua_State *L, ExchangeHead *h, bool sends, bool receives, i64 size) {
  const int n = (int)lua_objlen(L, 3);
  Message *m = lua_newuserdata(L, 2 * (size_t)n * sizeof *m + 1);
  memset(m, 0, 2 * (size_t)n * sizeof *m);
  for (int i = 0; i < n; i++) {
    const int rank = (int)ty_dist_number(L, 3, i + 1);
    const i64 out = sends ? size * ty_dist_number(L, 6, 2 * i + 2) : 0;
    const i64 in = receives ? size * ty_dist_number(L, 9, 2 * i + 2) : 0;
    const i64 from = out ? size * ty_dist_number(L, 6, 2 * i + 1) : 0;
    const i64 to = in ? size * ty_dist_number(L, 9, 2 * i + 1) : 0;
    if (i == h->own) {
      h->from = from, h->to = to, h->copies = TY_MIN(in, out);
      continue;
    }
    for (int way = 0; way < 2; way++) {
      if (!(way ? in : out)) continue;
      Message *y = &m[h->n++];
      y->p = (void *)(uintptr_t)(way ? to : from);
      y->bytes = way ? in : out;
      y->rank = rank;
      y->sends = !way;
    }
  }
  return m;
}

/* The same of a capture: a result over one that is there sends from it, if it sends. */
static int record_exchange(lua_State *L) {
  const char *who = luaL_checkstring(L, 1);
  const bool sends = !lua_isnoneornil(L, 5), receives = !lua_isnoneornil(L, 7);
  const bool into = receives && ty_dist_lent.is_tensor(L, 7);
  Type t = nothing();
  if (receives) t = into ? *ty_dist_lent.type(L, who, 7) : result_type(L, 7);
  const Type *of = sends ? ty_dist_lent.type(L, who, 5) : &t;
  ExchangeHead h = head_of(L, 0);
  const Message *m = places_at(L, &h, sends, receives, ty_dtypes[of->dtype].bytes);
  ty_dist_push_call(L, &h, m, &t, into ? 7 : 0, !sends || (into && lua_rawequal(L, 5, 7)) ? 0 : 5);
  return receives ? 1 : 0;
}

/* expect(who, tag, ranks, own index, numbers): in a capture, the rank sends these as an i64 tensor; else the plan fails */
static int l_expect(lua_State *L) {
  int n;
  Message *m = ranks_at(L, 3, &n);
  ExchangeHead h = head_of(L, 1);
  const Type t = nothing();
  const int count = TY_MIN((int)lua_objlen(L, 5), AGREE_TEXT / 8);
  h.kind = EXPECTS;
  for (int i = 0; i < count; i++) {
    const i64 v = ty_dist_number(L, 5, i + 1);
    memcpy(h.text + 8 * i, &v, 8);
  }
  m->bytes = 8 * count;
  ty_dist_push_call(L, &h, m, &t, 0, 0);
  return 0;
}

/* exchange(who, tag, ranks, own index, x or nil, sends, to, dims or nil, receives) -> what was received, or nothing.
** sends, receives: {at, count, at, count ...} in elements, a pair for each rank; nil: none at all. to: a dtype, for a new
** tensor of these dims; or a tensor to receive into, which the caller has made, contiguous, and shares with nobody. In
** captures such a tensor stays as it is, and the result is another one. */
static int l_exchange(lua_State *L) {
  ty_dist_lent.enter(L, NULL);
  if (ty_dist_lent.calls(L) >= 0) return record_exchange(L);
  ty_dist_enter(L);
  const char *who = luaL_checkstring(L, 1);
  const bool sends = !lua_isnoneornil(L, 5), receives = !lua_isnoneornil(L, 7);
  const u8 *from = NULL;
  u8 *to = NULL;
  Type type = {0};
  if (sends) from = ty_dist_lent.read(L, who, 5, &type);
  if (receives && ty_dist_lent.is_tensor(L, 7)) {
    to = (u8 *)(uintptr_t)ty_dist_lent.read(L, who, 7, &type);
    lua_pushvalue(L, 7);
  } else if (receives) {
    const Type t = result_type(L, 7);
    if (!(to = ty_dist_lent.make(L, &t))) {
      ty_world_fail_here(who, "is out of memory");
      return ty_dist_lent.fail(L, "out of memory");
    }
    type.dtype = t.dtype;
  }
  ExchangeHead h = head_of(L, 0);
  Message *m = places_at(L, &h, sends, receives, ty_dtypes[type.dtype].bytes);
  for (int i = 0; i < h.n; i++) {
    const i64 at = (i64)(uintptr_t)m[i].p;
    m[i].p = m[i].sends ? (void *)(from + at) : to + at;
  }
  if (h.copies) memcpy(to + h.to, from + h.from, (size_t)h.copies);
  if (!ty_world_exchange(who, m, h.n, h.tag)) return ty_dist_fail(L, 5);
  if (receives) lua_pushvalue(L, -2); /* the messages lie above it */
  return receives ? 1 : 0;
}

/* team(ranks, tag) -> the number of a team for reduce; 0: there are too many */
static int l_team(lua_State *L) {
  ty_dist_enter(L);
  int number = 0;
  const int n = (int)lua_objlen(L, 1);
  int *ranks = lua_newuserdata(L, (size_t)n * sizeof *ranks);
  for (int i = 0; i < n; i++) ranks[i] = (int)ty_dist_number(L, 1, i + 1);
  const int e = ty_world.mpi->team(ranks, n, (int)luaL_checknumber(L, 2), &number);
  if (e) {
    ty_world_fail_mpi("group", e);
    return ty_dist_fail(L, 1);
  }
  lua_pushnumber(L, number);
  return 1;
}

/* takes(dtype) -> whether MPI reduces it */
static int l_takes(lua_State *L) {
  const int dtype = ty_dtype_find(luaL_checkstring(L, 1));
  lua_pushboolean(L, dtype >= 0 && ty_world.mpi->takes(dtype));
  return 1;
}

/* reduce(who, tag, ranks, own index, x, op, team) -> MPI's own reduction of x over the team's ranks */
static int l_reduce(lua_State *L) {
  static const char *const ops[] = {"sum", "max", "min", "prod", NULL};
  const char *who = luaL_checkstring(L, 1);
  ty_dist_lent.enter(L, NULL);
  ExchangeHead h = head_of(L, 0);
  h.kind = REDUCES;
  h.op = luaL_checkoption(L, 6, NULL, ops);
  h.team = (i32)luaL_checknumber(L, 7);
  if (ty_dist_lent.calls(L) >= 0) {
    const Type *of = ty_dist_lent.type(L, who, 5);
    h.dtype = of->dtype;
    ty_dist_push_call(L, &h, lua_newuserdata(L, 1), of, 0, 5);
    return 1;
  }
  ty_dist_enter(L);
  Type t;
  const u8 *x = ty_dist_lent.read(L, who, 5, &t);
  u8 *y = ty_dist_lent.make(L, &t);
  if (!y) {
    ty_world_fail_here(who, "is out of memory");
    return ty_dist_lent.fail(L, "out of memory");
  }
  Flight *f = ty_world_reduce(who, x, y, ty_type_numel(&t), t.dtype, (MpiOp)h.op, h.team);
  return f && ty_world_end(f) ? 1 : ty_dist_fail(L, 5);
}

/* failure() -> why no message can be exchanged any more, or nil */
static int l_failure(lua_State *L) {
  if (!ty_world.failure[0]) return 0;
  lua_pushstring(L, ty_world.failure);
  return 1;
}

TY_EXPORT int luaopen_tycho_dist(lua_State *L);
int luaopen_tycho_dist(lua_State *L) {
  static const luaL_Reg fns[] = {{"open", l_open},
                                 {"settings", l_settings},
                                 {"agree", l_agree},
                                 {"records", l_records},
                                 {"exchange", l_exchange},
                                 {"team", l_team},
                                 {"takes", l_takes},
                                 {"reduce", l_reduce},
                                 {"expect", l_expect},
                                 {"failure", l_failure},
                                 {NULL, NULL}};
  if (!ty_dist_borrow(L)) return luaL_error(L, "tycho: dist.so does not belong to this core.so");
  lua_newtable(L);
  ty_dist_functions(L, fns);
  ty_dist_open_nccl(L);
  return 1;
}
