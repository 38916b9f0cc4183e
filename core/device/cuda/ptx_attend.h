/*
** ptx_attend.h -- attention as PTX: kernels, and the block of bytes that they are given.
*/
#ifndef TY_PTX_ATTEND_H
#define TY_PTX_ATTEND_H

#include "device/cuda/ptx.h"
#include "ir/product.h"

/* The backward pass takes three kernels: what is known of each query first, then gradients of queries and those of keys
** and values. */
typedef enum { ATTEND_FORWARD, ATTEND_PREPARE, ATTEND_QUERIES, ATTEND_KEYS } AttendPass;

typedef struct AttendVariant {
  u8 pass, dtype, nlead;
  u8 operands;                         /* dtype of q, k, v: for ty_ptx_flash half floats too */
  bool causal, mask, bits, drop, fast; /* as in Attend; fast: of f32, for sm_80 and newer */
  u8 features, values;                 /* not 0: by ty_ptx_flash, which has so many, 16 to 128 */
  bool vectors[2];                     /* there: keys, and values, lie in aligned groups of four */
} AttendVariant;

/* The block: i64 throughout, strides in bytes. From LEAD on, for each leading dim: its extent, then the strides of q, k, v,
** mask and g along it. */
enum {
  ATTEND_WORD,
  ATTEND_X = 8,     /* of each operand its address, */
  ATTEND_RS = 64,   /* the row stride, */
  ATTEND_CS = 120,  /* the column stride */
  ATTEND_Y = 176,   /* the result; of gradients the one of q, */
  ATTEND_DK = 184,  /* of k, */
  ATTEND_DV = 192,  /* of v */
  ATTEND_INV = 200, /* scratch of the backward pass, by query: 1 / sum, */
  ATTEND_MEAN = 208,
  ATTEND_MAX = 216,    /* by query, in the result of the forward pass: maxima, */
  ATTEND_SUM = 224,    /* sums */
  ATTEND_COUNT = 232,  /* blocks of queries or keys, queries of PREPARE, in all heads */
  ATTEND_BLOCKS = 240, /* of one head */
  ATTEND_N = 248,
  ATTEND_M = 256,
  ATTEND_FEATURES = 264, /* of q and k, */
  ATTEND_VALUES = 272,   /* of v */
  ATTEND_HEADS = 280,    /* the last leading dim */
  ATTEND_SCALE = 288,    /* bits of the dtype */
  ATTEND_FACTOR = 296,   /* of weights that are kept */
  ATTEND_DROP = 304,
  ATTEND_LEAD = 312,
  ATTEND_LEAD_EACH = 48
};
enum { ATTEND_THREADS = 256, ATTEND_PREPARE_THREADS = 128, ATTEND_SIDE = 64 };
Text ty_ptx_attend(const AttendVariant *v);

/* The forward pass without mask and dropout, where `fast`: 64 queries a block, with all that is known of them in registers. */
enum { FLASH_THREADS = 128, FLASH_MOST = 128 };
Text ty_ptx_flash(const AttendVariant *v);

/* Of both: addresses of a head's operands, by its number; of position `at` of the head in a result, whose heads are side by side: n
** positions of so many features. */
void ty_ptx_attend_head(Ptx *E, int nlead, Reg index, Reg x[AT_OPERANDS]);
Reg ty_ptx_attend_place(Ptx *E, Reg index, Reg base, Reg n, Reg features, Reg at, i64 size);

#endif
