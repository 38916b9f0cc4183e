/*
** lua_turn.c -- turns of a loop that a trace takes by itself: its link leads to the trace it comes from.
** In: a trace that a link led to, and that has run. Out: what it makes in the last turn that leads back to it, in the
** handles that it made in the first. Cannot fail: a turn that cannot be taken here has not begun.
**
** A turn of `while err:item() > tol` is a read of a number, instructions of the link, guards, a plan. Registers and
** arguments are values of C here, tensors lie in a pool, and nothing of Lua is made, called or collected.
**
** Rules.
** 1. No Lua code runs from the guards of the first turn to the last one. So guards on what no turn changes (upvalues,
**    globals, fields, arguments that are handed on in their place) hold as they did; the others are asked in each turn.
** 2. Finalisers are Lua code, and any allocation of Lua's may run them. So turns are taken only where all handles of the
**    first one were spare (lua_spare.c), and nothing here allocates.
** 3. A changed argument lies in its place on the stack, where guards look at it, unless it is a tensor of the pool.
** 4. Whatever is not known here (other readers, devices that fail, guards of other kinds) ends it before the turn, which
**    the link then takes, or Lua.
*/
#include <string.h>
#include "lua/lua_link.h"
#include "lua/lua_turn.h"
#include "record/grad.h"

enum { ARGS = 24, REGISTERS = 64, MADE = 8, NUMBERS = 64, POOL = ARGS + 2 * MADE };

/* A value of a register. STACK: it lies there; ANCHOR: of the trace, CONSTANT: of the link; POOL: a tensor there. */
typedef enum { IS_NIL, IS_STACK, IS_ANCHOR, IS_CONSTANT, IS_NUMBER, IS_BOOLEAN, IS_POOL } TurnKind;
typedef struct TurnValue {
  u8 kind;
  i32 at;
  double v;
} TurnValue;

/* The guards that are asked in a turn which changes these arguments, of which those that are about a slot may be about a
** tensor of the pool; before each one so many numbers were made. */
typedef struct TurnGuards {
  u64 changed; /* arguments, as bits from 1 */
  bool may;    /* no other guard depends on them */
  i32 n;
  struct {
    i32 guard, numbers;
    bool slot;
  } at[];
} TurnGuards;

typedef struct Turns {
  lua_State *L;
  State *S;
  const TurnStart *start;
  const Link *link;
  int anchors, env;      /* on the stack */
  u64 changed;           /* arguments, the same in all turns */
  TurnValue reader;      /* is known to be what the link calls */
  i32 exit;              /* is known to lead to the trace; 0: none is */
  u64 used;              /* of the pool */
  i32 made[MADE];        /* by the turn that is over: places in the pool */
  i32 carried[ARGS + 1]; /* handles on the stack for results that are arguments; 0: none */
  TurnValue arg[ARGS + 1], reg[REGISTERS + 1];
  double next[NUMBERS + 1];
  Tensor pool[POOL];
} Turns;

/* --- values */

static TurnValue of_result(const Turns *t, Recipe r) {
  const Trace *T = t->start->T;
  switch ((RecipeKind)r.kind) {
  case R_SLOT: return r.k <= T->narg ? t->arg[r.k] : (TurnValue){IS_STACK, r.k, 0};
  case R_VALUE: return (TurnValue){IS_ANCHOR, r.k, 0};
  case R_NUMBER: return (TurnValue){IS_NUMBER, 0, t->start->number[r.k]};
  case R_TENSOR: return (TurnValue){IS_POOL, t->made[r.k - 1], 0};
  case R_TABLE: /* such traces take no turns */
  case R_BEHIND:
  case R_RANDOM:
  case R_VERSION: break;
  }
  return (TurnValue){0};
}

/* Pushes what is no tensor of the pool. */
static void push_value(const Turns *t, TurnValue v) {
  switch ((TurnKind)v.kind) {
  case IS_STACK: lua_pushvalue(t->L, v.at); break;
  case IS_ANCHOR: lua_rawgeti(t->L, t->anchors, v.at); break;
  case IS_CONSTANT: lua_rawgeti(t->L, t->env, -v.at); break;
  case IS_NUMBER: lua_pushnumber(t->L, v.v); break;
  case IS_BOOLEAN: lua_pushboolean(t->L, v.at); break;
  case IS_NIL:
  case IS_POOL: lua_pushnil(t->L); break;
  }
}

