/*
** loop.c -- see loop.h.
** In: the recording, with a turn's function in it. Out: LOOP, its body interned, tensors that wait for its results. Fails
** where a turn gives other types than it was given, where it writes to tensors from outside, and out of memory.
**
** What belongs to the body is told by the graph alone: what depends on a parameter, and what draws random numbers. All
** else that the body reads is a constant, computed once before the first turn, however the function came by it.
*/
#include "record/loop.h"
#include "ir/body.h"
#include "record/capture.h"
#include "record/record.h"

#define WHO "scan"

/* --- parameters */

bool ty_loop_param(LoopScope *l, const Type *t, Tensor *y) {
  State *S = l->S;
  Recording *b = l->recording;
  if (!b || S->open != b) return ty_fail(S, WHO ": the function reads data, or its loop is over");
  if (l->nparam == l->param_cap) {
    const i32 cap = l->param_cap ? 2 * l->param_cap : 8;
    i32 *more = ty_mem_realloc(l->param, sizeof *more * (size_t)cap);
    if (!more) return ty_fail_memory(S, WHO, 0);
    l->param = more;
    l->param_cap = cap;
  }
  Node n = ty_node_new(OP_PARAM, t, -1, -1, -1);
  n.arg.k = b->g.n;
  const i32 node = ty_graph_append(&b->g, &n);
  if (!ty_record_finish(S, b, node, y, WHO)) return false;
  l->param[l->nparam++] = node; /* what it stands for; the tensor may be written */
  return true;
}

/* --- values behind each other, as elements of one dtype */

static int common(int dtype, int own) { return dtype < 0 || dtype == own ? own : T_I64; }

static i32 to_dtype(Graph *g, int op, i32 a, int dtype) {
  if (a < 0) return -1;
  Node n = ty_node_new(op, &g->node[a].type, a, -1, -1);
  n.type.dtype = (u8)dtype;
  return n.type.dtype == g->node[a].type.dtype ? a : ty_fold_append(g, &n);
}

/* The integer dtype as wide as that one. */
static int as_wide(int dtype) {
  return ty_dtypes[dtype].bytes == 2 ? T_I16 : ty_dtypes[dtype].bytes == 4 ? T_I32 : T_I64;
}

static i32 encode(Graph *g, i32 a, int dtype) {
  const int own = a < 0 ? dtype : g->node[a].type.dtype;
  if (own == dtype) return a;
  if (ty_is_float(own)) a = to_dtype(g, OP_BITCAST, a, as_wide(own));
  return to_dtype(g, OP_CAST, a, dtype);
}

static i32 decode(Graph *g, i32 a, int dtype) {
  if (a < 0 || g->node[a].type.dtype == dtype) return a;
  if (!ty_is_float(dtype)) return to_dtype(g, OP_CAST, a, dtype);
  return to_dtype(g, OP_BITCAST, to_dtype(g, OP_CAST, a, as_wide(dtype)), dtype);
}

static i32 to_device(Graph *g, i32 a, int device) {
  if (a < 0 || g->node[a].type.device == device) return a;
  Node n = ty_node_new(OP_TO, &g->node[a].type, a, -1, -1);
  n.type.device = (u8)device;
  return ty_fold_append(g, &n);
}

static Type with_dims(int dtype, int device, int rank, i64 d0, i64 d1) {
  Type t = {.dtype = (u8)dtype, .rank = (u8)rank, .device = (u8)device};
  t.dims[0] = d0;
  if (rank > 1) t.dims[1] = d1;
  return t;
}

static i32 view(Graph *g, i32 a, const Type *t, i64 offset, const i64 *strides) {
  if (a < 0) return -1;
  Node n = ty_node_new(OP_VIEW, t, a, -1, -1);
  n.arg.offset = offset;
  for (int d = 0; d < t->rank; d++) n.arg.strides[d] = t->dims[d] == 1 ? 0 : strides[d];
  return ty_fold_append(g, &n);
}

