/*
** ptx_fft.c -- steps of Fourier transforms as PTX.
** In:  a step, its dtype, radix.  Out: a module. Fails when out of memory alone.
** A thread makes what one lane of the CPU's vectors makes (kernels/fft_micro.h), by the same additions, subtractions and
** products in the same order, each rounded: bits are the CPU's. Numbers of elements are below 2^31.
*/
#include "device/cuda/ptx_fft.h"
#include "device/cuda/ptx_each.h"
#include "device/fft_plan.h"

enum {
  TURNS_MOST = 7,  /* the largest radix whose cosines and sines lie in registers */
  RADIX_TWICE = 11 /* of larger ones a multiprocessor may hold one block */
};

typedef struct Pair {
  Reg re, im;
} Pair;

/* Where arrays lie that steps read and write: as the parameters say, or in shared memory. */
enum { SHARED_X = -32, SHARED_Y = -16 };

typedef struct Fft {
  Each e;
  int dtype, ctype, bytes;
  i32 x, y;
  Reg plane[4];             /* in shared memory: parts of x, parts of y */
  Reg given[FFT_BYTES / 8]; /* instead of parameters, where not 0 */
} Fft;

/* --- numbers */

static Reg add(Fft *f, Reg a, Reg b) { return ty_ptx_binary(&f->e.E, P_ADD, f->ctype, a, b); }
static Reg less(Fft *f, Reg a, Reg b) { return ty_ptx_binary(&f->e.E, P_SUB, f->ctype, a, b); }
static Reg times(Fft *f, Reg a, Reg b) { return ty_ptx_binary(&f->e.E, P_MUL, f->ctype, a, b); }
static Reg minus(Fft *f, Reg a) {
  const Instr in = {.op = P_NEG, .type = (u8)f->ctype};
  return ty_ptx_primitive(&f->e.E, &in, f->ctype, a, 0, 0);
}
static Reg number(Fft *f, double v) {
  u64 bits = 0;
  const float narrow = (float)v;
  if (f->ctype == C_F64) memcpy(&bits, &v, sizeof v);
  else memcpy(&bits, &narrow, sizeof narrow);
  return ty_ptx_const(&f->e.E, f->ctype, bits);
}
static Pair sum(Fft *f, Pair a, Pair b) { return (Pair){add(f, a.re, b.re), add(f, a.im, b.im)}; }
static Pair difference(Fft *f, Pair a, Pair b) {
  return (Pair){less(f, a.re, b.re), less(f, a.im, b.im)};
}
static Pair turned(Fft *f, Pair a, Pair w) {
  const Reg re = less(f, times(f, a.re, w.re), times(f, a.im, w.im));
  return (Pair){re, add(f, times(f, a.re, w.im), times(f, a.im, w.re))};
}
static Pair scaled(Fft *f, Pair a, Reg by) {
  return (Pair){times(f, a.re, by), times(f, a.im, by)};
}

/* A parameter of the transform's dtype. */
static Reg factor(Fft *f, i32 at) {
  return ty_ptx_param(&f->e.E, f->ctype == C_F64 ? REG_64 : REG_32, at);
}

/* --- places */

static Reg plus(Fft *f, Reg a, Reg b) { return op(&f->e.E, "add", a, b); }
static Reg plus_number(Fft *f, Reg a, i64 b) {
  return b ? op(&f->e.E, "add", a, number_of(&f->e.E, b)) : a;
}
static Reg product(Fft *f, Reg a, Reg b) { return op(&f->e.E, "mul.lo", a, b); }
static Reg product_number(Fft *f, Reg a, i64 b) {
  return b == 1 ? a : op(&f->e.E, "mul.lo", a, number_of(&f->e.E, b));
}

/* a / b, and what is left; of numbers below 2^32. */
static Reg quotient(Fft *f, Reg a, Reg b, Reg *rest) {
  Ptx *E = &f->e.E;
  const Reg x = ty_ptx_reg(E, REG_32), y = ty_ptx_reg(E, REG_32), q = ty_ptx_reg(E, REG_32),
            wide = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "cvt.u32.u64 $, $", x, a);
  ty_ptx(E, "cvt.u32.u64 $, $", y, b);
  ty_ptx(E, "div.u32 $, $, $", q, x, y);
  ty_ptx(E, "cvt.u64.u32 $, $", wide, q);
  if (rest) *rest = op(E, "sub", a, product(f, wide, b));
  return wide;
}

