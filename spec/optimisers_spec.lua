--- optimisers_spec.lua -- optimisers, schedules and averages beside PyTorch's (fixtures/optimisers.lua, made by
-- fixtures/make_optimisers.py); compiled steps, whose bits are eager's, as one trace and one plan; settings of all groups.

local H = require "spec.helper"
local V = require "spec.torch_values"
local ty = H.ty
local nn, optim = ty.nn, ty.optim
local raised, sorted, close = H.raises, H.sorted, V.close
local runs = dofile(H.root .. "spec/fixtures/optimisers.lua")
local f64 = { dtype = "f64" }

--- What make_optimisers.py began with; turned: weights are [inputs, outputs] here.
local function start(only, turned)
  local list = { ty.arange(5, f64) - 2, ty.arange(12, f64):cos():reshape(3, 4) }
  if only then list = { list[only] } end
  for i, p in ipairs(list) do list[i] = nn.Parameter(turned and p:t():contiguous() or p) end
  return list
end

local function gradient(p, n, turned)
  if turned then p = p:t() end
  local i = ty.arange(p:numel(), f64) + 1
  local g = (p:reshape(-1) * i * 0.3 - i:cos() + (i * n):sin() * 0.1):reshape(p.shape)
  return turned and g:t():contiguous() or g
end

--- What make_optimisers.py called; captures: where it is not 1, of a compiled step; only, turned: as of start.
local rules = {
  ["NAdam"] = { optim.NAdam, { lr = 0.05, weight_decay = 0.1 } },
  ["NAdam decoupled"] = { optim.NAdam, { lr = 0.05, betas = { 0.8, 0.95 }, momentum_decay = 0.01, weight_decay = 0.1,
    decoupled_weight_decay = true } },
  ["RAdam"] = { optim.RAdam, { lr = 0.05, weight_decay = 0.1 }, captures = 2 },
  ["RAdam decoupled"] = { optim.RAdam, { lr = 0.05, betas = { 0.8, 0.9 }, weight_decay = 0.1,
    decoupled_weight_decay = true }, captures = 2 },
  ["Adamax"] = { optim.Adamax, { lr = 0.05, weight_decay = 0.1 } },
  ["Adadelta"] = { optim.Adadelta, { lr = 0.7, rho = 0.8, weight_decay = 0.1 } },
  ["Rprop"] = { optim.Rprop, { lr = 0.02, etas = { 0.4, 1.3 }, step_sizes = { 1e-4, 0.3 } } },
  ["ASGD"] = { optim.ASGD, { lr = 0.05, lambd = 0.01, alpha = 0.6, t0 = 5, weight_decay = 0.1 } },
  ["Adafactor"] = { optim.Adafactor, { lr = 0.05, weight_decay = 0.1 } },
  ["Adafactor bounds"] = { optim.Adafactor, { lr = 0.9, beta2_decay = -0.5, eps1 = 1e-4, eps = 0.1, d = 2 } },
  ["Muon"] = { optim.Muon, { lr = 0.05 }, only = 2, turned = true },
  ["Muon adamw"] = { optim.Muon, { lr = 0.05, momentum = 0.8, nesterov = false, weight_decay = 0.2, ns_steps = 3,
    adjust_lr_fn = "match_rms_adamw" }, only = 2, turned = true },
}

local STEPS = 30
local KEPT = { [1] = 1, [2] = 2, [8] = 3, [STEPS] = 4 }

local function set_gradients(params, n, turned)
  for _, p in ipairs(params) do p.grad = gradient(p:detach(), n, turned) end
end

