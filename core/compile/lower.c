/*
** lower.c -- one group to one loop program and its launch; a product or a routine to its
** description. In:  a group as fuse left it.  Out: Work.  Fails when memory runs out.
**
** The values of a group stand by ascending node, so operands come before their readers, and one
** pass over them writes the body, what operations compute as lower_value.c has it. The rules:
**
** 1. Every value is narrowed to its node's dtype as if it had been stored and loaded again.
** 2. Stores come last, so a map may write where it read.
** 3. A leaf is L_ROW exactly when its map does not depend on R; for the rest the levels follow.
** 4. Where contraction is allowed, a product that one sum reads becomes part of it (contract). It is
**    done here, so that all machines do the same.
** 5. Neighbouring dims that all operands walk as one become one, inside O, R and I: this changes no
**    order. In an epilogue rows and columns of the product stay apart.
** 6. A map with leaves that are the same along its last dims becomes rows without a reduction: what
**    depends on such leaves alone is computed once a row, and read as one value.
*/
#include "ir/body.h"
#include "ir/build.h"
#include "compile/fuse.h"
#include "compile/lower_value.h"

/* --- a kernel */

/* Of one kernel at a time; too large for small stacks. */
struct LowerRoom {
  Build now, before; /* before: what contract reads */
  i16 uses[MAX_BODY], product[MAX_BODY], at[MAX_BODY];
  bool gone[MAX_BODY];
  bool sum[MAX_BODY]; /* fast: sums and differences that are operations themselves */
};

typedef struct Lower {
  const Graph *g;
  const Groups *gs;
  LoopNest *G;
  Work *w;
  Build *B;
  Operand operand[MAX_OPERANDS];
  i32 map[MAX_OPERANDS];
  int n;
  LowerRoom *room;
} Lower;

static int level_of(const Lower *L, i32 map) {
  const Domain *D = &L->G->domain;
  if (D->kind == K_MAP || ty_map_touches_rows(&L->G->F->maps, D, map)) return L_ELEM;
  return L_ROW;
}

/* A new operand of the program: the buffer of a node (-1: none, for IOTA) walked by a map. */
static int add_operand(Lower *L, i32 node, int dtype, i32 map, int level, bool write) {
  int i = L->n++;
  L->operand[i] =
      (Operand){.dtype = (u8)ty_dtype_stored(dtype), .level = (u8)level, .write = write};
  L->map[i] = map;
  L->w->operand[i] = node;
  return i;
}

static u64 add_scalar(Lower *L, i32 slot) {
  Work *w = L->w;
  for (i32 i = 0; i < w->nscalar; i++)
    if (w->scalar[i] == slot) return (u64)i;
  w->scalar[w->nscalar] = slot;
  return (u64)w->nscalar++;
}

static Val emit_scalar(Lower *L, int ctype, i32 slot) {
  return ty_emit_leaf(L->B, P_SCALAR, ctype, L_ROW, -1, add_scalar(L, slot));
}

/* A CONST's element as a constant of its compute type. */
static Val emit_element(Build *B, int dtype, u64 bits) {
  int ctype = ty_dtypes[dtype].ctype;
  if (ty_dtypes[dtype].bytes == 8) return ty_emit_bits(B, ctype, bits);
  if (ty_dtypes[dtype].bytes == 4) return ty_emit_bits(B, ctype, (u32)bits);
  return ty_emit_const(B, ctype, ty_elem_load(dtype, &bits));
}

/* Whether operand i is positions: no buffer, and not the product, which lies nowhere either. */
static bool is_index(const Lower *L, int i) {
  const bool product = L->G->product >= 0 && L->w->product == i;
  return L->w->operand[i] < 0 && !product;
}

/* Positions that are counted already are the same value. */
static Val emit_index(Lower *L, i32 map) {
  int level = level_of(L, map), i = 0;
  while (i < L->n && (!is_index(L, i) || L->map[i] != map || L->operand[i].level != level)) i++;
  if (i == L->n) i = add_operand(L, -1, T_I64, map, level, false);
  return ty_emit_leaf(L->B, P_IOTA, C_I64, level, -1, (u64)i);
}

