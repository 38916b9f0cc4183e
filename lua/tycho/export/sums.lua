--- export/sums.lua -- C text of orders of summation, and of vectors whose elements move: pieces of the prelude.
-- The order is tile.c's: lanes within blocks, blocks in a tree, lanes at last.

local prelude = require "tycho.export.prelude"

local ipairs, gsub = ipairs, string.gsub

-- Vectors -------------------------------------------------------------------------------------------------------------

prelude.piece("slides", {}, [[
/* Vectors whose elements move, unless the compiler has none or TY_PLAIN is defined: the same bits.
** TY_SLIDE_n(a, b, k) is the last k of a, then the first n - k of b. */
#if defined(__has_builtin) && !defined(TY_PLAIN)
#if __has_builtin(__builtin_shufflevector)
#if defined(__AVX512F__)
#define TY_WIDE 64
#elif defined(__AVX2__)
#define TY_WIDE 32
#elif defined(__SSE2__) || defined(__aarch64__)
#define TY_WIDE 16
#endif
#endif
#endif
#define TY_SLIDE_2(a, b, k) __builtin_shufflevector(a, b, 2 - (k), 3 - (k))
#define TY_SLIDE_4(a, b, k) __builtin_shufflevector(a, b, 4 - (k), 5 - (k), 6 - (k), 7 - (k))
#define TY_SLIDE_8(a, b, k) \
  __builtin_shufflevector(a, b, 8 - (k), 9 - (k), 10 - (k), 11 - (k), 12 - (k), 13 - (k), 14 - (k), 15 - (k))
#define TY_SLIDE_16(a, b, k) \
  __builtin_shufflevector(a, b, 16 - (k), 17 - (k), 18 - (k), 19 - (k), 20 - (k), 21 - (k), 22 - (k), 23 - (k), \
                          24 - (k), 25 - (k), 26 - (k), 27 - (k), 28 - (k), 29 - (k), 30 - (k), 31 - (k))
#define TY_LAST_2(a) __builtin_shufflevector(a, a, 1, 1)
#define TY_LAST_4(a) __builtin_shufflevector(a, a, 3, 3, 3, 3)
#define TY_LAST_8(a) __builtin_shufflevector(a, a, 7, 7, 7, 7, 7, 7, 7, 7)
#define TY_LAST_16(a) \
  __builtin_shufflevector(a, a, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15)
#if TY_WIDE == 64
#define TY_SLIDE_4B TY_SLIDE_16
#define TY_SLIDE_8B TY_SLIDE_8
#define TY_LAST_4B TY_LAST_16
#define TY_LAST_8B TY_LAST_8
#elif TY_WIDE == 32
#define TY_SLIDE_4B TY_SLIDE_8
#define TY_SLIDE_8B TY_SLIDE_4
#define TY_LAST_4B TY_LAST_8
#define TY_LAST_8B TY_LAST_4
#elif TY_WIDE == 16
#define TY_SLIDE_4B TY_SLIDE_4
#define TY_SLIDE_8B TY_SLIDE_2
#define TY_LAST_4B TY_LAST_4
#define TY_LAST_8B TY_LAST_2
#endif
]])

-- Orders of summation -------------------------------------------------------------------------------------------------

for _, f in ipairs(prelude.FLOATS) do
  for _, op in ipairs { { "sum", "+", "-0.0" }, { "prod", "*", "1" } } do
    local t = { T = f.T, S = f.S, Z = f.S == "f32" and "4" or "8", N = op[1], O = op[2],
      I = op[3] .. (op[3] ~= "1" and f.D or "") }
    prelude.piece("join_" .. op[1] .. "_" .. f.S, { "slides" }, (gsub([[
/* n lanes, a power of two, come to one: the upper half of what is left joins the lower one. */
TY_INLINE @T ty_join_@N_@S(@T *a, const int n) {
#ifdef TY_WIDE
  typedef @T V __attribute__((vector_size(TY_WIDE), aligned(sizeof(@T)), may_alias));
  enum { E = TY_WIDE / sizeof(@T) };
  if (n >= E) {
    V w[64 / E], v;
    TY_UNROLL
    for (int i = 0; i < n / E; i++) w[i] = *(const V *)(a + i * E);
    TY_UNROLL
    for (int s = 32 / E; s; s /= 2)
      if (s * E < n)
        TY_UNROLL
        for (int i = 0; i < s; i++) w[i] = w[i] @O w[i + s];
    v = w[0];
    if (E > 8) v = v @O TY_SLIDE_@ZB(v, v, E - (E > 8 ? 8 : 0));
    if (E > 4) v = v @O TY_SLIDE_@ZB(v, v, E - (E > 4 ? 4 : 0));
    if (E > 2) v = v @O TY_SLIDE_@ZB(v, v, E - (E > 2 ? 2 : 0));
    v = v @O TY_SLIDE_@ZB(v, v, E - 1);
    return v[0];
  }
#endif
  TY_UNROLL
  for (int s = 32; s; s /= 2)
    for (int j = 0; s < n && j < s; j++) a[j] = a[j] @O a[j + s];
  return a[0];
}
]], "@(%w)", t)))
    prelude.piece("tree_" .. op[1] .. "_" .. f.S, {}, (gsub([[
/* A block of w sums is complete, after c others: it joins those that wait, as a binary counter counts; the last
** one all. */
TY_INLINE void ty_tree_@N_@S(@T *restrict acc, @T *restrict wait, int64_t w, int64_t c, int last) {
  int k = 0;
  for (; last ? c >> k : c >> k & 1; k++)
    if (c >> k & 1)
      for (int64_t j = 0; j < w; j++) acc[j] = wait[k * w + j] @O acc[j];
  for (int64_t j = 0; !last && j < w; j++) wait[k * w + j] = acc[j], acc[j] = @I;
}
]], "@(%w)", t)))
  end
end