/* n nodes behind each other at their places in rows of `width` elements: [width], or [turns, width]. */
static i32 pack(Recording *b, const i32 *node, const i64 *at, i32 n, int dtype, i64 turns,
                i64 width) {
  Graph *g = &b->g;
  const int rank = turns < 0 ? 1 : 2;
  const Type all = with_dims(dtype, g->device, rank, turns < 0 ? width : turns, width);
  i32 y = -1;
  for (i32 i = 0; i < n; i++) {
    i32 a = encode(g, node[i], dtype);
    if (a < 0) return -1;
    const i64 numel = ty_type_numel(&g->node[a].type);
    const i64 own = turns < 0 ? numel : numel / TY_MAX(turns, 1);
    const Type t = with_dims(dtype, g->device, rank, turns < 0 ? own : turns, own);
    if ((a = ty_node_reshape(b, a, &t)) < 0) return -1;
    if (n == 1 && own == width) return a;
    if (!numel) continue;
    if ((a = to_device(g, a, g->device)) < 0) return -1;
    if (y < 0) {
      Node empty = ty_node_new(OP_EMPTY, &all, -1, -1, -1);
      if ((y = ty_fold_append(g, &empty)) < 0) return -1;
    }
    Node put = ty_node_new(OP_PUT, &all, y, a, -1);
    put.arg.offset = at[i];
    put.arg.strides[rank - 1] = own == 1 ? 0 : 1;
    if (rank == 2) put.arg.strides[0] = turns == 1 ? 0 : width;
    if ((y = ty_fold_append(g, &put)) < 0) return -1;
  }
  Node none = ty_node_new(OP_EMPTY, &all, -1, -1, -1);
  return y < 0 ? ty_fold_append(g, &none) : y;
}

/* --- which nodes are the body's */

enum { INSIDE = 1, NEEDED = 2, CONSTANT = 4 };

static bool draws(const Node *n) {
  if (n->op == OP_LOOP) return ty_body(n->arg.bits)->streams > 0;
  return n->op == OP_RANDOM;
}

/* Marks nodes from `first` on that depend on a parameter, or are new in each turn. NULL: out of memory. */
static u8 *mark_inside(const Graph *g, i32 first, i32 room) {
  u8 *mark = ty_mem_zalloc((size_t)room + 1);
  for (i32 i = first; mark && i < g->n; i++) {
    const Node *n = &g->node[i];
    bool inside = n->op == OP_PARAM || draws(n);
    for (int j = 0; j < ty_ops[n->op].arity; j++) inside |= mark[n->src[j]] & INSIDE;
    mark[i] = inside ? INSIDE : 0;
  }
  return mark;
}

/* Whether the storage is from outside, and was written to since: also where that left its values as they were. */
static bool was_written(const LoopScope *l, const Storage *st) {
  for (i32 i = 0; i < l->nbefore; i++)
    if (l->before[i].st == st) return l->before[i].version != st->version;
  return st->buf != NULL;
}

/* Storages that wait for nodes inside have no value any more. */
static bool orphan(State *S, Recording *b, const u8 *mark, i32 n) {
  Recording *dead = NULL;
  for (Storage *st = b->waiting, *next; st; st = next) {
    next = st->next;
    if (st->node >= n || !(mark[st->node] & INSIDE)) continue;
    if (!dead && !(dead = ty_recording_new(S))) return false;
    ty_storage_wait(st, dead, 0);
  }
  if (dead) {
    dead->dead = dead->closed = true;
    ty_recording_drop(S, dead);
  }
  return true;
}

/* What a storage held before the recording. */
static void give_back(Storage *st) { ty_storage_settle(st, ty_buffer_hold(st->buf)); }

void ty_loop_forget(State *S, Recording *b) {
  u8 *mark = mark_inside(&b->g, 0, b->g.n);
  for (Storage *st = b->waiting, *next; st; st = next) {
    next = st->next;
    if (st->buf && (!mark || mark[st->node] & INSIDE)) give_back(st);
  }
  if (mark) orphan(S, b, mark, b->g.n);
  ty_mem_free(mark);
}

/* --- the body */

typedef struct Making {
  State *S;
  const LoopScope *l;
  const LoopCall *c;
  Recording *b;
  u8 *mark;
  i32 n;            /* nodes that are marked */
  i32 *init, *next; /* nodes */
  i32 *sequence, *made;
  i32 *map; /* per node: the body's, or -1 */
  i64 *at;  /* where carried values, rows, results lie: ncarried, nrows, nmade */
  Body body;
  i32 operand[MAX_SRC];
  i32 slot; /* first of the streams' */
  void *room;
} Making;

static i32 input(Making *M, i32 operand, i64 at, int stored, const Type *t) {
  Body *y = &M->body;
  Node n = ty_node_new(OP_INPUT, t, -1, -1, -1);
  n.type.dtype = (u8)stored;
  n.arg.k = n.arg.k2 = y->ninput;
  ty_type_strides(t, n.arg.strides);
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] == 1) n.arg.strides[d] = 0;
  y->input[y->ninput++] = (BodyInput){.operand = operand, .at = at};
  return decode(&y->g, ty_graph_append(&y->g, &n), t->dtype);
}

