/*
** range_tape.c -- what calls need for their backward pass, for a range of sizes.
** In: the tapes of five instances that shape_range.c makes one of. Out: the last one, and how its dims, layouts and
** numbers follow from the sizes; of the values that are remade, too. Fails where tapes differ in more than that.
**
** A tape is data for the sizes at one point: calls of other sizes ask it for theirs before they use it
** (ty_traced_tape_at). Nothing of it is kept between two uses.
*/
#include "engine/remade.h"
#include "engine/shape_range.h"
#include "record/traced_call.h"

static const char *no_memory = "out of memory",
                  *own_way = "a number of the backward pass follows from sizes in its own way";

/* --- no byte is left to chance */

static Tensor clean_tensor(const Tensor *t) {
  Tensor y;
  memset(&y, 0, sizeof y);
  y.type = t->type;
  y.offset = t->offset;
  memcpy(y.strides, t->strides, sizeof *y.strides * (size_t)t->type.rank);
  y.detached = t->detached;
  return y;
}

static void clean_row(TapeRow *row) {
  const TapeRow r = *row;
  const Tensor t = clean_tensor(&r.t);
  memset(row, 0, sizeof *row);
  memcpy(&row->t, &t, sizeof t);
  row->dims = r.dims;
  row->site = r.site, row->dim = r.dim, row->base = r.base, row->n = r.n, row->edge = r.edge;
  row->how.causal = r.how.causal, row->how.scale = r.how.scale, row->how.drop = r.how.drop,
  row->how.fast = r.how.fast;
  row->owner = r.owner;
  row->kind = r.kind, row->cast = r.cast;
  row->freed = r.freed, row->keeps = r.keeps, row->pure = r.pure;
}

static void clean_edge(TapeEdge *edge) {
  const TapeEdge e = *edge;
  const Tensor t = clean_tensor(&e.like.t);
  memset(edge, 0, sizeof *edge);
  memcpy(&edge->like.t, &t, sizeof t);
  edge->like.numel = e.like.numel;
  edge->like.is_number = e.like.is_number;
  edge->like.symbol = e.like.symbol, edge->like.number = e.like.number;
  edge->row = e.row, edge->from = e.from, edge->value = e.value;
}

static void clean_value(TapeValue *value) {
  const TapeValue v = *value;
  memset(value, 0, sizeof *value);
  value->kind = v.kind, value->shown = v.shown, value->own = v.own, value->apart = v.apart;
  value->of = v.of, value->from = v.from;
  value->st = v.kind == VALUE_CONSTANT ? v.st : NULL;
  value->type = v.type;
  memcpy(value->strides, v.strides, sizeof *v.strides * (size_t)v.type.rank);
}

static void clean(TracedTape *T) {
  for (i32 i = 0; i < T->nrow; i++) clean_row(&T->row[i]);
  for (i32 i = 0; i < T->nedge; i++) clean_edge(&T->edge[i]);
  for (i32 i = 0; i < T->nvalue; i++) clean_value(&T->value[i]);
  for (i32 i = 0; i < T->noutput; i++) T->output[i].st = NULL;
  for (i32 i = 0; i < T->nleading; i++) {
    const TapeRoot r = T->leading[i];
    memset(&T->leading[i], 0, sizeof r);
    T->leading[i].outside = r.outside, T->leading[i].root = r.root, T->leading[i].first = r.first;
    T->leading[i].offset = r.offset;
    T->leading[i].all = r.all;
  }
}

/* --- what is the same at all sizes */

static bool same_counts(const TracedTape *x, const TracedTape *y) {
  return x->nrow == y->nrow && x->nedge == y->nedge && x->nvalue == y->nvalue &&
         x->noutput == y->noutput && x->nroot == y->nroot && x->nleading == y->nleading &&
         x->nrule == y->nrule && x->nhandle == y->nhandle && x->nremade == y->nremade &&
         x->nnumber == y->nnumber && x->spent == y->spent;
}

/* What names no size. */
static bool same_lists(const TracedTape *x, const TracedTape *y) {
  const TapeRemade *last = x->nremade ? &x->remade[x->nremade - 1] : NULL;
  const i32 leaves = last ? last->first + last->n : 0;
  return !memcmp(x->handle, y->handle, sizeof *x->handle * (size_t)x->nhandle) &&
         (!last || (!memcmp(x->remade, y->remade, sizeof *last * (size_t)x->nremade) &&
                    !memcmp(x->leaf, y->leaf, sizeof *x->leaf * (size_t)leaves)));
}

/* Constants that were made anew by each capture. */
static bool share_constants(TracedTape *x, const TracedTape *from) {
  for (i32 i = 0; i < x->nvalue; i++) {
    Storage **st = &x->value[i].st, *y = from->value[i].st;
    if (!*st != !y) return false;
    if (*st == y) continue;
    const Buffer *b = (*st)->buf, *c = y->buf;
    if (!b || !c || b->bytes != c->bytes || b->device != ty_cpu || c->device != ty_cpu ||
        memcmp(b->data, c->data, (size_t)c->bytes) != 0)
      return false;
    ty_storage_drop(*st);
    *st = ty_storage_hold(y);
  }
  return true;
}

/* Rules of the library's functions: what they know is the same at all sizes. */
static bool share_rules(TracedTape *x, const TracedTape *from) {
  for (i32 i = 0; i < x->nrow; i++) {
    Owner *o = &x->row[i].owner;
    const Owner *p = &from->row[i].owner;
    if (!o->drop != !p->drop) return false;
    if (o->ctx == p->ctx) continue;
    if (!((Rule *)o->ctx)->alike(o->ctx, p->ctx)) return false;
    o->drop(o->ctx);
    *o = *p;
    ((Rule *)o->ctx)->refs++;
  }
  return true;
}

