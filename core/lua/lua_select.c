/*
** lua_select.c -- results whose shape depends on data: nonzero, masked_select, unique; and sorting.
** In: tensors. Out: new tensors; positions are i64 and 1-based. sort, topk and unique give two.
** The first three read their operands on the CPU, so pending values are computed; on another device they are the work of
** selection.lua, which reads there how many they are. sort and topk are recorded. Raises on dtypes and dims that do not
** fit, and on memory.
*/
#include <stdlib.h>
#include "record/complex.h"
#include "lua/lua_view.h"

/* --- elsewhere */

/* select_with(f): f(name, ...) does it: unique where it has options (a dim, another order, counts), and all on other
** devices. What is not asked so stays a function of C's, which parts call without Lua. */
int ty_lua_select_with(lua_State *L) {
  Binding *B = ty_lua_binding(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  if (B->select) luaL_unref(L, LUA_REGISTRYINDEX, B->select);
  B->select = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

static bool is_elsewhere(const State *S, const Tensor *x) {
  return x->type.device && !S->level && !ty_is_complex(x->type.dtype);
}

/* The results of the top n values. */
static int by_lua(lua_State *L, const char *name, int n, int results) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, ty_lua_binding(L)->select);
  lua_insert(L, -n - 1);
  lua_pushstring(L, name);
  lua_insert(L, -n - 1);
  lua_call(L, n + 1, results);
  return lua_gettop(L);
}

static int all_by_lua(lua_State *L, const char *name, int n) {
  lua_settop(L, n);
  return by_lua(L, name, n, LUA_MULTRET);
}

/* --- what is not zero */

/* A row of n elements a stride apart. Bits that say whether one is not zero: all, or for floats all but the sign. No
** branch depends on an element, as none could be foretold. */
typedef struct Row {
  const char *p;
  i64 stride, n;
  bool is_float;
} Row;

/* How many are not zero. */
#define COUNT(U) \
  static i64 count_##U(const Row *r) { \
    const U *x = (const U *)(const void *)r->p, mask = (U)(r->is_float ? (U) ~(U)0 >> 1 : ~(U)0); \
    i64 k = 0; \
    if (r->stride == 1) \
      for (i64 i = 0; i < r->n; i++) k += (x[i] & mask) != 0; \
    else \
      for (i64 i = 0; i < r->n; i++) k += (x[i * r->stride] & mask) != 0; \
    return k; \
  }
/* first + i to y, `step` apart, for each element i that is not zero, while there is room. Returns how many. */
#define PLACES(U) \
  static i64 places_##U(const Row *r, i64 first, i64 *y, i64 step, i64 room) { \
    const U *x = (const U *)(const void *)r->p, mask = (U)(r->is_float ? (U) ~(U)0 >> 1 : ~(U)0); \
    i64 k = 0; \
    for (i64 i = 0; i < r->n && k < room; i++) { \
      y[k * step] = first + i; \
      k += (x[i * r->stride] & mask) != 0; \
    } \
    return k; \
  }
/* The elements of r to y where m is true, while there is room. Returns how many. */
#define CHOSEN(U) \
  static i64 chosen_##U(const Row *r, const Row *m, char *to, i64 room) { \
    const U *x = (const U *)(const void *)r->p; \
    U *y = (U *)(void *)to; \
    i64 k = 0; \
    for (i64 i = 0; i < r->n && k < room; i++) { \
      y[k] = x[i * r->stride]; \
      k += m->p[i * m->stride] != 0; \
    } \
    return k; \
  }
#define SIZES(_) _(u8) _(u16) _(u32) _(u64)
#define ROWS(U) COUNT(U) PLACES(U) CHOSEN(U)
SIZES(ROWS)

/* The functions for elements of so many bytes. */
typedef struct RowFns {
  i64 (*count)(const Row *r);
  i64 (*places)(const Row *r, i64 first, i64 *y, i64 step, i64 room);
  i64 (*chosen)(const Row *r, const Row *m, char *to, i64 room);
} RowFns;
static const RowFns row_fns[] = {
#define _(U) [sizeof(U)] = {count_##U, places_##U, chosen_##U},
    SIZES(_)
#undef _
};

