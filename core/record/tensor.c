/*
** tensor.c -- lifetimes of buffers, storages, recordings, and of what storages hold; views of tensors.
** In: a State that holds the error text. Out: tensors whose storages are counted. What can fail: memory, and a device
** that copies. Nothing here records or computes: a view is arithmetic on offset and strides.
*/
#include <stdarg.h>
#include <stdio.h>
#include "base/system.h"
#include "record/traced_call.h"
#include "record/vmap.h"

enum {
  SPARE_MAX = 32,
  SPARE_BLOCKS_MAX = 4096,
  SPARE_RECORDS_MAX = 1024
}; /* dropped recordings that are kept; other blocks; records of the tape */

/* --- errors */

bool ty_fail(State *S, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  ty_system_vformat(S->err, ERR_MAX, fmt, ap);
  va_end(ap);
  S->memory = false;
  return false;
}

bool ty_fail_memory(State *S, const char *who, i64 bytes) {
  return ty_fail_room(S, who, ty_cpu, bytes);
}

bool ty_fail_room(State *S, const char *who, const Device *d, i64 bytes) {
  const char *on = d == ty_cpu ? "" : " on ", *name = d == ty_cpu ? "" : d->name;
  if (bytes > 0) ty_fail(S, "%s: out of memory%s%s (%lld bytes)", who, on, name, (long long)bytes);
  else ty_fail(S, "%s: out of memory%s%s", who, on, name);
  S->memory = true;
  return false;
}

/* --- errors that devices tell later */

enum { FAULTS_ROOM = 64 };

/* The first device's buffer makes room for them, so that none is lost. */
static bool fault_room(State *S, i32 more) {
  Fault *f = ty_mem_realloc(S->fault, (size_t)(S->nfaults + more) * sizeof *f);
  if (f) S->fault = f;
  return f != NULL;
}

/* They stand in the order of `to`, those of a device apart. Where there is no room two become one. */
static Fault *fault_new(State *S, const Device *d) {
  Fault *f = S->fault;
  if (S->nfaults == FAULTS_MAX) {
    f[1].from = TY_MIN(f[0].from, f[1].from);
    if (f[0].device != f[1].device) f[1].device = NULL;
    memmove(f, f + 1, (size_t)--S->nfaults * sizeof *f);
  } else if (S->nfaults && S->nfaults % FAULTS_ROOM == 0 && !fault_room(S, FAULTS_ROOM)) {
    f = &f[S->nfaults - 1];
    if (f->device != d) f->device = NULL;
    return f;
  }
  f = &S->fault[S->nfaults++];
  f->device = d;
  f->from = S->runs.failed;
  for (const Fault *g = f; !f->from && g-- > S->fault;) /* unknown: since the device's last one */
    if (!g->device || !d || g->device == d) f->from = g->to;
  return f;
}

/* Who fails since a check of an earlier run did not pass may try again without saying so: a call that is remembered
** (lua_composite.c), a turn of a loop. It would then succeed, what the check guarded being left as it was. So the error
** stays owed until one is raised. */
bool ty_device_failed(State *S, const Device *d, const char *err) {
  ty_fail(S, "%s%s%s", S->runs.failed ? "" : d->name, S->runs.failed ? "" : ": ", err);
  if (!S->fault) return false; /* no buffer has ever been a device's */
  Fault *f = fault_new(S, d == ty_cpu ? NULL : d);
  f->to = S->stamps;
  memcpy(f->text, S->err, sizeof f->text);
  S->owed = S->runs.failed != 0;
  return false;
}

bool ty_buffer_is_faulty(State *S, const Buffer *b) {
  i32 low = 0, high = S->nfaults;
  if (TY_LIKELY(!high) || b->device == ty_cpu) return false;
  if (S->owed) return ty_fail(S, "%s", S->fault[high - 1].text), true;
  while (low < high) { /* the first that was told when it was there */
    i32 mid = (low + high) / 2;
    if (S->fault[mid].to < b->born) low = mid + 1;
    else high = mid;
  }
  for (const Fault *f = &S->fault[low]; low < S->nfaults; low++, f++) {
    if (f->device && f->device != b->device) continue;
    if (f->from < b->born) return ty_fail(S, "%s", f->text), true;
    if (f->device) return false; /* the device's later ones begin later */
  }
  return false;
}

