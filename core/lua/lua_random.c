/*
** lua_random.c -- random tensors from Philox4x32-10.
** In: sizes and parameters. Out: tensors whose bits depend on the seed, the number of the call
** since it was set, and an element's position; on nothing else, in every mode.
** Raises on parameters that make no distribution and when out of memory.
**
** A call takes one stream number; words 0-3 of that stream give up to 128 bits an element. A
** uniform number is made of as many top bits as the dtype has in its mantissa, times a power of
** two: it is exact, at least 0 and below 1. All else is arithmetic on those, recorded like any
** operation.
*/
#include <math.h>
#include <stdio.h>
#include "record/complex.h"
#include "lua/lua_calc.h"
#include "lua/lua_view.h"

#define SEED_DEFAULT 0x7963686f /* as the engine's */

/* --- bits to numbers */

/* y = the top n bits of word w as a whole number, i32, at least 0. */
static bool record_bits(State *S, const Type *t, u64 stream, int w, int n, Tensor *y) {
  return ty_record_random(S, t, stream, w, y) && ty_calc_number(S, "rand", OP_RSHIFT, y, 32 - n) &&
         ty_calc_number(S, "rand", OP_AND, y, (double)((1u << n) - 1));
}

/* Mantissa bits, the leading one included, of a float that a uniform number is made for. */
static int mantissa(int dtype) {
  return dtype == T_F64 ? 53 : dtype == T_F16 ? 11 : dtype == T_BF16 ? 8 : 24;
}

/* y in [0, 1) of t's dtype, from word w (f64: and word w + 1). */
static bool record_uniform(State *S, const Type *t, u64 stream, int w, Tensor *y) {
  int n = mantissa(t->dtype);
  if (n < 53)
    return record_bits(S, t, stream, w, n, y) && ty_calc_cast(S, y, t->dtype) &&
           ty_calc_number(S, "rand", OP_MUL, y, ldexp(1, -n));
  Tensor low = {0};
  bool ok = record_bits(S, t, stream, w, 27, y) && ty_calc_cast(S, y, T_F64) &&
            ty_calc_number(S, "rand", OP_MUL, y, ldexp(1, 26)) &&
            record_bits(S, t, stream, w + 1, 26, &low) && ty_calc_cast(S, &low, T_F64) &&
            ty_calc_tensor(S, "rand", OP_ADD, y, &low) &&
            ty_calc_number(S, "rand", OP_MUL, y, ldexp(1, -53));
  ty_tensor_release(&low);
  return ok;
}

/* Box and Muller: sqrt(-2 log(1 - u)) cos(2 pi v). f16 and bf16 are computed in f32. */
static bool record_normal(State *S, const Type *t, u64 stream, Tensor *y) {
  const char *who = "randn";
  Type in = *t;
  Tensor angle = {0};
  if (t->dtype != T_F64) in.dtype = T_F32;
  bool ok = record_uniform(S, &in, stream, 0, y) && ty_calc_from(S, who, OP_SUB, 1, y) &&
            ty_calc_map(S, who, OP_LOG, y) && ty_calc_number(S, who, OP_MUL, y, -2) &&
            ty_calc_map(S, who, OP_SQRT, y) && record_uniform(S, &in, stream, 2, &angle) &&
            ty_calc_number(S, who, OP_MUL, &angle, 2 * 3.14159265358979323846) &&
            ty_calc_map(S, who, OP_COS, &angle) && ty_calc_tensor(S, who, OP_MUL, y, &angle) &&
            ty_calc_cast(S, y, t->dtype);
  ty_tensor_release(&angle);
  return ok;
}

/* --- what is drawn */

typedef enum { D_UNIFORM, D_NORMAL, D_INTEGER } Kind;

typedef struct Draw {
  Kind kind;
  double a, b; /* UNIFORM: from a to b; NORMAL: mean and deviation; INTEGER: from a to b */
} Draw;

