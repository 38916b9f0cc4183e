/*
** oracle.c -- what operations should give, written a second time: slowly, obviously, and from the definitions alone.
** Independent of the library: it shares no line and no header with it, only names of operations and of dtypes.
** Elementwise maths in binary128, integers in 64 bits, conversions by rounding binary128; reductions, scans and
** products in the literal canonical orders. Called through FFI by the specs; unknown names give -1.
*/
#define _GNU_SOURCE /* glibc's functions of _Float128, which x86-64 and aarch64 have */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#ifdef _WIN32 /* libquadmath has them there */
#include <quadmath.h>
#define acosf128 acosq
#define acoshf128 acoshq
#define asinf128 asinq
#define asinhf128 asinhq
#define atanf128 atanq
#define atan2f128 atan2q
#define atanhf128 atanhq
#define cbrtf128 cbrtq
#define ceilf128 ceilq
#define copysignf128 copysignq
#define cosf128 cosq
#define coshf128 coshq
#define erff128 erfq
#define erfcf128 erfcq
#define expf128 expq
#define exp2f128 exp2q
#define expm1f128 expm1q
#define fabsf128 fabsq
#define floorf128 floorq
#define fmodf128 fmodq
#define frexpf128 frexpq
#define hypotf128 hypotq
#define ldexpf128 ldexpq
#define lgammaf128 lgammaq
#define logf128 logq
#define log10f128 log10q
#define log1pf128 log1pq
#define log2f128 log2q
#define nanf128 nanq
#define powf128 powq
#define rintf128 rintq
#define sinf128 sinq
#define sinhf128 sinhq
#define sqrtf128 sqrtq
#define tanf128 tanq
#define tanhf128 tanhq
#define truncf128 truncq
#define HUGE_VAL_F128 HUGE_VALQ
#endif

typedef _Float128 q;

/* Those of math.h are not for binary128 everywhere. */
static bool is_negative(q v) { return copysignf128(1, v) < 0; }
static bool is_infinite(q v) { return v == HUGE_VAL_F128 || v == -HUGE_VAL_F128; }

/* --- dtypes: how an element is stored */

typedef struct Format {
  const char *name;
  int bytes;
  char kind;          /* b u i f */
  int mantissa, emin; /* floats: bits with the hidden one; exponent of the smallest normal */
  q max;
} Format;

static const Format formats[] = {
    {"bool", 1, 'b', 0, 0, 1},
    {"u8", 1, 'u', 0, 0, 255},
    {"i8", 1, 'i', 0, 0, 127},
    {"i16", 2, 'i', 0, 0, 32767},
    {"i32", 4, 'i', 0, 0, 2147483647},
    {"i64", 8, 'i', 0, 0, 9223372036854775807},
    {"u16", 2, 'u', 0, 0, 65535},
    {"u32", 4, 'u', 0, 0, 4294967295},
    {"u64", 8, 'u', 0, 0, 18446744073709551615u},
    {"f16", 2, 'f', 11, -14, 65504},
    {"bf16", 2, 'f', 8, -126, 0x1.fep127f128},
    {"f32", 4, 'f', 24, -126, 0x1.fffffep127f128},
    {"f64", 8, 'f', 53, -1022, 0x1.fffffffffffffp1023f128},
};

static const Format *format_of(const char *dtype) {
  for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++)
    if (!strcmp(formats[i].name, dtype)) return &formats[i];
  abort();
}

/* v rounded once to the format, to nearest even; out of range becomes infinity. */
static q round_to(const Format *f, q v) {
  if (v != v || is_infinite(v) || v == 0) return v;
  int e;
  frexpf128(v, &e); /* |v| in [2^(e-1), 2^e) */
  int step = (e - 1 < f->emin ? f->emin : e - 1) - f->mantissa + 1;
  q y = ldexpf128(rintf128(ldexpf128(v, -step)), step);
  if (fabsf128(y) > f->max) return copysignf128(HUGE_VAL_F128, v);
  return y == 0 ? copysignf128(0, v) : y;
}

