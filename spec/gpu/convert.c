/*
** convert.c -- cvt: between integers, between floats, and across, with every rounding, .sat, .ftz, .relu.
** The general way takes a value as a whole number or as an exact f64; frequent conversions have loops of their own.
** Code.type is what comes out, Code.from what goes in; Code.width the bytes of the register that takes it, Code.n_more those
** of the one that is read.
*/
#include <fenv.h>
#include <math.h>

#include "exec.h"

typedef __int128 Whole;

/* --- what comes in */

static Whole whole_of(uint64_t v, Type type) {
  switch (type) {
  case T_U8: return (uint8_t)v;
  case T_S8: return (int8_t)v;
  case T_U16: return (uint16_t)v;
  case T_S16: return (int16_t)v;
  case T_U32: return (uint32_t)v;
  case T_S32: return (int32_t)v;
  case T_S64: return (int64_t)v;
  default: return v;
  }
}

static double real_of(uint64_t v, Type type) {
  float f;
  double d;
  switch (type) {
  case T_F16: return f16_value((uint16_t)v);
  case T_BF16: return bf16_value((uint16_t)v);
  case T_F32: memcpy(&f, &v, 4); return f;
  default: memcpy(&d, &v, 8); return d;
  }
}

/* --- what goes out */

static Whole lowest(Type t) {
  return type_is_signed(t) ? -((Whole)1 << (type_size(t) * 8 - 1)) : 0;
}
static Whole highest(Type t) { return ((Whole)1 << (type_size(t) * 8 - type_is_signed(t))) - 1; }

static Whole clamp(Whole v, Type t) {
  return v < lowest(t) ? lowest(t) : v > highest(t) ? highest(t) : v;
}

static double integral(double d, int round) {
  switch (round) {
  case ROUND_RN: return nearbyint(d);
  case ROUND_RM: return floor(d);
  case ROUND_RP: return ceil(d);
  default: return trunc(d);
  }
}

static Whole whole_from_real(double d, Type to, Type from, int round) {
  if (d != d) {
    bool zero = from != T_F64 && type_size(to) < 8;
    return zero ? 0 : type_is_signed(to) ? lowest(to) : (Whole)1 << (type_size(to) * 8 - 1);
  }
  d = integral(d, round);
  if (d >= 0x1p64) return highest(to);
  if (d < -0x1p63) return lowest(to);
  return clamp((Whole)d, to);
}

/* A whole number as f64, rounded to odd. */
static double odd_of_whole(Whole v) {
  double high = (double)(int64_t)(v >> 32), low = (double)(uint32_t)v;
  return round_odd_sum(high * 0x1p32, low);
}

static uint64_t bits_of(double d) {
  uint64_t v;
  memcpy(&v, &d, 8);
  return v;
}

static uint64_t real_out(double d, const Code *c) {
  if (c->sat == SAT_ONE) d = d != d || d <= 0 ? 0 : d > 1 ? 1 : d;
  if (c->sat == SAT_RELU && d <= 0) d = 0;
  float f;
  switch (c->type) {
  case T_F16: return f16_round(d, c->round);
  case T_BF16: return bf16_round(d, c->round);
  case T_TF32: f = tf32_round((float)d, c->round); return f32_canonical(f);
  case T_F32:
    f = f32_round(d, c->round);
    if (c->ftz && fabsf(f) < 0x1p-126f) f = copysignf(0, f);
    return f32_canonical(f);
  default: return bits_of(d);
  }
}

static double whole_to_f64(Whole v, int round) {
  fesetround(round == ROUND_RZ   ? FE_TOWARDZERO
             : round == ROUND_RM ? FE_DOWNWARD
             : round == ROUND_RP ? FE_UPWARD
                                 : FE_TONEAREST);
  volatile int64_t s = (int64_t)v;
  volatile uint64_t u = (uint64_t)v;
  volatile double d = v < 0 ? (double)s : (double)u;
  fesetround(FE_TONEAREST);
  return d;
}

static double flushed_in(double d, const Code *c) {
  bool tiny = c->from == T_F32 && fabs(d) < 0x1p-126;
  return c->ftz && tiny ? copysign(0, d) : d;
}

static uint64_t converted(const Code *c, uint64_t v) {
  Type to = (Type)c->type, from = (Type)c->from;
  if (!type_is_float(from)) {
    Whole n = whole_of(v, from);
    if (type_is_float(to))
      return real_out(to == T_F64 ? whole_to_f64(n, c->round) : odd_of_whole(n), c);
    return (uint64_t)(c->sat ? clamp(n, to) : whole_of((uint64_t)n, to));
  }
  double d = flushed_in(real_of(v, from), c);
  if (!type_is_float(to)) return (uint64_t)whole_from_real(d, to, from, c->round);
  if (c->op) d = integral(d, c->op - 1); /* .rni and the like between floats: Code.op is 1 + mode */
  return real_out(d, c);
}

static void put(Warp *w, const Code *c, int lane, uint64_t v) {
  if (c->width == 8) SLOT(uint64_t, 0)[lane] = v;
  else SLOT(uint32_t, 0)
  [lane] = c->width == 2 ? (uint16_t)v : c->width == 1 ? (uint8_t)v : (uint32_t)v;
}

