/*
** remade.c -- values that calls of a trace do not keep for the backward pass: they are computed again.
** In: a tape under construction and the graph that the capture recorded. Out: which values are VALUE_REMADE, and a graph
** that computes these from what is kept. Fails out of memory.
**
** 1. A value is made again where it follows element by element from values that calls keep anyway, from numbers, and from
**    random numbers of the call: by at most WORK_A_BYTE operations for each byte that keeping it would take, or
**    WORK_WHOLE where it is written to memory in either pass, as a product's operand is. To read a value counts as work,
**    too: the windows of a pooling read four for one. No product, reduction or attention is done twice.
** 2. The operations are the very nodes of the capture, so the bits are.
** 3. A plan for a backward pass computes them in its own kernels (ty_remade_record). Where a call is expanded instead,
**    they are all made before (ty_remade_restore), while what they follow from is as it was (ty_remade_assign).
** 4. A tensor from outside that they follow from is kept as it was, whatever is written to it later: `apart`.
*/
#include <stdlib.h>
#include "engine/remade.h"
#include "engine/shape_range.h"
#include "record/capture.h"
#include "record/record.h"

enum {
  WORK_A_BYTE = 6,
  WORK_WHOLE = 3,
  WORK_READ = 2,    /* a byte */
  WORK_INEXACT = 4, /* of an operation with an error bound, a series */
  WORK_RANDOM = 8,
  WORK_NO = 1 << 20,
  SMALL = 8 /* part of a value that a tensor from outside may have to be kept for it */
};

/* What the nodes of a remade value begin with. */
typedef struct RemadeInput {
  i32 node, value;
  i64 offset; /* elements behind the value's own */
} RemadeInput;

typedef struct Remake {
  Recording recording; /* the graph; inputs of a run */
  i32 ninput, noutput;
  RemadeInput *input;
  ScalarFrom *scalar;
  i32 *value, *node; /* outputs, by node */
  Plan *plan;        /* made when it is first asked for */
  u8 fast;
  Patches patches; /* of a tape for a range of sizes ... */
  i64 now;         /* ... at which it is as it is now */
} Remake;

static void remake_drop(void *ctx) {
  Remake *R = ctx;
  if (R->plan) ty_plan_drop(R->plan);
  ty_graph_free(&R->recording.g);
  ty_mem_free(R->recording.input);
  ty_mem_free(R->input);
  ty_mem_free(R->scalar);
  ty_mem_free(R->value);
  ty_mem_free(R->node);
  ty_mem_free(R->patches.patch);
  ty_mem_free(R);
}

/* --- choosing */

typedef struct Choosing {
  State *S;
  const Capture *c;
  const Graph *g;
  TracedTape *T;
  i32 *
      work; /* per node: operations an element takes from what is kept; WORK_NO; -1: not known yet */
  i32 *leaf;  /* per node: the kept value that it is, or -1 */
  i32 *apart; /* per tensor from outside: the value that keeps it as it was, or -1 */
  u8 *needed; /* per node: values that are remade need it */
  i32 *map;   /* per node: that of the new graph */
} Choosing;

/* Which tensor from outside an INPUT reads; -1: none. */
static i32 outside_of(const Choosing *C, const Node *n) {
  const u32 i = C->c->recording->input[n->arg.k2].origin - C->c->origins - 1;
  return i < (u32)C->c->noutside ? (i32)i : -1;
}

/* Whether a tensor from outside is kept anyway, or lives on without. */
static bool is_kept(const Choosing *C, i32 outside, i64 bytes) {
  const Tensor *t = &C->c->outside[outside].t;
  bool kept = ty_needs(t) == NEEDS_LEAF || ty_type_bytes(&t->type) <= bytes / SMALL;
  for (i32 v = 0; !kept && v < C->T->nvalue; v++)
    kept = C->T->value[v].kind == VALUE_OUTSIDE && C->T->value[v].of == outside;
  return kept;
}

/* To read that node, which is kept, for each element of a value of so many bytes. */
static i32 work_of_read(const Node *n, i64 bytes) {
  const i64 own = ty_type_bytes(&n->type);
  const i32 work = WORK_READ * ty_dtypes[n->type.dtype].bytes;
  return own < bytes ? (i32)(work * own / bytes) : work;
}

