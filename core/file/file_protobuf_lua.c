/*
** file_protobuf_lua.c -- messages of Protocol Buffers as Lua tables, and the tensors that lie in them.
** In: a file, a schema. Out: a table by names of fields; tensors of spans of bytes. nil and a message for what is damaged,
** and for what would take too much memory: tables more than FILE_LIMIT, tensors more than twice the file and FILE_LIMIT.
** The file lies in memory besides.
**
** A schema is a table by numbers of fields: {name, kind, schema of a message or nil, whether it is repeated}. Kinds:
** "int" "float" "double" "string" "message", and "span", bytes that stay in the file: {at = , bytes = }.
*/
#include "file/file_lua.h"
#include "file/file_protobuf.h"

#define MESSAGE "tycho.message"

enum { MESSAGE_DEPTH = 64 };

/* A file that is all in memory. */
typedef struct Message {
  File file;
  Head head;
  i64 cost, made; /* bytes of tables, about, and of tensors */
} Message;

static int message_drop(lua_State *L) {
  Message *m = lua_touserdata(L, 1);
  ty_head_close(&m->head);
  ty_file_close(&m->file);
  return 0;
}

static int fail(lua_State *L, Message *m) {
  lua_pushnil(L);
  lua_pushstring(L, m->file.err);
  return 2;
}

/* message(path) -> message; its elements are read from it until it is collected. Of text: message(nil, text). */
static int l_message(lua_State *L) {
  ty_file_enter(L);
  size_t n = 0;
  const char *path = lua_isnoneornil(L, 1) ? NULL : luaL_checkstring(L, 1);
  const char *text = path ? NULL : luaL_checklstring(L, 2, &n);
  Message *m = ty_file_push_owner(L, sizeof *m, MESSAGE, message_drop);
  m->file.fd = -1;
  if (text) {
    lua_createtable(L, 1, 0); /* holds the text */
    lua_pushvalue(L, 2);
    lua_rawseti(L, -2, 1);
    lua_setfenv(L, -2);
  }
  if (!(path ? ty_file_open(&m->file, path, false)
             : ty_file_memory(&m->file, "bytes", text, (i64)n)))
    return fail(L, m);
  ty_head_open(&m->head, &m->file);
  const u8 *bytes = ty_head_take(&m->head, m->file.size, "its bytes");
  if (!bytes) return fail(L, m);
  m->file.data = bytes;
  return 1;
}

static bool spend(Message *m, i64 bytes) {
  m->cost += bytes;
  return m->cost <= FILE_LIMIT || ty_file_fail(&m->file, "takes too much memory");
}

static bool push_message(lua_State *L, Message *m, int schema, const u8 *p, const u8 *end,
                         int depth);

static lua_Number float_of(const u8 *bytes) {
  float f;
  memcpy(&f, bytes, 4);
  return (lua_Number)f;
}

static lua_Number double_of(const u8 *bytes) {
  double d;
  memcpy(&d, bytes, 8);
  return d;
}

static int wire_type(char kind) {
  switch (kind) {
  case 'i': return WIRE_VARINT;
  case 'f': return WIRE_I32;
  case 'd': return WIRE_I64;
  default: return WIRE_BYTES;
  }
}

/* Appends the value on top to the list below it. */
static void append(lua_State *L) { lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1); }

/* Numbers one behind the other in the field, onto the list on top. */
static bool push_packed(lua_State *L, Message *m, const Wire *w, char kind) {
  const u8 *p = w->bytes, *end = p + w->n;
  const int size = kind == 'f' ? 4 : 8;
  if (kind != 'i' && w->n % size)
    return ty_file_fail(&m->file, "numbers of %d bytes that end amid of one at byte %lld", size,
                        (long long)(end - m->file.data));
  while (p < end) {
    u64 v;
    if (!spend(m, 16)) return false;
    if (kind == 'i') {
      if (!ty_wire_varint(&m->file, &p, end, &v)) return false;
      lua_pushnumber(L, (lua_Number)(i64)v);
    } else {
      lua_pushnumber(L, kind == 'f' ? float_of(p) : double_of(p));
      p += size;
    }
    append(L);
  }
  return true;
}

