/*
** quick.c -- eager maps of whole tensors and small products, without a graph.
** In: an operation and operands as the user gave them. Out: true with the result in y, or false:
** not a case for this file (or no memory), and the road is taken from its start.
**
** A map of contiguous operands of one type is the same kernel for every size: it is made once for
** each (operation, dtype, which operands are numbers) by the road itself, from a graph of one
** operation, and kept. A call then allocates the result, sets the extent and runs. Nothing else is
** decided here: no dtype is promoted, nothing broadcasts, nothing is pending. A product of two small
** matrices is described and run: it has one order of sums, whichever way it comes.
*/
#include "engine/entry.h"
#include "base/events.h"

enum {
  SIZE = 7,       /* extent that kernels are made with */
  MOST = 4 << 20, /* elements of a run; a longer one may be left undone, which exec.c sees to */
};

struct Quick {
  Plan *plan;               /* one kernel step */
  Launch launch;            /* a copy whose extent is set before each run */
  u8 operand[MAX_OPERANDS]; /* per operand of the kernel: 0, 1 the user's operand, 2 the result */
};

/* --- making */

static i32 leaf(Graph *g, int dtype, bool number, i32 k) {
  Node n;
  memset(&n, 0, sizeof n);
  n.op = number ? OP_SCALAR : OP_INPUT;
  memset(n.src, -1, sizeof n.src);
  n.type.dtype = (u8)dtype;
  n.type.device = g->device;
  if (number) {
    n.arg.k = ty_graph_scalar(g, 0);
    return n.arg.k < 0 ? -1 : ty_graph_append(g, &n);
  }
  n.type.rank = 1;
  n.type.dims[0] = SIZE;
  n.arg.strides[0] = 1;
  n.arg.k = n.arg.k2 = k;
  return ty_graph_append(g, &n);
}

static Plan *plan_new(State *S, int op, int dtype, int device, unsigned pattern) {
  Graph g = {.device = (u8)device};
  i32 input[2], ninput = 0;
  Node n;
  Plan *p = NULL;
  memset(&n, 0, sizeof n);
  n.op = (u16)op;
  memset(n.src, -1, sizeof n.src);
  n.type = ty_type_line(dtype, device, SIZE);
  if (ty_ops[op].rule == TR_CMP) n.type.dtype = T_BOOL;
  for (int i = 0; i < ty_ops[op].arity; i++) {
    bool number = pattern >> i & 1;
    n.src[i] = leaf(&g, dtype, number, ninput);
    if (n.src[i] < 0) goto done;
    if (!number) input[ninput++] = n.src[i];
  }
  i32 y = ty_graph_append(&g, &n);
  if (y >= 0) {
    Output out = {.node = y,
                  .write = -1,
                  .bytes = SIZE * ty_dtypes[n.type.dtype].bytes,
                  .device = (u8)device};
    p = ty_compile_graph(S, &g, &out, 1, ninput, input);
  }
done:
  ty_graph_free(&g);
  return p;
}

/* Whether the plan is what run() below knows: one kernel over one dim, every operand in order. */
static bool is_plain(const Plan *p) {
  const Step *s = p->step;
  if (p->nsteps != 1 || s->kind != STEP_KERNEL || s->away || p->arena) return false;
  const Launch *l = s->launch;
  if (l->no + l->nr + l->ni != 1 || l->dims[0] != SIZE) return false;
  for (int i = 0; i < s->noperands; i++) {
    int kind = p->slot[s->slot[i]].kind;
    if (l->strides[i][0] != 1 || l->start[i] || (kind != SLOT_INPUT && kind != SLOT_OUTPUT))
      return false;
  }
  return true;
}

static Quick *quick_new(State *S, int op, int dtype, int device, unsigned pattern) {
  Plan *p = plan_new(S, op, dtype, device, pattern);
  Quick *q = p && is_plain(p) ? ty_mem_zalloc(sizeof *q) : NULL;
  if (!q) {
    if (p) ty_plan_drop(p);
    return NULL;
  }
  const Step *s = p->step;
  q->plan = p;
  q->launch = *s->launch;
  for (int i = 0; i < s->noperands; i++) {
    const Slot *slot = &p->slot[s->slot[i]];
    int first = pattern & 1; /* the user's number of the first tensor */
    q->operand[i] = slot->kind == SLOT_OUTPUT ? 2 : (u8)(slot->k + first);
  }
  return q;
}

/* --- running */

/* Whether the operation takes such operands as they are. */
static bool takes(const OpInfo *row, int dtype) {
  return row->rule != TR_NONE && !ty_is_complex(dtype) &&
         ty_rule_dtype(row->rule, dtype, T_F32) == dtype;
}

static bool profiled(const State *S) { return TY_UNLIKELY(S->engine->dump & DUMP_PROFILE); }

/* Where a profile runs: now, and the device is told what comes. */
static i64 begin_noted(const State *S, int device, EventKind kind, Plan *p) {
  const Device *d = ty_devices[device];
  if (!profiled(S)) return 0;
  if (d->label) d->label(kind, p ? ty_profile_plan(p) : -1, 0, S->site);
  return ty_event_now();
}

static void *address(const Tensor *x) {
  return (char *)x->st->buf->data + x->offset * ty_dtypes[x->type.dtype].bytes;
}

