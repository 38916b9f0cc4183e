--- optim.lua -- optimisers and gradient scaling: `ty.optim`. Schedules of rates are in schedules.lua.
-- In: parameters (a list), or groups of them, {{params = list, lr = ...}, ...}, whose settings override the general
-- ones. opt:step() writes the parameters in place by their `grad`; those without one are left alone.
--
-- opt.groups[i] holds the settings, to be read and assigned at any time: a new rate needs no other kernels. State is in
-- plain tables: opt.groups[i].state[j] belongs to opt.groups[i].params[j]. Formulas follow PyTorch's, step by step in
-- the same order of operations. State tensors begin as zeros when the optimiser is made, so each step records the same.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)

local M = { _classes = {} } -- of what functions make: their methods are documented

local type, ipairs, pairs, rawequal, setmetatable = type, ipairs, pairs, rawequal, setmetatable
local sqrt, is_tensor = ty.sqrt, ty.is_tensor
local eager, compile = ty.internals.composite.eager, ty.internals.compile

--- Counts of steps are numbers, or 0-d tensors where a scaler may leave steps out inside of a compiled function. What
--- is computed from them: its root, and the factor that it is for p.
local function root(v) return is_tensor(v) and sqrt(v) or math.sqrt(v) end
local function factor_of(v, p) return is_tensor(v) and v:to(p) or v end

---@class tycho.Optimizer
---@field groups table[] each {params, state, settings...}
local Optimizer = {}
Optimizer.__index = Optimizer
M.Optimizer = Optimizer

---------------------------------------------------------------------------------------------------------- groups

local function check_settings(who, settings, known)
  for k, v in pairs(settings) do
    if k ~= "params" then
      local default = known[k]
      if default == nil then check.options(who, { [k] = v }, known) end -- names the nearest
      if type(v) ~= type(default) then
        check.fail(who, "option %s must be a %s, got %s", k, type(default), check.show(v))
      end
      if type(v) == "number" and (v < 0 or v ~= v) then
        check.fail(who, "option %s must not be negative, got %.14g", k, v)
      end
    end
  end
end

local function check_betas(who, betas)
  for i = 1, 2 do
    if type(betas[i]) ~= "number" or betas[i] < 0 or betas[i] >= 1 then
      check.fail(who, "option betas must be two numbers in 0..1, got %s", check.show(betas[i]))
    end
  end
end

--- The parameters that a list holds; an iterator's worth of checks, so that mistakes show where they are made.
local function check_params(who, params, seen)
  if type(params) ~= "table" or #params == 0 then
    check.fail(who, "the parameters must be a list of tensors that is not empty, got %s", check.show(params))
  end
  for i, p in ipairs(params) do
    if not is_tensor(p) then check.fail(who, "parameter %d must be a tensor, got %s", i, check.show(p)) end
    if not p.requires_grad then
      check.fail(who, "parameter %d, %s, does not require gradients (use nn.Parameter)", i, check.text(p))
    end
    if not p.is_leaf then check.fail(who, "parameter %d, %s, is the result of an operation", i, check.text(p)) end
    if seen[p] then check.fail(who, "parameter %d, %s, is given twice", i, check.text(p)) end
    seen[p] = true
  end
end

--- A group: its settings over the general ones over the defaults.
local function make_group(self, params, own, general, seen)
  local who, defaults = self.class_name, self.defaults
  check_params(who, params, seen)
  check_settings(who, own, defaults)
  local g = { params = {}, state = {} }
  for k, v in pairs(defaults) do
    local value = own[k]
    if value == nil then value = general[k] end
    if value == nil then value = v end
    if type(value) == "table" then value = { value[1], value[2] } end
    g[k] = value
  end
  if g.betas then check_betas(who, g.betas) end
  if self.check then self.check(who, g) end
  for i, p in ipairs(params) do
    g.params[i] = p
    g.state[i] = self.start and self.start(g, p) or {}
  end
  return g
end

