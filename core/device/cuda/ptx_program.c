/*
** ptx_program.c -- loop programs as PTX kernels.
** In:  a program, and what is known of its launches.  Out: a module. Fails when out of memory alone.
**
** How a domain is shared out:
**   map      a thread an element, or four where what is stored lies in aligned groups of four, and on by all threads of the
**            grid
**   rows     half a warp a row, fewer threads for a short one: thread t has elements 4 t .. 4 t + 3 of every 64, or two of every
**            32 where a lane of the canonical order is 8 bytes, by accesses of 16 bytes. Where memory does not lie so, a warp a
**            row: thread t has the elements t and t + 32 of every 64. Passes over the row compute anew what they need.

**   columns  a thread a column, going down R by the four lanes
**   scans    a warp a row, 32 elements at a time: two groups of 16. Where rows are few and long, three kernels: a warp a
**            block for what the block comes to, a thread a row for what comes before each block, a warp a block again
** The canonical order (device/cpu/tile.c) holds throughout: blocks of BLOCK elements (COL_BLOCK rows) are complete
** nodes, which wait in local memory and are joined as a binary counter counts; lanes join last.
** PART and FINISH do the same in two kernels, where rows are few and long: groups are subtrees, their nodes go by way
** of scratch.
** Stores come last, so that an output may be an operand's memory: an element is read by the thread that writes it.
*/
#include "device/cuda/ptx_class.h"

enum { FOUR = 4 };

/* A reduction in progress. */
typedef struct Acc {
  i32 instr;
  u8 op, ctype, lanes; /* op: the primitive that joins, or RARGMAX, RARGMIN */
  Reg lane[COL_LANES];
  Reg at;       /* positions */
  i32 word;     /* of a node */
  bool product; /* SUM_OF_PRODUCTS */
} Acc;

typedef struct Scan {
  i32 instr;
  Reg carry, offset;
} Scan;

typedef struct Gen {
  Ptx E;
  const Program *p;
  Variant v;
  Layout l;
  Classes C;
  const char *index; /* type of an index */
  Reg reg[MAX_BODY];
  Reg coord[MAX_DIMS];
  Reg row_place[MAX_OPERANDS],
      place[MAX_OPERANDS]; /* addresses: of the row, of the element; 0: not made yet */
  bool need[MAX_BODY];
  Acc acc[MAX_BODY / 2];
  i32 nacc;
  Scan scan[MAX_BODY / 2];
  i32 nscan;
  i32 words;               /* of a node, of one thread */
  Reg lane, count, r_all;  /* of a warp; PARAM_COUNT; PARAM_R */
  Reg r;                   /* position within R */
  Reg one_lane;            /* predicate: row stores are this thread's */
  int part;                /* of neighbours the one at hand */
  Reg first[MAX_OPERANDS]; /* of a row's neighbours: the address of the first; 0: not made yet */
  Reg four[MAX_OPERANDS][FOUR]; /* values of flat operands: loaded, or to be stored */
  Reg there[FOUR], all;         /* predicates, of FOUR_TAIL: it is there; all four are */
} Gen;

/* --- indices: 32 bits wide where they fit */

static RegKind index_kind(const Gen *G) { return G->v.wide ? REG_64 : REG_32; }
static Reg index_reg(Gen *G) { return ty_ptx_reg(&G->E, index_kind(G)); }
static Reg index_param(Gen *G, i32 at) { return ty_ptx_param(&G->E, index_kind(G), at); }

static Reg index_op(Gen *G, const char *op, Reg a, Reg b) {
  const Reg y = index_reg(G);
  ty_ptx(&G->E, "~.~ $, $, $", op, G->index, y, a, b);
  return y;
}

/* An index from 32 bits. */
static Reg index_of(Gen *G, Reg r32) {
  if (!G->v.wide) return r32;
  const Reg y = index_reg(G);
  ty_ptx(&G->E, "cvt.u64.u32 $, $", y, r32);
  return y;
}

static Reg special(Gen *G, const char *name) {
  const Reg y = ty_ptx_reg(&G->E, REG_32);
  ty_ptx(&G->E, "mov.u32 $, %~", y, name);
  return y;
}

static void index_move(Gen *G, Reg to, Reg from) {
  ty_ptx(&G->E, "mov.~ $, $", G->v.wide ? "b64" : "b32", to, from);
}

/* Jumps where a is below b, or not. */
static void jump(Gen *G, const char *how, Reg a, Reg b, int label) {
  const Reg p = ty_ptx_reg(&G->E, REG_PRED);
  ty_ptx(&G->E, "setp.~.~ $, $, $", how, G->index, p, a, b);
  ty_ptx(&G->E, "@$ bra @", p, label);
}

/* Coordinates along dims [from, to) of a number that counts over them. */
static void decompose(Gen *G, Reg number, int from, int to) {
  for (int d = to - 1; d > from; d--) {
    const Reg n = index_param(G, G->l.dims + 8 * d), q = index_op(G, "div", number, n);
    G->coord[d] = index_op(G, "sub", number, index_op(G, "mul.lo", q, n));
    number = q;
  }
  if (from < to) G->coord[from] = number;
}

/* base + coordinates along [from, to) times the operand's strides. */
static Reg place_along(Gen *G, int operand, Reg base, int from, int to) {
  for (int d = from; d < to; d++) {
    const i32 at = G->l.strides + 8 * (operand * G->l.nd + d);
    const Reg stride = index_param(G, at), y = ty_ptx_reg(&G->E, REG_64);
    ty_ptx(&G->E, G->v.wide ? "mad.lo.s64 $, $, $, $" : "mad.wide.s32 $, $, $, $", y, G->coord[d],
           stride, base);
    base = y;
  }
  return base;
}

static Reg row_place(Gen *G, int operand) {
  Reg *at = &G->row_place[operand];
  if (*at) return *at;
  const int no = G->v.no, nr = G->v.nr;
  *at = place_along(G, operand, ty_ptx_param(&G->E, REG_64, PARAM_OPERANDS + 8 * operand), 0, no);
  return *at = place_along(G, operand, *at, no + nr, G->l.nd - (G->v.four != FOUR_NONE));
}

