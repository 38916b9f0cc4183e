/*
** shape_range.c -- one instance for a range of sizes, made from instances at five points of it.
** In:  instances of one trace for sizes that grow by equal steps: at both ends of the range, beside the ends, in its
** middle.  Out: one of them, and how each of its numbers follows from the sizes.  Fails where instances differ in more
** than numbers, where a number is no polynomial of degree 2, and when out of memory.
**
** Fusion, order, kernels, who shares a place and what is done in place are alike in all five; what remains are extents,
** strides, offsets, bytes. Why they are right in between:
** 1. What passes decide by sizes is whether two are equal (to merge dims, to take over memory), whether one is 1, and
**    which is greater. Sizes are polynomials of t. Two of them that are equal at all five are equal everywhere; where they
**    are not, the passes go the way that is right for any two. None comes to be 1 or 0. What is greater at both ends is
**    so between them; what changes within the range shows in some sample, and numbers that go by remainders show
**    beside the ends, where one step is made.
** 2. Temporaries lie where they lie for the largest sizes, and none is larger elsewhere. None lies in an output.
** 3. What code decides by sizes, and which numbers it makes of them, is proved by who makes the samples
**    (lua/tycho/capture/proofs.lua). Rules of the backward pass are the core's, which does the same at all sizes but where
**    it notes what it decides (range_decided.c); they are given dims, and the numbers that operations were given.
*/
#include "engine/shape_range.h"
#include "record/traced_call.h"

/* In which a scalar is computed. */
static int computed_in(const Plan *p, i32 scalar) {
  const Source *s = p->source;
  for (i32 i = 0; i < s->n; i++)
    if (s->node[i].op == OP_SCALAR && s->node[i].arg.k == scalar) return s->node[i].type.dtype;
  return T_F64;
}

/* --- the memory of an instance */

typedef struct Block {
  char *p;
  size_t bytes;
} Block;

enum { BLOCKS = 9, BLOCK_SCALAR = 3, BLOCK_SIZE = 7, BLOCK_PLAN = 8 };

static void list_blocks(const Instance *I, i32 nsizes, Block *y) {
  const Plan *p = I->plan;
  const Block list[BLOCKS] = {
      {(char *)I->outside, sizeof *I->outside * (size_t)I->noutside},
      {(char *)I->shared, sizeof *I->shared * (size_t)I->nshared},
      {(char *)I->input, sizeof *I->input * (size_t)I->ninput},
      {(char *)I->scalar, sizeof *I->scalar * (size_t)I->nscalar},
      {(char *)I->target, sizeof *I->target * (size_t)I->ntarget},
      {(char *)I->made, sizeof *I->made * (size_t)I->nmade},
      {(char *)I->check, sizeof *I->check * (size_t)I->ncheck},
      {(char *)I->size, sizeof *I->size * (size_t)nsizes},
      {(char *)p, p ? (size_t)p->bytes : 0},
  };
  memcpy(y, list, sizeof list);
}

static const char *differs(const Instance *x, const Instance *y) {
  if (x->foreign || y->foreign) return "a function of the user's computes it";
  if (!x->plan != !y->plan ||
      (x->plan && (x->plan->bytes != y->plan->bytes || y->plan->refs != 1)) ||
      x->writes != y->writes || x->strict != y->strict || x->streams != y->streams ||
      x->noutside != y->noutside || x->nshared != y->nshared || x->ninput != y->ninput ||
      x->nscalar != y->nscalar || x->ntarget != y->ntarget || x->nmade != y->nmade ||
      x->ncheck != y->ncheck || !x->tape != !y->tape ||
      (x->plan && x->plan->source->bytes != y->plan->source->bytes))
    return ty_range_differ;
  return NULL;
}

/* --- what is the same at all sizes */

