/*
** ptx_attend.c -- attention as PTX, forward and backward, in the order of device/cpu/attend.c.
** In:  what is attended with: a mask, dropout.  Out: a module. Fails when out of memory alone.
**
** A block of 256 threads has 64 queries, or 64 keys when their gradients are wanted: what it keeps. It goes over the others,
** 64 at a time, ascending: what is summed. Two kinds of product follow one another:
**   scores     along features, which are brought to shared memory `depth` at a time: each thread has 4 x 4 of 64 x 64 pairs
**   results    along what is summed: the pairs' weights lie in shared memory, a line to each of what is summed; each thread
**              has 4 of what is kept by 4 features, for 64 features at a time
** Results are in memory between two blocks, each element is one thread's. Pairs that are not there weigh +0, and stand
** against -0 in the other factor, whose product changes no sum; their gradient is +0.
** Sums go serially over keys, for each query in one thread, as the order wants.
**
** `fast` leaves the order, and has the tensor cores sum both kinds of product: operands and weights are rounded to TF32, whose 10 bits
** hold half floats exactly. All else stays: a square of sums goes through shared memory to the threads that have its parts.
*/
#include "device/cuda/ptx_address.h"
#include "device/cuda/ptx_attend.h"
#include "device/cuda/ptx_stage.h"
#include "kernels/attend_exp.h"

enum { K_BLOCK = 256, OWN = STAGE_OWN, PARTS = 4, PART = ATTEND_SIDE / PARTS };

typedef struct Gen {
  Ptx E;
  const AttendVariant *v;
  Stage S;
  const char *type, *bits;
  int size;
  Fragments fragments; /* fast */
  i64 square;          /* fast: in shared memory, where sums change hands */
  i64 weights, first, second, parts,
      line;           /* in shared memory: pairs, two pieces, maxima of parts, a number a query */
  bool keys;          /* keys are kept, queries summed */
  Reg quick, slow;    /* thread mod 16, thread / 16 */
  Reg x[AT_OPERANDS]; /* of the head */
  Reg index,
      place; /* of the head: its number, and among positions times heads of one operand: see `place_of` */
  Reg query, queries; /* the first query at hand, and how many there are from there, at most 64 */
  Reg key, keys_left; /* the same of keys; that are seen by one of the queries */
} Gen;

static Reg constant(Gen *G, i64 v) { return ty_ptx_const(&G->E, C_I64, (u64)v); }
static Reg copy(Gen *G, Reg from) {
  const Reg y = ty_ptx_reg(&G->E, REG_64);
  ty_ptx(&G->E, "mov.b64 $, $", y, from);
  return y;
}
static Reg value(Gen *G) { return ty_ptx_value(&G->E, G->S.ctype); }
static Reg number(Gen *G, double v) {
  u64 bits = 0;
  const float f = (float)v;
  if (G->size == 4) memcpy(&bits, &f, sizeof f);
  else memcpy(&bits, &v, sizeof v);
  return ty_ptx_const(&G->E, G->S.ctype, bits);
}
static Reg arith(Gen *G, int prim, Reg a, Reg b) {
  return ty_ptx_binary(&G->E, prim, G->S.ctype, a, b);
}
static Reg fma_of(Gen *G, Reg a, Reg b, Reg c) {
  const Reg y = value(G);
  ty_ptx(&G->E, "fma.rn.~ $, $, $, $", G->type, y, a, b, c);
  return y;
}
static Reg pick(Gen *G, Reg p, Reg a, Reg b) {
  const Reg y = value(G);
  ty_ptx(&G->E, "selp.~ $, $, $, $", G->bits, y, a, b, p);
  return y;
}
static void move(Gen *G, Reg to, Reg from) { ty_ptx(&G->E, "mov.~ $, $", G->bits, to, from); }
static Reg compare(Gen *G, const char *how, const char *type, Reg a, Reg b) {
  const Reg p = ty_ptx_reg(&G->E, REG_PRED);
  ty_ptx(&G->E, "setp.~.~ $, $, $", how, type, p, a, b);
  return p;
}
static Reg both(Gen *G, Reg p, Reg q) {
  const Reg y = ty_ptx_reg(&G->E, REG_PRED);
  ty_ptx(&G->E, "and.pred $, $, $", y, p, q);
  return y;
}
static void branch(Gen *G, const char *how, Reg a, Reg b, int label) {
  ty_ptx(&G->E, "@$ bra @", compare(G, how, "s64", a, b), label);
}
static void barrier(Gen *G) { ty_ptx(&G->E, "bar.sync 0"); }
static Reg in_shared(Gen *G, i64 offset, Reg element) {
  return mad(&G->E, element, constant(G, G->size),
             op(&G->E, "add", G->S.memory, constant(G, offset)));
}
static Reg get(Gen *G, Reg at, i64 offset) {
  const Reg y = value(G);
  ty_ptx(&G->E, "ld.shared.~ $, [$+#]", G->bits, y, at, offset);
  return y;
}
static void put(Gen *G, Reg at, i64 offset, Reg v) {
  ty_ptx(&G->E, "st.shared.~ [$+#], $", G->bits, at, offset, v);
}

/* x where it is above y, else y: for a NaN y. */
static Reg above(Gen *G, Reg x, Reg y) { return pick(G, compare(G, "gt", G->type, x, y), x, y); }