/* What a step is given at a place of the block. */
static Reg given(Fft *f, i32 at) {
  return f->given[at / 8] ? f->given[at / 8] : param(&f->e.E, at);
}

static const char *bits_of(const Fft *f) { return f->bytes == 8 ? "b64" : "b32"; }

static Reg in_plane(Fft *f, i32 base, Reg at) {
  return at_element(&f->e.E, f->plane[(base - SHARED_X) / 8], at, f->bytes);
}
static Reg load(Fft *f, i32 base, Reg at) {
  Ptx *E = &f->e.E;
  if (base >= 0) return ty_ptx_load(E, f->dtype, at_element(E, given(f, base), at, f->bytes));
  const Reg y = ty_ptx_value(E, f->ctype);
  ty_ptx(E, "ld.shared.~ $, [$]", bits_of(f), y, in_plane(f, base, at));
  return y;
}
static void store(Fft *f, i32 base, Reg at, Reg v) {
  Ptx *E = &f->e.E;
  if (base >= 0) ty_ptx_store(E, f->dtype, at_element(E, given(f, base), at, f->bytes), v);
  else ty_ptx(E, "st.shared.~ [$], $", bits_of(f), in_plane(f, base, at), v);
}
static Pair get(Fft *f, i32 base, Reg at) {
  return (Pair){load(f, base, at), load(f, base + 8, at)};
}
static void put(Fft *f, i32 base, Reg at, Pair v) {
  store(f, base, at, v.re);
  store(f, base + 8, at, v.im);
}
/* Pair `at` of a table of pairs. */
static Pair root(Fft *f, i32 table, Reg at) {
  const Reg twice = product_number(f, at, 2);
  return (Pair){load(f, table, twice), load(f, table, plus_number(f, twice, 1))};
}

/* --- butterflies */

static void two(Fft *f, Pair *x, int a, int b) {
  const Pair t = x[a];
  x[a] = sum(f, t, x[b]);
  x[b] = difference(f, t, x[b]);
}

static void four(Fft *f, Pair *x, int a, int b, int c, int d) {
  two(f, x, a, c);
  two(f, x, b, d);
  const Pair t = x[b], t1 = x[c], t3 = x[d], t0 = x[a];
  x[b] = (Pair){add(f, t1.re, t3.im), less(f, t1.im, t3.re)};
  x[d] = (Pair){less(f, t1.re, t3.im), add(f, t1.im, t3.re)};
  x[a] = sum(f, t0, t);
  x[c] = difference(f, t0, t);
}

static void eight(Fft *f, Pair *x) {
  const Reg half = number(f, 0.70710678118654752440);
  Pair y[8];
  four(f, x, 0, 2, 4, 6);
  four(f, x, 1, 3, 5, 7);
  const Pair t1 = x[3], t2 = x[5], t3 = x[7];
  x[3] = (Pair){times(f, add(f, t1.re, t1.im), half), times(f, less(f, t1.im, t1.re), half)};
  x[5] = (Pair){t2.im, minus(f, t2.re)};
  x[7] =
      (Pair){times(f, less(f, t3.im, t3.re), half), times(f, minus(f, add(f, t3.re, t3.im)), half)};
  for (int k = 0; k < 4; k++) {
    y[k] = sum(f, x[2 * k], x[2 * k + 1]);
    y[k + 4] = difference(f, x[2 * k], x[2 * k + 1]);
  }
  memcpy(x, y, sizeof y);
}

/* Cosines, then sines, of an odd radix, as the plan has them. */
typedef struct Turns {
  int r;
  i32 table; /* the parameter */
  Reg all[2 * TURNS_MOST];
} Turns;

static void turns(Fft *f, Turns *t, int r, i32 table) {
  t->r = r, t->table = table;
  for (int i = 0; r <= TURNS_MOST && i < 2 * r; i++)
    t->all[i] = load(f, table, number_of(&f->e.E, i));
}
static Reg turn_at(Fft *f, const Turns *t, int i) {
  return t->r <= TURNS_MOST ? t->all[i] : load(f, t->table, number_of(&f->e.E, i));
}