static i32 work_of_leaf(const Choosing *C, const Node *n, i64 bytes) {
  if (n->op == OP_CONST || n->op == OP_SCALAR) return 0;
  if (n->op == OP_IOTA) return 1;
  if (n->op == OP_RANDOM) return WORK_RANDOM;
  if (n->op != OP_INPUT) return WORK_NO;
  const i32 outside = outside_of(C, n);
  return outside >= 0 && is_kept(C, outside, bytes) ? work_of_read(n, bytes) : WORK_NO;
}

/* Nodes come behind their operands. bytes: of the value that is asked about. What is kept is read once, and by each view
** of it. */
static i32 work_of(Choosing *C, i32 i, i64 bytes, int depth) {
  const Node *n = &C->g->node[i];
  const OpClass class = (OpClass)ty_ops[n->op].class;
  if (C->work[i] >= 0) return C->work[i];
  if (C->leaf[i] >= 0) {
    C->work[i] = 0;
    return work_of_read(n, bytes);
  }
  i32 work = n->op == OP_VIEW ? 0 : ty_ops[n->op].bound > 0 ? WORK_INEXACT : 1;
  if (class == LEAF) work = work_of_leaf(C, n, bytes);
  else if ((class != MAP && class != VIEW) || depth > 64) work = WORK_NO;
  for (int j = 0; j < ty_ops[n->op].arity && work < WORK_NO; j++) {
    if (class == VIEW && C->leaf[n->src[j]] >= 0)
      work += work_of_read(&C->g->node[n->src[j]], bytes);
    else work += work_of(C, n->src[j], bytes, depth + 1);
  }
  return C->work[i] = TY_MIN(work, WORK_NO);
}

/* Whether a rule reads it that no kernel can compute it in. */
static bool is_read_whole(const TracedTape *T, i32 v) {
  bool whole = false;
  for (i32 i = 0; i < T->nedge; i++) {
    const u16 kind = T->row[T->edge[i].row].kind;
    whole |= T->edge[i].value == v && (kind >= OP_COUNT || ty_ops[kind].class > REDUCE);
  }
  return whole;
}

/* Whether it is to be made again: of a value that nobody else sees. */
static bool is_cheap(Choosing *C, const TapeValue *v, const u8 *given) {
  const i32 node = v->st->node;
  const Node *n = &C->g->node[node];
  const i64 bytes = ty_type_bytes(&n->type);
  const OpClass class = (OpClass)ty_ops[n->op].class;
  if (v->shown || given[node] || (class != MAP && n->op != OP_RANDOM) ||
      ty_type_numel(&n->type) != v->type.dims[0] || C->leaf[node] >= 0)
    return false;
  memset(C->work, -1, sizeof *C->work * (size_t)C->g->n); /* who is kept has changed */
  const i32 most = is_read_whole(C->T, (i32)(v - C->T->value)) ? WORK_WHOLE : WORK_A_BYTE;
  return work_of(C, node, bytes, 0) <= most * ty_dtypes[n->type.dtype].bytes;
}

static int by_node(const void *x, const void *y) {
  const i32 a = ((const i32 *)x)[1], b = ((const i32 *)y)[1];
  return a < b ? -1 : a > b;
}

/* Decides value by value, in the order of their nodes: what is kept may serve those behind. Gives how many are remade. */
static i32 decide(Choosing *C, const u8 *given, i32 (*order)[2]) {
  TracedTape *T = C->T;
  i32 n = 0, remade = 0;
  for (i32 v = 0; v < T->nvalue; v++)
    if (T->value[v].kind == VALUE_TARGET) order[n][0] = v, order[n++][1] = T->value[v].st->node;
  qsort(order, (size_t)n, sizeof *order, by_node);
  for (i32 k = 0; k < n; k++) {
    TapeValue *v = &T->value[order[k][0]];
    bool held = false;
    for (i32 h = 0; h < T->nhandle; h++) held |= T->handle[h].value == order[k][0];
    if (!held && is_cheap(C, v, given)) {
      v->kind = VALUE_REMADE;
      remade++;
    } else if (!v->shown && ty_type_numel(&C->g->node[v->st->node].type) == v->type.dims[0])
      C->leaf[v->st->node] = order[k][0];
  }
  return remade;
}

/* --- the graph */

