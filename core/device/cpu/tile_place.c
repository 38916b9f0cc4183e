/*
** tile_place.c -- the portable machine: where operands lie, and the way between them and tiles.
** In:  a launch; then, tile by tile, the steps that read or write memory.  Out: the place of each operand,
** the shape of tiles, elements moved. Cannot fail.
**
** Each operand belongs to one of two spaces, of elements or of row values, whose dims are collapsed as far as
** all its operands allow. A tile is a piece of its space in one of two forms:
**   a line  consecutive elements, whatever the dims. All that C loops work on.
**   a grid  rows along one dim, columns along the last: for native code, which goes from row to row by itself.
**           Operands whose columns follow one another in memory are then read and written in place, wherever
**           their rows lie; so a row that is added to all rows, or a slice, costs nothing. Rows of a ROW
**           program are such a grid too.
** What cannot be in place goes through a tile register, as rectangles: by whole rows, spread single values,
** or, where an operand is contiguous along the other dim, turned in registers by squares. For those a grid's
** tiles are about square, so that all of every cache line is used while it is near.
**
** A map's dims are taken in the order of its output's strides. What is the same for all its elements, or for all rows of
** a grid, stays in its tile; what only moves goes straight from operand to operand. Long rows whose elements lie apart
** are read by way of a stage, which holds many lines of them.
*/
#include "device/cpu/tile_run.h"

#define FEW_COLUMNS \
  24 /* shorter rows are worked on as a line: a row costs some nanoseconds in native code */
#define SHORT_ROW 8    /* shorter rows are moved column by column: a call for each costs more */
#define FEW_ROWS 8     /* a rectangle has more, where another dim has */
#define TURNS 16       /* most tiles of a map that native code takes in one call */
#define SMALL_GRID 512 /* elements of a rectangle, at least */

i64 ty_tile_past = 32 << 20; /* measured: below it the caches do better, also for who reads next */

/* ---- rectangles ----------------------------------------------------------------------------------- */

/* y[r * yr + c * yc] = x[r * xr + c * xc], strides in elements. */
typedef struct Rect {
  char *y;
  const char *x;
  i64 yr, yc, xr, xc, rows, cols;
  int size;
} Rect;

static inline void copy_few(char *y, const char *x, size_t n) {
  if (n > 256) memcpy(y, x, n);
  else if (n >= 16) {
    for (size_t i = 0; i + 16 <= n; i += 16) memcpy(y + i, x + i, 16);
    memcpy(y + n - 16, x + n - 16, 16);
  } else if (n >= 8) {
    u64 a, b;
    memcpy(&a, x, 8), memcpy(&b, x + n - 8, 8);
    memcpy(y, &a, 8), memcpy(y + n - 8, &b, 8);
  } else if (n >= 4) {
    u32 a, b;
    memcpy(&a, x, 4), memcpy(&b, x + n - 4, 4);
    memcpy(y, &a, 4), memcpy(y + n - 4, &b, 4);
  } else
    for (size_t i = 0; i < n; i++) y[i] = x[i];
}

static void copy_rows(const Rect *q) {
  size_t n = (size_t)(q->cols * q->size), all = n * (size_t)q->rows;
  if (!q->xr && q->yr == q->cols) { /* the same row again and again: twice as much each time */
    memcpy(q->y, q->x, n);
    for (size_t done = n; done < all; done *= 2)
      memcpy(q->y + done, q->y, TY_MIN(done, all - done));
    return;
  }
  for (i64 r = 0; r < q->rows; r++)
    copy_few(q->y + r * q->yr * q->size, q->x + r * q->xr * q->size, n);
}

static void copy_each(const Rect *q) {
#define EACH(T) \
  for (i64 r = 0; r < q->rows; r++) { \
    T *y = (T *)(void *)q->y + r * q->yr; \
    const T *x = (const T *)(const void *)q->x + r * q->xr; \
    for (i64 c = 0; c < q->cols; c++) y[c * q->yc] = x[c * q->xc]; \
  }
  if (q->size == 1) EACH(u8)
  else if (q->size == 2) EACH(u16)
  else if (q->size == 4) EACH(u32)
  else EACH(u64)
#undef EACH
}

