/*
** cache.c -- kernels by the bytes of their program, for the whole process; plans by key, for one
** State.
** In:  a program or a key.  Out: what was made for it before, or is made now.  Fails for lack of
** memory: then nothing is kept, and callers go on with what they have.
**
** Kernels are counted: plans hold them. One that nobody holds waits, least recently used first
** in line, and goes when all kernels together are over the cap. The lock is held while a kernel
** is made: that takes microseconds. Plans are counted too, so one that runs outlives its
** eviction. Equality is that of bytes, hashes only find.
*/
#include "device/cpu/cpu.h"
#include "engine/engine.h"
#include "base/system.h"

enum {
  KERNEL_CAP = 16 << 20, /* bytes */
  PLAN_CAP = 8 << 20,
  PLAN_MAX = 4096, /* entries */
  BUCKETS_MIN = 64
};

/* --- kernels */

struct KernelEntry {
  KernelEntry *chain;         /* in its bucket */
  KernelEntry *newer, *older; /* among the idle; not linked while refs > 0 */
  const Machine *machine;
  Kernel *kernel;
  u64 hash;
  i64 bytes; /* of all that goes with the entry */
  i32 refs;
  size_t n; /* of the program */
  u8 program[];
};

static struct {
  Lock lock;
  KernelEntry **bucket;
  i32 nbuckets;
  KernelEntry *newest, *oldest; /* idle ones */
  CacheStats stats;
} kernels = {.lock = LOCK_INIT};

static void before_fork(void) { ty_lock(&kernels.lock); }
static void after_fork(void) { ty_unlock(&kernels.lock); }

/* A fork takes the locks in the order of their use, which is against that of registration: this one,
** that of code memory, the allocator's. */
bool ty_kernel_guard(void) {
  static bool done;
  ty_lock(&kernels.lock);
  if (!done)
    done =
        ty_mem_guard() && ty_x64_guard() && ty_system_at_fork(before_fork, after_fork, after_fork);
  ty_unlock(&kernels.lock);
  return done;
}

static void idle_link(KernelEntry *e) {
  e->newer = NULL;
  e->older = kernels.newest;
  if (e->older) e->older->newer = e;
  else kernels.oldest = e;
  kernels.newest = e;
}

static void idle_unlink(KernelEntry *e) {
  if (e->newer) e->newer->older = e->older;
  else kernels.newest = e->older;
  if (e->older) e->older->newer = e->newer;
  else kernels.oldest = e->newer;
}

static void kernel_free(KernelEntry *e) {
  KernelEntry **at = &kernels.bucket[e->hash & (u64)(kernels.nbuckets - 1)];
  while (*at != e) at = &(*at)->chain;
  *at = e->chain;
  kernels.stats.entries--;
  kernels.stats.bytes -= e->bytes;
  e->machine->drop(e->kernel);
  ty_mem_free(e);
}

static void kernels_evict(i64 cap) {
  while (kernels.stats.bytes > cap && kernels.oldest) {
    KernelEntry *e = kernels.oldest;
    idle_unlink(e);
    kernel_free(e);
    kernels.stats.evictions++;
  }
}

/* Doubles the buckets when they are as many as the entries; when out of memory the chains grow
** instead. False only when there are none at all. */
static bool kernels_grow(void) {
  if (kernels.stats.entries < kernels.nbuckets) return true;
  i32 n = kernels.nbuckets ? kernels.nbuckets * 2 : BUCKETS_MIN;
  KernelEntry **bucket = ty_mem_zalloc((size_t)n * sizeof *bucket);
  if (!bucket) return kernels.nbuckets > 0;
  for (i32 i = 0; i < kernels.nbuckets; i++)
    for (KernelEntry *e = kernels.bucket[i], *next; e; e = next) {
      next = e->chain;
      e->chain = bucket[e->hash & (u64)(n - 1)];
      bucket[e->hash & (u64)(n - 1)] = e;
    }
  ty_mem_free(kernels.bucket);
  kernels.bucket = bucket;
  kernels.nbuckets = n;
  return true;
}

static KernelEntry *kernel_find(const Machine *m, const Program *p, size_t n, u64 hash) {
  if (!kernels.nbuckets) return NULL;
  KernelEntry *e = kernels.bucket[hash & (u64)(kernels.nbuckets - 1)];
  for (; e; e = e->chain)
    if (e->hash == hash && e->machine == m && e->n == n && !memcmp(e->program, p, n)) return e;
  return NULL;
}

static KernelEntry *kernel_make(const Machine *m, const Program *p, size_t n, u64 hash) {
  if (!kernels_grow()) return NULL;
  KernelEntry *e = ty_mem_alloc(sizeof *e + n);
  if (!e) return NULL;
  memset(e, 0, sizeof *e);
  if (!(e->kernel = m->make(p))) {
    ty_mem_free(e);
    return NULL;
  }
  e->machine = m;
  e->hash = hash;
  e->n = n;
  memcpy(e->program, p, n);
  e->bytes = (i64)(sizeof *e + n + m->bytes(e->kernel));
  KernelEntry **at = &kernels.bucket[hash & (u64)(kernels.nbuckets - 1)];
  e->chain = *at;
  *at = e;
  kernels.stats.entries++;
  kernels.stats.bytes += e->bytes;
  return e;
}

KernelEntry *ty_kernel_get(const Machine *m, const Program *p) {
  size_t n = ty_program_bytes(p);
  u64 hash = ty_hash(p, n, (u64)(uintptr_t)m);
  ty_lock(&kernels.lock);
  KernelEntry *e = kernel_find(m, p, n, hash);
  if (e) {
    kernels.stats.hits++;
    if (!e->refs) idle_unlink(e);
  } else {
    kernels.stats.misses++;
    e = kernel_make(m, p, n, hash);
  }
  if (e) e->refs++;
  kernels_evict(KERNEL_CAP);
  ty_unlock(&kernels.lock);
  return e;
}

