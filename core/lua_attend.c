/*
** lua_attend.c -- attention for lua/tycho/attention.lua, which has checked what it passes on.
** In: tensors, numbers. Out: under `internals`, attend and attend_node. Raises for want of memory.
*/
#include "lua_view.h"

static const Tensor *tensor_or_nil(lua_State *L, const char *who, int i) {
  return lua_isnoneornil(L, i) ? NULL : ty_lua_check(L, who, i);
}

/* attend(q, k, v, mask, key, causal, scale, drop) -> softmax(scale q k^t + mask) v */
static int attend(lua_State *L) {
  const char *who = "scaled_dot_product_attention";
  const Tensor *x[5];
  State *S = ty_lua_enter(L);
  for (int i = 0; i < 5; i++)
    x[i] = i < 3 ? ty_lua_check(L, who, i + 1) : tensor_or_nil(L, who, i + 1);
  Attention how = {lua_toboolean(L, 6), luaL_checknumber(L, 7), luaL_optnumber(L, 8, 0)};
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_attention(S, who, x, &how, y));
  return 1;
}

void ty_lua_open_attend(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"attend", attend}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
