/*
** lua_places.c -- x[k] and x[k] = v for keys with index tensors and masks.
** In: a tensor, a key that lua_index.c has read, a value. Out: a copy of the places that the key names; or they are
** written, through every alias. Raises on what is out of range, naming dim, index and bounds.
**
** All index tensors broadcast to common dims B, as in NumPy. Their dims of x become one dim P, which is gathered from or
** scattered to by one line of positions; that dim of the result then falls apart into B. B stands where the first index
** tensor stood when the index tensors and numbers of the key lie side by side, else in front. A mask is the index tensor
** of the places where it holds, into its dims as one.
**
** 1. Where the dims of P do not merge, and where only a part of x's memory is written, all dims are of P: positions then
**    count rows of what x lies in, or elements. So what is not named is neither copied nor written.
** 2. The operations are recorded together: positions need no memory, and where nobody else holds x's memory the write is
**    in place (compile/plan.c).
** 3. Each index tensor is looked at by itself, also where the result is empty.
*/
#include "engine/entry.h"
#include "engine/remade.h"
#include "lua/lua_key.h"
#include "record/capture.h"
#include "record/complex.h"
#include "record/grad.h"

/* What the index tensors of a key come to. */
typedef struct Gathering {
  Type b;      /* dims that they broadcast to */
  int at;      /* where these stand in the result */
  u32 taken;   /* the indexed dims of the view */
  View src;    /* the view with the indexed dims side by side from `at` on */
  int nsrc;    /* how many */
  Type merged; /* dims of src with these as one */
  Type line;   /* dims of the gathered: merged with numel(b) there */
  Type result; /* with b there */
} Gathering;

/* What positions count in: dim `dim` of `to`. */
typedef struct Line {
  const Tensor *to;
  int dim;
  bool flat;          /* rule 1 */
  i64 row;            /* flat: elements of a row */
  i64 start;          /* flat: of the view's first element */
  i64 step[MAX_RANK]; /* for each dim of the view: positions that it steps over */
} Line;

static void gathering_dims(lua_State *L, State *S, Key *k, const Tensor *x, Gathering *g) {
  Type rest[2] = {{0}, {0}};
  memset(g, 0, sizeof *g);
  g->b.dtype = T_I64;
  for (int i = 0; i < k->nadv; i++) {
    Adv *a = &k->adv[i];
    if (a->t->type.dtype == T_BOOL) a->t = ty_lua_select_places(L, S, a->t, x->type.device);
    if (!ty_type_broadcast(&g->b, &a->t->type)) {
      Type own = a->t->type;
      own.dtype = T_I64;
      const char *b = ty_lua_view_text(L, &g->b);
      ty_lua_error(L, "%s: index tensors do not broadcast, %s and %s", k->who, b,
                   ty_lua_view_text(L, &own));
    }
    for (int d = 0; d < a->ndim; d++) g->taken |= 1u << (a->dim + d);
  }
  g->at = k->apart ? 0 : k->at;
  g->src.offset = k->v.offset;
  g->src.t.dtype = x->type.dtype;
  int order[MAX_RANK], n = 0, before = 0;
  for (int pass = 0; pass < 3; pass++) { /* dims before, indexed dims, dims behind */
    for (int d = 0; d < k->v.t.rank; d++) {
      bool in = g->taken >> d & 1;
      if (pass == 1 ? !in : in) continue;
      if (pass == 0 && before == g->at) break;
      if (pass == 2 && before > 0) {
        before--;
        continue;
      }
      if (pass == 0) before++;
      order[n++] = d;
      g->nsrc += pass == 1;
    }
  }
  g->src.t.rank = (u8)n;
  i64 places = 1;
  for (int i = 0; i < n; i++) {
    i64 size = k->v.t.dims[order[i]];
    g->src.t.dims[i] = size;
    g->src.strides[i] = k->v.strides[order[i]];
    if (i >= g->at && i < g->at + g->nsrc) places *= size;
    else rest[i >= g->at].dims[rest[i >= g->at].rank++] = size;
  }
  int rank = rest[0].rank + g->b.rank + rest[1].rank;
  if (rank > MAX_RANK) ty_lua_error(L, "%s: %d dims are more than %d", k->who, rank, MAX_RANK);
  i64 count = ty_type_numel(&g->b);
  Type *const all[] = {&g->merged, &g->line, &g->result};
  for (int i = 0; i < 3; i++) {
    Type *t = all[i];
    t->dtype = x->type.dtype;
    t->device = x->type.device;
    for (int d = 0; d < rest[0].rank; d++) t->dims[t->rank++] = rest[0].dims[d];
    if (i < 2) t->dims[t->rank++] = i == 0 ? places : count;
    else
      for (int d = 0; d < g->b.rank; d++) t->dims[t->rank++] = g->b.dims[d];
    for (int d = 0; d < rest[1].rank; d++) t->dims[t->rank++] = rest[1].dims[d];
  }
}

