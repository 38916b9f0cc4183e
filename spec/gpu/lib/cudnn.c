/*
** cudnn.c -- a stand-in of cuDNN's graph API for the software GPU, written from cudnn_graph_v9.h and NVIDIA's documents: handles,
** descriptors and their attributes, heuristics, plans, execution when the stream comes to it, from memory as it is then.
** It is stricter than the library: see graph.c. Folder cudnn: graph.c checks descriptors, support.c says what engines take, plan.c
** lists them and makes plans, run.c computes. Engines and knobs differ in the order of sums, so another one shows in bits.
** Environment, read at each call; n = 0: never, -1: always, n: the nth time; n:status: that status in place of the usual one:
**   SOFT_CUDNN_CREATE  a handle        SOFT_CUDNN_NONE  no engine is found        SOFT_CUDNN_PLAN  a plan is not supported
**   SOFT_CUDNN_FINALIZE  any descriptor is not finalized                          SOFT_CUDNN_FAIL  an execution fails
** SOFT_CUDNN_LOG = file: calls that made descriptors, so that they can be made again with the library itself (spec/cudnn_cases.lua);
** and numbers: SOFT_CUDNN_VERSION (91900), SOFT_CUDNN_WORKSPACE (bytes of every plan), SOFT_CUDNN_NOTE = k and SOFT_CUDNN_REFUSE = k (the
** first k engines of the heuristics' list are nondeterministic, have no plan), SOFT_CUDNN_STRIDED = 1 (no plan for what is not packed).
*/
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn/cudnn.h"

int cuLaunchHostFunc(void *stream, void (*call)(void *), void *user);
int cuCtxGetCurrent(void **context);

enum { IS_HANDLE = 0x17cd, IS_DESCRIPTOR = 0x17ce, GRAVES = 4096 };

typedef struct Handle { /* of the device that was current when it was made */
  int magic;
  bool streamed;
  void *context, *stream;
} Handle;

static int executions;
EXPORT int soft_cudnn_executions(void) { return executions; }

/* --- errors */

static char last[512];

int fail(int status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(last, sizeof last, format, list);
  va_end(list);
  return status;
}

int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

/* The status of a failure that the environment asks for; 0: none. */
int injected(const char *name, int *count, int status) {
  const char *text = getenv(name), *colon = text ? strchr(text, ':') : NULL;
  const int n = text ? atoi(text) : 0;
  if (n != -1 && !(n > 0 && ++*count == n)) return SUCCESS;
  return fail(colon ? atoi(colon + 1) : status, "%s", name);
}