/* The value that keeps tensor i from outside as it was. */
static i32 apart_value(Choosing *C, i32 i) {
  TracedTape *T = C->T;
  if (C->apart[i] >= 0) return C->apart[i];
  const Tensor *t = &C->c->outside[i].t;
  TapeValue *v = &T->value[T->nvalue];
  *v = (TapeValue){
      .kind = VALUE_OUTSIDE, .apart = true, .of = i, .from = FROM_NONE, .type = t->type};
  memcpy(v->strides, t->strides, sizeof v->strides);
  return C->apart[i] = T->nvalue++;
}

static i32 add_input(Choosing *C, Remake *R, i32 i) {
  Node n = C->g->node[i];
  RemadeInput *in = &R->input[R->ninput];
  in->value = C->leaf[i];
  if (in->value < 0) {
    const i32 outside = outside_of(C, &n);
    in->value = apart_value(C, outside);
    in->offset = C->c->recording->input[n.arg.k2].offset - C->c->outside[outside].t.offset;
  } else {
    const Type t = n.type;
    n = ty_node_new(OP_INPUT, &t, -1, -1, -1);
    ty_type_strides(&t, n.arg.strides);
    for (int d = 0; d < t.rank; d++)
      if (t.dims[d] == 1) n.arg.strides[d] = 0;
  }
  n.arg.k = n.arg.k2 = R->ninput;
  in->node = ty_graph_append(&R->recording.g, &n);
  if (in->node >= 0) R->ninput++;
  return in->node;
}

/* Slots of a SCALAR, or of a RANDOM's stream and seed. */
static i32 add_scalars(Choosing *C, Remake *R, i32 slot, i32 n, i32 *slot_of) {
  if (slot_of[slot] >= 0) return slot_of[slot];
  for (i32 k = 0; k < n; k++) {
    const i32 own = ty_graph_scalar(&R->recording.g, C->g->scalar[slot + k]);
    if (own < 0) return -1;
    R->scalar[own] = slot + k < C->c->nscalar ? C->c->scalar[slot + k] : (ScalarFrom){0};
    if (R->scalar[own].kind == SC_CONST) R->scalar[own].bits = C->g->scalar[slot + k];
    if (R->scalar[own].kind == SC_NUMBER) C->T->nnumber = 1;
    slot_of[slot + k] = own;
  }
  return slot_of[slot];
}

static bool copy_node(Choosing *C, Remake *R, i32 i, i32 *slot_of) {
  Node n = C->g->node[i];
  if (C->leaf[i] >= 0 || n.op == OP_INPUT) return (C->map[i] = add_input(C, R, i)) >= 0;
  for (int j = 0; j < ty_ops[n.op].arity; j++) n.src[j] = C->map[n.src[j]];
  if (n.op == OP_SCALAR || n.op == OP_RANDOM)
    if ((n.arg.k = add_scalars(C, R, n.arg.k, n.op == OP_RANDOM ? 2 : 1, slot_of)) < 0)
      return false;
  return (C->map[i] = ty_graph_append(&R->recording.g, &n)) >= 0;
}

/* Marks what node i needs, down to what is kept. */
static void need(Choosing *C, i32 i) {
  if (C->needed[i]) return;
  C->needed[i] = 1;
  for (int j = 0; C->leaf[i] < 0 && j < ty_ops[C->g->node[i].op].arity; j++)
    need(C, C->g->node[i].src[j]);
}

static bool make_graph(Choosing *C, Remake *R, i32 (*order)[2]) {
  TracedTape *T = C->T;
  i32 *slot_of = ty_mem_alloc(sizeof *slot_of * (size_t)(C->g->nscalar + 1));
  bool ok = slot_of != NULL;
  if (ok) memset(slot_of, -1, sizeof *slot_of * (size_t)(C->g->nscalar + 1));
  R->recording.g.device = C->g->device;
  for (i32 v = 0; ok && v < T->nvalue; v++)
    if (T->value[v].kind == VALUE_REMADE) need(C, T->value[v].st->node);
  for (i32 i = 0; ok && i < C->g->n; i++)
    if (C->needed[i]) ok = copy_node(C, R, i, slot_of);
  i32 n = 0;
  for (i32 v = 0; ok && v < T->nvalue; v++)
    if (T->value[v].kind == VALUE_REMADE)
      order[n][0] = v, order[n++][1] = C->map[T->value[v].st->node];
  if (ok) qsort(order, (size_t)n, sizeof *order, by_node);
  for (i32 k = 0; ok && k < n; k++) R->value[k] = order[k][0], R->node[k] = order[k][1];
  R->noutput = n;
  ty_mem_free(slot_of);
  return ok;
}