static const char *check_all_dims(Instance *const *sample, i64 last) {
  const Type *t[RANGE_SAMPLES];
  const char *why = NULL;
  for (i32 i = 0; i < sample[0]->noutside && !why; i++) {
    for (int k = 0; k < RANGE_SAMPLES; k++) t[k] = &sample[k]->outside[i].type;
    why = ty_range_dims(t, last);
  }
  for (i32 i = 0; sample[0]->plan && i < sample[0]->plan->source->n && !why; i++) {
    for (int k = 0; k < RANGE_SAMPLES; k++) t[k] = &sample[k]->plan->source->node[i].type;
    for (int k = 1; k < RANGE_SAMPLES; k++)
      if (t[k]->rank != t[0]->rank) return ty_range_differ;
    why = ty_range_dims(t, last);
  }
  return why;
}

/* Constants that were made anew by each capture. */
static bool share_constants(Instance *x, const Instance *from) {
  for (i32 i = 0; i < x->ninput; i++) {
    Buffer **b = &x->input[i].constant, *c = from->input[i].constant;
    if (*b == c) continue;
    if (!*b || !c || (*b)->bytes != c->bytes || (*b)->device != ty_cpu || c->device != ty_cpu ||
        memcmp((*b)->data, c->data, (size_t)c->bytes) != 0)
      return false;
    ty_buffer_drop(*b);
    *b = ty_buffer_hold(c);
  }
  return true;
}

/* What decides about speed and words alone is taken as it is for the largest sizes, and so are the places of temporaries. */
static void share_choices(Plan *p, const Plan *from) {
  p->time = from->time;
  p->bytes_moved = from->bytes_moved;
  p->bytes_saved = from->bytes_saved;
  p->nops = from->nops;
  p->arena = from->arena;
  for (i32 k = 0; k < p->noutputs; k++) p->output[k].long_after = from->output[k].long_after;
  for (i32 i = 0; i < p->nslots; i++)
    if (p->slot[i].kind == SLOT_TEMP && from->slot[i].kind == SLOT_TEMP)
      p->slot[i].offset = from->slot[i].offset;
  u64 *scalar = (u64 *)(p->source->node + p->source->n);
  memcpy(scalar, from->source->node + p->source->n, sizeof *scalar * (size_t)p->source->nscalar);
}

/* Weights are packed ahead where they are of one shape at all sizes. */
static void share_panels(Instance *const *sample) {
  Plan *most = sample[RANGE_SAMPLES - 1]->plan;
  for (i32 i = 0; i < most->nsteps; i++) {
    const Gemm *g = most->step[i].job ? most->step[i].job->gemm : NULL;
    const Gemm *h = sample[0]->plan->step[i].job ? sample[0]->plan->step[i].job->gemm : NULL;
    if (!g || !h) continue;
    const bool same = g->k == h->k && g->n == h->n && g->batch == h->batch;
    for (int k = 0; k < RANGE_SAMPLES; k++)
      sample[k]->plan->step[i].panels = same ? most->step[i].panels : 0;
  }
}

/* Rule 2: temporaries grow, and ever faster if at all unevenly. */
static bool fit_in(Instance *const *sample, i64 last) {
  const Plan *p = sample[RANGE_SAMPLES - 1]->plan;
  for (i32 i = 0; i < p->nslots; i++) {
    i64 v[RANGE_SAMPLES], c[3];
    if (p->slot[i].kind != SLOT_TEMP) continue;
    if (p->slot[i].k >= 0) return false;
    for (int k = 0; k < RANGE_SAMPLES; k++) v[k] = sample[k]->plan->slot[i].bytes;
    if (!ty_patch_fit(v, last, c) || c[2] < 0 || v[0] > v[RANGE_SAMPLES - 1]) return false;
  }
  return true;
}

/* --- making */

typedef struct Making {
  i64 last;
  const RangeNumbers *known;
  Block block[RANGE_SAMPLES][BLOCKS];
  Patches patches;
} Making;

static bool is_pointer_inside(const Making *M, int b, const i64 *v) {
  const u64 inside = (u64)v[0] - (u64)(uintptr_t)M->block[0][b].p;
  for (int k = 0; k < RANGE_SAMPLES; k++)
    if ((u64)v[k] - (u64)(uintptr_t)M->block[k][b].p != inside) return false;
  return inside <= M->block[0][b].bytes; /* one of nothing may stand at the end */
}

