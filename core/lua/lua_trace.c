/*
** lua_trace.c -- captured calls: guards, results, effects, and what explain tells of them.
** In: the arguments of a call, traces that lua_capture.c made. Out: whether one of them answers the
** call, and its results. A run fails only when out of memory.
**
** A trace is a guard program over slots. Slots are stack positions: the arguments, the function, then
** one for each value that the program reads. Numbers have a file of their own, counted from 1.
** Numbers that depend on sizes are deferred: they, and guards on them, come when the plan for the tensors'
** sizes was found, which brings the sizes.
** The program is run by lua_guard_run.c.
** What it compares with by identity lies in the trace's table of anchors, so addresses stay taken.
**
** Rules.
** 1. A trace with effects makes its handles and tables first: a finaliser that runs between a read and
**    the write that depends on it would lose what it wrote there, which no Lua code would.
** 2. Else, between the guards and the run Lua's collector may run finalisers, which may do anything: so the
**    run's own questions (ty_instance_ready) come last, when handles and tables are made already.
**    Numbers are drawn behind them, by functions that make no garbage: a call that misses draws none.
**    They may drop the trace that runs, which lives on until then, and what it anchors: the stack
**    holds its table. They may release or write what the guards have seen.
** 3. Effects come after the run, which cannot fail any more then.
** 4. One result is pick's answer. Others wait in the stash until the function that pick answers with
**    hands them out; it is a stack, since a hook may call compiled functions between the two.
*/
#include <math.h>
#include <stdio.h>
#include "base/events.h"
#include "record/grad.h"
#include "record/traced_call.h"
#include "lua/lua_fields.h"
#include "lua/lua_guard.h"
#include "lua/lua_link.h"
#include "lua/lua_protect.h"
#include "lua/lua_turn.h"

/* Upvalues of pick. */
#define UP_ENTRY lua_upvalueindex(3)
#define UP_FUNCTION lua_upvalueindex(4)
#define UP_ANCHORS lua_upvalueindex(5)

/* --- guards */

/* The program but for what needs sizes; the stack holds arguments and function. */
static i32 check_guards(lua_State *L, const Binding *B, const Trace *T, double *number,
                        const Tensor **outside) {
  lua_rawgeti(L, UP_ANCHORS, T->anchor);
  for (i32 k = 0; k < T->nkeys; k++) lua_rawgeti(L, ANCHORS_AT(T), T->key + k);
  return ty_guards_check(L, B, T, 0, T->early_guards, NULL, number, 0, outside);
}

static i32 check_deferred(lua_State *L, const Binding *B, const Trace *T, const Instance *I,
                          double *number, const Tensor **outside) {
  return ty_guards_check(L, B, T, T->early_guards, T->late_guards, I->size, number,
                         T->early_numbers, outside);
}

/* Numbers that are drawn, and what is computed from them: once a call, when it will surely be answered, so that the
** functions that draw are called as often as plain Lua calls them. outside: NULL where they are not to be drawn. */
static void draw_numbers(lua_State *L, const Binding *B, const Trace *T, const Instance *I,
                         double *number, const Tensor **outside) {
  if (TY_LIKELY(T->late_guards == T->nguards)) return;
  ty_guards_check(L, B, T, T->late_guards, T->nguards, I->size, number, T->late_numbers, outside);
}

/* --- instances */

/* The same for C: all results. */
static int push_results(lua_State *L, State *S, const Trace *T, const Made *m) {
  struct Compiled *C = S->engine->compiled;
  C->part = PART_ANSWERS;
  C->own = 0;
  for (i32 i = 0; i < T->nresults; i++) {
    ty_trace_push_value(L, T->result[i], m);
    if (T->result[i].kind == R_TENSOR && i < 64) C->own |= (u64)1 << i;
  }
  return T->nresults;
}

