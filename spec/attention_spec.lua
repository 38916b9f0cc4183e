--- attention_spec.lua -- scaled dot-product attention against loops over every query and key in doubles.

local H = require "spec.helper"
local ty = H.ty
local INF = math.huge
local attend = ty.scaled_dot_product_attention

-- The oracle ------------------------------------------------------------------------------------------------------------

--- exp(s - top) of every key that query i sees, and their sum. seen(i, j), bias(i, j): a mask of either kind, or nil.
local function weights(q, k, i, m, d, o)
  local p, top, sum = {}, -INF, 0
  for j = 1, m do
    local s = 0
    for c = 1, d do s = s + q[(i - 1) * d + c] * k[(j - 1) * d + c] end
    s = s * o.scale
    if o.bias then s = s + o.bias(i, j) end
    if o.seen and not o.seen(i, j) or o.causal and j > i + m - o.n then s = -INF end
    p[j] = s
    if s > top then top = s end
  end
  if top == -INF then top = 0 end
  for j = 1, m do
    p[j] = math.exp(p[j] - top)
    sum = sum + p[j]
  end
  for j = 1, m do p[j] = sum == 0 and 0 or p[j] / sum end
  return p
end

--- Results and gradients of queries, keys, values for the gradient g of the result, of one head, as flat lists.
local function oracle(q, k, v, g, n, m, d, dv, o)
  local y, dq, dk, dvs = {}, {}, {}, {}
  for i = 1, n * d do dq[i] = 0 end
  for i = 1, m * d do dk[i] = 0 end
  for i = 1, m * dv do dvs[i] = 0 end
  o.n = n
  for i = 1, n do
    local p, dp, mean = weights(q, k, i, m, d, o), {}, 0
    for c = 1, dv do
      local sum = 0
      for j = 1, m do sum = sum + p[j] * v[(j - 1) * dv + c] end
      y[(i - 1) * dv + c] = sum
    end
    for j = 1, m do
      local sum = 0
      for c = 1, dv do sum = sum + g[(i - 1) * dv + c] * v[(j - 1) * dv + c] end
      dp[j] = sum
      mean = mean + p[j] * sum
    end
    for j = 1, m do
      local ds = p[j] * (dp[j] - mean) * o.scale
      for c = 1, d do
        dq[(i - 1) * d + c] = dq[(i - 1) * d + c] + ds * k[(j - 1) * d + c]
        dk[(j - 1) * d + c] = dk[(j - 1) * d + c] + ds * q[(i - 1) * d + c]
      end
      for c = 1, dv do dvs[(j - 1) * dv + c] = dvs[(j - 1) * dv + c] + p[j] * g[(i - 1) * dv + c] end
    end
  end
  return { y, dq, dk, dvs }
end

-- Comparing -------------------------------------------------------------------------------------------------------------

