--- export/butterflies.lua -- C text of Fourier transforms: the arithmetic of kernels/fft_micro.h in loops of which
-- compilers
-- make vectors. In: names of what a model uses (prelude.lua). Out: the pieces; nothing fails.
--
-- Rules that a change must keep:
--  1. Every element has the formula of kernels/fft_micro.h, in its order.
--  2. Complex numbers lie apart: real parts in one array, imaginary parts in another. `cols` lines lie side by side.
--  3. The inner loops go over places side by side that have nothing to do with each other, ty_fft_lanes of them: what
-- is
--     left over is done by going back, and some places are done twice.

local prelude = require "tycho.export.prelude"

local M = {}

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
]])

prelude.piece("fft_once", {}, [[
/* Tables are made by the first call. ty_claim: 2: they are there; 1: this call makes them, and says ty_ready then; 0:
   another
** one is about it, or nobody can tell: this call makes its own. */
#if defined(__STDC_NO_ATOMICS__)
typedef int ty_once;
TY_INLINE int ty_claim(ty_once *once) { return *once; }
TY_INLINE void ty_ready(ty_once *once) { (void)once; }
#else
#include <stdatomic.h>
typedef atomic_int ty_once;
TY_INLINE int ty_claim(ty_once *once) {
  int none = 0;
  if (atomic_load_explicit(once, memory_order_acquire) == 2) return 2;
  if (atomic_compare_exchange_strong(once, &none, 1)) return 1;
  return none == 2 ? 2 : 0;
}
TY_INLINE void ty_ready(ty_once *once) { atomic_store_explicit(once, 2, memory_order_release); }
#endif
]])

-- Butterflies ---------------------------------------------------------------------------------------------------------

prelude.family("fft_@S", prelude.FLOATS, {}, [[
#ifndef TY_FFT_LANES
#define TY_FFT_LANES
enum { ty_fft_lanes = 16 };
#endif
/* Numbers, and room for as many; a pass goes from a to b, and exchanges the two. */
typedef struct ty_fft_@S {
  @T *ar, *ai, *br, *bi;
} ty_fft_@S;
TY_SPARE void ty_fft_exchange_@S(ty_fft_@S *s) { *s = (ty_fft_@S){s->br, s->bi, s->ar, s->ai}; }
/* From the inverse to the transform, and back. */
TY_SPARE void ty_fft_conjugate_@S(ty_fft_@S *s) { *s = (ty_fft_@S){s->ai, s->ar, s->bi, s->br}; }
TY_INLINE void ty_fft_turn_@S(@T *re, @T *im, @T wr, @T wi) {
  const @T a = *re * wr, b = *im * wi, c = *re * wi, d = *im * wr;
  *re = a - b, *im = c + d;
}
/* a[i cols + c] = x[i row + c col], the imaginary part `far` behind; 0: there is none. */
TY_APART void ty_fft_gather_@S(@T *restrict ar, @T *restrict ai, int64_t n, int64_t cols, const @T *restrict x,
                               int64_t far, int64_t row, int64_t col) {
  if (col == 2 && far == 1) {
    for (int64_t i = 0; i < n; i++) {
      TY_FREE
      for (int64_t c = 0; c < cols; c++) {
        const @T *at = x + i * row + c * 2;
        ar[i * cols + c] = at[0], ai[i * cols + c] = at[1];
      }
    }
  } else if (col == 1) {
    for (int64_t i = 0; i < n; i++) {
      for (int64_t c = 0; c < cols; c++) ar[i * cols + c] = x[i * row + c];
      for (int64_t c = 0; c < cols && far; c++) ai[i * cols + c] = x[i * row + c + far];
    }
  } else {
    for (int64_t b = 0; b < n; b += ty_fft_lanes)
      for (int64_t c = 0; c < cols; c++)
        for (int64_t i = b; i < n && i < b + ty_fft_lanes; i++) {
          ar[i * cols + c] = x[i * row + c * col];
          if (far) ai[i * cols + c] = x[i * row + c * col + far];
        }
  }
}
/* y[i row + c col] = a[i cols + c] times `by`. */
TY_APART void ty_fft_scatter_@S(@T *restrict y, int64_t far, int64_t row, int64_t col, const @T *restrict ar,
                                const @T *restrict ai, int64_t n, int64_t cols, @T by) {
  if (col == 2 && far == 1) {
    for (int64_t i = 0; i < n; i++) {
      TY_FREE
      for (int64_t c = 0; c < cols; c++) {
        @T *at = y + i * row + c * 2;
        at[0] = ar[i * cols + c] * by, at[1] = ai[i * cols + c] * by;
      }
    }
  } else if (col == 1) {
    for (int64_t i = 0; i < n; i++) {
      for (int64_t c = 0; c < cols; c++) y[i * row + c] = ar[i * cols + c] * by;
      for (int64_t c = 0; c < cols && far; c++) y[i * row + c + far] = ai[i * cols + c] * by;
    }
  } else {
    for (int64_t b = 0; b < n; b += ty_fft_lanes)
      for (int64_t c = 0; c < cols; c++)
        for (int64_t i = b; i < n && i < b + ty_fft_lanes; i++) {
          y[i * row + c * col] = ar[i * cols + c] * by;
          if (far) y[i * row + c * col + far] = ai[i * cols + c] * by;
        }
  }
}
]])

