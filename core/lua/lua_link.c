/*
** lua_link.c -- what goes on behind a call that a trace has answered: results that wait for Lua, parts that follow.
** In: results of a trace. Out: what hands them out; what the last part answers.
**
** Between two parts of a function may stand a read of data (item, get, totable) and turns of a loop, by numbers or by
** ipairs. Then a link leads from one to the next without Lua: the reader is called here, and the guards of the traces
** behind it decide what its result leads to. Whatever goes another way (an error, a hook, a part that no trace answers)
** is left to the Lua code that stands for the same instructions.
**
** Rules.
** 1. The reader is called by pcall. When it raises, Lua's own call of it raises the same again, at its line.
** 2. pick calls parts, so that each finds its entry. Those follow no link of their own, so the stack does not grow, and
**    one that misses gives its arguments back.
** 3. Hooks are looked for before each part: so Ctrl-C comes.
*/
#include <lauxlib.h>
#include <math.h>
#include <string.h>
#include "lua/lua_link.h"

/* --- results that wait */

#define UP_STASH lua_upvalueindex(3)

/* Whether no call will want them: on their thread one runs at the same place of the stack, or further out. */
static bool is_forsaken(const struct Stash *s, const struct Stash *now) {
  return !s->thread || (s->thread == now->thread && s->slot >= now->slot);
}

/* An error may come between pick's answer and the call that hands out; another coroutine may, where hooks yield. */
void ty_lua_stash(lua_State *L, struct Compiled *C, i32 n, int stash) {
  lua_Debug ar;
  struct Stash now = {.thread = L, .n = n, .slot = lua_getstack(L, 1, &ar) ? SLOT(&ar) : 0};
  while (C->stashed && is_forsaken(&C->stash[C->stashed - 1], &now)) C->stashed--;
  if (C->stashed == STASH_MAX) C->stashed = 0;
  now.base = C->stashed ? C->stash[C->stashed - 1].base + C->stash[C->stashed - 1].n : 0;
  C->stash[C->stashed++] = now;
  for (; n > 0; n--) lua_rawseti(L, stash, now.base + n);
}

/* What was stashed last is for the function that called the running one. */
static void wait_for_caller(lua_State *L, struct Compiled *C) {
  lua_Debug ar;
  if (lua_getstack(L, 1, &ar)) C->stash[C->stashed - 1].slot = SLOT(&ar);
}

/* What pick answers with for results in the stash. Upvalue 3: the stash. */
static int hand_out(lua_State *L) {
  struct Compiled *C = ty_lua_state(L)->engine->compiled;
  i32 at = C->stashed - 1;
  while (at >= 0 && C->stash[at].thread != L) at--;
  if (at < 0) return luaL_error(L, "too many calls of compiled functions were suspended");
  struct Stash s = C->stash[at];
  C->stash[at].thread = NULL;
  if (at == C->stashed - 1) C->stashed--;
  if (s.n > 4) luaL_checkstack(L, s.n + 1, "too many results");
  for (i32 i = 1; i <= s.n; i++) {
    lua_rawgeti(L, UP_STASH, s.base + i);
    lua_pushnil(L);
    lua_rawseti(L, UP_STASH, s.base + i);
  }
  return s.n;
}

void ty_lua_push_hand_out(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, -3);
  lua_pushcclosure(L, hand_out, 3);
}

/* --- what parts share */

/* What a function closes over, and its globals, which what goes on in its middle shares. */
typedef struct Shared {
  const void *env;
  int n;
  void *cell[];
} Shared;

/* Whether they are still those of the function at index f. */
bool ty_lua_is_shared(lua_State *L, int f, const void *shared) {
  const Shared *s = shared;
  lua_getfenv(L, f);
  bool same = lua_topointer(L, -1) == s->env;
  lua_pop(L, 1);
  for (int i = 0; i < s->n; i++) same &= lua_upvalueid(L, f, i + 1) == s->cell[i];
  return same;
}

