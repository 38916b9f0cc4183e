/*
** lua_trace.c -- traces as Lua sees them: the session of a capture, guards, results and effects.
** In: from capture.lua the description of a captured call (tables, see below); then the arguments of
** later calls. Out: whether a trace answers a call, and its results. Fails by Lua errors while a trace
** is made; a run fails for want of memory alone.
**
** A trace is a guard program over slots. Slots are stack positions: the arguments, the function, then
** one for each value that the program reads. Numbers have a file of their own, counted from 1.
** The program is run by one loop, check_guards; each instruction is one call or two of Lua's API.
** What it compares with by identity lies in the entry's table of anchors, so addresses stay taken.
**
** Rules.
** 1. Between the guards and the run Lua's collector may run finalisers, which may do anything: so the
**    run's own questions (ty_instance_ready) come last, when handles and tables are made already.
** 2. Effects come after the run, which cannot fail any more then.
** 3. Results wait in the stash until the second half of the call hands them out; it is a stack, since
**    a hook may call compiled functions between the halves.
*/
#include <math.h>
#include <stdio.h>
#include "lua_trace.h"

/* Columns: what stands in a description, operands that are slots or numbers. */
typedef enum {
  /* reading: each pushes a slot */
  G_UPVALUE,
  G_ENV,
  G_FIELD,
  G_KEYED,   /* a field whose key lies on the stack already */
  G_ELEMENT, /* a field with a small whole number as its key */
  G_METATABLE,
  /* checking */
  G_TYPE,
  G_NIL,
  G_BOOLEAN,
  G_BITS,
  G_STRING,
  G_OBJECT,
  G_SAME,
  G_DISTINCT,
  G_LENGTH,
  G_KEYS,
  G_TENSOR,
  G_CLOSURE,
  /* numbers: each makes one */
  G_NUMBER,
  G_CONST,
  G_ADD,
  G_SUB,
  G_MUL,
  G_DIV,
  G_UNM,
  G_ABS,
  G_FLOOR,
  G_CEIL,
  G_SQRT,
  G_CALL,
  /* outcomes */
  G_LT,
  G_LE,
  G_EQ,
  G_WHOLE
} GuardOp;

typedef struct TensorGuard {
  u8 dtype, rank;
  bool loose; /* any sizes of that rank */
  struct {
    i64 size, stride;
  } dim[];
} TensorGuard;

typedef struct Dump {
  size_t n, cap;
  char *bytes;
} Dump;

typedef struct Guard {
  u8 op;
  bool want;  /* of an outcome */
  bool doubt; /* of a read: no guard before it has seen that slot a is a table */
  i32 a, b;   /* slots, numbers, anchors */
  i32 n;
  union {
    double v;
    const void *p;
    TensorGuard *tensor;
    Dump *dump;
  };
} Guard;

typedef enum { R_SLOT, R_VALUE, R_NUMBER, R_TENSOR, R_TABLE } RecipeKind;
typedef struct Recipe {
  u8 kind;
  i32 k;
} Recipe;

typedef struct Pair {
  i32 owner; /* a table's number; of an effect: the slot of a table, or of a function */
  i32 index; /* of an effect on an upvalue: its number; else 0 */
  Recipe key, value;
} Pair;

struct Trace {
  i32 refs; /* the entry's, and one for each call that is running it */
  u32 word;
  i32 narg, nslots, nguards, nnumbers, noutside;
  i32 key, nkeys; /* anchors of keys that several fields have: they lie behind the function */
  Guard *guard;
  i32 nresults, npairs, neffects, ntables;
  Recipe *result, *meta; /* meta: per table; R_SLOT 0 when it has none */
  Pair *pair, *effect;
  i32 *array; /* per table: elements from 1 on */
  Instance **instance;
  i32 ninstance;
  bool dynamic;         /* made for each set of sizes */
  i32 backend;          /* anchor of the function that computes instead of a plan; 0: none */
  i32 wasted;           /* instances in a row that were not used again */
  i64 rest;             /* calls of new sizes to come that make no instance */
  i64 used;             /* hits when the last instance was made */
  i32 anchor, nanchors; /* its range in the entry's table; the first is the description */
  i64 hits;
};

#define FILE_MAX_SIZE \
  4000 /* slots, numbers, tensors made: they lie on the stacks of Lua and of C */
#define KEY_ANCHORS "tycho.anchors" /* in the registry: the table of the capture in progress */

/* Upvalues of pick. */
#define UP_ENTRY lua_upvalueindex(3)
#define UP_FUNCTION lua_upvalueindex(4)
#define UP_ANCHORS lua_upvalueindex(5)
#define UP_STASH lua_upvalueindex(6)
#define UP_HAND_OUT lua_upvalueindex(7)

/* --- guards */

