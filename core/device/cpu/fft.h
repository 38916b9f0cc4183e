/*
** fft.h -- what the parts of the CPU's Fourier transform share: kernels of an instruction set, plans.
** Complex numbers lie apart while they are worked on: real parts in one array, imaginary parts in another.
*/
#ifndef TY_FFT_H
#define TY_FFT_H

#include "device/cpu/cpu.h"
#include "device/fft_plan.h"

/* An array of complex numbers: number i at re[i row], im[i row]. */
typedef struct FftLine {
  void *re, *im;
  i64 row;
} FftLine;

/* For one dtype and instruction set. Arrays are of `n` rows of `cols` elements, with FFT_PAD behind them. */
typedef struct FftKern {
  int size; /* bytes of an element */
  /* y = one pass over x, of `cols` transforms side by side. */
  void (*pass)(const FftPass *p, const void *xr, const void *xi, void *yr, void *yi, i64 cols);
  /* a[i][c] = x[i row + c col]; without imaginary parts zeros, none where ai is NULL. */
  void (*gather)(void *ar, void *ai, const FftLine *x, i64 col, i64 n, i64 cols);
  /* y[i row + c col] = a[i][c] times scale; without imaginary parts where y->im is NULL. */
  void (*scatter)(const FftLine *y, i64 col, const void *ar, const void *ai, i64 n, i64 cols,
                  double scale);
  /* a[i][c] times w[i], pairs. */
  void (*turn)(void *ar, void *ai, const void *w, i64 n, i64 cols);
  /* a[i][c] times u[i] times v[i][c], pairs: `ustep` and FFT_COLUMNS of them apart. */
  void (*twist)(void *ar, void *ai, const void *u, i64 ustep, const void *v, i64 n, i64 cols);
  /* y[k], k = 0 .. h: half of the transform of 2 h numbers, from a, that of pairs of them. w: pairs. */
  void (*split)(void *yr, void *yi, const void *ar, const void *ai, const void *w, i64 h, i64 cols);
  /* And back, from x[0 .. h], whose numbers 1 .. h - 1 count `weight` times. */
  void (*merge)(void *yr, void *yi, const void *xr, const void *xi, const void *w, i64 h, i64 cols,
                double weight);
  /* a[n - k] = the conjugate of a[k], k = 1 .. n / 2 for odd n; they count `weight` times, a[0] is real. */
  void (*mirror)(void *ar, void *ai, i64 n, i64 cols, double weight);
  /* The first pass over real numbers, r odd: outputs 1 .. r / 2 to u, `step` apart, output 0, which is real, to v. */
  void (*halve)(const FftPass *p, const void *x, void *v, void *ur, void *ui, i64 step, i64 cols);
  /* And back, the last pass; what is in u counts `weight` times. */
  void (*unite)(const FftPass *p, const void *v, const void *ur, const void *ui, i64 step, void *y,
                i64 cols, double weight);
  /* y = the conjugates of x, n rows of each. */
  void (*conjugate)(const FftLine *y, const FftLine *x, i64 n, i64 cols);
} FftKern;
const FftKern *ty_fft_kern(int dtype); /* f32 or f64 */

/* The plan, held; NULL: out of memory. real: of real numbers; one of complex ones where none is better. */
const FftPlan *ty_fft_plan(int dtype, i64 n, bool real);
void ty_fft_drop(const FftPlan *p);
/* Plans that are kept, with the bytes of their tables, of at most `limit`; how often one was found, made, let go of. */
typedef struct FftStats {
  i64 entries, bytes, hits, misses, evictions, limit;
} FftStats;
FftStats ty_fft_stats(void);
/* The cosine and sine of t / n turns, 0 <= t < n. */
void ty_fft_root(i64 t, i64 n, double *c, double *s);
/* y = the transform of the n numbers of x, times scale, shared out to threads where it is long; y may be x. False: out
** of memory. */
bool ty_fft_line(const FftPlan *p, const FftKern *K, const FftLine *x, const FftLine *y,
                 double scale);

#endif