/* exp of what is not above 0. */
static Reg exponential(Gen *G, Reg a) {
  static const double c32[] = {EXP_F32}, c64[] = {EXP_F64};
  const bool f4 = G->size == 4;
  const double *c = f4 ? c32 : c64, most = f4 ? 0x1.8p23 + 127 + 64 : 0x1.8p52 + 1023 + 512;
  const Reg magic = number(G, most), one = number(G, 1),
            x = above(G, number(G, f4 ? -104 : -746), a),
            t = fma_of(G, x, number(G, 1 / 0x1.62e42fefa39efp-1), magic),
            n = arith(G, P_SUB, t, magic), power = value(G),
            r = fma_of(G, n, number(G, f4 ? EXP_F32_REST : EXP_F64_REST),
                       fma_of(G, n, number(G, f4 ? EXP_F32_LN2 : EXP_F64_LN2), x));
  int i = (int)(f4 ? TY_COUNT(c32) : TY_COUNT(c64)) - 1;
  Reg y = number(G, c[i]);
  while (i-- > 0) y = fma_of(G, y, r, number(G, c[i]));
  y = fma_of(G, fma_of(G, y, r, one), r, one);
  ty_ptx(&G->E, "shl.~ $, $, #", G->bits, power, t, (i64)(f4 ? 23 : 52));
  return arith(G, P_MUL, arith(G, P_MUL, y, power), number(G, f4 ? 0x1p-64 : 0x1p-512));
}

/* 1 / x, but 0 of 0. */
static Reg inverse(Gen *G, Reg x) {
  const Reg zero = number(G, 0);
  return pick(G, compare(G, "eq", G->type, x, zero), zero, arith(G, P_DIV, number(G, 1), x));
}

/* --- where things lie */

void ty_ptx_attend_head(Ptx *E, int nlead, Reg index, Reg x[AT_OPERANDS]) {
  static const u8 moving[] = {AT_Q, AT_K, AT_V, AT_MASK, AT_G};
  Reg rest = index;
  for (int i = 0; i < AT_OPERANDS; i++) x[i] = param(E, ATTEND_X + 8 * i);
  for (int d = nlead - 1; d >= 0; d--) {
    const i32 at = ATTEND_LEAD + d * ATTEND_LEAD_EACH;
    const Reg n = param(E, at), q = op(E, "div", rest, n),
              c = op(E, "sub", rest, op(E, "mul.lo", q, n));
    for (int i = 0; i < (int)TY_COUNT(moving); i++)
      x[moving[i]] = mad(E, c, param(E, at + 8 + 8 * i), x[moving[i]]);
    rest = q;
  }
}

static void head(Gen *G) { ty_ptx_attend_head(&G->E, G->v->nlead, G->index, G->x); }

Reg ty_ptx_attend_place(Ptx *E, Reg index, Reg base, Reg n, Reg features, Reg at, i64 size) {
  const Reg heads = param(E, ATTEND_HEADS), group = op(E, "div", index, heads),
            own = op(E, "sub", index, op(E, "mul.lo", group, heads)),
            row = mad(E, mad(E, group, n, at), heads, own);
  return mad(E, op(E, "mul.lo", row, features), ty_ptx_const(E, C_I64, (u64)size), base);
}

static Reg place_of(Gen *G, Reg base, Reg n, Reg features, Reg at) {
  return ty_ptx_attend_place(&G->E, G->index, base, n, features, at, G->size);
}

/* Numbers by query, from the first one at hand on. */
static Reg line_of(Gen *G, i32 at) {
  Ptx *E = &G->E;
  const Reg first = mad(E, G->index, param(E, ATTEND_N), G->query);
  return mad(E, first, constant(G, G->size), param(E, at));
}

static Reg row_of(Gen *G, int x, Reg first) {
  return mad(&G->E, first, param(&G->E, ATTEND_RS + 8 * x), G->x[x]);
}

/* Keys from `from` on that one of the queries at hand sees. */
static Reg seen(Gen *G, Reg from) {
  Ptx *E = &G->E;
  const Reg m = param(E, ATTEND_M);
  if (!G->v->causal) return op(E, "sub", m, from);
  const Reg ahead = op(E, "sub", m, param(E, ATTEND_N)),
            end = op(E, "add", op(E, "add", G->query, G->queries), ahead);
  return op(E, "sub", op(E, "min", end, m), from);
}

static void queries_from(Gen *G, Reg first) {
  Ptx *E = &G->E;
  const Reg left = op(E, "sub", param(E, ATTEND_N), first), side = constant(G, ATTEND_SIDE);
  ty_ptx(E, "mov.b64 $, $", G->query, first);
  ty_ptx(E, "min.s64 $, $, $", G->queries, left, side);
}

/* --- products */

/* What rows of an operand contribute: q with scale, g by the inverse of the sums. */
static Piece rows(Gen *G, int x, Reg first, Reg left, i64 to) {
  Ptx *E = &G->E;
  Piece p = {.base = row_of(G, x, first), .left = left, .to = to};
  if (x == AT_Q) p.by = ty_ptx_param(E, G->size == 8 ? REG_64 : REG_32, ATTEND_SCALE);
  if (x == AT_G) p.line = line_of(G, ATTEND_INV);
  return p;
}

/* fast: sums go to the threads that have them in exact kernels. */
static void hand_over(Gen *G, Own acc) {
  ty_ptx_from_fragments(&G->E, &G->S, &G->fragments,
                        op(&G->E, "add", G->S.memory, constant(G, G->square)), acc);
}