static int compare_dump(lua_State *L, const void *p, size_t n, void *ud) {
  Dump *at = ud; /* n: how far it was equal */
  (void)L;
  if (at->n + n > at->cap || memcmp(at->bytes + at->n, p, n)) return 1;
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
static bool same_keys(lua_State *L, const Guard *g) {
  int n = 0;
  if (lua_type(L, g->a) != LUA_TTABLE) return false;
  for (lua_pushnil(L); lua_next(L, g->a); n++) {
    lua_pop(L, 1);
    lua_rawgeti(L, UP_ANCHORS, g->b + n);
    bool same = n < g->n && lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    if (same) continue;
    lua_pop(L, 1);
    return false;
  }
  return n == g->n;
}

static inline bool same_tensor(const Tensor *t, const TensorGuard *g) {
  if (!t || !t->st || t->type.dtype != g->dtype || t->type.rank != g->rank) return false;
  for (int d = 0; d < g->rank && !g->loose; d++) {
    if (t->type.dims[d] != g->dim[d].size) return false;
    if (t->strides[d] != g->dim[d].stride && g->dim[d].size != 1) return false;
  }
  return true;
}

static bool same_bits(double a, double b) {
  if (a != a || b != b) return a != a && b != b;
  return memcmp(&a, &b, sizeof a) == 0;
}

static double call_number(lua_State *L, const Guard *g, const double *number) {
  lua_rawgeti(L, UP_ANCHORS, g->n);
  lua_pushnumber(L, number[g->a]);
  if (g->b) lua_pushnumber(L, number[g->b]);
  lua_call(L, g->b ? 2 : 1, 1);
  double y = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return y;
}

static bool is_whole(double v) { return isfinite(v) && floor(v) == v; }

/* Runs the program; the stack holds arguments and function. Gives the number of the instruction that
** failed, or that of all. */
static i32 check_guards(lua_State *L, const Host *H, const Trace *T, double *number,
                        const Tensor **outside) {
#define NEED(condition) \
  if (TY_UNLIKELY(!(condition))) return (i32)(g - T->guard)
#define NEED_TYPE(type) NEED(lua_type(L, g->a) == (type))
  double *y = number + 1;
  for (i32 k = 0; k < T->nkeys; k++) lua_rawgeti(L, UP_ANCHORS, T->key + k);
  for (const Guard *g = T->guard, *end = g + T->nguards; g < end; g++) {
    const Tensor *t;
    switch ((GuardOp)g->op) {
    case G_UPVALUE: NEED(lua_getupvalue(L, g->a, g->b) != NULL); break;
    case G_ENV: lua_getfenv(L, g->a); break;
    case G_FIELD:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      lua_rawgeti(L, UP_ANCHORS, g->b);
      lua_rawget(L, g->a);
      break;
    case G_KEYED:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      lua_pushvalue(L, g->b);
      lua_rawget(L, g->a);
      break;
    case G_ELEMENT:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      lua_rawgeti(L, g->a, g->b);
      break;
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
    case G_KEYS: NEED(same_keys(L, g)); break;
    case G_TENSOR:
      t = ty_lua_test_in(L, H, g->a); /* nothing but a userdata of ours is one */
      NEED(same_tensor(t, g->tensor));
      if (g->b >= 0) outside[g->b] = t;
      break;
    case G_CLOSURE: NEED(same_bytecode(L, g->a, g->dump)); break;
    case G_NUMBER:
      NEED_TYPE(LUA_TNUMBER);
      *y++ = lua_tonumber(L, g->a);
      break;
    case G_CONST: *y++ = g->v; break;
    case G_ADD: *y = number[g->a] + number[g->b], y++; break;
    case G_SUB: *y = number[g->a] - number[g->b], y++; break;
    case G_MUL: *y = number[g->a] * number[g->b], y++; break;
    case G_DIV: *y = number[g->a] / number[g->b], y++; break;
    case G_UNM: *y = -number[g->a], y++; break;
    case G_ABS: *y = fabs(number[g->a]), y++; break;
    case G_FLOOR: *y = floor(number[g->a]), y++; break;
    case G_CEIL: *y = ceil(number[g->a]), y++; break;
    case G_SQRT: *y = sqrt(number[g->a]), y++; break;
    case G_CALL: *y = call_number(L, g, number), y++; break;
    case G_LT: NEED((number[g->a] < number[g->b]) == g->want); break;
    case G_LE: NEED((number[g->a] <= number[g->b]) == g->want); break;
    case G_EQ: NEED((number[g->a] == number[g->b]) == g->want); break;
    case G_WHOLE: NEED(is_whole(number[g->a]) == g->want); break;
    }
  }
  return T->nguards;
#undef NEED
#undef NEED_TYPE
}

/* --- results */

/* Where on the stack the tensors and tables of a run lie, below their first. */
typedef struct Made {
  int tensors, tables;
  const double *number;
} Made;

static void push_value(lua_State *L, Recipe r, const Made *m) {
  switch ((RecipeKind)r.kind) {
  case R_SLOT: lua_pushvalue(L, r.k); break;
  case R_VALUE: lua_rawgeti(L, UP_ANCHORS, r.k); break;
  case R_NUMBER: lua_pushnumber(L, m->number[r.k]); break;
  case R_TENSOR: lua_pushvalue(L, m->tensors + r.k); break;
  case R_TABLE: lua_pushvalue(L, m->tables + r.k); break;
  }
}

static void fill_tables(lua_State *L, const Trace *T, const Made *m) {
  for (i32 i = 0; i < T->npairs; i++) {
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

static void apply_effects(lua_State *L, const Trace *T, const Made *m) {
  for (i32 i = 0; i < T->neffects; i++) {
    const Pair *e = &T->effect[i];
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

static void stash_results(lua_State *L, struct Compiled *C, const Trace *T, const Made *m) {
  if (C->stashed == STASH_MAX) C->stashed = 0; /* calls that were never finished */
  i32 base = C->stashed ? C->stash[C->stashed - 1].base + C->stash[C->stashed - 1].n : 0;
  C->stash[C->stashed++] = (struct Stash){base, T->nresults};
  for (i32 i = 0; i < T->nresults; i++) {
    push_value(L, T->result[i], m);
    lua_rawseti(L, UP_STASH, base + i + 1);
  }
}

/* The second half of a call. Upvalue 3: the stash. */
static int hand_out(lua_State *L) {
  struct Compiled *C = ty_lua_state(L)->engine->compiled;
  struct Stash s = C->stash[--C->stashed];
  if (s.n > 4) luaL_checkstack(L, s.n + 1, "too many results");
  for (i32 i = 1; i <= s.n; i++) {
    lua_rawgeti(L, lua_upvalueindex(3), s.base + i);
    lua_pushnil(L);
    lua_rawseti(L, lua_upvalueindex(3), s.base + i);
  }
  return s.n;
}

static Instance *find_instance(const Trace *T, const Tensor *const *outside) {
  if (!T->dynamic) return T->instance[0];
  for (i32 i = 0; i < T->ninstance; i++) {
    Instance *I = T->instance[i];
    if (!ty_instance_fits(I, outside)) continue;
    memmove(T->instance + 1, T->instance, sizeof(void *) * (size_t)i);
    return T->instance[0] = I;
  }
  return NULL;
}

/* The trace's guards hold: what remains. TRACE_MISS leaves the stack as it may be. */
static TraceAnswer run_trace(lua_State *L, State *S, const Trace *T, Instance *I,
                             const Tensor *const *outside, const double *number, const char **why) {
  Made m = {.tensors = lua_gettop(L), .number = number};
  Tensor *made[I->nmade + 1];
  for (i32 i = 0; i < I->nmade; i++) made[i] = ty_lua_push(L);
  m.tables = lua_gettop(L);
  for (i32 i = 0; i < T->ntables; i++) lua_createtable(L, T->array[i], 0);
  if (T->ntables) fill_tables(L, T, &m);
  Ready ready = ty_instance_ready(S, I, outside, number, why);
  if (TY_UNLIKELY(ready == READY_NO)) return TRACE_MISS;
  if (TY_UNLIKELY(ready == READY_FAILED)) return TRACE_FAILED;
  if (TY_UNLIKELY(I->foreign != NULL)) {
    lua_rawgeti(L, UP_ANCHORS, T->backend);
    if (!ty_custom_run(L, S, I, outside, number, made)) return TRACE_RAISED;
  } else if (TY_UNLIKELY(!TY_LUA_TRY(L, S, ty_instance_run(S, I, outside, number, made)))) {
    return TRACE_FAILED;
  }
  if (T->neffects) apply_effects(L, T, &m);
  stash_results(L, S->engine->compiled, T, &m);
  return TRACE_HIT;
}

static void trace_free(Trace *T);

/* Finalisers run in the middle of a call, and may drop any trace: this one waits. */
static void trace_drop(Trace *T) {
  if (!--T->refs) trace_free(T);
}

static TraceAnswer try_trace(lua_State *L, State *S, Entry *e, Trace *T, i32 *failed,
                             const char **why) {
  double number[T->nnumbers + 1];
  const Tensor *outside[T->noutside + 1];
  lua_pushvalue(L, UP_FUNCTION);
  *failed = check_guards(L, (Host *)S, T, number, outside);
  if (*failed < T->nguards) return TRACE_MISS;
  Instance *I = find_instance(T, outside);
  if (!I) {
    if (T->rest > 0) {
      T->rest--;
      return TRACE_REST;
    }
    e->sized = T;
    return TRACE_SIZES;
  }
  T->refs++;
  TraceAnswer y = run_trace(L, S, T, I, outside, number, why);
  if (y == TRACE_HIT) T->hits++;
  trace_drop(T);
  return y;
}

TraceAnswer ty_trace_call(lua_State *L, State *S, Entry *e) {
  int narg = lua_gettop(L);
  u32 word = ty_entry_word(S);
  i32 failed;
  const char *why = NULL;
  TraceAnswer answer = TRACE_MISS;
  bool first = true; /* the one that hit last: explain is told of that one */
  for (i32 i = 0; i < e->ntrace; i++) {
    Trace *T = e->trace[i];
    if (T->narg != narg || T->word != word) continue;
    if (TY_UNLIKELY(!lua_checkstack(L, T->nslots + T->ntables + T->nresults + 256))) continue;
    TraceAnswer y = try_trace(L, S, e, T, &failed, &why);
    if (y == TRACE_HIT) {
      e->skips++;
      if (i && i < e->ntrace && e->trace[i] == T) { /* still there */
        memmove(e->trace + 1, e->trace, sizeof *e->trace * (size_t)i);
        e->trace[0] = T;
      }
      lua_pushvalue(L, UP_HAND_OUT);
      return y;
    }
    if (y == TRACE_FAILED) ty_lua_fail(L, S);
    if (y == TRACE_RAISED) lua_error(L);
    lua_settop(L, narg);
    if (y == TRACE_SIZES || y == TRACE_REST) { /* another trace may have them */
      answer = y;
      continue;
    }
    if (i >= e->ntrace || e->trace[i] != T) break;
    if (first) e->failed = (struct Failed){.why = why, .trace = T, .guard = failed};
    first = false;
  }
  return answer;
}

/* --- the session */

/* Stops Lua's collector: finalisers would record into the capture. */
static void stop_collector(lua_State *L, struct Compiled *C) {
  C->collects = lua_gc(L, LUA_GCISRUNNING, 0) != 0;
  if (C->collects) lua_gc(L, LUA_GCSTOP, 0);
}

static void end_session(lua_State *L, State *S) {
  struct Compiled *C = S->engine->compiled;
  if (!C->capturing) return;
  ty_capture_end(S);
  C->session->open->closed = true;
  ty_lazy_abandon(S, C->session);
  C->session = NULL;
  C->capturing = NULL;
  if (C->collects) lua_gc(L, LUA_GCRESTART, 0);
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_ANCHORS);
}

/* begin(handle, ...) -> true | nil, reason */
static int capture_begin(lua_State *L) {
  State *S = ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  struct Compiled *C = S->engine->compiled;
  if (S->open || C->capturing) {
    lua_pushnil(L);
    lua_pushliteral(L, "another function is being recorded");
    return 2;
  }
  Lazy like = {.thread = L, .pinned = true};
  C->session = ty_lazy_open(S, &like);
  if (!C->session || !ty_capture_begin(S, C->session->open)) {
    if (C->session) ty_lazy_abandon(S, C->session);
    lua_pushnil(L);
    lua_pushliteral(L, "out of memory");
    return 2;
  }
  C->capturing = e;
  lua_getfenv(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_ANCHORS);
  stop_collector(L, C);
  lua_pushboolean(L, true);
  return 1;
}

static int capture_abort(lua_State *L) {
  State *S = ty_lua_state(L);
  if (S->engine) end_session(L, S);
  return 0;
}

static int capture_reason(lua_State *L) {
  State *S = ty_lua_state(L);
  if (!S->capture || !S->capture->refused) return 0;
  lua_pushstring(L, S->capture->why);
  return 1;
}

/* outside(tensor, slot) */
static int capture_outside(lua_State *L) {
  State *S = ty_lua_state(L);
  Tensor *t = ty_lua_check(L, "capture", 1);
  i32 slot = (i32)luaL_checkinteger(L, 2);
  if (!S->capture) return luaL_error(L, "no capture");
  for (i32 i = 0; i < S->capture->noutside; i++)
    if (S->capture->outside[i].slot == slot) return 0;
  if (t->st->batch && t->st->batch != S->capture->batch && !S->cut(S, t->st->batch, t->st))
    return ty_lua_fail(L, S);
  if (!ty_capture_outside(S, t, slot)) return ty_lua_fail(L, S);
  return 0;
}

/* symbols(n, i1, id1, i2, id2 ...): of the next call */
static int capture_symbols(lua_State *L) {
  Capture *c = ty_lua_state(L)->capture;
  if (!c) return 0;
  memset(c->symbol, 0, sizeof c->symbol);
  c->taken = 0;
  for (int i = 2, top = lua_gettop(L); i + 1 <= top; i += 2) {
    int at = (int)lua_tointeger(L, i);
    if (at >= 1 && at <= SYMBOLS_MAX) c->symbol[at - 1] = (i32)lua_tointeger(L, i + 1);
  }
  return 0;
}

static int capture_taken(lua_State *L) {
  Capture *c = ty_lua_state(L)->capture;
  lua_pushnumber(L, c ? c->taken : 0);
  if (!c) return 1;
  memset(c->symbol, 0, sizeof c->symbol);
  c->taken = 0;
  return 1;
}

static int capture_wholeness(lua_State *L) {
  Capture *c = ty_lua_state(L)->capture;
  int n = c ? c->nwhole : 0;
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, c->whole[i] < 0 ? -c->whole[i] : c->whole[i]);
    lua_pushboolean(L, c->whole[i] > 0);
  }
  if (c) c->nwhole = 0;
  return 2 * n;
}

static int capture_upvalue(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (!lua_getupvalue(L, 1, (int)luaL_checkinteger(L, 2))) lua_pushnil(L);
  return 1;
}

static int capture_upvalue_id(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  char id[32]; /* a light userdata could be too wide */
  snprintf(id, sizeof id, "%p", lua_upvalueid(L, 1, (int)luaL_checkinteger(L, 2)));
  lua_pushstring(L, id);
  return 1;
}

static int capture_environment(lua_State *L) {
  lua_getfenv(L, 1);
  return 1;
}

static int capture_is_tensor(lua_State *L) {
  lua_pushboolean(L, lua_type(L, 1) == LUA_TUSERDATA && ty_lua_test(L, 1));
  return 1;
}

static int capture_is_native(lua_State *L) {
  lua_pushboolean(L, lua_iscfunction(L, 1));
  return 1;
}

static int capture_dims(lua_State *L) {
  Tensor *t = ty_lua_check(L, "capture", 1);
  for (int d = 0; d < t->type.rank; d++) lua_pushnumber(L, (lua_Number)t->type.dims[d]);
  return t->type.rank;
}

/* --- a description becomes a trace */

typedef struct Reader {
  lua_State *L;
  State *S;
  Trace *T;
  int d, anchors; /* stack: the description, the entry's table of anchors */
  int keys;       /* stack: by key of a field: its number, or false while it has been seen once */
  u8 *is_table;   /* by slot: a guard has seen to it */
  i32 slot;       /* that the next reading instruction makes */
} Reader;

static void *array(Reader *r, size_t n, size_t size) {
  void *p = ty_mem_zalloc((n + 1) * size);
  if (!p) luaL_error(r->L, "out of memory");
  return p;
}

/* The i-th value of the table on top of the stack, as a whole number. */
static i32 item(Reader *r, int i) {
  lua_rawgeti(r->L, -1, i);
  i32 v = (i32)lua_tointeger(r->L, -1);
  lua_pop(r->L, 1);
  return v;
}

/* Anchors the value on top of the stack and pops it. */
static i32 anchor(Reader *r) {
  i32 k = r->T->anchor + r->T->nanchors++;
  lua_rawseti(r->L, r->anchors, k);
  return k;
}

static i32 anchor_item(Reader *r, int i) {
  lua_rawgeti(r->L, -1, i);
  return anchor(r);
}

static int keep_dump(lua_State *L, const void *p, size_t n, void *ud) {
  Dump *d = ud;
  (void)L;
  if (d->n + n > d->cap) {
    size_t cap = (d->n + n) * 2;
    char *more = ty_mem_realloc(d->bytes, cap);
    if (!more) return 1;
    d->bytes = more;
    d->cap = cap;
  }
  memcpy(d->bytes + d->n, p, n);
  d->n += n;
  return 0;
}

/* equal: by what the value is */
static void read_equal(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 3);
  int type = lua_type(L, -1);
  switch (type) {
  case LUA_TNIL: g->op = G_NIL; break;
  case LUA_TBOOLEAN:
    g->op = G_BOOLEAN;
    g->want = lua_toboolean(L, -1);
    break;
  case LUA_TNUMBER:
    g->op = G_BITS;
    g->v = lua_tonumber(L, -1);
    break;
  case LUA_TSTRING:
    g->op = G_STRING;
    g->p = lua_tostring(L, -1);
    break;
  default:
    g->op = G_OBJECT;
    g->p = lua_topointer(L, -1);
    g->b = type;
  }
  anchor(r);
}

/* Whether the value on top of the stack is a key for rawgeti. */
static bool is_small_key(lua_State *L) {
  double k = lua_tonumber(L, -1);
  return lua_type(L, -1) == LUA_TNUMBER && k == floor(k) && fabs(k) < 1e9;
}

static void read_field(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 3);
  if (is_small_key(L)) {
    g->op = G_ELEMENT;
    g->b = (i32)lua_tonumber(L, -1);
    lua_pop(L, 1);
    return;
  }
  lua_pushvalue(L, -1);
  lua_rawget(L, r->keys);
  g->op = lua_isnumber(L, -1) ? G_KEYED : G_FIELD;
  g->b = (i32)lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (g->op == G_FIELD) g->b = anchor(r);
  else lua_pop(L, 1);
}

