/*
** plan.c -- from a graph to a plan: groups and loop programs, their order, whose memory is whose.
** In:  a verified graph and the nodes that are wanted.  Out: a plan, one block of memory, whose steps name
** programs.  Fails only when out of memory: then nothing is left behind.
**
** Memory is planned in *homes*. A home holds one stored node after another: a node moves into
** the home of an operand that dies as it is read element by element, or of the base that it is
** an edited copy of. A home that comes to hold an output is that output's buffer; the others
** share memory by their lifetimes: that of outputs which are fresh and not yet written (in a
** training step gradients are large and come late), else one arena. Time is counted in positions
** of the order in which groups run.
**
** An output that overwrites a tensor in place is nothing special here: its home is an output
** slot, which exec binds to the tensor's own buffer when nobody else holds it. What makes that
** right is decided here (Output.inplace), by rules that a change must keep:
**   1. Every read of the old buffer, through any input that shares it, comes before the home's
**      first write, or is the copy of the base (skipped in place), or reads each element in the
**      same step just before it is overwritten.
**   2. No step after the first write can fail: products and sorts stand before it, or it is not
**      in place. Kernels are reserved by exec before the first one runs.
**   3. An input's place in its buffer is known at run time only; where rule 1 depends on it, exec
**      compares `at`.
** The order serves rules 1 and 2: a group that overwrites waits for the readers of what it
** overwrites, and for products if it overwrites a tensor, unless they depend on it.
*/
#include "compile/plan.h"
#include "ir/body.h"

typedef struct Home {
  i32 first, last; /* positions: first write, last use */
  i32 node;        /* what it holds at the moment */
  i32 output;      /* its number, or -1: a piece of the arena or of an output */
  i32 owner;       /* that output, or -1 */
  i32 slot;
  u8 device;
  bool sent; /* see find_sent */
  i64 bytes, offset;
} Home;

typedef struct Make {
  Arena *A; /* scratch: all below */
  const Task *task;
  const Graph *g;
  Output *out;
  i32 nout, nin;
  const i32 *input_node;
  Groups gs;
  Work *work;
  u8 *want;        /* per node */
  i32 *input;      /* per node: the recording's input it is, or -1 */
  i32 *primary;    /* per node: the output that its home becomes, or -1 */
  i32 *last;       /* per node: position of its last reader; for outputs the end */
  i32 *home;       /* per node: home, or -1 */
  i32 *buffer;     /* per input: the lowest input that shares its buffer */
  i32 *last_input; /* per input that stands for a buffer: the last position that reads it */
  i32 *order;      /* groups as they run */
  bool *copies;    /* per group: the base is copied first */
  bool *sent;      /* per node: a call reads it; see find_sent */
  Home *homes;
  i32 nhomes;
  u8 device; /* of the arena: that of the last group */
} Make;

static void *scratch(Make *M, i64 n, size_t size) {
  return ty_arena_alloc(M->A, (size_t)TY_MAX(n, 1) * size);
}

static i64 node_bytes(const Graph *g, i32 node) {
  const Type *t = &g->node[node].type;
  return ty_type_bytes(t);
}

/* Does the group read the node from an input's own buffer? Others read the copy of an INPUT that
** has a group. */
static bool is_input(const Make *M, i32 gi, i32 node) {
  return M->g->node[node].op == OP_INPUT && (M->gs.of[node] < 0 || M->gs.of[node] == gi);
}

/* The input that stands for the buffer which the group reads; -1 for the buffers of other nodes. */
static i32 buffer_of(const Make *M, i32 gi, i32 node) {
  return is_input(M, gi, node) ? M->buffer[M->input[node]] : -1;
}

static bool in_order(const Node *n) {
  return ty_is_contiguous(n->type.rank, n->type.dims, n->arg.strides);
}

/* --- groups and programs */

static bool plan_begin(Make *M) {
  const Graph *g = M->g;
  M->want = scratch(M, g->n, 1);
  M->input = scratch(M, g->n, sizeof(i32));
  M->primary = scratch(M, g->n, sizeof(i32));
  M->buffer = scratch(M, M->nin, sizeof(i32));
  if (!M->want || !M->input || !M->primary || !M->buffer) return false;
  for (i32 i = 0; i < g->n; i++) M->input[i] = M->primary[i] = -1;
  for (i32 i = 0; i < M->nin; i++) {
    i32 j = 0, k = g->node[M->input_node[i]].arg.k;
    while (g->node[M->input_node[j]].arg.k != k) j++;
    M->buffer[i] = j;
    M->input[M->input_node[i]] = i;
  }
  /* Of several outputs of one node, one that overwrites gets the node's home: it may save a
  ** buffer. */
  for (i32 k = 0; k < M->nout; k++) {
    i32 *p = &M->primary[M->out[k].node];
    if (*p < 0 || (M->out[*p].write == -1 && M->out[k].write != -1)) *p = k;
    M->want[M->out[k].node] = 1;
    M->out[k].bytes = node_bytes(g, M->out[k].node);
    M->out[k].device = g->node[M->out[k].node].type.device;
  }
  return true;
}

bool ty_plan_passes(Arena *A, LowerRoom **room, const Task *task, Passes *y) {
  const Graph *g = task->g;
  u8 *want = ty_arena_alloc(A, (size_t)TY_MAX(g->n, 1));
  if (!want) return false;
  for (i32 k = 0; k < task->nout; k++) want[task->out[k].node] = 1;
  if (!ty_fuse(A, g, want, task->fast, task->choices, &y->gs)) return false;
  y->work = ty_arena_alloc(A, (size_t)TY_MAX(y->gs.n, 1) * sizeof(Work));
  if (!y->work) return false;
  for (i32 i = 0; i < y->gs.n; i++)
    if (!ty_lower(A, room, g, &y->gs, i, &y->work[i])) return false;
  return true;
}

