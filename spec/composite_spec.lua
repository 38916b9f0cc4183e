--- composite_spec.lua -- functions of several operations run as one plan in eager mode, where tensors are large.

local H = require "spec.helper"
local ty = H.ty
local rows = ty.internals.composites

local x = (ty.arange(16384):reshape(128, 128) * 0.37):sin() * 3
local p = x:abs() / 4

-- Arguments behind the first one, by name.
local others = {
  clamp = { -1, 1 }, leaky_relu = { 0.1 }, lerp = { p, 0.3 }, hypot = { p }, logaddexp = { p }, logical_and = { p }, logical_or = { p },
  logical_xor = { p }, masked_fill = { x:gt(0), 7 }, isclose = { p }, addmm = { x, x }, mse_loss = { p }, l1_loss = { p },
  smooth_l1_loss = { p }, huber_loss = { p }, bce_with_logits = { p }, kl_div = { p }, index_add = { 1, ty.arange(128):to "i64" + 1, p },
  cross_entropy = { (ty.arange(128) % 128):to "i64" + 1 }, nll_loss = { (ty.arange(128) % 128):to "i64" + 1 }, tensordot = { x, 1 },
  binary_cross_entropy = { p }, soft_margin_loss = { p }, multilabel_soft_margin_loss = { p }, margin_ranking_loss = { p, x },
  hinge_embedding_loss = { p }, cosine_embedding_loss = { p, (ty.arange(128) % 2) * 2 - 1 }, triplet_margin_loss = { p, x },
  multi_margin_loss = { (ty.arange(128) % 128):to "i64" + 1 }, gaussian_nll_loss = { p, p + 1 }, poisson_nll_loss = { p },
  multilabel_margin_loss = { ty.arange(128 * 128):reshape(128, 128):to "i64" % 129 }, cosine_similarity = { p },
  pairwise_distance = { p }, prelu = { x[1] }, threshold = { 0.5, -1 },
}

-- Of other first arguments, or made of random numbers: elsewhere.
local elsewhere = {}
for name in ("dropout gumbel_softmax " ..
  "einsum meshgrid tri one_hot conv1d conv2d conv3d conv_transpose1d conv_transpose2d interpolate avg_pool1d " ..
  "avg_pool2d max_pool1d max_pool2d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d " ..
  "conv_transpose3d max_pool3d avg_pool3d " ..
  "adaptive_avg_pool3d adaptive_max_pool3d max_unpool1d max_unpool2d max_unpool3d lp_pool1d lp_pool2d " ..
  "grid_sample affine_grid ctc_loss diagflat"):gmatch("%S+") do
  elsewhere[name] = true
end

local texts = H.texts

--- How often something was computed, and what fn gives.
local function cuts(fn)
  local before = ty.stats().cuts
  local y = fn()
  return ty.stats().cuts - before, y
end