static void note_shared(lua_State *L, int f, Shared *s) {
  lua_getfenv(L, f);
  s->env = lua_topointer(L, -1);
  lua_pop(L, 1);
  for (int i = 0; i < s->n; i++) s->cell[i] = lua_upvalueid(L, f, i + 1);
}

/* The same as hand_out for what goes on in the middle of a function. Upvalues 4 to 6: the function, what it shared,
** what is called when that has changed. */
static int hand_on(lua_State *L) {
  const int f = lua_upvalueindex(4);
  Shared *s = lua_touserdata(L, lua_upvalueindex(5));
  if (TY_UNLIKELY(!ty_lua_is_shared(L, f, s))) {
    note_shared(L, f, s);
    lua_pushvalue(L, lua_upvalueindex(6));
    lua_call(L, 0, 0);
  }
  return hand_out(L);
}

void ty_lua_push_hand_on(lua_State *L) {
  lua_Debug ar;
  const int stash = lua_gettop(L);
  lua_pushvalue(L, 1);
  lua_getinfo(L, ">u", &ar);
  Shared *s = lua_newuserdata(L, sizeof *s + (size_t)ar.nups * sizeof *s->cell);
  s->n = ar.nups;
  note_shared(L, 1, s);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, stash);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, stash + 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, hand_on, 6);
  lua_insert(L, -2);
}

/* --- links */

/* The step that the table on top describes. */
static LinkStep read_step(lua_State *L) {
  static const char *const names[] = {
#define _(NAME, name) name,
      LINK_OPS(_)
#undef _
          NULL};
  LinkStep s;
  lua_getfield(L, -1, "op");
  s.op = luaL_checkoption(L, -1, NULL, names);
  lua_pop(L, 1);
#define _(name) \
  lua_getfield(L, -1, #name); \
  s.name = (i32)lua_tointeger(L, -1); \
  lua_pop(L, 1);
  LINK_OPERANDS(_)
#undef _
  return s;
}

static void put_field(lua_State *L, const char *name, int env, int at) {
  lua_getfield(L, 1, name);
  lua_rawseti(L, env, at);
}

/* link({owner, shared, reader, native, width, carries, steps, constants, nconstants}) -> link, whose exits wait for link_exit */
int ty_lua_link(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  ty_spare_open(L, ty_lua_binding(L));
  lua_getfield(L, 1, "steps");
  luaL_checktype(L, 2, LUA_TTABLE);
  const i32 n = (i32)lua_objlen(L, 2);
  Link *k = lua_newuserdata(L, sizeof *k + (size_t)n * sizeof *k->step);
  k->walk = NULL;
  for (i32 i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    k->step[i] = read_step(L);
    lua_pop(L, 1);
    if (k->step[i].op == LINK_WALK) k->walk = k->step + i;
  }
  lua_getfield(L, 1, "carries");
  k->carries = lua_toboolean(L, -1);
  lua_getfield(L, 1, "width");
  k->width = (i32)luaL_checkinteger(L, -1);
  lua_newtable(L);
  const int env = lua_gettop(L);
  put_field(L, "owner", env, AT_FUNCTION);
  put_field(L, "shared", env, AT_SHARED);
  put_field(L, "reader", env, AT_READER);
  put_field(L, "native", env, AT_NATIVE);
  lua_getfield(L, 1, "nconstants");
  const i32 nconstants = (i32)luaL_checkinteger(L, -1);
  lua_getfield(L, 1, "constants");
  for (i32 i = 1; i <= nconstants; i++) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, env, -i);
  }
  lua_pushvalue(L, env);
  lua_setfenv(L, 3);
  lua_settop(L, 3);
  return 1;
}

/* link_exit(link, exit, resume, part): what goes on at an exit, in Lua, and its part where there is one */
int ty_lua_link_exit(lua_State *L) {
  luaL_checktype(L, 1, LUA_TUSERDATA);
  const i32 exit = (i32)luaL_checkinteger(L, 2);
  lua_settop(L, 4);
  lua_getfenv(L, 1);
  lua_insert(L, 3);
  lua_rawseti(L, 3, ty_link_part_at(exit));
  lua_rawseti(L, 3, ty_link_resume_at(exit));
  return 0;
}

