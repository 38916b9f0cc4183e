/*
** ptx_product.h -- matrix products as PTX: kernels, and the block of bytes that they are given.
*/
#ifndef TY_PTX_PRODUCT_H
#define TY_PTX_PRODUCT_H

#include "device/cuda/ptx.h"
#include "ir/product.h"

/* How an operand is walked: its rows and columns go over so many dims each. */
typedef struct Side {
  u8 nrow, ncol, borders;
} Side;
typedef struct ProductVariant {
  u8 dtype, nlead;
  u8 tiles; /* 0: a thread an element, else TILES_ */
  Side side[2];
} ProductVariant;

/* The block: i64 throughout, strides in bytes. From LEAD on: dims of the batch, the strides of a along them, those of b;
** then of each operand row dims and strides, column dims and strides, and for each border its start, its extent, the
** steps of the row's dims, the steps of the column's. */
enum {
  PRODUCT_WORD,
  PRODUCT_A = 8,
  PRODUCT_B = 16,
  PRODUCT_Y = 24,
  PRODUCT_M = 32,
  PRODUCT_N = 40,
  PRODUCT_K = 48,
  PRODUCT_COUNT = 56,
  PRODUCT_LEAD = 64
};
typedef struct SideLayout {
  i32 row, col, border, each; /* each: bytes of a border */
} SideLayout;
typedef struct ProductLayout {
  SideLayout side[2];
  i32 bytes;
} ProductLayout;
ProductLayout ty_ptx_product_layout(const ProductVariant *v);
/* Where both operands of one of the products begin, by its number. */
void ty_ptx_product_item(Ptx *E, const ProductVariant *v, Reg item, Reg *a, Reg *b);

/* One thread an element, in the order of N > 1 (device/cpu/gemm.c). */
enum { PRODUCT_THREADS = 128 };
Text ty_ptx_product(const ProductVariant *v);
/* The same of floats by tiles (ptx_tiles.c), where operands have one stride each way and k is not 0. PRODUCT_COUNT: of tiles.
** A_K, B_K: the operand's elements lie side by side along k. LARGE: of f32, for sm_80 and newer (ptx_tiles_async.c); there
** A_VECTORS, B_VECTORS say that they lie side by side along the other way, in groups of 16 bytes that are aligned, and
** Y_VECTORS that those of y do. WIDE, of LARGE ones: tiles have twice the columns. */
enum {
  TILES = 1,
  TILES_A_K = 2,
  TILES_B_K = 4,
  TILES_LARGE = 8,
  TILES_A_VECTORS = 16,
  TILES_B_VECTORS = 32,
  TILES_Y_VECTORS = 64,
  TILES_WIDE = 128,
  TILE_SIDE = 64,
  TILES_LARGE_SIDE = 128,
  TILES_WIDE_SIDE = 256,
  TILE_THREADS = 256
};
Text ty_ptx_tiles(const ProductVariant *v);
Text ty_ptx_tiles_large(const ProductVariant *v);
i32 ty_ptx_tiles_shared(const ProductVariant *v); /* bytes of shared memory of such a block */

#endif
