/*
** traced_call.c -- calls that traces answered, as records of the tape.
** In: the records of a capture; then, call by call, tensors from outside and the storages that the call made. Out: a
** TracedTape; CALL and RESULT records. Fails out of memory; a capture is refused where a later call could not say what
** its records said.
**
** 1. A tape is the capture's records as they are: kinds, dims, layouts, who leads to whom, and which values rules read.
**    Records made of it again (ty_traced_rows) are those that plain Lua would have recorded. So a backward pass may go
**    along them whatever it is to do; a plan for the backward pass (engine/traced_back.c) is the same pass, recorded.
** 2. Numbers of records ascend in the order of recording: a call leaves as many free as it has rows, before its own.
** 3. A RESULT stands for the record of a row. Once the call was expanded, gradients go to that at once (real), so that
**    they are added up in the order in which they would have come.
** 4. What a call keeps of its own results leads nowhere until it is expanded, or the call would hold itself. Writes to
**    a result are told to its call, whose values go stale as snapshots do.
*/
#include <stdio.h>
#include <stdlib.h>
#include "base/pointer_map.h"
#include "record/complex.h"
#include "record/traced_call.h"

/* --- the tape of a capture */

typedef struct Making {
  State *S;
  const Capture *c;
  TracedTape *T;
  Record **list; /* that results lead to, from the capture */
  i32 n;
  PointerMap seen;    /* record -> whatever: it is in the list */
  PointerMap number;  /* record -> its number; roots behind the rows */
  PointerMap leading; /* record -> first tensor from outside that leads to it */
  PointerMap saved;   /* storage -> value */
  bool apart;         /* of the row at hand: what it keeps is */
} Making;

static bool refuse(State *S, const char *why) {
  char text[ERR_MAX];
  snprintf(text, sizeof text, "a result that needs a gradient is given back, and %s (detach it)",
           why);
  return ty_capture_refuse(S, text);
}

/* Whether a later call can record the same. */
static bool is_plain(const Record *r) {
  Attention how;
  if (r->kind == OP_ATTEND && !r->freed && !ty_attend_kept(r, &how)->st) return false;
  return r->kind < OP_COUNT || r->kind == K_WATCH || r->kind == K_CAT || r->kind == K_NONE ||
         r->kind == K_OUT || (r->kind == K_CUSTOM && (r->keeps || r->freed));
}

/* Whether a backward pass has used up all that the record is for. */
static bool is_spent(const Record *r) { return r->freed && !r->retains; }

static bool see(Making *M, Record *r) {
  if (ty_capture_is_old(M->S, r) || ty_pointer_map_get(&M->seen, r) >= 0) return true;
  if (r->hook && !is_spent(r)) return refuse(M->S, "a tensor that it leads to has a hook");
  if (!is_plain(r))
    return refuse(M->S, r->kind == K_LEAF ? "it leads to a leaf that was made inside"
                                          : "a function with a gradient of its own leads to it");
  ty_pointer_map_add(&M->seen, r, M->n);
  M->list[M->n++] = r;
  return true;
}

static int compare_records(const void *x, const void *y) {
  const u64 a = (*(Record *const *)x)->seq, b = (*(Record *const *)y)->seq;
  return a < b ? -1 : a > b;
}

static Type line_of(const Storage *st) { return ty_type_line(st->dtype, st->device, st->numel); }

static bool is_of_rule(const Capture *c, i32 i) { return c->of_rule && c->of_rule[i]; }

