/*
** graph.c -- what descriptors of tensors, operations and graphs say, checked when they are finalized; a graph as plain data.
** It refuses all that the library refuses, and what the library lets pass though nothing is computed by it: shapes that do not
** broadcast, tensors of the same id that differ, virtual tensors that nothing makes, operations before their operands.
*/
#include <string.h>

#include "cudnn.h"

static bool known_type(int64_t type) {
  return type == D_FLOAT || type == D_HALF || type == D_INT32 || type == D_BFLOAT16 ||
         type == D_BOOLEAN;
}

int finalize_tensor(Descriptor *d) {
  Tensor *t = &d->tensor;
  const Value *dims = value_of(d, TENSOR_DIMS), *strides = value_of(d, TENSOR_STRIDES);
  const int64_t type = number_of(d, TENSOR_TYPE, 0);
  if (!known_type(type)) return fail(UNSUPPORTED_TYPE, "a tensor of type %d", (int)type);
  if (dims->n != strides->n)
    return fail(BAD_PARAM, "%d dims, %d strides", (int)dims->n, (int)strides->n);
  *t = (Tensor){.uid = number_of(d, TENSOR_UID, 0),
                .type = (int)type,
                .rank = (int)dims->n,
                .alignment = number_of(d, TENSOR_ALIGNMENT, 0),
                .virtual = number_of(d, TENSOR_VIRTUAL, 0) != 0,
                .by_value = number_of(d, TENSOR_BY_VALUE, 0) != 0};
  memcpy(t->dims, dims->data, (size_t)dims->n * 8);
  memcpy(t->strides, strides->data, (size_t)dims->n * 8);
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] < 1) return fail(BAD_PARAM, "dim %d is %lld", i, (long long)t->dims[i]);
    if (t->strides[i] < 1) return fail(BAD_PARAM, "stride %d is %lld", i, (long long)t->strides[i]);
  }
  const int64_t a = t->alignment;
  if (a < size_of(t->type) || (a & (a - 1)))
    return fail(BAD_PARAM, "an alignment of %lld bytes", (long long)a);
  if (t->virtual && t->by_value) return fail(BAD_PARAM, "a tensor both virtual and by value");
  if (t->by_value && elements_of(t) != 1) return fail(BAD_PARAM, "many numbers by value");
  return SUCCESS;
}

/* --- what operations do */

static bool is_comparison(int mode) { return mode >= M_EQ && mode <= M_LE; }
static bool is_logical(int mode) { return mode >= M_AND && mode <= M_NOT; }

/* Operands that a map takes, a condition among them; 0: there is no such map here. */
static int operands_of(int64_t mode) {
  switch (mode) {
  case M_SQRT:
  case M_ABS:
  case M_EXP:
  case M_LOG:
  case M_NEG:
  case M_IDENTITY:
  case M_RECIPROCAL:
  case M_NOT:
  case M_INDEX: return 1;
  case M_ADD:
  case M_MUL:
  case M_MIN:
  case M_MAX:
  case M_DIV:
  case M_SUB:
  case M_EQ:
  case M_NEQ:
  case M_GT:
  case M_GE:
  case M_LT:
  case M_LE:
  case M_AND:
  case M_OR: return 2;
  case M_SELECT: return 3;
  default: return 0;
  }
}

int finalize_pointwise(Descriptor *d) {
  const int64_t mode = number_of(d, PW_MODE, 0), prec = number_of(d, PW_PREC, 0);
  if (!operands_of(mode)) return fail(UNSUPPORTED_PATTERN, "a map of mode %d", (int)mode);
  if (prec != D_FLOAT && prec != D_INT32 && prec != D_BOOLEAN)
    return fail(UNSUPPORTED_TYPE, "a map computed in type %d", (int)prec);
  if ((mode == M_INDEX) != (value_of(d, PW_AXIS) != NULL))
    return fail(BAD_PARAM, "an axis belongs to an index, and to nothing else");
  d->step = (Step){.mode = (int)mode, .prec = (int)prec, .axis = (int)number_of(d, PW_AXIS, 0)};
  return SUCCESS;
}

int finalize_matmul(Descriptor *d) {
  if (number_of(d, MM_COMP, 0) != D_FLOAT)
    return fail(UNSUPPORTED_TYPE, "a matmul computed in another type than f32");
  if (value_of(d, MM_PADDING) && *(double *)value_of(d, MM_PADDING)->data != 0)
    return fail(NOT_SUPPORTED, "a matmul with another padding than 0");
  d->step = (Step){.prec = D_FLOAT};
  return SUCCESS;
}

int finalize_reduction(Descriptor *d) {
  const int64_t op = number_of(d, RED_OP, 0);
  if (op < R_ADD || op > R_MAX) return fail(UNSUPPORTED_PATTERN, "a reduction by %d", (int)op);
  if (number_of(d, RED_COMP, 0) != D_FLOAT)
    return fail(UNSUPPORTED_TYPE, "a reduction computed in another type than f32");
  d->step = (Step){.mode = (int)op, .prec = D_FLOAT};
  return SUCCESS;
}

