--- optim_spec.lua -- optimisers: 200 steps beside loops over Lua numbers written from the papers and beside PyTorch's result
-- (fixtures/optim.lua), groups, states, schedules, loss scaling.

local H = require "spec.helper"
local ty = H.ty
local nn, optim = ty.nn, ty.optim
local raised = H.raises
local runs = dofile(H.root .. "spec/fixtures/optim.lua")
local sqrt, sin, cos, abs = math.sqrt, math.sin, math.cos, math.abs

local STEPS, SIZE = 200, 5

--- The gradient of step n at element i: a bowl that shakes. make_nn.py has the same.
local function slope(p, i, n) return p * i * 0.3 - cos(i) + sin(i * n) * 0.1 end

--- One element's walk by a rule: rule(p, g, state, step) gives the new p.
local function walk(i, rule)
  local p, state = i - 3, {}
  local path = {}
  for n = 1, STEPS do
    p = rule(p, slope(p, i, n), state, n)
    path[n] = p
  end
  return path
end

local function sgd(lr, momentum, dampening, nesterov, decay)
  return function(p, g, s)
    g = g + decay * p
    if momentum > 0 then
      s.v = s.v and momentum * s.v + (1 - dampening) * g or g
      g = nesterov and g + momentum * s.v or s.v
    end
    return p - lr * g
  end
end

local function adam(lr, b1, b2, decay, amsgrad, decoupled)
  return function(p, g, s, n)
    if decoupled then p = p - lr * decay * p else g = g + decay * p end
    s.m = b1 * (s.m or 0) + (1 - b1) * g
    s.v = b2 * (s.v or 0) + (1 - b2) * g * g
    s.most = math.max(s.most or 0, s.v)
    local v = (amsgrad and s.most or s.v) / (1 - b2 ^ n)
    return p - lr * s.m / (1 - b1 ^ n) / (sqrt(v) + 1e-8)
  end
end

local function rmsprop(lr, alpha, momentum, centered, decay)
  return function(p, g, s)
    g = g + decay * p
    s.v = alpha * (s.v or 0) + (1 - alpha) * g * g
    s.mean = alpha * (s.mean or 0) + (1 - alpha) * g
    local v = centered and s.v - s.mean ^ 2 or s.v
    s.b = momentum * (s.b or 0) + g / (sqrt(v) + 1e-8)
    return p - lr * s.b
  end
end

local function adagrad(lr, lr_decay, decay, first)
  return function(p, g, s, n)
    g = g + decay * p
    s.sum = (s.sum or first) + g * g
    return p - lr / (1 + (n - 1) * lr_decay) * g / (sqrt(s.sum) + 1e-10)
  end
end

local function lion(lr, b1, b2, decay)
  return function(p, g, s)
    local m = s.m or 0
    local u = b1 * m + (1 - b1) * g
    s.m = b2 * m + (1 - b2) * g
    return p - lr * ((u > 0 and 1 or u < 0 and -1 or 0) + decay * p)
  end
end

local rows = {
  { "SGD", sgd(0.05, 0, 0, false, 0), optim.SGD, { lr = 0.05 } },
  { "SGD momentum", sgd(0.02, 0.9, 0.1, false, 0.01), optim.SGD,
    { lr = 0.02, momentum = 0.9, dampening = 0.1, weight_decay = 0.01 } },
  { "SGD nesterov", sgd(0.02, 0.9, 0, true, 0), optim.SGD, { lr = 0.02, momentum = 0.9, nesterov = true } },
  { "Adam", adam(0.05, 0.9, 0.999, 0.1), optim.Adam, { lr = 0.05, weight_decay = 0.1 } },
  { "Adam amsgrad", adam(0.05, 0.8, 0.95, 0, true), optim.Adam, { lr = 0.05, betas = { 0.8, 0.95 }, amsgrad = true } },
  { "AdamW", adam(0.05, 0.9, 0.999, 0.1, false, true), optim.AdamW, { lr = 0.05, weight_decay = 0.1 } },
  { "RMSprop", rmsprop(0.01, 0.99, 0, false, 0.05), optim.RMSprop, { lr = 0.01, weight_decay = 0.05 } },
  { "RMSprop centered", rmsprop(0.005, 0.9, 0.5, true, 0), optim.RMSprop,
    { lr = 0.005, alpha = 0.9, momentum = 0.5, centered = true } },
  { "Adagrad", adagrad(0.3, 0.01, 0.02, 0.1), optim.Adagrad,
    { lr = 0.3, lr_decay = 0.01, weight_decay = 0.02, initial_accumulator = 0.1 } },
  { "Lion", lion(0.01, 0.9, 0.99, 0.1), optim.Lion, { lr = 0.01, weight_decay = 0.1 } },
}