static bool record_draw_nodes(State *S, const Draw *d, const Type *t, u64 stream, Tensor *y) {
  const char *who = d->kind == D_UNIFORM ? "uniform" : d->kind == D_NORMAL ? "normal" : "randint";
  Type wide = *t;
  double scale = d->kind == D_UNIFORM ? d->b - d->a : d->b;
  if (d->kind == D_INTEGER) { /* 53 random bits over the span: below it also after rounding */
    wide.dtype = T_F64;
    return record_uniform(S, &wide, stream, 0, y) &&
           ty_calc_number(S, who, OP_MUL, y, d->b - d->a + 1) && ty_calc_map(S, who, OP_FLOOR, y) &&
           ty_calc_number(S, who, OP_ADD, y, d->a) && ty_calc_cast(S, y, t->dtype);
  }
  bool ok =
      d->kind == D_UNIFORM ? record_uniform(S, t, stream, 0, y) : record_normal(S, t, stream, y);
  return ok && (scale == 1 || ty_calc_number(S, who, OP_MUL, y, scale)) &&
         (d->a == 0 || ty_calc_number(S, who, OP_ADD, y, d->a));
}

static bool record_draw(State *S, const Draw *d, const Type *t, u64 stream, Tensor *y) {
  Recording *b = ty_calc_open(S);
  return ty_calc_close(S, b, record_draw_nodes(S, d, t, stream, y), y);
}

/* Both parts are drawn; of a normal number each has half of the variance, as in PyTorch. */
static int push_complex(lua_State *L, State *S, const char *who, const Draw *d, const Type *t) {
  Draw own = *d;
  Type reals;
  Tensor *y = ty_lua_push(L);
  if (own.kind == D_NORMAL) own.b *= 0.70710678118654752440;
  TY_LUA_MUST(L, S, ty_complex_type_of_reals(S, who, t, &reals));
  const u64 stream = ty_stream_next(S);
  TY_LUA_MUST(L, S, record_draw(S, &own, &reals, stream, y) && ty_complex_become(y));
  return ty_lua_created(L, who);
}

static int push_draw(lua_State *L, State *S, const char *who, const Draw *d, const Type *t) {
  if (d->kind != D_INTEGER && ty_is_complex(t->dtype) && d->a == 0)
    return push_complex(L, S, who, d, t);
  if (d->kind != D_INTEGER && !ty_is_float(t->dtype))
    return ty_lua_error(L, "%s: dtype must be a float, got %s", who, ty_dtypes[t->dtype].name);
  for (int i = 0; i < 2 && d->kind == D_INTEGER; i++) {
    double v = i ? d->b : d->a;
    if (!ty_elem_fits(t->dtype, v))
      return ty_lua_error(L, "%s: %.17g does not fit %s", who, v, ty_dtypes[t->dtype].name);
  }
  Tensor *y = ty_lua_push(L);
  u64 stream = ty_stream_next(S);
  TY_LUA_MUST(L, S, record_draw(S, d, t, stream, y));
  return ty_lua_created(L, who);
}

/* x = a draw of its dims; integers when asked for. */
static bool record_draw_into(State *S, const char *who, const Draw *d, const Tensor *x,
                             u64 stream) {
  Tensor y = {0};
  Given value = {.kind = O_TENSOR, .t = &y, .dies = true};
  bool ok = record_draw(S, d, &x->type, stream, &y) && ty_record_assign(S, who, x, &value);
  ty_tensor_release(&y);
  return ok;
}

static int draw_in_place(lua_State *L, const char *who, const Draw *d) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Tensor *x = ty_lua_check(L, who, 1);
  if (!ty_is_float(x->type.dtype))
    return ty_lua_error(L, "%s: needs a float tensor, got %s", who, ty_lua_view_text(L, &x->type));
  u64 stream = ty_stream_next(S);
  TY_LUA_MUST(L, S, record_draw_into(S, who, d, x, stream));
  lua_settop(L, 1);
  return 1;
}

