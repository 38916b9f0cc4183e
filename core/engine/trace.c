/*
** trace.c -- plans bound to the world: made from a capture, checked and run by later calls.
** In: the notes of a capture (capture.h); then, call by call, the tensors and numbers that guards have
** read. Out: storages settled, handles filled. Fails when out of memory: then nothing has changed.
**
** Rules.
** 1. Inputs are found through the tensor from outside that shares their buffer, so weights that moved
**    or changed are seen. What the function made out of constants is kept.
** 2. All that can fail comes before the first write: inputs are computed, sharing and indices
**    checked, storages made; then ty_exec_run, which has this property of its own.
** 3. A run that writes is only as the capture was if the tensors share storages exactly as they did.
**    One that only reads may see more sharing, not less.
*/
#include <stdlib.h>
#include "base/pointer_map.h"
#include "engine/entry.h"
#include "engine/remade.h"
#include "record/grad.h"
#include "engine/trace.h"
#include "record/traced_call.h"

/* --- making */

/* An instance under construction: what the capture noted, by address. */
typedef struct Making {
  State *S;
  const Capture *c;
  PointerMap outside; /* storage -> first tensor from outside that lies in it */
  PointerMap held;    /* buffer that such a storage held before the function ran -> that tensor */
  PointerMap written; /* storage -> its number among those written */
  PointerMap input;   /* buffer -> first input of the recording */
  PointerMap wanted;  /* storage -> output */
} Making;

static i32 outside_of_storage(const Making *M, const Storage *st) {
  return ty_pointer_map_get(&M->outside, st);
}

/* What a storage from outside held before the function ran. */
static const Buffer *held(const Making *M, const Storage *st) {
  i32 i = ty_pointer_map_get(&M->written, st);
  return i < 0 ? st->buf : M->c->written[i].buf;
}

static void making_close(Making *M) {
  ty_pointer_map_close(&M->outside);
  ty_pointer_map_close(&M->held);
  ty_pointer_map_close(&M->written);
  ty_pointer_map_close(&M->input);
  ty_pointer_map_close(&M->wanted);
}

static bool making_open(Making *M, State *S, i32 nwanted) {
  const Capture *c = S->capture;
  *M = (Making){.S = S, .c = c};
  if (!ty_pointer_map_open(&M->outside, c->noutside) ||
      !ty_pointer_map_open(&M->held, c->noutside) ||
      !ty_pointer_map_open(&M->written, c->nwritten) ||
      !ty_pointer_map_open(&M->input, c->recording->ninput) ||
      !ty_pointer_map_open(&M->wanted, nwanted))
    return ty_fail_memory(S, "capture", 0);
  for (i32 i = 0; i < c->nwritten; i++) ty_pointer_map_add(&M->written, c->written[i].st, i);
  for (i32 i = 0; i < c->recording->ninput; i++)
    ty_pointer_map_add(&M->input, c->recording->input[i].buf, i);
  for (i32 i = 0; i < c->noutside; i++) {
    const Storage *st = c->outside[i].t.st;
    ty_pointer_map_add(&M->outside, st, i);
    if (held(M, st)) ty_pointer_map_add(&M->held, held(M, st), i);
  }
  return true;
}

static bool make_outside(const Making *M, Instance *I) {
  const Capture *c = M->c;
  for (i32 i = 0; i < c->noutside; i++) {
    const Outside *from = &c->outside[i];
    InstanceOutside *o = &I->outside[i];
    const Storage *st = from->t.st;
    bool written = ty_pointer_map_get(&M->written, st) >= 0;
    *o = (InstanceOutside){.slot = from->slot,
                           .first = outside_of_storage(M, st),
                           .offset = from->t.offset,
                           .numel = st->numel,
                           .written = written,
                           .lone = from->lone || written,
                           .type = from->t.type};
    memcpy(o->strides, from->t.strides, sizeof o->strides);
    I->strict |= o->lone;
    o->delta = o->offset - c->outside[o->first].t.offset;
    I->outside[o->first].bound |= o->lone;
    if (I->writes && held(M, st)->exposed)
      return ty_capture_refuse(M->S, "writes tensors while it uses memory that others see");
    i32 k = held(M, st) ? ty_pointer_map_get(&M->held, held(M, st)) : i;
    if (c->outside[k].t.st != st)
      return ty_capture_refuse(M->S, "uses two tensors that hold one buffer");
  }
  I->noutside = c->noutside;
  return true;
}

/* The tensor from outside through which t, which lies in its storage st, is found. Where it is not known which one
** that is, it may be any of the storage as long as they share it as they do now. -1: st is not from outside. */
static i32 make_origin(const Making *M, Instance *I, const Tensor *t, const Storage *st) {
  i32 from = ty_capture_from(M->c, t);
  if (from >= 0 && M->c->outside[from].t.st == st) return from;
  from = outside_of_storage(M, st);
  if (from >= 0) I->outside[from].bound = true;
  return from;
}

