/*
** grad.c -- the tape, and the way back.
** In: operations as they were recorded; a tensor and the gradient that it begins with. Out: gradients in
** the LEAF records, or of the records that were asked for. Fails where something is asked that has no
** gradient, where a saved value was overwritten, and for want of memory; leaves change only at the end.
**
** 1. What a rule reads is kept in a frozen Storage, the twin of the one that was read, with the same
**    buffer or waiting for the same node. A write lets the twin go, stale: reading it is the error that
**    names the operation. So a write never copies for the tape's sake, and no record holds a storage
**    that may come to depend on it.
** 2. The way back takes records from a heap, the latest first: all that a record's result went into is
**    later than itself, so its gradient is complete when it is taken. Sums are old + new in that order.
** 3. Nothing recurses: neither the way back nor the end of a chain of records.
*/
#include "record/capture.h"
#include "record/grad.h"
#include "record/vmap.h"

/* --- records */

static void set_tracks(State *S) { S->tracks = S->grad_mode && S->records > 0; }

void ty_grad_set_mode(State *S, bool on) {
  S->grad_mode = on;
  set_tracks(S);
}

/* Lets go of what the record leads to and keeps. */
static void forget(Record *r) {
  i32 n = r->n;
  r->n = 0;
  for (i32 i = 0; i < n; i++) {
    ty_storage_drop(r->edge[i].saved);
    if (r->edge[i].from) ty_record_drop(r->edge[i].from);
  }
}

/* The last one of a chain frees it all, one by one. */
void ty_record_drop(Record *r) {
  if (--r->refs) return;
  State *S = r->S;
  bool first = S->dead_records == NULL;
  r->next_dead = S->dead_records;
  S->dead_records = r;
  if (!first) return;
  Record done = {.refs = 0}; /* stands behind the last: the list is not empty while we work */
  r->next_dead = &done;
  while (S->dead_records != &done) {
    r = S->dead_records;
    S->dead_records = r->next_dead;
    forget(r);
    if (r->kind == K_LEAF && r->t.st) ty_tensor_release(&r->t);
    if (r->drop) r->drop(r->ctx);
    ty_mem_free(r);
    S->records--;
  }
  S->dead_records = NULL;
  set_tracks(S);
}

Record *ty_record_new(State *S, int kind, i32 n, const Given *src) {
  Record *r = ty_mem_zalloc(sizeof *r + sizeof(Edge) * (size_t)n);
  if (!r) {
    ty_fail_memory(S, "gradient", 0);
    return NULL;
  }
  *r = (Record){.S = S, .refs = 1, .kind = (u16)kind, .n = n, .seq = ++S->record_seq};
  for (i32 i = 0; i < n; i++) {
    Edge *e = &r->edge[i];
    if (src[i].kind != O_TENSOR) {
      e->is_number = true;
      e->number = src[i].v;
      e->symbol = src[i].symbol;
      continue;
    }
    e->t = *src[i].t;
    e->t.st = NULL;
    e->numel = src[i].t->st->numel;
    if (ty_needs_grad(src[i].t)) e->from = ty_record_hold(src[i].t->st->tape);
  }
  S->records++;
  set_tracks(S);
  for (i32 i = 0; i < n; i++) {
    const Record *from = r->edge[i].from;
    if (!from || from->kind == K_LEAF || !ty_capture_is_old(S, from)) continue;
    ty_capture_refuse(S, "the gradient of an operation outside of it is tracked");
    ty_record_drop(r);
    return NULL;
  }
  return r;
}

/* --- values that are kept */

/* A storage with st's contents, refs 1. Exposed memory may change at any time: it is copied. */
static Storage *freeze(State *S, Storage *st) {
  if (st->many) { /* those of all examples go on as they are */
    Storage *all = freeze(S, st->many->t.st), *from = st->many->t.st;
    if (all && from->tape && !all->tape) all->tape = ty_record_hold(from->tape);
    return ty_many_over(S, st, all);
  }
  if (st->buf && st->buf->exposed) {
    Tensor y = {0},
           x = {.st = st,
                .type = {.dtype = st->dtype, .device = st->device, .rank = 1, .dims = {st->numel}}};
    x.strides[0] = 1;
    x.detached = true;
    if (!ty_record_copy(S, &x, &y)) return NULL;
    y.st->frozen = true;
    return y.st;
  }
  Storage *f = ty_storage_new(S, st->dtype, st->device, st->numel);
  if (!f) return NULL;
  if (st->batch) ty_storage_wait(f, st->batch, st->node);
  else if (st->buf) f->buf = ty_buffer_hold(st->buf);
  return f;
}

