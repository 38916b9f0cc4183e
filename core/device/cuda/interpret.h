/*
** interpret.h -- loop programs run by the one kernel that interprets them.
*/
#ifndef TY_CUDA_INTERPRET_H
#define TY_CUDA_INTERPRET_H

#include "device/cuda/cuda.h"

/* A launch whose dims are merged as far as all operands allow. */
typedef struct Shape {
  i64 dims[MAX_DIMS], strides[MAX_OPERANDS][MAX_DIMS]; /* strides: in bytes */
  int n[3];                                            /* dims of O, R, I */
  i64 extent[3];
} Shape;

/* Runs the program to the bits of its own kernel. False: nothing was launched, since memory has run out, the driver
** refuses the kernel, or TYCHO_CUDA_INTERPRET is 0. */
bool ty_cuda_interpret(const Program *p, const Shape *s, const Run *r);
bool ty_cuda_interprets_all(
    void); /* TYCHO_CUDA_INTERPRET is `all`: no other kernel of a loop program is used */

#endif
