/*
** lua_lifetime.h -- places in Lua code that call operations and compiled functions, and the results that die there.
*/
#ifndef TY_LUA_LIFETIME_H
#define TY_LUA_LIFETIME_H

#include "lua/lua_tycho.h"

/* A call in progress: who makes it, and in which frame. */
typedef struct SiteFrame {
  Binding *B;
  lua_State *L;
  const Site *site;
  int slot;
} SiteFrame;

/* What runs: a function in C, the wrapper of a compiled function below it, the metamethod of an operator of ours. */
typedef enum { SITE_C, SITE_COMPILED, SITE_OPERATOR } SiteCall;

/* The function in C that runs was called with what lies on the stack: results of its caller's frame that are dead have no
** memory any more. False: the place is not known. */
bool ty_lua_site(lua_State *L, Binding *B, SiteCall call, SiteFrame *f);
/* It gives that handle, which is fresh, to its caller alone. */
void ty_lua_site_made(const SiteFrame *f, Handle *h);
/* Whether its memory is worth it, and nobody else's. */
bool ty_lua_is_large(const Binding *B, const Handle *h);

#endif
