/*
** tile_prims.c -- the loops of the tile machine, compiled for each instruction set.
** Out: a table of functions for the processor at hand. Cannot fail.
** On x86-64 the same source is built three times: for any processor, for AVX2 with FMA and F16C,
** for AVX-512; elsewhere once, for what the compiler is told. Where FMA is no instruction it is libm's, which is exact too
** but slow.
*/
#include "base/system.h"
#include "device/cpu/tile.h"

#include <stdlib.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MANY_ISAS
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__GNUC__) && !defined(__clang__)
/* No library call for sqrt or rint may keep a loop from being made of vectors. */
#pragma GCC optimize("O2,tree-vectorize,vect-cost-model=dynamic,no-math-errno,no-trapping-math")
#endif

typedef float f32;
typedef double f64;
#define UNUSED __attribute__((unused))
#define NOINLINE __attribute__((noinline)) /* once, not in every caller: size counts */
#if defined(__GNUC__) && !defined(__clang__)
/* Gathers: the processor's own, and its products of 64 bits, are slower. */
#define ONE_BY_ONE __attribute__((optimize("no-tree-vectorize")))
#define SMALL_CODE __attribute__((optimize("Os,no-tree-vectorize")))
#else
#define ONE_BY_ONE
#define SMALL_CODE
#endif
#define NAN32 0x7fc00000u
#define NAN64 0x7ff8000000000000u
#define SIGN64 0x8000000000000000u

u64 ty_tile_identity(int kind, int type) {
  static const u64 table[R_KINDS][4] = {
      [R_SUM] = {0, 0, 0x80000000u, SIGN64},
      [R_PROD] = {1, 1, 0x3f800000u, 0x3ff0000000000000u},
      [R_MAX] = {0x80000000u, SIGN64, 0xff800000u, 0xfff0000000000000u},
      [R_MIN] = {0x7fffffffu, ~SIGN64, 0x7f800000u, 0x7ff0000000000000u},
  };
  return table[kind][type];
}

u64 ty_tile_empty(int kind, int type) { return kind == R_SUM ? 0 : ty_tile_identity(kind, type); }

/* Where there are several sets the plainest does without strands and whole rows, and AVX-512, where native
** code does what goes element by element, takes that and strands from AVX2: they are large. */
#ifndef MANY_ISAS
#define STRANDS
#endif
#ifdef MANY_ISAS /* and small: hardly a processor needs it */
#pragma GCC push_options
#pragma GCC optimize("Os,no-tree-vectorize")
#endif
#define ISA base
#define MAPS base
#define OWN_MAPS
#define VB 16
#include "device/cpu/tile_loops.h"
#ifdef MANY_ISAS
#pragma GCC pop_options
#endif

#ifdef MANY_ISAS
#define STRANDS
#define HAS_F16C
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,tune=haswell")
#define ISA avx2
#define MAPS avx2
#define OWN_MAPS
#define VB 32
#include "device/cpu/tile_loops.h"
#pragma GCC pop_options
#undef STRANDS
#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512vl,avx512bw,avx512dq,fma,f16c,bmi,bmi2,tune=haswell,prefer-vector-width=512")
#define ISA avx512
#define MAPS avx2
#define VB 64
#include "device/cpu/tile_loops.h"
#pragma GCC pop_options
#endif

static TileIsa chosen;

static void choose(void) {
#ifdef MANY_ISAS
  const char *want = getenv("TYCHO_ISA");
  bool wide = ty_cpu_has(CPU_AVX512 | CPU_AVX512_DQ);
  bool avx2 = ty_cpu_has(CPU_AVX2 | CPU_BMI2);
  if (avx2 && !(want && !strcmp(want, "base"))) {
    if (wide && !(want && !strcmp(want, "avx2")))
      isa_avx512(&chosen), chosen.columns = ty_sort_columns;
    else isa_avx2(&chosen);
    return;
  }
#endif
  isa_base(&chosen);
}

const TileIsa *ty_tile_isa(void) {
  static Once once = ONCE_INIT;
  ty_once(&once, choose);
  return &chosen;
}
