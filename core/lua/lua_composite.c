/*
** lua_composite.c -- composites in eager mode: functions of several operations run as one plan.
** In: a function of the library's that records operations, its arguments. Out: its results, computed. Raises what it raises.
**
** 1. A call that came before with tensors of these types and layouts, and with the same other values, is answered by an
**    instance (engine/trace.h) that was made of the second such call; nothing of Lua's runs. The functions are the
**    library's and look at nothing but their arguments, the settings in the entry's word, and random streams.
** 2. Else, while a composite of large tensors runs, its operations are recorded, and cut once at its end: what it computes
**    on the way needs no memory. Only its results are looked at afterwards, so the rest is let go of at once, with the
**    inputs that it pins.
** 3. What the tape keeps of such a call is computed at that cut too, in the same kernels. What a backward function of
**    Lua's keeps is not known here: then nothing is let go of.
** Functions in C that record several operations ask for rule 1 themselves, as their first deed (ty_lua_answered).
*/
#include "engine/remade.h"
#include "engine/entry.h"
#include "engine/trace.h"
#include "lua/lua_protect.h"
#include "lua/lua_session.h"
#include "lua/lua_view.h"
#include "record/grad.h"

enum {
  WORTH = 8192, /* elements of the first argument */
  SETS = 128,   /* a power of two */
  WAYS = 4,     /* calls that are remembered in each, the latest first */
  KEY_MOST = 640,
  TENSORS_MOST = 8,
  TABLES_MOST = 3, /* in each other */
  RESULTS_MOST = 2
};

/* --- what is remembered of calls */

typedef struct Remembered {
  u64 hash;
  u32 bytes;
  bool refused;
  bool itself; /* gives its first argument, which it writes */
  Instance *I; /* NULL: the call is refused */
  char key[];
} Remembered;

struct Composites {
  Remembered *way[SETS][WAYS];
  /* Hashes of calls that came once, the latest first; numbers that change from call to call get no farther. */
  u64 once[SETS][WAYS];
  u64 changes; /* so many calls have been remembered */
};

typedef struct Key {
  u64 hash;
  u32 bytes;
  i32 ntensors;
  bool taped; /* some of them */
  Tensor *tensor[TENSORS_MOST];
  char p[KEY_MOST];
} Key;

static void forget(Remembered *r) {
  if (!r) return;
  if (r->I) ty_instance_free(r->I);
  ty_mem_free(r);
}

void ty_lua_composites_close(struct Composites *C) {
  for (i32 i = 0; C && i < SETS * WAYS; i++) forget(C->way[i / WAYS][i % WAYS]);
  ty_mem_free(C);
}

static bool add(Key *k, const void *p, size_t n) {
  if (k->bytes + n > sizeof k->p) return false;
  memcpy(k->p + k->bytes, p, n);
  k->bytes += (u32)n;
  return true;
}

/* With the first argument that is this tensor, and the first that shares its storage. A tensor that needs a gradient
** stands for a place in all of its storage. */
static bool add_tensor(Key *k, Tensor *t) {
  if (!t->st || t->st->batched) return false;
  if (k->ntensors == TENSORS_MOST) return false;
  const bool needs = ty_needs_grad(t);
  const u8 tape = t->st->tape ? 1 + needs : 0;
  const i64 place[] = {t->offset, t->st->numel};
  u8 same = 0, shares = 0;
  k->taped |= tape != 0;
  k->tensor[k->ntensors++] = t;
  while (k->tensor[same] != t) same++;
  while (k->tensor[shares]->st != t->st) shares++;
  const u8 head[] = {'T', same, shares, t->type.dtype, t->type.rank, t->type.device, tape};
  const size_t n = sizeof(i64) * t->type.rank;
  return add(k, head, sizeof head) && (!needs || add(k, place, sizeof place)) &&
         add(k, t->type.dims, n) && add(k, t->strides, n);
}

static bool add_table(lua_State *L, Key *k, int i, int depth);

