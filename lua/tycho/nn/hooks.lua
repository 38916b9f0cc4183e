--- nn/hooks.lua -- hooks of modules: functions of the user's around `forward`, and around its backward pass.
-- In: modules. Out: handles; remove() takes a hook off.
--
-- 1. A module with hooks has a class of its own, between it and its class, whose `__call` calls them. So modules
--    without hooks cost nothing, and a trace of a compiled function, which guards a module's metatable, sees that a
--    hook came. It guards the list of the hooks as well, as it does any table.
-- 2. Hooks are called for m(...), not for m:forward(...). Compiled modules call them too.
-- 3. They are plain Lua: captures evaluate them, and what they compute is part of the trace.
-- 4. Hooks of the backward pass get a gradient for each input and result that requires grad: zeros where nothing has
--    read it, so that lists have no holes.

local type, ipairs, rawget, select, unpack = type, ipairs, rawget, select, unpack
local getmetatable, setmetatable = getmetatable, setmetatable
local behind = require("tycho.tree").behind

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check = nn._check
  local Module, is_tensor = nn.Module, ty.is_tensor
  local add, fits, is_live = ty.internals.hooks.add, ty.internals.hooks.fits, ty.internals.is_live

  local function pack(...) return { n = select("#", ...), ... } end

  --- What stands for the tensors of a list, those among them that require grad as results of the function `through`.
  local function pass(list, through)
    local y, at, given = { n = list.n }, {}, {}
    for i = 1, list.n do
      y[i] = list[i]
      if is_tensor(list[i]) and list[i].requires_grad then at[#at + 1], given[#given + 1] = i, list[i] end
    end
    if #given == 0 then return y, 0 end
    local made = pack(through(unpack(given)))
    for k, i in ipairs(at) do y[i] = made[k] end
    return y, #given
  end

  --- The hooks' answers to the gradients of the inputs.
  local function answer(list, m, inputs, outputs)
    for _, entry in ipairs(list) do
      local given = entry.fn(m, inputs, outputs)
      if given ~= nil then
        if is_tensor(given) then given = { given } end
        if type(given) ~= "table" or #given ~= #inputs then
          check.fail("register_full_backward_hook", "the hook must give nil or a list of %d gradients, got %s", #inputs,
            check.show(given))
        end
        for i, g in ipairs(inputs) do
          local y = given[i]
          if not is_live(y) or not fits(y, g) then
            check.fail("register_full_backward_hook", "gradient %d that the hook gives must be %s, got %s", i,
              check.text(g), is_live(y) and check.text(y) or check.show(y))
          end
        end
        inputs = given
      end
    end
    return inputs
  end

  --- Calls the module between two identities, whose backward passes tell what goes through it.
  local function call_between(list, m, call, args)
    local outputs, seen
    args, seen = pass(args, ty.custom_grad(function(...)
      local y = {}
      for i = 1, select("#", ...) do y[i] = (select(i, ...)):clone() end
      return y
    end, function(_, ...) return unpack(answer(list, m, { ... }, outputs or {})) end))
    local results = pack(call(m, unpack(args, 1, args.n)))
    return (pass(results, ty.custom_grad(function(...)
      local y = {}
      for i = 1, select("#", ...) do y[i] = (select(i, ...)):clone() end
      return y
    end, function(_, ...)
      outputs = { ... }
      if seen == 0 then answer(list, m, {}, outputs) end
      return ...
    end)))
  end

  --- The `__call` of a module with hooks.
  local function call_hooked(class, m, ...)
    local hooks = class.hooks
    local args = pack(...)
    for _, entry in ipairs(hooks.before) do
      local given = pack(entry.fn(m, unpack(args, 1, args.n)))
      if given[1] ~= nil then args = given end
    end
    local results
    if #hooks.back > 0 then results = call_between(hooks.back, m, class.call, args)
    else results = pack(class.call(m, unpack(args, 1, args.n))) end
    for _, entry in ipairs(hooks.after) do
      local several = results.n > 1
      local given = entry.fn(m, args, several and results or results[1])
      if given ~= nil then
        if several and (type(given) ~= "table" or is_tensor(given)) then
          check.fail("register_forward_hook", "the hook must give nil or a list of %d results, got %s", results.n,
            check.show(given))
        end
        results = several and pack(unpack(given, 1, results.n)) or pack(given)
      end
    end
    return unpack(results, 1, results.n)
  end

  --- The hooks of a module, whose class becomes one of its own.
  local function hooks_of(who, m)
    m = behind(m)
    if not nn.is_module(m) or getmetatable(m).__call == nil then
      check.fail(who, "argument 1 must be a module, got %s", check.show(m))
    end
    local class = getmetatable(m)
    if rawget(class, "hooks") then return class.hooks end
    local own = { class_name = class.class_name, parent = class, __index = class.__index, __tostring = class.__tostring,
      __newindex = class.__newindex, call = class.__call, hooks = { before = {}, after = {}, back = {} } }
    local function hooked(self, ...) return call_hooked(own, self, ...) end
    own.__call, own.hooked = hooked, hooked
    setmetatable(m, setmetatable(own, { __index = class }))
    return own.hooks
  end

  local function register(who, m, kind, fn)
    if not nn.is_module(m) then check.fail(who, "argument 1 must be a module, got %s", check.show(m)) end
    if type(fn) ~= "function" then check.fail(who, "argument 2 must be a function, got %s", check.show(fn)) end
    local hooks = hooks_of(who, m)
    local class = getmetatable(behind(m))
    local function emptied() -- it is as if there had been none
      if #hooks.before + #hooks.after + #hooks.back == 0 and getmetatable(behind(m)) == class then
        setmetatable(behind(m), class.parent)
      end
    end
    return add(hooks[kind], fn, emptied)
  end

  --- Calls fn(m, ...) before the module is called with these arguments. What fn gives replaces all of them, unless it
  --- gives nothing or nil first. Gives a handle; handle:remove() takes it off.
  --- Raises where fn is no function.
  ---@param fn fun(m: tycho.Module, ...): ...
  ---@return tycho.HookHandle
  function Module:register_forward_pre_hook(fn) return register("register_forward_pre_hook", self, "before", fn) end

  --- Calls fn(m, inputs, output) after the module was called: inputs are the list of its arguments, output is its
  --- result, or the list of them where there are several. What fn gives replaces the output, nil does not. Gives a
  --- handle.
  --- Raises where fn is no function, and in the call where it gives another number of results.
  ---@param fn fun(m: tycho.Module, inputs: any[], output: any): any
  ---@return tycho.HookHandle
  function Module:register_forward_hook(fn) return register("register_forward_hook", self, "after", fn) end

  --- Calls fn(m, grad_inputs, grad_outputs) in the backward pass, when the gradients of the module's inputs are
  --- complete: lists of the gradients of those arguments and results that require grad, in order. What fn gives, such
  --- a list or one tensor, replaces grad_inputs; nil does not. Where no input requires grad, grad_inputs is empty.
  --- Gives a handle.
  --- Raises where fn is no function, and in the backward pass where it gives another number of gradients.
  ---@param fn fun(m: tycho.Module, grad_inputs: tycho.Tensor[], grad_outputs: tycho.Tensor[]): any
  ---@return tycho.HookHandle
  function Module:register_full_backward_hook(fn)
    return register("register_full_backward_hook", self, "back", fn)
  end

end