/* --- positions */

/* sum += part * by; part is let go of. */
static bool add_part(State *S, const Key *k, Tensor *sum, Tensor *part, i64 by) {
  Tensor y = {0};
  bool ok = true;
  if (by != 1) {
    const Given scaled[2] = {{.kind = O_TENSOR, .t = part}, {.kind = O_NUMBER, .v = (double)by}};
    ok = ty_record(S, k->who, OP_MUL, 2, scaled, &y);
    ty_tensor_release(part);
    if (!ok) return false;
    *part = y;
  }
  if (sum->st) {
    const Given both[2] = {{.kind = O_TENSOR, .t = sum}, {.kind = O_TENSOR, .t = part}};
    ok = ty_record(S, k->who, OP_ADD, 2, both, &y);
    ty_tensor_release(part);
    ty_tensor_release(sum);
    *part = y;
  }
  *sum = *part;
  return ok;
}

/* y: the digit of p that `size` places make, and p is what is left. The highest digit is all of p. */
static bool split_digit(State *S, const Key *k, Tensor *p, i64 size, bool highest, Tensor *y) {
  const Given src[2] = {{.kind = O_TENSOR, .t = p}, {.kind = O_NUMBER, .v = (double)size}};
  Tensor rest = {0};
  bool ok = highest || (ty_record(S, k->who, OP_REMAINDER, 2, src, y) &&
                        ty_record(S, k->who, OP_FLOOR_DIVIDE, 2, src, &rest));
  if (highest) *y = *p;
  else ty_tensor_release(p);
  *p = rest;
  return ok;
}

/* The positions of one index tensor, to sum. behind: dims of other positions behind its own. */
static bool add_places(State *S, const Key *k, const Adv *a, const Line *l, int behind,
                       Tensor *sum) {
  const i64 *dims = k->v.t.dims + a->dim, *step = l->step + a->dim;
  Tensor p = {0}, own = {0};
  i64 size = 1, strides[MAX_RANK] = {0};
  for (int d = 0; d < a->ndim; d++) size *= dims[d];
  bool ok = ty_record_positions(S, a->who, a->t, size, 1, &own);
  if (!ok) return false;
  Type t = own.type;
  memcpy(strides, own.strides, sizeof strides);
  for (int d = 0; d < behind; d++) t.dims[t.rank] = 1, strides[t.rank++] = 0;
  ty_tensor_view(&p, &own, &t, own.offset, strides);
  ty_tensor_release(&own);
  if (!a->ndim) return add_part(S, k, sum, &p, 0); /* a 0-d mask */
  for (int d = a->ndim - 1, first; d >= 0 && ok;
       d = first - 1) { /* dims that merge are one digit */
    for (first = d, size = dims[d]; first > 0 && step[first - 1] == step[first] * dims[first];)
      size *= dims[--first];
    Tensor digit = {0};
    ok = split_digit(S, k, &p, size, first == 0, &digit);
    if (ok) ok = add_part(S, k, sum, &digit, step[d]);
    else ty_tensor_release(&digit);
  }
  ty_tensor_release(&p);
  return ok;
}

