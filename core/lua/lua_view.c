/*
** lua_view.c -- views and rearrangements: reshape, permute, expand, slices, cat, and their like.
** In: a tensor and dims or sizes, 1-based. Out: a tensor that shares the storage where strides can
** say it, else a recorded copy; split, chunk and unbind give a table of views.
** Raises on dims and sizes that do not fit, naming them; a copy may fail on memory.
*/
#include <math.h>
#include "lua/lua_view.h"
#include "record/capture.h"

/* --- arguments */

/* The whole number at stack index i, or raises: `what` names it. */
static i64 whole(lua_State *L, const char *who, int i, const char *what) {
  double v = lua_tonumber(L, i);
  if (lua_type(L, i) != LUA_TNUMBER)
    ty_lua_error(L, "%s: %s must be a whole number, got %s", who, what, luaL_typename(L, i));
  if (floor(v) != v || fabs(v) > 9007199254740992.0)
    ty_lua_error(L, "%s: %s must be a whole number, got %.17g", who, what, v);
  return (i64)v;
}

/* Whole numbers by position from argument i on, or in one table there. Returns how many. */
static int list(lua_State *L, const char *who, int i, const char *what, i64 *v, int max) {
  int n = 0, top = lua_gettop(L);
  if (lua_type(L, i) == LUA_TTABLE) {
    if (lua_objlen(L, i) > (size_t)max)
      ty_lua_error(L, "%s: at most %d %ss, got %d", who, max, what, (int)lua_objlen(L, i));
    int count = (int)lua_objlen(L, i);
    for (; n < count; n++) {
      lua_rawgeti(L, i, n + 1);
      v[n] = whole(L, who, -1, what);
      lua_pop(L, 1);
    }
    return n;
  }
  for (; i <= top; i++) {
    if (n == max) ty_lua_error(L, "%s: at most %d %ss", who, max, what);
    v[n++] = whole(L, who, i, what);
  }
  return n;
}

/* A dim of a tensor of that rank, 1-based or negative, to 0-based. */
static int dim_of(lua_State *L, const char *who, i64 d, int rank) {
  if (d >= 1 && d <= rank) return (int)d - 1;
  if (d < 0 && -d <= rank) return (int)(rank + d);
  if (rank == 0)
    return ty_lua_error(L, "%s: a 0-d tensor has no dims, got %lld", who, (long long)d);
  return ty_lua_error(L, "%s: dim %lld is out of range 1..%d", who, (long long)d, rank);
}

/* A dim's number where one more dim will be: 1 .. rank + 1. */
static int new_dim(lua_State *L, const char *who, i64 d, const Tensor *x) {
  if (x->type.rank == MAX_RANK)
    ty_lua_error(L, "%s: %s has the most dims there are, %d", who, ty_lua_view_text(L, &x->type),
                 MAX_RANK);
  return dim_of(L, who, d, x->type.rank + 1);
}

static const Tensor *argument(lua_State *L, const char *who, State **S) {
  *S = ty_lua_enter(L);
  return ty_lua_check(L, who, 1);
}

/* Sizes to a type for x's elements; one -1 stands for what is left. */
static Type sizes_for(lua_State *L, const char *who, const Tensor *x, const i64 *d, int n) {
  Type t = {.dtype = x->type.dtype, .device = x->type.device, .rank = (u8)n};
  i64 rest = ty_type_numel(&x->type), known = 1;
  int open = -1;
  bool ok = true;
  for (int i = 0; i < n; i++) {
    if (d[i] == -1 && open < 0) open = i;
    else if (d[i] < 0)
      ty_lua_error(L, "%s: size %lld is out of range 0.. (-1, once: what is left)", who,
                   (long long)d[i]);
    else ok = ok && ty_mul(known, d[i], &known);
    t.dims[i] = d[i];
  }
  if (ok && open >= 0 && known > 0 && rest % known == 0) t.dims[open] = rest / known;
  else if (open >= 0 || known != rest) ok = false;
  if (!ok) {
    const char *from = ty_lua_view_text(L, &x->type), *to = ty_lua_view_text(L, &t);
    ty_lua_error(L, "%s: the %lld elements of %s do not fill %s", who, (long long)rest, from, to);
  }
  return t;
}

/* --- other dims over the same elements */

static int l_reshape(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "reshape", &S);
  i64 d[MAX_RANK];
  Type t = sizes_for(L, "reshape", x, d, list(L, "reshape", 2, "size", d, MAX_RANK));
  ty_lua_view_reshape(L, S, x, &t);
  return 1;
}

/* As reshape, and raises where a copy would be needed. */
static int l_view(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "view", &S);
  i64 d[MAX_RANK];
  View v = {.t = sizes_for(L, "view", x, d, list(L, "view", 2, "size", d, MAX_RANK)),
            .offset = x->offset};
  TY_LUA_MUST(L, S, ty_capture_decide(S, x, &v.t));
  if (!ty_tensor_reshape(x, &v.t, v.strides))
    return ty_lua_error(L, "view: the strides of %s do not allow it; use reshape, which may copy",
                        ty_lua_view_text(L, &x->type));
  ty_lua_view_push(L, x, &v);
  return 1;
}

