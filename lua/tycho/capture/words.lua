--- words.lua -- what guards ask, and what a call that no trace answers differs in, in words of the user.
-- In: instructions of descriptions; what core._due says of a miss. Out: text. Cannot fail, and runs no code of the
-- user's: a table is never asked for its own text.

local names = require "tycho.capture.names"

local format, gsub, match, find = string.format, string.gsub, string.match, string.find
local type, tostring, tonumber, rawget, rawequal = type, tostring, tonumber, rawget, rawequal
local next, ipairs = next, ipairs
local concat = table.concat
local getinfo = type(debug) == "table" and debug.getinfo

local M = {}

--- What to do about numbers that are sizes, positions or lengths of loops.
M.SIZE = "keep it the same from call to call, or pad to a few sizes"

--- Where a function stands.
---@param f function
---@return string
function M.place(f)
  local info = getinfo and getinfo(f, "S")
  if not info or info.what == "C" then return "a C function" end
  return format("%s:%d", info.short_src, info.linedefined)
end

local function tensor(t, dynamic)
  local leaf = t.requires_grad and (t.is_leaf and ", a leaf" or ", taped") or ""
  if dynamic then return format("%s of rank %d, of any sizes%s", t.dtype, t.ndim, leaf) end
  return format("%s[%s]%s", t.dtype, concat(t.shape, ","), leaf)
end

--- A value without its identity.
local function shown(core, v)
  local kind = type(v)
  if kind == "string" then return format("%q", v) end
  if kind == "function" then
    local name = names.library[v] or names.of(core)[v]
    return name and "the function " .. name or "the function at " .. M.place(v)
  end
  if kind == "number" then return format("%.14g", v) end
  if kind == "nil" or kind == "boolean" then return tostring(v) end
  if kind == "userdata" and core.is_tensor(v) then
    return core.internals.is_live(v) and tensor(v) or "a tensor that was released"
  end
  return "a " .. kind
end

