/*
** record.c -- the road's entrance: check what the user gave, infer types, append nodes, then cut
** (eager) or wait (lazy).
** In: tensors, numbers, dims. Out: a tensor whose storage waits for a node of a batch; in eager
** mode that batch is cut at once, so the storage is settled. Fails on what the user did (the text
** names function and shapes) and on memory; nothing of the user's has changed then.
**
** Order inside each function: everything that can demand a value comes first (an operand that waits
** for another batch, an index to be checked), then the batch is chosen, then nodes are appended. A
** demand may close the open batch, so no node number is held across one.
*/
#include <math.h>
#include <stdio.h>
#include "capture.h"
#include "grad.h"
#include "vmap.h"

#define LAZY_NODES 64           /* an open batch is cut when it has so many nodes ... */
#define LAZY_PINNED (256 << 20) /* ... or pins so many bytes */

static const char *name_of(const char *who, int op) { return who ? who : ty_ops[op].lua; }

#define SHOWN 160
static const char *show(const Type *t, char *buf) {
  ty_type_print(t, buf, SHOWN);
  return buf;
}

/* --- batches */

/* The batch that the next nodes go to: the open one, or a new one for a single operation. */
static Batch *begin(State *S) {
  Batch *b = S->open;
  if (!b) return ty_batch_new(S);
  if (S->capture) return b;
  i32 most = S->batch_nodes ? S->batch_nodes : LAZY_NODES;
  if (b->g.n < most && b->pinned < LAZY_PINNED) return b;
  return S->cut(S, b, NULL) ? S->open : NULL;
}

/* Drops a batch of `begin` after a failure. */
static bool cancel(State *S, Batch *b) {
  if (b && b != S->open) ty_batch_drop(S, b);
  return false;
}

static bool cancel_memory(State *S, Batch *b, const char *who) {
  cancel(S, b);
  return ty_fail_memory(S, who, 0);
}

/* Ends a record: eager batches are cut. */
static bool commit(State *S, Batch *b) {
  if (S->capture) return true; /* runs read exposed memory when they are called */
  if (b == S->open) return ty_batch_exposed(b) ? S->cut(S, b, NULL) : true;
  bool ok = S->cut(S, b, NULL);
  ty_batch_drop(S, b);
  return ok;
}

/* A new tensor y of the node's type that waits for it; then commit. y is empty again after a
 * failure. */
static bool finish_as(State *S, Batch *b, i32 node, const Type *shown, Tensor *y, const char *who) {
  if (node < 0) return cancel_memory(S, b, who);
  if (TY_UNLIKELY(S->recorded != NULL)) S->recorded(S, b, node);
  const Type *t = shown ? shown : &b->g.node[node].type;
  Tensor r = {.type = *t};
  ty_type_strides(t, r.strides);
  if (!(r.st = ty_storage_new(S, t->dtype, ty_type_numel(t)))) return cancel(S, b);
  ty_storage_wait(r.st, b, node);
  if (!commit(S, b)) {
    ty_tensor_release(&r);
    return false;
  }
  *y = r;
  return true;
}

static bool finish(State *S, Batch *b, i32 node, Tensor *y, const char *who) {
  return finish_as(S, b, node, NULL, y, who);
}

/* --- nodes of operands */

/* Computes x when it waits for a batch that is not the open one. */
static bool settle(State *S, const Tensor *x) {
  Storage *st = x->st;
  if (TY_UNLIKELY(st->many != NULL)) return ty_vmap_refuse(S) != NULL;
  return !st->batch || st->batch == S->open || S->cut(S, st->batch, st);
}

static i32 append(Batch *b, const Node *n) { return ty_fold_append(&b->g, n); }

static Node node_new(int op, const Type *t, i32 a0, i32 a1, i32 a2) {
  Node n;
  memset(&n, 0, sizeof n);
  n.op = (u16)op;
  memset(n.src, -1, sizeof n.src);
  n.src[0] = a0;
  n.src[1] = a1;
  n.src[2] = a2;
  n.type = *t;
  return n;
}

static Node node_view(i32 src, const Type *t, i64 offset, const i64 *strides) {
  Node n = node_new(OP_VIEW, t, src, -1, -1);
  n.arg.offset = offset;
  for (int d = 0; d < t->rank; d++) n.arg.strides[d] = t->dims[d] == 1 ? 0 : strides[d];
  return n;
}

/* The INPUT node of a concrete tensor: one for each (buffer, offset, layout). */
static i32 input_node(Batch *b, Buffer *buf, const Type *t, i64 offset, const i64 *strides) {
  Node n = node_new(OP_INPUT, t, -1, -1, -1);
  for (int d = 0; d < t->rank; d++) n.arg.strides[d] = t->dims[d] == 1 ? 0 : strides[d];
  n.arg.k = b->ninput;
  for (i32 i = b->ninput - 1; i >= 0; i--) {
    struct BatchInput *in = &b->input[i];
    if (in->buf != buf) continue;
    const Node *old = &b->g.node[in->node];
    n.arg.k = old->arg.k;
    if (in->offset == offset && ty_type_equal(&old->type, t) &&
        !memcmp(old->arg.strides, n.arg.strides, sizeof n.arg.strides))
      return in->node;
  }
  n.arg.k2 = b->ninput;
  if (b->ninput == b->input_cap) {
    i32 cap = b->input_cap ? b->input_cap * 2 : 8;
    void *p = ty_mem_realloc(b->input, (size_t)cap * sizeof *b->input);
    if (!p) return -1;
    b->input = p;
    b->input_cap = cap;
  }
  i32 id = ty_graph_append(&b->g, &n);
  if (id < 0) return -1;
  b->input[b->ninput++] = (struct BatchInput){id, ty_buffer_hold(buf), offset};
  b->pinned += buf->bytes;
  return id;
}

i32 ty_record_node(State *S, Batch *b, const Tensor *x) {
  (void)S;
  Storage *st = x->st;
  if (!st->batch) return input_node(b, st->buf, &x->type, x->offset, x->strides);
  i32 base = st->node;
  if (x->offset == 0 && ty_type_same_dims(&b->g.node[base].type, &x->type) &&
      ty_tensor_is_contiguous(x))
    return base;
  Node v = node_view(base, &x->type, x->offset, x->strides);
  return append(b, &v);
}

static i32 cast_node(Batch *b, i32 a, int dtype) {
  if (a < 0) return -1;
  Type t = b->g.node[a].type;
  if (t.dtype == dtype) return a;
  t.dtype = (u8)dtype;
  Node n = node_new(OP_CAST, &t, a, -1, -1);
  return append(b, &n);
}

