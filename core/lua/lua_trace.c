/*
** lua_trace.c -- captured calls: guards, results, effects, and what explain tells of them.
** In: the arguments of a call, traces that lua_capture.c made. Out: whether one of them answers the
** call, and its results. A run fails only when out of memory.
**
** A trace is a guard program over slots. Slots are stack positions: the arguments, the function, then
** one for each value that the program reads. Numbers have a file of their own, counted from 1.
** Numbers that depend on sizes are deferred: they, and guards on them, come when the plan for the tensors'
** sizes was found, which brings the sizes.
** The program is run by one loop, check_guards; each instruction is one call or two of Lua's API.
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
#include "lua/lua_guard.h"
#include "lua/lua_link.h"
#include "lua/lua_protect.h"

/* Upvalues of pick. */
#define UP_ENTRY lua_upvalueindex(3)
#define UP_FUNCTION lua_upvalueindex(4)
#define UP_ANCHORS lua_upvalueindex(5)
#define UP_STASH lua_upvalueindex(6)
#define UP_HAND_OUT lua_upvalueindex(7)

/* --- guards */

/* Flags in dumps for bit operators. Some builds of LuaJIT set them, too, from a prototype's fourth closure on: the
** flag of a prototype lies among the bits that count. */
#define BITS_OF_DUMP 0x10
#define BITS_OF_PROTO 0x80

/* Whether a piece of a dump differs from `want` in such a flag alone. A piece is the header, or a
** prototype behind its length. */
static bool same_piece(const u8 *want, const u8 *p, size_t n, bool header) {
  size_t at = 4, length = 0;
  if (!header)
    for (at = 0; at < n && at < 5; at++) {
      length |= (size_t)(p[at] & 0x7f) << 7 * at;
      if (p[at] < 0x80) break;
    }
  if (!header && length != n - ++at) return false;
  int but = header ? BITS_OF_DUMP : BITS_OF_PROTO;
  return at < n && !memcmp(want, p, at) && !((want[at] ^ p[at]) & ~but) &&
         !memcmp(want + at + 1, p + at + 1, n - at - 1);
}

static int compare_dump(lua_State *L, const void *p, size_t n, void *ud) {
  Dump *at = ud; /* n: how far it was equal */
  (void)L;
  if (at->n + n > at->cap) return 1;
  if (memcmp(at->bytes + at->n, p, n) &&
      !same_piece((const u8 *)at->bytes + at->n, p, n, at->n == 0))
    return 1;
  at->n += n;
  return 0;
}

static bool same_bytecode(lua_State *L, int slot, const Dump *want) {
  Dump at = {0, want->n, want->bytes};
  if (lua_type(L, slot) != LUA_TFUNCTION || lua_iscfunction(L, slot)) return false;
  lua_pushvalue(L, slot);
  int status = lua_dump(L, compare_dump, &at);
  lua_pop(L, 1);
  return status == 0 && at.n == want->n;
}

/* The table's keys in the order of next are the anchors from g->b on, g->n of them. */
static bool same_keys(lua_State *L, const Guard *g, int anchors) {
  int n = 0;
  if (lua_type(L, g->a) != LUA_TTABLE) return false;
  for (lua_pushnil(L); lua_next(L, g->a); n++) {
    lua_pop(L, 1);
    lua_rawgeti(L, anchors, g->b + n);
    bool same = n < g->n && lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    if (same) continue;
    lua_pop(L, 1);
    return false;
  }
  return n == g->n;
}

static inline bool same_tensor(const Tensor *t, const TensorGuard *g) {
  if (!t->st || t->type.dtype != g->dtype || t->type.rank != g->rank || t->type.device != g->device)
    return false;
  if (TY_UNLIKELY(ty_needs(t) != g->needs)) return false;
  if (TY_UNLIKELY(g->detached != DETACHED_ANY) && t->detached != g->detached) return false;
  if (TY_UNLIKELY(g->loose)) return true;
  for (int d = 0; d < g->rank; d++) {
    if (t->type.dims[d] != g->dim[d].size) return false;
    if (TY_UNLIKELY(t->strides[d] != g->dim[d].stride) && g->dim[d].size != 1) return false;
  }
  return true;
}