/* Of each remade value the kept ones that it follows from. */
static bool list_leaves(TracedTape *T, const Remake *R) {
  const Graph *g = &R->recording.g;
  const size_t n = (size_t)R->noutput;
  u8 *mark = ty_mem_alloc((size_t)g->n + 1);
  T->remade = ty_mem_zalloc(sizeof *T->remade * (n + 1));
  T->leaf = ty_mem_alloc(sizeof *T->leaf * (n * (size_t)R->ninput + 1));
  for (i32 k = 0; mark && T->remade && T->leaf && k < R->noutput; k++) {
    TapeRemade *y = &T->remade[T->nremade];
    *y = (TapeRemade){.value = R->value[k], .first = T->nremade ? y[-1].first + y[-1].n : 0};
    memset(mark, 0, (size_t)g->n);
    mark[R->node[k]] = 1;
    for (i32 i = R->node[k]; i >= 0; i--)
      for (int j = 0; mark[i] && j < ty_ops[g->node[i].op].arity; j++) mark[g->node[i].src[j]] = 1;
    for (i32 i = 0; i < R->ninput; i++)
      if (mark[R->input[i].node]) T->leaf[y->first + y->n++] = R->input[i].value;
    T->nremade++;
  }
  ty_mem_free(mark);
  return T->nremade == R->noutput;
}

static Remake *remake_new(const Choosing *C, i32 n) {
  Remake *R = ty_mem_zalloc(sizeof *R);
  if (!R) return NULL;
  R->recording.S = C->S;
  R->fast = C->S->fast;
  R->input = ty_mem_zalloc(sizeof *R->input * (size_t)(C->g->n + 1));
  R->recording.input = ty_mem_zalloc(sizeof *R->recording.input * (size_t)(C->g->n + 1));
  R->scalar = ty_mem_zalloc(sizeof *R->scalar * (size_t)(C->g->nscalar + 1));
  R->value = ty_mem_zalloc(sizeof *R->value * (size_t)(n + 1));
  R->node = ty_mem_zalloc(sizeof *R->node * (size_t)(n + 1));
  if (R->input && R->recording.input && R->scalar && R->value && R->node) return R;
  remake_drop(R);
  return NULL;
}

/* --- running */

/* The inputs and scalars of a call. */
static void bind(const TracedCall *c, Remake *R) {
  Recording *b = &R->recording;
  b->lent = true;
  b->ninput = R->ninput;
  for (i32 i = 0; i < R->ninput; i++) {
    const RemadeInput *in = &R->input[i];
    b->input[i].node = in->node;
    b->input[i].buf = c->saved[in->value]->buf;
    b->input[i].offset = in->offset + c->offset[in->value];
  }
  for (i32 i = 0; i < b->g.nscalar; i++) {
    const ScalarFrom *from = &R->scalar[i];
    u64 bits = from->bits;
    if (from->kind == SC_NUMBER) bits = ty_elem_scalar(from->dtype, c->number[from->id]);
    else if (from->kind == SC_STREAM) bits += c->stream;
    else if (from->kind == SC_SEED) bits = c->seed;
    b->g.scalar[i] = bits;
  }
}

static bool make_plan(State *S, Remake *R) {
  if (R->plan) return true;
  Output *out = ty_mem_zalloc(sizeof *out * (size_t)(R->noutput + 1));
  if (!out) return ty_fail_memory(S, "backward", 0);
  for (i32 k = 0; k < R->noutput; k++) {
    const Type *t = &R->recording.g.node[R->node[k]].type;
    out[k] =
        (Output){.node = R->node[k], .write = -1, .device = t->device, .bytes = ty_type_bytes(t)};
  }
  const u8 fast = S->fast;
  S->fast = R->fast;
  R->plan = ty_engine_plan(S, &R->recording, out, R->noutput);
  S->fast = fast;
  ty_mem_free(out);
  return R->plan != NULL;
}

/* As it is at the sizes that the tape is for. */
static Remake *remake_of(const TracedTape *T) {
  Remake *R = T->remake.ctx;
  const i64 t = T->sizes ? T->sizes->now : 0;
  if (!R || !R->patches.n || R->now == t) return R;
  R->now = t;
  ty_patch_apply(R->patches.patch, R->patches.n, t);
  if (R->plan) ty_plan_drop(R->plan);
  R->plan = NULL;
  return R;
}

