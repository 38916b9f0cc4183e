/*
** far.c -- a second device without hardware: "far".
** In:  what the engine gives any device.  Out: the CPU's results, later. Loaded as a Lua module (far.lua builds it); it
** leaves all arithmetic to the CPU's device, and is made to show who forgets what a device is:
**
** - addresses that it gives out lie in a range without access; its own functions see the memory through a second
**   mapping. Who reads or writes elsewhere ends the process at once.
** - a thread of its own does the work, late: when somebody waits, or when so many commands stand in the queue as a
**   seed says (FAR_SEED). Among those that stand there it takes any that shares no block of memory with one before it.
** - memory that was just allocated or freed is poison. Who does not wait for a copy, or reads what was never
**   written, reads that.
** - FAR_REFUSES lists what it refuses: product attend sort search fft positions scatter copy; kernel: every third program.
*/
#define _GNU_SOURCE
#include <lua.h>
#include <lauxlib.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "device/device.h"

#define SPACE ((u64)16 << 30)
enum { PAGE = 4096, CLASSES = 40, QUEUE_MOST = 24, STREAMS = 64, POISON = 0xf5 };

static const Device *cpu;
static char *front, *back; /* the range without access; the same memory for our thread */
static u32 *block_of;      /* per page: the number of its block's first page, + 1 */

/* Kernels are the CPU's; what they take is kept beside. */
struct Kernel {
  const Machine *machine;
  Kernel *inner;
  int noperands, nscalar;
  Launch *kept; /* whose memory our thread has: the last one that was reserved */
};

/* --- commands */

typedef enum { DO_RUN, DO_JOB, DO_IN, DO_ACROSS, DO_POISON, DO_FREE, DO_DROP, DO_RESERVE } What;

typedef struct Command {
  u8 what;
  int nblock;
  u32 block[MAX_OPERANDS]; /* that it touches */
  void *buf[MAX_OPERANDS]; /* as our thread sees them */
  u64 scalar[2 * MAX_OPERANDS];
  const Kernel *kernel;
  Launch launch;
  Stream *stream; /* runs and jobs: whose they are, and the number of the run */
  u64 run;
  /* jobs, with all that they point to */
  Job job;
  Gemm gemm;
  Im2col im2col[2];
  ListOp list[LIST_MOST];
  Attend attend;
  Node node;
  Type type[3];
  i64 bytes;
  void *stage;
  bool *reserved; /* whether there was memory */
  struct Command *next;
} Command;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static Command *first, **last = &first;
static Command last_resort; /* where memory has run out, commands go one by one */
static int queued, waiting, patience, waits;
static bool busy, started;
static struct Trouble { /* the error word of each stream */
  Stream *stream;
  u64 run;
  char text[512];
} troubles[STREAMS];
static u64 seed;
static void
    *spare[CLASSES]; /* freed blocks by class, linked through a table: their memory is poison */
static u64 *spare_next;
static u64 used = PAGE;

static u32 chance(u32 n) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (u32)(seed >> 20) % n;
}

static void *own(const void *p) { return p ? back + ((const char *)p - front) : NULL; }
static u64 page_of(const void *p) { return (u64)((const char *)p - front) / PAGE; }

static void touches(Command *c, const void *p) {
  if (p) c->block[c->nblock++] = block_of[page_of(p)];
}

/* May fail: what the stream asks for afterwards does not overtake it. */
static bool checks(const Command *c) { return c->what == DO_JOB && c->job.kind == JOB_POSITIONS; }

static bool clash(const Command *a, const Command *b) {
  if (a->what == DO_DROP || b->what == DO_DROP) return true;
  if (a->stream && a->stream == b->stream && (checks(a) || checks(b))) return true;
  for (int i = 0; i < a->nblock; i++)
    for (int k = 0; k < b->nblock; k++)
      if (a->block[i] == b->block[k]) return true;
  return false;
}

static int class_of(i64 bytes) {
  int c = 0;
  while (((i64)PAGE << c) < bytes) c++;
  return c;
}

/* Under the lock. */
static void put_spare(void *p, i64 bytes) {
  int c = class_of(bytes);
  spare_next[page_of(p)] = (u64)(uintptr_t)spare[c];
  spare[c] = p;
}

/* Under the lock: that of a stream, or, as stream NULL has none, a free one; NULL. */
static struct Trouble *trouble_of(const Stream *s) {
  for (int i = 0; i < STREAMS; i++)
    if (troubles[i].stream == s) return &troubles[i];
  return NULL;
}

