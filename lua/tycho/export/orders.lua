--- export/orders.lua -- argsort and searchsorted as C: part of routines.lua.
-- In: a step and a kit. Out: lines of its function; the bytes of scratch that it takes.
--
-- One total order: every element has an unsigned key whose order is that of the values, zeros equal, NaNs equal and
-- above all others. What is sorted are words, half a key above a position: no two are equal, so any way to sort them is
-- stable. Which way a row goes is as in core/device/cpu/sort.c, by what it costs an element: few kept of many one by
-- one; eight rows side by side by a network, where there is AVX-512; short rows by insertion; long ones byte by byte.

local prelude = require "tycho.export.prelude"
local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, concat, gsub, ipairs, type = string.format, table.concat, string.gsub, ipairs, type
local max = math.max
local text, at_most = sizes.text, sizes.at_most

local M = {}

-- Keys ----------------------------------------------------------------------------------------------------------------

for _, t in ipairs { { "bool", "uint8_t", "p != 0" }, { "u8", "uint8_t", "p" },
  { "u16", "uint16_t", "p" }, { "u32", "uint32_t", "p" }, { "u64", "uint64_t", "p" },
  { "i8", "int8_t", "(uint8_t)(p ^ 0x80)" },
  { "i16", "int16_t", "(uint16_t)(p ^ 0x8000)" }, { "i32", "int32_t", "(uint32_t)p ^ 0x80000000u" },
  { "i64", "int64_t", "(uint64_t)p ^ UINT64_C(0x8000000000000000)" } } do
  local key = primitives.bytes[t[1]] == 8 and "uint64_t" or "uint32_t"
  prelude.piece("key_" .. t[1], {}, format("TY_INLINE %s ty_key_%s(%s p) { return (%s)(%s); }\n", key, t[1], t[2], key,
    t[3]))
end
for _, t in ipairs { { S = "f16", T = "uint16_t", B = "p", W = "15", I = "0x7c00u", K = "uint32_t" },
  { S = "bf16", T = "uint16_t", B = "p", W = "15", I = "0x7f80u", K = "uint32_t" },
  { S = "f32", T = "float", B = "ty_raw_f32(p)", W = "31", I = "0x7f800000u", K = "uint32_t" },
  { S = "f64", T = "double", B = "ty_raw_f64(p)", W = "63", I = "UINT64_C(0x7ff0000000000000)", K = "uint64_t" } } do
  prelude.piece("key_" .. t.S, t.W == "15" and {} or { "bits_" .. t.S }, (gsub([[
TY_INLINE @K ty_key_@S(@T p) { /* without a branch: signs of data cannot be foretold */
  const @K u = @B, sign = (@K)1 << @W, m = u & ~sign, all = 2 * sign - 1;
  const @K zero = (@K)0 - (m == 0), nan = (@K)0 - (m > @I), below = (@K)0 - (u >> @W);
  return ((((u ^ (below | sign)) & ~zero) | (sign & zero)) | nan) & all;
}
]], "@(%w)", t)))
end

-- Sorts ---------------------------------------------------------------------------------------------------------------

prelude.piece("radix", {}, [=[
/* One byte of a word: how many have it becomes where they go. */
TY_STEP void ty_radix_byte(const uint64_t *restrict from, uint64_t *restrict to, int64_t n, uint32_t *restrict place,
                           int shift) {
  for (uint32_t v = 0, sum = 0; v < 256; v++) {
    const uint32_t those = place[v];
    place[v] = sum, sum += those;
  }
  for (int64_t i = 0; i < n; i++) to[place[from[i] >> shift & 255]++] = from[i];
}
/* n words in the order of their upper halves, equal ones as they came: few by insertion, more byte by byte from the
** lowest on; a byte that all share costs nothing. Gives where they then lie. */
TY_SPARE uint64_t *ty_radix(uint64_t *from, uint64_t *to, int64_t n) {
  uint32_t count[4][256] = {{0}};
  if (n <= 32) {
    for (int64_t i = 1, j; i < n; i++) {
      const uint64_t w = from[i];
      for (j = i; j > 0 && w < from[j - 1]; j--) from[j] = from[j - 1];
      from[j] = w;
    }
    return from;
  }
  for (int64_t i = 0; i < n; i++) {
    const uint32_t k = (uint32_t)(from[i] >> 32);
    count[0][k & 255]++, count[1][k >> 8 & 255]++, count[2][k >> 16 & 255]++, count[3][k >> 24]++;
  }
  for (int b = 0; b < 4; b++) {
    const int shift = 32 + 8 * b;
    if (count[b][from[0] >> shift & 255] == n) continue;
    ty_radix_byte(from, to, n, count[b], shift);
    uint64_t *const t = from;
    from = to, to = t;
  }
  return from;
}
]=])