/* Along features: y[i][j] of pair (what is summed 4 slow + i, what is kept 4 quick + j). */
static void pairs(Gen *G, int of_queries, int of_keys, i32 features, Own y) {
  Ptx *E = &G->E;
  Own acc;
  const u64 minus = G->size == 8 ? 1ull << 63 : 1ull << 31;
  const Reg n = param(E, features), at = copy(G, constant(G, 0)),
            by = constant(G, (i64)OWN * G->size);
  const int next = ty_ptx_label(E), on = ty_ptx_label(E);
  Piece q = rows(G, of_queries, G->query, G->queries, G->keys ? G->second : G->first),
        k = rows(G, of_keys, G->key, G->keys_left, G->keys ? G->first : G->second);
  Bring a, b;
  q.along = param(E, ATTEND_CS + 8 * of_queries), q.across = param(E, ATTEND_RS + 8 * of_queries);
  k.along = param(E, ATTEND_CS + 8 * of_keys), k.across = param(E, ATTEND_RS + 8 * of_keys);
  q.along_k = k.along_k = true;
  ty_ptx_bring_begin(E, &G->S, &q, &a);
  ty_ptx_bring_begin(E, &G->S, &k, &b);
  ty_ptx_own(E, G->S.ctype, 0, acc);
  ty_ptx_own(E, G->S.ctype, minus, y);
  ty_ptx_here(E, next);
  const Reg left = op(E, "sub", n, at);
  ty_ptx_bring(E, &G->S, &a, left, 0);
  ty_ptx_bring(E, &G->S, &b, left, minus);
  barrier(G);
  if (G->v->fast)
    ty_ptx_outer_mma(E, &G->S, op(E, "add", G->S.memory, G->fragments.rows), G->second,
                     op(E, "add", G->S.memory, G->fragments.columns), G->first, acc);
  else
    ty_ptx_outer(E, &G->S, mad(E, G->slow, by, G->S.memory), G->second,
                 mad(E, G->quick, by, G->S.memory), G->first, acc);
  barrier(G);
  ty_ptx(E, "add.s64 $, $, #", at, at, (i64)G->S.depth);
  if (G->v->fast) {
    branch(G, "lt", at, n, next);
    hand_over(G, acc);
    memcpy(y, acc, sizeof(Own));
    return;
  }
  Reg rest;
  const Reg more = compare(G, "lt", "s64", at, n), within = ty_ptx_cut(E, at, K_BLOCK, &rest),
            inner = both(G, more, compare(G, "ne", "s64", within, constant(G, 0)));
  ty_ptx(E, "@$ bra @", inner, on);
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      move(G, y[i][j], arith(G, P_ADD, y[i][j], acc[i][j]));
      ty_ptx(E, "mov.~ $, 0", G->bits, acc[i][j]);
    }
  ty_ptx_here(E, on);
  ty_ptx(E, "@$ bra @", more, next);
}

/* What a thread has of a result: 4 of what is kept, 4 features, for 64 features at a time. `feature` goes from the first of
** the thread's to those of the next 64. */
typedef struct Result {
  Reg row, left; /* the first row's address; rows below `left` are there */
  i32 features;  /* parameter */
  Reg own,
      step; /* the first row's number; bytes to the next: known in the loop alone, where registers are few */
  Reg all, feature, first; /* features; the thread's first; the block's first */
  int next, out;
} Result;

static void result_begin(Gen *G, Result *r, i32 base, i32 n, i32 features, Reg first, Reg left) {
  Ptx *E = &G->E;
  const Reg own = op(E, "mul.lo", G->slow, constant(G, OWN));
  r->features = features, r->left = left;
  r->row = place_of(G, param(E, base), param(E, n), param(E, features), op(E, "add", first, own));
  r->first = ty_ptx_reg(E, REG_64), r->feature = ty_ptx_reg(E, REG_64);
}

static void result_loop(Gen *G, Result *r) {
  Ptx *E = &G->E;
  r->next = ty_ptx_label(E), r->out = ty_ptx_label(E);
  const Reg four = constant(G, OWN), own = op(E, "mul.lo", G->quick, four);
  r->all = param(E, r->features);
  r->own = op(E, "mul.lo", G->slow, four);
  r->step = op(E, "mul.lo", op(E, "mul.lo", r->all, param(E, ATTEND_HEADS)), constant(G, G->size));
  ty_ptx(E, "mov.b64 $, 0", r->first);
  ty_ptx(E, "mov.b64 $, $", r->feature, own);
  ty_ptx_here(E, r->next);
  branch(G, "ge", r->first, r->all, r->out);
}

static void result_next(Gen *G, Result *r) {
  Ptx *E = &G->E;
  ty_ptx(E, "add.s64 $, $, #", r->first, r->first, (i64)ATTEND_SIDE);
  ty_ptx(E, "add.s64 $, $, #", r->feature, r->feature, (i64)ATTEND_SIDE);
  ty_ptx(E, "bra @", r->next);
  ty_ptx_here(E, r->out);
}

/* y = change(y, ...), each element: ZERO 0, ADD y + acc, SCALE y times `by`, TURN y times by[i] + acc, but acc where
** `fresh` holds. */
typedef enum { ZERO, ADD, SCALE, TURN } Change;

