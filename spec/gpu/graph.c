/*
** graph.c -- graphs with explicit nodes: kernels, copies, sets, host calls, empty ones. A launch runs a copy of the executable
** graph as it is at that moment, its nodes in an order of the seed that their dependencies allow.
*/
#include "driver.h"

typedef struct Node {
  Magic magic;
  Work work;
  struct Graph *graph;
  int index;  /* in its graph */
  int *after; /* nodes that it waits for */
  int n_after;
} Node;

typedef struct Graph {
  Magic magic;
  Node **nodes;
  int n;
} Graph;

typedef struct Exec {
  Magic magic;
  const Graph *of; /* what it was made from: its nodes are handles here */
  Graph graph;
} Exec;

typedef struct KernelParams { /* CUDA_KERNEL_NODE_PARAMS_v2; the first version ends with `extra` */
  void *function;
  unsigned grid[3], block[3], shared;
  void **params, **extra;
  void *kernel, *context;
} KernelParams;

typedef struct CopySide {
  size_t x, y, z, level;
  int type; /* 1 host, 2 device, 4 unified */
  void *host;
  uint64_t device;
  void *array, *reserved;
  size_t pitch, height;
} CopySide;

typedef struct CopyParams { /* CUDA_MEMCPY3D */
  CopySide from, to;
  size_t width, height, depth;
} CopyParams;

typedef struct SetParams { /* CUDA_MEMSET_NODE_PARAMS */
  uint64_t to;
  size_t pitch;
  unsigned value, element;
  size_t width, height;
} SetParams;

typedef struct HostParams {
  void (*call)(void *);
  void *user;
} HostParams;

/* --- work of nodes */

static int kernel_work(Work *w, const KernelParams *p, bool second) {
  if (!p) return INVALID_VALUE;
  void *handle = p->function ? p->function : second ? p->kernel : NULL;
  Kernel *k = kernel_of(handle);
  if (!k) return INVALID_HANDLE;
  *w = (Work){.kind = I_KERNEL, .launch = {.kernel = k, .dynamic = p->shared}};
  memcpy(w->launch.grid, p->grid, sizeof p->grid);
  memcpy(w->launch.block, p->block, sizeof p->block);
  int bad = launch_check(&w->launch);
  if (!bad) bad = launch_params(&w->launch, p->params, p->extra);
  if (bad) work_free(w);
  return bad;
}

static int side(Bytes *b, const CopySide *s) {
  uint64_t start = s->type == 1 ? (uintptr_t)s->host : s->device;
  if (s->type != 1 && s->type != 2 && s->type != 4) return NOT_SUPPORTED;
  *b = (Bytes){start + s->y * s->pitch + s->x, memory_device(start) >= 0};
  return s->z ? NOT_SUPPORTED : OK;
}

static int copy_work(Work *w, const CopyParams *p) {
  if (!p || p->depth > 1) return p ? NOT_SUPPORTED : INVALID_VALUE;
  *w = (Work){.kind = I_COPY,
              .bytes = p->width,
              .rows = p->height ? p->height : 1,
              .to_pitch = p->to.pitch,
              .from_pitch = p->from.pitch};
  int bad = side(&w->to, &p->to);
  if (!bad) bad = side(&w->from, &p->from);
  return bad ? bad : copy_check(w);
}

static int set_work(Work *w, const SetParams *p) {
  if (!p || (p->element != 1 && p->element != 2 && p->element != 4)) return INVALID_VALUE;
  *w = (Work){.kind = I_SET,
              .to = {p->to, true},
              .bytes = p->width * p->element,
              .rows = p->height,
              .to_pitch = p->pitch,
              .value = p->value,
              .element = p->element};
  return copy_check(w);
}

/* A copy of its own, with its own parameters. */
static Work work_copy(const Work *w) {
  Work copy = *w;
  if (w->kind == I_KERNEL) {
    copy.launch.params = calloc(1, w->launch.kernel->param_bytes + 16u);
    memcpy(copy.launch.params, w->launch.params, w->launch.kernel->param_bytes);
  }
  return copy;
}

/* --- graphs */

static bool is_graph(const Graph *g) { return g && g->magic == IS_GRAPH; }