const Kernel *ty_kernel_code(const KernelEntry *e) { return e->kernel; }
const Program *ty_kernel_program(const KernelEntry *e) { return (const Program *)e->program; }

void ty_kernel_drop(KernelEntry *e) {
  if (!e) return;
  ty_lock(&kernels.lock);
  if (!--e->refs) {
    idle_link(e);
    kernels_evict(KERNEL_CAP);
  }
  ty_unlock(&kernels.lock);
}

CacheStats ty_kernel_stats(void) {
  ty_lock(&kernels.lock);
  CacheStats s = kernels.stats;
  ty_unlock(&kernels.lock);
  return s;
}

/* --- plans */

struct PlanEntry {
  PlanEntry *chain;
  PlanEntry *newer, *older;
  Plan *plan;
  u64 hash;
  size_t n; /* of the key */
  u8 key[];
};

void ty_plan_drop(Plan *p) {
  if (!p || --p->refs) return;
  for (i32 i = 0; i < p->nsteps; i++) {
    ty_kernel_drop(p->step[i].entry);
    ty_plan_drop(p->step[i].body);
  }
  for (i32 i = 0; p->nloops && i < p->source->n; i++)
    if (p->source->node[i].op == OP_LOOP) ty_graph_drop_body(p->source->node[i].arg.bits);
  ty_mem_free(p);
}

static PlanEntry **plan_bucket(const PlanCache *C, u64 hash) {
  return &C->bucket[hash & (u64)(C->nbuckets - 1)];
}

static i64 entry_bytes(const PlanEntry *e) { return (i64)(sizeof *e + e->n) + e->plan->bytes; }

static void entry_unlink(PlanCache *C, PlanEntry *e) {
  if (e->newer) e->newer->older = e->older;
  else C->newest = e->older;
  if (e->older) e->older->newer = e->newer;
  else C->oldest = e->newer;
}

static void entry_link(PlanCache *C, PlanEntry *e) {
  e->newer = NULL;
  e->older = C->newest;
  if (e->older) e->older->newer = e;
  else C->oldest = e;
  C->newest = e;
}

static void entry_free(PlanCache *C, PlanEntry *e) {
  PlanEntry **at = plan_bucket(C, e->hash);
  while (*at != e) at = &(*at)->chain;
  *at = e->chain;
  entry_unlink(C, e);
  C->stats.entries--;
  C->stats.bytes -= entry_bytes(e);
  ty_plan_drop(e->plan);
  ty_mem_free(e);
}

static PlanEntry *entry_find(const PlanCache *C, const void *key, size_t n, u64 hash) {
  PlanEntry *e = C->nbuckets ? *plan_bucket(C, hash) : NULL;
  while (e && !(e->hash == hash && e->n == n && !memcmp(e->key, key, n))) e = e->chain;
  return e;
}

static bool plans_grow(PlanCache *C) {
  if (C->stats.entries < C->nbuckets) return true;
  i32 n = C->nbuckets ? C->nbuckets * 2 : BUCKETS_MIN;
  PlanEntry **bucket = ty_mem_zalloc((size_t)n * sizeof *bucket);
  if (!bucket) return C->nbuckets > 0;
  for (PlanEntry *e = C->newest; e; e = e->older) {
    e->chain = bucket[e->hash & (u64)(n - 1)];
    bucket[e->hash & (u64)(n - 1)] = e;
  }
  ty_mem_free(C->bucket);
  C->bucket = bucket;
  C->nbuckets = n;
  return true;
}

Plan *ty_cache_find(State *S, const void *key, size_t n, u64 hash) {
  PlanCache *C = &S->engine->plans;
  PlanEntry *e = entry_find(C, key, n, hash);
  if (!e) {
    C->stats.misses++;
    return NULL;
  }
  C->stats.hits++;
  if (e != C->newest) {
    entry_unlink(C, e);
    entry_link(C, e);
  }
  return e->plan;
}

bool ty_cache_put(State *S, const void *key, size_t n, u64 hash, Plan *p) {
  PlanCache *C = &S->engine->plans;
  i64 cap = C->cap ? C->cap : PLAN_CAP;
  i32 max = C->max ? C->max : PLAN_MAX;
  PlanEntry *e = entry_find(C, key, n, hash);
  if (e) entry_free(C, e); /* replaced */
  if (!plans_grow(C) || !(e = ty_mem_alloc(sizeof *e + n))) return false;
  *e = (PlanEntry){.plan = p, .hash = hash, .n = n};
  memcpy(e->key, key, n);
  i64 bytes = entry_bytes(e);
  if (bytes > cap) {
    ty_mem_free(e);
    return false;
  }
  while (C->oldest && (C->stats.bytes + bytes > cap || C->stats.entries >= max)) {
    entry_free(C, C->oldest);
    C->stats.evictions++;
  }
  e->chain = *plan_bucket(C, hash);
  *plan_bucket(C, hash) = e;
  entry_link(C, e);
  ty_plan_hold(p);
  C->stats.entries++;
  C->stats.bytes += bytes;
  return true;
}

void ty_cache_clear(State *S) {
  PlanCache *C = &S->engine->plans;
  while (C->oldest) entry_free(C, C->oldest);
  ty_mem_free(C->bucket);
  C->bucket = NULL;
  C->nbuckets = 0;
}
