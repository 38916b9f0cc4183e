/*
** lua_seam.h -- what core.so lends to the other shared objects of ours, which are not linked to it.
** A Seam is a table of functions that lies in a userdata under SEAM_KEY in the registry; who takes it
** checks magic and size first. Functions of such an object are closures over the State's userdata
** and the tensors' metatable, as those of core.so are (SEAM_STATE, SEAM_META in the registry): all
** functions below may be called from such closures alone.
*/
#ifndef TY_LUA_SEAM_H
#define TY_LUA_SEAM_H

#include <lua.h>
#include "device/call_library.h"
#include "device/device.h"

#define SEAM_KEY "tycho.seam"
#define SEAM_STATE "tycho.state"
#define SEAM_META "tycho.tensor"
#define SEAM_MAGIC 0x7963686f02u

typedef struct Seam {
  u64 magic, size;
  /* The first call of each function: Ctrl-C, and which of Lua's coroutines records. does: what it does that no capture
  ** can hold; NULL: nothing. Raises. */
  void (*enter)(lua_State *L, const char *does);
  /* Raises a text at the user's file:line. */
  int (*fail)(lua_State *L, const char *text);
  bool (*is_tensor)(lua_State *L, int i);
  /* Pushes a contiguous tensor whose elements are undefined; where they go. NULL: there is no
  ** memory, nothing was pushed. */
  void *(*make)(lua_State *L, const Type *t);
  /* Pushes a tensor over memory of others, of which `drop(ctx)` is told when it is no longer used.
  ** false: there is no memory, nothing was pushed. */
  bool (*foreign)(lua_State *L, const Type *t, void *data, void (*drop)(void *), void *ctx);
  /* The elements of the tensor at index i (not counted from the top), row by row, on the CPU; what stands there
  ** is replaced by a copy where they do not lie so. Raises when it is no tensor or when out of memory.
  ** The address holds until Lua code runs, while that tensor lives. */
  const void *(*read)(lua_State *L, const char *who, int i, Type *t);
  /* The same on the tensor's own device, t->device, where they lie; and for elements that the caller writes, all of them, of a
  ** tensor that nobody else knows. */
  const void *(*place)(lua_State *L, const char *who, int i, Type *t);
  void *(*fill)(lua_State *L, const char *who, int i, Type *t);
  const Device *(*device)(int number);
  /* For calls that are made at once: the run that the last of these filled, and how to ask for an end of it. */
  CallRun (*run)(lua_State *L);
  /* How many calls (ir/call.h) the capture in progress has; -1: there is none. */
  int (*calls)(lua_State *L);
  /* Pushes the result of a call in this capture: a tensor of type t, or over what the tensor at index `base` holds; x: of
  ** what it is given. 0: nothing. Raises. */
  void (*call)(lua_State *L, const char *who, int number, const Type *t, int base, int x);
  /* The type of the tensor at index i, whose elements are not looked at. Raises when it is none. */
  const Type *(*type)(lua_State *L, const char *who, int i);
  i32 (*add_call)(const AsyncCall *c); /* ty_call_register */
} Seam;

#endif