/* The outputs, and the records that they lead to. */
static bool collect(Making *M, const Tensor *const *made, i32 n) {
  TracedTape *T = M->T;
  for (i32 i = 0; i < n; i++) {
    Storage *st = made[i]->st;
    bool known = !ty_needs_grad(made[i]) || ty_capture_holds(M->S, st) || is_spent(st->tape) ||
                 is_of_rule(M->c, i);
    for (i32 k = 0; k < T->noutput; k++) known |= T->output[k].st == st;
    if (known) continue;
    if (ty_capture_is_old(M->S, st->tape)) return refuse(M->S, "it is a tensor from outside");
    if (!see(M, st->tape)) return false;
    T->output[T->noutput++] = (TapeOutput){.st = st, .all = line_of(st)};
  }
  for (i32 i = 0; i < M->n; i++) {
    T->nedge += M->list[i]->n + (M->list[i]->kind == OP_ATTEND);
    for (i32 k = 0; k < M->list[i]->n; k++) {
      Record *from = M->list[i]->edge[k].from;
      if (from && !see(M, from)) return false;
    }
  }
  qsort(M->list, (size_t)M->n, sizeof *M->list, compare_records);
  T->nrow = M->n;
  return true;
}

/* Whether each call brings its rule. */
static bool has_rule(const Record *r) { return r->kind == K_CUSTOM && !r->pure && !r->freed; }

/* Tensors from outside that lead to records, and these as roots. */
static bool find_roots(Making *M) {
  const Capture *c = M->c;
  TracedTape *T = M->T;
  for (i32 i = 0; i < M->n; i++) ty_pointer_map_add(&M->number, M->list[i], i);
  for (i32 i = 0; i < M->n; i++)
    for (i32 k = 0; k < M->list[i]->n; k++) {
      Record *from = M->list[i]->edge[k].from;
      if (!from || ty_pointer_map_get(&M->number, from) >= 0) continue;
      if (ty_pointer_map_get(&M->leading, from) < 0)
        return refuse(M->S, "it leads to a tensor of unknown origin");
      ty_pointer_map_add(&M->number, from, T->nrow + T->nroot++);
    }
  for (i32 i = 0; i < c->noutside; i++) {
    const Tensor *t = &c->outside[i].t;
    const i32 at = ty_needs_grad(t) ? ty_pointer_map_get(&M->number, t->st->tape) : -1;
    if (at < 0) continue;
    T->leading[T->nleading++] = (TapeRoot){.outside = i,
                                           .root = at - T->nrow,
                                           .first = ty_pointer_map_get(&M->leading, t->st->tape),
                                           .offset = t->offset,
                                           .all = line_of(t->st)};
  }
  return true;
}

/* What the storage held before the function ran. */
static const Buffer *held(const Capture *c, const Storage *st) {
  for (i32 i = 0; i < c->nwritten; i++)
    if (c->written[i].st == st) return c->written[i].buf;
  return st->buf;
}

/* Of a copy of all that a tensor from outside holds, the number of that tensor; else -1. */
static i32 copied_from(const Making *M, Storage *st) {
  Tensor from, t = {.st = st, .type = line_of(st)};
  if (!ty_capture_copied(M->S, &t, &from)) return -1;
  const bool whole = !from.offset && ty_type_equal(&from.type, &t.type) &&
                     from.st->numel == st->numel && ty_tensor_is_contiguous(&from);
  return whole ? ty_capture_from(M->c, &from) : -1;
}

static bool new_value(Making *M, const Edge *e, TapeValue *v) {
  State *S = M->S;
  Storage *st = e->saved;
  i32 i = ty_capture_from(M->c, &e->t);
  const i32 copied = M->apart && i < 0 ? copied_from(M, st) : -1;
  if (copied >= 0) i = copied;
  *v = (TapeValue){.from = FROM_NONE, .type = line_of(st)};
  v->strides[0] = 1;
  v->apart = M->apart;
  if (st->stale) return refuse(S, "a value that its gradient needs is changed");
  if (st->batched) return refuse(S, "its gradient needs examples of a vmap");
  if (st->tape) v->from = ty_pointer_map_get(&M->number, st->tape);
  const Storage *outside = i < 0 ? NULL : M->c->outside[i].t.st;
  if (copied >= 0 || (outside && (st->recording != M->c->recording) &&
                      (st->snapshot == outside || (st->buf && st->buf == held(M->c, outside))))) {
    v->kind = VALUE_OUTSIDE;
    v->of = i;
    const Tensor *x = &M->c->outside[i].t;
    if (!ty_complex_as_reals(x, &v->type, v->strides)) return refuse(S, "a tensor has 8 dims");
  } else if (st->recording == M->c->recording) {
    v->kind = VALUE_TARGET;
    v->st = st;
  } else if (st->buf && !st->tape && ty_capture_is_fresh(S, st)) {
    v->kind = VALUE_CONSTANT;
    v->st = ty_storage_hold(st);
  } else return refuse(S, "its gradient needs a value of unknown origin");
  return true;
}

