/*
** lua_handle.c -- new handles of tensors, and how far each one drives Lua's collector on.
** In: the Lua stack. Out: a tensor's userdata, which the innermost scope knows, without a storage yet; or memory that
** Lua no longer holds, given back. Raises when Lua's memory runs out.
**
** Memory. Lua's collector does not see the bytes of tensors. Their number decides when a cycle of
** it is due, and the bytes allocated since decide how far each step goes:
** 1. until tensors have grown by LIVE_GROWTH since the last cycle, or by a quarter, or by as much
**    as HEAP_SHARE times Lua's own heap (which a cycle must walk), nothing is done;
** 2. beyond, each MB of new tensors pays for its share of a cycle, so that one ends after
**    CYCLE_BYTES at the latest: no pauses, and no more than that of garbage on top;
** 3. a collector that is stopped is left alone. Lua's collector also counts as stopped while it
**    runs a finaliser, so none is entered twice. Hosts older than LuaJIT 2.1 cannot say whether it
**    is stopped: there it is taken to be running.
*/
#include "lua/lua_tycho.h"

#define LOOK_BYTES (1 << 20)       /* of new tensors between two looks at the memory */
#define LIVE_GROWTH ((i64)8 << 20) /* small: what is collected early stays in the caches */
#define LIVE_GROWTH_MAX ((i64)96 << 20)
#define HEAP_SHARE 8
#define CYCLE_BYTES ((i64)4 << 20) /* at least; an eighth of what lives; a third of the growth */

/* Lets Lua's collector work off the debt; see Memory above. */
static void pay_debt(lua_State *L, Binding *B) {
  i64 debt = B->S.debt, used = ty_mem_stats().buf_used;
  i64 heap = (i64)lua_gc(L, LUA_GCCOUNT, 0) * 1024;
  i64 growth = TY_MIN(TY_MAX(LIVE_GROWTH, heap * HEAP_SHARE), LIVE_GROWTH_MAX);
  B->S.debt = 0;
  if (B->S.capture) return; /* no finaliser is to run; see lua_capture.c */
  if (!B->cycling && used - B->live < TY_MAX(growth, B->live / 4)) {
    B->live = TY_MIN(B->live, used);
    return;
  }
  if (lua_gc(L, LUA_GCISRUNNING, 0) == 0) return;
  double share = (double)debt / (double)TY_MAX(TY_MAX(CYCLE_BYTES, growth / 3), B->live / 8);
  double size = TY_MIN((double)heap / 1024 * TY_MIN(share, 2.0) + 1, 1 << 30);
  B->cycling = !lua_gc(L, LUA_GCSTEP, (int)size);
  if (!B->cycling) B->live = ty_mem_stats().buf_used;
}

bool ty_lua_reclaim(lua_State *L, State *S) {
  Binding *B = (Binding *)S;
  if (!S->memory || S->capture || lua_gc(L, LUA_GCISRUNNING, 0) == 0) return false;
  S->memory = false;
  lua_gc(L, LUA_GCCOLLECT, 0);
  ty_buf_trim(0);
  B->cycling = false;
  B->live = ty_mem_stats().buf_used;
  return true;
}

Tensor *ty_lua_push(lua_State *L) { return ty_lua_push_in(L, ty_lua_binding(L)); }

Tensor *ty_lua_push_in(lua_State *L, Binding *B) {
  if (TY_UNLIKELY(B->S.debt >= LOOK_BYTES)) pay_debt(L, B);
  Handle *h = (Handle *)lua_newuserdata(L, sizeof *h);
  h->t.st = NULL;
  h->t.detached = false;
  h->t.origin = 0;
  h->mark = ty_lua_mark(B);
  h->scope = NULL;
  h->result = NULL;
  B->handles++;
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setmetatable(L, -2);
  if (TY_UNLIKELY(B->scope)) ty_lua_scope_add(L, B, h);
  return &h->t;
}
