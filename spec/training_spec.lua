--- training_spec.lua -- compiled training steps: forward, loss, backward and update as one plan, with eager's bits.
-- Two learners are made alike; one steps eagerly, one compiled. After each step losses, parameters, gradients, buffers and
-- the optimisers' states are the same bits, and as many captures were made as are told.

local H = require "spec.helper"
local ty = H.ty
local nn, optim = ty.nn, ty.optim

-- Learners ------------------------------------------------------------------------------------------------------------

local sorted = H.sorted

local function text(opts)
  local parts = {}
  for i, k in ipairs(sorted(opts)) do parts[i] = k .. " = " .. tostring(opts[k]) end
  return table.concat(parts, ", ")
end

--- Tensors of a learner that a step may change, by name; "none" where there is no gradient.
local function state_of(learner)
  local state = {}
  for i, p in ipairs(learner.params) do
    state["parameter " .. i] = p:detach()
    state["gradient " .. i] = p.grad or "none"
  end
  if learner.model then
    for name, b in learner.model:named_buffers() do state[name] = b end
  end
  for i, g in ipairs(learner.opt and learner.opt.groups or {}) do
    for j, s in ipairs(g.state) do
      for k, v in pairs(s) do state[("state %d %d %s"):format(i, j, k)] = v end
    end
  end
  return state
end

local function same_state(a, b, step)
  local p, q = state_of(a), state_of(b)
  for _, name in ipairs(sorted(p)) do
    local v, w = p[name], q[name]
    local at = ("step %d, %s"):format(step, name)
    if ty.is_tensor(v) then
      assert.truthy(ty.is_tensor(w), at)
      H.same(v, w, at)
    else
      assert.equal(v, w, at)
    end
  end
end

--- Steps two learners that make() gives, one compiled; between(learner, n) comes before each step.
local function train(make, opts)
  opts = opts or {}
  ty.manual_seed(3)
  local eager = make()
  ty.manual_seed(3)
  local other = make()
  local compiled = ty.compile(other.step, opts.compile)
  for n = 1, opts.steps or 20 do
    local losses = {}
    for i, learner in ipairs { eager, other } do
      ty.manual_seed(100 + n)
      if opts.between then opts.between(learner, n) end
      local run = i == 1 and learner.step or compiled
      losses[i] = run(learner.batch(n))
    end
    if losses[1] then H.same(losses[1], losses[2], "loss of step " .. n) end
    if n <= 25 or n % 50 == 0 then same_state(eager, other, n) end
  end
  local told = ty.explain(compiled)
  assert.same({}, told.aborts, tostring(told))
  local captures = opts.captures or 1
  local as_told = told.captures == captures or opts.fewer and told.captures < captures
  assert.truthy(as_told, tostring(told))
  return told, eager, other
end

--- A learner of a module, whose step is the usual one.
local function learner_of(model, opt, batch, loss, extra)
  extra = extra or {}
  local learner = { model = model, params = model:parameters(), opt = opt, batch = batch }
  function learner.step(x, y)
    opt:zero_grad()
    local value = loss(model(x), y)
    value:backward()
    if extra.clip then ty.clip_grad_norm_(learner.params, extra.clip) end
    opt:step()
    return value:detach()
  end
  return learner
end

local function mse(a, b)
  local d = a - b
  return (d * d):mean()
end

local function mlp() return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2)) end

local function numbers() return ty.randn(6, 8), ty.randn(6, 2) end

local function learner(name, opts, extra)
  return function()
    local m = mlp()
    return learner_of(m, optim[name](m:parameters(), opts), numbers, mse, extra)
  end
end

local optimisers = {
  { "SGD", { lr = 0.1 } },
  { "SGD", { lr = 0.1, momentum = 0.9 } },
  { "SGD", { lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.01 } },
  { "Adam", { lr = 0.01 } },
  { "Adam", { lr = 0.01, amsgrad = true, weight_decay = 0.1 } },
  { "AdamW", { lr = 0.01 } },
  { "RMSprop", { lr = 0.01 } },
  { "RMSprop", { lr = 0.01, centered = true, momentum = 0.5 } },
  { "Adagrad", { lr = 0.05, lr_decay = 0.01 } },
  { "Lion", { lr = 0.001, weight_decay = 0.1 } },
}

