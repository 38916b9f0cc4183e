/*
** batch.c -- the launches of a plan as one: a graph with explicit nodes.
** In:  launches, between begin and end.  Out: they are carried out, in order. What fails is the device's trouble.
**
** Launches are gathered, and go when the plan ends, or when something else is asked of the stream. A sequence (functions
** and their threads) that comes first is launched call by call. When it comes again its kernels are assembled once more,
** beside, as ones that read their parameters from a table in device memory, at an address that never changes; until they are
** there, it goes call by call. Then the sequence is a graph: nodes at its beginning get all parameters by value and
** write the table, so a replay sets the parameters of these alone, and grids that have changed. Sizes are parameters: plans
** for ranges of sizes have one graph. Replays share a stream, so one table is enough.
**
** Blocks of memory that are freed meanwhile wait for the launches: another thread might be given them before.
** TYCHO_CUDA_GRAPHS=0 launches all call by call.
*/
#include "base/system.h"
#include "device/cuda/assemble.h"
#include "device/cuda/batch.h"

#include <stdlib.h>

enum {
  FEWEST = 3, /* launches of a graph */
  LAUNCHES_MOST = 1024,
  FREES_MOST = 64,
  GRAPHS_MOST = 64,
  SEEN_MOST = 256,
  CHUNK = 4096, /* bytes that one node writes */
  CHUNK_HEAD = 16,
  WRITER_THREADS = 128
};

typedef struct Waiting {
  CudaCode code;
  i64 blocks;
  u32 threads, at, n; /* parameters: n bytes at `at` */
  SpanLabel label;
} Waiting;

/* Of a thread. */
typedef struct Batch {
  int depth;
  i32 n, nfrees;
  size_t bytes, cap;
  char *params;
  Waiting waiting[LAUNCHES_MOST];
  struct {
    void *p;
    i64 bytes;
  } frees[FREES_MOST];
} Batch;

typedef struct Replay {
  Cuda *device;
  CUgraph graph;
  CUgraphExec exec;
  i32 n, nchunks;
  CUgraphNode *node; /* nchunks that write the table, then n kernels */
  Waiting *launch;   /* as they are set now; code: the twins */
  CUfunction *of;    /* what they are twins of */
  char *values;      /* what the table holds */
  CUdeviceptr table;
  size_t bytes;
} Replay;

static struct Seen { /* a sequence, by its hash */
  u64 hash, used;
  bool hopeless; /* no graph can be made */
  Replay *graph;
} seen[SEEN_MOST];

static Lock lock = LOCK_INIT;
static Once once = ONCE_INIT;
static ThreadKey key;
static bool enabled;
static u64 clock_of_use;
static int ngraphs;
static BatchCounts counts[CUDA_MOST];
static CudaCode writers[CUDA_MOST];
static _Thread_local struct Batches { /* by device; NULL: none yet */
  Batch *of[CUDA_MOST];
} * batches;

static void drop_batches(void *p) {
  struct Batches *all = p;
  for (int i = 0; i < CUDA_MOST; i++) {
    if (all->of[i]) ty_mem_free(all->of[i]->params);
    ty_mem_free(all->of[i]);
  }
  ty_mem_free(all);
  batches = NULL;
}

/* The thread's, of the device that it works for; or NULL. */
static Batch *own(void) { return batches ? batches->of[ty_cuda.ordinal] : NULL; }

static Batch *make_own(void) {
  if (!batches) {
    if (!(batches = ty_mem_zalloc(sizeof *batches))) return NULL;
    if (!ty_thread_keep(key, batches)) drop_batches(batches);
  }
  return batches ? batches->of[ty_cuda.ordinal] = ty_mem_zalloc(sizeof(Batch)) : NULL;
}

static void choose(void) {
  const char *graphs = getenv("TYCHO_CUDA_GRAPHS");
  enabled = !(graphs && !strcmp(graphs, "0")) && ty_thread_key(&key, drop_batches);
  if (enabled)
    ty_cuda_gather = (CudaGather){ty_batch_take, ty_batch_flush, ty_batch_frees, ty_batch_forget};
}

static _Thread_local int plans; /* in progress */

void ty_batch_begin(void) {
  ty_once(&once, choose);
  if (!plans++) ty_cuda_run_now = (DeviceRun){.one_by_one = enabled ? NULL : "TYCHO_CUDA_GRAPHS=0"};
  if (!enabled) return;
  Batch *b = own();
  if (b || (b = make_own())) b->depth++;
}

