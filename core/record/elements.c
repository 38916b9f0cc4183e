/*
** elements.c -- addresses of tensors' elements, for who reads and writes them outside of the engine.
** In: a tensor. Out: the address of its first element; a value that is pending is computed. Fails when out of memory,
** when that fails, in a capture that would have to know the value, and for values that differ from example to example.
*/
#include "record/capture.h"
#include "record/complex.h"
#include "record/vmap.h"

void *ty_vmap_refuse(State *S) {
  ty_fail(S, "vmap: the values of a batched tensor are read or shown to others, but they differ "
             "from example to "
             "example (return it, and read it outside)");
  return NULL;
}

static void *tensor_address(const Tensor *x) {
  return (char *)x->st->buf->data + x->offset * ty_dtypes[x->st->dtype].bytes;
}

/* The address of x's first element, for the CPU to read all of them. */
static const void *tensor_window(State *S, const Tensor *x) {
  const i64 esize = ty_dtypes[x->st->dtype].bytes;
  i64 lo = 0, hi = 0;
  if (TY_LIKELY(x->st->buf->device == ty_cpu)) return tensor_address(x);
  if (!ty_view_span(&x->type, x->offset, x->strides, &lo, &hi)) lo = hi = 0;
  hi += ty_dtype_width(x->type.dtype) - 1;
  const char *p = ty_buffer_read(S, x->st->buf, lo * esize,
                                 TY_MIN((hi - lo + 1) * esize, x->st->buf->bytes - lo * esize));
  return p ? p + (x->offset - lo) * esize : NULL;
}

const void *ty_tensor_read(State *S, const Tensor *x) {
  if (TY_UNLIKELY(!ty_complex_refuse(S, "read", x))) return NULL;
  return ty_tensor_bits(S, x);
}

/* Whether its elements are there. */
static bool tensor_settle(State *S, const Tensor *x) {
  Storage *st = x->st;
  if (TY_UNLIKELY(st->batched != NULL)) return ty_vmap_refuse(S) != NULL;
  if (TY_UNLIKELY(S->capture != NULL) && (st->recording || !ty_capture_is_fresh(S, st))) {
    ty_capture_refuse(S, "reads the elements of a tensor");
    return false;
  }
  return !st->recording || S->cut(S, st->recording, st);
}

const void *ty_tensor_bits(State *S, const Tensor *x) {
  return tensor_settle(S, x) ? tensor_window(S, x) : NULL;
}

const void *ty_tensor_place(State *S, const Tensor *x) {
  return tensor_settle(S, x) ? tensor_address(x) : NULL;
}

static bool may_write(State *S, const Tensor *x) {
  const Storage *st = x->st;
  if (TY_UNLIKELY(st->batched != NULL)) return ty_vmap_refuse(S) != NULL;
  if (TY_LIKELY(S->capture == NULL) || (!st->recording && ty_capture_is_fresh(S, st))) return true;
  return ty_capture_refuse(S, "writes the elements of a tensor one by one");
}

/* The address of x's first element; the storage owns its buffer alone from now on. */
static void *own(State *S, const Tensor *x) {
  Storage *st = x->st;
  if (st->recording && !S->cut(S, st->recording, st)) return NULL;
  ty_storage_touch(st);
  if ((st->buf->refs > 1 || st->buf->foreign) && !st->buf->exposed) {
    Buffer *copy = ty_buffer_copy(S, st->buf);
    if (!copy) return NULL;
    ty_buffer_drop(st->buf);
    st->buf = copy;
  }
  ty_buffer_changed(st->buf);
  st->version++;
  return tensor_address(x);
}

void *ty_tensor_own(State *S, const Tensor *x) { return may_write(S, x) ? own(S, x) : NULL; }

void *ty_tensor_write(State *S, const Tensor *x) {
  if (TY_UNLIKELY(!ty_complex_refuse(S, "write", x)) || !may_write(S, x)) return NULL;
  if (TY_LIKELY(!x->st->device)) return own(S, x);
  ty_fail(S,
          "the elements lie on \"%s\", where they cannot be written one by one (move them with "
          ":to(\"cpu\"))",
          ty_device_names[x->st->device]);
  return NULL;
}

void *ty_tensor_expose(State *S, const Tensor *x) {
  if (!ty_complex_refuse(S, "data", x)) return NULL;
  if (S->capture) {
    ty_capture_refuse(S, "takes the address of a tensor");
    return NULL;
  }
  void *p = ty_tensor_write(S, x);
  if (p) x->st->buf->exposed = true;
  return p;
}