/* a[0] + a[1] cos k + a[2] cos 2 k ..., or of sines, without a[0]. */
static Reg series(Fft *f, const Reg *a, const Turns *t, int k, bool sines) {
  const int first = sines ? t->r : 0;
  Reg y = times(f, a[1], turn_at(f, t, first + k));
  if (!sines) y = add(f, a[0], y);
  for (int i = 2; i <= t->r / 2; i++)
    y = add(f, y, times(f, a[i], turn_at(f, t, first + i * k % t->r)));
  return y;
}

/* Where outputs of a butterfly go. */
typedef struct Outputs {
  Reg p, to, s;
  int r;
  bool last;
} Outputs;

static void output(Fft *f, const Outputs *o, int k, Pair v) {
  if (k && !o->last)
    v = turned(f, v, root(f, FFT_W, plus_number(f, product_number(f, o->p, o->r - 1), k - 1)));
  put(f, f->y, plus(f, o->to, product_number(f, o->s, k)), v);
}

static void odd(Fft *f, const Pair *x, const Outputs *o) {
  const int r = o->r;
  Turns t;
  Reg re[FFT_RADIX_MOST], im[FFT_RADIX_MOST], dr[FFT_RADIX_MOST], di[FFT_RADIX_MOST];
  Pair all = x[0];
  turns(f, &t, r, FFT_TURNS);
  re[0] = x[0].re, im[0] = x[0].im;
  for (int k = 1; k <= r / 2; k++) {
    const Pair s = sum(f, x[k], x[r - k]), d = difference(f, x[k], x[r - k]);
    re[k] = s.re, im[k] = s.im, dr[k] = d.re, di[k] = d.im;
    all = sum(f, all, s);
  }
  output(f, o, 0, all);
  for (int k = 1; k <= r / 2; k++) {
    const Reg mr = series(f, re, &t, k, false), mi = series(f, im, &t, k, false),
              nr = series(f, dr, &t, k, true), ni = series(f, di, &t, k, true);
    output(f, o, k, (Pair){add(f, mr, ni), less(f, mi, nr)});
    output(f, o, r - k, (Pair){less(f, mr, ni), add(f, mi, nr)});
  }
}

static void pass(Fft *f, int r, bool last) {
  Pair x[FFT_RADIX_MOST] = {{0, 0}};
  const Reg t = f->e.number, s = given(f, FFT_COLS), far = given(f, FFT_M),
            p = quotient(f, t, s, NULL);
  const Outputs o = {p, plus(f, t, product(f, product_number(f, p, r - 1), s)), s, r, last};
  Reg from = t;
  for (int k = 0; k < r; k++, from = plus(f, from, far)) x[k] = get(f, f->x, from);
  if (r == 2) two(f, x, 0, 1);
  else if (r == 4) four(f, x, 0, 1, 2, 3);
  else if (r == 8) eight(f, x);
  else {
    odd(f, x, &o);
    return;
  }
  for (int k = 0; k < r; k++) output(f, &o, k, x[k]);
}

/* --- from a tensor and back */

/* The offset in bytes of a row of a line; steps: INNER_STEP, OUTER_STEP, ROW_STEP. */
static Reg of_line(Fft *f, Reg line, Reg row, i32 steps) {
  Ptx *E = &f->e.E;
  Reg inner;
  const Reg outer = quotient(f, line, param(E, FFT_INNER), &inner);
  return mad(E, outer, param(E, steps + 8),
             mad(E, inner, param(E, steps), product(f, row, param(E, steps + 16))));
}

/* The same of a number of the tensor, and its row. */
static Reg of_tensor(Fft *f, Reg *row) {
  Reg column;
  *row = quotient(f, f->e.number, param(&f->e.E, FFT_COLS), &column);
  return of_line(f, plus(f, column, param(&f->e.E, FFT_FIRST)), *row, FFT_INNER_STEP);
}

/* A predicate: the row's numbers stand for themselves alone. */
static Reg is_alone(Fft *f, Reg row) {
  Ptx *E = &f->e.E;
  const Reg p = ty_ptx_reg(E, REG_PRED), q = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.eq.s64 $, $, 0", p, row);
  ty_ptx(E, "setp.eq.s64 $, $, $", q, row, param(E, FFT_ALONE));
  ty_ptx(E, "or.pred $, $, $", p, p, q);
  return p;
}

/* a where p holds, else b. */
static Reg chosen(Fft *f, Reg p, Reg a, Reg b) {
  const Reg y = ty_ptx_value(&f->e.E, f->ctype);
  ty_ptx(&f->e.E, "selp.~ $, $, $, $", bits_of(f), y, a, b, p);
  return y;
}

