--- export/routines.lua -- steps that are no loop programs, as C: copies, scatters, attention.
-- In: a step and a kit {add(format, ...), use(piece), slot(number, dtype), refuse(what)}. Out: lines of its function;
-- the bytes of scratch that it takes.

local prelude = require "tycho.export.prelude"
local orders = require "tycho.export.orders"
local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, concat, gsub, ipairs, tonumber = string.format, table.concat, string.gsub, ipairs, tonumber
local text = sizes.text

local M = { fft = require("tycho.export.fourier").fft, sort = orders.sort, search = orders.search }

function M.copy(s, kit)
  local node = s.node
  local from, to = kit.slot(s.slots[1], "u8"), kit.slot(s.slots[2], "u8")
  if s.slots[1] == s.slots[2] then return 0 end
  if not node then
    kit.add("for (int64_t i = 0; i < %s; i++) %s[i] = %s[i];", text(s.bytes), to, from)
    return 0
  end
  local size = primitives.bytes[node.dtype]
  local at, by, depth, whole = {}, {}, "", 1
  for d = #node.shape, 1, -1 do
    table.insert(at, 1, format("i%d * %s", d, text(whole * size)))
    whole = whole * node.shape[d]
  end
  for d, n in ipairs(node.shape) do
    kit.add("%sfor (int64_t i%d = 0; i%d < %s; i%d++)", depth, d, d, text(n), d)
    depth = depth .. "  "
    by[d] = format("i%d * %s", d, text(node.strides[d] * size))
  end
  kit.add("%sfor (int b = 0; b < %d; b++) %s[%s + b] = %s[%s + b];", depth, size, to,
    #at > 0 and concat(at, " + ") or "0", from, #by > 0 and concat(by, " + ") or "0")
  return 0
end

local function product_from(list, from, to)
  local n = 1
  for d = from, to do n = n * list[d] end
  return n
end

-- Places --------------------------------------------------------------------------------------------------------------

--- y already holds what is scattered into.
function M.scatter(s, kit)
  local node = s.node
  local into, src = node.operands[1], node.operands[3]
  local at, x, y = kit.slot(s.slots[1], "i64"), kit.slot(s.slots[2], src.dtype), kit.slot(s.slots[3], src.dtype)
  local to, from, places = {}, {}, node.start ~= 0 and { text(sizes.divide(node.start, 8)) } or {}
  local by_to, by_from = 1, 1
  for d = #src.shape, 1, -1 do
    to[d] = d ~= node.k + 1 and format("i%d * %s", d, text(by_to)) or format("at * %s", text(by_to))
    from[d] = format("i%d * %s", d, text(by_from))
    by_to, by_from = by_to * into.shape[d], by_from * src.shape[d]
  end
  local depth = ""
  for d, n in ipairs(src.shape) do
    kit.add("%sfor (int64_t i%d = 0; i%d < %s; i%d++)%s", depth, d, d, text(n), d, d == #src.shape and " {" or "")
    depth = depth .. "  "
    if node.by[d] ~= 0 then places[#places + 1] = format("i%d * %s", d, text(node.by[d])) end
  end
  kit.add("%sconst int64_t at = %s[%s];", depth, at, #places > 0 and concat(places, " + ") or "0")
  kit.add("%s%s *const into = %s + %s;", depth, primitives.stored[src.dtype], y, concat(to, " + "))
  local element = format("%s[%s]", x, concat(from, " + "))
  local value = element
  if s.op == "scatter_add" then
    local kind = primitives.computed[src.dtype]
    local a, b = primitives.loaded(src.dtype, "*into", kit.use), primitives.loaded(src.dtype, element, kit.use)
    if src.dtype == "bool" then value = format("*into || %s", element)
    elseif kind == "i32" or kind == "i64" then
      local u = kind == "i32" and "uint32_t" or "uint64_t"
      value = format("(%s)((%s)%s + (%s)%s)", primitives.stored[src.dtype], u, a, u, b)
    else value = primitives.to_store(src.dtype, format("%s + %s", a, b), kit.use) end
  end
  kit.add("%s*into = %s;", depth, value)
  kit.add "}"
  return 0
end

function M.positions(s, kit)
  local node = s.node
  local index, y = kit.slot(s.slots[1], "i64"), kit.slot(s.slots[2], "i64")
  kit.fails = true
  kit.add("for (int64_t i = 0; i < %s; i++) {", text(product_from(node.shape, 1, #node.shape)))
  kit.add("  const int64_t v = %s[i], at = v < 0 ? v + %s : v - %d;", index, text(tonumber(node.bits, 16)), node.k)
  kit.add("  if (at < 0 || at >= %s) return 1;", text(tonumber(node.bits, 16)))
  kit.add("  %s[i] = at;", y)
  kit.add "}"
  kit.add "return 0;"
  return 0
end

-- Attention -----------------------------------------------------------------------------------------------------------

for _, t in ipairs {
  { S = "f32", T = "float", B = "0x1.8p23f + 127 + 64", U = "0x1p-64f", L = "-0x1.62e430p-1f", R = "0x1.05c610p-29f",
    W = "23", Z = "-104", I = "uint32_t",
    C = { "0.5f", "(float)0.166665196", "(float)0.0416663848", "(float)0.00836884882", "(float)0.00139422144" } },
  { S = "f64", T = "double", B = "0x1.8p52 + 1023 + 512", U = "0x1p-512", L = "-0x1.62e42fefa39efp-1",
    R = "-0x1.abc9e3b39803fp-56", W = "52", Z = "-746", I = "uint64_t",
    C = { "0x1.0000000000007p-1", "0x1.55555555554fbp-3", "0x1.55555555514b6p-5", "0x1.1111111128290p-7",
      "0x1.6c16c1821e6a3p-10", "0x1.a01a012578457p-13", "0x1.a0199e856e37ap-16", "0x1.71df33f25626cp-19",
      "0x1.28aa01afc03a2p-22", "0x1.ad6473426ac4ep-26" } },
} do
  t.H = {} -- Horner's steps one by one: compilers make no vectors of a loop that they have not unrolled
  for i = #t.C - 1, 1, -1 do t.H[#t.H + 1] = format("  y = ty_fma_%s(y, r, %s);\n", t.S, t.C[i]) end
  t.H, t.C = concat(t.H), t.C[#t.C]
  prelude.piece("exponential_" .. t.S, { "fma_" .. t.S, "bits_" .. t.S }, (gsub([[
/* e to a power up to 0. */
TY_INLINE @T ty_exponential_@S(@T a) {
  const @T x = @Z > a ? @Z : a, magic = @B;
  const @T t = ty_fma_@S(x, (@T)(1 / 0x1.62e42fefa39efp-1), magic), n = t - magic;
  const @T r = ty_fma_@S(n, @R, ty_fma_@S(n, @L, x));
  @T y = @C;
@H  y = ty_fma_@S(ty_fma_@S(y, r, 1), r, 1);
  return y * ty_float_@S((@I)(ty_raw_@S(t) << @W)) * @U;
}
]], "@(%w)", t)))
end

prelude.family("attend_@S", prelude.FLOATS, { "product_@S", "exponential_@S", "philox" }, [[
enum { ty_queries_@S = 64, ty_keys_@S = 64 };
typedef struct ty_attend_@S {
  int64_t n, m, d, dv, heads, index, batch;
  const @T *q, *k, *v;
  int64_t qr, qc, kr, kc, vr, vc, mr, mc;
  const @T *mask;
  const uint8_t *seen;
  const int32_t *key;
  int64_t key_step;
  uint32_t drop;
  int causal;
  @T scale;
} ty_attend_@S;
/* One head, queries in blocks. y: [.., n, heads, dv], then the largest scores and the sums of weights. */
static void ty_attend_@S_head(const ty_attend_@S *a, @T *y, @T *room) {
  const int64_t ahead = a->m - a->n, dv = a->dv;
  const int64_t place = a->index / a->heads * a->heads * a->n + a->index % a->heads;
  const @T least = @N;
  @T *qt = room, *s = qt + ty_queries_@S * a->d, *o = s + ty_queries_@S * ty_keys_@S, *t = o + ty_queries_@S * dv;
  @T *panel = t + ty_queries_@S * dv;
  for (int64_t i0 = 0; i0 < a->n; i0 += ty_queries_@S) {
    const int64_t w = a->n - i0 < ty_queries_@S ? a->n - i0 : ty_queries_@S;
    int64_t last = a->m;
    @T top[ty_queries_@S], from[ty_queries_@S], sum[ty_queries_@S], shrink[ty_queries_@S];
    if (a->causal) last = i0 + w + ahead < 0 ? 0 : i0 + w + ahead < a->m ? i0 + w + ahead : a->m;
    for (int64_t c = 0; c < a->d; c++)
      for (int64_t i = 0; i < w; i++) qt[c * w + i] = a->q[(i0 + i) * a->qr + c * a->qc] * a->scale;
    for (int64_t i = 0; i < w; i++) top[i] = least, from[i] = 0, sum[i] = 0;
    for (int64_t i = 0; i < w * dv; i++) o[i] = 0;
    for (int64_t j0 = 0; j0 < last; j0 += ty_keys_@S) {
      const int64_t h = last - j0 < ty_keys_@S ? last - j0 : ty_keys_@S;
      ty_product_@S(h, w, a->d, a->k + j0 * a->kr, a->kr, a->kc, qt, w, 1, s, w, panel);
      if (a->mask || a->seen)
        for (int64_t j = 0; j < h; j++)
          for (int64_t i = 0; i < w; i++) {
            const int64_t at = (i0 + i) * a->mr + (j0 + j) * a->mc;
            s[j * w + i] = a->mask ? s[j * w + i] + a->mask[at] : a->seen[at] ? s[j * w + i] : least;
          }
      for (int64_t j = 0; a->causal && j < h; j++) /* those before it do not see it */
        for (int64_t i = 0; i < w && i < j0 + j - i0 - ahead; i++) s[j * w + i] = least;
      for (int64_t i = 0; i < w; i++) shrink[i] = top[i];
      for (int64_t j = 0; j < h; j++)
        for (int64_t i = 0; i < w; i++) top[i] = s[j * w + i] > top[i] ? s[j * w + i] : top[i];
      @T all[ty_queries_@S];
      for (int64_t i = 0; i < w; i++) {
        from[i] = top[i] != least ? top[i] : 0;
        shrink[i] = ty_exponential_@S(shrink[i] - from[i]);
        all[i] = 0;
      }
      for (int64_t j = 0; j < h; j++)
        for (int64_t i = 0; i < w; i++) {
          const @T p = ty_exponential_@S(s[j * w + i] - from[i]);
          s[j * w + i] = p;
          all[i] = all[i] + p;
        }
      for (int64_t i = 0; i < w; i++) {
        const @T was = sum[i] * shrink[i];
        sum[i] = was + all[i];
      }
      if (a->key) {
        const double factor = a->drop < (uint32_t)1 << 30 ? 1 / (1 - a->drop * 0x1p-30) : 0;
        const uint32_t k0 = (uint32_t)a->key[0], k1 = (uint32_t)a->key[a->key_step];
        for (int64_t i = 0; i < w; i++)
          for (int64_t j = 0; j < h; j++) {
            const uint32_t c = (uint32_t)ty_philox((int64_t)((uint64_t)(i0 + i) << 32 | (uint64_t)((j0 + j) / 4)),
              a->index, (int64_t)((uint64_t)k1 << 32 | k0), (int)(j % 4));
            s[j * w + i] = s[j * w + i] * (c >> 2 >= a->drop ? (@T)factor : 0);
          }
      }
      for (int64_t i = 0; j0 && i < w; i++)
        for (int64_t c = 0; c < dv; c++) o[i * dv + c] = o[i * dv + c] * shrink[i];
      ty_product_@S(w, dv, h, s, 1, w, a->v + j0 * a->vr, a->vr, a->vc, j0 ? t : o, dv, panel);
      for (int64_t i = 0; j0 && i < w * dv; i++) o[i] = o[i] + t[i];
    }
    @T *m = y + a->batch * a->n * dv + a->index * a->n + i0, *l = m + a->batch * a->n;
    for (int64_t i = 0; i < w; i++) {
      const @T by = sum[i] == 0 ? 0 : 1 / sum[i];
      m[i] = from[i], l[i] = sum[i];
      for (int64_t c = 0; c < dv; c++) y[(place + (i0 + i) * a->heads) * dv + c] = o[i * dv + c] * by;
    }
  }
}
]])

--- An operand of attention by number: pointer and strides, over leading dims, rows, columns.
function M.attend(s, kit)
  local a = s.attend
  if a.grad then kit.refuse "the gradient of attention" end
  local t = a.dtype
  local stored = primitives.stored[t]
  local n = #s.slots
  local y = kit.slot(s.slots[n], t)
  kit.use("attend_" .. t)
  local depth = #a.lead
  local index = "0"
  for d = 1, depth do
    kit.add("for (int64_t l%d = 0; l%d < %s; l%d++) {", d, d, text(a.lead[d]), d)
    index = d == 1 and "l1" or format("(%s * %s + l%d)", index, text(a.lead[d]), d)
  end
  --- The address of operand i (from 1) for this head.
  local function address(i, dtype)
    local strides, out = a.strides[i], { kit.slot(s.slots[i], dtype) }
    if a.start[i] ~= 0 then out[2] = text(a.start[i]) end
    for d = 1, depth do
      if strides[d] ~= 0 then out[#out + 1] = format("l%d * %s", d, text(strides[d])) end
    end
    return concat(out, " + ")
  end
  local function stride(i, k) return text(a.strides[i][depth + k]) end
  kit.add("ty_attend_%s a = {.n = %s, .m = %s, .d = %s, .dv = %s, .heads = %s, .index = %s, .batch = %s,", t, text(a.n),
    text(a.m), text(a.d), text(a.dv), depth > 0 and text(a.lead[depth]) or "1", index, text(a.batch))
  for i, name in ipairs { "q", "k", "v" } do
    kit.add("  .%s = %s, .%sr = %s, .%sc = %s,", name, address(i, t), name, stride(i, 1), name, stride(i, 2))
  end
  if a.mask then
    kit.add("  .%s = %s, .mr = %s, .mc = %s,", a.bits and "seen" or "mask", address(4, a.bits and "bool" or t),
      stride(4, 1), stride(4, 2))
  end
  if a.key then
    kit.add("  .key = %s, .key_step = %s, .drop = %du,", address(5, "i32"), stride(5, 2), a.drop)
  end
  local scale, needs = primitives.double(a.scale)
  if needs then kit.use(needs) end
  kit.add("  .causal = %d, .scale = (%s)%s};", a.causal and 1 or 0, stored, scale)
  kit.add("ty_attend_%s_head(&a, %s, (%s *)(void *)room);", t, y, stored)
  for _ = 1, depth do kit.add "}" end
  local rows = 64 * a.d + 64 * 64 + 64 * a.dv * 2 + (a.d + 64 + 8) * 32
  return kit.aligned(rows * primitives.bytes[t])
end

return M
