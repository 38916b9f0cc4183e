/*
** lua_compile.c -- jit.compile's entry: whether a trace answers a call, it is captured, or it runs and is recorded.
** In: Lua functions. Out: a C function `pick` that lua/tycho/compile.lua wraps as
**   function(...) local run, y = pick(...) if run then return run(...) end return y end
** It answers with nil and the one result, or with a function to run: the user's own, which then runs
** by a tail call in the wrapper's place, so that error levels, yields, tracebacks and depth are those
** of plain Lua; or one that hands out as many results as there are.
*/
#include <lua.h>
#include <stdio.h>
#include "lua/lua_compile.h"
#include "lua/lua_instance.h"
#include "lua/lua_lifetime.h"
#include "lua/lua_link.h"
#include "lua/lua_modes.h"
#include "lua/lua_protect.h"
#include "lua/lua_slice.h"
#include "lua/lua_trace.h"

/* --- pick */

static void read_part(lua_State *L, int i, SigPart *p) {
  static const u8 kinds[] = {
      [LUA_TNIL] = A_NIL,           [LUA_TBOOLEAN] = A_BOOL,   [LUA_TLIGHTUSERDATA] = A_OTHER,
      [LUA_TNUMBER] = A_NUMBER,     [LUA_TSTRING] = A_STRING,  [LUA_TTABLE] = A_TABLE,
      [LUA_TFUNCTION] = A_FUNCTION, [LUA_TUSERDATA] = A_OTHER, [LUA_TTHREAD] = A_OTHER};
  int type = lua_type(L, i);
  memset(p, 0, sizeof *p);
  p->kind = type < TY_COUNT(kinds) ? kinds[type] : A_OTHER; /* cdata has a type of its own */
  const Tensor *t = type == LUA_TUSERDATA ? ty_lua_test(L, i) : NULL;
  if (!t || !t->st) return;
  p->kind = A_TENSOR;
  p->contiguous = ty_tensor_is_contiguous(t);
  p->type = t->type;
}

#define PARTS_FEW 12

/* Of a call with n arguments. false: nothing is recorded. */
static bool start(lua_State *L, State *S, Entry *e, const void *fn, int n) {
  SigPart few[PARTS_FEW], *part = few;
  lua_Debug ar;
  if (n > PARTS_FEW) part = lua_newuserdata(L, sizeof *part * (size_t)n);
  for (int i = 0; i < n; i++) read_part(L, i + 1, &part[i]);
  Lazy like = {.thread = L, .fn = fn, .caller = -1, .line = -1, .entry = e};
  like.sig = ty_entry_signature(e, part, n, ty_entry_word(S));
  if (like.sig && !ty_entry_records(like.sig)) return false;
  if (lua_getstack(L, 1, &ar)) like.wrapper = SLOT(&ar);
  if (lua_getstack(L, 2, &ar)) {
    like.caller = SLOT(&ar);
    lua_getinfo(L, "l", &ar);
    like.line = ar.currentline;
  }
  return ty_lazy_open(S, &like) != NULL;
}

/* The wrapper that calls pick stands right above the function that called what still records: that has returned, though the
** line is the same and the frames are as if it had not. */
static void close_returned(lua_State *L, State *S) {
  lua_Debug ar;
  Lazy *z = ty_lazy_find(S, L);
  const int caller = lua_getstack(L, 2, &ar) ? SLOT(&ar) : -1;
  if (!z || z->pinned || z->caller != caller) return;
  ty_lazy_close(S, z);
  S->open = NULL;
}

/* Whether the trace that was made last was hit again after the call that it was made for. */
static bool newest_is_used(const Entry *e) {
  for (i32 i = 0; i < e->ntrace; i++)
    if (e->trace[i] == e->newest) return ty_trace_hits(e->newest) >= 2;
  return false;
}

/* Whether this call is to be captured, now that no trace answers it. A capture is tried at once; after
** k that came to nothing, 2^k calls run without. */
static bool is_due(lua_State *L, State *S, Entry *e, int narg) {
  if (!e->captures_on) return false;
  if (e->captures && S->engine->compiled->stance == STANCE_NO_RECOMPILE)
    e->rest = 0; /* it raises */
  if (e->barren && newest_is_used(e)) {
    e->barren = 0;
    if (!e->unproductive) e->rest = 0;
  }
  if (e->rest > 0) {
    e->rest--;
    return false;
  }
  ty_trace_diagnose(L, S, e, narg);
  return true;
}