static bool make_inputs(const Making *M, Instance *I, const Recording *b) {
  const Capture *c = M->c;
  for (i32 i = 0; i < b->ninput; i++) {
    Buffer *buf = b->input[i].buf;
    InstanceInput *in = &I->input[i];
    i32 k = ty_pointer_map_get(&M->held, buf);
    in->outside =
        k >= 0 ? make_origin(M, I, &(Tensor){.origin = b->input[i].origin}, c->outside[k].t.st)
               : -1;
    if (in->outside >= 0) in->delta = b->input[i].offset - c->outside[in->outside].t.offset;
    else if (buf->stamp <= c->stamp)
      return ty_capture_refuse(M->S, "reads a tensor of unknown origin");
    else in->constant = ty_buffer_hold(buf), in->delta = b->input[i].offset;
    I->ninput++;
  }
  return true;
}

static bool make_checks(const Making *M, Instance *I) {
  const Capture *c = M->c;
  for (i32 i = 0; i < c->ncheck; i++) {
    const IndexCheck *from = &c->check[i];
    InstanceCheck *k = &I->check[i];
    k->outside = make_origin(M, I, &from->t, from->t.st);
    if (k->outside < 0) return ty_capture_refuse(M->S, "an index of unknown origin");
    k->delta = from->t.offset - c->outside[k->outside].t.offset;
    k->type = from->t.type;
    k->size = from->size;
    k->base = from->base;
    k->skips = from->skips;
    k->skip = from->skip;
    memcpy(k->strides, from->t.strides, sizeof k->strides);
  }
  I->ncheck = c->ncheck;
  return true;
}

/* Tensors that share a storage need not share it in later calls where nothing is bound to how they do. */
static void free_readers(Instance *I) {
  for (i32 i = 0; i < I->noutside; i++) {
    InstanceOutside *o = &I->outside[i];
    if (!I->outside[o->first].bound) o->first = i, o->delta = 0;
  }
}

static void list_shared(Instance *I) {
  for (i32 i = 0; i < I->noutside; i++) {
    const InstanceOutside *o = &I->outside[i];
    if (o->first != i) I->shared[I->nshared++] = (InstanceShared){i, o->first, o->delta};
  }
}

/* An output under construction, with what makes it unique: the storage that it is for. */
typedef struct WantedOutput {
  const Storage *st;
  Output out;
  InstanceTarget target;
} WantedOutput;

static i32 want(Making *M, WantedOutput *w, i32 *n, const Storage *st, i32 node, i32 write,
                i32 outside, u32 writes) {
  i32 known = ty_pointer_map_get(&M->wanted, st);
  if (known >= 0) return known;
  ty_pointer_map_add(&M->wanted, st, *n);
  WantedOutput *y = &w[(*n)++];
  memset(y, 0, sizeof *y);
  y->st = st;
  y->out.node = node;
  y->out.write = write;
  y->out.device = st->device;
  y->out.bytes = st->numel * ty_dtypes[st->dtype].bytes;
  y->target = (InstanceTarget){outside, st->dtype, st->device, st->numel, writes, false};
  return *n - 1;
}

/* A tensor that was made out of constants alone is computed by a copy. */
static i32 constant_node(State *S, Recording *b, Storage *st) {
  Tensor whole = {.st = st, .type = ty_type_line(st->dtype, st->device, st->numel)};
  whole.strides[0] = 1;
  return ty_record_node(S, b, &whole);
}

static bool make_made(Making *M, Instance *I, const Tensor *const *made, i32 nmade, WantedOutput *w,
                      i32 *n) {
  State *S = M->S;
  const Capture *c = M->c;
  for (i32 i = 0; i < nmade; i++) {
    const Tensor *t = made[i];
    Storage *st = t->st;
    InstanceMade *m = &I->made[i];
    *m = (InstanceMade){.type = t->type, .offset = t->offset};
    memcpy(m->strides, t->strides, sizeof m->strides);
    I->nmade++;
    if (c->of_rule && c->of_rule[i]) continue; /* see make_handles */
    i32 from = outside_of_storage(M, st);
    const bool spent = from < 0 && ty_needs_grad(t) && st->tape->freed;
    if (from < 0 && ty_needs_grad(t) && !spent && !I->tape)
      return ty_capture_refuse(S, "a result that needs a gradient is given back (detach it)");
    if (from >= 0) {
      if ((from = ty_capture_from(c, t)) < 0 || c->outside[from].t.st != st)
        return ty_capture_refuse(S, "gives back a tensor of unknown origin");
      m->alias = true;
      m->detached = t->detached;
      m->from = from;
      m->offset -= c->outside[from].t.offset;
      continue;
    }
    bool pending = st->recording == c->recording;
    if (st->batched) return ty_capture_refuse(S, "gives back a tensor of a vmap that has ended");
    if (!pending && !ty_capture_is_fresh(S, st))
      return ty_capture_refuse(S, "gives back a tensor of unknown origin");
    i32 node = pending ? st->node : constant_node(S, c->recording, st);
    if (node < 0) return ty_fail_memory(S, "capture", 0);
    m->from = want(M, w, n, st, node, -1, -1, 0);
    w[m->from].target.spent |= spent;
    m->detached = t->detached;
  }
  return true;
}

