/*
** complex.c -- operations on complex tensors, as operations on the reals that they are views of.
** In: operands of which one at least is complex, as record.c got them. Out: a complex result, whose reals the same
** functions of record.c recorded. Fails as they do; where an operation has no meaning for numbers without an order; and
** where a tensor has no room for one more dim.
**
** 1. The parts are a last dim of two. Dims of an operation keep their numbers, so what acts on both parts alike (moves,
**    sums, copies, casts) is the same operation with one more dim behind.
** 2. What mixes the parts (products, quotients, exp ...) is a composite in lua/tycho/complex.lua.
** 3. A real operand is a complex one whose imaginary part is +0, as in NumPy.
*/
#include "record/complex.h"
#include "record/record.h"

#include <math.h>

static bool become(bool ok, Tensor *y) { return ok && ty_complex_become(y); }

/* A number that both parts are: +0. */
static bool is_zero(const Given *x) {
  return x->kind != O_TENSOR && !x->symbol && x->v == 0 && !signbit(x->v);
}

bool ty_complex_pack(State *S, const Tensor *x, Tensor *y) {
  if (x->strides[x->type.rank - 1] != 1) return become(ty_record_copy(S, x, y), y);
  ty_tensor_view(y, x, &x->type, x->offset, x->strides);
  return ty_complex_become(y);
}

/* Another number of dims behind: an index or a condition, the same for both parts. */
static bool for_parts(State *S, const char *who, const Tensor *x, i64 size, Tensor *y) {
  char sx[SHOWN];
  Type t = x->type;
  i64 strides[MAX_RANK] = {0};
  if (t.rank == MAX_RANK)
    return ty_fail(S, "%s: %s has no room for a dim of real and imaginary parts", who,
                   ty_record_show(&t, sx));
  memcpy(strides, x->strides, sizeof strides);
  strides[t.rank] = 0;
  t.dims[t.rank++] = size;
  ty_tensor_view(y, x, &t, x->offset, strides);
  return true;
}

/* The reals of x as numbers of that complex dtype. */
static bool reals_as(State *S, const char *who, const Tensor *x, int dtype, Tensor *y) {
  Tensor cast = {0};
  bool ok = ty_record_cast(S, x, dtype, &cast) && ty_complex_reals(S, who, &cast, y);
  ty_tensor_release(&cast);
  return ok;
}

/* --- leaves */

/* [v, 0] in every element of t, the reals of complex numbers. */
static bool record_reals(State *S, const Type *t, const Given *x, Tensor *y) {
  Type part = *t;
  Tensor one = {0}, pair[2] = {{0}}, whole = {0};
  const Tensor *two[2] = {&pair[0], &pair[1]};
  const Given zero = {.kind = O_NUMBER};
  part.dtype = (u8)ty_dtype_part(t->dtype);
  bool ok = ty_record_number(S, &part, x, &one) && for_parts(S, "full", &one, 1, &pair[0]) &&
            ty_record_number(S, &pair[0].type, &zero, &pair[1]) &&
            ty_record_cat(S, "full", 2, two, t->rank, y);
  ty_tensor_release(&one);
  for (int i = 0; i < 2; i++) ty_tensor_release(&pair[i]);
  ty_tensor_release(&whole);
  return ok;
}

bool ty_complex_number(State *S, const Type *t, const Given *x, Tensor *y) {
  Type reals;
  if (!ty_complex_type_of_reals(S, "full", t, &reals)) return false;
  if (is_zero(x)) return become(ty_record_full(S, &reals, 0, y), y);
  return become(record_reals(S, t, x, y), y);
}

bool ty_complex_empty(State *S, const Type *t, Tensor *y) {
  Type reals;
  return ty_complex_type_of_reals(S, "empty", t, &reals) &&
         become(ty_record_empty(S, &reals, y), y);
}

/* --- the same operation on the reals */

