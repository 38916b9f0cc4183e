/*
** fft_kern.c -- what an instruction set offers to Fourier transforms.
** In:  f32 or f64.  Out: its kernels on this machine; all give the same bits (kernels/fft_micro.h). Cannot fail.
*/
#include "base/system.h"
#include "device/cpu/fft.h"

#include <stdlib.h>

#if defined(__x86_64__)
#define ISA avx2
#define VBYTES 32
#define ATTR __attribute__((target("avx2")))
#include "kernels/fft_isa.h"

#define ISA avx512
#define VBYTES 64
#define ATTR __attribute__((target("avx512f,avx512vl,avx512dq,prefer-vector-width=512")))
#include "kernels/fft_isa.h"
#endif

#define ISA generic
#define VBYTES 16 /* SSE2, NEON */
#define ATTR
#include "kernels/fft_isa.h"

static const FftKern *chosen[2];

static void choose(void) {
  chosen[0] = &fft_f32_generic, chosen[1] = &fft_f64_generic;
#if defined(__x86_64__)
  const char *want = getenv("TYCHO_ISA");
  const bool plain = want && (!strcmp(want, "base") || !strcmp(want, "generic"));
  if (plain || !ty_cpu_has(CPU_AVX2)) return;
  chosen[0] = &fft_f32_avx2, chosen[1] = &fft_f64_avx2;
  if ((want && !strcmp(want, "avx2")) || !ty_cpu_has(CPU_AVX512 | CPU_AVX512_DQ)) return;
  chosen[0] = &fft_f32_avx512, chosen[1] = &fft_f64_avx512;
#endif
}

const FftKern *ty_fft_kern(int dtype) {
  static Once once = ONCE_INIT;
  ty_once(&once, choose);
  return chosen[dtype == T_F64];
}