static bool carry_out(Command *c, const char **err) {
  bool ok = true;
  Run r = {.launch = &c->launch, .buf = c->buf, .scalar = c->scalar};
  switch ((What)c->what) {
  case DO_RUN: ok = c->kernel->machine->run(c->kernel->inner, &r); break;
  case DO_JOB: ok = cpu->perform(&c->job, c->buf, c->scalar, NULL, c->stream, err); break;
  case DO_IN: memcpy(c->buf[0], c->stage, (size_t)c->bytes); break;
  case DO_ACROSS: memmove(c->buf[0], c->buf[1], (size_t)c->bytes); break;
  case DO_POISON:
  case DO_FREE: memset(c->buf[0], POISON, (size_t)c->bytes); break;
  case DO_RESERVE: *c->reserved = c->kernel->machine->reserve(c->kernel->inner, &c->launch); break;
  case DO_DROP:
    c->kernel->machine->drop(c->kernel->inner);
    free(c->kernel->kept);
    free((void *)(uintptr_t)c->kernel);
  }
  return ok;
}

/* Any command that shares no memory with one that stands before it. */
static Command *take(void) {
  Command **at = &first, **pick = &first;
  for (int i = 0; i < 8 && *at; i++, at = &(*at)->next) {
    bool free_to_go = true;
    for (Command *b = first; b != *at && free_to_go; b = b->next) free_to_go = !clash(b, *at);
    if (free_to_go && chance(2)) pick = at;
  }
  Command *c = *pick;
  *pick = c->next;
  if (last == &c->next) last = pick;
  return c;
}

static void *work(void *arg) {
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!first || (!waiting && queued < patience)) pthread_cond_wait(&wanted, &lock);
    Command *c = take();
    busy = true;
    const char *err = "out of memory";
    const bool dead = c->stream && trouble_of(c->stream);
    pthread_mutex_unlock(&lock);
    const bool ok = dead || carry_out(c, &err);
    pthread_mutex_lock(&lock);
    busy = false;
    struct Trouble *t = ok || !c->stream ? NULL : trouble_of(NULL);
    if (t) {
      t->stream = c->stream;
      t->run = c->run;
      strncpy(t->text, err, sizeof t->text - 1);
    }
    if (c->what == DO_FREE) put_spare(front + ((char *)c->buf[0] - back), c->bytes);
    free(c->stage);
    if (c != &last_resort) free(c);
    queued--;
    if (!first) {
      patience = 1 + (int)chance(QUEUE_MOST);
      pthread_cond_broadcast(&done);
    }
  }
  return arg;
}

/* All that stands in the queue. */
static void finish(void) {
  pthread_mutex_lock(&lock);
  waiting++, waits++;
  pthread_cond_signal(&wanted);
  while (first || busy) pthread_cond_wait(&done, &lock);
  waiting--;
  pthread_mutex_unlock(&lock);
}

static Command *command(What what) {
  Command *c = calloc(1, sizeof *c);
  if (!c) {
    finish();
    memset(c = &last_resort, 0, sizeof *c);
  }
  c->what = (u8)what;
  return c;
}

static bool submit(Command *c) {
  pthread_mutex_lock(&lock);
  if (!started) {
    pthread_t t;
    started = !pthread_create(&t, NULL, work, NULL);
    if (started) pthread_detach(t);
  }
  *last = c;
  last = &c->next;
  c->next = NULL;
  queued++;
  if (queued >= patience) pthread_cond_signal(&wanted);
  pthread_mutex_unlock(&lock);
  return true;
}

/* --- memory */

static bool far_wait(Stream *s, const char **err) {
  static _Thread_local struct Trouble was;
  finish();
  pthread_mutex_lock(&lock);
  struct Trouble *t = trouble_of(s);
  if (t) {
    was = *t;
    memset(t, 0, sizeof *t);
    s->failed = was.run;
    *err = was.text;
  }
  pthread_mutex_unlock(&lock);
  return !t;
}

static void *take_block(int c) {
  void *p = spare[c];
  u64 bytes = (u64)PAGE << c;
  if (p) {
    spare[c] = (void *)(uintptr_t)spare_next[page_of(p)];
    return p;
  }
  if (used + bytes + PAGE > SPACE) return NULL;
  p = front + used;
  for (u64 i = 0; i < bytes / PAGE; i++) block_of[used / PAGE + i] = (u32)(used / PAGE) + 1;
  used += bytes + PAGE; /* a page between blocks belongs to none */
  return p;
}

