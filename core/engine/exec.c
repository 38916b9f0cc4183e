/*
** exec.c -- runs a plan.
** In:  a plan, a recording with its inputs and scalars, the buffers of the storages that are
** written.  Out: a buffer for each output.  Fails when out of memory (and where OpenBLAS was
** asked for and is not there); then nothing that anybody knows has changed.
**
** All memory is had before the first step: outputs, the arena, and what kernels take as they run
** if something is written in place. plan.c has seen to it that after a write in place nothing
** else can fail. Steps do not know whether an output is a fresh buffer or the written tensor's
** own: that is decided by binding the output's slot; the copy of a base into itself is skipped.
**
** A run that takes a while may be left undone (State.interrupted), up to the first write in place; so where much would
** follow that, a fresh buffer is taken instead, unless there is no memory for one.
*/
#include "engine/engine.h"
#include "base/events.h"
#include "device/call_library.h"
#include "ir/body.h"

enum { FEW = 96 }; /* slots and outputs for which the stack has room */

typedef struct Bound {
  State *S;
  Plan *p;
  Recording *b;
  const Device *device; /* the arena's */
  void **addr;          /* per slot */
  Buffer **made;        /* per output: the buffer that it is, held; so many */
  i32 nmade;
  void *arena;
  u8 *wanted;    /* per buffer of inputs; see wanted_later */
  i32 careful;   /* steps behind this one may not fail: the first write in place */
  void **packed; /* per step, of a loop's turns: weights packed ahead, or NULL */
  bool lost;     /* other libraries still use its memory, which is left to them */
} Bound;

/* --- may an output take a buffer that is there? */

/* Marks the inputs that storages of the recording want which this run does not compute: they stay pending, and are
** computed from the inputs when they are demanded. NULL: out of memory. */
static u8 *wanted_later(const Plan *p, const Recording *b) {
  enum { OUT = 1, LIVE = 2 };
  u8 *mark = ty_mem_zalloc((size_t)(b->g.n + b->ninput));
  if (!mark) return NULL;
  i32 here = 0, top = -1;
  for (i32 k = 0; k < p->noutputs; k++) mark[p->output[k].node] |= OUT;
  for (const Storage *st = b->waiting; st; st = st->next) {
    if (mark[st->node] & OUT) here++;
    else mark[st->node] |= LIVE, top = TY_MAX(top, st->node);
  }
  const Node *node = b->g.node;
  for (i32 i = top < 0 ? 0 : b->g.n; i-- > 0;) /* each cut makes the checks anew */
    if (node[i].op == OP_POSITIONS) mark[i] |= LIVE, top = TY_MAX(top, i);
  u8 *wanted = mark + b->g.n;
  for (i32 i = top; i >= 0; i--) {
    if (!(mark[i] & LIVE)) continue;
    if (node[i].op == OP_INPUT) wanted[node[i].arg.k] = 1;
    for (int j = 0; j < ty_ops[node[i].op].arity; j++) mark[node[i].src[j]] |= LIVE;
  }
  /* one that waits for an output's node gets none */
  if (here > p->noutputs) memset(wanted, 1, (size_t)b->ninput);
  memmove(mark, wanted, (size_t)b->ninput);
  return mark;
}

/* Whether nobody else holds what output o would be written into, and what it holds is known. */
static bool is_sole(const Bound *B, const Output *o, const Buffer *y) {
  const Recording *b = B->b;
  if (!y || y->foreign || y->exposed || y->bytes != o->bytes) return false;
  if (TY_UNLIKELY(B->S->nfaults) && ty_buffer_is_faulty(B->S, y)) return false;
  if (!b->lent) return y->refs == o->pins + (o->write != -1);
  return o->write != -1 && y->refs == 1; /* what lives only in the recording cannot be told */
}

/* Whether what the input holds is wanted by a later cut; also where there is no memory to find out. */
static bool is_wanted_later(Bound *B, i32 input) {
  const Recording *b = B->b;
  if (input < 0 || !b->waiting) return false;
  if (!B->wanted && !(B->wanted = wanted_later(B->p, b))) return true;
  return B->wanted[b->g.node[b->input[input].node].arg.k];
}