/* The number of the value that the edge reads; -1: there was no way. */
static i32 value_of(Making *M, const Edge *e) {
  TracedTape *T = M->T;
  const i32 from = ty_capture_from(M->c, &e->t), known = ty_pointer_map_get(&M->saved, e->saved);
  for (i32 i = known < 0 ? T->nvalue : known; i < T->nvalue;
       i++) /* tensors of one storage are apart */
    if (T->value[i].kind != VALUE_OUTSIDE ? i == known : T->value[i].of == from) return i;
  if (!new_value(M, e, &T->value[T->nvalue])) return -1;
  if (known < 0) ty_pointer_map_add(&M->saved, e->saved, T->nvalue);
  return T->nvalue++;
}

static bool make_edge(Making *M, i32 row, const Edge *e, TapeEdge *y) {
  *y = (TapeEdge){.like = *e, .row = row, .from = FROM_NONE, .value = -1};
  y->like.from = NULL;
  y->like.saved = NULL;
  y->like.t.origin = 0;
  if (e->symbol) M->T->nnumber = 1;
  if (e->from) y->from = ty_pointer_map_get(&M->number, e->from);
  if (e->from && y->from < 0) return refuse(M->S, "it leads to a tensor of unknown origin");
  if (!e->saved) return true;
  if ((y->value = value_of(M, e)) < 0) return false;
  const TapeValue *v = &M->T->value[y->value];
  if (v->kind == VALUE_OUTSIDE) y->like.t.offset -= M->c->outside[v->of].t.offset;
  return true;
}

/* What an ATTEND keeps, as one more operand. */
static bool make_kept(Making *M, i32 row, TapeEdge *y) {
  const Tensor *kept = ty_attend_kept(M->list[row], &M->T->row[row].how);
  *y = (TapeEdge){.row = row, .from = FROM_NONE, .value = -1};
  return M->list[row]->freed ||
         make_edge(M, row, &(Edge){.saved = kept->st, .t = *kept, .numel = kept->st->numel}, y);
}

static void hold_rule(Owner *y, const Record *r) {
  *y = r->owner;
  ((Rule *)y->ctx)->refs++;
}

static bool make_rows(Making *M) {
  TracedTape *T = M->T;
  i32 at = 0;
  for (i32 i = 0; i < M->n; i++) {
    const Record *r = M->list[i];
    T->row[i] = (TapeRow){.t = r->t,
                          .dims = r->dims,
                          .site = r->site,
                          .cast = r->cast,
                          .dim = r->dim,
                          .base = r->base,
                          .n = r->n,
                          .edge = at,
                          .kind = r->kind,
                          .freed = r->freed,
                          .keeps = r->keeps,
                          .pure = r->pure};
    T->row[i].t.st = NULL;
    T->row[i].t.origin = 0;
    T->spent |= r->freed;
    M->apart = r->kind == K_CUSTOM;
    if (has_rule(r)) T->row[i].dims = (u32)++T->nrule;
    else if (r->kind == K_CUSTOM && !r->freed) hold_rule(&T->row[i].owner, r);
    for (i32 k = 0; k < r->n; k++)
      if (!make_edge(M, i, &r->edge[k], &T->edge[at++])) return false;
    if (r->kind == OP_ATTEND && !make_kept(M, i, &T->edge[at++])) return false;
  }
  for (i32 i = 0; i < T->noutput; i++)
    T->output[i].from = ty_pointer_map_get(&M->number, T->output[i].st->tape);
  return true;
}