static bool run(State *S, Quick *q, const Type *t, const void **at, const u64 *scalar, Tensor *y) {
  const Step *s = q->plan->step;
  void *buf[MAX_OPERANDS];
  if (!ty_tensor_from(S, y, t, NULL)) return false;
  at[2] = y->st->buf->data;
  for (int i = 0; i < s->noperands; i++) buf[i] = (void *)(uintptr_t)at[q->operand[i]];
  q->launch.dims[0] = y->st->numel;
  Run r = {.launch = &q->launch, .buf = buf, .scalar = scalar, .stream = &S->runs};
  i64 begin = begin_noted(S, t->device, EV_MAP, q->plan);
  if (s->machine->run(s->kernel, &r)) {
    if (begin) ty_event_note(EV_MAP, begin, ty_profile_plan(q->plan), 0, y->st->numel, S->site);
    return true;
  }
  ty_tensor_release(y);
  return false;
}

/* Others are worth keeping panels for (a b that is not read as it lies), other machines, and the time to
** decide it. */
static bool run_product(State *S, const Tensor *a, const Tensor *b, Tensor *y) {
  enum { SMALL = 4096 }; /* elements of a, b and y */
  if (a->type.rank != 2 || b->type.rank != 2 || a->type.dtype != b->type.dtype ||
      a->type.device != b->type.device)
    return false;
  const i64 m = a->type.dims[0], k = a->type.dims[1], n = b->type.dims[1];
  const int d = a->type.dtype;
  if (a->st->recording || b->st->recording || a->st->batched || b->st->batched ||
      k != b->type.dims[0] || b->strides[1] != 1)
    return false;
  if (TY_MAX(TY_MAX(m, n), k) > SMALL || m * k > SMALL || k * n > SMALL || m * n > SMALL)
    return false;
  if (!m || !n || !k) return false;
  if (S->blas || S->reduced == REDUCED_TF32 || (d != T_F32 && d != T_F64)) return false;
  Type t = {.dtype = (u8)d, .rank = 2, .device = a->type.device, .dims = {m, n}};
  const Device *device = ty_devices[t.device];
  Gemm g = {.dtype = d, .m = m, .n = n, .k = k, .batch = 1};
  g.ars = a->strides[0], g.acs = a->strides[1];
  g.brs = b->strides[0], g.bcs = b->strides[1];
  const Job job = {.kind = JOB_PRODUCT, .noperands = 3, .gemm = &g};
  if (t.device && !device->takes(&job)) return false;
  if (!ty_tensor_from(S, y, &t, NULL)) return false;
  i64 begin = begin_noted(S, t.device, EV_PRODUCT, NULL);
  void *buf[] = {address(a), address(b), y->st->buf->data};
  const char *err = NULL;
  bool ok = device->perform(&job, buf, NULL, NULL, &S->runs, &err);
  if (begin) ty_event_note(EV_PRODUCT, begin, -1, d, m | n << 20 | k << 40, S->site);
  if (!ok) ty_tensor_release(y);
  return ok;
}

bool ty_quick(State *S, int op, int n, const Given *src, Tensor *y) {
  struct Compiled *C = S->engine->compiled;
  const OpInfo *row = &ty_ops[op];
  const Tensor *t = NULL;
  const void *at[3] = {NULL, NULL, NULL};
  u64 scalar = 0;
  unsigned pattern = 0;
  double number = 0;
  if (S->engine->dump & ~DUMP_PROFILE || S->nfaults) return false;
  if (op == OP_MATMUL && src[0].kind == O_TENSOR && src[1].kind == O_TENSOR)
    return run_product(S, src[0].t, src[1].t, y);
  if (row->class != MAP || n > 2) return false;
  for (int i = 0; i < n; i++) {
    const Tensor *x = src[i].t;
    if (src[i].kind != O_TENSOR) {
      if (src[i].kind != O_NUMBER) return false;
      pattern |= 1u << i;
      number = src[i].v;
      continue;
    }
    if (x->st->recording || x->st->batched) return false;
    if (!t && !ty_tensor_is_contiguous(x)) return false;
    if (t && (!ty_type_equal(&x->type, &t->type) ||
              memcmp(x->strides, t->strides, sizeof(i64) * x->type.rank)))
      return false;
    t = x;
    at[i] = address(x);
  }
  if (!t || t->st->numel == 0 || t->st->numel > MOST) return false;
  int d = t->type.dtype;
  if (!takes(row, d) || (pattern && !ty_is_float(d))) return false;
  QuickTable **table = &C->quick[t->type.device];
  if (TY_UNLIKELY(!*table) && !(*table = ty_mem_zalloc(sizeof **table))) return false;
  Quick **slot = &(*table)->of[op][d][pattern];
  if (!*slot && !(*slot = quick_new(S, op, d, t->type.device, pattern))) return false;
  Type yt = t->type;
  if (row->rule == TR_CMP) yt.dtype = T_BOOL;
  if (pattern) scalar = ty_elem_scalar(d, number);
  return run(S, *slot, &yt, at, &scalar, y);
}

void ty_quick_clear(State *S) {
  struct Compiled *C = S->engine->compiled;
  for (int d = 0; d < DEVICES_MAX; d++) {
    Quick **q = C->quick[d] ? &C->quick[d]->of[0][0][0] : NULL;
    for (i32 i = 0; q && i < OP_COUNT * T_COUNT * QUICK_PATTERNS; i++) {
      if (q[i]) ty_plan_drop(q[i]->plan);
      ty_mem_free(q[i]);
    }
    ty_mem_free(C->quick[d]);
    C->quick[d] = NULL;
  }
}
