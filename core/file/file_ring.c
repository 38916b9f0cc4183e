/*
** file_ring.c -- files read ahead of who takes them, by threads that know nothing of Lua.
** In: jobs. Out: results in the order of the jobs, the same whatever the number of threads.
** A job that fails has its message in its result; nothing else fails except when out of memory, and
** without threads the taker reads.
**
** Item i lies in slot i mod capacity from the time a thread claims it until it is taken; a thread
** claims item i when i < taken + capacity. So at most `capacity` results wait, whatever their size.
** The taker sleeps once for as many items as it needs together, and sleeping readers wake when half
** of the slots are free: switches between threads cost as much as small images.
** One lock guards the counters and the flags; files are read outside of it.
** A fork copies the ring without its threads, and the lock in any state: the child (its process differs)
** touches neither and reads what it takes itself. What had been read is lost to it, not shared.
*/
#include "file/file_ring.h"

enum { WORKERS = 16 };

struct Ring {
  RingPlan plan;
  RingJob *job; /* owned, as the text that their paths lie in */
  char *names;
  i64 jobs, claimed, taken;
  i64 waited;     /* items from `taken` on that the taker waits for */
  RingItem *item; /* owned, `capacity`; their memory is used again */
  RingItem own;   /* of who takes without threads; ready: it is the next */
  bool ready_own;
  Scratch scratch[WORKERS]; /* of each thread; the first is the taker's too, where there are none */
  int begun;                /* threads that took theirs */
  Scratch orphan;           /* of a forked child, which leaves those alone */
  Lock lock;
  Condition ready, room; /* an item is done; a slot is free, or the ring stops */
  Thread thread[WORKERS];
  int threads;
  bool started, stopping;
  i64 process; /* whose threads these are */
};

static bool read_record(const Ring *r, File *f, i64 at, RingItem *y) {
  i64 bytes = r->plan.bytes;
  if (at < 0 || bytes > f->size - at)
    return ty_file_fail(f, "holds %lld bytes, a record of %lld was expected at %lld",
                        (long long)f->size, (long long)bytes, (long long)at);
  if (!ty_scratch_room(&y->memory, &y->room, bytes)) return ty_file_fail_memory(f, bytes);
  y->image = (Image){.data = y->memory, .lent = true};
  return ty_file_read(f, at, y->memory, bytes);
}

/* An image, decoded into the item's own memory: the taker turns pixels into planes where it puts
** them anyway. The bytes of the file are the reader's. */
static bool read_image(const Ring *r, File *f, Scratch *scratch, RingItem *y) {
  ImageWant want = r->plan.want;
  scratch->pixels = y->memory, scratch->pixels_room = y->room;
  want.scratch = scratch;
  bool ok = ty_image_read(f, &want, &y->image);
  y->memory = scratch->pixels, y->room = scratch->pixels_room;
  scratch->pixels = NULL, scratch->pixels_room = 0;
  return ok;
}

/* Job i into y. */
static void do_job(const Ring *r, i64 i, Scratch *scratch, RingItem *y) {
  File f = {.fd = -1};
  y->image = (Image){0};
  y->ok = ty_file_open(&f, r->job[i].path, false) &&
          (r->plan.bytes ? read_record(r, &f, r->job[i].at, y) : read_image(r, &f, scratch, y));
  if (!y->ok) memcpy(y->err, f.err, FILE_ERR);
  ty_file_close(&f);
}

static void item_free(RingItem *y) {
  ty_image_free(&y->image);
  ty_file_free(y->memory);
}

static bool all_done(const Ring *r) {
  for (i64 i = 0; i < r->waited; i++)
    if (!r->item[(r->taken + i) % r->plan.capacity].done) return false;
  return true;
}

static void *work(void *arg) {
  Ring *r = arg;
  ty_lock(&r->lock);
  Scratch *scratch = &r->scratch[r->begun++];
  for (;;) {
    while (!r->stopping && r->claimed < r->jobs && r->claimed >= r->taken + r->plan.capacity)
      ty_condition_wait(&r->room, &r->lock);
    if (r->stopping || r->claimed == r->jobs) break;
    i64 i = r->claimed++;
    RingItem *y = &r->item[i % r->plan.capacity];
    ty_unlock(&r->lock);
    do_job(r, i, scratch, y);
    ty_lock(&r->lock);
    y->done = true;
    if (r->waited && all_done(r)) ty_condition_signal(&r->ready);
  }
  ty_unlock(&r->lock);
  return NULL;
}

