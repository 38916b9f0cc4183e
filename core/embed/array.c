/*
** array.c -- arrays of the host's to values of Lua's, and back.
** In: arrays; values on Lua's stack. Out: the same as the other. Fails where an array is none (ty_embed_check), out of memory
** by an error of Lua's.
**
** Who owns what. The elements of an argument are lent: the tensor's buffer is foreign and not exposed, so nobody writes to
** them, and a compiled function packs nothing of them for later, since their stamp changes with each call. After the call
** nobody but the handle must know the tensor: TRACE_BORROWED answers only by traces that keep nothing, and results that
** look at an argument are copied. Then the handle serves the next call, else it is let go of. Where no such trace answers,
** arguments are copied before the function runs; those with strides are copied anyway, since traces are captured of copies. A result's buffer is held, so that who writes to the tensor after the call
** writes to another buffer.
*/
#include <math.h>
#include <stdio.h>
#include "embed/model.h"

#define CODE(T) ((int)(T) + 1) /* dtypes are those of type.h, behind nil */
#define SAME(NAME) _Static_assert(TY_##NAME == CODE(T_##NAME), "one numbering of dtypes");
SAME(BOOL)
SAME(U8)
SAME(I8)
SAME(I16)
SAME(I32)
SAME(I64)
SAME(F16)
SAME(BF16)
SAME(F32)
SAME(F64)
SAME(U16)
SAME(U32)
SAME(U64)
SAME(C64)
SAME(C128)
_Static_assert(TY_NUMBER == CODE(T_ALL), "one numbering of dtypes");
_Static_assert(TY_RANK_MAX == MAX_RANK, "ranks");

static bool is_tensor(const ty_array *a) { return a->dtype >= TY_BOOL && a->dtype < TY_NUMBER; }

static Type type_of(const ty_array *a) {
  Type t = {.dtype = (u8)(a->dtype - 1), .rank = (u8)a->rank};
  for (int d = 0; d < a->rank; d++) t.dims[d] = a->shape[d];
  return t;
}

/* --- checks */

/* Whether the elements lie within what an address space may have. */
static bool has_span(const ty_array *a) {
  i64 low = 0, high = 0, far;
  for (int d = 0; d < a->rank; d++)
    if (!a->shape[d]) return true;
  for (int d = 0; d < a->rank; d++) {
    const i64 step = a->strides[d];
    if (!ty_mul(a->shape[d] - 1, step, &far)) return false;
    if (!ty_add(step < 0 ? low : high, far, step < 0 ? &low : &high)) return false;
  }
  return low >= -((i64)1 << 47) && high <= (i64)1 << 47;
}

ty_status ty_embed_check(const ty_array *a, const char *who, int i) {
#define REFUSE(...) return ty_failed(TY_INVALID, __VA_ARGS__)
  if (a->dtype < TY_NIL || a->dtype > TY_TEXT)
    REFUSE("%s: argument %d: there is no dtype %d", who, i, (int)a->dtype);
  if (a->name) REFUSE("%s: argument %d: arguments go by position, not by name", who, i);
  if (a->dtype == TY_TEXT) {
    if (a->shape[0] < 0 || a->shape[0] > INT32_MAX || (!a->data && a->shape[0]))
      REFUSE("%s: argument %d: a text of %lld bytes%s", who, i, (long long)a->shape[0],
             a->data ? "" : " at NULL");
    return TY_OK;
  }
  if (!is_tensor(a)) return TY_OK;
  if (a->rank < 0 || a->rank > MAX_RANK)
    REFUSE("%s: argument %d: rank %d is not from 0 to %d", who, i, a->rank, MAX_RANK);
  for (int d = 0; d < a->rank; d++)
    if (a->shape[d] < 0)
      REFUSE("%s: argument %d: size %d is negative, %lld", who, i, d, (long long)a->shape[d]);
  const Type t = type_of(a);
  if (!ty_type_fits(&t)) REFUSE("%s: argument %d: its sizes are too large for any memory", who, i);
  const bool empty = !ty_type_numel(&t);
  if (a->strided && !has_span(a))
    REFUSE("%s: argument %d: its strides lead out of any memory", who, i);
  if (!a->data && !empty) REFUSE("%s: argument %d: its data is NULL", who, i);
  return TY_OK;
#undef REFUSE
}

/* --- arguments */

static void copy_strided(char *to, const char *from, const Type *t, const i64 *strides) {
  const i64 n = ty_type_numel(t), size = ty_dtypes[t->dtype].bytes;
  Walk w = {{0}, 0};
  for (i64 i = 0; i < n; i++) {
    memcpy(to + i * size, from + w.offset * size, (size_t)size);
    ty_walk_next(&w, t, strides);
  }
}

/* A tensor of its own with the array's elements. */
static void push_copy(lua_State *L, Model *m, const ty_array *a) {
  State *S = &m->U->B->S;
  const Type t = type_of(a);
  Tensor *y = ty_lua_push(L);
  if (!a->strided) {
    if (!TY_LUA_TRY(L, S, ty_tensor_from(S, y, &t, a->data))) ty_lua_fail(L, S);
    return;
  }
  if (!TY_LUA_TRY(L, S, ty_tensor_from(S, y, &t, NULL))) ty_lua_fail(L, S);
  y->st->buf->born = 0;
  copy_strided(y->st->buf->data, a->data, &t, a->strides);
}