/* Of neighbours the one at hand. Those of a map have a dim of their own, the last; those of a row go along R's last. */
static Reg part_place(Gen *G, int operand) {
  const bool row = G->p->kind == K_ROW;
  const int no = G->v.no, nr = G->v.nr, dim = row ? no + nr - 1 : G->l.nd - 1;
  Reg first = row_place(G, operand), *at = &G->place[operand];
  if (row) {
    if (!G->first[operand]) G->first[operand] = place_along(G, operand, first, no, no + nr);
    first = G->first[operand];
  }
  if (!G->part) return first;
  if (*at) return *at;
  const i32 stride = G->l.strides + 8 * (operand * G->l.nd + dim);
  *at = ty_ptx_reg(&G->E, REG_64);
  ty_ptx(&G->E, "mad.lo.s64 $, $, #, $", *at, ty_ptx_param(&G->E, REG_64, stride), (i64)G->part,
         first);
  return *at;
}

static bool by_parts(const Gen *G) { return G->v.four || G->v.each; }
static bool is_flat(const Gen *G, int operand) { return by_parts(G) && G->v.flat >> operand & 1; }
static int row_threads(const Gen *G) { return G->v.each ? G->v.threads : 32; }

static Reg place(Gen *G, const Instr *in, bool elem) {
  const int operand = (int)in->imm;
  if (by_parts(G) && (elem || G->v.four)) return part_place(G, operand);
  if (!elem || G->p->kind == K_MAP) return row_place(G, operand);
  Reg *at = &G->place[operand];
  return *at ? *at
             : (*at = place_along(G, operand, row_place(G, operand), G->v.no, G->v.no + G->v.nr));
}

/* --- values */

static void emit_scan(Gen *G, int i);

static void emit(Gen *G, int i) {
  const Instr *in = &G->p->body[i];
  Ptx *E = &G->E;
  const bool elem = G->C.class[i] == CLASS_ELEM;
  const Reg a = in->a < 0 ? 0 : G->reg[in->a], b = in->b < 0 ? 0 : G->reg[in->b];
  switch (in->op) {
  case P_CONST: G->reg[i] = ty_ptx_const(E, in->type, in->imm); return;
  case P_SCALAR:
    G->reg[i] =
        ty_ptx_param(E, ty_ptx_wide(in->type) ? REG_64 : REG_32, G->l.scalars + 8 * (i32)in->imm);
    return;
  case P_IOTA: G->reg[i] = place(G, in, elem); return;
  case P_LOAD:
    if (elem && is_flat(G, (int)in->imm)) {
      G->reg[i] = G->four[in->imm][G->part];
      return;
    }
    if (elem && by_parts(G) && G->part && G->v.same >> in->imm & 1) return; /* as the first one's */
    G->reg[i] = ty_ptx_load(E, G->p->operand[in->imm].dtype, place(G, in, elem));
    return;
  case P_GLOAD: {
    const Reg step = ty_ptx_param(E, REG_64, G->l.gstrides + 8 * (i32)in->imm),
              at = ty_ptx_reg(E, REG_64);
    ty_ptx(E, "mad.lo.s64 $, $, $, $", at, a, step, place(G, in, elem));
    G->reg[i] = ty_ptx_load(E, G->p->operand[in->imm].dtype, at);
    return;
  }
  case P_STORE:
    if (elem && is_flat(G, (int)in->imm)) {
      G->four[in->imm][G->part] = a;
      return;
    }
    ty_ptx_store(E, G->p->operand[in->imm].dtype, place(G, in, elem), a);
    return;
  default: break;
  }
  if (ty_ptx_is_scan(in->op)) emit_scan(G, i);
  else
    G->reg[i] = ty_ptx_primitive(E, in, in->a < 0 ? 0 : G->p->body[in->a].type, a, b,
                                 in->c < 0 ? 0 : G->reg[in->c]);
}

static void emit_class(Gen *G, int class, int phase) {
  for (int i = 0; i < G->p->nbody; i++) {
    const int op = G->p->body[i].op;
    if (G->C.class[i] == class && G->C.phase[i] == phase && op != P_STORE && !ty_ptx_is_reduce(op))
      emit(G, i);
  }
}

/* What a pass must compute of each element: for its reductions and, in the last one, for stores. */
static void need_of(Gen *G, int phase) {
  const Program *p = G->p;
  memset(G->need, 0, sizeof G->need);
  for (int i = p->nbody - 1; i >= 0; i--) {
    const Instr *in = &p->body[i];
    bool sink = ty_ptx_is_reduce(in->op) && G->C.class[i] && G->C.phase[i] == phase + 1;
    sink |= in->op == P_STORE && G->C.class[i] == CLASS_ELEM && phase == G->C.phases - 1;
    G->need[i] |= sink;
    if (!sink && (!G->need[i] || G->C.class[i] != CLASS_ELEM)) continue;
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3; k++)
      if (ops[k] >= 0) G->need[ops[k]] = true;
  }
}

static void fold(Gen *G, int sub);

/* A product that is added by fma. */
static bool is_fused(const Gen *G, int i) {
  for (int n = 0; n < G->nacc; n++)
    if (G->acc[n].product && G->p->body[G->acc[n].instr].a == i) return true;
  return false;
}

/* One element: its coordinates are there. sub: the lane that its thread adds it to. */
static void element(Gen *G, int sub) {
  memset(G->place, 0, sizeof G->place);
  for (int i = 0; i < G->p->nbody; i++)
    if (G->need[i] && G->C.class[i] == CLASS_ELEM && G->p->body[i].op != P_STORE && !is_fused(G, i))
      emit(G, i);
  fold(G, sub);
  for (int i = 0; i < G->p->nbody; i++)
    if (G->need[i] && G->C.class[i] == CLASS_ELEM && G->p->body[i].op == P_STORE) emit(G, i);
}

/* --- reductions */

static const char *bits_type(int ctype) { return ty_ptx_wide(ctype) ? "b64" : "b32"; }

static void move(Gen *G, int ctype, Reg to, Reg from) {
  ty_ptx(&G->E, "mov.~ $, $", bits_type(ctype), to, from);
}
static void set(Gen *G, int ctype, Reg to, u64 bits) {
  ty_ptx(&G->E, "mov.~ $, ^", bits_type(ctype), to, ty_ptx_wide(ctype) ? bits : bits & 0xffffffff);
}

/* The reductions of a pass. */
static void begin_accs(Gen *G, int phase) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN};
  G->nacc = 0, G->words = 0;
  for (int i = 0; i < G->p->nbody; i++) {
    const Instr *in = &G->p->body[i];
    if (!ty_ptx_is_reduce(in->op) || !G->C.class[i] || G->C.phase[i] != phase + 1) continue;
    const bool arg = ty_ptx_is_arg(in->op);
    Acc *a = &G->acc[G->nacc++];
    *a = (Acc){.instr = i, .op = arg ? in->op : joins[in->op - P_RSUM], .ctype = in->from};
    a->lanes = (u8)(G->v.each && !arg ? G->v.each : ty_ptx_lanes(G->p, in)), a->word = G->words;
    a->product = in->op == P_RSUM && in->imm == SUM_OF_PRODUCTS;
    for (int k = 0; k < a->lanes; k++) a->lane[k] = ty_ptx_value(&G->E, a->ctype);
    if (arg) a->at = ty_ptx_reg(&G->E, REG_64);
    G->words += arg ? 2 : a->lanes;
  }
}

