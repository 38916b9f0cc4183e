/*
** ptx_interpret.h -- the kernel that interprets loop programs, and its code.
** Each thread has words of 8 bytes in scratch memory; word w of all threads lies side by side. Values of 4 bytes are the
** lower half of a word, the upper is 0. Word 0 is 0. Code is the same for all threads, and they stay together.
*/
#ifndef TY_PTX_INTERPRET_H
#define TY_PTX_INTERPRET_H

#include "device/cuda/ptx.h"

enum { INTERPRET_THREADS = 128 };

typedef struct Step {
  u32 op, y, a, b, c, pad; /* words */
  u64 imm;
} Step;

/* The block. */
enum {
  INTERPRET_WORD,    /* address of the error word */
  INTERPRET_CODE,    /* of the steps */
  INTERPRET_SCRATCH, /* of the words */
  INTERPRET_PARAMS
};

/* What is no primitive. A, B, C: the operands. */
enum {
  S_EXIT,
  S_MOVE,      /* y = A */
  S_CONST,     /* y = imm */
  S_NUMBER,    /* y = the thread's number in the grid */
  S_LANE,      /* y = its number in the warp */
  S_GUARD,     /* from now on memory is accessed where A < B; what is not read is 0 */
  S_GUARDED,   /* y = A where that holds, else B */
  S_JUMP,      /* to step imm, */
  S_LESS,      /* where A < B */
  S_MAD,       /* y = A * B + C, 64 bits */
  S_GET,       /* y = word imm + A */
  S_PUT,       /* word imm + A = B */
  S_BUTTERFLY, /* y = A of the lane whose number differs by the bits imm, */
  S_OF,        /* of lane B, */
  S_UP,        /* of the lane imm below, where there is one in the warp, */
  S_UP_HALF,   /* in half the warp */
  S_FIXED,
  S_LOAD = S_FIXED,           /* + dtype: y = what is at address A */
  S_STORE = S_LOAD + T_COUNT, /* + dtype: B to address A */
  S_PRIM = S_STORE + T_COUNT  /* + the number of a primitive */
};

/* The op of a primitive whose first operand has compute type ta. */
u32 ty_interpret_op(const Instr *in, int ta);
Text ty_ptx_interpret(void);

#endif