describe("a composite of a large tensor", function()
  it("gives the bits of its operations one by one", function()
    local compared = 0
    for _, row in ipairs(rows) do
      if not elsewhere[row.name] and not row.single and row.only ~= "method" then
        local args = others[row.name] or {}
        local ok, want = pcall(function() return texts(row.fn(x, unpack(args))) end)
        if ok then
          compared = compared + 1
          assert.equal(want, texts(ty[row.name](x, unpack(args))), row.name)
        end
      end
    end
    assert.truthy(compared > 45, compared)
  end)

  it("is one plan", function()
    local first = ty.ones(129, 128)
    assert.equal(1, (cuts(function() return first:softmax(2) end)))
    for _ = 1, 3 do x:softmax(2) end
    assert.equal(0, (cuts(function() return x:softmax(2) end))) -- an instance runs
  end)

  it("keeps nothing but its result", function()
    local y = ty.full({ 1e6 }, 0.5)
    y:mul_(1)
    collectgarbage()
    collectgarbage "stop"
    local before = ty.stats().memory.used
    local z = y:gelu()
    local one = ty.stats().memory.used - before
    assert.truthy(one < 4.2e6, one)
    y:add_(1) -- in place: nobody else holds what it held
    assert.truthy(ty.stats().memory.used - before < 4.2e6, ty.stats().memory.used - before)
    collectgarbage "restart"
    assert.truthy(math.abs(z[1]:item() - 0.34573) < 1e-5)
  end)

  it("has a gradient", function()
    local w = x:clone():requires_grad_()
    local v = x:narrow(1, 1, 4):clone():requires_grad_()
    local a, b = (w:softmax(2) * w):sum(), (v:softmax(2) * v):sum()
    a:backward()
    b:backward()
    assert.equal(texts(v.grad), texts(w.grad:narrow(1, 1, 4)))
  end)

  it("is one plan with a gradient too, and so is the way back", function()
    local w = x:clone():requires_grad_()
    local forward, y = cuts(function() return w:softplus() end)
    local s = y:sum()
    assert.equal(1, forward)
    assert.equal(1, (cuts(function() s:backward() end)))
  end)

  it("keeps nothing for its gradient that follows from its operand, element by element", function()
    local w = ty.full({ 1e6 }, 0.5):requires_grad_()
    w:silu():sum():backward()
    w.grad = nil
    collectgarbage()
    collectgarbage()
    collectgarbage "stop"
    local before = ty.stats().memory.used
    local y = w:silu()
    local grown = ty.stats().memory.used - before
    collectgarbage "restart"
    assert.truthy(grown > 4e6 and grown < 4.8e6, grown) -- the result; the sigmoid is computed again
    y:sum():backward()
    assert.truthy(math.abs(w.grad[1]:item() - 0.73996) < 1e-5)
  end)

  it("has the gradient of a function of Lua's inside, which keeps what it likes", function()
    local w = ((ty.arange(9600) * 0.37):sin()):reshape(1, 1, 96, 100):requires_grad_()
    ty.adaptive_max_pool2d(w, 7):sum():backward()
    assert.equal(49, w.grad:sum():item())
    local v = w:detach():clone():requires_grad_()
    local rule = ty.custom_grad(function(a)
      local twice = a * 2
      return twice * a, twice
    end, function(twice, g) return g * twice * 2 end)
    local fn = ty.internals.composite.run(function(a) return rule(a) + 1 end, v)
    fn:sum():backward()
    H.same((v:detach() * 2) * 2, v.grad)
  end)

  it("that takes off a maximum has no gradient through it", function()
    local w = x:clone():requires_grad_()
    for _, fn in ipairs { ty.softmax, ty.log_softmax, ty.logsumexp } do
      local count = 0
      for _, node in ipairs(ty.graph(function(a) return ty.grad(function(b) return (fn(b, 2) * b:size(2)):sum() end)(a) end, w:detach())) do
        if node.op == "eq" then count = count + 1 end
      end
      assert.equal(fn == ty.logsumexp and 1 or 0, count) -- one asks for an infinite maximum
    end
  end)

  it("may be written to its argument, without a copy", function()
    local a = x:clone()
    for _ = 1, 3 do a:clamp_(-1, 1) end
    assert.equal(0, (cuts(function() a:clamp_(-1, 1) end)))
    local big, other = ty.ones(500, 500), ty.ones(500, 500)
    assert.equal(1, (cuts(function() big:add_(other) end))) -- and no plan of a copy
    collectgarbage()
    collectgarbage "stop"
    local peak, used = ty.stats().memory.peak, ty.stats().memory.used
    local huge = ty.ones(math.floor((peak - used) / 4) + 1e6)
    peak = ty.stats().memory.peak
    huge:add_(1)
    collectgarbage "restart"
    assert.equal(peak, ty.stats().memory.peak) -- in place
    assert.equal(2, huge[1]:item())
    local view = big[1]
    big:add_(other)
    assert.equal(3, view[1]:item())
    other:add_(5)
    assert.equal(3, big[{ 1, 1 }]:item())
  end)

  it("may be written to its argument", function()
    local a, b = x:clone(), x:clone()
    a:softmax_(2)
    assert.equal(texts(b:softmax(2)), texts(a))
  end)

  it("raises at the caller's line, and works afterwards", function()
    local ok, e = pcall(function() return x:softmax(3) end)
    assert.equal(false, ok)
    assert.match("^[^:]*composite_spec%.lua:%d+: softmax: ", e)
    assert.equal(texts(rows and x:softmax(2)), texts(x:clone():softmax(2)))
  end)

  it("may be called in coroutines, captures and vmaps", function()
    local want = texts(x:softmax(2))
    local co = coroutine.wrap(function()
      local y = x:softmax(2)
      coroutine.yield(texts(y))
    end)
    assert.equal(want, co())
    local c = ty.compile(function(a) return a:softmax(2) end)
    for _ = 1, 3 do assert.equal(want, texts(c(x))) end
    assert.equal(1, ty.explain(c).captures)
    assert.equal(want, texts(ty.vmap(function(r) return r:softmax(1) end)(x)))
  end)
end)

