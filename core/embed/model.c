/*
** model.c -- models of the C API: loaded, called, their results.
** In: files, texts, arguments. Out: results that hold until the next call. Fails where Lua raises: the text is noted, and
** the model is as good as before.
**
** A model has a thread of Lua's: function `run`, function `leave`, then the results of the last call, which it anchors.
** What a call asks, in this order, until one answers:
**   1. traces that keep neither arguments nor results, with the host's memory lent: most calls end here;
**   2. traces, with copies of the arguments;
**   3. the compiled function, as Lua calls it, which may be captured.
** Nothing is done by one that does not answer. A model whose traces keep begins with the second.
*/
#include <luajit.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/system.h"
#include "embed/embed.h"
#include "engine/entry.h"
#include "lua/lua_modes.h"

/* What is under numbers in a model's record. */
enum { ANSWER = 1, BORROWED, CALL, WARM, INPUTS, DEADLINE };
enum { RUN = 1, LEAVE }; /* on the model's thread */

static Model *running(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(3)); }

static State *state_of(const Model *m) { return &m->U->B->S; }

/* --- what a call leaves */

static void drop_results(Model *m) {
  for (int i = 0; i < m->nresults; i++) {
    Outcome *y = &m->result[i];
    ty_buffer_drop(y->held);
    if (y->own) ty_tensor_release(y->own);
  }
  m->nresults = 0;
}

static void drop_inputs(Model *m) {
  for (int i = 0; i < TY_ARGUMENTS_MAX; i++) {
    Input *in = &m->input[i];
    if (in->t) ty_tensor_release(in->t);
    *in = (Input){NULL, false};
  }
}

/* Nothing points to the host's memory any more. Handles that nobody else knows serve the next call. */
static void settle_inputs(Model *m) {
  for (int i = 0; i < m->narguments; i++) {
    Input *in = &m->input[i];
    if (!in->lent) continue;
    in->lent = false;
    const Storage *st = in->t->st;
    const bool alone = st && st->refs == 1 && st->buf && st->buf->refs == 1 && st->buf->foreign &&
                       !st->buf->exposed && !st->recording && !st->tape && !st->snapshot;
    if (alone) {
      st->buf->data = NULL;
    } else {
      ty_tensor_release(in->t);
      in->t = NULL;
    }
  }
}

/* --- the call, in Lua's protection */

static void push_arguments(lua_State *L, Model *m, bool lend, int inputs) {
  for (int i = 0; i < m->narguments; i++) ty_embed_push_argument(L, m, i, lend, inputs);
}

/* Whether a trace answers: then its results are on top, else nothing is. */
static bool ask(lua_State *L, Model *m, int record, int which, int first) {
  const struct Compiled *C = state_of(m)->engine->compiled;
  const int top = lua_gettop(L);
  lua_rawgeti(L, record, which);
  if (first) {
    for (int i = 0; i < m->narguments; i++) lua_pushvalue(L, first + i);
  } else {
    push_arguments(L, m, true, record + 1);
  }
  lua_call(L, m->narguments, LUA_MULTRET);
  if (C->part == PART_ANSWERS) return true;
  lua_settop(L, top);
  return false;
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

/* Results from index `first` on, of which `own` are handles that nobody else has, become the model's. */
static void read_results(lua_State *L, Model *m, int first, u64 own) {
  int n = lua_gettop(L) - first + 1;
  const bool fields = n == 1 && lua_type(L, first) == LUA_TTABLE;
  reserve(L, m, n);
  if (fields) n = push_fields(L, m, first), first = lua_gettop(L) - n + 1, own = 0;
  for (int i = 0; i < n; i++) {
    if (!fields) m->result[i].array.name = NULL;
    ty_embed_read(L, m, first + i, i, i < 64 && own >> i & 1);
  }
}

/* --- the end of a call's time. Operations look at a mode's, as in jit.deadline. Between them a hook does, where Lua code
** runs; code that LuaJIT has compiled knows no hooks, so it is forgotten, and none is made meanwhile. */

enum { HOOK_PERIOD = 10000 }; /* instructions */

static void look_at_time(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_UNIVERSE);
  const Universe *U = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!U || !U->until || U->B->S.capture || ty_system_now() < U->until) return;
  lua_sethook(L, look_at_time, LUA_MASKCOUNT, 1); /* behind whatever catches the error */
  luaL_error(L, TY_LUA_LATE);
}

