/*
** lua_grad.c -- gradients as Lua sees them: properties of tensors, and what lua/tycho/grad.lua walks with.
** In: tensors. Out: gradients, leaves, and backward passes as userdata. Raises what tape.c and backward.c have to say.
** A backward pass stops at a function of the user's (custom_grad, checkpoint) and hands it out, so that Lua code
** never runs under C: it may raise and yield.
*/
#include "record/capture.h"
#include "record/complex.h"
#include "record/grad.h"
#include "record/loop.h"
#include "record/traced_call.h"
#include "record/vmap.h"
#include "engine/entry.h"
#include "engine/remade.h"
#include "engine/trace.h"
#include "lua/lua_protect.h"
#include "lua/lua_view.h"

#define META_BACK "tycho.back"

/* What a custom record keeps in the registry, or a list of what those of one call keep; the State's own thread lets go of
** it. */
typedef struct Kept {
  Rule rule;
  Binding *B;
  int ref;
  i32 npins;
  ScopePin pin[]; /* in scopes that were open */
} Kept;

static void kept_drop(void *ctx) {
  Kept *k = ctx;
  if (--k->rule.refs) return;
  luaL_unref(k->B->L, LUA_REGISTRYINDEX, k->ref);
  for (i32 i = 0; i < k->npins; i++) ty_lua_scope_unpin(&k->pin[i]);
  ty_mem_free(k);
}

/* Whether the values at indices a and b of the stack are one, or tables that hold such. */
static bool alike(lua_State *L, int a, int b) {
  const int top = lua_gettop(L);
  i32 n = 0;
  if (lua_rawequal(L, a, b)) return true;
  bool same = lua_istable(L, a) && lua_istable(L, b) && lua_checkstack(L, 8);
  if (same) lua_pushnil(L);
  for (; same && lua_next(L, a); n++) {
    lua_pushvalue(L, -2);
    lua_rawget(L, b);
    same = alike(L, top + 2, top + 3);
    lua_settop(L, top + 1);
  }
  if (same) lua_pushnil(L);
  for (; same && lua_next(L, b); n--) lua_pop(L, 1);
  lua_settop(L, top);
  return same && !n;
}

static bool kept_alike(const Rule *x, const Rule *y) {
  const Kept *k = (const Kept *)x, *m = (const Kept *)y;
  lua_State *L = k->B->L;
  const int top = lua_gettop(L);
  if (!lua_checkstack(L, 8)) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, k->ref);
  lua_rawgeti(L, LUA_REGISTRYINDEX, m->ref);
  const bool same = alike(L, top + 1, top + 2);
  lua_settop(L, top);
  return same;
}

/* A backward pass as Lua holds it. */
typedef struct BackHandle {
  Back own;
  Tensor one; /* that the last pass began with, or empty */
  Back *at;   /* own, or one that C makes meanwhile; NULL: that one is over */
} BackHandle;

static Back *check_back(lua_State *L) {
  BackHandle *h = luaL_checkudata(L, 1, META_BACK);
  if (!h->at) luaL_error(L, "backward: the pass is over");
  return h->at;
}

static int back_gc(lua_State *L) {
  BackHandle *h = luaL_checkudata(L, 1, META_BACK);
  ty_back_free(&h->own);
  ty_tensor_release(&h->one);
  h->at = NULL;
  return 0;
}

static BackHandle *push_back(lua_State *L) {
  BackHandle *h = lua_newuserdata(L, sizeof *h);
  memset(h, 0, sizeof *h);
  if (luaL_newmetatable(L, META_BACK)) {
    lua_pushcfunction(L, back_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return h;
}

/* Pushes what a CUSTOM was made with. */
static void push_kept(lua_State *L, const Record *r) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, ((Kept *)r->owner.ctx)->ref);
  if (!r->dims) return;
  lua_rawgeti(L, -1, (int)r->dims);
  lua_remove(L, -2);
}

/* Pushes what the CUSTOM at hand was made with, the gradients of its results, and what it keeps, or nil. */
static void push_custom(lua_State *L, const Back *b) {
  const Record *r = b->at->r;
  push_kept(L, r);
  lua_createtable(L, r->dim, 0);
  for (int i = 0; i < r->dim; i++) {
    if (!b->at->part[i].st) continue;
    ty_tensor_alias(ty_lua_push(L), &b->at->part[i]);
    lua_rawseti(L, -2, i + 1);
  }
  if (!r->keeps) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, r->n - r->base, 0);
  for (int i = r->base; i < r->n && r->edge[i].saved; i++) {
    Tensor *y = ty_lua_push(L);
    *y = r->edge[i].t;
    y->st = ty_storage_hold(r->edge[i].saved);
    lua_rawseti(L, -2, i - r->base + 1);
  }
}

/* The rule of the CUSTOM at hand, for a pass that C makes. False: it raised an error. */
static bool run_rule(Back *b) {
  lua_State *L = b->thread;
  const int top = lua_gettop(L);
  bool hooked;
  if (!b->at->r->pure || !lua_checkstack(L, 8)) return false;
  BackHandle *h = push_back(L);
  push_custom(L, b);
  lua_getfield(L, top + 2, "back");
  lua_insert(L, top + 1);
  lua_pushvalue(L, top + 3); /* back, handle, kept, gradients, saved */
  lua_remove(L, top + 3);
  h->at = b;
  const bool collects = lua_gc(L, LUA_GCISRUNNING, 0) != 0;
  lua_gc(L, LUA_GCSTOP, 0); /* finalisers would be recorded */
  const int y = ty_lua_undisturbed(L, (Binding *)b->S, 4, 0, &hooked);
  if (collects) lua_gc(L, LUA_GCRESTART, 0);
  h->at = NULL;
  lua_settop(L, top);
  return y == 0;
}