/* Rows of the last dim; or flat: all is one. */
typedef struct RowWalk {
  Type outer; /* the other dims */
  i64 steps[MAX_RANK];
  Walk at;
  const char *base;
  int bytes;
  Row row;
} RowWalk;

static bool is_flat(const Type *t, const i64 *steps) {
  return !t->rank || ty_is_contiguous(t->rank, t->dims, steps);
}

static RowWalk rows_of(const Type *t, const i64 *steps, const char *p, int dtype, bool flat) {
  RowWalk w = {.outer = *t, .base = p, .bytes = ty_dtypes[dtype].bytes};
  memcpy(w.steps, steps, sizeof w.steps);
  w.outer.rank = flat ? 0 : (u8)(t->rank - 1);
  w.row = (Row){p, flat ? 1 : steps[t->rank - 1], flat ? ty_type_numel(t) : t->dims[t->rank - 1],
                ty_is_float(dtype)};
  return w;
}

static void next_row(RowWalk *w) {
  ty_walk_next(&w->at, &w->outer, w->steps);
  w->row.p = w->base + w->at.offset * w->bytes;
}

static i64 rows_count(const Type *t, const i64 *steps, const char *p, int dtype) {
  i64 found = 0, n = ty_type_numel(t);
  RowWalk w = rows_of(t, steps, p, dtype, is_flat(t, steps));
  for (i64 i = 0; i < n; i += w.row.n, next_row(&w)) found += row_fns[w.bytes].count(&w.row);
  return found;
}

/* y = a new tensor of t on the CPU with dim 0 as long as x has elements that are not zero. */
static bool found_room(State *S, const Tensor *x, const Type *dims, const i64 *steps, Type *t,
                       Tensor *y) {
  const char *p = ty_tensor_read(S, x);
  if (!p) return false;
  t->dims[0] = rows_count(dims, steps, p, x->type.dtype);
  return ty_tensor_from(S, y, t, NULL);
}

/* The tensor on top of the stack, on the CPU, goes to the device. */
static void to_device(lua_State *L, State *S, u8 device) {
  Tensor *from = ty_lua_test(L, -1);
  if (from->type.device == device) return;
  Type t = from->type;
  t.device = device;
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, y, &t, ty_tensor_read(S, from)));
  lua_replace(L, -2);
}

/* Positions that count from `base` of the elements of x that are not zero, by dims: `rank` numbers each at y, so many
** at most. */
static void positions(const Tensor *x, const char *p, i64 base, i64 *y, i64 count) {
  const Type *t = &x->type;
  const int last = t->rank - 1;
  RowWalk w = rows_of(t, x->strides, p, t->dtype, false);
  const i64 all = ty_type_numel(t);
  for (i64 i = 0, k = 0; i < all && k < count; i += w.row.n, next_row(&w)) {
    const i64 n = row_fns[w.bytes].places(&w.row, base, y + last, t->rank, count - k);
    for (int d = 0; d < last; d++)
      for (i64 j = 0; j < n; j++) y[j * t->rank + d] = base + w.at.at[d];
    y += n * t->rank, k += n;
  }
}

/* One row of positions for each element that is not zero: i64 [count, rank]. */
static int l_nonzero(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "nonzero", 1);
  if (is_elsewhere(S, x)) return all_by_lua(L, "nonzero", 1);
  if (TY_UNLIKELY(ty_is_complex(x->type.dtype))) {
    ty_lua_complex(L, S, "nonzero", "nonzero", 1, &(Given){.kind = O_TENSOR, .t = x});
    return 1;
  }
  Type t = {.dtype = T_I64, .rank = 2, .dims = {0, x->type.rank}};
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, found_room(S, x, &x->type, x->strides, &t, y));
  if (t.dims[1]) positions(x, ty_tensor_read(S, x), 1, ty_tensor_write(S, y), t.dims[0]);
  to_device(L, S, x->type.device);
  return 1;
}

/* Pushes the elements of x, seen with dims t by those steps, at row-major positions: so a gradient finds its
** backward pass. */
static int gather_at(lua_State *L, State *S, const char *who, const Tensor *x, const Type *t,
                     const i64 *steps, const i64 *at, i64 count) {
  Type line = ty_type_line(T_I64, x->type.device, count);
  Type flat = ty_type_line(x->type.dtype, x->type.device, ty_type_numel(t));
  Tensor *index = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, index, &line, at));
  View v = {.t = *t, .offset = x->offset};
  v.t.dtype = flat.dtype;
  memcpy(v.strides, steps, sizeof v.strides);
  const Tensor *all = ty_lua_view_reshape(L, S, ty_lua_view_push(L, x, &v), &flat);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_gather(S, who, all, 0, index, 0, y));
  return 1;
}

