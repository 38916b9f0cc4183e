--- optim/sequences.lua -- further schedules, and those that are made of others. The common ones are in schedules.lua.
-- All are functions of the groups' first rates and the step's number alone.

---@param _ table the module tycho
---@param M table ty.optim, which is filled
---@param check table arguments.lua
return function(_, M, check)
  local cos, pi, min, max, floor = math.cos, math.pi, math.min, math.max, math.floor
  local type, ipairs = type, ipairs
  local schedule, NEEDED, apply = M._schedule, M._needed, M._apply_schedule

  local function whole(name, what, v, least)
    if type(v) ~= "number" or v % 1 ~= 0 or v < least then
      check.fail(name, "option %s must be whole and at least %d, got %.14g", what, least, v)
    end
  end

  --- optim.LinearLR(opt, {start_factor = 1 / 3, end_factor = 1, total_iters = 5}): the first rate times a factor that
  --- goes from the one to the other in equal steps, and stays there.
  --- Raises where the first argument is no optimiser, or an option is out of range.
  ---@param opt tycho.Optimizer
  ---@param opts? {start_factor: number?, end_factor: number?, total_iters: integer?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("LinearLR", { start_factor = 1 / 3, end_factor = 1, total_iters = 5 }, function(s, base, n)
    return base * (s.start_factor + (s.end_factor - s.start_factor) * min(n / s.total_iters, 1))
  end, function(s, name) whole(name, "total_iters", s.total_iters, 1) end)

  --- optim.ConstantLR(opt, {factor = 1 / 3, total_iters = 5}): the first rate times factor for so many steps, then
  --- the first rate.
  --- Raises where the first argument is no optimiser, or an option is out of range.
  ---@param opt tycho.Optimizer
  ---@param opts? {factor: number?, total_iters: integer?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("ConstantLR", { factor = 1 / 3, total_iters = 5 }, function(s, base, n)
    return n < s.total_iters and base * s.factor or base
  end, function(s, name) whole(name, "total_iters", s.total_iters, 1) end)

  --- optim.PolynomialLR(opt, {total_iters = 5, power = 1}): the first rate times (1 - step / total_iters)^power, down
  --- to 0.
  --- Raises where the first argument is no optimiser, or an option is out of range.
  ---@param opt tycho.Optimizer
  ---@param opts? {total_iters: integer?, power: number?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("PolynomialLR", { total_iters = 5, power = 1 }, function(s, base, n)
    return base * (1 - min(n, s.total_iters) / s.total_iters) ^ s.power
  end, function(s, name) whole(name, "total_iters", s.total_iters, 1) end)

  --- Half a cosine from `from` at share 0 to `to` at share 1, and back.
  local function cosine(from, to, share) return to + (from - to) * (1 + cos(pi * share)) / 2 end

  --- optim.CosineAnnealingLR(opt, {T_max, eta_min = 0}): half a cosine from the first rate down to eta_min at step
  --- T_max, then up again, and so on. One that stays there: CosineLR. Loshchilov, Hutter 2016, arXiv:1608.03983.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {T_max: integer, eta_min: number?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("CosineAnnealingLR", { T_max = NEEDED, eta_min = 0 }, function(s, base, n)
    return cosine(base, s.eta_min, n / s.T_max)
  end, function(s, name) whole(name, "T_max", s.T_max, 1) end)

  --- optim.CosineAnnealingWarmRestarts(opt, {T_0, T_mult = 1, eta_min = 0}): half a cosine from the first rate down
  --- to eta_min in T_0 steps, then from the first rate again, each time in T_mult times as many steps. Loshchilov,
  --- Hutter 2016, arXiv:1608.03983.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {T_0: integer, T_mult: integer?, eta_min: number?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("CosineAnnealingWarmRestarts", { T_0 = NEEDED, T_mult = 1, eta_min = 0 }, function(s, base, n)
    local length = s.T_0
    if s.T_mult == 1 then n = n % length end
    while n >= length do n, length = n - length, length * s.T_mult end
    return cosine(base, s.eta_min, n / length)
  end, function(s, name)
    whole(name, "T_0", s.T_0, 1)
    whole(name, "T_mult", s.T_mult, 1)
  end)

  ---------------------------------------------------------------------------------------------------------- cycles

  --- How far a CyclicLR is from the lower rate to the upper one at step n.
  local function height(s, n)
    local up, down = s.step_size_up, s.step_size_down > 0 and s.step_size_down or s.step_size_up
    local total = up + down
    local cycle, at = floor(1 + n / total), n % total / total
    local share = up / total
    local h = at <= share and at / share or (at - 1) / (share - 1)
    if s.mode == "triangular2" then return h / 2 ^ (cycle - 1) end
    if s.mode == "exp_range" then return h * s.gamma ^ n end
    return h
  end

  --- The momentum of a group, which falls where the rate rises.
  local function cycled_momentum(s, g, n)
    if not s.cycle_momentum then return end
    local v = s.max_momentum - (s.max_momentum - s.base_momentum) * height(s, n)
    if g.betas then g.betas[1] = v else g.momentum = v end
  end

  --- optim.CyclicLR(opt, {base_lr, max_lr, step_size_up = 2000, step_size_down = step_size_up, mode = "triangular",
  --- gamma = 1, cycle_momentum = true, base_momentum = 0.8, max_momentum = 0.9}): from base_lr in equal steps up to
  --- max_lr, down again, and so on. mode = "triangular2": each cycle is half as high as the one before; "exp_range":
  --- heights shrink by gamma a step. The momentum (or the first of betas) goes the other way. Smith 2015,
  --- arXiv:1506.01186.
  --- Raises where the first argument is no optimiser, has no momentum that could be cycled, or an option is missing
  --- or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {base_lr: number, max_lr: number, step_size_up: integer?, step_size_down: integer?, mode: string?,
  ---  gamma: number?, cycle_momentum: boolean?, base_momentum: number?, max_momentum: number?} counted in steps of
  ---  the schedule
  ---@return tycho.Schedule # s:step() after each step
  schedule("CyclicLR", { base_lr = NEEDED, max_lr = NEEDED, step_size_up = 2000, step_size_down = 0,
    mode = "triangular", gamma = 1, cycle_momentum = true, base_momentum = 0.8, max_momentum = 0.9 }, function(s, _, n)
    return s.base_lr + (s.max_lr - s.base_lr) * height(s, n)
  end, function(s, name)
    whole(name, "step_size_up", s.step_size_up, 1)
    whole(name, "step_size_down", s.step_size_down, 0)
    if s.mode ~= "triangular" and s.mode ~= "triangular2" and s.mode ~= "exp_range" then
      check.fail(name, "option mode must be \"triangular\", \"triangular2\" or \"exp_range\", got %q", s.mode)
    end
    for _, g in ipairs(s.opt.groups) do
      if s.cycle_momentum and not g.betas and not (g.momentum and g.momentum > 0) then
        check.fail(name, "the optimiser has no momentum to be cycled (use cycle_momentum = false)")
      end
    end
    s.other = cycled_momentum
  end)

  --- optim.SWALR(opt, {swa_lr, anneal_epochs = 10, anneal_strategy = "cos"}): from the first rate to swa_lr in so
  --- many steps, by half a cosine or, with "linear", in equal steps; there it stays. For averages,
  --- optim.AveragedModel. Izmailov and others 2018, arXiv:1803.05407.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {swa_lr: number, anneal_epochs: integer?, anneal_strategy: "cos"|"linear"|nil} counted in steps of
  ---  the schedule
  ---@return tycho.Schedule # s:step() after each epoch
  schedule("SWALR", { swa_lr = NEEDED, anneal_epochs = 10, anneal_strategy = "cos" }, function(s, base, n)
    local share = s.anneal_epochs == 0 and 1 or min(n / s.anneal_epochs, 1)
    if s.anneal_strategy == "linear" then return base + (s.swa_lr - base) * share end
    return cosine(base, s.swa_lr, share)
  end, function(s, name)
    whole(name, "anneal_epochs", s.anneal_epochs, 0)
    if s.anneal_strategy ~= "cos" and s.anneal_strategy ~= "linear" then
      check.fail(name, "option anneal_strategy must be \"cos\" or \"linear\", got %q", s.anneal_strategy)
    end
  end)

  ---------------------------------------------------------------------------------------------------------- of others

  --- optim.MultiplicativeLR(opt, fn): the rate times fn(step) at each step.
  --- Raises where fn is no function, or gives no number.
  ---@param opt tycho.Optimizer
  ---@param fn fun(step: integer): number
  ---@return tycho.Schedule # s:step() after each step or epoch
  function M.MultiplicativeLR(opt, fn)
    local name = "MultiplicativeLR"
    if type(fn) ~= "function" then check.fail(name, "argument 2 must be a function, got %s", check.show(fn)) end
    local products = { [0] = 1 }
    return M._new_schedule(opt, name, function(_, base, n)
      for i = #products + 1, n do
        local factor = fn(i)
        if type(factor) ~= "number" then
          check.fail(name, "the function must give a number, got %s", check.show(factor))
        end
        products[i] = products[i - 1] * factor
      end
      return base * products[n]
    end)
  end

  --- Schedules of one optimiser, as a list.
  local function parts_of(name, i, list)
    if type(list) ~= "table" or #list == 0 then
      check.fail(name, "argument %d must be a list of schedules, got %s", i, check.show(list))
    end
    for k, s in ipairs(list) do
      if type(s) ~= "table" or type(s.rate) ~= "function" then
        check.fail(name, "schedule %d is %s", k, type(s) == "table" and s.bad and "one of a plateau" or check.show(s))
      end
      if s.opt ~= list[1].opt then check.fail(name, "schedule %d is one of another optimiser", k) end
    end
    return list
  end

  --- optim.SequentialLR(opt, {schedule, ...}, {step, ...}): the first schedule up to the first of the steps, from
  --- there the second one from its beginning, and so on. The steps may be given as {milestones = list}.
  --- Raises where the schedules are not of that optimiser, or the steps are not one fewer, in ascending order.
  ---@param opt tycho.Optimizer
  ---@param schedules tycho.Schedule[]
  ---@param milestones integer[]|{milestones: integer[]} where the next one begins, counted in steps of this schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  function M.SequentialLR(opt, schedules, milestones)
    local name = "SequentialLR"
    parts_of(name, 2, schedules)
    if schedules[1].opt ~= opt then check.fail(name, "schedule 1 is one of another optimiser") end
    if type(milestones) == "table" and milestones.milestones then milestones = milestones.milestones end
    if type(milestones) ~= "table" or #milestones ~= #schedules - 1 then
      check.fail(name, "argument 3 must be a list of %d steps, got %s", #schedules - 1, check.show(milestones))
    end
    for i, at in ipairs(milestones) do
      if type(at) ~= "number" or at % 1 ~= 0 or at < (milestones[i - 1] or 1) then
        check.fail(name, "argument 3 must be steps in ascending order, got %s", check.show(at))
      end
    end
    local s = M._new_schedule(opt, name, function(_, base) return base end)
    s.parts = schedules
    local function current(n)
      local k, from = 1, 0
      for i, at in ipairs(milestones) do
        if n >= at then k, from = i + 1, at end
      end
      local part = schedules[k]
      part.last = n - from
      return part
    end
    s.rate = function(_, base, n)
      local part = current(n)
      return part.rate(part, base, part.last)
    end
    s.other = function(_, g, n)
      local part = current(n)
      if part.other then part.other(part, g, part.last) end
    end
    apply(s)
    return s
  end

  --- optim.ChainedScheduler({schedule, ...}): the first rate times the factors of all of them.
  --- Raises where the schedules are not of one optimiser.
  ---@param schedules tycho.Schedule[]
  ---@return tycho.Schedule # s:step() after each step or epoch
  function M.ChainedScheduler(schedules)
    local name = "ChainedScheduler"
    parts_of(name, 1, schedules)
    local s = M._new_schedule(schedules[1].opt, name, function(_, base, n)
      local rate = base
      for _, part in ipairs(schedules) do
        part.last = n
        rate = rate * (base == 0 and 0 or part.rate(part, base, n) / base)
      end
      return max(rate, 0)
    end)
    s.parts = schedules
    return s
  end
end
