/*
** record.c -- the road's entrance: check what the user gave, infer types, append nodes, then cut
** (eager) or wait (lazy).
** In: tensors, numbers, dims. Out: a tensor whose storage waits for a node of a recording; in eager
** mode that recording is cut at once, so the storage is settled. Fails on what the user did (the text
** names function and shapes) and on memory; nothing of the user's has changed then.
** Here: the words that all records are made of (record.h), maps, products, reductions, scans, leaves.
** What goes by index is in record_move.c, what writes in record_write.c.
**
** Order inside each function: everything that can demand a value comes first (an operand that waits
** for another recording, an index to be checked), then the recording is chosen, then nodes are appended. A
** demand may close the open recording, so no node number is held across one.
*/
#include <math.h>
#include "record/record.h"
#include "record/capture.h"
#include "record/complex.h"
#include "record/grad.h"
#include "record/vmap.h"

#define LAZY_NODES 64           /* an open recording is cut when it has so many nodes ... */
#define LAZY_PINNED (256 << 20) /* ... or pins so many bytes */

const char *ty_record_show(const Type *t, char *buf) {
  ty_type_print(t, buf, SHOWN);
  return buf;
}

/* --- recordings */

static Recording *begin(State *S) {
  Recording *b = S->open;
  if (!b) return ty_recording_new(S);
  if (S->capture || b->body) return b;
  bool room = S->recording_nodes ? b->g.n < S->recording_nodes
                                 : b->g.n < LAZY_NODES && b->pinned < LAZY_PINNED;
  if (room) return b;
  return S->cut(S, b, NULL) ? S->open : NULL;
}

Recording *ty_record_begin(State *S, int device) {
  Recording *b = begin(S);
  if (b) b->g.device = (u8)device;
  return b;
}

bool ty_record_same_device(State *S, const char *who, int n, const Given *src) {
  const Tensor *t = NULL;
  for (int i = 0; i < n; i++) {
    const Tensor *x = src[i].kind == O_TENSOR ? src[i].t : NULL;
    if (!x || (t && t->type.device == x->type.device)) continue;
    if (t)
      return ty_fail(S, "%s: operands lie on \"%s\" and \"%s\" (move one with :to)", who,
                     ty_device_names[t->type.device], ty_device_names[x->type.device]);
    t = x;
  }
  return true;
}

/* Of operands, which lie on one. */
static int device_of(int n, const Given *src) {
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR) return src[i].t->type.device;
  return 0;
}

bool ty_record_cancel(State *S, Recording *b) {
  if (b && b != S->open) ty_recording_drop(S, b);
  return false;
}

bool ty_record_cancel_memory(State *S, Recording *b, const char *who) {
  ty_record_cancel(S, b);
  return ty_fail_memory(S, who, 0);
}

bool ty_record_commit(State *S, Recording *b) {
  if (S->capture || b->body) return true; /* runs read exposed memory when they are called */
  if (b == S->open) return ty_recording_exposed(b) ? S->cut(S, b, NULL) : true;
  bool ok = S->cut(S, b, NULL);
  ty_recording_drop(S, b);
  return ok;
}

bool ty_record_finish_as(State *S, Recording *b, i32 node, const Type *shown, Tensor *y,
                         const char *who) {
  if (node < 0) return ty_record_cancel_memory(S, b, who);
  if (TY_UNLIKELY(S->recorded != NULL)) S->recorded(S, b, node);
  if (TY_UNLIKELY(S->site != 0)) ty_recording_place(S, b);
  const Type *t = shown ? shown : &b->g.node[node].type;
  Tensor r = {.type = *t};
  r.type.device = b->g.node[node].type.device;
  ty_type_strides(t, r.strides);
  if (!(r.st = ty_storage_new(S, t->dtype, r.type.device, ty_type_numel(t))))
    return ty_record_cancel(S, b);
  ty_storage_wait(r.st, b, node);
  if (!ty_record_commit(S, b)) {
    ty_tensor_release(&r);
    return false;
  }
  *y = r;
  return true;
}

bool ty_record_finish(State *S, Recording *b, i32 node, Tensor *y, const char *who) {
  return ty_record_finish_as(S, b, node, NULL, y, who);
}

/* --- nodes of operands */

bool ty_record_settle(State *S, const Tensor *x) {
  Storage *st = x->st;
  if (TY_UNLIKELY(ty_tensor_is_complex(x))) return ty_complex_refuse(S, "operation", x);
  if (TY_UNLIKELY(st->batched != NULL)) return ty_vmap_refuse(S) != NULL;
  return !st->recording || st->recording == S->open || S->cut(S, st->recording, st);
}

static Node node_view(i32 src, const Type *t, i64 offset, const i64 *strides) {
  Node n = ty_node_new(OP_VIEW, t, src, -1, -1);
  n.arg.offset = offset;
  for (int d = 0; d < t->rank; d++) n.arg.strides[d] = t->dims[d] == 1 ? 0 : strides[d];
  return n;
}

