/*
** fold.c -- algebra applied while appending.
** In: a graph and a node about to be appended. Out: the number of a node with the same value. Fails
** (-1) only where ty_graph_append does.
**
** Rules that every fold must keep
**  1. The result has the node's dtype and dims: callers read both from the node that they get back.
**  2. Equal to the bit for every operand, NaN taken as one value: infinities, -0, denormals,
**     wrapped integers. So x * 0 is not 0, x + 0 is not x (but x + -0 is), x - x is not 0.
**  3. No reduction moves through a view, none is split or merged: their order is part of the value.
**  4. A run-time scalar is never looked at; only CONST is known.
**  5. Constant time: a fold looks at its operands and theirs, no further.
*/
#include "ir/graph.h"

static const Node *src(const Graph *g, const Node *n, int i) { return &g->node[n->src[i]]; }

static bool same_type(const Graph *g, i32 a, const Node *n) {
  return ty_type_equal(&g->node[a].type, &n->type);
}

/* Operand i is CONST v. Zero has a sign: -0 is asked for as -0.0. */
static bool is_const(const Graph *g, const Node *n, int i, double v) {
  const Node *c = src(g, n, i);
  u64 want = 0;
  if (c->op != OP_CONST) return false;
  ty_elem_store(c->type.dtype, &want, v);
  return c->arg.bits == want;
}

/* Every value of `a` is a value of `b`. */
static bool widens(int a, int b) {
  static const u8 mantissa[T_COUNT] = {
      [T_BOOL] = 1, [T_U8] = 8,   [T_I8] = 7,   [T_I16] = 15, [T_I32] = 31,
      [T_I64] = 63, [T_F16] = 11, [T_BF16] = 8, [T_F32] = 24, [T_F64] = 53,
      [T_U16] = 16, [T_U32] = 32, [T_U64] = 64};
  bool fa = ty_is_float(a), fb = ty_is_float(b);
  if (a == b || a == T_BOOL) return true;
  if (fa && !fb) return false;
  if (fa && a != T_F16 && b == T_F16) return false; /* the exponents of f16 are fewer */
  if (!fa && !fb && ty_dtypes[a].kind == 'i' && ty_dtypes[b].kind == 'u') return false;
  return mantissa[a] <= mantissa[b];
}

static bool is_contiguous(const Node *n) {
  return n->arg.offset == 0 && ty_is_contiguous(n->type.rank, n->type.dims, n->arg.strides);
}

/* A view that keeps all elements in their order. */
static bool is_reshape(const Graph *g, const Node *n) {
  return n->op == OP_VIEW && is_contiguous(n) &&
         ty_type_numel(&n->type) == ty_type_numel(&src(g, n, 0)->type);
}

static i32 fold_view(Graph *g, const Node *n) {
  const Node *a = src(g, n, 0);
  if (is_reshape(g, n) && same_type(g, n->src[0], n)) return n->src[0];
  if (a->op == OP_CONST) {
    Node c = *a;
    c.type = n->type;
    return ty_graph_append(g, &c);
  }
  if (is_reshape(g, a)) {
    Node v = *n;
    v.src[0] = a->src[0];
    return fold_view(g, &v);
  }
  return ty_graph_append(g, n);
}

static i32 view_of(Graph *g, i32 a, const Type *t) {
  Node v;
  memset(&v, 0, sizeof v);
  v.op = OP_VIEW;
  memset(v.src, -1, sizeof v.src);
  v.src[0] = a;
  v.type = *t;
  ty_type_strides(t, v.arg.strides);
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] == 1) v.arg.strides[d] = 0;
  return fold_view(g, &v);
}

/* From integers by way of a float to integers: that saturates, the direct way wraps. */
static bool saturates(int a, int by, int b) {
  return ty_is_float(by) && !ty_is_float(a) && ty_is_int(b) && !widens(a, b);
}