static Val emit_random(Lower *L, const Node *N, i32 map) {
  Val at = emit_index(L, map), stream = emit_scalar(L, C_I64, N->arg.k);
  Val seed = emit_scalar(L, C_I64, N->arg.k + 1);
  return ty_emit(L->B, P_PHILOX, C_I32, at, stream, seed, (u64)N->arg.k2);
}

/* The part of a gathered element's place that does not depend on the index, under the layout the
** buffer has now that all copies are decided; the index moves by the stride of the gathered dim. */
static Val emit_gather(Lower *L, const Value *v, Val index) {
  const Node *N = &L->g->node[v->node];
  i64 strides[MAX_RANK], offset;
  i32 buffer = ty_fuse_gathered(L->g, N->src[0], strides, &offset);
  const Node *S = &L->g->node[buffer];
  if (buffer == N->src[0] && S->op == OP_INPUT && L->gs->of[buffer] < 0)
    memcpy(strides, S->arg.strides, sizeof strides);
  i64 step = strides[N->arg.k];
  strides[N->arg.k] = 0;
  i32 map = ty_map_through(&L->G->F->maps, &L->G->domain, v->map, N->type.rank, N->type.dims,
                           strides, offset);
  if (map < 0) {
    L->B->failed = true;
    return 0;
  }
  int level = level_of(L, v->map);
  const int dtype = N->type.dtype;
  int i = add_operand(L, buffer, dtype, map, level, false);
  L->w->launch.gstride[i] = step;
  return ty_lower_loaded(
      L->B, dtype,
      ty_emit_leaf(L->B, P_GLOAD, ty_dtypes[ty_dtype_stored(dtype)].ctype, level, index, (u64)i));
}

static Val emit_load(Lower *L, int dtype, int level, int operand) {
  const int ctype = ty_dtypes[ty_dtype_stored(dtype)].ctype;
  return ty_lower_loaded(L->B, dtype, ty_emit_leaf(L->B, P_LOAD, ctype, level, -1, (u64)operand));
}

static Val emit_value(Lower *L, const Value *v, const Val src[3]) {
  Build *B = L->B;
  const Node *N = &L->g->node[v->node];
  int dtype = N->type.dtype, ctype = ty_dtypes[dtype].ctype, level, i;
  switch ((Role)v->role) {
  case R_FILL: return K(ctype, N->op == OP_PROD);
  case R_CONST: return emit_element(B, dtype, N->arg.bits);
  case R_SCALAR: return emit_scalar(L, ctype, N->arg.k);
  case R_INDEX: return emit_index(L, v->map);
  case R_RANDOM: return emit_random(L, N, v->map);
  case R_LOAD:
    level = level_of(L, v->load);
    i = add_operand(L, v->node, dtype, v->load, level, false);
    return emit_load(L, dtype, level, i);
  case R_ALIAS:
  case R_VIEW: return src[0];
  case R_MAP: return ty_lower_map(B, L->g, v->node, src);
  case R_REDUCE:
  case R_SCAN: return ty_lower_along(B, N, L->g->node[N->src[0]].type.dtype, src[0]);
  case R_GATHER: return emit_gather(L, v, src[1]);
  case R_GEMM:
    i = L->w->product = add_operand(L, -1, dtype, v->map, L_ELEM, false);
    return emit_load(L, dtype, L_ELEM, i);
  default: B->failed = true; return 0;
  }
}

static bool emit_values(Lower *L) {
  Value *value = L->G->F->value;
  for (i32 v = L->G->values; v >= 0 && !L->B->failed; v = value[v].next) {
    Val src[3] = {-1, -1, -1};
    int op = L->g->node[value[v].node].op;
    for (int i = 0; i < 3; i++)
      if (value[v].src[i] >= 0) src[i] = value[value[v].src[i]].val;
    value[v].val = emit_value(L, &value[v], src);
    if (value[v].role == R_MAP && (op == OP_ADD || op == OP_SUB)) L->room->sum[value[v].val] = true;
  }
  for (int i = 0; i < L->G->nout; i++) {
    const Type *t = &L->g->node[L->G->out[i].node].type;
    i32 map = L->G->out[i].map;
    int level = level_of(L, map), ctype = ty_dtypes[t->dtype].ctype;
    int stored = ty_dtypes[ty_dtype_stored(t->dtype)].ctype;
    Val x = L->G->empty ? ty_emit_const(L->B, ctype, 0) : value[L->G->out[i].value].val;
    int o = add_operand(L, L->G->out[i].node, t->dtype, map, level, true);
    x = ty_lower_stored(L->B, t->dtype, x);
    ty_emit_leaf(L->B, P_STORE, stored, level, x, (u64)o);
  }
  return !L->B->failed;
}

