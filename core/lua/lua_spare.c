/*
** lua_spare.c -- handles of results that went from one part of a function to the next: used again without the collector.
** In: what a link's parts make and hand on. Out: handles without a storage, for parts that come later. Cannot fail.
**
** A turn of a loop that reads data makes as many handles as the one before, whose are dead by then; a handle costs more
** to make and to collect than a small kernel takes. No Lua code runs between two parts, so those that a part made are
** known here and to the parts behind it alone.
**
** Rules.
** 1. A handle is owned from when a part that leads to a link, or comes behind one, makes it, until a part that may keep
**    its arguments or results elsewhere (in a table, by an effect, in a function of the user's) has run, or the link
**    ends. What is owned and not among the values that go on is dead.
** 2. Finalisers may run in the middle of a part, and follow links of their own. Then nothing is owned any more: each
**    link counts itself, and looks whether it is still the last.
** 3. The list is weak: what is dead may be collected all the same, and what is owned when an error ends the link is.
*/
#include "lua/lua_tycho.h"

void ty_spare_open(lua_State *L, Binding *B) {
  if (B->spare.list) return;
  lua_createtable(L, SPARES, 0);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  B->spare.list = luaL_ref(L, LUA_REGISTRYINDEX);
}

u64 ty_spare_begin(Binding *B) {
  B->spare.owned = 0;
  return ++B->spare.link;
}

/* Pushes an entry of the list: a handle, or nil where it was collected. */
static Handle *push_entry(lua_State *L, const Binding *B, int i) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, B->spare.list);
  lua_rawgeti(L, -1, i + 1);
  lua_remove(L, -2);
  return lua_touserdata(L, -1);
}

Tensor *ty_spare_take(lua_State *L, Binding *B) {
  Spare *s = &B->spare;
  while (s->dead) {
    const int i = __builtin_ctz(s->dead);
    Handle *h = push_entry(L, B, i);
    s->dead &= ~(1u << i);
    if (h) {
      s->owned |= 1u << i;
      h->t.detached = false;
      h->t.origin = 0;
      return &h->t;
    }
    lua_pop(L, 1);
  }
  return NULL;
}

Tensor *ty_spare_push(lua_State *L, Binding *B) {
  Spare *s = &B->spare;
  if (TY_UNLIKELY(B->scope != NULL)) {
    s->made++;
    return ty_lua_push_in(L, B);
  }
  Tensor *t = ty_spare_take(L, B);
  if (t) return t;
  t = ty_lua_push_in(L, B);
  s->made++;
  const u32 taken = s->owned | s->dead;
  if (!s->list || taken == SPARES_ALL) return t;
  const int i = __builtin_ctz(~taken);
  lua_rawgeti(L, LUA_REGISTRYINDEX, s->list);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, i + 1); /* the list has its places: no memory is asked for */
  lua_pop(L, 1);
  s->handle[i] = t;
  s->owned |= 1u << i;
  return t;
}

void ty_spare_hand_on(lua_State *L, Binding *B, u64 link, bool kept, int first, int n) {
  Spare *s = &B->spare;
  if (link != s->link) return;
  u32 gone = s->owned;
  if (kept) s->owned = gone = 0;
  for (int i = first; gone && i < first + n; i++) {
    const void *p = lua_touserdata(L, i);
    for (u32 set = p ? gone : 0; set; set &= set - 1)
      if (s->handle[__builtin_ctz(set)] == p) gone &= ~(set & -set);
  }
  s->owned &= ~gone;
  for (; gone; gone &= gone - 1) {
    const int i = __builtin_ctz(gone);
    Handle *h = push_entry(L, B, i);
    if (h && !h->scope && !h->result && h->mark == ty_lua_mark(B)) {
      ty_tensor_release(&h->t);
      s->dead |= 1u << i;
    }
    lua_pop(L, 1);
  }
}