static int ranks_fit(const Descriptor *d, int status) {
  for (int i = 0; i < 3; i++)
    if (d->of[i] && d->of[i]->tensor.rank != d->of[3]->tensor.rank)
      return fail(status, "operands of %d and %d dims", d->of[i]->tensor.rank,
                  d->of[3]->tensor.rank);
  return SUCCESS;
}

static int matmul_fits(const Descriptor *d) {
  const Tensor *a = &d->of[0]->tensor, *b = &d->of[1]->tensor, *y = &d->of[3]->tensor;
  const int r = y->rank, e = ranks_fit(d, NOT_SUPPORTED);
  if (e) return e;
  if (r < 2) return fail(NOT_SUPPORTED, "a matmul of %d dims", r);
  if (a->dims[r - 1] != b->dims[r - 2] || a->dims[r - 2] != y->dims[r - 2] ||
      b->dims[r - 1] != y->dims[r - 1])
    return fail(BAD_PARAM, "matmul: [%lld, %lld] x [%lld, %lld] is not [%lld, %lld]",
                (long long)a->dims[r - 2], (long long)a->dims[r - 1], (long long)b->dims[r - 2],
                (long long)b->dims[r - 1], (long long)y->dims[r - 2], (long long)y->dims[r - 1]);
  for (int i = 0; i < r - 2; i++)
    if (a->dims[i] != y->dims[i] || y->dims[i] % b->dims[i])
      return fail(BAD_PARAM, "matmul: batches of %lld and %lld for %lld", (long long)a->dims[i],
                  (long long)b->dims[i], (long long)y->dims[i]);
  return SUCCESS;
}

static int reduction_fits(const Descriptor *d) {
  const Tensor *x = &d->of[0]->tensor, *y = &d->of[3]->tensor;
  const int e = ranks_fit(d, BAD_PARAM);
  if (e) return e;
  for (int i = 0; i < y->rank; i++)
    if (y->dims[i] != x->dims[i] && y->dims[i] != 1)
      return fail(BAD_PARAM, "reduction: dim %d of %lld gives %lld", i, (long long)x->dims[i],
                  (long long)y->dims[i]);
  return SUCCESS;
}

static bool is_real(int type) { return type == D_FLOAT || type == D_HALF || type == D_BFLOAT16; }

/* Types of operands and result of a map, by what it does. */
static int map_types_fit(const Descriptor *d) {
  const Step *s = &d->step;
  const int x = d->of[0]->tensor.type, b = d->of[1] ? d->of[1]->tensor.type : x,
            y = d->of[3]->tensor.type;
  bool ok;
  if (s->mode == M_INDEX) ok = y == D_INT32 && s->prec != D_BOOLEAN;
  else if (is_comparison(s->mode)) ok = x == b && x != D_BOOLEAN && y == D_BOOLEAN;
  else if (is_logical(s->mode)) ok = x == D_BOOLEAN && b == x && y == x && s->prec == x;
  else if (s->prec == D_INT32) ok = x == D_INT32 && b == x && y == x;
  else ok = s->prec == D_FLOAT && is_real(x) && is_real(b) && is_real(y);
  if (s->mode == M_SELECT) ok = ok && d->of[2]->tensor.type == D_BOOLEAN;
  if (ok) return SUCCESS;
  return fail(UNSUPPORTED_TYPE, "map %d in type %d of types %d and %d to %d", s->mode, s->prec, x,
              b, y);
}

static int map_fits(const Descriptor *d) {
  const Step *s = &d->step;
  const Tensor *y = &d->of[3]->tensor;
  const int n = operands_of(s->mode);
  if ((n >= 2) != (d->of[1] != NULL) || (n == 3) != (d->of[2] != NULL))
    return fail(BAD_PARAM, "map %d takes %d operands", s->mode, n);
  const int e = ranks_fit(d, BAD_PARAM);
  if (e) return e;
  for (int i = 0; i < y->rank; i++) {
    int64_t most = 1;
    for (int k = 0; k < 3; k++) {
      const int64_t dim = d->of[k] ? d->of[k]->tensor.dims[i] : 1;
      if (dim != 1 && dim != y->dims[i])
        return fail(SHAPE_MISMATCH, "map %d: dim %d of %lld for %lld", s->mode, i, (long long)dim,
                    (long long)y->dims[i]);
      most = dim > most ? dim : most;
    }
    if (most != y->dims[i]) return fail(SHAPE_MISMATCH, "map %d: a result that is larger", s->mode);
  }
  if (s->mode == M_INDEX && (s->axis < 0 || s->axis >= y->rank))
    return fail(BAD_PARAM, "an index of axis %d of %d", s->axis, y->rank);
  return map_types_fit(d);
}