static void need(Making *M, i32 node) {
  const int op = M->b->g.node[node].op;
  if (M->mark[node] & (INSIDE | NEEDED)) M->mark[node] |= NEEDED;
  else M->mark[node] |= op == OP_CONST || op == OP_IOTA || op == OP_EMPTY ? NEEDED : CONSTANT;
}

/* Whether it holds pieces of what a turn completes, and is nothing without: each turn would have to copy it. */
static bool is_begun(const Making *M, i32 node) {
  const Node *n = M->b->g.node;
  while (n[node].op == OP_PUT && !(M->mark[node] & INSIDE)) node = n[node].src[0];
  return n[node].op == OP_EMPTY;
}

/* Marks what the turn's results need; the constants' number. */
static i32 mark_needed(Making *M) {
  i32 constants = 0;
  for (i32 i = 0; i < M->c->ncarried; i++) need(M, M->next[i]);
  for (i32 i = 0; i < M->c->nmade; i++) need(M, M->made[i]);
  for (i32 i = M->n - 1; i >= 0; i--) {
    const Node *n = &M->b->g.node[i];
    if (n->op == OP_PUT && M->mark[i] & NEEDED && is_begun(M, n->src[0]))
      M->mark[n->src[0]] = NEEDED | (M->mark[n->src[0]] & INSIDE);
    constants += (M->mark[i] & CONSTANT) != 0;
    for (int j = 0; M->mark[i] & NEEDED && j < ty_ops[n->op].arity; j++) need(M, n->src[j]);
  }
  return constants;
}

static bool is_larger(const Graph *g, i32 a, i32 b) {
  return ty_type_numel(&g->node[a].type) > ty_type_numel(&g->node[b].type);
}

/* The largest are operands of their own; where there are too many, the others are one. */
static bool make_constants(Making *M, i32 n) {
  Recording *b = M->b;
  i32 *list = ty_mem_alloc((sizeof(i32) + sizeof(i64)) * (size_t)(n + 1)), k = 0, own;
  if (!list) return false;
  for (i32 i = 0; i < M->n; i++) {
    if (!(M->mark[i] & CONSTANT)) continue;
    i32 j = k++;
    for (; j > 0 && is_larger(&b->g, i, list[j - 1]); j--) list[j] = list[j - 1];
    list[j] = i;
  }
  own = n <= LOOP_CONSTANTS ? n : LOOP_CONSTANTS - 1;
  int dtype = -1;
  i64 width = 0, *at = (i64 *)(void *)(list + n + (n & 1));
  for (i32 i = own; i < n; i++) {
    const Type *t = &b->g.node[list[i]].type;
    dtype = common(dtype, t->dtype);
    at[i - own] = width;
    width += ty_type_numel(t);
  }
  bool ok = true;
  for (i32 i = 0; i < n; i++) {
    Type t = b->g.node[list[i]].type;
    const int operand = LOOP_CONSTANT + TY_MIN(i, own), device = t.device;
    if (i >= own) t.device = b->g.device;
    i32 y = input(M, operand, i < own ? 0 : at[i - own], i < own ? t.dtype : dtype, &t);
    M->map[list[i]] = y = to_device(&M->body.g, y, device);
    ok = ok && y >= 0;
  }
  for (i32 i = 0; i < own && ok; i++) {
    const i64 zero = 0;
    const Type *t = &b->g.node[list[i]].type;
    M->operand[LOOP_CONSTANT + i] = pack(b, &list[i], &zero, 1, t->dtype, -1, ty_type_numel(t));
    ok = M->operand[LOOP_CONSTANT + i] >= 0;
  }
  if (own < n && ok) {
    M->operand[LOOP_CONSTANT + own] = pack(b, list + own, at, n - own, dtype, -1, width);
    ok = M->operand[LOOP_CONSTANT + own] >= 0;
  }
  ty_mem_free(list);
  return ok;
}

/* A pair of slots for each stream: where it stands in the outer graph, and in the body's. */
static i32 take_slot(Making *M, i32 slot) {
  Graph *g = &M->b->g, *y = &M->body.g;
  State *S = M->S;
  if (y->nscalar == 2 * LOOP_STREAMS) {
    ty_fail(S, WHO ": the function draws random numbers at more than %d places", LOOP_STREAMS);
    return -1;
  }
  for (i32 i = 0; i < 2; i++) {
    const i32 own = ty_graph_scalar(g, g->scalar[slot + i]);
    if (own < 0 || ty_graph_scalar(y, 0) < 0) return -1;
    if (S->capture && slot + i < S->capture->nscalar &&
        !ty_capture_scalar(S, own, S->capture->scalar[slot + i]))
      return -1;
  }
  return y->nscalar - 2;
}

