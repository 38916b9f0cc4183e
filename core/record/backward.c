/*
** backward.c -- the backward pass over the tape.
** In: tensors and the gradients that they begin with. Out: gradients in the LEAF records, or of the records that were
** asked for. Fails where something is asked that has no gradient, where a saved value was overwritten, and out of
** memory; leaves change only at the end.
**
** 1. Records are taken from a heap, the latest first: all that a record's result went into is later than itself, so
**    its gradient is complete when it is taken. Sums are old + new in that order.
** 2. Nothing recurses: neither the backward pass nor the end of a chain of records.
*/
#include "ir/site.h"
#include "record/capture.h"
#include "record/complex.h"
#include "record/loop.h"
#include "record/record.h"
#include "record/traced_call.h"
#include "record/vmap.h"

#define FREED \
  "backward: the graph was freed by an earlier backward; keep it by {retain_graph = true}"

static bool later(const Pending *p, const Pending *q) { return p->r->seq > q->r->seq; }

static bool heap_push(Back *b, Pending *p) {
  if (b->n == b->cap) {
    i32 cap = b->cap ? b->cap * 2 : 32;
    void *more = ty_mem_realloc(b->heap, sizeof *b->heap * (size_t)cap);
    if (!more) return ty_fail_memory(b->S, "backward", 0);
    b->heap = more;
    b->cap = cap;
  }
  i32 i = b->n++;
  for (; i > 0 && later(p, b->heap[(i - 1) / 2]); i = (i - 1) / 2)
    b->heap[i] = b->heap[(i - 1) / 2];
  b->heap[i] = p;
  return true;
}

static Pending *heap_pop(Back *b) {
  Pending *top = b->heap[0], *p = b->heap[--b->n];
  i32 i = 0;
  for (i32 k = 1; k < b->n; i = k, k = 2 * k + 1) {
    if (k + 1 < b->n && later(b->heap[k + 1], b->heap[k])) k++;
    if (!later(b->heap[k], p)) break;
    b->heap[i] = b->heap[k];
  }
  b->heap[i] = p;
  return top;
}

/* Of a CALL: by output the RESULT that the pass came from, held, or NULL; behind the parts. */
static Record **passed_results(const Pending *p) {
  return (Record **)(void *)(p->part + p->r->dim);
}

static void pending_free(Back *b, Pending *p) {
  Pending **at = &p->r->pending;
  while (*at != p) at = &(*at)->next;
  *at = p->next;
  ty_tensor_release(&p->g);
  ty_tensor_release(&p->made);
  for (i32 i = 0; p->part && i < p->r->dim; i++) {
    ty_tensor_release(&p->part[i]);
    if (p->r->kind == K_CALL && passed_results(p)[i]) ty_record_drop(passed_results(p)[i]);
  }
  ty_mem_free(p->part);
  ty_record_drop(p->r);
  p->next = b->spare;
  b->spare = p;
}

static Pending *pending_new(Back *b) {
  Pending *p = b->spare;
  if (!p) return ty_mem_alloc(sizeof *p);
  b->spare = p->next;
  return p;
}

static Pending *pending_find(const Back *b, const Record *r) {
  Pending *p = r->pending;
  while (p && p->back != b) p = p->next;
  return p;
}

static Pending *pending_of(Back *b, Record *r) {
  r = ty_traced_call_real(r);
  Pending *p = pending_find(b, r);
  if (p) return p;
  if (!(p = pending_new(b))) {
    ty_fail_memory(b->S, "backward", 0);
    return NULL;
  }
  *p = (Pending){.next = r->pending, .back = b, .r = ty_record_hold(r)};
  r->pending = p;
  const bool parts = r->kind == K_CUSTOM || r->kind == K_CALL;
  const size_t each = sizeof *p->part + (r->kind == K_CALL ? sizeof(Record *) : 0);
  if (parts) p->part = ty_mem_zalloc(each * (size_t)r->dim);
  bool ok = !parts || p->part ? heap_push(b, p) : ty_fail_memory(b->S, "backward", 0);
  if (ok) return p;
  pending_free(b, p);
  return NULL;
}