prelude.family("fft_pass_@S", prelude.FLOATS, { "fft_@S", "fft_roots" }, [[
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
TY_INLINE void ty_fft_eight_@S(@T *re, @T *im) {
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
/* Sums and differences of elements that lie opposite, then cosines and sines of them. turn: h h cosines, then sines. */
TY_INLINE void ty_fft_odd_@S(@T *re, @T *im, int r, const @T *turn) {
  const int h = r / 2;
  @T sr[3], si[3], dr[3], di[3], r0 = re[0], i0 = im[0];
  for (int k = 1; k <= h; k++) {
    sr[k] = re[k] + re[r - k], si[k] = im[k] + im[r - k], dr[k] = re[k] - re[r - k], di[k] = im[k] - im[r - k];
    r0 = r0 + sr[k], i0 = i0 + si[k];
  }
  for (int k = 1; k <= h; k++) {
    @T mr = re[0], mi = im[0], nr = 0, ni = 0;
    for (int i = 1; i <= h; i++) {
      const @T c = turn[(k - 1) * h + i - 1], s = turn[h * h + (k - 1) * h + i - 1];
      const @T pr = sr[i] * c, pi = si[i] * c, qr = dr[i] * s, qi = di[i] * s;
      mr = mr + pr, mi = mi + pi;
      nr = i == 1 ? qr : nr + qr, ni = i == 1 ? qi : ni + qi;
    }
    re[k] = mr + ni, im[k] = mi - nr;
    re[r - k] = mr - ni, im[r - k] = mi + nr;
  }
  re[0] = r0, im[0] = i0;
}
/* Butterflies side by side: input k of number l at x[k xs + l], output k, times its factor, at y[k ys + l yo]; its
   factor's real
** part at w[(2 k - 2) ws + l wo], its imaginary part ws behind. */
TY_INLINE void ty_fft_block_@S(int r, int64_t lanes, const @T *restrict xr, const @T *restrict xi, int64_t xs,
                               @T *restrict yr, @T *restrict yi, int64_t ys, int64_t yo, const @T *restrict turn,
                               const @T *restrict w, int64_t ws, int64_t wo) {
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) {
    @T re[8], im[8];
    for (int k = 0; k < r; k++) re[k] = xr[k * xs + l], im[k] = xi[k * xs + l];
    if (r == 2) ty_fft_two_@S(re, im, 0, 1);
    else if (r == 4) ty_fft_four_@S(re, im, 0, 1, 2, 3);
    else if (r == 8) ty_fft_eight_@S(re, im);
    else ty_fft_odd_@S(re, im, r, turn);
    for (int k = 0; k < r; k++) {
      if (k && w) ty_fft_turn_@S(&re[k], &im[k], w[(2 * k - 2) * ws + l * wo], w[(2 * k - 1) * ws + l * wo]);
      yr[k * ys + l * yo] = re[k], yi[k * ys + l * yo] = im[k];
    }
  }
}
/* Groups of q numbers from place j on: y[k q + ..] = t[k lanes + ..]. */
TY_SPARE void ty_fft_place_@S(int64_t r, int64_t q, int64_t j, const @T *tr, const @T *ti, @T *yr, @T *yi) {
  int64_t in = j % q, at = j / q * q * r;
  for (int l = 0; l < ty_fft_lanes; l++) {
    for (int64_t k = 0; k < r; k++) {
      yr[at + in + k * q] = tr[k * ty_fft_lanes + l], yi[at + in + k * q] = ti[k * ty_fft_lanes + l];
    }
    if (++in == q) in = 0, at += q * r;
  }
}
/* What a pass of radix r takes: of an odd one the turns; of p < m and k = 1 .. r - 1 w^(p k s), by places if `flat`. */
TY_SPARE void ty_fft_factors_@S(@T *w, int64_t r, int64_t m, int64_t s, int flat) {
  const int64_t n = r * m * s, h = r / 2, ws = flat ? m * s : 1;
  double cosine, sine;
  for (int64_t k = 0; k < h * h && r % 2; k++) {
    ty_fft_root((k / h + 1) * (k % h + 1) % r, r, &cosine, &sine);
    w[k] = (@T)cosine, w[h * h + k] = (@T)sine;
  }
  if (r % 2) w += 2 * h * h;
  for (int64_t p = 0; p < m && m > 1; p++)
    for (int64_t k = 1; k < r; k++) {
      ty_fft_root(p * k * s, n, &cosine, &sine);
      for (int64_t q = 0; q < (flat ? s : 1); q++) {
        const int64_t at = (2 * k - 2) * ws + (flat ? p * s + q : p * 2 * (r - 1));
        w[at] = (@T)cosine, w[at + ws] = (@T)-sine;
      }
    }
}
]])

