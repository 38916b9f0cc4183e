/*
** tile_run.c -- the portable machine: steps over a domain.
** In:  a kernel and a launch.  Out: the outputs are written. Fails, with nothing written, when the
** registers cannot be had.
**
** A domain is seen flattened. Elements number (o * R + r) * I + i, row values o * I + i; each
** operand belongs to one of these two spaces, whose dims are collapsed as far as all operands of
** the space allow. How the domain is cut:
**   map     tiles of elements; for native code, where operands do not lie flat, rectangles
**   rows    several whole rows in a tile, or one row that fits a tile, or (long) a row tile by tile; for
**           native code batches of rows, phase by phase
**   columns for each o, strips of up to STRIP columns, going down R; where a strip is the whole
**           width, or for native code, several rows of it in one tile
** Where nothing goes by way of tiles (joint) one call of native code takes 2^TOGETHER blocks of a long row, or
** all rows of a block of columns.
** Reductions of long rows and of columns are gathered block by block; complete blocks are combined
** as a binary counter counts, which is the tree of tile.c. Where there are fewer rows than threads
** the blocks of a row are dealt out in groups, each a subtree, and their results combined at the
** end.
**
** Memory: a frame holds all registers of one thread. All frames of a run are taken together, before
** anything is written, from scratch that the calling thread keeps: its stack may be small.
*/
#include "device/cpu/tile_run.h"
#include "base/system.h"

#define STRIP 1024           /* columns worked on side by side; their states stay near */
#define STRIP_TURNED 64      /* the same where they are apart */
#define BATCH 64             /* rows whose values are worked on together */
#define TOGETHER 5           /* 2 to this: most blocks of a long row that go together */
#define SPREAD_BELOW 128     /* shorter rows share a tile */
#define SPREAD_NATIVE 64     /* the same where a row is native */
#define ALONE 30000.0        /* nanoseconds of work that wake nobody */
#define CHUNK 15000.0        /* nanoseconds of work that are worth handing over */
#define PIECE 50000.0        /* nanoseconds between two looks at whether to stop */
#define TURNED 16384         /* elements of rows that are turned together */
#define STAGES 2             /* operands that are */
#define STAGED 128           /* lines of a long row that are turned together, */
#define STAGE_MOST 131072    /* and their elements, at most */
#define GROUP_ELEMENTS 65536 /* elements of a group of blocks, at least */

/* ---- memory --------------------------------------------------------------------------------- */

/* Scratch grows to what the largest run of this thread wanted (some megabytes at most, since tiles
** are small), so that what was once reserved stays. It goes with the thread. */
static _Thread_local struct {
  char *p;
  size_t n; /* of the first frame on: it begins at a multiple of 64 */
} scratch;
static ThreadKey scratch_key;
static Once scratch_once = ONCE_INIT;
static bool scratch_keyed;

static void scratch_make_key(void) { scratch_keyed = ty_thread_key(&scratch_key, ty_mem_free); }

static size_t align64(size_t n) { return (n + 63) & ~(size_t)63; }
static char *align64p(char *p) { return p + (-(uintptr_t)p & 63); }

static char *scratch_take(size_t n) {
  if (TY_LIKELY(n <= scratch.n)) return align64p(scratch.p);
  ty_once(&scratch_once, scratch_make_key);
  n = (n + 65535) & ~(size_t)65535;
  void *p = scratch_keyed ? ty_mem_alloc(n + 64) : NULL;
  if (!p) return NULL;
  if (!ty_thread_keep(scratch_key, p)) {
    ty_mem_free(p);
    return NULL;
  }
  ty_mem_free(scratch.p);
  scratch.p = p, scratch.n = n;
  return align64p(p);
}

/* ---- geometry ------------------------------------------------------------------------------- */

static i64 product(const i64 *dims, int n) {
  i64 p = 1;
  for (int i = 0; i < n; i++) p *= dims[i];
  return p;
}

static i64 ceil_div(i64 a, i64 b) { return a / b + (a % b != 0); }