Storage *ty_grad_freeze(State *S, Storage *st) {
  Storage *f = freeze(S, st);
  if (f) f->frozen = true;
  return f;
}

static Storage *twin_of(State *S, Storage *st) {
  if (st->frozen) return ty_storage_hold(st);
  if (st->twin) return ty_storage_hold(st->twin);
  Storage *f = st->many ? ty_many_over(S, st, twin_of(S, st->many->t.st)) : freeze(S, st);
  if (!f) return NULL;
  f->frozen = true;
  if (st->tape) f->tape = ty_record_hold(st->tape);
  if (st->buf && st->buf->exposed) return f;
  f->twin = st;
  return st->twin = f;
}

/* Keeps the operands that the rules of edges with gradients read. */
static bool save(State *S, Record *r, const Given *src) {
  for (i32 j = 0; j < r->n; j++) {
    bool reads = false;
    for (i32 i = 0; i < r->n; i++) reads |= r->edge[i].from && ty_rule_reads(r->kind, i, j);
    if (!reads || src[j].kind != O_TENSOR) continue;
    if (!(r->edge[j].saved = twin_of(S, src[j].t->st))) return false;
  }
  return true;
}

/* What x sees of its storage's past: nothing where it is detached. */
static Storage *freeze_seen(State *S, const Tensor *x) {
  Storage *st = freeze(S, x->st);
  if (st && st->many) st->many->t.detached |= x->detached;
  return st;
}

/* --- recording */

static bool any_needs(int kind, i32 n, const Given *src) {
  for (i32 i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR && ty_needs_grad(src[i].t) && ty_is_float(src[i].t->type.dtype) &&
        (kind >= OP_COUNT || !ty_rule_none(kind, i)))
      return true;
  return false;
}

bool ty_grad_note(State *S, const Noted *k, Tensor *y) {
  if (!ty_is_float(y->type.dtype) || !any_needs(k->kind, k->n, k->src)) return true;
  Record *r = ty_record_new(S, k->kind, k->n, k->src);
  bool ok = r != NULL;
  if (ok) {
    r->t.type = y->type;
    r->dims = k->dims;
    r->dim = k->dim;
    r->base = k->base;
    if (k->kind < OP_COUNT) ok = save(S, r, k->src);
  }
  if (!ok) {
    if (r) ty_record_drop(r);
    ty_tensor_release(y);
    return false;
  }
  y->st->tape = r;
  return true;
}

/* x:mul_(y) reads x and is then written to x: what its record keeps gets a storage of its own. */
static bool keep_own(State *S, Record *r, Storage *st) {
  for (i32 i = 0; i < r->n; i++) {
    Edge *e = &r->edge[i];
    if (!e->saved || e->saved != st->twin) continue;
    Storage *f = freeze(S, st);
    if (!f) return false;
    f->frozen = true;
    if (st->tape) f->tape = ty_record_hold(st->tape);
    ty_storage_drop(e->saved);
    e->saved = f;
  }
  return true;
}

/* The record of the storage once x is written through dst; NULL: it is constant then. */
static bool write_record(State *S, const char *who, const Tensor *dst, const Given *x, Record **r) {
  Storage *st = dst->st;
  bool tracked = x->kind == O_TENSOR && ty_needs_grad(x->t);
  *r = NULL;
  if (tracked && dst->detached)
    return ty_fail(S, "%s: a value with a gradient is written through a detached tensor (clone it)",
                   who);
  if (st->tape && st->tape->kind == K_LEAF)
    return ty_fail(S, "%s: a leaf that requires grad is written in place; use ty.no_grad", who);
  bool whole =
      dst->offset == 0 && ty_type_numel(&dst->type) == st->numel && ty_tensor_is_contiguous(dst);
  if (!tracked && (whole || !st->tape)) return true;
  Tensor old = {.st = st,
                .type = {.dtype = st->dtype, .device = st->device, .rank = 1, .dims = {st->numel}}};
  old.strides[0] = 1;
  old.detached = whole;
  Given src[2] = {{.kind = O_TENSOR, .t = &old}, *x};
  bool old_value = tracked && ty_capture_is_old(S, x->t->st->tape);
  if (tracked && !old_value && !keep_own(S, x->t->st->tape, st)) return false;
  if (!(*r = ty_record_new(S, OP_PUT, 2, src))) return false;
  (*r)->t = *dst;
  (*r)->t.st = NULL;
  return true;
}

