--- amx_spec.lua -- bf16 products on the processor's matrix unit, or by its dot products, asked for by
-- ty.precision("fast"). Units are emulated (TYCHO_AMX=emulate, emulate-dots) in processes of their own, so that packing,
-- edges, strides, batches, epilogues and threads are proved on any machine. What needs a unit itself is skipped, and
-- counted, where there is none.

local H = require "spec.helper"

local head = ("package.path = '%s?.lua;' .. package.path\n"):format(H.root) .. [[
local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi
ty.precision "fast"
--- Small whole numbers: every sum is exact, in any order.
local function whole(...) return ty.randint(-8, 9, { ... }):to "bf16" end
local function rough(...) return ty.randn(...):to "bf16" end
--- f's result in the canonical order.
local function exact(f, ...)
  ty.precision "exact"
  local y = f(...):clone()
  y:numel()
  ty.precision "fast"
  return y
end
local function product(a, b) return a:matmul(b) end
]]

local function proves(code, env)
  local out, status = H.script(head .. code, env)
  assert.equal(0, status, out)
  return out
end

--- Elements against sums in doubles, which hold the product of two bf16 and its sum with an f32 but for bits that
--- cannot make or break a tie of f32. `element` gives the code for one of them.
local function order(element)
  return [[
    local float = ffi.new "float[1]"
    local function single(x)
      float[0] = x
      local y = tonumber(float[0])
      return math.abs(y) < 2 ^ -126 and y * 0 or y
    end
    -- Too small is what is so at 24 bits, as if exponents went on.
    local function fma(x, y, sum)
      local exact = single(x) * single(y) + single(sum)
      if not (math.abs(exact) < 2 ^ -125) then return single(exact) end
      float[0] = exact * 2 ^ 64
      local up = tonumber(float[0])
      return math.abs(up) < 2 ^ -62 and up * 0 or up * 2 ^ -64
    end
    for _, scale in ipairs { 1, 2 ^ -62, 2 ^ -66, 2 ^ 60 } do
      local m, n, k = 33, 40, 75
      local a, b = (ty.randn(m, k) * scale):to "bf16", (ty.randn(k, n) * scale):to "bf16"
      a[{ 3, 5 }] = 2 ^ -130
      b[{ 7, {} }] = 2 ^ -128
      local x, y, got = H.doubles(a), H.doubles(b), H.doubles(a:matmul(b))
      local bytes = ffi.new("double[?]", m * n)
      for i = 0, m - 1 do
        for j = 0, n - 1 do
          local sum = 0
]] .. element .. [[
          bytes[i * n + j] = sum
        end
      end
      local want = H.doubles(H.tensor("bf16", H.store("bf16", bytes, m * n), { m, n }))
      for i = 0, m * n - 1 do assert(want[i] == got[i], ("element %d: %.9g, not %.9g"):format(i, got[i], want[i])) end
    end]]
end

local units = {
  { name = "the matrix unit", emulate = "emulate", said = "AMX", order = order [[
          for k0 = 0, k - 1, 32 do
            local part = { [0] = 0, 0 }
            for l = k0, math.min(k, k0 + 32) - 1 do
              part[l % 2] = single(part[l % 2] + single(x[i * k + l]) * single(y[l * n + j]))
            end
            sum = single(sum + single(part[0] + part[1]))
          end
]] },
  { name = "dot products of pairs", emulate = "emulate-dots", only = "dots", said = "AVX512-BF16", order = order [[
          for l = 0, k - 1, 2 do
            if l + 1 < k then sum = fma(x[i * k + l + 1], y[(l + 1) * n + j], sum) end
            sum = fma(x[i * k + l], y[l * n + j], sum)
          end
]] },
}