/* The bits of a value that the format holds exactly: built from sign, exponent and fraction. */
static uint64_t float_bits(const Format *f, q v) {
  int width = f->bytes * 8, fraction = f->mantissa - 1;
  uint64_t sign = (uint64_t)is_negative(v) << (width - 1);
  uint64_t top = (((uint64_t)1 << (width - 1 - fraction)) - 1) << fraction; /* exponent all ones */
  if (v != v) return top | (uint64_t)1 << (fraction - 1);
  if (is_infinite(v)) return sign | top;
  if (v == 0) return sign;
  int e;
  q m = frexpf128(fabsf128(v), &e);
  if (e - 1 < f->emin) return sign | (uint64_t)ldexpf128(m, e - f->emin + fraction);
  uint64_t part = (uint64_t)ldexpf128(m, f->mantissa) - ((uint64_t)1 << fraction);
  return sign | (uint64_t)(e - f->emin) << fraction | part;
}

static q float_value(const Format *f, uint64_t u) {
  int width = f->bytes * 8, fraction = f->mantissa - 1;
  uint64_t part = u & (((uint64_t)1 << fraction) - 1);
  uint64_t exponent = u >> fraction & (((uint64_t)1 << (width - 1 - fraction)) - 1);
  q v;
  if (exponent == ((uint64_t)1 << (width - 1 - fraction)) - 1)
    v = part ? nanf128("") : HUGE_VAL_F128;
  else if (exponent == 0) v = ldexpf128((q)part, f->emin - fraction);
  else v = ldexpf128((q)(part | (uint64_t)1 << fraction), (int)exponent - 1 + f->emin - fraction);
  return u >> (width - 1) & 1 ? -v : v;
}

static uint64_t get_bits(const Format *f, const void *p, int64_t i) {
  uint64_t u = 0;
  memcpy(&u, (const char *)p + i * f->bytes, (size_t)f->bytes);
  return u;
}

static void set_bits(const Format *f, void *p, int64_t i, uint64_t u) {
  memcpy((char *)p + i * f->bytes, &u, (size_t)f->bytes);
}

/* Whether elements are above what an int64_t holds. */
static bool is_u64(const Format *f) { return f->kind == 'u' && f->bytes == 8; }

/* The element as a signed number (not of floats), of u64 its bits. */
static int64_t get_int(const Format *f, const void *p, int64_t i) {
  uint64_t u = get_bits(f, p, i);
  int unused = 64 - f->bytes * 8;
  return f->kind == 'i' ? (int64_t)(u << unused) >> unused : (int64_t)u;
}

static q get(const Format *f, const void *p, int64_t i) {
  if (f->kind == 'f') return float_value(f, get_bits(f, p, i));
  return is_u64(f) ? (q)get_bits(f, p, i) : (q)get_int(f, p, i);
}

/* Stores v as a conversion does: floats round, integers cut towards zero and saturate, NaN gives 0.
 */
static void put(const Format *f, void *p, int64_t i, q v) {
  if (f->kind == 'f') {
    set_bits(f, p, i, float_bits(f, round_to(f, v)));
    return;
  }
  if (f->kind == 'b') {
    set_bits(f, p, i, v != 0); /* NaN is not 0 */
    return;
  }
  q low = f->kind == 'u' ? 0 : -f->max - 1;
  q t = v != v ? 0 : v < low ? low : v > f->max ? f->max : truncf128(v);
  set_bits(f, p, i, f->kind == 'u' ? (uint64_t)t : (uint64_t)(int64_t)t);
}

/* Stores a double that IEEE's own conversion takes to the format: what is normal there, and 0. */
static int put_normal(const Format *f, void *p, int64_t i, double x) {
  int normal = x == 0 || (fabs(x) >= 0x1p-126 && fabs(x) <= 0x1.fffffep127);
  if (!normal || f->kind != 'f' || f->bytes < 4) return 0;
  if (f->bytes == 8) {
    memcpy((char *)p + i * 8, &x, 8);
  } else {
    float y = (float)x;
    memcpy((char *)p + i * 4, &y, 4);
  }
  return 1;
}

/* n doubles to elements, and back. */
EXPORT void oracle_store(const char *dtype, const double *x, int64_t n, void *y) {
  const Format *f = format_of(dtype);
  for (int64_t i = 0; i < n; i++)
    if (!put_normal(f, y, i, x[i])) put(f, y, i, x[i]);
}

