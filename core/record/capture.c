/*
** capture.c -- notes of a capture.
** In: what record.c and the binding tell while operations are appended to the capture's recording. Out:
** the tables of capture.h, from which trace.c makes what later calls run. Fails when out of memory,
** and where something is asked that only a run could answer: then the capture is refused, which its
** owner finds in `refused` and `why`.
**
** Storages that the function writes to wait for nodes of the recording like those that it makes; at the
** end they get back the buffer and the version that they had. All that is put back or looked at again
** is held meanwhile: finalisers may let go of anything, also while a capture records.
*/
#include <stdio.h>
#include <stdlib.h>
#include "record/capture.h"
#include "record/grad.h"
#include "record/vmap.h"

static bool grow(void *list, i32 n, i32 *cap, size_t size) {
  void *p, **at = list;
  if (n < *cap) return true;
  i32 more = *cap ? *cap * 2 : 16;
  if (!(p = ty_mem_realloc(*at, size * (size_t)more))) return false;
  *at = p;
  *cap = more;
  return true;
}

bool ty_capture_begin(State *S, Recording *b) {
  Capture *c = ty_mem_zalloc(sizeof *c);
  if (!c) return ty_fail_memory(S, "capture", 0);
  c->recording = b;
  c->stream = S->stream;
  c->stamp = S->stamps;
  c->seq = S->record_seq;
  c->origins = S->origins;
  S->capture = c;
  return true;
}

static void put_back(Capture *c) {
  for (i32 i = 0; i < c->nwritten; i++) {
    Written *w = &c->written[i];
    ty_storage_settle(w->st, w->buf);
    w->st->version = w->version;
    if (w->st->tape) ty_record_drop(w->st->tape);
    w->st->tape = w->tape;
    ty_storage_drop(w->st);
  }
}

/* Snapshots that the capture made let go of what they hold; those from before come back. */
static void put_back_snapshots(Capture *c) {
  for (i32 i = 0; i < c->noutside; i++) {
    Outside *o = &c->outside[i];
    if (!o->first) continue;
    ty_storage_leave_snapshot(o->t.st);
    o->t.st->snapshot = o->snapshot;
    ty_storage_drop(o->snapshot); /* the last one that knew it takes itself away */
  }
}

void ty_capture_end(State *S) {
  Capture *c = S->capture;
  if (!c) return;
  S->capture = NULL;
  S->stream = c->stream;
  S->origins = c->origins + (u32)c->noutside;
  put_back(c);
  put_back_snapshots(c);
  Recording *b = c->recording; /* handles that wait for it are garbage: they pin nothing any more */
  ty_recording_end(b);
  for (i32 i = 0; i < c->noutside; i++) ty_tensor_release(&c->outside[i].t);
  for (i32 i = 0; i < c->ncheck; i++) ty_tensor_release(&c->check[i].t);
  for (i32 i = 0; i < c->nleaf; i++) ty_tensor_release(&c->leaf[i].g);
  ty_mem_free(c->leaf);
  ty_mem_free(c->scalar);
  ty_mem_free(c->outside);
  ty_mem_free(c->check);
  ty_mem_free(c->written);
  ty_mem_free(c->decided);
  ty_mem_free(c);
}

bool ty_capture_refuse(State *S, const char *why) {
  Capture *c = S->capture;
  if (!c->refused) snprintf(c->why, sizeof c->why, "%s", why);
  c->refused = true;
  return ty_fail(S, "capture: %s", why);
}

static bool refuse_memory(State *S) {
  ty_capture_refuse(S, "out of memory");
  return ty_fail_memory(S, "capture", 0);
}

/* A tensor from outside that was pending is computed while the capture runs: its buffer is new, too. */
bool ty_capture_is_fresh(const State *S, const Storage *st) {
  const Capture *c = S->capture;
  if (st->frozen && st->snapshot) st = st->snapshot;
  if (!st->buf) return st->recording == c->recording;
  for (i32 i = 0; i < c->noutside; i++)
    if (c->outside[i].t.st == st) return false;
  return st->buf->stamp > c->stamp;
}

/* --- decisions */

static bool note_pair(State *S, i64 a, i64 b, i64 kind) {
  Capture *c = S->capture;
  if (!grow(&c->decided, c->ndecided + 2, &c->decided_cap, sizeof *c->decided))
    return refuse_memory(S);
  c->decided[c->ndecided++] = a;
  c->decided[c->ndecided++] = b;
  c->decided[c->ndecided++] = kind;
  return true;
}

