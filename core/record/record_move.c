/*
** record_move.c -- what goes by index: gather, scatter; sorting, which makes one; and Fourier transforms.
** In: tensors; an index of integers that counts from a base, or from the end. Out: as of record.c.
** Fails where an index names no place, with the first one that does not.
**
** An index is checked before anything is recorded, which demands its value; unless value_range.c knows that its
** elements are places, a capture leaves the check to later runs, or the run makes it as it comes to it.
*/
#include <stdatomic.h>
#include <stdio.h>
#include "record/record.h"
#include "base/system.h"
#include "ir/site.h"
#include "record/capture.h"
#include "record/complex.h"
#include "record/grad.h"
#include "record/vmap.h"

/* --- indices */

static void index_text(const Type *t, i64 at, char *buf) {
  int n = snprintf(buf, SHOWN, "(");
  i64 strides[MAX_RANK] = {0};
  ty_type_strides(t, strides);
  for (int d = 0; d < t->rank && n < SHOWN - 24; d++) {
    n += snprintf(buf + n, (size_t)(SHOWN - n), d ? ", %lld" : "%lld",
                  (long long)(at / strides[d] % t->dims[d] + 1));
  }
  snprintf(buf + n, (size_t)(SHOWN - n), ")");
}

/* What a row of an index must name. */
typedef struct Places {
  i64 size, base, skip;
  bool skips;
} Places;

/* Whether one of n elements a stride apart names no place: then a sign bit is set among places and what they lack
** to the last. Without a branch, so that vectors do it: on x86-64 those of AVX2 where the processor has them. */
#if defined(__GNUC__) && !defined(__clang__)
#define VECTORS __attribute__((optimize("O2,tree-vectorize,vect-cost-model=dynamic")))
#else
#define VECTORS
#endif
#define ROW(type, isa, target) \
  VECTORS target static bool bad_##type##isa(const void *p, i64 n, i64 stride, const Places *k) { \
    const type *x = p; \
    const u64 base = (u64)k->base, whole = (u64)k->size + base, last = (u64)k->size - 1; \
    u64 bad = 0; \
    if (stride == 1 && !k->skips) { \
      /* As if none counted from the end: mostly so, and soon seen. */ \
      for (i64 i = 0; i < n; i++) { \
        const u64 at = (u64)(i64)x[i] - base; \
        bad |= at | (last - at); \
      } \
      if (!(bad >> 63)) return false; \
      bad = 0; \
      for (i64 i = 0; i < n; i++) { \
        const i64 v = (i64)x[i]; \
        const u64 place = (u64)v - base + ((u64)(v >> 63) & whole); \
        bad |= place | (last - place); \
      } \
    } else \
      for (i64 i = 0; i < n; i++) { \
        const i64 v = (i64)x[i * stride]; \
        const u64 place = (u64)v - base + ((u64)(v >> 63) & whole); \
        bad |= k->skips && v == k->skip ? 0 : place | (last - place); \
      } \
    return bad >> 63; \
  }
#define ROWS(isa, target) \
  ROW(u8, isa, target) \
  ROW(i8, isa, target) \
  ROW(u16, isa, target) \
  ROW(u32, isa, target) \
  ROW(i16, isa, target) \
  ROW(i32, isa, target) \
  ROW(i64, isa, target) \
  static BadFn *const bad##isa[T_COUNT] = { \
      [T_U8] = bad_u8##isa,   [T_I8] = bad_i8##isa,   [T_U16] = bad_u16##isa, \
      [T_U32] = bad_u32##isa, [T_I16] = bad_i16##isa, [T_I32] = bad_i32##isa, \
      [T_I64] = bad_i64##isa};
typedef bool BadFn(const void *p, i64 n, i64 stride, const Places *k);
ROWS(, )
#if defined(__x86_64__)
ROWS(_avx2, __attribute__((target("avx2"))))
static BadFn *bad_fn(int dtype) { return ty_cpu_has(CPU_AVX2) ? bad_avx2[dtype] : bad[dtype]; }
#else
static BadFn *bad_fn(int dtype) { return bad[dtype]; }
#endif

typedef struct IndexRow {
  BadFn *bad;
  const char *p;
  i64 stride;
  int bytes;
  Places places;
  _Atomic bool found;
} IndexRow;

static void look_at_row(void *arg, i64 begin, i64 end) {
  IndexRow *r = arg;
  if (r->bad(r->p + begin * r->stride * r->bytes, end - begin, r->stride, &r->places))
    atomic_store_explicit(&r->found, true, memory_order_relaxed);
}

