/*
** tile_reduce.c -- the portable machine: reductions and scans, in the orders that tile.c states.
** In:  tiles of a row or of columns, in order.  Out: row values, or the running values of a scan.
** Cannot fail: all states lie in the frame.
**
** A tile of whole rows is reduced row by row. Else each reduction has a state that goes from tile
** to tile: at the end of a block it is complete and is combined with those that wait, as a binary
** counter counts; the end of the row takes in all that waits, and the lanes join.
*/
#include "device/cpu/tile_run.h"

/* ---- reductions ----------------------------------------------------------------------------- */

/* The state of a reduction is a node: lanes, or for positions `width` numbers, then the extremes.
 */
char *ty_tile_state(const Frame *f, const Step *s) {
  return f->acc + (size_t)(s->state * f->t->nodes) * f->t->node;
}

static i64 node_elements(const Task *t, const Step *s) {
  if (t->k->p->kind == K_COL) return (s->kind == S_ARG ? 1 : COL_LANES) * t->width;
  return s->kind == S_ARG ? 1 : NODE / ty_tile_size(s->type);
}

static void fill(const Task *t, int size, void *y, const void *value, i64 n) {
  t->k->isa->fill[size == 8](y, value, NULL, NULL, n, 0);
}

static const u8 reduce_ops[R_KINDS] = {P_ADD, P_MUL, P_MAX, P_MIN};

static TileFn *reduce_fn(const Task *t, int kind, int type) {
  return t->k->isa->fn[reduce_ops[kind] - P_ADD][type][0];
}

/* y[k] = row k of n elements, reduced in canonical order. Lanes join from the largest power of two
** below their number; lanes that a short row leaves empty change nothing and are not looked at. */
static void reduce_rows(const Task *t, int kind, int type, char *y, const char *x, i64 rows,
                        i64 n) {
  const TileIsa *isa = t->k->isa;
  _Alignas(64) char v[NODE];
  int size = ty_tile_size(type);
  i64 lanes = NODE / size;
  u64 ident = n ? ty_tile_identity(kind, type) : ty_tile_empty(kind, type);
  if (isa->rows[kind][type]) {
    isa->rows[kind][type](y, x, rows, n);
    return;
  }
  for (i64 k = 0; k < rows; k++, x += n * size, y += size) {
    i64 m = TY_MIN(TY_MAX(n, 1), lanes), s = 1;
    fill(t, size, v, &ident, m);
    isa->fold[kind][type](v, x, lanes, n);
    while (s * 2 < m) s *= 2;
    for (; m > 1; m = s, s /= 2) reduce_fn(t, kind, type)(v, v, v + s * size, NULL, m - s, 0);
    memcpy(y, v, (size_t)size);
  }
}

/* Of one type: whether e is better than the best so far. */
#define BETTER(T) \
  static bool better_##T(const void *pe, const void *pb, bool less) { \
    T e = *(const T *)pe, b = *(const T *)pb; \
    return (less ? e < b : e > b) || (e != e && b == b); \
  }
BETTER(i32)
BETTER(i64)
BETTER(float)
BETTER(double)

/* The extreme so far (best, at) goes on with n elements, the first of which is number `first`. */
static void extreme(const Task *t, const Step *s, char *best, i64 *at, const char *x, i64 first,
                    i64 n) {
  typedef bool Better(const void *e, const void *best, bool less);
  static Better *const better[] = {better_i32, better_i64, better_float, better_double};
  const int size = ty_tile_size(s->type);
  if (!n) return;
  const i64 i = t->k->isa->arg[s->op][s->type](x, n);
  if (!better[s->type](x + i * size, best, s->op)) return;
  memcpy(best, x + i * size, (size_t)size);
  *at = first + i;
}

void ty_tile_reduce_begin(const Frame *f, const Step *s) {
  const Task *t = f->t;
  char *acc = ty_tile_state(f, s);
  i64 m = node_elements(t, s), zero = 0;
  bool arg = s->kind == S_ARG;
  u64 ident = ty_tile_identity(arg ? R_MAX + s->op : s->op, s->type);
  if (arg) fill(t, 8, acc, &zero, m), acc += m * 8;
  fill(t, ty_tile_size(s->type), acc, &ident, m);
}

/* The node a takes in the node b, which stands behind it. */
void ty_tile_combine(const Frame *f, const Step *s, char *y, const char *a, const char *b) {
  const Task *t = f->t;
  i64 m = node_elements(t, s);
  int size = ty_tile_size(s->type);
  if (s->kind == S_REDUCE) {
    reduce_fn(t, s->op, s->type)(y, a, b, NULL, m, 0);
    return;
  }
  if (y != a) memcpy(y, a, (size_t)(m * (8 + size)));
  for (i64 i = 0; i < m; i++) {
    const i64 *at = (const i64 *)b;
    extreme(t, s, y + m * 8 + i * size, (i64 *)y + i, b + m * 8 + i * size, at[i], 1);
  }
}

/* The states of n blocks, a power of two, that went together come to the one at hand. */
void ty_tile_subtree(const Frame *f, const Step *s, i64 n) {
  const Task *t = f->t;
  TileFn *fn = reduce_fn(t, s->op, s->type);
  const i64 m = node_elements(t, s);
  char *acc = ty_tile_state(f, s), *x = acc + (size_t)(1 + t->levels) * t->node;
  for (i64 h = 1; h < n; h *= 2)
    for (i64 i = 0; i < n; i += 2 * h)
      fn(x + i * NODE, x + i * NODE, x + (i + h) * NODE, NULL, m, 0);
  memcpy(acc, x, NODE);
}

