/*
** fuse.c -- decide which nodes share a kernel.
** In:  a verified graph and the nodes wanted.  Out: groups in an order in which they can run, each
** with the values that it computes (fuse.h), from which lower.c writes a program. Fails when memory
** runs out.
**
** How it works
**
** Nodes are visited from the last to the first, so all readers of a node have been placed before
** it. A reader that was placed in a group demands a *value* of each operand: the operand at an
** index map (map.h) over the group's domain. When a node is visited, its values are all that anyone
** wants of it:
**
**   pulled   the values are computed inside the groups that demand them, and demand values of their
**            operands in turn. In general all must be in one group; views, leaves and cheap maps
**            may be computed in several.
**   stored   the node becomes the root of a group of its own, and its values are loads;
**   joined   a result that nobody reads becomes one more output of a group over the same points that
**            reads one of its operands: operands are read once for both.
**
** A group's domain starts as the elements of its root, as one dim, and changes while nodes are
** pulled:
**
**   split    views and broadcasts that treat parts of a dim differently split it (map.c)
**   rows     a REDUCE that gives one element for each point of a MAP group appends its run as R (a
**            ROW group), or inserts it (a COL group): what was there becomes L_ROW, an epilogue. A
**            REDUCE that is broadcast back along the trailing dims of a MAP group makes just these
**            dims R: softmax, norms. Further reductions join when their run is as long as R.
**   a scan   is pulled when the domain walks its whole dim; the other dims go in front.
**
** A value is L_ROW when its map does not depend on R. It then costs one computation a row. Where a
** value is computed more often than its node has elements (broadcast in a MAP group, or at several
** maps: a stencil), pulling repeats work: that is allowed while cheap, else the node is stored.
**
** PUT and host operations are stored always, and a MATMUL unless the chain of maps behind it takes
** it in: a MAP group that demands each element of the product once, in order, becomes a product
** with an epilogue, which is applied to tiles of the product as they are finished. Its domain stays
** a MAP with rows and columns apart; values go on being pulled into it. Operands of MATMUL are
** stored nodes, read through views as strides, or by implicit im2col where rows or columns fall into
** several dims: a convolution is a product with windows, which are never copied. Nor is a pad with zeros
** around their image, where that pays: the product knows its borders. A PUT's domain is that of what is
** put; it writes through its view into the buffer that holds the base. So cat, which is recorded as a
** chain of PUTs into EMPTY, costs one kernel a piece.
**
** Rules
**
** 1. A node that is not stored has no reader outside the groups in which it is computed. A node
**    that is computed and stored in one group together with a later root (an extra output) has all
**    its readers there, or none. So a group loads roots of other groups only, and groups ordered by root can
**    run in that order.
** 2. Limits are kept by counting demands as loads: a group's open values plus loads plus outputs
**    never exceed FUSE_OPERANDS, and the estimate of its body never FUSE_BODY. Any demand can stay
**    a load, so fusing never fails.
** 3. Reductions never permute or merge what they reduce: R is walked in the row-major order of the
**    run. Other dims may stand in any order.
** 4. COL groups and rows longer than ROW_MAX have one level of reductions, read at L_ROW only
**    (Value.elem). A group with a scan has no reduction and no scan of a scan.
** 5. Results do not depend on what is fused: lower narrows every value as storing it would, and
**    RANDOM gives the same bits wherever it is computed. What to repeat is a question of time
**    alone. An epilogue reads the product as rounded to its dtype.
** 6. Nodes without elements never reach map algebra: they are R_FILL, as is a reduction over
**    nothing.
*/
#include "compile/fuse.h"
#include "compile/lower_value.h"

/* Instructions that may be repeated in another group instead of a store and loads; the same for
** what is computed from no memory at all; repeated instructions in one group; and instructions
** times elements that may be repeated rather than starting a kernel. */
#define CHEAP 2
#define PURE 6
#define SPARE 24
#define SMALL_WORK 16384
#define INDEX_PRICE 4 /* instructions of a position: 64 bits wide */
#define NEAR 8        /* groups that are asked whether a result may join them */

typedef struct Fuse {
  Arena *A;
  const Graph *g;
  const u8 *want;
  Fusion *F;
  LoopNest **nest;
  i32 nnests;
  bool fast, failed;
  i32 *table; /* values by node, group and map: number + 1; open addressing */
  u32 mask;
  /* per node */
  i32 *first; /* its values */
  i32 *of;    /* its group when stored */
  i64 *numel;
  i64 *run; /* length of the reduction that gives its elements, perhaps through maps; 0: none */
  u8 *role;
  u8 *must; /* a product, routine, base or gather reads its buffer */
  u8 *dead; /* it depends on a parameter of a loop's body */
  u8 *pure; /* instructions when it is computed from no memory; 255: it is not */
} Fuse;

/* ---- what nodes are -----------------------------------------------------------------------------
 */

static i64 product(const i64 *dims, int from, int to) {
  i64 n = 1;
  for (int d = from; d < to; d++) n *= dims[d];
  return n;
}

/* A REDUCE or SCAN seen as [outer, run, inner]. */
typedef struct Along {
  i64 outer, run, inner;
} Along;

static Along along(const Graph *g, i32 n) {
  const Node *N = &g->node[n];
  const Type *t = &g->node[N->src[0]].type;
  int last = ty_ops[N->op].class == SCAN ? N->arg.k : N->arg.k2;
  return (Along){product(t->dims, 0, N->arg.k), product(t->dims, N->arg.k, last + 1),
                 product(t->dims, last + 1, t->rank)};
}

bool ty_fuse_contiguous(const Node *n) {
  return ty_is_contiguous(n->type.rank, n->type.dims, n->arg.strides) || !ty_type_numel(&n->type);
}

static Role role_of(const Fuse *F, i32 n) {
  const Graph *g = F->g;
  const Node *N = &g->node[n];
  bool position = N->op == OP_ARGMAX || N->op == OP_ARGMIN;
  i64 run;
  if (N->op == OP_INPUT) return R_INPUT;
  if (!F->numel[n]) return R_FILL;
  switch ((OpClass)ty_ops[N->op].class) {
  case LEAF:
    if (N->op == OP_IOTA) return R_INDEX;
    if (N->op == OP_RANDOM) return R_RANDOM;
    return N->op == OP_CONST ? R_CONST : N->op == OP_SCALAR ? R_SCALAR : R_FILL;
  case MAP: return R_MAP;
  case VIEW: return R_VIEW;
  case REDUCE:
    run = along(g, n).run;
    return run > 1 ? R_REDUCE : run == 0 || position ? R_FILL : R_ALIAS;
  case SCAN: return along(g, n).run > 1 ? R_SCAN : R_ALIAS;
  case DOT: return g->node[N->src[0]].type.dims[g->node[N->src[0]].type.rank - 1] ? R_GEMM : R_FILL;
  case MOVE: break;
  }
  return N->op == OP_PUT ? R_PUT : N->op == OP_GATHER ? R_GATHER : R_ROUTINE;
}

