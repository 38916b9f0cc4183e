/*
** ptx_move.h -- scatters, checks of positions and of exchanges as PTX. Each header says what stands in the block of bytes that
** the kernel is given: i64 throughout, strides in bytes.
*/
#ifndef TY_PTX_MOVE_H
#define TY_PTX_MOVE_H

#include "device/cuda/ptx.h"

enum { MOVE_THREADS = 128 };

/* Scatters, in four ways:
**   SERIAL  a thread goes down the scattered dim, for one place in the others: sums are added in that order, and the last wins
**   ATOMIC  sums of i32 and i64, which no order changes: a thread an element
**   KEYS, RUNS  where the other dims are few: positions sorted by what the index says (ptx_sort.h), equal ones in their
**           order; then a thread for each run of equal ones and place in the other dims. KEYS is of the index's own lines
** From SCATTER_DIMS on, for each of the other dims: extent, strides of y, src, index; lines of sorted positions that it goes. */
typedef enum { SCATTER_SERIAL, SCATTER_ATOMIC, SCATTER_KEYS, SCATTER_RUNS } ScatterWay;
enum {
  SCATTER_WORD,
  SCATTER_Y = 8,
  SCATTER_SRC = 16,
  SCATTER_INDEX = 24,
  SCATTER_COUNT = 32, /* places in the other dims, times n but for SERIAL */
  SCATTER_N = 40,     /* extent of the scattered dim, and strides along it */
  SCATTER_Y_STEP = 48,
  SCATTER_SRC_STEP = 56,
  SCATTER_INDEX_STEP = 64,
  SCATTER_KEY = 72, /* of [line][n], u32 */
  SCATTER_PLACE = 80,
  SCATTER_LINES = 88, /* places in the other dims */
  SCATTER_DIMS = 96,
  SCATTER_DIM = 40
};
Text ty_ptx_scatter(ScatterWay way, int dtype, bool add, int dims);

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

/* One thread: makes an error of a word that is set (sides.c). */
enum { SIDE_WORD, SIDE_BROKEN = 8, SIDE_CHECK = 16, SIDE_BYTES = 24, SIDE_THREADS = 32 };
Text ty_ptx_side_check(void);

#endif
