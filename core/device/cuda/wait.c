/*
** wait.c -- how a thread waits for a device: until all that it was asked for is done, or up to an event.
** In:  the device's stream.  Out: it is idle. Fails as calls of the driver do.
**
** Where the stream may wait for a library that exchanges with other processes (sides.c), the driver would wait as long as they
** do. So whoever watches these (dist/nccl.c) waits first, asking whether they are there; the driver is called when it need not.
*/
#include "device/cuda/cuda.h"

/* Of a device. */
static struct Waiting {
  CUstream apart; /* waits for nobody */
  bool may;       /* its stream may wait for a side */
  void (*wait)(int n, int (*idle)(int n));
  char text[SIDE_TEXT];
} waiting[CUDA_MOST];

static struct Waiting *own(void) { return &waiting[ty_cuda.ordinal]; }

bool ty_cuda_make_stream(CUstream *s) {
  return *s || ty_cuda_ok(ty_cuda.stream_create(s, STREAM_NON_BLOCKING), "cuStreamCreate");
}

bool ty_cuda_make_event(CUevent *e) {
  return *e || ty_cuda_ok(ty_cuda.event_create(e, EVENT_WITHOUT_TIME), "cuEventCreate");
}

CUstream ty_cuda_apart(void) {
  struct Waiting *w = own();
  return ty_cuda_make_stream(&w->apart) ? w->apart : NULL;
}

void ty_cuda_watch(int n, void (*wait)(int n, int (*idle)(int n))) { waiting[n].wait = wait; }
void ty_cuda_may_wait(void) { own()->may = true; }
char *ty_cuda_side_text(void) { return own()->text; }

/* These two may be asked under locks: they launch nothing. */
static int idle(int n) {
  ty_cuda_use(&ty_cuda_all[n]);
  if (!ty_cuda_enter()) return -1;
  const int e = ty_cuda.stream_query(ty_cuda.stream);
  if (e == CUDA_ERROR_NOT_READY) return 0;
  return ty_cuda_ok(e, "cuStreamQuery") ? 1 : -1;
}

static CUevent awaited;

static int event_idle(int n) {
  ty_cuda_use(&ty_cuda_all[n]);
  if (!ty_cuda_enter()) return -1;
  const int e = ty_cuda.event_query(awaited);
  if (e == CUDA_ERROR_NOT_READY) return 0;
  return ty_cuda_ok(e, "cuEventQuery") ? 1 : -1;
}

void ty_cuda_wait_sides(void) {
  struct Waiting *w = own();
  Cuda *now = ty_cuda_now;
  if (!w->may) return;
  if (w->wait) w->wait(now->ordinal, idle);
  ty_cuda_use(now);
  w->may = false;
}

bool ty_cuda_settle(void) {
  ty_cuda_wait_sides();
  return ty_cuda_enter() && ty_cuda_ok(ty_cuda.stream_wait(ty_cuda.stream), "cuStreamSynchronize");
}

bool ty_cuda_settle_event(CUevent e) {
  const struct Waiting *w = own();
  Cuda *now = ty_cuda_now;
  awaited = e;
  if (w->may && w->wait) w->wait(now->ordinal, event_idle);
  ty_cuda_use(now);
  return ty_cuda_enter() && ty_cuda_ok(ty_cuda.event_wait(e), "cuEventSynchronize");
}

bool ty_cuda_look_apart(CUdeviceptr p, void *y, i64 n) {
  CUstream apart = ty_cuda_apart();
  return apart && ty_cuda_ok(ty_cuda.copy_out(y, p, (size_t)n, apart), "cuMemcpyDtoHAsync") &&
         ty_cuda_ok(ty_cuda.stream_wait(apart), "cuStreamSynchronize");
}