static const Tensor *tensor_of(const Turns *t, TurnValue v) {
  if (v.kind == IS_POOL) return &t->pool[v.at];
  return v.kind == IS_STACK ? ty_lua_test_in(t->L, (const Binding *)t->S, v.at) : NULL;
}

/* --- guards */

/* Whether a guard of the kind may be about an argument that changes. */
static bool may_ask(GuardOp op) {
  return op == G_TENSOR || op == G_SAME || op == G_DISTINCT || op == G_NUMBER || op == G_BOUND ||
         (ty_guard_kind(op) == GUARD_CHECK && op >= G_TYPE && op <= G_OBJECT);
}

static bool is_changed(u64 changed, i32 slot) {
  return slot > 0 && slot <= ARGS && changed >> slot & 1;
}

/* Whether the guard is about a slot; and whether that, or a number that it is about, is another one in each turn. */
static bool depends(const Guard *g, u64 changed, const bool *differs, bool *slot) {
  const GuardRow *row = &ty_guards[g->op];
  const i32 about[] = {g->a, g->b};
  bool y = false;
  *slot = false;
  for (int i = 0, k = 0; i < GUARD_OPERANDS; i++) {
    const u8 on = row->operand[i];
    if (on == ON_SLOT || on == ON_LAST) *slot = true, y |= is_changed(changed, about[k++]);
    if (on == ON_NUMBER || on == ON_MAYBE) y |= differs[about[k++]];
  }
  return y;
}

/* The list, of which there is room for one entry a guard. False: a guard depends on them that is not asked here. */
static bool list_guards(const Trace *T, TurnGuards *y) {
  bool differs[NUMBERS + 1] = {false}, slot;
  i32 numbers = 0;
  for (i32 i = 0; i < T->nguards; i++) {
    const Guard *g = &T->guard[i];
    const bool makes = ty_guard_kind(g->op) == GUARD_NUMBER;
    const bool asks = depends(g, y->changed, differs, &slot);
    if (asks && (slot ? !may_ask(g->op) : g->op == G_CALL)) return false;
    if (asks) {
      y->at[y->n].guard = i, y->at[y->n].numbers = numbers;
      y->at[y->n++].slot = slot;
    }
    numbers += makes;
    if (makes) differs[numbers] = asks;
  }
  return true;
}

/* NULL: other guards depend on these arguments, or memory is out. */
static const TurnGuards *guards_for(Trace *T, u64 changed) {
  TurnGuards *y = T->turns;
  if (y && y->changed == changed) return y->may ? y : NULL;
  if (!y) T->turns = y = ty_mem_alloc(sizeof *y + sizeof *y->at * (size_t)(T->nguards + 1));
  if (!y) return NULL;
  *y = (TurnGuards){.changed = changed};
  y->may = list_guards(T, y);
  return y->may ? y : NULL;
}

void ty_turn_free(TurnGuards *y) { ty_mem_free(y); }

/* What stands in the slot in the coming turn. */
static TurnValue in_slot(const Turns *t, i32 slot) {
  return slot <= t->start->T->narg ? t->reg[slot] : (TurnValue){IS_STACK, slot, 0};
}

/* Whether two tensors are one. */
static bool is_same(const Turns *t, const Guard *g) {
  const TurnValue a = in_slot(t, g->a), b = in_slot(t, g->b);
  if (a.kind != b.kind) return false;
  return a.kind == IS_POOL ? a.at == b.at : lua_rawequal(t->L, a.at, b.at);
}

static bool is_object(const Turns *t, i32 slot) {
  const u8 kind = in_slot(t, slot).kind;
  return kind == IS_POOL || kind == IS_STACK;
}

/* Whether the guard is about what does not lie in its slot, *y what it says of that. */
static bool is_elsewhere(const Turns *t, const Guard *g, bool *y) {
  if (!is_object(t, g->a)) return false;
  const TurnValue v = in_slot(t, g->a);
  const Tensor *x = g->op == G_TENSOR ? tensor_of(t, v) : NULL;
  *y = false;
  if (g->op == G_TENSOR) {
    t->start->outside[g->b] = x;
    *y = x && ty_guard_tensor(x, g->tensor);
  } else if (g->op == G_SAME || g->op == G_DISTINCT) {
    *y = is_object(t, g->b) && is_same(t, g) == (g->op == G_SAME);
  } else if (g->op == G_TYPE) {
    *y = v.kind == IS_POOL ? g->b == LUA_TUSERDATA : lua_type(t->L, v.at) == g->b;
  }
  return true;
}

