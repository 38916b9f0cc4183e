/*
** ptx_fft.c -- steps of Fourier transforms as PTX.
** In:  a step, its dtype, radix.  Out: a module. Fails when out of memory alone.
** A thread makes what one lane of the CPU's vectors makes (kernels/fft_micro.h), by the same additions, subtractions and
** products in the same order, each rounded: bits are the CPU's. Numbers of elements are below 2^31.
*/
#include "device/cuda/ptx_fft.h"
#include "device/cuda/ptx_each.h"
#include "device/fft_plan.h"

enum { TURNS_MOST = 7 }; /* the largest radix whose cosines and sines lie in registers */

typedef struct Pair {
  Reg re, im;
} Pair;

typedef struct Fft {
  Each e;
  int dtype, ctype, bytes;
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
static Pair scaled(Fft *f, Pair a, Reg by) { return (Pair){times(f, a.re, by), times(f, a.im, by)}; }

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

static Reg load(Fft *f, i32 base, Reg at) {
  return ty_ptx_load(&f->e.E, f->dtype, at_element(&f->e.E, param(&f->e.E, base), at, f->bytes));
}
static void store(Fft *f, i32 base, Reg at, Reg v) {
  ty_ptx_store(&f->e.E, f->dtype, at_element(&f->e.E, param(&f->e.E, base), at, f->bytes), v);
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
  x[7] = (Pair){times(f, less(f, t3.im, t3.re), half),
                times(f, minus(f, add(f, t3.re, t3.im)), half)};
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
  put(f, FFT_Y, plus(f, o->to, product_number(f, o->s, k)), v);
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
  const Reg t = f->e.number, s = param(&f->e.E, FFT_COLS), far = param(&f->e.E, FFT_M),
            p = quotient(f, t, s, NULL);
  const Outputs o = {p, plus(f, t, product(f, product_number(f, p, r - 1), s)), s, r, last};
  Reg from = t;
  for (int k = 0; k < r; k++, from = plus(f, from, far)) x[k] = get(f, FFT_X, from);
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

/* The offset in bytes of a number of the tensor, and its row. */
static Reg of_tensor(Fft *f, Reg *row) {
  Ptx *E = &f->e.E;
  Reg column, inner;
  *row = quotient(f, f->e.number, param(E, FFT_COLS), &column);
  const Reg line = plus(f, column, param(E, FFT_FIRST)),
            outer = quotient(f, line, param(E, FFT_INNER), &inner);
  return mad(E, outer, param(E, FFT_OUTER_STEP),
             mad(E, inner, param(E, FFT_INNER_STEP), product(f, *row, param(E, FFT_ROW_STEP))));
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
  const Reg at = of_tensor(f, &row), by = ty_ptx_value(E, f->ctype),
            p = ty_ptx_reg(E, REG_PRED), q = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.eq.s64 $, $, 0", p, row);
  ty_ptx(E, "setp.eq.s64 $, $, $", q, row, param(E, FFT_ALONE));
  ty_ptx(E, "or.pred $, $, $", p, p, q);
  ty_ptx(E, "selp.~ $, $, $, $", f->bytes == 8 ? "b64" : "b32", by, factor(f, FFT_SCALE),
         factor(f, FFT_SCALE_OTHERS), p);
  ty_ptx_store(E, f->dtype, plus(f, param(E, FFT_Y), at),
               times(f, load(f, FFT_X, f->e.number), by));
  if (real) return;
  ty_ptx_store(E, f->dtype, plus(f, param(E, FFT_Y + 8), at),
               times(f, load(f, FFT_X + 8, f->e.number), by));
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
            both = quotient(f, f->e.number, cols, &c),
            k = quotient(f, both, param(E, FFT_N), &j),
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
  const Reg cols = param(E, FFT_COLS), h = param(E, FFT_N), zero = number_of(E, 0),
            i = quotient(f, f->e.number, cols, &c), k = ty_ptx_reg(E, REG_64),
            j = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED), half = number(f, 0.5);
  ty_ptx(E, "setp.eq.s64 $, $, $", p, i, h);
  ty_ptx(E, "selp.b64 $, $, $, $", k, zero, i, p);
  ty_ptx(E, "setp.eq.s64 $, $, 0", p, i);
  ty_ptx(E, "selp.b64 $, $, $, $", j, zero, op(E, "sub", h, i), p);
  const Pair x = get(f, FFT_X, mad(E, k, cols, c)), z = get(f, FFT_X, mad(E, j, cols, c)),
             w = root(f, FFT_W, i);
  const Pair e = {times(f, add(f, x.re, z.re), half), times(f, less(f, x.im, z.im), half)},
             o = {times(f, add(f, x.im, z.im), half), times(f, less(f, z.re, x.re), half)};
  put(f, FFT_Y, f->e.number, sum(f, e, turned(f, o, w)));
}

static void merge(Fft *f) {
  Ptx *E = &f->e.E;
  Reg c;
  const Reg cols = param(E, FFT_COLS), i = quotient(f, f->e.number, cols, &c),
            at = mad(E, op(E, "sub", param(E, FFT_N), i), cols, c), p = ty_ptx_reg(E, REG_PRED),
            by = ty_ptx_value(E, f->ctype), none = number(f, 0);
  const char *bits = f->bytes == 8 ? "b64" : "b32";
  ty_ptx(E, "setp.eq.s64 $, $, 0", p, i);
  ty_ptx(E, "selp.~ $, $, $, $", bits, by, number(f, 1), factor(f, FFT_SCALE), p);
  const Pair x = scaled(f, get(f, FFT_X, f->e.number), by), z = scaled(f, get(f, FFT_X, at), by),
             w = root(f, FFT_W, i);
  ty_ptx(E, "selp.~ $, $, $, $", bits, x.im, none, x.im, p);
  ty_ptx(E, "selp.~ $, $, $, $", bits, z.im, none, z.im, p);
  const Pair s = {add(f, x.re, z.re), less(f, x.im, z.im)},
             d = {less(f, x.re, z.re), add(f, x.im, z.im)};
  const Reg tr = add(f, times(f, d.re, w.re), times(f, d.im, w.im)),
            ti = less(f, times(f, d.im, w.re), times(f, d.re, w.im));
  put(f, FFT_Y, f->e.number, (Pair){less(f, s.re, ti), add(f, s.im, tr)});
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
  ty_ptx(E, "selp.~ $, $, $, $", f->bytes == 8 ? "b64" : "b32", im, minus(f, v.im), v.im, p);
  if (back) put(f, FFT_Y, f->e.number, (Pair){v.re, im});
  else ty_ptx_store(E, f->dtype, to_re, v.re), ty_ptx_store(E, f->dtype, to_im, im);
}

Text ty_ptx_fft(FftStep step, int dtype, int radix, int flags) {
  Fft f = {.dtype = dtype, .ctype = ty_dtypes[dtype].ctype, .bytes = ty_dtypes[dtype].bytes};
  each_begin(&f.e, FFT_COUNT, FFT_THREADS, false);
  switch (step) {
  case FFT_GATHER: gather(&f, flags & FFT_IS_REAL); break;
  case FFT_SCATTER: scatter(&f, flags & FFT_IS_REAL); break;
  case FFT_PASS: pass(&f, radix, flags & FFT_IS_LAST); break;
  case FFT_TURN: turn(&f); break;
  case FFT_TWIST: twist(&f); break;
  case FFT_SPLIT: split(&f); break;
  case FFT_MERGE: merge(&f); break;
  case FFT_MIRROR: mirror(&f); break;
  case FFT_HALVE: halve(&f, radix, flags & FFT_IS_LAST); break;
  case FFT_UNITE: unite(&f, radix, flags & FFT_IS_LAST); break;
  case FFT_FOLD: fold(&f, radix, true); break;
  case FFT_UNFOLD: fold(&f, radix, false); break;
  }
  return each_end(&f.e, FFT_BYTES);
}