/* What a row's numbers are multiplied by. */
static Reg scale_of(Fft *f, Reg row) {
  return chosen(f, is_alone(f, row), factor(f, FFT_SCALE), factor(f, FFT_SCALE_OTHERS));
}

static void gather(Fft *f, bool real) {
  Ptx *E = &f->e.E;
  Reg row;
  const Reg at = of_tensor(f, &row);
  Pair v = {ty_ptx_load(E, f->dtype, plus(f, param(E, FFT_X), at)), 0};
  v.im = real ? number(f, 0) : ty_ptx_load(E, f->dtype, plus(f, param(E, FFT_X + 8), at));
  put(f, FFT_Y, f->e.number, v);
}

static void scatter(Fft *f, bool real) {
  Ptx *E = &f->e.E;
  Reg row;
  const Reg at = of_tensor(f, &row), by = scale_of(f, row);
  ty_ptx_store(E, f->dtype, plus(f, param(E, FFT_Y), at),
               times(f, load(f, FFT_X, f->e.number), by));
  if (real) return;
  ty_ptx_store(E, f->dtype, plus(f, param(E, FFT_Y + 8), at),
               times(f, load(f, FFT_X + 8, f->e.number), by));
}

static void half_lines(Fft *f) {
  Reg row;
  quotient(f, quotient(f, f->e.number, param(&f->e.E, FFT_COLS), NULL), param(&f->e.E, FFT_N),
           &row);
  const Reg at = product_number(f, f->e.number, 2);
  Pair v = scaled(f, get(f, FFT_X, at), scale_of(f, row));
  v.im = chosen(f, is_alone(f, row), number(f, 0), v.im);
  put(f, FFT_Y, at, v);
}

/* --- factors */

static void turn(Fft *f) {
  Ptx *E = &f->e.E;
  const int beyond = ty_ptx_label(E), done = ty_ptx_label(E);
  const Reg t = f->e.number, row = quotient(f, t, param(E, FFT_COLS), NULL), zero = number(f, 0);
  branch(E, "ge", row, param(E, FFT_N), beyond);
  put(f, FFT_Y, t, turned(f, get(f, FFT_Y, t), root(f, FFT_W, row)));
  ty_ptx(E, "bra @", done);
  ty_ptx_here(E, beyond);
  put(f, FFT_Y, t, (Pair){zero, zero});
  ty_ptx_here(E, done);
}

static void twist(Fft *f) {
  Ptx *E = &f->e.E;
  Reg c, j, at;
  const Reg cols = param(E, FFT_COLS), m = param(E, FFT_M),
            both = quotient(f, f->e.number, cols, &c), k = quotient(f, both, param(E, FFT_N), &j),
            block = quotient(f, j, number_of(E, FFT_COLUMNS), &at);
  const Pair u = root(f, FFT_W, product(f, k, block));
  const Reg first = plus(f, product_number(f, k, 2 * FFT_COLUMNS), at);
  const Pair v = {load(f, FFT_V, first), load(f, FFT_V, plus_number(f, first, FFT_COLUMNS))};
  const Reg to = mad(E, mad(E, j, m, k), cols, c);
  put(f, FFT_Y, to, turned(f, get(f, FFT_X, f->e.number), turned(f, u, v)));
}

/* --- real numbers, as pairs */

static void split(Fft *f) {
  Ptx *E = &f->e.E;
  Reg c;
  const Reg cols = given(f, FFT_COLS), h = given(f, FFT_N), zero = number_of(E, 0),
            i = quotient(f, f->e.number, cols, &c), k = ty_ptx_reg(E, REG_64),
            j = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED), half = number(f, 0.5);
  ty_ptx(E, "setp.eq.s64 $, $, $", p, i, h);
  ty_ptx(E, "selp.b64 $, $, $, $", k, zero, i, p);
  ty_ptx(E, "setp.eq.s64 $, $, 0", p, i);
  ty_ptx(E, "selp.b64 $, $, $, $", j, zero, op(E, "sub", h, i), p);
  const Pair x = get(f, f->x, mad(E, k, cols, c)), z = get(f, f->x, mad(E, j, cols, c)),
             w = root(f, FFT_W, i);
  const Pair e = {times(f, add(f, x.re, z.re), half), times(f, less(f, x.im, z.im), half)},
             o = {times(f, add(f, x.im, z.im), half), times(f, less(f, z.re, x.re), half)};
  put(f, f->y, f->e.number, sum(f, e, turned(f, o, w)));
}

