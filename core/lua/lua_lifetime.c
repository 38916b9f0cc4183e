/*
** lua_lifetime.c -- large results that are dead are let go of at once, not when Lua's collector comes.
** In: the call of an operation or of a compiled function, from a Lua function's line. Out: results that the line's frame
** made before have no memory any more, where lua/tycho/capture/lifetimes.lua proves that nobody can use them. Raises
** when out of memory.
**
** 1. A Site is a (function, line, what is called there): for a call the slots between the frames, which tell the
**    instruction's register (what the interpreter itself calls, a hook or an error's handler, lies elsewhere, and is
**    none); for one of our operators its event and number.
** 2. The latest results of sites that may let go of them are kept in a ring, each with its frame. At a site each result
**    of the same frame is judged, and those of frames that have ended: a frame is known by its coroutine and slot, and
**    frames of ended calls are overwritten. While a debug hook is set, nothing is done.
** 3. A result counts when the call made it and gave it to its caller alone. Who runs may be who the one called ends
**    in: that is nothing to the caller.
** 4. Sites lie in tables by function, whose keys are weak. In a function's table are its sites, from 1 on, what is known
**    of pairs of them, below 0, and in line l its first site's number, at "l"; the others hang on that.
*/
#include <stdio.h>
#include "lua/lua_lifetime.h"
#include "lua/lua_frame.h"

#define SITE_META "tycho.site"
enum { LARGE = 16 << 10, SITES_MOST = 4096, LINE_MOST = 32 };

struct Site {
  i32 owner;  /* its function, as a number */
  i32 index;  /* from 1 on */
  i32 behind; /* of the next one on its line, 0: it is the last */
  int line;
  int up; /* of a call: the slots from the caller's frame to the callee's; of an operator: 0 */
  char event[8]; /* of an operator: its name */
  int which;     /* of an operator: the operand that is a number, 0: none */
  lua_Number number;
  bool counts, several; /* that number; instructions may be it, if not */
  bool known, dies;     /* asked for when it is come to again: its results may be let go of */
};

/* --- the ring */

void ty_lua_result_forget(Handle *h) {
  if (h->result) h->result->handle = NULL;
  h->result = NULL;
}

static void let_go(Binding *B, Handle *h) {
  ty_lua_result_forget(h);
  if (!h->t.st) return;
  ty_lua_scope_forget(h);
  ty_tensor_release(&h->t);
  B->died++;
}

void ty_lua_site_made(const SiteFrame *f, Handle *h) {
  Binding *B = f->B;
  if (!f->site->dies) return;
  Result *r = &B->result[B->results++ % TY_COUNT(B->result)];
  if (r->handle) ty_lua_result_forget(r->handle);
  *r = (Result){.handle = h, .site = f->site, .thread = f->L, .slot = f->slot};
  h->result = r;
}

static int site_gc(lua_State *L) {
  const Site *s = lua_touserdata(L, 1);
  Binding *B = ty_lua_binding(L);
  for (size_t i = 0; i < TY_COUNT(B->result); i++)
    if (B->result[i].handle && B->result[i].site == s) ty_lua_result_forget(B->result[i].handle);
  return 0;
}

/* --- what is known of sites */

/* Pushes a table of what lifetimes.lua is to know of a site. */
static void push_place(lua_State *L, const Site *s) {
  lua_createtable(L, 4, 0);
  lua_pushinteger(L, s->line);
  lua_rawseti(L, -2, 1);
  if (s->up) lua_pushinteger(L, s->up);
  else lua_pushstring(L, s->event);
  lua_rawseti(L, -2, 2);
  lua_pushinteger(L, s->which);
  lua_rawseti(L, -2, 3);
  if (!s->counts) return;
  lua_pushnumber(L, s->number);
  lua_rawseti(L, -2, 4);
}