/* Keys that several fields have, from the program on top of the stack. */
static void find_keys(Reader *r, i32 n) {
  lua_State *L = r->L;
  Trace *T = r->T;
  lua_newtable(L);
  r->keys = lua_gettop(L);
  T->key = T->anchor + T->nanchors;
  for (i32 i = 1; i <= n; i++) {
    lua_rawgeti(L, r->keys - 1, i);
    lua_rawgeti(L, -1, 1);
    bool field = lua_isstring(L, -1) && !strcmp(lua_tostring(L, -1), "field");
    lua_rawgeti(L, -2, 3);
    if (field && lua_type(L, -1) == LUA_TSTRING) {
      lua_pushvalue(L, -1);
      lua_rawget(L, r->keys);
      bool again = lua_isboolean(L, -1), first = lua_isnil(L, -1);
      lua_pop(L, 1);
      if (again) {
        lua_pushvalue(L, -1);
        anchor(r);
        lua_pushvalue(L, -1);
        lua_pushinteger(L, T->narg + 2 + T->nkeys++);
        lua_rawset(L, r->keys);
      } else if (first) {
        lua_pushvalue(L, -1);
        lua_pushboolean(L, false);
        lua_rawset(L, r->keys);
      }
    }
    lua_settop(L, r->keys);
  }
}

