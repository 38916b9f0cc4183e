/*
** lua_index.c -- x[k] and x[k] = v: numbers, ranges, index tensors, masks.
** In: a tensor and a key that is not a string; a table holds one entry for each dim. Out: a view
** where the key has numbers and ranges alone; else a copy of the places that index tensors and
** masks name (lua_places.c). Assignments write through every alias; the value is broadcast and cast.
** Raises on what is out of range, naming index and bounds.
*/
#include <math.h>
#include "engine/remade.h"
#include "lua/lua_key.h"

/* --- arguments that are indices */

/* Puts the numbers of the nested table at the top of the stack at p; raises where its shape is not
 * dims d on. */
static char *table_fill(lua_State *L, const char *who, const Type *t, int d, bool places, char *p) {
  if (d == t->rank) {
    int type = lua_type(L, -1);
    double v = type == LUA_TBOOLEAN ? lua_toboolean(L, -1) : lua_tonumber(L, -1);
    if (type != LUA_TNUMBER && type != LUA_TBOOLEAN)
      ty_lua_error(L, "%s: the table must hold numbers and be even, got %s", who,
                   ty_lua_show(L, lua_gettop(L)));
    if (places && (type == LUA_TBOOLEAN) != (t->dtype == T_BOOL))
      ty_lua_error(L, "%s: a list holds places, or truth values as a mask does, not both", who);
    if (!ty_is_float(t->dtype) && floor(v) != v)
      ty_lua_error(L, "%s: %.17g is not a whole number, for %s", who, v, ty_dtypes[t->dtype].name);
    ty_elem_store(t->dtype, p, v);
    return p + ty_dtypes[t->dtype].bytes;
  }
  if (lua_type(L, -1) != LUA_TTABLE || (i64)lua_objlen(L, -1) != t->dims[d])
    ty_lua_error(L, "%s: the table is ragged at depth %d", who, d + 1);
  for (i64 i = 0; i < t->dims[d]; i++) {
    lua_rawgeti(L, -1, (int)i + 1);
    p = table_fill(L, who, t, d + 1, places, p);
    lua_pop(L, 1);
  }
  return p;
}

Tensor *ty_lua_view_table(lua_State *L, State *S, const char *who, int i, int dtype, int device) {
  Type t = {.device = (u8)device};
  const bool places = dtype == AS_PLACES;
  int top = lua_gettop(L);
  luaL_checkstack(L, 2 * MAX_RANK + 8, who);
  lua_pushvalue(L, i);
  while (lua_type(L, -1) == LUA_TTABLE) { /* the first elements tell the dims */
    if (t.rank == MAX_RANK) ty_lua_error(L, "%s: the table is deeper than %d", who, MAX_RANK);
    t.dims[t.rank++] = (i64)lua_objlen(L, -1);
    lua_rawgeti(L, -1, 1);
  }
  if (places) dtype = lua_isboolean(L, -1) ? T_BOOL : T_I64;
  t.dtype = (u8)dtype;
  lua_settop(L, top);
  if (!ty_type_fits(&t)) ty_lua_error(L, "%s: the table is too large", who);
  size_t bytes = (size_t)(ty_type_numel(&t) * ty_dtypes[dtype].bytes);
  char *data = lua_newuserdata(L, bytes + 8);
  lua_pushvalue(L, i);
  table_fill(L, who, &t, 0, places, data);
  lua_pop(L, 1);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_tensor_from(S, y, &t, data));
  lua_replace(L, top + 1); /* the scratch goes */
  return y;
}

const Tensor *ty_lua_view_indices(lua_State *L, State *S, const char *who, int i, int device) {
  const Tensor *x = ty_lua_test(L, i);
  if (!x) {
    int type = lua_type(L, i);
    if (type != LUA_TNUMBER && type != LUA_TTABLE)
      ty_lua_error(L, "%s: the index must be an integer tensor, a number or a table, got %s", who,
                   ty_lua_show(L, i));
    x = ty_lua_view_table(L, S, who, i, AS_PLACES, device);
  } else x = ty_lua_check(L, who, i);
  if (!ty_is_int(x->type.dtype))
    ty_lua_error(L, "%s: the index must be of integers, got %s (%s)", who,
                 ty_lua_view_text(L, &x->type),
                 ty_is_float(x->type.dtype) ? "use :to(\"i64\")" : "masks go in x[mask]");
  return x;
}