static Rect other_way(const Rect *q) {
  return (Rect){q->y, q->x, q->yc, q->yr, q->xc, q->xr, q->cols, q->rows, q->size};
}

/* Rows of y are columns of x. */
static void turn(const TileIsa *isa, const Rect *q) {
  TurnFn *fn = q->size >= 4 ? isa->turn[q->size == 8] : NULL;
  i64 e = q->size == 8 ? 4 : 8, rows = q->rows / e * e, cols = q->cols / e * e;
  if (!fn || !rows || !cols) rows = cols = 0;
  else fn(q->y, q->yr, q->x, q->xc, rows, cols);
  Rect right = *q, below = *q;
  right.rows = rows, right.cols -= cols;
  right.y += cols * q->size, right.x += cols * q->xc * q->size;
  below.rows -= rows, below.y += rows * q->yr * q->size, below.x += rows * q->size;
  if (right.rows && right.cols) copy_each(&right);
  if (!below.rows) return;
  if (below.cols < below.rows) below = other_way(&below);
  copy_each(&below);
}

static void rect(const TileIsa *isa, Rect q) {
  if (q.rows < 1 || q.cols < 1) return;
  if (q.yc == -1) /* from the other end */
    q.y -= (q.cols - 1) * q.size, q.x += (q.cols - 1) * q.xc * q.size, q.yc = 1, q.xc = -q.xc;
  bool turned = q.rows > 1 && q.yc != 1 && q.yr == 1;
  if (turned || q.cols == 1) q = other_way(&q);
  if (q.yc == 1 && q.xc == 1) copy_rows(&q);
  else if (q.yc == 1 && q.xr == 1 && q.xc && q.rows > 1) turn(isa, &q);
  else if (q.size < 4) copy_each(&q);
  else if (q.yc == 1 && !q.xc && q.xr == 1 && q.yr == q.cols)
    isa->spread[q.size == 8](q.y, q.x, q.rows, q.cols);
  else if (q.cols < SHORT_ROW && q.rows > q.cols) {
    q = other_way(&q);
    copy_each(&q);
  } else if (q.yc == 1)
    for (i64 r = 0; r < q.rows; r++)
      isa->load[q.size == 8 ? T_I64 : T_I32](q.y + r * q.yr * q.size, q.x + r * q.xr * q.size, q.xc,
                                             q.cols);
  else copy_each(&q);
}

/* ---- gathers -------------------------------------------------------------------------------------- */

static bool is_same(const i64 *at, i64 n) {
  if (n && at[0] != at[n - 1]) return false;
  i64 a = 0, b = 0, c = 0, d = 0, i = 0, first = n ? at[0] : 0;
  for (; i + 4 <= n; i += 4)
    a |= at[i] ^ first, b |= at[i + 1] ^ first, c |= at[i + 2] ^ first, d |= at[i + 3] ^ first;
  for (; i < n; i++) a |= at[i] ^ first;
  return !(a | b | c | d);
}

bool ty_tile_by_index(const Task *t, const Place *o) {
  const i32 nd = t->space[o->space].nd;
  return nd && (u64)o->stride[nd - 1] < 2;
}

/* A rectangle of a gather: element (r, c) of the operand from x on goes by index at[r * ar + c * ac]. */
typedef struct Pick {
  const char *x;
  i64 xr, xc;
  const i64 *at;
  i64 ar, ac, rows, cols;
} Pick;

/* Rows of n bytes as they are. */
static void pick_rows(char *y, size_t n, const Pick *q, i64 between, i64 step) {
#define PICK(n, copy) \
  for (i64 r = 0; r < q->rows; r++) \
  copy(y + (size_t)r * (n), q->x + r * between + q->at[r * q->ar] * step, n)
  switch (n) {
  case 4: PICK(4, memcpy); break;
  case 8: PICK(8, memcpy); break;
  case 16: PICK(16, memcpy); break;
  case 32: PICK(32, memcpy); break;
  case 64: PICK(64, memcpy); break;
  default: PICK(n, copy_few);
  }
#undef PICK
}