static Reg changed(Gen *G, Change how, Reg was, Reg acc, Reg by, Reg fresh) {
  switch (how) {
  case ZERO: return number(G, 0);
  case ADD: return arith(G, P_ADD, was, acc);
  case SCALE: return arith(G, P_MUL, was, by);
  default: return pick(G, fresh, acc, arith(G, P_ADD, arith(G, P_MUL, was, by), acc));
  }
}

static void change(Gen *G, Result *r, Change how, Own acc, const Reg *by, Reg fresh) {
  Ptx *E = &G->E;
  const int dtype = G->v->dtype;
  Reg row = mad(E, r->feature, constant(G, G->size), r->row), old = 0;
  if (fresh) ty_ptx(E, "not.pred $, $", old = ty_ptx_reg(E, REG_PRED), fresh);
  for (int i = 0; i < OWN; i++) {
    const Reg there = compare(G, "lt", "s64", op(E, "add", r->own, constant(G, i)), r->left);
    Reg at[OWN], p[OWN], was[OWN] = {0};
    if (i) row = op(E, "add", row, r->step);
    for (int j = 0; j < OWN; j++) { /* four on their way */
      const Reg c = op(E, "add", r->feature, constant(G, j));
      p[j] = both(G, there, compare(G, "lt", "s64", c, r->all));
      at[j] = op(E, "add", row, constant(G, (i64)j * G->size));
      if (how == ZERO) continue;
      E->guard = old ? both(G, old, p[j]) : p[j];
      was[j] = ty_ptx_load(E, dtype, at[j]);
    }
    for (int j = 0; j < OWN; j++) {
      E->guard = p[j];
      ty_ptx_store(E, dtype, at[j],
                   changed(G, how, was[j], acc ? acc[i][j] : 0, by ? by[i] : 0, fresh));
    }
    E->guard = 0;
  }
}

static void change_all(Gen *G, Result *r, Change how, const Reg *by) {
  result_loop(G, r);
  change(G, r, how, NULL, by, 0);
  result_next(G, r);
}

/* Along what is summed: weights times rows [first, first + left) of operand x, for all features. */
static void weigh(Gen *G, Result *r, int x, Reg first, Reg left, Change how, const Reg *by,
                  Reg fresh) {
  Ptx *E = &G->E;
  const i64 minus = G->size == 8 ? (i64)(1ull << 63) : (i64)(1ull << 31),
            pitch = ty_ptx_pitch(&G->S);
  const Reg cs = param(E, ATTEND_CS + 8 * x), rs = param(E, ATTEND_RS + 8 * x),
            four = constant(G, (i64)OWN * G->size), side = constant(G, ATTEND_SIDE),
            most = op(E, "min", left, side);
  result_loop(G, r);
  Piece p = rows(G, x, first, op(E, "sub", r->all, r->first), G->first);
  Bring b;
  Own acc;
  p.base = mad(E, r->first, cs, p.base);
  p.along = rs, p.across = cs, p.line_along_k = true;
  ty_ptx_bring_begin(E, &G->S, &p, &b);
  ty_ptx_own(E, G->S.ctype, 0, acc);
  const Reg all = op(E, "add", G->S.memory, constant(G, G->weights)), at = copy(G, constant(G, 0)),
            weights = copy(G, G->v->fast ? op(E, "add", all, G->fragments.rows)
                                         : mad(E, G->slow, four, all));
  const int next = ty_ptx_label(E);
  ty_ptx_here(E, next);
  ty_ptx_bring(E, &G->S, &b, op(E, "sub", most, at), (u64)minus);
  barrier(G);
  if (G->v->fast)
    ty_ptx_outer_mma(E, &G->S, weights, 0, op(E, "add", G->S.memory, G->fragments.columns),
                     G->first, acc);
  else ty_ptx_outer(E, &G->S, weights, 0, mad(E, G->quick, four, G->S.memory), G->first, acc);
  barrier(G);
  ty_ptx(E, "add.s64 $, $, #", at, at, (i64)G->S.depth);
  ty_ptx(E, "add.s64 $, $, #", weights, weights, (i64)G->S.depth * pitch);
  branch(G, "lt", at, most, next);
  if (G->v->fast) hand_over(G, acc);
  change(G, r, how, acc, by, fresh);
  result_next(G, r);
}

/* --- scores */

/* Offsets of pair (i, j) of a thread among the keys and queries at hand. */
static Reg offset(Gen *G, bool key, int i, int j) {
  const bool summed = key != G->keys;
  const Reg base = summed ? G->slow : G->quick, four = constant(G, OWN);
  return mad(&G->E, base, four, constant(G, summed ? i : j));
}

static Reg is_there(Gen *G, int i, int j) {
  return both(G, compare(G, "lt", "s64", offset(G, true, i, j), G->keys_left),
              compare(G, "lt", "s64", offset(G, false, i, j), G->queries));
}

/* -inf where a mask or the order of positions says so, and for what is not there. */
static void mask(Gen *G, Own s) {
  Ptx *E = &G->E;
  const Reg none = number(G, -__builtin_inf());
  const Reg ahead = op(E, "sub", param(E, ATTEND_M), param(E, ATTEND_N));
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      const Reg key = op(E, "add", G->key, offset(G, true, i, j)),
                query = op(E, "add", G->query, offset(G, false, i, j));
      Reg there = is_there(G, i, j), y = s[i][j];
      if (G->v->mask) {
        const Reg at = mad(E, key, param(E, ATTEND_CS + 8 * AT_MASK), row_of(G, AT_MASK, query));
        E->guard = there;
        const Reg v = ty_ptx_load(E, G->v->bits ? T_BOOL : G->v->dtype, at);
        E->guard = 0;
        if (G->v->bits)
          there = both(G, there, compare(G, "ne", "s32", v, ty_ptx_const(E, C_I32, 0)));
        else y = arith(G, P_ADD, y, v);
      }
      if (G->v->causal)
        there = both(G, there, compare(G, "le", "s64", key, op(E, "add", query, ahead)));
      move(G, s[i][j], pick(G, there, y, none));
    }
}

