/*
** lua_args.c -- arguments of Lua functions: numbers, dims, sizes, dtypes, options.
** In: stack positions. Out: plain C values, all checked. Everything raises with the function's
** name, the argument and what was given; nothing is held meanwhile.
** Numbers are taken from numbers only: strings that look like numbers are refused.
*/
#include <math.h>
#include <stdio.h>
#include "lua/lua_tycho.h"

#define WHOLE_MAX 9007199254740992.0 /* 2^53: beyond, doubles skip whole numbers */

double ty_lua_number(lua_State *L, const char *who, int i, const char *what) {
  if (lua_type(L, i) != LUA_TNUMBER)
    ty_lua_error(L, "%s: argument %d (%s) must be a number, got %s", who, i, what,
                 ty_lua_show(L, i));
  return lua_tonumber(L, i);
}

i64 ty_lua_int(lua_State *L, const char *who, int i, const char *what) {
  double v = lua_tonumber(L, i);
  if (lua_type(L, i) != LUA_TNUMBER || floor(v) != v || fabs(v) > WHOLE_MAX)
    ty_lua_error(L, "%s: argument %d (%s) must be a whole number, got %s", who, i, what,
                 ty_lua_show(L, i));
  return (i64)v;
}

int ty_lua_dtype(lua_State *L, const char *who, int i) {
  char known[128] = "";
  int d = lua_type(L, i) == LUA_TSTRING ? ty_dtype_named(lua_tostring(L, i)) : -1;
  if (d >= 0) return d;
  for (int k = 0; k < T_ALL; k++) {
    size_t n = strlen(known);
    snprintf(known + n, sizeof known - n, k ? " %s" : "%s", ty_dtypes[k].name);
  }
  return ty_lua_error(L, "%s: a dtype must be one of %s, got %s", who, known, ty_lua_show(L, i));
}

/* --- dims */

/* " of f32[2,3]" when argument 1 is the tensor whose dims are meant, else "". */
static const char *of_tensor(lua_State *L, int rank) {
  char text[192];
  const Tensor *t = ty_lua_test(L, 1);
  if (!t || t->type.rank != rank) return "";
  ty_type_print(&t->type, text, sizeof text);
  return lua_pushfstring(L, " of %s", text);
}

/* The number on top of the stack as a dim, 0-based. */
static int dim_of(lua_State *L, const char *who, int rank) {
  double v = lua_tonumber(L, -1);
  if (lua_type(L, -1) != LUA_TNUMBER || floor(v) != v) {
    const char *hint = ty_lua_test(L, -1) ? "; maximum and minimum compare two tensors" : "";
    ty_lua_error(L, "%s: a dim must be a whole number, got %s%s", who, ty_lua_show(L, -1), hint);
  }
  if (v >= 1 && v <= rank) return (int)v - 1;
  if (v <= -1 && v >= -rank) return (int)v + rank;
  if (rank == 0) ty_lua_error(L, "%s: dim %.14g is out of range, the tensor has no dims", who, v);
  return ty_lua_error(L, "%s: dim %.14g is out of range 1..%d, or -%d..-1 from the end%s", who, v,
                      rank, rank, of_tensor(L, rank));
}

int ty_lua_dim(lua_State *L, const char *who, int i, int rank, int def) {
  if (lua_isnoneornil(L, i)) {
    if (def < 0) ty_lua_error(L, "%s: argument %d (dim%s) is missing", who, i, of_tensor(L, rank));
    return def;
  }
  lua_pushvalue(L, i);
  int d = dim_of(L, who, rank);
  lua_pop(L, 1);
  return d;
}

u32 ty_lua_dims(lua_State *L, const char *who, int i, int rank) {
  u32 set = 0;
  if (lua_isnoneornil(L, i)) return 0;
  if (!lua_istable(L, i)) return 1u << ty_lua_dim(L, who, i, rank, -1);
  int n = (int)lua_objlen(L, i);
  if (ty_lua_is_options(L, i)) ty_lua_error(L, "%s: dims must be a list of numbers", who);
  if (n == 0) ty_lua_error(L, "%s: an empty list of dims (leave it out for all)", who);
  for (int k = 1; k <= n; k++) {
    lua_rawgeti(L, i, k);
    int d = dim_of(L, who, rank);
    if (set >> d & 1) ty_lua_error(L, "%s: dim %d is given twice", who, d + 1);
    set |= 1u << d;
    lua_pop(L, 1);
  }
  return set;
}

/* --- sizes */

/* Adds the number on top of the stack as a size. */
static void add_size(lua_State *L, const char *who, Type *t) {
  double v = lua_tonumber(L, -1);
  if (lua_type(L, -1) != LUA_TNUMBER || floor(v) != v || v < 0 || v > WHOLE_MAX)
    ty_lua_error(L, "%s: a size must be a whole number from 0, got %s", who, ty_lua_show(L, -1));
  if (t->rank == MAX_RANK) ty_lua_error(L, "%s: at most %d dims", who, MAX_RANK);
  t->dims[t->rank++] = (i64)v;
}

