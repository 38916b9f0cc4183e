/*
** steps.c -- calls of models in slices of time: ty_start, ty_step, ty_cancel.
** In: a model, arrays, how long a step may take. Out: whether the call has ended; then its results are the model's. Fails
** where Lua raises, and at the end of the engine's limit: then the call has ended, too.
**
** embed.lua's jit.start does the work. Until the call has ended nothing of the model changes that the host can see: results
** of the call before hold, on the model's thread, and are let go of when the new ones are there.
*/
#include "base/system.h"
#include "embed/model.h"

static void push_run(lua_State *L, const Model *m) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->record);
  lua_rawgeti(L, -1, RECORD_RUN);
  lua_remove(L, -2);
}

/* Puts the value on top where the run is. */
static void set_run(lua_State *L, const Model *m) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->record);
  lua_insert(L, -2);
  lua_rawseti(L, -2, RECORD_RUN);
  lua_pop(L, 1);
}

int ty_embed_start(lua_State *L) {
  Model *m = ty_embed_running(L);
  ty_lua_enter(L);
  luaL_checkstack(L, m->narguments + LUA_MINSTACK, "too many arguments");
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->record);
  ty_embed_push_lua(L, m->U, "start");
  lua_rawgeti(L, 1, RECORD_CALL);
  ty_embed_push_arguments(L, m, false, 0);
  lua_call(L, m->narguments + 1, 1);
  set_run(L, m);
  return 0;
}

int ty_embed_cancel(lua_State *L) {
  const Model *m = ty_embed_running(L);
  ty_embed_push_lua(L, m->U, "cancel");
  push_run(L, m);
  lua_pushnil(L);
  set_run(L, m);
  lua_call(L, 1, 0);
  return 0;
}

void ty_embed_end_run(Model *m) {
  m->started = false;
  ty_embed_protected(m, MODEL_CANCEL);
}

/* Whether code of the user's waits in the run at index -2, which goes on where it has yielded. */
static bool runs_as_lua(lua_State *L) {
  lua_getfield(L, -2, "in_lua");
  const bool runs = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return runs;
}

int ty_embed_step(lua_State *L) {
  Model *m = ty_embed_running(L);
  ty_lua_enter(L);
  ty_embed_push_lua(L, m->U, "step");
  push_run(L, m);
  lua_pushnumber(L, m->budget);
  if (m->left) ty_embed_deadline_begin(L, m, m->left);
  if (runs_as_lua(L)) ty_embed_watch(L, m->U);
  lua_call(L, 2, LUA_MULTRET);
  ty_embed_unwatch(L, m->U);
  m->done = lua_toboolean(L, 1);
  if (!m->done && m->left && ty_system_now() >= m->U->until) luaL_error(L, TY_LUA_LATE);
  if (m->done) {
    ty_embed_drop_results(m);
    m->compiled = lua_toboolean(L, 2);
    ty_embed_read_results(L, m, 3, 0);
    lua_pushnil(L);
    set_run(L, m);
  }
  ty_embed_deadline_end(L, m);
  return m->done ? lua_gettop(L) - 2 : 0;
}

/* What lies between the functions and the last values of the thread has served. */
static void drop_old(lua_State *L, int old) {
  for (; old > 0; old--) lua_remove(L, MODEL_FUNCTIONS + 1);
}

static ty_status step(Model *m, i64 microseconds) {
  const i64 begin = ty_system_now();
  const int old = lua_gettop(m->L) - MODEL_FUNCTIONS;
  const double left = (double)m->left * 1e-3;
  m->budget = (double)microseconds;
  if (m->left && (microseconds < 0 || left < m->budget)) m->budget = left;
  const ty_status y = ty_embed_protected(m, MODEL_STEP);
  if (m->left) m->left = TY_MAX(m->left - (ty_system_now() - begin), 1);
  if (y) {
    ty_embed_drop_results(m);
    lua_settop(m->L, MODEL_FUNCTIONS);
    ty_embed_end_run(m);
  } else if (m->done) {
    m->started = false;
    drop_old(m->L, old);
  }
  return y;
}

ty_status ty_start(ty_model *model, const ty_array *arguments, int n) {
  ty_status y;
  Slot *lock;
  Model *m = ty_embed_enter(model, arguments, n, "ty_start", &lock, &y);
  if (!m) return y;
  m->argument = arguments;
  m->narguments = n;
  y = ty_embed_protected(m, MODEL_START);
  m->argument = NULL;
  m->started = !y;
  m->left = m->U->microseconds * 1000;
  ty_handle_leave(lock);
  return y;
}

ty_status ty_step(ty_model *model, int64_t microseconds, int *done) {
  ty_status y;
  Slot *lock;
  Model *m = ty_handle_ask(model, HANDLE_MODEL, "ty_step", done, "the answer", &lock, &y);
  if (!m) return y;
  *done = 0;
  if (m->started) {
    y = step(m, microseconds);
    *done = !y && m->done;
  } else {
    y = ty_failed(TY_INVALID, "ty_step: no call is under way; ty_start begins one");
  }
  ty_handle_leave(lock);
  return y;
}

ty_status ty_cancel(ty_model *model) {
  ty_status y;
  Slot *lock;
  Model *m = ty_handle_enter(model, HANDLE_MODEL, "ty_cancel", &lock, &y);
  if (!m) return y;
  if (m->started) ty_embed_end_run(m);
  ty_handle_leave(lock);
  return TY_OK;
}
