/*
** grad_attend.c -- attention as it is recorded, and its backward pass.
** In: queries [.., n, d], keys [.., m, d], values [.., m, dv] whose leading dims broadcast, perhaps a mask and a
** key for dropout; the gradient of the result. Out: the result [.., n, dv]; the gradient of an operand. Fails for
** running out of memory, and where a saved operand was overwritten.
**
** The row ATTEND gives one flat storage: the result, maxima and sums (attend.c). The result is a view of it; a
** snapshot of it is kept for the backward pass. ATTEND_GRAD gives the gradients of all three operands at once: the
** first one that is asked for computes them, and the record's Pending keeps them for the others.
** Where gradients are themselves taped, or of one example of a vmap (its result, or as in a Jacobian what is
** given for it), they are made of products and maps, whose rules are known. There the scores are arrays like any
** other, and dropout's factors one more.
*/
#include <math.h>
#include "record/grad.h"
#include "record/vmap.h"

enum { Q, K, V, MASK, KEY, R, G, ALL };

typedef struct Kept {
  Tensor y; /* flat */
  Attention how;
} Kept;

typedef struct Shape {
  Type as[ALL]; /* of the operands, and of what they become with all leading dims */
  Type o;
  i64 rows, flat, d, m, dv; /* rows: of queries, all of them */
  i64 lead;
} Shape;

/* Types with all leading dims; false: they do not broadcast. */
static bool shape_of(const Tensor *const *x, Shape *s) {
  const Type *q = &x[Q]->type, *v = &x[V]->type;
  Type lead = {0};
  for (int i = 0; i < KEY; i++) {
    if (!x[i]) continue;
    Type t = x[i]->type;
    t.dims[t.rank - 1] = t.dims[t.rank - 2] = 1;
    if (!ty_type_broadcast(&lead, &t)) return false;
  }
  const int r = lead.rank;
  memset(s, 0, sizeof *s);
  lead.dtype = (u8)ty_attend_dtype(q->dtype);
  lead.device = q->device;
  for (int i = 0; i < KEY; i++) s->as[i] = lead;
  const i64 n = q->dims[q->rank - 2];
  s->d = q->dims[q->rank - 1];
  s->m = v->dims[v->rank - 2], s->dv = v->dims[v->rank - 1];
  s->as[Q].dims[r - 2] = s->as[MASK].dims[r - 2] = n;
  s->as[K].dims[r - 2] = s->as[V].dims[r - 2] = s->as[MASK].dims[r - 1] = s->m;
  s->as[Q].dims[r - 1] = s->as[K].dims[r - 1] = s->d;
  s->as[V].dims[r - 1] = s->dv;
  if (x[MASK] && x[MASK]->type.dtype == T_BOOL) s->as[MASK].dtype = T_BOOL;
  if (x[KEY]) s->as[KEY] = x[KEY]->type;
  s->o = s->as[Q];
  s->o.dims[r - 1] = s->dv;
  for (int i = 0; i < 3; i++)
    if (!ty_type_fits(&s->as[i])) return false;
  if (!ty_type_fits(&s->o)) return false;
  s->lead = ty_type_numel(&lead);
  s->rows = s->lead * n;
  s->flat = s->rows * (s->dv + 2);
  s->as[R] = ty_type_line(lead.dtype, q->device, s->flat);
  s->as[G] = s->o;
  return true;
}

/* The part of a flat tensor that lies as results do: positions, heads, features. */
static void part_of(const Tensor *flat, i64 from, const Type *t, Tensor *y) {
  i64 strides[MAX_RANK] = {0}, step = flat->type.dims[0] > 1 ? flat->strides[0] : 1;
  Type lies = *t;
  const int r = t->rank;
  if (r > 2) lies.dims[r - 3] = t->dims[r - 2], lies.dims[r - 2] = t->dims[r - 3];
  ty_type_strides(&lies, strides);
  if (r > 2) {
    const i64 heads = strides[r - 2];
    strides[r - 2] = strides[r - 3], strides[r - 3] = heads;
  }
  for (int d = 0; d < r; d++) strides[d] *= step;
  ty_tensor_view(y, flat, t, flat->offset + from * step, strides);
}