describe("a compiled training step gives the bits of eager", function()
  for _, row in ipairs(optimisers) do
    it("with " .. row[1] .. " " .. text(row[2]), function()
      local told = train(learner(row[1], row[2]))
      assert.equal(20, told.skips)
    end)
  end

  it("over 1000 steps", function()
    local told = train(learner("Adam", { lr = 0.01 }), { steps = 1000 })
    assert.equal(1000, told.skips)
  end)

  it("over 1000 steps with batch norm, dropout and a schedule, all of them in the plan or between", function()
    local told, eager = train(function()
      local m = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 5))
      local opt = optim.AdamW(m:parameters(), { lr = 0.02, weight_decay = 0.05 })
      local function batch() return ty.randn(6, 8), ty.randint(1, 5, { 6 }) end
      local s = learner_of(m, opt, batch, nn.CrossEntropyLoss({ label_smoothing = 0.1 }), { clip = 1 })
      s.schedule = optim.OneCycleLR(opt, { steps = 1000, most = 0.02 })
      return s
    end, { steps = 1000, between = function(s, n) if n > 1 then s.schedule:step() end end })
    assert.equal(1000, told.skips)
    assert.truthy(eager.opt.groups[1].lr < 1e-4) -- the schedule came to its end
  end)

  it("in bf16 by ty.autocast: parameters, gradients and states stay f32", function()
    local told, eager = train(function()
      local m = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 5))
      local opt = optim.Adam(m:parameters(), { lr = 0.01 })
      local function batch() return ty.randn(6, 8), ty.randint(1, 5, { 6 }) end
      local function loss(x, y) return ty.autocast("bf16", function() return ty.cross_entropy(x, y) end) end
      local s = learner_of(m, opt, batch, loss)
      local step = s.step
      function s.step(x, y) return ty.autocast("bf16", step, x, y) end
      return s
    end)
    assert.equal(20, told.skips)
    assert.truthy(told.traces[1].graph:find("bf16", 1, true))
    for name, v in pairs(state_of(eager)) do
      if ty.is_tensor(v) then assert.equal("f32", v.dtype, name) end
    end
  end)

  it("in f16 with a scaled loss, and the rate of a schedule that steps inside", function()
    local told, eager = train(function()
      local m = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
      local opt, scale = optim.SGD(m:parameters(), { lr = 0.05, momentum = 0.9 }), 1024
      local schedule = optim.CosineLR(opt, { steps = 20 })
      local s = { model = m, params = m:parameters(), opt = opt, batch = numbers }
      function s.step(x, y)
        opt:zero_grad()
        local out = ty.autocast("f16", m, x)
        local value = mse(out:to("f32"), y)
        ;(value * scale):backward()
        for _, p in ipairs(s.params) do p.grad:div_(scale) end
        opt:step()
        schedule:step()
        return value:detach()
      end
      return s
    end)
    assert.equal(20, told.skips)
    assert.equal("f32", eager.params[1].grad.dtype)
  end)

  it("with clipped gradients", function() train(learner("SGD", { lr = 0.5 }, { clip = 0.1 })) end)

  it("of convolutions, batch norm and dropout", function()
    train(function()
      local m = nn.Sequential(nn.Conv2d(1, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, 5))
      local function batch() return ty.randn(3, 1, 8, 8), ty.randint(1, 5, { 3 }) end
      return learner_of(m, optim.AdamW(m:parameters(), { lr = 0.01 }), batch, nn.CrossEntropyLoss())
    end)
  end)

  it("of attention", function()
    train(function()
      local m = nn.Sequential(nn.Linear(4, 8), nn.TransformerBlock(8, 2, { causal = true }), nn.LayerNorm(8), nn.Linear(8, 3))
      local function batch() return ty.randn(2, 5, 4), ty.randn(2, 5, 3) end
      return learner_of(m, optim.Adam(m:parameters(), { lr = 0.01 }), batch, mse)
    end)
  end)

  it("of labels that do not count", function()
    local _, eager = train(function()
      local m = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 5))
      local opt = optim.SGD(m:parameters(), { lr = 0.1 })
      local function batch()
        return ty.randn(6, 8), ty.where(ty.rand(6):gt(0.4), ty.randint(1, 5, { 6 }), -100)
      end
      return learner_of(m, opt, batch, nn.CrossEntropyLoss { ignore_index = -100 })
    end)
    local loss = ty.compile(function(x, y) return ty.cross_entropy(x, y, { ignore_index = -100 }) end)
    local x, y = ty.randn(3, 5), ty.tensor({ 1, -100, -2 }, { dtype = "i64" }) -- -2: the last but one
    for _ = 1, 2 do assert.near((ty.cross_entropy(x[{ { 1, 3, 2 } }], ty.tensor({ 1, 4 }, { dtype = "i64" }))):item(),
      loss(x, y):item(), 1e-6) end
    for _, bad in ipairs { 6, 0, -6, -99 } do
      y:set(3, bad)
      local who = ty.device() == "cpu" and "cross_entropy" or "gather" -- a device names the operation that it checks
      assert.equal(("%s: index %d at (3, 1) is out of range 1..5"):format(who, bad), H.raises(loss, x, y))
    end
    assert.equal(ty.device() == "cpu" and 2 or 6, ty.explain(loss).skips) -- a device finds it in the trace
    assert.truthy(eager.params[1].grad)
  end)

  it("that walk through the module inside", function()
    train(function()
      local m = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 2))
      local opt = optim.SGD(m:parameters(), { lr = 0.1 })
      local s = { model = m, params = m:parameters(), opt = opt, batch = numbers }
      function s.step(x, y)
        m:zero_grad()
        local value = mse(m:train()(x), y)
        for name, p in m:named_parameters() do
          if name:find "weight" then value = value + p:square():sum() * 0.01 end
        end
        value:backward()
        ty.clip_grad_norm_(m:parameters(), 1)
        opt:step()
        local seen = m:eval()(x):detach()
        for _, b in ipairs(m:buffers()) do seen = seen + b:mean() end
        return value:detach() / m:num_parameters() + seen:sum() * m:state_dict()["2.running_var"]:sum()
      end
      return s
    end)
  end)

  it("with tied weights", function()
    train(function()
      local a, b = nn.Linear(8, 8), nn.Linear(8, 8)
      b.weight = a.weight
      local m = nn.Sequential(a, nn.Tanh(), b)
      return learner_of(m, optim.SGD(m:parameters(), { lr = 0.1 }), function() return ty.randn(6, 8), ty.randn(6, 8) end, mse)
    end)
  end)

  it("of ty.value_and_grad, in nested tables", function()
    train(function()
      local w = { first = { a = ty.randn(8, 16), b = ty.zeros(16) }, ty.randn(16, 2), count = 3 }
      local function loss(p, x, y)
        local h = ty.tanh(x:matmul(p.first.a) + p.first.b):matmul(p[1])
        return mse(h, y) * p.count
      end
      local vg = ty.value_and_grad(loss)
      local s = { params = {}, batch = numbers }
      function s.step(x, y)
        local value, g = vg(w, x, y)
        w = { first = { a = w.first.a - g.first.a * 0.1, b = w.first.b - g.first.b * 0.1 }, w[1] - g[1] * 0.1, count = 3 }
        s.params = { w.first.a, w.first.b, w[1] }
        return value
      end
      return s
    end, { captures = 2, fewer = true }) -- the tables that it makes may have their keys in another order
  end)

  it("of ty.grad made inside, of gradients of gradients", function()
    train(function()
      local w = ty.randn(8)
      local s = { params = { w } }
      function s.batch() return ty.randn(8), 0.1 end
      function s.step(x, rate)
        local f = ty.grad(function(v)
          local g = ty.grad(function(u) return (u * u * u * x):sum() end)(v)
          return (g * g):sum()
        end)
        local g = f(w)
        ty.no_grad(function() w:sub_(g * rate * 1e-3) end)
        return (g * g):sum()
      end
      return s
    end)
  end)

  it("of ty.grad in parameters and inputs at once, written in place", function()
    train(function()
      local w, b = ty.randn(8, 2), ty.zeros(2)
      local s = { params = { w, b }, batch = numbers }
      local both = ty.grad(function(v, c, x, y) return mse(x:matmul(v) + c, y) end, { 1, 2 })
      function s.step(x, y)
        local gw, gb = both(w, b, x, y)
        w:sub_(gw * 0.1)
        b:sub_(gb * 0.1)
        return gb
      end
      return s
    end)
  end)