/* Makes instance i the first. */
static Instance *to_front(const Trace *T, i32 i) {
  Instance *I = T->instance[i];
  u64 hash = T->hash[i];
  memmove(T->instance + 1, T->instance, sizeof *T->instance * (size_t)i);
  memmove(T->hash + 1, T->hash, sizeof *T->hash * (size_t)i);
  T->instance[0] = I;
  T->hash[0] = hash;
  return I;
}

static u64 hash_number(double v, u64 seed) {
  if (v != v) v = 0; /* NaNs are one */
  return ty_hash(&v, sizeof v, seed);
}

u64 ty_trace_hash(const Trace *T, const Instance *I) {
  u64 hash = ty_instance_hash_own(I);
  for (i32 i = 0; i < T->nbounds; i++) hash = hash_number(I->size[T->bound[i].size], hash);
  return hash;
}

/* What a call needs beside the stack of Lua. */
typedef struct Call {
  double *number; /* from 1 */
  const Tensor **outside;
  Entry *e;
  Tensor **made, *hidden; /* hidden: those for which no handle is made */
  i32 room;
  bool timed;        /* step by step */
  bool linked;       /* by a link: what it makes goes from part to part */
  bool sliced;       /* in slices of time */
  bool direct;       /* by C: results are not stashed */
  bool told;         /* Lua may come to see what is read */
  ShapeRange *range; /* whose instance runs, for the sizes at t; or NULL */
  i64 t;
} Call;

/* Where in the range the sizes of the call would be. */
static bool find_in_range(const Trace *T, const ShapeRange *r, const double *number,
                          const Tensor *const *outside, i64 *t) {
  double size = r->outside >= 0 ? (double)outside[r->outside]->type.dims[r->dim] : NAN;
  for (i32 i = 0; i < T->nbounds && r->outside < 0; i++)
    if (T->bound[i].size == r->dim) size = number[T->bound[i].number];
  const double at = (size - (double)r->first) / (double)r->step;
  if (!(at >= 0 && at <= (double)r->last) || at != floor(at)) return false;
  *t = (i64)at;
  return ty_shape_range_has(r, *t);
}

/* The instance is one of a range: what it is for may have changed as other calls were made by finalisers. */
static inline void pin(const Call *c) {
  if (TY_UNLIKELY(c->range != NULL)) ty_shape_range_set(c->range, c->t);
}

static Instance *find_instance(State *S, const Trace *T, Call *c) {
  const double *number = c->number;
  const Tensor *const *outside = c->outside;
  c->range = NULL;
  if (!T->dynamic || ty_guards_fit(S, T, T->instance[0], number, outside)) return T->instance[0];
  for (i32 i = 0; i < T->nranges && !c->sliced;
       i++) { /* whose instance is for one call at a time */
    if (ty_shape_range_unfit(T->range[i]) || !find_in_range(T, T->range[i], number, outside, &c->t))
      continue;
    c->range = T->range[i];
    pin(c);
    if (ty_guards_fit(S, T, c->range->I, number, outside)) return c->range->I;
    c->range = NULL;
  }
  u64 hash = ty_instance_hash(outside, T->noutside);
  for (i32 i = 0; i < T->nbounds; i++) hash = hash_number(number[T->bound[i].number], hash);
  for (i32 i = 1; i < T->ninstance; i++)
    if (T->hash[i] == hash && ty_guards_fit(S, T, T->instance[i], number, outside))
      return to_front(T, i);
  return NULL;
}

/* After a run that failed as memory ran out: whether another try may go better. Collecting garbage
** runs finalisers: what was ready is asked again. */
static bool may_try_again(lua_State *L, State *S, Instance *I, const Call *c, const char **why) {
  if (!ty_lua_reclaim(L, S)) return false;
  pin(c);
  return ty_instance_ready(S, I, c->outside, c->number, why) == READY_YES;
}