void ty_batch_end(DeviceRun *run) {
  Batch *b = own();
  if (b && b->depth) {
    ty_batch_flush();
    b->depth--;
  }
  plans -= plans > 0;
  *run = ty_cuda_run_now;
  ty_cuda_span_label(-1, -1, 0, 0);
}

static bool room_for(Batch *b, size_t n) {
  if (b->bytes + n <= b->cap) return true;
  const size_t cap = b->cap * 2 + n + CHUNK;
  char *more = ty_mem_realloc(b->params, cap);
  if (more) b->params = more, b->cap = cap;
  return more != NULL;
}

bool ty_batch_take(const CudaCode *c, i64 blocks, int threads, const void *params, size_t n) {
  Batch *b = own();
  if (!b || !b->depth) return false;
  if (b->n == LAUNCHES_MOST) ty_batch_flush();
  n = (n + 7) & ~(size_t)7;
  if (!room_for(b, n)) {
    ty_batch_flush();
    return false;
  }
  memcpy(b->params + b->bytes, params, n);
  b->waiting[b->n++] = (Waiting){*c, blocks, (u32)threads, (u32)b->bytes, (u32)n, ty_cuda_label};
  b->bytes += n;
  return true;
}

bool ty_batch_frees(void *p, i64 bytes) {
  Batch *b = own();
  if (!b || !b->n) return false;
  if (b->nfrees == FREES_MOST) {
    ty_batch_flush();
    return false;
  }
  b->frees[b->nfrees].p = p, b->frees[b->nfrees++].bytes = bytes;
  return true;
}

/* --- call by call */

static bool launch(const Waiting *w, void *params, CUfunction f) {
  void *list[] = {params};
  return ty_cuda_ok(ty_cuda.launch(f, (unsigned)w->blocks, 1, 1, w->threads, 1, 1,
                                   (unsigned)w->code.shared, ty_cuda.stream, list, NULL),
                    "cuLaunchKernel");
}

static void launch_each(Batch *b) {
  for (i32 i = 0; i < b->n && ty_cuda_enter(); i++) {
    const Waiting *w = &b->waiting[i];
    const i32 span = ty_cuda_span(SPAN_KERNEL, &w->label, 1);
    launch(w, b->params + w->at, w->code.function);
    ty_cuda_spanned(span);
    ty_cuda.launches++, ty_cuda_run_now.launches++;
  }
}

/* --- graphs */

static KernelNode node_of(const Waiting *w, void **params) {
  return (KernelNode){.function = w->code.function,
                      .grid = {(unsigned)w->blocks, 1, 1},
                      .block = {w->threads, 1, 1},
                      .shared = (unsigned)w->code.shared,
                      .params = params};
}

static void drop_graph(Replay *g) {
  if (!g) return;
  Cuda *was = ty_cuda_use(g->device);
  if (ty_cuda_enter()) {
    if (g->exec) ty_cuda.graph_exec_destroy(g->exec);
    if (g->graph) ty_cuda.graph_destroy(g->graph);
    if (g->table) ty_cuda_free((void *)(uintptr_t)g->table, (i64)g->bytes);
  }
  ty_cuda_use(was);
  ty_cuda_enter();
  ty_mem_free(g->node);
  ty_mem_free(g->launch);
  ty_mem_free(g->of);
  ty_mem_free(g->values);
  ty_mem_free(g);
}

/* Parameters of a node that writes: where, how many words, the words. */
static size_t chunk_of(const Replay *g, i32 i, char *block) {
  const size_t at = (size_t)i * CHUNK, n = TY_MIN(g->bytes - at, (size_t)CHUNK);
  const i64 head[] = {(i64)(g->table + at), (i64)(n / 8)};
  memcpy(block, head, sizeof head);
  memcpy(block + CHUNK_HEAD, g->values + at, n);
  return n;
}

static const Waiting writes = {.blocks = 1, .threads = WRITER_THREADS};

/* The node, behind the one before it. */
static bool add_node(Replay *g, i32 i, const Waiting *w, void *params) {
  void *list[] = {params};
  const KernelNode node = node_of(w, list);
  return ty_cuda_ok(
      ty_cuda.graph_add_kernel(&g->node[i], g->graph, i ? &g->node[i - 1] : NULL, i > 0, &node),
      "cuGraphAddKernelNode");
}