static Arg arg_of(const Attention *how, int dtype) {
  Arg a;
  memset(&a, 0, sizeof a);
  a.k = (how->causal ? ATTEND_CAUSAL : 0) | (how->fast ? ATTEND_FAST : 0);
  a.k2 = (i32)(how->drop * DROP_ONE);
  ty_elem_store(dtype, &a.bits, how->scale);
  return a;
}

static void kept_drop(void *ctx) {
  Kept *k = ctx;
  ty_tensor_release(&k->y);
  ty_mem_free(k);
}

const Tensor *ty_attend_kept(const Record *r, Attention *how) {
  const Kept *k = r->owner.ctx;
  *how = k->how;
  return &k->y;
}

/* f: of the result, flat, if any; taken over. */
static bool keep(State *S, Record *r, const Tensor *flat, Storage *f, const Attention *how) {
  Kept *k = ty_mem_zalloc(sizeof *k);
  if (!k || (flat && !f)) {
    ty_mem_free(k);
    ty_storage_drop(f);
    return ty_fail_memory(S, "gradient", 0);
  }
  if (flat) {
    k->y = *flat;
    k->y.st = f;
    k->y.detached = true;
  }
  k->how = *how;
  r->owner = (Owner){kept_drop, k};
  return true;
}

bool ty_attend_keep(State *S, Record *r, const Tensor *flat, const Attention *how) {
  return keep(S, r, flat, ty_storage_hold(flat->st), how);
}

/* Tapes it; y is the result as a view of `flat`, or of one example. */
static bool note(State *S, const Given *src, const Attention *how, const Tensor *flat, Tensor *y) {
  if (!S->tracks) return true;
  if (!ty_grad_note(S, &(TapeEntry){.kind = OP_ATTEND, .n = KEY + 1, .src = src}, y)) return false;
  Record *r = y->st->tape;
  if (!r) return true;
  if (flat) r->t.type = flat->type;
  if (keep(S, r, flat, flat ? ty_grad_freeze(S, y->st) : NULL, how)) return true;
  ty_tensor_release(y);
  return false;
}

/* For the examples of a vmap at once: their dim is one more leading dim. */
static bool batched(State *S, const char *who, const Tensor *const *x, const Given *src, u32 level,
                    const Attention *how, const Type *o, Tensor *y) {
  Tensor own[KEY + 1] = {0}, all = {0};
  const Tensor *p[KEY + 1] = {NULL};
  bool ok = true;
  for (int i = 0; i <= KEY && ok; i++) {
    if (!x[i]) continue;
    ok = ty_vmap_lift(S, x[i], level, -1, o->rank, &own[i]);
    p[i] = &own[i];
  }
  ok = ok && ty_attention(S, who, p, how, &all);
  for (int i = 0; i <= KEY; i++) ty_tensor_release(&own[i]);
  return ok && ty_vmap_wrap(S, &all, level, o, y) && note(S, src, how, NULL, y);
}

bool ty_attention(State *S, const char *who, const Tensor *const *x, const Attention *how,
                  Tensor *y) {
  Shape s;
  Given src[KEY + 1];
  Tensor flat = {0}, o = {0};
  for (int i = 0; i <= KEY; i++) {
    src[i] = (Given){.kind = O_NUMBER};
    if (x[i]) src[i] = (Given){.kind = O_TENSOR, .t = x[i]};
  }
  if (!shape_of(x, &s)) return ty_fail(S, "%s: the result is too large", who);
  const u32 level = ty_vmap_level_of(KEY + 1, src);
  if (level) return batched(S, who, x, src, level, how, &s.o, y);
  const Arg arg = arg_of(how, s.o.dtype);
  if (!ty_record_attend(S, who, OP_ATTEND, x, s.as, &arg, s.flat, &flat)) return false;
  part_of(&flat, 0, &s.o, &o);
  const bool ok = note(S, src, how, &flat, &o);
  ty_tensor_release(&flat);
  if (ok) *y = o;
  return ok;
}