/* Adds g, which lies as the storage of r does, to what is on its way there. */
static bool give(Back *b, Record *r, const Tensor *g) {
  Pending *p = pending_of(b, r);
  return p && ty_rule_join(b->S, &p->g, g);
}

/* Whether the pass goes to a record; from one before the floor it goes no further. */
static bool is_asked(const Back *b, Record *r) {
  if (!r || r->seq >= b->floor) return r != NULL;
  r = ty_traced_call_real(r);
  for (i32 k = 0; k < b->nwanted; k++)
    if (b->wanted[k].r && ty_traced_call_real(b->wanted[k].r) == r) return true;
  return false;
}

/* The same of complex numbers, of their reals. */
static bool seed_reals(Back *b, const Tensor *y, const Tensor *g) {
  Tensor p[2] = {{0}};
  bool ok =
      ty_complex_reals(b->S, "backward", y, &p[0]) && ty_complex_reals(b->S, "backward", g, &p[1]);
  p[0].detached = y->detached; /* also where gradients are off */
  p[1].detached = g->detached;
  ok = ok && ty_back_seed(b, &p[0], &p[1]);
  for (int i = 0; i < 2; i++) ty_tensor_release(&p[i]);
  return ok;
}

bool ty_back_seed(Back *b, const Tensor *y, const Tensor *g) {
  if (TY_UNLIKELY(ty_tensor_is_complex(y))) return seed_reals(b, y, g);
  Edge e = {.t = *y, .numel = y->st->numel};
  Tensor flat = {0};
  if (!ty_needs_grad(y) || !is_asked(b, y->st->tape)) return true;
  if (y->st->tape->kind != K_LEAF && ty_capture_is_old(b->S, y->st->tape))
    return ty_capture_refuse(b->S, "the gradient of an operation outside of it is asked for");
  bool mode = b->S->grad_mode;
  ty_grad_set_mode(b->S, b->create);
  bool ok = ty_rule_unview(b->S, &e, g, &flat) && give(b, y->st->tape, &flat);
  ty_grad_set_mode(b->S, mode);
  ty_tensor_release(&flat);
  return ok;
}

/* Notes the gradient that a leaf will get: a tensor that nobody else holds. */
static bool leaf_note(Back *b, Record *r, Tensor *g) {
  State *S = b->S;
  if (TY_UNLIKELY(S->loop != NULL) && ty_loop_records(S) && r->seq <= S->loop->seq)
    return ty_fail(S, "backward: a leaf from outside of a scan would get a gradient in each turn "
                      "(give it as a result of the turn)");
  Tensor sum = {0};
  bool outside = ty_capture_is_old(S, r);
  if (g->st->batched && !ty_vmap_is_inside(S, g->st->batched->level, r->seq))
    return ty_fail(S, "backward: a leaf from outside of a vmap would get a gradient for each "
                      "example (use ty.grad "
                      "inside, or go back outside)");
  if (b->nleaf == b->leaf_cap) {
    i32 cap = b->leaf_cap ? b->leaf_cap * 2 : 16;
    void *p = ty_mem_realloc(b->leaf, sizeof *b->leaf * (size_t)cap);
    if (!p) return ty_fail_memory(S, "backward", 0);
    b->leaf = p;
    b->leaf_cap = cap;
  }
  if (r->t.st && !outside && (!ty_rule_join(S, &sum, &r->t) || !ty_rule_join(S, &sum, g))) {
    ty_tensor_release(&sum);
    return false;
  }
  if (!r->t.st || outside) {
    bool own = g->st->refs == 1 && !g->offset && ty_tensor_is_contiguous(g) && !g->st->frozen &&
               g->st->numel == ty_type_numel(&g->type);
    if (own) ty_tensor_alias(&sum, g);
    else if (!ty_record_copy(S, g, &sum)) return false;
  }
  b->leaf[b->nleaf++] = (struct Wanted){ty_record_hold(r), sum};
  return true;
}

/* A RESULT is as its row is, until all of its call is used up: a pass that fails behind it has not freed it. */
static bool is_freed(const Record *r) {
  if (r->kind != K_RESULT || !r->n) return r->freed;
  const TracedCall *c = r->edge[0].from->call;
  return !c || c->freed[c->tape->output[r->dim].from];
}

