/*
** reach.h -- what stand-ins of NVIDIA's libraries ask of the software GPU: memory where it lies, what is wrong with a call.
** To be called from a function that a stream runs (cuLaunchHostFunc), where the driver's lock is held.
*/
#ifndef SOFT_GPU_REACH_H
#define SOFT_GPU_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of device memory where the CPU has them; what is read must have been written. NULL: they are not there, which is reported
** as `what`'s, and the device is lost. */
void *soft_gpu_reach(uint64_t address, uint64_t bytes, bool write, const char *what);
/* Values of half floats, and the nearest half float. bf: bf16. */
float soft_gpu_half(uint16_t bits, bool bf);
uint16_t soft_gpu_round(double v, bool bf);
int soft_gpu_capability(void);
/* The live allocation that all of these bytes lie in: whether there is one. */
bool soft_gpu_live(uint64_t address, uint64_t bytes);

#endif