/* Handles for the gradients that the guards read. Those that no Lua code comes to see are the same in each call: to make and
** to collect them would cost more than to read the gradients. Calls in progress have theirs before this one's. */
static void push_grads(lua_State *L, Binding *B, const Trace *T, const Call *c) {
  struct Room *r = &B->S.engine->compiled->room[c->room];
  const i32 from = r->grads;
  if (T->shows_grads || c->sliced || c->told) {
    for (i32 i = 0; i < T->ngrads; i++) ty_lua_push_in(L, B);
    return;
  }
  r->grads = from + T->ngrads;
  if (!B->grads) {
    lua_newtable(L);
    B->grads = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, B->grads);
  const int list = lua_gettop(L);
  for (i32 i = 1; i <= T->ngrads; i++) {
    lua_rawgeti(L, list, from + i);
    Tensor *t = lua_touserdata(L, -1);
    if (t) ty_tensor_release(t); /* an error may have ended the call before */
    if (t) continue;
    lua_pop(L, 1);
    ty_lua_push_in(L, B);
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, from + i);
  }
  lua_remove(L, list);
}

/* Lets go of gradients that were read for a call that is not answered. */
static void drop_grads(lua_State *L, const Trace *T) {
  for (i32 i = 0; i < T->ngrads; i++) ty_tensor_release(lua_touserdata(L, T->narg + T->lead - i));
}

/* linked: parts alone will see what is made. */
static void push_made(lua_State *L, Binding *B, const Trace *T, const Call *c, bool linked) {
  for (i32 i = 0, n = T->instance[0]->nmade; i < n; i++)
    if (T->hidden[i]) lua_pushnil(L);
    else if (linked) ty_spare_push(L, B);
    else ty_lua_push_in(L, B);
  for (i32 i = 0; i < T->ntables; i++)
    if (T->size[i].maker) lua_pushnil(L);
    else lua_createtable(L, T->size[i].array, T->size[i].hash);
  if (T->ngrads) push_grads(L, B, T, c);
}

static void leave_rooms(struct Compiled *C, i32 down_to) {
  while (C->nroom > down_to) ty_trace_drop(C->room[--C->nroom].held);
}

void ty_trace_leave_all(State *S) { leave_rooms(S->engine->compiled, 0); }

/* Holds T until leave_room. An error of Lua's may end a call without it: calls in progress stand higher on the stack of
** C than this one, those that have ended do not. NULL: calls inside of calls inside of calls. */
static struct Room *enter_room(struct Compiled *C, Trace *T, uintptr_t here) {
  i32 live = C->nroom;
  while (live && C->room[live - 1].frame <= here) live--;
  leave_rooms(C, live);
  if (C->nroom == ROOMS) return NULL;
  struct Room *r = &C->room[C->nroom++];
  r->frame = here;
  r->held = T, T->refs++;
  r->grads = live ? r[-1].grads : 0;
  return r;
}

static void leave_room(struct Compiled *C) { leave_rooms(C, C->nroom - 1); }

/* The same with memory for a call, of which a trace may want more than the stack of a thread has. */
static __attribute__((noinline)) bool take_room(struct Compiled *C, Trace *T, Call *y) {
  const size_t numbers = sizeof *y->number * (size_t)(T->nnumbers + 1),
               made = T->instance[0]->nmade;
  const size_t outside = sizeof *y->outside * (size_t)(T->noutside + 1);
  const size_t n = numbers + outside + (sizeof *y->made + sizeof *y->hidden) * made;
  struct Room *r = enter_room(C, T, (uintptr_t)__builtin_frame_address(0));
  if (!r) return false;
  y->room = (i32)(r - C->room);
  if (TY_UNLIKELY(r->n < n || ty_mem_checked())) {
    ty_mem_free(r->p);
    r->p = ty_mem_alloc(n), r->n = r->p ? n : 0;
    if (!r->p) {
      leave_room(C);
      return false;
    }
  }
  y->number = r->p;
  y->outside = (const Tensor **)((char *)r->p + numbers);
  y->made = (Tensor **)((char *)y->outside + outside);
  y->hidden = (Tensor *)(y->made + made);
  return true;
}

static bool keeps(const Trace *T) { return T->lead || T->neffects || T->ntables || T->ngrads; }