/* The same bits as another dtype of the same size. */
static int l_view_as(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "view_as", &S);
  TY_LUA_ANSWERED(L, S, "view_as");
  int dtype = ty_lua_dtype(L, "view_as", 2);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_bitcast(S, x, dtype, y));
  return 1;
}

static int l_flatten(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "flatten", &S);
  int rank = x->type.rank;
  Type t = {.dtype = x->type.dtype, .device = x->type.device};
  if (rank == 0) {
    t.dims[t.rank++] = 1;
  } else {
    int a = ty_lua_dim(L, "flatten", 2, rank, 0), b = ty_lua_dim(L, "flatten", 3, rank, rank - 1);
    if (a > b) return ty_lua_error(L, "flatten: dim %d is behind dim %d", a + 1, b + 1);
    for (int d = 0; d < rank; d++) {
      if (d > a && d <= b) t.dims[t.rank - 1] *= x->type.dims[d];
      else t.dims[t.rank++] = x->type.dims[d];
    }
  }
  ty_lua_view_reshape(L, S, x, &t);
  return 1;
}

/* Dim d falls apart into the sizes; one may be -1. */
static int l_unflatten(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "unflatten", &S);
  int dim = ty_lua_dim(L, "unflatten", 2, x->type.rank, -1);
  i64 size[MAX_RANK];
  int n = list(L, "unflatten", 3, "size", size, MAX_RANK);
  if (n == 0) return ty_lua_error(L, "unflatten: no sizes given");
  if (x->type.rank - 1 + n > MAX_RANK)
    return ty_lua_error(L, "unflatten: %d dims are more than %d", x->type.rank - 1 + n, MAX_RANK);
  Tensor one = {.type = ty_type_line(x->type.dtype, x->type.device, x->type.dims[dim])};
  Type part = sizes_for(L, "unflatten", &one, size, n);
  View v = ty_lua_view_of(x);
  i64 step = v.strides[dim];
  ty_lua_view_drop(&v, dim);
  for (int i = n - 1; i >= 0; i--) {
    ty_lua_view_insert(&v, dim, part.dims[i], step);
    step *= part.dims[i];
  }
  ty_lua_view_push(L, x, &v);
  return 1;
}

/* Without dims all of size 1 go; a named dim must have size 1. */
static int l_squeeze(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "squeeze", &S);
  u32 dims = ty_lua_dims(L, "squeeze", 2, x->type.rank);
  View v = ty_lua_view_of(x);
  for (int d = x->type.rank - 1; d >= 0; d--) {
    if (dims && !(dims >> d & 1)) continue;
    if (x->type.dims[d] == 1) ty_lua_view_drop(&v, d);
    else if (dims)
      return ty_lua_error(L, "squeeze: dim %d of %s is not of size 1", d + 1,
                          ty_lua_view_text(L, &x->type));
  }
  ty_lua_view_push(L, x, &v);
  return 1;
}

static int l_unsqueeze(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "unsqueeze", &S);
  int d = new_dim(L, "unsqueeze", whole(L, "unsqueeze", 2, "dim"), x);
  View v = ty_lua_view_of(x);
  ty_lua_view_insert(&v, d, 1, 0);
  ty_lua_view_push(L, x, &v);
  return 1;
}

/* Pushes x with its dims in the order given: dim i of the result is dim order[i] of x. */
static int push_permuted(lua_State *L, const Tensor *x, const int *order) {
  View v = ty_lua_view_of(x);
  for (int d = 0; d < x->type.rank; d++) {
    v.t.dims[d] = x->type.dims[order[d]];
    v.strides[d] = x->strides[order[d]];
  }
  ty_lua_view_push(L, x, &v);
  return 1;
}

static int push_swapped(lua_State *L, const Tensor *x, int a, int b) {
  int order[MAX_RANK];
  for (int d = 0; d < MAX_RANK; d++) order[d] = d == a ? b : d == b ? a : d;
  return push_permuted(L, x, order);
}

static int l_transpose(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "transpose", &S);
  int a = ty_lua_dim(L, "transpose", 2, x->type.rank, -1);
  return push_swapped(L, x, a, ty_lua_dim(L, "transpose", 3, x->type.rank, -1));
}

static int l_t(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "t", &S);
  if (x->type.rank > 2)
    return ty_lua_error(L, "t: needs at most 2 dims, got %s; use transpose(d1, d2)",
                        ty_lua_view_text(L, &x->type));
  return push_swapped(L, x, 0, x->type.rank == 2 ? 1 : 0);
}

