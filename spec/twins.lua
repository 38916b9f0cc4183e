--- twins.lua -- the same world twice: a function runs plain in one and compiled in the other, call by call in step.
-- A world is made by a builder, twice, so that no object stands in both. After each call everything that a user
-- could see
-- (results, the error, arguments, state) is written out for both worlds as one text in which objects are named by the
-- order of their first appearance: equal texts mean equal values to the bit and equal identities.

local H = require "spec.helper"
local ty = H.ty

-- Traces of the host lay out some tables, such as { n = select("#", ...), ... }, otherwise than its interpreter does.
if jit and jit.off then jit.off(true, true) end

local M = {}

-- Text of values ----------------------------------------------------------------------------------------------------

local function number(v)
  if v ~= v then return "nan" end
  return ("%.17g"):format(v) -- tells -0 from 0
end

local function tensor(v)
  local list = H.list(v)
  for i = 1, #list do list[i] = number(list[i]) end
  return ("%s[%s]{%s}"):format(v.dtype, table.concat(v.shape, ","), table.concat(list, " "))
end

--- The keys in the table's own order. Keys that are objects would have none that both worlds share: none are used.
local function ordered(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  return keys
end

--- list[1..n] as text.
function M.text(list, n)
  local name, count, out = {}, 0, {}
  local function add(v)
    local kind = type(v)
    if kind == "number" then out[#out + 1] = number(v) return end
    if kind == "string" then out[#out + 1] = ("%q"):format(v) return end
    if kind == "nil" or kind == "boolean" then out[#out + 1] = tostring(v) return end
    if name[v] then out[#out + 1] = name[v] return end
    count = count + 1
    name[v] = "@" .. count
    out[#out + 1] = "@" .. count .. "="
    if ty.is_tensor(v) then
      out[#out] = out[#out] .. tensor(v)
    elseif kind == "table" then
      out[#out] = out[#out] .. "{" .. #v .. ":"
      for _, k in ipairs(ordered(v)) do
        out[#out + 1] = "[" .. tostring(k) .. "]"
        add(v[k])
      end
      if getmetatable(v) then
        out[#out + 1] = "meta"
        add(getmetatable(v))
      end
      out[#out + 1] = "}"
    else
      out[#out] = out[#out] .. kind
    end
  end
  for i = 1, n do add(list[i]) end
  return table.concat(out, " ")
end

--- How the functions are called; specs may put something around them (collected.lua).
M.around = H.pcall

-- Pairs -------------------------------------------------------------------------------------------------------------

local function pack(...) return { n = select("#", ...), ... } end

local Pair = {}
Pair.__index = Pair

--- build: text of a chunk, or a function; called for each world with a table W that it fills:
--- f (the function), args() (what it is called with), and where wanted enter() (before each call), state() (what
--- else can be seen; any number of values). options: those of compile.
function M.pair(build, options)
  local worlds = {}
  for i = 1, 2 do
    local W = {}
    local make = build
    if type(build) == "string" then make = assert(loadstring(build, "=cell")) end
    if jit then jit.off(make, true) end -- host traces would hide lines from the witness
    make(W, ty)
    W.args = W.args or function() end
    W.state = W.state or function() end
    worlds[i] = W
  end
  local p = setmetatable({ plain = worlds[1], twin = worlds[2] }, Pair)
  p.compiled = ty.compile(p.twin.f, options)
  p.source = debug.getinfo(p.twin.f, "S")
  return p
end

--- Calls fn(world) for both.
function Pair:each(fn, ...)
  fn(self.plain, ...)
  fn(self.twin, ...)
end

--- Runs a function with a hook that counts the lines of the user's function that are executed. A chunk of text is
--- the user's as a whole, of a function in a file its own lines are.
function Pair:witness(fn, ...)
  local own, lines = self.source, 0
  local whole = own.source == "=cell"
  debug.sethook(function(_, line)
    if debug.getinfo(2, "S").source ~= own.source then return end
    if whole or line >= own.linedefined and line <= own.lastlinedefined then lines = lines + 1 end
  end, "l")
  local result = pack(M.around(fn, ...))
  debug.sethook()
  return result, lines
end

local function observe(W, f, hooked)
  if W.enter then W.enter() end
  local args = pack(W.args())
  local result, lines
  if hooked then
    result, lines = hooked:witness(f, unpack(args, 1, args.n))
  else
    result = pack(M.around(f, unpack(args, 1, args.n)))
  end
  local state = pack(W.state())
  local text = M.text({ result, args, state }, 3)
  return text, result, lines
end

--- One call in both worlds; raises where anything that can be seen differs. Gives the plain call's results, from
--- pcall, and with `hooked` the number of lines of the user's function that ran in the compiled call.
function Pair:call(hooked)
  local want, result = observe(self.plain, self.plain.f)
  local got, _, lines = observe(self.twin, self.compiled, hooked and self)
  if want ~= got then
    local at = 1
    while want:byte(at) == got:byte(at) do at = at + 1 end
    local from, to = math.max(1, at - 60), at + 60
    error(("plain:    ..%s\ncompiled: ..%s"):format(want:sub(from, to), got:sub(from, to)), 0)
  end
  return result, lines
end

--- Whether one more call runs none of the user's lines and is counted as skipped.
function Pair:skips()
  local before = ty.explain(self.compiled).skips
  local _, lines = self:call(true)
  local counted = ty.explain(self.compiled).skips - before
  if (counted == 1) ~= (lines == 0) then
    error(("%d calls counted as skipped, but %d lines ran"):format(counted, lines), 0)
  end
  return lines == 0
end

--- Calls until Lua is skipped, at least `least` times and at most `most`. Gives whether it was, and the last plain
-- result.
--- A function whose plain call raises is called `least` times.
function Pair:settle(least, most)
  local result
  for _ = 1, least or 3 do result = self:call() end
  if not result[1] then return false, result end
  for _ = 1, (most or 16) do
    if self:skips() then return true, result end
  end
  return false, result
end

function Pair:captures() return ty.explain(self.compiled).captures end

--- What explain tells about why there was no skip, for messages.
function Pair:story()
  local e, out = ty.explain(self.compiled), {}
  for _, a in ipairs(e.aborts or {}) do out[#out + 1] = ("abort at line %s: %s"):format(tostring(a.line),
  tostring(a.reason)) end
  for _, m in ipairs(e.misses or {}) do
    out[#out + 1] = type(m) == "table" and ("miss: %s"):format(tostring(m.guard or m[1])) or "miss: " .. tostring(m)
  end
  return table.concat(out, "; ", math.max(1, #out - 4))
end

return M
