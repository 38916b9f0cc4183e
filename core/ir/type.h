/*
** type.h -- dtypes, promotion, shapes, broadcasting.
** A Type is plain data: two types are equal when their bytes are (unused dims are zero).
*/
#ifndef TY_TYPE_H
#define TY_TYPE_H

#include "base/base.h"

#define MAX_RANK 8

/*  name   bytes kind   computed in; kinds: 'b' bool, 'u' unsigned, 'i' signed, 'f' floating */
#define TY_DTYPES(_) \
  _(BOOL, "bool", 1, 'b', C_I32) \
  _(U8, "u8", 1, 'u', C_I32) \
  _(I8, "i8", 1, 'i', C_I32) \
  _(I16, "i16", 2, 'i', C_I32) \
  _(I32, "i32", 4, 'i', C_I32) \
  _(I64, "i64", 8, 'i', C_I64) \
  _(F16, "f16", 2, 'f', C_F32) \
  _(BF16, "bf16", 2, 'f', C_F32) \
  _(F32, "f32", 4, 'f', C_F32) \
  _(F64, "f64", 8, 'f', C_F64) \
  _(U16, "u16", 2, 'u', C_I32) \
  _(U32, "u32", 4, 'u', C_I64) \
  _(U64, "u64", 8, 'u', C_I64)

/* Pairs of reals, the real part first, as in C, NumPy and PyTorch. They are dtypes of tensors alone: a storage, a node and
** a kernel hold the reals (record/complex.h). */
#define TY_COMPLEX_DTYPES(_) \
  _(C64, "c64", 8, 'c', C_F32) \
  _(C128, "c128", 16, 'c', C_F64)

/* Compute types: what a value is while a kernel holds it. A bool is an i32 that is 0 or 1. Narrow
** integers are wrapped, half floats rounded, after every operation. */
typedef enum { C_I32, C_I64, C_F32, C_F64 } CType;

typedef enum {
#define _(NAME, name, bytes, kind, ctype) T_##NAME,
  TY_DTYPES(_)
#undef _
      T_COUNT
} DType;

enum {
  T_LAST_REAL = T_COUNT - 1,
#define _(NAME, name, bytes, kind, ctype) T_##NAME,
  TY_COMPLEX_DTYPES(_)
#undef _
      T_ALL
};

typedef struct DTypeInfo {
  const char *name;
  u8 bytes;
  char kind;
  u8 ctype;
} DTypeInfo;
extern const DTypeInfo ty_dtypes[T_ALL];

#define DEVICES_MAX 16
extern const char *ty_device_names[DEVICES_MAX]; /* by number; NULL: there is none. See device.h */
int ty_device_find(const char *name);            /* -1 when unknown */

typedef struct Type {
  u8 dtype, rank;
  u8 device; /* its number: 0 the CPU */
  u8 pad[5]; /* zero */
  i64 dims[MAX_RANK];
} Type;

static inline bool ty_is_float(int d) { return ty_dtypes[d].kind == 'f'; }
static inline bool ty_is_complex(int d) { return d >= T_COUNT; }
/* The dtype of real and imaginary part; of a real dtype itself. */
static inline int ty_dtype_part(int d) { return d == T_C64 ? T_F32 : d == T_C128 ? T_F64 : d; }
/* The complex dtype whose parts hold the values of a real one. */
static inline int ty_dtype_complex(int d) { return d == T_F64 || d == T_C128 ? T_C128 : T_C64; }
/* How a kernel and a routine see elements: u16, u32 and u64 as the signed ones of their size, whose bits those of unsigned
** arithmetic are made of (lower_value.h). */
static inline int ty_dtype_stored(int d) {
  return d == T_U16 ? T_I16 : d == T_U32 ? T_I32 : d == T_U64 ? T_I64 : d;
}
/* How many elements of its storage an element is. */
static inline int ty_dtype_width(int d) { return ty_is_complex(d) ? 2 : 1; }
static inline bool ty_is_int(int d) { return ty_dtypes[d].kind == 'i' || ty_dtypes[d].kind == 'u'; }

