--- description.lua -- an independent reading of what a capture describes.
-- core(ty): stands in for the C side of a capture, in plain Lua: records the description and runs nothing.
-- lint(d): whether a description is well formed. run(d, f, n, ...): checks its guards against the world as it is now
-- and, when they hold, makes results and effects by the description alone. Slow and obvious on purpose.

local new_table = require("tycho").internals.capture.table

local M = {}

local DEFERRED = 65536 -- numbers that depend on sizes are counted from here on, and come behind others
local DRAWN = 131072 -- and those that are drawn from here on, and come behind all others

-- The stand-in --------------------------------------------------------------------------------------------------------

--- Whatever operations on tensors do is done at once: enough for functions that make tensors, not for those that write
--- to them. Numbers are never taken as run-time scalars.
function M.core(ty)
  local C = { open = false, description = nil, outside_of = {}, DEFERRED = DEFERRED, DRAWN = DRAWN, UNKNOWN = 0.5, LIST_MOST = 64 }
  function C.session(_, fn, ...)
    C.open, C.description, C.outside_of, C.pending = true, nil, {}, nil
    local function close(...)
      C.open = false
      return ...
    end
    return close(pcall(fn, ...))
  end
  function C.reason() return nil end
  function C.located() end
  function C.place() end
  function C.outside(tensor, slot) C.outside_of[tensor] = slot end
  function C.symbols() end
  function C.taken() return 0 end
  function C.wholeness() end
  function C.finish(d)
    C.open, C.description = false, d
    return true
  end
  function C.upvalue(f, i) return (select(2, debug.getupvalue(f, i))) end
  C.upvalue_id = debug.upvalueid
  C.environment, C.table = debug.getfenv, ty.internals.capture.table
  C.is_tensor = ty.is_tensor
  function C.viewed() end
  function C.sharing() return "" end
  function C.rules() end
  function C.is_native(f) return debug.getinfo(f, "S").what == "C" end
  local internals = setmetatable({ capture = C }, { __index = ty.internals })
  local core = {}
  for name, v in pairs(ty) do core[name] = v end
  core.internals = internals
  return core, C
end

-- Numbers -------------------------------------------------------------------------------------------------------------

local function same_bits(a, b)
  if a ~= a or b ~= b then return a ~= a and b ~= b end
  return a == b and 1 / a == 1 / b
end

--- Raw identity; numbers by bits.
local function same(a, b)
  if type(a) == "number" and type(b) == "number" then return same_bits(a, b) end
  return rawequal(a, b)
end

--- Whether the positions of a table are 1 to n without holes, and few.
local function is_list(t)
  local n = 0
  for k in next, t do
    if type(k) == "number" and k >= 1 and k % 1 == 0 then n = n + 1 end
  end
  for i = 1, n do
    if rawget(t, i) == nil then return false end
  end
  return n <= 64
end

local function is_whole(x) return x == math.floor(x) and x - x == 0 end

local numeric = {
  const = function(_, v) return v end,
  size = function(x, k) return x.sizes[k] end,
  add = function(x, a, b) return x[a] + x[b] end,
  sub = function(x, a, b) return x[a] - x[b] end,
  mul = function(x, a, b) return x[a] * x[b] end,
  div = function(x, a, b) return x[a] / x[b] end,
  unm = function(x, a) return -x[a] end,
  abs = function(x, a) return math.abs(x[a]) end,
  floor = function(x, a) return math.floor(x[a]) end,
  ceil = function(x, a) return math.ceil(x[a]) end,
  sqrt = function(x, a) return math.sqrt(x[a]) end,
  call = function(x, f, a, b)
    if b then return (f(x[a], x[b])) end
    return (f(x[a]))
  end,
  draw = function(_, f, list) return (f(unpack(list))) end,
}

-- Well-formedness -----------------------------------------------------------------------------------------------------

