/*
** graph.c -- Node and Graph: append with hash-consing, verify, print, parse; the table of
** operations. In: nodes whose operands are lower numbers.  Out: node numbers, text, or what rule is
** broken. Append fails when memory or GRAPH_MAX is at its end; the graph is then as it was.
**
** Appending is on the hot path of recording. A node's hash covers the bytes that its operation
** uses, which are two runs (up to its last dim; the argument up to its last stride), so equal nodes
** hash alike; equality is of all bytes. The index keeps no hashes: it is small, and a wrong
** candidate differs within its first bytes.
*/
#include "base/system.h"
#include "ir/body.h"
#include "ir/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the table of operations ----------------------------------------------------------------- */

/* Spelled as in the enum, and made lower case before anyone looks. */
static char op_names[OP_COUNT][16] = {
#define _(NAME, lua, class, n, type, flags, value, bound, help, grad) [OP_##NAME] = #NAME,
    TY_OPS(_)
#undef _
};

static void __attribute__((constructor)) op_names_lower(void) {
  for (int op = 0; op < OP_COUNT; op++)
    for (char *s = op_names[op]; *s; s++)
      if (*s >= 'A' && *s <= 'Z') *s += 'a' - 'A';
}

#define C F_COMM
#define I F_INPLACE
const OpInfo ty_ops[OP_COUNT] = {
#define _(NAME, lua, class, n, type, flags, value, bound, help, grad) \
  [OP_##NAME] = {op_names[OP_##NAME], lua, help, class, n, type, flags, bound},
    TY_OPS(_)
#undef _
};
#undef C
#undef I

/* The parts of Arg that an operation uses; the others are zero. */
enum { A_K = 1, A_K2 = 2, A_OFFSET = 4, A_STRIDES = 8, A_BITS = 16 };

static int arg_parts(int op) {
  static const u8 parts[OP_COUNT] = {
      [OP_INPUT] = A_K | A_K2 | A_STRIDES,
      [OP_CONST] = A_BITS,
      [OP_SCALAR] = A_K,
      [OP_RANDOM] = A_K | A_K2,
      [OP_PARAM] = A_K,
      [OP_VIEW] = A_OFFSET | A_STRIDES,
      [OP_PUT] = A_OFFSET | A_STRIDES,
      [OP_GATHER] = A_K,
      [OP_SCATTER] = A_K,
      [OP_SCATTER_ADD] = A_K,
      [OP_ARGSORT] = A_K | A_K2,
      [OP_SEARCHSORTED] = A_K,
      [OP_FFT] = A_K | A_K2,
      [OP_POSITIONS] = A_K | A_K2 | A_BITS,
      [OP_MATMUL] = A_K2,
      [OP_ATTEND] = A_K | A_K2 | A_BITS,
      [OP_ATTEND_GRAD] = A_K | A_K2 | A_BITS,
      [OP_LOOP] = A_K | A_K2 | A_BITS,
      [OP_CALL] = A_K | A_K2,
  };
  switch (ty_ops[op].class) {
  case MAP: return 0;
  case REDUCE: return A_K | A_K2;
  case SCAN: return A_K;
  default: return parts[op];
  }
}

/* How many strides a node has. Its operands must be there. */
static int stride_count(const Graph *g, const Node *n) {
  if (n->op == OP_PUT) return g->node[n->src[1]].type.rank;
  return n->op == OP_INPUT || n->op == OP_VIEW ? n->type.rank : 0;
}

/* ---- append ---------------------------------------------------------------------------------- */

enum { CAP_FIRST = 64 };

static u64 node_hash(const Graph *g, const Node *n) {
  u64 h = ty_hash(n, offsetof(Node, type.dims) + n->type.rank * sizeof(i64), 0);
  if (!arg_parts(n->op)) return h;
  return ty_hash(&n->arg, offsetof(Arg, strides) + (size_t)stride_count(g, n) * sizeof(i64), h);
}

/* Nodes that stay apart although their bytes may be equal. */
static bool never_merged(int op) {
  return op == OP_EMPTY || op == OP_CALL || ty_ops[op].flags & F_RANDOM;
}

/* Index slots of all nodes anew; they are numbered in the order of insertion (see clear). */
static void index_fill(Graph *g) {
  u32 mask = (u32)g->index_cap - 1;
  for (i32 i = 0; i < g->n; i++) {
    if (never_merged(g->node[i].op)) continue;
    u32 at = (u32)node_hash(g, &g->node[i]) & mask;
    while (g->index[at]) at = (at + 1) & mask;
    g->index[at] = i + 1;
  }
}

/* Room for more nodes. Parts that grew before another failed stay larger than `cap` says. */
static bool graph_grow(Graph *g) {
  i32 cap = g->cap ? TY_MIN(g->cap * 2, GRAPH_MAX) : CAP_FIRST;
  if (cap == g->cap) return false;
  Node *node = ty_mem_realloc(g->node, (size_t)cap * sizeof *node);
  if (!node) return false;
  g->node = node;
  i32 *uses = ty_mem_realloc(g->uses, (size_t)cap * sizeof *uses);
  if (!uses) return false;
  g->uses = uses;
  i32 *index = ty_mem_zalloc((size_t)cap * 2 * sizeof *index); /* at most half full */
  if (!index) return false;
  ty_mem_free(g->index);
  g->index = index;
  g->index_cap = cap * 2;
  g->cap = cap;
  index_fill(g);
  return true;
}

i32 ty_graph_append(Graph *g, const Node *n) {
  if (TY_UNLIKELY(g->n == g->cap) && !graph_grow(g)) return -1;
  u64 h = node_hash(g, n);
  u32 mask = (u32)g->index_cap - 1, at = (u32)h & mask;
  if (!never_merged(n->op)) {
    for (i32 i; (i = g->index[at]); at = (at + 1) & mask)
      if (!memcmp(&g->node[i - 1], n, sizeof *n)) return i - 1;
  }
  if (TY_UNLIKELY(n->op == OP_LOOP)) {
    if (!ty_body_hold(n->arg.bits)) return -1;
    g->nloops++;
  }
  if (!never_merged(n->op)) g->index[at] = g->n + 1;
  g->node[g->n] = *n;
  g->uses[g->n] = 0;
  for (int j = 0; j < ty_ops[n->op].arity; j++) g->uses[n->src[j]]++;
  g->hash = ty_hash(&h, sizeof h, g->hash);
  return g->n++;
}

i32 ty_graph_scalar(Graph *g, u64 bits) {
  if (g->nscalar == g->scalar_cap) {
    i32 cap = g->scalar_cap ? g->scalar_cap * 2 : CAP_FIRST;
    u64 *scalar = cap <= GRAPH_MAX ? ty_mem_realloc(g->scalar, (size_t)cap * sizeof *scalar) : NULL;
    if (!scalar) return -1;
    g->scalar = scalar;
    g->scalar_cap = cap;
  }
  g->scalar[g->nscalar] = bits;
  return g->nscalar++;
}

void ty_graph_drop_body(u64 number) {
  Body dead;
  if (!ty_body_drop(number, &dead)) return;
  ty_graph_free(&dead.g); /* which may hold others */
  ty_mem_free(dead.input);
  ty_mem_free(dead.output);
}

static __attribute__((noinline)) void drop_bodies(Graph *g) {
  for (i32 i = 0; i < g->n; i++)
    if (g->node[i].op == OP_LOOP) ty_graph_drop_body(g->node[i].arg.bits);
  g->nloops = 0;
}

/* Few nodes are taken out of the index one by one, last first: each then ends its chain of probes,
** which holds nothing but nodes that came before it. */
void ty_graph_clear(Graph *g) {
  if (TY_UNLIKELY(g->nloops)) drop_bodies(g);
  if (g->n > g->index_cap / 32) {
    memset(g->index, 0, (size_t)g->index_cap * sizeof *g->index);
  } else {
    u32 mask = (u32)g->index_cap - 1;
    for (i32 i = g->n - 1; i >= 0; i--) {
      if (never_merged(g->node[i].op)) continue;
      u32 at = (u32)node_hash(g, &g->node[i]) & mask;
      while (g->index[at] != i + 1) at = (at + 1) & mask;
      g->index[at] = 0;
    }
  }
  g->n = g->nscalar = 0;
  g->device = 0;
  g->hash = 0;
}

void ty_graph_free(Graph *g) {
  if (TY_UNLIKELY(g->nloops)) drop_bodies(g);
  ty_mem_free(g->node);
  ty_mem_free(g->index);
  ty_mem_free(g->uses);
  ty_mem_free(g->scalar);
  *g = (Graph){0};
}

/* ---- verify ---------------------------------------------------------------------------------- */

/* Offsets out of 64 bits become the extreme ones, which lie in no operand. */
bool ty_view_span(const Type *t, i64 offset, const i64 *strides, i64 *lo, i64 *hi) {
  *lo = *hi = offset;
  bool all = true;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] <= 0) return false;
    i64 reach;
    i64 *end = strides[i] < 0 ? lo : hi;
    all = all && ty_mul(t->dims[i] - 1, strides[i], &reach) && ty_add(*end, reach, end);
  }
  if (!all) *lo = INT64_MIN, *hi = INT64_MAX;
  return true;
}

