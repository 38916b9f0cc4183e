/*
** type.c -- dtypes, promotion, shapes, broadcasting; elements to numbers and back.
** In: types whose dims were checked by ty_type_fits.  Out: types, strides, text, bits.
** Only what says so can fail. Conversions of floats are done on bits: the embedder may have set
** flush-to-zero or another rounding, and neither may reach an element.
*/
#include "ir/type.h"

#include <stdarg.h>
#include <stdio.h>

const DTypeInfo ty_dtypes[T_ALL] = {
#define _(NAME, name, bytes, kind, ctype) [T_##NAME] = {name, bytes, kind, ctype},
    TY_DTYPES(_) TY_COMPLEX_DTYPES(_)
#undef _
};

int ty_dtype_find(const char *name) {
  for (int d = 0; d < T_ALL; d++)
    if (!strcmp(ty_dtypes[d].name, name)) return d;
  return -1;
}

int ty_dtype_named(const char *name) {
  static const struct {
    const char *name;
    int dtype;
  } others[] = {
      {"float32", T_F32},     {"float64", T_F64}, {"float16", T_F16},  {"bfloat16", T_BF16},
      {"float", T_F32},       {"double", T_F64},  {"half", T_F16},     {"int64", T_I64},
      {"int32", T_I32},       {"int16", T_I16},   {"int8", T_I8},      {"uint8", T_U8},
      {"long", T_I64},        {"int", T_I32},     {"short", T_I16},    {"byte", T_U8},
      {"uint16", T_U16},      {"uint32", T_U32},  {"uint64", T_U64},   {"complex64", T_C64},
      {"complex128", T_C128}, {"cfloat", T_C64},  {"cdouble", T_C128},
  };
  for (int i = 0; i < TY_COUNT(others); i++)
    if (!strcmp(others[i].name, name)) return others[i].dtype;
  return ty_dtype_find(name);
}

const char *ty_device_names[DEVICES_MAX] = {"cpu"};

int ty_device_find(const char *name) {
  const char *at; /* read before what ty_devices has there: names come last */
  for (int d = 0; d < DEVICES_MAX; d++) {
    if (!(at = __atomic_load_n(&ty_device_names[d], __ATOMIC_ACQUIRE))) return -1;
    if (!strcmp(at, name)) return d;
  }
  return -1;
}

/* The enum is in ascending order within a kind, so a maximum joins all but two pairs; u16 to u64 stand apart. */
_Static_assert(T_BOOL < T_U8 && T_U8 < T_I8 && T_I8 < T_I16 && T_I16 < T_I32 && T_I32 < T_I64 &&
                   T_I64 < T_F16 && T_F16 < T_BF16 && T_BF16 < T_F32 && T_F32 < T_F64,
               "promotion relies on the order of dtypes");

/* Where one is u16, u32 or u64: of integers the smallest one that holds both, f64 where there is none. */
static int promote_unsigned(int a, int b) {
  const bool wide = a >= T_U16 && a <= T_U64;
  const int u = wide ? a : b, other = wide ? b : a, bytes = ty_dtypes[u].bytes;
  if (!ty_is_int(other)) return other == T_BOOL ? u : other;
  if (ty_dtypes[other].kind == 'u') return ty_dtypes[other].bytes > bytes ? other : u;
  if (ty_dtypes[other].bytes > bytes) return other;
  return bytes == 2 ? T_I32 : bytes == 4 ? T_I64 : T_F64;
}

int ty_dtype_promote(int a, int b) {
  int low = TY_MIN(a, b), high = TY_MAX(a, b);
  if ((high >= T_U16 && high <= T_U64) || (low >= T_U16 && low <= T_U64))
    return promote_unsigned(a, b);
  if (ty_is_complex(high)) return low == T_F64 ? T_C128 : high;
  if (low == T_U8 && high == T_I8) return T_I16;    /* neither holds the other's values */
  if (low == T_F16 && high == T_BF16) return T_F32; /* one has the precision, one the range */
  return high;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

bool ty_type_equal(const Type *a, const Type *b) { return !memcmp(a, b, sizeof *a); }

bool ty_type_same_dims(const Type *a, const Type *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]);
}

i64 ty_type_numel(const Type *t) {
  i64 n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dims[i];
  return n;
}

/* Empty dims count as 1, so that strides of an empty type cannot overflow either. */
bool ty_type_fits(const Type *t) {
  i64 bytes = ty_dtypes[t->dtype].bytes;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] < 0 || !ty_mul(bytes, TY_MAX(t->dims[i], 1), &bytes)) return false;
    if (bytes > (i64)1 << 47) return false;
  }
  return true;
}

void ty_type_strides(const Type *t, i64 *strides) {
  i64 n = ty_dtype_width(t->dtype);
  for (int i = t->rank - 1; i >= 0; i--) {
    strides[i] = n;
    n *= TY_MAX(t->dims[i], 1);
  }
}

