/*
** pool.c -- the worker pool, and the floating-point environment of kernels.
** In:  a range and a function over parts of it.  Out: the function ran over the whole range.
** Cannot fail: where threads cannot be had the caller does all the work.
**
** One job runs at a time. A caller that finds the pool taken (another lua_State, or a job that asks
** for a job) runs its work alone instead of waiting. The caller takes chunks too and waits only for
** chunks that a worker has begun, so a worker that the system has put aside costs one chunk at
** most.
**
** How a chunk is taken without a lock: `ticket` holds the job's number and the count of chunks
** left; a worker takes one by lowering the count under the number it has seen. A job with a chunk
** in hand cannot end, so its fields are read after the ticket was won and never before.
**
** Work that may be left undone (Watch) is cut finer; once it stops, chunks are taken and not run.
**
** Idle workers watch the ticket for SPIN nanoseconds (a wake-up through the system costs 5 to 8
** microseconds, a watched word less than one), then sleep on a condition variable.
*/
#include "base/events.h"
#include "base/system.h"

#include <stdatomic.h>
#include <stdlib.h>
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#define SPIN 30000 /* nanoseconds an idle worker watches before it sleeps */
#define STACK (1 << 20)
#define CHUNKS_A_HEAD 4 /* chunks for each thread: late threads find some left */
#define PIECE 16        /* grains of a chunk, at most, where work may be left undone, */
#define SLICE_PIECE 1   /* and where it is looked at often */

static struct {
  _Alignas(64) _Atomic u64 ticket; /* number of the job << 32 | chunks left */
  _Alignas(64) _Atomic i64 done;   /* chunks finished */
  PoolFn *fn;
  void *arg;
  i64 n, chunk, nchunks;
  Watch *watch;
  _Alignas(64) atomic_flag busy;
  _Atomic int sleepers, waiting;
  _Atomic int threads; /* in force, the caller included; 0: not yet asked */
  int workers;         /* started; guarded by busy */
  Lock lock;
  Condition wake, finished;
} pool = {.busy = ATOMIC_FLAG_INIT,
          .lock = LOCK_INIT,
          .wake = CONDITION_INIT,
          .finished = CONDITION_INIT};

/* --- work that may be left undone */

static _Thread_local Watch *watching;

void ty_watch(Watch *w) {
  watching = w;
  if (!w) return;
  atomic_init(&w->stopped, false);
  w->owner = &watching;
  w->next = ty_system_now() + w->every;
}

bool ty_watch_stops(void) {
  Watch *w = watching;
  if (TY_LIKELY(!w)) return false;
  if (atomic_load_explicit(&w->stopped, memory_order_relaxed)) return true;
  if (w->owner != &watching) return false;
  const i64 now = ty_system_now();
  if (now < w->next) return false;
  const bool stops = w->ask(w->ctx);
  w->next = (w->every < STOP_LOOKS ? ty_system_now() : now) + w->every;
  if (!stops) return false;
  atomic_store_explicit(&w->stopped, true, memory_order_relaxed);
  return true;
}

/* On this thread, in pieces that take about as long as a question is away. */
static void run_alone(i64 n, PoolFn *fn, void *arg) {
  if (TY_LIKELY(!watching)) {
    fn(arg, 0, n);
    return;
  }
  i64 begin = 0, piece = 1;
  while (begin < n && !ty_watch_stops()) {
    const i64 end = TY_MIN(n, begin + piece), now = ty_system_now();
    fn(arg, begin, end);
    begin = end;
    if (ty_system_now() - now < watching->every / 2) piece *= 2;
  }
}

/* --- the pool */

/* Takes and runs chunks of job `number` until none is left. */
static void work(u32 number) {
  u64 t = atomic_load_explicit(&pool.ticket, memory_order_acquire);
  for (;;) {
    if ((u32)(t >> 32) != number || !(u32)t) return;
    if (!atomic_compare_exchange_weak_explicit(&pool.ticket, &t, t - 1, memory_order_acq_rel,
                                               memory_order_acquire))
      continue;
    i64 left = (u32)t, nchunks = pool.nchunks;
    i64 begin = (nchunks - left) * pool.chunk, end = TY_MIN(begin + pool.chunk, pool.n);
    watching = pool.watch;
    if (!ty_watch_stops()) pool.fn(pool.arg, begin, end);
    if (atomic_fetch_add(&pool.done, 1) + 1 == nchunks && atomic_load(&pool.waiting)) {
      ty_lock(&pool.lock);
      ty_condition_signal(&pool.finished);
      ty_unlock(&pool.lock);
    }
    t = atomic_load_explicit(&pool.ticket, memory_order_acquire);
  }
}

