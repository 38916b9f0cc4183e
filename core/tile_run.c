/*
** tile_run.c -- the portable machine: steps over a domain.
** In:  a kernel and a launch.  Out: the outputs are written. Fails, with nothing written, when the
** registers cannot be had.
**
** A domain is seen flattened. Elements number (o * R + r) * I + i, row values o * I + i; each
** operand belongs to one of these two spaces, whose dims are collapsed as far as all operands of
** the space allow. How the domain is cut:
**   map     tiles of elements
**   rows    several whole rows in a tile, or one row that fits a tile, or (long) a row tile by tile
**   columns for each o, strips of up to STRIP columns, going down R; where a strip is the whole
**           width, several rows of it in one tile
** Where all elements are native and nothing goes by way of tiles (joint), one call of native code takes
** all rows of a batch, 2^TOGETHER blocks of a long row, or all rows of a block of columns.
** Reductions of long rows and of columns are gathered block by block; complete blocks are combined
** as a binary counter counts, which is the tree of tile.c. Where there are fewer rows than threads
** the blocks of a row are dealt out in groups, each a subtree, and their results combined at the
** end.
**
** Memory: a frame holds all registers of one thread. All frames of a run are taken together, before
** anything is written, from scratch that the calling thread keeps; a small run uses its stack.
*/
#include "tile_run.h"

#include <pthread.h>

#define STRIP 1024  /* columns worked on side by side: their states fit the first-level cache */
#define BATCH 64    /* rows whose values are worked on together */
#define TOGETHER 5  /* 2 to this: most blocks of a long row that native code takes together */
#define STACK 16384 /* bytes of frame that a small run takes from the stack */
#define SPREAD_BELOW 128     /* shorter rows share a tile */
#define SPREAD_NATIVE 64     /* the same where a row is native */
#define ALONE 30000.0        /* nanoseconds of work that wake nobody */
#define CHUNK 15000.0        /* nanoseconds of work that are worth handing over */
#define GROUP_ELEMENTS 65536 /* elements of a group of blocks, at least */

i64 ty_tile_past = 32 << 20; /* measured: below it the caches do better, also for who reads next */

/* ---- memory --------------------------------------------------------------------------------- */

/* Scratch grows to what the largest run of this thread wanted (some megabytes at most, since tiles
** are small), so that what was once reserved stays. It goes with the thread. */
static _Thread_local struct {
  void *p;
  size_t n;
} scratch;
static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static bool scratch_keyed;

static void scratch_make_key(void) {
  scratch_keyed = !pthread_key_create(&scratch_key, ty_mem_free);
}

static char *scratch_take(size_t n) {
  if (n <= scratch.n) return scratch.p;
  pthread_once(&scratch_once, scratch_make_key);
  n = (n + 65535) & ~(size_t)65535;
  void *p = scratch_keyed ? ty_mem_alloc(n + 64) : NULL;
  if (!p) return NULL;
  if (pthread_setspecific(scratch_key, p)) {
    ty_mem_free(p);
    return NULL;
  }
  ty_mem_free(scratch.p);
  scratch.p = p, scratch.n = n;
  return p;
}

static size_t align64(size_t n) { return (n + 63) & ~(size_t)63; }

/* ---- geometry ------------------------------------------------------------------------------- */

static i64 product(const i64 *dims, int n) {
  i64 p = 1;
  for (int i = 0; i < n; i++) p *= dims[i];
  return p;
}

static i64 ceil_div(i64 a, i64 b) { return a / b + (a % b != 0); }

static void shape_rows(Task *t, int threads) {
  const Kernel *k = t->k;
  bool shared = t->R < (k->native ? SPREAD_NATIVE : SPREAD_BELOW) && t->O > 1;
  t->width = 1, t->strips = 1, t->block = BLOCK;
  t->rows = shared ? TY_MIN(t->O, k->tile / TY_MAX(t->R, 1)) : 1;
  t->code = &k->code[shared];
  t->tile = TY_MIN(TY_MAX(t->rows * t->R, t->rows), k->tile);
  t->batch = k->batch && !shared && t->R <= k->tile && t->O > 1;
  if (t->batch) { /* passed over several times they had better stay in the first-level cache */
    i64 most = t->code->nphase == 1 ? BATCH : TY_MIN(BATCH, BLOCK / TY_MAX(t->R, 1));
    t->rows = TY_MAX(1, TY_MIN(most, ceil_div(t->O, 8 * (threads - 1) + 1)));
  }
  t->units = ceil_div(t->O, t->rows);
}

static void shape_columns(Task *t) {
  t->code = &t->k->code[1], t->block = COL_BLOCK;
  t->width = TY_MIN(t->I, STRIP);
  if (t->width > t->k->tile) t->width = t->k->tile;
  t->strips = ceil_div(t->I, t->width);
  /* Rows go together where they are contiguous and begin with lane 0. */
  i64 most = t->strips == 1 ? t->k->tile / t->width / COL_LANES * COL_LANES : 0;
  t->rows = TY_MAX(TY_MIN(most, COL_BLOCK), 1);
  if (t->rows > t->R) t->rows = TY_MAX(ceil_div(t->R, COL_LANES) * COL_LANES, 1);
  if (most == 0) t->rows = 1;
  t->tile = t->rows * t->width;
  t->units = t->O * t->strips;
}