/* Whether a trace may answer such a call. Tables that it makes are known to who gets the results alone. */
static bool may_answer(const Trace *T, TraceUse use) {
  if (TY_LIKELY(use < TRACE_DIRECT)) return true;
  if (T->resume || T->link) return false;
  return use == TRACE_DIRECT || !(T->lead || T->neffects || T->ngrads);
}

/* Runs it, with the rules that its results lead back to. */
static bool run_instance(lua_State *L, State *S, const Trace *T, Instance *I, const Call *c,
                         const Made *m) {
  if (T->rules) {
    Tensor *const *made = c->made;
    Handle *first = I->nmade && !T->hidden[0] ? (Handle *)made[0] : NULL;
    lua_pushvalue(L, m->tables + T->rules);
    if (!ty_lua_rules(L, S, first, &I->rules)) return false;
  }
  return ty_instance_run(S, I, c->outside, c->number, c->made);
}

/* The trace's guards hold: what remains. TRACE_MISS leaves the stack as it may be. */
static TraceAnswer run_trace(lua_State *L, State *S, Trace *T, Instance *I, const Call *c,
                             const char **why, int *answers) {
  const double *number = c->number;
  const Tensor *const *outside = c->outside;
  Tensor **made = c->made, *hidden = c->hidden;
  int first = T->lead ? T->narg : lua_gettop(L);
  Made m = {ANCHORS_AT(T), first, first + I->nmade, number};
  const u64 link = T->link && !c->linked && !c->sliced ? ty_spare_begin((Binding *)S) : 0,
            spares_made = ((Binding *)S)->spare.made;
  if (!T->lead) push_made(L, (Binding *)S, T, c, c->linked || link);
  for (i32 i = 0; i < I->nmade; i++) {
    if (T->hidden[i] &&
        I->foreign) { /* a backend's function may raise: nothing of C's own is at stake */
      ty_lua_push_in(L, (Binding *)S);
      lua_replace(L, first + i + 1);
    }
    made[i] = T->hidden[i] && !I->foreign ? &hidden[i] : lua_touserdata(L, first + i + 1);
  }
  if (T->makes_closures && !ty_trace_may_make_closures(L, T, m.anchors)) return TRACE_REST;
  if (T->ntables) ty_trace_fill_tables(L, T, &m);
  S->out_of_range = false;
  pin(c);
  Ready ready = ty_instance_ready(S, I, outside, number, why);
  if (TY_UNLIKELY(ready == READY_NO)) return S->out_of_range ? TRACE_REST : TRACE_MISS;
  if (TY_UNLIKELY(ready == READY_FAILED)) return TRACE_FAILED;
  draw_numbers(L, (Binding *)S, T, I, c->number, c->outside);
  pin(c);
  if (TY_UNLIKELY(c->sliced) && !T->rules && ty_slice_may(I)) {
    *answers = 2;
    return ty_slice_begin(L, S, T, I, &m, outside, made, hidden) ? TRACE_HIT : TRACE_FAILED;
  }
  if (TY_UNLIKELY(I->foreign != NULL)) {
    lua_rawgeti(L, m.anchors, T->backend);
    if (!ty_custom_run(L, S, I, outside, number, made)) return TRACE_RAISED;
  } else if (TY_UNLIKELY(!run_instance(L, S, T, I, c, &m))) {
    if (S->out_of_range) { /* nothing was written */
      *why = "an index is out of range";
      return TRACE_REST;
    }
    if (!may_try_again(L, S, I, c, why)) return TRACE_FAILED;
    if (!run_instance(L, S, T, I, c, &m)) return TRACE_FAILED;
  }
  ty_trace_effects(L, T, made, hidden, I->nmade, &m);
  if (T->link && c->linked && !c->range && ((Binding *)S)->spare.made == spares_made)
    ty_turn_follow(L, S, &(TurnStart){T, I, c->e, c->number, c->outside, first});
  *answers = TY_UNLIKELY(c->direct) ? push_results(L, S, T, &m)
                                    : ty_trace_answer(L, S, T, &m, T->link && !c->sliced);
  const bool alone = I->nmade == 1 && !I->made[0].alias && !T->hidden[0] && !I->foreign;
  S->engine->compiled->fresh = alone && !T->neffects && !T->ntables ? made[0] : NULL;
  S->engine->compiled->link = link;
  S->engine->compiled->kept = keeps(T) || I->foreign;
  return TRACE_HIT;
}

