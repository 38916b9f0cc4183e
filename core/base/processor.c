/*
** processor.c -- what the processor can do, and the system lets it.
** In: questions of system.h. Out: answers, which stay the same. Cannot fail.
*/
#include "base/system.h"

#include <stdatomic.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)
static u32 find_features(void) {
  u32 a, b, c, d, y = 0;
  __builtin_cpu_init();
#define HAS(name) (__builtin_cpu_supports(name) != 0)
  if (HAS("ssse3")) y |= CPU_SSSE3;
  if (HAS("avx2") && HAS("fma")) y |= CPU_AVX2;
  if (HAS("f16c")) y |= CPU_F16C;
  if (HAS("bmi2")) y |= CPU_BMI2;
  if (HAS("avx512f") && HAS("avx512vl") && HAS("avx512bw")) y |= CPU_AVX512;
  if (HAS("avx512dq")) y |= CPU_AVX512_DQ;
#undef HAS
  if (y & CPU_AVX512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1))
    y |= CPU_AVX512_BF16;
  return y;
}
#else
static u32 find_features(void) { return 0; }
#endif

bool ty_cpu_has(u32 features) {
  static _Atomic u32 known; /* the highest bit: it is known */
  u32 have = atomic_load_explicit(&known, memory_order_relaxed);
  if (TY_UNLIKELY(!have)) {
    have = find_features() | 1u << 31;
    atomic_store_explicit(&known, have, memory_order_relaxed);
  }
  return (have & features) == features;
}

#if defined(__x86_64__) && defined(__linux__)
const char *ty_cpu_amx(void) {
  enum { TILE_DATA = 18, REQUEST = 0x1023, TILE_STATE = 3 << 17 };
  u32 a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) || !(d >> 22 & 1))
    return "the processor has no AMX for bf16";
  if (!ty_cpu_has(CPU_AVX512)) return "the processor or the system has no AVX-512 beside AMX";
  if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c >> 27 & 1))
    return "the system does not save the registers of AMX";
  u32 low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & TILE_STATE) != TILE_STATE) return "the system does not save the registers of AMX";
  /* Palette 1: eight tiles of 16 rows of 64 bytes. */
  if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d) || (b & 0xffff) < 64 || b >> 16 < 8 ||
      (c & 0xffff) < 16)
    return "the tiles of this processor have another form";
  if (syscall(SYS_arch_prctl, REQUEST, TILE_DATA)) return "the kernel does not permit AMX";
  return NULL;
}
#else
const char *ty_cpu_amx(void) { return "there is no AMX here"; }
#endif
