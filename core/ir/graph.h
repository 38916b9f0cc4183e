/*
** graph.h -- Node and Graph: what a run of recorded operations is.
** A graph is an array of nodes in the order of recording; operands are lower indices. Appending
** hash-conses, so equal work is one node. Nodes are plain bytes: the prefix of a graph is its key.
*/
#ifndef TY_GRAPH_H
#define TY_GRAPH_H

#include "ir/ops.h"
#include "ir/type.h"

#define GRAPH_MAX (1 << 27) /* nodes: memory ends before */
#define MAX_SRC 7           /* operands of a node; maps have 3 at most */

/* What a node needs beyond operands and type. Unused bytes are zero. All dims here are 0-based.
**   INPUT         strides of the layout in elements (any sign); offset = 0; k = number of the
**                 buffer: inputs that share a buffer share k; k2 = number of the input: the same
**                 layout at two offsets is two inputs
**   CONST         bits: the element, stored by ty_elem_store
**   SCALAR        k = slot in the graph's scalars
**   RANDOM        k = slot of the stream number (seed in the slot behind it); k2 = word of RANDOM_WORDS
**   VIEW, PUT     offset and strides, in elements of the operand laid out contiguously (row-major);
**                 VIEW: the dims of the node; PUT: the dims of operand 1
**   REDUCE        the run of adjacent dims k..k2 of the operand, which the result lacks
**   ARGMAX ARGMIN the same
**   SCAN          k = dim
**   MATMUL        k2 = PRODUCT_*: who computes it
**   GATHER        k = dim. Operand 1 is i64, 0-based and checked; dims of the result = its dims;
**                 in other dims it is not larger than operand 0
**   SCATTER*      k = dim. Operands: a, index (i64, 0-based, checked), src (dims of the index)
**   ARGSORT       k = dim; k2 = SORT_*. Result 0-based: of a dim as many as it has, or the first of them
**   SEARCHSORTED  operands: sorted [.., n], values [.., m], leading dims equal; k = SIDE_*.
**                 0-based
**   FFT           k = dim, of n numbers; k2 = FFT_* kind + 8 FFT_* norm + FFT_LIBRARY. Complex numbers are pairs in the last dim.
**                 FORWARD, INVERSE: complex to complex. REAL: real to the first n / 2 + 1. HALF: from these, the
**                 inverse, to real. HALF_BACK, REAL_BACK: the transposes of HALF and REAL. What comes or goes as
**                 half has n / 2 + 1 numbers in that dim, and the real side no pairs
**   POSITIONS     of an index of i64 into `bits` places, which counts from k or, negative, from the end.
**                 Where it names none, the position is 0 and the device has an error; k2 = its site (site.h)
**   TO            the type's device is where to
**   ATTEND*       k = 1: causal; k2 = the chance that a weight is dropped, of DROP_ONE; bits: scale, as an
**                 element. Operands: q [.., n, d], k [.., m, d], v [.., m, dv], all with the same
**                 leading dims; mask, of bools or floats [.., n, m], or a bool without dims: none;
**                 key, i32 [2], or such a bool: no dropout. Flat results are laid out by attend.c.
**                 q, k, v of a FAST one that is f32 may be half floats of one kind
**                 ATTEND_GRAD: then the result of ATTEND, and the gradient [.., n, dv]
**   PARAM         k = its number in the recording
**   LOOP          bits: the body (body.h); k: its order (body.h); k2 = first slot of its streams.
**                 Operands: the carried values, in one dim; the sequences [turns, elements of a row]; constants,
**                 each in one dim, or a bool without dims: none. The result, in one dim: the last carried values;
**                 the rows of results
**   CALL          k = its number (call.h); k2 = CALL_*: it begins, or its end is awaited. Operands: the base, what it is
**                 given, what it comes after; then the CALL that began, what that was given. The first one again: nothing.
**                 Never merged; nobody but its end reads what has begun
*/
enum { PRODUCT_OWN, PRODUCT_BLAS, PRODUCT_BF16 }; /* BF16: on the matrix unit of the processor */
/* By a library of the device, with how the operands lay for the user, which its algorithm may go by, so that all modes take the
** same: columns side by side along rows; B_SHARED: one matrix for all leading dims. */
enum {
  PRODUCT_LIBRARY = 4,
  PRODUCT_A_COLUMNS = 8,
  PRODUCT_B_COLUMNS = 16,
  PRODUCT_B_SHARED = 32,
  PRODUCT_END = 64
};
enum { ATTEND_CAUSAL = 1, ATTEND_FAST = 2 }; /* FAST: on tensor cores, where the device has them */
/* What attention of such operands is computed and given in. */
static inline int ty_attend_dtype(int dtype) {
  return dtype == T_F16 || dtype == T_BF16 ? T_F32 : dtype;
}
enum { SORT_ASCENDING, SORT_DESCENDING };
enum { SIDE_LEFT, SIDE_RIGHT };
enum { FFT_FORWARD, FFT_INVERSE, FFT_REAL, FFT_REAL_BACK, FFT_HALF, FFT_HALF_BACK, FFT_KINDS };
/* Numbers of a transform: what is padded for Bluestein's sum is split once. */
enum { FFT_MOST = 1 << 27 };
enum { FFT_AS_IT_IS, FFT_BY_N, FFT_BY_ROOT, FFT_NORMS }; /* divided by nothing, n, its root */
enum { FFT_LIBRARY = 32 }; /* by a library of the device, where it has one */
enum { CALL_BEGINS, CALL_AWAITED };
enum { RANDOM_WORDS = 4, DROP_ONE = 1 << 30 };