/* A number as an operand of that dtype: a run-time scalar. */
static i32 symbol_node(Batch *b, int dtype, double v, i32 symbol) {
  i32 slot = ty_graph_scalar(&b->g, ty_elem_scalar(dtype, v));
  if (slot < 0) return -1;
  ScalarFrom from = {.kind = SC_NUMBER, .dtype = (u8)dtype, .id = symbol};
  if (TY_UNLIKELY(symbol) && !ty_capture_scalar(b->S, slot, from)) return -1;
  Type t = {.dtype = (u8)dtype};
  Node n = node_new(OP_SCALAR, &t, -1, -1, -1);
  n.arg.k = slot;
  return ty_graph_append(&b->g, &n);
}

static i32 scalar_node(Batch *b, int dtype, double v) { return symbol_node(b, dtype, v, 0); }

/* Node a seen with the dims of t, which has as many elements. */
static i32 reshape_node(Batch *b, i32 a, const Type *t) {
  if (a < 0 || ty_type_same_dims(&b->g.node[a].type, t)) return a;
  i64 strides[MAX_RANK] = {0};
  Type to = *t;
  to.dtype = b->g.node[a].type.dtype;
  ty_type_strides(&to, strides);
  Node n = node_view(a, &to, 0, strides);
  return append(b, &n);
}

/* Node a seen with the dims of t, to which it broadcasts. */
static i32 expand_node(Batch *b, i32 a, const Type *t) {
  if (a < 0 || ty_type_same_dims(&b->g.node[a].type, t)) return a;
  Type from = b->g.node[a].type, to = *t;
  i64 own[MAX_RANK] = {0}, strides[MAX_RANK] = {0};
  int gap = t->rank - from.rank;
  to.dtype = from.dtype;
  ty_type_strides(&from, own);
  for (int d = gap; d < t->rank; d++)
    strides[d] = from.dims[d - gap] == 1 && t->dims[d] != 1 ? 0 : own[d - gap];
  Node n = node_view(a, &to, 0, strides);
  return append(b, &n);
}

/* --- type rules */

/* How far the numbers among the operands push: nothing, to integers, to floats. */
typedef enum { WEAK_NONE, WEAK_BOOL, WEAK_WHOLE, WEAK_FRACTION } Weak;

static Weak weak_of(const Given *g) {
  if (g->kind == O_BOOL) return WEAK_BOOL;
  return floor(g->v) == g->v && isfinite(g->v) ? WEAK_WHOLE : WEAK_FRACTION;
}

/* The dtype that tensors and numbers meet in. */
static int meet(State *S, int n, const Given *src) {
  int d = -1;
  Weak w = WEAK_NONE;
  for (int i = 0; i < n; i++) {
    if (src[i].kind == O_TENSOR) {
      int own = src[i].t->type.dtype;
      d = d < 0 ? own : ty_dtype_promote(d, own);
    } else {
      w = TY_MAX(w, weak_of(&src[i]));
    }
  }
  if (d < 0) return w == WEAK_BOOL ? T_BOOL : S->default_dtype;
  if (ty_is_float(d) || w <= WEAK_BOOL) return d;
  for (int i = 0; i < n; i++) /* whole or not decides here */
    if (src[i].symbol) ty_capture_whole(S, src[i].symbol, weak_of(&src[i]) == WEAK_WHOLE);
  if (w == WEAK_FRACTION) return S->default_dtype;
  return d == T_BOOL ? T_I64 : d;
}

static const char *const rule_wants[] = {[TR_INT] = "integers", [TR_BITS] = "integers or bool"};

/* Dtype of the operands and of the result. */
static bool infer_dtype(State *S, const char *who, int op, int n, const Given *src, int *in,
                        int *out) {
  int rule = ty_ops[op].rule, first = rule == TR_WHERE;
  int d = meet(S, n - first, src + first);
  switch (rule) {
  case TR_ARITH:
  case TR_DOT:
    if (d == T_BOOL) d = T_I64;
    break;
  case TR_FLOAT:
    if (!ty_is_float(d)) d = S->default_dtype;
    break;
  case TR_INT:
  case TR_BITS:
    if (ty_is_float(d) || (rule == TR_INT && d == T_BOOL))
      return ty_fail(S, "%s: needs %s, got %s", who, rule_wants[rule], ty_dtypes[d].name);
    break;
  default: break;
  }
  for (int i = first; i < n; i++) {
    if (src[i].kind == O_TENSOR || ty_elem_fits(d, src[i].v)) continue;
    if (rule == TR_CMP) d = T_I64;
    if (!ty_elem_fits(d, src[i].v))
      return ty_fail(S, "%s: %.17g does not fit %s", who, src[i].v, ty_dtypes[d].name);
  }
  *in = d;
  *out = rule == TR_CMP ? T_BOOL : d;
  return true;
}

/* --- maps and products */

static bool broadcast(State *S, const char *who, int n, const Given *src, Type *t) {
  char a[SHOWN], b[SHOWN];
  t->rank = 0;
  for (int i = 0; i < n; i++) {
    if (src[i].kind != O_TENSOR || ty_type_broadcast(t, &src[i].t->type)) continue;
    for (int j = 0; j < i; j++) {
      if (src[j].kind != O_TENSOR) continue;
      Type pair = src[j].t->type;
      if (ty_type_broadcast(&pair, &src[i].t->type)) continue;
      return ty_fail(S, "%s: sizes do not broadcast, %s and %s", who, show(&src[j].t->type, a),
                     show(&src[i].t->type, b));
    }
    return ty_fail(S, "%s: sizes do not broadcast with %s", who, show(&src[i].t->type, b));
  }
  return ty_type_fits(t) || ty_fail(S, "%s: the result %s is too large", who, show(t, a));
}

/* Settles tensor operands; afterwards the batch may be chosen and node numbers held. */
static bool settle_all(State *S, int n, const Given *src) {
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR && !settle(S, src[i].t)) return false;
  return true;
}

static bool record_map(State *S, const char *who, int op, int n, const Given *src, Tensor *y) {
  Type t = {0};
  int in, out;
  if (!infer_dtype(S, who, op, n, src, &in, &out) || !broadcast(S, who, n, src, &t)) return false;
  t.dtype = (u8)out;
  if (TY_UNLIKELY(ty_vmap_level_of(n, src)))
    return ty_vmap_record(S, who, op, n, src, (VmapArg){0}, &t, y);
  if (!settle_all(S, n, src)) return false;
  Batch *b = begin(S);
  if (!b || !settle_all(S, n, src)) return cancel(S, b);
  i32 id[3] = {-1, -1, -1};
  for (int i = 0; i < n; i++) {
    int d = i == 0 && op == OP_WHERE ? T_BOOL : in;
    id[i] = src[i].kind == O_TENSOR ? cast_node(b, ty_record_node(S, b, src[i].t), d)
                                    : symbol_node(b, d, src[i].v, src[i].symbol);
    if (id[i] < 0) return cancel_memory(S, b, who);
  }
  Node node = node_new(op, &t, id[0], id[1], id[2]);
  return finish(S, b, append(b, &node), y, who);
}

