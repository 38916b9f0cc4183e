/*
** sides.c -- streams beside a device's own, for libraries that exchange tensors with other processes (device/sides.h).
** In:  numbers of sides; marks.  Out: streams, and that the device's own waits for them. Fails as calls of the driver do.
**
** A side waits for the device's stream by an event, and that one for it. Behind each such wait stands a kernel that looks at a
** word of the device: where it is set, what the side did is of no value, and the kernel makes an error of the stream (memory.c).
** So what came before is as it is, and all that comes behind does nothing, whenever the failure was found.
*/
#include "base/system.h"
#include "device/cuda/jobs.h"
#include "device/cuda/ptx_move.h"

/* Of a device. */
static struct Beside {
  CUstream stream[SIDES_MOST];
  CUstream apart; /* waits for nobody */
  CUevent ready;  /* of the device's stream */
  CUevent *spare; /* of marks that were followed */
  int nspare, cap;
  CUdeviceptr broken; /* a word */
  bool followed;      /* the device's stream may wait for a side */
  void (*wait)(int n, int (*idle)(int n));
  char text[400];
} besides[CUDA_MOST];

static struct Beside *own(void) { return &besides[ty_cuda.ordinal]; }

static bool enter(int n) {
  ty_cuda_use(&ty_cuda_all[n]);
  ty_cuda_flush();
  return ty_cuda_enter();
}

static bool make_stream(CUstream *s) {
  return *s || ty_cuda_ok(ty_cuda.stream_create(s, STREAM_NON_BLOCKING), "cuStreamCreate");
}

static bool make_event(CUevent *e) {
  return *e || ty_cuda_ok(ty_cuda.event_create(e, EVENT_WITHOUT_TIME), "cuEventCreate");
}

/* The word, which is 0. */
static bool make_word(struct Beside *b) {
  if (b->broken) return true;
  if (!make_stream(&b->apart) ||
      !ty_cuda_ok(ty_cuda.memory_allocate(&b->broken, sizeof(u64)), "cuMemAlloc"))
    return (b->broken = 0);
  return ty_cuda_ok(ty_cuda.fill(b->broken, 0, sizeof(u64), b->apart), "cuMemsetD8Async") &&
         ty_cuda_ok(ty_cuda.stream_wait(b->apart), "cuStreamSynchronize");
}

static void *open_side(int n, int i) {
  if (i < 0 || i >= SIDES_MOST || !enter(n)) return NULL;
  struct Beside *b = own();
  const bool ok = make_word(b) && make_stream(&b->stream[i]) && make_event(&b->ready) &&
                  ty_cuda_ok(ty_cuda.event_record(b->ready, ty_cuda.stream), "cuEventRecord") &&
                  ty_cuda_ok(ty_cuda.stream_await(b->stream[i], b->ready, 0), "cuStreamWaitEvent");
  return ok ? b->stream[i] : NULL;
}

static void *mark_side(int n, int i) {
  ty_cuda_use(&ty_cuda_all[n]);
  struct Beside *b = own();
  CUevent e = b->nspare ? b->spare[--b->nspare] : NULL;
  if (!ty_cuda_enter() || !make_event(&e)) return NULL;
  return ty_cuda_ok(ty_cuda.event_record(e, b->stream[i]), "cuEventRecord") ? e : NULL;
}

static void keep_event(struct Beside *b, CUevent e) {
  if (b->nspare == b->cap) {
    CUevent *more = ty_mem_realloc(b->spare, (size_t)(b->cap * 2 + 8) * sizeof *more);
    if (more) b->spare = more, b->cap = b->cap * 2 + 8;
  }
  if (b->nspare < b->cap) b->spare[b->nspare++] = e;
}

/* An error, where the side has failed. */
static bool check(const struct Beside *b, const Stream *s) {
  const Key key = {.kind = OF_SIDE_CHECK};
  i64 block[] = {(i64)ty_cuda_word(s), (i64)b->broken, (i64)ty_cuda_check_side(s)};
  return block[SIDE_WORD / 8] && block[SIDE_CHECK / 8] &&
         ty_cuda_run_each(&key, 1, SIDE_THREADS, block);
}

static bool follow(int n, void *mark, const Stream *s) {
  if (!enter(n)) return false;
  struct Beside *b = own();
  b->followed = true;
  if (!ty_cuda_ok(ty_cuda.stream_await(ty_cuda.stream, mark, 0), "cuStreamWaitEvent")) return false;
  keep_event(b, mark);
  return check(b, s);
}

/* These two may be asked under locks: they launch nothing. */
static int idle(int n) {
  ty_cuda_use(&ty_cuda_all[n]);
  if (!ty_cuda_enter()) return -1;
  const int e = ty_cuda.stream_query(ty_cuda.stream);
  if (e == CUDA_ERROR_NOT_READY) return 0;
  return ty_cuda_ok(e, "cuStreamQuery") ? 1 : -1;
}

void ty_cuda_wait_sides(void) {
  struct Beside *b = own();
  Cuda *now = ty_cuda_now;
  if (!b->followed) return;
  if (b->wait) b->wait(now->ordinal, idle);
  ty_cuda_use(now);
  b->followed = false;
}

bool ty_cuda_settle(void) {
  ty_cuda_wait_sides();
  return ty_cuda_enter() && ty_cuda_ok(ty_cuda.stream_wait(ty_cuda.stream), "cuStreamSynchronize");
}

static CUevent awaited;

static int event_idle(int n) {
  ty_cuda_use(&ty_cuda_all[n]);
  if (!ty_cuda_enter()) return -1;
  const int e = ty_cuda.event_query(awaited);
  if (e == CUDA_ERROR_NOT_READY) return 0;
  return ty_cuda_ok(e, "cuEventQuery") ? 1 : -1;
}

bool ty_cuda_settle_event(CUevent e) {
  const struct Beside *b = own();
  Cuda *now = ty_cuda_now;
  awaited = e;
  if (b->followed && b->wait) b->wait(now->ordinal, event_idle);
  ty_cuda_use(now);
  return ty_cuda_enter() && ty_cuda_ok(ty_cuda.event_wait(e), "cuEventSynchronize");
}

bool ty_cuda_look_apart(CUdeviceptr p, void *y, i64 n) {
  struct Beside *b = own();
  return make_stream(&b->apart) &&
         ty_cuda_ok(ty_cuda.copy_out(y, p, (size_t)n, b->apart), "cuMemcpyDtoHAsync") &&
         ty_cuda_ok(ty_cuda.stream_wait(b->apart), "cuStreamSynchronize");
}

static void settle(int n) {
  if (enter(n)) ty_cuda_settle();
}

static void watch(int n, void (*wait)(int n, int (*idle)(int n))) { besides[n].wait = wait; }

static void fail(int n, const char *text) {
  static const u64 set = 1;
  ty_cuda_use(&ty_cuda_all[n]);
  struct Beside *b = own();
  if (!*b->text) ty_system_format(b->text, sizeof b->text, "%.399s", text);
  if (!b->broken || !ty_cuda_enter()) return;
  ty_cuda_ok(ty_cuda.copy_in(b->broken, &set, sizeof set, b->apart), "cuMemcpyHtoDAsync");
  ty_cuda_ok(ty_cuda.stream_wait(b->apart), "cuStreamSynchronize");
}

const char *ty_cuda_side_text(void) { return own()->text; }

const Sides ty_cuda_sides = {.open = open_side,
                             .mark = mark_side,
                             .follow = follow,
                             .watch = watch,
                             .settle = settle,
                             .fail = fail};
