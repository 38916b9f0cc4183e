/*
** sort.c -- argsort and searchsorted.
** In:  contiguous operands. Out: y, whatever the number of threads. Only argsort can fail: when scratch memory runs
** out, with y not written.
**
** One total order serves both: every element maps to an unsigned key whose order is that of the values, -0 equal to +0,
** all NaNs equal to each other and above the rest. So ascending puts NaNs last and descending puts them first. Both are
** stable: equal elements stay in the order in which they came. What is sorted are words, half a key above a position:
** no two are equal, so any way to sort them is stable.
**
** How a row is sorted, by what it costs an element:
**   few kept of many    one by one, where one comes before the last of the best so far
**   rows side by side   eight at a time by a network of comparators, where the machine has it (sort_columns.c)
**   a short row         by insertion
**   a long row          by its bytes, lowest first. Keys of 8 bytes by their upper half, then what is equal there
**                       by insertion; where that is much, by the lower half before
*/
#include "device/cpu/tile.h"

#include <math.h>

enum {
  SHORT = 32,          /* rows up to this are sorted by insertion */
  LANES = 8,           /* rows side by side, */
  LANES_MOST = 4096,   /* of so many elements at most, */
  LANES_FEW = 3,       /* where so many are left */
  FEW_KEPT = 32,       /* up to so many of a row are kept as the best so far, */
  KEPT_SHARE = 8,      /* where that is not more than this part of it */
  SORT_GRAIN = 4096,   /* elements sorted below which no thread is woken */
  SEARCH_GRAIN = 2048, /* the same for values searched */
  LOOK = 1 << 14,      /* elements between two looks at whether to stop; and: */
  LOOK_ROWS = 64,      /* rows sorted */
  COUNTS = 4 * 256 * sizeof(u32)
};

/* Every dtype, those first that are searched by keys. */
#define BY_KEYS(_) \
  _(BOOL, bool, u8) \
  _(U8, u8, u8) \
  _(I8, i8, i8) \
  _(I16, i16, i16) \
  _(I32, i32, i32) \
  _(I64, i64, i64) \
  _(F16, f16, u16) \
  _(BF16, bf16, u16) \
  _(U16, u16, u16) \
  _(U32, u32, u32) \
  _(U64, u64, u64)
#define KEYED(_) \
  BY_KEYS(_) \
  _(F32, f32, float) \
  _(F64, f64, double)

/* ---- Keys ----------------------------------------------------------------------------------- */

/* A float's bits, as wide as given: negatives turned over, positives above them. Without a branch: signs of data cannot be
** foretold. */
#define FLOAT_KEY(type, bits, infinity) \
  const type sign = (type)((type)1 << (bits - 1)), mag = (type)(u & (type)~sign); \
  type k = (type)(u ^ ((type) - (type)(u >> (bits - 1)) | sign)); \
  k = mag ? k : sign; \
  return mag > infinity ? (type) ~(type)0 : k

static inline u64 key_bool(const u8 *p) { return *p != 0; }
static inline u64 key_u8(const u8 *p) { return *p; }
static inline u64 key_u16(const u16 *p) { return *p; }
static inline u64 key_u32(const u32 *p) { return *p; }
static inline u64 key_u64(const u64 *p) { return *p; }
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
KEYED(_)
#undef _

/* The same of a row whose keys have 4 bytes or less, as words: keys above positions from `first` on. */
#define _(NAME, name, S) \
  static void words_##name(u64 *word, const void *x, i64 first, i64 n, i64 stride, u64 flip) { \
    for (i64 i = 0; i < n; i++) \
      word[i] = (key_##name((const S *)x + i * stride) ^ flip) << 32 | (u64)(first + i); \
  }
KEYED(_)
#undef _

typedef void WordsFn(u64 *word, const void *x, i64 first, i64 n, i64 stride, u64 flip);
static WordsFn *const words_of[T_COUNT] = {
#define _(NAME, name, S) [T_##NAME] = words_##name,
    KEYED(_)
#undef _
};

typedef bool KeysFn(u64 *key, const void *x, i64 n, i64 stride, u64 flip);
static KeysFn *const keys_of[T_COUNT] = {
#define _(NAME, name, S) [T_##NAME] = keys_##name,
    KEYED(_)
#undef _
};