CALL cuGraphCreate(Graph **graph, unsigned flags) {
  ENTER;
  if (!graph || flags) return INVALID_VALUE;
  *graph = calloc(1, sizeof **graph);
  (*graph)->magic = IS_GRAPH;
  return OK;
}

static void graph_empty(Graph *g) {
  for (int i = 0; i < g->n; i++) {
    work_free(&g->nodes[i]->work);
    free(g->nodes[i]->after);
    g->nodes[i]->magic = 0;
    free(g->nodes[i]);
  }
  free(g->nodes);
  g->nodes = NULL;
  g->n = 0;
}

CALL cuGraphDestroy(Graph *g) {
  ENTER;
  if (!is_graph(g)) return INVALID_HANDLE;
  graph_empty(g);
  g->magic = 0;
  free(g);
  return OK;
}

static void after_add(Node *node, int other) {
  node->after = realloc(node->after, (size_t)(node->n_after + 1) * sizeof *node->after);
  node->after[node->n_after++] = other;
}

static int node_add(Node **out, Graph *g, Node *const *after, size_t n_after, const Work *work) {
  for (size_t i = 0; i < n_after; i++)
    if (!after || !after[i] || after[i]->magic != IS_NODE || after[i]->graph != g)
      return INVALID_VALUE;
  Node *node = calloc(1, sizeof *node);
  *node = (Node){.magic = IS_NODE, .work = *work, .graph = g, .index = g->n};
  for (size_t i = 0; i < n_after; i++) after_add(node, after[i]->index);
  g->nodes = realloc(g->nodes, (size_t)(g->n + 1) * sizeof *g->nodes);
  g->nodes[g->n++] = node;
  *out = node;
  return OK;
}

static int kernel_node(Node **node, Graph *g, Node *const *after, size_t n, const KernelParams *p,
                       bool second) {
  ENTER;
  Work w = {0};
  if (!is_graph(g) || !node) return INVALID_VALUE;
  int bad = kernel_work(&w, p, second);
  if (!bad) bad = node_add(node, g, after, n, &w);
  return bad;
}
CALL cuGraphAddKernelNode(Node **node, Graph *g, Node *const *after, size_t n,
                          const KernelParams *p) {
  return kernel_node(node, g, after, n, p, false);
}
CALL cuGraphAddKernelNode_v2(Node **node, Graph *g, Node *const *after, size_t n,
                             const KernelParams *p) {
  return kernel_node(node, g, after, n, p, true);
}

CALL cuGraphAddMemcpyNode(Node **node, Graph *g, Node *const *after, size_t n, const CopyParams *p,
                          void *context) {
  ENTER;
  (void)context;
  Work w = {0};
  if (!is_graph(g) || !node) return INVALID_VALUE;
  int bad = copy_work(&w, p);
  return bad ? bad : node_add(node, g, after, n, &w);
}

CALL cuGraphAddMemsetNode(Node **node, Graph *g, Node *const *after, size_t n, const SetParams *p,
                          void *context) {
  ENTER;
  (void)context;
  Work w = {0};
  if (!is_graph(g) || !node) return INVALID_VALUE;
  int bad = set_work(&w, p);
  return bad ? bad : node_add(node, g, after, n, &w);
}

CALL cuGraphAddHostNode(Node **node, Graph *g, Node *const *after, size_t n, const HostParams *p) {
  ENTER;
  if (!is_graph(g) || !node || !p || !p->call) return INVALID_VALUE;
  return node_add(node, g, after, n, &(Work){.kind = I_HOST, .call = p->call, .user = p->user});
}

CALL cuGraphAddEmptyNode(Node **node, Graph *g, Node *const *after, size_t n) {
  ENTER;
  if (!is_graph(g) || !node) return INVALID_VALUE;
  return node_add(node, g, after, n, &(Work){.kind = I_NOTHING});
}

static int dependencies_add(Graph *g, Node *const *from, Node *const *to, size_t n) {
  ENTER;
  if (!is_graph(g)) return INVALID_VALUE;
  for (size_t i = 0; i < n; i++) {
    if (from[i]->graph != g || to[i]->graph != g || from[i] == to[i]) return INVALID_VALUE;
    after_add(to[i], from[i]->index);
  }
  return OK;
}
CALL cuGraphAddDependencies(Graph *g, Node *const *from, Node *const *to, size_t n) {
  return dependencies_add(g, from, to, n);
}
CALL cuGraphAddDependencies_v2(Graph *g, Node *const *from, Node *const *to, const void *data,
                               size_t n) {
  return data ? NOT_SUPPORTED : dependencies_add(g, from, to, n);
}

