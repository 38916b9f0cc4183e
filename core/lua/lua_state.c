/*
** lua_state.c -- what every function of the binding stands on: errors at the user's file:line, tensors and numbers
** among its arguments, documented functions.
** In: the Lua stack; upvalue 1 of each function is the Binding, upvalue 2 the tensors' metatable. Out: values, or
** functions in tables. Fails by Lua errors, raised when nothing is half built.
*/
#include <stdarg.h>
#include <stdio.h>
#include "base/system.h"
#include "base/text.h"
#include "ir/site.h"
#include "record/capture.h"
#include "lua/lua_tycho.h"

/* --- errors */

/* Whether a chunk is one of ours (also generated ones, named "=(tycho)"): its errors are reported
** where the user called it. */
bool ty_lua_is_ours(const Binding *B, const char *source) {
  const size_t n = strlen(B->home);
  return (n && !strncmp(source, B->home, n) && (source[n] == '/' || source[n] == '\\')) ||
         !strncmp(source, "=(tycho)", 8);
}

void ty_lua_line(lua_State *L, const Binding *B, char *text, size_t n) {
  lua_Debug ar;
  *text = 0;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (*ar.what == 'C' || ty_lua_is_ours(B, ar.source)) continue;
    if (ar.currentline > 0) snprintf(text, n, "%s:%d", ar.short_src, ar.currentline);
    return; /* stripped: it has no lines */
  }
}

void ty_lua_place(lua_State *L, Binding *B) {
  char text[512];
  lua_Debug ar;
  if (B->S.capture) return;
  B->S.site = 0;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (*ar.what == 'C' || ty_lua_is_ours(B, ar.source)) continue;
    const char *file = *ar.source == '@' ? ar.source + 1 : ar.short_src;
    if (ar.currentline <= 0) return;
    snprintf(text, sizeof text, "%s:%d", file, ar.currentline);
    B->S.site = ty_site("", text);
    return;
  }
}

static int raise_text(lua_State *L, Binding *B, const char *text) {
  char where[LUA_IDSIZE + 16];
  ty_lua_line(L, B, where, sizeof where);
  if (B->locate && B->locate(L, B, where, text)) return lua_error(L);
  lua_pushfstring(L, *where ? "%s: %s" : "%s%s", where, text);
  return lua_error(L);
}

int ty_lua_fail(lua_State *L, State *S) {
  if (TY_UNLIKELY(S->stopped)) ty_lua_interrupt(L, (Binding *)S);
  S->owed = false;
  return raise_text(L, (Binding *)S, S->err);
}

int ty_lua_error(lua_State *L, const char *fmt, ...) {
  char text[ERR_MAX];
  va_list ap;
  va_start(ap, fmt);
  ty_system_vformat(text, sizeof text, fmt, ap);
  va_end(ap);
  return raise_text(L, ty_lua_binding(L), text);
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

const char *ty_lua_nearest(lua_State *L, const char *name, int t) {
  const char *found = NULL;
  int best = ty_text_edits(name);
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING) ty_text_nearer(name, lua_tostring(L, -2), &best, &found);
  return found;
}

/* --- tensors on the stack */

Tensor *ty_lua_test(lua_State *L, int i) { return ty_lua_test_in(L, ty_lua_binding(L), i); }

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

/* --- functions and their documentation */

void ty_lua_push_function(lua_State *L, lua_CFunction fn) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushcclosure(L, fn, 2);
}

void ty_lua_register(lua_State *L, const luaL_Reg *fns) {
  for (; fns->name; fns++) {
    ty_lua_push_function(L, fns->func);
    lua_setfield(L, -2, fns->name);
  }
}

void ty_lua_describe(lua_State *L, const char *name, const char *args, const char *help) {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_HELP);
  lua_pushfstring(L, "%s(%s)\n  %s", name, args, help);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

void ty_lua_define(lua_State *L, int m, int t, const LuaFunction *fns) {
  for (; fns->name; fns++) {
    const char *dot = strrchr(fns->name, '.'); /* "linalg.solve" is solve in the table m */
    ty_lua_push_function(L, fns->fn);
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