/* The INPUT node of a concrete tensor: one for each (buffer, offset, layout), and in a capture for each tensor from
** outside that it was reached through: they need not share memory in later calls. */
static i32 input_node(State *S, Recording *b, const Tensor *x) {
  const Type *t = &x->type;
  Buffer *buf = x->st->buf;
  u32 origin = TY_UNLIKELY(S->capture != NULL) ? ty_capture_origin(S, x) : 0;
  Node n = ty_node_new(OP_INPUT, t, -1, -1, -1);
  for (int d = 0; d < t->rank; d++) n.arg.strides[d] = t->dims[d] == 1 ? 0 : x->strides[d];
  n.arg.k = b->ninput;
  for (i32 i = b->ninput - 1; i >= 0; i--) {
    struct RecordingInput *in = &b->input[i];
    if (in->buf != buf) continue;
    const Node *old = &b->g.node[in->node];
    n.arg.k = old->arg.k;
    if (in->offset == x->offset && in->origin == origin && ty_type_equal(&old->type, t) &&
        !memcmp(old->arg.strides, n.arg.strides, sizeof n.arg.strides))
      return in->node;
  }
  n.arg.k2 = b->ninput;
  if (b->ninput == b->input_cap) {
    i32 cap = b->input_cap ? b->input_cap * 2 : 8;
    void *p = ty_mem_realloc(b->input, (size_t)cap * sizeof *b->input);
    if (!p) return -1;
    b->input = p;
    b->input_cap = cap;
  }
  i32 id = ty_graph_append(&b->g, &n);
  if (id < 0) return -1;
  b->input[b->ninput++] = (struct RecordingInput){id, ty_buffer_hold(buf), x->offset, origin};
  b->pinned += buf->bytes;
  return id;
}

i32 ty_record_node(State *S, Recording *b, const Tensor *x) {
  Storage *st = x->st;
  if (!st->recording) return input_node(S, b, x);
  i32 base = st->node;
  if (x->offset == 0 && ty_type_same_dims(&b->g.node[base].type, &x->type) &&
      ty_tensor_is_contiguous(x))
    return base;
  Node v = node_view(base, &x->type, x->offset, x->strides);
  return ty_node_append(b, &v);
}

i32 ty_node_cast(Recording *b, i32 a, int dtype) {
  if (a < 0) return -1;
  Type t = b->g.node[a].type;
  if (t.dtype == dtype) return a;
  t.dtype = (u8)dtype;
  Node n = ty_node_new(OP_CAST, &t, a, -1, -1);
  return ty_node_append(b, &n);
}

i32 ty_node_symbol(Recording *b, int dtype, double v, i32 symbol) {
  i32 slot = ty_graph_scalar(&b->g, ty_elem_scalar(dtype, v));
  if (slot < 0) return -1;
  ScalarFrom from = {.kind = SC_NUMBER, .dtype = (u8)dtype, .id = symbol};
  if (TY_UNLIKELY(symbol) && !ty_capture_scalar(b->S, slot, from)) return -1;
  Type t = {.dtype = (u8)dtype, .device = b->g.device};
  Node n = ty_node_new(OP_SCALAR, &t, -1, -1, -1);
  n.arg.k = slot;
  return ty_graph_append(&b->g, &n);
}

i32 ty_node_reshape(Recording *b, i32 a, const Type *t) {
  if (a < 0 || ty_type_same_dims(&b->g.node[a].type, t)) return a;
  i64 strides[MAX_RANK] = {0};
  Type to = *t;
  to.dtype = b->g.node[a].type.dtype;
  ty_type_strides(&to, strides);
  Node n = node_view(a, &to, 0, strides);
  return ty_node_append(b, &n);
}

i32 ty_node_expand(Recording *b, i32 a, const Type *t) {
  if (a < 0 || ty_type_same_dims(&b->g.node[a].type, t)) return a;
  Type from = b->g.node[a].type, to = *t;
  i64 own[MAX_RANK] = {0}, strides[MAX_RANK] = {0};
  to.dtype = from.dtype;
  ty_type_strides(&from, own);
  ty_type_expand(t, &from, own, strides);
  Node n = node_view(a, &to, 0, strides);
  return ty_node_append(b, &n);
}

/* --- type rules */

/* How far the numbers among the operands push: nothing, to integers, to floats. */
typedef enum { WEAK_NONE, WEAK_BOOL, WEAK_WHOLE, WEAK_FRACTION } Weak;

static Weak weak_of(const Given *g) {
  if (g->kind == O_BOOL) return WEAK_BOOL;
  return floor(g->v) == g->v && isfinite(g->v) ? WEAK_WHOLE : WEAK_FRACTION;
}

/* The dtype that tensors and numbers meet in. */
static int meet(State *S, int n, const Given *src) {
  int d = -1;
  Weak w = WEAK_NONE;
  for (int i = 0; i < n; i++) {
    if (src[i].kind == O_TENSOR) {
      int own = src[i].t->type.dtype;
      d = d < 0 ? own : ty_dtype_promote(d, own);
    } else {
      w = TY_MAX(w, weak_of(&src[i]));
    }
  }
  if (d < 0) return w == WEAK_BOOL ? T_BOOL : S->default_dtype;
  if (ty_is_float(d) || w <= WEAK_BOOL) return d;
  for (int i = 0; i < n; i++) /* whole or not decides here */
    if (src[i].symbol) ty_capture_whole(S, src[i].symbol, weak_of(&src[i]) == WEAK_WHOLE);
  if (w == WEAK_FRACTION) return S->default_dtype;
  return d == T_BOOL ? T_I64 : d;
}