--- A pass of Stockham's algorithm: number q of butterfly p. @R: the radix.
local PASS = [[
TY_INLINE void ty_fft_part@R_@S(int64_t lanes, int64_t m, int64_t q, const ty_fft_@S *s, const @T *turn, const @T *w) {
  for (int64_t p = 0; p < m; p++)
    for (int64_t i = 0; i < q; i += lanes) {
      const int64_t at = i + lanes > q ? q - lanes : i;
      @BLOCK(@R, lanes, s->ar + p * q + at, s->ai + p * q + at, m * q, s->br + @R * p * q + at,
        s->bi + @R * p * q + at, q, 1, turn, w ? w + p * 2 * (@R - 1) : w, 1, 0);
    }
}
/* A pass over @N m q numbers. */
static void ty_fft_pass@R_@S(ty_fft_@S *s, @P int64_t m, int64_t q, const @T *turn) {
  const @T *w = @R % 2 ? turn + 2 * (@R / 2) * (@R / 2) : turn;
  if (q < ty_fft_lanes && q != 8) ty_fft_part@R_@S(@A q, m, q, s, turn, m > 1 ? w : NULL);
  else if (q == 8) ty_fft_part@R_@S(@A 8, m, 8, s, turn, m > 1 ? w : NULL);
  else if (m > 1) ty_fft_part@R_@S(@A ty_fft_lanes, m, q, s, turn, w);
  else ty_fft_part@R_@S(@A ty_fft_lanes, 1, q, s, turn, NULL);
  ty_fft_exchange_@S(s);
}
]]

--- The same where q is small: side by side are places of all p.
local FLAT = [[
static void ty_fft_flat@R_@S(ty_fft_@S *s, @P int64_t m, int64_t q, const @T *turn) {
  const @T *w = @R % 2 ? turn + 2 * (@R / 2) * (@R / 2) : turn;
  const int64_t n = m * q;
  @T tr[@M * ty_fft_lanes], ti[@M * ty_fft_lanes];
  if (n < ty_fft_lanes) {
    for (int64_t j = 0; j < n; j++) {
      const int64_t at = (j / q * @R) * q + j % q;
      @BLOCK(@R, 1, s->ar + j, s->ai + j, n, s->br + at, s->bi + at, q, 1, turn, w + j, n, 1);
    }
  } else {
    for (int64_t j = 0; j < n; j += ty_fft_lanes) {
      const int64_t at = j + ty_fft_lanes > n ? n - ty_fft_lanes : j;
@DIRECT      @BLOCK(@R, ty_fft_lanes, s->ar + at, s->ai + at, n, tr, ti, ty_fft_lanes, 1, turn, w + at, n, 1);
      ty_fft_place_@S(@R, q, at, tr, ti, s->br, s->bi);
    }
  }
  ty_fft_exchange_@S(s);
}
]]

--- A power of two lets compilers interleave what it gives.
local DIRECT = [[
      if (q == 1) {
        @BLOCK(@R, ty_fft_lanes, s->ar + at, s->ai + at, n, s->br + @R * at, s->bi + @R * at, 1, @R, turn, w + at, n,
          1);
        continue;
      }
]]

