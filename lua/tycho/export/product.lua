--- export/product.lua -- matrix products in the canonical order, as C.
-- In: the job of a step. Out: lines of its function; pieces of the prelude that hold the algorithms.
--
-- The order is gemm.c's: k in blocks of 256, in a block fma over ascending k from +0, blocks added ascending; one
-- column goes by lanes. Tiles of rows by two vectors keep their sums in registers, where the compiler knows vectors
-- with fma; elsewhere the same loops go number by number. What tiles cannot read where it lies is copied to scratch
-- first: halves, columns that are no neighbours, windows over images.

require "tycho.export.sums"
local prelude = require "tycho.export.prelude"
local primitives = require "tycho.export.primitives"
local program = require "tycho.export.program"
local sizes = require "tycho.export.sizes"

local format, gsub, concat, ipairs = string.format, string.gsub, table.concat, ipairs
local text, sum_text = sizes.text, program.sum_text

local M = {}

-- Vectors -------------------------------------------------------------------------------------------------------------

--- @M and @P: how x86 names the type; @N @H @L: elements of a vector of AVX-512, AVX2, NEON; @A: NEON's type.
local VECTORS = [[
#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512@M ty_v_@S;
enum { ty_w_@S = @N, ty_rows_@S = 8 };
#define ty_load_@S(p) _mm512_loadu_@P(p)
#define ty_store_@S(p, v) _mm512_storeu_@P(p, v)
#define ty_all_@S(x) _mm512_set1_@P(x)
#define ty_vfma_@S(a, b, c) _mm512_fmadd_@P(a, b, c)
#define ty_vadd_@S(a, b) _mm512_add_@P(a, b)
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
typedef __m256@M ty_v_@S;
enum { ty_w_@S = @H, ty_rows_@S = 6 };
#define ty_load_@S(p) _mm256_loadu_@P(p)
#define ty_store_@S(p, v) _mm256_storeu_@P(p, v)
#define ty_all_@S(x) _mm256_set1_@P(x)
#define ty_vfma_@S(a, b, c) _mm256_fmadd_@P(a, b, c)
#define ty_vadd_@S(a, b) _mm256_add_@P(a, b)
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
typedef @A ty_v_@S;
enum { ty_w_@S = @L, ty_rows_@S = 8 };
#define ty_load_@S(p) vld1q_@S(p)
#define ty_store_@S(p, v) vst1q_@S(p, v)
#define ty_all_@S(x) vdupq_n_@S(x)
#define ty_vfma_@S(a, b, c) vfmaq_@S(c, a, b)
#define ty_vadd_@S(a, b) vaddq_@S(a, b)
#else
]]

--- plain: what stands for a vector elsewhere.
local function vectors(type, names, plain)
  local code = VECTORS:gsub("@(%u)", names)
  prelude.piece("vectors_" .. type, { "fma_" .. type }, code .. plain .. "#endif\n")
end

vectors("f32", { S = "f32", M = "", P = "ps", N = 16, H = 8, L = 4, A = "float32x4_t" }, [[
typedef struct ty_v_f32 {
  float x[4];
} ty_v_f32;
enum { ty_w_f32 = 4, ty_rows_f32 = 2 };
TY_INLINE ty_v_f32 ty_load_f32(const float *p) { return (ty_v_f32){{p[0], p[1], p[2], p[3]}}; }
TY_INLINE void ty_store_f32(float *p, ty_v_f32 v) {
  for (int j = 0; j < 4; j++) p[j] = v.x[j];
}
TY_INLINE ty_v_f32 ty_all_f32(float x) { return (ty_v_f32){{x, x, x, x}}; }
TY_INLINE ty_v_f32 ty_vfma_f32(ty_v_f32 a, ty_v_f32 b, ty_v_f32 c) {
  for (int j = 0; j < 4; j++) c.x[j] = ty_fma_f32(a.x[j], b.x[j], c.x[j]);
  return c;
}
TY_INLINE ty_v_f32 ty_vadd_f32(ty_v_f32 a, ty_v_f32 b) {
  for (int j = 0; j < 4; j++) a.x[j] = a.x[j] + b.x[j];
  return a;
}
]])

