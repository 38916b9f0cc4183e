/*
** vmap.c -- operations on batched tensors, for all examples at once.
** In: operands of which one at least is batched (vmap.h), as record.c got them. Out: a batched result, whose
** values the same functions of record.c recorded. Fails when out of memory, where a tensor would get too many
** dims, and where examples write different values to a tensor that they share.
**
** 1. All classes of operations reduce to one idea: the examples are a dim in front. Dims of an operation move
**    one further; maps and writes broadcast as ever, products over leading dims; views need nothing at all.
** 2. Of operands with different levels the highest counts. The others are constants there, whatever they are
**    further out: what is recorded for all examples comes back here for the next level.
** 3. The order in which elements are added depends on the reduced dims alone, never on those in front. So every
**    example gets the bits that it would get alone.
** 4. A tensor made inside of a vmap begins as one for all examples. The first batched value that is written to
**    it makes its storage batched, seen through every view of it.
** 5. Tapes are kept at both levels: by record.c for the storages of one example, by what is recorded here for
**    those of all. An inner gradient follows the one, an outer gradient the other.
*/
#include "record/grad.h"
#include "record/vmap.h"

/* --- levels */

Level ty_vmap_begin(State *S, u32 id, i64 count, RandomRule random) {
  return (Level){NULL, id ? id : ++S->levels, random, count, S->record_seq, S->born, id != 0};
}

Level ty_vmap_outside(const State *S) {
  return (Level){NULL, 0, RANDOM_SAME, 1, S->record_seq, S->born, true};
}

static const Level *find(const State *S, u32 id) {
  const Level *v = S->level;
  while (v && v->id != id) v = v->outer;
  return v;
}

bool ty_vmap_is_open(const State *S, u32 id) { return find(S, id) != NULL; }

i64 ty_vmap_count(const State *S, u32 id) {
  const Level *v = find(S, id);
  return v ? v->count : -1;
}

RandomRule ty_vmap_randomness(const State *S, u32 id) {
  const Level *v = find(S, id);
  return v ? v->random : RANDOM_ERROR;
}

bool ty_vmap_is_inside(const State *S, u32 id, u64 seq) {
  const Level *v = find(S, id);
  return v && seq > v->seq;
}

bool ty_vmap_has_made(const State *S, u32 id, const Storage *st) {
  const Level *v = find(S, id);
  return v && st->born > v->born;
}

u32 ty_vmap_level_of(int n, const Given *src) {
  u32 level = 0;
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR) level = TY_MAX(level, ty_vmap_level(src[i].t));
  return level;
}

/* --- batched storages */

static bool batched_set(State *S, Storage *st, u32 level, const Tensor *t) {
  Batched *m = ty_mem_alloc(sizeof *m);
  if (!m) return ty_fail_memory(S, "vmap", 0);
  *m = (Batched){level, *t};
  st->batched = m;
  return true;
}

Storage *ty_vmap_above(State *S, Storage *f, bool detached) {
  Storage *st = ty_storage_new(S, f->dtype, f->device, f->numel);
  Tensor t = {.st = f,
              .type = {.dtype = f->dtype, .device = f->device, .rank = 2, .dims = {1, f->numel}}};
  t.strides[1] = 1;
  t.detached = detached;
  if (st && batched_set(S, st, S->level->id, &t)) return st;
  ty_storage_drop(f);
  ty_storage_drop(st);
  return NULL;
}

Storage *ty_batched_like(State *S, const Storage *like, Storage *all) {
  Storage *st = all ? ty_storage_new(S, like->dtype, like->device, like->numel) : NULL;
  Tensor t = like->batched->t;
  t.st = all;
  if (st && batched_set(S, st, like->batched->level, &t)) return st;
  ty_storage_drop(all);
  ty_storage_drop(st);
  return NULL;
}