/* Whether the value at index i is what a guard of a tensor wants; notes it. */
static inline bool is_tensor(lua_State *L, const Binding *B, int i, const Guard *g,
                             const Tensor **outside) {
  const Tensor *t = ty_lua_test_in(L, B, i); /* nothing but a userdata of ours is one */
  if (TY_UNLIKELY(!t || !same_tensor(t, g->tensor))) return false;
  outside[g->b] = t;
  return true;
}

/* The guard behind a read, of a tensor or a type, about what was read. */
static inline bool is_asked(lua_State *L, const Binding *B, const Guard *g,
                            const Tensor **outside) {
  return g->op == G_TENSOR ? is_tensor(L, B, -1, g, outside) : lua_type(L, -1) == g->b;
}

/* Pushes the gradient of all that the storage of the leaf at index i holds, in the handle that waits for it; false:
** there is none. */
static bool push_gradient(lua_State *L, const Binding *B, int i, int handle) {
  const Tensor *t = ty_lua_test_in(L, B, i);
  const Record *r = t && t->st ? ty_grad_leaf(t) : NULL;
  if (!r || !r->t.st) return false;
  Type all = ty_type_line(r->t.type.dtype, r->t.type.device, r->t.st->numel);
  ty_tensor_view(lua_touserdata(L, handle), &r->t, &all, 0, &(i64){1});
  lua_pushvalue(L, handle);
  return true;
}

static bool has_no_gradient(lua_State *L, const Binding *B, int i) {
  const Tensor *t = ty_lua_test_in(L, B, i);
  const Record *r = t && t->st ? ty_grad_leaf(t) : NULL;
  return t && t->st && (!r || !r->t.st);
}

static bool same_bits(double a, double b) {
  if (a != a || b != b) return a != a && b != b;
  return memcmp(&a, &b, sizeof a) == 0;
}

/* The first result of the function below n arguments; pops them. */
static double call_function(lua_State *L, int n) {
  bool hooked;
  if (TY_LIKELY(!lua_gethook(L))) lua_call(L, n, 1);
  else if (ty_lua_undisturbed(L, ty_lua_binding(L), n, 1, &hooked))
    lua_error(L); /* a hook might yield */
  double y = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return y;
}

static double call_number(lua_State *L, const Guard *g, const double *number, int anchors) {
  lua_rawgeti(L, anchors, g->n);
  lua_pushnumber(L, number[g->a]);
  if (g->b) lua_pushnumber(L, number[g->b]);
  return call_function(L, g->b ? 2 : 1);
}

static double draw_number(lua_State *L, const Guard *g, int anchors) {
  lua_rawgeti(L, anchors, g->n);
  for (i32 i = 0; i < g->a; i++) lua_rawgeti(L, anchors, g->b + i);
  return call_function(L, g->a);
}

static bool is_whole(double v) { return isfinite(v) && floor(v) == v; }

void ty_lua_push_loaded(lua_State *L) {
  lua_pushliteral(L, "_LOADED");
  lua_rawget(L, LUA_REGISTRYINDEX);
}

