/*
** nccl.h -- tensors of CUDA devices between ranks: NCCL, found when the first of them is exchanged.
** Ranks find each other by MPI; bytes then go from device to device, on a stream of each communicator's own (device/sides.h):
** nobody waits for it but what the device is asked for behind its end. A rank that is gone ends the waits for a device.
*/
#ifndef TY_NCCL_H
#define TY_NCCL_H

#include "device/call_library.h"
#include "device/device.h"
#include "dist/dist.h"

typedef enum { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN } NcclOp; /* as ncclRedOp_t */

/* Ranks of the world that exchange tensors, this one the `own`th, from 0. */
typedef struct Party {
  const int *ranks;
  int n, own;
} Party;

/* The version, 22809 is 2.28.9; 0: *err says why there is none. */
int ty_nccl_open(const char **err);
/* All of the party call it; messages of `tag` carry what they have to know. The number of their communicator for tensors of
** device d; -1: ty_world.failure. */
int ty_nccl_join(const char *who, const Party *p, int tag, const Device *d);
const Party *ty_nccl_party(int number); /* of a communicator */
/* Queues what the head says, behind all that the device was asked for. Its end, to be given to ty_nccl_end once: what the device
** is asked for then comes behind it; x and y belong to it until then. NULL or false: ty_world.failure says why. */
void *ty_nccl_begin(const ExchangeHead *h, const Message *m, const void *x, void *y);
bool ty_nccl_end(const ExchangeHead *h, void *end, const Stream *s);
bool ty_nccl_takes(int dtype);

#endif
