/*
** traced_back.c -- plans for the backward pass through calls that traces answered.
** In: a backward pass that waits at a CALL record. Out: the gradients of its roots, from a plan; where there can be none
** the call is expanded, and the pass goes on along its records. Fails out of memory; then it may be asked again.
**
** A plan is the pass itself, as it is recorded in a capture over stand-ins: the rows of the call's tape are made of
** them, and backward.c goes along these. What is on its way to a root already is a value that the plan is given and
** adds to, in the order of the pass. So there is a plan for each set of results that have gradients, of roots that are
** asked for, and of those that something is on its way to. Where the tape is for a range of sizes so is the plan
** (shape_range.c): it is made of five samples, one in each pass that comes before it is there.
*/
#include "ir/site.h"
#include "engine/entry.h"
#include "engine/remade.h"
#include "engine/shape_range.h"
#include "record/traced_call.h"

enum { ROOT_ASKED = 1, ROOT_RUNNING = 2 };

typedef struct BackPlan {
  struct BackPlan *next;
  Instance *I;       /* NULL: none can be made, or ... */
  ShapeRange *range; /* ... it is this one's */
  Instance *sample[RANGE_SAMPLES];
  i32 nsample;
  bool made; /* all that can be */
  u32 word;       /* of the settings that it was made under */
  i32 nin, nread; /* nread: values, which stand first */
  bool all;       /* every row is reached */
  u8 *key;        /* by output, by root */
  i32 *in;        /* values; behind their count outputs' gradients; behind these the roots' */
  i32 *given;     /* by root: number among what is made, or -1 */
} BackPlan;

static void drop_samples(BackPlan *p) {
  for (i32 i = 0; i < p->nsample; i++)
    if (p->sample[i]) ty_instance_free(p->sample[i]);
  p->nsample = 0;
}

static void plan_free(BackPlan *p) {
  drop_samples(p);
  if (p->range) ty_shape_range_free(p->range);
  if (p->I) ty_instance_free(p->I);
  ty_mem_free(p);
}

static void plans_drop(void *ctx) {
  for (BackPlan *p = ctx, *next; p; p = next) {
    next = p->next;
    plan_free(p);
  }
}

static BackPlan *plan_new(const TracedTape *T, const u8 *key, u32 word) {
  const size_t n = (size_t)(T->noutput + T->nroot), ints = (size_t)T->nvalue + n + (size_t)T->nroot;
  BackPlan *p = ty_mem_zalloc(sizeof *p + ints * sizeof(i32) + n);
  if (!p) return NULL;
  p->in = (i32 *)(p + 1);
  p->given = p->in + T->nvalue + n;
  p->key = (u8 *)(p->given + T->nroot);
  memcpy(p->key, key, n);
  p->word = word;
  return p;
}

/* --- making */

/* Where elements before the first one of a view begin. */
static i64 lowest(const Type *t, const i64 *strides) {
  i64 y = 0;
  for (int d = 0; d < t->rank; d++)
    if (strides[d] < 0 && t->dims[d] > 0) y += strides[d] * (t->dims[d] - 1);
  return y;
}

static i64 extent(const Type *t, const i64 *strides) {
  i64 y = 1;
  for (int d = 0; d < t->rank; d++) {
    if (!t->dims[d]) return 0;
    y += (strides[d] < 0 ? -strides[d] : strides[d]) * (t->dims[d] - 1);
  }
  return y;
}

/* A tensor of that layout whose contents nobody reads. */
static bool stand_in(State *S, const Type *t, const i64 *strides, Tensor *y) {
  const Type line = ty_type_line(t->dtype, t->device, extent(t, strides));
  if (!ty_tensor_from(S, y, &line, NULL)) return false;
  y->type = *t;
  y->offset = -lowest(t, strides);
  memcpy(y->strides, strides, sizeof y->strides);
  return true;
}