/* Dims of a product of two operands of rank >= 2, which the user gave as src. */
static bool product_type(State *S, const char *who, const Type *a, const Type *b, const Given *src,
                         Type *y) {
  char sa[SHOWN], sb[SHOWN];
  Type la = *a, lb = *b;
  if (a->dims[a->rank - 1] != b->dims[b->rank - 2])
    return ty_fail(S, "%s: inner sizes differ, %s x %s", who, show(&src[0].t->type, sa),
                   show(&src[1].t->type, sb));
  la.rank -= 2;
  lb.rank -= 2;
  for (int d = la.rank; d < MAX_RANK; d++) la.dims[d] = 0;
  for (int d = lb.rank; d < MAX_RANK; d++) lb.dims[d] = 0;
  if (!ty_type_broadcast(&la, &lb))
    return ty_fail(S, "%s: leading sizes do not broadcast, %s x %s", who, show(&src[0].t->type, sa),
                   show(&src[1].t->type, sb));
  *y = la;
  y->dims[y->rank++] = a->dims[a->rank - 2];
  y->dims[y->rank++] = b->dims[b->rank - 1];
  return ty_type_fits(y) || ty_fail(S, "%s: the result %s is too large", who, show(y, sa));
}

#define BLAS_WORK (64 * 64 * 64) /* smaller products stay ours even when OpenBLAS is wished */
#define AMX_WORK (32 * 32 * 32)  /* the same for the matrix unit */

/* The product of src seen as matrices t, whose type is r but for the dtype; the user sees `shown`. */
static bool append_product(State *S, const char *who, const Given *src, const Type t[2], Type r,
                           Type shown, Tensor *y) {
  int in, out;
  if (!infer_dtype(S, who, OP_MATMUL, 2, src, &in, &out) || !settle_all(S, 2, src)) return false;
  Batch *b = begin(S);
  if (!b || !settle_all(S, 2, src)) return cancel(S, b);
  i32 id[2];
  for (int i = 0; i < 2; i++) {
    id[i] = reshape_node(b, cast_node(b, ty_record_node(S, b, src[i].t), in), &t[i]);
    if (id[i] < 0) return cancel_memory(S, b, who);
  }
  r.dtype = shown.dtype = (u8)out;
  Node node = node_new(OP_MATMUL, &r, id[0], id[1], -1);
  double work = (double)t[0].dims[t[0].rank - 1];
  for (int d = 0; d < r.rank; d++) work *= (double)r.dims[d];
  if (S->amx && in == T_BF16 && work >= AMX_WORK) node.arg.k2 = 2;
  if (S->blas && (in == T_F32 || in == T_F64) && work >= BLAS_WORK) node.arg.k2 = 1;
  return finish_as(S, b, append(b, &node), &shown, y, who);
}

static bool record_product(State *S, const char *who, const Given *src, Tensor *y) {
  Type t[2], r;
  char sa[SHOWN], sb[SHOWN];
  for (int i = 0; i < 2; i++)
    if (src[i].kind != O_TENSOR)
      return ty_fail(S, "%s: argument %d must be a tensor, got a number", who, i + 1);
  for (int i = 0; i < 2; i++) {
    t[i] = src[i].t->type;
    if (t[i].rank) continue;
    return ty_fail(S, "%s: operands need at least one dim, %s x %s", who, show(&src[0].t->type, sa),
                   show(&src[1].t->type, sb));
  }
  bool row = t[0].rank == 1, column = t[1].rank == 1;
  if (row) t[0] = (Type){.dtype = t[0].dtype, .rank = 2, .dims = {1, t[0].dims[0]}};
  if (column) t[1] = (Type){.dtype = t[1].dtype, .rank = 2, .dims = {t[1].dims[0], 1}};
  if (!product_type(S, who, &t[0], &t[1], src, &r)) return false;
  Type shown = r;
  if (column) shown.dims[--shown.rank] = 0;
  if (row) {
    if (!column) shown.dims[shown.rank - 2] = shown.dims[shown.rank - 1];
    shown.dims[--shown.rank] = 0;
  }
  if (TY_UNLIKELY(ty_vmap_level_of(2, src)))
    return ty_vmap_record(S, who, OP_MATMUL, 2, src, (VmapArg){0}, &shown, y);
  return append_product(S, who, src, t, r, shown, y);
}

/* Adds dims [from, to) of x to y as one. */
static bool join_dims(const Type *x, int from, int to, Type *y) {
  i64 n = 1;
  for (int d = from; d < to; d++)
    if (!ty_mul(n, x->dims[d], &n)) return false;
  y->dims[y->rank++] = n;
  return true;
}

bool ty_record_contract(State *S, const char *who, const Tensor *a, const Tensor *b, int lead,
                        int summed, Tensor *y) {
  Given src[2] = {{.kind = O_TENSOR, .t = a}, {.kind = O_TENSOR, .t = b}};
  const Type *x = &a->type, *z = &b->type;
  Type t[2] = {{.dtype = x->dtype, .rank = (u8)lead}, {.dtype = z->dtype, .rank = (u8)lead}}, r;
  char sa[SHOWN], sb[SHOWN];
  const int rows = x->rank - summed, most = TY_MIN(x->rank, z->rank);
  bool ok = lead >= 0 && summed >= 0 && lead <= MAX_RANK - 2 && lead + summed <= most;
  for (int d = 0; ok && d < summed; d++) ok = x->dims[rows + d] == z->dims[lead + d];
  if (!ok)
    return ty_fail(S, "%s: %d summed dims behind %d do not fit, %s x %s", who, summed, lead,
                   show(x, sa), show(z, sb));
  for (int d = 0; d < lead; d++) t[0].dims[d] = x->dims[d], t[1].dims[d] = z->dims[d];
  if (!join_dims(x, lead, rows, &t[0]) || !join_dims(x, rows, x->rank, &t[0]) ||
      !join_dims(z, lead, lead + summed, &t[1]) || !join_dims(z, lead + summed, z->rank, &t[1]))
    return ty_fail(S, "%s: %s x %s is too large", who, show(x, sa), show(z, sb));
  if (!product_type(S, who, &t[0], &t[1], src, &r)) return false;
  Type shown = r;
  shown.rank = (u8)lead;
  if (rows + z->rank - lead - summed > MAX_RANK)
    return ty_fail(S, "%s: the result of %s x %s has more than %d dims", who, show(x, sa),
                   show(z, sb), MAX_RANK);
  for (int d = lead; d < rows; d++) shown.dims[shown.rank++] = x->dims[d];
  for (int d = lead + summed; d < z->rank; d++) shown.dims[shown.rank++] = z->dims[d];
  for (int d = shown.rank; d < MAX_RANK; d++) shown.dims[d] = 0;
  S->nops++;
  bool done = TY_UNLIKELY(ty_vmap_level_of(2, src))
                  ? ty_vmap_contract(S, who, a, b, lead, summed, &shown, y)
                  : append_product(S, who, src, t, r, shown, y);
  if (!done || TY_LIKELY(!S->tracks)) return done;
  return ty_grad_note(
      S, &(Noted){.kind = OP_MATMUL, .n = 2, .src = src, .dims = 1u + (u32)lead, .dim = summed}, y);
}

