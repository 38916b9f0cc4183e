/*
** reach.c -- device memory for stand-ins of NVIDIA's libraries (spec/gpu/lib), with the checks that kernels have.
*/
#include "reach.h"

#include "driver.h"
#include "exec.h"

EXPORT void *soft_gpu_reach(uint64_t address, uint64_t bytes, bool write, const char *what) {
  Region *r = region_of(address);
  const char *wrong = NULL;
  if (!r || !memory_live(address, bytes)) wrong = "lies outside of what is allocated";
  for (uint64_t i = 0; !wrong && !write && settings.initialised && i < bytes; i++)
    if (r->shadow[address - r->base + i] != WRITTEN) wrong = "reads what nobody has written";
  if (wrong) {
    char where[160];
    memory_describe(address, where, sizeof where);
    report("%s %s: %llu bytes at 0x%llx, %s", what, wrong, (unsigned long long)bytes,
           (unsigned long long)address, where);
    context_lose(ILLEGAL_ADDRESS);
    return NULL;
  }
  if (write) memset(r->shadow + (address - r->base), WRITTEN, bytes);
  return r->bytes + (address - r->base);
}

EXPORT float soft_gpu_half(uint16_t bits, bool bf) {
  return bf ? bf16_value(bits) : f16_value(bits);
}

EXPORT uint16_t soft_gpu_round(double v, bool bf) {
  return bf ? bf16_round(v, ROUND_RN) : f16_round(v, ROUND_RN);
}

EXPORT int soft_gpu_capability(void) { return settings.capability; }

EXPORT bool soft_gpu_live(uint64_t address, uint64_t bytes) {
  LOCKED;
  return region_of(address) && memory_live(address, bytes);
}
