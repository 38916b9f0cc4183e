/*
** slice.h -- a plan's run in slices of time.
*/
#ifndef TY_SLICE_H
#define TY_SLICE_H

#include "engine/engine.h"

typedef struct SlicedRun SlicedRun;

/* Of a recording whose inputs are bound, which stay held until the end; so what the run reads is what they held here,
** and outputs are fresh buffers, in outbuf as ty_exec_run leaves them. Nothing has run yet. NULL: S->err. */
SlicedRun *ty_slice_new(State *S, Plan *p, Recording *b, Buffer **outbuf);

typedef enum { SLICE_PAUSED, SLICE_DONE, SLICE_FAILED } SliceState;
/* Goes on until the clock of ty_system_now shows `until`, or the end. FAILED: S->err. */
SliceState ty_slice_run(SlicedRun *r, i64 until);

/* What has not run is left undone; of that nothing is seen. NULL is nothing. */
void ty_slice_free(SlicedRun *r);

#endif