/* What rules alone have is the call's own, and leads nowhere until that is expanded. */
static bool make_handles(Making *M, const Tensor *const *made, i32 n) {
  TracedTape *T = M->T;
  M->apart = true;
  for (i32 i = 0; i < n; i++) {
    if (!is_of_rule(M->c, i)) continue;
    const Edge e = {.saved = made[i]->st, .t = *made[i]};
    const i32 value = value_of(M, &e);
    if (value < 0) return false;
    if (T->value[value].kind != VALUE_TARGET)
      return refuse(M->S, "its gradient has a tensor of unknown origin");
    T->handle[T->nhandle++] = (TapeHandle){i, value};
  }
  return true;
}

static bool open_maps(Making *M, i32 records) {
  const Capture *c = M->c;
  if (!ty_pointer_map_open(&M->seen, records) ||
      !ty_pointer_map_open(&M->number, records + c->noutside) ||
      !ty_pointer_map_open(&M->leading, c->noutside))
    return false;
  for (i32 i = 0; i < c->noutside; i++)
    if (ty_needs_grad(&c->outside[i].t))
      ty_pointer_map_add(&M->leading, c->outside[i].t.st->tape, i);
  return true;
}

/* The records that made[] lead to. */
static bool list_records(Making *M, const Tensor *const *made, i32 n) {
  TracedTape *T = M->T;
  const i32 records = (i32)(M->S->record_seq - M->c->seq);
  if (!(M->list = ty_mem_alloc(sizeof *M->list * (size_t)(records + 1))) ||
      !(T->output = ty_mem_zalloc(sizeof *T->output * (size_t)(n + 1))) || !open_maps(M, records))
    return ty_fail_memory(M->S, "capture", 0);
  return collect(M, made, n);
}

static bool make_tape(Making *M, const Tensor *const *made, i32 n) {
  TracedTape *T = M->T;
  const Capture *c = M->c;
  if (!list_records(M, made, n)) return false;
  if (!(T->row = ty_mem_zalloc(sizeof *T->row * (size_t)(T->nrow + 1))) ||
      !(T->edge = ty_mem_zalloc(sizeof *T->edge * (size_t)(T->nedge + 1))) ||
      !(T->value = ty_mem_zalloc(sizeof *T->value * (size_t)(T->nedge + n + 1))) ||
      !(T->handle = ty_mem_zalloc(sizeof *T->handle * (size_t)(n + 1))) ||
      !(T->leading = ty_mem_zalloc(sizeof *T->leading * (size_t)(c->noutside + 1))) ||
      !ty_pointer_map_open(&M->saved, T->nedge + n))
    return ty_fail_memory(M->S, "capture", 0);
  return find_roots(M) && make_rows(M) && make_handles(M, made, n);
}

static bool needs_tape(State *S, const Tensor *const *made, i32 n) {
  for (i32 i = 0; i < n; i++)
    if (ty_needs_grad(made[i]) && !ty_capture_holds(S, made[i]->st) &&
        !is_spent(made[i]->st->tape) && !is_of_rule(S->capture, i))
      return true;
  return false;
}

static bool making_open(Making *M, State *S) {
  *M = (Making){.S = S, .c = S->capture, .T = ty_mem_zalloc(sizeof *M->T)};
  if (!M->T) return ty_fail_memory(S, "capture", 0);
  M->T->S = S;
  M->T->refs = 1;
  return true;
}

static void making_close(Making *M) {
  ty_pointer_map_close(&M->seen);
  ty_pointer_map_close(&M->number);
  ty_pointer_map_close(&M->leading);
  ty_pointer_map_close(&M->saved);
  ty_mem_free(M->list);
}