/* The buffer that output k may take over, or NULL: `now` is that of the storage it is written
** to. */
static Buffer *own_buffer(Bound *B, i32 k, Buffer *now) {
  const Plan *p = B->p;
  const Recording *b = B->b;
  const Output *o = &p->output[k];
  if (!o->inplace) return NULL;
  i32 input = o->write == -1 ? o->donor : o->write;
  Buffer *y = o->write == -1 ? b->input[input].buf : now;
  if (!is_sole(B, o, y)) return NULL;
  if (o->write >= 0 && y != b->input[input].buf) return NULL;
  if (o->donor >= 0 && b->input[o->donor].offset != o->at) return NULL;
  return is_wanted_later(B, input) ? NULL : y;
}

/* --- binding */

/* Where memory is checked each temporary has a block of its own: bind_apart. */
static bool bind_arena(Bound *B) {
  const i64 bytes = B->p->arena;
  if (!bytes || TY_UNLIKELY(ty_guarded)) return true;
  const bool within = ty_within_limit(B->S, bytes);
  if (within && (B->arena = B->device->allocate(bytes))) return true;
  return ty_fail_room(B->S, "run", within ? B->device : ty_cpu, bytes);
}

/* The buffer that output k becomes, held; *own: it was there. NULL: out of memory. */
static Buffer *output_buffer(Bound *B, i32 k, Buffer *now, bool *own) {
  const Output *o = &B->p->output[k];
  Buffer *there = own_buffer(B, k, now);
  *own = there && !(o->long_after && B->S->interrupted);
  if (*own) return ty_buffer_hold(there);
  Buffer *y = ty_buffer_new(B->S, ty_devices[o->device], o->bytes);
  *own = !y && there;
  return *own ? ty_buffer_hold(there) : y;
}

static bool bind_outputs(Bound *B, Buffer *const *now) {
  const Plan *p = B->p;
  B->careful = p->nsteps;
  memset(B->made, 0, (size_t)p->noutputs * sizeof(Buffer *));
  B->nmade = p->noutputs;
  for (i32 k = 0; k < p->noutputs; k++) {
    bool own;
    if (p->output[k].same >= 0) continue;
    Buffer *y = B->made[k] = output_buffer(B, k, now[k], &own);
    if (!y) return false;
    if (own && p->output[k].write == -1) y->born = ++B->S->stamps;
    if (own) B->careful = TY_MIN(B->careful, p->output[k].first);
  }
  for (i32 k = 0; k < p->noutputs; k++)
    if (p->output[k].same >= 0) B->made[k] = ty_buffer_hold(B->made[p->output[k].same]);
  return true;
}

/* Most slots are inputs. Blocks of their own come later. */
static void bind_slots(Bound *B) {
  const Slot *s = B->p->slot, *end = s + B->p->nslots;
  const struct RecordingInput *input = B->b->input;
  for (void **addr = B->addr; s < end; s++, addr++) {
    if (s->kind == SLOT_INPUT)
      *addr = (char *)input[s->k].buf->data + input[s->k].offset * s->esize;
    else if (s->kind == SLOT_OUTPUT) *addr = B->made[s->k]->data;
    else if (s->kind == SLOT_TEMP && s->k != -2)
      *addr = (char *)(s->k < 0 ? B->arena : B->made[s->k]->data) + s->offset;
    else *addr = NULL;
  }
}

/* Temporaries with a block of their own: of other devices than the arena's, and all where memory is checked. What
** fails here is let go of with the rest. */
static bool is_apart(const Slot *s) { return s->kind == SLOT_TEMP && (ty_guarded || s->k == -2); }

static bool bind_apart(const Bound *B) {
  const Slot *s = B->p->slot;
  for (i32 i = 0; i < B->p->nslots; i++)
    if (is_apart(&s[i])) B->addr[i] = NULL;
  for (i32 i = 0; i < B->p->nslots; i++)
    if (is_apart(&s[i]) && !(B->addr[i] = ty_devices[s[i].device]->allocate(s[i].bytes)))
      return ty_fail_room(B->S, "run", ty_devices[s[i].device], s[i].bytes);
  return true;
}

static void free_apart(const Bound *B) {
  const Slot *s = B->p->slot;
  for (i32 i = 0; i < B->p->nslots; i++)
    if (is_apart(&s[i]) && B->addr[i]) ty_devices[s[i].device]->free(B->addr[i], s[i].bytes);
}