/* The factors of the weights of four keys, the first of which is a multiple of 4. */
static void keep(Gen *G, Reg key, Reg query, Reg z[4]) {
  Ptx *E = &G->E;
  const Reg address = G->x[AT_KEY],
            second = op(E, "add", address, param(E, ATTEND_CS + 8 * AT_KEY));
  const Reg low = ty_ptx_load(E, T_I32, address), high = ty_ptx_load(E, T_I32, second);
  const Reg drop = ty_ptx_param(E, REG_32, ATTEND_DROP), zero = number(G, 0),
            factor = ty_ptx_param(E, G->size == 8 ? REG_64 : REG_32, ATTEND_FACTOR);
  Reg w[4], quarter = ty_ptx_reg(E, REG_64);
  for (int i = 0; i < 4; i++) w[i] = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "shr.u64 $, $, 2", quarter, key);
  ty_ptx(E, "cvt.u32.u64 $, $", w[0], quarter);
  ty_ptx(E, "cvt.u32.u64 $, $", w[1], query);
  ty_ptx(E, "mov.b64 {$, $}, $", w[2], w[3], G->index);
  ty_ptx_philox(E, w, low, high);
  for (int i = 0; i < 4; i++) {
    const Reg u = ty_ptx_reg(E, REG_32);
    ty_ptx(E, "shr.u32 $, $, 2", u, w[i]);
    z[i] = pick(G, compare(G, "ge", "u32", u, drop), factor, zero);
  }
}

/* A weight as products take it. */
static Reg factor(Gen *G, Reg v) { return G->v->fast ? ty_ptx_tf32(&G->E, v) : v; }

/* The first of the thread's pairs in shared memory. */
static Reg own_weights(Gen *G) {
  const Reg at = mad(&G->E, G->quick, constant(G, (i64)OWN * G->size), G->S.memory);
  return mad(&G->E, G->slow, constant(G, OWN * ty_ptx_pitch(&G->S)), at);
}

/* factors: of products; else scores. */
static void put_weights(Gen *G, Own s, bool factors) {
  const Reg line = own_weights(G);
  for (int i = 0; i < OWN; i++) {
    Reg w[OWN];
    for (int j = 0; j < OWN; j++) w[j] = factors ? factor(G, s[i][j]) : s[i][j];
    ty_ptx_put_four(&G->E, G->S.ctype, line, G->weights + i * ty_ptx_pitch(&G->S), w);
  }
}

/* --- forward */

typedef struct Query {
  Reg own, part;       /* the thread's query of the block, and which quarter of the keys */
  Reg at;              /* its first weight */
  Reg most, from, sum; /* sum: of the threads whose part is 0 */
  Reg first;           /* predicate: the part is 0 */
} Query;

/* Scores become weights: maxima, the factor of what came before in G->line, sums. */
static void soften(Gen *G, Query *Q) {
  Ptx *E = &G->E;
  const i64 pitch = ty_ptx_pitch(&G->S), row = (i64)ATTEND_SIDE * G->size;
  const Reg none = number(G, -__builtin_inf()), mine = in_shared(G, G->parts, Q->own);
  Reg most = none;
  for (int u = 0; u < PART; u++) most = above(G, get(G, Q->at, u * pitch), most);
  put(G, mad(E, Q->part, constant(G, row), mine), 0, most);
  barrier(G);
  const Reg before = value(G);
  move(G, before, Q->most);
  most = Q->most;
  for (int p = 0; p < PARTS; p++) most = above(G, get(G, mine, p * row), most);
  move(G, Q->most, most);
  move(G, Q->from, pick(G, compare(G, "eq", G->type, most, none), number(G, 0), most));
  const Reg shrink = exponential(G, arith(G, P_SUB, before, Q->from));
  ty_ptx(E, "@$ st.shared.~ [$], $", Q->first, G->bits, in_shared(G, G->line, Q->own), shrink);
  const Reg at = copy(G, Q->at), left = ty_ptx_reg(E, REG_32), p = ty_ptx_reg(E, REG_PRED);
  const int next = ty_ptx_label(E), skip = ty_ptx_label(E), add = ty_ptx_label(E);
  ty_ptx(E, "mov.b32 $, #", left, (i64)PART);
  ty_ptx_here(E, next);
  for (int u = 0; u < 4; u++)
    put(G, at, u * pitch,
        factor(G, exponential(G, arith(G, P_SUB, get(G, at, u * pitch), Q->from))));
  ty_ptx(E, "add.s64 $, $, #", at, at, 4 * pitch);
  ty_ptx(E, "sub.s32 $, $, 4", left, left);
  ty_ptx(E, "setp.gt.s32 $, $, 0", p, left);
  ty_ptx(E, "@$ bra @", p, next);
  barrier(G);
  ty_ptx(E, "@!$ bra @", Q->first, skip);
  const Reg total = value(G);
  move(G, total, number(G, 0));
  ty_ptx(E, "mov.b64 $, $", at, Q->at);
  ty_ptx(E, "mov.b32 $, #", left, (i64)ATTEND_SIDE);
  ty_ptx_here(E, add);
  Reg w[8];
  for (int u = 0; u < 8; u++) w[u] = get(G, at, u * pitch);
  for (int u = 0; u < 8; u++) move(G, total, arith(G, P_ADD, total, w[u]));
  ty_ptx(E, "add.s64 $, $, #", at, at, 8 * pitch);
  ty_ptx(E, "sub.s32 $, $, 8", left, left);
  ty_ptx(E, "setp.gt.s32 $, $, 0", p, left);
  ty_ptx(E, "@$ bra @", p, add);
  move(G, Q->sum, arith(G, P_ADD, arith(G, P_MUL, Q->sum, shrink), total));
  ty_ptx_here(E, skip);
}