bool ty_vmap_wrap(State *S, Tensor *x, u32 level, const Type *t, Tensor *y) {
  Tensor r = {.type = *t}, all = *x, one = *x, own = {0};
  r.type.dtype = x->type.dtype;
  r.type.device = x->type.device;
  ty_type_strides(&r.type, r.strides);
  for (int d = 1; d < one.type.rank; d++) {
    one.type.dims[d - 1] = one.type.dims[d];
    one.strides[d - 1] = one.strides[d];
  }
  one.type.dims[--one.type.rank] = 0;
  bool ok = ty_tensor_is_contiguous(&one) || ty_record_copy(S, x, &own);
  if (ok && own.st) {
    ty_tensor_release(x);
    all = own;
  }
  x->st = NULL;
  const int dtype = ty_dtype_part(r.type.dtype); /* of the storage, whose elements are counted */
  i64 n = ty_type_numel(t) * ty_dtype_width(r.type.dtype), count = all.type.dims[0];
  i64 step = count == 1 ? n : all.strides[0];
  all.type = (Type){.dtype = (u8)dtype, .device = r.type.device, .rank = 2, .dims = {count, n}};
  memset(all.strides, 0, sizeof all.strides);
  all.strides[0] = step;
  all.strides[1] = 1;
  ok = ok && (r.st = ty_storage_new(S, dtype, r.type.device, n)) &&
       batched_set(S, r.st, level, &all);
  if (ok) {
    *y = r;
    return true;
  }
  ty_storage_drop(r.st);
  ty_tensor_release(&all);
  return false;
}

bool ty_vmap_lift(State *S, const Tensor *x, u32 level, i64 count, int rank, Tensor *y) {
  bool batched = ty_vmap_level(x) == level;
  const Tensor *all = batched ? &x->st->batched->t : x;
  Type t = {.dtype = x->type.dtype, .device = x->type.device};
  i64 strides[MAX_RANK] = {0};
  if (!batched && count < 0) {
    ty_tensor_alias(y, x);
    return true;
  }
  if (TY_MAX(rank, x->type.rank) >= MAX_RANK)
    return ty_fail(S, "vmap: a tensor of %d dims has no room for the batch", MAX_RANK);
  t.dims[0] = batched ? all->type.dims[0] : count;
  strides[0] = batched ? all->strides[0] : 0;
  if (count >= 0 && t.dims[0] == 1) { /* the same for all */
    t.dims[0] = count;
    strides[0] = 0;
  }
  for (t.rank = 1; t.rank + x->type.rank <= rank; t.rank++) t.dims[t.rank] = 1;
  for (int d = 0; d < x->type.rank; d++, t.rank++) {
    t.dims[t.rank] = x->type.dims[d];
    strides[t.rank] = x->strides[d];
  }
  ty_tensor_view(y, all, &t, batched ? all->offset + x->offset : x->offset, strides);
  y->detached |= x->detached;
  return true;
}

/* Makes st, which all examples share, one for each of them, with what it holds. */
static bool spread(State *S, Storage *st, u32 level, i64 count) {
  Batched *was = st->batched;
  bool own = was && was->level == level;
  Storage *f =
      own ? ty_storage_hold(was->t.st) : ty_storage_new(S, st->dtype, st->device, st->numel);
  Tensor x = {.st = f,
              .type = {.dtype = st->dtype,
                       .device = st->device,
                       .rank = 2,
                       .dims = {count, st->numel}}},
         all = {0};
  if (!f) return false;
  x.strides[1] = 1;
  if (own) {
    x.offset = was->t.offset;
    x.detached = was->t.detached;
  } else {
    if (st->recording) ty_storage_wait(f, st->recording, st->node);
    else if (st->buf) f->buf = ty_buffer_hold(st->buf);
    if (st->tape) f->tape = ty_record_hold(st->tape);
    f->batched = was;
  }
  bool ok = ty_record_copy(S, &x, &all) && batched_set(S, st, level, &all);
  if (ok) {
    ty_storage_settle(st, NULL);
    if (st->snapshot)
      st->snapshot = st->snapshot->snapshot = NULL; /* it holds what st held, and goes on to */
  } else if (all.st) ty_tensor_release(&all);
  if (ok && own) ty_batched_free(was);
  if (!ok && !own) f->batched = NULL;
  ty_storage_drop(f);
  return ok;
}

/* --- operations */

/* x, if ok, which holds the results of all examples, stands for one of dims t. */
static bool end(State *S, bool ok, Tensor *x, u32 level, const Type *t, Tensor *y) {
  if (ok) return ty_vmap_wrap(S, x, level, t, y);
  if (x->st) ty_tensor_release(x);
  return false;
}

static void drop(Tensor *p, int n) {
  for (int i = 0; i < n; i++)
    if (p[i].st) ty_tensor_release(&p[i]);
}

/* How many examples the operands have at that level. */
static i64 count_of(u32 level, int n, const Given *src) {
  i64 count = 1;
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR && ty_vmap_level(src[i].t) == level && count == 1)
      count = src[i].t->st->batched->t.type.dims[0];
  return count;
}

