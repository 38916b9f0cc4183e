/*
** memory.c -- memory of the device: blocks by size class, errors that come late.
** In:  sizes and addresses.  Out: blocks. Fails when memory runs out, after what is cached was given back, and when the
** device has failed.
** What computes goes to one stream, so a block that was freed is given out again at once: who used it stands before. What is
** copied beside that stream waits for who used the block: see ty_cuda_handed.
*/
#include "base/system.h"
#include "device/cuda/cuda.h"

enum { SMALLEST = 9, CLASSES = 160, STREAMS = 64, CHECKS = 256 };

const Device *ty_cuda_host;
static Lock lock = LOCK_INIT;

typedef struct Check {
  u64 number, run;
  Node node;
  bool side;  /* of an exchange with others, not of a node */
  char *text; /* not NULL: it has failed, with that */
} Check;

struct Watched { /* a stream that was ever used */
  const Stream *stream;
  CUdeviceptr word;
  int nchecks;
  Check *check;     /* room for CHECKS */
  CUevent noted_at; /* by ty_cuda_note */
  u64 noted, known; /* checks up to there have been asked for by then; have passed */
};

/* Of a device. */
static struct Memory {
  struct Spare { /* cached blocks of one size */
    struct Block {
      void *p;
      u64 mark; /* of the device's stream, behind all that used it */
    } * block;
    int n, cap;
  } spare[CLASSES];
  CudaMemory counts;
  i64 limit; /* bytes that are not to be taken from the driver: INT64_MAX less the limit */
  struct Watched watched[STREAMS];
} memories[CUDA_MOST];

static struct Memory *own(void) { return &memories[ty_cuda.ordinal]; }

/* Sizes are 4, 5, 6, 7 times a power of two. */
static i64 class_bytes(int c) { return (i64)(4 + c % 4) << (c / 4 + SMALLEST - 2); }
static int class_of(i64 bytes) {
  if (bytes <= class_bytes(0)) return 0;
  const int top = 63 - __builtin_clzll((u64)bytes - 1);
  return (top - SMALLEST) * 4 + (int)((bytes - 1) >> (top - 2) & 3) + 1;
}

/* Under the lock. */
static void trim(struct Memory *m) {
  ty_cuda_ok(ty_cuda.stream_wait(ty_cuda.stream), "cuStreamSynchronize");
  if (ty_cuda.copies) ty_cuda_ok(ty_cuda.stream_wait(ty_cuda.copies), "cuStreamSynchronize");
  for (int c = 0; c < CLASSES; c++)
    for (struct Spare *s = &m->spare[c]; s->n;) {
      ty_cuda_ok(ty_cuda.memory_free((CUdeviceptr)(uintptr_t)s->block[--s->n].p), "cuMemFree");
      m->counts.cached -= class_bytes(c);
    }
}

void ty_cuda_trim(void) {
  ty_cuda_flush();
  if (!ty_cuda_enter()) return;
  ty_cuda_settle();
  ty_lock(&lock);
  trim(own());
  ty_unlock(&lock);
}

CudaMemory ty_cuda_memory(void) {
  ty_lock(&lock);
  const CudaMemory m = own()->counts;
  ty_unlock(&lock);
  return m;
}

i64 ty_cuda_limit(i64 bytes) {
  ty_lock(&lock);
  const i64 was = INT64_MAX - own()->limit;
  if (bytes >= 0) own()->limit = INT64_MAX - bytes;
  ty_unlock(&lock);
  return was;
}

/* Under the lock: a block of the driver's, within the limit. */
static bool take(const struct Memory *m, CUdeviceptr *p, i64 size) {
  if (m->counts.used + m->counts.cached > INT64_MAX - m->limit - size) return false;
  return ty_cuda_ok(ty_cuda.memory_allocate(p, (size_t)size), "cuMemAlloc");
}

/* The thread's last block, as long as it has asked the driver for nothing since. */
static _Thread_local struct Handed {
  Cuda *device;
  char *p;
  i64 bytes;
  u64 mark, entered;
} handed;

u64 ty_cuda_handed(const void *p, i64 bytes) {
  const char *at = p;
  const bool fresh = handed.device == ty_cuda_now && handed.entered == ty_cuda_entered &&
                     at >= handed.p && bytes <= handed.bytes - (at - handed.p);
  return fresh ? handed.mark : MARK_NOW;
}

/* The last one freed, which caches may still hold; of large ones rather one whose users stand before a mark that is there: a
** copy into it need not wait for what was asked for since. */
static struct Block take_spare(struct Spare *s, i64 size) {
  const u64 next = ty_cuda_marks[ty_cuda.ordinal] + 1;
  int i = s->n - 1;
  while (size > COPY_BESIDE && next > 1 && i > 0 && s->block[i].mark == next) i--;
  if (s->block[i].mark == next) i = s->n - 1;
  const struct Block b = s->block[i];
  memmove(s->block + i, s->block + i + 1, (size_t)(s->n - i - 1) * sizeof b);
  s->n--;
  return b;
}