/* Pushes one value of the field, whose row of the schema is at index `row`. */
static bool push_field(lua_State *L, Message *m, const Wire *w, char kind, int row, int depth) {
  if (!spend(m, 24)) return false;
  switch (kind) {
  case 'i': lua_pushnumber(L, (lua_Number)(i64)w->value); return true;
  case 'f': lua_pushnumber(L, float_of(w->bytes)); return true;
  case 'd': lua_pushnumber(L, double_of(w->bytes)); return true;
  case 'm':
    lua_rawgeti(L, row, 3);
    if (!push_message(L, m, lua_gettop(L), w->bytes, w->bytes + w->n, depth + 1)) return false;
    lua_remove(L, -2);
    return true;
  case 'b': /* a span */
    if (!spend(m, 120)) return false;
    lua_createtable(L, 0, 2);
    lua_pushnumber(L, (lua_Number)(w->bytes - m->file.data));
    lua_setfield(L, -2, "at");
    lua_pushnumber(L, (lua_Number)w->n);
    lua_setfield(L, -2, "bytes");
    return true;
  default:
    if (!spend(m, 32 + w->n)) return false;
    lua_pushlstring(L, (const char *)w->bytes, (size_t)w->n);
    return true;
  }
}

/* The field that was read, into the table on top by the row above it, which is popped. */
static bool set_field(lua_State *L, Message *m, const Wire *w, int depth) {
  const int row = lua_gettop(L), table = row - 1;
  lua_rawgeti(L, row, 1);
  lua_rawgeti(L, row, 2);
  lua_rawgeti(L, row, 4);
  const char *name = lua_tostring(L, row + 1), *kinds = lua_tostring(L, row + 2);
  const char kind = !strcmp(kinds, "span") ? 'b' : kinds[0];
  const bool repeated = lua_toboolean(L, row + 3);
  const int type = wire_type(kind);
  const bool packed = repeated && type != WIRE_BYTES && w->type == WIRE_BYTES;
  if (w->type != type && !packed)
    return ty_file_fail(&m->file, "the field %s is written in another way than its kind is", name);
  if (repeated) {
    lua_getfield(L, table, name);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      if (!spend(m, 80)) return false;
      lua_newtable(L);
      lua_pushvalue(L, -1);
      lua_setfield(L, table, name);
    }
    if (packed) {
      if (!push_packed(L, m, w, kind)) return false;
    } else {
      if (!push_field(L, m, w, kind, row, depth)) return false;
      append(L);
    }
  } else {
    if (!push_field(L, m, w, kind, row, depth)) return false;
    lua_setfield(L, table, name);
  }
  lua_settop(L, table);
  return true;
}

/* Pushes a message as a table; at most MESSAGE_DEPTH calls deep. */
static bool push_message(lua_State *L, Message *m, int schema, const u8 *p, const u8 *end,
                         int depth) {
  Wire w = {.f = &m->file, .p = p, .end = end};
  if (depth >= MESSAGE_DEPTH) return ty_file_fail(&m->file, "messages nested too deep");
  if (ty_file_stops()) return ty_file_fail(&m->file, FILE_STOPPED);
  luaL_checkstack(L, 12, "messages");
  if (!spend(m, 96)) return false;
  lua_newtable(L);
  for (;;) {
    if (!ty_wire_next(&w)) return false;
    if (!w.field) return true;
    lua_rawgeti(L, schema, (int)w.field);
    if (lua_isnil(L, -1)) lua_pop(L, 1);
    else if (!set_field(L, m, &w, depth)) return false;
  }
}

static Message *check_message(lua_State *L) { return ty_file_check_owner(L, 1, MESSAGE); }

