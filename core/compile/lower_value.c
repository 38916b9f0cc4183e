/*
** lower_value.c -- what a node computes, in primitives; and how many that are.
** In:  a node and the values of its operands.  Out: its value. Only the builder can fail, and remembers it.
**
** What a MAP row computes is its `value` column, read here as code. Every value is narrowed to its node's dtype as
** if it had been stored and loaded again; what provably is so already (a choice among narrowed values) is left
** alone. CAST and BITCAST narrow themselves.
**
** Machines know no u16, u32 or u64. Elements are stored as the signed ones of that size; u16 is computed in i32 and u32
** in i64, which hold them; of u64 what differs from i64 is made of it, by a bias or a case for the upper half (u_*).
*/
#include "compile/lower_value.h"

#include <math.h>

#define SIGN64 0x8000000000000000u
#include "kernels/scalar.def"

/* --- u64 in i64 */

static Val u_bias(Build *B, Val a) { return XOR(a, ty_emit_bits(B, C_I64, SIGN64)); }
static Val u_below(Build *B, Val a, Val b) { return LT(u_bias(B, a), u_bias(B, b)); }
static Val u_larger(Build *B, Val a, Val b, bool max) {
  Val below = u_below(B, a, b);
  return max ? SEL(below, b, a) : SEL(below, a, b);
}

/* The quotient, 0 by 0. A divisor of the upper half goes once or not at all; else that of half of a, doubled, is the
** quotient or one less. */
static Val u_quotient(Build *B, Val a, Val b) {
  Val zero = KL(a, 0), one = KL(a, 1), upper = LT(b, zero);
  Val q = SHL(DIVI(SHRU(a, one), b), one), rest = SUB(a, MUL(q, b));
  Val more = SEL(u_below(B, rest, b), zero, one);
  Val y = SEL(upper, SEL(u_below(B, a, b), zero, one), ADD(q, more));
  return SEL(EQ(b, zero), zero, y);
}

/* 2^62 added to an exponent changes no power of an odd number, and every other of that height is 0. */
static Val u_exponent(Build *B, Val b) {
  Val low =
      OR(AND(b, ty_emit_bits(B, C_I64, (1ull << 62) - 1)), ty_emit_bits(B, C_I64, 1ull << 62));
  return SEL(LT(b, KL(b, 0)), low, b);
}

static Val u_shifted(Build *B, Val a, Val b) {
  Val ok = u_below(B, b, KL(b, 64)), zero = KL(a, 0);
  return SEL(ok, SHRU(a, SEL(ok, b, zero)), zero);
}

/* What differs from i64; -1: nothing. */
static Val emit_unsigned(Build *B, int op, Val a, Val b) {
  switch (op) {
  case OP_LT: return u_below(B, a, b);
  case OP_LE: return LE(u_bias(B, a), u_bias(B, b));
  case OP_MAXIMUM:
  case OP_MINIMUM: return u_larger(B, a, b, op == OP_MAXIMUM);
  case OP_ABS: return a;
  case OP_FLOOR_DIVIDE: return u_quotient(B, a, b);
  case OP_REMAINDER:
  case OP_FMOD: return SEL(EQ(b, KL(b, 0)), KL(a, 0), SUB(a, MUL(u_quotient(B, a, b), b)));
  case OP_RSHIFT: return u_shifted(B, a, b);
  case OP_POW: return s_pow(B, a, u_exponent(B, b));
  default: return -1;
  }
}

/* The result of a MAP in primitives. n: dtype of the first operand. */
static Val emit_row(Build *B, int op, int n, Val a, Val b, Val c) {
  (void)n, (void)b, (void)c;
  switch (op) {
#define _(NAME, lua, class, arity, type, flags, value, bound, help, grad) \
  case OP_##NAME: return value;
    TY_OPS(_)
#undef _
  default: return 0;
  }
}

/* Primitives whose result on narrowed operands is narrow: of floats, and of integers. */
static bool keeps_narrow(int prim, bool is_float) {
  switch (prim) {
  case P_SEL:
  case P_MIN:
  case P_MAX: return true;
  case P_NEG:
  case P_ABS:
  case P_FLOOR:
  case P_CEIL:
  case P_TRUNC:
  case P_RINT: return is_float;
  case P_AND:
  case P_OR:
  case P_XOR: return !is_float;
  default: return false;
  }
}

/* Whether x is one of the narrowed operands, or such a primitive applied to them. */
static bool is_narrow(const Build *B, Val x, const Val v[3]) {
  const Instr *in = &B->body[x];
  i16 src[3] = {in->a, in->b, in->c};
  for (int i = 0; i < 3; i++)
    if (x == v[i]) return true;
  bool keeps = keeps_narrow(in->op, in->type >= C_F32);
  for (int i = in->op == P_SEL; i < 3 && keeps; i++)
    keeps = src[i] < 0 || src[i] == v[0] || src[i] == v[1] || src[i] == v[2];
  return keeps;
}

static Val narrow(Build *B, int dtype, Val x) {
  if (dtype == T_U16 || dtype == T_U32) return sc_narrow_unsigned(B, x, dtype);
  if (ty_dtypes[dtype].bytes >= 4 || dtype == T_BOOL) return x;
  return ty_emit(B, P_NARROW, VT(x), x, -1, -1, (u64)dtype);
}

