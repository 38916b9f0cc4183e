/*
** cudnn_graph.c -- attention as a graph of cuDNN's operations: graph, engine, plan, execution.
** In:  a key.  Out: a plan that is carried out for addresses. Fails with the library's status.
**
** Operations are rows of a table over names of tensors; the library finds the whole pattern in them and has one kernel
** for it. All tensors have four dims: batch, heads, positions, features (of scores: keys). What has no address is
** virtual: it is never in memory. Numbers are tensors by value, whose addresses are the CPU's.
*/
#include "base/system.h"
#include "device/cuda/cudnn.h"

enum { /* cudnn_graph.h */
       DATA_FLOAT = 0,
       DATA_HALF = 2,
       DATA_INT32 = 4,
       DATA_BFLOAT16 = 9,
       DATA_BOOLEAN = 11,
       TYPE_HANDLE = 0,
       TYPE_DATA = 1,
       TYPE_BOOLEAN = 2,
       TYPE_INT64 = 3,
       TYPE_POINTER = 6,
       TYPE_HEUR_MODE = 8,
       TYPE_KNOB = 9,
       TYPE_NOTE = 11,
       TYPE_POINTWISE_MODE = 14,
       TYPE_DESC = 15,
       TYPE_REDUCTION = 18,
       POINTWISE = 0,
       ENGINE = 2,
       ENGINE_CONFIG = 3,
       HEURISTICS = 4,
       PLAN = 5,
       KNOB_CHOICE = 7,
       OPERATION_POINTWISE = 13,
       OPERATION_GRAPH = 15,
       VARIANT_PACK = 16,
       TENSOR = 17,
       MATMUL = 18,
       OPERATION_MATMUL = 19,
       REDUCTION = 21,
       OPERATION_REDUCTION = 22,
       KERNEL_CACHE = 34,
       POINTWISE_MODE = 0,
       POINTWISE_PRECISION = 1,
       POINTWISE_AXIS = 9,
       HEUR_MODE = 200,
       HEUR_GRAPH = 201,
       HEUR_RESULTS = 202,
       CONFIG_ENGINE = 300,
       CONFIG_KNOBS = 302,
       PLAN_HANDLE = 400,
       PLAN_CONFIG = 401,
       PLAN_WORKSPACE = 402,
       PLAN_KERNEL_CACHE = 406,
       KNOB_TYPE = 600,
       KNOB_VALUE = 601,
       OP_POINTWISE_DESC = 750,
       OP_POINTWISE_X = 751,
       OP_POINTWISE_B = 752,
       OP_POINTWISE_Y = 753,
       OP_POINTWISE_T = 758,
       GRAPH_HANDLE = 800,
       GRAPH_OPS = 801,
       GRAPH_DYNAMIC = 803,
       TENSOR_ALIGNMENT = 900,
       TENSOR_DATA_TYPE = 901,
       TENSOR_DIMS = 902,
       TENSOR_STRIDES = 903,
       TENSOR_ID = 906,
       TENSOR_VIRTUAL = 907,
       TENSOR_BY_VALUE = 908,
       PACK_IDS = 1000,
       PACK_POINTERS = 1001,
       PACK_WORKSPACE = 1003,
       ENGINE_GRAPH = 1300,
       ENGINE_INDEX = 1301,
       ENGINE_NOTES = 1303,
       MATMUL_PRECISION = 1500,
       OP_MATMUL_A = 1520,
       OP_MATMUL_B = 1521,
       OP_MATMUL_C = 1522,
       OP_MATMUL_DESC = 1523,
       REDUCTION_OPERATOR = 1600,
       REDUCTION_PRECISION = 1601,
       OP_REDUCTION_X = 1610,
       OP_REDUCTION_Y = 1611,
       OP_REDUCTION_DESC = 1612,
       CACHE_GRAPH = 2400,
       HEUR_A = 3,
       NOTE_NONDETERMINISTIC = 4,
       NOTES = 10,
       MODE_ADD = 0,
       MODE_MUL = 1,
       MODE_DIV = 6,
       MODE_SUB = 9,
       MODE_EXP = 13,
       MODE_LOG = 15,
       MODE_GE = 303,
       MODE_INDEX = 501,
       MODE_SELECT = 601,
       SUMS = 0,
       MAXIMA = 3
};