/* Forward over the graph: what can be known of nodes without their readers. */
static void learn(Fuse *F) {
  for (i32 n = 0; n < F->g->n; n++) {
    const Node *N = &F->g->node[n];
    F->first[n] = F->of[n] = -1;
    for (int i = 0; i < ty_ops[N->op].arity; i++) F->dead[n] |= F->dead[N->src[i]];
    F->dead[n] |= N->op == OP_PARAM; /* of a loop's body, which runs elsewhere */
    F->must[n] |= ty_node_acts(N) && !F->dead[n];
    F->numel[n] = ty_type_numel(&N->type);
    Role role = role_of(F, n);
    F->role[n] = (u8)role;
    F->pure[n] = role <= R_UNIFORM ? 0 : role == R_INDEX ? 1 : 255;
    if (role == R_REDUCE) {
      Along a = along(F->g, n);
      F->run[n] = a.inner == 1 ? a.run : 0;
    }
    if (role != R_MAP && role != R_VIEW && role != R_ALIAS) continue;
    int pure = role == R_MAP ? ty_lower_cost(F->g, n) : 0;
    for (int i = 0; i < ty_ops[N->op].arity; i++) {
      i32 s = N->src[i];
      pure += F->pure[s];
      if (F->numel[s] == F->numel[n]) F->run[n] = TY_MAX(F->run[n], F->run[s]);
    }
    F->pure[n] = (u8)TY_MIN(pure, 255);
  }
}

/* ---- values -------------------------------------------------------------------------------------
 */

static u32 value_hash(i32 node, i32 group, i32 map) {
  u32 h = (u32)node * 0x9e3779b1u ^ (u32)group * 0x85ebca77u ^ (u32)map * 0xc2b2ae3du;
  return h ^ h >> 15;
}

/* Its place in the table: what is found there is the value + 1, or 0. */
static i32 *value_slot(const Fuse *F, i32 node, i32 group, i32 map) {
  for (u32 h = value_hash(node, group, map);; h++) {
    i32 *slot = &F->table[h & F->mask];
    if (!*slot) return slot;
    const Value *v = &F->F->value[*slot - 1];
    if (v->node == node && v->group == group && v->map == map) return slot;
  }
}

static bool values_grow(Fuse *F) {
  Fusion *U = F->F;
  i32 cap = U->value_cap ? 2 * U->value_cap : F->g->n < 32 ? 64 : 2 * F->g->n;
  u32 size = 4;
  while (size < 2 * (u32)cap) size *= 2;
  Value *value = ty_arena_alloc(F->A, (size_t)cap * sizeof *value);
  i32 *table = ty_arena_alloc(F->A, (size_t)size * sizeof *table);
  if (!value || !table) return !(F->failed = true);
  if (U->nvalue) memcpy(value, U->value, (size_t)U->nvalue * sizeof *value);
  U->value = value, U->value_cap = cap;
  F->table = table, F->mask = size - 1;
  for (i32 i = 0; i < U->nvalue; i++)
    *value_slot(F, value[i].node, value[i].group, value[i].map) = i + 1;
  return true;
}

/* The value of `node` at `map` in G, which is demanded now if it was not before: it counts as a
 * load. */
static i32 demand(Fuse *F, LoopNest *G, i32 node, i32 map, bool elem, bool scanned) {
  Fusion *U = F->F;
  if (U->nvalue == U->value_cap && !values_grow(F)) return -1;
  i32 *slot = value_slot(F, node, G->id, map);
  if (!*slot) {
    Role role = F->role[node];
    i32 v = U->nvalue++;
    U->value[v] =
        (Value){.node = node, .group = G->id, .map = map, .src = {-1, -1, -1}, .load = -1};
    U->value[v].same = F->first[node], U->value[v].next = -1;
    F->first[node] = v, *slot = v + 1;
    G->noperands += role > R_UNIFORM, G->nscalars += role == R_SCALAR, G->cost++;
  }
  Value *v = &U->value[*slot - 1];
  v->elem |= elem, v->scanned |= scanned;
  return *slot - 1;
}

/* The value's place in its group's list; `role` says how it is made. */
static void settle(Fuse *F, i32 vi, Role role) {
  Value *v = &F->F->value[vi];
  LoopNest *G = F->nest[v->group];
  v->role = (u8)role;
  v->next = G->values, G->values = vi;
  if (role == R_LOAD && v->load < 0) v->load = v->map;
}

/* Computed values that take an operand of the program. */
static bool has_operand(Role role) {
  return role == R_INDEX || role == R_RANDOM || role == R_GATHER;
}

/* Points at which a value is computed. */
static i64 points(const Fuse *F, const Value *v) {
  const Domain *D = &F->nest[v->group]->domain;
  return ty_domain_numel(D, D->nr && !ty_map_touches_rows(&F->F->maps, D, v->map));
}

i32 ty_fuse_gathered(const Graph *g, i32 src, i64 *strides, i64 *offset) {
  const Node *N = &g->node[src], *B = N->op == OP_VIEW ? &g->node[N->src[0]] : NULL;
  *offset = 0;
  if (B && B->op != OP_VIEW && (B->op != OP_INPUT || ty_fuse_contiguous(B))) {
    memcpy(strides, N->arg.strides, sizeof N->arg.strides);
    *offset = N->arg.offset;
    return N->src[0];
  }
  ty_type_strides(&N->type, strides);
  return src;
}

/* The map of a MAP's operand, whose dims broadcast to those of the node. */
static i32 reach_broadcast(Fuse *F, Domain *D, i32 map, const Type *t, const Type *s) {
  i64 own[MAX_RANK], strides[MAX_RANK];
  ty_type_strides(s, own);
  ty_type_expand(t, s, own, strides);
  return ty_map_through(&F->F->maps, D, map, t->rank, t->dims, strides, 0);
}

