/*
** lua_custom.c -- a captured graph leaves for passes and backends of users, and what they made of it
** takes its place.
** In: the session of a capture and the tensors of its description; then, call by call, what guards
** have read. Out: the graph as text with examples of its inputs; results of the user's function in
** the storages that wait for them. A graph that will not do refuses the capture. What the user's
** function raises is raised by the call, and nothing is written then.
**
** Rules.
** 1. Inputs are handed out as tensors of their own over the same buffers: who writes to them gets a
**    copy. Results are taken over in the same way.
** 2. The function may do anything: what it was given is asked again before anything is written.
*/
#include "lua/lua_trace.h"

/* Pushes a tensor that sees the buffer as the input's node does. */
static void push_view(lua_State *L, State *S, const Node *n, Buffer *buf, i64 offset) {
  Tensor *y = ty_lua_push(L);
  Storage *st =
      ty_storage_new(S, n->type.dtype, n->type.device, buf->bytes / ty_dtypes[n->type.dtype].bytes);
  if (!st) ty_lua_fail(L, S);
  ty_storage_settle(st, ty_buffer_hold(buf));
  y->type = n->type;
  y->offset = offset;
  memcpy(y->strides, n->arg.strides, sizeof y->strides);
  y->st = st;
}

/* --- the graph leaves */

static bool push_text(lua_State *L, const Graph *g) {
  size_t n = ty_graph_print(g, NULL, 0);
  char *buf = ty_mem_alloc(n + 1);
  if (!buf) return false;
  ty_graph_print(g, buf, n + 1);
  lua_pushlstring(L, buf, n);
  ty_mem_free(buf);
  return true;
}