void run_cvt(Warp *w, const Code *c, uint32_t mask) {
  bool wide = c->n_more == 8;
  for (int l = 0; l < WARP; l++)
    if (mask >> l & 1)
      put(w, c, l, converted(c, wide ? SLOT(uint64_t, 1)[l] : SLOT(uint32_t, 1)[l]));
}

/* Two floats to a pair: a is the high half. */
void run_cvt_pack(Warp *w, const Code *c, uint32_t mask) {
  Code half = *c;
  half.type = c->type == T_F16X2 ? T_F16 : T_BF16;
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    uint32_t high = (uint32_t)converted(&half, SLOT(uint32_t, 1)[l]),
             low = (uint32_t)converted(&half, SLOT(uint32_t, 2)[l]);
    SLOT(uint32_t, 0)[l] = high << 16 | low;
  }
}

static inline float real_nan(void) {
  uint32_t bits = 0x7fffffff;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

/* --- frequent ones: between registers of the types' own widths */

#define FAST(NAME, TO, FROM, EXPR) \
  RUN(NAME) { \
    TO *d = SLOT(TO, 0); \
    const FROM *a = SLOT(FROM, 1); \
    LANES(FROM x = a[l]; d[l] = (EXPR);); \
  }

FAST(f32_s32, float, int32_t, (float)x)
FAST(f32_u32, float, uint32_t, (float)x)
FAST(f32_s64, float, int64_t, (float)x)
FAST(f32_u64, float, uint64_t, (float)x)
FAST(f64_s32, double, int32_t, (double)x)
FAST(f64_u32, double, uint32_t, (double)x)
FAST(f64_s64, double, int64_t, (double)x)
FAST(f64_u64, double, uint64_t, (double)x)
FAST(f64_f32, double, float, (double)x)
FAST(f32_f64, float, double, x == x ? (float)x : real_nan())
FAST(s32_f32, int32_t, float,
     x != x         ? 0
     : x >= 0x1p31f ? INT32_MAX
     : x < -0x1p31f ? INT32_MIN
                    : (int32_t)x)
FAST(u32_f32, uint32_t, float, !(x > 0) ? 0 : x >= 0x1p32f ? UINT32_MAX : (uint32_t)x)
FAST(u64_u32, uint64_t, uint32_t, x)
FAST(s64_s32, int64_t, int32_t, x)
FAST(u32_u64, uint32_t, uint64_t, (uint32_t)x)
FAST(u32_u16, uint32_t, uint32_t, (uint16_t)x)
FAST(s32_s16, int32_t, uint32_t, (int16_t)x)
FAST(u16_u32, uint32_t, uint32_t, (uint16_t)x)
FAST(u32_u8, uint32_t, uint32_t, (uint8_t)x)
FAST(s32_s8, int32_t, uint32_t, (int8_t)x)

static inline float exact_f16(uint32_t h) {
  uint32_t sign = (h & 0x8000) << 16, rest = h & 0x7fff;
  uint32_t bits = rest > 0x7c00    ? 0x7fffffff
                  : rest == 0x7c00 ? 0x7f800000
                                   : (rest << 13) + 0x38000000;
  float f, tiny = (float)(int32_t)rest * 0x1p-24f;
  if (rest > 0x7c00) sign = 0;
  memcpy(&f, &bits, 4);
  if (rest < 0x400) f = tiny;
  memcpy(&bits, &f, 4);
  bits |= sign;
  memcpy(&f, &bits, 4);
  return f;
}
FAST(f32_f16, float, uint32_t, exact_f16(x))

static Run *const fast[T_COUNT][T_COUNT] = {
    [T_F32] = {[T_S32] = f32_s32,
               [T_U32] = f32_u32,
               [T_S64] = f32_s64,
               [T_U64] = f32_u64,
               [T_F16] = f32_f16,
               [T_F64] = f32_f64},
    [T_F64] = {[T_S32] = f64_s32,
               [T_U32] = f64_u32,
               [T_S64] = f64_s64,
               [T_U64] = f64_u64,
               [T_F32] = f64_f32},
    [T_U64] = {[T_U32] = u64_u32, [T_S32] = s64_s32},
    [T_S64] = {[T_U32] = u64_u32, [T_S32] = s64_s32},
    [T_U32] = {[T_U64] = u32_u64,
               [T_S64] = u32_u64,
               [T_U16] = u32_u16,
               [T_S16] = s32_s16,
               [T_U8] = u32_u8,
               [T_S8] = s32_s8},
    [T_S32] = {[T_U64] = u32_u64,
               [T_S64] = u32_u64,
               [T_U16] = u32_u16,
               [T_S16] = s32_s16,
               [T_U8] = u32_u8,
               [T_S8] = s32_s8},
    [T_U16] = {[T_U32] = u16_u32, [T_S32] = u16_u32},
    [T_S16] = {[T_U32] = u16_u32, [T_S32] = u16_u32},
};

Run *convert_fast(Type to, Type from, int round, bool sat, bool ftz) {
  if (sat || ftz) return NULL;
  if (from == T_F32 && round == ROUND_RZ && to == T_S32) return s32_f32;
  if (from == T_F32 && round == ROUND_RZ && to == T_U32) return u32_f32;
  if (type_is_float(from) && !type_is_float(to)) return NULL;
  if (type_is_float(to) && round != ROUND_RN) return NULL;
  return fast[to][from];
}