/* The map of a REDUCE's operand: the result's place, and the run along R. */
static i32 reach_run(Fuse *F, Domain *D, i32 map, Along a) {
  Maps *M = &F->F->maps;
  i32 row = ty_map_through(M, D, map, 2, (i64[]){a.outer, a.inner}, (i64[]){a.run * a.inner, 1}, 0);
  if (row < 0) return -1;
  Map m = M->at[row];
  i64 step = a.inner;
  for (int j = D->no + D->nr - 1; j >= D->no; j--) m.coef[j] = step, step *= D->dims[j];
  return ty_map_intern(M, D, &m);
}

/* An index that many elements of a gather share is computed once: rows are then copied. */
static void share_index(Fuse *F, i32 n) {
  const Node *N = &F->g->node[n];
  if (F->role[n] != R_VIEW || F->role[N->src[0]] != R_MAP) return;
  const i64 again = F->numel[n] - F->numel[N->src[0]];
  F->must[N->src[0]] |= ty_choose(F->F->choices, again * INDEX_PRICE > SMALL_WORK);
}

/* Finds the maps at which value vi, if it were computed, would read its operands, and leaves them
** in its `at` for `take`. False: one is not affine. */
static bool reach(Fuse *F, i32 vi) {
  Maps *M = &F->F->maps;
  i32 n = F->F->value[vi].node, map = F->F->value[vi].map, m[3] = {-1, -1, -1}, load = -1;
  const Node *N = &F->g->node[n];
  Domain *D = &F->nest[F->F->value[vi].group]->domain;
  for (int i = 0; i < ty_ops[N->op].arity; i++) {
    i32 s = N->src[i];
    const Type *t = &F->g->node[s].type;
    i64 strides[MAX_RANK], offset;
    if (F->role[n] == R_GATHER && i == 1) share_index(F, s);
    if (F->role[n] == R_GATHER && i == 0) {
      i32 buffer = ty_fuse_gathered(F->g, s, strides, &offset);
      F->must[buffer] |= F->role[buffer] != R_INPUT;
      strides[N->arg.k] = 0;
      load = m[i] = ty_map_through(M, D, map, N->type.rank, N->type.dims, strides, offset);
    } else if (F->role[s] <= R_UNIFORM) continue;
    else if (F->role[n] == R_VIEW)
      m[i] = ty_map_through(M, D, map, N->type.rank, N->type.dims, N->arg.strides, N->arg.offset);
    else if (F->role[n] == R_REDUCE) m[i] = reach_run(F, D, map, along(F->g, n));
    else m[i] = F->numel[s] == F->numel[n] ? map : reach_broadcast(F, D, map, &N->type, t);
    if (m[i] < 0) return false;
  }
  memcpy(F->F->value[vi].at, m, sizeof m);
  F->F->value[vi].load = load;
  return true;
}

/* Computes value vi in its group, as `reach` prepared it. */
static void take(Fuse *F, i32 vi) {
  Value v = F->F->value[vi];
  const Node *N = &F->g->node[v.node];
  LoopNest *G = F->nest[v.group];
  Role role = F->role[v.node];
  const Domain *D = &G->domain;
  bool elem = v.elem || role == R_REDUCE || (D->nr && ty_map_touches_rows(&F->F->maps, D, v.map));
  for (int i = 0; i < 3; i++) {
    bool read = i < ty_ops[N->op].arity && !(role == R_GATHER && i == 0);
    i32 s = read ? demand(F, G, N->src[i], v.at[i], elem, v.scanned || role == R_SCAN) : -1;
    if (F->failed) return;
    F->F->value[vi].src[i] = s;
  }
  G->noperands -= !has_operand(role), G->nscalars += 2 * (role == R_RANDOM);
  G->cost += ty_lower_cost(F->g, v.node);
  settle(F, vi, role);
}

/* ---- limits -------------------------------------------------------------------------------------
 */

/* Reserves room in the group for value vi, which `reach` prepared, and what it newly demands, beside
** the other values of its node for which room is reserved. False: there is too little. */
static bool reserve(const Fuse *F, i32 vi) {
  const Value *v = &F->F->value[vi];
  const Node *N = &F->g->node[v->node];
  LoopNest *G = F->nest[v->group];
  Role role = F->role[v->node];
  if (G->need.node != v->node) G->need = (Need){.node = v->node};
  for (int i = role == R_GATHER; i < ty_ops[N->op].arity; i++) {
    if (*value_slot(F, N->src[i], G->id, v->at[i])) continue;
    if (i && N->src[i] == N->src[i - 1] && v->at[i] == v->at[i - 1]) continue;
    G->need.operands += F->role[N->src[i]] > R_UNIFORM;
    G->need.scalars += F->role[N->src[i]] == R_SCALAR;
    G->need.cost++;
  }
  G->need.operands -= !has_operand(role);
  G->need.scalars += 2 * (role == R_RANDOM);
  G->need.cost += ty_lower_cost(F->g, v->node);
  i32 output = F->want[v->node] && role != R_VIEW && role != R_ALIAS;
  return G->noperands + G->need.operands + output <= FUSE_OPERANDS &&
         G->nscalars + G->need.scalars <= FUSE_SCALARS &&
         G->cost + G->need.cost + output <= FUSE_BODY;
}

/* Work that takes less than going through memory. */
static bool cheap(const Fuse *F, i32 n, i32 cost) {
  const Node *N = &F->g->node[n];
  i32 s = -1;
  if (F->pure[n] <= PURE) return true;
  if (F->role[n] != R_MAP || cost > CHEAP) return false;
  for (int i = 0; i < ty_ops[N->op].arity; i++) {
    if (F->role[N->src[i]] <= R_UNIFORM || N->src[i] == s) continue;
    if (s >= 0) return false;
    s = N->src[i];
  }
  if (s < 0 || F->role[s] == R_INPUT) return true;
  return ty_dtypes[N->type.dtype].bytes >= ty_dtypes[F->g->node[s].type.dtype].bytes;
}

/* Instructions that count when work is repeated. */
static i32 price(const Fuse *F, i32 n) {
  return F->role[n] == R_RANDOM ? 30 : F->role[n] == R_GATHER ? 6 : ty_lower_cost(F->g, n);
}

/* ---- rows ---------------------------------------------------------------------------------------
 */

/* Makes R of the trailing dims of a MAP group, on which a node of numel elements does not depend.
 */