static bool fail_pending(Back *b) {
  Record *r = b->at->r;
  if (is_freed(r)) return ty_fail(b->S, FREED);
  if (r->kind == K_NONE)
    return ty_fail(b->S, "backward: view_as has no gradient, it reads bits (use :to for values)");
  return true;
}

/* The gradient of a call's result is complete. */
static bool to_call(Back *b) {
  Record *r = b->at->r;
  Pending *p = pending_of(b, r->edge[0].from);
  if (!p || p->part[r->dim].st) return p != NULL;
  ty_tensor_alias(&p->part[r->dim], &b->at->g);
  passed_results(p)[r->dim] = ty_record_hold(r);
  return true;
}

bool ty_back_reach(const Back *b) {
  const TracedCall *c = b->at->r->call;
  for (i32 i = 0; i < c->tape->noutput; i++) c->given[i] = b->at->part[i].st != NULL;
  return ty_traced_call_reach(c);
}

/* The call at hand may go to a plan; rows are marked only where some are freed already. */
static BackState to_plan(Back *b) {
  TracedCall *c = b->at->r->call;
  c->all = false;
  return !c->partly || ty_back_reach(b) || ty_fail(b->S, FREED) ? BACK_CALL : BACK_FAILED;
}

static bool expand(Back *b) {
  State *S = b->S;
  TracedCall *c = b->at->r->call;
  if (!ty_traced_call_expand(S, c)) return false;
  for (; b->i < c->tape->noutput; b->i++) {
    const Tensor *g = &b->at->part[b->i];
    if (g->st && !give(b, c->made[c->tape->output[b->i].from], g)) return false;
  }
  return true;
}

bool ty_back_expand(Back *b, bool in_parts) {
  Record *r = b->at->r;
  if (in_parts && !b->in && !r->call->made) {
    b->in = ty_record_hold(r);
    r->call->in_parts = true;
  }
  if (!expand(b)) return false;
  ty_back_pass(b);
  return true;
}

void ty_back_leave(Back *b) {
  if (!b->in) return;
  if (b->in->call) ty_traced_call_leave(b->in->call);
  ty_record_drop(b->in);
  b->in = NULL;
}

void ty_back_skip(Back *b, u64 seq) {
  pending_free(b, b->at);
  b->at = NULL;
  while (b->n && b->heap[0]->r->seq > seq) pending_free(b, heap_pop(b));
}

bool ty_back_is_due(const Back *b, const Record *r) { return pending_find(b, r) != NULL; }

bool ty_back_is_wanted(const Back *b, const Record *r) {
  bool is = r->hook != NULL;
  for (i32 k = 0; k < b->nwanted; k++)
    is |= b->wanted[k].r && ty_traced_call_real(b->wanted[k].r) == r;
  return is;
}

bool ty_back_add(Back *b, Record *r, const Tensor *g) { return give(b, r, g); }

const Tensor *ty_back_running(const Back *b, const Record *r, bool *asked) {
  Record *real = ty_traced_call_real((Record *)r);
  const Pending *p = pending_find(b, real);
  *asked = is_asked(b, real);
  return p && p->g.st ? &p->g : NULL;
}

/* Leaves alone are led to, and nothing else is on its way: they are what the pass ends with. */
static bool is_end(const Back *b, Record *const *r, i32 n) {
  bool end = !b->n && !b->wanted;
  for (i32 i = 0; i < n && end; i++) end = r[i]->kind == K_LEAF && !r[i]->hook;
  return end;
}

bool ty_back_lead(Back *b, Record *const *r, Tensor *g, i32 n) {
  const i32 noted = b->nleaf;
  bool ok = true;
  if (is_end(b, r, n)) {
    for (i32 i = 0; i < n && ok; i++) ok = leaf_note(b, r[i], &g[i]);
    while (!ok && b->nleaf > noted) {
      struct Wanted *w = &b->leaf[--b->nleaf];
      ty_tensor_release(&w->g);
      ty_record_drop(w->r);
    }
    return ok;
  }
  for (i32 i = 0; i < n && ok; i++) ok = pending_of(b, r[i]) != NULL;
  for (i32 i = 0; i < n && ok; i++) {
    Pending *p = pending_find(b, ty_traced_call_real(r[i]));
    ty_tensor_release(&p->g);
    ty_tensor_alias(&p->g, &g[i]);
  }
  return ok;
}