--- The text for one radix; "r": any odd one.
local function of_radix(body, r)
  local any = r == "r"
  local text = body:gsub("@DIRECT", not any and r % 2 == 0 and DIRECT or "")
  text = text:gsub("@BLOCK", any and "ty_fft_wide_@S" or "ty_fft_block_@S"):gsub("@N", any and "r" or r)
  text = text:gsub("@P ?", any and "int r, " or ""):gsub("@A ?", any and "r, " or ""):gsub("@M", any and "19" or r)
  if any then
    text = text:gsub("part@R", "part_odd"):gsub("pass@R", "pass_odd"):gsub("flat@R", "flat_odd")
    text = text:gsub("%(int64_t lanes, int64_t m", "(int r, int64_t lanes, int64_t m")
  end
  return (text:gsub("@R", r))
end

for _, r in ipairs { 2, 3, 4, 5, 8 } do
  prelude.family("fft_pass" .. r .. "_@S", prelude.FLOATS, { "fft_pass_@S" }, of_radix(PASS, r))
  prelude.family("fft_flat" .. r .. "_@S", prelude.FLOATS, { "fft_pass_@S" }, of_radix(FLAT, r))
end

prelude.family("fft_mix_@S", prelude.FLOATS, {}, [[
/* y = base + x[0] w[0] + x[1] w[1] + .., h of them, in this order. */
TY_INLINE void ty_fft_mix_@S(int64_t lanes, int h, @T *restrict y, const @T *restrict base, @T (*x)[16], const @T *w) {
  int i = 1;
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) {
    const @T first = x[0][l] * w[0];
    y[l] = base ? base[l] + first : first;
  }
  for (; i + 2 < h; i += 3)
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      const @T a = x[i][l] * w[i], b = x[i + 1][l] * w[i + 1], c = x[i + 2][l] * w[i + 2];
      y[l] = ((y[l] + a) + b) + c;
    }
  for (; i < h; i++)
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      const @T a = x[i][l] * w[i];
      y[l] = y[l] + a;
    }
}
]])

prelude.family("fft_wide_@S", prelude.FLOATS, { "fft_pass_@S", "fft_mix_@S" }, [[
/* ty_fft_block of an odd r, by way of memory. */
TY_INLINE void ty_fft_wide_@S(int r, int64_t lanes, const @T *restrict xr, const @T *restrict xi, int64_t xs,
                              @T *restrict yr, @T *restrict yi, int64_t ys, int64_t yo, const @T *restrict turn,
                              const @T *restrict w, int64_t ws, int64_t wo) {
  const int h = r / 2;
  @T sr[9][16], si[9][16], dr[9][16], di[9][16], mr[16], mi[16], nr[16], ni[16];
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) mr[l] = xr[l], mi[l] = xi[l];
  for (int k = 1; k <= h; k++) {
    const int64_t a = k * xs, b = (r - k) * xs;
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      sr[k - 1][l] = xr[a + l] + xr[b + l], si[k - 1][l] = xi[a + l] + xi[b + l];
      dr[k - 1][l] = xr[a + l] - xr[b + l], di[k - 1][l] = xi[a + l] - xi[b + l];
      mr[l] = mr[l] + sr[k - 1][l], mi[l] = mi[l] + si[k - 1][l];
    }
  }
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) yr[l * yo] = mr[l], yi[l * yo] = mi[l];
  for (int k = 1; k <= h; k++) {
    const @T *c = turn + (k - 1) * h;
    ty_fft_mix_@S(lanes, h, mr, xr, sr, c);
    ty_fft_mix_@S(lanes, h, mi, xi, si, c);
    ty_fft_mix_@S(lanes, h, nr, NULL, dr, c + h * h);
    ty_fft_mix_@S(lanes, h, ni, NULL, di, c + h * h);
    const @T *v = w ? w + (2 * k - 2) * ws : w, *z = w ? w + (2 * (r - k) - 2) * ws : w;
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      @T ar = mr[l] + ni[l], ai = mi[l] - nr[l], br = mr[l] - ni[l], bi = mi[l] + nr[l];
      if (w) {
        ty_fft_turn_@S(&ar, &ai, v[l * wo], v[l * wo + ws]);
        ty_fft_turn_@S(&br, &bi, z[l * wo], z[l * wo + ws]);
      }
      yr[k * ys + l * yo] = ar, yi[k * ys + l * yo] = ai;
      yr[(r - k) * ys + l * yo] = br, yi[(r - k) * ys + l * yo] = bi;
    }
  }
}
]])
prelude.family("fft_pass_odd_@S", prelude.FLOATS, { "fft_wide_@S" }, of_radix(PASS, "r"))
prelude.family("fft_flat_odd_@S", prelude.FLOATS, { "fft_wide_@S" }, of_radix(FLAT, "r"))

