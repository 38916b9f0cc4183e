/*
** grad_rules.c -- the gradient of every operation: who runs the rules that grad_words.c tells.
** In: a record, the gradient of its result, the number of an operand. Out: the operand's gradient, in the
** dims of its storage. Fails where a saved value was overwritten, and when out of memory.
**
** Whatever dims a rule ends with are made the operand's: what was broadcast is summed, what was reduced is
** expanded, the dtype is cast. Then the operand's view is undone.
*/
#include "record/complex.h"
#include "record/grad.h"
#include "record/grad_words.h"

/* --- steps that rules are made of. Each fills y, which is empty before and stays so after a failure. */

#define WHO "backward"

static Given tensor(const Tensor *t) { return (Given){.kind = O_TENSOR, .t = t}; }

static bool op2(State *S, int op, const Tensor *p, const Tensor *q, Tensor *y) {
  Given src[2] = {tensor(p), tensor(q)};
  return ty_record(S, WHO, op, 2, src, y);
}

/* *x = y, which is given away. */
static bool put(Tensor *x, Tensor *y) {
  ty_tensor_release(x);
  *x = *y;
  return true;
}

/* The same of complex numbers, which keep their pairs side by side. */
static bool see_pairs(State *S, const Tensor *g, const Tensor *x, i64 numel, Tensor *y) {
  Tensor own = *x, reals = {0};
  if (!ty_complex_as_reals(x, &own.type, own.strides)) return ty_complex_reals(S, WHO, x, y);
  bool ok = ty_rule_see(S, g, &own, numel, &reals) && ty_complex_pack(S, &reals, y);
  ty_tensor_release(&reals);
  return ok;
}

bool ty_rule_see(State *S, const Tensor *g, const Tensor *x, i64 numel, Tensor *y) {
  Tensor flat = {0};
  if (TY_UNLIKELY(ty_tensor_is_complex(x))) return see_pairs(S, g, x, numel, y);
  Type all = {.rank = 1, .dims = {numel}}, t = x->type;
  if (!ty_record_reshape(S, g, &all, &flat)) return false;
  i64 step = numel > 1 ? flat.strides[0] : 1, strides[MAX_RANK];
  for (int d = 0; d < t.rank; d++) strides[d] = x->strides[d] * step;
  t.dtype = g->type.dtype;
  ty_tensor_view(y, &flat, &t, flat.offset + x->offset * step, strides);
  ty_tensor_release(&flat);
  return true;
}

/* A view of x with dims t; strides: 0 where x repeats. */
static void expand(const Tensor *x, const Type *t, Tensor *y) {
  i64 strides[MAX_RANK] = {0};
  Type to = *t;
  to.dtype = x->type.dtype;
  ty_type_expand(t, &x->type, x->strides, strides);
  ty_tensor_view(y, x, &to, x->offset, strides);
}

/* Places [from, from + size) of a dim. */
static void narrow(const Tensor *x, int dim, i64 from, i64 size, Tensor *y) {
  Type t = x->type;
  t.dims[dim] = size;
  ty_tensor_view(y, x, &t, x->offset + (size > 0 ? from * x->strides[dim] : 0), x->strides);
}

static void flip(const Tensor *x, int dim, Tensor *y) {
  ty_tensor_view(y, x, &x->type, x->offset, x->strides);
  if (dim >= x->type.rank || x->type.dims[dim] == 0) return;
  y->offset += (x->type.dims[dim] - 1) * x->strides[dim];
  y->strides[dim] = -x->strides[dim];
}

static bool assign(State *S, const Tensor *dst, const Tensor *x) {
  Given v = tensor(x);
  return ty_record_assign(S, WHO, dst, &v);
}

bool ty_rule_join(State *S, Tensor *sum, const Tensor *x) {
  Tensor p = {0}, q = {0}, y = {0};
  if (!sum->st) {
    ty_tensor_alias(sum, x);
    return true;
  }
  Type flat = {.rank = 1, .dims = {ty_type_numel(&x->type)}};
  bool ok;
  if (ty_type_same_dims(&sum->type, &x->type)) ok = op2(S, OP_ADD, sum, x, &y);
  else
    ok = ty_record_reshape(S, sum, &flat, &p) && ty_record_reshape(S, x, &flat, &q) &&
         op2(S, OP_ADD, &p, &q, &y);
  ty_tensor_release(&p);
  ty_tensor_release(&q);
  return ok && put(sum, &y);
}