/* All of the record at hand; false: again from b->i on, once there is memory. */
static bool go_through(Back *b) {
  State *S = b->S;
  Record *r = b->at->r;
  Tensor *g = &b->at->g;
  if (!fail_pending(b)) return false;
  for (i32 k = 0; k < b->nwanted; k++) {
    struct Wanted *w = &b->wanted[k];
    if (w->r && ty_traced_call_real(w->r) == r && !w->g.st) ty_tensor_alias(&w->g, g);
  }
  if (r->kind == K_LEAF) return b->wanted || leaf_note(b, r, g);
  if (r->seq < b->floor) return true;
  if (r->kind != K_LEAF && ty_capture_is_old(S, r))
    return ty_capture_refuse(S, "the gradient of an operation outside of it is asked for");
  if (r->kind == K_CALL) return expand(b);
  if (r->kind == K_RESULT) return to_call(b);
  for (; b->i < r->n; b->i++) {
    const Edge *e = &r->edge[b->i];
    Tensor y = {0};
    bool ok = true;
    if (!is_asked(b, e->from)) continue;
    if (r->kind == K_OUT) {
      Pending *p = pending_of(b, e->from);
      ok = p && ty_rule_see(S, g, &r->t, r->edge[0].numel, &y) &&
           ty_rule_join(S, &p->part[r->dim], &y);
      ty_tensor_release(&y);
      if (!ok) return false;
      continue;
    }
    Pending *p = pending_find(b, ty_traced_call_real(e->from));
    if (p && p->g.st) ty_tensor_alias(&y, &p->g);
    ok = ty_rule_apply(S, r, g, b->i, &y) && (!y.st || (p = pending_of(b, e->from)));
    if (!ok) ty_tensor_release(&y);
    if (!ok) return false;
    if (!y.st) continue;
    ty_tensor_release(&p->g);
    p->g = y;
  }
  return true;
}

/* The same, recorded as the gradient of what was recorded there. */
static bool step(Back *b) {
  State *S = b->S;
  const i32 site = S->site;
  if (TY_UNLIKELY(b->at->r->site)) S->site = b->at->r->site;
  if (TY_UNLIKELY(S->site)) S->site |= SITE_BACK;
  bool ok = go_through(b);
  S->site = site;
  return ok;
}

/* All that was recorded, before leaves change; of an earlier step that failed there what leaves will get. */
static bool compute(Back *b) {
  bool ok = b->S->cut(b->S, b->S->open, NULL);
  for (i32 i = 0; ok && i < b->nleaf; i++) ok = ty_record_settle(b->S, &b->leaf[i].g);
  return ok;
}

/* False: a capture cannot take them; the rest is let go of with b. */
static bool commit(Back *b) {
  for (; b->nleaf > 0; b->nleaf--) {
    struct Wanted *w = &b->leaf[b->nleaf - 1];
    if (ty_capture_is_old(b->S, w->r)) {
      if (!ty_capture_leaf(b->S, w->r, &w->g)) return false;
    } else {
      ty_tensor_release(&w->r->t);
      w->r->t = w->g;
    }
    ty_record_drop(w->r);
  }
  return true;
}

/* What it leads to from these results is freed, where they are not records of their own. */
static void pass_call(Back *b) {
  Record *r = b->at->r;
  TracedCall *c = r->call;
  if (b->retain || r->seq < b->floor || c->made) return;
  if (!c->all) {
    ty_back_reach(b);
    if (!ty_traced_call_free(c)) return;
  }
  ty_record_forget(r);
  r->freed = true;
  for (i32 i = 0; i < r->dim; i++) {
    Record *result = passed_results(b->at)[i];
    if (!result || result->seq < b->floor) continue;
    ty_record_forget(result);
    result->freed = true;
  }
}