static bool make_rows(Fuse *F, LoopNest *G, i32 map, i64 run, i64 numel) {
  Domain *D = &G->domain;
  const Map *m = &F->F->maps.at[map];
  i64 n = 1;
  int p = D->nd;
  if (D->kind != K_MAP || G->kind != G_KERNEL || run > ROW_MAX) return false;
  while (p > 0 && n < run && !m->coef[p - 1]) n *= D->dims[--p];
  if (n != run || ty_domain_numel(D, false) / run != numel) return false;
  D->kind = K_ROW, D->no = (u8)p, D->nr = (u8)(D->nd - p);
  return true;
}

/* Gives a MAP group, each point of which reads one element of the result, the run as R. Dims of I
** are those behind which none steps over a whole run of inner elements. */
static bool add_rows(Fuse *F, LoopNest *G, i32 map, Along a) {
  Domain *D = &G->domain;
  const Map *m = &F->F->maps.at[map];
  int p = D->nd;
  if (D->nd == MAX_DIMS) return false;
  if (a.inner > 1)
    while (p > 0 && m->coef[p - 1] < a.inner && -m->coef[p - 1] < a.inner) p--;
  ty_map_insert(&F->F->maps, D, p, a.run);
  D->kind = a.inner > 1 ? K_COL : K_ROW;
  D->no = (u8)p, D->nr = 1;
  return true;
}

/* Tries to bring the group of a REDUCE's value into a form in which it computes the REDUCE: a group
** without R is given one. */
static bool join_reduce(Fuse *F, i32 vi) {
  const Value *v = &F->F->value[vi];
  LoopNest *G = F->nest[v->group];
  Domain *D = &G->domain;
  i64 numel = F->numel[v->node];
  Along a = along(F->g, v->node);
  if (G->scan || G->kind != G_KERNEL) return false;
  if (D->kind == K_MAP) {
    if (ty_domain_numel(D, false) == numel) return add_rows(F, G, v->map, a);
    return a.inner == 1 && make_rows(F, G, v->map, a.run, numel);
  }
  if ((a.inner == 1) != (D->kind == K_ROW) || ty_map_touches_rows(&F->F->maps, D, v->map))
    return false;
  if (product(D->dims, D->no, D->no + D->nr) != a.run || ty_domain_numel(D, true) != numel)
    return false;
  return !v->elem || (D->kind == K_ROW && a.run <= ROW_MAX);
}

/* Tries to bring the group of a SCAN's value into a form in which it computes the SCAN: R must walk
** the whole of the scan's dim, in order, and nothing else. The dims of a MAP group are put in that
** order. */
static bool join_scan(Fuse *F, i32 vi) {
  Maps *M = &F->F->maps;
  Value v = F->F->value[vi];
  LoopNest *G = F->nest[v.group];
  Domain *D = &G->domain;
  Along a = along(F->g, v.node);
  i64 dims[3] = {a.outer, a.run, a.inner};
  if (v.scanned || G->kind != G_KERNEL || (D->kind != K_MAP && !G->scan)) return false;
  if (ty_domain_numel(D, false) != F->numel[v.node]) return false;
  i32 in = ty_map_through(M, D, v.map, 3, dims, (i64[]){0, 1, 0}, 0);
  i32 out = ty_map_through(M, D, v.map, 3, dims, (i64[]){a.inner, 0, 1}, 0);
  if (in < 0 || out < 0 || M->at[in].start) return false;
  i64 step = a.run;
  u8 order[MAX_DIMS];
  int no = 0, nr = 0;
  for (int j = 0; j < D->nd; j++) {
    i64 c = M->at[in].coef[j];
    bool r = D->kind == K_ROW && j >= D->no;
    if (!c) order[no++] = (u8)j;
    if ((D->kind == K_ROW && r != (c != 0)) || (c && M->at[out].coef[j])) return false;
    if (!c) continue;
    if (step % D->dims[j] || c != (step /= D->dims[j])) return false;
    nr++;
  }
  if (step != 1) return false;
  for (int j = 0, k = no; j < D->nd; j++)
    if (M->at[in].coef[j]) order[k++] = (u8)j;
  ty_map_permute(M, D, order);
  D->kind = K_ROW, D->no = (u8)no, D->nr = (u8)nr;
  return G->scan = true;
}

/* ---- pulling ------------------------------------------------------------------------------------
 */

static void add_output(LoopNest *G, i32 node, i32 value, i32 map) {
  G->out[G->nout].node = node, G->out[G->nout].value = value, G->out[G->nout].map = map;
  G->nout++, G->noperands++, G->cost++;
}

/* Elements that the groups which demand values of n compute beyond n's own. Groups that walk a run of
** n's are given rows first. */
static i64 repeat_in_rows(Fuse *F, i32 n) {
  i64 work = -F->numel[n];
  for (i32 v = F->first[n]; v >= 0; v = F->F->value[v].same) {
    const Value *V = &F->F->value[v];
    if (F->run[n]) make_rows(F, F->nest[V->group], V->map, F->run[n], F->numel[n]);
    work += points(F, V);
  }
  return work;
}

/* Whether values of n may be computed as often as the groups that demand them would: `work` elements
** more. `charge`: instructions that a group repeats, 0 where it is little work. */
static bool is_worth(const Fuse *F, i32 n, bool one_group, i32 count, i64 work, i32 *charge) {
  i32 cost = price(F, n);
  *charge = 0;
  if (one_group && (work <= 0 || ty_choose(F->F->choices, work * cost <= SMALL_WORK))) return true;
  if (one_group ? cost > CHEAP : !cheap(F, n, cost)) return false;
  *charge = one_group ? cost * count : cost;
  for (i32 v = F->first[n]; v >= 0; v = F->F->value[v].same)
    if (F->nest[F->F->value[v].group]->spare + *charge > SPARE) return false;
  return true;
}

/* Charges the groups that demand values of n. */
static void charge_groups(Fuse *F, i32 n, bool one_group, i32 charge) {
  for (i32 v = F->first[n]; v >= 0; v = F->F->value[v].same) {
    F->nest[F->F->value[v].group]->spare += charge;
    if (one_group) break;
  }
}

/* Tries to compute node n inside the groups that demand values of it. A wanted node may become an
 * extra output. */