bool ty_traced_tape_new(State *S, const Tensor *const *made, i32 n, TracedTape **y) {
  Making M;
  *y = NULL;
  if (!needs_tape(S, made, n)) return true;
  if (!making_open(&M, S)) return false;
  const bool ok = make_tape(&M, made, n);
  making_close(&M);
  if (ok) *y = M.T;
  else ty_traced_tape_drop(M.T);
  return ok;
}

bool ty_traced_tape_rules(State *S, const Tensor *const *made, i32 n, const Record ***list,
                          i32 *count) {
  Making M;
  *list = NULL, *count = 0;
  if (!needs_tape(S, made, n)) return true;
  if (!making_open(&M, S)) return false;
  bool ok = list_records(&M, made, n);
  if (ok && !(*list = ty_mem_alloc(sizeof **list * (size_t)(M.n + 1))))
    ok = ty_fail_memory(S, "capture", 0);
  for (i32 i = 0; ok && i < M.n; i++)
    if (has_rule(M.list[i])) (*list)[(*count)++] = M.list[i];
  making_close(&M);
  ty_traced_tape_drop(M.T);
  return ok;
}

/* Whether they lie in one storage. */
static bool same_storage(const TapeValue *a, const TapeValue *b) {
  return a->kind == b->kind && a->kind != VALUE_REMADE &&
         (a->kind == VALUE_CONSTANT ? a->st == b->st : a->of == b->of);
}

void ty_traced_tape_kept(const TracedTape *T, i32 i, TapeKept *y) {
  const TapeValue *v = &T->value[i];
  *y = (TapeKept){.type = v->type, .by = ""};
  for (i32 k = 0; k < T->nedge; k++) {
    const TapeEdge *e = &T->edge[k];
    if (e->value != i) continue;
    const u16 kind = T->row[e->row].kind;
    if (e->like.t.type.dtype == v->type.dtype) y->type = e->like.t.type;
    y->by = kind < OP_COUNT ? ty_ops[kind].name : kind == K_CAT ? "cat" : "";
    break;
  }
  bool first = true;
  for (i32 k = 0; k < i; k++) first &= !same_storage(&T->value[k], v);
  if (first) y->bytes = ty_type_bytes(&v->type);
}

/* --- a call */

void ty_traced_tape_set(TracedTape *T, i64 t) {
  T->sizes->now = t;
  ty_patch_apply(T->sizes->patches.patch, T->sizes->patches.n, t);
}

const TapeRoot *ty_traced_tape_leading(const TracedTape *T, i32 outside) {
  for (i32 i = 0; i < T->nleading; i++)
    if (T->leading[i].outside == outside) return &T->leading[i];
  return NULL;
}

bool ty_traced_tape_fits(State *S, const TracedTape *T, const Tensor *const *outside) {
  const u64 walk = ++S->walks;
  for (i32 i = 0; i < T->nleading; i++) {
    const TapeRoot *at = &T->leading[i];
    const Tensor *t = outside[at->outside];
    if (!ty_needs_grad(t) || t->offset != at->offset || t->st->numel != at->all.dims[0])
      return false;
    if (at->first != at->outside) { /* comes earlier */
      if (t->st->tape != outside[at->first]->st->tape) return false;
      continue;
    }
    if (t->st->tape->walk == walk) return false;
    t->st->tape->walk = walk;
  }
  return true;
}