/* By rows of the last dim, or as one where it lies in order; the element itself is looked for in a row that has one. */
i64 ty_record_bad_index(const Tensor *index, const char *p, i64 size, int base,
                        const double *skip) {
  enum { GRAIN = 16384 };
  const Type *t = &index->type;
  const i64 all = ty_type_numel(t);
  const bool whole = !t->rank || ty_tensor_is_contiguous(index);
  const i64 n = whole ? all : t->dims[t->rank - 1];
  IndexRow r = {.bad = bad_fn(t->dtype), .bytes = ty_dtypes[t->dtype].bytes};
  r.stride = whole ? 1 : index->strides[t->rank - 1];
  r.places = (Places){.size = size, .base = base};
  if (skip && *skip > -0x1p62 && *skip < 0x1p62 && *skip == (double)(i64)*skip)
    r.places.skips = true, r.places.skip = (i64)*skip;
  Type rows = *t; /* all dims but the last */
  rows.rank = whole ? 0 : (u8)(t->rank - 1);
  Walk w = {0};
  for (i64 i = 0; i < all; i += n, ty_walk_next(&w, &rows, index->strides)) {
    r.p = p + w.offset * r.bytes;
    if (TY_LIKELY(n <= GRAIN))
      look_at_row(&r, 0, n); /* the pool would do the same, with more ado */
    else ty_pool_run(n, GRAIN, look_at_row, &r);
    if (TY_LIKELY(!r.found)) continue;
    i64 k = 0;
    while (!r.bad(r.p + k * r.stride * r.bytes, 1, 1, &r.places)) k++;
    return i + k;
  }
  return -1;
}

/* The element at that position in row-major order. */
static double element(const Tensor *x, const char *p, i64 at) {
  i64 offset = ty_type_offset(&x->type, x->strides, at);
  return ty_elem_load(x->type.dtype, p + offset * ty_dtypes[x->type.dtype].bytes);
}

/* An index that the open recording computes from nothing but positions: no run can give one that is not
 * among the places. */
static bool is_in_range(const State *S, const Tensor *index, i64 size, int base) {
  if (!ty_type_numel(&index->type)) return true;
  if (!S->open || index->st->recording != S->open) return false;
  if (S->capture && S->capture->ranged) return false;
  Range r = ty_range_of(S->open, index->st->node);
  bool gap = base > 0 && r.lo <= 0 && r.hi >= 0; /* 0 names nothing */
  return r.lo >= -size && r.hi < size + base && !gap;
}

/* When an index is looked at. */
typedef enum {
  NEVER,   /* it cannot be out of range */
  NOW,     /* its value is demanded */
  BEFORE,  /* by a capture's later runs, before anything else (IndexCheck): of `from` */
  MEANTIME /* by POSITIONS, as the run comes to it: a device with a queue is not waited for, and a capture has no value */
} Look;

static Look look_at(State *S, const Tensor *index, i64 size, int base, Tensor *from) {
  if (index->type.device && size > 0) return is_in_range(S, index, size, base) ? NEVER : MEANTIME;
  *from = *index;
  if (S->capture && !index->st->recording && !ty_capture_is_fresh(S, index->st)) return BEFORE;
  if (ty_capture_copied(S, index, from)) return BEFORE;
  if (is_in_range(S, index, size, base)) return NEVER;
  if (S->open && S->open->body && index->st->recording == S->open && size > 0) return MEANTIME;
  return S->capture && index->st->recording == S->capture->recording && size > 0 ? MEANTIME : NOW;
}

bool ty_record_check_index(State *S, const char *who, const Tensor *index, i64 size, int base,
                           const double *skip, bool *later) {
  char where[SHOWN];
  int d = index->type.dtype;
  Tensor from;
  *later = false;
  if (base == POSITIONS_KNOWN) return true;
  if (!ty_is_int(d))
    return ty_fail(S, "%s: the index must be of integers, got %s%s", who, ty_dtypes[d].name,
                   ty_is_float(d) ? " (use :to(\"i64\"))" : "");
  if (d == T_U64) return ty_fail(S, "%s: an index of u64 is not taken (use :to(\"i64\"))", who);
  switch (look_at(S, index, size, base, &from)) {
  case NEVER: return true;
  case BEFORE: return ty_capture_check(S, &from, size, base, skip);
  case MEANTIME: return *later = true;
  case NOW: break;
  }
  const char *p = ty_tensor_read(S, index);
  if (!p) return false;
  i64 bad = ty_record_bad_index(index, p, size, base, skip);
  if (bad < 0) return true;
  index_text(&index->type, bad, where);
  return ty_fail(S, "%s: index %.17g at %s is out of range %d..%lld", who, element(index, p, bad),
                 where, base, (long long)(size + base - 1));
}