/* --- blocks: storages and buffers come and go with every operation */

static void *block_new(State *S) {
  void *p = S->spare_block;
  if (TY_UNLIKELY(!p)) return ty_mem_alloc(BLOCK_BYTES);
  memcpy(&S->spare_block, p, sizeof(void *));
  S->nspare_block--;
  return p;
}

static void block_drop(State *S, void *p) {
  if (S->closed || S->nspare_block >= SPARE_BLOCKS_MAX) {
    ty_mem_free(p);
    return;
  }
  memcpy(p, &S->spare_block, sizeof(void *));
  S->spare_block = p;
  S->nspare_block++;
}

/* --- buffers */

static void buffer_forget(Buffer *b) {
  if (TY_UNLIKELY(b->kept)) b->S->forget(b->S, b);
  b->kept = false;
}

void ty_buffer_changed(Buffer *b) {
  buffer_forget(b);
  b->stamp = ++b->S->stamps;
}

Buffer *ty_buffer_new(State *S, const Device *d, i64 bytes) {
  if (d != ty_cpu && TY_UNLIKELY(!S->fault) && !fault_room(S, FAULTS_ROOM)) {
    ty_fail_memory(S, "tensor", bytes);
    return NULL;
  }
  Buffer *b = ty_within_limit(S, bytes) ? block_new(S) : NULL;
  void *data = b ? d->allocate(bytes) : NULL;
  if (TY_UNLIKELY(!data)) {
    ty_fail_room(S, "tensor", b ? d : ty_cpu, bytes);
    if (b) block_drop(S, b);
    return NULL;
  }
  *b = (Buffer){.S = S, .refs = 1, .bytes = bytes, .device = d, .data = data};
  b->stamp = b->born = ++S->stamps;
  S->debt += bytes;
  S->held += bytes;
  return b;
}

Buffer *ty_buffer_copy(State *S, const Buffer *b) {
  const char *err = NULL;
  Buffer *y = ty_buffer_new(S, b->device, b->bytes);
  if (!y || !b->bytes || b->device->across(y->data, b->data, b->bytes, &err)) return y;
  ty_fail(S, "%s: %s", b->device->name, err);
  ty_buffer_drop(y);
  return NULL;
}

void ty_buffer_drop(Buffer *b) {
  if (!b || --b->refs) return;
  buffer_forget(b);
  if (!b->foreign) b->device->free(b->data, b->bytes), b->S->held -= b->bytes;
  else if (b->owner.drop) b->owner.drop(b->owner.ctx);
  block_drop(b->S, b);
}

static void window_close(Window *w) {
  if (w->data) ty_mem_free(w->data);
  *w = (Window){0};
}

/* Small buffers are read whole: who reads one element will want others. */
const void *ty_buffer_read(State *S, const Buffer *b, i64 from, i64 bytes) {
  enum { WHOLE = 64 << 10 };
  if (TY_LIKELY(b->device == ty_cpu)) return (const char *)b->data + from;
  if (TY_UNLIKELY(ty_buffer_is_faulty(S, b))) return NULL;
  for (int i = 0; i < WINDOWS; i++) {
    const Window *w = &S->window[i];
    if (w->data && w->stamp == b->stamp && w->from <= from && from + bytes <= w->from + w->bytes)
      return (const char *)w->data + (from - w->from);
  }
  Window *w = &S->window[S->windows++ % WINDOWS], y = {b->stamp, from, bytes, NULL};
  const char *err = NULL;
  if (b->bytes <= WHOLE) y.from = 0, y.bytes = b->bytes;
  window_close(w);
  if (!(y.data = ty_mem_alloc((size_t)TY_MAX(y.bytes, 1)))) {
    ty_fail_memory(S, "read", y.bytes);
    return NULL;
  }
  S->runs.failed = 0;
  if (!b->device->out(y.data, (const char *)b->data + y.from, y.bytes, &S->runs, &err)) {
    ty_mem_free(y.data);
    ty_device_failed(S, b->device, err);
    return NULL;
  }
  *w = y;
  return (const char *)y.data + (from - y.from);
}