/* Waits until the job is no longer `seen`; returns its number. */
static u32 await_job(u32 seen) {
  u64 t;
  i64 until = ty_system_now() + SPIN;
  do {
    for (int i = 0; i < 64; i++) {
      t = atomic_load_explicit(&pool.ticket, memory_order_acquire);
      if ((u32)(t >> 32) != seen) return (u32)(t >> 32);
      ty_relax();
    }
  } while (ty_system_now() < until);
  ty_lock(&pool.lock);
  atomic_fetch_add(&pool.sleepers, 1);
  while ((u32)((t = atomic_load(&pool.ticket)) >> 32) == seen)
    ty_condition_wait(&pool.wake, &pool.lock);
  atomic_fetch_sub(&pool.sleepers, 1);
  ty_unlock(&pool.lock);
  return (u32)(t >> 32);
}

static void *worker(void *arg) {
  int head = (int)(intptr_t)arg; /* 1 .. : the caller is head 0 */
  ty_fp_enter();
  for (u32 seen = 0;;) {
    seen = await_job(seen);
    if (head < atomic_load_explicit(&pool.threads, memory_order_relaxed)) work(seen);
  }
  return NULL;
}

/* A forked child has no workers; its parent's job, if any, is not its own. */
static void forget(void) {
  pool.workers = 0;
  atomic_store(&pool.sleepers, 0);
  atomic_store(&pool.waiting, 0);
  atomic_store(&pool.ticket, 0);
  ty_lock_init(&pool.lock);
  ty_condition_init(&pool.wake);
  ty_condition_init(&pool.finished);
  atomic_flag_clear(&pool.busy);
}

/* Starts what is missing up to `heads` threads. */
static void start(int heads) {
  static bool registered;
  if (!registered) registered = ty_system_at_fork(NULL, NULL, forget);
  if (!registered) return; /* without it a fork would wait for threads that do not exist */
  while (pool.workers < heads - 1 &&
         ty_thread_start(NULL, STACK, worker, (void *)(intptr_t)(pool.workers + 1)))
    pool.workers++;
}

static int default_threads(void) {
  const char *env = getenv("TYCHO_THREADS");
  int n = env ? atoi(env) : 0;
  if (n <= 0) n = ty_system_processors();
  return TY_MIN(TY_MAX(n, 1), POOL_MOST);
}

int ty_pool_threads(int n) {
  if (n > 0) atomic_store(&pool.threads, TY_MIN(n, POOL_MOST));
  else if (!atomic_load_explicit(&pool.threads, memory_order_relaxed)) {
    int none = 0;
    atomic_compare_exchange_strong(&pool.threads, &none, default_threads());
  }
  return atomic_load_explicit(&pool.threads, memory_order_relaxed);
}

/* Waits for the chunks that workers still hold: a moment awake, then asleep. */
static void await_end(i64 nchunks) {
  for (int i = 0; i < 1000; i++) {
    if (atomic_load_explicit(&pool.done, memory_order_acquire) == nchunks) return;
    ty_relax();
  }
  ty_lock(&pool.lock);
  atomic_store(&pool.waiting, 1);
  while (atomic_load(&pool.done) != nchunks) ty_condition_wait(&pool.finished, &pool.lock);
  atomic_store(&pool.waiting, 0);
  ty_unlock(&pool.lock);
}

/* How much of the range a thread takes at a time. */
static i64 chunk_of(i64 n, i64 grain, int heads) {
  const i64 share = heads * (i64)CHUNKS_A_HEAD;
  const i64 chunk = TY_MAX(grain, n / share + (n % share != 0));
  if (!watching) return chunk;
  const i64 piece = watching->every < STOP_LOOKS ? SLICE_PIECE : PIECE;
  return TY_MIN(chunk, TY_MAX(grain * piece, n / INT32_MAX + 1));
}

