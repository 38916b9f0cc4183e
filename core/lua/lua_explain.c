/*
** lua_explain.c -- what jit.explain tells of an entry, beside its traces (lua_trace.c): counters, what was recorded
** while the function ran, what was measured of a trace.
** In: a handle. Out: a Lua table. Fails when out of memory.
*/
#include <lua.h>
#include "ir/site.h"
#include "lua/lua_fields.h"
#include "lua/lua_compile.h"
#include "lua/lua_guard.h"
#include "lua/lua_trace.h"

void ty_lua_plan_text(lua_State *L, const Source *from) {
  Text t = {0};
  ty_compile_text(ty_lua_state(L), from, &t);
  lua_pushlstring(L, ty_text_str(&t), t.n);
  ty_text_free(&t);
}

/* Of a plan's last run on a device that works later; into the table on top. */
void ty_lua_push_run(lua_State *L, const DeviceRun *r) {
  lua_createtable(L, 0, 8);
  set_number(L, "launches", r->launches);
  set_number(L, "graphs", r->graphs);
  set_number(L, "graph_kernels", r->nodes);
  set_number(L, "interpreted", r->interpreted);
  set_number(L, "library_calls", r->libraries);
  set_number(L, "bytes_in", (double)r->in);
  set_number(L, "bytes_out", (double)r->out);
  set_number(L, "bytes_within", (double)r->across);
  set_string(L, "no_graph", r->one_by_one);
  lua_setfield(L, -2, "device_run");
}

static void push_seen(lua_State *L, const Seen *s) {
  lua_createtable(L, 0, 8);
  set_number(L, "runs", (double)s->runs);
  set_number(L, "kernels", s->nkernels);
  set_number(L, "steps", s->nsteps);
  set_number(L, "operations", (double)s->nops);
  set_number(L, "operations_saved", (double)TY_MAX(s->nops - s->nsteps, 0));
  set_number(L, "bytes_moved", (double)s->bytes_moved);
  set_number(L, "bytes_saved", (double)s->bytes_saved);
  if (!s->source) return;
  ty_lua_plan_text(L, s->source);
  lua_setfield(L, -2, "text");
}

static void push_signature(lua_State *L, const Signature *t) {
  char text[160];
  lua_createtable(L, t->nparts, 0);
  for (i32 i = 0; i < t->nparts; i++) {
    ty_entry_part(&t->part[i], text, sizeof text);
    lua_pushstring(L, text);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_recorded(lua_State *L, const Signature *t) {
  lua_createtable(L, 0, 4);
  set_number(L, "hits", (double)t->hits);
  set_number(L, "unseen", (double)t->unseen);
  lua_pushboolean(L, t->rest > 0);
  lua_setfield(L, -2, "rests");
  push_signature(L, t);
  lua_setfield(L, -2, "signature");
  lua_createtable(L, t->nseen, 0);
  for (i32 i = 0; i < t->nseen; i++) {
    push_seen(L, &t->seen[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "graphs");
}

/* info(handle) -> table: counters and signatures, most recent first */
int ty_explain_info(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  lua_createtable(L, 0, 8);
  set_number(L, "calls", (double)e->calls);
  set_number(L, "nested", (double)e->nested);
  set_number(L, "hits", (double)e->hits);
  set_number(L, "misses", (double)e->misses);
  set_number(L, "evicted", (double)e->evicted);
  set_number(L, "skips", (double)e->skips);
  set_number(L, "linked", (double)e->linked);
  set_number(L, "timed", (double)e->ntimes);
  if (ty_entry_time(e) >= 0) set_number(L, "time", (double)ty_entry_time(e) * 1e-9);
  set_number(L, "captures", (double)e->captures);
  set_number(L, "evicted_traces", (double)e->evicted_traces);
  lua_createtable(L, MISSES_MAX, 0);
  for (i64 i = TY_MAX(e->misses - MISSES_MAX, 1), k = 1; i < e->misses; i++, k++) {
    lua_pushstring(L, e->miss[i % MISSES_MAX]);
    lua_rawseti(L, -2, (int)k);
  }
  lua_setfield(L, -2, "differences");
  lua_createtable(L, e->nsig, 0);
  for (i32 i = 0; i < e->nsig; i++) {
    push_recorded(L, e->sig[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "signatures");
  return 1;
}

void ty_lua_push_site(lua_State *L, i32 site) {
  const char *where = ty_site_where(site & ~SITE_BACK);
  if (*where) lua_pushfstring(L, site & SITE_BACK ? "<%s" : "%s", where);
  else lua_pushboolean(L, false);
}

void ty_lua_push_sites(lua_State *L, const i32 *site, i32 n) {
  lua_createtable(L, n, 0);
  for (i32 i = 0; i < n; i++) {
    if (i && site[i] == site[i - 1]) lua_rawgeti(L, -1, i);
    else ty_lua_push_site(L, site[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* measured(handle, i) -> of trace i: the sites of its nodes in order; what its steps took, seconds, the mean of so many
** runs; the number of these, or nothing where none was timed */
int ty_trace_measured(lua_State *L) {
  ty_lua_enter(L);
  const Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  const i32 i = (i32)luaL_checkinteger(L, 2);
  if (i < 1 || i > e->ntrace) return 0;
  const Instance *I = e->trace[i - 1]->instance[0];
  const Recording *b = &I->recording;
  ty_lua_push_sites(L, b->site, b->nsite);
  if (!b->ntook || !I->plan) return 1;
  lua_createtable(L, I->plan->nsteps, 0);
  for (i32 k = 0; k < I->plan->nsteps; k++) {
    lua_pushnumber(L, (lua_Number)b->took[k] * 1e-9 / (lua_Number)b->ntook);
    lua_rawseti(L, -2, k + 1);
  }
  lua_pushnumber(L, (lua_Number)b->ntook);
  return 3;
}
