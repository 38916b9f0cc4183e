/*
** nccl.c -- stands for NCCL, between processes that have a software GPU each (spec/gpu).
** In:  what nccl.h says. Out: messages as files of a folder, which stands for the network; a stream waits for those that have
** not come, as on a card: who waits for the stream without looking about waits for ever where a rank is gone. A message leaves
** when the other side wants it, whatever the host does meanwhile: a thread looks after that.
**
** It holds its callers to: memory of the device that is allocated, on a stream that is not the legacy one; groups that end;
** peers of the communicator; counts that both sides have alike. A message of another length than is expected fails the
** communicator later, by ncclCommGetAsyncError.
** FAKE_NCCL_LOG names a file: a line for each call, its bytes and rank. FAKE_NCCL_FAIL=n: the nth call of this process fails
** later; FAKE_NCCL_KILL=n: rank 1 is killed in it. FAKE_NCCL_VERSION is what ncclGetVersion says.
*/
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../reach.h"

#define CALL __attribute__((visibility("default")))
enum {
  OK,
  CUDA_ERROR,
  SYSTEM_ERROR,
  INTERNAL_ERROR,
  INVALID_ARGUMENT,
  INVALID_USAGE,
  REMOTE_ERROR,
  IN_PROGRESS
};
enum { PEERS = 64, OPS = 1024, PATH = 320 };

typedef struct UniqueId {
  char bytes[128];
} UniqueId;

typedef struct Comm {
  int n, rank, error;
  bool aborted, silent; /* silent: of an operation that fails later */
  char folder[128];
  unsigned sent[PEERS], received[PEERS];
} Comm;

typedef struct Op {
  Comm *comm;
  int peer;
  bool sends, done;
  uint64_t p, bytes;
  void *stream;
  unsigned number; /* of the message between the two */
  uint8_t *staged; /* pinned */
} Op;

/* --- the driver */

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *stream);
int cuMemAllocHost_v2(void **p, size_t n);
int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);
int soft_gpu_poll(void *stream, int (*poll)(void *), void *user);
int soft_gpu_go_on(int (*poll)(void *));

/* --- the network */

static void pause_a_little(void) { nanosleep(&(struct timespec){0, 200000}, NULL); }

static void path_of(const Comm *c, char *path, int from, int to, unsigned number) {
  snprintf(path, PATH, "%s/%d.%d.%u", c->folder, from, to, number);
}

/* A file is there whole, or not at all. */
static bool put_file(const char *path, const void *p, size_t n) {
  char temporary[PATH + 8];
  snprintf(temporary, sizeof temporary, "%s.new", path);
  FILE *f = fopen(temporary, "wb");
  if (!f) return false;
  const bool ok = fwrite(p, 1, n, f) == n;
  return !fclose(f) && ok && !rename(temporary, path);
}

/* What a stream comes to: a message that is given away. */
static int post(void *user) {
  Op *op = user;
  char path[PATH];
  if (op->done || op->comm->aborted) return 1;
  if (op->comm->silent) return 0;
  path_of(op->comm, path, op->comm->rank, op->peer, op->number);
  if (!put_file(path, op->staged, op->bytes)) op->comm->error = SYSTEM_ERROR;
  op->done = true;
  return 1;
}

static void want(const Op *op) {
  char path[PATH];
  snprintf(path, sizeof path, "%s/want.%d", op->comm->folder, op->peer);
  const int file = open(path, O_CREAT | O_WRONLY, 0600);
  if (file >= 0) close(file);
}

/* A message that has come; 0: not yet. */
static int fetch(void *user) {
  Op *op = user;
  char path[PATH];
  struct stat s;
  if (op->done || op->comm->aborted) return 1;
  if (op->comm->silent) return 0;
  path_of(op->comm, path, op->peer, op->comm->rank, op->number);
  if (stat(path, &s)) {
    want(op);
    return 0;
  }
  if ((uint64_t)s.st_size != op->bytes) {
    op->comm->error = INVALID_USAGE;
    return 0; /* it never comes */
  }
  FILE *f = fopen(path, "rb");
  if (!f || fread(op->staged, 1, op->bytes, f) != op->bytes) op->comm->error = SYSTEM_ERROR;
  if (f) fclose(f);
  unlink(path);
  op->done = true;
  return 1;
}

/* --- operations of a group, which are queued when it ends: what is given away first */

static Op *group[OPS];
static int depth, nops;
static long calls;

static void log_call(Comm *c, const char *name, uint64_t bytes) {
  const char *path = getenv("FAKE_NCCL_LOG"), *fails = getenv("FAKE_NCCL_FAIL");
  const char *kills = getenv("FAKE_NCCL_KILL");
  calls++;
  if (fails && calls == atol(fails)) c->silent = true;
  if (kills && c->rank == 1 && calls == atol(kills)) raise(SIGKILL);
  FILE *f = path ? fopen(path, "a") : NULL;
  if (!f) return;
  fprintf(f, "%s %llu of rank %d\n", name, (unsigned long long)bytes, c->rank);
  fclose(f);
}

