--- export/real_transforms.lua -- C text of Fourier transforms of real numbers, and back to them: pairs are taken for
-- complex numbers where the length is even, passes go over real numbers where it is odd.
-- In: names of what a model uses (prelude.lua). Out: the pieces, under the rules of butterflies.lua; nothing fails.

require "tycho.export.butterflies"
local prelude = require "tycho.export.prelude"

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

prelude.family("fft_real_@S", prelude.FLOATS, { "fft_@S", "fft_roots" }, [[
/* A pass over n = r m real numbers, r odd: turns, then for k = 1 .. r / 2 factors of m outputs, real parts first. */
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
/* Outputs k = 1 .. r / 2 of butterflies side by side to u, `step` apart, output 0, which is real, to v. x: `far` apart;
   factors: ws apart, 0: there are none, of number l at w[l wo]. */
TY_INLINE void ty_fft_halve_@S(int64_t lanes, int r, const @T *restrict x, int64_t far, @T *restrict v, @T *restrict ur,
                               @T *restrict ui, int64_t step, const @T *turn, const @T *restrict w, int64_t ws,
                               int64_t wo) {
  const int h = r / 2;
  @T sum[26][16], less[26][16];
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) {
    @T all = x[l];
    TY_UNROLL
    for (int k = 1; k <= h; k++) {
      const @T a = x[k * far + l], b = x[(r - k) * far + l];
      sum[k - 1][l] = a + b, less[k - 1][l] = a - b;
      all = all + sum[k - 1][l];
    }
    v[l] = all;
  }
  for (int k = 0; k < h; k++) {
    const @T *c = turn + k * h, *s = c + h * h;
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      @T re = x[l], im = less[0][l] * s[0];
      TY_UNROLL
      for (int i = 0; i < h; i++) {
        const @T a = sum[i][l] * c[i];
        re = re + a;
      }
      TY_UNROLL
      for (int i = 1; i < h; i++) {
        const @T a = less[i][l] * s[i];
        im = im + a;
      }
      im = -im;
      if (ws) ty_fft_turn_@S(&re, &im, w[2 * k * ws + l * wo], w[(2 * k + 1) * ws + l * wo]);
      ur[k * step + l] = re, ui[k * step + l] = im;
    }
  }
}
/* And back to x; what is in u counts `by` times. */
TY_INLINE void ty_fft_unite_@S(int64_t lanes, int r, @T *restrict x, int64_t far, const @T *restrict v,
                               const @T *restrict ur, const @T *restrict ui, int64_t step, const @T *turn,
                               const @T *restrict w, int64_t ws, int64_t wo, @T by) {
  const int h = r / 2;
  @T re[26][16], im[26][16];
  TY_FREE
  for (int64_t l = 0; l < lanes; l++) {
    @T all = v[l];
    TY_UNROLL
    for (int k = 0; k < h; k++) {
      const @T a = ur[k * step + l] * by, b = ui[k * step + l] * by;
      @T c = a, d = b;
      if (ws) {
        const @T wr = w[2 * k * ws + l * wo], wi = w[(2 * k + 1) * ws + l * wo];
        const @T p = a * wr, q = b * wi, t = b * wr, u = a * wi;
        c = p + q, d = t - u;
      }
      re[k][l] = c, im[k][l] = d;
      all = all + c;
    }
    x[l] = all;
  }
  for (int k = 1; k <= h; k++) {
    const @T *c = turn + (k - 1) * h, *s = c + h * h;
    TY_FREE
    for (int64_t l = 0; l < lanes; l++) {
      @T all = v[l], less = im[0][l] * s[0];
      TY_UNROLL
      for (int i = 0; i < h; i++) {
        const @T a = re[i][l] * c[i];
        all = all + a;
      }
      TY_UNROLL
      for (int i = 1; i < h; i++) {
        const @T a = im[i][l] * s[i];
        less = less + a;
      }
      x[k * far + l] = all - less, x[(r - k) * far + l] = all + less;
    }
  }
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

--- A pass of radix @R over m @R real numbers of each of some lines, forward or back.
local REAL = [[
/* x may not be where v or u are, and some places are done twice. */
TY_INLINE void ty_fft_over_@W@R_@S(int64_t lanes, int one, int64_t m, int64_t cols, @T *x, @T *v, @T *ur, @T *ui,
                                   int64_t step, const @T *turn, int64_t ws@PARAMETER) {
  const int64_t n = one ? m : cols;
  const @T *w = turn + 2 * (@R / 2) * (@R / 2);
  for (int64_t p = 0; p < (one ? 1 : m); p++)
    for (int64_t i = 0; i < n; i += lanes) {
      const int64_t in = i + lanes > n ? n - lanes : i, at = p * cols + in;
      ty_fft_@W_@S(lanes, @R, x + at, m * cols, v + at, ur + at, ui + at, step, turn, w + (one ? in : p), ws, one@BY);
    }
}
static void ty_fft_@W@R_@S(int64_t m, int64_t cols, @T *x, @T *v, @T *ur, @T *ui, int64_t step,
                           const @T *turn@PARAMETER) {
  const int64_t n = cols == 1 ? m : cols;
  if (n < ty_fft_lanes) ty_fft_over_@W@R_@S(n, cols == 1, m, cols, x, v, ur, ui, step, turn, m > 1 ? m : 0@BY);
  else if (cols == 1) ty_fft_over_@W@R_@S(ty_fft_lanes, 1, m, 1, x, v, ur, ui, step, turn, m@BY);
  else if (m > 1) ty_fft_over_@W@R_@S(ty_fft_lanes, 0, m, cols, x, v, ur, ui, step, turn, m@BY);
  else ty_fft_over_@W@R_@S(ty_fft_lanes, 0, 1, cols, x, v, ur, ui, step, turn, 0@BY);
}
]]

for r = 3, 53, 2 do
  for way, by in pairs { halve = false, unite = true } do
    prelude.family("fft_" .. way .. r .. "_@S", prelude.FLOATS, { "fft_real_@S" },
      (REAL:gsub("@R", r):gsub("@W", way):gsub("@PARAMETER", by and ", @T by" or ""):gsub("@BY", by and ", by" or "")))
  end
end
