--- export/butterflies.lua -- C text of Fourier transforms: the arithmetic of kernels/fft_micro.h in loops of which
-- compilers make vectors.
-- In: names of what a model uses (prelude.lua). Out: the pieces; nothing fails.
--
-- Rules that a change must keep:
--  1. Every element has the formula of kernels/fft_micro.h, in its order.
--  2. Complex numbers lie apart: real parts in one array, imaginary parts in another. `cols` lines lie side by side.
--  3. The inner loops go over places side by side that have nothing to do with each other, ty_fft_lanes of them: what
--     is left over is done by going back, and some places are done twice.
--  4. Whether there are factors, how far they are apart and the radix are constants of an inlined call: a condition
--     on them inside such a loop makes masked loads of it, and a loop over the radix leaves no vector in a register.

require "tycho.export.roots"
local prelude = require "tycho.export.prelude"

-- Arrays --------------------------------------------------------------------------------------------------------------

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

-- Butterflies ---------------------------------------------------------------------------------------------------------

prelude.family("fft_block_@S", prelude.FLOATS, { "fft_@S" }, [[
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
   factor's real part at w[(2 k - 2) ws + l wo], its imaginary part ws behind; ws = 0: there are no factors. */
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
      if (k && ws) ty_fft_turn_@S(&re[k], &im[k], w[(2 * k - 2) * ws + l * wo], w[(2 * k - 1) * ws + l * wo]);
      yr[k * ys + l * yo] = re[k], yi[k * ys + l * yo] = im[k];
    }
  }
}
]])

prelude.family("fft_wide_@S", prelude.FLOATS, { "fft_@S" }, [[
/* ty_fft_block of a larger odd r: sums and differences go by way of memory. */
TY_INLINE void ty_fft_wide_@S(int r, int64_t lanes, const @T *restrict xr, const @T *restrict xi, int64_t xs,
                              @T *restrict yr, @T *restrict yi, int64_t ys, int64_t yo, const @T *restrict turn,
                              const @T *restrict w, int64_t ws, int64_t wo) {
  const int h = r / 2;
  @T sr[9][16], si[9][16], dr[9][16], di[9][16];
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) {
    @T a = xr[l], b = xi[l];
    TY_UNROLL
    for (int k = 1; k <= h; k++) {
      const int64_t near = k * xs + l, far = (r - k) * xs + l;
      sr[k - 1][l] = xr[near] + xr[far], si[k - 1][l] = xi[near] + xi[far];
      dr[k - 1][l] = xr[near] - xr[far], di[k - 1][l] = xi[near] - xi[far];
      a = a + sr[k - 1][l], b = b + si[k - 1][l];
    }
    yr[l * yo] = a, yi[l * yo] = b;
  }
  for (int k = 1; k <= h; k++) {
    const @T *c = turn + (k - 1) * h, *s = c + h * h;
    const @T *v = w + (2 * k - 2) * ws, *z = w + (2 * (r - k) - 2) * ws;
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      @T mr = xr[l], mi = xi[l], nr = dr[0][l] * s[0], ni = di[0][l] * s[0];
      TY_UNROLL
      for (int i = 0; i < h; i++) {
        const @T pr = sr[i][l] * c[i], pi = si[i][l] * c[i];
        mr = mr + pr, mi = mi + pi;
      }
      TY_UNROLL
      for (int i = 1; i < h; i++) {
        const @T qr = dr[i][l] * s[i], qi = di[i][l] * s[i];
        nr = nr + qr, ni = ni + qi;
      }
      @T ar = mr + ni, ai = mi - nr, br = mr - ni, bi = mi + nr;
      if (ws) {
        ty_fft_turn_@S(&ar, &ai, v[l * wo], v[l * wo + ws]);
        ty_fft_turn_@S(&br, &bi, z[l * wo], z[l * wo + ws]);
      }
      yr[k * ys + l * yo] = ar, yi[k * ys + l * yo] = ai;
      yr[(r - k) * ys + l * yo] = br, yi[(r - k) * ys + l * yo] = bi;
    }
  }
}
]])

prelude.family("fft_place_@S", prelude.FLOATS, {}, [[
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
]])

-- Passes --------------------------------------------------------------------------------------------------------------

prelude.family("fft_factors_@S", prelude.FLOATS, { "fft_roots" }, [[
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
TY_INLINE void ty_fft_part@R_@S(int64_t lanes, int64_t m, int64_t q, const ty_fft_@S *s, const @T *turn, const @T *w,
                                int64_t ws) {
  for (int64_t p = 0; p < m; p++)
    for (int64_t i = 0; i < q; i += lanes) {
      const int64_t at = i + lanes > q ? q - lanes : i;
      @BLOCK(@R, lanes, s->ar + p * q + at, s->ai + p * q + at, m * q, s->br + @R * p * q + at,
        s->bi + @R * p * q + at, q, 1, turn, w + p * 2 * (@R - 1), ws, 0);
    }
}
/* A pass over @R m q numbers. */
static void ty_fft_pass@R_@S(ty_fft_@S *s, int64_t m, int64_t q, const @T *turn) {
  const @T *w = @R % 2 ? turn + 2 * (@R / 2) * (@R / 2) : turn;
  if (q < ty_fft_lanes && q != 8) ty_fft_part@R_@S(q, m, q, s, turn, w, m > 1);
  else if (q == 8) ty_fft_part@R_@S(8, m, 8, s, turn, w, m > 1);
  else if (m > 1) ty_fft_part@R_@S(ty_fft_lanes, m, q, s, turn, w, 1);
  else ty_fft_part@R_@S(ty_fft_lanes, 1, q, s, turn, w, 0);
  ty_fft_exchange_@S(s);
}
]]

--- The same where q is small: side by side are places of all p.
local FLAT = [[
static void ty_fft_flat@R_@S(ty_fft_@S *s, int64_t m, int64_t q, const @T *turn) {
  const @T *w = @R % 2 ? turn + 2 * (@R / 2) * (@R / 2) : turn;
  const int64_t n = m * q;
  @T tr[@R * ty_fft_lanes], ti[@R * ty_fft_lanes];
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

for _, r in ipairs { 2, 3, 4, 5, 7, 8, 11, 13, 17, 19 } do
  local block = (r <= 5 or r == 8) and "fft_block_@S" or "fft_wide_@S"
  local function of_radix(text)
    return (text:gsub("@DIRECT", r % 2 == 0 and DIRECT or ""):gsub("@BLOCK", "ty_" .. block):gsub("@R", r))
  end
  prelude.family("fft_pass" .. r .. "_@S", prelude.FLOATS, { block, "fft_factors_@S" }, of_radix(PASS))
  prelude.family("fft_flat" .. r .. "_@S", prelude.FLOATS, { block, "fft_factors_@S", "fft_place_@S" }, of_radix(FLAT))
end