/* Whether dims are one run of memory goes by strides, and whether the dims of t cut these runs as x's do by how many
** elements lie behind each dim. */
bool ty_capture_decide(State *S, const Tensor *x, const Type *t) {
  bool ok = true;
  if (TY_LIKELY(!S->capture)) return true;
  for (int d = 0; d < x->type.rank && ok; d++)
    ok = note_pair(S, x->strides[d],
                   d + 1 < x->type.rank ? x->type.dims[d + 1] * x->strides[d + 1] : 1, 0);
  i64 behind = 1;
  for (int d = x->type.rank; t && d-- > 0 && ok;) {
    i64 other = 1;
    for (int e = t->rank; e-- > 0 && ok;) {
      ok = note_pair(S, behind, other, 0);
      other *= t->dims[e];
    }
    behind *= x->type.dims[d];
  }
  return ok;
}

/* The order of strides, and that each steps over what the smaller ones reach: as in ty_view_distinct. */
bool ty_capture_decide_distinct(State *S, const Type *t, const i64 *strides) {
  int order[MAX_RANK], n = 0;
  i64 reach = 0;
  bool ok = true;
  if (TY_LIKELY(!S->capture)) return true;
  for (int d = 0; d < t->rank; d++) {
    const i64 stride = llabs(strides[d]);
    int i = n;
    if (t->dims[d] < 2) continue;
    for (int e = 0; e < n && ok; e++) ok = note_pair(S, stride, llabs(strides[order[e]]), 1);
    for (; i > 0 && llabs(strides[order[i - 1]]) > stride; i--) order[i] = order[i - 1];
    order[i] = d;
    n++;
  }
  for (int i = 0; i < n && ok; i++) {
    const i64 stride = llabs(strides[order[i]]);
    ok = note_pair(S, stride, reach, 1);
    reach += (t->dims[order[i]] - 1) * stride;
  }
  return ok;
}

/* --- numbers */

i32 ty_capture_take(State *S, int i) {
  Capture *c = S->capture;
  if (i < 1 || i > SYMBOLS_MAX || !c->symbol[i - 1]) return 0;
  c->taken |= 1u << (i - 1);
  return c->symbol[i - 1];
}

void ty_capture_untake(State *S, i32 id) {
  Capture *c = S->capture;
  for (int i = 0; i < SYMBOLS_MAX; i++)
    if (c->symbol[i] == id) c->taken &= ~(1u << i);
}

bool ty_capture_whole(State *S, i32 id, bool whole) {
  Capture *c = S->capture;
  i32 entry = whole ? id : -id;
  for (i32 i = 0; i < c->nwhole; i++)
    if (c->whole[i] == entry) return true;
  if (c->nwhole == SYMBOLS_MAX) return ty_capture_refuse(S, "too many numbers in one call");
  c->whole[c->nwhole++] = entry;
  return true;
}

/* Slots that nobody tells about are constants; they are filled in when the trace is made. */
bool ty_capture_scalar(State *S, i32 slot, ScalarFrom from) {
  Capture *c = S->capture;
  if (from.kind == SC_NUMBER && from.id > DRAWN_NUMBERS && !ty_is_float(from.dtype))
    return ty_capture_refuse(S, "a number that is drawn in each call meets integers");
  while (c->nscalar <= slot) {
    if (!grow(&c->scalar, c->nscalar, &c->scalar_cap, sizeof *c->scalar)) return refuse_memory(S);
    c->scalar[c->nscalar++] = (ScalarFrom){.kind = SC_CONST};
  }
  c->scalar[slot] = from;
  return true;
}

/* --- tensors */

static const Outside *outside_with(const Capture *c, const Storage *st) {
  for (i32 i = 0; i < c->noutside; i++)
    if (c->outside[i].t.st == st) return &c->outside[i];
  return NULL;
}

bool ty_capture_outside(State *S, Tensor *t, i32 slot) {
  Capture *c = S->capture;
  if (t->st->batched) return ty_capture_refuse(S, "uses a tensor of a vmap that has ended");
  if (!grow(&c->outside, c->noutside, &c->outside_cap, sizeof *c->outside)) return refuse_memory(S);
  const Outside *same = outside_with(c, t->st);
  bool first = !same, lone = same && same->lone;
  bool known = ty_capture_from(c, t) >= 0; /* by another slot */
  Outside *o = &c->outside[c->noutside++];
  *o = (Outside){.slot = slot, .first = first, .lone = lone};
  if (!known) t->origin = c->origins + (u32)c->noutside;
  if (first) {
    o->snapshot = t->st->snapshot ? ty_storage_hold(t->st->snapshot) : NULL;
    t->st->snapshot = NULL;
  }
  ty_tensor_alias(&o->t, t);
  return true;
}

/* --- gradients */

