/*
** interpret.c -- loop programs as steps of the interpreting kernel, for one launch.
** In:  a program, its merged dims, a run.  Out: the kernel is launched. Fails when memory runs out, and where the kernel
** cannot be had.
** How a domain is shared out, and the canonical order, are those of ptx_program.c, but that a thread of a map has one
** element and rows are never cut. A warp takes the same steps throughout: what lies beyond an end is guarded. Addresses
** and extents are constants of the steps, which are made anew for each launch: this is for the few until a kernel is there.
*/
#include "base/system.h"
#include "device/cuda/interpret.h"
#include "device/cuda/library.h"
#include "device/cuda/ptx_class.h"
#include "device/cuda/ptx_interpret.h"

#include <stdlib.h>

enum { BLOCKS_MOST = 32, LABELS_MOST = 4 * MAX_BODY };

typedef u32 Word;

typedef struct Acc {
  int instr, lanes, word; /* word: of a waiting node */
  u8 op, ctype;
  bool product, arg;
  Word lane[COL_LANES], at;
} Acc;

typedef struct Gen {
  const Program *p;
  const Shape *s;
  const Run *r;
  Classes C;
  Step *step;
  i32 n, cap;
  bool failed;
  Word words; /* so far; 0 is 0 */
  Word value[MAX_BODY], coord[MAX_DIMS], row_place[MAX_OPERANDS], place[MAX_OPERANDS];
  bool need[MAX_BODY];
  Acc acc[MAX_BODY / 2];
  int nacc, node;                         /* node: words of one */
  Word carry[MAX_BODY], offset[MAX_BODY]; /* of scans, by instruction */
  Word lane, one, count, unit, active, r_at, r_all, waiting;
} Gen;

static Word word(Gen *G) { return ++G->words; }

static int put(Gen *G, Step s) {
  if (G->n == G->cap) {
    const i32 cap = G->cap * 2 + 256;
    Step *more = ty_mem_realloc(G->step, (size_t)cap * sizeof *more);
    if (!more) return G->failed = true, G->n = 0;
    G->step = more, G->cap = cap;
  }
  G->step[G->n] = s;
  return G->n++;
}

static void put_to(Gen *G, Word y, u32 op, Word a, Word b, Word c, u64 imm) {
  put(G, (Step){op, y, a, b, c, 0, imm});
}

static Word give(Gen *G, u32 op, Word a, Word b, Word c, u64 imm) {
  const Word y = word(G);
  put_to(G, y, op, a, b, c, imm);
  return y;
}

static Word constant(Gen *G, u64 bits) { return bits ? give(G, S_CONST, 0, 0, 0, bits) : 0; }
static void move(Gen *G, Word to, Word from) { put_to(G, to, S_MOVE, from, 0, 0, 0); }

static Word prim(Gen *G, int op, int type, int from, Word a, Word b) {
  const Instr in = {.op = (u8)op, .type = (u8)type, .from = (u8)from};
  return give(G, ty_interpret_op(&in, from), a, b, 0, 0);
}
static Word binary(Gen *G, int op, int ctype, Word a, Word b) {
  return prim(G, op, ctype, ctype, a, b);
}
static Word choose(Gen *G, Word p, Word a, Word b) {
  const Instr in = {.op = P_SEL};
  return give(G, ty_interpret_op(&in, C_I32), p, a, b, 0);
}
static Word compare(Gen *G, int op, int ctype, Word a, Word b) {
  return prim(G, op, C_I32, ctype, a, b);
}

/* Jumps: to a step that is there, or to one that comes. */
static void jump_less(Gen *G, Word a, Word b, int to) { put_to(G, 0, S_LESS, a, b, 0, (u64)to); }
static void jump(Gen *G, int to) { put_to(G, 0, S_JUMP, 0, 0, 0, (u64)to); }
static int later_less(Gen *G, Word a, Word b) {
  return put(G, (Step){.op = S_LESS, .a = a, .b = b});
}
static int later(Gen *G) { return put(G, (Step){.op = S_JUMP}); }
static void here(Gen *G, int from) {
  if (!G->failed) G->step[from].imm = (u64)G->n;
}
static void guard(Gen *G, Word a, Word b) { put_to(G, 0, S_GUARD, a, b, 0, 0); }

