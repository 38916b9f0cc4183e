-- product_spec.lua -- products with epilogues, and of weights that stay: the same bits as each operation alone.

local H = require "spec.helper"
local ty = H.ty

local function rough(dtype, dims, seed)
  ty.manual_seed(seed)
  return H.is_float(dtype) and ty.randn(dims):to(dtype) or ty.randint(-100, 100, dims):to(dtype)
end

--- Kernels and other steps of f's one graph, captured and recorded.
local function steps(f, ...)
  local captured, recorded = ty.compile(f), H.lazy(function(...) return f(...) end)
  captured(...)
  recorded(...)
  local t, g = ty.explain(captured).traces[1], ty.explain(recorded).signatures[1].graphs[1]
  assert.same({ g.kernels, g.steps }, { t.kernels, t.steps })
  return { t.kernels, t.steps - t.kernels }
end

--- f compiled gives the bits of f, with one thread and with more, also when its operands are old acquaintances.
local function equal(f, ...)
  local threads = ty.threads()
  local want, compiled = { f(...) }, ty.compile(f)
  for _, n in ipairs { 1, 2, 3 } do
    ty.threads(n)
    for call = 1, 3 do
      local got = { compiled(...) }
      for i = 1, #want do H.same(want[i], got[i], ("result %d, %d threads, call %d"):format(i, n, call)) end
    end
  end
  ty.threads(threads)
end

local SHAPES = { -- m, n, k
  { 1, 1, 1 }, { 1, 7, 5 }, { 7, 1, 5 }, { 3, 5, 2 }, { 16, 16, 16 }, { 8, 64, 64 }, { 33, 65, 17 }, { 1, 700, 300 },
  { 4, 515, 70 }, { 300, 1, 600 }, { 9, 130, 513 }, { 100, 40, 300 }, { 250, 70, 40 }, { 500, 33, 260 },
  { 130, 600, 270 }, { 32, 128, 784 }, { 20, 30, 5000 }, { 60, 50, 4096 },
}

local EPILOGUES = {
  { "bias", function(y, r) return y + r.bias end },
  { "bias and relu", function(y, r) return (y + r.bias):relu() end },
  { "bias by row", function(y, r) return y * r.column - 1 end },
  { "residual", function(y, r) return r.full - y * 0.5 end },
  { "transposed residual", function(y, r) return y + r.turned:t() end },
  { "itself twice", function(y) return y * y + y end },
  { "conversion to f16", function(y, r) return (y + r.bias):to "f16" end },
  { "conversion to f64", function(y, r) return y:to "f64" * r.full end },
  { "comparison", function(y, r) return y:gt(r.full) end },
  { "rows known by position", function(y) return y + ty.arange(y.shape[2]) end },
  { "mean behind", function(y, r) return (y + r.bias):abs():sum(2) end },
  { "mean in front", function(y, r) return y * r.full:sum(2, true) end },
}