/* One allocation; the tape is held. */
static TracedCall *call_new(TracedTape *T) {
  const size_t pointers = (size_t)(T->nroot + T->nvalue + T->nrow + T->noutput),
               words = (size_t)(T->nvalue + T->nnumber);
  const size_t bytes = sizeof(TracedCall) + pointers * sizeof(void *) + words * 8 +
                       2 * (size_t)T->nrow + (size_t)(T->noutput + T->nvalue);
  TracedCall *c = T->spare ? T->spare : ty_mem_alloc(bytes);
  if (!c) return NULL;
  T->spare = NULL;
  memset(c, 0, bytes);
  c->root = (Record **)(c + 1);
  c->saved = (Storage **)(c->root + T->nroot);
  c->result = (Record **)(c->saved + T->nvalue);
  c->offset = (i64 *)(c->result + T->noutput + T->nrow);
  c->number = (double *)(c->offset + T->nvalue);
  c->freed = (u8 *)(c->number + T->nnumber);
  c->row = c->freed + T->nrow;
  c->given = c->row + T->nrow;
  c->read = c->given + T->noutput;
  c->tape = T;
  c->t = T->sizes ? T->sizes->now : 0;
  c->partly = T->spent;
  T->refs++;
  return c;
}

static bool fill_call(State *S, TracedCall *c, Record *r, const Tensor *const *outside) {
  const TracedTape *T = c->tape;
  for (i32 i = 0; i < T->nleading; i++)
    if (T->leading[i].first == T->leading[i].outside)
      c->root[T->leading[i].root] = ty_record_hold(outside[T->leading[i].outside]->st->tape);
  for (i32 i = 0; i < T->nrow; i++) c->freed[i] = T->row[i].freed;
  for (i32 i = 0; i < T->nvalue; i++) {
    const TapeValue *v = &T->value[i];
    if (v->kind == VALUE_CONSTANT) c->saved[i] = ty_storage_hold(v->st);
    else if (v->kind == VALUE_OUTSIDE) {
      c->offset[i] = outside[v->of]->offset;
      Storage *st = outside[v->of]->st;
      if (!(c->saved[i] = v->apart ? ty_grad_freeze(S, st) : ty_grad_snapshot(S, st))) return false;
    } else if (v->kind == VALUE_TARGET && v->own) {
      const Type *t = &v->type;
      if (!(c->saved[i] = ty_storage_new(S, t->dtype, t->device, t->dims[0]))) return false;
    }
  }
  for (i32 i = 0; i < T->noutput; i++) {
    if (!(c->result[i] = ty_record_new(S, K_RESULT, 1, &(Given){.kind = O_NUMBER}))) return false;
    c->result[i]->edge[0].from = ty_record_hold(r);
    c->result[i]->dim = i;
  }
  return true;
}

Record *ty_traced_call_new(State *S, TracedTape *T, const Tensor *const *outside,
                           const double *number, Owner *rules) {
  const u64 seq = S->record_seq;
  S->record_seq += (u64)T->nrow;
  Record *r = ty_record_new(S, K_CALL, 0, NULL);
  TracedCall *c = r ? call_new(T) : NULL;
  if (r && !c) ty_fail_memory(S, "gradient", 0);
  if (r) r->call = c;
  if (!c) {
    if (r) ty_record_drop(r);
    return NULL;
  }
  c->seq = seq;
  c->seed = S->seed;
  c->stream = S->stream;
  r->dim = T->noutput;
  if (T->nnumber) memcpy(c->number, number, sizeof *number * (size_t)T->nnumber);
  if (T->nrule) c->rules = *rules, *rules = (Owner){0};
  if (fill_call(S, c, r, outside)) return r;
  ty_traced_call_forget(r); /* results hold it */
  ty_record_drop(r);
  return NULL;
}

void ty_traced_call_settle(Record *r, Storage *const *target) {
  TracedCall *c = r->call;
  const TracedTape *T = c->tape;
  for (i32 i = 0; i < T->noutput; i++) {
    Storage *st = target[T->output[i].target];
    st->tape = c->result[i];
    st->tape->of = st;
    c->result[i] = NULL;
  }
  for (i32 i = 0; i < T->nvalue; i++) {
    const TapeValue *v = &T->value[i];
    if (v->kind != VALUE_TARGET) continue;
    Storage *st = target[v->of];
    if (!v->own) c->saved[i] = ty_storage_hold(st);
    c->saved[i]->frozen = true;
    if (!v->own) continue;
    ty_storage_settle(c->saved[i], ty_buffer_hold(st->buf));
    if (!v->shown || v->apart || st->snapshot || (st->tape && st->tape->kind == K_RESULT)) continue;
    if (st->tape) c->saved[i]->tape = ty_record_hold(st->tape);
    c->saved[i]->snapshot = st;
    st->snapshot = c->saved[i];
  }
}

