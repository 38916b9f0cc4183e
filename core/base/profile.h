/*
** profile.h -- what a profile notes while it runs: spans of time with their thread.
** Level 0, so that the pool can note its chunks; plans are only numbers here.
*/
#ifndef TY_PROFILE_H
#define TY_PROFILE_H

#include "base/base.h"

/* RUN: a plan, STEP: one step of it. MAP and PRODUCT: eager ones without a plan of their own (quick.c),
** `n` elements, or the sizes m | n << 20 | k << 40. CHUNK: a thread's share of a step, `n` units.
** MAKE: a plan was made. */
typedef enum { EV_RUN, EV_STEP, EV_MAP, EV_PRODUCT, EV_CHUNK, EV_MAKE } EventKind;

typedef struct Event {
  i64 begin, end; /* ns of the monotonic clock */
  i64 n;
  i32 plan, step; /* plan: number from ty_profile_plan; PRODUCT: step is the dtype */
  i32 kind, thread;
} Event;

enum { TY_PROFILE_RINGS = 64 }; /* threads that have something to tell */

i64 ty_profile_now(void);
bool ty_profile_on(void); /* of the whole process: for who knows no State */
void ty_profile_note(EventKind kind, i64 begin, i32 plan, i32 step, i64 n); /* ends now */

#endif
