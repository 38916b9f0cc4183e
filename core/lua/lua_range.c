/*
** lua_range.c -- what the evaluator needs to make an instance for a range of sizes: tensors of sizes that nobody has
** asked for yet, and the range from the five samples that capture.finish was given.
** In: tensors of a call and their sizes elsewhere in the range. Out: stand-ins; a range that the trace has.
*/
#include "lua/lua_guard.h"
#include "lua/lua_tycho.h"
#include "record/traced_call.h"

static void push_list(lua_State *L, const i64 *v, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, (double)v[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* layout(tensor) -> dims, strides, offset, elements of its storage, whether a stand-in may take its place, the name of
** its storage */
static int capture_layout(lua_State *L) {
  const Tensor *t = ty_lua_check(L, "capture", 1);
  if (!t->st) return 0;
  char id[32];
  push_list(L, t->type.dims, t->type.rank);
  push_list(L, t->strides, t->type.rank);
  lua_pushnumber(L, (double)t->offset);
  lua_pushnumber(L, (double)t->st->numel);
  lua_pushboolean(L, !t->st->batched && !t->detached);
  snprintf(id, sizeof id, "%p", (void *)t->st);
  lua_pushstring(L, id);
  return 6;
}

static void read_list(lua_State *L, int i, i64 *v, int n) {
  luaL_checktype(L, i, LUA_TTABLE);
  for (int d = 0; d < n; d++) {
    lua_rawgeti(L, i, d + 1);
    v[d] = (i64)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
}

/* A storage of its own, where integers are 1, as an index may be, and which needs a gradient where that of t does. */
static bool stand_in_storage(State *S, Tensor *y, const Tensor *t, i64 numel) {
  const u8 dtype = t->type.dtype;
  Type line = ty_type_line(dtype, t->type.device, numel);
  const int size = ty_dtypes[dtype].bytes, kind = ty_needs(t) == NEEDS_LEAF ? K_LEAF : K_WATCH;
  char *ones = NULL;
  if (!ty_is_float(dtype)) {
    if (!(ones = ty_mem_alloc((size_t)TY_MAX(numel, 1) * (size_t)size))) return false;
    for (i64 i = 0; i < numel; i++) ty_elem_store(dtype, ones + i * size, 1);
  }
  const bool ok = ty_tensor_from(S, y, &line, ones);
  ty_mem_free(ones);
  return ok && (!ty_needs_grad(t) || (y->st->tape = ty_record_new(S, kind, 0, NULL)));
}

/* Whether no two elements lie in one place but for those that a stride of 0 repeats: where dims that grow come to
** overlap, a view that is a copy at some sizes could be none at others. */
static bool lies_apart(int rank, const i64 *dims, const i64 *strides) {
  i64 end = 0; /* of the elements of smaller strides */
  u32 left = (1u << rank) - 1;
  while (left) {
    int next = -1;
    for (int d = 0; d < rank; d++)
      if (left >> d & 1 && (next < 0 || strides[d] < strides[next])) next = d;
    left &= ~(1u << next);
    if (dims[next] < 2 || !strides[next]) continue;
    if (strides[next] <= end) return false;
    end += (dims[next] - 1) * strides[next];
  }
  return true;
}

/* stand_in(tensor, dims, strides, offset, elements, other or nil) -> a tensor like it of another layout: in the storage
** of `other`, in its own where that has as many elements, else in a new one; nil where it would overlap or not lie
** inside */
static int capture_stand_in(lua_State *L) {
  State *S = ty_lua_state(L);
  const Tensor *t = ty_lua_check(L, "capture", 1);
  const int rank = t->type.rank;
  i64 dims[MAX_RANK] = {0}, strides[MAX_RANK] = {0}, last;
  read_list(L, 2, dims, rank);
  read_list(L, 3, strides, rank);
  const i64 offset = (i64)luaL_checknumber(L, 4), numel = (i64)luaL_checknumber(L, 5);
  const Tensor *other = lua_isnoneornil(L, 6) ? t : ty_lua_check(L, "capture", 6);
  Type type = t->type;
  memcpy(type.dims, dims, sizeof dims);
  last = offset;
  bool inside = offset >= 0 && ty_type_fits(&type);
  for (int d = 0; d < rank; d++) {
    inside = inside && dims[d] >= 1 && strides[d] >= 0;
    last += (dims[d] - 1) * strides[d];
  }
  if (!inside || last >= numel || !lies_apart(rank, dims, strides)) return 0;
  Tensor *y = ty_lua_push(L);
  if (other->st->numel == numel) ty_tensor_alias(y, other);
  else if (!stand_in_storage(S, y, t, numel)) return ty_lua_fail(L, S);
  y->type = type;
  y->offset = offset;
  memcpy(y->strides, strides, sizeof strides);
  y->origin = 0;
  return 1;
}

/* Numbers of a list {form, c, b, a, form, c, b, a ...} at stack index i, in a userdata that is pushed. */
static RangeNumber *read_numbers(lua_State *L, int i, i32 *n) {
  luaL_checktype(L, i, LUA_TTABLE);
  *n = (i32)lua_objlen(L, i) / 4;
  RangeNumber *y = lua_newuserdata(L, sizeof *y * (size_t)(*n + 1));
  for (i32 k = 0; k < *n; k++) {
    i64 v[4];
    for (int j = 0; j < 4; j++) {
      lua_rawgeti(L, i, 4 * k + j + 1);
      v[j] = (i64)lua_tonumber(L, -1);
      lua_pop(L, 1);
    }
    y[k] = (RangeNumber){(u8)v[0], {v[1], v[2], v[3]}};
  }
  return y;
}

/* The points of the list at stack index 4, at which the code decides otherwise. */
static bool add_holes(lua_State *L, ShapeRange *r) {
  bool ok = true;
  for (i32 i = 1, n = (i32)lua_objlen(L, 4); ok && i <= n; i++) {
    lua_rawgeti(L, 4, i);
    ok = ty_shape_range_hole(r, (i64)lua_tonumber(L, -1));
    lua_pop(L, 1);
  }
  return ok;
}

static const char *add_range(lua_State *L, Trace *T, i64 last, const RangeNumbers *known) {
  const char *why = NULL;
  if (known->nsizes != T->nsizes) return "its sizes are others";
  if (T->refs > 1 && T->nranges == RANGES_MAX) return "what must go may be running";
  ShapeRange *r = ty_shape_range_make(T->sample, last, known, &why);
  if (!r) return why;
  T->sample[RANGE_SAMPLES - 1] = NULL;
  if (!r->step) why = "no size differs";
  else if (!add_holes(L, r)) why = "too many sizes decide otherwise";
  if (why) {
    ty_shape_range_free(r);
    return why;
  }
  if (T->nranges == RANGES_MAX) ty_shape_range_free(T->range[--T->nranges]);
  memmove(T->range + 1, T->range, sizeof *T->range * (size_t)T->nranges);
  T->range[0] = r;
  T->nranges++;
  return NULL;
}

/* join(handle, position, last, holes, given, sizes) -> true | nil, reason. The samples of the trace become a range.
** holes: a list of points; given, sizes: lists of numbers that follow from sizes (proofs.lua). */
static int capture_join(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  const int position = (int)luaL_checkinteger(L, 2);
  RangeNumbers known;
  luaL_checktype(L, 4, LUA_TTABLE);
  known.given = read_numbers(L, 5, &known.ngiven);
  known.size = read_numbers(L, 6, &known.nsizes);
  if (position < 1 || position > e->ntrace) return 0;
  Trace *T = e->trace[position - 1];
  for (int i = 0; i < RANGE_SAMPLES; i++)
    if (!T->sample[i]) return 0;
  const char *why = add_range(L, T, (i64)luaL_checknumber(L, 3), &known);
  ty_trace_drop_samples(T);
  if (!why) {
    lua_pushboolean(L, true);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* unfit(handle, position) -> nil, or why a range of the trace was given up: its backward pass is none for a range */
static int capture_unfit(lua_State *L) {
  ty_lua_enter(L);
  const Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  const int position = (int)luaL_checkinteger(L, 2);
  Trace *T = position < 1 || position > e->ntrace ? NULL : e->trace[position - 1];
  const char *why = NULL;
  i32 n = 0;
  if (!T || T->refs > 1) return 0; /* it may be running */
  for (i32 i = 0; i < T->nranges; i++) {
    ShapeRange *r = T->range[i];
    const char *unfit = ty_shape_range_unfit(r);
    if (!unfit) T->range[n++] = r;
    else ty_shape_range_free(r), why = unfit;
  }
  T->nranges = n;
  lua_pushstring(L, why);
  return 1;
}

/* ranged(): what this session records is a sample of a range of sizes */
static int capture_ranged(lua_State *L) {
  Capture *c = ty_lua_capture(L);
  if (c) c->ranged = true;
  return 0;
}

void ty_lua_open_range(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"layout", capture_layout}, {"stand_in", capture_stand_in},
                                 {"join", capture_join},     {"ranged", capture_ranged},
                                 {"unfit", capture_unfit},   {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_getfield(L, -1, "capture");
  ty_lua_register(L, fns);
  const struct {
    const char *name;
    int value;
  } numbers[] = {{"RANGE_LEAST", RANGE_LEAST},
                 {"RANGE_HOLES", RANGE_HOLES},
                 {"SIZE", FORM_SIZE},
                 {"EIGHTH", FORM_EIGHTH},
                 {"RECIPROCAL", FORM_RECIPROCAL},
                 {"ROOT", FORM_ROOT},
                 {"RECIPROCAL_ROOT", FORM_RECIPROCAL_ROOT}};
  for (size_t i = 0; i < TY_COUNT(numbers); i++) {
    lua_pushinteger(L, numbers[i].value);
    lua_setfield(L, -2, numbers[i].name);
  }
  lua_pushstring(L, ty_range_differ);
  lua_setfield(L, -2, "DIFFER");
  lua_pop(L, 2);
}