/* --- places */

static void decompose(Gen *G, Word number, int from, int to) {
  for (int d = to - 1; d > from; d--) {
    const Word n = constant(G, (u64)G->s->dims[d]), q = prim(G, P_DIVI, C_I64, C_I64, number, n);
    G->coord[d] = prim(G, P_SUB, C_I64, C_I64, number, prim(G, P_MUL, C_I64, C_I64, q, n));
    number = q;
  }
  if (from < to) G->coord[from] = number;
}

static Word along(Gen *G, int o, Word base, int from, int to) {
  for (int d = from; d < to; d++)
    if (G->s->strides[o][d])
      base = give(G, S_MAD, G->coord[d], constant(G, (u64)G->s->strides[o][d]), base, 0);
  return base;
}

static i64 start_of(Gen *G, int o) {
  const i64 start = G->r->launch->start[o];
  return G->r->buf[o]
             ? (i64)(uintptr_t)G->r->buf[o] + start * ty_dtypes[G->p->operand[o].dtype].bytes
             : start;
}

static Word row_place(Gen *G, int o) {
  if (G->row_place[o]) return G->row_place[o];
  const int no = G->s->n[0], nr = G->s->n[1], ni = G->s->n[2];
  Word y = constant(G, (u64)start_of(G, o));
  y = along(G, o, y, 0, G->p->kind == K_MAP ? no + nr + ni : no);
  if (G->p->kind != K_MAP) y = along(G, o, y, no + nr, no + nr + ni);
  return G->row_place[o] = y;
}

static Word place(Gen *G, const Instr *in, bool elem) {
  const int o = (int)in->imm, no = G->s->n[0];
  if (!elem || G->p->kind == K_MAP) return row_place(G, o);
  if (!G->place[o]) {
    const Word y = along(G, o, row_place(G, o), no, no + G->s->n[1]);
    if (y == G->row_place[o]) return y;
    G->place[o] = y;
  }
  return G->place[o];
}

/* --- values */

static void emit_scan(Gen *G, int i);

static void emit(Gen *G, int i) {
  const Instr *in = &G->p->body[i];
  const bool elem = G->C.class[i] == CLASS_ELEM;
  const Word a = in->a < 0 ? 0 : G->value[in->a], b = in->b < 0 ? 0 : G->value[in->b],
             c = in->c < 0 ? 0 : G->value[in->c];
  const u64 mask = ty_ptx_wide(in->type) ? ~0ull : 0xffffffff;
  const int o = (int)in->imm;
  Word y;
  switch (in->op) {
  case P_CONST: y = constant(G, in->imm & mask); break;
  case P_SCALAR: y = constant(G, G->r->scalar[in->imm] & mask); break;
  case P_IOTA: y = place(G, in, elem); break;
  case P_LOAD: y = give(G, S_LOAD + G->p->operand[o].dtype, place(G, in, elem), 0, 0, 0); break;
  case P_GLOAD: {
    const int dtype = G->p->operand[o].dtype;
    const i64 step = G->r->launch->gstride[o] * ty_dtypes[dtype].bytes;
    y = give(G, S_LOAD + (u32)dtype,
             give(G, S_MAD, a, constant(G, (u64)step), place(G, in, elem), 0), 0, 0, 0);
    break;
  }
  case P_STORE: put_to(G, 0, S_STORE + G->p->operand[o].dtype, place(G, in, elem), a, 0, 0); return;
  default:
    if (ty_ptx_is_scan(in->op)) {
      emit_scan(G, i);
      return;
    }
    y = give(G, ty_interpret_op(in, in->a < 0 ? 0 : G->p->body[in->a].type), a, b, c, 0);
  }
  G->value[i] = y;
}

static void emit_class(Gen *G, int class, int phase) {
  for (int i = 0; i < G->p->nbody; i++) {
    const int op = G->p->body[i].op;
    if (G->C.class[i] == class && (class == CLASS_UNIFORM || G->C.phase[i] == phase) &&
        op != P_STORE && !ty_ptx_is_reduce(op))
      emit(G, i);
  }
}