/* LuaJIT takes a NaN with a sign and other bits, as it lies in memory, for a value of another type: each becomes NAN. */
EXPORT void oracle_load(const char *dtype, const void *x, int64_t n, double *y) {
  const Format *f = format_of(dtype);
  bool f64 = f->kind == 'f' && f->bytes == 8;
  if (f64) memcpy(y, x, (size_t)n * 8);
  for (int64_t i = 0; i < n; i++) {
    if (!f64) y[i] = (double)get(f, x, i);
    if (isnan(y[i])) y[i] = NAN;
  }
}

/* n integers to elements, wrapped. */
EXPORT void oracle_store_int(const char *dtype, const int64_t *x, int64_t n, void *y) {
  const Format *f = format_of(dtype);
  for (int64_t i = 0; i < n; i++) set_bits(f, y, i, f->kind == 'b' ? x[i] != 0 : (uint64_t)x[i]);
}

/* Conversion from any dtype to any other. Integers to integers keep the low bits. */
EXPORT void oracle_cast(const char *from, const char *to, const void *x, int64_t n, void *y) {
  const Format *f = format_of(from), *t = format_of(to);
  for (int64_t i = 0; i < n; i++) {
    if (f->kind != 'f' && (t->kind == 'i' || t->kind == 'u'))
      set_bits(t, y, i, (uint64_t)get_int(f, x, i));
    else put(t, y, i, get(f, x, i));
  }
}

/* First element in which two buffers differ, NaNs being one value; -1: none. */
EXPORT int64_t oracle_differ(const char *dtype, const void *a, const void *b, int64_t n) {
  const Format *f = format_of(dtype);
  if (!memcmp(a, b, (size_t)(n * f->bytes))) return -1;
  for (int64_t i = 0; i < n; i++) {
    uint64_t u = get_bits(f, a, i), v = get_bits(f, b, i);
    if (u == v) continue;
    if (f->kind != 'f') return i;
    q s = float_value(f, u), t = float_value(f, v);
    if (s == s || t == t) return i;
  }
  return -1;
}

/* --- elementwise maths in binary128 */

typedef q Unary(q);
typedef q Binary(q, q);

static q q_neg(q x) { return -x; }
static q q_exp2(q x) { return exp2f128(x); }
static q q_sigmoid(q x) { return x < -11000 ? expf128(x) : 1 / (1 + expf128(-x)); }
static q q_round(q x) { return copysignf128(rintf128(x), x); }

/* The inverse of erf: bisection, then Newton's steps. */
static q q_erfinv(q y) {
  if (y != y || y < -1 || y > 1) return nanf128("");
  if (y == 1 || y == -1) return copysignf128(HUGE_VAL_F128, y);
  if (y == 0) return y;
  q lo = 0, hi = 9, t = fabsf128(y), half_root_pi = 0.886226925452758013649083741670572591f128;
  if (t < 1e-20f128) return y * half_root_pi;
  for (int i = 0; i < 24; i++) {
    q mid = (lo + hi) / 2;
    if (t < 0.5f128 ? erff128(mid) < t : erfcf128(mid) > 1 - t) lo = mid;
    else hi = mid;
  }
  q x = (lo + hi) / 2;
  for (int i = 0; i < 5; i++) {
    q wrong = t < 0.5f128 ? erff128(x) - t : (1 - t) - erfcf128(x);
    x -= wrong * half_root_pi * expf128(x * x);
  }
  return copysignf128(x, y);
}

static q q_add(q a, q b) { return a + b; }
static q q_sub(q a, q b) { return a - b; }
static q q_mul(q a, q b) { return a * b; }
static q q_div(q a, q b) { return a / b; }

/* The sign of the divisor; a remainder of zero has it too. */
static q q_remainder(q a, q b) {
  q r = fmodf128(a, b);
  if (r != r) return r;
  if (r == 0) return copysignf128(0, b);
  return (r < 0) != (b < 0) ? (is_infinite(b) ? b : r + b) : r;
}

static q q_floor_divide(q a, q b) {
  if (b == 0) return a / b;
  q r = fmodf128(a, b), whole = (a - r) / b; /* a whole number, or too large to matter */
  if (r != 0 && (r < 0) != (b < 0)) whole = rintf128(whole) - 1;
  return whole == 0 ? copysignf128(0, a / b) : rintf128(whole);
}

