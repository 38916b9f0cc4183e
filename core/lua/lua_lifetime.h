/*
** lua_lifetime.h -- places in Lua code whose results die before they are come to again.
*/
#ifndef TY_LUA_LIFETIME_H
#define TY_LUA_LIFETIME_H

#include "lua/lua_tycho.h"

typedef struct SiteFrame {
  lua_State *L;
  int slot;
} SiteFrame;

/* The place that called the compiled function whose `pick` runs, and its frame; NULL: nothing is proved of it. */
Site *ty_lua_site(lua_State *L, Binding *B, SiteFrame *frame);
/* The call is about to be made: the last result is let go of; it was made and gave `result`, which is fresh. */
void ty_lua_site_before(Binding *B, Site *s, SiteFrame frame);
void ty_lua_site_after(Site *s, SiteFrame frame, Handle *result);
/* Whether its memory is worth it, and nobody else's. */
bool ty_lua_is_large(const Binding *B, const Handle *h);

#endif