/* Pushes what pick answers with where no trace does: the function itself, or one of the anchors that run it. */
static int as_lua(lua_State *L, State *S, const Entry *e) {
  ty_lua_runs(L, S);
  if (TY_UNLIKELY(e->carried > 0)) ty_lua_push_instance(L, lua_upvalueindex(4), e->carried);
  else lua_pushvalue(L, lua_upvalueindex(4));
  return 1;
}

/* The same, and it is recorded. */
static int as_recorded(lua_State *L, State *S, Entry *e) {
  const int n = lua_gettop(L);
  as_lua(L, S, e);
  e->recorded = start(L, S, e, lua_topointer(L, n + 1), n);
  lua_pushvalue(L, n + 1);
  return 1;
}

static int by_anchor(lua_State *L, State *S, int anchor) {
  ty_lua_runs(L, S);
  lua_rawgeti(L, lua_upvalueindex(5), anchor);
  return 1;
}

/* Upvalues: state, tensors' metatable, entry, the function, anchors, stash, hand_out. Anchor 1 is the
** Lua function that captures a call, anchor 0 the one that checks it, ANCHOR_STANDS one that takes all
** of them. again: the call was captured just now; asks: functions that capture each call anew are
** asked, if there are. */
static int pick(lua_State *L, bool again, bool asks) {
  Entry *e = lua_touserdata(L, lua_upvalueindex(3));
  State *S = ty_lua_enter_in(L, (Binding *)e->S);
  struct Compiled *C = S->engine->compiled;
  int narg = lua_gettop(L);
  if (TY_UNLIKELY(S->open != NULL)) close_returned(L, S);
  if (S->open || S->level || C->stance == STANCE_EAGER || C->plain || TY_UNLIKELY(e->ended)) {
    e->nested += S->open != NULL;
    return as_lua(L, S, e);
  }
  if (TY_UNLIKELY(e->check_every > 0) && !again &&
      !ty_lua_mode_of(L, (Binding *)S, MODE_CHECK, e) && --e->check_left <= 0) {
    e->check_left = e->check_every;
    return by_anchor(L, S, 0);
  }
  if (TY_UNLIKELY(e->recheck) && asks) return by_anchor(L, S, again ? -2 : -1);
  if (TY_UNLIKELY(e->stands)) return by_anchor(L, S, ANCHOR_STANDS);
  if (TY_UNLIKELY(e->away > 0) && !again && C->stance == STANCE_DEFAULT) {
    e->away--;
    if (e->recorded) return as_recorded(L, S, e);
    e->calls++;
    return as_lua(L, S, e);
  }
  int answers;
  SiteFrame frame;
  const bool slices = TY_UNLIKELY(C->slicer == L) && ty_slice_can_wait(L);
  const bool known = TY_UNLIKELY(e->large) && ty_lua_site(L, (Binding *)S, SITE_COMPILED, &frame);
  TraceAnswer y = ty_trace_call(L, S, e, slices ? TRACE_SLICED : TRACE_RUN, &answers);
  if (TY_LIKELY(y == TRACE_HIT)) {
    e->calls++;
    if (TY_UNLIKELY(e->missed > 0)) e->missed = 0, e->pause = 0;
    if (slices && C->sliced) return lua_yield(L, answers);
    if (C->part == PART_GOES_ON)
      return ty_link_follow(L, S, answers - 1, lua_upvalueindex(6), lua_upvalueindex(7));
    Handle *result = C->fresh && C->fresh == lua_touserdata(L, -1) ? C->fresh : NULL;
    e->large = result && ty_lua_is_large((Binding *)S, result);
    if (known && e->large) ty_lua_site_made(&frame, result);
    return answers;
  }
  if (!again && (y == TRACE_SIZES || (y == TRACE_MISS && is_due(L, S, e, narg))))
    return by_anchor(L, S, 1);
  if (!again && y == TRACE_MISS) ty_entry_missed(e);
  return as_recorded(L, S, e);
}

static int compile_pick(lua_State *L) { return pick(L, false, true); }

static int compile_pick_again(lua_State *L) { return pick(L, true, true); }