/* --- the backward pass */

static void turn(const Tensor *x, Tensor *y) {
  const int i = x->type.rank - 2, j = i + 1;
  ty_tensor_view(y, x, &x->type, x->offset, x->strides);
  y->type.dims[i] = x->type.dims[j], y->type.dims[j] = x->type.dims[i];
  y->strides[i] = x->strides[j], y->strides[j] = x->strides[i];
}

/* The gradient of one operand in operations that have gradients themselves: registers, and numbers behind
** them. */
enum { A, B, KT, S0, P, Y, REGISTERS, SCALE = REGISTERS, NONE, ZERO, ONE, KEYS, AHEAD, NUMBERS };
enum {
  TURN = OP_COUNT,
  ALWAYS = 0,
  OF_Q = 1,
  OF_K = 2,
  OF_V = 4,
  BOOLS = 8,
  ADDED = 16,
  CAUSAL = 32,
  DROPS = 64,   /* and the gradient is that of queries or keys */
  DROPS_V = 128 /* or of values */
};
enum { XQ = NUMBERS, XK, XV, XMASK, XKEPT, XG };
typedef struct Code {
  u8 op, y, a, b, c, when; /* when: any of these */
} Code;

static const Code codes[] = {
    {TURN, KT, XK, 0, 0, ALWAYS},
    {OP_MATMUL, S0, XQ, KT, 0, ALWAYS},
    {OP_MUL, S0, S0, SCALE, 0, ALWAYS},
    {OP_WHERE, S0, XMASK, S0, NONE, BOOLS},
    {OP_ADD, S0, S0, XMASK, 0, ADDED},
    {OP_IOTA, A, 0, 0, 0, CAUSAL}, /* key j is seen by query i up to i + m - n */
    {OP_FLOOR_DIVIDE, B, A, KEYS, 0, CAUSAL},
    {OP_REMAINDER, A, A, KEYS, 0, CAUSAL},
    {OP_ADD, B, B, AHEAD, 0, CAUSAL},
    {OP_LE, A, A, B, 0, CAUSAL},
    {OP_WHERE, S0, A, S0, NONE, CAUSAL},
    {OP_AMAX, A, S0, 0, 0, ALWAYS}, /* only keeps exp in range */
    {OP_NE, B, A, NONE, 0, ALWAYS},
    {OP_WHERE, A, B, A, ZERO, ALWAYS},
    {OP_SUB, S0, S0, A, 0, ALWAYS},
    {OP_EXP, S0, S0, 0, 0, ALWAYS},
    {OP_SUM, A, S0, 0, 0, ALWAYS},
    {OP_NE, B, A, ZERO, 0, ALWAYS},
    {OP_WHERE, A, B, A, ONE, ALWAYS},
    {OP_DIV, P, S0, A, 0, ALWAYS},
    {OP_MUL, P, P, XKEPT, 0, DROPS_V},
    {TURN, A, P, 0, 0, OF_V},
    {OP_MATMUL, Y, A, XG, 0, OF_V},
    {TURN, A, XV, 0, 0, OF_Q | OF_K},
    {OP_MATMUL, B, XG, A, 0, OF_Q | OF_K},
    {OP_MUL, B, B, XKEPT, 0, DROPS},
    {OP_MUL, A, P, B, 0, OF_Q | OF_K},
    {OP_SUM, A, A, 0, 0, OF_Q | OF_K},
    {OP_SUB, B, B, A, 0, OF_Q | OF_K},
    {OP_MUL, B, P, B, 0, OF_Q | OF_K},
    {OP_MUL, S0, B, SCALE, 0, OF_Q | OF_K},
    {OP_MATMUL, Y, S0, XK, 0, OF_Q},
    {TURN, A, S0, 0, 0, OF_K},
    {OP_MATMUL, Y, A, XQ, 0, OF_K},
};