describe("an optimiser takes PyTorch's steps:", function()
  for _, name in ipairs(sorted(rules)) do
    local row = rules[name]

    it(name, function()
      local params = start(row.only, row.turned)
      local opt = row[1](params, row[2])
      for n = 1, STEPS do
        set_gradients(params, n, row.turned)
        opt:step()
        for i, want in ipairs(runs[name][KEPT[n]] or {}) do
          local p = params[i]:detach()
          close(want, row.turned and p:t() or p, ("step %d, parameter %d"):format(n, i))
        end
      end
    end)

    it(name .. ", compiled, to eager's bits; another rate is no other plan", function()
      local a, b = start(row.only, row.turned), start(row.only, row.turned)
      local plain, own = row[1](a, row[2]), row[1](b, row[2])
      optim._plain_steps[plain] = -math.huge
      local compiled = ty.compile(function() own:step() end, { fullgraph = true })
      local before
      for n = 1, 16 do
        if n == 10 then before = ty.stats() end
        set_gradients(a, n, row.turned)
        set_gradients(b, n, row.turned)
        plain.lr, own.lr = 0.01 / n, 0.01 / n
        plain:step()
        compiled()
        for i, p in ipairs(a) do H.same(p:detach(), b[i]:detach(), ("step %d, parameter %d"):format(n, i)) end
      end
      local told = ty.explain(compiled)
      assert.same({ row.captures or 1, 16 }, { told.captures, told.skips }, tostring(told))
      assert.equal(before.kernels.misses, ty.stats().kernels.misses)
    end)

    it(name .. ", with forward and backward in one compiled step", function()
      local function learner()
        ty.manual_seed(4)
        local m = nn.Sequential(nn.Linear(3, 4, { bias = false }), nn.Tanh(), nn.Linear(4, 1, { bias = false }))
        local opt = row[1](m:parameters(), row[2])
        optim._plain_steps[opt] = -math.huge
        local x = ty.randn(8, 3)
        return function()
          opt:zero_grad()
          local loss = ty.mse_loss(m(x), x:sum(2, true))
          loss:backward()
          opt:step()
          return loss:detach()
        end
      end
      local plain, compiled = learner(), ty.compile(learner(), { fullgraph = true })
      for n = 1, 12 do H.same(plain(), compiled(), "step " .. n) end
      assert.equal(12, ty.explain(compiled).skips, tostring(ty.explain(compiled)))
    end)

    it(name .. ", taken up again from its state", function()
      local a, b = start(row.only, row.turned), start(row.only, row.turned)
      local opt = row[1](a, row[2])
      for n = 1, 7 do
        set_gradients(a, n, row.turned)
        opt:step()
      end
      for i, p in ipairs(a) do ty.no_grad(b[i].copy_, b[i], p) end
      local other = row[1](b)
      other:load_state_dict(opt:state_dict())
      for n = 8, 14 do
        for _, own in ipairs { a, b } do set_gradients(own, n, row.turned) end
        opt:step()
        other:step()
        for i, p in ipairs(a) do H.same(p:detach(), b[i]:detach()) end
      end
    end)

    it(name .. ", by plans of its own from its 17th step on, and where a scaler may leave steps out", function()
      local a, b = start(row.only, row.turned), start(row.only, row.turned)
      local plain, own = row[1](a, row[2]), row[1](b, row[2])
      optim._plain_steps[plain] = -math.huge
      for n = 1, 24 do
        set_gradients(a, n, row.turned)
        set_gradients(b, n, row.turned)
        plain:step()
        own:step()
        for i, p in ipairs(a) do H.same(p:detach(), b[i]:detach(), "step " .. n) end
      end
      assert.truthy(optim._planned[own])
      a, b = start(row.only, row.turned), start(row.only, row.turned)
      plain, own = row[1](a, row[2]), row[1](b, row[2])
      local s = optim.GradScaler { init_scale = 4, growth_interval = 1e9, capturable = true }
      for n = 1, 12 do
        set_gradients(a, n, row.turned)
        set_gradients(b, n, row.turned)
        local factor = s:scale(ty.tensor(1)):item()
        for _, p in ipairs(b) do p.grad = p.grad * factor end
        if n == 3 then
          local bad = b[1].grad:clone()
          bad:view(-1):set(2, math.huge)
          b[1].grad = bad
          s:step(own)
        else
          plain:step()
          s:step(own)
        end
        for i, p in ipairs(a) do
          assert.truthy(ty.allclose(p:detach(), b[i]:detach(), { rtol = 1e-11, atol = 1e-11 }), ("step %d"):format(n))
        end
      end
    end)
  end
end)