/* --- recordings */

void ty_recording_end(Recording *b) {
  b->dead = true;
  for (i32 i = 0; i < b->ninput; i++) ty_buffer_drop(b->input[i].buf);
  b->ninput = 0;
}

Recording *ty_recording_new(State *S) {
  Recording *b = S->spare;
  if (b) {
    S->spare = b->next;
    S->nspare--;
    b->next = NULL;
  } else if (!(b = ty_mem_zalloc(sizeof *b))) {
    ty_fail_memory(S, "record", 0);
    return NULL;
  }
  b->S = S;
  b->refs = 1;
  b->closed = b->dead = b->lent = b->kept = false;
  b->wants = WANT_SINKS;
  b->learn = NULL;
  b->pinned = 0;
  b->nsite = 0;
  return b;
}

void ty_recording_place(State *S, Recording *b) {
  if (b->site_cap < b->g.n) {
    void *more = ty_mem_realloc(b->site, sizeof *b->site * (size_t)b->g.n * 2);
    if (!more) return;
    b->site = more;
    b->site_cap = b->g.n * 2;
  }
  while (b->nsite < b->g.n) b->site[b->nsite++] = S->site;
}

static __attribute__((noinline)) void drop_loops(Recording *b) {
  for (i32 i = 0; i < b->nloop; i++) ty_mem_free(b->loop[i].param);
  ty_mem_free(b->loop);
  b->loop = NULL;
  b->nloop = 0;
}

void ty_recording_drop(State *S, Recording *b) {
  if (--b->refs) return;
  if (TY_UNLIKELY(b->loop != NULL)) drop_loops(b);
  for (i32 i = 0; i < b->ninput; i++) ty_buffer_drop(b->input[i].buf);
  b->ninput = 0;
  if (S->nspare < SPARE_MAX) {
    ty_graph_clear(&b->g);
    b->next = S->spare;
    S->spare = b;
    S->nspare++;
  } else {
    ty_graph_free(&b->g);
    ty_mem_free(b->input);
    ty_mem_free(b->site);
    ty_mem_free(b);
  }
}

bool ty_recording_exposed(const Recording *b) {
  for (i32 i = 0; i < b->ninput; i++)
    if (b->input[i].buf->exposed) return true;
  return false;
}

void ty_tensor_open(State *S) {
  if (!ty_mem_checked()) return;
  S->nspare = SPARE_MAX; /* there is no room: what is used too late is seen */
  S->nspare_block = SPARE_BLOCKS_MAX;
  S->nspare_record = SPARE_RECORDS_MAX;
}

void ty_tensor_close(State *S) {
  const char *err; /* that nobody will read */
  for (int d = 1; d < DEVICES_MAX && ty_devices[d]; d++) ty_devices[d]->wait(&S->runs, &err);
  for (int i = 0; i < WINDOWS; i++) window_close(&S->window[i]);
  ty_mem_free(S->fault);
  S->fault = NULL;
  S->nfaults = 0;
  S->closed = true;
  S->nspare = SPARE_MAX;
  while (S->spare) {
    Recording *b = S->spare;
    S->spare = b->next;
    ty_graph_free(&b->g);
    ty_mem_free(b->input);
    ty_mem_free(b->site);
    ty_mem_free(b);
  }
  for (int n = 0; n < RECORD_SPARES; n++)
    for (Record *r; (r = S->spare_record[n]) != NULL;) {
      S->spare_record[n] = r->next_dead;
      ty_mem_free(r);
    }
  while (S->spare_block) {
    void *p = S->spare_block;
    memcpy(&S->spare_block, p, sizeof(void *));
    ty_mem_free(p);
  }
}

/* --- storages */