static bool view_inside(const Type *t, const Arg *a, i64 numel) {
  i64 lo, hi;
  return !ty_view_span(t, a->offset, a->strides, &lo, &hi) || (lo >= 0 && hi < numel);
}

/* No element twice: in ascending order each stride exceeds the reach of the smaller ones. Holds for
** every view made of slices, permutations, diagonals and windows that do not overlap. The view
** lies inside its operand, so nothing overflows. */
bool ty_view_distinct(const Type *t, const i64 *strides) {
  i64 reach = 0;
  unsigned done = 0;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] == 0) return true;
  for (;;) {
    int least = -1;
    for (int i = 0; i < t->rank; i++)
      if (!(done >> i & 1) && t->dims[i] > 1 &&
          (least < 0 || llabs(strides[i]) < llabs(strides[least])))
        least = i;
    if (least < 0) return true;
    if (llabs(strides[least]) <= reach) return false;
    reach += llabs(strides[least]) * (t->dims[least] - 1);
    done |= 1u << least;
  }
}

/* The type itself; then that nothing stands where the operation has no argument. */
static const char *verify_form(const Graph *g, const Node *n, i32 self) {
  const Type *t = &n->type;
  if (n->op >= OP_COUNT) return "unknown operation";
  for (int j = 0; j < MAX_SRC; j++) {
    if (j >= ty_ops[n->op].arity ? n->src[j] != -1 : n->src[j] < 0 || n->src[j] >= self)
      return "an operand is missing, too many, or not a lower node";
  }
  if (t->dtype >= T_COUNT || t->rank > MAX_RANK) return "unknown dtype or rank above 8";
  if (!ty_type_fits(t)) return "dims are negative or too large";
  for (int i = t->rank; i < MAX_RANK; i++)
    if (t->dims[i]) return "a dim beyond the rank is not zero";
  int parts = arg_parts(n->op), strides = stride_count(g, n);
  if ((!(parts & A_K) && n->arg.k) || (!(parts & A_K2) && n->arg.k2) ||
      (!(parts & (A_OFFSET | A_BITS)) && n->arg.bits))
    return "an argument that the operation does not have is not zero";
  for (int i = strides; i < MAX_RANK; i++)
    if (n->arg.strides[i]) return "a stride beyond the rank is not zero";
  for (int i = 0; i < TY_COUNT(t->pad); i++)
    if (t->pad[i]) return "padding is not zero";
  return n->pad ? "padding is not zero" : NULL;
}

