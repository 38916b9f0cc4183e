/*
** lua_settings.c -- settings of a State, and what it has counted.
** In: new values; nothing asks for the current one. Out: the value in force, or tables of numbers.
** Raises on values of the wrong kind. What the machine does not offer gives nil and a message.
*/
#include "device/cpu/cpu.h"
#include "device/cpu/fft.h"
#include "engine/entry.h"
#include "lua/lua_fields.h"
#include "lua/lua_tycho.h"

/* threads(n) */
static int l_threads(lua_State *L) {
  ty_lua_enter(L);
  i64 n = lua_isnoneornil(L, 1) ? 0 : ty_lua_int(L, "threads", 1, "count");
  if (!lua_isnoneornil(L, 1) && (n < 1 || n > 1024))
    return ty_lua_error(L, "threads: the count must be from 1 to 1024, got %lld", (long long)n);
  lua_pushinteger(L, ty_pool_threads((int)n));
  return 1;
}

/* Argument 1 as a switch that may be left out. */
static void read_switch(lua_State *L, const char *who, u8 *value) {
  if (lua_isnoneornil(L, 1)) return;
  if (!lua_isboolean(L, 1))
    ty_lua_error(L, "%s: argument 1 must be a boolean, got %s", who, ty_lua_show(L, 1));
  *value = (u8)lua_toboolean(L, 1);
}

/* blas(on) */
static int l_blas(lua_State *L) {
  State *S = ty_lua_enter(L);
  const char *err = NULL;
  u8 on = S->blas;
  read_switch(L, "blas", &on);
  if (on && !S->blas && !ty_blas_load(&err)) {
    lua_pushnil(L);
    lua_pushfstring(L, "blas: %s", err ? err : "OpenBLAS is not available");
    return 2;
  }
  S->blas = on;
  lua_pushboolean(L, on);
  return 1;
}

/* precision(name) */
static int l_precision(lua_State *L) {
  static const char *const names[] = {"exact", "fast", "tf32"}; /* by REDUCED_* */
  State *S = ty_lua_enter(L);
  if (!lua_isnoneornil(L, 1)) {
    const char *name = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
    int i = 0;
    while (i < TY_COUNT(names) && strcmp(name, names[i])) i++;
    if (i == TY_COUNT(names))
      return ty_lua_error(L,
                          "precision: argument 1 must be \"exact\", \"fast\" or \"tf32\", got %s",
                          ty_lua_show(L, 1));
    S->reduced = (u8)i;
    S->amx = i > 0 && ty_bf16_unit();
  }
  lua_pushstring(L, names[S->reduced]);
  return 1;
}

/* deterministic(on) */
static int l_deterministic(lua_State *L) {
  State *S = ty_lua_enter(L);
  read_switch(L, "deterministic", &S->deterministic);
  lua_pushboolean(L, S->deterministic);
  return 1;
}

/* device(name): of what is made without one */
static int l_device(lua_State *L) {
  State *S = ty_lua_enter(L);
  if (!lua_isnoneornil(L, 1)) {
    if (lua_type(L, 1) != LUA_TSTRING)
      return ty_lua_error(L, "device: argument 1 must be a name such as \"cpu\", got %s",
                          ty_lua_show(L, 1));
    const char *name = lua_tostring(L, 1);
    const int d = ty_lua_device(L, name);
    if (d < 0) {
      lua_pushnil(L);
      lua_pushfstring(L, "device: %s", lua_tostring(L, -2));
      return 2;
    }
    S->default_device = (u8)d;
  }
  lua_pushstring(L, ty_device_names[S->default_device]);
  return 1;
}

/* synchronize() */
static int l_synchronize(lua_State *L) {
  State *S = ty_lua_enter(L);
  const char *err;
  for (int d = 0; d < DEVICES_MAX && ty_devices[d]; d++) {
    S->runs.failed = 0;
    if (ty_devices[d]->wait(&S->runs, &err)) continue;
    ty_device_failed(S, ty_devices[d], err);
    return ty_lua_fail(L, S);
  }
  return 0;
}

/* default_dtype(name) */
static int l_default_dtype(lua_State *L) {
  State *S = ty_lua_enter(L);
  if (!lua_isnoneornil(L, 1)) {
    int dtype = ty_lua_dtype(L, "default_dtype", 1);
    if (!ty_is_float(dtype))
      return ty_lua_error(L, "default_dtype: must be a float, got %s", ty_dtypes[dtype].name);
    S->default_dtype = (u8)dtype;
  }
  lua_pushstring(L, ty_dtypes[S->default_dtype].name);
  return 1;
}

/* --- stats */

static void put_cache(lua_State *L, const char *name, const CacheStats *c) {
  lua_newtable(L);
  set_number(L, "entries", (double)c->entries);
  set_number(L, "bytes", (double)c->bytes);
  set_number(L, "hits", (double)c->hits);
  set_number(L, "misses", (double)c->misses);
  set_number(L, "evictions", (double)c->evictions);
  lua_setfield(L, -2, name);
}