/* x becomes x of the dims and dtype of an operand. */
static bool fit(State *S, Tensor *x, const Type *t) {
  Tensor y = {0};
  int gap = x->type.rank - t->rank;
  u32 dims = 0;
  for (int d = 0; d < x->type.rank; d++)
    if (d < gap || (t->dims[d - gap] == 1 && x->type.dims[d] != 1)) dims |= 1u << d;
  if (dims) {
    if (!ty_record_reduce(S, WHO, OP_SUM, x, dims, true, &y)) return false;
    put(x, &y);
    y = (Tensor){0};
  }
  if (gap > 0) {
    Type cut = {.dtype = x->type.dtype, .device = x->type.device, .rank = t->rank};
    memcpy(cut.dims, x->type.dims + gap, sizeof(i64) * t->rank);
    ty_tensor_view(&y, x, &cut, x->offset, x->strides + gap);
    put(x, &y);
    y = (Tensor){0};
  }
  if (!ty_type_same_dims(&x->type, t)) {
    expand(x, t, &y);
    put(x, &y);
    y = (Tensor){0};
  }
  if (x->type.dtype != t->dtype) {
    if (!ty_record_cast(S, x, t->dtype, &y)) return false;
    put(x, &y);
    y = (Tensor){0};
  }
  return x->type.device == t->device || (ty_record_to(S, x, t->device, &y) && put(x, &y));
}

/* Adds up at places of a flat storage: views whose elements overlap. */
static bool add_up(State *S, const Edge *e, const Tensor *x, const Tensor *zeros, Tensor *y) {
  Type all = {.rank = 1, .device = x->type.device, .dims = {e->numel}},
       flat = {.rank = 1, .dims = {ty_type_numel(&x->type)}};
  Type shape = e->t.type;
  Tensor i = {0}, seen = {0}, at = {0}, v = {0};
  shape.dtype = T_I64;
  bool ok = ty_record_iota(S, &all, &i);
  if (ok) ty_tensor_view(&seen, &i, &shape, e->t.offset, e->t.strides);
  ok = ok && ty_record_reshape(S, &seen, &flat, &at) && ty_record_reshape(S, x, &flat, &v) &&
       ty_record_scatter(S, WHO, OP_SCATTER_ADD, zeros, 0, &at, 0, &v, y);
  ty_tensor_release(&i);
  ty_tensor_release(&seen);
  ty_tensor_release(&at);
  ty_tensor_release(&v);
  return ok;
}

/* Adds x to the elements of *y, all of a storage, that t shows: in a storage of its own. */
static bool add_under(State *S, const Tensor *t, const Type *dims, const Tensor *x, Tensor *y) {
  Type all = ty_type_line(y->type.dtype, y->type.device, ty_type_numel(&y->type));
  Tensor flat = {0}, whole = {0}, view = {0}, more = {0};
  bool ok = ty_record_reshape(S, y, &all, &flat) && ty_record_copy(S, &flat, &whole);
  if (ok) ty_tensor_view(&view, &whole, dims, t->offset, t->strides);
  ok = ok && op2(S, OP_ADD, &view, x, &more) && assign(S, &view, &more);
  ty_tensor_release(&flat);
  ty_tensor_release(&view);
  ty_tensor_release(&more);
  if (ok) return put(y, &whole);
  ty_tensor_release(&whole);
  return false;
}

