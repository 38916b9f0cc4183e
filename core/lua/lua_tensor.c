/*
** lua_tensor.c -- tensors from Lua values and back; creation, copies, sizes.
** In: numbers, nested tables, sizes, foreign memory. Out: tensors; or numbers, booleans and tables.
** Raises on ragged or mixed data (with the path), on values that their dtype cannot hold, on
** indices out of range, when out of memory.
** Ranges and the like are recorded as operations, not filled in here, so that compiled functions
** make them anew.
*/
#include <math.h>
#include "engine/remade.h"
#include "lua/lua_calc.h"
#include "lua/lua_view.h"
#include "record/capture.h"
#include "record/complex.h"

#define SHOWN 160

/* --- from tables */

/* Nested tables on their way into a tensor. */
typedef struct NestedData {
  const char *who;
  Type t;
  char *to;           /* the next element */
  i64 path[MAX_RANK]; /* where the walk stands, 1-based */
} NestedData;

/* The path to an entry at depth d, as in [2][1]. */
static const char *path_text(lua_State *L, const NestedData *n, int d) {
  char text[MAX_RANK * 24] = "";
  for (int i = 0, at = 0; i <= d; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "[%lld]", (long long)n->path[i]);
  lua_pushstring(L, text);
  return lua_tostring(L, -1);
}

/* Sizes from the first entries of the value on top of the stack; dtype by its first number or
 * boolean. */
static void nest_measure(lua_State *L, NestedData *n, int default_dtype) {
  int top = lua_gettop(L);
  while (lua_istable(L, -1)) {
    if (n->t.rank == MAX_RANK) ty_lua_error(L, "%s: at most %d dims", n->who, MAX_RANK);
    if (ty_lua_is_options(L, lua_gettop(L)))
      ty_lua_error(L, "%s: data must be a list; options go into a table of their own", n->who);
    i64 size = (i64)lua_objlen(L, -1);
    n->t.dims[n->t.rank++] = size;
    if (size == 0) break;
    luaL_checkstack(L, MAX_RANK + 8, n->who);
    lua_rawgeti(L, -1, 1);
  }
  if (n->t.dtype == T_ALL) n->t.dtype = (u8)(lua_isboolean(L, -1) ? T_BOOL : default_dtype);
  lua_settop(L, top);
}

/* Stores the leaf on top of the stack, which lies at depth d - 1. */
static void nest_leaf(lua_State *L, NestedData *n, bool booleans, int d) {
  int type = lua_type(L, -1), dtype = n->t.dtype;
  if (type != (booleans ? LUA_TBOOLEAN : LUA_TNUMBER)) {
    const char *path = d ? path_text(L, n, d - 1) : "data";
    const char *got = ty_lua_show(L, d ? -2 : -1);
    if (type == LUA_TBOOLEAN || type == LUA_TNUMBER)
      ty_lua_error(L, "%s: mixed data, %s is %s among %s", n->who, path, got,
                   booleans ? "booleans" : "numbers");
    ty_lua_error(L, "%s: ragged data, %s is %s where a %s was expected", n->who, path, got,
                 booleans ? "boolean" : "number");
  }
  double v = booleans ? lua_toboolean(L, -1) : lua_tonumber(L, -1);
  float f = (float)v; /* exact, so the thread's rounding and flushing left it alone */
  if (dtype == T_F32 && (double)f == v && fabs(v) >= 0x1p-126) {
    memcpy(n->to, &f, 4);
  } else {
    ty_elem_store(dtype, n->to, dtype == T_BOOL ? v != 0 : v);
    if (ty_is_int(dtype) && ty_elem_load(dtype, n->to) != v)
      ty_lua_error(L, "%s: %.17g%s%s does not fit %s", n->who, v, d ? " at " : "",
                   d ? path_text(L, n, d - 1) : "", ty_dtypes[dtype].name);
  }
  n->to += ty_dtypes[dtype].bytes;
}

/* Stores the value on top of the stack, which stands for dims d and on. Allocates nothing: the
** address to write to stays good. */
static void nest_fill(lua_State *L, NestedData *n, bool booleans, int d) {
  if (d == n->t.rank) {
    nest_leaf(L, n, booleans, d);
    return;
  }
  i64 size = lua_istable(L, -1) ? (i64)lua_objlen(L, -1) : -1;
  if (size != n->t.dims[d]) {
    const char *path = d ? path_text(L, n, d - 1) : "data";
    if (size < 0)
      ty_lua_error(L, "%s: ragged data, %s is %s where a table of %lld was expected", n->who, path,
                   ty_lua_show(L, d ? -2 : -1), (long long)n->t.dims[d]);
    ty_lua_error(L, "%s: ragged data, %s has %lld elements where %lld were expected", n->who, path,
                 (long long)size, (long long)n->t.dims[d]);
  }
  for (i64 i = 1; i <= size; i++) {
    n->path[d] = i;
    lua_rawgeti(L, -1, (int)i);
    nest_fill(L, n, booleans, d + 1);
    lua_pop(L, 1);
  }
}