DnnCalls ty_cuda_dnn;

bool ty_cuda_dnn_take(void *library) {
  void *p;
#define _(field, symbol, args) \
  if (!(p = ty_library_symbol(library, symbol))) return false; \
  memcpy(&ty_cuda_dnn.field, &p, sizeof p);
  DNN_CALLS(_)
#undef _
  return true;
}

/* --- descriptors: the first status that is no success stays, and nothing is done after it */

typedef struct Making {
  DnnPlan *p;
  int status;
} Making;

static DnnDesc make(Making *M, int kind) {
  DnnDesc d = NULL;
  if (!M->status && M->p->n == DNN_MADE) M->status = DNN_NOT_SUPPORTED;
  if (!M->status && !(M->status = ty_cuda_dnn.create(kind, &d))) M->p->made[M->p->n++] = d;
  return d;
}
static void set(Making *M, DnnDesc d, int attribute, int type, i64 n, const void *v) {
  if (!M->status) M->status = ty_cuda_dnn.set(d, attribute, type, n, v);
}
static void set_int(Making *M, DnnDesc d, int attribute, int type, int v) {
  set(M, d, attribute, type, 1, &v);
}
static void set_number(Making *M, DnnDesc d, int attribute, i64 v) {
  set(M, d, attribute, TYPE_INT64, 1, &v);
}
static void set_true(Making *M, DnnDesc d, int attribute) {
  const bool yes = true;
  set(M, d, attribute, TYPE_BOOLEAN, 1, &yes);
}
static void set_desc(Making *M, DnnDesc d, int attribute, DnnDesc of) {
  set(M, d, attribute, TYPE_DESC, 1, &of);
}
static i64 get(Making *M, DnnDesc d, int attribute, int type, i64 most, void *v) {
  i64 n = 0;
  if (!M->status) M->status = ty_cuda_dnn.get(d, attribute, type, most, &n, v);
  return M->status ? 0 : n;
}
static void finish(Making *M, DnnDesc d) {
  if (!M->status) M->status = ty_cuda_dnn.finish(d);
}
/* Destroys what was made behind the first n. */
static void drop_behind(DnnPlan *p, i32 n) {
  while (p->n > n) ty_cuda_dnn.destroy(p->made[--p->n]);
}

void ty_cuda_dnn_drop(DnnPlan *p) {
  drop_behind(p, 0);
  *p = (DnnPlan){.n = 0};
}

/* --- tensors, by name; the names are their numbers in the library */

enum {
  NONE,
  Q,
  K,
  V,
  O,
  LOGSUM,
  SCALE, /* from here on by value */
  HIDDEN,
  KEYS,
  QUERIES,
  SCORES, /* from here on virtual */
  SCALED,
  ROW,
  ROW_KEYS,
  ROW_SEES,
  COLUMN,
  SEEN,
  SHOWN,
  MAX,
  BELOW,
  EXP,
  SUM,
  LOG,
  WEIGHTS,
  TENSORS
};
enum { OF_OPERAND, OF_RESULT, OF_SCORES, OF_ROWS, OF_ONE };
enum { OPERANDS = -1 }; /* the dtype of q, k, v */

static const struct {
  i8 shape, type;
} tensors[TENSORS] = {
    [Q] = {OF_OPERAND, OPERANDS},         [K] = {OF_OPERAND, OPERANDS},
    [V] = {OF_OPERAND, OPERANDS},         [O] = {OF_RESULT, DATA_FLOAT},
    [LOGSUM] = {OF_ROWS, DATA_FLOAT},     [SCALE] = {OF_ONE, DATA_FLOAT},
    [HIDDEN] = {OF_ONE, DATA_FLOAT},      [KEYS] = {OF_ONE, DATA_INT32},
    [QUERIES] = {OF_ONE, DATA_INT32},     [SCORES] = {OF_SCORES, DATA_FLOAT},
    [SCALED] = {OF_SCORES, DATA_FLOAT},   [ROW] = {OF_SCORES, DATA_INT32},
    [ROW_KEYS] = {OF_SCORES, DATA_INT32}, [ROW_SEES] = {OF_SCORES, DATA_INT32},
    [COLUMN] = {OF_SCORES, DATA_INT32},   [SEEN] = {OF_SCORES, DATA_BOOLEAN},
    [SHOWN] = {OF_SCORES, DATA_FLOAT},    [MAX] = {OF_ROWS, DATA_FLOAT},
    [BELOW] = {OF_SCORES, DATA_FLOAT},    [EXP] = {OF_SCORES, DATA_FLOAT},
    [SUM] = {OF_ROWS, DATA_FLOAT},        [LOG] = {OF_ROWS, DATA_FLOAT},
    [WEIGHTS] = {OF_SCORES, OPERANDS},
};