static q q_maximum(q a, q b) {
  if (a != a || b != b) return nanf128("");
  return a > b || (a == b && !is_negative(a)) ? a : b;
}

static q q_minimum(q a, q b) {
  if (a != a || b != b) return nanf128("");
  return a < b || (a == b && is_negative(a)) ? a : b;
}

/* A NaN counts as positive. */
static q q_copysign(q a, q b) { return copysignf128(a, b != b ? 1 : b); }

static const struct {
  const char *name;
  Unary *fn;
} unary[] = {
    {"neg", q_neg},       {"abs", fabsf128},      {"ceil", ceilf128},     {"floor", floorf128},
    {"round", q_round},   {"trunc", truncf128},   {"sqrt", sqrtf128},     {"exp", expf128},
    {"exp2", q_exp2},     {"expm1", expm1f128},   {"log", logf128},       {"log2", log2f128},
    {"log10", log10f128}, {"log1p", log1pf128},   {"sin", sinf128},       {"cos", cosf128},
    {"tan", tanf128},     {"asin", asinf128},     {"acos", acosf128},     {"atan", atanf128},
    {"sinh", sinhf128},   {"cosh", coshf128},     {"tanh", tanhf128},     {"asinh", asinhf128},
    {"acosh", acoshf128}, {"atanh", atanhf128},   {"erf", erff128},       {"erfinv", q_erfinv},
    {"cbrt", cbrtf128},   {"lgamma", lgammaf128}, {"sigmoid", q_sigmoid},
};

static const struct {
  const char *name;
  Binary *fn;
} binary[] = {
    {"add", q_add},           {"sub", q_sub},         {"mul", q_mul},
    {"div", q_div},           {"fmod", fmodf128},     {"pow", powf128},
    {"atan2", atan2f128},     {"hypot", hypotf128},   {"floor_divide", q_floor_divide},
    {"maximum", q_maximum},   {"minimum", q_minimum}, {"remainder", q_remainder},
    {"copysign", q_copysign},
};

static q evaluate(const char *name, q a, q b, int *known) {
  *known = 1;
  for (unsigned i = 0; i < sizeof unary / sizeof *unary; i++)
    if (!strcmp(unary[i].name, name)) return unary[i].fn(a);
  for (unsigned i = 0; i < sizeof binary / sizeof *binary; i++)
    if (!strcmp(binary[i].name, name)) return binary[i].fn(a, b);
  *known = 0;
  return 0;
}

/* How far a result is from the exact value, in units of the last place of that value's binade. */
static double distance(q want, q got, const Format *f) {
  if (want != want) return got != got ? 0 : HUGE_VAL;
  if (got != got) return HUGE_VAL;
  if (want == 0 && got == 0) return is_negative(want) == is_negative(got) ? 0 : HUGE_VAL;
  if (is_infinite(want) && is_infinite(got)) return (want < 0) == (got < 0) ? 0 : HUGE_VAL;
  if (is_infinite(want)) return HUGE_VAL;
  int e = f->emin + 1;
  if (want != 0) frexpf128(want, &e);
  int step = (e - 1 < f->emin ? f->emin : e - 1) - f->mantissa + 1;
  if (is_infinite(got))
    got = copysignf128(ldexpf128(f->max, 0) + ldexpf128(1, 1 - f->mantissa) * f->max, got);
  if (fabsf128(want) > f->max && fabsf128(got) > f->max)
    return (want < 0) == (got < 0) ? 0 : HUGE_VAL;
  return (double)fabsf128(ldexpf128(want - got, -step));
}

/* Largest distance in ulp of n results from the exact ones; *worst is its position. -1: no such operation.
** a, b and got are elements of the dtype. A zero must have the sign of an exact zero. */
EXPORT double oracle_ulp(const char *name, const char *dtype, int64_t n, const void *a,
                         const void *b, const void *got, int64_t *worst) {
  const Format *f = format_of(dtype);
  double most = 0;
  *worst = 0;
  for (int64_t i = 0; i < n; i++) {
    int known;
    q want = evaluate(name, get(f, a, i), b ? get(f, b, i) : 0, &known);
    if (!known) return -1;
    double d = distance(want, get(f, got, i), f);
    if (d > most) {
      most = d;
      *worst = i;
    }
  }
  return most;
}