bool ty_rule_unview(State *S, const Edge *e, const Tensor *x, Tensor *y) {
  const Tensor *t = &e->t;
  i64 n = ty_type_numel(&t->type);
  if (n == e->numel && !t->offset && ty_tensor_is_contiguous(t)) return ty_rule_join(S, y, x);
  Type all = ty_type_line(x->type.dtype, x->type.device, e->numel), once = t->type;
  if (n == 0) return y->st || ty_record_full(S, &all, 0, y);
  Tensor sum = {0}, whole = {0}, own = {0};
  for (int d = 0; d < once.rank; d++)
    if (t->strides[d] == 0) once.dims[d] = 1;
  ty_tensor_alias(&sum, x);
  once.dtype = x->type.dtype;
  bool distinct = ty_view_distinct(&once, t->strides);
  bool ok = fit(S, &sum, distinct ? &once : &sum.type);
  if (ok && distinct && y->st && y->type.dtype == once.dtype) {
    ok = add_under(S, t, &once, &sum, y);
  } else if (ok && (ok = ty_record_full(S, &all, 0, &whole))) {
    if (distinct) {
      ty_tensor_view(&own, &whole, &once, t->offset, t->strides);
      ok = assign(S, &own, &sum) && ty_rule_join(S, y, &whole);
    } else {
      ok = add_up(S, e, &sum, &whole, &own) && ty_rule_join(S, y, &own);
    }
  }
  ty_tensor_release(&own);
  ty_tensor_release(&sum);
  ty_tensor_release(&whole);
  return ok;
}

/* --- products of others */

/* Products of all before each place of a dim. */
static bool before(State *S, const Tensor *x, int dim, Tensor *y) {
  Tensor ones = {0}, from = {0}, to = {0};
  i64 n = x->type.dims[dim];
  bool ok = ty_record_full(S, &x->type, 1, &ones);
  if (ok && n > 1) {
    narrow(x, dim, 0, n - 1, &from);
    narrow(&ones, dim, 1, n - 1, &to);
    ok = assign(S, &to, &from);
    ty_tensor_release(&from);
    ty_tensor_release(&to);
  }
  ok = ok && ty_record_scan(S, WHO, OP_CUMPROD, &ones, dim, y);
  ty_tensor_release(&ones);
  return ok;
}

static bool others(State *S, const Record *r, Tensor *y) {
  Tensor x = {0}, moved = {0}, line = {0}, back = {0}, p = {0}, q = {0}, turned = {0}, z = {0};
  if (!ty_grad_operand(S, r, 0, r->edge[0].t.type.dtype, &x)) return false;
  int rank = x.type.rank, order[MAX_RANK], k = 0, kept;
  u32 dims = r->dims ? r->dims : (1u << rank) - 1;
  for (int d = 0; d < rank; d++)
    if (!(dims >> d & 1)) order[k++] = d;
  kept = k;
  for (int d = 0; d < rank; d++)
    if (dims >> d & 1) order[k++] = d;
  Type t = x.type,
       flat = {.dtype = x.type.dtype, .device = x.type.device, .rank = 2, .dims = {1, 1}};
  i64 strides[MAX_RANK] = {0};
  for (int d = 0; d < rank; d++) {
    t.dims[d] = x.type.dims[order[d]];
    strides[d] = x.strides[order[d]];
    flat.dims[d >= kept] *= t.dims[d];
  }
  ty_tensor_view(&moved, &x, &t, x.offset, strides);
  bool ok = ty_record_reshape(S, &moved, &flat, &line) && before(S, &line, 1, &p);
  if (ok) flip(&line, 1, &back);
  ok = ok && before(S, &back, 1, &q);
  if (ok) flip(&q, 1, &turned);
  ok = ok && op2(S, OP_MUL, &p, &turned, &z);
  if (ok) { /* contiguous: the dims of t, then in x's order */
    ty_type_strides(&t, strides);
    i64 own[MAX_RANK] = {0};
    for (int d = 0; d < rank; d++) own[order[d]] = strides[d];
    ty_tensor_view(y, &z, &x.type, 0, own);
  }
  Tensor *const all[] = {&x, &moved, &line, &back, &p, &q, &turned, &z};
  for (int i = 0; i < TY_COUNT(all); i++) ty_tensor_release(all[i]);
  return ok;
}

