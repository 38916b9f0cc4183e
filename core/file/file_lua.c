/*
** file_lua.c -- the Lua module tycho.files.so: archives of tensors, and files that are written.
** In: paths, tensors. Out: tensors, lists of names, metadata; nil and a message where the world fails.
** Misuse raises. Lua's side is lua/tycho/files.lua; nothing here is for users.
*/
#include "file/file_lua.h"

#include <stdio.h>

#define ARCHIVE "tycho.archive"

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

static const char *const format_names[] = {"npy", "npz", "safetensors", "gguf", NULL};
static bool (*const format_open[])(Archive *) = {ty_npy_open, ty_npz_open, ty_safetensors_open,
                                                 ty_gguf_open};

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
  a->limit = limit >= 0 && limit < 0x1p53 ? (i64)limit : a->file.size + FILE_LIMIT;
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
  a->limit = (i64)n + FILE_LIMIT;
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
  static const char *const dtypes[T_ALL] = {
#define _(NAME, name, bytes, kind, ctype) [T_##NAME] = name,
      TY_DTYPES(_) TY_COMPLEX_DTYPES(_)
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
         e->code != E_BOOL &&
         (uintptr_t)(a->file.data + e->at) % (c->bytes / ty_dtype_width(c->dtype)) == 0;
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

/* check(archive, list of numbers) -> true: see ty_archive_check. */
static int l_check(lua_State *L) {
  ty_file_enter(L);
  Archive *a = check_archive(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t n = lua_objlen(L, 2);
  const Entry **list = lua_newuserdata(L, (n + 1) * sizeof *list);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (int)i + 1);
    list[i] = check_entry(L, a, 4);
    lua_settop(L, 3);
  }
  if (!ty_archive_check(a, list, (i64)n)) return ty_file_answer(L, a->file.err);
  lua_pushboolean(L, true);
  return 1;
}

/* --- metadata */

/* A number of GGUF; whole ones that Lua's numbers cannot hold become text. */
static void push_number(lua_State *L, const GgufValue *v) {
  u64 u = 0;
  static const u8 bits[GGUF_TYPES] = {
      [GGUF_U8] = 8,   [GGUF_I8] = 8,   [GGUF_U16] = 16, [GGUF_I16] = 16,
      [GGUF_U32] = 32, [GGUF_I32] = 32, [GGUF_U64] = 64, [GGUF_I64] = 64};
  float f;
  double d;
  switch (v->type) {
  case GGUF_BOOL: lua_pushboolean(L, v->bytes[0] != 0); return;
  case GGUF_F32:
    memcpy(&f, v->bytes, 4);
    lua_pushnumber(L, f);
    return;
  case GGUF_F64:
    memcpy(&d, v->bytes, 8);
    lua_pushnumber(L, d);
    return;
  default: break;
  }
  memcpy(&u, v->bytes, bits[v->type] / 8);
  bool is_signed =
      v->type == GGUF_I8 || v->type == GGUF_I16 || v->type == GGUF_I32 || v->type == GGUF_I64;
  i64 i = (i64)(u << (64 - bits[v->type])) >> (64 - bits[v->type]);
  char text[24];
  if (is_signed ? i >= -((i64)1 << 53) && i <= (i64)1 << 53 : u <= (u64)1 << 53) {
    lua_pushnumber(L, is_signed ? (lua_Number)i : (lua_Number)u);
    return;
  }
  snprintf(text, sizeof text, is_signed ? "%lld" : "%llu", (long long)u);
  lua_pushstring(L, text);
}

/* Pushes the value at the cursor, which was walked over before. Arrays within arrays are at most
** GGUF_DEPTH deep. */
static void push_value(lua_State *L, Head *h, u32 type) {
  GgufValue v;
  luaL_checkstack(L, 4, "metadata");
  if (!ty_gguf_value(h, type, &v)) luaL_error(L, "%s", h->f->err);
  if (type == GGUF_STRING) {
    lua_pushlstring(L, (const char *)v.bytes, (size_t)v.n);
  } else if (type == GGUF_ARRAY) {
    lua_createtable(L, (int)v.n, 0);
    for (i64 i = 0; i < v.n; i++) {
      push_value(L, h, v.element);
      lua_rawseti(L, -2, (int)i + 1);
    }
  } else {
    push_number(L, &v);
  }
}