static const char *const rule_wants[] = {[TR_INT] = "integers", [TR_BITS] = "integers or bool"};

/* Dtype of the operands and of the result. */
static bool infer_dtype(State *S, const char *who, int op, int n, const Given *src, int *in,
                        int *out) {
  int rule = ty_ops[op].rule, first = rule == TR_WHERE;
  int d = meet(S, n - first, src + first);
  int own = ty_rule_dtype(rule, d, S->default_dtype);
  if (own < 0) return ty_fail(S, "%s: needs %s, got %s", who, rule_wants[rule], ty_dtypes[d].name);
  d = own;
  for (int i = first; i < n; i++) {
    if (src[i].kind == O_TENSOR || ty_elem_fits(d, src[i].v)) continue;
    if (rule == TR_CMP) d = T_I64;
    if (!ty_elem_fits(d, src[i].v))
      return ty_fail(S, "%s: %.17g does not fit %s", who, src[i].v, ty_dtypes[d].name);
  }
  *in = d;
  *out = rule == TR_CMP ? T_BOOL : d;
  return true;
}

/* --- maps and products */

static bool is_compatible(const Given *a, const Given *b) {
  if (a->kind != O_TENSOR) return true;
  Type pair = a->t->type;
  return ty_type_broadcast(&pair, &b->t->type);
}

static bool broadcast(State *S, const char *who, int n, const Given *src, Type *t) {
  char a[SHOWN], b[SHOWN];
  t->rank = 0;
  for (int i = 0; i < n; i++) {
    if (src[i].kind != O_TENSOR || ty_type_broadcast(t, &src[i].t->type)) continue;
    int j = 0; /* sizes that go together two by two all do */
    while (j < i - 1 && is_compatible(&src[j], &src[i])) j++;
    return ty_fail(S, "%s: sizes do not broadcast, %s and %s", who,
                   ty_record_show(&src[j].t->type, a), ty_record_show(&src[i].t->type, b));
  }
  return ty_type_fits(t) || ty_fail(S, "%s: the result %s is too large", who, ty_record_show(t, a));
}

/* Settles tensor operands; afterwards the recording may be chosen and node numbers held. */
bool ty_record_settle_all(State *S, int n, const Given *src) {
  for (int i = 0; i < n; i++)
    if (src[i].kind == O_TENSOR && !ty_record_settle(S, src[i].t)) return false;
  return true;
}

static bool record_map(State *S, const char *who, int op, int n, const Given *src, Tensor *y) {
  Type t = {0};
  int in, out;
  if (!ty_record_same_device(S, who, n, src)) return false;
  if (!broadcast(S, who, n, src, &t)) return false;
  if (TY_UNLIKELY(ty_complex_among(n, src))) return ty_complex_map(S, who, op, n, src, y);
  if (!infer_dtype(S, who, op, n, src, &in, &out)) return false;
  if (n && !t.device) t.device = (u8)device_of(n, src);
  t.dtype = (u8)out;
  if (TY_UNLIKELY(ty_vmap_level_of(n, src)))
    return ty_vmap_record(S, who, op, n, src, (VmapArg){0}, &t, y);
  if (!ty_record_settle_all(S, n, src)) return false;
  Recording *b = ty_record_begin(S, t.device);
  if (!b || !ty_record_settle_all(S, n, src)) return ty_record_cancel(S, b);
  i32 id[3] = {-1, -1, -1};
  for (int i = 0; i < n; i++) {
    int d = i == 0 && op == OP_WHERE ? T_BOOL : in;
    id[i] = src[i].kind == O_TENSOR ? ty_node_cast(b, ty_record_node(S, b, src[i].t), d)
                                    : ty_node_symbol(b, d, src[i].v, src[i].symbol);
    if (id[i] < 0) return ty_record_cancel_memory(S, b, who);
  }
  Node node = ty_node_new(op, &t, id[0], id[1], id[2]);
  return ty_record_finish(S, b, ty_node_append(b, &node), y, who);
}

/* Dims of a product of two operands of rank >= 2, which the user gave as src. */
static bool product_type(State *S, const char *who, const Type *a, const Type *b, const Given *src,
                         Type *y) {
  char sa[SHOWN], sb[SHOWN];
  Type la = *a, lb = *b;
  if (a->dims[a->rank - 1] != b->dims[b->rank - 2])
    return ty_fail(S, "%s: inner sizes differ, %s x %s", who, ty_record_show(&src[0].t->type, sa),
                   ty_record_show(&src[1].t->type, sb));
  la.rank -= 2;
  lb.rank -= 2;
  for (int d = la.rank; d < MAX_RANK; d++) la.dims[d] = 0;
  for (int d = lb.rank; d < MAX_RANK; d++) lb.dims[d] = 0;
  if (!ty_type_broadcast(&la, &lb))
    return ty_fail(S, "%s: leading sizes do not broadcast, %s x %s", who,
                   ty_record_show(&src[0].t->type, sa), ty_record_show(&src[1].t->type, sb));
  *y = la;
  y->dims[y->rank++] = a->dims[a->rank - 2];
  y->dims[y->rank++] = b->dims[b->rank - 1];
  return ty_type_fits(y) ||
         ty_fail(S, "%s: the result %s is too large", who, ty_record_show(y, sa));
}

