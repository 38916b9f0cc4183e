/*
** jobs.h -- kernels of jobs, by what they are made for.
*/
#ifndef TY_CUDA_JOBS_H
#define TY_CUDA_JOBS_H

#include "device/cuda/cuda.h"
#include "device/cuda/ptx_attend.h"
#include "device/cuda/ptx_product.h"

/* Bytes of it are compared: zero what is not used. */
typedef struct Key {
  u8 kind, dtype, flag, dims;
  ProductVariant product;
  AttendVariant attend;
} Key;

enum {
  OF_PRODUCT = 1,
  OF_COLUMN,
  OF_COPY,
  OF_SCATTER,
  OF_POSITIONS,
  OF_POSITIONS_END,
  OF_SORT,
  OF_SEARCH,
  OF_ATTEND
};

/* They are made once and stay. False: out of memory, or the driver refuses a text. */
bool ty_cuda_find(const Key *key, CudaCode *code, Kernel **kernel);

static inline i64 ty_cuda_blocks(i64 count, int threads) {
  return TY_MIN((count - 1) / threads + 1, 32768);
}

/* jobs_attend.c */
bool ty_cuda_attend_takes(const Attend *d);
bool ty_cuda_attend(const Attend *d, void *const *x, char *y, Stream *s);

#endif