static i32 copy_node(Making *M, i32 i) {
  Node n = M->b->g.node[i];
  for (int j = 0; j < ty_ops[n.op].arity; j++) n.src[j] = M->map[n.src[j]];
  if (n.op == OP_RANDOM || n.op == OP_LOOP) {
    const i32 pairs = n.op == OP_RANDOM ? 1 : ty_body(n.arg.bits)->g.nscalar / 2;
    i32 *at = n.op == OP_RANDOM ? &n.arg.k : &n.arg.k2;
    const i32 from = *at;
    *at = M->body.g.nscalar;
    for (i32 p = 0; p < pairs; p++)
      if (take_slot(M, from + 2 * p) < 0) return -1;
  }
  return ty_graph_append(&M->body.g, &n); /* folded already */
}

static void output(Making *M, i32 node, bool is_row, i64 at) {
  Body *y = &M->body;
  y->output[y->noutput++] = (BodyOutput){encode(&y->g, M->map[node], y->dtype), is_row, at};
}

static bool make_body(Making *M) {
  const LoopCall *c = M->c;
  Body *y = &M->body;
  const Graph *g = &M->b->g;
  const i32 constants = mark_needed(M);
  y->input = ty_mem_zalloc(sizeof *y->input * (size_t)(c->ncarried + c->nrows + constants + 1));
  y->output = ty_mem_zalloc(sizeof *y->output * (size_t)(c->ncarried + c->nmade + 1));
  if (!y->input || !y->output) return false;
  y->g.device = g->device;
  int rows = -1;
  for (i32 i = 0; i < c->nrows; i++) rows = common(rows, c->sequence[i]->type.dtype);
  for (i32 i = 0; i < c->ncarried + c->nrows; i++) {
    const i32 param = M->l->param[i];
    const bool is_row = i >= c->ncarried;
    M->map[param] = input(M, is_row ? LOOP_ROWS : LOOP_CARRIED, M->at[i], is_row ? rows : y->dtype,
                          &g->node[param].type);
    if (M->map[param] < 0) return false;
  }
  M->slot = g->nscalar;
  if (!make_constants(M, constants)) return false;
  for (i32 i = 0; i < M->n; i++) {
    if (!(M->mark[i] & NEEDED) || g->node[i].op == OP_PARAM) continue;
    if ((M->map[i] = copy_node(M, i)) < 0) return false;
  }
  for (i32 i = 0; i < c->ncarried; i++) output(M, M->next[i], false, M->at[i]);
  for (i32 i = 0; i < c->nmade; i++) output(M, M->made[i], true, M->at[c->ncarried + c->nrows + i]);
  for (i32 i = 0; i < y->noutput; i++)
    if (y->output[i].node < 0) return false;
  return true;
}

static i64 round_up(i64 n, i64 unit) { return (n + unit - 1) / unit * unit; }

/* Places of values one behind the other; how far a row is from the next one. */
static i64 places(i64 *at, i32 n, const Tensor *const *x, int dtype) {
  i64 end = 0, most = 1;
  for (i32 i = 0; i < n; i++) {
    const i64 numel = ty_type_numel(&x[i]->type), unit = ty_body_unit(numel, dtype);
    at[i] = round_up(end, unit);
    end = at[i] + numel;
    most = TY_MAX(most, unit);
  }
  return round_up(end, most);
}

static void make_places(Making *M) {
  const LoopCall *c = M->c;
  Body *y = &M->body;
  int dtype = -1;
  for (i32 i = 0; i < c->ncarried; i++) dtype = common(dtype, c->init[i]->type.dtype);
  for (i32 i = 0; i < c->nmade; i++) dtype = common(dtype, c->made[i]->type.dtype);
  y->dtype = (u8)TY_MAX(dtype, 0);
  y->carried = places(M->at, c->ncarried, c->init, y->dtype);
  y->made = places(M->at + c->ncarried + c->nrows, c->nmade, c->made, y->dtype);
  y->row = 0;
  for (i32 i = 0; i < c->nrows; i++) {
    M->at[c->ncarried + i] = y->row;
    y->row += ty_type_numel(&M->b->g.node[M->l->param[c->ncarried + i]].type);
  }
  y->streams = (i64)(M->S->stream - M->l->stream);
}

