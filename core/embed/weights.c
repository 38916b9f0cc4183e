/*
** weights.c -- weights that models of several engines share: tensors by name, in memory that never changes.
** In: a file, read by an engine; engines. Out: tensors of theirs over the same bytes. Fails when the file cannot be read,
** and out of memory.
**
** The memory belongs to no engine, and is counted by an atomic number: one for the handle, one for each tensor of an engine
** that looks at it, one while somebody loads. Each engine has buffers of its own over it, foreign and not exposed: nobody
** writes to such a buffer, who writes to the tensor gets another one. So nothing of an engine's is known to another.
*/
#include <stdatomic.h>
#include "embed/embed.h"

typedef struct Weight {
  char *name;
  Type type;
  void *data;
  i64 bytes;
} Weight;

struct Weights {
  _Atomic i64 refs;
  int n;
  Weight *weight;
};

static void hold(void *p) {
  Weights *w = p;
  atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
}

void ty_embed_weights_drop(void *p) {
  Weights *w = p;
  if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
  for (int i = 0; i < w->n; i++) {
    ty_buf_free(w->weight[i].data, w->weight[i].bytes);
    ty_mem_free(w->weight[i].name);
  }
  ty_mem_free(w->weight);
  ty_mem_free(w);
}

Weights *ty_embed_weights_hold(const ty_weights *handle) {
  return ty_handle_hold(handle, HANDLE_WEIGHTS, hold);
}

/* --- read by an engine */

typedef struct Reading {
  Universe *U;
  const char *path;
  Weights *w;
} Reading;

/* The tensor on top becomes another one of the weights. */
static void add(lua_State *L, Weights *w, State *S, const char *name) {
  const Tensor *t = ty_lua_check(L, "weights", lua_gettop(L));
  const void *p = ty_tensor_bits(S, t);
  Weight *y = &w->weight[w->n];
  *y = (Weight){.type = t->type, .bytes = ty_type_bytes(&t->type)};
  y->type.device = 0;
  if (!p) ty_lua_fail(L, S);
  y->name = ty_mem_alloc(strlen(name) + 1);
  y->data = y->name ? ty_buf_alloc(y->bytes) : NULL;
  if (!y->data) {
    ty_mem_free(y->name);
    luaL_error(L, "out of memory (%f bytes)", (double)y->bytes);
  }
  memcpy(y->name, name, strlen(name) + 1);
  if (y->bytes) memcpy(y->data, p, (size_t)y->bytes);
  w->n++;
}

static int read_all(lua_State *L) {
  const Reading *r = lua_touserdata(L, lua_upvalueindex(3));
  int n = 0;
  ty_embed_push_lua(L, r->U, "weights");
  lua_pushstring(L, r->path);
  lua_call(L, 1, 1);
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) n++;
  if (!(r->w->weight = ty_mem_zalloc(sizeof(Weight) * (size_t)(n + 1))))
    luaL_error(L, "out of memory");
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
    add(L, r->w, ty_lua_state(L), lua_tostring(L, -2));
  return 0;
}

static int read_weights(lua_State *L) {
  ty_embed_push_function(L, read_all, lua_touserdata(L, 1));
  lua_call(L, 0, 0);
  return 0;
}

ty_status ty_weights_load(ty_engine *engine, const char *path, ty_weights **weights) {
  ty_status y;
  Slot *lock;
  if (!weights) return ty_failed(TY_INVALID, "ty_weights_load: where they are to go is NULL");
  *weights = NULL;
  if (!path) return ty_failed(TY_INVALID, "ty_weights_load: the path is NULL");
  Universe *U = ty_handle_enter(engine, HANDLE_ENGINE, "ty_weights_load", &lock, &y);
  if (!U) return y;
  Reading r = {U, path, ty_mem_zalloc(sizeof(Weights))};
  y = r.w ? TY_OK : ty_failed(TY_NO_MEMORY, "ty_weights_load: out of memory");
  if (r.w) {
    atomic_init(&r.w->refs, 1);
    y = ty_embed_protect(U, "ty_weights_load", read_weights, &r);
    if (!y && !(*weights = ty_handle_new(HANDLE_WEIGHTS, r.w, NULL)))
      y = ty_failed(TY_NO_MEMORY, "ty_weights_load: out of memory");
    if (y) ty_embed_weights_drop(r.w);
  }
  ty_handle_leave(lock);
  return y;
}

ty_status ty_weights_free(ty_weights *weights) {
  Weights *w = ty_handle_end(weights, HANDLE_WEIGHTS);
  if (!w)
    return ty_failed(TY_CLOSED, "ty_weights_free: these weights were freed, or never were any");
  ty_embed_weights_drop(w);
  return TY_OK;
}

/* --- tensors of an engine over them */

static int push_all(lua_State *L) {
  Weights *w = lua_touserdata(L, lua_upvalueindex(3));
  State *S = ty_lua_enter(L);
  lua_createtable(L, 0, w->n);
  for (int i = 0; i < w->n; i++) {
    const Weight *x = &w->weight[i];
    lua_pushstring(L, x->name);
    Tensor *t = ty_lua_push(L);
    const Owner owner = {ty_embed_weights_drop, w};
    if (!TY_LUA_TRY(L, S, ty_tensor_lent(S, t, &x->type, x->data, owner))) ty_lua_fail(L, S);
    hold(w);
    lua_rawset(L, 1);
  }
  return 1;
}

void ty_embed_push_weights(lua_State *L, Weights *w) {
  ty_embed_push_function(L, push_all, w);
  lua_call(L, 0, 1);
}

static bool is_all(const Tensor *t) {
  return t->st && !t->offset &&
         ty_type_numel(&t->type) * ty_dtype_width(t->type.dtype) == t->st->numel &&
         ty_tensor_is_contiguous(t);
}

/* Of the same elements, which both have in the same order. */
int ty_embed_share(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *t = ty_lua_check(L, "share", 1), *from = ty_lua_check(L, "share", 2);
  Storage *st = t->st;
  if (!is_all(t) || !is_all(from) || !ty_type_equal(&t->type, &from->type) || from->st->recording ||
      !from->st->buf || !from->st->buf->foreign || from->st->buf->exposed)
    return 0;
  ty_storage_touch(st);
  ty_storage_settle(st, ty_buffer_hold(from->st->buf));
  st->version++;
  return 0;
}
