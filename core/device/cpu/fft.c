/*
** fft.c -- Fourier transforms of the lines of a tensor along one of its dims.
** In:  contiguous operands. Out: y, whatever the number of threads and the instruction set. False: scratch memory has run
** out, and y is undefined.
**
** The order of the arithmetic is that of the plan, which the length alone decides (fft_plan.c); how lines are grouped and
** shared out does not show. Lines go one by one, with vectors along the line, or FFT_COLUMNS at a time side by side:
** where they lie so, and where a length's first passes are no match for vectors. A long line is shared out to threads
** itself. The inverse is the transform with real and imaginary parts exchanged.
*/
#include "device/cpu/fft.h"

#include <math.h>

enum {
  FEW_LINES = 4,    /* fewer go one by one */
  SHORT_LINE = 128, /* up to this they go side by side */
  FIRST_CACHE = 1 << 15,
  GRAIN = 1 << 13 /* numbers below which no thread is woken */
};

/* ---- plans run ----------------------------------------------------------------------------------- */

/* Four arrays of rows of columns. */
typedef struct Scratch {
  void *a[2], *b[2];
  char *odd; /* what the passes over real numbers take */
} Scratch;

static i64 scratch_bytes(i64 rows, i64 cols, int size) {
  return (rows * cols + FFT_PAD) * size * 4;
}
static Scratch scratch_at(char *p, i64 rows, i64 cols, int size) {
  const i64 step = (rows * cols + FFT_PAD) * size;
  return (Scratch){{p, p + step}, {p + 2 * step, p + 3 * step}, p + 4 * step};
}

static void exchange(void *a[2]) {
  void *t = a[0];
  a[0] = a[1], a[1] = t;
}

/* The transform of a, by way of b; the result is in s->a. */
static void by_passes(const FftPlan *p, const FftKern *K, Scratch *s, i64 cols) {
  for (int i = 0; i < p->npass; i++) {
    K->pass(&p->pass[i], s->a[0], s->a[1], s->b[0], s->b[1], cols);
    const Scratch t = *s;
    *s = (Scratch){{t.b[0], t.b[1]}, {t.a[0], t.a[1]}, t.odd};
  }
}

static char *row_of(void *a, i64 row, i64 cols, int size) { return (char *)a + row * cols * size; }

/* Before the first and behind the last transform of Bluestein's. */
static void chirp_begin(const FftPlan *p, const FftKern *K, void *a[2], i64 cols) {
  K->turn(a[0], a[1], p->w, p->n, cols);
  for (int i = 0; i < 2; i++)
    memset(row_of(a[i], p->n, cols, K->size), 0, (size_t)((p->sub[0]->n - p->n) * cols * K->size));
}

static void by_rows(const FftPlan *p, const FftKern *K, Scratch *s, i64 cols) {
  if (p->way == FFT_BY_PASSES) {
    by_passes(p, K, s, cols);
    return;
  }
  const i64 m = p->sub[0]->n;
  chirp_begin(p, K, s->a, cols);
  by_passes(p->sub[0], K, s, cols);
  K->turn(s->a[0], s->a[1], p->v, m, cols);
  exchange(s->a), exchange(s->b);
  by_passes(p->sub[0], K, s, cols);
  exchange(s->a), exchange(s->b);
  K->turn(s->a[0], s->a[1], p->w, p->n, cols);
}

/* Longer than what goes by rows. */
static bool is_long(const FftPlan *p) {
  return p->way == FFT_BY_SPLIT || (p->way == FFT_BY_CHIRP && p->sub[0]->way == FFT_BY_SPLIT);
}

/* The rows that scratch for it has. */
static i64 rows_of(const FftPlan *p) { return p->way == FFT_BY_CHIRP ? p->sub[0]->n : p->n; }

/* ---- a long line ------------------------------------------------------------------------------- */

typedef struct Long {
  const FftPlan *p;
  const FftKern *K;
  FftLine x, y, mid;
  double scale;
  char *scratch;
  i64 part, parts, rows;
  bool second;
} Long;

static FftLine from(const FftLine *x, i64 i, i64 row, int size) {
  const i64 at = i * x->row * size;
  return (FftLine){(char *)x->re + at, x->im ? (char *)x->im + at : NULL, row * x->row};
}