static void merge(Fft *f, Reg weight) {
  Ptx *E = &f->e.E;
  Reg c;
  const Reg cols = given(f, FFT_COLS), i = quotient(f, f->e.number, cols, &c),
            at = mad(E, op(E, "sub", given(f, FFT_N), i), cols, c), p = ty_ptx_reg(E, REG_PRED),
            by = ty_ptx_value(E, f->ctype), none = number(f, 0);
  const char *bits = bits_of(f);
  ty_ptx(E, "setp.eq.s64 $, $, 0", p, i);
  ty_ptx(E, "selp.~ $, $, $, $", bits, by, number(f, 1), weight, p);
  const Pair x = scaled(f, get(f, f->x, f->e.number), by), z = scaled(f, get(f, f->x, at), by),
             w = root(f, FFT_W, i);
  ty_ptx(E, "selp.~ $, $, $, $", bits, x.im, none, x.im, p);
  ty_ptx(E, "selp.~ $, $, $, $", bits, z.im, none, z.im, p);
  const Pair s = {add(f, x.re, z.re), less(f, x.im, z.im)},
             d = {less(f, x.re, z.re), add(f, x.im, z.im)};
  const Reg tr = add(f, times(f, d.re, w.re), times(f, d.im, w.im)),
            ti = less(f, times(f, d.im, w.re), times(f, d.re, w.im));
  put(f, f->y, f->e.number, (Pair){less(f, s.re, ti), add(f, s.im, tr)});
}

static void mirror(Fft *f) {
  Ptx *E = &f->e.E;
  Reg c;
  const int other = ty_ptx_label(E), done = ty_ptx_label(E);
  const Reg t = f->e.number, cols = param(E, FFT_COLS), k = quotient(f, t, cols, &c);
  branch(E, "gt", k, number_of(E, 0), other);
  store(f, FFT_Y + 8, t, number(f, 0));
  ty_ptx(E, "bra @", done);
  ty_ptx_here(E, other);
  const Pair v = scaled(f, get(f, FFT_Y, t), factor(f, FFT_SCALE));
  put(f, FFT_Y, t, v);
  put(f, FFT_Y, mad(E, op(E, "sub", param(E, FFT_N), k), cols, c), (Pair){v.re, minus(f, v.im)});
  ty_ptx_here(E, done);
}

/* --- real numbers, odd */

/* Of output k of butterfly p. */
static Pair odd_root(Fft *f, Reg p, int k) {
  const Reg span = param(&f->e.E, FFT_SPAN), at = plus(f, p, product_number(f, span, 2 * (k - 1)));
  return (Pair){load(f, FFT_W, at), load(f, FFT_W, plus(f, at, span))};
}

/* Of the first of a butterfly's outputs in u; they are `cols` apart. */
static Reg odd_first(Fft *f, int r, Reg *p) {
  const Reg t = f->e.number, cols = param(&f->e.E, FFT_COLS);
  *p = quotient(f, t, cols, NULL);
  return plus(f, t, product(f, product_number(f, *p, r / 2 - 1), cols));
}

static void halve(Fft *f, int r, bool last) {
  Ptx *E = &f->e.E;
  Turns turn;
  Reg x[FFT_ODD_MOST] = {0}, s[FFT_ODD_MOST] = {0}, d[FFT_ODD_MOST] = {0}, p;
  const Reg far = param(E, FFT_M), cols = param(E, FFT_COLS);
  Reg from = f->e.number, to = odd_first(f, r, &p);
  for (int k = 0; k < r; k++, from = plus(f, from, far)) x[k] = load(f, FFT_X, from);
  turns(f, &turn, r, FFT_TURNS);
  Reg all = s[0] = x[0];
  for (int k = 1; k <= r / 2; k++) {
    s[k] = add(f, x[k], x[r - k]), d[k] = less(f, x[k], x[r - k]);
    all = add(f, all, s[k]);
  }
  store(f, FFT_V, f->e.number, all);
  for (int k = 1; k <= r / 2; k++, to = plus(f, to, cols)) {
    const Pair y = {series(f, s, &turn, k, false), minus(f, series(f, d, &turn, k, true))};
    put(f, FFT_Y, to, last ? y : turned(f, y, odd_root(f, p, k)));
  }
}

