/*
** lua_scope.c -- scopes, which free what was made in them, and release, which frees one tensor.
** In: the Lua stack; init.lua builds ty.scope on it. Out: tensors without memory. A scope's tensors stand in a list; one
** that is handed out goes to the scope around. Scopes belong to a coroutine and to a frame of it: where an error or the
** coroutine's end has taken that frame, the scope is over and its tensors live on.
*/
#include "lua/lua_tycho.h"

void ty_lua_scope_forget(Handle *h) {
  if (!h->scope) return;
  *h->prev = h->next;
  if (h->next) h->next->prev = h->prev;
  h->scope = NULL;
}

/* The scope is over, and its tensors live on as others do. */
static void scope_drop(Binding *B, Scope *s) {
  while (s->made) ty_lua_scope_forget(s->made);
  Scope **p = &B->scope;
  while (*p && *p != s) p = &(*p)->outer;
  if (*p) *p = s->outer;
}

/* The innermost scope of the coroutine, from s outwards. One whose call an error has ended is over. */
static Scope *scope_of(lua_State *L, Binding *B, Scope *s) {
  for (Scope *outer; s; s = outer) {
    outer = s->outer;
    if (s->L != L) continue;
    if (ty_lua_frame_lives(L, &s->frame)) break;
    scope_drop(B, s);
  }
  return s;
}

static void scope_add(Scope *s, Handle *h) {
  if (!s) return;
  h->scope = s;
  h->next = s->made;
  h->prev = &s->made;
  if (s->made) s->made->prev = &h->next;
  s->made = h;
}

void ty_lua_scope_add(lua_State *L, Binding *B, Handle *h) {
  scope_add(scope_of(L, B, B->scope), h);
}

#define FRAMES_MAX 1000 /* looked at */

/* Whether the running function stands in the middle of another one of ours, as in a finaliser or a
** metamethod: what that works on must stay. */
static bool inside_ours(lua_State *L, const Binding *B) {
  lua_Debug ar;
  /* Lua's collector does not run in finalisers, and counts as stopped there, unless one restarts it. */
  bool may_be_finaliser = lua_gc(L, LUA_GCISRUNNING, 0) != 1;
  for (int level = 1; level < FRAMES_MAX; level++) {
    if (!lua_getstack(L, level, &ar)) return L == B->aside; /* what it interrupts is not seen */
    lua_getinfo(L, "f", &ar);
    lua_CFunction fn = lua_tocfunction(L, -1);
    bool ours = fn && lua_getupvalue(L, -1, 1) && lua_touserdata(L, -1) == B;
    lua_settop(L, 1);
    if (ours) return may_be_finaliser || !ty_lua_is_caller(fn);
  }
  return may_be_finaliser;
}

static int l_release(lua_State *L) {
  Tensor *t = ty_lua_test(L, 1);
  if (!t) ty_lua_check(L, "release", 1);
  lua_settop(L, 1);
  ty_lua_apart(L, ty_lua_binding(L));
  if (inside_ours(L, ty_lua_binding(L))) return 0;
  ty_lua_scope_forget((Handle *)t);
  ty_tensor_release(t);
  return 0;
}

/* It was given up: its coroutine died. */
static int scope_collect(lua_State *L) {
  scope_drop(ty_lua_binding(L), (Scope *)lua_touserdata(L, 1));
  return 0;
}

/* scope_open() -> scope */
static int scope_open(lua_State *L) {
  Binding *B = ty_lua_binding(L);
  Scope *s = (Scope *)lua_newuserdata(L, sizeof *s);
  *s = (Scope){.L = L};
  lua_createtable(L, 0, 1);
  ty_lua_push_function(L, scope_collect);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  s->frame = ty_lua_frame(L, 1);
  for (Scope *at = B->scope, *outer; at; at = outer) { /* what lay there has ended */
    outer = at->outer;
    if (at->L == L && at->frame.slot >= s->frame.slot) scope_drop(B, at);
  }
  s->outer = B->scope;
  B->scope = s;
  return 1;
}

/* Hands the tensor on top of the stack from scope s to the one around. A table there is listed in
** the table at `seen`, once, to be looked at. */
static void scope_keep(lua_State *L, Scope *s, int seen) {
  Handle *h = (Handle *)ty_lua_test(L, -1);
  if (h && h->scope == s) {
    ty_lua_scope_forget(h);
    scope_add(scope_of(L, ty_lua_binding(L), s->outer), h);
  }
  if (!lua_istable(L, -1)) return;
  lua_pushvalue(L, -1);
  lua_rawget(L, seen);
  bool known = !lua_isnil(L, -1);
  lua_pop(L, 1);
  if (known) return;
  lua_pushvalue(L, -1);
  lua_pushboolean(L, true);
  lua_rawset(L, seen);
  lua_pushvalue(L, -1);
  lua_rawseti(L, seen, (int)lua_objlen(L, seen) + 1);
}

/* scope_close(scope, ok, ...): frees what the scope made but ... does not hold, and goes on: gives
** ... or raises the error that is there. Tensors that stay belong to the scope around. */
static int scope_close(lua_State *L) {
  Binding *B = ty_lua_binding(L);
  const void *given = lua_touserdata(L, 1);
  Scope *s = B->scope;
  int top = lua_gettop(L), seen = top + 1;
  while (s && s != given) s = s->outer;
  if (!s) return ty_lua_error(L, "scope: it is not open");
  luaL_checkstack(L, 8, "scope");
  lua_newtable(L);
  for (int i = 3; i <= top; i++) {
    lua_pushvalue(L, i);
    scope_keep(L, s, seen);
    lua_pop(L, 1);
  }
  for (int k = 1; k <= (int)lua_objlen(L, seen); k++) {
    lua_rawgeti(L, seen, k);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      scope_keep(L, s, seen);
      lua_pushvalue(L, -2);
      scope_keep(L, s, seen);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  for (Handle *h = s->made; h; h = s->made) {
    ty_lua_scope_forget(h);
    ty_tensor_release(&h->t);
  }
  scope_drop(B, s);
  lua_settop(L, top);
  if (lua_toboolean(L, 2)) return top - 2;
  lua_settop(L, 3);
  return lua_error(L);
}

void ty_lua_open_scope(lua_State *L, int m, int t) {
  static const LuaFunction released[] = {
      {"release", l_release, 'b', "x",
       "frees the memory of x at once, unless others share it; x cannot be used afterwards"},
      {NULL, NULL, 0, NULL, NULL}};
  static const luaL_Reg fns[] = {
      {"scope_open", scope_open}, {"scope_close", scope_close}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
  ty_lua_define(L, m, t, released);
}