/* Columns of n1, to `mid`. */
static void long_columns(const Long *l, i64 block, Scratch *s) {
  const FftKern *K = l->K;
  const i64 n1 = l->p->sub[0]->n, n2 = l->p->sub[1]->n, j = block * FFT_COLUMNS;
  const i64 cols = TY_MIN(FFT_COLUMNS, n2 - j);
  const FftLine x = from(&l->x, j, n2, K->size), y = from(&l->mid, j, n2, K->size);
  K->gather(s->a[0], s->a[1], &x, l->x.row, n1, cols);
  by_rows(l->p->sub[0], K, s, cols);
  K->twist(s->a[0], s->a[1], l->p->w, block, l->p->v, n1, cols);
  K->scatter(&y, 1, s->a[0], s->a[1], n1, cols, 1);
}

/* Rows of n2, which end as columns. */
static void long_rows(const Long *l, i64 block, Scratch *s) {
  const FftKern *K = l->K;
  const i64 n1 = l->p->sub[0]->n, n2 = l->p->sub[1]->n, k = block * FFT_COLUMNS;
  const i64 cols = TY_MIN(FFT_COLUMNS, n1 - k);
  const FftLine x = from(&l->mid, k * n2, 1, K->size), y = from(&l->y, k, n1, K->size);
  K->gather(s->a[0], s->a[1], &x, n2, n2, cols);
  by_rows(l->p->sub[1], K, s, cols);
  K->scatter(&y, l->y.row, s->a[0], s->a[1], n2, cols, l->scale);
}

static i64 share(i64 n, i64 parts, i64 i) { return n / parts * i + TY_MIN(i, n % parts); }

static void long_parts(void *arg, i64 begin, i64 end) {
  const Long *l = arg;
  const i64 n = (l->p->sub[!l->second]->n + FFT_COLUMNS - 1) / FFT_COLUMNS;
  for (i64 i = begin; i < end; i++)
    for (i64 b = share(n, l->parts, i); b < share(n, l->parts, i + 1); b++) {
      if (ty_watch_stops()) return;
      Scratch s = scratch_at(l->scratch + i * l->part, l->rows, FFT_COLUMNS, l->K->size);
      (l->second ? long_rows : long_columns)(l, b, &s);
    }
}

static bool by_split(const FftPlan *p, const FftKern *K, const FftLine *x, const FftLine *y,
                     double scale) {
  Long l = {.p = p, .K = K, .x = *x, .y = *y, .scale = scale};
  l.parts = ty_pool_threads(0);
  l.rows = TY_MAX(rows_of(p->sub[0]), rows_of(p->sub[1]));
  const i64 each = scratch_bytes(l.rows, FFT_COLUMNS, K->size), whole = 2 * p->n * K->size;
  l.scratch = ty_buf_pieces(l.parts, each, &l.part);
  char *mid = ty_buf_alloc(whole);
  if (mid && l.scratch) {
    l.mid = (FftLine){mid, mid + p->n * K->size, 1};
    ty_pool_run(l.parts, 1, long_parts, &l);
    l.second = true;
    ty_pool_run(l.parts, 1, long_parts, &l);
  }
  if (l.scratch) ty_buf_free(l.scratch, each * l.parts);
  if (mid) ty_buf_free(mid, whole);
  return mid && l.scratch;
}

static bool by_long_chirp(const FftPlan *p, const FftKern *K, const FftLine *x, const FftLine *y,
                          double scale) {
  const i64 m = p->sub[0]->n, bytes = 2 * (m + FFT_PAD) * K->size;
  char *mem = ty_buf_alloc(bytes);
  if (!mem) return false;
  void *a[2] = {mem, mem + bytes / 2};
  const FftLine line = {a[0], a[1], 1}, turned = {a[1], a[0], 1};
  K->gather(a[0], a[1], x, 1, p->n, 1);
  chirp_begin(p, K, a, 1);
  bool ok = by_split(p->sub[0], K, &line, &line, 1);
  K->turn(a[0], a[1], p->v, m, 1);
  ok = ok && by_split(p->sub[0], K, &turned, &turned, 1);
  K->turn(a[0], a[1], p->w, p->n, 1);
  K->scatter(y, 1, a[0], a[1], p->n, 1, scale);
  ty_buf_free(mem, bytes);
  return ok;
}

