/*
** lua_lifetime.c -- results of compiled functions that are dead are let go of at once, not when Lua's collector comes.
** In: the call of a compiled function, from a Lua function's line. Out: the result that the line had the last time has no
** memory any more, where lua/tycho/capture/lifetimes.lua proves that nobody can use it. Raises when out of memory.
**
** 1. A Site is a (function, line, name of what is called): its last result, and in which frame. On coming to it again in that frame, or where that
**    has ended, the result is dead. A frame is known by its coroutine and slot: frames of ended calls are overwritten.
** 2. A result counts when the call made it, gave it to its caller alone, and it is large: for others the collector will do.
** 3. Sites lie in tables by function, whose keys are weak. A handle and its site know each other.
*/
#include <stdio.h>
#include "lua/lua_lifetime.h"
#include "lua/lua_frame.h"
#include "lua/lua_protect.h"

#define SITE_META "tycho.site"
enum { LARGE = 256 << 10 };

struct Site {
  const lua_State *thread;
  int slot;
  bool dies;
  char name[64]; /* by which the line calls */
  Handle *last;
};

void ty_lua_site_forget(Handle *h) {
  if (!h->site) return;
  h->site->last = NULL;
  h->site = NULL;
}

static int site_gc(lua_State *L) {
  Site *s = lua_touserdata(L, 1);
  if (s->last) ty_lua_site_forget(s->last);
  return 0;
}

/* Pushes a new site of the function at the top, the line and the name. */
static Site *site_new(lua_State *L, Binding *B, int line, const char *name) {
  Site y = {.dies = false};
  snprintf(y.name, sizeof y.name, "%s", name);
  bool hooked;
  lua_rawgeti(L, LUA_REGISTRYINDEX, B->dies);
  lua_pushvalue(L, -2);
  lua_pushinteger(L, line);
  lua_pushstring(L, name);
  const int status = ty_lua_undisturbed(L, B, 3, 1, &hooked);
  if (status && hooked) lua_error(L);
  y.dies = !status && lua_toboolean(L, -1);
  lua_pop(L, 1);
  Site *s = lua_newuserdata(L, sizeof *s);
  *s = y;
  if (luaL_newmetatable(L, SITE_META)) {
    lua_pushcfunction(L, site_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return s;
}

/* The site's frame; NULL: nothing is proved. Metamethods are called by no call: LuaJIT says so. */
Site *ty_lua_site(lua_State *L, Binding *B, SiteFrame *frame) {
  const int top = lua_gettop(L), fn = top + 1, lines = top + 3;
  lua_Debug ar, callee;
  Site *s = NULL;
  if (!B->dies || !lua_checkstack(L, 12) || !lua_getstack(L, 1, &callee) ||
      !lua_getstack(L, 2, &ar))
    return NULL;
  lua_getinfo(L, "n", &callee);
  lua_getinfo(L, "fl", &ar);
  const bool called = callee.name && *callee.namewhat && strcmp(callee.namewhat, "metamethod") != 0;
  if (called && strlen(callee.name) < sizeof s->name && ar.currentline > 0) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, B->sites);
    lua_pushvalue(L, fn);
    lua_rawget(L, -2);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_newtable(L);
      lua_pushvalue(L, fn);
      lua_pushvalue(L, -2);
      lua_rawset(L, fn + 1);
    }
    lua_rawgeti(L, lines, ar.currentline);
    if (!(s = lua_touserdata(L, -1))) {
      lua_pushvalue(L, fn);
      s = site_new(L, B, ar.currentline, callee.name);
      lua_rawseti(L, lines, ar.currentline); /* which holds it */
    }
    *frame = (SiteFrame){L, SLOT(&ar)};
    if (strcmp(s->name, callee.name) != 0) s = NULL; /* another call of the line */
  }
  lua_settop(L, top);
  return s && s->dies ? s : NULL;
}

void ty_lua_site_before(Binding *B, Site *s, SiteFrame frame) {
  Handle *h = s->last;
  if (!h || s->thread != frame.L || frame.slot > s->slot) return;
  ty_lua_site_forget(h);
  if (!h->t.st) return;
  ty_lua_scope_forget(h);
  ty_tensor_release(&h->t);
  B->died++;
}

void ty_lua_site_after(Site *s, SiteFrame frame, Handle *result) {
  if (s->last) ty_lua_site_forget(s->last);
  s->thread = frame.L;
  s->slot = frame.slot;
  s->last = result;
  result->site = s;
}

bool ty_lua_is_large(const Binding *B, const Handle *h) {
  const Storage *st = h->t.st;
  return st && st->buf && st->refs == 1 && st->buf->bytes >= B->large && !h->site;
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
