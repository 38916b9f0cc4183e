/*
** queue.c -- streams and events. What is asked of a stream waits in its queue until a synchronisation, a query or an event
** demands it: so that who reads a result too early reads what was there before. Streams run in any order that events and the
** legacy stream's rules allow; with a seed, the order is drawn and work runs early, too. A stream is of the context that was
** current when it was made, and a handle in that alone; an event is recorded in streams of its own context, and awaited in any.
*/
#include <time.h>

#include "driver.h"

static Stream legacy = {.magic = IS_STREAM};
static Stream *streams = &legacy;

enum { NON_BLOCKING = 1 };

Stream *stream_of(void *handle) {
  if ((uintptr_t)handle <= 2) return &legacy; /* null, legacy, per thread */
  for (Stream *s = streams; s; s = s->next)
    if (s == handle && s->magic == IS_STREAM) return s->context == context_current() ? s : NULL;
  return NULL;
}

static void wait_add(Stream *s, Stream *other, uint64_t number) {
  if (other == s || other->done >= number) return;
  if (s->n_pending == s->max_pending) {
    s->max_pending = s->max_pending ? 2 * s->max_pending : 8;
    s->pending = realloc(s->pending, (size_t)s->max_pending * sizeof *s->pending);
  }
  s->pending[s->n_pending++] = (Wait){other, number};
}

/* The legacy stream waits for all blocking ones, and they for it. */
static void wait_legacy(Stream *s) {
  if (s->flags & NON_BLOCKING) return;
  if (s != &legacy) wait_add(s, &legacy, legacy.queued);
  else
    for (Stream *other = streams; other; other = other->next)
      if (!(other->flags & NON_BLOCKING)) wait_add(s, other, other->queued);
}

static bool stream_try(Stream *s, uint64_t number);

void stream_add(Stream *s, Work *w) {
  wait_legacy(s);
  Item *item = calloc(1, sizeof *item);
  item->work = *w;
  item->waits = s->pending;
  item->n_waits = s->n_pending;
  s->pending = NULL;
  s->n_pending = s->max_pending = 0;
  if (s->last) s->last->next = item;
  else s->first = item;
  s->last = item;
  s->queued++;
  if (settings.seed && draw(8) == 0) stream_try(s, s->queued); /* some work is quick */
}

static bool item_ready(const Item *item) {
  for (int i = 0; i < item->n_waits; i++)
    if (item->waits[i].stream->done < item->waits[i].number) return false;
  return item->work.kind != I_POLL || item->work.poll(item->work.user);
}

static void item_run(Stream *s) {
  Item *item = s->first;
  s->first = item->next;
  if (!s->first) s->last = NULL;
  Context *c = s->context ? s->context : context_current(), *before = context_run(c);
  if (!c || !c->error) work_run(&item->work);
  context_run(before);
  s->done++;
  work_free(&item->work);
  free(item->waits);
  free(item);
}

/* Something that may run and that nobody asked for. */
static bool run_any(void) {
  int n = 0;
  for (Stream *s = streams; s; s = s->next) n += s->first && item_ready(s->first);
  if (!n) return false;
  int pick = (int)draw((uint32_t)n);
  for (Stream *s = streams; s; s = s->next)
    if (s->first && item_ready(s->first) && pick-- == 0) {
      item_run(s);
      return true;
    }
  return false;
}

void stream_finish(Stream *s, uint64_t number) {
  while (s->done < number && s->first) {
    if (settings.seed && draw(4) == 0) {
      run_any();
      continue;
    }
    Item *item = s->first;
    for (int i = 0; i < item->n_waits; i++)
      stream_finish(item->waits[i].stream, item->waits[i].number);
    if (s->first != item) continue;
    if (item_ready(item)) item_run(s);
    else if (
        !run_any()) /* what comes from outside, such as another process' message, is waited for */
      nanosleep(&(struct timespec){0, 100000}, NULL);
  }
}

/* As far as that item, unless something has to come from outside before. */
static bool stream_try(Stream *s, uint64_t number) {
  while (s->done < number && s->first) {
    Item *item = s->first;
    for (int i = 0; i < item->n_waits; i++)
      if (!stream_try(item->waits[i].stream, item->waits[i].number)) return false;
    if (s->first != item) continue;
    if (!item_ready(item)) return false;
    item_run(s);
  }
  return s->done >= number;
}

void streams_finish(void) {
  for (Stream *s = streams; s; s = s->next) stream_finish(s, s->queued);
}

void streams_drop(Context *c) {
  for (Stream *s = streams; s; s = s->next)
    while (s->first && (!s->context || s->context == c)) {
      Item *item = s->first;
      s->first = item->next;
      s->done++;
      work_free(&item->work);
      free(item->waits);
      free(item);
    }
  for (Stream *s = streams; s; s = s->next)
    if (!s->first) s->last = NULL;
}

/* --- streams */

CALL cuStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
  ENTER;
  if (!stream || flags > 1) return INVALID_VALUE;
  Stream *s = calloc(1, sizeof *s);
  *s = (Stream){.magic = IS_STREAM,
                .context = context_current(),
                .flags = flags,
                .priority = priority,
                .next = legacy.next};
  legacy.next = s;
  *stream = s;
  return OK;
}