--- What is said of a unit, and when it is used.
local function chosen(unit)
  return ([[
    local a, b = rough(64, 1024), rough(1024, 64)
    a, b = ty.cat({ a, a }, 2), ty.cat({ b, -b }, 1) -- what is left are the errors of rounding
    local stats = ty.stats()
    assert(stats.bf16_unit == "NAME")
    assert(stats.amx == (stats.bf16_unit == "AMX" and "emulated" or nil) and (stats.amx == nil) == (stats.no_amx ~= nil))
    local f = ty.compile(function(x, y) return (x:matmul(y) + 1):relu() end)
    f(a, b)
    assert(ty.explain(f):full():find("product with epilogue by NAME", 1, true))
    local fast = a:matmul(b)
    ty.precision "exact"
    stats = ty.stats()
    assert(stats.bf16_unit == nil and stats.amx == nil and stats.no_amx == "precision is exact")
    local canonical = a:matmul(b)
    f(a, b)
    assert(not tostring(ty.explain(f).signatures[1]):find("NAME", 1, true))
    assert(H.difference(fast, canonical), "4096 long sums rounded alike")
    -- other dtypes and small products stay as they are
    for _, x in ipairs { ty.randn(64, 64), ty.randn(64, 64):to "f16", rough(8, 8) } do
      local want = x:matmul(x)
      ty.precision "fast"
      H.same(want, x:matmul(x))
      ty.precision "exact"
    end]]):gsub("NAME", unit.said)
end