static const char *no_memory = "out of memory";
static const char *own_way = "a number follows from sizes in its own way";

/* A number that the patch gives at the samples, or none of those that are known. */
static const char *make_number(Making *M, const Patch *y, bool follows) {
  if (!follows) return own_way;
  return ty_patch_add(&M->patches, y) ? NULL : no_memory;
}

/* One word of block b. */
static const char *make_word(Making *M, const Instance *I, int b, size_t offset) {
  i64 v[RANGE_SAMPLES];
  char *block[RANGE_SAMPLES];
  bool same = true;
  for (int k = 0; k < RANGE_SAMPLES; k++) {
    block[k] = M->block[k][b].p;
    memcpy(&v[k], block[k] + offset, sizeof v[k]);
    same = same && v[k] == v[0];
  }
  if (same || (b == BLOCK_PLAN && is_pointer_inside(M, b, v))) return NULL;
  Patch y = {.at = block[RANGE_SAMPLES - 1] + offset, .kind = PATCH_SCALAR, .dtype = T_F64};
  if (b == BLOCK_SIZE) {
    const RangeNumber *n = &M->known->size[offset / sizeof *I->size];
    y.form = n->form;
    memcpy(y.c, n->c, sizeof n->c);
    return make_number(M, &y, ty_patch_gives(&y, (u64 *)v, M->last));
  }
  const i32 k = (i32)(offset / sizeof *I->scalar);
  const bool constant = b == BLOCK_SCALAR && I->plan && I->scalar[k].kind == SC_CONST &&
                        offset % sizeof *I->scalar == offsetof(ScalarFrom, bits);
  if (constant) {
    const int dtype = computed_in(I->plan, k);
    return make_number(M, &y, ty_patch_fit_scalar((u64 *)v, dtype, M->known, M->last, &y));
  }
  switch (ty_patch_word(block, offset, M->last, &M->patches)) {
  case WORD_NO_MEMORY: return no_memory;
  case WORD_OWN_WAY:
    return b == BLOCK_PLAN ? "a number of the plan follows from sizes in its own way"
                           : "a layout follows from sizes in its own way";
  default: return NULL;
  }
}

/* The words from one offset of block b to another. */
static const char *make_words(Making *M, const Instance *I, int b, size_t from, size_t to) {
  const char *why = NULL;
  for (; from + sizeof(i64) <= to && !why; from += sizeof(i64)) why = make_word(M, I, b, from);
  return why;
}

/* *nsource: so many of the patches, the last ones, are of the plan's source, which no run reads. */
static const char *make_patches(Making *M, Instance *const *sample, i32 *nsource) {
  const Instance *I = sample[RANGE_SAMPLES - 1];
  const char *why = NULL;
  for (int k = 0; k < RANGE_SAMPLES; k++) list_blocks(sample[k], M->known->nsizes, M->block[k]);
  for (int b = 0; b < BLOCK_PLAN && !why; b++) why = make_words(M, I, b, 0, M->block[0][b].bytes);
  if (why || !I->plan) return why;
  const size_t source = (size_t)((char *)I->plan->source - (char *)I->plan);
  const size_t behind = source + I->plan->source->bytes;
  why = make_words(M, I, BLOCK_PLAN, 0, source);
  if (!why)
    why = make_words(M, I, BLOCK_PLAN, (behind + 7) & ~(size_t)7, M->block[0][BLOCK_PLAN].bytes);
  const i32 before = M->patches.n;
  if (!why) why = make_words(M, I, BLOCK_PLAN, source, behind);
  *nsource = M->patches.n - before;
  return why;
}