int finalize_op(Descriptor *d) {
  static const int names[][5] = {[OP_POINTWISE] = {OP_PW_X, OP_PW_B, OP_PW_T, OP_PW_Y, OP_PW},
                                 [OP_MATMUL] = {OP_MM_A, OP_MM_B, -1, OP_MM_C, OP_MM},
                                 [OP_REDUCTION] = {OP_RED_X, -1, -1, OP_RED_Y, OP_RED}};
  for (int i = 0; i < 4; i++) d->of[i] = descriptor_of(d, names[d->kind][i]);
  d->step = descriptor_of(d, names[d->kind][4])->step;
  d->step.kind = d->kind;
  if (d->of[3]->tensor.by_value) return fail(BAD_PARAM, "a result by value");
  for (int i = 0; i < 3; i++)
    if (d->of[i] == d->of[3]) return fail(BAD_PARAM, "a result that is its own operand");
  if (d->kind == OP_MATMUL) return matmul_fits(d);
  if (d->kind == OP_REDUCTION) return reduction_fits(d);
  for (int i = 0; i < 2; i++) { /* which scale the operands, and may be left out */
    const Value *alpha = value_of(d, i ? OP_PW_ALPHA2 : OP_PW_ALPHA1);
    if (alpha && *(float *)alpha->data != 1) return fail(NOT_SUPPORTED, "an alpha other than 1");
  }
  return map_fits(d);
}

/* --- a graph */

static bool same(const Tensor *a, const Tensor *b) {
  return a->type == b->type && a->rank == b->rank && a->alignment == b->alignment &&
         a->virtual == b->virtual && a->by_value == b->by_value &&
         !memcmp(a->dims, b->dims, sizeof a->dims) &&
         !memcmp(a->strides, b->strides, sizeof a->strides);
}

/* The place of a tensor among the graph's, by its id; below -1: what is wrong. */
static int place_of(Graph *g, const Descriptor *d) {
  if (!d) return -1;
  for (int i = 0; i < g->n; i++)
    if (g->tensors[i].uid == d->tensor.uid) {
      if (same(&g->tensors[i], &d->tensor)) return i;
      return -fail(DUPLICATED_ENTRIES, "two tensors of id %lld", (long long)d->tensor.uid);
    }
  if (g->n == TENSORS) return -fail(NOT_SUPPORTED, "more than %d tensors", TENSORS);
  g->tensors[g->n] = d->tensor;
  return g->n++;
}

/* Elements of a result lie apart from one another. */
static bool is_apart(const Tensor *t) {
  bool seen[RANK] = {false};
  int64_t end = 1;
  for (int k = 0; k < t->rank; k++) {
    int least = -1;
    for (int i = 0; i < t->rank; i++)
      if (!seen[i] && (least < 0 || t->strides[i] < t->strides[least] ||
                       (t->strides[i] == t->strides[least] && t->dims[i] < t->dims[least])))
        least = i;
    seen[least] = true;
    if (t->dims[least] == 1) continue;
    if (t->strides[least] < end) return false;
    end = t->strides[least] * (t->dims[least] - 1) + end;
  }
  return true;
}

static int add_step(Graph *g, const Descriptor *op) {
  int at[4];
  for (int i = 0; i < 4; i++)
    if ((at[i] = place_of(g, op->of[i])) < -1) return -at[i];
  for (int i = 0; i < g->steps; i++) {
    if (g->step[i].y == at[3]) return fail(BAD_PARAM, "two operations make the same tensor");
    const Step *s = &g->step[i];
    if (s->x == at[3] || s->b == at[3] || s->t == at[3])
      return fail(BAD_PARAM, "an operation before its operand, or in place");
  }
  if (!is_apart(&g->tensors[at[3]])) return fail(BAD_PARAM, "a result that overlaps itself");
  Step s = op->step;
  s.x = at[0], s.b = at[1], s.t = at[2], s.y = at[3];
  g->step[g->steps++] = s;
  return SUCCESS;
}

int finalize_graph(const Descriptor *d, Graph *g) {
  const Value *ops = value_of(d, GRAPH_OPS);
  g->dynamic = number_of(d, GRAPH_DYNAMIC, 0) != 0;
  if (ops->n > STEPS) return fail(NOT_SUPPORTED, "more than %d operations", STEPS);
  for (int64_t i = 0; i < ops->n; i++) {
    const Descriptor *op = ((Descriptor **)ops->data)[i];
    if (op->kind != OP_POINTWISE && op->kind != OP_MATMUL && op->kind != OP_REDUCTION)
      return fail(DESCRIPTOR_TYPE, "a graph of something else than operations");
    const int e = add_step(g, op);
    if (e) return e;
  }
  for (int i = 0; i < g->n; i++) {
    bool made = !g->tensors[i].virtual;
    for (int k = 0; k < g->steps; k++) made = made || g->step[k].y == i;
    if (!made)
      return fail(BAD_PARAM, "nothing makes virtual tensor %lld", (long long)g->tensors[i].uid);
  }
  return SUCCESS;
}
