/*
** jobs.c -- what the CUDA device does that is no loop program.
*/
#include "device/cuda/cuda.h"

bool ty_cuda_takes(const Job *j) {
  (void)j;
  return false;
}

bool ty_cuda_perform(const Job *j, void *const *buf, const u64 *scalar, const void *panels, Stream *s,
                     const char **err) {
  (void)j, (void)buf, (void)scalar, (void)panels, (void)s;
  *err = "the device does not do this";
  return false;
}