/* unlink(link): Lua runs what it stands for */
int ty_lua_unlink(lua_State *L) {
  luaL_checktype(L, 1, LUA_TUSERDATA);
  Link *k = lua_touserdata(L, 1);
  k->step[0].op = LINK_NATIVE;
  return 0;
}

/* What FORL does: whether there is another turn. */
static bool turn(lua_State *L, int at) {
  double i = lua_tonumber(L, at), stop = lua_tonumber(L, at + 1), by = lua_tonumber(L, at + 2);
  i += by;
  if (!(signbit(by) ? i >= stop : stop >= i)) return false;
  lua_pushnumber(L, i);
  lua_pushnumber(L, i);
  lua_replace(L, at);
  lua_replace(L, at + 3);
  return true;
}

/* What ipairs' function and ITERL do: whether there is another turn. */
static bool walk(lua_State *L, const LinkStep *s, int at) {
  const int i = (int)lua_tointeger(L, at - 1) + 1;
  lua_rawgeti(L, at - 2, i);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return false;
  }
  lua_pushinteger(L, i);
  lua_pushvalue(L, -1);
  lua_replace(L, at - 1);
  lua_replace(L, at);
  if (s->nresults < 2) lua_pop(L, 1);
  else lua_replace(L, at + 1);
  for (i32 r = 2; r < s->nresults; r++) {
    lua_pushnil(L);
    lua_replace(L, at + r);
  }
  return true;
}

/* Whether the loop walks over a table by ipairs, if there is one. */
static bool may_walk(lua_State *L, const Link *k, int regs, int env) {
  if (!k->walk) return true;
  const int at = regs + k->walk->a;
  lua_rawgeti(L, env, -k->walk->args);
  const bool walks = lua_rawequal(L, -1, at - 3);
  lua_pop(L, 1);
  return walks && lua_istable(L, at - 2) && lua_type(L, at - 1) == LUA_TNUMBER;
}

static int index_tensor(lua_State *L) {
  lua_gettable(L, 1);
  return 1;
}

/* Pushes the function that reads, and what it reads of; false: it is another one. */
static bool push_reader(lua_State *L, State *S, const LinkStep *s, int regs, int env) {
  if (s->op == LINK_INDEX) {
    lua_pushcfunction(L, index_tensor);
    lua_pushvalue(L, regs + s->args);
    lua_pushvalue(L, regs + s->nargs);
    return ty_lua_test_in(L, (Binding *)S, -2) && ty_lua_test_in(L, (Binding *)S, -1);
  }
  lua_rawgeti(L, env, AT_READER);
  for (i32 i = 0; i < s->nargs; i++) lua_pushvalue(L, regs + s->args + i);
  return lua_rawequal(L, -1 - s->nargs, regs + s->a);
}

/* The results of a tail call are left on top. False: nothing has changed. */
static bool read_data(lua_State *L, State *S, const LinkStep *s, int regs, int env) {
  const int top = lua_gettop(L), nargs = s->op == LINK_INDEX ? 2 : s->nargs,
            nresults = s->op == LINK_INDEX ? 1 : s->nresults,
            asked = s->op == LINK_ONE ? LUA_MULTRET : nresults;
  if (!push_reader(L, S, s, regs, env) || lua_pcall(L, nargs, asked, 0) ||
      (s->op == LINK_ONE && lua_gettop(L) != top + 1)) {
    lua_settop(L, top);
    return false;
  }
  for (i32 i = nresults; i-- > 0;) lua_replace(L, regs + s->a + i);
  return true;
}

