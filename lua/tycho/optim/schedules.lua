--- optim/schedules.lua -- rates that change as training goes on: part of `ty.optim`.
-- A schedule belongs to an optimiser. Making it sets the rates of step 0; each s:step() goes on by one. Rates are
-- computed from the groups' first ones and the step's number alone, so a schedule can be saved and taken up again.

---@param _ table the module tycho
---@param M table ty.optim, which is filled
---@param check table arguments.lua
return function(_, M, check)
  local cos, pi, min, max, floor = math.cos, math.pi, math.min, math.max, math.floor
  local type, ipairs, pairs, setmetatable = type, ipairs, pairs, setmetatable

  ---@class tycho.Schedule
  ---@field last integer the number of steps so far
  local Schedule = {}
  Schedule.__index = Schedule

  local function is_optimizer(o) return type(o) == "table" and type(o.groups) == "table" end

  M._classes.Schedule = Schedule

  local function apply(s)
    for i, g in ipairs(s.opt.groups) do
      local base = s.base[i] or g.lr
      s.base[i] = base
      g.lr = s.rate(s, base, s.last)
      if s.other then s.other(s, g, s.last) end
    end
  end
  M._apply_schedule = apply

  --- Takes the groups' first rates, and sets those of step 0.
  local function begin(s)
    for i, g in ipairs(s.opt.groups) do
      s.base[i] = g.base_lr or g.lr
      g.base_lr = s.base[i]
    end
    apply(s)
    return s
  end

  --- A schedule of a class, that begins.
  function M._new_schedule(opt, name, rate) -- `rate` as of schedule()
    if not is_optimizer(opt) then check.fail(name, "argument 1 must be an optimiser, got %s", check.show(opt)) end
    return begin(setmetatable({ opt = opt, base = {}, last = 0, rate = rate, class_name = name }, Schedule))
  end

  --- The options under this library's names; also: PyTorch's names of some.
  local function renamed(name, opts, also)
    if type(opts) ~= "table" or not also then return opts end
    local list = {}
    for k, v in pairs(opts) do
      local own = also[k] or k
      if list[own] ~= nil then check.fail(name, "option %s is given twice", own) end
      list[own] = v
    end
    return list
  end

  --- A class of schedules. defaults: options and their values, NEEDED where there is none; rate(s, base, step);
  --- prepare(s, name) checks them; also: other names of options.
  local NEEDED = {}
  M._needed = NEEDED
  local function schedule(name, defaults, rate, prepare, also)
    M[name] = function(opt, opts)
      if not is_optimizer(opt) then check.fail(name, "argument 1 must be an optimiser, got %s", check.show(opt)) end
      local known = {}
      for k, v in pairs(defaults) do known[k] = v == NEEDED and "number" or type(v) end
      opts = check.options(name, renamed(name, opts, also), known)
      local s = setmetatable({ opt = opt, base = {}, last = 0, rate = rate, class_name = name }, Schedule)
      for k, v in pairs(defaults) do
        local given = opts[k]
        if given == nil then given = v end
        if given == NEEDED then check.fail(name, "needs the option %s", k) end
        s[k] = given
      end
      if prepare then prepare(s, name) end
      return begin(s)
    end
  end
  M._schedule, M._renamed = schedule, renamed

  --- Goes on by one step and sets the groups' rates.
  --- Raises what the function of a LambdaLR raises.
  function Schedule:step()
    self.last = self.last + 1
    apply(self)
  end

  --- The rates in force, one a group.
  --- Raises never.
  ---@return number[]
  function Schedule:rates()
    local list = {}
    for i, g in ipairs(self.opt.groups) do list[i] = g.lr end
    return list
  end

  --- The same as rates, under PyTorch's name.
  --- Raises never.
  ---@return number[]
  function Schedule:get_last_lr() return self:rates() end

  --- What must be saved.
  --- Raises never.
  ---@return table
  function Schedule:state_dict()
    local sd = { last = self.last, base = {} }
    for i, v in ipairs(self.base) do sd.base[i] = v end
    return sd
  end

  --- Takes a state and sets the rates.
  --- Raises where it is no state of a schedule.
  ---@param sd table what state_dict gave
  function Schedule:load_state_dict(sd)
    if type(sd) ~= "table" or type(sd.last) ~= "number" or type(sd.base) ~= "table" then
      check.fail("load_state_dict", "argument 1 must be the state of a schedule, got %s", check.show(sd))
    end
    self.last = sd.last
    for i, v in ipairs(sd.base) do self.base[i] = v end
    for _, part in ipairs(self.parts or {}) do
      for i, v in ipairs(sd.base) do part.base[i] = v end
    end
    apply(self)
  end

  local function whole(name, what, v, least)
    if v % 1 ~= 0 or v < least then
      check.fail(name, "option %s must be whole and at least %d, got %.14g", what, least, v)
    end
  end

  --- optim.StepLR(opt, {every, gamma = 0.1}): times gamma after each `every` (or step_size) steps.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {every: integer, gamma: number?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("StepLR", { every = NEEDED, gamma = 0.1 }, function(s, base, n)
    return base * s.gamma ^ floor(n / s.every)
  end, function(s, name) whole(name, "every", s.every, 1) end, { step_size = "every" })

  --- optim.MultiStepLR(opt, {at = {30, 80}, gamma = 0.1}): times gamma at each of these steps (or milestones).
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {at: integer[], gamma: number?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("MultiStepLR", { at = {}, gamma = 0.1 }, function(s, base, n)
    local passed = 0
    for _, at in ipairs(s.at) do
      if n >= at then passed = passed + 1 end
    end
    return base * s.gamma ^ passed
  end, function(s, name)
    for i = 1, #s.at do
      if type(s.at[i]) ~= "number" then
        check.fail(name, "option at must be a list of steps, got %s in it", check.show(s.at[i]))
      end
    end
  end, { milestones = "at" })

  --- optim.ExponentialLR(opt, {gamma}): times gamma at each step.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {gamma: number} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("ExponentialLR", { gamma = NEEDED }, function(s, base, n) return base * s.gamma ^ n end)

  --- Half a cosine from `from` at share 0 to `to` at share 1.
  local function cosine(from, to, share) return to + (from - to) * (1 + cos(pi * share)) / 2 end

  --- optim.CosineLR(opt, {steps, least = 0}): half a cosine from the first rate down to `least` at `steps`, where it
  --- stays. Loshchilov, Hutter 2016, arXiv:1608.03983.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {steps: integer, least: number?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("CosineLR", { steps = NEEDED, least = 0 }, function(s, base, n)
    return cosine(base, s.least, min(n / s.steps, 1))
  end, function(s, name) whole(name, "steps", s.steps, 1) end)

  --- optim.WarmupLR(opt, {warmup, start = 0}): in equal steps from start * rate up to the rate at step `warmup`.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {warmup: integer, start: number?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("WarmupLR", { warmup = NEEDED, start = 0 }, function(s, base, n)
    return base * (s.start + (1 - s.start) * min(n / s.warmup, 1))
  end, function(s, name) whole(name, "warmup", s.warmup, 1) end)

  --- optim.WarmupCosineLR(opt, {warmup, steps, start = 0, least = 0}): WarmupLR, then CosineLR down to `least`
  --- at `steps`.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {warmup: integer, steps: integer, start: number?, least: number?} counted in steps of the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("WarmupCosineLR", { warmup = NEEDED, steps = NEEDED, start = 0, least = 0 }, function(s, base, n)
    if n < s.warmup then return base * (s.start + (1 - s.start) * n / s.warmup) end
    return cosine(base, s.least, min((n - s.warmup) / max(s.steps - s.warmup, 1), 1))
  end, function(s, name)
    whole(name, "warmup", s.warmup, 0)
    whole(name, "steps", s.steps, max(s.warmup, 1))
  end)

  --- optim.OneCycleLR(opt, {steps, most = 10 * rate of each group, rise = 0.3, div = 25, final_div = 1e4}): half a
  --- cosine from most / div up to `most` at the share `rise` of the steps, then down to most / div / final_div.
  --- Smith, Topin 2017, arXiv:1708.07120; phases as PyTorch's, whose names of the options (total_steps, max_lr,
  --- pct_start, div_factor, final_div_factor) are known too.
  --- Raises where the first argument is no optimiser, or an option is missing or out of range.
  ---@param opt tycho.Optimizer
  ---@param opts {steps: integer, most: number?, rise: number?, div: number?, final_div: number?} counted in steps of
  ---  the schedule
  ---@return tycho.Schedule # s:step() after each step or epoch
  schedule("OneCycleLR", { steps = NEEDED, most = 0, rise = 0.3, div = 25, final_div = 1e4 }, function(s, base, n)
    local most = s.most > 0 and s.most or 10 * base
    local top = s.rise * s.steps - 1
    n = min(n, s.steps - 1)
    if top > 0 and n <= top then return cosine(most / s.div, most, n / top) end
    return cosine(most, most / s.div / s.final_div, (n - top) / (s.steps - 1 - top))
  end, function(s, name)
    whole(name, "steps", s.steps, 2)
    if not (s.rise >= 0 and s.rise <= 1) then check.fail(name, "option rise must be in 0..1, got %.14g", s.rise) end
    if s.most < 0 or s.most ~= s.most then check.fail(name, "option most must not be negative, got %.14g", s.most) end
    for _, what in ipairs { "div", "final_div" } do
      if s[what] <= 0 or s[what] ~= s[what] then
        check.fail(name, "option %s must be above 0, got %.14g", what, s[what])
      end
    end
  end, { total_steps = "steps", max_lr = "most", pct_start = "rise", div_factor = "div",
    final_div_factor = "final_div" })

  --- optim.LambdaLR(opt, fn): the first rate times fn(step).
  --- Raises where fn is no function, or gives no number.
  ---@param opt tycho.Optimizer
  ---@param fn fun(step: integer): number
  ---@return tycho.Schedule # s:step() after each step or epoch
  function M.LambdaLR(opt, fn)
    if not is_optimizer(opt) then check.fail("LambdaLR", "argument 1 must be an optimiser, got %s", check.show(opt)) end
    if type(fn) ~= "function" then check.fail("LambdaLR", "argument 2 must be a function, got %s", check.show(fn)) end
    return M._new_schedule(opt, "LambdaLR", function(_, base, n)
      local factor = fn(n)
      if type(factor) ~= "number" then
        check.fail("LambdaLR", "the function must give a number, got %s", check.show(factor))
      end
      return base * factor
    end)
  end

  ---------------------------------------------------------------------------------------------------------- plateau

  ---@class tycho.Plateau
  local Plateau = {}
  Plateau.__index = Plateau
  M._classes.Plateau = Plateau

  local plateau = { mode = "min", factor = 0.1, patience = 10, threshold = 1e-4, cooldown = 0, least = 0 }

  --- optim.ReduceLROnPlateau(opt, {mode = "min", factor = 0.1, patience = 10, threshold = 1e-4, cooldown = 0,
  --- least = 0}): s:step(metric) multiplies the rates by factor when the metric has not become better, by the share
  --- `threshold`, for more than `patience` steps; then `cooldown` steps do not count. least (or min_lr): of the
  --- rates.
  --- Raises where the first argument is no optimiser, or an option is out of range.
  ---@param opt tycho.Optimizer
  ---@param opts? {mode: "min"|"max"|nil, factor: number?, patience: integer?, threshold: number?, cooldown: integer?,
  ---  least: number?}
  ---@return tycho.Plateau # s:step(metric)
  function M.ReduceLROnPlateau(opt, opts)
    local name = "ReduceLROnPlateau"
    if not is_optimizer(opt) then check.fail(name, "argument 1 must be an optimiser, got %s", check.show(opt)) end
    local known = {}
    for k, v in pairs(plateau) do known[k] = type(v) end
    opts = check.options(name, renamed(name, opts, { min_lr = "least" }), known)
    local s = setmetatable({ opt = opt, bad = 0, resting = 0 }, Plateau)
    for k, v in pairs(plateau) do
      s[k] = opts[k]
      if s[k] == nil then s[k] = v end
    end
    if s.mode ~= "min" and s.mode ~= "max" then
      check.fail(name, "option mode must be \"min\" or \"max\", got %q", s.mode)
    end
    if not (s.factor >= 0 and s.factor < 1) then
      check.fail(name, "option factor must be in 0..1 and below 1, got %.14g", s.factor)
    end
    return s
  end

  --- Takes the metric of an epoch; the rates follow.
  --- Raises where it is no number.
  ---@param metric number
  function Plateau:step(metric)
    if type(metric) ~= "number" then check.fail("step", "argument 1 must be a number, got %s", check.show(metric)) end
    local best, better = self.best, metric == metric -- a NaN is no best one
    if best ~= nil and self.mode == "min" then better = metric < best * (1 - self.threshold)
    elseif best ~= nil then better = metric > best * (1 + self.threshold) end
    if better then self.best, self.bad = metric, 0 else self.bad = self.bad + 1 end
    if self.resting > 0 then self.resting, self.bad = self.resting - 1, 0 end
    if self.bad > self.patience then
      for _, g in ipairs(self.opt.groups) do g.lr = max(g.lr * self.factor, self.least) end
      self.resting, self.bad = self.cooldown, 0
    end
  end

  --- The rates in force, one a group.
  --- Raises never.
  ---@return number[]
  function Plateau:rates() return Schedule.rates(self) end

  --- The same as rates, under PyTorch's name.
  --- Raises never.
  ---@return number[]
  function Plateau:get_last_lr() return self:rates() end

  --- What must be saved.
  --- Raises never.
  ---@return table
  function Plateau:state_dict() return { best = self.best, bad = self.bad, resting = self.resting } end

  --- Takes a state.
  --- Raises where it is no state of a schedule.
  ---@param sd table what state_dict gave
  function Plateau:load_state_dict(sd)
    if type(sd) ~= "table" or type(sd.bad) ~= "number" or type(sd.resting) ~= "number" then
      check.fail("load_state_dict", "argument 1 must be the state of a schedule, got %s", check.show(sd))
    end
    self.best, self.bad, self.resting = sd.best, sd.bad, sd.resting
  end
end