/* Pushes the row-major positions, counted from `base`, where a mask that is seen with dims t holds: i64 [count], on the CPU. */
static Tensor *push_places(lua_State *L, State *S, const Tensor *mask, const Type *t,
                           const i64 *steps, i64 base) {
  Type line = ty_type_line(T_I64, 0, 0);
  Tensor *places = ty_lua_push(L);
  TY_LUA_MUST(L, S, found_room(S, mask, t, steps, &line, places));
  i64 *at = ty_tensor_write(S, places), k = 0, n = ty_type_numel(t);
  if (!at) ty_lua_fail(L, S);
  RowWalk m = rows_of(t, steps, ty_tensor_read(S, mask), T_BOOL, is_flat(t, steps));
  for (i64 i = 0; i < n; i += m.row.n, next_row(&m))
    k += row_fns[1].places(&m.row, base + i, at + k, 1, line.dims[0] - k);
  return places;
}

const Tensor *ty_lua_select_places(lua_State *L, State *S, const Tensor *mask, u8 device) {
  if (is_elsewhere(S, mask) && mask->type.device == device) {
    const View v = ty_lua_view_of(mask);
    ty_lua_view_push(L, mask, &v);
    by_lua(L, "places", 1, 1);
  } else {
    push_places(L, S, mask, &mask->type, mask->strides, 1);
    to_device(L, S, device);
  }
  return ty_lua_test(L, -1);
}

/* Where the mask holds. steps: of x and of the mask. */
static int gather_selected(lua_State *L, State *S, const char *who, const Tensor *x,
                           const Tensor *mask, const Type *t, i64 (*steps)[MAX_RANK]) {
  const Tensor *at = push_places(L, S, mask, t, steps[1], 0);
  return gather_at(L, S, who, x, t, steps[0], ty_tensor_read(S, at), at->type.dims[0]);
}

static bool needs_gradient(const State *S, const Tensor *x) {
  return TY_UNLIKELY(S->tracks) && x->st->tape && !x->detached;
}

/* Elements of x where the mask holds, in row-major order; x and the mask broadcast. */
static int l_masked_select(lua_State *L) {
  const char *who = "masked_select";
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, who, 1), *mask = ty_lua_check(L, who, 2);
  Type t = x->type;
  if (mask->type.dtype != T_BOOL)
    return ty_lua_error(L, "%s: the mask must be bool, got %s", who,
                        ty_lua_view_text(L, &mask->type));
  if (!ty_type_broadcast(&t, &mask->type)) {
    const char *a = ty_lua_view_text(L, &x->type);
    return ty_lua_error(L, "%s: sizes do not broadcast, %s and %s", who, a,
                        ty_lua_view_text(L, &mask->type));
  }
  if (is_elsewhere(S, x) && mask->type.device == x->type.device) return all_by_lua(L, who, 2);
  const Tensor *both[2] = {x, mask};
  i64 steps[2][MAX_RANK] = {{0}};
  for (int k = 0; k < 2; k++) ty_type_expand(&t, &both[k]->type, both[k]->strides, steps[k]);
  if (needs_gradient(S, x) || ty_is_complex(x->type.dtype))
    return gather_selected(L, S, who, x, mask, &t, steps);
  Type line = ty_type_line(t.dtype, 0, 0);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_read(S, x) && found_room(S, mask, &t, steps[1], &line, y));
  char *to = ty_tensor_write(S, y);
  if (!to) return ty_lua_fail(L, S);
  const bool flat = is_flat(&t, steps[0]) && is_flat(&t, steps[1]);
  RowWalk w = rows_of(&t, steps[0], ty_tensor_read(S, x), t.dtype, flat);
  RowWalk m = rows_of(&t, steps[1], ty_tensor_read(S, mask), T_BOOL, flat);
  for (i64 i = 0, k = 0, n = ty_type_numel(&t); i < n; i += w.row.n, next_row(&w), next_row(&m))
    k += row_fns[w.bytes].chosen(&w.row, &m.row, to + k * w.bytes, line.dims[0] - k);
  to_device(L, S, t.device);
  return 1;
}

