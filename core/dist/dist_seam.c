/*
** dist_seam.c -- what dist.so's functions in Lua have in common.
** In:  what core.so lends (lua_seam.h).  Out: calls that Ctrl-C ends, failures as errors.
*/
#include "dist/dist_lua.h"

Seam ty_dist_lent;

void ty_dist_enter(lua_State *L) {
  ty_dist_lent.enter(L, "exchanges tensors with other ranks");
  const CallRun r = ty_dist_lent.run(L);
  ty_world.interrupted = r.interrupted;
  ty_world.ctx = r.ctx;
}

int ty_dist_fail(lua_State *L, int from) {
  for (int i = from; i <= lua_gettop(L); i++) {
    lua_pushvalue(L, i);
    luaL_ref(L, LUA_REGISTRYINDEX);
  }
  const CallRun r = ty_dist_lent.run(L);
  if (r.interrupted && r.interrupted(r.ctx)) return 0; /* the hook raises at the next instruction */
  return ty_dist_lent.fail(L, ty_world.failure);
}

i64 ty_dist_number(lua_State *L, int list, int i) {
  lua_rawgeti(L, list, i);
  const i64 v = (i64)lua_tonumber(L, -1);
  lua_pop(L, 1);
  return v;
}

void ty_dist_push_call(lua_State *L, const ExchangeHead *h, const Message *m, const Type *t,
                       int base, int x) {
  const i64 takes = x ? ty_type_bytes(ty_dist_lent.type(L, h->who, x)) : 0;
  const i32 number = ty_exchange_call(h, m, takes, ty_type_bytes(t), ty_dist_lent.add_call);
  if (!number) ty_dist_lent.enter(L, "has more different exchanges than are kept");
  ty_dist_lent.call(L, h->who, number, t, base, x);
}

void ty_dist_functions(lua_State *L, const luaL_Reg *fns) {
  for (const luaL_Reg *f = fns; f->name; f++) {
    lua_getfield(L, LUA_REGISTRYINDEX, SEAM_STATE);
    lua_getfield(L, LUA_REGISTRYINDEX, SEAM_META);
    lua_pushcclosure(L, f->func, 2);
    lua_setfield(L, -2, f->name);
  }
}

/* Waits for a device go on when a state has ended, and ask it nothing any more. */
static int forget_state(lua_State *L) {
  const CallRun r = ty_dist_lent.run(L);
  if (ty_world.ctx == r.ctx) ty_world.interrupted = NULL;
  return 0;
}

static void forget_at_close(lua_State *L) {
  lua_newuserdata(L, 1);
  lua_newtable(L);
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_STATE);
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_META);
  lua_pushcclosure(L, forget_state, 2);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  luaL_ref(L, LUA_REGISTRYINDEX);
}

bool ty_dist_borrow(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_KEY);
  const Seam *seam = (const Seam *)lua_touserdata(L, -1);
  if (!seam || lua_objlen(L, -1) != sizeof *seam || seam->magic != SEAM_MAGIC ||
      seam->size != sizeof *seam)
    return false;
  ty_dist_lent = *seam;
  forget_at_close(L);
  return true;
}