/* Distances of results from given values. */
EXPORT double oracle_distance(const char *dtype, double want, double got) {
  return distance(want, got, format_of(dtype));
}

EXPORT double oracle_value(const char *name, double a, double b) {
  int known;
  return (double)evaluate(name, a, b, &known);
}

/* --- integers: 64 bits that wrap */

static uint64_t int_power(uint64_t a, uint64_t n) {
  uint64_t y = 1;
  for (; n; n >>= 1, a *= a)
    if (n & 1) y *= a;
  return y;
}

/* Power with a negative exponent: 1 / a^-n, cut towards zero; of 0 as a division by 0. */
static int64_t int_pow(int64_t a, int64_t n) {
  if (n >= 0) return (int64_t)int_power((uint64_t)a, (uint64_t)n);
  return a == 1 ? 1 : a == -1 ? (n & 1 ? -1 : 1) : 0;
}

static int64_t int_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b;
}

static int64_t int_remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

static int64_t int_floor_divide(int64_t a, int64_t b) {
  int64_t r = int_remainder(a, b);
  return int_divide(a, b) - (r != 0 && (r < 0) != (b < 0));
}

static int64_t int_modulo(int64_t a, int64_t b) {
  int64_t r = int_remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* y = op(a, b) for n elements; -1: no such operation on integers. Comparisons: y is bool. */
EXPORT int oracle_int(const char *name, const char *dtype, int64_t n, const void *pa,
                      const void *pb, void *y) {
  const Format *f = format_of(dtype), *out = f;
  int width = f->bytes * 8;
  if (!strcmp(name, "eq") || !strcmp(name, "ne") || !strcmp(name, "lt") || !strcmp(name, "le"))
    out = format_of("bool");
  for (int64_t i = 0; i < n; i++) {
    int64_t a = get_int(f, pa, i), b = pb ? get_int(f, pb, i) : 0;
    uint64_t u = (uint64_t)a, v = (uint64_t)b, r;
    const bool wide = is_u64(f), less = wide ? u < v : a < b;
    int64_t inside = wide ? v < 64 : b >= 0 && b < width;
    if (!strcmp(name, "neg")) r = 0 - u;
    else if (wide && (!strcmp(name, "abs"))) r = u;
    else if (wide && !strcmp(name, "floor_divide")) r = v ? u / v : 0;
    else if (wide && (!strcmp(name, "remainder") || !strcmp(name, "fmod"))) r = v ? u % v : 0;
    else if (wide && !strcmp(name, "pow")) r = int_power(u, v);
    else if (wide && !strcmp(name, "rshift")) r = inside ? u >> v : 0;
    else if (!strcmp(name, "abs")) r = a < 0 ? 0 - u : u;
    else if (!strcmp(name, "ceil") || !strcmp(name, "floor") || !strcmp(name, "round") ||
             !strcmp(name, "trunc"))
      r = u;
    else if (!strcmp(name, "bitwise_not")) r = f->kind == 'b' ? !u : ~u;
    else if (!strcmp(name, "add")) r = u + v;
    else if (!strcmp(name, "sub")) r = u - v;
    else if (!strcmp(name, "mul")) r = u * v;
    else if (!strcmp(name, "floor_divide")) r = (uint64_t)int_floor_divide(a, b);
    else if (!strcmp(name, "remainder")) r = (uint64_t)int_modulo(a, b);
    else if (!strcmp(name, "fmod")) r = (uint64_t)int_remainder(a, b);
    else if (!strcmp(name, "pow")) r = (uint64_t)int_pow(a, b);
    else if (!strcmp(name, "maximum")) r = less ? v : u;
    else if (!strcmp(name, "minimum")) r = less ? u : v;
    else if (!strcmp(name, "lshift")) r = inside ? u << b : 0;
    else if (!strcmp(name, "rshift")) r = (uint64_t)(a >> (inside ? b : 63));
    else if (!strcmp(name, "bitwise_and")) r = u & v;
    else if (!strcmp(name, "bitwise_or")) r = u | v;
    else if (!strcmp(name, "bitwise_xor")) r = u ^ v;
    else if (!strcmp(name, "eq")) r = a == b;
    else if (!strcmp(name, "ne")) r = a != b;
    else if (!strcmp(name, "lt")) r = less;
    else if (!strcmp(name, "le")) r = less || u == v;
    else return -1;
    set_bits(out, y, i, out->kind == 'b' ? r != 0 : r);
  }
  return 0;
}

/* Comparisons of floats. */
EXPORT int oracle_compare(const char *name, const char *dtype, int64_t n, const void *pa,
                          const void *pb, uint8_t *y) {
  const Format *f = format_of(dtype);
  for (int64_t i = 0; i < n; i++) {
    q a = get(f, pa, i), b = get(f, pb, i);
    if (!strcmp(name, "eq")) y[i] = a == b;
    else if (!strcmp(name, "ne")) y[i] = a != b;
    else if (!strcmp(name, "lt")) y[i] = a < b;
    else if (!strcmp(name, "le")) y[i] = a <= b;
    else return -1;
  }
  return 0;
}

/* --- reductions and scans in their canonical orders
** Values are worked on as doubles; `single` rounds each step to f32, in which f16 and bf16 are computed too. */

enum { SUM, PROD };

static double join(int kind, int single, double a, double b) {
  double y = kind == SUM ? a + b : a * b;
  if (!single) return y;
  float x = (float)a, z = (float)b;
  return kind == SUM ? x + z : x * z;
}

/* Lanes of blocks first .. first + count - 1: the left part is the largest power of two below the
 * count. */
static void tree(int kind, int single, int lanes, double *blocks, int64_t count) {
  if (count < 2) return;
  int64_t left = 1;
  while (left * 2 < count) left *= 2;
  tree(kind, single, lanes, blocks, left);
  tree(kind, single, lanes, blocks + left * lanes, count - left);
  for (int j = 0; j < lanes; j++)
    blocks[j] = join(kind, single, blocks[j], blocks[left * lanes + j]);
}

/* One run: x[0], x[step], ... n of them. trailing: the last run of the shape. */
static double run(int kind, int single, int trailing, int64_t n, const double *x, int64_t step) {
  int lanes = trailing ? (single ? 64 : 32) : 4, block = trailing ? 4096 : 256;
  double none = kind == SUM ? -0.0 : 1.0;
  if (n == 0) return kind == SUM ? 0.0 : 1.0;
  int64_t count = (n + block - 1) / block;
  double *acc = malloc(sizeof *acc * (size_t)(count * lanes));
  for (int64_t i = 0; i < count * lanes; i++) acc[i] = none;
  for (int64_t i = 0; i < n; i++) {
    double *to = &acc[i / block * lanes + i % block % lanes];
    *to = join(kind, single, *to, x[i * step]);
  }
  tree(kind, single, lanes, acc, count);
  for (int s = lanes / 2; s > 0; s /= 2)
    for (int j = 0; j < s; j++) acc[j] = join(kind, single, acc[j], acc[j + s]);
  double y = acc[0];
  free(acc);
  return y;
}

/* y[o, i] = reduction of x[o, r, i] over r. The run is trailing when `trailing` says so (then inner
 * is 1). */
EXPORT void oracle_reduce(const char *name, int single, int trailing, int64_t outer, int64_t n,
                          int64_t inner, const double *x, double *y) {
  int kind = !strcmp(name, "sum") ? SUM : PROD;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++)
      y[o * inner + i] = run(kind, single, trailing, n, x + o * n * inner + i, inner);
}