#define BLAS_WORK (64 * 64 * 64) /* smaller products stay ours even when OpenBLAS is wished */
#define AMX_WORK (32 * 32 * 32)  /* the same for the matrix unit */

/* Where x, seen as matrices t, lies column by column. *shared: one matrix for all leading dims. */
static bool lies_by_columns(const Tensor *x, const Type *t, int in, bool *shared) {
  i64 s[MAX_RANK];
  const int rows = t->rank - 2;
  *shared = true;
  if (!ty_tensor_reshape(x, t, s)) memset(s, 0xff, sizeof s);
  for (int d = 0; d < rows; d++) *shared &= t->dims[d] == 1 || s[d] == 0;
  return x->type.dtype == in && t->dims[rows + 1] > 1 && s[rows + 1] != 1 &&
         (s[rows] == 1 || (s[rows] == 0 && t->dims[rows] == 1));
}

/* Whether a library of the device may compute it, and how its operands lie, as the user sees them: PRODUCT_*. */
static i32 library_of(const State *S, const Given *src, const Type t[2], int in) {
  const bool half = in == T_F16 || in == T_BF16;
  bool shared;
  if (half ? !ty_reduces_halves(S) : in != T_F32 || S->reduced != REDUCED_TF32) return PRODUCT_OWN;
  i32 y = PRODUCT_LIBRARY;
  if (lies_by_columns(src[0].t, &t[0], in, &shared)) y |= PRODUCT_A_COLUMNS;
  if (lies_by_columns(src[1].t, &t[1], in, &shared)) y |= PRODUCT_B_COLUMNS;
  return shared ? y | PRODUCT_B_SHARED : y;
}

/* The product of src seen as matrices t, whose type is r but for the dtype; the user sees `shown`. */
static bool append_product(State *S, const char *who, const Given *src, const Type t[2], Type r,
                           Type shown, Tensor *y) {
  int in, out;
  if (!infer_dtype(S, who, OP_MATMUL, 2, src, &in, &out) || !ty_record_settle_all(S, 2, src))
    return false;
  Recording *b = ty_record_begin(S, src->t->type.device);
  if (!b || !ty_record_settle_all(S, 2, src)) return ty_record_cancel(S, b);
  i32 id[2];
  for (int i = 0; i < 2; i++) {
    id[i] = ty_node_reshape(b, ty_node_cast(b, ty_record_node(S, b, src[i].t), in), &t[i]);
    if (id[i] < 0) return ty_record_cancel_memory(S, b, who);
  }
  r.dtype = shown.dtype = (u8)out;
  Node node = ty_node_new(OP_MATMUL, &r, id[0], id[1], -1);
  double work = (double)t[0].dims[t[0].rank - 1];
  for (int d = 0; d < r.rank; d++) work *= (double)r.dims[d];
  if (r.device) node.arg.k2 = library_of(S, src, t, in);
  else if (S->amx && in == T_BF16 && work >= AMX_WORK) node.arg.k2 = PRODUCT_BF16;
  if (S->blas && (in == T_F32 || in == T_F64) && work >= BLAS_WORK) node.arg.k2 = PRODUCT_BLAS;
  return ty_record_finish_as(S, b, ty_node_append(b, &node), &shown, y, who);
}

static bool record_product(State *S, const char *who, const Given *src, Tensor *y) {
  Type t[2], r;
  char sa[SHOWN], sb[SHOWN];
  for (int i = 0; i < 2; i++)
    if (src[i].kind != O_TENSOR)
      return ty_fail(S, "%s: argument %d must be a tensor, got a number", who, i + 1);
  if (!ty_record_same_device(S, who, 2, src) || !ty_complex_refuse_all(S, who, 2, src))
    return false;
  for (int i = 0; i < 2; i++) {
    t[i] = src[i].t->type;
    if (t[i].rank) continue;
    return ty_fail(S, "%s: operands need at least one dim, %s x %s", who,
                   ty_record_show(&src[0].t->type, sa), ty_record_show(&src[1].t->type, sb));
  }
  bool row = t[0].rank == 1, column = t[1].rank == 1;
  if (row)
    t[0] = (Type){.dtype = t[0].dtype, .device = t[0].device, .rank = 2, .dims = {1, t[0].dims[0]}};
  if (column)
    t[1] = (Type){.dtype = t[1].dtype, .device = t[1].device, .rank = 2, .dims = {t[1].dims[0], 1}};
  if (!product_type(S, who, &t[0], &t[1], src, &r)) return false;
  Type shown = r;
  if (column) shown.dims[--shown.rank] = 0;
  if (row) {
    if (!column) shown.dims[shown.rank - 2] = shown.dims[shown.rank - 1];
    shown.dims[--shown.rank] = 0;
  }
  if (TY_UNLIKELY(ty_vmap_level_of(2, src)))
    return ty_vmap_record(S, who, OP_MATMUL, 2, src, (VmapArg){0}, &shown, y);
  return append_product(S, who, src, t, r, shown, y);
}

/* Adds dims [from, to) of x to y as one. */
static bool join_dims(const Type *x, int from, int to, Type *y) {
  i64 n = 1;
  for (int d = from; d < to; d++)
    if (!ty_mul(n, x->dims[d], &n)) return false;
  y->dims[y->rank++] = n;
  return true;
}