/* --- what a turn makes */

/* The hash of a node by those of its operands, wherever they stand: the order of nodes does not count. */
static u64 hash_of(const Graph *g, i32 i, const u64 *of) {
  Node own = g->node[i];
  const int arity = ty_ops[own.op].arity;
  u64 src[MAX_SRC];
  for (int j = 0; j < arity; j++) src[j] = of[own.src[j]];
  if (ty_ops[own.op].flags & F_COMM && src[0] > src[1]) {
    const u64 t = src[0];
    src[0] = src[1], src[1] = t;
  }
  memset(own.src, 0, sizeof own.src);
  if (own.op == OP_RANDOM || own.op == OP_PARAM || own.op == OP_INPUT || own.op == OP_SCALAR)
    own.arg.k = own.arg.k2 = 0;
  return ty_hash(src, sizeof *src * (size_t)arity, ty_hash(&own, sizeof own, 0));
}

/* What is kept of that node; NULL: it is no loop, or came from elsewhere. */
static const struct RecordedLoop *loop_of(const Recording *b, i32 node) {
  i32 from = 0, to = b->nloop;
  while (from < to) {
    const i32 mid = (from + to) / 2;
    if (b->loop[mid].node < node) from = mid + 1;
    else to = mid;
  }
  return from < b->nloop && b->loop[from].node == node ? &b->loop[from] : NULL;
}

/* Marks the operands of a needed node. A loop needs what its turn makes, not its constants: how these are packed hangs
** on the order of nodes. */
static void need_operands(const Recording *b, i32 i, u8 *needed) {
  const Node *n = &b->g.node[i];
  const struct RecordedLoop *in = loop_of(b, i);
  const int arity = in ? LOOP_CONSTANT : ty_ops[n->op].arity;
  for (int j = 0; j < arity; j++) needed[n->src[j]] = 1;
  for (i32 k = 0; in && k < in->nroot; k++) needed[in->root[k]] = 1;
}

static u64 hash_loop(const Recording *b, i32 i, const struct RecordedLoop *in, const u64 *of) {
  const i32 *src = b->g.node[i].src;
  u64 h = (u64)b->g.node[i].arg.k;
  for (i32 k = 0; k < in->nroot; k++) h = ty_hash(&of[in->root[k]], 8, h);
  return ty_hash((u64[3]){of[src[LOOP_CARRIED]], of[src[LOOP_ROWS]], h}, 24, 0);
}

static i32 depth_of(const LoopScope *l) {
  i32 depth = 0;
  for (const LoopScope *at = l->outer; at; at = at->outer) depth += at->recording == l->recording;
  return depth;
}

/* Parameters count by their number and by how much deeper than this one their loop lies. */
static void number_params(const LoopScope *l, u64 *of) {
  const Recording *b = l->recording;
  const i32 depth = depth_of(l);
  for (i32 k = 0; k < b->nloop; k++)
    for (i32 p = 0; p < b->loop[k].nparam; p++)
      of[b->loop[k].param[p]] = (u64)(b->loop[k].depth - depth) << 32 | ((u64)p + 1);
  for (i32 p = 0; p < l->nparam; p++) of[l->param[p]] = (u64)p + 1;
}

/* Of the nodes that `root` needs, in `of`. Inputs count by their contents, numbers by their value. */
static void hash_nodes(const LoopScope *l, const i32 *root, i32 n, u8 *needed, u64 *of) {
  const Recording *b = l->recording;
  const Graph *g = &b->g;
  number_params(l, of);
  for (i32 i = 0; i < n; i++) needed[root[i]] = 1;
  for (i32 i = g->n - 1; i >= 0; i--)
    if (needed[i]) need_operands(b, i, needed);
  for (i32 i = 0; i < g->n; i++) {
    const Node *node = &g->node[i];
    const u64 number = of[i];
    if (!needed[i]) continue;
    const struct RecordedLoop *in = loop_of(b, i);
    of[i] = in ? hash_loop(b, i, in, of) : hash_of(g, i, of);
    if (number) of[i] = ty_hash(&number, sizeof number, of[i]);
    if (node->op == OP_INPUT) {
      const struct RecordingInput *in = &b->input[node->arg.k2];
      of[i] = ty_hash((u64[2]){in->buf->stamp, (u64)in->offset}, 16, of[i]);
    }
    if (node->op == OP_SCALAR) of[i] = ty_hash(&g->scalar[node->arg.k], 8, of[i]);
  }
}