/* Tapes what was recorded from one tensor, where it must be. */
static bool note(State *S, int kind, const Tensor *x, u32 dims, int dim, Tensor *y) {
  Given src = {.kind = O_TENSOR, .t = x};
  if (TY_LIKELY(!S->tracks)) return true;
  return ty_grad_note(S, &(Noted){.kind = kind, .n = 1, .src = &src, .dims = dims, .dim = dim}, y);
}

static bool record(State *S, const char *who, int op, int n, const Given *src, Tensor *y) {
  if (!S->open && S->quick(S, op, n, src, y)) return true;
  return op == OP_MATMUL ? record_product(S, who, src, y) : record_map(S, who, op, n, src, y);
}

bool ty_record(State *S, const char *who, int op, int n, const Given *src, Tensor *y) {
  who = name_of(who, op);
  S->nops++;
  if (TY_LIKELY(!S->tracks)) return record(S, who, op, n, src, y);
  return record(S, who, op, n, src, y) &&
         ty_grad_note(S, &(Noted){.kind = op, .n = n, .src = src}, y);
}

/* What one batched operand gives. */
__attribute__((noinline, cold)) static bool batched(State *S, const char *who, int op,
                                                    const Tensor *x, u32 dims, int dim,
                                                    const Type *t, Tensor *y) {
  Given src = {.kind = O_TENSOR, .t = x};
  return ty_vmap_record(S, who, op, 1, &src, (VmapArg){.dims = dims, .dim = dim}, t, y) &&
         note(S, op == OP_BITCAST ? K_NONE : op, x, dims, dim, y);
}

/* Starts a record with one operand: its node cast to dtype, -1 after a failure that has been said.
 */
static i32 start(State *S, const char *who, const Tensor *x, int dtype, Batch **b) {
  S->nops++;
  *b = NULL;
  if (!settle(S, x) || !(*b = begin(S))) return -1;
  if (!settle(S, x)) {
    cancel(S, *b);
    return -1;
  }
  i32 a = cast_node(*b, ty_record_node(S, *b, x), dtype);
  if (a < 0) cancel_memory(S, *b, who);
  return a;
}

bool ty_record_cast(State *S, const Tensor *x, int dtype, Tensor *y) {
  Batch *b;
  if (x->type.dtype == dtype) {
    ty_tensor_alias(y, x);
    return true;
  }
  if (TY_UNLIKELY(x->st->many != NULL)) return batched(S, "to", OP_CAST, x, 0, dtype, &x->type, y);
  i32 a = start(S, "to", x, dtype, &b);
  return a >= 0 && finish(S, b, a, y, "to") && note(S, OP_CAST, x, 0, 0, y);
}

bool ty_record_bitcast(State *S, const Tensor *x, int dtype, Tensor *y) {
  const char *who = "view_as";
  Batch *b;
  int from = x->type.dtype;
  if (from == dtype) return ty_record_copy(S, x, y); /* a tensor of its own, as with any dtype */
  if (ty_dtypes[from].bytes != ty_dtypes[dtype].bytes)
    return ty_fail(S, "%s: %s and %s differ in size", who, ty_dtypes[from].name,
                   ty_dtypes[dtype].name);
  if (TY_UNLIKELY(x->st->many != NULL))
    return batched(S, who, OP_BITCAST, x, 0, dtype, &x->type, y);
  i32 a = start(S, who, x, from, &b);
  if (a < 0) return false;
  Type t = b->g.node[a].type;
  t.dtype = (u8)dtype;
  Node n = node_new(OP_BITCAST, &t, a, -1, -1);
  return finish(S, b, append(b, &n), y, who) && note(S, K_NONE, x, 0, 0, y);
}

bool ty_record_copy(State *S, const Tensor *x, Tensor *y) {
  Batch *b;
  if (TY_UNLIKELY(x->st->many != NULL)) return batched(S, "clone", OP_CAST, x, 0, -1, &x->type, y);
  i32 a = start(S, "clone", x, x->type.dtype, &b);
  return a >= 0 && finish(S, b, a, y, "clone") && note(S, OP_CAST, x, 0, 0, y);
}

/* --- reductions and scans */

static bool no_identity(int op) {
  return op == OP_AMAX || op == OP_AMIN || op == OP_ARGMAX || op == OP_ARGMIN;
}

static i32 reduce_run(Batch *b, int op, i32 a, int dtype, int lo, int hi) {
  if (a < 0) return -1;
  const Type *from = &b->g.node[a].type;
  Type t = {.dtype = (u8)dtype};
  for (int d = 0; d < from->rank; d++)
    if (d < lo || d > hi) t.dims[t.rank++] = from->dims[d];
  Node n = node_new(op, &t, a, -1, -1);
  n.arg.k = lo;
  n.arg.k2 = hi;
  return append(b, &n);
}