describe("LBFGS", function()
  local function valley(p)
    return function(opt)
      opt:zero_grad()
      local loss = (1 - p[1]) * (1 - p[1]) + (p[2] - p[1] * p[1]):square() * 100
      loss:backward()
      return loss
    end
  end

  local options = {
    ["LBFGS"] = { lr = 0.002, max_iter = 6 },
    ["LBFGS strong_wolfe"] = { max_iter = 5, line_search_fn = "strong_wolfe" },
    ["LBFGS short"] = { max_iter = 8, history_size = 2, line_search_fn = "strong_wolfe" },
  }

  local function made(name)
    local p = nn.Parameter(ty.tensor({ -1.5, 2 }, f64))
    local opt, loss = optim.LBFGS({ p }, options[name]), valley(p)
    return p, opt, function() return loss(opt) end
  end

  for name in pairs(options) do
    it("walks down Rosenbrock's valley as PyTorch's: " .. name, function()
      local p, opt, loss = made(name)
      for n, row in ipairs(runs[name]) do
        local wanted = math.max(1, math.abs(row[1]))
        assert.near(row[1], opt:step(loss):item(), 1e-7 * wanted, "step " .. n)
        for i, want in ipairs(row[2]) do assert.near(want, p:detach():get(i), 1e-7, "step " .. n) end
        assert.equal(row[3], opt.groups[1].state[1].func_evals)
      end
    end)
  end

  it("goes on from its state to the bit", function()
    local p, opt, loss = made "LBFGS short"
    opt:step(loss)
    local q, other, other_loss = made "LBFGS short"
    ty.no_grad(q.copy_, q, p)
    other:load_state_dict(opt:state_dict())
    for _ = 1, 2 do
      H.same(opt:step(loss), other:step(other_loss))
      H.same(p:detach(), q:detach())
    end
  end)

  it("finds the least point of a model's loss, which may be compiled", function()
    ty.manual_seed(3)
    local m, x = nn.Linear(3, 1):to "f64", ty.randn({ 20, 3 }, f64)
    local y = x:matmul(ty.tensor({ { 1 }, { -2 }, { 0.5 } }, f64)) + 3
    local opt = optim.LBFGS(m:parameters(), { line_search_fn = "strong_wolfe" })
    local closure = ty.compile(function()
      opt:zero_grad()
      local loss = ty.mse_loss(m(x), y)
      loss:backward()
      return loss
    end)
    for _ = 1, 3 do opt:step(closure) end
    assert.near(3, m.bias:item(), 1e-4)
    assert.near(-2, m.weight:detach():get(2, 1), 1e-4)
  end)

  it("tells what it lacks", function()
    local p = nn.Parameter(ty.ones(2))
    local opt = optim.LBFGS { p }
    assert.truthy(raised(opt.step, opt):find("step: LBFGS needs a function that gives the loss, got nil", 1, true))
    assert.truthy(raised(opt.step, opt, function() return 3 end):find("must give the loss, a tensor", 1, true))
    assert.truthy(raised(optim.LBFGS, { { params = { p } }, { params = { nn.Parameter(ty.ones(1)) } } })
      :find("LBFGS: takes one group of parameters, got 2", 1, true))
    assert.truthy(raised(optim.LBFGS, { p }, { line_search_fn = "x" }):find("must be \"strong_wolfe\" or left out", 1, true))
    assert.truthy(raised(optim.LBFGS, { p }, { max_iter = 0 }):find("max_iter must be whole", 1, true))
  end)
end)

