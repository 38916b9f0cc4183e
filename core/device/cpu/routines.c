/*
** routines.c -- a routine that is no loop program: scatter. (Sorting and searching: sort.c.)
** In:  contiguous operands, but for the index; positions count from 0 and are checked already.
** Out: y, whatever the number of threads. Cannot fail.
*/
#include "device/cpu/tile.h"

enum {
  SCATTER_GRAIN = 8192, /* elements scattered below which no thread is woken */
  LINE = 64,            /* bytes that threads do not share */
  LOOK = 1 << 14        /* elements between two looks at whether to stop */
};

/* ---- scatter -------------------------------------------------------------------------------- */

/* A piece of src and where it goes: row j, `run` elements, from x[j * from] to y[at[j * by] * step + j * along]. */
typedef struct Rows {
  void *y;
  const void *x;
  const i64 *at;
  i64 by, from, step, along, run;
  TileFn *sum; /* of long rows: the machine's loop; NULL: they are copied */
  size_t size;
} Rows;
typedef void ScatterFn(const Rows *q, i64 n);

/* Single elements have a loop of their own: in the other one its end would be looked for at each. */
#define ROWS(rows, S, expression) \
  static void rows(const Rows *q, i64 n) { \
    const i64 run = q->run, by = q->by, from = q->from, step = q->step, along = q->along; \
    const i64 *at = q->at; \
    S *const base = q->y; \
    const S *src = q->x; \
    if (run == 1) \
      for (i64 j = 0; j < n; j++) { \
        const S *x = src + j * from; \
        S *y = base + at[j * by] * step + j * along; \
        *y = (S)(expression); \
      } \
    else \
      for (i64 j = 0; j < n; j++) { \
        S *restrict y = base + at[j * by] * step + j * along; \
        const S *restrict x = src + j * from; \
        for (const S *end = x + run; x < end; x++, y++) *y = (S)(expression); \
      } \
  }

ROWS(set1, u8, *x)
ROWS(set2, u16, *x)
ROWS(set4, u32, *x)
ROWS(set8, u64, *x)

/* Integers wrap, a bool is true when either was, halves round after each addition. */
ROWS(add_bool, u8, *y || *x)
ROWS(add_u8, u8, *y + *x)
ROWS(add_i8, u8, *y + *x)
ROWS(add_i16, u16, *y + *x)
ROWS(add_i32, u32, *y + *x)
ROWS(add_i64, u64, *y + *x)
ROWS(add_f16, u16, ty_f32_to_f16(ty_f16_to_f32(*y) + ty_f16_to_f32(*x)))
ROWS(add_bf16, u16, ty_f32_to_bf16(ty_bf16_to_f32(*y) + ty_bf16_to_f32(*x)))
ROWS(add_f32, float, *y + *x)
ROWS(add_f64, double, *y + *x)

static void long_rows(const Rows *q, i64 n) {
  for (i64 j = 0; j < n; j++) {
    char *y = (char *)q->y + (q->at[j * q->by] * q->step + j * q->along) * (i64)q->size;
    const char *x = (const char *)q->x + j * q->from * (i64)q->size;
    if (q->sum) q->sum(y, y, x, x, q->run, 0);
    else memcpy(y, x, (size_t)q->run * q->size);
  }
}

/* Strides in elements; those of y along `dim` are steps of the index. */
typedef struct Scatter {
  char *y;
  const char *src;
  const i64 *index;
  i64 dims[MAX_RANK], to[MAX_RANK], from[MAX_RANK], by[MAX_RANK];
  int rank, dim, size;
  ScatterFn *rows, *longs; /* of few bytes, of many */
  TileFn *sum;
  int cut;  /* the dim that threads share out, */
  i64 unit; /* so many indices at a time */
} Scatter;

