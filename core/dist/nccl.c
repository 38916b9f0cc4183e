/*
** nccl.c -- bytes from device to device by NCCL.
** In:  addresses on this rank's CUDA device.  Out: what was exchanged lies there for all that the device is asked for next. Fails
** where NCCL does; the failure is told to all ranks, as any other (exchange.c), and every communicator is given up: what waits on
** a device for a rank that is gone would wait for ever.
**
** 1. Each communicator has a stream of its own. Ranks queue a communicator's exchanges in the same order; those of different
**    ones need not be, since none waits on a device for another but by what it is made from.
** 2. Nothing here waits. What fails later is found by who waits for the device (wait_for), which then does nothing that stands behind the
**    exchange (device/cuda/sides.c), and tells why.
** 3. Before the process exits what it has queued is done: others wait for it.
**
** Numbers and types are those of nccl.h; none of them has changed since NCCL 2.7, which brought send and receive.
*/
#include "dist/nccl.h"
#include "base/system.h"
#include "ir/type.h"

#include <stdlib.h>

typedef struct ncclComm *Comm;
typedef struct UniqueId {
  char bytes[128];
} UniqueId;

enum { IN_PROGRESS = 7, NCCL_UINT8 = 1, OLDEST = 20700 };

#define NCCL_CALLS(_) \
  _(GetVersion, int, (int *version)) \
  _(GetUniqueId, int, (UniqueId * id)) \
  _(CommInitRank, int, (Comm * comm, int n, UniqueId id, int rank)) \
  _(CommAbort, int, (Comm comm)) \
  _(CommGetAsyncError, int, (Comm comm, int *result)) \
  _(GetErrorString, const char *, (int result)) \
  _(GroupStart, int, (void)) \
  _(GroupEnd, int, (void)) \
  _(Send, int, (const void *p, size_t n, int dtype, int to, Comm comm, void *queue)) \
  _(Recv, int, (void *p, size_t n, int dtype, int from, Comm comm, void *queue)) \
  _(AllGather, int, (const void *x, void *y, size_t n, int dtype, Comm comm, void *queue)) \
  _(Broadcast, int, \
    (const void *x, void *y, size_t n, int dtype, int root, Comm comm, void *queue)) \
  _(AllReduce, int, (const void *x, void *y, size_t n, int dtype, int op, Comm comm, void *queue))

static struct {
#define _(name, type, args) type(*name) args;
  NCCL_CALLS(_)
#undef _
} nccl;

static char refusal[320];
static int version;
static struct Joined {
  Comm comm; /* NULL: given up */
  const Device *device;
  Party party;
  char who[32]; /* of the last exchange */
} joined[TEAMS_MAX];
static int njoined;
static int latest[DEVICES_MAX]; /* by the device's number: the communicator of its last exchange */

/* --- the library */

