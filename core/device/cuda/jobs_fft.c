/*
** jobs_fft.c -- Fourier transforms on the CUDA device.
** In:  jobs, addresses.  Out: kernels are launched. Fails when out of memory, and where the driver refuses a text.
** The plan is the CPU's (device/fft_plan.h), and so is the order of all arithmetic. As many lines go side by side as memory
** allows: each step of the plan is a kernel over all of them. Plans' tables are copied once and kept, the least recently used
** goes first.
*/
#include "base/system.h"
#include "device/cuda/jobs.h"
#include "device/cuda/library.h"
#include "device/cuda/ptx_fft.h"

enum {
  TABLES = 64,
  TABLE_BYTES = 64 << 20, /* of tables that are kept */
  ROOM = 256 << 20,       /* of arrays, where one line does not take more */
  NUMBERS_MOST = INT32_MAX
};

/* --- tables of plans */

typedef struct Table {
  int dtype;
  i64 n, bytes;
  FftWay way;
  char *at;
  u64 used;
} Table;

static struct {
  Lock lock;
  Table table[TABLES];
  int n;
  i64 bytes;
  u64 clock;
} kept = {.lock = LOCK_INIT};

/* Under the lock: tables go until so many bytes have room. */
static void make_room(i64 bytes) {
  while (kept.n == TABLES || (kept.n && kept.bytes + bytes > TABLE_BYTES)) {
    int oldest = 0;
    for (int i = 1; i < kept.n; i++)
      if (kept.table[i].used < kept.table[oldest].used) oldest = i;
    ty_cuda_free(kept.table[oldest].at, kept.table[oldest].bytes);
    kept.bytes -= kept.table[oldest].bytes;
    kept.table[oldest] = kept.table[--kept.n];
  }
}

/* The passes of a plan whose table is at `at`. */
static void put_passes(const FftPlan *P, const char *at, i64 *y) {
  const i64 moved = ty_cuda_address(at) - ty_cuda_address(P->table);
  for (int i = 0; i < P->npass; i++, y += FFT_PASS_WORDS) {
    const FftPass *p = &P->pass[i];
    y[FFT_PASS_RADIX] = p->r, y[FFT_PASS_FAR] = p->m * p->s, y[FFT_PASS_S] = p->s;
    y[FFT_PASS_EACH] = p->each ? ty_cuda_address(p->each) + moved : 0;
    y[FFT_PASS_ODD] = p->odd ? ty_cuda_address(p->odd) + moved : 0;
    y[FFT_PASS_LAST] = p->m == 1;
  }
}

/* Under the lock; passes stand behind the plan's own table. NULL: out of memory. */
static char *table_of(const FftPlan *p) {
  const char *err;
  for (int i = 0; i < kept.n; i++) {
    Table *t = &kept.table[i];
    if (t->dtype != p->dtype || t->n != p->n || t->way != p->way) continue;
    t->used = ++kept.clock;
    return t->at;
  }
  const i64 words = p->way == FFT_BY_PASSES ? p->npass * FFT_PASS_WORDS : 0;
  const i64 bytes = p->bytes + words * (i64)sizeof(i64);
  make_room(bytes);
  char *at = ty_cuda_allocate(bytes), *copy = ty_mem_alloc((size_t)bytes);
  bool ok = at && copy;
  if (ok) {
    if (p->bytes) memcpy(copy, p->table, (size_t)p->bytes);
    if (words) put_passes(p, at, (i64 *)(void *)(copy + p->bytes));
    ok = ty_cuda_in(at, copy, bytes, &err);
  }
  ty_mem_free(copy);
  if (ok) kept.table[kept.n++] = (Table){p->dtype, p->n, bytes, p->way, at, ++kept.clock};
  else if (at) ty_cuda_free(at, bytes);
  kept.bytes += ok ? bytes : 0;
  return ok ? at : NULL;
}

/* --- steps */

typedef i64 Block[FFT_LINES_BYTES / 8];