bool ty_graph_checks(const Graph *g) {
  for (i32 i = 0; i < g->n; i++)
    if (ty_node_acts(&g->node[i])) return true;
  return false;
}

/* Whether the operation's type rule can give this dtype. */
static bool rule_allows(int rule, int d) {
  if (rule == TR_CMP) return d == T_BOOL;
  if (rule == TR_INDEX) return d == T_I64;
  return ty_rule_dtype(rule, d, T_F32) == d;
}

static const char *verify_leaf(const Graph *g, const Node *n) {
  int d = n->type.dtype, bits = 8 * ty_dtypes[d].bytes;
  i64 lo, hi, far = (i64)1 << 47;
  switch (n->op) {
  case OP_INPUT:
    if (n->arg.k < 0) return "input: the buffer's number is negative";
    if (ty_view_span(&n->type, 0, n->arg.strides, &lo, &hi) && (lo < -far || hi > far))
      return "input: strides reach too far";
    break;
  case OP_CONST:
    if (d == T_BOOL ? n->arg.bits > 1 : bits < 64 && n->arg.bits >> bits)
      return "const: bits beyond the dtype";
    break;
  case OP_SCALAR:
    if (n->arg.k < 0 || n->arg.k >= g->nscalar) return "scalar: no such slot";
    break;
  case OP_IOTA:
    if (d != T_I64) return "iota: dtype must be i64";
    break;
  case OP_RANDOM:
    if (d != T_I32) return "random: dtype must be i32";
    if (n->arg.k < 0 || n->arg.k >= g->nscalar - 1) return "random: no such slots";
    if (n->arg.k2 < 0 || n->arg.k2 >= RANDOM_WORDS) return "random: the word is not 0-3";
    break;
  default: break;
  }
  return NULL;
}

static const char *verify_map(const Graph *g, const Node *n) {
  int rule = ty_ops[n->op].rule, first = g->node[n->src[0]].type.dtype;
  Type y = {0};
  for (int j = 0; j < ty_ops[n->op].arity; j++) {
    const Type *t = &g->node[n->src[j]].type;
    int want = rule == TR_CMP ? first : rule == TR_WHERE && j == 0 ? T_BOOL : n->type.dtype;
    if (rule != TR_NONE && t->dtype != want) return "map: an operand has another dtype";
    if (!ty_type_broadcast(&y, t)) return "map: operands do not broadcast";
  }
  if (n->op == OP_BITCAST && ty_dtypes[first].bytes != ty_dtypes[n->type.dtype].bytes)
    return "bitcast: dtypes differ in size";
  if (!ty_type_same_dims(&y, &n->type)) return "map: dims are not those of the operands' broadcast";
  return NULL;
}

static const char *verify_reduce(const Graph *g, const Node *n) {
  const Type *a = &g->node[n->src[0]].type, *y = &n->type;
  i32 k = n->arg.k, k2 = n->arg.k2;
  if (k < 0 || k > k2 || k2 >= a->rank) return "reduce: the run of dims is not within the rank";
  if (y->rank != a->rank - (k2 - k + 1)) return "reduce: wrong rank";
  for (int i = 0; i < y->rank; i++)
    if (y->dims[i] != a->dims[i < k ? i : i + k2 - k + 1]) return "reduce: wrong dims";
  return NULL;
}