/* Rows of one index are runs of the operand. */
static void pick(const Frame *f, const Step *s, char *y, const Pick *q) {
  const Place *o = &f->t->op[s->imm];
  const TileIsa *isa = f->t->k->isa;
  const i64 gstride = f->t->r->launch->gstride[s->imm], size = f->t->code->slot[s->y].size;
  if (!q->ac && o->native && q->xc == 1) {
    pick_rows(y, (size_t)(q->cols * size), q, q->xr * size, gstride * size);
    return;
  }
  for (i64 r = 0; r < q->rows; r++, y += q->cols * size) {
    const i64 *at = q->at + r * q->ar;
    const char *x = q->x + r * q->xr * o->size;
    if (q->ac && !is_same(at, q->cols)) isa->gload[o->dtype](y, x, q->xc, at, gstride, q->cols);
    else isa->load[o->dtype](y, x + at[0] * gstride * o->size, q->xc, q->cols);
  }
}

/* rows x cols elements from `offset` on in the operand, `at` in its index, `done` in the tile. */
static void gather(const Frame *f, const Step *s, char *y, i64 offset, i64 at, i32 along, i64 done,
                   i64 rows, i64 cols) {
  const Task *t = f->t;
  const Place *o = &t->op[s->imm], *index = s->state < 0 ? NULL : &t->op[s->state];
  const int last = t->space[o->space].nd - 1;
  Pick q = {.x = (char *)((uintptr_t)o->at + (uintptr_t)(offset * o->size)),
            .xc = last < 0 ? 0 : o->stride[last],
            .xr = along < 0 ? 0 : o->stride[along],
            .rows = rows,
            .cols = cols};
  if (index && ty_tile_by_index(t, index)) {
    q.at = (const i64 *)(const void *)index->at + at;
    q.ac = index->stride[last], q.ar = along < 0 ? 0 : index->stride[along];
  } else if (s->scalars) q.at = f->p[s->a];
  else q.at = (const i64 *)f->p[s->a] + done, q.ac = 1, q.ar = cols;
  pick(f, s, y + done * t->code->slot[s->y].size, &q);
}

/* Elements [i0, i0 + n): an odometer; rows of the last dim that are whole go together. */
static void gather_line(const Frame *f, const Step *s, char *y, i64 i0, i64 n) {
  const Task *t = f->t;
  const Place *o = &t->op[s->imm], *index = &t->op[s->state < 0 ? (i32)s->imm : s->state];
  const Space *sp = &t->space[o->space];
  const int last = sp->nd - 1;
  i64 at[MAX_DIMS], x = 0, k = 0, q = i0;
  for (int d = last; d >= 0; d--) {
    at[d] = d ? q % sp->dims[d] : q;
    q = d ? q / sp->dims[d] : 0;
    x += at[d] * o->stride[d], k += at[d] * index->stride[d];
  }
  if (last < 0) gather(f, s, y, 0, 0, -1, 0, 1, n);
  for (i64 done = 0; done < n && last >= 0;) {
    const bool whole = last && !at[last] && n - done >= sp->dims[last];
    const int along = whole ? last - 1 : last;
    const i64 left = whole ? (n - done) / sp->dims[last] : n - done;
    const i64 steps = TY_MIN(left, sp->dims[along] - at[along]);
    const i64 rows = whole ? steps : 1, cols = whole ? sp->dims[last] : steps;
    gather(f, s, y, x, k, whole ? along : -1, done, rows, cols);
    done += rows * cols;
    at[along] += steps, x += steps * o->stride[along], k += steps * index->stride[along];
    for (int d = along; d > 0 && at[d] == sp->dims[d]; d--) {
      x += o->stride[d - 1] - at[d] * o->stride[d];
      k += index->stride[d - 1] - at[d] * index->stride[d];
      at[d] = 0, at[d - 1]++;
    }
  }
}

static i64 corner(const Frame *f, const Place *o) {
  i64 offset = 0;
  for (i32 d = 0; d < f->t->space[0].nd; d++) offset += f->index[d] * o->stride[d];
  return offset;
}

static void gather_grid(const Frame *f, const Step *s, char *y) {
  const Task *t = f->t;
  const i64 at = s->state < 0 ? 0 : corner(f, &t->op[s->state]);
  gather(f, s, y, corner(f, &t->op[s->imm]), at, t->along, 0, f->lines, f->cols);
}