CALL cuStreamCreate(Stream **stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

/* Its work goes on; the struct stays, for events that were recorded in it. */
CALL cuStreamDestroy_v2(void *stream) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s || s == &legacy) return INVALID_HANDLE;
  s->magic = 0;
  return OK;
}

CALL cuStreamSynchronize(void *stream) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  stream_finish(s, s->queued);
  return context_current()->error;
}

CALL cuStreamQuery(void *stream) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  if (s->done >= s->queued) return OK;
  for (int i = 0; i < 32 && s->done < s->queued && run_any(); i++) {} /* who polls gets on */
  return context_current()->error ? context_current()->error : NOT_READY;
}

CALL cuStreamWaitEvent(void *stream, Event *event, unsigned flags) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s || !event || event->magic != IS_EVENT) return INVALID_HANDLE;
  if (flags > 1) return INVALID_VALUE;
  if (event->recorded) wait_add(s, event->at.stream, event->at.number);
  return OK;
}

CALL cuStreamGetPriority(void *stream, int *priority) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  *priority = s->priority;
  return OK;
}

CALL cuStreamGetFlags(void *stream, unsigned *flags) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  *flags = s->flags;
  return OK;
}

CALL cuStreamGetCtx(void *stream, Context **context) {
  ENTER;
  if (!stream_of(stream)) return INVALID_HANDLE;
  *context = context_current();
  return OK;
}

CALL cuStreamIsCapturing(void *stream, int *status) {
  ENTER;
  if (!stream_of(stream)) return INVALID_HANDLE;
  *status = 0;
  return OK;
}

CALL cuLaunchHostFunc(void *stream, void (*call)(void *), void *user) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  if (!call) return INVALID_VALUE;
  stream_add(s, &(Work){.kind = I_HOST, .call = call, .user = user});
  return OK;
}

/* No call of the driver's: a stream waits here until poll(user) is not 0. Libraries of the specs that stand for others'
** (nccl.c) wait so for what comes from outside. */
CALL soft_gpu_poll(void *stream, int (*poll)(void *), void *user) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  if (!poll) return INVALID_VALUE;
  stream_add(s, &(Work){.kind = I_POLL, .poll = poll, .user = user});
  return OK;
}

/* No call of the driver's either: another process wants what stands behind such polls. A card goes on by itself; here streams do
** as far as they can, and no further than that. */
CALL soft_gpu_go_on(int (*poll)(void *)) {
  LOCKED;
  if (driver_ready()) return NOT_INITIALIZED;
  for (Stream *s = streams; s; s = s->next) {
    uint64_t number = s->done, last = 0;
    for (const Item *item = s->first; item; item = item->next)
      if (++number, item->work.kind == I_POLL && item->work.poll == poll) last = number;
    if (last) stream_try(s, last);
  }
  return OK;
}

/* --- events */

CALL cuEventCreate(Event **event, unsigned flags) {
  ENTER;
  if (!event || flags > 7) return INVALID_VALUE;
  Event *e = calloc(1, sizeof *e);
  *e = (Event){.magic = IS_EVENT, .context = context_current(), .timing = !(flags & 2)};
  *event = e;
  return OK;
}

CALL cuEventDestroy_v2(Event *e) {
  ENTER;
  if (!e || e->magic != IS_EVENT) return INVALID_HANDLE;
  e->magic = 0; /* a queue may still name it */
  return OK;
}

static int event_record(Event *e, void *stream) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s || !e || e->magic != IS_EVENT || e->context != context_current()) return INVALID_HANDLE;
  stream_add(s, &(Work){.kind = I_EVENT, .event = e});
  e->recorded = true;
  e->at = (Wait){s, s->queued};
  return OK;
}
CALL cuEventRecord(Event *event, void *stream) { return event_record(event, stream); }
CALL cuEventRecordWithFlags(Event *event, void *stream, unsigned flags) {
  return flags > 1 ? INVALID_VALUE : event_record(event, stream);
}

CALL cuEventQuery(Event *e) {
  ENTER;
  if (!e || e->magic != IS_EVENT) return INVALID_HANDLE;
  if (!e->recorded || e->at.stream->done >= e->at.number) return OK;
  run_any();
  return context_current()->error ? context_current()->error : NOT_READY;
}

CALL cuEventSynchronize(Event *e) {
  ENTER;
  if (!e || e->magic != IS_EVENT) return INVALID_HANDLE;
  if (e->recorded) stream_finish(e->at.stream, e->at.number);
  return context_current()->error;
}

static int elapsed(float *milliseconds, const Event *a, const Event *b) {
  ENTER;
  if (!a || !b || a->magic != IS_EVENT || b->magic != IS_EVENT || !a->recorded || !b->recorded ||
      !a->timing || !b->timing)
    return INVALID_HANDLE;
  if (a->at.stream->done < a->at.number || b->at.stream->done < b->at.number) return NOT_READY;
  *milliseconds = (float)(b->time - a->time);
  return OK;
}
CALL cuEventElapsedTime(float *milliseconds, Event *a, Event *b) {
  return elapsed(milliseconds, a, b);
}
CALL cuEventElapsedTime_v2(float *milliseconds, Event *a, Event *b) {
  return elapsed(milliseconds, a, b);
}