int ty_dtype_find(const char *name);  /* -1 when unknown */
int ty_dtype_named(const char *name); /* the same, of NumPy's and PyTorch's names too */
int ty_dtype_promote(
    int a, int b); /* the JAX lattice: u8+i8 = i16, u64+i8 = f64, int+f16 = f16, f16+bf16 = f32 */
bool ty_type_equal(const Type *a, const Type *b);
bool ty_type_same_dims(const Type *a, const Type *b);
i64 ty_type_numel(const Type *t); /* at most 2^48: checked where types are made */
bool ty_type_fits(const Type *t); /* dims >= 0 and the product of dims and bytes fits 2^47 */
bool ty_type_broadcast(Type *y, const Type *a); /* y becomes the broadcast of y and a; dtype kept */
int ty_type_print(const Type *t, char *buf,
                  size_t n); /* f32[2,3], f32[2,3]@far; returns the length */

static inline i64 ty_type_bytes(const Type *t) {
  return ty_type_numel(t) * ty_dtypes[t->dtype].bytes;
}

/* Of one dim. */
static inline Type ty_type_line(int dtype, int device, i64 n) {
  return (Type){.dtype = (u8)dtype, .device = (u8)device, .rank = 1, .dims = {n}};
}

/* Strides, in elements of the storage: how far the next one lies along each dim. Those of dims of one element say
** nothing. */
void ty_type_strides(const Type *t, i64 *strides); /* row-major */
/* Those by which x's elements are read as t's, to whose dims x's broadcast: 0 where x repeats. */
void ty_type_expand(const Type *t, const Type *x, const i64 *strides, i64 *y);
/* Where the element at a position in row-major order lies. */
i64 ty_type_offset(const Type *t, const i64 *strides, i64 position);

/* Whether n dims lie in row-major order without gaps, each element being `width` of the storage's. */
static inline bool ty_is_contiguous_by(int n, const i64 *dims, const i64 *strides, i64 width) {
  i64 want = width;
  for (int d = n - 1; d >= 0; d--) {
    if (dims[d] == 0) return true;
    if (strides[d] != want && dims[d] != 1) return false;
    want *= dims[d];
  }
  return true;
}
static inline bool ty_is_contiguous(int n, const i64 *dims, const i64 *strides) {
  return ty_is_contiguous_by(n, dims, strides, 1);
}

/* Walks the elements of a strided tensor in row-major order: where the element lies, from the first. */
typedef struct Walk {
  i64 at[MAX_RANK], offset;
} Walk;

static inline void ty_walk_next(Walk *w, const Type *t, const i64 *strides) {
  for (int d = t->rank - 1; d >= 0; d--) {
    w->offset += strides[d];
    if (++w->at[d] < t->dims[d]) return;
    w->offset -= strides[d] * t->dims[d];
    w->at[d] = 0;
  }
}

/* Half floats, exactly rounded to nearest even; NaN becomes 0x7e00 / 0x7fc0. */
float ty_f16_to_f32(u16 h);
u16 ty_f32_to_f16(float f);
static inline float ty_bf16_to_f32(u16 h) {
  u32 u = (u32)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
u16 ty_f32_to_bf16(float f);

/* Lua's numbers to bits of an element, and back. v is rounded (floats) or saturated (integers, NaN
 * 0). */
void ty_elem_store(int dtype, void *p, double v);
double ty_elem_load(int dtype, const void *p);
void ty_elem_fill(int dtype, void *p, i64 n, double v); /* so n elements, at least one */
bool ty_elem_fits(int dtype, double v);                 /* keeps its value; floats may round */
/* A number rounded as an element would be, as bits of the dtype's compute type. */
u64 ty_elem_scalar(int dtype, double v);

#endif