local function start() return nn.Parameter(ty.arange(SIZE, { dtype = "f64" }) - 2) end

--- Sets the gradient of step n, to the bit as the loops have it.
local function set_gradient(p, n)
  local list, g = p:detach():totable(), {}
  for i, v in ipairs(list) do g[i] = slope(v, i, n) end
  p.grad = ty.tensor(g, { dtype = "f64" })
end

describe("an optimiser follows its formula over 200 steps:", function()
  for _, row in ipairs(rows) do
    local name, rule, make, opts = unpack(row)

    local function check(step_of)
      local p, paths = start(), {}
      local opt = make({ p }, opts)
      local step = step_of(opt)
      for i = 1, SIZE do paths[i] = walk(i, rule) end
      for n = 1, STEPS do
        set_gradient(p, n)
        step()
        for i, v in ipairs(p:detach():totable()) do
          local want = paths[i][n]
          if v ~= v or abs(v - want) > 1e-10 * math.max(1, abs(want)) then
            error(("step %d, element %d: %.17g instead of %.17g"):format(n, i, v, want))
          end
        end
      end
      return p:detach():totable()
    end

    it(name, function()
      local last = check(function(opt) return function() opt:step() end end)
      for i, want in ipairs(runs[name] or {}) do assert.near(want, last[i], 1e-10) end
      assert.truthy(runs[name] or name == "Lion") -- PyTorch has no Lion
    end)
  end
end)

