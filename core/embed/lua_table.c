/*
** lua_table.c -- Lua's C API as a table of pointers, which is filled at run time.
** In: a process that may or may not have LuaJIT linked. Out: functions ty_host_lua_* that jump through the table. Fails
** where a function is missing: a sentence says which and what to do.
**
** Why a table. core.so leaves Lua's functions undefined, and its host has them. A program that is built by
** `cc main.c -ltycho` has none, and must link all the same, against the static library too; and a host whose LuaJIT is
** linked into it without -Wl,-E has them where no dynamic linker looks. So the objects of core.so, which are linked here
** as they are, have their references to lua_X renamed to ty_host_lua_X (objcopy --redefine-syms), which this file defines
** for every X in lua_names.h. One jump more a call: they are tail calls without a frame of their own, so errors that
** LuaJIT throws pass by. The real names occur here alone, as weak references:
**   1. linked: the static linker or the loader resolves them, from the program (exported or, for libtycho.a, not), from
**      a LuaJIT that it is linked with, or from the plugin that libtycho.so was loaded with;
**   2. loaded: a LuaJIT that shows its functions to the process, by RTLD_GLOBAL, or on Windows any that is loaded;
**   3. libluajit-5.1.so.2 or lua51.dll is opened, where the library may make a Lua state of its own.
** Dropped: opening LuaJIT RTLD_GLOBAL before a second shared object with the engine in it is loaded. It cannot be
** linked statically, and shows LuaJIT's names to everybody in the process, who may have another Lua.
** A Lua that has not all of them (PUC Lua 5.1 lacks luaJIT_setmode, 5.2 and later lua_getfenv) is refused: its states
** would be taken for LuaJIT's.
*/
#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>
#include <lualib.h>
#include <stdarg.h>
#include <stdio.h>
#include "base/system.h"
#include "embed/lua_names.h"
#include "embed/lua_table.h"

#define WEAK(result, name, parameters, arguments, back) \
  extern __typeof__(name) name __attribute__((weak));
TY_LUA_NAMES(WEAK)
#undef WEAK

typedef struct LuaTable {
#define FIELD(result, name, parameters, arguments, back) __typeof__(name) *name;
  TY_LUA_NAMES(FIELD)
#undef FIELD
} LuaTable;

static LuaTable table;
static const char *found; /* where; NULL: nowhere yet */
static bool opened_here;  /* by dlopen */
static Lock finding = LOCK_INIT;

#define JUMP(result, name, parameters, arguments, back) \
  result ty_host_##name parameters; \
  result ty_host_##name parameters { back table.name arguments; }
TY_LUA_NAMES(JUMP)
#undef JUMP

const char *ty_host_lua_pushfstring(lua_State *L, const char *fmt, ...);
const char *ty_host_lua_pushfstring(lua_State *L, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *s = table.lua_pushvfstring(L, fmt, ap);
  va_end(ap);
  return s;
}

int ty_host_luaL_error(lua_State *L, const char *fmt, ...);
int ty_host_luaL_error(lua_State *L, const char *fmt, ...) {
  va_list ap;
  table.luaL_where(L, 1);
  va_start(ap, fmt);
  table.lua_pushvfstring(L, fmt, ap);
  va_end(ap);
  table.lua_concat(L, 2);
  return table.lua_error(L);
}

/* How LuaJIT's library is called, how the user gets it, and how a program shows its own. */
#ifdef _WIN32
#define LIBRARIES "lua51.dll"
#define TO_GET "is neither beside the program nor on PATH"
#define TO_SHOW "link it with lua51.dll, or export them from the program (-Wl,--export-all-symbols)"
#else
#define LIBRARIES "libluajit-5.1.so.2", "libluajit-5.1.so"
#define TO_GET "is not installed (Debian: apt-get install libluajit-5.1-2)"
#define TO_SHOW "link the program with -Wl,-E, or with libtycho.a"
#endif
static const char *const libraries[] = {LIBRARIES, NULL};

