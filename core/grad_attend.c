/*
** grad_attend.c -- attention as it is recorded, and its way back.
** In: queries [.., n, d], keys [.., m, d], values [.., m, dv] whose leading dims broadcast, perhaps a mask and a
** key for dropout; the gradient of the result. Out: the result [.., n, dv]; the gradient of an operand. Fails for
** want of memory, where a saved operand was overwritten, and for a gradient of gradients under dropout.
**
** The row ATTEND gives one flat storage: the result, maxima and sums (attend.c). The result is a view of it; a
** frozen twin of it is kept for the way back. ATTEND_GRAD gives the gradients of all three operands at once: the
** first one that is asked for computes them, and the record's Pending keeps them for the others.
** Where gradients are themselves taped they are made of products and maps, whose rules are known.
*/
#include <math.h>
#include "grad.h"

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
  lead.dtype = q->dtype;
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
  s->as[R] = (Type){.dtype = q->dtype, .rank = 1, .dims = {s->flat}};
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
  a.k = how->causal;
  a.k2 = (i32)(how->drop * 0x1p30);
  ty_elem_store(dtype, &a.bits, how->scale);
  return a;
}

static void kept_drop(void *ctx) {
  Kept *k = ctx;
  ty_tensor_release(&k->y);
  ty_mem_free(k);
}

/* Tapes it; y is the result as a view of `flat`. */
static bool note(State *S, const Tensor *const *x, const Attention *how, const Tensor *flat,
                 Tensor *y) {
  Given src[KEY + 1];
  for (int i = 0; i <= KEY; i++) {
    src[i] = (Given){.kind = O_NUMBER};
    if (x[i]) src[i] = (Given){.kind = O_TENSOR, .t = x[i]};
  }
  if (!S->tracks) return true;
  if (!ty_grad_note(S, &(Noted){.kind = OP_ATTEND, .n = KEY + 1, .src = src}, y)) return false;
  Record *r = y->st->tape;
  if (!r) return true;
  Kept *k = ty_mem_zalloc(sizeof *k);
  Storage *f = k ? ty_grad_freeze(S, y->st) : NULL;
  if (!f) {
    ty_mem_free(k);
    ty_tensor_release(y);
    return ty_fail_memory(S, "gradient", 0);
  }
  k->y = *flat;
  k->y.st = f;
  k->y.detached = true;
  k->how = *how;
  r->t.type = flat->type;
  r->ctx = k;
  r->drop = kept_drop;
  return true;
}

bool ty_attention(State *S, const char *who, const Tensor *const *x, const Attention *how,
                  Tensor *y) {
  Shape s;
  Tensor flat = {0}, o = {0};
  if (!shape_of(x, &s)) return ty_fail(S, "%s: the result is too large", who);
  const Arg arg = arg_of(how, x[Q]->type.dtype);
  if (!ty_record_attend(S, who, OP_ATTEND, x, s.as, &arg, s.flat, &flat)) return false;
  part_of(&flat, 0, &s.o, &o);
  const bool ok = note(S, x, how, &flat, &o);
  ty_tensor_release(&flat);
  if (ok) *y = o;
  return ok;
}

/* --- the way back */

static bool op2(State *S, int op, const Tensor *a, const Tensor *b, Tensor *y) {
  Given src[2] = {{.kind = O_TENSOR, .t = a}, {.kind = O_TENSOR, .t = b}};
  return ty_record(S, "backward", op, 2, src, y);
}

static bool by_number(State *S, int op, const Tensor *a, double v, Tensor *y) {
  Given src[2] = {{.kind = O_TENSOR, .t = a}, {.kind = O_NUMBER, .v = v}};
  return ty_record(S, "backward", op, 2, src, y);
}

/* y = x where seen, else v. */
static bool where(State *S, const Tensor *seen, const Tensor *x, double v, Tensor *y) {
  Given src[3] = {
      {.kind = O_TENSOR, .t = seen}, {.kind = O_TENSOR, .t = x}, {.kind = O_NUMBER, .v = v}};
  return ty_record(S, "backward", OP_WHERE, 3, src, y);
}

static void turn(const Tensor *x, Tensor *y) {
  Type t = x->type;
  i64 strides[MAX_RANK];
  const int r = t.rank;
  memcpy(strides, x->strides, sizeof strides);
  t.dims[r - 1] = x->type.dims[r - 2], t.dims[r - 2] = x->type.dims[r - 1];
  strides[r - 1] = x->strides[r - 2], strides[r - 2] = x->strides[r - 1];
  ty_tensor_view(y, x, &t, x->offset, strides);
}

static bool reduce(State *S, int op, const Tensor *x, Tensor *y) {
  return ty_record_reduce(S, "backward", op, x, 1u << (x->type.rank - 1), true, y);
}