/* --- keys */

static int bad_place(lua_State *L, const Key *k, double i, i64 size, int dim) {
  if (floor(i) != i)
    return ty_lua_error(L, "%s: index %.17g is not a whole number (dim %d)", k->who, i, dim + 1);
  return ty_lua_error(L, "%s: index %.17g is out of range 1..%lld (dim %d)", k->who, i,
                      (long long)size, dim + 1);
}

/* 1-based or negative place to 0-based. */
static i64 place(lua_State *L, const Key *k, double i, i64 size, int dim) {
  if (floor(i) == i) {
    if (i >= 1 && i <= (double)size) return (i64)i - 1;
    if (i < 0 && -i <= (double)size) return size + (i64)i;
  }
  return bad_place(L, k, i, size, dim);
}

/* Notes an entry that takes part in advanced indexing, or one that does not, for the place of the
 * result. */
static void key_run(Key *k, bool advanced, int d) {
  if (advanced && k->run == 0) {
    k->run = 1;
    k->at = d;
  } else if (advanced && k->run == 2) {
    k->apart = true;
  } else if (!advanced && k->run == 1) {
    k->run = 2;
  }
}

static void key_number(lua_State *L, Key *k, double i, int d, int user) {
  i64 at = place(L, k, i, k->v.t.dims[d], user);
  key_run(k, true, d);
  k->v.offset += at * k->v.strides[d];
  ty_lua_view_drop(&k->v, d);
}

/* A number of a range, as it was given. */
static double range_end(lua_State *L, const Key *k, int i, i64 size, int user) {
  double v = lua_tonumber(L, i);
  if (lua_type(L, i) != LUA_TNUMBER)
    ty_lua_error(L, "%s: a range {from, to, step} holds numbers, got %s (dim %d)", k->who,
                 ty_lua_show(L, i), user + 1);
  if (floor(v) != v) bad_place(L, k, v, size, user);
  return v;
}

/* Places first to last of dim d by steps of s, as the user gave them. */
static void key_span(lua_State *L, Key *k, int d, int user, double first, double last, double s) {
  i64 size = k->v.t.dims[d];
  double a = first < 0 ? (double)size + first + 1 : first;
  double b = last < 0 ? (double)size + last + 1 : last;
  if (s == 0 || floor(s) != s)
    ty_lua_error(L, "%s: step %.17g of a range must be a whole number other than 0 (dim %d)",
                 k->who, s, user + 1);
  bool empty = s > 0 ? b == a - 1 : b == a + 1;
  if (empty && a >= 0 && a <= (double)size + 1 && b >= 0 && b <= (double)size + 1) {
    k->v.t.dims[d] = 0;
    return;
  }
  if (a < 1 || a > (double)size) bad_place(L, k, first, size, user);
  if (b < 1 || b > (double)size) bad_place(L, k, last, size, user);
  if (s > 0 ? b < a : b > a)
    ty_lua_error(L, "%s: the range {%.17g, %.17g, %.17g} runs against its step (dim %d)", k->who,
                 first, last, s, user + 1);
  i64 step = s > (double)size ? size : s < -(double)size ? -size : (i64)s; /* one place, then out */
  k->v.offset += ((i64)a - 1) * k->v.strides[d];
  k->v.t.dims[d] = ((i64)b - (i64)a) / step + 1;
  k->v.strides[d] *= step;
}

