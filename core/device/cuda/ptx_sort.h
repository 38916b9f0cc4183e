/*
** ptx_sort.h -- sorts and searches as PTX. Each header says what stands in the block of bytes that the kernel is given: i64
** throughout.
*/
#ifndef TY_PTX_SORT_H
#define TY_PTX_SORT_H

#include "device/cuda/ptx.h"

enum { SORT_THREADS = 128 };

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
  SORT_SHORT = 512
};
Text ty_ptx_sort(int dtype, bool descending);

/* Of long rows: by the bytes of their keys, the lowest first. Each round counts the values of a byte, tile by tile, adds the
** counts up, and moves keys and positions to their places; equal ones keep their order. Keys are u32, or u64 where `wide`,
** positions u32; tables are u32 of [row][value][tile]. */
enum {
  RADIX_WORD,
  RADIX_X = 8,    /* KEYS: elements as in SORT_ */
  RADIX_Y = 16,   /* OUT: positions, i64 */
  RADIX_KEY = 24, /* of [row][element], */
  RADIX_PLACE = 32,
  RADIX_TO_KEY = 40,
  RADIX_TO_PLACE = 48,
  RADIX_TABLE = 56,
  RADIX_COUNT =
      64, /* KEYS: elements; COUNT, MOVE: tiles of all rows; ADD: rows; OUT: elements that are kept */
  RADIX_N = 72,
  RADIX_KEEP = 80,
  RADIX_INNER = 88,
  RADIX_TILES = 96, /* of a row */
  RADIX_SHIFT = 104,
  RADIX_BYTES = 112,
  RADIX_THREADS = 256, /* of COUNT, ADD and MOVE; the others SORT_THREADS */
  RADIX_TILE = 2048,
  RADIX_VALUES = 256
};
typedef enum { RADIX_KEYS_OF, RADIX_COUNT_OF, RADIX_ADD, RADIX_MOVE, RADIX_OUT } RadixStep;
Text ty_ptx_radix(RadixStep step, int dtype, bool descending, bool wide); /* dtype: KEYS_OF */

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