void *ty_cuda_allocate(i64 bytes) {
  CUdeviceptr p = 0;
  if (bytes < 0 || bytes > (i64)1 << 46) return NULL;
  /* of a device that has failed: nothing is ever done with it, and the next wait says why */
  if (!ty_cuda_enter()) return (void *)(uintptr_t)(1 << SMALLEST);
  const int c = class_of(TY_MAX(bytes, 1));
  const i64 size = class_bytes(c);
  struct Memory *m = own();
  struct Spare *s = &m->spare[c];
  u64 mark = MARK_NONE;
  ty_lock(&lock);
  if (s->n) {
    const struct Block b = take_spare(s, size);
    p = (CUdeviceptr)(uintptr_t)b.p, mark = b.mark;
    m->counts.cached -= size;
  } else if (!take(m, &p, size)) {
    p = 0;
    ty_unlock(&lock);
    ty_cuda_flush(); /* what waits keeps blocks */
    ty_cuda_settle();
    ty_lock(&lock);
    trim(m);
    if (!take(m, &p, size)) p = 0;
  }
  if (p) m->counts.used += size;
  m->counts.peak = TY_MAX(m->counts.peak, m->counts.used);
  ty_unlock(&lock);
  handed = (struct Handed){ty_cuda_now, (char *)(uintptr_t)p, size, mark, ty_cuda_entered};
  return (void *)(uintptr_t)p;
}

void ty_cuda_free(void *p, i64 bytes) {
  if (!p || !ty_cuda_enter() || (ty_cuda_gather.frees && ty_cuda_gather.frees(p, bytes))) return;
  const int c = class_of(TY_MAX(bytes, 1));
  struct Memory *m = own();
  struct Spare *s = &m->spare[c];
  ty_lock(&lock);
  m->counts.used -= class_bytes(c);
  if (s->n == s->cap) {
    struct Block *more = ty_mem_realloc(s->block, (size_t)(s->cap * 2 + 8) * sizeof *more);
    if (more) s->block = more, s->cap = s->cap * 2 + 8;
  }
  if (s->n < s->cap)
    s->block[s->n++] = (struct Block){p, ty_cuda_marks[ty_cuda.ordinal] + 1},
    m->counts.cached += class_bytes(c);
  else ty_cuda_ok(ty_cuda.memory_free((CUdeviceptr)(uintptr_t)p), "cuMemFree");
  ty_unlock(&lock);
}

/* --- error words */

static u64 checks; /* so far, of all devices */

/* Under the lock: the stream's, or a free one. Streams share the last where there are too many. */
static struct Watched *watched_of(const Stream *s) {
  struct Watched *all = own()->watched;
  int i = 0;
  while (i < STREAMS - 1 && all[i].stream && all[i].stream != s) i++;
  struct Watched *w = &all[i];
  if (!w->word) {
    if (ty_cuda.memory_allocate(&w->word, sizeof(ErrorWord))) w->word = 0;
    else ty_cuda_ok(ty_cuda.fill(w->word, 0, sizeof(ErrorWord), ty_cuda.stream), "cuMemsetD8Async");
  }
  if (!w->stream) w->stream = s;
  return w;
}

CUdeviceptr ty_cuda_word(const Stream *s) {
  if (!ty_cuda_enter()) return 0;
  ty_lock(&lock);
  const CUdeviceptr word = watched_of(s)->word;
  ty_unlock(&lock);
  return word;
}

/* What the first index out of range makes of the CPU's own check, which knows how to say it. */
static const char *tell(const Node *n, i64 value, i64 at) {
  const i64 all = ty_type_numel(&n->type);
  const char *err = "index out of range";
  i64 *index = ty_buf_alloc(2 * all * (i64)sizeof *index);
  if (!index) return err;
  for (i64 i = 0; i < all; i++) index[i] = i == at ? value : n->arg.k;
  void *buf[] = {index, index + all};
  Stream none = {0, 0};
  const Job j = {.kind = JOB_POSITIONS, .noperands = 2, .node = n, .type = &n->type};
  ty_cuda_host->perform(&j, buf, NULL, NULL, &none, &err);
  ty_buf_free(index, 2 * all * (i64)sizeof *index);
  return err;
}

/* Lets go of a stream's checks but for that number. */
static void forget(struct Watched *w, u64 but) {
  int kept = 0;
  for (int i = 0; i < w->nchecks; i++)
    if (w->check[i].number == but) w->check[kept++] = w->check[i];
    else ty_mem_free(w->check[i].text);
  w->nchecks = kept;
}

bool ty_cuda_judge(Stream *s, const ErrorWord *e, const char **err) {
  static char told[1024];
  ty_lock(&lock);
  struct Watched *w = watched_of(s);
  for (int i = 0; e->check && i < w->nchecks; i++)
    if (w->check[i].number == e->check) {
      const Check *c = &w->check[i];
      if (c->text) ty_system_format(told, sizeof told, "%.1000s", c->text);
      if (c->side) ty_system_format(told, sizeof told, "%.1000s", ty_cuda_side_text());
      *err = c->text || c->side ? told : tell(&c->node, e->value, e->at);
      s->failed = c->run;
    }
  if (e->check)
    ty_cuda_ok(ty_cuda.fill(w->word, 0, sizeof(ErrorWord), ty_cuda.stream), "cuMemsetD8Async");
  forget(w, 0);
  ty_unlock(&lock);
  return !e->check;
}