static const char *find_calls(void *library) {
  void *p;
#define _(name, type, args) \
  p = ty_library_symbol(library, "nccl" #name); \
  memcpy(&nccl.name, &p, sizeof p); \
  if (!p) return "nccl" #name;
  NCCL_CALLS(_)
#undef _
  return NULL;
}

int ty_nccl_open(const char **err) {
  *err = refusal;
  if (version || refusal[0]) return version;
  const char *named = getenv("TYCHO_NCCL"), *missing;
  const char *const names[] = {named && *named ? named : "libnccl.so.2", NULL};
  void *library = ty_library_open(names);
  int found = 0;
  if (!library)
    ty_system_format(refusal, sizeof refusal, "%.200s was not found: is NCCL installed?", names[0]);
  else if ((missing = find_calls(library)))
    ty_system_format(refusal, sizeof refusal, "NCCL has no %.100s: it is older than 2.7", missing);
  else if (nccl.GetVersion(&found) || found < OLDEST)
    ty_system_format(refusal, sizeof refusal, "NCCL is too old: its version is %d, %d is needed",
                     found, OLDEST);
  else version = found;
  return version;
}

/* --- errors */

static const Sides *sides_of(const struct Joined *j) { return j->device->sides; }

/* What devices still do with others is of no value; then their streams come to an end. */
static void give_up(void) {
  for (int i = 0; i < njoined; i++)
    if (joined[i].comm) sides_of(&joined[i])->fail(joined[i].device->number, ty_world.failure);
  for (int i = 0; i < njoined; i++)
    if (joined[i].comm) nccl.CommAbort(joined[i].comm);
  for (int i = 0; i < njoined; i++) joined[i].comm = NULL;
}

static bool fail(const char *who, int result) {
  char what[200];
  ty_system_format(what, sizeof what, "has an error of NCCL: %.150s", nccl.GetErrorString(result));
  ty_world_fail_here(who, what);
  give_up();
  return false;
}

static bool fail_device(const char *who) {
  ty_world_fail_here(who, "has lost its CUDA device");
  give_up();
  return false;
}

/* --- waits for a device */

typedef struct Progress {
  int (*idle)(int n);
  const Device *device;
  int result; /* of a communicator */
  bool lost;
} Progress;

static int find_error(const Device *d) {
  int result = 0;
  for (int i = 0; i < njoined && !result; i++)
    if (joined[i].device == d && joined[i].comm &&
        (nccl.CommGetAsyncError(joined[i].comm, &result) || result == IN_PROGRESS))
      result = 0;
  return result;
}

static bool is_over(void *ctx) {
  Progress *w = ctx;
  const int idle = w->idle(w->device->number);
  if (idle > 0) return true;
  if (idle < 0) w->lost = true;
  else w->result = find_error(w->device);
  return w->lost || w->result;
}

/* Of Sides.watch. */
static void wait_for(int n, int (*idle)(int n)) {
  const struct Joined *j = &joined[latest[n]];
  Progress w = {.idle = idle, .device = j->device};
  const bool there = !ty_world.failure[0];
  if (there && ty_world_until(j->who, j->party.ranks, j->party.n, is_over, &w)) {
    if (w.lost) fail_device(j->who);
    else if (w.result) fail(j->who, w.result);
  } else if (idle(n) <= 0) give_up();
}

/* Rule 3. */
static void leave(int status) {
  ty_world.interrupted = NULL; /* its state may be gone */
  for (int i = 0; i < njoined && !status && !ty_world.failure[0]; i++)
    sides_of(&joined[i])->settle(joined[i].device->number);
}

/* --- communicators */

/* The party's place and its ranks, which stay. */
static bool keep_party(struct Joined *j, const Party *p) {
  int *ranks = ty_mem_alloc((size_t)p->n * sizeof *ranks);
  if (!ranks) return false;
  memcpy(ranks, p->ranks, (size_t)p->n * sizeof *ranks);
  j->party = (Party){ranks, p->n, p->own};
  return true;
}

int ty_nccl_join(const char *who, const Party *p, int tag, const Device *d) {
  UniqueId id = {{0}};
  struct Joined *j = &joined[njoined];
  int e = 0;
  if (ty_world.failure[0]) return -1;
  if (njoined == TEAMS_MAX) {
    ty_world_fail_here(who, "has too many groups of CUDA devices");
    return -1;
  }
  if (!d->sides || !d->sides->open(d->number, njoined)) return fail_device(who), -1;
  if (p->own == 0 && (e = nccl.GetUniqueId(&id))) return fail(who, e), -1;
  for (int i = 1; i < p->n; i++) { /* the first rank tells it the others */
    const Message m = {&id, sizeof id, p->ranks[p->own ? 0 : i], !p->own};
    if (p->own && p->own != i) continue;
    if (!ty_world_exchange(who, &m, 1, tag)) return -1;
  }
  *j = (struct Joined){.device = d};
  if (!keep_party(j, p)) {
    ty_world_fail_here(who, "is out of memory");
    return -1;
  }
  if ((e = nccl.CommInitRank(&j->comm, p->n, id, p->own))) return fail(who, e), -1;
  if (!njoined) ty_dist_at_exit(leave);
  d->sides->watch(d->number, wait_for);
  return njoined++;
}

const Party *ty_nccl_party(int number) { return &joined[number].party; }

/* ncclDataType_t by dtype, + 1. */
static const u8 dtypes[T_ALL] = {[T_I8] = 1,  [T_U8] = 2,  [T_I32] = 3, [T_U32] = 4, [T_I64] = 5,
                                 [T_U64] = 6, [T_F16] = 7, [T_F32] = 8, [T_F64] = 9, [T_BF16] = 10};

bool ty_nccl_takes(int dtype) { return dtypes[dtype] != 0; }

/* --- exchanges */

static int queue_messages(Comm comm, const Message *m, int n, const u8 *x, u8 *y, void *queue) {
  int e = nccl.GroupStart(), ended;
  for (int i = 0; i < n && !e; i++) {
    const i64 at = (i64)(uintptr_t)m[i].p;
    const size_t bytes = (size_t)m[i].bytes;
    e = m[i].sends ? nccl.Send(x + at, bytes, NCCL_UINT8, m[i].rank, comm, queue)
                   : nccl.Recv(y + at, bytes, NCCL_UINT8, m[i].rank, comm, queue);
  }
  ended = nccl.GroupEnd();
  return e ? e : ended;
}

static int queue_exchange(const ExchangeHead *h, const Message *m, const u8 *x, u8 *y, Comm comm,
                          void *queue) {
  const size_t count = (size_t)h->count;
  const u8 *from = x ? x + h->from : NULL;
  u8 *to = y ? y + h->to : NULL;
  if (h->kind == GATHERS) return nccl.AllGather(from, to, count, NCCL_UINT8, comm, queue);
  if (h->kind == SHOWS) return nccl.Broadcast(from, to, count, NCCL_UINT8, h->root, comm, queue);
  if (h->kind == REDUCES)
    return nccl.AllReduce(from, to, count, dtypes[h->dtype] - 1, h->op, comm, queue);
  return queue_messages(comm, m, h->n, x, y, queue);
}

void *ty_nccl_begin(const ExchangeHead *h, const Message *m, const void *x, void *y) {
  const int i = h->comm - 1;
  struct Joined *j = &joined[i];
  if (ty_world.failure[0]) return NULL;
  const int n = j->device->number;
  void *queue = sides_of(j)->open(n, i);
  if (!queue) return fail_device(h->who), NULL;
  latest[n] = i;
  ty_system_format(j->who, sizeof j->who, "%s", h->who);
  const int e = queue_exchange(h, m, x, y, j->comm, queue);
  if (e && e != IN_PROGRESS) return fail(h->who, e), NULL;
  void *end = sides_of(j)->mark(n, i);
  return end ? end : (fail_device(h->who), NULL);
}

bool ty_nccl_end(const ExchangeHead *h, void *end, const Stream *s) {
  const struct Joined *j = &joined[h->comm - 1];
  if (ty_world.failure[0]) return false;
  return sides_of(j)->follow(j->device->number, end, s) || fail_device(h->who);
}