/* The guards that a turn asks, whose numbers are made anew. */
static bool guards_hold(Turns *t, const TurnGuards *y) {
  const Trace *T = t->start->T;
  memcpy(t->next, t->start->number, sizeof *t->next * (size_t)(T->nnumbers + 1));
  for (i32 k = 0; k < y->n; k++) {
    const i32 i = y->at[k].guard;
    bool holds;
    if (!y->at[k].slot || !is_elsewhere(t, &T->guard[i], &holds))
      holds = ty_guards_check(t->L, (const Binding *)t->S, T, i, i + 1, t->start->I->size, t->next,
                              y->at[k].numbers, t->start->outside) > i;
    if (!holds) return false;
  }
  return true;
}

/* --- the link */

static bool read_item(const Turns *t, TurnValue of, TurnValue *y) {
  const Tensor *x = tensor_of(t, of);
  if (!x || !x->st || x->st->batched || x->st->recording || ty_type_numel(&x->type) != 1)
    return false;
  const void *p = ty_tensor_read(t->S, x);
  if (!p || x->type.dtype == T_I64 || x->type.dtype == T_U64)
    return false; /* not every one is a number of Lua's */
  *y = (TurnValue){.kind = IS_NUMBER};
  if (x->type.dtype == T_BOOL) *y = (TurnValue){IS_BOOLEAN, *(const u8 *)p, 0};
  else y->v = ty_elem_load(x->type.dtype, p);
  return true;
}

/* Whether a register holds what the link calls, and that is `item`. */
static bool is_reader(Turns *t, TurnValue v) {
  if (v.kind == t->reader.kind && v.at == t->reader.at) return true;
  if (v.kind != IS_STACK && v.kind != IS_ANCHOR) return false;
  push_value(t, v);
  lua_rawgeti(t->L, t->env, AT_READER);
  const bool is = lua_rawequal(t->L, -1, -2) && ty_lua_is_item(lua_tocfunction(t->L, -1));
  lua_pop(t->L, 2);
  if (is) t->reader = v;
  return is;
}

/* Whether the part behind the exit is the trace's. */
static bool leads_back(Turns *t, i32 exit) {
  if (exit == t->exit) return true;
  lua_rawgeti(t->L, t->env, ty_link_part_at(exit));
  bool is = lua_iscfunction(t->L, -1) && lua_getupvalue(t->L, -1, 3);
  if (is) {
    is = lua_touserdata(t->L, -1) == t->start->e;
    lua_pop(t->L, 1);
  }
  lua_pop(t->L, 1);
  if (is) t->exit = exit;
  return is;
}

/* Runs the link's instructions over the results of the turn that is over: whether they lead back to the trace. */
static bool run_link(Turns *t) {
  const Trace *T = t->start->T;
  const LinkStep *s = t->link->step;
  for (i32 i = 1; i <= T->nresults; i++) t->reg[i] = of_result(t, T->result[i - 1]);
  for (i32 i = T->nresults + 1; i <= t->link->width; i++) t->reg[i] = (TurnValue){0};
  if (t->link->carries) t->reg[t->link->width] = t->reg[T->nresults];
  for (;;) {
    TurnValue *r = &t->reg[s->a];
    switch ((LinkOp)s->op) {
    case LINK_CALL:
    case LINK_ONE:
      if (s->nargs != 1 || s->nresults != 1 || !is_reader(t, *r)) return false;
      if (!read_item(t, t->reg[s->args], r)) return false;
      break;
    case LINK_MOVE: *r = t->reg[s->args]; break;
    case LINK_CONSTANT: *r = (TurnValue){IS_CONSTANT, s->args, 0}; break;
    case LINK_EXIT: return s->nargs == T->narg && leads_back(t, s->a);
    case LINK_FOR: /* between parts that differ */
    case LINK_INDEX:
    case LINK_RETURN:
    case LINK_NATIVE:
    case LINK_WALK: return false;
    }
    s = t->link->step + s->next;
  }
}

/* --- turns */

/* Arguments of the coming turn that do not lie in their places as they did in the first one. */
static u64 changed_arguments(const Turns *t) {
  u64 y = 0;
  for (i32 j = 1; j <= t->start->T->narg; j++)
    if (t->reg[j].kind != IS_STACK || t->reg[j].at != j) y |= (u64)1 << j;
  return y;
}

