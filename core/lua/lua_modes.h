/*
** lua_modes.h -- a mode that holds for the extent of a function's call, as a userdata.
*/
#ifndef TY_LUA_MODES_H
#define TY_LUA_MODES_H

#include "lua/lua_frame.h"
#include "lua/lua_tycho.h"
#include "record/vmap.h"

typedef enum {
  MODE_GRAD,
  MODE_CAST,
  MODE_VMAP,
  MODE_RANDOM,
  MODE_PLAIN,   /* compiled functions run as if they were not */
  MODE_PROFILE, /* spans are noted, whoever runs */
  MODE_CHECK,   /* of a compiled function: the call is being checked */
  MODE_WARMUP,  /* of a compiled function: no budget applies */
  MODE_DEADLINE,
  MODE_KINDS
} ModeKind;

typedef struct Mode {
  struct Mode *outer; /* the one that was entered before, by whichever coroutine */
  struct Mode
      *inside_of;   /* the next one outwards of those that held when the words were found last */
  lua_State *owner; /* the coroutine that entered it; NULL: it is not open */
  Frame frame;      /* of the function that entered it */
  u64 number;       /* so many were entered before it, and itself */
  u8 kind;
  bool on;        /* GRAD */
  u8 cast;        /* CAST: as State.cast */
  bool holds;     /* it counted when the words were found last */
  int far;        /* resumes between its coroutine and the one that asked last */
  bool parted;    /* others asked while it did not hold */
  Level level;    /* VMAP */
  u64 random[2];  /* RANDOM: seed and stream, while the State's are another's */
  const void *of; /* CHECK, WARMUP: the Entry */
  i64 until;      /* DEADLINE: on the clock of ty_system_now */
} Mode;

/* Pushes a mode that is not open. Raises when out of memory. */
Mode *ty_lua_mode_push(lua_State *L, ModeKind kind);
/* Whether L is in such a mode, of that entry. */
bool ty_lua_mode_of(lua_State *L, Binding *B, ModeKind kind, const void *entry);
/* From now on it holds, until it is left. Cannot fail. */
void ty_lua_mode_open(lua_State *L, Mode *m);
/* It is left, if it was not, and so are those that its coroutine entered later. Cannot fail. */
void ty_lua_mode_close(lua_State *L, Mode *m);
/* Makes the metatable that tells modes, in the registry at B->mode_meta. */
void ty_lua_modes_meta(lua_State *L);
/* Takes off the modes that were entered since B->entered was this: a capture has ended. */
void ty_lua_modes_cut(lua_State *L, Binding *B, u64 entered);

#endif