--- A group's settings in a line: "lr = 0.01, betas = {0.9, 0.999}; 4 parameters".
local function settings_text(group, defaults)
  local names, parts = {}, {}
  for name in pairs(defaults) do
    if name ~= "lr" then names[#names + 1] = name end
  end
  table.sort(names)
  table.insert(names, 1, "lr")
  for _, name in ipairs(names) do
    local v = group[name]
    local text = type(v) == "table" and ("{%g, %g}"):format(v[1], v[2]) or type(v) == "number" and ("%g"):format(v)
    if v ~= nil then parts[#parts + 1] = ("%s = %s"):format(name, text or tostring(v)) end
  end
  local n = #group.params
  return ("%s; %d parameter%s"):format(table.concat(parts, ", "), n, n == 1 and "" or "s")
end

--- The class, and the settings of each group.
local function optimizer_text(o)
  if #o.groups == 1 then return ("%s(%s)"):format(o.class_name, settings_text(o.groups[1], o.defaults)) end
  local lines = { o.class_name .. "(" }
  for i, group in ipairs(o.groups) do lines[#lines + 1] = ("  (%d): %s"):format(i, settings_text(group, o.defaults)) end
  return table.concat(lines, "\n") .. "\n)"
end

--- A class of optimisers. defaults: settings and their values; start(group, p): the state of a parameter;
--- update(group, p, gradient, state): one step.
local function optimizer(name, class)
  class.__index, class.class_name, class.__tostring = class, name, optimizer_text
  M[name] = setmetatable(class, {
    __index = Optimizer,
    __call = function(self, params, opts)
      opts = opts == nil and {} or opts
      if type(opts) ~= "table" then check.fail(name, "the options must be a table, got %s", check.show(opts)) end
      check_settings(name, opts, self.defaults)
      local o = setmetatable({ groups = {}, general = opts }, self)
      local groups = params
      if type(params) == "table" and params[1] ~= nil and is_tensor(params[1]) then groups = { { params = params } } end
      if type(groups) == "table" and type(groups.parameters) == "function" then
        check.fail(name, "argument 1 must be a list of parameters, got a module; give module:parameters()")
      end
      if type(groups) ~= "table" or #groups == 0 then
        check.fail(name, "argument 1 must be a list of parameters or of groups, got %s", check.show(params))
      end
      local seen = {}
      for i, g in ipairs(groups) do
        if type(g) ~= "table" then check.fail(name, "group %d must be a table, got %s", i, check.show(g)) end
        o.groups[i] = make_group(o, g.params, g, opts, seen)
      end
      return o
    end,
  })
  return class
end

--- Adds a group, {params = list, lr = ...}: its settings over those that the optimiser was made with.
--- Raises where the group is no table, or its parameters are not leaves that require gradients.
---@param group table {params = list, lr = ...}
function Optimizer:add_group(group)
  if type(group) ~= "table" then check.fail(self.class_name, "a group must be a table, got %s", check.show(group)) end
  local seen = {}
  for _, g in ipairs(self.groups) do
    for _, p in ipairs(g.params) do seen[p] = true end
  end
  self.groups[#self.groups + 1] = make_group(self, group.params, group, self.general, seen)
end

---------------------------------------------------------------------------------------------------------- steps

local function step(self)
  for _, g in ipairs(self.groups) do
    for i, p in ipairs(g.params) do
      local grad = p.grad
      if grad ~= nil then self.update(g, p, grad, g.state[i]) end
    end
  end
end

--- Steps that an optimiser takes operation by operation, before it takes them by a plan: what one step took to capture
--- is then paid back by as many again.
local PLAIN_STEPS = 16

--- Updates the parameters by their gradients.
--- Raises where a gradient does not fit its parameter.
function Optimizer:step()
  if not eager() then return ty.no_grad(step, self) end
  local n = self.plain_steps or 0
  if n < PLAIN_STEPS then
    self.plain_steps = n + 1
    return ty.no_grad(step, self)
  end
  -- a function of its own: what one optimiser's steps are captured for is no other's
  self.planned = self.planned or compile(function(o) ty.no_grad(step, o) end)
  self:planned()
end

--- Forgets the gradients.
--- Raises never.
function Optimizer:zero_grad()
  for _, g in ipairs(self.groups) do
    for _, p in ipairs(g.params) do p.grad = nil end
  end
end

--- Settings and state as tables that can be saved: {groups = {{lr = ..., state = {{step = ..., ...}}}}}. Its tensors
--- are the optimiser's own, not copies.
--- Raises never.
---@return table
function Optimizer:state_dict()
  local sd = { groups = {} }
  for i, g in ipairs(self.groups) do
    local copy = { state = {} }
    for k in pairs(self.defaults) do copy[k] = type(g[k]) == "table" and { g[k][1], g[k][2] } or g[k] end
    copy.base_lr = g.base_lr
    for j, s in ipairs(g.state) do
      copy.state[j] = {}
      for k, v in pairs(s) do copy.state[j][k] = v end
    end
    sd.groups[i] = copy
  end
  return sd
end

--- The state of one parameter as the optimiser has it from a state_dict: nil where it does not fit.
local function fits(own, given)
  if type(given) ~= "table" then return false end
  for k, v in pairs(own) do
    local w = given[k]
    if type(w) ~= type(v) then return false end
    if is_tensor(v) and check.text(v):match "%b[]" ~= check.text(w):match "%b[]" then return false end
  end
  return true
end

local function copy_into(t, v) t:copy_(v:to(t.device)) end

--- A group's settings with those of a state_dict over them. Raises where an optimiser is not made with such.
local function settings_under(who, self, g, given)
  local settings, taken = {}, {}
  for k, default in pairs(self.defaults) do
    if type(given[k]) == type(default) then taken[k] = given[k] end
    if taken[k] ~= nil then settings[k] = taken[k] else settings[k] = g[k] end
  end
  check_settings(who, taken, self.defaults)
  if taken.betas then check_betas(who, taken.betas) end
  if self.check then self.check(who, settings) end
  return settings
end

--- The state that a parameter begins with under the settings of a state_dict, which may need more than the own ones.
local function state_under(self, settings, p, s)
  if not self.start then return s end
  local fresh = self.start(settings, p)
  for k, v in pairs(s) do
    if fresh[k] ~= nil then fresh[k] = v end
  end
  return fresh
end

--- Takes settings and state of a state_dict. Nothing is taken unless all fits.
--- Raises where groups, parameters or sizes do not fit.
---@param sd table what state_dict gave
function Optimizer:load_state_dict(sd)
  local who = "load_state_dict"
  if type(sd) ~= "table" or type(sd.groups) ~= "table" or #sd.groups ~= #self.groups then
    check.fail(who, "argument 1 must be a state of %d group%s", #self.groups, #self.groups == 1 and "" or "s")
  end
  local states = {}
  for i, g in ipairs(self.groups) do
    local given = sd.groups[i]
    states[i] = {}
    if type(given) ~= "table" or type(given.state) ~= "table" or #given.state ~= #g.state then
      check.fail(who, "group %d must have the state of %d parameters", i, #g.state)
    end
    local settings = settings_under(who, self, g, given)
    for j, s in ipairs(g.state) do
      states[i][j] = state_under(self, settings, g.params[j], s)
      if not fits(states[i][j], given.state[j]) then
        check.fail(who, "the state of parameter %d of group %d does not fit %s", j, i, check.text(g.params[j]))
      end
    end
  end
  for i, g in ipairs(self.groups) do
    local given = sd.groups[i]
    for k, default in pairs(self.defaults) do
      local v = given[k]
      if type(v) == type(default) then g[k] = type(v) == "table" and { v[1], v[2] } or v end
    end
    g.base_lr = given.base_lr
    for j, s in ipairs(states[i]) do
      g.state[j] = s
      for k, v in pairs(s) do
        if is_tensor(v) then ty.no_grad(copy_into, v, given.state[j][k]) else s[k] = given.state[j][k] end
      end
    end
  end
end

---------------------------------------------------------------------------------------------------------- SGD

local function zeros(p) return ty.zeros(p.shape, { dtype = p.dtype, device = p.device }) end

--- The gradient with weight decay as a part of it.
local function decayed(g, p, grad)
  if g.weight_decay ~= 0 then return grad + p * g.weight_decay end
  return grad
end

--- optim.SGD(params, {lr = 1e-3, momentum = 0, dampening = 0, nesterov = false, weight_decay = 0}).
--- Sutskever and others 2013. buf = momentum buf + (1 - dampening) g, the first one g; p = p - lr buf, or with nesterov
--- p - lr (g + momentum buf).
--- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
--- negative.
---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, momentum: number?, dampening: number?, nesterov: boolean?, weight_decay: number?}
---  lr is the rate, which opt.groups[1].lr changes later
---@return tycho.Optimizer
optimizer("SGD", {
  defaults = { lr = 1e-3, momentum = 0, dampening = 0, nesterov = false, weight_decay = 0 },
  check = function(who, g)
    if g.nesterov and (g.momentum == 0 or g.dampening ~= 0) then
      check.fail(who, "option nesterov needs a momentum and no dampening")
    end
  end,
  start = function(g, p)
    if g.momentum == 0 then return {} end
    return { momentum_buffer = zeros(p), step = 0 }
  end,
  update = function(g, p, grad, s)
    grad = decayed(g, p, grad)
    local momentum, buf = g.momentum, s.momentum_buffer
    if momentum ~= 0 then
      if not buf then
        buf = zeros(p)
        s.momentum_buffer, s.step = buf, 0
      end
      if g.dampening == 0 then
        buf:mul_(momentum):add_(grad)
      elseif is_tensor(s.step) then
        buf:copy_(ty.where(s.step:eq(0), grad, buf * momentum + grad * (1 - g.dampening)))
      elseif s.step == 0 then
        buf:copy_(grad)
      else
        buf:mul_(momentum):add_(grad * (1 - g.dampening))
      end
      s.step = s.step + 1
      grad = g.nesterov and grad + buf * momentum or buf
    end
    p:sub_(grad * g.lr)
  end,
})

---------------------------------------------------------------------------------------------------------- Adam, AdamW

local function adam_start(g, p)
  local s = { step = 0, exp_avg = zeros(p), exp_avg_sq = zeros(p) }
  if g.amsgrad then s.max_exp_avg_sq = zeros(p) end
  return s
end

local function adam(g, p, grad, s)
  local beta1, beta2 = g.betas[1], g.betas[2]
  s.step = s.step + 1
  local m, v = s.exp_avg, s.exp_avg_sq
  m:add_((grad - m) * (1 - beta1))
  v:mul_(beta2):add_(grad * grad * (1 - beta2))
  local correction, largest = factor_of(root(1 - beta2 ^ s.step), p), v
  if g.amsgrad then
    s.max_exp_avg_sq:maximum_(v)
    largest = s.max_exp_avg_sq
  end
  p:sub_(m / (sqrt(largest) / correction + g.eps) * factor_of(g.lr / (1 - beta1 ^ s.step), p))
end

--- optim.Adam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, amsgrad = false}).
--- Kingma, Ba 2014, arXiv:1412.6980; weight decay is added to the gradient. amsgrad: Reddi and others 2018,
--- arXiv:1904.09237.
--- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
--- negative.
---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, amsgrad: boolean?}
---  lr is the rate, which opt.groups[1].lr changes later
---@return tycho.Optimizer
optimizer("Adam", {
  defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, amsgrad = false },
  start = adam_start,
  update = function(g, p, grad, s) adam(g, p, decayed(g, p, grad), s) end,
})

--- optim.AdamW(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01, amsgrad = false}).
--- Loshchilov, Hutter 2017, arXiv:1711.05101: p shrinks by lr * weight_decay before Adam's step.
--- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
--- negative.
---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, amsgrad: boolean?}
---  lr is the rate, which opt.groups[1].lr changes later
---@return tycho.Optimizer
optimizer("AdamW", {
  defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0.01, amsgrad = false },
  start = adam_start,
  update = function(g, p, grad, s)
    if g.weight_decay ~= 0 then p:mul_(1 - g.lr * g.weight_decay) end
    adam(g, p, grad, s)
  end,
})