u64 ty_loop_hash(LoopScope *l, const Tensor *const *x, i32 n) {
  State *S = l->S;
  Recording *b = l->recording;
  u64 h = (u64)n, *of = NULL;
  u8 *needed = NULL;
  i32 *root = ty_mem_alloc(sizeof *root * (size_t)(n + 1));
  bool ok = root != NULL;
  for (i32 i = 0; ok && i < n; i++)
    ok = ty_record_settle(S, x[i]) && (root[i] = ty_record_node(S, b, x[i])) >= 0;
  ok = ok && (needed = ty_mem_zalloc((size_t)b->g.n + 1)) &&
       (of = ty_mem_zalloc(sizeof *of * (size_t)(b->g.n + 1)));
  if (ok) hash_nodes(l, root, n, needed, of);
  for (i32 i = 0; ok && i < n; i++) h = ty_hash(&of[root[i]], 8, h);
  ty_mem_free(root);
  ty_mem_free(needed);
  ty_mem_free(of);
  return ok ? h | 1 : 0;
}

/* Marks in `outside` what the turn reads of tensors from outside of the capture, by their numbers. */
static void mark_outside(const LoopScope *l, const u8 *needed, u8 *outside) {
  const Recording *b = l->recording;
  const Graph *g = &b->g;
  const Capture *c = l->S->capture;
  for (i32 i = 0; i < g->n; i++) {
    const Node *n = &g->node[i];
    const u32 from = n->op == OP_INPUT ? b->input[n->arg.k2].origin - c->origins - 1 : 0;
    if (needed[i] && n->op == OP_INPUT && from < (u32)c->noutside) outside[from] = 1;
  }
}

bool ty_loop_reads(LoopScope *l, const Tensor *const *x, i32 n, u8 *outside) {
  State *S = l->S;
  const Recording *b = l->recording;
  bool ok = true;
  u8 *needed = ty_mem_zalloc((size_t)b->g.n + 1);
  for (i32 i = 0; needed && ok && i < n; i++) {
    const i32 root = ty_record_node(S, l->recording, x[i]);
    if ((ok = root >= 0 && root < b->g.n)) needed[root] = 1;
  }
  for (i32 i = b->g.n - 1; needed && ok && i >= 0; i--)
    if (needed[i] && i >= l->first) need_operands(b, i, needed);
  if (needed && ok) mark_outside(l, needed, outside);
  ty_mem_free(needed);
  return needed && ok;
}

/* The recording keeps what the loop was made of. Equal loops are one node, which the first one tells of. */
static bool note_loop(const Making *M, i32 node) {
  const LoopScope *l = M->l;
  Recording *b = M->b;
  const i32 next = M->c->ncarried, made = M->c->nmade;
  if (b->nloop && b->loop[b->nloop - 1].node >= node) return true;
  struct RecordedLoop *list = ty_mem_realloc(b->loop, sizeof *list * (size_t)(b->nloop + 1));
  if (!list) return false;
  b->loop = list;
  i32 *nodes = ty_mem_alloc(sizeof *nodes * (size_t)(l->nparam + next + made + 1));
  if (!nodes) return false;
  memcpy(nodes, l->param, sizeof *nodes * (size_t)l->nparam);
  memcpy(nodes + l->nparam, M->next, sizeof *nodes * (size_t)next);
  memcpy(nodes + l->nparam + next, M->made, sizeof *nodes * (size_t)made);
  list[b->nloop++] =
      (struct RecordedLoop){node, depth_of(l), l->nparam, next + made, nodes, nodes + l->nparam};
  return true;
}

/* --- the loop */

static bool check_next(State *S, const LoopCall *c) {
  char a[SHOWN], b[SHOWN];
  for (i32 i = 0; i < c->ncarried; i++) {
    const Type *was = &c->init[i]->type, *is = &c->next[i]->type;
    if (!ty_type_equal(was, is))
      return ty_fail(S, WHO ": carried value %d must stay %s, a turn gives %s", i + 1,
                     ty_record_show(was, a), ty_record_show(is, b));
  }
  return true;
}

/* Rows of results stand behind each other in one more dim. */
static bool check_made(State *S, const LoopCall *c) {
  char a[SHOWN];
  for (i32 i = 0; i < c->nmade; i++)
    if (c->made[i]->type.rank == MAX_RANK)
      return ty_fail(S,
                     WHO ": a turn's result may have %d dims at most (turns are one more, and "
                         "so are pieces of a checkpoint and examples of a vmap), got %s",
                     MAX_RANK - 1, ty_record_show(&c->made[i]->type, a));
  return true;
}

