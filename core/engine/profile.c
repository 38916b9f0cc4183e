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

enum { PLANS = 1 << 10, SITES = 1 << 12 };

/* The sites of a plan's nodes, as one recording or instance has them. */
typedef struct Sites {
  i32 plan, n;
  u64 hash;
  i32 site[];
} Sites;

static struct {
  _Atomic bool taken; /* by a State, which alone touches what follows */
  State *_Atomic owner;
  i32 nplans;
  Plan *plan[PLANS];
  i32 nsites;
  Sites *sites[SITES]; /* by hash, open addressing */
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

i32 ty_profile_sites(i32 plan, const Recording *b) {
  const size_t bytes = sizeof *b->site * (size_t)b->nsite;
  if (plan < 0 || !b->nsite) return 0;
  const u64 hash = ty_hash(b->site, bytes, (u64)plan);
  for (u64 at = hash;; at++) {
    Sites **slot = &profile.sites[at % SITES], *s = *slot;
    if (s &&
        (s->hash != hash || s->plan != plan || s->n != b->nsite || memcmp(s->site, b->site, bytes)))
      continue;
    if (s) return (i32)(slot - profile.sites) + 1;
    if (profile.nsites >= SITES / 2 || !(s = ty_mem_alloc(sizeof *s + bytes))) return 0;
    *s = (Sites){plan, b->nsite, hash};
    memcpy(s->site, b->site, bytes);
    *slot = s;
    profile.nsites++;
    return (i32)(slot - profile.sites) + 1;
  }
}

bool ty_profile_sites_of(i32 k, i32 *n, const i32 **site) {
  if (k > SITES) return false;
  const Sites *s = profile.sites[k - 1];
  *n = s ? s->n : 0;
  *site = s ? s->site : NULL;
  return true;
}

static void drop_plans(void) {
  while (profile.nplans) ty_plan_drop(profile.plan[--profile.nplans]);
  for (i32 i = 0; profile.nsites && i < SITES; i++) {
    ty_mem_free(profile.sites[i]);
    profile.sites[i] = NULL;
  }
  profile.nsites = 0;
}

bool ty_profile_start(State *S, bool sites) {
  if (atomic_exchange(&profile.taken, true)) {
    if (profile.owner != S || S->engine->dump & DUMP_PROFILE) return false;
    drop_plans(); /* of one that could not be read to its end, out of memory */
  }
  profile.owner = S;
  S->engine->dump |= DUMP_PROFILE;
  S->sites = sites;
  ty_event_start();
  return true;
}

bool ty_profile_stop(State *S) {
  if (!(S->engine->dump & DUMP_PROFILE)) return false;
  S->engine->dump &= ~DUMP_PROFILE;
  S->sites = false;
  S->site = 0;
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
