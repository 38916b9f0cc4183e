/*
** open.c -- engines of the C API: a Lua state is found or made, and the library opened in it.
** In: options. Out: an engine's handle. Fails where there is no LuaJIT, the host's state lacks what the library needs, or
** memory runs out; what was done then is undone, but for modules that a host's state has loaded.
**
** Every call of Lua's API that may raise is made below lua_cpcall or lua_pcall: else LuaJIT ends the process.
*/
#include <luajit.h>
#include <lualib.h>
#include <stdio.h>
#include "base/system.h"
#include "embed/lua_table.h"
#include "embed/model.h"
#include "embed/modules.h"
#include "lua/lua_seam.h"

int luaopen_tycho_core(lua_State *L);
int luaopen_tycho_files(lua_State *L);
#ifndef _WIN32
int luaopen_tycho_cuda(lua_State *L);
#endif

/* --- modules that lie in the library */

/* As an entry of package.loaders. */
static int find_module(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  int low = 0, high = ty_modules_count;
  while (low < high) {
    const int mid = (low + high) / 2, order = strcmp(ty_modules[mid].name, name);
    const EmbeddedModule *m = &ty_modules[mid];
    if (!order) {
      const int status = luaL_loadbuffer(L, m->text, m->n, m->chunk);
      /* LuaJIT loses the message of a parser that memory ran out for: something of the parser's stands there. */
      if (status == LUA_ERRMEM) lua_pushliteral(L, "not enough memory");
      if (status) lua_error(L);
      return 1;
    }
    if (order < 0) low = mid + 1;
    else high = mid;
  }
  lua_pushfstring(L, "\n\tno module '%s' in libtycho", name);
  return 1;
}

/* Puts it behind package.preload, so that files on the path are not asked for. */
static void add_loader(lua_State *L, int package) {
  lua_getfield(L, package, "loaders");
  if (!lua_istable(L, -1)) luaL_error(L, "the Lua state has no package.loaders");
  for (int i = (int)lua_objlen(L, -1); i >= 2; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, find_module);
  lua_rawseti(L, -2, 2);
  lua_getfield(L, package, "preload");
  if (!lua_istable(L, -1)) luaL_error(L, "the Lua state has no package.preload");
  lua_pushcfunction(L, luaopen_tycho_core);
  lua_setfield(L, -2, "tycho.core");
  lua_pushcfunction(L, luaopen_tycho_files);
  lua_setfield(L, -2, "tycho.files.native");
#ifndef _WIN32 /* CUDA devices are Linux' */
  lua_pushcfunction(L, luaopen_tycho_cuda);
  lua_setfield(L, -2, "tycho.cuda.native");
#endif
  ty_system_quiet = true; /* no function prints */
  lua_pop(L, 2);
}

/* --- opening */

typedef struct Opening {
  Universe *U;
  lua_State *host;    /* NULL: the state is ours */
  const char *device; /* NULL: the CPU */
} Opening;

static void need_libraries(lua_State *L) {
  static const char *const names[] = {"package", "require", "table", "string", "math", "debug"};
  for (int i = 0; i < TY_COUNT(names); i++) {
    lua_getfield(L, LUA_GLOBALSINDEX, names[i]);
    if (lua_isnil(L, -1))
      luaL_error(L, "the Lua state has no `%s`: open its libraries by luaL_openlibs", names[i]);
    lua_pop(L, 1);
  }
}

/* The Lua state is one that we may open: false where it has been opened before. */
static bool is_fresh(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_UNIVERSE);
  const bool known = !lua_isnil(L, -1), open = lua_toboolean(L, -1);
  if (open) luaL_error(L, "an engine is open in this Lua state; close it before");
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_STATE);
  if (!known && !lua_isnil(L, -1))
    luaL_error(L, "this Lua state has loaded Tycho by `require` from elsewhere: open the engine "
                  "first, `require \"tycho\"` then gives the one in it");
  lua_pop(L, 2);
  return !known;
}

static void mark_open(lua_State *L, Universe *U) {
  if (U) lua_pushlightuserdata(L, U);
  else lua_pushboolean(L, false);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_UNIVERSE);
}