/* Whether the first leaf of the value on top of the stack is a boolean. */
static bool nest_has_booleans(lua_State *L) {
  int top = lua_gettop(L);
  while (lua_istable(L, -1) && lua_objlen(L, -1) > 0) lua_rawgeti(L, -1, 1);
  bool yes = lua_isboolean(L, -1);
  lua_settop(L, top);
  return yes;
}

/* Numbers are the real parts of complex ones. */
static Tensor *nested_real(lua_State *L, State *S, const char *who, int i, int dtype) {
  NestedData n = {.who = who, .t = {.dtype = (u8)(dtype < 0 ? T_ALL : dtype)}};
  lua_pushvalue(L, i);
  nest_measure(L, &n, S->default_dtype);
  bool booleans = nest_has_booleans(L);
  if (!ty_type_fits(&n.t)) ty_lua_error(L, "%s: data is too large", who);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, y, &n.t, NULL));
  lua_insert(L, -2);
  n.to = ty_tensor_write(S, y);
  nest_fill(L, &n, booleans, 0);
  lua_pop(L, 1);
  return y;
}

Tensor *ty_lua_nested(lua_State *L, State *S, const char *who, int i, int dtype) {
  Tensor *x = nested_real(L, S, who, i, dtype < 0 ? dtype : ty_dtype_part(dtype));
  if (dtype < 0 || !ty_is_complex(dtype)) return x;
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_cast(S, x, dtype, y));
  lua_remove(L, -2);
  return y;
}

/* Argument i, a number or a boolean; its number. */
static double plain_value(lua_State *L, const char *who, int i) {
  if (lua_isboolean(L, i)) return lua_toboolean(L, i);
  return ty_lua_number(L, who, i, "value");
}

static Given fill_value(lua_State *L, const char *who, int i) {
  plain_value(L, who, i);
  return ty_lua_operand(L, who, i);
}

static int push_full(lua_State *L, State *S, const char *who, const Type *t, const Given *x) {
  if (!ty_elem_fits(t->dtype, x->v))
    return ty_lua_error(L, "%s: %.17g does not fit %s", who, x->v, ty_dtypes[t->dtype].name);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_number(S, t, x, y));
  return ty_lua_created(L, who);
}

/* tensor(data, opts) */
static int l_tensor(lua_State *L) {
  const char *who = "tensor";
  State *S = ty_lua_enter(L);
  int type = lua_type(L, 1);
  const Tensor *from = ty_lua_test(L, 1);
  Type t = {.dtype = T_ALL, .device = from ? from->type.device : S->default_device};
  ty_lua_binding(L)->leaf = false;
  if (!lua_isnoneornil(L, 2)) {
    t.dtype = T_BOOL; /* stays when the options name no dtype: no dtype, then */
    ty_lua_options(L, who, 2, &t, TY_LUA_CREATION);
    lua_getfield(L, 2, "dtype");
    if (lua_isnil(L, -1)) t.dtype = T_ALL;
  }
  int dtype = t.dtype == T_ALL ? -1 : t.dtype;
  if (ty_lua_test(L, 1)) {
    Tensor *x = ty_lua_check(L, who, 1), *y = ty_lua_push(L);
    if (t.device != x->type.device) {
      Tensor *cast = y;
      TY_LUA_MUST(L, S, ty_record_cast(S, x, dtype < 0 ? x->type.dtype : dtype, cast));
      y = ty_lua_push(L);
      TY_LUA_MUST(L, S, ty_record_to(S, cast, t.device, y));
    } else if (dtype < 0 || dtype == x->type.dtype) TY_LUA_MUST(L, S, ty_record_copy(S, x, y));
    else TY_LUA_MUST(L, S, ty_record_cast(S, x, dtype, y));
    return ty_lua_created(L, who);
  }
  if (type != LUA_TTABLE && type != LUA_TNUMBER && type != LUA_TBOOLEAN)
    return ty_lua_error(L, "%s: data must be a table, a number or a boolean, got %s", who,
                        ty_lua_show(L, 1));
  if (dtype < 0) t.dtype = S->default_dtype;
  if (S->capture && type == LUA_TNUMBER && t.dtype != T_BOOL) { /* one of later calls, perhaps */
    Given x = ty_lua_operand(L, who, 1);
    return push_full(L, S, who, &t, &x);
  }
  const Tensor *y = ty_lua_nested(L, S, who, 1, dtype);
  if (t.device) { /* the elements lie there from the beginning: no plan moves them */
    Type there = y->type;
    there.device = t.device;
    Tensor *own = ty_lua_push(L);
    TY_LUA_MUST(L, S, ty_tensor_from(S, own, &there, ty_tensor_bits(S, y)));
  }
  return ty_lua_created(L, who);
}

/* --- foreign memory */

typedef struct Anchor {
  Binding *B;
  int ref; /* of what keeps the memory alive, in the registry */
} Anchor;

