/*
** gemm_amx.c -- bf16 products on the matrix unit of the processor, else by its dot products.
** In:  a Gemm with `amx` set, as ty_gemm has it.  Out: y, with the roundings of that unit, the same
** bits whatever the threads, strides, batching, panels. Fails only when scratch memory runs out,
** before anything is written, or when the epilogue does.
**
** What a unit computes differs from the canonical order, so it runs only where it was asked for
** when the product was recorded. Denormals, read or made, are zero. k goes in steps of 32, zeros
** filling the last; the sum starts from +0 and is rounded to bf16 once, at the end.
**   AMX          in a step the elements at even and at odd k are each summed by fma, ascending from
**                +0; the two sums are added, then the step's sum to the element of the product, in
**                f32.
**   AVX512-BF16  pair after pair, by vdpbf16ps: fma of the element at odd k on top of the sum, then of
**                the one before it, at even k. (The manual's order; processors of both makers keep it.)
**
** A product is cut into units of work of up to MC x NC elements, which threads take. b is packed
** ahead, in panels of 32 columns; a by each unit, a block of KSTEPS steps of k at a time: a block
** sits in L2, a panel's block in L1 while it goes down the rows; meanwhile the next one is called into
** the cache. Sums lie in scratch.
**
** The processor must have the unit. For AMX the system must save its registers, and a process has to
** ask for them once: the kernel then lets it, or not. State is given back after each run over units,
** so that a switch of threads stays cheap. TYCHO_AMX says which: `emulate` computes what AMX would in
** C, for tests on any machine, `emulate-dots` what AVX512-BF16 would; `dots` does without AMX, `off`
** without either.
*/
#include "device/cpu/gemm.h"
#include "base/system.h"

#include <math.h>
#include <stdlib.h>

#if defined(__x86_64__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#define HAS_UNIT
#include <immintrin.h>
#endif

enum {
  TILE_ROWS = 16,
  TILE_COLS = 16,        /* f32 sums, or pairs of bf16 */
  STEP = 32,             /* of k, in one tile */
  TILE = 512,            /* bf16 elements of a tile */
  PANEL = 2 * TILE_COLS, /* columns of a panel of b */
  KSTEPS = 16,           /* of a block of k: a panel's block takes 32 KB */
  MC = 256,              /* rows and columns of a unit of work */
  NC = 512,
  PACK_BYTES = 32 << 20,  /* most bytes of b packed at a time */
  PANEL_ROWS = 2048,      /* rows up to which packing b is a noticeable share of the work */
  SPEED = 1000000,        /* multiply-adds in a microsecond, roughly */
  TASK_MICROSECONDS = 20, /* work below this is not worth waking a thread for */
  TILES_EACH = 4,         /* units a thread, to even out the load */
};

typedef u32 Word16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef u16 Half16 __attribute__((vector_size(32), aligned(2), may_alias));
typedef float Float16 __attribute__((vector_size(64), aligned(4), may_alias));

/* What a unit offers. */
typedef struct Unit {
  void (*configure)(void); /* on the thread that is about to use tiles */
  void (*release)(void);
  /* Adds `steps` of k for rows x cols tiles, of which there are one or two each way. Meanwhile the
  ** lines from `next`, which will be wanted, may be called into the cache. */
  void (*block)(i64 steps, const u16 *a, const u16 *b, float *y, i64 yrs, int rows, int cols,
                bool first, const char *next, i64 lines);
  void (*narrow)(u16 *y, const float *x, i64 n);
  void (*pair_rows)(u16 *y, const u16 *row, const u16 *next);
} Unit;

/* ---- Sums, and pairs --------------------------------------------------------------------------- */

/* n sums rounded to bf16, as ty_f32_to_bf16 does. Pairs of a row-major second operand: two rows of 16
** elements into one of a tile. */
#define PACKING(KIND, ATTR) \
  static ATTR void narrow_##KIND(u16 *y, const float *x, i64 n) { \
    i64 i = 0; \
    for (; i + 16 <= n; i += 16) { \
      Word16 u = *(const Word16 *)(x + i), wrong = (Word16)((u & 0x7fffffff) > 0x7f800000); \
      Word16 r = (u + 0x7fff + (u >> 16 & 1)) >> 16; \
      r = (r & ~wrong) | (wrong & 0x7fc0); \
      *(Half16 *)(y + i) = __builtin_convertvector(r, Half16); \
    } \
    for (; i < n; i++) y[i] = ty_f32_to_bf16(x[i]); \
  } \
  static ATTR void pair_rows_##KIND(u16 *y, const u16 *row, const u16 *next) { \
    Word16 low = __builtin_convertvector(*(const Half16 *)row, Word16); \
    Word16 high = __builtin_convertvector(*(const Half16 *)next, Word16); \
    *(Word16 *)y = low | high << 16; \
  }