static int l_permute(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "permute", &S);
  i64 d[MAX_RANK];
  int order[MAX_RANK], n = list(L, "permute", 2, "dim", d, MAX_RANK);
  u32 seen = 0;
  for (int i = 0; i < n; i++) {
    order[i] = dim_of(L, "permute", d[i], x->type.rank);
    if (seen >> order[i] & 1)
      return ty_lua_error(L, "permute: dim %d is given twice", order[i] + 1);
    seen |= 1u << order[i];
  }
  if (n != x->type.rank)
    return ty_lua_error(L, "permute: %d dims for %s, which has %d", n,
                        ty_lua_view_text(L, &x->type), x->type.rank);
  return push_permuted(L, x, order);
}

/* A dim or a table of dims at argument i; lua_settop has seen to it that nothing follows. */
static int dim_list(lua_State *L, const char *who, int i, int rank, int *y) {
  i64 d[MAX_RANK];
  int n = 1;
  if (lua_type(L, i) == LUA_TTABLE) n = list(L, who, i, "dim", d, MAX_RANK);
  else d[0] = whole(L, who, i, "dim");
  for (int k = 0; k < n; k++) {
    y[k] = dim_of(L, who, d[k], rank);
    for (int j = 0; j < k; j++)
      if (y[j] == y[k]) ty_lua_error(L, "%s: dim %d is given twice", who, y[k] + 1);
  }
  return n;
}

/* Dims `from` go to the places `to`; the others keep their order. */
static int l_movedim(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "movedim", &S);
  int from[MAX_RANK], to[MAX_RANK], order[MAX_RANK], rank = x->type.rank;
  u32 moved = 0;
  int n = dim_list(L, "movedim", 2, rank, from), m = dim_list(L, "movedim", 3, rank, to);
  if (n != m) return ty_lua_error(L, "movedim: %d dims cannot go to %d places", n, m);
  for (int d = 0; d < rank; d++) order[d] = -1;
  for (int i = 0; i < n; i++) {
    order[to[i]] = from[i];
    moved |= 1u << from[i];
  }
  for (int d = 0, next = 0; d < rank; d++) {
    if (order[d] >= 0) continue;
    while (moved >> next & 1) next++;
    order[d] = next++;
  }
  return push_permuted(L, x, order);
}

/* Sizes are right-aligned with x's; dims of size 1 repeat without a copy; -1 keeps a size. */
static int l_expand(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "expand", &S);
  i64 d[MAX_RANK];
  int n = list(L, "expand", 2, "size", d, MAX_RANK), gap = n - x->type.rank;
  View v = {.t = {.dtype = x->type.dtype, .device = x->type.device, .rank = (u8)n},
            .offset = x->offset};
  bool ok = gap >= 0;
  for (int i = 0; ok && i < n; i++) {
    i64 own = i >= gap ? x->type.dims[i - gap] : 1, size = d[i] == -1 && i >= gap ? own : d[i];
    ok = size >= 0 && (own == size || own == 1);
    v.t.dims[i] = size;
  }
  if (ok) ty_type_expand(&v.t, &x->type, x->strides, v.strides);
  if (!ok || !ty_type_fits(&v.t)) {
    Type to = {.dtype = x->type.dtype, .device = x->type.device, .rank = (u8)n};
    memcpy(to.dims, d, sizeof(i64) * (size_t)n);
    const char *from = ty_lua_view_text(L, &x->type);
    return ty_lua_error(L, "expand: %s does not expand to %s", from, ty_lua_view_text(L, &to));
  }
  ty_lua_view_push(L, x, &v);
  return 1;
}

/* --- repeats. Both stand on one copy: x as [outer, 1 or n, inner], expanded, laid out. */

/* Pushes the 3-d tensor [outer, n, inner] (repeats between the two) as x with dim d of another
 * size. */
static Tensor *push_repeated(lua_State *L, State *S, const char *who, const Tensor *x, int d, i64 n,
                             bool each) {
  Type t = {.dtype = x->type.dtype, .device = x->type.device, .rank = 2, .dims = {1, 1}},
       y = x->type;
  for (int i = 0; i < x->type.rank; i++) t.dims[each ? i > d : i >= d] *= x->type.dims[i];
  if (!ty_mul(y.dims[d], n, &y.dims[d]) || !ty_type_fits(&y))
    ty_lua_error(L, "%s: %s repeated %lld times is too large", who, ty_lua_view_text(L, &x->type),
                 (long long)n);
  const Tensor *flat = ty_lua_view_reshape(L, S, x, &t);
  View v = ty_lua_view_of(flat);
  ty_lua_view_insert(&v, 1, n, 0);
  return ty_lua_view_reshape(L, S, ty_lua_view_push(L, flat, &v), &y);
}

/* NumPy's tile: the counts are right-aligned with the dims, missing ones are 1. */
static int l_tile(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "tile", &S);
  TY_LUA_ANSWERED(L, S, "tile");
  i64 n[MAX_RANK];
  int count = list(L, "tile", 2, "count", n, MAX_RANK);
  View v = ty_lua_view_of(x);
  while (v.t.rank < count) ty_lua_view_insert(&v, 0, 1, 0);
  const Tensor *y = ty_lua_view_push(L, x, &v);
  bool copied = false;
  luaL_checkstack(L, 4 * MAX_RANK, "tile");
  for (int i = count - 1; i >= 0; i--) { /* inner dims first: the large copies come last */
    if (n[i] < 0) return ty_lua_error(L, "tile: count %lld is negative", (long long)n[i]);
    if (n[i] == 1) continue;
    y = push_repeated(L, S, "tile", y, y->type.rank - count + i, n[i], false);
    copied = true;
  }
  if (!copied) TY_LUA_MUST(L, S, ty_record_copy(S, y, ty_lua_push(L)));
  return 1;
}