/* --- who reads what */

/* Walks the nodes that a group must wait for: group_dep(.., j) for j = 0, 1, ... until -1. The
** base comes last unless it is among the others. */
static i32 group_dep(const Group *gr, i32 j) {
  if (j < gr->nin) return gr->in[j];
  if (j > gr->nin || gr->base < 0) return -1;
  for (i32 i = 0; i < gr->nin; i++)
    if (gr->in[i] == gr->base) return -1;
  return gr->base;
}

/* The nodes whose buffers the group's step reads, beside the base; returns their number. */
static i32 group_reads(const Make *M, i32 gi, i32 list[MAX_OPERANDS]) {
  const Group *gr = &M->gs.group[gi];
  const Work *w = &M->work[gi];
  i32 n = 0;
  if (gr->kind == G_ROUTINE) {
    i32 arity = ty_ops[M->g->node[gr->root].op].arity;
    for (i32 i = gr->base >= 0; i < arity; i++)
      if (w->packed[i] >= 0) list[n++] = w->packed[i];
  }
  for (i32 i = 0; gr->kind == G_GEMM && i < 2; i++) list[n++] = w->factor[i];
  for (i32 i = 0; w->program && i < w->program->noperands; i++)
    if (!w->program->operand[i].write && w->operand[i] >= 0) list[n++] = w->operand[i];
  return n;
}

/* May the step fail although it was reserved? Products, attention, sorts and transforms take memory as they go. */
static bool group_fails(const Make *M, i32 gi) {
  const Group *gr = &M->gs.group[gi];
  if (gr->kind == G_KERNEL || !M->task->reserves) return !M->task->reserves;
  const int op = M->g->node[gr->root].op;
  if (op == OP_POSITIONS) return !M->g->node[gr->root].type.device; /* others tell it later */
  return gr->kind == G_GEMM || op == OP_ARGSORT || op == OP_FFT || op == OP_TO || op == OP_LOOP ||
         op == OP_CALL || M->work[gi].attend.batch;
}

/* --- order */

typedef struct Order {
  bool *done;    /* per group */
  i32 *readers;  /* per node: groups yet to run that read it */
  i32 *breaders; /* the same per buffer, counting inputs */
  bool *written; /* per buffer: an output overwrites it */
  i32 fails;     /* groups yet to run that can fail */
  CallOrder calls;
  i32 begun; /* calls */
} Order;

static bool ready(const Make *M, const Order *o, i32 gi) {
  const Group *gr = &M->gs.group[gi];
  if (o->calls.n && o->begun < o->calls.begun[gi]) return false;
  for (i32 j = 0, node; (node = group_dep(gr, j)) >= 0; j++) {
    i32 maker = is_input(M, gi, node) ? -1 : M->gs.of[node];
    if (maker >= 0 && maker != gi && !o->done[maker]) return false;
  }
  return true;
}

/* Should the group, which may overwrite buffer b, let others go first? */
static bool buffer_busy(const Make *M, const Order *o, i32 gi, i32 b) {
  const Group *gr = &M->gs.group[gi];
  i32 own = 0;
  for (i32 j = 0, node; (node = group_dep(gr, j)) >= 0; j++) own += buffer_of(M, gi, node) == b;
  return o->breaders[b] > own || o->fails > group_fails(M, gi);
}

static bool blocked(const Make *M, const Order *o, i32 gi) {
  const Group *gr = &M->gs.group[gi];
  if (gr->base >= 0) {
    i32 b = buffer_of(M, gi, gr->base);
    if (b < 0 && o->readers[gr->base] > 1) return true;
    if (b >= 0 && o->written[b] && buffer_busy(M, o, gi, b)) return true;
  }
  for (i32 j = 0; j < gr->nout; j++) {
    i32 k = M->primary[gr->out[j]];
    if (k < 0 || M->out[k].write < 0) continue;
    if (buffer_busy(M, o, gi, M->buffer[M->out[k].write])) return true;
  }
  return false;
}

static void order_run(Make *M, Order *o, i32 gi, i32 step) {
  for (i32 j = 0, node; (node = group_dep(&M->gs.group[gi], j)) >= 0; j++) {
    i32 b = buffer_of(M, gi, node);
    if (b < 0) o->readers[node] += step;
    else o->breaders[b] += step;
  }
  o->fails += step * group_fails(M, gi);
  o->begun += step < 0 && ty_node_begins(&M->g->node[M->gs.group[gi].root]);
}

static i32 group_at(const Order *o, i32 k) { return o->calls.n ? o->calls.group[k] : k; }

/* The group that runs next: of those for the next call one that need not wait. */
static i32 pick_group(const Make *M, const Order *o, i32 low) {
  i32 pick = -1, least = 3;
  for (i32 k = low; k < M->gs.n; k++) {
    const i32 gi = group_at(o, k);
    if (o->done[gi]) continue;
    if (pick >= 0 && o->calls.n && o->calls.level[gi] > o->calls.level[pick]) break;
    if (!ready(M, o, gi)) continue;
    const bool awaits = ty_node_awaits(&M->g->node[M->gs.group[gi].root]);
    const i32 waits = awaits ? 1 : blocked(M, o, gi) ? 2 : 0;
    if (waits < least) pick = gi, least = waits;
    if (!waits) break;
  }
  return pick;
}