/* Kernels behind the first write in place: plan.c has made sure that their machines can promise. */
static bool reserve(const Bound *B) {
  for (i32 i = B->careful + 1; i < B->p->nsteps; i++) {
    const Step *s = &B->p->step[i];
    if (s->kind == STEP_KERNEL && !s->away && s->machine->reserve &&
        !s->machine->reserve(s->kernel, s->launch))
      return ty_fail_memory(B->S, "run", 0);
  }
  return true;
}

/* --- steps */

static inline void gather(const Bound *B, const Step *s, void **buf, u64 *scalar) {
  void **addr = B->addr;
  const u64 *value = B->b->g.scalar;
  for (i32 i = 0, n = s->noperands; i < n; i++) buf[i] = addr[s->slot[i]];
  for (i32 i = 0, n = s->nscalar; i < n; i++) scalar[i] = value[s->scalar[i]];
}

static bool run_kernel(const Bound *B, const Step *s) {
  void *buf[MAX_OPERANDS];
  u64 scalar[MAX_OPERANDS * 2];
  gather(B, s, buf, scalar);
  Run r = {.launch = s->launch, .buf = buf, .scalar = scalar, .stream = &B->S->runs};
  return s->machine->run(s->kernel, &r);
}

static bool run_job(const Bound *B, const Step *s, const char **err) {
  void *buf[MAX_OPERANDS];
  u64 scalar[MAX_OPERANDS * 2];
  const void *panels = NULL;
  Panel *held = NULL;
  gather(B, s, buf, scalar);
  if (B->packed) {
    panels = B->packed[s - B->p->step];
  } else if (s->panels) {
    Buffer *in = B->b->input[B->p->slot[s->slot[1]].k].buf;
    const char *b = (char *)buf[1] + s->job->start[1];
    held = ty_panels_find(B->S->engine, in, s->job->gemm, b, s->panels);
    panels = held ? ty_panel_data(held) : NULL;
  }
  bool ok = ty_devices[s->device]->perform(s->job, buf, scalar, panels, &B->S->runs, err);
  if (held) ty_panel_drop(held);
  if (B->p->library && s->job->kind == JOB_POSITIONS && ty_devices[s->device]->note)
    ty_devices[s->device]->note(&B->S->runs);
  B->S->out_of_range = !ok && s->job->kind == JOB_POSITIONS;
  return ok;
}

/* From one device to another. */
static bool run_to(const Bound *B, const Step *s, const char **err) {
  Stream *stream = &B->S->runs;
  const Device *from = ty_devices[B->p->slot[s->slot[0]].device], *to = ty_devices[s->device];
  const void *x = B->addr[s->slot[0]];
  void *y = B->addr[s->slot[1]];
  const i64 bytes = s->job->bytes;
  if (from == ty_cpu) {
    const Slot *slot = &B->p->slot[s->slot[1]];
    if (slot->kind == SLOT_OUTPUT && B->made && B->p->output[slot->k].node == s->node)
      B->made[slot->k]->born = 0; /* its contents come from the CPU */
    return to->in(y, x, bytes, err);
  }
  if (to == ty_cpu) return from->out(y, x, bytes, stream, err);
  const Receipt r = to->receive ? to->receive(from, y, x, bytes, stream, err) : RECEIPT_NONE;
  if (r != RECEIPT_NONE) return r == RECEIPT_OK;
  void *stage = ty_buf_alloc(bytes);
  bool ok = stage && from->out(stage, x, bytes, stream, err) && to->in(y, stage, bytes, err);
  ty_buf_free(stage, bytes);
  return ok;
}

/* What a step that its device refuses works on: the whole buffers of its operands, as copies. */
typedef struct Away {
  void *copy[MAX_OPERANDS]; /* per operand; NULL: none, or that of an operand before it */
  char *base[MAX_OPERANDS]; /* where the original begins on the device */
  i64 bytes[MAX_OPERANDS];
} Away;

static void away_operand(const Bound *B, const Step *s, int i, Away *y) {
  const Slot *slot = &B->p->slot[s->slot[i]];
  y->base[i] = B->addr[s->slot[i]];
  y->bytes[i] = slot->bytes;
  if (slot->kind != SLOT_INPUT || !B->b->input) return;
  const Buffer *b = B->b->input[slot->k].buf;
  y->base[i] = b->data;
  y->bytes[i] = b->bytes;
}