/* src for all examples, with the tensors in p, which the caller drops. */
static bool lift_all(State *S, u32 level, i64 count, int rank, int n, const Given *src, Given *all,
                     Tensor *p) {
  for (int i = 0; i < n; i++) {
    all[i] = src[i];
    if (src[i].kind != O_TENSOR) continue;
    if (!ty_vmap_lift(S, src[i].t, level, count, rank, &p[i])) return false;
    all[i].t = &p[i];
  }
  return true;
}

/* x as a matrix: a vector is a row, or a column. */
static Tensor as_matrix(const Tensor *x, bool column) {
  Tensor y = *x;
  if (x->type.rank != 1) return y;
  y.type.rank = 2;
  y.type.dims[!column] = x->type.dims[0];
  y.strides[!column] = x->strides[0];
  y.type.dims[column] = 1;
  return y;
}

/* p[0] times p[1]; rows of all examples times one matrix are one product, not one for each example. */
static bool product(State *S, const char *who, Tensor *p, Tensor *y) {
  Given src[2] = {{.t = p}, {.t = p + 1}};
  Type t = p[0].type;
  Tensor rows = {0};
  if (t.rank == 3 && p[1].type.rank == 2) {
    t.dims[0] *= t.dims[1];
    t.dims[1] = t.dims[2];
    t.dims[--t.rank] = 0;
    if (!ty_record_reshape(S, p, &t, &rows)) return false;
    src[0].t = &rows;
  }
  bool ok = ty_record(S, who, OP_MATMUL, 2, src, y);
  if (!rows.st) return ok;
  ty_tensor_release(&rows);
  if (!ok) return false;
  y->type.dims[0] = p->type.dims[0]; /* contiguous, of as many elements for each */
  y->strides[0] = y->type.dims[1] *= p->type.dims[1];
  return true;
}

bool ty_vmap_record(State *S, const char *who, int op, int n, const Given *src, VmapArg arg,
                    const Type *t, Tensor *y) {
  u32 level = ty_vmap_level_of(n, src);
  int class = ty_ops[op].class, rank = class == MAP ? t->rank : 1, d = arg.dim + 1;
  Tensor p[3] = {{0}}, m[2], x = {0};
  Given all[3], two[2] = {{.t = &m[0]}, {.t = &m[1]}};
  if (op == OP_MATMUL) {
    for (int i = 0; i < 2; i++) m[i] = as_matrix(src[i].t, i);
    rank = TY_MAX(m[0].type.rank, m[1].type.rank);
    src = two;
  }
  i64 count = class == MOVE ? count_of(level, n, src) : -1;
  bool ok = lift_all(S, level, count, rank, n, src, all, p);
  if (ok) {
    switch (op) {
    case OP_MATMUL: ok = product(S, who, p, &x); break;
    case OP_CAST:
      ok = arg.dim < 0 ? ty_record_copy(S, p, &x) : ty_record_cast(S, p, arg.dim, &x);
      break;
    case OP_TO: ok = ty_record_to(S, p, arg.dim, &x); break;
    case OP_BITCAST: ok = ty_record_bitcast(S, p, arg.dim, &x); break;
    case OP_ARGSORT: ok = ty_record_argsort(S, p, d, arg.base, arg.keep, &x); break;
    case OP_FFT: ok = ty_record_fft(S, who, p, d, arg.base, arg.norm, arg.keep, &x); break;
    case OP_GATHER: ok = ty_record_gather(S, who, p, d, p + 1, arg.base, &x); break;
    case OP_SEARCHSORTED: ok = ty_record_searchsorted(S, p, p + 1, arg.base, &x); break;
    case OP_POSITIONS: ok = ty_record_positions(S, who, p, arg.keep, arg.base, &x); break;
    case OP_SCATTER:
    case OP_SCATTER_ADD:
      ok = ty_record_scatter(S, who, op, p, d, p + 1, arg.base, p + 2, &x);
      break;
    default:
      if (class == MAP) ok = ty_record(S, who, op, n, all, &x);
      else if (class == SCAN) ok = ty_record_scan(S, who, op, p, d, &x);
      else
        ok = ty_record_reduce(
            S, who, op, p, (p->type.rank == 2 && !src->t->type.rank) ? 2 : arg.dims << 1, true, &x);
    }
  }
  drop(p, 3);
  return end(S, ok, &x, level, t, y);
}