---------------------------------------------------------------------------------------------------------- RMSprop

--- optim.RMSprop(params, {lr = 0.01, alpha = 0.99, eps = 1e-8, momentum = 0, centered = false, weight_decay = 0}).
--- Tieleman, Hinton 2012; centered: Graves 2013, arXiv:1308.0850.
--- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
--- negative.
---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, alpha: number?, eps: number?, momentum: number?, centered: boolean?,
---  weight_decay: number?} lr is the rate, which opt.groups[1].lr changes later
---@return tycho.Optimizer
optimizer("RMSprop", {
  defaults = { lr = 0.01, alpha = 0.99, eps = 1e-8, momentum = 0, centered = false, weight_decay = 0 },
  start = function(g, p)
    local s = { square_avg = zeros(p) }
    if g.centered then s.grad_avg = zeros(p) end
    if g.momentum > 0 then s.momentum_buffer = zeros(p) end
    return s
  end,
  update = function(g, p, grad, s)
    grad = decayed(g, p, grad)
    s.square_avg:mul_(g.alpha):add_(grad * grad * (1 - g.alpha))
    local mean = s.square_avg
    if s.grad_avg then
      s.grad_avg:add_((grad - s.grad_avg) * (1 - g.alpha))
      mean = mean - s.grad_avg * s.grad_avg
    end
    local move = grad / (sqrt(mean) + g.eps)
    if s.momentum_buffer then move = s.momentum_buffer:mul_(g.momentum):add_(move) end
    p:sub_(move * g.lr)
  end,
})