static void make_handles(Instance *I) {
  for (i32 i = 0; I->tape && i < I->tape->nhandle; i++) {
    const TapeHandle *h = &I->tape->handle[i];
    I->made[h->made].of_rule = true;
    I->made[h->made].from = h->value;
  }
}

typedef struct Rank {
  i32 node, write, i;
} Rank;

static int compare_ranks(const void *x, const void *y) {
  const Rank *a = x, *b = y;
  if (a->node != b->node) return a->node < b->node ? -1 : 1;
  if (a->write != b->write) return a->write < b->write ? -1 : 1;
  return a->i < b->i ? -1 : 1;
}

/* Outputs in the order of their nodes, as a key of plans needs them. place[i]: where i goes. False when out of memory. */
static bool sort_wanted(const WantedOutput *w, i32 n, i32 *place) {
  Rank *r = ty_mem_alloc(sizeof *r * (size_t)(n + 1));
  if (!r) return false;
  for (i32 i = 0; i < n; i++) r[i] = (Rank){w[i].out.node, w[i].out.write, i};
  qsort(r, (size_t)n, sizeof *r, compare_ranks);
  for (i32 k = 0; k < n; k++) place[r[k].i] = k;
  ty_mem_free(r);
  return true;
}

static bool make_scalars(State *S, Instance *I, const Graph *g) {
  Capture *c = S->capture;
  for (i32 i = 0; i < g->nscalar; i++) {
    ScalarFrom *y = &I->scalar[i];
    if (i < c->nscalar) *y = c->scalar[i];
    if (y->kind == SC_CONST) y->bits = g->scalar[i];
  }
  I->nscalar = g->nscalar;
  return true;
}

/* Whether an output depends on a parameter of a loop's body, whose function has failed. */
static bool wants_param(const Graph *g, const WantedOutput *w, i32 n) {
  i32 first = 0;
  bool wants = false;
  while (first < g->n && g->node[first].op != OP_PARAM) first++;
  if (first == g->n) return false;
  u8 *mark = ty_mem_zalloc((size_t)g->n);
  for (i32 i = first; mark && i < g->n; i++) {
    mark[i] = g->node[i].op == OP_PARAM;
    for (int j = 0; j < ty_ops[g->node[i].op].arity; j++) mark[i] |= mark[g->node[i].src[j]];
  }
  for (i32 i = 0; i < n; i++) wants |= !mark || mark[w[i].out.node];
  ty_mem_free(mark);
  return wants;
}

/* Outputs have their final places. */
static void place_values(TracedTape *T, const i32 *place) {
  for (i32 i = 0; i < T->nvalue; i++)
    if (T->value[i].kind == VALUE_TARGET) T->value[i].of = place[T->value[i].of];
  for (i32 i = 0; i < T->noutput; i++) T->output[i].target = place[T->output[i].target];
}

static bool make_plan(State *S, Instance *I, const Recording *b, WantedOutput *w, i32 n,
                      Output *out, i32 *place) {
  if (wants_param(&b->g, w, n))
    return ty_capture_refuse(S, "uses a tensor of a scan's turn outside of it");
  if (!sort_wanted(w, n, place)) return ty_fail_memory(S, "capture", 0);
  for (i32 i = 0; i < n; i++) {
    out[place[i]] = w[i].out;
    I->target[place[i]] = w[i].target;
  }
  for (i32 i = 0; i < I->nmade; i++)
    if (!I->made[i].alias && !I->made[i].of_rule) I->made[i].from = place[I->made[i].from];
  if (I->tape) place_values(I->tape, place);
  I->ntarget = n;
  return !(n || ty_graph_checks(&b->g)) || (I->plan = ty_engine_plan(S, b, out, n)) != NULL;
}