bool ty_record_contract(State *S, const char *who, const Tensor *a, const Tensor *b, int lead,
                        int summed, Tensor *y) {
  Given src[2] = {{.kind = O_TENSOR, .t = a}, {.kind = O_TENSOR, .t = b}};
  const Type *x = &a->type, *z = &b->type;
  Type t[2] = {{.dtype = x->dtype, .device = x->device, .rank = (u8)lead},
               {.dtype = z->dtype, .device = z->device, .rank = (u8)lead}},
       r;
  char sa[SHOWN], sb[SHOWN];
  if (!ty_record_same_device(S, who, 2, src) || !ty_complex_refuse_all(S, who, 2, src))
    return false;
  const int rows = x->rank - summed, most = TY_MIN(x->rank, z->rank);
  bool ok = lead >= 0 && summed >= 0 && lead <= MAX_RANK - 2 && lead + summed <= most;
  for (int d = 0; ok && d < summed; d++) ok = x->dims[rows + d] == z->dims[lead + d];
  if (!ok)
    return ty_fail(S, "%s: %d summed dims behind %d do not fit, %s x %s", who, summed, lead,
                   ty_record_show(x, sa), ty_record_show(z, sb));
  for (int d = 0; d < lead; d++) t[0].dims[d] = x->dims[d], t[1].dims[d] = z->dims[d];
  if (!join_dims(x, lead, rows, &t[0]) || !join_dims(x, rows, x->rank, &t[0]) ||
      !join_dims(z, lead, lead + summed, &t[1]) || !join_dims(z, lead + summed, z->rank, &t[1]))
    return ty_fail(S, "%s: %s x %s is too large", who, ty_record_show(x, sa),
                   ty_record_show(z, sb));
  if (!product_type(S, who, &t[0], &t[1], src, &r)) return false;
  Type shown = r;
  shown.rank = (u8)lead;
  if (rows + z->rank - lead - summed > MAX_RANK)
    return ty_fail(S, "%s: the result of %s x %s has more than %d dims", who, ty_record_show(x, sa),
                   ty_record_show(z, sb), MAX_RANK);
  for (int d = lead; d < rows; d++) shown.dims[shown.rank++] = x->dims[d];
  for (int d = lead + summed; d < z->rank; d++) shown.dims[shown.rank++] = z->dims[d];
  for (int d = shown.rank; d < MAX_RANK; d++) shown.dims[d] = 0;
  S->nops++;
  bool done = TY_UNLIKELY(ty_vmap_level_of(2, src))
                  ? ty_vmap_contract(S, who, a, b, lead, summed, &shown, y)
                  : append_product(S, who, src, t, r, shown, y);
  if (!done || TY_LIKELY(!S->tracks)) return done;
  return ty_grad_note(
      S, &(TapeEntry){.kind = OP_MATMUL, .n = 2, .src = src, .dims = 1u + (u32)lead, .dim = summed},
      y);
}

/* Tapes what was recorded from one tensor, where it must be. */
static bool note(State *S, int kind, const Tensor *x, u32 dims, int dim, Tensor *y) {
  Given src = {.kind = O_TENSOR, .t = x};
  if (TY_LIKELY(!S->tracks)) return true;
  return ty_grad_note(S, &(TapeEntry){.kind = kind, .n = 1, .src = &src, .dims = dims, .dim = dim},
                      y);
}

static bool record(State *S, const char *who, int op, int n, const Given *src, Tensor *y) {
  if (!S->open && S->quick(S, op, n, src, y)) return true;
  return op == OP_MATMUL ? record_product(S, who, src, y) : record_map(S, who, op, n, src, y);
}

bool ty_record(State *S, const char *who, int op, int n, const Given *src, Tensor *y) {
  who = ty_record_name(who, op);
  S->nops++;
  if (TY_LIKELY(!S->tracks)) return record(S, who, op, n, src, y);
  return record(S, who, op, n, src, y) &&
         ty_grad_note(S, &(TapeEntry){.kind = op, .n = n, .src = src}, y);
}

/* What one batched operand gives. */
__attribute__((noinline, cold)) static bool batched(State *S, const char *who, int op,
                                                    const Tensor *x, u32 dims, int dim,
                                                    const Type *t, Tensor *y) {
  Given src = {.kind = O_TENSOR, .t = x};
  return ty_vmap_record(S, who, op, 1, &src, (VmapArg){.dims = dims, .dim = dim}, t, y) &&
         note(S, op == OP_BITCAST ? K_NONE : op, x, dims, dim, y);
}

i32 ty_record_start(State *S, const char *who, const Tensor *x, int dtype, Recording **b) {
  S->nops++;
  *b = NULL;
  if (!ty_record_settle(S, x) || !(*b = ty_record_begin(S, x->type.device))) return -1;
  if (!ty_record_settle(S, x)) {
    ty_record_cancel(S, *b);
    return -1;
  }
  i32 a = ty_node_cast(*b, ty_record_node(S, *b, x), dtype);
  if (a < 0) ty_record_cancel_memory(S, *b, who);
  return a;
}

