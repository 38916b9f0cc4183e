/*
** lua_complex.c -- complex tensors as views of reals, and which functions of Lua's serve them.
** In: a tensor. Out: a tensor that shares its storage; or what a function of lua/tycho/complex.lua gives. Raises where
** the dims or the dtype do not fit.
*/
#include "lua/lua_view.h"
#include "record/capture.h"
#include "record/complex.h"

static int l_view_as_real(lua_State *L) {
  State *S = ty_lua_enter(L);
  const char *who = "view_as_real";
  const Tensor *x = ty_lua_check(L, who, 1);
  if (!ty_tensor_is_complex(x))
    return ty_lua_error(L, "%s: needs a complex tensor, got %s", who, ty_lua_view_text(L, &x->type));
  TY_LUA_MUST(L, S, ty_complex_reals(S, who, x, ty_lua_push(L)));
  return 1;
}

static int l_view_as_complex(lua_State *L) {
  State *S = ty_lua_enter(L);
  const char *who = "view_as_complex";
  const Tensor *x = ty_lua_check(L, who, 1);
  TY_LUA_MUST(L, S, ty_complex_pairs(S, who, x, ty_lua_push(L)));
  return 1;
}

static int l_real(lua_State *L) {
  ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "real", 1);
  if (ty_tensor_is_complex(x)) ty_complex_part(x, 0, ty_lua_push(L));
  else lua_settop(L, 1);
  return 1;
}

static int l_imag(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "imag", 1);
  Tensor *y = ty_lua_push(L);
  if (ty_tensor_is_complex(x)) ty_complex_part(x, 1, y);
  else TY_LUA_MUST(L, S, ty_record_full(S, &x->type, 0, y));
  return 1;
}

static int l_is_complex(lua_State *L) {
  const Tensor *x = ty_lua_test(L, 1);
  lua_pushboolean(L, x && x->st && ty_tensor_is_complex(x));
  return 1;
}

void ty_lua_open_complex(lua_State *L, int m, int t) {
  static const LuaFunction rows[] = {
      {"view_as_real", l_view_as_real, 'b', "x",
       "a view of complex numbers as f32 or f64 [..., 2], the real and the imaginary part"},
      {"view_as_complex", l_view_as_complex, 'b', "x",
       "a view of f32 or f64 [..., 2] as complex numbers; the pairs must lie side by side"},
      {"real", l_real, 'b', "x", "the real parts of complex numbers, a view; x itself if it is real"},
      {"imag", l_imag, 'b', "x", "the imaginary parts of complex numbers, a view; 0 where x is real"},
      {"is_complex", l_is_complex, 'b', "x", "whether x is a tensor of complex numbers"},
      {NULL, NULL, 0, NULL, NULL}};
  ty_lua_define(L, m, t, rows);
}