/* Plain values of the first turn, which others will take the place of. */
static void keep_arguments(Turns *t) {
  for (i32 j = 1; j <= t->start->T->narg; j++) {
    const int type = is_changed(t->changed, j) ? lua_type(t->L, j) : LUA_TNONE;
    if (type == LUA_TNIL) t->arg[j] = (TurnValue){IS_NIL, 0, 0};
    if (type == LUA_TNUMBER) t->arg[j] = (TurnValue){IS_NUMBER, 0, lua_tonumber(t->L, j)};
    if (type == LUA_TBOOLEAN) t->arg[j] = (TurnValue){IS_BOOLEAN, lua_toboolean(t->L, j), 0};
  }
}

static bool is_plain(TurnValue v) { return v.kind != IS_STACK && v.kind != IS_POOL; }

/* What is changed goes to its place, but for tensors. False: something else lies in one, which may be read yet. */
static bool place_arguments(Turns *t) {
  const i32 n = t->start->T->narg;
  for (i32 j = 1; j <= n; j++) {
    const TurnValue v = t->reg[j], there = t->arg[j];
    if (is_plain(v) && there.kind == IS_STACK && there.at == j) return false;
    if (v.kind != IS_STACK || v.at == j) continue;
    if ((v.at <= n && is_plain(t->reg[v.at])) || lua_type(t->L, v.at) != LUA_TUSERDATA)
      return false;
  }
  for (i32 j = 1; j <= n; j++) {
    const TurnValue v = t->reg[j];
    if (!is_plain(v) || (v.kind == IS_NIL && t->arg[j].kind == IS_NIL)) continue;
    push_value(t, v);
    lua_replace(t->L, j);
  }
  return true;
}

static i32 take_place(Turns *t) {
  const i32 y = __builtin_ctzll(~t->used);
  t->used |= (u64)1 << y;
  t->pool[y].st = NULL;
  return y;
}

/* Lets go of all but what the arguments of the turn that is over and what it made are. */
static void sweep(Turns *t) {
  u64 live = 0;
  for (i32 j = 1; j <= t->start->T->narg; j++)
    if (t->arg[j].kind == IS_POOL) live |= (u64)1 << t->arg[j].at;
  for (i32 i = 0; i < t->start->I->nmade; i++) live |= (u64)1 << t->made[i];
  for (u64 gone = t->used & ~live; gone; gone &= gone - 1)
    ty_tensor_release(&t->pool[__builtin_ctzll(gone)]);
  t->used = live;
}

/* The coming turn, whose guards hold. */
static bool run_turn(Turns *t) {
  const TurnStart *start = t->start;
  Tensor *made[MADE];
  i32 place[MADE];
  const char *why;
  const i32 n = start->I->nmade;
  t->S->out_of_range = false;
  if (ty_instance_ready(t->S, start->I, start->outside, t->next, &why) != READY_YES) return false;
  const u64 used = t->used;
  for (i32 i = 0; i < n; i++) made[i] = &t->pool[place[i] = take_place(t)];
  if (!ty_instance_run(t->S, start->I, start->outside, t->next, made)) {
    t->used = used;
    return false;
  }
  memcpy(t->made, place, sizeof place);
  memcpy(t->arg, t->reg, sizeof *t->arg * (size_t)(start->T->narg + 1));
  memcpy(start->number, t->next, sizeof *t->next * (size_t)(start->T->nnumbers + 1));
  sweep(t);
  ((Binding *)t->S)->turned++;
  start->T->hits++;
  start->e->skips++;
  start->e->calls++;
  start->e->linked++;
  return true;
}

static bool next_turn(Turns *t) {
  if (lua_gethook(t->L) || !run_link(t) || changed_arguments(t) != t->changed) return false;
  const TurnGuards *y = guards_for(t->start->T, t->changed);
  const TurnStart *start = t->start;
  return y && place_arguments(t) && guards_hold(t, y) &&
         (!start->T->dynamic || ty_guards_fit(t->S, start->T, start->I, t->next, start->outside)) &&
         run_turn(t);
}

/* --- from handles and back to them */

/* Handles for tensors that go through the trace, from argument to result. Gives how many of them are not to be had. */
static int take_carried(Turns *t) {
  const Trace *T = t->start->T;
  int lacking = 0;
  for (i32 i = 0; i < T->nresults; i++) {
    const Recipe r = T->result[i];
    if (r.kind != R_SLOT || !is_changed(t->changed, r.k) || t->carried[r.k]) continue;
    if (ty_spare_take(t->L, (Binding *)t->S)) t->carried[r.k] = lua_gettop(t->L);
    else lacking++;
  }
  return lacking;
}

