--- export/long_transforms.lua -- C text of Fourier transforms that are made of others: Bluestein's convolution for
-- lengths with large primes, two dims for long ones.
-- In: names of what a model uses (prelude.lua). Out: the pieces, under the rules of butterflies.lua; nothing fails.

require "tycho.export.butterflies"
local prelude = require "tycho.export.prelude"

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
