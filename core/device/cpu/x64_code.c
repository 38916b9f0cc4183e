/*
** x64_code.c -- memory for machine code.
** In:  bytes.  Out: where they can be executed; pieces are given back one by one. Fails when the
** system lets no code be made, or when out of memory: the caller has another machine.
**
** A region lies at two addresses, at one to be written and at one to be executed, so that no page is
** ever both. Its pages are shared by the processes of a fork, which must not write over each other's
** code: a child takes no more from the regions that it was born with, and the parent never gives out
** again what was in use at that moment.
*/
#include "base/system.h"
#include "device/cpu/x64.h"

enum { REGION = 4 << 20, GRAIN = 64, UNITS = REGION / GRAIN, WORDS = UNITS / 64 };

typedef struct Region Region;
struct Region {
  Region *next;
  u8 *write, *run;
  bool closed; /* belongs to the parent process */
  i32 hint;    /* no free unit below */
  u64 used[WORDS], pinned[WORDS];
};

static struct {
  Lock lock;
  Region *first;
  bool refused, forks; /* the system said no; handlers are in place */
} code = {.lock = LOCK_INIT};

static void before_fork(void) { ty_lock(&code.lock); }

static void after_fork_parent(void) {
  for (Region *r = code.first; r; r = r->next)
    for (i32 i = 0; i < WORDS; i++) r->pinned[i] |= r->used[i];
  ty_unlock(&code.lock);
}

static void after_fork_child(void) {
  for (Region *r = code.first; r; r = r->next) r->closed = true;
  ty_unlock(&code.lock);
}

static bool guard(void) {
  if (!code.forks) code.forks = ty_system_at_fork(before_fork, after_fork_parent, after_fork_child);
  return code.forks;
}

bool ty_x64_guard(void) {
  ty_lock(&code.lock);
  bool done = guard();
  ty_unlock(&code.lock);
  return done;
}

static Region *region_new(void) {
  Region *r = ty_mem_zalloc(sizeof *r);
  if (!r) return NULL;
  if (guard() && ty_system_map_code(REGION, &r->write, &r->run)) {
    r->next = code.first, code.first = r;
    return r;
  }
  ty_mem_free(r);
  code.refused = !code.first;
  return NULL;
}

static bool unit_used(const Region *r, i32 i) { return r->used[i / 64] >> (i % 64) & 1; }

static void mark(u64 *bits, i32 from, i32 n, bool on) {
  for (i32 i = from; i < from + n; i++)
    if (on) bits[i / 64] |= (u64)1 << (i % 64);
    else bits[i / 64] &= ~((u64)1 << (i % 64));
}

/* The first run of n free units, or -1. */
static i32 region_find(Region *r, i32 n) {
  i32 run = 0;
  while (r->hint < UNITS && unit_used(r, r->hint)) r->hint++;
  for (i32 i = r->hint; i < UNITS; i++) {
    if (!(i % 64) && r->used[i / 64] == ~(u64)0) {
      run = 0, i += 63;
      continue;
    }
    run = unit_used(r, i) ? 0 : run + 1;
    if (run == n) return i - n + 1;
  }
  return -1;
}

void *ty_x64_code_put(const void *p, size_t n) {
  i32 units = (i32)((n + GRAIN - 1) / GRAIN), at = -1;
  if (!n || n > REGION / 4) return NULL;
  ty_lock(&code.lock);
  Region *r = code.refused ? NULL : code.first;
  for (; r; r = r->next)
    if (!r->closed && (at = region_find(r, units)) >= 0) break;
  if (!r && !code.refused && (r = region_new())) at = 0;
  if (r) {
    mark(r->used, at, units, true);
    memcpy(r->write + (size_t)at * GRAIN, p, n);
  }
  ty_unlock(&code.lock);
  return r ? r->run + (size_t)at * GRAIN : NULL;
}

void ty_x64_code_free(void *p, size_t n) {
  i32 units = (i32)((n + GRAIN - 1) / GRAIN);
  if (!p) return;
  ty_lock(&code.lock);
  for (Region *r = code.first; r; r = r->next) {
    if ((u8 *)p < r->run || (u8 *)p >= r->run + REGION || r->closed) continue;
    i32 at = (i32)(((u8 *)p - r->run) / GRAIN);
    for (i32 i = at; i < at + units; i++)
      if (!(r->pinned[i / 64] >> (i % 64) & 1)) mark(r->used, i, 1, false);
    r->hint = TY_MIN(r->hint, at);
  }
  ty_unlock(&code.lock);
}

/* A child process may be refused what its parent was given. */
bool ty_x64_code_can(void) {
  ty_lock(&code.lock);
  Region *r = code.first;
  while (r && r->closed) r = r->next;
  bool can = r || (!code.refused && region_new());
  ty_unlock(&code.lock);
  return can;
}