describe("a schedule gives PyTorch's rates:", function()
  local makes = {
    ["LinearLR"] = optim.LinearLR,
    ["LinearLR down"] = function(o) return optim.LinearLR(o, { start_factor = 1, end_factor = 0.1, total_iters = 12 }) end,
    ["ConstantLR"] = function(o) return optim.ConstantLR(o, { factor = 0.25, total_iters = 7 }) end,
    ["PolynomialLR"] = function(o) return optim.PolynomialLR(o, { total_iters = 15, power = 2 }) end,
    ["CosineAnnealingLR"] = function(o) return optim.CosineAnnealingLR(o, { T_max = 7, eta_min = 0.01 }) end,
    ["CosineAnnealingWarmRestarts"] = function(o)
      return optim.CosineAnnealingWarmRestarts(o, { T_0 = 3, T_mult = 2, eta_min = 0.05 })
    end,
    ["CosineAnnealingWarmRestarts of one length"] = function(o) return optim.CosineAnnealingWarmRestarts(o, { T_0 = 6 }) end,
    ["CyclicLR"] = function(o)
      return optim.CyclicLR(o, { base_lr = 0.1, max_lr = 0.5, step_size_up = 4, step_size_down = 3 })
    end,
    ["CyclicLR triangular2"] = function(o)
      return optim.CyclicLR(o, { base_lr = 0.1, max_lr = 0.5, step_size_up = 3, mode = "triangular2",
        cycle_momentum = false })
    end,
    ["CyclicLR exp_range"] = function(o)
      return optim.CyclicLR(o, { base_lr = 0.1, max_lr = 0.5, step_size_up = 3, mode = "exp_range", gamma = 0.9,
        base_momentum = 0.6, max_momentum = 0.95 })
    end,
    ["MultiplicativeLR"] = function(o) return optim.MultiplicativeLR(o, function(n) return 1 - 1 / (n + 2) end) end,
    ["SequentialLR"] = function(o)
      return optim.SequentialLR(o, { optim.LinearLR(o, { start_factor = 0.1, total_iters = 4 }),
        optim.CosineAnnealingLR(o, { T_max = 10 }), optim.ExponentialLR(o, { gamma = 0.5 }) }, { 5, 15 })
    end,
    ["ChainedScheduler"] = function(o)
      return optim.ChainedScheduler { optim.ConstantLR(o, { factor = 0.1, total_iters = 4 }),
        optim.ExponentialLR(o, { gamma = 0.9 }) }
    end,
    ["SWALR"] = function(o) return optim.SWALR(o, { swa_lr = 0.05, anneal_epochs = 8 }) end,
    ["SWALR linear"] = function(o)
      return optim.SWALR(o, { swa_lr = 0.05, anneal_epochs = 8, anneal_strategy = "linear" })
    end,
    ["StepLR"] = function(o) return optim.StepLR(o, { step_size = 4, gamma = 0.5 }) end,
    ["MultiStepLR"] = function(o) return optim.MultiStepLR(o, { milestones = { 3, 9 }, gamma = 0.2 }) end,
    ["OneCycleLR"] = function(o)
      return optim.OneCycleLR(o, { max_lr = 2, total_steps = 25, pct_start = 0.4, div_factor = 10, final_div_factor = 100 })
    end,
  }

  local function made(name)
    local momentum = runs[name].momenta and 0.9 or 0
    return optim.SGD({ nn.Parameter(ty.ones(1)) }, { lr = 0.4, momentum = momentum })
  end

  for _, name in ipairs(sorted(makes)) do
    it(name, function()
      local opt = made(name)
      local s = makes[name](opt)
      for n, want in ipairs(runs[name].rates) do
        assert.near(want, opt.lr, 1e-10, ("step %d"):format(n))
        if runs[name].momenta then assert.near(runs[name].momenta[n], opt.momentum, 1e-10, ("step %d"):format(n)) end
        s:step()
      end
    end)

    it(name .. ", taken up again", function()
      local opt, again = made(name), made(name)
      local s = makes[name](opt)
      for _ = 1, 9 do s:step() end
      local t = makes[name](again)
      t:load_state_dict(s:state_dict())
      for _ = 1, 8 do
        assert.equal(opt.lr, again.lr)
        s:step()
        t:step()
      end
    end)
  end

  it("or tells what it lacks", function()
    local opt, other = made "LinearLR", made "LinearLR"
    local a, b = optim.LinearLR(opt), optim.LinearLR(other)
    for text, fn in pairs {
      ["SequentialLR: schedule 1 is one of another optimiser"] = function() optim.SequentialLR(opt, { b }, {}) end,
      ["SequentialLR: schedule 2 is one of another optimiser"] = function() optim.SequentialLR(opt, { a, b }, { 1 }) end,
      ["SequentialLR: schedule 2 is one of a plateau"] = function()
        optim.SequentialLR(opt, { a, optim.ReduceLROnPlateau(opt) }, { 1 })
      end,
      ["SequentialLR: argument 3 must be a list of 1 steps"] = function() optim.SequentialLR(opt, { a, a }, {}) end,
      ["SequentialLR: argument 3 must be steps in ascending order, got number 2"] = function()
        optim.SequentialLR(opt, { a, a, a }, { 4, 2 })
      end,
      ["ChainedScheduler: argument 1 must be a list of schedules"] = function() optim.ChainedScheduler {} end,
      ["CyclicLR: the optimiser has no momentum to be cycled"] = function()
        optim.CyclicLR(opt, { base_lr = 0.1, max_lr = 0.2 })
      end,
      ["CyclicLR: needs the option"] = function() optim.CyclicLR(opt, {}) end,
      ["CosineAnnealingWarmRestarts: option T_mult must be whole"] = function()
        optim.CosineAnnealingWarmRestarts(opt, { T_0 = 3, T_mult = 1.5 })
      end,
      ["StepLR: option every is given twice"] = function() optim.StepLR(opt, { every = 3, step_size = 3 }) end,
      ["MultiplicativeLR: argument 2 must be a function"] = function() optim.MultiplicativeLR(opt, 3) end,
      ["SWALR: option anneal_strategy must be"] = function()
        optim.SWALR(opt, { swa_lr = 1, anneal_strategy = "x" })
      end,
    } do
      local got = raised(fn)
      assert.truthy(got:find(text, 1, true), got)
    end
  end)
end)