bool ty_record_reduce(State *S, const char *who, int op, const Tensor *x, u32 dims, bool keep,
                      Tensor *y) {
  char sx[SHOWN];
  Batch *b;
  int rank = x->type.rank, own = x->type.dtype, acc = own, out = own;
  who = name_of(who, op);
  if (!dims) dims = (1u << rank) - 1;
  i64 count = 1;
  int runs = 0;
  for (int d = 0; d < rank; d++) {
    if (!(dims >> d & 1)) continue;
    count *= x->type.dims[d];
    runs += d == rank - 1 || !(dims >> (d + 1) & 1);
  }
  if (count == 0 && no_identity(op))
    return ty_fail(S, "%s: nothing to choose from in an empty dim of %s", who, show(&x->type, sx));
  int rule = ty_ops[op].rule;
  if (rule == TR_SUM && !ty_is_float(own)) acc = out = T_I64;
  if (rule == TR_SUM && (own == T_F16 || own == T_BF16) && runs > 1) acc = T_F32;
  if (rule == TR_INDEX) out = T_I64;
  Type shown = {.dtype = (u8)out};
  for (int d = 0; d < rank; d++) {
    bool gone = dims >> d & 1;
    if (!gone || keep) shown.dims[shown.rank++] = gone ? 1 : x->type.dims[d];
  }
  if (TY_UNLIKELY(x->st->many != NULL)) return batched(S, who, op, x, dims, 0, &shown, y);
  i32 a = start(S, who, x, acc, &b);
  if (a < 0) return false;
  if (rank == 0) { /* a single element is a run of one */
    a = reshape_node(b, a, &(Type){.dtype = (u8)acc, .rank = 1, .dims = {1}});
    a = reduce_run(b, op, a, rule == TR_INDEX ? T_I64 : acc, 0, 0);
  }
  for (int hi = rank - 1; hi >= 0; hi--) { /* runs, last to first */
    if (!(dims >> hi & 1)) continue;
    int lo = hi;
    while (lo > 0 && dims >> (lo - 1) & 1) lo--;
    a = reduce_run(b, op, a, rule == TR_INDEX ? T_I64 : acc, lo, hi);
    hi = lo;
  }
  if (rule != TR_INDEX) a = cast_node(b, a, out);
  return finish_as(S, b, a, &shown, y, who) && note(S, op, x, dims, 0, y);
}

bool ty_record_scan(State *S, const char *who, int op, const Tensor *x, int dim, Tensor *y) {
  Batch *b;
  int d = x->type.dtype, rule = ty_ops[op].rule;
  who = name_of(who, op);
  if (rule == TR_SUM && !ty_is_float(d)) d = T_I64;
  if (rule == TR_FLOAT && !ty_is_float(d)) d = S->default_dtype;
  if (TY_UNLIKELY(x->st->many != NULL)) return batched(S, who, op, x, 0, dim, &x->type, y);
  i32 a = start(S, who, x, d, &b);
  if (a < 0) return false;
  Type t = b->g.node[a].type;
  if (t.rank == 0) a = reshape_node(b, a, &(Type){.dtype = (u8)d, .rank = 1, .dims = {1}});
  if (a < 0) return cancel_memory(S, b, who);
  Node n = node_new(op, &b->g.node[a].type, a, -1, -1);
  n.arg.k = dim;
  return finish_as(S, b, append(b, &n), &t, y, who) && note(S, op, x, 0, dim, y);
}

/* --- attention */

bool ty_record_attend(State *S, const char *who, int op, const Tensor *const *x, const Type *as,
                      const Arg *arg, i64 numel, Tensor *y) {
  const int arity = ty_ops[op].arity;
  const Type absent = {.dtype = T_BOOL}, flat = {.dtype = as[0].dtype, .rank = 1, .dims = {numel}};
  S->nops++;
  for (int i = 0; i < arity; i++)
    if (x[i] && !settle(S, x[i])) return false;
  Batch *b = begin(S);
  for (int i = 0; i < arity; i++)
    if (!b || (x[i] && !settle(S, x[i]))) return cancel(S, b);
  Node n = node_new(op, &flat, -1, -1, -1), none = node_new(OP_CONST, &absent, -1, -1, -1);
  none.arg.bits = 1;
  n.arg = *arg;
  for (int i = 0; i < arity; i++) {
    if (!x[i]) n.src[i] = append(b, &none);
    else n.src[i] = expand_node(b, cast_node(b, ty_record_node(S, b, x[i]), as[i].dtype), &as[i]);
    if (n.src[i] < 0) return cancel_memory(S, b, who);
  }
  return finish(S, b, append(b, &n), y, who);
}

/* --- moves */

static void index_text(const Type *t, i64 at, char *buf) {
  int n = snprintf(buf, SHOWN, "(");
  i64 strides[MAX_RANK] = {0};
  ty_type_strides(t, strides);
  for (int d = 0; d < t->rank && n < SHOWN - 24; d++) {
    n += snprintf(buf + n, (size_t)(SHOWN - n), d ? ", %lld" : "%lld",
                  (long long)(at / strides[d] % t->dims[d] + 1));
  }
  snprintf(buf + n, (size_t)(SHOWN - n), ")");
}

i64 ty_record_bad_index(const Tensor *index, const char *p, i64 size, int base,
                        const double *skip) {
  i64 n = ty_type_numel(&index->type), at[MAX_RANK] = {0};
  int d = index->type.dtype, bytes = ty_dtypes[d].bytes;
  for (i64 i = 0; i < n; i++) {
    double v = ty_elem_load(d, p);
    bool in = v >= 0 ? v >= base && v - base < (double)size : -v <= (double)size;
    if (!in && !(skip && v == *skip)) return i;
    for (int k = index->type.rank - 1; k >= 0; k--) { /* next element, by its strides */
      p += index->strides[k] * bytes;
      if (++at[k] < index->type.dims[k]) break;
      p -= index->strides[k] * bytes * at[k];
      at[k] = 0;
    }
  }
  return -1;
}

/* The element at that position in row-major order. */
static double element(const Tensor *x, const char *p, i64 at) {
  int bytes = ty_dtypes[x->type.dtype].bytes;
  for (int d = x->type.rank - 1; d >= 0; d--) {
    p += at % x->type.dims[d] * x->strides[d] * bytes;
    at /= x->type.dims[d];
  }
  return ty_elem_load(x->type.dtype, p);
}

/* An index that the open batch computes from nothing but positions: no run can give one that is not
 * among the places. */
static bool is_in_range(const State *S, const Tensor *index, i64 size, int base) {
  if (!ty_type_numel(&index->type)) return true;
  if (!S->open || index->st->batch != S->open) return false;
  Range r = ty_range_of(S->open, index->st->node);
  bool gap = base > 0 && r.lo <= 0 && r.hi >= 0; /* 0 names nothing */
  return r.lo >= -size && r.hi < size + base && !gap;
}

/* Every index names one of `size` places, counted from `base` or, negative, from the end. Demands
 * its value where that is not known; a capture leaves it to later runs. */
