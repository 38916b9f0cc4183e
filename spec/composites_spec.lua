--- composites_spec.lua -- functions made of operations: their formulas in plain Lua, their in-place forms, half floats.

local H = require "spec.helper"
local ty, oracle = H.ty, H.oracle

local exp, log, abs, sqrt, max, min, inf = math.exp, math.log, math.abs, math.sqrt, math.max, math.min, math.huge
local function value(name, a, b) return oracle.oracle_value(name, a, b or 0) end
local function log1p(x) return value("log1p", x) end
local function softplus(x) return max(x, 0) + log1p(exp(-abs(x))) end

local POINTS = { -30, -5.5, -2, -1, -0.5, -1e-3, 0, 1e-3, 0.25, 0.5, 1, 2, 3.25, 8, 40 }

--- Formulas element by element; f takes the element (and that of the second operand).
local formulas = {
  { "square", function(x) return x * x end },
  { "reciprocal", function(x) return 1 / x end },
  { "rsqrt", function(x) return 1 / sqrt(x) end },
  { "sign", function(x) return x > 0 and 1 or x < 0 and -1 or x end },
  { "relu", function(x) return max(x, 0) end },
  { "leaky_relu", function(x) return x > 0 and x or 0.01 * x end },
  { "leaky_relu", function(x) return x > 0 and x or 0.2 * x end, 0.2 },
  { "elu", function(x) return x > 0 and x or value("expm1", x) end },
  { "elu", function(x) return x > 0 and x or 3 * value("expm1", x) end, 3 },
  { "gelu", function(x) return x / 2 * (1 + value("erf", x / sqrt(2))) end, absolute = 1e-15 },
  { "gelu", function(x) return x / 2 * (1 + value("tanh", sqrt(2 / math.pi) * (x + 0.044715 * x ^ 3))) end,
    { approximate = "tanh" }, absolute = 1e-15 },
  { "silu", function(x) return x / (1 + exp(-x)) end },
  { "softplus", softplus },
  { "softplus", function(x) return softplus(3 * x) / 3 end, 3 },
  { "mish", function(x) return x * value("tanh", softplus(x)) end },
  { "sigmoid", function(x) return 1 / (1 + exp(-x)) end },
  { "clamp", function(x) return min(max(x, -1), 2) end, -1, 2 },
  { "lerp", function(x) return x + (10 - x) * 0.25 end, 10, 0.25 },
  { "hypot", function(x) return sqrt(x * x + 9) end, 3 },
  { "logaddexp", function(x) return max(x, 1) + log1p(exp(-abs(x - 1))) end, 1 },
  { "exp2", function(x) return 2 ^ x end },
  { "expm1", function(x) return value("expm1", x) end },
  { "log1p", log1p },
  { "sinh", function(x) return value("sinh", x) end },
  { "cosh", function(x) return value("cosh", x) end },
  { "atan", math.atan },
  { "erfinv", function(x) return value("erfinv", x) end },
  { "pow", function(x) return abs(x) ^ 1.5 end, 1.5, magnitudes = true },
  { "pow", function(x) return x * x end, 2 },
  { "pow", function(x) return x * x * x end, 3 },
  { "pow", function(x) return sqrt(x) end, 0.5 },
  { "pow", function(x) return 1 / x end, -1 },
  { "atan2", function(x) return math.atan2(x, 2) end, 2 },
  { "remainder", function(x) return x % 3 end, 3 },
  { "nan_to_num", function(x) return x end },
}

local function near(want, got, relative, absolute)
  if want ~= want then return got ~= got end
  if want == got then return true end
  return abs(want - got) <= relative * abs(want) + absolute
end

