/*
** copies.c -- copies from the CPU, to it, within the device and from another.
** In:  addresses and bytes.  Out: what was copied, for all that is asked for later; what goes to the CPU has arrived. Fails when the
** device has failed.
**
** Nothing that comes from the CPU is waited for: it goes by pinned memory, which the device reads by itself. Little goes by
** the device's stream. More goes by a stream of its own, beside what is computed, in slots that are used in turn:
**
** 1. The device's stream waits for each such copy before it goes on with what is asked for later (`made`).
** 2. A copy waits for all that used its block before: a mark is an event of the device's stream, recorded before each
**    copy and numbered. A block that is freed notes the mark to come, behind all who used it. A copy into a block that was just
**    given out waits for that mark, which mostly lies far back; into any other it waits for the mark of now.
** 3. Marks are numbered before they are recorded: who frees meanwhile on another thread notes the one after.
*/
#include <stdatomic.h>

#include "base/system.h"
#include "device/cuda/cuda.h"

enum {
  STAGE = 4 << 20, /* of copies on the device's stream */
  SLOTS = 8,
  SLOT = 2 << 20,
  MARKS = 64,    /* that are kept: a longer wait than needed does no harm */
  LANDINGS = 16, /* where little that goes to the CPU arrives */
  LANDING = 4096 /* bytes */
};

typedef struct Landing {
  bool taken;
  char *at; /* LANDING bytes and an ErrorWord; or NULL */
} Landing;

/* Of a device. */
static struct Copies {
  char *stage;
  i64 staged;
  CUevent made, mark[MARKS];
  struct Slot {
    char *at;
    CUevent read; /* it may be written again; NULL: it was never used */
  } slot[SLOTS];
  int next;
  Landing landing[LANDINGS];
  CopyCounts counts;
} all[CUDA_MOST];
static Lock lock = LOCK_INIT;

static struct Copies *own(void) { return &all[ty_cuda.ordinal]; }

static bool done(bool ok, const char **err) {
  if (!ok) *err = ty_cuda_trouble() ? ty_cuda_trouble() : "out of memory";
  return ok;
}

static bool record(CUevent e, CUstream s) {
  return ty_cuda_ok(ty_cuda.event_record(e, s), "cuEventRecord");
}

static bool await(CUstream s, CUevent e) {
  return ty_cuda_ok(ty_cuda.stream_await(s, e, 0), "cuStreamWaitEvent");
}

static bool is_idle(CUstream s) {
  return ty_cuda_ok(ty_cuda.stream_wait(s), "cuStreamSynchronize");
}

static bool pinned(char **at, size_t bytes) {
  void *p = *at;
  if (!p && !ty_cuda.host_allocate(&p, bytes)) *at = p;
  return *at != NULL;
}

static bool send(void *to, const void *from, i64 bytes, CUstream s) {
  return ty_cuda_ok(ty_cuda.copy_in((CUdeviceptr)(uintptr_t)to, from, (size_t)bytes, s),
                    "cuMemcpyHtoDAsync");
}

/* --- from the CPU */

/* Under the lock: by the device's stream. */
static bool in_turn(void *to, const void *from, i64 bytes) {
  struct Copies *c = own();
  if (!pinned(&c->stage, STAGE)) return false;
  if (c->staged + bytes > STAGE) {
    if (!ty_cuda_settle()) return false;
    c->staged = 0;
  }
  memcpy(c->stage + c->staged, from, (size_t)bytes);
  const i32 span = ty_cuda_span(SPAN_IN, &ty_cuda_label, bytes);
  const bool ok = send(to, c->stage + c->staged, bytes, ty_cuda.stream);
  ty_cuda_spanned(span);
  c->staged += (bytes + 63) & ~(i64)63;
  return ok;
}

/* The next slot, which nobody reads any more; where there is no memory for another one, one that is there. NULL: none. */
static struct Slot *slot_next(struct Copies *c) {
  struct Slot *s = &c->slot[c->next];
  if (!pinned(&s->at, SLOT)) c->next = 0, s = &c->slot[0];
  if (!s->at || (s->read && !ty_cuda_settle_event(s->read))) return NULL;
  c->next = (c->next + 1) % SLOTS;
  return ty_cuda_make_event(&s->read) ? s : NULL;
}