/* The value at index i, which counts from the bottom. A tensor that is a field of a table is held by nobody. */
static bool add_value(lua_State *L, Key *k, int i, int depth) {
  const char type = (char)lua_type(L, i);
  if (type == LUA_TUSERDATA) {
    Tensor *t = depth ? NULL : ty_lua_test(L, i);
    return t && add_tensor(k, t);
  }
  bool ok = add(k, &type, 1);
  if (type == LUA_TNUMBER) {
    const double v = lua_tonumber(L, i);
    ok = ok && add(k, &v, sizeof v);
  } else if (type == LUA_TBOOLEAN) {
    const char v = (char)lua_toboolean(L, i);
    ok = ok && add(k, &v, 1);
  } else if (type == LUA_TSTRING) {
    size_t bytes;
    const char *s = lua_tolstring(L, i, &bytes);
    const u32 length = (u32)bytes;
    ok = ok && add(k, &length, sizeof length) && add(k, s, bytes);
  } else if (type == LUA_TTABLE) {
    ok = ok && add_table(L, k, i, depth + 1);
  } else if (type != LUA_TNIL) {
    return false;
  }
  return ok;
}

/* The list in it: what it holds are values of the call. Tensors and tables stay on the stack, which holds them. */
static bool add_list(lua_State *L, Key *k, int i, int n, int depth) {
  for (int j = 1; j <= n; j++) {
    lua_rawgeti(L, i, j);
    const int top = lua_gettop(L);
    Tensor *t = ty_lua_test(L, top);
    if (t ? !add_tensor(k, t) : !add_value(L, k, top, depth)) return false;
    if (!t && !lua_istable(L, top)) lua_pop(L, 1);
  }
  return true;
}

/* What else is in it. */
static bool add_fields(lua_State *L, Key *k, int i, int n, int depth) {
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
    const int top = lua_gettop(L);
    const double v = lua_type(L, top - 1) == LUA_TNUMBER ? lua_tonumber(L, top - 1) : 0;
    if (v >= 1 && v <= n && v == (int)v) continue;
    if (!add_value(L, k, top - 1, depth) || !add_value(L, k, top, depth)) return false;
    if (lua_gettop(L) != top) return false; /* tensors in tables in it */
  }
  return true;
}

/* None with a metatable, which may hold anything. */
static bool add_table(lua_State *L, Key *k, int i, int depth) {
  const char end = (char)LUA_TNONE;
  const size_t n = lua_objlen(L, i);
  if (depth > TABLES_MOST || n > KEY_MOST || !lua_checkstack(L, (int)n + 8)) return false;
  if (lua_getmetatable(L, i)) return false;
  return add_list(L, k, i, (int)n, depth) && add_fields(L, k, i, (int)n, depth) && add(k, &end, 1);
}

/* The call of f with what is on the stack from index `first` on; false: such calls are not remembered. More may lie on the
** stack then. */
static bool make_key(lua_State *L, const State *S, const void *f, int first, Key *k) {
  const u64 word = ty_entry_word(S);
  k->bytes = 0;
  k->ntensors = 0;
  k->taped = false;
  bool ok = add(k, &f, sizeof f) && add(k, &word, sizeof word);
  for (int i = first, n = lua_gettop(L); i <= n && ok; i++) ok = add_value(L, k, i, 0);
  k->hash = ok ? ty_hash(k->p, k->bytes, 0) : 0;
  return ok;
}

static Remembered **set_of(struct Composites *C, const Key *k) {
  return C->way[k->hash & (SETS - 1)];
}

/* NULL: it did not come before, or has been forgotten. */
static Remembered *find(struct Composites *C, const Key *k) {
  Remembered **set = set_of(C, k);
  for (int i = 0; i < WAYS && set[i]; i++) {
    Remembered *r = set[i];
    if (r->hash == k->hash && r->bytes == k->bytes && !memcmp(r->key, k->p, k->bytes)) return r;
  }
  return NULL;
}

/* Whether the call comes for the first time, for all that is known. */
static bool is_first(struct Composites *C, const Key *k) {
  u64 *once = C->once[k->hash & (SETS - 1)];
  int i = 0;
  while (i < WAYS - 1 && once[i] != k->hash) i++;
  const bool first = once[i] != k->hash;
  memmove(once + 1, once, (size_t)i * sizeof *once);
  *once = k->hash;
  return first;
}

/* Takes the instance over; the set's oldest call is forgotten. NULL: out of memory. */
static Remembered *remember(struct Composites *C, const Key *k, Instance *I, bool itself) {
  Remembered **set = set_of(C, k), *r = ty_mem_alloc(sizeof *r + k->bytes);
  if (!r) {
    if (I) ty_instance_free(I);
    return NULL;
  }
  *r = (Remembered){.hash = k->hash, .bytes = k->bytes, .refused = !I, .itself = itself, .I = I};
  memcpy(r->key, k->p, k->bytes);
  forget(set[WAYS - 1]);
  memmove(set + 1, set, sizeof *set * (WAYS - 1));
  C->changes++;
  return *set = r;
}