describe("optimisers", function()
  local function pair() return nn.Parameter(ty.ones({ 2 }, { dtype = "f64" })), nn.Parameter(ty.ones({ 3 }, { dtype = "f64" })) end

  it("have groups whose settings override the general ones, and which can be assigned", function()
    local a, b = pair()
    local opt = optim.SGD({ { params = { a }, lr = 0.5 }, { params = { b } } }, { lr = 0.25 })
    a.grad, b.grad = ty.ones_like(a), ty.ones_like(b)
    opt:step()
    assert.same({ 0.5, 0.5 }, a:detach():totable())
    assert.same({ 0.75, 0.75, 0.75 }, b:detach():totable())
    opt.groups[1].lr = 1
    opt:step()
    assert.same({ -0.5, -0.5 }, a:detach():totable())
    local c = nn.Parameter(ty.ones({ 1 }, { dtype = "f64" }))
    opt:add_group { params = { c }, lr = 2 }
    c.grad = ty.ones_like(c)
    a.grad = nil
    opt:step()
    assert.same({ -1 }, c:detach():totable())
    assert.same({ -0.5, -0.5 }, a:detach():totable())
    opt:zero_grad()
    assert.is_nil(b.grad)
    assert.is_nil(c.grad)
  end)

  it("forget the gradients of all parameters of all groups, also in a compiled function", function()
    local list = {}
    for i = 1, 5 do list[i] = ty.ones(i):requires_grad_() end
    local opt = ty.optim.SGD({ { params = { list[1], list[2], list[3] } }, { params = { list[4], list[5] } } }, {})
    local function forget() opt:zero_grad() end
    for _, run in ipairs { forget, ty.compile(forget), ty.compile(forget) } do
      for i = 1, 5 do list[i].grad = ty.ones(i) end
      run()
      for i = 1, 5 do assert.is_nil(list[i].grad) end
    end
  end)

  it("update in place: other handles see it", function()
    local a = pair()
    local view = a:detach():narrow(1, 2, 1)
    local opt = optim.SGD({ a }, { lr = 1 })
    a.grad = ty.tensor({ 1, 2 }, { dtype = "f64" })
    opt:step()
    assert.same({ -1 }, view:totable())
  end)

  it("take up a saved state and go on to the bit", function()
    for _, row in ipairs(rows) do
      local p, q = start(), start()
      local a, b = row[3]({ p }, row[4]), row[3]({ q })
      for n = 1, 5 do
        set_gradient(p, n)
        a:step()
      end
      ty.no_grad(function() q:copy_(p) end)
      b = row[3]({ q }, row[4].momentum and { momentum = row[4].momentum, centered = row[4].centered }
        or { amsgrad = row[4].amsgrad }) or b
      b:load_state_dict(a:state_dict())
      for n = 6, 10 do
        for _, each in ipairs { { p, a }, { q, b } } do
          set_gradient(each[1], n)
          each[2]:step()
        end
      end
      H.same(p:detach(), q:detach(), row[1])
    end
  end)

  it("raise for what they cannot take", function()
    local a, b = pair()
    local function says(text, ...)
      local got = raised(...)
      assert.truthy(got:find(text, 1, true), got)
    end
    says("SGD: argument 1 must be a list of parameters or of groups, got nil", optim.SGD)
    says("SGD: argument 1 must be a list of parameters or of groups", optim.SGD, {})
    says("SGD: parameter 2 must be a tensor, got number 5", optim.SGD, { a, 5 })
    says("SGD: parameter 1, f32[2], does not require gradients (use nn.Parameter)", optim.SGD, { ty.ones(2) })
    says("SGD: parameter 2, f64[2], is given twice", optim.SGD, { a, a })
    says("Adam: unknown option rate", optim.Adam, { a }, { rate = 1 })
    says("Adam: option lr must be a number, got string", optim.Adam, { a }, { lr = "1" })
    says("Adam: option lr must not be negative, got -1", optim.Adam, { a }, { lr = -1 })
    says("Adam: option betas must be two numbers in 0..1", optim.Adam, { a }, { betas = { 0.9, 1 } })
    says("SGD: option nesterov needs a momentum", optim.SGD, { a }, { nesterov = true })
    local opt = optim.Adam({ a })
    says("is given twice", opt.add_group, opt, { params = { b, a } })
    says("load_state_dict: argument 1 must be a state of 1 group", opt.load_state_dict, opt, {})
    says("load_state_dict: the state of parameter 1 of group 1 does not fit f64[2]", opt.load_state_dict, opt,
      optim.Adam({ b }):state_dict())
    for option, v in pairs { lr = -1, eps = 0 / 0, betas = { 0.5 } } do
      local state = opt:state_dict()
      state.groups[1][option] = v
      says("load_state_dict: option " .. option .. " must", opt.load_state_dict, opt, state)
      assert.equal(0.9, opt.groups[1].betas[1])
    end
    local bare = optim.SGD({ a })
    local state = bare:state_dict()
    state.groups[1].nesterov = true
    says("load_state_dict: option nesterov needs a momentum", bare.load_state_dict, bare, state)
  end)

  it("in a compiled function give the bits of eager; another rate in each call is no other plan", function()
    for _, row in ipairs(rows) do
      local p, q = start(), start()
      local a, b = row[3]({ p }, row[4]), row[3]({ q }, row[4])
      local compiled = ty.compile(function() b:step() end)
      local before
      for n = 1, 12 do
        if n == 3 then before = ty.stats() end
        set_gradient(p, n)
        set_gradient(q, n)
        a.groups[1].lr, b.groups[1].lr = 0.01 / n, 0.01 / n
        a:step()
        compiled()
        H.same(p:detach(), q:detach(), row[1])
      end
      local first_is_other = (row[4].dampening or 0) > 0 -- the first gradient is not damped
      assert.equal(first_is_other and 2 or 1, ty.explain(compiled).captures, row[1])
      assert.equal(12, ty.explain(compiled).skips, row[1])
      assert.equal(before.kernels.misses, ty.stats().kernels.misses, row[1])
    end
  end)
end)

--- Learners of one kind, made twice: the second takes each step operation by operation, however many there are.
local function pair_of(name, settings)
  local function make(plain)
    ty.manual_seed(3)
    local params = {}
    for i, shape in ipairs { { 3, 4 }, { 4 }, { 2, 2 } } do params[i] = nn.Parameter(ty.randn(shape)) end
    local opt = optim[name](params, settings)
    if plain then optim._plain_steps[opt] = -math.huge end
    return { params = params, opt = opt }
  end
  return make(false), make(true)
