/*
** batch.h -- the launches of a plan: one by one, or as a graph.
*/
#ifndef TY_CUDA_BATCH_H
#define TY_CUDA_BATCH_H

#include "device/cuda/cuda.h"

/* Between these, launches of the calling thread wait for the end. Pairs may stand in pairs. */
void ty_batch_begin(void);
void ty_batch_end(DeviceRun *run); /* tells what it was, all in all */
/* Takes a launch of n bytes of parameters. False: none are gathered, the caller launches. */
bool ty_batch_take(const CudaCode *c, i64 blocks, int threads, const void *params, size_t n);
/* Launches what waits: before anything else goes to the stream. */
void ty_batch_flush(void);
/* Whether a block that is freed waits, since what waits may use it: it is freed behind that. */
bool ty_batch_frees(void *p, i64 bytes);
/* The graphs that run the function go. */
void ty_batch_forget(CUfunction f);

typedef struct BatchCounts {
  i64 launches, graphs,
      graph_launches; /* kernels launched by themselves; graphs made; launches of graphs */
} BatchCounts;
BatchCounts ty_batch_counts(void);

#endif