static void set_hook(lua_State *L, Model *m) {
  if (!m->U->until || lua_gethook(L)) return; /* the host's own stays */
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH);
  lua_sethook(L, look_at_time, LUA_MASKCOUNT, HOOK_PERIOD);
  m->U->B->hook = look_at_time; /* it is no sign of Ctrl-C */
}

static void clear_hook(lua_State *L, const Model *m) {
  if (lua_gethook(L) != look_at_time) return;
  lua_sethook(L, NULL, 0, 0);
  if (m->U->jit) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_ON);
}

static void begin_deadline(lua_State *L, const Model *m, int record) {
  if (!m->U->microseconds || m->warms) return;
  lua_rawgeti(L, record, DEADLINE);
  Mode *mode = lua_touserdata(L, -1);
  lua_pop(L, 1);
  m->U->until = mode->until = ty_system_now() + m->U->microseconds * 1000;
  ty_lua_mode_open(L, mode);
}

static void end_deadline(lua_State *L, const Model *m) {
  if (!m->U->until) return;
  m->U->until = 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->record);
  lua_rawgeti(L, -1, DEADLINE);
  ty_lua_mode_close(L, lua_touserdata(L, -1));
  lua_pop(L, 2);
}

static int leave(lua_State *L) {
  end_deadline(L, running(L));
  return 0;
}

static int run(lua_State *L) {
  Model *m = running(L);
  State *S = ty_lua_enter(L);
  const struct Compiled *C = S->engine->compiled;
  luaL_checkstack(L, 2 * m->narguments + LUA_MINSTACK, "too many arguments");
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->record);
  lua_rawgeti(L, 1, INPUTS);
  begin_deadline(L, m, 1);
  bool hit = !m->warms && !m->keeps && ask(L, m, 1, BORROWED, 0);
  int first = 3;
  if (!hit) {
    drop_inputs(m);
    push_arguments(L, m, false, 2);
    first += m->narguments;
    hit = !m->warms && ask(L, m, 1, ANSWER, 3);
    if (hit) m->keeps = C->kept;
  }
  m->compiled = hit;
  if (!hit) {
    lua_rawgeti(L, 1, m->warms ? WARM : CALL);
    for (int i = 0; i < m->narguments; i++) lua_pushvalue(L, 3 + i);
    set_hook(L, m);
    lua_call(L, m->narguments, LUA_MULTRET);
    clear_hook(L, m);
  }
  read_results(L, m, first, hit && !C->kept ? C->own : 0);
  end_deadline(L, m);
  return lua_gettop(L) - first + 1;
}

static ty_status call(Model *m, const ty_array *argument, int n, const char *who) {
  lua_State *L = m->L;
  drop_results(m);
  m->argument = argument;
  m->narguments = n;
  lua_settop(L, LEAVE);
  lua_pushvalue(L, RUN);
  const int status = lua_pcall(L, 0, LUA_MULTRET, 0);
  ty_status y = TY_OK;
  if (TY_UNLIKELY(status)) {
    clear_hook(L, m);
    y = ty_embed_failed(m->U, L, who, status);
    drop_results(m);
    drop_inputs(m);
    lua_pushvalue(L, LEAVE);
    if (lua_pcall(L, 0, 0, 0)) lua_pop(L, 1);
  }
  settle_inputs(m);
  m->argument = NULL;
  return y;
}

static ty_status check(const Model *m, const ty_array *argument, int n, const char *who) {
  ty_status y = TY_OK;
  (void)m;
  if (n < 0 || n > TY_ARGUMENTS_MAX)
    return ty_failed(TY_INVALID, "%s: %d arguments, there may be from 0 to %d", who, n,
                     TY_ARGUMENTS_MAX);
  if (n && !argument) return ty_failed(TY_INVALID, "%s: the arguments are NULL", who);
  for (int i = 0; i < n && !y; i++) y = ty_embed_check(&argument[i], who, i);
  return y;
}