/* Cuts rows into groups of blocks where whole rows would leave threads idle. */
static void shape_groups(Task *t, int threads) {
  const Kernel *k = t->k;
  i64 blocks = ceil_div(t->R, t->block);
  t->group = 0, t->groups = 1;
  if (threads > 1 && k->long_split && t->units < threads * 2) {
    i64 group = 1;
    while (group * t->block * t->width < GROUP_ELEMENTS) group *= 2;
    if (blocks > group) t->group = group, t->groups = ceil_div(blocks, group);
  }
  i64 chain = t->group ? t->group : blocks;
  t->levels = 1;
  while ((i64)1 << t->levels < chain) t->levels++;
}

static void shape_frame(Task *t, bool parallel) {
  const Code *code = t->code;
  const Kernel *k = t->k;
  bool map = k->p->kind == K_MAP;
  i64 row_values = k->p->kind == K_COL ? t->width : t->rows;
  t->tile_bytes = align64((size_t)(t->tile * k->word));
  t->wide_bytes = align64((size_t)(TY_MAX(t->tile, t->R * (t->batch ? t->rows : 1)) * k->word));
  t->row_bytes = align64((size_t)(row_values * k->word));
  t->node = k->p->kind == K_COL ? align64((size_t)(COL_LANES * t->width * k->word)) : NODE;
  size_t at = align64((size_t)code->nslot * sizeof(void *));
  t->at_uniform = at, at = align64(at + (size_t)code->nuniform * 8);
  t->at_tile = at, at += (size_t)code->ntile * t->tile_bytes;
  t->at_wide = at, at += (size_t)code->nwide * t->wide_bytes;
  t->at_row = at, at += (size_t)code->nrow * t->row_bytes;
  t->nodes = 1 + t->levels;
  if (code->nnative && k->p->kind == K_ROW && t->R >= 2 * t->block) t->nodes += 1 << TOGETHER;
  t->at_acc = at, at += map ? 0 : (size_t)(code->nreduce * t->nodes) * t->node;
  t->at_scan = at, at += align64((size_t)code->nscan * 16);
  t->at_micro = at, at += align64((size_t)code->longest * sizeof(Micro));
  t->frame_bytes = at;
  t->nframes = parallel ? ty_pool_threads(0) : 1;
  t->total = at * (size_t)t->nframes;
  if (t->group) t->total += (size_t)(t->units * t->groups * code->nreduce) * t->node;
}

/* How the launch is cut among `threads`; false when there is nothing to do. */
static bool shape(Task *t, const Kernel *k, const Launch *L, int threads) {
  t->k = k, t->code = &k->code[0];
  t->batch = false;
  t->group = 0, t->groups = t->units = 1, t->levels = 0, t->rows = t->width = t->strips = 1;
  if (k->p->kind == K_MAP) {
    t->N = product(L->dims, L->ni);
    if (!t->N) return false;
    t->O = t->R = 1, t->I = t->N;
    t->tile = TY_MIN(k->tile, t->N);
    if (t->N <= k->tile) { /* the small run: nothing to decide */
      shape_frame(t, false);
      return true;
    }
    t->units = ceil_div(t->N, t->tile);
  } else {
    t->O = product(L->dims, L->no), t->R = product(L->dims + L->no, L->nr);
    t->I = product(L->dims + L->no + L->nr, L->ni);
    t->N = t->O * t->R * t->I;
    if (!t->O || !t->I) return false;
    if (k->p->kind == K_ROW) shape_rows(t, threads);
    else shape_columns(t);
  }
  bool parallel = threads > 1 && (double)t->N * k->cost > ALONE;
  if (k->p->kind != K_MAP) shape_groups(t, parallel ? threads : 1);
  shape_frame(t, parallel && t->units * t->groups > 1);
  return true;
}

/* ---- operands ------------------------------------------------------------------------------- */

/* Adds dim d of the launch to the space; a dim that all operands step through as a continuation of
** the last one becomes one with it. */
static void add_dim(Task *t, Space *s, int space, const Launch *L, int d) {
  const Program *p = t->k->p;
  i64 n = L->dims[d];
  bool joins = s->nd > 0;
  if (n == 1) return;
  for (int o = 0; o < p->noperands && joins; o++)
    if (t->op[o].space == space) joins = t->op[o].stride[s->nd - 1] == L->strides[o][d] * n;
  if (joins) s->dims[s->nd - 1] *= n;
  else s->dims[s->nd++] = n;
  for (int o = 0; o < p->noperands; o++)
    if (t->op[o].space == space) t->op[o].stride[s->nd - 1] = L->strides[o][d];
}

static void find_mode(Place *o, const Space *s) {
  i64 want = 1;
  if (s->nd == 1) {
    o->mode = o->stride[0] == 1 ? FLAT : o->stride[0] == 0 ? ONE : WALK;
    return;
  }
  bool flat = true, one = true;
  for (int d = s->nd - 1; d >= 0; d--) {
    flat &= o->stride[d] == want, one &= o->stride[d] == 0;
    want *= s->dims[d];
  }
  o->mode = flat ? FLAT : one ? ONE : WALK;
}