/* Real and imaginary parts, on the device. */
typedef struct Parts {
  char *re, *im;
} Parts;

typedef struct Fft {
  int dtype, size;
  FftShape shape;
  Stream *stream;
  bool ok;
} Fft;

static void exchange(Parts *a) { *a = (Parts){a->im, a->re}; }
static void swap(Parts *a, Parts *b) {
  const Parts t = *a;
  *a = *b, *b = t;
}

static u64 bits_of(const Fft *f, double v) {
  u64 bits = 0;
  const float narrow = (float)v;
  if (f->size == 8) memcpy(&bits, &v, sizeof v);
  else memcpy(&bits, &narrow, sizeof narrow);
  return bits;
}

/* The plan's table on the device; 0: out of memory. */
static i64 table_at(Fft *f, const FftPlan *p) {
  if (!f->ok) return 0;
  ty_lock(&kept.lock);
  const char *at = table_of(p);
  ty_unlock(&kept.lock);
  f->ok = at != NULL;
  return ty_cuda_address(at);
}

/* The address on the device of a part of it; 0 where there is no such part. */
static i64 in_table(Fft *f, const FftPlan *p, const void *part) {
  return part ? table_at(f, p) + ((const char *)part - (const char *)p->table) : 0;
}

/* count: of blocks of threads that have work. */
static bool run_blocks(const Key *key, i64 count, i64 *block) {
  CudaCode code;
  return ty_cuda_find(key, &code, NULL) &&
         ty_cuda_launch(&code, TY_MIN(count, 32768), FFT_THREADS, block);
}

static void step(Fft *f, FftStep which, int radix, int flags, i64 count, Parts x, Parts y,
                 i64 *block) {
  const Key key = {.kind = OF_FFT,
                   .dtype = (u8)f->dtype,
                   .way = (u8)which,
                   .dims = (u8)radix,
                   .flag = (u8)flags};
  block[FFT_WORD / 8] = (i64)ty_cuda_word(f->stream);
  block[FFT_COUNT / 8] = count;
  block[FFT_X / 8] = ty_cuda_address(x.re), block[FFT_X / 8 + 1] = ty_cuda_address(x.im);
  block[FFT_Y / 8] = ty_cuda_address(y.re), block[FFT_Y / 8 + 1] = ty_cuda_address(y.im);
  if (which == FFT_LINES) f->ok = f->ok && run_blocks(&key, count, block);
  else f->ok = f->ok && ty_cuda_run_each(&key, count, FFT_THREADS, block);
}

static void pass(Fft *f, const FftPlan *P, const FftPass *p, Parts x, Parts y, i64 cols) {
  Block b = {[FFT_COLS / 8] = p->s * cols, [FFT_M / 8] = p->m * p->s * cols};
  b[FFT_W / 8] = in_table(f, P, p->each), b[FFT_TURNS / 8] = in_table(f, P, p->odd);
  step(f, FFT_PASS, p->r, p->m == 1 ? FFT_IS_LAST : 0, p->m * p->s * cols, x, y, b);
}

/* Rows of a times pairs of w, up to n; the others, up to `rows`, become 0. */
static void turn(Fft *f, const FftPlan *P, const void *w, Parts a, i64 n, i64 rows, i64 cols) {
  Block b = {[FFT_COLS / 8] = cols, [FFT_N / 8] = n, [FFT_W / 8] = in_table(f, P, w)};
  step(f, FFT_TURN, 0, 0, rows * cols, a, a, b);
}