bool ty_record_cast(State *S, const Tensor *x, int dtype, Tensor *y) {
  Recording *b;
  if (x->type.dtype == dtype) {
    ty_tensor_alias(y, x);
    return true;
  }
  if (TY_UNLIKELY(ty_is_complex(dtype) || ty_tensor_is_complex(x)))
    return ty_complex_cast(S, x, dtype, y);
  if (TY_UNLIKELY(x->st->batched != NULL))
    return batched(S, "to", OP_CAST, x, 0, dtype, &x->type, y);
  i32 a = ty_record_start(S, "to", x, dtype, &b);
  return a >= 0 && ty_record_finish(S, b, a, y, "to") && note(S, OP_CAST, x, 0, 0, y);
}

bool ty_record_to(State *S, const Tensor *x, int device, Tensor *y) {
  Recording *b;
  if (TY_UNLIKELY(ty_tensor_is_complex(x))) return ty_complex_to(S, x, device, y);
  if (TY_UNLIKELY(x->st->batched != NULL))
    return batched(S, "to", OP_TO, x, 0, device, &x->type, y);
  i32 a = ty_record_start(S, "to", x, x->type.dtype, &b);
  if (a < 0) return false;
  Type t = b->g.node[a].type;
  t.device = (u8)device;
  Node n = ty_node_new(OP_TO, &t, a, -1, -1);
  return ty_record_finish(S, b, ty_node_append(b, &n), y, "to") && note(S, OP_TO, x, 0, 0, y);
}

bool ty_record_bitcast(State *S, const Tensor *x, int dtype, Tensor *y) {
  const char *who = "view_as";
  Recording *b;
  int from = x->type.dtype;
  if (!ty_complex_refuse(S, who, x)) return false;
  if (ty_is_complex(dtype))
    return ty_fail(S, "%s: complex numbers are pairs of reals (use ty.view_as_complex)", who);
  if (from == dtype) return ty_record_copy(S, x, y); /* a tensor of its own, as with any dtype */
  if (ty_dtypes[from].bytes != ty_dtypes[dtype].bytes)
    return ty_fail(S, "%s: %s and %s differ in size", who, ty_dtypes[from].name,
                   ty_dtypes[dtype].name);
  if (TY_UNLIKELY(x->st->batched != NULL))
    return batched(S, who, OP_BITCAST, x, 0, dtype, &x->type, y);
  i32 a = ty_record_start(S, who, x, from, &b);
  if (a < 0) return false;
  Type t = b->g.node[a].type;
  t.dtype = (u8)dtype;
  Node n = ty_node_new(OP_BITCAST, &t, a, -1, -1);
  return ty_record_finish(S, b, ty_node_append(b, &n), y, who) && note(S, K_NONE, x, 0, 0, y);
}

bool ty_record_copy(State *S, const Tensor *x, Tensor *y) {
  Recording *b;
  if (TY_UNLIKELY(ty_tensor_is_complex(x))) return ty_complex_copy(S, x, y);
  if (TY_UNLIKELY(x->st->batched != NULL))
    return batched(S, "clone", OP_CAST, x, 0, -1, &x->type, y);
  i32 a = ty_record_start(S, "clone", x, x->type.dtype, &b);
  return a >= 0 && ty_record_finish(S, b, a, y, "clone") && note(S, OP_CAST, x, 0, 0, y);
}

bool ty_record_reshape(State *S, const Tensor *x, const Type *t, Tensor *y) {
  i64 strides[MAX_RANK] = {0};
  Type to = *t;
  to.dtype = x->type.dtype;
  to.device = x->type.device;
  if (ty_tensor_reshape(x, &to, strides)) {
    ty_tensor_view(y, x, &to, x->offset, strides);
    return true;
  }
  if (!ty_record_copy(S, x, y)) return false;
  y->type = to;
  memset(y->strides, 0, sizeof y->strides);
  ty_type_strides(&to, y->strides);
  return true;
}

/* --- reductions and scans */

static bool no_identity(int op) {
  return op == OP_AMAX || op == OP_AMIN || op == OP_ARGMAX || op == OP_ARGMIN;
}

static i32 reduce_run(Recording *b, int op, i32 a, int dtype, int lo, int hi) {
  if (a < 0) return -1;
  const Type *from = &b->g.node[a].type;
  Type t = {.dtype = (u8)dtype};
  for (int d = 0; d < from->rank; d++)
    if (d < lo || d > hi) t.dims[t.rank++] = from->dims[d];
  Node n = ty_node_new(op, &t, a, -1, -1);
  n.arg.k = lo;
  n.arg.k2 = hi;
  return ty_node_append(b, &n);
}