/* What a pass computes of each element: for its reductions and, in the last one, for stores. */
static void need_of(Gen *G, int phase) {
  memset(G->need, 0, sizeof G->need);
  for (int i = G->p->nbody - 1; i >= 0; i--) {
    const Instr *in = &G->p->body[i];
    const bool sink =
        (ty_ptx_is_reduce(in->op) && G->C.class[i] && G->C.phase[i] == phase + 1) ||
        (in->op == P_STORE && G->C.class[i] == CLASS_ELEM && phase == G->C.phases - 1);
    G->need[i] |= sink;
    if (!sink && (!G->need[i] || G->C.class[i] != CLASS_ELEM)) continue;
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3; k++)
      if (ops[k] >= 0) G->need[ops[k]] = true;
  }
}

static void fold(Gen *G, int sub);

static void element(Gen *G, int sub) {
  memset(G->place, 0, sizeof G->place);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < G->p->nbody; i++)
      if (G->need[i] && G->C.class[i] == CLASS_ELEM && (G->p->body[i].op == P_STORE) == pass)
        emit(G, i);
    if (!pass) fold(G, sub);
  }
}

/* --- reductions */

static void begin_accs(Gen *G, int phase) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN};
  G->nacc = 0, G->node = 0;
  for (int i = 0; i < G->p->nbody; i++) {
    const Instr *in = &G->p->body[i];
    if (!ty_ptx_is_reduce(in->op) || !G->C.class[i] || G->C.phase[i] != phase + 1) continue;
    Acc *a = &G->acc[G->nacc++];
    *a = (Acc){.instr = i, .ctype = in->from, .arg = ty_ptx_is_arg(in->op), .word = G->node};
    a->op = a->arg ? in->op : joins[in->op - P_RSUM];
    a->lanes = ty_ptx_lanes(G->p, in);
    a->product = in->op == P_RSUM && in->imm == SUM_OF_PRODUCTS;
    for (int k = 0; k < a->lanes; k++) a->lane[k] = word(G);
    if (a->arg) a->at = word(G);
    else G->node += a->lanes;
  }
}

static void clear_accs(Gen *G, bool at) {
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    if (a->arg && !at) continue;
    const Word none = constant(G, a->product ? 0 : ty_ptx_identity(a->op, a->ctype));
    for (int k = 0; k < a->lanes; k++) move(G, a->lane[k], none);
    if (a->arg) move(G, a->at, 0);
  }
}

/* Whether e is better than b: a NaN is, than what is none. */
static Word better(Gen *G, const Acc *a, Word e, Word b) {
  const Word p =
      a->op == P_RARGMAX ? compare(G, P_LT, a->ctype, b, e) : compare(G, P_LT, a->ctype, e, b);
  if (a->ctype < C_F32) return p;
  const Word number = compare(G, P_EQ, a->ctype, b, b),
             nan = binary(G, P_XOR, C_I64, compare(G, P_EQ, a->ctype, e, e), G->one);
  return binary(G, P_OR, C_I64, p, binary(G, P_AND, C_I64, nan, number));
}

static void take(Gen *G, const Acc *a, Word p, Word e, Word at) {
  move(G, a->lane[0], choose(G, p, e, a->lane[0]));
  move(G, a->at, choose(G, p, at, a->at));
}

/* Of equal ones the first. */
static void join_arg(Gen *G, const Acc *a, Word e, Word at) {
  const Word p = better(G, a, e, a->lane[0]), q = better(G, a, a->lane[0], e),
             first = binary(G, P_AND, C_I64, compare(G, P_LT, C_I64, at, a->at),
                            binary(G, P_XOR, C_I64, q, G->one));
  take(G, a, binary(G, P_OR, C_I64, p, first), e, at);
}

static Word guarded(Gen *G, Word a, Word b) { return give(G, S_GUARDED, a, b, 0, 0); }

static void fold(Gen *G, int sub) {
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    const Instr *of = &G->p->body[G->p->body[a->instr].a];
    const Word lane = a->lane[sub % a->lanes], x = G->value[of - G->p->body];
    if (a->arg) {
      take(G, a, guarded(G, better(G, a, x, a->lane[0]), 0), x, G->r_at);
      continue;
    }
    Word y;
    if (a->product && a->ctype >= C_F32) {
      const Instr fma = {.op = P_FMA, .type = a->ctype};
      y = give(G, ty_interpret_op(&fma, a->ctype), G->value[of->a], G->value[of->b], lane, 0);
    } else y = binary(G, a->op, a->ctype, lane, x);
    move(G, lane, guarded(G, y, lane));
  }
}