-- Operands: s slot, t slot of a table or function, n number expression, v any value, b boolean, i whole number, f function
local shapes = {
  upvalue = "+ti", env = "+t", field = "+tv", at = "+tn", metatable = "+t", unscoped = "",
  string_metatable = "+", loaded = "+", grad = "+s", hooks = "+s", no_grad = "s",
  type = "sv", equal = "sv", same = "ss", distinct = "ss",
  cell_same = "ssii", cell_distinct = "ssii",
  length = "ti", list = "t", entries = "#t", key = "nb", keys = "tv", tensor = "sv", closure = "sf", number = "#s", bound = "#si",
  const = "#v", size = "#i", add = "#nn", sub = "#nn",
  mul = "#nn", div = "#nn", unm = "#n", abs = "#n", floor = "#n", ceil = "#n", sqrt = "#n", call = "#fnN", draw = "#fv", lt = "nnb",
  le = "nnb", eq = "nnb", whole = "nb",
}

M.shapes = shapes

--- Where the next number goes: by which stage its instruction belongs to.
local function next_number(d, i, number)
  local first = i > d.late and DRAWN or i > d.early and DEFERRED or 0
  return math.max(number, first) + 1
end

local function whole_in(v, low, high) return type(v) == "number" and v % 1 == 0 and v >= low and v <= high end

--- Raises with what is wrong; returns the numbers of slots and expressions.
function M.lint(d)
  local slots, numbers, known = d.narg + 1, 0, {}
  local guarded = { [d.narg + 1] = true } -- slots whose type is known, so that they may be read
  local function check(ok, i, text) if not ok then error(("instruction %d: %s"):format(i, text), 0) end end
  for i, instr in ipairs(d.program) do
    local shape = shapes[instr[1]]
    check(shape, i, "unknown name " .. tostring(instr[1]))
    local at = 1
    for kind in shape:gmatch("%a") do
      at = at + 1
      local v = instr[at]
      if kind == "s" or kind == "t" then check(whole_in(v, 1, slots), i, "no such slot " .. tostring(v)) end
      if kind == "t" then check(guarded[v], i, "slot " .. v .. " is read but its type is not guarded") end
      if kind == "n" or kind == "N" and v ~= nil then check(known[v], i, "no such number") end
      if kind == "b" then check(type(v) == "boolean", i, "no boolean") end
      if kind == "i" then check(whole_in(v, 0, 2 ^ 52), i, "no whole number") end
      if kind == "f" then check(type(v) == "function", i, "no function") end
    end
    if shape:sub(1, 1) == "+" then slots = slots + 1 end
    if shape:sub(1, 1) == "#" then
      numbers = next_number(d, i, numbers)
      known[numbers] = true
    end
    local name, v = instr[1], instr[3]
    if name == "type" and v == "table" or name == "closure" or name == "equal" and type(v) == "table"
      or name == "equal" and type(v) == "function" then
      guarded[instr[2]] = true
    end
    if name == "same" then
      local a, b = instr[2], instr[3]
      guarded[a], guarded[b] = guarded[a] or guarded[b], guarded[a] or guarded[b]
    end
  end
  local function recipe(r, what)
    local ok = r[1] == "behind" and guarded[r[2]] and what:find "^key of effect"
      or r[1] == "value" or r[1] == "slot" and whole_in(r[2], 1, slots)
      or r[1] == "number" and known[r[2]]
      or r[1] == "tensor" and d.tensors[r[2]] ~= nil or r[1] == "table" and d.tables[r[2]] ~= nil
    if not ok then error(("%s: bad recipe %s %s"):format(what, tostring(r[1]), tostring(r[2])), 0) end
  end
  for i = 1, d.nresults do recipe(d.results[i], "result " .. i) end
  for i, t in ipairs(d.tables) do
    if t.meta then recipe(t.meta, "metatable of table " .. i) end
    for _, entry in ipairs(t) do
      recipe(entry[1], "key of table " .. i)
      recipe(entry[2], "value in table " .. i)
    end
  end
  for i, e in ipairs(d.effects) do
    if e[1] == "set" then
      if not guarded[e[2]] then error(("effect %d: slot %d may be no table"):format(i, e[2]), 0) end
      recipe(e[3], "key of effect " .. i)
    elseif e[1] ~= "upvalue" and e[1] ~= "grad" then
      error(("effect %d: %s"):format(i, tostring(e[1])), 0)
    end
    recipe(e[4], "value of effect " .. i)
  end
  return slots, numbers
