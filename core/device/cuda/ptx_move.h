/*
** ptx_move.h -- scatters, checks of positions, sorts, searches as PTX. Each header says what stands in the block of bytes that
** the kernel is given: i64 throughout, strides in bytes.
*/
#ifndef TY_PTX_MOVE_H
#define TY_PTX_MOVE_H

#include "device/cuda/ptx.h"

enum { MOVE_THREADS = 128 };

/* A thread goes down the scattered dim, for one place in the others: sums are added in that order, and the last wins.
** From SCATTER_DIMS on, for each of the other dims: extent, strides of y, src, index. */
enum {
  SCATTER_WORD,
  SCATTER_Y = 8,
  SCATTER_SRC = 16,
  SCATTER_INDEX = 24,
  SCATTER_COUNT = 32, /* places in the other dims */
  SCATTER_N = 40,     /* extent of the scattered dim, and strides along it */
  SCATTER_Y_STEP = 48,
  SCATTER_SRC_STEP = 56,
  SCATTER_INDEX_STEP = 64,
  SCATTER_DIMS = 72
};
Text ty_ptx_scatter(int dtype, bool add, int dims);

/* Positions of an index; of those out of range the first goes to the word's `first`, as FIRST_MOST minus its place. */
#define FIRST_MOST (1ll << 62)
enum {
  POSITIONS_WORD,
  POSITIONS_INDEX = 8,
  POSITIONS_Y = 16,
  POSITIONS_COUNT = 24,
  POSITIONS_SIZE = 32,
  POSITIONS_BASE = 40,
  POSITIONS_CHECK = 48, /* the number of the check */
  POSITIONS_BYTES = 56
};
Text ty_ptx_positions(void);
Text ty_ptx_positions_end(void); /* one thread: makes an error of `first`; the same block */

/* Argsort of short rows: each element finds its place by counting those before it. */
enum {
  SORT_WORD,
  SORT_X = 8,
  SORT_Y = 16,
  SORT_COUNT = 24, /* elements of all rows */
  SORT_N = 32,     /* of a row, */
  SORT_KEEP = 40,  /* that are kept, */
  SORT_INNER = 48, /* so far apart, in elements */
  SORT_BYTES = 56,
  SORT_MOST = 4096
};
Text ty_ptx_sort(int dtype, bool descending);

/* Where values would go in sorted rows. */
enum {
  SEARCH_WORD,
  SEARCH_SORTED = 8,
  SEARCH_V = 16,
  SEARCH_Y = 24,
  SEARCH_COUNT = 32, /* values of all rows */
  SEARCH_N = 40,     /* sorted ones of a row */
  SEARCH_M = 48,     /* values of a row */
  SEARCH_BYTES = 56
};
Text ty_ptx_search(int dtype, bool right);

#endif
