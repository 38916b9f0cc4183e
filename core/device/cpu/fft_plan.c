/*
** fft_plan.c -- how a length is transformed, and the numbers that it takes.
** In:  a length, f32 or f64.  Out: a plan, which depends on these alone. NULL when out of memory.
**
** 1. n = 2^a 3^b 5^c 7^d ... 19^h up to FFT_DIRECT: passes of radix 8, 4 and 2, then of the odd primes from 19 down.
** 2. Such an n above: n1 n2, n1 its largest divisor up to the root, n2 up to FFT_DIRECT. Columns of n1, times w^(k1 j2) as u
**    times v, rows of n2.
** 3. Other n by Bluestein: a product with a chirp, a convolution of length m >= 2 n - 1, a product with the chirp.
** 4. n real numbers, n even: as n / 2 complex ones.
** 5. n = r m real numbers, n odd, r its largest prime up to FFT_ODD_MOST: a pass of radix r, whose outputs r - k and k mirror each other:
**    r / 2 transforms of m complex numbers, and one of m real ones. Where there is no such r: as complex numbers.
** Roots of unity are exact to 0.8 ulp in f64, on every machine: no function of libm is asked but fma.
** Plans are kept, the least recently used goes first; who holds one keeps it.
*/
#include "base/system.h"
#include "device/cpu/fft.h"

#include <math.h>

enum { KEPT_BYTES = 32 << 20, KEPT = 256, WIDE_BYTES = 128 };

/* ---- roots of unity --------------------------------------------------------------------------- */

/* Sine and cosine of h + l, 0 <= h + l <= pi / 4: Taylor's series. */
static void sine_cosine(double h, double l, double *s, double *c) {
  const double z = h * h, half = 0.5 * z, one = 1 - half;
  double p = 1.0 / 355687428096000, q = 1.0 / 20922789888000;
  p = -1.0 / 1307674368000 + z * p, q = -1.0 / 87178291200 + z * q;
  p = 1.0 / 6227020800 + z * p, q = 1.0 / 479001600 + z * q;
  p = -1.0 / 39916800 + z * p, q = -1.0 / 3628800 + z * q;
  p = 1.0 / 362880 + z * p, q = 1.0 / 40320 + z * q;
  p = -1.0 / 5040 + z * p, q = -1.0 / 720 + z * q;
  p = 1.0 / 120 + z * p, q = 1.0 / 24 + z * q;
  p = -1.0 / 6 + z * p;
  *s = h + (h * (z * p) + l * one);
  *c = one + (((1 - one) - half) + (z * (z * q) - h * l));
}

void ty_fft_root(i64 t, i64 n, double *c, double *s) {
  const double quarter = 0x1.921fb54442d18p-1, rest = 0x1.1a62633145c07p-55; /* pi / 4 */
  const i64 octant = 8 * t / n, part = 8 * t - octant * n;
  const bool down = octant & 1; /* counted from the next multiple of a quarter turn */
  const double a = (double)(down ? n - part : part), b = (double)n;
  const double q = a / b, more = fma(-q, b, a) / b, h = q * quarter;
  const double l = fma(q, quarter, -h) + (q * rest + more * quarter);
  double sine, cosine;
  sine_cosine(h, l, &sine, &cosine);
  if (down) sine = -sine;
  switch ((octant + down) / 2 & 3) {
  case 0: *c = cosine, *s = sine; break;
  case 1: *c = -sine, *s = cosine; break;
  case 2: *c = -cosine, *s = -sine; break;
  default: *c = sine, *s = -cosine;
  }
}

/* ---- tables ----------------------------------------------------------------------------------- */

/* Memory that is measured first, without a base, and then given. */
typedef struct Room {
  char *base;
  i64 used;
} Room;

static void *take(Room *r, i64 elements, int dtype) {
  void *p = r->base ? r->base + r->used : NULL;
  r->used += (elements * ty_dtypes[dtype].bytes + 63) / 64 * 64;
  return p;
}

