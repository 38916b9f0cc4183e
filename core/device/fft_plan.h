/*
** fft_plan.h -- how a Fourier transform of a length is computed, on every device: passes, their order, the numbers that they take.
** A plan is made on the CPU (device/cpu/fft_plan.c); other devices ask the CPU's device for it, and copy its table.
*/
#ifndef TY_FFT_PLAN_H
#define TY_FFT_PLAN_H

#include "ir/job.h"

#include <math.h>

enum {
  FFT_RADIX_MOST = 19, /* larger primes go by Bluestein's sum */
  FFT_ODD_MOST = 53,   /* and of real numbers */
  FFT_RADIX_FLAT = 13, /* larger ones have no `wide` */
  FFT_PASSES = 48,
  FFT_DIRECT = 1 << 14, /* longer transforms are split in two dims */
  FFT_COLUMNS = 16,     /* transforms side by side */
  FFT_PAD = 256         /* elements behind an array that vectors may touch */
};

/* One pass of Stockham's algorithm: element q + s (p + m k) is input k of butterfly p, whose output k, times
** w^(p k), goes to q + s (r p + k). */
typedef struct FftPass {
  i64 m, s;
  int r;
  const void *
      each; /* w^(p k): real, imaginary part for each p, k = 1 .. r - 1; NULL: the last pass, m = 1 */
  const void *
      wide; /* where s is small: for each k, real then imaginary parts of all m s positions, `span` apart */
  i64 span;
  const void *odd; /* cosines, then sines, of multiples of the turn / r */
} FftPass;

typedef enum { FFT_BY_PASSES, FFT_BY_SPLIT, FFT_BY_CHIRP, FFT_BY_HALF, FFT_BY_ODD } FftWay;

/* How n complex numbers are transformed; HALF and ODD: how n real ones are. */
typedef struct FftPlan FftPlan;
struct FftPlan {
  i64 n, bytes;
  int dtype;
  FftWay way;
  int npass;
  FftPass pass[FFT_PASSES]; /* PASSES; ODD: the first, its `wide` for k = 1 .. r / 2 */
  FftPlan *sub
      [2]; /* SPLIT: of n1, of n2; CHIRP: of m; HALF: of n / 2; ODD: of m, of m real ones; none where m = 1 */
  void *w;     /* CHIRP: the chirp of n pairs; HALF: the turns of n / 2 + 1 pairs; SPLIT: u */
  void *v;     /* CHIRP: the chirp's transform over m, m pairs; SPLIT: v */
  void *table; /* the memory that all these lie in */
  /* of the cache */
  bool real;
  i32 refs;
  u64 used;
};

/* The transforms that a job of JOB_FFT stands for: lines of n numbers, [outer][n][inner]. */
typedef struct FftShape {
  int dtype, kind, norm; /* graph.h */
  i64 outer, n, inner;
  bool library; /* of the device's, where it has one */
} FftShape;

static inline FftShape ty_fft_shape(const Job *j) {
  const Node *N = j->node;
  FftShape y = {.kind = N->arg.k2 & 7, .norm = N->arg.k2 >> 3 & 3, .outer = 1, .inner = 1};
  y.library = N->arg.k2 & FFT_LIBRARY;
  const bool real = y.kind == FFT_REAL || y.kind == FFT_HALF_BACK;
  /* The side of whole length, and the dims behind `dim` but for the pairs. */
  const Type *t = y.kind == FFT_HALF || y.kind == FFT_REAL_BACK ? &N->type : j->type;
  const int dim = N->arg.k, rank = real || t != j->type ? t->rank : t->rank - 1;
  y.dtype = t->dtype, y.n = t->dims[dim];
  for (int d = 0; d < dim; d++) y.outer *= t->dims[d];
  for (int d = dim + 1; d < rank; d++) y.inner *= t->dims[d];
  return y;
}

static inline bool ty_fft_takes_real(int kind) { return kind == FFT_REAL || kind == FFT_HALF_BACK; }
static inline bool ty_fft_gives_real(int kind) { return kind == FFT_HALF || kind == FFT_REAL_BACK; }
/* What results are multiplied by. */
static inline double ty_fft_scale(int norm, i64 n) {
  return norm == FFT_BY_N ? 1.0 / (double)n : norm == FFT_BY_ROOT ? 1.0 / sqrt((double)n) : 1;
}
/* What numbers that stand for two count. */
static inline double ty_fft_weight(int kind) {
  return kind == FFT_HALF_BACK ? 2 : kind == FFT_REAL_BACK ? 0.5 : 1;
}

#endif
