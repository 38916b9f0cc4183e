/*
** lua_state.c -- the Lua module: one State for each Lua universe, tensor userdata, errors, memory.
** In: require "tycho.core". Out: the module table with all functions, and what the other files of
** the binding stand on: handles, error texts with the user's file:line, documented functions.
** Fails by Lua errors, raised when nothing is half built.
**
** Lifetimes. The State lies in a userdata that the registry anchors; every function of ours has it
** as an upvalue. Lua finalises in an order of its own when it closes: the State is torn down by its
** own finaliser or, if tensors are still there, by that of the last tensor.
**
** Memory. Lua's collector does not see the bytes of tensors. Their number decides when a cycle of
** it is due, and the bytes allocated since decide how far each step goes:
** 1. until tensors have grown by LIVE_GROWTH since the last cycle, or by a quarter, or by as much
**    as HEAP_SHARE times Lua's own heap (which a cycle must walk), nothing is done;
** 2. beyond, each MB of new tensors pays for its share of a cycle, so that one ends after
**    CYCLE_BYTES at the latest: no pauses, and no more than that of garbage on top;
** 3. a collector that is stopped is left alone. Lua's collector also counts as stopped while it
**    runs a finaliser, so none is entered twice. Hosts older than LuaJIT 2.1 cannot say whether it
**    is stopped: there it is taken to be running.
*/
#include <stdarg.h>
#include <stdio.h>
#include "record/capture.h"
#include "engine/entry.h"
#include "lua/lua_seam.h"
#include "lua/lua_tycho.h"

#define LOOK_BYTES (1 << 20)       /* of new tensors between two looks at the memory */
#define LIVE_GROWTH ((i64)8 << 20) /* small: what is collected early stays in the caches */
#define LIVE_GROWTH_MAX ((i64)96 << 20)
#define HEAP_SHARE 8
#define CYCLE_BYTES ((i64)4 << 20) /* at least; an eighth of what lives; a third of the growth */
#define KEY_STATE SEAM_STATE       /* in the registry */
#define KEY_META SEAM_META
#define KEY_HELP "tycho.help"
#define KEY_THREAD "tycho.thread"
#ifndef LUA_GCISRUNNING
#define LUA_GCISRUNNING 9 /* LuaJIT 2.1; others answer -1 */
#endif

/* --- errors */

/* Whether a chunk is one of ours (also generated ones, named "=(tycho)"): its errors are reported
** where the user called it. */
bool ty_lua_is_ours(const Host *H, const char *source) {
  return (H->home[0] && !strncmp(source, H->home, strlen(H->home))) ||
         !strncmp(source, "=(tycho)", 8);
}

/* Pushes "file:line: " of the nearest Lua function that is not ours, or "". */
static void push_where(lua_State *L, const Host *H) {
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (*ar.what == 'C' || ty_lua_is_ours(H, ar.source)) continue;
    if (ar.currentline <= 0) break; /* stripped: it has no lines */
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
    return;
  }
  lua_pushliteral(L, "");
}

static int raise_text(lua_State *L, const Host *H, const char *text) {
  push_where(L, H);
  lua_pushstring(L, text);
  lua_concat(L, 2);
  return lua_error(L);
}

int ty_lua_fail(lua_State *L, State *S) { return raise_text(L, (Host *)S, S->err); }

int ty_lua_error(lua_State *L, const char *fmt, ...) {
  char text[ERR_MAX];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return raise_text(L, ty_lua_host(L), text);
}