static void check_fits(lua_State *L, const char *who, const Type *t) {
  char text[192];
  if (ty_type_fits(t)) return;
  ty_type_print(t, text, sizeof text);
  ty_lua_error(L, "%s: %s is too large", who, text);
}

/* No rank and no dims; the dtype stays. */
static void clear_dims(Type *t) {
  t->rank = 0;
  memset(t->dims, 0, sizeof t->dims);
}

void ty_lua_shape(lua_State *L, const char *who, int i, Type *t) {
  clear_dims(t);
  if (lua_istable(L, i)) {
    int n = (int)lua_objlen(L, i);
    if (ty_lua_is_options(L, i)) ty_lua_error(L, "%s: sizes are missing", who);
    for (int k = 1; k <= n; k++) {
      lua_rawgeti(L, i, k);
      add_size(L, who, t);
      lua_pop(L, 1);
    }
  } else {
    lua_pushvalue(L, i);
    add_size(L, who, t);
    lua_pop(L, 1);
  }
  check_fits(L, who, t);
}

int ty_lua_sizes(lua_State *L, const char *who, int i, Type *t) {
  int top = lua_gettop(L);
  clear_dims(t);
  if (lua_istable(L, i) && !ty_lua_is_options(L, i)) {
    ty_lua_shape(L, who, i++, t);
  } else {
    for (; i <= top && !lua_istable(L, i); i++) {
      if (lua_isnil(L, i) && i == top) break;
      lua_pushvalue(L, i);
      add_size(L, who, t);
      lua_pop(L, 1);
    }
    check_fits(L, who, t);
  }
  if (lua_isnoneornil(L, i)) return 0;
  if (i < top || !lua_istable(L, i))
    ty_lua_error(L, "%s: argument %d must be a table of options, got %s", who, i,
                 ty_lua_show(L, i));
  return i;
}

/* --- options */

bool ty_lua_is_options(lua_State *L, int i) {
  if (!lua_istable(L, i)) return false;
  lua_pushvalue(L, i);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) continue;
    lua_pop(L, 3);
    return true;
  }
  lua_pop(L, 1);
  return false;
}

/* Whether name is one of the words. */
static bool is_word(const char *words, const char *name) {
  size_t n = strlen(name);
  for (const char *p = words; n && (p = strstr(p, name)); p += n)
    if ((p == words || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return true;
  return false;
}

int ty_lua_device(lua_State *L, const char *name) {
  const char *given = name;
  if (!strcmp(name, "cuda:0")) name = "cuda";
  int d = ty_device_find(name);
  if (d >= 0) return d;
  lua_pushfstring(L, "device \"%s\" is not available", given);
  if (!strcmp(name, "cuda") || !strncmp(name, "cuda:", 5)) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, ty_lua_binding(L)->opener);
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
    if ((d = ty_device_find(name)) >= 0) {
      lua_pop(L, 2);
      return d;
    }
    lua_pushliteral(L, ": ");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
  return -1;
}

/* opener(fn): fn(name) opens the device that was named; why it cannot, or nil */
static int set_opener(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  ty_lua_binding(L)->opener = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

void ty_lua_open_args(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"opener", set_opener}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  ty_lua_register(L, fns);
  lua_pop(L, 1);
}

/* The value on top of the stack as a device; there is one. */
static u8 check_device(lua_State *L, const char *who) {
  if (lua_type(L, -1) != LUA_TSTRING)
    ty_lua_error(L, "%s: device must be a name such as \"cpu\", got %s", who, ty_lua_show(L, -1));
  const int d = ty_lua_device(L, lua_tostring(L, -1));
  if (d < 0) ty_lua_error(L, "%s: %s", who, lua_tostring(L, -1));
  return (u8)d;
}

void ty_lua_options(lua_State *L, const char *who, int opts, Type *t, const char *known) {
  Binding *B = ty_lua_binding(L);
  B->leaf = false;
  if (opts == 0 || lua_isnoneornil(L, opts)) return;
  if (!lua_istable(L, opts))
    ty_lua_error(L, "%s: argument %d must be a table of options, got %s", who, opts,
                 ty_lua_show(L, opts));
  for (lua_pushnil(L); lua_next(L, opts); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    if (!name || !is_word(known, name))
      ty_lua_error(L, "%s: unknown option %s; known: %s", who, ty_lua_show(L, -2), known);
    if (!strcmp(name, "dtype")) t->dtype = (u8)ty_lua_dtype(L, who, lua_gettop(L));
    else if (!strcmp(name, "device")) t->device = check_device(L, who);
    else if (lua_isboolean(L, -1)) B->leaf = lua_toboolean(L, -1);
    else
      ty_lua_error(L, "%s: requires_grad must be true or false, got %s", who, ty_lua_show(L, -1));
  }
  check_fits(L, who, t);
}