/* What lifetimes.lua says of results of `made`, at `here` if it is there: two answers. fn: the function's place on the
** stack. Nothing but a hook and memory raise. */
static bool ask(lua_State *L, Binding *B, int fn, const Site *made, const Site *here,
                bool *second) {
  const int top = lua_gettop(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, B->dies);
  lua_pushvalue(L, fn);
  push_place(L, made);
  if (here) push_place(L, here);
  else lua_pushnil(L);
  lua_call(L, 3, 2);
  const bool y = lua_toboolean(L, -2);
  if (second) *second = lua_toboolean(L, -1);
  lua_settop(L, top);
  return y;
}

/* The same of two sites of the function, which is asked once. sites: its table. */
static bool judge(lua_State *L, Binding *B, int fn, int sites, const Site *made, const Site *here) {
  const int key = -(made->index * SITES_MOST + here->index);
  lua_rawgeti(L, sites, key);
  bool y = lua_toboolean(L, -1);
  const bool known = !lua_isnil(L, -1);
  lua_pop(L, 1);
  if (known) return y;
  y = ask(L, B, fn, made, here, NULL);
  lua_pushboolean(L, y);
  lua_rawseti(L, sites, key);
  return y;
}

/* Pushes the table of the function at `fn`, made where there is none. */
static void push_sites(lua_State *L, Binding *B, int fn) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, B->sites);
  lua_pushvalue(L, fn);
  lua_rawget(L, -2);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushinteger(L, ++B->owners);
    lua_setfield(L, -2, "owner");
    lua_pushvalue(L, fn);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_remove(L, -2);
}

static bool is_same(const Site *a, const Site *b) {
  return a->up == b->up && a->which == b->which && a->counts == b->counts &&
         a->number == b->number && strcmp(a->event, b->event) == 0;
}

static int number_at(lua_State *L, int t, const char *key) {
  lua_getfield(L, t, key);
  const int y = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return y;
}

/* Pushes the site of the function's table that is like `own`, made where there is none; NULL: there are too many. */
static Site *push_same(lua_State *L, Binding *B, int fn, int sites, Site *own) {
  char line[24];
  int n = 0;
  snprintf(line, sizeof line, "%d", own->line);
  const i32 first = number_at(L, sites, line);
  for (i32 i = first; i; n++) {
    lua_rawgeti(L, sites, i);
    Site *s = lua_touserdata(L, -1);
    if (is_same(s, own)) {
      if (!s->known) s->dies = ask(L, B, fn, s, NULL, &s->several);
      s->known = true;
      return s;
    }
    i = s->behind;
    lua_pop(L, 1);
  }
  own->owner = number_at(L, sites, "owner");
  own->index = number_at(L, sites, "count") + 1;
  own->behind = first;
  if (n >= LINE_MOST || own->index >= SITES_MOST) return NULL;
  Site *s = lua_newuserdata(L, sizeof *s);
  *s = *own;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  if (luaL_newmetatable(L, SITE_META)) {
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, site_gc, 2);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -4);
  lua_pop(L, 2);
  lua_pushvalue(L, -1);
  lua_rawseti(L, sites, s->index);
  lua_pushinteger(L, s->index);
  lua_setfield(L, sites, "count");
  lua_pushinteger(L, s->index);
  lua_setfield(L, sites, line);
  return s;
}

/* The same; its number counts where the line has several such operators. */
static Site *push_site(lua_State *L, Binding *B, int fn, int sites, Site *own) {
  Site any = *own;
  any.number = 0;
  any.counts = false;
  Site *s = push_same(L, B, fn, sites, &any);
  if (!s || !s->several || own->which <= 0) return s;
  lua_pop(L, 1);
  own->counts = true;
  return push_same(L, B, fn, sites, own);
}

/* --- calls */