static void unite(Fft *f, int r, bool last) {
  Ptx *E = &f->e.E;
  Turns turn;
  Reg re[FFT_ODD_MOST] = {0}, im[FFT_ODD_MOST] = {0}, p;
  const Reg far = param(E, FFT_M), cols = param(E, FFT_COLS), by = factor(f, FFT_SCALE);
  Reg from = odd_first(f, r, &p), all = re[0] = load(f, FFT_V, f->e.number);
  turns(f, &turn, r, FFT_TURNS);
  for (int k = 1; k <= r / 2; k++, from = plus(f, from, cols)) {
    const Pair a = scaled(f, get(f, FFT_X, from), by);
    re[k] = a.re, im[k] = a.im;
    if (!last) {
      const Pair w = odd_root(f, p, k);
      re[k] = add(f, times(f, a.re, w.re), times(f, a.im, w.im));
      im[k] = less(f, times(f, a.im, w.re), times(f, a.re, w.im));
    }
    all = add(f, all, re[k]);
  }
  store(f, FFT_Y, f->e.number, all);
  for (int k = 1; k <= r / 2; k++) {
    const Reg a = series(f, re, &turn, k, false), b = series(f, im, &turn, k, true);
    const Reg at = plus(f, f->e.number, product_number(f, far, k)),
              other = plus(f, f->e.number, product_number(f, far, r - k));
    store(f, FFT_Y, at, less(f, a, b));
    store(f, FFT_Y, other, add(f, a, b));
  }
}

/* Number k + r l of a transform of n, or n minus that where it is in the other half: then conjugate. */
static void fold(Fft *f, int r, bool back) {
  Ptx *E = &f->e.E;
  Reg c, k;
  const Reg q = quotient(f, f->e.number, param(E, FFT_COLS), &c), n = param(E, FFT_N),
            l = quotient(f, q, number_of(E, r / 2), &k), p = ty_ptx_reg(E, REG_PRED),
            own = plus_number(f, plus(f, product_number(f, l, r), k), 1),
            at = ty_ptx_reg(E, REG_64), im = ty_ptx_value(E, f->ctype);
  ty_ptx(E, "setp.gt.s64 $, $, $", p, product_number(f, own, 2), n);
  ty_ptx(E, "selp.b64 $, $, $, $", at, op(E, "sub", n, own), own, p);
  const Reg byte = mad(E, at, param(E, FFT_ROW_STEP), product_number(f, c, f->bytes));
  const i32 base = back ? FFT_X : FFT_Y; /* of the half */
  const Reg to_re = plus(f, param(E, base), byte), to_im = plus(f, param(E, base + 8), byte);
  Pair v;
  if (back) v = (Pair){ty_ptx_load(E, f->dtype, to_re), ty_ptx_load(E, f->dtype, to_im)};
  else v = get(f, FFT_X, f->e.number);
  ty_ptx(E, "selp.~ $, $, $, $", bits_of(f), im, minus(f, v.im), v.im, p);
  if (back) put(f, FFT_Y, f->e.number, (Pair){v.re, im});
  else ty_ptx_store(E, f->dtype, to_re, v.re), ty_ptx_store(E, f->dtype, to_im, im);
}

/* --- whole lines */

/* The threads of a block take numbers below `count`, f->e.number. */
typedef struct Loop {
  int again, done;
} Loop;

static Loop loop_begin(Fft *f, Reg thread, Reg count) {
  Ptx *E = &f->e.E;
  const Loop y = {ty_ptx_label(E), ty_ptx_label(E)};
  ty_ptx(E, "mov.b64 $, $", f->e.number, thread);
  ty_ptx_here(E, y.again);
  branch(E, "ge", f->e.number, count, y.done);
  return y;
}
static void loop_end(Fft *f, Loop l) {
  Ptx *E = &f->e.E;
  ty_ptx(E, "add.s64 $, $, #", f->e.number, f->e.number, (i64)FFT_THREADS);
  ty_ptx(E, "bra @", l.again);
  ty_ptx_here(E, l.done);
}

typedef struct Lines {
  Reg group, thread, cols;
} Lines;

static void swap_planes(Fft *f) {
  for (int i = 0; i < 2; i++) {
    const Reg t = copy_of(&f->e.E, f->plane[i]);
    ty_ptx(&f->e.E, "mov.b64 $, $", f->plane[i], f->plane[i + 2]);
    ty_ptx(&f->e.E, "mov.b64 $, $", f->plane[i + 2], t);
  }
}

