/*
** lua_view_base.c -- Views: the dims, offset and strides of a tensor while they are being changed.
** In: a tensor, dims. Out: a View, or a tensor on the stack that shares the storage, or a copy where strides cannot say
** it. Raises when out of memory.
*/
#include "lua/lua_view.h"
#include "record/capture.h"

View ty_lua_view_of(const Tensor *x) {
  View v = {.t = x->type, .offset = x->offset};
  memcpy(v.strides, x->strides, sizeof v.strides);
  return v;
}

void ty_lua_view_drop(View *v, int d) {
  int rank = --v->t.rank;
  for (; d < rank; d++) {
    v->t.dims[d] = v->t.dims[d + 1];
    v->strides[d] = v->strides[d + 1];
  }
  v->t.dims[rank] = v->strides[rank] = 0; /* unused dims are zero: types compare as bytes */
}

void ty_lua_view_insert(View *v, int d, i64 size, i64 stride) {
  for (int i = v->t.rank++; i > d; i--) {
    v->t.dims[i] = v->t.dims[i - 1];
    v->strides[i] = v->strides[i - 1];
  }
  v->t.dims[d] = size;
  v->strides[d] = stride;
}

Tensor *ty_lua_view_push(lua_State *L, const Tensor *x, const View *v) {
  Tensor *y = ty_lua_push(L);
  ty_tensor_view(y, x, &v->t, v->offset, v->strides);
  return y;
}

Tensor *ty_lua_view_reshape(lua_State *L, State *S, const Tensor *x, const Type *t) {
  View v = {.t = *t, .offset = x->offset};
  TY_LUA_MUST(L, S, ty_capture_decide(S, x, t));
  if (ty_tensor_reshape(x, t, v.strides)) return ty_lua_view_push(L, x, &v);
  Tensor *y = ty_lua_push(L), c = {0};
  TY_LUA_MUST(L, S, ty_record_copy(S, x, y));
  c = *y; /* the copy is contiguous: only its dims change */
  y->type = *t;
  ty_type_strides(t, y->strides);
  y->offset = c.offset;
  return y;
}

const char *ty_lua_view_text(lua_State *L, const Type *t) {
  char buf[256];
  ty_type_print(t, buf, sizeof buf);
  lua_pushstring(L, buf);
  return lua_tostring(L, -1);
}