/* Runs instructions [from, to) of the program, before which so many numbers were made. Gives the
** number of the instruction that failed, or `to`. Where `outside` is NULL nothing is drawn. */
static i32 check_range(lua_State *L, const Binding *B, const Trace *T, i32 from, i32 to,
                       const double *size, double *number, i32 made, const Tensor **outside) {
#define NEED(condition) \
  if (TY_UNLIKELY(!(condition))) return (i32)(g - T->guard)
#define NEED_TYPE(type) NEED(lua_type(L, g->a) == (type))
#define NEED_ASKED \
  if (g->asked) NEED(is_asked(L, B, ++g, outside))
  int anchors = ANCHORS_AT(T);
  double *y = number + 1 + made;
  for (const Guard *g = T->guard + from, *end = T->guard + to; g < end; g++) {
    if (g->op >= G_COUNT) __builtin_unreachable();
    switch ((GuardOp)g->op) {
    case G_UPVALUE: NEED(lua_getupvalue(L, g->a, g->n) != NULL); break;
    case G_ENV: lua_getfenv(L, g->a); break;
    case G_FIELD:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      lua_rawgeti(L, anchors, g->b);
      lua_rawget(L, g->a);
      NEED_ASKED;
      break;
    case G_KEYED:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      lua_pushvalue(L, g->b);
      lua_rawget(L, g->a);
      NEED_ASKED;
      break;
    case G_ELEMENT:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      lua_rawgeti(L, g->a, g->b);
      NEED_ASKED;
      break;
    case G_GRAD: NEED(push_gradient(L, B, g->a, g->b)); break;
    case G_NO_GRAD: NEED(has_no_gradient(L, B, g->a)); break;
    case G_STRING_METATABLE:
      lua_pushliteral(L, "");
      if (!lua_getmetatable(L, -1)) lua_pushnil(L);
      lua_remove(L, -2);
      break;
    case G_LOADED: ty_lua_push_loaded(L); break;
    case G_METATABLE:
      if (!lua_getmetatable(L, g->a)) lua_pushnil(L);
      break;
    case G_TYPE: NEED_TYPE(g->b); break;
    case G_NIL: NEED_TYPE(LUA_TNIL); break;
    case G_BOOLEAN:
      NEED_TYPE(LUA_TBOOLEAN);
      NEED((bool)lua_toboolean(L, g->a) == g->want);
      break;
    case G_BITS:
      NEED_TYPE(LUA_TNUMBER);
      NEED(same_bits(lua_tonumber(L, g->a), g->v));
      break;
    case G_STRING:
      NEED_TYPE(LUA_TSTRING);
      NEED(lua_tostring(L, g->a) == g->p);
      break;
    case G_OBJECT:
      NEED(lua_topointer(L, g->a) == g->p);
      NEED_TYPE(g->b);
      break;
    case G_SAME: NEED(lua_rawequal(L, g->a, g->b)); break;
    case G_DISTINCT: NEED(!lua_rawequal(L, g->a, g->b)); break;
    case G_LENGTH:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      NEED(lua_objlen(L, g->a) == (size_t)g->n);
      break;
    case G_KEYS: NEED(same_keys(L, g, anchors)); break;
    case G_TENSOR: NEED(is_tensor(L, B, g->a, g, outside)); break;
    case G_CLOSURE: NEED(same_bytecode(L, g->a, g->dump)); break;
    case G_CELL_SAME:
    case G_CELL_DISTINCT:
      NEED((lua_upvalueid(L, g->a, g->n) == lua_upvalueid(L, g->b, g->upvalue)) == g->want);
      break;
    case G_UNSCOPED: NEED(!B->scope); break;
    case G_NUMBER:
    case G_BOUND:
      NEED_TYPE(LUA_TNUMBER);
      *y++ = lua_tonumber(L, g->a);
      break;
    case G_CONST: *y++ = g->v; break;
    case G_SIZE: *y++ = size[g->a]; break;
    case G_ADD: *y = number[g->a] + number[g->b], y++; break;
    case G_SUB: *y = number[g->a] - number[g->b], y++; break;
    case G_MUL: *y = number[g->a] * number[g->b], y++; break;
    case G_DIV: *y = number[g->a] / number[g->b], y++; break;
    case G_UNM: *y = -number[g->a], y++; break;
    case G_ABS: *y = fabs(number[g->a]), y++; break;
    case G_FLOOR: *y = floor(number[g->a]), y++; break;
    case G_CEIL: *y = ceil(number[g->a]), y++; break;
    case G_SQRT: *y = sqrt(number[g->a]), y++; break;
    case G_CALL: *y = call_number(L, g, number, anchors), y++; break;
    case G_DRAW: *y++ = outside ? draw_number(L, g, anchors) : DRAWN_UNKNOWN; break;
    case G_LT: NEED((number[g->a] < number[g->b]) == g->want); break;
    case G_LE: NEED((number[g->a] <= number[g->b]) == g->want); break;
    case G_EQ: NEED((number[g->a] == number[g->b]) == g->want); break;
    case G_WHOLE: NEED(is_whole(number[g->a]) == g->want); break;
    case G_COUNT: break;
    }
  }
  return to;
#undef NEED
#undef NEED_TYPE
#undef NEED_ASKED
}

/* The program but for what needs sizes; the stack holds arguments and function. */
static i32 check_guards(lua_State *L, const Binding *B, const Trace *T, double *number,
                        const Tensor **outside) {
  lua_rawgeti(L, UP_ANCHORS, T->anchor);
  for (i32 k = 0; k < T->nkeys; k++) lua_rawgeti(L, ANCHORS_AT(T), T->key + k);
  return check_range(L, B, T, 0, T->early_guards, NULL, number, 0, outside);
}