/* All lie on one device, where the loop runs: *device, -1 at first. */
static bool check_device(State *S, const Tensor *const *x, i32 n, int *device) {
  for (i32 i = 0; i < n; i++) {
    if (*device < 0) *device = x[i]->type.device;
    if (x[i]->type.device != *device)
      return ty_fail(S, WHO ": values lie on \"%s\" and \"%s\" (move some with :to)",
                     ty_device_names[*device], ty_device_names[x[i]->type.device]);
  }
  return true;
}

static bool settle_all(State *S, const Tensor *const *x, i32 n) {
  for (i32 i = 0; i < n; i++)
    if (!ty_record_settle(S, x[i])) return false;
  return true;
}

static bool nodes_of(Making *M, const Tensor *const *x, i32 n, i32 *node) {
  for (i32 i = 0; i < n; i++)
    if ((node[i] = ty_record_node(M->S, M->b, x[i])) < 0) return false;
  return true;
}

static bool making_open(Making *M) {
  const LoopCall *c = M->c;
  const size_t values = (size_t)(c->ncarried * 2 + c->nrows + c->nmade);
  M->room = ty_mem_zalloc(values * (sizeof(i32) + sizeof(i64)) + 64);
  if (!M->room) return false;
  M->at = M->room;
  M->init = (i32 *)(void *)(M->at + values);
  M->next = M->init + c->ncarried;
  M->sequence = M->next + c->ncarried;
  M->made = M->sequence + c->nrows;
  return true;
}

static i32 append_loop(Making *M, u64 body) {
  const LoopCall *c = M->c;
  Recording *b = M->b;
  int rows = -1;
  for (i32 i = 0; i < c->nrows; i++) rows = common(rows, c->sequence[i]->type.dtype);
  if (rows < 0) rows = M->body.dtype;
  M->operand[LOOP_CARRIED] =
      pack(b, M->init, M->at, c->ncarried, M->body.dtype, -1, M->body.carried);
  M->operand[LOOP_ROWS] =
      pack(b, M->sequence, M->at + c->ncarried, c->nrows, rows, c->turns, M->body.row);
  const Type none = with_dims(T_BOOL, b->g.device, 0, 0, 0);
  Type t = with_dims(M->body.dtype, b->g.device, 1, M->body.carried + c->turns * M->body.made, 0);
  Node absent = ty_node_new(OP_CONST, &none, -1, -1, -1), n = ty_node_new(OP_LOOP, &t, -1, -1, -1);
  for (int i = 0; i < MAX_SRC; i++) {
    n.src[i] =
        M->operand[i] >= 0 || i < LOOP_CONSTANT ? M->operand[i] : ty_fold_append(&b->g, &absent);
    if (n.src[i] < 0) return -1;
  }
  n.arg.k = c->order;
  n.arg.k2 = M->slot;
  n.arg.bits = body;
  return ty_fold_append(&b->g, &n);
}

/* y: the result at that place, a row of which has the dims of t; turns < 0: a carried value. */
static bool give(Making *M, i32 loop, i64 at, const Type *row, i64 turns, Tensor *y) {
  Graph *g = &M->b->g;
  const int lead = turns >= 0;
  i64 own[MAX_RANK] = {0}, strides[MAX_RANK] = {0};
  Type t = {.dtype = M->body.dtype, .rank = (u8)(row->rank + lead), .device = row->device};
  ty_type_strides(row, own);
  t.dims[0] = turns;
  strides[0] = M->body.made;
  memcpy(t.dims + lead, row->dims, sizeof(i64) * row->rank);
  memcpy(strides + lead, own, sizeof(i64) * row->rank);
  if (!t.rank) t.dims[0] = 0, strides[0] = 0;
  if (!lead) memset(t.dims + row->rank, 0, sizeof(i64) * (size_t)(MAX_RANK - row->rank));
  i32 n = ty_type_numel(&t) ? view(g, loop, &t, lead ? M->body.carried + at : at, strides) : -1;
  if (n < 0) {
    Node empty = ty_node_new(OP_EMPTY, &t, -1, -1, -1);
    n = ty_type_numel(&t) ? -1 : ty_fold_append(g, &empty);
  }
  return ty_record_finish(M->S, M->b, decode(g, n, row->dtype), y, WHO);
}