end

-- Running -------------------------------------------------------------------------------------------------------------

local function keys_are(t, list)
  local k
  for i = 1, #list + 1 do
    k = next(t, k)
    if not rawequal(k, list[i]) then return false end
  end
  return true
end

local function same_layout(x, y)
  if not (debug.getmetatable(x) and debug.getmetatable(x) == debug.getmetatable(y)) then return false end
  return x.dtype == y.dtype and x.requires_grad == y.requires_grad and x.is_leaf == y.is_leaf
    and table.concat(x.shape, ",") == table.concat(y.shape, ",")
    and table.concat(x:stride(), ",") == table.concat(y:stride(), ",")
end

local read = {
  upvalue = function(s, f, i) return (select(2, debug.getupvalue(s[f], i))) end,
  env = function(s, f) return debug.getfenv(s[f]) end,
  field = function(s, t, k) return rawget(s[t], k) end,
  at = function(s, t, n, x) return rawget(s[t], x[n]) end,
  metatable = function(s, t) return debug.getmetatable(s[t]) end,
  string_metatable = function() return debug.getmetatable("") end,
  loaded = function() return package.loaded end,
  grad = function(s, t) return s[t].grad end,
  hooks = function(s, t) return (require("tycho").internals.capture.hooks(s[t])) end,
}

local guards = {
  type = function(s, _, k, name) return type(s[k]) == name end,
  equal = function(s, _, k, v) return same(s[k], v) end,
  same = function(s, _, a, b) return rawequal(s[a], s[b]) end,
  distinct = function(s, _, a, b) return not rawequal(s[a], s[b]) end,
  cell_same = function(s, _, a, b, i, k) return debug.upvalueid(s[a], i) == debug.upvalueid(s[b], k) end,
  cell_distinct = function(s, _, a, b, i, k) return debug.upvalueid(s[a], i) ~= debug.upvalueid(s[b], k) end,
  length = function(s, _, t, n) return #s[t] == n end,
  list = function(s, _, t) return type(s[t]) == "table" and is_list(s[t]) end,
  key = function(_, x, n, outcome) return (is_whole(x[n]) and math.abs(x[n]) < 2 ^ 31) == outcome end,
  keys = function(s, _, t, list) return keys_are(s[t], list) end,
  tensor = function(s, _, k, x) return type(s[k]) == "userdata" and same_layout(s[k], x) end,
  no_grad = function(s, _, k) return type(s[k]) == "userdata" and s[k].grad == nil end,
  closure = function(s, _, k, f) return type(s[k]) == "function" and string.dump(s[k]) == string.dump(f) end,
  unscoped = function() return true end,
  lt = function(_, x, a, b, outcome) return (x[a] < x[b]) == outcome end,
  le = function(_, x, a, b, outcome) return (x[a] <= x[b]) == outcome end,
  eq = function(_, x, a, b, outcome) return (x[a] == x[b]) == outcome end,
  whole = function(_, x, a, outcome) return is_whole(x[a]) == outcome end,
}