/* mode() -> whether operations may be taped; modes.grad sets it */
static int grad_mode(lua_State *L) {
  lua_pushboolean(L, ty_lua_enter(L)->grad_mode);
  return 1;
}

/* start(retain, create, wanted = nil, floor) -> a backward pass; wanted: watched tensors */
static int grad_start(lua_State *L) {
  State *S = ty_lua_enter(L);
  const bool retain = lua_toboolean(L, 1), create = lua_toboolean(L, 2);
  BackHandle *h = push_back(L);
  Back *b = h->at = &h->own;
  *b = (Back){.S = S, .retain = retain, .create = create, .custom = run_rule};
  if (!lua_istable(L, 3)) return 1;
  int n = (int)lua_objlen(L, 3);
  if (!(b->wanted = ty_mem_zalloc(sizeof *b->wanted * (size_t)(n + 1))))
    return ty_lua_error(L, "grad: out of memory");
  b->floor = (u64)lua_tonumber(L, 4);
  for (; b->nwanted < n; b->nwanted++) {
    lua_rawgeti(L, 3, b->nwanted + 1);
    Tensor *x = ty_lua_check(L, "grad", -1);
    if (x->st->tape) b->wanted[b->nwanted].r = ty_record_hold(x->st->tape);
    lua_pop(L, 1);
  }
  return 1;
}

/* seed(back, y, g, outer = as it was started): outer: the way is kept, and what it computes is taped */
static int grad_seed(lua_State *L) {
  State *S = ty_lua_enter(L);
  Back *b = check_back(L);
  if (!lua_isnoneornil(L, 4)) b->retain = b->create = lua_toboolean(L, 4);
  Tensor *y = ty_lua_check(L, "backward", 2), *g = ty_lua_check(L, "backward", 3);
  TY_LUA_MUST(L, S, ty_back_seed(b, y, g));
  return 0;
}

/* Nothing but the pass holds what waits at a cut: gradients on their way, which will be read. */
static void want_all(void *ctx, Recording *r) {
  (void)ctx;
  r->wants = WANT_ALL;
}

/* ty_back_step, in eager mode recorded and cut at its end: rules of several operations, and those of neighbours, share
** kernels, and what only they read needs no memory. */
static BackState back_part(lua_State *L, State *S, Back *b) {
  const bool alone = !S->open && !S->capture && !S->level && !b->create;
  if (alone) { /* no recording while there are calls alone, which have plans of their own */
    b->calls_only = true;
    BackState first = ty_back_step(b);
    b->calls_only = false;
    if (first != BACK_RULE) return first;
  }
  Protect p = {.by = &p};
  Lazy like = {.thread = L, .pinned = &p, .on_cut = want_all}, *z = NULL;
  if (alone) z = ty_lazy_open(S, &like);
  b->at_once = z != NULL;
  BackState y = ty_back_step(b);
  b->at_once = false;
  if (!z) return y;
  if ((y == BACK_CUSTOM || y == BACK_CALL || y == BACK_HOOK) && !S->cut(S, z->open, NULL))
    y = BACK_FAILED;
  ty_lazy_abandon(S, z);
  return y;
}

/* The same over calls that traces answered. */
static BackState back_step(lua_State *L, State *S, Back *b) {
  BackState y;
  do y = back_part(L, S, b);
  while (y == BACK_CALL && ty_traced_back(S, b));
  return y == BACK_CALL ? BACK_FAILED : y;
}

/* A tensor's hooks as the record keeps them. */
typedef struct Hooks {
  Owner hook; /* first */
  Binding *B;
  int ref; /* in the registry: the list, with `back` as kept tables have it, and `grad` where it is kept */
  bool counted; /* in the State's hooks */
  Type type;    /* of the tensor on which it was registered */
} Hooks;

static void hooks_drop(void *ctx) {
  Hooks *h = ctx;
  h->B->S.hooks -= h->counted;
  luaL_unref(h->B->L, LUA_REGISTRYINDEX, h->ref);
  ty_mem_free(h);
}

/* What step gives of hooks: their list, the gradient in a list, the dims in which they see it. A capture is told of which
** leaf from outside they are. */
static int push_hooked(lua_State *L, State *S, const Back *b) {
  const Record *r = b->at->r;
  const Hooks *h = (const Hooks *)r->hook;
  if (S->capture && ty_capture_is_old(S, r)) {
    const Outside *leaf = r->kind == K_LEAF ? ty_capture_leaf_of(S, r) : NULL;
    if (!leaf) {
      ty_capture_refuse(S, "the gradient of an operation outside of it is asked for");
      return ty_lua_fail(L, S);
    }
    S->capture->hooked = leaf->slot;
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, h->ref);
  lua_createtable(L, 1, 0);
  ty_tensor_alias(ty_lua_push(L), &b->at->g);
  lua_rawseti(L, -2, 1);
  lua_createtable(L, h->type.rank, 0);
  for (int d = 0; d < h->type.rank; d++) {
    lua_pushnumber(L, (lua_Number)h->type.dims[d]);
    lua_rawseti(L, -2, d + 1);
  }
  return 3;
}

