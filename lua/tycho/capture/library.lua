--- library.lua -- Lua's own library functions as captured code sees them.
-- In: arguments with shadows. Out: results with shadows. native_table.lua tells which functions are called, computed or
-- modelled here or in threads.lua, and which abort (print, io, os, debug, load and its relatives, random numbers).
--
-- A model is function(world, args, shadows, n, f) -> results, shadows, count. Rules:
-- 1. It does what LuaJIT's function does, raw where that is raw, in the same order where captured code runs inside.
-- 2. Values that only pass through keep their shadows; what decides is pinned.
-- 3. Functions are known by identity: some builds of LuaJIT write string.len or table.remove in bytecode.
-- 4. What would raise natively aborts: the native run raises it then. Only error() and assert() under a pcall that is
--    evaluated too are modelled errors, which that pcall catches.

local format, match, sub = string.format, string.match, string.sub
local floor, native_sort = math.floor, table.sort
local type, tostring, tonumber, select, unpack, rawequal = type, tostring, tonumber, select, unpack, rawequal
local pcall, error, assert, getmetatable, setmetatable = pcall, error, assert, getmetatable, setmetatable
local next, pairs, ipairs = next, pairs, ipairs

local names = require "tycho.capture.names"
local rows = require("tycho.capture.native_table").library
local undisturbed = require("tycho").internals.undisturbed -- what a hook raises is no answer of the host's

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

--- What a modelled error() raises.
local Raised = {}

local function pack(...) return { ... }, select("#", ...) end

local function known(s) return s == nil or s.pinned end

local NONE = {}

--- One result.
local function one(v, s) return { v }, { s }, 1 end

--- A position as functions of the host take it: a number, or its text. Fractions are cut there and others than of 32
--- bits wrap around or raise, which is left to the native run.
local function position(world, v, s)
  world:pin(v, s)
  local k = (type(v) == "number" or type(v) == "string") and tonumber(v)
  if not k or k % 1 ~= 0 or k < -2 ^ 31 or k >= 2 ^ 31 then world:abort("a library function is given no position") end
  return k
end

--- The same, or what stands for nil.
local function position_or(world, v, s, default)
  if not rawequal(v, nil) then return position(world, v, s) end
  world:typed(v, s)
  return default
end

--- What remove gives for an empty table: nothing, or nil.
local EMPTY_REMOVE = select("#", table.remove {})
--- Whether it asks metamethods for what it moves.
local REMOVE_IS_RAW = (function()
  local t = { 1, 2 }
  t[1] = nil
  return table.remove(setmetatable(t, { __index = function() return 3 end, __newindex = function() end }), 1) == nil
end)()
--- LuaJIT may be built so that pairs asks a metamethod.
local PAIRS_EVENT = select(3, pairs(setmetatable({}, { __pairs = function() return next, {}, 7 end }))) == 7

--- Models by name, of those functions whose rows say so.
local model = {}
for name, run in pairs(require "tycho.capture.threads") do model[name] = run end
--- What runs in place of a function, by function.
local models = {}

-- Pure functions ------------------------------------------------------------------------------------------------------

--- Its arguments are plain values; they are pinned and it is called.
local function pure(world, args, shadows, n, f)
  for i = 1, n do
    local kind = type(args[i])
    if kind ~= "number" and kind ~= "string" and kind ~= "boolean" and kind ~= "nil" then
      world:abort(format("a library function is given a %s", kind))
    end
    world:pin(args[i], shadows[i])
  end
  local results, count = pack(f(unpack(args, 1, n)))
  return results, NONE, count
end

--- The iterator lives and dies with the capture, so its state is no matter.
model["string.gmatch"] = function(world, args, shadows, n, f)
  local results, _, count = pure(world, args, shadows, n, f)
  world.iterators[results[1]] = "gmatch"
  return results, NONE, count
end

-- Numbers -------------------------------------------------------------------------------------------------------------

--- Whether a function that draws gives a number for arguments, and cannot raise.
local draws = {
  ["math.random"] = function(args, n)
    for i = 1, n do
      local v = args[i]
      if type(v) ~= "number" or v % 1 ~= 0 or v < -2 ^ 31 or v >= 2 ^ 31 then return false end
    end
    return n == 0 or n == 1 and args[1] >= 1 or n == 2 and args[1] <= args[2]
  end,
  ["os.clock"] = function(_, n) return n == 0 end,
  ["os.time"] = function(_, n) return n == 0 end,
  collectgarbage = function(args, n) return n == 1 and args[1] == "count" end,
}

