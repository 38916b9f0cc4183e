/*
** lua_profile.c -- profiles for profile.lua, and what Lua's library does not tell: the wall clock, the
** size of a terminal.
** In: nothing but a file's number. Out: flat lists of numbers, tables. Fails where another profile
** runs: nil and why.
*/
#include "lua/lua_fields.h"
#include "lua/lua_modes.h"
#include "lua/lua_trace.h"
#include "base/events.h"
#include "base/system.h"

#include <math.h>

/* start(sites = false) -> mode, which whoever stops leaves; nil and why it cannot be. sites: native functions look where
** they are called */
static int profile_start(lua_State *L) {
  State *S = ty_lua_enter(L);
  Mode *m = ty_lua_mode_push(L, MODE_PROFILE);
  if (ty_profile_start(S, lua_toboolean(L, 1))) {
    ty_lua_mode_open(L, m);
    return 1;
  }
  lua_pushnil(L);
  lua_pushliteral(L, "another profile is running");
  return 2;
}

/* Bytes of the elements that operand i of a launch touches, each once. */
static double touched(const Launch *l, const Program *p, int i) {
  double n = ty_dtypes[p->operand[i].dtype].bytes;
  for (int d = 0; d < l->no + l->nr + l->ni; d++)
    if (l->strides[i][d]) n *= (double)l->dims[d];
  return n;
}

static double extent(const Launch *l, int from, int n) {
  double y = 1;
  while (n--) y *= (double)l->dims[from++];
  return y;
}

static double reach(i64 n, i64 stride) { return (double)(n - 1) * fabs((double)stride); }

static double path_reach(const Path *p) {
  double y = 0;
  for (i32 i = 0; i < p->n; i++) y += reach(p->dims[i], p->strides[i]);
  return y;
}

/* Elements of a factor that a product reads: what the batch's items share counts once, and so does where
** windows overlap: there are no more than lie between the first and the last. */
static double factor_elements(const Gemm *g, const i64 *lead, i64 rows, i64 cols, i64 rs, i64 cs,
                              const Im2col *p) {
  double n = (double)rows * (double)cols, span = 1 + reach(rows, rs) + reach(cols, cs);
  if (p) span += path_reach(&p->row) + path_reach(&p->col);
  for (int d = 0; d < g->nlead; d++) {
    if (lead[d]) n *= (double)g->lead[d];
    span += reach(g->lead[d], lead[d]);
  }
  return TY_MIN(n, span);
}

static double factor_bytes(const Gemm *g) {
  return ty_dtypes[g->dtype].bytes *
         (factor_elements(g, g->abs, g->m, g->k, g->ars, g->acs, g->a_im2col) +
          factor_elements(g, g->bbs, g->k, g->n, g->brs, g->bcs, g->b_im2col));
}

/* Adds a kernel, or the epilogue of a product: bytes, how often its body runs. */
static void put_kernel(lua_State *L, const Step *s) {
  const Program *p = ty_kernel_program(s->entry);
  const Launch *l = s->launch;
  const int epilogue = s->kind == STEP_GEMM ? 3 : 0; /* where its operands begin */
  double bytes = epilogue ? factor_bytes(s->job->gemm) : 0;
  for (int i = 0; i < p->noperands; i++)
    if (s->slot[epilogue + i] && !(epilogue && i == s->job->product)) bytes += touched(l, p, i);
  double rows = extent(l, 0, l->no) * extent(l, l->no + l->nr, l->ni);
  set_number(L, "rows", rows);
  set_number(L, "elements", rows * extent(l, l->no, l->nr));
  set_number(L, "bytes", bytes);
}

static double slots_bytes(const Plan *p, const Step *s) {
  double bytes = 0;
  for (int j = 0; j < s->noperands; j++) bytes += (double)p->slot[s->slot[j]].bytes;
  return bytes;
}