ty_status ty_call(ty_model *model, const ty_array *arguments, int n) {
  ty_status y;
  Slot *lock;
  Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_call", &lock, &y);
  if (!m) return y;
  y = check(m, arguments, n, "ty_call");
  m->warms = false;
  if (!y) y = call(m, arguments, n, NULL);
  ty_handle_leave(lock);
  return y;
}

ty_status ty_warmup(ty_model *model, const ty_array *arguments, int n) {
  enum { TRIES = 4 };
  ty_status y;
  Slot *lock;
  Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_warmup", &lock, &y);
  if (!m) return y;
  const i64 limit = m->U->microseconds;
  m->U->microseconds = 0;
  y = check(m, arguments, n, "ty_warmup");
  for (int i = 0; i < TRIES && !y && !(i && m->compiled); i++) {
    m->warms = i % 2 == 0;
    y = call(m, arguments, n, NULL);
  }
  m->U->microseconds = limit;
  ty_handle_leave(lock);
  return y;
}

/* --- results */

ty_status ty_results(ty_model *model, int *n) {
  ty_status y;
  Slot *lock;
  if (!n) return ty_failed(TY_INVALID, "ty_results: where the number is to go is NULL");
  Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_results", &lock, &y);
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
  if (!result) return ty_failed(TY_INVALID, "ty_result: where the result is to go is NULL");
  Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_result", &lock, &y);
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
  if (!name || !result)
    return ty_failed(TY_INVALID, "ty_result_named: %s is NULL",
                     name ? "where the result is to go" : "the name");
  Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_result_named", &lock, &y);
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
  static const char *const names[] = {"TY_NIL", "TY_BOOL",   "TY_U8",      "TY_I8",   "TY_I16",
                                      "TY_I32", "TY_I64",    "TY_F16",     "TY_BF16", "TY_F32",
                                      "TY_F64", "TY_NUMBER", "TY_LOGICAL", "TY_TEXT"};
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
  if (!compiled) return ty_failed(TY_INVALID, "ty_was_compiled: where the answer is to go is NULL");
  const Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_was_compiled", &lock, &y);
  if (!m) return y;
  *compiled = m->compiled;
  ty_handle_leave(lock);
  return TY_OK;
}

/* --- loading */

typedef struct Loading {
  Model *m;
  const ty_source *source; /* NULL: a method of: */
  Weights *weights;
  const Model *of;
  const char *name;
} Loading;

static void push_text(lua_State *L, const char *s) {
  if (s) lua_pushstring(L, s);
  else lua_pushnil(L);
}

static void push_record(lua_State *L, const Loading *l) {
  const ty_source *s = l->source;
  if (!s) {
    ty_embed_push_lua(L, l->m->U, "method");
    lua_rawgeti(L, LUA_REGISTRYINDEX, l->of->record);
    lua_pushstring(L, l->name);
    lua_call(L, 2, 1);
    return;
  }
  ty_embed_push_lua(L, l->m->U, "load");
  push_text(L, s->path);
  if (s->text && s->length) lua_pushlstring(L, s->text, s->length);
  else push_text(L, s->text);
  push_text(L, s->name);
  if (l->weights) ty_embed_push_weights(L, l->weights);
  else push_text(L, s->file);
  push_text(L, s->options);
  lua_call(L, 5, 1);
}

/* Puts field `name` of the record at the top under a number. */
static void number_field(lua_State *L, const char *name, int number) {
  lua_getfield(L, -1, name);
  lua_rawseti(L, -2, number);
}

static int push_mode(lua_State *L) {
  ty_lua_mode_push(L, MODE_DEADLINE);
  return 1;
}

static int load(lua_State *L) {
  const Loading *l = lua_touserdata(L, 1);
  Model *m = l->m;
  push_record(L, l);
  number_field(L, "answer", ANSWER);
  number_field(L, "borrowed", BORROWED);
  number_field(L, "call", CALL);
  number_field(L, "warm", WARM);
  lua_newtable(L);
  lua_rawseti(L, -2, INPUTS);
  ty_embed_push_function(L, push_mode, NULL);
  lua_call(L, 0, 1);
  lua_rawseti(L, -2, DEADLINE);
  lua_State *own = lua_newthread(L);
  ty_embed_push_function(L, run, m);
  ty_embed_push_function(L, leave, m);
  lua_xmove(L, own, 2);
  m->anchor = luaL_ref(L, LUA_REGISTRYINDEX);
  m->record = luaL_ref(L, LUA_REGISTRYINDEX);
  m->L = own;
  return 0;
}