static void anchor_drop(void *ctx) {
  Anchor *a = ctx;
  luaL_unref(a->B->L, LUA_REGISTRYINDEX, a->ref);
  ty_mem_free(a);
}

/* from_address(address, sizes, dtype, anchor); address: a light userdata or a number. */
static int l_from_address(lua_State *L) {
  const char *who = "from_ptr";
  State *S = ty_lua_enter(L);
  void *p = lua_touserdata(L, 1);
  Type t = {.dtype = S->default_dtype}; /* memory with an address is the CPU's */
  if (lua_type(L, 1) == LUA_TNUMBER) p = (void *)(uintptr_t)lua_tonumber(L, 1);
  else if (!lua_islightuserdata(L, 1))
    return ty_lua_error(L, "%s: argument 1 must be a pointer, got %s", who, ty_lua_show(L, 1));
  if (!lua_isnoneornil(L, 3)) t.dtype = (u8)ty_lua_dtype(L, who, 3);
  ty_lua_shape(L, who, 2, &t);
  if (!p) return ty_lua_error(L, "%s: the pointer is NULL", who);
  if ((uintptr_t)p % ty_dtypes[ty_dtype_part(t.dtype)].bytes)
    return ty_lua_error(L, "%s: the pointer is not aligned for %s", who, ty_dtypes[t.dtype].name);
  lua_settop(L, 4);
  Tensor *y = ty_lua_push(L);
  lua_insert(L, 4);
  int ref = luaL_ref(L, LUA_REGISTRYINDEX);
  Anchor *a = ty_mem_alloc(sizeof *a);
  if (a) *a = (Anchor){ty_lua_binding(L), ref};
  bool ok = a ? ty_tensor_foreign(S, y, &t, p, (Owner){anchor_drop, a}) : ty_fail_memory(S, who, 0);
  if (!ok) {
    luaL_unref(L, LUA_REGISTRYINDEX, ref);
    ty_mem_free(a);
    return ty_lua_fail(L, S);
  }
  return 1;
}

/* address(x): where the first element lies, for ever; as a number (exact: 53 bits are enough), or
** with a second argument as a light userdata. Also the dtype. */
static int l_address(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "data", 1);
  void *p = ty_tensor_expose(S, x);
  if (!p && ty_lua_reclaim(L, S)) p = ty_tensor_expose(S, x);
  if (!p) return ty_lua_fail(L, S);
  if (lua_toboolean(L, 2)) lua_pushlightuserdata(L, p);
  else lua_pushnumber(L, (lua_Number)(uintptr_t)p);
  lua_pushstring(L, ty_dtypes[x->type.dtype].name);
  return 2;
}

/* --- one value in every element */

static int filled(lua_State *L, const char *who, double v) {
  State *S = ty_lua_enter(L);
  Type t = {.dtype = S->default_dtype, .device = S->default_device};
  ty_lua_options(L, who, ty_lua_sizes(L, who, 1, &t), &t, TY_LUA_CREATION);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_full(S, &t, v, y));
  return ty_lua_created(L, who);
}

static int l_zeros(lua_State *L) { return filled(L, "zeros", 0); }
static int l_ones(lua_State *L) { return filled(L, "ones", 1); }

static int l_empty(lua_State *L) {
  State *S = ty_lua_enter(L);
  Type t = {.dtype = S->default_dtype, .device = S->default_device};
  ty_lua_options(L, "empty", ty_lua_sizes(L, "empty", 1, &t), &t, TY_LUA_CREATION);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_empty(S, &t, y));
  return ty_lua_created(L, "empty");
}

static int l_full(lua_State *L) {
  State *S = ty_lua_enter(L);
  Type t = {.dtype = lua_isboolean(L, 2) ? T_BOOL : S->default_dtype, .device = S->default_device};
  ty_lua_shape(L, "full", 1, &t);
  Given x = fill_value(L, "full", 2);
  ty_lua_options(L, "full", 3, &t, TY_LUA_CREATION);
  return push_full(L, S, "full", &t, &x);
}

static int l_full_like(lua_State *L) {
  State *S = ty_lua_enter(L);
  Type t = ty_lua_check(L, "full_like", 1)->type;
  Given x = fill_value(L, "full_like", 2);
  ty_lua_options(L, "full_like", 3, &t, TY_LUA_CREATION);
  return push_full(L, S, "full_like", &t, &x);
}

static int filled_like(lua_State *L, const char *who, double v) {
  State *S = ty_lua_enter(L);
  Type t = ty_lua_check(L, who, 1)->type;
  ty_lua_options(L, who, 2, &t, TY_LUA_CREATION);
  return push_full(L, S, who, &t, &(Given){.kind = O_NUMBER, .v = v});
}

static int l_zeros_like(lua_State *L) { return filled_like(L, "zeros_like", 0); }
static int l_ones_like(lua_State *L) { return filled_like(L, "ones_like", 1); }

static int l_empty_like(lua_State *L) {
  State *S = ty_lua_enter(L);
  Type t = ty_lua_check(L, "empty_like", 1)->type;
  ty_lua_options(L, "empty_like", 2, &t, TY_LUA_CREATION);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_empty(S, &t, y));
  return ty_lua_created(L, "empty");
}