prelude.piece("sort_wide", { "radix" }, [=[
/* The same of keys of 64 bits: by the upper half, then what is equal there by insertion; where that is much, by the
** lower half before. */
static uint64_t *ty_sort_wide(const uint64_t *key, uint64_t *word, uint64_t *other, int64_t n) {
  uint64_t upper = 0;
  for (int64_t i = 0; i < n; i++) upper |= (key[i] ^ key[0]) >> 32;
  if (upper) {
    int64_t run = 0, i = 1;
    for (int64_t k = 0; k < n; k++) word[k] = (key[k] >> 32) << 32 | (uint64_t)k;
    uint64_t *y = ty_radix(word, other, n);
    for (; i < n && run < 32; i++) run = (y[i] ^ y[i - 1]) >> 32 ? 0 : run + 1;
    if (run < 32) {
      for (i = 1; i < n; i++) {
        const uint64_t w = y[i], k = key[(uint32_t)w];
        int64_t j = i;
        for (; j > 0 && !((w ^ y[j - 1]) >> 32) && key[(uint32_t)y[j - 1]] > k; j--) y[j] = y[j - 1];
        y[j] = w;
      }
      return y;
    }
  }
  for (int64_t k = 0; k < n; k++) word[k] = key[k] << 32 | (uint64_t)k;
  uint64_t *y = ty_radix(word, other, n);
  if (!upper) return y;
  for (int64_t k = 0; k < n; k++) y[k] = (key[(uint32_t)y[k]] >> 32) << 32 | (uint32_t)y[k];
  return ty_radix(y, y == word ? other : word, n);
}
]=])

for _, K in ipairs { "32", "64" } do
  prelude.piece("best_" .. K, {}, (gsub([=[
/* The least `keep` of the keys so far, in order, at[]: where they stand: n more come, from `first` on. Gives how many
** there are now. */
static int64_t ty_best_@K(uint@K_t *restrict best, int64_t *restrict at, int64_t keep, int64_t have,
                         const uint@K_t *restrict key, int64_t n, int64_t first) {
  for (int64_t i = 0, end; i < n;) {
    end = i + 1;
    if (have == keep && n - i >= 32) {
      const uint@K_t last = best[keep - 1];
      uint@K_t less = 0;
      for (int j = 0; j < 32; j++) less |= (uint@K_t)(key[i + j] < last);
      end = i + 32;
      if (!less) i = end;
    }
    for (; i < end; i++) {
      int64_t j = have < keep ? have++ : keep;
      if (j == keep && key[i] >= best[--j]) continue;
      for (; j > 0 && key[i] < best[j - 1]; j--) best[j] = best[j - 1], at[j] = at[j - 1];
      best[j] = key[i], at[j] = first + i;
    }
  }
  return have;
}
]=], "@K", K)))
end