/* Every element n times; or element i n[i] times, which is a gather. Without a dim x is flattened.
 */
static int l_repeat_interleave(lua_State *L) {
  const char *who = "repeat_interleave";
  State *S;
  const Tensor *x = argument(L, who, &S);
  TY_LUA_ANSWERED(L, S, who);
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) {
    Type flat = ty_type_line(x->type.dtype, x->type.device, ty_type_numel(&x->type));
    x = ty_lua_view_reshape(L, S, x, &flat);
  }
  int dim = lua_isnil(L, 3) ? 0 : ty_lua_dim(L, who, 3, x->type.rank, -1);
  if (lua_type(L, 2) == LUA_TNUMBER) {
    i64 n = whole(L, who, 2, "count");
    if (n < 0) return ty_lua_error(L, "%s: count %lld is negative", who, (long long)n);
    push_repeated(L, S, who, x, dim, n, true);
    return 1;
  }
  const Tensor *counts = ty_lua_view_indices(L, S, who, 2, x->type.device);
  i64 size = x->type.dims[dim], total = 0;
  if (counts->type.rank != 1 || counts->type.dims[0] != size)
    return ty_lua_error(L, "%s: needs %lld counts for dim %d, got %s", who, (long long)size,
                        dim + 1, ty_lua_view_text(L, &counts->type));
  int dt = counts->type.dtype;
  const char *p = ty_tensor_read(S, counts);
  TY_LUA_MUST(L, S, p != NULL);
  i64 *n = lua_newuserdata(L, sizeof(i64) * (size_t)(size + 1));
  for (i64 i = 0; i < size; i++) {
    double v = ty_elem_load(dt, p + i * counts->strides[0] * ty_dtypes[dt].bytes);
    if (v < 0 || v > 1e15 || !ty_add(total, (i64)v, &total) || total > (i64)1 << 40)
      return ty_lua_error(L, "%s: count %.17g is out of range", who, v);
    n[i] = (i64)v;
  }
  View v = {.t = x->type};
  v.t.dtype = T_I64;
  v.t.dims[dim] = total;
  v.strides[dim] = 1; /* the same index in all other dims */
  Type flat = ty_type_line(T_I64, x->type.device, total);
  i64 *at = lua_newuserdata(L, sizeof(i64) * (size_t)(total + 1)), k = 0;
  for (i64 i = 0; i < size; i++)
    for (i64 j = 0; j < n[i]; j++) at[k++] = i;
  Tensor *index = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, index, &flat, at));
  index = ty_lua_view_push(L, index, &v);
  TY_LUA_MUST(L, S, ty_record_gather(S, who, x, dim, index, 0, ty_lua_push(L)));
  return 1;
}

/* --- pieces */

/* The part of x with `size` places of dim d from place a on (0-based), in steps. */
static View part(const Tensor *x, int d, i64 a, i64 size, i64 step) {
  View v = ty_lua_view_of(x);
  v.t.dims[d] = size;
  if (size > 0) v.offset += a * v.strides[d];
  v.strides[d] *= step;
  return v;
}

static int l_flip(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "flip", &S);
  View v = ty_lua_view_of(x);
  int d[MAX_RANK], n = x->type.rank;
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    for (int i = 0; i < n; i++) d[i] = i;
  } else {
    n = dim_list(L, "flip", 2, x->type.rank, d);
  }
  for (int i = 0; i < n; i++) {
    if (v.t.dims[d[i]] > 0) v.offset += (v.t.dims[d[i]] - 1) * v.strides[d[i]];
    v.strides[d[i]] = -v.strides[d[i]];
  }
  ty_lua_view_push(L, x, &v);
  return 1;
}

static int l_narrow(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "narrow", &S);
  int d = ty_lua_dim(L, "narrow", 2, x->type.rank, -1);
  i64 size = x->type.dims[d], a = whole(L, "narrow", 3, "start"),
      n = whole(L, "narrow", 4, "length");
  i64 from = a < 0 ? size + a : a - 1;
  if (a == 0 || from < 0 || n < 0 || from > size || n > size - from)
    return ty_lua_error(L, "narrow: %lld places from %lld on are out of range 1..%lld (dim %d)",
                        (long long)n, (long long)a, (long long)size, d + 1);
  View v = part(x, d, from, n, 1);
  ty_lua_view_push(L, x, &v);
  return 1;
}