static i32 fold_cast(Graph *g, const Node *n) {
  const Node *a = src(g, n, 0);
  if (a->type.dtype == n->type.dtype) return n->src[0];
  if (a->op == OP_CAST && widens(src(g, a, 0)->type.dtype, a->type.dtype) &&
      !saturates(src(g, a, 0)->type.dtype, a->type.dtype, n->type.dtype)) {
    Node c = *n;
    c.src[0] = a->src[0];
    return fold_cast(g, &c);
  }
  if (a->op == OP_CONST && widens(a->type.dtype, n->type.dtype)) {
    Node c = *a;
    c.type = n->type;
    c.arg.bits = 0;
    ty_elem_store(n->type.dtype, &c.arg.bits, ty_elem_load(a->type.dtype, &a->arg.bits));
    return ty_graph_append(g, &c);
  }
  return ty_graph_append(g, n);
}

/* The operand that a MAP node is equal to, or -1. */
static i32 fold_map(const Graph *g, const Node *n) {
  const Node *a = src(g, n, 0);
  bool is_float = ty_is_float(n->type.dtype);
  switch (n->op) {
  case OP_NEG:
  case OP_NOT: return a->op == n->op ? a->src[0] : -1;
  case OP_ABS: return a->op == OP_ABS ? n->src[0] : -1;
  case OP_CEIL:
  case OP_FLOOR:
  case OP_ROUND:
  case OP_TRUNC: return !is_float || a->op == n->op ? n->src[0] : -1;
  case OP_MUL:
    if (is_const(g, n, 0, 1)) return n->src[1];
    return is_const(g, n, 1, 1) ? n->src[0] : -1;
  case OP_DIV: return is_const(g, n, 1, 1) ? n->src[0] : -1;
  case OP_SUB: return is_const(g, n, 1, 0.0) ? n->src[0] : -1;
  case OP_ADD:
    if (is_const(g, n, 0, is_float ? -0.0 : 0.0)) return n->src[1];
    return is_const(g, n, 1, is_float ? -0.0 : 0.0) ? n->src[0] : -1;
  case OP_MAXIMUM:
  case OP_MINIMUM:
  case OP_AND:
  case OP_OR: return n->src[0] == n->src[1] ? n->src[0] : -1;
  case OP_WHERE:
    if (n->src[1] == n->src[2] || is_const(g, n, 0, 1)) return n->src[1];
    return is_const(g, n, 0, 0) ? n->src[2] : -1;
  default: return -1;
  }
}

/* A node lies where its operands do, a leaf where the graph says. */
static void place(const Graph *g, Node *n) {
  if (n->op == OP_TO) return;
  if (ty_ops[n->op].class == LEAF && n->op != OP_INPUT) n->type.device |= g->device;
  for (int i = 0; i < ty_node_near(n); i++) n->type.device = src(g, n, i)->type.device;
}

static i32 fold(Graph *g, const Node *n) {
  const OpInfo *op = &ty_ops[n->op];
  Node m = *n;
  place(g, &m);
  if ((op->flags & F_COMM) && m.src[0] > m.src[1]) { /* so that a + b and b + a are one node */
    m.src[0] = n->src[1];
    m.src[1] = n->src[0];
  }
  if (op->class == VIEW) return fold_view(g, &m);
  if (m.op == OP_CAST) return fold_cast(g, &m);
  if (op->class == MAP) {
    i32 same = fold_map(g, &m);
    return same >= 0 && same_type(g, same, &m) ? same : ty_graph_append(g, &m);
  }
  if (m.op == OP_SUM || m.op == OP_PROD || m.op == OP_AMAX || m.op == OP_AMIN) {
    const Type *t = &src(g, &m, 0)->type; /* a run of one element is that element */
    if (t->dtype == m.type.dtype && ty_type_numel(t) == ty_type_numel(&m.type))
      return view_of(g, m.src[0], &m.type);
  }
  return ty_graph_append(g, &m);
}

/* An operand was read by what the user wrote, also where nothing is left of that: it is no result in its own
** right. */
static void note_reader(Graph *g, i32 y, i32 operand) {
  for (int i = 0; i < ty_ops[g->node[y].op].arity; i++)
    if (g->node[y].src[i] == operand) return;
  if (y != operand) g->uses[operand]++;
}

i32 ty_fold_append(Graph *g, const Node *n) {
  i32 y = fold(g, n);
  for (int i = 0; y >= 0 && i < ty_ops[n->op].arity; i++) note_reader(g, y, n->src[i]);
  return y;
}
