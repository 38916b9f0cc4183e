/*
** lines.c -- counts the lines of the library's Lua files that run, by a hook (make coverage).
** LUA_INIT loads it into every process with LuaJIT in it. In: TYCHO_LINES, a folder; "@" and the folder of Lua files
** in TYCHO_LUA. Out: at the process's end a file in the first with a line "FILE LINE" for each line that ran. A hook of
** the program's own takes this one's place until it is taken away, and what is compiled by LuaJIT is not seen: LUA_INIT
** turns that off.
*/
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 256, LINES = 4096 };

static struct {
  char name[128];
  unsigned char ran[LINES];
} files[FILES];
static int nfiles;
static const char *folder;
static size_t folder_length;

static unsigned char *lines_of(const char *name) {
  static int last;
  if (last < nfiles && !strcmp(files[last].name, name)) return files[last].ran;
  for (last = 0; last < nfiles; last++)
    if (!strcmp(files[last].name, name)) return files[last].ran;
  if (nfiles == FILES || strlen(name) >= sizeof files->name) abort();
  strcpy(files[nfiles++].name, name);
  return files[last].ran;
}

static void count(lua_State *L, lua_Debug *d) {
  lua_getinfo(L, "S", d);
  if (strncmp(d->source, folder, folder_length) != 0) return;
  if (d->currentline >= 0 && d->currentline < LINES)
    lines_of(d->source + folder_length)[d->currentline] = 1;
}

static void write_lines(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/%d", getenv("TYCHO_LINES"), (int)getpid());
  FILE *f = fopen(path, "a");
  for (int i = 0; f && i < nfiles; i++)
    for (int k = 0; k < LINES; k++)
      if (files[i].ran[k]) fprintf(f, "%s %d\n", files[i].name, k);
  if (f) fclose(f);
}

/* debug.sethook() without a function: the count goes on. */
static int sethook(lua_State *L) {
  int threads = lua_isthread(L, 1), off = lua_isnoneornil(L, 1 + threads);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  if (off) lua_sethook(L, count, LUA_MASKLINE, 0);
  return 0;
}

/* debug.gethook(): the count is nobody's business. */
static int gethook(lua_State *L) {
  if (lua_gethook(L) == count) return 0;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static void replace(lua_State *L, const char *name, lua_CFunction f) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, f, 1);
  lua_setfield(L, -2, name);
}

__attribute__((visibility("default"))) int luaopen_lines(lua_State *L);
int luaopen_lines(lua_State *L) {
  folder = getenv("TYCHO_LUA");
  folder_length = strlen(folder);
  lua_getglobal(L, "debug");
  replace(L, "sethook", sethook);
  replace(L, "gethook", gethook);
  lua_sethook(L, count, LUA_MASKLINE, 0);
  atexit(write_lines);
  return 0;
}