/* Weights that are dropped, behind the sum. */
static void drop_weights(Gen *G, const Query *Q) {
  Ptx *E = &G->E;
  const i64 pitch = ty_ptx_pitch(&G->S);
  const Reg at = copy(G, Q->at), query = op(E, "add", G->query, Q->own),
            left = ty_ptx_reg(E, REG_32), p = ty_ptx_reg(E, REG_PRED),
            key = copy(G, mad(E, Q->part, constant(G, PART), G->key));
  const int next = ty_ptx_label(E);
  Reg z[4];
  barrier(G);
  ty_ptx(E, "mov.b32 $, #", left, (i64)PART);
  ty_ptx_here(E, next);
  keep(G, key, query, z);
  for (int u = 0; u < 4; u++)
    put(G, at, u * pitch, factor(G, arith(G, P_MUL, get(G, at, u * pitch), z[u])));
  ty_ptx(E, "add.s64 $, $, #", at, at, 4 * pitch);
  ty_ptx(E, "add.s64 $, $, 4", key, key);
  ty_ptx(E, "sub.s32 $, $, 4", left, left);
  ty_ptx(E, "setp.gt.s32 $, $, 0", p, left);
  ty_ptx(E, "@$ bra @", p, next);
}

/* Numbers of the thread's four of what is kept, from G->line. */
static void get_line(Gen *G, Reg y[OWN]) {
  const Reg at = in_shared(G, G->line, op(&G->E, "mul.lo", G->slow, constant(G, OWN)));
  for (int i = 0; i < OWN; i++) y[i] = get(G, at, (i64)i * G->size);
}

static Query query_begin(Gen *G) {
  Ptx *E = &G->E;
  Query Q = {.most = value(G), .from = value(G), .sum = value(G)};
  Q.own = ty_ptx_cut(E, G->S.thread, ATTEND_SIDE, &Q.part);
  Q.first = compare(G, "eq", "s64", Q.part, constant(G, 0));
  Q.at = mad(E, Q.part, constant(G, PART * ty_ptx_pitch(&G->S)), in_shared(G, G->weights, Q.own));
  move(G, Q.most, number(G, -__builtin_inf()));
  move(G, Q.from, number(G, 0));
  move(G, Q.sum, number(G, 0));
  return Q;
}

/* What the backward pass wants of a query, and the factor that ends the sums. */
static void query_end(Gen *G, const Query *Q) {
  Ptx *E = &G->E;
  const Reg by = constant(G, G->size);
  ty_ptx(E, "@$ st.shared.~ [$], $", Q->first, G->bits, in_shared(G, G->line, Q->own),
         inverse(G, Q->sum));
  E->guard = both(G, Q->first, compare(G, "lt", "s64", Q->own, G->queries));
  ty_ptx_store(E, G->v->dtype, mad(E, Q->own, by, line_of(G, ATTEND_MAX)), Q->from);
  ty_ptx_store(E, G->v->dtype, mad(E, Q->own, by, line_of(G, ATTEND_SUM)), Q->sum);
  E->guard = 0;
}

static void forward(Gen *G, Reg block) {
  Ptx *E = &G->E;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  Result r;
  Own s;
  Reg by[OWN];
  queries_from(G, op(E, "mul.lo", block, constant(G, ATTEND_SIDE)));
  Query Q = query_begin(G);
  const Reg zero = constant(G, 0), fresh = ty_ptx_reg(E, REG_PRED);
  result_begin(G, &r, ATTEND_Y, ATTEND_N, ATTEND_VALUES, G->query, G->queries);
  const int some = ty_ptx_label(E);
  ty_ptx(E, "mov.b64 $, 0", G->key);
  branch(G, "gt", seen(G, zero), zero, some);
  change_all(G, &r, ZERO, NULL);
  ty_ptx_here(E, some);
  ty_ptx_here(E, next);
  ty_ptx(E, "mov.b64 $, $", G->keys_left, seen(G, G->key));
  branch(G, "le", G->keys_left, zero, out);
  pairs(G, AT_Q, AT_K, ATTEND_FEATURES, s);
  mask(G, s);
  put_weights(G, s, false);
  barrier(G);
  soften(G, &Q);
  if (G->v->drop) {
    drop_weights(G, &Q);
    barrier(G);
  }
  get_line(G, by);
  ty_ptx(E, "setp.eq.s64 $, $, 0", fresh, G->key);
  weigh(G, &r, AT_V, G->key, G->keys_left, TURN, by, fresh);
  ty_ptx(E, "add.s64 $, $, #", G->key, G->key, (i64)ATTEND_SIDE);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
  query_end(G, &Q);
  barrier(G);
  get_line(G, by);
  change_all(G, &r, SCALE, by);
  barrier(G);
}

