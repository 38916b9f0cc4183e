/*
** lua_view.h -- what the files about views, indexing and selection share.
** A View is a tensor's dims, offset and strides while they are being changed; nothing is held until it
** is pushed. Out: tensors on the stack. Errors raise.
*/
#ifndef TY_LUA_VIEW_H
#define TY_LUA_VIEW_H

#include "lua/lua_tycho.h"

typedef struct View {
  Type t;
  i64 offset; /* in the storage, as a Tensor's */
  i64 strides[MAX_RANK];
} View;

/* --- lua_view_base.c */
View ty_lua_view_of(const Tensor *x);
void ty_lua_view_drop(View *v, int d); /* dim d goes */
void ty_lua_view_insert(View *v, int d, i64 size,
                        i64 stride); /* a dim before dim d; rank < MAX_RANK */
Tensor *ty_lua_view_push(lua_State *L, const Tensor *x, const View *v);

/* Pushes x seen with dims t: a view where strides allow it, else a copy. */
Tensor *ty_lua_view_reshape(lua_State *L, State *S, const Tensor *x, const Type *t);

/* The text f32[2,3] of x, on the Lua stack. */
const char *ty_lua_view_text(lua_State *L, const Type *t);

/* --- lua_index.c, lua_select.c */

/* Argument i as index tensor: an integer tensor as it is; numbers and tables of numbers become i64 (pushed).
** Anything else raises with a hint. */
const Tensor *ty_lua_view_indices(lua_State *L, State *S, const char *who, int i, int device);

/* Pushes a tensor of the dtype from nested tables of numbers or booleans at index i; ragged tables and fractions
** in integers raise. AS_PLACES for the dtype: i64 of numbers, bool of booleans, and both in one table raise. */
#define AS_PLACES (-1)
Tensor *ty_lua_view_table(lua_State *L, State *S, const char *who, int i, int dtype, int device);

/* Raises when the call of the core fails, after a second try where memory was short. */
#define TY_LUA_MUST(L, S, call) \
  do { \
    if (TY_UNLIKELY(!TY_LUA_TRY(L, S, call))) ty_lua_fail(L, S); \
  } while (0)

/* Whether the element is not zero; NaN is not zero. */
static inline bool ty_elem_true(int dtype, const void *p) {
  return ty_dtypes[dtype].bytes == 1 ? *(const u8 *)p != 0 : ty_elem_load(dtype, p) != 0;
}

/* x:slice(dim, a, b, step): the range of one dim, by the rules of indexing. */
int ty_lua_view_slice(lua_State *L);

/* Pushes the row-major positions from 1 where a mask holds: i64 [count], on that device. Computes the mask. */
const Tensor *ty_lua_select_places(lua_State *L, State *S, const Tensor *mask, u8 device);

#endif