/* Reads what the running operator's metamethod is called by: its event and the number among its operands. */
static bool read_operator(lua_State *L, lua_Debug *callee, Site *own) {
  if (!lua_getinfo(L, "n", callee) || strcmp(callee->namewhat, "metamethod") != 0) return false;
  if (strlen(callee->name) >= sizeof own->event) return false;
  strcpy(own->event, callee->name);
  own->up = 0;
  for (int i = 2; i >= 1; i--)
    if (lua_type(L, i) == LUA_TNUMBER) {
      own->which = i;
      own->number = lua_tonumber(L, i);
    }
  return true;
}

static bool is_argument(lua_State *L, const Handle *h, int n) {
  for (int i = 1; i <= n; i++)
    if (lua_touserdata(L, i) == h) return true;
  return false;
}

/* Judges the results in the ring; n: arguments of the call. */
static void visit(lua_State *L, const SiteFrame *f, int fn, int sites, int n) {
  Binding *B = f->B;
  for (size_t i = 0; i < TY_COUNT(B->result); i++) {
    const Result *r = &B->result[i];
    if (!r->handle || r->thread != L || r->slot < f->slot) continue;
    const bool ended = r->slot > f->slot || r->site->owner != f->site->owner;
    const Handle *h = r->handle;
    const bool dead = ended || judge(L, B, fn, sites, r->site, f->site);
    const bool there = r->handle == h; /* finalisers may have run */
    if (dead && there && !is_argument(L, h, n)) let_go(B, r->handle);
  }
}

/* Numbers may be given operators of their own, which get what they meet. */
static bool have_numbers_operators(lua_State *L) {
  lua_pushinteger(L, 0);
  const bool have = lua_getmetatable(L, -1);
  lua_pop(L, have ? 2 : 1);
  return have;
}

bool ty_lua_site(lua_State *L, Binding *B, SiteCall call, SiteFrame *f) {
  const int top = lua_gettop(L), fn = top + 1, sites = top + 2, level = call == SITE_COMPILED;
  lua_Debug ar, callee;
  Site own = {.line = 0};
  f->site = NULL;
  if (B->S.capture || B->S.open || lua_gethook(L) || !lua_checkstack(L, 16) ||
      have_numbers_operators(L) || !lua_getstack(L, level, &callee) ||
      !lua_getstack(L, level + 1, &ar))
    return false;
  own.up = SLOT(&callee) - SLOT(&ar);
  if (call == SITE_COMPILED)
    own.up = top + 1 - own.up; /* the wrapper's frame lies above its arguments */
  if (call == SITE_OPERATOR && !read_operator(L, &callee, &own)) return false;
  lua_getinfo(L, "fl", &ar);
  if ((own.line = ar.currentline) > 0) {
    push_sites(L, B, fn);
    *f = (SiteFrame){.B = B, .L = L, .slot = SLOT(&ar)};
    f->site = push_site(L, B, fn, sites, &own);
    if (f->site) visit(L, f, fn, sites, top);
  }
  lua_settop(L, top);
  return f->site != NULL;
}

bool ty_lua_is_large(const Binding *B, const Handle *h) {
  const Storage *st = h->t.st;
  return st && st->buf && st->refs == 1 && st->buf->bytes >= B->large && !h->result;
}

/* lifetimes(dies, bytes = as it was) -> how many results died so far. dies tells when; bytes: how large they must be */
static int set_lifetimes(lua_State *L) {
  Binding *B = ty_lua_binding(L);
  if (!lua_isnoneornil(L, 2)) B->large = (i64)luaL_checknumber(L, 2);
  lua_settop(L, 1);
  lua_pushnumber(L, (lua_Number)B->died);
  if (lua_isnil(L, 1)) return 1;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (!B->sites) {
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    B->sites = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  if (B->dies) luaL_unref(L, LUA_REGISTRYINDEX, B->dies);
  lua_pushvalue(L, 1);
  B->dies = luaL_ref(L, LUA_REGISTRYINDEX);
  return 1;
}

void ty_lua_open_lifetimes(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"lifetimes", set_lifetimes}, {NULL, NULL}};
  ty_lua_binding(L)->large = LARGE;
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