/* The same of value v, a tensor that leads to a root: its gradient belongs to that place of all of its storage. */
static bool stand_in_place(State *S, const TracedTape *T, i32 v, Tensor *y) {
  const TapeValue *from = &T->value[v];
  const TapeRoot *root = from->kind == VALUE_OUTSIDE ? ty_traced_tape_leading(T, from->of) : NULL;
  if (!root) return stand_in(S, &from->type, from->strides, y);
  if (!ty_tensor_from(S, y, &root->all, NULL)) return false;
  y->type = from->type;
  y->offset = root->offset;
  memcpy(y->strides, from->strides, sizeof y->strides);
  return true;
}

typedef struct Making {
  State *S;
  const Back *by; /* the pass that asks */
  const TracedCall *c;
  const u8 *key;
  BackPlan *p;
  Instance **y;
  Tensor *in; /* stand-ins, as p->in */
  Storage **saved;
  Record **root, **made;
  Tensor *result; /* of the pass: dense */
} Making;

static void add_in(Making *M, i32 what) { M->p->in[M->p->nin++] = what; }

/* Which values are read on the way, which gradients come; the rows on it are marked. */
static void list_in(Making *M) {
  const TracedTape *T = M->c->tape;
  M->p->all = true;
  for (i32 i = 0; i < T->nrow; i++) M->p->all &= M->c->row[i] || T->row[i].kind == K_WATCH;
  ty_traced_call_reads(M->c, false);
  for (i32 v = 0; v < T->nvalue; v++)
    if (M->c->read[v] && T->value[v].kind != VALUE_REMADE) add_in(M, v);
  M->p->nread = M->p->nin;
  for (i32 k = 0; k < T->noutput; k++)
    if (M->key[k]) add_in(M, T->nvalue + k);
  for (i32 k = 0; k < T->nroot; k++)
    if (M->key[T->noutput + k] & ROOT_RUNNING) add_in(M, T->nvalue + T->noutput + k);
}

/* The dims of what the plan is given, which is no value: a gradient, flat. */
static Type type_given(const TracedTape *T, i32 what) {
  const i32 k = what - T->nvalue;
  if (k < T->noutput) return T->output[k].all;
  for (i32 i = 0; i < T->nleading; i++)
    if (T->leading[i].root == k - T->noutput) return T->leading[i].all;
  return (Type){0};
}

static bool make_stand_ins(Making *M) {
  const TracedTape *T = M->c->tape;
  for (i32 i = 0; i < M->p->nin; i++) {
    const i32 what = M->p->in[i];
    const TapeValue *v = &T->value[what];
    const bool is_value = what < T->nvalue;
    const Type line = is_value ? v->type : type_given(T, what);
    const bool ok = is_value && v->from >= T->nrow
                        ? stand_in_place(M->S, T, what, &M->in[i])
                        : stand_in(M->S, &line, is_value ? v->strides : (i64[MAX_RANK]){1}, &M->in[i]);
    if (!ok) return false;
    if (is_value) M->in[i].st->frozen = true, M->saved[what] = M->in[i].st;
  }
  return true;
}

/* A gradient in a storage of its own, since who gets it may keep it. */
static bool make_dense(State *S, const Tensor *g, Tensor *y) {
  const bool dense = g->st->recording == S->capture->recording && !g->offset &&
                     g->st->numel == ty_type_numel(&g->type) && ty_tensor_is_contiguous(g) &&
                     !ty_capture_holds(S, g->st);
  if (!dense) return ty_record_copy(S, g, y);
  ty_tensor_alias(y, g);
  return true;
}

/* To the end, also through functions with rules of their own. */
static bool go_on(Back *b) {
  const i32 site = b->S->site;
  BackState y;
  while ((y = ty_back_step(b)) == BACK_CUSTOM) {
    b->S->site = b->at->r->site ? b->at->r->site | SITE_BACK : site;
    bool ok = b->custom(b);
    b->S->site = site;
    if (!ok) break;
    ty_back_pass(b);
  }
  return y == BACK_DONE;
}