/* decode(message, schema) -> table */
static int l_decode(lua_State *L) {
  ty_file_enter(L);
  Message *m = check_message(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  if (!m->file.data) return fail(L, m);
  if (push_message(L, m, 2, m->file.data, m->file.data + m->file.size, 0)) return 1;
  lua_settop(L, 2);
  return fail(L, m);
}

/* --- elements */

static int check_code(lua_State *L, int i) {
  static const char *const names[] = {"bool", "u8",  "i8",   "u16", "i16", "u32", "i32",
                                      "u64",  "i64", "bf16", "f16", "f32", "f64", NULL};
  static const u8 codes[] = {E_BOOL, E_U8,  E_I8,   E_U16, E_I16, E_U32, E_I32,
                             E_U64,  E_I64, E_BF16, E_F16, E_F32, E_F64};
  return codes[luaL_checkoption(L, i, NULL, names)];
}

static bool check_type(lua_State *L, Message *m, int i, Type *t) {
  const size_t rank = lua_objlen(L, i);
  if (rank > MAX_RANK) return ty_file_fail(&m->file, "a tensor of %d dims", (int)rank);
  t->rank = (u8)rank;
  for (int d = 0; d < t->rank; d++) {
    lua_rawgeti(L, i, d + 1);
    const lua_Number n = lua_tonumber(L, -1);
    lua_pop(L, 1);
    if (!(n >= 0 && n < 0x1p48)) return ty_file_fail(&m->file, "a tensor with a dim below 0");
    t->dims[d] = (i64)n;
  }
  return true;
}

/* The bits of an element that was written as a number. */
static void store(void *to, int bytes, bool is_bool, u64 v) {
  if (is_bool) v = v != 0;
  memcpy(to, &v, (size_t)bytes);
}

/* Elements that are written as numbers, one behind the other: n of them. */
static bool read_varints(Message *m, const Entry *e, i64 n, u8 *to) {
  const u8 *p = m->file.data + e->at, *end = p + e->bytes;
  const int written = ty_file_codes[e->code].bytes;
  const int bytes = ty_file_codes[ty_entry_code(e->type.dtype)].bytes;
  for (i64 i = 0; i < n; i++) {
    u64 v;
    if (!ty_wire_varint(&m->file, &p, end, &v)) return false;
    if (written < bytes) v &= ((u64)1 << 8 * written) - 1; /* unsigned, in a wider type */
    if (to) store(to + i * bytes, bytes, e->code == E_BOOL, v);
  }
  return p == end || ty_file_fail(&m->file, "a tensor of more elements than its shape has");
}

/* elements(message, shape, type, at, bytes, varints) -> tensor: as they lie, or as numbers. */
static int l_elements(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  Message *m = check_message(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  Entry e = {.code = (u8)check_code(L, 3)};
  const lua_Number at = luaL_checknumber(L, 4), bytes = luaL_checknumber(L, 5);
  const bool varints = lua_toboolean(L, 6);
  lua_settop(L, 6);
  i64 n, size;
  e.type.dtype = ty_file_codes[e.code].dtype;
  if (!check_type(L, m, 2, &e.type)) return fail(L, m);
  if (!(at >= 0 && bytes >= 0 && at + bytes <= (lua_Number)m->file.size)) {
    ty_file_fail(&m->file, "a tensor whose elements lie behind the end of the file");
    return fail(L, m);
  }
  e.at = (i64)at, e.bytes = (i64)bytes;
  if (!ty_entry_size(&e.type, e.code, &n, &size) || (varints ? n > e.bytes : size != e.bytes)) {
    ty_file_fail(&m->file, "a tensor whose %lld bytes do not fit its shape", (long long)e.bytes);
    return fail(L, m);
  }
  Archive a = {.file = m->file};
  m->made += n * ty_file_codes[ty_entry_code(e.type.dtype)].bytes;
  if (m->made > 2 * m->file.size + FILE_LIMIT) {
    ty_file_fail(&m->file, "its tensors take too much memory");
    return fail(L, m);
  }
  if (varints && !read_varints(m, &e, n, NULL)) return fail(L, m);
  void *to = seam->make(L, &e.type);
  if (!to) {
    ty_file_fail_memory(&m->file, e.bytes);
    return fail(L, m);
  }
  if (varints) {
    read_varints(m, &e, n, to);
  } else if (!ty_archive_read(&a, &e, to)) {
    memcpy(m->file.err, a.file.err, FILE_ERR);
    return fail(L, m);
  }
  return 1;
}

/* size(message) -> bytes */
static int l_size(lua_State *L) {
  lua_pushnumber(L, (lua_Number)check_message(L)->file.size);
  return 1;
}

const luaL_Reg ty_file_protobuf[] = {{"message", l_message},
                                     {"decode", l_decode},
                                     {"elements", l_elements},
                                     {"message_size", l_size},
                                     {NULL, NULL}};