static void read_keys(Reader *r, Guard *g) {
  lua_State *L = r->L;
  g->op = G_KEYS;
  lua_rawgeti(L, -1, 3);
  g->n = (i32)lua_objlen(L, -1);
  g->b = r->T->anchor + r->T->nanchors;
  for (i32 i = 1; i <= g->n; i++) anchor_item(r, i);
  lua_pop(L, 1);
}

/* The number under which the instance knows the tensor of that slot. */
static i32 outside_of(const Reader *r, i32 slot) {
  const Instance *I = r->T->instance[0];
  for (i32 i = 0; i < I->noutside; i++)
    if (I->outside[i].slot == slot) return i;
  return -1;
}

static void read_tensor(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 3);
  const Tensor *t = ty_lua_test(L, -1);
  lua_pop(L, 1);
  if (!t || !t->st) luaL_error(L, "the guard's tensor is gone");
  g->op = G_TENSOR;
  g->tensor = array(r, 1, sizeof *g->tensor + t->type.rank * sizeof *g->tensor->dim);
  g->tensor->dtype = t->type.dtype;
  g->tensor->rank = t->type.rank;
  g->tensor->loose = r->T->dynamic;
  for (int d = 0; d < t->type.rank; d++) {
    g->tensor->dim[d].size = t->type.dims[d];
    g->tensor->dim[d].stride = t->strides[d];
  }
  g->b = outside_of(r, item(r, 2));
}