/* The pass over the records, from what is given to what is asked for. */
static bool go_back(Making *M, i64 *offset) {
  State *S = M->S;
  const TracedTape *T = M->c->tape;
  Back b = {.S = S,
            .retain = true,
            .custom = M->by->custom,
            .thread = M->by->thread,
            .pinned = M->by->pinned};
  const u64 seq = S->record_seq;
  bool ok = true;
  if (!(b.wanted = ty_mem_zalloc(sizeof *b.wanted * (size_t)(T->nroot + 1))))
    return ty_fail_memory(S, "backward", 0);
  S->record_seq += (u64)T->nrow;
  b.floor = seq + 1;
  for (b.nwanted = 0; b.nwanted < T->nroot; b.nwanted++)
    if (M->key[T->noutput + b.nwanted] & ROOT_ASKED)
      b.wanted[b.nwanted].r = ty_record_hold(M->root[b.nwanted]);
  ok = ty_traced_rows(S, T, seq, M->saved, M->root, offset, NULL, M->c->freed, NULL, M->made);
  const bool rows = ok;
  for (i32 i = 0; ok && i < M->p->nin; i++) {
    const i32 what = M->p->in[i] - T->nvalue;
    if (what < 0) continue;
    Record *r = what < T->noutput ? M->made[T->output[what].from] : M->root[what - T->noutput];
    ok = ty_back_add(&b, r, &M->in[i]);
  }
  ok = ok && go_on(&b);
  i32 n = 0;
  for (i32 k = 0; ok && k < T->nroot; k++) {
    const Tensor *g = &b.wanted[k].g;
    M->p->given[k] = -1;
    if (g->st && (ok = make_dense(S, g, &M->result[n]))) M->p->given[k] = n++;
  }
  for (i32 i = 0; rows && i < T->nrow; i++) ty_record_drop(M->made[i]);
  ty_back_free(&b);
  return ok;
}

/* In a capture over the stand-ins. */
static bool record_pass(Making *M) {
  State *S = M->S;
  const TracedTape *T = M->c->tape;
  i64 *offset = ty_mem_zalloc(sizeof *offset * (size_t)(T->nvalue + 1));
  const Tensor **made = ty_mem_zalloc(sizeof *made * (size_t)(T->nroot + 1));
  bool ok = (offset && made) || ty_fail_memory(S, "backward", 0);
  i32 n = 0;
  for (; ok && n < T->nroot; n++) ok = (M->root[n] = ty_record_new(S, K_WATCH, 0, NULL)) != NULL;
  for (i32 i = 0; ok && i < M->p->nin; i++) {
    ok = ty_capture_outside(S, &M->in[i], i + 1);
    if (ok && M->p->in[i] < T->nvalue) offset[M->p->in[i]] = M->in[i].offset;
  }
  ok = ok && ty_remade_record(S, T, M->c->read, offset, M->saved) && go_back(M, offset);
  for (n = 0; ok && n < T->nroot && M->result[n].st; n++) made[n] = &M->result[n];
  if (ok && !S->capture->refused && !S->capture->nwhole) {
    *M->y = ty_instance_make(S, made, n, NULL);
    ok = *M->y != NULL;
  }
  for (n = 0; n < T->nroot; n++) {
    ty_tensor_release(&M->result[n]);
    if (M->root[n]) ty_record_drop(M->root[n]);
  }
  ty_mem_free(offset);
  ty_mem_free(made);
  return ok || S->capture->refused || !S->memory;
}

