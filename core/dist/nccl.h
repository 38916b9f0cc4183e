/*
** nccl.h -- tensors of CUDA devices between ranks: NCCL, found when the first of them is exchanged.
** Ranks find each other by MPI; bytes then go from device to device. Work is queued behind what the device was asked for
** before, and waited for, so that a rank that is gone ends the wait and not the process.
*/
#ifndef TY_NCCL_H
#define TY_NCCL_H

#include "base/base.h"

typedef enum { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN } NcclOp; /* as ncclRedOp_t */

/* Where a device's work goes; `idle`: whether all of it is done, without waiting. */
typedef struct DeviceQueue {
  void *(*get)(
      int device);         /* with the device's context current; NULL: it has failed, or has none */
  int (*idle)(int device); /* 1: all is done; 0: not yet; -1: the device has failed */
  int device;
} DeviceQueue;

/* Ranks of the world that exchange tensors, this one the `own`th, from 0. */
typedef struct Party {
  const int *ranks;
  int n, own;
} Party;

/* Part of a tensor, to or from the party's peer. */
typedef struct DeviceMessage {
  void *p;
  i64 bytes;
  int peer;
  bool sends;
} DeviceMessage;

/* The version, 22809 is 2.28.9; 0: *err says why there is none. */
int ty_nccl_open(const char **err);
/* All of the party call it; messages of `tag` carry what they have to know. Its number; -1: ty_world.failure. */
int ty_nccl_join(const char *who, const Party *p, int tag, const DeviceQueue *q);
/* All of these give false where the exchange has failed: ty_world.failure says why. */
bool ty_nccl_exchange(const char *who, int number, const Party *p, const DeviceMessage *m, int n,
                      const DeviceQueue *q);
bool ty_nccl_gather(const char *who, int number, const Party *p, const void *x, void *y, i64 bytes,
                    const DeviceQueue *q);
bool ty_nccl_broadcast(const char *who, int number, const Party *p, const void *x, void *y,
                       i64 bytes, int from, const DeviceQueue *q);
bool ty_nccl_takes(int dtype);
bool ty_nccl_reduce(const char *who, int number, const Party *p, const void *x, void *y, i64 n,
                    int dtype, NcclOp op, const DeviceQueue *q);

#endif