/* 0-based positions of an index: i - base, or i + size where it is negative; `later`: they are checked here. */
static i32 index_node(State *S, Recording *b, const char *who, const Tensor *index, i64 size,
                      int base, bool later) {
  i32 i = ty_node_cast(b, ty_record_node(S, b, index), T_I64);
  if (i < 0 || base == POSITIONS_KNOWN) return i;
  if (later) {
    char where[SHOWN] = "";
    if (S->where) S->where(S, where, sizeof where);
    Node n = ty_node_new(OP_POSITIONS, &b->g.node[i].type, i, -1, -1);
    n.arg.k = base;
    n.arg.k2 = ty_site(who, where);
    n.arg.bits = (u64)size;
    return ty_node_append(b, &n);
  }
  Type t = b->g.node[i].type, cond = t;
  cond.dtype = T_BOOL;
  i32 zero = ty_node_scalar(b, T_I64, 0), n = ty_node_scalar(b, T_I64, (double)size);
  i32 first = ty_node_scalar(b, T_I64, base);
  if (zero < 0 || n < 0 || first < 0) return -1;
  Node below = ty_node_new(OP_LT, &cond, i, zero, -1);
  Node wrapped = ty_node_new(OP_ADD, &t, i, n, -1), plain = ty_node_new(OP_SUB, &t, i, first, -1);
  i32 lt = ty_node_append(b, &below), w = ty_node_append(b, &wrapped),
      p = ty_node_append(b, &plain);
  if (lt < 0 || w < 0 || p < 0) return -1;
  Node pick = ty_node_new(OP_WHERE, &t, lt, w, p);
  return ty_node_append(b, &pick);
}

/* The index fits x: same rank, and outside dim not larger. */
static bool check_index_shape(State *S, const char *who, const Type *x, const Type *index,
                              int dim) {
  char sx[SHOWN], si[SHOWN];
  bool ok = x->rank == index->rank;
  for (int d = 0; ok && d < x->rank; d++) ok = d == dim || index->dims[d] <= x->dims[d];
  return ok || ty_fail(S, "%s: an index %s does not fit %s along dim %d", who,
                       ty_record_show(index, si), ty_record_show(x, sx), dim + 1);
}

/* The index without what it repeats: one element along dims in which it does not step. Checks and arithmetic are for
 * that alone, and that gathers and scatters go by rows can be seen. */
static Tensor index_once(const Tensor *index) {
  Tensor y = *index;
  for (int d = 0; d < y.type.rank; d++)
    if (!y.strides[d] && y.type.dims[d] > 1) y.type.dims[d] = 1;
  return ty_type_numel(&index->type) ? y : *index;
}

bool ty_record_positions(State *S, const char *who, const Tensor *index, i64 size, int base,
                         Tensor *y) {
  const Given src = {.kind = O_TENSOR, .t = index};
  Type t = index->type;
  Recording *b;
  bool later;
  t.dtype = T_I64;
  if (TY_UNLIKELY(index->st->batched != NULL))
    return ty_vmap_record(S, who, OP_POSITIONS, 1, &src, (VmapArg){.base = base, .keep = size}, &t,
                          y);
  if (!ty_record_check_index(S, who, index, size, base, NULL, &later) ||
      ty_record_start(S, who, index, index->type.dtype, &b) < 0)
    return false;
  const i32 i = index_node(S, b, who, index, size, base, later);
  return i < 0 ? ty_record_cancel_memory(S, b, who) : ty_record_finish(S, b, i, y, who);
}

/* --- moves */

