/*
** file_lua.c -- the Lua module tycho.files.so: archives of tensors, and files that are written.
** In: paths, tensors. Out: tensors, lists of names, metadata; nil and a message where the world fails.
** Misuse raises. Lua's side is lua/tycho/files.lua; nothing here is for users.
*/
#include "file_lua.h"

#include <pthread.h>

#define ARCHIVE "tycho.archive"

/* --- the seam */

static Seam lent;
static pthread_mutex_t lent_lock = PTHREAD_MUTEX_INITIALIZER;

const Seam *ty_file_seam(void) { return &lent; }

int ty_file_answer(lua_State *L, const char *message) {
  lua_pushnil(L);
  lua_pushstring(L, message);
  return 2;
}

void ty_file_push_function(lua_State *L, lua_CFunction fn) {
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_STATE);
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_META);
  lua_pushcclosure(L, fn, 2);
}

/* --- owners */

void *ty_file_push_owner(lua_State *L, size_t size, const char *kind, lua_CFunction drop) {
  void *p = lua_newuserdata(L, size);
  memset(p, 0, size);
  if (luaL_newmetatable(L, kind)) {
    lua_pushcfunction(L, drop);
    lua_setfield(L, -2, "__gc");
    lua_pushstring(L, kind);
    lua_setfield(L, -2, "__metatable"); /* not to be taken off, or called by others */
  }
  lua_setmetatable(L, -2);
  return p;
}

void *ty_file_check_owner(lua_State *L, int i, const char *kind) {
  void *p = lua_touserdata(L, i);
  if (p && lua_getmetatable(L, i)) {
    lua_getfield(L, LUA_REGISTRYINDEX, kind);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (same) return p;
  }
  luaL_error(L, "files: argument %d must be a %s", i, kind);
  return NULL;
}

/* --- archives */

static int archive_drop(lua_State *L) {
  ty_archive_close(lua_touserdata(L, 1));
  return 0;
}

/* Closes what the owner on top of the stack holds and answers its message. */
static int archive_fail(lua_State *L, Archive *a) {
  lua_pushnil(L);
  lua_pushstring(L, a->file.err);
  ty_archive_close(a);
  return 2;
}

static const char *const format_names[] = {"npy", NULL};
static bool (*const format_open[])(Archive *) = {ty_npy_open};

/* open(format, path, mapped, limit) -> archive */
static int l_open(lua_State *L) {
  ty_file_enter(L);
  int format = luaL_checkoption(L, 1, NULL, format_names);
  const char *path = luaL_checkstring(L, 2);
  bool mapped = lua_toboolean(L, 3);
  lua_Number limit = luaL_optnumber(L, 4, -1);
  Archive *a = ty_file_push_owner(L, sizeof *a, ARCHIVE, archive_drop);
  a->file.fd = -1;
  if (!ty_file_open(&a->file, path, mapped)) return archive_fail(L, a);
  a->limit = limit >= 0 && limit < 0x1p53 ? (i64)limit : a->file.size + FILE_SPARE;
  return format_open[format](a) ? 1 : archive_fail(L, a);
}

/* Like open, of bytes: parse(format, text) -> archive; the text must be kept by the caller. */
static int l_parse(lua_State *L) {
  ty_file_enter(L);
  size_t n;
  int format = luaL_checkoption(L, 1, NULL, format_names);
  const char *text = luaL_checklstring(L, 2, &n);
  Archive *a = ty_file_push_owner(L, sizeof *a, ARCHIVE, archive_drop);
  if (!ty_file_memory(&a->file, "bytes", text, (i64)n)) return archive_fail(L, a);
  a->limit = (i64)n + FILE_SPARE;
  lua_createtable(L, 1, 0); /* the archive holds the text as its environment does */
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, 1);
  lua_setfenv(L, -2);
  return format_open[format](a) ? 1 : archive_fail(L, a);
}

static Archive *check_archive(lua_State *L, int i) {
  Archive *a = ty_file_check_owner(L, i, ARCHIVE);
  if (!a->file.path) ty_file_seam()->fail(L, "file: it was closed");
  return a;
}