const char *ty_lua_show(lua_State *L, int i) {
  char text[96];
  Tensor *t = ty_lua_test(L, i);
  switch (lua_type(L, i)) {
  case LUA_TNUMBER: return lua_pushfstring(L, "number %f", lua_tonumber(L, i));
  case LUA_TBOOLEAN: return lua_pushfstring(L, "%s", lua_toboolean(L, i) ? "true" : "false");
  case LUA_TSTRING: {
    size_t n;
    const char *s = lua_tolstring(L, i, &n);
    snprintf(text, sizeof text, "string \"%.40s%s\"", s, n > 40 ? "..." : "");
    break;
  }
  case LUA_TNONE: return lua_pushfstring(L, "nothing");
  default:
    if (!t) return lua_pushfstring(L, "%s", lua_typename(L, lua_type(L, i)));
    if (!t->st) return lua_pushfstring(L, "released tensor");
    strcpy(text, "tensor ");
    ty_type_print(&t->type, text + 7, sizeof text - 7);
  }
  return lua_pushfstring(L, "%s", text);
}

/* Edits (insert, drop, change, swap of neighbours) from a to b, at most `most` + 1. */
static int distance(const char *a, const char *b, int most) {
  int row[3][34], n = (int)strlen(a), m = (int)strlen(b);
  if (n > 32 || m > 32 || n - m > most || m - n > most) return most + 1;
  for (int j = 0; j <= m; j++) row[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *up2 = row[(i + 1) % 3], *up = row[(i + 2) % 3], *at = row[i % 3];
    at[0] = i;
    for (int j = 1; j <= m; j++) {
      int best = up[j - 1] + (a[i - 1] != b[j - 1]);
      best = TY_MIN(best, TY_MIN(up[j], at[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = TY_MIN(best, up2[j - 2] + 1);
      at[j] = best;
    }
  }
  return row[n % 3][m];
}

/* Keeps the nearer name; equal ones by the alphabet, since tables have no order. */
static void nearer(const char *name, const char *candidate, int *best, const char **found) {
  int d = distance(name, candidate, *best);
  if (d > *best || (d == *best && *found && strcmp(candidate, *found) > 0)) return;
  *best = d;
  *found = candidate;
}

const char *ty_lua_nearest(lua_State *L, const char *name, int t) {
  const char *found = NULL;
  int best = strlen(name) < 4 ? 1 : 2;
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING) nearer(name, lua_tostring(L, -2), &best, &found);
  return found;
}

/* --- the start of every function */

State *ty_lua_enter(lua_State *L) { return ty_lua_enter_in(L, ty_lua_host(L)); }

State *ty_lua_enter_in(lua_State *L, Host *H) {
  if (TY_UNLIKELY(!H || H->closed)) ty_lua_error(L, "tycho: this Lua state is closing");
  State *S = &H->S;
  if (TY_UNLIKELY(S->interrupted && *S->interrupted)) ty_lua_error(L, "tycho: interrupted");
  ty_lua_apart(L, H);
  ty_lua_follow(L, H);
  if (S->engine->compiled->lazy) ty_lua_sync(L, S);
  else S->open = NULL;
  return S;
}

/* --- tensors on the stack */

Tensor *ty_lua_test(lua_State *L, int i) { return ty_lua_test_in(L, ty_lua_host(L), i); }

Tensor *ty_lua_check(lua_State *L, const char *who, int i) {
  Tensor *t = ty_lua_test(L, i);
  if (TY_LIKELY(t && t->st)) return t;
  if (t) ty_lua_error(L, "%s: tensor was released", who);
  ty_lua_error(L, "%s: argument %d must be a tensor, got %s", who, i, ty_lua_show(L, i));
  return NULL;
}

Given ty_lua_given(lua_State *L, const char *who, int i) {
  int type = lua_type(L, i);
  Tensor *t = type == LUA_TUSERDATA ? ty_lua_test(L, i) : NULL;
  if (TY_LIKELY(t && t->st)) return (Given){.kind = O_TENSOR, .t = t};
  if (type == LUA_TNUMBER) return (Given){.kind = O_NUMBER, .v = lua_tonumber(L, i)};
  if (type == LUA_TBOOLEAN) return (Given){.kind = O_BOOL, .v = lua_toboolean(L, i)};
  if (t) ty_lua_error(L, "%s: tensor was released", who);
  ty_lua_error(L, "%s: argument %d must be a tensor or a number, got %s", who, i,
               ty_lua_show(L, i));
  return (Given){0};
}

Given ty_lua_operand(lua_State *L, const char *who, int i) {
  State *S = ty_lua_state(L);
  Given g = ty_lua_given(L, who, i);
  if (TY_UNLIKELY(S->capture != NULL) && g.kind == O_NUMBER) g.symbol = ty_capture_take(S, i);
  return g;
}

/* Lets Lua's collector work off the debt; see Memory above. */
static void pay_debt(lua_State *L, Host *H) {
  i64 debt = H->S.debt, used = ty_mem_stats().buf_used;
  i64 heap = (i64)lua_gc(L, LUA_GCCOUNT, 0) * 1024;
  i64 growth = TY_MIN(TY_MAX(LIVE_GROWTH, heap * HEAP_SHARE), LIVE_GROWTH_MAX);
  H->S.debt = 0;
  if (H->S.capture) return; /* no finaliser is to run; see lua_capture.c */
  if (!H->cycling && used - H->live < TY_MAX(growth, H->live / 4)) {
    H->live = TY_MIN(H->live, used);
    return;
  }
  if (lua_gc(L, LUA_GCISRUNNING, 0) == 0) return;
  double share = (double)debt / (double)TY_MAX(TY_MAX(CYCLE_BYTES, growth / 3), H->live / 8);
  double size = TY_MIN((double)heap / 1024 * TY_MIN(share, 2.0) + 1, 1 << 30);
  H->cycling = !lua_gc(L, LUA_GCSTEP, (int)size);
  if (!H->cycling) H->live = ty_mem_stats().buf_used;
}

bool ty_lua_reclaim(lua_State *L, State *S) {
  Host *H = (Host *)S;
  if (!S->memory || S->capture || lua_gc(L, LUA_GCISRUNNING, 0) == 0) return false;
  S->memory = false;
  lua_gc(L, LUA_GCCOLLECT, 0);
  ty_buf_trim(0);
  H->cycling = false;
  H->live = ty_mem_stats().buf_used;
  return true;
}

static void scope_forget(Handle *h) {
  if (!h->scope) return;
  *h->prev = h->next;
  if (h->next) h->next->prev = h->prev;
  h->scope = NULL;
}

/* The scope is over, and its tensors live on as others do. */
static void scope_drop(Host *H, Scope *s) {
  while (s->made) scope_forget(s->made);
  Scope **p = &H->scope;
  while (*p && *p != s) p = &(*p)->outer;
  if (*p) *p = s->outer;
}

/* The innermost scope of the coroutine, from s outwards. One whose call an error has ended is over. */
static Scope *scope_of(lua_State *L, Host *H, Scope *s) {
  for (Scope *outer; s; s = outer) {
    outer = s->outer;
    if (s->L != L) continue;
    if (ty_lua_frame_lives(L, &s->frame)) break;
    scope_drop(H, s);
  }
  return s;
}

static void scope_add(Scope *s, Handle *h) {
  if (!s) return;
  h->scope = s;
  h->next = s->made;
  h->prev = &s->made;
  if (s->made) s->made->prev = &h->next;
  s->made = h;
}

Tensor *ty_lua_push(lua_State *L) { return ty_lua_push_in(L, ty_lua_host(L)); }

Tensor *ty_lua_push_in(lua_State *L, Host *H) {
  if (TY_UNLIKELY(H->S.debt >= LOOK_BYTES)) pay_debt(L, H);
  Handle *h = (Handle *)lua_newuserdata(L, sizeof *h);
  h->t.st = NULL;
  h->t.detached = false;
  h->t.origin = 0;
  h->mark = ty_lua_mark(H);
  h->scope = NULL;
  H->handles++;
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setmetatable(L, -2);
  if (TY_UNLIKELY(H->scope)) scope_add(scope_of(L, H, H->scope), h);
  return &h->t;
}

/* --- the end of tensors and States */

static void host_close(Host *H) {
  if (H->closed) return;
  H->closed = true;
  ty_engine_close(&H->S);
}

/* __gc of a tensor. Without its mark a handle is a tensor no longer, whoever still holds it. */
static int tensor_collect(lua_State *L) {
  Host *H = ty_lua_host(L);
  Tensor *t = ty_lua_test_in(L, H, 1);
  if (!t) return 0;
  Handle *h = (Handle *)t;
  h->mark = 0;
  scope_forget(h);
  ty_tensor_release(t);
  H->handles--;
  if (H->closing && !H->handles) host_close(H);
  return 0;
}

static int state_collect(lua_State *L) {
  Host *H = (Host *)lua_touserdata(L, 1);
  H->closing = true;
  if (!H->handles) host_close(H);
  return 0;
}

/* Pushes fn as a closure over the State and the tensors' metatable. */
static void push_function(lua_State *L, lua_CFunction fn) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushcclosure(L, fn, 2);
}

/* --- release and scopes */

#define FRAMES_MAX 1000 /* looked at */

/* Whether the running function stands in the middle of another one of ours, as in a finaliser or a
** metamethod: what that works on must stay. */
static bool inside_ours(lua_State *L, const Host *H) {
  lua_Debug ar;
  /* Lua's collector does not run in finalisers, and counts as stopped there, unless one restarts it. */
  bool may_be_finaliser = lua_gc(L, LUA_GCISRUNNING, 0) != 1;
  for (int level = 1; level < FRAMES_MAX; level++) {
    if (!lua_getstack(L, level, &ar)) return L == H->aside; /* what it interrupts is not seen */
    lua_getinfo(L, "f", &ar);
    lua_CFunction fn = lua_tocfunction(L, -1);
    bool ours = fn && lua_getupvalue(L, -1, 1) && lua_touserdata(L, -1) == H;
    lua_settop(L, 1);
    if (ours) return may_be_finaliser || !ty_lua_is_caller(fn);
  }
  return may_be_finaliser;
}

static int l_release(lua_State *L) {
  Tensor *t = ty_lua_test(L, 1);
  if (!t) ty_lua_check(L, "release", 1);
  lua_settop(L, 1);
  ty_lua_apart(L, ty_lua_host(L));
  if (inside_ours(L, ty_lua_host(L))) return 0;
  scope_forget((Handle *)t);
  ty_tensor_release(t);
  return 0;
}

/* It was given up: its coroutine died. */
static int scope_collect(lua_State *L) {
  scope_drop(ty_lua_host(L), (Scope *)lua_touserdata(L, 1));
  return 0;
}

/* scope_open() -> scope */
static int scope_open(lua_State *L) {
  Host *H = ty_lua_host(L);
  Scope *s = (Scope *)lua_newuserdata(L, sizeof *s);
  *s = (Scope){.L = L};
  lua_createtable(L, 0, 1);
  push_function(L, scope_collect);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  s->frame = ty_lua_frame(L, 1);
  for (Scope *at = H->scope, *outer; at; at = outer) { /* what lay there has ended */
    outer = at->outer;
    if (at->L == L && at->frame.slot >= s->frame.slot) scope_drop(H, at);
  }
  s->outer = H->scope;
  H->scope = s;
  return 1;
}

/* Hands the tensor on top of the stack from scope s to the one around. A table there is listed in
** the table at `seen`, once, to be looked at. */
static void scope_keep(lua_State *L, Scope *s, int seen) {
  Handle *h = (Handle *)ty_lua_test(L, -1);
  if (h && h->scope == s) {
    scope_forget(h);
    scope_add(scope_of(L, ty_lua_host(L), s->outer), h);
  }
  if (!lua_istable(L, -1)) return;
  lua_pushvalue(L, -1);
  lua_rawget(L, seen);
  bool known = !lua_isnil(L, -1);
  lua_pop(L, 1);
  if (known) return;
  lua_pushvalue(L, -1);
  lua_pushboolean(L, true);
  lua_rawset(L, seen);
  lua_pushvalue(L, -1);
  lua_rawseti(L, seen, (int)lua_objlen(L, seen) + 1);
}

/* scope_close(scope, ok, ...): frees what the scope made but ... does not hold, and goes on: gives
** ... or raises the error that is there. Tensors that stay belong to the scope around. */
static int scope_close(lua_State *L) {
  Host *H = ty_lua_host(L);
  const void *given = lua_touserdata(L, 1);
  Scope *s = H->scope;
  int top = lua_gettop(L), seen = top + 1;
  while (s && s != given) s = s->outer;
  if (!s) return ty_lua_error(L, "scope: it is not open");
  luaL_checkstack(L, 8, "scope");
  lua_newtable(L);
  for (int i = 3; i <= top; i++) {
    lua_pushvalue(L, i);
    scope_keep(L, s, seen);
    lua_pop(L, 1);
  }
  for (int k = 1; k <= (int)lua_objlen(L, seen); k++) {
    lua_rawgeti(L, seen, k);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      scope_keep(L, s, seen);
      lua_pushvalue(L, -2);
      scope_keep(L, s, seen);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  for (Handle *h = s->made; h; h = s->made) {
    scope_forget(h);
    ty_tensor_release(&h->t);
  }
  scope_drop(H, s);
  lua_settop(L, top);
  if (lua_toboolean(L, 2)) return top - 2;
  lua_settop(L, 3);
  return lua_error(L);
}

/* --- functions and their documentation */

void ty_lua_register(lua_State *L, const luaL_Reg *fns) {
  for (; fns->name; fns++) {
    push_function(L, fns->func);
    lua_setfield(L, -2, fns->name);
  }
}

void ty_lua_describe(lua_State *L, const char *name, const char *args, const char *help) {
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_HELP);
  lua_pushfstring(L, "%s(%s)\n  %s", name, args, help);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

void ty_lua_define(lua_State *L, int m, int t, const LuaFunction *fns) {
  for (; fns->name; fns++) {
    const char *dot = strrchr(fns->name, '.'); /* "linalg.solve" is solve in the table m */
    push_function(L, fns->fn);
    if (fns->where != 't') {
      lua_pushvalue(L, -1);
      lua_setfield(L, m, dot ? dot + 1 : fns->name);
    }
    if (fns->where != 'm') {
      lua_pushvalue(L, -1);
      lua_setfield(L, t, fns->name);
    }
    lua_pop(L, 1);
    ty_lua_describe(L, fns->name, fns->args, fns->help);
  }
}

/* --- fields of tensors: methods, then properties, then what is near */

static int get_shape(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_createtable(L, t->type.rank, 0);
  for (int d = 0; d < t->type.rank; d++) {
    lua_pushnumber(L, (lua_Number)t->type.dims[d]);
    lua_rawseti(L, -2, d + 1);
  }
  return 1;
}

static int get_dtype(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_pushstring(L, ty_dtypes[t->type.dtype].name);
  return 1;
}

static int get_device(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_pushstring(L, ty_device_names[t->type.device]);
  return 1;
}

static int get_ndim(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  lua_pushinteger(L, t->type.rank);
  return 1;
}

static int get_requires_grad(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  return ty_lua_grad_required(L, t);
}

static int get_grad(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  return ty_lua_grad_get(L, t);
}

static int get_is_leaf(lua_State *L, State *S, const Tensor *t) {
  (void)S;
  return ty_lua_grad_is_leaf(L, t);
}

static const struct Property {
  const char *name;
  int (*get)(lua_State *L, State *S, const Tensor *t);
} properties[] = {
    {"shape", get_shape},     {"dtype", get_dtype}, {"ndim", get_ndim},
    {"device", get_device},   {"grad", get_grad},   {"requires_grad", get_requires_grad},
    {"is_leaf", get_is_leaf},
};

static int unknown_field(lua_State *L, const char *name, int methods) {
  int best = strlen(name) < 4 ? 1 : 2;
  const char *found = ty_lua_nearest(L, name, methods);
  if (found) best = distance(name, found, best);
  for (int i = 0; i < TY_COUNT(properties); i++) nearer(name, properties[i].name, &best, &found);
  if (found)
    return ty_lua_error(L, "tensor: no field \"%.60s\"; did you mean \"%s\"?", name, found);
  return ty_lua_error(L, "tensor: no field \"%.60s\"", name);
}

/* __index; upvalue 3 is the table of methods. */
static int tensor_index(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return ty_lua_index(L);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(3));
  if (!lua_isnil(L, -1)) return 1;
  const char *name = lua_tostring(L, 2);
  for (int i = 0; i < TY_COUNT(properties); i++) {
    if (strcmp(name, properties[i].name)) continue;
    ty_lua_apart(L, ty_lua_host(L));
    return properties[i].get(L, ty_lua_state(L), ty_lua_check(L, name, 1));
  }
  return unknown_field(L, name, lua_upvalueindex(3));
}

static int tensor_newindex(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return ty_lua_newindex(L);
  const char *name = lua_tostring(L, 2);
  if (!strcmp(name, "grad")) return ty_lua_grad_set(L, ty_lua_check(L, name, 1));
  for (int i = 0; i < TY_COUNT(properties); i++)
    if (!strcmp(name, properties[i].name))
      return ty_lua_error(L, "tensor: field \"%s\" cannot be set", name);
  return ty_lua_error(L, "tensor: cannot set the field \"%.60s\", tensors have no fields of users",
                      name);
}

/* --- opening */

/* Called by init.lua: its directory holds chunks that are ours. */
static int core_home(lua_State *L) {
  Host *H = ty_lua_host(L);
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return 0;
  lua_getinfo(L, "S", &ar);
  const char *end = strrchr(ar.source, '/'), *back = strrchr(ar.source, '\\');
  if (!end || (back && back > end)) end = back;
  size_t n = end ? (size_t)(end + 1 - ar.source) : 0;
  if (n == 0 || n >= sizeof H->home) return 0; /* no directory: all chunks count as the user's */
  memcpy(H->home, ar.source, n);
  H->home[n] = 0;
  return 0;
}

/* Lua's own wrappers raise as C functions do: error_(text). */
static int core_error(lua_State *L) { return ty_lua_error(L, "%s", luaL_checkstring(L, 1)); }

/* is_live(v): a tensor that was not released. */
static int core_is_live(lua_State *L) {
  const Tensor *t = ty_lua_test(L, 1);
  lua_pushboolean(L, t && t->st);
  return 1;
}

static int core_nearest(lua_State *L) {
  luaL_checktype(L, 2, LUA_TTABLE);
  const char *found = ty_lua_nearest(L, luaL_checkstring(L, 1), 2);
  if (!found) return 0;
  lua_pushstring(L, found);
  return 1;
}

static int core_describe(lua_State *L) {
  ty_lua_describe(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2), luaL_checkstring(L, 3));
  return 0;
}