static void *far_allocate(i64 bytes) {
  if (bytes < 0 || (u64)bytes > SPACE / 2) return NULL;
  int c = class_of(bytes);
  pthread_mutex_lock(&lock);
  void *p = take_block(c);
  pthread_mutex_unlock(&lock);
  if (!p) {
    finish(); /* what was freed may come back */
    pthread_mutex_lock(&lock);
    p = take_block(c);
    pthread_mutex_unlock(&lock);
  }
  if (!p) return NULL;
  Command *poison = command(DO_POISON);
  poison->buf[0] = own(p);
  poison->bytes = bytes;
  touches(poison, p);
  submit(poison);
  return p;
}

static void far_free(void *p, i64 bytes) {
  if (!p) return;
  Command *c = command(DO_FREE);
  c->buf[0] = own(p);
  c->bytes = bytes;
  touches(c, p);
  submit(c);
}

static bool far_in(void *to, const void *from, i64 bytes, const char **err) {
  void *stage = malloc((size_t)bytes + 1);
  if (!stage) {
    *err = "out of memory";
    return false;
  }
  memcpy(stage, from, (size_t)bytes);
  Command *c = command(DO_IN);
  c->stage = stage;
  c->buf[0] = own(to);
  c->bytes = bytes;
  touches(c, to);
  return submit(c);
}

static bool far_out(void *to, const void *from, i64 bytes, Stream *s, const char **err) {
  if (!far_wait(s, err)) return false;
  memcpy(to, own(from), (size_t)bytes);
  return true;
}

static bool far_across(void *to, const void *from, i64 bytes, const char **err) {
  (void)err;
  Command *c = command(DO_ACROSS);
  c->buf[0] = own(to);
  c->buf[1] = own(from);
  c->bytes = bytes;
  touches(c, to);
  touches(c, from);
  return submit(c);
}

/* --- kernels */

static const char *refuses(void) {
  const char *list = getenv("FAR_REFUSES");
  return list ? list : "";
}

static Kernel *far_make(const Program *p) {
  if (strstr(refuses(), "kernel") && p->nbody % 3 == 0) return NULL;
  Kernel *k = calloc(1, sizeof *k);
  Launch *kept = calloc(1, sizeof *kept);
  if (!k || !kept) return free(k), free(kept), NULL;
  k->kept = kept;
  k->machine = cpu->machine;
  if (!(k->inner = k->machine->make(p))) {
    k->machine = cpu->portable;
    k->inner = k->machine->make(p);
  }
  k->noperands = p->noperands;
  for (int i = 0; i < p->nbody; i++)
    if (p->body[i].op == P_SCALAR && (int)p->body[i].imm >= k->nscalar)
      k->nscalar = (int)p->body[i].imm + 1;
  if (k->inner) return k;
  free(kept);
  free(k);
  return NULL;
}

static bool far_run(const Kernel *k, const Run *r) {
  Command *c = command(DO_RUN);
  c->kernel = k;
  c->launch = *r->launch;
  for (int i = 0; i < k->noperands; i++) {
    c->buf[i] = own(r->buf[i]);
    touches(c, r->buf[i]);
  }
  for (int i = 0; i < k->nscalar; i++) c->scalar[i] = r->scalar[i];
  c->stream = r->stream;
  c->run = r->stream->run;
  return submit(c);
}

/* Commands cannot fail for memory; the CPU's kernel works in memory of the thread that runs it. */
static bool far_reserve(const Kernel *k, const Launch *l) {
  bool ok = false;
  if (k->kept->no && !memcmp(k->kept, l, sizeof *l)) return true;
  Command *c = command(DO_RESERVE);
  c->kernel = k;
  c->launch = *l;
  c->reserved = &ok;
  submit(c);
  finish();
  if (ok) *k->kept = *l;
  return ok;
}

static void far_drop(Kernel *k) {
  if (!k) return;
  Command *c = command(DO_DROP);
  c->kernel = k;
  submit(c);
}

static size_t far_bytes(const Kernel *k) { return sizeof *k + k->machine->bytes(k->inner); }

/* --- jobs */