end

local function same_learner(a, b, what)
  for i, p in ipairs(a.params) do
    assert.equal(H.texts(b.params[i]), H.texts(p), what)
    for k, v in pairs(b.opt.groups[1].state[i]) do
      local own = a.opt.groups[1].state[i][k]
      assert.equal(ty.is_tensor(v) and H.texts(v) or v, ty.is_tensor(own) and H.texts(own) or own, what .. ", " .. k)
    end
  end
end

describe("steps that a plan takes", function()
  -- What happens between two steps, by their number.
  local events = {
    [20] = function(l) l.opt.groups[1].lr = 0.02 end,
    [22] = function(l) l.params[2].grad = nil end,
    [24] = function(l) l.params[1].grad = ty.ones(4, 3):t() end,
    [26] = function(l) l.opt:load_state_dict(l.opt:state_dict()) end,
    [28] = function(l) l.params[3].grad = l.params[1].grad:narrow(1, 1, 2):narrow(2, 2, 2) end,
    [30] = function(l) l.opt.groups[1].weight_decay = 0.1 end,
    [32] = function(l) ty.no_grad(function() l.params[1]:zero_() end) end,
  }
  for _, row in ipairs {
    { "SGD", { lr = 0.1 } }, { "SGD", { lr = 0.1, momentum = 0.9, dampening = 0.2 } }, { "Adam", { lr = 0.01, amsgrad = true } },
    { "AdamW", { lr = 0.01 } }, { "RMSprop", { lr = 0.01, momentum = 0.3, centered = true } }, { "Adagrad", { lr = 0.1 } },
    { "Lion", { lr = 0.01 } },
  } do
    it(("are those of operations one by one, to the bit: %s"):format(row[1]), function()
      local a, b = pair_of(row[1], row[2])
      for n = 1, 40 do
        for _, l in ipairs { a, b } do
          for i, p in ipairs(l.params) do p.grad = p:detach() * i + n end
          if events[n] then events[n](l) end
        end
        local done, why = pcall(a.opt.step, a.opt)
        local done_plain, why_plain = pcall(b.opt.step, b.opt)
        assert.equal(done_plain, done)
        assert.equal(why_plain, why)
        same_learner(a, b, "step " .. n)
      end
      assert.truthy(optim._planned[a.opt])
      assert.falsy(optim._planned[b.opt])
    end)
  end

  it("see another update, raise nothing under a stance, and go with their optimiser", function()
    local a, b = pair_of("Adam", { lr = 0.01 })
    local function step(l)
      for i, p in ipairs(l.params) do p.grad = p:detach() * i end
      l.opt:step()
    end
    for _ = 1, 20 do step(a) step(b) end
    local class = getmetatable(a.opt)
    local update = class.update
    class.update = error
    local answered = pcall(step, a)
    class.update = update
    assert.falsy(answered) -- another update is seen
    local stance = ty.stance()
    ty.stance "no_recompile"
    a.opt.groups[1].eps, b.opt.groups[1].eps = 0.1, 0.1
    local done, why = pcall(function() step(a) step(b) end)
    ty.stance(stance)
    assert.truthy(done, why)
    same_learner(a, b, "under a stance")
    local gone = setmetatable({ a.opt }, { __mode = "v" })
    a = nil
    collectgarbage() collectgarbage()
    assert.equal(nil, gone[1])
  end)
end)