static void start(Ring *r) {
  r->started = true;
  r->process = ty_system_process();
  for (int n = TY_MIN(r->plan.workers, WORKERS); r->threads < n; r->threads++)
    if (!ty_thread_start(&r->thread[r->threads], 0, work, r)) break;
}

static bool has_threads(const Ring *r) {
  return r->threads > 0 && r->process == ty_system_process();
}

/* Whether its threads live in a process that this one was forked from: a slot may be half written,
** the lock held for ever. */
static bool orphaned(const Ring *r) { return r->threads > 0 && r->process != ty_system_process(); }

/* Memory that has been used is cheap, new pages are not. */
static void take_over(Ring *r, Ring *old) {
  int n = TY_MIN(r->plan.capacity, old->plan.capacity);
  for (int i = 0; i < n; i++) {
    RingItem *from = &old->item[i], *to = &r->item[i];
    to->memory = from->memory, to->room = from->room;
    from->memory = NULL;
  }
  memcpy(r->scratch, old->scratch, sizeof r->scratch);
  memset(old->scratch, 0, sizeof old->scratch);
}

Ring *ty_ring_new(const RingPlan *plan, RingJob *job, i64 jobs, char *names, Ring *old) {
  Ring *r = ty_file_alloc(sizeof *r);
  i64 bytes = (i64)sizeof(RingItem) * plan->capacity;
  RingItem *item = ty_file_alloc(bytes);
  if (!r || !item) {
    ty_file_free(r);
    ty_file_free(item);
    ty_file_free(job);
    ty_file_free(names);
    ty_ring_close(old);
    return NULL;
  }
  memset(item, 0, (size_t)bytes);
  *r = (Ring){.plan = *plan, .job = job, .jobs = jobs, .names = names, .item = item};
  ty_lock_init(&r->lock);
  ty_condition_init(&r->ready);
  ty_condition_init(&r->room);
  if (old) {
    ty_ring_stop(old);
    if (!orphaned(old)) take_over(r, old);
    ty_ring_close(old);
  }
  return r;
}

void ty_ring_stop(Ring *r) {
  if (!has_threads(r)) return;
  ty_lock(&r->lock);
  r->stopping = true;
  ty_condition_broadcast(&r->room);
  ty_unlock(&r->lock);
  for (int i = 0; i < r->threads; i++) ty_thread_join(r->thread[i]);
  r->threads = 0;
  for (int i = 0; i < r->plan.capacity; i++) ty_image_free(&r->item[i].image);
}

void ty_ring_close(Ring *r) {
  if (!r) return;
  ty_ring_stop(r);
  if (!orphaned(r)) {
    for (int i = 0; i < r->plan.capacity; i++) item_free(&r->item[i]);
    for (int i = 0; i < WORKERS; i++) ty_scratch_free(&r->scratch[i]);
    ty_lock_free(&r->lock);
    ty_condition_free(&r->ready);
    ty_condition_free(&r->room);
  }
  item_free(&r->own);
  ty_scratch_free(&r->orphan);
  ty_file_free(r->item);
  ty_file_free(r->job);
  ty_file_free(r->names);
  ty_file_free(r);
}

i64 ty_ring_left(const Ring *r) { return r->jobs - r->taken; }

void ty_ring_wait(Ring *r, i64 n) {
  if (!r->started && r->plan.workers > 0) start(r);
  if (!has_threads(r)) return;
  ty_lock(&r->lock);
  r->waited = TY_MIN(TY_MIN(n, r->jobs - r->taken), r->plan.capacity);
  while (!all_done(r)) {
    ty_condition_broadcast(&r->room); /* see ty_ring_done */
    ty_condition_wait(&r->ready, &r->lock);
  }
  r->waited = 0;
  ty_unlock(&r->lock);
}

RingItem *ty_ring_next(Ring *r) {
  ty_ring_wait(r, 1);
  if (has_threads(r)) return &r->item[r->taken % r->plan.capacity];
  if (!r->ready_own) do_job(r, r->taken, orphaned(r) ? &r->orphan : r->scratch, &r->own);
  r->ready_own = true;
  return &r->own;
}

void ty_ring_done(Ring *r) {
  if (!has_threads(r)) {
    ty_image_free(&r->own.image);
    r->ready_own = false;
    r->taken++;
    return;
  }
  RingItem *slot = &r->item[r->taken % r->plan.capacity];
  ty_image_free(&slot->image);
  ty_lock(&r->lock);
  slot->done = false;
  r->taken++;
  /* readers wake when half of the slots are free; who waits for items wakes them before */
  if (2 * (r->claimed - r->taken) <= r->plan.capacity) ty_condition_broadcast(&r->room);
  ty_unlock(&r->lock);
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