static bool in_slots(struct Copies *c, char *to, const char *from, i64 bytes) {
  bool ok = true;
  for (i64 at = 0, n; at < bytes && ok; at += n) {
    struct Slot *s = slot_next(c);
    n = TY_MIN(bytes - at, (i64)SLOT);
    if (!s) return false;
    memcpy(s->at, from + at, (size_t)n);
    ok = send(to + at, s->at, n, ty_cuda.copies) && record(s->read, ty_cuda.copies);
  }
  return ok;
}

/* The mark of now is there; a block's own, or the oldest that is kept, is waited for. */
static bool await_mark(struct Copies *c, u64 of_block) {
  const u64 now = ++ty_cuda_marks[ty_cuda.ordinal], oldest = now < MARKS ? 1 : now - MARKS + 1,
            mark = TY_MAX(TY_MIN(of_block, now), oldest);
  CUevent *e = &c->mark[now % MARKS];
  if (!ty_cuda_make_event(e) || !record(*e, ty_cuda.stream)) return false;
  c->counts.beside++;
  c->counts.ahead += of_block < now;
  return of_block == MARK_NONE || await(ty_cuda.copies, c->mark[mark % MARKS]);
}

/* Under the lock: by the stream of copies. */
static bool in_beside(void *to, const void *from, i64 bytes, u64 mark) {
  struct Copies *c = own();
  if (!pinned(&c->slot[0].at, SLOT) || !ty_cuda_make_event(&c->made)) return false;
  if (!ty_cuda_make_stream(&ty_cuda.copies) || !await_mark(c, mark)) return false;
  const i32 span = ty_cuda_span_on(ty_cuda.copies, SPAN_IN, &ty_cuda_label, bytes);
  bool ok = in_slots(c, to, from, bytes);
  ty_cuda_spanned(span);
  ok = ok && record(c->made, ty_cuda.copies) && await(ty_cuda.stream, c->made);
  if (!ok && !ty_cuda_trouble())
    is_idle(ty_cuda.copies); /* what went is written before another way is tried */
  return ok;
}

bool ty_cuda_in(void *to, const void *from, i64 bytes, const char **err) {
  const u64 mark = ty_cuda_handed(to, bytes);
  ty_cuda_flush();
  if (!ty_cuda_enter()) return done(false, err);
  if (bytes <= 0) return true;
  ty_lock(&lock);
  bool ok = bytes > COPY_BESIDE ? in_beside(to, from, bytes, mark) : in_turn(to, from, bytes);
  ty_unlock(&lock);
  if (!ok && !ty_cuda_trouble()) {
    ty_cuda_wait_sides(); /* the driver may wait as it copies */
    const i32 span = ty_cuda_span(SPAN_IN, &ty_cuda_label, bytes);
    ok = send(to, from, bytes, ty_cuda.stream);
    ty_cuda_spanned(span);
    ok = ok && ty_cuda_settle();
  }
  ty_cuda_run_now.in += bytes;
  return done(ok, err);
}

CopyCounts ty_cuda_copies(void) {
  ty_lock(&lock);
  const CopyCounts c = own()->counts;
  ty_unlock(&lock);
  return c;
}

/* --- to the CPU */

static Landing *land(void) {
  Landing *l = own()->landing, *end = l + LANDINGS;
  ty_lock(&lock);
  while (l < end && l->taken) l++;
  const bool ok = l < end && pinned(&l->at, LANDING + sizeof(ErrorWord));
  if (ok) l->taken = true;
  ty_unlock(&lock);
  return ok ? l : NULL;
}

static void leave(Landing *l) {
  ty_lock(&lock);
  l->taken = false;
  ty_unlock(&lock);
}

static bool fetch(void *to, CUdeviceptr from, size_t bytes) {
  return !bytes ||
         ty_cuda_ok(ty_cuda.copy_out(to, from, bytes, ty_cuda.stream), "cuMemcpyDtoHAsync");
}

/* The bytes and the error word of checks that were asked for arrive by one wait; little arrives in pinned memory. */
bool ty_cuda_out(void *to, const void *from, i64 bytes, Stream *s, const char **err) {
  ty_cuda_flush();
  if (!ty_cuda_enter()) return done(false, err);
  const size_t n = (size_t)TY_MAX(bytes, 0);
  const CUdeviceptr word = ty_cuda_checks(s) ? ty_cuda_word(s) : 0;
  ErrorWord e = {0};
  ty_cuda_wait_sides();
  Landing *l = n <= LANDING && (n || word) ? land() : NULL;
  const i32 span = n ? ty_cuda_span(SPAN_OUT, &ty_cuda_label, bytes) : -1;
  bool ok = fetch(l ? l->at : to, (CUdeviceptr)(uintptr_t)from, n);
  ty_cuda_spanned(span);
  ok = ok && (!word || fetch(l ? l->at + LANDING : (char *)&e, word, sizeof e)) && ty_cuda_settle();
  if (ok && l && n) memcpy(to, l->at, n);
  if (ok && l && word) memcpy(&e, l->at + LANDING, sizeof e);
  if (l) leave(l);
  ty_cuda_run_now.out += (i64)n;
  return done(ok, err) && (!word || ty_cuda_judge(s, &e, err));
}

