/*
** shape_range.h -- one instance of a trace for a range of sizes.
*/
#ifndef TY_SHAPE_RANGE_H
#define TY_SHAPE_RANGE_H

#include "engine/trace.h"
#include "ir/patch.h"

enum { RANGE_LEAST = 5 /* of `last` */, RANGE_HOLES = 64 };

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

/* From instances of one trace for the sizes at ty_range_sample(i, last), made in captures for Capture.ranged and with
** Engine.choices, whose plans nobody else holds. Takes over the last of them on success, and may change the others, which
** stay the caller's. step 0: no tensor tells t. NULL: *why. */
ShapeRange *ty_shape_range_make(Instance *const *sample, i64 last, const RangeNumbers *known,
                                const char **why);
/* range_decided.c: the range is not for t; false: there are too many such points. */
bool ty_shape_range_hole(ShapeRange *r, i64 t);
/* The points at which something is decided otherwise become holes. NULL, or why there is no range. */
const char *ty_range_decided(Instance *const *sample, ShapeRange *r);
/* Why there is none where plans differ; a smaller range may be. */
extern const char ty_range_differ[];
/* Whether dims of these types, one for each sample, follow from sizes as they may: NULL, or why not. */
const char *ty_range_dims(const Type *const *t, i64 last);
/* range_tape.c: the last tape becomes one for the range. NULL, or why it cannot. */
const char *ty_range_tape(TracedTape *const *sample, i64 last, const RangeNumbers *known);

/* Why it is none any more: its backward pass cannot be one for the range. NULL: it is one. */
const char *ty_shape_range_unfit(const ShapeRange *r);
/* Where the sizes are at t. */
bool ty_shape_range_has(const ShapeRange *r, i64 t);
/* Makes r->I what it is for the sizes at t. Cannot fail. */
void ty_shape_range_set(ShapeRange *r, i64 t);
/* The plan's source, too, for whoever looks at it. */
void ty_shape_range_tell(ShapeRange *r);
void ty_shape_range_free(ShapeRange *r);

#endif