/* The given order, or that of calls, but those that overwrite wait for readers as long as others can run. */
static bool plan_order(Make *M) {
  i32 n = M->gs.n, low = 0;
  Order o = {.done = scratch(M, n, 1),
             .readers = scratch(M, M->g->n, sizeof(i32)),
             .breaders = scratch(M, M->nin, sizeof(i32)),
             .written = scratch(M, M->nin, 1)};
  M->order = scratch(M, n, sizeof(i32));
  if (!o.done || !o.readers || !o.breaders || !o.written || !M->order) return false;
  if (!ty_plan_calls(M->A, M->g, &M->gs, &o.calls)) return false;
  for (i32 gi = 0; gi < n; gi++) order_run(M, &o, gi, 1);
  for (i32 k = 0; k < M->nout; k++)
    if (M->out[k].write >= 0) o.written[M->buffer[M->out[k].write]] = true;
  for (i32 t = 0; t < n; t++) {
    while (o.done[group_at(&o, low)]) low++;
    const i32 pick = pick_group(M, &o, low);
    M->order[t] = pick;
    o.done[pick] = true;
    order_run(M, &o, pick, -1);
  }
  return true;
}

static bool plan_lifetimes(Make *M) {
  i32 list[MAX_OPERANDS];
  M->last = scratch(M, M->g->n, sizeof(i32));
  M->last_input = scratch(M, M->nin, sizeof(i32));
  if (!M->last || !M->last_input) return false;
  memset(M->last, -1, (size_t)M->g->n * sizeof(i32));
  memset(M->last_input, -1, (size_t)M->nin * sizeof(i32));
  for (i32 t = 0; t < M->gs.n; t++) {
    i32 gi = M->order[t], n = group_reads(M, gi, list);
    if (M->gs.group[gi].base >= 0 && n < MAX_OPERANDS) list[n++] = M->gs.group[gi].base;
    for (i32 i = 0; i < n; i++) {
      i32 b = buffer_of(M, gi, list[i]);
      if (b < 0) M->last[list[i]] = t;
      else M->last_input[b] = t;
    }
  }
  for (i32 k = 0; k < M->nout; k++) M->last[M->out[k].node] = M->gs.n;
  return true;
}

/* --- homes */

static bool same_walk(const Launch *l, i32 i, i32 o) {
  for (int d = 0; d < l->no + l->nr + l->ni; d++)
    if (l->dims[d] != 1 && l->strides[i][d] != l->strides[o][d]) return false;
  return true;
}

/* Does the kernel read every element of operand i before it writes the same place through
** operand o, when the buffer of i begins *at elements into that of o? Lower says so for a kernel
** with one output; in a map each element stands alone, so there it can be seen. */
static bool reads_ahead(const Work *w, i32 i, i32 o, i64 *at) {
  const Program *p = w->program;
  const Launch *l = &w->launch;
  if (ty_dtypes[p->operand[i].dtype].bytes != ty_dtypes[p->operand[o].dtype].bytes) return false;
  if (!same_walk(l, i, o)) return false;
  *at = l->start[o] - l->start[i];
  i32 writes = 0;
  for (i32 j = 0; j < p->noperands; j++) writes += p->operand[j].write != 0;
  if (writes == 1 && w->donate[i]) return true;
  if (p->kind != K_MAP) return false;
  bool stored = false;
  for (i32 j = 0; j < p->nbody; j++) {
    const Instr *in = &p->body[j];
    if (in->op == P_GLOAD && (i32)in->imm == i) return false;
    if (in->op == P_LOAD && (i32)in->imm == i && stored) return false;
    if (in->op == P_STORE && (i32)in->imm == o) stored = true;
  }
  return true;
}

/* The operand through which a group writes the node (or what lives in home h, when node is -1); -1
** when it is no kernel. */
static i32 write_operand(const Make *M, i32 gi, i32 node, i32 h) {
  const Work *w = &M->work[gi];
  if (M->gs.group[gi].kind != G_KERNEL) return -1;
  for (i32 i = 0; i < w->program->noperands; i++) {
    if (!w->program->operand[i].write) continue;
    if (node >= 0 ? w->operand[i] == node : M->home[w->operand[i]] == h) return i;
  }
  return -1;
}

/* What a call reads stays in another processor's cache until it is written anew, and a store waits long for that: so nothing
** else moves into its home, and no output's memory is its place, but where no cache holds it. A product made there does
** not wait. */
static bool find_sent(Make *M) {
  enum { CACHE = 1 << 20 }; /* bytes of the second level */
  M->sent = scratch(M, M->g->n, sizeof *M->sent);
  if (!M->sent) return false;
  memset(M->sent, 0, (size_t)M->g->n * sizeof *M->sent);
  for (i32 gi = 0; gi < M->gs.n; gi++) {
    const Group *gr = &M->gs.group[gi];
    for (i32 j = 0; j < gr->nin; j++)
      M->sent[gr->in[j]] |=
          ty_node_begins(&M->g->node[gr->root]) && node_bytes(M->g, gr->in[j]) <= CACHE;
  }
  return true;
}

