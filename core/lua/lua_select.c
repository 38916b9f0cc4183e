/*
** lua_select.c -- results whose shape depends on data: nonzero, masked_select, unique; and sorting.
** In: tensors. Out: new tensors; positions are i64 and 1-based. sort, topk and unique give two.
** The first three read their operands on the CPU, so pending values are computed; sort and topk
** are recorded. Raises on dtypes and dims that do not fit, and on memory.
*/
#include <stdlib.h>
#include "lua/lua_view.h"

/* --- what is not zero */

const i64 *ty_lua_select_nonzero(lua_State *L, State *S, const Tensor *x, i64 *count) {
  const Type *t = &x->type;
  i64 n = ty_type_numel(t), found = 0;
  int bytes = ty_dtypes[t->dtype].bytes;
  const char *p = ty_tensor_read(S, x);
  if (!p) ty_lua_fail(L, S);
  Walk w = {0};
  for (i64 i = 0; i < n; i++, ty_walk_next(&w, t, x->strides))
    found += ty_elem_true(t->dtype, p + w.offset * bytes);
  i64 *at = lua_newuserdata(L, sizeof(i64) * ((size_t)found * t->rank + 1)), *y = at;
  if (!(p = ty_tensor_read(S, x))) ty_lua_fail(L, S); /* a finaliser may have written to x */
  w = (Walk){0};
  i64 left = found;
  for (i64 i = 0; i < n && left; i++, ty_walk_next(&w, t, x->strides)) {
    if (!ty_elem_true(t->dtype, p + w.offset * bytes)) continue;
    for (int d = 0; d < t->rank; d++) *y++ = w.at[d];
    left--;
  }
  *count = found - left;
  return at;
}

/* One row of positions for each element that is not zero: i64 [count, rank]. */
static int l_nonzero(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "nonzero", 1);
  i64 count;
  int rank = x->type.rank;
  i64 *at = (i64 *)ty_lua_select_nonzero(L, S, x, &count);
  for (i64 i = 0; i < count * rank; i++) at[i]++; /* users count from 1 */
  Type t = {.dtype = T_I64, .device = x->type.device, .rank = 2, .dims = {count, rank}};
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, y, &t, at));
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

/* Where the mask holds. steps: of x and of the mask. */
static int gather_selected(lua_State *L, State *S, const char *who, const Tensor *x,
                           const Tensor *mask, const Type *t, i64 (*steps)[MAX_RANK], i64 count) {
  i64 *at = lua_newuserdata(L, sizeof(i64) * (size_t)(count + 1)), k = 0, n = ty_type_numel(t);
  const u8 *m = ty_tensor_read(S, mask);
  if (!m) return ty_lua_fail(L, S);
  Walk w = {0};
  for (i64 i = 0; i < n; i++, ty_walk_next(&w, t, steps[1]))
    if (m[w.offset] && k < count) at[k++] = i;
  return gather_at(L, S, who, x, t, steps[0], at, count);
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
  const Tensor *both[2] = {x, mask};
  i64 steps[2][MAX_RANK] = {{0}};
  for (int k = 0; k < 2; k++) ty_type_expand(&t, &both[k]->type, both[k]->strides, steps[k]);
  i64 n = ty_type_numel(&t), count = 0;
  size_t bytes = ty_dtypes[t.dtype].bytes;
  const u8 *m = ty_tensor_read(S, mask);
  if (!m) return ty_lua_fail(L, S);
  Walk wm = {0}, wx = {0};
  for (i64 i = 0; i < n; i++, ty_walk_next(&wm, &t, steps[1])) count += m[wm.offset] != 0;
  if (needs_gradient(S, x)) return gather_selected(L, S, who, x, mask, &t, steps, count);
  char *out = lua_newuserdata(L, (size_t)count * bytes + 1), *y = out;
  const char *p = ty_tensor_read(S, x);
  if (!p || !(m = ty_tensor_read(S, mask))) return ty_lua_fail(L, S);
  wm = (Walk){0};
  for (i64 i = 0; i < n; i++) {
    if (m[wm.offset] && y < out + count * (i64)bytes) {
      memcpy(y, p + wx.offset * (i64)bytes, bytes);
      y += bytes;
    }
    ty_walk_next(&wm, &t, steps[1]);
    ty_walk_next(&wx, &t, steps[0]);
  }
  Type line = ty_type_line(t.dtype, t.device, count);
  Tensor *r = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, r, &line, out));
  return 1;
}

/* --- unique */

typedef struct Place { /* an element as a number that sorts as it does, and where it stands */
  u64 key;
  i64 at;
} Place;

/* Order of floats as integers: -inf .. -0 = +0 .. inf, then all NaNs as one value. */
static u64 float_key(double v) {
  u64 u;
  if (v != v) return UINT64_MAX;
  if (v == 0) v = 0; /* one zero */
  memcpy(&u, &v, 8);
  return u >> 63 ? ~u : u | (u64)1 << 63;
}