--- It is called in each run, when all guards have held. Its arguments are pinned.
local function draw(world, args, shadows, n, f)
  local name = names.library[f]
  local own = {}
  for i = 1, n do own[i] = world:pin(args[i], shadows[i]) end
  if not draws[name](own, n) then world:abort("calls " .. name, rows[name].hint) end
  return one(world:draw(f, own, name .. "()"))
end

local exact = { [math.floor] = "floor", [math.ceil] = "ceil", [math.abs] = "abs", [math.sqrt] = "sqrt" }
-- LuaJIT's interpreter may give 0 where IEEE gives -0, unlike its compiler.
for f, arguments in pairs { [math.floor] = { -0.0 }, [math.ceil] = { -0.0, -0.4, -0.9 }, [math.sqrt] = { -0.0 } } do
  for _, x in ipairs(arguments) do
    local zero = f(x)
    if zero == 0 and 1 / zero > 0 then exact[f] = nil end
  end
end

local function symbolic(args, shadows, n)
  local any = false
  for i = 1, n do
    if type(args[i]) ~= "number" then return false end
    any = any or not known(shadows[i])
  end
  return any
end

--- Two numbers to one number.
local function binary(world, args, shadows, n, f)
  if n == 2 and symbolic(args, shadows, 2) then
    return one(world:numeric_call(f, f(args[1], args[2]), args[1], shadows[1], args[2], shadows[2]))
  end
  return pure(world, args, shadows, n, f)
end

--- One number to one number; log takes a base too.
local function unary(world, args, shadows, n, f)
  if n == 1 and symbolic(args, shadows, 1) then
    local a, as = args[1], shadows[1]
    if exact[f] then return one(world:numeric(exact[f], f(a), a, as)) end
    return one(world:numeric_call(f, f(a), a, as))
  end
  return binary(world, args, shadows, n, f)
end

--- min and max go from left to right.
local function fold(world, args, shadows, n, f)
  if not symbolic(args, shadows, n) then return pure(world, args, shadows, n, f) end
  local v, s = args[1], shadows[1]
  for i = 2, n do
    local w, ws = args[i], shadows[i]
    if known(s) and known(ws) then
      v, s = f(v, w), nil
    else
      v, s = world:numeric_call(f, f(v, w), v, s, w, ws)
    end
  end
  return one(v, s)
end

local second = {} -- the second results of modf and frexp, as functions of their own
for name, f in pairs { modf = math.modf, frexp = math.frexp } do
  second[f] = function(x) return (select(2, f(x))) end
  model["math." .. name] = function(world, args, shadows, n)
    if n ~= 1 or not symbolic(args, shadows, 1) then return pure(world, args, shadows, n, f) end
    local a, as = args[1], shadows[1]
    local x, y = f(a)
    local _, xs = world:numeric_call(f, x, a, as)
    local _, ys = world:numeric_call(second[f], y, a, as)
    return { x, y }, { xs, ys }, 2
  end
end

-- Types and conversion ------------------------------------------------------------------------------------------------

model.type = function(world, args, shadows, n)
  if n == 0 then world:abort("type is given nothing") end
  world:typed(args[1], shadows[1])
  return one(type(args[1]))
end

model.tonumber = function(world, args, shadows, n)
  local v, s = args[1], shadows[1]
  if n >= 2 and not rawequal(args[2], nil) then return pure(world, args, shadows, n, tonumber) end
  if n >= 2 then world:typed(args[2], shadows[2]) end
  if type(v) == "number" then return one(v, s) end
  if type(v) == "string" then return one(tonumber(world:pin(v, s))) end
  if n == 0 or type(v) == "cdata" then world:abort("tonumber is given no plain value") end
  world:typed(v, s)
  return one(nil)
end

model.tostring = function(world, args, shadows, n)
  local v, s = args[1], shadows[1]
  if type(v) == "string" then
    world:typed(v, s)
    return one(v, s)
  end
  if n == 0 then world:abort("tostring is given nothing") end
  if type(v) ~= "number" and type(v) ~= "boolean" and type(v) ~= "nil" then
    world:abort(format("tostring of a %s", type(v)))
  end
  return one(tostring(world:pin(v, s)))