/* Pushes a table of views of x along dim d with these sizes. */
static int push_parts(lua_State *L, const Tensor *x, int d, const i64 *size, i64 n) {
  lua_createtable(L, (int)n, 0);
  for (i64 i = 0, at = 0; i < n; at += size[i++]) {
    View v = part(x, d, at, size[i], 1);
    ty_lua_view_push(L, x, &v);
    lua_rawseti(L, -2, (int)(i + 1));
  }
  return 1;
}

/* Pushes the parts of `step` places each, the last one smaller where it does not come out even. */
static int push_even(lua_State *L, const Tensor *x, int d, i64 step) {
  i64 size = x->type.dims[d], n = size ? (size + step - 1) / step : 1;
  if (n > 1 << 24) return ty_lua_error(L, "split: %lld parts are too many", (long long)n);
  i64 *sizes = lua_newuserdata(L, sizeof(i64) * (size_t)n);
  for (i64 i = 0; i < n; i++) sizes[i] = TY_MIN(step, size - i * step);
  return push_parts(L, x, d, sizes, n);
}

/* split(size, dim) or split({sizes}, dim). */
static int l_split(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "split", &S);
  int d = ty_lua_dim(L, "split", 3, x->type.rank, 0);
  if (lua_type(L, 2) != LUA_TTABLE) {
    i64 step = whole(L, "split", 2, "size");
    if (step < 1) return ty_lua_error(L, "split: size %lld is below 1", (long long)step);
    return push_even(L, x, d, step);
  }
  int n = (int)lua_objlen(L, 2);
  i64 *size = lua_newuserdata(L, sizeof(i64) * (size_t)(n + 1)), sum = 0;
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    size[i] = whole(L, "split", -1, "size");
    lua_pop(L, 1);
    if (size[i] < 0) return ty_lua_error(L, "split: size %lld is negative", (long long)size[i]);
    if (!ty_add(sum, size[i], &sum)) return ty_lua_error(L, "split: the sizes are too large");
  }
  if (sum != x->type.dims[d])
    return ty_lua_error(L, "split: the sizes add up to %lld, dim %d has %lld", (long long)sum,
                        d + 1, (long long)x->type.dims[d]);
  return push_parts(L, x, d, size, n);
}

static int l_chunk(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "chunk", &S);
  i64 n = whole(L, "chunk", 2, "number of chunks");
  int d = ty_lua_dim(L, "chunk", 3, x->type.rank, 0);
  if (n < 1) return ty_lua_error(L, "chunk: number of chunks %lld is below 1", (long long)n);
  i64 size = x->type.dims[d], step = size / n + (size % n != 0);
  return push_even(L, x, d, TY_MAX(step, 1));
}

static int l_unbind(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "unbind", &S);
  int d = ty_lua_dim(L, "unbind", 2, x->type.rank, 0);
  i64 n = x->type.dims[d];
  if (n > 1 << 24) return ty_lua_error(L, "unbind: %lld parts are too many", (long long)n);
  lua_createtable(L, (int)n, 0);
  for (i64 i = 0; i < n; i++) {
    View v = part(x, d, i, 1, 1);
    ty_lua_view_drop(&v, d);
    ty_lua_view_push(L, x, &v);
    lua_rawseti(L, -2, (int)(i + 1));
  }
  return 1;
}

/* The diagonal of dims d1 and d2 as the last dim; offset > 0: above the main one. */
static int l_diagonal(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "diagonal", &S);
  int rank = x->type.rank;
  lua_settop(L, 4);
  if (rank < 2)
    return ty_lua_error(L, "diagonal: needs at least 2 dims, got %s",
                        ty_lua_view_text(L, &x->type));
  i64 offset = lua_isnil(L, 2) ? 0 : whole(L, "diagonal", 2, "offset");
  int a = ty_lua_dim(L, "diagonal", 3, rank, 0), b = ty_lua_dim(L, "diagonal", 4, rank, 1);
  if (a == b) return ty_lua_error(L, "diagonal: dim %d is given twice", a + 1);
  i64 da = x->type.dims[a], db = x->type.dims[b];
  i64 rows = offset < 0 ? (-offset > da ? 0 : da + offset) : da;
  i64 columns = offset > 0 ? (offset > db ? 0 : db - offset) : db;
  i64 n = TY_MIN(rows, columns);
  View v = ty_lua_view_of(x);
  if (n > 0) v.offset += offset > 0 ? offset * x->strides[b] : -offset * x->strides[a];
  ty_lua_view_drop(&v, TY_MAX(a, b));
  ty_lua_view_drop(&v, TY_MIN(a, b));
  ty_lua_view_insert(&v, rank - 2, n, x->strides[a] + x->strides[b]);
  ty_lua_view_push(L, x, &v);
  return 1;
}

/* Windows of `size` places of a dim, `step` apart: the dim counts windows, a new last dim the
 * places. */
