/*
** gemm_kern.c -- what an instruction set offers to matrix products.
** In:  a dtype.  Out: its kernels on this machine, how its storage is packed in the compute type,
** how sums become narrow storage again. Cannot fail.
** Which kernel runs over what is gemm.c's business. Each keeps the order of sums (gemm_micro.h), so
** that it is the same whichever was chosen.
*/
#include "base/system.h"
#include "device/cpu/gemm.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* How an operation's operand lies, added to its kind: the same for all rows of a tile, a number for
** each row, a row for each. */
enum { SAME = 0, DOWN = 8, APART = 16 };

/* ---- Kernels ------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Eight words of ones before eight of zeros: a mask of the first w is a load at 8 - w. */
static const i32 ty_gemm_mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

#define ISA avx512
#define VBYTES 64
#define ATTR __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")))
#include "kernels/gemm_isa.h"

#define ISA avx2
#define VBYTES 32
#define ATTR __attribute__((target("avx2,fma,f16c")))
#include "kernels/gemm_isa.h"
#endif

/* Where the others exist this one is for processors of another age: small. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ATTR __attribute__((optimize("Os")))
#else
#define ATTR
#endif
#define ISA generic
#define VBYTES 16
#include "kernels/gemm_isa.h"

typedef enum { F32, F64, U32, U64 } Compute;
typedef enum { GENERIC, AVX2, AVX512 } Isa;

static const Kern *const kerns[][4] = {
    [GENERIC] = {&kern_f32_generic, &kern_f64_generic, &kern_u32_generic, &kern_u64_generic},
#if defined(__x86_64__)
    [AVX2] = {&kern_f32_avx2, &kern_f64_avx2, &kern_u32_avx2, &kern_u64_avx2},
    [AVX512] = {&kern_f32_avx512, &kern_f64_avx512, &kern_u32_avx512, &kern_u64_avx512},
#endif
};

/* The best instruction set of this machine; TYCHO_ISA=avx2, or generic (also
** called base, as in the tile machine) lowers it. Read once. */
static Isa isa(void) {
  static _Atomic int known; /* 1 + Isa */
  int i = atomic_load_explicit(&known, memory_order_relaxed);
  if (TY_LIKELY(i)) return (Isa)(i - 1);
  Isa best = GENERIC;
#if defined(__x86_64__)
  const char *s = getenv("TYCHO_ISA");
  bool avx2 = ty_cpu_has(CPU_AVX2 | CPU_F16C);
  bool avx512 = avx2 && ty_cpu_has(CPU_AVX512 | CPU_AVX512_DQ);
  best = avx512 ? AVX512 : avx2 ? AVX2 : GENERIC;
  if (s && !strcmp(s, "avx2")) best = TY_MIN(best, AVX2);
  if (s && (!strcmp(s, "generic") || !strcmp(s, "base"))) best = GENERIC;
#endif
  atomic_store_explicit(&known, 1 + (int)best, memory_order_relaxed);
  return best;
}

/* ---- From storage to compute type and back -------------------------------------------------- */

typedef u32 Word4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef u64 Long2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef u16 Half4 __attribute__((vector_size(8), aligned(2), may_alias));
typedef i16 Short4 __attribute__((vector_size(8), aligned(2), may_alias));
typedef u8 Byte4 __attribute__((vector_size(4), aligned(1), may_alias));
typedef i8 Char4 __attribute__((vector_size(4), aligned(1), may_alias));
typedef i32 Int4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float Float4 __attribute__((vector_size(16), may_alias));

#define TURN4(type, p) __builtin_convertvector(*(const type *)(p), Word4)

/* An f16's exponent counts from 112 less than an f32's: a product by 2^112 is exact, and puts
** subnormals right as well. Infinities and NaNs keep all bits of the exponent set. */
static inline Word4 f16_4(const u16 *p) {
  Word4 h = TURN4(Half4, p), u = (h & 0x7fff) << 13;
  Word4 special = (Word4)(u >= 0x0f800000u) & 0x7f800000u;
  return (Word4)((Float4)u * 0x1p112f) | special | (h & 0x8000) << 16;
}