/* What the Lua side of the library needs and users do not see. */
static void open_internals(lua_State *L, int m, int t) {
  static const LuaFunction released[] = {
      {"release", l_release, 'b', "x",
       "frees the memory of x at once, unless others share it; x cannot be used afterwards"},
      {NULL, NULL, 0, NULL, NULL}};
  static const luaL_Reg fns[] = {{"home", core_home},          {"error", core_error},
                                 {"nearest", core_nearest},    {"is_live", core_is_live},
                                 {"describe", core_describe},  {"scope_open", scope_open},
                                 {"scope_close", scope_close}, {NULL, NULL}};
  lua_newtable(L);
  ty_lua_register(L, fns);
  lua_pushvalue(L, t);
  lua_setfield(L, -2, "methods");
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setfield(L, -2, "metatable");
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_HELP);
  lua_setfield(L, -2, "help");
  lua_setfield(L, m, "internals");
  ty_lua_define(L, m, t, released);
}

/* Runs as a closure with the two upvalues that every function of ours has. */
static int open_all(lua_State *L) {
  lua_newtable(L);
  lua_newtable(L);
  int m = lua_gettop(L) - 1, t = m + 1;
  open_internals(L, m, t);
  ty_lua_open_ops(L, m, t);
  ty_lua_open_tensor(L, m, t);
  ty_lua_open_view(L, m, t);
  ty_lua_open_print(L, m, t);
  ty_lua_open_select(L, m, t);
  ty_lua_open_random(L, m, t);
  ty_lua_open_linalg(L, m, t);
  ty_lua_open_settings(L, m, t);
  ty_lua_open_compile(L, m, t);
  ty_lua_open_protect(L, m);
  ty_lua_open_session(L, m);
  ty_lua_open_trace(L, m);
  ty_lua_open_custom(L, m);
  ty_lua_open_check(L, m);
  ty_lua_open_graph(L, m);
  ty_lua_open_grad(L, m, t);
  ty_lua_open_modes(L, m);
  ty_lua_open_vmap(L, m);
  ty_lua_open_probe(L, m);
  ty_lua_open_attend(L, m);
  ty_lua_open_profile(L, m);
  ty_lua_open_seam(L);
  lua_pushvalue(L, lua_upvalueindex(2));
  static const struct {
    const char *name;
    lua_CFunction fn;
  } with_methods[] = {{"__index", tensor_index}, {"__newindex", tensor_newindex}};
  for (int i = 0; i < TY_COUNT(with_methods); i++) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushvalue(L, t);
    lua_pushcclosure(L, with_methods[i].fn, 3);
    lua_setfield(L, -2, with_methods[i].name);
  }
  push_function(L, tensor_collect);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "tensor");
  lua_setfield(L, -2, "__metatable");
  lua_pushvalue(L, m);
  return 1;
}