bool ty_fft_line(const FftPlan *p, const FftKern *K, const FftLine *x, const FftLine *y,
                 double scale) {
  if (p->way == FFT_BY_SPLIT) return by_split(p, K, x, y, scale);
  if (is_long(p)) return by_long_chirp(p, K, x, y, scale);
  const i64 bytes = scratch_bytes(rows_of(p), 1, K->size);
  char *mem = ty_buf_alloc(bytes);
  if (!mem) return false;
  Scratch s = scratch_at(mem, rows_of(p), 1, K->size);
  K->gather(s.a[0], s.a[1], x, 1, p->n, 1);
  by_rows(p, K, &s, 1);
  K->scatter(y, 1, s.a[0], s.a[1], p->n, 1, scale);
  ty_buf_free(mem, bytes);
  return true;
}

/* ---- an odd number of real ones --------------------------------------------------------------------- */

/* Elements of output 0 of a pass of radix r, and of each of the others. */
static i64 odd_own(const FftPlan *P, i64 cols) { return P->pass[0].m * cols + FFT_PAD; }
static i64 odd_step(const FftPlan *P, i64 cols) {
  return (P->sub[0] ? rows_of(P->sub[0]) : 1) * cols + FFT_PAD;
}

/* Elements of all that it takes, and what is behind it: r / 2 pairs, and one to work with. */
static i64 odd_room(const FftPlan *P, i64 cols) {
  if (P->way != FFT_BY_ODD) return 4 * (rows_of(P) * cols + FFT_PAD);
  const i64 own = odd_step(P, cols) * (P->pass[0].r + 1);
  return odd_own(P, cols) + TY_MAX(own, P->sub[1] ? odd_room(P->sub[1], cols) : 0);
}

/* In place but for the arrays' names. */
static bool any_rows(const FftPlan *p, const FftKern *K, Scratch *s, i64 cols) {
  if (!is_long(p)) by_rows(p, K, s, cols);
  const FftLine a = {s->a[0], s->a[1], 1};
  return !is_long(p) || ty_fft_line(p, K, &a, &a, 1);
}

/* Memory of a pass: output 0; behind it pairs of arrays for outputs 1 to r / 2, real parts before imaginary ones, and a pair to
** work with; or what a pass over output 0 takes. In bytes. */
typedef struct OddMemory {
  char *v, *rest;
  i64 step, half;
} OddMemory;

static OddMemory odd_memory(const FftPlan *P, int size, char *mem, i64 cols) {
  const i64 step = odd_step(P, cols) * size;
  return (OddMemory){mem, mem + odd_own(P, cols) * size, step, P->pass[0].r / 2 * step};
}

/* Output k. aside: of it and what works with it, the second. */
static Scratch odd_output(const OddMemory *m, i64 k, bool aside) {
  char *own = m->rest + (k - 1) * m->step, *work = m->rest + 2 * m->half;
  const i64 h = m->half, w = m->step;
  if (aside) return (Scratch){{work, work + w}, {own, own + h}, NULL};
  return (Scratch){{own, own + h}, {work, work + w}, NULL};
}

/* Number k + r l of a transform of n, of which a half is there: numbers below `direct` are in it, the others are conjugates of
** what goes back from there. */
static i64 odd_direct(const FftPlan *P, i64 k) { return ((P->n - 1) / 2 - k) / P->pass[0].r + 1; }
static FftLine odd_mirrored(const FftPlan *P, const FftLine *x, i64 k, i64 direct, int size) {
  const i64 r = P->pass[0].r;
  return from(x, P->n - k - r * direct, -r, size);
}

/* Rows of a from number i on. */
static FftLine odd_rows(const Scratch *s, i64 i, i64 cols, int size) {
  return (FftLine){row_of(s->a[0], i, cols, size), row_of(s->a[1], i, cols, size), cols};
}