static bool pull(Fuse *F, i32 n) {
  i32 v0 = F->first[n], count = 0;
  Role role = F->role[n];
  if (v0 < 0 || F->must[n] || role >= R_PUT) return false;
  LoopNest *G = F->nest[F->F->value[v0].group];
  bool one_group = true;
  for (i32 v = v0; v >= 0; v = F->F->value[v].same, count++)
    one_group &= F->F->value[v].group == G->id;
  bool rows = role == R_REDUCE || role == R_SCAN;
  if ((rows || F->want[n]) && count > 1) return false;
  if (!one_group && rows) return false;
  if (!rows) {
    i32 charge;
    if (!is_worth(F, n, one_group, count, repeat_in_rows(F, n), &charge)) return false;
    charge_groups(F, n, one_group, charge);
  }
  if (rows && !reserve(F, v0)) return false;
  G->need.node = -1;
  if (role == R_REDUCE && !join_reduce(F, v0)) return false;
  if (role == R_SCAN && !join_scan(F, v0)) return false;
  for (i32 v = v0; v >= 0; v = F->F->value[v].same)
    if (!reach(F, v) || !reserve(F, v)) return false;
  if (F->want[n]) {
    const Domain *D = &G->domain;
    i32 map = F->F->value[v0].map;
    bool row = D->nr && !ty_map_touches_rows(&F->F->maps, D, map);
    if (!ty_map_covers(&F->F->maps, D, map, F->numel[n], row)) return false;
    add_output(G, n, v0, map);
    F->of[n] = G->id;
  }
  for (i32 v = v0; v >= 0 && !F->failed; v = F->F->value[v].same) take(F, v);
  return true;
}

/* ---- groups -------------------------------------------------------------------------------------
 */

static LoopNest *nest_new(Fuse *F, i32 root) {
  LoopNest *G = ty_arena_alloc(F->A, sizeof *G);
  if (!G) {
    F->failed = true;
    return NULL;
  }
  G->F = F->F, G->fast = F->fast;
  G->id = F->nnests, G->root = root;
  G->base = G->product = G->values = G->need.node = -1;
  ty_domain_init(&G->domain, K_MAP);
  F->nest[F->nnests++] = G;
  return G;
}

/* The node whose buffer has the elements of n in row-major order, seen through reshapes. */
static i32 contiguous(Fuse *F, i32 n, bool any_layout) {
  for (;; n = F->g->node[n].src[0]) {
    const Node *N = &F->g->node[n];
    bool reshape = N->op == OP_VIEW && !N->arg.offset && F->numel[n] == F->numel[N->src[0]];
    if (F->role[n] == R_ALIAS || (F->role[n] == R_VIEW && reshape && ty_fuse_contiguous(N)))
      continue;
    if (F->role[n] != R_INPUT || !(any_layout || ty_fuse_contiguous(N))) F->must[n] = 1;
    return n;
  }
}

static i32 base_of(Fuse *F, i32 n) {
  return F->g->node[n].op == OP_EMPTY ? -1 : contiguous(F, n, true);
}

/* Most ways in which rows of an operand may meet the border of an image, fewest rows of each, and
** fewest sums that an element is read for, for a product to read through a pad: else the padded copy
** is the cheaper one. */
#define BORDER_KINDS 32
#define BORDER_ROWS 16
#define BORDER_SUMS 24
#define FACTOR_SMALL 4096 /* elements up to which an operand is better copied than read by im2col */

/* An operand that serves many products of a batch is better copied once, if it must be. */
static bool serves_many(const Type *t, const Type *y) {
  return product(t->dims, 0, t->rank - 2) < product(y->dims, 0, y->rank - 2);
}

/* Whether the domain, which began as the dims of t, still has the leading dims, and rows and columns
** that a product can walk. */
static bool walkable(const Fuse *F, const Domain *D, const Type *t) {
  int d = 0, rank = t->rank, j = rank - 2;
  if (D->nd == rank) return true;
  for (; d < j; d++)
    if (D->dims[d] != t->dims[d]) return false;
  for (; d < rank; d++) {
    int first = j;
    i64 n = D->dims[j++];
    while (n < t->dims[d]) n *= D->dims[j++];
    if (j - first > PATH_DIMS) return false;
  }
  return ty_choose(F->F->choices, ty_type_numel(t) > FACTOR_SMALL);
}

/* Whether node n is x with zeros around it, and no buffer that is there anyhow; before: of each dim. */
static bool is_pad(const Fuse *F, i32 n, i64 *before) {
  const Node *N = &F->g->node[n];
  i64 strides[MAX_RANK], rest = N->arg.offset;
  if (F->role[n] != R_PUT || F->must[n] || F->want[n]) return false;
  const Node *Z = &F->g->node[N->src[0]];
  const Type *t = &N->type, *x = &F->g->node[N->src[1]].type;
  if (Z->op != OP_CONST || Z->arg.bits || x->rank != t->rank || !F->numel[N->src[1]]) return false;
  ty_type_strides(t, strides);
  for (int d = 0; d < t->rank; d++) {
    before[d] = rest / strides[d], rest %= strides[d];
    if (before[d] + x->dims[d] > t->dims[d]) return false;
    if (x->dims[d] != 1 && N->arg.strides[d] != strides[d]) return false;
  }
  return true;
}

/* Goes on through pad n, whose elements are at *map, to what it surrounds: *map becomes positions among
** the elements of the node that is returned, perhaps beyond them; border: maps to indices of which
** each is to be in y->extent. -1: they are not affine. */
static i32 through_pad(Fuse *F, Domain *D, i32 n, const i64 *before, i32 *map, i32 *border,
                       Factor *y) {
  Maps *M = &F->F->maps;
  const Type *t = &F->g->node[n].type;
  i32 x = F->g->node[n].src[1];
  const Node *X = &F->g->node[x];
  i64 strides[MAX_RANK], at = 0;
  ty_type_strides(&X->type, strides);
  for (int d = 0; d < t->rank; d++) {
    if (X->type.dims[d] == t->dims[d]) continue;
    i64 one[MAX_RANK] = {0};
    one[d] = 1;
    if (y->borders == BORDERS) return -1;
    border[y->borders] = ty_map_through(M, D, *map, t->rank, t->dims, one, -before[d]);
    if (border[y->borders] < 0) return -1;
    y->extent[y->borders++] = X->type.dims[d];
  }
  if (F->role[x] == R_VIEW) {
    memcpy(strides, X->arg.strides, sizeof strides);
    at = X->arg.offset, x = X->src[0];
    if (F->role[x] == R_VIEW || F->role[x] == R_ALIAS) return -1;
  }
  for (int d = 0; d < t->rank; d++) at -= before[d] * strides[d];
  *map = ty_map_through(M, D, *map, t->rank, t->dims, strides, at);
  return *map < 0 ? -1 : x;
}