static bool run_away(const Bound *B, const Step *s, const char **err) {
  const Device *d = ty_devices[s->device];
  void *buf[MAX_OPERANDS] = {NULL};
  u64 scalar[MAX_OPERANDS * 2];
  Away y = {{NULL}, {NULL}, {0}};
  Stream *stream = &B->S->runs;
  bool ok = true;
  gather(B, s, buf, scalar);
  for (int i = 0; i < s->noperands && ok; i++) {
    if (!buf[i]) continue;
    away_operand(B, s, i, &y);
    int same = 0; /* an operand may be there twice, and what is written once */
    while (y.base[same] != y.base[i]) same++;
    if (same == i) {
      ok = (y.copy[i] = ty_buf_alloc(y.bytes[i])) &&
           d->out(y.copy[i], y.base[i], y.bytes[i], stream, err);
    }
    if (ok) buf[i] = (char *)y.copy[same] + ((char *)buf[i] - y.base[i]);
  }
  Run r = {.launch = s->launch, .buf = buf, .scalar = scalar};
  if (ok)
    ok = s->job ? ty_cpu->perform(s->job, buf, scalar, NULL, stream, err)
                : s->machine->run(s->kernel, &r);
  for (int i = 0; i < s->noperands; i++)
    if (ok && s->writes >> i & 1 && B->addr[s->slot[i]]) {
      const i64 bytes = B->p->slot[s->slot[i]].bytes;
      ok = d->in(B->addr[s->slot[i]], buf[i], bytes, err);
    }
  for (int i = 0; i < s->noperands; i++) ty_buf_free(y.copy[i], y.bytes[i]);
  B->S->out_of_range = !ok && s->job && s->job->kind == JOB_POSITIONS;
  return ok;
}

static bool run_loop(const Bound *B, const Step *s, const char **err);

static bool ask(void *ctx) {
  State *S = ctx;
  return S->interrupted(S);
}

/* A call begins or ends. */
static bool run_call(const Bound *B, const Step *s, const char **err) {
  State *S = B->S;
  const bool begins = s->job->kind == JOB_CALL;
  const AsyncCall *c = ty_call_find(s->job->node->arg.k);
  void *buf[MAX_OPERANDS];
  u64 scalar[MAX_OPERANDS * 2];
  CallRun r = {
      .run = S->runs.run, .stream = &S->runs, .interrupted = S->interrupted ? ask : NULL, .ctx = S};
  gather(B, s, buf, scalar);
  if (c->gate && !begins && B->device->passed && !B->device->passed(&S->runs, err)) return false;
  void *y = buf[s->noperands - 1];
  const CallAnswer a =
      begins ? c->library->begin(c, buf[s->noperands - 3], y, &r) : c->library->end(c, y, &r);
  *err = r.err;
  S->stopped |= a == CALL_STOPPED;
  S->out_of_range |= a == CALL_AGAIN;
  return a == CALL_DONE;
}

static bool run_other(const Bound *B, const Step *s, const char **err) {
  if (s->away) return run_away(B, s, err);
  if (s->job->kind >= JOB_CALL) return run_call(B, s, err);
  if (s->job->kind == JOB_LOOP) return run_loop(B, s, err);
  return s->job->kind == JOB_TO ? run_to(B, s, err) : run_job(B, s, err);
}

static inline bool run_step(const Bound *B, const Step *s, const char **err) {
  if (TY_LIKELY(s->kind == STEP_KERNEL && !s->away)) return run_kernel(B, s);
  return run_other(B, s, err);
}

/* --- loops */

/* A loop as it runs: `turn` is bound anew for each turn. */
typedef struct Loop {
  const Body *body;
  Bound turn;
  const Device *device;
  char *operand[MAX_SRC]; /* sequences and constants */
  char *carried, *next;   /* values before and after the turn */
  char *rows;             /* of results */
  char *spare;            /* two places for carried values */
  char **out;             /* per output of the turn's plan */
  i64 row, made;          /* bytes of a row of the sequences and of the results */
} Loop;