/* May node y, made by the group at position t, move into the home of its operand or base x? */
static bool can_move(const Make *M, i32 gi, i32 t, i32 x, i32 y) {
  if (M->sent[x]) return false;
  if (is_input(M, gi, x) || M->home[x] < 0 || M->last[x] != t) return false;
  const Home *h = &M->homes[M->home[x]];
  if (h->node != x || node_bytes(M->g, x) != node_bytes(M->g, y)) return false;
  if (M->g->node[x].type.device != M->g->node[y].type.device) return false;
  i32 list[MAX_OPERANDS], n = group_reads(M, gi, list), reads = 0;
  for (i32 i = 0; i < n; i++) reads += list[i] == x;
  if (!reads) return true; /* a base that is nothing else */
  i32 o = write_operand(M, gi, y, -1);
  if (o < 0) return false;
  const Work *w = &M->work[gi];
  for (i32 i = 0; i < w->program->noperands; i++) {
    i64 at;
    if (w->program->operand[i].write || w->operand[i] != x) continue;
    if (!reads_ahead(w, i, o, &at) || at) return false;
  }
  return true;
}

static i32 home_new(Make *M, i32 t, i32 node) {
  M->homes[M->nhomes] =
      (Home){.first = t, .last = t, .output = -1, .bytes = node_bytes(M->g, node)};
  M->homes[M->nhomes].device = M->g->node[node].type.device;
  return M->nhomes++;
}

/* The home for node y of the group at position t: that of a dying operand, or a new one. */
static i32 home_find(Make *M, i32 gi, i32 t, i32 y) {
  const Group *gr = &M->gs.group[gi];
  if (gr->base >= 0) {
    if (can_move(M, gi, t, gr->base, y)) return M->home[gr->base];
    M->copies[gi] = is_input(M, gi, gr->base) || M->home[gr->base] >= 0; /* not EMPTY */
    return home_new(M, t, y);
  }
  /* An output that overwrites a tensor which is still read here is better made in the tensor
  ** itself. */
  i32 k = M->primary[y], list[MAX_OPERANDS];
  if (k >= 0 && M->out[k].write >= 0) return home_new(M, t, y);
  i32 n = gr->kind == G_KERNEL ? group_reads(M, gi, list) : 0;
  for (i32 i = 0; i < n; i++)
    if (can_move(M, gi, t, list[i], y)) return M->home[list[i]];
  return home_new(M, t, y);
}

static bool plan_homes(Make *M) {
  M->home = scratch(M, M->g->n, sizeof(i32));
  M->homes = scratch(M, M->g->n, sizeof(Home));
  M->copies = scratch(M, M->gs.n, 1);
  if (!M->home || !M->homes || !M->copies || !find_sent(M)) return false;
  memset(M->home, -1, (size_t)M->g->n * sizeof(i32));
  for (i32 t = 0; t < M->gs.n; t++) {
    i32 gi = M->order[t];
    const Group *gr = &M->gs.group[gi];
    for (i32 j = 0; j < gr->nout; j++) {
      i32 y = gr->out[j], h = home_find(M, gi, t, y);
      M->home[y] = h;
      M->homes[h].node = y;
      M->homes[h].sent |= M->sent[y];
      M->homes[h].last = TY_MAX(t, M->last[y]);
      if (M->primary[y] >= 0) M->homes[h].output = M->primary[y];
    }
  }
  return true;
}

/* --- in place */

/* Is the base of the group a whole input that lies just as the result will? */
static bool base_is(const Make *M, i32 gi, i32 buffer, i64 bytes) {
  const Group *gr = &M->gs.group[gi];
  return gr->base >= 0 && buffer_of(M, gi, gr->base) == buffer && in_order(&M->g->node[gr->base]) &&
         node_bytes(M->g, gr->base) == bytes;
}

/* An input whose buffer a fresh output could be, were it to die: the base, or what is read just
** ahead. */
static i32 find_donor(const Make *M, i32 gi, i32 h, i64 bytes) {
  const Group *gr = &M->gs.group[gi];
  if (gr->base >= 0) {
    i32 b = buffer_of(M, gi, gr->base);
    return b >= 0 && base_is(M, gi, b, bytes) ? M->input[gr->base] : -1;
  }
  const Work *w = &M->work[gi];
  i32 o = write_operand(M, gi, -1, h);
  for (i32 i = 0; o >= 0 && i < w->program->noperands; i++) {
    i64 at;
    i32 x = w->operand[i];
    if (w->program->operand[i].write || x < 0 || buffer_of(M, gi, x) < 0) continue;
    if (node_bytes(M->g, x) == bytes && reads_ahead(w, i, o, &at) && at == 0) return M->input[x];
  }
  return -1;
}

/* Rule 1 within the group that writes the home first. Sets donor and at. */
static bool reads_allow(const Make *M, i32 gi, i32 h, i32 buffer, Output *out) {
  const Group *gr = &M->gs.group[gi];
  const Work *w = &M->work[gi];
  i32 list[MAX_OPERANDS], n = group_reads(M, gi, list), reads = 0;
  for (i32 i = 0; i < n; i++) reads += buffer_of(M, gi, list[i]) == buffer;
  bool keeps = base_is(M, gi, buffer, out->bytes);
  if (gr->base >= 0 && !keeps) return !reads && buffer_of(M, gi, gr->base) != buffer;
  if (!reads) return true;
  i32 o = write_operand(M, gi, -1, h);
  if (o < 0) return false;
  for (i32 i = 0; i < w->program->noperands; i++) {
    i64 at;
    i32 x = w->operand[i];
    if (w->program->operand[i].write || x < 0 || buffer_of(M, gi, x) != buffer) continue;
    if (!reads_ahead(w, i, o, &at)) return false;
    if (out->donor >= 0 && (out->donor != M->input[x] || out->at != at)) return false;
    out->donor = M->input[x];
    out->at = at;
  }
  return true;
}

