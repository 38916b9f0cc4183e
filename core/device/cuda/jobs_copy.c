/*
** jobs_copy.c -- copies within the device: of elements wherever they lie, and of bytes.
** In:  addresses.  Out: a kernel, or the driver's copy. Fails as jobs.c does.
*/
#include "device/cuda/jobs.h"

bool ty_cuda_gather_elements(int dtype, int rank, const i64 *dims, const i64 *strides,
                             const void *from, void *to, Stream *s) {
  static const u8 as[] = {[1] = T_U8, [2] = T_I16, [4] = T_I32, [8] = T_I64};
  const Key key = {.kind = OF_COPY, .dtype = as[ty_dtypes[dtype].bytes]};
  Kernel *k = NULL;
  Launch l = {.ni = (u8)rank};
  i64 n = 1;
  for (int d = rank - 1; d >= 0; d--) {
    l.dims[d] = dims[d];
    l.strides[COPY_FROM][d] = strides[d], l.strides[COPY_TO][d] = n;
    n *= dims[d];
  }
  void *const buf[] = {(void *)(uintptr_t)from, to};
  const Run r = {.launch = &l, .buf = buf, .stream = s};
  return ty_cuda_find(&key, NULL, &k) && ty_cuda_run(k, &r);
}

bool ty_cuda_scale_elements(int dtype, i64 n, double by, void *at, Stream *s) {
  const Key key = {.kind = OF_SCALE, .dtype = (u8)dtype};
  Kernel *k = NULL;
  Launch l = {.ni = 1, .dims = {n}};
  l.strides[COPY_FROM][0] = l.strides[COPY_TO][0] = 1;
  const float narrow = (float)by;
  u64 scalar = 0;
  memcpy(&scalar, dtype == T_F64 ? (const void *)&by : &narrow, (size_t)ty_dtypes[dtype].bytes);
  void *const buf[] = {at, at};
  const Run r = {.launch = &l, .buf = buf, .scalar = &scalar, .stream = s};
  return ty_cuda_find(&key, NULL, &k) && ty_cuda_run(k, &r);
}

bool ty_cuda_fill_elements(i64 n, float v, void *at, Stream *s) {
  const Key key = {.kind = OF_FILL, .dtype = T_F32};
  Kernel *k = NULL;
  Launch l = {.ni = 1, .dims = {n}};
  l.strides[0][0] = 1;
  u64 scalar = 0;
  memcpy(&scalar, &v, sizeof v);
  void *const buf[] = {at};
  const Run r = {.launch = &l, .buf = buf, .scalar = &scalar, .stream = s};
  return ty_cuda_find(&key, NULL, &k) && ty_cuda_run(k, &r);
}

/* Bytes in order. As long as a check may fail a kernel copies them, which leaves what is there then. */
static bool copy_bytes(void *to, const void *from, i64 bytes, Stream *s, const char **err) {
  if (!ty_cuda_checks(s)) return ty_cuda_across(to, from, bytes, err);
  const bool wide = !(((uintptr_t)to | (uintptr_t)from | (u64)bytes) % 4);
  const i64 n = wide ? bytes / 4 : bytes, one = 1;
  return ty_cuda_gather_elements(wide ? T_I32 : T_U8, 1, &n, &one, from, to, s);
}

bool ty_cuda_copy(const Job *j, void *const *buf, Stream *s, const char **err) {
  if (buf[0] == buf[1]) return true; /* the base of what is written in place */
  if (!j->node) return copy_bytes(buf[1], buf[0], j->bytes, s, err);
  const Type *t = &j->node->type;
  return ty_cuda_gather_elements(t->dtype, t->rank, t->dims, j->node->arg.strides, buf[0], buf[1],
                                 s);
}
