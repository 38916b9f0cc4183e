--- orders_spec.lua -- reductions, scans and products: the literal canonical orders, to the bit, whatever the layout, the
--- threads, the fusion.

local H = require "spec.helper"
local ty, ffi, oracle = H.ty, H.ffi, H.oracle

local FLOATS = { "f16", "bf16", "f32", "f64" }
local LENGTHS = { 0, 1, 2, 15, 16, 17, 33, 64, 65, 513, 4095, 4096, 4097, 8193, 12300 }

--- Values whose sums and products show every change of order.
local function rough(dtype, shape, seed, low, high)
  local r, n = H.random(seed), 1
  for _, s in ipairs(shape) do n = n * s end
  local v = ffi.new("double[?]", math.max(1, n))
  for i = 0, n - 1 do v[i] = r.range(low or -10, high or 10) end
  return H.tensor(dtype, H.store(dtype, v, n), shape)
end

local function single(dtype) return dtype == "f64" and 0 or 1 end

--- Bytes of doubles rounded to a dtype.
local function rounded(dtype, v, n) return H.store(dtype, v, n) end

--- What a reduction of x seen as [outer, n, inner] gives, as bytes of x's dtype.
local function reduced(name, x, trailing, outer, n, inner)
  local y = ffi.new("double[?]", math.max(1, outer * inner))
  oracle.oracle_reduce(name, single(x.dtype), trailing and 1 or 0, outer, n, inner, H.doubles(x), y)
  return rounded(x.dtype, y, outer * inner)
end

local function range_of(name) if name == "prod" then return 0.9, 1.1 end end

for _, name in ipairs { "sum", "prod" } do
  describe(name, function()
    local op = ty[name]

    it("of a vector goes by blocks of 4096, lanes, and trees", function()
      for _, dtype in ipairs(FLOATS) do
        for _, n in ipairs(LENGTHS) do
          local x = rough(dtype, { n }, n, range_of(name))
          H.same_bytes(reduced(name, x, true, 1, n, 1), op(x), ("%s, n = %d"):format(dtype, n))
        end
      end
    end)

    it("of rows goes as of vectors, whatever the number of rows", function()
      for _, dtype in ipairs(FLOATS) do
        for _, shape in ipairs { { 3, 17 }, { 40, 100 }, { 700, 9 }, { 2, 4500 }, { 0, 5 }, { 5, 0 }, { 300, 1 } } do
          local x = rough(dtype, shape, shape[2], range_of(name))
          H.same_bytes(reduced(name, x, true, shape[1], shape[2], 1), op(x, 2), H.describe(x))
        end
      end
    end)

    it("of columns goes by blocks of 256 rows and 4 lanes", function()
      for _, dtype in ipairs(FLOATS) do
        for _, shape in ipairs { { 17, 3 }, { 255, 5 }, { 256, 2 }, { 257, 7 }, { 1000, 40 }, { 3, 600 }, { 0, 4 }, { 2, 1 } } do
          local x = rough(dtype, shape, shape[1], range_of(name))
          H.same_bytes(reduced(name, x, false, 1, shape[1], shape[2]), op(x, 1), H.describe(x))
        end
        local x = rough(dtype, { 4, 300, 6 }, 5, range_of(name))
        H.same_bytes(reduced(name, x, false, 4, 300, 6), op(x, 2), H.describe(x))
      end
    end)

    it("merges adjacent dims into one run", function()
      for _, dtype in ipairs(FLOATS) do
        local x = rough(dtype, { 5, 30, 40 }, 6, range_of(name))
        H.same_bytes(reduced(name, x, true, 5, 1200, 1), op(x, { 2, 3 }), dtype)
        H.same_bytes(reduced(name, x, true, 1, 6000, 1), op(x), dtype)
        H.same_bytes(reduced(name, x, false, 1, 150, 40), op(x, { 1, 2 }), dtype)
      end
    end)

    it("takes separate runs last to first, half floats rounding once at the end", function()
      for _, dtype in ipairs(FLOATS) do
        local x = rough(dtype, { 30, 4, 50 }, 7, range_of(name))
        local rows, y = ffi.new "double[120]", ffi.new "double[4]"
        oracle.oracle_reduce(name, single(dtype), 1, 120, 50, 1, H.doubles(x), rows)
        oracle.oracle_reduce(name, single(dtype), 0, 1, 30, 4, rows, y)
        H.same_bytes(rounded(dtype, y, 4), op(x, { 1, 3 }), dtype)
      end
    end)

    it("of nothing is " .. (name == "sum" and "+0" or "1"), function()
      for _, dtype in ipairs(FLOATS) do
        local y = op(ty.zeros({ 0 }, { dtype = dtype }))
        assert.equal(name == "sum" and math.huge or 1, 1 / y:item())
        assert.same({ 2 }, op(ty.zeros({ 2, 0 }, { dtype = dtype }), 2).shape)
      end
    end)

    it("keeps -0 where all elements are -0", function()
      if name == "sum" then
        for _, n in ipairs { 1, 2, 33, 5000 } do
          assert.equal(-math.huge, 1 / ty.full({ n }, -0.0):sum():item())
          assert.equal(-math.huge, 1 / ty.full({ n, 3 }, -0.0):sum(1):get(1))
        end
      end
    end)

    it("of integers and bool is exact in i64, wrapping", function()
      for _, dtype in ipairs { "bool", "u8", "i8", "i16", "i32", "i64" } do
        local n = 333
        local bytes = H.values(dtype, n, 8)
        local wide, want = H.buffer("i64", n), ffi.new "int64_t[1]"
        oracle.oracle_cast(dtype, "i64", bytes, n, wide)
        local v = ffi.cast("int64_t *", wide)
        want[0] = name == "sum" and 0 or 1
        for i = 0, n - 1 do want[0] = name == "sum" and want[0] + v[i] or want[0] * v[i] end
        local x = H.tensor(dtype, bytes, { n })
        assert.equal("i64", op(x).dtype)
        H.same_bytes(ffi.cast("uint8_t *", want), op(x), dtype)
      end
    end)
  end)
