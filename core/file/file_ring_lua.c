/*
** file_ring_lua.c -- files read in the background, for loaders.
** In: paths, an order, what is wanted of each. Out: tensors in that order: one by one, or side by
** side in one. A file that cannot be read: nil and a message. Lua's side: lua/tycho/data.lua.
*/
#include "file/file_lua.h"
#include "file/file_ring.h"

#include <errno.h>
#include <stdio.h>

#define RING "tycho.ring"

typedef struct Reader {
  Ring *ring, *old; /* old: stopped, for the memory that it has */
  bool records;
  Type type; /* of a record */
} Reader;

static int reader_drop(lua_State *L) {
  Reader *r = lua_touserdata(L, 1);
  Ring *ring = r->ring, *old = r->old;
  r->ring = r->old = NULL;
  ty_ring_close(ring);
  ty_ring_close(old);
  return 0;
}

static i64 field(lua_State *L, int i, const char *name) {
  lua_getfield(L, i, name);
  lua_Number v = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return (i64)v;
}

static int field_dtype(lua_State *L, int i) {
  static const char *const names[] = {
#define _(NAME, name, bytes, kind, ctype) [T_##NAME] = name,
      TY_DTYPES(_)
#undef _
          NULL};
  lua_getfield(L, i, "dtype");
  int dtype = luaL_checkoption(L, -1, "u8", names);
  lua_pop(L, 1);
  return dtype;
}

/* The record type of options {shape, dtype}; bytes of one. */
static i64 record_type(lua_State *L, int i, Type *t) {
  t->dtype = (u8)field_dtype(L, i);
  lua_getfield(L, i, "shape");
  t->rank = (u8)lua_objlen(L, -1);
  if (t->rank > MAX_RANK - 1) luaL_error(L, "files: too many dims");
  for (int d = 0; d < t->rank; d++) {
    lua_rawgeti(L, -1, d + 1);
    t->dims[d] = (i64)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  i64 n, bytes;
  if (!ty_entry_size(t, ty_entry_code(t->dtype), &n, &bytes) || !bytes)
    luaL_error(L, "files: records of no size");
  return bytes;
}

/* Text of all paths, one behind the other, and the jobs in the order of the tensor at index 2. */
static bool make_jobs(lua_State *L, const i64 *order, i64 jobs, i64 record, i64 offset,
                      RingJob **job, char **names) {
  i64 paths = (i64)lua_objlen(L, 1), bytes = 1;
  for (i64 i = 1; i <= paths; i++) {
    lua_rawgeti(L, 1, (int)i);
    bytes += (i64)lua_objlen(L, -1) + 1;
    lua_pop(L, 1);
  }
  *names = ty_file_alloc(bytes);
  *job = ty_file_alloc((i64)sizeof(RingJob) * TY_MAX(jobs, 1));
  const char **at = ty_file_alloc((i64)sizeof(char *) * TY_MAX(paths, 1));
  bool ok = *names && *job && at;
  char *to = *names;
  for (i64 i = 0; ok && i < paths; i++) {
    size_t n;
    lua_rawgeti(L, 1, (int)i + 1);
    const char *s = lua_tolstring(L, -1, &n);
    at[i] = to;
    if (s) memcpy(to, s, n + 1), to += n + 1;
    else ok = false;
    lua_pop(L, 1);
  }
  for (i64 i = 0; ok && i < jobs; i++) {
    i64 which = order ? order[i] - 1 : i;
    ok = record ? which >= 0 : which >= 0 && which < paths;
    if (ok) (*job)[i] = (RingJob){at[record ? 0 : which], record ? offset + which * record : 0};
  }
  ty_file_free(at);
  if (ok) return true;
  ty_file_free(*job);
  ty_file_free(*names);
  return false;
}

/* ring_open(paths, order, options, old) -> ring. order: i64, from 1. old: nil, or a ring that was
** closed to be used again. options: {workers, capacity} and for images {channels, height, width, limit, element}, for records of the one path {shape, dtype,
** offset}. */
static int l_ring_open(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 4);
  Reader *last = lua_isnil(L, 4) ? NULL : ty_file_check_owner(L, 4, RING);
  Reader *r = ty_file_push_owner(L, sizeof *r, RING, reader_drop);
  RingPlan plan = {.want = {.channels = (i32)field(L, 3, "channels"),
                            .height = (i32)field(L, 3, "height"),
                            .width = (i32)field(L, 3, "width"),
                            .limit = field(L, 3, "limit"),
                            .element = (i32)field(L, 3, "element")},
                   .workers = (int)field(L, 3, "workers"),
                   .capacity = (int)TY_MAX(field(L, 3, "capacity"), 1)};
  lua_getfield(L, 3, "shape");
  r->records = lua_istable(L, -1);
  if (r->records) plan.bytes = record_type(L, 3, &r->type);
  lua_settop(L, 5);
  Type t;
  RingJob *job;
  Ring *old = NULL;
  char *names;
  const i64 *order = seam->read(L, "data", 2, &t);
  if (t.dtype != T_I64 || t.rank != 1) return luaL_error(L, "files: the order must be i64 [n]");
  if (!make_jobs(L, order, t.dims[0], plan.bytes, field(L, 3, "offset"), &job, &names))
    return seam->fail(L, "data: out of memory");
  if (last) old = last->old, last->old = NULL;
  if (!(r->ring = ty_ring_new(&plan, job, t.dims[0], names, old)))
    return seam->fail(L, "data: out of memory");
  lua_settop(L, 5);
  return 1;
}