/* --- functions */

/* Sizes and options from the first argument on. */
static int draw_sizes(lua_State *L, const char *who, const Draw *d) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Type t = {.dtype = S->default_dtype, .device = S->default_device};
  ty_lua_options(L, who, ty_lua_sizes(L, who, 1, &t), &t, TY_LUA_CREATION);
  return push_draw(L, S, who, d, &t);
}

static int draw_like(lua_State *L, const char *who, const Draw *d) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Type t = ty_lua_check(L, who, 1)->type;
  ty_lua_options(L, who, 2, &t, TY_LUA_CREATION);
  return push_draw(L, S, who, d, &t);
}

/* Two parameters, sizes as one argument (none: no dims), options. */
static int draw_parameters(lua_State *L, const char *who, const Draw *d, int dtype) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Type t = {.dtype = dtype < 0 ? S->default_dtype : (u8)dtype, .device = S->default_device};
  int opts = 4;
  if (ty_lua_is_options(L, 3)) opts = 3;
  else if (!lua_isnoneornil(L, 3)) ty_lua_shape(L, who, 3, &t);
  ty_lua_options(L, who, opts, &t, TY_LUA_CREATION);
  return push_draw(L, S, who, d, &t);
}

static int l_rand(lua_State *L) { return draw_sizes(L, "rand", &(Draw){D_UNIFORM, 0, 1}); }
static int l_randn(lua_State *L) { return draw_sizes(L, "randn", &(Draw){D_NORMAL, 0, 1}); }
static int l_rand_like(lua_State *L) { return draw_like(L, "rand_like", &(Draw){D_UNIFORM, 0, 1}); }
static int l_randn_like(lua_State *L) {
  return draw_like(L, "randn_like", &(Draw){D_NORMAL, 0, 1});
}

/* Arguments i and i + 1 as bounds; missing ones are 0 and 1. */
static Draw uniform_of(lua_State *L, const char *who, int i) {
  Draw d = {D_UNIFORM, 0, 1};
  if (!lua_isnoneornil(L, i)) d.a = ty_lua_number(L, who, i, "low");
  if (!lua_isnoneornil(L, i + 1)) d.b = ty_lua_number(L, who, i + 1, "high");
  if (!(d.a <= d.b) || !isfinite(d.b - d.a))
    ty_lua_error(L, "%s: no numbers lie from %.17g to %.17g", who, d.a, d.b);
  return d;
}

static Draw normal_of(lua_State *L, const char *who, int i) {
  Draw d = {D_NORMAL, 0, 1};
  if (!lua_isnoneornil(L, i)) d.a = ty_lua_number(L, who, i, "mean");
  if (!lua_isnoneornil(L, i + 1)) d.b = ty_lua_number(L, who, i + 1, "std");
  if (!(d.b >= 0)) ty_lua_error(L, "%s: the standard deviation is %.17g", who, d.b);
  return d;
}

static int l_uniform(lua_State *L) {
  Draw d = uniform_of(L, "uniform", 1);
  return draw_parameters(L, "uniform", &d, -1);
}

static int l_normal(lua_State *L) {
  Draw d = normal_of(L, "normal", 1);
  return draw_parameters(L, "normal", &d, -1);
}

static int l_uniform_in_place(lua_State *L) {
  Draw d = uniform_of(L, "uniform_", 2);
  return draw_in_place(L, "uniform_", &d);
}

static int l_normal_in_place(lua_State *L) {
  Draw d = normal_of(L, "normal_", 2);
  return draw_in_place(L, "normal_", &d);
}