/* Dtypes of reductions and scans: floats and kept dtypes stay. */
static bool dtype_follows(int rule, int a, int y) {
  if (rule == TR_INDEX) return true;
  return a == y || (rule == TR_SUM && !ty_is_float(a) && y == T_I64);
}

static const char *verify_matmul(const Type *a, const Type *b, const Type *y) {
  if (a->dtype != y->dtype || b->dtype != y->dtype) return "matmul: an operand has another dtype";
  if (a->rank < 2 || b->rank < 2) return "matmul: rank below 2";
  if (a->dims[a->rank - 1] != b->dims[b->rank - 2]) return "matmul: inner dims differ";
  Type lead = {.rank = a->rank - 2}, other = {.rank = b->rank - 2};
  memcpy(lead.dims, a->dims, lead.rank * sizeof(i64));
  memcpy(other.dims, b->dims, other.rank * sizeof(i64));
  if (!ty_type_broadcast(&lead, &other)) return "matmul: leading dims do not broadcast";
  lead.dims[lead.rank++] = a->dims[a->rank - 2];
  lead.dims[lead.rank++] = b->dims[b->rank - 1];
  return ty_type_same_dims(&lead, y) ? NULL : "matmul: wrong dims";
}

/* GATHER and SCATTER: an index as large as its data at most, but for dim k. */
static const char *verify_index(const Type *a, const Type *index, i32 k) {
  if (k < 0 || k >= a->rank) return "index: dim not within the rank";
  if (index->dtype != T_I64) return "index: dtype must be i64";
  if (index->rank != a->rank) return "index: rank differs";
  for (int i = 0; i < a->rank; i++)
    if (i != k && index->dims[i] > a->dims[i]) return "index: larger than its operand";
  return NULL;
}

/* Whether it stands for an operand that there is not. */
static bool is_absent(const Type *t) { return !t->rank && t->dtype == T_BOOL; }

static __attribute__((cold)) const char *verify_attend(const Graph *g, const Node *n) {
  const Type *t[MAX_SRC], *y = &n->type;
  for (int i = 0; i < ty_ops[n->op].arity; i++) t[i] = &g->node[n->src[i]].type;
  const bool grad = n->op == OP_ATTEND_GRAD;
  const int last = t[0]->rank - 1, dtype = y->dtype;
  i64 lead = 1;
  if (dtype != T_F32 && dtype != T_F64) return "attend: the dtype is not f32 or f64";
  if (t[0]->dtype != dtype &&
      (grad || !(n->arg.k & ATTEND_FAST) || !t[0]->device || ty_attend_dtype(t[0]->dtype) != dtype))
    return "attend: operands of another dtype";
  if (last < 1 || t[2]->rank != last + 1) return "attend: wrong ranks";
  for (int d = 0; d < last - 1; d++) lead *= t[0]->dims[d];
  const i64 rows = t[0]->dims[last - 1], d = t[0]->dims[last], m = t[2]->dims[last - 1];
  const i64 dv = t[2]->dims[last], flat = lead * rows * (dv + 2);
  const i64 want[MAX_SRC][2] = {{rows, d}, {m, d}, {m, dv}, {rows, m}, {2}, {flat}, {rows, dv}};
  for (int i = 0; i < ty_ops[n->op].arity; i++) {
    const bool mask = i == 3, line = i == 4 || i == 5;
    if ((mask || i == 4) && is_absent(t[i])) continue;
    const int want_dtype = i == 4 ? T_I32 : i < 3 ? t[0]->dtype : dtype;
    const bool typed = t[i]->dtype == want_dtype || (mask && t[i]->dtype == T_BOOL);
    if (!typed || t[i]->rank != (line ? 1 : last + 1)) return "attend: wrong dtype or rank";
    if (memcmp(line ? t[i]->dims : &t[i]->dims[last - 1], want[i], (line ? 1 : 2) * sizeof(i64)) ||
        (!line && memcmp(t[i]->dims, t[0]->dims, (size_t)(last - 1) * sizeof(i64))))
      return "attend: operands do not go together";
  }
  if (n->arg.k & ~(ATTEND_CAUSAL | ATTEND_FAST) || n->arg.k2 < 0 || n->arg.k2 > DROP_ONE)
    return "attend: no such argument";
  if (dtype == T_F32 && n->arg.bits >> 32) return "attend: bits beyond the dtype";
  const i64 all = grad ? lead * (rows * d + m * (d + dv)) : flat;
  return y->rank == 1 && y->dims[0] == all ? NULL : "attend: wrong dims";
}