bool ty_record_reduce(State *S, const char *who, int op, const Tensor *x, u32 dims, bool keep,
                      Tensor *y) {
  char sx[SHOWN];
  Recording *b;
  int rank = x->type.rank, own = x->type.dtype, acc = own, out = own;
  who = ty_record_name(who, op);
  if (TY_UNLIKELY(ty_tensor_is_complex(x))) return ty_complex_reduce(S, who, op, x, dims, keep, y);
  if (!dims) dims = (1u << rank) - 1;
  i64 count = 1;
  int runs = 0;
  for (int d = 0; d < rank; d++) {
    if (!(dims >> d & 1)) continue;
    count *= x->type.dims[d];
    runs += d == rank - 1 || !(dims >> (d + 1) & 1);
  }
  if (count == 0 && no_identity(op))
    return ty_fail(S, "%s: nothing to choose from in an empty dim of %s", who,
                   ty_record_show(&x->type, sx));
  int rule = ty_ops[op].rule;
  if (rule == TR_SUM) acc = out = ty_rule_dtype(rule, own, S->default_dtype);
  if (rule == TR_SUM && (own == T_F16 || own == T_BF16) && runs > 1) acc = T_F32;
  if (rule == TR_INDEX) out = T_I64;
  Type shown = {.dtype = (u8)out};
  for (int d = 0; d < rank; d++) {
    bool gone = dims >> d & 1;
    if (!gone || keep) shown.dims[shown.rank++] = gone ? 1 : x->type.dims[d];
  }
  if (TY_UNLIKELY(x->st->batched != NULL)) return batched(S, who, op, x, dims, 0, &shown, y);
  i32 a = ty_record_start(S, who, x, acc, &b);
  if (a < 0) return false;
  if (rank == 0) { /* a single element is a run of one */
    a = ty_node_reshape(b, a, &(Type){.dtype = (u8)acc, .rank = 1, .dims = {1}});
    a = reduce_run(b, op, a, rule == TR_INDEX ? T_I64 : acc, 0, 0);
  }
  for (int hi = rank - 1; hi >= 0; hi--) { /* runs, last to first */
    if (!(dims >> hi & 1)) continue;
    int lo = hi;
    while (lo > 0 && dims >> (lo - 1) & 1) lo--;
    a = reduce_run(b, op, a, rule == TR_INDEX ? T_I64 : acc, lo, hi);
    hi = lo;
  }
  if (rule != TR_INDEX) a = ty_node_cast(b, a, out);
  return ty_record_finish_as(S, b, a, &shown, y, who) && note(S, op, x, dims, 0, y);
}

bool ty_record_scan(State *S, const char *who, int op, const Tensor *x, int dim, Tensor *y) {
  Recording *b;
  int d = x->type.dtype, rule = ty_ops[op].rule;
  who = ty_record_name(who, op);
  if (TY_UNLIKELY(ty_tensor_is_complex(x))) return ty_complex_scan(S, who, op, x, dim, y);
  d = ty_rule_dtype(rule, d, S->default_dtype);
  if (TY_UNLIKELY(x->st->batched != NULL)) return batched(S, who, op, x, 0, dim, &x->type, y);
  i32 a = ty_record_start(S, who, x, d, &b);
  if (a < 0) return false;
  Type t = b->g.node[a].type;
  if (t.rank == 0) a = ty_node_reshape(b, a, &(Type){.dtype = (u8)d, .rank = 1, .dims = {1}});
  if (a < 0) return ty_record_cancel_memory(S, b, who);
  Node n = ty_node_new(op, &b->g.node[a].type, a, -1, -1);
  n.arg.k = dim;
  return ty_record_finish_as(S, b, ty_node_append(b, &n), &t, y, who) && note(S, op, x, 0, dim, y);
}

/* --- attention */

/* What q, k, v are cast to: they stay half floats where the device takes them so. */
static int attended_as(int op, const Tensor *const *x, const Type *as, const Arg *arg) {
  const Device *d = ty_devices[as[0].device];
  const int given = x[0] ? x[0]->type.dtype : T_F32, y = ty_attend_dtype(as[0].dtype);
  const bool plain = op == OP_ATTEND && arg->k & ATTEND_FAST && !x[3] && !x[4] && y == T_F32;
  return plain && ty_attend_dtype(given) != given && d->halves &&
                 d->halves(as[0].dims[as[0].rank - 1], as[2].dims[as[2].rank - 1])
             ? given
             : y;
}

bool ty_record_attend(State *S, const char *who, int op, const Tensor *const *x, const Type *as,
                      const Arg *arg, i64 numel, Tensor *y) {
  const int arity = ty_ops[op].arity, dtype = attended_as(op, x, as, arg);
  for (int i = 0; i < arity; i++)
    if (x[i] && !ty_complex_refuse(S, who, x[i])) return false;
  const Type absent = {.dtype = T_BOOL},
             flat = ty_type_line(ty_attend_dtype(as[0].dtype), as[0].device, numel);
  S->nops++;
  for (int i = 0; i < arity; i++)
    if (x[i] && !ty_record_settle(S, x[i])) return false;
  for (int i = 1; i < arity; i++) {
    Given pair[2] = {{.t = x[0]}, {.t = x[i]}};
    if (x[i] && !ty_record_same_device(S, who, 2, pair)) return false;
  }
  Recording *b = ty_record_begin(S, x[0]->type.device);
  for (int i = 0; i < arity; i++)
    if (!b || (x[i] && !ty_record_settle(S, x[i]))) return ty_record_cancel(S, b);
  Node n = ty_node_new(op, &flat, -1, -1, -1), none = ty_node_new(OP_CONST, &absent, -1, -1, -1);
  none.arg.bits = 1;
  n.arg = *arg;
  for (int i = 0; i < arity; i++) {
    if (!x[i]) n.src[i] = ty_node_append(b, &none);
    else {
      Type t = as[i];
      if (i < 3) t.dtype = (u8)dtype;
      n.src[i] = ty_node_expand(b, ty_node_cast(b, ty_record_node(S, b, x[i]), t.dtype), &t);
    }
    if (n.src[i] < 0) return ty_record_cancel_memory(S, b, who);
  }
  return ty_record_finish(S, b, ty_node_append(b, &n), y, who);
}

