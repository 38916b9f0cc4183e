/*
** model.c -- models of the C API: loaded, and let go of.
** In: files, texts. Out: handles of models. Fails where a file cannot be read, Lua raises, or what it gives cannot be called.
**
** A model has a thread of Lua's: its functions, then the results of the last call, which it anchors.
*/
#include "embed/model.h"
#include "lua/lua_modes.h"

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

static const lua_CFunction functions[] = {[MODEL_RUN] = ty_embed_run,
                                          [MODEL_LEAVE] = ty_embed_leave,
                                          [MODEL_START] = ty_embed_start,
                                          [MODEL_STEP] = ty_embed_step,
                                          [MODEL_CANCEL] = ty_embed_cancel};

static int load(lua_State *L) {
  const Loading *l = lua_touserdata(L, 1);
  Model *m = l->m;
  push_record(L, l);
  number_field(L, "answer", RECORD_ANSWER);
  number_field(L, "borrowed", RECORD_BORROWED);
  number_field(L, "call", RECORD_CALL);
  number_field(L, "warm", RECORD_WARM);
  lua_newtable(L);
  lua_rawseti(L, -2, RECORD_INPUTS);
  ty_embed_push_function(L, push_mode, NULL);
  lua_call(L, 0, 1);
  lua_rawseti(L, -2, RECORD_DEADLINE);
  lua_State *own = lua_newthread(L);
  for (int i = 1; i <= MODEL_FUNCTIONS; i++) ty_embed_push_function(L, functions[i], m);
  lua_xmove(L, own, MODEL_FUNCTIONS);
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
  if (m->started) ty_embed_end_run(m);
  ty_embed_drop_results(m);
  ty_embed_drop_inputs(m);
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
  ty_lua_add_caller(ty_embed_run);
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
