/*
** support.c -- which operation graphs the stand-in's engines take: attention forward, as the library's do.
** softmax(g(Q K)) V with the maximum subtracted and the logarithm of the sum made, g of maps alone; half operands, f32 between them but
** for the weights; heads of a multiple of 8 features that lie beside one another.
*/
#include "cudnn.h"

static const Step *maker(const Graph *g, int tensor) {
  for (int i = 0; i < g->steps; i++)
    if (g->step[i].y == tensor) return &g->step[i];
  return NULL;
}

static const Step *made_by(const Graph *g, int tensor, int kind, int mode) {
  const Step *s = tensor >= 0 ? maker(g, tensor) : NULL;
  return s && s->kind == kind && (kind == OP_MATMUL || s->mode == mode) ? s : NULL;
}

static bool is_row_of(const Graph *g, const Step *s) {
  const Tensor *x = &g->tensors[s->x], *y = &g->tensors[s->y];
  for (int i = 0; i < x->rank - 1; i++)
    if (x->dims[i] != y->dims[i]) return false;
  return y->dims[x->rank - 1] == 1;
}

typedef struct Parts {
  const Step *scores, *values, *most, *sum;
} Parts;

/* The scores that g's maps begin at, along their first operand (a condition's maps begin at scores too). */
static const Step *begin_of(const Graph *g, int tensor) {
  const Step *s = maker(g, tensor);
  while (s && s->kind == OP_POINTWISE) s = maker(g, s->x);
  return s && s->kind == OP_MATMUL ? s : NULL;
}

static int parts_of(const Graph *g, Parts *p) {
  int matmuls = 0, reductions = 0;
  for (int i = 0; i < g->steps; i++) {
    matmuls += g->step[i].kind == OP_MATMUL;
    reductions += g->step[i].kind == OP_REDUCTION;
  }
  if (matmuls != 2 || reductions != 2)
    return fail(UNSUPPORTED_PATTERN, "%d matmuls and %d reductions", matmuls, reductions);
  for (int i = 0; i < g->steps; i++)
    if (made_by(g, g->step[i].y, OP_MATMUL, 0) && maker(g, g->step[i].x)) p->values = &g->step[i];
  const Step *div = p->values ? made_by(g, p->values->x, OP_POINTWISE, M_DIV) : NULL;
  const Step *exp = div ? made_by(g, div->x, OP_POINTWISE, M_EXP) : NULL;
  const Step *sub = exp ? made_by(g, exp->x, OP_POINTWISE, M_SUB) : NULL;
  p->sum = div ? made_by(g, div->b, OP_REDUCTION, R_ADD) : NULL;
  p->most = sub ? made_by(g, sub->b, OP_REDUCTION, R_MAX) : NULL;
  if (!p->sum || !p->most || p->sum->x != exp->y || p->most->x != sub->x || !is_row_of(g, p->sum) ||
      !is_row_of(g, p->most))
    return fail(UNSUPPORTED_PATTERN, "no softmax between the matmuls");
  p->scores = begin_of(g, sub->x);
  if (!p->scores || p->scores == p->values || maker(g, p->scores->x) || maker(g, p->scores->b) ||
      maker(g, p->values->b))
    return fail(UNSUPPORTED_PATTERN, "scores that are not made by a matmul of what is given");
  for (int i = 0; i < g->steps; i++) {
    const Step *log = made_by(g, g->step[i].b, OP_POINTWISE, M_LOG);
    if (log && log->x == p->sum->y && g->step[i].mode == M_ADD && g->step[i].x == p->most->y)
      return SUCCESS;
  }
  return fail(UNSUPPORTED_PATTERN, "no logarithm of the sum");
}

/* Maps between the matmuls belong to scores, softmax or stats; nothing else is bound. */
static int bound_is_known(const Graph *g, const Parts *p) {
  int outputs = 0;
  for (int i = 0; i < g->n; i++) {
    const Tensor *t = &g->tensors[i];
    const Step *s = maker(g, i);
    if (t->virtual || t->by_value || s == p->values) continue;
    if (s && (s->kind != OP_POINTWISE || s->mode != M_ADD || t->dims[t->rank - 1] != 1))
      return fail(UNSUPPORTED_PATTERN, "an intermediate that is not virtual");
    outputs += s != NULL;
  }
  if (outputs > 1) return fail(UNSUPPORTED_PATTERN, "more results than one and stats");
  return SUCCESS;
}