/* ---- access --------------------------------------------------------------------------------------- */

/* Whether a load or store moves bits as they are. */
static bool is_move(const Place *o, const Step *s) {
  return (s->kind == S_LOAD || s->kind == S_STORE) && (s->raw || o->native);
}

/* Rows of elements between a tile, where they begin `apart` elements from each other, and the operand. */
static void move_rows(const Frame *f, const Step *s, char *y, i64 apart, i64 offset, i64 between,
                      i64 stride, i64 rows, i64 cols) {
  const Place *o = &f->t->op[s->imm];
  char *x = (char *)((uintptr_t)o->at + (uintptr_t)(offset * o->size));
  bool store = s->kind == S_STORE;
  rect(f->t->k->isa, store ? (Rect){x, y, between, stride, apart, 1, rows, cols, o->size}
                           : (Rect){y, x, apart, 1, between, stride, rows, cols, o->size});
}

/* The same where they follow one another. */
static void move_rect(const Frame *f, const Step *s, char *y, i64 offset, i64 between, i64 stride,
                      i64 rows, i64 cols) {
  move_rows(f, s, y, cols, offset, between, stride, rows, cols);
}

/* `count` steps along dim d, each with all that lies behind it, as rectangles. Their rows go along the last
** dim but one, or, where these would be few, along the longest. */
static void move_block(const Frame *f, const Step *s, char *y, i64 offset, int d, i64 count) {
  const Place *o = &f->t->op[s->imm];
  const Space *sp = &f->t->space[o->space];
  int last = sp->nd - 1, rows = last - 1;
  i64 at[MAX_DIMS] = {0}, extent[MAX_DIMS], apart[MAX_DIMS], n = sp->dims[last];
  for (int k = last - 1; k >= d; k--) {
    extent[k] = k == d ? count : sp->dims[k];
    apart[k] = n, n *= extent[k];
    if (extent[rows] < FEW_ROWS && extent[k] > extent[rows]) rows = k;
  }
  for (;;) {
    move_rows(f, s, y, apart[rows], offset, o->stride[rows], o->stride[last], extent[rows],
              sp->dims[last]);
    int k = last - 1;
    for (; k >= d; k--) {
      if (k == rows) continue;
      y += apart[k] * o->size, offset += o->stride[k];
      if (++at[k] < extent[k]) break;
      y -= apart[k] * o->size * extent[k], offset -= o->stride[k] * extent[k];
      at[k] = 0;
    }
    if (k < d) return;
  }
}

/* One run of an access that is more than a move: elements that lie a stride apart. */
static void access_run(const Frame *f, const Step *s, char *y, i64 offset, i64 stride, i64 n) {
  const Place *o = &f->t->op[s->imm];
  const TileIsa *isa = f->t->k->isa;
  char *x = (char *)((uintptr_t)o->at + (uintptr_t)(offset * o->size));
  switch (s->kind) {
  case S_LOAD: isa->load[o->dtype](y, x, stride, n); break;
  case S_STORE: isa->store[o->dtype](x, stride, y, n); break;
  default: isa->iota((i64 *)(void *)y, o->first + offset, stride, n); break;
  }
}

char *ty_tile_corner(const Frame *f, const Place *o) {
  return (char *)((uintptr_t)o->at + (uintptr_t)(corner(f, o) * o->size));
}

i64 ty_tile_between(const Task *t, const Place *o) { return o->stride[t->along] * o->size; }

static void access_grid(Frame *f, const Step *s, char *y, int size) {
  const Task *t = f->t;
  const Place *o = &t->op[s->imm];
  i64 at = corner(f, o), stride = o->stride[t->space[0].nd - 1], cols = f->cols;
  if (is_move(o, s)) {
    move_rect(f, s, y, at, o->stride[t->along], stride, f->lines, cols);
    return;
  }
  for (i64 r = 0; r < f->lines; r++, at += o->stride[t->along])
    access_run(f, s, y + r * cols * size, at, stride, cols);
}

