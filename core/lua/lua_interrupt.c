/*
** lua_interrupt.c -- an end of what runs, when the host asks for one: Ctrl-C, a deadline.
** In: a State, asked every few milliseconds of a run. Out: whether its run is to be left undone; then the error.
**
** Lua's interpreters answer Ctrl-C by setting a debug hook from a signal's handler, which raises at the next instruction.
** While a native function runs there is none: so a hook for instructions that was not there when it was called ends the
** run, of which nothing is seen, and is called in its place. Others that are set in this way (a debugger's, a profiler's) may
** return: the run has failed all the same, and may be asked for again.
*/
#include "base/system.h"
#include "lua/lua_tycho.h"

bool ty_lua_is_late(const Binding *B) {
  return B->until && !B->S.capture && ty_system_now() >= B->until;
}

bool ty_lua_interrupted(State *S) {
  const Binding *B = (Binding *)S;
  lua_Hook hook = lua_gethook(B->at);
  if (ty_lua_is_late(B)) return true;
  return hook && hook != B->hook && lua_gethookmask(B->at) & LUA_MASKCOUNT;
}

void ty_lua_interrupt(lua_State *L, Binding *B) {
  lua_Debug ar;
  lua_Hook hook = lua_gethook(L);
  B->S.stopped = false;
  if (ty_lua_is_late(B)) ty_fail(&B->S, TY_LUA_LATE);
  if (!hook || hook == B->hook || !lua_getstack(L, 0, &ar)) return;
  ar.event = LUA_HOOKCOUNT;
  hook(L, &ar); /* raises */
}