/* The plan of a graph that passes left; its inputs are those of the recording. */
static bool plan_replacement(State *S, Instance *I, const Replacement *by, WantedOutput *w, i32 n,
                             Output *out, i32 *place) {
  const Recording *b = S->capture->recording;
  const size_t ninput = (size_t)b->ninput;
  struct RecordingInput *input = ty_mem_zalloc(sizeof *input * (ninput + 1));
  i32 *node = ty_mem_alloc(sizeof *node * (ninput + (size_t)n + 1)), *wanted = node + ninput;
  bool ok = (input && node) || ty_fail_memory(S, "capture", 0);
  for (i32 i = 0; ok && i < n; i++) wanted[i] = w[i].out.node;
  const char *fault = ok ? ty_replace_fault(b, wanted, n, by, node) : NULL;
  if (fault) ok = ty_capture_refuse(S, fault);
  if (ok) {
    for (i32 i = 0; i < b->ninput; i++) input[i].node = node[i];
    Recording changed = {.g = *by->g, .S = S, .ninput = b->ninput, .input = input};
    for (i32 i = 0; i < n; i++) w[i].out.node = by->output[i];
    ok = make_plan(S, I, &changed, w, n, out, place);
  }
  ty_mem_free(input);
  ty_mem_free(node);
  return ok;
}

/* Results of a function, in the order in which they were wanted. */
static bool make_foreign(State *S, Instance *I, const WantedOutput *w, i32 n) {
  i32 *wanted = ty_mem_alloc(sizeof *wanted * (size_t)(n + 1));
  for (i32 i = 0; wanted && i < n; i++) {
    wanted[i] = w[i].out.node;
    I->target[i] = w[i].target;
  }
  I->ntarget = n;
  if (wanted) I->foreign = ty_foreign_new(S->capture->recording, wanted, n);
  ty_mem_free(wanted);
  return I->foreign || ty_fail_memory(S, "capture", 0);
}

/* Arrays of n elements each, or false. */
static bool allocate(Instance *I, const Capture *c, i32 nmade, i32 ntarget) {
  size_t ninput =
      (size_t)c->recording->ninput + (size_t)nmade; /* constants that are copied may add */
  return (I->outside = ty_mem_zalloc(sizeof *I->outside * (size_t)(c->noutside + 1))) &&
         (I->shared = ty_mem_zalloc(sizeof *I->shared * (size_t)(c->noutside + 1))) &&
         (I->input = ty_mem_zalloc(sizeof *I->input * (ninput + 1))) &&
         (I->recording.input = ty_mem_zalloc(sizeof *I->recording.input * (ninput + 1))) &&
         (I->scalar = ty_mem_zalloc(sizeof *I->scalar * (size_t)(c->recording->g.nscalar + 1))) &&
         (I->recording.g.scalar =
              ty_mem_zalloc(sizeof(u64) * (size_t)(c->recording->g.nscalar + 1))) &&
         (I->target = ty_mem_zalloc(sizeof *I->target * (size_t)(ntarget + 1))) &&
         (I->fresh = ty_mem_zalloc(sizeof(void *) * (size_t)(ntarget + 1))) &&
         (I->result = ty_mem_zalloc(sizeof(void *) * (size_t)(ntarget + 1))) &&
         (I->made = ty_mem_zalloc(sizeof *I->made * (size_t)(nmade + 1))) &&
         (I->check = ty_mem_zalloc(sizeof *I->check * (size_t)(c->ncheck + 1)));
}

/* What the tape's rules read is computed, too: once, if it is a result or the same node. */
static bool want_values(Making *M, TracedTape *T, WantedOutput *w, i32 *n) {
  u8 *given = ty_mem_zalloc((size_t)M->c->recording->g.n + 1);
  for (i32 i = 0; i < T->nvalue; i++) {
    TapeValue *v = &T->value[i];
    if (v->kind != VALUE_TARGET) continue;
    const Storage *of = v->st->snapshot;
    v->of = of ? ty_pointer_map_get(&M->wanted, of) : -1;
    v->shown = v->of >= 0;
  }
  for (i32 i = 0; given && i < *n; i++)
    if (w[i].out.node >= 0) given[w[i].out.node] = 1;
  const bool ok = given ? ty_remade_choose(M->S, T, given) : ty_fail_memory(M->S, "capture", 0);
  ty_mem_free(given);
  for (i32 i = 0; ok && i < T->nvalue; i++) {
    TapeValue *v = &T->value[i];
    if (v->kind != VALUE_TARGET) continue;
    const void *node =
        (const void *)(((uintptr_t)v->st->node << 1) + 1); /* no storage lies there */
    if (!v->shown) v->of = ty_pointer_map_get(&M->wanted, node);
    v->own = v->of >= 0;
    if (v->own) continue;
    v->of = want(M, w, n, v->st, v->st->node, -1, -1, 0);
    ty_pointer_map_add(&M->wanted, node, v->of);
  }
  for (i32 i = 0; i < T->noutput; i++)
    T->output[i].target = ty_pointer_map_get(&M->wanted, T->output[i].st);
  return ok;
}