/* From rows of x, real, to the rows of y. */
static bool odd_forward(const FftPlan *P, const FftKern *K, char *x, const FftLine *y, i64 cols,
                        char *mem) {
  const i64 row = cols * K->size;
  if (P->way != FFT_BY_ODD) {
    Scratch s = scratch_at(mem, rows_of(P), cols, K->size);
    memcpy(s.a[0], x, (size_t)(P->n * row));
    memset(s.a[1], 0, (size_t)(P->n * row));
    const bool ok = any_rows(P, K, &s, cols);
    K->scatter(y, 1, s.a[0], s.a[1], P->n / 2 + 1, cols, 1);
    return ok;
  }
  const FftPass *p = &P->pass[0];
  const OddMemory m = odd_memory(P, K->size, mem, cols);
  K->halve(p, x, m.v, m.rest, m.rest + m.half, m.step / K->size, cols);
  for (i64 k = 1; k <= p->r / 2; k++) {
    Scratch s = odd_output(&m, k, false);
    if (P->sub[0] && !any_rows(P->sub[0], K, &s, cols)) return false;
    const i64 direct = odd_direct(P, k), more = p->m - direct;
    const FftLine a = from(y, k, p->r, K->size), b = odd_mirrored(P, y, k, direct, K->size);
    K->scatter(&a, 1, s.a[0], s.a[1], direct, cols, 1);
    const FftLine others = odd_rows(&s, direct, cols, K->size);
    K->conjugate(&b, &others, more, cols);
  }
  const FftLine rest = from(y, 0, p->r, K->size);
  if (P->sub[1]) return odd_forward(P->sub[1], K, m.v, &rest, cols, m.rest);
  memcpy(y->re, m.v, (size_t)row);
  memset(y->im, 0, (size_t)row);
  return true;
}

/* From the rows of x to rows of y, real. */
static bool odd_back(const FftPlan *P, const FftKern *K, const FftLine *x, char *y, i64 cols,
                     double weight, char *mem) {
  const i64 row = cols * K->size;
  if (P->way != FFT_BY_ODD) {
    Scratch s = scratch_at(mem, rows_of(P), cols, K->size);
    K->gather(s.a[0], s.a[1], x, 1, P->n / 2 + 1, cols);
    K->mirror(s.a[0], s.a[1], P->n, cols, weight);
    exchange(s.a), exchange(s.b);
    const bool ok = any_rows(P, K, &s, cols);
    memcpy(y, s.a[1], (size_t)(P->n * row));
    return ok;
  }
  const FftPass *p = &P->pass[0];
  const OddMemory m = odd_memory(P, K->size, mem, cols);
  const FftLine rest = from(x, 0, p->r, K->size);
  if (!P->sub[1]) memcpy(m.v, x->re, (size_t)row);
  else if (!odd_back(P->sub[1], K, &rest, m.v, cols, weight, m.rest)) return false;
  /* Results are to be where they are looked for. */
  const bool aside = P->sub[0] && P->sub[0]->way == FFT_BY_PASSES && P->sub[0]->npass % 2;
  for (i64 k = 1; k <= p->r / 2; k++) {
    Scratch s = odd_output(&m, k, aside);
    const i64 direct = odd_direct(P, k), more = p->m - direct;
    const FftLine a = from(x, k, p->r, K->size), b = odd_mirrored(P, x, k, direct, K->size);
    const FftLine others = odd_rows(&s, direct, cols, K->size);
    K->gather(s.a[0], s.a[1], &a, 1, direct, cols);
    K->conjugate(&others, &b, more, cols);
    exchange(s.a), exchange(s.b);
    if (P->sub[0] && !any_rows(P->sub[0], K, &s, cols)) return false;
  }
  K->unite(p, m.v, m.rest, m.rest + m.half, m.step / K->size, y, cols, 2 * weight);
  return true;
}

/* ---- lines of a tensor --------------------------------------------------------------------------- */

typedef struct Lines {
  const FftPlan *p, *q; /* of complex numbers; of real ones, NULL: they are taken as complex */
  const FftKern *K;
  const char *x;
  char *y;
  i64 n, inner, outer;
  int kind;
  double scale, weight; /* weight: of numbers that stand for two */
  i64 most;             /* columns side by side */
  char *scratch;
  i64 part, parts, rows, odd; /* odd: bytes of scratch behind that of rows */
  _Atomic bool failed;
} Lines;

/* The line of column c of block o, of so many numbers, real or pairs. */
static FftLine line_at(const Lines *l, const void *t, i64 count, bool real, i64 o, i64 c) {
  const i64 parts = real ? 1 : 2, at = (o * count * l->inner + c) * parts;
  char *p = (char *)(uintptr_t)t + at * l->K->size;
  return (FftLine){p, real ? NULL : p + l->K->size, parts * l->inner};
}
/* Real numbers as pairs. */
static FftLine paired(const Lines *l, FftLine x) {
  return (FftLine){x.re, (char *)x.re + x.row * l->K->size, 2 * x.row};
}
static FftLine inverse(FftLine x) { return (FftLine){x.im, x.re, x.row}; }
static FftLine whole(void *a[2]) { return (FftLine){a[0], a[1], 1}; }