/* Rule 2. A kernel that writes first has written nothing when it fails; products and sorts may
** have. */
static bool failures_allow(const Make *M, i32 first, bool copied) {
  for (i32 t = first; t < M->gs.n; t++) {
    i32 gi = M->order[t];
    bool harmless = t == first && M->gs.group[gi].kind == G_KERNEL && !copied;
    if (group_fails(M, gi) && !harmless) return false;
  }
  return true;
}

static void output_place(Make *M, i32 k) {
  Output *out = &M->out[k];
  i32 h = M->home[out->node], buffer = -1;
  out->inplace = false;
  out->donor = out->same = -1;
  out->at = 0;
  out->pins = 0;
  if (M->primary[out->node] != k) { /* copied when all is done: nothing fails or reads after that */
    if (out->write == -1 && !out->own) out->same = M->primary[out->node];
    if (out->write == -1) return;
    if (out->write >= 0) buffer = M->buffer[out->write];
    out->inplace = true;
  } else {
    i32 t = M->homes[h].first, gi = M->order[t];
    if (out->write >= 0) buffer = M->buffer[out->write];
    if (out->write == -1) {
      i32 donor = find_donor(M, gi, h, out->bytes);
      if (donor < 0) return;
      buffer = M->buffer[donor];
      /* Also where the step does not read it but as base: it is from this input that exec takes
      ** the buffer. */
      if (M->gs.group[gi].base >= 0) out->donor = donor;
    }
    bool kept = buffer >= 0 && base_is(M, gi, buffer, out->bytes);
    if (buffer >= 0 && M->last_input[buffer] > t) return;
    if (buffer >= 0 && !reads_allow(M, gi, h, buffer, out)) return;
    out->inplace = failures_allow(M, t, M->copies[gi] && !kept);
  }
  for (i32 i = 0; i < M->nin && buffer >= 0; i++) out->pins += M->buffer[i] == buffer;
}

static bool plan_outputs(Make *M) {
  for (i32 k = 0; k < M->nout; k++) output_place(M, k);
  return true;
}

/* --- the arena */

static bool plan_arena(Make *M, i64 *total) {
  Piece *piece = scratch(M, M->nhomes, sizeof *piece);
  if (!piece) return false;
  if (M->gs.n) M->device = M->g->node[M->gs.group[M->order[M->gs.n - 1]].root].type.device;
  for (i32 i = 0; i < M->nhomes; i++) {
    const Home *h = &M->homes[i];
    bool fresh = h->output >= 0 && !M->out[h->output].inplace && !M->task->choices;
    piece[i] = (Piece){.kind = h->device != M->device ? PIECE_NONE
                               : h->output < 0        ? h->sent ? PIECE_ARENA : PIECE_GUEST
                               : fresh                ? PIECE_OWNER
                                                      : PIECE_NONE,
                       .first = h->first,
                       .last = h->last,
                       .bytes = h->bytes};
  }
  if (!ty_layout(M->A, piece, M->nhomes, total)) return false;
  for (i32 i = 0; i < M->nhomes; i++) {
    M->homes[i].owner = M->homes[i].device != M->device ? -2
                        : piece[i].owner < 0            ? -1
                                                        : M->homes[piece[i].owner].output;
    M->homes[i].offset = piece[i].offset;
  }
  return true;
}

/* --- steps */

typedef struct Pack {
  Step *step;
  Slot *slot;
  Job *job; /* of steps that have one */
  i32 nsteps, nslots, njobs;
  i32 *of_input, *of_output; /* their slots */
  i64 arena;
  size_t extra; /* bytes of what steps point to */
} Pack;

static size_t padded(size_t n) { return (n + 15) & ~(size_t)15; }

static i32 slot_new(Pack *P, Slot s) {
  P->slot[P->nslots] = s;
  return P->nslots++;
}

static i32 slot_input(const Make *M, Pack *P, i32 node) {
  i32 k = M->input[node], *s = &P->of_input[k];
  u8 esize = ty_dtypes[M->g->node[node].type.dtype].bytes;
  if (!*s)
    *s = slot_new(P, (Slot){SLOT_INPUT, esize, M->g->node[node].type.device, 0, k, 0,
                            node_bytes(M->g, node)});
  return *s;
}

static i32 slot_output(const Make *M, Pack *P, i32 k) {
  i32 *s = &P->of_output[k];
  if (!*s) *s = slot_new(P, (Slot){SLOT_OUTPUT, 0, M->out[k].device, 0, k, 0, M->out[k].bytes});
  return *s;
}

static i32 slot_home(const Make *M, Pack *P, i32 node) {
  Home *h = &M->homes[M->home[node]];
  if (h->output >= 0) return slot_output(M, P, h->output);
  if (!h->slot)
    h->slot = slot_new(P, (Slot){SLOT_TEMP, 0, h->device, 0, h->owner, h->offset, h->bytes});
  return h->slot;
}

static i32 slot_read(const Make *M, Pack *P, i32 gi, i32 node) {
  return is_input(M, gi, node) ? slot_input(M, P, node) : slot_home(M, P, node);
}

static Step *step_new(const Make *M, Pack *P, int kind, i32 node) {
  Step *s = &P->step[P->nsteps++];
  memset(s, 0, sizeof *s);
  s->kind = (u8)kind;
  s->node = node;
  s->op = M->g->node[node].op;
  s->device = M->g->node[node].type.device;
  if (kind == STEP_KERNEL) return s;
  s->job = &P->job[P->njobs++];
  memset(s->job, 0, sizeof *s->job);
  P->extra += padded(sizeof *s->job);
  return s;
}