bool ty_record_check_index(State *S, const char *who, const Tensor *index, i64 size, int base,
                           const double *skip) {
  char where[SHOWN];
  int d = index->type.dtype;
  if (!ty_is_int(d))
    return ty_fail(S, "%s: the index must be of integers, got %s%s", who, ty_dtypes[d].name,
                   ty_is_float(d) ? " (use :to(\"i64\"))" : "");
  if (S->capture && !index->st->batch && !ty_capture_is_fresh(S, index->st))
    return ty_capture_check(S, index, size, base, skip);
  Tensor from;
  if (ty_capture_copied(S, index, &from)) return ty_capture_check(S, &from, size, base, skip);
  if (is_in_range(S, index, size, base)) return true;
  const char *p = ty_tensor_read(S, index);
  if (!p) return false;
  i64 bad = ty_record_bad_index(index, p, size, base, skip);
  if (bad < 0) return true;
  index_text(&index->type, bad, where);
  return ty_fail(S, "%s: index %.17g at %s is out of range %d..%lld", who, element(index, p, bad),
                 where, base, (long long)(size + base - 1));
}

static bool check_index(State *S, const char *who, const Tensor *index, i64 size, int base) {
  return ty_record_check_index(S, who, index, size, base, NULL);
}

/* 0-based positions of a checked index: i - base, or i + size where it is negative. */
static i32 index_node(State *S, Batch *b, const Tensor *index, i64 size, int base) {
  i32 i = cast_node(b, ty_record_node(S, b, index), T_I64);
  if (i < 0) return -1;
  Type t = b->g.node[i].type, cond = t;
  cond.dtype = T_BOOL;
  i32 zero = scalar_node(b, T_I64, 0), n = scalar_node(b, T_I64, (double)size);
  i32 first = scalar_node(b, T_I64, base);
  if (zero < 0 || n < 0 || first < 0) return -1;
  Node below = node_new(OP_LT, &cond, i, zero, -1);
  Node wrapped = node_new(OP_ADD, &t, i, n, -1), plain = node_new(OP_SUB, &t, i, first, -1);
  i32 lt = append(b, &below), w = append(b, &wrapped), p = append(b, &plain);
  if (lt < 0 || w < 0 || p < 0) return -1;
  Node pick = node_new(OP_WHERE, &t, lt, w, p);
  return append(b, &pick);
}

/* The index fits x: same rank, and outside dim not larger. */
static bool check_index_shape(State *S, const char *who, const Type *x, const Type *index,
                              int dim) {
  char sx[SHOWN], si[SHOWN];
  bool ok = x->rank == index->rank;
  for (int d = 0; ok && d < x->rank; d++) ok = d == dim || index->dims[d] <= x->dims[d];
  return ok || ty_fail(S, "%s: an index %s does not fit %s along dim %d", who, show(index, si),
                       show(x, sx), dim + 1);
}

bool ty_record_gather(State *S, const char *who, const Tensor *x, int dim, const Tensor *index,
                      int base, Tensor *y) {
  Batch *b;
  who = name_of(who, OP_GATHER);
  if (!check_index_shape(S, who, &x->type, &index->type, dim)) return false;
  Given src[2] = {{.kind = O_TENSOR, .t = x}, {.kind = O_TENSOR, .t = index}};
  if (TY_UNLIKELY(ty_vmap_level_of(2, src))) {
    VmapArg arg = {.dim = dim, .base = base};
    if (!ty_vmap_record(S, who, OP_GATHER, 2, src, arg, &index->type, y)) return false;
  } else {
    if (!check_index(S, who, index, x->type.dims[dim], base) || !settle(S, x)) return false;
    i32 a = start(S, who, x, x->type.dtype, &b);
    if (a < 0) return false;
    if (!settle(S, index)) return cancel(S, b);
    i32 i = index_node(S, b, index, x->type.dims[dim], base);
    if (i < 0) return cancel_memory(S, b, who);
    Type t = index->type;
    t.dtype = x->type.dtype;
    Node n = node_new(OP_GATHER, &t, a, i, -1);
    n.arg.k = dim;
    if (!finish(S, b, append(b, &n), y, who)) return false;
  }
  if (TY_LIKELY(!S->tracks)) return true;
  return ty_grad_note(S, &(Noted){.kind = OP_GATHER, .n = 2, .src = src, .dim = dim, .base = base},
                      y);
}

bool ty_record_scatter(State *S, const char *who, int op, const Tensor *x, int dim,
                       const Tensor *index, int base, const Tensor *src, Tensor *y) {
  char si[SHOWN], ss[SHOWN];
  Batch *b;
  who = name_of(who, op);
  if (!check_index_shape(S, who, &x->type, &index->type, dim)) return false;
  if (!ty_type_same_dims(&index->type, &src->type))
    return ty_fail(S, "%s: index and source differ in shape, %s and %s", who,
                   show(&index->type, si), show(&src->type, ss));
  Given given[3] = {{.t = x}, {.t = index}, {.t = src}};
  if (TY_UNLIKELY(ty_vmap_level_of(3, given))) {
    VmapArg arg = {.dim = dim, .base = base};
    if (!ty_vmap_record(S, who, op, 3, given, arg, &x->type, y)) return false;
  } else {
    if (!check_index(S, who, index, x->type.dims[dim], base) || !settle(S, x) || !settle(S, src))
      return false;
    i32 a = start(S, who, x, x->type.dtype, &b);
    if (a < 0) return false;
    if (!settle(S, index) || !settle(S, src)) return cancel(S, b);
    i32 i = index_node(S, b, index, x->type.dims[dim], base);
    i32 v = cast_node(b, ty_record_node(S, b, src), x->type.dtype);
    if (i < 0 || v < 0) return cancel_memory(S, b, who);
    Node n = node_new(op, &b->g.node[a].type, a, i, v);
    n.arg.k = dim;
    if (!finish(S, b, append(b, &n), y, who)) return false;
  }
  if (TY_LIKELY(!S->tracks)) return true;
  return ty_grad_note(S, &(Noted){.kind = op, .n = 3, .src = given, .dim = dim, .base = base}, y);
}

bool ty_record_argsort(State *S, const Tensor *x, int dim, bool descending, Tensor *y) {
  const char *who = "argsort";
  Batch *b;
  Given src = {.t = x};
  if (TY_UNLIKELY(x->st->many != NULL))
    return ty_vmap_record(S, who, OP_ARGSORT, 1, &src, (VmapArg){.dim = dim, .base = descending},
                          &x->type, y);
  i32 a = start(S, who, x, x->type.dtype, &b);
  if (a < 0) return false;
  Type t = x->type;
  if (t.rank == 0) a = reshape_node(b, a, &(Type){.dtype = t.dtype, .rank = 1, .dims = {1}});
  if (a < 0) return cancel_memory(S, b, who);
  Type yt = b->g.node[a].type;
  yt.dtype = t.dtype = T_I64;
  Node n = node_new(OP_ARGSORT, &yt, a, -1, -1);
  n.arg.k = dim;
  n.arg.k2 = descending;
  return finish_as(S, b, append(b, &n), &t, y, who);
}