/* What must be computed: storages that were written, then those of tensors that were made. */
static bool make_wanted(Making *M, Instance *I, const Tensor *const *made, i32 nmade,
                        WantedOutput *w, i32 *n) {
  State *S = M->S;
  const Capture *c = M->c;
  *n = 0;
  for (i32 i = 0; i < c->nwritten; i++) {
    const Written *e = &c->written[i];
    i32 from = outside_of_storage(M, e->st);
    if (from < 0) return ty_capture_refuse(S, "writes a tensor of unknown origin");
    if (e->st->recording != c->recording)
      return ty_capture_refuse(S, "writes outside of the capture");
    if (e->st->tape != e->tape)
      return ty_capture_refuse(S,
                               "a value that needs a gradient is written to a tensor from outside");
    i32 input = ty_pointer_map_get(&M->input, e->buf);
    want(M, w, n, e->st, e->st->node, input < 0 ? -2 : input, from, e->st->version - e->version);
  }
  if (!make_made(M, I, made, nmade, w, n)) return false;
  make_handles(I);
  return !I->tape || want_values(M, I->tape, w, n);
}

static bool fill(Making *M, Instance *I, const Tensor *const *made, i32 nmade, WantedOutput *w,
                 Output *out, i32 *place, const Replacement *by) {
  State *S = M->S;
  const Capture *c = M->c;
  i32 n;
  I->writes = c->nwritten > 0;
  I->streams = S->stream - c->stream;
  if (!make_wanted(M, I, made, nmade, w, &n) || !make_outside(M, I) ||
      !make_inputs(M, I, c->recording) || !make_checks(M, I) ||
      !make_scalars(S, I, &c->recording->g))
    return false;
  free_readers(I);
  list_shared(I);
  if (!by) return make_plan(S, I, c->recording, w, n, out, place);
  return by->g ? plan_replacement(S, I, by, w, n, out, place) : make_foreign(S, I, w, n);
}

bool ty_instance_outputs(State *S, const Tensor *const *made, i32 nmade, i32 *node, i32 *n) {
  const Capture *c = S->capture;
  i32 most = c->nwritten + nmade;
  Making M = {0};
  Instance *I = ty_mem_zalloc(sizeof *I);
  WantedOutput *w = ty_mem_alloc(sizeof *w * (size_t)(most + 1));
  bool ok = I && w && allocate(I, c, nmade, most);
  if (!ok) ty_fail_memory(S, "capture", 0);
  ok = ok && making_open(&M, S, most) && make_wanted(&M, I, made, nmade, w, n);
  making_close(&M);
  for (i32 i = 0; ok && i < *n; i++) node[i] = w[i].out.node;
  ty_mem_free(w);
  if (I) ty_instance_free(I);
  return ok;
}

/* Where the nodes of the plan were recorded; out of memory it is not known. */
static void keep_sites(Instance *I, const Recording *b) {
  const size_t bytes = sizeof *b->site * (size_t)b->nsite;
  if (!bytes || !(I->recording.site = ty_mem_alloc(bytes))) return;
  memcpy(I->recording.site, b->site, bytes);
  I->recording.nsite = b->nsite;
}

void ty_instance_place(const State *S, Instance *I) {
  const i32 n = I->plan ? I->plan->source->n : 0;
  void *more = ty_mem_realloc(I->recording.site, sizeof *I->recording.site * (size_t)TY_MAX(n, 1));
  I->recording.nsite = 0;
  if (!more) return;
  I->recording.site = more;
  while (I->recording.nsite < n) I->recording.site[I->recording.nsite++] = S->site;
}

static void keep_decided(Instance *I, Capture *c) {
  I->decided = c->decided;
  I->ndecided = c->ndecided;
  c->decided = NULL;
  c->ndecided = c->decided_cap = 0;
}

Instance *ty_instance_make(State *S, const Tensor *const *made, i32 nmade, const Replacement *by) {
  const Capture *c = S->capture;
  TracedTape *tape = NULL;
  if (!by && !ty_traced_tape_new(S, made, nmade, &tape)) return NULL;
  i32 most = c->nwritten + nmade + (tape ? tape->nvalue : 0);
  Making M = {0};
  Instance *I = ty_mem_zalloc(sizeof *I);
  WantedOutput *w = ty_mem_alloc(sizeof *w * (size_t)(most + 1));
  Output *out = ty_mem_zalloc(sizeof *out * (size_t)(most + 1));
  i32 *place = ty_mem_alloc(sizeof *place * (size_t)(most + 1));
  bool ok = I && w && out && place && allocate(I, c, nmade, most);
  if (!ok) ty_fail_memory(S, "capture", 0);
  if (I) I->tape = tape;
  else ty_traced_tape_drop(tape);
  ok = ok && making_open(&M, S, most + (tape ? tape->nvalue : 0)) &&
       fill(&M, I, made, nmade, w, out, place, by);
  making_close(&M);
  if (ok && !by) keep_sites(I, c->recording);
  if (ok && c->ranged) keep_decided(I, S->capture);
  if (ok && !I->plan) ty_dump_graph(&I->graph, &c->recording->g);
  ty_mem_free(w);
  ty_mem_free(out);
  ty_mem_free(place);
  if (ok) return I;
  if (I) ty_instance_free(I);
  return NULL;
}