static i32 check_deferred(lua_State *L, const Binding *B, const Trace *T, const Instance *I,
                          double *number, const Tensor **outside) {
  return check_range(L, B, T, T->early_guards, T->late_guards, I->size, number, T->early_numbers,
                     outside);
}

/* Numbers that are drawn, and what is computed from them: once a call, when it will surely be answered, so that the
** functions that draw are called as often as plain Lua calls them. outside: NULL where they are not to be drawn. */
static void draw_numbers(lua_State *L, const Binding *B, const Trace *T, const Instance *I,
                         double *number, const Tensor **outside) {
  if (TY_LIKELY(T->late_guards == T->nguards)) return;
  check_range(L, B, T, T->late_guards, T->nguards, I->size, number, T->late_numbers, outside);
}

/* --- results */

/* Where on the stack the tensors and tables of a run lie, below their first, and its anchors. */
typedef struct Made {
  int anchors, tensors, tables;
  const double *number;
} Made;

static void push_random(lua_State *L, i32 streams) {
  const State *S = ty_lua_state(L);
  const u64 state[2] = {S->seed, S->stream + (u64)streams};
  lua_pushlstring(L, (const char *)state, sizeof state);
}

static void push_value(lua_State *L, Recipe r, const Made *m) {
  switch ((RecipeKind)r.kind) {
  case R_SLOT: lua_pushvalue(L, r.k); break;
  case R_VALUE: lua_rawgeti(L, m->anchors, r.k); break;
  case R_NUMBER: lua_pushnumber(L, m->number[r.k]); break;
  case R_TENSOR: lua_pushvalue(L, m->tensors + r.k); break;
  case R_TABLE: lua_pushvalue(L, m->tables + r.k); break;
  case R_RANDOM: push_random(L, r.k - 1); break;
  case R_VERSION: ty_lua_push_version(L, r.k); break;
  }
}

/* Closures come before what fills tables with them. Those that share the function's variables share what they are now.
** Raises when memory is out. */
static void make_closures(lua_State *L, const Trace *T, const Made *m) {
  const Pair *p = T->pair;
  for (i32 i = 0; i < T->ntables; i++) {
    if (T->size[i].maker) {
      lua_rawgeti(L, m->anchors, T->size[i].maker);
      for (i32 k = 0; k < T->size[i].nvalues; k++) push_value(L, p[k].value, m);
      lua_call(L, T->size[i].nvalues, 1);
      lua_replace(L, m->tables + i + 1);
    }
    p += T->size[i].nvalues;
  }
}

static bool may_make_closures(lua_State *L, const Trace *T, int anchors) {
  bool may = !lua_gethook(L); /* it would see what makes them */
  for (i32 i = 0; may && i < T->nowners; i++) {
    lua_rawgeti(L, anchors, T->owner + 2 * i);
    lua_rawgeti(L, anchors, T->owner + 2 * i + 1);
    may = ty_lua_is_shared(L, lua_gettop(L) - 1, lua_touserdata(L, -1));
    lua_pop(L, 2);
  }
  return may;
}

static void fill_tables(lua_State *L, const Trace *T, const Made *m) {
  if (T->makes_closures) make_closures(L, T, m);
  for (i32 i = 0; i < T->npairs; i++) {
    if (T->size[T->pair[i].owner - 1].maker) continue;
    push_value(L, T->pair[i].key, m);
    push_value(L, T->pair[i].value, m);
    lua_rawset(L, m->tables + T->pair[i].owner);
  }
  for (i32 i = 0; i < T->ntables; i++) {
    if (T->meta[i].kind == R_SLOT && !T->meta[i].k) continue;
    push_value(L, T->meta[i], m);
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
  Tensor flat = {.st = g->st, .type = ty_type_line(g->type.dtype, g->type.device, g->st->numel)};
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
      push_value(L, e->value, m);
      lua_setupvalue(L, e->owner, e->index);
      continue;
    }
    push_value(L, e->key, m);
    push_value(L, e->value, m);
    lua_rawset(L, e->owner);
  }
}