/* --- leaves */

Recording *ty_record_start_leaf(State *S, const char *who, const Type *t) {
  char st[SHOWN];
  S->nops++;
  if (!ty_type_fits(t)) {
    ty_fail(S, "%s: %s is too large", who, ty_record_show(t, st));
    return NULL;
  }
  return ty_record_begin(S, t->device);
}

/* False: no memory, of which the road tells. */
static bool fill_few(State *S, const Type *t, const double *v, Tensor *y) {
  if (!ty_record_is_few(S, t) || !ty_tensor_from(S, y, t, NULL)) return false;
  S->nops++;
  if (v && y->st->numel) ty_elem_fill(t->dtype, y->st->buf->data, y->st->numel, *v);
  return true;
}

bool ty_record_full(State *S, const Type *t, double v, Tensor *y) {
  const char *who = "full";
  if (TY_UNLIKELY(ty_is_complex(t->dtype)))
    return ty_complex_number(S, t, &(Given){.kind = O_NUMBER, .v = v}, y);
  if (fill_few(S, t, &v, y)) return true;
  Recording *b = ty_record_start_leaf(S, who, t);
  if (!b) return false;
  if (v == 0 || v == 1) { /* known to fold; other values stay out of the key */
    Node n = ty_node_new(OP_CONST, t, -1, -1, -1);
    ty_elem_store(t->dtype, &n.arg.bits, v);
    return ty_record_finish(S, b, ty_node_append(b, &n), y, who);
  }
  return ty_record_finish(S, b, ty_node_expand(b, ty_node_scalar(b, t->dtype, v), t), y, who);
}

bool ty_record_number(State *S, const Type *t, const Given *x, Tensor *y) {
  const char *who = "full";
  if (TY_UNLIKELY(ty_is_complex(t->dtype))) return ty_complex_number(S, t, x, y);
  if (!x->symbol) return ty_record_full(S, t, x->v, y);
  Recording *b = ty_record_start_leaf(S, who, t);
  if (!b) return false;
  i32 v = ty_node_symbol(b, t->dtype, x->v, x->symbol);
  if (v < 0) return ty_record_cancel_memory(S, b, who);
  return ty_record_finish(S, b, ty_node_expand(b, v, t), y, who);
}

static bool record_leaf(State *S, const char *who, int op, const Type *t, Tensor *y) {
  Recording *b = ty_record_start_leaf(S, who, t);
  if (!b) return false;
  Node n = ty_node_new(op, t, -1, -1, -1);
  return ty_record_finish(S, b, ty_node_append(b, &n), y, who);
}

bool ty_record_iota(State *S, const Type *dims, Tensor *y) {
  Type t = *dims;
  t.dtype = T_I64;
  return record_leaf(S, "arange", OP_IOTA, &t, y);
}

bool ty_record_empty(State *S, const Type *t, Tensor *y) {
  if (TY_UNLIKELY(ty_is_complex(t->dtype))) return ty_complex_empty(S, t, y);
  if (fill_few(S, t, NULL, y)) return true;
  return record_leaf(S, "empty", OP_EMPTY, t, y);
}

u64 ty_stream_next(State *S) { return S->stream++; }

/* Where the stream's number and the seed stand among the scalars when another word of it was drawn just before, else
** -1: all words of an element come from one computation then. */
static i32 drawn_before(const State *S, const Graph *g, u64 stream) {
  enum { NEAR = 16 };
  for (i32 i = g->n - 1; i >= TY_MAX(g->n - NEAR, 0); i--) {
    const Node *n = &g->node[i];
    if (n->op == OP_RANDOM && g->scalar[n->arg.k] == stream && g->scalar[n->arg.k + 1] == S->seed)
      return n->arg.k;
  }
  return -1;
}

bool ty_record_random(State *S, const Type *dims, u64 stream, int word, Tensor *y) {
  const char *who = "rand";
  Type t = *dims;
  t.dtype = T_I32;
  if (TY_UNLIKELY(S->level != NULL)) return ty_vmap_random(S, S->level, dims, stream, word, y);
  Recording *b = ty_record_start_leaf(S, who, &t);
  if (!b) return false;
  i32 slot = drawn_before(S, &b->g, stream);
  const bool first = slot < 0;
  if (first) slot = ty_graph_scalar(&b->g, stream);
  if (slot < 0 || (first && ty_graph_scalar(&b->g, S->seed) < 0))
    return ty_record_cancel_memory(S, b, who);
  if (first && S->capture) {
    ScalarFrom from = {.kind = SC_STREAM, .bits = stream - S->capture->stream};
    if (!ty_capture_scalar(S, slot, from) ||
        !ty_capture_scalar(S, slot + 1, (ScalarFrom){.kind = SC_SEED}))
      return ty_record_cancel_memory(S, b, who);
  }
  Node n = ty_node_new(OP_RANDOM, &t, -1, -1, -1);
  n.arg.k = slot;
  n.arg.k2 = word;
  return ty_record_finish(S, b, ty_node_append(b, &n), y, who);
}