/* at: of positions too. */
static void clear_accs(Gen *G, bool at) {
  for (int n = 0; n < G->nacc; n++) {
    Acc *a = &G->acc[n];
    if (a->at && !at) continue;
    for (int k = 0; k < a->lanes; k++)
      set(G, a->ctype, a->lane[k], a->product ? 0 : ty_ptx_identity(a->op, a->ctype));
    if (a->at) ty_ptx(&G->E, "mov.b64 $, 0", a->at);
  }
}

static const char *name_of(int ctype) {
  static const char *const names[] = {"s32", "s64", "f32", "f64"};
  return names[ctype];
}

/* Whether e is better than b, as a predicate: a NaN is, than what is none. */
static Reg better(Gen *G, const Acc *a, Reg e, Reg b) {
  Ptx *E = &G->E;
  const Reg p = ty_ptx_reg(E, REG_PRED), nan = ty_ptx_reg(E, REG_PRED),
            number = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.~.~ $, $, $", a->op == P_RARGMAX ? "gt" : "lt", name_of(a->ctype), p, e, b);
  if (a->ctype < C_F32) return p;
  ty_ptx(E, "setp.nan.~ $, $, $", name_of(a->ctype), nan, e, e);
  ty_ptx(E, "setp.num.~ $, $, $", name_of(a->ctype), number, b, b);
  ty_ptx(E, "and.pred $, $, $", nan, nan, number);
  ty_ptx(E, "or.pred $, $, $", p, p, nan);
  return p;
}

static void take(Gen *G, const Acc *a, Reg p, Reg e, Reg at) {
  ty_ptx(&G->E, "selp.~ $, $, $, $", bits_type(a->ctype), a->lane[0], e, a->lane[0], p);
  ty_ptx(&G->E, "selp.b64 $, $, $, $", a->at, at, a->at, p);
}

/* The extreme takes in another of any place: of equal ones the first. */
static void join_arg(Gen *G, const Acc *a, Reg e, Reg at) {
  Ptx *E = &G->E;
  const Reg p = better(G, a, e, a->lane[0]), q = better(G, a, a->lane[0], e),
            first = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.lt.s64 $, $, $", first, at, a->at);
  ty_ptx(E, "not.pred $, $", q, q);
  ty_ptx(E, "and.pred $, $, $", first, first, q);
  ty_ptx(E, "or.pred $, $, $", p, p, first);
  take(G, a, p, e, at);
}

static void fold(Gen *G, int sub) {
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    const Instr *of = &G->p->body[G->p->body[a->instr].a];
    const Reg lane = a->lane[sub % a->lanes], x = G->reg[of - G->p->body];
    if (a->product) {
      static const char *const how[] = {"mad.lo.s32", "mad.lo.s64", "fma.rn.f32", "fma.rn.f64"};
      ty_ptx(&G->E, "~ $, $, $, $", how[a->ctype], lane, G->reg[of->a], G->reg[of->b], lane);
      continue;
    }
    if (a->at) {
      Reg at = G->r;
      if (!G->v.wide) ty_ptx(&G->E, "cvt.u64.u32 $, $", at = ty_ptx_reg(&G->E, REG_64), G->r);
      take(G, a, better(G, a, x, a->lane[0]), x, at);
      continue;
    }
    move(G, a->ctype, lane, ty_ptx_binary(&G->E, a->op, a->ctype, lane, x));
  }
}

/* acc = waiting op acc, for the node at `at` in local memory. */
static void join_waiting(Gen *G, Reg at) {
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    for (int k = 0; k < a->lanes && !a->at; k++) {
      const Reg x = ty_ptx_value(&G->E, a->ctype);
      ty_ptx(&G->E, "ld.local.~ $, [$+#]", bits_type(a->ctype), x, at, (i64)8 * (a->word + k));
      move(G, a->ctype, a->lane[k], ty_ptx_binary(&G->E, a->op, a->ctype, x, a->lane[k]));
    }
  }
}

static Reg waiting_first(Gen *G) {
  const Reg at = ty_ptx_reg(&G->E, REG_64);
  G->E.local = TY_MAX(G->E.local, 8 * G->words * (G->v.wide ? 44 : 24));
  ty_ptx(&G->E, "mov.u64 $, waiting", at);
  return at;
}

/* Walks over the bits of n from the lowest: `all` of them that are set (the end), or those up to the first that is not. */
static void over_waiting(Gen *G, Reg n, Reg at, bool all) {
  Ptx *E = &G->E;
  const int next = ty_ptx_label(E), skip = ty_ptx_label(E), done = ty_ptx_label(E);
  const Reg bits = ty_ptx_reg(E, REG_32), bit = ty_ptx_reg(E, REG_32), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "mov.b32 $, $", bits, n);
  ty_ptx_here(E, next);
  if (all) {
    ty_ptx(E, "setp.eq.u32 $, $, 0", p, bits);
    ty_ptx(E, "@$ bra @", p, done);
  }
  ty_ptx(E, "and.b32 $, $, 1", bit, bits);
  ty_ptx(E, "setp.eq.u32 $, $, 0", p, bit);
  ty_ptx(E, "@$ bra @", p, all ? skip : done);
  join_waiting(G, at);
  if (all) ty_ptx_here(E, skip);
  ty_ptx(E, "add.s64 $, $, #", at, at, (i64)8 * G->words);
  ty_ptx(E, "shr.u32 $, $, 1", bits, bits);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, done);
}

/* A node is complete, and waits; n nodes were before it. */
static void push_node(Gen *G, Reg n) {
  const Reg at = waiting_first(G);
  over_waiting(G, n, at, false);
  for (int k = 0; k < G->nacc; k++) {
    const Acc *a = &G->acc[k];
    for (int j = 0; j < a->lanes && !a->at; j++)
      ty_ptx(&G->E, "st.local.~ [$+#], $", bits_type(a->ctype), at, (i64)8 * (a->word + j),
             a->lane[j]);
  }
  ty_ptx(&G->E, "add.u32 $, $, 1", n, n);
}

/* The last node takes in all that waits. */
static void pop_nodes(Gen *G, Reg n) { over_waiting(G, n, waiting_first(G), true); }