/* --- backward */

bool ty_traced_call_reach(const TracedCall *c) {
  const TracedTape *T = c->tape;
  u8 *row = c->row;
  bool whole = true;
  memset(row, 0, (size_t)T->nrow);
  for (i32 i = 0; i < T->noutput; i++)
    if (c->given[i]) row[T->output[i].from] = 1;
  for (i32 i = T->nrow; i-- > 0;) {
    if (!row[i]) continue;
    whole &= !c->freed[i];
    for (i32 k = 0; !c->freed[i] && k < T->row[i].n; k++) {
      const i32 from = T->edge[T->row[i].edge + k].from;
      if (from >= 0 && from < T->nrow) row[from] = 1;
    }
  }
  return whole;
}

void ty_traced_call_reads(const TracedCall *c, bool freed) {
  const TracedTape *T = c->tape;
  memset(c->read, 0, (size_t)T->nvalue);
  for (i32 i = 0; i < T->nedge; i++) {
    const TapeEdge *e = &T->edge[i];
    if (e->value >= 0 && (freed ? !c->freed[e->row] : c->row[e->row])) c->read[e->value] = 1;
  }
  for (i32 k = 0; k < T->nremade; k++) {
    const TapeRemade *y = &T->remade[k];
    for (i32 i = 0; c->read[y->value] && i < y->n; i++) c->read[T->leaf[y->first + i]] = 1;
  }
}

static bool is_of_call(const TracedTape *T, i32 i) {
  return T->row[i].kind == K_CUSTOM && !T->row[i].pure;
}

bool ty_traced_call_has_rules(const TracedCall *c) {
  const TracedTape *T = c->tape;
  bool any = false;
  for (i32 i = 0; T->nrule && i < T->nrow; i++) any |= c->row[i] && is_of_call(T, i);
  return any;
}

bool ty_traced_tape_breaks(const TracedTape *T, i32 i) {
  const i32 from = T->row[i].kind == K_OUT ? T->edge[T->row[i].edge].from : -1;
  return is_of_call(T, i) || (from >= 0 && from < T->nrow && is_of_call(T, from));
}

bool ty_traced_call_free(TracedCall *c) {
  const TracedTape *T = c->tape;
  bool all = true;
  c->partly = true;
  for (i32 i = 0; i < T->nrow; i++) {
    c->freed[i] |= c->row[i] && T->row[i].kind != K_WATCH;
    all &= c->freed[i] || T->row[i].kind == K_WATCH;
  }
  if (!all) ty_traced_call_reads(c, true);
  for (i32 v = 0; !all && v < T->nvalue; v++) {
    if (c->read[v]) continue;
    ty_storage_drop(c->saved[v]);
    c->saved[v] = NULL;
  }
  return all;
}

/* What row i, an ATTEND, keeps. */
static bool keep(State *S, const TracedTape *T, i32 i, Storage *const *saved, Record *r) {
  const TapeEdge *e = &T->edge[T->row[i].edge + T->row[i].n];
  Tensor flat = e->like.t;
  flat.st = saved[e->value];
  return !flat.st || ty_attend_keep(S, r, &flat, &T->row[i].how);
}