/* names(archive): in the file's order. */
static int l_names(lua_State *L) {
  Archive *a = check_archive(L, 1);
  lua_createtable(L, (int)a->count, 0);
  for (i64 i = 0; i < a->count; i++) {
    lua_pushlstring(L, a->entry[i].name, (size_t)a->entry[i].length);
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

static const Entry *check_entry(lua_State *L, const Archive *a, int i) {
  lua_Number n = luaL_checknumber(L, i);
  if (!(n >= 1 && n <= (lua_Number)a->count)) luaL_error(L, "files: no entry %f", n);
  return &a->entry[(i64)n - 1];
}

/* info(archive, i) -> shape, dtype, why: as the tensor will have them; why there can be none. */
static int l_info(lua_State *L) {
  static const char *const dtypes[T_COUNT] = {
#define _(NAME, name, bytes, kind, ctype) [T_##NAME] = name,
      TY_DTYPES(_)
#undef _
  };
  const Entry *e = check_entry(L, check_archive(L, 1), 2);
  int rank = e->type.rank;
  lua_createtable(L, rank, 0);
  for (int d = 0; d < rank; d++) {
    lua_pushnumber(L, (lua_Number)e->type.dims[e->turned ? rank - 1 - d : d]);
    lua_rawseti(L, -2, d + 1);
  }
  if (e->why[0]) {
    lua_pushnil(L);
    lua_pushstring(L, e->why);
    return 3;
  }
  lua_pushstring(L, dtypes[e->type.dtype]);
  return 2;
}

/* Whether an entry of a mapped file can be a tensor where it lies. */
static bool in_place(const Archive *a, const Entry *e) {
  const FileCodeInfo *c = &ty_file_codes[e->code];
  return a->file.map && !a->read && !e->swapped && !e->why[0] && e->bytes > 0 && c->elements == 1 &&
         e->code != E_BOOL && e->code != E_U16 && e->code != E_U32 && e->code != E_U64 &&
         (uintptr_t)(a->file.data + e->at) % c->bytes == 0;
}

/* read(archive, i) -> tensor, whether its dims are to be reversed */
static int l_read(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  Archive *a = check_archive(L, 1);
  const Entry *e = check_entry(L, a, 2);
  lua_settop(L, 2);
  if (in_place(a, e)) {
    void *data = (void *)(uintptr_t)(a->file.data + e->at);
    FileMap *m = ty_file_map_hold(a->file.map);
    if (!seam->foreign(L, &e->type, data, ty_file_map_drop, m)) {
      ty_file_map_drop(m);
      ty_file_fail_memory(&a->file, 0);
      return ty_file_answer(L, a->file.err);
    }
  } else {
    void *to = NULL;
    if (!e->why[0] && !(to = seam->make(L, &e->type))) {
      ty_file_fail_memory(&a->file, e->bytes);
      return ty_file_answer(L, a->file.err);
    }
    if (!ty_archive_read(a, e, to)) return ty_file_answer(L, a->file.err);
  }
  lua_pushboolean(L, e->turned);
  return 2;
}

static int l_close(lua_State *L) {
  ty_archive_close(ty_file_check_owner(L, 1, ARCHIVE));
  return 0;
}

/* --- writing */

static int draft_drop(lua_State *L) {
  ty_draft_drop(lua_touserdata(L, 1));
  return 0;
}

/* write(path, parts, durable) -> true: strings and tensors, one behind the other. */
static int l_write(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  const char *path = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  bool durable = lua_toboolean(L, 3);
  lua_settop(L, 3);
  Draft *d = ty_file_push_owner(L, sizeof *d, "tycho.draft", draft_drop);
  d->fd = -1;
  bool ok = ty_draft_open(d, path);
  for (int i = 1; ok && i <= (int)lua_objlen(L, 2); i++) {
    lua_rawgeti(L, 2, i);
    if (lua_type(L, 5) == LUA_TSTRING) {
      size_t n;
      const char *s = lua_tolstring(L, 5, &n);
      ok = ty_draft_write(d, s, (i64)n);
    } else {
      Type t;
      i64 n, bytes;
      const void *p = seam->read(L, "save", 5, &t);
      ok = ty_entry_size(&t, ty_entry_code(t.dtype), &n, &bytes) && ty_draft_write(d, p, bytes);
    }
    lua_settop(L, 4);
  }
  ok = ok && ty_draft_close(d, durable);
  ty_draft_drop(d);
  if (!ok) return ty_file_answer(L, d->err);
  lua_pushboolean(L, true);
  return 1;
}

/* starve(after): see ty_file_starve. */
static int l_starve(lua_State *L) {
  ty_file_starve((i64)luaL_checknumber(L, 1));
  return 0;
}

const luaL_Reg ty_file_archives[] = {{"open", l_open},   {"parse", l_parse},   {"names", l_names},
                                     {"info", l_info},   {"read", l_read},     {"close", l_close},
                                     {"write", l_write}, {"starve", l_starve}, {NULL, NULL}};

/* Lists of the functions of all formats: a new format adds its own here. */
static const luaL_Reg *const lists[] = {ty_file_archives, ty_file_csv, ty_file_image, ty_file_ring};

__attribute__((visibility("default"))) int luaopen_tycho_files(lua_State *L);
int luaopen_tycho_files(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, SEAM_KEY);
  const Seam *seam = (const Seam *)lua_touserdata(L, -1);
  if (!seam || lua_objlen(L, -1) != sizeof *seam || seam->magic != SEAM_MAGIC ||
      seam->size != sizeof *seam)
    return luaL_error(L, "tycho: files.so does not belong to this core.so");
  pthread_mutex_lock(&lent_lock);
  lent = *seam;
  pthread_mutex_unlock(&lent_lock);
  lua_newtable(L);
  for (int i = 0; i < TY_COUNT(lists); i++)
    for (const luaL_Reg *f = lists[i]; f->name; f++) {
      ty_file_push_function(L, f->func);
      lua_setfield(L, -2, f->name);
    }
  return 1;
}