/* Whether a value is made now: who reads it is not freed, so what it follows from is there. */
static bool is_due(const TracedCall *c, i32 value) { return c->read[value] && !c->saved[value]; }

bool ty_remade_restore(State *S, TracedCall *c) {
  const TracedTape *T = c->tape;
  if (!ty_traced_call_lacks(c)) return true;
  ty_traced_tape_at(c->tape, c->t);
  Remake *R = remake_of(T);
  bool due = false, ok = true;
  ty_traced_call_reads(c, true);
  for (i32 k = 0; k < R->noutput; k++) due |= is_due(c, R->value[k]);
  for (i32 i = 0; due && i < R->ninput; i++) due = c->saved[R->input[i].value] != NULL;
  if (!due) return c->restored = true;
  Buffer **result = ty_mem_zalloc(sizeof(void *) * (size_t)(2 * R->noutput + 1));
  Storage **made = (Storage **)(void *)(result + R->noutput);
  if (!result) return ty_fail_memory(S, "backward", 0);
  for (i32 k = 0; ok && k < R->noutput; k++) {
    const Type *t = &T->value[R->value[k]].type;
    ok = (made[k] = ty_storage_new(S, t->dtype, t->device, t->dims[0])) != NULL;
  }
  bind(c, R);
  ok = ok && make_plan(S, R) && ty_exec_run(S, R->plan, &R->recording, result);
  R->recording.ninput = 0;
  for (i32 k = 0; k < R->noutput; k++) {
    if (!ok) {
      ty_storage_drop(made[k]);
      continue;
    }
    ty_storage_settle(made[k], result[k]);
    made[k]->frozen = true;
    if (is_due(c, R->value[k])) c->saved[R->value[k]] = made[k];
    else ty_storage_drop(made[k]);
  }
  ty_mem_free(result);
  return c->restored = ok;
}

/* The call that made x becomes its rows before dst is written, where it keeps what dst holds. */
static bool split(State *S, const Tensor *dst, const Tensor *x) {
  Record *r = ty_needs_grad(x) ? x->st->tape : NULL;
  bool reads = false;
  if (!r || r->kind != K_RESULT || !r->n || S->capture) return true;
  TracedCall *c = r->edge[0].from->call;
  for (i32 i = 0; c && i < c->tape->nvalue; i++) reads |= c->saved[i] == dst->st->snapshot;
  if (!reads) return true;
  if (!ty_remade_restore(S, c) || !ty_traced_call_expand(S, c)) return false;
  x->st->tape = ty_record_hold(ty_traced_call_real(r));
  ty_record_drop(r);
  return true;
}

bool ty_remade_assign(State *S, const char *who, const Tensor *dst, const Given *x) {
  if (TY_UNLIKELY(dst->st->snapshot != NULL) && x->kind == O_TENSOR && !split(S, dst, x->t))
    return false;
  return ty_record_assign(S, who, dst, x);
}

/* --- a tape under construction */

static bool choosing_open(Choosing *C, i32 (**order)[2]) {
  const size_t n = (size_t)C->g->n + 1, outside = (size_t)C->c->noutside + 1;
  TapeValue *more = ty_mem_realloc(C->T->value, sizeof *more * ((size_t)C->T->nvalue + outside));
  if (more) C->T->value = more;
  C->work = ty_mem_alloc(sizeof *C->work * n);
  C->leaf = ty_mem_alloc(sizeof *C->leaf * n);
  C->map = ty_mem_alloc(sizeof *C->map * n);
  C->apart = ty_mem_alloc(sizeof *C->apart * outside);
  C->needed = ty_mem_zalloc(n);
  *order = ty_mem_alloc(sizeof **order * (size_t)(C->T->nvalue + 1));
  if (!more || !C->work || !C->leaf || !C->map || !C->apart || !C->needed || !*order)
    return ty_fail_memory(C->S, "capture", 0);
  memset(C->leaf, -1, sizeof *C->leaf * n);
  memset(C->map, -1, sizeof *C->map * n);
  memset(C->apart, -1, sizeof *C->apart * outside);
  return true;
}