/* fill_(x, v) */
static int l_fill_in_place(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "fill_", 1);
  Given v = ty_lua_operand(L, "fill_", 2);
  TY_LUA_MUST(L, S, ty_record_assign(S, "fill_", x, &v));
  lua_settop(L, 1);
  return 1;
}

static int l_zero_in_place(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "zero_", 1);
  Given v = {.kind = O_NUMBER, .v = 0};
  TY_LUA_MUST(L, S, ty_record_assign(S, "zero_", x, &v));
  lua_settop(L, 1);
  return 1;
}

/* copy_(x, y) */
static int l_copy_in_place(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "copy_", 1);
  Given y = ty_lua_operand(L, "copy_", 2);
  TY_LUA_MUST(L, S, ty_remade_assign(S, "copy_", x, &y));
  lua_settop(L, 1);
  return 1;
}

/* --- ranges */

/* y = start + i * step for i from 0, of t's dims and dtype; integers exactly, floats by way of f64.
 */
static bool record_series(State *S, const char *who, const Type *t, double start, double step,
                          Tensor *y) {
  int dtype = ty_is_int(t->dtype) || t->dtype == T_BOOL ? T_I64 : T_F64;
  Recording *b = ty_calc_open(S);
  bool ok = ty_record_iota(S, t, y) && ty_calc_cast(S, y, dtype) &&
            (step == 1 || ty_calc_number(S, who, OP_MUL, y, step)) &&
            (start == 0 || ty_calc_number(S, who, OP_ADD, y, start)) &&
            ty_calc_cast(S, y, t->dtype);
  return ty_calc_close(S, b, ok, y);
}

/* Numbers at the front of the arguments, at most 3, then options; all finite. */
static int series_arguments(lua_State *L, const char *who, double *v, Type *t) {
  static const char *const names[] = {"start", "stop", "step"};
  int n = 0;
  while (n < 3 && lua_type(L, n + 1) == LUA_TNUMBER) {
    v[n] = ty_lua_number(L, who, n + 1, names[n]);
    if (!isfinite(v[n]))
      ty_lua_error(L, "%s: argument %d must be finite, got %.17g", who, n + 1, v[n]);
    n++;
  }
  if (n == 0) ty_lua_number(L, who, 1, "stop");
  ty_lua_options(L, who, n + 1, t, TY_LUA_CREATION);
  if (n == 3 && v[2] == 0) ty_lua_error(L, "%s: the step is 0", who);
  return n;
}

/* arange(stop), arange(start, stop, step): half-open; range: the same with the stop and from 1. */
static int series(lua_State *L, const char *who, bool inclusive) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Type t = {.dtype = S->default_dtype, .device = S->default_device, .rank = 1};
  double v[3];
  int n = series_arguments(L, who, v, &t);
  double start = n == 1 ? inclusive : v[0], stop = n == 1 ? v[0] : v[1], step = n == 3 ? v[2] : 1;
  double count = (stop - start) / step;
  count = inclusive ? floor(count) + 1 : ceil(count);
  t.dims[0] = count < 0 ? 0 : count < 1e18 ? (i64)count : (i64)1e18;
  if (!ty_type_fits(&t)) return ty_lua_error(L, "%s: %.17g elements are too many", who, count);
  if (ty_is_int(t.dtype) && (floor(start) != start || floor(step) != step))
    return ty_lua_error(L, "%s: start %.17g and step %.17g must be whole for %s", who, start, step,
                        ty_dtypes[t.dtype].name);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, record_series(S, who, &t, start, step, y));
  return ty_lua_created(L, who);
}

static int l_arange(lua_State *L) { return series(L, "arange", false); }
static int l_range(lua_State *L) { return series(L, "range", true); }

/* n numbers from a to b, both exact: the first half counts up from a, the second down from b. */
static bool record_linspace(State *S, const Type *t, double a, double b, Tensor *y) {
  const char *who = "linspace";
  i64 n = t->dims[0];
  double step = n > 1 ? (b - a) / (double)(n - 1) : 0;
  Tensor up = {0}, down = {0}, low = {0};
  Recording *recording = ty_calc_open(S);
  bool ok = ty_record_iota(S, t, &up) && ty_record_iota(S, t, &down) && ty_record_iota(S, t, &low);
  ok = ok && ty_calc_number(S, who, OP_LT, &low, (double)((n + 1) / 2));
  ok = ok && ty_calc_cast(S, &up, T_F64) && ty_calc_number(S, who, OP_MUL, &up, step) &&
       ty_calc_number(S, who, OP_ADD, &up, a);
  ok = ok && ty_calc_from(S, who, OP_SUB, (double)(n - 1), &down) &&
       ty_calc_cast(S, &down, T_F64) && ty_calc_number(S, who, OP_MUL, &down, step) &&
       ty_calc_from(S, who, OP_SUB, b, &down);
  Given src[3] = {{.t = &low}, {.t = &up}, {.t = &down}};
  ok = ok && ty_record(S, who, OP_WHERE, 3, src, y) && ty_calc_cast(S, y, t->dtype);
  ty_tensor_release(&up);
  ty_tensor_release(&down);
  ty_tensor_release(&low);
  return ty_calc_close(S, recording, ok, y);
}