/* The addresses of a turn that reads and writes row r. */
static void bind_turn(Loop *l, i64 r) {
  const Body *b = l->body;
  const Plan *p = l->turn.p;
  const i64 size = ty_dtypes[b->dtype].bytes;
  for (i32 k = 0; k < p->noutputs; k++) {
    const BodyOutput *o = &b->output[k];
    l->out[k] = (o->is_row ? l->rows + r * l->made : l->next) + o->at * size;
  }
  for (i32 i = 0; i < p->nslots; i++) {
    const Slot *s = &p->slot[i];
    if (s->kind == SLOT_INPUT) {
      const BodyInput *in = &b->input[s->k];
      char *at = in->operand == LOOP_CARRIED ? l->carried : l->operand[in->operand];
      if (in->operand == LOOP_ROWS) at += r * l->row;
      l->turn.addr[i] = at + in->at * s->esize;
    } else if (s->kind == SLOT_OUTPUT) {
      l->turn.addr[i] = l->out[s->k];
    } else if (s->kind == SLOT_TEMP && s->k != -2 && !ty_guarded) {
      l->turn.addr[i] = (s->k < 0 ? (char *)l->turn.arena : l->out[s->k]) + s->offset;
    }
  }
}

/* Constants that products read in each turn are packed once, where there are turns enough. */
static void pack_constants(Loop *l, i64 turns) {
  const Plan *p = l->turn.p;
  bind_turn(l, 0);
  for (i32 i = 0; i < p->nsteps && turns > 3; i++) {
    const Step *s = &p->step[i];
    const Slot *b = &p->slot[s->slot[1]];
    if (!s->panels || b->kind != SLOT_INPUT || l->body->input[b->k].operand < LOOP_CONSTANT)
      continue;
    const Device *d = ty_devices[s->device];
    if (!(l->turn.packed[i] = d->allocate(s->panels))) continue;
    d->pack(s->job->gemm, (char *)l->turn.addr[s->slot[1]] + s->job->start[1], l->turn.packed[i]);
  }
}

static bool run_turns(Loop *l, i64 turns, i64 order, char *last, const char **err) {
  const Body *b = l->body;
  const i64 carried = b->carried * ty_dtypes[b->dtype].bytes;
  u64 *scalar = l->turn.b->g.scalar, first[2 * LOOP_STREAMS];
  bool ok = true;
  memcpy(first, scalar, sizeof *first * (size_t)b->g.nscalar);
  pack_constants(l, turns);
  for (i64 t = 0; t < turns && ok; t++) {
    if (t) l->carried = l->next;
    l->next = t == turns - 1 ? last : l->spare + t % 2 * carried;
    const i64 r = order & LOOP_BACKWARDS ? turns - 1 - t : t;
    const i64 drawn = order & LOOP_DRAWS_BACKWARDS ? turns - 1 - r : r;
    bind_turn(l, r);
    for (i32 i = 0; i < b->g.nscalar; i += 2) scalar[i] = first[i] + (u64)(drawn * b->streams);
    for (i32 i = 0; i < l->turn.p->nsteps && ok; i++)
      ok = run_step(&l->turn, &l->turn.p->step[i], err);
    if (ty_watch_stops()) break;
  }
  return ok;
}

static bool run_loop(const Bound *B, const Step *s, const char **err) {
  const Body *b = ty_body(s->job->node->arg.bits);
  Plan *p = s->body;
  const Device *d = ty_devices[s->device];
  const i64 size = ty_dtypes[b->dtype].bytes, carried = b->carried * size;
  const i64 turns = s->job->type[LOOP_ROWS].dims[0];
  u64 scalar[2 * LOOP_STREAMS];
  void *buf[MAX_OPERANDS] = {NULL};
  gather(B, s, buf, scalar);
  char *y = buf[MAX_SRC];
  if (!turns) return !carried || d->across(y, buf[LOOP_CARRIED], carried, err);
  Recording none = {.g.scalar = scalar, .g.nscalar = b->g.nscalar};
  Loop l = {.body = b,
            .device = d,
            .carried = buf[LOOP_CARRIED],
            .rows = y + carried,
            .row = b->row * ty_dtypes[s->job->type[LOOP_ROWS].dtype].bytes,
            .made = b->made * size};
  for (int i = LOOP_ROWS; i < MAX_SRC; i++) l.operand[i] = buf[i];
  const i64 pointers = p->nslots + p->nsteps + p->noutputs, spare = turns > 1 ? 2 * carried : 0;
  void **room = ty_mem_zalloc((size_t)pointers * sizeof *room);
  l.turn = (Bound){.S = B->S,
                   .p = p,
                   .b = &none,
                   .device = ty_devices[p->device],
                   .addr = room,
                   .packed = room + p->nslots,
                   .careful = p->nsteps};
  l.out = (char **)room + p->nslots + p->nsteps;
  bool ok = room && (!spare || (l.spare = d->allocate(spare))) && bind_arena(&l.turn) &&
            bind_apart(&l.turn) && run_turns(&l, turns, s->job->node->arg.k, y, err);
  if (room) free_apart(&l.turn);
  for (i32 i = 0; room && i < p->nsteps; i++)
    if (l.turn.packed[i]) ty_devices[p->step[i].device]->free(l.turn.packed[i], p->step[i].panels);
  if (l.turn.arena) l.turn.device->free(l.turn.arena, p->arena);
  if (l.spare) d->free(l.spare, spare);
  ty_mem_free(room);
  return ok;
}