/* pick as links call it: S->engine->compiled->part says what its values are. */
static int compile_part(lua_State *L) {
  Entry *e = lua_touserdata(L, lua_upvalueindex(3));
  State *S = ty_lua_enter_in(L, (Binding *)e->S);
  struct Compiled *C = S->engine->compiled;
  int answers = lua_gettop(L);
  const bool may = !S->open && !S->level && C->stance != STANCE_EAGER && !C->plain && !e->ended &&
                   !e->check_every && !e->recheck && e->away <= 0;
  if (!may || ty_trace_call(L, S, e, TRACE_LINKED, &answers) != TRACE_HIT) {
    C->part = PART_MISSES;
    return answers;
  }
  e->calls++;
  e->linked++;
  e->missed = 0, e->pause = 0;
  return answers;
}

/* pick for C, from its own frame, whose arguments may be borrowed: results of a trace, or, as
** S->engine->compiled->part says, nothing was done: the compiled function is to be called. */
static int answer(lua_State *L, TraceUse use) {
  Entry *e = lua_touserdata(L, lua_upvalueindex(3));
  State *S = ty_lua_enter_in(L, (Binding *)e->S);
  struct Compiled *C = S->engine->compiled;
  int answers = 0;
  const bool may = !S->open && !S->level && C->stance != STANCE_EAGER && !C->plain && !e->ended &&
                   !e->check_every && !e->recheck && e->away <= 0;
  if (!may || ty_trace_call(L, S, e, use, &answers) != TRACE_HIT) {
    C->part = PART_MISSES;
    return 0;
  }
  e->calls++;
  e->missed = 0, e->pause = 0;
  return answers;
}

static int compile_answer(lua_State *L) { return answer(L, TRACE_DIRECT); }

static int compile_answer_borrowed(lua_State *L) { return answer(L, TRACE_BORROWED); }

static int compile_run(lua_State *L) { return pick(L, false, false); }

static int compile_run_again(lua_State *L) { return pick(L, true, false); }

/* tell(...) -> nothing, or nil and what the trace that answers the call would do */
static int compile_tell(lua_State *L) {
  Entry *e = lua_touserdata(L, lua_upvalueindex(3));
  State *S = ty_lua_enter_in(L, (Binding *)e->S);
  int told;
  return !S->open && ty_trace_call(L, S, e, TRACE_TELL, &told) == TRACE_HIT ? told : 0;
}

static int entry_gc(lua_State *L) {
  Entry *e = lua_touserdata(L, 1);
  ty_trace_free_all(e);
  if (!e->ended && e->S->engine) ty_entry_free(e);
  e->ended = true;
  return 0;
}

#define KEY_STASH "tycho.stash"

/* Pushes the stash and the function that hands results out of it; made once. */
static void push_stash(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_STASH);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_newtable(L);
    ty_lua_push_hand_out(L);
    lua_rawseti(L, -2, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, KEY_STASH);
  }
  lua_rawgeti(L, -1, 0);
}

static void push_pick(lua_State *L, lua_CFunction fn, int handle) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, handle);
  lua_pushvalue(L, 1);
  lua_getfenv(L, handle);
  push_stash(L);
  lua_pushcclosure(L, fn, 7);
}