end)

describe("one capture serves", function()
  it("rates that a schedule changes", function()
    train(function()
      local s = learner("SGD", { lr = 0.1, momentum = 0.9 })()
      s.schedule = optim.StepLR(s.opt, { every = 3, gamma = 0.7 })
      return s
    end, { between = function(s, n) if n > 1 then s.schedule:step() end end })
  end)

  it("a schedule that steps inside", function()
    train(function()
      local s = learner("Adam", { lr = 0.1 })()
      local schedule, step = optim.ExponentialLR(s.opt, { gamma = 0.9 }), s.step
      function s.step(x, y)
        local value = step(x, y)
        schedule:step()
        return value
      end
      return s
    end)
  end)
end)

describe("numbers that differ in each call reach the gradient:", function()
  local rows = {
    mul = function(x, k) return x * k end,
    rmul = function(x, k) return k * x * x end,
    div = function(x, k) return x / k end,
    rdiv = function(x, k) return k / x end,
    pow = function(x, k) return x:abs() ^ k end,
    rpow = function(x, k) return k ^ x end,
    maximum = function(x, k) return x:maximum(k) end,
    where = function(x, k) return ty.where(x:gt(k), x * x, k) end,
    atan2 = function(x, k) return x:atan2(k) end,
    fmod = function(x, k) return x:fmod(k) end,
    clamp = function(x, k) return (x * x):clamp(-k, k) end,
    lerp = function(x, k) return x:lerp(x * x, k) end,
    sum = function(x, k) return x:sum() * k * k end,
    leaky_relu = function(x, k) return ty.leaky_relu(x - 0.5, k) end,
    elu = function(x, k) return ty.elu(x - 0.5, k) end,
    huber = function(x, k) return ty.huber_loss(x, x * x, { delta = k }) end,
    written = function(x, k)
      local y = x * x
      y:mul_(k)
      return y
    end,
  }
  for _, name in ipairs(sorted(rows)) do
    it(name, function()
      local f = rows[name]
      local x = ty.tensor({ 0.3, -1.7, 2.5, 0.9 }):requires_grad_()
      local function step(k)
        x.grad = nil
        local y = f(x, k):sum()
        y:backward()
        return x.grad, y:detach()
      end
      local value = ty.value_and_grad(function(v, k) return f(v, k):sum() end)
      local compiled = ty.compile(step)
      local other = ty.compile(function(k) return select(2, value(x:detach(), k)) end)
      for _, k in ipairs { 1.5, 2.5, 0.7, 3.1, 1.5 } do
        local want, y = step(k)
        want, y = want:clone(), y:clone()
        local got, z = compiled(k)
        H.same(want, got)
        H.same(y, z)
        H.same(want, other(k))
      end
      assert.same({}, ty.explain(compiled).aborts)
    end)
  end
end)