static u64 elem_key(int dtype, const void *p) {
  if (ty_is_float(dtype)) return float_key(ty_elem_load(dtype, p));
  i64 v;
  if (dtype == T_I64) memcpy(&v, p, 8);
  else v = (i64)ty_elem_load(dtype, p);
  return (u64)v ^ (u64)1 << 63;
}

static int place_compare(const void *a, const void *b) {
  const Place *p = a, *q = b;
  if (p->key != q->key) return p->key < q->key ? -1 : 1;
  return p->at < q->at ? -1 : p->at > q->at;
}

/* The sorted different elements, and for each element of x the position of its value among them. The gradient of
** a value goes to the first element that has it. */
static int l_unique(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "unique", 1);
  const Type *t = &x->type;
  i64 n = ty_type_numel(t), count = 0;
  size_t bytes = ty_dtypes[t->dtype].bytes;
  Place *place = lua_newuserdata(L, sizeof *place * (size_t)(n + 1));
  i64 *inverse = lua_newuserdata(L, sizeof(i64) * (size_t)(n + 1));
  char *values = lua_newuserdata(L, bytes * (size_t)(n + 1));
  char *line = lua_newuserdata(L, bytes * (size_t)(n + 1));
  i64 *first = lua_newuserdata(L, sizeof(i64) * (size_t)(n + 1));
  const char *p = ty_tensor_read(S, x);
  if (!p) return ty_lua_fail(L, S);
  Walk w = {0};
  for (i64 i = 0; i < n; i++, ty_walk_next(&w, t, x->strides)) {
    memcpy(line + (size_t)i * bytes, p + w.offset * (i64)bytes, bytes);
    place[i] = (Place){elem_key(t->dtype, line + (size_t)i * bytes), i};
  }
  qsort(place, (size_t)n, sizeof *place, place_compare);
  for (i64 i = 0; i < n; i++) {
    if (i == 0 || place[i].key != place[i - 1].key) {
      first[count] = place[i].at;
      memcpy(values + bytes * (size_t)count++, line + bytes * (size_t)place[i].at, bytes);
    }
    inverse[place[i].at] = count;
  }
  Type vt = ty_type_line(t->dtype, t->device, count), it = *t;
  it.dtype = T_I64;
  if (needs_gradient(S, x)) gather_at(L, S, "unique", x, t, x->strides, first, count);
  else TY_LUA_MUST(L, S, ty_tensor_from(S, ty_lua_push(L), &vt, values));
  Tensor *i = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, i, &it, inverse));
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

/* Pushes the elements of x in order along a dim, and their positions there from 0. A 0-d x is in
 * order. */
static void push_sorted(lua_State *L, State *S, const char *who, const Tensor *x, int dim,
                        bool descending) {
  Tensor *y = ty_lua_push(L), *at = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_argsort(S, x, dim, descending, at));
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
  push_sorted(L, S, "sort", x, dim, flag(L, "sort", 3, "descending", false));
  from_one(L, S, "sort");
  return 2;
}

/* Replaces the tensor on top of the stack by its first k places of a dim, with a storage of their
 * own. */
static void head(lua_State *L, State *S, int dim, i64 k) {
  const Tensor *x = ty_lua_test(L, -1);
  View v = ty_lua_view_of(x);
  v.t.dims[dim] = k;
  const Tensor *part = ty_lua_view_push(L, x, &v);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_copy(S, part, y));
  lua_replace(L, -3);
  lua_pop(L, 1);
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
  push_sorted(L, S, "topk", x, dim, flag(L, "topk", 4, "largest", true));
  lua_insert(L, -2);
  head(L, S, dim, k);
  lua_insert(L, -2);
  from_one(L, S, "topk");
  head(L, S, dim, k);
  return 2;
}

void ty_lua_open_select(lua_State *L, int m, int t) {
  static const LuaFunction rows[] = {
      {"nonzero", l_nonzero, 'b', "x",
       "positions of the elements that are not zero, one row each: i64 [count, ndim]"},
      {"masked_select", l_masked_select, 'b', "x, mask",
       "elements where the bool mask holds, as one row"},
      {"unique", l_unique, 'b', "x",
       "two results: the sorted different elements, and each element's position among them"},
      {"sort", l_sort, 'b', "x, dim = -1, descending = false",
       "two results: the elements of a dim in order, stable, NaN counts as largest; and their "
       "positions"},
      {"topk", l_topk, 'b', "x, k, dim = -1, largest = true",
       "two results: the k largest (or smallest) elements of a dim in order; and their positions"},
      {NULL, NULL, 0, NULL, NULL}};
  ty_lua_define(L, m, t, rows);
}