static void push_gguf_metadata(lua_State *L, Archive *a) {
  Head h = a->head; /* a cursor of its own; all of it is there */
  h.at = a->meta_at;
  for (i64 i = 0; i < a->meta_count; i++) {
    GgufValue key;
    u32 type;
    if (!ty_gguf_value(&h, GGUF_STRING, &key)) luaL_error(L, "%s", a->file.err);
    lua_pushlstring(L, (const char *)key.bytes, (size_t)key.n);
    if (!ty_head_u32(&h, &type, "a type")) luaL_error(L, "%s", a->file.err);
    push_value(L, &h, type);
    lua_rawset(L, -3);
  }
}

/* metadata(archive) -> table */
static int l_metadata(lua_State *L) {
  Archive *a = check_archive(L, 1);
  lua_newtable(L);
  if (a->meta_at) {
    push_gguf_metadata(L, a);
    return 1;
  }
  const Metadata *m = a->meta_count ? a->inside : NULL;
  for (i64 i = 0; i < a->meta_count; i++) {
    lua_pushlstring(L, m[i].key, (size_t)m[i].n);
    lua_pushlstring(L, m[i].value, (size_t)m[i].m);
    lua_rawset(L, -3);
  }
  return 1;
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

/* zip(path, names, fronts, tensors, compress) -> true: member i is fronts[i], then tensors[i]. */
static int l_zip(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  char err[FILE_ERR];
  Type t;
  const char *path = luaL_checkstring(L, 1);
  for (int i = 2; i <= 4; i++) luaL_checktype(L, i, LUA_TTABLE);
  int n = (int)lua_objlen(L, 2);
  lua_settop(L, 5);
  ZipPart *parts = lua_newuserdata(L, (size_t)TY_MAX(n, 1) * sizeof *parts);
  for (int i = 1; i <= n; i++) { /* copies of what does not lie row by row stay in the table */
    lua_rawgeti(L, 4, i);
    seam->read(L, "save", 7, &t);
    lua_rawseti(L, 4, i);
  }
  for (int i = 1; i <= n; i++) { /* no Lua code runs from here on */
    ZipPart *p = &parts[i - 1];
    i64 numel;
    size_t front;
    lua_rawgeti(L, 4, i);
    p->rest = seam->read(L, "save", 7, &t);
    if (!ty_entry_size(&t, ty_entry_code(t.dtype), &numel, &p->nrest)) return 0;
    lua_settop(L, 6);
    lua_rawgeti(L, 2, i);
    lua_rawgeti(L, 3, i);
    p->name = lua_tostring(L, 7);
    p->front = lua_tolstring(L, 8, &front);
    p->nfront = (i64)front;
    lua_settop(L, 6); /* the tables hold them */
  }
  if (!ty_zip_write(path, parts, n, lua_toboolean(L, 5), err)) return ty_file_answer(L, err);
  lua_pushboolean(L, true);
  return 1;
}

/* --- JSON */

static int json_drop(lua_State *L) {
  ty_file_free(*(void **)lua_touserdata(L, 1));
  return 0;
}

/* Values on their way into Lua, and what they cost there, about. */
typedef struct Decode {
  Json j;
  i64 cost;
} Decode;

static bool decode_fail(Decode *d, const char *what) {
  if (!d->j.err[0]) snprintf(d->j.err, sizeof d->j.err, "JSON: %s", what);
  return false;
}

static bool decode_spend(Decode *d, i64 bytes) {
  d->cost += bytes;
  return d->cost <= 2 * TEXT_MOST || decode_fail(d, "it takes too much memory");
}

static bool push_json(lua_State *L, Decode *d, JsonToken t);

static bool push_json_array(lua_State *L, Decode *d) {
  JsonToken t;
  lua_newtable(L);
  if (!decode_spend(d, 64)) return false;
  for (int i = 1; (t = ty_json_next(&d->j)) != J_ARRAY_END; i++) {
    if (!decode_spend(d, 16) || !push_json(L, d, t)) return false;
    lua_rawseti(L, -2, i);
  }
  return true;
}

static bool push_json_object(lua_State *L, Decode *d) {
  JsonToken t;
  lua_newtable(L);
  if (!decode_spend(d, 64)) return false;
  while ((t = ty_json_next(&d->j)) == J_KEY) {
    if (!decode_spend(d, 96 + d->j.n)) return false;
    lua_pushlstring(L, d->j.s, (size_t)d->j.n);
    lua_pushvalue(L, -1);
    lua_rawget(L, -3);
    bool twice = !lua_isnil(L, -1);
    lua_pop(L, 1);
    if (twice) return decode_fail(d, "a key stands there twice");
    if (!push_json(L, d, ty_json_next(&d->j))) return false;
    lua_rawset(L, -3);
  }
  return t == J_OBJECT_END;
}

/* Pushes the value that begins with this token; false: d->j.err. At most JSON_DEPTH calls deep. */
static bool push_json(lua_State *L, Decode *d, JsonToken t) {
  luaL_checkstack(L, 6, "JSON");
  switch (t) {
  case J_STRING:
    if (!decode_spend(d, 48 + d->j.n)) return false;
    lua_pushlstring(L, d->j.s, (size_t)d->j.n);
    return true;
  case J_NUMBER: { /* by Lua's own reading, which knows no locale */
    lua_pushlstring(L, d->j.s, (size_t)d->j.n);
    lua_Number v = lua_tonumber(L, -1);
    lua_pop(L, 1);
    lua_pushnumber(L, v);
    return true;
  }
  case J_TRUE:
  case J_FALSE: lua_pushboolean(L, t == J_TRUE); return true;
  case J_NULL: lua_pushnil(L); return true;
  case J_ARRAY: return push_json_array(L, d);
  case J_OBJECT: return push_json_object(L, d);
  default: return false;
  }
}

/* json(text) -> value; nil and a message. null becomes nil. */
static int l_json(lua_State *L) {
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  if ((i64)n > TEXT_MOST) return ty_file_answer(L, "JSON: it is longer than 16 MB");
  void **copy = ty_file_push_owner(L, sizeof *copy, "tycho.text", json_drop);
  *copy = ty_file_alloc((i64)n);
  if (!*copy) return ty_file_answer(L, "JSON: out of memory");
  memcpy(*copy, text, n);
  Decode d = {.cost = 0};
  ty_json_open(&d.j, *copy, (i64)n);
  bool ok = push_json(L, &d, ty_json_next(&d.j)) && ty_json_next(&d.j) == J_END;
  ty_file_free(*copy);
  *copy = NULL;
  return ok ? 1 : ty_file_answer(L, d.j.err);
}

/* text(path, most) -> all bytes of a regular file of at most so many. */
static int l_text(lua_State *L) {
  ty_file_enter(L);
  const char *path = luaL_checkstring(L, 1);
  lua_Number most = luaL_checknumber(L, 2);
  Archive *a = ty_file_push_owner(L, sizeof *a, ARCHIVE, archive_drop);
  File *f = &a->file;
  f->fd = -1;
  if (!ty_file_open(f, path, false)) return archive_fail(L, a);
  if ((lua_Number)f->size > most) {
    ty_file_fail(f, "is longer than %.0f bytes", most);
    return archive_fail(L, a);
  }
  ty_head_open(&a->head, f);
  const u8 *bytes = ty_head_take(&a->head, f->size, "its text");
  if (!bytes) return archive_fail(L, a);
  lua_pushlstring(L, (const char *)bytes, (size_t)f->size);
  ty_archive_close(a);
  return 1;
}

/* bad_name(text) -> why a tensor in a file cannot be called so; nil: it can. */
static int l_bad_name(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  lua_pushstring(L, ty_file_bad_name(s, (i64)n));
  return 1;
}

/* starve(after): see ty_file_starve. */
static int l_starve(lua_State *L) {
  ty_file_starve((i64)luaL_checknumber(L, 1));
  return 0;
}

const luaL_Reg ty_file_archives[] = {
    {"open", l_open},         {"parse", l_parse}, {"names", l_names},
    {"info", l_info},         {"read", l_read},   {"close", l_close},
    {"metadata", l_metadata}, {"write", l_write}, {"zip", l_zip},
    {"json", l_json},         {"text", l_text},   {"bad_name", l_bad_name},
    {"starve", l_starve},     {"check", l_check}, {NULL, NULL}};

/* Lists of the functions of all formats: a new format adds its own here. */
static const luaL_Reg *const lists[] = {ty_file_archives, ty_file_csv, ty_file_image, ty_file_ring,
                                        ty_file_protobuf};

TY_EXPORT int luaopen_tycho_files(lua_State *L);
int luaopen_tycho_files(lua_State *L) {
  ty_file_take_seam(L);
  lua_newtable(L);
  for (int i = 0; i < TY_COUNT(lists); i++)
    for (const luaL_Reg *f = lists[i]; f->name; f++) {
      ty_file_push_function(L, f->func);
      lua_setfield(L, -2, f->name);
    }
  return 1;
}