/* The transform of a, by way of b; the result is in a. */
static void run(Fft *f, const FftPlan *P, Parts *a, Parts *b, i64 cols) {
  const FftPlan *p = P->sub[0], *q = P->sub[1];
  switch (P->way) {
  case FFT_BY_SPLIT: {
    Block t = {[FFT_COLS / 8] = cols, [FFT_M / 8] = p->n, [FFT_N / 8] = q->n};
    t[FFT_W / 8] = in_table(f, P, P->w), t[FFT_V / 8] = in_table(f, P, P->v);
    run(f, p, a, b, q->n * cols);
    step(f, FFT_TWIST, 0, 0, P->n * cols, *a, *b, t);
    swap(a, b);
    run(f, q, a, b, p->n * cols);
    break;
  }
  case FFT_BY_CHIRP:
    turn(f, P, P->w, *a, P->n, p->n, cols);
    run(f, p, a, b, cols);
    turn(f, P, P->v, *a, p->n, p->n, cols);
    exchange(a), exchange(b);
    run(f, p, a, b, cols);
    exchange(a), exchange(b);
    turn(f, P, P->w, *a, P->n, P->n, cols);
    break;
  default:
    for (int i = 0; i < P->npass; i++, swap(a, b)) pass(f, P, &P->pass[i], *a, *b, cols);
  }
}

/* --- memory */

/* Rows that arrays of it have. */
static i64 rows_of(const FftPlan *p) { return p->way == FFT_BY_CHIRP ? p->sub[0]->n : p->n; }

/* Elements of a column of what odd passes take: v, u, what works with u; or two pairs of arrays. */
static i64 odd_room(const FftPlan *P) {
  if (P->way != FFT_BY_ODD) return 4 * rows_of(P);
  const FftPass *p = &P->pass[0];
  const i64 own = (p->r / 2) * 4 * (P->sub[0] ? rows_of(P->sub[0]) : 1);
  return p->m + TY_MAX(own, P->sub[1] ? odd_room(P->sub[1]) : 0);
}

typedef struct Room {
  char *at;
  i64 unit; /* bytes of a row */
} Room;
static char *rows(Room *r, i64 n) {
  char *y = r->at;
  r->at += n * r->unit;
  return y;
}
static Parts pair(Room *r, i64 n) {
  char *re = rows(r, n);
  return (Parts){re, rows(r, n)};
}

/* --- an odd number of real ones */

static Block *odd_block(Fft *f, const FftPlan *P, i64 cols, Block *b) {
  const FftPass *p = &P->pass[0];
  memset(b, 0, sizeof *b);
  (*b)[FFT_COLS / 8] = cols, (*b)[FFT_M / 8] = p->m * cols, (*b)[FFT_N / 8] = P->n;
  (*b)[FFT_SPAN / 8] = p->span;
  (*b)[FFT_W / 8] = in_table(f, P, p->wide), (*b)[FFT_TURNS / 8] = in_table(f, P, p->odd);
  return b;
}

/* Rows of `half`, which are row_step bytes apart, and lines of a tensor; rows of arrays as a tensor. */
static void between(Fft *f, FftStep which, bool real, i64 n, i64 cols, Parts array, Parts rows,
                    i64 row_step) {
  Block b = {[FFT_COLS / 8] = cols,
             [FFT_INNER / 8] = cols,
             [FFT_INNER_STEP / 8] = f->size,
             [FFT_ROW_STEP / 8] = row_step,
             [FFT_SCALE / 8] = (i64)bits_of(f, 1),
             [FFT_SCALE_OTHERS / 8] = (i64)bits_of(f, 1),
             [FFT_ALONE / 8] = -1};
  if (which == FFT_GATHER) step(f, which, 0, real ? FFT_IS_REAL : 0, n * cols, rows, array, b);
  else step(f, which, 0, real ? FFT_IS_REAL : 0, n * cols, array, rows, b);
}

