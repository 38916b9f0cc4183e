/*
** lua_calc.h -- short calculations that functions of the binding are made of (arange, rand ...).
** In: a tensor that is held in C. Out: the same variable with the result, its old value let go.
** Everything answers false after a failure, S->err is set, and the variable may then be empty; so
** calls are chained by && and nothing leaks. Nothing raises.
*/
#ifndef TY_LUA_CALC_H
#define TY_LUA_CALC_H

#include "lua/lua_tycho.h"

/* *x = y, which the caller gives away. */
static inline bool ty_calc_put(Tensor *x, Tensor *y) {
  ty_tensor_release(x);
  *x = *y;
  return true;
}

/* x = op(x) */
static inline bool ty_calc_map(State *S, const char *who, int op, Tensor *x) {
  Given src = {.kind = O_TENSOR, .t = x};
  Tensor y = {0};
  return ty_record(S, who, op, 1, &src, &y) && ty_calc_put(x, &y);
}

/* x = op(x, v) */
static inline bool ty_calc_number(State *S, const char *who, int op, Tensor *x, double v) {
  Given src[2] = {{.kind = O_TENSOR, .t = x}, {.kind = O_NUMBER, .v = v}};
  Tensor y = {0};
  return ty_record(S, who, op, 2, src, &y) && ty_calc_put(x, &y);
}

/* x = op(v, x) */
static inline bool ty_calc_from(State *S, const char *who, int op, double v, Tensor *x) {
  Given src[2] = {{.kind = O_NUMBER, .v = v}, {.kind = O_TENSOR, .t = x}};
  Tensor y = {0};
  return ty_record(S, who, op, 2, src, &y) && ty_calc_put(x, &y);
}

/* x = op(x, b) */
static inline bool ty_calc_tensor(State *S, const char *who, int op, Tensor *x, const Tensor *b) {
  Given src[2] = {{.kind = O_TENSOR, .t = x}, {.kind = O_TENSOR, .t = b}};
  Tensor y = {0};
  return ty_record(S, who, op, 2, src, &y) && ty_calc_put(x, &y);
}

static inline bool ty_calc_cast(State *S, Tensor *x, int dtype) {
  Tensor y = {0};
  return x->type.dtype == dtype || (ty_record_cast(S, x, dtype, &y) && ty_calc_put(x, &y));
}

/* Outside of lazy mode a calculation without tensor operands may be one kernel: open, record,
** close. open gives NULL when there is nothing to close. Fewer than 60 nodes. close computes y;
** after a failure of either y is empty. */
static inline Recording *ty_calc_open(State *S) {
  return S->open ? NULL : (S->open = ty_recording_new(S));
}

static inline bool ty_calc_close(State *S, Recording *b, bool ok, Tensor *y) {
  if (b) {
    S->open = NULL;
    ok = ok && S->cut(S, b, y->st);
    ty_recording_drop(S, b);
  }
  if (!ok) ty_tensor_release(y);
  return ok;
}

#endif