bool ty_capture_is_old(const State *S, const Record *r) {
  return S->capture && r->seq <= S->capture->seq;
}

bool ty_capture_holds(const State *S, const Storage *st) {
  return outside_with(S->capture, st) != NULL;
}

void ty_capture_lone(State *S, const Storage *st) {
  Capture *c = S->capture;
  for (i32 i = 0; i < c->noutside; i++)
    if (c->outside[i].t.st == st) c->outside[i].lone = true;
}

i32 ty_capture_shares(const Capture *c, i32 i) {
  const Outside *o = &c->outside[i];
  return o->lone ? (i32)(outside_with(c, o->t.st) - c->outside) : -1;
}

const Outside *ty_capture_leaf_of(State *S, const Record *r) {
  const Capture *c = S->capture;
  for (i32 i = 0; i < c->noutside; i++)
    if (c->outside[i].t.st->tape == r && !c->outside[i].t.detached) return &c->outside[i];
  ty_capture_refuse(S, "a gradient goes to a tensor of unknown origin");
  return NULL;
}

bool ty_capture_leaf(State *S, const Record *r, Tensor *g) {
  Capture *c = S->capture;
  const Outside *o = ty_capture_leaf_of(S, r);
  if (!o) return false;
  if (!grow(&c->leaf, c->nleaf, &c->leaf_cap, sizeof *c->leaf)) return refuse_memory(S);
  i32 k = c->nleaf++; /* by slots: the order of records may be another one in later calls */
  for (; k > 0 && c->leaf[k - 1].slot > o->slot; k--) c->leaf[k] = c->leaf[k - 1];
  c->leaf[k] = (LeafGradient){o->slot, *g};
  *g = (Tensor){0};
  ty_capture_lone(S, o->t.st);
  return true;
}

/* A frozen index is asked by the storage whose snapshot it is, which is known; one that shares what a tensor from
** outside held, by that. */
bool ty_capture_check(State *S, const Tensor *index, i64 size, int base, const double *skip) {
  Capture *c = S->capture;
  Storage *st = index->st->frozen && index->st->snapshot ? index->st->snapshot : index->st;
  if (!ty_capture_holds(S, st))
    for (i32 i = 0; i < c->noutside; i++)
      if (c->outside[i].t.st->buf == st->buf) st = c->outside[i].t.st;
  for (i32 i = 0; i < c->ncheck; i++) {
    const IndexCheck *k = &c->check[i];
    bool same = k->t.st == st && k->t.origin == index->origin && k->size == size &&
                k->base == base && k->skips == !!skip && (!skip || k->skip == *skip) &&
                k->t.offset == index->offset && ty_type_equal(&k->t.type, &index->type) &&
                !memcmp(k->t.strides, index->strides, sizeof *index->strides * index->type.rank);
    if (same) return true;
  }
  if (!grow(&c->check, c->ncheck, &c->check_cap, sizeof *c->check)) return refuse_memory(S);
  IndexCheck *k = &c->check[c->ncheck++];
  k->size = size;
  k->base = base;
  k->skips = skip != NULL;
  k->skip = skip ? *skip : 0;
  k->t = *index;
  k->t.st = ty_storage_hold(st);
  return true;
}

bool ty_capture_copied(const State *S, const Tensor *x, Tensor *y) {
  const Recording *b = x->st->recording;
  const Capture *c = S->capture;
  if (!c || !b || b != c->recording) return false;
  const Node *n = &b->g.node[x->st->node];
  if (n->op != OP_INPUT || n->type.dtype != x->type.dtype) return false;
  const struct RecordingInput *in = &b->input[n->arg.k2];
  for (i32 i = 0; i < c->noutside; i++) {
    Storage *st = c->outside[i].t.st;
    if (st->recording || st->buf != in->buf) continue;
    *y = (Tensor){.st = st, .type = n->type, .offset = in->offset, .origin = in->origin};
    memcpy(y->strides, n->arg.strides, sizeof y->strides);
    return true;
  }
  return false;
}

bool ty_capture_write(State *S, Storage *st) {
  Capture *c = S->capture;
  if (ty_capture_is_fresh(S, st)) return true;
  for (i32 i = 0; i < c->nwritten; i++)
    if (c->written[i].st == st) return true;
  if (!st->buf) return ty_capture_refuse(S, "writes to a tensor that is not computed yet");
  if (!grow(&c->written, c->nwritten, &c->written_cap, sizeof *c->written)) return refuse_memory(S);
  c->written[c->nwritten++] = (Written){ty_storage_hold(st), ty_buffer_hold(st->buf), st->version,
                                        st->tape ? ty_record_hold(st->tape) : NULL};
  return true;
}