/* linspace(a, b, n) */
static int l_linspace(lua_State *L) {
  const char *who = "linspace";
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Type t = {.dtype = S->default_dtype, .device = S->default_device, .rank = 1};
  double a = ty_lua_number(L, who, 1, "start"), b = ty_lua_number(L, who, 2, "stop");
  t.dims[0] = ty_lua_int(L, who, 3, "count");
  if (t.dims[0] < 0) return ty_lua_error(L, "%s: the count is negative", who);
  ty_lua_options(L, who, 4, &t, TY_LUA_CREATION);
  if (!ty_is_float(t.dtype) && !ty_is_complex(t.dtype))
    return ty_lua_error(L, "%s: dtype must be a float, got %s", who, ty_dtypes[t.dtype].name);
  if (!ty_type_fits(&t)) return ty_lua_error(L, "%s: too many elements", who);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, record_linspace(S, &t, a, b, y));
  return ty_lua_created(L, who);
}

static bool record_eye(State *S, const Type *t, Tensor *y) {
  Type rows = {.rank = 2, .device = t->device, .dims = {t->dims[0], 1}}, columns = rows;
  columns.dims[0] = 1, columns.dims[1] = t->dims[1];
  Tensor column = {0};
  Recording *b = ty_calc_open(S);
  bool ok = ty_record_iota(S, &rows, y) && ty_record_iota(S, &columns, &column) &&
            ty_calc_tensor(S, "eye", OP_EQ, y, &column) && ty_calc_cast(S, y, t->dtype);
  ty_tensor_release(&column);
  return ty_calc_close(S, b, ok, y);
}

/* eye(n, m = n) */
static int l_eye(lua_State *L) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, "eye");
  Type t = {.dtype = S->default_dtype, .device = S->default_device};
  ty_lua_options(L, "eye", ty_lua_sizes(L, "eye", 1, &t), &t, TY_LUA_CREATION);
  if (t.rank == 1) t.dims[t.rank++] = t.dims[0];
  if (t.rank != 2) return ty_lua_error(L, "eye: one or two sizes, got %d", t.rank);
  if (!ty_type_fits(&t)) return ty_lua_error(L, "eye: too many elements");
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, record_eye(S, &t, y));
  return ty_lua_created(L, "eye");
}

/* --- leaving */

/* Pushes one element as a Lua value. */
static void push_element(lua_State *L, const char *who, int dtype, const void *p) {
  if (dtype == T_BOOL) {
    lua_pushboolean(L, *(const u8 *)p);
  } else if (dtype == T_I64) {
    i64 v;
    memcpy(&v, p, 8);
    double d = (double)v;
    if (d >= 9223372036854775808.0 || (i64)d != v)
      ty_lua_error(L, "%s: i64 %lld is not exact as a number of Lua", who, (long long)v);
    lua_pushnumber(L, d);
  } else if (dtype == T_U64) {
    u64 v;
    memcpy(&v, p, 8);
    double d = (double)v;
    if (d >= 18446744073709551616.0 || (u64)d != v)
      ty_lua_error(L, "%s: u64 %llu is not exact as a number of Lua", who, (unsigned long long)v);
    lua_pushnumber(L, d);
  } else {
    lua_pushnumber(L, ty_elem_load(dtype, p));
  }
}

/* Pushes the real and the imaginary part of a complex number. */
static int push_number(lua_State *L, const Tensor *x, const char *p) {
  const int part = x->st->dtype;
  lua_pushnumber(L, ty_elem_load(part, p));
  lua_pushnumber(L, ty_elem_load(part, p + ty_dtypes[part].bytes));
  return 2;
}

static const void *must_bits(lua_State *L, State *S, const Tensor *x) {
  const void *p = ty_tensor_bits(S, x);
  if (!p && ty_lua_reclaim(L, S)) p = ty_tensor_bits(S, x);
  if (!p) ty_lua_fail(L, S);
  return p;
}

static const void *must_read(lua_State *L, State *S, const Tensor *x) {
  const void *p = ty_tensor_read(S, x);
  if (!p && ty_lua_reclaim(L, S)) p = ty_tensor_read(S, x);
  if (!p) ty_lua_fail(L, S);
  return p;
}

static int l_item(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "item", 1);
  if (ty_type_numel(&x->type) != 1)
    return ty_lua_error(L, "item: needs a tensor of one element, got %s",
                        ty_lua_view_text(L, &x->type));
  if (ty_tensor_is_complex(x)) return push_number(L, x, must_bits(L, S, x));
  push_element(L, "item", x->type.dtype, must_read(L, S, x));
  return 1;
}