#define PACK pack4
#define ATTR
#define S u32
#define W Word4
#define SQUARE 4
#define GET(p) (*(const Word4 *)(p))
#include "kernels/gemm_pack.h"

#define PACK pack8
#define ATTR
#define S u64
#define W Long2
#define SQUARE 2
#define GET(p) (*(const Long2 *)(p))
#include "kernels/gemm_pack.h"

#define PACK pack_u8
#define ATTR
#define S u8
#define W Word4
#define SQUARE 4
#define GET(p) TURN4(Byte4, p)
#include "kernels/gemm_pack.h"

#define PACK pack_i8
#define ATTR
#define S i8
#define W Word4
#define SQUARE 4
#define GET(p) ((Word4) __builtin_convertvector(*(const Char4 *)(p), Int4))
#include "kernels/gemm_pack.h"

#define PACK pack_i16
#define ATTR
#define S i16
#define W Word4
#define SQUARE 4
#define GET(p) ((Word4) __builtin_convertvector(*(const Short4 *)(p), Int4))
#include "kernels/gemm_pack.h"

#define PACK pack_f16
#define ATTR
#define S u16
#define W Word4
#define SQUARE 4
#define GET(p) f16_4(p)
#include "kernels/gemm_pack.h"

#define PACK pack_bf16
#define ATTR
#define S u16
#define W Word4
#define SQUARE 4
#define GET(p) (TURN4(Half4, p) << 16)
#include "kernels/gemm_pack.h"

#if defined(__x86_64__)
#define PACK pack_f16c /* the same by the instruction: a quarter of the work */
#define ATTR __attribute__((target("avx2,f16c")))
#define S u16
#define W Word4
#define SQUARE 4
#define GET(p) ((Word4)_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(p))))
#include "kernels/gemm_pack.h"
#endif

static const struct {
  PackFn *pack;
  Compute compute;
} stores[T_COUNT] = {
    [T_BOOL] = {pack_u8, U32}, [T_U8] = {pack_u8, U32},     [T_I8] = {pack_i8, U32},
    [T_I16] = {pack_i16, U32}, [T_I32] = {pack4, U32},      [T_I64] = {pack8, U64},
    [T_F16] = {pack_f16, F32}, [T_BF16] = {pack_bf16, F32}, [T_F32] = {pack4, F32},
    [T_F64] = {pack8, F64},
};

const Kern *ty_gemm_kern(int dtype) { return kerns[isa()][stores[dtype].compute]; }

PackFn *ty_gemm_packer(int dtype) {
#if defined(__x86_64__)
  if (dtype == T_F16 && isa() != GENERIC) return pack_f16c;
#endif
  return stores[dtype].pack;
}

void ty_gemm_narrow(int dtype, void *y, i64 yrs, const void *sum, i64 srs, i64 m, i64 n) {
  for (i64 i = 0; i < m; i++) {
    const u32 *u = (const u32 *)sum + i * srs;
    const float *f = (const float *)sum + i * srs;
    u8 *y1 = (u8 *)y + i * yrs;
    u16 *y2 = (u16 *)y + i * yrs;
    switch (dtype) {
    case T_BOOL:
      for (i64 j = 0; j < n; j++) y1[j] = u[j] != 0;
      break;
    case T_F16:
      for (i64 j = 0; j < n; j++) y2[j] = ty_f32_to_f16(f[j]);
      break;
    case T_BF16:
      for (i64 j = 0; j < n; j++) y2[j] = ty_f32_to_bf16(f[j]);
      break;
    case T_I16:
      for (i64 j = 0; j < n; j++) y2[j] = (u16)u[j];
      break;
    default:
      for (i64 j = 0; j < n; j++) y1[j] = (u8)u[j];
    }
  }
}