Storage *ty_storage_new(State *S, int dtype, int device, i64 numel) {
  Storage *st = block_new(S);
  if (TY_UNLIKELY(!st)) {
    ty_fail_memory(S, "tensor", 0);
    return NULL;
  }
  *st = (Storage){.S = S, .refs = 1, .dtype = (u8)dtype, .device = (u8)device, .numel = numel};
  if (TY_UNLIKELY(S->level != NULL)) st->born = S->level->id ? ++S->born : 0;
  return st;
}

/* Takes st out of the list of those that wait for its recording; the caller drops the recording. */
static void storage_unlink(Storage *st) {
  *st->prev = st->next;
  if (st->next) st->next->prev = st->prev;
  st->next = NULL;
  st->prev = NULL;
  st->recording = NULL;
}

void ty_storage_wait(Storage *st, Recording *b, i32 node) {
  Recording *old = st->recording;
  st->node = node;
  if (old == b) return;
  b->refs++;
  if (old) storage_unlink(st);
  st->recording = b;
  st->next = b->waiting;
  st->prev = &b->waiting;
  if (b->waiting) b->waiting->prev = &st->next;
  b->waiting = st;
  if (old) ty_recording_drop(old->S, old);
}

void ty_storage_settle(Storage *st, Buffer *buf) {
  Recording *b = st->recording;
  if (buf != st->buf) ty_buffer_drop(st->buf);
  else if (buf) ty_buffer_drop(buf); /* the caller's reference: the storage's own remains */
  st->buf = buf;
  if (!b) return;
  storage_unlink(st);
  ty_recording_drop(b->S, b);
}

/* Lets go of the examples' values. */
void ty_batched_free(Batched *m) {
  ty_tensor_release(&m->t);
  ty_mem_free(m);
}

/* Apart from its callers, where it is rare: they save fewer registers. */
__attribute__((noinline)) static void batched_drop(Storage *st) {
  Batched *m = st->batched;
  st->batched = NULL;
  ty_batched_free(m);
}

static void tape_drop(Storage *st) {
  if (st->tape->kind == K_RESULT && st->tape->of == st) st->tape->of = NULL;
  ty_record_drop(st->tape);
}

void ty_storage_drop(Storage *st) {
  if (!st || --st->refs) return;
  Recording *b = st->recording;
  if (b) storage_unlink(st);
  if (TY_UNLIKELY(st->snapshot != NULL)) st->snapshot->snapshot = NULL;
  if (TY_UNLIKELY(st->tape != NULL)) tape_drop(st);
  if (TY_UNLIKELY(st->batched != NULL)) batched_drop(st);
  ty_buffer_drop(st->buf);
  block_drop(st->S, st);
  if (b) ty_recording_drop(b->S, b);
}

void ty_storage_touch(Storage *st) {
  if (TY_UNLIKELY(st->tape && st->tape->kind == K_RESULT) && !st->S->capture)
    ty_traced_call_touch(st->tape, st);
  ty_storage_leave_snapshot(st);
}

void ty_storage_leave_snapshot(Storage *st) {
  Storage *snapshot = st->snapshot;
  if (TY_LIKELY(!snapshot) || st->frozen) return;
  st->snapshot = snapshot->snapshot = NULL;
  snapshot->stale = true;
  ty_storage_settle(snapshot, NULL);
  if (TY_UNLIKELY(snapshot->batched != NULL)) batched_drop(snapshot);
}

/* --- records of the tape, which storages hold and which hold others */

/* Of calls that traces answered: see traced_call.h. */
void ty_traced_sizes_free(TapeSizes *s) {
  ty_mem_free(s->patches.patch);
  ty_mem_free(s->given);
  ty_mem_free(s);
}