--- optim.Adagrad(params, {lr = 0.01, lr_decay = 0, eps = 1e-10, weight_decay = 0, initial_accumulator = 0}).
--- Duchi, Hazan, Singer 2011, JMLR 12.
--- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
--- negative.
---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, lr_decay: number?, eps: number?, weight_decay: number?, initial_accumulator: number?}
---  lr is the rate, which opt.groups[1].lr changes later
---@return tycho.Optimizer
optimizer("Adagrad", {
  defaults = { lr = 0.01, lr_decay = 0, eps = 1e-10, weight_decay = 0, initial_accumulator = 0 },
  start = function(g, p)
    return { step = 0, sum = ty.full(p.shape, g.initial_accumulator, { dtype = p.dtype, device = p.device }) }
  end,
  update = function(g, p, grad, s)
    grad = decayed(g, p, grad)
    s.step = s.step + 1
    s.sum:add_(grad * grad)
    p:sub_(grad / (sqrt(s.sum) + g.eps) * factor_of(g.lr / (1 + (s.step - 1) * g.lr_decay), p))
  end,
})

---------------------------------------------------------------------------------------------------------- Lion

--- optim.Lion(params, {lr = 1e-4, betas = {0.9, 0.99}, weight_decay = 0}). Chen and others 2023, arXiv:2302.06675:
--- p = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g.
--- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
--- negative.
---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, weight_decay: number?} lr: the rate, opt.groups[1].lr afterwards
---@return tycho.Optimizer
optimizer("Lion", {
  defaults = { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0 },
  start = function(_, p) return { exp_avg = zeros(p) } end,
  update = function(g, p, grad, s)
    local beta1, beta2, m = g.betas[1], g.betas[2], s.exp_avg
    if g.weight_decay ~= 0 then p:mul_(1 - g.lr * g.weight_decay) end
    p:sub_(ty.sign(m * beta1 + grad * (1 - beta1)) * g.lr)
    m:mul_(beta2):add_(grad * (1 - beta2))
  end,
})

---------------------------------------------------------------------------------------------------------- loss scaling

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
--- The steps of several optimisers behind one scale() are one: all divide by the factor that the loss was multiplied
--- by, and it grows if all were good.
--- capturable: no value is read, so that a compiled function captures all of it: factor and counts are 0-d tensors, a
--- step is made and taken back where it may not be, and step() says nothing.
--- Raises where an option is not known or out of range.
---@param opts? {init_scale: number?, growth_factor: number?, backoff_factor: number?, growth_interval: integer?,
---  capturable: boolean?}
---@return tycho.GradScaler
function M.GradScaler(opts)
  opts = opts == nil and {} or opts
  if type(opts) ~= "table" then check.fail("GradScaler", "the options must be a table, got %s", check.show(opts)) end
  check_settings("GradScaler", opts, scaler_defaults)
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
        if type(s.step) == "number" then s.step = ty.tensor(s.step, { dtype = "f64", device = p.device }) end
        for k, v in pairs(s) do
          if is_tensor(v) then list[#list + 1] = { s, k, v, v:clone() } end
        end
      end
    end
  end
  return list
end

--- Makes a step, and takes it back where `finite` does not hold; then the factor and the count of good steps follow.
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

require("tycho.schedules")(M, check)

return M