/* entry(f, fast, rechecked) -> pick, handle, pick for a call that was captured just now; where rechecked these two
** again, for calls that were captured anew, and tell */
static int compile_entry(lua_State *L) {
  State *S = ty_lua_enter(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  Entry *e = lua_newuserdata(L, sizeof *e);
  memset(e, 0, sizeof *e);
  e->S = S;
  e->next_anchor = 2;
  e->next_timed = 1;
  e->fast = lua_toboolean(L, 2);
  if (luaL_newmetatable(L, ENTRY_META)) {
    lua_pushcfunction(L, entry_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  int handle = lua_gettop(L);
  lua_newtable(L);
  lua_setfenv(L, handle);
  push_pick(L, compile_pick, handle);
  lua_pushvalue(L, handle);
  push_pick(L, compile_pick_again, handle);
  e->recheck = lua_toboolean(L, 3);
  if (!e->recheck) return 3;
  push_pick(L, compile_run, handle);
  push_pick(L, compile_run_again, handle);
  push_pick(L, compile_tell, handle);
  return 6;
}

/* part(f, handle) -> pick of what goes on in the middle of a function, for links */
static int compile_part_of(lua_State *L) {
  ty_lua_enter(L);
  luaL_checkudata(L, 2, ENTRY_META);
  push_pick(L, compile_part, 2);
  return 1;
}

/* answers(f, handle) -> for C: what a trace answers a call with, and the same for borrowed arguments */
static int compile_answers(lua_State *L) {
  ty_lua_enter(L);
  luaL_checkudata(L, 2, ENTRY_META);
  push_pick(L, compile_answer, 2);
  push_pick(L, compile_answer_borrowed, 2);
  return 2;
}

/* hand_on(f, changed) -> what gives the results of the last hit of this coroutine that wait for it, for what goes on in the
** middle of f; changed() is called before where what f shares with that has changed. And what it shares, for links. */
static int compile_hand_on(lua_State *L) {
  ty_lua_enter(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 2);
  push_stash(L);
  lua_pop(L, 1);
  ty_lua_push_hand_on(L);
  return 2;
}

/* captures(handle, fn, on): fn(...) is what captures calls when there is cause; on: there may be. The
** handle keeps fn, and all that fn holds. */
static int compile_captures(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  e->captures_on = lua_toboolean(L, 3);
  lua_settop(L, 2);
  lua_getfenv(L, 1);
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, 1);
  return 0;
}

/* due(handle) -> {sizes, closures, sized, why | at, description, noted, value, compared}: what the last miss was about;
** noted: the present call was asked, which had that value at the guard, or compared these two numbers. Its stack is not
** looked at. */
static int compile_due(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  lua_settop(L, 1);
  lua_getfenv(L, 1);
  if (!ty_trace_push_miss(L, e, 2)) lua_newtable(L);
  lua_pushboolean(L, e->sizes_differ);
  lua_setfield(L, -2, "sizes");
  lua_pushboolean(L, e->closures_differ);
  lua_setfield(L, -2, "closures");
  lua_pushboolean(L, e->noted);
  lua_setfield(L, -2, "noted");
  lua_rawgeti(L, 2, ANCHOR_FAILED);
  lua_setfield(L, -2, "value");
  lua_pushnil(L);
  lua_rawseti(L, 2, ANCHOR_FAILED);
  lua_createtable(L, 2, 0);
  for (int i = 0; i < 2; i++) {
    lua_pushnumber(L, e->compared[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "compared");
  lua_pushboolean(L, ty_trace_lacking(e, 0) < e->ntrace);
  lua_setfield(L, -2, "sized");
  return 1;
}

/* Counts captures in a row that came to nothing. */
static void count_barren(Entry *e) {
  const Trace *T = e->ntrace ? e->trace[0] : NULL;
  if (T == e->newest) return; /* another size of the same trace */
  if (e->newest) e->barren = newest_is_used(e) ? 0 : TY_MIN(e->barren + 1, 20);
  e->newest = T;
}

#define BARREN_FREE 4
/* tried(handle, productive, late): after a capture. Failed ones make pauses that double, and so do those
** that nobody had use of. late: it was given up when out of time, and waits to be asked for. */
static int compile_tried(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  bool productive = lua_toboolean(L, 2);
  e->unproductive = productive ? 0 : TY_MIN(e->unproductive + 1, 30);
  if (productive) count_barren(e);
  i32 k = TY_MAX(e->unproductive, e->barren - BARREN_FREE + 1);
  e->rest = k > 0 ? (i64)1 << k : 0;
  if (lua_toboolean(L, 3)) e->rest = INT64_MAX;
  e->failed.trace = NULL;
  e->noted = false;
  return 0;
}

/* vain(handle) -> captures in a row that failed; captures in a row whose traces were not used again, beyond those that
** are free; whether a trace that gets a plan for each call makes none for a while; calls, and those of them that ran no
** Lua */
static int compile_vain(lua_State *L) {
  ty_lua_enter(L);
  const Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  bool rests = false;
  for (i32 i = 0; i < e->ntrace; i++) rests |= ty_trace_rests(e->trace[i]);
  lua_pushinteger(L, e->unproductive);
  lua_pushinteger(L, e->barren - BARREN_FREE);
  lua_pushboolean(L, rests);
  lua_pushnumber(L, (double)e->calls);
  lua_pushnumber(L, (double)e->skips);
  return 5;
}

/* wake(handle): the next call may be captured. */
static int compile_wake(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  e->rest = e->unproductive = 0;
  e->away = e->missed = 0;
  return 0;
}

/* within_warmup(handle) -> whether its call is a warmup */
static int compile_within_warmup(lua_State *L) {
  Binding *B = (Binding *)ty_lua_enter(L);
  lua_pushboolean(L, ty_lua_mode_of(L, B, MODE_WARMUP, luaL_checkudata(L, 1, ENTRY_META)));
  return 1;
}

/* check(handle, n, fn): fn answers every n-th call. */
static int compile_check(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  e->check_every = e->check_left = (i64)luaL_checknumber(L, 2);
  lua_getfenv(L, 1);
  lua_pushvalue(L, 3);
  lua_rawseti(L, -2, 0);
  return 0;
}

/* recheck(handle, fn, again): fn answers each call, `again` those that were captured just now. */
static int compile_recheck(lua_State *L) {
  ty_lua_enter(L);
  luaL_checkudata(L, 1, ENTRY_META);
  lua_getfenv(L, 1);
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, -1);
  lua_pushvalue(L, 3);
  lua_rawseti(L, -2, -2);
  return 0;
}

/* stands(handle, fn): fn answers each call; nil: as before */
static int compile_stands(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  lua_settop(L, 2);
  e->stands = !lua_isnil(L, 2);
  lua_getfenv(L, 1);
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, ANCHOR_STANDS);
  return 0;
}

/* stance(name) */
static int compile_stance(lua_State *L) {
  static const char *const names[] = {"default", "eager", "no_recompile", NULL};
  State *S = ty_lua_enter(L);
  struct Compiled *C = S->engine->compiled;
  const char *was = names[C->stance];
  if (!lua_isnoneornil(L, 1)) C->stance = (u8)luaL_checkoption(L, 1, NULL, names);
  lua_pushstring(L, was);
  return 1;
}

/* forget_parts(handle): forgets traces of what is not the whole function */
static int compile_forget_parts(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  lua_settop(L, 1);
  lua_getfenv(L, 1);
  ty_trace_forget_parts(L, e, 2);
  return 0;
}

/* reset(handle): forgets traces and counters */
static int compile_reset(lua_State *L) {
  ty_lua_enter(L);
  Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  lua_settop(L, 1);
  lua_getfenv(L, 1);
  ty_entry_reset(e);
  ty_trace_forget(L, e, 2);
  e->skips = e->linked = e->captures = e->evicted_traces = e->rest = 0;
  e->unproductive = e->barren = 0;
  e->newest = NULL;
  e->next_timed = 1, e->ntimes = 0, e->by_step = false;
  return 0;
}

/* tells_code(on): whether texts of plans have machine code, too */
static int compile_tells_code(lua_State *L) {
  ty_lua_enter(L)->engine->tells_code = lua_toboolean(L, 1);
  return 0;
}

static _Atomic(lua_CFunction) embedder;

void ty_lua_add_caller(lua_CFunction fn) { embedder = fn; }

/* Functions of the user's run under these, which hold no tensor of theirs meanwhile, or ask for it again. */
bool ty_lua_is_caller(lua_CFunction fn) {
  return fn == embedder || fn == ty_recorded_list || fn == compile_pick ||
         fn == compile_pick_again || fn == compile_run || fn == compile_run_again ||
         fn == compile_part || fn == compile_answer || fn == compile_answer_borrowed ||
         fn == ty_lua_protected;
}

/* Where dumps go; stdout is the script's. */
static void say(void *ctx, const char *s, size_t n) {
  (void)ctx;
  fwrite(s, 1, n, stderr);
}

void ty_lua_open_compile(lua_State *L, int m, int t) {
  static const luaL_Reg fns[] = {{"_entry", compile_entry},
                                 {"_info", ty_explain_info},
                                 {"_reset", compile_reset},
                                 {"_graph", ty_recorded_list},
                                 {"_captures", compile_captures},
                                 {"_due", compile_due},
                                 {"_tried", compile_tried},
                                 {"_vain", compile_vain},
                                 {"_stands", compile_stands},
                                 {"_stance", compile_stance},
                                 {"_tells_code", compile_tells_code},
                                 {"_within_warmup", compile_within_warmup},
                                 {"_wake", compile_wake},
                                 {"_check", compile_check},
                                 {"_recheck", compile_recheck},
                                 {"_hand_on", compile_hand_on},
                                 {"_part", compile_part_of},
                                 {"_answers", compile_answers},
                                 {"_link", ty_lua_link},
                                 {"_link_exit", ty_lua_link_exit},
                                 {"_unlink", ty_lua_unlink},
                                 {"_forget_parts", compile_forget_parts},
                                 {NULL, NULL}};
  (void)t;
  ty_lua_state(L)->engine->say = say;
  lua_pushvalue(L, m);
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