static void step_operand(Step *s, i32 slot, bool write) {
  if (write) s->writes |= 1u << s->noperands;
  s->slot[s->noperands++] = slot;
}

static void step_copy(const Make *M, Pack *P, i32 node, i32 from, i32 to) {
  Step *s = step_new(M, P, STEP_COPY, node);
  step_operand(s, from, false);
  step_operand(s, to, true);
  s->job->kind = JOB_COPY;
  s->job->bytes = P->slot[to].bytes;
  if (P->slot[from].kind != SLOT_INPUT || in_order(&M->g->node[node])) return;
  s->job->node = &M->g->node[node];
  P->extra += padded(sizeof(Node));
}

/* The group's program as part of step s: all of a kernel, or the epilogue of a product. */
static void step_program(const Make *M, Pack *P, i32 gi, Step *s) {
  Work *w = &M->work[gi];
  for (i32 i = 0; i < w->program->noperands; i++) {
    i32 node = w->operand[i];
    bool write = w->program->operand[i].write != 0;
    step_operand(s,
                 node < 0 ? 0
                 : write  ? slot_home(M, P, node)
                          : slot_read(M, P, gi, node),
                 write);
  }
  s->program = w->program;
  s->launch = &w->launch;
  s->scalar = w->scalar;
  s->nscalar = w->nscalar;
  P->extra += padded(sizeof(Launch)) + padded((size_t)s->nscalar * sizeof(i32));
}

static void step_gemm(const Make *M, Pack *P, i32 gi) {
  Work *w = &M->work[gi];
  const Group *gr = &M->gs.group[gi];
  Step *s = step_new(M, P, STEP_GEMM, gr->root);
  for (i32 i = 0; i < 2; i++) {
    step_operand(s, slot_read(M, P, gi, w->factor[i]), false);
    s->job->start[i] = w->start[i] * ty_dtypes[M->g->node[w->factor[i]].type.dtype].bytes;
  }
  step_operand(s, slot_home(M, P, gr->root), true);
  s->job->blas = M->g->node[gr->product].arg.k2 == PRODUCT_BLAS;
  s->job->kind = JOB_PRODUCT;
  s->job->gemm = &w->gemm;
  if (is_input(M, gi, w->factor[1]) && !s->job->blas) s->packs = true;
  P->extra += padded(sizeof(Gemm)) +
              padded(sizeof(Im2col)) * ((w->gemm.a_im2col != NULL) + (w->gemm.b_im2col != NULL));
  if (!w->program) return;
  step_program(M, P, gi, s);
  s->job->product = w->product;
  ty_list_find(w);
  s->job->list = w->list;
  s->job->nlist = w->nlist;
  s->job->store = w->store;
  s->job->listed = w->listed;
  P->extra += padded((size_t)w->nlist * sizeof(ListOp));
  s->job->nrows = w->nrows;
  s->job->aside =
      ty_dtypes[w->gemm.dtype].bytes != ty_dtypes[M->g->node[gr->root].type.dtype].bytes;
}

static void step_routine(const Make *M, Pack *P, i32 gi) {
  const Group *gr = &M->gs.group[gi];
  const Work *w = &M->work[gi];
  const Node *root = &M->g->node[gr->root];
  Step *s = step_new(M, P, STEP_ROUTINE, gr->root);
  for (i32 i = gr->base >= 0; i < ty_ops[root->op].arity; i++)
    step_operand(s, w->packed[i] < 0 ? 0 : slot_read(M, P, gi, w->packed[i]), false);
  step_operand(s, slot_home(M, P, gr->root), true);
  if (w->attend.batch) {
    s->job->kind = JOB_ATTEND;
    s->job->attend = &M->work[gi].attend;
    P->extra += padded(sizeof(Attend));
    return;
  }
  s->job->kind = root->op == OP_ARGSORT        ? JOB_SORT
                 : root->op == OP_FFT          ? JOB_FFT
                 : root->op == OP_SEARCHSORTED ? JOB_SEARCH
                 : root->op == OP_POSITIONS    ? JOB_POSITIONS
                 : root->op == OP_TO           ? JOB_TO
                 : root->op == OP_LOOP         ? JOB_LOOP
                 : ty_node_begins(root)        ? JOB_CALL
                 : ty_node_awaits(root)        ? JOB_AWAIT
                                               : JOB_SCATTER;
  s->job->node = root;
  s->job->bytes = node_bytes(M->g, gr->root);
  s->job->start[0] = w->start[0] * (i64)sizeof(i64);
  memcpy(s->job->strides, w->strides, sizeof w->strides);
  s->scalar = M->work[gi].scalar;
  s->nscalar = w->nscalar;
  P->extra += padded(sizeof(Node)) + padded(MAX_SRC * sizeof(Type)) +
              padded((size_t)s->nscalar * sizeof(i32));
}

