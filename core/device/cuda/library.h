/*
** library.h -- libraries of CUDA's toolkit, found when they are first wanted.
*/
#ifndef TY_CUDA_LIBRARY_H
#define TY_CUDA_LIBRARY_H

#include "device/cuda/cuda.h"
#include "ir/product.h"

/* Opens what `variable` of the environment names, or else the first of the usual names, up to NULL, that is there and that `take`
** takes. False: there is none; `off` in the environment does without. */
bool ty_cuda_library(const char *variable, const char *const *usual, bool (*take)(void *library));
/* A line on stderr, which TYCHO_LOG=0 keeps back. */
void ty_cuda_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* *y: the step over n leading dims as one; as it is where all are of size 1. False: they have none. */
bool ty_cuda_one_step(int n, const i64 *lead, const i64 *steps, i64 *y);

typedef enum {
  LIBRARY_DONE,
  LIBRARY_NONE,  /* there is no such library, or it has no algorithm: the caller computes it */
  LIBRARY_FAILED /* out of memory, or *err says what else */
} LibraryResult;

/* --- cublaslt.c: y = a b, where g->library says how operands lie for the user. */
LibraryResult ty_cuda_lt_product(const Gemm *g, const char *a, const char *b, void *y, Stream *s,
                                 const char **err);
/* A line, once, where an exact product runs at a small part of what tensor cores give. */
void ty_cuda_lt_hint(const Gemm *g);

/* --- cudnn.c: ATTEND into y, as attend.c lays it out. */
LibraryResult ty_cuda_dnn_attention(const Attend *d, void *const *operands, char *y, Stream *s,
                                    const char **err);

/* --- cufft.c: transforms as FftShape says, but for scales. Of halves that real numbers come from, numbers that stand for themselves
** must be real; they are destroyed. FAILED: out of memory. */
bool ty_cuda_fft_library_takes(const FftShape *f, const void *from, const void *to);
LibraryResult ty_cuda_fft_by_library(const FftShape *f, void *from, void *to);

/* --- cusolver.c: SOLVE. False: out of memory, or *err says what else. */
bool ty_cuda_solve_takes(const Job *j);
bool ty_cuda_solve(const Job *j, void *const *buf, const char **err);

#endif