/* Under the lock: a check of the stream's, whose node and text the caller adds; NULL: no memory. */
static Check *add_check(const Stream *s, struct Watched *w) {
  if (!w->check) w->check = ty_mem_alloc(CHECKS * sizeof *w->check);
  if (w->check && w->nchecks == CHECKS) { /* those that were passed are forgotten */
    ErrorWord e = {0};
    if (ty_cuda_ok(ty_cuda.copy_out(&e, w->word, sizeof e, ty_cuda.stream), "cuMemcpyDtoHAsync") &&
        ty_cuda_ok(ty_cuda.stream_wait(ty_cuda.stream), "cuStreamSynchronize"))
      forget(w, e.check ? e.check : UINT64_MAX);
  }
  if (!w->check || w->nchecks == CHECKS) return NULL;
  Check *c = &w->check[w->nchecks++];
  *c = (Check){.number = ++checks, .run = s->run};
  return c;
}

/* Before a check is added: where there is no room, those are forgotten that have been carried out. */
static void make_room(const Stream *s) {
  ty_lock(&lock);
  const bool full = watched_of(s)->nchecks == CHECKS;
  ty_unlock(&lock);
  if (!full) return;
  ty_cuda_flush();
  ty_cuda_settle();
}

u64 ty_cuda_check(const Stream *s, const Node *n) {
  u64 number = 0;
  if (!ty_cuda_enter()) return 0;
  make_room(s);
  ty_lock(&lock);
  Check *c = add_check(s, watched_of(s));
  if (c) c->node = *n, number = c->number;
  ty_unlock(&lock);
  return number;
}

u64 ty_cuda_check_side(const Stream *s) {
  u64 number = 0;
  if (!ty_cuda_enter()) return 0;
  make_room(s);
  ty_lock(&lock);
  struct Watched *w = watched_of(s);
  Check *c = w->nchecks ? &w->check[w->nchecks - 1] : NULL;
  if (!c || !c->side || c->run != s->run) c = add_check(s, w);
  if (c) c->side = true, number = c->number;
  ty_unlock(&lock);
  return number;
}

/* The last check of a node. */
static u64 last_check(const struct Watched *w) {
  int i = w->nchecks;
  while (i-- > 0 && w->check[i].side) {}
  return i < 0 ? 0 : w->check[i].number;
}

void ty_cuda_note(const Stream *s) {
  ty_cuda_flush();
  if (!ty_cuda_enter()) return;
  ty_lock(&lock);
  struct Watched *w = watched_of(s);
  const bool ok = ty_cuda_make_event(&w->noted_at) &&
                  ty_cuda_ok(ty_cuda.event_record(w->noted_at, ty_cuda.stream), "cuEventRecord");
  if (ok) w->noted = last_check(w);
  ty_unlock(&lock);
}

bool ty_cuda_passed(const Stream *s) {
  ErrorWord e = {0};
  if (!ty_cuda_enter()) return true; /* the next wait says why */
  ty_lock(&lock);
  struct Watched *w = watched_of(s);
  const u64 last = last_check(w);
  const bool known = last <= w->known, noted = last <= w->noted;
  ty_unlock(&lock);
  if (known) return true;
  if (!noted || !ty_cuda_settle_event(w->noted_at) || !ty_cuda_look_apart(w->word, &e, sizeof e) ||
      e.check)
    return false;
  w->known = last;
  return true;
}

bool ty_cuda_checks(const Stream *s) {
  if (!ty_cuda_enter()) return false;
  ty_lock(&lock);
  const bool any = watched_of(s)->nchecks > 0;
  ty_unlock(&lock);
  return any;
}

/* An error that was there before stays: its kernels had done nothing already. */
bool ty_cuda_fail(const Stream *s, const char *text) {
  const size_t n = strlen(text) + 1;
  ErrorWord e = {0};
  ty_cuda_flush();
  if (!ty_cuda_enter()) return true; /* the next wait says why */
  ty_cuda_settle();
  ty_lock(&lock);
  struct Watched *w = watched_of(s);
  Check *c = add_check(s, w);
  const bool ok = c && (c->text = ty_mem_alloc(n)) != NULL;
  if (ok) {
    memcpy(c->text, text, n);
    if (ty_cuda_ok(ty_cuda.copy_out(&e, w->word, sizeof e, ty_cuda.stream), "cuMemcpyDtoHAsync") &&
        ty_cuda_ok(ty_cuda.stream_wait(ty_cuda.stream), "cuStreamSynchronize") && !e.check) {
      e.check = c->number;
      ty_cuda_ok(ty_cuda.copy_in(w->word, &e, sizeof e, ty_cuda.stream), "cuMemcpyHtoDAsync");
      ty_cuda_ok(ty_cuda.stream_wait(ty_cuda.stream), "cuStreamSynchronize");
    }
  }
  ty_unlock(&lock);
  return ok;
}