/* Scan of one line: groups of 16 by doubling distances, a carry between groups, blocks of 4096 and
 * an offset. */
EXPORT void oracle_scan(const char *name, int single, int64_t n, const double *x, double *y) {
  int kind = !strcmp(name, "cumsum") ? SUM : PROD;
  double offset = 0;
  for (int64_t block = 0; block < n; block += 4096) {
    int64_t end = block + 4096 < n ? block + 4096 : n;
    double carry = 0;
    for (int64_t group = block; group < end; group += 16) {
      double now[16], next[16];
      int64_t m = end - group < 16 ? end - group : 16;
      for (int64_t i = 0; i < m; i++) now[i] = x[group + i];
      for (int d = 1; d < 16; d *= 2) {
        for (int64_t i = 0; i < m; i++)
          next[i] = i >= d ? join(kind, single, now[i], now[i - d]) : now[i];
        memcpy(now, next, sizeof now);
      }
      for (int64_t i = 0; i < m; i++)
        y[group + i] = group == block ? now[i] : join(kind, single, now[i], carry);
      carry = y[group + m - 1];
    }
    for (int64_t i = block; block > 0 && i < end; i++) y[i] = join(kind, single, y[i], offset);
    offset = y[end - 1];
  }
}

/* --- products: y[m, n] = sum over k of a[m, k] b[k, n]; doubles that hold the operands' values */

