/*
** file_image_lua.c -- images to tensors and back.
** In: a path or a file's bytes; tensors u8 [channels, height, width]. Out: the same. Trouble with the
** file: nil and a message. Lua's side, lua/tycho/image.lua, has checked the arguments.
*/
#include "file/file_lua.h"
#include "file/file_image.h"

typedef struct OwnedImage {
  File file;
  Image image;
  Bytes bytes;
} OwnedImage;

static int owned_image_drop(lua_State *L) {
  OwnedImage *p = lua_touserdata(L, 1);
  ty_file_close(&p->file);
  ty_image_free(&p->image);
  ty_file_free(p->bytes.data);
  *p = (OwnedImage){.file.fd = -1};
  return 0;
}

static OwnedImage *push_owned_image(lua_State *L) {
  OwnedImage *p = ty_file_push_owner(L, sizeof *p, "tycho.image", owned_image_drop);
  p->file.fd = -1;
  return p;
}

/* Frees at once what the owner at index i holds; y results lie on top. */
static int image_done(lua_State *L, int i, int y) {
  lua_pushcfunction(L, owned_image_drop);
  lua_pushvalue(L, i);
  lua_call(L, 1, 0);
  return y;
}

/* image_read(path, text, channels, height, width, limit, element) -> u8 [channels, height, width] */
static int l_image_read(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  const char *path = luaL_checkstring(L, 1);
  size_t n = 0;
  const char *text = lua_isnil(L, 2) ? NULL : luaL_checklstring(L, 2, &n);
  ImageWant want = {.channels = (i32)luaL_checknumber(L, 3),
                    .height = (i32)luaL_checknumber(L, 4),
                    .width = (i32)luaL_checknumber(L, 5),
                    .limit = (i64)luaL_checknumber(L, 6),
                    .element = (i32)luaL_checknumber(L, 7)};
  lua_settop(L, 7);
  OwnedImage *p = push_owned_image(L);
  Image *x = &p->image;
  bool ok =
      text ? ty_file_memory(&p->file, path, text, (i64)n) : ty_file_open(&p->file, path, false);
  ok = ok && ty_image_read(&p->file, &want, x);
  if (ok) {
    Type t = {.dtype = T_U8, .rank = 3, .dims = {x->channels, x->height, x->width}};
    u8 *to = seam->make(L, &t);
    if (to) {
      ty_image_take(x, to);
      return image_done(L, 8, 1);
    }
    ty_file_fail_memory(&p->file, 0);
  }
  ty_file_answer(L, p->file.err);
  return image_done(L, 8, 2);
}

/* image_encode(format, u8 [channels, height, width], level) -> the file's bytes */
static int l_image_encode(lua_State *L) {
  static const char *const formats[] = {"png", "jpeg", "pnm", NULL};
  const Seam *seam = ty_file_enter(L);
  int format = luaL_checkoption(L, 1, NULL, formats), level = (int)luaL_checknumber(L, 3);
  Type t;
  lua_settop(L, 3);
  OwnedImage *p = push_owned_image(L);
  const u8 *planes = seam->read(L, "image.save", 2, &t);
  if (t.rank != 3 || t.dtype != T_U8 || t.dims[0] < 1 || t.dims[0] > 4)
    return luaL_error(L, "files: no image");
  p->image = (Image){NULL, (i32)t.dims[2], (i32)t.dims[1], (i32)t.dims[0], false, false};
  bool ok = ty_image_weave(planes, &p->image);
  if (!ok) strcpy(p->bytes.err, "out of memory");
  ok = ok && (format == 0   ? ty_png_write(&p->bytes, &p->image, level)
              : format == 1 ? ty_jpeg_write(&p->bytes, &p->image, level)
                            : ty_pnm_write(&p->bytes, &p->image));
  if (!ok) {
    ty_file_answer(L, p->bytes.err);
    return image_done(L, 4, 2);
  }
  lua_pushlstring(L, (const char *)p->bytes.data, (size_t)p->bytes.n);
  return image_done(L, 4, 1);
}

/* image_resize(u8 or f32 [planes, height, width], height, width, mode) -> the same with those sizes */
static int l_image_resize(lua_State *L) {
  static const char *const modes[] = {"nearest", "box", "bilinear", "bicubic", NULL};
  const Seam *seam = ty_file_enter(L);
  i32 height = (i32)luaL_checknumber(L, 2), width = (i32)luaL_checknumber(L, 3);
  Resize how = (Resize)luaL_checkoption(L, 4, NULL, modes);
  Type t;
  lua_settop(L, 4);
  seam->read(L, "image.resize", 1, &t);
  Type to = t;
  to.dims[1] = height, to.dims[2] = width;
  void *y = seam->make(L, &to);
  const void *x = seam->read(L, "image.resize", 1, &t); /* making one may have moved it */
  if (y &&
      (t.dtype == T_U8
           ? ty_resize_bytes(x, t.dims[0], (i32)t.dims[1], (i32)t.dims[2], y, height, width, how)
           : ty_resize_floats(x, t.dims[0], (i32)t.dims[1], (i32)t.dims[2], y, height, width, how)))
    return 1;
  return seam->fail(L, "image.resize: out of memory");
}

const luaL_Reg ty_file_image[] = {{"image_read", l_image_read},
                                  {"image_encode", l_image_encode},
                                  {"image_resize", l_image_resize},
                                  {NULL, NULL}};