describe("an optimiser made in another way", function()
  --- Some steps of a bowl; the parameter after each.
  local function steps(opt, p, n)
    local path = {}
    for i = 1, n do
      opt:zero_grad()
      ty.sum(p * p * 0.5):backward()
      opt:step()
      path[i] = p:detach():clone():totable()
    end
    return path
  end

  local others = { { "SGD", { lr = 0.1, momentum = 0.9 } }, { "Adam", { lr = 0.1, amsgrad = true } },
    { "RMSprop", { lr = 0.1, momentum = 0.9, centered = true } } }
  for _, row in ipairs(others) do
    it("takes up " .. row[1] .. "'s state, of settings that it has from there", function()
      local p = nn.Parameter(ty.tensor { 1, 2 })
      local opt = optim[row[1]]({ p }, row[2])
      steps(opt, p, 3)
      local q = nn.Parameter(p:detach():clone())
      local other = optim[row[1]]({ q })
      other:load_state_dict(opt:state_dict())
      assert.same(steps(opt, p, 3), steps(other, q, 3))
      local plain = optim[row[1]]({ nn.Parameter(ty.zeros(2)) })
      opt:load_state_dict(plain:state_dict()) -- and lets go of what it needs no more
      local names, own = {}, {}
      for k in pairs(plain.groups[1].state[1]) do names[k] = true end
      for k in pairs(opt.groups[1].state[1]) do own[k] = true end
      assert.same(names, own)
    end)
  end

  it("begins its momentum when it is given one", function()
    local p = nn.Parameter(ty.zeros(2))
    local opt = optim.SGD({ p }, { lr = 1 })
    for step = 1, 4 do
      if step == 2 then opt.groups[1].momentum = 0.5 end
      p.grad = ty.ones(2)
      opt:step()
    end
    local want = -(1 + 1 + 1.5 + 1.75)
    assert.same({ want, want }, p:detach():totable())
  end)

  it("gives a group that comes later the settings that it was made with", function()
    local p, q = nn.Parameter(ty.ones(1)), nn.Parameter(ty.ones(1))
    local opt = optim.SGD({ p }, { lr = 0.5, momentum = 0.3 })
    opt:add_group { params = { q }, momentum = 0.7 }
    assert.equal(0.5, opt.groups[2].lr)
    assert.equal(0.7, opt.groups[2].momentum)
  end)
end)