CALL cuGraphGetNodes(Graph *g, Node **nodes, size_t *n) {
  ENTER;
  if (!is_graph(g) || !n) return INVALID_VALUE;
  for (size_t i = 0; nodes && i < *n; i++) nodes[i] = i < (size_t)g->n ? g->nodes[i] : NULL;
  if (!nodes || *n > (size_t)g->n) *n = (size_t)g->n;
  return OK;
}

static int node_kernel_set(Node *node, const KernelParams *p, bool second) {
  ENTER;
  if (!node || node->magic != IS_NODE || node->work.kind != I_KERNEL) return INVALID_VALUE;
  Work w = {0};
  int bad = kernel_work(&w, p, second);
  if (bad) return bad;
  work_free(&node->work);
  node->work = w;
  return OK;
}
CALL cuGraphKernelNodeSetParams(Node *node, const KernelParams *p) {
  return node_kernel_set(node, p, false);
}
CALL cuGraphKernelNodeSetParams_v2(Node *node, const KernelParams *p) {
  return node_kernel_set(node, p, true);
}

/* --- executable graphs */

static void graph_copy(Graph *to, const Graph *g) {
  *to = (Graph){IS_GRAPH, calloc((size_t)g->n + 1, sizeof *to->nodes), g->n};
  for (int i = 0; i < g->n; i++) {
    const Node *n = g->nodes[i];
    Node *copy = calloc(1, sizeof *copy);
    *copy = (Node){.magic = IS_NODE,
                   .work = work_copy(&n->work),
                   .graph = to,
                   .index = i,
                   .n_after = n->n_after};
    copy->after = calloc((size_t)n->n_after + 1, sizeof *copy->after);
    if (n->n_after) memcpy(copy->after, n->after, (size_t)n->n_after * sizeof *copy->after);
    to->nodes[i] = copy;
  }
}

/* The nodes in an order that may run, drawn by the seed; false: there is a cycle. */
static bool graph_order(const Graph *g, int *order) {
  bool *done = calloc((size_t)g->n + 1, sizeof *done);
  int n = 0;
  for (bool progress = true; progress && n < g->n;) {
    progress = false;
    int ready = 0, pick = -1;
    for (int i = 0; i < g->n; i++) {
      const Node *node = g->nodes[i];
      bool waits = done[i];
      for (int k = 0; k < node->n_after; k++) waits |= !done[node->after[k]];
      if (waits) continue;
      ready++;
      if (pick < 0 || (settings.seed && draw((uint32_t)ready) == 0)) pick = i;
    }
    if (pick < 0) break;
    done[pick] = progress = true;
    order[n++] = pick;
  }
  free(done);
  return n == g->n;
}

void graph_run(Exec *e) {
  int *order = calloc((size_t)e->graph.n + 1, sizeof *order);
  graph_order(&e->graph, order);
  for (int i = 0; i < e->graph.n && !context_current()->error; i++)
    work_run(&e->graph.nodes[order[i]]->work);
  free(order);
  counts.graph_launches++;
}

void graph_release(Exec *e) {
  graph_empty(&e->graph);
  free(e);
}

static int instantiate(Exec **exec, Graph *g) {
  ENTER;
  if (!is_graph(g) || !exec) return INVALID_VALUE;
  int *order = calloc((size_t)g->n + 1, sizeof *order);
  bool acyclic = graph_order(g, order);
  free(order);
  if (!acyclic) return INVALID_VALUE;
  Exec *e = calloc(1, sizeof *e);
  e->magic = IS_EXEC;
  e->of = g;
  graph_copy(&e->graph, g);
  *exec = e;
  return OK;
}
CALL cuGraphInstantiateWithFlags(Exec **exec, Graph *g, uint64_t flags) {
  return flags > 15 ? INVALID_VALUE : instantiate(exec, g);
}
CALL cuGraphInstantiate_v2(Exec **exec, Graph *g, Node **error, char *log, size_t size) {
  if (error) *error = NULL;
  if (log && size) *log = 0;
  return instantiate(exec, g);
}
/* The name as it is exported has the parameters of the first version. */
CALL cuGraphInstantiate(Exec **exec, Graph *g, Node **error, char *log, size_t size) {
  return cuGraphInstantiate_v2(exec, g, error, log, size);
}