/* The lanes of a thread. */
static Reg join_own(Gen *G, const Acc *a) {
  Ptx *E = &G->E;
  const Reg *x = a->lane;
  if (a->lanes == 1) return x[0];
  if (a->lanes == 2) return ty_ptx_binary(E, a->op, a->ctype, x[0], x[1]);
  const Reg even = ty_ptx_binary(E, a->op, a->ctype, x[0], x[2]);
  return ty_ptx_binary(E, a->op, a->ctype, even, ty_ptx_binary(E, a->op, a->ctype, x[1], x[3]));
}

/* x, joined with those of the row's other threads. */
static Reg join_threads(Gen *G, Acc *a, Reg x) {
  Ptx *E = &G->E;
  for (u64 by = (u64)row_threads(G) / 2; by && G->p->kind == K_ROW; by /= 2) {
    const Reg step = ty_ptx_const(E, C_I32, by),
              y = ty_ptx_shuffle(E, "bfly", a->ctype, x, step, 32);
    if (a->at) join_arg(G, a, y, ty_ptx_shuffle(E, "bfly", C_I64, a->at, step, 32));
    else x = ty_ptx_binary(E, a->op, a->ctype, x, y);
  }
  return x;
}

/* Lanes join, those that are farthest apart first; the values are those of the instructions. */
static void finish_accs(Gen *G) {
  Ptx *E = &G->E;
  for (int n = 0; n < G->nacc; n++) {
    Acc *a = &G->acc[n];
    Reg x;
    if (G->v.each && !a->at) {
      for (int k = 0; k < a->lanes; k++) a->lane[k] = join_threads(G, a, a->lane[k]);
      x = join_own(G, a);
      if (a->product && G->v.threads * G->v.each < LANES(ty_ptx_wide(a->ctype) ? 8 : 4))
        x = ty_ptx_binary(E, P_ADD, a->ctype, x, ty_ptx_const(E, a->ctype, 0)); /* of empty lanes */
    } else if (G->p->kind == K_COL) x = join_own(G, a);
    else x = join_threads(G, a, join_own(G, a));
    if (a->op == P_ADD && a->ctype >= C_F32) { /* of nothing: +0 */
      const Reg p = ty_ptx_reg(E, REG_PRED), zero = ty_ptx_const(E, a->ctype, 0),
                y = ty_ptx_value(E, a->ctype);
      ty_ptx(E, "setp.eq.~ $, $, 0", G->index, p, G->r_all);
      ty_ptx(E, "selp.~ $, $, $, $", bits_type(a->ctype), y, zero, x, p);
      x = y;
    }
    G->reg[a->instr] = a->at ? a->at : x;
  }
}

/* --- nodes by way of scratch */

/* The address of this thread's words: of group `group` of unit `unit`. */
static Reg node_place(Gen *G, Reg unit, Reg group) {
  Ptx *E = &G->E;
  const Reg y = ty_ptx_reg(E, REG_64), scratch = ty_ptx_param(E, REG_64, PARAM_SCRATCH);
  const char *step = G->v.wide ? "mad.lo.u64 $, $, $, $" : "mad.wide.u32 $, $, $, $";
  const bool row = G->p->kind == K_ROW;
  const Reg n =
      row ? index_op(G, "add", index_op(G, "mul.lo", unit, index_param(G, PARAM_GROUPS)), group)
          : group;
  Reg words = index_reg(G);
  index_move(G, words, n);
  Reg each = index_reg(G);
  if (row) { /* [unit][group][word][thread] */
    ty_ptx(E, "mov.~ $, #", G->v.wide ? "b64" : "b32", each, (i64)8 * row_threads(G) * G->words);
    ty_ptx(E, step, y, words, each, scratch);
    ty_ptx(E, "mad.wide.u32 $, $, 8, $", y, G->lane, y);
    return y;
  }
  /* [group][word][unit] */
  each = index_op(G, "mul.lo", words, index_param(G, PARAM_COUNT));
  ty_ptx(E, "mov.~ $, #", G->v.wide ? "b64" : "b32", words, (i64)8 * G->words);
  ty_ptx(E, step, y, each, words, scratch);
  ty_ptx(E, "mov.~ $, 8", G->v.wide ? "b64" : "b32", each = index_reg(G));
  ty_ptx(E, step, y, unit, each, y);
  return y;
}

/* From word to word. */
static Reg node_step(Gen *G) {
  Ptx *E = &G->E;
  const Reg y = ty_ptx_reg(E, REG_64);
  if (G->p->kind == K_ROW) {
    ty_ptx(E, "mov.b64 $, #", y, (i64)8 * row_threads(G));
    return y;
  }
  const Reg n = ty_ptx_param(E, REG_64, PARAM_COUNT);
  ty_ptx(E, "shl.b64 $, $, 3", y, n);
  return y;
}

static void store_node(Gen *G, Reg unit, Reg group) {
  Ptx *E = &G->E;
  const Reg at = node_place(G, unit, group), step = node_step(G);
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    for (int k = 0; k < a->lanes; k++) {
      ty_ptx(E, "st.global.~ [$], $", bits_type(a->ctype), at, a->lane[k]);
      ty_ptx(E, "add.s64 $, $, $", at, at, step);
    }
    if (!a->at) continue;
    ty_ptx(E, "st.global.b64 [$], $", at, a->at);
    ty_ptx(E, "add.s64 $, $, $", at, at, step);
  }
}

/* The node of a group: it is the thread's now, but that positions are joined at once. */
static void load_node(Gen *G, Reg unit, Reg group) {
  Ptx *E = &G->E;
  const Reg at = node_place(G, unit, group), step = node_step(G);
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    for (int k = 0; k < a->lanes; k++) {
      const Reg x = ty_ptx_value(E, a->ctype);
      ty_ptx(E, "ld.global.~ $, [$]", bits_type(a->ctype), x, at);
      ty_ptx(E, "add.s64 $, $, $", at, at, step);
      if (a->at) {
        const Reg position = ty_ptx_reg(E, REG_64);
        ty_ptx(E, "ld.global.b64 $, [$]", position, at);
        ty_ptx(E, "add.s64 $, $, $", at, at, step);
        join_arg(G, a, x, position);
      } else move(G, a->ctype, a->lane[k], x);
    }
  }
}

/* --- scans */