/* Whether borders are such that a product keeps up: no leading dim moves towards them, and its rows, of
** this extent, meet them in few ways. */
static bool borders_few(const Factor *y, int lead, i64 rows) {
  const Domain *D = &y->domain;
  i64 kinds = 1, n = 1;
  for (int d = 0; d < D->nd && (d < lead || n < rows); d++) {
    bool moves = false;
    for (int b = 0; b < y->borders; b++) moves |= y->border[b].coef[d] != 0;
    if (d < lead && moves) return false;
    if (moves) kinds *= D->dims[d];
    if (d >= lead) n *= D->dims[d];
  }
  return kinds <= BORDER_KINDS && rows >= kinds * BORDER_ROWS;
}

/* The factor of operand type t whose elements are those of node n at `map`; or, where n is the pad of a
** image whose windows they are, those of the image; sums: for which each is read. */
static Factor factor_of(Fuse *F, Domain *D, const Type *t, i32 n, i32 map, i64 sums) {
  Maps *M = &F->F->maps;
  i64 before[MAX_RANK];
  i32 border[BORDERS];
  Factor y = {.node = n};
  if (D->nd > t->rank && sums >= BORDER_SUMS && is_pad(F, n, before)) {
    i32 inner = map, x = through_pad(F, D, n, before, &inner, border, &y);
    if (M->failed) return y;
    y.domain = *D;
    for (int b = 0; b < y.borders && x >= 0; b++) y.border[b] = M->at[border[b]];
    const bool few = x >= 0 && borders_few(&y, t->rank - 2, t->dims[t->rank - 2]);
    if (ty_choose(F->F->choices, few) && x >= 0) y.node = x, map = inner;
    else y.borders = 0;
  }
  y.domain = *D, y.map = M->at[map];
  y.domain.maps = -1;
  return y;
}

/* Operand i of a product or of attention, node n: where its elements lie in the buffer of a node, through views as far as
** they are affine, and through the pad of an image whose windows they are. Rows and columns may fall
** into several dims, unless they are to be `whole`.
** False: they did, and the product cannot walk them. */
static bool factor(Fuse *F, LoopNest *G, int i, i32 n, bool whole) {
  Maps *M = &F->F->maps;
  const Type *t = &F->g->node[n].type;
  const Type *result = whole ? t : &F->g->node[G->product].type;
  const i64 sums = whole ? 0 : result->dims[result->rank - (i ? 2 : 1)];
  Domain D;
  ty_domain_init(&D, K_MAP);
  D.fixed = whole, D.nd = t->rank;
  memcpy(D.dims, t->dims, sizeof t->dims);
  i32 map = ty_map_identity(M, &D);
  while (map >= 0 && (F->role[n] == R_VIEW || F->role[n] == R_ALIAS)) {
    const Node *N = &F->g->node[n];
    i32 next = map;
    if (F->role[n] == R_VIEW)
      next = ty_map_through(M, &D, map, N->type.rank, N->type.dims, N->arg.strides, N->arg.offset);
    if (next < 0) break;
    map = next, n = N->src[0];
  }
  if (map < 0 || M->failed) return true;
  Factor y = factor_of(F, &D, t, n, map, sums);
  if (M->failed) return true;
  const Node *N = &F->g->node[n = y.node];
  bool stored = F->role[n] != R_INPUT;
  /* A view of an input that its layout does not let through: the input is copied. */
  if (!stored && !ty_fuse_contiguous(N)) {
    i32 at = y.borders ? -1 : ty_map_intern(M, &D, &y.map);
    stored = at < 0 || ty_map_through(M, &D, at, N->type.rank, N->type.dims, N->arg.strides, 0) < 0;
  }
  if (!whole && (!walkable(F, &D, t) || !walkable(F, &y.domain, t))) return false;
  if (D.nd > t->rank && serves_many(t, &F->g->node[G->product].type)) return false;
  F->must[n] |= stored;
  G->operand[i] = n, G->factor[i] = y;
  return true;
}

/* G computes product n, and does nothing else or an epilogue behind it. */
static void be_product(Fuse *F, LoopNest *G, i32 n) {
  G->kind = G_GEMM, G->product = n;
  bool whole = F->g->node[n].arg.k2 != PRODUCT_OWN; /* other libraries and units know two strides */
  for (int i = 0; i < 2; i++) {
    i32 x = F->g->node[n].src[i];
    if (!factor(F, G, i, x, whole)) factor(F, G, i, x, true);
  }
}

static void root_host(Fuse *F, LoopNest *G) {
  const Node *N = &F->g->node[G->root];
  bool scatter = N->op == OP_SCATTER || N->op == OP_SCATTER_ADD;
  bool attend = N->op == OP_ATTEND || N->op == OP_ATTEND_GRAD, loop = N->op == OP_LOOP;
  bool call = N->op == OP_CALL;
  G->kind = G_ROUTINE;
  memset(G->operand, -1, sizeof G->operand);
  for (int i = scatter || call; i < ty_ops[N->op].arity; i++) {
    if (call && N->src[i] == N->src[0]) continue;
    const bool absent = !F->numel[N->src[i]] || !F->g->node[N->src[i]].type.rank;
    if ((attend || loop) && absent) continue;
    if (attend || (scatter && i == 1 && F->numel[N->src[1]])) factor(F, G, i, N->src[i], true);
    else G->operand[i] = contiguous(F, N->src[i], false);
  }
  if (scatter) G->base = G->operand[0] = contiguous(F, N->src[0], true);
  if (call) G->base = G->operand[0] = base_of(F, N->src[0]);
}

/* Whether the one group that reads product n, element by element and in order, can be its epilogue.
** The domain is split between rows and columns, for tiles cut across both. OpenBLAS has no tiles to
** show. */
static bool epilogue(Fuse *F, i32 n) {
  const Node *N = &F->g->node[n];
  i32 v = F->first[n];
  if (v < 0 || F->F->value[v].same >= 0 || F->must[n] || F->want[n] || N->arg.k2 == PRODUCT_BLAS)
    return false;
  LoopNest *G = F->nest[F->F->value[v].group];
  i64 cols = N->type.dims[N->type.rank - 1], rows = F->numel[n] / cols;
  if (G->kind != G_KERNEL || G->domain.kind != K_MAP || F->role[G->root] == R_PUT) return false;
  if (ty_domain_numel(&G->domain, false) != F->numel[n]) return false;
  if (F->F->value[v].map != ty_map_identity(&F->F->maps, &G->domain)) return false;
  if (ty_map_through(&F->F->maps, &G->domain, F->F->value[v].map, 2, (i64[]){rows, cols},
                     (i64[]){0, 1}, 0) < 0)
    return false;
  settle(F, v, R_GEMM);
  be_product(F, G, n);
  return true;
}