EXPORT const char *cudnnGetErrorString(int status) {
  static const struct {
    int status;
    const char *name;
  } names[] = {{SUCCESS, "CUDNN_STATUS_SUCCESS"},
               {NOT_INITIALIZED, "CUDNN_STATUS_NOT_INITIALIZED"},
               {BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
               {NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
               {HOST_ALLOCATION_FAILED, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
               {EXECUTION_FAILED, "CUDNN_STATUS_EXECUTION_FAILED"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == status) return names[i].name;
  return "CUDNN_STATUS_OTHER";
}

EXPORT void cudnnGetLastErrorString(char *text, size_t size) {
  if (!text || !size) return;
  snprintf(text, size, "%s", last);
  *last = 0;
}

EXPORT size_t cudnnGetVersion(void) { return (size_t)setting("SOFT_CUDNN_VERSION", 91900); }

/* --- handles */

static bool is_of_device(const Handle *h) {
  void *context = NULL;
  return h && h->magic == IS_HANDLE && !cuCtxGetCurrent(&context) && context == h->context;
}

CALL cudnnCreate(Handle **h) {
  static int count;
  void *context = NULL;
  if (!h) return fail(NULL_POINTER, "cudnnCreate: no place for a handle");
  if (cuCtxGetCurrent(&context) || !context) return fail(NOT_INITIALIZED, "no context is current");
  const int e = injected("SOFT_CUDNN_CREATE", &count, NOT_INITIALIZED);
  if (e) return e;
  *h = malloc(sizeof **h);
  **h = (Handle){.magic = IS_HANDLE, .context = context};
  return SUCCESS;
}

CALL cudnnDestroy(Handle *h) {
  if (!h || h->magic != IS_HANDLE) return fail(NOT_INITIALIZED, "cudnnDestroy: no handle");
  h->magic = 0;
  free(h);
  return SUCCESS;
}

CALL cudnnSetStream(Handle *h, void *stream) {
  if (!is_of_device(h)) return fail(BAD_PARAM, "cudnnSetStream: a handle of another device");
  h->stream = stream, h->streamed = true;
  return SUCCESS;
}

CALL cudnnGetStream(Handle *h, void **stream) {
  if (!is_of_device(h) || !stream) return fail(BAD_PARAM, "cudnnGetStream: no handle");
  *stream = h->stream;
  return SUCCESS;
}

/* --- attributes */

enum { NEEDED = 1, GIVEN = 2 }; /* must be set; is read and never set */

typedef struct Attribute {
  int kind, name, type, most, of; /* most: elements; of: the kind of descriptors, -1 any */
  int flags;
} Attribute;

static const Attribute attributes[] = {
    {TENSOR, TENSOR_UID, T_INT64, 1, 0, NEEDED},
    {TENSOR, TENSOR_TYPE, T_DATA_TYPE, 1, 0, NEEDED},
    {TENSOR, TENSOR_DIMS, T_INT64, RANK, 0, NEEDED},
    {TENSOR, TENSOR_STRIDES, T_INT64, RANK, 0, NEEDED},
    {TENSOR, TENSOR_ALIGNMENT, T_INT64, 1, 0, NEEDED},
    {TENSOR, TENSOR_VIRTUAL, T_BOOLEAN, 1, 0, 0},
    {TENSOR, TENSOR_BY_VALUE, T_BOOLEAN, 1, 0, 0},
    {POINTWISE, PW_MODE, T_POINTWISE_MODE, 1, 0, NEEDED},
    {POINTWISE, PW_PREC, T_DATA_TYPE, 1, 0, NEEDED},
    {POINTWISE, PW_AXIS, T_INT64, 1, 0, 0},
    {MATMUL, MM_COMP, T_DATA_TYPE, 1, 0, NEEDED},
    {MATMUL, MM_PADDING, T_DOUBLE, 1, 0, 0},
    {REDUCTION, RED_OP, T_REDUCTION_OPERATOR, 1, 0, NEEDED},
    {REDUCTION, RED_COMP, T_DATA_TYPE, 1, 0, NEEDED},
    {OP_POINTWISE, OP_PW, T_DESCRIPTOR, 1, POINTWISE, NEEDED},
    {OP_POINTWISE, OP_PW_X, T_DESCRIPTOR, 1, TENSOR, NEEDED},
    {OP_POINTWISE, OP_PW_B, T_DESCRIPTOR, 1, TENSOR, 0},
    {OP_POINTWISE, OP_PW_T, T_DESCRIPTOR, 1, TENSOR, 0},
    {OP_POINTWISE, OP_PW_Y, T_DESCRIPTOR, 1, TENSOR, NEEDED},
    {OP_POINTWISE, OP_PW_ALPHA1, T_FLOAT, 1, 0, 0},
    {OP_POINTWISE, OP_PW_ALPHA2, T_FLOAT, 1, 0, 0},
    {OP_MATMUL, OP_MM, T_DESCRIPTOR, 1, MATMUL, NEEDED},
    {OP_MATMUL, OP_MM_A, T_DESCRIPTOR, 1, TENSOR, NEEDED},
    {OP_MATMUL, OP_MM_B, T_DESCRIPTOR, 1, TENSOR, NEEDED},
    {OP_MATMUL, OP_MM_C, T_DESCRIPTOR, 1, TENSOR, NEEDED},
    {OP_REDUCTION, OP_RED, T_DESCRIPTOR, 1, REDUCTION, NEEDED},
    {OP_REDUCTION, OP_RED_X, T_DESCRIPTOR, 1, TENSOR, NEEDED},
    {OP_REDUCTION, OP_RED_Y, T_DESCRIPTOR, 1, TENSOR, NEEDED},
    {GRAPH, GRAPH_HANDLE, T_HANDLE, 1, 0, 0},
    {GRAPH, GRAPH_OPS, T_DESCRIPTOR, STEPS, -1, NEEDED},
    {GRAPH, GRAPH_ENGINES, T_INT64, 1, 0, GIVEN},
    {GRAPH, GRAPH_DYNAMIC, T_BOOLEAN, 1, 0, 0},
    {KERNEL_CACHE, CACHE_GRAPH, T_DESCRIPTOR, 1, GRAPH, NEEDED},
    {ENGINEHEUR, HEUR_GRAPH, T_DESCRIPTOR, 1, GRAPH, NEEDED},
    {ENGINEHEUR, HEUR_MODE, T_HEUR_MODE, 1, 0, NEEDED},
    {ENGINEHEUR, HEUR_RESULTS, T_DESCRIPTOR, 64, ENGINECFG, GIVEN},
    {ENGINE, ENGINE_GRAPH, T_DESCRIPTOR, 1, GRAPH, NEEDED},
    {ENGINE, ENGINE_INDEX, T_INT64, 1, 0, NEEDED},
    {ENGINE, ENGINE_NUMERICAL_NOTE, T_NUMERICAL_NOTE, 64, 0, GIVEN},
    {ENGINE, ENGINE_BEHAVIOR_NOTE, T_BEHAVIOR_NOTE, 64, 0, GIVEN},
    {KNOB_CHOICE, KNOB_TYPE, T_KNOB_TYPE, 1, 0, NEEDED},
    {KNOB_CHOICE, KNOB_VALUE, T_INT64, 1, 0, NEEDED},
    {ENGINECFG, CFG_ENGINE, T_DESCRIPTOR, 1, ENGINE, NEEDED},
    {ENGINECFG, CFG_KNOBS, T_DESCRIPTOR, 64, KNOB_CHOICE, 0},
    {PLAN, PLAN_HANDLE, T_HANDLE, 1, 0, NEEDED},
    {PLAN, PLAN_CFG, T_DESCRIPTOR, 1, ENGINECFG, NEEDED},
    {PLAN, PLAN_CACHE, T_DESCRIPTOR, 1, KERNEL_CACHE, 0},
    {PLAN, PLAN_WORKSPACE, T_INT64, 1, 0, GIVEN},
    {PACK, PACK_UIDS, T_INT64, TENSORS, 0, NEEDED},
    {PACK, PACK_POINTERS, T_VOID_PTR, TENSORS, 0, NEEDED},
    {PACK, PACK_WORKSPACE, T_VOID_PTR, 1, 0, 0},
};
enum { COUNT = sizeof attributes / sizeof *attributes };

/* The attribute of a kind, and its place among the kind's; NULL: there is none. */
static const Attribute *attribute_of(int kind, int name, int *slot) {
  *slot = 0;
  for (int i = 0; i < COUNT; i++) {
    if (attributes[i].kind != kind) continue;
    if (attributes[i].name == name) return &attributes[i];
    ++*slot;
  }
  return NULL;
}

static size_t bytes_of(int type) {
  switch (type) {
  case T_HANDLE:
  case T_INT64:
  case T_DOUBLE:
  case T_VOID_PTR:
  case T_DESCRIPTOR: return 8;
  case T_BOOLEAN: return 1;
  default: return 4;
  }
}

const Value *value_of(const Descriptor *d, int name) {
  int slot;
  if (!attribute_of(d->kind, name, &slot)) return NULL;
  return d->values[slot].n ? &d->values[slot] : NULL;
}

const Descriptor *descriptor_of(const Descriptor *d, int name) {
  const Value *v = value_of(d, name);
  return v ? *(Descriptor **)v->data : NULL;
}

int64_t number_of(const Descriptor *d, int name, int64_t otherwise) {
  int slot;
  const Value *v = value_of(d, name);
  if (!v) return otherwise;
  const size_t bytes = bytes_of(attribute_of(d->kind, name, &slot)->type);
  return bytes == 8 ? *(int64_t *)v->data : bytes == 1 ? *(uint8_t *)v->data : *(int32_t *)v->data;
}

void put(Descriptor *d, int name, int64_t n, const void *values) {
  int slot;
  const Attribute *a = attribute_of(d->kind, name, &slot);
  Value *v = &d->values[slot];
  const size_t bytes = (size_t)n * bytes_of(a->type);
  free(v->data);
  v->data = malloc(bytes);
  v->n = n;
  memcpy(v->data, values, bytes);
}

/* --- the log: "create D KIND", "set D NAME TYPE N" with elements in hexadecimal, "finalize D" */

static void log_call(const char *format, ...) {
  const char *path = getenv("SOFT_CUDNN_LOG");
  FILE *f = path && *path ? fopen(path, "a") : NULL;
  if (!f) return;
  va_list list;
  va_start(list, format);
  vfprintf(f, format, list);
  va_end(list);
  fclose(f);
}

static void log_set(const Descriptor *d, const Attribute *a, int64_t n, const void *values) {
  const size_t bytes = bytes_of(a->type);
  if (a->type == T_HANDLE || d->kind == PACK) return;
  log_call("set %p %d %d %lld", (const void *)d, a->name, a->type, (long long)n);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)values + (size_t)i * bytes, bytes);
    log_call(" %llx", (unsigned long long)bits);
  }
  log_call("\n");
}

/* --- descriptors */

bool is_live(const Descriptor *d) { return d && d->magic == IS_DESCRIPTOR; }

void hold(Descriptor *d, Shared *graph) {
  d->graph = graph;
  graph->holders++;
}

CALL cudnnBackendCreateDescriptor(int kind, Descriptor **d) {
  bool known = false;
  for (int i = 0; i < COUNT; i++) known = known || attributes[i].kind == kind;
  if (!d) return fail(NULL_POINTER, "no place for a descriptor");
  if (!known) return fail(HOST_ALLOCATION_FAILED, "no descriptors of kind %d", kind);
  *d = calloc(1, sizeof **d);
  (*d)->magic = IS_DESCRIPTOR;
  (*d)->kind = kind;
  log_call("create %p %d\n", (void *)*d, kind);
  return SUCCESS;
}

/* What is destroyed stays in memory for a while, so that its use is seen. */
CALL cudnnBackendDestroyDescriptor(Descriptor *d) {
  static Descriptor *graves[GRAVES];
  static int next;
  if (!is_live(d)) return fail(NULL_POINTER, "a descriptor that is not, or is destroyed");
  d->magic = 0;
  for (int i = 0; i < VALUES; i++) free(d->values[i].data);
  if (d->graph && !--d->graph->holders) free(d->graph);
  free(graves[next]);
  graves[next] = d;
  next = (next + 1) % GRAVES;
  return SUCCESS;
}

static int check_descriptors(const Attribute *a, int64_t n, const void *values) {
  for (int64_t i = 0; i < n; i++) {
    const Descriptor *of = ((Descriptor *const *)values)[i];
    if (!is_live(of)) return fail(NULL_POINTER, "attribute %d: no descriptor", a->name);
    if (a->of >= 0 && of->kind != a->of)
      return fail(DESCRIPTOR_TYPE, "attribute %d: a descriptor of kind %d", a->name, of->kind);
    if (!of->final) return fail(NOT_FINALIZED, "attribute %d: it is not finalized", a->name);
  }
  return SUCCESS;
}

CALL cudnnBackendSetAttribute(Descriptor *d, int name, int type, int64_t n, const void *values) {
  int slot;
  if (!is_live(d)) return fail(NULL_POINTER, "attribute %d of no descriptor", name);
  const Attribute *a = attribute_of(d->kind, name, &slot);
  if (!a) return fail(BAD_PARAM, "no attribute %d of kind %d", name, d->kind);
  if (d->final) return fail(BAD_PARAM, "attribute %d after finalize", name);
  if (name == PLAN_WORKSPACE) return fail(NOT_SUPPORTED, "attribute %d is only read", name);
  if (a->flags & GIVEN) return fail(BAD_PARAM, "attribute %d is only read", name);
  if (type != a->type) return fail(ATTRIBUTE_TYPE, "attribute %d has type %d", name, a->type);
  if (n < 1 || n > a->most || !values)
    return fail(BAD_PARAM, "attribute %d of %lld elements", name, (long long)n);
  if (type == T_DESCRIPTOR) {
    const int e = check_descriptors(a, n, values);
    if (e) return e;
  }
  if (type == T_HANDLE && !is_of_device(*(Handle *const *)values))
    return fail(BAD_PARAM, "attribute %d: a handle of another device", name);
  put(d, name, n, values);
  log_set(d, a, n, values);
  return SUCCESS;
}

/* --- finalize */

static int finalize_pack(Descriptor *d) {
  const Value *uids = value_of(d, PACK_UIDS), *pointers = value_of(d, PACK_POINTERS);
  const int64_t *uid = uids->data;
  if (uids->n != pointers->n)
    return fail(BAD_PARAM, "%d ids, %d pointers", (int)uids->n, (int)pointers->n);
  for (int64_t i = 0; i < uids->n; i++) {
    if (!((void **)pointers->data)[i])
      return fail(NULL_POINTER, "tensor %lld is nowhere", (long long)uid[i]);
    for (int64_t j = 0; j < i; j++)
      if (uid[i] == uid[j]) return fail(DUPLICATED_ENTRIES, "tensor %lld twice", (long long)uid[i]);
  }
  return SUCCESS;
}

static int finalize_of(Descriptor *d) {
  switch (d->kind) {
  case TENSOR: return finalize_tensor(d);
  case POINTWISE: return finalize_pointwise(d);
  case MATMUL: return finalize_matmul(d);
  case REDUCTION: return finalize_reduction(d);
  case OP_POINTWISE:
  case OP_MATMUL:
  case OP_REDUCTION: return finalize_op(d);
  case GRAPH: hold(d, calloc(1, sizeof(Shared))); return finalize_graph(d, &d->graph->graph);
  case ENGINEHEUR: return finalize_heuristics(d);
  case ENGINE: return finalize_engine(d);
  case ENGINECFG: return finalize_config(d);
  case KERNEL_CACHE: return finalize_cache(d);
  case PLAN: return finalize_plan(d);
  case PACK: return finalize_pack(d);
  default: return SUCCESS;
  }
}

CALL cudnnBackendFinalize(Descriptor *d) {
  static int count;
  if (!is_live(d)) return fail(NULL_POINTER, "finalize: no descriptor");
  if (d->final) return fail(BAD_PARAM, "finalize: a second time");
  for (int i = 0; i < COUNT; i++) {
    const Attribute *a = &attributes[i];
    const Value *v = a->kind == d->kind ? value_of(d, a->name) : NULL;
    if (a->kind == d->kind && a->flags & NEEDED && !v)
      return fail(d->kind == OP_MATMUL      ? NOT_SUPPORTED
                  : d->kind == KERNEL_CACHE ? NOT_FINALIZED
                                            : BAD_PARAM,
                  "attribute %d was not set", a->name);
    if (v && a->type == T_DESCRIPTOR) { /* they may have been destroyed since */
      const int e = check_descriptors(a, v->n, v->data);
      if (e) return e;
    }
  }
  int e = injected("SOFT_CUDNN_FINALIZE", &count, HOST_ALLOCATION_FAILED);
  if (!e) e = finalize_of(d);
  if (e && d->graph && !--d->graph->holders) free(d->graph);
  if (e) d->graph = NULL;
  d->final = !e;
  if (!e) log_call("finalize %p\n", (void *)d);
  return e;
}

/* --- what is read */

static int give_numbers(const int *numbers, int64_t have, int64_t n, int64_t *found, int *values) {
  *found = have;
  for (int64_t i = 0; i < have && i < n; i++) values[i] = numbers[i];
  return SUCCESS;
}

CALL cudnnBackendGetAttribute(const Descriptor *d, int name, int type, int64_t n, int64_t *found,
                              void *values) {
  int slot;
  int64_t own;
  if (!is_live(d)) return fail(NULL_POINTER, "attribute %d of no descriptor", name);
  const Attribute *a = attribute_of(d->kind, name, &slot);
  if (!a) return fail(BAD_PARAM, "no attribute %d of kind %d", name, d->kind);
  if (!d->final) return fail(NOT_FINALIZED, "attribute %d before finalize", name);
  if (type != a->type) return fail(ATTRIBUTE_TYPE, "attribute %d has type %d", name, a->type);
  if (n < 0 || (n > 0 && !values) || (n == 0 && !found))
    return fail(BAD_PARAM, "attribute %d: no place for %lld elements", name, (long long)n);
  if (!found) found = &own;
  const int notes[] = {0, NONDETERMINISTIC}, *numbers = notes;
  const Value *v = value_of(d, name);
  switch (name) {
  case HEUR_RESULTS: return give_results(d, n, found, values);
  case CFG_ENGINE: return give_engine(d, n, found, values);
  case CFG_KNOBS: return give_knobs(d, n, found, values);
  case ENGINE_NUMERICAL_NOTE:
    return give_numbers(numbers, rank_of(d->config.engine) < setting("SOFT_CUDNN_NOTE", 0) ? 2 : 1,
                        n, found, values);
  case ENGINE_BEHAVIOR_NOTE: return give_numbers(numbers, 1, n, found, values);
  case PLAN_WORKSPACE:
    if (n > 0) memcpy(values, &d->workspace, 8);
    *found = 1;
    return SUCCESS;
  case GRAPH_ENGINES:
    if (n > 0) memcpy(values, &(int64_t){graph_supported(&d->graph->graph) ? 0 : ENGINES}, 8);
    *found = 1;
    return SUCCESS;
  default:
    *found = v ? v->n : 0;
    if (v && n > 0) memcpy(values, v->data, (size_t)(v->n < n ? v->n : n) * bytes_of(type));
    return SUCCESS;
  }
}

/* --- execution */

static bool overlaps(uint64_t a, int64_t a_bytes, uint64_t b, int64_t b_bytes) {
  return a < b + (uint64_t)b_bytes && b < a + (uint64_t)a_bytes;
}

/* Where a tensor is, checked; what is by value is read here and now. */
static int bind_tensor(Work *w, int i, void *pointer) {
  const Tensor *t = &w->graph.tensors[i];
  const uint64_t at = (uint64_t)(uintptr_t)pointer;
  const long long uid = t->uid;
  if (t->virtual) return fail(BAD_PARAM, "tensor %lld is virtual", uid);
  if (at % (uint64_t)(t->by_value ? size_of(t->type) : t->alignment))
    return fail(MISALIGNED_POINTER, "tensor %lld is not aligned to %lld bytes", uid,
                (long long)t->alignment);
  if (t->by_value) {
    int32_t whole;
    if (soft_gpu_live(at, 1))
      return fail(BAD_PARAM, "tensor %lld is by value, not device memory", uid);
    memcpy(&whole, pointer, (size_t)size_of(t->type));
    memcpy(&w->number[i], pointer, (size_t)size_of(t->type));
    if (t->type == D_INT32) w->number[i] = (float)whole;
    else if (t->type != D_FLOAT) return fail(UNSUPPORTED_TYPE, "tensor %lld by value", uid);
  } else if (!soft_gpu_live(at, (uint64_t)span_of(t)))
    return fail(BAD_PARAM, "tensor %lld does not lie in one allocation", uid);
  w->at[i] = at;
  return SUCCESS;
}

static int bind_workspace(Work *w, const Descriptor *plan, const Descriptor *pack) {
  const Value *v = value_of(pack, PACK_WORKSPACE);
  w->workspace = v ? (uint64_t)(uintptr_t) * (void **)v->data : 0;
  w->workspace_bytes = plan->workspace;
  if (!plan->workspace) return SUCCESS;
  if (w->workspace % 16)
    return fail(MISALIGNED_POINTER, "the workspace is not aligned to 16 bytes");
  if (!w->workspace || !soft_gpu_live(w->workspace, (uint64_t)plan->workspace))
    return fail(SIZE_INSUFFICIENT, "no workspace of %lld bytes", (long long)plan->workspace);
  return SUCCESS;
}

/* Results and workspace share no memory with anything else. */
static int check_overlaps(const Work *w) {
  const Graph *g = &w->graph;
  for (int k = 0; k < g->n; k++) {
    const Tensor *t = &g->tensors[k];
    if (t->virtual || t->by_value) continue;
    if (w->workspace_bytes && overlaps(w->at[k], span_of(t), w->workspace, w->workspace_bytes))
      return fail(BAD_PARAM, "tensor %lld lies in the workspace", (long long)t->uid);
    for (int i = 0; i < g->steps; i++) {
      const int y = g->step[i].y;
      if (y != k && !g->tensors[y].virtual &&
          overlaps(w->at[y], span_of(&g->tensors[y]), w->at[k], span_of(t)))
        return fail(BAD_PARAM, "tensor %lld lies in a result", (long long)t->uid);
    }
  }
  return SUCCESS;
}

static int bind(Work *w, const Descriptor *plan, const Descriptor *pack) {
  const Value *uids = value_of(pack, PACK_UIDS);
  const Graph *g = &w->graph;
  for (int64_t k = 0; k < uids->n; k++) {
    const int64_t uid = ((int64_t *)uids->data)[k];
    int i = 0;
    while (i < g->n && g->tensors[i].uid != uid) i++;
    if (i == g->n) return fail(BAD_PARAM, "no tensor of id %lld", (long long)uid);
    const int e = bind_tensor(w, i, ((void **)value_of(pack, PACK_POINTERS)->data)[k]);
    if (e) return e;
  }
  for (int i = 0; i < g->n; i++)
    if (!g->tensors[i].virtual && !w->at[i])
      return fail(BAD_PARAM, "tensor %lld is not bound", (long long)g->tensors[i].uid);
  const int e = bind_workspace(w, plan, pack);
  return e ? e : check_overlaps(w);
}

CALL cudnnBackendExecute(Handle *h, Descriptor *plan, Descriptor *pack) {
  static int count;
  if (!is_of_device(h)) return fail(BAD_PARAM, "execute: a handle of another device");
  if (!h->streamed) return fail(STREAM_MISMATCH, "execute: the handle has no stream");
  if (!is_live(plan) || !is_live(pack)) return fail(NULL_POINTER, "execute: no descriptor");
  if (plan->kind != PLAN || pack->kind != PACK) return fail(DESCRIPTOR_TYPE, "execute: no plan");
  if (!plan->final || !pack->final) return fail(NOT_FINALIZED, "execute: it is not finalized");
  if (*(Handle **)value_of(plan, PLAN_HANDLE)->data != h)
    return fail(BAD_PARAM, "execute: a plan of another handle");
  int e = injected("SOFT_CUDNN_FAIL", &count, EXECUTION_FAILED);
  if (e) return e;
  Work *w = calloc(1, sizeof *w);
  w->graph = plan->graph->graph;
  w->config = plan->config;
  e = bind(w, plan, pack);
  if (!e && cuLaunchHostFunc(h->stream, work_run, w))
    e = fail(EXECUTION_FAILED, "execute: the stream takes no work");
  if (e) free(w);
  else executions++;
  return e;
}