static int l_unfold(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "unfold", &S);
  int d = ty_lua_dim(L, "unfold", 2, x->type.rank, -1);
  lua_settop(L, 4);
  i64 size = whole(L, "unfold", 3, "size"),
      step = lua_isnil(L, 4) ? 1 : whole(L, "unfold", 4, "step");
  new_dim(L, "unfold", 1, x);
  if (size < 1 || size > x->type.dims[d])
    return ty_lua_error(L, "unfold: size %lld is out of range 1..%lld (dim %d)", (long long)size,
                        (long long)x->type.dims[d], d + 1);
  if (step < 1) return ty_lua_error(L, "unfold: step %lld is below 1", (long long)step);
  View v = part(x, d, 0, (x->type.dims[d] - size) / step + 1, step);
  ty_lua_view_insert(&v, x->type.rank, size, x->strides[d]);
  ty_lua_view_push(L, x, &v);
  return 1;
}

/* --- joins */

/* cat and stack: the list's tensors, promoted to one dtype, behind each other along dim. */
static int join(lua_State *L, const char *who, bool stack) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  lua_settop(L, 2);
  if (lua_type(L, 1) != LUA_TTABLE)
    return ty_lua_error(L, "%s: argument 1 must be a table of tensors, got %s", who,
                        ty_lua_test(L, 1) ? "a tensor" : luaL_typename(L, 1));
  int n = (int)lua_objlen(L, 1), dim = 0;
  if (n == 0) return ty_lua_error(L, "%s: the list is empty", who);
  const Tensor **x = lua_newuserdata(L, sizeof *x * (size_t)n);
  lua_createtable(L, n, 0); /* keeps what x points to alive */
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    if (!(x[i] = ty_lua_test(L, -1)))
      return ty_lua_error(L, "%s: element %d of the list must be a tensor, got %s", who, i + 1,
                          luaL_typename(L, -1));
    if (!x[i]->st) return ty_lua_error(L, "%s: element %d of the list was released", who, i + 1);
    if (i == 0) {
      if (!stack && x[0]->type.rank == 0)
        return ty_lua_error(L, "%s: 0-d tensors have no dim to join along; use stack", who);
      if (stack) new_dim(L, who, 1, x[0]);
      dim = ty_lua_dim(L, who, 2, x[0]->type.rank + stack, 0);
    }
    if (stack && !ty_type_same_dims(&x[0]->type, &x[i]->type)) {
      const char *a = ty_lua_view_text(L, &x[0]->type);
      return ty_lua_error(L, "%s: sizes differ, %s and %s", who, a,
                          ty_lua_view_text(L, &x[i]->type));
    }
    lua_rawseti(L, 4, i + 1);
  }
  for (int i = 0; stack && i < n; i++) {
    View v = ty_lua_view_of(x[i]);
    ty_lua_view_insert(&v, dim, 1, 0);
    x[i] = ty_lua_view_push(L, x[i], &v);
    lua_rawseti(L, 4, i + 1);
  }
  TY_LUA_MUST(L, S, ty_record_cat(S, who, n, x, dim, ty_lua_push(L)));
  return 1;
}

static int l_cat(lua_State *L) { return join(L, "cat", false); }
static int l_stack(lua_State *L) { return join(L, "stack", true); }

/* roll(shifts, dims): elements move up by shift and come in again below; no dims: over the
 * flattened x. */
static int l_roll(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "roll", &S);
  TY_LUA_ANSWERED(L, S, "roll");
  int d[MAX_RANK] = {0}, n = 1;
  i64 shift[MAX_RANK];
  Type shape = x->type;
  lua_settop(L, 3);
  if (lua_type(L, 2) == LUA_TTABLE) n = list(L, "roll", 2, "shift", shift, MAX_RANK);
  else shift[0] = whole(L, "roll", 2, "shift");
  if (lua_isnil(L, 3)) {
    if (n != 1) return ty_lua_error(L, "roll: %d shifts without dims", n);
    Type flat = ty_type_line(x->type.dtype, x->type.device, ty_type_numel(&x->type));
    x = ty_lua_view_reshape(L, S, x, &flat);
  } else {
    int m = dim_list(L, "roll", 3, x->type.rank, d);
    if (m != n) return ty_lua_error(L, "roll: %d shifts for %d dims", n, m);
  }
  luaL_checkstack(L, 4 * MAX_RANK, "roll");
  for (int i = 0; i < n; i++) {
    i64 size = x->type.dims[d[i]], by = size ? shift[i] % size : 0;
    if (by < 0) by += size;
    View head = part(x, d[i], size - by, by, 1), tail = part(x, d[i], 0, size - by, 1);
    const Tensor *two[2];
    two[0] = ty_lua_view_push(L, x, &head);
    two[1] = ty_lua_view_push(L, x, &tail);
    Tensor *y = ty_lua_push(L);
    TY_LUA_MUST(L, S, ty_record_cat(S, "roll", 2, two, d[i], y));
    x = y;
  }
  ty_lua_view_reshape(L, S, x, &shape);
  return 1;
}