bool ty_traced_rows(State *S, const TracedTape *T, u64 seq, Storage *const *saved,
                    Record *const *root, const i64 *offset, const double *number, const u8 *freed,
                    const Owner *rules, Record **made) {
  for (i32 i = 0; i < T->nrow; i++) {
    const TapeRow *from = &T->row[i];
    Record *r = ty_record_alloc(S, from->n);
    if (!r) {
      while (i-- > 0) ty_record_drop(made[i]);
      return ty_fail_memory(S, "gradient", 0);
    }
    *r = (Record){.S = S,
                  .refs = 1,
                  .kind = from->kind,
                  .freed = freed[i],
                  .keeps = from->keeps,
                  .pure = from->pure,
                  .room = (u8)TY_MIN(from->n, UINT8_MAX),
                  .n = freed[i] ? 0 : from->n,
                  .site = from->site,
                  .cast = from->cast,
                  .seq = seq + 1 + (u64)i,
                  .t = from->t,
                  .dims = from->dims,
                  .dim = from->dim,
                  .base = from->base};
    S->records++;
    for (i32 k = 0; k < r->n; k++) {
      const TapeEdge *e = &T->edge[from->edge + k];
      r->edge[k] = e->like;
      if (e->from >= 0)
        r->edge[k].from =
            ty_record_hold(e->from < T->nrow ? made[e->from] : root[e->from - T->nrow]);
      if (number && e->like.symbol) r->edge[k].number = number[e->like.symbol];
      if (e->value < 0) continue;
      r->edge[k].saved = saved[e->value] ? ty_storage_hold(saved[e->value]) : NULL;
      r->edge[k].t.offset += offset[e->value];
    }
    made[i] = r;
    const Owner *rule = r->kind == K_CUSTOM && !r->pure ? rules : &from->owner;
    if (rule && rule->drop && !r->freed) {
      r->owner = *rule;
      ((Rule *)r->owner.ctx)->refs++;
    }
    if (r->kind != OP_ATTEND || r->freed || keep(S, T, i, saved, r)) continue;
    for (; i >= 0; i--) ty_record_drop(made[i]);
    return false;
  }
  ty_grad_track(S);
  return true;
}

/* Records hold what they read, and lead to roots: what is freed then leads nowhere. */
static void let_go(TracedCall *c) {
  const TracedTape *T = c->tape;
  for (i32 i = 0; i < T->nvalue; i++) {
    if (T->value[i].kind == VALUE_TARGET && T->value[i].shown) continue; /* writes are told to it */
    ty_storage_drop(c->saved[i]);
    c->saved[i] = NULL;
  }
  for (i32 i = 0; i < T->nroot; i++) {
    if (c->root[i]) ty_record_drop(c->root[i]);
    c->root[i] = NULL;
  }
}

bool ty_traced_call_expand(State *S, TracedCall *c) {
  TracedTape *T = c->tape;
  if (c->made) return true;
  ty_traced_tape_at(T, c->t);
  Record **made = ty_mem_alloc(sizeof *made * (size_t)(T->nrow + 1));
  if (!made) return ty_fail_memory(S, "gradient", 0);
  if (!ty_traced_rows(S, T, c->seq, c->saved, c->root, c->offset, c->number, c->freed, &c->rules,
                      made)) {
    ty_mem_free(made);
    return false;
  }
  for (i32 i = 0; i < T->nrow; i++)
    for (i32 k = 0; k < made[i]->n; k++) made[i]->edge[k].symbol = 0; /* numbers of that call */
  for (i32 i = 0; i < T->nvalue; i++) {
    const i32 from = T->value[i].from;
    Storage *st = c->saved[i];
    if (!st || st->tape || from < 0) continue;
    st->tape = ty_record_hold(from < T->nrow ? made[from] : c->root[from - T->nrow]);
  }
  c->made = made;
  if (!c->in_parts) let_go(c);
  return true;
}

void ty_traced_call_leave(TracedCall *c) {
  c->in_parts = false;
  if (c->made) let_go(c);
}

Record *ty_traced_call_real(Record *r) {
  if (TY_LIKELY(r->kind != K_RESULT) || !r->n) return r;
  const TracedCall *c = r->edge[0].from->call;
  return c && c->made ? c->made[c->tape->output[r->dim].from] : r;
}