/* Tensors from outside that the turn has written are as they were, and it is refused. */
static bool check_written(const LoopScope *l) {
  bool any = false;
  for (Storage *st = l->recording->waiting, *next; st; st = next) {
    next = st->next;
    if (!was_written(l, st)) continue;
    any = true;
    if (st->buf && !l->S->capture) give_back(st);
  }
  return !any ||
         ty_fail(l->S, WHO ": the function writes to a tensor from outside of it (carry it: "
                           "init holds it, and a turn gives it as it is then)");
}

static bool record(Making *M, Tensor *const *y, int device) {
  const LoopCall *c = M->c;
  State *S = M->S;
  Recording *b = M->b;
  if (!nodes_of(M, c->init, c->ncarried, M->init) ||
      !nodes_of(M, c->sequence, c->nrows, M->sequence) ||
      !nodes_of(M, c->next, c->ncarried, M->next) || !nodes_of(M, c->made, c->nmade, M->made))
    return ty_fail_memory(S, WHO, 0);
  M->n = b->g.n;
  b->g.device = (u8)device;
  M->mark = mark_inside(&b->g, M->l->first, M->n);
  M->map = ty_mem_alloc(sizeof(i32) * (size_t)(M->n + 1));
  if (!M->mark || !M->map) return ty_fail_memory(S, WHO, 0);
  memset(M->map, -1, sizeof(i32) * (size_t)(M->n + 1));
  memset(M->operand, -1, sizeof M->operand);
  if (!check_written(M->l)) return false;
  make_places(M);
  i64 made, all, bytes;
  if (!ty_mul(M->body.made, c->turns, &made) || !ty_add(made, M->body.carried, &all) ||
      !ty_mul(all, ty_dtypes[M->body.dtype].bytes, &bytes) || bytes > (i64)1 << 60)
    return ty_fail(S, WHO ": the results of %lld turns are too large", (long long)c->turns);
  *S->err = 0;
  if (!make_body(M)) return *S->err ? false : ty_fail_memory(S, WHO, 0);
  bool kept;
  const u64 number = ty_body_intern(&M->body, &kept);
  if (kept) M->body.g = (Graph){0}, M->body.input = NULL, M->body.output = NULL;
  const i32 loop = number ? append_loop(M, number) : -1;
  ty_graph_drop_body(number); /* which the node holds */
  if (loop < 0 || !note_loop(M, loop)) return ty_fail_memory(S, WHO, 0);
  if (c->turns) S->stream += (u64)M->body.streams * (u64)(c->turns - 1);
  for (i32 i = 0; i < c->ncarried; i++)
    if (!give(M, loop, M->at[i], &c->init[i]->type, -1, y[i])) return false;
  for (i32 i = 0; i < c->nmade; i++)
    if (!give(M, loop, M->at[c->ncarried + c->nrows + i], &c->made[i]->type, c->turns,
              y[c->ncarried + i]))
      return false;
  return orphan(S, b, M->mark, M->n);
}

bool ty_loop_record(LoopScope *l, const LoopCall *c, Tensor *const *y) {
  State *S = l->S;
  Making M = {.S = S, .l = l, .c = c, .b = l->recording};
  if (!l->recording || S->open != l->recording || S->loop != l ||
      l->nparam != c->ncarried + c->nrows)
    return ty_fail(S, WHO ": the function reads data, or its loop is over");
  int device = -1;
  bool ok = check_next(S, c) && check_made(S, c) &&
            check_device(S, c->init, c->ncarried, &device) &&
            check_device(S, c->sequence, c->nrows, &device) &&
            check_device(S, c->made, c->nmade, &device) && settle_all(S, c->init, c->ncarried) &&
            settle_all(S, c->sequence, c->nrows) && settle_all(S, c->next, c->ncarried) &&
            settle_all(S, c->made, c->nmade) && (making_open(&M) || ty_fail_memory(S, WHO, 0)) &&
            record(&M, y, TY_MAX(device, 0));
  for (i32 i = 0; !ok && i < c->ncarried + c->nmade; i++)
    if (y[i]->st) ty_tensor_release(y[i]);
  if (!ok && S->capture) ty_capture_refuse(S, "a scan fails");
  ty_graph_free(&M.body.g);
  ty_mem_free(M.body.input);
  ty_mem_free(M.body.output);
  ty_mem_free(M.mark);
  ty_mem_free(M.map);
  ty_mem_free(M.room);
  ty_loop_end(l);
  return ok;
}
