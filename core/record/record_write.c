/*
** record_write.c -- writing through views, and cat, which is writes to one tensor after another.
** In: where to, a view; what, a tensor or a number. Out: the storage waits for a node with its new
** contents: what was written alone, or a PUT of it into the old ones. Fails as record.c does; the
** storage is then as it was.
*/
#include "record/record.h"
#include "record/capture.h"
#include "record/complex.h"
#include "record/grad.h"
#include "record/vmap.h"

/* --- assignment */

/* The value that dst's elements get. */
static i32 value_node(State *S, Recording *b, const Given *x, const Type *t) {
  i32 v = x->kind == O_TENSOR ? ty_node_cast(b, ty_record_node(S, b, x->t), t->dtype)
                              : ty_node_symbol(b, t->dtype, x->v, x->symbol);
  return ty_node_expand(b, v, t);
}

/* The contents of dst's storage once v is written through dst. */
static i32 put_node(State *S, Recording *b, const Tensor *dst, i32 v) {
  Storage *st = dst->st;
  Tensor whole = {.st = st, .type = ty_type_line(st->dtype, st->device, st->numel)};
  whole.strides[0] = 1;
  i32 base = st->recording ? st->node : ty_record_node(S, b, &whole);
  if (base < 0) return -1;
  Node n = ty_node_new(OP_PUT, &b->g.node[base].type, base, v, -1);
  n.arg.offset = dst->offset;
  for (int d = 0; d < dst->type.rank; d++)
    n.arg.strides[d] = dst->type.dims[d] == 1 ? 0 : dst->strides[d];
  return ty_node_append(b, &n);
}

/* Whether t is all of its storage, in order. */
static bool is_whole(const Tensor *t) {
  return !t->offset && ty_type_numel(&t->type) == t->st->numel && ty_tensor_is_contiguous(t);
}

/* All of dst becomes all of x, which is computed and of no use to others: no copy. Not on a device that may find an error
** later: there a copy that is left undone leaves dst as it was. */
static bool takes(const State *S, const Tensor *dst, const Given *x) {
  const Tensor *t = x->dies ? x->t : NULL;
  if (!t || t->type.device || S->open || S->capture || t->st->recording ||
      t->type.dtype != dst->type.dtype)
    return false;
  const Buffer *old = dst->st->buf, *buf = t->st->buf;
  return is_whole(dst) && is_whole(t) && t->st->numel == dst->st->numel && buf && !buf->exposed &&
         !buf->foreign && !(old && (old->exposed || old->foreign));
}

/* A number for each of a few elements that lie side by side. False: not such a case, or no memory. */
static bool fill_few(State *S, const Tensor *dst, const Given *x) {
  const Type *t = &dst->type;
  if (x->kind == O_TENSOR || !ty_record_is_few(S, t) || !ty_tensor_is_contiguous(dst)) return false;
  void *p = ty_tensor_write(S, dst);
  if (!p) return false;
  ty_elem_fill(t->dtype, p, ty_type_numel(t), x->v);
  return true;
}

bool ty_record_distinct(State *S, const char *who, const Type *t, const i64 *strides) {
  char s[SHOWN];
  if (!ty_capture_decide_distinct(S, t, strides)) return false;
  return ty_view_distinct(t, strides) ||
         ty_fail(S, "%s: cannot write to %s, its elements share memory (clone it first)", who,
                 ty_record_show(t, s));
}

static bool write(State *S, const char *who, const Tensor *dst, const Given *x) {
  char sx[SHOWN], sd[SHOWN];
  Storage *st = dst->st;
  const Type *t = &dst->type;
  Type joint = *t;
  Given both[2] = {{.t = dst}, *x};
  if (!ty_record_same_device(S, who, 2, both)) return false;
  if (x->kind == O_TENSOR) {
    if (!ty_type_broadcast(&joint, &x->t->type) || !ty_type_same_dims(&joint, t))
      return ty_fail(S, "%s: %s does not broadcast to %s", who, ty_record_show(&x->t->type, sx),
                     ty_record_show(t, sd));
    if (ty_is_float(x->t->type.dtype) && !ty_is_float(t->dtype))
      return ty_fail(S, "%s: %s values do not go into %s (use :to(\"%s\") to cut them)", who,
                     ty_dtypes[x->t->type.dtype].name, ty_record_show(t, sd),
                     ty_dtypes[t->dtype].name);
  } else if (!ty_elem_fits(t->dtype, x->v)) { /* asked of every value that an integer gets */
    return ty_fail(S, "%s: %.17g does not fit %s", who, x->v, ty_dtypes[t->dtype].name);
  }
  if (!ty_record_distinct(S, who, t, dst->strides)) return false;
  if (ty_type_numel(t) == 0) return true;
  if (TY_UNLIKELY(st->batched != NULL)) return ty_vmap_write(S, who, dst, x);
  S->nops++;
  if (takes(S, dst, x)) {
    ty_storage_settle(st, ty_buffer_hold(x->t->st->buf));
    st->version++;
    return true;
  }
  if (fill_few(S, dst, x)) return true;
  if (!ty_record_settle(S, dst) || (x->kind == O_TENSOR && !ty_record_settle(S, x->t)))
    return false;
  Recording *b = ty_record_begin(S, t->device);
  if (!b || !ty_record_settle(S, dst) || (x->kind == O_TENSOR && !ty_record_settle(S, x->t)))
    return ty_record_cancel(S, b);
  i32 v = value_node(S, b, x, t);
  if (v < 0) return ty_record_cancel_memory(S, b, who);
  if (!is_whole(dst)) v = put_node(S, b, dst, v);
  if (v < 0) return ty_record_cancel_memory(S, b, who);
  if (TY_UNLIKELY(S->recorded != NULL)) S->recorded(S, b, v);
  if (TY_UNLIKELY(S->site != 0)) ty_recording_place(S, b);
  if (S->capture && !ty_capture_write(S, st)) return ty_record_cancel(S, b);
  Recording *before = st->recording;
  i32 node_before = st->node;
  if (before) before->refs++; /* so that a failed eager cut can be undone */
  ty_storage_wait(st, b, v);
  bool exposed = st->buf && st->buf->exposed;
  bool ok = b == S->open && exposed && !S->capture ? S->cut(S, b, NULL) : ty_record_commit(S, b);
  if (!ok && st->recording && before && !before->closed) ty_storage_wait(st, before, node_before);
  else if (!ok && st->recording && st->buf) ty_storage_settle(st, ty_buffer_hold(st->buf));
  if (before) ty_recording_drop(S, before);
  if (ok) st->version++;
  return ok;
}