/* Where a device may find an error as it runs, tensors that are written keep their buffers: new contents are copied
** into them, which the device leaves undone then. But a later cut must find what it wants: then an error takes the old
** contents along. */
static void copy_written(Bound *B, Buffer *const *now) {
  const char *err = NULL;
  for (i32 k = 0; k < B->p->noutputs; k++) {
    const Output *o = &B->p->output[k];
    Buffer *y = o->write == -1 ? NULL : now[k], *made = B->made[k];
    if (!y || y == made || !o->device || y->device != made->device || !is_sole(B, o, y) ||
        is_wanted_later(B, o->write))
      continue;
    const Job job = {.kind = JOB_COPY, .noperands = 2, .bytes = o->bytes};
    void *const buf[2] = {made->data, y->data};
    if (!y->device->takes(&job) || !y->device->perform(&job, buf, NULL, NULL, &B->S->runs, &err))
      continue;
    ty_buffer_drop(made);
    B->made[k] = ty_buffer_hold(y);
  }
}

/* What a device could not compute is an error wherever it is read. */
static bool has_faulty_input(const Bound *B) {
  for (i32 i = 0; i < B->p->nslots; i++) {
    const Slot *s = &B->p->slot[i];
    if (s->kind == SLOT_INPUT && ty_buffer_is_faulty(B->S, B->b->input[s->k].buf)) return true;
  }
  return false;
}

/* Somebody may want an end of it. */
static bool takes_long(const Bound *B) {
  enum { SHORT = 3000000 }; /* nanoseconds */
  return TY_UNLIKELY(B->p->time > SHORT) && B->S->interrupted;
}

/* What is asked meanwhile where calls are under way. */
static bool go_on(void *ctx) {
  const Bound *B = ctx;
  B->p->library->go_on();
  return B->S->interrupted && B->S->interrupted(B->S);
}

/* The steps where that is so, and those with calls, which go on between steps. */
static bool run_watched(Bound *B, const char **err) {
  State *S = B->S;
  const bool calls = B->p->library != NULL;
  Watch w = {.ask = calls ? go_on : ask, .ctx = calls ? (void *)B : S, .every = STOP_LOOKS};
  bool ok = true;
  ty_watch(&w);
  for (i32 i = 0; i < B->p->nsteps && ok; i++) {
    if (i == B->careful) ty_watch(NULL);
    ok = run_step(B, &B->p->step[i], err) && !w.stopped;
    if (calls) B->p->library->go_on();
  }
  ty_watch(NULL);
  S->stopped |= w.stopped;
  return ok;
}

/* The same in slices of time: slice.c. */
static bool run_sliced(const Bound *B, const char **err) {
  State *S = B->S;
  Watch *w = S->slicing;
  bool ok = true;
  ty_watch(w);
  for (i32 i = 0; i < B->p->nsteps && ok; i++)
    ok = !ty_watch_stops() && run_step(B, &B->p->step[i], err) && !w->stopped;
  ty_watch(NULL);
  S->stopped = w->stopped;
  return ok;
}

