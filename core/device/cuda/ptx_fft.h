/*
** ptx_fft.h -- steps of Fourier transforms as PTX. Complex numbers lie apart, as on the CPU: real parts in one array,
** imaginary parts in another, of rows of `cols` columns, which are transforms side by side.
*/
#ifndef TY_PTX_FFT_H
#define TY_PTX_FFT_H

#include "device/cuda/ptx.h"

enum { FFT_THREADS = 128 };

/* Each has the CPU's kernel of that name (device/cpu/fft.h), and its arithmetic, element by element.
**   GATHER   rows of y from a tensor's numbers: in x, of column c of all at c % inner INNER_STEP + c / inner OUTER_STEP, row by
**            row ROW_STEP apart, in bytes; the same of SCATTER the other way round, whose row 0 and row ALONE take SCALE, the
**            others SCALE_OTHERS. Without imaginary parts where REAL
**   PASS     y from x, of a radix; LAST: no factors
**   TURN     y in place times w; rows from N on become 0
**   TWIST    y[j][k] = x[k][j] times u and v, k below M, j below N
**   SPLIT, MERGE, MIRROR, HALVE, UNITE   as there; u of a pass of radix r is [m][r / 2][cols], after HALVE in y, before UNITE in x;
**            v, its output 0, at V
**   FOLD     y = u from x, half of a transform of N numbers whose rows are ROW_STEP bytes apart; UNFOLD: back */
typedef enum {
  FFT_GATHER,
  FFT_SCATTER,
  FFT_PASS,
  FFT_TURN,
  FFT_TWIST,
  FFT_SPLIT,
  FFT_MERGE,
  FFT_MIRROR,
  FFT_HALVE,
  FFT_UNITE,
  FFT_FOLD,
  FFT_UNFOLD
} FftStep;

/* What stands in the block of bytes: i64 throughout, but for factors, which are of the dtype. */
enum {
  FFT_WORD,
  FFT_COUNT = 8, /* of numbers, butterflies */
  FFT_X = 16,    /* real, imaginary parts */
  FFT_Y = 32,
  FFT_W = 48,
  FFT_V = 56,
  FFT_N = 64,
  FFT_M = 72,
  FFT_COLS = 80, /* PASS: times s */
  FFT_SPAN = 88,
  FFT_INNER = 96,
  FFT_FIRST = 104, /* the first column's number among all */
  FFT_INNER_STEP = 112,
  FFT_OUTER_STEP = 120,
  FFT_ROW_STEP = 128,
  FFT_SCALE = 136,
  FFT_SCALE_OTHERS = 144,
  FFT_ALONE = 152,
  FFT_TURNS = 160, /* cosines and sines of an odd radix */
  FFT_BYTES = 168
};
enum { FFT_IS_REAL = 1, FFT_IS_LAST = 1 }; /* flags */
Text ty_ptx_fft(FftStep step, int dtype, int radix, int flags);

#endif
