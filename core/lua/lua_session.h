/*
** lua_session.h -- the session of a capture.
*/
#ifndef TY_LUA_SESSION_H
#define TY_LUA_SESSION_H

#include "record/capture.h"
#include "lua/lua_protect.h"
#include "lua/lua_trace.h"

typedef enum { OPEN, ENDED, ENDED_BY_HOOK, ENDED_BY_FINALISER } SessionEnd;

/* On the C stack of the function that leads it. */
typedef struct Session {
  Protect protect;
  lua_State *L;
  Lazy *lazy;    /* where operations are appended */
  u64 entered;   /* modes before it */
  bool collects; /* Lua's collector ran before */
  int pause;     /* its pause then */
  int hushed;    /* its pause now */
  int located; /* in the registry: what tells "file:line" of the evaluated code; LUA_NOREF: nobody */
  u8 ended;    /* SessionEnd: all is put back, by whom */
} Session;

/* False: out of memory. */
bool ty_lua_session_begin(lua_State *L, Binding *B, Session *s);
/* It ends, if it has not, and is let go of. Cannot fail. */
void ty_lua_session_close(lua_State *L, Binding *B, Session *s);

/* lua_hush.c: Lua's collector waits from now on; it goes on as before. */
void ty_lua_hush(lua_State *L, Session *s);
void ty_lua_wake(lua_State *L, const Session *s);

/* The capture has become a trace: what comes now is recorded no more. */
void ty_lua_session_done(lua_State *L, Binding *B);

#endif