bool ty_remade_choose(State *S, TracedTape *T, const u8 *given) {
  Choosing C = {.S = S, .c = S->capture, .g = &S->capture->recording->g, .T = T};
  i32(*order)[2] = NULL;
  Remake *R = NULL;
  bool ok = choosing_open(&C, &order);
  const i32 n = ok ? decide(&C, given, order) : 0;
  if (n) {
    ok = (R = remake_new(&C, n)) && make_graph(&C, R, order) && list_leaves(T, R);
    if (!ok) ty_fail_memory(S, "capture", 0);
  }
  if (R && ok) {
    T->remake = (Owner){remake_drop, R};
  } else if (R) remake_drop(R);
  ty_mem_free(C.work);
  ty_mem_free(C.leaf);
  ty_mem_free(C.map);
  ty_mem_free(C.apart);
  ty_mem_free(C.needed);
  ty_mem_free(order);
  return ok;
}

ScalarFrom *ty_remade_scalars(const TracedTape *T, i32 *n) {
  Remake *R = T->remake.ctx;
  *n = R ? R->recording.g.nscalar : 0;
  return R ? R->scalar : NULL;
}

/* --- for a range of sizes */

/* In which a scalar is computed. */
static int computed_in(const Graph *g, i32 scalar) {
  for (i32 i = 0; i < g->n; i++)
    if (g->node[i].op == OP_SCALAR && g->node[i].arg.k == scalar) return g->node[i].type.dtype;
  return T_F64;
}

static bool same_counts(const Remake *x, const Remake *y) {
  return x->recording.g.n == y->recording.g.n && x->recording.g.nscalar == y->recording.g.nscalar &&
         x->ninput == y->ninput && x->noutput == y->noutput && x->fast == y->fast &&
         !memcmp(x->value, y->value, sizeof *x->value * (size_t)x->noutput) &&
         !memcmp(x->node, y->node, sizeof *x->node * (size_t)x->noutput);
}

static const char *make_words(char *const *block, size_t bytes, i64 last, Patches *y) {
  for (size_t at = 0; at < bytes; at += sizeof(i64)) {
    const PatchWord word = ty_patch_word(block, at, last, y);
    if (word == WORD_NO_MEMORY) return "out of memory";
    if (word == WORD_OWN_WAY)
      return "a value of the backward pass follows from sizes in its own way";
  }
  return NULL;
}

static const char *make_scalar(Remake *const *R, i32 i, i64 last, const RangeNumbers *known) {
  Remake *most = R[RANGE_SAMPLES - 1];
  u64 bits[RANGE_SAMPLES];
  bool same = true, alike = true;
  Patch y = {.at = &most->scalar[i].bits};
  for (int k = 0; k < RANGE_SAMPLES; k++) {
    const ScalarFrom *s = &R[k]->scalar[i], *of = &most->scalar[i];
    alike &= s->kind == of->kind && s->dtype == of->dtype && s->id == of->id;
    bits[k] = s->bits;
    same &= bits[k] == bits[0];
  }
  if (alike && same) return NULL;
  if (!alike || most->scalar[i].kind != SC_CONST ||
      !ty_patch_fit_scalar(bits, computed_in(&most->recording.g, i), known, last, &y))
    return "a number of the backward pass follows from sizes in its own way";
  return ty_patch_add(&most->patches, &y) ? NULL : "out of memory";
}

const char *ty_remade_range(TracedTape *const *sample, i64 last, const RangeNumbers *known) {
  Remake *R[RANGE_SAMPLES], *most = sample[RANGE_SAMPLES - 1]->remake.ctx;
  char *node[RANGE_SAMPLES], *input[RANGE_SAMPLES];
  const char *why = NULL;
  for (int k = 0; k < RANGE_SAMPLES; k++) {
    R[k] = sample[k]->remake.ctx;
    if (!R[k] != !most || (most && !same_counts(R[k], most))) return ty_range_differ;
    if (!most) continue;
    node[k] = (char *)R[k]->recording.g.node;
    input[k] = (char *)R[k]->input;
  }
  if (!most) return NULL;
  for (i32 i = 0; i < most->recording.g.n && !why; i++) {
    const Type *t[RANGE_SAMPLES];
    for (int k = 0; k < RANGE_SAMPLES; k++) t[k] = &R[k]->recording.g.node[i].type;
    for (int k = 0; k < RANGE_SAMPLES; k++)
      if (t[k]->rank != t[0]->rank) return ty_range_differ;
    why = ty_range_dims(t, last);
  }
  if (!why)
    why = make_words(node, sizeof(Node) * (size_t)most->recording.g.n, last, &most->patches);
  if (!why)
    why = make_words(input, sizeof(RemadeInput) * (size_t)most->ninput, last, &most->patches);
  for (i32 i = 0; i < most->recording.g.nscalar && !why; i++) why = make_scalar(R, i, last, known);
  most->now = last;
  return why;
}

