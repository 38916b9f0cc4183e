/*
** profile.c -- spans of time, noted by every thread in a ring of its own.
** In: what exec.c, quick.c, plan.c and the pool have to tell between start and stop. Out: the events,
** read by the thread that stopped; the plans that they name, held until then. Cannot fail: where there is
** no memory, or there are more than PLANS plans, events are lost or have no plan.
**
** 1. A profile belongs to one State: only that one's engine has the bit DUMP_PROFILE, so others
**    pay nothing. The pool serves all, and notes its chunks for whoever runs them meanwhile.
** 2. A ring is full or has room: the oldest events give way. Rings stay for the life of the process,
**    since a worker may still be noting a chunk of another State when a profile stops.
** 3. A worker notes its chunk before it counts it as done, so the caller, who waits for that count,
**    reads whole events.
*/
#include "engine/engine.h"
#include "base/profile.h"

#include <stdatomic.h>
#include <time.h>

enum { EVENTS = 1 << 15, RINGS = TY_PROFILE_RINGS, PLANS = 1 << 10 }; /* a ring has 1.5 MB */

typedef struct Ring {
  i32 thread;
  _Atomic i64 n; /* noted so far; event i lies at i % EVENTS */
  Event event[EVENTS];
} Ring;

static struct {
  _Atomic bool on;
  _Atomic int nrings;
  Ring *_Atomic ring[RINGS];
  _Atomic bool taken; /* by a State, which alone touches what follows */
  State *_Atomic owner;
  i32 nplans;
  Plan *plan[PLANS];
} profile;

static _Thread_local Ring *mine;

i64 ty_profile_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool ty_profile_on(void) { return atomic_load_explicit(&profile.on, memory_order_relaxed); }

static Ring *ring_new(void) {
  Ring *r = profile.nrings < RINGS ? ty_mem_zalloc(sizeof *r) : NULL;
  if (!r) return NULL;
  int at = atomic_fetch_add(&profile.nrings, 1);
  if (at >= RINGS) {
    ty_mem_free(r);
    return NULL;
  }
  r->thread = at;
  return mine = profile.ring[at] = r;
}

void ty_profile_note(EventKind kind, i64 begin, i32 plan, i32 step, i64 n) {
  i64 end = ty_profile_now();
  Ring *r = mine ? mine : ring_new();
  if (!r) return;
  i64 at = atomic_load_explicit(&r->n, memory_order_relaxed);
  r->event[at % EVENTS] = (Event){begin, end, n, plan, step, (i32)kind, r->thread};
  atomic_store_explicit(&r->n, at + 1, memory_order_release);
}

/* Plans are few and run in turn: the last one found is the likeliest. */
i32 ty_profile_plan(Plan *p) {
  i32 i = profile.nplans;
  while (i-- > 0)
    if (profile.plan[i] == p) return i;
  if (profile.nplans == PLANS) return -1;
  profile.plan[profile.nplans] = ty_plan_hold(p);
  return profile.nplans++;
}

static void drop_plans(void) {
  while (profile.nplans) ty_plan_drop(profile.plan[--profile.nplans]);
}

bool ty_profile_start(State *S) {
  if (atomic_exchange(&profile.taken, true)) {
    if (profile.owner != S || S->engine->dump & DUMP_PROFILE) return false;
    drop_plans(); /* one that could not be read to its end, for want of memory */
  }
  profile.owner = S;
  for (int i = 0; i < RINGS; i++)
    if (profile.ring[i]) profile.ring[i]->n = 0;
  S->engine->dump |= DUMP_PROFILE;
  return profile.on = true;
}

bool ty_profile_stop(State *S) {
  if (!(S->engine->dump & DUMP_PROFILE)) return false;
  S->engine->dump &= ~DUMP_PROFILE;
  profile.on = false;
  return true;
}

void ty_profile_leave(void) {
  drop_plans();
  profile.owner = NULL;
  profile.taken = false;
}

void ty_profile_close(State *S) {
  ty_profile_stop(S);
  if (profile.owner == S) ty_profile_leave();
}

const Plan *ty_profile_held(i32 i) { return i < profile.nplans ? profile.plan[i] : NULL; }

const Event *ty_profile_event(i32 ring, i64 i, i64 *lost) {
  const Ring *r = profile.ring[ring];
  if (!r || i >= TY_MIN(r->n, EVENTS)) return NULL;
  *lost = TY_MAX(r->n - EVENTS, 0);
  return &r->event[(*lost + i) % EVENTS];
}
