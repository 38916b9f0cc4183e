/*
** routines.c -- routines that are no loop programs: argsort, searchsorted, scatter.
** In:  contiguous operands, but for the index of a scatter; positions count from 0 and are checked already.
** Out: y, whatever the number of threads. Only argsort can fail: when scratch memory runs out, with
** y not written.
**
** One total order serves both sorting and searching: every element maps to an unsigned key whose
** order is that of the values, -0 equal to +0, all NaNs equal to each other and above the rest.
** So ascending puts NaNs last and descending puts them first. Both are stable: equal elements stay
** in the order in which they came.
*/
#include "device/cpu/tile.h"

enum {
  SHORT = 32,                /* rows up to this are sorted by insertion */
  SORT_GRAIN = 4096,         /* elements sorted below which no thread is woken */
  SEARCH_GRAIN = 2048,       /* the same for values searched */
  SCATTER_GRAIN = 8192,      /* the same for elements scattered */
  LINE = 64,                 /* bytes that threads do not share */
  LOOK = 1 << 18,            /* elements between two looks at whether to stop; and: */
  LOOK_ROWS = 64,            /* rows sorted */
  SCRATCH = 3 * sizeof(u64), /* bytes an element being sorted: its key and two places */
  COUNTS = 4 * 256 * sizeof(u32)
};

/* ---- Keys ----------------------------------------------------------------------------------- */

/* A float's bits, as wide as given: negatives turned over, positives above them. */
#define FLOAT_KEY(type, bits, infinity) \
  const type sign = (type)((type)1 << (bits - 1)), mag = (type)(u & (type)~sign); \
  if (mag > infinity) return (type) ~(type)0; \
  if (!mag) return sign; \
  return u & sign ? (type)~u : (type)(u | sign)

static inline u64 key_bool(const u8 *p) { return *p != 0; }
static inline u64 key_u8(const u8 *p) { return *p; }
static inline u64 key_i8(const i8 *p) { return (u8)(*p ^ 0x80); }
static inline u64 key_i16(const i16 *p) { return (u16)(*p ^ 0x8000); }
static inline u64 key_i32(const i32 *p) { return (u32)*p ^ 0x80000000u; }
static inline u64 key_i64(const i64 *p) { return (u64)*p ^ 0x8000000000000000u; }
static inline u64 key_f16(const u16 *p) {
  const u16 u = *p;
  FLOAT_KEY(u16, 16, 0x7c00);
}
static inline u64 key_bf16(const u16 *p) {
  const u16 u = *p;
  FLOAT_KEY(u16, 16, 0x7f80);
}
static inline u64 key_f32(const float *p) {
  u32 u;
  memcpy(&u, p, 4);
  FLOAT_KEY(u32, 32, 0x7f800000u);
}
static inline u64 key_f64(const double *p) {
  u64 u;
  memcpy(&u, p, 8);
  FLOAT_KEY(u64, 64, 0x7ff0000000000000u);
}

/* What is done for every dtype: its name here, and how an element is stored. */
#define STORED(_) \
  _(BOOL, bool, u8) \
  _(U8, u8, u8) \
  _(I8, i8, i8) \
  _(I16, i16, i16) \
  _(I32, i32, i32) \
  _(I64, i64, i64) \
  _(F16, f16, u16) \
  _(BF16, bf16, u16) \
  _(F32, f32, float) \
  _(F64, f64, double)

/* Keys of n elements a stride apart; exchanged by `flip`. False when they ascend already. */
#define _(NAME, name, S) \
  static bool keys_##name(u64 *key, const void *x, i64 n, i64 stride, u64 flip) { \
    bool moved = false; \
    u64 last = 0; \
    for (i64 i = 0; i < n; i++) { \
      const u64 k = key_##name((const S *)x + i * stride) ^ flip; \
      moved |= k < last; \
      key[i] = last = k; \
    } \
    return moved; \
  }
STORED(_)
#undef _

typedef bool KeysFn(u64 *key, const void *x, i64 n, i64 stride, u64 flip);
static KeysFn *const keys_of[T_COUNT] = {
#define _(NAME, name, S) [T_##NAME] = keys_##name,
    STORED(_)
#undef _
};