/* --- in a plan for a backward pass */

/* The node of an input, over what stands in for its value. */
static i32 record_input(State *S, const Remake *R, i32 i, const i64 *offset,
                        Storage *const *saved) {
  const RemadeInput *in = &R->input[i];
  const Node *n = &R->recording.g.node[in->node];
  Tensor t = {.st = saved[in->value], .type = n->type, .offset = in->offset + offset[in->value]};
  memcpy(t.strides, n->arg.strides, sizeof t.strides);
  t.origin = S->capture->origins + 1;
  while (t.origin <= S->capture->origins + (u32)S->capture->noutside &&
         S->capture->outside[t.origin - S->capture->origins - 1].t.st != t.st)
    t.origin++;
  return ty_record_node(S, S->capture->recording, &t);
}

static bool record_scalars(State *S, const Remake *R, i32 slot, i32 n, i32 *slot_of) {
  Graph *g = &S->capture->recording->g;
  if (slot_of[slot] >= 0) return true;
  for (i32 k = 0; k < n; k++) {
    const ScalarFrom *from = &R->scalar[slot + k];
    const u64 bits = from->kind == SC_CONST ? from->bits : R->recording.g.scalar[slot + k];
    const i32 own = slot_of[slot + k] = ty_graph_scalar(g, bits);
    if (own < 0 || !ty_capture_scalar(S, own, *from)) return false;
  }
  return true;
}

static bool record_node(State *S, const Remake *R, i32 i, i32 *map, i32 *slot_of) {
  Node n = R->recording.g.node[i];
  for (int j = 0; j < ty_ops[n.op].arity; j++) n.src[j] = map[n.src[j]];
  if (n.op == OP_SCALAR || n.op == OP_RANDOM) {
    if (!record_scalars(S, R, n.arg.k, n.op == OP_RANDOM ? 2 : 1, slot_of)) return false;
    n.arg.k = slot_of[n.arg.k];
  }
  return (map[i] = ty_graph_append(&S->capture->recording->g, &n)) >= 0;
}

bool ty_remade_record(State *S, const TracedTape *T, const u8 *read, const i64 *offset,
                      Storage **saved) {
  Remake *R = remake_of(T);
  if (!R) return true;
  const Graph *g = &R->recording.g;
  i32 *map = ty_mem_alloc(sizeof *map * (size_t)(g->n + g->nscalar + 2)), *slot_of = map + g->n + 1;
  u8 *needed = ty_mem_zalloc((size_t)g->n + 1);
  bool ok = map && needed;
  if (ok) memset(map, -1, sizeof *map * (size_t)(g->n + g->nscalar + 2));
  for (i32 k = 0; ok && k < R->noutput; k++)
    if (read[R->value[k]]) needed[R->node[k]] = 1;
  for (i32 i = g->n - 1; ok && i >= 0; i--)
    for (int j = 0; needed[i] && j < ty_ops[g->node[i].op].arity; j++)
      needed[g->node[i].src[j]] = 1;
  for (i32 i = 0; ok && i < R->ninput; i++)
    if (needed[R->input[i].node])
      ok = (map[R->input[i].node] = record_input(S, R, i, offset, saved)) >= 0;
  for (i32 i = 0; ok && i < g->n; i++)
    if (needed[i] && map[i] < 0) ok = record_node(S, R, i, map, slot_of);
  for (i32 k = 0; ok && k < R->noutput; k++) {
    const Type *t = &T->value[R->value[k]].type;
    if (!read[R->value[k]]) continue;
    Storage *st = ty_storage_new(S, t->dtype, t->device, t->dims[0]);
    if (!(ok = st != NULL)) break;
    ty_storage_wait(st, S->capture->recording, map[R->node[k]]);
    st->frozen = true;
    saved[R->value[k]] = st;
  }
  ty_mem_free(map);
  ty_mem_free(needed);
  return ok || ty_fail_memory(S, "backward", 0);
}