/* hooked() -> the slot of the leaf from outside whose hooks step has just given; nothing: they were registered inside */
int ty_lua_leaf_hooked(lua_State *L) {
  Capture *c = ty_lua_capture(L);
  if (!c || !c->hooked) return 0;
  lua_pushinteger(L, c->hooked);
  c->hooked = 0;
  return 1;
}

/* hooks(leaf) -> the list of its hooks or nil, whether any leaf has some */
int ty_lua_leaf_hooks(lua_State *L) {
  const Tensor *t = ty_lua_check(L, "capture", 1);
  ty_lua_push_hooks(L, t);
  lua_pushboolean(L, ty_lua_state(L)->hooks > 0);
  return 2;
}

void ty_lua_push_hooks(lua_State *L, const Tensor *t) {
  const Record *r = t->st ? ty_grad_leaf(t) : NULL;
  if (r && r->hook) lua_rawgeti(L, LUA_REGISTRYINDEX, ((const Hooks *)r->hook)->ref);
  else lua_pushnil(L);
}

/* instead(back, g): the gradient that goes on from the hooks at hand, of the elements it had */
static int grad_instead(lua_State *L) {
  ty_lua_enter(L);
  Back *b = check_back(L);
  const Tensor *g = ty_lua_check(L, "register_hook", 2);
  ty_tensor_release(&b->at->g);
  ty_tensor_alias(&b->at->g, g);
  return 0;
}

/* hooks(x, list = nil, retains = nil) -> the list of x's hooks; nil: it has none. list: from now on, where it has none;
** false: it has none any more. retains: they keep the gradient in the list */
static int grad_hooks(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "register_hook", 1);
  if (S->capture && ty_needs_grad(x) && ty_capture_is_old(S, x->st->tape)) {
    ty_capture_refuse(S, "a hook is registered on a tensor from outside, or removed from it");
    return ty_lua_fail(L, S);
  }
  if (!ty_needs_grad(x))
    return ty_lua_error(L, "register_hook: %s does not require grad",
                        ty_lua_view_text(L, &x->type));
  if (ty_tensor_is_complex(x))
    return ty_lua_error(L,
                        "register_hook: not on a complex tensor, got %s (register it on "
                        "ty.view_as_real(x), whose gradients are the same)",
                        ty_lua_view_text(L, &x->type));
  if (x->offset || !ty_tensor_is_contiguous(x) || x->st->numel != ty_type_numel(&x->type))
    return ty_lua_error(L, "register_hook: the tensor is a view of part of another one, or in "
                           "another order, which has "
                           "no gradient of its own (use :clone())");
  Record *r = x->st->tape;
  if (r->kind == K_RESULT && r->n) { /* what else the compiled function reads it for counts, too */
    TracedCall *c = r->edge[0].from->call;
    TY_LUA_MUST(L, S, !c || (ty_remade_restore(S, c) && ty_traced_call_expand(S, c)));
    r = ty_traced_call_real(r);
  }
  if (!r->hook && lua_istable(L, 2)) {
    lua_pushvalue(L, 2);
    int ref = luaL_ref(L, LUA_REGISTRYINDEX);
    Hooks *h = ty_mem_alloc(sizeof *h);
    if (!h) {
      luaL_unref(L, LUA_REGISTRYINDEX, ref);
      return ty_lua_error(L, "register_hook: out of memory");
    }
    *h = (Hooks){{hooks_drop, h}, (Binding *)S, ref, r->kind == K_LEAF && !S->capture, x->type};
    S->hooks += h->counted;
    r->hook = &h->hook;
  }
  if (lua_toboolean(L, 3) && !r->retains) {
    Hooks *h = (Hooks *)r->hook;
    r->retains = true;
    if (!h->counted && !S->capture) S->hooks++, h->counted = true;
  }
  if (r->hook && lua_isboolean(L, 2)) { /* the last one was removed */
    r->hook->drop(r->hook->ctx);
    r->hook = NULL;
  }
  if (!r->hook) return 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, ((Hooks *)r->hook)->ref);
  return 1;
}

/* What a pass that has stopped there hands out. */
static int push_stop(lua_State *L, State *S, const Back *b, BackState y) {
  if (y == BACK_HOOK) return push_hooked(L, S, b);
  push_custom(L, b);
  return 3;
}

static BackState step_on(lua_State *L, State *S, Back *b) {
  Protect p = {.by = &p};
  b->thread = L;
  b->pinned = &p;
  BackState y = back_step(L, S, b);
  for (int again = 0; y == BACK_FAILED && again < 8 && ty_lua_reclaim(L, S); again++)
    y = back_step(L, S, b);
  return y;
}

/* step(back) -> nil at the end, or what a custom function was made with, the gradients of its results, and what a pure
** one keeps; or what push_hooked says */
static int grad_step(lua_State *L) {
  State *S = ty_lua_enter(L);
  Back *b = check_back(L);
  const BackState y = step_on(L, S, b);
  if (y == BACK_FAILED) return ty_lua_fail(L, S);
  return y == BACK_DONE ? 0 : push_stop(L, S, b, y);
}

/* Pushes the handle that waits for a pass; a new one where that is in use. */
static BackHandle *push_spare(lua_State *L, Binding *B) {
  if (B->back) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, B->back);
    BackHandle *h = lua_touserdata(L, -1);
    if (!h->at) return h;
    lua_pop(L, 1);
    return push_back(L);
  }
  BackHandle *h = push_back(L);
  lua_pushvalue(L, -1);
  B->back = luaL_ref(L, LUA_REGISTRYINDEX);
  return h;
}