bool ty_record_gather(State *S, const char *who, const Tensor *x, int dim, const Tensor *index,
                      int base, Tensor *y) {
  Recording *b;
  bool later;
  who = ty_record_name(who, OP_GATHER);
  if (!check_index_shape(S, who, &x->type, &index->type, dim)) return false;
  if (TY_UNLIKELY(ty_tensor_is_complex(x)))
    return ty_complex_gather(S, who, x, dim, index, base, y);
  Given src[2] = {{.kind = O_TENSOR, .t = x}, {.kind = O_TENSOR, .t = index}};
  if (!ty_record_same_device(S, who, 2, src)) return false;
  if (TY_UNLIKELY(ty_vmap_level_of(2, src))) {
    VmapArg arg = {.dim = dim, .base = base};
    if (!ty_vmap_record(S, who, OP_GATHER, 2, src, arg, &index->type, y)) return false;
  } else {
    const Tensor once = index_once(index);
    if (!ty_record_check_index(S, who, &once, x->type.dims[dim], base, NULL, &later) ||
        !ty_record_settle(S, x))
      return false;
    i32 a = ty_record_start(S, who, x, x->type.dtype, &b);
    if (a < 0) return false;
    if (!ty_record_settle(S, index)) return ty_record_cancel(S, b);
    i32 i = index_node(S, b, who, &once, x->type.dims[dim], base, later);
    i = ty_node_expand(b, i, &index->type);
    if (i < 0) return ty_record_cancel_memory(S, b, who);
    Type t = index->type;
    t.dtype = x->type.dtype;
    Node n = ty_node_new(OP_GATHER, &t, a, i, -1);
    n.arg.k = dim;
    if (!ty_record_finish(S, b, ty_node_append(b, &n), y, who)) return false;
  }
  if (TY_LIKELY(!S->tracks)) return true;
  return ty_grad_note(
      S, &(TapeEntry){.kind = OP_GATHER, .n = 2, .src = src, .dim = dim, .base = base}, y);
}

bool ty_record_scatter(State *S, const char *who, int op, const Tensor *x, int dim,
                       const Tensor *index, int base, const Tensor *src, Tensor *y) {
  char si[SHOWN], ss[SHOWN];
  Recording *b;
  bool later;
  who = ty_record_name(who, op);
  if (!check_index_shape(S, who, &x->type, &index->type, dim)) return false;
  if (!ty_type_same_dims(&index->type, &src->type))
    return ty_fail(S, "%s: index and source differ in shape, %s and %s", who,
                   ty_record_show(&index->type, si), ty_record_show(&src->type, ss));
  if (TY_UNLIKELY(ty_tensor_is_complex(x) || ty_tensor_is_complex(src)))
    return ty_complex_scatter(S, who, op, x, dim, index, base, src, y);
  Given given[3] = {{.t = x}, {.t = index}, {.t = src}};
  if (!ty_record_same_device(S, who, 3, given)) return false;
  if (TY_UNLIKELY(ty_vmap_level_of(3, given))) {
    VmapArg arg = {.dim = dim, .base = base};
    if (!ty_vmap_record(S, who, op, 3, given, arg, &x->type, y)) return false;
  } else {
    const Tensor once = index_once(index);
    if (!ty_record_check_index(S, who, &once, x->type.dims[dim], base, NULL, &later) ||
        !ty_record_settle(S, x) || !ty_record_settle(S, src))
      return false;
    i32 a = ty_record_start(S, who, x, x->type.dtype, &b);
    if (a < 0) return false;
    if (!ty_record_settle(S, index) || !ty_record_settle(S, src)) return ty_record_cancel(S, b);
    i32 i = index_node(S, b, who, &once, x->type.dims[dim], base, later);
    i = ty_node_expand(b, i, &index->type);
    i32 v = ty_node_cast(b, ty_record_node(S, b, src), x->type.dtype);
    if (i < 0 || v < 0) return ty_record_cancel_memory(S, b, who);
    Node n = ty_node_new(op, &b->g.node[a].type, a, i, v);
    n.arg.k = dim;
    if (!ty_record_finish(S, b, ty_node_append(b, &n), y, who)) return false;
  }
  if (TY_LIKELY(!S->tracks)) return true;
  return ty_grad_note(S, &(TapeEntry){.kind = op, .n = 3, .src = given, .dim = dim, .base = base},
                      y);
}

bool ty_record_argsort(State *S, const Tensor *x, int dim, bool descending, i64 keep, Tensor *y) {
  const char *who = "argsort";
  Recording *b;
  Given src = {.t = x};
  Type t = x->type;
  if (!ty_complex_refuse(S, who, x)) return false;
  if (keep >= 0 && t.rank) t.dims[dim] = keep;
  if (TY_UNLIKELY(x->st->batched != NULL)) {
    const VmapArg arg = {.dim = dim, .base = descending, .keep = keep};
    return ty_vmap_record(S, who, OP_ARGSORT, 1, &src, arg, &t, y);
  }
  i32 a = ty_record_start(S, who, x, x->type.dtype, &b);
  if (a < 0) return false;
  if (t.rank == 0)
    a = ty_node_reshape(b, a,
                        &(Type){.dtype = t.dtype, .device = t.device, .rank = 1, .dims = {1}});
  if (a < 0) return ty_record_cancel_memory(S, b, who);
  Type yt = b->g.node[a].type;
  if (t.rank) yt.dims[dim] = t.dims[dim];
  yt.dtype = t.dtype = T_I64;
  Node n = ty_node_new(OP_ARGSORT, &yt, a, -1, -1);
  n.arg.k = dim;
  n.arg.k2 = descending ? SORT_DESCENDING : SORT_ASCENDING;
  return ty_record_finish_as(S, b, ty_node_append(b, &n), &t, y, who);
}