bool ty_lua_is_item(lua_CFunction fn) { return fn == l_item; }

/* Pushes the part of x from dim d on that begins `offset` elements behind its first. A table is
** made before the address is asked for: a collection may write to x in finalisers. */
static void push_part(lua_State *L, State *S, const Tensor *x, int d, i64 offset) {
  i64 n = x->type.dims[d], step = x->strides[d];
  int dtype = x->type.dtype, bytes = ty_dtypes[dtype].bytes;
  if (n > INT32_MAX) ty_lua_error(L, "totable: a dim of %lld is too large", (long long)n);
  luaL_checkstack(L, 4, "totable");
  lua_createtable(L, (int)n, 0);
  const char *p = d == x->type.rank - 1 && n ? must_read(L, S, x) : NULL;
  for (i64 i = 0; i < n; i++, offset += step) {
    if (p) push_element(L, "totable", dtype, p + offset * bytes);
    else push_part(L, S, x, d + 1, offset);
    lua_rawseti(L, -2, (int)i + 1);
  }
}

static int l_totable(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_complex_reals(L, S, "totable", ty_lua_check(L, "totable", 1));
  if (x->type.rank == 0) push_element(L, "totable", x->type.dtype, must_read(L, S, x));
  else push_part(L, S, x, 0, 0);
  return 1;
}

/* The element that arguments 2.. name, as an offset from the first. */
static i64 element_offset(lua_State *L, const char *who, const Tensor *x, int count) {
  i64 offset = 0;
  if (count != x->type.rank)
    ty_lua_error(L, "%s: needs %d indices for %s, got %d", who, x->type.rank,
                 ty_lua_view_text(L, &x->type), count);
  for (int d = 0; d < count; d++) {
    double v = lua_tonumber(L, d + 2);
    i64 n = x->type.dims[d];
    if (lua_type(L, d + 2) != LUA_TNUMBER || floor(v) != v)
      ty_lua_error(L, "%s: index %d must be a whole number, got %s", who, d + 1,
                   ty_lua_show(L, d + 2));
    if (!(v >= 1 && v <= (double)n) && !(v <= -1 && v >= -(double)n))
      ty_lua_error(L, "%s: index %.17g of dim %d is out of range 1..%lld of %s", who, v, d + 1,
                   (long long)n, ty_lua_view_text(L, &x->type));
    offset += (v > 0 ? (i64)v - 1 : (i64)v + n) * x->strides[d];
  }
  return offset;
}

static int l_get(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "get", 1);
  i64 offset = element_offset(L, "get", x, lua_gettop(L) - 1);
  if (ty_tensor_is_complex(x))
    return push_number(L, x,
                       (const char *)must_bits(L, S, x) + offset * ty_dtypes[x->st->dtype].bytes);
  const char *p = must_read(L, S, x);
  push_element(L, "get", x->type.dtype, p + offset * ty_dtypes[x->type.dtype].bytes);
  return 1;
}

/* set(x, i, j, ..., re, im = 0) */
static int set_number(lua_State *L, State *S, const Tensor *x) {
  const int top = lua_gettop(L), values = top - 1 - x->type.rank;
  if (values < 1 || values > 2)
    ty_lua_error(L, "set: needs %d indices for %s, then a real and an imaginary part", x->type.rank,
                 ty_lua_view_text(L, &x->type));
  const i64 offset = element_offset(L, "set", x, x->type.rank);
  const double v[2] = {plain_value(L, "set", top - values + 1),
                       values > 1 ? plain_value(L, "set", top) : 0};
  for (int part = 0; part < 2; part++) {
    Tensor *at = ty_lua_push(L);
    const Type one = {.dtype = x->st->dtype, .device = x->type.device};
    ty_tensor_view(at, x, &one, x->offset + offset + part, NULL);
    TY_LUA_MUST(L, S, ty_record_assign(S, "set", at, &(Given){.kind = O_NUMBER, .v = v[part]}));
  }
  lua_settop(L, 1);
  return 1;
}

static int l_set(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "set", 1);
  int top = lua_gettop(L), dtype = x->type.dtype;
  if (ty_tensor_is_complex(x)) return set_number(L, S, x);
  i64 offset = element_offset(L, "set", x, top - 2);
  if (!lua_isboolean(L, top) && lua_type(L, top) != LUA_TNUMBER)
    return ty_lua_error(L, "set: the value must be a number or a boolean, got %s",
                        ty_lua_show(L, top));
  double v = plain_value(L, "set", top);
  if (!ty_elem_fits(dtype, v))
    return ty_lua_error(L, "set: %.17g does not fit %s", v, ty_dtypes[dtype].name);
  if (TY_UNLIKELY(x->st->tape != NULL ||
                  x->type.device)) { /* a write as others, for the tape's or the device's sake */
    Tensor *at = ty_lua_push(L);
    Type one = {.dtype = (u8)dtype, .device = x->type.device};
    ty_tensor_view(at, x, &one, x->offset + offset, NULL);
    TY_LUA_MUST(L, S, ty_record_assign(S, "set", at, &(Given){.kind = O_NUMBER, .v = v}));
    lua_settop(L, 1);
    return 1;
  }
  char *p = ty_tensor_write(S, x);
  if (!p && ty_lua_reclaim(L, S)) p = ty_tensor_write(S, x);
  if (!p) return ty_lua_fail(L, S);
  ty_elem_store(dtype, p + offset * ty_dtypes[dtype].bytes, v);
  lua_settop(L, 1);
  return 1;
}