describe("composites follow their formulas:", function()
  for i, row in ipairs(formulas) do
    local name, f = row[1], row[2]
    it(("%s (%d), in f64 and f32, eager and compiled"):format(name, i), function()
      local arguments = { unpack(row, 3) }
      local function call(x) return ty[name](row.magnitudes and x:abs() or x, unpack(arguments)) end
      for dtype, relative in pairs { f64 = 4e-15, f32 = 3e-6 } do
        local x = ty.tensor(POINTS, { dtype = dtype })
        local y = call(x)
        assert.equal(dtype, y.dtype)
        local got, points = H.doubles(y), H.doubles(x)
        for k = 1, #POINTS do
          local want = f(points[k - 1])
          if not near(want, got[k - 1], relative, row.absolute and relative or 0) then
            error(("%s(%g) in %s is %.17g instead of %.17g"):format(name, points[k - 1], dtype, got[k - 1], want))
          end
        end
        H.same(y, ty.compile(call)(x))
      end
    end)
  end

  it("logical operations take what is not zero for true, NaN too", function()
    local a, b = ty.tensor { 0, 0, 2, 0 / 0 }, ty.tensor { 0, -1, 0, 1 }
    assert.same({ false, false, false, true }, a:logical_and(b):totable())
    assert.same({ false, true, true, true }, a:logical_or(b):totable())
    assert.same({ false, true, true, false }, a:logical_xor(b):totable())
    assert.same({ true, true, false, false }, a:logical_not():totable())
    assert.same({ false, true }, ty.tensor({ 5, 6 }, { dtype = "i32" }):bitwise_xor(5):to("bool"):totable())
  end)

  it("written through their first argument they have the gradients that they have else", function()
    local one = { softmin = -1, softmax = -1, log_softmax = -1, lerp = true, addcmul = true, addcdiv = true }
    for _, row in ipairs(ty.internals.composites) do
      local call = row.args:gsub(", [%w_]+ = .*", ""):gsub(", {.*", "")
      if row.inplace and (call == "x" or call == "a, b" or one[row.name]) and row.dtype ~= "bool" and row.name ~= "dropout" then
        local function gradient(name, y)
          local x = ty.tensor({ 0.3, 0.45, 0.6 }, { dtype = "f64" }):requires_grad_()
          local z, half = x * 1, ty.full({ 3 }, 0.5, { dtype = "f64" })
          local ok, why = pcall(function()
            y = z[name](z, call ~= "x" and half or nil, one[row.name] == true and half or nil)
            y = (y * y):sum()
            y:backward()
          end)
          return ok and x.grad or tostring(why):gsub("_:", ":")
        end
        local want, got = gradient(row.name), gradient(row.name .. "_")
        if ty.is_tensor(want) then H.same(want, got, row.name) else assert.equal(want, got, row.name) end
      end
    end
  end)

  it("_like functions take shape and dtype, unless told", function()
    local x = ty.zeros({ 2, 3 }, { dtype = "f16" })
    for _, name in ipairs { "zeros_like", "ones_like", "empty_like", "rand_like", "randn_like" } do
      local y = ty[name](x)
      assert.same({ "f16", { 2, 3 } }, { y.dtype, y.shape }, name)
      assert.equal("f64", ty[name](x, { dtype = "f64" }).dtype)
    end
    assert.same({ { 7, 7, 7 }, { 7, 7, 7 } }, ty.full_like(x, 7):totable())
    assert.equal(2, x:dim())
  end)
end)

describe("gradients of composites where branches meet", function()
  local F64 = { dtype = "f64" }

  it("hypot, logaddexp, logaddexp2 are smooth there: first and second order against differences", function()
    local places = { hypot = { { 3, 0 }, { 0, -3 }, { 2, 2 }, { -2, 2 } }, logaddexp = { { 1, 1 }, { -4, -4 } },
      logaddexp2 = { { 1, 1 }, { 0, 0 } } }
    for name, list in pairs(places) do
      local function of(v) return ty[name](v[1], v[2]) end
      local function slope(v) return (ty.grad(of)(v) * ty.tensor({ 1, 2 }, F64)):sum() end
      for _, p in ipairs(list) do
        assert.is_true(ty.gradcheck(of, ty.tensor(p, F64)), name)
        assert.is_true(ty.gradcheck(slope, ty.tensor(p, F64)), name)
      end
    end
    assert.same({ 0.5, 0.5 }, ty.grad(function(v) return ty.logaddexp(v[1], v[2]) end)(ty.ones(2)):totable())
  end)
end)