/* The waiting node of a level joins in. level: a word, times the words of a node. */
static void join_waiting(Gen *G, Word level) {
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    for (int k = 0; k < a->lanes && !a->arg; k++) {
      const Word x = give(G, S_GET, level, 0, 0, G->waiting + (u64)(a->word + k));
      move(G, a->lane[k], binary(G, a->op, a->ctype, x, a->lane[k]));
    }
  }
}

/* Walks over the bits of n from the lowest: all that are set, or those up to the first that is not. Gives the level. */
static Word over_waiting(Gen *G, Word n, bool all) {
  const Word bits = word(G), level = word(G), size = constant(G, (u64)G->node);
  int skip = -1;
  move(G, bits, n);
  move(G, level, 0);
  const int next = G->n;
  const int done = later_less(G, bits, G->one); /* nothing is left */
  const Word bit = binary(G, P_AND, C_I64, bits, G->one);
  const int end = later_less(G, bit, G->one);
  if (all) skip = end;
  join_waiting(G, level);
  if (all) here(G, skip);
  move(G, level, binary(G, P_ADD, C_I64, level, size));
  move(G, bits, binary(G, P_SHRU, C_I64, bits, G->one));
  jump(G, next);
  here(G, done);
  if (!all) here(G, end);
  return level;
}

static void push_node(Gen *G, Word n) {
  const Word level = over_waiting(G, n, false);
  for (int k = 0; k < G->nacc; k++)
    for (int j = 0; j < G->acc[k].lanes && !G->acc[k].arg; j++)
      put_to(G, 0, S_PUT, level, G->acc[k].lane[j], 0, G->waiting + (u64)(G->acc[k].word + j));
  move(G, n, binary(G, P_ADD, C_I64, n, G->one));
}

static Word join_lanes(Gen *G, const Acc *a) {
  if (a->lanes == 1) return a->lane[0];
  if (a->lanes == 2) return binary(G, a->op, a->ctype, a->lane[0], a->lane[1]);
  const Word even = binary(G, a->op, a->ctype, a->lane[0], a->lane[2]),
             odd = binary(G, a->op, a->ctype, a->lane[1], a->lane[3]);
  return binary(G, a->op, a->ctype, even, odd);
}

static void finish_accs(Gen *G) {
  for (int n = 0; n < G->nacc; n++) {
    const Acc *a = &G->acc[n];
    Word x = join_lanes(G, a);
    for (u64 by = 16; by && G->p->kind == K_ROW; by /= 2) {
      const Word y = give(G, S_BUTTERFLY, x, 0, 0, by);
      if (a->arg) join_arg(G, a, y, give(G, S_BUTTERFLY, a->at, 0, 0, by));
      else x = binary(G, a->op, a->ctype, x, y);
    }
    if (a->op == P_ADD && a->ctype >= C_F32 && !G->s->extent[1]) x = 0;
    G->value[a->instr] = a->arg ? a->at : x;
  }
}

/* --- scans */

static void begin_scans(Gen *G) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN, P_MAX, P_ADD};
  for (int i = 0; i < G->p->nbody; i++) {
    const Instr *in = &G->p->body[i];
    if (!ty_ptx_is_scan(in->op) || !G->C.class[i]) continue;
    const Word none =
        constant(G, in->op == P_SLIN ? 0 : ty_ptx_identity(joins[in->op - P_SSUM], in->type));
    G->carry[i] = word(G), G->offset[i] = word(G);
    move(G, G->carry[i], none);
    move(G, G->offset[i], none);
  }
}