--- Comparators that sort n elements, a power of two: Batcher's merges of odd and even ones.
local function comparators(n)
  local out = {}
  local function add(i, j) out[#out + 1] = format("  ty_meet(v + %d, v + %d);\n", i, j) end
  local function merge(from, count, step)
    local next_step = step * 2
    if next_step >= count then return add(from, from + step) end
    merge(from, count, next_step)
    merge(from + step, count, next_step)
    for i = from + step, from + count - 1 - step, next_step do add(i, i + step) end
  end
  local function sort(from, count)
    if count < 2 then return end
    sort(from, count / 2)
    sort(from + count / 2, count / 2)
    merge(from, count, 1)
  end
  sort(0, n)
  return concat(out)
end

--- Comparators at distances from d down to 1 of n elements.
local function cleaning(n, d)
  local out = {}
  while d >= 1 do
    for i = 0, n - 1 do
      if math.floor(i / d) % 2 == 0 then out[#out + 1] = format("  ty_meet(v + %d, v + %d);\n", i, i + d) end
    end
    d = d / 2
  end
  return concat(out)
end

prelude.piece("columns", {}, (gsub([=[
#if defined(__AVX512F__)
#define TY_COLUMNS 1
#include <immintrin.h>
/* Eight rows of n words side by side, row k at k, k + 8, k + 16 ...; n is a multiple of 8. Blocks of p sorted elements
** come of two of p / 2: first i meets p - 1 - i, then halves are cleaned at distances p / 4, p / 8 ... 1. Two distances
** go in one pass over memory, those within 16 elements in registers. What lies behind the end would be the largest, so
** comparators with it are left out. */
TY_INLINE void ty_meet(__m512i *a, __m512i *b) {
  const __m512i low = _mm512_min_epu64(*a, *b);
  *b = _mm512_max_epu64(*a, *b), *a = low;
}
TY_INLINE __m512i ty_get(const uint64_t *x, int64_t i) { return _mm512_loadu_si512((const void *)(x + 8 * i)); }
TY_INLINE void ty_put(uint64_t *x, int64_t i, __m512i v) { _mm512_storeu_si512((void *)(x + 8 * i), v); }
TY_INLINE void ty_meet_at(uint64_t *x, int64_t i, int64_t j) {
  __m512i a = ty_get(x, i), b = ty_get(x, j);
  ty_meet(&a, &b), ty_put(x, i, a), ty_put(x, j, b);
}
TY_INLINE void ty_meet_four(uint64_t *x, int64_t i, int64_t j, int64_t k, int64_t l, int crossed) {
  __m512i a = ty_get(x, i), b = ty_get(x, j), c = ty_get(x, k), d = ty_get(x, l);
  if (crossed) ty_meet(&a, &d), ty_meet(&b, &c);
  else ty_meet(&a, &c), ty_meet(&b, &d);
  ty_meet(&a, &b), ty_meet(&c, &d);
  ty_put(x, i, a), ty_put(x, j, b), ty_put(x, k, c), ty_put(x, l, d);
}
static void ty_sort_8(uint64_t *x) {
  __m512i v[8];
  for (int i = 0; i < 8; i++) v[i] = ty_get(x, i);
@A  for (int i = 0; i < 8; i++) ty_put(x, i, v[i]);
}
static void ty_sort_16(uint64_t *x) {
  __m512i v[16];
  for (int i = 0; i < 16; i++) v[i] = ty_get(x, i);
@B  for (int i = 0; i < 16; i++) ty_put(x, i, v[i]);
}
static void ty_clean_8(uint64_t *x) {
  __m512i v[8];
  for (int i = 0; i < 8; i++) v[i] = ty_get(x, i);
@C  for (int i = 0; i < 8; i++) ty_put(x, i, v[i]);
}
static void ty_clean_16(uint64_t *x) {
  __m512i v[16];
  for (int i = 0; i < 16; i++) v[i] = ty_get(x, i);
@D  for (int i = 0; i < 16; i++) ty_put(x, i, v[i]);
}
static void ty_clean(uint64_t *x, int64_t n, int64_t d) {
  for (int64_t b = 0; b < n; b += 2 * d)
    for (int64_t i = b; i < b + d && i + d < n; i++) ty_meet_at(x, i, i + d);
}
static void ty_columns(uint64_t *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16)
    if (n - i >= 16) ty_sort_16(x + 8 * i);
    else ty_sort_8(x + 8 * i);
  for (int64_t p = 32; p < 2 * n; p *= 2) {
    int64_t d = p / 4, b = 0;
    for (; b + p <= n; b += p)
      for (int64_t i = b, j = b + p - 1; i < b + d; i++, j--) ty_meet_four(x, i, i + d, j - d, j, 1);
    for (int64_t i = b + p - n > 0 ? b + p - n : 0; i < p / 2; i++) ty_meet_at(x, b + i, b + p - 1 - i);
    ty_clean(x + 8 * b, n - b, d);
    for (d /= 2; d >= 16; d /= 4) {
      for (b = 0; b + 2 * d <= n; b += 2 * d)
        for (int64_t i = b, q = d / 2; i < b + q; i++) ty_meet_four(x, i, i + q, i + d, i + d + q, 0);
      ty_clean(x + 8 * b, n - b, d), ty_clean(x + 8 * b, n - b, d / 2);
    }
    for (int64_t i = 0; i < n; i += 16) {
      if (d < 8) ty_clean_8(x + 8 * i);
      if (d < 8 && n - i >= 16) ty_clean_8(x + 8 * i + 64);
      if (d >= 8 && n - i >= 16) ty_clean_16(x + 8 * i);
      else if (d >= 8) ty_clean_8(x + 8 * i);
    }
  }
}
#endif
]=], "@(%u)", { A = comparators(8), B = comparators(16), C = cleaning(8, 4), D = cleaning(16, 8) })))

-- Steps ---------------------------------------------------------------------------------------------------------------

local LANES, COLUMNS_MOST, FEW_KEPT, KEPT_SHARE = 8, 4096, 32, 8

local function product_from(list, from, to)
  local n = 1
  for d = from, to do n = n * list[d] end
  return n
end

--- A sort on its way: what it works on, and texts of it.
local function sort_of(s, kit)
  local node, x = s.node, s.node.operands[1]
  local d, rank = node.k + 1, #x.shape
  local y = { from = kit.slot(s.slots[1], x.dtype), to = kit.slot(s.slots[2], "i64"), dtype = x.dtype,
    n = x.shape[d], keep = node.shape[d], outer = product_from(x.shape, 1, d - 1),
    inner = product_from(x.shape, d + 1, rank), wide = primitives.bytes[x.dtype] == 8 }
  y.key = y.wide and "uint64_t" or "uint32_t"
  y.flip = node.k2 ~= 0 and (y.wide and " ^ ~UINT64_C(0)" or " ^ 0xffffffffu") or ""
  --- The key of element j of row r, as texts.
  function y:key_at(r, j)
    local at = self.inner == 1 and format("%s * %s + %s", r, text(self.n), j)
      or format("(%s / %s * %s + %s) * %s + %s %% %s", r, text(self.inner), text(self.n), j, text(self.inner), r,
        text(self.inner))
    return format("(ty_key_%s(%s[%s])%s)", self.dtype, self.from, at, self.flip)
  end
  --- Where the position of row r that stands at j goes.
  function y:place(r, j)
    if self.inner == 1 then return format("%s[%s * %s + %s]", self.to, r, text(self.keep), j) end
    return format("%s[(%s / %s * %s + %s) * %s + %s %% %s]", self.to, r, text(self.inner), text(self.keep), j,
      text(self.inner), r, text(self.inner))
  end
  return y
end

--- Rows of which few are kept. Gives the bytes of scratch.
local function sort_best(q, kit)
  local K = q.wide and "64" or "32"
  kit.use("best_" .. K)
  kit.add("int64_t at[%d];", max(q.keep, 1))
  kit.add("%s best[%d], key[256];", q.key, max(q.keep, 1))
  kit.add("for (int64_t r = 0; r < %s; r++) {", text(q.outer * q.inner))
  kit.add "  int64_t have = 0;"
  kit.add("  for (int64_t first = 0; first < %s; first += 256) {", text(q.n))
  kit.add("    const int64_t n = %s - first < 256 ? %s - first : 256;", text(q.n), text(q.n))
  kit.add("    for (int64_t j = 0; j < n; j++) key[j] = %s;", q:key_at("r", "first + j"))
  kit.add("    have = ty_best_%s(best, at, %s, have, key, n, first);", K, text(q.keep))
  kit.add "  }"
  kit.add("  for (int64_t j = 0; j < %s; j++) %s = at[j];", text(q.keep), q:place("r", "j"))
  kit.add "}"
  return 0
end

--- Rows side by side, where the compiler has what that takes. Gives the bytes of scratch.
local function sort_columns(q, kit)
  local whole, rows = q.n + -q.n % LANES, text(q.outer * q.inner)
  kit.use "columns"
  kit.add "#ifdef TY_COLUMNS"
  kit.add "uint64_t *restrict word = (uint64_t *)(void *)room;"
  kit.add("for (int64_t r0 = 0; r0 < %s; r0 += %d) {", rows, LANES)
  kit.add("  const int rows = %s - r0 < %d ? (int)(%s - r0) : %d;", rows, LANES, rows, LANES)
  kit.add("  for (int64_t j0 = 0; j0 < %d; j0 += 32) {", whole)
  kit.add("    uint64_t block[%d][32];", LANES)
  kit.add("    const int n = %d - j0 < 32 ? (int)(%d - j0) : 32;", q.n, q.n)
  kit.add("    for (int k = 0; k < %d; k++) {", LANES)
  kit.add "      const int64_t r = r0 + (k < rows ? k : 0);"
  kit.add("      for (int j = 0; j < n; j++) block[k][j] = (uint64_t)%s << 32 | (uint64_t)(j0 + j);",
    q:key_at("r", "j0 + j"))
  kit.add "      for (int j = n; j < 32; j++) block[k][j] = ~UINT64_C(0);"
  kit.add "    }"
  kit.add("    for (int j = 0; j < 32 && j0 + j < %d; j++)", whole)
  kit.add("      for (int k = 0; k < %d; k++) word[(j0 + j) * %d + k] = block[k][j];", LANES, LANES)
  kit.add "  }"
  kit.add("  ty_columns(word, %d);", whole)
  kit.add "  for (int k = 0; k < rows; k++)"
  kit.add("    for (int64_t j = 0, r = r0 + k; j < %s; j++) %s = (int64_t)(uint32_t)word[j * %d + k];", text(q.keep),
    q:place("r", "j"), LANES)
  kit.add "}"
  kit.add "#else"
  return whole * LANES * 8
end

--- Rows one by one. Gives the bytes of scratch.
local function sort_rows(q, kit)
  local n = text(q.n)
  kit.add("uint64_t *restrict word = (uint64_t *)(void *)room, *restrict other = word + %s;", n)
  if q.wide then kit.add("uint64_t *restrict key = other + %s;", n) end
  kit.use(q.wide and "sort_wide" or "radix")
  kit.add("for (int64_t r = 0; r < %s; r++) {", text(q.outer * q.inner))
  kit.add("  for (int64_t j = 0; j < %s; j++) %s;", n, q.wide and format("key[j] = %s", q:key_at("r", "j"))
    or format("word[j] = (uint64_t)%s << 32 | (uint64_t)j", q:key_at("r", "j")))
  kit.add("  const uint64_t *const sorted = %s;", q.wide and format("ty_sort_wide(key, word, other, %s)", n)
    or format("ty_radix(word, other, %s)", n))
  kit.add("  for (int64_t j = 0; j < %s; j++) %s = (int64_t)(uint32_t)sorted[j];", text(q.keep), q:place("r", "j"))
  kit.add "}"
  return q.n * (q.wide and 24 or 16)
end

function M.sort(s, kit)
  local q = sort_of(s, kit)
  local rows = q.outer * q.inner
  kit.use("key_" .. q.dtype)
  if type(q.n) == "number" and q.n >= 2 ^ 32 then kit.refuse "rows of 2^32 elements" end
  if type(q.n) == "number" and type(q.keep) == "number" and q.keep <= FEW_KEPT and q.keep * KEPT_SHARE <= q.n then
    return sort_best(q, kit)
  end
  local columns = not q.wide and at_most(q.n, COLUMNS_MOST) and not at_most(rows, 2)
  local room = columns and sort_columns(q, kit) or 0
  room = sizes.larger(room, sort_rows(q, kit))
  if columns then kit.add "#endif" end
  return kit.aligned(room)
end

--- Four values at a time: what is found does not decide about branches, nor how many steps there are.
function M.search(s, kit)
  local node = s.node
  local sorted, values = node.operands[1], node.operands[2]
  local row, v = kit.slot(s.slots[1], sorted.dtype), kit.slot(s.slots[2], values.dtype)
  local y = kit.slot(s.slots[3], "i64")
  local n, m = text(sorted.shape[#sorted.shape]), text(values.shape[#values.shape])
  local key = primitives.bytes[sorted.dtype] == 8 and "uint64_t" or "uint32_t"
  kit.use("key_" .. sorted.dtype)
  kit.add("for (int64_t o = 0; o < %s; o++)", text(product_from(values.shape, 1, #values.shape - 1)))
  kit.add("  for (int64_t i = 0; i < %s; i += 4) {", m)
  kit.add("    const int some = %s - i < 4 ? (int)(%s - i) : 4;", m, m)
  kit.add("    int64_t low[4] = {0, 0, 0, 0};")
  kit.add("    %s key[4];", key)
  kit.add("    for (int k = 0; k < 4; k++) key[k] = ty_key_%s(%s[o * %s + i + (k < some ? k : 0)]);", sorted.dtype,
    v, m)
  kit.add("    for (int64_t n = %s, half; n > 0; n -= half) {", n)
  kit.add("      half = (n + 1) >> 1;")
  kit.add("      for (int k = 0; k < 4; k++)")
  kit.add("        low[k] += half & -(int64_t)(ty_key_%s(%s[o * %s + low[k] + half - 1]) %s key[k]);", sorted.dtype,
    row, n, node.k == 1 and "<=" or "<")
  kit.add "    }"
  kit.add("    for (int k = 0; k < some; k++) %s[o * %s + i + k] = low[k];", y, m)
  kit.add "  }"
  return 0
end

return M