static bool fill_graph(Replay *g) {
  static _Thread_local char block[CHUNK_HEAD + CHUNK];
  Waiting w = writes;
  w.code = writers[ty_cuda.ordinal];
  bool ok = ty_cuda_ok(ty_cuda.graph_create(&g->graph, 0), "cuGraphCreate");
  for (i32 i = 0; i < g->nchunks && ok; i++) {
    chunk_of(g, i, block);
    ok = add_node(g, i, &w, block);
  }
  for (i32 i = 0; i < g->n && ok; i++) {
    CUdeviceptr table = g->table + g->launch[i].at;
    ok = add_node(g, g->nchunks + i, &g->launch[i], &table);
  }
  return ok && ty_cuda_ok(ty_cuda.graph_instantiate(&g->exec, g->graph, 0),
                          "cuGraphInstantiateWithFlags");
}

/* The kernels of a batch that read a table. LATER: they are not all there yet. */
typedef enum { READY, LATER, NEVER } Ready;

static Ready twins_of(const Batch *b, Waiting *launch) {
  Ready all = READY;
  for (i32 i = 0; i < b->n && all != NEVER; i++) {
    CudaCode code = {0};
    const int r = ty_cuda_twin(&b->waiting[i].code, &code);
    if (r < 0) all = NEVER;
    else if (!r) all = LATER;
    launch[i] = b->waiting[i];
    launch[i].code = code;
  }
  return all;
}

static Replay *make_graph(const Batch *b, bool *hopeless) {
  Replay *g = ty_mem_zalloc(sizeof *g);
  *hopeless = true;
  if (!g) return NULL;
  g->device = ty_cuda_now;
  g->n = b->n, g->bytes = b->bytes, g->nchunks = (i32)((b->bytes + CHUNK - 1) / CHUNK);
  g->node = ty_mem_zalloc((size_t)(g->n + g->nchunks) * sizeof *g->node);
  g->launch = ty_mem_zalloc((size_t)g->n * sizeof *g->launch);
  g->of = ty_mem_zalloc((size_t)g->n * sizeof *g->of);
  g->values = ty_mem_alloc(g->bytes);
  Ready ready = g->node && g->launch && g->of && g->values ? twins_of(b, g->launch) : NEVER;
  if (ready == READY) {
    for (i32 i = 0; i < g->n; i++) g->of[i] = b->waiting[i].code.function;
    memcpy(g->values, b->params, g->bytes);
    g->table = (CUdeviceptr)(uintptr_t)ty_cuda_allocate((i64)g->bytes);
    if (g->table && fill_graph(g)) return g;
  }
  *hopeless = ready != LATER;
  drop_graph(g);
  return NULL;
}

/* What has changed since the last launch. */
static bool set_graph(Replay *g, const Batch *b) {
  static _Thread_local char block[CHUNK_HEAD + CHUNK];
  Waiting w = writes;
  bool ok = true;
  w.code = writers[ty_cuda.ordinal];
  for (i32 i = 0; i < g->nchunks && ok; i++) {
    const size_t at = (size_t)i * CHUNK, n = TY_MIN(g->bytes - at, (size_t)CHUNK);
    if (!memcmp(g->values + at, b->params + at, n)) continue;
    memcpy(g->values + at, b->params + at, n);
    chunk_of(g, i, block);
    void *list[] = {block};
    const KernelNode node = node_of(&w, list);
    ok = ty_cuda_ok(ty_cuda.graph_set_kernel(g->exec, g->node[i], &node),
                    "cuGraphExecKernelNodeSetParams");
  }
  for (i32 i = 0; i < g->n && ok; i++) {
    if (g->launch[i].blocks == b->waiting[i].blocks) continue;
    g->launch[i].blocks = b->waiting[i].blocks;
    CUdeviceptr table = g->table + g->launch[i].at;
    void *list[] = {&table};
    const KernelNode node = node_of(&g->launch[i], list);
    ok = ty_cuda_ok(ty_cuda.graph_set_kernel(g->exec, g->node[g->nchunks + i], &node),
                    "cuGraphExecKernelNodeSetParams");
  }
  return ok;
}

static bool is_of(const Replay *g, const Batch *b) {
  bool same = g->n == b->n && g->bytes == b->bytes;
  for (i32 i = 0; i < b->n && same; i++)
    same = g->of[i] == b->waiting[i].code.function &&
           g->launch[i].threads == b->waiting[i].threads && g->launch[i].n == b->waiting[i].n;
  return same;
}