/* --- backward */

static void prepare(Gen *G, Reg unit) {
  Ptx *E = &G->E;
  const Reg n = param(E, ATTEND_N), by = constant(G, G->size), features = param(E, ATTEND_VALUES),
            zero = constant(G, 0);
  G->index = op(E, "div", unit, n);
  G->query = op(E, "sub", unit, op(E, "mul.lo", G->index, n));
  head(G);
  const Reg inv = inverse(G, ty_ptx_load(E, G->v->dtype, line_of(G, ATTEND_SUM))), sum = value(G),
            g = copy(G, row_of(G, AT_G, G->query)), c = copy(G, zero),
            o = copy(G, place_of(G, G->x[AT_R], n, features, G->query)),
            step = param(E, ATTEND_CS + 8 * AT_G);
  const int next = ty_ptx_label(E);
  move(G, sum, number(G, 0));
  ty_ptx_here(E, next);
  const Reg own = arith(G, P_MUL, ty_ptx_load(E, G->v->dtype, g), inv),
            y = ty_ptx_load(E, G->v->dtype, o);
  ty_ptx(E, "fma.rn.~ $, $, $, $", G->type, sum, own, y, sum);
  ty_ptx(E, "add.s64 $, $, $", g, g, step);
  ty_ptx(E, "add.s64 $, $, $", o, o, by);
  ty_ptx(E, "add.s64 $, $, 1", c, c);
  branch(G, "lt", c, features, next);
  ty_ptx_store(E, G->v->dtype, line_of(G, ATTEND_INV), inv);
  ty_ptx_store(E, G->v->dtype, line_of(G, ATTEND_MEAN), sum);
}

/* Four numbers by query: of those of the thread, along i or j. */
static void lines(Gen *G, i32 at, Reg y[OWN]) {
  Ptx *E = &G->E;
  const Reg line = line_of(G, at), by = constant(G, G->size);
  for (int i = 0; i < OWN; i++) {
    const Reg own = offset(G, false, i, i);
    E->guard = compare(G, "lt", "s64", own, G->queries);
    y[i] = ty_ptx_load(E, G->v->dtype, mad(E, own, by, line));
    E->guard = 0;
  }
}

/* s: scores that become weights, dropped; d: gradients of weights that become those of scores. */
static void differentiate(Gen *G, Own s, Own d) {
  Ptx *E = &G->E;
  Reg max[OWN], mean[OWN], z[OWN][OWN] = {{0}};
  const Reg zero = number(G, 0);
  lines(G, ATTEND_MAX, max);
  lines(G, ATTEND_MEAN, mean);
  for (int q = 0; q < OWN && G->v->drop; q++) { /* of each query, its four keys */
    const int i = G->keys ? q : 0, j = G->keys ? 0 : q;
    keep(G, op(E, "add", G->key, offset(G, true, i, j)),
         op(E, "add", G->query, offset(G, false, i, j)), z[q]);
  }
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      const int q = G->keys ? i : j, k = G->keys ? j : i;
      const Reg there = is_there(G, i, j), p = exponential(G, arith(G, P_SUB, s[i][j], max[q]));
      const Reg dp = G->v->drop ? arith(G, P_MUL, d[i][j], z[q][k]) : d[i][j];
      const Reg ds = arith(G, P_MUL, p, arith(G, P_SUB, dp, mean[q]));
      move(G, d[i][j], pick(G, there, ds, zero));
      move(G, s[i][j], pick(G, there, G->v->drop ? arith(G, P_MUL, p, z[q][k]) : p, zero));
    }
}

/* s: the weights of the pairs at hand; d: how the result changes with their scores. */
static void slopes(Gen *G, Own s, Own d) {
  pairs(G, AT_Q, AT_K, ATTEND_FEATURES, s);
  mask(G, s);
  put_weights(G, s, false); /* there is no room for them in registers meanwhile */
  pairs(G, AT_G, AT_V, ATTEND_VALUES, d);
  const Reg line = own_weights(G);
  for (int i = 0; i < OWN; i++)
    ty_ptx_four(&G->E, G->S.ctype, line, G->weights + i * ty_ptx_pitch(&G->S), s[i]);
  differentiate(G, s, d);
}

static void of_queries(Gen *G, Reg block) {
  Ptx *E = &G->E;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  const Reg zero = constant(G, 0),
            scale = ty_ptx_param(E, G->size == 8 ? REG_64 : REG_32, ATTEND_SCALE),
            by[OWN] = {scale, scale, scale, scale};
  Result r;
  Own s, d;
  queries_from(G, op(E, "mul.lo", block, constant(G, ATTEND_SIDE)));
  result_begin(G, &r, ATTEND_Y, ATTEND_N, ATTEND_FEATURES, G->query, G->queries);
  change_all(G, &r, ZERO, NULL);
  ty_ptx(E, "mov.b64 $, 0", G->key);
  ty_ptx_here(E, next);
  ty_ptx(E, "mov.b64 $, $", G->keys_left, seen(G, G->key));
  branch(G, "le", G->keys_left, zero, out);
  slopes(G, s, d);
  put_weights(G, d, true);
  barrier(G);
  weigh(G, &r, AT_K, G->key, G->keys_left, ADD, NULL, 0);
  ty_ptx(E, "add.s64 $, $, #", G->key, G->key, (i64)ATTEND_SIDE);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
  change_all(G, &r, SCALE, by);
}