end

-- Extremes: any order gives the same, so plain Lua is the oracle ----------------------------------------------------

local function first_extreme(list, largest)
  local at
  for i, v in ipairs(list) do
    if v ~= v then return i end
    if not at or (largest and v > list[at]) or (not largest and v < list[at]) then at = i end
  end
  return at
end

describe("all and any, which may end early,", function()
  local n = 3 * 131072 + 4096 + 77
  local places = { 1, 64, 65, 4095, 4096, 4097, 8192, 12289, 131072, 131073, 262144 + 5, n - 1, n }

  --- Calls fn with a row of bools that are all `value` but for one, with the place of that; then with none.
  local function with_one(value, fn)
    local x = ty.full({ n }, value and 1 or 0):to("bool")
    for _, at in ipairs(places) do
      x[at] = not value
      fn(x, at)
      x[at] = value
    end
    fn(x)
  end

  for threads = 1, 2 do
    it(("meet one element anywhere, with %d threads"):format(threads), function()
      local before = ty.threads()
      ty.threads(threads)
      local compiled = ty.compile(function(v) return v:any(), v:all(), v:to("i32"):sum() end)
      with_one(false, function(x, at)
        assert.equal(at ~= nil, x:any():item())
        local any, all, sum = compiled(x)
        assert.same({ at ~= nil, false, at and 1 or 0 }, { any:item(), all:item(), sum:item() })
      end)
      with_one(true, function(x, at)
        assert.equal(at == nil, x:all():item())
        local any, all, sum = compiled(x)
        assert.same({ true, at == nil, at and n - 1 or n }, { any:item(), all:item(), sum:item() })
      end)
      ty.threads(before)
    end)
  end

  it("wait for each other where one sees to both", function()
    local both = ty.compile(function(v) return v:any(), v:all() end)
    local x = ty.zeros(n):to("bool")
    x[n] = true
    local any, all = both(x)
    assert.same({ true, false }, { any:item(), all:item() })
    local y = x:logical_not()
    y[n - 1] = true
    any, all = both(y)
    assert.same({ true, false }, { any:item(), all:item() })
  end)

  it("do not end what else is reduced", function()
    local more = ty.compile(function(v) return v:any(), v:all(), v:to("i32"):sum() end)
    local x = ty.zeros(n):to("bool")
    x[1], x[n] = true, true
    local any, all, sum = more(x)
    assert.same({ true, false, 2 }, { any:item(), all:item(), sum:item() })
  end)

  it("end early by comparisons alone: an extreme of integers does not", function()
    local x = ty.ones({ n }, { dtype = "i32" })
    x[n] = 7
    assert.equal(7, x:max():item())
    assert.equal(true, x:gt(6):any():item())
    x[n] = -7
    assert.equal(-7, x:min():item())
    assert.equal(false, x:gt(-7):all():item())
    assert.equal(true, ty.ones(n):gt(0):logical_and(ty.ones(n):lt(2)):all():item())
  end)

  it("of long rows are those of each row", function()
    local x = ty.zeros(3, 20000):to("bool")
    x[2][1] = true
    x[3][20000] = true
    assert.same({ false, true, true }, x:any(2):totable())
    assert.same({ true, false, false }, x:logical_not():all(2):totable())
  end)
end)