/* One step of rows(): upvalues 3 and 4 are the tensor and the last row's number. */
static int rows_next(lua_State *L) {
  ty_lua_works(L, ty_lua_binding(L));
  Tensor *x = ty_lua_check(L, "rows", lua_upvalueindex(3));
  i64 i = (i64)lua_tonumber(L, lua_upvalueindex(4));
  if (i >= x->type.dims[0]) return 0;
  View v = ty_lua_view_of(x);
  v.offset += i * v.strides[0];
  ty_lua_view_drop(&v, 0);
  lua_pushnumber(L, (lua_Number)(i + 1));
  lua_pushvalue(L, -1);
  lua_replace(L, lua_upvalueindex(4));
  ty_lua_view_push(L, x, &v);
  return 2;
}

static int l_rows(lua_State *L) {
  Tensor *x = ty_lua_check(L, "rows", 1);
  if (x->type.rank == 0) return ty_lua_error(L, "rows: a tensor without dims has no rows");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  lua_pushnumber(L, 0);
  lua_pushcclosure(L, rows_next, 4);
  return 1;
}

/* --- copies */

static int l_clone(lua_State *L) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, "clone");
  Tensor *x = ty_lua_check(L, "clone", 1), *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_copy(S, x, y));
  return 1;
}

static int l_contiguous(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "contiguous", 1);
  lua_settop(L, 1);
  TY_LUA_MUST(L, S, ty_capture_decide(S, x, NULL));
  if (ty_tensor_is_contiguous(x)) return 1;
  TY_LUA_ANSWERED(L, S, "contiguous");
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_copy(S, x, y));
  return 1;
}

/* Whether a name is a device's: of one that is there, or that other machines have. */
static bool is_device(const char *name) {
  return ty_device_find(name) >= 0 || !strcmp(name, "cuda") || !strncmp(name, "cuda:", 5);
}

/* to(x, ...): each argument a dtype, a device, a tensor whose dtype and device are meant, or {dtype =, device
 * =}. */
static int l_to(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "to", 1);
  Type t = x->type;
  int top = lua_gettop(L);
  if (top < 2) return ty_lua_error(L, "to: needs a dtype or a device");
  for (int i = 2; i <= top; i++) {
    if (ty_lua_test(L, i)) {
      const Type *like = &ty_lua_check(L, "to", i)->type;
      t.dtype = like->dtype, t.device = like->device;
    } else if (lua_istable(L, i)) {
      ty_lua_options(L, "to", i, &t, "dtype device");
    } else if (lua_type(L, i) == LUA_TSTRING && is_device(lua_tostring(L, i))) {
      const int d = ty_lua_device(L, lua_tostring(L, i));
      if (d < 0) {
        lua_pushnil(L); /* trouble with the world, not with the call */
        lua_pushfstring(L, "to: %s", lua_tostring(L, -2));
        return 2;
      }
      t.device = (u8)d;
    } else {
      t.dtype = (u8)ty_lua_dtype(L, "to", i);
    }
  }
  if (t.dtype == x->type.dtype && t.device == x->type.device) {
    lua_settop(L, 1);
    return 1;
  }
  TY_LUA_ANSWERED(L, S, "to");
  Tensor *y = ty_lua_push(L), *cast = y;
  TY_LUA_MUST(L, S, ty_record_cast(S, x, t.dtype, cast));
  if (t.device == x->type.device) return 1;
  y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_to(S, cast, t.device, y));
  return 1;
}

/* --- sizes */

/* Number of one dim (argument 2), or a table of all. */
static int push_sizes(lua_State *L, const char *who, const Tensor *x, const i64 *of) {
  if (!lua_isnoneornil(L, 2)) {
    lua_pushnumber(L, (lua_Number)of[ty_lua_dim(L, who, 2, x->type.rank, -1)]);
    return 1;
  }
  lua_createtable(L, x->type.rank, 0);
  for (int d = 0; d < x->type.rank; d++) {
    lua_pushnumber(L, (lua_Number)of[d]);
    lua_rawseti(L, -2, d + 1);
  }
  return 1;
}

static int l_size(lua_State *L) {
  const Tensor *x = ty_lua_check(L, "size", 1);
  return push_sizes(L, "size", x, x->type.dims);
}