void ty_instance_free(Instance *I) {
  for (i32 i = 0; i < I->ninput; i++)
    if (I->input[i].constant) ty_buffer_drop(I->input[i].constant);
  if (I->plan) ty_plan_drop(I->plan);
  ty_mem_free(I->outside);
  ty_mem_free(I->shared);
  ty_mem_free(I->input);
  ty_mem_free(I->recording.input);
  ty_mem_free(I->recording.g.scalar);
  ty_mem_free(I->recording.site);
  ty_mem_free(I->recording.took);
  ty_mem_free(I->scalar);
  ty_mem_free(I->target);
  ty_mem_free(I->fresh);
  ty_mem_free(I->result);
  ty_mem_free(I->made);
  ty_mem_free(I->check);
  ty_mem_free(I->size);
  ty_mem_free(I->decided);
  ty_text_free(&I->graph);
  ty_foreign_free(I->foreign);
  ty_traced_tape_drop(I->tape);
  ty_mem_free(I);
}

/* --- checking */

bool ty_tensor_has_layout(const Tensor *t, const Type *type, const i64 *strides) {
  if (!ty_type_equal(&t->type, type)) return false;
  for (int d = 0; d < type->rank; d++)
    if (t->strides[d] != strides[d] && type->dims[d] != 1) return false;
  return true;
}

static u64 hash_type(const Type *t, u64 seed) {
  return ty_hash(t->dims, sizeof *t->dims * (size_t)t->rank, seed);
}

u64 ty_instance_hash(const Tensor *const *outside, i32 n) {
  u64 hash = 0;
  for (i32 i = 0; i < n; i++) hash = hash_type(&outside[i]->type, hash);
  return hash;
}

u64 ty_instance_hash_own(const Instance *I) {
  u64 hash = 0;
  for (i32 i = 0; i < I->noutside; i++) hash = hash_type(&I->outside[i].type, hash);
  return hash;
}

bool ty_instance_fits(const Instance *I, const Tensor *const *outside) {
  for (i32 i = 0; i < I->noutside; i++) {
    const InstanceOutside *o = &I->outside[i];
    const Tensor *t = outside[i];
    if (!ty_tensor_has_layout(t, &o->type, o->strides)) return false;
    if (o->written && (t->offset != o->offset || t->st->numel != o->numel)) return false;
  }
  return true;
}

const char ty_instance_moved[] =
    "a tensor that is written, or a leaf, lies elsewhere in its memory";

/* Tensors share storages as they did. */
static bool shares(const Instance *I, const Tensor *const *outside) {
  for (i32 i = 0; i < I->nshared; i++) {
    const InstanceShared *s = &I->shared[i];
    const Tensor *t = outside[s->outside], *first = outside[s->first];
    if (t->st != first->st || t->offset - first->offset != s->delta) return false;
  }
  return true;
}

/* Rule 3: storages that were different hold different buffers where one of them is written. Buffers are marked by what
** was seen in them; a mark of this walk is above all others. */
static const char *sharing_if_strict(State *S, const Instance *I, const Tensor *const *outside) {
  u64 walk = S->walks += 2; /* + 1: it is lone */
  for (i32 i = 0; i < I->noutside; i++) {
    const InstanceOutside *o = &I->outside[i];
    const Tensor *t = outside[i];
    Buffer *buf = t->st->buf;
    if (!buf) continue; /* it is to be computed, into one of its own */
    if (buf->exposed && I->writes)
      return "memory that others see is used beside tensors that are written";
    if (o->lone && (t->offset != o->offset || t->st->numel != o->numel)) return ty_instance_moved;
    if (o->first != i) continue;
    if (buf->seen >= walk && (o->lone || buf->seen > walk))
      return "a tensor that is written shares memory with another";
    buf->seen = walk + o->lone;
  }
  return NULL;
}

static const char *sharing(State *S, const Instance *I, const Tensor *const *outside) {
  if (!shares(I, outside)) return "tensors that shared memory do not share it as they did";
  return I->strict ? sharing_if_strict(S, I, outside) : NULL;
}

bool ty_instance_shares(State *S, const Instance *I, const Tensor *const *outside) {
  return sharing(S, I, outside) == NULL;
}