void ty_traced_tape_drop(TracedTape *T) {
  if (!T || --T->refs) return;
  if (T->plans.drop) T->plans.drop(T->plans.ctx);
  for (i32 i = 0; i < T->nvalue; i++)
    if (T->value[i].kind == VALUE_CONSTANT) ty_storage_drop(T->value[i].st);
  for (i32 i = 0; T->row && i < T->nrow; i++)
    if (T->row[i].owner.drop) T->row[i].owner.drop(T->row[i].owner.ctx);
  ty_mem_free(T->row);
  ty_mem_free(T->edge);
  ty_mem_free(T->value);
  ty_mem_free(T->output);
  ty_mem_free(T->leading);
  ty_mem_free(T->room);
  ty_mem_free(T->spare);
  ty_mem_free(T->handle);
  ty_mem_free(T->remade);
  ty_mem_free(T->leaf);
  if (T->remake.drop) T->remake.drop(T->remake.ctx);
  if (T->sizes) ty_traced_sizes_free(T->sizes);
  ty_mem_free(T);
}

void ty_traced_call_forget(Record *r) {
  TracedCall *c = r->call;
  const TracedTape *T = c->tape;
  r->call = NULL;
  for (i32 i = 0; i < T->noutput; i++)
    if (c->result[i]) ty_record_drop(c->result[i]);
  for (i32 i = 0; i < T->nvalue; i++) ty_storage_drop(c->saved[i]);
  for (i32 i = 0; c->made && i < T->nrow; i++) ty_record_drop(c->made[i]);
  for (i32 i = 0; i < T->nroot; i++)
    if (c->root[i]) ty_record_drop(c->root[i]);
  if (c->rules.drop) c->rules.drop(c->rules.ctx);
  ty_mem_free(c->made);
  TracedTape *tape = c->tape;
  if (tape->spare || tape->refs == 1 || ty_mem_checked()) ty_mem_free(c);
  else tape->spare = c;
  ty_traced_tape_drop(tape);
}

/* The values of the call that are results lie in storages that their users may write to. */
void ty_traced_call_touch(const Record *result, const Storage *st) {
  if (result->of != st || !result->n) return;
  const TracedCall *c = result->edge[0].from->call;
  for (i32 i = 0; c && i < c->tape->nvalue; i++) {
    const TapeValue *v = &c->tape->value[i];
    if (v->kind != VALUE_TARGET || !v->shown || v->apart || !c->saved[i]) continue;
    if (v->of != c->tape->output[result->dim].target) continue;
    c->saved[i]->stale = true;
    ty_storage_settle(c->saved[i], NULL);
  }
}

/* Records of few edges come and go with every call that is taped. */
Record *ty_record_alloc(State *S, i32 n) {
  Record *r = n < RECORD_SPARES ? S->spare_record[n] : NULL;
  if (!r) return ty_mem_alloc(sizeof *r + sizeof(Edge) * (size_t)n);
  S->spare_record[n] = r->next_dead;
  S->nspare_record--;
  return r;
}

static void record_free(State *S, Record *r) {
  if (r->room >= RECORD_SPARES || S->closed || S->nspare_record >= SPARE_RECORDS_MAX) {
    ty_mem_free(r);
    return;
  }
  r->next_dead = S->spare_record[r->room];
  S->spare_record[r->room] = r;
  S->nspare_record++;
}

/* Lets go of what the record leads to and keeps. */
void ty_record_forget(Record *r) {
  i32 n = r->n;
  if (r->kind == K_CALL && r->call) ty_traced_call_forget(r);
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
    ty_record_forget(r);
    if (r->kind == K_LEAF && r->t.st) ty_tensor_release(&r->t);
    if (r->kind != K_CALL && r->kind != K_RESULT && r->owner.drop) r->owner.drop(r->owner.ctx);
    if (r->hook) r->hook->drop(r->hook->ctx);
    record_free(S, r);
    S->records--;
  }
  S->dead_records = NULL;
  ty_grad_track(S);
}

/* --- tensors */

static void tensor_init(Tensor *y, Storage *st, const Type *t) {
  y->st = st;
  y->type = *t;
  y->offset = 0;
  y->detached = false;
  y->origin = 0;
  memset(y->strides, 0, sizeof y->strides);
  ty_type_strides(t, y->strides);
}

/* A storage for elements of type t: those of complex numbers are their parts. */
static Storage *storage_for(State *S, const Type *t) {
  return ty_storage_new(S, ty_dtype_part(t->dtype), t->device,
                        ty_type_numel(t) * ty_dtype_width(t->dtype));
}