static void put_step(lua_State *L, const Plan *p, const Step *s) {
  static const char *const kinds[] = {"kernel", "product", "host", "copy"};
  lua_newtable(L);
  lua_pushstring(L, kinds[s->kind]);
  lua_setfield(L, -2, "kind");
  lua_pushstring(L, s->op == OP_INPUT ? "copy" : ty_ops[s->op].name);
  lua_setfield(L, -2, "op");
  set_number(L, "bytes", slots_bytes(p, s));
  set_number(L, "node", s->node);
  if (s->kind == STEP_KERNEL || (s->kind == STEP_GEMM && s->kernel)) put_kernel(L, s);
  if (s->kind != STEP_GEMM) return;
  if (!s->kernel) {
    double sums = (double)s->job->gemm->batch * (double)s->job->gemm->m * (double)s->job->gemm->n;
    set_number(L, "bytes",
               factor_bytes(s->job->gemm) + sums * ty_dtypes[s->job->gemm->dtype].bytes);
  }
  set_number(L, "m", (double)s->job->gemm->m), set_number(L, "n", (double)s->job->gemm->n);
  set_number(L, "k", (double)s->job->gemm->k), set_number(L, "batch", (double)s->job->gemm->batch);
  lua_pushstring(L, ty_dtypes[s->job->gemm->dtype].name);
  lua_setfield(L, -2, "dtype");
}

/* The plan's steps as a list; beside it the text of its passes, where the programs of kernels stand. */
static void put_plan(lua_State *L, const Plan *p) {
  lua_newtable(L);
  if (p->source) {
    ty_lua_plan_text(L, p->source);
    lua_setfield(L, -2, "text");
  }
  set_number(L, "operations", (double)p->nops);
  for (i32 k = 0; k < p->nsteps; k++) {
    put_step(L, p, &p->step[k]);
    lua_rawseti(L, -2, k + 1);
  }
}

static void push_lists(lua_State *L) {
  const i32 *site;
  lua_newtable(L);
  for (i32 k = 1, n; ty_profile_sites_of(k, &n, &site); k++) {
    if (!site) continue;
    ty_lua_push_sites(L, site, n);
    lua_rawseti(L, -2, k);
  }
}

/* stop() -> list of numbers, eight for each event: kind, thread, begin, end (seconds), plan, step, n, and where it was
** asked for: of an eager operation its site or false, else the number of a list of sites; list of plans; how many events
** were lost; those lists, of the sites of a plan's nodes in order. Nothing where no profile runs. */
static int profile_stop(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Event *e;
  int at = 0;
  double lost = 0;
  if (!ty_profile_stop(S)) return 0;
  lua_newtable(L);
  for (i32 ring = 0; ring < TY_EVENT_RINGS; ring++) {
    i64 gone = 0;
    for (i64 i = 0; (e = ty_event_read(ring, i, &gone)); i++) {
      double v[7] = {
          e->kind,     e->thread,   (double)e->begin * 1e-9, (double)e->end * 1e-9, e->plan + 1,
          e->step + 1, (double)e->n};
      for (int k = 0; k < 7; k++) {
        lua_pushnumber(L, v[k]);
        lua_rawseti(L, -2, ++at);
      }
      if (e->kind == EV_MAP || e->kind == EV_PRODUCT) ty_lua_push_site(L, e->site);
      else lua_pushinteger(L, e->site);
      lua_rawseti(L, -2, ++at);
    }
    lost += (double)gone;
  }
  lua_newtable(L);
  for (i32 i = 0; ty_profile_held(i); i++) {
    put_plan(L, ty_profile_held(i));
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushnumber(L, lost);
  push_lists(L);
  ty_profile_leave();
  return 4;
}

/* runs() -> whether a profile of this State runs */
static int profile_runs(lua_State *L) {
  const State *S = ty_lua_enter(L);
  lua_pushboolean(L, (S->engine->dump & DUMP_PROFILE) != 0);
  return 1;
}

/* profile_site(number) -> the place of an eager operation, as profile_stop has it */
static int profile_site(lua_State *L) {
  ty_lua_push_site(L, (i32)luaL_checkinteger(L, 1));
  return 1;
}

/* clock() -> seconds of a clock that only goes forward, with the nanoseconds */
static int wall_clock(lua_State *L) {
  lua_pushnumber(L, (double)ty_event_now() * 1e-9);
  return 1;
}

/* terminal(fd) -> columns, rows (0 where unknown) of the terminal that the file is; nothing: it is none */
static int terminal(lua_State *L) {
  int columns, rows;
  if (!ty_system_terminal((int)luaL_checkinteger(L, 1), &columns, &rows)) return 0;
  lua_pushinteger(L, columns);
  lua_pushinteger(L, rows);
  return 2;
}

void ty_lua_open_profile(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"profile_start", profile_start},
                                 {"profile_stop", profile_stop},
                                 {"profile_runs", profile_runs},
                                 {"profile_site", profile_site},
                                 {"clock", wall_clock},
                                 {"terminal", terminal},
                                 {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