/* Those along a dim of the view that no index tensor stands for. */
static bool add_all(State *S, const Key *k, i64 size, i64 step, int behind, int device,
                    Tensor *sum) {
  Type t = {.dtype = T_I64, .device = (u8)device, .rank = (u8)(behind + 1), .dims = {size}};
  Tensor p = {0};
  for (int d = 1; d <= behind; d++) t.dims[d] = 1;
  return ty_record_iota(S, &t, &p) && add_part(S, k, sum, &p, step);
}

/* The positions, seen with the dims of what they gather. */
static bool positions(State *S, const Key *k, const Gathering *g, const Line *l, const Type *line,
                      Tensor *y) {
  const int behind = l->flat ? g->src.t.rank - g->at - g->nsrc - (l->row > 1) : 0;
  Tensor sum = {0}, flat = {0};
  bool ok = true;
  for (int i = 0; i < k->nadv && ok; i++) ok = add_places(S, k, &k->adv[i], l, behind, &sum);
  for (int i = 0; i < g->src.t.rank && l->flat && ok; i++) {
    const i64 step = g->src.strides[i] / l->row;
    const int after = g->at + behind - i - 1;
    if (i < g->at)
      ok = add_all(S, k, g->src.t.dims[i], step, after + g->b.rank, line->device, &sum);
    else if (i >= g->at + g->nsrc && after + g->nsrc >= 0)
      ok = add_all(S, k, g->src.t.dims[i], step, after + g->nsrc, line->device, &sum);
  }
  if (ok && l->start) {
    const Given from[2] = {{.kind = O_TENSOR, .t = &sum},
                           {.kind = O_NUMBER, .v = (double)l->start}};
    ok = ty_record(S, k->who, OP_ADD, 2, from, &flat);
    ty_tensor_release(&sum);
    sum = flat, flat = (Tensor){0};
  }
  const Type t = ty_type_line(T_I64, line->device, line->dims[l->dim]);
  ok = ok && ty_record_reshape(S, &sum, &t, &flat);
  if (ok) {
    i64 strides[MAX_RANK] = {0};
    Type all = *line;
    all.dtype = T_I64;
    strides[l->dim] = flat.strides[0];
    ty_tensor_view(y, &flat, &all, flat.offset, strides);
  }
  ty_tensor_release(&flat);
  ty_tensor_release(&sum);
  return ok;
}

/* --- what they count in */

/* Elements of the rows that all positions of the flat line can step over: the last dim, or 1. */
static i64 row_of(const Gathering *g, i64 start, i64 whole) {
  const int last = g->src.t.rank - 1;
  const i64 row = last >= g->at + g->nsrc && g->src.strides[last] == 1 ? g->src.t.dims[last] : 1;
  bool ok = start % row == 0 && whole % row == 0;
  for (int d = 0; d < last && ok; d++) ok = g->src.strides[d] % row == 0;
  return ok ? row : 1;
}

/* Rows of x's memory: of all of it to write, else from the lowest element of the view to the highest. */
static void flat_line(lua_State *L, const Tensor *x, const Key *k, const Gathering *g, bool writes,
                      Line *l) {
  i64 low = 0, high = 0;
  for (int d = 0; d < g->src.t.rank; d++) {
    const i64 reach = (g->src.t.dims[d] - 1) * g->src.strides[d];
    if (reach < 0) low += reach;
    else high += reach;
  }
  const i64 offset = writes ? 0 : g->src.offset + low,
            whole = writes ? x->st->numel : high - low + 1;
  l->flat = true;
  l->start = g->src.offset - offset;
  l->row = row_of(g, l->start, whole);
  l->start /= l->row;
  l->dim = 0;
  View v = {.t = ty_type_line(x->type.dtype, x->type.device, whole / l->row), .offset = offset};
  v.strides[0] = l->row;
  if (l->row > 1) ty_lua_view_insert(&v, 1, l->row, 1);
  l->to = ty_lua_view_push(L, x, &v);
  for (int d = 0; d < k->v.t.rank; d++) l->step[d] = k->v.strides[d] / l->row;
}

