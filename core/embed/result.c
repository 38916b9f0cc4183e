/*
** result.c -- what a model's last call gave.
** In: values on Lua's stack. Out: arrays, by position or by name. Fails where there is none, and out of memory, by an error
** of Lua's.
*/
#include <stdlib.h>
#include "embed/model.h"

void ty_embed_drop_results(Model *m) {
  for (int i = 0; i < m->nresults; i++) {
    Outcome *y = &m->result[i];
    ty_buffer_drop(y->held);
    if (y->own) ty_tensor_release(y->own);
  }
  m->nresults = 0;
}

static void reserve(lua_State *L, Model *m, int n) {
  luaL_checkstack(L, n + LUA_MINSTACK, "too many results");
  if (n <= m->room) return;
  Outcome *more = ty_mem_realloc(m->result, (size_t)n * sizeof *more);
  if (!more) luaL_error(L, "out of memory for %d results", n);
  m->result = more;
  m->room = n;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Pushes the fields of the table at index t, and notes their names. Gives how many there are. */
static int push_fields(lua_State *L, Model *m, int t) {
  const int n = (int)TY_MIN(lua_objlen(L, t), 4096);
  int named = 0, k = 0;
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) named += lua_type(L, -2) == LUA_TSTRING;
  reserve(L, m, n + named);
  const char **names = lua_newuserdata(L, sizeof *names * (size_t)(named + 1));
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING && k < named) names[k++] = lua_tostring(L, -2);
  qsort(names, (size_t)k, sizeof *names, compare_names);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, t, i + 1);
    m->result[i].array.name = NULL;
  }
  for (int i = 0; i < k; i++) {
    lua_getfield(L, t, names[i]);
    m->result[n + i].array.name = names[i];
  }
  return n + k;
}

void ty_embed_read_results(lua_State *L, Model *m, int first, u64 own) {
  int n = lua_gettop(L) - first + 1;
  const bool fields = n == 1 && lua_type(L, first) == LUA_TTABLE;
  reserve(L, m, n);
  if (fields) n = push_fields(L, m, first), first = lua_gettop(L) - n + 1, own = 0;
  for (int i = 0; i < n; i++) {
    if (!fields) m->result[i].array.name = NULL;
    ty_embed_read(L, m, first + i, i, i < 64 && own >> i & 1);
  }
}

/* --- what the host asks for */

ty_status ty_results(ty_model *model, int *n) {
  ty_status y;
  Slot *lock;
  const Model *m = ty_handle_ask(model, HANDLE_MODEL, "ty_results", n, "the number", &lock, &y);
  if (!m) return y;
  *n = m->nresults;
  ty_handle_leave(lock);
  return TY_OK;
}

static ty_status give(const Outcome *y, ty_array *result) {
  if ((int)y->array.dtype < 0)
    return ty_failed(TY_INVALID, "ty_result: the result is no tensor, number, boolean or string");
  *result = y->array;
  return TY_OK;
}

ty_status ty_result(ty_model *model, int i, ty_array *result) {
  ty_status y;
  Slot *lock;
  const Model *m = ty_handle_ask(model, HANDLE_MODEL, "ty_result", result, "the result", &lock, &y);
  if (!m) return y;
  if (i >= 0 && i < m->nresults) y = give(&m->result[i], result);
  else
    y = ty_failed(TY_INVALID, "ty_result: there is no result %d, the last call has %d", i,
                  m->nresults);
  ty_handle_leave(lock);
  return y;
}

ty_status ty_result_named(ty_model *model, const char *name, ty_array *result) {
  ty_status y;
  Slot *lock;
  if (!name) return ty_failed(TY_INVALID, "ty_result_named: the name is NULL");
  const Model *m =
      ty_handle_ask(model, HANDLE_MODEL, "ty_result_named", result, "the result", &lock, &y);
  if (!m) return y;
  y = TY_CLOSED;
  for (int i = 0; i < m->nresults && y == TY_CLOSED; i++)
    if (m->result[i].array.name && !strcmp(m->result[i].array.name, name))
      y = give(&m->result[i], result);
  if (y == TY_CLOSED)
    y = ty_failed(TY_INVALID, "ty_result_named: there is no result \"%.100s\"", name);
  ty_handle_leave(lock);
  return y;
}

/* A dtype as tycho.h names it. */
static const char *dtype_text(ty_dtype dtype) {
  static const char *const names[] = {"TY_NIL",  "TY_BOOL",   "TY_U8",      "TY_I8",   "TY_I16",
                                      "TY_I32",  "TY_I64",    "TY_F16",     "TY_BF16", "TY_F32",
                                      "TY_F64",  "TY_U16",    "TY_U32",     "TY_U64",  "TY_C64",
                                      "TY_C128", "TY_NUMBER", "TY_LOGICAL", "TY_TEXT"};
  return (unsigned)dtype <= TY_TEXT ? names[dtype] : "one that there is not";
}

ty_status ty_result_copy(ty_model *model, int i, ty_dtype dtype, void *to, size_t bytes) {
  ty_array a;
  Slot *lock;
  ty_status y = ty_result(model, i, &a);
  if (y) return y;
  if (!to) return ty_failed(TY_INVALID, "ty_result_copy: where the elements are to go is NULL");
  const Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_result_copy", &lock, &y);
  if (!m) return y;
  const void *from = a.dtype == TY_NUMBER ? &a.number : a.data;
  size_t n = a.dtype == TY_NUMBER ? sizeof a.number : 0;
  const ty_dtype has = a.dtype == TY_NUMBER ? TY_F64 : a.dtype;
  if (has > TY_NIL && has < TY_NUMBER && a.dtype != TY_NUMBER) {
    n = ty_dtypes[has - 1].bytes;
    for (int d = 0; d < a.rank; d++) n *= (size_t)a.shape[d];
  }
  if (has != dtype)
    y = ty_failed(TY_INVALID, "ty_result_copy: result %d is of another dtype: %s, not %s", i,
                  dtype_text(a.dtype), dtype_text(dtype));
  else if (n != bytes)
    y = ty_failed(TY_INVALID, "ty_result_copy: result %d has %llu bytes, not %llu", i,
                  (unsigned long long)n, (unsigned long long)bytes);
  else if (n) memcpy(to, from, n);
  ty_handle_leave(lock);
  return y;
}

ty_status ty_was_compiled(ty_model *model, int *compiled) {
  ty_status y;
  Slot *lock;
  const Model *m =
      ty_handle_ask(model, HANDLE_MODEL, "ty_was_compiled", compiled, "the answer", &lock, &y);
  if (!m) return y;
  *compiled = m->compiled;
  ty_handle_leave(lock);
  return TY_OK;
}