/* Runs the instructions of a link over the registers behind `regs`. Gives the last one, an exit or a return; NULL:
** nothing has changed, and Lua is to run them. */
static const LinkStep *run_link(lua_State *L, State *S, const Link *k, int regs, int env) {
  const LinkStep *s = k->step;
  if (!may_walk(L, k, regs, env)) return NULL;
  while (s->op != LINK_EXIT && s->op != LINK_RETURN) {
    i32 next = s->next;
    if (s->op == LINK_NATIVE) return NULL;
    if (s->op == LINK_CALL || s->op == LINK_ONE || s->op == LINK_INDEX) { /* the first, if any */
      if (!read_data(L, S, s, regs, env)) return NULL;
    } else if (s->op == LINK_FOR) {
      if (!turn(L, regs + s->a)) next = s->other;
    } else if (s->op == LINK_WALK) {
      if (!walk(L, s, regs + s->a)) next = s->other;
    } else {
      if (s->op == LINK_MOVE) lua_pushvalue(L, regs + s->args);
      else lua_rawgeti(L, env, -s->args);
      lua_replace(L, regs + s->a);
    }
    s = k->step + next;
  }
  return s;
}

static bool may_link(lua_State *L, int env) {
  lua_rawgeti(L, env, AT_FUNCTION);
  lua_rawgeti(L, env, AT_SHARED);
  const bool shared = ty_lua_is_shared(L, lua_gettop(L) - 1, lua_touserdata(L, -1));
  lua_pop(L, 2);
  return shared && !lua_gethook(L);
}

/* Answers with n values on top. */
static int answer(lua_State *L, struct Compiled *C, int n, int stash, int hand_out) {
  if (n == 1) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  ty_lua_stash(L, C, n, stash);
  lua_pushvalue(L, hand_out);
  return 1;
}

int ty_link_follow(lua_State *L, State *S, int n, int stash, int hand_out) {
  struct Compiled *C = S->engine->compiled;
  const int link = lua_gettop(L) - n, env = link + 1, regs = env;
  Binding *B = (Binding *)S;
  const u64 number = C->link;
  ty_spare_hand_on(L, B, number, C->kept, regs, n);
  for (;;) {
    const Link *k = lua_touserdata(L, link);
    luaL_checkstack(L, 2 * k->width + 16, "too many values are in use");
    lua_getfenv(L, link);
    lua_insert(L, env);
    lua_settop(L, regs + k->width);
    if (k->carries) {
      lua_pushvalue(L, regs + n);
      lua_replace(L, regs + k->width);
    }
    const LinkStep *exit = may_link(L, env) ? run_link(L, S, k, regs, env) : NULL;
    int goes_on = AT_NATIVE;
    C->part = PART_MISSES;
    if (exit && exit->op == LINK_RETURN) {
      int top = lua_gettop(L);
      n = exit->nargs < 0 ? top - regs - k->width : exit->nargs;
      for (i32 i = 0; i < exit->nargs; i++) lua_pushvalue(L, regs + exit->a + i);
      return answer(L, C, n, stash, hand_out);
    }
    if (exit) {
      n = exit->nargs;
      goes_on = ty_link_resume_at(exit->a);
      lua_settop(L, regs + n);
      lua_rawgeti(L, env, ty_link_part_at(exit->a));
      if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
      } else {
        lua_insert(L, regs + 1);
        lua_call(L, n, LUA_MULTRET);
        n = lua_gettop(L) - regs;
      }
    }
    if (C->part == PART_ANSWERS) {
      if (n == 2)
        ty_spare_hand_on(L, B, number, C->kept, lua_gettop(L) - 1, n); /* more wait elsewhere */
      if (n == 1) wait_for_caller(L, C);
      return n;
    }
    if (C->part == PART_MISSES) {
      lua_settop(L, regs + n);
      ty_lua_stash(L, C, n, stash);
      lua_rawgeti(L, env, goes_on);
      return 1;
    }
    lua_remove(L, env);
    lua_remove(L, link);
    n--;
    ty_spare_hand_on(L, B, number, C->kept, regs, n);
  }
}
