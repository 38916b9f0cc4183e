--- nn/location.lua -- in which module an error arises: its path in the model, as in `classifier.2 (Linear), m.lua:14:
--- ...`.
-- In: where the error arises, and its text; called as it is raised, so that calls of modules cost nothing more. Out:
-- the text with the module's path; nil where no module runs, or the one that runs is the model itself. Whoever calls
-- it protects it: an error in here is none of the user's.
--
-- 1. A module runs where a function of the user's, or its `forward`, has it as its first argument.
-- 2. The model is the outermost module that runs and has the innermost among its parts. Lua forgets calls in whose
--    place others run (`return self.fc(x)`), so modules in the locals, upvalues and globals of the callers count,
---  too:
--    those of the nearest caller that has one, and the longest path.

local type, rawget, rawequal, getmetatable, next = type, rawget, rawequal, getmetatable, next
local behind = require("tycho.tree").behind
local getinfo, getlocal, getupvalue, getfenv
if type(debug) == "table" then
  getinfo, getlocal, getupvalue, getfenv = debug.getinfo, debug.getlocal, debug.getupvalue, debug.getfenv
end
local LEVELS, GLOBALS = 200, 2000 -- so many are looked at

---@param ty table the module tycho
---@param nn table modules
return function(ty, nn)
  local walk = nn._walk

  local function is_module(v)
    local class = type(v) == "table" and getmetatable(v)
    return type(class) == "table" and rawget(class, "class_name") ~= nil
  end

  --- The name of a module among the parts of another one, nil where it is none of them; "" of itself.
  local function name_in(model, part)
    local found
    walk(model, "", {}, { module = function(name, m)
      if rawequal(m, part) then found = found or name end
    end })
    return found
  end

  --- The module in which the function at this level runs.
  local function module_at(level)
    local name, v = getlocal(level + 1, 1)
    v = name and behind(v)
    if not v or not is_module(v) then return nil end
    local info = getinfo(level + 1, "fS")
    if info.what == "C" then return nil end
    if ty.internals.is_ours(info.source) and info.func ~= v.forward then return nil end
    return v
  end

  --- The longest name of a module among the parts of what a caller knows.
  local function name_at(level, part)
    local best
    local function try(v)
      v = type(v) == "table" and behind(v)
      local name = v and is_module(v) and not rawequal(v, part) and name_in(v, part)
      if name and #name > #(best or "") then best = name end
    end
    local func = getinfo(level + 1, "f").func
    for i = 1, 250 do
      local name, v = getlocal(level + 1, i)
      if not name then break end
      try(v)
    end
    for i = 1, 60 do
      local name, v = getupvalue(func, i)
      if not name then break end
      try(v)
    end
    local k, v = next(getfenv(func))
    for _ = 1, GLOBALS do
      if k == nil then break end
      try(v)
      k, v = next(getfenv(func), k)
    end
    return best
  end

  --- The innermost module that runs, and its name.
  local function running()
    local inner, name, outer
    local level = 2
    while level < LEVELS and getinfo(level, "f") do
      local m = module_at(level)
      local longer = m and (not inner and "" or name_in(m, inner))
      if longer then inner, name, outer = inner or m, longer, level end
      level = level + 1
    end
    if not inner then return nil end
    for at = outer + 1, level - 1 do
      if getinfo(at, "S").what ~= "C" then
        local longer = name_at(at, inner)
        if longer and #longer > #name then return inner, longer end
        if longer then break end
      end
    end
    return inner, name
  end

  return function(where, text)
    local m, name = running()
    if not m or name == "" then return nil end
    local class = m.class_name .. ": "
    if text:sub(1, #class) == class then text = text:sub(#class + 1) end
    return ("%s (%s)%s: %s"):format(name, m.class_name, where == "" and "" or ", " .. where, text)
  end
end