static __attribute__((cold)) const char *verify_loop(const Graph *g, const Node *n) {
  const Body *b = ty_body(n->arg.bits);
  const Type *t[MAX_SRC], *y = &n->type;
  i64 made, all;
  for (int i = 0; i < MAX_SRC; i++) t[i] = &g->node[n->src[i]].type;
  if (!b) return "loop: no such body";
  if (n->arg.k & ~3) return "loop: there is no such order";
  if (n->arg.k2 < 0 || n->arg.k2 > g->nscalar - b->g.nscalar) return "loop: no such slots";
  if (y->dtype != b->dtype || t[LOOP_CARRIED]->dtype != b->dtype) return "loop: wrong dtype";
  if (t[LOOP_CARRIED]->rank != 1 || t[LOOP_CARRIED]->dims[0] != b->carried)
    return "loop: the carried values are not those of the body";
  if (t[LOOP_ROWS]->rank != 2 || t[LOOP_ROWS]->dims[1] != b->row)
    return "loop: the sequences are not those of the body";
  for (i32 i = 0; i < b->ninput; i++) {
    const i32 k = b->input[i].operand;
    if (k >= LOOP_CONSTANT && (is_absent(t[k]) || t[k]->rank != 1))
      return "loop: a constant is missing";
  }
  if (!ty_mul(t[LOOP_ROWS]->dims[0], b->made, &made) || !ty_add(made, b->carried, &all) ||
      y->rank != 1 || y->dims[0] != all)
    return "loop: wrong dims";
  return NULL;
}

/* One side has whole lines, real or as pairs; the other the same or their halves, as pairs. */
static __attribute__((cold)) const char *verify_fft(const Node *n, const Type *a, const Type *y) {
  const int kind = n->arg.k2 & 7, dim = n->arg.k;
  const bool real = kind == FFT_REAL || kind == FFT_HALF_BACK;
  const bool gives = kind == FFT_HALF || kind == FFT_REAL_BACK;
  if (a->dtype != T_F32 && a->dtype != T_F64) return "fft: the dtype is not f32 or f64";
  if (n->arg.k2 < 0 || kind >= FFT_KINDS || (n->arg.k2 >> 3 & 3) >= FFT_NORMS ||
      n->arg.k2 >= (kind > FFT_REAL ? FFT_LIBRARY : 2 * FFT_LIBRARY))
    return "fft: no such kind";
  Type want = *(gives ? y : a);
  if (dim < 0 || dim >= want.rank - !(real || gives)) return "fft: dim not within the rank";
  if (want.dims[dim] < 1) return "fft: an empty dim";
  if (real || gives) {
    if (want.rank == MAX_RANK) return "fft: too many dims";
    want.dims[dim] = want.dims[dim] / 2 + 1, want.dims[want.rank++] = 2;
  }
  if (want.dims[want.rank - 1] != 2) return "fft: there are no pairs";
  return ty_type_same_dims(&want, gives ? a : y) ? NULL : "fft: wrong dims";
}

static const char *verify_call(const Graph *g, const Node *n) {
  const AsyncCall *c = ty_call_find(n->arg.k);
  const bool given = n->src[1] != n->src[0];
  if (!c) return "call: there is none of this number";
  if (n->arg.k2 == CALL_AWAITED) {
    const Node *b = &g->node[n->src[0]];
    return ty_node_begins(b) && b->arg.k == n->arg.k && ty_type_same_dims(&b->type, &n->type)
               ? NULL
               : "call: what is awaited has not begun";
  }
  if (n->type.device != c->device) return "call: its result lies on another device";
  if (!ty_type_same_dims(&g->node[n->src[0]].type, &n->type)) return "call: wrong dims";
  if (ty_type_bytes(&n->type) != c->gives) return "call: its result has other bytes";
  return (given ? ty_type_bytes(&g->node[n->src[1]].type) : 0) == c->takes
             ? NULL
             : "call: it is given other bytes";
}

static const char *verify_move(const Graph *g, const Node *n) {
  const Type *y = &n->type, *a = &g->node[n->src[0]].type;
  const Type *b = n->src[1] < 0 ? NULL : &g->node[n->src[1]].type;
  const char *e;
  bool keeps = ty_ops[n->op].rule == TR_KEEP && n->op != OP_ATTEND;
  if (keeps && a->dtype != y->dtype) return "move: dtype is not that of the operand";
  switch (n->op) {
  case OP_PUT:
    if (!ty_type_same_dims(a, y)) return "put: wrong dims";
    if (b->dtype != a->dtype) return "put: dtypes differ";
    if (!view_inside(b, &n->arg, ty_type_numel(a))) return "put: the view leaves its operand";
    return ty_view_distinct(b, n->arg.strides) ? NULL : "put: the view overlaps itself";
  case OP_GATHER:
    if ((e = verify_index(a, b, n->arg.k))) return e;
    return ty_type_same_dims(b, y) ? NULL : "gather: wrong dims";
  case OP_SCATTER:
  case OP_SCATTER_ADD: {
    const Type *src = &g->node[n->src[2]].type;
    if ((e = verify_index(a, b, n->arg.k))) return e;
    if (!ty_type_same_dims(b, src) || !ty_type_same_dims(a, y)) return "scatter: wrong dims";
    return src->dtype == a->dtype ? NULL : "scatter: dtypes differ";
  }
  case OP_ARGSORT:
    if (n->arg.k < 0 || n->arg.k >= a->rank) return "argsort: dim not within the rank";
    if (n->arg.k2 & ~SORT_DESCENDING) return "argsort: the order is not 0 or 1";
    if (y->rank != a->rank || y->dims[n->arg.k] > a->dims[n->arg.k]) return "argsort: wrong dims";
    for (int d = 0; d < a->rank; d++)
      if (d != n->arg.k && y->dims[d] != a->dims[d]) return "argsort: wrong dims";
    return NULL;
  case OP_FFT: return verify_fft(n, a, y);
  case OP_SEARCHSORTED:
    if (a->dtype != b->dtype) return "searchsorted: dtypes differ";
    if (n->arg.k & ~SIDE_RIGHT) return "searchsorted: the side is not 0 or 1";
    if (a->rank != b->rank || a->rank < 1) return "searchsorted: ranks differ or are 0";
    if (memcmp(a->dims, b->dims, (size_t)(a->rank - 1) * sizeof(i64)))
      return "searchsorted: leading dims differ";
    return ty_type_same_dims(b, y) ? NULL : "searchsorted: wrong dims";
  case OP_POSITIONS:
    if (a->dtype != T_I64 || !ty_type_same_dims(a, y)) return "positions: wrong dims or dtype";
    if (n->arg.k & ~1) return "positions: counts from neither 0 nor 1";
    return (i64)n->arg.bits > 0 ? NULL : "positions: there are no places";
  case OP_TO: return ty_type_same_dims(a, y) ? NULL : "to: wrong dims";
  case OP_ATTEND:
  case OP_ATTEND_GRAD: return verify_attend(g, n);
  case OP_LOOP: return verify_loop(g, n);
  case OP_CALL: return verify_call(g, n);
  default: return NULL;
  }
}