static Reader *check_reader(lua_State *L) {
  Reader *r = ty_file_check_owner(L, 1, RING);
  if (!r->ring) luaL_error(L, "files: the reader was closed");
  return r;
}

/* The next item, and the type of the tensor that it becomes. */
static RingItem *next(Reader *r, Type *t) {
  RingItem *x = ty_ring_next(r->ring);
  if (r->records) *t = r->type;
  else
    *t = (Type){
        .dtype = T_U8, .rank = 3, .dims = {x->image.channels, x->image.height, x->image.width}};
  return x;
}

/* Answers the message of an item that could not be read, and goes on behind it. */
static int refuse(lua_State *L, Reader *r, const RingItem *x) {
  int n = ty_file_answer(L, x->err);
  ty_ring_done(r->ring);
  return n;
}

static i64 item_bytes(const Type *t) {
  i64 n, bytes;
  return ty_entry_size(t, ty_entry_code(t->dtype), &n, &bytes) ? bytes : 0;
}

/* The elements of an item, channel by channel. */
static void store(const Reader *r, RingItem *x, i64 bytes, void *to) {
  if (r->records) memcpy(to, x->image.data, (size_t)bytes);
  else ty_image_take(&x->image, to);
}

/* ring_next(ring) -> the next item as a tensor. */
static int l_ring_next(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  Reader *r = check_reader(L);
  Type t;
  if (!ty_ring_left(r->ring)) return luaL_error(L, "files: nothing is left");
  RingItem *x = next(r, &t);
  if (!x->ok) return refuse(L, r, x);
  void *to = seam->make(L, &t);
  if (to) store(r, x, item_bytes(&t), to);
  ty_ring_done(r->ring);
  return to ? 1 : ty_file_answer(L, "out of memory");
}

static bool same_dims(const Type *a, const Type *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof *a->dims * a->rank);
}

/* ring_batch(ring, n) -> the next n items side by side, [n, ...]. Where their sizes differ: nil and a message. */
static int l_ring_batch(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  Reader *r = check_reader(L);
  i64 n = (i64)luaL_checknumber(L, 2), bytes = 0;
  u8 *to = NULL;
  Type first = {0}, t;
  if (n < 1 || n > ty_ring_left(r->ring)) return luaL_error(L, "files: fewer items are left");
  ty_ring_wait(r->ring, n);
  for (i64 i = 0; i < n; i++) {
    RingItem *x = next(r, &t);
    if (!x->ok) return refuse(L, r, x);
    if (!i) {
      Type all = {.dtype = t.dtype, .rank = (u8)(t.rank + 1), .dims = {n}};
      memcpy(all.dims + 1, t.dims, sizeof *t.dims * t.rank);
      first = t;
      bytes = item_bytes(&t);
      to = seam->make(L, &all);
    }
    bool same = same_dims(&t, &first);
    if (to && same) store(r, x, bytes, to + i * bytes);
    ty_ring_done(r->ring);
    if (!to) return ty_file_answer(L, "out of memory");
    if (same) continue;
    lua_pushnil(L);
    lua_pushfstring(L,
                    "images of %d x %d x %d and %d x %d x %d in one batch (give channels and size)",
                    (int)first.dims[0], (int)first.dims[1], (int)first.dims[2], (int)t.dims[0],
                    (int)t.dims[1], (int)t.dims[2]);
    return 2;
  }
  return 1;
}

/* ring_close(ring, again): again: its memory is kept for the next. */
static int l_ring_close(lua_State *L) {
  Reader *r = ty_file_check_owner(L, 1, RING);
  bool again = lua_toboolean(L, 2);
  lua_settop(L, 1);
  if (!again || !r->ring) return reader_drop(L);
  ty_ring_stop(r->ring);
  r->old = r->ring;
  r->ring = NULL;
  return 0;
}