--- What a guard says about its first operand; nil of instructions that only read or compute. Rows and their texts:
--- core/lua/lua_guard.h.
---@param core table
---@param g table instruction
---@param d table description
---@return string?
function M.guard(core, g, d)
  local row = core.internals.capture.guards[g[1]]
  if not row.text then return nil end
  local function operand(column)
    column = tonumber(column)
    local kind, v = row.operands[column - 1], g[column]
    if kind == "slot" then return d.paths[v] or "value " .. v end
    if kind == "tensor" then return tensor(v, d.dynamic) end
    if kind == "keys" then return tostring(#v) end
    if kind == "value" then return (shown(core, v)) end
    return tostring(v)
  end
  local yes, no = match(row.text, "^(.*)|(.*)$")
  if yes then return g[#row.operands + 1] and yes or no end
  return (gsub(row.text, "%$(%d)", operand))
end

-- Misses --------------------------------------------------------------------------------------------------------------

local VALUE = "keep it the same, or compile a function for each of its values"
local ONCE = "make it once, outside of the calls"
local SHAPE = "keep the table's fields the same"
local NUMBER = "give it as a tensor, or let it meet tensors only"

local function plural(n, one, many) return format("%d %s", n, n == 1 and one or many) end

--- The kind of a value, or the value where it says no more.
local function kind_of(core, v)
  local kind = type(v)
  if kind == "nil" then return "nil" end
  return kind == "userdata" and shown(core, v) or "a " .. kind
end

--- By instruction: function(core, g, d, v, due, path) -> what it is, what it was, what to do; without what it was, that
--- it changed is told by what it is. v: the value that the guard had in the call that missed.
local miss = {}

function miss.type(core, g, _, v) return kind_of(core, v), g[3] == "nil" and "nil" or "a " .. g[3] end
function miss.number(core, _, _, v) return kind_of(core, v), "a number" end
miss.bound = miss.number

function miss.equal(core, g, _, v)
  local was = g[3]
  if type(v) ~= type(was) then return shown(core, v), shown(core, was), VALUE end
  local kind = type(v)
  if kind == "table" or kind == "userdata" or kind == "thread" then return "another " .. kind, nil, ONCE end
  if kind ~= "function" then return shown(core, v), shown(core, was), kind == "number" and NUMBER or VALUE end
  local now, old = shown(core, v), shown(core, was)
  if now == old then return "a new closure of " .. now, nil, ONCE end
  return now, old, ONCE
end

function miss.closure(core, _, _, v)
  if type(v) ~= "function" then return kind_of(core, v), "a function" end
  return "a function with other code", nil, ONCE
end

function miss.same(_, g, d) return format("another object than `%s`", d.paths[g[3]] or "before"), "the same" end
function miss.distinct(_, g, d) return format("the object `%s`, too", d.paths[g[3]] or "of another path"), "another" end
function miss.cell_same() return "shared by two functions no longer", nil, ONCE end
function miss.cell_distinct() return "shared by two functions", nil, ONCE end
function miss.no_grad(core, _, _, v) return kind_of(core, v), "nil" end

function miss.length(core, g, _, v)
  if type(v) ~= "table" then return kind_of(core, v), "a table" end
  local n, was = #v, g[3]
  return format("%s: was %s, is %d", n < was and "shorter" or "longer", plural(was, "entry", "entries"), n), nil, SHAPE
end

function miss.list(core, _, _, v)
  if type(v) ~= "table" then return kind_of(core, v), "a table" end
  return "a list with holes, or a long one", "a short one without", SHAPE
end

function miss.entries(core, _, _, v) return kind_of(core, v), "a table" end

local function key_text(core, k) return type(k) == "string" and "`" .. k .. "`" or shown(core, k) end

--- A key that the table has lost, or else got; or else their order is another one.
function miss.keys(core, g, _, v)
  if type(v) ~= "table" then return kind_of(core, v), "a table" end
  local had = {}
  for _, k in ipairs(g[3]) do
    if rawequal(rawget(v, k), nil) then return "without its key " .. key_text(core, k), nil, SHAPE end
    had[k] = true
  end
  for k in next, v do
    if not had[k] then return "given the new key " .. key_text(core, k), nil, SHAPE end
  end
  return "walked in another order of its keys", nil, SHAPE
end

local function leaf_of(t) return t.requires_grad and (t.is_leaf and "leaf" or "taped") or "not" end

function miss.tensor(core, g, d, v)
  local was = g[3]
  if type(v) ~= "userdata" or not core.is_tensor(v) or not core.internals.is_live(v) then
    return kind_of(core, v), tensor(was, d.dynamic)
  end
  local alike = v.dtype == was.dtype and v.ndim == was.ndim and leaf_of(v) == leaf_of(was)
  if not alike or not d.dynamic and tensor(v) ~= tensor(was) then return tensor(v), tensor(was, d.dynamic) end
  local how = v.device ~= was.device and "on another device" or g[4] ~= nil and "detached, or no longer"
    or "of other strides"
  return format("%s as before, but %s", tensor(v), how)
end

local function outcome(_, g, _, _, due, path)
  local compared = due.compared
  if g[1] == "whole" then
    return format("%.14g", compared[1]), g[#g] and "a whole number" or "no whole number", NUMBER
  end
  if g[1] == "key" then return format("%.14g", compared[1]), "a key of lists", NUMBER end
  if g[1] == "eq" and g[4] and not find(path, " == ", 1, true) then -- a number that was pinned
    return format("%.14g", compared[1]), format("%.14g", compared[2]), NUMBER
  end
  if not find(path, "[<=]") then return "of another sign", nil, NUMBER end
  return tostring(not g[4]), tostring(g[4]), NUMBER
end
miss.lt, miss.le, miss.eq, miss.whole, miss.key = outcome, outcome, outcome, outcome, outcome

--- A read that finds nothing: what it reads from is no table.
local function read(core, g, d, v)
  local from = d.paths[g[2]] or "what it is in"
  return format("not there: `%s` is %s", from, kind_of(core, v)), nil, nil
end

--- A path as the user would write it, and which argument it is.
local function subject(path, slot, narg)
  return slot and slot <= narg and format("`%s` (argument %d)", path, slot) or format("`%s`", path)
end

--- What a miss is about.
---@param core table
---@param due table what core._due says
---@return table miss {text, guard, path, was, now, line}
---@return string? remedy what the user could do
function M.miss(core, due)
  local d = due.description
  if due.why then return { text = due.why, guard = due.why } end
  local g = d.program[due.at]
  local row = core.internals.capture.guards[g[1]]
  local slot = row.operands[1] == "slot" and g[2] or nil
  local path = d.about[due.at] or slot and d.paths[slot] or "a number"
  local m = { guard = g[1], path = path, line = d.lines[due.at] }
  if not due.noted then
    m.text = format("%s is otherwise", subject(path, slot, d.narg))
    return m
  end
  local tell = miss[g[1]] or read
  local now, was, remedy = tell(core, g, d, due.value, due, path)
  m.now, m.was = now, was
  m.text = format("%s is %s%s", subject(path, tell ~= read and slot or nil, d.narg), now, was and ", was " .. was or "")
  return m, remedy
end

return M
