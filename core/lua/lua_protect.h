/*
** lua_protect.h -- protected calls inside of the library that let the errors of debug hooks pass.
*/
#ifndef TY_LUA_PROTECT_H
#define TY_LUA_PROTECT_H

#include "lua/lua_tycho.h"

/* A protected call in progress, on the C stack of the function that makes it. */
typedef struct Protect {
  struct Protect *outer;
  struct Protect
      *by; /* the one that stands in for the user's hook: itself, or the one that it is a part of */
  lua_Hook hook; /* the user's, which stands behind ours; NULL: there is none */
  int mask, count;
  int slot;     /* where the caller's frame lies */
  bool waits;   /* nothing is to come between now */
  bool in_hook; /* it runs, or an error has left it */
} Protect;

/* Around a call that cannot be left otherwise. end: whether the error with which it ended is a hook's, for the caller to
** raise again. */
void ty_lua_protect_begin(lua_State *L, Binding *B, Protect *p);
bool ty_lua_protect_end(lua_State *L, Binding *B, const Protect *p, bool raised);
/* As lua_pcall(L, nargs, nresults, 0), with `p` for its extent. *hooked: the error is a hook's, for the caller to
** raise again. */
int ty_lua_protect(lua_State *L, Binding *B, Protect *p, int nargs, int nresults, bool *hooked);
/* The same while the user's hook waits. */
int ty_lua_undisturbed(lua_State *L, Binding *B, int nargs, int nresults, bool *hooked);
/* Whether what runs is a hook, or called by one, and not the protected call's own code. */
bool ty_lua_in_hook(lua_State *L, const Protect *p);

/* `protect` of internals: holds nothing itself. */
int ty_lua_protected(lua_State *L);

#endif
