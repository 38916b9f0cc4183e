/*
** lua_fft.c -- the Fourier transform for lua/tycho/fourier.lua, which has checked what it passes on.
** In: a tensor of f32 or f64, numbers. Out: under `internals`, fft. Raises when out of memory.
*/
#include "lua/lua_lifetime.h"
#include "lua/lua_view.h"
#include "record/complex.h"

/* fft(who, x, dim, kind, norm, n, complex) -> the row FFT (graph.h) along a dim, counted from 1; complex: its pairs as
** numbers, and no handle but theirs keeps their memory */
static int fft(lua_State *L) {
  State *S = ty_lua_enter(L);
  const char *who = luaL_checkstring(L, 1);
  const Tensor *x = ty_lua_check(L, who, 2);
  const int dim = (int)luaL_checkinteger(L, 3) - 1, kind = (int)luaL_checkinteger(L, 4);
  const int norm = (int)luaL_checkinteger(L, 5);
  const i64 n = (i64)luaL_optnumber(L, 6, 0);
  const bool complex = lua_toboolean(L, 7);
  /* ty.fft's functions end in this one: who called them is the caller. */
  Binding *B = (Binding *)S;
  SiteFrame frame;
  const bool large = ty_type_bytes(&x->type) >= B->large;
  const bool known = large && ty_lua_site(L, B, SITE_C, &frame);
  Tensor *y = ty_lua_push_in(L, B);
  if (known) ty_lua_site_made(&frame, (Handle *)y);
  TY_LUA_MUST(L, S, ty_record_fft(S, who, x, dim, kind, norm, n, y));
  if (complex) ty_complex_become(y);
  return 1;
}

void ty_lua_open_fft(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"fft", fft}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