static u64 hash_of(const Batch *b) {
  u64 h = (u64)b->n;
  for (i32 i = 0; i < b->n; i++) {
    const Waiting *w = &b->waiting[i];
    const u64 of[] = {(u64)(uintptr_t)w->code.function, w->threads, w->n}; /* of one device */
    h = ty_hash(of, sizeof of, h);
  }
  return h;
}

/* Under the lock: the sequence's place, its own or that of the one whose use lies furthest back. */
static struct Seen *place_of(u64 hash, bool *first) {
  struct Seen *s = seen;
  for (i32 i = 0; i < SEEN_MOST; i++) {
    if (seen[i].hash == hash && seen[i].used) {
      *first = false;
      return &seen[i];
    }
    if (seen[i].used < s->used) s = &seen[i];
  }
  *first = true;
  ngraphs -= s->graph != NULL;
  drop_graph(s->graph);
  *s = (struct Seen){.hash = hash};
  return s;
}

/* Under the lock: one more may be there. */
static void make_room(void) {
  struct Seen *s = NULL;
  for (i32 i = 0; i < SEEN_MOST && ngraphs >= GRAPHS_MOST; i++)
    if (seen[i].graph && (!s || seen[i].used < s->used)) s = &seen[i];
  if (!s) return;
  drop_graph(s->graph);
  s->graph = NULL, ngraphs--;
}

static bool launch_graph(const Replay *g, const Batch *b) {
  const i32 span = ty_cuda_span(SPAN_GRAPH, &b->waiting[0].label, g->n);
  const bool ok = ty_cuda_ok(ty_cuda.graph_launch(g->exec, ty_cuda.stream), "cuGraphLaunch");
  ty_cuda_spanned(span);
  return ok;
}

/* Why kernels go one by one that are a graph's some time, or never. */
static const char *reason(bool first, bool hopeless) {
  if (first) return "these kernels come the first time: a graph runs them from the second time on";
  return hopeless ? "no graph can be made of these kernels"
                  : "the kernels of its graph are still being assembled";
}

static bool run_graph(Batch *b) {
  bool first, ok = false;
  ty_lock(&lock);
  struct Seen *s = place_of(hash_of(b), &first);
  s->used = ++clock_of_use;
  if (!first && s->graph && !is_of(s->graph, b))
    s->hopeless = true, drop_graph(s->graph), s->graph = NULL, ngraphs--;
  if (!first && !s->graph && !s->hopeless && ty_cuda_writer(&writers[ty_cuda.ordinal])) {
    make_room();
    if ((s->graph = make_graph(b, &s->hopeless))) ngraphs++, counts[ty_cuda.ordinal].graphs++;
  }
  if (s->graph && set_graph(s->graph, b)) ok = launch_graph(s->graph, b);
  if (ok) ty_cuda_run_now.graphs++, ty_cuda_run_now.nodes += b->n;
  else ty_cuda_run_now.one_by_one = reason(first, s->hopeless);
  counts[ty_cuda.ordinal].graph_launches += ok;
  ty_unlock(&lock);
  return ok;
}

void ty_batch_flush(void) {
  static _Thread_local bool inside; /* what a graph is made with goes to the stream itself */
  Batch *b = own();
  if (!b || !b->n || inside) return;
  inside = true;
  if (b->n < FEWEST)
    ty_cuda_run_now.one_by_one = "there are too few kernels in a row for a graph to save anything";
  if (ty_cuda_enter() && (b->n < FEWEST || !run_graph(b))) launch_each(b);
  b->n = 0, b->bytes = 0;
  const i32 n = b->nfrees;
  b->nfrees = 0;
  for (i32 i = 0; i < n; i++) ty_cuda_free(b->frees[i].p, b->frees[i].bytes);
  inside = false;
}

void ty_batch_forget(CUfunction f) {
  ty_lock(&lock);
  for (i32 i = 0; i < SEEN_MOST; i++) {
    Replay *g = seen[i].graph;
    bool has = false;
    for (i32 k = 0; g && k < g->n; k++) has |= g->of[k] == f;
    if (!has) continue;
    drop_graph(g);
    seen[i] = (struct Seen){0}, ngraphs--;
  }
  ty_unlock(&lock);
}

BatchCounts ty_batch_counts(void) {
  ty_lock(&lock);
  BatchCounts c = counts[ty_cuda.ordinal];
  c.launches = ty_cuda.launches;
  ty_unlock(&lock);
  return c;
}