-- Longer transforms ---------------------------------------------------------------------------------------------------

prelude.family("fft_chirp_@S", prelude.FLOATS, { "fft_@S", "fft_roots" }, [[
TY_INLINE void ty_fft_rows_@S(@T *restrict ar, @T *restrict ai, const @T *restrict w, int64_t n, int64_t cols) {
  for (int64_t i = 0; i < n; i++) {
    TY_FREE
    for (int64_t c = 0; c < cols; c++) ty_fft_turn_@S(&ar[i * cols + c], &ai[i * cols + c], w[i], w[n + i]);
  }
}
/* Row i times w[i], of which the imaginary parts are n behind. */
TY_SPARE void ty_fft_multiply_@S(const ty_fft_@S *s, const @T *w, int64_t n, int64_t cols) {
  if (cols == 1) {
    @T *restrict ar = s->ar, *restrict ai = s->ai;
    TY_FREE
    for (int64_t i = 0; i < n; i++) ty_fft_turn_@S(&ar[i], &ai[i], w[i], w[n + i]);
  } else if (cols == ty_fft_lanes) ty_fft_rows_@S(s->ar, s->ai, w, n, ty_fft_lanes);
  else ty_fft_rows_@S(s->ar, s->ai, w, n, cols);
}
TY_SPARE void ty_fft_zeros_@S(const ty_fft_@S *s, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i++) s->ar[i] = s->ai[i] = 0;
}
/* The chirp of n numbers; and in a what it is convolved with, whose transform over m is taken next. */
TY_SPARE void ty_fft_chirp_@S(@T *chirp, int64_t n, int64_t m, double *ar, double *ai) {
  for (int64_t k = 0; k < m; k++) ar[k] = ai[k] = 0;
  for (int64_t j = 0, square = 0; j < n; j++) {
    double c, s;
    ty_fft_root(square, 2 * n, &c, &s);
    chirp[j] = (@T)c, chirp[n + j] = (@T)-s;
    ar[j] = c, ai[j] = s;
    if (j) ar[m - j] = c, ai[m - j] = s;
    square = (square + 2 * j + 1) % (2 * n);
  }
}
TY_SPARE void ty_fft_chirped_@S(@T *all, int64_t m, const double *ar, const double *ai) {
  const double by = 1.0 / (double)m;
  for (int64_t k = 0; k < m; k++) all[k] = (@T)(ar[k] * by), all[m + k] = (@T)(ai[k] * by);
}
]])

prelude.family("fft_long_@S", prelude.FLOATS, { "fft_@S", "fft_roots" }, [[
/* Between columns of n1 and rows of n2: roots of n1 n2, of blocks of columns, then of columns of a block. */
static void ty_fft_twists_@S(@T *u, @T *v, int64_t n1, int64_t n2) {
  const int64_t turns = (n1 - 1) * ((n2 + ty_fft_lanes - 1) / ty_fft_lanes - 1) + 1;
  double c, s;
  for (int64_t t = 0; t < turns; t++) {
    ty_fft_root(ty_fft_lanes * t % (n1 * n2), n1 * n2, &c, &s);
    u[2 * t] = (@T)c, u[2 * t + 1] = (@T)-s;
  }
  for (int64_t i = 0; i < n1; i++)
    for (int64_t k = 0; k < ty_fft_lanes; k++) {
      ty_fft_root(i * k, n1 * n2, &c, &s);
      v[2 * ty_fft_lanes * i + k] = (@T)c, v[2 * ty_fft_lanes * i + ty_fft_lanes + k] = (@T)-s;
    }
}
static void ty_fft_twist_@S(const ty_fft_@S *s, const @T *u, int64_t block, const @T *v, int64_t n, int64_t cols) {
  for (int64_t i = 0; i < n; i++, v += 2 * ty_fft_lanes) {
    @T *restrict re = s->ar + i * cols, *restrict im = s->ai + i * cols;
    const @T ur = u[2 * i * block], ui = u[2 * i * block + 1];
    TY_FREE
    for (int64_t c = 0; c < cols; c++) {
      @T wr = ur, wi = ui;
      ty_fft_turn_@S(&wr, &wi, v[c], v[ty_fft_lanes + c]);
      ty_fft_turn_@S(&re[c], &im[c], wr, wi);
    }
  }
}
]])

