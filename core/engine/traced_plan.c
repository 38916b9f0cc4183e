/*
** traced_plan.c -- how a plan for the backward pass through a call is made.
** In: a call that a trace answered, its rows that the pass reaches, and what is on its way to whom. Out: a plan for that
** pass. Fails out of memory; there is none where the pass cannot be recorded.
**
** A plan is the pass itself, as it is recorded in a capture over stand-ins: the rows of the call's tape are made of
** them, and backward.c goes along these. Where the tape is for a range of sizes so is the plan (shape_range.c): it is made
** of five samples, one each time that it is asked for.
*/
#include "engine/remade.h"
#include "engine/traced_plan.h"
#include "ir/site.h"

static void drop_samples(BackPlan *p) {
  for (i32 i = 0; i < RANGE_SAMPLES; i++)
    if (p->sample[i]) ty_instance_free(p->sample[i]);
  memset(p->sample, 0, sizeof p->sample);
  p->nsample = 0;
}

void ty_back_plan_free(BackPlan *p) {
  drop_samples(p);
  if (p->range) ty_shape_range_free(p->range);
  if (p->I) ty_instance_free(p->I);
  ty_mem_free(p);
}

BackPlan *ty_back_plan_new(const TracedTape *T, const u8 *key, u64 word) {
  const size_t leads = (size_t)ty_tape_leads(T), n = (size_t)T->noutput + leads;
  BackPlan *p = ty_mem_zalloc(sizeof *p + ((size_t)T->nvalue + n + leads) * sizeof(i32) + n);
  if (!p) return NULL;
  p->in = (i32 *)(p + 1);
  p->give = p->in + T->nvalue + n;
  p->key = (u8 *)(p->give + leads);
  memcpy(p->key, key, n);
  p->word = word;
  return p;
}

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
  BackPlan *p;
  Instance **y;
  i32 nlead;
  Tensor *in; /* stand-ins, as p->in */
  Storage **saved;
  Record **lead, **made; /* of rows: among those made */
  Tensor *result;        /* of the pass: dense */
} Making;

/* All that the storage holds whose gradient goes to a row. */
static Type row_type(const TracedTape *T, i32 i) {
  const TapeRow *r = &T->row[i];
  const i64 n = r->kind == OP_PUT ? T->edge[r->edge].like.numel : ty_type_numel(&r->t.type);
  return ty_type_line(r->t.type.dtype, r->t.type.device, n);
}

Type ty_back_plan_type(const TracedTape *T, i32 what) {
  const i32 k = what - T->nvalue, lead = k - T->noutput;
  if (k < T->noutput) return T->output[k].all;
  if (lead >= T->nroot) return row_type(T, lead - T->nroot);
  for (i32 i = 0; i < T->nleading; i++)
    if (T->leading[i].root == lead) return T->leading[i].all;
  return (Type){0};
}