static const char *make_alike(Instance *const *sample, i64 last) {
  Instance *most = sample[RANGE_SAMPLES - 1];
  for (int k = 0; k < RANGE_SAMPLES; k++) {
    const char *why = differs(sample[k], most);
    if (why) return why;
    if (!share_constants(sample[k], most)) return "a constant follows from sizes";
  }
  const char *dims = check_all_dims(sample, last);
  if (dims) return dims;
  if (!most->plan) return NULL;
  for (int k = 0; k < RANGE_SAMPLES - 1; k++) {
    const Plan *p = sample[k]->plan, *q = most->plan;
    if (p->nslots != q->nslots || p->nsteps != q->nsteps || p->noutputs != q->noutputs)
      return ty_range_differ;
    share_choices(sample[k]->plan, most->plan);
  }
  share_panels(sample);
  return fit_in(sample, last) ? NULL : "temporaries do not grow with the sizes";
}

/* What tells t: a dim of a tensor from outside, else a number. */
static void find_key(ShapeRange *r, const Instance *x, const Instance *y, i32 nsizes) {
  for (i32 i = 0; i < x->noutside; i++)
    for (int d = 0; d < x->outside[i].type.rank; d++) {
      r->first = x->outside[i].type.dims[d];
      r->step = y->outside[i].type.dims[d] - r->first;
      r->outside = i;
      r->dim = d;
      if (r->step) return;
    }
  r->outside = -1;
  for (r->dim = 0; r->dim < nsizes; r->dim++) {
    r->first = (i64)x->size[r->dim];
    r->step = (i64)y->size[r->dim] - r->first;
    if (r->step) return;
  }
}

/* Of what a backward pass needs of the samples' calls. */
static const char *make_tape(Instance *const *sample, i64 last, const RangeNumbers *known) {
  TracedTape *tape[RANGE_SAMPLES];
  for (int k = 0; k < RANGE_SAMPLES; k++) tape[k] = sample[k]->tape;
  return tape[0] ? ty_range_tape(tape, last, known) : NULL;
}

ShapeRange *ty_shape_range_make(Instance *const *sample, i64 last, const RangeNumbers *known,
                                const char **why) {
  Making M = {.last = last, .known = known};
  ShapeRange *r = NULL;
  i32 nsource = 0;
  *why = last < RANGE_LEAST ? "the range is too small" : make_alike(sample, last);
  if (!*why) *why = make_patches(&M, sample, &nsource);
  if (!*why && !(r = ty_mem_zalloc(sizeof *r))) *why = no_memory;
  if (r) {
    r->now = r->told = r->last = last;
    *why = ty_range_decided(sample, r);
  }
  if (!*why) *why = make_tape(sample, last, known);
  if (*why) {
    ty_mem_free(M.patches.patch);
    ty_mem_free(r);
    return NULL;
  }
  find_key(r, sample[0], sample[1], known->nsizes);
  r->I = sample[RANGE_SAMPLES - 1];
  r->patch = M.patches.patch;
  r->npatches = M.patches.n - nsource;
  r->nsource = nsource;
  return r;
}

/* --- use */

const char *ty_shape_range_unfit(const ShapeRange *r) {
  return r->I->tape ? r->I->tape->sizes->unfit : NULL;
}

bool ty_shape_range_has(const ShapeRange *r, i64 t) {
  if (t < 0 || t > r->last) return false;
  for (i32 i = 0; i < r->nholes; i++)
    if (r->hole[i] == t) return false;
  return true;
}

void ty_shape_range_set(ShapeRange *r, i64 t) {
  if (r->I->tape) ty_traced_tape_at(r->I->tape, t); /* which calls of other sizes use, too */
  if (TY_LIKELY(r->now == t)) return;
  r->now = t;
  ty_patch_apply(r->patch, r->npatches, t);
}

void ty_shape_range_tell(ShapeRange *r) {
  if (r->told == r->now) return;
  r->told = r->now;
  ty_patch_apply(r->patch + r->npatches, r->nsource, r->now);
}

void ty_shape_range_free(ShapeRange *r) {
  ty_instance_free(r->I);
  ty_mem_free(r->patch);
  ty_mem_free(r);
}