static void begin_scans(Gen *G) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN, P_MAX, P_ADD};
  G->nscan = 0;
  for (int i = 0; i < G->p->nbody; i++) {
    const Instr *in = &G->p->body[i];
    if (!ty_ptx_is_scan(in->op) || !G->C.class[i]) continue;
    const bool linear = in->op == P_SLIN;
    const int ctype = linear ? C_F64 : in->type;
    Scan *s = &G->scan[G->nscan++];
    *s = (Scan){i, ty_ptx_value(&G->E, ctype), ty_ptx_value(&G->E, ctype)};
    const u64 none = linear ? 0 : ty_ptx_identity(joins[in->op - P_SSUM], ctype);
    set(G, ctype, s->carry, none);
    set(G, ctype, s->offset, none);
  }
}

/* s = fma(s, a, b), one element after another; each thread keeps its own. */
static Reg scan_linear(Gen *G, const Scan *s, const Instr *in) {
  Ptx *E = &G->E;
  Reg a = G->reg[in->a], b = G->reg[in->b];
  if (in->type == C_F32) {
    const Reg a8 = ty_ptx_reg(E, REG_64), b8 = ty_ptx_reg(E, REG_64);
    ty_ptx(E, "cvt.f64.f32 $, $", a8, a);
    ty_ptx(E, "cvt.f64.f32 $, $", b8, b);
    a = a8, b = b8;
  }
  const Reg j = ty_ptx_reg(E, REG_32), own = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED);
  const int next = ty_ptx_label(E);
  ty_ptx(E, "mov.b32 $, 0", j);
  ty_ptx(E, "mov.b64 $, 0", own);
  ty_ptx_here(E, next);
  const Reg aj = ty_ptx_shuffle(E, "idx", C_F64, a, j, 32),
            bj = ty_ptx_shuffle(E, "idx", C_F64, b, j, 32);
  ty_ptx(E, "fma.rn.f64 $, $, $, $", s->carry, s->carry, aj, bj);
  ty_ptx(E, "setp.eq.u32 $, $, $", p, j, G->lane);
  ty_ptx(E, "selp.b64 $, $, $, $", own, s->carry, own, p);
  ty_ptx(E, "add.u32 $, $, 1", j, j);
  ty_ptx(E, "setp.lt.u32 $, $, 32", p, j);
  ty_ptx(E, "@$ bra @", p, next);
  if (in->type == C_F64) return own;
  const Reg y = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "cvt.rn.f32.f64 $, $", y, own);
  return y;
}

/* Two groups of 16, side by side; then the first one's end goes into the second. */
static void emit_scan(Gen *G, int i) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN, P_MAX};
  const Instr *in = &G->p->body[i];
  Ptx *E = &G->E;
  const Scan *s = G->scan;
  while (s->instr != i) s++;
  if (in->op == P_SLIN) {
    G->reg[i] = scan_linear(G, s, in);
    return;
  }
  const int ctype = in->type, op = joins[in->op - P_SSUM];
  const char *bits = bits_type(ctype);
  const Reg none = ty_ptx_const(E, ctype, ty_ptx_identity(op, ctype)), v = ty_ptx_value(E, ctype),
            low = ty_ptx_reg(E, REG_32), p = ty_ptx_reg(E, REG_PRED),
            upper = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "selp.~ $, $, $, $", bits, v, G->reg[in->a], none, E->guard);
  ty_ptx(E, "and.b32 $, $, 15", low, G->lane);
  ty_ptx(E, "setp.ge.u32 $, $, 16", upper, G->lane);
  for (u64 by = 1; by < 16; by *= 2) {
    const Reg step = ty_ptx_const(E, C_I32, by), up = ty_ptx_shuffle(E, "up", ctype, v, step, 16),
              sum = ty_ptx_binary(E, op, ctype, up, v);
    ty_ptx(E, "setp.ge.u32 $, $, $", p, low, step);
    ty_ptx(E, "selp.~ $, $, $, $", bits, v, sum, v, p);
  }
  const Reg first = ty_ptx_binary(E, op, ctype, s->carry, v),
            between = ty_ptx_shuffle(E, "idx", ctype, first, ty_ptx_const(E, C_I32, 15), 32),
            second = ty_ptx_binary(E, op, ctype, between, v), all = ty_ptx_value(E, ctype);
  ty_ptx(E, "selp.~ $, $, $, $", bits, all, second, first, upper);
  const Reg end = ty_ptx_shuffle(E, "idx", ctype, all, ty_ptx_const(E, C_I32, 31), 32);
  if (in->op == P_SMAXX) {
    const Reg before = ty_ptx_shuffle(E, "up", ctype, all, ty_ptx_const(E, C_I32, 1), 32),
              y = ty_ptx_value(E, ctype);
    ty_ptx(E, "setp.eq.u32 $, $, 0", p, G->lane);
    ty_ptx(E, "selp.~ $, $, $, $", bits, y, s->carry, before, p);
    G->reg[i] = G->v.mode == MODE_SCAN ? ty_ptx_binary(E, op, ctype, s->offset, y) : y;
  } else G->reg[i] = ty_ptx_binary(E, op, ctype, s->offset, all);
  move(G, ctype, s->carry, end);
}

/* Sums and products of floats begin anew, on top of what the blocks before came to. */
static void end_scan_block(Gen *G) {
  for (int n = 0; n < G->nscan; n++) {
    const Scan *s = &G->scan[n];
    const Instr *in = &G->p->body[s->instr];
    if (in->op > P_SPROD || in->type < C_F32) continue;
    const int op = in->op == P_SSUM ? P_ADD : P_MUL;
    move(G, in->type, s->offset, ty_ptx_binary(&G->E, op, in->type, s->offset, s->carry));
    set(G, in->type, s->carry, ty_ptx_identity(op, in->type));
  }
}

/* --- kernels */

/* The thread's number in the grid, and how many there are: `shift` 5 counts warps, and so on. */
static void number(Gen *G, int shift, Reg *first, Reg *step) {
  Ptx *E = &G->E;
  const Reg t = special(G, "tid.x"), b = special(G, "ctaid.x"), n = special(G, "nctaid.x"),
            own = ty_ptx_reg(E, REG_32);
  const i64 each = PROGRAM_THREADS >> shift;
  ty_ptx(E, "shr.u32 $, $, #", own, t, (i64)shift);
  ty_ptx(E, "and.b32 $, $, #", G->lane = ty_ptx_reg(E, REG_32), t, (1ll << shift) - 1);
  const Reg by = index_reg(G);
  ty_ptx(E, "mov.~ $, #", G->v.wide ? "b64" : "b32", by, each);
  *step = index_op(G, "mul.lo", index_of(G, n), by);
  const Reg at = index_op(G, "add", index_op(G, "mul.lo", index_of(G, b), by), index_of(G, own));
  *first = index_reg(G);
  index_move(G, *first, at);
}