/* --- unique */

/* Of n elements in that order: to `first` the place of each that differs from the one before, to `inverse` for each
** element how many these are up to it. NaNs are one value, -0 is 0. Returns how many, or -1 where `order` is none. */
#define RUNS(U) \
  static i64 runs_##U(const void *p, const i64 *order, i64 n, u64 infinity, i64 *first, \
                      i64 *inverse) { \
    const U *x = p, inf = (U)infinity, sign = infinity ? (U)((U)1 << (sizeof(U) * 8 - 1)) : 0; \
    i64 count = 0; \
    U last = 0; \
    for (i64 i = 0; i < n; i++) { \
      if ((u64)order[i] >= (u64)n) return -1; \
      U u = x[order[i]]; \
      if (sign) u = (U)(u & ~sign) > inf ? (U) ~(U)0 : u == sign ? 0 : u; \
      first[count] = order[i]; \
      count += !i || u != last; \
      inverse[order[i]] = count; \
      last = u; \
    } \
    return count; \
  }
SIZES(RUNS)

static i64 runs(int dtype, const void *p, const i64 *order, i64 n, i64 *first, i64 *inverse) {
  typedef i64 Runs(const void *p, const i64 *order, i64 n, u64 infinity, i64 *first, i64 *inverse);
  static Runs *const fns[] = {
#define _(U) [sizeof(U)] = runs_##U,
      SIZES(_)
#undef _
  };
  static const u64 infinity[T_COUNT] = {
      [T_F16] = 0x7c00, [T_BF16] = 0x7f80, [T_F32] = 0x7f800000, [T_F64] = 0x7ff0000000000000};
  return fns[ty_dtypes[dtype].bytes](p, order, n, infinity[dtype], first, inverse);
}

/* Pushes x as one row without gaps, with no gradient. */
static Tensor *push_line(lua_State *L, State *S, const Tensor *x) {
  Type line = ty_type_line(x->type.dtype, x->type.device, ty_type_numel(&x->type));
  View v = ty_lua_view_of(x);
  Tensor *plain = ty_lua_view_push(L, x, &v);
  plain->detached = true;
  Tensor *flat = ty_lua_view_reshape(L, S, plain, &line);
  if (ty_tensor_is_contiguous(flat)) return flat;
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_copy(S, flat, y));
  return y;
}

/* The sorted different elements, and for each element of x the position of its value among them. The gradient of
** a value goes to the first element that has it. */
static int l_unique(lua_State *L) {
  const char *who = "unique";
  if (!lua_isnoneornil(L, 2)) return all_by_lua(L, who, 2);
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, who, 1);
  TY_LUA_MUST(L, S, ty_complex_refuse(S, who, x));
  if (is_elsewhere(S, x)) return all_by_lua(L, who, 1);
  if (!ty_tensor_read(S, x)) return ty_lua_fail(L, S); /* computed here, and by no other name */
  Type it = x->type, line = ty_type_line(T_I64, 0, ty_type_numel(&x->type));
  const i64 n = line.dims[0];
  it.dtype = T_I64, it.device = 0;
  const Tensor *flat = push_line(L, S, x);
  Tensor *order = ty_lua_push(L), *first = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_argsort(S, flat, 0, false, -1, order));
  TY_LUA_MUST(L, S, ty_tensor_from(S, first, &line, NULL));
  Tensor *inverse = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, inverse, &it, NULL));
  i64 *from = ty_tensor_write(S, first), *to = ty_tensor_write(S, inverse);
  const void *p = ty_tensor_read(S, flat);
  const i64 *at = ty_tensor_read(S, order);
  if (!from || !to || !p || !at) return ty_lua_fail(L, S);
  const i64 count = runs(x->type.dtype, p, at, n, from, to);
  if (count < 0) return ty_lua_error(L, "%s: the elements changed meanwhile", who);
  to_device(L, S, x->type.device);
  const int places = lua_gettop(L);
  const Tensor *of = needs_gradient(S, x) ? x : flat;
  gather_at(L, S, who, of, &of->type, of->strides, from, count);
  lua_pushvalue(L, places);
  return 2;
}

