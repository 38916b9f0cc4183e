/*
** lua_protect.c -- protected calls inside of the library that let the errors of debug hooks pass.
** In: a function on the stack. Out: as lua_pcall; and whether the error is a debug hook's. Under `internals` the
** function `protect`.
**
** A debug hook may raise at any instruction: a watchdog's "time is up", the interpreter's Ctrl-C. Such an error is not
** one of the code that was called: who catches it to go on in another way takes it from the user's program.
** 1. While the call lasts, `watch` stands in for the user's hook. It puts the hook into its place, calls it, and sees
**    afterwards what stands there. So the hook finds itself (debug.gethook), may take itself away or set another one, and
**    an error that came out of it finds a hook that is not ours.
** 2. Where no hook is set there is nothing to call. But a signal may set one (Ctrl-C does), which fires at the next
**    instruction, may take itself away and raise. That it was there shows in the count, which is ours until then: Lua
**    keeps the count of no hook, too.
** 3. A new hook counts instructions from the start, and what is left of the user's count is not told. So that no program
**    goes on for ever by protected calls, ours counts in small steps and adds them up over all calls. Where a hook is
**    called for other events too, which sets the count anew, the steps are of one instruction.
** 4. Signals wait while we look at a hook and set another one: theirs would be lost.
** 5. LuaJIT's collector keeps the mask while it calls a finaliser and sets it again: one that a signal sets in between
**    is lost, which leaves a hook for no event. Lua's own calls make none such: it gets its instructions back.
** 6. A hook of C's may yield, as those of schedulers do. It cannot where calls are protected, which raises: that is no
**    error of the hook's. From then on such a hook waits until the call is over.
** Hooks do not run inside of hooks, so one protected call stands in for all that it makes; what a hook calls may make
** others of its own.
*/
#include "lua/lua_protect.h"
#include "lua/lua_frame.h"
#include "lua/lua_seam.h"
#include "base/system.h"

enum {
  COUNT_NONE = 0x7479, /* of no hook while a call is protected */
  COUNT_STEP = 1000
};

static void watch(lua_State *L, lua_Debug *ar);

static bool is_ours(lua_State *L, const Protect *p) {
  lua_Hook hook = lua_gethook(L);
  return p->hook ? hook == watch : !hook && lua_gethookcount(L) == COUNT_NONE;
}

static int step_of(const Protect *p) {
  if (!(p->mask & LUA_MASKCOUNT)) return p->count;
  return TY_MIN(p->count, p->mask & ~LUA_MASKCOUNT ? 1 : COUNT_STEP);
}

/* Takes the place of the hook that is set. */
static void stand_in(lua_State *L, Protect *p) {
  Signals before = ty_signals_hold();
  p->hook = lua_gethook(L);
  p->mask = lua_gethookmask(L);
  p->count = lua_gethookcount(L);
  if (p->hook && !p->mask) p->mask = LUA_MASKCOUNT;
  if (p->hook) lua_sethook(L, watch, p->mask, step_of(p));
  else lua_sethook(L, NULL, 0, COUNT_NONE);
  ty_signals_restore(&before);
}

/* Gives the place back, unless another one has taken it. */
static void step_back(lua_State *L, const Protect *p) {
  Signals before = ty_signals_hold();
  if (is_ours(L, p)) lua_sethook(L, p->hook, p->mask, p->count);
  ty_signals_restore(&before);
}

/* Whether the error that ended the call, on top of the stack, came out of a hook. One of a signal's that still stands
** there has not run, or it raises again. */
static bool has_raised(lua_State *L, Binding *B, const Protect *p) {
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  if (!p->in_hook) return !is_ours(L, p) && !lua_gethook(L);
  if (!strstr(text, "attempt to yield across C-call boundary")) return true;
  B->yielder = p->hook;
  return false;
}

static void watch(lua_State *L, lua_Debug *ar) {
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_STATE);
  Binding *B = (Binding *)lua_touserdata(L, -1);
  Protect *p = B->protect->by;
  lua_pop(L, 1);
  if (ar->event == LUA_HOOKCOUNT) B->counted += step_of(p);
  if (p->waits || (ar->event == LUA_HOOKCOUNT && B->counted < p->count)) return;
  if (ar->event == LUA_HOOKCOUNT) B->counted = 0;
  step_back(L, p);
  p->in_hook = true;
  p->hook(L, ar); /* may raise */
  p->in_hook = false;
  stand_in(L, p);
  ty_lua_hook_ran(L, B);
}

/* Whether a function of the user's runs in the protected call, which calls none itself. */
static bool calls_users(lua_State *L, const Protect *p) {
  const Binding *B = ty_lua_binding(L);
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar) && SLOT(&ar) > p->slot; level++) {
    lua_getinfo(L, "S", &ar);
    if (*ar.what != 'C' && !ty_lua_is_ours(B, ar.source)) return true;
  }
  return false;
}

bool ty_lua_in_hook(lua_State *L, const Protect *p) {
  return p->by->in_hook || (!is_ours(L, p->by) && calls_users(L, p->by));
}

void ty_lua_protect_begin(lua_State *L, Binding *B, Protect *p) {
  Protect *outer = B->protect;
  lua_Debug ar;
  *p = (Protect){.outer = outer, .by = outer && !outer->by->in_hook ? outer->by : p};
  if (p->by == p && lua_getstack(L, 0, &ar)) p->slot = SLOT(&ar);
  if (p->by == p) stand_in(L, p);
  p->waits = p->hook && p->hook == B->yielder;
  B->protect = p;
}

bool ty_lua_protect_end(lua_State *L, Binding *B, const Protect *p, bool raised) {
  bool hooked = raised && has_raised(L, B, p->by);
  B->protect = p->outer;
  if (p->by == p) step_back(L, p);
  return hooked;
}

int ty_lua_protect(lua_State *L, Binding *B, Protect *p, int nargs, int nresults, bool *hooked) {
  ty_lua_protect_begin(L, B, p);
  int status = lua_pcall(L, nargs, nresults, 0);
  *hooked = ty_lua_protect_end(L, B, p, status != 0);
  return status;
}

int ty_lua_undisturbed(lua_State *L, Binding *B, int nargs, int nresults, bool *hooked) {
  Protect p;
  ty_lua_protect_begin(L, B, &p);
  bool waited = p.by->waits;
  p.by->waits = true;
  int status = lua_pcall(L, nargs, nresults, 0);
  p.by->waits = waited;
  *hooked = ty_lua_protect_end(L, B, &p, status != 0);
  return status;
}

static int answer(lua_State *L, int status, bool hooked) {
  if (hooked || status == LUA_ERRMEM) return lua_error(L);
  lua_pushboolean(L, !status);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* protect(fn, ...) -> true and fn's results, or false and what it raised. What hooks raise, and an error of memory, goes
** on. */
int ty_lua_protected(lua_State *L) {
  Protect p;
  bool hooked;
  int n = lua_gettop(L) - 1;
  int status = ty_lua_protect(L, ty_lua_binding(L), &p, n, LUA_MULTRET, &hooked);
  return answer(L, status, hooked);
}

/* undisturbed(fn, ...): the same while the user's hook waits; for what is short and keeps what it finds */
static int protect_undisturbed(lua_State *L) {
  bool hooked;
  int n = lua_gettop(L) - 1;
  int status = ty_lua_undisturbed(L, ty_lua_binding(L), n, LUA_MULTRET, &hooked);
  return answer(L, status, hooked);
}

void ty_lua_open_protect(lua_State *L, int m) {
  static const luaL_Reg fns[] = {
      {"protect", ty_lua_protected}, {"undisturbed", protect_undisturbed}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