describe("reductions follow their formulas:", function()
  local x = ty.tensor({ { 1.5, -2, 3 }, { 0.25, 4, -1 } }, { dtype = "f64" })
  local rows = x:totable()

  local function each_row(fn)
    local y = {}
    for i, r in ipairs(rows) do y[i] = fn(r[1], r[2], r[3]) end
    return y
  end

  local function check(want, y)
    for i, v in ipairs(y:totable()) do assert.near(want[i], v, 1e-14) end
  end

  it("mean, var, std, norm, logsumexp", function()
    check(each_row(function(a, b, c) return (a + b + c) / 3 end), x:mean(2))
    local function variance(a, b, c, n)
      local m = (a + b + c) / 3
      return ((a - m) ^ 2 + (b - m) ^ 2 + (c - m) ^ 2) / n
    end
    check(each_row(function(a, b, c) return variance(a, b, c, 2) end), x:var(2))
    check(each_row(function(a, b, c) return variance(a, b, c, 3) end), x:var(2, false, { correction = 0 }))
    check(each_row(function(a, b, c) return sqrt(variance(a, b, c, 2)) end), x:std(2))
    check(each_row(function(a, b, c) return sqrt(a * a + b * b + c * c) end), x:norm(2, 2))
    check(each_row(function(a, b, c) return abs(a) + abs(b) + abs(c) end), x:norm(1, 2))
    check(each_row(function(a, b, c) return (abs(a) ^ 3 + abs(b) ^ 3 + abs(c) ^ 3) ^ (1 / 3) end), x:norm(3, 2))
    check(each_row(function(a, b, c) return min(abs(a), abs(b), abs(c)) end), x:norm(-inf, 2))
    check(each_row(function(a, b, c) return log(exp(a) + exp(b) + exp(c)) end), x:logsumexp(2))
  end)

  it("softmax, log_softmax, layer_norm, rms_norm", function()
    for i, r in ipairs(rows) do
      local s, m, q = 0, (r[1] + r[2] + r[3]) / 3, 0
      for _, v in ipairs(r) do s, q = s + exp(v), q + v * v end
      local sigma = 0
      for _, v in ipairs(r) do sigma = sigma + (v - m) ^ 2 / 3 end
      for k, v in ipairs(r) do
        assert.near(exp(v) / s, x:softmax():get(i, k), 1e-14)
        assert.near(log(exp(v) / s), x:log_softmax():get(i, k), 1e-14)
        assert.near((v - m) / sqrt(sigma + 1e-5), x:layer_norm():get(i, k), 1e-14)
        assert.near(v / sqrt(q / 3 + 1e-5), x:rms_norm():get(i, k), 1e-14)
      end
    end
    local w, b = ty.tensor({ 2, 3, 4 }, { dtype = "f64" }), ty.tensor({ 1, 0, -1 }, { dtype = "f64" })
    H.same(x:layer_norm() * w + b, x:layer_norm(w, b))
    H.same(x:rms_norm() * w, x:rms_norm(w))
    H.same(x:t():layer_norm():t(), x:layer_norm { dims = 1 }) -- the values do not depend on where the dim stands
  end)

  it("losses with probabilities, smoothing and ignored labels", function()
    local target = ty.tensor({ { 0.5, 0.25, 0.25 }, { 0, 1, 0 } }, { dtype = "f64" })
    local lp = x:log_softmax()
    assert.near(-(lp * target):sum():item() / 2, x:cross_entropy(target):item(), 1e-14)
    local labels = ty.tensor({ 3, 2 }, { dtype = "i64" })
    local a, b = -lp:get(1, 3), -lp:get(2, 2)
    assert.near((a + b) / 2, x:cross_entropy(labels):item(), 1e-14)
    assert.near(a, x:cross_entropy(labels, { ignore_index = 2 }):item(), 1e-14)
    assert.near(a + b, x:cross_entropy(labels, { reduction = "sum" }):item(), 1e-14)
    local mean = -(lp:get(1, 1) + lp:get(1, 2) + lp:get(1, 3)) / 3
    assert.near(0.9 * a + 0.1 * mean, x:cross_entropy(labels, { label_smoothing = 0.1, reduction = "none" }):get(1), 1e-14)
    assert.near((a + b) / 2, x:t():clone():cross_entropy(labels, { dim = 1 }):item(), 1e-14)
  end)
end)

