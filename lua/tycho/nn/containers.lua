--- nn/containers.lua -- modules that hold others: Sequential, lists and dictionaries of modules and parameters.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class = nn._check, nn.class
  local is_tensor = ty.is_tensor

  --- The parts in a list of arguments, or in one plain table.
  local function parts_of(who, ...)
    local n, list = select("#", ...), { ... }
    if n == 1 and type(list[1]) == "table" and getmetatable(list[1]) == nil then
      list = list[1]
      n = #list
    end
    while n > 0 and list[n] == nil do n = n - 1 end -- left out at the end
    for i = 1, n do -- a nil before another part is one that the caller misspelt
      local part = list[i]
      if not nn.is_module(part) and type(part) ~= "function" then
        check.fail(who, "part %d must be a module%s, got %s", i, who == "Sequential" and " or a function" or "",
          check.show(part))
      end
    end
    return list
  end

  ---@class tycho.nn.Sequential: tycho.Module
  local Sequential = class "Sequential"
  nn.Sequential = Sequential

  --- nn.Sequential(part, ...): each part takes what the one before it gives; functions are parts too.
  --- Raises where a part is neither a module nor a function.
  ---@param ... tycho.Module|function the parts, or one list of them
  ---@return tycho.Module # what the last part gives; m[i] is part i, #m how many
  function Sequential:init(...)
    for i, part in ipairs(parts_of("Sequential", ...)) do self[i] = part end
  end

  function Sequential:forward(x)
    for i = 1, #self do x = self[i](x) end
    return x
  end

  --- Adds a part at the end. Gives the module.
  --- Raises where the part is neither a module nor a function.
  ---@param part tycho.Module|function a further part
  ---@return tycho.nn.Sequential # the module itself
  function Sequential:append(part)
    self[#self + 1] = parts_of("Sequential", part)[1]
    return self
  end

  ---@class tycho.nn.ModuleList: tycho.Module
  local ModuleList = class "ModuleList"
  nn.ModuleList = ModuleList

  --- nn.ModuleList(part, ...): a list of modules, list[1] to list[#list]; calling them is the owner's doing.
  --- Raises where a part is no module.
  ---@param ... tycho.Module the parts, or one list of them
  ---@return tycho.Module # list[i] is part i
  function ModuleList:init(...)
    for i, part in ipairs(parts_of("ModuleList", ...)) do
      if not nn.is_module(part) then check.fail("ModuleList", "part %d must be a module, got a function", i) end
      self[i] = part
    end
  end

  --- Adds a part at the end. Gives the module.
  --- Raises where the part is no module.
  ---@param part tycho.Module a further part
  ---@return tycho.nn.ModuleList # the module itself
  function ModuleList:append(part)
    if not nn.is_module(part) then check.fail("ModuleList", "a part must be a module, got %s", check.show(part)) end
    self[#self + 1] = part
    return self
  end

  ---------------------------------------------------------------------------------------------------------- by name

  --- The entries of a table whose keys are names, each checked; in the order of their names.
  local function entries(who, list, wanted, fits)
    if list == nil then return {}, {} end
    if type(list) ~= "table" then check.fail(who, "argument 1 must be a table, got %s", check.show(list)) end
    local names = {}
    for k, v in pairs(list) do
      if type(k) ~= "string" then check.fail(who, "a name must be a string, got %s", check.show(k)) end
      if not fits(v) then check.fail(who, "%s must be a %s, got %s", k, wanted, check.show(v)) end
      names[#names + 1] = k
    end
    table.sort(names)
    return names, list
  end

  --- What a part may be named: no name of a method or field of the module.
  local function free_name(m, who, name)
    if type(name) ~= "string" or name == "" then
      check.fail(who, "a name must be a string, got %s", check.show(name))
    end
    if name:find(".", 1, true) or m[name] ~= nil and rawget(m, name) == nil or name == "training" then
      check.fail(who, "%q cannot be the name of a part", name)
    end
    return name
  end

  --- Methods of a dictionary of parts: get, set, keys, pairs.
  local function dictionary(name, wanted, fits, own)
    local c = class(name)
    nn[name] = c

    function c:init(list)
      local names, given = entries(name, list, wanted, fits)
      for _, k in ipairs(names) do self:update(k, given[k]) end
    end

    function c:update(k, part)
      if not fits(part) then check.fail(name, "%s must be a %s, got %s", tostring(k), wanted, check.show(part)) end
      self[free_name(self, name, k)] = own(part)
      return self
    end

    function c:keys()
      local names = {}
      for k, v in pairs(self) do
        if type(k) == "string" and fits(v) then names[#names + 1] = k end
      end
      table.sort(names)
      return names
    end

    function c:items()
      local names, i = self:keys(), 0
      return function()
        i = i + 1
        return names[i], self[names[i]]
      end
    end
    return c
  end

  --- nn.ModuleDict{name = module, ...}: modules by name; calling them is the owner's doing. d.name or d[name] is a
  --- part, d:update(name, module) adds or replaces one, d:keys() lists the names in order, for name, m in d:items()
  --- goes through them.
  --- Raises where a part is no module, or its name is that of a method.
  ---@param parts? table<string, tycho.Module>
  ---@return tycho.Module # d[name] is that part
  dictionary("ModuleDict", "module", nn.is_module, function(m) return m end)

  --- nn.ParameterDict{name = tensor, ...}: parameters by name; as nn.ModuleDict. Tensors become parameters.
  --- Raises where a part is no float tensor, or its name is that of a method.
  ---@param parts? table<string, tycho.Tensor>
  ---@return tycho.Module # d[name] is that parameter
  dictionary("ParameterDict", "tensor", is_tensor, nn.Parameter)

  ---@class tycho.nn.ParameterList: tycho.Module
  local ParameterList = class "ParameterList"
  nn.ParameterList = ParameterList

  --- nn.ParameterList{tensor, ...}: a list of parameters, list[1] to list[#list]. Tensors become parameters.
  --- Raises where an entry is no float tensor.
  ---@param list? tycho.Tensor[]
  ---@return tycho.Module # list[i] is parameter i
  function ParameterList:init(list)
    if list ~= nil and type(list) ~= "table" or is_tensor(list) then
      check.fail("ParameterList", "argument 1 must be a list of tensors, got %s", check.show(list))
    end
    for _, p in ipairs(list or {}) do self:append(p) end
  end

  --- Adds a parameter at the end. Gives the module.
  --- Raises where it is no float tensor.
  ---@param p tycho.Tensor
  ---@return tycho.nn.ParameterList # the module itself
  function ParameterList:append(p)
    self[#self + 1] = nn.Parameter(p)
    return self
  end
end