/* What the trace would do, in place of doing it. */
static TraceAnswer tell_trace(lua_State *L, State *S, const Trace *T, Instance *I, const Call *c,
                              const char **why, int *answers) {
  if (c->range) ty_shape_range_tell(c->range);
  Ready ready = ty_instance_ready(S, I, c->outside, c->number, why);
  if (ready != READY_YES) return ready == READY_NO ? TRACE_MISS : TRACE_FAILED;
  draw_numbers(L, (Binding *)S, T, I, c->number, NULL);
  lua_pushnil(L);
  ty_account_push_trace(L, S, T, I, c->outside, c->number);
  *answers = 2;
  return TRACE_HIT;
}

static TraceAnswer try_trace(lua_State *L, State *S, Trace *T, bool tell, Call *c, i32 *failed,
                             const char **why, int *answers) {
  double *number = c->number;
  const Tensor **outside = c->outside;
  *failed = 0;
  if (T->lead) push_made(L, (Binding *)S, T, c, false);
  if (TY_UNLIKELY(T->gone)) return TRACE_MISS;
  lua_pushvalue(L, UP_FUNCTION);
  *failed = check_guards(L, (Binding *)S, T, number, outside);
  if (*failed < T->early_guards || T->gone) return TRACE_MISS;
  Instance *I = find_instance(S, T, c);
  if (!I) {
    if (T->rest > 0) {
      T->rest--;
      return TRACE_REST;
    }
    T->lacking = true;
    return TRACE_SIZES;
  }
  *failed = check_deferred(L, (Binding *)S, T, I, number, outside);
  if (*failed < T->late_guards || T->gone) return TRACE_MISS;
  if (TY_UNLIKELY(tell)) return tell_trace(L, S, T, I, c, why, answers);
  I->recording.timed = c->timed;
  TraceAnswer y = run_trace(L, S, T, I, c, why, answers);
  if (y == TRACE_HIT) T->hits++;
  return y;
}

/* What no guard asks, since it is a part of each trace's key. */
static const char *called_otherwise(const Trace *T, int narg, u64 word) {
  if (T->narg != narg) return "it is called with another number of arguments";
  return T->word != word ? "it is called under other settings or modes" : NULL;
}

TraceAnswer ty_trace_call(lua_State *L, State *S, Entry *e, TraceUse use, int *answers) {
  const bool tell = use == TRACE_TELL;
  int narg = lua_gettop(L);
  u64 word = ty_entry_word(S);
  i32 failed;
  const char *why;
  TraceAnswer answer = TRACE_MISS;
  const i64 skips = e->skips;
  const i64 begin = TY_UNLIKELY(e->skips >= e->next_timed) && !tell ? ty_event_now() : 0;
  i32 held = -1; /* guards of the nearest trace so far: explain is told of that one */
  for (i32 i = 0; i < e->ntrace; i++) {
    Trace *T = e->trace[i];
    T->lacking = false;
    if (T->narg != narg || T->word != word || !may_answer(T, use)) continue;
    if (TY_UNLIKELY(!lua_checkstack(L, ty_trace_stack(T)))) continue;
    Call c;
    if (TY_UNLIKELY(!take_room(S->engine->compiled, T, &c))) continue;
    c.linked = use == TRACE_LINKED, c.sliced = use == TRACE_SLICED;
    c.direct = use >= TRACE_DIRECT;
    c.told = tell;
    c.timed = begin && e->by_step;
    c.e = e;
    why = NULL;
    TraceAnswer y = try_trace(L, S, T, tell, &c, &failed, &why, answers);
    if (y != TRACE_HIT) drop_grads(L, T);
    leave_rooms(S->engine->compiled, c.room);
    if (y == TRACE_HIT) {
      e->skips += !tell;
      if (TY_UNLIKELY(begin != 0))
        ty_entry_note_time(e, (ty_event_now() - begin) / TY_MAX(e->skips - skips, 1));
      if (i && i < e->ntrace && e->trace[i] == T) { /* still there */
        memmove(e->trace + 1, e->trace, sizeof *e->trace * (size_t)i);
        e->trace[0] = T;
      }
      return y;
    }
    if (y == TRACE_FAILED) ty_lua_fail(L, S);
    if (y == TRACE_RAISED) lua_error(L);
    lua_settop(L, narg);
    if (y == TRACE_SIZES || y == TRACE_REST) { /* another trace may do */
      answer = y;
      continue;
    }
    if (i >= e->ntrace || e->trace[i] != T) break;
    if (failed > held) e->failed = (struct Failed){.why = why, .trace = T, .guard = failed};
    held = TY_MAX(held, failed);
  }
  if (answer == TRACE_MISS && held < 0 && e->ntrace) {
    why = called_otherwise(e->trace[0], narg, word);
    e->failed = (struct Failed){.why = why, .trace = why ? e->trace[0] : NULL};
  }
  return answer;
}

