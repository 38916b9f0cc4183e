/*
** lua_signal.c -- Ctrl-C at a prompt: what runs ends soon, and the session goes on.
** In: a function that the REPL calls, and Ctrl-C. Out: as pcall, and whether the call was interrupted. Under `internals`
** `interruptible`; `ignore_interrupts` for the time between; `side_trace` for what LuaJIT compiles meanwhile. Nothing is
** installed until they are called.
**
** 1. The handler sets a debug hook, which raises at the next instruction of the interpreter. Our own long runs see
**    that it is there (lua_interrupt.c); compiled loops are left by force (loop_exit.c), which a timer tries every
**    TICK until the call is over.
** 2. The hook takes itself away, so that what must be cleaned up can be. Whoever catches its error and goes on is
**    interrupted again after AGAIN ticks; from PATIENCE on the hook stays and raises always.
** 3. A native function that is not ours, such as string.rep, cannot be stopped before it returns. Where none of Lua's
**    instructions has come for PATIENCE ticks, a second signal says so, and a third one, HOPELESS ticks after that, ends
**    the process: a key that is held sends many.
** Signals have no room for a context: the call in progress is the process's. Another one inside of it is a plain one.
*/
#include "base/interrupt.h"
#include "base/loop_exit.h"
#include "lua/lua_tycho.h"

enum { TICK = 2000 /* microseconds */, AGAIN = 10, PATIENCE = 20, HOPELESS = 100 };

static struct {
  lua_State *L; /* NULL: no call is in progress */
  volatile int signals, ticks;
  volatile int told;    /* the tick at which it was said that nothing stops it, or 0 */
  volatile bool raised; /* since the first signal */
  char where[256];
} call;

static void raise_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  call.raised = true;
  if (call.ticks < PATIENCE) lua_sethook(L, NULL, 0, 0);
  if (!*call.where) {
    luaL_where(L, 0);
    if (!*lua_tostring(L, -1)) luaL_where(L, 1);
    snprintf(call.where, sizeof call.where, "%s", lua_tostring(L, -1));
  }
  lua_pushfstring(L, "%sinterrupted", call.where);
  lua_error(L);
}

static void set_hook(void) {
  lua_sethook(call.L, raise_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/* In a signal's handler. */
static void interrupt(bool tick) {
  if (tick) {
    call.ticks = TY_MIN(call.ticks + 1, 1 << 30);
    if (call.ticks % AGAIN == 0 && !lua_gethook(call.L)) set_hook();
    return;
  }
  call.signals = call.signals + 1;
  if (call.told && call.ticks > call.told + HOPELESS && !call.raised)
    ty_interrupt_give_up("\nIt cannot be stopped: tycho ends.\n");
  if (call.signals > 1 && call.ticks > PATIENCE && !call.told && !call.raised) {
    call.told = call.ticks;
    ty_interrupt_say("\nA function written in C runs, and is stopped when it returns. Ctrl-C again "
                     "ends tycho.\n");
  }
  set_hook();
  if (call.signals == 1) ty_interrupt_ticks(TICK);
}

/* interruptible(fn, handler, ...) -> ok, where it was interrupted ("file:line: ") or nil, results or the error */
static int interruptible(lua_State *L) {
  lua_Hook hook = lua_gethook(L);
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  bool outer = !call.L;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 2);
  lua_insert(L, 1); /* handler, fn, handler, ... */
  lua_remove(L, 3);
  if (outer) {
    call.signals = call.ticks = call.told = 0;
    call.raised = false;
    *call.where = 0;
    call.L = L;
    ty_interrupt_open(interrupt);
  }
  bool ok = !lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1);
  bool stopped = false;
  if (outer) {
    ty_interrupt_close();
    call.L = NULL;
    if (call.signals) lua_sethook(L, hook, mask, count);
    stopped = call.signals && !ok;
  }
  lua_pushboolean(L, ok);
  lua_replace(L, 1);
  if (stopped) lua_pushstring(L, call.where);
  else lua_pushnil(L);
  lua_insert(L, 2);
  return lua_gettop(L);
}

/* ignore_interrupts(): from now on Ctrl-C ends nothing but such calls */
static int ignore_interrupts(lua_State *L) {
  (void)L;
  ty_interrupt_ignore();
  return 0;
}

/* side_trace(trace, address of its code, address of the exit stub that it took the place of): LuaJIT has compiled it */
static int side_trace(lua_State *L) {
  ty_loop_exit_side((int)luaL_checkinteger(L, 1), (u64)luaL_checknumber(L, 2),
                    (u64)luaL_checknumber(L, 3));
  return 0;
}

void ty_lua_open_signal(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"interruptible", interruptible},
                                 {"ignore_interrupts", ignore_interrupts},
                                 {"side_trace", side_trace},
                                 {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
