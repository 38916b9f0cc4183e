/*
** lua_slice.c -- calls of compiled functions in slices of time: jit.start (lua/tycho/start.lua).
** In: a call whose guards hold, on a coroutine that is being sliced. Out: a userdata for what waits to be run, its runs,
** and the function that ends the call. Fails when out of memory, and where what the call writes has changed meanwhile.
**
** pick prepares the call as ever: guards, handles, tables, numbers. Instead of running the plan it moves its stack to a
** thread of its own and yields the userdata and the function that ends it. Who resumed it runs the plan bit by bit
** (slice.c), and lets the coroutine go on with a function that calls the one that ends: its stack is what pick's was.
**
** Rules.
** 1. What the call reads is as it was when it began: buffers are held, tensors' structs are copied, random streams are
**    taken then.
** 2. What it writes must be at the end as it was when it began, else the call raises and nothing is written: tensors by
**    their versions, fields and variables by what they hold.
** 3. Instances, ranges and traces may go meanwhile: the call has copies, and holds the trace.
*/
#include <lauxlib.h>
#include <math.h>
#include "base/system.h"
#include "engine/slice.h"
#include "lua/lua_guard.h"
#include "lua/lua_slice.h"
#include "record/grad.h"

#define SLICE_META "tycho.slice"
#define OLDS 2       /* see push_olds */
#define KEY_THREAD 1 /* of the userdata's environment: the thread that has the stack */

/* What a target held that is written, when the call began. */
typedef struct Before {
  Buffer *buf; /* held, or NULL */
  u32 version;
} Before;

typedef struct Slice {
  State *S;
  Trace *T;    /* held */
  Instance *I; /* of its own */
  SlicedRun *run;
  Made m;
  i32 noutside, nbefore;
  double *number;
  Tensor *outside; /* each holds its storage */
  const Tensor **at;
  Tensor **made, *hidden;
  Before *before;     /* per target */
  Storage **gradient; /* per effect: of a leaf's gradient, held; or NULL */
  i32 ngradient;
  int olds;   /* on the stack, below the first: what effects are about to replace */
  bool begun; /* ty_instance_begin without an end */
  bool failed;
} Slice;

bool ty_slice_can_wait(lua_State *L) { return lua_isyieldable(L); }

bool ty_slice_may(const Instance *I) {
  const Plan *p = I->plan;
  if (!p || I->foreign || p->library) return false;
  for (i32 i = 0; i < p->nsteps; i++)
    if (ty_devices[p->step[i].device] != ty_cpu || p->step[i].away) return false;
  return true;
}

/* --- lifetimes */

/* What a run that went to its end has made, and nobody takes. */
static void drop_outputs(const Slice *s) {
  for (i32 i = 0; i < s->nbefore; i++) {
    Buffer *made = s->I->result[i];
    if (made && made != s->before[i].buf) ty_buffer_drop(made);
  }
}

static void close_slice(Slice *s) {
  ty_slice_free(s->run), s->run = NULL;
  if (s->begun) drop_outputs(s), ty_instance_leave(s->I), s->begun = false;
  for (i32 i = 0; i < s->nbefore; i++)
    if (s->before[i].buf) ty_buffer_drop(s->before[i].buf);
  for (i32 i = 0; i < s->ngradient; i++)
    if (s->gradient[i]) ty_storage_drop(s->gradient[i]);
  for (i32 i = 0; i < s->noutside; i++) ty_tensor_release(&s->outside[i]);
  s->nbefore = s->ngradient = s->noutside = 0;
  if (s->I) ty_instance_free(s->I), s->I = NULL;
  ty_mem_free(s->number), s->number = NULL;
  if (s->T) ty_trace_drop(s->T), s->T = NULL;
}

static int slice_gc(lua_State *L) {
  Slice *s = lua_touserdata(L, 1);
  if (s->S && s->S->engine) close_slice(s);
  return 0;
}

/* Room for all arrays, in one block. */
static bool take_room(Slice *s, const Trace *T, const Instance *I, i32 noutside) {
  const size_t numbers = sizeof *s->number * (size_t)(T->nnumbers + 1),
               outside = (sizeof *s->outside + sizeof *s->at) * (size_t)noutside,
               made = (sizeof *s->made + sizeof *s->hidden) * (size_t)I->nmade,
               before = sizeof *s->before * (size_t)I->ntarget,
               gradient = sizeof *s->gradient * (size_t)T->neffects;
  char *p = ty_mem_zalloc(numbers + outside + made + before + gradient);
  if (!p) return false;
  s->number = (double *)p, p += numbers;
  s->outside = (Tensor *)p, p += sizeof *s->outside * (size_t)noutside;
  s->hidden = (Tensor *)p, p += sizeof *s->hidden * (size_t)I->nmade;
  s->before = (Before *)p, p += before;
  s->at = (const Tensor **)p, p += sizeof *s->at * (size_t)noutside;
  s->made = (Tensor **)p, p += sizeof *s->made * (size_t)I->nmade;
  s->gradient = (Storage **)p;
  return true;
}