/* --- lifetimes */

void ty_trace_remove(lua_State *L, Entry *e, i32 i, int anchors) {
  Trace *T = e->trace[i];
  lua_pushnil(L);
  lua_rawseti(L, anchors, T->anchor);
  memmove(e->trace + i, e->trace + i + 1, sizeof *e->trace * (size_t)(--e->ntrace - i));
  if (e->failed.trace == T) e->failed.trace = NULL;
  T->gone = true;
  ty_trace_drop(T);
}

void ty_trace_forget(lua_State *L, Entry *e, int anchors) {
  while (e->ntrace) ty_trace_remove(L, e, e->ntrace - 1, anchors);
  ty_trace_free_all(e);
}

void ty_trace_forget_parts(lua_State *L, Entry *e, int anchors) {
  for (i32 i = e->ntrace; i-- > 0;)
    if (i < e->ntrace && e->trace[i]->resume) ty_trace_remove(L, e, i, anchors);
}

i64 ty_trace_hits(const Trace *T) { return T->hits; }

bool ty_trace_rests(const Trace *T) { return T->rest > 0; }

i32 ty_trace_lacking(const Entry *e, i32 i) {
  while (i < e->ntrace && !e->trace[i]->lacking) i++;
  return TY_MIN(i, e->ntrace);
}

void ty_trace_free_all(Entry *e) {
  for (i32 i = 0; i < e->ntrace; i++) {
    e->trace[i]->gone = true;
    ty_trace_drop(e->trace[i]);
  }
  if (e->building) ty_trace_drop(e->building);
  e->building = NULL;
  e->failed.trace = NULL;
  e->ntrace = 0;
}

/* --- what failed, for explain */

/* Pushes {why =} or {at =, description =}: the number of the guard that failed last among the description's
** instructions. */
bool ty_trace_push_miss(lua_State *L, Entry *e, int anchors) {
  const struct Failed f = e->failed;
  if (!f.trace) return false;
  f.trace->refs++;
  lua_rawgeti(L, anchors, f.trace->anchor); /* before a finaliser takes it away */
  lua_createtable(L, 0, 8);
  lua_insert(L, -2);
  if (f.why) {
    lua_pushstring(L, f.why);
    lua_setfield(L, -3, "why");
  } else {
    lua_pushinteger(L, f.guard + 1);
    lua_setfield(L, -3, "at");
    lua_rawgeti(L, -1, 1);
    lua_setfield(L, -3, "description");
  }
  lua_pop(L, 1);
  ty_trace_drop(f.trace);
  return true;
}