bool ty_record_fft(State *S, const char *who, const Tensor *x, int dim, int kind, int norm, i64 n,
                   Tensor *y) {
  Recording *b;
  Given src = {.t = x};
  Type t = x->type;
  if (kind == FFT_REAL || kind == FFT_HALF_BACK) {
    if (t.rank == MAX_RANK)
      return ty_fail(S, "%s: there is no room for more than %d dims", who, MAX_RANK);
    n = t.dims[dim];
    t.dims[dim] = n / 2 + 1, t.dims[t.rank++] = 2;
  } else if (kind == FFT_HALF || kind == FFT_REAL_BACK) t.dims[dim] = n, t.dims[--t.rank] = 0;
  const i64 length = TY_MAX(n, x->type.dims[dim]);
  if (length > FFT_MOST)
    return ty_fail(S, "%s: at most %d numbers are transformed at once, got %lld", who, FFT_MOST,
                   (long long)length);
  if (TY_UNLIKELY(x->st->batched != NULL)) {
    const VmapArg arg = {.dim = dim, .base = kind, .norm = norm, .keep = n};
    if (!ty_vmap_record(S, who, OP_FFT, 1, &src, arg, &t, y)) return false;
  } else {
    const i32 a = ty_record_start(S, who, x, x->type.dtype, &b);
    if (a < 0) return false;
    Node node = ty_node_new(OP_FFT, &t, a, -1, -1);
    node.arg.k = dim;
    node.arg.k2 = kind + 8 * norm + (t.device && S->reduced ? FFT_LIBRARY : 0);
    if (!ty_record_finish(S, b, ty_node_append(b, &node), y, who)) return false;
  }
  if (TY_LIKELY(!S->tracks)) return true;
  return ty_grad_note(
      S, &(TapeEntry){.kind = OP_FFT, .n = 1, .src = &src, .dim = dim, .base = kind + 8 * norm}, y);
}

bool ty_record_searchsorted(State *S, const Tensor *sorted, const Tensor *v, bool right,
                            Tensor *y) {
  const char *who = "searchsorted";
  char ss[SHOWN], sv[SHOWN];
  Recording *b;
  const Type *a = &sorted->type, *q = &v->type;
  if (!ty_complex_refuse(S, who, sorted) || !ty_complex_refuse(S, who, v)) return false;
  bool ok = a->rank >= 1 && a->rank == q->rank;
  for (int d = 0; ok && d < a->rank - 1; d++) ok = a->dims[d] == q->dims[d];
  if (!ok)
    return ty_fail(S, "%s: leading sizes differ, %s and %s", who, ty_record_show(a, ss),
                   ty_record_show(q, sv));
  int dtype = ty_dtype_promote(a->dtype, q->dtype);
  Given src[2] = {{.t = sorted}, {.t = v}};
  if (!ty_record_same_device(S, who, 2, src)) return false;
  if (TY_UNLIKELY(ty_vmap_level_of(2, src)))
    return ty_vmap_record(S, who, OP_SEARCHSORTED, 2, src, (VmapArg){.base = right}, q, y);
  if (!ty_record_settle(S, v)) return false;
  i32 s = ty_record_start(S, who, sorted, dtype, &b);
  if (s < 0) return false;
  if (!ty_record_settle(S, v)) return ty_record_cancel(S, b);
  i32 w = ty_node_cast(b, ty_record_node(S, b, v), dtype);
  if (w < 0) return ty_record_cancel_memory(S, b, who);
  Type t = *q;
  t.dtype = T_I64;
  Node n = ty_node_new(OP_SEARCHSORTED, &t, s, w, -1);
  n.arg.k = right ? SIDE_RIGHT : SIDE_LEFT;
  return ty_record_finish(S, b, ty_node_append(b, &n), y, who);
}