bool ty_vmap_contract(State *S, const char *who, const Tensor *a, const Tensor *b, int lead,
                      int summed, const Type *t, Tensor *y) {
  u32 level = TY_MAX(ty_vmap_level(a), ty_vmap_level(b));
  Tensor p[2] = {{0}}, x = {0};
  bool ok = ty_vmap_lift(S, a, level, 1, 0, &p[0]) && ty_vmap_lift(S, b, level, 1, 0, &p[1]) &&
            ty_record_contract(S, who, &p[0], &p[1], lead + 1, summed, &x);
  drop(p, 2);
  return end(S, ok, &x, level, t, y);
}

bool ty_vmap_cat(State *S, const char *who, int n, const Given *src, int dim, const Type *t,
                 Tensor *y) {
  u32 level = ty_vmap_level_of(n, src);
  i64 count = count_of(level, n, src);
  Tensor *p = ty_mem_zalloc((sizeof *p + sizeof p) * (size_t)n), x = {0};
  const Tensor **list = (const Tensor **)(p + n);
  bool ok = p || ty_fail_memory(S, who, 0);
  for (int i = 0; ok && i < n; i++) {
    ok = ty_vmap_lift(S, src[i].t, level, count, 0, &p[i]);
    list[i] = &p[i];
  }
  ok = ok && ty_record_cat(S, who, n, list, dim + 1, &x);
  if (p) drop(p, n);
  ty_mem_free(p);
  return end(S, ok, &x, level, t, y);
}

/* Whether dst is one for each of so many examples. */
static bool is_each(const Tensor *dst, u32 level, i64 count) {
  Given one = {.kind = O_TENSOR, .t = dst};
  return ty_vmap_level(dst) > level ||
         (ty_vmap_level(dst) == level && count_of(level, 1, &one) == count);
}

static bool may_spread(const State *S, const Storage *st, u32 level) {
  return ty_vmap_has_made(S, level, st) && !(st->buf && st->buf->exposed);
}

bool ty_vmap_may_write(const State *S, const Tensor *dst, const Tensor *x) {
  Given both[2] = {{.kind = O_TENSOR, .t = dst}, {.kind = O_TENSOR, .t = x}};
  u32 level = ty_vmap_level(x);
  return !level || is_each(dst, level, count_of(level, 2, both)) || may_spread(S, dst->st, level);
}

bool ty_vmap_open_to(State *S, const char *who, const Tensor *dst, const Given *x) {
  Given both[2] = {{.kind = O_TENSOR, .t = dst}, *x};
  u32 level = ty_vmap_level(x->t);
  Storage *st = dst->st;
  i64 count = count_of(level, 2, both);
  if (is_each(dst, level, count)) return true;
  if (!may_spread(S, st, level))
    return ty_fail(S,
                   "%s: different values for each example of a vmap are written to a tensor that "
                   "all share (make it inside, or clone it there)",
                   who);
  return spread(S, st, level, count);
}

bool ty_vmap_write(State *S, const char *who, const Tensor *dst, const Given *x) {
  Given both[2] = {{.kind = O_TENSOR, .t = dst}, *x}, all[2];
  Tensor p[2] = {{0}};
  bool ok = lift_all(S, ty_vmap_level(dst), -1, dst->type.rank, 2, both, all, p) &&
            ty_record_assign(S, who, &p[0], &all[1]);
  drop(p, 2);
  if (ok) dst->st->version++;
  return ok;
}

bool ty_vmap_random(State *S, const Level *at, const Type *dims, u64 stream, int word, Tensor *y) {
  Tensor x = {0};
  while (at && at->random == RANDOM_SAME) at = at->id ? at->outer : NULL;
  if (at && at->random == RANDOM_ERROR)
    return ty_fail(
        S, "vmap: random numbers need {randomness = \"different\"} for each example, or \"same\"");
  Type t = *dims;
  if (at) {
    if (t.rank == MAX_RANK)
      return ty_fail(S, "vmap: a tensor of %d dims has no room for the batch", MAX_RANK);
    memmove(t.dims + 1, t.dims, sizeof *t.dims * t.rank);
    t.dims[0] = at->count;
    t.rank++;
  }
  if (at) return end(S, ty_vmap_random(S, at->outer, &t, stream, word, &x), &x, at->id, dims, y);
  Level *inner = S->level;
  S->level = NULL;
  bool ok = ty_record_random(S, &t, stream, word, y);
  S->level = inner;
  return ok;
}