/* One entry of pad's list: {before, after}, or a number for both. */
static void pad_entry(lua_State *L, int i, i64 *before, i64 *after) {
  lua_rawgeti(L, 2, i);
  if (lua_type(L, -1) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    *before = whole(L, "pad", -2, "padding");
    *after = whole(L, "pad", -1, "padding");
    lua_pop(L, 2);
  } else {
    *before = *after = whole(L, "pad", -1, "padding");
  }
  lua_pop(L, 1);
  if (*before < 0 || *after < 0)
    ty_lua_error(L, "pad: padding {%lld, %lld} of dim %d is negative", (long long)*before,
                 (long long)*after, i);
}

/* pad({{before, after}, ...}, value): from dim 1 on; dims that are not listed stay. */
static int l_pad(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "pad", &S);
  TY_LUA_ANSWERED(L, S, "pad");
  lua_settop(L, 3);
  if (lua_type(L, 2) != LUA_TTABLE)
    return ty_lua_error(L, "pad: argument 2 must be a table {{before, after}, ...}, got %s",
                        luaL_typename(L, 2));
  int n = (int)lua_objlen(L, 2), dtype = x->type.dtype;
  if (n > x->type.rank)
    return ty_lua_error(L,
                        "pad: %d entries for %s; one a dim, from dim 1 on: {before, after}, or a "
                        "number for both",
                        n, ty_lua_view_text(L, &x->type));
  Given value = {.kind = O_NUMBER};
  if (!lua_isnil(L, 3)) {
    ty_lua_number(L, "pad", 3, "value");
    value = ty_lua_operand(L, "pad", 3);
  }
  if (!ty_is_float(dtype) && !ty_is_complex(dtype) && !(floor(value.v) == value.v))
    return ty_lua_error(L, "pad: %.17g does not fit %s", value.v, ty_dtypes[dtype].name);
  Type t = x->type;
  i64 before[MAX_RANK] = {0}, after;
  for (int d = 0; d < n; d++) {
    pad_entry(L, d + 1, &before[d], &after);
    if (!ty_add(t.dims[d], before[d], &t.dims[d]) || !ty_add(t.dims[d], after, &t.dims[d]) ||
        !ty_type_fits(&t))
      return ty_lua_error(L, "pad: the result is too large (dim %d)", d + 1);
  }
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_number(S, &t, &value, y));
  View inner = ty_lua_view_of(y);
  for (int d = 0; d < t.rank; d++) inner.offset += before[d] * inner.strides[d];
  inner.t = x->type;
  Tensor *hole = ty_lua_view_push(L, y, &inner);
  TY_LUA_MUST(L, S, ty_record_assign(S, "pad", hole, &(Given){.kind = O_TENSOR, .t = x}));
  lua_pop(L, 1);
  return 1;
}

/* --- positions along a dim */

/* Pushes x's places of dim d that the index names: its dims stand where dim d was. */
static int push_taken(lua_State *L, State *S, const char *who, const Tensor *x, int d,
                      const Tensor *index) {
  const Type *it = &index->type;
  int rank = x->type.rank - 1 + it->rank;
  if (rank > MAX_RANK) return ty_lua_error(L, "%s: %d dims are more than %d", who, rank, MAX_RANK);
  Type flat = ty_type_line(it->dtype, it->device, ty_type_numel(it));
  const Tensor *line = ty_lua_view_reshape(L, S, index, &flat);
  View v = {.t = x->type, .offset = line->offset};
  v.t.dtype = it->dtype;
  v.t.dims[d] = flat.dims[0];
  v.strides[d] = line->strides[0];
  line = ty_lua_view_push(L, line, &v);
  Tensor *y = ty_lua_push(L);
  if (!ty_type_numel(&v.t)) { /* the index is looked at all the same */
    TY_LUA_MUST(L, S, ty_record_positions(S, who, index, x->type.dims[d], 1, y));
    ty_tensor_release(y);
  }
  TY_LUA_MUST(L, S, ty_record_gather(S, who, x, d, line, 1, y));
  if (it->rank == 1) return 1;
  Type t = {.dtype = x->type.dtype, .device = x->type.device, .rank = (u8)rank};
  for (int i = 0; i < rank; i++)
    t.dims[i] = i < d              ? x->type.dims[i]
                : i < d + it->rank ? it->dims[i - d]
                                   : x->type.dims[i - it->rank + 1];
  ty_lua_view_reshape(L, S, y, &t);
  return 1;
}

static int l_index_select(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "index_select", &S);
  TY_LUA_ANSWERED(L, S, "index_select");
  int d = ty_lua_dim(L, "index_select", 2, x->type.rank, -1);
  const Tensor *index = ty_lua_view_indices(L, S, "index_select", 3, x->type.device);
  if (index->type.rank > 1)
    return ty_lua_error(L, "index_select: the index must have one dim, got %s",
                        ty_lua_view_text(L, &index->type));
  if (index->type.rank == 0) {
    Type one = ty_type_line(index->type.dtype, index->type.device, 1);
    index = ty_lua_view_reshape(L, S, index, &one);
  }
  return push_taken(L, S, "index_select", x, d, index);
}

