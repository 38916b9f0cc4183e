/*
** cpu.h -- the CPU as a device: its two machines, products, attention, host routines.
*/
#ifndef TY_CPU_H
#define TY_CPU_H

#include "base/text.h"
#include "device/device.h"

/* What is done for every dtype that kernels see: its name here, and how an element is stored. */
#define STORED(_) \
  _(BOOL, bool, u8) \
  _(U8, u8, u8) \
  _(I8, i8, i8) \
  _(I16, i16, i16) \
  _(I32, i32, i32) \
  _(I64, i64, i64) \
  _(F16, f16, u16) \
  _(BF16, bf16, u16) \
  _(F32, f32, float) \
  _(F64, f64, double)

extern const Machine ty_machine_tile;
extern const Machine ty_machine_x64;         /* x86-64 with AVX2 or AVX-512 */
const char *ty_x64_refusal(void);            /* why this system has it not, or NULL */
bool ty_x64_guard(void);                     /* forks leave its code whole; false: no memory */
const char *ty_x64_listing(const Kernel *k); /* bytes and instructions; NULL without TYCHO_DUMP=a */
void ty_x64_list(const Program *p,
                 Text *t); /* the same of a kernel for p; nothing where it is no machine code */

/*
** Products. An epilogue is called with every tile of the product when its last sum is in, while the tile lies in a
** cache. Panels are b in the layout that kernels read, packed ahead by ty_gemm_pack for a b that serves many products.
** Neither shows in the bits of the product.
*/
typedef struct GemmEpilogue GemmEpilogue;
struct GemmEpilogue {
  /* Rows [row, row + rows), counted through the whole batch, of columns [col, col + cols) lie at
  ** `tile`, rows `stride` elements apart, rounded to the product's dtype. Each element is given
  ** once, by any thread. False: out of memory. */
  bool (*tile)(const GemmEpilogue *e, void *tile, i64 stride, i64 row, i64 rows, i64 col, i64 cols);
  bool aside; /* y cannot hold the product: tiles lie in scratch, and the epilogue writes y */
  /* The same as a list, if it can be said so, else NULL: where sums are in registers it is applied
  ** to them, and no tile is shown. */
  const GemmList *list;
};

/* panels, epilogue: NULL when there are none; K = 0 has no epilogue. False: out of memory; y is then undefined. */
bool ty_gemm(const Gemm *d, const void *a, const void *b, const void *panels, void *y,
             const GemmEpilogue *epilogue);
/* Bytes of b's panels; 0 where they would not be read, or not save a noticeable share. */
i64 ty_gemm_panels(const Gemm *d);
void ty_gemm_pack(const Gemm *d, const void *b, void *panels);
/* What bf16 products can run on under precision "fast", as gemm_amx.c says: "AMX", "AVX512-BF16"; NULL:
** nothing but what all others do. Asks the system once. */
const char *ty_bf16_unit(void);
const char *ty_amx_refusal(void); /* why it is not AMX, or NULL */
bool ty_bf16_emulated(void);      /* as TYCHO_AMX wants it */
/* The same by OpenBLAS (f32, f64); false with *err set when it cannot be had. */
bool ty_gemm_blas(const Gemm *d, const void *a, const void *b, void *y, const char **err);
bool ty_blas_load(const char **err);    /* dlopen, once */
void *ty_blas_symbol(const char *name); /* cblas_*, LAPACK's dgesv_ ...; NULL when absent */
/* Runs fn, which calls them, where the stack has room for what they have there: on the caller's or on a
** thread's of its own. False: there is none. */
bool ty_blas_call(void (*fn)(void *), void *arg);

/* x: the operands' addresses, NULL for what there is not. False: out of memory, nothing is written. */
bool ty_attend(const Attend *d, const void *const *x, void *y);

/* Routines on contiguous operands; rows = product of the dims before, inner = of those behind.
** Positions count from 0. Argsort is stable in both directions; NaNs count as the largest, so they
** come last ascending and first descending; y has the first `keep` positions of each row; it fails when scratch
** memory runs out alone. */
bool ty_routine_argsort(int dtype, const void *x, i64 *y, i64 outer, i64 n, i64 keep, i64 inner,
                        bool descending);
void ty_routine_searchsorted(int dtype, const void *sorted, const void *v, i64 *y, i64 rows, i64 n,
                             i64 m, bool right);
/* Fourier transforms of f32 or f64 along a dim of n, as the row FFT says (graph.h). False: out of memory. */
bool ty_fft(int dtype, int kind, int norm, const void *x, void *y, i64 outer, i64 n, i64 inner);
/* y already holds a's contents. src and y: contiguous; by: how the index goes from element to element of src, 0 along
** dims that share a position. Threads share out a dim that is not scattered. */
void ty_routine_scatter(int dtype, void *y, const Type *ydims, const i64 *index, const i64 *by,
                        const void *src, const Type *sdims, int dim, bool add);

#endif