bool ty_grad_assign(State *S, const char *who, const Tensor *dst, const Given *x,
                    bool (*write)(State *S, const char *who, const Tensor *dst, const Given *x)) {
  Storage *st = dst->st;
  Record *r = NULL, *old = st->tape;
  bool tracked = x->kind == O_TENSOR && ty_needs_grad(x->t);
  bool taped = S->tracks && ty_is_float(st->dtype) &&
               (tracked || (ty_type_numel(&dst->type) > 0 && !dst->detached));
  if (taped && !write_record(S, who, dst, x, &r)) return false;
  ty_storage_touch(st);
  if (!write(S, who, dst, x)) {
    if (r) ty_record_drop(r);
    return false;
  }
  if (!taped) return true;
  st->tape = r;
  if (old) ty_record_drop(old);
  return true;
}

bool ty_grad_watch(State *S, const Tensor *x, bool watch, Tensor *y) {
  Given src = {.kind = O_TENSOR, .t = x};
  Storage *st = freeze_seen(S, x);
  if (!st) return false;
  if (watch && S->level && ty_vmap_level(x) < S->level->id) {
    if (ty_needs_grad(x) && !st->tape) st->tape = ty_record_hold(x->st->tape);
    if (!(st = ty_vmap_above(S, st, x->detached))) return false;
  }
  if (S->capture && watch) ty_capture_lone(S, x->st);
  Record *r = x->detached ? NULL : x->st->tape;
  if (r) ty_record_hold(r);
  if (watch) {
    Record *w = ty_record_new(S, K_WATCH, 1, &src);
    if (r) ty_record_drop(r);
    if (!w) {
      ty_storage_drop(st);
      return false;
    }
    r = w;
    r->t.type = (Type){.dtype = st->dtype, .device = st->device, .rank = 1, .dims = {st->numel}};
    r->edge[0].t.type = r->t.type; /* all of the storage */
    r->edge[0].t.offset = 0;
    r->edge[0].t.strides[0] = 1;
  }
  st->frozen = false;
  st->tape = r;
  *y = *x;
  y->st = st;
  y->detached = false;
  return true;
}

bool ty_grad_require(State *S, Tensor *x, bool on) {
  const char *who = "requires_grad_";
  char text[160];
  Storage *st = x->st;
  if (S->capture && on != ty_needs_grad(x) && ty_capture_holds(S, st))
    return ty_capture_refuse(S, "changes whether a tensor from outside requires grad");
  if (on && !ty_is_float(x->type.dtype)) {
    ty_type_print(&x->type, text, sizeof text);
    return ty_fail(S, "%s: only floats have gradients, got %s", who, text);
  }
  if (!on) {
    if (!st->tape || x->detached) return true;
    if (st->tape->kind != K_LEAF)
      return ty_fail(S, "%s: only a leaf can be told not to (use detach)", who);
    ty_record_drop(st->tape);
    st->tape = NULL;
    return true;
  }
  if (st->tape && !x->detached) return true;
  if (x->detached) { /* of its own from now on */
    if (!(st = freeze_seen(S, x))) return false;
    st->frozen = false;
  }
  Record *r = ty_record_new(S, K_LEAF, 0, NULL);
  if (!r) {
    if (st != x->st) ty_storage_drop(st);
    return false;
  }
  if (st != x->st) {
    ty_storage_drop(x->st);
    x->st = st;
  }
  x->detached = false;
  st->tape = r;
  return true;
}

/* --- the way back */

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

static void pending_free(Pending *p) {
  Pending **at = &p->r->pending;
  while (*at != p) at = &(*at)->next;
  *at = p->next;
  ty_tensor_release(&p->g);
  ty_tensor_release(&p->made);
  if (p->part)
    for (i32 i = 0; i < p->r->dim; i++) ty_tensor_release(&p->part[i]);
  ty_mem_free(p->part);
  ty_record_drop(p->r);
  ty_mem_free(p);
}

static Pending *pending_find(const Back *b, const Record *r) {
  Pending *p = r->pending;
  while (p && p->back != b) p = p->next;
  return p;
}

static Pending *pending_of(Back *b, Record *r) {
  Pending *p = pending_find(b, r);
  if (p) return p;
  if (!(p = ty_mem_zalloc(sizeof *p))) {
    ty_fail_memory(b->S, "backward", 0);
    return NULL;
  }
  *p = (Pending){.next = r->pending, .back = b, .r = ty_record_hold(r)};
  r->pending = p;
  if (r->kind == K_CUSTOM) p->part = ty_mem_zalloc(sizeof *p->part * (size_t)r->dim);
  bool ok = r->kind != K_CUSTOM || p->part ? heap_push(b, p) : ty_fail_memory(b->S, "backward", 0);
  if (ok) return p;
  pending_free(p);
  return NULL;
}