static bool in_place(const Task *t, const Step *s) {
  if (s->kind != S_LOAD || s->row || s->copy) return false;
  return t->op[s->imm].mode == FLAT && (t->op[s->imm].native || s->raw);
}

/* Whether nothing is read or written by way of tiles, which have room for one row or block. */
static bool is_joint(const Task *t) {
  const Code *code = t->code;
  for (i32 p = 0; p < code->nphase; p++)
    for (i32 i = code->phase[p].elem; i < code->phase[p].end; i++) {
      const Step *s = &code->step[i];
      if (!s->native) {
        if (s->kind != S_SKIP && !in_place(t, s)) return false;
        continue;
      }
      const Native *v = &code->native[s->native - 1];
      if (t->strips > 1 && !v->reduces) return false; /* its elements lie one behind another */
      for (; i < v->end; i++) {
        s = &code->step[i];
        if (s->kind == S_STORE && t->op[s->imm].mode != FLAT) return false;
      }
      i--;
    }
  return true;
}

/* Whether the outputs that lie contiguously, no input among them, are too large for the caches. */
static bool is_past(const Task *t) {
  const Program *p = t->k->p;
  i64 bytes = 0;
  if (t->N * 8 < ty_tile_past) return false;
  for (int i = 0; i < p->noperands; i++) {
    const Place *y = &t->op[i];
    if (!p->operand[i].write || y->space || y->mode != FLAT || !y->native) continue;
    for (int k = 0; k < p->noperands; k++)
      if (!p->operand[k].write && t->op[k].at == y->at) return false;
    bytes += t->N * y->size;
  }
  return bytes >= ty_tile_past;
}

static void bind(Task *t, const Run *r) {
  const Program *p = t->k->p;
  const Launch *L = r->launch;
  const Code *code = t->code;
  int elem = L->no + L->nr + L->ni;
  t->r = r;
  for (int i = 0; i < p->noperands; i++) {
    Place *o = &t->op[i];
    const DTypeInfo *info = &ty_dtypes[p->operand[i].dtype];
    o->space = p->kind != K_MAP && p->operand[i].level == L_ROW;
    o->dtype = p->operand[i].dtype, o->size = info->bytes;
    o->native = info->bytes >= 4;
    o->first = L->start[i];
    o->at = (char *)((uintptr_t)r->buf[i] + (uintptr_t)(L->start[i] * info->bytes));
  }
  t->space[0].nd = t->space[1].nd = 0;
  for (int d = 0; d < elem; d++) add_dim(t, &t->space[0], 0, L, d);
  if (p->kind != K_MAP)
    for (int d = 0; d < elem; d++)
      if (d < L->no || d >= L->no + L->nr) add_dim(t, &t->space[1], 1, L, d);
  for (int i = 0; i < p->noperands; i++) find_mode(&t->op[i], &t->space[t->op[i].space]);
  t->direct = 0;
  for (int i = 0; i < code->ndirect; i++) {
    const Direct *d = &code->direct[i];
    const Place *y = &t->op[d->operand];
    bool ok = y->mode == FLAT && !in_place(t, &code->step[code->slot[d->slot].def]);
    for (u32 m = d->readers; m && ok; m &= m - 1) ok = t->op[__builtin_ctz(m)].at != y->at;
    t->direct |= (u32)ok << i;
  }
  t->past = code->nnative && is_past(t);
  /* A batch is of kernels with one native function a phase; what else is joint was not asked for that. */
  t->joint = code->nnative && p->kind != K_MAP && (t->k->batch || p->kind == K_COL) && is_joint(t);
}

/* Elements a stride apart, as they are: for native code, which converts by itself. */
static void copy_raw(char *y, i64 ystride, const char *x, i64 xstride, int size, i64 n) {
#define COPY(T) \
  { \
    T *to = (T *)(void *)y; \
    const T *from = (const T *)(const void *)x; \
    if (xstride == 0) \
      for (i64 i = 0; i < n; i++) to[i * ystride] = *from; \
    else \
      for (i64 i = 0; i < n; i++) to[i * ystride] = from[i * xstride]; \
  }
  if (xstride == 1 && ystride == 1) memcpy(y, x, (size_t)(n * size));
  else if (size == 1) COPY(u8)
  else if (size == 2) COPY(u16)
  else if (size == 4) COPY(u32)
  else COPY(u64)
#undef COPY
}

/* One run of an access: elements that lie a stride apart. */
static void access_run(Frame *f, const Step *s, char *y, i64 offset, i64 stride, i64 n, i64 done) {
  const Place *o = &f->t->op[s->imm];
  const TileIsa *isa = f->t->k->isa;
  char *x = (char *)((uintptr_t)o->at + (uintptr_t)(offset * o->size));
  if (s->raw) {
    if (s->kind == S_LOAD && !stride && o->size >= 4)
      isa->fill[o->size == 8](y, x, NULL, NULL, n, 0);
    else if (s->kind == S_LOAD) copy_raw(y, 1, x, stride, o->size, n);
    else copy_raw(x, stride, y, 1, o->size, n);
    return;
  }
  switch (s->kind) {
  case S_LOAD: isa->load[o->dtype](y, x, stride, n); break;
  case S_STORE: isa->store[o->dtype](x, stride, y, n); break;
  case S_GLOAD: {
    const i64 *at = (const i64 *)f->p[s->a] + done;
    isa->gload[o->dtype](y, x, stride, at, f->t->r->launch->gstride[s->imm], n);
    break;
  }
  default: {
    i64 *z = (i64 *)y;
    for (i64 i = 0; i < n; i++) z[i] = o->first + offset + i * stride;
    break;
  }
  }
}