static bool far_takes(const Job *j) {
  static const char *const names[JOB_COUNT] = {[JOB_PRODUCT] = "product",
                                               [JOB_ATTEND] = "attend",
                                               [JOB_SORT] = "sort",
                                               [JOB_SEARCH] = "search",
                                               [JOB_POSITIONS] = "positions",
                                               [JOB_SCATTER] = "scatter",
                                               [JOB_COPY] = "copy",
                                               [JOB_TO] = "to",
                                               [JOB_FFT] = "fft"};
  return !j->blas && names[j->kind] && !strstr(refuses(), names[j->kind]);
}

static void keep_product(Command *c, const Job *j) {
  c->gemm = *j->gemm;
  c->job.gemm = &c->gemm;
  if (j->gemm->a_im2col) c->im2col[0] = *j->gemm->a_im2col, c->gemm.a_im2col = &c->im2col[0];
  if (j->gemm->b_im2col) c->im2col[1] = *j->gemm->b_im2col, c->gemm.b_im2col = &c->im2col[1];
  for (int i = 0; i < j->nlist; i++) c->list[i] = j->list[i];
  c->job.list = c->list;
  if (!j->kernel) return;
  c->job.machine = j->kernel->machine;
  c->job.kernel = j->kernel->inner;
  c->launch = *j->launch;
  c->job.launch = &c->launch;
}

static bool far_perform(const Job *j, void *const *buf, const u64 *scalar, const void *panels,
                        Stream *s, const char **err) {
  Command *c = command(DO_JOB);
  (void)panels, (void)err;
  c->job = *j;
  for (int i = 0; i < j->noperands; i++) {
    c->buf[i] = own(buf[i]);
    touches(c, buf[i]);
  }
  for (int i = 0; i < j->nscalar; i++) c->scalar[i] = scalar[i];
  c->stream = s;
  c->run = s->run;
  if (j->gemm) keep_product(c, j);
  if (j->attend) c->attend = *j->attend, c->job.attend = &c->attend;
  if (j->node) c->node = *j->node, c->job.node = &c->node;
  if (j->type) memcpy(c->type, j->type, sizeof c->type), c->job.type = c->type;
  return submit(c);
}

/* --- the device */

static const Machine machine = {"far", far_make, far_run, far_reserve, far_drop, far_bytes, NULL};
static const Device far = {.name = "far",
                           .machine = &machine,
                           .allocate = far_allocate,
                           .free = far_free,
                           .in = far_in,
                           .out = far_out,
                           .across = far_across,
                           .wait = far_wait,
                           .takes = far_takes,
                           .perform = far_perform};

static bool open_memory(void) {
  const char *text = getenv("FAR_SEED");
  seed = (text ? strtoull(text, NULL, 10) : 1) * 0x9e3779b97f4a7c15 | 1;
  patience = 1 + (int)chance(QUEUE_MOST);
  int fd = memfd_create("far", 0);
  if (fd < 0 || ftruncate(fd, (off_t)SPACE)) return false;
  front = mmap(NULL, SPACE, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  back = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  const u64 pages = SPACE / PAGE;
  block_of = mmap(NULL, pages * sizeof *block_of, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  spare_next = mmap(NULL, pages * sizeof *spare_next, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return front != MAP_FAILED && back != MAP_FAILED && (void *)block_of != MAP_FAILED &&
         (void *)spare_next != MAP_FAILED;
}

/* touch(): reads memory of the device as if it were the CPU's. */
static int l_touch(lua_State *L) {
  lua_pushinteger(L, *(volatile char *)(front + PAGE));
  return 1;
}

/* waits(): how often somebody has waited for the queue. */
static int l_waits(lua_State *L) {
  lua_pushinteger(L, waits);
  return 1;
}

/* Gives touch and waits. */
__attribute__((visibility("default"))) int luaopen_far(lua_State *L) {
  DeviceRegister *add;
  const char *err = NULL;
  lua_getfield(L, LUA_REGISTRYINDEX, DEVICE_KEY);
  void *p = lua_touserdata(L, -1);
  if (!p) return luaL_error(L, "far: tycho was not loaded");
  memcpy(&add, &p, sizeof p);
  if (!front && !open_memory()) return luaL_error(L, "far: no memory");
  if (!(cpu = add(DEVICE_VERSION, &far, &err))) return luaL_error(L, "far: %s", err);
  lua_pushcfunction(L, l_touch);
  lua_pushcfunction(L, l_waits);
  return 2;
}