/* The steps of the group, and which step first changes each of its outputs. */
static void steps_of(Make *M, Pack *P, i32 gi) {
  const Group *gr = &M->gs.group[gi];
  i64 bytes = 0;
  for (i32 j = 0; j < gr->nout; j++) bytes += node_bytes(M->g, gr->out[j]);
  if (!bytes) return; /* nothing to compute */
  i32 first = P->nsteps;
  if (M->copies[gi]) {
    step_copy(M, P, gr->base, slot_read(M, P, gi, gr->base), slot_home(M, P, gr->root));
    i32 k = M->homes[M->home[gr->root]].output;
    /* The copy is a write unless it is the one that is skipped in place. */
    if (k >= 0 && M->out[k].inplace) {
      const Output *out = &M->out[k];
      i32 b = out->write >= 0   ? M->buffer[out->write]
              : out->donor >= 0 ? M->buffer[out->donor]
                                : -1;
      if (b >= 0 && base_is(M, gi, b, out->bytes)) first++;
    }
  }
  for (i32 j = 0; j < gr->nout; j++) {
    i32 k = M->homes[M->home[gr->out[j]]].output;
    if (k >= 0 && M->out[k].first < 0) M->out[k].first = first;
  }
  if (gr->kind == G_KERNEL) step_program(M, P, gi, step_new(M, P, STEP_KERNEL, gr->root));
  if (gr->kind == G_GEMM) step_gemm(M, P, gi);
  if (gr->kind == G_ROUTINE) step_routine(M, P, gi);
}

static bool plan_steps(Make *M, Pack *P) {
  i32 most = 2 * M->gs.n + M->nout;
  P->step = scratch(M, most, sizeof(Step));
  P->job = scratch(M, most, sizeof(Job));
  P->slot = scratch(M, 1 + M->nin + M->nout + M->nhomes, sizeof(Slot));
  P->of_input = scratch(M, M->nin, sizeof(i32));
  P->of_output = scratch(M, M->nout, sizeof(i32));
  if (!P->step || !P->job || !P->slot || !P->of_input || !P->of_output) return false;
  slot_new(P, (Slot){.k = -1});
  for (i32 k = 0; k < M->nout; k++) M->out[k].first = -1;
  for (i32 t = 0; t < M->gs.n; t++) steps_of(M, P, M->order[t]);
  for (i32 k = 0; k < M->nout; k++) {
    i32 node = M->out[k].node, first = M->primary[node];
    if (M->out[k].first < 0) M->out[k].first = P->nsteps;
    if (first == k || M->out[k].same >= 0 || !M->out[k].bytes) continue;
    step_copy(M, P, node, slot_output(M, P, first), slot_output(M, P, k));
  }
  return true;
}

/* --- what the plan is worth */

/* Bytes that the steps move, and that operations run one by one would: each reads its operands
** and writes its result. */
static bool plan_count(Make *M, Plan *p) {
  const Graph *g = M->g;
  u8 *live = scratch(M, g->n, 1);
  if (!live) return false;
  i64 apart = 0;
  for (i32 i = g->n - 1; i >= 0; i--) {
    const Node *n = &g->node[i];
    live[i] |= M->want[i];
    if (!live[i]) continue;
    bool op = ty_ops[n->op].class != LEAF && ty_ops[n->op].class != VIEW;
    for (i32 j = 0; j < ty_ops[n->op].arity; j++) {
      i32 a = n->src[j];
      live[a] = 1;
      bool memory = ty_ops[g->node[a].op].class != LEAF || g->node[a].op == OP_INPUT;
      if (op && memory) apart += node_bytes(g, a);
    }
    if (op) apart += node_bytes(g, i), p->nops++;
  }
  for (i32 gi = 0; gi < M->gs.n; gi++) {
    const Group *gr = &M->gs.group[gi];
    i32 list[MAX_OPERANDS], n = group_reads(M, gi, list);
    i64 most = INT64_MAX; /* a kernel touches no more elements than its domain has */
    if (gr->kind == G_KERNEL) {
      const Launch *l = &M->work[gi].launch;
      most = 1;
      for (int d = 0; d < l->no + l->nr + l->ni; d++) most *= l->dims[d];
      most *= 8;
    }
    for (i32 i = 0; i < n; i++) p->bytes_moved += TY_MIN(most, node_bytes(g, list[i]));
    for (i32 j = 0; j < gr->nout; j++) p->bytes_moved += TY_MIN(most, node_bytes(g, gr->out[j]));
    if (M->copies[gi]) p->bytes_moved += 2 * node_bytes(g, gr->root);
    p->nkernels += gr->kind == G_KERNEL;
  }
  p->bytes_saved = TY_MAX(apart - p->bytes_moved, 0);
  return true;
}

/* --- the plan as one block */

static void *carve(u8 **at, const void *from, size_t n) {
  void *p = *at;
  *at += padded(n);
  if (n) memcpy(p, from, n);
  return p;
}

static size_t source_bytes(const Make *M) {
  return sizeof(Source) + (size_t)M->g->n * sizeof(Node) + (size_t)M->g->nscalar * sizeof(u64) +
         (size_t)M->nout * sizeof(i32);
}

static void source_pack(const Make *M, Source *s) {
  const Graph *g = M->g;
  *s = (Source){source_bytes(M), g->n, g->nscalar, M->nout, M->task->fast};
  memcpy(s->node, g->node, (size_t)g->n * sizeof(Node));
  u64 *scalar = (u64 *)(s->node + g->n);
  if (g->nscalar) memcpy(scalar, g->scalar, (size_t)g->nscalar * sizeof(u64));
  i32 *out = (i32 *)(scalar + g->nscalar);
  for (i32 k = 0; k < M->nout; k++) out[k] = M->out[k].node;
}