-- In-place forms ----------------------------------------------------------------------------------------------------

describe("every method that ends in _", function()
  local methods = ty.internals.methods
  local i64 = { dtype = "i64" }
  -- arguments for those that need others than a tensor of x's shape for each operand
  local arguments = {
    clamp = { 0.2, 0.8 }, lerp = { 2, 0.25 }, leaky_relu = { 0.1 }, elu = { 2 }, softplus = { 2 }, dropout = { 0.5 },
    addmm = { ty.rand(4, 3), ty.rand(3, 4) }, index_add = { 1, ty.tensor({ 2, 4 }, i64), ty.rand(2, 4) },
    masked_fill = { ty.rand(4, 4):gt(0.5), -1 }, scatter = { 1, ty.ones({ 2, 4 }, i64), ty.rand(2, 4) },
    scatter_add = { 2, ty.full({ 4, 2 }, 3, i64), ty.rand(4, 2) }, nan_to_num = {}, softmax = { 1 }, log_softmax = { 2 },
    subtract = { 2 }, multiply = { 2 }, divide = { 2 }, true_divide = { 2 }, arctan2 = { 2 },
    index_copy = { 2, ty.tensor({ 2, 4 }, i64), ty.rand(4, 2) }, index_fill = { 1, ty.tensor({ 3 }, i64), -1 },
    index_put = { { ty.tensor({ 2, 4 }, i64) }, ty.rand(4) }, masked_scatter = { ty.rand(4, 4):gt(0.5), ty.rand(16) },
    scatter_reduce = { 1, ty.ones({ 2, 4 }, i64), ty.rand(2, 4), "amax" },
    addr = { ty.rand(4), ty.rand(4) },
    clip = { 0.2, 0.8 }, xlogy = { 2 }, addcmul = { ty.rand(4, 4), 2 }, addcdiv = { ty.rand(4, 4), 2 },
    hypot = { 2 }, logaddexp = { 1 }, logical_and = { true }, logical_or = { false }, logical_xor = { true },
    threshold = { 0.5, -1 }, prelu = { ty.rand(4) },
  }
  local only = { fill_ = true, zero_ = true, copy_ = true, uniform_ = true, normal_ = true, requires_grad_ = true,
    bernoulli_ = true, exponential_ = true, cauchy_ = true, log_normal_ = true, geometric_ = true, random_ = true,
    squeeze_ = true, unsqueeze_ = true, transpose_ = true, t_ = true, swapaxes_ = true, swapdims_ = true,
    fill_diagonal_ = true } -- no form without

  for name in pairs(methods) do
    if name:find("[^_]_$") and not only[name] then
      it(name .. " writes what its plain form gives, cast, through views, and returns its tensor", function()
        local base = methods[name:sub(1, -2)]
        assert.truthy(base)
        local row = nil
        for _, r in ipairs(H.ops) do
          if r.lua == name:sub(1, -2) then row = r end
        end
        local list = arguments[name:sub(1, -2)]
        local tried = 0
        for _, dtype in ipairs { "f32", "f64", "f16", "i32", "bool" } do
          local x = dtype == "bool" and ty.rand(4, 4):gt(0.5) or (ty.rand(4, 4) * 5):to(dtype)
          local others = list or {}
          if not list and row and row.arity == 2 then
            others = { ((ty.rand(4, 4) * 3):to(dtype == "bool" and "u8" or dtype) + 1):to(dtype) }
          end
          ty.manual_seed(3)
          local ok, want = pcall(base, x, unpack(others))
          if ok and (H.is_float(want.dtype) == H.is_float(dtype)) then
            tried = tried + 1
            for _, layout in ipairs { function(t) return t:clone() end, function(t) return t:t():clone():t() end,
              function(t) return t:flip():clone():flip() end } do
              local own = layout(x)
              local all = own:view_as(dtype) -- another storage: must not change
              ty.manual_seed(3)
              local same = methods[name](own, unpack(others))
              assert.truthy(rawequal(own, same))
              H.same(want:to(dtype), own, dtype)
              H.same(x, all)
              local again = layout(x)
              local f = ty.compile(function(t) methods[name](t, unpack(others)) end)
              ty.manual_seed(3)
              f(again)
              H.same(want:to(dtype), again, "compiled " .. dtype)
            end
          end
        end
        ty.manual_seed()
        assert.truthy(tried > 0, "no dtype fits")
      end)
    end
  end
end)

