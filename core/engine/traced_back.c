/*
** traced_back.c -- backward passes through calls that traces answered, by plans.
** In: a backward pass that waits at a CALL record. Out: the gradients of its roots, from a plan; where there can be none
** the call is expanded, and the pass goes on along its records. Fails out of memory; then it may be asked again.
**
** 1. What is on its way to a root already is a value that the plan is given and adds to, in the order of the pass. So
**    there is a plan for each set of results that have gradients, of roots that are asked for, and of those that something
**    is on its way to.
** 2. A call whose function has rules that each call brings (ty.custom_grad, ty.checkpoint, ty.scan) is expanded, since these
**    are Lua's to run; but what lies between two of them, in the order of the pass, is a part with a plan of its own. It
**    begins with the gradients that are on their way to its rows, and leads to roots and to rows of later parts.
*/
#include "engine/entry.h"
#include "engine/remade.h"
#include "engine/traced_plan.h"

static void plans_drop(void *ctx) {
  for (BackPlan *p = ctx, *next; p; p = next) {
    next = p->next;
    ty_back_plan_free(p);
  }
}

/* A pass at a call, or at a part of it, and what it works in. */
typedef struct Passing {
  State *S;
  Back *b;
  TracedCall *c;
  TracedTape *T;
  bool part;
  i32 nlead, first; /* rows before the first are not passed */
  i32 nin, ngive;   /* of `flat` those in use: that the plan is given, and its results */
  u8 *key;
  Tensor *flat;           /* gradients; behind them results */
  const Tensor **in;      /* what a plan is given */
  const Tensor **running; /* by lead */
  Tensor **made;          /* by result */
  Record **to;            /* the same: the lead that gets it */
  bool done;
} Passing;

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

/* Of lead k what is on its way there; whether the pass goes there. False: no plan will do. */
static bool look(Passing *P, i32 k, Record *r, bool *asked) {
  const Tensor *g = P->running[k] = ty_back_running(P->b, r, asked);
  return !g || !g->st->batched;
}

/* What plans differ by; false: no plan will do. */
static bool find_key(Passing *P) {
  const TracedTape *T = P->T;
  memset(P->key, 0, (size_t)(T->noutput + P->nlead));
  for (i32 i = 0; i < T->noutput; i++) {
    const Tensor *g = &P->b->at->part[i];
    P->key[i] = g->st != NULL;
    if (g->st && g->st->batched) return false;
  }
  for (i32 i = 0; i < T->nroot; i++) {
    bool asked;
    if (!look(P, i, P->c->root[i], &asked)) return false;
    P->key[T->noutput + i] =
        (u8)((asked ? LEAD_ASKED : 0) | (asked && P->running[i] ? LEAD_RUNNING : 0));
  }
  return true;
}

enum { ROW_PASSED = 1, ROW_REACHED };

/* Row i of the part, and whom it leads to. */
static bool pass_row(Passing *P, i32 i, bool begins) {
  const TracedTape *T = P->T;
  const Record *r = P->c->made[i];
  if (r->freed || ty_back_is_wanted(P->b, r)) return false;
  P->c->row[i] = ROW_PASSED;
  if (begins) P->key[T->noutput + T->nroot + i] = LEAD_BEGINS;
  for (i32 k = 0; k < T->row[i].n; k++) {
    const i32 from = T->edge[T->row[i].edge + k].from;
    if (from < 0) continue;
    if (from < T->nrow) {
      if (!P->c->row[from]) P->c->row[from] = ROW_REACHED;
      continue;
    }
    bool asked;
    const i32 root = from - T->nrow;
    if (!P->c->root[root] || !look(P, root, P->c->root[root], &asked)) return false;
    P->key[T->noutput + root] =
        (u8)((asked ? LEAD_ASKED : 0) | (asked && P->running[root] ? LEAD_RUNNING : 0));
  }
  return true;
}

/* The rows behind the part that it leads to. */
static bool find_later(Passing *P) {
  const TracedTape *T = P->T;
  for (i32 i = 0; i < P->first; i++) {
    if (P->c->row[i] != ROW_REACHED) continue;
    bool asked;
    if (T->row[i].kind == K_CUSTOM || !look(P, T->nroot + i, P->c->made[i], &asked)) return false;
    P->c->row[i] = 0;
    P->key[T->noutput + T->nroot + i] =
        (u8)((asked ? LEAD_ASKED : 0) | (asked && P->running[T->nroot + i] ? LEAD_RUNNING : 0));
  }
  return true;
}

/* The same of a part, which begins at the record at hand; its rows are marked. */
static bool find_part(Passing *P) {
  const TracedTape *T = P->T;
  TracedCall *c = P->c;
  memset(P->key, 0, (size_t)(T->noutput + P->nlead));
  memset(c->row, 0, (size_t)T->nrow);
  for (i32 i = (i32)(P->b->at->r->seq - c->seq) - 1; i >= 0; i--) {
    const bool due = ty_back_is_due(P->b, c->made[i]);
    bool asked;
    if (!due && !c->row[i]) continue;
    if (ty_traced_tape_breaks(T, i)) {
      P->first = i + 1;
      break;
    }
    if (!look(P, T->nroot + i, c->made[i], &asked)) return false;
    if (!pass_row(P, i, P->running[T->nroot + i] != NULL)) return false;
  }
  return find_later(P);
}

