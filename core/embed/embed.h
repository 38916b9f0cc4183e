/*
** embed.h -- what the files of the C API share: engines, and calls of Lua. Models: model.h.
*/
#ifndef TY_EMBED_H
#define TY_EMBED_H

#include <lauxlib.h>
#include <lua.h>
#include "embed/handle.h"
#include "lua/lua_tycho.h"

/* In the registry: the Universe while it is open, as a light userdata; false after. */
#define KEY_UNIVERSE "tycho.universe"

typedef struct Model Model;

/* A Lua universe with the library in it. */
typedef struct Universe {
  ty_engine *handle;
  Slot *lock;
  lua_State
      *L; /* a thread of its own, anchored; own: of a universe that we made, else of the host's */
  lua_State *own;
  void *memory; /* of `own` */
  Binding *B;
  ty_log_fn *log;
  void *log_ctx;
  i64 microseconds; /* of a call; 0: as many as it needs */
  i64 until;        /* of the call in progress, on the clock of ty_system_now; 0: for ever */
  bool jit;         /* LuaJIT compiles, as it was when the limit was set */
  int anchor;       /* of L, in the registry */
  int lua;          /* what embed.lua gives, there too */
  char luajit[320];
  Model *models;
} Universe;

/* protect.c: calls fn(L) with p as its argument, a light userdata,; what it returns is dropped. The
** status of an error, with its text for ty_error, which begins with `who` where it is not NULL. */
ty_status ty_embed_protect(Universe *U, const char *who, lua_CFunction fn, void *p);
/* The status of an error of Lua's, whose value is on top of L's stack; the text is noted, the value popped. */
ty_status ty_embed_failed(Universe *U, lua_State *L, const char *who, int status);

/* Pushes fn as the library's own functions are, with p as upvalue 3. */
void ty_embed_push_function(lua_State *L, lua_CFunction fn, void *p);
/* Pushes a function of embed.lua. */
void ty_embed_push_lua(lua_State *L, const Universe *U, const char *name);

/* host.c: a Lua state whose memory is the host's where it gave some; NULL: there is none. *ctx is what its end needs, also
** where it is NULL. */
lua_State *ty_embed_new_state(void **ctx);
bool ty_embed_opened(void *ctx); /* its libraries are open; false: there was not enough memory */
void ty_embed_end_state(lua_State *L, void *ctx);
/* From now on ty_setup is too late. */
void ty_embed_settle(void);

/* model.c: ends all models of a universe that is about to close. */
void ty_embed_models_end(Universe *U);

/* weights.c: pushes a table of the weights' tensors by name. Raises. */
typedef struct Weights Weights;
void ty_embed_push_weights(lua_State *L, Weights *w);
Weights *ty_embed_weights_hold(const ty_weights *handle); /* NULL: it stands for nothing */
void ty_embed_weights_drop(void *w);
int ty_embed_share(
    lua_State *L); /* share(t, from): t's storage shares what holds from's elements */

#endif
