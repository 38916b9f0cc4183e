/*
** lua_tycho.h -- what the files of the Lua binding share.
** Lua 5.1's C API only. Rules: core functions answer false and leave a message in S->err; the binding
** raises it with ty_lua_fail when nothing is held or half built. A tensor userdata is pushed (with a NULL
** storage) before the core fills it, so that errors leak nothing.
*/
#ifndef TY_LUA_TYCHO_H
#define TY_LUA_TYCHO_H

#include <lua.h>
#include <lauxlib.h>
#include "engine.h"
#include "tensor.h"

/* Every C function of ours is a closure whose upvalue 1 is the State's userdata and upvalue 2 the tensors'
** metatable. ty_lua_enter polls Ctrl-C and says whether the lazy mode of this coroutine still holds (entry.c):
** the first call of every C function that records, demands or asks. */
State *ty_lua_enter(lua_State *L);
static inline State *ty_lua_state(lua_State *L) { return (State *)lua_touserdata(L, lua_upvalueindex(1)); }

/* Registers functions {name, fn} as such closures in the table on top of the stack. */
void ty_lua_register(lua_State *L, const luaL_Reg *fns);

/* Raises S->err (or the text) at the user's file:line. The text starts with the function's name, as in
** "matmul: inner sizes differ, f32[2,3] x f32[4,5]". Position: the nearest Lua function that is not Tycho's own. */
int ty_lua_fail(lua_State *L, State *S);
int ty_lua_error(lua_State *L, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Tensors on the stack. push: a new userdata with __gc and no storage yet; also lets the host's collector work off
** the debt of bytes. test: NULL when not a tensor. check: raises "who: argument i must be a tensor, got string"
** or "who: tensor was released". */
Tensor *ty_lua_push(lua_State *L);
Tensor *ty_lua_test(lua_State *L, int i);
Tensor *ty_lua_check(lua_State *L, const char *who, int i);
/* A tensor, number or boolean as operand. */
Given ty_lua_given(lua_State *L, const char *who, int i);

/* Arguments. All raise with the function's name, the argument, and what was given. */
i64 ty_lua_int(lua_State *L, const char *who, int i, const char *what);       /* a whole number */
double ty_lua_number(lua_State *L, const char *who, int i, const char *what);
int ty_lua_dtype(lua_State *L, const char *who, int i);                        /* a dtype's name */
/* A dim, 1-based or negative from the end, to 0-based. nil gives def (0-based) unless def < 0, then it raises. */
int ty_lua_dim(lua_State *L, const char *who, int i, int rank, int def);
/* nil or none: 0. A number or a table of dims, each once: bit set of 0-based dims. An empty table raises. */
u32 ty_lua_dims(lua_State *L, const char *who, int i, int rank);
/* Sizes by position or as one table, from argument i on; an options table (any string key) may follow. Returns the
** index of the options table or 0. */
int ty_lua_sizes(lua_State *L, const char *who, int i, Type *t);
/* Options: {dtype =, device =, requires_grad =} of the table at index opts (0: none). dtype stays when absent.
** Unknown keys raise with the known ones listed in `known` ("dtype device"). */
void ty_lua_options(lua_State *L, const char *who, int opts, Type *t, const char *known);

/* Groups of functions, each in a file of its own: fills the module table (m) and the methods table (t), both given as
** absolute stack indices. */
void ty_lua_open_ops(lua_State *L, int m, int t);     /* lua_ops.c: rows of the table, operators, reductions */
void ty_lua_open_tensor(lua_State *L, int m, int t);  /* lua_tensor.c: creation, leaving, copies, lifetime */
void ty_lua_open_view(lua_State *L, int m, int t);    /* lua_view.c: views, indexing, assignment */
void ty_lua_open_print(lua_State *L, int m, int t);   /* lua_print.c: tostring */
void ty_lua_open_select(lua_State *L, int m, int t);  /* lua_select.c: results whose shape depends on data; sorting */
void ty_lua_open_random(lua_State *L, int m, int t);  /* lua_random.c */
void ty_lua_open_linalg(lua_State *L, int m, int t);  /* lua_linalg.c: ty.linalg by LAPACK */
void ty_lua_open_compile(lua_State *L, int m, int t); /* lua_compile.c: compile, explain, graph, stats */

#endif