/* Rule 1. Gives the dims of what is gathered. */
static Type find_line(lua_State *L, State *S, const Tensor *x, Key *k, const Gathering *g,
                      bool writes, Line *l) {
  const Tensor *src = ty_lua_view_push(L, x, &g->src);
  View v = {.t = g->merged, .offset = src->offset};
  TY_LUA_MUST(L, S, ty_capture_decide(S, src, &g->merged));
  bool merges = ty_tensor_reshape(src, &g->merged, v.strides);
  *l = (Line){.dim = g->at, .row = 1};
  for (int i = 0; i < k->nadv; i++) {
    Adv *a = &k->adv[i];
    a->who = lua_pushfstring(L, "%s (dim %d)", k->who, a->user + 1);
  }
  if (merges && writes && !S->level) {
    l->to = ty_lua_view_push(L, x, &v);
    merges = !v.offset && ty_type_numel(&v.t) == x->st->numel && ty_tensor_is_contiguous(l->to);
  }
  const bool batched = writes ? S->level != NULL : x->st->batched != NULL;
  if (!merges && !batched && !ty_tensor_is_complex(x) && ty_type_numel(&g->src.t)) {
    flat_line(L, x, k, g, writes, l);
    Type t = l->to->type;
    t.dims[0] = ty_type_numel(&g->result) / l->row;
    return t;
  }
  l->to = ty_lua_view_reshape(L, S, src, &g->merged);
  i64 step = 1;
  for (int d = k->v.t.rank - 1; d >= 0; d--)
    if (g->taken >> d & 1) l->step[d] = step, step *= k->v.t.dims[d];
  return g->line;
}

/* --- reading */

static bool read_line(State *S, const Key *k, const Gathering *g, const Line *l, const Type *line,
                      Tensor *y) {
  Lazy *z = ty_lazy_join(S, NULL);
  Tensor index = {0};
  bool ok = positions(S, k, g, l, line, &index) &&
            ty_record_gather(S, READ, l->to, l->dim, &index, POSITIONS_KNOWN, y);
  ty_tensor_release(&index);
  ok = ty_lazy_joined(S, z, ok, NULL);
  if (!ok) ty_tensor_release(y); /* it waits for what is not computed */
  return ok;
}

int ty_lua_places_read(lua_State *L, State *S, const Tensor *x, Key *k) {
  Gathering g;
  Line l;
  gathering_dims(L, S, k, x, &g);
  const Type line = find_line(L, S, x, k, &g, false, &l);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, read_line(S, k, &g, &l, &line, y));
  ty_lua_view_reshape(L, S, y, &g.result);
  return 1;
}

/* --- writing */

/* x[mask] = v where v does not depend on the number of places: no place need be counted. Gives
** false when it is not so simple. The mask has dims d on of the view; v's dims behind them
** follow. */
static bool assign_masked(lua_State *L, State *S, const Tensor *x, const Key *k, const Given *v) {
  const Adv *a = &k->adv[0];
  int behind = k->v.t.rank - a->dim - a->ndim;
  Given src[3] = {{.kind = O_TENSOR}, *v, {.kind = O_TENSOR}};
  if (v->kind ==
      O_TENSOR) { /* v's dim of the places is absent, or 1 and falls apart into more of size 1 */
    if (v->t->type.rank > behind) return false;
    Type joint = {.rank = (u8)behind};
    for (int d = 0; d < behind; d++) joint.dims[d] = k->v.t.dims[a->dim + a->ndim + d];
    Type want = joint;
    if (!ty_type_broadcast(&joint, &v->t->type) || !ty_type_same_dims(&joint, &want)) return false;
    Tensor *cast = ty_lua_push(L);
    TY_LUA_MUST(L, S, ty_record_cast(S, v->t, x->type.dtype, cast));
    src[1].t = cast;
  }
  if (v->symbol && x->type.dtype == T_BOOL) { /* in later calls, too, a truth value and no other */
    const Type one = {.dtype = T_BOOL, .device = x->type.device};
    Tensor *truth = ty_lua_push(L);
    TY_LUA_MUST(L, S, ty_record_number(S, &one, v, truth));
    src[1] = (Given){.kind = O_TENSOR, .t = truth};
  }
  View m = ty_lua_view_of(a->t);
  for (int d = 0; d < behind; d++) ty_lua_view_insert(&m, m.t.rank, 1, 0);
  src[0].t = ty_lua_view_push(L, a->t, &m);
  const Tensor *dst = ty_lua_view_push(L, x, &k->v);
  src[2].t = dst;
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record(S, WRITE, OP_WHERE, 3, src, y));
  Tensor *own = ty_lua_push(L); /* a bool x and a number met in i64 */
  TY_LUA_MUST(L, S, ty_record_cast(S, y, x->type.dtype, own));
  TY_LUA_MUST(L, S, ty_remade_assign(S, WRITE, dst, &(Given){.kind = O_TENSOR, .t = own}));
  return true;
}