/* The range {}, {a}, {a, b} or {a, b, s} at the top of the stack, on dim d. */
static void key_range(lua_State *L, Key *k, int d, int user) {
  int n = (int)lua_objlen(L, -1), top = lua_gettop(L);
  i64 size = k->v.t.dims[d];
  if (n > 3)
    ty_lua_error(L,
                 "%s: a range is {from, to, step}, got %d numbers (dim %d); a list of places "
                 "is an index tensor",
                 k->who, n, user + 1);
  key_run(k, false, d);
  if (n == 0) return;
  for (int i = 1; i <= 3; i++) lua_rawgeti(L, top, i);
  double a = range_end(L, k, top + 1, size, user);
  double b = n > 1 ? range_end(L, k, top + 2, size, user) : a;
  double s = 1;
  if (n > 2) {
    if (lua_type(L, top + 3) != LUA_TNUMBER)
      ty_lua_error(L, "%s: the step of a range must be a number, got %s (dim %d)", k->who,
                   ty_lua_show(L, top + 3), user + 1);
    s = lua_tonumber(L, top + 3);
  }
  lua_settop(L, top);
  key_span(L, k, d, user, a, b, s);
}

static void key_tensor(lua_State *L, Key *k, const Tensor *t, int d, int user) {
  if (k->nadv == MAX_RANK) ty_lua_error(L, "%s: more than %d index tensors", k->who, MAX_RANK);
  Adv *a = &k->adv[k->nadv++];
  *a = (Adv){.t = t, .dim = d, .user = user, .ndim = 1};
  key_run(k, true, d);
  if (t->type.dtype != T_BOOL) return;
  a->ndim = t->type.rank;
  for (int i = 0; i < a->ndim; i++)
    if (t->type.dims[i] != k->v.t.dims[d + i])
      ty_lua_error(L, "%s: a mask %s does not fit, dim %d has %lld places", k->who,
                   ty_lua_view_text(L, &t->type), user + i + 1, (long long)k->v.t.dims[d + i]);
}

typedef enum { E_NUMBER, E_RANGE, E_TENSOR, E_FILL, E_NEW } EntryKind;

/* What the entry at the top of the stack is; raises on what is none. A table that begins with a
** table or a boolean is an index tensor or a mask in the making: it takes the table's place on the stack. */
static EntryKind entry_kind(lua_State *L, State *S, const Key *k, int number) {
  int top = lua_gettop(L);
  switch (lua_type(L, top)) {
  case LUA_TNUMBER: return E_NUMBER;
  case LUA_TTABLE: {
    lua_rawgeti(L, top, 1);
    const int type = lua_type(L, -1);
    if (type == LUA_TBOOLEAN) lua_pushvalue(L, top); /* a mask */
    else if (type == LUA_TTABLE && lua_objlen(L, top) != 1)
      ty_lua_error(L, "%s: entry %d of the key: a list of places is {{i, j, ...}}", k->who, number);
    const bool list = type == LUA_TBOOLEAN || type == LUA_TTABLE;
    if (list) {
      ty_lua_view_table(L, S, k->who, lua_gettop(L), AS_PLACES, k->v.t.device);
      lua_replace(L, top);
    }
    lua_settop(L, top);
    if (!list) return E_RANGE;
    return E_TENSOR;
  }
  case LUA_TSTRING:
    if (!strcmp(lua_tostring(L, top), "...")) return E_FILL;
    if (!strcmp(lua_tostring(L, top), "new")) return E_NEW;
    break;
  default: {
    const Tensor *t = ty_lua_test(L, top);
    if (!t) break;
    if (!t->st) ty_lua_error(L, "%s: entry %d of the key was released", k->who, number);
    if (ty_is_float(t->type.dtype) || ty_is_complex(t->type.dtype))
      ty_lua_error(L, "%s: an index tensor must be of integers or bool, got %s (use :to(\"i64\"))",
                   k->who, ty_lua_view_text(L, &t->type));
    return E_TENSOR;
  }
  }
  ty_lua_error(
      L, "%s: entry %d of the key must be a number, a range, a tensor, \"...\" or \"new\", got %s",
      k->who, number, ty_lua_show(L, top));
  return E_NEW;
}