static void take_from_handles(Turns *t) {
  for (i32 i = 0; i < t->start->I->nmade; i++) {
    Tensor *h = lua_touserdata(t->L, t->start->made + i + 1);
    t->pool[t->made[i] = take_place(t)] = *h;
    h->st = NULL;
  }
}

/* The tensor at that place of the pool goes to a handle on the stack. */
static void put_in_handle(Turns *t, i32 place, int handle) {
  *(Tensor *)lua_touserdata(t->L, handle) = t->pool[place];
  t->used &= ~((u64)1 << place);
}

static void give_to_handles(Turns *t) {
  const i32 narg = t->start->T->narg;
  for (i32 i = 0; i < t->start->I->nmade; i++) put_in_handle(t, t->made[i], t->start->made + i + 1);
  for (i32 j = 1; j <= narg; j++) { /* one may have come to several places */
    const TurnValue v = t->arg[j];
    if (!t->carried[j]) continue;
    for (i32 k = 1; k < j && v.kind == IS_POOL; k++)
      if (t->carried[k] && t->arg[k].kind == IS_POOL && t->arg[k].at == v.at)
        t->carried[j] = t->carried[k];
    if (v.kind != IS_POOL) {
      push_value(t, v);
      lua_replace(t->L, t->carried[j]);
    } else if (t->used >> v.at & 1) {
      put_in_handle(t, v.at, t->carried[j]);
    }
  }
  for (i32 j = 1; j <= narg; j++) {
    if (!t->carried[j]) continue;
    lua_pushvalue(t->L, t->carried[j]);
    lua_replace(t->L, j);
  }
  for (; t->used; t->used &= t->used - 1) ty_tensor_release(&t->pool[__builtin_ctzll(t->used)]);
}

/* --- whether there are turns */

static bool may_turn(const State *S, const TurnStart *start, const Link *k) {
  const Trace *T = start->T;
  const Binding *B = (const Binding *)S;
  const bool plain = !T->lead && !T->neffects && !T->ntables && !T->ngrads && !T->makes_closures &&
                     !T->rules && !T->backend && T->late_guards == T->nguards;
  const bool small = T->narg <= ARGS && k->width <= REGISTERS && T->nresults <= k->width &&
                     start->I->nmade <= MADE && T->nnumbers <= NUMBERS;
  return plain && small && !B->scope && !B->until && !S->engine->compiled->lazy;
}

/* False: out of memory. */
static bool open_turns(Turns *t, lua_State *L, const TurnStart *start, const Link *k, int env) {
  if (!t) return false;
  t->L = L, t->S = start->e->S, t->start = start, t->link = k;
  t->anchors = ANCHORS_AT(start->T), t->env = env;
  t->reader = (TurnValue){IS_POOL, -1, 0}; /* which no function is */
  t->exit = 0;
  t->used = 0;
  memset(t->carried, 0, sizeof t->carried);
  for (i32 j = 1; j <= start->T->narg; j++) t->arg[j] = (TurnValue){IS_STACK, j, 0};
  return true;
}

/* Most links lead elsewhere: after some calls it is looked at now and then. */
enum { LOOKS = 8, LOOK_EVERY = 64 };

void ty_turn_follow(lua_State *L, State *S, const TurnStart *start) {
  Binding *B = (Binding *)S;
  const u32 straight = start->T->straight++;
  if (straight >= LOOKS && straight % LOOK_EVERY) return;
  lua_rawgeti(L, ANCHORS_AT(start->T), start->T->link);
  const Link *k = lua_touserdata(L, -1);
  lua_getfenv(L, -1);
  if (!may_turn(S, start, k)) return;
  if (!B->turns) B->turns = ty_mem_alloc(sizeof *B->turns); /* for one loop at a time */
  Turns *t = B->turns;
  if (!open_turns(t, L, start, k, lua_gettop(L))) return;
  const u64 before = B->turned;
  int lacking = 0;
  take_from_handles(t);
  if (run_link(t)) {
    t->changed = changed_arguments(t);
    keep_arguments(t);
    if (guards_for(start->T, t->changed) && !(lacking = take_carried(t)))
      while (next_turn(t)) {}
  }
  give_to_handles(t);
  if (B->turned > before) start->T->straight = 0;
  for (; lacking > 0; lacking--) ty_spare_push(L, B); /* for calls to come: finalisers may run */
}
