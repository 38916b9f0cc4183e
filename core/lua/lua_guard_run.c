/*
** lua_guard_run.c -- runs guard programs.
** In: a trace, the stack with the slots that instructions are about. Out: numbers, tensors from outside, and which guard
** fails. Raises what functions raise that numbers are computed by.
**
** One loop runs the program; each instruction is one call or two of Lua's API.
*/
#include <math.h>
#include "record/grad.h"
#include "lua/lua_guard.h"
#include "lua/lua_protect.h"

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

bool ty_guard_same_code(lua_State *L, int slot, const Dump *want) {
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

/* Whether the value at index i is what a guard of a tensor wants; notes it. */
static inline bool is_tensor(lua_State *L, const Binding *B, int i, const Guard *g,
                             const Tensor **outside) {
  const Tensor *t = ty_lua_test_in(L, B, i); /* nothing but a userdata of ours is one */
  if (TY_UNLIKELY(!t || !ty_guard_tensor(t, g->tensor))) return false;
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

static bool push_hooks(lua_State *L, const Binding *B, int i) {
  const Tensor *t = ty_lua_test_in(L, B, i);
  if (t) ty_lua_push_hooks(L, t);
  return t != NULL;
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

/* Whether it is a key that LuaJIT's lists may have. */
static bool is_key(double v) { return fabs(v) <= KEY_MOST && floor(v) == v; }

/* Whether the positions among the table's keys are those from 1 to its length, which are few. */
static bool is_list(lua_State *L, int t) {
  const size_t n = lua_objlen(L, t);
  size_t positions = 0;
  if (n > LIST_MOST) return false;
  t = t < 0 ? lua_gettop(L) : t;
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) {
    const double k = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
    if (!(k >= 1 && floor(k) == k)) continue;
    positions++;
    if (k <= (double)n) continue;
    lua_pop(L, 2);
    return false;
  }
  return positions == n;
}

void ty_lua_push_loaded(lua_State *L) {
  lua_pushliteral(L, "_LOADED");
  lua_rawget(L, LUA_REGISTRYINDEX);
}

i32 ty_guards_check(lua_State *L, const Binding *B, const Trace *T, i32 from, i32 to,
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
    case G_AT:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      lua_rawgeti(L, g->a, is_key(number[g->b]) ? (int)number[g->b] : 0);
      NEED_ASKED;
      break;
    case G_GRAD: NEED(push_gradient(L, B, g->a, g->b)); break;
    case G_NO_GRAD: NEED(has_no_gradient(L, B, g->a)); break;
    case G_HOOKS: NEED(push_hooks(L, B, g->a)); break;
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
    case G_LIST:
      NEED_TYPE(LUA_TTABLE);
      NEED(is_list(L, g->a));
      break;
    case G_KEYS: NEED(same_keys(L, g, anchors)); break;
    case G_TENSOR: NEED(is_tensor(L, B, g->a, g, outside)); break;
    case G_CLOSURE: NEED(ty_guard_same_code(L, g->a, g->dump)); break;
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
    case G_ENTRIES:
      if (g->doubt) NEED_TYPE(LUA_TTABLE);
      *y++ = (double)lua_objlen(L, g->a);
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
    case G_KEY: NEED(is_key(number[g->a]) == g->want); break;
    case G_COUNT: break;
    }
  }
  return to;
#undef NEED
#undef NEED_TYPE
#undef NEED_ASKED
}

bool ty_guards_fit(State *S, const Trace *T, const Instance *I, const double *number,
                   const Tensor *const *outside) {
  for (i32 i = 0; i < T->nbounds; i++)
    if (!same_bits(number[T->bound[i].number], I->size[T->bound[i].size])) return false;
  /* the only one says itself why it cannot run */
  return ty_instance_fits(I, outside) && (T->ninstance == 1 || ty_instance_shares(S, I, outside));
}