local claims = {
  { "is whole: every shape, with any strides", [[
    for i, s in ipairs { { 33, 65, 47 }, { 256, 40, 64 }, { 290, 530, 20 }, { 1, 700, 300 }, { 5, 1, 8000 }, { 64, 64, 64 },
      { 40, 40, 32 }, { 2, 17, 1031 }, { 16, 16, 512 }, { 17, 33, 513 }, { 520, 31, 33 }, { 31, 1100, 1 } } do
      ty.manual_seed(i)
      local m, n, k = s[1], s[2], s[3]
      local a, b = whole(m, k), whole(k, n)
      local want = exact(product, a, b)
      local function as(x, y, what) H.same(want, x:matmul(y), ("%d x %d x %d, %s"):format(m, n, k, what)) end
      as(a, b, "as they lie")
      as(a:t():clone():t(), b, "a transposed")
      as(a, b:t():clone():t(), "b transposed")
      local wide, deep = ty.zeros({ m, 2 * k + 1 }, { dtype = "bf16" }), ty.zeros({ 3 * k, n + 5 }, { dtype = "bf16" })
      local part, rows = wide[{ {}, { 2, 2 * k + 1, 2 } }], deep[{ { 1, 3 * k, 3 }, { 3, n + 2 } }]
      part:copy_(a)
      rows:copy_(b)
      as(part, rows, "parts of larger ones")
      as(a:flip(2):clone():flip(2), b:flip(1):clone():flip(1), "reversed")
      local odd = ty.zeros({ n, k + 1 }, { dtype = "bf16" })[{ {}, { 2, k + 1 } }]
      odd:copy_(b:t())
      as(a, odd:t(), "b transposed, at an odd place")
    end]] },
  { "is the same compiled and eager, with epilogues, in batches, on any number of threads", [[
    local cases = {}
    for i, s in ipairs { { 33, 65, 47 }, { 140, 150, 40 }, { 2, 700, 100 }, { 20, 70, 1031 } } do
      local m, n, k = s[1], s[2], s[3]
      local a, b, bias, full = rough(m, k), rough(k, n), rough(n), rough(m, n)
      cases[#cases + 1] = function() return a:matmul(b) end
      cases[#cases + 1] = function() return (a:matmul(b) + bias):relu() end
      cases[#cases + 1] = function() return full - a:matmul(b) * 0.5 end
      cases[#cases + 1] = function() return (a:matmul(b) + bias):to "f32" end
      cases[#cases + 1] = function() return a:matmul(b):gt(full) end
      local h, u, heads = rough(3, m, k), rough(3, k, n), rough(2, 1, k, n)
      cases[#cases + 1] = function() return (h:matmul(b) + bias):tanh() end
      cases[#cases + 1] = function() return h:matmul(u) * 0.25 end
      cases[#cases + 1] = function() return h:matmul(heads):exp() end
      H.same(a:matmul(b), h:clone():copy_(a):matmul(b)[3])
    end
    local a, b = rough(270, 520), rough(520, 300)
    cases[#cases + 1] = function() return a:matmul(b) end -- enough work for threads
    for i, f in ipairs(cases) do
      if not H.share(i, 2) then f = function() return a end end
      ty.threads(1)
      local want, compiled = f(), ty.compile(f)
      want:numel()
      for threads = 1, 3 do
        ty.threads(threads)
        for _ = 1, threads == 1 and 2 or 1 do H.same(want, compiled(), ("case %d, %d threads"):format(i, threads)) end
        if threads > 1 then H.same(want, f(), ("case %d eager, %d threads"):format(i, threads)) end
      end
    end]] },
  { "keeps the panels of weights that stay, apart from those of the canonical order", [[
    local a, w = whole(20, 300), whole(300, 90)
    local want = exact(product, a, w)
    for i = 1, 6 do
      H.same(want, a:matmul(w))
      H.same(want, exact(product, a, w))
    end
    assert(ty.stats().panels.entries >= 2)
    w:mul_(2)
    H.same(want * 2, a:matmul(w))]] },
  { "fails when out of memory, without harm", [[
    local probe = ty.internals.probe
    local a, b = whole(70, 400), whole(400, 90)
    local want = exact(product, a, b)
    collectgarbage() collectgarbage "stop"
    for n = 0, 12 do
      probe.fail(n, 1)
      local ok, y = pcall(function() return a:matmul(b) end)
      probe.fail(-1, 0)
      if ok then H.same(want, y) else assert(tostring(y):find "memory", y) end
      H.same(want, a:matmul(b))
    end]] },
}

for _, unit in ipairs(units) do
  describe("a product on " .. unit.name, function()
    local emulated = { TYCHO_AMX = unit.emulate }
    for _, c in ipairs(claims) do
      it(c[1], function() proves(c[2], emulated) end)
    end

    it("sums in the order that is documented for it, and flushes denormals", function() proves(unit.order, emulated) end)

    it("is chosen when a product is recorded, and said", function() proves(chosen(unit), emulated) end)

    it("has the bits of its emulation on a processor that has it", function()
      local code = ([[
        if ty.stats().bf16_unit ~= "NAME" then print(ty.stats().no_amx or "there is AMX") os.exit(9) end
        local seen = {}
        for i, s in ipairs { { 33, 65, 47 }, { 300, 530, 70 }, { 130, 70, 1031 }, { 64, 64, 64 } } do
          ty.manual_seed(i)
          for _, scale in ipairs { 1, 2 ^ -62, 2 ^ -66, 2 ^ 63 } do
            local a, b = (ty.randn(s[1], s[3]) * scale):to "bf16", (ty.randn(s[3], s[2]) * scale):to "bf16"
            local bytes, n = H.bytes(a:matmul(b))
            local sum = 0
            for k = 0, 2 * n - 1 do sum = (sum * 31 + bytes[k]) % 4294967291 end
            seen[#seen + 1] = sum
          end
        end
        print(table.concat(seen, " "))]]):gsub("NAME", unit.said)
      local out, status = H.script(head .. code, { TYCHO_AMX = unit.only })
      if status == 9 then return pending(out) end
      assert.equal(0, status, out)
      assert.equal(proves(code, emulated), out)
    end)
  end)
end

it("a fast product is computed by ours, to the bit, where there is no unit", function()
  proves([[
    local a, b = rough(64, 64), rough(64, 64)
    H.same(exact(product, a, b), a:matmul(b))
    local stats = ty.stats()
    assert(stats.amx == nil and stats.bf16_unit == nil and stats.no_amx == "TYCHO_AMX is off")
    local f = ty.compile(product)
    f(a, b)
    assert(not ty.explain(f):full():find "AMX")]], { TYCHO_AMX = "off" })
end)