/* From x to the transform in s->a, which is the result of `back` exchanged. */
static bool run(const Lines *l, const FftLine *x, i64 col, i64 cols, Scratch *s) {
  if (is_long(l->p)) {
    const FftLine to = whole(s->a);
    return ty_fft_line(l->p, l->K, x, &to, 1);
  }
  l->K->gather(s->a[0], s->a[1], x, col, l->p->n, cols);
  by_rows(l->p, l->K, s, cols);
  return true;
}

/* The first half of a transform, rows 0 .. n / 2, with weights. */
static void scatter_half(const Lines *l, const FftLine *y, i64 col, void *a[2], i64 cols) {
  const i64 h = l->n / 2, alone = l->n % 2 ? h + 1 : h;
  const int size = l->K->size;
  for (i64 k = 0, n; k <= h; k += n) {
    n = l->weight == 1 ? h + 1 : k == 0 || k == alone ? 1 : alone - k;
    const FftLine to = from(y, k, 1, size);
    l->K->scatter(&to, col, row_of(a[0], k, cols, size), row_of(a[1], k, cols, size), n, cols,
                  k == 0 || k == alone ? l->scale : l->scale * l->weight);
  }
}

static bool real_to_half(const Lines *l, FftLine x, i64 xcol, const FftLine *y, i64 ycol, i64 cols,
                         Scratch *s) {
  if (l->odd) {
    const FftLine half = {s->b[0], s->b[1], cols};
    l->K->gather(s->a[0], NULL, &x, xcol, l->n, cols);
    if (!odd_forward(l->q, l->K, s->a[0], &half, cols, s->odd)) return false;
    scatter_half(l, y, ycol, s->b, cols);
    return true;
  }
  if (l->q) x = paired(l, x);
  if (!run(l, &x, xcol, cols, s)) return false;
  if (!l->q) scatter_half(l, y, ycol, s->a, cols);
  else {
    l->K->split(s->b[0], s->b[1], s->a[0], s->a[1], l->q->w, l->n / 2, cols);
    scatter_half(l, y, ycol, s->b, cols);
  }
  return true;
}

static bool half_to_real(const Lines *l, const FftLine *x, i64 xcol, FftLine y, i64 ycol, i64 cols,
                         Scratch *s) {
  const FftKern *K = l->K;
  const i64 h = l->n / 2;
  void **in = l->q ? s->b : s->a;
  K->gather(in[0], in[1], x, xcol, h + 1, cols);
  if (l->odd) {
    const FftLine half = {in[0], in[1], cols};
    if (!odd_back(l->q, K, &half, s->a[0], cols, l->weight, s->odd)) return false;
    K->scatter(&y, ycol, s->a[0], s->a[0], l->n, cols, l->scale);
    return true;
  }
  if (l->q) K->merge(s->a[0], s->a[1], in[0], in[1], l->q->w, h, cols, l->weight), y = paired(l, y);
  else K->mirror(in[0], in[1], l->n, cols, l->weight);
  exchange(s->a), exchange(s->b);
  if (is_long(l->p)) {
    const FftLine a = whole(s->a);
    if (!ty_fft_line(l->p, K, &a, &a, 1)) return false;
  } else by_rows(l->p, K, s, cols);
  K->scatter(&y, ycol, s->a[1], s->a[0], l->p->n, cols, l->scale);
  return true;
}

/* Columns [c, c + cols) of block o; of blocks from o on where inner is 1. */
static bool group(const Lines *l, i64 o, i64 c, i64 cols, Scratch *s) {
  const bool real = ty_fft_takes_real(l->kind), gives = ty_fft_gives_real(l->kind);
  const i64 h = l->n / 2 + 1, nx = gives ? h : l->n, ny = real ? h : l->n;
  FftLine x = line_at(l, l->x, nx, real, o, c), y = line_at(l, l->y, ny, gives, o, c);
  const i64 xcol = (l->inner == 1 ? nx : 1) * (real ? 1 : 2);
  const i64 ycol = (l->inner == 1 ? ny : 1) * (gives ? 1 : 2);
  if (real) return real_to_half(l, x, xcol, &y, ycol, cols, s);
  if (gives) return half_to_real(l, &x, xcol, y, ycol, cols, s);
  if (l->kind == FFT_INVERSE) x = inverse(x), y = inverse(y);
  if (is_long(l->p)) return ty_fft_line(l->p, l->K, &x, &y, l->scale);
  run(l, &x, xcol, cols, s);
  l->K->scatter(&y, ycol, s->a[0], s->a[1], l->n, cols, l->scale);
  return true;
}