/* Adds g, which lies as the storage of r does, to what is on its way there. */
static bool give(Back *b, Record *r, const Tensor *g) {
  Pending *p = pending_of(b, r);
  return p && ty_rule_join(b->S, &p->g, g);
}

static bool is_asked(const Back *b, const Edge *e) { return e->from && e->from->seq >= b->floor; }

bool ty_back_seed(Back *b, const Tensor *y, const Tensor *g) {
  Edge e = {.t = *y, .numel = y->st->numel};
  Tensor flat = {0};
  if (!ty_needs_grad(y) || y->st->tape->seq < b->floor) return true;
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
  Tensor sum = {0};
  bool outside = ty_capture_is_old(S, r);
  if (g->st->many && !ty_vmap_is_inside(S, g->st->many->level, r->seq))
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

static bool fail_pending(Back *b) {
  Record *r = b->at->r;
  if (r->freed)
    return ty_fail(b->S, "backward: the graph was freed by an earlier backward; keep it by "
                         "{retain_graph = true}");
  if (r->kind == K_NONE)
    return ty_fail(b->S, "backward: view_as has no gradient, it reads bits (use :to for values)");
  return true;
}

/* All of the record at hand; false: again from b->i on, once there is memory. */
static bool step(Back *b) {
  State *S = b->S;
  Record *r = b->at->r;
  Tensor *g = &b->at->g;
  if (!fail_pending(b)) return false;
  for (i32 k = 0; k < b->nwanted; k++)
    if (b->wanted[k].r == r && !b->wanted[k].g.st) ty_tensor_alias(&b->wanted[k].g, g);
  if (r->kind == K_LEAF) return b->wanted || leaf_note(b, r, g);
  for (; b->i < r->n; b->i++) {
    const Edge *e = &r->edge[b->i];
    Tensor y = {0};
    bool ok = true;
    if (!is_asked(b, e)) continue;
    if (r->kind == K_OUT) {
      Pending *p = pending_of(b, e->from);
      ok = p && ty_rule_see(S, g, &r->t, r->edge[0].numel, &y) &&
           ty_rule_join(S, &p->part[r->dim], &y);
      ty_tensor_release(&y);
      if (!ok) return false;
      continue;
    }
    Pending *p = pending_find(b, e->from);
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

void ty_back_pass(Back *b) {
  Record *r = b->at->r;
  if (!b->retain && r->kind != K_LEAF && r->kind != K_WATCH) {
    forget(r);
    r->freed = true;
  }
  pending_free(b->at);
  b->at = NULL;
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
    if (b->at->r->kind == K_CUSTOM && !b->at->r->freed) y = BACK_CUSTOM;
    else if (step(b)) ty_back_pass(b);
    else y = BACK_FAILED;
  }
  if (y == BACK_DONE && !commit(b)) y = BACK_FAILED;
  ty_grad_set_mode(S, mode);
  return y;
}

bool ty_back_give(Back *b, i32 i, const Tensor *g) {
  Record *r = b->at->r;
  Edge *e = &r->edge[i];
  Tensor y = {0};
  if (!is_asked(b, e)) return true;
  bool mode = b->S->grad_mode;
  ty_grad_set_mode(b->S, b->create);
  bool ok = ty_rule_unview(b->S, e, g, &y) && give(b, e->from, &y);
  ty_grad_set_mode(b->S, mode);
  ty_tensor_release(&y);
  return ok;
}

void ty_back_free(Back *b) {
  if (b->at) pending_free(b->at);
  while (b->n) pending_free(b->heap[--b->n]);
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

bool ty_grad_beyond(const Tensor *x) {
  bool yes = false;
  for (; x->st->many && !x->detached; x = &x->st->many->t) yes |= ty_needs_grad(&x->st->many->t);
  return yes;
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
    } else
      for (i32 i = 0; ok && i < r->n; i++) ok = !r->edge[i].from || pending_of(&b, r->edge[i].from);
    pending_free(b.at);
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
    for (i32 i = 0; ok && i < r->n && !*yes; i++)
      ok = !r->edge[i].from || pending_of(&b, r->edge[i].from);
    pending_free(b.at);
    b.at = NULL;
  }
  ty_back_free(&b);
  return ok;
}