/* ---- argsort -------------------------------------------------------------------------------- */

typedef struct Sort {
  const char *x;
  i64 *y, rows, n, keep, inner, parts;
  char *scratch; /* for each part: */
  i64 part;      /* so many bytes */
  int size;      /* bytes of an element */
  u64 flip;      /* turns ascending into descending */
  KeysFn *keys;
  WordsFn *words;
  ColumnsFn *columns; /* sorts rows side by side, or NULL */
} Sort;

/* A row: its first element, and where its positions go. */
static const char *row_from(const Sort *s, i64 r) {
  return s->x + (r / s->inner * s->n * s->inner + r % s->inner) * s->size;
}
static i64 *row_to(const Sort *s, i64 r) {
  return s->y + r / s->inner * s->keep * s->inner + r % s->inner;
}

static i64 round_up(i64 n, i64 unit) { return (n + unit - 1) / unit * unit; }

static bool keeps_few(const Sort *s) {
  return s->size < 8 && s->keep <= FEW_KEPT && s->keep <= s->n / KEPT_SHARE;
}

/* What a part wants: the best so far; words of rows side by side; or keys, words twice, and counts for long rows. The
** last is had by rows that are left, too. */
static i64 room_bytes(const Sort *s) {
  const i64 word = sizeof(u64), one = 3 * s->n * word + (s->n > SHORT ? (i64)COUNTS : 0);
  if (keeps_few(s)) return s->keep * word;
  return s->columns ? TY_MAX(one, round_up(s->n, LANES) * LANES * word) : one;
}

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

/* Words with equal keys in their upper halves are put in the order of whole keys, and return true; false, with nothing
** done, where there are more than a few of them. */
static bool sort_equal(const u64 *key, u64 *word, i64 n) {
  for (i64 i = 0, run = 0; i < n; i++)
    if ((run = i && !((word[i] ^ word[i - 1]) >> 32) ? run + 1 : 0) >= SHORT) return false;
  for (i64 i = 1; i < n; i++) {
    const u64 w = word[i], k = key[w & 0xffffffffu];
    i64 j = i;
    for (; j > 0 && !((w ^ word[j - 1]) >> 32) && key[word[j - 1] & 0xffffffffu] > k; j--)
      word[j] = word[j - 1];
    word[j] = w;
  }
  return true;
}

