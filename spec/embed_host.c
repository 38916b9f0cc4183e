/*
** embed_host.c -- a program with a Lua of its own, in which an engine is opened.
** In: nothing, or "path" to say which library is to be opened. Out: what ty_open gives, and, where it opens, which LuaJIT
** runs, a sum by the host's own `require "tycho"`, and one by a model.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <tycho.h>

int main(void) {
  lua_State *L = luaL_newstate();
  const ty_options options = {.lua = L};
  const ty_source source = {.text = "return function(x) return x:sum() end"};
  const float x[3] = {1, 2, 3};
  const ty_array in = ty_vector(TY_F32, x, 3);
  const char *text = "";
  ty_engine *engine, *second;
  ty_model *model;
  ty_array y;
  ty_status s = ty_open(&options, &engine);
  printf("%s: %s\n", ty_status_name(s), ty_error()); /* no libraries are open */
  luaL_openlibs(L);
  s = ty_open(&options, &engine);
  if (s) {
    printf("%s: %s\n", ty_status_name(s), ty_error());
    lua_close(L);
    return 1;
  }
  s = ty_open(&options, &second);
  printf("%s: %s\n", ty_status_name(s), ty_error());
  for (int turn = 0; turn < 2; turn++) {
    if (ty_luajit(engine, &text) || ty_load_source(engine, &source, &model) ||
        ty_call(model, &in, 1) || ty_result(model, 0, &y))
      return printf("failed: %s\n", ty_error()), 1;
    printf("%s\n", text);
    if (luaL_dostring(L, "local ty = require 'tycho' local f = jit.compile(function(x) return (x + "
                         "1):sum() end) "
                         "f(ty.ones(2)) return f(ty.ones(2)):item()"))
      return printf("failed: %s\n", lua_tostring(L, -1)), 1;
    printf("%g %g top %d\n", lua_tonumber(L, -1), (double)*(const float *)y.data, lua_gettop(L));
    lua_settop(L, 0);
    if (ty_close(engine) || ty_open(&options, &engine))
      return printf("failed: %s\n", ty_error()), 1;
  }
  ty_close(engine);
  lua_close(L);
  return 0;
}