describe("a product with an epilogue", function()
  for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i32", "i64", "i8" } do
    it("gives the bits of each operation alone: " .. dtype, function()
      for i, s in ipairs(SHAPES) do
        local m, n, k = s[1], s[2], s[3]
        local a, w = rough(dtype, { m, k }, i), rough(dtype, { k, n }, i + 50)
        local r = { bias = rough(dtype, { n }, 1), column = rough(dtype, { m, 1 }, 2), full = rough(dtype, { m, n }, 3),
          turned = rough(dtype, { n, m }, 4) }
        for e, row in ipairs(EPILOGUES) do
          if (i + e) % 3 == 0 or dtype == "f32" then
            equal(function(x, y) return row[2](x:matmul(y), r) end, a, w)
          end
        end
        local wt = w:t():clone():t()
        equal(function(x, y) return (x:matmul(y) + r.bias):relu() end, a, wt)
      end
    end)
  end

  it("gives them where it is a list of scales, biases, residuals and bounds, also of special values", function()
    local lists = {
      function(y, r) return (y * r.s + r.bias + r.full):relu() end,
      function(y, r) return r.column * y + r.column end,
      function(y, r) return (y * r.bias * r.full):clamp(-1, 0) end,
      function(y, r) return (y + r.s):maximum(r.low):minimum(r.high) end,
      function(y, r) return (r.full + y):relu():to "f16" end,
      function(y) return y:to "bf16" end,
    }
    for _, dtype in ipairs { "f32", "f64", "f16" } do
      for i, s in ipairs { { 5, 17, 8 }, { 7, 16, 9 }, { 9, 33, 300 }, { 13, 130, 70 }, { 130, 300, 257 }, { 47, 40, 2100 } } do
        local m, n, k = s[1], s[2], s[3]
        local w = H.mixed(dtype, { k, n }, i)
        local r = { bias = H.mixed(dtype, { n }, i + 2), column = rough(dtype, { m, 1 }, 2), full = H.mixed(dtype, { m, n }, i + 3) }
        for _, a in ipairs { rough(dtype, { m, k }, i), rough(dtype, { m, k }, i) * 1e-30, H.mixed(dtype, { m, k }, i + 1) } do
          for _, list in ipairs(lists) do
            local compiled = ty.compile(function(x, y, q) return list(x:matmul(y), q) end)
            for _, bounds in ipairs { { 0, 1 }, { -0.0, 0 / 0 }, { 0 / 0, -0.0 }, { -2, 0 } } do -- one kernel for all
              r.s, r.low, r.high = bounds[1] + 0.5, bounds[1], bounds[2]
              H.same(list(a:matmul(w), r), compiled(a, w, r))
            end
          end
        end
      end
    end
  end)

  it("knows zeros by their sign", function()
    local b = ty.full({ 9, 40 }, 1e-30)
    local over = ty.compile(function(x, y, z) return x:matmul(y):maximum(z) end)
    local under = ty.compile(function(x, y, z) return x:matmul(y):minimum(z) end)
    local relu = ty.compile(function(x, y) return x:matmul(y):relu() end)
    local function signs(t) return (1 / t):min():item(), (1 / t):max():item() end
    for _, sign in ipairs { -1, 1 } do
      local a = ty.full({ 7, 9 }, sign * 1e-30) -- products that are rounded to a zero of this sign
      assert.same({ sign * math.huge, sign * math.huge }, { signs(a:matmul(b)) })
      assert.same({ math.huge, math.huge }, { signs(relu(a, b)) })
      for _, z in ipairs { 0, -0.0 } do
        local want = sign < 0 and 1 / z < 0 and -math.huge or math.huge
        assert.same({ want, want }, { signs(over(a, b, z)) })
        want = (sign < 0 or 1 / z < 0) and -math.huge or math.huge
        assert.same({ want, want }, { signs(under(a, b, z)) })
      end
    end
  end)

  it("is right in the last row of tiles of any height, over several blocks", function()
    for _, dtype in ipairs { "i32", "i64", "f32", "f64" } do
      for m = 5, 21 do
        local k, n = 259, 33
        local a, b = rough("i64", { m, k }, m), rough("i64", { k, n }, m + 1)
        local want = (a:reshape(m, k, 1) * b:reshape(1, k, n)):sum(2) -- below 2^24: exact
        H.same(want, a:to(dtype):matmul(b:to(dtype)):to "i64")
      end
    end
  end)

  it("of a large matrix has the bits of each row alone, and of the same matrix that lies in columns", function()
    local threads = ty.threads()
    for _, dtype in ipairs { "f32", "f64", "i32" } do
      for i, n in ipairs { 288, 293, 308 } do -- whole panels; the last one of a vector, of nearly two
        local b = rough(dtype, { 520, n }, i)
        local turned = b:t():clone():t()
        for _, m in ipairs { 5, 7, 8, 9, 15, 20, 129, 243, 490 } do
          local a = rough(dtype, { m, 520 }, m)
          local want = a:matmul(turned)
          for _, count in ipairs { 1, 3 } do
            ty.threads(count)
            local y = a:matmul(b)
            H.same(want, y, ("%s %d x %d, %d threads"):format(dtype, m, n, count))
            for _, r in ipairs { 1, m % 4 + 1, m - 1, m } do
              H.same(a[{ { r, r } }]:matmul(b), y[{ { r, r } }], ("%s %d x %d, row %d"):format(dtype, m, n, r))
            end
          end
        end
      end
    end
    ty.threads(threads)
  end)

  it("is one step", function()
    local a, w, b = ty.rand(8, 16), ty.rand(16, 12), ty.rand(12)
    local full, wide = ty.rand(8, 12), ty.rand(2, 8, 12)
    assert.same({ 0, 1 }, steps(function() return (a:matmul(w) + b):relu() end))
    assert.same({ 0, 1 }, steps(function() return full + (a:matmul(w) + b):gelu() * 2 end))
    assert.same({ 0, 1 }, steps(function() return (a:matmul(w) + b):to "f16" end))
    assert.same({ 0, 1 }, steps(function() return (a:matmul(w) + b):reshape(2, 4, 12):tanh() end))
    assert.same({ 0, 2 }, steps(function() return (a:matmul(w) + b):relu():matmul(w:t()) + a end))
    -- what needs whole rows, or repeats the product, stays apart
    assert.same({ 1, 1 }, steps(function() return a:matmul(w):softmax() end))
    assert.same({ 1, 1 }, steps(function() return wide + a:matmul(w) end))
  end)

  it("is named where plans are shown", function()
    local a, w = ty.rand(8, 16), ty.rand(16, 12)
    local f = ty.compile(function() return a:matmul(w):relu() end)
    f()
    assert.truthy(jit.explain(f):full():find("product with epilogue", 1, true))
  end)

  it("may have several results", function()
    local a, w, b = rough("f32", { 70, 90 }, 1), rough("f32", { 90, 300 }, 2), rough("f32", { 300 }, 3)
    local function f()
      local h = a:matmul(w) + b
      return h, h:relu()
    end
    assert.same({ 0, 1 }, steps(f))
    equal(f)
    equal(function()
      local y = a:matmul(w)
      return y, (y + b):tanh(), y:gt(0)
    end)
  end)

  it("cuts tiles where batches, positions and heads are dims of their own", function()
    for i, s in ipairs { { 2, 3, 5 }, { 4, 16, 24 }, { 3, 100, 96 }, { 40, 7, 9 } } do
      local B, T, C = s[1], s[2], s[3]
      local x, w = rough("f32", { B, T, C }, i), rough("f32", { C, 4 * C }, i + 1)
      local position, heads = rough("f32", { T, 1 }, 3), rough("f32", { 4, 1 }, 4)
      equal(function() return x:matmul(w) + position end)
      equal(function() return (x:matmul(w) + position):reshape(B, T, 4, C) * heads end)
      equal(function() return (x:matmul(w):reshape(B, T, 4, C) * heads):to "f16" end)
      local u = rough("f32", { B, C, T }, i + 2)
      equal(function() return (x:matmul(u) * 0.5 - position):exp() end)
    end
  end)

  it("draws the random numbers that it would draw apart", function()
    local a, w = rough("f32", { 90, 70 }, 1), rough("f32", { 70, 200 }, 2)
    local function f() return ty.rand(90, 200):lt(0.5):where(a:matmul(w), 0) end
    ty.manual_seed(5)
    local want = f()
    local compiled = ty.compile(f)
    for _ = 1, 2 do
      ty.manual_seed(5)
      H.same(want, compiled())
    end
  end)

  it("is read again by what follows it", function()
    local c = rough("f32", { 3 }, 9)
    equal(function(a, b)
      local y = a:matmul(b)
      return (y + c) * y
    end, rough("f32", { 7, 3 }, 7), rough("f32", { 3, 3 }, 8))
  end)

  it("reads an operand that it also multiplies, and one that dies", function()
    local a, w = rough("f32", { 120, 120 }, 1), rough("f32", { 120, 120 }, 2)
    equal(function() return a:matmul(w) + a - w end)
    equal(function() local r = a * 2 return r + (a + 1):matmul(w) + (r - 1):matmul(w) end)
  end)

  it("writes a tensor in place only when its old contents are read", function()
    local a, g = rough("f32", { 50, 60 }, 1), rough("f32", { 50, 70 }, 2)
    local want, got = rough("f32", { 60, 70 }, 3), rough("f32", { 60, 70 }, 3)
    local function f(w) w:sub_(a:t():matmul(g) * 0.1) end
    local compiled = ty.compile(f)
    for _ = 1, 3 do f(want) compiled(got) end
    H.same(want, got)
  end)
end)