/* Long rows, as words whose lower halves are positions; NULL: work is to stop. Two rounds, lower half of a key first,
** are right because each is stable. */
static u64 *sort_long(const u64 *key, u64 *order, u64 *other, i64 n, bool wide, u32 count[4][256]) {
  const int upper = wide ? 32 : 0;
  for (i64 i = 0; i < n; i++) order[i] = key[i] >> upper << 32 | (u64)i;
  u64 *y = radix(order, other, n, count);
  if (!wide || !y || sort_equal(key, y, n)) return y;
  const bool same = !((y[0] ^ y[n - 1]) >> 32);
  for (i64 i = 0; i < n; i++) order[i] = key[i] << 32 | (u64)i;
  y = radix(order, other, n, count);
  if (same || !y) return y;
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

/* Positions that sort row r, to y. False: work is to stop. */
static bool sort_row(const Sort *s, i64 r, u64 *key) {
  const i64 n = s->n, keep = s->keep, inner = s->inner;
  i64 *y = row_to(s, r);
  u64 *order = key + n;
  const u64 *sorted = order;
  bool moved;
  if (!row_keys(s, key, row_from(s, r), &moved)) return false;
  if (!moved) {
    for (i64 i = 0; i < keep; i++) y[i * inner] = i;
    return true;
  }
  if (n <= SHORT) sort_short(key, order, n);
  else sorted = sort_long(key, order, order + n, n, s->size == 8, (void *)(order + 2 * n));
  for (i64 i = 0, end; sorted && i < keep;) {
    if (!(end = piece(i, keep))) return false;
    for (; i < end; i++) y[i * inner] = (i64)(sorted[i] & 0xffffffffu);
  }
  return sorted != NULL;
}

/* Row r where few are kept: `best` is in order, and takes what comes before its last. */
static bool best_of_row(const Sort *s, i64 r, u64 *best) {
  enum { STEP = 64 };
  const i64 keep = s->keep;
  const char *x = row_from(s, r);
  i64 *y = row_to(s, r), have = 0;
  u64 next[STEP];
  for (i64 i = 0, end; i < s->n;) {
    if (!(end = piece(i, s->n))) return false;
    for (i64 n; i < end; i += n) {
      n = TY_MIN(STEP, end - i);
      s->words(next, x + i * s->inner * s->size, i, n, s->inner, s->flip);
      for (i64 j = 0; j < n; j++) {
        const u64 w = next[j];
        if (have == keep && w > best[keep - 1]) continue;
        i64 k = have < keep ? have++ : keep - 1;
        for (; k > 0 && best[k - 1] > w; k--) best[k] = best[k - 1];
        best[k] = w;
      }
    }
  }
  for (i64 i = 0; i < keep; i++) y[i * s->inner] = (i64)(best[i] & 0xffffffffu);
  return true;
}

/* Rows [r, r + count) side by side, eight at most; they are turned by way of a block. */
static void sort_rows(const Sort *s, i64 r, i64 count, u64 *word) {
  enum { BLOCK_WORDS = 32 };
  const i64 n = s->n, inner = s->inner, whole = round_up(n, LANES);
  const i64 step = inner > 1 ? 8 : BLOCK_WORDS; /* while lines of memory are near */
  TurnFn *const turn = ty_tile_isa()->turn[1];
  u64 block[LANES][BLOCK_WORDS] = {{0}};
  for (i64 i = 0, m; i < n; i += m) {
    m = TY_MIN(step, n - i);
    for (i64 k = 0; k < count; k++)
      s->words(block[k], row_from(s, r + k) + i * inner * s->size, i, m, inner, s->flip);
    turn(word + i * LANES, LANES, block, BLOCK_WORDS, round_up(m, LANES), LANES);
  }
  memset(word + n * LANES, 0xff, (size_t)((whole - n) * LANES) * sizeof *word);
  s->columns(word, whole);
  for (i64 i = 0, m; i < s->keep; i += m) {
    m = TY_MIN(step, s->keep - i);
    turn(block, BLOCK_WORDS, word + i * LANES, LANES, LANES, round_up(m, LANES));
    for (i64 k = 0; k < count; k++) {
      i64 *y = row_to(s, r + k) + i * inner;
      if (inner == 1)
        for (i64 j = 0; j < m; j++) y[j] = (i64)(block[k][j] & 0xffffffffu);
      else
        for (i64 j = 0; j < m; j++) y[j * inner] = (i64)(block[k][j] & 0xffffffffu);
    }
  }
}

/* Parts [begin, end): each has its share of the rows, and scratch of its own. */
static void sort_parts(void *arg, i64 begin, i64 end) {
  const Sort *s = arg;
  const bool few = keeps_few(s);
  for (i64 p = begin; p < end; p++) {
    u64 *room = (u64 *)(void *)(s->scratch + p * s->part);
    const i64 each = s->rows / s->parts, more = s->rows % s->parts;
    const i64 r0 = p * each + TY_MIN(p, more), r1 = r0 + each + (p < more);
    for (i64 r = r0, n, quiet = 0; r < r1; r += n, quiet += n) {
      if (quiet >= LOOK_ROWS && ty_watch_stops()) return;
      if (quiet >= LOOK_ROWS) quiet = 0;
      n = TY_MIN(LANES, r1 - r);
      if (s->columns && !few && n >= LANES_FEW) sort_rows(s, r, n, room);
      else if (n = 1, !(few ? best_of_row(s, r, room) : sort_row(s, r, room))) return;
    }
  }
}

bool ty_routine_argsort(int dtype, const void *x, i64 *y, i64 outer, i64 n, i64 keep, i64 inner,
                        bool descending) {
  Sort s = {.x = x, .y = y, .rows = outer * inner, .n = n, .keep = keep, .inner = inner};
  if (!s.rows || !n || !keep) return true;
  /* Positions are held in 32 bits. A longer row would want over 100 GB of scratch and result. */
  if (n > UINT32_MAX) return false;
  s.size = ty_dtypes[dtype].bytes;
  s.keys = keys_of[dtype];
  s.words = words_of[dtype];
  s.columns = s.size < 8 && n <= LANES_MOST && s.rows >= LANES_FEW ? ty_tile_isa()->columns : NULL;
  s.flip = descending ? ~(u64)0 : 0;
  if (descending && s.size < 8) s.flip >>= 64 - 8 * s.size;
  const i64 threads = s.rows * n < 2 * SORT_GRAIN ? 1 : ty_pool_threads(0);
  s.parts = TY_MIN(s.rows, threads);
  u64 few[LANES * SHORT];
  s.part = room_bytes(&s);
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

/* How many elements of a row lie below each value (right: below or at it). No branch depends on the data, as none could
** be foretold, nor does the number of steps: so values are searched in turn, ABREAST of them. What lies at a value lies below
** the next one, NEXT(value); where there is none, LAST(value), the answer is REST(value).
** K: what is compared, LOOK(p) in what lies at p. */
#define ABREAST(S) (sizeof(S) < 4 ? 1 : 4)
#define SEARCH(name, S, K, LOOK, NEXT, LAST, REST) \
  static void name(void *arg, i64 begin, i64 end) { \
    const Search *s = arg; \
    const i64 right = s->right; \
    for (i64 i = begin, some; i < end; i += some) { \
      const S *row = (const S *)s->sorted + i / s->m * s->n, *value = (const S *)s->v + i; \
      some = TY_MIN(TY_MIN(end, (i / s->m + 1) * s->m) - i, (i64)ABREAST(S)); \
      K key[ABREAST(S)]; \
      const S *at[ABREAST(S)]; \
      for (int j = 0; j < (int)ABREAST(S); j++) { \
        key[j] = LOOK(value + TY_MIN(j, some - 1)); \
        at[j] = row, key[j] = right ? NEXT(key[j]) : key[j]; \
      } \
      for (i64 n = s->n, half; n > 0; n -= half) { \
        half = (n + 1) >> 1; \
        _Pragma("GCC unroll 4") for (int j = 0; j < (int)ABREAST(S); j++) { \
          const S *const behind = at[j] + half; \
          at[j] = LOOK(behind - 1) < key[j] ? behind : at[j]; \
        } \
      } \
      for (i64 j = 0; j < some; j++) \
        s->y[i + j] = LAST(LOOK(value + j)) ? REST(value[j]) : at[j] - row; \
    } \
  }

/* Floats are compared as they are. Behind infinity lies NaN, behind NaN nothing. */
#define FLOAT_SEARCH(name, S, U) \
  static S next_##name(S v) { \
    U u; \
    memcpy(&u, &v, sizeof u); \
    u = v == 0 ? 1 : v > 0 ? u + 1 : u - 1; \
    memcpy(&v, &u, sizeof u); \
    return v; \
  } \
  static i64 numbers_##name(const S *row, i64 n) { \
    i64 low = 0; \
    for (i64 half; n > 0; n -= half) { \
      half = (n + 1) >> 1; \
      if (row[low + half - 1] == row[low + half - 1]) low += half; \
    } \
    return low; \
  } \
  SEARCH(search_##name, S, S, AS_IT_IS, next_##name, BEHIND_ALL, FLOAT_REST_##name)
#define AS_IT_IS(p) (*(p))
#define BEHIND_ALL(v) ((v) != (v) || (right && (v) == INFINITY))
#define FLOAT_REST_f32(v) ((v) != (v) && right ? s->n : numbers_f32(row, s->n))
#define FLOAT_REST_f64(v) ((v) != (v) && right ? s->n : numbers_f64(row, s->n))
FLOAT_SEARCH(f32, float, u32)
FLOAT_SEARCH(f64, double, u64)

#define NEXT_KEY(k) ((k) + 1)
#define LAST_KEY(k) (right && (k) == ~(u64)0)
#define WHOLE_ROW(v) (s->n)
#define _(NAME, name, S) SEARCH(search_##name, S, u64, key_##name, NEXT_KEY, LAST_KEY, WHOLE_ROW)
BY_KEYS(_)
#undef _

void ty_routine_searchsorted(int dtype, const void *sorted, const void *v, i64 *y, i64 rows, i64 n,
                             i64 m, bool right) {
  static PoolFn *const search[T_COUNT] = {
#define _(NAME, name, S) [T_##NAME] = search_##name,
      KEYED(_)
#undef _
  };
  Search s = {sorted, v, y, n, m, right};
  if (rows && m) ty_pool_run(rows * m, SEARCH_GRAIN, search[dtype], &s);
}