static void odd_forward(Fft *f, const FftPlan *P, char *x, Parts half, i64 row_step, i64 cols,
                        Room room) {
  const FftPass *p = &P->pass[0];
  const i64 row = cols * f->size;
  const Parts real = {x, x};
  Block b;
  if (P->way != FFT_BY_ODD) {
    Parts a = pair(&room, rows_of(P)), c = pair(&room, rows_of(P));
    between(f, FFT_GATHER, true, P->n, cols, a, real, row);
    run(f, P, &a, &c, cols);
    between(f, FFT_SCATTER, false, P->n / 2 + 1, cols, a, half, row_step);
    return;
  }
  const i64 h = p->r / 2;
  char *v = rows(&room, p->m);
  Room own = room;
  Parts u = pair(&own, h * (P->sub[0] ? rows_of(P->sub[0]) : 1)),
        w = P->sub[0] ? pair(&own, h * rows_of(P->sub[0])) : u;
  odd_block(f, P, cols, &b);
  b[FFT_V / 8] = ty_cuda_address(v);
  step(f, FFT_HALVE, p->r, p->m == 1 ? FFT_IS_LAST : 0, p->m * cols, real, u, b);
  if (P->sub[0]) run(f, P->sub[0], &u, &w, h * cols);
  odd_block(f, P, cols, &b);
  b[FFT_ROW_STEP / 8] = row_step;
  step(f, FFT_UNFOLD, p->r, 0, p->m * h * cols, u, half, b);
  if (P->sub[1]) {
    odd_forward(f, P->sub[1], v, half, row_step * p->r, cols, room);
    return;
  }
  const Parts first = {v, v};
  between(f, FFT_GATHER, true, 1, cols, half, first, row);
}

static void odd_back(Fft *f, const FftPlan *P, Parts half, i64 row_step, char *y, i64 cols,
                     double weight, Room room) {
  const FftPass *p = &P->pass[0];
  const i64 row = cols * f->size;
  const Parts real = {y, y};
  Block b;
  if (P->way != FFT_BY_ODD) {
    Parts a = pair(&room, rows_of(P)), c = pair(&room, rows_of(P));
    Block m = {
        [FFT_COLS / 8] = cols, [FFT_N / 8] = P->n, [FFT_SCALE / 8] = (i64)bits_of(f, weight)};
    between(f, FFT_GATHER, false, P->n / 2 + 1, cols, a, half, row_step);
    step(f, FFT_MIRROR, 0, 0, (P->n / 2 + 1) * cols, a, a, m);
    exchange(&a), exchange(&c);
    run(f, P, &a, &c, cols);
    between(f, FFT_SCATTER, true, P->n, cols, (Parts){a.im, a.re}, real, row);
    return;
  }
  const i64 h = p->r / 2;
  char *v = rows(&room, p->m);
  if (P->sub[1]) odd_back(f, P->sub[1], half, row_step * p->r, v, cols, weight, room);
  else between(f, FFT_GATHER, true, 1, cols, (Parts){v, room.at}, half, row_step);
  Parts u = pair(&room, h * (P->sub[0] ? rows_of(P->sub[0]) : 1)),
        w = P->sub[0] ? pair(&room, h * rows_of(P->sub[0])) : u;
  odd_block(f, P, cols, &b);
  b[FFT_ROW_STEP / 8] = row_step;
  step(f, FFT_FOLD, p->r, 0, p->m * h * cols, half, u, b);
  exchange(&u), exchange(&w);
  if (P->sub[0]) run(f, P->sub[0], &u, &w, h * cols);
  exchange(&u);
  odd_block(f, P, cols, &b);
  b[FFT_V / 8] = ty_cuda_address(v), b[FFT_SCALE / 8] = (i64)bits_of(f, 2 * weight);
  step(f, FFT_UNITE, p->r, p->m == 1 ? FFT_IS_LAST : 0, p->m * cols, u, real, b);
}

/* --- lines of a tensor */

/* Lines of `count` numbers, real or pairs. paired: real ones as pairs of neighbours, half as many. */
typedef struct LineSide {
  i64 steps[3]; /* of a line's neighbour, of the next outer one, of a row */
  i64 rows;
  Parts at;
} LineSide;

static LineSide side_of(const Fft *f, void *t, i64 count, bool real, bool paired, bool inverse) {
  const i64 parts = real ? 1 : 2, size = f->size, inner = f->shape.inner;
  LineSide y = {.rows = paired ? count / 2 : count,
                .at = {t, (char *)t + (paired ? inner : 1) * size}};
  y.steps[0] = parts * size, y.steps[1] = parts * size * inner * count;
  y.steps[2] = parts * size * inner * (paired ? 2 : 1);
  if (inverse) exchange(&y.at);
  return y;
}