static void set(int dtype, void *p, i64 i, double v) {
  if (dtype == T_F64) ((double *)p)[i] = v;
  else ((float *)p)[i] = (float)v;
}
static double get(int dtype, const void *p, i64 i) {
  return dtype == T_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* w^t of n at p[i] and p[i + step]. */
static void set_root(int dtype, void *p, i64 i, i64 step, i64 t, i64 n) {
  double c, s;
  ty_fft_root(t, n, &c, &s);
  set(dtype, p, i, c), set(dtype, p, i + step, -s);
}

/* Cosines and sines of an odd radix. */
static void lay_turns(FftPass *p, int dtype, Room *room) {
  const int r = p->r;
  void *odd = take(room, 2 * r, dtype);
  p->odd = odd;
  for (i64 t = 0; odd && t < r; t++) {
    double c, s;
    ty_fft_root(t, r, &c, &s);
    set(dtype, odd, t, c), set(dtype, odd, t + r, s);
  }
}

static void lay_pass(FftPlan *P, Room *room, FftPass *p) {
  const int r = p->r, d = P->dtype;
  const i64 n = p->m * p->s;
  p->span = n + FFT_COLUMNS;
  const bool small = p->s * ty_dtypes[d].bytes <= WIDE_BYTES && r <= FFT_RADIX_FLAT;
  if (r & 1) lay_turns(p, d, room);
  if (p->m == 1) return;
  void *each = take(room, 2 * (r - 1) * p->m, d);
  void *wide = small ? take(room, 2 * (r - 1) * p->span, d) : NULL;
  p->each = each, p->wide = wide;
  for (i64 i = 0; each && i < p->m; i++)
    for (i64 k = 1; k < r; k++) set_root(d, each, 2 * (i * (r - 1) + k - 1), 1, i * k * p->s, P->n);
  for (i64 k = 0; wide && k < 2 * (r - 1); k++)
    for (i64 j = 0; j < p->span; j++)
      set(d, wide, k * p->span + j, j < n ? get(d, each, j / p->s * 2 * (r - 1) + k) : 0);
}

static void lay_odd(FftPlan *P, Room *room) {
  FftPass *p = &P->pass[0];
  const int r = p->r, d = P->dtype;
  lay_turns(p, d, room);
  if (p->m == 1) return;
  p->span = p->m + FFT_COLUMNS;
  void *wide = take(room, (r - 1) * p->span, d);
  p->wide = wide;
  for (i64 k = 1; wide && k <= r / 2; k++)
    for (i64 i = 0; i < p->m; i++)
      set_root(d, wide, 2 * (k - 1) * p->span + i, p->span, i * k, P->n);
}

static void lay_split(FftPlan *P, Room *room) {
  const i64 n1 = P->sub[0]->n, n2 = P->sub[1]->n;
  const i64 blocks = (n2 + FFT_COLUMNS - 1) / FFT_COLUMNS, turns = (n1 - 1) * (blocks - 1) + 1;
  P->w = take(room, 2 * turns, P->dtype);
  P->v = take(room, 2 * FFT_COLUMNS * n1, P->dtype);
  for (i64 t = 0; P->w && t < turns; t++)
    set_root(P->dtype, P->w, 2 * t, 1, FFT_COLUMNS * t % P->n, P->n);
  for (i64 i = 0; P->w && i < n1; i++)
    for (i64 c = 0; c < FFT_COLUMNS; c++)
      set_root(P->dtype, P->v, 2 * FFT_COLUMNS * i + c, FFT_COLUMNS, i * c, P->n);
}

/* The chirp turns by j^2 / 2 n. Its transform over m is of f64, and holds the 1 / m of the way back. */
static bool lay_chirp(FftPlan *P, Room *room) {
  const i64 n = P->n, m = P->sub[0]->n;
  P->w = take(room, 2 * n, P->dtype);
  P->v = take(room, 2 * m, P->dtype);
  if (!P->w) return true;
  const FftPlan *wide = ty_fft_plan(T_F64, m, false);
  double *b = wide ? ty_mem_zalloc((size_t)(2 * m) * sizeof *b) : NULL;
  for (i64 j = 0, square = 0; b && j < n; j++) {
    double c, s;
    ty_fft_root(square, 2 * n, &c, &s);
    set(P->dtype, P->w, 2 * j, c), set(P->dtype, P->w, 2 * j + 1, -s);
    b[2 * j] = c, b[2 * j + 1] = s;
    if (j) b[2 * (m - j)] = c, b[2 * (m - j) + 1] = s;
    square = (square + 2 * j + 1) % (2 * n);
  }
  const FftLine line = {b, b + 1, 2};
  const bool ok = b && ty_fft_line(wide, ty_fft_kern(T_F64), &line, &line, 1.0 / (double)m);
  for (i64 k = 0; ok && k < 2 * m; k++) set(P->dtype, P->v, k, b[k]);
  ty_mem_free(b);
  if (wide) ty_fft_drop(wide);
  return ok;
}

static bool lay(FftPlan *P, Room *room) {
  switch (P->way) {
  case FFT_BY_PASSES:
    for (int i = 0; i < P->npass; i++) lay_pass(P, room, &P->pass[i]);
    return true;
  case FFT_BY_SPLIT: lay_split(P, room); return true;
  case FFT_BY_CHIRP: return lay_chirp(P, room);
  case FFT_BY_ODD: lay_odd(P, room); return true;
  case FFT_BY_HALF: break;
  }
  P->w = take(room, P->n + 2, P->dtype);
  for (i64 k = 0; P->w && k <= P->n / 2; k++) set_root(P->dtype, P->w, 2 * k, 1, k, P->n);
  return true;
}

/* ---- ways ------------------------------------------------------------------------------------- */

static const u8 primes[] = {FFT_ODD_MOST, 47, 43, 41, 37, 31, 29, 23, 19, 17, 13, 11, 7, 5, 3};

/* The radices of n; -1: it has a larger prime. */
static int factor(i64 n, int *radix) {
  int k = 0, twos = 0;
  for (; n % 2 == 0; n /= 2) twos++;
  for (; twos; twos -= radix[k - 1] == 8 ? 3 : radix[k - 1] / 2)
    radix[k++] = twos == 4 || twos == 2 ? 4 : twos == 1 ? 2 : 8;
  for (int i = 0; i < TY_COUNT(primes); i++)
    for (; primes[i] <= FFT_RADIX_MOST && n % primes[i] == 0; n /= primes[i])
      radix[k++] = primes[i];
  return n == 1 ? k : -1;
}

/* The shortest convenient length from `least` on: a power of two from 8 on, times 1, 3, 5, 9 or 15. */
static i64 convenient(i64 least) {
  static const u8 odd[] = {1, 3, 5, 9, 15};
  i64 best = 0;
  for (int i = 0; i < TY_COUNT(odd); i++) {
    i64 m = 8 * odd[i];
    while (m < least) m *= 2;
    if (!best || m < best) best = m;
  }
  return best;
}

static i64 divisor(i64 n) {
  i64 d = (i64)sqrt((double)n);
  while (n % d) d--;
  return d;
}

/* The largest odd radix of n real numbers, 1: there is none. */
static int largest_odd(i64 n) {
  for (int i = 0; i < TY_COUNT(primes); i++)
    if (n % primes[i] == 0) return primes[i];
  return 1;
}

static bool choose(FftPlan *P) {
  int radix[FFT_PASSES];
  const i64 n = P->n;
  i64 sub[2] = {0, 0};
  if (!P->real && n > (i64)FFT_DIRECT * FFT_DIRECT) return false; /* FFT_MOST */
  if (P->real && n % 2) {
    const int r = largest_odd(n);
    const i64 m = n / r;
    P->way = FFT_BY_ODD;
    P->pass[0] = (FftPass){.r = r, .s = 1, .m = m};
    if (m > 1) sub[0] = m, sub[1] = m;
  } else if (P->real) P->way = FFT_BY_HALF, sub[0] = n / 2;
  else if ((P->npass = factor(n, radix)) < 0 || n / divisor(n) > FFT_DIRECT)
    P->way = FFT_BY_CHIRP, P->npass = 0, sub[0] = convenient(2 * n - 1);
  else if (n > FFT_DIRECT) P->way = FFT_BY_SPLIT, sub[0] = divisor(n), sub[1] = n / sub[0];
  i64 s = 1;
  for (int i = 0; P->way == FFT_BY_PASSES && i < P->npass; s *= radix[i++])
    P->pass[i] = (FftPass){.r = radix[i], .s = s, .m = n / s / radix[i]};
  for (int i = 0; i < 2 && sub[i]; i++)
    if (!(P->sub[i] =
              (FftPlan *)(uintptr_t)ty_fft_plan(P->dtype, sub[i], P->way == FFT_BY_ODD && i)))
      return false;
  return true;
}

static void plan_free(FftPlan *p) {
  for (int i = 0; i < 2; i++)
    if (p->sub[i]) ty_fft_drop(p->sub[i]);
  if (p->table) ty_buf_free(p->table, p->bytes);
  ty_mem_free(p);
}

static FftPlan *make(int dtype, i64 n, bool real) {
  FftPlan *P = ty_mem_zalloc(sizeof *P);
  Room room = {0};
  if (!P) return NULL;
  P->dtype = dtype, P->n = n, P->real = real, P->refs = 1;
  bool ok = choose(P) && lay(P, &room);
  P->bytes = room.used;
  if (ok && room.used) {
    ok = (P->table = room.base = ty_buf_alloc(room.used)) != NULL;
    room.used = 0;
    ok = ok && lay(P, &room);
  }
  if (ok) return P;
  plan_free(P);
  return NULL;
}

/* ---- what is kept ------------------------------------------------------------------------------ */

static struct {
  Lock lock;
  FftPlan *plan[KEPT];
  int n;
  i64 bytes, hits, misses, evictions;
  u64 clock;
} kept = {.lock = LOCK_INIT};

static FftPlan *find(int dtype, i64 n, bool real) {
  for (int i = 0; i < kept.n; i++) {
    FftPlan *p = kept.plan[i];
    if (p->n != n || p->dtype != dtype || p->real != real) continue;
    p->used = ++kept.clock;
    p->refs++;
    kept.hits++;
    return p;
  }
  return NULL;
}

/* The least recently used plan that nobody holds, taken out; NULL: there is none. */
static FftPlan *oldest(void) {
  int at = -1;
  for (int i = 0; i < kept.n; i++)
    if (kept.plan[i]->refs == 1 && (at < 0 || kept.plan[i]->used < kept.plan[at]->used)) at = i;
  if (at < 0) return NULL;
  FftPlan *p = kept.plan[at];
  kept.plan[at] = kept.plan[--kept.n];
  kept.bytes -= p->bytes;
  kept.evictions++;
  p->refs = 0;
  return p;
}

/* Plans go until there is room for so many bytes; false: those that are left are held. */
static bool make_room(i64 bytes) {
  while (kept.n == KEPT || (kept.n && kept.bytes + bytes > KEPT_BYTES)) {
    FftPlan *p = oldest();
    if (!p) return false;
    ty_unlock(&kept.lock); /* it may let go of others */
    plan_free(p);
    ty_lock(&kept.lock);
  }
  return bytes <= KEPT_BYTES;
}

const FftPlan *ty_fft_plan(int dtype, i64 n, bool real) {
  real = real && (n % 2 == 0 || largest_odd(n) > 1);
  ty_lock(&kept.lock);
  FftPlan *p = find(dtype, n, real);
  ty_unlock(&kept.lock);
  if (p || !(p = make(dtype, n, real))) return p;
  ty_lock(&kept.lock);
  kept.misses++;
  const bool room = make_room(p->bytes);
  FftPlan *other = find(dtype, n, real); /* of another thread, meanwhile */
  if (!other && room && kept.n < KEPT) {
    kept.plan[kept.n++] = p;
    kept.bytes += p->bytes;
    p->used = ++kept.clock;
    p->refs++;
  }
  ty_unlock(&kept.lock);
  if (!other) return p;
  ty_fft_drop(p);
  return other;
}

FftStats ty_fft_stats(void) {
  ty_lock(&kept.lock);
  const FftStats y = {kept.n, kept.bytes, kept.hits, kept.misses, kept.evictions, KEPT_BYTES};
  ty_unlock(&kept.lock);
  return y;
}

void ty_fft_drop(const FftPlan *plan) {
  FftPlan *p = (FftPlan *)(uintptr_t)plan;
  ty_lock(&kept.lock);
  const bool last = --p->refs == 0;
  ty_unlock(&kept.lock);
  if (last) plan_free(p);
}