/* jit.log(text) */
static int log_line(lua_State *L) {
  const Universe *U = lua_touserdata(L, lua_upvalueindex(3));
  const char *text = luaL_checkstring(L, 1);
  if (U->log) U->log(U->log_ctx, text);
  return 0;
}

/* Lines for users go to the host, or nowhere: not to stderr. */
static void set_log(lua_State *L, Universe *U, bool open) {
  lua_getfield(L, LUA_GLOBALSINDEX, "jit");
  if (lua_istable(L, -1)) {
    if (open && U->log) ty_embed_push_function(L, log_line, U);
    else lua_pushboolean(L, false);
    lua_setfield(L, -2, "log");
  }
  lua_pop(L, 1);
}

static void note_version(lua_State *L, Universe *U) {
  lua_getfield(L, LUA_GLOBALSINDEX, "jit");
  if (lua_istable(L, -1)) lua_getfield(L, -1, "version");
  else lua_pushnil(L);
  const char *version = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : LUAJIT_VERSION;
  snprintf(U->luajit, sizeof U->luajit, "%s (%s)", version, ty_lua_found());
  lua_pop(L, 2);
}

/* Those that LuaJIT opens when they are asked for, too. */
static void open_libraries(lua_State *L, Universe *U) {
  luaL_openlibs(L);
  lua_getfield(L, LUA_GLOBALSINDEX, "require");
  lua_pushliteral(L, "ffi");
  if (lua_pcall(L, 1, 0, 0)) lua_pop(L, 1); /* there is none in this LuaJIT */
  if (!ty_embed_opened(U->memory)) luaL_error(L, "out of memory");
}

static int open_in(lua_State *L) {
  Opening *o = lua_touserdata(L, 1);
  Universe *U = o->U;
  if (!o->host) open_libraries(L, U);
  need_libraries(L);
  const bool fresh = is_fresh(L);
  lua_getfield(L, LUA_GLOBALSINDEX, "package");
  if (fresh) {
    add_loader(L, lua_gettop(L));
    mark_open(L, NULL);
  }
  lua_getfield(L, LUA_GLOBALSINDEX, "require");
  lua_pushliteral(L, "tycho");
  lua_call(L, 1, 0);
  lua_getfield(L, LUA_GLOBALSINDEX, "require");
  lua_pushliteral(L, "tycho.embed");
  lua_call(L, 1, 1);
  ty_embed_push_function(L, ty_embed_share, NULL);
  lua_setfield(L, -2, "share");
  U->lua = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_STATE);
  U->B = lua_touserdata(L, -1);
  set_log(L, U, true);
  note_version(L, U);
  lua_State *own = lua_newthread(L);
  U->anchor = luaL_ref(L, LUA_REGISTRYINDEX);
  mark_open(L, U);
  U->B->watch = ty_embed_watch, U->B->watch_ctx = U;
  U->L = own;
  if (o->device) {
    ty_embed_push_lua(L, U, "device");
    lua_pushstring(L, o->device);
    lua_call(L, 1, 0);
  }
  return 0;
}

static ty_status open_universe(const ty_options *options, Universe *U) {
  Opening o = {U, options->lua, options->device};
  char why[400];
  const char *library = options->luajit ? options->luajit : options->lua ? NULL : "";
  if (!ty_lua_find(library, options->lua != NULL && !options->luajit, why, sizeof why))
    return ty_failed(TY_NO_LUAJIT, "ty_open: %s", why);
  lua_State *L = options->lua;
  if (!L && !(L = U->own = ty_embed_new_state(&U->memory)))
    return ty_failed(TY_NO_MEMORY, "ty_open: out of memory for a Lua state");
  U->L = L;
  const int top = lua_gettop(L), status = lua_cpcall(L, open_in, &o);
  if (!status) return TY_OK;
  const ty_status y = ty_embed_failed(U, L, "ty_open", status);
  lua_settop(L, top);
  return y;
}