/* Scales of results. */
static void put_scales(const Fft *f, i64 *block, double weight) {
  const double scale = ty_fft_scale(f->shape.norm, f->shape.n);
  block[FFT_SCALE / 8] = (i64)bits_of(f, scale);
  block[FFT_SCALE_OTHERS / 8] = (i64)bits_of(f, scale * weight);
  block[FFT_ALONE / 8] = f->shape.n % 2 ? -1 : f->shape.n / 2;
}

/* Halves of transforms of real numbers, times the shape's scale and, what stands for two, times the kind's weight; what stands for
** itself becomes real. */
static void whole_halves(Fft *f, void *from, void *to) {
  const FftShape *s = &f->shape;
  const i64 h = s->n / 2 + 1;
  Block b = {[FFT_COLS / 8] = s->inner, [FFT_N / 8] = h};
  put_scales(f, b, ty_fft_weight(s->kind));
  step(f, FFT_HALF_LINES, 0, 0, s->outer * h * s->inner, (Parts){from, (char *)from + f->size},
       (Parts){to, (char *)to + f->size}, b);
}

/* Real numbers come from a copy of the half: the library destroys it, and may read imaginary parts where there are none. */
static LibraryResult by_library(Fft *f, void *x, void *y) {
  const FftShape *s = &f->shape;
  const bool gives = ty_fft_gives_real(s->kind);
  const i64 half = s->outer * (s->n / 2 + 1) * s->inner, bytes = 2 * half * f->size;
  const double scale = ty_fft_scale(s->norm, s->n);
  if (!ty_cuda_fft_library_takes(s, x, y)) return LIBRARY_NONE;
  char *copy = gives ? ty_cuda_allocate(bytes) : NULL;
  f->ok = !gives || copy;
  if (copy) whole_halves(f, x, copy);
  const LibraryResult done =
      f->ok ? ty_cuda_fft_by_library(s, gives ? copy : x, y) : LIBRARY_FAILED;
  if (copy) ty_cuda_free(copy, bytes);
  if (done != LIBRARY_DONE || gives) return done;
  if (s->kind == FFT_HALF_BACK) whole_halves(f, y, y);
  else if (scale != 1)
    f->ok = ty_cuda_scale_elements(s->dtype,
                                   2 * (s->kind == FFT_REAL ? half : s->outer * s->n * s->inner),
                                   scale, y, f->stream);
  return f->ok ? LIBRARY_DONE : LIBRARY_FAILED;
}

/* Lines first to first + cols. */
static void lines(Fft *f, FftStep which, void *t, i64 count, bool real, bool paired, i64 first,
                  i64 cols, Parts a, bool inverse, double weight) {
  const LineSide side = side_of(f, t, count, real, paired, inverse);
  const int flags = real && !paired ? FFT_IS_REAL : 0;
  Block b = {[FFT_COLS / 8] = cols, [FFT_INNER / 8] = f->shape.inner, [FFT_FIRST / 8] = first};
  memcpy(&b[FFT_INNER_STEP / 8], side.steps, sizeof side.steps);
  put_scales(f, b, weight);
  if (which == FFT_GATHER) step(f, which, 0, flags, side.rows * cols, side.at, a, b);
  else step(f, which, 0, flags, side.rows * cols, a, side.at, b);
}

