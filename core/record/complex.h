/*
** complex.h -- tensors of complex numbers, each a pair of reals.
** A complex tensor is a view: its storage holds reals, offset and strides count these, and only the tensor's dtype says
** that two of them that lie side by side are one number. So graphs, kernels, tapes, vmap and devices know reals alone,
** and the gradient of a number is that of its parts: dL/dre + i dL/dim, which is PyTorch's convention.
*/
#ifndef TY_COMPLEX_H
#define TY_COMPLEX_H

#include "record/tensor.h"

static inline bool ty_tensor_is_complex(const Tensor *x) { return ty_is_complex(x->type.dtype); }
/* Dims and strides of x's reals, x's own where it is real. False: it has as many dims as there are. */
bool ty_complex_as_reals(const Tensor *x, Type *t, i64 *strides);
/* x's numbers as a last dim of two reals: a view. False: it has as many dims as there are. */
bool ty_complex_reals(State *S, const char *who, const Tensor *x, Tensor *y);
/* The real parts (0) or the imaginary parts (1) of a complex x: a view. */
void ty_complex_part(const Tensor *x, int part, Tensor *y);
/* x, of f32 or f64 [.., 2] with pairs side by side, as complex numbers: a view. */
bool ty_complex_pairs(State *S, const char *who, const Tensor *x, Tensor *y);
/* The same of reals in any layout: a copy where the pairs lie apart. */
bool ty_complex_pack(State *S, const Tensor *x, Tensor *y);
/* y, contiguous reals [.., 2] that a record has just made, becomes complex; true. And their type for a complex one. */
bool ty_complex_become(Tensor *y);
bool ty_complex_type_of_reals(State *S, const char *who, const Type *t, Type *y);
/* Whether x is of reals; else says that the function does not take complex numbers. */
bool ty_complex_refuse(State *S, const char *who, const Tensor *x);
bool ty_complex_refuse_all(State *S, const char *who, int n, const Given *src);

static inline bool ty_complex_among(int n, const Given *src) {
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR && ty_tensor_is_complex(src[i].t)) return true;
  return false;
}

/* Maps that act on real and imaginary parts alike: NEG ADD SUB WHERE. */
bool ty_complex_is_linear(int op);

/* What record.c, record_move.c and record_write.c do where an operand is complex: by their own functions, on the reals. */
bool ty_complex_map(State *S, const char *who, int op, int n, const Given *src, Tensor *y);
bool ty_complex_cast(State *S, const Tensor *x, int dtype, Tensor *y);
bool ty_complex_copy(State *S, const Tensor *x, Tensor *y);
bool ty_complex_to(State *S, const Tensor *x, int device, Tensor *y);
bool ty_complex_reduce(State *S, const char *who, int op, const Tensor *x, u32 dims, bool keep,
                       Tensor *y);
bool ty_complex_scan(State *S, const char *who, int op, const Tensor *x, int dim, Tensor *y);
bool ty_complex_gather(State *S, const char *who, const Tensor *x, int dim, const Tensor *index,
                       int base, Tensor *y);
bool ty_complex_scatter(State *S, const char *who, int op, const Tensor *x, int dim,
                        const Tensor *index, int base, const Tensor *src, Tensor *y);
bool ty_complex_cat(State *S, const char *who, int n, const Tensor *const *x, int dim, int dtype,
                    Tensor *y);
bool ty_complex_number(State *S, const Type *t, const Given *x, Tensor *y);
bool ty_complex_empty(State *S, const Type *t, Tensor *y);
bool ty_complex_assign(State *S, const char *who, const Tensor *dst, const Given *x);
#endif