bool ty_tensor_from(State *S, Tensor *y, const Type *t, const void *bytes) {
  i64 size = ty_type_bytes(t);
  Storage *st = storage_for(S, t);
  if (!st) return false;
  const Device *d = ty_devices[t->device];
  const char *err = NULL;
  bool ok = (st->buf = ty_buffer_new(S, d, size)) != NULL;
  if (ok && bytes && size && !d->in(st->buf->data, bytes, size, &err))
    ok = ty_fail(S, "%s: %s", d->name, err);
  if (ok && bytes) st->buf->born = 0;
  if (!ok) {
    ty_storage_drop(st);
    return false;
  }
  tensor_init(y, st, t);
  return true;
}

bool ty_tensor_foreign(State *S, Tensor *y, const Type *t, void *data, Owner owner) {
  i64 n = ty_type_numel(t);
  Storage *st = storage_for(S, t);
  Buffer *b = st ? block_new(S) : NULL;
  if (!b) {
    ty_storage_drop(st);
    return ty_fail_memory(S, "from_ptr", 0);
  }
  *b = (Buffer){.S = S,
                .refs = 1,
                .foreign = true,
                .exposed = true,
                .bytes = n * ty_dtypes[t->dtype].bytes,
                .device = ty_cpu,
                .data = data,
                .owner = owner};
  st->buf = b;
  tensor_init(y, st, t);
  return true;
}

bool ty_tensor_lent(State *S, Tensor *y, const Type *t, const void *data, Owner owner) {
  if (!ty_tensor_foreign(S, y, t, (void *)(uintptr_t)data, owner)) return false;
  y->st->buf->exposed = false;
  y->st->buf->stamp = ++S->stamps;
  return true;
}

void ty_tensor_alias(Tensor *y, const Tensor *x) {
  *y = *x;
  ty_storage_hold(y->st);
}

void ty_tensor_release(Tensor *t) {
  Storage *st = t->st;
  t->st = NULL;
  ty_storage_drop(st);
}

bool ty_tensor_is_contiguous(const Tensor *t) {
  return ty_is_contiguous_by(t->type.rank, t->type.dims, t->strides, ty_dtype_width(t->type.dtype));
}

void ty_tensor_view(Tensor *y, const Tensor *x, const Type *t, i64 offset, const i64 *strides) {
  Storage *st = ty_storage_hold(x->st);
  Tensor v = {.st = st, .type = *t, .offset = offset, .origin = x->origin};
  v.type.device = st->device;
  v.detached = x->detached || (TY_UNLIKELY(st->tape != NULL) && !st->S->grad_mode);
  if (t->rank) memcpy(v.strides, strides, sizeof(i64) * t->rank);
  *y = v;
}

/* Dims of x without those of size 1 are cut into chunks that step evenly; each chunk of x must be a
** product of adjacent dims of t. */
bool ty_tensor_reshape(const Tensor *x, const Type *t, i64 *strides) {
  i64 dims[MAX_RANK], steps[MAX_RANK];
  int n = 0, k = 0;
  if (ty_type_numel(t) == 0) {
    ty_type_strides(t, strides);
    return true;
  }
  for (int d = 0; d < x->type.rank; d++) {
    i64 size = x->type.dims[d], step = x->strides[d];
    if (size == 1) continue;
    if (n && steps[n - 1] == step * size) {
      dims[n - 1] *= size;
      steps[n - 1] = step;
    } else {
      dims[n] = size;
      steps[n++] = step;
    }
  }
  i64 rest = n ? dims[0] : 1; /* what the current chunk still has to give */
  for (int d = 0; d < t->rank; d++) {
    i64 size = t->dims[d];
    if (size == 1) {
      strides[d] = 0;
      continue;
    }
    if (rest == 1 && k + 1 < n) rest = dims[++k];
    if (rest % size) return false;
    rest /= size;
    strides[d] = steps[k] * rest;
  }
  return true;
}