describe("a setting that is assigned to an optimiser", function()
  local function pair() return nn.Parameter(ty.ones(1)), nn.Parameter(ty.ones(1)) end

  it("is changed in the list of groups under PyTorch's name, too", function()
    local opt = ty.optim.SGD({ ty.ones(1):requires_grad_() }, { lr = 1 })
    for _, g in ipairs(opt.param_groups) do g.lr = 0.5 end
    assert.equal(0.5, opt.lr)
    assert.equal(opt.groups, opt.param_groups)
  end)

  it("is that of all groups, and is read where they agree", function()
    local a, b = pair()
    local opt = optim.SGD({ { params = { a }, lr = 0.5 }, { params = { b }, lr = 0.1 } })
    assert.is_nil(opt.lr)
    opt.lr = 1
    assert.same({ 1, 1, 1 }, { opt.lr, opt.groups[1].lr, opt.groups[2].lr })
    a.grad, b.grad = ty.ones(1), ty.full({ 1 }, 2)
    opt:step()
    assert.same({ 0, -1 }, { a:item(), b:item() })
    assert.equal(0, opt.momentum)
    opt.note = "mine" -- what is no setting is a field
    assert.equal("mine", opt.note)
    assert.is_nil(opt.groups[1].note)
  end)

  it("is checked before any group has it", function()
    local a, b = pair()
    local opt = optim.Adam({ { params = { a } }, { params = { b } } })
    for text, fn in pairs {
      ["Adam: option lr must be a number, got string"] = function() opt.lr = "x" end,
      ["Adam: option lr must not be negative, got -1"] = function() opt.lr = -1 end,
      ["Adam: option betas must be two numbers in 0..1"] = function() opt.betas = { 0.5, 1 } end,
    } do
      local got = raised(fn)
      assert.truthy(got:find(text, 1, true), got)
    end
    assert.equal(1e-3, opt.lr)
    local sgd = optim.SGD { nn.Parameter(ty.ones(1)) }
    assert.truthy(raised(function() sgd.nesterov = true end):find("nesterov needs a momentum", 1, true))
    opt.betas = { 0.5, 0.6 }
    assert.falsy(rawequal(opt.groups[1].betas, opt.groups[2].betas))
    assert.equal(0.6, opt.groups[2].betas[2])
  end)

  it("is seen by a compiled step, which may assign it", function()
    local function learner()
      local p = nn.Parameter(ty.ones(2))
      local opt = optim.SGD({ { params = { p } } }, { lr = 1 })
      return opt, p, function(rate)
        p.grad = p:detach() * 0.5
        opt.lr = rate
        opt:step()
        return p:detach():clone()
      end
    end
    local opt, _, plain = learner()
    local own, _, step = learner()
    local compiled = ty.compile(step, { fullgraph = true })
    for n = 1, 6 do
      H.same(plain(1 / n), compiled(1 / n))
      assert.equal(opt.lr, own.lr)
    end
    assert.equal(1, ty.explain(compiled).captures, tostring(ty.explain(compiled)))
  end)
end)