static i64 groups_of(const Lines *l) {
  if (l->inner == 1) return (l->outer + l->most - 1) / l->most;
  return l->outer * ((l->inner + l->most - 1) / l->most);
}

static void parts_run(void *arg, i64 begin, i64 end) {
  Lines *l = arg;
  const i64 all = groups_of(l), each = all / (l->inner == 1 ? 1 : l->outer);
  for (i64 i = begin; i < end; i++)
    for (i64 g = share(all, l->parts, i); g < share(all, l->parts, i + 1); g++) {
      if (ty_watch_stops()) return;
      Scratch s = scratch_at(l->scratch + i * l->part, l->rows, l->most, l->K->size);
      const i64 o = l->inner == 1 ? g * l->most : g / each,
                c = l->inner == 1 ? 0 : g % each * l->most;
      const i64 cols = TY_MIN(l->most, l->inner == 1 ? l->outer - o : l->inner - c);
      if (!group(l, o, c, cols, &s)) l->failed = true;
    }
}

/* How many columns go side by side: more where there are plenty for every thread, and the arrays of a pass stay in the first
** cache; or where passes are many, over short rows. */
static i64 columns(const Lines *l, int threads) {
  const i64 lines = l->inner > 1 ? l->inner : l->outer;
  if (is_long(l->p) || lines < FEW_LINES) return 1;
  const FftPlan *p = l->p->way == FFT_BY_CHIRP ? l->p->sub[0] : l->p;
  if (l->inner == 1 && p->n > SHORT_LINE && p->pass[0].r == 8) return 1;
  const bool odd = l->q && l->q->way == FFT_BY_ODD;
  const i64 each = (odd ? l->n : p->n) * 4 * l->K->size;
  i64 most = FFT_COLUMNS;
  while (lines >= 4 * most * threads &&
         (2 * most * each < FIRST_CACHE || (odd && most == FFT_COLUMNS)))
    most *= 2;
  return most;
}

static bool lines_run(Lines *l) {
  const i64 numbers = l->outer * l->inner * l->n;
  const int threads = numbers < 2 * GRAIN ? 1 : ty_pool_threads(0);
  l->most = columns(l, threads);
  l->rows = TY_MAX(rows_of(l->p), l->n / 2 + 1);
  if (l->q && l->q->way == FFT_BY_ODD) {
    l->rows = l->n;
    l->odd = odd_room(l->q, l->most) * l->K->size;
  }
  l->parts = is_long(l->p) ? 1 : TY_MIN(threads, groups_of(l));
  const i64 each = scratch_bytes(l->rows, l->most, l->K->size) + l->odd;
  if (!(l->scratch = ty_buf_pieces(l->parts, each, &l->part))) return false;
  if (l->parts == 1) parts_run(l, 0, 1);
  else ty_pool_run(l->parts, 1, parts_run, l);
  ty_buf_free(l->scratch, each * l->parts);
  return !l->failed;
}

bool ty_fft(int dtype, int kind, int norm, const void *x, void *y, i64 outer, i64 n, i64 inner) {
  const bool real = kind != FFT_FORWARD && kind != FFT_INVERSE;
  Lines l = {.x = x,
             .y = y,
             .n = n,
             .inner = inner,
             .outer = outer,
             .kind = kind,
             .weight = ty_fft_weight(kind)};
  if (!outer || !inner) return true;
  l.K = ty_fft_kern(dtype);
  l.scale = ty_fft_scale(norm, n);
  const FftPlan *p = ty_fft_plan(dtype, n, real);
  if (!p) return false;
  l.q = p->real ? p : NULL;
  l.p = p->real && p->sub[0] ? p->sub[0] : p;
  const bool ok = lines_run(&l);
  ty_fft_drop(p);
  return ok;
}