/* Keys come as the second matrix of a product does, [features, keys]. Results lie as attend.c has them: positions,
** heads. */
static void shape_of(const DnnKey *k, int name, i64 dims[4], i64 strides[4]) {
  const i64 b = k->batch, h = k->heads, n = k->n, m = k->m, d = k->d, dv = k->dv;
  const i64 kv = k->shared ? 1 : h, *at = k->steps[TY_MIN(name - Q, 2)];
  const i64 shapes[][4] = {{b, h, n, d}, {b, kv, d, m}, {b, kv, m, dv}, {b, h, n, dv},
                           {b, h, n, m}, {b, h, n, 1},  {1, 1, 1, 1}};
  const i64 steps[][4] = {{at[0], at[1], at[2], 1},
                          {at[0], at[1], 1, at[2]},
                          {at[0], at[1], at[2], 1},
                          {n * h * dv, dv, h * dv, 1},
                          {h * n * m, n * m, m, 1},
                          {h * n, n, 1, 1},
                          {1, 1, 1, 1}};
  const int i = tensors[name].shape == OF_OPERAND ? name - Q : tensors[name].shape + 2;
  memcpy(dims, shapes[i], sizeof shapes[i]);
  memcpy(strides, steps[i], sizeof steps[i]);
  if (k->shared && (name == K || name == V)) strides[1] = strides[0];
}

static DnnDesc tensor(Making *M, const DnnKey *k, int name) {
  i64 dims[4], strides[4];
  const int type = tensors[name].type;
  shape_of(k, name, dims, strides);
  const DnnDesc t = make(M, TENSOR);
  set_number(M, t, TENSOR_ID, name);
  set_int(M, t, TENSOR_DATA_TYPE, TYPE_DATA,
          type != OPERANDS    ? type
          : k->dtype == T_F16 ? DATA_HALF
                              : DATA_BFLOAT16);
  set(M, t, TENSOR_DIMS, TYPE_INT64, 4, dims);
  set(M, t, TENSOR_STRIDES, TYPE_INT64, 4, strides);
  set_number(M, t, TENSOR_ALIGNMENT, name <= O ? 16 : 4);
  if (name >= SCORES) set_true(M, t, TENSOR_VIRTUAL);
  else if (name >= SCALE) set_true(M, t, TENSOR_BY_VALUE);
  finish(M, t);
  return t;
}

/* --- operations */

enum {
  ALWAYS,
  CAUSAL,
  SHIFTED
}; /* SHIFTED: causal, and there are other positions of keys than of queries */