static void real_lines(Fft *f, const FftPlan *q, void *x, void *y, i64 first, i64 cols, Room room) {
  const i64 n = f->shape.n, h = n / 2 + 1;
  const double weight = ty_fft_weight(f->shape.kind);
  Parts half = pair(&room, h);
  if (q->way == FFT_BY_HALF) {
    Parts a = pair(&room, rows_of(q->sub[0])), b = pair(&room, rows_of(q->sub[0]));
    Block t = {[FFT_COLS / 8] = cols, [FFT_N / 8] = n / 2, [FFT_W / 8] = in_table(f, q, q->w)};
    lines(f, FFT_GATHER, x, n, true, true, first, cols, a, false, 1);
    run(f, q->sub[0], &a, &b, cols);
    step(f, FFT_SPLIT, 0, 0, h * cols, a, half, t);
  } else {
    char *real = rows(&room, n);
    lines(f, FFT_GATHER, x, n, true, false, first, cols, (Parts){real, room.at}, false, 1);
    odd_forward(f, q, real, half, cols * f->size, cols, room);
  }
  lines(f, FFT_SCATTER, y, h, false, false, first, cols, half, false, weight);
}

static void half_lines(Fft *f, const FftPlan *q, void *x, void *y, i64 first, i64 cols, Room room) {
  const i64 n = f->shape.n, h = n / 2 + 1;
  const double weight = ty_fft_weight(f->shape.kind);
  Parts half = pair(&room, h);
  lines(f, FFT_GATHER, x, h, false, false, first, cols, half, false, 1);
  if (q->way == FFT_BY_HALF) {
    Parts a = pair(&room, rows_of(q->sub[0])), b = pair(&room, rows_of(q->sub[0]));
    Block t = {[FFT_COLS / 8] = cols,
               [FFT_N / 8] = n / 2,
               [FFT_W / 8] = in_table(f, q, q->w),
               [FFT_SCALE / 8] = (i64)bits_of(f, weight)};
    step(f, FFT_MERGE, 0, 0, n / 2 * cols, half, a, t);
    exchange(&a), exchange(&b);
    run(f, q->sub[0], &a, &b, cols);
    exchange(&a);
    lines(f, FFT_SCATTER, y, n, true, true, first, cols, a, false, 1);
  } else {
    char *real = rows(&room, n);
    odd_back(f, q, half, cols * f->size, real, cols, weight, room);
    lines(f, FFT_SCATTER, y, n, true, false, first, cols, (Parts){real, real}, false, 1);
  }
}

static void complex_lines(Fft *f, const FftPlan *p, void *x, void *y, i64 first, i64 cols,
                          Room room) {
  const bool inverse = f->shape.kind == FFT_INVERSE;
  Parts a = pair(&room, rows_of(p)), b = pair(&room, rows_of(p));
  lines(f, FFT_GATHER, x, p->n, false, false, first, cols, a, inverse, 1);
  run(f, p, &a, &b, cols);
  lines(f, FFT_SCATTER, y, p->n, false, false, first, cols, a, inverse, 1);
}

/* --- lines that shared memory holds */

/* Bytes of shared memory for a line, as a share of FFT_LINES_ROOM's multiples; 0: it does not fit, or has other radices. */
static i64 in_shared(const FftPlan *p, i64 rows, int size) {
  const i64 bytes = 4 * rows * size;
  if (p->way != FFT_BY_PASSES || !p->npass || bytes > 4 * FFT_LINES_ROOM) return 0;
  for (int i = 0; i < p->npass; i++)
    if (p->pass[i].r > FFT_LINES_RADIX && p->pass[i].r != 8) return 0;
  return bytes;
}