describe("gradients outside of the compiled function", function()
  it("are added to by the next call", function()
    train(function()
      local s = learner("SGD", { lr = 0.1 })()
      local m = s.model
      function s.step(x, y)
        local value = mse(m(x), y)
        value:backward()
        return value:detach()
      end
      return s
    end, { between = function(s, n)
      if n % 4 == 0 then
        s.opt:step()
        s.opt:zero_grad()
      end
    end, captures = 2 })
  end)

  it("are forgotten inside at the end, which costs nothing", function()
    local told = train(function()
      local s = learner("SGD", { lr = 0.1 })()
      local m, opt = s.model, s.opt
      function s.step(x, y)
        local value = mse(m(x), y)
        value:backward()
        opt:step()
        opt:zero_grad()
        return value:detach()
      end
      return s
    end)
    assert.equal(1, #told.traces)
    for _, effect in ipairs(told.traces[1].effects) do assert.falsy(effect:find("grad", 1, true), effect) end
  end)

  it("accumulate inside, are read and assigned", function()
    train(function()
      local s = learner("SGD", { lr = 0.1 })()
      local m, opt, p = s.model, s.opt, s.params
      function s.step(x, y)
        opt:zero_grad()
        for i = 1, 3 do mse(m(x), y * i):backward() end
        local first = p[1].grad
        p[1].grad = first * 0.5
        p[2].grad = nil
        p[3].grad:mul_(2)
        local sum = p[1].grad:sum() + p[3].grad:sum() + first:sum()
        opt:step()
        return sum
      end
      return s
    end)
  end)

  it("may be replaced by the user", function()
    train(function()
      local s = learner("SGD", { lr = 0.1 })()
      local opt = s.opt
      function s.step()
        opt:step()
        return s.params[1].grad:sum()
      end
      s.batch = function() end
      return s
    end, { between = function(s)
      for _, p in ipairs(s.params) do p.grad = ty.randn(p.shape) end
    end })
  end)

  it("are read without garbage for Lua's collector", function()
    local params = {}
    for i = 1, 4 do
      params[i] = ty.ones(3):requires_grad_()
      params[i].grad = ty.full({ 3 }, i)
    end
    local update = jit.compile(function()
      ty.no_grad(function()
        for i = 1, 4 do params[i]:sub_(params[i].grad) end
      end)
    end)
    for _ = 1, 5 do update() end
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    for _ = 1, 100 do update() end
    local bytes = (collectgarbage "count" - before) * 1024 / 100
    collectgarbage "restart"
    assert.truthy(bytes < 100, bytes) -- one handle takes more
    assert.same({ 1 - 4 * 105, 1 - 4 * 105, 1 - 4 * 105 }, params[4]:totable())
  end)

  it("are each call's own where one is made in the middle of another", function()
    local function leaf(v)
      local p = ty.full({ 3 }, v):requires_grad_()
      p.grad = ty.full({ 3 }, v * 10)
      return p
    end
    local p, q = leaf(1), leaf(2)
    local inner = jit.compile(function() return q.grad * 2 end)
    for _ = 1, 3 do inner() end
    local outer = jit.compile(function() return p.grad + 1 end, { backend = function()
      return function(g)
        assert.same({ 40, 40, 40 }, inner():totable())
        return g + 1
      end
    end })
    for _ = 1, 4 do assert.same({ 11, 11, 11 }, outer():totable()) end
    assert.truthy(jit.explain(outer).skips > 0 and jit.explain(inner).skips > 3)
  end)

  it("are separate from a view of them that was taken before", function()
    train(function()
      local s = learner("SGD", { lr = 0.1 })()
      local m, p = s.model, s.params[1]
      function s.step(x, y)
        local before = p.grad
        mse(m(x), y):backward()
        return before and before:sum() + p.grad:sum() or p.grad:sum()
      end
      return s
    end, { captures = 2 })
  end)
end)

describe("what changes between calls is seen:", function()
  it("requires_grad_ off and on", function()
    train(learner("SGD", { lr = 0.1 }), {
      between = function(s, n) s.params[1].grad = nil s.params[1]:requires_grad_(n % 4 < 2) end, captures = 2 })
  end)

  it("other parameters in the same places", function()
    train(function()
      local s = learner("SGD", { lr = 0.1 })()
      local m = s.model
      function s.step(x, y)
        mse(m(x), y):backward()
        return m[1].weight.grad:sum()
      end
      return s
    end, { between = function(s)
      s.model[1].weight = nn.Parameter(ty.randn(8, 16))
      for _, p in ipairs(s.params) do p.grad = nil end
      s.params = s.model:parameters()
    end })
  end)

  it("two parameters that come to share memory", function()
    local function f(a, b)
      (a * b * b):sum():backward()
      return a.grad:sum() + b.grad:sum()
    end
    local compiled = ty.compile(f)
    local function fresh() return ty.tensor({ 1, 2, 3 }):requires_grad_() end
    local x, y = fresh(), fresh()
    for _ = 1, 3 do
      x.grad, y.grad = nil, nil
      local want = f(x, y)
      x.grad, y.grad = nil, nil
      H.same(want, compiled(x, y))
    end
    x.grad = nil
    local want = f(x, x)
    x.grad = nil
    H.same(want, compiled(x, x))
    local view = x:view(3)
    x.grad = nil
    want = f(x, view)
    local gradient = x.grad:clone()
    x.grad = nil
    H.same(want, compiled(x, view))
    H.same(gradient, x.grad)
  end)

  it("no_grad around it, and inference beside it", function()
    ty.manual_seed(1)
    local m = mlp()
    local infer = ty.compile(function(x) return ty.no_grad(m, x) end)
    local plain = ty.compile(function(x) return m(x) end)
    for _ = 1, 4 do
      local x = ty.randn(3, 8)
      H.same(m(x):detach(), infer(x))
      H.same(m(x):detach(), ty.no_grad(plain, x))
      local y = plain(x)
      assert.truthy(y.requires_grad)
      H.same(m(x):detach(), y:detach())
    end
    assert.equal(1, ty.explain(infer).captures)
    assert.equal(2, ty.explain(plain).captures)
    assert.equal(8, ty.explain(plain).skips)
  end)

  it("batches of other sizes", function()
    local sizes = { 4, 4, 6, 6, 3, 9, 4, 1, 12, 3 }
    local told = train(function()
      local s = learner("SGD", { lr = 0.1, momentum = 0.9 })()
      s.batch = function(n) return ty.randn(sizes[(n - 1) % 10 + 1], 8), ty.randn(sizes[(n - 1) % 10 + 1], 2) end
      return s
    end, { captures = 2 })
    assert.equal(20, told.skips)
  end)
end)

describe("a trace with gradients", function()
  it("serves other sizes while gradients add up", function()
    train(function()
      local s = learner("SGD", { lr = 0.1 })()
      local m = s.model
      s.batch = function(n) return ty.randn(n % 5 + 1, 8), ty.randn(n % 5 + 1, 2) end
      function s.step(x, y)
        local value = mse(m(x), y)
        value:backward()
        ty.clip_grad_value_(s.params, 0.5)
        return value:detach()
      end
      return s
    end, { captures = 2 })
  end)

  it("serves parameters of other sizes", function()
    local function f(w, x)
      w.grad = nil
      local y = (x:matmul(w) * x:matmul(w)):sum()
      y:backward()
      return w.grad * 2
    end
    local compiled = ty.compile(f, { dynamic = true })
    for n = 1, 6 do
      local w, x = ty.randn(n, 3):requires_grad_(), ty.randn(2, n)
      H.same(f(w, x), compiled(w, x))
      local v = ty.randn(3, n):requires_grad_()
      H.same(f(v:t(), x), compiled(v:t(), x))
      local gradient = v.grad:clone()
      v.grad = nil
      f(v:t(), x)
      H.same(gradient, v.grad)
    end
  end)

  it("lets go of what the capture taped", function()
    collectgarbage()
    collectgarbage()
    local live = ty.internals.grad.live
    local before = live()
    do
      local s = learner("Adam", { lr = 0.1 })()
      local compiled = ty.compile(s.step)
      for n = 1, 3 do compiled(s.batch(n)) end
      collectgarbage()
      collectgarbage()
      assert.equal(before + #s.params, live())
    end
  end)

  it("stands collections at any time", function()
    local s = learner("SGD", { lr = 0.1, momentum = 0.9 })()
    local m, opt = s.model, s.opt
    local compiled = ty.compile(function(x, y)
      local value = mse(m(x), y)
      value:backward()
      opt:step()
      return value:detach()
    end)
    local pause, speed = collectgarbage("setpause", 1), collectgarbage("setstepmul", 10000)
    for n = 1, 60 do
      compiled(s.batch(n))
      if n % 7 == 0 then opt:zero_grad() end
    end
    collectgarbage("setpause", pause)
    collectgarbage("setstepmul", speed)
    assert.equal(2, ty.explain(compiled).captures)
  end)

  it("does not see a graph from outside go stale: capturing changes nothing", function()
    local w = ty.randn(4):requires_grad_()
    local y = (w * w):sum()
    local compiled = ty.compile(function(v, rate)
      v.grad = nil
      ;(v * v * v):sum():backward()
      ty.no_grad(function() v:sub_(v.grad * rate) end)
      return v.grad
    end)
    local other = ty.randn(4):requires_grad_()
    local z = (other * other):sum()
    compiled(other, 0.1)
    H.raises(function() z:backward() end)
    compiled(other, 0.2)
    y:backward()
    H.same(w:detach() * 2, w.grad)
  end)
end)

describe("leaves that are parts of one buffer", function()
  --- Two leaves in one buffer, and the buffer.
  local function parts()
    local all = ty.randn(10)
    return all:narrow(1, 1, 6):reshape(2, 3):requires_grad_(), all:narrow(1, 7, 4):requires_grad_(), all
  end

  --- Calls step(make(p, q), i) plain and compiled: the same results and gradients, from one capture.
  local function same_gradients(choose, make)
    ty.manual_seed(7)
    local a, b, all = parts()
    ty.manual_seed(7)
    local a2, b2, all2 = parts()
    local step, compiled = make(choose(a, b, all)), ty.compile(make(choose(a2, b2, all2)))
    local compared = 0
    for i = 1, 4 do
      H.same(step(i), compiled(i))
      for n, pair in ipairs { { a, a2 }, { b, b2 }, { all, all2 } } do
        local plain, replayed = pair[1].grad, pair[2].grad
        assert.equal(plain ~= nil, replayed ~= nil, n)
        if plain then
          H.same(plain, replayed)
          compared = compared + 1
        end
      end
    end
    assert.truthy(compared >= 4, compared)
    assert.same({}, ty.explain(compiled).aborts)
    assert.truthy(ty.explain(compiled).skips >= 3)
  end

  local function step(p, q)
    return function(i)
      local y = ((p * i):square():sum() * q:square()):sum()
      y:backward()
      return y:detach()
    end
  end

  it("get their gradients, and the buffer that of both", function()
    same_gradients(function(a, b) return a, b end, step)
  end)

  it("get theirs where one of them sees all", function()
    same_gradients(function(a, _, all) return a, all end, step)
  end)

  it("get theirs where one alone takes part", function()
    same_gradients(function(a) return a end, function(p)
      return function(i)
        local y = (p * i):square():sum()
        y:backward()
        return y:detach()
      end
    end)
  end)
end)

describe("a step that cannot be captured runs as it is", function()
  local function both(make, n, reason)
    ty.manual_seed(3)
    local a = make()
    ty.manual_seed(3)
    local b = make()
    local compiled = ty.compile(b.step)
    for i = 1, n do
      local p, q = { pcall(a.step, i) }, { pcall(compiled, i) }
      assert.equal(p[1], q[1])
      if ty.is_tensor(p[2]) then H.same(p[2]:detach(), q[2]:detach()) else assert.equal(p[2], q[2]) end
      same_state(a, b, i)
    end
    local told = ty.explain(compiled)
    local why = told.aborts[1]
    if not reason then return assert.truthy(not why and #told.parts > 0, "not in parts") end
    assert.truthy(tostring(told):find(reason, 1, true), tostring(told)) -- of an abort, or of where a part ends
  end

  local function small(step)
    return function()
      local w = ty.randn(4):requires_grad_()
      return { params = { w }, step = function(i) return step(w, i) end }
    end
  end

  it("where it gives back a leaf that it makes", function()
    both(small(function(w) return (w * 2):detach():requires_grad_() end), 4, "a leaf that was made inside (detach it)")
  end)

  it("where it goes back through a graph from outside, which is there afterwards", function()
    local w = ty.ones(2):requires_grad_()
    local back = ty.compile(function(loss) loss:backward() end)
    for n = 1, 3 do
      back((w * w):sum())
      H.same(ty.full({ 2 }, 2 * n), w.grad)
    end
    assert.truthy(tostring(ty.explain(back)):find("the gradient of an operation outside of it is asked for", 1, true))
    local kept = ty.compile(function(loss, g) loss:backward(g, { retain_graph = true }) end)
    local y = w * 3
    for _ = 1, 3 do kept(y, ty.ones(2)) end
    y:backward(ty.ones(2))
    H.same(ty.full({ 2 }, 6 + 4 * 3), w.grad)
  end)

  it("where an error is raised after backward", function()
    both(small(function(w, i)
      (w * w):sum():backward()
      if i > 2 then error("enough", 0) end
      return w.grad:sum()
    end), 5, "an error is raised")
  end)

  it("where a leaf is written while gradients are on", function()
    both(small(function(w) return w:mul_(2) end), 3, "")
  end)

  it("where a value that was kept is overwritten", function()
    both(small(function(w)
      local y = w * w
      ty.no_grad(function() w:mul_(2) end)
      y:sum():backward()
    end), 3, "")
  end)

  it("where a leaf changes to need no gradient", function()
    both(small(function(w) return w:requires_grad_(false):sum() end), 1, "requires grad")
  end)

  it("where a gradient of the user's own does what a trace cannot repeat", function()
    local count = 0
    both(function()
      local w = ty.randn(4):requires_grad_()
      local twice = ty.custom_grad(function(x) return x * 2, x end, function(x, g)
        count = count + x:sum():item() * 0 + 1
        return g * 2
      end)
      return { params = { w }, step = function()
        twice(w):sum():backward()
        return w.grad:sum()
      end }
    end, 4) -- but before the backward pass, whose rule reads data
    assert.equal(8, count)
  end)

  it("where a gradient of the user's own raises", function()
    both(function()
      local w = ty.randn(4):requires_grad_()
      local f = ty.custom_grad(function(x) return x * 2, x end, function() error("none here", 0) end)
      return { params = { w }, step = function() f(w):sum():backward() end }
    end, 3, "none here")
  end)
end)

describe("a step is captured whole", function()
  --- Parameters a [8, 4] and b [4]; forward(a, b, x) gives what is learned.
  local function own(forward, steps)
    return train(function()
      local a, b = (ty.randn(8, 4) * 0.3):requires_grad_(), ty.zeros(4):requires_grad_()
      local s = { params = { a, b }, opt = optim.SGD({ a, b }, { lr = 0.05, momentum = 0.9 }) }
      function s.batch() return ty.randn(6, 8), ty.randn(6, 4) end
      local f = forward(a, b)
      function s.step(x, y)
        s.opt:zero_grad()
        local value = mse(f(x), y)
        value:backward()
        s.opt:step()
        return value:detach()
      end
      return s
    end, steps)
  end

  --- x a + b, its ReLU, and half of the gradient: plainly none that operations would give.
  local halved = ty.custom_grad(function(x, a, b)
    local y = x:matmul(a) + b
    return y:relu(), { x = x, a = a, { y:gt(0) } }
  end, function(s, g)
    g = g * s[1][1] * 0.5
    return g:matmul(s.a:t()), s.x:t():matmul(g), g:sum(1)
  end)

  it("with a gradient of the user's own", function()
    local told = own(function(a, b) return function(x) return halved(x, a, b) end end)
    assert.equal(20, told.skips)
  end)

  it("with one that is made inside, of two results", function()
    own(function(a, b)
      return function(x)
        local f = ty.custom_grad(function(v) return { v:sin(), v * 2 }, v end, function(v, g, h)
          return g * v:cos() + h * 3
        end)
        local p, q = f(x:matmul(a))
        return p + q * b
      end
    end)
  end)

  it("with one inside of ty.grad, differentiated twice", function()
    local cube = ty.custom_grad(function(x) return x * x * x, x end, function(x, g) return g * x * x * 3 end)
    own(function(a, b)
      return function(x)
        local g = ty.grad(function(w) return cube(x:matmul(w)):sum() end)(a)
        return x:matmul(g) * 0.01 + b
      end
    end)
  end)

  it("with checkpoints, also of dropout, whose numbers come again", function()
    for _, p in ipairs { 0, 0.5 } do
      own(function(a, b)
        local function part(x) return ty.dropout((x:matmul(a) + b):tanh(), p, true) end
        return function(x) return ty.checkpoint(part, x) + ty.rand(4) * 0.1 end
      end)
    end
  end)

  it("with checkpoints inside of checkpoints, of indices, of tables of what is closed over", function()
    local rows = ty.tensor({ 3, 1, 8, 8 }, { dtype = "i64" })
    own(function(a, b)
      local w = { a = a, b = { b } }
      local function inner(v) return (v:matmul(w.a) + w.b[1]):tanh() end
      local function outer(v, i)
        return ty.checkpoint(inner, v):sin() + w.a[i]:sum()
      end
      return function(x) return ty.checkpoint(outer, x, rows) end
    end)
  end)

  it("with vmap, gradients of each example and functions of the user's in it", function()
    own(function(a, b)
      local each = ty.vmap(function(x) return halved(x:unsqueeze(1), a, b):squeeze(1) end)
      local clipped = ty.vmap(function(x)
        local g = ty.grad(function(v) return (v:matmul(a):tanh() * b):sum() end)(x)
        return g / (g:norm() + 1)
      end)
      return function(x) return each(x) + clipped(x)[{ {}, { 1, 4 } }] end
    end)
  end)
end)

describe("loss scaling inside of a compiled step", function()
  --- Every third batch overflows.
  local function scaled(name, opts, capturable)
    return function()
      local m = mlp()
      local opt = optim[name](m:parameters(), opts)
      local scaler = optim.GradScaler { init_scale = 1024, growth_interval = 3, capturable = capturable }
      local s = { model = m, params = m:parameters(), opt = opt, scaler = scaler }
      function s.batch(n) return ty.randn(6, 8) * (n % 3 == 0 and 1e30 or 1), ty.randn(6, 2) end
      function s.step(x, y)
        opt:zero_grad()
        local value = mse(m(x), y)
        scaler:scale(value):backward()
        scaler:unscale_(opt)
        ty.clip_grad_norm_(s.params, 1)
        scaler:step(opt)
        return value:detach(), scaler.factor
      end
      return s
    end
  end
  local rows = { { "SGD", { lr = 0.1 } }, { "SGD", { lr = 0.1, momentum = 0.9, dampening = 0.1 } },
    { "Adam", { lr = 0.01, amsgrad = true } }, { "AdamW", { lr = 0.01 } }, { "RMSprop", { lr = 0.01, momentum = 0.5 } },
    { "Adagrad", { lr = 0.05, lr_decay = 0.01 } }, { "Lion", { lr = 0.001 } } }
  for _, row in ipairs(rows) do
    it("is captured with " .. row[1] .. " " .. text(row[2]), function()
      local _, eager, other = train(scaled(row[1], row[2], true), { captures = 2, fewer = true })
      H.same(eager.scaler.factor, other.scaler.factor)
      H.same(eager.scaler.good, other.scaler.good)
    end)

    it("is what it is by values that are read: " .. row[1] .. " " .. text(row[2]), function()
      ty.manual_seed(3)
      local a = scaled(row[1], row[2], true)()
      ty.manual_seed(3)
      local b = scaled(row[1], row[2], false)()
      for n = 1, 12 do
        ty.manual_seed(n)
        local x, y = a.batch(n)
        a.step(x, y)
        b.step(x, y)
        assert.equal(b.scaler.factor, a.scaler.factor:item())
        for i, p in ipairs(a.params) do
          assert.truthy((p:detach() - b.params[i]:detach()):abs():max():item() < 1e-6)
        end
      end
      assert.same(b.scaler:state_dict(), a.scaler:state_dict())
      a.scaler:load_state_dict { factor = 7, good = 2 }
      assert.same({ factor = 7, good = 2 }, a.scaler:state_dict())
    end)
  end
end)

describe("leaves that are views", function()
  local views = {
    turned = function(w) return w:reshape(5, 6):t() end, part = function(w) return w[{ { 5, 9 } }] end,
    ["with steps"] = function(w) return w[{ { 1, 30, 3 } }] end, reversed = function(w) return w:flip(1) end,
    ["of one element"] = function(w) return w[7] end,
  }
  for name, view in pairs(views) do
    it("are trained and add up in compiled functions: " .. name, function()
      local function make(anew)
        return function()
          local w = ty.randn(30):requires_grad_()
          local s = { params = { w }, v = view(w) }
          function s.batch() return s.v, 0.1 end
          function s.step(v, rate)
            if anew then v.grad = nil end
            local y = (v * v * v):sum()
            y:backward()
            ty.no_grad(function() v:sub_(v.grad * rate) end)
            return y:detach() + v.grad:sum()
          end
          return s
        end
      end
      train(make(true), { steps = 6 })
      train(make(false), { steps = 6, captures = 2 })
    end)
  end

  it("leave the gradients of the rest alone", function()
    train(function()
      local w = ty.randn(30):requires_grad_()
      local s = { params = { w }, v = w[{ { 5, 9 } }] }
      function s.batch() return s.v end
      function s.step(v)
        (v * v):sum():backward()
        return v.grad:sum()
      end
      return s
    end, { between = function(s, n)
      s.params[1].grad = n % 5 ~= 0 and ty.ones(30) * n or nil
    end, captures = 2 })
  end)

  it("elsewhere in their memory are another capture", function()
    local function f(w)
      w.grad = nil
      (w * w):sum():backward()
      return w.grad * 1
    end
    local compiled = ty.compile(f)
    for _ = 1, 3 do compiled(ty.randn(3):requires_grad_()) end
    assert.equal(1, ty.explain(compiled).captures)
    local big = ty.randn(100):requires_grad_()
    for _, at in ipairs { 50, 98, 1 } do
      local v = big[{ { at, at + 2 } }]
      H.same(v:detach() * 2, compiled(v))
      H.same(v:detach() * 2, v.grad)
      H.same(ty.zeros(100):copy_(big.grad), big.grad)
      assert.equal(v.grad:abs():sum():item(), big.grad:abs():sum():item())
    end
    assert.same({}, ty.explain(compiled).aborts)
  end)
end)

describe("checkpoint", function()
  it("gives dropout the mask that the result came from", function()
    ty.manual_seed(4)
    local x = ty.ones(100):requires_grad_()
    local y = ty.checkpoint(function(v) return ty.dropout(v, 0.5, true) end, x)
    local after = ty.rand(2)
    y:sum():backward()
    H.same(y:detach(), x.grad)
    local again = ty.rand(2)
    ty.manual_seed(4)
    ty.dropout(ty.ones(100), 0.5, true)
    H.same(after, ty.rand(2))
    H.same(again, ty.rand(2))
  end)
end)