static int queue_op(Op *op) {
  if (op->sends)
    return op->bytes && cuMemcpyDtoHAsync_v2(op->staged, op->p, op->bytes, op->stream) ? CUDA_ERROR
           : soft_gpu_poll(op->stream, post, op)                                       ? CUDA_ERROR
                                                                                       : OK;
  if (soft_gpu_poll(op->stream, fetch, op)) return CUDA_ERROR;
  return op->bytes && cuMemcpyHtoDAsync_v2(op->p, op->staged, op->bytes, op->stream) ? CUDA_ERROR
                                                                                     : OK;
}

static int queue_group(void) {
  int e = OK;
  for (int sends = 1; sends >= 0; sends--)
    for (int i = 0; i < nops && !e; i++)
      if (group[i]->sends == sends) e = queue_op(group[i]);
  for (int i = 0; i < nops && !e; i++) e = group[i]->comm->error; /* of earlier ones */
  for (int i = 0; i < nops; i++)
    if (group[i]->comm->silent) group[i]->comm->error = REMOTE_ERROR;
  nops = 0;
  return e;
}

static int add(Comm *c, bool sends, const void *p, uint64_t bytes, int peer, void *stream) {
  void *staged = NULL;
  if (!c || c->aborted || peer < 0 || peer >= c->n || nops == OPS) return INVALID_ARGUMENT;
  if ((uintptr_t)stream <= 2 || (bytes && !soft_gpu_live((uint64_t)(uintptr_t)p, bytes))) {
    fprintf(stderr,
            "fake NCCL: %llu bytes at %p on stream %p: no memory of a device, or no stream\n",
            (unsigned long long)bytes, p, stream);
    return INVALID_ARGUMENT;
  }
  if (cuMemAllocHost_v2(&staged, bytes ? bytes : 1)) return CUDA_ERROR;
  Op *op = malloc(sizeof *op);
  *op = (Op){.comm = c,
             .peer = peer,
             .sends = sends,
             .p = (uint64_t)(uintptr_t)p,
             .bytes = bytes,
             .stream = stream,
             .staged = staged,
             .number = sends ? c->sent[peer]++ : c->received[peer]++};
  group[nops++] = op;
  return OK;
}

CALL int ncclGroupStart(void) { return depth++, OK; }

CALL int ncclGroupEnd(void) {
  if (depth <= 0) return INVALID_USAGE;
  return --depth ? OK : queue_group();
}

static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
enum { DTYPES = 10 };

CALL int ncclSend(const void *p, size_t n, int dtype, int to, Comm *c, void *stream) {
  if (dtype < 0 || dtype >= DTYPES) return INVALID_ARGUMENT;
  ncclGroupStart();
  log_call(c, "Send", n * (size_t)sizes[dtype]);
  const int e = add(c, true, p, n * (size_t)sizes[dtype], to, stream), ended = ncclGroupEnd();
  return e ? e : ended;
}

CALL int ncclRecv(void *p, size_t n, int dtype, int from, Comm *c, void *stream) {
  if (dtype < 0 || dtype >= DTYPES) return INVALID_ARGUMENT;
  ncclGroupStart();
  log_call(c, "Recv", n * (size_t)sizes[dtype]);
  const int e = add(c, false, p, n * (size_t)sizes[dtype], from, stream), ended = ncclGroupEnd();
  return e ? e : ended;
}

CALL int ncclAllGather(const void *x, void *y, size_t n, int dtype, Comm *c, void *stream) {
  if (dtype < 0 || dtype >= DTYPES) return INVALID_ARGUMENT;
  const uint64_t bytes = n * (uint64_t)sizes[dtype];
  int e = OK;
  log_call(c, "AllGather", bytes);
  ncclGroupStart();
  for (int i = 0; i < c->n && !e; i++) {
    e = add(c, true, x, bytes, i, stream);
    if (!e) e = add(c, false, (uint8_t *)y + bytes * (uint64_t)i, bytes, i, stream);
  }
  const int ended = ncclGroupEnd();
  return e ? e : ended;
}

CALL int ncclBroadcast(const void *x, void *y, size_t n, int dtype, int root, Comm *c,
                       void *stream) {
  if (dtype < 0 || dtype >= DTYPES || root < 0 || root >= c->n) return INVALID_ARGUMENT;
  const uint64_t bytes = n * (uint64_t)sizes[dtype];
  int e = OK;
  log_call(c, "Broadcast", bytes);
  ncclGroupStart();
  for (int i = 0; i < c->n && !e && c->rank == root; i++) e = add(c, true, x, bytes, i, stream);
  if (!e) e = add(c, false, y, bytes, root, stream);
  const int ended = ncclGroupEnd();
  return e ? e : ended;
}

/* --- sums, in an order that is not that of ranks: as NCCL's, it is nobody's business */

typedef struct Sum {
  int n, dtype, op;
  size_t count;
  Op *from[PEERS];
} Sum;