void ty_back_pass(Back *b) {
  Record *r = b->at->r;
  if (b->hooks) { /* its gradient goes on */
    b->hooks = false;
    b->hooked = true;
    return;
  }
  b->hooked = false;
  if (r->kind == K_CALL) pass_call(b);
  else if (!b->retain && r->kind != K_LEAF && r->kind != K_WATCH && r->kind != K_RESULT &&
           r->seq >= b->floor) {
    ty_record_forget(r);
    r->freed = true;
  }
  pending_free(b, b->at);
  b->at = NULL;
}

static bool may_plan(const Back *b) {
  const State *S = b->S;
  return !b->create && !S->level && !S->capture && !ty_loop_records(S) && (b->at_once || !S->open);
}

bool ty_back_may_plan(const Back *b) {
  const Record *r = b->at->r;
  return !r->freed && r->seq >= b->floor && !r->call->made && may_plan(b);
}

/* Whether the record at hand is one of the call that the pass goes through part by part, and no end of a part. */
static bool is_in_part(Back *b) {
  const TracedCall *c = b->in->call;
  const u64 seq = b->at->r->seq;
  if (!c || !c->made || seq <= c->seq || !may_plan(b)) {
    if (!c || seq <= c->seq) ty_back_leave(b);
    return false;
  }
  const u64 row = seq - c->seq - 1; /* what a rule has recorded meanwhile is behind all rows */
  return row < (u64)c->tape->nrow && seq >= b->floor && !ty_traced_tape_breaks(c->tape, (i32)row);
}

BackState ty_back_step(Back *b) {
  State *S = b->S;
  bool mode = S->grad_mode;
  BackState y = BACK_DONE;
  ty_grad_set_mode(S, b->create);
  for (; y == BACK_DONE;) {
    if (!b->at) {
      if (!b->n) break;
      b->at = heap_pop(b);
      b->i = 0;
    }
    const Record *r = b->at->r;
    if (r->hook && !b->hooked && !is_freed(r) && (r->kind == K_LEAF || r->seq >= b->floor)) {
      b->hooks = true;
      y = BACK_HOOK;
    } else if (TY_UNLIKELY(b->in != NULL) && is_in_part(b)) y = BACK_CALL;
    else if (r->kind == K_CUSTOM && !r->freed && r->seq >= b->floor) y = BACK_CUSTOM;
    else if (b->calls_only && r->kind != K_RESULT && r->kind != K_CALL) y = BACK_RULE;
    else if (r->kind == K_CALL && ty_back_may_plan(b)) y = to_plan(b);
    else if (r->kind == K_CALL && !r->freed && r->seq >= b->floor && !S->capture &&
             ty_traced_call_lacks(r->call))
      y = BACK_CALL;
    else if (step(b)) ty_back_pass(b);
    else y = BACK_FAILED;
  }
  if (y == BACK_DONE) ty_back_leave(b);
  if (y == BACK_DONE && b->at_once && !compute(b)) y = BACK_FAILED;
  if (y == BACK_DONE && !commit(b)) y = BACK_FAILED;
  ty_grad_set_mode(S, mode);
  return y;
}

/* ty_rule_unview; of complex numbers, of their reals. */
static bool unview(State *S, const Edge *e, const Tensor *g, Tensor *y) {
  Edge own = *e;
  Tensor reals = {0};
  if (TY_LIKELY(!ty_tensor_is_complex(g))) return ty_rule_unview(S, e, g, y);
  bool ok = ty_complex_reals(S, "custom_grad", g, &reals) &&
            ty_complex_as_reals(&e->t, &own.t.type, own.t.strides) &&
            ty_rule_unview(S, &own, &reals, y);
  ty_tensor_release(&reals);
  return ok;
}

bool ty_back_give(Back *b, i32 i, const Tensor *g) {
  Record *r = b->at->r;
  Edge *e = &r->edge[i];
  Tensor y = {0};
  if (!is_asked(b, e->from)) return true;
  bool mode = b->S->grad_mode;
  ty_grad_set_mode(b->S, b->create);
  bool ok = unview(b->S, e, g, &y) && give(b, e->from, &y);
  ty_grad_set_mode(b->S, mode);
  ty_tensor_release(&y);
  return ok;
}