/* How many operands' elements are apart along the dims [from, to): then rows are turned together. */
static i32 count_apart(const Program *p, const Launch *L, int from, int to) {
  i32 last = to - 1, n = 0;
  while (last > from && L->dims[last] == 1) last--;
  for (int o = 0; o < p->noperands; o++)
    n += p->operand[o].level == L_ELEM && (u64)L->strides[o][last] + 1 > 2;
  return n;
}

/* A long row whose lines lie apart: so many elements that lines are whole, and many. */
static void shape_stages(Task *t, const Launch *L) {
  const int end = L->no + L->nr;
  i64 line = 1;
  for (int d = end - 1; d >= L->no && line == 1; d--) line = L->dims[d];
  t->stages = TY_MIN(count_apart(t->k->p, L, L->no, end), STAGES);
  t->stage = TY_MIN(STAGED * line, STAGE_MOST);
  if (t->stage <= t->tile || t->stage > t->N) t->stages = 0;
}

/* Whether elements of the first phase read values of their rows or columns. */
static bool has_spread(const Code *code) {
  for (i32 i = code->phase[0].elem; i < code->phase[0].end; i++)
    if (code->step[i].kind == S_SPREAD) return true;
  return false;
}

static void shape_rows(Task *t, const Launch *L, int threads) {
  const Kernel *k = t->k;
  const Code *side = &k->code[1];
  bool free = !k->native && side->nphase == 1 && !has_spread(side) && 2 * t->R <= k->tile;
  bool shared = (free || t->R < (k->native ? SPREAD_NATIVE : SPREAD_BELOW)) && t->O > 1;
  t->width = 1, t->strips = 1, t->block = BLOCK;
  t->rows = shared ? TY_MIN(t->O, k->tile / TY_MAX(t->R, 1)) : 1;
  t->code = &k->code[shared];
  t->batch = k->batch && !shared && t->R <= k->tile && t->O > 1;
  if (t->batch) t->rows = TY_MIN(BATCH, ceil_div(t->O, 8 * (threads - 1) + 1));
  t->units = ceil_div(t->O, t->rows);
  t->tile = TY_MIN(TY_MAX(t->rows * t->R, t->rows), k->tile);
  if (t->R > t->tile) shape_stages(t, L);
  t->split = t->batch;
  if (!t->batch) return;
  t->few = TY_MAX(k->tile / t->R, 1);
  if (count_apart(k->p, L, L->no, L->no + L->nr))
    t->few = TY_MAX(t->few, TY_MIN(TY_MAX(TURNED / t->R, 8), 16));
  t->few = TY_MIN(t->few, t->rows);
  t->tile = t->few * t->R;
}

static void shape_columns(Task *t, const Launch *L) {
  const Kernel *k = t->k;
  int from = L->no + L->nr;
  t->code = &k->code[1], t->block = COL_BLOCK;
  t->width =
      TY_MIN(t->I, k->batch && count_apart(k->p, L, from, from + L->ni) ? STRIP_TURNED : STRIP);
  if (t->width > k->tile) t->width = k->tile;
  t->strips = ceil_div(t->I, t->width);
  /* Rows go together where they are contiguous, or as a grid, and begin with lane 0. */
  i64 most = k->tile / t->width / COL_LANES * COL_LANES;
  t->split = k->batch && most > 0 && (t->strips > 1 || has_spread(t->code));
  if (t->strips > 1 && !t->split) most = 0;
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
  t->wide_bytes = align64((size_t)(TY_MAX(t->tile, t->R) * k->word));
  t->row_bytes = align64((size_t)(row_values * k->word));
  t->node = k->p->kind == K_COL ? align64((size_t)(COL_LANES * t->width * k->word)) : NODE;
  size_t at =
      align64((size_t)code->nslot * 2 * sizeof(void *)); /* where, and how far to the next row */
  t->at_uniform = at, at = align64(at + (size_t)code->nuniform * 8);
  t->at_tile = at, at += (size_t)code->ntile * t->tile_bytes;
  t->at_wide = at, at += (size_t)code->nwide * t->wide_bytes;
  t->at_row = at, at += (size_t)code->nrow * t->row_bytes;
  t->nodes = 1 + t->levels;
  if (code->nnative && k->p->kind == K_ROW && t->R >= 2 * t->block) t->nodes += 1 << TOGETHER;
  t->at_acc = at, at += map ? 0 : (size_t)(code->nreduce * t->nodes) * t->node;
  t->at_scan = at, at += align64((size_t)code->nscan * SCAN_STATE * 8);
  t->at_micro = at, at += align64((size_t)code->longest * sizeof(Micro));
  t->at_stage = at;
  at += (size_t)t->stages * ((size_t)(t->stage * k->word) + sizeof(i64));
  at = align64(at);
  t->frame_bytes = at;
  t->nframes = parallel ? ty_pool_threads(0) : 1;
  t->partial_bytes = t->group ? (size_t)(t->units * t->groups * code->nreduce) * t->node : 0;
}