static bool whole_lines(Fft *f, const FftPlan *plan, void *x, void *y, i64 all) {
  const FftShape *s = &f->shape;
  const i64 n = s->n, h = n / 2 + 1;
  const bool takes = ty_fft_takes_real(s->kind), gives = ty_fft_gives_real(s->kind);
  const FftPlan *p = plan->way == FFT_BY_HALF ? plan->sub[0] : plan;
  if ((takes || gives) && plan->way != FFT_BY_HALF) return false;
  const i64 each = in_shared(p, takes || gives ? h : n, f->size);
  if (!each) return false;
  const int times = each <= FFT_LINES_ROOM ? 0 : each <= 2 * FFT_LINES_ROOM ? 1 : 2;
  const i64 cols = TY_MIN(TY_MAX(1, FFT_LINES_ROOM / each), TY_MIN(all, 32)),
            groups = (all - 1) / cols + 1;
  const bool inverse = s->kind == FFT_INVERSE;
  const LineSide from = side_of(f, x, gives ? h : n, takes, takes, inverse),
                 to = side_of(f, y, takes ? h : n, gives, gives, inverse);
  Block b = {[FFT_COLS / 8] = cols, [FFT_INNER / 8] = s->inner, [FFT_LINES_ALL / 8] = all};
  b[FFT_N / 8] = n / 2, b[FFT_LINES_FROM / 8] = from.rows, b[FFT_LINES_TO / 8] = to.rows;
  memcpy(&b[FFT_INNER_STEP / 8], from.steps, sizeof from.steps);
  memcpy(&b[FFT_LINES_Y_STEPS / 8], to.steps, sizeof to.steps);
  put_scales(f, b, takes ? ty_fft_weight(s->kind) : 1);
  b[FFT_LINES_WEIGHT / 8] = (i64)bits_of(f, ty_fft_weight(s->kind));
  b[FFT_LINES_PASSES / 8] = p->npass;
  b[FFT_LINES_TABLE / 8] = table_at(f, p) + p->bytes;
  b[FFT_LINES_ALONG / 8] = s->inner == 1;
  if (takes || gives) b[FFT_W / 8] = in_table(f, plan, plan->w);
  const int kind = takes ? FFT_TO_HALF : gives ? FFT_FROM_HALF : FFT_OF_COMPLEX;
  step(f, FFT_LINES, 0, kind + times * FFT_ROOM_TIMES, groups, from.at, to.at, b);
  return true;
}

/* Rows of all arrays for one column. */
static i64 room_of(const FftPlan *p, i64 n, bool real) {
  if (!real) return 4 * rows_of(p);
  const i64 half = 2 * (n / 2 + 1);
  return half + (p->way == FFT_BY_HALF ? 4 * rows_of(p->sub[0]) : n + odd_room(p) + 1);
}

bool ty_cuda_fft_takes(const Job *j) {
  const FftShape s = ty_fft_shape(j);
  return s.n <= NUMBERS_MOST / 16;
}

bool ty_cuda_fft(const Job *j, void *const *buf, Stream *s) {
  Fft f = {.shape = ty_fft_shape(j), .stream = s, .ok = true};
  const i64 all = f.shape.outer * f.shape.inner, n = f.shape.n;
  const bool real = f.shape.kind != FFT_FORWARD && f.shape.kind != FFT_INVERSE;
  if (!all) return true;
  f.dtype = f.shape.dtype, f.size = ty_dtypes[f.dtype].bytes;
  if (f.shape.library) {
    const LibraryResult y = by_library(&f, buf[0], buf[1]);
    if (y != LIBRARY_NONE) return y == LIBRARY_DONE;
  }
  const FftPlan *p = ty_cuda_host->fft_plan(f.dtype, n, real);
  if (!p) return false;
  if (whole_lines(&f, p, buf[0], buf[1], all)) {
    ty_cuda_host->fft_drop(p);
    return f.ok;
  }
  const i64 each = room_of(p, n, real),
            most = TY_MAX(1, TY_MIN(ROOM / (each * f.size), NUMBERS_MOST / (each * 2))),
            cols = TY_MIN(all, most), bytes = each * cols * f.size;
  char *memory = ty_cuda_allocate(bytes);
  f.ok = memory != NULL;
  for (i64 first = 0; first < all && f.ok; first += cols) {
    const i64 c = TY_MIN(cols, all - first);
    const Room room = {memory, c * f.size};
    if (!real) complex_lines(&f, p, buf[0], buf[1], first, c, room);
    else if (ty_fft_takes_real(f.shape.kind)) real_lines(&f, p, buf[0], buf[1], first, c, room);
    else half_lines(&f, p, buf[0], buf[1], first, c, room);
  }
  if (memory) ty_cuda_free(memory, bytes);
  ty_cuda_host->fft_drop(p);
  return f.ok;
}
