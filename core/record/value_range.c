/*
** value_range.c -- what the elements of an integer node can be, known without running it.
** In: a node of an open recording. Out: the interval that holds all of them. Cannot fail: what is not
** known gives all values of the dtype.
**
** Positions that a function computes itself (argmax, argsort, topk, arange, clamped ones) need no
** check then, which a capture could not make and lazy mode would have to wait for.
**
** Rules.
** 1. The interval must hold for every later run of the same graph, whatever the inputs: numbers that
**    later calls bring are not looked at, tensors neither.
** 2. What leaves the dtype wraps: then the interval is the dtype's.
** 3. DEPTH levels are looked at, no more: at most 2^DEPTH nodes.
*/
#include "record/capture.h"

#define DEPTH 10

static Range all_of(int dtype) {
  switch (ty_dtypes[dtype].kind) {
  case 'u': {
    const int bits = ty_dtypes[dtype].bytes * 8;
    if (bits == 64) break; /* of its bits as an i64 */
    return (Range){0, ((i64)1 << bits) - 1};
  }
  case 'i': {
    i64 half = (i64)1 << (ty_dtypes[dtype].bytes * 8 - 2); /* 2^(bits - 1) needs care in i64 */
    return (Range){-half - half, half - 1 + half};
  }
  default: break;
  }
  return (Range){INT64_MIN, INT64_MAX};
}

/* The interval where it lies inside of the dtype, else all of the dtype. */
static Range within(int dtype, i64 lo, i64 hi) {
  Range all = all_of(dtype);
  return lo >= all.lo && hi <= all.hi ? (Range){lo, hi} : all;
}

static Range up_to(i64 n) { return (Range){0, TY_MAX(n - 1, 0)}; }

/* A number of the graph, unless later calls bring another. */
static Range of_scalar(const Recording *b, const Node *n) {
  const Capture *c = b->S->capture;
  i32 slot = n->arg.k;
  int dtype = n->type.dtype;
  if (c && slot < c->nscalar && c->scalar[slot].kind != SC_CONST) return all_of(dtype);
  u64 bits = b->g.scalar[slot]; /* of the compute type */
  i64 v = ty_dtypes[dtype].ctype == C_I64 ? (i64)bits : (i32)(u32)bits;
  return within(dtype, v, v);
}

static Range of_const(const Node *n) {
  double v = ty_elem_load(n->type.dtype, &n->arg.bits);
  if (v < -0x1p53 || v > 0x1p53) return all_of(n->type.dtype);
  return (Range){(i64)v, (i64)v};
}

static Range sum(int dtype, Range a, Range b) {
  Range y;
  return ty_add(a.lo, b.lo, &y.lo) && ty_add(a.hi, b.hi, &y.hi) ? within(dtype, y.lo, y.hi)
                                                                : all_of(dtype);
}

static Range negative(int dtype, Range a) {
  return a.lo == INT64_MIN ? all_of(dtype) : within(dtype, -a.hi, -a.lo);
}

static Range either(Range a, Range b) { return (Range){TY_MIN(a.lo, b.lo), TY_MAX(a.hi, b.hi)}; }

/* Of what is not negative; an integer by 0 gives 0, and so does its remainder. */
static Range quotient(int dtype, Range a, Range b) {
  if (a.lo < 0 || b.lo < 0) return all_of(dtype);
  return (Range){b.lo ? a.lo / b.hi : 0, a.hi / TY_MAX(b.lo, 1)};
}

static Range remainder_of(int dtype, Range b) {
  return b.lo < 0 ? all_of(dtype) : (Range){0, TY_MAX(b.hi - 1, 0)};
}

static Range range(const Recording *b, i32 node, int depth) {
  const Node *n = &b->g.node[node];
  int dtype = n->type.dtype;
  if (ty_is_float(dtype) || dtype == T_U64 || !depth) return all_of(dtype);
#define OPERAND(i) range(b, n->src[i], depth - 1)
  const Type *from = n->src[0] >= 0 ? &b->g.node[n->src[0]].type : NULL;
  switch (n->op) {
  case OP_CONST: return of_const(n);
  case OP_SCALAR: return of_scalar(b, n);
  case OP_IOTA: return up_to(ty_type_numel(&n->type));
  case OP_ARGMAX:
  case OP_ARGMIN: {
    i64 run = 1;
    for (i32 d = n->arg.k; d <= n->arg.k2; d++) run *= from->dims[d];
    return up_to(run);
  }
  case OP_ARGSORT: return up_to(from->dims[n->arg.k]);
  case OP_SEARCHSORTED: return up_to(from->dims[from->rank - 1] + 1);
  case OP_POSITIONS: return up_to((i64)n->arg.bits);
  case OP_VIEW:
  case OP_TO:
  case OP_GATHER:
  case OP_AMAX:
  case OP_AMIN:
  case OP_CUMMAX:
  case OP_CUMMIN: return OPERAND(0);
  case OP_PUT: return either(OPERAND(0), OPERAND(1));
  case OP_SCATTER: return either(OPERAND(0), OPERAND(2));
  case OP_WHERE: return either(OPERAND(1), OPERAND(2));
  case OP_CAST: {
    if (ty_is_float(from->dtype) || dtype == T_BOOL) return all_of(dtype);
    Range a = OPERAND(0);
    return within(dtype, a.lo, a.hi);
  }
  case OP_NEG: return negative(dtype, OPERAND(0));
  case OP_ADD: return sum(dtype, OPERAND(0), OPERAND(1));
  case OP_SUB: {
    Range a = OPERAND(0), c = OPERAND(1);
    return c.lo == INT64_MIN ? all_of(dtype) : sum(dtype, a, (Range){-c.hi, -c.lo});
  }
  case OP_MAXIMUM: {
    Range a = OPERAND(0), c = OPERAND(1);
    return (Range){TY_MAX(a.lo, c.lo), TY_MAX(a.hi, c.hi)};
  }
  case OP_MINIMUM: {
    Range a = OPERAND(0), c = OPERAND(1);
    return (Range){TY_MIN(a.lo, c.lo), TY_MIN(a.hi, c.hi)};
  }
  case OP_FLOOR_DIVIDE: return quotient(dtype, OPERAND(0), OPERAND(1));
  case OP_REMAINDER: return remainder_of(dtype, OPERAND(1));
  default: return all_of(dtype);
  }
#undef OPERAND
}

Range ty_range_of(const Recording *b, i32 node) { return range(b, node, DEPTH); }
