/*
** shape_range.h -- one instance of a trace for a range of sizes.
*/
#ifndef TY_SHAPE_RANGE_H
#define TY_SHAPE_RANGE_H

#include "engine/trace.h"

enum { RANGE_SAMPLES = 5, RANGE_LEAST = 5 /* of `last` */, RANGE_HOLES = 64 };

/* A number that is known to follow from t: the form of c[0] + c[1] t. */
typedef enum { FORM_SIZE, FORM_EIGHTH, FORM_RECIPROCAL, FORM_ROOT, FORM_RECIPROCAL_ROOT } RangeForm;
typedef struct RangeNumber {
  u8 form;
  i64 c[2];
} RangeNumber;

/* Those that operations were given, and one for each size of an instance. */
typedef struct RangeNumbers {
  const RangeNumber *given, *size;
  i32 ngiven, nsizes;
} RangeNumbers;

/* How a number of the instance follows from t: c[0] + c[1] t + c[2] t (t - 1) / 2. */
typedef struct Patch {
  void *at;
  u8 kind, form, dtype; /* of shape_range.c */
  i64 c[3];
} Patch;

/* Sizes that a call may have are those at t = 0 .. last but for the holes. */
typedef struct ShapeRange {
  Instance *I; /* as it is for the sizes at `now` */
  i64 now, last;
  i64 hole[RANGE_HOLES];
  i32 nholes;
  i32 outside,
      dim; /* t is told by this dim of that tensor; outside -1: by the instance's size `dim` ... */
  i64 first, step;       /* ... which is first + step t */
  i32 npatches, nsource; /* nsource: behind the others, of the plan's source */
  i64 told;              /* t that the source is for */
  Patch *patch;
} ShapeRange;

/* The sample's index as t. */
static inline i64 ty_range_sample(i32 i, i64 last) {
  const i64 t[RANGE_SAMPLES] = {0, 1, last / 2, last - 1, last};
  return t[i];
}

/* From instances of one trace for the sizes at ty_range_sample(i, last), made with Engine.ranged, whose plans nobody else
** holds. Takes over the last of them on success, and may change the others, which stay the caller's. NULL: *why. */
ShapeRange *ty_shape_range_make(Instance *const *sample, i64 last, const RangeNumbers *known,
                                const char **why);
/* Where the sizes are at t. */
bool ty_shape_range_has(const ShapeRange *r, i64 t);
/* Makes r->I what it is for the sizes at t. Cannot fail. */
void ty_shape_range_set(ShapeRange *r, i64 t);
/* The plan's source, too, for whoever looks at it. */
void ty_shape_range_tell(ShapeRange *r);
void ty_shape_range_free(ShapeRange *r);

#endif