static void read_closure(Reader *r, Guard *g) {
  lua_State *L = r->L;
  g->op = G_CLOSURE;
  g->dump = array(r, 1, sizeof *g->dump);
  lua_rawgeti(L, -1, 3);
  int status = lua_dump(L, keep_dump, g->dump);
  lua_pop(L, 1);
  if (status) luaL_error(L, "the function has no bytecode");
}

static void read_type(Reader *r, Guard *g) {
  g->op = G_TYPE;
  lua_rawgeti(r->L, -1, 3);
  const char *name = lua_tostring(r->L, -1);
  g->b = LUA_TNONE;
  for (int type = LUA_TNIL; name && type <= LUA_TTHREAD + 2; type++)
    if (!strcmp(lua_typename(r->L, type), name) && type != LUA_TLIGHTUSERDATA) g->b = type;
  lua_pop(r->L, 1);
  if (g->b == LUA_TNONE) luaL_error(r->L, "unknown type in a guard");
}

typedef struct GuardName {
  const char *name;
  u8 op;
  char form; /* s: slot, i: slot and index, ss: two slots ... */
} GuardName;

static const GuardName names[] = {{"upvalue", G_UPVALUE, 'i'}, {"env", G_ENV, 's'},
                                  {"field", G_FIELD, 'f'},     {"metatable", G_METATABLE, 's'},
                                  {"type", G_TYPE, 't'},       {"equal", G_OBJECT, 'e'},
                                  {"same", G_SAME, 'p'},       {"distinct", G_DISTINCT, 'p'},
                                  {"length", G_LENGTH, 'l'},   {"keys", G_KEYS, 'k'},
                                  {"tensor", G_TENSOR, 'T'},   {"closure", G_CLOSURE, 'c'},
                                  {"number", G_NUMBER, 'n'},   {"const", G_CONST, 'v'},
                                  {"add", G_ADD, '2'},         {"sub", G_SUB, '2'},
                                  {"mul", G_MUL, '2'},         {"div", G_DIV, '2'},
                                  {"unm", G_UNM, '1'},         {"abs", G_ABS, '1'},
                                  {"floor", G_FLOOR, '1'},     {"ceil", G_CEIL, '1'},
                                  {"sqrt", G_SQRT, '1'},       {"call", G_CALL, 'C'},
                                  {"lt", G_LT, 'o'},           {"le", G_LE, 'o'},
                                  {"eq", G_EQ, 'o'},           {"whole", G_WHOLE, 'w'}};

static bool item_true(Reader *r, int i) {
  lua_rawgeti(r->L, -1, i);
  bool v = lua_toboolean(r->L, -1);
  lua_pop(r->L, 1);
  return v;
}

/* Where a slot lies on the stack: keys come between the function and what is read. */
static i32 place_of(const Reader *r, i32 slot) {
  return slot <= r->T->narg + 1 ? slot : slot + r->T->nkeys;
}

/* Operands must have been made before: a slot, a number. */
static i32 known_slot(Reader *r, int i) {
  i32 k = item(r, i);
  if (k < 1 || k >= r->slot) luaL_error(r->L, "a guard speaks of slot %d", (int)k);
  return place_of(r, k);
}

static i32 known_number(Reader *r, int i) {
  i32 k = item(r, i);
  if (k < 1 || k > r->T->nnumbers) luaL_error(r->L, "a guard speaks of number %d", (int)k);
  return k;
}

/* The instruction on top of the stack. */
static void read_guard(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 1);
  const char *name = lua_tostring(L, -1);
  const GuardName *row = NULL;
  for (int i = 0; i < TY_COUNT(names); i++)
    if (name && !strcmp(names[i].name, name)) row = &names[i];
  lua_pop(L, 1);
  if (!row) luaL_error(L, "unknown guard %s", name ? name : "?");
  *g = (Guard){.op = row->op};
  if (strchr("isftepnlkTc", row->form)) {
    g->a = known_slot(r, 2);
    g->doubt = !r->is_table[item(r, 2)];
  }
  switch (row->form) {
  case 'i': g->b = item(r, 3); break;
  case 'f': read_field(r, g); break;
  case 't':
    read_type(r, g);
    r->is_table[item(r, 2)] |= g->b == LUA_TTABLE;
    break;
  case 'e': read_equal(r, g); break;
  case 'p': g->b = known_slot(r, 3); break;
  case 'l': g->n = item(r, 3); break;
  case 'k': read_keys(r, g); break;
  case 'T': read_tensor(r, g); break;
  case 'c': read_closure(r, g); break;
  case 'v':
    lua_rawgeti(L, -1, 2);
    g->v = lua_tonumber(L, -1);
    lua_pop(L, 1);
    break;
  case '2': g->b = known_number(r, 3); /* fallthrough */
  case '1': g->a = known_number(r, 2); break;
  case 'C':
    g->n = anchor_item(r, 2);
    g->a = known_number(r, 3);
    g->b = lua_objlen(L, -1) > 3 ? known_number(r, 4) : 0;
    break;
  case 'o':
    g->a = known_number(r, 2);
    g->b = known_number(r, 3);
    g->want = item_true(r, 4);
    break;
  case 'w':
    g->a = known_number(r, 2);
    g->want = item_true(r, 3);
    break;
  default: break;
  }
  if (strchr("flk", row->form)) r->is_table[item(r, 2)] = 1;
  if (g->op <= G_METATABLE) r->slot++;
  if (g->op >= G_NUMBER && g->op <= G_CALL) r->T->nnumbers++;
}

