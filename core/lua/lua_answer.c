/*
** lua_answer.c -- what a trace leaves: results, tables and closures that it makes, effects.
** In: a trace, the stack of the call with what was read and made, the tensors of its run. Out: the answer of pick. Making
** tables and closures raises when memory is out; effects and answers come when nothing can fail any more.
*/
#include "lua/lua_guard.h"
#include "lua/lua_link.h"
#include "record/grad.h"

/* Upvalues of pick. */
#define UP_STASH lua_upvalueindex(6)
#define UP_HAND_OUT lua_upvalueindex(7)

static void push_random(lua_State *L, i32 streams) {
  const State *S = ty_lua_state(L);
  const u64 state[2] = {S->seed, S->stream + (u64)streams};
  lua_pushlstring(L, (const char *)state, sizeof state);
}

void ty_trace_push_value(lua_State *L, Recipe r, const Made *m) {
  switch ((RecipeKind)r.kind) {
  case R_SLOT: lua_pushvalue(L, r.k); break;
  case R_VALUE: lua_rawgeti(L, m->anchors, r.k); break;
  case R_NUMBER: lua_pushnumber(L, m->number[r.k]); break;
  case R_TENSOR: lua_pushvalue(L, m->tensors + r.k); break;
  case R_TABLE: lua_pushvalue(L, m->tables + r.k); break;
  case R_RANDOM: push_random(L, r.k - 1); break;
  case R_VERSION: ty_lua_push_version(L, r.k); break;
  case R_BEHIND: lua_pushnumber(L, (lua_Number)lua_objlen(L, r.k) + 1); break;
  }
}

/* Closures come before what fills tables with them. Those that share the function's variables share what they are now.
** Raises when memory is out. */
static void make_closures(lua_State *L, const Trace *T, const Made *m) {
  const Pair *p = T->pair;
  for (i32 i = 0; i < T->ntables; i++) {
    if (T->size[i].maker) {
      lua_rawgeti(L, m->anchors, T->size[i].maker);
      for (i32 k = 0; k < T->size[i].nvalues; k++) ty_trace_push_value(L, p[k].value, m);
      lua_call(L, T->size[i].nvalues, 1);
      lua_replace(L, m->tables + i + 1);
    }
    p += T->size[i].nvalues;
  }
}

bool ty_trace_may_make_closures(lua_State *L, const Trace *T, int anchors) {
  bool may = !lua_gethook(L); /* it would see what makes them */
  for (i32 i = 0; may && i < T->nowners; i++) {
    lua_rawgeti(L, anchors, T->owner + 2 * i);
    lua_rawgeti(L, anchors, T->owner + 2 * i + 1);
    may = ty_lua_is_shared(L, lua_gettop(L) - 1, lua_touserdata(L, -1));
    lua_pop(L, 2);
  }
  return may;
}

void ty_trace_fill_tables(lua_State *L, const Trace *T, const Made *m) {
  if (T->makes_closures) make_closures(L, T, m);
  for (i32 i = 0; i < T->npairs; i++) {
    if (T->size[T->pair[i].owner - 1].maker) continue;
    ty_trace_push_value(L, T->pair[i].key, m);
    ty_trace_push_value(L, T->pair[i].value, m);
    lua_rawset(L, m->tables + T->pair[i].owner);
  }
  for (i32 i = 0; i < T->ntables; i++) {
    if (T->meta[i].kind == R_SLOT && !T->meta[i].k) continue;
    ty_trace_push_value(L, T->meta[i], m);
    lua_setmetatable(L, m->tables + i + 1);
  }
}

/* The leaf's gradient: nil, or a tensor that the run made. */
static void set_gradient(lua_State *L, int leaf, Recipe value, Tensor *const *made) {
  const Tensor *x = lua_touserdata(L, leaf);
  const Tensor *g = value.kind == R_TENSOR ? made[value.k - 1] : NULL;
  Record *r = x->st ? ty_grad_leaf(x) : NULL;
  if (!r) return; /* a backend's function has seen to it */
  ty_tensor_release(&r->t);
  if (!g) return;
  Tensor flat = {.st = g->st, .type = ty_type_line(g->st->dtype, g->type.device, g->st->numel)};
  flat.strides[0] = 1;
  ty_tensor_alias(&r->t, &flat);
}

static void apply_gradients(lua_State *L, const Trace *T, Tensor *const *made) {
  for (i32 i = 0; i < T->neffects; i++)
    if (T->effect[i].index < 0) set_gradient(L, T->effect[i].owner, T->effect[i].value, made);
}

static void apply_effects(lua_State *L, const Trace *T, const Made *m) {
  for (i32 i = 0; i < T->neffects; i++) {
    const Pair *e = &T->effect[i];
    if (e->index < 0) continue;
    if (e->index) {
      ty_trace_push_value(L, e->value, m);
      lua_setupvalue(L, e->owner, e->index);
      continue;
    }
    ty_trace_push_value(L, e->key, m);
    ty_trace_push_value(L, e->value, m);
    lua_rawset(L, e->owner);
  }
}

int ty_trace_answer(lua_State *L, State *S, const Trace *T, const Made *m, bool goes_on) {
  const bool single = T->nresults == 1 && !T->resume;
  S->engine->compiled->part = goes_on ? PART_GOES_ON : PART_ANSWERS;
  if (single) lua_pushnil(L);
  if (goes_on) lua_rawgeti(L, m->anchors, T->link);
  for (i32 i = 0; i < T->nresults; i++) ty_trace_push_value(L, T->result[i], m);
  if (single || goes_on) return T->nresults + 1;
  ty_lua_stash(L, S->engine->compiled, T->nresults, UP_STASH);
  if (!T->resume) {
    lua_pushvalue(L, UP_HAND_OUT);
    return 1;
  }
  ty_lua_runs(L, S);
  lua_rawgeti(L, m->anchors, T->resume);
  return 1;
}

void ty_trace_effects(lua_State *L, const Trace *T, Tensor *const *made, Tensor *hidden, i32 nmade,
                      const Made *m) {
  if (T->neffects) { /* no Lua code runs before hidden tensors are let go */
    apply_gradients(L, T, made);
    for (i32 i = 0; i < nmade; i++)
      if (made[i] == &hidden[i]) ty_tensor_release(made[i]);
    apply_effects(L, T, m);
  }
  if (!T->shows_grads) /* they would keep gradients until Lua's collector comes to them */
    for (i32 i = 0; i < T->ngrads; i++) ty_tensor_release(lua_touserdata(L, T->narg + T->lead - i));
}
