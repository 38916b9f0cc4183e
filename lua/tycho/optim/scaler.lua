--- optim/scaler.lua -- loss scaling for gradients in half floats.

---@param ty table the module tycho
---@param M table ty.optim, which is filled
---@param check table arguments.lua
return function(ty, M, check)
  local type, ipairs, pairs, rawequal, rawget = type, ipairs, pairs, rawequal, rawget
  local setmetatable, is_tensor = setmetatable, ty.is_tensor
  local slices = ty.internals.grad.slices

  local function factor_of(v, p) return is_tensor(v) and v:to(p) or v end

  ---@class tycho.GradScaler
  ---@field factor number|tycho.Tensor what losses are multiplied by
  local Scaler = {}
  Scaler.__index = Scaler
  M._classes.GradScaler = Scaler

  local scaler_defaults = { init_scale = 65536, growth_factor = 2, backoff_factor = 0.5, growth_interval = 2000,
    capturable = false }

  --- Loss scaling for gradients in f16, which would vanish: optim.GradScaler{init_scale = 65536, growth_factor = 2,
  --- backoff_factor = 0.5, growth_interval = 2000, capturable = false}.
  ---   scaler:scale(loss):backward(); scaler:step(opt)
  --- A step with gradients that are not finite is left out and the factor shrinks; after growth_interval good ones it
  --- grows. Micikevicius and others 2017, arXiv:1710.03740.
  --- The steps of several optimisers behind one scale() are one: all divide by the factor that the loss was
  --- multiplied by, and it grows if all were good.
  --- capturable: no value is read, so that a compiled function captures all of it: factor and counts are 0-d tensors,
  --- a step is made and taken back where it may not be, and step() says nothing.
  --- Raises where an option is not known or out of range.
  ---@param opts? {init_scale: number?, growth_factor: number?, backoff_factor: number?, growth_interval: integer?,
  ---  capturable: boolean?}
  ---@return tycho.GradScaler
  function M.GradScaler(opts)
    opts = opts == nil and {} or opts
    if type(opts) ~= "table" then check.fail("GradScaler", "the options must be a table, got %s", check.show(opts)) end
    M._check_settings("GradScaler", opts, scaler_defaults)
    local s = setmetatable({ good = 0, unscaled = {} }, Scaler)
    for k, v in pairs(scaler_defaults) do s[k] = opts[k] or v end
    s.factor = s.init_scale
    if s.capturable then
      s.factor, s.good = ty.tensor(s.factor), ty.tensor(0)
      s.used, s.good_before, s.all = s.factor:clone(), s.good:clone(), ty.tensor(true)
    end
    return s
  end

  local function begin_tensors(s)
    s.used:copy_(s.factor)
    s.good_before:copy_(s.good)
    s.all:fill_(true)
  end

  --- What the first scale() behind a step begins: `used` and `good_before`, as factor and good are before any step;
  --- `all`: the steps were good; `stepped`: the optimisers that have stepped.
  local function begin(s)
    s.stepped = {}
    if s.capturable then
      ty.no_grad(begin_tensors, s)
    else
      s.used, s.good_before, s.all = s.factor, s.good, true
    end
  end

  --- The loss times the factor.
  --- Raises where the loss is no float tensor.
  ---@param loss tycho.Tensor
  ---@return tycho.Tensor # the sizes of the loss
  function Scaler:scale(loss)
    check.operand("scale", 1, loss)
    if not self.stepped or #self.stepped > 0 then begin(self) end
    return loss * (self.capturable and self.used:to(loss.device) or self.used)
  end

  --- Does nothing: step() has made the factor fit already. It is there since loops that others wrote call it.
  --- Raises never.
  function Scaler:update() end -- luacheck: ignore 212

  --- What losses are multiplied by.
  --- Raises never.
  ---@return number # reads it where it is a tensor
  function Scaler:get_scale() return is_tensor(self.factor) and self.factor:item() or self.factor end

  --- Divides the gradients by the factor; whether all are finite, as a tensor, nil where there are none.
  local function unscale(opt, factor)
    local finite
    for _, g in ipairs(opt.groups) do
      for _, p in ipairs(g.params) do
        local grad = p.grad
        if grad ~= nil then
          local w = grad / factor_of(factor, grad)
          local good = ty.isfinite(w):all()
          finite = finite and finite:logical_and(good) or good
          p.grad = w
        end
      end
    end
    return finite
  end

  local function check_optimizer(who, opt)
    if type(opt) ~= "table" or type(rawget(opt, "groups")) ~= "table" then
      check.fail(who, "argument 1 must be an optimiser, got %s", check.show(opt))
    end
  end

  --- The place of opt in a list of {opt = ...}.
  local function place_of(list, opt)
    for i, u in ipairs(list) do
      if rawequal(u.opt, opt) then return i end
    end
  end

  --- Makes the gradients their true size, once a step, so that they can be clipped; step() does it else.
  --- Raises where the argument is no optimiser.
  ---@param opt tycho.Optimizer
  function Scaler:unscale_(opt)
    check_optimizer("unscale_", opt)
    if place_of(self.unscaled, opt) then check.fail("unscale_", "the gradients of this step are unscaled already") end
    if not self.stepped or place_of(self.stepped, opt) then begin(self) end -- a second step is another one
    local finite = ty.no_grad(unscale, opt, self.used)
    if slices.all_finite then finite = slices.all_finite(opt, finite) end
    if not self.capturable then finite = finite == nil or finite:item() end
    self.unscaled[#self.unscaled + 1] = { opt = opt, finite = finite }
  end

  --- What a step may change: for each of the optimiser's tensors {where it stands, its key, the tensor, a copy}.
  local function snapshot(opt)
    local list = {}
    for _, g in ipairs(opt.groups) do
      for i, p in ipairs(g.params) do
        if p.grad ~= nil then
          list[#list + 1] = { false, false, p, p:clone() }
          local s = g.state[i]
          for k, v in pairs(s) do -- counts, and what is computed from them
            if type(v) == "number" then s[k] = ty.tensor(v, { dtype = "f64", device = p.device }) end
          end
          for k, v in pairs(s) do
            if is_tensor(v) then list[#list + 1] = { s, k, v, v:clone() } end
          end
        end
      end
    end
    return list
  end

  --- Makes a step, and takes it back where `finite` does not hold; then the factor and the count of good steps
  --- follow.
  local function masked_step(self, opt, finite)
    local before = snapshot(opt)
    opt:step()
    if finite == nil then return end
    for _, b in ipairs(before) do
      local s, k, v, old = b[1], b[2], b[3], b[4]
      if s and not rawequal(s[k], v) then s[k] = ty.where(finite, s[k], old) else v:copy_(ty.where(finite, v, old)) end
    end
    self.all:logical_and_(finite:to(self.all.device))
    local factor, good = self.used, self.good_before + 1
    local grown = good:ge(self.growth_interval)
    self.good:copy_(ty.where(self.all:logical_and(grown:logical_not()), good, 0))
    self.factor:copy_(ty.where(self.all, ty.where(grown, factor * self.growth_factor, factor),
      factor * self.backoff_factor))
  end

  --- opt:step(), unless a gradient is not finite; then the factor follows. Whether the step was made.
  --- Raises where the argument is no optimiser.
  ---@param opt tycho.Optimizer
  ---@return boolean? made # nil where the scaler is capturable
  function Scaler:step(opt)
    check_optimizer("step", opt)
    local at = place_of(self.unscaled, opt)
    if not at then
      self:unscale_(opt)
      at = #self.unscaled
    end
    local finite = table.remove(self.unscaled, at).finite
    self.stepped[#self.stepped + 1] = { opt = opt }
    if self.capturable then return ty.no_grad(masked_step, self, opt, finite) end
    if finite then opt:step() end
    self.all = self.all and finite
    if not self.all then
      self.factor, self.good = self.used * self.backoff_factor, 0
    else
      self.factor, self.good = self.used, self.good_before + 1
      if self.good >= self.growth_interval then self.factor, self.good = self.used * self.growth_factor, 0 end
    end
    return finite
  end

  --- What must be saved.
  --- Raises never.
  ---@return table
  function Scaler:state_dict()
    if self.capturable then return { factor = self.factor:item(), good = self.good:item() } end
    return { factor = self.factor, good = self.good }
  end

  --- Takes a state.
  --- Raises where it is no such state.
  ---@param sd table what state_dict gave
  function Scaler:load_state_dict(sd)
    if type(sd) ~= "table" or type(sd.factor) ~= "number" or type(sd.good) ~= "number" then
      check.fail("load_state_dict", "argument 1 must be the state of a GradScaler, got %s", check.show(sd))
    end
    self.stepped = nil
    if not self.capturable then
      self.factor, self.good = sd.factor, sd.good
      return
    end
    self.factor:fill_(sd.factor)
    self.used:fill_(sd.factor)
    self.good:fill_(sd.good)
  end
end