static void read_program(Reader *r) {
  lua_State *L = r->L;
  Trace *T = r->T;
  lua_getfield(L, r->d, "program");
  i32 n = (i32)lua_objlen(L, -1);
  T->guard = array(r, (size_t)n, sizeof *T->guard);
  r->slot = T->narg + 2;
  find_keys(r, n);
  size_t slots = (size_t)(T->narg + n + 2);
  r->is_table = memset(lua_newuserdata(L, slots), 0, slots);
  lua_pushvalue(L, r->keys - 1);
  for (i32 i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    T->nguards = i;
    read_guard(r, &T->guard[i - 1]);
    lua_pop(L, 1);
  }
  lua_settop(L, r->keys - 2);
  T->nslots = place_of(r, r->slot);
}

/* The recipe on top of the stack, which it pops; nil gives the recipe of nothing. */
static Recipe read_recipe(Reader *r) {
  static const char *const kinds[] = {"slot", "value", "number", "tensor", "table"};
  lua_State *L = r->L;
  Recipe y = {R_SLOT, 0};
  if (lua_istable(L, -1)) {
    lua_rawgeti(L, -1, 1);
    const char *name = lua_tostring(L, -1);
    int kind = 0;
    while (kind < TY_COUNT(kinds) && strcmp(kinds[kind], name)) kind++;
    lua_pop(L, 1);
    y.kind = (u8)kind;
    if (kind == R_VALUE) y.k = anchor_item(r, 2);
    else y.k = item(r, 2);
    const i32 most[] = {r->T->nslots - 1, r->T->anchor + r->T->nanchors, r->T->nnumbers,
                        r->T->instance[0]->nmade, r->T->ntables};
    if (kind == R_SLOT) y.k = place_of(r, y.k);
    if (kind == TY_COUNT(kinds) || y.k < 1 || y.k > most[kind]) luaL_error(L, "unknown recipe");
  }
  lua_pop(L, 1);
  return y;
}

static Recipe item_recipe(Reader *r, int i) {
  lua_rawgeti(r->L, -1, i);
  return read_recipe(r);
}

