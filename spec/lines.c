/*
** lines.c -- counts the lines of the library's Lua files that run, by a hook, and has C's counts written where a process
** ends early (make coverage).
** LUA_INIT loads it into every process with LuaJIT in it, LD_PRELOAD into every process. In: TYCHO_LINES, a folder; "@"
** and the folder of Lua files in TYCHO_LUA. Out: at the process's end a file in the first with a line "FILE LINE" for
** each line that ran.
**
** 1. The library sees no hook where the program has set none: core.so is linked with --wrap, so that the functions of
**    Lua's that set and tell hooks are those below. The hook that it sets is called by ours. So a line is counted as well
**    while the library keeps the program's hook waiting.
** 2. A hook that the program sets by debug.sethook takes this one's place until it is taken away, and what LuaJIT compiles
**    is not seen: LUA_INIT turns that off.
** 3. A process that ends by _exit, as forked children do, by raise or by a fault runs no functions of atexit: what has
**    been counted, here and by the libraries' own gcov, is written before.
*/
#include <dlfcn.h>
#include <lauxlib.h>
#include <link.h>
#include <lua.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

enum { FILES = 256, LINES = 4096 };

static struct {
  char name[128];
  unsigned char ran[LINES];
} files[FILES];
static int nfiles;
static const char *folder; /* NULL: nothing is counted in this process */
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

/* ---- hooks ------------------------------------------------------------------------------------- */

static struct {
  lua_Hook hook;
  int mask, count;
} set;                    /* what the library has set */
static lua_Hook programs; /* the program's own that it was told of last */

static void count(lua_State *L, lua_Debug *d) {
  if (d->event == LUA_HOOKLINE) {
    lua_getinfo(L, "Sl", d);
    if (strncmp(d->source, folder, folder_length) == 0 && d->currentline >= 0 &&
        d->currentline < LINES)
      lines_of(d->source + folder_length)[d->currentline] = 1;
  }
  int bit = d->event == LUA_HOOKTAILRET ? LUA_MASKRET : 1 << d->event;
  if (set.hook && set.mask & bit) set.hook(L, d);
}

static void set_hook(lua_State *L, lua_Hook hook, int mask, int n) {
  set.hook = mask ? hook : NULL;
  set.mask = set.hook ? mask : 0;
  set.count = n;
  lua_sethook(L, count, set.mask | LUA_MASKLINE, n);
}

static int is_counted(lua_State *L) { return folder && lua_gethook(L) == count; }

VISIBLE lua_Hook __wrap_lua_gethook(lua_State *L);
VISIBLE lua_Hook __wrap_lua_gethook(lua_State *L) {
  if (is_counted(L)) return set.hook;
  return programs = lua_gethook(L);
}

VISIBLE int __wrap_lua_gethookmask(lua_State *L);
VISIBLE int __wrap_lua_gethookmask(lua_State *L) {
  return is_counted(L) ? set.mask : lua_gethookmask(L);
}

VISIBLE int __wrap_lua_gethookcount(lua_State *L);
VISIBLE int __wrap_lua_gethookcount(lua_State *L) {
  return is_counted(L) ? set.count : lua_gethookcount(L);
}

/* The program's own is put back as it was. */
VISIBLE int __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int n);
VISIBLE int __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int n) {
  if (!folder || (hook && hook == programs)) return lua_sethook(L, hook, mask, n);
  set_hook(L, hook, mask, n);
  return 1;
}

/* debug.sethook() without a function: the count goes on. */
static int sethook(lua_State *L) {
  int threads = lua_isthread(L, 1), off = lua_isnoneornil(L, 1 + threads);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  if (off) set_hook(L, NULL, 0, 0);
  return 0;
}

/* debug.gethook(): the count is nobody's business. */
static int gethook(lua_State *L) {
  if (lua_gethook(L) == count && !set.hook) return 0;
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

/* ---- ends -------------------------------------------------------------------------------------- */

static void write_lines(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/%d", getenv("TYCHO_LINES"), (int)getpid());
  FILE *f = fopen(path, "a");
  for (int i = 0; f && i < nfiles; i++)
    for (int k = 0; k < LINES; k++)
      if (files[i].ran[k]) fprintf(f, "%s %d\n", files[i].name, k);
  if (f) fclose(f);
}

/* Each shared object has counts, and a function that writes them, of its own. */
static int write_object(struct dl_phdr_info *info, size_t size, void *arg) {
  (void)size, (void)arg;
  if (!strstr(info->dlpi_name, "/tycho/")) return 0;
  void *object = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  void (*dump)(void) = NULL;
  if (object) *(void **)&dump = dlsym(object, "__gcov_dump");
  if (dump) dump();
  return 0;
}

static void write_all(void) {
  static int written;
  if (written++ || !getenv("TYCHO_LINES")) return;
  dl_iterate_phdr(write_object, NULL);
  if (folder) write_lines();
}

VISIBLE void _exit(int status) {
  write_all();
  void (*next)(int) __attribute__((noreturn));
  *(void **)&next = dlsym(RTLD_NEXT, "_exit");
  next(status);
}

VISIBLE int raise(int number) {
  if (number == SIGABRT) write_all();
  int (*next)(int);
  *(void **)&next = dlsym(RTLD_NEXT, "raise");
  return next(number);
}

/* The library's own handler has run, and has given the place back. */
static void fault(int number) {
  signal(number, SIG_DFL);
  write_all();
}

VISIBLE int luaopen_lines(lua_State *L);
int luaopen_lines(lua_State *L) {
  folder = getenv("TYCHO_LUA");
  folder_length = strlen(folder);
  lua_getglobal(L, "debug");
  replace(L, "sethook", sethook);
  replace(L, "gethook", gethook);
  set_hook(L, NULL, 0, 0);
  signal(SIGSEGV, fault);
  signal(SIGBUS, fault);
  atexit(write_lines);
  return 0;
}