static double fma_step(int single, double a, double b, double c) {
  return single ? fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

static double dot_blocks(int single, int64_t k, const double *a, const double *b, int64_t brs) {
  double y = 0;
  for (int64_t block = 0; block < k; block += 256) {
    double sum = 0;
    for (int64_t i = block; i < k && i < block + 256; i++)
      sum = fma_step(single, a[i], b[i * brs], sum);
    y = block == 0 ? sum : join(SUM, single, y, sum);
  }
  return y;
}

/* One column: the order of a trailing run, with fma in each lane. */
static double dot_lanes(int single, int64_t k, const double *a, const double *b) {
  int lanes = single ? 64 : 32;
  int64_t count = (k + 4095) / 4096;
  if (k == 0) return 0;
  double *acc = calloc((size_t)(count * lanes), sizeof *acc);
  for (int64_t i = 0; i < k; i++) {
    double *to = &acc[i / 4096 * lanes + i % 4096 % lanes];
    *to = fma_step(single, a[i], b[i], *to);
  }
  tree(SUM, single, lanes, acc, count);
  for (int s = lanes / 2; s > 0; s /= 2)
    for (int j = 0; j < s; j++) acc[j] = join(SUM, single, acc[j], acc[j + s]);
  double y = acc[0];
  free(acc);
  return y;
}

EXPORT void oracle_product(int single, int64_t m, int64_t n, int64_t k, const double *a,
                           const double *b, double *y) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      y[i * n + j] =
          n == 1 ? dot_lanes(single, k, a + i * k, b) : dot_blocks(single, k, a + i * k, b + j, n);
}

EXPORT void oracle_product_int(int64_t m, int64_t n, int64_t k, const int64_t *a, const int64_t *b,
                               int64_t *y) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      uint64_t sum = 0;
      for (int64_t l = 0; l < k; l++) sum += (uint64_t)a[i * k + l] * (uint64_t)b[l * n + j];
      y[i * n + j] = (int64_t)sum;
    }
}

/* --- random numbers: Philox4x32-10 as its authors define it */

EXPORT void oracle_philox(const uint32_t *counter, const uint32_t *key, uint32_t *y) {
  uint32_t c[4], k[2];
  memcpy(c, counter, sizeof c);
  memcpy(k, key, sizeof k);
  for (int round = 0; round < 10; round++) {
    uint64_t p = 0xD2511F53ull * c[0], r = 0xCD9E8D57ull * c[2];
    uint32_t next[4] = {(uint32_t)(r >> 32) ^ c[1] ^ k[0], (uint32_t)r,
                        (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
    memcpy(c, next, sizeof c);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  memcpy(y, c, sizeof c);
}

/* --- the host's floating-point flags: what games and audio hosts do to the thread that calls us */

#if defined(__aarch64__)
enum { FLUSH = 1 << 24 };
static unsigned oracle_flags(void) { return (unsigned)__builtin_aarch64_get_fpcr(); }
static void set_flags(unsigned bits) { __builtin_aarch64_set_fpcr(bits); }
#else
enum { FLUSH = 0x8040 };
static unsigned oracle_flags(void) { return __builtin_ia32_stmxcsr(); }
static void set_flags(unsigned bits) { __builtin_ia32_ldmxcsr(bits); }
#endif

EXPORT int oracle_is_flushing(void) { return (oracle_flags() & FLUSH) == FLUSH; }

EXPORT void oracle_flush_to_zero(int on) {
  unsigned bits = oracle_flags() & ~(unsigned)FLUSH;
  set_flags(on ? bits | FLUSH : bits);
}