static Plan *plan_pack(Make *M, Pack *P, const Plan *head) {
  size_t nstep = (size_t)P->nsteps * sizeof(Step), nslot = (size_t)P->nslots * sizeof(Slot);
  size_t nout = (size_t)M->nout * sizeof(Output);
  size_t bytes = padded(sizeof(Plan)) + padded(nstep) + padded(nslot) + padded(nout) +
                 padded(source_bytes(M)) + P->extra;
  u8 *at = ty_mem_zalloc(bytes);
  if (!at) return NULL;
  Plan *p = carve(&at, head, sizeof *head);
  p->step = carve(&at, P->step, nstep);
  p->slot = carve(&at, P->slot, nslot);
  p->output = carve(&at, M->out, nout);
  source_pack(M, p->source = (Source *)at);
  at += padded(source_bytes(M));
  p->refs = 1;
  p->nsteps = P->nsteps;
  p->nslots = P->nslots;
  p->noutputs = M->nout;
  p->ninputs = M->nin;
  p->nscalars = M->g->nscalar;
  p->nloops = M->g->nloops;
  for (i32 i = 0; p->nloops && i < p->source->n; i++)
    if (p->source->node[i].op == OP_LOOP) ty_body_hold(p->source->node[i].arg.bits);
  p->arena = P->arena;
  p->device = M->device;
  for (i32 i = 0; i < p->nslots; i++)
    p->apart |= p->slot[i].kind == SLOT_TEMP && p->slot[i].k == -2;
  p->bytes = (i64)bytes;
  for (i32 i = 0; i < p->nsteps; i++) {
    Step *s = &p->step[i];
    if (s->launch) s->launch = carve(&at, s->launch, sizeof(Launch));
    s->scalar = carve(&at, s->scalar, (size_t)s->nscalar * sizeof(i32));
    if (!s->job) continue;
    Job *j = s->job = carve(&at, s->job, sizeof(Job));
    j->noperands = s->noperands;
    j->nscalar = (u8)s->nscalar;
    j->launch = s->launch;
    j->list = carve(&at, j->list, (size_t)j->nlist * sizeof(ListOp));
    if (j->gemm) {
      j->gemm = carve(&at, j->gemm, sizeof(Gemm));
      if (j->gemm->a_im2col) j->gemm->a_im2col = carve(&at, j->gemm->a_im2col, sizeof(Im2col));
      if (j->gemm->b_im2col) j->gemm->b_im2col = carve(&at, j->gemm->b_im2col, sizeof(Im2col));
    }
    if (j->node) j->node = carve(&at, j->node, sizeof(Node));
    if (j->attend) j->attend = carve(&at, j->attend, sizeof(Attend));
    if (s->kind != STEP_ROUTINE || j->attend) continue;
    Type types[MAX_SRC];
    memset(types, 0, sizeof types);
    for (int k = 0; k < ty_ops[s->op].arity; k++) types[k] = M->g->node[j->node->src[k]].type;
    j->type = carve(&at, types, sizeof types);
  }
  return p;
}

/* The page of calls. */
Plan *ty_plan_make(Arena *A, const Task *task, const Passes *passes) {
  Make M = {.A = A,
            .task = task,
            .g = task->g,
            .nout = task->nout,
            .nin = task->nin,
            .input_node = task->input_node,
            .gs = passes->gs,
            .work = passes->work};
  Pack P = {0};
  Plan head = {0};
  M.out = scratch(&M, M.nout, sizeof(Output));
  if (!M.out) return NULL;
  if (M.nout) memcpy(M.out, task->out, (size_t)M.nout * sizeof(Output));
  bool ok = plan_begin(&M) && plan_order(&M) && plan_lifetimes(&M) && plan_homes(&M) &&
            plan_outputs(&M) && plan_arena(&M, &P.arena) && plan_steps(&M, &P) &&
            plan_count(&M, &head);
  return ok ? plan_pack(&M, &P, &head) : NULL;
}

/* --- checking */

const char *ty_plan_check(const Plan *p) {
  for (i32 i = 0; i < p->nslots; i++) {
    const Slot *a = &p->slot[i];
    i32 first = -1, last = -1;
    for (i32 t = 0; t < p->nsteps; t++) {
      const Step *s = &p->step[t];
      bool reads = false, writes = false;
      for (i32 j = 0; j < s->noperands; j++) {
        if (s->slot[j] < 0 || s->slot[j] >= p->nslots)
          return "a step names a slot that is not there";
        if (s->slot[j] != i) continue;
        if (s->writes >> j & 1) writes = true;
        else reads = true;
      }
      if (writes && (a->kind == SLOT_INPUT || a->kind == SLOT_NONE)) return "an input is written";
      if (reads && first < 0 && a->bytes && a->kind >= SLOT_OUTPUT)
        return "a read before any write";
      if (writes && first < 0) first = t;
      if (reads || writes) last = t;
    }
    if (a->kind == SLOT_OUTPUT && a->bytes && first < 0) return "an output is not written";
    if (a->kind != SLOT_TEMP) continue;
    if (a->k == -2) continue;
    i64 room = a->k < 0 ? p->arena : p->output[a->k].bytes;
    if (a->offset < 0 || a->offset % 64 || a->offset + a->bytes > room)
      return "a slot lies outside";
    if (a->k >= 0 && (p->output[a->k].inplace || p->output[a->k].first <= last))
      return "a slot lies in an output that is not fresh";
    /* Does any step between touch a slot of the same bytes? */
    for (i32 k = 0; k < p->nslots; k++) {
      const Slot *b = &p->slot[k];
      if (k == i || b->kind != SLOT_TEMP || b->k != a->k || b->offset + b->bytes <= a->offset ||
          a->offset + a->bytes <= b->offset)
        continue;
      for (i32 t = first; t >= 0 && t <= last; t++)
        for (i32 j = 0; j < p->step[t].noperands; j++)
          if (p->step[t].slot[j] == k) return "two live slots overlap";
    }
  }
  return NULL;
}