static int l_randint(lua_State *L) {
  const char *who = "randint";
  i64 a = ty_lua_int(L, who, 1, "low"), b = ty_lua_int(L, who, 2, "high");
  if (a > b || b - a >= (i64)1 << 53)
    return ty_lua_error(L, "%s: no numbers to choose from %.17g to %.17g", who, (double)a,
                        (double)b);
  return draw_parameters(L, who, &(Draw){D_INTEGER, (double)a, (double)b}, T_I64);
}

/* y = (u < p) in the dtype; p a number or a tensor of t's dims. */
static bool record_bernoulli(State *S, const Type *t, const Given *p, u64 stream, Tensor *y) {
  Type wide = *t;
  if (!ty_is_float(t->dtype)) wide.dtype = S->default_dtype;
  Tensor u = {0};
  Given src[2] = {{.kind = O_TENSOR, .t = &u}, *p};
  bool ok = record_draw(S, &(Draw){D_UNIFORM, 0, 1}, &wide, stream, &u) &&
            ty_record(S, "bernoulli", OP_LT, 2, src, y) && ty_calc_cast(S, y, t->dtype);
  ty_tensor_release(&u);
  if (!ok) ty_tensor_release(y);
  return ok;
}

/* bernoulli(p, sizes, opts), or bernoulli(probabilities, opts). */
static int l_bernoulli(lua_State *L) {
  const char *who = "bernoulli";
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Given p = ty_lua_given(L, who, 1);
  Type t = {.dtype = S->default_dtype, .device = S->default_device};
  int opts = 2;
  if (p.kind == O_TENSOR) {
    t = p.t->type;
    if (!ty_is_float(t.dtype))
      return ty_lua_error(L, "%s: probabilities must be floats, got %s", who,
                          ty_lua_view_text(L, &t));
  } else {
    if (!(p.v >= 0 && p.v <= 1))
      return ty_lua_error(L, "%s: a probability lies from 0 to 1, got %.17g", who, p.v);
    if (!lua_isnoneornil(L, 2) && !ty_lua_is_options(L, 2)) ty_lua_shape(L, who, opts++, &t);
    else if (lua_isnil(L, 2)) opts++;
  }
  ty_lua_options(L, who, opts, &t, "dtype device");
  Tensor *y = ty_lua_push(L);
  u64 stream = ty_stream_next(S);
  TY_LUA_MUST(L, S, record_bernoulli(S, &t, &p, stream, y));
  return 1;
}

/* 1..n in random order: what sorts n random numbers of 62 bits. */
static bool record_randperm(State *S, const Type *t, u64 stream, Tensor *y) {
  const char *who = "randperm";
  Type key = ty_type_line(T_I64, t->device, t->dims[0]);
  Tensor high = {0}, low = {0}, order = {0};
  bool ok = record_bits(S, &key, stream, 0, 31, &high) && ty_calc_cast(S, &high, T_I64) &&
            ty_calc_number(S, who, OP_LSHIFT, &high, 31) &&
            record_bits(S, &key, stream, 1, 31, &low) && ty_calc_cast(S, &low, T_I64) &&
            ty_calc_tensor(S, who, OP_OR, &high, &low) &&
            ty_record_argsort(S, &high, 0, false, -1, &order) &&
            ty_calc_number(S, who, OP_ADD, &order, 1) && ty_calc_cast(S, &order, t->dtype);
  ty_tensor_release(&high);
  ty_tensor_release(&low);
  if (ok) *y = order;
  else ty_tensor_release(&order);
  return ok;
}

static int l_randperm(lua_State *L) {
  const char *who = "randperm";
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  i64 n = ty_lua_int(L, who, 1, "count");
  Type t = ty_type_line(T_I64, S->default_device, n);
  if (n < 0) return ty_lua_error(L, "%s: the count is %.17g", who, (double)n);
  ty_lua_options(L, who, 2, &t, "dtype device");
  Tensor *y = ty_lua_push(L);
  u64 stream = ty_stream_next(S);
  TY_LUA_MUST(L, S, record_randperm(S, &t, stream, y));
  return 1;
}

/* --- categories by weight */