-- Real numbers --------------------------------------------------------------------------------------------------------

prelude.family("fft_half_@S", prelude.FLOATS, { "fft_@S", "fft_roots" }, [[
static void ty_fft_halves_@S(@T *w, int64_t h) {
  for (int64_t k = 0; k <= h; k++) {
    double c, s;
    ty_fft_root(k, 2 * h, &c, &s);
    w[k] = (@T)c, w[h + 1 + k] = (@T)-s;
  }
}
/* Number k = h - j of the transform of pairs, and w^i, give number i of that of 2 h numbers. */
TY_INLINE void ty_fft_split_@S(@T *yr, @T *yi, @T xr, @T xi, @T zr, @T zi, @T wr, @T wi) {
  const @T er = (xr + zr) * (@T)0.5, ei = (xi - zi) * (@T)0.5;
  const @T dr = (xi + zi) * (@T)0.5, di = (zr - xr) * (@T)0.5;
  const @T p = dr * wr, q = di * wi, u = dr * wi, v = di * wr, r = p - q, m = u + v;
  *yr = er + r, *yi = ei + m;
}
TY_INLINE void ty_fft_merge_@S(@T *yr, @T *yi, @T xr, @T xi, @T zr, @T zi, @T wr, @T wi) {
  const @T sr = xr + zr, si = xi - zi, dr = xr - zr, di = xi + zi;
  const @T p = dr * wr, q = di * wi, u = di * wr, v = dr * wi, tr = p + q, ti = u - v;
  *yr = sr - ti, *yi = si + tr;
}
TY_INLINE void ty_fft_splits_@S(const ty_fft_@S *s, const @T *restrict w, int64_t h, int64_t cols) {
  const @T *restrict ar = s->ar, *restrict ai = s->ai;
  @T *restrict yr = s->br, *restrict yi = s->bi;
  for (int64_t c = 0; c < cols; c++) {
    const int64_t l = h * cols + c;
    ty_fft_split_@S(&yr[c], &yi[c], ar[c], ai[c], ar[c], ai[c], w[0], w[h + 1]);
    ty_fft_split_@S(&yr[l], &yi[l], ar[c], ai[c], ar[c], ai[c], w[h], w[2 * h + 1]);
  }
  if (cols == 1) {
    TY_FREE
    for (int64_t i = 1; i < h; i++)
      ty_fft_split_@S(&yr[i], &yi[i], ar[i], ai[i], ar[h - i], ai[h - i], w[i], w[h + 1 + i]);
    return;
  }
  for (int64_t i = 1; i < h; i++) {
    TY_FREE
    for (int64_t c = 0; c < cols; c++) {
      const int64_t k = i * cols + c, j = (h - i) * cols + c;
      ty_fft_split_@S(&yr[k], &yi[k], ar[k], ai[k], ar[j], ai[j], w[i], w[h + 1 + i]);
    }
  }
}
TY_INLINE void ty_fft_merges_@S(const ty_fft_@S *s, const @T *restrict w, int64_t h, int64_t cols, @T by) {
  const @T *restrict xr = s->ar, *restrict xi = s->ai;
  @T *restrict yr = s->br, *restrict yi = s->bi;
  for (int64_t c = 0; c < cols; c++) /* what is imaginary in 0 and h is not looked at */
    ty_fft_merge_@S(&yr[c], &yi[c], xr[c], 0, xr[h * cols + c], 0, w[0], w[h + 1]);
  if (cols == 1) {
    TY_FREE
    for (int64_t i = 1; i < h; i++)
      ty_fft_merge_@S(&yr[i], &yi[i], xr[i] * by, xi[i] * by, xr[h - i] * by, xi[h - i] * by, w[i], w[h + 1 + i]);
    return;
  }
  for (int64_t i = 1; i < h; i++) {
    TY_FREE
    for (int64_t c = 0; c < cols; c++) {
      const int64_t k = i * cols + c, j = (h - i) * cols + c;
      ty_fft_merge_@S(&yr[k], &yi[k], xr[k] * by, xi[k] * by, xr[j] * by, xi[j] * by, w[i], w[h + 1 + i]);
    }
  }
}
/* From the transform of h pairs to the first half of that of 2 h numbers; and back, numbers that stand for two times
   `by`. */
TY_SPARE void ty_fft_to_half_@S(ty_fft_@S *s, const @T *w, int64_t h, int64_t cols) {
  if (cols == 1) ty_fft_splits_@S(s, w, h, 1);
  else if (cols == ty_fft_lanes) ty_fft_splits_@S(s, w, h, ty_fft_lanes);
  else ty_fft_splits_@S(s, w, h, cols);
  ty_fft_exchange_@S(s);
}
TY_SPARE void ty_fft_from_half_@S(ty_fft_@S *s, const @T *w, int64_t h, int64_t cols, @T by) {
  if (cols == 1) ty_fft_merges_@S(s, w, h, 1, by);
  else if (cols == ty_fft_lanes) ty_fft_merges_@S(s, w, h, ty_fft_lanes, by);
  else ty_fft_merges_@S(s, w, h, cols, by);
  ty_fft_exchange_@S(s);
}
]])