bool ty_complex_is_linear(int op) {
  return op == OP_NEG || op == OP_ADD || op == OP_SUB || op == OP_WHERE;
}

/* The complex dtype in which tensors meet; numbers are weak. */
static int meet(int n, const Given *src) {
  int d = T_C64;
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR) d = ty_dtype_promote(d, src[i].t->type.dtype);
  return d;
}

/* An operand as the reals of numbers of that dtype; a number on that device. */
static bool operand_reals(State *S, const char *who, const Given *x, int dtype, int device,
                          Tensor *y) {
  const Type one = {.dtype = (u8)dtype, .device = (u8)device};
  if (x->kind == O_TENSOR) return reals_as(S, who, x->t, dtype, y);
  return record_reals(S, &one, x, y);
}

bool ty_complex_map(State *S, const char *who, int op, int n, const Given *src, Tensor *y) {
  const int first = op == OP_WHERE, dtype = meet(n - first, src + first);
  Tensor p[3] = {{0}};
  Given all[3] = {{0}};
  if (!ty_complex_is_linear(op) ||
      (first && src[0].kind == O_TENSOR && ty_tensor_is_complex(src[0].t)))
    return ty_complex_refuse_all(S, who, n, src);
  int device = 0;
  bool ok = true;
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR) device = src[i].t->type.device;
  for (int i = 0; i < n && ok; i++) {
    all[i] = (Given){.kind = O_TENSOR, .t = &p[i]};
    if (i < first && src[i].kind != O_TENSOR) all[i] = src[i];
    else if (i < first) ok = for_parts(S, who, src[i].t, 1, &p[i]);
    else ok = operand_reals(S, who, &src[i], dtype, device, &p[i]);
  }
  ok = ok && ty_record(S, who, op, n, all, y);
  for (int i = 0; i < n; i++) ty_tensor_release(&p[i]);
  return become(ok, y);
}

/* A real x as a complex one, its imaginary parts 0. */
static bool from_real(State *S, const Tensor *x, int dtype, Tensor *y) {
  const char *who = "to";
  Tensor cast = {0}, pair[2] = {{0}};
  const Tensor *two[2] = {&pair[0], &pair[1]};
  bool ok = ty_record_cast(S, x, ty_dtype_part(dtype), &cast) &&
            for_parts(S, who, &cast, 1, &pair[0]) &&
            ty_record_full(S, &pair[0].type, 0, &pair[1]) &&
            ty_record_cat(S, who, 2, two, x->type.rank, y);
  ty_tensor_release(&cast);
  for (int i = 0; i < 2; i++) ty_tensor_release(&pair[i]);
  return become(ok, y);
}

bool ty_complex_cast(State *S, const Tensor *x, int dtype, Tensor *y) {
  Tensor reals = {0};
  if (!ty_tensor_is_complex(x)) return from_real(S, x, dtype, y);
  if (!ty_is_complex(dtype))
    return ty_fail(S, "to: complex numbers do not go into %s (take :real(), :imag() or :abs())",
                   ty_dtypes[dtype].name);
  bool ok =
      ty_complex_reals(S, "to", x, &reals) && ty_record_cast(S, &reals, ty_dtype_part(dtype), y);
  ty_tensor_release(&reals);
  return become(ok, y);
}

bool ty_complex_copy(State *S, const Tensor *x, Tensor *y) {
  Tensor reals = {0};
  bool ok = ty_complex_reals(S, "clone", x, &reals) && ty_record_copy(S, &reals, y);
  ty_tensor_release(&reals);
  return become(ok, y);
}

bool ty_complex_to(State *S, const Tensor *x, int device, Tensor *y) {
  Tensor reals = {0};
  bool ok = ty_complex_reals(S, "to", x, &reals) && ty_record_to(S, &reals, device, y);
  ty_tensor_release(&reals);
  return become(ok, y);
}