static void exchange_planes(Fft *f) {
  for (int i = 0; i < 4; i += 2) {
    const Reg t = f->plane[i];
    f->plane[i] = f->plane[i + 1], f->plane[i + 1] = t;
  }
}

/* Number f->e.number of the group's lines: its row, its place in arrays, its offset in the tensor; under the guard that there is
** such a line. */
static Reg of_group(Fft *f, const Lines *l, Reg rows, i32 steps, Reg *row, Reg *at) {
  Ptx *E = &f->e.E;
  Reg row_along, column;
  const Reg column_along = quotient(f, f->e.number, rows, &row_along),
            row_across = quotient(f, f->e.number, l->cols, &column), p = ty_ptx_reg(E, REG_PRED),
            y = ty_ptx_reg(E, REG_64), guard = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.ne.s64 $, $, 0", p, param(E, FFT_LINES_ALONG));
  ty_ptx(E, "selp.b64 $, $, $, $", *row = ty_ptx_reg(E, REG_64), row_along, row_across, p);
  ty_ptx(E, "selp.b64 $, $, $, $", y, column_along, column, p);
  const Reg line = mad(E, l->group, l->cols, y);
  *at = mad(E, *row, l->cols, y);
  ty_ptx(E, "setp.lt.s64 $, $, $", guard, line, param(E, FFT_LINES_ALL));
  const Reg offset = of_line(f, line, *row, steps);
  E->guard = guard;
  return offset;
}

static void lines_in(Fft *f, const Lines *l) {
  Ptx *E = &f->e.E;
  Reg row, at;
  const Reg rows = param(E, FFT_LINES_FROM);
  const Loop loop = loop_begin(f, l->thread, product(f, rows, l->cols));
  const Reg offset = of_group(f, l, rows, FFT_INNER_STEP, &row, &at);
  const Pair v = {ty_ptx_load(E, f->dtype, plus(f, param(E, FFT_X), offset)),
                  ty_ptx_load(E, f->dtype, plus(f, param(E, FFT_X + 8), offset))};
  E->guard = 0;
  put(f, SHARED_X, at, v);
  loop_end(f, loop);
  ty_ptx(E, "bar.sync 0");
}

static void lines_out(Fft *f, const Lines *l) {
  Ptx *E = &f->e.E;
  Reg row, at;
  const Reg rows = param(E, FFT_LINES_TO);
  const Loop loop = loop_begin(f, l->thread, product(f, rows, l->cols));
  const Reg offset = of_group(f, l, rows, FFT_LINES_Y_STEPS, &row, &at);
  const Pair v = scaled(f, get(f, SHARED_X, at), scale_of(f, row));
  ty_ptx_store(E, f->dtype, plus(f, param(E, FFT_Y), offset), v.re);
  ty_ptx_store(E, f->dtype, plus(f, param(E, FFT_Y + 8), offset), v.im);
  E->guard = 0;
  loop_end(f, loop);
  ty_ptx(E, "bar.sync 0");
}

static Reg of_pass(Fft *f, Reg table, int word) {
  const Reg y = ty_ptx_reg(&f->e.E, REG_64);
  ty_ptx(&f->e.E, "ld.global.b64 $, [$+#]", y, table, (i64)word * 8);
  return y;
}

/* All passes; which radix is asked for once a pass, by all threads alike. */
static void lines_passes(Fft *f, const Lines *l) {
  static const u8 radices[] = {8, 4, 2, 3, 5, 7};
  Ptx *E = &f->e.E;
  const Reg table = copy_of(E, param(E, FFT_LINES_TABLE)), i = copy_of(E, number_of(E, 0)),
            count = param(E, FFT_LINES_PASSES);
  const int again = ty_ptx_label(E), next = ty_ptx_label(E), done = ty_ptx_label(E);
  ty_ptx_here(E, again);
  branch(E, "ge", i, count, done);
  const Reg radix = of_pass(f, table, FFT_PASS_RADIX), last = of_pass(f, table, FFT_PASS_LAST);
  f->given[FFT_M / 8] = product(f, of_pass(f, table, FFT_PASS_FAR), l->cols);
  f->given[FFT_COLS / 8] = product(f, of_pass(f, table, FFT_PASS_S), l->cols);
  f->given[FFT_W / 8] = of_pass(f, table, FFT_PASS_EACH);
  f->given[FFT_TURNS / 8] = of_pass(f, table, FFT_PASS_ODD);
  for (int k = 0; k < 2 * TY_COUNT(radices); k++) {
    const int other = ty_ptx_label(E);
    branch(E, "ne", radix, number_of(E, radices[k / 2]), other);
    branch(E, "ne", last, number_of(E, k % 2), other);
    const Loop loop = loop_begin(f, l->thread, f->given[FFT_M / 8]);
    pass(f, radices[k / 2], k % 2);
    loop_end(f, loop);
    ty_ptx(E, "bra @", next);
    ty_ptx_here(E, other);
  }
  ty_ptx_here(E, next);
  ty_ptx(E, "bar.sync 0");
  swap_planes(f);
  ty_ptx(E, "add.s64 $, $, #", table, table, (i64)FFT_PASS_WORDS * 8);
  ty_ptx(E, "add.s64 $, $, 1", i, i);
  ty_ptx(E, "bra @", again);
  ty_ptx_here(E, done);
  memset(f->given, 0, sizeof f->given);
}