prelude.family("fft_mirror_@S", prelude.FLOATS, { "fft_@S" }, [[
/* Number n - k is the conjugate of number k; those but 0 count `by` times. */
static void ty_fft_mirror_@S(const ty_fft_@S *s, int64_t n, int64_t cols, @T by) {
  for (int64_t c = 0; c < cols; c++) s->ai[c] = 0;
  for (int64_t k = 1; k <= n / 2; k++)
    for (int64_t c = 0; c < cols; c++) {
      const int64_t at = k * cols + c, to = (n - k) * cols + c;
      s->ar[at] = s->ar[to] = s->ar[at] * by;
      s->ai[at] = s->ai[at] * by, s->ai[to] = -s->ai[at];
    }
}
]])

prelude.family("fft_real_@S", prelude.FLOATS, { "fft_@S", "fft_roots", "fft_mix_@S" }, [[
/* A pass over n = r m real numbers, r odd: turns, then for k = 1 .. r / 2 the factors of m outputs, real parts first.
   */
static void ty_fft_turns_@S(@T *w, int64_t r, int64_t m) {
  const int64_t h = r / 2;
  double c, s;
  for (int64_t k = 0; k < h * h; k++) {
    ty_fft_root((k / h + 1) * (k % h + 1) % r, r, &c, &s);
    w[k] = (@T)c, w[h * h + k] = (@T)s;
  }
  w += 2 * h * h;
  for (int64_t k = 1; k <= h && m > 1; k++)
    for (int64_t p = 0; p < m; p++) {
      ty_fft_root(p * k, r * m, &c, &s);
      w[(2 * k - 2) * m + p] = (@T)c, w[(2 * k - 1) * m + p] = (@T)-s;
    }
}
/* Outputs k = 1 .. r / 2 of butterflies side by side to u, `step` apart, output 0, which is real, to v. x: `far`
   apart; factors:
** ws apart, of number l at w[l wo]. */
TY_INLINE void ty_fft_halve_@S(int64_t lanes, int r, const @T *restrict x, int64_t far, @T *restrict v, @T *restrict ur,
                               @T *restrict ui, int64_t step, const @T *turn, const @T *restrict w, int64_t ws,
                               int64_t wo) {
  const int h = r / 2;
  @T sum[26][16], less[26][16], re[16], im[16];
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) re[l] = x[l];
  for (int k = 1; k <= h; k++)
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      const @T a = x[k * far + l], b = x[(r - k) * far + l];
      sum[k - 1][l] = a + b, less[k - 1][l] = a - b;
      re[l] = re[l] + sum[k - 1][l];
    }
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) v[l] = re[l];
  for (int k = 0; k < h; k++, ur += step, ui += step) {
    ty_fft_mix_@S(lanes, h, re, x, sum, turn + k * h);
    ty_fft_mix_@S(lanes, h, im, NULL, less, turn + h * h + k * h);
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      @T a = re[l], b = -im[l];
      if (w) ty_fft_turn_@S(&a, &b, w[2 * k * ws + l * wo], w[(2 * k + 1) * ws + l * wo]);
      ur[l] = a, ui[l] = b;
    }
  }
}
/* And back to y; what is in u counts `by` times. */
TY_INLINE void ty_fft_unite_@S(int64_t lanes, int r, @T *restrict y, int64_t far, const @T *restrict v,
                               const @T *restrict ur, const @T *restrict ui, int64_t step, const @T *turn,
                               const @T *restrict w, int64_t ws, int64_t wo, @T by) {
  const int h = r / 2;
  @T re[26][16], im[26][16], all[16], less[16];
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) all[l] = v[l];
  for (int k = 0; k < h; k++, ur += step, ui += step) {
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      const @T a = ur[l] * by, b = ui[l] * by;
      @T c = a, d = b;
      if (w) {
        const @T wr = w[2 * k * ws + l * wo], wi = w[(2 * k + 1) * ws + l * wo];
        const @T p = a * wr, q = b * wi, t = b * wr, u = a * wi;
        c = p + q, d = t - u;
      }
      re[k][l] = c, im[k][l] = d;
      all[l] = all[l] + c;
    }
  }
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) y[l] = all[l];
  for (int k = 1; k <= h; k++) {
    ty_fft_mix_@S(lanes, h, all, v, re, turn + (k - 1) * h);
    ty_fft_mix_@S(lanes, h, less, NULL, im, turn + h * h + (k - 1) * h);
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) y[k * far + l] = all[l] - less[l], y[(r - k) * far + l] = all[l] + less[l];
  }
}
/* y may not be where v or u are, and some places are done twice. */
TY_INLINE void ty_fft_over_@S(int64_t lanes, int back, int r, int64_t m, int64_t cols, @T *x, @T *v, @T *ur, @T *ui,
                              int64_t step, const @T *turn, @T by) {
  const int64_t n = cols == 1 ? m : cols;
  const @T *w = m > 1 ? turn + 2 * (r / 2) * (r / 2) : NULL;
  for (int64_t p = 0; p < (cols == 1 ? 1 : m); p++)
    for (int64_t i = 0; i < n; i += lanes) {
      const int64_t in = i + lanes > n ? n - lanes : i, at = p * cols + in;
      const @T *factors = w ? w + (cols == 1 ? in : p) : w;
      if (back) ty_fft_unite_@S(lanes, r, x + at, m * cols, v + at, ur + at, ui + at, step, turn, factors, m,
        cols == 1, by);
      else ty_fft_halve_@S(lanes, r, x + at, m * cols, v + at, ur + at, ui + at, step, turn, factors, m, cols == 1);
    }
}
static void ty_fft_real_@S(int back, int r, int64_t m, int64_t cols, @T *x, @T *v, @T *ur, @T *ui, int64_t step,
                           const @T *turn, @T by) {
  const int64_t n = cols == 1 ? m : cols;
  if (n < ty_fft_lanes) ty_fft_over_@S(n, back, r, m, cols, x, v, ur, ui, step, turn, by);
  else if (r == 3) ty_fft_over_@S(ty_fft_lanes, back, 3, m, cols, x, v, ur, ui, step, turn, by);
  else ty_fft_over_@S(ty_fft_lanes, back, r, m, cols, x, v, ur, ui, step, turn, by);
}
/* Number k + r l of a transform of n in u, and in its half, whose rows are `step` apart. */
TY_APART void ty_fft_unfold_@S(int64_t n, int64_t r, int64_t k, const @T *restrict ur, const @T *restrict ui,
                               @T *restrict hr, @T *restrict hi, int64_t step, int64_t cols) {
  for (int64_t l = 0; l < n / r; l++) {
    const int64_t own = k + r * l, at = (2 * own > n ? n - own : own) * step * cols;
    const @T sign = 2 * own > n ? -1 : 1;
    for (int64_t c = 0; c < cols; c++) hr[at + c] = ur[l * cols + c], hi[at + c] = ui[l * cols + c] * sign;
  }
}
TY_APART void ty_fft_fold_@S(int64_t n, int64_t r, int64_t k, @T *restrict ur, @T *restrict ui, const @T *restrict hr,
                             const @T *restrict hi, int64_t step, int64_t cols) {
  for (int64_t l = 0; l < n / r; l++) {
    const int64_t own = k + r * l, at = (2 * own > n ? n - own : own) * step * cols;
    const @T sign = 2 * own > n ? -1 : 1;
    for (int64_t c = 0; c < cols; c++) ur[l * cols + c] = hr[at + c], ui[l * cols + c] = hi[at + c] * sign;
  }
}
]])

return M