end

model.select = function(world, args, shadows, n)
  local k = world:pin(args[1], shadows[1])
  if k == "#" then return one(n - 1) end
  k = position(world, k)
  if k < 0 then k = n + k end
  if k < 1 then world:abort("select is out of range") end
  local results, out, count = {}, {}, 0
  for i = k + 1, n do
    count = count + 1
    results[count], out[count] = args[i], shadows[i]
  end
  return results, out, count
end

model.rawequal = function(world, args, shadows, n)
  if n < 2 then world:abort("rawequal is given too little") end
  local a, as, b, bs = args[1], shadows[1], args[2], shadows[2]
  local kind = type(a)
  if kind == type(b) and (kind == "table" or kind == "function" or kind == "userdata") then
    return one(world:same_object(a, as, b, bs))
  end
  return one(world:equal(a, as, b, bs))
end

--- Of a module that is loaded; others run code of their own when they are.
model.require = function(world, args, shadows, _, f)
  if not world.C.is_native(f) then world:abort "calls a require that is not the host's" end
  local name = world:pin(args[1], shadows[1])
  if type(name) ~= "string" then world:abort("require is given no name") end
  local modules, ms = world:loaded_modules()
  local v, s = world:index(modules, ms, name, nil)
  if not world:truth(v, s) then world:abort("require loads a module", "load it before") end
  if type(v) == "userdata" and not world.is_tensor(v) then world:abort("a module is a userdata") end
  return one(v, s)
end

-- Tables --------------------------------------------------------------------------------------------------------------

local function check_table(world, args, shadows, name)
  if type(args[1]) == "table" then return world:table_of(args[1], shadows[1]) end
  world:typed(args[1], shadows[1])
  local kind = type(args[1])
  return world:abort(format("%s is given a %s", name, kind), nil, kind == "nil" and "error" or nil)
end

model.rawget = function(world, args, shadows, n)
  if n < 2 then world:abort("rawget is given too little") end
  check_table(world, args, shadows, "rawget")
  local k, ks = world:key_of(args[1], shadows[1], args[2], shadows[2])
  local v, s = world:raw_index(args[1], shadows[1], k, ks)
  return one(v, s)
end

model.rawset = function(world, args, shadows, n)
  if n < 3 then world:abort("rawset is given too little") end
  check_table(world, args, shadows, "rawset")
  local k, ks = world:key_of(args[1], shadows[1], args[2], shadows[2])
  world:raw_newindex(args[1], shadows[1], k, args[3], shadows[3], ks)
  return one(args[1], shadows[1])
end

model.getmetatable = function(world, args, shadows, n)
  local v, s = args[1], shadows[1]
  if n == 0 then world:abort("getmetatable is given nothing") end
  if type(v) == "userdata" then return one(getmetatable(world:pin(v, s))) end
  local mt, ms
  if type(v) == "table" then
    mt, ms = world:metatable(world:table_of(v, s))
  else
    world:typed(v, s)
    if type(v) ~= "string" then return one(world:constant(getmetatable(v))) end
    mt, ms = world:string_metatable()
  end
  if mt == nil then return one(nil) end
  local shown, ss = world:raw_index(mt, ms, "__metatable")
  world:typed(shown, ss)
  if not rawequal(shown, nil) then return one(shown, ss) end
  return one(mt, ms)
end

model.setmetatable = function(world, args, shadows, n)
  local o = check_table(world, args, shadows, "setmetatable")
  local mt, ms = args[2], shadows[2]
  if not o.fresh then world:abort("sets the metatable of a table from outside") end
  if n < 2 or (type(mt) ~= "nil" and type(mt) ~= "table") then world:abort("setmetatable is given no table") end
  if o.meta ~= nil then
    local shown, ss = world:raw_index(o.meta, o.meta_shadow, "__metatable")
    world:typed(shown, ss)
    if not rawequal(shown, nil) then world:abort("cannot change a protected metatable") end
  end
  if type(mt) == "nil" then world:typed(mt, ms) else world:table_of(mt, ms) end
  o.meta, o.meta_shadow = mt, ms
  return one(args[1], shadows[1])