/* fft: the plans of transforms, which all states share. */
static void put_transforms(lua_State *L) {
  const FftStats f = ty_fft_stats();
  put_cache(L, "fft", &(CacheStats){f.entries, f.bytes, f.hits, f.misses, f.evictions});
  lua_getfield(L, -1, "fft");
  set_number(L, "limit", (double)f.limit);
  lua_pop(L, 1);
}

/* Which code runs products of bf16: `bf16_unit` names it, where it is not that of the others; `amx` true,
** or "emulated"; else `no_amx` says why not. */
static void put_amx(lua_State *L, const State *S) {
  const char *refusal = S->reduced ? ty_amx_refusal() : "precision is exact";
  if (S->amx) lua_pushstring(L, ty_bf16_unit()), lua_setfield(L, -2, "bf16_unit");
  if (refusal) lua_pushstring(L, refusal);
  else if (ty_bf16_emulated()) lua_pushliteral(L, "emulated");
  else lua_pushboolean(L, 1);
  lua_setfield(L, -2, refusal ? "no_amx" : "amx");
}

/* memory.checked: blocks that lie beside pages without access, and those for which there are no more. */
static void put_guard(lua_State *L) {
  GuardStats g = ty_guard_stats();
  lua_newtable(L);
  set_number(L, "blocks", (double)(g.blocks - g.crowded));
  set_number(L, "crowded", (double)g.crowded);
  lua_setfield(L, -2, "checked");
}

/* stats() */
static int l_stats(lua_State *L) {
  State *S = ty_lua_enter(L);
  Binding *B = ty_lua_binding(L);
  MemStats mem = ty_mem_stats();
  CacheStats kernels = ty_kernel_stats();
  lua_newtable(L);
  lua_newtable(L);
  set_number(L, "used", (double)mem.buf_used);
  set_number(L, "cached", (double)mem.buf_cached);
  set_number(L, "peak", (double)mem.buf_peak);
  set_number(L, "general", (double)mem.general);
  set_number(L, "tensors", (double)B->handles);
  if (ty_guarded) put_guard(L);
  lua_setfield(L, -2, "memory");
  put_cache(L, "kernels", &kernels);
  set_number(L, "operations", (double)S->nops);
  set_number(L, "views", (double)S->nviews);
  set_number(L, "lazy", (double)S->nlazy);
  set_number(L, "threads", ty_pool_threads(0));
  if (!S->engine) return 1; /* closing */
  put_cache(L, "plans", &S->engine->plans.stats);
  put_cache(L, "panels", &S->engine->panel_stats);
  put_transforms(L);
  set_number(L, "making", (double)S->engine->making * 1e-9);
  set_number(L, "cuts", (double)S->engine->compiled->cuts);
  set_number(L, "relearned", (double)S->engine->compiled->relearned);
  lua_pushstring(L, S->engine->device->machine->name);
  lua_setfield(L, -2, "machine");
  lua_pushstring(L, ty_x64_refusal()); /* nil where it works */
  lua_setfield(L, -2, "no_native");
  put_amx(L, S);
  return 1;
}

void ty_lua_open_settings(lua_State *L, int m, int t) {
  static const LuaFunction fns[] = {
      {"threads", l_threads, 'm', "n = nil", "sets the number of threads; gives it"},
      {"blas", l_blas, 'm', "on = nil",
       "whether OpenBLAS computes large f32 and f64 products, whose last bits may then differ from "
       "machine to machine; nil and a message when it is not there"},
      {"precision", l_precision, 'm', "name = nil",
       "\"exact\", the default: every operation rounds once; \"fast\": products of bf16 may run "
       "on the processor's matrix unit (AMX) or by its dot products (AVX512-BF16), which flush "
       "denormals, and those of half floats on a CUDA device's tensor cores, by cuBLASLt, "
       "attention of theirs by cuDNN, Fourier transforms there by cuFFT; "
       "\"tf32\": "
       "there those of f32 too, whose operands keep 10 bits; compiled equals eager in all"},
      {"deterministic", l_deterministic, 'm', "on = nil",
       "whether only operations whose results repeat exactly are used; they all do on the CPU"},
      {"default_dtype", l_default_dtype, 'm', "name = nil",
       "the float dtype of numbers, and of integers that become floats"},
      {"device", l_device, 'm', "name = nil",
       "the device of tensors that are made without one; nil and a message when it is not there"},
      {"synchronize", l_synchronize, 'm', "",
       "waits until devices have done what they were asked for; raises what went wrong there"},
      {"stats", l_stats, 'm', "",
       "a table: memory in bytes, caches of kernels, plans, packed weights and transforms' tables "
       "(fft: "
       "entries, bytes of at most limit), operations counted"},
      {NULL, NULL, 0, NULL, NULL}};
  ty_lua_define(L, m, t, fns);
  lua_pushliteral(L, TY_VERSION);
  lua_setfield(L, m, "version");
}