static const char *verify_node(const Graph *g, const Node *n, i32 self) {
  const char *e = verify_form(g, n, self);
  if (e) return e;
  const OpInfo *op = &ty_ops[n->op];
  const Type *a = op->arity ? &g->node[n->src[0]].type : NULL;
  for (int i = 0; i < ty_node_near(n) && n->op != OP_TO; i++)
    if (g->node[n->src[i]].type.device != n->type.device)
      return "an operand lies on another device";
  if (!rule_allows(op->rule, n->type.dtype)) return "the operation cannot give this dtype";
  switch ((OpClass)op->class) {
  case LEAF: return verify_leaf(g, n);
  case MAP: return verify_map(g, n);
  case VIEW:
    if (a->dtype != n->type.dtype) return "view: dtype differs";
    return view_inside(&n->type, &n->arg, ty_type_numel(a)) ? NULL : "view: leaves its operand";
  case REDUCE:
    if (!dtype_follows(op->rule, a->dtype, n->type.dtype)) return "reduce: wrong dtype";
    return verify_reduce(g, n);
  case SCAN:
    if (!dtype_follows(op->rule, a->dtype, n->type.dtype)) return "scan: wrong dtype";
    if (n->arg.k < 0 || n->arg.k >= a->rank) return "scan: dim not within the rank";
    return ty_type_same_dims(a, &n->type) ? NULL : "scan: wrong dims";
  case DOT:
    if (n->arg.k2 < 0 || n->arg.k2 >= PRODUCT_END ||
        (n->arg.k2 > PRODUCT_BF16 && (n->arg.k2 & 7) != PRODUCT_LIBRARY))
      return "matmul: no such code";
    if (n->arg.k2 == PRODUCT_BLAS && n->type.dtype != T_F32 && n->type.dtype != T_F64)
      return "matmul: OpenBLAS is for f32 and f64";
    if (n->arg.k2 == PRODUCT_BF16 && n->type.dtype != T_BF16)
      return "matmul: the matrix unit is for bf16";
    return verify_matmul(a, &g->node[n->src[1]].type, &n->type);
  case MOVE: return verify_move(g, n);
  }
  return NULL;
}

const char *ty_graph_verify(const Graph *g) {
  i64 edges = 0;
  if (g->n < 0 || g->n > GRAPH_MAX || g->n > g->cap) return "wrong number of nodes";
  for (i32 i = 0; i < g->n; i++) {
    const char *e = verify_node(g, &g->node[i], i);
    if (e) return e;
    edges += ty_ops[g->node[i].op].arity - g->uses[i];
  }
  return edges > 0 ? "uses do not count the readers" : NULL; /* folded readers count too */
}

/* ---- print ----------------------------------------------------------------------------------- */

typedef struct Out {
  char *buf;
  size_t n, at; /* room; length wanted */
} Out;

static void __attribute__((format(printf, 2, 3))) out(Out *o, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t used = TY_MIN(o->at, o->n);
  int length = vsnprintf(o->n ? o->buf + used : NULL, o->n - used, format, args);
  va_end(args);
  o->at += (size_t)TY_MAX(length, 0);
}

/* A constant's value in as few digits as give it back; a remark for readers, the bits count. */
static void out_value(Out *o, int dtype, u64 bits) {
  char text[64];
  double v = ty_elem_load(dtype, &bits);
  if (!ty_is_float(dtype)) {
    out(o, ", value=%lld", dtype == T_I64 ? (long long)bits : (long long)v);
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    u64 back = 0;
    double read;
    ty_system_format(text, sizeof text, "%.*g", digits, v);
    if (!ty_system_decimal(text, &read, NULL)) continue;
    ty_elem_store(dtype, &back, read);
    if (back == bits) break;
  }
  out(o, ", value=%s", text);
}