-- The first call is remembered, the second makes an instance, later ones are answered by it.
describe("a composite that came before", function()
  local small = (ty.arange(256):reshape(16, 16) * 0.37):sin() * 3
  local near = small:abs() / 4

  it("gives the bits of its operations one by one, for any layout and dtype", function()
    local compared = 0
    local layouts = { function(t) return t end, function(t) return t:t() end, function(t) return t[{ { 2, 9 } }] end,
      function(t) return t[{ {}, { 1, -1, 2 } }] end, function(t) return t:to "f64" end, function(t) return t:to "bf16" end,
      function(t) return t:to "i64" end, function(t) return t[1] end, function(t) return t:narrow(1, 1, 1):expand(5, 16) end,
      function(t) return t[{ { 3, 2 } }] end }
    local values = { {}, { 0.3 }, { -1, 1 }, { near }, { 2 }, { 1 }, { near, 0.3 }, { "none" }, { near:t(), "sum" }, { near:gt(1), 7 },
      { (ty.arange(16) % 16):to "i64" + 1 }, { true }, { near, near } }
    for i, row in ipairs(rows) do
      for k, layout in ipairs(row.single and {} or layouts) do
        for n, args in ipairs(values) do
          local t = layout(small)
          ty.manual_seed(5)
          local ok, want = H.share(i + k + n, 3)
          if ok then ok, want = pcall(function() return texts(row.fn(t, unpack(args))) end) end
          for _ = 1, ok and 3 or 0 do
            ty.manual_seed(5)
            compared = compared + 1
            assert.equal(want, texts((row.only == "method" and ty.internals.methods or ty)[row.name](t, unpack(args))), row.name)
          end
        end
      end
    end
    assert.truthy(compared > H.cases(1000, 3000), compared)
  end)

  it("is a plan on the tape, too, and so is the way back", function()
    local w, g = small:clone():requires_grad_(), ty.ones_like(small)
    for _ = 1, 3 do w:softmax(2):backward(g) end
    local before = ty.stats().operations
    local y = w:softmax(2)
    assert.equal(0, ty.stats().operations - before)
    y:backward(g)
    assert.equal(1, ty.stats().operations - before) -- added to the leaf's gradient
  end)

  it("has the gradients of its operations one by one, for any layout", function()
    local compared = 0
    local layouts = { function(t) return t end, function(t) return t:t() end, function(t) return t[{ { 2, 9 } }] end,
      function(t) return t * 1.5 end, function(t) return (t * 1.5):narrow(2, 2, 5) end, function(t) return t:to "bf16" end,
      function(t) return t:detach() + t[1] end, function(t) return t[2] end }
    local values = { {}, { 0.3 }, { -1, 1 }, { near }, { 2 }, { near:t(), "sum" }, { (ty.arange(16) % 16):to "i64" + 1 }, { true } }
    local function tell(fn, layout, args, way)
      ty.manual_seed(5)
      local w = small:clone():requires_grad_()
      local t = layout(w)
      if way == 2 then t = t * 1 end
      local y = fn(t, unpack(args))
      local told = texts(y)
      if not ty.is_tensor(y) or not y.requires_grad then return told end
      y:square():sum():backward(nil, { create_graph = way == 3 })
      if w.grad.requires_grad then w.grad:square():sum():backward() end
      return told .. texts(w.grad)
    end
    for i, row in ipairs(rows) do
      local public = (row.only == "method" and ty.internals.methods or ty)[row.name]
      for k, layout in ipairs(row.single and {} or layouts) do
        for n, args in ipairs(values) do
          local way = (k + n) % 3 + 1
          local ok, want = H.share(i + k + n, 3)
          if ok then ok, want = pcall(tell, row.fn, layout, args, way) end
          for _ = 1, ok and 3 or 0 do
            compared = compared + 1
            assert.equal(want, tell(public, layout, args, way), row.name)
          end
        end
      end
    end
    assert.truthy(compared > H.cases(500, 1500), compared)
  end)

  it("draws as its operations do", function()
    local function drawn(f)
      ty.manual_seed(9)
      local out = {}
      for i = 1, 5 do out[i] = texts(f(small, 0.5, true)) end
      return table.concat(out, ";") .. texts(ty.rand(3))
    end
    local plain
    for _, row in ipairs(rows) do plain = row.name == "dropout" and row.fn or plain end
    assert.equal(drawn(plain), drawn(ty.dropout))
  end)

  it("sees other numbers, settings and contents", function()
    for i = 1, 40 do
      local bound = i % 4 / 2
      assert.equal(texts(small:minimum(bound):maximum(-bound)), texts(small:clamp(-bound, bound)))
      local t = small * i
      assert.equal(texts(t:sum(2) / 16), texts(t:mean(2)))
    end
    local t = small:clone()
    for i = 1, 5 do
      t:mul_(0.5)
      assert.equal(texts((t * t):sum():sqrt()), texts(t:norm()), i)
    end
  end)

  it("is not taken for one that a gradient is asked of", function()
    for _ = 1, 3 do small:softmax(2) end
    local w = small:clone():requires_grad_()
    for _ = 1, 4 do w:detach():softmax(2) end
    assert.equal(true, w:softmax(2).requires_grad)
    local g = ty.grad(function(q) return (q:softmax(2) * near):sum() end)(small)
    ;(w:softmax(2) * near):sum():backward()
    assert.equal(texts(g), texts(w.grad))
    ty.no_grad(function() assert.equal(texts(small:softmax(2)), texts(w:softmax(2))) end)
  end)

  it("raises as before, with an index out of range too", function()
    local labels = ty.tensor({ 1, 2, 3 }, { dtype = "i64" })
    local scores = small:narrow(1, 1, 3)
    local want = ty.cross_entropy(scores, labels):item()
    for _ = 1, 3 do assert.equal(want, ty.cross_entropy(scores, labels):item()) end
    labels[2] = 99
    for _ = 1, 3 do
      local ok, e = pcall(function() return ty.cross_entropy(scores, labels) end)
      assert.equal(false, ok)
      assert.match("composite_spec%.lua:%d+: .*99.*out of range", e)
    end
    labels[2] = 2
    assert.equal(want, ty.cross_entropy(scores, labels):item())
    assert.error_matches(function() return small:softmax(7) end, "softmax")
  end)

  it("may meet finalisers that call others, and the end of memory", function()
    local want = texts(small:softmax(2))
    local tries, failed = 0, 0
    for i = 1, 300 do
      getmetatable(newproxy(true)).__gc = function()
        tries = tries + 1
        for k = 1, 8 do ty.ones(i % 7 + 1, k):softmax(2) end
      end
      collectgarbage("setpause", 10)
      collectgarbage("step", 10)
      assert.equal(want, texts(small:softmax(2)))
      H.probe.fail(i % 31, i % 2 == 0 and 1 or -1) -- at times there is none from the first on
      local ok, y = pcall(function() return small:logsumexp(i % 2 + 1) end)
      H.probe.fail(-1)
      if ok then assert.equal(16, #y) else failed = failed + 1 end
    end
    collectgarbage("setpause", 200)
    assert.truthy(tries > 50 and failed >= 5, tries .. " " .. failed)
  end)
end)