/* Pushes v as a tensor of x's dtype with dims g->result, then seen with dims line. */
static const Tensor *push_source(lua_State *L, State *S, const Tensor *x, const Gathering *g,
                                 const Type *line, const Given *v) {
  Tensor *y = ty_lua_push(L);
  if (v->kind != O_TENSOR) {
    TY_LUA_MUST(L, S, ty_record_number(S, line, v, y));
    return y;
  }
  TY_LUA_MUST(L, S, ty_record_cast(S, v->t, x->type.dtype, y));
  Type joint = g->result;
  if (!ty_type_broadcast(&joint, &y->type) || !ty_type_same_dims(&joint, &g->result)) {
    const char *from = ty_lua_view_text(L, &v->t->type);
    ty_lua_error(L, WRITE ": %s does not broadcast to %s", from, ty_lua_view_text(L, &g->result));
  }
  View w = {.t = g->result, .offset = y->offset};
  ty_type_expand(&w.t, &y->type, y->strides, w.strides);
  return ty_lua_view_reshape(L, S, ty_lua_view_push(L, y, &w), line);
}

/* What is written is scattered to what x holds; dst gets all of that, which is in place where it can be. */
static bool write_line(State *S, const Key *k, const Gathering *g, const Line *l, const Tensor *dst,
                       const Tensor *src) {
  Lazy *z = ty_needs_grad(dst) || ty_needs_grad(src) ? NULL : ty_lazy_join(S, dst->st);
  Tensor index = {0}, y = {0}, whole = {0};
  bool ok =
      positions(S, k, g, l, &src->type, &index) &&
      ty_record_scatter(S, WRITE, OP_SCATTER, l->to, l->dim, &index, POSITIONS_KNOWN, src, &y) &&
      ty_record_reshape(S, &y, &dst->type, &whole);
  ty_tensor_release(&y);
  ok = ok && ty_remade_assign(S, WRITE, dst, &(Given){.kind = O_TENSOR, .t = &whole, .dies = true});
  ty_tensor_release(&whole);
  ty_tensor_release(&index);
  return ty_lazy_joined(S, z, ok, dst->st);
}

void ty_lua_places_write(lua_State *L, State *S, const Tensor *x, Key *k, const Given *v) {
  Gathering g;
  Line l;
  if (k->nadv == 1 && k->adv[0].t->type.dtype == T_BOOL && !k->apart &&
      assign_masked(L, S, x, k, v))
    return;
  gathering_dims(L, S, k, x, &g);
  TY_LUA_MUST(L, S, ty_record_distinct(S, WRITE, &g.src.t, g.src.strides));
  const Type line = find_line(L, S, x, k, &g, true, &l);
  const Tensor *src = push_source(L, S, x, &g, &line, v);
  const Tensor *dst = l.to->st == x->st ? l.to : ty_lua_view_push(L, x, &g.src);
  TY_LUA_MUST(L, S, write_line(S, k, &g, &l, dst, src));
}