static bool other_sizes(const Tensor *t, const TensorGuard *g) {
  for (int d = 0; d < g->rank; d++)
    if (t->type.dims[d] != g->dim[d].size) return true;
  return false;
}

/* What the guard that failed for the present call was about: its value is left among the anchors, of an outcome the
** numbers are. */
static void note_failed(lua_State *L, Entry *e, const Guard *g, const double *number) {
  const Tensor *t = g->op == G_TENSOR ? ty_lua_test(L, g->a) : NULL;
  e->sizes_differ |= t && t->st && t->type.dtype == g->tensor->dtype &&
                     t->type.device == g->tensor->device && t->type.rank == g->tensor->rank &&
                     other_sizes(t, g->tensor);
  e->closures_differ = (g->op == G_OBJECT || g->op == G_CLOSURE) &&
                       lua_type(L, g->a) == LUA_TFUNCTION && !lua_iscfunction(L, g->a);
  e->noted = true;
  if (ty_guard_kind(g->op) == GUARD_OUTCOME) {
    e->compared[0] = number[g->a];
    e->compared[1] = g->op == G_WHOLE || g->op == G_KEY ? 0 : number[g->b];
    return;
  }
  lua_pushvalue(L, g->a);
  lua_rawseti(L, UP_ANCHORS, ANCHOR_FAILED);
}

/* What a new capture should allow for: sizes that differ, or are any in the nearest trace; closures that are made
** anew. */
void ty_trace_diagnose(lua_State *L, State *S, Entry *e, int narg) {
  Trace *T = e->failed.trace;
  e->sizes_differ = e->failed.why == ty_instance_moved;
  e->closures_differ = e->noted = false;
  if (!T || e->failed.why || T->narg != narg) return;
  e->sizes_differ = T->dynamic;
  if (!lua_checkstack(L, T->nslots + 64)) return; /* what leads is among them */
  Call c;
  if (!take_room(S->engine->compiled, T, &c)) return;
  lua_settop(L, narg);
  c.sliced = false, c.told = true; /* the value that fails is kept */
  if (T->ngrads) push_made(L, (Binding *)S, T, &c, false);
  else lua_settop(L, narg + T->lead);
  if (!T->gone) { /* by a finaliser */
    lua_pushvalue(L, UP_FUNCTION);
    i32 failed = check_guards(L, (Binding *)S, T, c.number, c.outside);
    const Instance *I = failed < T->early_guards ? NULL : find_instance(S, T, &c);
    if (I) failed = check_deferred(L, (Binding *)S, T, I, c.number, c.outside);
    if (failed < T->late_guards) note_failed(L, e, &T->guard[failed], c.number);
  }
  leave_rooms(S->engine->compiled, c.room);
  lua_settop(L, narg);
}

/* --- explain */

/* Sets {list of {slot, type, bytes, by}, ...} of what a call keeps for its backward pass; slot: of the tensor from
** outside, 0 of a result of the plan, -1 of a constant, -2 of what is computed again instead; bytes: 0 where what came before has the memory already. */
static void set_kept(lua_State *L, const TracedTape *tape, const Instance *I) {
  TapeKept kept;
  char text[160];
  lua_createtable(L, tape->nvalue, 0);
  for (i32 i = 0; i < tape->nvalue; i++) {
    const TapeValue *v = &tape->value[i];
    ty_traced_tape_kept(tape, i, &kept);
    const i32 slot = v->kind == VALUE_TARGET     ? 0
                     : v->kind == VALUE_CONSTANT ? -1
                     : v->kind == VALUE_REMADE   ? -2
                                                 : I->outside[v->of].slot;
    lua_createtable(L, 0, 4);
    set_number(L, "slot", slot);
    set_number(L, "bytes", kept.bytes);
    ty_type_print(&kept.type, text, sizeof text);
    lua_pushstring(L, text);
    lua_setfield(L, -2, "type");
    lua_pushstring(L, kept.by);
    lua_setfield(L, -2, "by");
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "kept");
}