end

model.next = function(world, args, shadows)
  check_table(world, args, shadows, "next")
  local k, v, s = world:next(args[1], shadows[1], world:pin(args[2], shadows[2]))
  if rawequal(k, nil) then return one(nil) end
  return { k, v }, { nil, s }, 2
end

model.pairs = function(world, args, shadows)
  local o = check_table(world, args, shadows, "pairs")
  if PAIRS_EVENT and world:event_of(o, "__pairs") ~= nil then world:abort("pairs of a table with __pairs") end
  return { next, args[1], nil }, { nil, shadows[1], nil }, 3
end

local next_position = ipairs {} -- what ipairs iterates with

models[next_position] = function(world, args, shadows)
  check_table(world, args, shadows, "ipairs")
  local i = position(world, args[2], shadows[2]) + 1
  local v, s = world:raw_index(args[1], shadows[1], i)
  world:typed(v, s)
  if rawequal(v, nil) then return {}, NONE, 0 end
  return { i, v }, { nil, s }, 2
end

model.ipairs = function(world, args, shadows)
  local o = check_table(world, args, shadows, "ipairs")
  if PAIRS_EVENT and world:event_of(o, "__ipairs") ~= nil then world:abort("ipairs of a table with __ipairs") end
  return { next_position, args[1], 0 }, { nil, shadows[1], nil }, 3
end

model.unpack = function(world, args, shadows)
  local o = check_table(world, args, shadows, "unpack")
  local first, last = position_or(world, args[2], shadows[2], 1), position_or(world, args[3], shadows[3], nil)
  last = last or world:table_length(o)
  if last - first >= 7900 then world:abort("unpack of too many values") end
  local results, out, count = {}, {}, 0
  for i = first, last do
    count = count + 1
    results[count], out[count] = world:raw_index(args[1], shadows[1], i)
  end
  return results, out, count
end
model["table.unpack"] = model.unpack

model["table.getn"] = function(world, args, shadows)
  return one(world:table_size(check_table(world, args, shadows, "table.getn")))
end

model["table.insert"] = function(world, args, shadows, n)
  local o = check_table(world, args, shadows, "table.insert")
  if n ~= 2 and n ~= 3 then world:abort("table.insert is given a wrong number of arguments") end
  local t, ts = args[1], shadows[1]
  if n == 2 then
    local length, ls = world:table_size(o)
    local at, as = world:arith("add", length, ls, 1, nil)
    world:raw_newindex(t, ts, at, args[2], shadows[2], as)
    return {}, NONE, 0
  end
  local at = world:table_length(o) + 1
  if n == 3 then
    local to = position(world, args[2], shadows[2])
    for i = at, to + 1, -1 do
      local v, s = world:raw_index(t, ts, i - 1)
      world:raw_newindex(t, ts, i, v, s)
    end
    at = to
  end
  world:raw_newindex(t, ts, at, args[n], shadows[n])
  return {}, NONE, 0
end

local function removed_from(world, t, ts, k, ks)
  if not REMOVE_IS_RAW then return world:index(t, ts, k, ks) end
  local v, s = world:raw_index(t, ts, k, ks)
  return v, s
end

local function remove_writes(world, t, ts, k, ks, v, vs)
  if not REMOVE_IS_RAW then return world:newindex(t, ts, k, ks, v, vs) end
  return world:raw_newindex(t, ts, k, v, vs, ks)
end

model["table.remove"] = function(world, args, shadows)
  local o = check_table(world, args, shadows, "table.remove")
  local t, ts = args[1], shadows[1]
  local at = position_or(world, args[2], shadows[2], nil)
  if at == nil then
    local last, ls = world:table_size(o)
    if world:compare_numbers("eq", last, ls, 0, nil) then return { nil }, NONE, EMPTY_REMOVE end
    local old, os = removed_from(world, t, ts, last, ls)
    remove_writes(world, t, ts, last, ls, nil, nil)
    return one(old, os)
  end
  local length = world:table_length(o)
  if at < 1 or at > length then return { nil }, NONE, EMPTY_REMOVE end
  local old, os = removed_from(world, t, ts, at, nil)
  for i = at + 1, length do
    local v, s = removed_from(world, t, ts, i, nil)
    remove_writes(world, t, ts, i - 1, nil, v, s)
  end
  remove_writes(world, t, ts, length, nil, nil, nil)
  return one(old, os)