ty_status ty_open(const ty_options *options, ty_engine **engine) {
  static const ty_options none;
  if (!engine) return ty_failed(TY_INVALID, "ty_open: where the engine is to go is NULL");
  *engine = NULL;
  if (!options) options = &none;
  if (options->memory < 0 || options->microseconds < 0)
    return ty_failed(TY_INVALID, "ty_open: a limit is negative");
  ty_embed_settle();
  Universe *U = ty_mem_zalloc(sizeof *U);
  if (!U) return ty_failed(TY_NO_MEMORY, "ty_open: out of memory");
  U->log = options->log;
  U->log_ctx = options->log_ctx;
  ty_status y = open_universe(options, U);
  if (!y && !(*engine = U->handle = ty_handle_new(HANDLE_ENGINE, U, NULL)))
    y = ty_failed(TY_NO_MEMORY, "ty_open: out of memory");
  if (!y && !(y = ty_limit(*engine, options->memory, options->microseconds))) return TY_OK;
  if (*engine) {
    ty_close(*engine);
    *engine = NULL;
    return y;
  }
  ty_embed_end_state(U->own, U->memory);
  ty_mem_free(U);
  return y;
}

/* --- closing, and what is asked of an engine */

static int close_in(lua_State *L) {
  Universe *U = lua_touserdata(L, 1);
  ty_embed_push_lua(L, U, "device");
  lua_call(L, 0, 0);
  luaL_unref(L, LUA_REGISTRYINDEX, U->lua);
  luaL_unref(L, LUA_REGISTRYINDEX, U->anchor);
  set_log(L, U, false);
  U->B->watch = NULL;
  mark_open(L, NULL);
  return 0;
}

ty_status ty_close(ty_engine *engine) {
  ty_status y;
  Slot *lock;
  Universe *U = ty_handle_enter(engine, HANDLE_ENGINE, "ty_close", &lock, &y);
  if (!U) return y;
  ty_embed_models_end(U);
  ty_handle_end(engine, HANDLE_ENGINE);
  if (U->own) ty_embed_end_state(U->own, U->memory);
  else ty_embed_protect(U, NULL, close_in, U);
  ty_mem_free(U);
  ty_handle_leave(lock);
  return TY_OK;
}

ty_status ty_luajit(ty_engine *engine, const char **text) {
  ty_status y;
  Slot *lock;
  const Universe *U =
      ty_handle_ask(engine, HANDLE_ENGINE, "ty_luajit", text, "the text", &lock, &y);
  if (!U) return y;
  *text = U->luajit;
  ty_handle_leave(lock);
  return TY_OK;
}

static int limit_in(lua_State *L) {
  Universe *U = lua_touserdata(L, 1);
  ty_embed_push_lua(L, U, "limit");
  if (U->microseconds) lua_pushnumber(L, (double)U->microseconds / 1e3);
  else lua_pushnil(L);
  lua_call(L, 1, 1);
  U->jit = lua_toboolean(L, -1);
  return 0;
}

ty_status ty_limit(ty_engine *engine, int64_t bytes, int64_t microseconds) {
  ty_status y;
  Slot *lock;
  if (bytes < 0 || microseconds < 0) return ty_failed(TY_INVALID, "ty_limit: a limit is negative");
  Universe *U = ty_handle_enter(engine, HANDLE_ENGINE, "ty_limit", &lock, &y);
  if (!U) return y;
  const i64 before = U->microseconds;
  U->microseconds = microseconds;
  y = microseconds == before ? TY_OK : ty_embed_protect(U, "ty_limit", limit_in, U);
  if (y) U->microseconds = before;
  else U->B->S.limit = bytes;
  ty_handle_leave(lock);
  return y;
}

ty_status ty_memory(ty_engine *engine, int64_t *bytes) {
  ty_status y;
  Slot *lock;
  const Universe *U =
      ty_handle_ask(engine, HANDLE_ENGINE, "ty_memory", bytes, "the number", &lock, &y);
  if (!U) return y;
  *bytes = U->B->S.held;
  ty_handle_leave(lock);
  return TY_OK;
}
