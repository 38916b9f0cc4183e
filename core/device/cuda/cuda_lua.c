/*
** cuda_lua.c -- the CUDA device, and how it is added to the list of devices.
** In:  require "tycho.cuda", whose `open` loads the driver when a program first names the device.  Out: true, or nil and
** why there is none. What it leaves to the CPU: jobs that ty_cuda_takes refuses.
*/
#include <lauxlib.h>
#include <lua.h>
#include <math.h>

#include "device/cuda/assemble.h"
#include "device/cuda/batch.h"
#include "device/cuda/cuda.h"

static int refuse(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* The device of a number, which is argument 1 and the one that is meant from now on; it is open. */
static int use(lua_State *L) {
  const int n = (int)luaL_optinteger(L, 1, 0);
  luaL_argcheck(L, n >= 0 && n < CUDA_MOST, 1, "no device");
  ty_cuda_use(&ty_cuda_all[n]);
  return n;
}

/* open(number) */
static int l_open(lua_State *L) {
  DeviceRegister *add;
  const char *err = NULL;
  const lua_Number n = luaL_optnumber(L, 1, 0);
  const int ordinal = n >= 0 && n < 1 << 30 ? (int)n : -1;
  lua_getfield(L, LUA_REGISTRYINDEX, DEVICE_KEY);
  void *p = lua_touserdata(L, -1);
  if (!p) return refuse(L, "tycho was not loaded");
  memcpy(&add, &p, sizeof p);
  if (!ty_cuda_open(ordinal, &err)) return refuse(L, err);
  if (!(ty_cuda_host = add(DEVICE_VERSION, ty_cuda_device(ordinal), &err))) return refuse(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* count(): of devices; or nil and why there is none */
static int l_count(lua_State *L) {
  const char *err = NULL;
  const int n = ty_cuda_count(&err);
  if (n < 0) return refuse(L, err);
  lua_pushinteger(L, n);
  return 1;
}

static void set_number(lua_State *L, const char *name, i64 v) {
  lua_pushnumber(L, (lua_Number)v);
  lua_setfield(L, -2, name);
}

/* about(number): the device */
static int l_about(lua_State *L) {
  size_t free = 0, total = 0;
  use(L);
  const CudaMemory m = ty_cuda_memory();
  if (ty_cuda_enter()) ty_cuda.memory_info(&free, &total);
  lua_newtable(L);
  lua_pushstring(L, ty_cuda.name);
  lua_setfield(L, -2, "name");
  set_number(L, "capability", ty_cuda.major * 10 + ty_cuda.minor);
  set_number(L, "processors", ty_cuda.processors);
  set_number(L, "driver", ty_cuda.driver);
  set_number(L, "free", (i64)free);
  set_number(L, "total", (i64)total);
  set_number(L, "used", m.used);
  set_number(L, "cached", m.cached);
  set_number(L, "peak", m.peak);
  return 1;
}

/* trim(number): gives cached memory back */
static int l_trim(lua_State *L) {
  use(L);
  ty_cuda_trim();
  return 0;
}

/* limit(number, bytes): -1 asks */
static int l_limit(lua_State *L) {
  const lua_Number n = luaL_checknumber(L, 2);
  use(L);
  const i64 was = ty_cuda_limit(n >= 9e18 ? INT64_MAX : (i64)n);
  lua_pushnumber(L, was == INT64_MAX ? HUGE_VAL : (lua_Number)was);
  return 1;
}

/* cache(number): what is kept on disk */
static int l_cache(lua_State *L) {
  use(L);
  const StoreCounts c = ty_store_counts();
  lua_newtable(L);
  if (ty_store_folder()) {
    lua_pushstring(L, ty_store_folder());
    lua_setfield(L, -2, "folder");
  }
  lua_pushstring(L, ty_cuda_assembler());
  lua_setfield(L, -2, "assembler");
  set_number(L, "found", c.found);
  set_number(L, "missed", c.missed);
  set_number(L, "written", c.written);
  set_number(L, "removed", c.removed);
  return 1;
}

/* launches(number): so far */
static int l_launches(lua_State *L) {
  use(L);
  const BatchCounts c = ty_batch_counts();
  lua_newtable(L);
  set_number(L, "kernels", c.launches);
  set_number(L, "graphs", c.graphs);
  set_number(L, "replays", c.graph_launches);
  const CopyCounts copies = ty_cuda_copies();
  set_number(L, "copies", copies.beside);
  set_number(L, "ahead", copies.ahead);
  return 1;
}

/* spans_start(): what goes to devices is noted from now on */
static int l_spans_start(lua_State *L) {
  (void)L;
  ty_cuda_spans_start();
  return 0;
}

/* spans_stop() -> a list of numbers, eleven for each span: 1 on the stream of copies, device, kind, begin, end (seconds of the engine's clock); kind,
** plan, step and site as profile_stop has them; 1 where it was interpreted; bytes or kernels; and how many were lost */
static int l_spans_stop(lua_State *L) {
  i32 n;
  i64 lost;
  int at = 0;
  const Span *s = ty_cuda_spans_stop(&n, &lost);
  lua_newtable(L);
  for (const Span *end = s + n; s < end; s++) {
    const SpanLabel *l = &s->label;
    const bool copies = s->stream != ty_cuda_all[s->device].stream;
    const double v[] = {copies,      s->device,   s->kind, s->begin * 1e-9, s->end * 1e-9, l->kind,
                        l->plan + 1, l->step + 1, l->site, l->interpreted,  (double)s->n};
    for (size_t k = 0; k < TY_COUNT(v); k++) {
      lua_pushnumber(L, v[k]);
      lua_rawseti(L, -2, ++at);
    }
  }
  lua_pushnumber(L, (lua_Number)lost);
  return 2;
}

/* settle(): waits until all is assembled that was asked for */
static int l_settle(lua_State *L) {
  (void)L;
  ty_assembly_settle();
  return 0;
}

TY_EXPORT int luaopen_tycho_cuda(lua_State *L) {
  static const luaL_Reg fns[] = {{"open", l_open},
                                 {"count", l_count},
                                 {"about", l_about},
                                 {"trim", l_trim},
                                 {"limit", l_limit},
                                 {"cache", l_cache},
                                 {"launches", l_launches},
                                 {"settle", l_settle},
                                 {"spans_start", l_spans_start},
                                 {"spans_stop", l_spans_stop},
                                 {NULL, NULL}};
  lua_newtable(L);
  for (const luaL_Reg *f = fns; f->name; f++) {
    lua_pushcfunction(L, f->func);
    lua_setfield(L, -2, f->name);
  }
  return 1;
}