/* to[0:n] of a copy of x = (add ? x[0:n] : 0) + p[0:n] * q[d:], where n = size - d. */
static bool combine(State *S, Tensor *x, const Tensor *p, const Tensor *q, int dim, i64 d,
                    bool add) {
  i64 n = x->type.dims[dim] - d;
  Tensor copy = {0}, to = {0}, pn = {0}, qd = {0}, product = {0}, sum = {0};
  bool ok = ty_record_copy(S, x, &copy);
  if (ok) {
    narrow(&copy, dim, 0, n, &to);
    narrow(p, dim, 0, n, &pn);
    narrow(q, dim, d, n, &qd);
    ok = op2(S, OP_MUL, &pn, &qd, &product) && (!add || op2(S, OP_ADD, &to, &product, &sum)) &&
         assign(S, &to, add ? &sum : &product);
  }
  ty_tensor_release(&to);
  ty_tensor_release(&pn);
  ty_tensor_release(&qd);
  ty_tensor_release(&product);
  ty_tensor_release(&sum);
  if (ok) return put(x, &copy);
  ty_tensor_release(&copy);
  return false;
}

/* Of cumprod: before_i * S_i, where S_i = g_i + x_(i+1) S_(i+1): affine maps, composed in log n steps, so
** that zeros need no case of their own. */
static bool running(State *S, const Record *r, const Tensor *gy, Tensor *y) {
  Tensor x = {0}, step = {0}, from = {0}, to = {0}, sum = {0}, left = {0};
  int dim = r->dim;
  bool ok = ty_grad_operand(S, r, 0, gy->type.dtype, &x) && ty_record_full(S, &x.type, 1, &step) &&
            ty_record_copy(S, gy, &sum) && before(S, &x, dim, &left);
  i64 n = ok ? x.type.dims[dim] : 0;
  if (n > 1) {
    narrow(&x, dim, 1, n - 1, &from);
    narrow(&step, dim, 0, n - 1, &to);
    ok = assign(S, &to, &from);
    ty_tensor_release(&from);
    ty_tensor_release(&to);
  }
  for (i64 d = 1; ok && d < n; d *= 2)
    ok = combine(S, &sum, &step, &sum, dim, d, true) &&
         combine(S, &step, &step, &step, dim, d, false);
  ok = ok && op2(S, OP_MUL, &left, &sum, y);
  ty_tensor_release(&x);
  ty_tensor_release(&step);
  ty_tensor_release(&sum);
  ty_tensor_release(&left);
  return ok;
}

/* --- products */

/* The last two dims exchanged. */
static void transpose(const Tensor *x, Tensor *y) {
  int p = x->type.rank - 2, q = p + 1;
  ty_tensor_alias(y, x);
  y->type.dims[p] = x->type.dims[q];
  y->type.dims[q] = x->type.dims[p];
  y->strides[p] = x->strides[q];
  y->strides[q] = x->strides[p];
}

static void insert_dim(Tensor *x, int at) {
  for (int d = x->type.rank++; d > at; d--) {
    x->type.dims[d] = x->type.dims[d - 1];
    x->strides[d] = x->strides[d - 1];
  }
  x->type.dims[at] = 1;
  x->strides[at] = 0;
}

/* x as one matrix: all dims but the last are rows. */
static bool flatten(State *S, Tensor *x) {
  Tensor y = {0};
  i64 last = x->type.dims[x->type.rank - 1];
  Type t = {.dtype = x->type.dtype, .device = x->type.device, .rank = 2, .dims = {1, last}};
  for (int d = 0; d < x->type.rank - 1; d++) t.dims[0] *= x->type.dims[d];
  return ty_record_reshape(S, x, &t, &y) && put(x, &y);
}

/* x with the dims from `lead` on turned round, so that dim `at` is the first of them. */
static void rotate(const Tensor *x, int lead, int at, Tensor *y) {
  ty_tensor_alias(y, x);
  for (int d = lead, n = x->type.rank - lead; d < x->type.rank; d++) {
    int from = lead + (d - lead + at - lead) % n;
    y->type.dims[d] = x->type.dims[from];
    y->strides[d] = x->strides[from];
  }
}

/* Leading dim d becomes the last dim (of x at hand, whose dims it had), or the first behind the leading ones. */
static void move_dim(Tensor *x, int from, int to) {
  i64 n = x->type.dims[from], stride = x->strides[from];
  for (int d = from; d < to; d++) {
    x->type.dims[d] = x->type.dims[d + 1];
    x->strides[d] = x->strides[d + 1];
  }
  x->type.dims[to] = n;
  x->strides[to] = stride;
}