void ty_type_expand(const Type *t, const Type *x, const i64 *strides, i64 *y) {
  int gap = t->rank - x->rank;
  for (int d = 0; d < t->rank; d++)
    y[d] = d >= gap && x->dims[d - gap] == t->dims[d] ? strides[d - gap] : 0;
}

i64 ty_type_offset(const Type *t, const i64 *strides, i64 position) {
  i64 at = 0;
  for (int d = t->rank - 1; d >= 0; d--) {
    at += position % t->dims[d] * strides[d];
    position /= t->dims[d];
  }
  return at;
}

/* False when the dims do not go together or the result does not fit; y is then as it was. */
bool ty_type_broadcast(Type *y, const Type *a) {
  Type t = *y;
  t.rank = TY_MAX(y->rank, a->rank);
  for (int i = 1; i <= t.rank; i++) {
    i64 p = i <= y->rank ? y->dims[y->rank - i] : 1;
    i64 q = i <= a->rank ? a->dims[a->rank - i] : 1;
    if (p != q && p != 1 && q != 1) return false;
    t.dims[t.rank - i] = p == 1 ? q : p;
  }
  if (!ty_type_fits(&t)) return false;
  *y = t;
  return true;
}

/* Appends to buf of size n at `at` and returns the new length, counting what found no room. */
static int __attribute__((format(printf, 4, 5)))
put(char *buf, size_t n, int at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t used = TY_MIN((size_t)at, n);
  int length = vsnprintf(n ? buf + used : NULL, n - used, format, args);
  va_end(args);
  return at + TY_MAX(length, 0);
}

int ty_type_print(const Type *t, char *buf, size_t n) {
  int at = put(buf, n, 0, "%s[", ty_dtypes[t->dtype].name);
  for (int i = 0; i < t->rank; i++)
    at = put(buf, n, at, i ? ",%lld" : "%lld", (long long)t->dims[i]);
  return put(buf, n, at, t->device ? "]@%s" : "]", ty_device_names[t->device]);
}

/* ---- floats by their bits -------------------------------------------------------------------- */

static inline u32 bits32(float f) {
  u32 u;
  memcpy(&u, &f, 4);
  return u;
}

