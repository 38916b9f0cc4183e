/*
** x64_code.c -- memory for machine code.
** In:  bytes.  Out: where they can be executed; pieces are given back one by one. Fails when the
** system lets no code be made, or when out of memory: the caller has another machine.
**
** A region is one file in memory mapped twice, once to be written and once to be executed, so that no
** page is ever both. Its pages are shared by the processes of a fork, which must not write over each
** other's code: a child takes no more from the regions that it was born with, and the parent never
** gives out again what was in use at that moment.
*/
#include "device/cpu/x64.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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
  pthread_mutex_t lock;
  Region *first;
  bool refused, forks; /* the system said no; handlers are in place */
} code = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void) { pthread_mutex_lock(&code.lock); }

static void after_fork_parent(void) {
  for (Region *r = code.first; r; r = r->next)
    for (i32 i = 0; i < WORDS; i++) r->pinned[i] |= r->used[i];
  pthread_mutex_unlock(&code.lock);
}

static void after_fork_child(void) {
  for (Region *r = code.first; r; r = r->next) r->closed = true;
  pthread_mutex_unlock(&code.lock);
}

static bool guard(void) {
  if (!code.forks) code.forks = !pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  return code.forks;
}

bool ty_x64_guard(void) {
  pthread_mutex_lock(&code.lock);
  bool done = guard();
  pthread_mutex_unlock(&code.lock);
  return done;
}

/* A limit on the length of files holds here too, and going beyond it is a signal that kills. */
static bool within_limit(void) {
  struct rlimit r;
  return getrlimit(RLIMIT_FSIZE, &r) || r.rlim_cur >= REGION;
}

static Region *region_new(void) {
  Region *r = ty_mem_zalloc(sizeof *r);
  if (!r) return NULL;
  int fd = guard() && within_limit() ? memfd_create("tycho", MFD_CLOEXEC) : -1;
  void *w = MAP_FAILED, *x = MAP_FAILED;
  if (fd >= 0 && !ftruncate(fd, REGION)) {
    w = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    x = mmap(NULL, REGION, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  }
  if (fd >= 0) close(fd);
  if (w != MAP_FAILED && x != MAP_FAILED) {
    r->write = w, r->run = x;
    r->next = code.first, code.first = r;
    return r;
  }
  if (w != MAP_FAILED) munmap(w, REGION);
  if (x != MAP_FAILED) munmap(x, REGION);
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
  pthread_mutex_lock(&code.lock);
  Region *r = code.refused ? NULL : code.first;
  for (; r; r = r->next)
    if (!r->closed && (at = region_find(r, units)) >= 0) break;
  if (!r && !code.refused && (r = region_new())) at = 0;
  if (r) {
    mark(r->used, at, units, true);
    memcpy(r->write + (size_t)at * GRAIN, p, n);
  }
  pthread_mutex_unlock(&code.lock);
  return r ? r->run + (size_t)at * GRAIN : NULL;
}

void ty_x64_code_free(void *p, size_t n) {
  i32 units = (i32)((n + GRAIN - 1) / GRAIN);
  if (!p) return;
  pthread_mutex_lock(&code.lock);
  for (Region *r = code.first; r; r = r->next) {
    if ((u8 *)p < r->run || (u8 *)p >= r->run + REGION || r->closed) continue;
    i32 at = (i32)(((u8 *)p - r->run) / GRAIN);
    for (i32 i = at; i < at + units; i++)
      if (!(r->pinned[i / 64] >> (i % 64) & 1)) mark(r->used, i, 1, false);
    r->hint = TY_MIN(r->hint, at);
  }
  pthread_mutex_unlock(&code.lock);
}

/* A child process may be refused what its parent was given. */
bool ty_x64_code_can(void) {
  pthread_mutex_lock(&code.lock);
  Region *r = code.first;
  while (r && r->closed) r = r->next;
  bool can = r || (!code.refused && region_new());
  pthread_mutex_unlock(&code.lock);
  return can;
}
