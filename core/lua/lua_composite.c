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
*/
#include "engine/entry.h"
#include "engine/trace.h"
#include "lua/lua_protect.h"
#include "lua/lua_session.h"
#include "lua/lua_view.h"
#include "record/grad.h"

enum {
  WORTH = 8192, /* elements of the first argument */
  PLACES = 512, /* a power of two: calls that are remembered */
  KEY_MOST = 640,
  ARGS_MOST = 6,
  RESULTS_MOST = 2
};

/* --- what is remembered of calls */

/* In the place that its hash tells; the latest one stays. */
typedef struct Remembered {
  u64 hash;
  u32 bytes;
  bool refused;
  Instance *I; /* NULL: the call came once, or is refused */
  char key[];
} Remembered;

struct Composites {
  Remembered *place[PLACES];
};

typedef struct Key {
  u64 hash;
  u32 bytes;
  i32 ntensors;
  const Tensor *tensor[ARGS_MOST];
  char p[KEY_MOST];
} Key;

void ty_lua_composites_close(struct Composites *C) {
  for (i32 i = 0; C && i < PLACES; i++) {
    if (C->place[i] && C->place[i]->I) ty_instance_free(C->place[i]->I);
    if (C->place[i]) ty_mem_free(C->place[i]);
  }
  ty_mem_free(C);
}

static bool add(Key *k, const void *p, size_t n) {
  if (k->bytes + n > sizeof k->p) return false;
  memcpy(k->p + k->bytes, p, n);
  k->bytes += (u32)n;
  return true;
}

static bool add_tensor(Key *k, const Tensor *t) {
  if (!t->st || t->st->batched || t->st->tape) return false;
  for (i32 i = 0; i < k->ntensors; i++)
    if (k->tensor[i]->st == t->st) return false;
  k->tensor[k->ntensors++] = t;
  const u8 head[4] = {t->type.dtype, t->type.rank, t->type.device, 'T'};
  const size_t n = sizeof(i64) * t->type.rank;
  return add(k, head, sizeof head) && add(k, t->type.dims, n) && add(k, t->strides, n);
}

/* The call with a function at index 1 and its arguments behind it; false: such calls are not remembered. */
static bool make_key(lua_State *L, const State *S, Key *k) {
  const void *f = lua_topointer(L, 1);
  const u32 word = ty_entry_word(S);
  k->bytes = 0;
  k->ntensors = 0;
  bool ok = add(k, &f, sizeof f) && add(k, &word, sizeof word);
  for (int i = 2, n = lua_gettop(L); i <= n && ok; i++) {
    const Tensor *t = ty_lua_test(L, i);
    const char type = (char)lua_type(L, i);
    if (t) {
      ok = add_tensor(k, t);
      continue;
    }
    ok = add(k, &type, 1);
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
    } else if (type != LUA_TNIL) {
      return false;
    }
  }
  k->hash = ty_hash(k->p, k->bytes, 0);
  return ok && k->ntensors;
}

static Remembered **place_of(struct Composites *C, const Key *k) {
  return &C->place[k->hash & (PLACES - 1)];
}

/* NULL: it did not come before, or has been forgotten. */
static Remembered *find(struct Composites *C, const Key *k) {
  Remembered *r = *place_of(C, k);
  const bool same = r && r->hash == k->hash && r->bytes == k->bytes;
  return same && !memcmp(r->key, k->p, k->bytes) ? r : NULL;
}

/* Numbers that change from call to call come here each time. */
static void remember(struct Composites *C, const Key *k) {
  Remembered **place = place_of(C, k), *r = ty_mem_alloc(sizeof *r + k->bytes);
  if (!r) return;
  *r = (Remembered){.hash = k->hash, .bytes = k->bytes};
  memcpy(r->key, k->p, k->bytes);
  if (*place && (*place)->I) ty_instance_free((*place)->I);
  if (*place) ty_mem_free(*place);
  *place = r;
}

/* --- an instance of a call */