static void root_put(Fuse *F, LoopNest *G) {
  const Node *N = &F->g->node[G->root];
  const Type *t = &F->g->node[N->src[1]].type;
  i64 numel = F->numel[N->src[1]];
  if (numel < F->numel[G->root]) G->base = base_of(F, N->src[0]);
  ty_domain_push(&G->domain, numel);
  i32 map = ty_map_identity(&F->F->maps, &G->domain);
  G->empty = !numel;
  i32 value = -1;
  if (numel && map >= 0)
    value = demand(F, G, N->src[1], F->role[N->src[1]] <= R_UNIFORM ? -1 : map, false, false);
  if (numel && map >= 0)
    map = ty_map_through(&F->F->maps, &G->domain, map, t->rank, t->dims, N->arg.strides,
                         N->arg.offset);
  add_output(G, G->root, value, map);
}

/* The domain of a group that computes its root, and the root's map. */
static i32 root_domain(Fuse *F, LoopNest *G) {
  Domain *D = &G->domain;
  Role role = F->role[G->root];
  Map m = {0};
  if (role != R_REDUCE && role != R_SCAN) {
    ty_domain_push(D, F->numel[G->root]);
    return ty_map_identity(&F->F->maps, D);
  }
  Along a = along(F->g, G->root);
  D->kind = role == R_REDUCE && a.inner > 1 ? K_COL : K_ROW;
  i64 run = role == R_SCAN ? a.run : 1; /* elements of the result along the run */
  m.coef[0] = run * a.inner;
  ty_domain_push(D, a.outer);
  if (role == R_SCAN) m.coef[D->nd] = 1, ty_domain_push(D, a.inner);
  D->no = D->nd, D->nr = 1;
  m.coef[D->nd] = role == R_SCAN ? a.inner : 0, ty_domain_push(D, a.run);
  if (role == R_REDUCE && a.inner > 1) m.coef[D->nd] = 1, ty_domain_push(D, a.inner);
  G->scan = role == R_SCAN;
  return ty_map_intern(&F->F->maps, D, &m);
}

/* A kernel that computes its root, which is no PUT. The root's own value is not among those that
** other groups demand of it. */
static void root_kernel(Fuse *F, LoopNest *G) {
  i32 n = G->root, map = root_domain(F, G), first = F->first[n], v = -1;
  const Node *N = &F->g->node[n];
  Role role = F->role[n];
  G->empty = !F->numel[n];
  if (map < 0) return;
  if (!G->empty) v = demand(F, G, n, role <= R_UNIFORM ? -1 : map, false, false);
  F->first[n] = first;
  add_output(G, n, v, map);
  if (v < 0) return;
  if (role <= R_INDEX) {
    settle(F, v, role);
  } else if (role == R_INPUT) {
    i32 load =
        ty_map_through(&F->F->maps, &G->domain, map, N->type.rank, N->type.dims, N->arg.strides, 0);
    F->F->value[v].load = load;
    settle(F, v, R_LOAD);
  } else if (reach(F, v)) {
    take(F, v);
  }
}

/* The map at which a node that nobody reads would be computed in a group, or -1: over the same points as
** the group's root, and from an operand that the group reads there too. */
static i32 beside(Fuse *F, LoopNest *G, i32 n) {
  const Node *N = &F->g->node[n], *R = &F->g->node[G->root];
  Role role = F->role[n];
  i64 full = ty_domain_numel(&G->domain, false);
  if (G->kind != G_KERNEL || G->empty || G->scan || F->role[G->root] != role) return -1;
  if (role == R_REDUCE) {
    bool same = N->src[0] == R->src[0] && N->arg.k == R->arg.k && N->arg.k2 == R->arg.k2;
    return same ? G->out[0].map : -1;
  }
  if (G->domain.kind != K_MAP || full != F->numel[n]) return -1;
  i32 map = ty_map_identity(&F->F->maps, &G->domain);
  for (int i = 0; i < ty_ops[N->op].arity && map >= 0; i++)
    if (F->role[N->src[i]] > R_UNIFORM && *value_slot(F, N->src[i], G->id, map)) return map;
  return -1;
}

/* Tries to make a wanted node that nobody reads one more output of a group that is there. */
static bool join(Fuse *F, i32 n) {
  Role role = F->role[n];
  if (F->first[n] >= 0 || F->must[n] || (role != R_MAP && role != R_REDUCE)) return false;
  for (i32 i = F->nnests - 1; i >= 0 && i >= F->nnests - NEAR; i--) {
    LoopNest *G = F->nest[i];
    i32 map = beside(F, G, n);
    if (map < 0) continue;
    i32 v = demand(F, G, n, map, false, false);
    G->need.node = -1;
    if (v < 0 || !reach(F, v) || !reserve(F, v))
      return false; /* it stays a load that costs little */
    add_output(G, n, v, map);
    F->of[n] = G->id;
    take(F, v);
    return true;
  }
  return false;
}

/* A group that stores node n. */
static void root(Fuse *F, i32 n) {
  LoopNest *G = nest_new(F, n);
  if (!G) return;
  F->of[n] = G->id;
  if (F->role[n] == R_ROUTINE) {
    root_host(F, G);
  } else if (F->role[n] == R_GEMM) {
    be_product(F, G, n);
  } else if (F->role[n] == R_PUT) {
    root_put(F, G);
  } else {
    root_kernel(F, G);
  }
}

/* All values of n that are not settled otherwise read its buffer. */
static void load_all(Fuse *F, i32 n) {
  for (i32 v = F->first[n]; v >= 0; v = F->F->value[v].same) {
    F->F->value[v].load = -1;
    settle(F, v, R_LOAD);
  }
}

static void visit_input(Fuse *F, i32 n) {
  const Node *N = &F->g->node[n];
  bool copy = F->must[n] || F->want[n], plain = ty_fuse_contiguous(N);
  for (i32 v = F->first[n]; v >= 0 && !plain && !copy; v = F->F->value[v].same) {
    Domain *D = &F->nest[F->F->value[v].group]->domain;
    i32 load = ty_map_through(&F->F->maps, D, F->F->value[v].map, N->type.rank, N->type.dims,
                              N->arg.strides, 0);
    F->F->value[v].load = load;
    copy |= load < 0;
  }
  for (i32 v = F->first[n]; v >= 0; v = F->F->value[v].same) {
    if (copy || plain) F->F->value[v].load = -1;
    settle(F, v, R_LOAD);
  }
  if (copy) root(F, n);
}

