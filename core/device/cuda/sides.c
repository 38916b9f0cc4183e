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
  CUevent ready;  /* of the device's stream */
  CUevent *spare; /* of marks that were followed */
  int nspare, cap;
  CUdeviceptr broken; /* a word */
} besides[CUDA_MOST];

static struct Beside *own(void) { return &besides[ty_cuda.ordinal]; }

static bool enter(int n) {
  ty_cuda_use(&ty_cuda_all[n]);
  ty_cuda_flush();
  return ty_cuda_enter();
}

/* The word, which is 0. */
static bool make_word(struct Beside *b) {
  if (b->broken) return true;
  CUstream apart = ty_cuda_apart();
  if (!apart || !ty_cuda_ok(ty_cuda.memory_allocate(&b->broken, sizeof(u64)), "cuMemAlloc"))
    return (b->broken = 0);
  return ty_cuda_ok(ty_cuda.fill(b->broken, 0, sizeof(u64), apart), "cuMemsetD8Async") &&
         ty_cuda_ok(ty_cuda.stream_wait(apart), "cuStreamSynchronize");
}

static void *open_side(int n, int i) {
  if (i < 0 || i >= SIDES_MOST || !enter(n)) return NULL;
  struct Beside *b = own();
  const bool ok = make_word(b) && ty_cuda_make_stream(&b->stream[i]) &&
                  ty_cuda_make_event(&b->ready) &&
                  ty_cuda_ok(ty_cuda.event_record(b->ready, ty_cuda.stream), "cuEventRecord") &&
                  ty_cuda_ok(ty_cuda.stream_await(b->stream[i], b->ready, 0), "cuStreamWaitEvent");
  return ok ? b->stream[i] : NULL;
}

static void *mark_side(int n, int i) {
  ty_cuda_use(&ty_cuda_all[n]);
  struct Beside *b = own();
  CUevent e = b->nspare ? b->spare[--b->nspare] : NULL;
  if (!ty_cuda_enter() || !ty_cuda_make_event(&e)) return NULL;
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
  ty_cuda_may_wait();
  if (!ty_cuda_ok(ty_cuda.stream_await(ty_cuda.stream, mark, 0), "cuStreamWaitEvent")) return false;
  keep_event(b, mark);
  return check(b, s);
}

static void settle(int n) {
  if (enter(n)) ty_cuda_settle();
}

static void fail(int n, const char *text) {
  static const u64 set = 1;
  ty_cuda_use(&ty_cuda_all[n]);
  const struct Beside *b = own();
  char *told = ty_cuda_side_text();
  if (!*told) ty_system_format(told, SIDE_TEXT, "%.399s", text);
  if (!b->broken || !ty_cuda_enter()) return;
  CUstream apart = ty_cuda_apart();
  ty_cuda_ok(ty_cuda.copy_in(b->broken, &set, sizeof set, apart), "cuMemcpyHtoDAsync");
  ty_cuda_ok(ty_cuda.stream_wait(apart), "cuStreamSynchronize");
}

const Sides ty_cuda_sides = {.open = open_side,
                             .mark = mark_side,
                             .follow = follow,
                             .watch = ty_cuda_watch,
                             .settle = settle,
                             .fail = fail};