static void out_arg(Out *o, const Graph *g, const Node *n) {
  int parts = arg_parts(n->op), strides = stride_count(g, n);
  const char *comma = " {";
  if (parts & A_K) out(o, "%sk=%d", comma, n->arg.k), comma = ", ";
  if (parts & A_K2) out(o, "%sk2=%d", comma, n->arg.k2), comma = ", ";
  if (parts & A_OFFSET) out(o, "%soffset=%lld", comma, (long long)n->arg.offset), comma = ", ";
  if (parts & A_BITS) {
    out(o, "%sbits=0x%llx", comma, (unsigned long long)n->arg.bits);
    out_value(o, n->type.dtype, n->arg.bits);
  }
  if (parts & A_STRIDES) {
    out(o, "%sstrides=[", comma);
    for (int i = 0; i < strides; i++) out(o, i ? ",%lld" : "%lld", (long long)n->arg.strides[i]);
    out(o, "]");
  }
  if (parts) out(o, "}");
}

/* Scalars come first, as `$0 = 0x3f800000`. */
size_t ty_graph_print(const Graph *g, char *buf, size_t n) {
  Out o = {buf, n, 0};
  char type[256];
  if (n) buf[0] = 0;
  for (i32 i = 0; i < g->nscalar; i++)
    out(&o, "$%d = 0x%llx\n", i, (unsigned long long)g->scalar[i]);
  for (i32 i = 0; i < g->n; i++) {
    const Node *node = &g->node[i];
    out(&o, "%%%d = %s", i, ty_ops[node->op].name);
    for (int j = 0; j < ty_ops[node->op].arity; j++) out(&o, " %%%d", node->src[j]);
    out_arg(&o, g, node);
    ty_type_print(&node->type, type, sizeof type);
    out(&o, " : %s\n", type);
  }
  return o.at;
}

/* ---- parse ----------------------------------------------------------------------------------- */

/* A cursor; the first error stays. Readers return false after it, and never pass the final zero. */
typedef struct In {
  const char *p, *error;
} In;

static bool fail(In *in, const char *error) {
  if (!in->error) in->error = error;
  return false;
}

static void blanks(In *in) {
  while (*in->p == ' ' || *in->p == '\t' || *in->p == '\r') in->p++;
}

static bool have(In *in, char c) {
  blanks(in);
  if (*in->p != c) return false;
  in->p++;
  return true;
}

