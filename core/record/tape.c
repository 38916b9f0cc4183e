/*
** tape.c -- the tape: operations as they were recorded, and the values that their gradients read.
** In: operations with their operands and results. Out: records that the results' storages hold. Fails out of memory,
** and where a leaf is asked for something that a leaf cannot do.
**
** What a rule reads is kept in a frozen Storage, a snapshot of the one that was read, with the same buffer or waiting
** for the same node. A write lets the snapshot go, stale: reading it is the error that names the operation. So a write
** never copies for the tape's sake, and no record holds a storage that may come to depend on it.
*/
#include "record/capture.h"
#include "record/loop.h"
#include "record/vmap.h"

/* --- records */

void ty_grad_set_mode(State *S, bool on) {
  S->grad_mode = on;
  ty_grad_track(S);
}

Record *ty_record_new(State *S, int kind, i32 n, const Given *src) {
  Record *r = ty_record_alloc(S, n);
  if (!r) {
    ty_fail_memory(S, "gradient", 0);
    return NULL;
  }
  *r = (Record){.S = S,
                .refs = 1,
                .kind = (u16)kind,
                .room = (u8)TY_MIN(n, UINT8_MAX),
                .cast = S->cast,
                .n = n,
                .site = S->site,
                .seq = ++S->record_seq};
  for (i32 i = 0; i < n; i++) {
    Edge *e = &r->edge[i];
    if (src[i].kind != O_TENSOR) {
      *e = (Edge){.is_number = true, .number = src[i].v, .symbol = src[i].symbol};
      continue;
    }
    *e = (Edge){.t = *src[i].t, .numel = src[i].t->st->numel};
    e->t.st = NULL;
    if (ty_needs_grad(src[i].t)) e->from = ty_record_hold(src[i].t->st->tape);
  }
  S->records++;
  ty_grad_track(S);
  for (i32 i = 0; TY_UNLIKELY(S->loop != NULL) && ty_loop_records(S) && i < n; i++) {
    if (src[i].kind != O_TENSOR || ty_loop_note(S, src[i].t)) continue;
    ty_record_drop(r);
    return NULL;
  }
  return r;
}

/* --- values that are kept */

/* A storage with st's contents, refs 1. Exposed memory may change at any time: it is copied. */
static Storage *freeze(State *S, Storage *st) {
  if (st->batched) { /* those of all examples go on as they are */
    Storage *all = freeze(S, st->batched->t.st), *from = st->batched->t.st;
    if (all && from->tape && !all->tape) all->tape = ty_record_hold(from->tape);
    return ty_batched_like(S, st, all);
  }
  if (st->buf && st->buf->exposed) {
    Tensor y = {0}, x = {.st = st, .type = ty_type_line(st->dtype, st->device, st->numel)};
    x.strides[0] = 1;
    x.detached = true;
    if (!ty_record_copy(S, &x, &y)) return NULL;
    y.st->frozen = true;
    return y.st;
  }
  Storage *f = ty_storage_new(S, st->dtype, st->device, st->numel);
  if (!f) return NULL;
  if (st->recording) ty_storage_wait(f, st->recording, st->node);
  else if (st->buf) f->buf = ty_buffer_hold(st->buf);
  return f;
}

Storage *ty_grad_freeze(State *S, Storage *st) {
  Storage *f = freeze(S, st);
  if (f) f->frozen = true;
  return f;
}

Storage *ty_grad_snapshot(State *S, Storage *st) {
  if (st->frozen) return ty_storage_hold(st);
  if (st->snapshot) return ty_storage_hold(st->snapshot);
  Storage *f =
      st->batched ? ty_batched_like(S, st, ty_grad_snapshot(S, st->batched->t.st)) : freeze(S, st);
  if (!f) return NULL;
  f->frozen = true;
  if (st->tape) f->tape = ty_record_hold(st->tape);
  if (st->buf && st->buf->exposed) return f;
  f->snapshot = st;
  return st->snapshot = f;
}

/* Keeps the operands that the rules of edges with gradients read. */
static bool save(State *S, Record *r, const Given *src) {
  for (i32 j = 0; j < r->n; j++) {
    bool reads = false;
    for (i32 i = 0; i < r->n; i++) reads |= r->edge[i].from && ty_rule_reads(r->kind, i, j);
    if (!reads || src[j].kind != O_TENSOR) continue;
    if (!(r->edge[j].saved = ty_grad_snapshot(S, src[j].t->st))) return false;
  }
  return true;
}

static bool fail_lost(State *S, const Record *r, const Edge *e) {
  char text[160];
  ty_type_print(&e->t.type, text, sizeof text);
  return ty_fail(S,
                 "backward: %s saved %s, which was changed afterwards (clone it before the write)",
                 ty_ops[r->kind].lua ? ty_ops[r->kind].lua : ty_ops[r->kind].name, text);
}

bool ty_grad_operand(State *S, const Record *r, int j, int dtype, Tensor *y) {
  const Edge *e = &r->edge[j];
  bool lost = !e->saved;
  for (const Storage *st = e->saved; st; st = st->batched ? st->batched->t.st : NULL)
    lost |= st->stale;
  if (TY_UNLIKELY(lost)) return fail_lost(S, r, e);
  Tensor t = e->t;
  t.st = e->saved;
  t.detached = !e->from &&
               (t.detached || !t.st->batched); /* those of all examples have pasts of their own */
  if (!ty_is_float(t.type.dtype) && ty_ops[r->kind].class != MAP && ty_ops[r->kind].class != DOT)
    dtype = t.type.dtype;
  if (t.type.dtype == T_BOOL && r->kind == OP_WHERE) dtype = T_BOOL;
  return ty_record_cast(S, &t, dtype, y);
}

/* What x sees of its storage's past: nothing where it is detached. */
static Storage *freeze_seen(State *S, const Tensor *x) {
  Storage *st = freeze(S, x->st);
  if (st && st->batched) st->batched->t.detached |= x->detached;
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

bool ty_grad_note(State *S, const TapeEntry *k, Tensor *y) {
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
    if (!e->saved || e->saved != st->snapshot) continue;
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
  Tensor old = {.st = st, .type = ty_type_line(st->dtype, st->device, st->numel)};
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
  if (r && old && old->retains) { /* what is kept is the gradient of the tensor as it is now */
    r->hook = old->hook;
    r->retains = true;
    old->hook = NULL;
    old->retains = false;
  }
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
    r->t.type = ty_type_line(st->dtype, st->device, st->numel);
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
  if (on && !ty_is_float(st->dtype)) {
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