#if defined(HAS_UNIT)
PACKING(wide, __attribute__((target("avx512f,avx512vl,avx512bw"))))
#define NARROW narrow_wide
#define PAIR_ROWS pair_rows_wide

/* ---- Dot products of pairs --------------------------------------------------------------------- */

/* Operands lie as tiles do: the first 16 rows by 32 elements of k, the second 16 pairs of k by 16
** columns. Half a tile's rows by two tiles' columns are summed in registers, pair after pair; sums are
** kept as they are between calls, so that any cut of k gives the same bits. */
enum { DOT_ROWS = TILE_ROWS / 2 };
#define DOTS __attribute__((target("avx512bf16,avx512f,avx512vl,avx512bw")))
#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < DOT_ROWS; r++)
#define DOT_PAIRS(sum, a, b) \
  sum = (Float16)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_epi32((int)(a)), \
                                  (__m512bh)(b))

static inline __attribute__((always_inline)) DOTS void
dots_rows(i64 steps, const u16 *a, const u16 *b, float *y, i64 yrs, const int cols, bool first) {
  Float16 sum[DOT_ROWS][2];
  EACH_ROW {
    sum[r][0] = first ? (Float16){0} : *(const Float16 *)(y + r * yrs);
    sum[r][1] = first || cols == 1 ? (Float16){0} : *(const Float16 *)(y + r * yrs + TILE_COLS);
  }
  for (i64 s = 0; s < steps; s++, a += TILE, b += 2 * TILE)
    for (int p = 0; p < STEP; p += 2) {
      Word16 b0 = *(const Word16 *)(b + p * TILE_COLS), b1 = b0;
      if (cols == 2) b1 = *(const Word16 *)(b + TILE + p * TILE_COLS);
      EACH_ROW {
        u32 x;
        memcpy(&x, a + r * STEP + p, sizeof x);
        DOT_PAIRS(sum[r][0], x, b0);
        if (cols == 2) DOT_PAIRS(sum[r][1], x, b1);
      }
    }
  EACH_ROW {
    *(Float16 *)(y + r * yrs) = sum[r][0];
    if (cols == 2) *(Float16 *)(y + r * yrs + TILE_COLS) = sum[r][1];
  }
}

static DOTS void block_dots(i64 steps, const u16 *a, const u16 *b, float *y, i64 yrs, int rows,
                            int cols, bool first, const char *next, i64 lines) {
  for (int r = 0; r < rows * TILE_ROWS; r += DOT_ROWS) {
    const u16 *from = a + r / TILE_ROWS * steps * TILE + r % TILE_ROWS * STEP;
    for (i64 u = lines / ((rows * TILE_ROWS - r) / DOT_ROWS); u > 0; u--, lines--, next += 64)
      __builtin_prefetch(next);
    if (cols == 2) dots_rows(steps, from, b, y + r * yrs, yrs, 2, first);
    else dots_rows(steps, from, b, y + r * yrs, yrs, 1, first);
  }
}

static void nothing(void) {}

static const Unit unit_dots = {nothing, nothing, block_dots, NARROW, PAIR_ROWS};

/* ---- Tiles ------------------------------------------------------------------------------------- */

