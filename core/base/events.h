/*
** events.h -- what a profile notes while it runs: spans of time with their thread.
** Everybody may note events, the pool's workers too; plans are only numbers here (engine/profile.c).
*/
#ifndef TY_EVENTS_H
#define TY_EVENTS_H

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
  i32 site; /* RUN and STEP: number from ty_profile_sites; MAP and PRODUCT: see ir/site.h */
} Event;

enum { TY_EVENT_RINGS = 64 }; /* threads that have something to tell */

i64 ty_event_now(void);
bool ty_event_on(void); /* of the whole process: for who knows no State */
/* Ends now. site: 0 is none. */
void ty_event_note(EventKind kind, i64 begin, i32 plan, i32 step, i64 n, i32 site);
void ty_event_start(void); /* forgets what was noted */
void ty_event_stop(void);  /* what was noted can then be read */
/* Event i of one thread from the oldest on; NULL: no more. lost: so many gave way to newer ones. */
const Event *ty_event_read(i32 ring, i64 i, i64 *lost);

#endif