/* The first name that is missing, or NULL. */
static const char *missing(const LuaTable *t) {
#define ASK(result, name, parameters, arguments, back) \
  if (!t->name) return #name;
  TY_LUA_NAMES(ASK)
#undef ASK
  return NULL;
}

static LuaTable linked(void) {
  return (LuaTable){
#define TAKE(result, name, parameters, arguments, back) .name = name,
      TY_LUA_NAMES(TAKE)
#undef TAKE
  };
}

static LuaTable of_library(void *library) {
  LuaTable t;
  void *p;
#define TAKE(result, name, parameters, arguments, back) \
  p = ty_library_symbol(library, #name); \
  memcpy(&t.name, &p, sizeof p);
  TY_LUA_NAMES(TAKE)
#undef TAKE
  return t;
}

/* Of what shows LuaJIT's functions, else of another Lua. */
static LuaTable loaded(void) {
  void *library;
  if (ty_library_with("luaJIT_setmode", &library) || ty_library_with("lua_pushvalue", &library))
    return of_library(library);
  return (LuaTable){0};
}

static bool take(const LuaTable *t, const char *where) {
  if (missing(t)) return false;
  table = *t;
  found = where;
  return true;
}

/* What a process without LuaJIT has: nothing, another Lua, or a part of LuaJIT. */
static void say_missing(const LuaTable *t, bool opened, char *why, size_t n) {
  if (t->lua_pushvalue && !t->luaJIT_setmode)
    snprintf(why, n,
             "the Lua of this program is not LuaJIT (it has no luaJIT_setmode): Tycho needs LuaJIT "
             "2.1; link the program with -lluajit-5.1 instead");
  else if (t->lua_pushvalue)
    snprintf(why, n, "the LuaJIT of this program lacks %s: Tycho needs LuaJIT 2.1, all of it",
             missing(t));
  else if (opened)
    snprintf(why, n, "no LuaJIT: the program has none linked, and %s " TO_GET, libraries[0]);
  else snprintf(why, n, "the functions of this program's LuaJIT cannot be seen: " TO_SHOW);
}

static void *open_one(const char *name) {
  return ty_library_open((const char *const[]){name, NULL});
}

static void *open_usual(const char **name) {
  void *opened = NULL;
  for (int i = 0; libraries[i] && !opened; i++) opened = open_one(*name = libraries[i]);
  return opened;
}

static bool find(const char *library, bool of_host, char *why, size_t n) {
  static char name[256];
  const LuaTable here = linked(), shown = loaded();
  if (found && of_host && opened_here) {
    snprintf(why, n,
             "a LuaJIT was opened for engines without a state of the host's: a state of another "
             "LuaJIT cannot be used beside it");
    return false;
  }
  if (found || take(&here, "linked") || take(&shown, "loaded")) return true;
  if (!library || here.lua_pushvalue || shown.lua_pushvalue) {
    say_missing(here.lua_pushvalue ? &here : &shown, library != NULL, why, n);
    return false;
  }
  const char *asked = library;
  void *opened = *library ? open_one(library) : open_usual(&asked);
  if (!opened && *library) snprintf(why, n, "%.200s: cannot be opened as a library", library);
  else if (!opened) say_missing(&shown, true, why, n);
  if (!opened) return false;
  const LuaTable its = of_library(opened);
  snprintf(name, sizeof name, "%.200s, opened at run time", asked);
  if (take(&its, name)) return opened_here = true;
  say_missing(&its, true, why, n);
  ty_library_close(opened);
  return false;
}

bool ty_lua_find(const char *library, bool of_host, char *why, size_t n) {
  ty_lock(&finding);
  const bool ok = find(library, of_host, why, n);
  ty_unlock(&finding);
  return ok;
}

const char *ty_lua_found(void) { return found ? found : "none"; }
