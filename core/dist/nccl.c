/*
** nccl.c -- bytes from device to device by NCCL.
** In:  addresses on this rank's CUDA device.  Out: what was exchanged lies there, and the device is idle. Fails where NCCL
** does; the failure is told to all ranks, as any other (exchange.c), and every communicator is given up: what waits on a
** device for a rank that is gone would wait for ever.
**
** Numbers and types are those of nccl.h; none of them has changed since NCCL 2.7, which brought send and receive.
*/
#include "dist/nccl.h"
#include "base/system.h"
#include "dist/dist.h"
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
static Comm comms[TEAMS_MAX];
static int ncomms;

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

static void give_up(void) {
  for (int i = 0; i < ncomms; i++)
    if (comms[i]) nccl.CommAbort(comms[i]);
  for (int i = 0; i < ncomms; i++) comms[i] = NULL;
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

typedef struct Progress {
  const DeviceQueue *queue;
  Comm comm;
  int result; /* of the communicator */
  bool lost;
} Progress;

static bool is_over(void *ctx) {
  Progress *w = ctx;
  const int idle = w->queue->idle(w->queue->device);
  if (idle > 0) return true;
  if (idle < 0) w->lost = true;
  else if (nccl.CommGetAsyncError(w->comm, &w->result) || w->result == IN_PROGRESS) w->result = 0;
  return w->lost || w->result;
}

/* Until the device has done it. */
static bool finish(const char *who, int number, const Party *p, int result, const DeviceQueue *q) {
  if (result && result != IN_PROGRESS) return fail(who, result);
  Progress w = {.queue = q, .comm = comms[number]};
  if (!ty_world_until(who, p->ranks, p->n, is_over, &w)) {
    give_up();
    return false;
  }
  if (w.lost) return fail_device(who);
  return w.result ? fail(who, w.result) : true;
}

/* What work is given to; NULL: the device or an earlier exchange has failed. */
static void *queue_of(const char *who, const DeviceQueue *q) {
  if (ty_world.failure[0]) return NULL;
  void *queue = q->get(q->device);
  if (!queue) fail_device(who);
  return queue;
}

/* --- communicators */

int ty_nccl_join(const char *who, const Party *p, int tag, const DeviceQueue *q) {
  UniqueId id = {{0}};
  int e = 0;
  if (!queue_of(who, q)) return -1;
  if (ncomms == TEAMS_MAX) {
    ty_world_fail_here(who, "has too many groups of CUDA devices");
    return -1;
  }
  if (p->own == 0 && (e = nccl.GetUniqueId(&id))) return fail(who, e), -1;
  for (int i = 1; i < p->n; i++) { /* the first rank tells it the others */
    const Message m = {&id, sizeof id, p->ranks[p->own ? 0 : i], !p->own};
    if (p->own && p->own != i) continue;
    if (!ty_world_exchange(who, &m, 1, tag)) return -1;
  }
  if ((e = nccl.CommInitRank(&comms[ncomms], p->n, id, p->own))) return fail(who, e), -1;
  return ncomms++;
}

/* --- exchanges */

static int queue_messages(Comm comm, const DeviceMessage *m, int n, void *queue) {
  int e = nccl.GroupStart(), ended;
  for (int i = 0; i < n && !e; i++)
    e = m[i].sends ? nccl.Send(m[i].p, (size_t)m[i].bytes, NCCL_UINT8, m[i].peer, comm, queue)
                   : nccl.Recv(m[i].p, (size_t)m[i].bytes, NCCL_UINT8, m[i].peer, comm, queue);
  ended = nccl.GroupEnd();
  return e ? e : ended;
}

bool ty_nccl_exchange(const char *who, int number, const Party *p, const DeviceMessage *m, int n,
                      const DeviceQueue *q) {
  void *queue = queue_of(who, q);
  return queue && finish(who, number, p, queue_messages(comms[number], m, n, queue), q);
}

bool ty_nccl_gather(const char *who, int number, const Party *p, const void *x, void *y, i64 bytes,
                    const DeviceQueue *q) {
  void *queue = queue_of(who, q);
  return queue && finish(who, number, p,
                         nccl.AllGather(x, y, (size_t)bytes, NCCL_UINT8, comms[number], queue), q);
}

bool ty_nccl_broadcast(const char *who, int number, const Party *p, const void *x, void *y,
                       i64 bytes, int from, const DeviceQueue *q) {
  void *queue = queue_of(who, q);
  return queue &&
         finish(who, number, p,
                nccl.Broadcast(x, y, (size_t)bytes, NCCL_UINT8, from, comms[number], queue), q);
}

/* ncclDataType_t by dtype, + 1. */
static const u8 dtypes[T_ALL] = {[T_I8] = 1,  [T_U8] = 2,  [T_I32] = 3, [T_U32] = 4, [T_I64] = 5,
                                 [T_U64] = 6, [T_F16] = 7, [T_F32] = 8, [T_F64] = 9, [T_BF16] = 10};

bool ty_nccl_takes(int dtype) { return dtypes[dtype] != 0; }

bool ty_nccl_reduce(const char *who, int number, const Party *p, const void *x, void *y, i64 n,
                    int dtype, NcclOp op, const DeviceQueue *q) {
  void *queue = queue_of(who, q);
  return queue &&
         finish(who, number, p,
                nccl.AllReduce(x, y, (size_t)n, dtypes[dtype] - 1, (int)op, comms[number], queue),
                q);
}
