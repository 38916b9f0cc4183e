/*
** cudnn.h -- attention as a graph of cuDNN's operations: its calls, and plans.
*/
#ifndef TY_CUDA_CUDNN_H
#define TY_CUDA_CUDNN_H

#include "device/cuda/cuda.h"

typedef struct Dnn *DnnHandle;
typedef void *DnnDesc; /* of a tensor, an operation, an engine, a plan ... */

/*  field    symbol    arguments */
#define DNN_CALLS(_) \
  _(open, "cudnnCreate", (DnnHandle * h)) \
  _(set_stream, "cudnnSetStream", (DnnHandle h, CUstream stream)) \
  _(create, "cudnnBackendCreateDescriptor", (int kind, DnnDesc *d)) \
  _(destroy, "cudnnBackendDestroyDescriptor", (DnnDesc d)) \
  _(set, "cudnnBackendSetAttribute", \
    (DnnDesc d, int attribute, int type, i64 n, const void *values)) \
  _(get, "cudnnBackendGetAttribute", \
    (DnnDesc d, int attribute, int type, i64 most, i64 *n, void *values)) \
  _(finish, "cudnnBackendFinalize", (DnnDesc d)) \
  _(execute, "cudnnBackendExecute", (DnnHandle h, DnnDesc plan, DnnDesc values))

typedef struct DnnCalls {
#define _(field, symbol, args) int(*field) args;
  DNN_CALLS(_)
#undef _
} DnnCalls;
extern DnnCalls ty_cuda_dnn;
bool ty_cuda_dnn_take(void *library); /* false: it lacks one of them */

enum { /* cudnn_graph.h: statuses from REFUSALS to below FAILURES are of what is not supported */
       DNN_REFUSALS = 2000,
       DNN_NOT_SUPPORTED = 3000,
       DNN_FAILURES = 4000,
       DNN_HOST_MEMORY = 4003,
       DNN_DEVICE_MEMORY = 4004,
       DNN_KNOBS = 44 /* kinds of them */
};

/* What the library has no engine for, whatever it says so by. */
static inline bool ty_cuda_dnn_refuses(int status) {
  return status >= DNN_REFUSALS && status < DNN_FAILURES;
}

/* What a plan is for; bytes of it are compared. */
typedef struct DnnKey {
  i64 batch, heads, n, m, d, dv;
  i64 steps[3][3]; /* of q, k, v: elements between items of the batch, heads, positions */
  u8 dtype, causal, device;
  u8 shared; /* one head of keys and values serves all heads of queries */
  u8 own[4];
} DnnKey;

typedef struct DnnEngine {
  i64 index, value[DNN_KNOBS];
  i32 knob[DNN_KNOBS], n;
} DnnEngine;

enum { DNN_MADE = 160 };
typedef struct DnnPlan {
  DnnEngine engine;
  DnnDesc plan, made[DNN_MADE]; /* all descriptors: they live as long as the plan */
  i32 n;
  i64 workspace;
} DnnPlan;

/* --- cudnn_graph.c; they give the library's status. like: the engine to take; NULL: the heuristics' first that does */
int ty_cuda_dnn_plan(DnnHandle h, const DnnKey *key, const DnnEngine *like, DnnPlan *y);
void ty_cuda_dnn_drop(DnnPlan *p);
/* at: of q, k, v, the result, the logarithms of its sums. */
int ty_cuda_dnn_run(DnnHandle h, const DnnKey *key, const DnnPlan *p, float scale,
                    void *const at[5], void *workspace);

#endif
