--- grad_spec.lua -- gradients against central differences in f64: every operation of the table in several layouts,
--- composites, views and writes, second order, and what must raise. Recorded (lazy) equals eager to the bit.

local H = require "spec.helper"
local ty = H.ty
local F64 = { dtype = "f64" }

local function rand(seed, ...)
  local r, sizes, n = H.random(seed), { ... }, 1
  for _, s in ipairs(sizes) do n = n * s end
  local v = {}
  for i = 1, n do v[i] = r.range(0.2, 0.8) * (r.unit() < 0.5 and -1 or 1) + (i % 7) * 0.003 end
  return ty.tensor(n == 0 and {} or v, F64):reshape(sizes)
end

local function positive(seed, ...) return rand(seed, ...):abs() end

--- Weights that make a scalar of any result.
local function weigh(y)
  if y.dtype ~= "f64" then y = y:to("f64") end
  local n = y:numel()
  local w = (ty.arange(n, F64) * 0.7 + 0.3):sin() + 0.5
  return (y * w:reshape(y.shape)):sum()
end

--- dy/dx by central differences, for input k.
local function numeric(f, inputs, k, eps)
  local x, g = inputs[k], ty.zeros(inputs[k]:numel(), F64)
  local flat = x:clone():reshape(x:numel())
  for i = 1, x:numel() do
    local function at(d)
      local moved = flat:clone()
      moved:set(i, flat:get(i) + d)
      local list = { unpack(inputs) }
      list[k] = moved:reshape(x.shape)
      return f(unpack(list)):item()
    end
    g:set(i, (at(eps) - at(-eps)) / (2 * eps))
  end
  return g:reshape(x.shape)
end

local function close(want, got, what, tolerance)
  assert.same(want.shape, got.shape, what)
  local a, b = H.list(want), H.list(got)
  for i = 1, #a do
    local off = math.abs(a[i] - b[i])
    if off ~= off or off > (tolerance or 2e-6) * (1 + math.abs(a[i])) then
      error(("%s: element %d is %.10g, differences give %.10g"):format(what, i, b[i], a[i]), 2)
    end
  end
end

local layouts = {
  contiguous = function(x) return x end,
  transposed = function(x) return x:permute({ 2, 1 }):clone():permute({ 2, 1 }) end,
  sliced = function(x)
    local y = ty.zeros({ 2 * x:size(1) + 1, x:size(2) + 2 }, F64)
    local v = y[{ { 2, 2 * x:size(1), 2 }, { 2, x:size(2) + 1 } }]
    v:copy_(x)
    return v
  end,
  expanded = true, -- see below
}