static bool is_half(int type) { return type == D_HALF || type == D_BFLOAT16; }

static int types_fit(const Graph *g, const Parts *p) {
  const Tensor *t = g->tensors;
  const int type = t[p->scores->x].type, out = t[p->values->y].type;
  if (!is_half(type) || t[p->scores->b].type != type || t[p->values->b].type != type ||
      t[p->values->x].type != type || (out != type && out != D_FLOAT))
    return fail(UNSUPPORTED_TYPE, "operands of matmuls that are not of one half type");
  for (int i = 0; i < g->steps; i++) {
    const int made = g->step[i].y;
    if (&g->step[i] != p->values && made != p->values->x && is_half(t[made].type))
      return fail(UNSUPPORTED_TYPE, "an intermediate that is not of f32");
  }
  return SUCCESS;
}

static int shapes_fit(const Graph *g, const Parts *p) {
  const Tensor *q = &g->tensors[p->scores->x], *k = &g->tensors[p->scores->b],
               *v = &g->tensors[p->values->b];
  const int64_t most = soft_gpu_capability() >= 90 ? 256 : 128;
  if (q->rank != 4) return fail(UNSUPPORTED_SHAPE, "attention of %d dims", q->rank);
  if (q->dims[3] % 8 || v->dims[3] % 8 || q->dims[3] > most || v->dims[3] > most)
    return fail(UNSUPPORTED_SHAPE, "heads of %lld and %lld features", (long long)q->dims[3],
                (long long)v->dims[3]);
  if (k->dims[0] != v->dims[0] || k->dims[1] != v->dims[1] || k->dims[0] != q->dims[0])
    return fail(UNSUPPORTED_SHAPE, "keys and values of other batches or heads");
  return SUCCESS;
}

static int layout_fits(const Tensor *t, int beside, int elements) {
  if (t->strides[beside] != 1)
    return fail(UNSUPPORTED_LAYOUT, "features of tensor %lld lie apart", (long long)t->uid);
  for (int i = 0; i < t->rank; i++)
    if (i != beside && t->dims[i] > 1 && t->strides[i] % elements)
      return fail(UNSUPPORTED_LAYOUT, "stride %d of tensor %lld is %lld", i, (long long)t->uid,
                  (long long)t->strides[i]);
  if (t->alignment % 16)
    return fail(UNSUPPORTED_LAYOUT, "tensor %lld is aligned to %lld bytes", (long long)t->uid,
                (long long)t->alignment);
  return SUCCESS;
}

int graph_supported(const Graph *g) {
  Parts p = {0};
  int e;
  if (soft_gpu_capability() < 80)
    return fail(ARCH_MISMATCH, "attention on sm_%d", soft_gpu_capability());
  if ((e = parts_of(g, &p)) || (e = bound_is_known(g, &p)) || (e = types_fit(g, &p)) ||
      (e = shapes_fit(g, &p)))
    return e;
  const Tensor *o = &g->tensors[p.values->y];
  if ((e = layout_fits(&g->tensors[p.scores->x], 3, 8)) ||
      (e = layout_fits(&g->tensors[p.scores->b], 2, 8)) ||
      (e = layout_fits(&g->tensors[p.values->b], 3, 8)))
    return e;
  return layout_fits(o, 3, 16 / (int)size_of(o->type));
}

static bool is_row_major(const Tensor *t, bool turned) {
  int64_t step = 1;
  for (int k = t->rank - 1; k >= 0; k--) {
    const int i = turned && k >= t->rank - 2 ? 2 * t->rank - 3 - k : k;
    if (t->dims[i] > 1 && t->strides[i] != step) return false;
    step *= t->dims[i];
  }
  return true;
}

/* Whether what the graph is given lies in row-major order, the last two dims in any. */
bool graph_packed(const Graph *g) {
  for (int i = 0; i < g->n; i++) {
    const Tensor *t = &g->tensors[i];
    if (!t->by_value && !maker(g, i) && !is_row_major(t, false) && !is_row_major(t, true))
      return false;
  }
  return true;
}