/* How often each instruction is read by such as lead to a store; stores count once. */
static void count_uses(const Build *B, i16 *uses) {
  memset(uses, 0, sizeof *uses * (size_t)B->n);
  for (i32 i = B->n - 1; i >= 0; i--) {
    const Instr *in = &B->body[i];
    uses[i] += in->op == P_STORE;
    if (!uses[i]) continue;
    if (in->a >= 0) uses[in->a]++;
    if (in->b >= 0) uses[in->b]++;
    if (in->c >= 0) uses[in->c]++;
  }
}

/* a * b + c in one instruction, and a * b - c, c - a * b, where nobody else reads the product. Only
** sums that are operations themselves: those inside an expansion (exp, remainder ...) are written
** as they must be rounded. A difference needs a negation, which costs less than it saves in time. */
static void contract(const Lower *L, Build *B) {
  LowerRoom *room = L->room;
  const Build *from = &room->before;
  i16 *uses = room->uses, *product = room->product, *at = room->at;
  bool *gone = room->gone;
  memcpy(room->before.body, B->body, sizeof *B->body * (size_t)B->n);
  room->before.n = B->n;
  memset(gone, 0, (size_t)B->n);
  count_uses(from, uses);
  for (i32 i = 0; i < from->n; i++) {
    const Instr *in = &from->body[i];
    product[i] = -1;
    if (!room->sum[i] || !uses[i] || in->type < C_F32 || (in->op != P_ADD && in->op != P_SUB))
      continue;
    for (int k = 0; k < 2 && product[i] < 0; k++) {
      i16 x = k ? in->b : in->a;
      if (from->body[x].op == P_MUL && uses[x] == 1) gone[x] = true, product[i] = x;
    }
  }
  B->n = 0;
  for (i32 i = 0; i < from->n; i++) {
    Instr in = from->body[i];
    if (!uses[i] || gone[i]) continue;
    if (product[i] >= 0) {
      const Instr *p = &from->body[product[i]];
      const bool left = in.a == product[i], difference = in.op == P_SUB;
      Val a = at[p->a], b = at[p->b], c = at[left ? in.b : in.a];
      if (difference && left) c = NEG(c);
      if (difference && !left) a = NEG(a);
      at[i] = (i16)FMA(a, b, c);
      continue;
    }
    if (in.a >= 0) in.a = at[in.a];
    if (in.b >= 0) in.b = at[in.b];
    if (in.c >= 0) in.c = at[in.c];
    at[i] = (i16)B->n, B->body[B->n++] = in;
  }
}

/* Expansions leave instructions that nobody reads. */
static void drop_dead(const Lower *L, Build *B) {
  i16 *uses = L->room->uses, *at = L->room->at;
  i32 n = 0;
  count_uses(B, uses);
  for (i32 i = 0; i < B->n; i++) {
    if (!uses[i]) continue;
    Instr in = B->body[i];
    if (in.a >= 0) in.a = at[in.a];
    if (in.b >= 0) in.b = at[in.b];
    if (in.c >= 0) in.c = at[in.c];
    at[i] = (i16)n, B->body[n++] = in;
  }
  B->n = n;
}

static bool is_flat(const Launch *y, int noperands) {
  for (int i = 0; i < noperands; i++)
    if (!ty_is_contiguous(y->no + y->nr + y->ni, y->dims, y->strides[i])) return false;
  return true;
}

/* Domain and maps as a launch; dims that all operands walk as one with the dim behind them are
 * merged into it. */
