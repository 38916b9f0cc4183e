/*
** gemm_isa.h -- the kernels of matrix products for one instruction set; included once for each.
** In:  ISA (suffix of names), VBYTES (bytes of a vector: 64, 32, 16), ATTR (its target attribute).
** Out: static const Kern kern_f32_<ISA>, kern_f64_, kern_u32_, kern_u64_. Cannot fail.
** This file says what a vector is; gemm_micro.h holds the algorithms, once for all types.
*/
#define NAME3(a, b, c) a##_##b##_##c
#define NAME2(a, b, c) NAME3(a, b, c)
#define NAME(a) NAME2(a, TAG, ISA)
#define INLINE static inline __attribute__((always_inline)) ATTR

/* Whether an fma of vectors is an instruction; else it is one of each lane, often a call. */
#if VBYTES == 16 && !defined(__aarch64__)
#define VECTOR_FMA 0
#else
#define VECTOR_FMA 1
#endif

/* Only registers want loops written out; sums that live in memory are better short. */
#if VECTOR_FMA
#define UNROLL _Pragma("GCC unroll 16")
#else
#define UNROLL _Pragma("GCC unroll 1")
#endif

/* Masked loads and stores of the first w elements; what is not loaded is zero and never touched. */
#if VBYTES == 64
#define FLOAT_ROWS 8
#define OPS 1
#define MASK4(w) ((__mmask16)((1u << (w)) - 1))
#define MASK8(w) ((__mmask8)((1u << (w)) - 1))
#define MLOAD4(p, m) _mm512_maskz_loadu_epi32(m, p)
#define MLOAD8(p, m) _mm512_maskz_loadu_epi64(m, p)
#define MSTORE4(p, m, v) _mm512_mask_storeu_epi32(p, m, (__m512i)(v))
#define MSTORE8(p, m, v) _mm512_mask_storeu_epi64(p, m, (__m512i)(v))
#define FMAF(x, y, z) (V) _mm512_fmadd_ps((__m512)(x), (__m512)(y), (__m512)(z))
#define FMAD(x, y, z) (V) _mm512_fmadd_pd((__m512d)(x), (__m512d)(y), (__m512d)(z))
#define HALVES(x) _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define MAXF(x, y) (V) _mm512_max_ps((__m512)(x), (__m512)(y))
#define MINF(x, y) (V) _mm512_min_ps((__m512)(x), (__m512)(y))
#define MAXD(x, y) (V) _mm512_max_pd((__m512d)(x), (__m512d)(y))
#define MIND(x, y) (V) _mm512_min_pd((__m512d)(x), (__m512d)(y))
#elif VBYTES == 32
#define FLOAT_ROWS 6
#define OPS 1
#define MASK4(w) _mm256_loadu_si256((const __m256i *)(ty_gemm_mask + 8 - (w)))
#define MASK8(w) _mm256_loadu_si256((const __m256i *)(ty_gemm_mask + 8 - 2 * (w)))
#define MLOAD4(p, m) _mm256_maskload_epi32((const int *)(p), m)
#define MLOAD8(p, m) _mm256_maskload_epi64((const long long *)(p), m)
#define MSTORE4(p, m, v) _mm256_maskstore_epi32((int *)(p), m, (__m256i)(v))
#define MSTORE8(p, m, v) _mm256_maskstore_epi64((long long *)(p), m, (__m256i)(v))
#define FMAF(x, y, z) (V) _mm256_fmadd_ps((__m256)(x), (__m256)(y), (__m256)(z))
#define FMAD(x, y, z) (V) _mm256_fmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(z))
#define HALVES(x) _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT)
#define MAXF(x, y) (V) _mm256_max_ps((__m256)(x), (__m256)(y))
#define MINF(x, y) (V) _mm256_min_ps((__m256)(x), (__m256)(y))
#define MAXD(x, y) (V) _mm256_max_pd((__m256d)(x), (__m256d)(y))
#define MIND(x, y) (V) _mm256_min_pd((__m256d)(x), (__m256d)(y))
#else
#if defined(__aarch64__) /* 32 registers: 16 sums */
#define FLOAT_ROWS 8
#elif defined(__x86_64__) /* where it is seldom wanted, and each fma is a call: small */
#define FLOAT_ROWS 2
#else
#define FLOAT_ROWS 4
#endif
#define OPS 0
#define MASK4(w) (w)
#define MASK8(w) (w)
#define MLOAD4(p, w) NAME(mload)(p, w)
#define MLOAD8(p, w) NAME(mload)(p, w)
#define MSTORE4(p, w, v) NAME(mstore)(p, w, v)
#define MSTORE8(p, w, v) NAME(mstore)(p, w, v)
#if defined(__aarch64__)
#define FMAF(x, y, z) (V) vfmaq_f32((float32x4_t)(z), (float32x4_t)(x), (float32x4_t)(y))
#define FMAD(x, y, z) (V) vfmaq_f64((float64x2_t)(z), (float64x2_t)(x), (float64x2_t)(y))
#else
/* Lane by lane: libm's fma is exact on every machine, by the instruction where there is one. */
#define FMAF(x, y, z) \
  (V) { \
    __builtin_fmaf((x)[0], (y)[0], (z)[0]), __builtin_fmaf((x)[1], (y)[1], (z)[1]), \
        __builtin_fmaf((x)[2], (y)[2], (z)[2]), __builtin_fmaf((x)[3], (y)[3], (z)[3]) \
  }