/* With replacement: where uniform numbers fall among the running sums of the weights. */
static bool record_multinomial(State *S, const Tensor *p, const Type *t, u64 stream, Tensor *y) {
  const char *who = "multinomial";
  int last = p->type.rank - 1;
  i64 k = p->type.dims[last];
  Type wide = *t, end = p->type;
  i64 strides[MAX_RANK];
  Tensor w = {0}, sums = {0}, total = {0}, u = {0}, at = {0};
  wide.dtype = end.dtype = T_F64;
  end.dims[last] = 1;
  bool ok = ty_record_cast(S, p, T_F64, &w) && ty_record_scan(S, who, OP_CUMSUM, &w, last, &sums);
  if (ok) {
    memcpy(strides, sums.strides, sizeof strides);
    ty_tensor_view(&total, &sums, &end, sums.offset + (k - 1) * strides[last], strides);
  }
  ok = ok && record_draw(S, &(Draw){D_UNIFORM, 0, 1}, &wide, stream, &u) &&
       ty_calc_tensor(S, who, OP_MUL, &u, &total) &&
       ty_record_searchsorted(S, &sums, &u, true, &at) &&
       ty_calc_number(S, who, OP_MINIMUM, &at, (double)(k - 1)) &&
       ty_calc_number(S, who, OP_ADD, &at, 1);
  ty_tensor_release(&w);
  ty_tensor_release(&sums);
  ty_tensor_release(&total);
  ty_tensor_release(&u);
  if (ok) *y = at;
  else ty_tensor_release(&at);
  return ok;
}

/* Without: the n that come first when each category waits -log(1 - u) / weight. */
static bool record_race(State *S, const Tensor *p, i64 n, u64 stream, Tensor *y) {
  const char *who = "multinomial";
  int last = p->type.rank - 1;
  Type wide = p->type;
  Tensor wait = {0}, order = {0};
  wide.dtype = T_F64;
  bool ok = record_draw(S, &(Draw){D_UNIFORM, 0, 1}, &wide, stream, &wait) &&
            ty_calc_from(S, who, OP_SUB, 1, &wait) && ty_calc_map(S, who, OP_LOG, &wait) &&
            ty_calc_map(S, who, OP_NEG, &wait) && ty_calc_tensor(S, who, OP_DIV, &wait, p) &&
            ty_record_argsort(S, &wait, last, false, n, &order) &&
            ty_calc_number(S, who, OP_ADD, &order, 1);
  ty_tensor_release(&wait);
  if (ok) *y = order;
  else ty_tensor_release(&order);
  return ok;
}

/* Argument i: true, false, or {replacement =}. */
static bool replacement_of(lua_State *L, const char *who, int i) {
  if (lua_isnoneornil(L, i)) return false;
  if (lua_isboolean(L, i)) return lua_toboolean(L, i);
  if (!lua_istable(L, i))
    ty_lua_error(L, "%s: argument %d (replacement) must be a boolean, got %s", who, i,
                 ty_lua_show(L, i));
  lua_getfield(L, i, "replacement");
  if (!lua_isboolean(L, -1)) ty_lua_error(L, "%s: known options: replacement", who);
  return lua_toboolean(L, -1);
}

/* multinomial(weights, n, replacement) */
static int l_multinomial(lua_State *L) {
  const char *who = "multinomial";
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Tensor *p = ty_lua_check(L, who, 1);
  int rank = p->type.rank;
  if (rank < 1 || !ty_is_float(p->type.dtype))
    return ty_lua_error(L, "%s: weights must be floats with at least one dim, got %s", who,
                        ty_lua_view_text(L, &p->type));
  i64 n = ty_lua_int(L, who, 2, "count"), k = p->type.dims[rank - 1];
  bool replacement = replacement_of(L, who, 3);
  if (n < 0 || k == 0 || (!replacement && n > k))
    return ty_lua_error(L, "%s: cannot draw %.17g of %s%s", who, (double)n,
                        ty_lua_view_text(L, &p->type), replacement ? "" : " without replacement");
  Type t = p->type;
  t.dtype = T_I64;
  t.dims[rank - 1] = n;
  if (!ty_type_fits(&t)) return ty_lua_error(L, "%s: too many elements", who);
  Tensor *y = ty_lua_push(L);
  u64 stream = ty_stream_next(S);
  TY_LUA_MUST(L, S,
              replacement ? record_multinomial(S, p, &t, stream, y)
                          : record_race(S, p, n, stream, y));
  return 1;
}

