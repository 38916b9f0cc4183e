/*
** tile_run.h -- a run of the tile machine: what its threads share, and what each has.
** tile_run.c cuts the domain and steps through tiles; tile_place.c knows where operands lie and moves elements
** between them and tiles; tile_reduce.c does reductions and scans.
*/
#ifndef TY_TILE_RUN_H
#define TY_TILE_RUN_H

#include "device/cpu/tile.h"

#include <stdatomic.h>

enum { SCAN_STATE = 3 }; /* numbers of a scan's state */

/* How an operand lies in its space: contiguous, a single element, or not. */
enum { FLAT, ONE, WALK };

typedef struct Space {
  i32 nd;
  i64 dims[MAX_DIMS];
} Space;

typedef struct Place {
  char *at;  /* the first element */
  i64 first; /* of an IOTA */
  i64 stride[MAX_DIMS];
  u8 mode, size, dtype, native, space;
  u8 staged; /* number, from 1, of the stage that it is read by: of a long row more than a tile at once */
} Place;

typedef struct Task Task;
typedef struct Frame Frame;
typedef void Unit(Frame *f, i64 unit);

struct Task {
  const Kernel *k;
  const Code *code;
  const Run *r;
  i64 O, R, I, N;
  i64 tile; /* elements of a tile register */
  i64 stage; /* elements of a long row that are turned together, where they lie apart; 0: they do not */
  i32 stages; /* operands that are */
  i64 turns;  /* tiles that native code takes together of a joint map */
  i64 rows;   /* rows of a block (ROW) or of a tile (COL) */
  i64 width;  /* columns of a strip; 1 for rows */
  i64 strips; /* of a row of columns */
  i64 block;  /* rows of R to a block: BLOCK or COL_BLOCK */
  i64 group;  /* blocks in a group; 0: rows are not cut */
  i64 groups, units;
  i32 levels; /* of the tree */
  i32 nodes;  /* of a reduction: the state at hand, one a level, those of blocks that go together */
  bool
      joint; /* native code goes through all of a block of columns, many blocks of a row, or tiles of a map */
  bool batch;       /* units are batches of rows */
  bool past;        /* outputs are so large that stores go past the caches */
  bool split;       /* spaces keep rows, and columns, apart from what counts them */
  bool move;        /* a map that only moves elements, which need no tile on the way */
  bool grid;        /* a tile is a rectangle: rows along one dim, columns along the last */
  i32 along, outer; /* that dim; dims before a batch's rows, while dims are joined */
  i64 block_rows, block_cols,
      few; /* of a rectangle; few: rows of a batch that tiles have room for */
  size_t node, frame_bytes, at_uniform, at_tile, at_wide, at_row, at_acc, at_scan, at_micro,
      at_stage;
  size_t tile_bytes, wide_bytes, row_bytes, partial_bytes;
  i32 nframes;
  i64 apart; /* bytes from frame to frame */
  char *frames, *partial;
  bool own; /* both are of this run alone */
  Unit *unit;
  _Atomic u64 free; /* frames that nobody has, as bits */
  u32 direct;       /* stores that are left out, as bits */
  u32 keep,
      ones; /* operands whose tile serves the next one too, as bits; ones: whatever the columns */
  Space space[2];
  Place op[MAX_OPERANDS];
};

struct Frame {
  Task *t;
  void **p; /* where the value of each slot lies now */
  char *base, *acc;
  bool whole;          /* the tile holds whole rows */
  i64 rows;            /* in the block or tile */
  i64 lines, cols;     /* grid: of the rectangle */
  i64 index[MAX_DIMS]; /* grid: of its first element */
  u32 kept;            /* operands of Task.keep whose tile is made */
  i64 row;             /* of R, the tile's first: elements for rows, rows for columns */
  u64 nblocks;         /* complete ones of this row */
  i64 *staged;         /* of each stage: its first element */
  i32 blocks;          /* that native code takes together now; 0: a part of one */
};

/* tile_place.c */
void ty_tile_bind(Task *t, const Run *r); /* places and spaces, and whether tiles are rectangles */
bool ty_tile_in_place(const Task *t, const Step *s);  /* a load that is an address only */
bool ty_tile_by_index(const Task *t, const Place *o); /* gathers read this index where it lies */
char *ty_tile_corner(const Frame *f, const Place *o); /* grid: the rectangle's first element */
i64 ty_tile_between(const Task *t, const Place *o);   /* grid: bytes from row to row */
char *ty_tile_stretch(const Task *t, const Place *o, i64 i0,
                      i64 n); /* where a tile lies in one piece */
void ty_tile_access(Frame *f, const Step *s, i64 i0, i64 n);
void ty_tile_move(Frame *f, i64 i0, i64 n);                 /* the same of a map that only moves */
bool ty_tile_stage(Frame *f, const Step *s, i64 i0, i64 n); /* false: this one has none */

/* tile_reduce.c. A reduction's state is gathered from tiles, combined at the end of each block, and
** finished into row values; a scan carries on over tiles and begins anew, on top, in each block. */
char *ty_tile_state(const Frame *f, const Step *s);
void ty_tile_reduce_begin(const Frame *f, const Step *s);
void ty_tile_reduce(Frame *f, const Step *s, i64 n);   /* S_REDUCE over a tile */
void ty_tile_position(Frame *f, const Step *s, i64 n); /* S_ARG over a tile */
void ty_tile_combine(const Frame *f, const Step *s, char *y, const char *a, const char *b);
void ty_tile_subtree(const Frame *f, const Step *s, i64 n);
void ty_tile_block_end(Frame *f, const Step *s, int k, bool last);
void ty_tile_reduce_finish(const Frame *f, const Step *s, char *acc);
void ty_tile_scan_begin(const Frame *f, const Step *s);
void ty_tile_scan(Frame *f, const Step *s, i64 n); /* S_SCAN over a tile */
void ty_tile_scan_block_end(const Frame *f, const Step *s);

#endif