/* What dropout multiplies the weights [.., n, m] by. Scores of 0 weigh the same: of the unit matrix attention gives
** those of the weights that are kept. So the mask is drawn in one place only (attend.c). */
static __attribute__((noinline)) bool factors(State *S, const Tensor *const *x, const Shape *s,
                                              const Attention *how, Tensor *y) {
  const int r = s->o.rank, dtype = x[Q]->type.dtype;
  const i32 chance = (i32)(how->drop * DROP_ONE), one = DROP_ONE;
  const double factor = chance < one ? 1 / (1 - chance * 0x1p-30) : 0;
  const Type point = {.dtype = (u8)dtype, .rank = 2, .device = x[Q]->type.device, .dims = {1, 1}};
  Type down = point, across = point;
  down.dims[0] = across.dims[1] = s->m;
  const Arg arg = arg_of(&(Attention){.scale = 1, .drop = how->drop}, dtype);
  Tensor zero = {0}, i = {0}, j = {0}, off = {0}, unit = {0}, flat = {0}, part = {0}, kept = {0};
  Tensor own = {0};
  const Tensor *operands[KEY + 1] = {&zero, &zero, &unit, NULL, x[KEY]};
  Type as[KEY + 1], all = s->o;
  memcpy(as, s->as, sizeof as);
  as[Q].dims[r - 1] = as[K].dims[r - 1] = 1;
  as[V].dims[r - 1] = all.dims[r - 1] = s->m;
  if (!ty_type_fits(&all) || !ty_type_fits(&as[V])) return ty_fail_memory(S, "backward", 0);
  bool ok = ty_record_full(S, &point, 0, &zero) && ty_record_iota(S, &down, &i) &&
            ty_record_iota(S, &across, &j);
  Given both[2] = {{.t = &i}, {.t = &j}}, some[2] = {{.t = &part}, {.kind = O_NUMBER}};
  Given scaled[2] = {{.t = &own}, {.kind = O_NUMBER, .v = factor}};
  Given diagonal[3] = {{.t = &off}, {.kind = O_NUMBER}, {.kind = O_NUMBER, .v = 1}};
  ok = ok && ty_record(S, "backward", OP_NE, 2, both, &off) &&
       ty_record(S, "backward", OP_WHERE, 3, diagonal, &unit) &&
       ty_record_attend(S, "backward", OP_ATTEND, operands, as, &arg, s->rows * (s->m + 2), &flat);
  if (ok) part_of(&flat, 0, &all, &part);
  ok = ok && ty_record(S, "backward", OP_NE, 2, some, &kept) &&
       ty_record_cast(S, &kept, dtype, &own) && ty_record(S, "backward", OP_MUL, 2, scaled, y);
  Tensor *const made[] = {&zero, &i, &j, &off, &unit, &flat, &part, &kept, &own};
  for (int k = 0; k < TY_COUNT(made); k++) ty_tensor_release(made[k]);
  return ok;
}

