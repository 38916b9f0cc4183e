/*
** hooks.c -- what hosts do to a Lua state from C: debug hooks, signals, an allocator that fails.
** In: a module for specs and fuzzers, `local C = require "hooks"`. Out: its functions.
*/
#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <sys/time.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define KEY "spec.hooks"

/* Pushes what hook() was given last: a value to be raised, a function to be called, a coroutine that is to yield. */
static void push_given(lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, KEY); }

/* Raises as the interpreter's own Ctrl-C does: without a frame, after it has taken itself away. */
static void raise_once(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  push_given(L);
  lua_error(L);
}

static void raise_always(lua_State *L, lua_Debug *ar) {
  (void)ar;
  push_given(L);
  lua_error(L);
}

static void call(lua_State *L, lua_Debug *ar) {
  push_given(L);
  lua_pushinteger(L, ar->event);
  lua_call(L, 1, 0);
}

/* Not in all versions of LuaJIT. */
extern int lua_isyieldable(lua_State *L) __attribute__((weak));

/* As schedulers do: the coroutine that was given, while it runs itself, and where no C function stands between. */
static void yield(lua_State *L, lua_Debug *ar) {
  (void)ar;
  push_given(L);
  bool scheduled = lua_tothread(L, -1) == L;
  lua_pop(L, 1);
  if (scheduled && (!lua_isyieldable || lua_isyieldable(L))) lua_yield(L, 0);
}

static const struct {
  const char *name;
  lua_Hook hook;
} hooks[] = {{"raise once", raise_once}, {"raise", raise_always}, {"call", call}, {"yield", yield}};

static int mask_of(const char *letters) {
  return (strchr(letters, 'c') ? LUA_MASKCALL : 0) | (strchr(letters, 'r') ? LUA_MASKRET : 0) |
         (strchr(letters, 'l') ? LUA_MASKLINE : 0);
}

/* hook(name, value, mask, count): sets a hook; without a name there is none */
static int set_hook(lua_State *L) {
  const char *name = luaL_optstring(L, 1, NULL);
  int count = luaL_optint(L, 4, 0);
  int mask = mask_of(luaL_optstring(L, 3, "")) | (count > 0 ? LUA_MASKCOUNT : 0);
  if (!name) return lua_sethook(L, NULL, 0, 0), 0;
  lua_pushvalue(L, 2);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY);
  for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
    if (!strcmp(hooks[i].name, name)) return lua_sethook(L, hooks[i].hook, mask, count), 0;
  return luaL_error(L, "no such hook");
}

/* hooked() -> the name of the hook that is set ("other": none of ours; nil: there is none), mask, count */
static int get_hook(lua_State *L) {
  lua_Hook hook = lua_gethook(L);
  const char *name = hook ? "other" : NULL;
  for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
    if (hooks[i].hook == hook) name = hooks[i].name;
  if (name) lua_pushstring(L, name);
  else lua_pushnil(L);
  lua_pushinteger(L, lua_gethookmask(L));
  lua_pushinteger(L, lua_gethookcount(L));
  return 3;
}

/* --- signals: a hook that a handler sets, as the interpreter does for Ctrl-C */

static lua_State *signalled;

static void on_signal(int i) {
  (void)i;
  lua_sethook(signalled, raise_once, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/* interrupt(value): as if somebody pressed Ctrl-C now; the hook raises the value */
static int interrupt(lua_State *L) {
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY);
  signalled = L;
  signal(SIGUSR1, on_signal);
  raise(SIGUSR1);
  return 0;
}

/* interrupt_in(milliseconds, value): the same a little later */
static int interrupt_in(lua_State *L) {
  long ms = luaL_checklong(L, 1);
  lua_settop(L, 2);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY);
  signalled = L;
  signal(SIGALRM, on_signal);
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {ms / 1000, ms % 1000 * 1000}}, NULL);
  return 0;
}

/* --- memory */

static struct {
  lua_Alloc f;
  void *ud;
  long after, times; /* allocations until the first that fails; how many do */
  long asked;
} memory;

static void *starving(void *ud, void *p, size_t old, size_t new) {
  (void)ud;
  if (new > old && memory.times && ++memory.asked > memory.after) {
    memory.times--;
    return NULL;
  }
  return memory.f(memory.ud, p, old, new);
}

/* starve(after, times): of Lua's allocations, so many fail after so many; gives those that were asked for since the
** last call. times < 0: all that follow. Without arguments none fails. */
static int starve(lua_State *L) {
  lua_pushnumber(L, (lua_Number)memory.asked);
  if (!memory.f) memory.f = lua_getallocf(L, &memory.ud);
  memory.after = luaL_optlong(L, 1, 0);
  memory.times = luaL_optlong(L, 2, 0);
  memory.asked = 0;
  if (memory.times) lua_setallocf(L, starving, NULL);
  else lua_setallocf(L, memory.f, memory.ud); /* this module may be unloaded */
  return 1;
}

__attribute__((visibility("default"))) int luaopen_hooks(lua_State *L) {
  static const luaL_Reg fns[] = {{"hook", set_hook},       {"hooked", get_hook},
                                 {"interrupt", interrupt}, {"interrupt_in", interrupt_in},
                                 {"starve", starve},       {NULL, NULL}};
  lua_newtable(L);
  for (const luaL_Reg *f = fns; f->name; f++) {
    lua_pushcfunction(L, f->func);
    lua_setfield(L, -2, f->name);
  }
  return 1;
}
