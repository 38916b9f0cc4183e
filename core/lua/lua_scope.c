/*
** lua_scope.c -- scopes, which free what was made in them.
** In: the Lua stack; init.lua builds ty.scope on it. Out: tensors without memory. Raises when out of Lua's memory. A
** scope's tensors stand in a list; one that is handed out goes to the scope around. Scopes belong to a coroutine and to
** a frame of it: where an error or the coroutine's end has taken that frame, the scope is over and its tensors live on.
**
** The tape may keep a function that runs again in the backward pass (scan, checkpoint, custom_grad), and what that
** reads was made before it was taped: its record has a pin there in the list. Tensors go the latest first, so a record
** that only they hold is gone, and its pin with it, when its turn comes; behind a pin that is still there they live on.
*/
#include "lua/lua_tycho.h"
#include "record/grad.h"

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

static void insert(Scope *s, Handle **at, Handle *h) {
  h->scope = s;
  h->next = *at;
  h->prev = at;
  if (*at) (*at)->prev = &h->next;
  *at = h;
}

static bool is_pin(const Handle *h) { return !h->mark; }

void ty_lua_scope_add(lua_State *L, Binding *B, Handle *h) {
  Scope *s = scope_of(L, B, B->scope);
  if (s) insert(s, &s->made, h);
}

/* A tensor that goes to the scope around: unless the tape says that it is younger, any pin's function may read it. */
static void scope_give(Scope *s, Handle *h) {
  ty_lua_scope_forget(h);
  if (!s || is_pin(h)) return;
  const Record *r = h->t.st ? h->t.st->tape : NULL;
  Handle **place = &s->made;
  for (Handle *at = s->npins ? s->made : NULL; at; at = at->next)
    if (is_pin(at) && (!r || r->seq < ((ScopePin *)at)->seq)) place = &at->next;
  insert(s, place, h);
}

i32 ty_lua_scope_count(const Binding *B) {
  i32 n = 0;
  for (const Scope *s = B->scope; s; s = s->outer) n++;
  return n;
}

void ty_lua_scope_pin(Binding *B, ScopePin *pin, u64 seq, Handle *first) {
  for (Scope *s = B->scope; s; s = s->outer, pin++) {
    *pin = (ScopePin){.seq = seq};
    insert(s, first && first->scope == s ? &first->next : &s->made, &pin->place);
    s->npins++;
  }
}

void ty_lua_scope_unpin(ScopePin *pin) {
  if (pin->place.scope) pin->place.scope->npins--;
  ty_lua_scope_forget(&pin->place);
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
  if (h && h->scope == s) scope_give(scope_of(L, ty_lua_binding(L), s->outer), h);
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
  for (Handle *h = s->made; h && !is_pin(h); h = s->made) {
    ty_lua_scope_forget(h);
    ty_tensor_release(&h->t);
  }
  Scope *outer = s->made ? scope_of(L, B, s->outer) : NULL;
  while (s->made) scope_give(outer, s->made);
  scope_drop(B, s);
  lua_settop(L, top);
  if (lua_toboolean(L, 2)) return top - 2;
  lua_settop(L, 3);
  return lua_error(L);
}

void ty_lua_open_scope(lua_State *L, int m) {
  static const luaL_Reg fns[] = {
      {"scope_open", scope_open}, {"scope_close", scope_close}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