vectors("f64", { S = "f64", M = "d", P = "pd", N = 8, H = 4, L = 2, A = "float64x2_t" }, [[
typedef double ty_v_f64;
enum { ty_w_f64 = 1, ty_rows_f64 = 2 };
#define ty_load_f64(p) (*(p))
#define ty_store_f64(p, v) (*(p) = (v))
#define ty_all_f64(x) (x)
#define ty_vfma_f64(a, b, c) ty_fma_f64(a, b, c)
#define ty_vadd_f64(a, b) ((a) + (b))
]])

-- Tiles ---------------------------------------------------------------------------------------------------------------

local FLOATS = prelude.FLOATS

prelude.family("product_@S", FLOATS, { "vectors_@S" }, [[
/* Sums of `rows` rows by `vectors` vectors over one block of k; later blocks are added to what is there. */
TY_INLINE void ty_block_@S(const int rows, const int vectors, int64_t k, const @T *a, int64_t ars, int64_t acs,
                           const @T *b, int64_t brs, @T *y, int64_t yrs, int adds) {
  ty_v_@S s[8][8];
  TY_UNROLL
  for (int i = 0; i < rows; i++)
    TY_UNROLL
    for (int j = 0; j < vectors; j++) s[i][j] = ty_all_@S(0);
  for (int64_t p = 0; p < k; p++) {
    ty_v_@S x[8];
    TY_UNROLL
    for (int j = 0; j < vectors; j++) x[j] = ty_load_@S(b + p * brs + j * ty_w_@S);
    TY_UNROLL
    for (int i = 0; i < rows; i++) {
      const ty_v_@S z = ty_all_@S(a[i * ars + p * acs]);
      TY_UNROLL
      for (int j = 0; j < vectors; j++) s[i][j] = ty_vfma_@S(z, x[j], s[i][j]);
    }
  }
  TY_UNROLL
  for (int i = 0; i < rows; i++)
    TY_UNROLL
    for (int j = 0; j < vectors; j++) {
      @T *to = y + i * yrs + j * ty_w_@S;
      ty_store_@S(to, adds ? ty_vadd_@S(ty_load_@S(to), s[i][j]) : s[i][j]);
    }
}
/* The same by as many vectors as there are, rows by rows. */
TY_INLINE void ty_panel_@S(const int vectors, const int most, int64_t m, int64_t k, const @T *a, int64_t ars,
                           int64_t acs, const @T *b, int64_t brs, @T *y, int64_t yrs) {
  for (int64_t p = 0; p < k; p += 256) {
    const int64_t n = k - p < 256 ? k - p : 256;
    const @T *q = b + p * brs;
    int64_t i = 0;
    for (; m - i >= most; i += most)
      ty_block_@S(most, vectors, n, a + i * ars + p * acs, ars, acs, q, brs, y + i * yrs, yrs, p > 0);
    for (; most > 4 && m - i >= 4; i += 4)
      ty_block_@S(4, vectors, n, a + i * ars + p * acs, ars, acs, q, brs, y + i * yrs, yrs, p > 0);
    for (; most > 2 && m - i >= 2; i += 2)
      ty_block_@S(2, vectors, n, a + i * ars + p * acs, ars, acs, q, brs, y + i * yrs, yrs, p > 0);
    for (; m - i >= 1; i++)
      ty_block_@S(1, vectors, n, a + i * ars + p * acs, ars, acs, q, brs, y + i * yrs, yrs, p > 0);
  }
}
enum { ty_panel_columns_@S = 2 * ty_w_@S };
/* y[m, n] = a[m, k] b[k, n]; y's rows are yrs apart. room: k + 8 rows of a panel's columns. */
static void ty_product_@S(int64_t m, int64_t n, int64_t k, const @T *a, int64_t ars, int64_t acs, const @T *b,
                          int64_t brs, int64_t bcs, @T *restrict y, int64_t yrs, @T *restrict room) {
  enum { w = ty_w_@S, nr = 2 * ty_w_@S };
  int64_t j = 0;
  if (k == 0) {
    for (int64_t i = 0; i < m; i++)
      for (j = 0; j < n; j++) y[i * yrs + j] = 0;
    return;
  }
  if (bcs == 1 && m == 1)
    for (; n - j >= 8 * w; j += 8 * w) ty_panel_@S(8, 1, m, k, a, ars, acs, b + j, brs, y + j, yrs);
  if (bcs == 1 && m <= 3)
    for (; n - j >= 4 * w; j += 4 * w) ty_panel_@S(4, 2, m, k, a, ars, acs, b + j, brs, y + j, yrs);
  for (; j < n; j += nr) {
    const int c = n - j < nr ? (int)(n - j) : nr;
    const @T *q = b + j * bcs;
    int64_t qrs = brs;
    const int far = m > 2 * ty_rows_@S && k * brs > 4096; /* rows of b that leave the first cache */
    if (bcs != 1 || c < nr || far) {
      @T *restrict to = room;
      for (int64_t p = 0; p < k; p++, to += nr)
        if (bcs == 1 && c == nr)
          for (int x = 0; x < nr; x++) to[x] = q[p * brs + x];
        else
          for (int x = 0; x < nr; x++) to[x] = x < c ? q[p * brs + x * bcs] : 0;
      q = room, qrs = nr;
    }
    if (c == nr) {
      ty_panel_@S(2, ty_rows_@S, m, k, a, ars, acs, q, qrs, y + j, yrs);
      continue;
    }
    @T *tile = room + k * nr;
    for (int64_t i = 0; i < m; i += ty_rows_@S) {
      const int64_t rows = m - i < ty_rows_@S ? m - i : ty_rows_@S;
      ty_panel_@S(2, ty_rows_@S, rows, k, a + i * ars, ars, acs, q, qrs, tile, nr);
      for (int64_t r = 0; r < rows; r++)
        for (int x = 0; x < c; x++) y[(i + r) * yrs + j + x] = tile[r * nr + x];
    }
  }
}
]])