static int unload(lua_State *L) {
  const Model *m = lua_touserdata(L, 1);
  if (m->anchor) luaL_unref(L, LUA_REGISTRYINDEX, m->anchor);
  if (m->record) luaL_unref(L, LUA_REGISTRYINDEX, m->record);
  return 0;
}

static void free_model(Model *m) {
  drop_results(m);
  drop_inputs(m);
  if (m->prev) {
    *m->prev = m->next;
    if (m->next) m->next->prev = m->prev;
  }
  ty_embed_protect(m->U, NULL, unload, m);
  ty_mem_free(m->result);
  ty_mem_free(m);
}

void ty_embed_models_end(Universe *U) {
  while (U->models) {
    Model *m = U->models;
    ty_handle_end(m->handle, HANDLE_MODEL);
    free_model(m);
  }
}

static ty_status make(Universe *U, Slot *lock, Loading *l, const char *who, ty_model **model) {
  Model *m = ty_mem_zalloc(sizeof *m);
  if (!m) return ty_failed(TY_NO_MEMORY, "%s: out of memory", who);
  ty_lua_add_caller(run);
  m->U = U;
  l->m = m;
  ty_status y = ty_embed_protect(U, who, load, l);
  if (!y && !(m->handle = ty_handle_new(HANDLE_MODEL, m, lock)))
    y = ty_failed(TY_NO_MEMORY, "%s: out of memory", who);
  if (y) {
    free_model(m);
    return y;
  }
  if ((m->next = U->models)) m->next->prev = &m->next;
  m->prev = &U->models;
  U->models = m;
  *model = m->handle;
  return TY_OK;
}

ty_status ty_load_source(ty_engine *engine, const ty_source *source, ty_model **model) {
  ty_status y;
  Slot *lock;
  if (!model) return ty_failed(TY_INVALID, "ty_load: where the model is to go is NULL");
  *model = NULL;
  if (!source || (!source->path && !source->text))
    return ty_failed(TY_INVALID, "ty_load: there is neither a path nor a text");
  if (source->path && source->text)
    return ty_failed(TY_INVALID, "ty_load: there are both a path and a text");
  if (source->file && source->weights)
    return ty_failed(TY_INVALID, "ty_load: there are both a file of weights and weights");
  Universe *U = ty_handle_enter(engine, HANDLE_ENGINE, "ty_load", &lock, &y);
  if (!U) return y;
  Loading l = {.source = source};
  y = TY_OK;
  if (source->weights && !(l.weights = ty_embed_weights_hold(source->weights)))
    y = ty_failed(TY_CLOSED, "ty_load: these weights were freed, or never were any");
  if (!y) y = make(U, lock, &l, "ty_load", model);
  if (l.weights) ty_embed_weights_drop(l.weights);
  ty_handle_leave(lock);
  return y;
}

ty_status ty_load(ty_engine *engine, const char *path, const char *weights, ty_model **model) {
  const ty_source source = {.path = path, .file = weights};
  return ty_load_source(engine, &source, model);
}

ty_status ty_method(ty_model *model, const char *name, ty_model **method) {
  ty_status y;
  Slot *lock;
  if (!method) return ty_failed(TY_INVALID, "ty_method: where the model is to go is NULL");
  *method = NULL;
  if (!name) return ty_failed(TY_INVALID, "ty_method: the name is NULL");
  const Model *of = ty_handle_enter(model, HANDLE_MODEL, "ty_method", &lock, &y);
  if (!of) return y;
  Loading l = {.of = of, .name = name};
  y = make(of->U, lock, &l, "ty_method", method);
  ty_handle_leave(lock);
  return y;
}

ty_status ty_unload(ty_model *model) {
  ty_status y;
  Slot *lock;
  Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_unload", &lock, &y);
  if (!m) return y;
  ty_handle_end(model, HANDLE_MODEL);
  free_model(m);
  ty_handle_leave(lock);
  return TY_OK;
}