static void visit(Fuse *F, i32 n) {
  bool stored = F->must[n] || F->want[n];
  Role role = F->role[n];
  if (F->first[n] < 0 && !stored) return;
  if (role == R_INPUT) {
    visit_input(F, n);
  } else if (role <= R_INDEX) {
    for (i32 v = F->first[n]; v >= 0; v = F->F->value[v].same) settle(F, v, role);
    if (stored) root(F, n);
  } else if (role == R_VIEW || role == R_ALIAS) {
    for (i32 v = F->first[n]; v >= 0 && !F->failed; v = F->F->value[v].same) {
      F->nest[F->F->value[v].group]->need.node = -1;
      if (reach(F, v) && reserve(F, v)) {
        take(F, v);
      } else {
        F->F->value[v].load = -1;
        settle(F, v, R_LOAD), stored = true;
      }
    }
    if (stored) root(F, n);
  } else if (role == R_GEMM ? !epilogue(F, n) : !pull(F, n) && !join(F, n)) {
    load_all(F, n);
    root(F, n);
  }
}

/* ---- the result ---------------------------------------------------------------------------------
 */

static i32 *add_in(i32 *in, i32 *n, i32 node) {
  i32 k = *n;
  while (k > 0 && in[k - 1] > node) k--;
  if (k > 0 && in[k - 1] == node) return in;
  memmove(in + k + 1, in + k, sizeof *in * (size_t)(*n - k));
  in[k] = node, ++*n;
  return in;
}

static bool describe(Fuse *F, const LoopNest *G, Group *y) {
  i32 nvalues = 0, in[FUSE_OPERANDS + MAX_SRC];
  const Value *value = F->F->value;
  for (i32 v = G->values; v >= 0; v = value[v].next) nvalues++;
  *y = (Group){.kind = G->kind, .root = G->root, .base = G->base, .detail = (void *)(uintptr_t)G};
  y->nout = TY_MAX(G->nout, 1); /* a product alone and a routine keep no list */
  y->product = G->product;
  y->out = ty_arena_alloc(F->A, sizeof(i32) * (size_t)(y->nout + nvalues + 1));
  if (!y->out) return false;
  y->out[0] = G->root;
  for (int i = 0; i < G->nout; i++) y->out[i] = G->out[i].node;
  y->nodes = y->out + y->nout;
  i64 strides[MAX_RANK], offset;
  for (i32 v = G->values; v >= 0; v = value[v].next) {
    i32 n = value[v].node;
    if (value[v].role == R_LOAD) add_in(in, &y->nin, n);
    if (value[v].role == R_GATHER)
      add_in(in, &y->nin, ty_fuse_gathered(F->g, F->g->node[n].src[0], strides, &offset));
    bool seen = y->nnodes && y->nodes[y->nnodes - 1] == n;
    if (!seen && (value[v].role != R_LOAD || n == G->root)) y->nodes[y->nnodes++] = n;
  }
  if (!y->nnodes || y->nodes[y->nnodes - 1] != G->root) y->nodes[y->nnodes++] = G->root;
  for (int i = 0; i < MAX_SRC && G->kind != G_KERNEL; i++)
    if (G->operand[i] >= 0 && (i < 2 || G->kind == G_ROUTINE) && G->operand[i] != G->base)
      add_in(in, &y->nin, G->operand[i]);
  y->in = ty_arena_alloc(F->A, sizeof(i32) * (size_t)(y->nin + 1));
  if (!y->in) return false;
  memcpy(y->in, in, sizeof(i32) * (size_t)y->nin);
  return true;
}

/* Groups stand by ascending root; nests were made by descending one. */
static bool conclude(Fuse *F, Groups *y) {
  i32 n = F->nnests;
  y->n = n;
  y->of = F->of;
  y->group = ty_arena_alloc(F->A, (size_t)(n + 1) * sizeof *y->group);
  y->stored = ty_arena_alloc(F->A, (size_t)F->g->n + 1);
  if (!y->group || !y->stored) return false;
  for (i32 i = 0; i < n; i++)
    if (!describe(F, F->nest[n - 1 - i], &y->group[i])) return false;
  for (i32 i = 0; i < F->g->n; i++) {
    if (F->of[i] >= 0) F->of[i] = n - 1 - F->of[i];
    y->stored[i] = F->of[i] >= 0 || F->role[i] == R_INPUT;
  }
  return true;
}

void ty_choices_begin(Choices *c, bool first) {
  c->at = 0;
  c->first = first;
  if (first) c->n = 0;
}

bool ty_choose(Choices *c, bool here) {
  if (!c || c->at == 32 * TY_COUNT(c->made)) return here;
  const u32 bit = 1u << c->at % 32;
  u32 *word = &c->made[c->at++ / 32];
  if (c->first) *word = here ? *word | bit : *word & ~bit, c->n = c->at;
  return c->at <= c->n ? (*word & bit) != 0 : here;
}

bool ty_fuse(Arena *A, const Graph *g, const u8 *want, bool fast, Choices *choices, Groups *y) {
  size_t n = (size_t)g->n + 1;
  Fuse F = {.A = A, .g = g, .want = want, .fast = fast};
  F.F = ty_arena_alloc(A, sizeof *F.F);
  F.nest = ty_arena_alloc(A, n * sizeof *F.nest);
  F.first = ty_arena_alloc(A, n * sizeof *F.first);
  F.of = ty_arena_alloc(A, n * sizeof *F.of);
  F.numel = ty_arena_alloc(A, n * sizeof *F.numel);
  F.run = ty_arena_alloc(A, n * sizeof *F.run);
  F.role = ty_arena_alloc(A, n);
  F.must = ty_arena_alloc(A, n);
  F.dead = ty_arena_alloc(A, n);
  F.pure = ty_arena_alloc(A, n);
  if (!F.F || !F.nest || !F.first || !F.of || !F.numel || !F.run || !F.role || !F.must || !F.dead ||
      !F.pure)
    return false;
  F.F->maps.A = A;
  F.F->choices = choices;
  if (!values_grow(&F)) return false;
  learn(&F);
  for (i32 i = g->n - 1; i >= 0; i--) {
    visit(&F, i);
    if (F.failed || F.F->maps.failed) return false;
  }
  return conclude(&F, y);
}