/* s = fma(s, a, b), one element after another; each thread keeps its own. */
static void scan_linear(Gen *G, int i) {
  const Instr *in = &G->p->body[i], fma = {.op = P_FMA, .type = C_F64};
  const bool single = in->type == C_F32;
  const Word a = single ? prim(G, P_CVT, C_F64, C_F32, G->value[in->a], 0) : G->value[in->a],
             b = single ? prim(G, P_CVT, C_F64, C_F32, G->value[in->b], 0) : G->value[in->b],
             j = word(G), own = word(G), end = constant(G, 32);
  move(G, j, 0);
  move(G, own, 0);
  const int next = G->n;
  const Word aj = give(G, S_OF, a, j, 0, 0), bj = give(G, S_OF, b, j, 0, 0);
  put_to(G, G->carry[i], ty_interpret_op(&fma, C_F64), G->carry[i], aj, bj, 0);
  move(G, own, choose(G, compare(G, P_EQ, C_I64, j, G->lane), G->carry[i], own));
  move(G, j, binary(G, P_ADD, C_I64, j, G->one));
  jump_less(G, j, end, next);
  G->value[i] = single ? prim(G, P_CVT, C_F32, C_F64, own, 0) : own;
}

static void emit_scan(Gen *G, int i) {
  static const u8 joins[] = {P_ADD, P_MUL, P_MAX, P_MIN, P_MAX};
  const Instr *in = &G->p->body[i];
  if (in->op == P_SLIN) {
    scan_linear(G, i);
    return;
  }
  const int t = in->type, op = joins[in->op - P_SSUM];
  const Word fifteen = constant(G, 15), low = binary(G, P_AND, C_I64, G->lane, fifteen);
  Word v = guarded(G, G->value[in->a], constant(G, ty_ptx_identity(op, t)));
  for (u64 by = 1; by < 16; by *= 2) {
    const Word sum = binary(G, op, t, give(G, S_UP_HALF, v, 0, 0, by), v);
    v = choose(G, compare(G, P_LT, C_I64, low, constant(G, by)), v, sum);
  }
  const Word first = binary(G, op, t, G->carry[i], v),
             between = give(G, S_OF, first, fifteen, 0, 0), second = binary(G, op, t, between, v),
             all = choose(G, compare(G, P_LT, C_I64, fifteen, G->lane), second, first),
             end = give(G, S_OF, all, constant(G, 31), 0, 0);
  if (in->op == P_SMAXX) G->value[i] = choose(G, G->lane, give(G, S_UP, all, 0, 0, 1), G->carry[i]);
  else G->value[i] = binary(G, op, t, G->offset[i], all);
  if (in->op == P_SMAXX) { /* it is read after the carry has moved on */
    const Word y = word(G);
    move(G, y, G->value[i]);
    G->value[i] = y;
  }
  move(G, G->carry[i], end);
}

static void end_scan_block(Gen *G) {
  for (int i = 0; i < G->p->nbody; i++) {
    const Instr *in = &G->p->body[i];
    if (!G->C.class[i] || (in->op != P_SSUM && in->op != P_SPROD) || in->type < C_F32) continue;
    const int op = in->op == P_SSUM ? P_ADD : P_MUL;
    move(G, G->offset[i], binary(G, op, in->type, G->offset[i], G->carry[i]));
    move(G, G->carry[i], constant(G, ty_ptx_identity(op, in->type)));
  }
}

/* --- loops */

static void coords_of_r(Gen *G) { decompose(G, G->r_at, G->s->n[0], G->s->n[0] + G->s->n[1]); }

static void add_to(Gen *G, Word y, u64 by) {
  move(G, y, binary(G, P_ADD, C_I64, y, constant(G, by)));
}

static void row_elements(Gen *G, Word from, Word to) {
  const bool scans = G->C.scans;
  const Word base = word(G);
  move(G, base, from);
  const int next = G->n, on = later_less(G, base, to), out = later(G);
  here(G, on);
  for (int sub = 0; sub < (scans ? 1 : 2); sub++) {
    G->r_at = binary(G, P_ADD, C_I64, base, G->lane);
    guard(G, G->r_at, to);
    coords_of_r(G);
    element(G, sub);
    add_to(G, base, 32);
  }
  if (scans) {
    const Word last = binary(G, P_AND, C_I64, base, constant(G, BLOCK - 1));
    const int end = later_less(G, last, G->one);
    jump(G, next);
    here(G, end);
    end_scan_block(G);
  }
  jump(G, next);
  here(G, out);
}