static const struct Row {
  u8 when, kind;
  i16 how; /* pointwise: its mode; reductions: their operator */
  u8 x, b, t, y;
  u8 precision, axis; /* axis: of positions */
} rows[] = {
    {ALWAYS, MATMUL, 0, Q, K, NONE, SCORES, DATA_FLOAT, 0},
    {ALWAYS, POINTWISE, MODE_MUL, SCORES, SCALE, NONE, SCALED, DATA_FLOAT, 0},
    {CAUSAL, POINTWISE, MODE_INDEX, SCALED, NONE, NONE, ROW, DATA_FLOAT, 2},
    {SHIFTED, POINTWISE, MODE_ADD, ROW, KEYS, NONE, ROW_KEYS, DATA_INT32, 0},
    {SHIFTED, POINTWISE, MODE_SUB, ROW_KEYS, QUERIES, NONE, ROW_SEES, DATA_INT32, 0},
    {CAUSAL, POINTWISE, MODE_INDEX, SCALED, NONE, NONE, COLUMN, DATA_FLOAT, 3},
    {CAUSAL, POINTWISE, MODE_GE, ROW_SEES, COLUMN, NONE, SEEN, DATA_BOOLEAN, 0},
    {CAUSAL, POINTWISE, MODE_SELECT, SCALED, HIDDEN, SEEN, SHOWN, DATA_FLOAT, 0},
    {ALWAYS, REDUCTION, MAXIMA, SHOWN, NONE, NONE, MAX, DATA_FLOAT, 0},
    {ALWAYS, POINTWISE, MODE_SUB, SHOWN, MAX, NONE, BELOW, DATA_FLOAT, 0},
    {ALWAYS, POINTWISE, MODE_EXP, BELOW, NONE, NONE, EXP, DATA_FLOAT, 0},
    {ALWAYS, REDUCTION, SUMS, EXP, NONE, NONE, SUM, DATA_FLOAT, 0},
    {ALWAYS, POINTWISE, MODE_LOG, SUM, NONE, NONE, LOG, DATA_FLOAT, 0},
    {ALWAYS, POINTWISE, MODE_ADD, MAX, LOG, NONE, LOGSUM, DATA_FLOAT, 0},
    {ALWAYS, POINTWISE, MODE_DIV, EXP, SUM, NONE, WEIGHTS, DATA_FLOAT, 0},
    {ALWAYS, MATMUL, 0, WEIGHTS, V, NONE, O, DATA_FLOAT, 0},
};

static int form_of(const DnnKey *k) {
  return !k->causal ? ALWAYS : k->n == k->m ? CAUSAL : SHIFTED;
}

/* The operation's own descriptor, and what it says of tensors. */
static const struct {
  u8 operation;
  i16 desc, x, b, t, y, precision, how;
} kinds[] = {
    [POINTWISE] = {OPERATION_POINTWISE, OP_POINTWISE_DESC, OP_POINTWISE_X, OP_POINTWISE_B,
                   OP_POINTWISE_T, OP_POINTWISE_Y, POINTWISE_PRECISION, POINTWISE_MODE},
    [MATMUL] = {OPERATION_MATMUL, OP_MATMUL_DESC, OP_MATMUL_A, OP_MATMUL_B, 0, OP_MATMUL_C,
                MATMUL_PRECISION, -1},
    [REDUCTION] = {OPERATION_REDUCTION, OP_REDUCTION_DESC, OP_REDUCTION_X, 0, 0, OP_REDUCTION_Y,
                   REDUCTION_PRECISION, REDUCTION_OPERATOR},
};

static DnnDesc operation(Making *M, const struct Row *r, const DnnDesc *t) {
  const DnnDesc d = make(M, r->kind);
  set_int(M, d, kinds[r->kind].precision, TYPE_DATA, r->precision);
  if (kinds[r->kind].how >= 0)
    set_int(M, d, kinds[r->kind].how, r->kind == REDUCTION ? TYPE_REDUCTION : TYPE_POINTWISE_MODE,
            r->how);
  if (r->axis) set_number(M, d, POINTWISE_AXIS, r->axis);
  finish(M, d);
  const DnnDesc y = make(M, kinds[r->kind].operation);
  set_desc(M, y, kinds[r->kind].desc, d);
  set_desc(M, y, kinds[r->kind].x, t[r->x]);
  if (r->b) set_desc(M, y, kinds[r->kind].b, t[r->b]);
  if (r->t) set_desc(M, y, kinds[r->kind].t, t[r->t]);
  set_desc(M, y, kinds[r->kind].y, t[r->y]);
  finish(M, y);
  return y;
}

