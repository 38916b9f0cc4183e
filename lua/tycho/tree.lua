--- tree.lua -- nested tables, with tensors in them, made anew: what is done to each value is the caller's.
-- In: any value; a function of the values in it. Out: the value's like. Raises what the function raises.
--
-- 1. A table becomes a new one with the same metatable, its fields set without asking that.
-- 2. A table that stands in several places, or in itself, becomes one table, which stands in these places.
-- 3. Captures evaluate this file (`core.inline` of grad.lua). Objects from outside are no keys there, so what was met
--    is kept by two functions, in whose place a capture has a memory of its own (gradients.lua).

local type, pairs, rawget, rawset = type, pairs, rawget, rawset
local getmetatable, setmetatable = getmetatable, setmetatable

local M = {}

--- What v became, nil where it was not met.
local function recall(seen, v) return seen[v] end
local function remember(seen, v, y) seen[v] = y end

--- What `beside`, nested as the tables are, says about field k: one value for all fields, or a table of them.
---@return any said false where it says nothing
local function said(beside, k)
  if type(beside) == "table" then return beside[k] or false end
  return beside or false
end

--- The module that a compiled one stands for (compile.lua), which has no fields of its own; all else as it is.
local function behind(v)
  local meta = getmetatable(v)
  return type(meta) == "table" and rawget(meta, "__module") or v
end

--- The like of v. fn gives what is to stand in the place of a value; nil: the value itself, or the like of a table.
---@param v any
---@param fn fun(v: any, beside: any): any
---@param seen table what was met already, {} at first; several calls may share it
---@param beside? any what fn is told about v; of a table it may be a table, which `said` reads for each field
---@return any
local function map(v, fn, seen, beside)
  local y = fn(v, beside)
  if y ~= nil then return y end
  if type(v) ~= "table" then return v end
  v = behind(v)
  y = recall(seen, v)
  if y then return y end
  y = setmetatable({}, getmetatable(v))
  remember(seen, v, y)
  for k, field in pairs(v) do rawset(y, k, map(field, fn, seen, said(beside, k))) end
  return y
end

M.map, M.said, M.recall, M.remember, M.behind = map, said, recall, remember, behind

return M