/* Of contract, for operand i: of a [lead, M, K] the product of g [lead, M, N] with b [lead, N, K]; of b
** [lead, K, N] that of a [lead, K, M] with g. Leading dims along which the operand does not go are
** summed with the rest, all at once. */
static bool contracted(State *S, const Record *r, const Tensor *gy, int i, Tensor *y) {
  const Type *own = &r->edge[i].t.type;
  int lead = (int)r->dims - 1, summed, moved = 0, back[MAX_RANK];
  Tensor other = {0}, x = {0}, z = {0}, p = {0};
  if (!ty_grad_operand(S, r, !i, gy->type.dtype, &other)) return false;
  const int rows = r->edge[0].t.type.rank - r->dim; /* leading and M */
  if (i) {
    rotate(&other, lead, rows, &x); /* [lead, K, M] */
    ty_tensor_alias(&z, gy);
    summed = rows - lead;
  } else {
    ty_tensor_alias(&x, gy);
    rotate(&other, lead, lead + r->dim, &z); /* [lead, N, K] */
    summed = other.type.rank - lead - r->dim;
  }
  for (int d = lead - 1; d >= 0; d--) {
    if (own->dims[d] != 1 || gy->type.dims[d] == 1) continue;
    Tensor *of[2] = {&x, &z};
    for (int k = 0; k < 2; k++) /* the leading dims of the other operand may have been 1 too */
      if (of[k]->type.dims[d] == 1) of[k]->type.dims[d] = gy->type.dims[d], of[k]->strides[d] = 0;
    move_dim(&x, d, x.type.rank - 1 - summed);
    move_dim(&z, d, lead - 1 - moved);
    back[moved++] = d;
    summed++;
  }
  bool ok = ty_record_contract(S, WHO, &x, &z, lead - moved, summed, moved ? &p : y);
  if (ok && moved) { /* the dims of 1 come back */
    ty_tensor_alias(y, &p);
    while (moved--) {
      int d = back[moved];
      insert_dim(y, d);
    }
  }
  Tensor *const all[] = {&other, &x, &z, &p};
  for (int k = 0; k < TY_COUNT(all); k++) ty_tensor_release(all[k]);
  return ok;
}

/* Of matmul, for operand i: g b^T or a^T g. Vectors are matrices of one row or column meanwhile. */
static bool product(State *S, const Record *r, const Tensor *gy, int i, Tensor *y) {
  if (r->dims) return contracted(S, r, gy, i, y);
  bool row = r->edge[0].t.type.rank == 1, column = r->edge[1].t.type.rank == 1;
  Tensor x = {0}, gm = {0}, turned = {0};
  if (!ty_grad_operand(S, r, !i, gy->type.dtype, &x)) return false;
  ty_tensor_alias(&gm, gy);
  if (column) insert_dim(&gm, gm.type.rank);
  if (row) insert_dim(&gm, gm.type.rank - 1);
  if (i ? row : column) insert_dim(&x, i ? 0 : 1);
  bool ok = true;
  if (i && x.type.rank > 2 && r->edge[1].t.type.rank <= 2) ok = flatten(S, &x) && flatten(S, &gm);
  if (ok) transpose(&x, &turned);
  const int op = (i ? row : column) ? OP_MUL : OP_MATMUL; /* a vector's dim of 1: no sum */
  ok = ok && (i ? op2(S, op, &turned, &gm, y) : op2(S, op, &gm, &turned, y));
  if (ok && (i ? column : row)) { /* the dim of size 1 goes */
    Type t = y->type;
    int last = t.rank - 1;
    if (!i) t.dims[last - 1] = t.dims[last];
    t.dims[last] = 0;
    t.rank--;
    Tensor z = {0};
    ok = ty_record_reshape(S, y, &t, &z) && put(y, &z);
  }
  ty_tensor_release(&x);
  ty_tensor_release(&gm);
  ty_tensor_release(&turned);
  return ok;
}