/* Dims of x that an entry uses up. */
static int entry_dims(lua_State *L, EntryKind kind) {
  const Tensor *t = kind == E_TENSOR ? ty_lua_test(L, -1) : NULL;
  if (kind == E_FILL || kind == E_NEW) return 0;
  return t && t->type.dtype == T_BOOL ? t->type.rank : 1;
}

/* The entries are made a list without holes at stack index `list`: an entry that is nil raises. */
static int entry_count(lua_State *L, const Key *k, int list) {
  int n = (int)lua_objlen(L, list), seen = 0;
  for (lua_pushnil(L); lua_next(L, list); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TNUMBER)
      ty_lua_error(L, "%s: the key's table must be a list, it has the key %s", k->who,
                   ty_lua_show(L, lua_gettop(L) - 1));
    seen++;
  }
  if (seen != n) ty_lua_error(L, "%s: an entry of the key is nil", k->who);
  return n;
}

/* Reads the key at stack index 2 for the tensor x. Index tensors made on the way stay on the stack.
 */
static void key_read(lua_State *L, State *S, const Tensor *x, Key *k, const char *who) {
  int list = 2, n = 1, used = 0, fill = -1;
  *k = (Key){.v = ty_lua_view_of(x), .who = who};
  if (lua_isnil(L, 2)) ty_lua_error(L, "%s: the key is nil", who);
  if (lua_type(L, 2) != LUA_TTABLE) { /* one entry without its table */
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, 2);
    lua_rawseti(L, -2, 1);
    list = lua_gettop(L);
  }
  n = entry_count(L, k, list);
  if (n > 4 * MAX_RANK) ty_lua_error(L, "%s: %d entries are too many", who, n);
  luaL_checkstack(L, n + 64, who);
  EntryKind kind[4 * MAX_RANK];
  int base = lua_gettop(L), fresh = 0;
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, list, i + 1);
    kind[i] = entry_kind(L, S, k, i + 1);
    used += entry_dims(L, kind[i]);
    fresh += kind[i] == E_NEW;
    if (kind[i] != E_FILL) continue;
    if (fill >= 0) ty_lua_error(L, "%s: \"...\" stands twice in the key", who);
    fill = i;
  }
  if (used > x->type.rank)
    ty_lua_error(L, "%s: the key stands for %d dims, %s has %d", who, used,
                 ty_lua_view_text(L, &x->type), x->type.rank);
  if (x->type.rank + fresh > MAX_RANK)
    ty_lua_error(L, "%s: \"new\" makes more than %d dims", who, MAX_RANK);
  for (int i = 0, d = 0, user = 0; i < n; i++) {
    lua_pushvalue(L, base + 1 + i);
    switch (kind[i]) {
    case E_NUMBER: key_number(L, k, lua_tonumber(L, -1), d, user++); break;
    case E_RANGE: key_range(L, k, d++, user++); break;
    case E_TENSOR:
      key_tensor(L, k, ty_lua_test(L, -1), d, user);
      d += k->adv[k->nadv - 1].ndim;
      user += k->adv[k->nadv - 1].ndim;
      break;
    case E_FILL:
      key_run(k, false, d);
      d += x->type.rank - used;
      user += x->type.rank - used;
      break;
    case E_NEW: key_run(k, false, d); ty_lua_view_insert(&k->v, d++, 1, 0);
    }
    lua_pop(L, 1);
  }
}

/* Whether the key at stack index 2 is a tensor, or a table with so many: the call is of several operations. */
static bool has_tensors(lua_State *L, int least) {
  int n = ty_lua_test(L, 2) ? least : 0;
  for (int i = lua_type(L, 2) == LUA_TTABLE ? (int)lua_objlen(L, 2) : 0; i > 0 && n < least; i--) {
    lua_rawgeti(L, 2, i);
    n += lua_type(L, -1) == LUA_TUSERDATA;
    lua_pop(L, 1);
  }
  return n >= least;
}