--- The first rows of matrices, and fn of them as matrices of the same sizes again.
local function of_rows(fn, inputs)
  local rows, sizes = {}, {}
  for i, x in ipairs(inputs) do
    local is_matrix = x.ndim == 2 and x:numel() > 0
    rows[i], sizes[i] = is_matrix and x:narrow(1, 1, 1) or x, is_matrix and x.shape or nil
  end
  return function(...)
    local list = { ... }
    for i, shape in pairs(sizes) do list[i] = list[i]:expand(shape) end
    return fn(unpack(list, 1, #rows))
  end, rows
end

--- All inputs are leaves; compares every gradient.
local function gradcheck(what, fn, inputs, layout, tolerance)
  if layout == "expanded" then fn, inputs, layout = of_rows(fn, inputs) end
  local function f(...) return weigh(fn(...)) end
  local leaves = {}
  for i, x in ipairs(inputs) do
    x = x:clone()
    if layout and x:dim() == 2 and x:numel() > 0 then x = layouts[layout](x) end
    leaves[i] = x:requires_grad_()
  end
  f(unpack(leaves)):backward()
  for k, x in ipairs(leaves) do
    close(numeric(f, inputs, k, 1e-6), x.grad or ty.zeros_like(x), ("%s, operand %d, %s"):format(what, k, layout or ""),
      tolerance)
  end
end

local index = ty.tensor({ { 1, 3 }, { 2, 2 }, { 1, 1 } }, { dtype = "i64" })
local mask = ty.tensor { { true, false, true, true }, { false, false, true, false }, { true, true, true, false } }
local X, Y = rand(1, 3, 4), rand(2, 3, 4)

--- Cases by operation: {function, inputs...}, several of them where one is not enough.
local cases = {
  acosh = { { ty.acosh, positive(3, 3, 4) + 1.1 } },
  erfinv = { { ty.erfinv, rand(4, 3, 4) } },
  remainder = { { ty.remainder, X * 5, Y + 3 } },
  fmod = { { ty.fmod, X * 5, Y + 3 } },
  pow = { { ty.pow, positive(5, 3, 4) + 0.3, Y }, { function(x) return x ^ 3 end, X },
    { function(x) return x ^ 1.3 end, positive(6, 2, 3) },
    { function(x) return ty.pow(2.5, x) end, X }, { function(x) return x ^ 0 end, X } },
  where = { { function(a, b) return mask:where(a, b) end, X, Y }, { function(a) return mask:where(a, 2) end, X } },
  cast = { { function(x) return x:to("f32"):to("f64") end, X, tolerance = 0.2 } },
  view = { { function(x) return x:t()[{ { 2, 4, 2 }, { 3, 1, -1 } }] end, X }, { function(x) return x:unfold(2,
    2) end, X },
    { function(x) return x:unsqueeze(1):expand(2, 3, 4) end, X }, { function(x) return x:diagonal() end, X },
    { function(x) return x[2] end, X }, { function(x) return x:reshape(-1):unfold(1, 5, 2) end, X } },
  sum = { { ty.sum, X }, { function(x) return x:sum(1) end, X }, { function(x) return x:sum({ 1, 3 }, true) end,
    rand(7, 2, 3, 2) } },
  prod = { { ty.prod, X }, { function(x) return x:prod(2) end, X }, { function(x) return x:prod({ 1, 3 }) end,
    rand(7, 2, 3, 2) },
    { function(x) return x:prod(1) end, ty.tensor({ { 0, 2, 0 }, { 3, 0, 0 }, { 1.5, 4, 2 } }, F64) } },
  max = { { function(x) return x:max(2) end, X }, { ty.max, X } },
  min = { { function(x) return x:min(1) end, X }, { ty.min, X } },
  cumsum = { { function(x) return x:cumsum(2) end, X }, { function(x) return x:cumsum(1) end, X } },
  cumprod = { { function(x) return x:cumprod(2) end, X }, { function(x) return x:cumprod(1) end, rand(8, 9, 2) },
    { function(x) return x:cumprod(1) end, ty.tensor({ 2, 0, 3, 0, 1.5 }, F64) } },
  cummax = { { function(x) return x:cummax(2) end, X }, { function(x) return x:cummax(1) end, X } },
  cummin = { { function(x) return x:cummin(2) end, X } },
  logcumsumexp = { { function(x) return x:logcumsumexp(2) end, X * 3 } },
  matmul = { { ty.matmul, X, rand(9, 4, 2) }, { ty.matmul, rand(10, 4), rand(9, 4, 2) }, { ty.matmul, X, rand(11, 4) },
    { ty.matmul, rand(12, 4), rand(11, 4) }, { ty.matmul, rand(13, 2, 3, 4), rand(9, 4, 2) }, { ty.matmul, X,
      rand(14, 2, 4, 3) },
    { ty.matmul, rand(13, 2, 3, 4), rand(14, 2, 4, 3) }, { ty.matmul, rand(10, 4), rand(14, 2, 4, 3) },
    { ty.matmul, rand(13, 2, 3, 4), rand(10, 4) } },
  put = { { function(x, v) local y = x * 1; y[{ {}, { 2, 3 } }] = v; return y * y end, X, rand(15, 3, 2) },
    { function(x, v) local y = x * 2; y[2]:copy_(v); return y:sin() end, X, rand(16, 1) },
    { function(x) local y = x * 2; y:mul_(y):add_(y); y[1]:zero_(); return y end, X } },
  attend = { { ty.scaled_dot_product_attention, X, rand(24, 5, 4), rand(25, 5, 4) },
    { function(q, k) return ty.scaled_dot_product_attention(q, k, k, { causal = true, scale = 2 }) end, X, rand(24, 5, 4) },
    { function(q, k) return ty.scaled_dot_product_attention(q, k, q, { mask = mask:narrow(2, 1, 3) }) end, X, Y } },
  fft = { { function(x) return ty.view_as_real(ty.fft.fft(x, 5)) end, X }, { function(x) return ty.view_as_real(ty.fft.ifft(x)) end, Y },
    { function(x) return ty.view_as_real(ty.fft.rfft(x, nil, 1)) end, X }, { function(x) return ty.fft.irfft(x, 5) end, X },
    { function(x) return ty.fft.hfft(x, nil, 1) end, X } },
  gather = { { function(x) return x:gather(2, index) end, X }, { function(x) return x[ty.tensor({ 3, 1, 1 },
    { dtype = "i64" })] end, X },
    { function(x) return x:masked_select(mask) end, X }, { function(x) return (x:sort(2)) end, X } },
  scatter = { { function(x, s) return x:scatter(2, index, s) end, X, rand(17, 3, 2) } },
  scatter_add = { { function(x, s) return x:scatter_add(2, index, s) end, X, rand(17, 3, 2) } },
}

--- Operations whose results are no floats, or whose gradient is 0 almost everywhere by definition; `to` needs a second
--- device (far_spec).
local constant = {}
for name in ("input const scalar iota empty random bitcast bitwise_not lshift rshift bitwise_and bitwise_or bitwise_xor eq ne lt le " ..
  "argmax argmin argsort searchsorted positions attend_grad to param loop call"):gmatch("%S+") do constant[name] = true end

describe("every operation of the table", function()
  for _, row in ipairs(H.ops) do
    local name = row.lua or row.name
    if not constant[name] then
      it(name .. " agrees with differences in each layout", function()
        local list = cases[name]
        if not list then
          assert(row.class == "map", "no case for " .. name)
          list = row.arity == 1 and { { ty[name], name:match("^log") and positive(18, 3,
            4) or name == "sqrt" and positive(18, 3, 4) or X } } or
            { { ty[name], X, Y }, { ty[name], X, rand(19, 4) }, { ty[name], rand(20, 3, 1), Y },
              { function(a) return ty[name](a, 0.37) end, X },
              { function(b) return ty[name](0.37, b) end, X }, { function(a) return ty[name](a, a) end,
                positive(21, 3, 4),
                tolerance = (name == "atan2" or name == "floor_divide") and 1e-5 } }
        end
        for i, c in ipairs(list) do
          local inputs = { unpack(c, 2) }
          if not (i > 1 and name == "floor_divide") then
            for layout in pairs(layouts) do gradcheck(name .. " case " .. i, c[1], inputs, layout, c.tolerance) end
          end
        end
        if row.class == "map" and row.arity == 1 and row.lua and not cases[name] then
          gradcheck(name .. " 0-d", ty[name], { positive(22, 1):reshape({}) })
          gradcheck(name .. " empty", ty[name], { ty.zeros({ 0, 3 }, F64) })
        end
      end)
    end
  end

  it("cat and stack give each part its own", function()
    gradcheck("cat", function(a, b) return ty.cat({ a, b, a }, 2) end, { X, rand(23, 3, 2) })
    gradcheck("stack", function(a, b) return ty.stack({ a, b }, 2) end, { X, Y })
  end)
end)

describe("tensors without dims or without elements", function()
  local zero = ty.tensor(0.37, F64)
  local any, dims = {}, {}
  for _, row in ipairs(H.ops) do
    local name = row.lua or row.name
    if row.class == "map" and row.lua and not constant[name] and row.arity <= 2 and not cases[name] then
      any[name] = row.arity == 1 and { ty[name] } or { ty[name], ty[name] }
    end
  end
  for _, name in ipairs { "sum", "prod", "max", "min", "mean", "logsumexp", "norm", "softmax", "log_softmax", "gelu", "relu", "silu",
    "softplus", "elu", "mish", "leaky_relu" } do any[name] = { ty[name] } end
  for _, name in ipairs { "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "flip", "softmax", "log_softmax" } do
    dims[name] = function(x, d) return (ty[name](x, d)) end
  end
  for _, name in ipairs { "sum", "prod", "mean", "logsumexp", "norm", "var", "std" } do
    dims[name] = function(x, d)
      if name == "norm" then return x:norm(2, d) end
      return ty[name](x, d)
    end
  end

  it("have gradients without dims", function()
    for name, f in pairs(any) do
      local x = name == "acosh" and zero + 1.5 or zero
      if name:find "softmax" then
        assert.truthy(H.raises(f[1], x):find "has no dims")
      elseif not f[2] then
        gradcheck(name, f[1], { x:clone() })
      elseif name ~= "floor_divide" then
        gradcheck(name, f[1], { x:clone(), zero + 0.9 })
        gradcheck(name .. " beside a matrix", f[1], { x:clone(), Y })
        gradcheck(name .. " behind a matrix", f[1], { Y, x:clone() })
      end
    end
    gradcheck("view", function(x) return x:unsqueeze(1):expand(3) * 2 end, { zero:clone() })
    gradcheck("where", function(a, b) return ty.where(ty.tensor(true), a, b) end, { zero:clone(), zero + 1 })
    gradcheck("write", function(a) local y = ty.zeros(3, F64); y[2] = a; return y end, { zero:clone() })
    gradcheck("stack", function(a, b) return ty.stack { a, b, a } end, { zero:clone(), zero + 1 })
    gradcheck("product", function(a, b) return a * b:matmul(b) end, { zero:clone(), rand(3, 4) })
  end)

  --- f's gradients for empty operands are as empty, and there.
  local function empty(what, f, ...)
    local leaves = {}
    for i, shape in ipairs { ... } do leaves[i] = ty.zeros(shape, F64):requires_grad_() end
    local y = weigh(f(unpack(leaves)))
    assert.truthy(y.requires_grad, what .. " has no past")
    y:backward()
    for i, x in ipairs(leaves) do
      assert.truthy(x.grad, what .. ": no gradient of operand " .. i)
      H.same(ty.zeros(x.shape, F64), x.grad)
    end
  end

  it("have gradients without elements", function()
    local none = { max = true, min = true, floor_divide = true }
    for name, f in pairs(any) do
      if not none[name] and not f[2] then
        empty(name, f[1], { 0 })
        empty(name, f[1], { 3, 0 })
        empty(name, f[1], { 0, 3 })
      elseif not none[name] then
        empty(name, f[1], { 0, 3 }, { 0, 3 })
        empty(name, f[1], { 0, 3 }, { 3 })
        empty(name, f[1], { 3, 1 }, { 0 })
        empty(name, f[1], { 0 }, {})
      end
    end
    for name, f in pairs(dims) do
      empty(name, function(x) return f(x, 1) end, { 3, 0 })
      empty(name, function(x) return f(x, 2) end, { 0, 3 })
    end
    empty("matmul", ty.matmul, { 0, 3 }, { 3, 2 })
    empty("matmul", ty.matmul, { 2, 0 }, { 0, 3 })
    empty("matmul", ty.matmul, { 2, 3 }, { 3, 0 })
    empty("matmul", ty.matmul, { 0, 2, 3 }, { 3, 2 })
    empty("matmul", ty.matmul, { 0, 3 }, { 3 })
    empty("cat", function(a, b) return ty.cat { a, b } end, { 0, 2 }, { 0, 2 })
    empty("gather", function(x) return x:index_select(1, ty.zeros(0, { dtype = "i64" })) end, { 3, 2 })
    empty("masked", function(x) return x:masked_select(ty.zeros(3, { dtype = "bool" })) end, { 3 })
    empty("view", function(x) return x:t()[{ { 2, 1 } }]:unsqueeze(1) end, { 3, 2 })
    empty("write", function(x) local y = ty.zeros(0, 3, F64); y[{ {}, { 2 } }] = x; return y end, { 0, 1 })
    empty("attention", ty.scaled_dot_product_attention, { 0, 4 }, { 3, 4 }, { 3, 2 })
    empty("convolution", ty.conv2d, { 0, 2, 4, 4 }, { 3, 2, 2, 2 }, { 3 })
    empty("pooling", function(x) return ty.max_pool2d(x, 2) end, { 0, 2, 4, 4 })
    empty("norms", ty.layer_norm, { 0, 3 }, { 3 }, { 3 })
    empty("losses", function(x) return ty.cross_entropy(x, ty.zeros(0, { dtype = "i64" }), { reduction = "sum" }) end, { 0, 4 })
  end)
end)

describe("composites", function()
  local labels = ty.tensor({ 1, 4, 2 }, { dtype = "i64" })
  local list = {
    softmax = function(x) return x:softmax() end, log_softmax = function(x) return x:log_softmax(1) end,
    layer_norm = function(x) return x:layer_norm() end, gelu = function(x) return x:gelu() end,
    gelu_tanh = function(x) return x:gelu { approximate = "tanh" } end,
    silu = function(x) return x:silu() end, mish = function(x) return x:mish() end,
      softplus = function(x) return x:softplus() end,
    elu = function(x) return x:elu() end, leaky_relu = function(x) return x:leaky_relu() end,
      relu = function(x) return x:relu() end,
    cross_entropy = function(x) return x:cross_entropy(labels) end, mse = function(x) return x:mse_loss(Y) end,
    norm = function(x) return x:norm() end, norm1 = function(x) return x:norm(1, 2) end,
      norm3 = function(x) return x:norm(3) end,
    var = function(x) return x:var(1) end, std = function(x) return x:std() end,
      mean = function(x) return x:mean(2) end,
    logsumexp = function(x) return x:logsumexp(2) end, einsum = function(x) return ty.einsum("ij,kj->ik", x, Y) end,
    clamp = function(x) return x:clamp(-0.3, 0.4) end, tile = function(x) return x:tile(2, 2) end,
      roll = function(x) return x:roll(1, 2) end,
    pad = function(x) return x:pad { 1, { 0, 2 } } end, repeated = function(x) return x:repeat_interleave(2, 1) end,
    inv = function(x) return ty.linalg.inv(x[{ {}, { 1, 3 } }] + ty.eye(3, F64) * 3) end,
    det = function(x) return ty.linalg.det(x[{ {}, { 1, 3 } }]) end,
  }
  for name, f in pairs(list) do
    it(name .. " in each layout", function()
      for layout in pairs(layouts) do gradcheck(name, f, { X }, layout, 5e-6) end
    end)
  end

  it("take PyTorch's side where a derivative jumps", function()
    local function at0(f)
      local x = ty.zeros(1):requires_grad_()
      f(x):sum():backward()
      return x.grad:item()
    end
    assert.equal(0, at0(ty.relu))
    assert.equal(0, at0(ty.abs))
    assert.equal(0.5, at0(ty.softplus))
    assert.equal(1, at0(ty.elu))
    assert.equal(1, at0(function(x) return x:clamp(0, 1) end))
    assert.equal(0.5, at0(function(x) return x:maximum(ty.zeros(1)) end))
    assert.equal(math.huge, at0(ty.sqrt))
    assert.equal(0, at0(ty.norm))
    assert.equal(0, at0(function(x) return x:norm(3) end))
    assert.equal(0, at0(function(x) return x:expand(4):std() end))
  end)
end)

describe("the second order", function()
  for name, f in pairs {
    polynomial = function(x) return x * x * x end, exp = ty.exp, tanh = ty.tanh,
      division = function(x) return 1 / (x + 3) end,
    softmax = function(x) return x:softmax() end, product = function(x) return x:matmul(x:t()) end,
      cumprod = function(x) return x:cumprod(2) end,
    prod = function(x) return x:prod(2) end, view = function(x) return x[{ {}, { 1, 2 } }] * x[{ {}, { 3, 4 } }] end,
    write = function(x) local y = x * x; y[1] = y[2] * y[3]; return y end, gather = function(x) return x:gather(2,
      index) ^ 3 end,
    norm = function(x) return x:norm() end,
  } do
    it(name .. ": the gradient of the gradient agrees with differences", function()
      local function first(x) return ty.grad(function(v) return weigh(f(v)) end)(x) end
      gradcheck(name, first, { X }, nil, 1e-5)
    end)
  end

  it("create_graph leaves a gradient that has one", function()
    local x = ty.tensor({ 2, 3 }, F64):requires_grad_()
    ;(x ^ 3):sum():backward(nil, { create_graph = true })
    local g = x.grad
    x.grad = nil
    g:sum():backward()
    assert.same({ 12, 18 }, H.list(x.grad))
    x.grad = nil
  end)

  it("jvp gives the derivative along a direction", function()
    local y, d = ty.jvp(function(x) return x:sin() * x end, X, Y)
    close(X:sin() * X, y, "value")
    close((X:cos() * X + X:sin()) * Y, d, "derivative")
  end)
end)

describe("jvp", function()
  local A = rand(40, 4, 3)
  local x, v = rand(41, 3), rand(42, 3)
  local rows = {
    product = function(a) return A:matmul(a):sin() end, softmax = function(a) return a:softmax() * a end,
    reductions = function(a) return ty.stack { a:norm(), a:prod(), a:var(), a:max() } end,
    views = function(a) return a:flip(1)[{ { 1, 2 } }] * a[3] end, scans = function(a) return a:cumprod(1) end,
    writes = function(a)
      local y = ty.zeros(4, F64)
      y[1] = a[2]
      y[{ { 2, 4 } }] = a * a
      return y
    end,
    gather = function(a) return a:gather(1, ty.tensor({ 1, 1, 3 }, { dtype = "i64" })) ^ 2 end,
    pieces = function(a) return a:abs() + a:relu() + a:maximum(0.1) + a:floor() end,
    inverse = function(a) return ty.linalg.inv(a:outer(a) + ty.eye(3, F64)) end,
    constant = function() return ty.ones(2, F64) end,
  }
  for name, f in pairs(rows) do
    it(name .. ": the derivative agrees with differences and with the Jacobian", function()
      local eps = 1e-6
      local y, d = ty.jvp(f, x, v)
      close(f(x), y, name)
      close((f(x + v * eps) - f(x - v * eps)) / (2 * eps), d, name, 1e-7)
      close((ty.jacobian(f)(x) * v):sum(-1), d, name, 1e-12)
      assert.falsy(y.requires_grad or d.requires_grad)
      local g = ty.compile(function(a, b) return ty.jvp(f, a, b) end)
      for _ = 1, 2 do
        local p, q = g(x, v)
        H.same(y, p)
        H.same(d, q)
      end
    end)
  end

  it("follows nested tables; what has no direction stays", function()
    local function f(p) return p.w:outer(p.list[1]):sum(1) * p.k end
    local y, d = ty.jvp(f, { w = x, list = { v }, k = 2 }, { w = v, list = {} })
    close(f({ w = x, list = { v }, k = 2 }), y, "value")
    close(f({ w = v, list = { v }, k = 2 }), d, "derivative")
    close(ty.zeros(3, F64), select(2, ty.jvp(f, { w = x, list = { v }, k = 2 }, {})), "none")
  end)

  it("has derivatives itself, along x and along v", function()
    local function f(a) return (a * a * a):sum() end
    local function along(a, b) return select(2, ty.jvp(f, a, b)) end
    close(6 * x * v, ty.grad(along)(x, v), "by x")
    close(3 * x * x, ty.grad(along, 2)(x, v), "by v")
    close(6 * (x * v * v):sum(), select(2, ty.jvp(function(a) return along(a, v) end, x, v)), "twice")
    local w = x:clone():requires_grad_()
    along(w, v):backward()
    close(6 * x * v, w.grad, "of a leaf")
  end)

  it("says what does not fit", function()
    assert.equal("jvp: the direction must be f64[3], got f64[4,3]", H.raises(ty.jvp, ty.exp, x, A))
    assert.truthy(H.raises(ty.jvp, ty.exp, x):find("argument 3 must be a tensor", 1, true))
    assert.truthy(H.raises(ty.jvp, function(p) return p[1] end, { x }, v):find("argument 3 must be a table", 1, true))
  end)
end)

describe("leaves", function()
  it("add up what comes from several ways back", function()
    local x = ty.tensor({ 1, 2 }):requires_grad_()
    for _ = 1, 2 do (x * 3):sum():backward() end
    assert.same({ 6, 6 }, H.list(x.grad))
    x.grad = nil
    assert.is_nil(x.grad)
    x.grad = ty.tensor { 7, 8 }
    x:sum():backward()
    assert.same({ 8, 9 }, H.list(x.grad))
  end)

  it("are not written to while gradients are on, but under no_grad", function()
    local x = ty.ones(2):requires_grad_()
    assert.truthy(H.raises(x.add_, x, 1):find("a leaf that requires grad is written in place", 1, true))
    assert.truthy(H.raises(x.set, x, 1, 5):find("a leaf", 1, true))
    ty.no_grad(function() x:add_(1) end)
    assert.truthy(x.is_leaf and x.requires_grad)
    assert.same({ 2, 2 }, H.list(x))
  end)

  it("end at detach, and begin at integers not at all", function()
    local x = ty.ones(2):requires_grad_()
    local y = x * 2
    assert.falsy(y:detach().requires_grad)
    assert.falsy((y:detach() * 2).requires_grad)
    assert.truthy(H.raises(ty.requires_grad_, ty.ones({ 2 }, { dtype = "i64" })):find("only floats", 1, true))
    assert.falsy(ty.no_grad(function() return x * 2 end).requires_grad)
    assert.truthy(ty.no_grad(function() return ty.enable_grad(function() return x * 2 end) end).requires_grad)
  end)
end)

describe("no elements", function()
  it("give zeros to what they were computed from, and to themselves what is as empty", function()
    local e, w = ty.zeros(0, 3):requires_grad_(), ty.ones(3, 4):requires_grad_()
    e:matmul(w):relu():sum():backward()
    assert.same({ 0, 3 }, e.grad.shape)
    H.same(ty.zeros(3, 4), w.grad)
    local m = ty.nn.Sequential(ty.nn.Conv2d(1, 2, 3), ty.nn.ReLU(), ty.nn.Flatten(), ty.nn.Linear(8, 2))
    m(ty.zeros(0, 1, 4, 4)):sum():backward()
    for _, p in ipairs(m:parameters()) do H.same(ty.zeros_like(p), p.grad) end
    local x = ty.ones(3):requires_grad_()
    x[{ { 2, 1 } }]:exp():sum():backward()
    H.same(ty.zeros(3), x.grad)
    ty.cat({ x, x[{ { 2, 1 } }] * 2 }):sum():backward()
    H.same(ty.ones(3), x.grad)
  end)

  it("of a view may be where the backward pass begins, or ends in a rule of the user's", function()
    local x = ty.ones(3):requires_grad_()
    local view = (x * 2)[{ { 2, 1 } }]
    view:backward(ty.zeros(0))
    H.same(ty.zeros(3), x.grad)
    x.grad = nil
    local f = ty.custom_grad(function(v) return v:sum() end, function() return ty.zeros(0) end)
    f((x * 2)[{ { 2, 1 } }]):backward()
    H.same(ty.zeros(3), x.grad)
  end)

  it("are no other case in a compiled step, nor under vmap", function()
    local w = ty.ones(3, 4):requires_grad_()
    local step = ty.compile(function(e)
      w.grad = nil
      local loss = e:matmul(w):relu():sum()
      loss:backward()
      return loss:detach()
    end)
    for _, n in ipairs { 2, 0, 1, 0 } do
      step(ty.ones(n, 3))
      H.same(ty.full({ 3, 4 }, n), w.grad)
    end
    local g = ty.vmap(ty.grad(function(z) return (z * 2)[{ { 2, 1 } }]:exp():sum() end))(ty.ones(2, 3))
    H.same(ty.zeros(2, 3), g)
  end)
end)

describe("errors", function()
  it("keep for the operation whose result is written what the write changes, for those before it not, in every call", function()
    local last = { prod = ty.prod, compiled = ty.compile(function(v) return v:prod() end) }
    local earlier = { plain = function(v) return v:prod() * 2 end, compiled = ty.compile(function(v) return v:prod() * 2 end) }
    for name, f in pairs(last) do
      for _ = 1, 4 do
        local x = ty.tensor({ 1, 2, 3 }, { dtype = "f64", requires_grad = true })
        local y = x * 2
        y[{ { 2, 3 } }] = f(y)
        y:sum():backward()
        assert.same({ 1 * 2 + 2 * 48, 2 * 24, 2 * 16 }, x.grad:totable(), name) -- y1 + 2 y1 y2 y3, y = 2 x
      end
    end
    for name, f in pairs(earlier) do
      for _ = 1, 4 do
        local y = ty.tensor({ 1, 2, 3 }, { dtype = "f64", requires_grad = true }) * 2
        y[{ { 2, 3 } }] = f(y)
        local _, message = pcall(y.backward, y:sum())
        assert.truthy(message:gsub("@%a+", ""):find("prod saved f64[3], which was changed afterwards", 1, true), name .. ": " .. message)
      end
    end
  end)

  it("name what is wrong", function()
    local x = ty.ones(2):requires_grad_()
    assert.truthy(H.raises(ty.backward, ty.ones({})):find("does not depend", 1, true))
    assert.truthy(H.raises(ty.backward, x * 2):find("one element", 1, true))
    assert.truthy(H.raises(ty.backward, x * 2, ty.ones(3)):find("must be f32[2]", 1, true))
    local y = (x * x):sum()
    y:backward()
    assert.truthy(H.raises(y.backward, y):find("freed by an earlier backward", 1, true))
    y = (x * x):sum()
    y:backward(nil, { retain_graph = true })
    y:backward()
    local w = x * 2
    local s = w:sin():sum()
    w:add_(1)
    assert.equal("backward: sin saved f32[2], which was changed afterwards (clone it before the write)",
      H.raises(s.backward, s))
    s = ty.ones({ 2 }, { dtype = "f16", requires_grad = true }):view_as("bf16"):to("f32"):sum()
    assert.truthy(H.raises(s.backward, s):find("view_as has no gradient", 1, true))
  end)
end)

describe("the option requires_grad", function()
  it("makes leaves of what is created", function()
    local x = ty.ones(2)
    for _, make in ipairs {
      function(o) return ty.tensor({ 1, 2 }, o) end, function(o) return ty.tensor(3, o) end,
      function(o) return ty.tensor(x, o) end, function(o) return ty.zeros(2, 3, o) end,
      function(o) return ty.ones({ 2 }, o) end, function(o) return ty.full({ 2 }, 3, o) end,
      function(o) return ty.empty(2, o) end, function(o) return ty.zeros_like(x, o) end,
      function(o) return ty.ones_like(x, o) end, function(o) return ty.full_like(x, 2, o) end,
      function(o) return ty.empty_like(x, o) end, function(o) return ty.arange(3, o) end,
      function(o) return ty.range(3, o) end, function(o) return ty.linspace(0, 1, 3, o) end,
      function(o) return ty.eye(2, o) end, function(o) return ty.rand(2, o) end, function(o) return ty.randn(2, o) end,
      function(o) return ty.rand_like(x, o) end, function(o) return ty.randn_like(x, o) end,
      function(o) return ty.uniform(0, 1, { 2 }, o) end, function(o) return ty.normal(0, 1, { 2 }, o) end,
    } do
      local y = make { requires_grad = true }
      if H.is_float(y.dtype) then assert.truthy(y.requires_grad and y.is_leaf) end
      assert.falsy(make({ requires_grad = false }).requires_grad)
      assert.falsy(make().requires_grad)
    end
    local w = ty.tensor({ 1, 2 }, { requires_grad = true, dtype = "f64" })
    ;(w * w):sum():backward()
    assert.same({ 2, 4 }, H.list(w.grad))
  end)

  it("is for floats, is true or false, and does not stay", function()
    assert.equal("zeros: only floats have gradients, got i64[2]",
      H.raises(ty.zeros, 2, { dtype = "i64", requires_grad = true }))
    assert.equal("ones: requires_grad must be true or false, got number 1", H.raises(ty.ones, 2, { requires_grad = 1 }))
    H.raises(ty.full, { 2 }, "x", { requires_grad = true })
    H.raises(ty.linspace, 0, 1, 2, { requires_grad = true, dtype = "i64" })
    assert.falsy(ty.tensor({ 1 }).requires_grad)
    assert.falsy(ty.ones(1).requires_grad)
  end)

  it("is seen by compiled functions", function()
    local f = function(x)
      local w = ty.ones(3, { requires_grad = true })
      ;(w * w * x):sum():backward()
      return w.grad
    end
    local compiled = ty.compile(f)
    for k = 1, 3 do H.same(f(ty.ones(3) * k), compiled(ty.ones(3) * k)) end
    assert.same({}, ty.explain(compiled).aborts)
  end)
end)

describe("view_as", function()
  it("has the gradient of a copy where the dtype stays", function()
    local x = ty.tensor({ 1, 2 }, { requires_grad = true })
    ;(x:view_as("f32") * 3):sum():backward()
    assert.same({ 3, 3 }, H.list(x.grad))
  end)
end)

describe("unique", function()
  it("gives the gradient of a value to the first element that has it", function()
    local x = ty.tensor({ { 3, 1 }, { 3, 2 } }, { requires_grad = true })
    local v = x:unique()
    ;(v * ty.tensor { 1, 10, 100 }):sum():backward()
    assert.same({ 100, 1, 0, 10 }, H.list(x.grad))
  end)
end)

describe("functions", function()
  it("give gradients in the structure of their arguments", function()
    local v, g = ty.value_and_grad(function(p) return (p.w * p.list[1]):sum() end) { w = ty.tensor { 2 },
      list = { ty.tensor { 5 } }, n = 3 }
    assert.equal(10, v:item())
    assert.falsy(v.requires_grad)
    assert.same({ 5, 2 }, { g.w:item(), g.list[1]:item() })
    assert.is_nil(g.n)
    local a, b = ty.grad(function(x, y) return (x * y):sum() end, { 2, 1 })(ty.tensor { 3 }, ty.tensor { 4 })
    assert.same({ 3, 4 }, { a:item(), b:item() })
  end)

  it("may write to what they are given: gradients are those of what it was", function()
    local function f(x)
      x:mul_(x)
      return x:sum()
    end
    local x = ty.tensor({ 3, -2 }, F64)
    assert.same({ 6, -4 }, H.list(ty.grad(f)(x)))
    assert.same({ 3, -2 }, H.list(x))
    local function zeroed(v)
      local y = (v * 3):sum()
      v[{ {} }] = 7
      return y + v:sum()
    end
    assert.same({ 3, 3 }, H.list(ty.grad(zeroed)(x)))
    assert.same({ 3, 3 }, H.list(ty.compile(ty.grad(zeroed))(x)))
    local _, d = ty.jvp(function(v) return v:mul_(v):sum() end, x, ty.ones({ 2 }, F64))
    assert.equal(2, d:item())
  end)

  it("give gradients that are written to without a change of anything else, plain and compiled", function()
    local function add(x, y) return (x + y):sum() end
    for _, around in ipairs { function(f) return f end, ty.compile } do
      local both = around(function(x, y)
        local a, b = ty.grad(add, { 1, 2 })(x, y)
        a:fill_(7)
        return a, b
      end)
      local along = around(function(x, v)
        local _, d = ty.jvp(function(u) return u end, x, v)
        d:fill_(7)
        return d
      end)
      local mean = around(function(x) return ty.grad(function(q) return q.k[1]:mean() end)({ k = { x } }).k[1]:fill_(3) end)
      local each = around(function(x)
        return ty.vmap(function(row) return ty.grad(function(u) return u:sum() end)(row):mul_(row) end)(x)
      end)
      for _ = 1, 3 do
        local v, x = ty.ones(3), ty.tensor { { 1, 2 }, { 3, 4 } }
        local a, b = both(ty.zeros(3), ty.zeros(3))
        assert.same({ { 7, 7, 7 }, { 1, 1, 1 } }, { H.list(a), H.list(b) })
        assert.same({ 7, 7, 7 }, H.list(along(ty.zeros(3), v)))
        assert.same({ 1, 1, 1 }, H.list(v))
        assert.same({ 3, 3, 3, 3 }, H.list(mean(x)))
        H.same(x, each(x))
      end
    end
  end)

  it("may have a gradient of their own", function()
    local twice = ty.custom_grad(function(x) local y = x:exp(); return y, y end, function(y, g) return g * y * 2 end)
    local x = ty.tensor({ 0.5 }, F64):requires_grad_()
    twice(x):sum():backward()
    assert.equal(2 * math.exp(0.5), x.grad:item())
  end)

  it("run again under checkpoint, for what they close over too", function()
    local x, w = ty.tensor({ 0.5 }, F64):requires_grad_(), ty.tensor({ 2 }, F64):requires_grad_()
    local runs = 0
    ty.checkpoint(function(v) runs = runs + 1; return (v * w):sin() end, x):sum():backward()
    assert.equal(2, runs)
    assert.equal(math.cos(1) * 2, x.grad:item())
    assert.equal(math.cos(1) * 0.5, w.grad:item())
  end)

  it("see each element of what is expanded or overlaps, given or returned", function()
    local one, three = ty.ones(1), ty.ones(3)
    local weights, pairs_of = ty.tensor({ 1, 2, 3 }), ty.tensor({ { 1, 2 }, { 3, 4 } })
    local function double(v) return v * 2 end
    H.same(weights, ty.grad(function(v) return (v * weights):sum() end)(one:expand(3)))
    H.same(pairs_of, ty.grad(function(v) return (v * pairs_of):sum() end)(three:unfold(1, 2, 1)))
    H.same(ty.eye(3) * 2, ty.jacobian(double)(one:expand(3)))
    H.same(ty.tensor({ 2, 0, 0 }), (select(2, ty.jvp(double, one:expand(3), ty.tensor({ 1, 0, 0 })))))
    local ruled = ty.custom_grad(function(v) return v:expand(3) end, function(_, g)
      H.same(weights, g)
      return g:sum(1, true)
    end)
    local function weighed(f, by) return ty.grad(function(v) return (f(v) * by):sum() end) end
    local expanded = weighed(function(v) return ty.checkpoint(function(u) return u:expand(3) end, v) end, weights)
    local windows = weighed(function(v) return ty.checkpoint(function(u) return u:unfold(1, 2, 1) end, v) end, pairs_of)
    H.same(ty.tensor({ 6 }), weighed(ruled, weights)(one))
    H.same(ty.tensor({ 6 }), expanded(one))
    H.same(ty.tensor({ 1, 5, 4 }), windows(three))
    for _, c in ipairs { { expanded, one }, { windows, three } } do H.same(c[1](c[2]), ty.compile(c[1])(c[2])) end
    local by = weighed(function(v) return v end, weights)
    local compiled = ty.compile(by)
    for _, v in ipairs { one:expand(3), three, one:expand(3) } do H.same(by(v), compiled(v)) end
  end)

  it("get objects under checkpoint that know their methods and each other", function()
    local Layer = {}
    Layer.__index = Layer
    function Layer:call(v) return (v * self.w):sin() * self.back.other.w end
    local net = setmetatable({ w = ty.ones({ 2 }, { requires_grad = true }) }, Layer)
    net.back = { other = net }
    local x = ty.tensor({ 2, 3 })
    ty.checkpoint(function(layer, v) return layer:call(v) end, net, x):sum():backward()
    local g = net.w.grad
    net.w.grad = nil
    net:call(x):sum():backward()
    H.same(net.w.grad, g)
  end)

  it("draw the same random numbers again under checkpoint, which moves none of those that follow", function()
    local function noisy(v) return v * ty.rand(4) end
    ty.manual_seed(5)
    local noise = ty.rand(4)
    local after = ty.rand(2)
    ty.manual_seed(5)
    local x = ty.ones(4):requires_grad_()
    ty.checkpoint(noisy, x):sum():backward()
    H.same(noise, x.grad)
    H.same(after, ty.rand(2))
  end)

  it("run again under the autocast that checkpoint was called in", function()
    local layer = ty.nn.Linear(16, 16)
    local x = rand(8, 4, 16):to("f32")
    local function part(v)
      local y = layer(v)
      return y:tanh() * y
    end
    local function step(half, keeps)
      layer.weight.grad = nil
      local y = ty.autocast(half, function() return keeps and part(x) or ty.checkpoint(part, x) end)
      y:square():sum():backward()
      return layer.weight.grad
    end
    local compiled = ty.compile(step)
    for _, half in ipairs { "bf16", false, "f16", "bf16", false } do
      H.same(step(half, true), step(half, false))
      H.same(step(half, true), compiled(half, false))
    end
    local function step_of()
      layer.weight.grad = nil
      ty.checkpoint(part, x):square():sum():backward()
      return layer.weight.grad
    end
    local outside = ty.compile(step_of)
    for _, half in ipairs { "bf16", false, "bf16" } do
      H.same(ty.autocast(half, step_of), ty.autocast(half, outside))
    end
  end)

  it("may write under checkpoint to what they are given", function()
    local x = ty.tensor({ 3, -2 }, F64):requires_grad_()
    local y = ty.checkpoint(function(v)
      v:mul_(v)
      return v:sum()
    end, x * 1)
    y:backward(nil, { retain_graph = true })
    y:backward()
    assert.same({ 12, -8 }, H.list(x.grad))
    local function cubes(run)
      return ty.grad(function(v)
        v = v * 1
        local u = run(function(a)
          a:narrow(1, 1, 1):mul_(2)
          return a * a
        end, v)
        return (u * v):sum()
      end)
    end
    local g = cubes(ty.checkpoint)
    assert.same({ 24, 3 }, H.list(g(ty.ones(2))))
    assert.same({ 24, 3 }, H.list(cubes(function(f, v) return f(v) end)(ty.ones(2))))
    assert.same({ 24, 3 }, H.list(ty.compile(g)(ty.ones(2))))
  end)

  it("of the user's own may save their results, and are differentiated through them", function()
    local function nth(f, n)
      if n == 0 then return f end
      return ty.grad(function(x) return nth(f, n - 1)(x):sum() end)
    end
    local exp = ty.custom_grad(function(x)
      local y = x:exp()
      return y, y
    end, function(y, g) return g * y end)
    local sincos = ty.custom_grad(function(x)
      local a, b = x:sin(), x:cos()
      return { a, b }, { both = { a, b, n = 1 }, b }
    end, function(s, ga, gb) return ga * s[1] - gb * s.both[1] end)
    local rows = {
      { function(x) return exp(x) * exp(x) * x end, function(x) return x:exp() * x:exp() * x end },
      { function(x)
        local y = exp(x)
        return y * y * x
      end, function(x) return x:exp() * x:exp() * x end },
      { function(x)
        local a, b = sincos(x)
        return a * a * b
      end, function(x) return x:sin() ^ 2 * x:cos() end },
    }
    local x = ty.tensor({ 0.3, 1, -2 }, F64)
    for _, row in ipairs(rows) do
      for n = 1, 3 do
        local want, own = nth(row[2], n)(x), nth(row[1], n)
        close(want, own(x), "order " .. n, 1e-12)
        local compiled = ty.compile(own)
        for _ = 1, 3 do H.same(own(x), compiled(x)) end
        close(ty.stack { want, want }, ty.vmap(own)(ty.stack { x, x }), "vmap, order " .. n, 1e-12)
      end
    end
    local leaf = x:clone():requires_grad_()
    exp(leaf):sum():backward { create_graph = true }
    local g = leaf.grad
    leaf.grad = nil
    g:sum():backward()
    close(x:exp(), leaf.grad, "backward", 1e-12)
  end)

  it("of the user's own that raise in the backward pass raise there, and nothing is added", function()
    local x = ty.ones(2):requires_grad_()
    local f = ty.custom_grad(function(v) return v * 1 end, function() error("mine", 0) end)
    local ok, why = pcall(function() (f(x) + x):sum():backward() end)
    assert.same({ false, "mine" }, { ok, why })
    assert.equal(nil, x.grad);
    (x * 3):sum():backward()
    assert.same({ 3, 3 }, x.grad:totable())
  end)

  it("clip nothing below the bound", function()
    local x = ty.zeros(2):requires_grad_()
    x.grad = ty.tensor { 0.3, -0.4 }
    assert.near(0.5, ty.clip_grad_norm_({ x }, 1):item(), 1e-6)
    ty.clip_grad_value_({ x }, 0.5)
    H.same(ty.tensor { 0.3, -0.4 }, x.grad)
  end)

  it("clip gradients by other norms, and refuse a bound below 0", function()
    local x, y = ty.zeros(2):requires_grad_(), ty.zeros(1):requires_grad_()
    local function fill() x.grad, y.grad = ty.tensor { 3, -4 }, ty.tensor { 12 } end
    for _, row in ipairs { { 1, 19 }, { 2, 13 }, { math.huge, 12 } } do
      fill()
      assert.near(row[2], ty.clip_grad_norm_({ x, y }, 1, row[1]):item(), 1e-5)
      assert.near(12 / row[2], y.grad:item(), 1e-5)
      assert.near(-4 / row[2], x.grad:get(2), 1e-5)
    end
    for _, name in ipairs { "clip_grad_norm_", "clip_grad_value_" } do
      for _, v in ipairs { -1, 0 / 0 } do
        assert.truthy(H.raises(ty[name], { x }, v):find(name .. ": argument 2 %(%a+%) must not be negative"))
      end
    end
  end)

  it("may write under checkpoint through a detached view of another argument", function()
    local function body(a, b)
      local before = (b * 2):sum()
      a:add_(1)
      return (a * b):sum() + before * b:sum()
    end
    for _, f in ipairs { body, function(b, a) return body(a, b) end } do
      local function outcome(keeps)
        local b = ty.arange(4):clone():requires_grad_()
        local a = b:detach():flip(1)
        if f ~= body then a, b = b, a end
        local y = keeps and f(a, b) or ty.checkpoint(f, a, b)
        y:backward()
        return y:detach(), a.grad or b.grad
      end
      local y, g = outcome(true)
      for _, again in ipairs { outcome, ty.compile(outcome) } do
        for _ = 1, 3 do
          local z, h = again(false)
          H.same(y, z)
          H.same(g, h)
        end
      end
    end
  end)

  it("may write under checkpoint to tables, to what they close over, and give anything back", function()
    local function gradient(run, way)
      local w = ty.tensor({ 2, 3 }, F64):requires_grad_()
      return ty.grad(function(v) return way(run, v) end)(w), w
    end
    local function zeros(n) return ty.zeros({ n }, F64) end
    local ways = {
      ["a table's tensors"] = function(run, w)
        local t = { s = zeros(2), deep = { zeros(2) + 1 } }
        local y = run(function(to, v)
          to.s:copy_(v * v)
          to.deep[1]:mul_(v)
          return v:sum()
        end, t, w)
        return t.s:sum() + t.deep[1]:sum() * 2 + y
      end,
      ["a view of one"] = function(run, w)
        local t = { s = zeros(4) }
        local v = t.s:narrow(1, 2, 2)
        local y = run(function(to, x) to.s:narrow(1, 2, 2):copy_(x * x * x) return x:prod() end, t, w)
        return v:sum() + y
      end,
      ["an argument that needs no gradient"] = function(run, w)
        local s = zeros(2)
        return run(function(to, v) to:add_(v:exp()) return v:sum() end, s, w) + (s * s):sum()
      end,
      ["what is closed over"] = function(run, w)
        local s = zeros(2)
        return run(function(v) s:copy_(v * v) return v:sum() end, w) + s:sum()
      end,
      ["a new field"] = function(run, w)
        local t = {}
        return run(function(to, v) to.h = v * v return v:sum() end, t, w) + t.h:sum()
      end,
      ["several results of any kind"] = function(run, w)
        local none, t, n, y = run(function(v) return nil, { v * v }, 3, v:sum() end, w)
        assert.is_nil(none)
        return t[1]:sum() * n + y
      end,
    }
    for name, way in pairs(ways) do
      local want = gradient(function(f, ...) return f(...) end, way)
      H.same(want, (gradient(ty.checkpoint, way)))
      H.same(want, ty.compile(function() return (gradient(ty.checkpoint, way)) end)(), name)
    end
    local norm, layer = ty.nn.BatchNorm1d(3), ty.nn.BatchNorm1d(3)
    for _ = 1, 2 do -- buffers of a module that is given are written once, and keep no past
      local x = ty.randn(4, 3):requires_grad_()
      ty.checkpoint(function(m, v) return m(v):sin() end, norm, x):sum():backward()
      local g = x.grad
      x.grad = nil
      layer(x):sin():sum():backward()
      H.same(x.grad, g)
      H.same(layer.running_var, norm.running_var)
      assert.is_false(norm.running_mean.requires_grad)
    end
    local runs = 0
    local y = ty.checkpoint(function(v) runs = runs + 1 return runs == 1 and v * 2 or v:sum() end, ty.ones(3):requires_grad_())
    assert.truthy(H.raises(y.backward, y:sum()):find("checkpoint: the gradient must be f32[], got f32[3]", 1, true))
    assert.is_false(ty.checkpoint(function(v) return v + 1 end, ty.ones(2)).requires_grad)
  end)

  it("see under checkpoint the writes of one argument in others that share its memory", function()
    local w = ty.tensor({ 1.5, 2, 3, 4 }, F64)
    local function part(a, b)
      a:mul_(3)
      return b * b + a:sum()
    end
    for _, cut in ipairs { function(x) return x, x end, function(x) return x, x:narrow(1, 2, 2) end,
      function(x) return x:narrow(1, 1, 3), x:narrow(1, 2, 3) end, function(x) return x:flip(1), x end } do
      local function slope(run)
        return ty.grad(function(v)
          local x = v * 1
          local a, b = cut(x)
          return run(part, a, b):square():sum() + x:sum()
        end)(w)
      end
      local want = slope(function(f, ...) return f(...) end)
      H.same(want, slope(ty.checkpoint))
      local compiled = ty.compile(slope)
      for _ = 1, 2 do H.same(want, compiled(ty.checkpoint)) end
    end
    local function free(run) -- of a tensor without a gradient
      local v, s = w:clone():requires_grad_(), ty.ones({ 6 }, F64)
      run(function(a, b, x)
        a:mul_(5)
        return (b * x):sum()
      end, s, s:narrow(1, 2, 4), v):backward()
      return v.grad
    end
    assert.same({ 5, 5, 5, 5 }, H.list(free(ty.checkpoint)))
    assert.same({ 5, 5, 5, 5 }, H.list(ty.compile(free)(ty.checkpoint)))
  end)

  it("under checkpoint are differentiated in every way as without", function()
    local x, w = ty.tensor({ 1.5, 2 }, F64), ty.tensor({ 0.5, 0.7 }, F64):requires_grad_()
    local function sines(u) return (u * u):sin() end
    local function backward_to_w(y, opts)
      w.grad = nil
      y:sum():backward(nil, opts)
      return w.grad
    end
    local function ways(run)
      local function inner(v) return run(function(u) return (u * w):sin():sum() end, v) end
      local function outer(u) return run(function(q) return q * w end, u):sin() * w end
      local a, b, c = run(function(u) return u * w, u:exp(), w end, x * 1)
      local flags = tostring(b.requires_grad) .. tostring(ty.grad(inner)(x).requires_grad)
      return {
        backward_to_w(ty.grad(inner)(x)), backward_to_w(run(outer, x)), backward_to_w(a + b + c),
        backward_to_w(inner(x), { create_graph = true }), ty.grad(function(v) return ty.grad(inner)(v):square():sum() end)(x),
        select(2, ty.jvp(function(v) return run(sines, v) end, x, ty.ones({ 2 }, F64))),
        ty.jacobian(function(v) return run(sines, v) end)(x), ty.hessian(function(v) return run(sines, v):sum() end)(x),
        ty.vmap(ty.grad(inner))(ty.stack { x, x * 2 }),
      }, flags
    end
    local want, flags = ways(function(f, ...) return f(...) end)
    local got, other = ways(ty.checkpoint)
    for i = 1, #want do close(want[i]:detach(), got[i]:detach(), "way " .. i, 1e-15) end
    assert.equal(flags, other)
    local slope = ty.grad(function(v) return ty.checkpoint(sines, v):sum() end)
    local compiled = ty.compile(slope)
    for _ = 1, 3 do H.same(slope(x), compiled(x)) end
    assert.same({}, ty.explain(compiled).aborts)
  end)

  it("hold under checkpoint what one part needs, not all", function()
    local out, status = H.script [[
      local ty = require "tycho"
      local n, w = 400, {}
      for i = 1, 10 do w[i] = (ty.randn(n, n) * 0.05):requires_grad_() end
      local y, before = ty.randn(n, n), ty.stats().memory.peak
      for i = 1, 10 do
        y = ty.checkpoint(function(x) for _ = 1, 8 do x = x:matmul(w[i]):tanh() end return x end, y)
      end
      y:sum():backward()
      print((ty.stats().memory.peak - before) / (n * n * 4))
    ]]
    assert.equal(0, status, out)
    assert.truthy(tonumber(out) < 100, out) -- 10 results, 10 gradients, a part, garbage; without 160 and more
  end)

  it("clip gradients together", function()
    local x = ty.tensor { 3, 4 }:requires_grad_()
    ;(x * x):sum():backward()
    assert.equal(10, ty.clip_grad_norm_({ x }, 1):item())
    close(ty.tensor({ 0.6, 0.8 }, F64), x.grad:to("f64"), "clipped", 1e-6)
    ty.clip_grad_value_({ x }, 0.7)
    assert.truthy(x.grad:max():item() <= 0.7001)
  end)
end)

describe("modes", function()
  it("a compiled function that tapes gives eager's bits", function()
    local w = rand(30, 4, 5):to("f32"):requires_grad_()
    local x = rand(31, 6, 4):to("f32")
    local function loss(v) return ((v:matmul(w)):gelu():softmax() ^ 2):sum() end
    loss(x):backward()
    local eager = w.grad
    for _, f in ipairs { H.lazy(loss), ty.compile(loss) } do
      for _ = 1, 3 do
        w.grad = nil
        f(x):backward()
        H.same(eager, w.grad)
      end
    end
    local function step(v) w.grad = nil; loss(v):backward(); return w.grad * 1 end
    for _, f in ipairs { H.lazy(step), ty.compile(step) } do
      for _ = 1, 3 do H.same(eager, f(x):detach()) end
    end
    local plain = ty.compile(function(a) return (a * 2 + 1):sum() end)
    local p = ty.ones(3)
    for _ = 1, 4 do plain(p) end
    p:requires_grad_()
    plain(p):backward()
    assert.same({ 2, 2, 2 }, H.list(p.grad))
  end)

  it("chains of 100,000 records come back and die without a deep stack", function()
    local x = ty.ones(1):requires_grad_()
    local y = x
    for _ = 1, 100000 do y = y + 1 end
    y:sum():backward()
    assert.equal(1, x.grad:item())
    y = x
    for _ = 1, 100000 do y = y * 1 end
    y = nil -- luacheck: ignore
    x = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.truthy(ty.internals.grad.live() < 1000)
  end)

  it("goes back anew after a pass that an error has ended, and inside of one", function()
    local fails, inner = true, nil
    local double = ty.custom_grad(function(x) return x * 2, x end, function(_, g)
      if fails then error("no gradient") end
      local v = ty.ones(2):requires_grad_()
      ty.enable_grad(function() (v * 3):sum():backward() end) -- a pass of its own, in the middle of the other
      inner = v.grad:sum():item()
      return g * 2
    end)
    local x = ty.ones(3):requires_grad_()
    local function pass() (double(x) * x):sum():backward() end
    for _ = 1, 3 do assert.has_error(pass) end
    assert.is_nil(x.grad)
    for i = 1, 3 do
      local w = ty.full({ 2 }, i):requires_grad_()
      ;(w * w):sum():backward()
      assert.same({ 2 * i, 2 * i }, w.grad:totable())
    end
    fails = false
    pass()
    assert.same({ 4, 4, 4 }, x.grad:totable())
    assert.equal(6, inner)
  end)

  it("begins with 1, whatever became of what the pass before began with", function()
    local held
    for _, spoil in ipairs {
      function(g) g:mul_(3) end,
      function(g) held = g end,
      function(g) g:requires_grad_() end,
      function(g) ty.no_grad(function() g:view(1):copy_(ty.full({ 1 }, 7)) end) end,
      function(g)
        if g.device == "cpu" then g:data()[0] = 5 end -- elsewhere it has no pointer
      end,
    } do
      local x = ty.ones(3):requires_grad_()
      local loss = (x * x):sum()
      loss:register_hook(spoil)
      loss:backward()
      if held then held:fill_(9) end
      for _ = 1, 2 do
        x.grad = nil
        ;(x * x):sum():backward()
        assert.same({ 2, 2, 2 }, x.grad:totable())
        held = nil
      end
    end
    local leaf = ty.ones(1):requires_grad_()
    for _ = 1, 3 do
      leaf:backward()
      assert.same({ 1 }, leaf.grad:totable())
      leaf.grad:mul_(5)
      leaf.grad = nil
    end
    for _, dtype in ipairs { "f64", "f32", "f64" } do
      local z = ty.ones({ 1, 1 }, { dtype = dtype }):requires_grad_()
      ;(z * 2):backward()
      assert.same({ dtype, { { 2 } } }, { z.grad.dtype, z.grad:totable() })
    end
  end)
end)

describe("the gradient of a product with a vector", function()
  it("is no product: nothing is summed", function()
    local v, m = ty.arange(4) + 1, ty.arange(12):reshape(3, 4)
    local function operations(fn, ...)
      local seen = {}
      for _, node in ipairs(ty.graph(ty.grad(fn, { 1, 2 }), ...)) do seen[node.op] = (seen[node.op] or 0) + 1 end
      return seen.matmul or 0
    end
    assert.equal(1, operations(function(a, b) return ty.dot(a, b) end, v, v + 2)) -- the way there
    assert.equal(2, operations(function(a, b) return (a:matmul(b)):sum() end, m, v)) -- and the vector's own
    local a, b = ty.grad(function(p, q) return (p:matmul(q)):sum() end, { 1, 2 })(m, v)
    assert.same({ { 1, 2, 3, 4 }, { 1, 2, 3, 4 }, { 1, 2, 3, 4 } }, a:totable())
    assert.same({ 12, 15, 18, 21 }, b:totable())
  end)
end)