/* What is new for each unit of work, whose coordinates are there: all of it, before anything branches. */
static void begin_unit(Gen *G) {
  memset(G->row_place, 0, sizeof G->row_place);
  for (int o = 0; o < G->p->noperands; o++) row_place(G, o);
}

/* Four values of an operand, to or from memory at once; at the tail those that are there. */
static void move_four(Gen *G, int operand, bool store) {
  Ptx *E = &G->E;
  const int dtype = G->p->operand[operand].dtype, ctype = ty_dtypes[dtype].ctype;
  const Reg first = row_place(G, operand);
  Reg *v = G->four[operand], each[FOUR];
  const int all = ty_ptx_label(E), done = ty_ptx_label(E);
  if (G->v.four == FOUR_TAIL) {
    ty_ptx(E, "@$ bra @", G->all, all);
    for (G->part = 0; G->part < FOUR; G->part++) {
      E->guard = G->there[G->part];
      if (store) ty_ptx_store(E, dtype, part_place(G, operand), v[G->part]);
      else each[G->part] = ty_ptx_load(E, dtype, part_place(G, operand));
      G->place[operand] = 0;
    }
    E->guard = 0;
    ty_ptx(E, "bra @", done);
    ty_ptx_here(E, all);
  }
  if (store) ty_ptx_store_vector(E, dtype, first, FOUR, v);
  else ty_ptx_load_vector(E, dtype, first, FOUR, v);
  if (G->v.four == FOUR_TAIL) {
    for (int i = 0; i < FOUR && !store; i++) move(G, ctype, each[i], v[i]);
    ty_ptx_here(E, done);
    if (!store) memcpy(v, each, sizeof each);
  }
}

/* Four neighbours: all loads first, then each by itself, then the stores. */
static void four_elements(Gen *G, Reg i) {
  Ptx *E = &G->E;
  const Program *p = G->p;
  if (G->v.four == FOUR_TAIL) {
    const Reg four = index_reg(G), first = index_reg(G);
    ty_ptx(E, "mov.~ $, 4", G->v.wide ? "b64" : "b32", four);
    index_move(G, first, index_op(G, "mul.lo", i, four));
    for (int k = 0; k < FOUR; k++) {
      const Reg own = index_reg(G);
      ty_ptx(E, "add.~ $, $, #", G->index, own, first, (i64)k);
      ty_ptx(E, "setp.lt.~ $, $, $", G->index, G->there[k] = ty_ptx_reg(E, REG_PRED), own,
             G->r_all);
    }
    G->all = G->there[FOUR - 1];
  }
  memset(G->place, 0, sizeof G->place);
  for (int k = 0; k < p->nbody; k++)
    if (p->body[k].op == P_LOAD && G->need[k] && is_flat(G, (int)p->body[k].imm))
      move_four(G, (int)p->body[k].imm, false);
  for (int part = 0; part < FOUR; part++) {
    G->part = part;
    E->guard = G->v.four == FOUR_TAIL ? G->there[part] : 0;
    element(G, 0);
    E->guard = 0;
  }
  for (int k = 0; k < p->nbody; k++)
    if (p->body[k].op == P_STORE && G->C.class[k]) move_four(G, (int)p->body[k].imm, true);
}

