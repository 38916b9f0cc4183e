-- convolution_spec.lua -- convolutions, their transposes and gradients, max pooling, against loops in plain Lua; and
-- products that read windows where they lie: the same bits as with a copy, in every mode and on every machine.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi

-- The oracle -------------------------------------------------------------------------------------------------------------
-- A case: batch, channels, outputs, groups; size, kernel, stride, before, after, dilation: lists, one or two dims.

local function count(list)
  local n = 1
  for _, v in ipairs(list) do n = n * v end
  return n
end

local function places(c)
  local outs = {}
  for i, size in ipairs(c.size) do
    local room = size + c.before[i] + c.after[i] - c.dilation[i] * (c.kernel[i] - 1) - 1
    if room < 0 then return nil end
    outs[i] = math.floor(room / c.stride[i]) + 1
  end
  return outs
end

--- Calls visit(position in y, in x, in w), from 0, for each product that a convolution is made of.
local function each_product(c, outs, visit)
  local ci, co = c.channels / c.groups, c.outputs / c.groups
  local ys, xs, ks = count(outs), count(c.size), count(c.kernel)
  local rows, width, tall, wide = outs[2] and outs[1] or 1, outs[2] or outs[1], c.kernel[2] and c.kernel[1] or 1,
    c.kernel[2] or c.kernel[1]
  local two, last = c.size[2] ~= nil, #c.size
  for b = 0, c.batch - 1 do
    for o = 0, c.outputs - 1 do
      local g = math.floor(o / co)
      for i = 0, ci - 1 do
        for p = 0, rows - 1 do
          for q = 0, width - 1 do
            for k = 0, tall - 1 do
              for l = 0, wide - 1 do
                local r = two and p * c.stride[1] + k * c.dilation[1] - c.before[1] or 0
                local s = q * c.stride[last] + l * c.dilation[last] - c.before[last]
                if r >= 0 and s >= 0 and r < (two and c.size[1] or 1) and s < c.size[last] then
                  visit((b * c.outputs + o) * ys + p * width + q, (b * c.channels + g * ci + i) * xs
                    + (two and r * c.size[2] or 0) + s, (o * ci + i) * ks + k * wide + l)
                end
              end
            end
          end
        end
      end
    end
  end
end

--- The sums of products, as y[to] += a[i] * b[j].
local function expected(c, outs, to, n, a, b)
  local y = ffi.new("double[?]", math.max(n, 1))
  each_product(c, outs, function(p, q, r)
    if to == "y" then y[p] = y[p] + a[q] * b[r]
    elseif to == "x" then y[q] = y[q] + a[p] * b[r]
    else y[r] = y[r] + a[p] * b[q] end
  end)
  return y
end

local function check(want, n, got, what)
  local v, m = H.doubles(got)
  assert.equal(n, m, what)
  for i = 0, n - 1 do
    if v[i] ~= want[i] then error(("%s: element %d is %.17g instead of %.17g"):format(what, i + 1, v[i], want[i]), 2) end
  end
end

--- Small whole numbers: their sums are exact in every dtype, in any order.
local function whole(r, dtype, ...)
  local shape = { ... }
  local n = count(shape)
  local v = ffi.new("double[?]", math.max(n, 1))
  for i = 0, n - 1 do v[i] = r.whole(dtype == "u8" and 0 or -1, 1) end
  return H.tensor(dtype, H.store(dtype, v, n), shape)
end

local function sizes(first, second, list) return unpack({ first, second, unpack(list) }) end