int ty_lua_index(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, READ, 1);
  if (lua_type(L, 2) == LUA_TNUMBER) { /* the common case, without a list */
    Key k = {.v = ty_lua_view_of(x), .who = READ};
    if (x->type.rank == 0)
      return ty_lua_error(L, READ ": a 0-d tensor has no places; use item() for its number");
    key_number(L, &k, lua_tonumber(L, 2), 0, 0);
    ty_lua_view_push(L, x, &k.v);
    return 1;
  }
  if (has_tensors(L, 2)) TY_LUA_ANSWERED(L, S, READ);
  Key k;
  key_read(L, S, x, &k, READ);
  if (k.nadv) return ty_lua_places_read(L, S, x, &k);
  ty_lua_view_push(L, x, &k.v);
  return 1;
}

int ty_lua_view_slice(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "slice", 1);
  int d = ty_lua_dim(L, "slice", 2, x->type.rank, -1);
  Key k = {.v = ty_lua_view_of(x), .who = "slice"};
  i64 size = x->type.dims[d];
  lua_settop(L, 5);
  double s = lua_isnil(L, 5) ? 1 : ty_lua_number(L, "slice", 5, "step");
  double low = 1, high = (double)size;
  double a = !lua_isnil(L, 3) ? range_end(L, &k, 3, size, d) : s < 0 ? high : low;
  double b = !lua_isnil(L, 4) ? range_end(L, &k, 4, size, d) : s < 0 ? low : high;
  key_span(L, &k, d, d, a, b, s);
  ty_lua_view_push(L, x, &k.v);
  return 1;
}

/* --- assignment */

/* The value at stack index 3, as an operand for an x of that dtype: tables become tensors of it. */
static Given value(lua_State *L, State *S, int dtype, int device) {
  if (lua_type(L, 3) == LUA_TTABLE)
    return (Given){.kind = O_TENSOR,
                   .t = ty_lua_view_table(L, S, WRITE, 3, ty_dtype_part(dtype), device)};
  Given v = ty_lua_operand(L, WRITE, 3);
  if (v.kind == O_TENSOR && ty_is_complex(v.t->type.dtype) && !ty_is_complex(dtype))
    ty_lua_error(L, WRITE ": complex numbers do not go into %s (take :real(), :imag() or :abs())",
                 ty_dtypes[dtype].name);
  if (v.kind == O_NUMBER && !ty_is_float(dtype) && !ty_is_complex(dtype)) {
    u64 raw = 0;
    ty_elem_store(dtype, &raw, v.v);
    if (ty_elem_load(dtype, &raw) != v.v)
      ty_lua_error(L, WRITE ": %.17g does not fit %s", v.v, ty_dtypes[dtype].name);
  }
  if (v.kind == O_TENSOR && ty_is_float(v.t->type.dtype) && !ty_is_float(dtype) &&
      !ty_is_complex(dtype))
    ty_lua_error(L, WRITE ": %s values do not go into %s (use :to(\"%s\") to cut them)",
                 ty_dtypes[v.t->type.dtype].name, ty_dtypes[dtype].name, ty_dtypes[dtype].name);
  return v;
}

/* It returns x, which Lua drops: calls that came before are answered with what they write. */
int ty_lua_newindex(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, WRITE, 1);
  Key k;
  lua_settop(L, 3);
  if (lua_type(L, 2) == LUA_TNUMBER && x->type.rank > 0) {
    k = (Key){.v = ty_lua_view_of(x), .who = WRITE};
    key_number(L, &k, lua_tonumber(L, 2), 0, 0);
  } else {
    if (has_tensors(L, 1)) TY_LUA_ANSWERED(L, S, WRITE);
    key_read(L, S, x, &k, WRITE);
  }
  Given v = value(L, S, x->type.dtype, x->type.device);
  if (k.nadv) {
    ty_lua_places_write(L, S, x, &k, &v);
  } else {
    const Tensor *dst = ty_lua_view_push(L, x, &k.v);
    TY_LUA_MUST(L, S, ty_remade_assign(S, WRITE, dst, &v));
  }
  lua_settop(L, 1);
  return 1;
}