static DnnDesc graph_of(Making *M, DnnHandle h, const DnnKey *k) {
  DnnDesc t[TENSORS] = {NULL}, ops[TY_COUNT(rows)];
  const int form = form_of(k);
  i64 n = 0;
  for (int i = 0; i < (int)TY_COUNT(rows); i++) {
    struct Row r = rows[i];
    if (r.when > form) continue;
    if (r.x == ROW_SEES && form != SHIFTED) r.x = ROW;
    if (r.x == SHOWN && form == ALWAYS) r.x = SCALED;
    const u8 names[] = {r.x, r.b, r.t, r.y};
    for (int j = 0; j < 4; j++)
      if (names[j] && !t[names[j]]) t[names[j]] = tensor(M, k, names[j]);
    ops[n++] = operation(M, &r, t);
  }
  const DnnDesc g = make(M, OPERATION_GRAPH);
  set(M, g, GRAPH_HANDLE, TYPE_HANDLE, 1, &h);
  set(M, g, GRAPH_OPS, TYPE_DESC, n, ops);
  set_true(M, g, GRAPH_DYNAMIC);
  finish(M, g);
  return g;
}

/* --- kernels that plans of other sizes share: a cache for each graph but for these. They stay for ever, so that a plan
** may be dropped while its kernels run. */

static struct Cache {
  i64 d, dv;
  u8 dtype, form, shared, device;
  DnnDesc desc;
} * caches;
static int ncaches, caches_cap;

static DnnDesc cache_of(Making *M, const DnnKey *k, DnnDesc graph) {
  const struct Cache want = {k->d, k->dv, k->dtype, (u8)form_of(k), k->shared, k->device, NULL};
  for (int i = 0; i < ncaches; i++) {
    const struct Cache *c = &caches[i];
    if (c->d == want.d && c->dv == want.dv && c->dtype == want.dtype && c->form == want.form &&
        c->shared == want.shared && c->device == want.device)
      return c->desc;
  }
  if (M->status) return NULL;
  if (ncaches == caches_cap) {
    struct Cache *more = ty_mem_realloc(caches, (size_t)(caches_cap + 16) * sizeof *more);
    if (!more) return M->status = DNN_HOST_MEMORY, NULL;
    caches = more, caches_cap += 16;
  }
  DnnDesc d = NULL;
  if ((M->status = ty_cuda_dnn.create(KERNEL_CACHE, &d))) return NULL;
  set_desc(M, d, CACHE_GRAPH, graph);
  finish(M, d);
  if (M->status) {
    ty_cuda_dnn.destroy(d);
    return NULL;
  }
  caches[ncaches] = want;
  return caches[ncaches++].desc = d;
}

/* --- engines */

/* A plan by that engine. */
static void plan_by(Making *M, DnnHandle h, const DnnKey *k, DnnDesc graph, const DnnEngine *e) {
  DnnDesc knobs[DNN_KNOBS];
  const DnnDesc engine = make(M, ENGINE);
  set_desc(M, engine, ENGINE_GRAPH, graph);
  set_number(M, engine, ENGINE_INDEX, e->index);
  finish(M, engine);
  for (i32 i = 0; i < e->n; i++) {
    knobs[i] = make(M, KNOB_CHOICE);
    set_int(M, knobs[i], KNOB_TYPE, TYPE_KNOB, e->knob[i]);
    set_number(M, knobs[i], KNOB_VALUE, e->value[i]);
    finish(M, knobs[i]);
  }
  const DnnDesc config = make(M, ENGINE_CONFIG);
  set_desc(M, config, CONFIG_ENGINE, engine);
  if (e->n) set(M, config, CONFIG_KNOBS, TYPE_DESC, e->n, knobs);
  finish(M, config);
  const DnnDesc cache = cache_of(M, k, graph), plan = make(M, PLAN);
  set(M, plan, PLAN_HANDLE, TYPE_HANDLE, 1, &h);
  set_desc(M, plan, PLAN_CONFIG, config);
  set_desc(M, plan, PLAN_KERNEL_CACHE, cache);
  finish(M, plan);
  get(M, plan, PLAN_WORKSPACE, TYPE_INT64, 1, &M->p->workspace);
  M->p->engine = *e;
  M->p->plan = plan;
}