/* How the launch is cut among `threads`; false when there is nothing to do. */
static bool shape(Task *t, const Kernel *k, const Launch *L, int threads) {
  t->k = k, t->code = &k->code[0], t->turns = 1, t->stages = 0, t->stage = 0;
  t->batch = t->split = false;
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
    if (k->p->kind == K_ROW) shape_rows(t, L, threads);
    else shape_columns(t, L);
  }
  bool parallel = threads > 1 && (double)t->N * k->cost > ALONE;
  if (k->p->kind != K_MAP) shape_groups(t, parallel ? threads : 1);
  shape_frame(t, parallel && t->units * t->groups > 1);
  return true;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* The bytes between a slot's rows, for native code. */
static void set_between(Frame *f, i32 slot, i64 bytes) {
  f->p[f->t->code->nslot + slot] = (void *)(uintptr_t)bytes;
}

/* Row values to elements: over their rows, or, in columns, again for every row. */
static void spread(Frame *f, const Step *s, i64 n) {
  const Task *t = f->t;
  int size = t->code->slot[s->y].size;
  char *y = f->p[s->y];
  const char *a = f->p[s->a];
  if (t->k->p->kind == K_ROW) t->k->isa->spread[size == 8](y, a, f->rows, t->R);
  else if (t->grid && t->joint) f->p[s->y] = f->p[s->a], set_between(f, s->y, 0);
  else if (t->rows == 1) f->p[s->y] = f->p[s->a];
  else
    for (i64 k = 0; k < n; k += f->rows) memcpy(y + k * size, a, (size_t)(f->rows * size));
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

/* All slots go on by n rows, or back. */
static void step_rows(Frame *f, i64 n) {
  i32 nslot = f->t->code->nslot;
  for (i32 i = 0; i < nslot; i++)
    f->p[i] = (void *)((uintptr_t)f->p[i] + (uintptr_t)n * (uintptr_t)f->p[nslot + i]);
}

/* The same for all slots of columns or of a long row: native code goes over them in turns of so many elements,
** and over the states of columns anew each time. */
static void set_turns(Frame *f, i64 elements) {
  const Task *t = f->t;
  const Code *code = t->code;
  for (i32 i = code->uniform; i < code->nstep; i++) {
    const Step *s = &code->step[i];
    bool raw = s->kind == S_STORE || (s->kind == S_LOAD && s->raw);
    if (!s->row)
      set_between(f, s->y, elements * (raw ? t->op[s->imm].size : code->slot[s->y].size));
  }
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

/* A grid of columns: the rows of one lane after the other. */
static void reduce_grid(Frame *f, const Native *v, i64 lines) {
  const Task *t = f->t;
  void **between = f->p + t->code->nslot;
  for (i64 lane = 0; lane < TY_MIN(lines, COL_LANES); lane++) {
    give_states(f, v, -lane * t->width);
    for (i32 i = 0; i < t->code->nslot; i++)
      between[i] = (void *)((intptr_t)between[i] * COL_LANES);
    v->fn(f->p, 0, f->cols, ceil_div(lines - lane, COL_LANES), 0);
    for (i32 i = 0; i < t->code->nslot; i++)
      between[i] = (void *)((intptr_t)between[i] / COL_LANES);
    step_rows(f, 1);
  }
  step_rows(f, -TY_MIN(lines, COL_LANES));
}

/* Columns whose rows lie one behind another: in turns of all lanes. */
static void reduce_turns(Frame *f, const Native *v, i64 n) {
  const i64 turn = f->t->width * COL_LANES, turns = n / turn, rest = turns * turn;
  give_states(f, v, 0);
  if (turns) v->fn(f->p, 0, turn, turns, 0);
  if (rest == n) return;
  give_states(f, v, rest);
  v->fn(f->p, rest, n, 1, 0);
}

/* Reductions of a native stretch: their states are given, memory for them where the tile is whole
** rows. */
static void native_reduce(Frame *f, const Native *v, i64 n) {
  const Task *t = f->t;
  bool col = t->k->p->kind == K_COL;
  if (col && t->grid) reduce_grid(f, v, f->lines);
  else if (col && t->rows > 1) reduce_turns(f, v, n);
  else {
    give_states(f, v, 0);
    if (f->whole && n) v->fn(f->p, 0, t->R, f->rows, 1);
    else if (f->blocks) v->fn(f->p, 0, BLOCK, f->blocks, -1);
    else if (n) v->fn(f->p, 0, n, 1, 0);
  }
  for (i32 i = v->special; i < v->end && f->whole && !n; i++)
    if (t->code->step[i].kind == S_REDUCE) ty_tile_reduce(f, &t->code->step[i], 0);
}

/* Where a stretch's store writes: in the output or, where its columns are apart, to a tile. */
static bool place_store(Frame *f, const Step *s, i64 i0) {
  const Task *t = f->t;
  const Place *o = &t->op[s->imm];
  if (t->grid) {
    bool in = o->stride[t->space[0].nd - 1] == 1;
    if (in) f->p[s->y] = ty_tile_corner(f, o);
    set_between(f, s->y, in ? ty_tile_between(t, o) : f->cols * o->size);
    return in;
  }
  if (o->mode == FLAT) f->p[s->y] = o->at + i0 * o->size;
  return o->mode == FLAT;
}

/* Outputs that are contiguous are written in place, others by way of a tile. */
static void native(Frame *f, const Native *v, i64 i0, i64 n) {
  const Task *t = f->t;
  const Step *first = t->code->step + v->special, *end = t->code->step + v->end;
  const i64 rows = f->lines, cols = t->grid ? f->cols : rows == 1 ? n : t->tile;
  uintptr_t odd = 0;
  for (const Step *s = first; s < end; s++) {
    if (s->kind != S_STORE) continue;
    if (!place_store(f, s, i0)) odd = 1; /* read again in a moment */
    else if (t->op[s->imm].native) {
      odd |= (uintptr_t)f->p[s->y] & 63;
      if (t->grid && rows > 1) odd |= (uintptr_t)ty_tile_between(t, &t->op[s->imm]) & 63;
    }
  }
  if (v->reduces) native_reduce(f, v, n);
  else v->fn(f->p, 0, cols, rows, t->past && !odd);
  for (const Step *s = first; s < end; s++) {
    if (s->kind != S_STORE) continue;
    const Place *o = &t->op[s->imm];
    if (t->grid ? o->stride[t->space[0].nd - 1] != 1 : o->mode != FLAT) ty_tile_access(f, s, i0, n);
  }
}

/* One row for all: brought where it is not there yet. */
static void load_kept(Frame *f, const Step *s) {
  const Task *t = f->t;
  if (f->kept >> s->imm & 1) return;
  const i64 lines = f->lines;
  f->kept |= (u32)1 << s->imm, f->lines = 1;
  ty_tile_access(f, s, 0, t->grid ? f->cols : t->tile);
  f->lines = lines;
  set_between(f, s->y, 0);
}

static void load(Frame *f, const Step *s, i64 i0, i64 n) {
  const Task *t = f->t;
  const Place *o = &t->op[s->imm];
  bool grid = t->grid && !s->row;
  if (s->index && ty_tile_by_index(t, o)) return;
  if (ty_tile_in_place(t, s)) {
    f->p[s->y] = grid ? ty_tile_corner(f, o) : o->at + i0 * o->size;
    if (grid) set_between(f, s->y, ty_tile_between(t, o));
    return;
  }
  if (t->keep >> s->imm & 1) {
    load_kept(f, s);
    return;
  }
  if (t->stages && ty_tile_stage(f, s, i0, n)) return;
  if (s->raw) {
    char *at = grid ? NULL : ty_tile_stretch(t, o, i0, n);
    if (at) {
      f->p[s->y] = at;
      return;
    }
    f->p[s->y] = f->base + t->at_tile + (size_t)t->code->slot[s->y].reg * t->tile_bytes;
    if (grid) set_between(f, s->y, f->cols * o->size);
  }
  ty_tile_access(f, s, i0, n);
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
      if (s->state < 0 || !(t->direct >> s->state & 1)) ty_tile_access(f, s, i0, n);
      break;
    case S_IOTA:
      if (t->keep >> s->imm & 1) load_kept(f, s);
      else ty_tile_access(f, s, i0, n);
      break;
    case S_GLOAD: ty_tile_access(f, s, i0, n); break;
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
  if (t->move) {
    ty_tile_move(f, i0, n);
    return;
  }
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
  const i64 begin = unit * t->tile * t->turns, n = TY_MIN(t->tile * t->turns, t->N - begin);
  const i64 whole = n - n % t->tile;
  f->lines = TY_MAX(n / t->tile, 1);
  if (whole) tile(f, 0, begin, whole);
  f->lines = 1;
  if (whole < n) tile(f, 0, begin + whole, n - whole);
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

/* The rectangle at hand has `lines` times `cols` elements: those of tile registers follow one another. */
static void set_rectangle(Frame *f, i64 lines, i64 cols) {
  const Code *code = f->t->code;
  f->lines = lines;
  if (f->cols == cols) return;
  f->cols = cols, f->kept = 0;
  for (i32 i = 0; i < code->nslot; i++)
    if (code->slot[i].place == AT_TILE || code->slot[i].place == AT_WIDE)
      set_between(f, i, cols * code->slot[i].size);
}

/* A rectangle of a map. */
static void unit_grid(Frame *f, i64 unit) {
  const Task *t = f->t;
  const Space *s = &t->space[0];
  i64 rows = 0, cols = 0;
  for (i32 d = s->nd - 1; d >= 0; d--) {
    bool last = d == s->nd - 1, along = d == t->along;
    i64 step = last ? t->block_cols : along ? t->block_rows : 1;
    i64 n = ceil_div(s->dims[d], step), up = d ? unit / n : 0, at = (unit - up * n) * step;
    if (last) cols = TY_MIN(step, s->dims[d] - at);
    if (along) rows = TY_MIN(step, s->dims[d] - at);
    if (last && f->kept && f->index[d] != at) f->kept &= t->ones;
    f->index[d] = at, unit = up;
  }
  set_rectangle(f, rows, cols);
  tile(f, 0, 0, rows * cols);
}

/* Whole rows side by side, phase by phase, their values too. */
static void unit_batch(Frame *f, i64 unit) {
  const Task *t = f->t;
  const Space *s = &t->space[0];
  i64 row = unit * t->rows, end = TY_MIN(row + t->rows, t->O), n;
  for (f->whole = true; row < end; row += n) {
    i64 q = row;
    f->index[s->nd - 1] = 0;
    for (i32 d = t->along; d >= 0; d--) {
      f->index[d] = d ? q % s->dims[d] : q;
      q /= s->dims[d];
    }
    n = TY_MIN(TY_MIN(end - row, t->few), s->dims[t->along] - f->index[t->along]);
    f->rows = n;
    set_rectangle(f, n, t->R);
    for (i32 p = 0; p <= t->code->nphase; p++) {
      row_steps(f, p, row, n);
      if (p < t->code->nphase) tile(f, p, row * t->R, n * t->R);
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

/* Whether what follows the block in hand can change no reduction of the phase: among its truth values each
** has met the one that decides. Lanes without elements hold neither. */
static bool settled(const Frame *f, const Step *first, const Step *stop) {
  for (const Step *s = first; s < stop; s++) {
    if (s->kind != S_REDUCE) continue;
    const i32 *lane = (const i32 *)ty_tile_state(f, s), deciding = s->op == R_MAX;
    bool met = false;
    for (int i = 0; i < NODE / 4; i++) met |= lane[i] == deciding;
    if (!met) return false;
  }
  return true;
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
** this stretch, which starts with a block. Where the phase settles early the first block goes alone. */
static void long_part(Frame *f, i32 phase, i64 row, i64 begin, i64 end) {
  const Task *t = f->t;
  const Phase *ph = &t->code->phase[phase];
  const Step *first = t->code->step + ph->elem, *stop = t->code->step + ph->end;
  f->nblocks = 0;
  for (const Step *s = first; s < stop; s++)
    if (s->kind == S_REDUCE || s->kind == S_ARG) ty_tile_reduce_begin(f, s);
    else if (s->kind == S_SCAN) ty_tile_scan_begin(f, s);
  for (i64 i = begin, n; i < end; i += n) {
    const int k = i % BLOCK || (ph->settles && i == begin) ? 0 : together(f, end - i);
    n = k ? (i64)BLOCK << k : TY_MIN(t->tile, end - i), f->row = i;
    place_wide(f, i);
    if (k) many_blocks(f, phase, row * t->R + i, k);
    else tile(f, phase, row * t->R + i, n);
    if (i + n != end && (i + n) % BLOCK) continue;
    const bool last = i + n == end || (ph->settles && settled(f, first, stop));
    for (const Step *s = first; s < stop; s++)
      if (s->kind == S_REDUCE) ty_tile_block_end(f, s, k, last);
      else if (s->kind == S_SCAN) ty_tile_scan_block_end(f, s);
    if (last) return;
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

static void column_rectangle(Frame *f, i64 o, i64 c, i64 r, i64 n) {
  const Space *s = &f->t->space[0];
  f->index[s->nd - 1] = c, f->index[s->nd - 2] = r;
  for (i32 d = s->nd - 3; d >= 0; d--) {
    f->index[d] = d ? o % s->dims[d] : o;
    o /= s->dims[d];
  }
  set_rectangle(f, n, f->rows);
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
    if (t->grid) column_rectangle(f, o, c, r, n);
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
  f->t = t, f->base = base, f->p = (void **)base,
  f->acc = base + t->at_acc; /* the rest as it is needed */
  f->whole = false, f->rows = f->row = 0, f->lines = 1, f->cols = -1, f->nblocks = 0, f->blocks = 0,
  f->kept = 0;
  /* Where the first one of each place lies, and how far the next. */
  const uintptr_t start = (uintptr_t)base, row = start + t->at_row;
  const uintptr_t first[] = {(uintptr_t)code->slot + offsetof(Slot, imm),
                             (uintptr_t)t->r->scalar,
                             start + t->at_uniform,
                             start + t->at_tile,
                             start + t->at_wide,
                             row,
                             row};
  const size_t apart[] = {sizeof(Slot), 8, 8, t->tile_bytes, t->wide_bytes, t->row_bytes, 0};
  for (i32 i = 0; i < code->nslot; i++) {
    const Slot *s = &code->slot[i];
    f->p[i] = (void *)(first[s->place] + (size_t)s->number * apart[s->place]);
  }
  memset(f->p + code->nslot, 0, (size_t)code->nslot * sizeof(void *));
  for (i32 i = 0; i < t->stages; i++) {
    f->staged =
        (i64 *)(void *)(f->base + t->at_stage + (size_t)(t->stages * t->stage * t->k->word));
    f->staged[i] = -t->stage;
  }
  const int kind = t->k->p->kind;
  if (t->joint || (kind == K_COL && t->rows > 1 && !t->grid))
    set_turns(f, kind == K_MAP ? t->tile : kind == K_ROW ? BLOCK : COL_LANES * t->width);
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
  frame_begin(&f, t, t->frames + __builtin_ctzll(free) * t->apart);
  for (i64 i = begin; i < end; i++) t->unit(&f, i);
  if (t->past) settle();
  atomic_fetch_or(&t->free, free & -free);
}

static void over(Task *t, Unit *unit, i64 n, double each) {
  if (t->nframes == 1) {
    Frame f;
    frame_begin(&f, t, t->frames);
    const i64 piece = n == 1 ? 1 : (i64)TY_MIN(PIECE / TY_MAX(each, 1), (double)n) + 1;
    for (i64 i = 0; i < n;) {
      for (const i64 end = TY_MIN(i + piece, n); i < end; i++) unit(&f, i);
      if (i < n && ty_watch_stops()) break;
    }
    if (t->past) settle();
    return;
  }
  t->unit = unit;
  atomic_init(&t->free, t->nframes > 63 ? ~(u64)0 : ((u64)1 << t->nframes) - 1);
  ty_pool_run(n, (i64)(CHUNK / each) + 1, chunk, t);
}

static void go(Task *t) {
  double all = (double)t->N * t->k->cost;
  Unit *unit = unit_columns;
  if (t->k->p->kind == K_MAP) unit = t->grid ? unit_grid : unit_map;
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

/* Frames, and behind them what groups of blocks come to. */
static bool take_memory(Task *t) {
  const size_t frames = (size_t)t->nframes * t->frame_bytes;
  t->own = false, t->apart = (i64)t->frame_bytes;
  t->frames = scratch_take(frames + t->partial_bytes);
  t->partial = t->frames + frames;
  return t->frames != NULL;
}

/* The same where memory is checked: each frame for itself. What was reserved is the last resort. */
static bool take_apart(Task *t) {
  t->frames = ty_buf_pieces(t->nframes, (i64)t->frame_bytes, &t->apart);
  t->partial = ty_buf_alloc((i64)t->partial_bytes);
  t->own = t->frames && t->partial;
  if (t->own) return true;
  ty_buf_free(t->frames, t->nframes * (i64)t->frame_bytes);
  ty_buf_free(t->partial, (i64)t->partial_bytes);
  return take_memory(t);
}

static void leave_apart(const Task *t) {
  if (!t->own) return;
  ty_buf_free(t->frames, t->nframes * (i64)t->frame_bytes);
  ty_buf_free(t->partial, (i64)t->partial_bytes);
}

double ty_tile_time(const Kernel *k, const Launch *l) {
  return k->cost * (double)product(l->dims, l->no + l->nr + l->ni);
}

bool ty_tile_reserve(const Kernel *k, const Launch *l) {
  Task t;
  return !shape(&t, k, l, ty_pool_threads(0)) || take_memory(&t);
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
  if (!shape(&t, k, r->launch, ty_pool_threads(0))) return true;
  if (!(TY_UNLIKELY(ty_guarded) ? take_apart(&t) : take_memory(&t))) {
    /* Alone it takes less; the threads may have become more since memory was reserved. */
    shape(&t, k, r->launch, 1);
    if (!take_memory(&t)) return false;
  }
  u32 fp = ty_fp_enter();
  ty_tile_bind(&t, r);
  go(&t);
  ty_fp_leave(fp);
  if (TY_UNLIKELY(t.own)) leave_apart(&t);
  return true;
}