static void launch(Lower *L) {
  const Domain *D = &L->G->domain;
  const Map *map = L->G->F->maps.at;
  Launch *y = &L->w->launch;
  int n = 0;
  u8 *count[3] = {&y->no, &y->nr, &y->ni};
  bool product = L->G->product >= 0;
  i64 cols = product ? L->w->gemm.n : 0, inner = product ? ty_domain_numel(D, false) : 1;
  for (int i = 0; i < L->n; i++) y->start[i] = map[L->map[i]].start;
  for (int j = 0; j < D->nd; j++) {
    int factor = j < D->no ? 0 : j < D->no + D->nr ? 1 : 2;
    bool border = inner == cols; /* rows of a product end here */
    if (border) L->w->nrows = n;
    if (product) inner /= D->dims[j];
    bool merge = *count[factor] > 0 && !border;
    for (int i = 0; i < L->n && merge; i++)
      merge = y->strides[i][n - 1] == map[L->map[i]].coef[j] * D->dims[j];
    if (!merge) n++, ++*count[factor], y->dims[n - 1] = 1;
    y->dims[n - 1] *= D->dims[j];
    for (int i = 0; i < L->n; i++) y->strides[i][n - 1] = map[L->map[i]].coef[j];
  }
  if (inner == cols) L->w->nrows = n;
  y->flat = is_flat(y, L->n);
}

/* Which operands are read just where the first output is written, and nowhere else. A row that is
** passed over several times must not find its own results: several outputs are let through in maps
** only. */
static void donations(Lower *L) {
  const Launch *y = &L->w->launch;
  int first = 0;
  while (!L->operand[first].write) first++;
  if (L->G->nout > 1 && L->G->domain.kind != K_MAP) return;
  for (int i = 0; i < first; i++) {
    bool gathered = false, again = false;
    for (i32 k = 0; k < L->B->n; k++)
      gathered |= L->B->body[k].op == P_GLOAD && L->B->body[k].imm == (u64)i;
    for (int k = 0; k < first; k++) again |= k != i && L->w->operand[k] == L->w->operand[i];
    L->w->donate[i] =
        !gathered && !again && L->w->operand[i] >= 0 && y->start[i] == y->start[first] &&
        !memcmp(y->strides[i], y->strides[first], sizeof y->strides[i]) &&
        ty_dtypes[L->operand[i].dtype].bytes == ty_dtypes[L->operand[first].dtype].bytes;
  }
}

#define SAME_ALONG 64 /* elements of a row that has values of its own; shorter ones share tiles */

/* Dims at the end of the domain on which the map does not depend. */
static int still_dims(const Domain *D, const Map *m) {
  int n = 0;
  while (n < D->nd && !m->coef[D->nd - 1 - n]) n++;
  return n;
}

/* Rule 6. The rows are as long as all leaves that are the same along a row allow. What a row reads lies in
** order then: outputs go along it. Gathers are left alone, since an index that is the same for a run of
** elements makes a copy of them. */
static void map_to_rows(Lower *L) {
  Domain *D = &L->G->domain;
  const Fusion *F = L->G->F;
  int still = D->nd;
  bool computes = false;
  if (D->kind != K_MAP || D->nd < 2 || L->G->product >= 0 || L->G->empty) return;
  for (i32 v = L->G->values; v >= 0; v = F->value[v].next) {
    const Value *x = &F->value[v];
    computes |= x->role == R_MAP;
    if (x->role == R_GATHER) return;
    if (x->role != R_LOAD && x->role != R_INDEX) continue;
    const int n = still_dims(D, &F->maps.at[x->role == R_LOAD ? x->load : x->map]);
    if (n) still = TY_MIN(still, n);
  }
  for (int i = 0; i < L->G->nout; i++)
    computes &= F->maps.at[L->G->out[i].map].coef[D->nd - 1] == 1;
  i64 along = 1;
  for (int d = D->nd - still; d < D->nd; d++) along *= D->dims[d];
  if (!computes || still == D->nd || !ty_choose(F->choices, along >= SAME_ALONG)) return;
  D->kind = K_ROW, D->no = (u8)(D->nd - still), D->nr = (u8)still;
}