/* The numbers of a configuration's engine; false: it does not add in a fixed order. */
static bool read_engine(Making *M, DnnDesc config, DnnEngine *e) {
  DnnDesc engine = make(M, ENGINE), knobs[DNN_KNOBS];
  int notes[NOTES];
  bool fixed = true;
  *e = (DnnEngine){.n = 0};
  get(M, config, CONFIG_ENGINE, TYPE_DESC, 1, &engine);
  get(M, engine, ENGINE_INDEX, TYPE_INT64, 1, &e->index);
  const i64 n = get(M, engine, ENGINE_NOTES, TYPE_NOTE, NOTES, notes);
  for (i64 i = 0; i < TY_MIN(n, NOTES); i++) fixed &= notes[i] != NOTE_NONDETERMINISTIC;
  for (int i = 0; i < DNN_KNOBS; i++) knobs[i] = make(M, KNOB_CHOICE);
  const i64 chosen = get(M, config, CONFIG_KNOBS, TYPE_DESC, DNN_KNOBS, knobs);
  e->n = (i32)TY_MIN(chosen, DNN_KNOBS);
  for (i32 i = 0; i < e->n; i++) {
    get(M, knobs[i], KNOB_TYPE, TYPE_KNOB, 1, &e->knob[i]);
    get(M, knobs[i], KNOB_VALUE, TYPE_INT64, 1, &e->value[i]);
  }
  return fixed;
}

/* Engines as the heuristics have them, the first one that does. */
static void first_plan(Making *M, DnnHandle h, const DnnKey *k, DnnDesc graph) {
  enum { MOST = 16 };
  DnnDesc configs[MOST];
  const i32 before = M->p->n;
  const DnnDesc heuristics = make(M, HEURISTICS);
  set_desc(M, heuristics, HEUR_GRAPH, graph);
  set_int(M, heuristics, HEUR_MODE, TYPE_HEUR_MODE, HEUR_A);
  finish(M, heuristics);
  for (int i = 0; i < MOST; i++) configs[i] = make(M, ENGINE_CONFIG);
  const i64 n = get(M, heuristics, HEUR_RESULTS, TYPE_DESC, MOST, configs);
  const i32 asked = M->p->n;
  static DnnEngine engines[MOST]; /* calls are under a lock */
  int found = 0;
  for (i64 i = 0; i < TY_MIN(n, MOST); i++) {
    found += read_engine(M, configs[i], &engines[found]);
    drop_behind(M->p, asked);
  }
  if (M->status) return;
  for (int i = 0; i < found && (!i || ty_cuda_dnn_refuses(M->status)); i++) {
    M->status = 0;
    drop_behind(M->p, before);
    plan_by(M, h, k, graph, &engines[i]);
  }
  if (!found && !M->status) M->status = DNN_NOT_SUPPORTED;
}

int ty_cuda_dnn_plan(DnnHandle h, const DnnKey *key, const DnnEngine *like, DnnPlan *y) {
  Making M = {.p = y};
  const DnnDesc graph = graph_of(&M, h, key);
  if (like) plan_by(&M, h, key, graph, like);
  else if (!M.status) first_plan(&M, h, key, graph);
  return M.status;
}

/* --- execution */

int ty_cuda_dnn_run(DnnHandle h, const DnnKey *key, const DnnPlan *p, float scale,
                    void *const at[5], void *workspace) {
  static const i64 ids[] = {Q, K, V, O, LOGSUM, SCALE, HIDDEN, KEYS, QUERIES};
  float hidden = -__builtin_inff();
  i32 keys = (i32)key->m, queries = (i32)key->n;
  void *pointers[] = {at[0], at[1], at[2], at[3], at[4], &scale, &hidden, &keys, &queries};
  const int form = form_of(key);
  const i64 n = form == ALWAYS ? 6 : form == CAUSAL ? 7 : 9;
  DnnPlan own = {.n = 0};
  Making M = {.p = &own};
  const DnnDesc pack = make(&M, VARIANT_PACK);
  set(&M, pack, PACK_IDS, TYPE_INT64, n, ids);
  set(&M, pack, PACK_POINTERS, TYPE_POINTER, n, pointers);
  if (workspace) set(&M, pack, PACK_WORKSPACE, TYPE_POINTER, 1, &workspace);
  finish(&M, pack);
  if (!M.status) M.status = ty_cuda_dnn.execute(h, p->plan, pack);
  drop_behind(&own, 0);
  return M.status;
}