describe("extremes", function()
  it("max and min of every dtype are those of a plain search; NaN wins", function()
    for _, dtype in ipairs(H.dtypes) do
      if not H.wide[dtype] then
        for _, n in ipairs { 1, 2, 15, 16, 17, 33, 513, 4097 } do
          for seed = 1, 3 do
            local x = H.mixed(dtype, n, seed)
            if seed > 1 and H.is_float(dtype) then x = ty.where(x:ne(x), 1, x):to(dtype) end
            local list = H.list(x)
            for _, name in ipairs { "max", "min" } do
              local at = first_extreme(list, name == "max")
              local y = H.doubles(ty[name](x))[0]
              if list[at] ~= list[at] then assert.truthy(y ~= y) else assert.equal(list[at], y) end
              local arg = ty["arg" .. name](x)
              assert.equal("i64", arg.dtype)
              assert.equal(at, arg:item())
            end
          end
        end
      end
    end
  end)

  it("max and min of i64 are exact beyond 2^53", function()
    local v = ffi.new("int64_t[4]", { 9007199254740993LL, 9007199254740992LL, -9007199254740993LL, -9007199254740992LL })
    local x = H.tensor("i64", ffi.cast("uint8_t *", v), { 4 })
    H.same(x[1], x:max())
    H.same(x[3], x:min())
    assert.equal(1, x:argmax():item())
    assert.equal(3, x:argmin():item())
  end)

  it("-0 lies below +0 for max and min, but both are equal for argmax and argmin", function()
    local x = ty.tensor { -0.0, 0, -0.0 }
    assert.equal(math.huge, 1 / x:max():item())
    assert.equal(-math.huge, 1 / x:min():item())
    assert.equal(1, x:argmax():item())
    assert.equal(1, x:argmin():item())
  end)

  it("along dims agree with extremes of each line", function()
    local x = H.mixed("f32", { 6, 50, 4 }, 3)
    for d = 1, 3 do
      for _, name in ipairs { "max", "min", "argmax", "argmin" } do
        local y = ty[name](x, d)
        local lines = x:movedim(d, -1):reshape(-1, x:size(d))
        local flat = y:reshape(-1)
        for i = 1, flat:numel(), 7 do H.same(ty[name](lines[i]), flat[i], name) end
      end
    end
  end)

  it("of nothing raise", function()
    for _, name in ipairs { "max", "min", "argmax", "argmin" } do
      assert.truthy(H.raises(ty[name], ty.zeros { 0 }):find("^" .. name .. ": "))
      assert.truthy(H.raises(ty[name], ty.zeros { 3, 0 }, 2):find("^" .. name .. ": "))
      assert.equal(0, ty[name](ty.zeros { 0, 3 }, 2):numel())
    end
  end)
end)