/* graph(tensors) -> text, list of node numbers, list of examples of the inputs; nil, reason */
static int capture_graph(lua_State *L) {
  State *S = ty_lua_state(L);
  if (!ty_lua_capture(L)) return luaL_error(L, "no capture is open");
  i32 nmade = (i32)lua_objlen(L, 1), n = 0;
  luaL_checkstack(L, 8, "graph");
  const Tensor **made =
      lua_newuserdata(L, (sizeof(void *) + 4) * (size_t)(nmade + S->capture->nwritten + 1));
  i32 *node = (i32 *)(made + nmade);
  for (i32 i = 0; i < nmade; i++) {
    lua_rawgeti(L, 1, i + 1);
    made[i] = ty_lua_test(L, -1);
    lua_pop(L, 1);
    if (!made[i] || !made[i]->st) return luaL_error(L, "a result is a tensor that was released");
  }
  const Recording *b = S->capture->recording;
  for (i32 i = 0; i < b->g.n; i++)
    if (b->g.node[i].op == OP_LOOP || b->g.node[i].op == OP_CALL)
      ty_capture_refuse(S, "has a scan or an exchange, of which passes and backends know nothing");
  if (S->capture->refused || !ty_instance_outputs(S, made, nmade, node, &n) ||
      !push_text(L, &b->g)) {
    lua_pushnil(L);
    lua_pushstring(L, S->capture->refused ? S->capture->why : "out of memory");
    return 2;
  }
  lua_createtable(L, n, 0);
  for (i32 i = 0; i < n; i++) {
    lua_pushnumber(L, node[i] + 1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_createtable(L, b->ninput, 0);
  for (i32 i = 0; i < b->ninput; i++) {
    push_view(L, S, &b->g.node[b->input[i].node], b->input[i].buf, b->input[i].offset);
    lua_rawseti(L, -2, i + 1);
  }
  return 3;
}

/* --- and comes back */

/* What stands in d.custom: {text, outputs}, or a function. The graph is the caller's to free. False:
** what is wrong, in *fault. */
bool ty_custom_read(lua_State *L, int d, Graph *g, Replacement *by, const char **fault) {
  memset(by, 0, sizeof *by);
  *fault = NULL;
  lua_getfield(L, d, "custom");
  if (!lua_istable(L, -1)) return true; /* by->g is NULL */
  lua_getfield(L, -1, "text");
  const char *text = lua_tostring(L, -1); /* the description holds it */
  lua_pop(L, 1);
  if (!text) *fault = "a graph without a text";
  else *fault = ty_graph_parse(g, text);
  lua_getfield(L, -1, "outputs");
  i32 n = (i32)lua_objlen(L, -1);
  i32 *node = lua_newuserdata(L, sizeof *node * (size_t)(n + 1)); /* stays on the stack */
  for (i32 i = 0; i < n; i++) {
    lua_rawgeti(L, -2, i + 1);
    node[i] = (i32)lua_tointeger(L, -1) - 1;
    lua_pop(L, 1);
  }
  *by = (Replacement){.g = g, .output = node, .n = n};
  return *fault == NULL;
}

/* --- a run */

static double slot_value(const State *S, const ScalarFrom *from, int dtype, const double *number) {
  static const u8 computed_in[] = {
      [C_I32] = T_I32, [C_I64] = T_I64, [C_F32] = T_F32, [C_F64] = T_F64};
  u64 bits = from->bits;
  if (from->kind == SC_NUMBER) return number[from->id];
  if (from->kind == SC_STREAM) bits += S->stream;
  if (from->kind == SC_SEED) bits = S->seed;
  return ty_elem_load(computed_in[ty_dtypes[dtype].ctype], &bits);
}

static int push_arguments(lua_State *L, State *S, const Instance *I, const Tensor *const *outside,
                          const double *number) {
  for (i32 i = 0; i < I->ninput; i++) {
    const InstanceInput *in = &I->input[i];
    const Tensor *t = in->outside < 0 ? NULL : outside[in->outside];
    push_view(L, S, &I->foreign->input[i], t ? t->st->buf : in->constant,
              in->delta + (t ? t->offset : 0));
  }
  for (i32 k = 0; k < I->nscalar; k++)
    lua_pushnumber(L, slot_value(S, &I->scalar[k], I->foreign->slot[k], number));
  return I->ninput + I->nscalar;
}

/* The tensor's elements in a buffer of their own, held; NULL: S->err. */
static Buffer *take(State *S, const Tensor *t) {
  if (!ty_tensor_read(S, t)) return NULL;
  Buffer *buf = t->st->buf;
  i64 bytes = ty_type_bytes(&t->type);
  if (t->offset == 0 && buf->bytes == bytes && !buf->exposed && !buf->foreign &&
      ty_tensor_is_contiguous(t))
    return ty_buffer_hold(buf);
  Tensor copy = {0};
  if (!ty_record_copy(S, t, &copy)) return NULL;
  if (ty_tensor_read(S, &copy)) buf = ty_buffer_hold(copy.st->buf);
  else buf = NULL;
  ty_tensor_release(&copy);
  return buf;
}

static bool still_there(State *S, Instance *I, const Tensor *const *outside, const double *number) {
  const char *why;
  for (i32 i = 0; i < I->noutside; i++)
    if (!outside[i]->st) return false;
  return ty_instance_fits(I, outside) &&
         ty_instance_ready(S, I, outside, number, &why) == READY_YES;
}

/* The results lie from `first` on, and `result` has room for them. False: S->err; nothing was written. */
static bool give(lua_State *L, State *S, Instance *I, const Tensor *const *outside,
                 const double *number, Tensor *const *made, int first, Buffer **result) {
  i32 n = 0;
  bool ok = lua_gettop(L) - first + 1 == I->ntarget;
  for (; ok && n < I->ntarget; n++) {
    const Tensor *t = ty_lua_test(L, first + n);
    if (!t || !t->st || !ty_type_equal(&t->type, &I->foreign->result[n])) break;
    if (!(result[n] = take(S, t))) {
      ok = false;
      break;
    }
  }
  if (ok && n < I->ntarget)
    ok = ty_fail(S, "backend: result %d is not what it must be", (int)n + 1);
  else if (!ok && n == 0 && lua_gettop(L) - first + 1 != I->ntarget)
    ty_fail(S, "backend: %d results instead of %d", lua_gettop(L) - first + 1, (int)I->ntarget);
  if (ok && !still_there(S, I, outside, number))
    ok = ty_fail(S, "backend: it changed the tensors that the function uses");
  if (ok && ty_instance_give(S, I, outside, made, result)) return true;
  for (i32 i = 0; i < n; i++) ty_buffer_drop(result[i]);
  return false;
}

/* The function is on top of the stack. False: what it raised is there in its place. */
bool ty_custom_run(lua_State *L, State *S, Instance *I, const Tensor *const *outside,
                   const double *number, Tensor *const *made) {
  Buffer **result = lua_newuserdata(L, sizeof *result * (size_t)(I->ntarget + 1));
  lua_insert(L, -2);
  int f = lua_gettop(L);
  u64 seed = S->seed, stream = S->stream;
  luaL_checkstack(L, I->ninput + I->nscalar + I->ntarget + 16, "backend");
  int n = push_arguments(L, S, I, outside, number);
  bool ok = lua_pcall(L, n, LUA_MULTRET, 0) == 0;
  if (ok) {
    S->open = NULL; /* whatever it left open: results are wanted now */
    S->seed = seed;
    S->stream = stream;
    ok = give(L, S, I, outside, number, made, f, result);
    lua_settop(L, f - 1);
    if (!ok) lua_pushstring(L, S->err);
  }
  lua_remove(L, f - 1); /* the room for results */
  return ok;
}

void ty_lua_open_custom(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"graph", capture_graph}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_getfield(L, -1, "capture");
  ty_lua_register(L, fns);
  lua_pop(L, 2);
}