#define REDUCE(T) \
  for (size_t k = 0; k < s->count; k++) { \
    T a = ((T *)s->from[s->n - 1]->staged)[k]; \
    for (int i = s->n - 2; i >= 0; i--) { \
      const T b = ((T *)s->from[i]->staged)[k]; \
      a = s->op == 0   ? a + b \
          : s->op == 1 ? a * b \
          : s->op == 2 ? (a > b ? a : b) \
                       : (a < b ? a : b); \
    } \
    ((T *)s->from[0]->staged)[k] = a; \
  }

static int reduce(void *user) {
  Sum *s = user;
  for (int i = 0; i < s->n; i++)
    if (!fetch(s->from[i])) return 0;
  if (s->from[0]->comm->aborted || !s->count) return 1;
  switch (s->dtype) {
  case 0: REDUCE(int8_t) break;
  case 1: REDUCE(uint8_t) break;
  case 2: REDUCE(int32_t) break;
  case 3: REDUCE(uint32_t) break;
  case 4: REDUCE(int64_t) break;
  case 5: REDUCE(uint64_t) break;
  case 6: REDUCE(_Float16) break;
  case 7: REDUCE(float) break;
  case 8: REDUCE(double) break;
  default: return 1; /* bf16: gcc has no type for it here */
  }
  s->count = 0; /* once */
  return 1;
}

CALL int ncclAllReduce(const void *x, void *y, size_t n, int dtype, int op, Comm *c, void *stream) {
  if (dtype < 0 || dtype >= DTYPES - 1 || op < 0 || op > 3 || depth) return INVALID_ARGUMENT;
  const uint64_t bytes = n * (uint64_t)sizes[dtype];
  int e = OK;
  log_call(c, "AllReduce", bytes);
  Sum *s = malloc(sizeof *s);
  *s = (Sum){.n = c->n, .dtype = dtype, .op = op, .count = n};
  for (int i = 0; i < c->n && !e; i++) e = add(c, true, x, bytes, i, stream);
  if (!e) e = queue_group();
  for (int i = 0; i < c->n && !e; i++) {
    e = add(c, false, y, bytes, i, stream);
    s->from[i] = group[i];
  }
  nops = 0;
  if (!e && soft_gpu_poll(stream, reduce, s)) e = CUDA_ERROR;
  if (!e && bytes &&
      cuMemcpyHtoDAsync_v2((uint64_t)(uintptr_t)y, s->from[0]->staged, bytes, stream))
    e = CUDA_ERROR;
  return e;
}

/* --- communicators */

static Comm *comms[PEERS];
static _Atomic int ncomms;

static void *serve(void *context) {
  char path[PATH];
  cuCtxSetCurrent(context);
  for (;; pause_a_little())
    for (int i = 0; i < ncomms; i++) {
      snprintf(path, sizeof path, "%s/want.%d", comms[i]->folder, comms[i]->rank);
      if (!unlink(path)) soft_gpu_go_on(post);
    }
  return NULL;
}

static void serve_comm(Comm *c) {
  pthread_t thread;
  void *context = NULL;
  if (ncomms == PEERS) return;
  comms[ncomms++] = c;
  cuCtxGetCurrent(&context);
  if (ncomms == 1 && !pthread_create(&thread, NULL, serve, context)) pthread_detach(thread);
}

CALL int ncclGetVersion(int *version) {
  const char *named = getenv("FAKE_NCCL_VERSION");
  *version = named ? atoi(named) : 22809;
  return OK;
}

CALL int ncclGetUniqueId(UniqueId *id) {
  memset(id, 0, sizeof *id);
  snprintf(id->bytes, sizeof id->bytes, "%s/nccl.XXXXXX",
           getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  return mkdtemp(id->bytes) ? OK : SYSTEM_ERROR;
}

CALL int ncclCommInitRank(Comm **made, int n, UniqueId id, int rank) {
  char path[PATH];
  if (!made || n < 1 || n > PEERS || rank < 0 || rank >= n) return INVALID_ARGUMENT;
  Comm *c = calloc(1, sizeof *c);
  c->n = n;
  c->rank = rank;
  memcpy(c->folder, id.bytes, sizeof c->folder);
  snprintf(path, sizeof path, "%s/join.%d", c->folder, rank);
  if (!put_file(path, "", 0)) return SYSTEM_ERROR;
  for (int i = 0, tries = 0; i < n; tries++) { /* all have come */
    snprintf(path, sizeof path, "%s/join.%d", c->folder, i);
    if (!access(path, F_OK)) i++;
    else if (tries > 100000) return SYSTEM_ERROR;
    else pause_a_little();
  }
  serve_comm(c);
  *made = c;
  return OK;
}

CALL int ncclCommAbort(Comm *c) {
  if (!c) return INVALID_ARGUMENT;
  c->aborted = true; /* its operations still lie in streams */
  return OK;
}

CALL int ncclCommGetAsyncError(Comm *c, int *result) {
  if (!c || !result) return INVALID_ARGUMENT;
  *result = c->error;
  return OK;
}

CALL const char *ncclGetErrorString(int result) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return result >= 0 && result <= IN_PROGRESS ? texts[result] : "unknown result code";
}