/* ---- argsort -------------------------------------------------------------------------------- */

typedef struct Sort {
  const char *x;
  i64 *y, rows, n, inner, parts;
  char *scratch; /* for each part: */
  i64 part;      /* so many bytes: 3 n words, and counts for long rows */
  int size;      /* bytes of an element */
  u64 flip;      /* turns ascending into descending */
  KeysFn *keys;
} Sort;

/* The end of the piece of a long row that begins at element i; 0: work is to stop. */
static inline i64 piece(i64 i, i64 n) { return i && ty_watch_stops() ? 0 : TY_MIN(i + LOOK, n); }

/* Sorts `from` by its upper four bytes, stably, a byte at a time from the lowest; a byte that all
** elements share costs nothing. Returns where the result lies: in `from` or in `to`; NULL: work is to stop. */
static u64 *radix(u64 *from, u64 *to, i64 n, u32 count[4][256]) {
  memset(count, 0, 4 * sizeof *count);
  for (i64 i = 0, end; i < n;) {
    if (!(end = piece(i, n))) return NULL;
    for (; i < end; i++) {
      const u64 e = from[i];
      count[0][e >> 32 & 255]++;
      count[1][e >> 40 & 255]++;
      count[2][e >> 48 & 255]++;
      count[3][e >> 56]++;
    }
  }
  for (int b = 0; b < 4; b++) {
    const int shift = 32 + 8 * b;
    if (count[b][from[0] >> shift & 255] == n) continue;
    u32 at[256], sum = 0;
    for (int v = 0; v < 256; v++) {
      at[v] = sum;
      sum += count[b][v];
    }
    for (i64 i = 0, end; i < n;) {
      if (!(end = piece(i, n))) return NULL;
      for (; i < end; i++) to[at[from[i] >> shift & 255]++] = from[i];
    }
    u64 *t = from;
    from = to;
    to = t;
  }
  return from;
}

/* Short rows: positions go where they belong one after another. */
static void sort_short(const u64 *key, u64 *order, i64 n) {
  for (i64 i = 0; i < n; i++) {
    i64 j = i;
    for (; j > 0 && key[order[j - 1]] > key[i]; j--) order[j] = order[j - 1];
    order[j] = (u64)i;
  }
}

/* Long rows: half a key above a position makes a word; 64-bit keys go in two rounds, lower half
** first, which is right because each is stable. Returns words whose lower halves are positions; NULL: work is to stop. */
static u64 *sort_long(const u64 *key, u64 *order, u64 *other, i64 n, bool wide, u32 count[4][256]) {
  for (i64 i = 0; i < n; i++) order[i] = key[i] << 32 | (u64)i;
  u64 *y = radix(order, other, n, count);
  if (!wide || !y) return y;
  for (i64 i = 0, end; i < n;) {
    if (!(end = piece(i, n))) return NULL;
    for (; i < end; i++) {
      const u64 at = y[i] & 0xffffffffu;
      y[i] = key[at] >> 32 << 32 | at;
    }
  }
  return radix(y, y == order ? other : order, n, count);
}

/* The keys of a row; *moved: whether they do not ascend already. False: work is to stop. */
static bool row_keys(const Sort *s, u64 *key, const char *x, bool *moved) {
  const i64 stride = s->inner * s->size;
  *moved = false;
  for (i64 i = 0, end; i < s->n; i = end) {
    if (!(end = piece(i, s->n))) return false;
    *moved |= s->keys(key + i, x + i * stride, end - i, s->inner, s->flip);
    *moved |= i && key[i] < key[i - 1];
  }
  return true;
}

/* Positions that sort the row at x, to y. False: work is to stop. */
static bool sort_row(const Sort *s, const char *x, i64 *y, u64 *key) {
  const i64 n = s->n, inner = s->inner;
  u64 *order = key + n;
  const u64 *sorted = order;
  bool moved;
  if (!row_keys(s, key, x, &moved)) return false;
  if (!moved) {
    for (i64 i = 0; i < n; i++) y[i * inner] = i;
    return true;
  }
  if (n <= SHORT) sort_short(key, order, n);
  else sorted = sort_long(key, order, order + n, n, s->size == 8, (void *)(order + 2 * n));
  for (i64 i = 0, end; sorted && i < n;) {
    if (!(end = piece(i, n))) return false;
    for (; i < end; i++) y[i * inner] = (i64)(sorted[i] & 0xffffffffu);
  }
  return sorted != NULL;
}