static void read_tables(Reader *r) {
  lua_State *L = r->L;
  Trace *T = r->T;
  size_t npairs = 0;
  lua_getfield(L, r->d, "tables");
  T->ntables = (i32)lua_objlen(L, -1);
  for (i32 i = 1; i <= T->ntables; i++) {
    lua_rawgeti(L, -1, i);
    npairs += lua_objlen(L, -1);
    lua_pop(L, 1);
  }
  T->meta = array(r, (size_t)T->ntables, sizeof *T->meta);
  T->array = array(r, (size_t)T->ntables, sizeof *T->array);
  T->pair = array(r, npairs, sizeof *T->pair);
  for (i32 i = 1; i <= T->ntables; i++) {
    lua_rawgeti(L, -1, i);
    lua_getfield(L, -1, "meta");
    T->meta[i - 1] = read_recipe(r);
    lua_getfield(L, -1, "n_array");
    T->array[i - 1] = (i32)lua_tointeger(L, -1);
    lua_pop(L, 1);
    i32 n = (i32)lua_objlen(L, -1);
    for (i32 k = 1; k <= n; k++) {
      lua_rawgeti(L, -1, k);
      Pair *p = &T->pair[T->npairs++];
      p->owner = i;
      p->key = item_recipe(r, 1);
      p->value = item_recipe(r, 2);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_effects(Reader *r) {
  lua_State *L = r->L;
  Trace *T = r->T;
  lua_getfield(L, r->d, "effects");
  T->neffects = (i32)lua_objlen(L, -1);
  T->effect = array(r, (size_t)T->neffects, sizeof *T->effect);
  for (i32 i = 1; i <= T->neffects; i++) {
    Pair *p = &T->effect[i - 1];
    lua_rawgeti(L, -1, i);
    lua_rawgeti(L, -1, 1);
    bool upvalue = !strcmp(lua_tostring(L, -1), "upvalue");
    lua_pop(L, 1);
    p->owner = known_slot(r, 2);
    if (upvalue) p->index = item(r, 3);
    else p->key = item_recipe(r, 3);
    p->value = item_recipe(r, 4);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_results(Reader *r) {
  Trace *T = r->T;
  lua_getfield(r->L, r->d, "nresults");
  T->nresults = (i32)lua_tointeger(r->L, -1);
  lua_pop(r->L, 1);
  lua_getfield(r->L, r->d, "results");
  T->result = array(r, (size_t)T->nresults, sizeof *T->result);
  for (i32 i = 1; i <= T->nresults; i++) T->result[i - 1] = item_recipe(r, i);
  lua_pop(r->L, 1);
}

/* The instance of the session's graph for the tensors of the description. */
static Instance *read_instance(lua_State *L, State *S, int d, const Entry *e) {
  lua_getfield(L, d, "tensors");
  i32 n = (i32)lua_objlen(L, -1);
  const Tensor *made[n + 1];
  for (i32 i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    made[i] = ty_lua_test(L, -1);
    lua_pop(L, 1);
    if (!made[i] || !made[i]->st) luaL_error(L, "a result is a tensor that was released");
  }
  lua_pop(L, 1);
  lua_getfield(L, d, "custom");
  bool custom = !lua_isnil(L, -1);
  lua_pop(L, 1);
  Graph g = {0};
  Replacement by;
  const char *fault = NULL;
  int top = lua_gettop(L);
  if (custom && !ty_custom_read(L, d, &g, &by, &fault)) ty_capture_refuse(S, fault);
  u8 fast = S->fast;
  S->fast = e->fast;
  Instance *I = fault ? NULL : ty_instance_make(S, made, n, custom ? &by : NULL);
  S->fast = fast;
  ty_graph_free(&g);
  lua_settop(L, top);
  return I;
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
  ty_mem_free(T->guard);
  ty_mem_free(T->result);
  ty_mem_free(T->meta);
  ty_mem_free(T->pair);
  ty_mem_free(T->effect);
  ty_mem_free(T->array);
  ty_mem_free(T->instance);
  ty_mem_free(T);
}

i64 ty_trace_hits(const Trace *T) { return T->hits; }

void ty_trace_free_all(Entry *e) {
  for (i32 i = 0; i < e->ntrace; i++) trace_drop(e->trace[i]);
  if (e->building) trace_free(e->building);
  e->building = NULL;
  e->sized = NULL;
  e->failed.trace = NULL;
  e->ntrace = 0;
}

/* Drops the least recently used trace with its anchors. */
static void evict(lua_State *L, Entry *e, int anchors) {
  Trace *T = e->trace[--e->ntrace];
  for (i32 i = 0; i < T->nanchors; i++) {
    lua_pushnil(L);
    lua_rawseti(L, anchors, T->anchor + i);
  }
  if (e->sized == T) e->sized = NULL;
  if (e->failed.trace == T) e->failed.trace = NULL;
  e->evicted_traces++;
  trace_drop(T);
}

#define WASTED_FREE \
  256 /* sizes that come once: so many, then calls run without, ever more of them */
#define INSTANCES_MAX 512 /* of one trace; beyond, the one that was used least recently goes */

static int refused(lua_State *L, const State *S) {
  lua_pushnil(L);
  lua_pushstring(L, S->capture->refused ? S->capture->why : S->err);
  return 2;
}

/* The session's graph becomes one more instance of a trace whose description is the same but for
** sizes. Instances know tensors by the same numbers. */
static int extend(lua_State *L, State *S, const Entry *e, Trace *T) {
  Instance *I = read_instance(L, S, 1, e);
  if (!I) return refused(L, S);
  const Instance *like = T->instance[0];
  bool same = I->noutside == like->noutside && I->nmade == like->nmade;
  for (i32 i = 0; same && i < I->noutside; i++) same = I->outside[i].slot == like->outside[i].slot;
  if (!same || !T->dynamic || T->refs > 1 || I->foreign) {
    ty_instance_free(I);
    return luaL_error(L, "the trace is another one");
  }
  if (T->ninstance == INSTANCES_MAX) ty_instance_free(T->instance[--T->ninstance]);
  memmove(T->instance + 1, T->instance, sizeof(void *) * (size_t)T->ninstance);
  T->instance[0] = I;
  T->ninstance++;
  T->wasted = T->hits - T->used < 2 ? TY_MIN(T->wasted + 1, WASTED_FREE + 12) : 0;
  T->used = T->hits;
  T->rest = T->wasted > WASTED_FREE ? (i64)1 << (T->wasted - WASTED_FREE) : 0;
  end_session(L, S);
  lua_pushboolean(L, true);
  return 1;
}

/* finish(description, position = nil) -> true | nil, reason. position: of the trace in the list that
** traces() gives that is to serve these sizes too. What raises in here is caught by the caller, which
** then aborts. */
static int capture_finish(lua_State *L) {
  State *S = ty_lua_state(L);
  struct Compiled *C = S->engine->compiled;
  Entry *e = C->capturing;
  luaL_checktype(L, 1, LUA_TTABLE);
  if (!e || !S->capture) return luaL_error(L, "no capture is open");
  int position = (int)lua_tointeger(L, 2);
  if (position >= 1 && position <= e->ntrace) return extend(L, S, e, e->trace[position - 1]);
  lua_settop(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_ANCHORS);
  if (e->building) trace_free(e->building);
  Trace *T = e->building = ty_mem_zalloc(sizeof *T);
  Reader r = {.L = L, .S = S, .T = T, .d = 1, .anchors = 2};
  if (!T) return luaL_error(L, "out of memory");
  T->word = ty_entry_word(S);
  lua_getfield(L, 1, "narg");
  T->narg = (i32)lua_tointeger(L, -1);
  lua_getfield(L, 1, "dynamic");
  T->dynamic = lua_toboolean(L, -1);
  lua_pop(L, 2);
  T->anchor = e->next_anchor;
  lua_pushvalue(L, 1);
  anchor(&r);
  T->instance = array(&r, T->dynamic ? INSTANCES_MAX : 1, sizeof *T->instance);
  if (!(T->instance[0] = read_instance(L, S, 1, e))) return refused(L, S);
  T->ninstance = 1;
  T->noutside = T->instance[0]->noutside;
  if (T->instance[0]->foreign) {
    lua_getfield(L, 1, "custom");
    T->backend = anchor(&r);
  }
  read_program(&r);
  read_tables(&r);
  read_effects(&r);
  read_results(&r);
  if (TY_MAX(T->nslots, TY_MAX(T->nnumbers, T->instance[0]->nmade)) > FILE_MAX_SIZE)
    return luaL_error(L, "the function reads too much for one trace");
  e->next_anchor += T->nanchors;
  if (e->ntrace == TRACES_MAX) evict(L, e, 2);
  memmove(e->trace + 1, e->trace, sizeof *e->trace * (size_t)e->ntrace);
  e->trace[0] = T;
  e->ntrace++;
  e->captures++;
  e->building = NULL;
  T->refs = 1;
  end_session(L, S);
  lua_pushboolean(L, true);
  return 1;
}

/* --- what failed, for explain */

/* Pushes a text for the value at the index. */
static void push_shown(lua_State *L, int i) {
  if (lua_type(L, i) == LUA_TFUNCTION || lua_type(L, i) == LUA_TTABLE)
    lua_pushfstring(L, "%s %p", luaL_typename(L, i), lua_topointer(L, i));
  else ty_lua_show(L, i);
}

/* The guard's row of the description: {guard =, path =, was =}. */
static void push_failed(lua_State *L, const struct Failed *f, int anchors) {
  lua_createtable(L, 0, 4);
  int y = lua_gettop(L);
  if (f->why) {
    lua_pushstring(L, f->why);
    lua_setfield(L, y, "guard");
    return;
  }
  lua_rawgeti(L, anchors, f->trace->anchor);
  lua_getfield(L, -1, "program");
  lua_rawgeti(L, -1, f->guard + 1);
  lua_rawgeti(L, -1, 1);
  lua_setfield(L, y, "guard");
  lua_getfield(L, -1, "path");
  lua_setfield(L, y, "path");
  lua_rawgeti(L, -1, 3);
  const Guard *g = &f->trace->guard[f->guard];
  char type[64];
  if (g->op >= G_LT) {
    lua_pushstring(L, g->want ? "true" : "false");
  } else if (g->op >= G_NUMBER || g->op < G_TYPE || g->op == G_KEYS) {
    lua_pushnil(L);
  } else if (g->op == G_TENSOR) {
    Type was = {.dtype = g->tensor->dtype, .rank = g->tensor->rank};
    for (int d = 0; d < was.rank; d++) was.dims[d] = g->tensor->dim[d].size;
    ty_type_print(&was, type, sizeof type);
    lua_pushfstring(L, "tensor %s", type);
  } else if (!lua_isnil(L, -1)) push_shown(L, lua_gettop(L));
  if (!lua_isnil(L, -1)) lua_setfield(L, y, "was");
  lua_settop(L, y);
}

/* Pushes {guard =, path =, was =, now =} of the guard that failed last; the stack holds the arguments
** and nothing else. */
bool ty_trace_push_miss(lua_State *L, Entry *e, int anchors) {
  struct Failed f = e->failed;
  if (!f.trace) return false;
  f.trace->refs++;
  push_failed(L, &f, anchors);
  trace_drop(f.trace);
  return true;
}

static bool other_sizes(const Tensor *t, const TensorGuard *g) {
  for (int d = 0; d < g->rank; d++)
    if (t->type.dims[d] != g->dim[d].size) return true;
  return false;
}

/* What a new capture should allow for: sizes that differ, closures that are made anew. */
void ty_trace_diagnose(lua_State *L, State *S, Entry *e, int narg) {
  Trace *T = e->failed.trace;
  i32 failed;
  e->sizes_differ = e->failed.why == ty_instance_moved;
  e->closures_differ = false;
  if (!T || e->failed.why || T->narg != narg) return;
  if (!lua_checkstack(L, T->nslots + 64)) return;
  double number[T->nnumbers + 1];
  const Tensor *outside[T->noutside + 1];
  T->refs++;
  lua_pushvalue(L, UP_FUNCTION);
  failed = check_guards(L, (Host *)S, T, number, outside);
  if (failed < T->nguards) {
    const Guard *g = &T->guard[failed];
    const Tensor *t = g->op == G_TENSOR ? ty_lua_test(L, g->a) : NULL;
    e->sizes_differ = t && t->st && t->type.dtype == g->tensor->dtype &&
                      t->type.rank == g->tensor->rank && other_sizes(t, g->tensor);
    e->closures_differ = (g->op == G_OBJECT || g->op == G_CLOSURE) &&
                         lua_type(L, g->a) == LUA_TFUNCTION && !lua_iscfunction(L, g->a);
    if (g->op <= G_METATABLE) lua_pushnil(L);
    else lua_pushvalue(L, g->a);
    if (g->op < G_NUMBER) push_shown(L, lua_gettop(L));
    else lua_pushstring(L, g->want ? "false" : "true");
    snprintf(e->now, sizeof e->now, "%s", lua_tostring(L, -1));
  }
  lua_settop(L, narg);
  trace_drop(T);
}

/* --- explain */

static void set_number(lua_State *L, const char *name, i64 v) {
  lua_pushnumber(L, (lua_Number)v);
  lua_setfield(L, -2, name);
}

/* traces(handle) -> list of {description, hits, dynamic, instances, steps, kernels, text ...} */
static int trace_list(lua_State *L) {
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
    lua_createtable(L, 0, 12);
    lua_rawgeti(L, 2, T->anchor);
    lua_setfield(L, -2, "description");
    lua_pushboolean(L, T->dynamic);
    lua_setfield(L, -2, "dynamic");
    lua_pushboolean(L, I->foreign != NULL);
    lua_setfield(L, -2, "backend");
    set_number(L, "hits", T->hits);
    set_number(L, "instances", T->ninstance);
    set_number(L, "kernels", p->nkernels);
    set_number(L, "steps", p->nsteps);
    set_number(L, "operations", p->nops);
    set_number(L, "operations_saved", TY_MAX(p->nops - p->nsteps, 0));
    set_number(L, "bytes_moved", p->bytes_moved);
    set_number(L, "bytes_saved", p->bytes_saved);
    set_number(L, "streams", (i64)I->streams);
    lua_newtable(L);
    for (i32 k = 0, n = 0; k < I->noutside; k++) {
      if (!I->outside[k].written) continue;
      lua_pushinteger(L, I->outside[k].slot);
      lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "written");
    lua_pushstring(L, I->text ? I->text : "");
    lua_setfield(L, -2, "text");
    lua_rawseti(L, -2, i + 1);
    trace_drop(T);
  }
  return 1;
}

/* Pushes the function that hands results out; the stash is on top of the stack. */
void ty_trace_push_hand_out(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, -3);
  lua_pushcclosure(L, hand_out, 3);
}

void ty_lua_open_trace(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"begin", capture_begin},
                                 {"abort", capture_abort},
                                 {"reason", capture_reason},
                                 {"outside", capture_outside},
                                 {"symbols", capture_symbols},
                                 {"taken", capture_taken},
                                 {"wholeness", capture_wholeness},
                                 {"finish", capture_finish},
                                 {"upvalue", capture_upvalue},
                                 {"upvalue_id", capture_upvalue_id},
                                 {"environment", capture_environment},
                                 {"is_tensor", capture_is_tensor},
                                 {"is_native", capture_is_native},
                                 {"dims", capture_dims},
                                 {"traces", trace_list},
                                 {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "capture");
  lua_pop(L, 1);
}