static bool need(In *in, char c, const char *error) { return have(in, c) || fail(in, error); }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool read_int(In *in, i64 low, i64 high, i64 *y) {
  i64 v = 0;
  bool minus = have(in, '-');
  blanks(in);
  if (!is_digit(*in->p)) return fail(in, "a number is missing");
  for (; is_digit(*in->p); in->p++) {
    i64 digit = minus ? '0' - *in->p : *in->p - '0';
    if (!ty_mul(v, 10, &v) || !ty_add(v, digit, &v)) return fail(in, "a number is too large");
  }
  if (v < low || v > high) return fail(in, "a number is out of range");
  *y = v;
  return true;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_hex(In *in, u64 *y) {
  blanks(in);
  if (in->p[0] != '0' || in->p[1] != 'x') return fail(in, "bits must begin with 0x");
  in->p += 2;
  u64 v = 0;
  int digits = 0;
  for (int d; (d = hex_digit(*in->p)) >= 0; in->p++) {
    if (++digits > 16) return fail(in, "more than 64 bits");
    v = v << 4 | (u64)d;
  }
  *y = v;
  return digits > 0 || fail(in, "bits are missing");
}

/* A lower-case word; "" when there is none or it is too long to be one of ours. */
static void read_word(In *in, char *word, size_t n) {
  size_t length = 0;
  blanks(in);
  while ((*in->p >= 'a' && *in->p <= 'z') || *in->p == '_' || is_digit(*in->p)) {
    if (length < n) word[length] = *in->p;
    length++, in->p++;
  }
  word[length < n ? length : 0] = 0;
}

/* `[1,2,3]`, at most MAX_RANK numbers; gives their count, -1 on error. */
static int read_list(In *in, i64 low, i64 *y) {
  int n = 0;
  if (!need(in, '[', "[ is missing")) return -1;
  if (have(in, ']')) return 0;
  do {
    if (n == MAX_RANK) return fail(in, "rank above 8"), -1;
    if (!read_int(in, low, INT64_MAX, &y[n++])) return -1;
  } while (have(in, ','));
  return need(in, ']', "] is missing") ? n : -1;
}

static bool read_type(In *in, Type *t) {
  char word[16];
  read_word(in, word, sizeof word);
  int dtype = ty_dtype_find(word);
  if (dtype < 0) return fail(in, "unknown dtype");
  int rank = read_list(in, 0, t->dims);
  if (rank < 0) return false;
  t->dtype = (u8)dtype;
  t->rank = (u8)rank;
  if (have(in, '@')) {
    read_word(in, word, sizeof word);
    int device = ty_device_find(word);
    if (device < 0) return fail(in, "unknown device");
    t->device = (u8)device;
  }
  return ty_type_fits(t) || fail(in, "dims are too large");
}

/* One `name=value`; gives the part of Arg, 0 for a remark, -1 on error. */
static int read_part(In *in, Arg *a, int *nstrides) {
  char word[16];
  i64 v = 0;
  read_word(in, word, sizeof word);
  if (!need(in, '=', "= is missing")) return -1;
  if (!strcmp(word, "value")) {
    in->p += strcspn(in->p, ",}\n");
    return 0;
  }
  if (!strcmp(word, "k") || !strcmp(word, "k2")) {
    if (!read_int(in, INT32_MIN, INT32_MAX, &v)) return -1;
    *(word[1] ? &a->k2 : &a->k) = (i32)v;
    return word[1] ? A_K2 : A_K;
  }
  if (!strcmp(word, "offset"))
    return read_int(in, INT64_MIN, INT64_MAX, &a->offset) ? A_OFFSET : -1;
  if (!strcmp(word, "bits")) return read_hex(in, &a->bits) ? A_BITS : -1;
  if (!strcmp(word, "strides"))
    return (*nstrides = read_list(in, INT64_MIN, a->strides)) >= 0 ? A_STRIDES : -1;
  fail(in, "unknown argument");
  return -1;
}

/* `{...}`, each part of the operation's once. */
static bool read_arg(In *in, Node *n, int *nstrides) {
  int want = arg_parts(n->op), got = 0;
  if (have(in, '{')) {
    do {
      int part = read_part(in, &n->arg, nstrides);
      if (part < 0) return false;
      if (part & got) return fail(in, "an argument is given twice");
      if (part & ~want) return fail(in, "the operation has no such argument");
      got |= part;
    } while (have(in, ','));
    if (!need(in, '}', "} is missing")) return false;
  }
  return got == want || fail(in, "an argument is missing");
}

static int op_find(const char *name) {
  for (int op = 0; op < OP_COUNT; op++)
    if (!strcmp(ty_ops[op].name, name)) return op;
  return -1;
}

static bool read_node(In *in, Graph *g) {
  Node n = {.op = 0};
  char word[24];
  i64 number, src;
  int nstrides = 0;
  if (!read_int(in, 0, GRAPH_MAX, &number) || !need(in, '=', "= is missing")) return false;
  if (number != g->n) return fail(in, "nodes are not numbered in order");
  read_word(in, word, sizeof word);
  int op = op_find(word);
  if (op < 0) return fail(in, "unknown operation");
  n.op = (u16)op;
  memset(n.src, -1, sizeof n.src);
  for (int j = 0; j < ty_ops[op].arity; j++) {
    if (!need(in, '%', "an operand is missing")) return false;
    if (!read_int(in, 0, INT32_MAX, &src)) return false;
    if (src >= g->n) return fail(in, "an operand is not a lower node");
    n.src[j] = (i32)src;
  }
  if (!read_arg(in, &n, &nstrides)) return false;
  if (!need(in, ':', ": is missing") || !read_type(in, &n.type)) return false;
  if (nstrides != stride_count(g, &n)) return fail(in, "the number of strides is not the rank");
  /* Slots that the text gives no value are made here, so that it may be written by hand. */
  if (op == OP_SCALAR || op == OP_RANDOM) {
    if (n.arg.k < 0 || n.arg.k >= 2 * GRAPH_MAX) return fail(in, "no such slot");
    while (g->nscalar <= n.arg.k + (op == OP_RANDOM))
      if (ty_graph_scalar(g, 0) < 0) return fail(in, "out of memory");
  }
  i32 at = ty_graph_append(g, &n);
  if (at < 0) return fail(in, g->n >= GRAPH_MAX ? "too many nodes" : "out of memory");
  return at == number || fail(in, "two nodes are equal");
}

static bool read_scalar(In *in, Graph *g) {
  i64 number;
  u64 bits;
  if (!read_int(in, 0, INT32_MAX, &number) || !need(in, '=', "= is missing")) return false;
  if (number != g->nscalar) return fail(in, "scalars are not numbered in order");
  if (!read_hex(in, &bits)) return false;
  return ty_graph_scalar(g, bits) >= 0 || fail(in, "out of memory");
}

/* Lines are nodes, scalars, blank, or remarks behind #. On error the graph is empty. */
const char *ty_graph_parse(Graph *g, const char *text) {
  In in = {text, NULL};
  ty_graph_clear(g);
  while (!in.error) {
    if (have(&in, '%')) read_node(&in, g);
    else if (have(&in, '$')) read_scalar(&in, g);
    if (in.error) break;
    blanks(&in);
    if (*in.p == '#') in.p += strcspn(in.p, "\n");
    if (!*in.p) break;
    if (*in.p != '\n') fail(&in, "unexpected text");
    else in.p++;
  }
  if (!in.error) in.error = ty_graph_verify(g);
  if (in.error) ty_graph_clear(g);
  return in.error;
}