describe("a schedule", function()
  it("by a function begins at the first rate, also when taken up again", function()
    local p = nn.Parameter(ty.ones(1))
    local opt = optim.SGD({ p }, { lr = 1 })
    local halves = function(n) return 0.5 ^ n end
    local s = optim.LambdaLR(opt, halves)
    s:step()
    local again = optim.SGD({ p }, { lr = 1 })
    again:load_state_dict(opt:state_dict())
    local t = optim.LambdaLR(again, halves)
    t:step()
    assert.same({ 0.5 }, t:rates())
    assert.truthy(raised(optim.LambdaLR, opt, function() return "x" end):find("the function must give a number"))
  end)

  it("of a plateau takes no NaN for the best value", function()
    local opt = optim.SGD({ nn.Parameter(ty.ones(1)) }, { lr = 1 })
    local s = optim.ReduceLROnPlateau(opt, { patience = 1 })
    for _, metric in ipairs { 0 / 0, 1, 0.5, 0.25, 0.125 } do s:step(metric) end
    assert.same({ 1 }, s:rates())
    assert.truthy(raised(s.load_state_dict, s):find("must be the state of a schedule, got nil"))
  end)

  it("stays where it ends", function()
    local function after(name, opts, n)
      local s = optim[name](optim.SGD({ nn.Parameter(ty.ones(1)) }, { lr = 1 }), opts)
      for _ = 1, n do s:step() end
      return s:rates()[1]
    end
    for name, row in pairs { CosineLR = { { steps = 4, least = 0.25 }, 4 }, WarmupLR = { { warmup = 4 }, 4 },
      WarmupCosineLR = { { warmup = 2, steps = 4, least = 0.25 }, 4 }, OneCycleLR = { { steps = 4, most = 1 }, 3 } } do
      for n = row[2] + 1, row[2] + 3 do assert.equal(after(name, row[1], row[2]), after(name, row[1], n), name) end
    end
    assert.equal(0.25, after("CosineLR", { steps = 4, least = 0.25 }, 9))
    assert.near(1 / 25 / 1e4, after("OneCycleLR", { steps = 4, most = 1 }, 9), 1e-18)
  end)

  it("of a plateau sees what is better by less than the threshold as no better, up or down", function()
    for mode, metrics in pairs { min = { 1, 0.95, 0.91, 0.92 }, max = { 1, 1.05, 1.09, 1.08 } } do
      local opt = optim.SGD({ nn.Parameter(ty.ones(1)) }, { lr = 1 })
      local s = optim.ReduceLROnPlateau(opt, { mode = mode, threshold = 0.1, patience = 2, factor = 0.5 })
      for _, metric in ipairs(metrics) do s:step(metric) end
      assert.same({ 0.5 }, s:rates(), mode)
    end
    for mode, metrics in pairs { min = { 1, 0.8, 0.7, 0.6 }, max = { 1, 1.2, 1.4, 1.6 } } do
      local opt = optim.SGD({ nn.Parameter(ty.ones(1)) }, { lr = 1 })
      local s = optim.ReduceLROnPlateau(opt, { mode = mode, threshold = 0.1, patience = 0 })
      for _, metric in ipairs(metrics) do s:step(metric) end
      assert.same({ 1 }, s:rates(), mode)
    end
  end)

  it("tells options without sense", function()
    local opt = optim.SGD({ nn.Parameter(ty.ones(1)) }, { lr = 1 })
    assert.truthy(raised(optim.OneCycleLR, opt, { steps = 4, most = -1 }):find("most must not be negative"))
    assert.truthy(raised(optim.OneCycleLR, opt, { steps = 4, div = 0 }):find("div must be above 0"))
    assert.truthy(raised(optim.MultiStepLR, opt, { at = { "a" } }):find("must be a list of steps"))
    assert.truthy(raised(optim.ReduceLROnPlateau, opt, { factor = -1 }):find("factor must be in 0..1", 1, true))
  end)

  local makes = {
    StepLR = function(opt) return optim.StepLR(opt, { every = 4, gamma = 0.5 }) end,
    MultiStepLR = function(opt) return optim.MultiStepLR(opt, { at = { 3, 9, 10 }, gamma = 0.2 }) end,
    ExponentialLR = function(opt) return optim.ExponentialLR(opt, { gamma = 0.9 }) end,
    CosineLR = function(opt) return optim.CosineLR(opt, { steps = 24, least = 0.01 }) end,
    WarmupLR = function(opt) return optim.WarmupLR(opt, { warmup = 7, start = 0.1 }) end,
    OneCycleLR = function(opt) return optim.OneCycleLR(opt, { steps = 25, most = 2 }) end,
    LambdaLR = function(opt) return optim.LambdaLR(opt, function(n) return 1 / (n + 1) end) end,
  }

  local function made() return optim.SGD({ start() }, { lr = 0.4 }) end

  for name, make in pairs(makes) do
    it(name .. " gives PyTorch's rates", function()
      local opt = made()
      local s = make(opt)
      for n, want in ipairs(runs[name]) do
        assert.near(want, opt.groups[1].lr, 1e-10, ("step %d"):format(n))
        assert.equal(opt.groups[1].lr, s:rates()[1])
        s:step()
      end
    end)

    it(name .. " is taken up again", function()
      local opt, again = made(), made()
      local s = make(opt)
      for _ = 1, 9 do s:step() end
      local t = make(again)
      t:load_state_dict(s:state_dict())
      assert.equal(opt.groups[1].lr, again.groups[1].lr)
    end)
  end

  it("ReduceLROnPlateau gives PyTorch's rates", function()
    local opt = made()
    local s = optim.ReduceLROnPlateau(opt, { factor = 0.5, patience = 2, cooldown = 1, least = 0.03 })
    for n, want in ipairs(runs.ReduceLROnPlateau) do
      assert.near(want, opt.groups[1].lr, 1e-12, ("step %d"):format(n))
      s:step(10 / math.min(n, 6))
    end
  end)

  it("WarmupCosineLR rises in equal steps, then falls by half a cosine to the least", function()
    local opt = made()
    local s = optim.WarmupCosineLR(opt, { warmup = 4, steps = 12, least = 0.04 })
    local rates = {}
    for n = 1, 16 do
      rates[n] = opt.groups[1].lr
      s:step()
    end
    for n = 1, 4 do assert.near(0.1 * (n - 1), rates[n], 1e-12) end
    assert.near(0.4, rates[5], 1e-12)
    assert.near(0.22, rates[9], 1e-12)
    for n = 13, 16 do assert.near(0.04, rates[n], 1e-12) end
  end)

  it("raises for what it lacks", function()
    local opt = made()
    assert.equal("StepLR: needs the option every", raised(optim.StepLR, opt))
    assert.truthy(raised(optim.SGD, nn.Linear(2, 2), { lr = 1 }):find("got a module; give module:parameters()", 1, true))
    assert.equal("StepLR: option every must be whole and at least 1, got 0", raised(optim.StepLR, opt, { every = 0 }))
    assert.truthy(raised(optim.CosineLR, {}, {}):find("argument 1 must be an optimiser"))
    assert.truthy(raised(optim.LambdaLR, opt, 5):find("argument 2 must be a function"))
    assert.truthy(raised(optim.ReduceLROnPlateau, opt, { mode = "low" }):find("must be \"min\" or \"max\"", 1, true))
  end)
end)