/* Within the autocast of the product that it is the gradient of. */
static bool product_cast(State *S, const Record *r, const Tensor *gy, int i, Tensor *y) {
  const u8 outer = S->cast;
  S->cast = r->cast;
  const bool ok = product(S, r, gy, i, y);
  S->cast = outer;
  return ok;
}

/* --- moves */

static bool spread(State *S, const Record *r, const Tensor *index, const Tensor *x, Tensor *y) {
  Type t = r->edge[0].t.type;
  Tensor zeros = {0};
  t.dtype = x->type.dtype;
  bool ok = ty_record_full(S, &t, 0, &zeros) &&
            ty_record_scatter(S, WHO, OP_SCATTER_ADD, &zeros, r->dim, index, r->base, x, y);
  ty_tensor_release(&zeros);
  return ok;
}

/* Places along the dim, counted from 0, in a's dims. */
static bool place(State *S, const Record *r, Tensor *y) {
  Type t = r->edge[0].t.type, line = ty_type_line(T_I64, t.device, 1);
  i64 strides[MAX_RANK] = {0};
  Tensor i = {0};
  t.dtype = T_I64;
  if (t.rank) {
    line.dims[0] = t.dims[r->dim];
    strides[r->dim] = 1;
  }
  if (!ty_record_iota(S, &line, &i)) return false;
  ty_tensor_view(y, &i, &t, 0, strides);
  ty_tensor_release(&i);
  return true;
}

/* Of PUT, for what was not written: g, 0 under the view. */
static bool rest(State *S, const Record *r, const Tensor *gy, Tensor *y) {
  Type all = ty_type_line(gy->type.dtype, gy->type.device, ty_type_numel(&gy->type));
  Tensor flat = {0}, v = {0};
  bool ok = ty_record_reshape(S, gy, &all, &flat) && ty_record_copy(S, &flat, y);
  ty_tensor_release(&flat);
  if (!ok) return false;
  ty_tensor_view(&v, y, &r->t.type, r->t.offset, r->t.strides);
  ok = ty_record_assign(S, WHO, &v, &(Given){.kind = O_NUMBER});
  ty_tensor_release(&v);
  if (!ok) ty_tensor_release(y);
  return ok;
}

static bool under(State *S, const Record *r, const Tensor *gy, Tensor *y) {
  Type all = ty_type_line(gy->type.dtype, gy->type.device, ty_type_numel(&gy->type));
  Tensor flat = {0};
  if (!ty_record_reshape(S, gy, &all, &flat)) return false;
  i64 strides[MAX_RANK] = {0}; /* flat may have a step of its own */
  i64 step = all.dims[0] > 1 ? flat.strides[0] : 1;
  for (int d = 0; d < r->t.type.rank; d++) strides[d] = r->t.strides[d] * step;
  ty_tensor_view(y, &flat, &r->t.type, flat.offset + r->t.offset * step, strides);
  ty_tensor_release(&flat);
  return true;
}

/* Of cat: the part of g that operand i became. */
static void part(const Record *r, const Tensor *gy, int i, Tensor *y) {
  i64 at = 0;
  for (int k = 0; k < i; k++) at += r->edge[k].t.type.dims[r->dim];
  narrow(gy, r->dim, at, r->edge[i].t.type.dims[r->dim], y);
}

/* Of scatter: 0 at the places of the index. */
static bool unwritten(State *S, const Record *r, const Tensor *gy, Tensor *y) {
  Tensor index = {0}, zeros = {0};
  Type t = r->edge[1].t.type;
  t.dtype = gy->type.dtype;
  bool ok = ty_grad_operand(S, r, 1, T_I64, &index) && ty_record_full(S, &t, 0, &zeros) &&
            ty_record_scatter(S, WHO, OP_SCATTER, gy, r->dim, &index, r->base, &zeros, y);
  ty_tensor_release(&index);
  ty_tensor_release(&zeros);
  return ok;
}