/* Scores of keys that queries do not see become -inf. t: temporaries. */
static bool veil(State *S, const Shape *s, const Tensor *scores, Tensor *t, Tensor *y) {
  const i64 n = s->o.dims[s->o.rank - 2];
  Type all = {.rank = 2, .dims = {n, s->m}};
  return ty_record_iota(S, &all, &t[0]) &&
         by_number(S, OP_FLOOR_DIVIDE, &t[0], (double)TY_MAX(s->m, 1), &t[1]) &&
         by_number(S, OP_REMAINDER, &t[0], (double)TY_MAX(s->m, 1), &t[2]) &&
         by_number(S, OP_ADD, &t[1], (double)(s->m - n), &t[3]) &&
         op2(S, OP_LE, &t[2], &t[3], &t[4]) && where(S, &t[4], scores, -INFINITY, y);
}

/* The gradient of operand i in operations that have gradients themselves. */
static bool taped(State *S, const Tensor *const *x, const Shape *s, const Attention *how,
                  const Tensor *g, int i, Tensor *y) {
  enum { KT, S0, S1, S2, S3, T0, T1, T2, T3, T4, M0, M1, M2, P0, L0, L1, L2, P, PT, N };
  enum { VT = T0, DP = T1, W0 = T2, MEAN = T3, D0 = T4, D1 = S0, DS = S1, DST = S2 };
  Tensor t[N] = {0};
  turn(x[K], &t[KT]);
  bool ok =
      op2(S, OP_MATMUL, x[Q], &t[KT], &t[S0]) && by_number(S, OP_MUL, &t[S0], how->scale, &t[S1]);
  if (!x[MASK]) ty_tensor_alias(&t[S2], &t[S1]);
  else if (x[MASK]->type.dtype == T_BOOL) ok = ok && where(S, x[MASK], &t[S1], -INFINITY, &t[S2]);
  else ok = ok && op2(S, OP_ADD, &t[S1], x[MASK], &t[S2]);
  if (ok && how->causal) ok = veil(S, s, &t[S2], &t[T0], &t[S3]);
  else if (ok) ty_tensor_alias(&t[S3], &t[S2]);
  if (ok) {
    Tensor still = t[S3]; /* the maximum only keeps exp in range */
    still.detached = true;
    ok = reduce(S, OP_AMAX, &still, &t[M0]) && by_number(S, OP_NE, &t[M0], -INFINITY, &t[M1]) &&
         where(S, &t[M1], &t[M0], 0, &t[M2]) && op2(S, OP_SUB, &t[S3], &t[M2], &t[P0]);
  }
  Tensor e = {0};
  Given src = {.kind = O_TENSOR, .t = &t[P0]};
  ok = ok && ty_record(S, "backward", OP_EXP, 1, &src, &e) && reduce(S, OP_SUM, &e, &t[L0]) &&
       by_number(S, OP_NE, &t[L0], 0, &t[L1]) && where(S, &t[L1], &t[L0], 1, &t[L2]) &&
       op2(S, OP_DIV, &e, &t[L2], &t[P]);
  ty_tensor_release(&e);
  for (int k = S0; k <= T4; k++)
    if (k != S3) ty_tensor_release(&t[k]);
  if (ok && i == V) {
    turn(&t[P], &t[PT]);
    ok = op2(S, OP_MATMUL, &t[PT], g, y);
  } else if (ok) {
    turn(x[V], &t[VT]);
    ok = op2(S, OP_MATMUL, g, &t[VT], &t[DP]) && op2(S, OP_MUL, &t[P], &t[DP], &t[W0]) &&
         reduce(S, OP_SUM, &t[W0], &t[MEAN]) && op2(S, OP_SUB, &t[DP], &t[MEAN], &t[D0]) &&
         op2(S, OP_MUL, &t[P], &t[D0], &t[D1]) && by_number(S, OP_MUL, &t[D1], how->scale, &t[DS]);
    if (ok) turn(&t[DS], &t[DST]);
    ok = ok && (i == Q ? op2(S, OP_MATMUL, &t[DS], x[K], y) : op2(S, OP_MATMUL, &t[DST], x[Q], y));
  }
  for (int k = 0; k < N; k++) ty_tensor_release(&t[k]);
  return ok;
}

static bool rule(State *S, const Record *r, const Tensor *const *x, Pending *p, const Tensor *g,
                 int i, Tensor *y) {
  const Kept *kept = r->ctx;
  const Tensor *all[ALL];
  Shape s;
  Tensor flat = {0}, own = {0};
  memcpy(all, x, sizeof *x * (KEY + 1));
  if (!shape_of(x, &s)) return false;
  part_of(g, 0, &s.o, &own);
  all[R] = &kept->y, all[G] = &own;
  bool ok = true, needs = ty_needs_grad(g);
  for (int k = 0; k < MASK; k++) needs |= ty_needs_grad(x[k]);
  const Arg arg = arg_of(&kept->how, x[Q]->type.dtype);
  if (S->grad_mode && needs) {
    if (x[KEY]) ok = ty_fail(S, "backward: attention with dropout has no gradient of gradients");
    else ok = taped(S, x, &s, &kept->how, &own, i, y);
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
    ok = ty_rule_operand(S, r, k, g->type.dtype, &own[k]);
    x[k] = &own[k];
  }
  ok = ok && rule(S, r, x, p, g, i, y);
  for (int k = 0; k <= KEY; k++) ty_tensor_release(&own[k]);
  return ok;
}