/* Elements [i0, i0 + n) of a space: an odometer over its dims. Of what is only moved, the steps of a dim that are whole
** go together. */
static void access_line(Frame *f, const Step *s, char *y, int size, i64 i0, i64 n) {
  const Place *o = &f->t->op[s->imm];
  const Space *sp = &f->t->space[o->space];
  int last = sp->nd - 1;
  bool move = is_move(o, s);
  i64 at[MAX_DIMS], offset = 0, q = i0;
  for (int d = last; d >= 0; d--) {
    at[d] = d ? q % sp->dims[d] : q;
    q = d ? q / sp->dims[d] : 0;
    offset += at[d] * o->stride[d];
  }
  for (i64 done = 0;;) {
    int along = last; /* the dim whose steps are whole */
    i64 each = 1, steps = TY_MIN(n - done, sp->dims[last] - at[last]);
    while (move && along && !at[along] && n - done >= each * sp->dims[along]) {
      each *= sp->dims[along--];
      steps = TY_MIN((n - done) / each, sp->dims[along] - at[along]);
    }
    if (along < last) move_block(f, s, y + done * size, offset, along, steps);
    else if (move) move_rect(f, s, y + done * size, offset, 0, o->stride[last], 1, steps);
    else access_run(f, s, y + done * size, offset, o->stride[last], steps);
    done += steps * each;
    if (done == n) return;
    at[along] += steps, offset += steps * o->stride[along];
    for (int d = along; d > 0 && at[d] == sp->dims[d]; d--) {
      offset += o->stride[d - 1] - at[d] * o->stride[d];
      at[d] = 0, at[d - 1]++;
    }
  }
}

/* Loads or stores a tile of the operand. */
void ty_tile_access(Frame *f, const Step *s, i64 i0, i64 n) {
  const Place *o = &f->t->op[s->imm];
  char *y = f->p[s->kind == S_STORE && !s->raw ? s->a : s->y];
  int size = s->raw ? o->size : f->t->code->slot[s->y].size;
  if (!n) return;
  if (s->kind == S_GLOAD) {
    if (f->t->grid && !s->row) gather_grid(f, s, y);
    else gather_line(f, s, y, i0, n);
  } else if (o->mode != WALK) {
    i64 stride = o->mode == FLAT;
    if (f->t->grid && !s->row && stride) access_grid(f, s, y, size);
    else if (is_move(o, s)) move_rect(f, s, y, i0 * stride, 0, stride, 1, n);
    else access_run(f, s, y, i0 * stride, stride, n);
  } else if (f->t->grid && !s->row) access_grid(f, s, y, size);
  else access_line(f, s, y, size, i0, n);
}

/* The same by way of a stage: what lies apart in rows lies near in columns, and many rows are turned at once. */
bool ty_tile_stage(Frame *f, const Step *s, i64 i0, i64 n) {
  const Task *t = f->t;
  const Place *o = &t->op[s->imm];
  if (!o->staged || s->copy || !is_move(o, s) || t->code->slot[s->y].place != AT_TILE) return false;
  i64 *first = &f->staged[o->staged - 1];
  char *stage = f->base + t->at_stage + (size_t)((o->staged - 1) * t->stage * t->k->word);
  if (i0 < *first || i0 + n > *first + t->stage) {
    f->p[s->y] = stage, *first = i0;
    ty_tile_access(f, s, i0, TY_MIN(t->stage, t->N - i0));
  }
  f->p[s->y] = stage + (i0 - *first) * o->size;
  return true;
}