for _, f in ipairs(FLOATS) do
  prelude.piece("column_" .. f.S, { "fma_" .. f.S }, (gsub([[
enum { ty_lanes_@S = @L };
TY_INLINE void ty_join_@S(@T *restrict acc, const @T *restrict by) {
  for (int j = 0; j < ty_lanes_@S; j++) acc[j] = by[j] + acc[j];
}
/* One column: lanes within blocks of 4096, a tree of blocks. */
static @T ty_column_@S(int64_t k, const @T *a, int64_t as, const @T *b, int64_t bs) {
  @T acc[ty_lanes_@S], wait[24][ty_lanes_@S];
  int64_t c = 0;
  for (int64_t p = 0; p < k; p += 4096, c++) {
    const int64_t end = k - p < 4096 ? k : p + 4096;
    for (int j = 0; j < ty_lanes_@S; j++) acc[j] = 0;
    int64_t r = p;
    if (as == 1 && bs == 1)
      for (; end - r >= ty_lanes_@S; r += ty_lanes_@S)
        for (int j = 0; j < ty_lanes_@S; j++) acc[j] = ty_fma_@S(a[r + j], b[r + j], acc[j]);
    for (; r < end; r += ty_lanes_@S) {
      const int n = end - r < ty_lanes_@S ? (int)(end - r) : ty_lanes_@S;
      for (int j = 0; j < n; j++) acc[j] = ty_fma_@S(a[(r + j) * as], b[(r + j) * bs], acc[j]);
    }
    const int last = end == k;
    int level = 0;
    for (; last ? c >> level : c >> level & 1; level++)
      if (c >> level & 1) ty_join_@S(acc, wait[level]);
    for (int j = 0; !last && j < ty_lanes_@S; j++) wait[level][j] = acc[j];
  }
  for (int s = ty_lanes_@S / 2; s; s /= 2)
    for (int j = 0; j < s; j++) acc[j] = acc[j] + acc[j + s];
  return acc[0];
}
]], "@(%w)", { T = f.T, S = f.S, L = f.S == "f32" and "64" or "32" })))
end