--- Whether the guards hold; slots and numbers when they do, else the instruction that failed.
function M.check(d, f, n, ...)
  if n ~= d.narg then return false, { "narg", n } end
  local s, x, slots, numbers = { ... }, { sizes = d.sizes }, n + 1, 0
  s[n + 1] = f
  for i, instr in ipairs(d.program) do
    local name = instr[1]
    if read[name] then
      slots = slots + 1
      s[slots] = read[name](s, instr[2], instr[3], x)
    elseif name == "number" or name == "bound" then
      if type(s[instr[2]]) ~= "number" then return false, instr end
      if name == "bound" and not same(s[instr[2]], d.sizes[instr[3]]) then return false, instr end
      numbers = next_number(d, i, numbers)
      x[numbers] = s[instr[2]]
    elseif name == "entries" then
      if type(s[instr[2]]) ~= "table" then return false, instr end
      numbers = next_number(d, i, numbers)
      x[numbers] = #s[instr[2]]
    elseif numeric[name] then
      numbers = next_number(d, i, numbers)
      x[numbers] = numeric[name](x, instr[2], instr[3], instr[4])
    elseif not guards[name](s, x, instr[2], instr[3], instr[4], instr[5]) then
      return false, instr
    end
  end
  return true, s, x
end

--- Results (packed, with n) and a function that carries out the effects; nil and the failed guard when a guard fails.
function M.run(d, f, n, ...)
  local ok, s, x = M.check(d, f, n, ...)
  if not ok then return nil, s end
  local made = {}
  for i, t in ipairs(d.tables) do made[i] = new_table(t.n_array, t.n_hash) end
  local function value(r)
    if r[1] == "slot" then return s[r[2]] end
    if r[1] == "number" then return x[r[2]] end
    if r[1] == "tensor" then return d.tensors[r[2]] end
    if r[1] == "table" then return made[r[2]] end
    if r[1] == "behind" then return #s[r[2]] + 1 end
    return r[2]
  end
  for i, t in ipairs(d.tables) do
    for _, entry in ipairs(t) do rawset(made[i], value(entry[1]), value(entry[2])) end
  end
  for i, t in ipairs(d.tables) do
    if t.meta then debug.setmetatable(made[i], value(t.meta)) end
  end
  local results = { n = d.nresults }
  for i = 1, d.nresults do results[i] = value(d.results[i]) end
  local function effects()
    for _, e in ipairs(d.effects) do
      if e[1] == "set" then
        rawset(s[e[2]], value(e[3]), value(e[4]))
      elseif e[1] == "grad" then
        s[e[2]].grad = value(e[4])
      else
        debug.setupvalue(s[e[2]], e[3], value(e[4]))
      end
    end
  end
  return results, effects
end

-- Text ----------------------------------------------------------------------------------------------------------------

--- A description as text, for messages of specs.
function M.text(d)
  local out, slot, number = {}, d.narg + 1, 0
  for at, instr in ipairs(d.program) do
    local parts, shape, mark = {}, shapes[instr[1]], ""
    for i = 1, #shape:gsub("%A", "") + 1 do
      local v = instr[i]
      parts[i] = type(v) == "table" and i == 3 and instr[1] == "keys" and ("%d keys"):format(#v) or tostring(v)
    end
    if shape:sub(1, 1) == "+" then
      slot = slot + 1
      mark = "s" .. slot .. " ="
    elseif shape:sub(1, 1) == "#" then
      number = next_number(d, at, number)
      mark = "n" .. number .. " ="
    end
    out[#out + 1] = ("%7s %-40s %s"):format(mark, table.concat(parts, " "), d.about[at] or "")
  end
  local function recipe(r) return tostring(r[1]) .. " " .. tostring(r[2]) end
  for i = 1, d.nresults do out[#out + 1] = ("result %d: %s"):format(i, recipe(d.results[i])) end
  for i, t in ipairs(d.tables) do
    for _, e in ipairs(t) do out[#out + 1] = ("table %d: [%s] = %s"):format(i, recipe(e[1]), recipe(e[2])) end
  end
  for _, e in ipairs(d.effects) do
    out[#out + 1] = ("effect: %s slot %d %s = %s"):format(e[1], e[2], e[1] == "set" and recipe(e[3]) or tostring(e[3]),
      recipe(e[4]))
  end
  return table.concat(out, "\n")
end

return M
