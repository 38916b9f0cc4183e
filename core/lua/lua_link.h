/*
** lua_link.h -- results that wait for the function that pick answers with, and what goes on in the middle of a function.
*/
#ifndef TY_LUA_LINK_H
#define TY_LUA_LINK_H

#include <lua.h>
#include "engine/entry.h"
#include "lua/lua_tycho.h"

/* Takes n values from the top of the stack, which wait for the function that hands them out. */
void ty_lua_stash(lua_State *L, struct Compiled *C, i32 n, int stash);
/* Pushes that function; the stash is on top of the stack. */
void ty_lua_push_hand_out(lua_State *L);
/* The same for what goes on in the middle of the function at 1, and what that shares (2 values); what is at 2 is called
** when that is something else. */
void ty_lua_push_hand_on(lua_State *L);

/* Whether the globals and variables of the function at index f are still those that `shared`, of ty_lua_push_hand_on, knows. */
bool ty_lua_is_shared(lua_State *L, int f, const void *shared);

/* Instructions between two parts, and their operands, by the names that Lua gives them. Registers count from 1,
** instructions from 0.
**   call      a: the function's register; args: that of its first argument; then numbers of arguments and results
**   one       the same where it must give one result
**   index     a: the result's register; args, nargs: those of two tensors, of which the second says what is read
**   for       a: the loop's first register; other: the instruction behind the loop
**   move      a, args: registers, to and from
**   constant  a: a register; args: the number of its value
**   exit      a: the number of the exit; nargs: registers that the part behind it is given
**   return    a, nargs: the registers that the function gives; -1: what the reader gave
**   native    what else is there; nothing has changed up to there
**   walk      of a loop over ipairs(t); a: the first value's register, behind those of what walks, t and the last key;
**             args: the number of what walks; nresults; other: the instruction behind the loop */
/* clang-format off */
#define LINK_OPS(_) \
  _(CALL, "call") _(ONE, "one") _(INDEX, "index") _(FOR, "for") _(MOVE, "move") _(CONSTANT, "constant") _(EXIT, "exit") \
  _(RETURN, "return") _(NATIVE, "native") _(WALK, "walk")
/* clang-format on */
#define LINK_OPERANDS(_) _(next) _(a) _(other) _(args) _(nargs) _(nresults)

typedef enum {
#define _(NAME, name) LINK_##NAME,
  LINK_OPS(_)
#undef _
} LinkOp;
typedef struct LinkStep {
  i32 op;
#define _(name) i32 name;
  LINK_OPERANDS(_)
#undef _
} LinkStep;

/* Places in a link's environment: the whole function and what its parts share, the reader, what runs all of the
** instructions in Lua; for each exit its part where there is one, and what goes on there in Lua. At -k the k-th constant. */
enum { AT_FUNCTION = 1, AT_SHARED, AT_READER, AT_NATIVE };
static inline int ty_link_part_at(i32 exit) { return AT_NATIVE + 2 * exit - 1; }
static inline int ty_link_resume_at(i32 exit) { return AT_NATIVE + 2 * exit; }

typedef struct Link {
  i32 width;    /* registers in use */
  bool carries; /* the last value that it is given lies in the last register, too */
  const LinkStep *walk;
  LinkStep step[];
} Link;

/* On top of the stack lie a link and n registers. Goes from part to part, and gives what pick answers: so many values. */
int ty_link_follow(lua_State *L, State *S, int n, int stash, int hand_out);
int ty_lua_link(lua_State *L);
int ty_lua_link_exit(lua_State *L);
int ty_lua_unlink(lua_State *L);

#endif
