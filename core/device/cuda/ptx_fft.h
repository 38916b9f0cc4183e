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
**   HALF_LINES   a tensor's numbers, lines of N rows of COLS: y from x times the scales of SCATTER; row 0 and row ALONE become real
**   PASS     y from x, of a radix; LAST: no factors
**   TURN     y in place times w; rows from N on become 0
**   TWIST    y[j][k] = x[k][j] times u and v, k below M, j below N
**   SPLIT, MERGE, MIRROR, HALVE, UNITE   as there; u of a pass of radix r is [m][r / 2][cols], after HALVE in y, before UNITE in x;
**            v, its output 0, at V
**   FOLD     y = u from x, half of a transform of N numbers whose rows are ROW_STEP bytes apart; UNFOLD: back */
typedef enum {
  FFT_GATHER,
  FFT_SCATTER,
  FFT_HALF_LINES,
  FFT_PASS,
  FFT_TURN,
  FFT_TWIST,
  FFT_SPLIT,
  FFT_MERGE,
  FFT_MIRROR,
  FFT_HALVE,
  FFT_UNITE,
  FFT_FOLD,
  FFT_UNFOLD,
  FFT_LINES
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

/* LINES: whole transforms whose numbers a block of threads holds in its shared memory: GATHER, passes, SCATTER as above, in one
** kernel, of radices up to FFT_LINES_RADIX. Of complex numbers; TO_HALF: of real ones by pairs, with SPLIT; FROM_HALF: back, with
** MERGE. COUNT: groups of COLS lines; INNER, X, Y, W, SCALE ... as above; ROW_STEP and those before it of x, and of y: */
enum {
  FFT_LINES_Y_STEPS = 168, /* INNER_STEP, OUTER_STEP, ROW_STEP */
  FFT_LINES_ALL = 192,     /* lines */
  FFT_LINES_FROM = 200,    /* rows of x, of y */
  FFT_LINES_TO = 208,
  FFT_LINES_PASSES = 216, /* how many, and of each: see FFT_PASS_ */
  FFT_LINES_TABLE = 224,
  FFT_LINES_ALONG = 232,  /* 1: neighbours of a line are those in memory */
  FFT_LINES_WEIGHT = 240, /* of MERGE */
  FFT_LINES_BYTES = 248,
  FFT_LINES_RADIX = 7,
  FFT_LINES_ROOM = 12288 /* bytes of shared memory, times 1, 2 or 4 */
};
enum {
  FFT_OF_COMPLEX,
  FFT_TO_HALF,
  FFT_FROM_HALF,
  FFT_ROOM_TIMES = 4
}; /* flags, and 0, 1, 2 times ROOM_TIMES */
/* A pass in its table, as i64: radix, m s, s, addresses of `each` and `odd`, whether it is the last. */
enum {
  FFT_PASS_RADIX,
  FFT_PASS_FAR,
  FFT_PASS_S,
  FFT_PASS_EACH,
  FFT_PASS_ODD,
  FFT_PASS_LAST,
  FFT_PASS_WORDS
};
Text ty_ptx_fft(FftStep step, int dtype, int radix, int flags);

#endif