static void column_elements(Gen *G, Word from, Word to) {
  const Word base = word(G);
  int out[COL_LANES];
  move(G, base, from);
  const int next = G->n;
  for (int sub = 0; sub < COL_LANES; sub++) {
    const int on = later_less(G, base, to);
    out[sub] = later(G);
    here(G, on);
    G->r_at = give(G, S_MOVE, base, 0, 0, 0);
    coords_of_r(G);
    element(G, sub);
    add_to(G, base, 1);
  }
  jump(G, next);
  for (int sub = 0; sub < COL_LANES; sub++) here(G, out[sub]);
}

static void elements(Gen *G, Word from, Word to) {
  if (G->p->kind == K_ROW) row_elements(G, from, to);
  else column_elements(G, from, to);
}

static void blocks(Gen *G) {
  const i64 size = G->p->kind == K_ROW ? BLOCK : COL_BLOCK;
  clear_accs(G, true);
  if (!G->nacc || G->s->extent[1] <= size) {
    elements(G, 0, G->r_all);
    return;
  }
  const Word at = word(G), end = word(G), n = word(G), by = constant(G, (u64)size);
  G->waiting = G->words + 1;
  G->words += (Word)G->node * BLOCKS_MOST;
  move(G, n, 0);
  move(G, at, 0);
  const int next = G->n;
  move(G, end, prim(G, P_MIN, C_I64, C_I64, G->r_all, binary(G, P_ADD, C_I64, at, by)));
  elements(G, at, end);
  const int more = later_less(G, end, G->r_all), last = later(G);
  here(G, more);
  push_node(G, n);
  clear_accs(G, false);
  move(G, at, end);
  jump(G, next);
  here(G, last);
  over_waiting(G, n, true);
}

static void guard_unit(Gen *G) {
  if (G->p->kind == K_ROW) guard(G, 0, G->one);
  else guard(G, G->unit, G->count);
}

static void reduce_unit(Gen *G) {
  emit_class(G, CLASS_ROW, 0);
  for (int phase = 0; phase < G->C.phases; phase++) {
    need_of(G, phase);
    begin_accs(G, phase);
    if (G->C.scans) begin_scans(G);
    blocks(G);
    guard_unit(G);
    finish_accs(G);
    emit_class(G, CLASS_ROW, phase + 1);
  }
  if (G->p->kind == K_ROW) guard(G, G->lane, G->one);
  for (int i = 0; i < G->p->nbody; i++)
    if (G->p->body[i].op == P_STORE && G->C.class[i] == CLASS_ROW) emit(G, i);
}

/* Coordinates and places of a unit: all of it, before anything branches. */
static void begin_unit(Gen *G) {
  const int no = G->s->n[0], nr = G->s->n[1], nd = no + nr + G->s->n[2];
  Word o = G->unit;
  memset(G->row_place, 0, sizeof G->row_place);
  if (G->p->kind == K_MAP) decompose(G, o, 0, nd);
  else {
    if (G->p->kind == K_COL) {
      const Word n = constant(G, (u64)G->s->extent[2]);
      o = prim(G, P_DIVI, C_I64, C_I64, G->unit, n);
      decompose(G, prim(G, P_SUB, C_I64, C_I64, G->unit, prim(G, P_MUL, C_I64, C_I64, o, n)),
                no + nr, nd);
    }
    decompose(G, o, 0, no);
  }
  for (int i = 0; i < G->p->nbody; i++) {
    const int op = G->p->body[i].op;
    if (G->C.class[i] && (op == P_IOTA || op == P_LOAD || op == P_GLOAD || op == P_STORE))
      row_place(G, (int)G->p->body[i].imm);
  }
}

/* Gives the step that says how far a thread's units lie apart, which hangs on the size of the grid. */
static int compile(Gen *G, i64 units) {
  const bool row = G->p->kind == K_ROW;
  G->lane = give(G, S_LANE, 0, 0, 0, 0);
  G->one = constant(G, 1);
  G->count = constant(G, (u64)units);
  G->r_all = constant(G, (u64)G->s->extent[1]);
  emit_class(G, CLASS_UNIFORM, 0);
  const Word base = word(G), number = give(G, S_NUMBER, 0, 0, 0, 0), step = word(G);
  const int apart = put(G, (Step){.op = S_CONST, .y = step});
  move(G, base,
       row ? prim(G, P_DIVI, C_I64, C_I64, number, constant(G, 32))
           : prim(G, P_SUB, C_I64, C_I64, number, G->lane));
  const int next = G->n, on = later_less(G, base, G->count);
  put(G, (Step){.op = S_EXIT});
  here(G, on);
  G->unit = row ? base : binary(G, P_ADD, C_I64, base, G->lane);
  guard_unit(G);
  begin_unit(G);
  if (G->p->kind == K_MAP) {
    need_of(G, 0);
    element(G, 0);
  } else reduce_unit(G);
  move(G, base, binary(G, P_ADD, C_I64, base, step));
  jump(G, next);
  return apart;
}