/* The handle at index i belongs to Lua from now on. */
static void leave_spare(lua_State *L, Binding *B, int i) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, B->back);
  const bool is = lua_rawequal(L, -1, i);
  lua_pop(L, 1);
  if (!is) return;
  luaL_unref(L, LUA_REGISTRYINDEX, B->back);
  B->back = 0;
}

/* The gradient that a pass from t begins with: that of the handle's last pass. Hooks and functions of the user's, who may
** write to a gradient, are handed the handle with it, and no other pass has that. False: out of memory. */
static bool begin_with_one(State *S, BackHandle *h, const Type *t) {
  if (h->one.st && h->one.st->refs == 1 && ty_type_equal(&h->one.type, t)) return true;
  ty_tensor_release(&h->one);
  return ty_record_full(S, t, 1, &h->one);
}

/* whole(y) -> nothing: leaves have the gradients of y; or the pass, and what step gives, where it stops; or true: it is
** not so simple (a capture, other dims than none, nothing to go back through) */
static int grad_whole(lua_State *L) {
  State *S = ty_lua_enter(L);
  Binding *B = (Binding *)S;
  BackHandle *h = push_spare(L, B);
  const Tensor *x = ty_lua_test(L, 1);
  lua_pushboolean(L, true);
  if (!x || !x->st || S->open || S->capture || S->level || S->loop || !ty_needs_grad(x) ||
      !ty_is_float(x->type.dtype) || ty_type_numel(&x->type) != 1)
    return 1;
  ty_back_again(&h->own, S);
  h->own.custom = run_rule;
  h->at = &h->own;
  const bool begun = begin_with_one(S, h, &x->type) && ty_back_seed(h->at, x, &h->one);
  if (x->type.device) ty_tensor_release(&h->one); /* devices may end before Lua's state does */
  const BackState y = begun ? step_on(L, S, h->at) : BACK_FAILED;
  if (y == BACK_DONE || y == BACK_FAILED) h->at = NULL;
  if (y == BACK_DONE) return 0;
  if (y == BACK_FAILED) {
    ty_back_free(&h->own);
    return begun ? ty_lua_fail(L, S) : 1;
  }
  leave_spare(L, B, 2);
  lua_settop(L, 2);
  return 1 + push_stop(L, S, h->at, y);
}

/* give(back, i, g): the gradient of the custom function's input i, in its dims */
static int grad_give(lua_State *L) {
  State *S = ty_lua_enter(L);
  Back *b = check_back(L);
  int i = (int)lua_tointeger(L, 2);
  Tensor *g = ty_lua_check(L, "custom_grad", 3);
  const Type *t = &b->at->r->edge[i - 1].t.type;
  if (!ty_type_same_dims(&g->type, t) || g->type.dtype != t->dtype || g->type.device != t->device) {
    const char *got = ty_lua_view_text(L, &g->type);
    return ty_lua_error(L, "custom_grad: the gradient of input %d must be %s, got %s", i,
                        ty_lua_view_text(L, t), got);
  }
  TY_LUA_MUST(L, S, ty_back_give(b, i - 1, g));
  return 0;
}

static int grad_pass(lua_State *L) {
  ty_back_pass(check_back(L));
  return 0;
}

/* Whether others than `held` references may see its memory. */
static bool is_seen(const Storage *st, i32 held) {
  for (; st; st = st->batched ? st->batched->t.st : NULL, held = 1) {
    if (st->refs > held || st->frozen) return true;
    if (st->batched && !ty_view_distinct(&st->batched->t.type, st->batched->t.strides)) return true;
  }
  return false;
}

static bool own_gradient(State *S, Tensor *g, const Tensor *x, Tensor *y);

/* Of a complex x that of its reals, seen as x is. */
static bool own_gradient_pairs(State *S, Tensor *g, const Tensor *x, Tensor *y) {
  Tensor reals = {0}, own = {0};
  bool ok = ty_complex_reals(S, "grad", x, &reals) && own_gradient(S, g, &reals, &own) &&
            ty_complex_pack(S, &own, y);
  ty_tensor_release(&reals);
  ty_tensor_release(&own);
  return ok;
}

/* The gradient in the dims of x, in memory of its own, as who gets it may write to it; *g is let go of. */
static bool own_gradient(State *S, Tensor *g, const Tensor *x, Tensor *y) {
  Tensor seen = {0};
  if (TY_UNLIKELY(ty_tensor_is_complex(x))) return own_gradient_pairs(S, g, x, y);
  if (!ty_rule_see(S, g, x, x->st->numel, &seen)) return false;
  bool ok = ty_capture_decide_distinct(S, &seen.type, seen.strides);
  const bool own =
      ty_view_distinct(&seen.type, seen.strides) && !is_seen(seen.st, seen.st == g->st ? 2 : 1);
  if (own) ty_tensor_alias(y, &seen);
  else ok = ok && ty_record_copy(S, &seen, y);
  ty_tensor_release(&seen);
  if (ok) ty_tensor_release(g);
  return ok;
}