/* *y: a plan for the sizes that the tape is for; it stays NULL where there can be none. False: out of memory. */
static bool plan_make(State *S, const Back *b, BackPlan *p, bool ranged, Instance **y) {
  const TracedCall *c = b->at->r->call;
  const TracedTape *T = c->tape;
  Making M = {.S = S, .by = b, .c = c, .key = p->key, .p = p, .y = y};
  Lazy like = {.thread = b->thread, .pinned = b->pinned}, *z = NULL;
  M.in = ty_mem_zalloc(sizeof *M.in * (size_t)(T->nvalue + T->noutput + T->nroot + 1));
  M.saved = ty_mem_zalloc(sizeof *M.saved * (size_t)(T->nvalue + 1));
  M.root = ty_mem_zalloc(sizeof *M.root * (size_t)(T->nroot + T->nrow + 1));
  M.result = ty_mem_zalloc(sizeof *M.result * (size_t)(T->nroot + 1));
  M.made = M.root + T->nroot;
  bool ok = (M.in && M.saved && M.root && M.result) || ty_fail_memory(S, "backward", 0);
  ok = ok && make_stand_ins(&M) && (z = ty_lazy_open(S, &like)) != NULL;
  if (ok && (ok = ty_capture_begin(S, z->open))) {
    S->capture->ranged = S->engine->ranged = ranged;
    ok = record_pass(&M);
    S->engine->ranged = false;
    ty_capture_end(S);
  }
  if (z) ty_lazy_abandon(S, z);
  for (i32 i = 0; M.in && i < p->nin; i++) ty_tensor_release(&M.in[i]);
  for (i32 v = 0; M.saved && v < T->nvalue; v++)
    if (T->value[v].kind == VALUE_REMADE) ty_storage_drop(M.saved[v]);
  ty_mem_free(M.in);
  ty_mem_free(M.saved);
  ty_mem_free(M.root);
  ty_mem_free(M.result);
  return ok;
}

/* The samples become a range; where they cannot, calls are to have tapes for their own sizes. */
static void join(TracedTape *T, BackPlan *p) {
  const RangeNumbers known = {.given = T->sizes->given, .ngiven = T->sizes->ngiven};
  const char *why;
  p->range = ty_shape_range_make(p->sample, T->sizes->last, &known, &why);
  if (p->range) p->sample[RANGE_SAMPLES - 1] = NULL;
  T->sizes->unfit = !p->range;
  drop_samples(p);
  p->made = true;
}

/* The next sample of a plan for a range. False: out of memory. */
static bool sample_make(State *S, const Back *b, BackPlan *p) {
  const TracedCall *c = b->at->r->call;
  TracedTape *T = c->tape;
  const size_t bytes = sizeof *p->given * (size_t)T->nroot;
  i32 *given = ty_mem_alloc(bytes + 1); /* by the first sample */
  if (!given) return ty_fail_memory(S, "backward", 0);
  if (bytes) memcpy(given, p->given, bytes);
  ty_traced_tape_at(T, ty_range_sample(p->nsample, T->sizes->last));
  Instance *y = NULL;
  const bool ok = plan_make(S, b, p, true, &y);
  const bool same = !p->nsample || !bytes || !memcmp(given, p->given, bytes);
  ty_mem_free(given);
  ty_traced_tape_at(T, c->t);
  if (!ok) return false;
  p->made = !y || !same;
  T->sizes->unfit |= !same;
  if (y) p->sample[p->nsample++] = y;
  if (p->made) drop_samples(p);
  else if (p->nsample == RANGE_SAMPLES) join(T, p);
  return true;
}

/* --- running */

/* The gradient g, flat and dense. */
static bool flatten(State *S, const Tensor *g, Tensor *y) {
  Tensor own = {0};
  if (ty_tensor_is_contiguous(g)) ty_tensor_alias(&own, g);
  else if (!ty_record_copy(S, g, &own)) return false;
  const Type line = ty_type_line(g->type.dtype, g->type.device, ty_type_numel(&g->type));
  ty_tensor_view(y, &own, &line, own.offset, &(i64){1});
  ty_tensor_release(&own);
  return true;
}

/* What plans differ by; false: no plan will do. */
static bool find_key(const Back *b, u8 *key, const Tensor **running) {
  const TracedCall *c = b->at->r->call;
  const TracedTape *T = c->tape;
  for (i32 i = 0; i < T->noutput; i++) {
    const Tensor *g = &b->at->part[i];
    key[i] = g->st != NULL;
    if (g->st && g->st->batched) return false;
  }
  for (i32 i = 0; i < T->nroot; i++) {
    bool asked;
    running[i] = ty_back_running(b, c->root[i], &asked);
    key[T->noutput + i] = (u8)((asked ? ROOT_ASKED : 0) | (asked && running[i] ? ROOT_RUNNING : 0));
    if (running[i] && running[i]->st->batched) return false;
  }
  return true;
}