/* --- the kernel */

enum { ROOM_MOST = 64 << 20, GRID_MOST = 256 };
static Once once_asked = ONCE_INIT;
static bool never, all;
static Lock lock = LOCK_INIT;
static struct Loaded { /* by device */
  CudaCode code;
  bool tried, there;
} loaded[CUDA_MOST];

static void ask(void) {
  const char *asked = getenv("TYCHO_CUDA_INTERPRET");
  never = asked && !strcmp(asked, "0");
  all = asked && !strcmp(asked, "all");
}

bool ty_cuda_interprets_all(void) {
  ty_once(&once_asked, ask);
  return all;
}

/* It is assembled on first use of a machine, then kept on disk. */
static void load(struct Loaded *l) {
  Text text = ty_ptx_interpret();
  l->there = ty_cuda_load_kept(&l->code, &text);
  if (!l->there) {
    const i64 from = ty_system_now();
    l->there = ty_cuda_load_new(&l->code, &text);
    if (l->there)
      ty_cuda_say("the interpreter of loop programs was assembled for %s in %.0f ms", ty_cuda.name,
                  (double)(ty_system_now() - from) / 1e6);
  }
  ty_text_free(&text);
}

/* The device's; NULL: it has none. */
static const CudaCode *code_of(void) {
  struct Loaded *l = &loaded[ty_cuda.ordinal];
  ty_once(&once_asked, ask);
  if (never) return NULL;
  ty_lock(&lock);
  if (!l->tried) load(l);
  l->tried = true;
  ty_unlock(&lock);
  return l->there ? &l->code : NULL;
}

static bool launch(Gen *G, i64 blocks) {
  const i64 bytes = (i64)G->n * (i64)sizeof *G->step,
            room = (G->words + 1) * blocks * INTERPRET_THREADS * 8;
  const char *err;
  char *memory = ty_cuda_allocate(bytes + room);
  if (!memory) return false;
  bool ok = ty_cuda_in(memory, G->step, bytes, &err);
  i64 block[INTERPRET_PARAMS] = {(i64)ty_cuda_word(G->r->stream), (i64)(uintptr_t)memory,
                                 (i64)(uintptr_t)(memory + bytes)};
  ty_cuda_label.interpreted = true;
  ok = ok && block[INTERPRET_WORD] && ty_cuda_launch(code_of(), blocks, INTERPRET_THREADS, block);
  ty_cuda_label.interpreted = false;
  ty_cuda_run_now.interpreted += ok;
  ty_cuda_free(memory, bytes + room);
  return ok;
}

static bool compile_and_launch(Gen *G) {
  const bool row = G->p->kind == K_ROW;
  const i64 units = G->s->extent[0] * G->s->extent[2],
            each = row ? INTERPRET_THREADS / 32 : INTERPRET_THREADS;
  ty_ptx_classify(G->p, &G->C);
  const int apart = compile(G, units);
  if (G->failed) return false;
  i64 blocks = TY_MIN((units - 1) / each + 1, GRID_MOST);
  blocks = TY_MIN(blocks, TY_MAX(1, ROOM_MOST / ((G->words + 1) * INTERPRET_THREADS * 8)));
  G->step[apart].imm = (u64)(blocks * each);
  return launch(G, blocks);
}

bool ty_cuda_interpret(const Program *p, const Shape *s, const Run *r) {
  if (!code_of()) return false;
  Gen *G = ty_mem_zalloc(sizeof *G);
  if (!G) return false;
  G->p = p, G->s = s, G->r = r;
  const bool ok = compile_and_launch(G);
  ty_mem_free(G->step);
  ty_mem_free(G);
  return ok;
}