describe("a weight that stays", function()
  local function repeated(dtype, m, n, k, turn)
    local w = rough(dtype, turn and { n, k } or { k, n }, 1)
    local v = turn and w:t() or w
    for call = 1, 12 do
      local a = rough(dtype, { m, k }, call)
      if call == 8 then w:mul_(2) end
      H.same(a:matmul(v:clone()), a:matmul(v), ("%s %d x %d x %d, call %d"):format(dtype, m, k, n, call))
    end
  end

  it("gives the same bits packed anew, kept, and after it was written", function()
    for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i8" } do
      for _, s in ipairs { { 1, 40, 300 }, { 2, 33, 70 }, { 8, 64, 64 }, { 32, 128, 784 }, { 100, 200, 300 } } do
        repeated(dtype, s[1], s[2], s[3], false)
        repeated(dtype, s[1], s[2], s[3], true)
      end
    end
  end)

  it("is packed from its third use, until it is written or let go", function()
    local function panels() return ty.stats().panels end
    collectgarbage()
    collectgarbage()
    local before = panels()
    do
      local w, a = rough("f32", { 50, 40 }, 1), rough("f32", { 8, 40 }, 2)
      for _ = 1, 5 do a:matmul(w:t()) end
      assert.equal(before.entries + 1, panels().entries)
      assert.equal(before.hits + 2, panels().hits)
      w:add_(1):numel()
      assert.equal(before.bytes, panels().bytes)
      for _ = 1, 3 do a:matmul(w:t()) end
      assert.equal(before.entries + 1, panels().entries)
    end
    collectgarbage()
    collectgarbage()
    assert.equal(before.entries, panels().entries)
    assert.equal(before.bytes, panels().bytes)
  end)

  it("is not kept while its address is known outside", function()
    local w, a = rough("f32", { 50, 40 }, 1), rough("f32", { 8, 40 }, 2)
    local p = w:data()
    for i = 1, 6 do
      p[0] = i
      H.same(a:matmul(w:clone():t()), a:matmul(w:t()))
    end
  end)

  it("stays while more weights than there is room for are used in turn", function()
    collectgarbage()
    collectgarbage()
    local a, weights = rough("f32", { 8, 1000 }, 1), {}
    for i = 1, 12 do weights[i] = rough("f32", { 1000, 1000 }, i) end
    for turn = 1, 9 do
      local before = ty.stats().panels.hits
      for i = 1, #weights do a:matmul(weights[i]) end
      local hits = ty.stats().panels.hits - before
      if turn > 3 then assert.truthy(hits >= 6, hits) end
    end
    assert.truthy(ty.stats().panels.bytes <= 32 * 2 ^ 20)
  end)

  it("makes room at once where others were not asked for since", function()
    local a, weights = rough("f32", { 8, 1000 }, 1), {}
    for i = 1, 10 do
      weights[i] = rough("f32", { 1000, 1000 }, i)
      local before = ty.stats().panels.hits
      for _ = 1, 4 do a:matmul(weights[i]) end
      assert.equal(before + 1, ty.stats().panels.hits)
    end
  end)

  it("makes room: many weights stay below the cap", function()
    local a, weights = rough("f16", { 2, 1000 }, 1), {}
    for i = 1, 12 do weights[i] = rough("f16", { 1000, 1000 }, i) end
    for _ = 1, 4 do
      for i = 1, #weights do a:matmul(weights[i]) end
    end
    assert.truthy(ty.stats().panels.bytes <= 32 * 2 ^ 20)
    assert.truthy(ty.stats().panels.entries > 0)
  end)
end)

describe("a product over nothing", function()
  it("is zeros, of every dtype, eager and compiled, with what follows it", function()
    local f = ty.compile(function(a, b) return a:matmul(b), a:matmul(b) + 1 end)
    for _, dtype in ipairs(H.dtypes) do
      local a, b = ty.ones({ 3, 2, 0 }, { dtype = dtype }), ty.ones({ 0, 4 }, { dtype = dtype })
      local want = ty.zeros({ 3, 2, 4 }, { dtype = dtype == "bool" and "i64" or dtype })
      H.same(want, a:matmul(b), dtype)
      H.same(want, a[1]:matmul(b)[{ "new" }]:expand(3, 2, 4):clone(), dtype)
      for _ = 1, 2 do
        local y, z = f(a, b)
        H.same(want, y, dtype)
        H.same(want + 1, z, dtype)
      end
    end
  end)
end)