Val ty_lower_map(Build *B, const Graph *g, i32 n, const Val v[3]) {
  const Node *N = &g->node[n];
  int from = g->node[N->src[0]].type.dtype, to = N->type.dtype;
  if (N->op == OP_CAST) return s_cast(B, v[0], from, to);
  if (N->op == OP_BITCAST) return s_bitcast(B, v[0], from, to);
  Val x = from == T_U64 ? emit_unsigned(B, N->op, v[0], v[1]) : -1;
  if (x < 0) x = emit_row(B, N->op, from, v[0], v[1], v[2]);
  return B->failed || is_narrow(B, x, v) ? x : narrow(B, to, x);
}

/* The running logarithm of a sum of exponentials: relative to the running maximum, where that is
 * finite. */
static Val emit_logcumsumexp(Build *B, Val x) {
  Val m = ty_emit(B, P_SMAX, VT(x), x, -1, -1, 0),
      before = ty_emit(B, P_SMAXX, VT(x), x, -1, -1, 0);
  Val k = SEL(LT(ABS(m), KL(m, INFINITY)), m, KL(m, 0));
  Val y = ty_emit(B, P_SLIN, VT(x), s_exp(B, SUB(before, k)), s_exp(B, SUB(x, k)), -1, 0);
  return ADD(k, s_log(B, y));
}

static Val emit_scan(Build *B, int op, Val x) {
  int prim = op == OP_CUMSUM    ? P_SSUM
             : op == OP_CUMPROD ? P_SPROD
             : op == OP_CUMMAX  ? P_SMAX
                                : P_SMIN;
  return op == OP_LOGCUMSUMEXP ? emit_logcumsumexp(B, x) : ty_emit(B, prim, VT(x), x, -1, -1, 0);
}

static Val emit_reduce(Build *B, int op, Val x) {
  static const u8 prim[OP_COUNT] = {
      [OP_SUM] = P_RSUM,  [OP_PROD] = P_RPROD,     [OP_AMAX] = P_RMAX,
      [OP_AMIN] = P_RMIN, [OP_ARGMAX] = P_RARGMAX, [OP_ARGMIN] = P_RARGMIN};
  bool position = op == OP_ARGMAX || op == OP_ARGMIN;
  return ty_emit(B, prim[op], position ? C_I64 : VT(x), x, -1, -1, 0);
}

/* Whether it is decided by the order of elements. */
static bool by_order(int op) {
  return op == OP_AMAX || op == OP_AMIN || op == OP_ARGMAX || op == OP_ARGMIN || op == OP_CUMMAX ||
         op == OP_CUMMIN;
}

Val ty_lower_along(Build *B, const Node *N, int from, Val x) {
  const bool scans = ty_ops[N->op].class == SCAN, biased = from == T_U64 && by_order(N->op);
  if (biased) x = u_bias(B, x);
  Val y = scans ? emit_scan(B, N->op, x) : emit_reduce(B, N->op, x);
  return narrow(B, N->type.dtype, biased && N->type.dtype == T_U64 ? u_bias(B, y) : y);
}

Val ty_lower_loaded(Build *B, int dtype, Val x) {
  if (dtype == T_U32) x = CVT(C_I64, x);
  return dtype == T_U16 || dtype == T_U32 ? narrow(B, dtype, x) : x;
}

Val ty_lower_stored(Build *B, int dtype, Val x) {
  if (dtype == T_U16) return sc_narrow(B, x, T_I16);
  return dtype == T_U32 ? CVT(C_I32, x) : x;
}

/* Counted by writing the value once for each pair of dtypes; threads that count at the same time
** agree. Without memory an operation counts little. */
int ty_lower_cost(const Graph *g, i32 n) {
  static u16 known[OP_COUNT][T_COUNT][T_COUNT];
  const Node *N = &g->node[n];
  OpClass class = ty_ops[N->op].class;
  if (class == LEAF) return N->op == OP_RANDOM ? 4 : 0;
  if (class == REDUCE || class == MOVE) return 2;
  if (class != MAP && class != SCAN) return 0;
  int from = g->node[N->src[0]].type.dtype, to = N->type.dtype;
  if (N->op == OP_WHERE) from = to;
  u16 *cost = &known[N->op][from][to];
  int y = __atomic_load_n(cost, __ATOMIC_RELAXED);
  if (y) return y;
  Build *B = ty_mem_alloc(sizeof *B);
  if (!B) return 1;
  B->n = 0, B->failed = false;
  Val v[3] = {-1, -1, -1};
  int arity = ty_ops[N->op].arity;
  for (int i = 0; i < arity; i++) {
    const int dtype = g->node[N->src[i]].type.dtype;
    const int ctype = ty_dtypes[ty_dtype_stored(dtype)].ctype;
    v[i] = ty_lower_loaded(B, dtype, ty_emit_leaf(B, P_LOAD, ctype, L_ELEM, -1, (u64)i));
  }
  if (class == MAP) ty_lower_map(B, g, n, v);
  else ty_lower_along(B, N, from, v[0]);
  y = TY_MAX(B->n - arity, 1) + (ty_dtype_stored(to) != to);
  ty_mem_free(B);
  __atomic_store_n(cost, (u16)y, __ATOMIC_RELAXED);
  return y;
}