/* Values that nobody has written since, of what is reached. */
static bool is_whole(const TracedCall *c) {
  const TracedTape *T = c->tape;
  for (i32 i = 0; i < T->nedge; i++) {
    const i32 v = T->edge[i].value;
    if (v < 0 || !c->row[T->edge[i].row] || T->value[v].kind == VALUE_REMADE) continue;
    if (!c->saved[v] || c->saved[v]->stale) return false;
  }
  return true;
}

/* The same of what a plan reads. */
static bool is_there(const TracedCall *c, const BackPlan *p) {
  for (i32 i = 0; i < p->nread; i++) {
    const Storage *st = c->saved[p->in[i]];
    if (!st || st->stale) return false;
  }
  return true;
}

static BackPlan *plan_find(const TracedTape *T, const u8 *key, u32 word, i32 *n) {
  BackPlan *p = T->plans.ctx;
  for (*n = 0; p; p = p->next, ++*n)
    if (p->word == word && !memcmp(p->key, key, (size_t)(T->noutput + T->nroot))) break;
  return p;
}

i32 ty_traced_plans(const TracedTape *T, TracedPlan *y) {
  i32 n = 0;
  for (const BackPlan *p = T->plans.ctx; p; p = p->next) {
    const Instance *I = p->range ? p->range->I : p->I;
    const Plan *plan = I ? I->plan : NULL;
    if (!p->made) continue; /* a range's, of which there are not all samples yet */
    y[n] = (TracedPlan){0};
    if (plan) y[n] = (TracedPlan){plan->nops, plan->nkernels, plan->nsteps};
    n++;
  }
  return n;
}

/* What the plan is given, in its order; flat: of gradients. */
static void bind(const TracedCall *c, const BackPlan *p, Tensor *flat, const Tensor **in) {
  for (i32 i = 0; i < p->nin; i++) {
    in[i] = &flat[i];
    if (p->in[i] >= c->tape->nvalue) continue;
    const TapeValue *v = &c->tape->value[p->in[i]];
    flat[i] = (Tensor){
        .st = ty_storage_hold(c->saved[p->in[i]]), .type = v->type, .offset = c->offset[p->in[i]]};
    memcpy(flat[i].strides, v->strides, sizeof v->strides);
  }
}

/* The plan's results go to the roots; false: S->err, and it can be done again. */
static bool run(State *S, Back *b, const BackPlan *p, Instance *I, const Tensor *const *in,
                Tensor *result, Tensor **made, bool *done) {
  const TracedCall *c = b->at->r->call;
  const char *why;
  const Ready ready = ty_instance_ready(S, I, in, c->number, &why);
  if (ready != READY_YES) return ready == READY_NO;
  for (i32 i = 0; i < c->tape->nroot; i++) made[i] = &result[i];
  const u64 seed = S->seed, stream = S->stream;
  S->seed = c->seed; /* what it draws again the call has drawn */
  S->stream = c->stream;
  const bool ok = ty_instance_run(S, I, in, c->number, made);
  S->seed = seed;
  S->stream = stream;
  if (!ok) return false;
  for (i32 i = 0; i < c->tape->nroot; i++) /* all or none, or one would be added to twice */
    if (p->given[i] >= 0 && !ty_back_await(b, c->root[i])) return false;
  for (i32 i = 0; i < c->tape->nroot; i++)
    if (p->given[i] >= 0) ty_back_put(b, c->root[i], &result[p->given[i]]);
  *done = true;
  return true;
}

/* The instance for calls of these sizes; NULL: there is none. */
static Instance *instance_at(BackPlan *p, i64 t) {
  if (!p->range) return p->I;
  if (!ty_shape_range_has(p->range, t)) return NULL;
  ty_shape_range_set(p->range, t);
  return p->range->I;
}

/* What was noted of the pass at hand for this plan, or for a new one. NULL: there can be none, or *ok false. */
static BackPlan *plan_begin(State *S, const Back *b, BackPlan *p, const u8 *key, u32 word, bool *ok) {
  TracedCall *c = b->at->r->call;
  ty_back_reach(b);
  if (!is_whole(c) || ty_traced_call_has_rules(c)) return NULL;
  if (p) {
    ty_traced_call_reads(c, false);
    return p;
  }
  if (!(p = plan_new(c->tape, key, word))) {
    *ok = ty_fail_memory(S, "backward", 0);
    return NULL;
  }
  list_in(&(Making){.S = S, .c = c, .key = key, .p = p});
  return p;
}

