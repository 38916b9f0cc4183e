/*
** fft_isa.h -- the kernels of Fourier transforms for one instruction set; included once for each.
** In:  ISA (suffix of names), VBYTES (bytes of a vector: 64, 32, 16), ATTR (its target attribute).
** Out: static const FftKern fft_f32_<ISA>, fft_f64_<ISA>. Cannot fail.
** This file says what a vector is; fft_micro.h holds the algorithms, once for both types.
*/
#define NAME3(a, b, c) a##_##b##_##c
#define NAME2(a, b, c) NAME3(a, b, c)
#define NAME(a) NAME2(a, TAG, ISA)
#define INLINE static inline __attribute__((always_inline)) ATTR
#define FAR static __attribute__((noinline)) ATTR

/* What moves numbers gains nothing from the widest vectors. */
#if VBYTES == 64
#define MOVES 0
#define MOVED(a) NAME2(a, TAG, avx2)
#else
#define MOVES 1
#define MOVED(a) NAME(a)
#endif

/* Loops of small counts are written out. */
#define UNROLL _Pragma("GCC unroll 8")

/* Two vectors as one list of elements, of which some are taken. */
#if defined(__clang__)
#define TAKE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define TAKE(x, y, ...) __builtin_shuffle(x, y, (NAME(Index)){__VA_ARGS__})
#endif
#define BACK16 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#define EVEN16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define BACK8 7, 6, 5, 4, 3, 2, 1, 0
#define EVEN8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD8 1, 3, 5, 7, 9, 11, 13, 15
#define LOW8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define BACK4 3, 2, 1, 0
#define EVEN4 0, 2, 4, 6
#define ODD4 1, 3, 5, 7
#define LOW4 0, 4, 1, 5
#define HIGH4 2, 6, 3, 7
#define BACK2 1, 0
#define EVEN2 0, 2
#define ODD2 1, 3
#define LOW2 0, 2
#define HIGH2 1, 3
/* LOW and HIGH within each 16 bytes; the first and the last 16 of both. */
#if VBYTES == 32
#define ZIP8 0, 8, 1, 9, 4, 12, 5, 13
#define ZAP8 2, 10, 3, 11, 6, 14, 7, 15
#define ZIP4 0, 4, 2, 6
#define ZAP4 1, 5, 3, 7
#define FIRST8 0, 1, 2, 3, 8, 9, 10, 11
#define LAST8 4, 5, 6, 7, 12, 13, 14, 15
#define FIRST4 0, 1, 4, 5
#define LAST4 2, 3, 6, 7
#else
#define ZIP4 LOW4
#define ZAP4 HIGH4
#define ZIP2 LOW2
#define ZAP2 HIGH2
#endif

#define TAG f32
#define T float
#define I i32
#if VBYTES == 64
#define VL 16
#elif VBYTES == 32
#define VL 8
#else
#define VL 4
#endif
#include "fft_micro.h"

#define TAG f64
#define T double
#define I i64
#if VBYTES == 64
#define VL 8
#elif VBYTES == 32
#define VL 4
#else
#define VL 2
#endif
#include "fft_micro.h"

#undef ISA
#undef VBYTES
#undef ATTR
#undef NAME3
#undef NAME2
#undef NAME
#undef INLINE
#undef FAR
#undef TAKE
#undef MOVES
#undef MOVED
#undef UNROLL
#undef BACK16
#undef EVEN16
#undef ODD16
#undef LOW16
#undef HIGH16
#undef BACK8
#undef EVEN8
#undef ODD8
#undef LOW8
#undef HIGH8
#undef BACK4
#undef EVEN4
#undef ODD4
#undef LOW4
#undef HIGH4
#undef BACK2
#undef EVEN2
#undef ODD2
#undef LOW2
#undef HIGH2
#undef ZIP8
#undef ZAP8
#undef ZIP4
#undef ZAP4
#undef ZIP2
#undef ZAP2
#undef FIRST8
#undef LAST8
#undef FIRST4
#undef LAST4