/* All tiles are full: 16 rows of 64 bytes. */
static const struct {
  u8 palette, start_row, zero[14];
  u16 colsb[16];
  u8 rows[16];
} __attribute__((aligned(64))) full_tiles = {
    .palette = 1,
    .colsb = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

#define UNIT processor
#define INLINE inline __attribute__((always_inline))
#define ATTR __attribute__((target("amx-tile,amx-bf16,avx512f,avx512vl,avx512bw")))
#define TILES (void)0
#define ZERO(t) _tile_zero(t)
#ifdef _WIN32 /* where the strides of GCC's own are half as long as addresses */
#define LOAD(t, p, stride) \
  __asm__ volatile("tileloadd (%0, %1), %%tmm" #t : : "r"(p), "r"((i64)(stride)))
#define STORE(t, p, stride) \
  __asm__ volatile("tilestored %%tmm" #t ", (%0, %1)" : : "r"(p), "r"((i64)(stride)) : "memory")
#else
#define LOAD(t, p, stride) _tile_loadd(t, p, stride)
#define STORE(t, p, stride) _tile_stored(t, p, stride)
#endif
#define DOT(c, a, b) _tile_dpbf16ps(c, a, b)
#define CONFIGURE _tile_loadconfig(&full_tiles)
#define RELEASE _tile_release()
/* Compilers do not all know that tiles are loaded from memory and stored there. */
#define FENCE __asm__ volatile("" ::: "memory")
#include "kernels/gemm_amx.h"
#undef NARROW
#undef PAIR_ROWS
#endif

PACKING(plain, )
#define NARROW narrow_plain
#define PAIR_ROWS pair_rows_plain

/* Where a tile is loaded from and stored to; the sums of one are made there. */
typedef struct Tile {
  char *p;
  i64 stride;
} Tile;

/* Denormals are zero, with their sign. */
static inline float flushed(float x) {
  u32 u;
  memcpy(&u, &x, 4);
  if (!(u & 0x7f800000)) u &= 0x80000000;
  memcpy(&x, &u, 4);
  return x;
}

static inline float bf16_at(const u16 *p) { return flushed(ty_bf16_to_f32(*p)); }

/* Row r as u16: pairs of k for each column. */
static const u16 *tile_row(const Tile *t, int r) { return (const u16 *)(t->p + r * t->stride); }

static void tile_zero(const Tile *t) {
  for (int r = 0; r < TILE_ROWS; r++) memset(t->p + r * t->stride, 0, TILE_COLS * 4);
}

/* The elements at even and at odd k, flushed. */
static void tile_split(const Tile *t, float even[][TILE_COLS], float odd[][TILE_COLS]) {
  for (int r = 0; r < TILE_ROWS; r++)
    for (int c = 0; c < TILE_COLS; c++) {
      even[r][c] = bf16_at(tile_row(t, r) + 2 * c);
      odd[r][c] = bf16_at(tile_row(t, r) + 2 * c + 1);
    }
}

/* Doubles stand for fma: they hold the product of two bf16, and its sum with an f32 but for bits so
** far below that they cannot make or break a tie of f32. */
static void tile_dot(const Tile *c, const Tile *a, const Tile *b) {
  float b0[TILE_ROWS][TILE_COLS], b1[TILE_ROWS][TILE_COLS];
  tile_split(b, b0, b1);
  for (int m = 0; m < TILE_ROWS; m++) {
    float even[TILE_COLS] = {0}, odd[TILE_COLS] = {0}, sum[TILE_COLS];
    for (int k = 0; k < STEP / 2; k++) {
      const double a0 = bf16_at(tile_row(a, m) + 2 * k), a1 = bf16_at(tile_row(a, m) + 2 * k + 1);
      for (int n = 0; n < TILE_COLS; n++) {
        even[n] = flushed((float)(a0 * (double)b0[k][n] + (double)even[n]));
        odd[n] = flushed((float)(a1 * (double)b1[k][n] + (double)odd[n]));
      }
    }
    memcpy(sum, c->p + m * c->stride, sizeof sum);
    for (int n = 0; n < TILE_COLS; n++)
      sum[n] = flushed(flushed(sum[n]) + flushed(even[n] + odd[n]));
    memcpy(c->p + m * c->stride, sum, sizeof sum);
  }
}

#define UNIT emulated
#define INLINE __attribute__((noinline))
#define ATTR
#define TILES \
  Tile tile[8] = {{(char *)y, stride}, \
                  {(char *)(y + TILE_COLS), stride}, \
                  {(char *)y1, stride}, \
                  {(char *)(y1 + TILE_COLS), stride}}
#define ZERO(t) tile_zero(&tile[t])
#define LOAD(t, p, stride) \
  tile[t] = (Tile) { (char *)(uintptr_t)(p), stride }
#define STORE(t, p, stride) (void)0
#define DOT(c, a, b) tile_dot(&tile[c], &tile[a], &tile[b])
#define CONFIGURE (void)0
#define RELEASE (void)0
#define FENCE (void)0
#include "kernels/gemm_amx.h"

/* fma, denormals being zero before it and after: what is too small is told at 24 bits, as if exponents
** went on. */
static float fused(float a, float b, float c) {
  double exact = (double)flushed(a) * (double)flushed(b) + (double)flushed(c);
  if (exact >= 0x1p-125 || exact <= -0x1p-125 || exact != exact) return (float)exact;
  float up = (float)(exact * 0x1p64);
  if (up < 0x1p-62f && up > -0x1p-62f)
    return exact < 0 || (exact == 0 && signbit(exact)) ? -0.0f : 0.0f;
  return up * 0x1p-64f;
}

/* A pair of k for one sum. */
static float dot_pair(float sum, const u16 *a, const u16 *b) {
  sum = fused(ty_bf16_to_f32(a[1]), ty_bf16_to_f32(b[1]), sum);
  return fused(ty_bf16_to_f32(a[0]), ty_bf16_to_f32(b[0]), sum);
}

static void block_emulated_dots(i64 steps, const u16 *a, const u16 *b, float *y, i64 yrs, int rows,
                                int cols, bool first, const char *next, i64 lines) {
  (void)next, (void)lines;
  for (int r = 0; r < rows * TILE_ROWS; r++)
    for (int c = 0; c < cols * TILE_COLS; c++) {
      const u16 *x = a + r / TILE_ROWS * steps * TILE + r % TILE_ROWS * STEP;
      const u16 *z = b + c / TILE_COLS * TILE + c % TILE_COLS * 2;
      float sum = first ? 0 : y[r * yrs + c];
      for (i64 s = 0; s < steps; s++)
        for (int p = 0; p < STEP; p += 2)
          sum = dot_pair(sum, x + s * TILE + p, z + 2 * s * TILE + p * TILE_COLS);
      y[r * yrs + c] = sum;
    }
}

static const Unit unit_emulated_dots = {configure_emulated, release_emulated, block_emulated_dots,
                                        NARROW, PAIR_ROWS};

/* ---- Which unit is there? --------------------------------------------------------------------- */

static struct {
  Once once;
  const Unit *unit;    /* NULL: there is none */
  const char *refusal; /* why it is not AMX; static text */
} known = {.once = ONCE_INIT};

static const char *ask(void) {
#if defined(HAS_UNIT)
  return ty_cpu_amx();
#else
  return "the library was built without AMX";
#endif
}

#if defined(HAS_UNIT)
/* Whether the processor has dot products of bf16, and nobody asked for less. */
static bool has_dots(void) {
  const char *isa = getenv("TYCHO_ISA");
  return ty_cpu_has(CPU_AVX512 | CPU_AVX512_BF16) && !(isa && strcmp(isa, "avx512"));
}
#endif

static void find_unit(void) {
  const char *want = getenv("TYCHO_AMX");
  if (!want) want = "";
  if (!strcmp(want, "emulate")) {
    known.unit = &unit_emulated;
    return;
  }
  known.refusal = *want ? "TYCHO_AMX says otherwise" : ask();
  if (!strcmp(want, "off")) known.refusal = "TYCHO_AMX is off";
  else if (!strcmp(want, "emulate-dots")) known.unit = &unit_emulated_dots;
#if defined(HAS_UNIT)
  else if (!known.refusal) known.unit = &unit_processor;
  else if (has_dots()) known.unit = &unit_dots;
#endif
}

static const Unit *the_unit(void) {
  ty_once(&known.once, find_unit);
  return known.unit;
}

const char *ty_amx_refusal(void) {
  the_unit();
  return known.refusal;
}

const char *ty_bf16_unit(void) {
  if (!the_unit()) return NULL;
  return known.refusal ? "AVX512-BF16" : "AMX";
}

bool ty_bf16_emulated(void) {
  return the_unit() == &unit_emulated || the_unit() == &unit_emulated_dots;
}

/* ---- Packing ---------------------------------------------------------------------------------- */

static i64 round_up(i64 n, i64 to) { return (n + to - 1) / to * to; }
static i64 ceil_div(i64 n, i64 by) { return (n + by - 1) / by; }

/* Rows [0, m) of a, `steps` of k of which the last may be cut: tiles, a row of them behind the
** other. */
static void pack_a(u16 *y, const u16 *a, i64 rs, i64 cs, i64 m, i64 k, i64 steps) {
  for (i64 i = 0; i < m; i += TILE_ROWS)
    for (i64 s = 0; s < steps; s++, y += TILE) {
      const i64 rows = TY_MIN(TILE_ROWS, m - i), n = TY_MIN(STEP, k - s * STEP);
      const u16 *x = a + i * rs + s * STEP * cs;
      if (rows < TILE_ROWS || n < STEP) memset(y, 0, TILE * sizeof *y);
      if (cs == 1) {
        for (i64 r = 0; r < rows; r++) memcpy(y + r * STEP, x + r * rs, (size_t)n * sizeof *y);
      } else {
        for (i64 j = 0; j < n; j++)
          for (i64 r = 0; r < rows; r++) y[r * STEP + j] = x[r * rs + j * cs];
      }
    }
}

/* One tile of b: n elements of k, w columns. */
static void pack_tile(const Unit *U, u16 *y, const u16 *b, i64 rs, i64 cs, i64 n, i64 w) {
  if (cs == 1 && n == STEP && w == TILE_COLS) {
    for (i64 p = 0; p < STEP; p += 2) U->pair_rows(y + p * TILE_COLS, b + p * rs, b + (p + 1) * rs);
    return;
  }
  if (n < STEP || w < TILE_COLS) memset(y, 0, TILE * sizeof *y);
  if (rs == 1 && n == STEP) { /* pairs lie there already, a column of them behind the other */
    for (i64 j = 0; j < w; j++)
      for (i64 p = 0; p < STEP; p += 2) memcpy(y + p * TILE_COLS + 2 * j, b + p + j * cs, 4);
    return;
  }
  for (i64 i = 0; i < n; i++)
    for (i64 j = 0; j < w; j++) y[i / 2 * 2 * TILE_COLS + 2 * j + i % 2] = b[i * rs + j * cs];
}

/* A panel: for each step of k its two tiles. */
static void pack_panel(const Unit *U, u16 *y, const u16 *b, i64 rs, i64 cs, i64 k, i64 w) {
  for (i64 k0 = 0; k0 < k; k0 += STEP)
    for (i64 j = 0; j < PANEL; j += TILE_COLS, y += TILE)
      pack_tile(U, y, b + k0 * rs + j * (j < w ? cs : 0), rs, cs, TY_MIN(STEP, k - k0),
                TY_MAX(0, TY_MIN(TILE_COLS, w - j)));
}

/* ---- Running ---------------------------------------------------------------------------------- */

typedef struct Portion {
  Gemm d;
  const Unit *unit;
  const u16 *a, *b;
  u16 *y;
  const GemmEpilogue *epilogue;
  _Atomic bool failed;     /* the epilogue has */
  bool shared;             /* one b for the whole batch */
  i64 steps;               /* of k */
  i64 mc, nc;              /* rows and columns of a unit of work */
  i64 first;               /* item of the batch at hand */
  i64 j0, jn;              /* columns at hand */
  u16 *packed;             /* their panels, item by item */
  i64 bsize;               /* elements of an item's packed b */
  i64 asize, ysize, tsize; /* bytes of scratch: a block of a, sums, a tile that y cannot hold */
  Slot *slot;
  int nslots;
} Portion;

/* Where item i of the batch begins in a and b. */
static void item_at(const Gemm *d, i64 i, i64 *a, i64 *b) {
  *a = *b = 0;
  for (int l = d->nlead; l-- > 0; i /= d->lead[l]) {
    *a += i % d->lead[l] * d->abs[l];
    *b += i % d->lead[l] * d->bbs[l];
  }
}

static i64 panels_of(const Portion *J) { return ceil_div(J->jn, PANEL); }

/* Panels [begin, end) of the items at hand. */
static void pack_panels(void *arg, i64 begin, i64 end) {
  const Portion *J = arg;
  const Gemm *d = &J->d;
  const i64 panels = panels_of(J);
  for (i64 u = begin; u < end; u++) {
    i64 a, b, j = u % panels * PANEL;
    item_at(d, J->first + u / panels, &a, &b);
    pack_panel(J->unit, J->packed + u / panels * J->bsize + j * J->steps * STEP,
               J->b + b + (J->j0 + j) * d->bcs, d->brs, d->bcs, d->k, TY_MIN(PANEL, J->jn - j));
  }
}

/* Sums of m rows from a and of n columns whose panels begin at b. */
static void sum(const Portion *J, const u16 *a, i64 m, const u16 *b, i64 n, float *y, u16 *block) {
  const Gemm *d = &J->d;
  const i64 yrs = J->nc + TILE_COLS; /* rows a power of two apart would share a set of L1 */
  for (i64 s = 0; s < J->steps; s += KSTEPS) {
    const i64 steps = TY_MIN(KSTEPS, J->steps - s);
    pack_a(block, a + s * STEP * d->acs, d->ars, d->acs, m, d->k - s * STEP, steps);
    for (i64 j = 0; j < n; j += PANEL) {
      /* What comes next does not lie behind this: it is called while this goes down the rows. */
      const bool more = j + PANEL < n;
      const i64 then = more ? s : s + KSTEPS;
      const char *next =
          (const char *)(b + ((more ? j + PANEL : 0) * J->steps + then * PANEL) * STEP);
      i64 lines = TY_MAX(0, TY_MIN(KSTEPS, J->steps - then) * (PANEL * STEP * 2 / 64)), share;
      for (i64 i = 0; i < m; i += 2 * TILE_ROWS, lines -= share, next += 64 * share) {
        share = ceil_div(lines, ceil_div(m - i, 2 * TILE_ROWS));
        J->unit->block(steps, block + i / TILE_ROWS * steps * TILE,
                       b + (j * J->steps + s * PANEL) * STEP, y + i * yrs + j, yrs,
                       1 + (m - i > TILE_ROWS), 1 + (n - j > TILE_COLS), s == 0, next, share);
      }
    }
  }
}

static void run_units(Portion *J, i64 begin, i64 end, char *scratch) {
  const Gemm *d = &J->d;
  const i64 down = ceil_div(d->m, J->mc), across = ceil_div(J->jn, J->nc);
  const bool aside = J->tsize > 0;
  float *sums = (float *)(scratch + J->asize);
  J->unit->configure();
  for (i64 u = begin; u < end; u++) {
    if (u > begin && ty_watch_stops()) break;
    const i64 item = u / (down * across), i = u / across % down * J->mc, j = u % across * J->nc;
    const i64 m = TY_MIN(J->mc, d->m - i), n = TY_MIN(J->nc, J->jn - j), at = J->first + item;
    i64 a, b;
    item_at(d, at, &a, &b);
    sum(J, J->a + a + i * d->ars, m,
        J->packed + (J->shared ? 0 : item * J->bsize) + j * J->steps * STEP, n, sums,
        (u16 *)scratch);
    u16 *y =
        aside ? (u16 *)(scratch + J->asize + J->ysize) : J->y + (at * d->m + i) * d->n + J->j0 + j;
    const i64 yrs = aside ? J->nc : d->n;
    for (i64 r = 0; r < m; r++) J->unit->narrow(y + r * yrs, sums + r * (J->nc + TILE_COLS), n);
    if (J->epilogue && !J->epilogue->tile(J->epilogue, y, yrs, at * d->m + i, m, J->j0 + j, n))
      atomic_store_explicit(&J->failed, true, memory_order_relaxed);
  }
  J->unit->release();
}

static void pool_units(void *arg, i64 begin, i64 end) {
  Portion *J = arg;
  Slot *s = ty_slot_take(J->slot, J->nslots);
  run_units(J, begin, end, s->mem);
  ty_slot_leave(s);
}

/* Units, cut smaller where threads would have none. */
static void job_cut(Portion *J, int threads) {
  const Gemm *d = &J->d;
  J->mc = round_up(ceil_div(d->m, ceil_div(d->m, MC)), 2 * TILE_ROWS);
  J->nc = round_up(ceil_div(d->n, ceil_div(d->n, NC)), PANEL);
  const i64 want = threads > 1 ? TILES_EACH * threads : 1;
  while (d->batch * ceil_div(d->m, J->mc) * ceil_div(d->n, J->nc) < want) {
    if (J->nc > 2 * PANEL) J->nc = round_up(J->nc / 2, PANEL);
    else if (J->mc > 2 * TILE_ROWS) J->mc = round_up(J->mc / 2, 2 * TILE_ROWS);
    else break;
  }
  const i64 rows = round_up(TY_MIN(J->mc, d->m), TILE_ROWS);
  J->asize = rows * TY_MIN(J->steps, KSTEPS) * STEP * 2;
  J->ysize = rows * (J->nc + TILE_COLS) * 4;
  J->tsize = J->epilogue && J->epilogue->aside ? round_up(rows * J->nc * 2, 64) : 0;
}

/* The batch, as many items and columns at a time as panels are packed. */
static void run_all(Portion *J, int threads, i64 items, i64 columns, bool made) {
  const Gemm *d = &J->d;
  for (J->first = 0; J->first < d->batch; J->first += items)
    for (J->j0 = 0; J->j0 < d->n; J->j0 += columns) {
      const i64 n = TY_MIN(items, d->batch - J->first);
      J->jn = TY_MIN(columns, d->n - J->j0);
      const i64 panels = (J->shared ? 1 : n) * panels_of(J);
      const i64 units = n * ceil_div(d->m, J->mc) * ceil_div(J->jn, J->nc);
      if (threads > 1) {
        if (!made) ty_pool_run(panels, ceil_div(32 << 10, J->steps * STEP * PANEL), pack_panels, J);
        ty_pool_run(units, 1, pool_units, J);
      } else {
        if (!made) pack_panels(J, 0, panels);
        run_units(J, 0, units, J->slot->mem);
      }
    }
}

static bool one_b(const Gemm *d) {
  for (int l = 0; l < d->nlead; l++)
    if (d->lead[l] != 1 && d->bbs[l]) return false;
  return true;
}

bool ty_amx_gemm(const Gemm *d, const void *a, const void *b, const void *panels, void *y,
                 const GemmEpilogue *epilogue) {
  Slot slot[POOL_MOST + 1];
  Portion J = {.d = *d, .a = a, .b = b, .y = y, .epilogue = epilogue, .slot = slot};
  if (!(J.unit = the_unit())) return false;
  atomic_init(&J.failed, false);
  ty_gemm_merge(&J.d);
  d = &J.d;
  J.shared = one_b(d);
  J.steps = ceil_div(d->k, STEP);
  const double work = (double)d->batch * (double)d->m * (double)d->n * (double)d->k;
  const int threads = work < 2.0 * TASK_MICROSECONDS * SPEED ? 1 : ty_pool_threads(0);
  job_cut(&J, threads);
  /* Columns first, then items, as far as there is room for their panels. */
  const i64 column = J.steps * STEP * 2, room = PACK_BYTES / column;
  const bool made = panels != NULL, whole = made || round_up(d->n, PANEL) <= room;
  const i64 columns = whole ? d->n : TY_MAX(J.nc, room / J.nc * J.nc);
  J.bsize = round_up(columns, PANEL) * J.steps * STEP;
  const i64 items = J.shared ? d->batch : TY_MAX(1, TY_MIN(d->batch, PACK_BYTES / 2 / J.bsize));
  const i64 each = round_up(J.asize + J.ysize + J.tsize, 64);
  J.nslots = threads > 1 ? TY_MIN(threads, POOL_MOST) + 1 : 1;
  const i64 packed = made ? 0 : (J.shared ? 1 : items) * J.bsize * 2;
  i64 apart;
  char *mem = ty_buf_pieces(J.nslots, each, &apart), *own = made ? NULL : ty_buf_alloc(packed);
  if (!mem || (!made && !own)) {
    ty_buf_free(mem, J.nslots * each);
    ty_buf_free(own, packed);
    return false;
  }
  J.packed = made ? (u16 *)(uintptr_t)panels : (u16 *)own;
  for (int i = 0; i < J.nslots; i++) {
    atomic_init(&slot[i].busy, 0);
    slot[i].mem = mem + i * apart;
  }
  run_all(&J, threads, items, columns, made);
  ty_buf_free(mem, J.nslots * each);
  ty_buf_free(own, packed);
  return !atomic_load(&J.failed);
}

/* ---- Panels made ahead ------------------------------------------------------------------------ */

i64 ty_amx_panels(const Gemm *d) {
  Gemm merged = *d;
  if (!d->batch || !d->m || !d->n || !d->k || !one_b(d)) return 0;
  ty_gemm_merge(&merged);
  const i64 bytes = round_up(d->k, STEP) * round_up(d->n, PANEL) * 2;
  return merged.m <= PANEL_ROWS ? bytes : 0;
}

void ty_amx_pack(const Gemm *d, const void *b, void *panels) {
  if (!the_unit()) return;
  Portion J = {.d = *d, .unit = the_unit(), .b = b, .jn = d->n, .packed = panels};
  J.steps = ceil_div(d->k, STEP);
  pack_panels(&J, 0, panels_of(&J));
}
