/*
** complex_view.c -- complex tensors and their reals as views of each other.
** In: a tensor. Out: a tensor that shares its storage. Fails where dims, dtype or strides do not fit; where a function is
** given complex numbers that are nothing to it.
*/
#include "record/capture.h"
#include "record/complex.h"

#define SHOWN 160

static const char *show(const Type *t, char *buf) {
  ty_type_print(t, buf, SHOWN);
  return buf;
}

bool ty_complex_as_reals(const Tensor *x, Type *t, i64 *strides) {
  *t = x->type;
  memcpy(strides, x->strides, sizeof x->strides);
  if (!ty_tensor_is_complex(x)) return true;
  if (t->rank == MAX_RANK) return false;
  t->dtype = (u8)ty_dtype_part(t->dtype);
  strides[t->rank] = 1;
  t->dims[t->rank++] = 2;
  return true;
}

bool ty_complex_reals(State *S, const char *who, const Tensor *x, Tensor *y) {
  char sx[SHOWN];
  Type t;
  i64 strides[MAX_RANK];
  if (!ty_complex_as_reals(x, &t, strides))
    return ty_fail(S, "%s: %s has no room for a dim of real and imaginary parts (at most %d dims)",
                   who, show(&x->type, sx), MAX_RANK - 1);
  ty_tensor_view(y, x, &t, x->offset, strides);
  return true;
}

void ty_complex_part(const Tensor *x, int part, Tensor *y) {
  Type t = x->type;
  t.dtype = (u8)ty_dtype_part(t.dtype);
  ty_tensor_view(y, x, &t, x->offset + part, x->strides);
}

/* The type of the numbers whose reals have type t. */
static Type type_of_pairs(const Type *t) {
  Type y = *t;
  y.dtype = (u8)ty_dtype_complex(t->dtype);
  y.dims[--y.rank] = 0;
  return y;
}

bool ty_complex_become(Tensor *y) {
  y->type = type_of_pairs(&y->type);
  y->strides[y->type.rank] = 0;
  return true;
}

bool ty_complex_pairs(State *S, const char *who, const Tensor *x, Tensor *y) {
  char sx[SHOWN];
  const Type *t = &x->type;
  if (t->rank == 0 || t->dims[t->rank - 1] != 2 || (t->dtype != T_F32 && t->dtype != T_F64))
    return ty_fail(S,
                   "%s: needs f32 or f64 with a last dim of 2, the real and the imaginary part, "
                   "got %s",
                   who, show(t, sx));
  if (!ty_capture_decide(S, x, NULL)) return false;
  if (x->strides[t->rank - 1] != 1)
    return ty_fail(S,
                   "%s: real and imaginary parts of %s do not lie side by side (use "
                   ":contiguous())",
                   who, show(t, sx));
  const Type own = type_of_pairs(t);
  ty_tensor_view(y, x, &own, x->offset, x->strides);
  return true;
}

bool ty_complex_refuse(State *S, const char *who, const Tensor *x) {
  char sx[SHOWN];
  if (TY_LIKELY(!ty_tensor_is_complex(x))) return true;
  return ty_fail(S,
                 "%s: not for complex numbers, got %s (they have no order; take :real(), :imag() "
                 "or :abs())",
                 who, show(&x->type, sx));
}

bool ty_complex_refuse_all(State *S, const char *who, int n, const Given *src) {
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR && !ty_complex_refuse(S, who, src[i].t)) return false;
  return true;
}

bool ty_complex_type_of_reals(State *S, const char *who, const Type *t, Type *y) {
  char st[SHOWN];
  *y = *t;
  if (t->rank == MAX_RANK)
    return ty_fail(S, "%s: %s has too many dims, complex numbers may have %d", who, show(t, st),
                   MAX_RANK - 1);
  y->dtype = (u8)ty_dtype_part(t->dtype);
  y->dims[y->rank++] = 2;
  return true;
}