describe("loss scaling", function()
  it("divides gradients, leaves out steps that are not finite, shrinks and grows", function()
    local p = nn.Parameter(ty.zeros { 2 })
    local opt = optim.SGD({ p }, { lr = 1 })
    local s = optim.GradScaler { init_scale = 8, growth_interval = 2 }
    assert.equal(24, s:scale(ty.tensor(3)):item())
    p.grad = ty.tensor { 8, 16 }
    assert.equal(true, s:step(opt))
    assert.same({ -1, -2 }, p:detach():totable())
    p.grad = ty.tensor { 8, math.huge }
    assert.equal(false, s:step(opt))
    assert.same({ -1, -2 }, p:detach():totable())
    assert.equal(4, s.factor)
    for _ = 1, 2 do
      p.grad = ty.tensor { 4, 4 }
      s:unscale_(opt)
      assert.same({ 1, 1 }, p.grad:totable())
      assert.truthy(raised(s.unscale_, s, opt):find("unscaled already"))
      assert.equal(true, s:step(opt))
    end
    assert.same({ -3, -4 }, p:detach():totable())
    assert.equal(8, s.factor)
  end)

  for _, capturable in ipairs { false, true } do
    it("divides by what the loss was multiplied by, also after another optimiser's step" ..
      (capturable and ", where no value is read" or ""), function()
      local p, q = nn.Parameter(ty.zeros(2)), nn.Parameter(ty.zeros(2))
      local a, b = optim.SGD({ p }, { lr = 1 }), optim.SGD({ q }, { lr = 1 })
      local s = optim.GradScaler { init_scale = 8, growth_interval = 1, capturable = capturable }
      for n = 1, 3 do
        a:zero_grad()
        b:zero_grad()
        s:scale((p + q * 2):sum()):backward()
        if n == 2 then -- both before the first step
          s:unscale_(a)
          s:unscale_(b)
          assert.same({ 2, 2 }, q.grad:totable())
          assert.truthy(raised(s.unscale_, s, b):find("unscaled already"))
        end
        s:step(a)
        s:step(b)
        assert.same({ -n, -n }, p:detach():totable())
        assert.same({ -2 * n, -2 * n }, q:detach():totable())
      end
    end)
  end

  it("tells what is no optimiser", function()
    assert.truthy(raised(function() optim.GradScaler():step() end):find("step: argument 1 must be an optimiser, got nil"))
    assert.truthy(raised(function() optim.GradScaler():unscale_(nn.Linear(1, 1)) end):find("must be an optimiser"))
  end)

  it("is one step for several optimisers: all divide by one factor, which grows if all were good", function()
    for _, capturable in ipairs { false, true } do
      local a, b = nn.Parameter(ty.zeros { 2 }), nn.Parameter(ty.zeros { 1 })
      local first, second = optim.SGD({ a }, { lr = 1 }), optim.SGD({ b }, { lr = 1 })
      local s = optim.GradScaler { init_scale = 8, growth_interval = 2, capturable = capturable }
      local function factor() return capturable and s.factor:item() or s.factor end
      local function step(of_a, of_b)
        local scale = s:scale(ty.tensor(1)):item()
        a.grad, b.grad = ty.tensor { of_a * scale, 2 * scale }, ty.tensor { of_b * scale }
        s:unscale_(second)
        s:step(first)
        s:step(second)
        return { a:detach():get(2), b:detach():get(1), factor() }
      end
      assert.same({ 0, -1, 4 }, step(math.huge, 1)) -- the other one's step is made, of its true size
      assert.same({ -2, -2, 4 }, step(1, 1))
      assert.same({ -4, -2, 2 }, step(1, math.huge))
      assert.same({ -6, -3, 2 }, step(1, 1))
      assert.same({ -8, -4, 4 }, step(1, 1))
    end
  end)
end)