/* Loads or stores elements [i0, i0 + n) of the operand's space: an odometer over its dims. */
static void access(Frame *f, const Step *s, i64 i0, i64 n) {
  const Place *o = &f->t->op[s->imm];
  const Space *sp = &f->t->space[o->space];
  char *y = f->p[s->kind == S_STORE && !s->raw ? s->a : s->y];
  int size = s->raw ? o->size : f->t->code->slot[s->y].size, last = sp->nd - 1;
  if (!n) return;
  if (o->mode != WALK) {
    i64 stride = o->mode == FLAT;
    access_run(f, s, y, i0 * stride, stride, n, 0);
    return;
  }
  i64 at[MAX_DIMS], offset = 0, q = i0;
  for (int d = last; d >= 0; d--) {
    at[d] = d ? q % sp->dims[d] : q;
    q = d ? q / sp->dims[d] : 0;
    offset += at[d] * o->stride[d];
  }
  for (i64 done = 0;;) {
    i64 run = TY_MIN(n - done, sp->dims[last] - at[last]);
    access_run(f, s, y + done * size, offset, o->stride[last], run, done);
    done += run;
    if (done == n) return;
    at[last] += run, offset += run * o->stride[last];
    for (int d = last; d > 0 && at[d] == sp->dims[d]; d--) {
      offset += o->stride[d - 1] - at[d] * o->stride[d];
      at[d] = 0, at[d - 1]++;
    }
  }
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Row values to elements: over their rows, or, in columns, again for every row. */
static void spread(Frame *f, const Step *s, i64 n) {
  const Task *t = f->t;
  int size = t->code->slot[s->y].size;
  char *y = f->p[s->y];
  const char *a = f->p[s->a];
  if (t->k->p->kind == K_ROW) t->k->isa->spread[size == 8](y, a, f->rows, t->R);
  else if (t->rows == 1) f->p[s->y] = f->p[s->a];
  else
    for (i64 k = 0; k < n; k += t->width) memcpy(y + k * size, a, (size_t)(t->width * size));
}

static char *offset(const Step *s, int operand, void *p, i64 bytes) {
  return (char *)p + (s->scalars >> operand & 1 ? 0 : bytes);
}

/* Whole strips go by as a strand, what is left call by call. */
static void strand(Frame *f, const Step *s, i64 n) {
  const Task *t = f->t;
  const StrandIsa *isa = t->k->isa->strands;
  const Strand *st = &t->code->strand[s->state];
  void **p = f->p;
  i64 bytes = n * st->size, whole = bytes - bytes % isa->strip, left = (bytes - whole) / st->size;
  if (whole) {
    Micro *o = (Micro *)(f->base + t->at_micro);
    for (i32 i = st->first; i < st->end; i++, o++) {
      const Link *l = &t->code->link[i];
      *o = (Micro){l->fn, p[l->p], p[l->q]};
    }
    isa->run((Micro *)(f->base + t->at_micro), whole);
  }
  for (const Step *end = s + st->steps; s < end && left; s++)
    s->fn((char *)p[s->y] + whole, offset(s, 0, p[s->a], whole), offset(s, 1, p[s->b], whole),
          offset(s, 2, p[s->c], whole), left, s->imm);
}

/* Where elements [i0, i0 + n) of an operand lie one after another in memory, else NULL. */
static char *run_in_place(const Task *t, const Place *o, i64 i0, i64 n) {
  const Space *sp = &t->space[o->space];
  int last = sp->nd - 1;
  if (!n || o->mode != WALK || o->stride[last] != 1) return NULL;
  i64 q = i0 / sp->dims[last], offset = i0 - q * sp->dims[last];
  if (offset + n > sp->dims[last]) return NULL;
  for (int d = last - 1; d >= 0; d--) {
    i64 up = d ? q / sp->dims[d] : 0;
    offset += (q - up * sp->dims[d]) * o->stride[d];
    q = up;
  }
  return (char *)((uintptr_t)o->at + (uintptr_t)(offset * o->size));
}

/* The states of a native stretch's reductions, for elements that count from `from`. */
static void give_states(Frame *f, const Native *v, i64 from) {
  const Task *t = f->t;
  const bool lane = t->k->p->kind == K_COL && t->rows == 1;
  for (i32 i = v->special; i < v->end; i++) {
    const Step *s = &t->code->step[i];
    if (s->kind != S_REDUCE) continue;
    char *acc = ty_tile_state(f, s);
    i64 back = from - (lane ? f->row % COL_LANES * t->width : 0);
    if (f->blocks) acc += (size_t)(1 + t->levels) * t->node;
    f->p[s->b] = (char *)((uintptr_t)acc - (uintptr_t)(back * ty_tile_size(s->type)));
  }
}

/* Columns that share a tile go by in turns of a few rows, all lanes. */
static void native_columns(Frame *f, const Native *v, i64 n) {
  const i64 turn = f->t->width * COL_LANES, turns = n / turn, rest = turns * turn;
  give_states(f, v, 0);
  if (turns) v->fn(f->p, 0, turn, turns, turn);
  if (rest == n) return;
  give_states(f, v, rest);
  v->fn(f->p, rest, n, 1, turn);
}

/* Rows of a strip: those of one lane after the other, so that a turn is a row. */
static void native_strip(Frame *f, const Native *v, i64 n) {
  const Task *t = f->t;
  const i64 w = f->rows, rows = n / w, row = f->row;
  for (i64 r = 0; r < TY_MIN(rows, COL_LANES); r++) {
    f->row = row + r;
    give_states(f, v, r * t->I);
    v->fn(f->p, r * t->I, r * t->I + w, (rows - r + COL_LANES - 1) / COL_LANES, COL_LANES * t->I);
  }
  f->row = row;
}

static void native_reduce(Frame *f, const Native *v, i64 n) {
  const Task *t = f->t;
  if (t->k->p->kind == K_COL) {
    (t->rows > 1 ? native_columns : native_strip)(f, v, n);
    return;
  }
  give_states(f, v, 0);
  if (f->whole && n) v->fn(f->p, 0, t->R, f->rows, 0);
  else if (f->blocks) v->fn(f->p, 0, BLOCK, -f->blocks, 0);
  else if (n) v->fn(f->p, 0, n, 0, 0);
  for (i32 i = v->special; i < v->end && !n; i++)
    if (t->code->step[i].kind == S_REDUCE) ty_tile_reduce(f, &t->code->step[i], 0);
}

/* Outputs that are contiguous are written in place, others by way of a tile. */
static void native(Frame *f, const Native *v, i64 i0, i64 n) {
  const Task *t = f->t;
  const Step *first = t->code->step + v->special, *end = t->code->step + v->end;
  const bool row = t->k->p->kind == K_ROW && t->code == t->k->code;
  const i64 rows = row && f->whole ? f->rows : 1, length = rows > 1 ? t->R : n;
  uintptr_t odd = 0;
  for (const Step *s = first; s < end; s++)
    if (s->kind == S_STORE && t->op[s->imm].mode == FLAT) {
      i64 size = t->op[s->imm].size;
      f->p[s->y] = t->op[s->imm].at + i0 * size;
      if (t->op[s->imm].native)
        odd |= ((uintptr_t)f->p[s->y] | (uintptr_t)(rows > 1 ? length * size : 0)) & 63;
    } else if (s->kind == S_STORE) odd = 1; /* read again in a moment */
  if (v->reduces) native_reduce(f, v, n);
  else v->fn(f->p, 0, length, !row ? t->past && !odd : t->past && !odd ? -rows : rows, 0);
  for (const Step *s = first; s < end; s++)
    if (s->kind == S_STORE && t->op[s->imm].mode != FLAT) access(f, s, i0, n);
}

static void load(Frame *f, const Step *s, i64 i0, i64 n) {
  const Task *t = f->t;
  const Place *o = &t->op[s->imm];
  if (in_place(t, s)) {
    f->p[s->y] = o->at + i0 * o->size;
    return;
  }
  if (s->raw) {
    char *at = run_in_place(t, o, i0, n);
    if (at) {
      f->p[s->y] = at;
      return;
    }
    f->p[s->y] = f->base + t->at_tile + (size_t)t->code->slot[s->y].reg * t->tile_bytes;
  }
  access(f, s, i0, n);
}

/* Steps [from, to) over n values from number i0 of their space. */
static void steps(Frame *f, i32 from, i32 to, i64 i0, i64 n) {
  const Task *t = f->t;
  void **p = f->p;
  for (const Step *s = t->code->step + from, *end = t->code->step + to; s < end; s++) {
    if (s->native) {
      const Native *v = &t->code->native[s->native - 1];
      native(f, v, i0, n);
      s = t->code->step + v->end - 1;
      continue;
    }
    switch (s->kind) {
    case S_CALL: s->fn(p[s->y], p[s->a], p[s->b], p[s->c], n, s->imm); break;
    case S_STRAND:
      strand(f, s, n);
      s += t->code->strand[s->state].steps - 1;
      break;
    case S_LOAD: load(f, s, i0, n); break;
    case S_SKIP: break;
    case S_STORE:
      if (s->state < 0 || !(t->direct >> s->state & 1)) access(f, s, i0, n);
      break;
    case S_GLOAD:
    case S_IOTA: access(f, s, i0, n); break;
    case S_FILL: s->fn(p[s->y], p[s->a], NULL, NULL, n, 0); break;
    case S_SPREAD: spread(f, s, n); break;
    case S_REDUCE: ty_tile_reduce(f, s, n); break;
    case S_ARG: ty_tile_position(f, s, n); break;
    default: ty_tile_scan(f, s, n); break;
    }
  }
}

/* The element steps of a phase over a tile. */
static void tile(Frame *f, i32 phase, i64 i0, i64 n) {
  const Task *t = f->t;
  const Code *code = t->code;
  if (phase == code->nphase - 1)
    for (u32 m = t->direct; m; m &= m - 1) {
      const Direct *d = &code->direct[__builtin_ctz(m)];
      f->p[d->slot] = t->op[d->operand].at + i0 * t->op[d->operand].size;
    }
  steps(f, code->phase[phase].elem, code->phase[phase].end, i0, n);
}

static void row_steps(Frame *f, i32 phase, i64 row, i64 n) {
  const Phase *p = &f->t->code->phase[phase];
  if (p->row < p->elem) steps(f, p->row, p->elem, row, n);
}

/* ---- units of work -------------------------------------------------------------------------- */

static void unit_map(Frame *f, i64 unit) {
  const Task *t = f->t;
  i64 i0 = unit * t->tile;
  tile(f, 0, i0, TY_MIN(t->tile, t->N - i0));
}

static void place_wide(Frame *f, i64 offset) {
  const Task *t = f->t;
  for (i32 i = 0; i < t->code->nslot && t->code->nwide; i++) {
    const Slot *s = &t->code->slot[i];
    if (s->place == AT_WIDE)
      f->p[i] = f->base + t->at_wide + (size_t)s->reg * t->wide_bytes + (size_t)(offset * s->size);
  }
}

/* Rows that fit a tile together. */
static void unit_rows(Frame *f, i64 unit) {
  const Task *t = f->t;
  i64 row = unit * t->rows;
  f->rows = TY_MIN(t->rows, t->O - row), f->whole = true;
  for (i32 p = 0; p <= t->code->nphase; p++) {
    row_steps(f, p, row, f->rows);
    if (p < t->code->nphase) tile(f, p, row * t->R, f->rows * t->R);
  }
}

/* Row r of a batch as if it were the only one. */
static void place_row(Frame *f, i64 r) {
  const Task *t = f->t;
  for (i32 i = 0; i < t->code->nslot; i++) {
    const Slot *s = &t->code->slot[i];
    size_t reg = (size_t)TY_MAX(s->reg, 0);
    if (s->place == AT_ROW)
      f->p[i] = f->base + t->at_row + reg * t->row_bytes + (size_t)(r * s->size);
    if (s->place == AT_WIDE)
      f->p[i] = f->base + t->at_wide + reg * t->wide_bytes + (size_t)(r * t->R * s->size);
  }
}

/* Whole rows, phase by phase, their values side by side. */
static void unit_batch(Frame *f, i64 unit) {
  const Task *t = f->t;
  i64 row = unit * t->rows, n = TY_MIN(t->rows, t->O - row);
  f->whole = true;
  for (i32 p = 0; p <= t->code->nphase; p++) {
    f->rows = n;
    row_steps(f, p, row, n);
    if (p == t->code->nphase) break;
    if (t->joint) tile(f, p, row * t->R, n * t->R);
    else {
      f->rows = 1;
      for (i64 r = 0; r < n; r++) place_row(f, r), tile(f, p, (row + r) * t->R, t->R);
      place_row(f, 0);
    }
  }
}

/* Of the elements that are left so many blocks go together that they are a subtree: 2 to this. */
static int together(const Frame *f, i64 left) {
  int k = 0;
  if (!f->t->joint) return 0;
  while (k < TOGETHER && !(f->nblocks >> k & 1) && (i64)BLOCK << (k + 1) <= left) k++;
  return k;
}

/* 2^k blocks at once: their states come to the one of the subtree. */
static void many_blocks(Frame *f, i32 phase, i64 i0, int k) {
  const Task *t = f->t;
  const Phase *ph = &t->code->phase[phase];
  f->blocks = 1 << k;
  tile(f, phase, i0, (i64)BLOCK << k);
  f->blocks = 0;
  for (const Step *s = t->code->step + ph->elem; s < t->code->step + ph->end; s++)
    if (s->kind == S_REDUCE) ty_tile_subtree(f, s, (i64)1 << k);
}

/* Elements [begin, end) of a long row, tile by tile; the reductions' states are then complete for
** this stretch, which starts with a block. */
static void long_part(Frame *f, i32 phase, i64 row, i64 begin, i64 end) {
  const Task *t = f->t;
  const Phase *ph = &t->code->phase[phase];
  const Step *first = t->code->step + ph->elem, *stop = t->code->step + ph->end;
  f->nblocks = 0;
  for (const Step *s = first; s < stop; s++)
    if (s->kind == S_REDUCE || s->kind == S_ARG) ty_tile_reduce_begin(f, s);
    else if (s->kind == S_SCAN) ty_tile_scan_begin(f, s);
  for (i64 i = begin, n; i < end; i += n) {
    const int k = i % BLOCK ? 0 : together(f, end - i);
    n = k ? (i64)BLOCK << k : TY_MIN(t->tile, end - i), f->row = i;
    place_wide(f, i);
    if (k) many_blocks(f, phase, row * t->R + i, k);
    else tile(f, phase, row * t->R + i, n);
    bool last = i + n == end;
    if (!last && (i + n) % BLOCK) continue;
    for (const Step *s = first; s < stop; s++)
      if (s->kind == S_REDUCE) ty_tile_block_end(f, s, k, last);
      else if (s->kind == S_SCAN) ty_tile_scan_block_end(f, s);
    f->nblocks += (u64)1 << k;
  }
}

/* One row that is longer than a tile. */
static void unit_long(Frame *f, i64 unit) {
  const Task *t = f->t;
  const Code *code = t->code;
  f->rows = 1, f->whole = false;
  for (i32 p = 0; p <= code->nphase; p++) {
    row_steps(f, p, unit, 1);
    if (p == code->nphase) break;
    long_part(f, p, unit, 0, t->R);
    for (i32 i = code->phase[p].elem; i < code->phase[p].end; i++) {
      const Step *s = &code->step[i];
      if (s->kind == S_REDUCE || s->kind == S_ARG) ty_tile_reduce_finish(f, s, ty_tile_state(f, s));
    }
  }
}

/* Rows [begin, end) of the strip that starts at column c. */
static void column_part(Frame *f, i64 o, i64 c, i64 begin, i64 end) {
  const Task *t = f->t;
  const Phase *ph = &t->code->phase[0];
  const Step *first = t->code->step + ph->elem, *stop = t->code->step + ph->end;
  f->nblocks = 0;
  for (const Step *s = first; s < stop; s++)
    if (s->kind == S_REDUCE || s->kind == S_ARG) ty_tile_reduce_begin(f, s);
  for (i64 r = begin, n; r < end; r += n) {
    i64 block = TY_MIN(end, r - r % COL_BLOCK + COL_BLOCK);
    n = TY_MIN(t->joint ? COL_BLOCK : t->rows, block - r), f->row = r;
    tile(f, 0, (o * t->R + r) * t->I + c, n * f->rows);
    if (r + n != block) continue;
    for (const Step *s = first; s < stop; s++)
      if (s->kind == S_REDUCE) ty_tile_block_end(f, s, 0, block == end);
    f->nblocks++;
  }
}

static void unit_columns(Frame *f, i64 unit) {
  const Task *t = f->t;
  const Code *code = t->code;
  i64 o = unit / t->strips, c = unit % t->strips * t->width;
  f->rows = TY_MIN(t->width, t->I - c), f->whole = false;
  row_steps(f, 0, o * t->I + c, f->rows);
  column_part(f, o, c, 0, t->R);
  for (i32 i = code->phase[0].elem; i < code->phase[0].end; i++) {
    const Step *s = &code->step[i];
    if (s->kind == S_REDUCE || s->kind == S_ARG) ty_tile_reduce_finish(f, s, ty_tile_state(f, s));
  }
  row_steps(f, 1, o * t->I + c, f->rows);
}

/* ---- rows cut into groups of blocks --------------------------------------------------------- */

static char *partial(const Task *t, i64 unit, i64 group, const Step *s) {
  i64 k = (unit * t->code->nreduce + s->state) * t->groups + group;
  return t->partial + (size_t)k * t->node;
}

static void unit_group(Frame *f, i64 k) {
  const Task *t = f->t;
  const Code *code = t->code;
  i64 unit = k / t->groups, group = k % t->groups, o = unit / t->strips;
  i64 c = unit % t->strips * t->width;
  i64 begin = group * t->group * t->block, end = TY_MIN(begin + t->group * t->block, t->R);
  f->rows = TY_MIN(t->width, t->I - c), f->whole = false;
  row_steps(f, 0, o * t->I + c, f->rows);
  if (t->k->p->kind == K_ROW) long_part(f, 0, o, begin, end);
  else column_part(f, o, c, begin, end);
  for (i32 i = code->phase[0].elem; i < code->phase[0].end; i++) {
    const Step *s = &code->step[i];
    if (s->kind == S_REDUCE || s->kind == S_ARG)
      memcpy(partial(t, unit, group, s), ty_tile_state(f, s), t->node);
  }
}

static void tree(const Frame *f, const Step *s, char *x, i64 n) {
  if (n < 2) return;
  i64 half = 1;
  while (half * 2 < n) half *= 2;
  char *right = x + (size_t)half * f->t->node;
  tree(f, s, x, half), tree(f, s, right, n - half);
  ty_tile_combine(f, s, x, x, right);
}

/* The groups of one row or strip come together. */
static void unit_gather(Frame *f, i64 unit) {
  const Task *t = f->t;
  const Code *code = t->code;
  i64 o = unit / t->strips, c = unit % t->strips * t->width;
  f->rows = TY_MIN(t->width, t->I - c), f->whole = false;
  row_steps(f, 0, o * t->I + c, f->rows);
  for (i32 i = code->phase[0].elem; i < code->phase[0].end; i++) {
    const Step *s = &code->step[i];
    if (s->kind != S_REDUCE && s->kind != S_ARG) continue;
    char *x = partial(t, unit, 0, s);
    tree(f, s, x, t->groups);
    ty_tile_reduce_finish(f, s, x);
  }
  row_steps(f, 1, o * t->I + c, f->rows);
}

/* ---- running -------------------------------------------------------------------------------- */

static void frame_begin(Frame *f, Task *t, char *base) {
  const Code *code = t->code;
  *f = (Frame){.t = t, .base = base, .p = (void **)base, .acc = base + t->at_acc};
  for (i32 i = 0; i < code->nslot; i++) {
    const Slot *s = &code->slot[i];
    size_t reg = (size_t)TY_MAX(s->reg, 0);
    switch (s->place) {
    case AT_CONST: f->p[i] = (void *)(uintptr_t)&s->imm; break;
    case AT_SCALAR: f->p[i] = (void *)(uintptr_t)&t->r->scalar[s->imm]; break;
    case AT_UNIFORM: f->p[i] = base + t->at_uniform + reg * 8; break;
    case AT_TILE: f->p[i] = base + t->at_tile + reg * t->tile_bytes; break;
    case AT_WIDE: f->p[i] = base + t->at_wide + reg * t->wide_bytes; break;
    default: f->p[i] = base + t->at_row + reg * t->row_bytes; break;
    }
  }
  steps(f, 0, code->uniform, 0, 1);
}

/* Stores past the caches are ordered by nothing else. */
static void settle(void) {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

static void chunk(void *arg, i64 begin, i64 end) {
  Task *t = arg;
  u64 free = atomic_load(&t->free);
  /* There is one for every thread, unless their number was raised a moment ago. */
  while (!free || !atomic_compare_exchange_weak(&t->free, &free, free & (free - 1)))
    if (!free) free = atomic_load(&t->free);
  Frame f;
  frame_begin(&f, t, t->frames + (size_t)__builtin_ctzll(free) * t->frame_bytes);
  for (i64 i = begin; i < end; i++) t->unit(&f, i);
  if (t->past) settle();
  atomic_fetch_or(&t->free, free & -free);
}

static void over(Task *t, Unit *unit, i64 n, double each) {
  if (t->nframes == 1) {
    Frame f;
    frame_begin(&f, t, t->frames);
    for (i64 i = 0; i < n; i++) unit(&f, i);
    if (t->past) settle();
    return;
  }
  t->unit = unit;
  atomic_init(&t->free, t->nframes > 63 ? ~(u64)0 : ((u64)1 << t->nframes) - 1);
  ty_pool_run(n, (i64)(CHUNK / each) + 1, chunk, t);
}

static void go(Task *t) {
  if (t->k->p->kind == K_MAP && t->nframes == 1) {
    over(t, unit_map, t->units, 0);
    return;
  }
  double all = (double)t->N * t->k->cost;
  Unit *unit = unit_columns;
  if (t->k->p->kind == K_MAP) unit = unit_map;
  else if (t->batch) unit = unit_batch;
  else if (t->k->p->kind == K_ROW) unit = t->R > t->tile && t->R > 0 ? unit_long : unit_rows;
  if (!t->group) {
    over(t, unit, t->units, all / (double)t->units);
    return;
  }
  i64 n = t->units * t->groups;
  over(t, unit_group, n, all / (double)n);
  over(t, unit_gather, t->units, 1000);
}

bool ty_tile_reserve(const Kernel *k, const Launch *l) {
  Task t;
  if (!shape(&t, k, l, ty_pool_threads(0))) return true;
  return t.total <= STACK || scratch_take(t.total);
}

/* The short way; false where the run is not for it. */
static bool run_single(const Kernel *k, const Run *r) {
  const Single *one = &k->single;
  const Launch *L = r->launch;
  void *at[MAX_OPERANDS];
  const void *x[3];
  if (L->no + L->nr + L->ni != 1 || L->dims[0] > k->tile) return false;
  for (int i = 0; i < k->p->noperands; i++) {
    if (L->strides[i][0] != 1) return false;
    at[i] = (char *)r->buf[i] + L->start[i] * ty_dtypes[k->p->operand[i].dtype].bytes;
  }
  for (int i = 0; i < 3; i++)
    x[i] = one->x[i] >= 0        ? at[one->x[i]]
           : one->scalar[i] >= 0 ? &r->scalar[one->scalar[i]]
                                 : one->where[i];
  u32 fp = ty_fp_enter();
  one->fn(at[one->y], x[0], x[1], x[2], L->dims[0], one->imm);
  ty_fp_leave(fp);
  return true;
}

bool ty_tile_run(const Kernel *k, const Run *r) {
  const Kernel *one = k->plain ? k->plain : k;
  if (one->single.fn && run_single(one, r)) return true;
  Task t;
  _Alignas(64) char stack[STACK];
  if (!shape(&t, k, r->launch, ty_pool_threads(0))) return true;
  t.frames = stack;
  if (t.total > STACK) t.frames = scratch_take(t.total);
  if (!t.frames) {
    /* Alone it takes less; the threads may have become more since memory was reserved. */
    shape(&t, k, r->launch, 1);
    t.frames = t.total <= STACK ? stack : scratch_take(t.total);
    if (!t.frames) return false;
  }
  t.frames = (char *)align64((size_t)(uintptr_t)t.frames);
  t.partial = t.frames + (size_t)t.nframes * t.frame_bytes;
  u32 fp = ty_fp_enter();
  bind(&t, r);
  go(&t);
  ty_fp_leave(fp);
  return true;
}