/* Numbers that each call brings. */
static void share_symbols(TracedTape *x, const TracedTape *from) {
  for (i32 i = 0; i < x->nedge; i++)
    if (x->edge[i].like.symbol && from->edge[i].like.symbol)
      x->edge[i].like.number = from->edge[i].like.number;
}

static const char *check_dims(TracedTape *const *sample, i64 last) {
  const TracedTape *T = sample[0];
  const Type *t[RANGE_SAMPLES];
  const char *why = NULL;
  for (i32 i = 0; i < T->nrow + T->nedge && !why; i++) {
    for (int k = 0; k < RANGE_SAMPLES; k++) {
      t[k] = i < T->nrow ? &sample[k]->row[i].t.type : &sample[k]->edge[i - T->nrow].like.t.type;
      if (t[k]->rank != t[0]->rank) return ty_range_differ;
    }
    why = ty_range_dims(t, last);
  }
  return why;
}

static const char *make_alike(TracedTape *const *sample, i64 last) {
  TracedTape *most = sample[RANGE_SAMPLES - 1];
  for (int k = 0; k < RANGE_SAMPLES; k++) {
    if (!same_counts(sample[k], most)) return ty_range_differ;
    clean(sample[k]);
  }
  for (int k = 0; k < RANGE_SAMPLES - 1; k++) {
    if (!same_lists(sample[k], most)) return ty_range_differ;
    if (!share_constants(sample[k], most))
      return "a constant of the backward pass follows from sizes";
    if (!share_rules(sample[k], most)) return "what a gradient knows follows from sizes";
    share_symbols(sample[k], most);
  }
  return check_dims(sample, last);
}

/* --- making */

typedef struct Making {
  i64 last;
  const RangeNumbers *known;
  Patches *patches;
} Making;

static const char *make_number(const Making *M, char *const *block, size_t offset) {
  u64 bits[RANGE_SAMPLES];
  bool same = true;
  Patch y = {.at = block[RANGE_SAMPLES - 1] + offset};
  for (int k = 0; k < RANGE_SAMPLES; k++) {
    memcpy(&bits[k], block[k] + offset, sizeof bits[k]);
    same &= bits[k] == bits[0];
  }
  if (same) return NULL;
  if (!ty_patch_fit_scalar(bits, T_F64, M->known, M->last, &y)) return own_way;
  return ty_patch_add(M->patches, &y) ? NULL : no_memory;
}

/* n items of so many bytes, whose words from `number` to `behind` are numbers that operations were given. */
static const char *make_list(const Making *M, char *const *list, i32 n, size_t bytes, size_t number,
                             size_t behind) {
  char *block[RANGE_SAMPLES];
  for (i32 i = 0; i < n; i++) {
    for (int k = 0; k < RANGE_SAMPLES; k++) block[k] = list[k] + bytes * (size_t)i;
    for (size_t at = 0; at < bytes; at += sizeof(i64)) {
      const char *why = NULL;
      if (at >= number && at < behind) why = make_number(M, block, at);
      else {
        const PatchWord y = ty_patch_word(block, at, M->last, M->patches);
        why = y == WORD_OWN_WAY ? own_way : y == WORD_NO_MEMORY ? no_memory : NULL;
      }
      if (why) return why;
    }
  }
  return NULL;
}

static const char *make_patches(const Making *M, TracedTape *const *sample) {
  const TracedTape *T = sample[0];
  const size_t how = offsetof(TapeRow, how) + offsetof(Attention, scale),
               number = offsetof(TapeEdge, like) + offsetof(Edge, number);
  const struct {
    size_t field;
    i32 n;
    size_t bytes, number, behind;
  } of[] = {
      {offsetof(TracedTape, row), T->nrow, sizeof *T->row, how,
       offsetof(TapeRow, how) + sizeof(Attention)},
      {offsetof(TracedTape, edge), T->nedge, sizeof *T->edge, number, number + sizeof(double)},
      {offsetof(TracedTape, value), T->nvalue, sizeof *T->value, 0, 0},
      {offsetof(TracedTape, output), T->noutput, sizeof *T->output, 0, 0},
      {offsetof(TracedTape, leading), T->nleading, sizeof *T->leading, 0, 0},
  };
  char *list[RANGE_SAMPLES];
  const char *why = NULL;
  for (int i = 0; i < TY_COUNT(of) && !why; i++) {
    for (int k = 0; k < RANGE_SAMPLES; k++)
      memcpy(&list[k], (char *)sample[k] + of[i].field, sizeof list[k]);
    why = make_list(M, list, of[i].n, of[i].bytes, of[i].number, of[i].behind);
  }
  return why;
}

static TapeSizes *sizes_new(i64 last, const RangeNumbers *known) {
  TapeSizes *y = ty_mem_zalloc(sizeof *y);
  const size_t bytes = sizeof *y->given * (size_t)known->ngiven;
  if (!y) return NULL;
  y->now = y->last = last;
  y->ngiven = known->ngiven;
  if (!(y->given = ty_mem_alloc(bytes + 1))) {
    ty_mem_free(y);
    return NULL;
  }
  if (bytes) memcpy(y->given, known->given, bytes);
  return y;
}

const char *ty_range_tape(TracedTape *const *sample, i64 last, const RangeNumbers *known) {
  const char *why = make_alike(sample, last);
  TapeSizes *sizes = why ? NULL : sizes_new(last, known);
  if (!why && !sizes) why = no_memory;
  if (!why) why = make_patches(&(Making){last, known, &sizes->patches}, sample);
  if (!why) why = ty_remade_range(sample, last, known);
  if (why) {
    if (sizes) ty_traced_sizes_free(sizes);
    return why;
  }
  sample[RANGE_SAMPLES - 1]->sizes = sizes;
  return NULL;
}
