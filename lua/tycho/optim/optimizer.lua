--- optim/optimizer.lua -- what all optimisers share: groups of parameters and their settings, steps, states.
-- A class of optimisers has `defaults`, start(group, p): the state of a parameter, and update(group, p, gradient,
-- state): one step. `check(who, group)` looks at settings that depend on each other. `mixes`: an element's step
-- depends on other elements.

---@param ty table the module tycho
---@param M table ty.optim, which is filled
---@param check table arguments.lua
return function(ty, M, check)
  local type, ipairs, pairs, setmetatable = type, ipairs, pairs, setmetatable
  local rawget, rawset = rawget, rawset
  local is_tensor = ty.is_tensor
  local eager, compile = ty.internals.composite.eager, ty.internals.compile
  local slices = ty.internals.grad.slices
  local forget = ty.internals.grad.forget

  ---@class tycho.Optimizer
  ---@field groups table[] each {params, state, settings...}
  local Optimizer = {}
  Optimizer.__index = Optimizer
  M.Optimizer = Optimizer

  ---------------------------------------------------------------------------------------------------------- groups

  local signed = { beta2_decay = true } -- settings that may be negative

  local function check_settings(who, settings, known)
    for k, v in pairs(settings) do
      if k ~= "params" then
        local default = known[k]
        if default == nil then check.options(who, { [k] = v }, known) end -- names the nearest
        if type(v) ~= type(default) then
          check.fail(who, "option %s must be a %s, got %s", k, type(default), check.show(v))
        end
        if type(v) == "number" and (v < 0 and not signed[k] or v ~= v) then
          check.fail(who, "option %s must not be negative, got %.14g", k, v)
        end
      end
    end
  end

  M._check_settings = check_settings

  --- A list of numbers, which each group has for itself; other values as they are.
  local function own_list(v)
    if type(v) ~= "table" then return v end
    local list = {}
    for i = 1, #v do list[i] = v[i] end
    return list
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
    if self.single or self.mixes then
      slices.whole_only(who, params, "its steps mix elements; use AdamW or SGD", self.single)
    end
    check_settings(who, own, defaults)
    local g = { params = {}, state = {} }
    for k, v in pairs(defaults) do
      local value = own[k]
      if value == nil then value = general[k] end
      if value == nil then value = v end
      g[k] = own_list(value)
    end
    if g.betas then check_betas(who, g.betas) end
    if self.check then self.check(who, g) end
    for i, p in ipairs(params) do
      if ty.is_complex(p) then p = ty.enable_grad(ty.view_as_real, p) end -- the same memory and gradient
      g.params[i] = p
      g.state[i] = self.start and self.start(g, p) or {}
    end
    return g
  end

  local function value_text(v)
    if type(v) == "number" then return ("%g"):format(v) end
    if type(v) ~= "table" then return tostring(v) end
    local list = {}
    for i = 1, #v do list[i] = ("%g"):format(v[i]) end
    return "{" .. table.concat(list, ", ") .. "}"
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
      if v ~= nil then parts[#parts + 1] = ("%s = %s"):format(name, value_text(v)) end
    end
    local n = #group.params
    return ("%s; %d parameter%s"):format(table.concat(parts, ", "), n, n == 1 and "" or "s")
  end

  --- The class, and the settings of each group.
  local function optimizer_text(o)
    if #o.groups == 1 then return ("%s(%s)"):format(o.class_name, settings_text(o.groups[1], o.defaults)) end
    local lines = { o.class_name .. "(" }
    for i, group in ipairs(o.groups) do
      lines[#lines + 1] = ("  (%d): %s"):format(i, settings_text(group, o.defaults))
    end
    return table.concat(lines, "\n") .. "\n)"
  end

  --- A setting of all groups, nil where they differ.
  local function shared(groups, k)
    local first = groups[1] and groups[1][k]
    for i = 2, #groups do
      if groups[i][k] ~= first then return nil end
    end
    return first
  end

  --- A setting for all groups.
  local function assign(self, k, v)
    local who = self.class_name
    check_settings(who, { [k] = v }, self.defaults)
    if k == "betas" then check_betas(who, v) end
    for _, g in ipairs(self.groups) do
      if self.check then
        local settings = {}
        for name in pairs(self.defaults) do settings[name] = g[name] end
        settings[k] = v
        self.check(who, settings)
      end
    end
    for _, g in ipairs(self.groups) do g[k] = own_list(v) end
  end

  --- A class of optimisers. defaults: settings and their values; start(group, p): the state of a parameter;
  --- update(group, p, gradient, state): one step. An optimiser's settings are those of its groups.
  local function optimizer(name, class)
    local defaults = class.defaults
    class.class_name, class.__tostring = name, optimizer_text
    class.__index = function(o, k)
      local v = class[k]
      if k == "param_groups" then return rawget(o, "groups") end -- PyTorch's name of the list
      if v == nil and defaults[k] ~= nil and rawget(o, "groups") then return shared(o.groups, k) end
      return v
    end
    class.__newindex = function(o, k, v)
      if defaults[k] ~= nil and rawget(o, "groups") then return assign(o, k, v) end
      rawset(o, k, v)
    end
    M[name] = setmetatable(class, {
      __index = Optimizer,
      __call = function(self, params, opts)
        opts = opts == nil and {} or opts
        if type(opts) ~= "table" then check.fail(name, "the options must be a table, got %s", check.show(opts)) end
        check_settings(name, opts, self.defaults)
        local o = setmetatable({ groups = {}, general = opts }, self)
        local groups = params
        if type(params) == "table" and params[1] ~= nil and is_tensor(params[1]) then
          groups = { { params = params } }
        end
        if type(groups) == "table" and type(groups.parameters) == "function" then
          check.fail(name, "argument 1 must be a list of parameters, got a module; give module:parameters()")
        end
        if type(groups) ~= "table" or #groups == 0 then
          check.fail(name, "argument 1 must be a list of parameters or of groups, got %s", check.show(params))
        end
        if self.single and #groups > 1 then check.fail(name, "takes one group of parameters, got %d", #groups) end
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

  M._optimizer = optimizer

  --- Adds a group, {params = list, lr = ...}: its settings over those that the optimiser was made with.
  --- Raises where the group is no table, or its parameters are not leaves that require gradients.
  ---@param group table {params = list, lr = ...}
  function Optimizer:add_group(group)
    if type(group) ~= "table" then check.fail(self.class_name, "a group must be a table, got %s", check.show(group)) end
    if self.single then check.fail(self.class_name, "takes one group of parameters") end
    local seen = {}
    for _, g in ipairs(self.groups) do
      for _, p in ipairs(g.params) do seen[p] = true end
    end
    self.groups[#self.groups + 1] = make_group(self, group.params, group, self.general, seen)
  end

  ---------------------------------------------------------------------------------------------------------- steps

  local function step(self)
    local update = self.update
    for _, g in ipairs(self.groups) do
      for i, p in ipairs(g.params) do
        local grad, state = p.grad, g.state[i] -- false: another rank's (dist/shard.lua)
        if grad ~= nil and state then update(g, p, grad, state) end
      end
    end
  end

  --- Steps that an optimiser takes operation by operation, before it takes them by a plan: what one step took to
  --- capture is then paid back by as many again.
  local PLAIN_STEPS = 16

  -- Kept beside the optimisers: their fields are what a step reads and writes, compiled or not.
  local plain_steps, planned = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })
  M._plain_steps, M._planned = plain_steps, planned

  --- Updates the parameters by their gradients.
  --- Raises where a gradient does not fit its parameter.
  function Optimizer:step()
    if not eager() then return ty.no_grad(step, self) end
    local n = plain_steps[self] or 0
    if n < PLAIN_STEPS then
      plain_steps[self] = n + 1
      return ty.no_grad(step, self)
    end
    -- a function of its own: what one optimiser's steps are captured for is no other's
    planned[self] = planned[self] or compile(function(o) ty.no_grad(step, o) end)
    planned[self](self)
  end

  --- Forgets the gradients.
  --- Raises never.
  function Optimizer:zero_grad()
    for _, g in ipairs(self.groups) do
      if eager() then
        forget(g.params)
      else
        for _, p in ipairs(g.params) do p.grad = nil end
      end
    end
  end

  --- Settings and state as tables that can be saved: {groups = {{lr = ..., state = {{step = ..., ...}}}}}. Its
  --- tensors are the optimiser's own, not copies.
  --- Raises never.
  ---@return table
  function Optimizer:state_dict()
    local sd = { groups = {} }
    for i, g in ipairs(self.groups) do
      local copy = { state = {} }
      for k in pairs(self.defaults) do copy[k] = own_list(g[k]) end
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

  --- The state that a parameter begins with under the settings of a state_dict, which may need more than the own
  --- ones.
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
        if type(v) == type(default) then g[k] = own_list(v) end
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
end