/* Values that nobody has written since, of what is reached. A call that is expanded has those that are remade. */
static bool is_whole(const Passing *P) {
  const TracedTape *T = P->T;
  for (i32 i = 0; i < T->nedge; i++) {
    const i32 v = T->edge[i].value;
    if (v < 0 || !P->c->row[T->edge[i].row]) continue;
    if (T->value[v].kind == VALUE_REMADE && !P->part) continue;
    if (!P->c->saved[v] || P->c->saved[v]->stale) return false;
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

static BackPlan *plan_find(const Passing *P, u64 word, i32 *n) {
  BackPlan *p = P->T->plans.ctx;
  for (*n = 0; p; p = p->next, ++*n)
    if (p->word == word && !memcmp(p->key, P->key, (size_t)(P->T->noutput + P->nlead))) break;
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

/* What the plan is given, in its order. */
static void bind(Passing *P, const BackPlan *p) {
  for (i32 i = 0; i < p->nread; i++) {
    const TapeValue *v = &P->T->value[p->in[i]];
    P->flat[i] = (Tensor){.st = ty_storage_hold(P->c->saved[p->in[i]]),
                          .type = v->type,
                          .offset = P->c->offset[p->in[i]]};
    memcpy(P->flat[i].strides, v->strides, sizeof v->strides);
  }
}

/* Room for n tensors, which `pass` lets go of. */
static i32 make_room(Tensor *t, i32 n) {
  for (i32 i = 0; i < n; i++) t[i].st = NULL;
  return n;
}

static Tensor *results_of(const Passing *P) {
  return P->flat + P->T->nvalue + P->T->noutput + P->nlead;
}

static Record *lead_of(const Passing *P, i32 k) {
  return k < P->T->nroot ? P->c->root[k] : P->c->made[k - P->T->nroot];
}

/* The plan's results go to the leads; false: S->err, and it can be done again. */
static bool run(Passing *P, const BackPlan *p, Instance *I) {
  State *S = P->S;
  const TracedCall *c = P->c;
  Tensor *result = results_of(P);
  const char *why;
  const Ready ready = ty_instance_ready(S, I, P->in, c->number, &why);
  if (ready != READY_YES) return ready == READY_NO;
  P->ngive = make_room(result, p->ngive);
  for (i32 i = 0; i < p->ngive; i++) {
    P->made[i] = &result[i];
    P->to[i] = lead_of(P, p->give[i]);
  }
  const u64 seed = S->seed, stream = S->stream;
  S->seed = c->seed; /* what it draws again the call has drawn */
  S->stream = c->stream;
  const bool ok = ty_instance_run(S, I, P->in, c->number, P->made);
  S->seed = seed;
  S->stream = stream;
  return P->done = ok && ty_back_lead(P->b, P->to, result, p->ngive);
}

/* Which values are read on the way, by the rows that are marked, and which gradients come. */
static void list_in(const Passing *P, BackPlan *p) {
  const TracedTape *T = P->T;
  const u8 *lead = P->key + T->noutput;
  p->part = P->part;
  p->first = P->first;
  p->all = true;
  for (i32 i = 0; i < T->nrow; i++) p->all &= P->c->row[i] || T->row[i].kind == K_WATCH;
  for (i32 v = 0; v < T->nvalue; v++)
    if (P->c->read[v] && (T->value[v].kind != VALUE_REMADE || P->part)) p->in[p->nin++] = v;
  p->nread = p->nin;
  for (i32 k = 0; k < T->noutput; k++)
    if (P->key[k]) p->in[p->nin++] = T->nvalue + k;
  for (i32 k = 0; k < P->nlead; k++)
    if (lead[k] & (LEAD_RUNNING | LEAD_BEGINS)) p->in[p->nin++] = T->nvalue + T->noutput + k;
}

/* What the rows that are marked read: a part of an expanded call reads values that are remade as they are. */
static void mark_reads(const Passing *P) {
  const TracedTape *T = P->T;
  if (!P->part) {
    ty_traced_call_reads(P->c, false);
    return;
  }
  memset(P->c->read, 0, (size_t)T->nvalue);
  for (i32 i = 0; i < T->nedge; i++)
    if (T->edge[i].value >= 0 && P->c->row[T->edge[i].row]) P->c->read[T->edge[i].value] = 1;
}

/* What was noted of the pass at hand for this plan, or for a new one. NULL: there can be none, or *ok false. */
static BackPlan *plan_begin(Passing *P, BackPlan *p, u64 word, bool *ok) {
  if (!P->part) ty_back_reach(P->b);
  if (!is_whole(P) || (!P->part && ty_traced_call_has_rules(P->c))) return NULL;
  mark_reads(P);
  if (p) return p;
  if ((p = ty_back_plan_new(P->T, P->key, word))) list_in(P, p);
  else *ok = ty_fail_memory(P->S, "backward", 0);
  return p;
}

/* The gradients that the plan is given; *fits: they are as the tape has them. False: out of memory. */
static bool take_given(Passing *P, const BackPlan *p, bool *fits) {
  const TracedTape *T = P->T;
  P->nin = make_room(P->flat, p->nin);
  for (i32 i = 0; i < p->nin; i++) {
    const i32 k = p->in[i] - T->nvalue;
    P->in[i] = &P->flat[i];
    if (k < 0) continue;
    const Tensor *g = k < T->noutput ? &P->b->at->part[k] : P->running[k - T->noutput];
    if (!flatten(P->S, g, &P->flat[i])) return false;
    const Type type = ty_back_plan_type(T, p->in[i]);
    *fits &= ty_type_equal(&type, &P->flat[i].type);
  }
  return true;
}

/* By a plan; P->done stays false where there is none. */
static bool by_plan(Passing *P) {
  const u64 word = ty_entry_word(P->S);
  TracedTape *T = P->T;
  i32 n;
  bool ok = true, fits = true;
  ty_traced_tape_at(T, P->c->t);
  if (P->part ? !find_part(P) : !find_key(P)) return true;
  BackPlan *found = plan_find(P, word, &n), *p = found;
  if (p ? !is_there(P->c, p) : n >= TRACED_PLANS) return true;
  if (!p || !p->made) p = plan_begin(P, p, word, &ok);
  if (!p) return ok;
  ok = take_given(P, p, &fits);
  if (ok && fits && !p->made) ok = ty_back_plan_make(P->S, P->b, P->c, p);
  if (!found && ok && fits) {
    p->next = T->plans.ctx;
    T->plans = (Owner){plans_drop, p};
  } else if (!found) ty_back_plan_free(p);
  Instance *I = ok && fits ? ty_back_plan_at(p, P->c->t) : NULL;
  if (!I) return ok;
  bind(P, p);
  ok = run(P, p, I);
  P->c->all = p->all && P->done;
  return ok;
}

/* The rows of the part are done with, and so is what was on its way to them. */
static void leave_part(Back *b, TracedCall *c, i32 first) {
  for (i32 i = first; i < c->tape->nrow && !b->retain; i++) {
    if (c->row[i] != ROW_PASSED || c->made[i]->kind == K_WATCH) continue;
    ty_record_forget(c->made[i]);
    c->made[i]->freed = true;
  }
  ty_back_skip(b, c->seq + (u64)first);
  if (!first) ty_back_leave(b);
}

/* The memory for it. */
static bool pass(State *S, Back *b, TracedCall *c, bool *done) {
  const bool part = b->at->r->kind != K_CALL;
  TracedTape *T = c->tape;
  const size_t nlead = (size_t)ty_tape_leads(T), nin = (size_t)(T->nvalue + T->noutput) + nlead;
  const size_t tensors = nin + nlead, pointers = nin + 3 * nlead;
  Tensor *flat = T->room
                     ? T->room
                     : ty_mem_alloc(tensors * sizeof *flat + pointers * sizeof(void *) + nin + 1);
  if (!flat) return ty_fail_memory(S, "backward", 0);
  T->room = NULL; /* for no other pass meanwhile */
  T->refs++;
  Passing P = {.S = S, .b = b, .c = c, .T = T, .part = part, .nlead = (i32)nlead};
  P.flat = flat;
  P.in = (const Tensor **)(flat + tensors);
  P.running = P.in + nin;
  P.made = (Tensor **)(P.running + nlead);
  P.to = (Record **)(P.made + nlead);
  P.key = (u8 *)(P.to + nlead);
  const bool mode = S->grad_mode;
  ty_grad_set_mode(S, false);
  const bool ok = by_plan(&P);
  ty_grad_set_mode(S, mode);
  for (i32 i = 0; i < P.nin; i++) ty_tensor_release(&flat[i]);
  for (i32 i = 0; i < P.ngive; i++) ty_tensor_release(&results_of(&P)[i]);
  ty_mem_free(T->room);
  T->room = flat;
  *done = P.done;
  if (ok && P.done && part) leave_part(b, c, P.first);
  ty_traced_tape_drop(T);
  return ok;
}

static bool go_along(State *S, Back *b, bool in_parts) {
  return ty_remade_restore(S, b->at->r->call) && ty_back_expand(b, in_parts);
}

bool ty_traced_back(State *S, Back *b) {
  bool done = false;
  if (b->at->r->kind != K_CALL) { /* a part of b->in */
    if (!pass(S, b, b->in->call, &done)) return false;
    if (!done) ty_back_leave(b);
    return true;
  }
  if (!ty_back_may_plan(b)) return go_along(S, b, false);
  const TracedCall *c = b->at->r->call;
  if (!pass(S, b, b->at->r->call, &done)) return false;
  if (!done) return go_along(S, b, c->tape->nrule > 0 && ty_traced_call_has_rules(c));
  ty_back_pass(b);
  return true;
}