/* SPLIT or MERGE between arrays. */
static void lines_real(Fft *f, const Lines *l, bool back) {
  Ptx *E = &f->e.E;
  const Reg rows = param(E, back ? FFT_N : FFT_LINES_TO);
  const Loop loop = loop_begin(f, l->thread, product(f, rows, l->cols));
  if (back) merge(f, factor(f, FFT_LINES_WEIGHT));
  else split(f);
  loop_end(f, loop);
  ty_ptx(E, "bar.sync 0");
  swap_planes(f);
}

static Text lines(Fft *f, int flags) {
  const int kind = flags % FFT_ROOM_TIMES;
  Ptx *E = &f->e.E;
  each_begin(&f->e, FFT_COUNT, FFT_THREADS, true);
  E->shared = FFT_LINES_ROOM << flags / FFT_ROOM_TIMES;
  const Lines l = {f->e.number, special_of(E, "tid.x"), param(E, FFT_COLS)};
  f->x = SHARED_X, f->y = SHARED_Y;
  f->e.number = ty_ptx_reg(E, REG_64);
  for (int i = 0; i < 4; i++) {
    ty_ptx(E, "mov.u64 $, tile", f->plane[i] = ty_ptx_reg(E, REG_64));
    ty_ptx(E, "add.s64 $, $, #", f->plane[i], f->plane[i], (i64)(E->shared / 4 * i));
  }
  lines_in(f, &l);
  if (kind == FFT_FROM_HALF) lines_real(f, &l, true), exchange_planes(f);
  lines_passes(f, &l);
  if (kind == FFT_FROM_HALF) exchange_planes(f);
  if (kind == FFT_TO_HALF) lines_real(f, &l, false);
  lines_out(f, &l);
  f->e.number = l.group;
  return each_end(&f->e, FFT_LINES_BYTES);
}

Text ty_ptx_fft(FftStep step, int dtype, int radix, int flags) {
  Fft f = {.dtype = dtype, .ctype = ty_dtypes[dtype].ctype, .bytes = ty_dtypes[dtype].bytes};
  if (step == FFT_LINES) return lines(&f, flags);
  f.x = FFT_X, f.y = FFT_Y;
  each_begin(&f.e, FFT_COUNT, FFT_THREADS, false);
  if (radix > RADIX_TWICE) f.e.E.blocks = 1;
  switch (step) {
  case FFT_GATHER: gather(&f, flags & FFT_IS_REAL); break;
  case FFT_SCATTER: scatter(&f, flags & FFT_IS_REAL); break;
  case FFT_HALF_LINES: half_lines(&f); break;
  case FFT_PASS: pass(&f, radix, flags & FFT_IS_LAST); break;
  case FFT_TURN: turn(&f); break;
  case FFT_TWIST: twist(&f); break;
  case FFT_SPLIT: split(&f); break;
  case FFT_MERGE: merge(&f, factor(&f, FFT_SCALE)); break;
  case FFT_MIRROR: mirror(&f); break;
  case FFT_HALVE: halve(&f, radix, flags & FFT_IS_LAST); break;
  case FFT_UNITE: unite(&f, radix, flags & FFT_IS_LAST); break;
  case FFT_FOLD: fold(&f, radix, true); break;
  default: fold(&f, radix, false); break;
  }
  return each_end(&f.e, FFT_BYTES);
}