/* --- sorting */

/* Whether argument i asks for descending order: a boolean, or {descending = ...}. */
static bool flag(lua_State *L, const char *who, int i, const char *name, bool otherwise) {
  if (lua_type(L, i) == LUA_TTABLE) {
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1))
      if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), name))
        ty_lua_error(L, "%s: unknown option %s; known: %s", who, ty_lua_show(L, lua_gettop(L) - 1),
                     name);
    lua_getfield(L, i, name);
    lua_replace(L, i);
  }
  if (lua_isnoneornil(L, i)) return otherwise;
  if (lua_type(L, i) != LUA_TBOOLEAN)
    ty_lua_error(L, "%s: %s must be true or false, got %s", who, name, ty_lua_show(L, i));
  return lua_toboolean(L, i);
}

/* Pushes the elements of x in order along a dim, `keep` of them (-1: all), and their positions there from 0. A 0-d x
** is in order. */
static void push_sorted(lua_State *L, State *S, const char *who, const Tensor *x, int dim,
                        bool descending, i64 keep) {
  Tensor *y = ty_lua_push(L), *at = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_complex_refuse(S, who, x));
  TY_LUA_MUST(L, S, ty_record_argsort(S, x, dim, descending, keep, at));
  if (x->type.rank > 0) TY_LUA_MUST(L, S, ty_record_gather(S, who, x, dim, at, 0, y));
  else TY_LUA_MUST(L, S, ty_record_copy(S, x, y));
}

/* Adds 1 to the positions on top of the stack. */
static void from_one(lua_State *L, State *S, const char *who) {
  Tensor *at = ty_lua_test(L, -1);
  Given src[2] = {{.kind = O_TENSOR, .t = at}, {.kind = O_NUMBER, .v = 1}};
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record(S, who, OP_ADD, 2, src, y));
  lua_replace(L, -2);
}

static int l_sort(lua_State *L) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, "sort");
  const Tensor *x = ty_lua_check(L, "sort", 1);
  int rank = x->type.rank;
  lua_settop(L, 3);
  int dim = rank || !lua_isnil(L, 2) ? ty_lua_dim(L, "sort", 2, rank, rank - 1) : 0;
  push_sorted(L, S, "sort", x, dim, flag(L, "sort", 3, "descending", false), -1);
  from_one(L, S, "sort");
  return 2;
}

/* topk(k, dim, largest): the k largest (smallest) in order, and their positions. NaN counts as the
 * largest. */
static int l_topk(lua_State *L) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, "topk");
  const Tensor *x = ty_lua_check(L, "topk", 1);
  i64 k = ty_lua_int(L, "topk", 2, "k");
  lua_settop(L, 4);
  if (x->type.rank == 0) return ty_lua_error(L, "topk: a 0-d tensor has no dims");
  int dim = ty_lua_dim(L, "topk", 3, x->type.rank, x->type.rank - 1);
  if (k < 0 || k > x->type.dims[dim])
    return ty_lua_error(L, "topk: k %lld is out of range 0..%lld (dim %d)", (long long)k,
                        (long long)x->type.dims[dim], dim + 1);
  push_sorted(L, S, "topk", x, dim, flag(L, "topk", 4, "largest", true), k);
  from_one(L, S, "topk");
  return 2;
}

void ty_lua_open_select(lua_State *L, int m, int t) {
  static const LuaFunction rows[] = {
      {"nonzero", l_nonzero, 'b', "x",
       "positions of the elements that are not zero, one row each: i64 [count, ndim]"},
      {"masked_select", l_masked_select, 'b', "x, mask",
       "elements where the bool mask holds, as one row"},
      {"unique", l_unique, 'b', "x, {dim, sorted = true, counts = false}",
       "two results: the different elements, and for each one its place among them; counts as a "
       "third"},
      {"sort", l_sort, 'b', "x, dim = -1, descending = false",
       "two results: the elements of a dim in order, stable, NaN counts as largest; and their "
       "positions"},
      {"topk", l_topk, 'b', "x, k, dim = -1, largest = true",
       "two results: the k largest (or smallest) elements of a dim in order; and their positions"},
      {NULL, NULL, 0, NULL, NULL}};
  ty_lua_define(L, m, t, rows);
}