static void map_kernel(Gen *G) {
  Ptx *E = &G->E;
  Reg i, step;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  number(G, 0, &i, &step);
  ty_ptx_here(E, next);
  jump(G, "ge", i, G->count, out);
  decompose(G, i, 0, G->l.nd - (G->v.four != FOUR_NONE));
  begin_unit(G);
  need_of(G, 0);
  if (G->v.four) four_elements(G, i);
  else element(G, 0);
  ty_ptx(E, "add.~ $, $, $", G->index, i, i, step);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

/* Elements [from, to) of a row, which begin with lane 0. */
static void row_elements(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  const Reg base = index_reg(G), lane = index_of(G, G->lane);
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  index_move(G, base, from);
  ty_ptx_here(E, next);
  jump(G, "ge", base, to, out);
  for (int sub = 0; sub < 2; sub++) {
    const int skip = ty_ptx_label(E);
    G->r = index_op(G, "add", base, lane);
    jump(G, "ge", G->r, to, skip);
    decompose(G, G->r, G->v.no, G->v.no + G->v.nr);
    element(G, sub);
    ty_ptx_here(E, skip);
    ty_ptx(E, "add.~ $, $, 32", G->index, base, base);
  }
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

/* The same by neighbours, `each` a thread: loads of all of them first, stores of all of them last. */
static void row_parts(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  const Program *p = G->p;
  const int each = G->v.each, next = ty_ptx_label(E), out = ty_ptx_label(E), skip = ty_ptx_label(E);
  const Reg base = index_reg(G), own = index_reg(G), first = index_reg(G);
  ty_ptx(E, "mov.~ $, #", G->v.wide ? "b64" : "b32", own, (i64)each);
  const Reg lane = index_op(G, "mul.lo", index_of(G, G->lane), own);
  index_move(G, base, from);
  ty_ptx_here(E, next);
  jump(G, "ge", base, to, out);
  ty_ptx(E, "add.~ $, $, $", G->index, first, base, lane);
  jump(G, "ge", first, to, skip);
  decompose(G, first, G->v.no, G->v.no + G->v.nr);
  memset(G->first, 0, sizeof G->first);
  G->part = 0;
  for (int k = 0; k < p->nbody; k++) {
    const int o = (int)p->body[k].imm;
    if (p->body[k].op == P_LOAD && G->need[k] && G->C.class[k] == CLASS_ELEM && is_flat(G, o))
      ty_ptx_load_vector(E, p->operand[o].dtype, part_place(G, o), each, G->four[o]);
  }
  for (G->part = 0; G->part < each; G->part++) {
    ty_ptx(E, "add.~ $, $, #", G->index, G->r = index_reg(G), first, (i64)G->part);
    element(G, G->part);
  }
  G->part = 0;
  for (int k = 0; k < p->nbody; k++) {
    const int o = (int)p->body[k].imm;
    if (p->body[k].op == P_STORE && G->need[k] && G->C.class[k] == CLASS_ELEM && is_flat(G, o))
      ty_ptx_store_vector(E, p->operand[o].dtype, part_place(G, o), each, G->four[o]);
  }
  ty_ptx_here(E, skip);
  ty_ptx(E, "add.~ $, $, #", G->index, base, base, (i64)each * G->v.threads);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

/* The same of a scan: all threads of the warp go along. Blocks end in a row that is not cut. */
static void scan_elements(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  const Reg base = index_reg(G), lane = index_of(G, G->lane), p = ty_ptx_reg(E, REG_PRED);
  const Reg last = index_reg(G), mask = index_reg(G);
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  index_move(G, base, from);
  ty_ptx(E, "mov.~ $, #", G->v.wide ? "b64" : "b32", mask, (i64)BLOCK - 1);
  ty_ptx_here(E, next);
  jump(G, "ge", base, to, out);
  G->r = index_op(G, "add", base, lane);
  ty_ptx(E, "setp.lt.~ $, $, $", G->index, p, G->r, to);
  E->guard = p;
  decompose(G, G->r, G->v.no, G->v.no + G->v.nr);
  element(G, 0);
  E->guard = 0;
  ty_ptx(E, "add.~ $, $, 32", G->index, base, base);
  if (G->v.mode == MODE_WHOLE) {
    const Reg q = ty_ptx_reg(E, REG_PRED);
    ty_ptx(E, "and.~ $, $, $", G->v.wide ? "b64" : "b32", last, base, mask);
    ty_ptx(E, "setp.ne.~ $, $, 0", G->index, q, last);
    ty_ptx(E, "@$ bra @", q, next);
    end_scan_block(G);
  }
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

/* Rows [from, to) of a column, which begin with lane 0. */
static void column_elements(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  const Reg base = index_reg(G);
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  index_move(G, base, from);
  ty_ptx_here(E, next);
  for (int sub = 0; sub < COL_LANES; sub++) {
    jump(G, "ge", base, to, out);
    G->r = base;
    decompose(G, base, G->v.no, G->v.no + G->v.nr);
    element(G, sub);
    ty_ptx(E, "add.~ $, $, 1", G->index, base, base);
  }
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

static void elements(Gen *G, Reg from, Reg to) {
  if (G->v.each) row_parts(G, from, to);
  else if (G->p->kind == K_ROW) row_elements(G, from, to);
  else column_elements(G, from, to);
}

static Reg zero_index(Gen *G) {
  const Reg y = index_reg(G);
  ty_ptx(&G->E, "mov.~ $, 0", G->v.wide ? "b64" : "b32", y);
  return y;
}

/* Elements [from, to), block by block: the accumulators hold the node of all. */
static void blocks(Gen *G, Reg from, Reg to) {
  Ptx *E = &G->E;
  clear_accs(G, true);
  if (G->v.one || !G->nacc) { /* nothing waits */
    elements(G, from, to);
    return;
  }
  const Reg at = index_reg(G), end = index_reg(G), n = ty_ptx_reg(E, REG_32), size = index_reg(G);
  const int next = ty_ptx_label(E), last = ty_ptx_label(E);
  ty_ptx(E, "mov.b32 $, 0", n);
  ty_ptx(E, "mov.~ $, #", G->v.wide ? "b64" : "b32", size,
         (i64)(G->p->kind == K_ROW ? BLOCK : COL_BLOCK));
  index_move(G, at, from);
  ty_ptx_here(E, next);
  index_move(G, end, index_op(G, "min", to, index_op(G, "add", at, size)));
  elements(G, at, end);
  jump(G, "ge", end, to, last);
  push_node(G, n);
  clear_accs(G, false);
  index_move(G, at, end);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, last);
  pop_nodes(G, n);
}

/* Passes over a row or column: reductions, what follows them, stores. */
static void whole_unit(Gen *G) {
  emit_class(G, CLASS_ROW, 0);
  for (int phase = 0; phase < G->C.phases; phase++) {
    need_of(G, phase);
    begin_accs(G, phase);
    if (G->C.scans) begin_scans(G), scan_elements(G, zero_index(G), G->r_all);
    else blocks(G, zero_index(G), G->r_all);
    finish_accs(G);
    emit_class(G, CLASS_ROW, phase + 1);
  }
}

static void row_stores(Gen *G) {
  G->E.guard = G->one_lane;
  for (int i = 0; i < G->p->nbody; i++)
    if (G->p->body[i].op == P_STORE && G->C.class[i] == CLASS_ROW) emit(G, i);
  G->E.guard = 0;
}

/* The group's part of R, from its number. */
static void part_unit(Gen *G, Reg unit, Reg group) {
  const Reg size = index_reg(G);
  ty_ptx(&G->E, "mov.~ $, #", G->v.wide ? "b64" : "b32", size,
         (i64)(G->p->kind == K_ROW ? BLOCK : COL_BLOCK));
  const Reg each = index_op(G, "mul.lo", size, index_param(G, PARAM_GROUP)),
            from = index_op(G, "mul.lo", group, each),
            to = index_op(G, "min", G->r_all, index_op(G, "add", from, each));
  emit_class(G, CLASS_ROW, 0);
  need_of(G, 0);
  begin_accs(G, 0);
  blocks(G, from, to);
  store_node(G, unit, group);
}

/* What scans of a row need of each element: their operands alone. */
static void need_of_scans(Gen *G) {
  memset(G->need, 0, sizeof G->need);
  for (int i = G->p->nbody - 1; i >= 0; i--) {
    const Instr *in = &G->p->body[i];
    G->need[i] |= ty_ptx_is_scan(in->op) && G->C.class[i];
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3 && G->need[i]; k++)
      if (ops[k] >= 0) G->need[ops[k]] = true;
  }
}

/* Where scratch has the numbers of a row's block, 8 bytes for each scan; *step: from block to block. */
static Reg scan_place(Gen *G, Reg unit, Reg group, i64 *step) {
  Ptx *E = &G->E;
  const Reg at = index_op(G, "add", index_op(G, "mul.lo", unit, index_param(G, PARAM_GROUPS)),
                          group),
            y = ty_ptx_reg(E, REG_64);
  *step = (i64)8 * G->nscan;
  ty_ptx(E, G->v.wide ? "mad.lo.s64 $, $, #, $" : "mad.wide.u32 $, $, #, $", y, at, *step,
         ty_ptx_param(E, REG_64, PARAM_SCRATCH));
  return y;
}

/* A block of a row: TOTALS stores what its scans come to, SCAN begins with what the blocks before came to. */
static void scan_unit(Gen *G, Reg unit, Reg group) {
  Ptx *E = &G->E;
  const Reg size = index_reg(G);
  i64 step;
  ty_ptx(E, "mov.~ $, #", G->v.wide ? "b64" : "b32", size, (i64)BLOCK);
  const Reg from = index_op(G, "mul.lo", group, size),
            to = index_op(G, "min", G->r_all, index_op(G, "add", from, size));
  emit_class(G, CLASS_ROW, 0);
  begin_scans(G);
  const Reg at = scan_place(G, unit, group, &step);
  if (G->v.mode == MODE_TOTALS) need_of_scans(G);
  else {
    need_of(G, 0);
    for (int n = 0; n < G->nscan; n++)
      ty_ptx(E, "ld.global.~ $, [$+#]", bits_type(G->p->body[G->scan[n].instr].type),
             G->scan[n].offset, at, (i64)8 * n);
  }
  scan_elements(G, from, to);
  for (int n = 0; n < G->nscan && G->v.mode == MODE_TOTALS; n++)
    ty_ptx(E, "@$ st.global.~ [$+#], $", G->one_lane, bits_type(G->p->body[G->scan[n].instr].type),
           at, (i64)8 * n, G->scan[n].carry);
}

/* A row's totals become what comes before each block, one after another; AHEAD of them are read at a time. */
static void offsets_unit(Gen *G, Reg unit) {
  enum { AHEAD = 16 };
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN, P_MAX};
  Ptx *E = &G->E;
  const Reg groups = index_param(G, PARAM_GROUPS);
  begin_scans(G);
  for (int n = 0; n < G->nscan; n++) {
    const Scan *s = &G->scan[n];
    const Instr *in = &G->p->body[s->instr];
    const char *bits = bits_type(in->type);
    const int next = ty_ptx_label(E), out = ty_ptx_label(E);
    const Reg group = index_reg(G), zero = zero_index(G);
    i64 step;
    Reg at = ty_ptx_reg(E, REG_64), there[AHEAD], total[AHEAD];
    index_move(G, group, zero);
    ty_ptx(E, "add.s64 $, $, #", at, scan_place(G, unit, zero, &step), (i64)8 * n);
    ty_ptx_here(E, next);
    jump(G, "ge", group, groups, out);
    for (int k = 0; k < AHEAD; k++) {
      const Reg own = index_reg(G);
      ty_ptx(E, "add.~ $, $, #", G->index, own, group, (i64)k);
      ty_ptx(E, "setp.lt.~ $, $, $", G->index, there[k] = ty_ptx_reg(E, REG_PRED), own, groups);
      set(G, in->type, total[k] = ty_ptx_value(E, in->type), 0);
      ty_ptx(E, "@$ ld.global.~ $, [$+#]", there[k], bits, total[k], at, k * step);
    }
    for (int k = 0; k < AHEAD; k++) {
      ty_ptx(E, "@$ st.global.~ [$+#], $", there[k], bits, at, k * step, s->offset);
      move(G, in->type, s->offset,
           ty_ptx_binary(E, joins[in->op - P_SSUM], in->type, s->offset, total[k]));
    }
    ty_ptx(E, "add.~ $, $, #", G->index, group, group, (i64)AHEAD);
    ty_ptx(E, "add.s64 $, $, #", at, at, AHEAD * step);
    ty_ptx(E, "bra @", next);
    ty_ptx_here(E, out);
  }
}

static void finish_unit(Gen *G, Reg unit) {
  Ptx *E = &G->E;
  const int next = ty_ptx_label(E), last = ty_ptx_label(E);
  const Reg group = zero_index(G), groups = index_param(G, PARAM_GROUPS), n = ty_ptx_reg(E, REG_32);
  emit_class(G, CLASS_ROW, 0);
  begin_accs(G, 0);
  clear_accs(G, true);
  ty_ptx(E, "mov.b32 $, 0", n);
  ty_ptx_here(E, next);
  load_node(G, unit, group);
  ty_ptx(E, "add.~ $, $, 1", G->index, group, group);
  jump(G, "ge", group, groups, last);
  push_node(G, n);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, last);
  pop_nodes(G, n);
  finish_accs(G);
  emit_class(G, CLASS_ROW, 1);
  row_stores(G);
}

static void reduce_kernel(Gen *G) {
  Ptx *E = &G->E;
  Reg i, step, units = G->count, unit, group = 0;
  const Mode mode = G->v.mode;
  const bool row = G->p->kind == K_ROW,
             cut = mode == MODE_PART || mode == MODE_TOTALS || mode == MODE_SCAN;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  number(G, row && mode != MODE_OFFSETS ? __builtin_ctz((u32)row_threads(G)) : 0, &i, &step);
  if (row && mode != MODE_OFFSETS)
    ty_ptx(E, "setp.eq.u32 $, $, 0", G->one_lane = ty_ptx_reg(E, REG_PRED), G->lane);
  if (cut) units = index_op(G, "mul.lo", units, index_param(G, PARAM_GROUPS));
  ty_ptx_here(E, next);
  jump(G, "ge", i, units, out);
  unit = i;
  if (cut) { /* neighbours have the same group: columns are read side by side */
    const Reg n = row ? index_param(G, PARAM_GROUPS) : G->count, q = index_op(G, "div", i, n),
              rest = index_op(G, "sub", i, index_op(G, "mul.lo", q, n));
    unit = row ? q : rest, group = row ? rest : q;
  }
  Reg o = unit;
  if (!row) {
    const Reg n = index_param(G, PARAM_I);
    o = index_op(G, "div", unit, n);
    decompose(G, index_op(G, "sub", unit, index_op(G, "mul.lo", o, n)), G->v.no + G->v.nr, G->l.nd);
  }
  decompose(G, o, 0, G->v.no);
  begin_unit(G);
  switch (mode) {
  case MODE_PART: part_unit(G, unit, group); break;
  case MODE_FINISH: finish_unit(G, unit); break;
  case MODE_TOTALS:
  case MODE_SCAN: scan_unit(G, unit, group); break;
  case MODE_OFFSETS: offsets_unit(G, unit); break;
  default: whole_unit(G), row_stores(G);
  }
  ty_ptx(E, "add.~ $, $, $", G->index, i, i, step);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

Text ty_ptx_program(const Program *p, const Variant *v) {
  Gen *G = ty_mem_zalloc(sizeof *G);
  if (!G) return (Text){.failed = true};
  G->p = p, G->v = *v, G->l = ty_ptx_layout(p, v);
  G->index = v->wide ? "s64" : "u32";
  ty_ptx_classify(p, &G->C);
  const int end = ty_ptx_begin(&G->E);
  G->count = index_param(G, PARAM_COUNT);
  G->r_all = index_param(G, PARAM_R);
  for (int i = 0; i < p->nbody; i++)
    if (G->C.class[i] == CLASS_UNIFORM) emit(G, i);
  if (p->kind == K_MAP) map_kernel(G);
  else reduce_kernel(G);
  const Text t = ty_ptx_end(&G->E, end, G->l.bytes, PROGRAM_THREADS);
  ty_mem_free(G);
  return t;
}