/* --- threads of the embedder's */

static struct {
  PoolHost *run;
  void *ctx;
} host;
static _Thread_local bool hosted; /* it runs a part of a job: jobs inside of it are its own */

void ty_pool_host(PoolHost *run, void *ctx) {
  host.run = run;
  host.ctx = ctx;
}

typedef struct HostedJob {
  PoolFn *fn;
  void *arg;
  i64 n, chunk;
  Watch *watch;
} HostedJob;

static void run_chunk(void *arg, int i) {
  const HostedJob *job = arg;
  const i64 begin = i * job->chunk;
  Watch *const before = watching;
  const u32 saved = ty_fp_enter();
  watching = job->watch;
  hosted = true;
  if (!ty_watch_stops()) job->fn(job->arg, begin, TY_MIN(begin + job->chunk, job->n));
  hosted = false;
  watching = before;
  ty_fp_leave(saved);
}

/* The range in as many chunks as the pool makes. */
static void run_hosted(i64 n, i64 chunk, PoolFn *fn, void *arg) {
  HostedJob job = {fn, arg, n, chunk, watching};
  host.run(host.ctx, (int)(n / chunk + (n % chunk != 0)), run_chunk, &job);
}

/* A job whose chunks a profile hears of. */
typedef struct ProfiledJob {
  PoolFn *fn;
  void *arg;
} ProfiledJob;

static void profiled(void *arg, i64 begin, i64 end) {
  const ProfiledJob *job = arg;
  i64 start = ty_event_now();
  job->fn(job->arg, begin, end);
  ty_event_note(EV_CHUNK, start, -1, 0, end - begin, 0);
}

void ty_pool_run(i64 n, i64 grain, PoolFn *fn, void *arg) {
  ProfiledJob job = {fn, arg};
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (TY_UNLIKELY(ty_event_on())) fn = profiled, arg = &job;
  int heads = n > grain && !hosted ? ty_pool_threads(0) : 1;
  if (TY_UNLIKELY(host.run != NULL) && heads > 1) {
    run_hosted(n, chunk_of(n, grain, heads), fn, arg);
    return;
  }
  if (heads == 1 || atomic_flag_test_and_set_explicit(&pool.busy, memory_order_acquire)) {
    run_alone(n, fn, arg);
    return;
  }
  if (pool.workers < heads - 1) start(heads);
  pool.fn = fn, pool.arg = arg, pool.n = n, pool.watch = watching;
  pool.chunk = chunk_of(n, grain, heads);
  pool.nchunks = n / pool.chunk + (n % pool.chunk != 0);
  i64 nchunks = pool.nchunks;
  atomic_store(&pool.done, 0);
  u32 number = (u32)(atomic_load(&pool.ticket) >> 32) + 1;
  number += !number; /* 0 is what a fresh worker has seen */
  atomic_store(&pool.ticket, (u64)number << 32 | (u64)nchunks);
  if (atomic_load(&pool.sleepers)) {
    ty_lock(&pool.lock);
    ty_condition_broadcast(&pool.wake);
    ty_unlock(&pool.lock);
  }
  work(number);
  await_end(nchunks);
  atomic_flag_clear_explicit(&pool.busy, memory_order_release);
}

/* The embedder may have set flush-to-zero or another rounding; kernels never see it. The mask bits are
** kept set, so that no kernel traps. */
u32 ty_fp_enter(void) {
#if defined(__x86_64__) || defined(__SSE2__)
  u32 saved = _mm_getcsr(), plain = 0x1f80;
  if ((saved & ~0x3fu) != plain) _mm_setcsr(plain);
  return saved;
#elif defined(__aarch64__)
  u64 saved, plain = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
  if (saved) __asm__ volatile("msr fpcr, %0" : : "r"(plain));
  return (u32)saved;
#else
  return 0; /* no such modes are known here */
#endif
}

void ty_fp_leave(u32 saved) {
#if defined(__x86_64__) || defined(__SSE2__)
  if ((saved & ~0x3fu) != 0x1f80) _mm_setcsr(saved);
#elif defined(__aarch64__)
  u64 full = saved;
  if (saved) __asm__ volatile("msr fpcr, %0" : : "r"(full));
#else
  (void)saved;
#endif
}