/* --- an instance of a call */

/* The results from index `from` on: tensors that the function made, no two of them one; or the first argument alone,
** which it has written (none is made). false: others. */
static bool read_made(lua_State *L, int from, const Key *k, const Tensor **made, i32 *n) {
  *n = lua_gettop(L) - from + 1;
  if (*n < 1 || *n > RESULTS_MOST) return false;
  if (*n == 1 && k->ntensors && ty_lua_test(L, from) == k->tensor[0]) {
    *n = 0;
    return !k->taped; /* a write that the tape follows */
  }
  for (i32 i = 0; i < *n; i++) {
    made[i] = ty_lua_test(L, from + i);
    if (!made[i] || !made[i]->st || (i && made[0]->st == made[i]->st)) return false;
    for (i32 j = 0; j < k->ntensors; j++)
      if (made[i]->st == k->tensor[j]->st) return false;
  }
  return true;
}

/* Captures the call of the function at index 1 with the arguments behind it, up to index `last`; NULL: it cannot be. What
** debug hooks raise goes on. */
static Instance *capture(lua_State *L, State *S, const Key *k, int last) {
  Binding *B = (Binding *)S;
  const int top = lua_gettop(L);
  const Tensor *made[RESULTS_MOST];
  Instance *I = NULL;
  Session s;
  bool hooked = false;
  i32 n = 0;
  const i32 site = S->site;
  if (B->session || !lua_checkstack(L, last + 8) || !ty_lua_session_begin(L, B, &s)) return NULL;
  bool ok = true;
  for (i32 i = 0; i < k->ntensors && ok; i++) {
    Tensor *t = k->tensor[i];
    if (t->st && t->st->recording) ok = S->cut(S, t->st->recording, t->st);
    ok = ok && t->st && ty_capture_outside(S, t, i);
  }
  for (int i = 1; i <= last; i++) lua_pushvalue(L, i);
  ok = ok && !ty_lua_protect(L, B, &s.protect, last - 1, LUA_MULTRET, &hooked);
  if (ok && S->capture && !S->capture->refused && !S->capture->nleaf &&
      read_made(L, top + 1, k, made, &n))
    I = ty_instance_make(S, made, n, NULL);
  if (hooked) lua_insert(L, 1);
  ty_lua_session_close(L, B, &s);
  S->site = site;
  if (hooked) {
    if (I) ty_instance_free(I);
    lua_settop(L, 1);
    lua_error(L);
  }
  lua_settop(L, top);
  /* A rule of Lua's own is one call's, and is not remembered. */
  if (I && (I->writes != !n || I->noutside != k->ntensors || (I->tape && I->tape->nrule))) {
    ty_instance_free(I);
    return NULL;
  }
  return I;
}

/* Runs what is remembered of the call, r, if it can be: so many results, on top; 0: as if it had not come. first: the
** arguments' first index. */
static int answer(lua_State *L, State *S, struct Composites *C, Remembered *r, const Key *k,
                  int first) {
  const Tensor *const *outside = (const Tensor *const *)k->tensor;
  Tensor *made[RESULTS_MOST];
  const char *why;
  const int top = lua_gettop(L);
  const u64 changes = C->changes;
  const i32 n = r->I->nmade;
  for (i32 i = 0; i < n; i++) made[i] = ty_lua_push_in(L, (Binding *)S);
  if (C->changes != changes) r = find(C, k); /* finalisers may have called anything */
  if (TY_UNLIKELY(S->sites) && r && r->I) ty_instance_place(S, r->I);
  if (r && r->I && r->I->nmade == n &&
      ty_instance_ready(S, r->I, outside, NULL, &why) == READY_YES &&
      ty_instance_run(S, r->I, outside, NULL, made)) {
    if (!r->itself) return n;
    lua_pushvalue(L, first);
    return 1;
  }
  lua_settop(L, top);
  return 0;
}