static bool lower_kernel(Arena *A, Lower *L) {
  Build *B = L->B = &L->room->now;
  map_to_rows(L);
  B->n = 0, B->failed = false;
  memset(L->room->sum, 0, sizeof L->room->sum);
  if (!emit_values(L)) return false;
  if (L->G->fast) contract(L, B);
  else drop_dead(L, B);
  size_t bytes = sizeof(Instr) * (size_t)B->n;
  Program *p = ty_arena_alloc(A, sizeof *p + bytes);
  if (!p) return false;
  p->kind = L->G->domain.kind, p->fast = L->G->fast;
  p->noperands = (u8)L->n, p->nbody = (u16)B->n;
  memcpy(p->operand, L->operand, sizeof *p->operand * (size_t)L->n);
  memcpy(p->body, B->body, bytes);
  L->w->program = p;
  launch(L);
  donations(L);
  return true;
}

/* --- products and routines */

/* Dims of D from *j on whose extents make up `extent`, as a walk; dims that walk as one are one. */
static Path walk(const Domain *D, const Map *m, const Factor *f, int *j, i64 extent) {
  Path w = {0};
  i64 n = 1;
  do {
    const int k = (*j)++;
    bool merge = w.n && w.strides[w.n - 1] == m->coef[k] * D->dims[k];
    for (int b = 0; b < f->borders && merge; b++)
      merge = w.steps[b][w.n - 1] == f->border[b].coef[k] * D->dims[k];
    if (!merge) w.dims[w.n++] = 1;
    w.dims[w.n - 1] *= D->dims[k];
    w.strides[w.n - 1] = m->coef[k];
    for (int b = 0; b < f->borders; b++) w.steps[b][w.n - 1] = f->border[b].coef[k];
    n *= D->dims[k];
  } while (n < extent);
  return w;
}

/* Where the elements of operand i lie in its buffer: by row-major position or by the layout of an
** input. */
static bool factor_map(Arena *A, const Lower *L, int i, Domain *D, Map *m) {
  const Factor *f = &L->G->factor[i];
  const Node *N = &L->g->node[f->node];
  *D = f->domain;
  *m = f->map;
  if (N->op != OP_INPUT || L->gs->of[f->node] >= 0) return true;
  Maps M = {.A = A};
  i32 map = ty_map_intern(&M, D, m);
  if (map >= 0) map = ty_map_through(&M, D, map, N->type.rank, N->type.dims, N->arg.strides, 0);
  if (map >= 0) *m = M.at[map];
  return map >= 0;
}

/* Operand i of a product, whose type is t. */
static bool lower_factor(Arena *A, const Lower *L, int i, const Type *t) {
  Gemm *y = &L->w->gemm;
  Domain D;
  Map m;
  if (!factor_map(A, L, i, &D, &m)) return false;
  int missing = y->nlead + 2 - t->rank, j = t->rank - 2;
  for (int d = 0; d < j; d++) (i ? y->bbs : y->abs)[missing + d] = t->dims[d] == 1 ? 0 : m.coef[d];
  const Factor *f = &L->G->factor[i];
  Im2col p = {.borders = f->borders};
  p.row = walk(&D, &m, f, &j, t->dims[t->rank - 2]);
  p.col = walk(&D, &m, f, &j, t->dims[t->rank - 1]);
  for (int b = 0; b < f->borders; b++) p.start[b] = f->border[b].start, p.extent[b] = f->extent[b];
  L->w->factor[i] = f->node;
  L->w->start[i] = m.start;
  if (p.row.n == 1 && p.col.n == 1 && !p.borders) {
    *(i ? &y->brs : &y->ars) = p.row.strides[0];
    *(i ? &y->bcs : &y->acs) = p.col.strides[0];
    return true;
  }
  Im2col *own = ty_arena_alloc(A, sizeof *own);
  if (own) *own = p;
  *(i ? &y->b_im2col : &y->a_im2col) = own;
  return own != NULL;
}