/* got(back, k, x) -> the gradient of watched tensor k, in the dims of x; nil: none came, or it was given already */
static int grad_got(lua_State *L) {
  State *S = ty_lua_enter(L);
  Back *b = check_back(L);
  Tensor *g = &b->wanted[(int)lua_tointeger(L, 2) - 1].g;
  const Tensor *x = ty_lua_check(L, "grad", 3);
  if (!g->st) return 0;
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, own_gradient(S, g, x, y));
  return 1;
}

/* ty_grad_watch of x, or of a copy where places of x are one: each element has a gradient of its own. */
static bool watch_apart(State *S, const Tensor *x, bool watch, Tensor *y) {
  Tensor own = {0};
  Type t = {0};
  i64 strides[MAX_RANK];
  if (!ty_complex_as_reals(x, &t, strides)) return ty_complex_reals(S, "grad", x, &own);
  if (!ty_capture_decide_distinct(S, &t, strides)) return false;
  if (ty_view_distinct(&t, strides)) return ty_grad_watch(S, x, watch, y);
  if (!ty_record_copy(S, x, &own)) return false;
  const bool ok = ty_grad_watch(S, &own, watch, y);
  ty_tensor_release(&own);
  return ok;
}

static int grad_watch(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "grad", 1), *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, watch_apart(S, x, true, y));
  return 1;
}

/* ty_grad_watch without a start. A capture follows writes to what it made itself alone: there it is a copy, which
** costs nothing until it is written. */
static bool record_same(State *S, const Tensor *x, Tensor *y) {
  Tensor all = {.st = x->st, .origin = x->origin}, own = {0};
  if (!S->capture || x->st->tape || x->st->batched) return ty_grad_watch(S, x, false, y);
  all.type = ty_type_line(x->st->dtype, x->st->device, x->st->numel);
  all.strides[0] = 1;
  if (!ty_record_copy(S, &all, &own)) return false;
  ty_tensor_view(y, &own, &x->type, x->offset, x->strides);
  ty_tensor_release(&own);
  return true;
}

/* same(x, made = nil) -> x in a storage of its own, which goes on as x's does, also for others of x's that are less
** detached; made: what stands for another tensor of x's storage, whose own storage is taken */
static int grad_same(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "grad", 1), *y = ty_lua_push(L);
  const Tensor *made = lua_isnoneornil(L, 2) ? NULL : ty_lua_test(L, 2);
  Tensor attached = *x;
  attached.detached = false;
  if (made && made->st) ty_tensor_view(y, made, &x->type, x->offset, x->strides);
  else TY_LUA_MUST(L, S, record_same(S, &attached, y));
  y->detached = x->detached; /* whether or not gradients are on */
  return 1;
}

/* exchanged(number): backward passes give gradients to other ranks in this way from now on */
static int grad_exchanged(lua_State *L) {
  ty_lua_enter(L)->exchanged = (u32)luaL_checknumber(L, 1);
  return 0;
}

/* storage(x) -> a number of its storage */
static int grad_storage(lua_State *L) {
  lua_pushnumber(L, (lua_Number)(uintptr_t)ty_lua_check(L, "grad", 1)->st);
  return 1;
}

void ty_lua_push_version(lua_State *L, int i) {
  const Tensor *x = ty_lua_test(L, i);
  lua_pushnumber(L, x && x->st ? (lua_Number)x->st->version : -1);
}

/* version(x) -> how often it was written; -1: it is no tensor any more */
static int grad_version(lua_State *L) {
  ty_lua_push_version(L, 1);
  return 1;
}

/* together(list) -> of each tensor the number of the first one with its memory */
static int grad_together(lua_State *L) {
  const int n = (int)lua_objlen(L, 1);
  lua_createtable(L, n, 0);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    const Storage *st = ty_lua_check(L, "checkpoint", -1)->st;
    int first = 1;
    for (bool same = false; first < i; first += !same) {
      lua_rawgeti(L, 1, first);
      same = ty_lua_check(L, "checkpoint", -1)->st == st;
      lua_pop(L, 1);
      if (same) break;
    }
    lua_pop(L, 1);
    lua_pushinteger(L, first);
    lua_rawseti(L, -2, i);
  }
  return 1;
}

/* seq() -> the number that the next record will have */
static int grad_seq(lua_State *L) {
  lua_pushnumber(L, (lua_Number)(ty_lua_state(L)->record_seq + 1));
  return 1;
}

/* reaches(y, seq) -> whether y depends on a leaf, or on a record before seq */
static int grad_reaches(lua_State *L) {
  State *S = ty_lua_enter(L);
  bool yes = false;
  const Tensor *y = ty_lua_check(L, "grad", 1);
  TY_LUA_MUST(L, S, ty_back_reaches(S, y, (u64)lua_tonumber(L, 2), &yes));
  lua_pushboolean(L, yes);
  return 1;
}

static int grad_is_back(lua_State *L) {
  bool is = lua_type(L, 1) == LUA_TUSERDATA && lua_getmetatable(L, 1);
  if (is) {
    luaL_getmetatable(L, META_BACK);
    is = lua_rawequal(L, -1, -2);
  }
  lua_pushboolean(L, is);
  return 1;
}

static int grad_live(lua_State *L) {
  lua_pushnumber(L, (lua_Number)ty_lua_state(L)->records);
  return 1;
}