/* Whether an element of src is the last one that was written to its place. */
static bool last(State *S, const Record *r, Tensor *y) {
  Tensor index = {0}, order = {0}, zeros = {0}, won = {0}, own = {0};
  Type t = r->edge[0].t.type;
  t.dtype = T_I64;
  bool ok = ty_grad_operand(S, r, 1, T_I64, &index) && ty_record_iota(S, &index.type, &order) &&
            ty_record_full(S, &t, 0, &zeros) &&
            ty_record_scatter(S, WHO, OP_SCATTER, &zeros, r->dim, &index, r->base, &order, &won) &&
            ty_record_gather(S, WHO, &won, r->dim, &index, r->base, &own) &&
            op2(S, OP_EQ, &own, &order, y);
  Tensor *const all[] = {&index, &order, &zeros, &won, &own};
  for (int i = 0; i < TY_COUNT(all); i++) ty_tensor_release(all[i]);
  return ok;
}

/* Of fft: the transform by the transposed matrix, which is one of its kinds. */
static bool transposed(State *S, const Record *r, const Tensor *gy, Tensor *y) {
  static const u8 other[FFT_KINDS] = {FFT_INVERSE, FFT_FORWARD,   FFT_REAL_BACK,
                                      FFT_REAL,    FFT_HALF_BACK, FFT_HALF};
  const Type *own = &r->edge[0].t.type;
  return ty_record_fft(S, WHO, gy, r->dim, other[r->base & 7], r->base >> 3, own->dims[r->dim], y);
}

/* --- the machine */

enum { DEPTH = 10 };
typedef struct Stack {
  Tensor t[DEPTH]; /* no storage: a number */
  double v[DEPTH];
  i32 symbol[DEPTH]; /* of a number; see Given */
  int n;
} Stack;

static Given number_at(const Stack *s, int i) {
  return (Given){.kind = O_NUMBER, .v = s->v[i], .symbol = s->symbol[i]};
}

/* The number at i as a tensor without dims. */
static bool push_full(State *S, const Stack *s, int i, const Type *like, Tensor *y) {
  Type t = {.dtype = like->dtype, .device = like->device};
  Given x = number_at(s, i);
  return ty_record_number(S, &t, &x, y);
}

/* The dims of g as the rule sees them. */
static bool push_g(State *S, const Record *r, const Tensor *gy, Tensor *y) {
  Type t = r->t.type;
  if (r->kind == K_WATCH || r->kind == OP_PUT) t = gy->type;
  if (r->kind < OP_COUNT && ty_ops[r->kind].class == REDUCE) {
    t.rank = r->edge[0].t.type.rank;
    for (int d = 0; d < t.rank; d++)
      t.dims[d] = !r->dims || r->dims >> d & 1 ? 1 : r->edge[0].t.type.dims[d];
  }
  return ty_record_reshape(S, gy, &t, y);
}

static bool run_op(State *S, const Record *r, Stack *s, int op, const Type *like) {
  int n = ty_ops[op].arity;
  Tensor y = {0}, *x = &s->t[s->n - n];
  Given src[3];
  bool ok = true, any = false;
  for (int i = 0; i < n; i++) any |= x[i].st != NULL;
  if (!any) ok = push_full(S, s, s->n - n, like, &x[0]); /* numbers alone: in the gradient's */
  for (int i = 0; i < n; i++) src[i] = x[i].st ? tensor(&x[i]) : number_at(s, s->n - n + i);
  if (ok && ty_ops[op].class == MAP) ok = ty_record(S, WHO, op, n, src, &y);
  else if (ok && ty_ops[op].class == REDUCE)
    ok = ty_record_reduce(S, WHO, op, x, r->dims, true, &y);
  else if (ok && ty_ops[op].class == SCAN) ok = ty_record_scan(S, WHO, op, x, r->dim, &y);
  else if (ok) ok = ty_record_gather(S, WHO, x, r->dim, x + 1, r->base, &y);
  for (int i = 0; i < n; i++) ty_tensor_release(&x[i]);
  s->n -= n - 1;
  s->t[s->n - 1] = y;
  return ok;
}