local function near(want, got, eps, what)
  local list = H.list(got)
  assert.equal(#want, #list, what)
  for i = 1, #want do
    local off = math.abs(want[i] - list[i])
    if off ~= off or off > eps * (1 + math.abs(want[i])) then
      error(("%s: element %d is %.17g, not %.17g"):format(what, i, list[i], want[i]), 2)
    end
  end
end

local seed = 0
local function plain(dtype, ...)
  seed = seed + 1
  local r, list, n, sizes = H.random(seed), {}, 1, { ... }
  for i = 1, #sizes do n = n * sizes[i] end
  for i = 1, n do list[i] = r.range(-1.5, 1.5) end
  if n == 0 then return ty.zeros(sizes, { dtype = dtype }) end
  return ty.tensor(list, { dtype = dtype }):reshape(sizes)
end

local masks = {
  none = function() return nil end,
  causal = function() return { causal = true } end,
  bool = function(n, m)
    local seen = ty.arange(n * m):mul(7):remainder(5):gt(1):reshape(n, m)
    return { mask = seen }
  end,
  added = function(n, m, dtype) return { mask = plain(dtype, n, m), causal = true } end,
}

--- What the oracle needs to know of the options.
local function told(opts, d)
  local o = { scale = opts.scale or 1 / math.sqrt(math.max(d, 1)), causal = opts.causal }
  if opts.mask then
    local list = opts.mask:totable()
    if opts.mask.dtype == "bool" then o.seen = function(i, j) return list[i][j] end
    else o.bias = function(i, j) return list[i][j] end end
  end
  return o
end

local function checked(dtype, n, m, d, dv, opts, what)
  local q, k, v, g = plain(dtype, n, d), plain(dtype, m, d), plain(dtype, m, dv), plain(dtype, n, dv)
  local want = oracle(H.list(q), H.list(k), H.list(v), H.list(g), n, m, d, dv, told(opts, d))
  local eps = dtype == "f64" and 1e-13 or 1e-5
  near(want[1], attend(q, k, v, opts), eps, what)
  local got = ty.grad(function(x) return (attend(x[1], x[2], x[3], opts) * g):sum() end)({ q, k, v })
  for i = 1, 3 do near(want[i + 1], got[i], 10 * eps, what .. " gradient " .. i) end
end

describe("attention", function()
  for _, name in ipairs { "none", "causal", "bool", "added" } do
    it("and its gradients are what loops give, mask: " .. name, function()
      for _, dtype in ipairs { "f64", "f32" } do
        for _, n in ipairs { 0, 1, 17, 33 } do
          for _, m in ipairs { 1, 17, 33, 65 } do
            for _, d in ipairs { 1, 8 } do
              local opts = masks[name](n, m, dtype) or {}
              if n > 0 or not opts.mask then
                checked(dtype, n, m, d, d + 2, opts, ("%s %dx%d features %d"):format(dtype, n, m, d))
              end
            end
          end
        end
        for _, s in ipairs { { 513, 33, 64, 3 }, { 33, 513, 8, 64 }, { 130, 130, 80, 80 }, { 2, 3, 300, 270 } } do
          local n, m, d, dv = unpack(s)
          checked(dtype, n, m, d, dv, masks[name](n, m, dtype) or {}, ("%s %dx%d"):format(dtype, n, m))
        end
      end
    end)
  end

  it("of no keys is zeros, of no features the mean", function()
    assert.same({ { 0, 0 }, { 0, 0 }, { 0, 0 } }, attend(ty.ones(3, 4), ty.ones(0, 4), ty.ones(0, 2)):totable())
    assert.same({ { 2.5 } }, attend(ty.ones(1, 0), ty.ones(4, 0), ty.tensor { { 1 }, { 2 }, { 3 }, { 4 } }):totable())
    assert.same({ 3, 0 }, attend(ty.ones(3, 2), ty.ones(4, 2), ty.ones(4, 0)).shape)
    assert.same({ 0, 2, 5 }, attend(ty.ones(0, 2, 3), ty.ones(0, 4, 3), ty.ones(0, 4, 5)).shape)
    local x = ty.ones(2, 3):requires_grad_()
    attend(x, ty.ones(0, 3), ty.ones(0, 1)):sum():backward()
    assert.same({ { 0, 0, 0 }, { 0, 0, 0 } }, x.grad:totable())
  end)

  it("shows infinities and NaNs to those queries alone that see them", function()
    local nan = 0 / 0
    local q, v = ty.ones(70, 2), ty.ones(70, 1)
    local k = ty.ones(70, 2)
    k:set(66, 1, nan)
    local y = H.list(attend(q, k, v, { causal = true }))
    for i = 1, 70 do
      if i < 66 then assert.near(1, y[i], 1e-6) else assert.is_true(y[i] ~= y[i], i) end
    end
    local low = ty.ones(70, 2) -- a score of -inf weighs nothing
    low:set(3, 2, -INF)
    v:set(3, 1, 1e30)
    for _, w in ipairs(H.list(attend(q, low, v))) do assert.near(1, w, 1e-6) end
    low:set(3, 2, INF)
    assert.is_true(ty.isnan(attend(q, low, v)):all():item())
  end)

  it("has the bits of dense operands for any layout", function()
    local all = plain("f32", 2, 40, 3, 4, 16) -- a projection: batch, positions, three, heads, features
    local function part(i) return all:narrow(3, i, 1):squeeze(3):transpose(2, 3) end
    local q, k, v = part(1), part(2), part(3)
    local function bits(a, b, c, opts)
      local want = attend(a:clone():contiguous(), b:clone():contiguous(), c:clone():contiguous(), opts):contiguous()
      H.same(want, attend(a, b, c, opts):contiguous())
      H.same(want, ty.compile(function(x, y, z) return attend(x, y, z, opts) end)(a, b, c))
    end
    bits(q, k, v)
    bits(q, k, v, { causal = true })
    bits(q:transpose(3, 4):contiguous():transpose(3, 4), k:flip(3), v:flip(4))
    bits(q, k:narrow(2, 1, 1), v:narrow(2, 1, 1):expand(2, 4, 40, 16))
    bits(q, k, v, { mask = plain("f32", 40):expand(40, 40):t() })
    bits(q, k, v, { mask = ty.rand(2, 1, 1, 40):gt(0.4) })
    bits(q[{ {}, {}, { 1, 39, 2 } }], k, v, { mask = plain("f32", 40, 40)[{ { 40, 2, -2 } }] })
  end)

  it("weighs by the library's own exp, to the bit", function()
    for _, dtype in ipairs { "f32", "f64" } do
      local n = 4000
      local x = ty.arange(n, { dtype = dtype }) * (dtype == "f32" and -110 / n or -760 / n)
      local k = ty.cat({ ty.zeros({ n, 1, 1 }, { dtype = dtype }), x:reshape(n, 1, 1) }, 2)
      local one = ty.ones({ n, 1, 1 }, { dtype = dtype })
      local e = x:exp()
      H.same(e * (1 / (e + 1)), attend(one, k, ty.eye(2, { dtype = dtype }), { scale = 1 })[{ {}, 1, 2 }]:contiguous())
    end
  end)

  it("lets fewer heads of keys and values serve heads side by side", function()
    local q, k, v = plain("f64", 2, 6, 5, 4), plain("f64", 2, 3, 7, 4), plain("f64", 2, 3, 7, 4)
    local mask = plain("f64", 6, 5, 7)
    for _, m in ipairs { false, mask, mask:narrow(1, 1, 1) } do
      local opts = { causal = true, mask = m or nil }
      local want = attend(q, k:repeat_interleave(2, 2), v:repeat_interleave(2, 2), opts)
      H.same(want:contiguous(), attend(q, k, v, opts):contiguous())
    end
  end)

  it("of examples under vmap is what each gives alone, gradients too", function()
    local q, k, v = plain("f64", 4, 2, 7, 3), plain("f64", 4, 2, 9, 3), plain("f64", 2, 9, 5)
    local seen = ty.arange(63):remainder(5):gt(1):reshape(7, 9)
    local function fn(a, b, c) return attend(a, b, c, { mask = seen, causal = true }) end
    local function loss(a, b, c) return fn(a, b, c):sin():sum() end
    local each, slopes = ty.vmap(fn, { 1, 1, false })(q, k, v), ty.vmap(ty.grad(loss, { 1, 2, 3 }), { 1, 1, false })
    local got = { slopes(q, k, v) }
    local outer = ty.grad(function(x) return ty.vmap(loss, { 1, 1, false })(x[1], x[2], x[3]):sum() end)({ q, k, v })
    for i = 1, 4 do
      H.same(fn(q[i], k[i], v):contiguous(), each[i]:contiguous())
      local want = { ty.grad(loss, { 1, 2, 3 })(q[i], k[i], v) }
      for j = 1, 3 do near(H.list(want[j]), got[j][i], 1e-13, "inner gradient " .. j) end
      for j = 1, 2 do near(H.list(want[j]), outer[j][i], 1e-13, "outer gradient " .. j) end
    end
    near(H.list(got[3]:sum(1)), outer[3], 1e-13, "outer gradient 3")
    local one = ty.vmap(function() return attend(ty.ones(1, 2), ty.ones(60, 2), ty.ones(60, 1), { dropout = 0.5 }) end,
      { randomness = "different" })
    local drawn = H.list(one(ty.ones(3)))
    assert.truthy(drawn[1] ~= drawn[2] or drawn[2] ~= drawn[3])
  end)

  it("rounds half floats once", function()
    for _, dtype in ipairs { "f16", "bf16" } do
      local q, k, v = plain(dtype, 3, 17, 8), plain(dtype, 3, 20, 8), plain(dtype, 3, 20, 8)
      local want = attend(q:to "f32", k:to "f32", v:to "f32"):to(dtype)
      H.same(want:contiguous(), attend(q, k, v):contiguous())
    end
  end)

  it("keeps its past apart from what is written to its result later", function()
    local q, k = plain("f64", 5, 4), plain("f64", 6, 4)
    local function gradient(spoil)
      local x = q:clone():requires_grad_()
      local y = attend(x, k, k)
      local loss = (y * 3):sum()
      if spoil then ty.no_grad(function() y:detach():zero_() end) end
      loss:backward()
      return x.grad
    end
    H.same(gradient(false), gradient(true))
  end)
end)

describe("gradients of attention", function()
  --- The sum of fn over `inputs`, weighted, as a function of element e of input i.
  local function differences(fn, inputs, i, e)
    local at = inputs[i]:flatten():get(e)
    local function moved(d)
      local list = { unpack(inputs) }
      local flat = inputs[i]:flatten():clone()
      flat:set(e, at + d)
      list[i] = flat:reshape(inputs[i].shape)
      return fn(unpack(list)):item()
    end
    return (moved(1e-4) - moved(-1e-4)) / 2e-4
  end

  local ragged = ty.tensor { { true, false, true }, { false, false, false } }
  for name, opts in pairs { plain = {}, causal = { causal = true }, scaled = { scale = 0.3 }, masked = { mask = ragged },
    dropped = { dropout = 0.4 }, ["causal and dropped"] = { causal = true, dropout = 0.4 },
    ["masked and dropped"] = { mask = ragged, dropout = 0.3 } } do
    it("have gradients of their own, " .. name, function()
      local inputs = { plain("f64", 2, 2, 3), plain("f64", 2, 3, 3), plain("f64", 2, 3, 2) }
      local w = { plain("f64", 2, 2, 3), plain("f64", 2, 3, 3), plain("f64", 2, 3, 2) }
      local function first(q, k, v)
        ty.manual_seed(5)
        local g = ty.grad(function(x) return attend(x[1], x[2], x[3], opts):sin():sum() end)({ q, k, v })
        return (g[1] * w[1]):sum() + (g[2] * w[2]):sum() + (g[3] * w[3]):sum()
      end
      local got = ty.grad(function(x) return first(x[1], x[2], x[3]) end)(inputs)
      for i = 1, 3 do
        local list = H.list(got[i])
        for e = 1, #list do assert.near(differences(first, inputs, i, e), list[e], 1e-6) end
      end
    end)
  end

  it("of the second order are the Hessian, compiled too, to no keys zero", function()
    local k, v, w = plain("f64", 2, 4, 3), plain("f64", 2, 4, 2), plain("f64", 18)
    for _, opts in ipairs { {}, { dropout = 0.4 }, { mask = plain("f64", 3, 4), causal = true, dropout = 0.3 } } do
      local function loss(q) return attend(q, k, v, opts):sin():sum() end
      local function slope(q)
        ty.manual_seed(5)
        return (ty.grad(loss)(q):flatten() * w):sum()
      end
      local function hessian(q) return ty.hessian(loss)(q) end
      local q, compiled = plain("f64", 2, 3, 3), ty.compile(hessian)
      ty.manual_seed(5)
      local got = hessian(q)
      for _ = 1, 2 do
        ty.manual_seed(5)
        H.same(got, compiled(q))
      end
      local rows = got:reshape(18, 18)
      assert.truthy((rows - rows:t()):abs():max():item() < 1e-12)
      local along = H.list(w:matmul(rows))
      for e = 1, 18 do assert.near(differences(slope, { q }, 1, e), along[e], 1e-6) end
    end
    local function none(q) return attend(q, ty.zeros({ 0, 3 }, { dtype = "f64" }), ty.zeros({ 0, 1 }, { dtype = "f64" })) end
    local twice = ty.grad(function(q) return ty.grad(function(x) return none(x):sum() end)(q):sum() end)
    assert.same({ { 0, 0, 0 } }, twice(plain("f64", 1, 3)):totable())
  end)

  it("under dropout of the third order, and of a mask twice, are what differences give", function()
    local q, k, v, m, w = plain("f64", 3, 3), plain("f64", 4, 3), plain("f64", 4, 2), plain("f64", 3, 4), plain("f64", 3, 3)
    local function loss(x, mask)
      ty.manual_seed(5)
      return attend(x, k, v, { mask = mask, dropout = 0.4 }):sin():sum()
    end
    local function second(x) return (ty.grad(function(y) return (ty.grad(loss)(y) * w):sum() end)(x) * w):sum() end
    local third = H.list(ty.grad(second)(q))
    for e = 1, 9 do assert.near(differences(second, { q }, 1, e), third[e], 1e-6) end
    local function slope(x, mask)
      local a, b = ty.grad(loss, { 1, 2 })(x, mask)
      return (a * w):sum() + (b * m):sum()
    end
    local a, b = ty.grad(slope, { 1, 2 })(q, m)
    a, b = H.list(a), H.list(b)
    for e = 1, 9 do assert.near(differences(slope, { q, m }, 1, e), a[e], 1e-6) end
    for e = 1, 12 do assert.near(differences(slope, { q, m }, 2, e), b[e], 1e-6) end
  end)

  it("go to a mask of floats, and to what is broadcast", function()
    local inputs = { plain("f64", 2, 1, 3, 2), plain("f64", 2, 4, 2), plain("f64", 1, 1, 4, 2), plain("f64", 4) }
    local function fn(q, k, v, m) return attend(q, k, v, { mask = m, causal = true }):sin():sum() end
    local got = ty.grad(function(x) return fn(x[1], x[2], x[3], x[4]) end)(inputs)
    for i = 1, 4 do
      assert.same(inputs[i].shape, got[i].shape)
      local list = H.list(got[i])
      for e = 1, #list do assert.near(differences(fn, inputs, i, e), list[e], 1e-6) end
    end
  end)

  it("drop the weights that were dropped, in eager mode and compiled", function()
    local q, k, v, g = plain("f64", 2, 70, 4), plain("f64", 2, 80, 4), plain("f64", 2, 80, 3), plain("f64", 2, 70, 3)
    local function loss(a, b, c)
      ty.manual_seed(9)
      return (attend(a, b, c, { dropout = 0.4 }) * g):sum()
    end
    local got = ty.grad(function(x) return loss(x[1], x[2], x[3]) end)({ q, k, v })
    local inputs = { q, k, v }
    for i = 1, 3 do
      for _, e in ipairs { 1, 7, 130 } do
        assert.near(differences(loss, inputs, i, e), got[i]:flatten():get(e), 1e-6)
      end
    end
    local function step(a, b, c)
      return ty.grad(function(x) return (attend(x[1], x[2], x[3], { dropout = 0.4 }) * g):sum() end)({ a, b, c })[1]
    end
    local compiled = ty.compile(step)
    for _ = 1, 3 do
      ty.manual_seed(4)
      local want = step(q, k, v)
      ty.manual_seed(4)
      H.same(want, compiled(q, k, v))
    end
    local kept = attend(ty.zeros(50, 1), ty.zeros(400, 1), ty.ones(400, 1), { dropout = 0.25 })
    assert.near(1, kept:mean():item(), 0.02)
    assert.same({ { 0 } }, attend(ty.ones(1, 1), ty.ones(3, 1), ty.ones(3, 1), { dropout = 1 }):totable())
  end)
end)

describe("attention of many positions", function()
  it("holds no scores, there and back", function()
    local out, status = H.script [[
      local ty = require "tycho"
      local n = 8192
      local q = ty.randn(1, 2, n, 16):requires_grad_()
      local before = ty.stats().memory.peak
      ty.scaled_dot_product_attention(q, q, q, { causal = true }):sum():backward()
      print((ty.stats().memory.peak - before) / (n * n * 4))
    ]]
    assert.equal(0, status, out)
    assert.truthy(tonumber(out) < 0.1, out)
  end)

  it("gives one plan, whatever the sizes, under dynamic", function()
    local c = ty.compile(function(q, k) return attend(q, k, k, { causal = true }) * 1 end, { dynamic = true })
    for n = 1, 9 do
      local q, k = plain("f32", 2, 3 * n, 8), plain("f32", 2, 4 * n, 8)
      H.same((attend(q, k, k, { causal = true }) * 1):contiguous(), c(q, k))
    end
  end)

  it("gives the same bits for any number of threads", function()
    local out = {}
    for threads = 1, 3 do
      out[threads] = H.script(([[
        local ty = require "tycho"
        ty.threads(%d)
        ty.manual_seed(3)
        for _, s in ipairs { { 1, 1500 }, { 12, 300 }, { 1, 40 } } do
          local x = ty.randn(s[1], s[2], 24):requires_grad_()
          local y = ty.scaled_dot_product_attention(x, x, x, { causal = s[2] ~= 300 })
          y:mul(y):sum():backward()
          print(("%%.17g %%.17g %%.17g"):format(y:sum():item(), x.grad:sum():item(), x.grad:abs():max():item()))
        end
      ]]):format(threads))
    end
    assert.truthy(#out[1] > 60, out[1])
    assert.equal(out[1], out[2])
    assert.equal(out[1], out[3])
  end)
end)

describe("attention refuses", function()
  local function raised(...)
    local ok, message = pcall(attend, ...)
    assert.is_false(ok)
    return message
  end

  it("operands that do not go together", function()
    local x = ty.ones(2, 3)
    assert.truthy(raised(x, ty.ones(2, 4), x):find("queries and keys have other features, f32[2,3] and f32[2,4]", 1, true))
    assert.truthy(raised(x, x, ty.ones(3, 3)):find("keys and values have other positions", 1, true))
    assert.truthy(raised(x, x:to "f64", x):find("dtypes differ", 1, true))
    assert.truthy(raised(ty.ones(2, 4, 3), ty.ones(3, 4, 3), x):find("do not broadcast", 1, true))
    assert.truthy(raised(ty.ones(3), x, x):find("argument 1 must have at least 2 dims", 1, true))
    assert.truthy(raised(x, nil, x):find("argument 2 must be a tensor", 1, true))
    assert.truthy(raised(x, x, x, { mask = ty.ones(2, 5) }):find("option mask f32[2,5] does not fit", 1, true))
    assert.truthy(raised(x, x, x, { mask = ty.ones({ 2 }, { dtype = "i64" }) }):find("must be of bools", 1, true))
    assert.truthy(raised(x, x, x, { dropout = 2 }):find("option dropout must be in 0..1", 1, true))
    assert.truthy(raised(x, x, x, { caused = true }):find("unknown option", 1, true))
  end)
end)