bool ty_record_assign(State *S, const char *who, const Tensor *dst, const Given *x) {
  if (x->kind == O_TENSOR && TY_UNLIKELY(x->t->st->batched != NULL) &&
      !ty_vmap_open_to(S, who, dst, x))
    return false;
  if (TY_UNLIKELY(ty_tensor_is_complex(dst) || (x->kind == O_TENSOR && ty_tensor_is_complex(x->t))))
    return ty_complex_assign(S, who, dst, x);
  if (TY_LIKELY(!S->tracks && !dst->st->snapshot && !dst->st->tape)) return write(S, who, dst, x);
  return ty_grad_assign(S, who, dst, x, write);
}

/* --- cat */

/* Dims and dtype of the tensors joined along dim. */
static bool cat_type(State *S, const char *who, int n, const Tensor *const *x, int dim, Type *t) {
  char s0[SHOWN], si[SHOWN];
  *t = x[0]->type;
  for (int i = 1; i < n; i++) {
    const Type *own = &x[i]->type;
    bool ok = own->rank == t->rank;
    for (int d = 0; ok && d < t->rank; d++) ok = d == dim || own->dims[d] == t->dims[d];
    if (!ok || !ty_add(t->dims[dim], own->dims[dim], &t->dims[dim]))
      return ty_fail(S, "%s: sizes differ outside dim %d, %s and %s", who, dim + 1,
                     ty_record_show(&x[0]->type, s0), ty_record_show(own, si));
    t->dtype = (u8)ty_dtype_promote(t->dtype, own->dtype);
  }
  return true;
}

/* So many tensors as one graph has room for. */
static bool cat(State *S, const char *who, int n, const Tensor *const *x, int dim, const Given *src,
                Type t, Tensor *y) {
  if (!ty_record_same_device(S, who, n, src)) return false;
  if (TY_UNLIKELY(ty_vmap_level_of(n, src))) return ty_vmap_cat(S, who, n, src, dim, &t, y);
  if (!ty_record_settle_all(S, n, src)) return false;
  Recording *b = ty_record_start_leaf(S, who, &t);
  if (!b || !ty_record_settle_all(S, n, src)) return ty_record_cancel(S, b);
  Node empty = ty_node_new(OP_EMPTY, &t, -1, -1, -1);
  i64 strides[MAX_RANK] = {0}, at = 0;
  ty_type_strides(&t, strides);
  i32 whole = ty_node_append(b, &empty);
  for (int i = 0; i < n && whole >= 0; i++) {
    i32 piece = ty_node_cast(b, ty_record_node(S, b, x[i]), t.dtype);
    if (piece < 0) return ty_record_cancel_memory(S, b, who);
    if (ty_type_numel(&x[i]->type) == 0) continue;
    Node put = ty_node_new(OP_PUT, &t, whole, piece, -1);
    put.arg.offset = at * strides[dim];
    for (int d = 0; d < t.rank; d++) put.arg.strides[d] = x[i]->type.dims[d] == 1 ? 0 : strides[d];
    whole = ty_node_append(b, &put);
    at += x[i]->type.dims[dim];
  }
  return ty_record_finish(S, b, whole, y, who);
}

bool ty_record_cat(State *S, const char *who, int n, const Tensor *const *x, int dim, Tensor *y) {
  Type t;
  if (!cat_type(S, who, n, x, dim, &t)) return false;
  if (TY_UNLIKELY(ty_is_complex(t.dtype))) return ty_complex_cat(S, who, n, x, dim, t.dtype, y);
  Given *src = ty_mem_alloc(sizeof *src * (size_t)n);
  if (!src) return ty_fail_memory(S, who, 0);
  for (int i = 0; i < n; i++) src[i] = (Given){.kind = O_TENSOR, .t = x[i]};
  bool ok = cat(S, who, n, x, dim, src, t, y);
  if (ok && S->tracks)
    ok = ty_grad_note(S, &(TapeEntry){.kind = K_CAT, .n = n, .src = src, .dim = dim}, y);
  ty_mem_free(src);
  return ok;
}