/* The gradients that the plan is given; *fits: they are as the tape has them. False: out of memory. */
static bool take_given(State *S, const Back *b, const BackPlan *p, Tensor *flat, const Tensor **in,
                       const Tensor *const *running, bool *fits) {
  const TracedTape *T = b->at->r->call->tape;
  for (i32 i = 0; i < p->nin; i++) {
    const i32 k = p->in[i] - T->nvalue;
    in[i] = &flat[i];
    if (k < 0) continue;
    if (!flatten(S, k < T->noutput ? &b->at->part[k] : running[k - T->noutput], &flat[i])) return false;
    const Type type = type_given(T, p->in[i]);
    *fits &= ty_type_equal(&type, &flat[i].type);
  }
  return true;
}

/* By a plan; *done stays false where there is none. */
static bool by_plan(State *S, Back *b, u8 *key, Tensor *flat, const Tensor **in, Tensor **made,
                    const Tensor **running, bool *done) {
  TracedCall *c = b->at->r->call;
  TracedTape *T = c->tape;
  const u32 word = ty_entry_word(S);
  i32 n;
  bool ok = true, fits = true;
  ty_traced_tape_at(T, c->t);
  if (!find_key(b, key, running)) return true;
  BackPlan *found = plan_find(T, key, word, &n), *p = found;
  if (p ? !is_there(c, p) : n >= TRACED_PLANS) return true;
  if (!p || !p->made) p = plan_begin(S, b, p, key, word, &ok);
  if (!p) return ok;
  ok = take_given(S, b, p, flat, in, running, &fits);
  if (ok && fits && !p->made) {
    ok = T->sizes ? sample_make(S, b, p) : plan_make(S, b, p, false, &p->I);
    p->made |= ok && !T->sizes;
  }
  if (!found && ok && fits) {
    p->next = T->plans.ctx;
    T->plans = (Owner){plans_drop, p};
  } else if (!found) plan_free(p);
  Instance *I = ok && fits ? instance_at(p, c->t) : NULL;
  if (!I) return ok;
  bind(c, p, flat, in);
  ok = run(S, b, p, I, in, flat + T->nvalue + T->noutput + T->nroot, made, done);
  c->all = p->all && *done;
  return ok;
}

bool ty_traced_back(State *S, Back *b) {
  if (!ty_back_may_plan(b)) return ty_remade_restore(S, b->at->r->call) && ty_back_expand(b);
  TracedTape *T = b->at->r->call->tape;
  const size_t nin = (size_t)(T->nvalue + T->noutput + T->nroot), nroot = (size_t)T->nroot;
  const size_t tensors = nin + nroot, pointers = nin + 2 * nroot;
  Tensor *flat = T->room
                     ? T->room
                     : ty_mem_alloc(tensors * sizeof *flat + pointers * sizeof(void *) + nin + 1);
  if (!flat) return ty_fail_memory(S, "backward", 0);
  T->room = NULL; /* for no other pass meanwhile */
  T->refs++;
  for (size_t i = 0; i < tensors; i++) flat[i].st = NULL;
  const Tensor **in = (const Tensor **)(flat + tensors), **running = in + nin;
  Tensor **made = (Tensor **)(running + nroot);
  const bool mode = S->grad_mode;
  bool done = false;
  ty_grad_set_mode(S, false);
  bool ok = by_plan(S, b, (u8 *)(made + nroot), flat, in, made, running, &done);
  ty_grad_set_mode(S, mode);
  for (size_t i = 0; i < tensors; i++) ty_tensor_release(&flat[i]);
  ty_mem_free(T->room);
  T->room = flat;
  ty_traced_tape_drop(T);
  if (!ok) return false;
  if (!done) return ty_remade_restore(S, b->at->r->call) && ty_back_expand(b);
  ty_back_pass(b);
  return true;
}