--- The same elements in other places.
local function laid(x, how)
  local n = x.ndim
  if how == "channels last" then
    local order, back = { 1 }, { 1, n }
    for d = 3, n do order[#order + 1] = d end
    order[#order + 1] = 2
    for d = 2, n - 1 do back[#back + 1] = d end
    return x:permute(order):clone():permute(back)
  elseif how == "a slice" then
    local amounts, at = {}, {}
    for d = 1, n do amounts[d], at[d] = { 1, 2 }, { 2, x:size(d) + 1 } end
    return x:pad(amounts, 9)[at]
  elseif how == "every second" then
    local y = ty.zeros({ x:numel() * 2 + 1 }, { dtype = x.dtype })
    local v = y[{ { 2, -1, 2 } }]
    v:copy_(x:reshape(-1))
    return v:view(x.shape)
  elseif how == "reversed" then
    return x:flip():clone():flip()
  end
  return x
end

local HOW = { "plain", "channels last", "a slice", "every second", "reversed" }

local function random_case(r)
  local n = r.whole(1, 2)
  local groups = ({ 1, 1, 2, 3 })[r.whole(1, 4)]
  local c = { n = n, batch = r.whole(1, 3), groups = groups, size = {}, kernel = {}, stride = {}, before = {}, after = {},
    dilation = {} }
  c.channels = groups * ({ 1, 2, 5 })[r.whole(1, 3)]
  c.outputs = groups * ({ 1, 2, 7 })[r.whole(1, 3)]
  for i = 1, n do
    c.size[i] = ({ 1, 2, 5, 8, 17, 33 })[r.whole(1, n == 1 and 6 or 5)]
    c.kernel[i], c.stride[i], c.dilation[i] = r.whole(1, 4), r.whole(1, 3), r.whole(1, 2)
    c.before[i] = r.whole(0, 3)
    c.after[i] = c.before[i]
  end
  return c, places(c)
end

local function say(c, dtype, how)
  local function l(list) return table.concat(list, "x") end
  return ("%s %s, batch %d, %d to %d channels in %d groups, size %s, kernel %s, stride %s, padding %s, dilation %s"):format(
    dtype, how, c.batch, c.channels, c.outputs, c.groups, l(c.size), l(c.kernel), l(c.stride), l(c.before), l(c.dilation))
end

local function options(c) return { stride = c.stride, padding = c.before, dilation = c.dilation, groups = c.groups } end

describe("a convolution gives what loops give:", function()
  for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i32", "i64", "i8", "u8" } do
    it(dtype, function()
      local r, done = H.random(dtype:byte(1) + 7 * #dtype), 0
      while done < 60 do
        local c, outs = random_case(r)
        if outs then
          done = done + 1
          local how = HOW[r.whole(1, #HOW)]
          local x = whole(r, dtype, sizes(c.batch, c.channels, c.size))
          local w = whole(r, dtype, sizes(c.outputs, c.channels / c.groups, c.kernel))
          local what = say(c, dtype, how)
          local name = c.n == 1 and "conv1d" or "conv2d"
          local y = ty[name](laid(x, how), laid(w, how), options(c))
          assert.same({ sizes(c.batch, c.outputs, outs) }, y.shape, what)
          check(expected(c, outs, "y", y:numel(), H.doubles(x), H.doubles(w)), y:numel(), y, what)
          assert.equal(dtype, y.dtype)
          local compiled = ty.compile(function(a, b) return ty[name](a, b, options(c)) end)(laid(x, how), laid(w, how))
          H.same(y, compiled, "compiled, " .. what)
        end
      end
    end)
  end
end)

describe("gradients of convolutions are what loops give:", function()
  for _, dtype in ipairs { "f64", "f32", "f16" } do
    it(dtype, function()
      local r, done = H.random(3 + #dtype), 0
      while done < 50 do
        local c, outs = random_case(r)
        if outs then
          done = done + 1
          local how = HOW[r.whole(1, #HOW)]
          local x = laid(whole(r, dtype, sizes(c.batch, c.channels, c.size)), how):detach():requires_grad_()
          local w = laid(whole(r, dtype, sizes(c.outputs, c.channels / c.groups, c.kernel)), how):detach():requires_grad_()
          local g = laid(whole(r, dtype, sizes(c.batch, c.outputs, outs)), how)
          local what = say(c, dtype, how)
          local fn = c.n == 1 and ty.conv1d or ty.conv2d
          fn(x, w, options(c)):backward(g)
          local gv, xv, wv = H.doubles(g), H.doubles(x), H.doubles(w)
          check(expected(c, outs, "x", x:numel(), gv, wv), x:numel(), x.grad, "by input, " .. what)
          check(expected(c, outs, "w", w:numel(), gv, xv), w:numel(), w.grad, "by weight, " .. what)
          local dx, dw = x.grad, w.grad
          x.grad, w.grad = nil, nil
          ty.compile(function(a, b, d) fn(a, b, options(c)):backward(d) end)(x, w, g)
          H.same(dx, x.grad, "compiled, by input, " .. what)
          H.same(dw, w.grad, "compiled, by weight, " .. what)
        end
      end
    end)
  end
end)

describe("a transposed convolution", function()
  it("gives what loops give, and so do its gradients", function()
    local r, done = H.random(5), 0
    while done < 60 do
      local c = random_case(r) -- of the convolution whose transpose it is; its places are what it is given
      local outs, extra, fits = c.size, {}, true
      c.size = {}
      for i, n in ipairs(outs) do
        extra[i] = r.whole(0, math.max(c.stride[i], c.dilation[i]) - 1)
        c.size[i] = (n - 1) * c.stride[i] - 2 * c.before[i] + c.dilation[i] * (c.kernel[i] - 1) + 1 + extra[i]
        fits = fits and c.size[i] >= 1
      end
      if fits then
        done = done + 1
        local what = say(c, "f64", "transposed")
        local x = whole(r, "f64", sizes(c.batch, c.outputs, outs)):requires_grad_()
        local w = whole(r, "f64", sizes(c.outputs, c.channels / c.groups, c.kernel)):requires_grad_()
        local o = options(c)
        o.output_padding = extra
        local y = (c.n == 1 and ty.conv_transpose1d or ty.conv_transpose2d)(x, w, o)
        assert.same({ sizes(c.batch, c.channels, c.size) }, y.shape, what)
        local g = whole(r, "f64", sizes(c.batch, c.channels, c.size))
        y:backward(g)
        local xv, wv, gv = H.doubles(x), H.doubles(w), H.doubles(g)
        check(expected(c, outs, "x", y:numel(), xv, wv), y:numel(), y, what)
        check(expected(c, outs, "y", x:numel(), gv, wv), x:numel(), x.grad, "by input, " .. what)
        check(expected(c, outs, "w", w:numel(), xv, gv), w:numel(), w.grad, "by weight, " .. what)
      end
    end
  end)
end)

-- Second derivatives -----------------------------------------------------------------------------------------------------

describe("a convolution is differentiated again", function()
  for name, o in pairs { plain = { stride = 1 }, strided = { stride = 2, padding = 1 }, dilated = { dilation = 2, padding = 2, groups = 2 },
    both = { stride = 2, dilation = 2, padding = 2 } } do
    it(name, function()
      ty.manual_seed(3)
      local f64 = { dtype = "f64" }
      local groups = o.groups or 1
      local x, w, u = ty.randn({ 2, 4, 7, 6 }, f64), ty.randn({ 6, 4 / groups, 3, 2 }, f64), ty.randn({ 2, 4, 7, 6 }, f64)
      local v = ty.randn({ 6, 4 / groups, 3, 2 }, f64)
      local function loss(a, b) return (ty.conv2d(a, b, o) ^ 3):sum() end
      -- the derivative along (u, v) of the sum of the gradients with u and v
      local function slope(a, b)
        local ga, gb = ty.grad(loss, { 1, 2 })(a, b)
        return (ga * u):sum() + (gb * v):sum()
      end
      local ga, gb = ty.grad(slope, { 1, 2 })(x, w)
      local got = ((ga * u):sum() + (gb * v):sum()):item()
      local e = 1e-4
      local want = (slope(x + u * e, w + v * e):item() - slope(x - u * e, w - v * e):item()) / (2 * e)
      assert.near(1, got / want, 1e-6)
    end)
  end
end)

-- Bits -----------------------------------------------------------------------------------------------------------------

--- The convolution as a product with a copy of the windows.
local function copied(x, w, padding, stride, dilation)
  x = x:pad { { 0, 0 }, { 0, 0 }, { padding, padding }, { padding, padding } }
  local b, c, o, k = x:size(1), x:size(2), w:size(1), w:size(3)
  for d = 3, 4 do
    x = x:unfold(d, (k - 1) * dilation + 1, stride)
    if dilation > 1 then x = x:slice(-1, 1, -1, dilation) end
  end
  local h, v = x:size(3), x:size(4)
  local columns = x:permute({ 1, 2, 5, 6, 3, 4 }):clone():reshape(b, c * k * k, h * v)
  return w:reshape(o, c * k * k):matmul(columns:clone()):reshape(b, o, h, v)
end

describe("windows that are read where they lie", function()
  it("give the bits of a product with a copy of them, for any number of threads", function()
    local threads = ty.threads()
    for i, s in ipairs { -- batch, channels, outputs, size, kernel, padding, stride, dilation
      { 3, 5, 7, 33, 3, 1, 1, 1 }, { 1, 32, 40, 28, 3, 1, 1, 1 }, { 9, 32, 16, 14, 3, 1, 1, 1 }, { 2, 70, 9, 17, 5, 2, 1, 1 },
      { 1, 3, 33, 40, 7, 3, 2, 1 }, { 4, 17, 3, 17, 1, 0, 1, 1 }, { 2, 64, 1, 12, 3, 1, 1, 1 }, { 5, 40, 12, 19, 3, 2, 1, 2 },
      { 2, 300, 250, 6, 3, 0, 1, 1 }, { 1, 1, 5, 90, 9, 4, 1, 1 }, { 1, 16, 24, 300, 3, 1, 1, 1 },
      { 2, 32, 3, 32, 5, 2, 1, 1 }, { 3, 90, 20, 3, 3, 0, 1, 1 }, { 17, 8, 8, 8, 2, 0, 2, 1 },
      -- few outputs of many elements: threads share the elements
      { 1, 300, 60, 7, 3, 0, 1, 1 }, { 1, 260, 70, 12, 3, 0, 1, 1 }, { 1, 100, 90, 13, 5, 0, 1, 1 },
    } do
      for _, dtype in ipairs { "f32", "f64", "bf16" } do
        ty.manual_seed(i)
        local x, w = ty.randn(s[1], s[2], s[4], s[4]):to(dtype), ty.randn(s[3], s[2], s[5], s[5]):to(dtype)
        local want = copied(x, w, s[6], s[7], s[8])
        local function f(a, b) return ty.conv2d(a, b, { padding = s[6], stride = s[7], dilation = s[8] }) end
        for _, n in ipairs { 1, 2, 3 } do
          ty.threads(n)
          local what = ("case %d, %s, %d threads"):format(i, dtype, n)
          H.same(want, f(x, w), what)
          H.same(want, ty.compile(f)(x, w), "compiled, " .. what)
        end
      end
    end
    ty.threads(threads)
  end)

  it("with one place for its kernel has the bits of the product with that column", function()
    for n = 1, 2 do
      for _, o in ipairs { { stride = 5 }, { stride = 7, padding = 1 } } do
        local x, w = ty.randn(n, 64, 10, 10), ty.randn(7, 64, 8, 8)
        local inside = o.padding and x:pad { 0, 0, 1, 1 } or x
        local columns = inside[{ {}, {}, { 1, 8 }, { 1, 8 } }]:reshape(n, 64 * 64, 1)
        local want = w:reshape(7, 64 * 64):matmul(columns):reshape(n, 7, 1, 1)
        local compiled = ty.compile(function(a, b) return ty.conv2d(a, b, o) end)
        H.same(want, ty.conv2d(x, w, o), "eager")
        for _ = 1, 2 do H.same(want, compiled(x, w), "compiled") end
      end
    end
  end)

  it("are read by a captured step without a copy", function()
    local f = ty.compile(function(x, w, b) return ty.conv2d(x, w, b):relu() end)
    f(ty.randn(2, 8, 20, 20), ty.randn(6, 8, 3, 3), ty.randn(6))
    local t = ty.explain(f).traces[1]
    assert.same({ 0, 1 }, { t.kernels, t.steps })
  end)

  it("may be those of other products: rows, columns and both", function()
    ty.manual_seed(2)
    local x, y = ty.randn(40, 30, 20), ty.randn(50, 20, 30)
    local a, b = x:permute { 2, 1, 3 }, y:permute { 3, 2, 1 }
    local want = a:clone():reshape(30, 800):matmul(x:clone():reshape(800, 30))
    local got = ty.compile(function(v) return v:permute({ 2, 1, 3 }):reshape(30, 800):matmul(v:reshape(800, 30)) end)(x)
    H.same(want, got)
    want = a:clone():reshape(1200, 20):matmul(b:narrow(2, 1, 20):clone():reshape(30, 20, 50):sum(1))
    got = ty.contract(a, b:sum(1), 0, 1)
    H.same(want, got:reshape(1200, 50))
    H.same(y:clone():reshape(50, 600):matmul(b:clone():permute({ 2, 1, 3 }):reshape(600, 50)), ty.contract(y, b:permute { 2, 1, 3 }, 0, 2))
  end)

  it("are copied where products of a batch would have to be found among them", function()
    ty.manual_seed(6)
    local x, w = ty.randn(4, 6, 20, 30), ty.randn(24, 5, 20)
    local function f(v, u) return u:matmul(v:transpose(1, 2):reshape(24, 20, 30)) end
    H.same(w:matmul(x:transpose(1, 2):clone():reshape(24, 20, 30)), ty.compile(f)(x, w))
    local z = ty.randn(4, 6, 30, 20)
    local function g(v, u) return u:matmul(v:permute({ 2, 1, 4, 3 }):reshape(24, 20, 30)) end
    H.same(w:matmul(z:permute({ 2, 1, 4, 3 }):clone():reshape(24, 20, 30)), ty.compile(g)(z, w))
  end)

  it("may be rows over many blocks, which threads share, and the one column of a product", function()
    ty.manual_seed(5)
    local threads = ty.threads()
    local x, y, v = ty.randn(50, 9, 100, 9), ty.randn(50, 100, 9, 7), ty.randn(50, 100, 9)
    local a = x:permute { 2, 1, 3, 4 }
    local wide, thin = a:clone():reshape(9, 45000), y:clone():reshape(45000, 7)
    for _, n in ipairs { 1, 2, 3 } do
      ty.threads(n)
      H.same(wide:matmul(thin), ty.contract(a, y, 0, 3))
      H.same(thin:t():clone():matmul(wide:t():clone()), ty.contract(y:permute { 4, 1, 2, 3 }, a:permute { 2, 3, 4, 1 }, 0, 3))
      H.same(wide:matmul(v:reshape(45000)), ty.contract(a, v, 0, 3))
      H.same(v:permute({ 2, 1, 3 }):clone():reshape(45000):matmul(a:permute({ 3, 2, 4, 1 }):clone():reshape(45000, 9)),
        ty.contract(v:permute { 2, 1, 3 }, a:permute { 3, 2, 4, 1 }, 0, 3))
    end
    ty.threads(threads)
  end)

  it("are read through a pad without a copy, whatever the kernel, its steps and the padding", function()
    local r = H.random(77)
    for i, s in ipairs { -- batch, channels, outputs, groups; size, kernel, stride, before, after, dilation
      { 2, 16, 25, 1, { 13, 9 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
      { 1, 34, 48, 2, { 11, 15 }, { 3, 2 }, { 1, 1 }, { 2, 1 }, { 2, 1 }, { 1, 2 } },
      { 1, 20, 33, 1, { 17, 23 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
      { 1, 17, 26, 1, { 12, 19 }, { 2, 3 }, { 3, 1 }, { 4, 5 }, { 4, 5 }, { 2, 3 } },
      { 1, 16, 31, 1, { 5, 40 }, { 5, 3 }, { 1, 1 }, { 7, 4 }, { 7, 4 }, { 1, 1 } }, -- padding larger than the kernel
      { 1, 16, 24, 1, { 1, 30 }, { 3, 3 }, { 1, 1 }, { 3, 1 }, { 3, 1 }, { 1, 1 } }, -- most windows see only zeros
      { 2, 300, 24, 1, { 6, 5 }, { 1, 1 }, { 1, 1 }, { 1, 2 }, { 1, 2 }, { 1, 1 } },
      { 2, 90, 28, 1, { 70 }, { 5 }, { 1 }, { 3 }, { 3 }, { 1 } },
      { 1, 48, 40, 1, { 301 }, { 3 }, { 2 }, { 2 }, { 2 }, { 2 } },
    } do
      local c = { n = #s[5], batch = s[1], channels = s[2], outputs = s[3], groups = s[4], size = s[5], kernel = s[6],
        stride = s[7], before = s[8], after = s[9], dilation = s[10] }
      local outs, fn = places(c), c.n == 1 and ty.conv1d or ty.conv2d
      for _, dtype in ipairs { "f32", "f64", "bf16", "i32" } do
        local what = ("case %d, %s"):format(i, say(c, dtype, "padded"))
        local how = HOW[r.whole(1, #HOW)]
        local x = laid(whole(r, dtype, sizes(c.batch, c.channels, c.size)), how)
        local w = whole(r, dtype, sizes(c.outputs, c.channels / c.groups, c.kernel))
        local f = ty.compile(function(a, b) return fn(a, b, options(c)) end)
        local y = f(x, w)
        check(expected(c, outs, "y", y:numel(), H.doubles(x), H.doubles(w)), y:numel(), y, what)
        if how == "plain" and c.groups == 1 and i < 7 then
          local t = ty.explain(f).traces[1]
          assert.same({ 0, 1 }, { t.kernels, t.steps }, what)
        end
        if dtype ~= "i32" then
          local u, v = x:detach():requires_grad_(), w:detach():requires_grad_()
          local g = whole(r, dtype, sizes(c.batch, c.outputs, outs))
          ty.compile(function(a, b, d) fn(a, b, options(c)):backward(d) end)(u, v, g)
          local gv = H.doubles(g)
          check(expected(c, outs, "x", x:numel(), gv, H.doubles(w)), x:numel(), u.grad, "by input, " .. what)
          check(expected(c, outs, "w", w:numel(), gv, H.doubles(x)), w:numel(), v.grad, "by weight, " .. what)
        end
      end
    end
  end)

  it("multiply the zeros of a border as any other element: infinite weights give NaN there", function()
    ty.manual_seed(4)
    local x, w = ty.randn(2, 16, 12, 13), ty.randn(25, 16, 3, 3)
    w:set(2, 3, 1, 1, math.huge)
    w:set(4, 16, 2, 3, 0 / 0)
    local y = ty.compile(function(a, b) return ty.conv2d(a, b, { padding = 1 }) end)(x, w)
    H.same(copied(x, w, 1, 1, 1), y)
    local v = y:get(1, 2, 1, 5)
    assert.is_true(v ~= v)
  end)

  it("are copied with their pad where it is wanted besides, or has many kinds of borders", function()
    ty.manual_seed(9)
    local x, w = ty.randn(2, 16, 12, 13), ty.randn(25, 16, 3, 3)
    local f = ty.compile(function(a, b)
      local padded = a:pad { { 0, 0 }, { 0, 0 }, { 1, 1 }, { 1, 1 } }
      return padded, ty.conv2d(padded, b), ty.conv2d(a:pad({ { 0, 0 }, { 0, 0 }, { 1, 1 }, { 1, 1 } }, 1), b)
    end)
    local p, y, z = f(x, w)
    H.same(x:pad { { 0, 0 }, { 0, 0 }, { 1, 1 }, { 1, 1 } }, p)
    H.same(copied(x, w, 1, 1, 1), y)
    H.same(copied(x:pad({ { 0, 0 }, { 0, 0 }, { 1, 1 }, { 1, 1 } }, 1), w, 0, 1, 1), z)
    local u, v = ty.randn(1, 16, 30, 31), ty.randn(24, 16, 8, 7)
    H.same(copied(u, v:narrow(3, 1, 7):clone(), 4, 1, 1),
      ty.compile(function(a, b) return ty.conv2d(a, b:narrow(3, 1, 7), { padding = 4 }) end)(u, v))
  end)

  it("may lie in a padded operand of any product", function()
    ty.manual_seed(3)
    local x, w = ty.randn(6, 32, 40), ty.randn(24, 32 * 6)
    local function f(a, b) -- windows of 6, from the last to the first
      local padded = a:pad { { 0, 0 }, { 0, 0 }, { 5, 2 } }:flip { 3 }
      return b:reshape(24, 6, 32):permute({ 1, 3, 2 }), padded:unfold(3, 6, 1):permute { 1, 2, 4, 3 }
    end
    local b, windows = f(x, w)
    local want = b:clone():reshape(24, 192):matmul(windows:clone():reshape(6, 192, 42))
    local got = ty.compile(function(a, c)
      local u, v = f(a, c)
      return ty.contract(u:unsqueeze(1), v, 1, 2)
    end)(x, w)
    H.same(want, got)
    -- A product for each window: the batch moves towards the border.
    local z, c = ty.randn(32, 2, 40), ty.randn(2, 25, 32 * 3)
    local function g(a) return a:pad({ { 0, 0 }, { 1, 1 } }):unfold(2, 3, 1):permute { 2, 1, 4, 3 } end
    H.same(c:matmul(g(z):clone():reshape(2, 96, 40)),
      ty.compile(function(a, v) return ty.contract(v:reshape(2, 25, 32, 3), g(a), 1, 2) end)(z, c))
  end)

  it("are never read beyond an edge of the image", function()
    ffi.cdef [[void *mmap(void *, size_t, int, int, int, long); int mprotect(void *, size_t, int); int munmap(void *, size_t);]]
    local PAGE = 4096
    for _, front in ipairs { true, false } do
      for _, size in ipairs { 5, 16, 17, 31, 33, 47 } do
        local many = size < 20 and 16 or 3 -- so many channels are read through a pad
        local bytes = 4 * many * size * size
        local inner = math.ceil(bytes / PAGE) * PAGE
        local base = ffi.cast("uint8_t *", ffi.C.mmap(nil, inner + 2 * PAGE, 0, 0x22, -1, 0))
        assert.equal(0, ffi.C.mprotect(base + PAGE, inner, 3))
        local p = ffi.cast("float *", base + PAGE + (front and 0 or inner - bytes))
        for i = 0, many * size * size - 1 do p[i] = i % 7 - 3 end
        local x = ty.from_ptr(p, { 1, many, size, size }, "f32")
        for _, k in ipairs { 1, 2, 3, 5 } do
          for _, o in ipairs { 1, 5, 25 } do
            local w = ty.randn(o, many, k, k, { device = x.device })
            H.same(copied(x, w, 0, 1, 1), ty.conv2d(x, w))
            for padding = 1, 2 do
              local function f(a, b) return ty.conv2d(a, b, { padding = padding }) end
              H.same(copied(x, w, padding, 1, 1), ty.compile(f)(x, w))
              ty.compile(ty.grad(function(b) return f(x, b):sum() end))(w)
            end
            H.same(copied(x, w, 0, 2, 1), ty.conv2d(x, w, { stride = 2 }))
            local leaf = w:clone():requires_grad_()
            ty.conv2d(x, leaf):sum():backward()
          end
        end
        x:release()
        ffi.C.munmap(base, inner + 2 * PAGE)
      end
    end
  end)
end)

local machines = [[
package.path = "./?.lua;" .. package.path
local ty = require "tycho"
ty.manual_seed(8)
local sum = 0
local function add(t)
  for _, v in ipairs(t:detach():to("f64"):reshape(-1):totable()) do
    if v == v then sum = (sum * 31 + v * 2 ^ 20) % (2 ^ 45) end
  end
end
for _, s in ipairs { { 3, 6, 8, 17, 3, 1, 1, 2 }, { 2, 16, 5, 33, 3, 1, 1, 1 }, { 9, 12, 12, 8, 3, 2, 2, 12 },
      { 1, 40, 3, 9, 2, 0, 1, 1 } } do
  for _, dtype in ipairs { "f32", "f64", "f16" } do
    local o = { padding = s[6], stride = s[7], groups = s[8] }
    local x = ty.randn(s[1], s[2], s[4], s[4]):to(dtype):requires_grad_()
    local w = ty.randn(s[3], s[2] / s[8], s[5], s[5]):to(dtype):requires_grad_()
    local b = ty.randn(s[3]):to(dtype):requires_grad_()
    local function step(x, w, b)
      local y = ty.max_pool2d(ty.conv2d(x, w, b, o):relu(), 2)
      y:backward(y:detach())
      return y
    end
    add(WRAP(step)(x, w, b))
    add(x.grad) add(w.grad) add(b.grad)
  end
end
print(("%.17g"):format(sum))
]]

describe("a convolution's step", function()
  it("has the same bits eager and compiled, on every machine", function()
    local want
    for _, wrap in ipairs { "local function WRAP(f) return f end\n", "local WRAP = require('tycho').compile\n" } do
      for _, env in ipairs { {}, { TYCHO_ISA = "avx2" }, { TYCHO_MACHINE = "tile", TYCHO_ISA = "base" }, { TYCHO_THREADS = "1" } } do
        local out, status = H.script(wrap .. machines, env)
        assert.equal(0, status, out)
        want = want or out
        assert.equal(want, out)
      end
    end
  end)

  it("is replayed for other sizes", function()
    local f = ty.compile(function(x, w)
      local y = ty.max_pool2d(ty.conv2d(x, w, { padding = 1 }), 2)
      y:sum():backward()
      return y:detach()
    end)
    local w = ty.randn(4, 3, 3, 3):requires_grad_()
    for _, n in ipairs { 2, 3, 5, 8, 1 } do
      local x = ty.randn(n, 3, 8 + 2 * n, 10)
      w.grad = nil
      local got = f(x, w)
      local compiled = w.grad
      w.grad = nil
      local y = ty.max_pool2d(ty.conv2d(x, w, { padding = 1 }), 2)
      y:sum():backward()
      H.same(y:detach(), got)
      H.same(w.grad, compiled)
    end
  end)
end)

-- Sizes ------------------------------------------------------------------------------------------------------------------

describe("a convolution of nothing", function()
  it("gives nothing, or zeros", function()
    assert.same({ 0, 4, 6, 6 }, ty.conv2d(ty.zeros(0, 3, 8, 8), ty.zeros(4, 3, 3, 3)).shape)
    assert.same({ 2, 0, 6, 6 }, ty.conv2d(ty.zeros(2, 3, 8, 8), ty.zeros(0, 3, 3, 3)).shape)
    local y = ty.conv2d(ty.zeros(2, 0, 8, 8), ty.zeros(4, 0, 3, 3))
    assert.same({ 2, 4, 6, 6 }, y.shape)
    assert.equal(0, y:abs():sum():item())
  end)
end)

describe("a convolution over three dims", function()
  it("is the sum of those of its planes, and so are its gradients", function()
    for _, o in ipairs { { stride = { 1, 1, 1 }, padding = 0 }, { stride = { 2, 1, 2 }, padding = 1 } } do
      local r = H.random(2)
      local x = whole(r, "f64", 2, 3, 7, 6, 5):requires_grad_()
      local w = whole(r, "f64", 4, 3, 3, 2, 3):requires_grad_()
      local y = ty.conv3d(x, w, o)
      local p, q = x:detach():requires_grad_(), w:detach():requires_grad_()
      local deep, planes = p:pad { { 0, 0 }, { 0, 0 }, { o.padding, o.padding }, { 0, 0 }, { 0, 0 } }, {}
      local flat = { stride = { o.stride[2], o.stride[3] }, padding = o.padding }
      for t = 1, y:size(3) do
        for k = 1, 3 do
          local part = ty.conv2d(deep[{ {}, {}, (t - 1) * o.stride[1] + k }], q[{ {}, {}, k }], flat)
          planes[t] = planes[t] and planes[t] + part or part
        end
      end
      local want = ty.stack(planes, 3)
      H.same(want:detach(), y:detach())
      H.same(y:detach(), ty.compile(function(a, b) return ty.conv3d(a, b, o) end)(x:detach(), w:detach()))
      local g = whole(r, "f64", unpack(y.shape))
      y:backward(g)
      want:backward(g)
      H.same(p.grad, x.grad)
      H.same(q.grad, w.grad)
    end
  end)
end)

describe("an image as large as a dim may be", function()
  it("is expanded from one number: no window of it is copied", function()
    local x = ty.ones(1):expand { 1, 1, 2 ^ 20 }
    local y = ty.conv1d(x, ty.ones(2, 1, 5))
    assert.same({ 1, 2, 2 ^ 20 - 4 }, y.shape)
    assert.equal(5, y:min():item())
  end)
end)

-- contract -----------------------------------------------------------------------------------------------------------

describe("contract", function()
  it("has gradients, also along dims that broadcast", function()
    ty.manual_seed(4)
    local f64 = { dtype = "f64" }
    for _, s in ipairs {
      { { 3, 4, 5, 6 }, { 3, 5, 6, 2 }, 1, 2 }, { { 1, 4, 5 }, { 3, 5, 2, 2 }, 1, 1 }, { { 3, 4, 5 }, { 1, 5, 2 }, 1, 1 },
      { { 2, 1, 4, 5 }, { 1, 3, 5, 2 }, 2, 1 }, { { 4, 5 }, { 2, 3 }, 0, 0 }, { { 1, 1, 5 }, { 2, 3, 5, 6 }, 2, 1 },
    } do
      local a, b = ty.randn(s[1], f64), ty.randn(s[2], f64)
      local y = ty.contract(a, b, s[3], s[4])
      local g = ty.randn(y.shape, f64)
      local ga, gb = ty.grad(function(p, q) return (ty.contract(p, q, s[3], s[4]) * g):sum() end, { 1, 2 })(a, b)
      local da, db = ty.randn(s[1], f64), ty.randn(s[2], f64)
      local want = ((ty.contract(da, b, s[3], s[4]) + ty.contract(a, db, s[3], s[4])) * g):sum():item()
      assert.near(want, ((ga * da):sum() + (gb * db):sum()):item(), 1e-10 * (1 + math.abs(want)))
    end
  end)

  it("refuses dims that do not fit", function()
    local function says(text, ...) assert.truthy(H.raises(ty.contract, ...):find(text, 1, true)) end
    says("contract: 1 summed dims behind 0 do not fit, f32[2,3] x f32[4,5]", ty.zeros(2, 3), ty.zeros(4, 5), 0, 1)
    says("contract: 3 summed dims behind 0 do not fit", ty.zeros(2, 3), ty.zeros(2, 3), 0, 3)
    says("contract: -1 summed dims", ty.zeros(2, 3), ty.zeros(2, 3), 0, -1)
    says("leading sizes do not broadcast", ty.zeros(2, 3), ty.zeros(3, 3), 1, 1)
    says("has more than 8 dims", ty.zeros(1, 1, 1, 1, 1, 1), ty.zeros(1, 1, 1, 1, 1, 1), 0, 1)
    says("too large", ty.zeros(1, 1):expand { 2 ^ 30, 1 }, ty.zeros(1, 1):expand { 1, 2 ^ 30 }, 0, 1)
  end)
end)

-- Pooling --------------------------------------------------------------------------------------------------------------

--- The gradient of max pooling by loops: the first of equal elements of a window has all of it, or the first NaN.
local function pooled_gradient(x, kernel, o, g)
  local n = { x:size(3), x:size(4) }
  local dx, at = ffi.new("double[?]", x:numel()), 0
  local v, gv = H.doubles(x), H.doubles(g)
  for plane = 0, x:size(1) * x:size(2) - 1 do
    for p = 0, g:size(3) - 1 do
      for q = 0, g:size(4) - 1 do
        local best, where
        for i = 0, kernel[1] - 1 do
          for j = 0, kernel[2] - 1 do
            local r, s = p * o.stride[1] + i * o.dilation - o.padding, q * o.stride[2] + j * o.dilation - o.padding
            if r >= 0 and s >= 0 and r < n[1] and s < n[2] then
              local k = (plane * n[1] + r) * n[2] + s
              if not best or v[k] > best or v[k] ~= v[k] and best == best then best, where = v[k], k end
            end
          end
        end
        dx[where] = dx[where] + gv[at]
        at = at + 1
      end
    end
  end
  return dx
end

--- The gradient of average pooling by loops: each place counts g over the places that its window has.
local function averaged_gradient(dims, kernel, o, g)
  local dx, at, n = ffi.new("double[?]", dims[1] * dims[2] * dims[3] * dims[4]), 0, { dims[3], dims[4] }
  local gv = H.doubles(g)
  for plane = 0, dims[1] * dims[2] - 1 do
    for p = 0, g:size(3) - 1 do
      for q = 0, g:size(4) - 1 do
        local first, last, across = { p * o.stride[1] - o.padding, q * o.stride[2] - o.padding }, {}, 1
        for d = 1, 2 do
          last[d] = math.min(first[d] + kernel[d], n[d] + o.padding)
          across = across * (last[d] - first[d])
        end
        for r = math.max(first[1], 0), math.min(last[1], n[1]) - 1 do
          for s = math.max(first[2], 0), math.min(last[2], n[2]) - 1 do
            local k = (plane * n[1] + r) * n[2] + s
            dx[k] = dx[k] + gv[at] / across
          end
        end
        at = at + 1
      end
    end
  end
  return dx
end

describe("average pooling", function()
  for _, s in ipairs { { { 2, 2 }, { 2, 2 } }, { { 3, 2 }, { 3, 4 } }, { { 2, 4 }, { 2, 4 }, 1 }, { { 3, 3 }, { 1, 1 }, 1 },
    { { 2, 3 }, { 1, 1 } }, { { 3, 3 }, { 2, 2 }, 1 }, { { 5, 5 }, { 5, 5 }, 2 }, { { 1, 1 }, { 2, 2 } } } do
    local kernel, o = s[1], { stride = s[2], padding = s[3] or 0 }
    it(("gives each place its part: %dx%d, stride %d, padding %d"):format(kernel[1], kernel[2], o.stride[1], o.padding), function()
      for _, ceil in ipairs { false, true } do
        for _, size in ipairs { { 8, 8 }, { 9, 7 }, { 13, 10 } } do
          local x, u = ty.randn({ 2, 3, unpack(size) }, { dtype = "f64" }), ty.randn({ 2, 3, unpack(size) }, { dtype = "f64" })
          local function pool(v) return ty.avg_pool2d(v, kernel, { stride = o.stride, padding = o.padding, ceil_mode = ceil }) end
          local g = ty.randn(pool(x).shape, { dtype = "f64" })
          local slope = ty.grad(function(v) return (pool(v) * g):sum() end)
          local want, dx = averaged_gradient(x.shape, kernel, o, g), slope(x)
          local got = H.doubles(dx)
          for i = 0, x:numel() - 1 do assert.near(want[i], got[i], 1e-14 * (1 + math.abs(want[i]))) end
          H.same(dx, ty.compile(slope)(x))
          assert.near((dx * u):sum():item(), (pool(u) * g):sum():item(), 1e-12) -- it is linear
          local second = ty.grad(function(v) return (ty.grad(function(w) return (pool(w) ^ 3):sum() end)(v) * u):sum() end)
          assert.near(6 * (pool(u) * pool(u) * pool(x)):sum():item(), (second(x) * u):sum():item(), 1e-11)
          H.same(ty.stack { slope(x), slope(u) }, ty.vmap(slope)(ty.stack { x, u }))
        end
      end
    end)
  end
end)

describe("max pooling", function()
  it("of infinities and NaNs gives the gradient to the first NaN, never to padding", function()
    local r, odd = H.random(7), { -math.huge, -math.huge, -math.huge, 0 / 0, 1, math.huge, -math.huge, -math.huge }
    for _, s in ipairs { { { 2, 2 }, { 2, 2 }, 1 }, { { 3, 3 }, { 2, 2 }, 1 }, { { 5, 5 }, { 5, 5 }, 2 }, { { 3, 2 }, { 3, 2 } },
      { { 3, 3 }, { 1, 1 }, 1, 2 }, { { 5, 4 }, { 3, 2 }, 2 }, { { 2, 2 }, { 5, 5 }, 1, 2 } } do
      local kernel, o = s[1], { stride = s[2], padding = s[3] or 0, dilation = s[4] or 1 }
      for _, ceil in ipairs { false, true } do
        for _, most in ipairs { 3, 8 } do -- of -inf alone; of all
          local list = {}
          for i = 1, 2 * 13 * 10 do list[i] = odd[r.whole(1, most)] end
          local x = ty.tensor(list):reshape(1, 2, 13, 10)
          local function pool(v)
            return ty.max_pool2d(v, kernel, { stride = o.stride, padding = o.padding, dilation = o.dilation, ceil_mode = ceil })
          end
          local g = whole(r, "f32", unpack(pool(x).shape))
          local leaf = x:clone():requires_grad_()
          pool(leaf):backward(g)
          check(pooled_gradient(x, kernel, o, g), x:numel(), leaf.grad, "gradient")
          local dx = leaf.grad
          leaf.grad = nil
          ty.compile(function(v, d) pool(v):backward(d) end)(leaf, g)
          H.same(dx, leaf.grad, "compiled")
        end
      end
    end
  end)

  for _, s in ipairs { { { 2, 2 }, { 2, 2 } }, { { 3, 3 }, { 2, 2 } }, { { 2, 3 }, { 2, 3 }, 1 }, { { 2, 2 }, { 1, 1 } },
    { { 5, 5 }, { 5, 5 }, 2 }, { { 5, 4 }, { 3, 2 } }, { { 2, 2 }, { 3, 3 }, 0, 2 }, { { 2, 1 }, { 2, 2 } } } do
    local kernel, o = s[1], { stride = s[2], padding = s[3] or 0, dilation = s[4] or 1 }
    it(("gives the gradient to the first of equals: %dx%d, stride %d, padding %d, dilation %d"):format(kernel[1], kernel[2],
      o.stride[1], o.padding, o.dilation), function()
      for _, ceil in ipairs { false, true } do
        for _, size in ipairs { { 8, 8 }, { 9, 7 }, { 13, 10 } } do
          local r = H.random(size[1])
          local x = whole(r, "f32", 2, 3, size[1], size[2]):requires_grad_()
          local function pool(v)
            return ty.max_pool2d(v, kernel, { stride = o.stride, padding = o.padding, dilation = o.dilation, ceil_mode = ceil })
          end
          local y = pool(x)
          local g = whole(r, "f32", unpack(y.shape))
          y:backward(g)
          check(pooled_gradient(x, kernel, o, g), x:numel(), x.grad, "gradient")
          local dx = x.grad
          x.grad = nil
          local compiled = ty.compile(function(v, d) pool(v):backward(d) end)
          compiled(x, g)
          H.same(dx, x.grad, "compiled")
          assert.same({}, ty.explain(compiled).aborts)
        end
      end
    end)
  end

  it("does so where windows cover each dim evenly", function()
    local x = whole(H.random(3), "f32", 2, 3, 12, 9):requires_grad_()
    local g = whole(H.random(4), "f32", 2, 3, 4, 3)
    ty.adaptive_max_pool2d(x, { 4, 3 }):backward(g)
    check(pooled_gradient(x, { 3, 3 }, { stride = { 3, 3 }, padding = 0, dilation = 1 }, g), x:numel(), x.grad, "gradient")
    local line = ty.tensor { { { 1, 3, 3, 3, 2, 2, 2 } } }:requires_grad_() -- windows 1-3, 3-5, 5-7
    ty.adaptive_max_pool1d(line, 3):backward(ty.tensor { { { 1, 10, 100 } } })
    assert.same({ 0, 1, 10, 0, 100, 0, 0 }, line.grad:reshape(-1):totable())
  end)

  it("is differentiated again", function()
    local x = ty.randn({ 1, 2, 6, 6 }, { dtype = "f64" })
    local u = ty.randn({ 1, 2, 6, 6 }, { dtype = "f64" })
    for _, o in ipairs { { 2 }, { 3, { stride = 2 } } } do
      local function loss(v) return (ty.max_pool2d(v, unpack(o)) ^ 3):sum() end
      local function slope(v) return (ty.grad(loss)(v) * u):sum() end
      local got = (ty.grad(slope)(x) * u):sum():item()
      local e = 1e-5
      assert.near(1, got / ((slope(x + u * e):item() - slope(x - u * e):item()) / (2 * e)), 1e-6)
    end
  end)
end)