/* Pushes what pick answers: nil and the only result, or a function; gives their number. Of a part that a link goes on
** from: the link and the registers. */
static int push_answer(lua_State *L, State *S, const Trace *T, const Made *m) {
  const bool single = T->nresults == 1 && !T->resume;
  S->engine->compiled->part = T->link ? PART_GOES_ON : PART_ANSWERS;
  if (single) lua_pushnil(L);
  if (T->link) lua_rawgeti(L, m->anchors, T->link);
  for (i32 i = 0; i < T->nresults; i++) push_value(L, T->result[i], m);
  if (single || T->link) return T->nresults + 1;
  ty_lua_stash(L, S->engine->compiled, T->nresults, UP_STASH);
  if (T->resume) lua_rawgeti(L, m->anchors, T->resume);
  else lua_pushvalue(L, UP_HAND_OUT);
  return 1;
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

static bool fits(State *S, const Trace *T, const Instance *I, const double *number,
                 const Tensor *const *outside) {
  for (i32 i = 0; i < T->nbounds; i++)
    if (!same_bits(number[T->bound[i].number], I->size[T->bound[i].size])) return false;
  /* the only one says itself why it cannot run */
  return ty_instance_fits(I, outside) && (T->ninstance == 1 || ty_instance_shares(S, I, outside));
}

/* What a call needs beside the stack of Lua. */
typedef struct Call {
  double *number; /* from 1 */
  const Tensor **outside;
  Tensor **made, *hidden; /* hidden: those for which no handle is made */
  i32 room;
  bool linked;       /* by a link: what it makes goes from part to part */
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
  if (!T->dynamic || fits(S, T, T->instance[0], number, outside)) return T->instance[0];
  for (i32 i = 0; i < T->nranges; i++) {
    if (!find_in_range(T, T->range[i], number, outside, &c->t)) continue;
    c->range = T->range[i];
    pin(c);
    if (fits(S, T, c->range->I, number, outside)) return c->range->I;
    c->range = NULL;
  }
  u64 hash = ty_instance_hash(outside, T->noutside);
  for (i32 i = 0; i < T->nbounds; i++) hash = hash_number(number[T->bound[i].number], hash);
  for (i32 i = 1; i < T->ninstance; i++)
    if (T->hash[i] == hash && fits(S, T, T->instance[i], number, outside)) return to_front(T, i);
  return NULL;
}

/* After a run that failed as memory ran out: whether another try may go better. Collecting garbage
** runs finalisers: what was ready is asked again. */
static bool may_try_again(lua_State *L, State *S, Instance *I, const Call *c, const char **why) {
  if (!ty_lua_reclaim(L, S)) return false;
  pin(c);
  return ty_instance_ready(S, I, c->outside, c->number, why) == READY_YES;
}

/* linked: parts alone will see what is made. */
static void push_made(lua_State *L, Binding *B, const Trace *T, bool linked) {
  for (i32 i = 0, n = T->instance[0]->nmade; i < n; i++)
    if (T->hidden[i]) lua_pushnil(L);
    else if (linked) ty_spare_push(L, B);
    else ty_lua_push_in(L, B);
  for (i32 i = 0; i < T->ntables; i++)
    if (T->size[i].maker) lua_pushnil(L);
    else lua_createtable(L, T->size[i].array, T->size[i].hash);
  for (i32 i = 0; i < T->ngrads; i++) ty_lua_push_in(L, B);
}

/* The memory for it, of which a trace may want more than the stack of a thread has. An error of Lua's may end a
** call without leave_room: calls in progress stand higher on the stack of C than this one, those that have
** ended do not. False: out of memory, or calls inside of calls inside of calls. */
static __attribute__((noinline)) bool take_room(struct Compiled *C, const Trace *T, Call *y) {
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  const size_t numbers = sizeof *y->number * (size_t)(T->nnumbers + 1),
               made = T->instance[0]->nmade;
  const size_t outside = sizeof *y->outside * (size_t)(T->noutside + 1);
  const size_t n = numbers + outside + (sizeof *y->made + sizeof *y->hidden) * made;
  while (C->nroom && C->room[C->nroom - 1].frame <= here) C->nroom--;
  if (C->nroom == ROOMS) return false;
  struct Room *r = &C->room[C->nroom];
  if (TY_UNLIKELY(r->n < n || ty_mem_checked())) {
    ty_mem_free(r->p);
    r->p = ty_mem_alloc(n), r->n = r->p ? n : 0;
    if (!r->p) return false;
  }
  r->frame = here;
  y->room = C->nroom++;
  y->number = r->p;
  y->outside = (const Tensor **)((char *)r->p + numbers);
  y->made = (Tensor **)((char *)y->outside + outside);
  y->hidden = (Tensor *)(y->made + made);
  return true;
}

static void leave_room(struct Compiled *C, const Call *c) { C->nroom = c->room; }

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
static TraceAnswer run_trace(lua_State *L, State *S, const Trace *T, Instance *I, const Call *c,
                             const char **why, int *answers) {
  const double *number = c->number;
  const Tensor *const *outside = c->outside;
  Tensor **made = c->made, *hidden = c->hidden;
  int first = T->lead ? T->narg : lua_gettop(L);
  Made m = {ANCHORS_AT(T), first, first + I->nmade, number};
  const u64 link = T->link && !c->linked ? ty_spare_begin((Binding *)S) : 0;
  if (!T->lead) push_made(L, (Binding *)S, T, c->linked || link);
  for (i32 i = 0; i < I->nmade; i++) {
    if (T->hidden[i] &&
        I->foreign) { /* a backend's function may raise: nothing of C's own is at stake */
      ty_lua_push_in(L, (Binding *)S);
      lua_replace(L, first + i + 1);
    }
    made[i] = T->hidden[i] && !I->foreign ? &hidden[i] : lua_touserdata(L, first + i + 1);
  }
  if (T->makes_closures && !may_make_closures(L, T, m.anchors)) return TRACE_REST;
  if (T->ntables) fill_tables(L, T, &m);
  S->out_of_range = false;
  pin(c);
  Ready ready = ty_instance_ready(S, I, outside, number, why);
  if (TY_UNLIKELY(ready == READY_NO)) return S->out_of_range ? TRACE_REST : TRACE_MISS;
  if (TY_UNLIKELY(ready == READY_FAILED)) return TRACE_FAILED;
  draw_numbers(L, (Binding *)S, T, I, c->number, c->outside);
  pin(c);
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
  if (T->neffects) { /* no Lua code runs before hidden tensors are let go */
    apply_gradients(L, T, made);
    for (i32 i = 0; i < I->nmade; i++)
      if (made[i] == &hidden[i]) ty_tensor_release(made[i]);
    apply_effects(L, T, &m);
  }
  if (!T->shows_grads) /* they would keep gradients until Lua's collector comes to them */
    for (i32 i = 0; i < T->ngrads; i++) ty_tensor_release(lua_touserdata(L, T->narg + T->lead - i));
  const bool alone = I->nmade == 1 && !I->made[0].alias && !T->hidden[0] && !I->foreign;
  S->engine->compiled->fresh = alone && !T->neffects && !T->ntables ? made[0] : NULL;
  *answers = push_answer(L, S, T, &m);
  S->engine->compiled->link = link;
  S->engine->compiled->kept = T->lead || T->neffects || T->ntables || T->ngrads || I->foreign;
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
  if (T->lead) push_made(L, (Binding *)S, T, false);
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
  TraceAnswer y = run_trace(L, S, T, I, c, why, answers);
  if (y == TRACE_HIT) T->hits++;
  return y;
}

/* What no guard asks, since it is a part of each trace's key. */
static const char *called_otherwise(const Trace *T, int narg, u32 word) {
  if (T->narg != narg) return "it is called with another number of arguments";
  return T->word != word ? "it is called under other settings or modes" : NULL;
}

TraceAnswer ty_trace_call(lua_State *L, State *S, Entry *e, TraceUse use, int *answers) {
  const bool tell = use == TRACE_TELL;
  int narg = lua_gettop(L);
  u32 word = ty_entry_word(S);
  i32 failed;
  const char *why;
  TraceAnswer answer = TRACE_MISS;
  const i64 begin = TY_UNLIKELY(e->skips >= e->next_timed) && !tell ? ty_event_now() : 0;
  i32 held = -1; /* guards of the nearest trace so far: explain is told of that one */
  for (i32 i = 0; i < e->ntrace; i++) {
    Trace *T = e->trace[i];
    T->lacking = false;
    if (T->narg != narg || T->word != word) continue;
    if (TY_UNLIKELY(!lua_checkstack(L, ty_trace_stack(T)))) continue;
    Call c;
    if (TY_UNLIKELY(!take_room(S->engine->compiled, T, &c))) continue;
    T->refs++;
    c.linked = use == TRACE_LINKED;
    why = NULL;
    TraceAnswer y = try_trace(L, S, T, tell, &c, &failed, &why, answers);
    leave_room(S->engine->compiled, &c);
    ty_trace_drop(T);
    if (y == TRACE_HIT) {
      if (TY_UNLIKELY(begin != 0)) ty_entry_note_time(e, ty_event_now() - begin);
      e->skips += !tell;
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

void ty_trace_drop_samples(Trace *T) {
  for (int i = 0; i < RANGE_SAMPLES; i++) {
    if (T->sample[i]) ty_instance_free(T->sample[i]);
    T->sample[i] = NULL;
  }
}

static void trace_free(Trace *T) {
  for (i32 i = 0; i < T->nguards; i++) {
    Guard *g = &T->guard[i];
    if (g->op == G_TENSOR) ty_mem_free(g->tensor);
    if (g->op == G_CLOSURE && g->dump) {
      ty_mem_free(g->dump->bytes);
      ty_mem_free(g->dump);
    }
  }
  for (i32 i = 0; i < T->ninstance; i++) ty_instance_free(T->instance[i]);
  for (i32 i = 0; i < T->nranges; i++) ty_shape_range_free(T->range[i]);
  ty_trace_drop_samples(T);
  ty_mem_free(T->guard);
  ty_mem_free(T->result);
  ty_mem_free(T->meta);
  ty_mem_free(T->pair);
  ty_mem_free(T->effect);
  ty_mem_free(T->hidden);
  ty_mem_free(T->size);
  ty_mem_free(T->instance);
  ty_mem_free(T->hash);
  ty_mem_free(T->bound);
  ty_mem_free(T);
}

/* Finalisers run in the middle of a call, and may drop any trace: the one that runs waits. */
void ty_trace_drop(Trace *T) {
  if (!--T->refs) trace_free(T);
}

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
    e->compared[1] = g->op == G_WHOLE ? 0 : number[g->b];
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
  T->refs++;
  lua_settop(L, narg);
  if (T->ngrads) push_made(L, (Binding *)S, T, false);
  else lua_settop(L, narg + T->lead);
  if (!T->gone) { /* by a finaliser */
    lua_pushvalue(L, UP_FUNCTION);
    i32 failed = check_guards(L, (Binding *)S, T, c.number, c.outside);
    const Instance *I = failed < T->early_guards ? NULL : find_instance(S, T, &c);
    if (I) failed = check_deferred(L, (Binding *)S, T, I, c.number, c.outside);
    if (failed < T->late_guards) note_failed(L, e, &T->guard[failed], c.number);
  }
  leave_room(S->engine->compiled, &c);
  lua_settop(L, narg);
  ty_trace_drop(T);
}

/* --- explain */

static void set_number(lua_State *L, const char *name, i64 v) {
  lua_pushnumber(L, (lua_Number)v);
  lua_setfield(L, -2, name);
}

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

/* Sets {{operations, kernels, steps}, ...} of the plans for backward passes through calls of it. */
static void set_backward(lua_State *L, const TracedTape *tape) {
  TracedPlan plan[TRACED_PLANS];
  const i32 n = ty_traced_plans(tape, plan);
  lua_createtable(L, n, 0);
  for (i32 i = 0; i < n; i++) {
    lua_createtable(L, 0, 3);
    set_number(L, "operations", plan[i].operations);
    set_number(L, "kernels", plan[i].kernels);
    set_number(L, "steps", plan[i].steps);
    lua_rawseti(L, -2, i + 1);
  }
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
    set_number(L, "ranges", T->nranges);
    set_number(L, "kernels", p->nkernels);
    set_number(L, "steps", p->nsteps);
    set_number(L, "operations", p->nops);
    set_number(L, "operations_saved", TY_MAX(p->nops - p->nsteps, 0));
    set_number(L, "bytes_moved", p->bytes_moved);
    set_number(L, "bytes_saved", p->bytes_saved);
    set_number(L, "streams", (i64)I->streams);
    if (I->tape) {
      TracedTape *tape = I->tape;
      tape->refs++;
      set_kept(L, tape, I);
      set_backward(L, tape);
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
