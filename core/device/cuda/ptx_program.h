/*
** ptx_program.h -- loop programs as PTX: kernels, and the block of bytes that they are given.
*/
#ifndef TY_PTX_PROGRAM_H
#define TY_PTX_PROGRAM_H

#include "device/cuda/ptx.h"

/* Threads of a block, and how many blocks a multiprocessor must hold: its 65,536 registers are 128 for each thread then. The
** assembler keeps to that by loading later; else it takes all that it may, and few warps are there while memory is waited for. A
** program that holds more than LIVE_MOST registers at once would spill (from 96 on, for sm_75): of its blocks there are three, of 168. */
enum { PROGRAM_THREADS = 128, PROGRAM_BLOCKS = 4, LIVE_MOST = 90 };

/* imm of an RSUM: its operand is a MUL, which is added by fma from +0, not rounded by itself. Products of one column are
** such rows. */
enum { SUM_OF_PRODUCTS = 1 };

/* What a kernel is made for. Extents are no part of it, but for how many dims there are after those are merged that all
** operands walk alike. */
typedef enum {
  MODE_WHOLE, /* all of the program */
  MODE_PART, /* reductions of one level: the element steps of groups of blocks, whose nodes go to scratch */
  MODE_FINISH,  /* and the rest: nodes to row values */
  MODE_TOTALS,  /* scans: what each block of a row comes to, */
  MODE_OFFSETS, /* what comes before it, */
  MODE_SCAN,    /* and the elements */
  MODE_COUNT
} Mode;
typedef struct Variant {
  u8 mode, no, nr, ni;
  bool wide; /* an index or a stride in bytes does not fit 31 bits */
  bool one;  /* all of R is one block */
  u8 four; /* maps: a thread has four neighbours along the last dim but one, whose last dim is these; FOUR_ */
  u8 each; /* rows: neighbours that a thread has, so many lanes of the canonical order; 0: two that are 32 apart */
  u8 threads; /* of a row, where `each` is not 0 */
  u8 turn; /* maps: dim + 1, along which operands lie side by side that are read by tiles, those of `flat`; or 0 */
  u32 flat; /* operands, as bits, of which they lie side by side, aligned; */
  u32 same; /* of which they are one element */
} Variant;
/* Elements of a tile's side, and the shared memory that a tile takes. */
enum { TURN_SIDE = 32, TURN_MOST = 40 << 10 };
#define TURN_BYTES(size) ((i32)(size)*TURN_SIDE * (TURN_SIDE + 1))
/* Whether there are always four; of FOUR_TAIL, a map of one dim, PARAM_R says how many elements there are. */
enum { FOUR_NONE, FOUR_ALL, FOUR_TAIL };

/* The block: i64 throughout, scalars as bits. Addresses of operands are those of the launch's first element; strides are
** in bytes, but for IOTA, whose `address` is its first value. */
enum {
  PARAM_WORD = 0, /* of the error word */
  PARAM_SCRATCH = 8,
  PARAM_COUNT = 16,  /* elements of a map, rows, columns */
  PARAM_R = 24,      /* of R */
  PARAM_I = 32,      /* of I */
  PARAM_GROUPS = 40, /* PART and FINISH: groups of blocks of a row, */
  PARAM_GROUP = 48,  /* blocks of a group, a power of two */
  PARAM_OPERANDS = 56,
  BLOCK_MOST = 4096
};
typedef struct Layout {
  i32 strides, dims, gstrides, scalars, bytes; /* strides: [operand][dim] */
  i32 nd, nscalar;
} Layout;
Layout ty_ptx_layout(const Program *p, const Variant *v);

/* 8-byte words of scratch that a row's, or column's, group takes. */
i32 ty_ptx_node_words(const Program *p);
/* Whether its long rows may be cut: one level of reductions, whose values no element reads. */
bool ty_ptx_is_split(const Program *p);

/* Neighbours of a row that a thread may have, by the lanes that reductions go by; 0: one. */
i32 ty_ptx_row_each(const Program *p);
/* The number of scans whose long rows may be cut, 8 bytes of scratch for each block; 0: they may not. */
i32 ty_ptx_split_scans(const Program *p);

Text ty_ptx_program(const Program *p, const Variant *v);

#endif