-- Whole numbers wrap, in any order.
for _, i in ipairs(prelude.INTS) do
  prelude.piece("product_" .. i.S, {}, (gsub([[
static void ty_product_@S(int64_t m, int64_t n, int64_t k, const @T *a, int64_t ars, int64_t acs, const @T *b,
                          int64_t brs, int64_t bcs, @T *restrict y, int64_t yrs) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) y[i * yrs + j] = 0;
    for (int64_t p = 0; p < k; p++) {
      const @U x = (@U)a[i * ars + p * acs];
      for (int64_t j = 0; j < n; j++) y[i * yrs + j] = (@T)((@U)y[i * yrs + j] + x * (@U)b[p * brs + j * bcs]);
    }
  }
}
]], "@(%w)", i)))
end

-- Steps ---------------------------------------------------------------------------------------------------------------

local CHUNK = 512 -- rows or columns of windows over an image that are copied at a time

--- Declares where position `at` of a path lies: name .. "o", and its border indices, name .. "b1" ...; the last of the
--- dims is left to `but` where that is given.
local function walk(add, im, path, at, name, but)
  local rest, most = at, #path.dims - (but and 1 or 0)
  for d = most, 1, -1 do
    add("const int64_t %s%d = %s;", name, d, d == 1 and rest or format("%s %% %s", rest, text(path.dims[d])))
    rest = format("%s / %s", rest:find "/" and "(" .. rest .. ")" or rest, text(path.dims[d]))
  end
  local function sum(by)
    local out = {}
    for d = 1, most do
      if by[d] ~= 0 then out[#out + 1] = format("%s%d * %s", name, d, text(by[d])) end
    end
    return #out > 0 and concat(out, " + ") or "0"
  end
  for d = 1, most do add("(void)%s%d;", name, d) end
  add("const int64_t %so = %s;", name, sum(path.strides))
  for b = 1, #im.extent do add("const int64_t %sb%d = %s;", name, b, sum(path.steps[b])) end
end

--- Whether windows over an image can be copied line by line: along the last dim borders are met in order.
local function has_lines(im)
  local n = #im.col.dims
  for b = 1, #im.extent do
    if type(im.col.steps[b][n]) ~= "number" or im.col.steps[b][n] < 0 then return false end
  end
  return n > 0
end

--- Columns of a window's element, line by line of the image: zeros, what is inside, zeros.
local function copy_lines(add, im, value, from, to, cols, pitch)
  local n = #im.col.dims
  local width, stride = text(im.col.dims[n]), im.col.strides[n]
  add("for (int64_t j = 0; j < %s;) {", text(cols.n))
  add("const int64_t g = %s, first = g %% %s, line = g / %s;",
    cols.first and format("j + %s", cols.first) or "j", width, width)
  add("const int64_t end = %s - first < %s - j ? %s : first + %s - j;", width, text(cols.n), width, text(cols.n))
  add("int64_t in = first, out = end;")
  add("(void)line;")
  walk(add, im, im.col, "line", "c", true)
  for b = 1, #im.extent do
    local step = im.col.steps[b][n]
    add("const int64_t d%d = %s + rb%d + cb%d;", b, text(im.start[b]), b, b)
    if step == 0 then
      add("if (d%d < 0 || d%d >= %s) out = in;", b, b, text(im.extent[b]))
    else
      add("const int64_t e%d = d%d < 0 ? (-d%d + %d) / %d : 0;", b, b, b, step - 1, step)
      add("const int64_t f%d = d%d < %s ? (%s - d%d + %d) / %d : 0;", b, b, text(im.extent[b]), text(im.extent[b]), b,
        step - 1, step)
      add("in = in < e%d ? e%d : in, out = out > f%d ? f%d : out;", b, b, b, b)
    end
  end
  add("in = in < end ? in : end, out = out < in ? in : out;")
  add("%s *restrict line_to = %s + i * %s + j - first;", "ty_element", to, pitch)
  add("for (int64_t x = first; x < in; x++) line_to[x] = 0;")
  add("for (int64_t x = in; x < out; x++) line_to[x] = %s;", format(value, from, stride == 1 and "ro + co + x"
    or format("ro + co + x * %s", text(stride))))
  add("for (int64_t x = out; x < end; x++) line_to[x] = 0;")
  add "j += end - first;"
  add "}"
end

--- Lines that copy elements of an operand to scratch, row-major with rows `pitch` apart, in the compute type.
--- rows, cols: {n =, stride =}, or of windows over an image `first`, the text of the first one's position.
local function copy_matrix(add, g, which, from, to, rows, cols, pitch, use)
  local value = primitives.loaded(g.dtype, "%s[%s]", use)
  local im = g[which .. "_im2col"]
  if not im then
    add("for (int64_t i = 0; i < %s; i++)", text(rows.n))
    add("  for (int64_t j = 0; j < %s; j++) %s[i * %s + j] = %s;", text(cols.n), to, pitch,
      format(value, from, sum_text(format("i * %s", text(rows.stride)), format("j * %s", text(cols.stride)))))
    return
  end
  add("for (int64_t i = 0; i < %s; i++) {", text(rows.n))
  walk(add, im, im.row, rows.first and format("(i + %s)", rows.first) or "i", "r")
  if has_lines(im) then
    copy_lines(add, im, value, from, to, cols, pitch)
    add "}"
    return
  end
  add("for (int64_t j = 0; j < %s; j++) {", text(cols.n))
  walk(add, im, im.col, cols.first and format("(j + %s)", cols.first) or "j", "c")
  local inside = {}
  for b = 1, #im.extent do
    inside[b] = format("(uint64_t)(%s + rb%d + cb%d) < (uint64_t)%s", text(im.start[b]), b, b, text(im.extent[b]))
  end
  local read = format(value, from, "ro + co")
  add("%s[i * %s + j] = %s;", to, pitch, #inside > 0 and format("%s ? %s : 0", concat(inside, " && "), read) or read)
  add "}"
  add "}"
end

--- Adds the lines of a product. add(format, ...), a and b: names of pointers, y of where it goes, whose elements are of
--- dtype `to`; scratch: the name of the pointer to it. Gives the bytes of scratch.
function M.lines(add, g, a, b, y, use, aligned, scratch)
  local kind = primitives.computed[g.dtype]
  local narrow, float = kind ~= g.dtype, kind == "f32" or kind == "f64"
  local ctype, bytes = primitives.ctype[kind], primitives.bytes[kind]
  local room = 0
  local function take(name, n)
    add("%s *restrict %s = (%s *)(void *)(%s + %s);", ctype, name, ctype, scratch, text(room))
    room = room + aligned(n * bytes)
  end
  if g.a_im2col or g.b_im2col then add("typedef %s ty_element;", ctype) end
  if float and (g.n == 1 or sizes.is_poly(g.n)) then use("column_" .. kind) end
  if not float or g.n ~= 1 then use("product_" .. kind) end
  if float and g.n ~= 1 then take("panel", (g.k + 8) * 32) end
  local copies_a, copies_b = narrow or g.a_im2col ~= nil, narrow or g.b_im2col ~= nil
  local rows, cols = g.m, g.n
  if g.a_im2col then rows = type(g.m) == "number" and math.min(g.m, CHUNK) or CHUNK end
  if g.b_im2col then cols = type(g.n) == "number" and math.min(g.n, CHUNK) or CHUNK end
  if copies_a then take("ca", rows * g.k) end
  if copies_b then take("cb", cols * g.k) end
  if narrow then take("cy", rows * cols) end
  local depth = #g.lead
  local ao, bo, yo = {}, {}, {}
  if g.start[1] ~= 0 then ao[1] = text(sizes.divide(g.start[1], primitives.bytes[g.dtype])) end
  if g.start[2] ~= 0 then bo[1] = text(sizes.divide(g.start[2], primitives.bytes[g.dtype])) end
  local at = "0"
  for d = 1, depth do
    add("for (int64_t l%d = 0; l%d < %s; l%d++) {", d, d, text(g.lead[d]), d)
    if g.abs[d] ~= 0 then ao[#ao + 1] = format("l%d * %s", d, text(g.abs[d])) end
    if g.bbs[d] ~= 0 then bo[#bo + 1] = format("l%d * %s", d, text(g.bbs[d])) end
    at = d == 1 and "l1" or format("(%s * %s + l%d)", at, text(g.lead[d]), d)
  end
  if depth > 0 then yo[1] = format("%s * %s", at, text(g.m * g.n)) end
  local first = "0"
  if g.kstep ~= 0 or g.k0 ~= 0 then first = sum_text(g.k0, g.kstep ~= 0 and format("%s * %s", at, text(g.kstep))) end
  local stored = primitives.stored[g.dtype]
  add("const %s *pa = %s + %s;", stored, a, sum_text(concat(ao, " + ") ~= "" and concat(ao, " + ") or nil))
  add("const %s *pb = %s + %s;", stored, b, sum_text(concat(bo, " + ") ~= "" and concat(bo, " + ") or nil))
  add("%s *py = %s + %s;", narrow and stored or ctype, y, sum_text(yo[1]))
  local m, n, i0, j0 = text(g.m), text(g.n), "0", "0"
  local kfirst = first ~= "0" and first or nil
  if g.a_im2col then
    add("for (int64_t i0 = 0; i0 < %s; i0 += %d) {", m, CHUNK)
    add("const int64_t m = %s - i0 < %d ? %s - i0 : %d;", m, CHUNK, m, CHUNK)
    m, i0 = "m", "i0"
  end
  if copies_a then
    copy_matrix(add, g, "a", "pa", "ca", { n = g.a_im2col and sizes.size "m" or g.m, stride = g.ars,
      first = g.a_im2col and "i0" }, { n = g.k, stride = g.acs, first = kfirst }, text(g.k), use)
  end
  if g.b_im2col then
    add("for (int64_t j0 = 0; j0 < %s; j0 += %d) {", n, CHUNK)
    add("const int64_t n = %s - j0 < %d ? %s - j0 : %d;", n, CHUNK, n, CHUNK)
    n, j0 = "n", "j0"
  end
  if copies_b then
    copy_matrix(add, g, "b", "pb", "cb", { n = g.k, stride = g.brs, first = kfirst },
      { n = g.b_im2col and sizes.size "n" or g.n, stride = g.bcs, first = g.b_im2col and "j0" }, n, use)
  end
  local pa = copies_a and format("ca, %s, 1", text(g.k)) or format("pa, %s, %s", text(g.ars), text(g.acs))
  local pb = copies_b and format("cb, %s, 1", n) or format("pb, %s, %s", text(g.brs), text(g.bcs))
  local to = narrow and format("cy, %s", n) or format("py + %s * %s + %s, %s", i0, text(g.n), j0, text(g.n))
  if float and (g.n == 1 or sizes.is_poly(g.n)) then
    local as = copies_a and text(g.k) or text(g.ars)
    if g.n ~= 1 then add("if (%s == 1)", text(g.n)) end
    add("for (int64_t i = 0; i < %s; i++) %s[i] = ty_column_%s(%s, %s + i * %s, %s, %s, %s);", m,
      narrow and "cy" or format("(py + %s)", i0), kind, text(g.k), copies_a and "ca" or "pa", as,
      copies_a and "1" or text(g.acs), copies_b and "cb" or "pb", copies_b and n or text(g.brs))
    if g.n ~= 1 then add "else" end
  end
  if not float or g.n ~= 1 then
    add("ty_product_%s(%s, %s, %s, %s, %s, %s%s);", kind, m, n, text(g.k), pa, pb, to, float and ", panel" or "")
  end
  if narrow then
    add("for (int64_t i = 0; i < %s; i++)", m)
    add("  for (int64_t j = 0; j < %s; j++) py[(%s + i) * %s + %s + j] = %s;", n, i0, text(g.n), j0,
      primitives.to_store(g.dtype, format("cy[i * %s + j]", n), use))
  end
  if g.b_im2col then add("}") end
  if g.a_im2col then add("}") end
  for _ = 1, depth do add("}") end
  return room
end

return M