/* The block in hand is complete, or a subtree of 2^k blocks. The last one takes in all that waits, the
** nearest first. */
void ty_tile_block_end(Frame *f, const Step *s, int k, bool last) {
  char *acc = ty_tile_state(f, s);
  size_t node = f->t->node;
  if (s->kind == S_ARG) return; /* positions need no order: one state goes through */
  if (last) {
    for (u64 bits = f->nblocks; bits; bits &= bits - 1) {
      k = __builtin_ctzll(bits);
      ty_tile_combine(f, s, acc, acc + (size_t)(1 + k) * node, acc);
    }
    return;
  }
  for (; f->nblocks >> k & 1; k++) ty_tile_combine(f, s, acc, acc + (size_t)(1 + k) * node, acc);
  memcpy(acc + (size_t)(1 + k) * node, acc, node);
  ty_tile_reduce_begin(f, s);
}

/* The row values out of a complete state: lanes join. */
void ty_tile_reduce_finish(const Frame *f, const Step *s, char *acc) {
  const Task *t = f->t;
  char *y = f->p[s->y];
  i64 w = f->rows;
  int size = ty_tile_size(s->type);
  if (s->kind == S_ARG) memcpy(y, acc, (size_t)w * 8);
  else if (t->k->p->kind == K_ROW) reduce_rows(t, s->op, s->type, y, acc, 1, NODE / size);
  else {
    TileFn *fn = reduce_fn(t, s->op, s->type);
    i64 half = 2 * t->width;
    u64 empty = ty_tile_empty(s->op, s->type);
    fn(acc, acc, acc + half * size, NULL, half, 0);
    fn(y, acc, acc + t->width * size, NULL, w, 0);
    if (!t->R) fill(t, size, y, &empty, w);
  }
}

void ty_tile_reduce(Frame *f, const Step *s, i64 n) {
  const Task *t = f->t;
  const TileIsa *isa = t->k->isa;
  i64 w = t->width, lane = f->row % COL_LANES;
  char *acc = ty_tile_state(f, s);
  if (f->whole) reduce_rows(t, s->op, s->type, f->p[s->y], f->p[s->a], f->rows, t->R);
  else if (t->k->p->kind == K_ROW)
    isa->fold[s->op][s->type](acc, f->p[s->a], NODE / ty_tile_size(s->type), n);
  else if (t->rows > 1) isa->fold[s->op][s->type](acc, f->p[s->a], w * COL_LANES, n);
  else isa->fold[s->op][s->type](acc + lane * w * ty_tile_size(s->type), f->p[s->a], n, n);
}

void ty_tile_position(Frame *f, const Step *s, i64 n) {
  const Task *t = f->t;
  const TileIsa *isa = t->k->isa;
  char *acc = ty_tile_state(f, s);
  const char *x = f->p[s->a];
  i64 *y = f->p[s->y];
  int size = ty_tile_size(s->type);
  if (f->whole)
    for (i64 r = 0; r < f->rows; r++)
      y[r] = t->R ? isa->arg[s->op][s->type](x + r * t->R * size, t->R) : 0;
  else if (t->k->p->kind == K_ROW) extreme(t, s, acc + 8, (i64 *)acc, x, f->row, n);
  else
    for (i64 r = 0, w = TY_MIN(n, t->width); r * w < n; r++)
      isa->argcol[s->op][s->type](acc + t->width * 8, (i64 *)acc, x + r * w * size, f->row + r, w);
}

/* ---- scans ---------------------------------------------------------------------------------- */

static u64 *scan_state(const Frame *f, const Step *s) {
  return (u64 *)(f->base + f->t->at_scan) + SCAN_STATE * s->state;
}

void ty_tile_scan_begin(const Frame *f, const Step *s) {
  static const u8 kind[] = {R_SUM, R_PROD, R_MAX, R_MIN, R_MAX};
  u64 *st = scan_state(f, s);
  st[0] = st[1] = st[2] = s->op == P_SLIN - P_SSUM ? 0 : ty_tile_identity(kind[s->op], s->type);
}

void ty_tile_scan(Frame *f, const Step *s, i64 n) {
  const Task *t = f->t;
  char *y = f->p[s->y];
  const char *a = f->p[s->a], *b = f->p[s->b];
  ScanFn *fn = t->k->isa->scan[s->op][s->type];
  int size = ty_tile_size(s->type);
  if (!f->whole) {
    fn(y, a, b, scan_state(f, s), n);
    return;
  }
  for (i64 k = 0, step = t->R * size; k < f->rows; k++, y += step, a += step) {
    ty_tile_scan_begin(f, s);
    fn(y, a, b, scan_state(f, s), t->R);
    b += s->b ? step : 0;
  }
}

/* Sums and products of floats begin anew in a block, on top of what the blocks before came to. */
void ty_tile_scan_block_end(const Frame *f, const Step *s) {
  if (s->op > R_PROD || s->type < C_F32) return;
  u64 *st = scan_state(f, s);
  reduce_fn(f->t, s->op, s->type)(&st[1], &st[1], &st[0], NULL, 1, 0);
  st[0] = ty_tile_identity(s->op, s->type);
}
