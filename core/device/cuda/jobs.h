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
  u8 kind, dtype, flag, dims, way;
  ProductVariant product;
  AttendVariant attend;
} Key;

enum {
  OF_PRODUCT = 1,
  OF_COLUMN,
  OF_COPY,
  OF_SCALE,
  OF_FILL,
  OF_SCATTER,
  OF_POSITIONS,
  OF_POSITIONS_END,
  OF_SIDE_CHECK,
  OF_SORT,
  OF_RADIX,
  OF_SEARCH,
  OF_ATTEND,
  OF_FFT
};

/* Operands of the loop programs of OF_COPY and OF_COLUMN. */
enum { COPY_FROM, COPY_TO, COLUMN_A = 0, COLUMN_B, COLUMN_Y };

/* They are made once and stay. False: out of memory, or the driver refuses a text. */
bool ty_cuda_find(const Key *key, CudaCode *code, Kernel **kernel);

static inline i64 ty_cuda_blocks(i64 count, int threads) {
  return TY_MIN((count - 1) / threads + 1, 32768);
}

static inline i64 ty_cuda_address(const void *p) { return (i64)(uintptr_t)p; }

/* Finds the kernel of a key and launches it; count: of threads that have work. */
bool ty_cuda_run_each(const Key *key, i64 count, int threads, i64 *block);

/* jobs_sort.c, jobs_scatter.c */
bool ty_cuda_sort_takes(const Job *j);
bool ty_cuda_sort(const Job *j, void *const *buf, Stream *s);
bool ty_cuda_search(const Job *j, void *const *buf, Stream *s);
bool ty_cuda_scatter(const Job *j, void *const *buf, Stream *s);

/* Rows of keys and positions in scratch memory, which are sorted by the lowest bytes of the keys. */
typedef struct Radix {
  i64 block[16]; /* ptx_sort.h */
  bool wide;
  void *memory;
  i64 bytes, rows, n;
} Radix;
bool ty_cuda_radix_begin(Radix *r, i64 rows, i64 n, bool wide, Stream *s);
bool ty_cuda_radix(Radix *r, int bytes);
void ty_cuda_radix_end(Radix *r);

/* jobs_attend.c */
bool ty_cuda_attend_takes(const Attend *d);
bool ty_cuda_attend(const Attend *d, void *const *x, char *y, Stream *s, const char **err);

/* jobs_fft.c */
bool ty_cuda_fft_takes(const Job *j);
bool ty_cuda_fft(const Job *j, void *const *buf, Stream *s);

/* --- jobs_copy.c */

/* Elements of so many dims, by strides, in order to `to`. */
bool ty_cuda_gather_elements(int dtype, int rank, const i64 *dims, const i64 *strides,
                             const void *from, void *to, Stream *s);
/* n floats where they lie, times a number. */
bool ty_cuda_scale_elements(int dtype, i64 n, double by, void *at, Stream *s);
/* n floats of f32, all alike. */
bool ty_cuda_fill_elements(i64 n, float v, void *at, Stream *s);
bool ty_cuda_copy(const Job *j, void *const *buf, Stream *s, const char **err);

#endif
