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
*/
#include "device/cpu/epilogue.h"
#include "engine/engine.h"
#include "base/events.h"

enum { FEW = 96 }; /* slots and outputs for which the stack has room */

typedef struct Bound {
  State *S;
  Plan *p;
  Recording *b;
  void **addr;   /* per slot */
  Buffer **made; /* per output: the buffer that it is, held; so many */
  i32 nmade;
  void *arena;
  i64 arena_bytes;
  u8 *wanted;  /* per buffer of inputs; see wanted_later */
  i32 careful; /* steps behind this one may not fail: the first write in place */
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

/* The buffer that output k may take over, or NULL: `now` is that of the storage it is written
** to. */
static Buffer *own_buffer(Bound *B, i32 k, Buffer *now) {
  const Plan *p = B->p;
  const Recording *b = B->b;
  const Output *o = &p->output[k];
  if (!o->inplace) return NULL;
  i32 input = o->write == -1 ? o->donor : o->write;
  Buffer *y = o->write == -1 ? b->input[input].buf : now;
  if (!y || y->foreign || y->exposed || y->bytes != o->bytes) return NULL;
  if (b->lent) { /* what lives only in the recording cannot be told: only what is written itself */
    if (o->write == -1 || y->refs != 1) return NULL;
  } else if (y->refs != o->pins + (o->write != -1)) {
    return NULL;
  }
  if (o->write >= 0 && y != b->input[input].buf) return NULL;
  if (o->donor >= 0 && b->input[o->donor].offset != o->at) return NULL;
  if (input < 0 || !b->waiting) return y;
  if (!B->wanted && !(B->wanted = wanted_later(p, b))) return NULL;
  return B->wanted[b->g.node[b->input[input].node].arg.k] ? NULL : y;
}

/* --- binding */

static bool bind_outputs(Bound *B, Buffer *const *now) {
  const Plan *p = B->p;
  B->careful = p->nsteps;
  for (i32 k = 0; k < p->noutputs; k++) {
    Buffer *y = own_buffer(B, k, now[k]);
    if (y) {
      ty_buffer_hold(y);
      B->careful = TY_MIN(B->careful, p->output[k].first);
    } else if (!(y = ty_buffer_new(B->S, p->output[k].bytes))) {
      return false;
    }
    B->made[B->nmade++] = y;
  }
  return true;
}

/* Most slots are inputs. */
static void bind_slots(Bound *B) {
  const Slot *s = B->p->slot, *end = s + B->p->nslots;
  const struct RecordingInput *input = B->b->input;
  for (void **addr = B->addr; s < end; s++, addr++) {
    if (s->kind == SLOT_INPUT)
      *addr = (char *)input[s->k].buf->data + input[s->k].offset * s->esize;
    else if (s->kind == SLOT_OUTPUT) *addr = B->made[s->k]->data;
    else if (s->kind == SLOT_TEMP)
      *addr = (char *)(s->k < 0 ? B->arena : B->made[s->k]->data) + s->offset;
    else *addr = NULL;
  }
}

/* Where memory is checked each temporary has a block of its own. What fails here is let go of with the rest. */
static bool bind_apart(const Bound *B) {
  const Slot *s = B->p->slot;
  for (i32 i = 0; i < B->p->nslots; i++)
    if (s[i].kind == SLOT_TEMP) B->addr[i] = NULL;
  for (i32 i = 0; i < B->p->nslots; i++)
    if (s[i].kind == SLOT_TEMP && !(B->addr[i] = ty_buf_alloc_data(s[i].bytes)))
      return ty_fail_memory(B->S, "run", s[i].bytes);
  return true;
}

static void free_apart(const Bound *B) {
  const Slot *s = B->p->slot;
  for (i32 i = 0; i < B->p->nslots; i++)
    if (s[i].kind == SLOT_TEMP) ty_buf_free(B->addr[i], s[i].bytes);
}

/* Kernels behind the first write in place: plan.c has made sure that their machines can promise. */
static bool reserve(const Bound *B) {
  for (i32 i = B->careful + 1; i < B->p->nsteps; i++) {
    const Step *s = &B->p->step[i];
    if (s->kind == STEP_KERNEL && !s->machine->reserve(s->kernel, s->launch))
      return ty_fail_memory(B->S, "run", 0);
  }
  return true;
}

/* --- copies */

typedef struct Copy {
  char *to;
  const char *from;
} Copy;

static void copy_piece(void *arg, i64 begin, i64 end) {
  const Copy *c = arg;
  memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static void copy_bytes(void *to, const void *from, i64 bytes) {
  enum { GRAIN = 256 << 10 };
  Copy c = {to, from};
  if (bytes <= GRAIN) memcpy(to, from, (size_t)bytes);
  else ty_pool_run(bytes, GRAIN, copy_piece, &c);
}

/* The elements of a layout in row-major order. */
static void copy_layout(char *to, const char *from, const Node *n) {
  i64 esize = ty_dtypes[n->type.dtype].bytes, at[MAX_RANK] = {0}, left = ty_type_numel(&n->type);
  int last = n->type.rank - 1;
  i64 run = last < 0 ? 1 : n->type.dims[last], step = last < 0 ? 0 : n->arg.strides[last] * esize;
  while (left > 0) {
    for (i64 i = 0; i < run; i++, to += esize) memcpy(to, from + i * step, (size_t)esize);
    left -= run;
    for (int d = last - 1; d >= 0; d--) {
      from += n->arg.strides[d] * esize;
      if (++at[d] < n->type.dims[d]) break;
      from -= at[d] * n->arg.strides[d] * esize;
      at[d] = 0;
    }
  }
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
  Run r = {.launch = s->launch, .buf = buf, .scalar = scalar};
  return s->machine->run(s->kernel, &r);
}

static bool run_gemm(const Bound *B, const Step *s, const char **err) {
  void *buf[MAX_OPERANDS];
  u64 scalar[MAX_OPERANDS * 2];
  gather(B, s, buf, scalar);
  const char *a = (char *)buf[0] + s->start[0], *b = (char *)buf[1] + s->start[1];
  if (s->blas) return ty_gemm_blas(s->gemm, a, b, buf[2], err);
  const void *panels = NULL;
  if (s->panels) {
    Buffer *in = B->b->input[B->p->slot[s->slot[1]].k].buf;
    panels = ty_panels_find(B->S->engine, in, s->gemm, b, s->panels);
  }
  return ty_epilogue_gemm(s, a, b, panels, buf + 3, scalar, buf[2]);
}

static bool run_attend(const Bound *B, const Step *s) {
  const void *x[AT_OPERANDS] = {NULL};
  const int n = s->noperands - 1;
  for (int i = 0; i < n; i++) x[i] = B->addr[s->slot[i]];
  return ty_attend(s->attend, x, B->addr[s->slot[n]]);
}

static bool run_host(const Bound *B, const Step *s) {
  if (s->attend) return run_attend(B, s);
  const Node *n = s->host;
  const Type *t = s->host_type;
  const void *a = B->addr[s->slot[0]], *b = B->addr[s->slot[1]];
  void *y = B->addr[s->slot[s->noperands - 1]];
  i64 rows = 1, inner = 1, len;
  switch (n->op) {
  case OP_ARGSORT:
    for (int d = 0; d < n->arg.k; d++) rows *= t->dims[d];
    for (int d = n->arg.k + 1; d < t->rank; d++) inner *= t->dims[d];
    len = t->dims[n->arg.k];
    return ty_host_argsort(t->dtype, a, y, rows, len, inner, n->arg.k2 == SORT_DESCENDING);
  case OP_SEARCHSORTED:
    for (int d = 0; d < t[0].rank - 1; d++) rows *= t[0].dims[d];
    ty_host_searchsorted(t->dtype, a, b, y, rows, t[0].dims[t[0].rank - 1],
                         t[1].dims[t[1].rank - 1], n->arg.k == SIDE_RIGHT);
    return true;
  default: /* SCATTER, SCATTER_ADD: their base is in y already */
    ty_host_scatter(t->dtype, y, &t[0], a, b, &t[2], n->arg.k, n->op == OP_SCATTER_ADD);
    return true;
  }
}

static bool run_other(const Bound *B, const Step *s, const char **err) {
  void *from, *to;
  switch (s->kind) {
  case STEP_GEMM: return run_gemm(B, s, err);
  case STEP_HOST: return run_host(B, s);
  default:
    from = B->addr[s->slot[0]];
    to = B->addr[s->slot[1]];
    if (from == to) return true; /* the base of what is written in place */
    if (s->host) copy_layout(to, from, s->host);
    else copy_bytes(to, from, B->p->slot[s->slot[1]].bytes);
    return true;
  }
}

/* Machines enter the floating-point environment of kernels by themselves. */
static inline bool run_step(const Bound *B, const Step *s, const char **err) {
  if (TY_LIKELY(s->kind == STEP_KERNEL)) return run_kernel(B, s);
  u32 saved = ty_fp_enter();
  bool ok = run_other(B, s, err);
  ty_fp_leave(saved);
  return ok;
}

/* The same with a line of time for each step, or noted for a profile. */
static bool run_timed(const Bound *B, const char **err) {
  static const char *const kinds[] = {"kernel", "gemm", "host", "copy"};
  const Engine *E = B->S->engine;
  bool noted = E->dump & DUMP_PROFILE, said = ty_dumps(E, 't'), ok = true;
  i32 plan = noted ? ty_profile_plan(B->p) : -1;
  i64 begin = ty_event_now();
  Text t = {0};
  for (i32 i = 0; i < B->p->nsteps && ok; i++) {
    const Step *s = &B->p->step[i];
    i64 start = ty_event_now();
    ok = run_step(B, s, err);
    if (noted) ty_event_note(EV_STEP, start, plan, i, 0);
    if (said)
      ty_text_printf(&t, "  step %-3d %-6s %%%d %s  %.1f us\n", i, kinds[s->kind], s->node,
                     ty_ops[s->op].name, (double)(ty_event_now() - start) * 1e-3);
  }
  if (noted) ty_event_note(EV_RUN, begin, plan, 0, 0);
  ty_dump_say(B->S, "time", &t);
  return ok;
}

static bool run_steps(const Bound *B) {
  const char *err = NULL;
  bool ok = true;
  if (TY_UNLIKELY(B->S->engine->dump & (DUMP_PROFILE | 1u << ('t' - 'a')))) ok = run_timed(B, &err);
  else
    for (i32 i = 0; i < B->p->nsteps && ok; i++) ok = run_step(B, &B->p->step[i], &err);
  if (ok) return true;
  return err ? ty_fail(B->S, "run: %s", err) : ty_fail_memory(B->S, "run", 0);
}

/* The page of calls. */
bool ty_exec_run(State *S, Plan *p, Recording *b, Buffer **outbuf) {
  void *few[FEW];
  Bound B = {.S = S, .p = p, .b = b};
  i64 table = p->nslots + p->noutputs, room = table <= FEW ? 0 : table * (i64)sizeof(void *);
  B.arena_bytes = p->arena + room;
  if (B.arena_bytes && !(B.arena = ty_buf_alloc(B.arena_bytes)))
    return ty_fail_memory(S, "run", B.arena_bytes);
  B.addr = room ? (void **)((char *)B.arena + p->arena) : few;
  B.made = (Buffer **)(B.addr + p->nslots);
  ty_plan_hold(p);
  bool ok = bind_outputs(&B, outbuf) && reserve(&B);
  if (ok) {
    bind_slots(&B);
    if (TY_UNLIKELY(ty_guarded)) ok = bind_apart(&B) && run_steps(&B), free_apart(&B);
    else ok = run_steps(&B);
  }
  for (i32 k = 0; k < B.nmade; k++) {
    ty_buffer_changed(B.made[k]); /* it may have been there, and others know it */
    if (ok) outbuf[k] = B.made[k];
    else ty_buffer_drop(B.made[k]);
  }
  if (B.wanted) ty_mem_free(B.wanted);
  if (B.arena_bytes) ty_buf_free(B.arena, B.arena_bytes);
  ty_plan_drop(p);
  return ok;
}
