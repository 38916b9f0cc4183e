/*
** call.c -- calls of models: ty_call, ty_warmup.
** In: a model, arrays. Out: its results, which hold until the next call. Fails where Lua raises: the text is noted, and
** the model is as good as before.
**
** What a call asks, in this order, until one answers:
**   1. traces that keep neither arguments nor results, with the host's memory lent: most calls end here;
**   2. traces, with copies of the arguments;
**   3. the compiled function, as Lua calls it, which may be captured.
** Nothing is done by one that does not answer. A model whose traces keep begins with the second.
*/
#include "embed/model.h"
#include "engine/entry.h"

/* --- arguments */

void ty_embed_drop_inputs(Model *m) {
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

void ty_embed_push_arguments(lua_State *L, Model *m, bool lend, int inputs) {
  for (int i = 0; i < m->narguments; i++) ty_embed_push_argument(L, m, i, lend, inputs);
}

static ty_status check_arguments(const ty_array *argument, int n, const char *who) {
  ty_status y = TY_OK;
  if (n < 0 || n > TY_ARGUMENTS_MAX)
    return ty_failed(TY_INVALID, "%s: %d arguments, there may be from 0 to %d", who, n,
                     TY_ARGUMENTS_MAX);
  if (n && !argument) return ty_failed(TY_INVALID, "%s: the arguments are NULL", who);
  for (int i = 0; i < n && !y; i++) y = ty_embed_check(&argument[i], who, i);
  return y;
}

/* --- the call, in Lua's protection */

/* Whether a trace answers: then its results are on top, else nothing is. */
static bool ask(lua_State *L, Model *m, int record, int which, int first) {
  const struct Compiled *C = m->U->B->S.engine->compiled;
  const int top = lua_gettop(L);
  lua_rawgeti(L, record, which);
  if (first) {
    for (int i = 0; i < m->narguments; i++) lua_pushvalue(L, first + i);
  } else {
    ty_embed_push_arguments(L, m, true, record + 1);
  }
  lua_call(L, m->narguments, LUA_MULTRET);
  if (C->part == PART_ANSWERS) return true;
  lua_settop(L, top);
  return false;
}

int ty_embed_leave(lua_State *L) {
  ty_embed_deadline_end(L, ty_embed_running(L));
  return 0;
}

int ty_embed_run(lua_State *L) {
  Model *m = ty_embed_running(L);
  State *S = ty_lua_enter(L);
  const struct Compiled *C = S->engine->compiled;
  luaL_checkstack(L, 2 * m->narguments + LUA_MINSTACK, "too many arguments");
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->record);
  lua_rawgeti(L, 1, RECORD_INPUTS);
  if (m->U->microseconds && !m->warms) ty_embed_deadline_begin(L, m, m->U->microseconds * 1000);
  bool hit = !m->warms && !m->keeps && ask(L, m, 1, RECORD_BORROWED, 0);
  int first = 3;
  if (!hit) {
    ty_embed_drop_inputs(m);
    ty_embed_push_arguments(L, m, false, 2);
    first += m->narguments;
    hit = !m->warms && ask(L, m, 1, RECORD_ANSWER, 3);
    if (hit) m->keeps = C->kept;
  }
  m->compiled = hit;
  if (!hit) {
    lua_rawgeti(L, 1, m->warms ? RECORD_WARM : RECORD_CALL);
    for (int i = 0; i < m->narguments; i++) lua_pushvalue(L, 3 + i);
    lua_call(L, m->narguments, LUA_MULTRET);
    ty_embed_unwatch(L, m->U);
  }
  ty_embed_read_results(L, m, first, hit && !C->kept ? C->own : 0);
  ty_embed_deadline_end(L, m);
  return lua_gettop(L) - first + 1;
}

ty_status ty_embed_protected(Model *m, int function) {
  lua_State *L = m->L;
  lua_pushvalue(L, function);
  const int status = lua_pcall(L, 0, LUA_MULTRET, 0);
  if (TY_LIKELY(!status)) return TY_OK;
  ty_embed_unwatch(L, m->U);
  const ty_status y = ty_embed_failed(m->U, L, NULL, status);
  lua_pushvalue(L, MODEL_LEAVE);
  if (lua_pcall(L, 0, 0, 0)) lua_pop(L, 1);
  return y;
}

static ty_status call(Model *m, const ty_array *argument, int n) {
  ty_embed_drop_results(m);
  m->argument = argument;
  m->narguments = n;
  lua_settop(m->L, MODEL_FUNCTIONS);
  const ty_status y = ty_embed_protected(m, MODEL_RUN);
  if (TY_UNLIKELY(y)) {
    ty_embed_drop_results(m);
    ty_embed_drop_inputs(m);
  }
  settle_inputs(m);
  m->argument = NULL;
  return y;
}

Model *ty_embed_enter(const ty_model *model, const ty_array *argument, int n, const char *who,
                      Slot **lock, ty_status *y) {
  Model *m = ty_handle_enter(model, HANDLE_MODEL, who, lock, y);
  if (!m) return NULL;
  *y = check_arguments(argument, n, who);
  if (!*y && m->started)
    *y = ty_failed(TY_BUSY,
                   "%s: a call that ty_start began is under way; ty_step ends it, or "
                   "ty_cancel",
                   who);
  if (!*y) return m;
  ty_handle_leave(*lock);
  return NULL;
}

ty_status ty_call(ty_model *model, const ty_array *arguments, int n) {
  ty_status y;
  Slot *lock;
  Model *m = ty_embed_enter(model, arguments, n, "ty_call", &lock, &y);
  if (!m) return y;
  m->warms = false;
  y = call(m, arguments, n);
  ty_handle_leave(lock);
  return y;
}

ty_status ty_warmup(ty_model *model, const ty_array *arguments, int n) {
  enum { TRIES = 4 };
  ty_status y;
  Slot *lock;
  Model *m = ty_embed_enter(model, arguments, n, "ty_warmup", &lock, &y);
  if (!m) return y;
  const i64 limit = m->U->microseconds;
  m->U->microseconds = 0;
  y = TY_OK;
  for (int i = 0; i < TRIES && !y && !(i && m->compiled); i++) {
    m->warms = i % 2 == 0;
    y = call(m, arguments, n);
  }
  m->U->microseconds = limit;
  ty_handle_leave(lock);
  return y;
}