/* Parts [begin, end): each has its share of the rows, and scratch of its own. */
static void sort_parts(void *arg, i64 begin, i64 end) {
  const Sort *s = arg;
  const i64 n = s->n, inner = s->inner;
  for (i64 p = begin; p < end; p++) {
    u64 *key = (u64 *)(void *)(s->scratch + p * s->part);
    const i64 each = s->rows / s->parts, more = s->rows % s->parts;
    const i64 r0 = p * each + TY_MIN(p, more), r1 = r0 + each + (p < more);
    for (i64 r = r0; r < r1; r++) {
      const i64 start = r / inner * n * inner + r % inner;
      if (r % LOOK_ROWS == 0 && ty_watch_stops()) return;
      if (!sort_row(s, s->x + start * s->size, s->y + start, key)) return;
    }
  }
}

bool ty_routine_argsort(int dtype, const void *x, i64 *y, i64 outer, i64 n, i64 inner,
                        bool descending) {
  Sort s = {.x = x, .y = y, .rows = outer * inner, .n = n, .inner = inner};
  if (!s.rows || !n) return true;
  /* Positions are held in 32 bits. A longer row would want over 100 GB of scratch and result. */
  if (n > UINT32_MAX) return false;
  s.size = ty_dtypes[dtype].bytes;
  s.keys = keys_of[dtype];
  s.flip = descending ? ~(u64)0 : 0;
  if (descending && s.size < 8) s.flip >>= 64 - 8 * s.size;
  const i64 threads = s.rows * n < 2 * SORT_GRAIN ? 1 : ty_pool_threads(0);
  s.parts = TY_MIN(s.rows, threads);
  u64 few[3 * SHORT];
  s.part = n * SCRATCH + (n > SHORT ? COUNTS : 0);
  const i64 bytes = s.parts * s.part;
  const bool is_few = bytes <= (i64)sizeof few;
  s.scratch = is_few ? (char *)few : ty_buf_pieces(s.parts, s.part, &s.part);
  if (!s.scratch) return false;
  ty_pool_run(s.parts, 1, sort_parts, &s);
  if (!is_few) ty_buf_free(s.scratch, bytes);
  return true;
}

/* ---- searchsorted --------------------------------------------------------------------------- */

typedef struct Search {
  const void *sorted, *v;
  i64 *y, n, m;
  bool right;
} Search;

/* How many elements of a row lie below each value (right: below or at it). No branch depends on the
** data, as none could be foretold. */
#define _(NAME, name, S) \
  static void search_##name(void *arg, i64 begin, i64 end) { \
    const Search *s = arg; \
    for (i64 i = begin; i < end; i++) { \
      const S *row = (const S *)s->sorted + i / s->m * s->n; \
      const u64 key = key_##name((const S *)s->v + i); \
      i64 low = 0; \
      for (i64 n = s->n; n > 0;) { \
        const i64 half = n / 2; \
        const u64 k = key_##name(row + low + half); \
        const bool above = s->right ? k <= key : k < key; \
        low = above ? low + half + 1 : low; \
        n = above ? n - half - 1 : half; \
      } \
      s->y[i] = low; \
    } \
  }
STORED(_)
#undef _

void ty_routine_searchsorted(int dtype, const void *sorted, const void *v, i64 *y, i64 rows, i64 n,
                             i64 m, bool right) {
  static PoolFn *const search[T_COUNT] = {
#define _(NAME, name, S) [T_##NAME] = search_##name,
      STORED(_)
#undef _
  };
  Search s = {sorted, v, y, n, m, right};
  if (rows && m) ty_pool_run(rows * m, SEARCH_GRAIN, search[dtype], &s);
}

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