/* --- the beginning */

/* Pushes what sees to assignments of new keys of the table at index i, or nil. */
static void push_newindex(lua_State *L, int i) {
  if (!lua_getmetatable(L, i)) {
    lua_pushnil(L);
    return;
  }
  lua_pushliteral(L, "__newindex");
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

/* Pushes what effects replace, and what would see to it in their place: OLDS values for each effect. */
static void push_olds(lua_State *L, Slice *s) {
  const Trace *T = s->T;
  for (i32 i = 0; i < T->neffects; i++) {
    const Pair *e = &T->effect[i];
    if (e->index < 0) {
      lua_pushnil(L);
    } else if (e->index) {
      if (!lua_getupvalue(L, e->owner, e->index)) lua_pushnil(L);
    } else {
      ty_trace_push_value(L, e->key, &s->m);
      lua_rawget(L, e->owner);
    }
    if (e->index) lua_pushnil(L);
    else push_newindex(L, e->owner);
  }
}

static Storage *gradient_of(lua_State *L, const Pair *effect) {
  const Tensor *x = lua_touserdata(L, effect->owner);
  const Record *r = x->st ? ty_grad_leaf(x) : NULL;
  return r ? r->t.st : NULL;
}

static void note_gradients(lua_State *L, Slice *s) {
  for (i32 i = 0; i < s->T->neffects; i++) {
    if (s->T->effect[i].index >= 0) continue;
    Storage *st = gradient_of(L, &s->T->effect[i]);
    s->gradient[i] = st ? ty_storage_hold(st) : NULL;
  }
  s->ngradient = s->T->neffects;
}

static void note_targets(Slice *s) {
  const Instance *I = s->I;
  for (i32 i = 0; i < I->ntarget; i++) {
    if (I->target[i].outside < 0) continue;
    Before *b = &s->before[i];
    b->version = I->fresh[i]->version;
    b->buf = I->fresh[i]->buf ? ty_buffer_hold(I->fresh[i]->buf) : NULL;
  }
  s->nbefore = I->ntarget;
}

static int slice_end(lua_State *L);

/* Pushes the userdata, with a thread for the stack. */
static Slice *push_slice(lua_State *L, lua_State **thread) {
  Slice *s = lua_newuserdata(L, sizeof *s);
  memset(s, 0, sizeof *s);
  luaL_getmetatable(L, SLICE_META);
  lua_setmetatable(L, -2);
  lua_createtable(L, 1, 0);
  *thread = lua_newthread(L);
  lua_rawseti(L, -2, KEY_THREAD);
  lua_setfenv(L, -2);
  return s;
}

bool ty_slice_begin(lua_State *L, State *S, const Trace *T, const Instance *I, const Made *m,
                    const Tensor *const *outside, Tensor *const *made, const Tensor *hidden) {
  lua_State *thread;
  luaL_checkstack(L, OLDS * T->neffects + 16, "too many effects");
  const int top = lua_gettop(L);
  Slice *s = push_slice(L, &thread);
  for (int i = 1; i <= 7; i++) lua_pushvalue(L, lua_upvalueindex(i));
  lua_pushcclosure(L, slice_end, 7);
  lua_insert(L, 1);
  lua_insert(L, 1); /* the userdata, the function, and what was there */
  if (!lua_checkstack(thread, top + OLDS * T->neffects + 16)) return ty_fail_memory(S, "run", 0);
  if (!take_room(s, T, I, T->noutside)) return ty_fail_memory(S, "run", 0);
  s->S = S;
  s->T = (Trace *)T, s->T->refs++;
  memcpy(s->number, m->number, sizeof *s->number * (size_t)(T->nnumbers + 1));
  s->m = *m, s->m.number = s->number;
  for (i32 i = 0; i < T->noutside; i++) {
    ty_tensor_alias(&s->outside[i], outside[i]);
    s->at[i] = &s->outside[i];
    s->noutside++;
  }
  for (i32 i = 0; i < I->nmade; i++) s->made[i] = made[i] == &hidden[i] ? &s->hidden[i] : made[i];
  if (!(s->I = ty_instance_copy(S, I)) || !ty_instance_begin(S, s->I, s->at, s->number))
    return false;
  s->begun = true;
  S->stream += s->I->streams, s->I->streams = 0;
  note_targets(s);
  s->run = ty_slice_new(S, s->I->plan, &s->I->recording, s->I->result);
  if (!s->run) return false;
  lua_xmove(L, thread, top);
  note_gradients(thread, s);
  s->olds = lua_gettop(thread);
  push_olds(thread, s);
  S->engine->compiled->sliced = true;
  return true;
}

/* --- the end */

/* Whether two values on the stack are one; a NaN is what it was, though it is not equal to itself. */
static bool is_unchanged(lua_State *L, int a, int b) {
  if (lua_rawequal(L, a, b)) return true;
  if (lua_type(L, a) != LUA_TNUMBER || lua_type(L, b) != LUA_TNUMBER) return false;
  return isnan(lua_tonumber(L, a)) && isnan(lua_tonumber(L, b));
}

static const char *changed(lua_State *L, const Slice *s) {
  const Instance *I = s->I;
  const Trace *T = s->T;
  for (i32 i = 0; i < I->ntarget; i++)
    if (I->target[i].outside >= 0 &&
        (I->fresh[i]->version != s->before[i].version || I->fresh[i]->buf != s->before[i].buf))
      return "a tensor that the call writes";
  for (i32 i = 0; i < T->neffects; i++)
    if (T->effect[i].index < 0 && gradient_of(L, &T->effect[i]) != s->gradient[i])
      return "a gradient that the call writes";
  luaL_checkstack(L, OLDS * T->neffects + 8, "too many effects");
  const int now = lua_gettop(L);
  push_olds(L, (Slice *)s);
  bool same = true;
  for (i32 i = 1; i < OLDS * T->neffects; i += OLDS) {
    same &= is_unchanged(L, now + i, s->olds + i);
    if (lua_isnil(L, now + i)) same &= is_unchanged(L, now + i + 1, s->olds + i + 1);
  }
  lua_settop(L, s->olds);
  return same ? NULL : "a field or variable that the call writes";
}

static Slice *check_slice(lua_State *L) {
  Slice *s = luaL_checkudata(L, 1, SLICE_META);
  if (!s->I) luaL_error(L, "run: the call has ended");
  return s;
}

/* slice_end(slice) -> as pick; false, and why nothing was written. With pick's upvalues; the caller holds the slice. */
static int slice_end(lua_State *L) {
  State *S = ty_lua_enter_in(L, lua_touserdata(L, lua_upvalueindex(1)));
  Slice *s = check_slice(L);
  lua_getfenv(L, 1);
  lua_rawgeti(L, -1, KEY_THREAD);
  lua_State *thread = lua_tothread(L, -1);
  if (s->failed) {
    const bool again = S->out_of_range;
    close_slice(s);
    if (!again) return ty_lua_fail(L, S);
    lua_pushvalue(L, lua_upvalueindex(4)); /* Lua's own run raises */
    return 1;
  }
  const int n = lua_gettop(thread);
  luaL_checkstack(L, n + s->T->nresults + 32, "too many values");
  lua_settop(L, 0);
  lua_xmove(thread, L, n);
  const char *what = changed(L, s);
  if (what) {
    close_slice(s);
    lua_pushboolean(L, false);
    lua_pushfstring(L, "start: %s has changed before it was done", what);
    return 2;
  }
  s->begun = false;
  ty_instance_end(S, s->I, s->at, s->made);
  ty_trace_effects(L, s->T, s->made, s->hidden, s->I->nmade, &s->m);
  const int answers = ty_trace_answer(L, S, s->T, &s->m, false);
  close_slice(s);
  return answers;
}

/* slice_run(slice, until) -> whether it is done, or has failed: slice_end says how */
static int slice_run(lua_State *L) {
  State *S = ty_lua_enter(L);
  Slice *s = check_slice(L);
  const double until = luaL_checknumber(L, 2);
  (void)S;
  const SliceState y = s->failed ? SLICE_FAILED : ty_slice_run(s->run, (i64)until);
  s->failed = y == SLICE_FAILED;
  lua_pushboolean(L, y != SLICE_PAUSED);
  return 1;
}

/* slice_clock() -> nanoseconds, of which `until` is a number */
static int slice_clock(lua_State *L) {
  lua_pushnumber(L, (double)ty_system_now());
  return 1;
}

/* slice_close(slice): what has not run is left undone */
static int slice_close(lua_State *L) {
  ty_lua_enter(L);
  close_slice(check_slice(L));
  return 0;
}

/* slicing(thread or nil) -> the one before, how much has run as Lua: calls on that coroutine run in slices from now on. It
** is anchored, so that no other one ever has its address, whatever error passes by who would take it back. */
static int slicing(lua_State *L) {
  static const char anchor;
  struct Compiled *C = ty_lua_enter(L)->engine->compiled;
  lua_settop(L, 1);
  lua_pushlightuserdata(L, (void *)&anchor);
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_pushnumber(L, (double)C->in_lua);
  lua_pushlightuserdata(L, (void *)&anchor);
  lua_pushvalue(L, 1);
  lua_rawset(L, LUA_REGISTRYINDEX);
  C->slicer = lua_tothread(L, 1);
  C->sliced = false;
  return 2;
}

void ty_lua_open_slice(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"_slice_run", slice_run},
                                 {"_slice_clock", slice_clock},
                                 {"_slice_close", slice_close},
                                 {"_slicing", slicing},
                                 {NULL, NULL}};
  if (luaL_newmetatable(L, SLICE_META)) {
    lua_pushcfunction(L, slice_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setfield(L, m, "_slice_meta");
  lua_pushvalue(L, m);
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