/* manual_seed(seed); without one the default. */
static int l_manual_seed(lua_State *L) {
  State *S = ty_lua_enter(L);
  S->seed = lua_isnoneornil(L, 1) ? SEED_DEFAULT : (u64)ty_lua_int(L, "manual_seed", 1, "seed");
  S->stream = 0;
  return 0;
}

/* random_state(state = nil) -> state: where the numbers stand, as text of 32 digits. */
static int l_random_state(lua_State *L) {
  State *S = ty_lua_enter(L);
  char text[40];
  unsigned long long seed, stream;
  if (!lua_isnoneornil(L, 1)) {
    size_t n = 0;
    const char *s = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &n) : "";
    if (n != 32 || strspn(s, "0123456789abcdef") != 32 ||
        sscanf(s, "%16llx%16llx", &seed, &stream) != 2)
      return ty_lua_error(L, "random_state: argument 1 must be what random_state() gave, got %s",
                          ty_lua_show(L, 1));
    S->seed = seed;
    S->stream = stream;
  }
  snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)S->seed,
           (unsigned long long)S->stream);
  lua_pushstring(L, text);
  return 1;
}

void ty_lua_open_random(lua_State *L, int m, int t) {
  static const LuaFunction fns[] = {
      {"manual_seed", l_manual_seed, 'm', "seed",
       "begins the random numbers of that seed; without one those of a fresh start"},
      {"random_state", l_random_state, 'm', "state = nil",
       "where the random numbers stand, as text; given such a text, goes on from there"},
      {"rand", l_rand, 'm', "sizes..., {dtype, device}", "uniform numbers from 0 to below 1"},
      {"randn", l_randn, 'm', "sizes..., {dtype, device}",
       "normal numbers of mean 0 and deviation 1"},
      {"rand_like", l_rand_like, 'b', "x, {dtype, device}",
       "uniform numbers from 0 to below 1 in the shape and dtype of x"},
      {"randn_like", l_randn_like, 'b', "x, {dtype, device}",
       "normal numbers in the shape and dtype of x"},
      {"randint", l_randint, 'm', "low, high, sizes, {dtype, device}",
       "whole numbers from low to high, both included; i64"},
      {"uniform", l_uniform, 'm', "low, high, sizes, {dtype, device}",
       "uniform numbers from low to high"},
      {"normal", l_normal, 'm', "mean, std, sizes, {dtype, device}",
       "normal numbers of that mean and deviation"},
      {"uniform_", l_uniform_in_place, 'b', "x, low = 0, high = 1",
       "writes uniform numbers to x, returns it"},
      {"normal_", l_normal_in_place, 'b', "x, mean = 0, std = 1",
       "writes normal numbers to x, returns it"},
      {"bernoulli", l_bernoulli, 'b', "p, sizes, {dtype, device}",
       "1 with probability p, else 0; p may be a tensor, which gives the sizes"},
      {"randperm", l_randperm, 'm', "n, {dtype, device}", "1 to n in random order; i64"},
      {"multinomial", l_multinomial, 'b', "weights, n, replacement = false",
       "n positions along the last dim, drawn by weight; weights at least 0, not all 0"},
      {NULL, NULL, 0, NULL, NULL}};
  ty_lua_define(L, m, t, fns);
}