/* Where elements [i0, i0 + n) of an operand lie one after another in memory, else NULL. */
char *ty_tile_stretch(const Task *t, const Place *o, i64 i0, i64 n) {
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

/* ---- places --------------------------------------------------------------------------------------- */

/* Adds dim d of the launch to the space; a dim that all operands step through as a continuation of
** the last one becomes one with it, unless they are to stay apart. */
static void add_dim(Task *t, Space *s, int space, const Launch *L, int d) {
  const Program *p = t->k->p;
  i64 n = L->dims[d];
  bool joins = s->nd > 0 && s->nd != t->outer;
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

bool ty_tile_in_place(const Task *t, const Step *s) {
  const Place *o = &t->op[s->imm];
  if (s->kind != S_LOAD || s->row || s->copy) return false;
  if (t->grid && s->raw) return o->stride[t->space[0].nd - 1] == 1;
  return o->mode == FLAT && (t->batch || !t->grid) && (o->native || s->raw);
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

/* ---- the shape of tiles --------------------------------------------------------------------------- */

/* The dim that an operand whose columns are apart is contiguous along, or -1. */
static i32 turned_along(const Task *t) {
  const Space *s = &t->space[0];
  for (int i = 0; i < t->k->p->noperands; i++) {
    const Place *o = &t->op[i];
    i64 stride = o->stride[s->nd - 1];
    if (o->space || !t->r->buf[i] || (stride >= -1 && stride <= 1)) continue;
    for (i32 d = 0; d < s->nd - 1; d++)
      if (o->stride[d] == 1 && s->dims[d] > 1) return d;
  }
  return -1;
}

/* Stores that go past the caches want a line where rows would not begin at multiples of 64 bytes; unless
** operands are read in place only as a grid, which is worth more. */
static bool wants_line(const Task *t) {
  bool wants = false;
  for (int i = 0; i < t->k->p->noperands && t->past; i++) {
    const Place *o = &t->op[i];
    if (o->mode == WALK && o->stride[t->space[0].nd - 1] == 1) return false;
    bool past = t->k->p->operand[i].write && o->mode == FLAT && o->native;
    wants |= past && ty_tile_between(t, o) & 63;
  }
  return wants;
}

/* Rectangles of a map, where they are worth it. */
static void grid_of_map(Task *t) {
  const Space *s = &t->space[0];
  i64 cols = s->dims[s->nd - 1], most = t->k->tile;
  i32 along = turned_along(t);
  if (cols < FEW_COLUMNS) return;
  i64 side = most;
  if (along >= 0)
    while (side * side > most) side /= 2;
  for (i32 d = 0; along < 0 && d < s->nd - 1; d++)
    if (t->along < 0 || s->dims[d] >= s->dims[t->along]) t->along = d;
  if (along >= 0) t->along = along;
  else if (wants_line(t)) return;
  t->block_rows = TY_MIN(s->dims[t->along], side);
  t->block_cols = TY_MIN(cols, along >= 0 ? most / t->block_rows : most);
  if (along < 0) t->block_rows = TY_MIN(t->block_rows, most / t->block_cols);
  if (t->block_rows * t->block_cols < TY_MIN(t->N, SMALL_GRID)) return;
  t->grid = true, t->units = 1;
  for (i32 d = 0; d < s->nd; d++) {
    i64 step = d == t->along ? t->block_rows : d == s->nd - 1 ? t->block_cols : 1;
    t->units *= (s->dims[d] + step - 1) / step;
  }
}

/* Whether anything of a batch goes through tile registers, which have room for few rows. */
static bool uses_tiles(const Task *t) {
  const Code *code = t->code;
  i32 i = code->phase[0].elem, native = 0;
  if (code->nphase > 1 || code->nnative > 1) return true; /* and few rows stay in the cache */
  for (; i < code->phase[0].end; i++) {
    const Step *s = &code->step[i];
    if (s->native) native = code->native[s->native - 1].end;
    if (s->kind == S_STORE && t->op[s->imm].stride[t->along + 1] != 1) return true;
    if (i >= native && s->kind != S_SKIP && !ty_tile_in_place(t, s)) return true;
  }
  return false;
}

static void choose_grid(Task *t) {
  const Space *s = &t->space[0];
  t->grid = false, t->along = -1;
  if (t->k->p->kind == K_MAP && t->code->nnative && s->nd > 1) grid_of_map(t);
  else if (t->k->p->kind == K_COL) {
    t->grid = t->split && s->nd > 1 && s->dims[s->nd - 1] == t->I && s->dims[s->nd - 2] == t->R;
    if (t->split && !t->grid) t->rows = 1;
    t->along = s->nd - 2;
  } else if (t->batch && s->nd > 1 && s->dims[s->nd - 1] == t->R) {
    t->grid = true, t->along = s->nd - 2;
    if (!uses_tiles(t)) t->few = t->rows;
  } else if (t->batch) t->rows = 1, t->units = t->O, t->batch = false;
}

/* Whether native code can go through long rows, or blocks of columns, by itself: nothing is read or written by
** way of tiles. */
static bool is_joint(const Task *t) {
  const Code *code = t->code;
  const bool col = t->k->p->kind == K_COL;
  if (!code->nnative || t->k->p->kind == K_MAP) return false;
  if (col ? !t->grid && (t->strips > 1 || t->rows == 1) : t->R <= t->tile || code != t->k->code)
    return false;
  for (i32 p = 0; p < code->nphase; p++) {
    i32 stretches = 0;
    for (i32 i = code->phase[p].elem; i < code->phase[p].end; i++) {
      const Step *s = &code->step[i];
      if (!s->native) {
        bool spread = s->kind == S_SPREAD && t->grid;
        if (!spread && s->kind != S_SKIP && !ty_tile_in_place(t, s)) return false;
        continue;
      }
      const Native *v = &code->native[s->native - 1];
      for (; i < v->end; i++) {
        s = &code->step[i];
        if (s->kind != S_STORE) continue;
        const Place *y = &t->op[s->imm];
        if (t->grid ? y->stride[t->space[0].nd - 1] != 1 : y->mode != FLAT) return false;
      }
      stretches++, i--;
    }
    if (stretches > 1) return false;
  }
  return true;
}

/* Whether elements are loads and counters, then one native stretch that stores in place: nothing else then writes
** the tiles of what was loaded. Of maps, and of rows side by side. */
static bool is_one_stretch(const Task *t) {
  const Code *code = t->code;
  const i32 last = t->space[0].nd - 1;
  const bool rows = t->k->p->kind == K_ROW && t->batch && t->grid && code->nphase == 1;
  if ((t->k->p->kind != K_MAP && !rows) || code->nnative != 1 || last < 0) return false;
  const Native *v = code->native;
  for (i32 i = code->phase[0].elem; i < code->phase[0].end; i++) {
    const Step *s = &code->step[i];
    const Place *y = &t->op[s->imm];
    if (i >= v->first && i < v->end) {
      if (s->kind == S_STORE && (t->grid ? y->stride[last] != 1 : y->mode != FLAT)) return false;
    } else if (i >= v->end || (s->kind != S_LOAD && s->kind != S_IOTA && s->kind != S_SKIP))
      return false;
  }
  return true;
}

/* What is the same for all elements, or all rows of a grid, is brought to its tile once. */
static void choose_kept(Task *t) {
  const i32 last = t->space[0].nd - 1;
  t->keep = t->ones = 0;
  if (!is_one_stretch(t)) return;
  for (int i = 0; i < t->k->p->noperands; i++) {
    const Place *o = &t->op[i];
    if (o->space) continue; /* a row's own */
    bool rows = t->grid;
    for (i32 d = 0; d < last; d++) rows &= o->stride[d] == 0;
    t->ones |= (u32)(o->mode == ONE) << i;
    t->keep |= (u32)(o->mode == ONE || rows) << i;
  }
}

static bool has_columns(const Task *t, const Place *o) {
  return t->grid ? o->stride[t->space[0].nd - 1] == 1 : o->mode == FLAT;
}

/* One load, one store of what it loads, as bits. What native code copies in place, or reads in one tile for all, and
** stores past the caches are left to it. */
static bool is_mere_move(const Task *t) {
  const Code *code = t->code;
  const Step *load = code->step + code->phase[0].elem, *store = load + 1;
  if (t->past || code->nnative != 1 || code->phase[0].end - code->phase[0].elem != 2) return false;
  if (load->kind != S_LOAD || store->kind != S_STORE || !load->raw || store->a != load->y)
    return false;
  const Place *x = &t->op[load->imm], *y = &t->op[store->imm];
  if (!x->native || x->dtype != y->dtype || t->keep >> load->imm & 1) return false;
  return has_columns(t, x) != has_columns(t, y) || (t->grid && !has_columns(t, x));
}

/* Straight from one operand to the other: a tile of it, or, on a line, the flat one in place of a tile. */
void ty_tile_move(Frame *f, i64 i0, i64 n) {
  const Task *t = f->t;
  const Step *load = t->code->step + t->code->phase[0].elem, *store = load + 1;
  const Place *x = &t->op[load->imm], *y = &t->op[store->imm];
  const i32 last = t->space[0].nd - 1;
  if (t->grid)
    rect(t->k->isa,
         (Rect){ty_tile_corner(f, y), ty_tile_corner(f, x), y->stride[t->along], y->stride[last],
                x->stride[t->along], x->stride[last], f->lines, f->cols, x->size});
  else if (y->mode == FLAT) f->p[load->y] = y->at + i0 * y->size, ty_tile_access(f, load, i0, n);
  else f->p[store->y] = x->at + i0 * x->size, ty_tile_access(f, store, i0, n);
}

/* Tiles of a map that native code takes together: where it is one stretch over what lies flat, or is kept. */
static void choose_turns(Task *t) {
  const i64 most = TY_MIN(t->units / (8 * t->nframes), TURNS);
  if (t->grid || most < 2 || !is_one_stretch(t)) return;
  const Code *code = t->code;
  for (i32 i = code->phase[0].elem; i < code->native->first; i++) {
    const Step *s = &code->step[i];
    if (s->kind != S_SKIP && !ty_tile_in_place(t, s) && !(t->keep >> s->imm & 1)) return;
  }
  t->joint = true, t->turns = most;
  t->units = (t->units + most - 1) / most;
}

/* The dims of a launch in the order of its space: a map goes the way its output lies, so that this is contiguous. */
static void order_dims(const Task *t, const Launch *L, int n, int *order) {
  const Program *p = t->k->p;
  int out = 0;
  while (out < p->noperands - 1 && !p->operand[out].write) out++;
  for (int d = 0; d < n; d++) {
    int at = d;
    for (; at > 0 && p->kind == K_MAP && L->dims[d] > 1; at--) {
      const int before = order[at - 1];
      const i64 a = L->strides[out][d], b = L->strides[out][before];
      if (L->dims[before] > 1 && (a < 0 ? -a : a) <= (b < 0 ? -b : b)) break;
      order[at] = before;
    }
    order[at] = d;
  }
}

void ty_tile_bind(Task *t, const Run *r) {
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
    o->first = L->start[i], o->staged = 0;
    o->at = (char *)((uintptr_t)r->buf[i] + (uintptr_t)(L->start[i] * info->bytes));
  }
  int order[MAX_DIMS];
  order_dims(t, L, elem, order);
  t->space[0].nd = t->space[1].nd = 0, t->outer = -1;
  for (int d = 0; d < elem; d++) {
    if (t->split && (d == L->no || d == L->no + L->nr)) t->outer = t->space[0].nd;
    add_dim(t, &t->space[0], 0, L, order[d]);
  }
  t->outer = -1;
  if (p->kind != K_MAP)
    for (int d = 0; d < elem; d++)
      if (d < L->no || d >= L->no + L->nr) add_dim(t, &t->space[1], 1, L, d);
  for (int i = 0; i < p->noperands; i++) find_mode(&t->op[i], &t->space[t->op[i].space]);
  t->past = code->nnative && is_past(t);
  for (int i = 0, n = 0; i < p->noperands && n < t->stages; i++) {
    Place *o = &t->op[i];
    const i64 last = o->space ? 0 : o->stride[t->space[0].nd - 1];
    if (r->buf[i] && !p->operand[i].write && (u64)last + 1 > 2) o->staged = (u8)++n;
  }
  choose_grid(t);
  choose_kept(t);
  t->direct = 0;
  for (int i = 0; i < code->ndirect && (t->batch || !t->grid); i++) {
    const Direct *d = &code->direct[i];
    const Place *y = &t->op[d->operand];
    bool ok = y->mode == FLAT && !ty_tile_in_place(t, &code->step[code->slot[d->slot].def]);
    for (u32 m = d->readers; m && ok; m &= m - 1) ok = t->op[__builtin_ctz(m)].at != y->at;
    t->direct |= (u32)ok << i;
  }
  t->joint = is_joint(t);
  t->move = p->kind == K_MAP && is_mere_move(t);
  if (p->kind == K_MAP) choose_turns(t);
}