#define FMAD(x, y, z) \
  (V) { __builtin_fma((x)[0], (y)[0], (z)[0]), __builtin_fma((x)[1], (y)[1], (z)[1]) }
#endif
#endif

/* Integers wrap, so they are unsigned here, and any order of theirs gives the same bits. */
#define MULADD(x, y, z) ((x) * (y) + (z))

#if VBYTES == 64
#define SPEEDS(a, b, c) a
#elif VBYTES == 32
#define SPEEDS(a, b, c) b
#elif VECTOR_FMA
#define SPEEDS(a, b, c) (b) / 3 /* half as wide, at a lower clock */
#else
#define SPEEDS(a, b, c) c
#endif
#define INTEGER_ROWS TY_MIN(FLOAT_ROWS, 4) /* they keep the multiplier busy */

#define TAG f32
#define T float
#define TBYTES 4
#define FMA FMAF
#define FMA1 __builtin_fmaf
#define MAX MAXF
#define MIN MINF
#define ROWS FLOAT_ROWS
#define APPLY OPS
#define FLOATING 1
#define TRANSPOSE 1
#define SPEED SPEEDS(120000, 60000, 800)
#include "gemm_micro.h"

#define TAG f64
#define T double
#define TBYTES 8
#define FMA FMAD
#define FMA1 __builtin_fma
#define MAX MAXD
#define MIN MIND
#define ROWS FLOAT_ROWS
#define APPLY OPS
#define FLOATING 1
#define TRANSPOSE 1
#define SPEED SPEEDS(60000, 30000, 800)
#include "gemm_micro.h"

#define TAG u32
#define T u32
#define TBYTES 4
#define FMA MULADD
#define FMA1 MULADD
#define ROWS INTEGER_ROWS
#define APPLY 0
#define FLOATING 0
#define TRANSPOSE 0 /* rare: packed */
#define SPEED SPEEDS(100000, 50000, 4000)
#include "gemm_micro.h"

#define TAG u64
#define T u64
#define TBYTES 8
#define FMA MULADD
#define FMA1 MULADD
#define ROWS INTEGER_ROWS
#define APPLY 0
#define FLOATING 0
#define TRANSPOSE 0 /* rare: packed */
#define SPEED SPEEDS(50000, 10000, 1000)
#include "gemm_micro.h"

#undef ISA
#undef VBYTES
#undef ATTR
#undef NAME3
#undef NAME2
#undef NAME
#undef INLINE
#undef UNROLL
#undef VECTOR_FMA
#undef FLOAT_ROWS
#undef OPS
#undef MASK4
#undef MASK8
#undef MLOAD4
#undef MLOAD8
#undef MSTORE4
#undef MSTORE8
#undef FMAF
#undef FMAD
#undef MULADD
#undef HALVES
#undef MAXF
#undef MINF
#undef MAXD
#undef MIND
#undef SPEEDS
#undef INTEGER_ROWS