-- Half floats -------------------------------------------------------------------------------------------------------

describe("composites of half floats", function()
  it("go through f32 and round once: within a little more than half a unit", function()
    local r = H.random(5)
    for _, dtype in ipairs { "f16", "bf16" } do
      local list = {}
      for i = 1, 400 do list[i] = r.range(-6, 6) end
      local x = ty.tensor(list, { dtype = dtype })
      for _, name in ipairs { "gelu", "silu", "mish", "softplus", "elu", "rsqrt", "sigmoid" } do
        local points, got = H.doubles(x:to("f64")), H.doubles(ty[name](x))
        local exact = H.doubles(ty[name](x:to("f64")))
        for i = 0, 399 do
          local d = oracle.oracle_distance(dtype, exact[i], got[i])
          local cancels = name == "gelu" and points[i] < -2 -- 1 + erf(x) does, by its formula
          assert.truthy(d <= 0.51 or exact[i] ~= exact[i] or cancels, ("%s(%g) in %s: %g ulp"):format(name, points[i], dtype, d))
        end
      end
    end
  end)

  it("norms, softmax and statistics too", function()
    for _, dtype in ipairs { "f16", "bf16" } do
      local x = (ty.rand(20, 50) * 4 - 2):to(dtype)
      local wide = x:to("f64")
      for _, name in ipairs { "softmax", "log_softmax", "layer_norm", "rms_norm", "mean", "var", "std", "norm", "logsumexp", "sum" } do
        local y, exact = ty[name](x), H.doubles(ty[name](wide))
        assert.equal(dtype, y.dtype)
        local got, n = H.doubles(y)
        for i = 0, n - 1 do
          local d = oracle.oracle_distance(dtype, exact[i], got[i])
          assert.truthy(d <= 0.53, ("%s in %s: %g ulp"):format(name, dtype, d))
        end
      end
    end
  end)
end)

describe("erfinv of f32", function()
  it("is within 3 units of what f64 gives, near 0, near 1 and between; zeros keep their sign", function()
    local function check(x)
      local want = ty.erfinv(x:to "f64")
      local unit = ty.exp2(ty.floor(ty.log2(want:abs())) - 23)
      assert.truthy(((ty.erfinv(x):to "f64" - want):abs() / unit):max():item() <= 3)
    end
    local u = (ty.arange(40000, { dtype = "f64" }) + 0.5) / 40000
    check(u:to "f32")
    check((1 - ty.exp(u * -16.5)):minimum(1 - 2 ^ -24):to "f32")
    check(-ty.exp(u * -80):to "f32")
    local y = ty.erfinv(ty.tensor { 0, -0.0, 1, -1, 1.5 })
    assert.equal(math.huge, 1 / y[1]:item())
    assert.equal(-math.huge, 1 / y[2]:item())
    assert.same({ math.huge, -math.huge }, { y[3]:item(), y[4]:item() })
    assert.truthy(y[5]:item() ~= y[5]:item())
  end)
end)