/* Apart from its caller, whose frame is large. */
__attribute__((noinline)) static bool run_word(State *S, const Record *r, const Tensor *gy,
                                               Stack *s, int word) {
  int dtype = gy->type.dtype;
  Tensor y = {0}, *top = s->n ? &s->t[s->n - 1] : NULL;
  bool ok = true;
  s->v[s->n] = 0;
  s->symbol[s->n] = 0;
  if (word >= I_NUMBER && word < I_FLIP) s->v[s->n] = ty_rule_numbers[word - I_NUMBER];
  else if (word == I_TIE) s->v[s->n] = r->edge[0].is_number ? 0 : r->edge[1].is_number ? 1 : 0.5;
  else if (word == I_SWAP) {
    Tensor t = top[0];
    top[0] = top[-1];
    top[-1] = t;
    return true;
  } else if (word == I_FLIP) {
    flip(top, r->dim, &y);
    return put(top, &y);
  } else if (word == I_SPREAD) {
    ok = spread(S, r, &top[-1], top, &y);
    ty_tensor_release(top);
    ty_tensor_release(&top[-1]);
    top[-1] = y;
    s->n--;
    return ok;
  } else if (word >= I_A && word <= I_C) {
    const Edge *e = &r->edge[word - I_A];
    if (e->is_number) s->v[s->n] = e->number, s->symbol[s->n] = e->symbol;
    else ok = ty_grad_operand(S, r, word - I_A, dtype, &y);
  } else {
    switch (word) {
    case I_G: ok = push_g(S, r, gy, &y); break;
    case I_DUP:
      s->v[s->n] = s->v[s->n - 1];
      s->symbol[s->n] = s->symbol[s->n - 1];
      if (top->st) ty_tensor_alias(&y, top);
      break;
    case I_PLACE: ok = place(S, r, &y); break;
    case I_OTHERS: ok = others(S, r, &y); break;
    case I_RUNNING: ok = running(S, r, gy, &y); break;
    case I_DOT_A: ok = product_cast(S, r, gy, 0, &y); break;
    case I_DOT_B: ok = product_cast(S, r, gy, 1, &y); break;
    case I_REST: ok = rest(S, r, gy, &y); break;
    case I_UNDER: ok = under(S, r, gy, &y); break;
    case I_UNWRITTEN: ok = unwritten(S, r, gy, &y); break;
    case I_TRANSPOSE: ok = transposed(S, r, gy, &y); break;
    case I_LAST: ok = last(S, r, &y); break;
    default: break;
    }
  }
  s->t[s->n++] = y;
  return ok;
}

bool ty_rule_apply(State *S, const Record *r, const Tensor *given, int i, Tensor *y) {
  const u8 *p = ty_rule_of(r->kind, i);
  const Edge *e = &r->edge[i];
  Stack s = {.n = 0};
  Tensor gy = {0};
  if (!p) return true;
  if (ty_type_numel(&e->t.type) == 0) { /* what is before it is reached all the same: by zeros */
    const Type all = ty_type_line(e->t.type.dtype, e->t.type.device, e->numel);
    return y->st || ty_record_full(S, &all, 0, y);
  }
  bool ok = true;
  if (r->kind == K_WATCH || r->kind == OP_PUT) ty_tensor_alias(&gy, given);
  else ok = ty_record_reshape(S, given, &r->t.type, &gy);
  if (ok && r->kind == K_CAT) {
    part(r, &gy, i, &s.t[s.n++]);
  } else if (ok && r->kind == OP_ATTEND) {
    ok = ty_attend_rule(S, r, given, &gy, i, &s.t[s.n++]);
  } else {
    for (; ok && *p != I_END; p++)
      ok = *p < OP_COUNT ? run_op(S, r, &s, *p, &gy.type) : run_word(S, r, &gy, &s, *p);
  }
  if (ok && !s.t[0].st) ok = push_full(S, &s, 0, &gy.type, &s.t[0]);
  if (ok && (r->kind == OP_PUT || r->kind == K_WATCH) && i == 0) ok = ty_rule_join(S, y, &s.t[0]);
  else ok = ok && fit(S, &s.t[0], &e->t.type) && ty_rule_unview(S, e, &s.t[0], y);
  for (int k = 0; k < s.n; k++) ty_tensor_release(&s.t[k]);
  ty_tensor_release(&gy);
  return ok;
}
