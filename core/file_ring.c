/*
** file_ring.c -- files read ahead of who takes them, by threads that know nothing of Lua.
** In: jobs. Out: results in the order of the jobs, the same whatever the number of threads.
** A job that fails has its message in its result; nothing else fails but for want of memory, and
** without threads the taker reads.
**
** Item i lies in slot i mod capacity from the time a thread claims it until it is taken; a thread
** claims item i when i < taken + capacity. So at most `capacity` results wait, whatever their size.
** One lock guards the counters and the flags; files are read outside of it.
** A fork copies the ring without its threads, and the lock in any state: the child (pid differs)
** touches neither and reads what it takes itself. What had been read is lost to it, not shared.
*/
#include "file_ring.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { WORKERS = 16 };

struct Ring {
  RingPlan plan;
  RingJob *job; /* owned, as the text that their paths lie in */
  char *names;
  i64 jobs, claimed, taken;
  RingItem *item; /* owned, `capacity` */
  pthread_mutex_t lock;
  pthread_cond_t ready, room; /* an item is done; a slot is free, or the ring stops */
  pthread_t thread[WORKERS];
  int threads;
  bool started, stopping;
  pid_t pid; /* of the process whose threads these are */
};

static bool read_record(const Ring *r, File *f, i64 at, Image *y) {
  if (at < 0 || r->plan.bytes > f->size - at)
    return ty_file_fail(f, "holds %lld bytes, a record of %lld was expected at %lld",
                        (long long)f->size, (long long)r->plan.bytes, (long long)at);
  *y = (Image){ty_file_alloc(r->plan.bytes), 1, 1, 1};
  if (!y->data) return ty_file_fail_memory(f, r->plan.bytes);
  if (ty_file_read(f, at, y->data, r->plan.bytes)) return true;
  ty_file_free(y->data);
  y->data = NULL;
  return false;
}

/* A picture, its pixels plane by plane. */
static bool read_planes(const Ring *r, File *f, Image *y) {
  if (!ty_image_read(f, &r->plan.want, y) || y->channels == 1) return y->data != NULL;
  i64 bytes = (i64)y->width * y->height * y->channels;
  u8 *planes = ty_file_alloc(bytes);
  if (planes) ty_image_planes(y, planes);
  else ty_file_fail_memory(f, bytes);
  ty_file_free(y->data);
  return (y->data = planes) != NULL;
}

/* Job i into y. */
static void do_job(const Ring *r, i64 i, RingItem *y) {
  File f = {.fd = -1};
  y->image = (Image){0};
  y->ok =
      ty_file_open(&f, r->job[i].path, false) &&
      (r->plan.bytes ? read_record(r, &f, r->job[i].at, &y->image) : read_planes(r, &f, &y->image));
  if (!y->ok) memcpy(y->err, f.err, FILE_ERR);
  ty_file_close(&f);
}

static void *work(void *arg) {
  Ring *r = arg;
  pthread_mutex_lock(&r->lock);
  for (;;) {
    while (!r->stopping && r->claimed < r->jobs && r->claimed >= r->taken + r->plan.capacity)
      pthread_cond_wait(&r->room, &r->lock);
    if (r->stopping || r->claimed == r->jobs) break;
    i64 i = r->claimed++;
    RingItem *y = &r->item[i % r->plan.capacity];
    pthread_mutex_unlock(&r->lock);
    do_job(r, i, y);
    pthread_mutex_lock(&r->lock);
    y->done = true;
    pthread_cond_signal(&r->ready);
  }
  pthread_mutex_unlock(&r->lock);
  return NULL;
}

/* Signals are for the host's threads. */
static void start(Ring *r) {
  sigset_t all, before;
  r->started = true;
  r->pid = getpid();
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int n = TY_MIN(r->plan.workers, WORKERS); r->threads < n; r->threads++)
    if (pthread_create(&r->thread[r->threads], NULL, work, r)) break;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool has_threads(const Ring *r) { return r->threads > 0 && r->pid == getpid(); }

Ring *ty_ring_new(const RingPlan *plan, RingJob *job, i64 jobs, char *names) {
  Ring *r = ty_file_alloc(sizeof *r);
  i64 bytes = (i64)sizeof(RingItem) * plan->capacity;
  RingItem *item = ty_file_alloc(bytes);
  if (!r || !item) {
    ty_file_free(r);
    ty_file_free(item);
    ty_file_free(job);
    ty_file_free(names);
    return NULL;
  }
  memset(item, 0, (size_t)bytes);
  *r = (Ring){.plan = *plan, .job = job, .jobs = jobs, .names = names, .item = item};
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->ready, NULL);
  pthread_cond_init(&r->room, NULL);
  return r;
}

void ty_ring_close(Ring *r) {
  if (!r) return;
  bool ours = has_threads(r), orphaned = r->threads > 0 && !ours;
  if (ours) {
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_broadcast(&r->room);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->threads; i++) pthread_join(r->thread[i], NULL);
  }
  if (!orphaned) { /* in a forked child a slot may be half written, the lock held for ever */
    for (int i = 0; i < r->plan.capacity; i++)
      if (r->item[i].done) ty_file_free(r->item[i].image.data);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->ready);
    pthread_cond_destroy(&r->room);
  }
  ty_file_free(r->item);
  ty_file_free(r->job);
  ty_file_free(r->names);
  ty_file_free(r);
}

i64 ty_ring_left(const Ring *r) { return r->jobs - r->taken; }

void ty_ring_take(Ring *r, RingItem *y) {
  if (!r->started && r->plan.workers > 0) start(r);
  if (!has_threads(r)) {
    do_job(r, r->taken++, y);
    return;
  }
  RingItem *slot = &r->item[r->taken % r->plan.capacity];
  pthread_mutex_lock(&r->lock);
  while (!slot->done) pthread_cond_wait(&r->ready, &r->lock);
  *y = *slot;
  slot->done = false;
  slot->image.data = NULL;
  r->taken++;
  pthread_cond_signal(&r->room);
  pthread_mutex_unlock(&r->lock);
}

void ty_ring_philox(u64 element, u64 stream, u64 seed, u32 *word) {
  u32 c[4] = {(u32)element, (u32)(element >> 32), (u32)stream, (u32)(stream >> 32)};
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
    u64 a = (u64)c[0] * 0xd2511f53u, b = (u64)c[2] * 0xcd9e8d57u;
    u32 next[4] = {(u32)(b >> 32) ^ c[1] ^ k0, (u32)b, (u32)(a >> 32) ^ c[3] ^ k1, (u32)a};
    memcpy(c, next, sizeof c);
  }
  memcpy(word, c, sizeof c);
}