bool ty_cuda_wait(Stream *s, const char **err) {
  ty_cuda_flush();
  if (ty_cuda_enter() && ty_cuda.copies && ty_cuda_settle()) is_idle(ty_cuda.copies);
  return ty_cuda_out(NULL, NULL, 0, s, err);
}

/* --- within the device */

bool ty_cuda_across(void *to, const void *from, i64 bytes, const char **err) {
  ty_cuda_flush();
  if (!ty_cuda_enter()) return done(false, err);
  if (bytes <= 0 || to == from) return true;
  const i32 span = ty_cuda_span(SPAN_ACROSS, &ty_cuda_label, bytes);
  const bool ok =
      ty_cuda_ok(ty_cuda.copy_across((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                     (size_t)bytes, ty_cuda.stream),
                 "cuMemcpyDtoDAsync");
  ty_cuda_spanned(span);
  ty_cuda_run_now.across += bytes;
  return done(ok, err);
}

/* --- from device to device */

/* Whether this device may read the other's memory by itself; elsewhere the driver copies by way of its own. */
static void meet(Cuda *other) {
  static bool met[CUDA_MOST][CUDA_MOST];
  bool *m = &met[ty_cuda.ordinal][other->ordinal];
  int can = 0;
  ty_lock(&lock);
  if (!*m && !ty_cuda.peer_possible(&can, ty_cuda.ordinal, other->ordinal) && can)
    ty_cuda.peer_enable(other->context, 0);
  *m = true;
  ty_unlock(&lock);
}

/* The device's stream up to here, as what another's may wait for; its context is current. */
static CUevent mark(void) {
  const bool ok = ty_cuda_make_event(&ty_cuda.event) && record(ty_cuda.event, ty_cuda.stream);
  return ok ? ty_cuda.event : NULL;
}

/* The thread's device waits for that event. */
static bool await_other(CUevent e) { return e && ty_cuda_enter() && await(ty_cuda.stream, e); }

/* Errors of checks are told where their results are read. */
static bool told(Cuda *other, Stream *s, const char **err) {
  Cuda *was = ty_cuda_use(other);
  ty_cuda_flush();
  if (ty_cuda_enter()) ty_cuda_wait_sides(); /* they may fail */
  const bool ok = done(ty_cuda_enter(), err) && (!ty_cuda_checks(s) || ty_cuda_wait(s, err));
  ty_cuda_use(was);
  return ok;
}

bool ty_cuda_receive(Cuda *other, void *to, const void *from, i64 bytes, Stream *s,
                     const char **err) {
  Cuda *own = ty_cuda_now;
  if (!told(other, s, err)) return false;
  ty_cuda_flush();
  if (bytes <= 0) return true;
  if (!ty_cuda_enter()) return done(false, err);
  meet(other);
  ty_cuda_use(other);
  CUevent ready = ty_cuda_enter() ? mark() : NULL;
  ty_cuda_use(own);
  bool ok = await_other(ready);
  const i32 span = ok ? ty_cuda_span(SPAN_ACROSS, &ty_cuda_label, bytes) : -1;
  ok = ok && ty_cuda_ok(ty_cuda.copy_peer((CUdeviceptr)(uintptr_t)to, ty_cuda.context,
                                          (CUdeviceptr)(uintptr_t)from, other->context,
                                          (size_t)bytes, ty_cuda.stream),
                        "cuMemcpyPeerAsync");
  ty_cuda_spanned(span);
  ty_cuda_run_now.across += bytes;
  CUevent read = ok ? mark() : NULL;
  ty_cuda_use(other); /* what is freed there stays until it was read */
  if (read && !await_other(read)) ok = done(false, err);
  ty_cuda_use(own);
  return ok ? done(ty_cuda_enter(), err) : done(false, err);
}
