/*
** lua_complex.c -- complex tensors as views of reals, and which functions of Lua's serve them.
** In: a tensor. Out: a tensor that shares its storage; or what a function of lua/tycho/complex.lua gives. Raises where
** the dims or the dtype do not fit.
*/
#include "lua/lua_view.h"
#include "record/capture.h"
#include "record/complex.h"

#define KEY_FUNCTIONS "tycho.complex"

/* complex(functions): what stands for operations whose operands are complex, by name. */
static int set_functions(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_FUNCTIONS);
  return 0;
}

/* The sizes of the operands of a map go together: else errors would tell those of their reals. */
static void check_broadcast(lua_State *L, const char *who, int n, const Given *src) {
  const Type *first = NULL;
  Type t = {0};
  for (int i = 0; i < n; i++) {
    if (src[i].kind != O_TENSOR) continue;
    if (!ty_type_broadcast(&t, &src[i].t->type)) {
      const char *a = ty_lua_view_text(L, first), *b = ty_lua_view_text(L, &src[i].t->type);
      ty_lua_error(L, "%s: sizes do not broadcast, %s and %s", who, a, b);
    }
    first = &src[i].t->type;
  }
}

/* A number of later calls as a tensor, of the dtype of the parts of the complex one. */
static void push_symbol(lua_State *L, State *S, int n, const Given *src, const Given *x) {
  Type t = {.dtype = T_F32};
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR && ty_tensor_is_complex(src[i].t)) {
      t.dtype = (u8)ty_dtype_part(src[i].t->type.dtype);
      t.device = src[i].t->type.device;
    }
  TY_LUA_MUST(L, S, ty_record_number(S, &t, x, ty_lua_push(L)));
}

void ty_lua_complex(lua_State *L, State *S, const char *who, const char *name, int n,
                    const Given *src) {
  const int top = lua_gettop(L);
  const Capture *c = S->capture;
  i32 symbols[SYMBOLS_MAX];
  luaL_checkstack(L, 2 * top + 8, who);
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_FUNCTIONS);
  if (lua_istable(L, -1)) lua_getfield(L, -1, name);
  if (!lua_isfunction(L, -1)) {
    ty_complex_refuse_all(S, who, n, src);
    ty_lua_fail(L, S);
  }
  if (strcmp(name, "matmul") && strcmp(name, "contract")) check_broadcast(L, who, n, src);
  for (int i = 1; i <= top; i++) {
    const bool decides = i == 2 && !strcmp(name, "pow"); /* whole exponents are products */
    if (i > n || src[i - 1].kind == O_TENSOR || !src[i - 1].symbol) lua_pushvalue(L, i);
    else if (decides) {
      ty_capture_untake(S, src[i - 1].symbol);
      lua_pushvalue(L, i);
    } else push_symbol(L, S, n, src, &src[i - 1]);
  }
  if (c) { /* the numbers of this call are none of those in it */
    memcpy(symbols, c->symbol, sizeof symbols);
    memset(S->capture->symbol, 0, sizeof symbols);
  }
  lua_call(L, top, 1);
  if (c && S->capture == c) memcpy(S->capture->symbol, symbols, sizeof symbols);
}

const Tensor *ty_lua_complex_reals(lua_State *L, State *S, const char *who, const Tensor *x) {
  if (TY_LIKELY(!ty_tensor_is_complex(x))) return x;
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_complex_reals(S, who, x, y));
  return y;
}

static int l_view_as_real(lua_State *L) {
  State *S = ty_lua_enter(L);
  const char *who = "view_as_real";
  const Tensor *x = ty_lua_check(L, who, 1);
  if (!ty_tensor_is_complex(x))
    return ty_lua_error(L, "%s: needs a complex tensor, got %s", who,
                        ty_lua_view_text(L, &x->type));
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
      {"real", l_real, 'b', "x",
       "the real parts of complex numbers, a view; x itself if it is real"},
      {"imag", l_imag, 'b', "x",
       "the imaginary parts of complex numbers, a view; 0 where x is real"},
      {"is_complex", l_is_complex, 'b', "x", "whether x is a tensor of complex numbers"},
      {NULL, NULL, 0, NULL, NULL}};
  static const luaL_Reg fns[] = {{"complex", set_functions}, {NULL, NULL}};
  ty_lua_define(L, m, t, rows);
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}