/* z: y, which leads back to the custom function's result i. */
static bool join_result(State *S, Record *join, const Tensor *y, int i, Tensor *z) {
  if (!watch_apart(S, y, false, z)) return false;
  if (!ty_is_float(y->st->dtype)) return true;
  Record *r = ty_record_new(S, K_OUT, 1, &(Given){.kind = O_TENSOR, .t = z});
  if (!r) {
    ty_tensor_release(z);
    return false;
  }
  if (r->edge[0].from) ty_record_drop(r->edge[0].from);
  r->edge[0].from = ty_record_hold(join);
  r->t = *z;
  r->t.st = NULL;
  r->dim = i;
  if (z->st->tape) ty_record_drop(z->st->tape);
  z->st->tape = r;
  return true;
}

/* result(back, i, y) -> y, what the function at hand kept of its result i, leading back to it once more: so that a
** rule that reads it has a gradient of its own */
static int grad_result(lua_State *L) {
  State *S = ty_lua_enter(L);
  Back *b = check_back(L);
  int i = (int)lua_tointeger(L, 2);
  Tensor *y = ty_lua_check(L, "custom_grad", 3), *z = ty_lua_push(L);
  TY_LUA_MUST(L, S, join_result(S, b->at->r, y, i - 1, z));
  return 1;
}

/* What a pure function keeps, as operands of its record behind its inputs: writes to x do not reach it. */
static bool keep_value(State *S, Edge *e, const Tensor *x) {
  e->t = *x;
  e->t.st = NULL;
  e->numel = x->st->numel;
  e->is_number = false;
  if (!(e->saved = ty_grad_freeze(S, x->st))) return false;
  if (x->st->tape && !e->saved->tape) e->saved->tape = ty_record_hold(x->st->tape);
  return true;
}

/* The record of join: inputs, what is kept, what the outputs were made from before seq. */
static Record *record_join(State *S, const Given *all, int nin, int nkept, int nout,
                           const Tensor *const *y, u64 seq) {
  Record **root = NULL, *r = NULL;
  i32 n = 0;
  if (seq && !ty_back_roots(S, y, nout, seq, &root, &n)) return NULL;
  Given *src = ty_mem_zalloc(sizeof *src * (size_t)(nin + nkept + n + 1));
  if (!src) ty_fail_memory(S, "custom_grad", 0);
  else {
    memcpy(src, all, sizeof *src * (size_t)nin);
    for (int i = 0; i < nkept + n; i++) src[nin + i].kind = O_NUMBER;
    r = ty_record_new(S, K_CUSTOM, nin + nkept + n, src);
  }
  ty_mem_free(src);
  for (i32 i = 0; i < n; i++)
    if (r) r->edge[nin + nkept + i].from = root[i];
    else ty_record_drop(root[i]);
  ty_mem_free(root);
  if (!r) return NULL;
  r->base = nin;
  bool ok = true;
  for (int i = nin; ok && i < nin + nkept; i++) ok = keep_value(S, &r->edge[i], all[i].t);
  if (ok) return r;
  ty_record_drop(r);
  return NULL;
}

/* shares() -> whether records may keep tensors: no vmap or loop is around */
static int grad_shares(lua_State *L) {
  const State *S = ty_lua_enter(L);
  lua_pushboolean(L, !S->level && !ty_loop_records(S));
  return 1;
}

/* What is kept for rules, in the table on top of the stack, which it pops, and pins in scopes before what was made since
** seq. NULL: out of memory. */
static Kept *kept_new(lua_State *L, Binding *B, bool pins, u64 seq, Handle *first) {
  const int ref = luaL_ref(L, LUA_REGISTRYINDEX);
  const i32 npins = pins ? ty_lua_scope_count(B) : 0;
  Kept *k = ty_mem_alloc(sizeof *k + sizeof *k->pin * (size_t)npins);
  if (!k) {
    luaL_unref(L, LUA_REGISTRYINDEX, ref);
    ty_fail_memory(&B->S, "custom_grad", 0);
    return NULL;
  }
  *k = (Kept){.rule = {1, kept_alike}, .B = B, .ref = ref, .npins = npins};
  if (npins) ty_lua_scope_pin(B, k->pin, seq, first);
  return k;
}

bool ty_lua_rules(lua_State *L, State *S, Handle *first, Owner *y) {
  Kept *k = kept_new(L, (Binding *)S, true, S->record_seq + 1, first);
  if (k) *y = (Owner){kept_drop, k};
  return k != NULL;
}

void ty_lua_rules_push(lua_State *L, const Record *r) { push_kept(L, r); }

/* The tensors of the list at index i, which holds them. */
static void list_of(lua_State *L, int i, int n, Given *y) {
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    y[k] = ty_lua_given(L, "custom_grad", lua_gettop(L));
    lua_pop(L, 1);
  }
}