/* ---- folders ------------------------------------------------------------------------------------ */

typedef struct Folder {
  void *open;
} Folder;

static int folder_drop(lua_State *L) {
  Folder *d = lua_touserdata(L, 1);
  ty_folder_close(d->open);
  d->open = NULL;
  return 0;
}

/* folder(path) -> names of files, names of folders, both without order, and without those that begin
** with a point. */
static int l_folder(lua_State *L) {
  ty_file_enter(L);
  const char *path = luaL_checkstring(L, 1);
  Folder *d = ty_file_push_owner(L, sizeof *d, "tycho.folder", folder_drop);
  if (!(d->open = ty_folder_open(path))) {
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", path, strerror(errno));
    return 2;
  }
  lua_newtable(L);
  lua_newtable(L);
  bool is_folder;
  for (const char *name; (name = ty_folder_next(d->open, &is_folder));) {
    int list = is_folder ? -1 : -2;
    lua_pushstring(L, name);
    lua_rawseti(L, list - 1, (int)lua_objlen(L, list - 1) + 1);
  }
  ty_folder_close(d->open);
  d->open = NULL;
  return 2;
}

/* file_size(path) -> bytes */
static int l_file_size(lua_State *L) {
  ty_file_enter(L);
  File f = {.fd = -1};
  bool ok = ty_file_open(&f, luaL_checkstring(L, 1), false);
  i64 size = f.size;
  ty_file_close(&f);
  if (!ok) return ty_file_answer(L, f.err);
  lua_pushnumber(L, (lua_Number)size);
  return 1;
}

/* ---- order -------------------------------------------------------------------------------------- */

/* shuffle(n, seed, epoch) -> i64 [n]: the numbers from 1 to n in an order that depends on these alone.
** Fisher and Yates with the engine's generator, Philox4x32-10: counter (draw, epoch), key seed. */
static int l_shuffle(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  i64 n = (i64)luaL_checknumber(L, 1);
  u64 seed = (u64)(i64)luaL_checknumber(L, 2), epoch = (u64)luaL_checknumber(L, 3);
  Type t = {.dtype = T_I64, .rank = 1, .dims = {n}};
  i64 *y = seam->make(L, &t);
  if (!y) return seam->fail(L, "data: out of memory");
  for (i64 i = 0; i < n; i++) y[i] = i + 1;
  for (i64 i = n - 1; i > 0; i--) {
    u32 word[4];
    ty_ring_philox((u64)i, epoch, seed, word);
    u64 draw = (u64)word[0] << 32 | word[1];
    i64 j = (i64)((unsigned __int128)draw * (u64)(i + 1) >> 64);
    i64 kept = y[i];
    y[i] = y[j], y[j] = kept;
  }
  return 1;
}

/* rows(x, order, at, n) -> rows order[at] .. order[at + n - 1] of x, which lies row by row. */
static int l_rows(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  i64 at = (i64)luaL_checknumber(L, 3) - 1, n = (i64)luaL_checknumber(L, 4);
  Type t, index;
  lua_settop(L, 4);
  seam->read(L, "data", 1, &t);
  seam->read(L, "data", 2, &index);
  if (!t.rank || index.dtype != T_I64 || at < 0 || n < 0 || n > index.dims[0] - at)
    return luaL_error(L, "files: no such rows");
  i64 rows = t.dims[0];
  t.dims[0] = 1;
  i64 bytes = item_bytes(&t);
  t.dims[0] = n;
  u8 *to = seam->make(L, &t);
  if (!to) return seam->fail(L, "data: out of memory");
  const u8 *x = seam->read(L, "data", 1, &t); /* making one may have moved them */
  const i64 *order = (const i64 *)seam->read(L, "data", 2, &index) + at;
  for (i64 i = 0; i < n; i++) {
    if (order[i] < 1 || order[i] > rows) return luaL_error(L, "files: no row %f", (double)order[i]);
    memcpy(to + i * bytes, x + (order[i] - 1) * bytes, (size_t)bytes);
  }
  return 1;
}

const luaL_Reg ty_file_ring[] = {
    {"ring_open", l_ring_open},   {"ring_next", l_ring_next}, {"ring_batch", l_ring_batch},
    {"ring_close", l_ring_close}, {"shuffle", l_shuffle},     {"rows", l_rows},
    {"folder", l_folder},         {"file_size", l_file_size}, {NULL, NULL}};
