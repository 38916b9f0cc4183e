--- nn/module.lua -- Module: what all layers and models are made of.
-- A module is a plain table. Its fields are its parts: tensors that require gradients are parameters, other tensors
-- are buffers, modules and plain tables hold more of them. Numbers, strings, functions are settings.
--
--   local Net = nn.class "Net"                            -- a class: Net(...) makes a module
--   function Net:init(n) self.fc = nn.Linear(n, 10) end
--   function Net:forward(x) return self.fc(x):relu() end
--   local m = nn.Module { fc = nn.Linear(4, 10), forward = Net.forward }   -- or without a class
--
-- Rules of the walk over a module's parts.
-- 1. Keys go in sorted order, numbers before strings; others are not looked at. So the order is the same in each run.
-- 2. Names are keys joined by dots, "layers.1.weight".
-- 3. A table or tensor that stands in several places is met once, at the first one; only state_dict knows all its
--    names.
-- 4. Fields that m._transient = {name = true} lists, and the classes' fields, are no parts.
-- 5. Buffers that m._unsaved = {name = true} lists (register_buffer) are parts, but in no state.
-- 6. A compiled module stands for the module: its parts are those, under the same names.

---@class tycho.Module
---@field training boolean true at first; train() and eval() set it
---@field _transient? table<string, boolean>

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local is_tensor = ty.is_tensor
  local nested = require "tycho.tree"
  local behind = nested.behind
  local recall, remember = nested.recall, nested.remember -- what was met is kept so that captures can follow it
  local type, rawget, pairs, ipairs = type, rawget, pairs, ipairs
  local getmetatable, setmetatable = getmetatable, setmetatable
  local floor = math.floor
  local raise = ty.internals.error
  local check = require("tycho.arguments")(ty)
  nn._check, nn._cast = check, ty._cast

  ---@class tycho.Module
  local Module = { class_name = "Module" }
  Module.__index = Module
  nn.Module = Module

  --- Whether a value is a module or a class of modules.
  local function is_instance(v)
    local class = type(v) == "table" and getmetatable(v)
    return type(class) == "table" and rawget(class, "class_name") ~= nil
  end

  local function is_module(v) return is_instance(behind(v)) end

  local function call(self, ...) return self:forward(...) end

  ---------------------------------------------------------------------------------------------------------- classes

  --- A new class. Its `init(self, ...)` fills a new module, its `forward(self, ...)` computes.
  --- Raises where the name is no string, or the parent no class.
  ---@param name string how modules of it print
  ---@param parent? table a class, nn.Module
  ---@return table class calling it makes a module
  function nn.class(name, parent)
    if type(name) ~= "string" then raise("class: argument 1 must be a name, got " .. check.show(name)) end
    if parent ~= nil and (type(parent) ~= "table" or rawget(parent, "class_name") == nil) then
      raise("class: argument 2 must be a class, got " .. check.show(parent))
    end
    parent = parent or Module
    local class = { class_name = name, parent = parent, __call = call, __tostring = Module.__tostring }
    class.__index = class
    return setmetatable(class, {
      __index = parent,
      __call = function(self, ...)
        local m = setmetatable({ training = true }, self)
        if self.init then self.init(m, ...) end
        return m
      end,
    })
  end

  Module.__call = call

  --- nn.Module{name = part, ..., forward = function(self, x) ... end}: a module without a class of its own.
  --- Raises where the argument is no table.
  ---@param fields table<string, any> parts, settings, and the function forward
  ---@return tycho.Module # what forward gives
  setmetatable(Module, {
    __call = function(_, fields)
      if fields ~= nil and type(fields) ~= "table" then
        raise("Module: argument 1 must be a table of parts, got " .. check.show(fields))
      end
      local m = { training = true }
      for k, v in pairs(fields or {}) do m[k] = v end
      return setmetatable(m, Module)
    end,
  })

  --- What the module computes: each class has its own. Calling the module calls it.
  --- Raises where the class has none.
  ---@return any # what the class says
  function Module:forward()
    return raise(("%s: has no forward (define function %s:forward(x))"):format(self.class_name, self.class_name))
  end

  --- A tensor of floats or of complex numbers.
  local function smooth(who, i, t) return ty.is_complex(t) and t or check.float(who, i, t) end

  --- A parameter: the tensor itself, which requires gradients from now on.
  --- Raises where t is neither of floats nor complex.
  ---@param t tycho.Tensor floats, or complex numbers
  ---@return tycho.Tensor # t itself
  function nn.Parameter(t)
    return smooth("Parameter", 1, t):requires_grad_()
  end

  --- nn.is_module(v): whether a value is a module or a class of modules.
  --- Raises never.
  ---@param v any
  ---@return boolean
  nn.is_module = is_module

  ---------------------------------------------------------------------------------------------------------- the walk

  local function by_key(a, b)
    local p, q = type(a), type(b)
    if p ~= q then return p == "number" end
    return a < b
  end

  --- The keys of a table's parts, in order.
  local function keys_of(t)
    local keys, skip = {}, rawget(t, "_transient")
    for k, v in pairs(t) do
      local kind = type(k)
      if (kind == "number" or kind == "string") and (type(v) == "table" or is_tensor(v)) and k ~= "_transient"
        and not (type(skip) == "table" and skip[k]) then
        keys[#keys + 1] = k
      end
    end
    table.sort(keys, by_key)
    return keys
  end

  local function key_text(k)
    if type(k) == "number" and k == floor(k) then return ("%d"):format(k) end
    return tostring(k)
  end

  local function is_plain(v)
    return type(v) == "table" and (getmetatable(v) == nil or is_instance(v))
  end

  --- The module that a method was called on; m.parameters() has none.
  local function own(who, m)
    m = behind(m)
    if not is_instance(m) then check.fail(who, "argument 1 must be a module, got %s", check.show(m)) end
    return m
  end

  --- Walks the parts of t: visit.tensor(name, tensor, owner, key), visit.module(name, module). seen: tables and
  --- tensors that are met no more.
  local function walk(t, prefix, seen, visit)
    remember(seen, t, true)
    if visit.module and is_instance(t) then visit.module(prefix, t) end
    for _, k in ipairs(keys_of(t)) do
      local v = behind(rawget(t, k))
      local name = prefix == "" and key_text(k) or prefix .. "." .. key_text(k)
      if not recall(seen, v) then
        if is_tensor(v) then
          if visit.tensor then
            remember(seen, v, true)
            visit.tensor(name, v, t, k)
          end
        elseif is_plain(v) then
          walk(v, name, seen, visit)
        end
      end
    end
    return visit
  end
  nn._walk = walk

  local function is_parameter(t) return t.requires_grad and t.is_leaf end

  --- Lists of the names and tensors that `wanted` holds for.
  local function tensors(who, m, wanted)
    local names, list = {}, {}
    walk(own(who, m), "", {}, { tensor = function(name, t)
      if wanted(t) then names[#names + 1], list[#list + 1] = name, t end
    end })
    return names, list
  end

  nn._parameters = function(m) return tensors("parameters", m, is_parameter) end

  --- A module with tensors of its own; what is shared in it is shared again.
  local function copied(v, seen)
    if is_tensor(v) then
      if not seen[v] then
        local t = v:detach():clone()
        seen[v] = v.requires_grad and t:requires_grad_() or t
      end
      return seen[v]
    end
    if type(v) ~= "table" then return v end
    v = behind(v)
    if seen[v] then return seen[v] end
    local t = {}
    seen[v] = t
    for k, e in pairs(v) do t[copied(k, seen)] = copied(e, seen) end
    return setmetatable(t, getmetatable(v))
  end
  function nn._copied(m) return copied(m, {}) end

  local function not_parameter(t) return not is_parameter(t) end

  --- An iterator over two lists.
  local function each(names, list)
    local i = 0
    return function()
      i = i + 1
      return names[i], list[i]
    end
  end

  --- The tensors that require gradients, in the order of the walk.
  --- Raises where it is called on what is no module.
  ---@return tycho.Tensor[] # the tensors themselves, each once
  function Module:parameters()
    local _, list = tensors("parameters", self, is_parameter)
    return list
  end

  --- for name, p in m:named_parameters() do ... end
  --- Raises where it is called on what is no module.
  ---@return fun(): string, tycho.Tensor # path and tensor: "1.weight"
  function Module:named_parameters() return each(tensors("named_parameters", self, is_parameter)) end

  --- The tensors that are no parameters, such as running means.
  --- Raises where it is called on what is no module.
  ---@return tycho.Tensor[] # the tensors themselves
  function Module:buffers()
    local _, list = tensors("buffers", self, not_parameter)
    return list
  end

  --- for name, b in m:named_buffers() do ... end
  --- Raises where it is called on what is no module.
  ---@return fun(): string, tycho.Tensor # path and tensor: "1.running_mean"
  function Module:named_buffers() return each(tensors("named_buffers", self, not_parameter)) end

  local function submodules(who, m)
    local names, list = {}, {}
    walk(own(who, m), "", {}, { module = function(name, part) names[#names + 1], list[#list + 1] = name, part end })
    return names, list
  end

  --- The module itself and all modules in it.
  --- Raises where it is called on what is no module.
  ---@return tycho.Module[]
  function Module:modules()
    local _, list = submodules("modules", self)
    return list
  end

  --- for name, part in m:named_modules() do ... end; the module itself is named "".
  --- Raises where it is called on what is no module.
  ---@return fun(): string, tycho.Module
  function Module:named_modules() return each(submodules("named_modules", self)) end

  --- The modules that are not parts of others in it.
  local function direct(t, prefix, seen, names, list)
    for _, k in ipairs(keys_of(t)) do
      local v = behind(rawget(t, k))
      local name = prefix == "" and key_text(k) or prefix .. "." .. key_text(k)
      if not recall(seen, v) and is_plain(v) then
        remember(seen, v, true)
        if is_instance(v) then names[#names + 1], list[#list + 1] = name, v
        else direct(v, name, seen, names, list) end
      end
    end
    return names, list
  end

  local function direct_of(m)
    local seen = {}
    remember(seen, m, true)
    return direct(m, "", seen, {}, {})
  end

  --- The modules right in it.
  --- Raises where it is called on what is no module.
  ---@return tycho.Module[]
  function Module:children()
    local _, list = direct_of(own("children", self))
    return list
  end

  --- for name, part in m:named_children() do ... end
  --- Raises where it is called on what is no module.
  ---@return fun(): string, tycho.Module
  function Module:named_children() return each(direct_of(own("named_children", self))) end

  --- How many numbers its parameters hold.
  --- Raises where it is called on what is no module.
  ---@return integer
  function Module:num_parameters()
    local n = 0
    for _, p in ipairs(self:parameters()) do n = n + p:numel() end
    return n
  end

  ---------------------------------------------------------------------------------------------------------- changes

  --- Whether dropout, batch norms and their like behave as in training. Gives the module.
  --- Raises where the argument is no boolean.
  ---@param on? boolean true
  ---@return tycho.Module # the module itself
  function Module:train(on)
    if on == nil then on = true end
    if type(on) ~= "boolean" then raise("train: argument 1 must be true or false, got " .. check.show(on)) end
    local _, list = submodules("train", self)
    for _, part in ipairs(list) do part.training = on end
    return self
  end

  --- train(false).
  --- Raises where it is called on what is no module.
  ---@return tycho.Module # the module itself
  function Module:eval() return Module.train(self, false) end

  --- Calls fn with each module, inner ones first. Gives the module.
  --- Raises where fn is no function.
  ---@param fn fun(m: tycho.Module)
  ---@return tycho.Module # the module itself
  function Module:apply(fn)
    if type(fn) ~= "function" then raise("apply: argument 1 must be a function, got " .. check.show(fn)) end
    local _, list = submodules("apply", self)
    for i = #list, 1, -1 do fn(list[i]) end
    return self
  end

  --- What a part may be named: a name without dots that no method has.
  local function part_name(who, m, name)
    if type(name) ~= "string" or name == "" or name:find(".", 1, true) then
      raise(("%s: argument 1 must be a name without dots, got %s"):format(who, check.show(name)))
    end
    if rawget(m, name) == nil and m[name] ~= nil then
      raise(("%s: %q is a method of %s"):format(who, name, m.class_name))
    end
  end

  --- A tensor as a part that is no parameter and never becomes one: m.name. Where persistent is false, states do not
  --- have it. Gives the module.
  --- Raises where the name has a dot or is a method's, or t is no tensor.
  ---@param name string
  ---@param t? tycho.Tensor nil: it is taken away
  ---@param persistent? boolean true
  ---@return tycho.Module # the module itself
  function Module:register_buffer(name, t, persistent)
    own("register_buffer", self)
    part_name("register_buffer", self, name)
    if t ~= nil then check.tensor("register_buffer", 2, t) end
    persistent = check.boolean("register_buffer", 3, persistent, "persistent", true)
    local buffers, unsaved = {}, {}
    for k, v in pairs(self._buffers or {}) do buffers[k] = v end -- a class's list is not the module's
    for k, v in pairs(rawget(self, "_unsaved") or {}) do unsaved[k] = v end
    buffers[name], unsaved[name] = t ~= nil or nil, not persistent or nil
    self._buffers, self._unsaved = buffers, next(unsaved) and unsaved or nil
    self[name] = t
    return self
  end

  --- A tensor as a parameter: m.name, which requires gradients. Gives the module.
  --- Raises where the name has a dot or is a method's, or t is no float tensor.
  ---@param name string
  ---@param t? tycho.Tensor nil: it is taken away
  ---@return tycho.Module # the module itself
  function Module:register_parameter(name, t)
    own("register_parameter", self)
    part_name("register_parameter", self, name)
    self[name] = t ~= nil and smooth("register_parameter", 2, t):requires_grad_() or nil
    return self
  end

  --- A module as a part: m.name. Gives the module.
  --- Raises where the name has a dot or is a method's, or part is no module.
  ---@param name string
  ---@param part tycho.Module
  ---@return tycho.Module # the module itself
  function Module:add_module(name, part)
    own("add_module", self)
    part_name("add_module", self, name)
    if not is_module(part) then raise("add_module: argument 2 must be a module, got " .. check.show(part)) end
    self[name] = part
    return self
  end

  --- What stands at a path, "layers.1.weight".
  local function at_path(who, m, path)
    if type(path) ~= "string" then raise(who .. ": argument 1 must be a path, got " .. check.show(path)) end
    local v = own(who, m)
    for key in path:gmatch "[^.]+" do
      local inner = type(v) == "table" and rawget(v, key)
      if type(v) == "table" and (inner == nil or inner == false) then inner = rawget(v, tonumber(key) or key) end
      v = behind(inner)
      if not v then raise(("%s: there is no %s in %s"):format(who, path, m.class_name)) end
    end
    return v
  end

  --- The module at a path of names joined by dots; "" is the module itself.
  --- Raises where there is none.
  ---@param path string such as "layers.1"
  ---@return tycho.Module # the part
  function Module:get_submodule(path)
    local v = at_path("get_submodule", self, path)
    if not is_instance(v) then raise(("get_submodule: %s is no module"):format(path)) end
    return v
  end

  --- The parameter at a path of names joined by dots.
  --- Raises where there is none.
  ---@param path string such as "layers.1.weight"
  ---@return tycho.Tensor # the parameter itself
  function Module:get_parameter(path)
    local v = at_path("get_parameter", self, path)
    if not is_tensor(v) or not is_parameter(v) then raise(("get_parameter: %s is no parameter"):format(path)) end
    return v
  end

  --- The buffer at a path of names joined by dots.
  --- Raises where there is none.
  ---@param path string such as "norm.running_mean"
  ---@return tycho.Tensor # the buffer itself
  function Module:get_buffer(path)
    local v = at_path("get_buffer", self, path)
    if not is_tensor(v) or is_parameter(v) then raise(("get_buffer: %s is no buffer"):format(path)) end
    return v
  end

  --- Forgets the gradients of its parameters.
  --- Raises where it is called on what is no module.
  function Module:zero_grad()
    local _, list = tensors("zero_grad", self, is_parameter)
    for _, p in ipairs(list) do p.grad = nil end
  end

  --- Whether its parameters, or what could be some, require gradients. Frozen ones count as buffers. Gives the
  --- module.
  --- Raises where the argument is no boolean.
  ---@param on? boolean true
  ---@return tycho.Module # the module itself
  function Module:requires_grad_(on)
    if on == nil then on = true end
    walk(own("requires_grad_", self), "", {}, { tensor = function(_, t, owner, k)
      local listed = owner._buffers
      if (ty.is_complex(t) or t.dtype:find("f", 1, true)) and not (listed and listed[k]) then t:requires_grad_(on) end
    end })
    return self
  end

  --- The same as to("f32"). Gives the module.
  --- Raises never.
  ---@return tycho.Module # the module itself
  function Module:float() return self:to "f32" end

  --- The same as to("f64"). Gives the module.
  --- Raises never.
  ---@return tycho.Module # the module itself
  function Module:double() return self:to "f64" end

  --- The same as to("f16"). Gives the module.
  --- Raises never.
  ---@return tycho.Module # the module itself
  function Module:half() return self:to "f16" end

  --- The same as to("bf16"). Gives the module.
  --- Raises never.
  ---@return tycho.Module # the module itself
  function Module:bfloat16() return self:to "bf16" end

  --- The same as to("cpu"). Gives the module.
  --- Raises never.
  ---@return tycho.Module # the module itself
  function Module:cpu() return self:to "cpu" end

  --- The same as to("cuda:0"), or another card's number. Gives the module; nil and a message where there is none.
  --- Raises where the number is none.
  ---@param card? integer 0: the driver's ordinal
  ---@return tycho.Module? m, string? message # the module itself
  function Module:cuda(card) return self:to(("cuda:%d"):format(check.whole("cuda", 1, card, "card", 0))) end

  --- Its floats in another dtype, or all on another device. The tensors are new ones, so optimisers are made
  --- afterwards. Gives the module.
  --- Raises where it is no dtype and no device.
  ---@param where string a dtype or a device
  ---@return tycho.Module? m, string? message # the module itself; nil and a message where the device is not there
  function Module:to(where)
    if type(where) ~= "string" then raise("to: argument 1 must be a dtype or a device, got " .. check.show(where)) end
    local probe, why = ty.zeros(1):to(where)
    if not probe then return nil, why end
    local is_dtype = probe.dtype == where
    if is_dtype then check.float("to", 1, probe) end
    local moved = {}
    local function convert(t)
      local y = t
      if not is_dtype or t.dtype:find("f", 1, true) then
        y = ty.no_grad(t.to, t, where)
        if y ~= t and is_parameter(t) then y:requires_grad_() end
      end
      moved[t] = y
      return y
    end
    local seen = {}
    local function visit(t)
      seen[t] = true
      for _, k in ipairs(keys_of(t)) do
        local v = behind(rawget(t, k))
        if is_tensor(v) then
          t[k] = moved[v] or convert(v)
        elseif is_plain(v) and not seen[v] then
          visit(v)
        end
      end
    end
    visit(own("to", self))
    return self
  end

  ---------------------------------------------------------------------------------------------------------- state

  --- Calls visit(name, tensor, owner, key, torch) for each tensor under each of its names. torch: that name in
  --- PyTorch, where lists count from 0, or nil where PyTorch has none.
  local function each_state(t, prefix, torch, path, visit)
    path[t] = true
    local unsaved = rawget(t, "_unsaved")
    for _, k in ipairs(keys_of(t)) do
      local v = behind(rawget(t, k))
      if unsaved and unsaved[k] then v = nil end
      local renamed = t.torch_name and type(k) == "string" and t:torch_name(k)
      local other = renamed or key_text(type(k) == "number" and k - 1 or k)
      local name = prefix == "" and key_text(k) or prefix .. "." .. key_text(k)
      other = torch == "" and other or torch .. "." .. other
      if is_tensor(v) then visit(name, v, t, k, other)
      elseif is_plain(v) and not path[v] then each_state(v, name, other, path, visit) end
    end
    path[t] = nil
    return visit
  end

  --- Parameters and buffers by name: the tensors themselves, without gradients, not copies.
  --- Raises where two parts have the same name.
  ---@return table<string, tycho.Tensor>
  function Module:state_dict()
    local sd = {}
    each_state(own("state_dict", self), "", "", {}, function(name, t)
      if sd[name] then check.fail("state_dict", "two parts are named %s", name) end
      sd[name] = t:detach()
    end)
    return sd
  end

  local function copy_into(t, v) t:copy_(v:to(t.device)) end

  --- v, as PyTorch has it, in the layout of the own tensor at owner[k].
  local function from_torch(owner, k, v)
    if owner.from_torch then return owner:from_torch(k, v) end
    return v
  end

  local function listed(what, names)
    table.sort(names)
    local shown = table.concat(names, ", ", 1, math.min(#names, 8))
    return ("%s: %s%s"):format(what, shown, #names > 8 and (" and %d more"):format(#names - 8) or "")
  end

  --- Writes the tensors of a state_dict into the module's own, cast to their dtypes. Nothing is written unless all
  --- fits. Options: from = "torch": names count lists from 0, and layouts that differ are turned (weights of linear
  --- and recurrent layers are [in, out] here); strict = true: missing and unexpected names raise.
  --- Raises where names or sizes do not fit.
  ---@param sd table<string, tycho.Tensor>
  ---@param opts? {from: "torch"|nil, strict: boolean?}
  ---@return string[] missing, string[] unexpected
  function Module:load_state_dict(sd, opts)
    local who = "load_state_dict"
    if type(sd) ~= "table" then
      raise(("%s: argument 1 must be a table of tensors%s, got %s"):format(who,
        type(sd) == "string" and " (ty.load reads one from a file)" or "", check.show(sd)))
    end
    opts = check.options(who, opts, { from = "string", strict = "boolean" })
    if opts.from ~= nil and opts.from ~= "torch" then
      check.fail(who, "option from must be \"torch\", got %s", check.show(opts.from))
    end
    local missing, unexpected, known, writes, written = {}, {}, {}, {}, {}
    each_state(own(who, self), "", "", {}, function(name, t, owner, k, torch)
      local key = opts.from and torch or name
      if known[key] then check.fail(who, "two parts are named %s", key) end
      known[key] = true
      local v = sd[key]
      if v == nil then
        missing[#missing + 1] = key
        return
      end
      if not is_tensor(v) then check.fail(who, "%s must be a tensor, got %s", key, check.show(v)) end
      if opts.from then v = from_torch(owner, k, v) end
      local a, b = check.text(t):match "%b[]", check.text(v):match "%b[]"
      if a ~= b then check.fail(who, "%s is %s, the module has %s", key, check.text(v), check.text(t)) end
      if not written[t] then
        written[t] = true
        writes[#writes + 1] = { t, v }
      end
    end)
    for key in pairs(sd) do
      local ignored = opts.from and type(key) == "string" and key:match("num_batches_tracked$")
      if not known[key] and not ignored then unexpected[#unexpected + 1] = tostring(key) end
    end
    if opts.strict ~= false and #missing + #unexpected > 0 then
      local parts = {}
      if #missing > 0 then parts[#parts + 1] = listed("missing", missing) end
      if #unexpected > 0 then parts[#parts + 1] = listed("unexpected", unexpected) end
      check.fail(who, "%s", table.concat(parts, "; "))
    end
    for _, w in ipairs(writes) do ty.no_grad(copy_into, w[1], w[2]) end
    return missing, unexpected
  end

  ---------------------------------------------------------------------------------------------------------- text

  --- What a class adds to its name in print, such as "in = 2, out = 3".
  --- Raises never.
  ---@param _ tycho.Module
  ---@return string
  function Module.describe(_) return "" end

  local function tree(m, indent, path)
    local head = ("%s(%s"):format(m.class_name, m:describe())
    if path[m] then return head .. " ...)" end
    path[m] = true
    local names, list = direct_of(m)
    local lines = {}
    for i, part in ipairs(list) do
      lines[i] = ("%s  (%s): %s\n"):format(indent, names[i], tree(part, indent .. "  ", path))
    end
    path[m] = nil
    if #lines == 0 then return head .. ")" end
    return ("%s\n%s%s)"):format(head, table.concat(lines), indent)
  end

  function Module:__tostring() return tree(self, "", {}) end
end