bool ty_complex_reduce(State *S, const char *who, int op, const Tensor *x, u32 dims, bool keep,
                       Tensor *y) {
  Tensor reals = {0};
  if (op != OP_SUM) return ty_complex_refuse(S, who, x);
  if (!dims) dims = (1u << x->type.rank) - 1;
  if (!dims) return ty_complex_copy(S, x, y); /* a single number */
  bool ok =
      ty_complex_reals(S, who, x, &reals) && ty_record_reduce(S, who, op, &reals, dims, keep, y);
  ty_tensor_release(&reals);
  return become(ok, y);
}

bool ty_complex_scan(State *S, const char *who, int op, const Tensor *x, int dim, Tensor *y) {
  Tensor reals = {0};
  if (op != OP_CUMSUM) return ty_complex_refuse(S, who, x);
  if (!x->type.rank) return ty_complex_copy(S, x, y);
  bool ok = ty_complex_reals(S, who, x, &reals) && ty_record_scan(S, who, op, &reals, dim, y);
  ty_tensor_release(&reals);
  return become(ok, y);
}

bool ty_complex_gather(State *S, const char *who, const Tensor *x, int dim, const Tensor *index,
                       int base, Tensor *y) {
  Tensor reals = {0}, at = {0};
  bool ok = ty_complex_reals(S, who, x, &reals) && for_parts(S, who, index, 2, &at) &&
            ty_record_gather(S, who, &reals, dim, &at, base, y);
  ty_tensor_release(&reals);
  ty_tensor_release(&at);
  return become(ok, y);
}

bool ty_complex_scatter(State *S, const char *who, int op, const Tensor *x, int dim,
                        const Tensor *index, int base, const Tensor *src, Tensor *y) {
  Tensor reals = {0}, at = {0}, from = {0};
  if (!ty_tensor_is_complex(x))
    return ty_fail(S, "%s: complex numbers do not go into %s", who, ty_dtypes[x->type.dtype].name);
  bool ok = ty_complex_reals(S, who, x, &reals) && for_parts(S, who, index, 2, &at) &&
            reals_as(S, who, src, x->type.dtype, &from) &&
            ty_record_scatter(S, who, op, &reals, dim, &at, base, &from, y);
  ty_tensor_release(&reals);
  ty_tensor_release(&at);
  ty_tensor_release(&from);
  return become(ok, y);
}

bool ty_complex_cat(State *S, const char *who, int n, const Tensor *const *x, int dim, int dtype,
                    Tensor *y) {
  Tensor *p = ty_mem_zalloc((sizeof *p + sizeof p) * (size_t)n);
  const Tensor **list = (const Tensor **)(p + n);
  if (!p) return ty_fail_memory(S, who, 0);
  bool ok = true;
  for (int i = 0; i < n && ok; i++) {
    ok = reals_as(S, who, x[i], dtype, &p[i]);
    list[i] = &p[i];
  }
  ok = ok && ty_record_cat(S, who, n, list, dim, y);
  for (int i = 0; i < n; i++) ty_tensor_release(&p[i]);
  ty_mem_free(p);
  return become(ok, y);
}

bool ty_complex_assign(State *S, const char *who, const Tensor *dst, const Given *x) {
  char sd[SHOWN];
  Tensor to = {0}, from = {0};
  const Given value = {.kind = O_TENSOR, .t = &from};
  if (!ty_tensor_is_complex(dst))
    return ty_fail(S, "%s: complex numbers do not go into %s (take :real(), :imag() or :abs())",
                   who, ty_record_show(&dst->type, sd));
  bool ok = ty_complex_reals(S, who, dst, &to);
  if (ok && is_zero(x)) ok = ty_record_assign(S, who, &to, x);
  else
    ok = ok && operand_reals(S, who, x, dst->type.dtype, dst->type.device, &from) &&
         ty_record_assign(S, who, &to, &value);
  ty_tensor_release(&to);
  ty_tensor_release(&from);
  return ok;
}