static void of_keys(Gen *G, Reg block) {
  Ptx *E = &G->E;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E), skip = ty_ptx_label(E);
  const Reg m = param(E, ATTEND_M), n = param(E, ATTEND_N), zero = constant(G, 0),
            first = copy(G, zero);
  Result k, v;
  Own s, d;
  ty_ptx(E, "mul.lo.s64 $, $, #", G->key, block, (i64)ATTEND_SIDE);
  const Reg left = copy(G, op(E, "sub", m, G->key));
  result_begin(G, &k, ATTEND_DK, ATTEND_M, ATTEND_FEATURES, G->key, left);
  result_begin(G, &v, ATTEND_DV, ATTEND_M, ATTEND_VALUES, G->key, left);
  change_all(G, &k, ZERO, NULL);
  change_all(G, &v, ZERO, NULL);
  ty_ptx_here(E, next);
  branch(G, "ge", first, n, out);
  queries_from(G, first);
  ty_ptx(E, "mov.b64 $, $", G->keys_left, seen(G, G->key));
  branch(G, "le", G->keys_left, zero, skip);
  ty_ptx(E, "mov.b64 $, $", left,
         G->keys_left); /* keys that none of these queries sees stay as they are */
  slopes(G, s, d);
  put_weights(G, s, true);
  barrier(G);
  weigh(G, &v, AT_G, G->query, G->queries, ADD, NULL, 0);
  put_weights(G, d, true);
  barrier(G);
  weigh(G, &k, AT_Q, G->query, G->queries, ADD, NULL, 0);
  ty_ptx_here(E, skip);
  ty_ptx(E, "add.s64 $, $, #", first, first, (i64)ATTEND_SIDE);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
}

/* --- kernels */

/* What the thread and the block have for all units. */
static void block_begin(Gen *G) {
  Ptx *E = &G->E;
  const i64 pitch = ty_ptx_pitch(&G->S), row = (i64)ATTEND_SIDE * G->size;
  G->first = ATTEND_SIDE * pitch;
  G->second = G->first + G->S.depth * pitch;
  G->parts = G->second + G->S.depth * pitch;
  G->line = G->parts + PARTS * row;
  G->square = G->line + row;
  E->shared = (i32)(G->square + (G->v->fast ? ATTEND_SIDE * pitch : 0));
  G->S.thread = special_of(&G->E, "tid.x");
  if (G->v->fast) G->fragments = ty_ptx_fragments(E, &G->S);
  G->quick = ty_ptx_cut(E, G->S.thread, ATTEND_SIDE / OWN, &G->slow);
  ty_ptx(E, "mov.u64 $, tile", G->S.memory = ty_ptx_reg(E, REG_64));
  G->query = ty_ptx_reg(E, REG_64), G->queries = ty_ptx_reg(E, REG_64);
  G->key = ty_ptx_reg(E, REG_64), G->keys_left = ty_ptx_reg(E, REG_64);
}

Text ty_ptx_attend(const AttendVariant *v) {
  Gen *G = ty_mem_zalloc(sizeof *G);
  if (!G) return (Text){.failed = true};
  Ptx *E = &G->E;
  const int ctype = ty_dtypes[v->dtype].ctype, end = ty_ptx_begin(E), next = ty_ptx_label(E);
  const bool prepares = v->pass == ATTEND_PREPARE;
  const int threads = prepares ? ATTEND_PREPARE_THREADS : ATTEND_THREADS;
  Reg unit = ty_ptx_reg(E, REG_64), step = ty_ptx_reg(E, REG_64);
  G->v = v, G->keys = v->pass == ATTEND_KEYS;
  G->size = ty_ptx_wide(ctype) ? 8 : 4;
  G->type = G->size == 8 ? "f64" : "f32", G->bits = G->size == 8 ? "b64" : "b32";
  G->S = (Stage){.dtype = v->dtype, .ctype = ctype, .depth = 64 / G->size, .mma = v->fast};
  if (v->fast) E->target = 80;
  const Reg count = param(E, ATTEND_COUNT);
  if (prepares) ty_ptx_number(E, threads, unit, step);
  else {
    block_begin(G);
    ty_ptx(E, "mov.b64 $, $", unit, special_of(&G->E, "ctaid.x"));
    step = special_of(&G->E, "nctaid.x");
  }
  ty_ptx_here(E, next);
  branch(G, "ge", unit, count, end);
  if (prepares) prepare(G, unit);
  else {
    const Reg blocks = param(E, ATTEND_BLOCKS);
    G->index = op(E, "div", unit, blocks);
    head(G);
    const Reg block = op(E, "sub", unit, op(E, "mul.lo", G->index, blocks));
    if (v->pass == ATTEND_FORWARD) forward(G, block);
    else if (v->pass == ATTEND_QUERIES) of_queries(G, block);
    else of_keys(G, block);
  }
  ty_ptx(E, "add.s64 $, $, $", unit, unit, step);
  ty_ptx(E, "bra @", next);
  if (G->size == 8) E->blocks = 1;
  const Text t = ty_ptx_end(E, end, ATTEND_LEAD + v->nlead * ATTEND_LEAD_EACH, threads);
  ty_mem_free(G);
  return t;
}
