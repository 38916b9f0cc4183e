/*
** events.c -- spans of time, noted by every thread in a ring of its own.
** In: what the pool and the engine have to tell between start and stop. Out: the events, read by the
** thread that stopped. Cannot fail: without memory events are lost.
**
** 1. A ring is full or has room: the oldest events give way. Rings stay for the life of the process,
**    since a worker may still be noting a chunk of another State when a profile stops.
** 2. A worker notes its chunk before it counts it as done, so the caller, who waits for that count,
**    reads whole events.
*/
#include "base/events.h"
#include "base/system.h"

#include <stdatomic.h>

enum { EVENTS = 1 << 15, RINGS = TY_EVENT_RINGS }; /* a ring has 1.5 MB */

typedef struct Ring {
  i32 thread;
  _Atomic i64 n; /* noted so far; event i lies at i % EVENTS */
  Event event[EVENTS];
} Ring;

static struct {
  _Atomic bool on;
  _Atomic int nrings;
  Ring *_Atomic ring[RINGS];
} events;

static _Thread_local Ring *mine;

i64 ty_event_now(void) { return ty_system_now(); }

bool ty_event_on(void) { return atomic_load_explicit(&events.on, memory_order_relaxed); }

static Ring *ring_new(void) {
  Ring *r = events.nrings < RINGS ? ty_mem_zalloc(sizeof *r) : NULL;
  if (!r) return NULL;
  int at = atomic_fetch_add(&events.nrings, 1);
  if (at >= RINGS) {
    ty_mem_free(r);
    return NULL;
  }
  r->thread = at;
  return mine = events.ring[at] = r;
}

void ty_event_note(EventKind kind, i64 begin, i32 plan, i32 step, i64 n, i32 site) {
  i64 end = ty_event_now();
  Ring *r = mine ? mine : ring_new();
  if (!r) return;
  i64 at = atomic_load_explicit(&r->n, memory_order_relaxed);
  r->event[at % EVENTS] = (Event){begin, end, n, plan, step, (i32)kind, r->thread, site};
  atomic_store_explicit(&r->n, at + 1, memory_order_release);
}

void ty_event_start(void) {
  for (int i = 0; i < RINGS; i++)
    if (events.ring[i]) events.ring[i]->n = 0;
  events.on = true;
}

void ty_event_stop(void) { events.on = false; }

const Event *ty_event_read(i32 ring, i64 i, i64 *lost) {
  const Ring *r = events.ring[ring];
  if (!r || i >= TY_MIN(r->n, EVENTS)) return NULL;
  *lost = TY_MAX(r->n - EVENTS, 0);
  return &r->event[(*lost + i) % EVENTS];
}