static bool make_stand_ins(Making *M) {
  const TracedTape *T = M->c->tape;
  for (i32 i = 0; i < M->p->nin; i++) {
    const i32 what = M->p->in[i];
    const TapeValue *v = &T->value[what];
    const bool is_value = what < T->nvalue;
    const Type line = is_value ? v->type : ty_back_plan_type(T, what);
    const i64 step[MAX_RANK] = {1};
    const bool ok = is_value && v->from >= T->nrow
                        ? stand_in_place(M->S, T, what, &M->in[i])
                        : stand_in(M->S, &line, is_value ? v->strides : step, &M->in[i]);
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

/* Who is asked for, and what begins with which gradient. */
static bool begin(Making *M, Back *b) {
  const TracedTape *T = M->c->tape;
  bool ok = true;
  for (i32 k = 0; k < M->nlead; k++) {
    if (k >= T->nroot) M->lead[k] = M->made[k - T->nroot];
    if (M->p->key[T->noutput + k] & LEAD_ASKED)
      b->wanted[b->nwanted++].r = ty_record_hold(M->lead[k]);
  }
  for (i32 i = 0; ok && i < M->p->nin; i++) {
    const i32 what = M->p->in[i] - T->nvalue;
    if (what >= 0)
      ok = ty_back_add(
          b, what < T->noutput ? M->made[T->output[what].from] : M->lead[what - T->noutput],
          &M->in[i]);
  }
  return ok;
}

/* Of each that was asked for the gradient that came. */
static bool take_results(Making *M, const Back *b) {
  const TracedTape *T = M->c->tape;
  i32 n = 0;
  M->p->ngive = 0;
  for (i32 k = 0; k < M->nlead; k++) {
    if (!(M->p->key[T->noutput + k] & LEAD_ASKED)) continue;
    const Tensor *g = &b->wanted[n++].g;
    if (!g->st) continue;
    if (!make_dense(M->S, g, &M->result[M->p->ngive])) return false;
    M->p->give[M->p->ngive++] = k;
  }
  return true;
}

/* The pass over the records, from what is given to what is asked for. */
static bool go_back(Making *M, i64 *offset) {
  State *S = M->S;
  const TracedTape *T = M->c->tape;
  const u64 seq = S->record_seq;
  Back b = {.S = S,
            .retain = true,
            .custom = M->by->custom,
            .thread = M->by->thread,
            .pinned = M->by->pinned,
            .floor = seq + 1 + (u64)M->p->first};
  if (!(b.wanted = ty_mem_zalloc(sizeof *b.wanted * (size_t)(M->nlead + 1))))
    return ty_fail_memory(S, "backward", 0);
  S->record_seq += (u64)T->nrow;
  const bool rows =
      ty_traced_rows(S, T, seq, M->saved, M->lead, offset, NULL, M->c->freed, NULL, M->made);
  const bool ok = rows && begin(M, &b) && go_on(&b) && take_results(M, &b);
  for (i32 i = 0; rows && i < T->nrow; i++) ty_record_drop(M->made[i]);
  ty_back_free(&b);
  return ok;
}

/* In a capture over the stand-ins. */
static bool record_pass(Making *M) {
  State *S = M->S;
  const TracedTape *T = M->c->tape;
  i64 *offset = ty_mem_zalloc(sizeof *offset * (size_t)(T->nvalue + 1));
  const Tensor **made = ty_mem_zalloc(sizeof *made * (size_t)(M->nlead + 1));
  bool ok = (offset && made) || ty_fail_memory(S, "backward", 0);
  for (i32 k = 0; ok && k < T->nroot; k++)
    ok = (M->lead[k] = ty_record_new(S, K_WATCH, 0, NULL)) != NULL;
  for (i32 i = 0; ok && i < M->p->nin; i++) {
    ok = ty_capture_outside(S, &M->in[i], i + 1);
    if (ok && M->p->in[i] < T->nvalue) offset[M->p->in[i]] = M->in[i].offset;
  }
  if (!M->p->part) ok = ok && ty_remade_record(S, T, M->c->read, offset, M->saved);
  ok = ok && go_back(M, offset);
  for (i32 i = 0; ok && i < M->p->ngive; i++) made[i] = &M->result[i];
  if (ok && !S->capture->refused && !S->capture->nwhole) {
    *M->y = ty_instance_make(S, made, M->p->ngive, NULL);
    ok = *M->y != NULL;
  }
  for (i32 k = 0; k < M->nlead; k++) ty_tensor_release(&M->result[k]);
  for (i32 k = 0; k < T->nroot; k++)
    if (M->lead[k]) ty_record_drop(M->lead[k]);
  ty_mem_free(offset);
  ty_mem_free(made);
  return ok || S->capture->refused || !S->memory;
}

/* Values that are remade by the plan: held for it alone. */
static void drop_remade(const Making *M) {
  const TracedTape *T = M->c->tape;
  for (i32 v = 0; M->saved && !M->p->part && v < T->nvalue; v++)
    if (T->value[v].kind == VALUE_REMADE) ty_storage_drop(M->saved[v]);
}

/* *y: a plan for the sizes that the tape is for; it stays NULL where there can be none. choices: of a sample of a range, or
** NULL. False: out of memory. */
static bool plan_make(State *S, const Back *by, const TracedCall *c, BackPlan *p, Choices *choices,
                      Instance **y) {
  const TracedTape *T = c->tape;
  Making M = {.S = S, .by = by, .c = c, .p = p, .y = y, .nlead = ty_tape_leads(T)};
  Lazy like = {.thread = by->thread, .pinned = by->pinned}, *z = NULL;
  const size_t nlead = (size_t)M.nlead;
  M.in = ty_mem_zalloc(sizeof *M.in * ((size_t)(T->nvalue + T->noutput + 1) + nlead));
  M.saved = ty_mem_zalloc(sizeof *M.saved * (size_t)(T->nvalue + 1));
  M.lead = ty_mem_zalloc(sizeof *M.lead * (nlead + (size_t)T->nrow + 1));
  M.result = ty_mem_zalloc(sizeof *M.result * (nlead + 1));
  M.made = M.lead + nlead;
  bool ok = (M.in && M.saved && M.lead && M.result) || ty_fail_memory(S, "backward", 0);
  ok = ok && make_stand_ins(&M) &&
       ((z = ty_lazy_open(S, &like)) != NULL || ty_fail_memory(S, "backward", 0));
  if (ok && (ok = ty_capture_begin(S, z->open))) {
    S->engine->choices = choices;
    S->capture->ranged = choices != NULL;
    ok = record_pass(&M);
    S->engine->choices = NULL;
    ty_capture_end(S);
  }
  if (z) ty_lazy_abandon(S, z);
  for (i32 i = 0; M.in && i < p->nin; i++) ty_tensor_release(&M.in[i]);
  drop_remade(&M);
  ty_mem_free(M.in);
  ty_mem_free(M.saved);
  ty_mem_free(M.lead);
  ty_mem_free(M.result);
  return ok;
}

/* The samples become a range; where they cannot, calls are to have tapes for their own sizes. */
static void join(TracedTape *T, BackPlan *p) {
  const RangeNumbers known = {.given = T->sizes->given, .ngiven = T->sizes->ngiven};
  const char *why = NULL;
  p->range = ty_shape_range_make(p->sample, T->sizes->last, &known, &why);
  if (p->range) p->sample[RANGE_SAMPLES - 1] = NULL;
  T->sizes->unfit = why;
  drop_samples(p);
  p->made = true;
}

/* The next sample of a plan for a range. False: out of memory. */
static bool sample_make(State *S, const Back *by, TracedCall *c, BackPlan *p) {
  TracedTape *T = c->tape;
  const size_t bytes = sizeof *p->give * (size_t)p->ngive;
  const i32 ngive = p->ngive, k = (p->nsample + RANGE_SAMPLES - 1) % RANGE_SAMPLES;
  i32 *give = ty_mem_alloc(bytes + 1); /* by the first sample */
  if (!give) return ty_fail_memory(S, "backward", 0);
  if (bytes) memcpy(give, p->give, bytes);
  ty_traced_tape_at(T, ty_range_sample(k, T->sizes->last));
  ty_choices_begin(&p->choices, !p->nsample);
  Instance *y = NULL;
  const bool ok = plan_make(S, by, c, p, &p->choices, &y);
  const bool same = !p->nsample || (ngive == p->ngive && (!bytes || !memcmp(give, p->give, bytes)));
  ty_mem_free(give);
  ty_traced_tape_at(T, c->t);
  if (!ok) return false;
  p->made = !y || !same;
  if (!same) T->sizes->unfit = ty_range_differ;
  if (y) p->sample[k] = y, p->nsample++;
  if (p->made) drop_samples(p);
  else if (p->nsample == RANGE_SAMPLES) join(T, p);
  return true;
}

bool ty_back_plan_make(State *S, const Back *by, TracedCall *c, BackPlan *p) {
  if (c->tape->sizes) return sample_make(S, by, c, p);
  return p->made = plan_make(S, by, c, p, NULL, &p->I);
}

Instance *ty_back_plan_at(BackPlan *p, i64 t) {
  if (!p->range) return p->I;
  if (!ty_shape_range_has(p->range, t)) return NULL;
  ty_shape_range_set(p->range, t);
  return p->range->I;
}