-- Scans -------------------------------------------------------------------------------------------------------------

describe("scans", function()
  for _, name in ipairs { "cumsum", "cumprod" } do
    it(name .. " goes by groups of 16, blocks of 4096, carry and offset", function()
      for _, dtype in ipairs(FLOATS) do
        for _, n in ipairs(LENGTHS) do
          local low, high = -10, 10
          if name == "cumprod" then low, high = 0.99, 1.01 end
          local x = rough(dtype, { n }, n, low, high)
          local y = ffi.new("double[?]", math.max(n, 1))
          oracle.oracle_scan(name, single(dtype), n, H.doubles(x), y)
          H.same_bytes(rounded(dtype, y, n), ty[name](x, 1), ("%s, n = %d"):format(dtype, n))
        end
      end
    end)
  end

  it("along any dim are those of each line", function()
    local x = rough("f32", { 5, 40, 6 }, 1)
    for _, name in ipairs { "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp" } do
      for d = 1, 3 do
        local y = ty[name](x, d)
        assert.same(x.shape, y.shape)
        local from = x:movedim(d, -1):reshape(-1, x:size(d))
        local to = y:movedim(d, -1):reshape(-1, x:size(d))
        for i = 1, from:size(1), 11 do H.same(ty[name](from[i], 1), to[i], name) end
      end
    end
  end)

  it("of integers and bool are exact and wrap; extremes keep the dtype", function()
    for _, dtype in ipairs { "bool", "u8", "i8", "i16", "i32", "i64" } do
      local n = 100
      local x = H.mixed(dtype, n, 3)
      local v = ffi.cast("int64_t *", (H.bytes(x:to("i64"))))
      local sum, product = ffi.new("int64_t[?]", n), ffi.new("int64_t[?]", n)
      local high, low = ffi.new("int64_t[?]", n), ffi.new("int64_t[?]", n)
      for i = 0, n - 1 do
        sum[i] = (i > 0 and sum[i - 1] or 0LL) + v[i]
        product[i] = (i > 0 and product[i - 1] or 1LL) * v[i]
        high[i] = i > 0 and high[i - 1] > v[i] and high[i - 1] or v[i]
        low[i] = i > 0 and low[i - 1] < v[i] and low[i - 1] or v[i]
      end
      H.same_bytes(ffi.cast("uint8_t *", sum), x:cumsum(1), dtype)
      H.same_bytes(ffi.cast("uint8_t *", product), x:cumprod(1), dtype)
      H.same_bytes(H.store(dtype, high, n), x:cummax(1), dtype)
      H.same_bytes(H.store(dtype, low, n), x:cummin(1), dtype)
    end
  end)

  it("of extremes keep a NaN that came by", function()
    for _, n in ipairs { 3, 40, 5000 } do
      local x = rough("f32", { n }, n)
      x:set(2, 0 / 0)
      for _, name in ipairs { "cummax", "cummin" } do
        local y = ty[name](x, 1)
        assert.equal(x:get(1), y:get(1))
        assert.truthy(y[{ { 2, -1 } }]:isnan():all():item())
      end
    end
  end)

  it("logcumsumexp is within its bound of the exact running sum, infinities and large values included", function()
    local bound = H.op.logcumsumexp.bound
    for _, dtype in ipairs { "f32", "f64" } do
      for _, n in ipairs { 1, 2, 17, 300 } do
        local x = rough(dtype, { n }, n, -50, 50)
        local v, got, sum, top = H.doubles(x), H.doubles(x:logcumsumexp(1)), 0, -math.huge
        for i = 0, n - 1 do
          local m = math.max(top, v[i]) -- a sum of doubles relative to the largest: far better than f32, near f64
          sum, top = sum * math.exp(top - m) + math.exp(v[i] - m), m
          local d = oracle.oracle_distance(dtype, top + math.log(sum), got[i])
          assert.truthy(d <= bound * (dtype == "f64" and 4 or 1), ("%s: %g ulp at %d"):format(dtype, d, i + 1))
        end
      end
    end
    local inf = math.huge
    assert.same({ -inf, -inf, 0, inf, inf }, ty.tensor({ -inf, -inf, 0, inf, 3 }):logcumsumexp(1):totable())
    assert.equal(1000 + math.log(2), ty.tensor({ 1000, 1000 }, { dtype = "f64" }):logcumsumexp(1):get(2))
  end)
end)