static int note_aside(lua_State *L) {
  ((Host *)lua_touserdata(L, lua_upvalueindex(1)))->aside = L;
  return 0;
}

/* Calls jit.attach(note_aside, event), or without an event to take it back. */
static void attach(lua_State *L, const char *event) {
  lua_pushvalue(L, -2);
  lua_pushvalue(L, -2);
  if (event) lua_pushstring(L, event);
  if (lua_pcall(L, event ? 2 : 1, 0, 0)) lua_pop(L, 1);
}

/* Current LuaJITs run finalisers, and events of theirs, in a thread of its own. Which it is the event tells that a text
** is compiled. Elsewhere that runs in this thread. */
static void find_aside(lua_State *L, Host *H) {
  int top = lua_gettop(L);
  lua_pushliteral(L, "jit");
  lua_rawget(L, LUA_GLOBALSINDEX);
  if (lua_istable(L, -1)) {
    lua_pushliteral(L, "attach");
    lua_rawget(L, -2);
    lua_pushlightuserdata(L, H);
    lua_pushcclosure(L, note_aside, 1);
    attach(L, "bc");
    luaL_loadstring(L, "return");
    lua_pop(L, 1);
    attach(L, NULL);
  }
  lua_settop(L, top);
  if (H->aside == L) H->aside = NULL;
}

/* Pushes the State's userdata, which is made when the universe has none yet. */
static void push_state(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_STATE);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  Host *H = (Host *)lua_newuserdata(L, sizeof *H);
  memset(H, 0, sizeof *H);
  H->S.default_dtype = T_F32;
  H->L = lua_newthread(L);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_THREAD);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_HELP);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_META);
  H->closed = true; /* nothing to close yet */
  lua_newtable(L);
  lua_pushcfunction(L, state_collect);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  if (!ty_engine_open(&H->S)) luaL_error(L, "tycho: %s", H->S.err);
  H->closed = false;
  find_aside(L, H);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_STATE);
}

__attribute__((visibility("default"))) int luaopen_tycho_core(lua_State *L);
int luaopen_tycho_core(lua_State *L) {
  push_state(L);
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_META);
  lua_pushcclosure(L, open_all, 2);
  lua_call(L, 0, 1);
  return 1;
}