describe("averages of a model", function()
  local function net() return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)):to "f64" end

  --- Writes what make_optimisers.py wrote in step n, in PyTorch's layout.
  local function fill(m, n)
    local list = { m[1].weight, m[1].bias, m[2].weight, m[2].bias, m[2].running_mean, m[2].running_var }
    for k, p in ipairs(list) do
      local v = ty.arange(p:numel(), f64) * 0.1 + (k - 1) + n * n
      ty.no_grad(p.copy_, p, k == 1 and v:reshape(3, 2):t() or v:reshape(p.shape))
    end
  end

  for name, opts in pairs { ["AveragedModel"] = {}, ["AveragedModel decay"] = { decay = 0.9 },
    ["AveragedModel buffers"] = { decay = 0.9, use_buffers = true } } do
    it("are PyTorch's: " .. name, function()
      local m = net()
      local averages = optim.AveragedModel(m, opts)
      for n = 0, 3 do
        fill(m, n)
        averages:update_parameters(m)
      end
      local want = net()
      local sd = {}
      for k, v in pairs(runs[name]) do sd[k] = V.tensor(v) end
      want:load_state_dict(sd, { from = "torch" })
      for k, v in pairs(want:state_dict()) do
        close({ shape = v.shape, unpack(v:reshape(-1):totable()) }, averages.module:state_dict()[k], k)
      end
      assert.equal(4, averages.n_averaged:item())
      local x = ty.randn({ 4, 2 }, f64)
      averages:eval()
      assert.truthy(ty.allclose(want:eval()(x), averages(x), { rtol = 1e-10, atol = 1e-10 }))
      assert.truthy(m.training)
    end)
  end

  it("are one trace with the step, and their state goes around", function()
    local function learner()
      ty.manual_seed(2)
      local m = nn.Linear(3, 1)
      local opt, averages = optim.SGD(m:parameters(), { lr = 0.1 }), optim.AveragedModel(m, { decay = 0.9 })
      local x = ty.randn(5, 3)
      return averages, function()
        opt:zero_grad()
        ty.mse_loss(m(x), x:sum(2, true)):backward()
        opt:step()
        averages:update_parameters(m)
      end
    end
    local a, plain = learner()
    local b, own = learner()
    local compiled = ty.compile(own, { fullgraph = true })
    for _ = 1, 5 do
      plain()
      compiled()
      for k, v in pairs(a:state_dict()) do H.same(v, b:state_dict()[k], k) end
    end
    assert.equal(1, ty.explain(compiled).captures, tostring(ty.explain(compiled)))
    local c = optim.AveragedModel(nn.Linear(3, 1), { decay = 0.9 })
    c:load_state_dict(a:state_dict())
    H.same(a(ty.ones(1, 3)), c(ty.ones(1, 3)))
    assert.falsy(rawequal(a.module.weight, c.module.weight))
  end)

  it("keep what is shared shared, and tell what does not fit", function()
    local w = nn.Linear(2, 2)
    local averages = optim.AveragedModel(nn.Module { a = w, b = w })
    assert.truthy(rawequal(averages.module.a, averages.module.b))
    assert.falsy(rawequal(averages.module.a.weight, w.weight))
    assert.truthy(raised(averages.update_parameters, averages, nn.Linear(1, 1)):find("update_parameters: the model has no", 1, true))
    assert.truthy(raised(optim.AveragedModel, 3):find("argument 1 must be a module, got number 3", 1, true))
    assert.truthy(raised(optim.AveragedModel, w, { decay = 2 }):find("option decay must be in 0..1, got 2", 1, true))
  end)

  it("need the moments of batch norms anew: the means over all batches", function()
    local m = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)):to("f64"):eval()
    local n = 0
    optim.update_bn(function()
      n = n + 1
      return n <= 3 and (ty.arange(6, f64) * n):cos():reshape(3, 2) or nil
    end, m)
    close(runs.update_bn[1], m[1].running_mean, "mean")
    close(runs.update_bn[2], m[1].running_var, "variance")
    assert.same({ false, 0.1 }, { m[1].training, m[1].momentum })
    assert.truthy(raised(optim.update_bn, function() end, 3):find("argument 2 must be a module", 1, true))
  end)
end)
