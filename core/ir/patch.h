/*
** patch.h -- numbers that follow from a position t of a range of sizes, in the memory of what serves the range.
** Sizes grow by equal steps; t counts these, from 0 to `last`. What is made at five samples of t tells how each number
** follows from it.
*/
#ifndef TY_PATCH_H
#define TY_PATCH_H

#include "ir/type.h"

enum { RANGE_SAMPLES = 5 };

/* The sample's index as t: both ends, beside the ends, the middle. */
static inline i64 ty_range_sample(i32 i, i64 last) {
  const i64 t[RANGE_SAMPLES] = {0, 1, last / 2, last - 1, last};
  return t[i];
}

/* A number that is known to follow from t: the form of c[0] + c[1] t + c[2] t (t - 1) / 2, which grows or falls with t. */
typedef enum { FORM_SIZE, FORM_EIGHTH, FORM_RECIPROCAL, FORM_ROOT, FORM_RECIPROCAL_ROOT } RangeForm;
typedef struct RangeNumber {
  u8 form;
  i64 c[3];
} RangeNumber;

/* Those that operations were given, and one for each size of an instance. */
typedef struct RangeNumbers {
  const RangeNumber *given, *size;
  i32 ngiven, nsizes;
} RangeNumbers;

/* WORD: c[0] + c[1] t + c[2] t (t - 1) / 2. SCALAR: the form of that, as bits of what the dtype is computed in. */
typedef enum { PATCH_WORD, PATCH_SCALAR } PatchKind;
typedef struct Patch {
  void *at;
  u8 kind, form, dtype;
  i64 c[3];
} Patch;

typedef struct Patches {
  Patch *patch;
  i32 n, cap;
} Patches;

/* The polynomial through the values at the samples; false: there is none. Words of two numbers each are such sums, too. */
bool ty_patch_fit(const i64 *v, i64 last, i64 *c);
i64 ty_patch_at(const i64 *c, i64 t);
/* Whether it is more than 1 and grows, perhaps ever faster, as a product of sizes does. */
static inline bool ty_patch_grows(const i64 *c) { return c[0] > 1 && c[1] >= 0 && c[2] >= 0; }
/* Whether the patch gives these bits at the samples. */
bool ty_patch_gives(const Patch *p, const u64 *bits, i64 last);
/* The same of a scalar that an operation was given, or else of a size that it knows itself, as a check of indices does:
** fills all but `at`. */
bool ty_patch_fit_scalar(const u64 *bits, int dtype, const RangeNumbers *known, i64 last, Patch *y);
bool ty_patch_add(Patches *y, const Patch *p); /* false: out of memory */
/* The word at one offset of five blocks, one for each sample, the patches being those of the last one. */
typedef enum { WORD_SAME, WORD_FOLLOWS, WORD_OWN_WAY, WORD_NO_MEMORY } PatchWord;
PatchWord ty_patch_word(char *const *block, size_t offset, i64 last, Patches *y);
/* Makes n numbers what they are at t. */
void ty_patch_apply(const Patch *p, i32 n, i64 t);

#endif
