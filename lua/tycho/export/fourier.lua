--- export/fourier.lua -- Fourier transforms as C: the arithmetic of kernels/fft_micro.h and the ways of fft_plan.c, one
-- number at a time. In: a step and a kit, see routines.lua. Out: lines of its function; the bytes of scratch it takes.
--
-- Roots of unity are computed once a call, an eighth of them where the length has that factor.

local prelude = require "tycho.export.prelude"
local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local floor, sqrt = math.floor, math.sqrt
local text = sizes.text
local DIRECT, MOST, ODD_MOST = 2 ^ 14, 19, 53 -- as in core/device/fft_plan.h

prelude.piece("fft_roots", { "fma_f64" }, [[
/* The cosine and the sine of t / n turns. */
static void ty_fft_root(int64_t t, int64_t n, double *c, double *s) {
  const double quarter = 0x1.921fb54442d18p-1, rest = 0x1.1a62633145c07p-55;
  const int64_t octant = 8 * t / n, part = 8 * t - octant * n;
  const int down = (int)(octant & 1);
  const double a = (double)(down ? n - part : part), b = (double)n, d = a / b;
  const double more = ty_fma_f64(-d, b, a) / b, h = d * quarter;
  const double l = ty_fma_f64(d, quarter, -h) + (d * rest + more * quarter);
  static const double ps[] = {1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
                              1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
  static const double qs[] = {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                              1.0 / 40320, -1.0 / 720, 1.0 / 24};
  const double z = h * h, half = 0.5 * z, one = 1 - half;
  double p = ps[0], q = qs[0];
  for (int i = 1; i < 8; i++) p = ps[i] + z * p;
  for (int i = 1; i < 7; i++) q = qs[i] + z * q;
  double sine = h + (h * (z * p) + l * one);
  const double cosine = one + (((1 - one) - half) + (z * (z * q) - h * l));
  if (down) sine = -sine;
  switch ((octant + down) / 2 & 3) {
  case 0: *c = cosine, *s = sine; break;
  case 1: *c = -sine, *s = cosine; break;
  case 2: *c = -cosine, *s = -sine; break;
  default: *c = sine, *s = -cosine;
  }
}
/* All n of them. */
static void ty_fft_roots(int64_t n, double *w) {
  const int64_t own = n % 8 ? n - 1 : n / 8;
  for (int64_t t = 0; t <= own; t++) ty_fft_root(t, n, w + 2 * t, w + 2 * t + 1);
  for (int64_t t = own + 1; t < n; t++) {
    const int64_t octant = 8 * t / n, part = 8 * t - octant * n, down = octant & 1;
    const int64_t at = (down ? n - part : part) / 8;
    const double cosine = w[2 * at], sine = down ? -w[2 * at + 1] : w[2 * at + 1];
    switch ((octant + down) / 2 & 3) {
    case 0: w[2 * t] = cosine, w[2 * t + 1] = sine; break;
    case 1: w[2 * t] = -sine, w[2 * t + 1] = cosine; break;
    case 2: w[2 * t] = -cosine, w[2 * t + 1] = -sine; break;
    default: w[2 * t] = sine, w[2 * t + 1] = -cosine;
    }
  }
}
/* The radix of the first pass over n numbers. */
static int ty_fft_radix(int64_t n) {
  static const int odd[] = {19, 17, 13, 11, 7, 5, 3};
  int twos = 0;
  for (int64_t k = n; k % 2 == 0; k /= 2) twos++;
  if (twos) return twos == 4 || twos == 2 ? 4 : twos == 1 ? 2 : 8;
  for (int i = 0; i < 7; i++)
    if (n % odd[i] == 0) return odd[i];
  return 1;
}
]])

prelude.family("fft_@S", prelude.FLOATS, { "fft_roots" }, [[
TY_INLINE void ty_fft_two_@S(@T *re, @T *im, int a, int b) {
  const @T r = re[a], i = im[a];
  re[a] = r + re[b], im[a] = i + im[b];
  re[b] = r - re[b], im[b] = i - im[b];
}
TY_INLINE void ty_fft_four_@S(@T *re, @T *im, int a, int b, int c, int d) {
  ty_fft_two_@S(re, im, a, c);
  ty_fft_two_@S(re, im, b, d);
  const @T r = re[b], i = im[b], r1 = re[c], i1 = im[c], r3 = re[d], i3 = im[d], r0 = re[a], i0 = im[a];
  re[b] = r1 + i3, im[b] = i1 - r3;
  re[d] = r1 - i3, im[d] = i1 + r3;
  re[a] = r0 + r, im[a] = i0 + i;
  re[c] = r0 - r, im[c] = i0 - i;
}
static void ty_fft_eight_@S(@T *re, @T *im) {
  const @T half = (@T)0.70710678118654752440;
  ty_fft_four_@S(re, im, 0, 2, 4, 6);
  ty_fft_four_@S(re, im, 1, 3, 5, 7);
  const @T r1 = re[3], i1 = im[3], r2 = re[5], i2 = im[5], r3 = re[7], i3 = im[7];
  re[3] = (r1 + i1) * half, im[3] = (i1 - r1) * half;
  re[5] = i2, im[5] = -r2;
  re[7] = (i3 - r3) * half, im[7] = -(r3 + i3) * half;
  @T yr[8], yi[8];
  for (int k = 0; k < 4; k++) {
    yr[k] = re[2 * k] + re[2 * k + 1], yi[k] = im[2 * k] + im[2 * k + 1];
    yr[k + 4] = re[2 * k] - re[2 * k + 1], yi[k + 4] = im[2 * k] - im[2 * k + 1];
  }
  for (int k = 0; k < 8; k++) re[k] = yr[k], im[k] = yi[k];
}
/* w: of the turn / r, each `step` behind the other. */
static void ty_fft_odd_@S(@T *re, @T *im, int r, const double *w, int64_t step) {
  const int h = r / 2;
  @T sr[10], si[10], dr[10], di[10], r0 = re[0], i0 = im[0];
  for (int k = 1; k <= h; k++) {
    sr[k] = re[k] + re[r - k], si[k] = im[k] + im[r - k], dr[k] = re[k] - re[r - k], di[k] = im[k] - im[r - k];
    r0 = r0 + sr[k], i0 = i0 + si[k];
  }
  for (int k = 1; k <= h; k++) {
    @T mr = re[0], mi = im[0], nr = 0, ni = 0;
    for (int i = 1; i <= h; i++) {
      const int64_t at = (int64_t)(i * k % r) * step;
      const @T c = (@T)w[2 * at], s = (@T)w[2 * at + 1];
      const @T pr = sr[i] * c, pi = si[i] * c, qr = dr[i] * s, qi = di[i] * s;
      mr = mr + pr, mi = mi + pi;
      nr = i == 1 ? qr : nr + qr, ni = i == 1 ? qi : ni + qi;
    }
    re[k] = mr + ni, im[k] = mi - nr;
    re[r - k] = mr - ni, im[r - k] = mi + nr;
  }
  re[0] = r0, im[0] = i0;
}
TY_INLINE void ty_fft_turn_@S(@T *re, @T *im, @T wr, @T wi) {
  const @T a = *re * wr, b = *im * wi, c = *re * wi, d = *im * wr;
  *re = a - b, *im = c + d;
}
/* Passes over n numbers in a, by way of b; w: roots of n step. */
static void ty_fft_passes_@S(int64_t n, @T *ar, @T *ai, @T *br, @T *bi, const double *w, int64_t step) {
  @T *xr = ar, *xi = ai, *yr = br, *yi = bi;
  for (int64_t s = 1, r; s < n; s *= r) {
    r = ty_fft_radix(n / s);
    const int64_t m = n / s / r;
    for (int64_t p = 0; p < m; p++)
      for (int64_t q = 0; q < s; q++) {
        @T re[19], im[19];
        for (int64_t k = 0; k < r; k++) re[k] = xr[q + s * (p + m * k)], im[k] = xi[q + s * (p + m * k)];
        if (r == 2) ty_fft_two_@S(re, im, 0, 1);
        else if (r == 4) ty_fft_four_@S(re, im, 0, 1, 2, 3);
        else if (r == 8) ty_fft_eight_@S(re, im);
        else ty_fft_odd_@S(re, im, (int)r, w, n / r * step);
        for (int64_t k = 0; k < r; k++) {
          const int64_t t = p * k * s * step;
          if (k && m > 1) ty_fft_turn_@S(&re[k], &im[k], (@T)w[2 * t], (@T)-w[2 * t + 1]);
          yr[q + s * (r * p + k)] = re[k], yi[q + s * (r * p + k)] = im[k];
        }
      }
    @T *tr = xr, *ti = xi;
    xr = yr, xi = yi, yr = tr, yi = ti;
  }
  for (int64_t i = 0; xr != ar && i < n; i++) ar[i] = xr[i], ai[i] = xi[i];
}
/* The transform of a; w: roots of n. b: room for as many; c: for 4 of the longer side where n is above 16384. */
static void ty_fft_line_@S(int64_t n, @T *ar, @T *ai, @T *br, @T *bi, const double *w, @T *c) {
  if (n <= 16384) {
    ty_fft_passes_@S(n, ar, ai, br, bi, w, 1);
    return;
  }
  int64_t n1 = 1;
  for (int64_t d = 2; d * d <= n; d++)
    if (n % d == 0) n1 = d;
  const int64_t n2 = n / n1;
  @T *cr = c, *ci = c + n2, *dr = c + 2 * n2, *di = c + 3 * n2;
  for (int64_t j = 0; j < n2; j++) {
    for (int64_t i = 0; i < n1; i++) cr[i] = ar[i * n2 + j], ci[i] = ai[i * n2 + j];
    ty_fft_passes_@S(n1, cr, ci, dr, di, w, n2);
    for (int64_t i = 0; i < n1; i++) {
      const int64_t t = i * (j / 16 * 16) % n, u = i * (j % 16);
      @T wr = (@T)w[2 * t], wi = (@T)-w[2 * t + 1];
      ty_fft_turn_@S(&wr, &wi, (@T)w[2 * u], (@T)-w[2 * u + 1]);
      ty_fft_turn_@S(&cr[i], &ci[i], wr, wi);
      br[i * n2 + j] = cr[i], bi[i * n2 + j] = ci[i];
    }
  }
  for (int64_t i = 0; i < n1; i++) {
    for (int64_t j = 0; j < n2; j++) cr[j] = br[i * n2 + j], ci[j] = bi[i * n2 + j];
    ty_fft_passes_@S(n2, cr, ci, dr, di, w, n1);
    for (int64_t j = 0; j < n2; j++) ar[j * n1 + i] = cr[j], ai[j * n1 + i] = ci[j];
  }
}
]])

-- The steps of Bluestein's sum have tables of f64 in any case.
prelude.family("fft_chirp_@S", prelude.FLOATS, { "fft_@S", "fft_f64" }, [[
/* The chirp of n pairs, and its transform over m, of which w are the roots; d: room for 4 m and a line of m. */
static void ty_fft_chirp_@S(int64_t n, int64_t m, @T *chirp, @T *all, const double *w, double *d) {
  double *re = d, *im = d + m;
  for (int64_t k = 0; k < m; k++) re[k] = im[k] = 0;
  for (int64_t j = 0, square = 0; j < n; j++) {
    double c, s;
    ty_fft_root(square, 2 * n, &c, &s);
    chirp[2 * j] = (@T)c, chirp[2 * j + 1] = (@T)-s;
    re[j] = c, im[j] = s;
    if (j) re[m - j] = c, im[m - j] = s;
    square = (square + 2 * j + 1) % (2 * n);
  }
  ty_fft_line_f64(m, re, im, d + 2 * m, d + 3 * m, w, d + 4 * m);
  const double by = 1.0 / (double)m;
  for (int64_t k = 0; k < m; k++) all[2 * k] = (@T)(re[k] * by), all[2 * k + 1] = (@T)(im[k] * by);
}
/* The transform of n numbers in a, which has room for m. */
static void ty_fft_bluestein_@S(int64_t n, int64_t m, @T *ar, @T *ai, @T *br, @T *bi, const double *w, @T *c,
                                const @T *chirp, const @T *all) {
  for (int64_t j = 0; j < n; j++) ty_fft_turn_@S(&ar[j], &ai[j], chirp[2 * j], chirp[2 * j + 1]);
  for (int64_t j = n; j < m; j++) ar[j] = ai[j] = 0;
  ty_fft_line_@S(m, ar, ai, br, bi, w, c);
  for (int64_t k = 0; k < m; k++) ty_fft_turn_@S(&ar[k], &ai[k], all[2 * k], all[2 * k + 1]);
  ty_fft_line_@S(m, ai, ar, br, bi, w, c);
  for (int64_t j = 0; j < n; j++) ty_fft_turn_@S(&ar[j], &ai[j], chirp[2 * j], chirp[2 * j + 1]);
}
]])

prelude.family("fft_half_@S", prelude.FLOATS, { "fft_roots" }, [[
/* From the transform of h pairs to the first half of that of 2 h numbers; and back. */
TY_INLINE void ty_fft_split_@S(@T *yr, @T *yi, const @T *ar, const @T *ai, int64_t h) {
  for (int64_t i = 0; i <= h; i++) {
    const int64_t k = i == h ? 0 : i, j = i == 0 ? 0 : h - i;
    double c, s;
    ty_fft_root(i, 2 * h, &c, &s);
    const @T wr = (@T)c, wi = (@T)-s;
    const @T er = (ar[k] + ar[j]) * (@T)0.5, ei = (ai[k] - ai[j]) * (@T)0.5;
    const @T dr = (ai[k] + ai[j]) * (@T)0.5, di = (ar[j] - ar[k]) * (@T)0.5;
    const @T p = dr * wr, q = di * wi, u = dr * wi, v = di * wr, r = p - q, m = u + v;
    yr[i] = er + r, yi[i] = ei + m;
  }
}
TY_INLINE void ty_fft_merge_@S(@T *yr, @T *yi, const @T *xr, const @T *xi, int64_t h, @T weight) {
  for (int64_t i = 0; i < h; i++) {
    const int64_t j = h - i;
    const @T one = i ? weight : 1;
    double c, s;
    ty_fft_root(i, 2 * h, &c, &s);
    const @T wr = (@T)c, wi = (@T)-s;
    const @T ar = xr[i] * one, zr = xr[j] * one, ai = i ? xi[i] * one : 0, zi = i ? xi[j] * one : 0;
    const @T sr = ar + zr, si = ai - zi, dr = ar - zr, di = ai + zi;
    const @T p = dr * wr, q = di * wi, u = di * wr, v = dr * wi, tr = p + q, ti = u - v;
    yr[i] = sr - ti, yi[i] = si + tr;
  }
}
]])

prelude.family("fft_real_@S", prelude.FLOATS, { "fft_@S" }, [[
/* Cosines, then sines, of multiples of the turn / r. */
static void ty_fft_turns_@S(int r, @T *turn) {
  for (int i = 0; i < r; i++) {
    double c, s;
    ty_fft_root(i, r, &c, &s);
    turn[i] = (@T)c, turn[r + i] = (@T)s;
  }
}
/* Output k of a pass of radix r over n real numbers, r odd, times its factors; of k = 0 the real parts alone. */
static void ty_fft_halve_@S(int64_t n, int r, int k, const @T *x, @T *ur, @T *ui) {
  const int64_t m = n / r;
  @T turn[2 * 53];
  ty_fft_turns_@S(r, turn);
  for (int64_t p = 0; p < m; p++) {
    @T re = x[p], im = 0;
    for (int i = 1; i <= r / 2; i++) {
      const @T a = x[p + m * i], b = x[p + m * (r - i)], sum = a + b, less = a - b;
      const int at = i * k % r;
      const @T c = sum * turn[at], s = less * turn[r + at];
      re = re + (k ? c : sum), im = i == 1 ? s : im + s;
    }
    ur[p] = re;
    if (!k) continue;
    ui[p] = -im;
    if (m == 1) continue;
    double c, s;
    ty_fft_root(p * k, n, &c, &s);
    ty_fft_turn_@S(&ur[p], &ui[p], (@T)c, (@T)-s);
  }
}
/* Number k + r l of a transform of n in u, and in its half h, whose numbers are `step` apart. */
static void ty_fft_unfold_@S(int64_t n, int r, int k, const @T *ur, const @T *ui, @T *hr, @T *hi, int64_t step) {
  for (int64_t l = 0; l < n / r; l++) {
    const int64_t own = k + r * l, at = (2 * own > n ? n - own : own) * step;
    hr[at] = ur[l], hi[at] = 2 * own > n ? -ui[l] : ui[l];
  }
}
static void ty_fft_fold_@S(int64_t n, int r, int k, @T *ur, @T *ui, const @T *hr, const @T *hi, int64_t step) {
  for (int64_t l = 0; l < n / r; l++) {
    const int64_t own = k + r * l, at = (2 * own > n ? n - own : own) * step;
    ur[l] = hr[at], ui[l] = 2 * own > n ? -hi[at] : hi[at];
  }
}
/* The pass back: what comes of output k is added to y, k ascending; output 0 is v. After the last they are whole. */
static void ty_fft_unite_@S(int64_t n, int r, int k, const @T *v, const @T *ur, const @T *ui, @T *y, @T weight) {
  const int64_t m = n / r;
  const int h = r / 2;
  @T turn[2 * 53];
  ty_fft_turns_@S(r, turn);
  for (int64_t p = 0; p < m; p++) {
    const @T a = ur[p] * weight, b = ui[p] * weight;
    @T re = a, im = b;
    if (m > 1) {
      double c, s;
      ty_fft_root(p * k, n, &c, &s);
      const @T wr = (@T)c, wi = (@T)-s, t = a * wr, u = b * wi, q = b * wr, o = a * wi;
      re = t + u, im = q - o;
    }
    y[p] = (k == 1 ? v[p] : y[p]) + re;
    for (int j = 1; j <= h; j++) {
      const int at = j * k % r;
      @T *sum = &y[p + m * j], *less = &y[p + m * (r - j)];
      const @T c = re * turn[at], s = im * turn[r + at];
      *sum = (k == 1 ? v[p] : *sum) + c, *less = k == 1 ? s : *less + s;
      if (k < h) continue;
      const @T f = *sum, g = *less;
      *sum = f - g, *less = f + g;
    }
  }
}
]])

local M = {}

local function is_prime(p)
  for d = 2, p - 1 do
    if p % d == 0 then return false end
  end
  return true
end

--- The passes over an odd number of real ones: {n, r, m} each, and the length that is left, without a radix.
local function odd_passes(n)
  local list = {}
  while true do
    local r
    for p = 3, ODD_MOST, 2 do
      if n % p == 0 and is_prime(p) then r = p end
    end
    if not r then return list, n end
    list[#list + 1] = { n = n, r = r, m = n / r }
    n = n / r
  end
end

--- Whether a length has no prime above MOST.
local function is_smooth(n)
  for p = 2, MOST do
    while n % p == 0 do n = n / p end
  end
  return n == 1
end

--- The length of Bluestein's convolution.
local function convenient(least)
  local best
  for _, odd in ipairs { 1, 3, 5, 9, 15 } do
    local m = 8 * odd
    while m < least do m = m * 2 end
    best = best and math.min(best, m) or m
  end
  return best
end

local function product_from(list, from, to)
  local n = 1
  for d = from, to do n = n * list[d] end
  return n
end

function M.fft(s, kit)
  local node, x = s.node, s.node.operands[1]
  local kind, norm, d = node.k2 % 8, floor(node.k2 / 8), node.k + 1
  local takes, gives = kind == 2 or kind == 5, kind == 4 or kind == 3
  local whole = gives and node.shape or x.shape
  local rank = (takes or gives) and #whole or #whole - 1
  local n = whole[d]
  if type(n) ~= "number" then kit.refuse "a Fourier transform along a size that varies" end
  local outer, inner = product_from(whole, 1, d - 1), product_from(whole, d + 1, rank)
  local t, stored = x.dtype, primitives.stored[x.dtype]
  local from, to = kit.slot(s.slots[1], t), kit.slot(s.slots[2], t)
  local reals = takes or gives
  local halves, passes, rest = reals and n % 2 == 0, nil, nil
  if reals and not halves then passes, rest = odd_passes(n) end
  local odd = passes and #passes > 0
  local h = floor(n / 2)
  -- the complex transforms that it takes, by length
  local ways, order = {}, {}
  local function need(len)
    if ways[len] or len < 1 then return end
    local m = is_smooth(len) and len or convenient(2 * len - 1)
    ways[len] = { len = len, m = m, chirped = m ~= len }
    order[#order + 1] = ways[len]
  end
  if odd then
    for _, p in ipairs(passes) do
      if p.m > 1 then need(p.m) end
    end
    if rest > 1 then need(rest) end
  else
    need(halves and n / 2 or n)
  end
  local side, rows, wide, doubles, tables = 0, h + 1, 0, 0, 0
  for _, way in ipairs(order) do
    local own = way.m > DIRECT and way.m or 0 -- at most: of the longer side of a split
    side, rows = math.max(side, own), math.max(rows, way.m)
    if way.chirped then wide = math.max(wide, 4 * way.m + 4 * own) end
    way.w, doubles = doubles, doubles + 2 * way.m
    if way.chirped then way.chirp, tables = tables, tables + 2 * way.len + 2 * way.m end
    kit.use((way.chirped and "fft_chirp_" or "fft_") .. t)
  end
  if odd then kit.use("fft_real_" .. t) end
  if halves then kit.use("fft_half_" .. t) end
  local scale = norm == 1 and 1 / n or norm == 2 and 1 / sqrt(n) or 1
  local weight = kind == 5 and 2 or kind == 3 and 0.5 or 1
  local line = odd and 2 * (h + 1) + n or 0 -- the half, and real numbers
  if odd then
    for _, p in ipairs(passes) do line = line + p.m end
  end
  kit.add("double *restrict w = (double *)(void *)room, *restrict wide = w + %d;", doubles)
  kit.add("%s *restrict ar = (%s *)(void *)(wide + %d), *ai = ar + %d, *br = ai + %d, *bi = br + %d, *c = bi + %d;",
    stored, stored, wide, rows, rows, rows, rows)
  kit.add("%s *table = c + %d, *hr = table + %d;", stored, 4 * side, tables)
  kit.add("%s *hi = hr + %d, *x0 = hi + %d;", stored, h + 1, h + 1)
  kit.add "(void)wide, (void)w, (void)ai, (void)br, (void)bi, (void)c, (void)table, (void)hr, (void)hi, (void)x0;"
  for _, way in ipairs(order) do
    kit.add("ty_fft_roots(%d, w + %d);", way.m, way.w)
    if way.chirped then
      kit.add("ty_fft_chirp_%s(%d, %d, table + %d, table + %d, w + %d, wide);", t, way.len, way.m, way.chirp,
        way.chirp + 2 * way.len, way.w)
    end
  end
  local function run(size, re, im)
    local way = ways[size]
    if way.chirped then
      kit.add("    ty_fft_bluestein_%s(%d, %d, %s, %s, br, bi, w + %d, c, table + %d, table + %d);", t, size, way.m, re,
        im, way.w, way.chirp, way.chirp + 2 * size)
    else
      kit.add("    ty_fft_line_%s(%d, %s, %s, br, bi, w + %d, c);", t, size, re, im, way.w)
    end
  end
  local len = halves and n / 2 or n
  local by = primitives.double(scale)
  local scaled = ("* (%s)%s"):format(stored, by)
  kit.add("for (int64_t o = 0; o < %s; o++)", text(outer))
  kit.add("  for (int64_t i = 0; i < %s; i++) {", text(inner))
  -- where number k of the line lies: real, or the first of a pair
  local nx, ny = gives and h + 1 or n, takes and h + 1 or n
  local function at(base, count, k, real)
    return ("%s[((o * %d + %s) * %s + i)%s"):format(base, count, k, text(inner), real and "" or " * 2")
  end
  if takes and halves then
    kit.add("    for (int64_t k = 0; k < %d; k++) ar[k] = %s], ai[k] = %s];", h, at(from, nx, "2 * k", true),
      at(from, nx, "2 * k + 1", true))
  elseif odd and takes then
    kit.add("    for (int64_t k = 0; k < %d; k++) x0[k] = %s];", n, at(from, nx, "k", true))
  elseif takes then
    kit.add("    for (int64_t k = 0; k < %d; k++) ar[k] = %s], ai[k] = 0;", n, at(from, nx, "k", true))
  else
    local re, im = "ar", "ai"
    if kind == 1 then re, im = im, re end
    if gives and halves then re, im = "br", "bi" end
    if gives and odd then re, im = "hr", "hi" end
    kit.add("    for (int64_t k = 0; k < %d; k++) %s[k] = %s], %s[k] = %s + 1];", nx, re, at(from, nx, "k"), im,
      at(from, nx, "k"))
  end
  local one = ("(%s)%s"):format(stored, primitives.double(weight))
  local function mirrored(size, re, im, step)
    kit.add("    ar[0] = %s[0], ai[0] = 0;", re)
    kit.add("    for (int64_t k = 1; k <= %d; k++) {", floor(size / 2))
    kit.add("      ar[k] = ar[%d - k] = %s[k * %d] * %s;", size, re, step, one)
    kit.add("      ai[k] = %s[k * %d] * %s, ai[%d - k] = -ai[k];", im, step, one, size)
    kit.add "    }"
  end
  --- From x to the half, from pass i on; and back.
  local function forward(i, place, step)
    local p = passes[i]
    if not p then
      kit.add("    for (int64_t k = 0; k < %d; k++) ar[k] = (%s)[k], ai[k] = 0;", rest, place)
      if rest > 1 then run(rest, "ar", "ai") end
      kit.add("    for (int64_t k = 0; k <= %d; k++) hr[k * %d] = ar[k], hi[k * %d] = ai[k];", floor(rest / 2), step,
        step)
      return
    end
    kit.add("    for (int k = 1; k <= %d; k++) {", floor(p.r / 2))
    kit.add("    ty_fft_halve_%s(%d, %d, k, %s, ar, ai);", t, p.n, p.r, place)
    if p.m > 1 then run(p.m, "ar", "ai") end
    kit.add("    ty_fft_unfold_%s(%d, %d, k, ar, ai, hr, hi, %d);", t, p.n, p.r, step)
    kit.add "    }"
    kit.add("    ty_fft_halve_%s(%d, %d, 0, %s, %s + %d, ai);", t, p.n, p.r, place, place, p.n)
    forward(i + 1, ("%s + %d"):format(place, p.n), step * p.r)
  end
  local function back(i, place, step)
    local p = passes[i]
    if not p then
      mirrored(rest, "hr", "hi", step)
      if rest > 1 then run(rest, "ai", "ar") end
      kit.add("    for (int64_t k = 0; k < %d; k++) (%s)[k] = ar[k];", rest, place)
      return
    end
    back(i + 1, ("%s + %d"):format(place, p.n), step * p.r)
    kit.add("    for (int k = 1; k <= %d; k++) {", floor(p.r / 2))
    kit.add("    ty_fft_fold_%s(%d, %d, k, ar, ai, hr, hi, %d);", t, p.n, p.r, step)
    if p.m > 1 then run(p.m, "ai", "ar") end
    kit.add("    ty_fft_unite_%s(%d, %d, k, %s + %d, ar, ai, %s, %s * 2);", t, p.n, p.r, place, p.n, place, one)
    kit.add "    }"
  end
  if takes then
    local re, im = "ar", "ai"
    if odd then
      forward(1, "x0", 1)
      re, im = "hr", "hi"
    else
      run(len, "ar", "ai")
    end
    if halves then
      kit.add("    ty_fft_split_%s(br, bi, ar, ai, %d);", t, h)
      re, im = "br", "bi"
    end
    local double = primitives.double(scale * weight)
    kit.add("    for (int64_t k = 0; k < %d; k++) {", h + 1)
    kit.add("      const %s by = k == 0 || k == %d ? (%s)%s : (%s)%s;", stored, n % 2 == 0 and h or n, stored, by,
      stored, double)
    kit.add("      %s] = %s[k] * by, %s + 1] = %s[k] * by;", at(to, ny, "k"), re, at(to, ny, "k"), im)
    kit.add "    }"
  elseif gives then
    if odd then
      back(1, "x0", 1)
    else
      if halves then kit.add("    ty_fft_merge_%s(ar, ai, br, bi, %d, %s);", t, h, one)
      else mirrored(n, "ar", "ai", 1) end
      run(len, "ai", "ar")
    end
    if odd then
      kit.add("    for (int64_t k = 0; k < %d; k++) %s] = x0[k] %s;", n, at(to, ny, "k", true), scaled)
    elseif halves then
      kit.add("    for (int64_t k = 0; k < %d; k++) %s] = ar[k] %s, %s] = ai[k] %s;", h, at(to, ny, "2 * k", true),
        scaled, at(to, ny, "2 * k + 1", true), scaled)
    else
      kit.add("    for (int64_t k = 0; k < %d; k++) %s] = ar[k] %s;", n, at(to, ny, "k", true), scaled)
    end
  else
    run(len, "ar", "ai")
    local re, im = "ar", "ai"
    if kind == 1 then re, im = im, re end
    kit.add("    for (int64_t k = 0; k < %d; k++) %s] = %s[k] %s, %s + 1] = %s[k] %s;", n, at(to, ny, "k"), re, scaled,
      at(to, ny, "k"), im, scaled)
  end
  kit.add "  }"
  local size = primitives.bytes[t]
  local floats = 4 * rows + 4 * side + tables + 2 * (h + 1) + line
  return kit.aligned((doubles + wide) * 8 + floats * size)
end

return M