static bool lower_gemm(Arena *A, Lower *L) {
  const Node *N = &L->g->node[L->G->product];
  const Type *t[2] = {&L->g->node[N->src[0]].type, &L->g->node[N->src[1]].type};
  Gemm *y = &L->w->gemm;
  int rank = N->type.rank;
  y->dtype = ty_dtype_stored(N->type.dtype);
  y->amx = N->arg.k2 == PRODUCT_BF16;
  y->library = N->arg.k2 & PRODUCT_LIBRARY ? (u8)N->arg.k2 : 0;
  y->m = N->type.dims[rank - 2], y->n = N->type.dims[rank - 1], y->k = t[0]->dims[t[0]->rank - 1];
  y->nlead = rank - 2, y->batch = 1;
  for (int d = 0; d < y->nlead; d++) y->lead[d] = N->type.dims[d], y->batch *= y->lead[d];
  for (int i = 0; i < 2; i++)
    if (!lower_factor(A, L, i, t[i])) return false;
  return L->G->product == L->G->root || lower_kernel(A, L);
}

static bool lower_attend(Arena *A, Lower *L) {
  const Node *N = &L->g->node[L->G->root];
  Attend *y = &L->w->attend;
  const Type *q = &L->g->node[N->src[AT_Q]].type, *v = &L->g->node[N->src[AT_V]].type;
  const int rank = q->rank;
  *y = (Attend){.dtype = N->type.dtype, .nlead = rank - 2, .operands = q->dtype, .batch = 1};
  y->grad = N->op == OP_ATTEND_GRAD;
  y->causal = N->arg.k & ATTEND_CAUSAL, y->fast = N->arg.k & ATTEND_FAST;
  y->drop = (u32)N->arg.k2;
  y->scale = ty_elem_load(N->type.dtype, &N->arg.bits);
  for (int d = 0; d < y->nlead; d++) y->lead[d] = q->dims[d], y->batch *= q->dims[d];
  y->n = q->dims[rank - 2], y->d = q->dims[rank - 1];
  y->m = v->dims[rank - 2], y->dv = v->dims[rank - 1];
  for (int i = 0; i < ty_ops[N->op].arity; i++) {
    if ((L->w->packed[i] = L->G->operand[i]) < 0) continue;
    const Type *t = &L->g->node[N->src[i]].type;
    Domain D;
    Map m;
    if (!factor_map(A, L, i, &D, &m)) return false;
    y->start[i] = m.start;
    /* The key's stride is a column's. */
    if (i == AT_KEY) y->strides[i][rank - 1] = m.coef[0];
    else if (i != AT_R) memcpy(y->strides[i], m.coef, sizeof *m.coef * (size_t)rank);
    y->mask |= i == AT_MASK, y->key |= i == AT_KEY;
    y->bits |= i == AT_MASK && t->dtype == T_BOOL;
  }
  return true;
}

/* Where the index lies: rows of src may share an element. */
static bool lower_scatter(Arena *A, const Lower *L) {
  const Type *t = &L->g->node[L->g->node[L->G->root].src[1]].type;
  Domain D;
  Map m;
  if (!ty_type_numel(t)) return true;
  if (!factor_map(A, L, 1, &D, &m)) return false;
  L->w->start[0] = m.start;
  memcpy(L->w->strides, m.coef, sizeof *m.coef * (size_t)t->rank);
  return true;
}

bool ty_lower(Arena *A, LowerRoom **room, const Graph *g, const Groups *gs, i32 group, Work *y) {
  LoopNest *G = gs->group[group].detail;
  if (!*room && !(*room = ty_mem_alloc(sizeof **room))) return false;
  Lower L = {.g = g, .gs = gs, .G = G, .w = y, .room = *room};
  memset(y, 0, sizeof *y);
  G->F->maps.A = A;
  if (G->kind == G_GEMM) return lower_gemm(A, &L);
  if (G->kind == G_ROUTINE) {
    const int op = g->node[G->root].op;
    for (int i = 0; i < MAX_SRC; i++) y->packed[i] = G->operand[i];
    if (op == OP_LOOP) {
      const Node *N = &g->node[G->root];
      y->nscalar = ty_body_scalars(N->arg.bits);
      for (i32 i = 0; i < y->nscalar; i++) y->scalar[i] = N->arg.k2 + i;
    }
    if (op == OP_SCATTER || op == OP_SCATTER_ADD) return lower_scatter(A, &L);
    return (op != OP_ATTEND && op != OP_ATTEND_GRAD) || lower_attend(A, &L);
  }
  return lower_kernel(A, &L);
}