/* Adds {operations, kernels, steps, range} of each plan for backward passes through calls to the list on top of the stack. */
static void add_backward(lua_State *L, const TracedTape *tape) {
  TracedPlan plan[TRACED_PLANS];
  const i32 n = ty_traced_plans(tape, plan);
  for (i32 i = 0; i < n; i++) {
    lua_createtable(L, 0, 4);
    set_number(L, "operations", plan[i].operations);
    set_number(L, "kernels", plan[i].kernels);
    set_number(L, "steps", plan[i].steps);
    lua_pushboolean(L, tape->sizes != NULL);
    lua_setfield(L, -2, "range");
    lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
  }
}

/* Sets "backward" of the sizes of the last call, and of ranges. */
static void set_backward(lua_State *L, const Trace *T) {
  lua_newtable(L);
  if (T->instance[0]->tape) add_backward(L, T->instance[0]->tape);
  for (i32 i = 0; i < T->nranges; i++)
    if (T->range[i]->I->tape && !ty_shape_range_unfit(T->range[i]))
      add_backward(L, T->range[i]->I->tape);
  lua_setfield(L, -2, "backward");
}

/* traces(handle) -> list of {description, hits, dynamic, instances, steps, kernels, text ...} */
int ty_trace_list(lua_State *L) {
  static const Plan nothing;
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  lua_settop(L, 1);
  lua_getfenv(L, 1);
  lua_createtable(L, e->ntrace, 0);
  for (i32 i = 0; i < e->ntrace; i++) {
    Trace *T = e->trace[i];
    T->refs++;
    const Instance *I = T->instance[0];
    const Plan *p = I->plan ? I->plan : &nothing;
    lua_rawgeti(L, 2, T->anchor);
    lua_rawgeti(L, -1, 1);
    lua_replace(L, -2);
    lua_createtable(L, 0, 12);
    lua_insert(L, -2);
    lua_setfield(L, -2, "description");
    lua_pushboolean(L, T->dynamic);
    lua_setfield(L, -2, "dynamic");
    lua_pushboolean(L, T->word == ty_entry_word(e->S));
    lua_setfield(L, -2, "current"); /* of the settings and modes that hold now */
    lua_pushboolean(L, I->foreign != NULL);
    lua_setfield(L, -2, "backend");
    set_number(L, "hits", T->hits);
    set_number(L, "instances", T->ninstance);
    i32 ranges = 0;
    for (i32 k = 0; k < T->nranges; k++) ranges += !ty_shape_range_unfit(T->range[k]);
    set_number(L, "ranges", ranges);
    set_number(L, "kernels", p->nkernels);
    set_number(L, "steps", p->nsteps);
    set_number(L, "operations", p->nops);
    set_number(L, "operations_saved", TY_MAX(p->nops - p->nsteps, 0));
    set_number(L, "bytes_moved", p->bytes_moved);
    set_number(L, "bytes_saved", p->bytes_saved);
    set_number(L, "streams", (i64)I->streams);
    if (p->device) {
      ty_lua_push_run(L, &p->ran);
      set_string(L, "device", ty_devices[p->device]->name);
    }
    if (I->tape) {
      TracedTape *tape = I->tape;
      tape->refs++;
      set_kept(L, tape, I);
      set_backward(L, T);
      ty_traced_tape_drop(tape);
    }
    lua_newtable(L);
    for (i32 k = 0, n = 0; k < I->noutside; k++) {
      if (!I->outside[k].written) continue;
      lua_pushinteger(L, I->outside[k].slot);
      lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "written");
    if (I->plan) ty_lua_plan_text(L, I->plan->source);
    else lua_pushstring(L, ty_text_str(&I->graph));
    lua_setfield(L, -2, "text");
    Text plan = {0};
    if (I->plan) ty_dump_plan(&plan, I->plan);
    lua_pushlstring(L, ty_text_str(&plan), plan.n);
    ty_text_free(&plan);
    lua_setfield(L, -2, "plan");
    lua_rawseti(L, -2, i + 1);
    ty_trace_drop(T);
  }
  return 1;
}