/* join(kept, inputs, outputs, seq = nil, saved = nil, pure = nil) -> outputs that lead back to `kept`, which step hands out.
** seq: also to what they were made from before that. saved: tensors that step hands out beside. pure: `kept` and these
** are all that the rule reads. */
static int grad_join(lua_State *L) {
  State *S = ty_lua_enter(L);
  int nin = (int)lua_objlen(L, 2), nout = (int)lua_objlen(L, 3);
  const bool keeps = lua_istable(L, 5), pure = lua_toboolean(L, 6);
  const int nkept = keeps ? (int)lua_objlen(L, 5) : 0;
  Given *src = lua_newuserdata(L, sizeof *src * (size_t)(nin + nkept + 1));
  Tensor **y = lua_newuserdata(L, sizeof *y * 2 * (size_t)(nout + 1)), **z = y + nout;
  list_of(L, 2, nin, src);
  if (keeps) list_of(L, 5, nkept, src + nin);
  for (int i = 0; i < nout; i++) {
    lua_rawgeti(L, 3, i + 1);
    y[i] = ty_lua_check(L, "custom_grad", lua_gettop(L));
    lua_pop(L, 1);
  }
  lua_createtable(L, nout, 0);
  for (int i = 0; i < nout; i++) {
    z[i] = ty_lua_push(L);
    lua_rawseti(L, -2, i + 1);
  }
  const Tensor *const *made = (const Tensor *const *)y;
  const u64 seq = (u64)lua_tonumber(L, 4);
  lua_pushvalue(L, 1);
  Kept *k = kept_new(L, (Binding *)S, !pure, S->record_seq + 1, nout ? (Handle *)z[0] : NULL);
  if (!k) return ty_lua_fail(L, S);
  Record *r = record_join(S, src, nin, nkept, nout, made, seq);
  if (!r) {
    kept_drop(k);
    return ty_lua_fail(L, S);
  }
  r->keeps = keeps;
  r->pure = pure;
  r->owner = (Owner){kept_drop, k};
  r->dim = nout;
  if (S->open) S->open->kept = true;
  bool ok = true;
  for (int i = 0; ok && i < nout; i++) ok = join_result(S, r, y[i], i, z[i]);
  ty_record_drop(r);
  return ok ? 1 : ty_lua_fail(L, S);
}

/* --- leaves, as captures see them: the gradient of a leaf is that of all its storage, in one dim */

static void push_flat(lua_State *L, const Tensor *g) {
  Type t = ty_type_line(g->type.dtype, g->type.device, g->st->numel);
  ty_tensor_view(ty_lua_push(L), g, &t, 0, &(i64){1});
}

/* y lies as x's storage does: g under x, zeros elsewhere. */
static bool record_whole(State *S, const Tensor *x, const Tensor *g, Tensor *y) {
  Tensor view = {0};
  Type all = ty_type_line(x->st->dtype, x->type.device, x->st->numel);
  if (!ty_record_full(S, &all, 0, y)) return false;
  ty_tensor_view(&view, y, &x->type, x->offset, x->strides);
  bool ok = ty_record_assign(S, "grad", &view, &(Given){.kind = O_TENSOR, .t = g});
  ty_tensor_release(&view);
  if (!ok) ty_tensor_release(y);
  return ok;
}

/* gradient(leaf) -> what names its storage, the gradient or nil; nothing: it is no leaf */
int ty_lua_leaf_gradient(lua_State *L) {
  const Tensor *t = ty_lua_check(L, "capture", 1);
  const Record *r = ty_grad_leaf(t);
  if (!r || !ty_lua_capture(L)) return 0;
  lua_pushfstring(L, "%p", (const void *)r);
  if (r->t.st) push_flat(L, &r->t);
  else lua_pushnil(L);
  return 2;
}

/* gradients() -> "slot slot ...", a gradient for each: what leaves from outside would have been given */
int ty_lua_leaf_gradients(lua_State *L) {
  Capture *c = ty_lua_capture(L);
  lua_pushliteral(L, "");
  if (!c) return 1;
  int n = c->nleaf, text = lua_gettop(L);
  luaL_checkstack(L, n + 4, "gradients");
  for (int i = 0; i < n; i++) {
    lua_pushvalue(L, text);
    lua_pushfstring(L, i ? " %d" : "%d", (int)c->leaf[i].slot);
    lua_concat(L, 2);
    lua_replace(L, text);
    push_flat(L, &c->leaf[i].g);
  }
  for (int i = 0; i < n; i++) ty_tensor_release(&c->leaf[i].g);
  c->nleaf = 0;
  return n + 1;
}

/* lone(leaf): nothing shares its memory */
int ty_lua_leaf_lone(lua_State *L) {
  const Tensor *t = ty_lua_check(L, "capture", 1);
  if (ty_lua_capture(L)) ty_capture_lone(ty_lua_state(L), t->st);
  return 0;
}

/* whole(leaf, g) -> g, in the dims of the leaf, as the gradient of all its storage: zeros elsewhere */
int ty_lua_leaf_whole(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "capture", 1), *g = ty_lua_check(L, "capture", 2);
  TY_LUA_MUST(L, S, record_whole(S, x, g, ty_lua_push(L)));
  return 1;
}

/* seen(leaf, g) -> of the gradient of all its storage that of the leaf */
int ty_lua_leaf_seen(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "capture", 1), *g = ty_lua_check(L, "capture", 2);
  ty_tensor_view(ty_lua_push(L), g, &x->type, g->offset + x->offset, x->strides);
  return 1;
}

/* --- public */

int ty_lua_created(lua_State *L, const char *who) {
  Binding *B = ty_lua_binding(L);
  if (TY_LIKELY(!B->leaf)) return 1;
  Tensor *y = ty_lua_test(L, -1);
  B->leaf = false;
  if (!ty_is_float(y->st->dtype))
    return ty_lua_error(L, "%s: only floats have gradients, got %s", who,
                        ty_lua_view_text(L, &y->type));
  TY_LUA_MUST(L, &B->S, ty_grad_require(&B->S, y, true));
  return 1;
}

static int l_requires_grad(lua_State *L) {
  State *S = ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "requires_grad_", 1);
  bool on = lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
  TY_LUA_MUST(L, S, ty_grad_require(S, x, on));
  lua_settop(L, 1);
  return 1;
}