/* The results from index `from` on, all tensors that the function made, no two of them one; false: others. */
static bool read_made(lua_State *L, int from, const Key *k, const Tensor **made, i32 *n) {
  *n = lua_gettop(L) - from + 1;
  if (*n < 1 || *n > RESULTS_MOST) return false;
  for (i32 i = 0; i < *n; i++) {
    made[i] = ty_lua_test(L, from + i);
    if (!made[i] || !made[i]->st || (i && made[0]->st == made[i]->st)) return false;
    for (i32 j = 0; j < k->ntensors; j++)
      if (made[i]->st == k->tensor[j]->st) return false;
  }
  return true;
}

/* Captures the call; NULL: it cannot be. What debug hooks raise goes on. */
static Instance *capture(lua_State *L, State *S, const Key *k) {
  Binding *B = (Binding *)S;
  const int top = lua_gettop(L);
  const Tensor *made[RESULTS_MOST];
  Instance *I = NULL;
  Session s;
  bool hooked = false;
  i32 n;
  if (B->session || !ty_lua_session_begin(L, B, &s)) return NULL;
  bool ok = true;
  for (int i = 2; i <= top && ok; i++) {
    Tensor *t = ty_lua_test(L, i);
    if (t && t->st && t->st->recording) ok = S->cut(S, t->st->recording, t->st);
    ok = ok && (!t || (t->st && ty_capture_outside(S, t, i)));
  }
  for (int i = 1; i <= top; i++) lua_pushvalue(L, i);
  ok = ok && !ty_lua_protect(L, B, &s.protect, top - 1, LUA_MULTRET, &hooked);
  if (ok && S->capture && !S->capture->refused && !S->capture->nleaf &&
      read_made(L, top + 1, k, made, &n))
    I = ty_instance_make(S, made, n, NULL);
  if (hooked) lua_insert(L, 1);
  ty_lua_session_close(L, B, &s);
  if (hooked) {
    if (I) ty_instance_free(I);
    lua_settop(L, 1);
    lua_error(L);
  }
  lua_settop(L, top);
  if (I && (I->writes || I->noutside != k->ntensors)) {
    ty_instance_free(I);
    return NULL;
  }
  return I;
}

/* Runs what is remembered of the call, if it can be: so many results, on top; 0: as if it had not come. */
static int answer(lua_State *L, State *S, struct Composites *C, const Key *k) {
  const Tensor *const *outside = k->tensor;
  Tensor *made[RESULTS_MOST];
  const char *why;
  const int top = lua_gettop(L);
  Remembered *r = find(C, k);
  const i32 n = r->I->nmade;
  for (i32 i = 0; i < n; i++) made[i] = ty_lua_push_in(L, (Binding *)S);
  r = find(C, k); /* finalisers may have called anything */
  if (r && r->I && r->I->nmade == n &&
      ty_instance_ready(S, r->I, outside, NULL, &why) == READY_YES &&
      ty_instance_run(S, r->I, outside, NULL, made))
    return n;
  lua_settop(L, top);
  return 0;
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
  TY_LUA_MUST(L, S, ty_record_assign(S, "copy_", x, &value));
  lua_settop(L, 1);
  return 1;
}

/* try(f, ...) -> 1 or 2, and so many results: it is done; true: it is to be run(); false: it is to be called */
static int composite_try(lua_State *L) {
  State *S = ty_lua_enter(L);
  Binding *B = (Binding *)S;
  Key k;
  if (S->open || S->capture || S->level || B->session) {
    lua_pushboolean(L, false);
    return 1;
  }
  if (!B->composites) B->composites = ty_mem_zalloc(sizeof *B->composites);
  if (B->composites && make_key(L, S, &k)) {
    Remembered *r = find(B->composites, &k);
    if (!r) {
      remember(B->composites, &k);
    } else if (!r->I && !r->refused) {
      Instance *I = capture(L, S, &k);
      r = find(B->composites, &k); /* the function ran, and finalisers with it */
      if (r && !r->I) r->I = I, r->refused = !I;
      else if (I) ty_instance_free(I);
    }
    const int n = r && r->I ? answer(L, S, B->composites, &k) : 0;
    if (n) {
      lua_pushinteger(L, n);
      lua_insert(L, -n - 1);
      return n + 1;
    }
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
