/*
** half.c -- f16 and bf16: values, rounding of exact values, arithmetic on single halves and on pairs.
** A result is computed exactly, or rounded to odd in f64, and rounded once.
*/
#include <math.h>

#include "exec.h"

static float small_value(uint32_t bits, int exponent_bits, int mantissa_bits) {
  int most = (1 << exponent_bits) - 1, exponent = (int)(bits >> mantissa_bits) & most;
  uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  bool negative = bits >> (exponent_bits + mantissa_bits) & 1;
  float v;
  if (exponent == most) v = mantissa ? NAN : INFINITY;
  else {
    int first = exponent ? exponent : 1;
    if (exponent) mantissa |= 1u << mantissa_bits;
    v = ldexpf((float)mantissa, first - most / 2 - mantissa_bits);
  }
  return negative ? -v : v;
}

float f16_value(uint16_t h) { return small_value(h, 5, 10); }

float bf16_value(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

/* Whether kept + rest, where rest of 2^shift was cut off, goes up. */
static bool rounds_up(uint64_t kept, uint64_t rest, int shift, int round, bool negative) {
  uint64_t half = (uint64_t)1 << (shift - 1);
  switch (round) {
  case ROUND_RN: return rest > half || (rest == half && kept & 1);
  case ROUND_RNA: return rest >= half;
  case ROUND_RM: return rest && negative;
  case ROUND_RP: return rest && !negative;
  default: return false;
  }
}

/* The bits of d in a format of 1 + exponent_bits + mantissa_bits; a NaN has all of them but the sign. */
static uint32_t encode(double d, int exponent_bits, int mantissa_bits, int round) {
  uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  bool negative = signbit(d);
  uint32_t sign = negative ? 1u << (exponent_bits + mantissa_bits) : 0;
  if (d != d) return (1u << (exponent_bits + mantissa_bits)) - 1;
  if (isinf(d)) return sign | infinity;
  if (d == 0) return sign;
  uint64_t bits;
  memcpy(&bits, &d, 8);
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  uint64_t m = bits & (((uint64_t)1 << 52) - 1);
  if (exponent == -1023) exponent = -1022;
  else m |= (uint64_t)1 << 52;
  int least = 2 - (1 << (exponent_bits - 1)), at = exponent > least ? exponent : least;
  int shift = at - mantissa_bits - (exponent - 52);
  if (shift > 62) shift = 62; /* far below half of the smallest */
  uint64_t kept = m >> shift, rest = m & (((uint64_t)1 << shift) - 1);
  uint64_t code = ((uint64_t)(at - least) << mantissa_bits) + kept +
                  rounds_up(kept, rest, shift, round, negative);
  if (code < infinity) return sign | (uint32_t)code;
  bool stays =
      round == ROUND_RZ || (round == ROUND_RM && !negative) || (round == ROUND_RP && negative);
  return sign | (stays ? infinity - 1 : infinity);
}

uint16_t f16_round(double d, int round) { return (uint16_t)encode(d, 5, 10, round); }
uint16_t bf16_round(double d, int round) { return (uint16_t)encode(d, 8, 7, round); }

float f32_round(double d, int round) {
  uint32_t bits = encode(d, 8, 23, round);
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

float tf32_round(float f, int round) {
  uint32_t bits = encode(f, 8, 10, round);
  bits = f != f ? 0x7fffffff : bits << 13;
  memcpy(&f, &bits, 4);
  return f;
}

/* --- arithmetic */

static double lesser(double x, double y, bool nan) {
  if (x != x || y != y) return nan ? NAN : x != x ? y : x;
  return x < y || (x == y && signbit(x)) ? x : y;
}

static double apply(const Code *c, double x, double y, double z) {
  switch (c->op) {
  case R_ADD: return round_odd_sum(x, y);
  case R_SUB: return round_odd_sum(x, -y);
  case R_MUL: return x * y;
  case R_FMA: return round_odd_sum(x * y, z);
  case R_MIN: return lesser(x, y, c->from & NAN_PASSES);
  case R_MAX: return -lesser(-x, -y, c->from & NAN_PASSES);
  case R_EX2: return exp2(x);
  default: return tanh(x);
  }
}

static bool is_tiny(uint16_t h) { return !(h & 0x7c00) && h & 0x3ff; }

static uint16_t apply_half(const Code *c, const uint16_t *v, bool brain) {
  if (c->op == R_ABS || c->op == R_NEG) {
    uint16_t h = c->ftz && is_tiny(v[0]) ? v[0] & 0x8000 : v[0];
    bool nan = (h & 0x7fff) > (brain ? 0x7f80 : 0x7c00);
    return nan ? 0x7fff : c->op == R_ABS ? h & 0x7fff : h ^ 0x8000;
  }
  double x[3];
  for (int i = 0; i < 3; i++) {
    uint16_t h = c->ftz && !brain && is_tiny(v[i]) ? v[i] & 0x8000 : v[i];
    x[i] = brain ? bf16_value(h) : f16_value(h);
  }
  double r = apply(c, x[0], x[1], x[2]);
  if (c->sat == SAT_ONE) r = r != r || r <= 0 ? 0 : r > 1 ? 1 : r;
  if (c->sat == SAT_RELU && r < 0) r = 0;
  uint16_t h = brain ? bf16_round(r, c->round) : f16_round(r, c->round);
  return c->ftz && is_tiny(h) ? h & 0x8000 : h;
}

void run_half(Warp *w, const Code *c, uint32_t mask) {
  bool pair = c->type == T_F16X2 || c->type == T_BF16X2,
       brain = c->type == T_BF16 || c->type == T_BF16X2;
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    uint32_t result = 0;
    for (int part = 0; part <= pair; part++) {
      uint16_t v[3] = {0};
      for (int i = 0; i + 1 < c->n; i++) v[i] = (uint16_t)(SLOT(uint32_t, i + 1)[l] >> (16 * part));
      result |= (uint32_t)apply_half(c, v, brain) << (16 * part);
    }
    SLOT(uint32_t, 0)[l] = result;
  }
}