static inline float float32(u32 u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

static inline u64 bits64(double d) {
  u64 u;
  memcpy(&u, &d, 8);
  return u;
}

static inline double float64(u64 u) {
  double d;
  memcpy(&d, &u, 8);
  return d;
}

float ty_f16_to_f32(u16 h) {
  u32 sign = (u32)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
  if (e == 31) return float32(sign | 0x7f800000 | m << 13 | (m ? 0x400000 : 0)); /* NaN: quiet */
  if (e) return float32(sign | (e + 112) << 23 | m << 13);
  if (!m) return float32(sign);
  u32 up = (u32)__builtin_clz(m) - 21; /* shifts the first one to bit 10; normal in f32 */
  return float32(sign | (113 - up) << 23 | (m << up & 0x3ff) << 13);
}

u16 ty_f32_to_f16(float f) {
  u32 u = bits32(f), a = u & 0x7fffffff;
  u16 sign = (u16)(u >> 16 & 0x8000);
  if (a > 0x7f800000) return 0x7e00;
  if (a >= 0x477ff000) return sign | 0x7c00; /* from half a step above the largest: infinity */
  if (a >= 0x38800000) {                     /* normal: rebias, round; a carry moves the exponent */
    a -= 112u << 23;
    return sign | (u16)((a + 0xfff + (a >> 13 & 1)) >> 13);
  }
  if (a <= 0x33000000) return sign; /* up to half of the least denormal, the tie being even */
  u32 m = (a & 0x7fffff) | 0x800000, down = 126 - (a >> 23); /* 14 .. 24 */
  u32 half = 1u << (down - 1);
  return sign | (u16)((m + half - 1 + (m >> down & 1)) >> down);
}

u16 ty_f32_to_bf16(float f) {
  u32 u = bits32(f);
  if ((u & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* The bits of v in a format of `e` exponent and `m` mantissa bits, rounded once; NaN is quiet and
** positive. Going by way of f32 would round twice. */
static u32 narrow(double v, int e, int m) {
  u64 u = bits64(v), a = u & ~((u64)1 << 63);
  u32 sign = (u32)(u >> 63) << (e + m), inf = ((1u << e) - 1) << m;
  if (a > 0x7ffull << 52) return inf | 1u << (m - 1);
  int exponent = (int)(a >> 52) - 1023 + (1 << (e - 1)) - 1; /* in the narrow format */
  int down = 52 - m + (exponent < 1 ? 1 - exponent : 0);
  if (exponent >= (1 << e) - 1) return sign | inf;
  if (down > 53) return sign; /* below half of the least denormal, or 0 */
  u64 q = (a & (((u64)1 << 52) - 1)) | (u64)1 << 52;
  u64 y = (q + ((u64)1 << (down - 1)) - 1 + (q >> down & 1)) >> down;
  /* A normal y has its first one at bit m; adding the exponent less 1 lets carries through. */
  if (exponent > 1) y += (u64)(exponent - 1) << m;
  return sign | (u32)y;
}

/* f32 to double, exactly: the instruction would take a denormal for 0 under the thread's flags. */
static double widen(float f) {
  u32 u = bits32(f), m = u & 0x7fffff;
  if (u >> 23 & 255 || !m) return (double)f;
  u32 up = (u32)__builtin_clz(m) - 8;
  u64 y = (u64)(u >> 31) << 63 | (u64)(1023 - 126 - up) << 52;
  return float64(y | (u64)(m << up & 0x7fffff) << 29);
}

/* ---- elements and numbers -------------------------------------------------------------------- */

static i64 saturate(double v, i64 low, i64 high) {
  if (v != v) return 0;
  if (v <= (double)low) return low;
  if (v >= (double)high) return high; /* (double)INT64_MAX is 2^63: all below converts */
  return (i64)v;
}

#define STORE(type, value) \
  do { \
    type y_ = (type)(value); \
    memcpy(p, &y_, sizeof y_); \
  } while (0)

void ty_elem_store(int dtype, void *p, double v) {
  switch ((DType)dtype) {
  case T_BOOL: STORE(u8, (bits64(v) << 1) != 0); break; /* by bits: denormals are true */
  case T_U8: STORE(u8, saturate(v, 0, UINT8_MAX)); break;
  case T_I8: STORE(i8, saturate(v, INT8_MIN, INT8_MAX)); break;
  case T_I16: STORE(i16, saturate(v, INT16_MIN, INT16_MAX)); break;
  case T_I32: STORE(i32, saturate(v, INT32_MIN, INT32_MAX)); break;
  case T_I64: STORE(i64, saturate(v, INT64_MIN, INT64_MAX)); break;
  case T_U16: STORE(u16, saturate(v, 0, UINT16_MAX)); break;
  case T_U32: STORE(u32, saturate(v, 0, UINT32_MAX)); break;
  case T_U64:
    STORE(u64, v >= 0x1p64 ? UINT64_MAX : v >= 0x1p63 ? (u64)v : (u64)saturate(v, 0, INT64_MAX));
    break;
  case T_F16: STORE(u16, narrow(v, 5, 10)); break;
  case T_BF16: STORE(u16, narrow(v, 8, 7)); break;
  case T_F32: STORE(u32, narrow(v, 8, 23)); break;
  case T_F64: STORE(u64, v != v ? 0x7ff8ull << 48 : bits64(v)); break;
  case T_COUNT: break;
  }
}

void ty_elem_fill(int dtype, void *p, i64 n, double v) {
  const size_t bytes = (size_t)ty_dtypes[dtype].bytes, all = (size_t)n * bytes;
  ty_elem_store(dtype, p, v);
  for (size_t done = bytes; done < all; done *= 2) /* twice as many each time */
    memcpy((char *)p + done, p, TY_MIN(done, all - done));
}

#define LOAD(type) (*(type *)memcpy(&(type){0}, p, sizeof(type)))

double ty_elem_load(int dtype, const void *p) {
  switch ((DType)dtype) {
  case T_BOOL: return LOAD(u8) != 0;
  case T_U8: return LOAD(u8);
  case T_I8: return LOAD(i8);
  case T_I16: return LOAD(i16);
  case T_I32: return LOAD(i32);
  case T_I64: return (double)LOAD(i64);
  case T_U16: return LOAD(u16);
  case T_U32: return LOAD(u32);
  case T_U64: return (double)LOAD(u64);
  case T_F16: return widen(ty_f16_to_f32(LOAD(u16)));
  case T_BF16: return widen(ty_bf16_to_f32(LOAD(u16)));
  case T_F32: return widen(LOAD(float));
  case T_F64: return LOAD(double);
  case T_COUNT: break;
  }
  return 0;
}

bool ty_elem_fits(int dtype, double v) {
  u64 raw = 0;
  if (ty_is_float(dtype) || ty_is_complex(dtype)) return true;
  ty_elem_store(dtype, &raw, v);
  return ty_elem_load(dtype, &raw) == v;
}

u64 ty_elem_scalar(int dtype, double v) {
  u64 raw = 0, bits = 0;
  ty_elem_store(dtype, &raw, v);
  int own = ty_dtypes[dtype].ctype, wide = own == C_F32 ? T_F32 : T_I32;
  if (dtype == wide || own == C_I64 || own == C_F64) return raw;
  ty_elem_store(wide, &bits, ty_elem_load(dtype, &raw)); /* narrow: exact in its compute type */
  return bits;
}