void ty_back_free(Back *b) {
  ty_back_leave(b);
  if (b->at) pending_free(b, b->at);
  while (b->n) pending_free(b, b->heap[--b->n]);
  for (Pending *p = b->spare, *next; p; p = next) {
    next = p->next;
    ty_mem_free(p);
  }
  for (i32 i = 0; i < b->nleaf; i++) {
    ty_tensor_release(&b->leaf[i].g);
    ty_record_drop(b->leaf[i].r);
  }
  for (i32 i = 0; i < b->nwanted; i++) {
    ty_tensor_release(&b->wanted[i].g);
    if (b->wanted[i].r) ty_record_drop(b->wanted[i].r);
  }
  ty_mem_free(b->heap);
  ty_mem_free(b->leaf);
  ty_mem_free(b->wanted);
  memset(b, 0, sizeof *b);
}

void ty_back_again(Back *b, State *S) {
  *b = (Back){.S = S,
              .heap = b->heap,
              .cap = b->cap,
              .spare = b->spare,
              .leaf = b->leaf,
              .leaf_cap = b->leaf_cap};
}

bool ty_grad_beyond(const Tensor *x) {
  bool yes = false;
  for (; x->st->batched && !x->detached; x = &x->st->batched->t)
    yes |= ty_needs_grad(&x->st->batched->t);
  return yes;
}

/* What the record leads to is visited, too: of a call what that result leads to. */
static bool visit(Back *b, Record *r) {
  bool ok = true;
  const TracedCall *c = r->kind == K_RESULT && r->n ? r->edge[0].from->call : NULL;
  if (!c) {
    for (i32 i = 0; ok && i < r->n; i++) ok = !r->edge[i].from || pending_of(b, r->edge[i].from);
    return ok;
  }
  const TracedTape *T = c->tape;
  memset(c->given, 0, (size_t)T->noutput);
  c->given[r->dim] = 1;
  ty_traced_call_reach(c);
  for (i32 i = 0; ok && i < T->nedge; i++) {
    const TapeEdge *e = &T->edge[i];
    if (e->from >= T->nrow && c->row[e->row] && !c->freed[e->row])
      ok = pending_of(b, c->root[e->from - T->nrow]) != NULL;
  }
  return ok;
}

bool ty_back_roots(State *S, const Tensor *const *y, int n, u64 seq, Record ***list, i32 *count) {
  Back b = {.S = S};
  i32 cap = 0;
  bool ok = true;
  *list = NULL, *count = 0;
  for (int i = 0; ok && i < n; i++) ok = !ty_needs_grad(y[i]) || pending_of(&b, y[i]->st->tape);
  while (ok && b.n) {
    b.at = heap_pop(&b);
    Record *r = b.at->r;
    if (r->kind == K_LEAF || r->seq < seq) {
      if (*count == cap) {
        void *more = ty_mem_realloc(*list, sizeof **list * (size_t)(cap = cap ? 2 * cap : 16));
        ok = more || ty_fail_memory(S, "gradient", 0);
        if (ok) *list = more;
      }
      if (ok) (*list)[(*count)++] = ty_record_hold(r);
    } else ok = visit(&b, r);
    pending_free(&b, b.at);
    b.at = NULL;
  }
  ty_back_free(&b);
  return ok;
}

bool ty_back_reaches(State *S, const Tensor *y, u64 seq, bool *yes) {
  Back b = {.S = S}; /* its heap makes every record come once */
  bool ok = !ty_needs_grad(y) || pending_of(&b, y->st->tape);
  *yes = ty_grad_beyond(y);
  while (ok && b.n && !*yes) {
    b.at = heap_pop(&b);
    Record *r = b.at->r;
    *yes = r->kind == K_LEAF || r->seq < seq;
    if (!*yes) ok = visit(&b, r);
    pending_free(&b, b.at);
    b.at = NULL;
  }
  ty_back_free(&b);
  return ok;
}
