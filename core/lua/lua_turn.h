/*
** lua_turn.h -- turns of a loop that a trace takes by itself, as lua_trace.c asks for them.
*/
#ifndef TY_LUA_TURN_H
#define TY_LUA_TURN_H

#include "lua/lua_guard.h"

/* A trace that has run: its turn is over, its results are not on the stack yet. */
typedef struct TurnStart {
  Trace *T;
  Instance *I;
  Entry *e;
  double *number; /* of the trace, from 1; in the end of the last turn */
  const Tensor **outside;
  int made; /* on the stack behind this place: handles of what it made, and nothing above */
} TurnStart;

/* Takes turns as long as the trace's link leads to the trace itself. Afterwards all is as if it had run once, in the last
** turn: handles, numbers, those arguments that are results. Cannot fail. */
void ty_turn_follow(lua_State *L, State *S, const TurnStart *start);
void ty_turn_free(struct TurnGuards *y); /* NULL is nothing */

#endif