end

model["table.concat"] = function(world, args, shadows, _, f)
  local o = check_table(world, args, shadows, "table.concat")
  local separator = world:pin(args[2], shadows[2])
  local kind = type(separator)
  if kind ~= "string" and kind ~= "number" and kind ~= "nil" then world:abort("table.concat is given no text") end
  local first, last = position_or(world, args[3], shadows[3], 1), position_or(world, args[4], shadows[4], nil)
  last = last or world:table_length(o)
  local list = {}
  for i = first, last do
    local v, s = world:raw_index(args[1], shadows[1], i)
    list[#list + 1] = world:pin(v, s)
    if type(v) ~= "string" and type(v) ~= "number" then world:abort("table.concat meets no text") end
  end
  return one(f(list, separator))
end

-- table.sort, as the host does it: comparisons see what has been moved so far, and may move and raise themselves.

--- Sorts positions low to high. get(i) -> value, shadow; set(i, value, shadow); less(a, as, b, bs) -> boolean. False
--- where the order that less gives is none.
local function sort(get, set, less, low, high)
  while low < high do
    local a, as = get(low)
    local b, bs = get(high)
    if less(b, bs, a, as) then
      set(low, b, bs)
      set(high, a, as)
    end
    if high - low == 1 then break end
    local middle = floor((low + high) / 2)
    local p, ps = get(middle)
    a, as = get(low)
    if less(p, ps, a, as) then
      set(middle, a, as)
      set(low, p, ps)
    else
      b, bs = get(high)
      if less(b, bs, p, ps) then
        set(middle, b, bs)
        set(high, p, ps)
      end
    end
    if high - low == 2 then break end
    p, ps = get(middle)
    a, as = get(high - 1)
    set(middle, a, as)
    set(high - 1, p, ps)
    local i, j = low, high - 1
    while true do
      i = i + 1
      a, as = get(i)
      while less(a, as, p, ps) do
        if i >= high then return false end
        i = i + 1
        a, as = get(i)
      end
      j = j - 1
      b, bs = get(j)
      while less(p, ps, b, bs) do
        if j <= low then return false end
        j = j - 1
        b, bs = get(j)
      end
      if j < i then break end
      set(i, b, bs)
      set(j, a, as)
    end
    a, as = get(high - 1)
    b, bs = get(i)
    set(high - 1, b, bs)
    set(i, a, as)
    local from, to = low, i - 1 -- the smaller part, which is sorted first
    if i - low < high - i then
      low = i + 1
    else
      from, to, high = i + 1, high, i - 1
    end
    if not sort(get, set, less, from, to) then return false end
  end
  return true
end

--- Whether the host compares and moves as sort does: it is tried with lists that take every branch.
local function is_hosts_sort()
  local seed = 1
  for length = 0, 40 do
    local ours, theirs, log, logged = {}, {}, {}, 0
    for i = 1, length do
      seed = seed * 16807 % 2147483647
      ours[i] = seed % length
      theirs[i] = ours[i]
    end
    sort(function(i) return ours[i] end, function(i, v) ours[i] = v end, function(a, _, b)
      log[#log + 1] = a * 64 + b
      return a < b
    end, 1, length)
    local same = true
    native_sort(theirs, function(a, b)
      logged = logged + 1
      same = same and log[logged] == a * 64 + b
      return a < b
    end)
    for i = 1, length do same = same and ours[i] == theirs[i] end
    if not same or logged ~= #log then return false end
  end
  return true
end

local sorts_alike -- unknown until a capture sorts

model["table.sort"] = function(world, args, shadows, n)
  if sorts_alike == nil then
    local ok, alike = undisturbed(is_hosts_sort)
    sorts_alike = ok and alike
  end
  if not sorts_alike then world:abort("the host's table.sort is of another kind") end
  local o = check_table(world, args, shadows, "table.sort")
  local t, ts = args[1], shadows[1]
  local before, bs = args[2], shadows[2]
  local length = world:table_length(o)
  if n >= 2 then
    world:typed(before, bs)
    if type(before) ~= "nil" and type(before) ~= "function" then world:abort("table.sort is given no function") end
  end
  local function less(a, as, b, bbs)
    if before == nil then return world:less(a, as, b, bbs) end
    local results, out, count = world.apply(before, bs, { a, b }, { as, bbs }, 2)
    return count > 0 and world:truth(results[1], out[1])
  end
  local function get(i) return world:raw_index(t, ts, i) end
  local function set(i, v, s) world:raw_newindex(t, ts, i, v, s) end
  if not sort(get, set, less, 1, length) then world:abort("invalid order function for sorting") end
  return {}, NONE, 0
end

model["table.new"] = function(world, args, shadows, n, f)
  pure(world, args, shadows, n, f) -- raises what it raises
  return one(world:new_table(args[1], args[2]))
end

-- Errors --------------------------------------------------------------------------------------------------------------

local function raise(world, v, s)
  if world.catching == 0 then
    world:abort("an error is raised" .. (type(v) == "string" and ": " .. v or ""), nil, "error")
  end
  return error(setmetatable({ value = v, shadow = s }, Raised), 0)
end

model.error = function(world, args, shadows, n)
  local v, s = args[1], shadows[1]
  local level = 1
  if n >= 2 then
    world:typed(args[2], shadows[2])
    if not rawequal(args[2], nil) then
      level = tonumber(world:pin(args[2], shadows[2]))
      if level == nil or type(args[2]) == "cdata" then world:abort("error is given a level that is no number") end
    end
  end
  if level ~= 0 and (type(v) == "string" or type(v) == "number") then
    world:pin(v, s)
    if level ~= 1 then world:abort("error is given a level") end
    v, s = world:position() .. v, nil
  end
  return raise(world, v, s)
end

--- What the host's assert raises, called by a Lua function.
local function assert_raises(...)
  local _, v = undisturbed(function(...)
    local _ = assert(...)
  end, ...)
  return v
end

local PLACE = match(tostring(assert_raises(false)), "^(.*)assertion failed!$") or "" -- of the call above
--- Hosts differ in whether a message that is no text is passed on: the last argument is.
local PASSES_ON = assert_raises(false, nil, PLACE) == PLACE

model.assert = function(world, args, shadows, n)
  if n == 0 then world:abort("assert is given nothing") end
  if world:truth(args[1], shadows[1]) then return args, shadows, n end
  if n >= 2 then world:typed(args[2], shadows[2]) end
  local text
  if n >= 2 and (type(args[2]) == "string" or type(args[2]) == "number") then
    text = assert_raises(false, world:pin(args[2], shadows[2]))
  elseif n == 1 or (rawequal(args[2], nil) and not PASSES_ON) then
    text = assert_raises(false)
  elseif PASSES_ON then
    return raise(world, args[n], shadows[n])
  else
    world:abort("assert is given a message that is no text")
  end
  if PLACE ~= "" and sub(text, 1, #PLACE) == PLACE then text = world:position() .. sub(text, #PLACE + 1) end
  return raise(world, text, nil)
end

model.pcall = function(world, args, shadows, n)
  if n == 0 then world:abort("pcall is given nothing") end
  local values, value_shadows = {}, {}
  for i = 2, n do values[i - 1], value_shadows[i - 1] = args[i], shadows[i] end
  world.catching = world.catching + 1
  local ok, results, out, count = pcall(world.apply, args[1], shadows[1], values, value_shadows, n - 1)
  world.catching = world.catching - 1
  if ok then
    local all, all_shadows = { true }, {}
    for i = 1, count do all[i + 1], all_shadows[i + 1] = results[i], out[i] end
    return all, all_shadows, count + 1
  end
  if getmetatable(results) ~= Raised then error(results, 0) end
  return { false, results.value }, { nil, results.shadow }, 2
end

-- Rows ----------------------------------------------------------------------------------------------------------------

local kinds = { call = pure, draw = draw, unary = unary, binary = binary, fold = fold }
local has_new, new_table = pcall(require, "table.new")

for name, row in pairs(rows) do
  local f = name == "table.new" and has_new and new_table or names.find(name)
  local run = kinds[row.capture] or model[name]
  if row.capture == "model" and not run then error("no model of " .. name) end
  if f and row.capture ~= "abort" then models[f] = run end
end

return function(World)
  World.Raised, World.raise = Raised, raise
  return models
end