/* The handle of the call before, over other elements. */
static void lend_again(Tensor *t, const Type *type, const void *data) {
  Storage *st = t->st;
  st->numel = ty_type_numel(type) * ty_dtype_width(type->dtype);
  st->dtype = (u8)ty_dtype_part(type->dtype);
  st->buf->data = (void *)(uintptr_t)data;
  st->buf->bytes = st->numel * ty_dtypes[st->dtype].bytes;
  ty_buffer_changed(st->buf);
  t->type = *type;
  ty_type_strides(type, t->strides);
}

static bool is_aligned(const ty_array *a) {
  return (uintptr_t)a->data % ty_dtypes[ty_dtype_part(a->dtype - 1)].bytes == 0;
}

static void push_lent(lua_State *L, Model *m, int i, int inputs) {
  State *S = &m->U->B->S;
  const ty_array *a = &m->argument[i];
  const Type t = type_of(a);
  Input *in = &m->input[i];
  if (in->t) {
    lua_rawgeti(L, inputs, i + 1);
    lend_again(in->t, &t, a->data);
    in->lent = true;
    return;
  }
  Tensor *y = ty_lua_push(L);
  if (!TY_LUA_TRY(L, S, ty_tensor_lent(S, y, &t, a->data, (Owner){0}))) ty_lua_fail(L, S);
  in->lent = true;
  in->t = y;
  lua_pushvalue(L, -1);
  lua_rawseti(L, inputs, i + 1);
}

void ty_embed_push_argument(lua_State *L, Model *m, int i, bool lend, int inputs) {
  const ty_array *a = &m->argument[i];
  switch (a->dtype) {
  case TY_NIL: lua_pushnil(L); break;
  case TY_NUMBER: lua_pushnumber(L, a->number); break;
  case TY_LOGICAL: lua_pushboolean(L, a->number != 0); break;
  case TY_TEXT: lua_pushlstring(L, a->data ? a->data : "", (size_t)a->shape[0]); break;
  default:
    if (lend && !a->copy && !a->strided && is_aligned(a)) push_lent(L, m, i, inputs);
    else push_copy(L, m, a);
  }
}

/* --- results */

static bool is_lent(const Model *m, const Storage *st) {
  for (int i = 0; i < m->narguments; i++)
    if (m->input[i].lent && m->input[i].t && m->input[i].t->st == st) return true;
  return false;
}

static bool copy_of(State *S, const Tensor *x, Tensor *y) {
  return x->type.device ? ty_record_to(S, x, 0, y) : ty_record_copy(S, x, y);
}

/* The tensor at index i, or a copy that stands there then, whose elements lie row by row in memory that stays. */
static const void *read_tensor(lua_State *L, const Model *m, int i, Tensor **t) {
  State *S = &m->U->B->S;
  Tensor *x = *t;
  if (!x->st) luaL_error(L, "a result is a tensor that was released");
  const void *p = ty_tensor_is_contiguous(x) && !x->type.device ? ty_tensor_bits(S, x) : NULL;
  if (p && !is_lent(m, x->st)) return p;
  Tensor *y = ty_lua_push(L);
  if (!TY_LUA_TRY(L, S, p ? ty_tensor_from(S, y, &x->type, p) : copy_of(S, x, y)))
    ty_lua_fail(L, S);
  lua_replace(L, i);
  *t = y;
  if (!ty_tensor_is_contiguous(y)) return read_tensor(L, m, i, t);
  if (!(p = ty_tensor_bits(S, y))) ty_lua_fail(L, S);
  return p;
}

static void read_value(lua_State *L, int i, ty_array *a) {
  size_t n;
  switch (lua_type(L, i)) {
  case LUA_TNUMBER: a->dtype = TY_NUMBER, a->number = lua_tonumber(L, i); break;
  case LUA_TBOOLEAN: a->dtype = TY_LOGICAL, a->number = lua_toboolean(L, i); break;
  case LUA_TSTRING:
    a->dtype = TY_TEXT, a->rank = 1;
    a->data = lua_tolstring(L, i, &n);
    a->shape[0] = (i64)n, a->strides[0] = 1;
    break;
  case LUA_TNIL: break;
  default: a->dtype = (ty_dtype)-1; break; /* ty_result says so */
  }
}

void ty_embed_read(lua_State *L, Model *m, int i, int k, bool own) {
  Outcome *y = &m->result[k];
  ty_array *a = &y->array;
  const char *name = a->name;
  Tensor *t = own ? lua_touserdata(L, i) : ty_lua_test(L, i), *before = t;
  *y = (Outcome){.array = {.name = name}};
  m->nresults = k + 1;
  if (!t) {
    read_value(L, i, a);
    return;
  }
  a->data = read_tensor(L, m, i, &t);
  y->held = ty_buffer_hold(t->st->buf);
  a->dtype = (ty_dtype)CODE(t->type.dtype);
  a->rank = t->type.rank;
  for (int d = 0; d < a->rank; d++) a->shape[d] = t->type.dims[d];
  ty_type_strides(&t->type, a->strides);
  for (int d = 0; d < a->rank; d++) a->strides[d] /= ty_dtype_width(t->type.dtype);
  if (own && t != before) ty_tensor_release(before); /* a copy stands there */
  if (own) y->own = t;
}