/* The same with a line of time for each step, or noted for a profile, or added to what they took. */
static bool run_timed(const Bound *B, const char **err) {
  static const char *const kinds[] = {"kernel", "gemm", "host", "copy"};
  const Engine *E = B->S->engine;
  bool noted = E->dump & DUMP_PROFILE, said = ty_dumps(E, 't'), ok = true;
  i32 plan = noted ? ty_profile_plan(B->p) : -1, sites = noted ? ty_profile_sites(plan, B->b) : 0;
  i64 *took = B->b->timed ? B->b->took : NULL;
  i64 begin = ty_event_now();
  Text t = {0};
  Watch w = {.ask = ask, .ctx = B->S, .every = STOP_LOOKS};
  const bool watched = takes_long(B);
  if (watched) ty_watch(&w);
  for (i32 i = 0; i < B->p->nsteps && ok; i++) {
    const Step *s = &B->p->step[i];
    i64 start = ty_event_now();
    if (watched && i == B->careful) ty_watch(NULL);
    if (noted && ty_devices[s->device]->label)
      ty_devices[s->device]->label(EV_STEP, plan, i, sites);
    ok = run_step(B, s, err) && !w.stopped;
    if (noted) ty_event_note(EV_STEP, start, plan, i, 0, sites);
    if (took) took[i] += ty_event_now() - start;
    if (said)
      ty_text_printf(&t, "  step %-3d %-6s %%%d %s  %.1f us\n", i, kinds[s->kind], s->node,
                     ty_ops[s->op].name, (double)(ty_event_now() - start) * 1e-3);
  }
  if (watched) ty_watch(NULL);
  B->S->stopped |= w.stopped;
  if (noted) ty_event_note(EV_RUN, begin, plan, 0, 0, sites);
  ty_dump_say(B->S, "time", &t);
  return ok;
}

/* See call_library.h. */
static bool leave(const Bound *B, const char *err) {
  const char *why = B->S->stopped ? NULL : err ? err : "out of memory";
  return B->p->library->leave(B->S->runs.run, why);
}

static bool run_steps(Bound *B, Buffer *const *now) {
  const char *err = NULL;
  bool ok = true;
  if (B->device->begin) B->device->begin();
  if (TY_UNLIKELY(B->S->slicing != NULL)) ok = run_sliced(B, &err);
  else if (TY_UNLIKELY(B->S->engine->dump & (DUMP_PROFILE | 1u << ('t' - 'a')) || B->b->timed))
    ok = run_timed(B, &err);
  else if (B->p->library || takes_long(B)) ok = run_watched(B, &err);
  else
    for (i32 i = 0; i < B->p->nsteps && ok; i++) ok = run_step(B, &B->p->step[i], &err);
  if (ok && B->p->checks) copy_written(B, now);
  if (B->device->end) B->device->end(&B->p->ran);
  if (ok) return true;
  if (B->p->library) B->lost = !leave(B, err);
  if (B->S->stopped) return ty_fail(B->S, "interrupted: what ran was left undone");
  if (B->S->runs.failed) { /* of an earlier run */
    B->S->out_of_range = false;
    return ty_device_failed(B->S, ty_cpu, err);
  }
  if (B->S->out_of_range) return ty_fail(B->S, "%s", err);
  return err ? ty_fail(B->S, B->p->library ? "%s" : "run: %s", err)
             : ty_fail_memory(B->S, "run", 0);
}

/* The page of calls. */
bool ty_exec_run(State *S, Plan *p, Recording *b, Buffer **outbuf) {
  void *few[FEW];
  Bound B = {.S = S, .p = p, .b = b, .device = ty_devices[p->device]};
  const i64 table = p->nslots + p->noutputs, room = table * (i64)sizeof(void *);
  B.addr = TY_LIKELY(table <= FEW) ? few : ty_buf_alloc(room);
  if (!B.addr) return ty_fail_memory(S, "run", room);
  B.made = (Buffer **)(B.addr + p->nslots);
  ty_plan_hold(p);
  S->runs = (Stream){.run = ++S->stamps};
  S->out_of_range = S->stopped = false;
  bool ok = !(TY_UNLIKELY(S->nfaults) && has_faulty_input(&B)) && bind_arena(&B) &&
            bind_outputs(&B, outbuf) && reserve(&B);
  if (ok) {
    bind_slots(&B);
    if (TY_UNLIKELY(ty_guarded || p->apart)) ok = bind_apart(&B) && run_steps(&B, outbuf);
    else ok = run_steps(&B, outbuf);
    if (TY_UNLIKELY((ty_guarded || p->apart) && !B.lost)) free_apart(&B);
  }
  for (i32 k = 0; k < B.nmade; k++) {
    if (!B.made[k]) continue;     /* there was no memory */
    ty_buffer_changed(B.made[k]); /* it may have been there, and others know it */
    if (ok) outbuf[k] = B.made[k];
    else if (!B.lost) ty_buffer_drop(B.made[k]);
  }
  if (B.wanted) ty_mem_free(B.wanted);
  if (B.arena && !B.lost) B.device->free(B.arena, p->arena);
  if (TY_UNLIKELY(B.addr != few)) ty_buf_free(B.addr, room);
  ty_plan_drop(p);
  return ok;
}