static __attribute__((noinline)) bool taped(State *S, const Tensor *const *x, const Shape *s,
                                            const Attention *how, const Tensor *g, int i,
                                            Tensor *y) {
  const i64 n = s->o.dims[s->o.rank - 2];
  if (!s->m) return ty_record_full(S, &s->as[i], 0, y);
  const double number[] = {how->scale,        -INFINITY, 0, 1, (double)TY_MAX(s->m, 1),
                           (double)(s->m - n)};
  Tensor r[REGISTERS] = {0}, kept = {0};
  const Type all = {.rank = 2, .device = g->type.device, .dims = {n, s->m}};
  int is = 1 << i;
  if (x[MASK]) is |= x[MASK]->type.dtype == T_BOOL ? BOOLS : ADDED;
  if (how->causal) is |= CAUSAL;
  if (x[KEY]) is |= i == V ? DROPS_V : DROPS;
  bool ok = !x[KEY] || factors(S, x, s, how, &kept);
  const Tensor *const outside[] = {x[Q], x[K], x[V], x[MASK], &kept, g};
  for (const Code *c = codes; ok && c < codes + TY_COUNT(codes); c++) {
    if (c->when && !(c->when & is)) continue;
    const u8 at[] = {c->a, c->b, c->c};
    Given src[3];
    for (int k = 0; k < 3; k++) {
      const Tensor *t = at[k] >= NUMBERS ? outside[at[k] - XQ] : &r[at[k] % REGISTERS];
      src[k] = (Given){.kind = O_TENSOR, .t = t};
      if (at[k] >= REGISTERS && at[k] < NUMBERS)
        src[k] = (Given){.kind = O_NUMBER, .v = number[at[k] - REGISTERS]};
    }
    Tensor t = {0}, from = {0};
    if (c->op != OP_IOTA) from = *src[0].t;
    from.detached |= c->op == OP_AMAX;
    if (c->op == TURN) turn(&from, &t);
    else if (c->op == OP_IOTA) ok = ty_record_iota(S, &all, &t);
    else if (c->op == OP_AMAX || c->op == OP_SUM)
      ok = ty_record_reduce(S, "backward", c->op, &from, 1u << (from.type.rank - 1), true, &t);
    else ok = ty_record(S, "backward", c->op, ty_ops[c->op].arity, src, &t);
    ty_tensor_release(&r[c->y]);
    r[c->y] = t;
  }
  if (ok) ty_tensor_alias(y, &r[Y]);
  for (int k = 0; k < REGISTERS; k++) ty_tensor_release(&r[k]);
  ty_tensor_release(&kept);
  return ok;
}

static bool rule(State *S, const Record *r, const Tensor *const *x, Pending *p, const Tensor *g,
                 int i, Tensor *y) {
  const Kept *kept = r->owner.ctx;
  const Tensor *all[ALL];
  Shape s;
  Tensor flat = {0}, own = {0};
  memcpy(all, x, sizeof *x * (KEY + 1));
  if (!shape_of(x, &s)) return false;
  if (kept->y.st) part_of(g, 0, &s.o, &own);
  else ty_tensor_alias(&own, g);
  all[R] = &kept->y, all[G] = &own;
  bool ok = true, needs = ty_needs_grad(g), batched = ty_vmap_level(g) != 0;
  for (int k = 0; k < MASK; k++) needs |= ty_needs_grad(x[k]);
  const Arg arg = arg_of(&kept->how, x[Q]->type.dtype);
  if (!kept->y.st || batched || (S->grad_mode && needs)) {
    ok = taped(S, x, &s, &kept->how, &own, i, y);
  } else {
    const i64 nq = s.rows * s.d, nk = s.lead * s.m * s.d, nv = s.lead * s.m * s.dv;
    if (p && p->made.st) ty_tensor_alias(&flat, &p->made);
    else ok = ty_record_attend(S, "backward", OP_ATTEND_GRAD, all, s.as, &arg, nq + nk + nv, &flat);
    if (ok && p && !p->made.st) ty_tensor_alias(&p->made, &flat);
    if (ok) part_of(&flat, i == Q ? 0 : i == K ? nq : nq + nk, &s.as[i], y);
  }
  ty_tensor_release(&own);
  ty_tensor_release(&flat);
  return ok;
}

bool ty_attend_rule(State *S, const Record *r, const Tensor *given, const Tensor *g, int i,
                    Tensor *y) {
  Tensor own[KEY + 1] = {0};
  const Tensor *x[KEY + 1] = {NULL};
  Pending *p = r->pending; /* the one that brings g */
  while (p && &p->g != given) p = p->next;
  bool ok = true;
  for (int k = 0; k <= KEY && ok; k++) {
    if (r->edge[k].is_number) continue;
    ok = ty_grad_operand(S, r, k, g->type.dtype, &own[k]);
    x[k] = &own[k];
  }
  ok = ok && rule(S, r, x, p, g, i, y);
  for (int k = 0; k <= KEY; k++) ty_tensor_release(&own[k]);
  return ok;
}