bool ty_record_searchsorted(State *S, const Tensor *sorted, const Tensor *v, bool right,
                            Tensor *y) {
  const char *who = "searchsorted";
  char ss[SHOWN], sv[SHOWN];
  Batch *b;
  const Type *a = &sorted->type, *q = &v->type;
  bool ok = a->rank >= 1 && a->rank == q->rank;
  for (int d = 0; ok && d < a->rank - 1; d++) ok = a->dims[d] == q->dims[d];
  if (!ok) return ty_fail(S, "%s: leading sizes differ, %s and %s", who, show(a, ss), show(q, sv));
  int dtype = ty_dtype_promote(a->dtype, q->dtype);
  Given src[2] = {{.t = sorted}, {.t = v}};
  if (TY_UNLIKELY(ty_vmap_level_of(2, src)))
    return ty_vmap_record(S, who, OP_SEARCHSORTED, 2, src, (VmapArg){.base = right}, q, y);
  if (!settle(S, v)) return false;
  i32 s = start(S, who, sorted, dtype, &b);
  if (s < 0) return false;
  if (!settle(S, v)) return cancel(S, b);
  i32 w = cast_node(b, ty_record_node(S, b, v), dtype);
  if (w < 0) return cancel_memory(S, b, who);
  Type t = *q;
  t.dtype = T_I64;
  Node n = node_new(OP_SEARCHSORTED, &t, s, w, -1);
  n.arg.k = right;
  return finish(S, b, append(b, &n), y, who);
}

/* --- leaves */

/* A new batch for a leaf; t must fit. */
static Batch *start_leaf(State *S, const char *who, const Type *t) {
  char st[SHOWN];
  S->nops++;
  if (!ty_type_fits(t)) {
    ty_fail(S, "%s: %s is too large", who, show(t, st));
    return NULL;
  }
  return begin(S);
}

bool ty_record_full(State *S, const Type *t, double v, Tensor *y) {
  const char *who = "full";
  Batch *b = start_leaf(S, who, t);
  if (!b) return false;
  if (v == 0 || v == 1) { /* known to fold; other values stay out of the key */
    Node n = node_new(OP_CONST, t, -1, -1, -1);
    ty_elem_store(t->dtype, &n.arg.bits, v);
    return finish(S, b, append(b, &n), y, who);
  }
  return finish(S, b, expand_node(b, scalar_node(b, t->dtype, v), t), y, who);
}

static bool record_leaf(State *S, const char *who, int op, const Type *t, Tensor *y) {
  Batch *b = start_leaf(S, who, t);
  if (!b) return false;
  Node n = node_new(op, t, -1, -1, -1);
  return finish(S, b, append(b, &n), y, who);
}

bool ty_record_iota(State *S, const Type *dims, Tensor *y) {
  Type t = *dims;
  t.dtype = T_I64;
  return record_leaf(S, "arange", OP_IOTA, &t, y);
}

bool ty_record_empty(State *S, const Type *t, Tensor *y) {
  return record_leaf(S, "empty", OP_EMPTY, t, y);
}

u64 ty_stream_next(State *S) { return S->stream++; }

bool ty_record_random(State *S, const Type *dims, u64 stream, int word, Tensor *y) {
  const char *who = "rand";
  Type t = *dims;
  t.dtype = T_I32;
  if (TY_UNLIKELY(S->level != NULL)) return ty_vmap_random(S, S->level, dims, stream, word, y);
  Batch *b = start_leaf(S, who, &t);
  if (!b) return false;
  i32 slot = ty_graph_scalar(&b->g, stream);
  if (slot < 0 || ty_graph_scalar(&b->g, S->seed) < 0) return cancel_memory(S, b, who);
  if (S->capture) {
    ScalarFrom from = {.kind = SC_STREAM, .bits = stream - S->capture->stream};
    if (!ty_capture_scalar(S, slot, from) ||
        !ty_capture_scalar(S, slot + 1, (ScalarFrom){.kind = SC_SEED}))
      return cancel_memory(S, b, who);
  }
  Node n = node_new(OP_RANDOM, &t, -1, -1, -1);
  n.arg.k = slot;
  n.arg.k2 = word;
  return finish(S, b, append(b, &n), y, who);
}

/* --- writing */

/* The value that dst's elements get. */
static i32 value_node(State *S, Batch *b, const Given *x, const Type *t) {
  i32 v = x->kind == O_TENSOR ? cast_node(b, ty_record_node(S, b, x->t), t->dtype)
                              : symbol_node(b, t->dtype, x->v, x->symbol);
  return expand_node(b, v, t);
}

/* The contents of dst's storage once v is written through dst. */
static i32 put_node(State *S, Batch *b, const Tensor *dst, i32 v) {
  Storage *st = dst->st;
  Tensor whole = {.st = st, .type = {.dtype = st->dtype, .rank = 1, .dims = {st->numel}}};
  whole.strides[0] = 1;
  i32 base = st->batch ? st->node : ty_record_node(S, b, &whole);
  if (base < 0) return -1;
  Node n = node_new(OP_PUT, &b->g.node[base].type, base, v, -1);
  n.arg.offset = dst->offset;
  for (int d = 0; d < dst->type.rank; d++)
    n.arg.strides[d] = dst->type.dims[d] == 1 ? 0 : dst->strides[d];
  return append(b, &n);
}

