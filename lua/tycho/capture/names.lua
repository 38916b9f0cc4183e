--- names.lua -- what functions of Lua's libraries and of Tycho are called, for reasons and explanations.
-- In: a function. Out: its name as a user would write it, without the module of ours that it is in; nil of any other.

local match = string.match
local type, pairs, rawget = type, pairs, rawget

local M = {}

local function add(names, lib, prefix)
  for name, f in pairs(type(lib) == "table" and lib or {}) do
    if type(f) == "function" and type(name) == "string" then names[f] = prefix .. name end
  end
end

--- Names of the functions of Lua's libraries, as they were when this file was loaded.
M.library = {}
for _, name in ipairs { "string", "table", "math", "bit", "os", "io", "coroutine", "debug", "jit", "package" } do
  add(M.library, rawget(_G, name), name .. ".")
end
add(M.library, _G, "")

--- The function of Lua's libraries that has that name, or nil.
function M.find(name)
  local lib, field = match(name, "^(%w+)%.(%w+)$")
  local from = _G
  if lib then from = rawget(_G, lib) end
  local f = type(from) == "table" and rawget(from, field or name)
  return type(f) == "function" and f or nil
end

local by_core = setmetatable({}, { __mode = "k" })

--- Names of Tycho's functions: of the module, methods, linear algebra. Users may have put functions of their own among
--- them.
function M.of(core)
  local names = by_core[core]
  if not names then
    names = {}
    add(names, core.linalg, "")
    add(names, core.fft, "fft.")
    add(names, core, "")
    add(names, core.internals.methods, "")
    by_core[core] = names -- when it is whole
  end
  return names
end

return M