static bool in_range(State *S, const InstanceCheck *k, const Tensor *outside) {
  Tensor index = {.st = outside->st, .type = k->type, .offset = outside->offset + k->delta};
  memcpy(index.strides, k->strides, sizeof index.strides);
  const char *p = ty_tensor_read(S, &index);
  return p && ty_record_bad_index(&index, p, k->size, k->base, k->skips ? &k->skip : NULL) < 0;
}

Ready ty_instance_ready(State *S, Instance *I, const Tensor *const *outside, const double *number,
                        const char **why) {
  for (const Tensor *const *t = outside, *const *end = t + I->noutside; t < end; t++) {
    Storage *st = (*t)->st;
    if (TY_UNLIKELY(!st || st->batched)) {
      *why = "a tensor was released, or belongs to a vmap";
      return READY_NO;
    }
    if (TY_UNLIKELY(st->recording != NULL) && !S->cut(S, st->recording, st)) return READY_FAILED;
  }
  if ((*why = sharing(S, I, outside)) != NULL) return READY_NO;
  if (I->tape && !ty_traced_tape_fits(S, I->tape, outside)) {
    *why = "its tensors lead to others that require grad than they did, or lie elsewhere in their "
           "memory";
    return READY_NO;
  }
  for (i32 i = 0; i < I->nscalar; i++) {
    const ScalarFrom *from = &I->scalar[i];
    if (from->kind != SC_NUMBER || ty_elem_fits(from->dtype, number[from->id])) continue;
    *why = "a number does not fit the integers that it meets";
    return READY_NO;
  }
  for (i32 i = 0; i < I->ncheck; i++) {
    if (in_range(S, &I->check[i], outside[I->check[i].outside])) continue;
    *why = "an index is out of range";
    S->out_of_range = true;
    return READY_NO;
  }
  return READY_YES;
}

/* --- running */

/* Inputs are lent: tensors from outside and constants hold them, and nobody else runs meanwhile. */
void ty_instance_bind(State *S, Instance *I, const Tensor *const *outside, const double *number) {
  Recording *b = &I->recording;
  struct RecordingInput *y = b->input;
  b->lent = true;
  b->ninput = I->ninput;
  for (const InstanceInput *in = I->input, *end = in + I->ninput; in < end; in++, y++) {
    const Tensor *t = TY_LIKELY(in->outside >= 0) ? outside[in->outside] : NULL;
    y->buf = t ? t->st->buf : in->constant;
    y->offset = t ? in->delta + t->offset : in->delta;
  }
  for (i32 i = 0; i < I->nscalar; i++) {
    const ScalarFrom *from = &I->scalar[i];
    u64 bits = from->bits;
    if (from->kind == SC_NUMBER) bits = ty_elem_scalar(from->dtype, number[from->id]);
    else if (from->kind == SC_STREAM) bits += S->stream;
    else if (from->kind == SC_SEED) bits = S->seed;
    b->g.scalar[i] = bits;
  }
}

/* A storage for a target that is no tensor from outside. */
static Storage *make_storage(State *S, const InstanceTarget *t) {
  Storage *st = ty_storage_new(S, t->dtype, t->device, t->numel);
  if (!st || TY_LIKELY(!t->spent)) return st;
  if (!(st->tape = ty_record_new(S, K_NONE, 0, NULL))) {
    ty_storage_drop(st);
    return NULL;
  }
  st->tape->freed = true;
  return st;
}

static bool make_storages(State *S, Instance *I, const Tensor *const *outside) {
  for (i32 k = 0; k < I->ntarget; k++) {
    const InstanceTarget *t = &I->target[k];
    I->fresh[k] = NULL;
    I->result[k] = NULL;
    if (t->outside >= 0) {
      I->fresh[k] = outside[t->outside]->st;
      I->result[k] = I->fresh[k]->buf;
    } else if (!(I->fresh[k] = make_storage(S, t))) {
      for (i32 j = 0; j < k; j++)
        if (I->target[j].outside < 0) ty_storage_drop(I->fresh[j]);
      return false;
    }
  }
  return true;
}

/* Nothing here can fail. The references of new storages end: handles hold them. call: its record on the tape, or NULL. */
static void settle(State *S, Instance *I, const Tensor *const *outside, Tensor *const *made,
                   Record *call) {
  for (i32 k = 0; k < I->ntarget; k++) {
    ty_storage_settle(I->fresh[k], I->result[k]);
    if (I->target[k].outside >= 0) {
      ty_storage_touch(I->fresh[k]);
      I->fresh[k]->version += I->target[k].writes;
    }
  }
  if (TY_UNLIKELY(call != NULL)) {
    ty_traced_call_settle(call, I->fresh);
    ty_record_drop(call); /* its results hold it */
  }
  for (i32 i = 0; i < I->nmade; i++) {
    const InstanceMade *m = &I->made[i];
    const Tensor *of = m->alias ? outside[m->from] : NULL;
    made[i]->type = m->type;
    made[i]->offset = m->offset + (of ? of->offset : 0);
    memcpy(made[i]->strides, m->strides, sizeof m->strides);
    made[i]->detached = m->detached;
    made[i]->origin = 0;
    made[i]->st = ty_storage_hold(of           ? of->st
                                  : m->of_rule ? call->call->saved[m->from]
                                               : I->fresh[m->from]);
  }
  for (i32 k = 0; k < I->ntarget; k++)
    if (I->target[k].outside < 0) ty_storage_drop(I->fresh[k]);
  S->stream += I->streams;
}

