/*
** profile.c -- whose profile is taken, and the plans that its events name.
** In: a State. Out: events (base/events.h), and the plans that they name, held until the profile is left.
** Cannot fail: beyond PLANS plans events have no plan.
**
** A profile belongs to one State: only that one's engine has the bit DUMP_PROFILE, so others pay nothing. The pool
** serves all, and notes its chunks for whoever runs them meanwhile.
*/
#include "base/events.h"
#include "engine/engine.h"

#include <stdatomic.h>

enum { PLANS = 1 << 10 };

static struct {
  _Atomic bool taken; /* by a State, which alone touches what follows */
  State *_Atomic owner;
  i32 nplans;
  Plan *plan[PLANS];
} profile;

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
    drop_plans(); /* of one that could not be read to its end, out of memory */
  }
  profile.owner = S;
  S->engine->dump |= DUMP_PROFILE;
  ty_event_start();
  return true;
}

bool ty_profile_stop(State *S) {
  if (!(S->engine->dump & DUMP_PROFILE)) return false;
  S->engine->dump &= ~DUMP_PROFILE;
  ty_event_stop();
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