-- Products ----------------------------------------------------------------------------------------------------------

local function product(dtype, a, b, m, n, k)
  local y = ffi.new("double[?]", math.max(1, m * n))
  oracle.oracle_product(single(dtype), m, n, k, H.doubles(a), H.doubles(b), y)
  return rounded(dtype, y, m * n)
end

local SIZES = { -- m, n, k
  { 1, 1, 1 }, { 1, 5, 7 }, { 2, 3, 4 }, { 5, 1, 33 }, { 3, 1, 5000 }, { 7, 9, 255 }, { 7, 9, 256 }, { 7, 9, 257 },
  { 4, 3, 700 }, { 16, 16, 16 }, { 17, 33, 65 }, { 1, 40, 600 }, { 65, 66, 30 }, { 3, 4, 0 }, { 0, 4, 5 }, { 4, 0, 5 },
  { 13, 130, 40 }, { 130, 13, 40 }, { 33, 1, 513 }, { 2, 2, 1025 },
}

describe("matmul", function()
  it("sums each element by ascending fma in blocks of 256, a single column by lanes", function()
    for _, dtype in ipairs(FLOATS) do
      for i, s in ipairs(SIZES) do
        local m, n, k = s[1], s[2], s[3]
        local a, b = rough(dtype, { m, k }, i), rough(dtype, { k, n }, i + 50)
        H.same_bytes(product(dtype, a, b, m, n, k), a:matmul(b), ("%s %d x %d x %d"):format(dtype, m, k, n))
      end
    end
  end)

  it("gives the same bits for transposed, sliced and reversed operands", function()
    for _, dtype in ipairs(FLOATS) do
      for i, s in ipairs(SIZES) do
        local m, n, k = s[1], s[2], s[3]
        local a, b = rough(dtype, { m, k }, i), rough(dtype, { k, n }, i + 50)
        local want = a:matmul(b)
        H.same(want, a:t():clone():t():matmul(b), dtype)
        H.same(want, a:matmul(b:t():clone():t()), dtype)
        H.same(want, a:flip():clone():flip():matmul(b:flip():clone():flip()), dtype)
        local wide = ty.zeros({ k, 2 * n + 1 }, { dtype = dtype })
        if n > 0 then
          local part = wide[{ {}, { 2, 2 * n, 2 } }]
          part:copy_(b)
          H.same(want, a:matmul(part), dtype)
        end
      end
    end
  end)

  it("of integers wraps in the operands' dtype; of bool counts in i64", function()
    for _, dtype in ipairs { "bool", "u8", "i8", "i16", "i32", "i64" } do
      for i, s in ipairs(SIZES) do
        local m, n, k = s[1], s[2], s[3]
        local a, b = H.mixed(dtype, { m, k }, i), H.mixed(dtype, { k, n }, i + 9)
        local y, out = ffi.new("int64_t[?]", math.max(1, m * n)), dtype == "bool" and "i64" or dtype
        local wa, wb = H.bytes(a:to("i64")), H.bytes(b:to("i64"))
        oracle.oracle_product_int(m, n, k, ffi.cast("int64_t *", wa), ffi.cast("int64_t *", wb), y)
        local got = a:matmul(b)
        assert.equal(out, got.dtype)
        H.same_bytes(H.store(out, y, m * n), got, ("%s %d x %d x %d"):format(dtype, m, k, n))
      end
    end
  end)

  it("takes vectors as rows and columns, and stacks of matrices that broadcast", function()
    local a, b = rough("f32", { 2, 1, 3, 4 }, 1), rough("f32", { 5, 4, 6 }, 2)
    local y = a:matmul(b)
    assert.same({ 2, 5, 3, 6 }, y.shape)
    for i = 1, 2 do
      for j = 1, 5 do H.same(a[{ i, 1 }]:matmul(b[j]), y[{ i, j }]) end
    end
    local v, w = rough("f32", { 4 }, 3), rough("f32", { 3 }, 4)
    H.same(a:matmul(v:unsqueeze(2)):squeeze(4), a:matmul(v))
    H.same(w:unsqueeze(1):matmul(a):squeeze(3), w:matmul(a))
    H.same(v:unsqueeze(1):matmul(v:unsqueeze(2)):reshape {}, v:matmul(v))
    assert.same({ 2, 5, 6 }, v:matmul(rough("f32", { 2, 5, 4, 6 }, 5)).shape)
  end)

  it("of nothing along k is +0", function()
    local y = ty.zeros(3, 0):matmul(ty.zeros(0, 2))
    assert.same({ { 0, 0 }, { 0, 0 }, { 0, 0 } }, y:totable())
    assert.equal(math.huge, 1 / y:get(1, 1))
  end)

  it("keeps infinities and NaN in their rows and columns", function()
    local a, b = ty.ones(20, 30), ty.ones(30, 20)
    a:set(3, 7, math.huge)
    b:set(9, 5, 0 / 0)
    local y = a:matmul(b)
    for i = 1, 20 do
      for j = 1, 20 do
        local v = y:get(i, j)
        if j == 5 then assert.truthy(v ~= v) elseif i == 3 then assert.equal(math.huge, v) else assert.equal(30, v) end
      end
    end
  end)

  it("names shapes that do not go together", function()
    assert.equal("matmul: inner sizes differ, f32[2,3] x f32[4,5]", H.raises(ty.matmul, ty.zeros(2, 3), ty.zeros(4, 5)))
    assert.truthy(H.raises(ty.matmul, ty.zeros(2, 3, 4), ty.zeros(3, 4, 5)):find("^matmul: leading sizes"))
    assert.truthy(H.raises(ty.matmul, ty.tensor(1), ty.zeros(3)):find("^matmul: "))
  end)
end)