/* The dtype to which a type rule casts operands that were promoted to d; `floating`: that stands for numbers without
** one. -1: it takes no such operands. What it gives is the same, but for comparisons (bool) and positions (i64). */
static inline int ty_rule_dtype(int rule, int d, int floating) {
  switch ((TypeRule)rule) {
  case TR_ARITH:
  case TR_DOT: return d == T_BOOL ? T_I64 : d;
  case TR_FLOAT: return ty_is_float(d) ? d : floating;
  case TR_INT: return ty_is_int(d) ? d : -1;
  case TR_BITS: return ty_is_float(d) ? -1 : d;
  case TR_SUM: return ty_is_float(d) ? d : d >= T_U16 && d <= T_U64 ? T_U64 : T_I64;
  case TR_CMP:
  case TR_INDEX:
  case TR_NONE:
  case TR_ANY:
  case TR_WHERE:
  case TR_KEEP: break;
  }
  return d;
}

typedef struct Arg {
  i32 k, k2;
  union {
    i64 offset;
    u64 bits;
  };
  i64 strides[MAX_RANK];
} Arg;

typedef struct Node {
  u16 op;
  u16 pad;
  i32 src[MAX_SRC]; /* -1 when absent */
  Type type;
  Arg arg;
} Node;

/*
** Rules a verified graph keeps:
** MAP    operands have the operation's dtype (comparisons: equal dtypes; WHERE: bool, then the
**        result's); their dims broadcast, right-aligned, to exactly the node's dims
** REDUCE 0 <= k <= k2 < rank of operand; one run only (record splits several runs, last first)
** SCAN   SCAN and ARGSORT and GATHER dims within rank
** MATMUL operands of the result's dtype, rank >= 2, [.., M, K] x [.., K, N]; leading dims
**        broadcast right-aligned
** VIEW   its elements lie inside the operand; strides may be 0 or negative
** PUT    operand 1 has the dtype of operand 0; arg's view over dims of operand 1 lies inside, and
**        its elements do not overlap each other
** ATTEND floats of the result's dtype, f32 or f64
** CALL   bytes of the base and of what is given as the call says, on the CPU; one that begins is awaited once
*/
/* Whether it does something, whoever reads what it gives. */
static inline bool ty_node_acts(const Node *n) { return n->op == OP_POSITIONS || n->op == OP_CALL; }
/* So many operands lie where the result does: the last one of a call is what it waits for, constants of a loop lie where they do. */
static inline int ty_node_near(const Node *n) {
  return n->op == OP_CALL ? 2 : n->op == OP_LOOP ? 1 : ty_ops[n->op].arity;
}
static inline bool ty_node_begins(const Node *n) {
  return n->op == OP_CALL && n->arg.k2 == CALL_BEGINS;
}
static inline bool ty_node_awaits(const Node *n) {
  return n->op == OP_CALL && n->arg.k2 == CALL_AWAITED;
}

typedef struct Graph {
  Node *node;
  i32 n, cap;
  i32 *index; /* hash-consing: open addressing over node numbers + 1 */
  i32 index_cap;
  i32 *uses;   /* readers of each node, and operations on it that were folded away */
  u64 hash;    /* of all nodes so far */
  u64 *scalar; /* run-time values: bits of the compute type of the SCALAR's dtype; RANDOM's raw u64
                */
  i32 nscalar, scalar_cap;
  i32 nloops; /* LOOP nodes, each of which holds its body */
  u8 device;  /* where leaves lie that are appended now */
} Graph;

/* Number of the node equal to `n` (appended when new); -1 when out of memory or full, or a LOOP's body is gone. */
i32 ty_graph_append(Graph *g, const Node *n);
i32 ty_graph_scalar(Graph *g,
                    u64 bits); /* slot, or -1; never merged: equal slots would freeze equality */
void ty_graph_drop_body(u64 number); /* that ty_body_hold or ty_body_intern holds */
void ty_graph_clear(Graph *g);
void ty_graph_free(Graph *g);

/* NULL when the graph keeps the rules, else what is wrong (static text). */
const char *ty_graph_verify(const Graph *g);
bool ty_graph_checks(
    const Graph *g); /* there is a node that acts: it runs even if nobody wants a result */

/* Text: one node a line, `%3 = add %1 %2 : f32[2,3]`; arguments in braces. Parse reads it back into
** an empty graph and returns NULL or what is wrong. Print returns the length it wanted. */
size_t ty_graph_print(const Graph *g, char *buf, size_t n);
const char *ty_graph_parse(Graph *g, const char *text);

/* No two elements of a view of dims `t` share a place. Errs to no for odd windows. */
bool ty_view_distinct(const Type *t, const i64 *strides);
/* The elements that a view of dims `t` reads, as lowest and highest offset; false when empty. */
bool ty_view_span(const Type *t, i64 offset, const i64 *strides, i64 *lo, i64 *hi);

#endif