static int l_detach(lua_State *L) {
  ty_lua_enter(L);
  Tensor *x = ty_lua_check(L, "detach", 1), *y = ty_lua_push(L);
  ty_tensor_alias(y, x);
  y->detached = true;
  return 1;
}

int ty_lua_grad_required(lua_State *L, const Tensor *x) {
  lua_pushboolean(L, ty_needs_grad(x));
  return 1;
}

int ty_lua_grad_is_leaf(lua_State *L, const Tensor *x) {
  lua_pushboolean(L, !ty_needs_grad(x) || x->st->tape->kind == K_LEAF);
  return 1;
}

/* The record of x, no leaf, whose hooks keep its gradient; NULL: they do not. */
static const Record *retaining(const Tensor *x) {
  if (ty_needs(x) != NEEDS_TAPED) return NULL;
  const Record *r = ty_traced_call_real(x->st->tape);
  return r->retains ? r : NULL;
}

/* A capture keeps the gradients of leaves from outside elsewhere; see gradients.lua. */
static void refuse_outside(lua_State *L, State *S, const Record *r) {
  if (!r || !ty_capture_is_old(S, r)) return;
  ty_capture_refuse(S, "a gradient is read or set in a way that cannot be followed");
  ty_lua_fail(L, S);
}

int ty_lua_grad_get(lua_State *L, const Tensor *x) {
  Record *r = ty_grad_leaf(x);
  ty_lua_works(L, ty_lua_binding(L));
  ty_lua_follow(L, ty_lua_binding(L)); /* views are made as the mode says */
  const Record *kept = retaining(x);
  refuse_outside(L, x->st->S, kept ? kept : r);
  const Tensor *g = r && r->t.st ? &r->t : NULL;
  if (kept) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, ((const Hooks *)kept->hook)->ref);
    lua_getfield(L, -1, "grad");
    g = ty_lua_test(L, -1);
  }
  if (!g) lua_pushnil(L);
  else ty_tensor_view(ty_lua_push(L), g, &x->type, x->offset, x->strides);
  return 1;
}

static int grad_set(lua_State *L, State *S, const Tensor *x) {
  Record *r = ty_grad_leaf(x);
  const Record *kept = retaining(x);
  refuse_outside(L, S, kept ? kept : r);
  if (lua_isnil(L, 3)) {
    if (r) ty_tensor_release(&r->t);
    if (!kept) return 0;
    lua_rawgeti(L, LUA_REGISTRYINDEX, ((const Hooks *)kept->hook)->ref);
    lua_pushnil(L);
    lua_setfield(L, -2, "grad");
    return 0;
  }
  Tensor *g = ty_lua_check(L, "grad", 3);
  if (!r) return ty_lua_error(L, "grad: only a leaf that requires grad has one that can be set");
  if (!ty_type_same_dims(&g->type, &x->type) || g->type.dtype != x->type.dtype) {
    const char *got = ty_lua_view_text(L, &g->type);
    return ty_lua_error(L, "grad: must be %s, got %s", ty_lua_view_text(L, &x->type), got);
  }
  Tensor *whole = ty_lua_push(L);
  TY_LUA_MUST(L, S, record_whole(S, x, g, whole));
  ty_tensor_release(&r->t);
  ty_tensor_alias(&r->t, whole);
  return 0;
}

/* x.grad = nil, or a tensor of x's dims and dtype, at index 3 */
int ty_lua_grad_set(lua_State *L, const Tensor *x) { return grad_set(L, ty_lua_enter(L), x); }

/* forget(list): the same as x.grad = nil of each x in it */
static int grad_forget(lua_State *L) {
  State *S = ty_lua_enter(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 3);
  for (int i = 1;; i++, lua_settop(L, 3)) {
    lua_rawgeti(L, 1, i);
    if (lua_isnil(L, -1)) return 0;
    grad_set(L, S, ty_lua_check(L, "grad", 4));
  }
}

void ty_lua_open_grad(lua_State *L, int m, int t) {
  static const LuaFunction rows[] = {
      {"requires_grad_", l_requires_grad, 'b', "x, on = true",
       "makes x a leaf: operations on it are taped, and backward fills x.grad"},
      {"detach", l_detach, 'b', "x", "x without its past: no gradient goes through this view"},
      {NULL, NULL, 0, NULL, NULL}};
  static const luaL_Reg fns[] = {{"mode", grad_mode},
                                 {"start", grad_start},
                                 {"seed", grad_seed},
                                 {"step", grad_step},
                                 {"whole", grad_whole},
                                 {"give", grad_give},
                                 {"pass", grad_pass},
                                 {"got", grad_got},
                                 {"watch", grad_watch},
                                 {"same", grad_same},
                                 {"storage", grad_storage},
                                 {"exchanged", grad_exchanged},
                                 {"seq", grad_seq},
                                 {"reaches", grad_reaches},
                                 {"join", grad_join},
                                 {"shares", grad_shares},
                                 {"live", grad_live},
                                 {"is_back", grad_is_back},
                                 {"result", grad_result},
                                 {"hooks", grad_hooks},
                                 {"instead", grad_instead},
                                 {"version", grad_version},
                                 {"together", grad_together},
                                 {"forget", grad_forget},
                                 {NULL, NULL}};
  ty_lua_define(L, m, t, rows);
  lua_getfield(L, m, "internals");
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_setfield(L, -2, "grad");
  lua_pop(L, 1);
}
