/*
** lua_seam.c -- puts the Seam (lua_seam.h) into the registry.
** In: calls of other shared objects from closures over the State and the metatable. Out: tensors
** and addresses of their elements. Raises or answers NULL as the header says.
*/
#include "lua/lua_seam.h"
#include "ir/call.h"
#include "record/capture.h"
#include "lua/lua_view.h"

/* What other objects do is no part of a trace. */
static void seam_enter(lua_State *L, const char *does) {
  State *S = ty_lua_enter(L);
  if (!S->capture || !does) return;
  ty_capture_refuse(S, does);
  ty_lua_fail(L, S);
}

static int seam_fail(lua_State *L, const char *text) { return ty_lua_error(L, "%s", text); }

static bool seam_is_tensor(lua_State *L, int i) { return ty_lua_test(L, i) != NULL; }

static void *seam_make(lua_State *L, const Type *t) {
  State *S = ty_lua_state(L);
  if (!ty_type_fits(t)) return NULL;
  Type here = *t;
  here.device = 0; /* it is written through its address */
  Tensor *y = ty_lua_push(L);
  if (TY_LUA_TRY(L, S, ty_tensor_from(S, y, &here, NULL))) return y->st->buf->data;
  lua_pop(L, 1);
  return NULL;
}

static bool seam_foreign(lua_State *L, const Type *t, void *data, void (*drop)(void *), void *ctx) {
  State *S = ty_lua_state(L);
  if (!ty_type_fits(t)) return false;
  Tensor *y = ty_lua_push(L);
  if (TY_LUA_TRY(L, S, ty_tensor_foreign(S, y, t, data, (Owner){drop, ctx}))) return true;
  lua_pop(L, 1);
  return false;
}

static const void *elements(lua_State *L, const char *who, int i, Type *t,
                            const void *(*address)(State *, const Tensor *)) {
  State *S = ty_lua_state(L);
  Tensor *x = ty_lua_check(L, who, i);
  if (!ty_tensor_is_contiguous(x)) {
    Tensor *y = ty_lua_push(L);
    TY_LUA_MUST(L, S, ty_record_copy(S, x, y));
    lua_replace(L, i);
    x = y;
  }
  *t = x->type;
  const void *p = address(S, x);
  if (!p) ty_lua_fail(L, S);
  return p;
}

/* What lies on a device is replaced by a copy on the CPU: what ty_tensor_bits gives of it holds for a few reads alone. */
static const void *seam_read(lua_State *L, const char *who, int i, Type *t) {
  State *S = ty_lua_state(L);
  const Tensor *x = ty_lua_check(L, who, i);
  if (x->st->device) {
    TY_LUA_MUST(L, S, ty_record_to(S, x, 0, ty_lua_push(L)));
    lua_replace(L, i);
  }
  return elements(L, who, i, t, ty_tensor_bits);
}

/* What is wrong with it stays here. */
static const void *seam_place(lua_State *L, const char *who, int i, Type *t) {
  State *S = ty_lua_state(L);
  const char *err;
  const void *p = elements(L, who, i, t, ty_tensor_place);
  const Device *d = ty_devices[t->device];
  const Buffer *b = ty_lua_check(L, who, i)->st->buf;
  S->runs.failed = 0;
  if (d->passed && !d->passed(&S->runs, &err)) ty_device_failed(S, d, err);
  else if (!ty_buffer_is_faulty(S, b)) return p;
  ty_lua_fail(L, S);
  return NULL;
}

/* What fails in it is told of the tensor, which begins with it. */
static void *seam_fill(lua_State *L, const char *who, int i, Type *t) {
  State *S = ty_lua_state(L);
  const void *p = seam_place(L, who, i, t);
  Buffer *b = ty_lua_check(L, who, i)->st->buf;
  S->runs = (Stream){.run = ++S->stamps};
  ty_buffer_changed(b);
  b->born = b->stamp;
  return (void *)(uintptr_t)p;
}

static const Device *seam_device(int number) { return ty_devices[number]; }

static bool is_interrupted(void *S) { return ((State *)S)->interrupted((State *)S); }

static CallRun seam_run(lua_State *L) {
  State *S = ty_lua_state(L);
  return (CallRun){.run = S->runs.run,
                   .stream = &S->runs,
                   .interrupted = S->interrupted ? is_interrupted : NULL,
                   .ctx = S};
}

static int seam_calls(lua_State *L) { return ty_record_calls(ty_lua_state(L)); }

static void seam_call(lua_State *L, const char *who, int number, const Type *t, int base, int x) {
  State *S = ty_lua_state(L);
  const Tensor *of = base ? ty_lua_check(L, who, base) : NULL;
  const Tensor *given = x ? ty_lua_check(L, who, x) : NULL;
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_call(S, who, number, t, of, given, y));
}

static const Type *seam_type(lua_State *L, const char *who, int i) {
  return &ty_lua_check(L, who, i)->type;
}

void ty_lua_open_seam(lua_State *L) {
  DeviceRegister *add = ty_device_register;
  void *p;
  memcpy(&p, &add, sizeof p);
  lua_pushlightuserdata(L, p);
  lua_setfield(L, LUA_REGISTRYINDEX, DEVICE_KEY);
  Seam *seam = (Seam *)lua_newuserdata(L, sizeof *seam);
  *seam = (Seam){SEAM_MAGIC,   sizeof *seam, seam_enter, seam_fail,       seam_is_tensor, seam_make,
                 seam_foreign, seam_read,    seam_place, seam_fill,       seam_device,    seam_run,
                 seam_calls,   seam_call,    seam_type,  ty_call_register};
  lua_setfield(L, LUA_REGISTRYINDEX, SEAM_KEY);
}