/* No step is ever made along a dim of size 1, and what tells layouts apart does not ask for it: the
** stride that is told is the one of a contiguous tensor. */
static int l_stride(lua_State *L) {
  const Tensor *x = ty_lua_check(L, "stride", 1);
  i64 told[MAX_RANK], next = 1;
  for (int d = x->type.rank - 1; d >= 0; d--) {
    told[d] = x->type.dims[d] == 1 ? next : x->strides[d] / ty_dtype_width(x->type.dtype);
    next = told[d] * TY_MAX(x->type.dims[d], 1);
  }
  return push_sizes(L, "stride", x, told);
}

static int l_numel(lua_State *L) {
  lua_pushnumber(L, (lua_Number)ty_type_numel(&ty_lua_check(L, "numel", 1)->type));
  return 1;
}

static int l_dim(lua_State *L) {
  lua_pushinteger(L, ty_lua_check(L, "dim", 1)->type.rank);
  return 1;
}

static int l_is_contiguous(lua_State *L) {
  State *S = ty_lua_state(L);
  const Tensor *x = ty_lua_check(L, "is_contiguous", 1);
  TY_LUA_MUST(L, S, ty_capture_decide(S, x, NULL));
  lua_pushboolean(L, ty_tensor_is_contiguous(x));
  return 1;
}

static int l_is_tensor(lua_State *L) {
  lua_pushboolean(L, ty_lua_test(L, 1) != NULL);
  return 1;
}

void ty_lua_open_tensor(lua_State *L, int m, int t) {
  static const LuaFunction fns[] = {
      {"tensor", l_tensor, 'm', "data, {dtype, device}",
       "a tensor of the numbers or booleans of nested tables; a copy of a tensor"},
      {"zeros", l_zeros, 'm', "sizes..., {dtype, device}", "0 in every element"},
      {"ones", l_ones, 'm', "sizes..., {dtype, device}", "1 in every element"},
      {"full", l_full, 'm', "sizes, value, {dtype, device}",
       "one number or boolean in every element"},
      {"empty", l_empty, 'm', "sizes..., {dtype, device}", "elements of any value"},
      {"zeros_like", l_zeros_like, 'b', "x, {dtype, device}", "0 in the shape and dtype of x"},
      {"ones_like", l_ones_like, 'b', "x, {dtype, device}", "1 in the shape and dtype of x"},
      {"full_like", l_full_like, 'b', "x, value, {dtype, device}",
       "one number in the shape and dtype of x"},
      {"empty_like", l_empty_like, 'b', "x, {dtype, device}",
       "elements of any value in the shape and dtype of x"},
      {"fill_", l_fill_in_place, 'b', "x, value", "writes a value to every element of x"},
      {"zero_", l_zero_in_place, 'b', "x", "writes 0 to every element of x"},
      {"copy_", l_copy_in_place, 'b', "x, y", "writes y, broadcast and cast, to the elements of x"},
      {"arange", l_arange, 'm', "start = 0, stop, step = 1, {dtype, device}",
       "numbers from start up to, not including, stop; arange(n) is 0 to n-1"},
      {"range", l_range, 'm', "start = 1, stop, step = 1, {dtype, device}",
       "numbers as of Lua's for, with the stop; range(n) is 1 to n"},
      {"linspace", l_linspace, 'm', "start, stop, count, {dtype, device}",
       "count numbers in equal steps, both ends included"},
      {"eye", l_eye, 'm', "n, m = n, {dtype, device}", "1 on the main diagonal, 0 elsewhere"},
      {"item", l_item, 'b', "x", "the only element as a number or boolean"},
      {"totable", l_totable, 'b', "x",
       "the elements in nested tables; a number when x has no dims"},
      {"get", l_get, 'b', "x, i, j, ...", "one element as a number or boolean"},
      {"set", l_set, 'b', "x, i, j, ..., value", "writes one element, returns x"},
      {"rows", l_rows, 'b', "x", "an iterator over i, x[i] along dim 1"},
      {"clone", l_clone, 'b', "x", "a copy with memory of its own"},
      {"contiguous", l_contiguous, 'b', "x", "x if its elements lie row by row, else such a copy"},
      {"to", l_to, 'b', "x, dtype or device or tensor",
       "x in another dtype or on another device; x itself when nothing changes; nil and a message "
       "when the device is not there"},
      {"size", l_size, 'b', "x, dim = nil", "the size of a dim, or a table of all"},
      {"stride", l_stride, 'b', "x, dim = nil",
       "elements in memory from one place of a dim to the next, or a table of all; where the size "
       "is 1, as in a contiguous tensor"},
      {"numel", l_numel, 'b', "x", "the number of elements"},
      {"dim", l_dim, 'b', "x", "the number of dims"},
      {"is_contiguous", l_is_contiguous, 'b', "x", "whether the elements lie row by row"},
      {"is_tensor", l_is_tensor, 'm', "v", "whether v is a tensor"},
      {NULL, NULL, 0, NULL, NULL}};
  static const luaL_Reg internal[] = {
      {"from_address", l_from_address}, {"address", l_address}, {NULL, NULL}};
  ty_lua_define(L, m, t, fns);
  lua_getfield(L, m, "internals");
  ty_lua_register(L, internal);
  lua_pop(L, 1);
}
