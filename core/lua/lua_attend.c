/*
** lua_attend.c -- attention for lua/tycho/attention.lua, which has checked what it passes on.
** In: tensors, numbers. Out: under `internals`, attend and, for sources of graphs, attend_node. Raises when out of
** memory.
*/
#include "lua/lua_view.h"

static const Tensor *tensor_or_nil(lua_State *L, const char *who, int i) {
  return lua_isnoneornil(L, i) ? NULL : ty_lua_check(L, who, i);
}

/* attend(q, k, v, mask, key, causal, scale, drop) -> softmax(scale q k^t + mask) v, of half floats f32 */
static int attend(lua_State *L) {
  const char *who = "scaled_dot_product_attention";
  const Tensor *x[5];
  State *S = ty_lua_enter(L);
  for (int i = 0; i < 5; i++)
    x[i] = i < 3 ? ty_lua_check(L, who, i + 1) : tensor_or_nil(L, who, i + 1);
  Attention how = {.causal = lua_toboolean(L, 6),
                   .scale = luaL_checknumber(L, 7),
                   .drop = luaL_optnumber(L, 8, 0)};
  const int dtype = x[0]->type.dtype;
  how.fast = x[0]->type.device && ty_attend_dtype(dtype) == T_F32 &&
             (dtype == T_F32 ? S->reduced == REDUCED_TF32 : ty_reduces_halves(S));
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_attention(S, who, x, &how, y));
  return 1;
}

/* attend_node(elements, causal, drop, scale, q, k, v, mask, key[, result, gradient]) -> the result of the row, flat.
** Operands have the types that a graph wants. */
static int attend_node(lua_State *L) {
  enum { FIRST = 5 };
  const char *who = "attend";
  const int n = lua_gettop(L) - FIRST + 1, op = n > 5 ? OP_ATTEND_GRAD : OP_ATTEND;
  const Tensor *x[MAX_SRC];
  Type as[MAX_SRC];
  Arg arg;
  State *S = ty_lua_enter(L);
  for (int i = 0; i < ty_ops[op].arity; i++) {
    const Tensor *t = ty_lua_check(L, who, FIRST + i);
    as[i] = t->type;
    x[i] = t->type.rank ? t : NULL;
  }
  memset(&arg, 0, sizeof arg);
  arg.k = lua_isnumber(L, 2) ? (i32)lua_tonumber(L, 2) : lua_toboolean(L, 2); /* ATTEND_* */
  arg.k2 = (i32)luaL_checknumber(L, 3);
  ty_elem_store(ty_attend_dtype(as[0].dtype), &arg.bits, luaL_checknumber(L, 4));
  const i64 numel = (i64)luaL_checknumber(L, 1);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_attend(S, who, op, x, as, &arg, numel, y));
  return 1;
}

void ty_lua_open_attend(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"attend", attend}, {"attend_node", attend_node}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
