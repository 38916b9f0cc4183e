/*
** spans.c -- what a profile notes of the devices: spans of time between two events of a stream.
** In:  begin and end around what goes to a stream, and what it belongs to.  Out: spans on the CPU's clock. Cannot fail: what has no
** room is counted, and a device that fails has no more spans.
**
** Times lie between an anchor, an event whose time on the CPU's clock is known since it was waited for, and the span's own
** events. Times of events are floats of milliseconds: the anchor moves on with each second, so that microseconds are kept.
** Without a profile a launch costs a comparison.
*/
#include <stdatomic.h>

#include "base/system.h"
#include "device/cuda/cuda.h"

enum { SPANS_MOST = 1 << 16, ANCHOR_MILLISECONDS = 1000 };

_Thread_local SpanLabel ty_cuda_label = {.kind = -1, .plan = -1};
_Thread_local DeviceRun ty_cuda_run_now;
_Atomic bool ty_cuda_noting;

static Lock lock = LOCK_INIT;
static Span *span;
static i32 nspans;
static i64 nlost;
static struct Anchor {
  CUevent event;
  double time;
} anchors[CUDA_MOST];

/* Events of a device that are not in use; a process keeps those that it ever needed. */
static struct Pool {
  CUevent *event;
  i32 n, cap;
} pools[CUDA_MOST];

static CUevent event_new(void) {
  struct Pool *p = &pools[ty_cuda.ordinal];
  CUevent e = NULL;
  if (p->n) return p->event[--p->n];
  return ty_cuda_ok(ty_cuda.event_create(&e, EVENT_WITH_TIME), "cuEventCreate") ? e : NULL;
}

/* One that finds no room is lost, which is no harm. */
static void event_keep(CUevent e) {
  struct Pool *p = &pools[ty_cuda.ordinal];
  if (e && p->n == p->cap) {
    CUevent *more = ty_mem_realloc(p->event, (size_t)(2 * p->cap + 64) * sizeof *more);
    if (more) p->event = more, p->cap = 2 * p->cap + 64;
  }
  if (e && p->n < p->cap) p->event[p->n++] = e;
}

static bool record(CUevent e, CUstream s) {
  return e && ty_cuda_ok(ty_cuda.event_record(e, s), "cuEventRecord");
}

/* Under the lock: the device has an anchor. */
static bool anchored(void) {
  struct Anchor *a = &anchors[ty_cuda.ordinal];
  if (a->event) return true;
  CUevent e = event_new();
  if (!record(e, ty_cuda.stream) || !ty_cuda_settle_event(e)) {
    event_keep(e);
    return false;
  }
  *a = (struct Anchor){e, (double)ty_system_now()};
  return true;
}

void ty_cuda_span_label(i32 kind, i32 plan, i32 step, i32 site) {
  ty_cuda_label = (SpanLabel){kind, plan, step, site, false};
}

i32 ty_cuda_span_begin(CUstream on, SpanKind kind, const SpanLabel *label, i64 n) {
  i32 at = -1;
  ty_lock(&lock);
  if (ty_cuda_noting && span && nspans < SPANS_MOST && anchored()) {
    Span *s = &span[nspans];
    *s = (Span){ty_cuda.ordinal, kind, *label, n, 0, 0, on, false, {event_new(), event_new()}};
    if (s->event[1] && record(s->event[0], on)) at = nspans++;
    else event_keep(s->event[0]), event_keep(s->event[1]);
  } else nlost++;
  ty_unlock(&lock);
  return at;
}

void ty_cuda_span_end(i32 at) {
  ty_lock(&lock);
  if (ty_cuda_noting && at < nspans) span[at].ended = record(span[at].event[1], span[at].stream);
  ty_unlock(&lock);
}

void ty_cuda_spans_start(void) {
  Cuda *was = ty_cuda_now;
  ty_lock(&lock);
  nspans = 0, nlost = 0;
  if (!span) span = ty_mem_alloc(SPANS_MOST * sizeof *span);
  ty_cuda_noting = span != NULL;
  for (int i = 0; i < CUDA_MOST && span; i++) {
    ty_cuda_use(&ty_cuda_all[i]);
    if (ty_cuda.stream && ty_cuda_enter()) anchored();
  }
  ty_cuda_use(was);
  ty_unlock(&lock);
}

/* The event's time; -1: there is none. */
static double time_of(CUevent e) {
  struct Anchor *a = &anchors[ty_cuda.ordinal];
  float ms;
  if (!ty_cuda_settle_event(e) || ty_cuda.event_elapsed(&ms, a->event, e)) return -1;
  return a->time + (double)ms * 1e6;
}

static void read_span(Span *s) {
  struct Anchor *a = &anchors[s->device];
  ty_cuda_use(&ty_cuda_all[s->device]);
  s->begin = s->end = -1;
  if (!ty_cuda_enter()) return;
  if (s->ended) s->begin = time_of(s->event[0]);
  if (s->begin >= 0) s->end = time_of(s->event[1]);
  event_keep(s->event[0]);
  if (s->end > a->time + ANCHOR_MILLISECONDS * 1e6) {
    event_keep(a->event);
    *a = (struct Anchor){s->event[1], s->end};
  } else event_keep(s->event[1]);
}

const Span *ty_cuda_spans_stop(i32 *n, i64 *lost) {
  Cuda *was = ty_cuda_now;
  *n = 0;
  ty_cuda_flush();
  ty_lock(&lock);
  for (i32 i = 0; i < nspans; i++) {
    read_span(&span[i]);
    if (span[i].end >= 0) span[(*n)++] = span[i];
  }
  *lost = nlost + nspans - *n;
  nspans = 0;
  for (int i = 0; i < CUDA_MOST; i++) {
    ty_cuda_use(&ty_cuda_all[i]);
    if (anchors[i].event && ty_cuda_enter()) event_keep(anchors[i].event);
    anchors[i].event = NULL;
  }
  ty_cuda_noting = false;
  ty_cuda_use(was);
  ty_unlock(&lock);
  return span;
}