-- Nothing else shows in the bits ------------------------------------------------------------------------------------

local programs = {
  { "sums of maps", function(x) return (x * 2 + 1):exp():sum(2), x:abs():sum(1), x:sum() * 3 - 1 end },
  { "means and variances", function(x) return x:mean(2), x:var(1), x:std(2), x:norm(2, 1) end },
  { "softmax and norms", function(x) return x:softmax(), x:softmax(1), x:layer_norm(), x:rms_norm(), x:log_softmax() end },
  { "scans of maps", function(x) return (x * 0.5):cumsum(2), x:cumprod(1):neg(), x:logcumsumexp(2) end },
  { "products with an epilogue", function(x) return (x:matmul(x:t()) + 1):relu(), x:t():matmul(x):gelu():sum(1) end, long = 300 },
  { "extremes of maps", function(x) return (x * x):max(1), (-x):argmax(2), x:abs():min() end },
}

local function results(fn, ...) return { n = select("#", fn(...)), fn(...) } end

describe("the bits of reductions, scans and products do not depend on", function()
  for _, program in ipairs(programs) do
    it(("fusion and layout: %s"):format(program[1]), function()
      local fn = program[2]
      local compiled = ty.compile(fn)
      for _, dtype in ipairs(FLOATS) do
        for _, shape in ipairs { { 3, 17 }, { 70, 130 }, { 1, program.long or 5000 }, { 600, 3 } } do
          local x = rough(dtype, shape, shape[2], -2, 2)
          local want = results(fn, x)
          for _, v in ipairs { x, x:t():clone():t(), x:flip():clone():flip() } do
            local eager, lazy = results(fn, v), results(compiled, v)
            for i = 1, want.n do
              H.same(want[i], eager[i], "eager")
              H.same(want[i], lazy[i], "compiled")
            end
          end
        end
      end
    end)
  end

  it("fusion, over rows of many blocks and wide columns", function()
    local fns = {
      function(x) return x:var(2), (x * x):sum(2) end,
      function(x) return x:softmax(2) end,
      function(x) return x:logsumexp(2), (x - x:mean(2, true)):abs():max(2) end,
      function(x) return x:var(1), (x - x:mean(1, true)) * 0.5 end,
      function(x) return x:var(), (x + 1):mean(1) end,
    }
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      for _, shape in ipairs { { 2, 8191 }, { 1, 8192 }, { 3, 27225 }, { 1, 200000 }, { 13, 1500 }, { 300, 1024 } } do
        local x = rough(dtype, shape, 9, -2, 2)
        for i, fn in ipairs(fns) do
          local eager, lazy = { fn(x) }, { ty.compile(fn)(x) }
          for k = 1, #eager do H.same(eager[k], lazy[k], ("%s, function %d, result %d"):format(dtype, i, k)) end
        end
      end
    end
  end)

  it("the number of threads", function()
    local before = ty.threads()
    local inputs = { rough("f32", { 700, 900 }, 1, -2, 2), rough("f32", { 3, 200000 }, 2), rough("f64", { 200000, 3 }, 3) }
    local one = {}
    for threads = 1, 4 do
      ty.threads(threads)
      for i, x in ipairs(inputs) do
        local y = { x:sum(), x:sum(1), x:sum(2), x:cumsum(2), x:softmax(), x:max(1), x:argmax(), (x + 1):exp() }
        if i == 1 then y[#y + 1] = x:matmul(x:t()) end
        one[i] = one[i] or y
        for k, t in ipairs(y) do H.same(one[i][k], t, threads .. " threads") end
      end
    end
    ty.threads(before)
  end)

  it("what else is summed beside, of values that are the same in a whole row", function()
    local value_and_grad = ty.value_and_grad(function(x)
      local row = x:tile { 6 }
      local all = row:reshape(2, 3)
      local sum = ty.zeros({}, { dtype = "f64" })
      for i, v in ipairs { x, x:flatten(), row, all, all:min { 1, 2 } } do
        local w = (ty.arange(v:numel(), { dtype = "f64" }) * 0.7 + i):sin() + 0.5
        sum = sum + (v:to "f64" * w:reshape(v.shape)):sum()
      end
      return sum
    end)
    local compiled = ty.compile(function(x) return value_and_grad(x) end)
    local x = ty.tensor { 0.7 }
    local y, g = value_and_grad(x)
    local cy, cg = compiled(x)
    H.same(y, cy)
    H.same(g, cg)
  end)

  it("the instruction set", function()
    local code = [[
      local ty = require "tycho"
      ty.manual_seed(3)
      local x = ty.randn(70, 300)
      local function all(x)
        return ty.cat { x:sum(2), x:softmax(2):sum(2), x:matmul(x:t()):reshape(-1), x:cumsum(2):reshape(-1), x:sin():reshape(-1),
          x:erf():reshape(-1), x:abs():pow(1.7):reshape(-1), x:to("bf16"):exp():to("f32"):reshape(-1) }
      end
      local f, hash = jit.compile(all), 0
      local y = f(x):view_as("i32"):to("i64")
      print((y * (ty.arange(y:numel(), { dtype = "i64" }) % 1009 + 1)):sum():view_as("f64"):view_as("i64") % 1000003)
    ]]
    local want
    for _, isa in ipairs { "avx512", "avx2", "base" } do
      local out, status = H.script(code, { TYCHO_ISA = isa })
      assert.equal(0, status, out)
      want = want or out
      assert.equal(want, out, isa)
    end
  end)
end)
