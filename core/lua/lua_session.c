/*
** lua_session.c -- the session of a capture: from its beginning to its end, whatever happens between.
** In: who asks for something while it is open. Out: a recording that is the capture's; when the session is over, all is
** as it was. Fails when out of memory as it begins, and tells the evaluator of one that has ended by an error.
**
** 1. A session lasts as long as one call of C (capture_session, lua_evaluator.c): it ends in any case, and only here.
** 2. What is recorded is what the evaluator calls. Whoever else comes while a session is open, a debug hook, another
**    coroutine that one resumes, a finaliser of the user's, ends it by the first thing that is asked of Tycho, and then
**    finds all as it was before the session. The evaluator is told at its next step (ty_lua_session_enter), and gives up.
** 3. Lua's collector waits meanwhile (lua_hush.c), and finalisers that come all the same end the session.
*/
#include <stdio.h>
#include "lua/lua_modes.h"
#include "lua/lua_session.h"

#define STEPS_MOST 1000 /* of the collector, to the end of a cycle; 20 finalisers each */

bool ty_lua_session_begin(lua_State *L, Binding *B, Session *s) {
  State *S = &B->S;
  Lazy like = {.thread = L, .pinned = &s->protect};
  *s = (Session){.L = L, .hushed = -1, .located = LUA_NOREF};
  s->lazy = ty_lazy_open(S, &like);
  if (!s->lazy) return false;
  if (!ty_capture_begin(S, s->lazy->open)) {
    ty_lazy_abandon(S, s->lazy);
    return false;
  }
  s->entered = B->entered;
  s->collects = lua_gc(L, LUA_GCISRUNNING, 0) != 0;
  ty_lua_hush(L, s);
  B->session = s;
  return true;
}

/* Cannot fail: it runs while errors are on their way. */
static void end(lua_State *L, Binding *B, Session *s, SessionEnd by) {
  State *S = &B->S;
  if (s->ended) return;
  s->ended = by;
  ty_lua_modes_cut(L, B, s->entered);
  ty_capture_end(S);
  S->site = 0;
  ty_lazy_abandon(S, s->lazy);
  if (by != ENDED_BY_FINALISER) ty_lua_wake(L, s);
}

void ty_lua_session_done(lua_State *L, Binding *B) {
  Session *s = B->session;
  B->session = NULL;
  end(L, B, s, ENDED);
}

void ty_lua_session_enter(lua_State *L, Binding *B) {
  Session *s = B->session;
  bool finaliser = lua_gc(L, LUA_GCISRUNNING, 0) == 0;
  if (finaliser) end(L, B, s, ENDED_BY_FINALISER);
  else if (L != s->L || ty_lua_in_hook(L, &s->protect)) end(L, B, s, ENDED_BY_HOOK);
  else if (s->ended) luaL_error(L, "the session has ended");
  else ty_lua_hush(L, s);
}

void ty_lua_session_close(lua_State *L, Binding *B, Session *s) {
  end(L, B, s, ENDED);
  B->session = NULL;
  luaL_unref(L, LUA_REGISTRYINDEX, s->located);
  if (s->ended == ENDED_BY_FINALISER) ty_lua_wake(L, s);
  /* The finalisers that wait would end the next session, too. */
  for (int n = 0; s->ended == ENDED_BY_FINALISER && s->collects && n < STEPS_MOST; n++)
    if (lua_gc(L, LUA_GCSTEP, 0)) break;
}

/* An operation is being recorded: nobody else's code may run. */
void ty_lua_where(State *S, char *text, size_t n) {
  Binding *B = (Binding *)S;
  const Session *s = B->session;
  bool hooked;
  const int top = lua_gettop(B->at);
  ty_lua_line(B->at, B, text, n);
  if (!s || s->located == LUA_NOREF || !lua_checkstack(B->at, 4)) return;
  lua_rawgeti(B->at, LUA_REGISTRYINDEX, s->located);
  if (!ty_lua_undisturbed(B->at, B, 0, 1, &hooked) && lua_type(B->at, -1) == LUA_TSTRING)
    snprintf(text, n, "%s", lua_tostring(B->at, -1));
  lua_settop(B->at, top);
}