/* In row-major order: with equal positions the last wins, and sums are added in that order. Dims behind `dim` that
** share an index are one run where they lie so. */
static void scatter_all(const Scatter *s) {
  i64 at[MAX_RANK] = {0}, lines = 1, to = 0, from = 0, by = 0, quiet = LOOK;
  int last = s->rank - 1;
  Rows q = {.run = 1, .sum = s->sum, .size = (size_t)s->size};
  for (; last > s->dim; q.run *= s->dims[last--])
    if (s->dims[last] > 1 && (s->by[last] || s->to[last] != q.run || s->from[last] != q.run)) break;
  for (int d = 0; d < last; d++) lines *= s->dims[d];
  q.by = s->by[last], q.from = s->from[last], q.step = s->to[s->dim];
  q.along = last == s->dim ? 0 : s->to[last];
  ScatterFn *const rows = q.run * s->size >= LINE ? s->longs : s->rows;
  const i64 most = TY_MAX(LOOK / TY_MAX(q.run, 1), 1);
  for (; lines > 0 && q.run; lines--) {
    for (i64 j = 0, n; j < s->dims[last]; j += n) {
      n = TY_MIN(most, s->dims[last] - j);
      q.y = s->y + (to + j * q.along) * s->size;
      q.x = s->src + (from + j * q.from) * s->size;
      q.at = s->index + by + j * q.by;
      if ((quiet -= n * q.run + 1) < 0) {
        if (ty_watch_stops()) return;
        quiet = LOOK;
      }
      rows(&q, n);
    }
    for (int d = last - 1; d >= 0; d--) { /* the next line; the scattered dim does not step */
      const i64 step = d == s->dim ? 0 : s->to[d];
      to += step, from += s->from[d], by += s->by[d];
      if (++at[d] < s->dims[d]) break;
      to -= step * at[d], from -= s->from[d] * at[d], by -= s->by[d] * at[d];
      at[d] = 0;
    }
  }
}

static void scatter_part(void *arg, i64 begin, i64 end) {
  Scatter s = *(const Scatter *)arg;
  const int d = s.cut;
  begin *= s.unit, end = TY_MIN(end * s.unit, s.dims[d]);
  s.y += begin * s.to[d] * s.size;
  s.src += begin * s.from[d] * s.size;
  s.index += begin * s.by[d];
  s.dims[d] = end - begin;
  scatter_all(&s);
}

/* Elements that differ in another dim than the scattered one go to different places, so threads share out such a
** dim: whose sums are added in which order does not depend on how. */
void ty_routine_scatter(int dtype, void *y, const Type *ydims, const i64 *index, const i64 *by,
                        const void *src, const Type *sdims, int dim, bool add) {
  static ScatterFn *const adds[T_COUNT] = {
#define _(NAME, name, S) [T_##NAME] = add_##name,
      STORED(_)
#undef _
  };
  dtype = ty_dtype_stored(dtype);
  const int size = ty_dtypes[dtype].bytes, rank = sdims->rank;
  ScatterFn *const set = size == 1 ? set1 : size == 2 ? set2 : size == 4 ? set4 : set8;
  Scatter s = {.y = y, .src = src, .index = index, .rank = rank, .dim = dim, .size = size};
  const i64 all = ty_type_numel(sdims), threads = all < 2 * SCATTER_GRAIN ? 1 : ty_pool_threads(0);
  if (add && size >= 4) s.sum = ty_tile_isa()->fn[P_ADD - P_ADD][ty_dtypes[dtype].ctype][0];
  s.rows = add ? adds[dtype] : set;
  s.longs = add && !s.sum ? s.rows : long_rows;
  ty_type_strides(ydims, s.to);
  ty_type_strides(sdims, s.from);
  memcpy(s.dims, sdims->dims, sizeof s.dims);
  memcpy(s.by, by, sizeof s.by);
  s.cut = -1;
  for (int d = 0; d < rank && threads > 1; d++)
    if (d != dim && s.dims[d] > (s.cut < 0 ? 1 : s.dims[s.cut])) s.cut = d;
  if (s.cut < 0) {
    if (all) scatter_all(&s);
    return;
  }
  s.unit = s.cut == rank - 1 ? LINE / size : 1;
  const i64 units = (s.dims[s.cut] + s.unit - 1) / s.unit;
  ty_pool_run(units, (units + threads - 1) / threads, scatter_part, &s);
}