/* Room for what steps take; out of memory they are not timed. */
static void time_steps(Instance *I) {
  Recording *b = &I->recording;
  if (I->plan && !b->took) b->took = ty_mem_zalloc(sizeof *b->took * (size_t)(I->plan->nsteps + 1));
  if (b->took) b->ntook++;
}

bool ty_instance_begin(State *S, Instance *I, const Tensor *const *outside, const double *number) {
  Owner rules = I->rules;
  I->rules = (Owner){0};
  I->call = NULL;
  const bool stored = make_storages(S, I, outside);
  bool ok = stored;
  if (ok && I->tape)
    ok = (I->call = ty_traced_call_new(S, I->tape, outside, number, &rules)) != NULL;
  if (rules.drop) rules.drop(rules.ctx);
  if (!stored) return false;
  ty_instance_bind(S, I, outside, number);
  if (!ok) ty_instance_leave(I);
  return ok;
}

void ty_instance_leave(Instance *I) {
  I->recording.ninput = 0;
  if (I->call) ty_traced_call_forget(I->call), ty_record_drop(I->call);
  for (i32 k = 0; k < I->ntarget; k++)
    if (I->target[k].outside < 0) ty_storage_drop(I->fresh[k]);
}

void ty_instance_end(State *S, Instance *I, const Tensor *const *outside, Tensor *const *made) {
  I->recording.ninput = 0;
  settle(S, I, outside, made, I->call);
}

bool ty_instance_run(State *S, Instance *I, const Tensor *const *outside, const double *number,
                     Tensor *const *made) {
  if (!ty_instance_begin(S, I, outside, number)) return false;
  if (TY_UNLIKELY(I->recording.timed)) time_steps(I);
  const bool ok = !I->plan || ty_exec_run(S, I->plan, &I->recording, I->result);
  I->recording.timed = false;
  if (!ok) {
    ty_instance_leave(I);
    return false;
  }
  ty_instance_end(S, I, outside, made);
  return true;
}

/* n elements of so many bytes, or NULL. */
static void *copy_of(const void *p, i32 n, size_t bytes) {
  void *y = ty_mem_alloc(bytes * (size_t)(n + 1));
  if (y && n) memcpy(y, p, bytes * (size_t)n);
  return y;
}

Instance *ty_instance_copy(State *S, const Instance *I) {
  Instance *y = ty_mem_zalloc(sizeof *y);
  const size_t targets = sizeof(void *) * (size_t)(I->ntarget + 1);
  bool ok =
      y && (y->input = copy_of(I->input, I->ninput, sizeof *I->input)) &&
      (y->recording.input = ty_mem_zalloc(sizeof *I->recording.input * (size_t)(I->ninput + 1))) &&
      (y->scalar = copy_of(I->scalar, I->nscalar, sizeof *I->scalar)) &&
      (y->recording.g.scalar = ty_mem_zalloc(sizeof(u64) * (size_t)(I->nscalar + 1))) &&
      (y->target = copy_of(I->target, I->ntarget, sizeof *I->target)) &&
      (y->made = copy_of(I->made, I->nmade, sizeof *I->made)) &&
      (y->fresh = ty_mem_zalloc(targets)) && (y->result = ty_mem_zalloc(targets));
  if (!ok) {
    if (y) ty_instance_free(y);
    ty_fail_memory(S, "run", 0);
    return NULL;
  }
  y->recording.g.nscalar = I->recording.g.nscalar;
  y->writes = I->writes;
  y->streams = I->streams;
  y->ninput = I->ninput, y->nscalar = I->nscalar, y->ntarget = I->ntarget, y->nmade = I->nmade;
  for (i32 i = 0; i < y->ninput; i++)
    if (y->input[i].constant) ty_buffer_hold(y->input[i].constant);
  if ((y->plan = I->plan)) ty_plan_hold(y->plan);
  if ((y->tape = I->tape)) y->tape->refs++;
  return y;
}

bool ty_instance_give(State *S, Instance *I, const Tensor *const *outside, Tensor *const *made,
                      Buffer *const *result) {
  if (!make_storages(S, I, outside)) return false;
  for (i32 k = 0; k < I->ntarget; k++) I->result[k] = result[k];
  settle(S, I, outside, made, NULL);
  return true;
}