CALL cuGraphExecDestroy(Exec *e) {
  ENTER;
  if (!e || e->magic != IS_EXEC) return INVALID_HANDLE;
  e->magic = 0;
  graph_release(e);
  return OK;
}

CALL cuGraphUpload(Exec *e, void *stream) {
  ENTER;
  return e && e->magic == IS_EXEC && stream_of(stream) ? OK : INVALID_HANDLE;
}

CALL cuGraphLaunch(Exec *e, void *stream) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!e || e->magic != IS_EXEC || !s) return INVALID_HANDLE;
  for (int i = 0; i < e->graph.n; i++) {
    const Work *w = &e->graph.nodes[i]->work;
    if (w->kind == I_KERNEL && w->launch.kernel->module->device != device_current())
      return INVALID_HANDLE;
  }
  Exec *snapshot = calloc(1, sizeof *snapshot);
  graph_copy(&snapshot->graph, &e->graph);
  stream_add(s, &(Work){.kind = I_GRAPH, .graph = snapshot});
  return OK;
}

/* The executable's copy of a node of the graph that it was made from. */
static Node *exec_node(Exec *e, const Node *node, ItemKind kind) {
  if (!e || e->magic != IS_EXEC || !node || node->magic != IS_NODE || node->graph != e->of)
    return NULL;
  Node *own = node->index < e->graph.n ? e->graph.nodes[node->index] : NULL;
  return own && own->work.kind == kind ? own : NULL;
}

static int exec_kernel_set(Exec *e, Node *node, const KernelParams *p, bool second) {
  ENTER;
  Node *own = exec_node(e, node, I_KERNEL);
  Work w = {0};
  if (!own) return INVALID_VALUE;
  int bad = kernel_work(&w, p, second);
  if (bad) return bad;
  work_free(&own->work);
  own->work = w;
  return OK;
}
CALL cuGraphExecKernelNodeSetParams(Exec *e, Node *node, const KernelParams *p) {
  return exec_kernel_set(e, node, p, false);
}
CALL cuGraphExecKernelNodeSetParams_v2(Exec *e, Node *node, const KernelParams *p) {
  return exec_kernel_set(e, node, p, true);
}

CALL cuGraphExecMemcpyNodeSetParams(Exec *e, Node *node, const CopyParams *p, void *context) {
  ENTER;
  (void)context;
  Node *own = exec_node(e, node, I_COPY);
  Work w = {0};
  if (!own) return INVALID_VALUE;
  int bad = copy_work(&w, p);
  if (!bad) own->work = w;
  return bad;
}

CALL cuGraphExecMemsetNodeSetParams(Exec *e, Node *node, const SetParams *p, void *context) {
  ENTER;
  (void)context;
  Node *own = exec_node(e, node, I_SET);
  Work w = {0};
  if (!own) return INVALID_VALUE;
  int bad = set_work(&w, p);
  if (!bad) own->work = w;
  return bad;
}

/* A whole new set of parameters from a graph of the same shape. */
static bool same_shape(const Graph *a, const Graph *b) {
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++) {
    const Node *x = a->nodes[i], *y = b->nodes[i];
    if (x->work.kind != y->work.kind || x->n_after != y->n_after) return false;
    if (x->n_after && memcmp(x->after, y->after, (size_t)x->n_after * sizeof *x->after) != 0)
      return false;
  }
  return true;
}

typedef struct UpdateResult {
  int result;
  Node *error_node, *error_from;
} UpdateResult;

CALL cuGraphExecUpdate_v2(Exec *e, Graph *g, UpdateResult *result) {
  ENTER;
  if (!e || e->magic != IS_EXEC || !is_graph(g)) return INVALID_VALUE;
  bool same = same_shape(&e->graph, g);
  if (result)
    *result =
        (UpdateResult){same ? 0 : 2, NULL, NULL}; /* CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED */
  if (!same) return GRAPH_EXEC_UPDATE_FAILURE;
  graph_empty(&e->graph);
  graph_copy(&e->graph, g);
  return OK;
}