/* take(index): elements of the flattened x, in the index's shape; take(index, dim): along a dim. */
static int l_take(lua_State *L) {
  State *S;
  const Tensor *x = argument(L, "take", &S);
  TY_LUA_ANSWERED(L, S, "take");
  lua_settop(L, 3);
  const Tensor *index = ty_lua_view_indices(L, S, "take", 2, x->type.device);
  if (!lua_isnoneornil(L, 3))
    return push_taken(L, S, "take", x, ty_lua_dim(L, "take", 3, x->type.rank, -1), index);
  Type flat = ty_type_line(x->type.dtype, x->type.device, ty_type_numel(&x->type));
  return push_taken(L, S, "take", ty_lua_view_reshape(L, S, x, &flat), 0, index);
}

/* set_view(x, y) -> x, which has the dims and places of y from now on: a view of its own storage. */
static int l_set_view(lua_State *L) {
  ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "view", 1);
  const Tensor *y = ty_lua_check(L, "view", 2);
  if (x->st != y->st) return ty_lua_error(L, "view: it shares no memory with the tensor");
  x->type = y->type;
  x->offset = y->offset;
  memcpy(x->strides, y->strides, sizeof x->strides);
  lua_settop(L, 1);
  return 1;
}

void ty_lua_open_view(lua_State *L, int m, int t) {
  static const LuaFunction rows[] = {
      {"reshape", l_reshape, 'b', "x, sizes",
       "x with other sizes, one of them -1 for what is left; a view where strides allow it, else a "
       "copy"},
      {"view", l_view, 'b', "x, sizes",
       "x with other sizes and the same storage; raises where only a copy would do"},
      {"view_as", l_view_as, 'b', "x, dtype",
       "the same bits read as another dtype of that size; a copy"},
      {"flatten", l_flatten, 'b', "x, first = 1, last = -1", "dims first to last as one"},
      {"unflatten", l_unflatten, 'b', "x, dim, sizes", "one dim as several; one size may be -1"},
      {"squeeze", l_squeeze, 'b', "x, dims",
       "without the dims of size 1, or without the given ones"},
      {"unsqueeze", l_unsqueeze, 'b', "x, dim", "a new dim of size 1 at that place"},
      {"transpose", l_transpose, 'b', "x, dim1, dim2", "two dims exchanged, as a view"},
      {"t", l_t, 'b', "x", "the transpose of a matrix, as a view"},
      {"permute", l_permute, 'b', "x, dims", "the dims in another order, as a view"},
      {"movedim", l_movedim, 'b', "x, from, to",
       "dims moved to other places, the rest in order; a view"},
      {"expand", l_expand, 'b', "x, sizes",
       "dims of size 1 repeated without a copy; -1 keeps a size"},
      {"tile", l_tile, 'b', "x, counts",
       "the whole of x repeated along each dim; counts are right-aligned"},
      {"repeat_interleave", l_repeat_interleave, 'b', "x, count, dim",
       "each element repeated; a count for all or a tensor of counts; no dim: flattened"},
      {"flip", l_flip, 'b', "x, dims", "dims reversed, as a view; none: all"},
      {"narrow", l_narrow, 'b', "x, dim, start, length",
       "length places of a dim from start on, as a view"},
      {"slice", ty_lua_view_slice, 'b', "x, dim, first, last, step = 1",
       "places first to last of a dim in steps, both included; a view"},
      {"split", l_split, 'b', "x, size, dim = 1",
       "a table of views of that size, the last one smaller; or of the sizes in a table"},
      {"chunk", l_chunk, 'b', "x, n, dim = 1", "a table of at most n views of about equal size"},
      {"unbind", l_unbind, 'b', "x, dim = 1",
       "a table of views, one for each place of a dim, without that dim"},
      {"diagonal", l_diagonal, 'b', "x, offset = 0, dim1 = 1, dim2 = 2",
       "the diagonal of two dims as the last dim, a view; offset > 0: above the main one"},
      {"unfold", l_unfold, 'b', "x, dim, size, step = 1",
       "windows of a dim as a new last dim, a view"},
      {"roll", l_roll, 'b', "x, shifts, dims",
       "places moved up along dims, coming in again below; no dims: flattened"},
      {"pad", l_pad, 'b', "x, {{before, after}, ...}, value = 0",
       "places of value around x, from dim 1 on"},
      {"index_select", l_index_select, 'b', "x, dim, index",
       "the places of a dim that a 1-d index names"},
      {"take", l_take, 'b', "x, index, dim",
       "elements of the flattened x, in the index's shape; with a dim its places"},
      {"cat", l_cat, 'm', "list, dim = 1", "the tensors of a list behind each other along a dim"},
      {"stack", l_stack, 'm', "list, dim = 1",
       "the tensors of a list, of equal shape, along a new dim"},
      {NULL, NULL, 0, NULL, NULL}};
  static const luaL_Reg fns[] = {{"set_view", l_set_view}, {NULL, NULL}};
  ty_lua_define(L, m, t, rows);
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