/* Results of the call, on top; 0: it is to be made. first: the arguments' first index; 1: the running function's. */
static int answered(lua_State *L, State *S, const void *f, int first) {
  Binding *B = (Binding *)S;
  Key k;
  Remembered *r = NULL;
  const int last = lua_gettop(L);
  if (!B->composites) B->composites = ty_mem_zalloc(sizeof *B->composites);
  const bool known = B->composites && make_key(L, S, f, first, &k);
  if (known && !(r = find(B->composites, &k)) && !is_first(B->composites, &k)) {
    lua_Debug ar;
    if (first == 1) { /* the running function itself */
      lua_getstack(L, 0, &ar);
      lua_getinfo(L, "f", &ar);
      lua_insert(L, 1);
    }
    Instance *I = capture(L, S, &k, first == 1 ? last + 1 : last);
    if (first == 1) lua_remove(L, 1);
    r = find(B->composites, &k); /* the function ran, and finalisers with it */
    if (!r) r = remember(B->composites, &k, I, I && !I->nmade);
    else if (I) ty_instance_free(I);
  }
  const int n = r && r->I ? answer(L, S, B->composites, r, &k, first) : 0;
  if (!n) lua_settop(L, last);
  return n;
}

/* Whether operations are computed one by one, and nobody watches which. */
static bool is_eager(const State *S) {
  return !S->open && !S->capture && !S->level && !((const Binding *)S)->session;
}

int ty_lua_answered(lua_State *L, State *S, const char *who) {
  return is_eager(S) ? answered(L, S, who, 1) : 0;
}

/* --- what Lua calls */

/* Whether to record a call with the arguments from index 2 on. */
static bool is_worth(lua_State *L) {
  const Tensor *x = ty_lua_test(L, 2);
  return x && x->st && x->st->numel >= WORTH && ty_type_numel(&x->type) >= WORTH;
}

/* Results are computed at the cut, whoever reads them. False: there are others than tensors and plain values. */
static bool want_results(lua_State *L, Recording *b) {
  bool known = true;
  for (int i = 1, n = lua_gettop(L); i <= n; i++) {
    const Tensor *t = ty_lua_test(L, i);
    if (t && t->st && t->st->recording == b) b->g.uses[t->st->node] = 0;
    known = known && (t || lua_type(L, i) <= LUA_TSTRING);
  }
  return known;
}

/* What the tape keeps is computed with the results. */
static void want_saved(void *ctx, Recording *b) {
  (void)ctx;
  b->wants = WANT_SAVED;
}

/* run(f, ...) -> what f gives */
static int composite_run(lua_State *L) {
  State *S = ty_lua_enter(L);
  Protect p;
  bool hooked;
  Lazy like = {.thread = L, .pinned = &p, .on_cut = want_saved}, *z = ty_lazy_open(S, &like);
  if (!z) { /* no memory: one by one */
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  const int status = ty_lua_protect(L, (Binding *)S, &p, lua_gettop(L) - 1, LUA_MULTRET, &hooked);
  Recording *b = z->open;
  const bool known = !status && want_results(L, b);
  b->refs++;
  const bool ok = !b->waiting || S->cut(S, b, NULL);
  if (ok && known && !b->kept) ty_recording_end(b);
  ty_recording_drop(S, b);
  ty_lazy_abandon(S, z);
  if (status) return lua_error(L);
  if (!ok) return ty_lua_fail(L, S);
  return lua_gettop(L);
}

/* eager() -> whether operations are computed one by one. It is asked before: a capture gives no arguments away. */
static int composite_eager(lua_State *L) {
  const State *S = ty_lua_enter(L);
  lua_pushboolean(L, !S->open && !S->capture && !S->level);
  return 1;
}

/* take(x, y) -> x, which gets the values of y: a tensor that its caller made and reads no more */
static int composite_take(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "copy_", 1), *y = ty_lua_check(L, "copy_", 2);
  const Given value = {.kind = O_TENSOR, .t = y, .dies = true};
  TY_LUA_MUST(L, S, ty_remade_assign(S, "copy_", x, &value));
  lua_settop(L, 1);
  return 1;
}

/* try(f, ...) -> 1 or 2, and so many results: it is done; true: it is to be run(); false: it is to be called */
static int composite_try(lua_State *L) {
  State *S = ty_lua_enter(L);
  if (!is_eager(S)) {
    lua_pushboolean(L, false);
    return 1;
  }
  while (lua_isnil(L, -1)) lua_pop(L, 1); /* left out, or might be */
  const int n = answered(L, S, lua_topointer(L, 1), 2);
  if (n) {
    lua_pushinteger(L, n);
    lua_insert(L, -n - 1);
    return n + 1;
  }
  lua_pushboolean(L, is_worth(L));
  return 1;
}

void ty_lua_open_composite(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"eager", composite_eager},
                                 {"try", composite_try},
                                 {"run", composite_run},
                                 {"take", composite_take},
                                 {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "composite");
  lua_pop(L, 1);
}