static bool write(State *S, const char *who, const Tensor *dst, const Given *x) {
  char sx[SHOWN], sd[SHOWN];
  Storage *st = dst->st;
  const Type *t = &dst->type;
  Type joint = *t;
  if (x->kind == O_TENSOR) {
    if (!ty_type_broadcast(&joint, &x->t->type) || !ty_type_same_dims(&joint, t))
      return ty_fail(S, "%s: %s does not broadcast to %s", who, show(&x->t->type, sx), show(t, sd));
    if (ty_is_float(x->t->type.dtype) && !ty_is_float(t->dtype))
      return ty_fail(S, "%s: %s values do not go into %s (use :to(\"%s\") to cut them)", who,
                     ty_dtypes[x->t->type.dtype].name, show(t, sd), ty_dtypes[t->dtype].name);
  } else if (!ty_elem_fits(t->dtype, x->v)) { /* asked of every value that an integer gets */
    return ty_fail(S, "%s: %.17g does not fit %s", who, x->v, ty_dtypes[t->dtype].name);
  }
  if (!ty_view_distinct(t, dst->strides))
    return ty_fail(S, "%s: cannot write to %s, its elements share memory (clone it first)", who,
                   show(t, sd));
  if (x->symbol && !ty_is_float(t->dtype)) ty_capture_untake(S, x->symbol);
  if (ty_type_numel(t) == 0) return true;
  if (TY_UNLIKELY(st->many != NULL)) return ty_vmap_write(S, who, dst, x);
  S->nops++;
  if (!settle(S, dst) || (x->kind == O_TENSOR && !settle(S, x->t))) return false;
  Batch *b = begin(S);
  if (!b || !settle(S, dst) || (x->kind == O_TENSOR && !settle(S, x->t))) return cancel(S, b);
  i32 v = value_node(S, b, x, t);
  if (v < 0) return cancel_memory(S, b, who);
  bool whole = dst->offset == 0 && ty_type_numel(t) == st->numel && ty_tensor_is_contiguous(dst);
  if (!whole) v = put_node(S, b, dst, v);
  if (v < 0) return cancel_memory(S, b, who);
  if (TY_UNLIKELY(S->recorded != NULL)) S->recorded(S, b, v);
  if (S->capture && !ty_capture_write(S, st)) return cancel(S, b);
  Batch *before = st->batch;
  i32 node_before = st->node;
  if (before) before->refs++; /* so that a failed eager cut can be undone */
  ty_storage_wait(st, b, v);
  bool exposed = st->buf && st->buf->exposed;
  bool ok = b == S->open && exposed && !S->capture ? S->cut(S, b, NULL) : commit(S, b);
  if (!ok && st->batch && before && !before->closed) ty_storage_wait(st, before, node_before);
  else if (!ok && st->batch && st->buf) ty_storage_settle(st, ty_buffer_hold(st->buf));
  if (before) ty_batch_drop(S, before);
  if (ok) st->version++;
  return ok;
}

bool ty_record_assign(State *S, const char *who, const Tensor *dst, const Given *x) {
  if (x->kind == O_TENSOR && TY_UNLIKELY(x->t->st->many != NULL) &&
      !ty_vmap_open_to(S, who, dst, x))
    return false;
  if (TY_LIKELY(!S->tracks && !dst->st->twin)) return write(S, who, dst, x);
  return ty_grad_assign(S, who, dst, x, write);
}

/* Dims and dtype of the tensors joined along dim. */
static bool cat_type(State *S, const char *who, int n, const Tensor *const *x, int dim, Type *t) {
  char s0[SHOWN], si[SHOWN];
  *t = x[0]->type;
  for (int i = 1; i < n; i++) {
    const Type *own = &x[i]->type;
    bool ok = own->rank == t->rank;
    for (int d = 0; ok && d < t->rank; d++) ok = d == dim || own->dims[d] == t->dims[d];
    if (!ok || !ty_add(t->dims[dim], own->dims[dim], &t->dims[dim]))
      return ty_fail(S, "%s: sizes differ outside dim %d, %s and %s", who, dim + 1,
                     show(&x[0]->type, s0), show(own, si));
    t->dtype = (u8)ty_dtype_promote(t->dtype, own->dtype);
  }
  return true;
}

/* So many tensors as one graph has room for. */
static bool cat_few(State *S, const char *who, int n, const Tensor *const *x, int dim,
                    const Given *src, Type t, Tensor *y) {
  if (TY_UNLIKELY(ty_vmap_level_of(n, src))) return ty_vmap_cat(S, who, n, src, dim, &t, y);
  if (!settle_all(S, n, src)) return false;
  Batch *b = start_leaf(S, who, &t);
  if (!b || !settle_all(S, n, src)) return cancel(S, b);
  Node empty = node_new(OP_EMPTY, &t, -1, -1, -1);
  i64 strides[MAX_RANK] = {0}, at = 0;
  ty_type_strides(&t, strides);
  i32 whole = append(b, &empty);
  for (int i = 0; i < n && whole >= 0; i++) {
    i32 piece = cast_node(b, ty_record_node(S, b, x[i]), t.dtype);
    if (piece < 0) return cancel_memory(S, b, who);
    if (ty_type_numel(&x[i]->type) == 0) continue;
    Node put = node_new(OP_PUT, &t, whole, piece, -1);
    put.arg.offset = at * strides[dim];
    for (int d = 0; d < t.rank; d++) put.arg.strides[d] = x[i]->type.dims[d] == 1 ? 0 : strides[d];
    whole = append(b, &put);
    at += x[i]->type.dims[dim];
  }
  return finish(S, b, whole, y, who);
}

#define CAT_MOST 1000 /* tensors of a graph: each takes up to three nodes */

static bool cat_taped(State *S, const char *who, int n, const Tensor *const *x, int dim, int dtype,
                      Tensor *y) {
  Type t;
  if (!cat_type(S, who, n, x, dim, &t)) return false;
  t.dtype = (u8)dtype;
  Given *src = ty_mem_alloc(sizeof *src * (size_t)n);
  if (!src) return ty_fail_memory(S, who, 0);
  for (int i = 0; i < n; i++) src[i] = (Given){.kind = O_TENSOR, .t = x[i]};
  bool ok = cat_few(S, who, n, x, dim, src, t, y);
  if (ok && S->tracks)
    ok = ty_grad_note(S, &(Noted){.kind = K_CAT, .n = n, .src = src, .dim = dim}, y);
  ty_mem_free(src);
  return ok;
}

bool ty_record_cat(State *S, const char *who, int n, const Tensor *const *x, int dim, Tensor *y) {
  Type t;
  if (!cat_type(S, who, n, x, dim, &t)) return false;
  if (n <= CAT_MOST) return cat_taped(S, who, n, x, dim, t.dtype, y);
  int parts = (n + CAT_MOST - 1) / CAT_MOST; /* longer lists: by parts, then the parts */
  Tensor *part = ty_mem_zalloc((sizeof *part + sizeof part) * (size_t)parts);
  if (!part) return ty_fail_memory(S, who, 0);
  const Tensor **list = (const Tensor **)(part + parts);
  bool ok = true;
  for (int i = 0, at = 0; ok && i < parts; i++, at += CAT_MOST) {
    ok = cat_taped(S, who, TY_MIN(CAT_MOST, n - at), x + at, dim, t.dtype, &part[i]);
    list[i] = &part[i];
  }
  ok = ok && ty_record_cat(S, who, parts, list, dim, y);
  for (int i = 0; i < parts; i++) ty_tensor_release(&part[i]);
  ty_mem_free(part);
  return ok;
}
