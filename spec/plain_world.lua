--- plain_world.lua -- a world for the evaluator in which everything means what it means in Lua, and all is known.
-- Closures made inside get a real function that evaluates them when it is called, so they may go anywhere: into
-- metatables, to pcall, to string.gsub. Shadows are nil throughout; `strange` counts those that were not.
--
-- Errors are the host's. An operation that it refuses is refused by a function of this file, whose operands are called a
-- and b, and a native function by `call_native`, which calls it callee: so the host's message tells what was wrong with
-- which operand. The place and the name in it are put right by the evaluated frame.

local bytecode = require "tycho.capture.bytecode"
local evaluate = require "tycho.capture.evaluate"
local plain_debug = require "spec.plain_debug"
local slot_name = require "spec.slot_name"

local getmetatable, getupvalue = debug.getmetatable, debug.getupvalue
local type, rawget, pcall, select, unpack, tonumber, error = type, rawget, pcall, select, unpack, tonumber, error
local getfenv, setfenv, module = getfenv, setfenv, module

local HERE = debug.getinfo(1, "S").short_src .. ":"
local new_table = require("tycho").internals.capture.table

local function pack(...) return { n = select("#", ...), ... } end

local World = {}
World.__index = World

function World:seen(...)
  for k = 1, select("#", ...) do
    if select(k, ...) ~= nil then self.strange = self.strange + 1 end
  end
end

-- Errors ---------------------------------------------------------------------------------------------------------------

--- A message of the host without the place in this file; nil where it is about something else.
local function ours(message)
  if type(message) ~= "string" or message:sub(1, #HERE) ~= HERE then return nil end
  return message:match("^%d+: (.*)$", #HERE + 1)
end

local function place_of(frame)
  local lines = frame.proto.lines
  return ("%s:%d: "):format(frame.proto.short, lines and lines[frame.at] or 0)
end

--- What raises where the running instruction stands.
function World:raise(text)
  error(place_of(self.stack[self.stack.depth]) .. text, 0)
end

--- Registers of an instruction's operands, by the names that they have in this file.
local operands = {
  index = function(i) return { a = i.b } end,
  arith = function(i)
    if i.c == nil then return { a = i.d } end
    local form = i.name:sub(-2)
    return form == "VN" and { a = i.b } or form == "NV" and { b = i.b } or { a = i.b, b = i.c }
  end,
  length = function(i) return { a = i.d } end,
}

--- Raises what the host has raised, as it would have in the evaluated frame; slots: registers of a and b.
function World:raise_again(message, slots)
  local text = ours(message)
  if not text then error(message, 0) end
  local what, operand, kind = text:match("^(attempt to .-) local '([ab])' %((.*)%)$")
  if what then
    local frame = self.stack[self.stack.depth]
    local namewhat, name
    if slots and slots[operand] then namewhat, name = slot_name(frame.proto, frame.at, slots[operand]) end
    text = name and ("%s %s '%s' (%s)"):format(what, namewhat, name, kind) or what .. " " .. kind
  end
  self:raise(text)
end

--- The result of one of this file's operations; find tells the registers of the operands.
function World:compute(find, operation, a, b, c)
  local ok, v = pcall(operation, a, b, c)
  if ok then return v end
  local frame = self.stack[self.stack.depth]
  return self:raise_again(v, find and find(frame.code[frame.at]))
end

-- Operations -----------------------------------------------------------------------------------------------------------

local function get(a, k) return a[k] end

function World:index(t, ts, k, ks)
  self:seen(ts, ks)
  if type(t) == "table" then
    local v = rawget(t, k)
    if v ~= nil or getmetatable(t) == nil then return v, nil end
  end
  return self:compute(operands.index, get, t, k), nil
end

local function set(a, k, v) a[k] = v end

function World:newindex(t, ts, k, ks, v, vs)
  self:seen(ts, ks, vs)
  self:compute(operands.index, set, t, k, v)
end

local operators = {
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end,
  mod = function(a, b) return a % b end,
  pow = function(a, b) return a ^ b end,
  unm = function(a) return -a end,
}

function World:arith(op, a, as, b, bs)
  self:seen(as, bs)
  return self:compute(operands.arith, operators[op], a, b), nil
end

function World:bits(name, a, as, b, bs)
  self:seen(as, bs)
  local ok, v = pcall(bytecode.bit_operators[name], a, b)
  if ok then return v, nil end
  local frame = self.stack[self.stack.depth]
  local text = v:match("^.-:%d+: (.*)$") -- of a function that bytecode.lua has compiled
  return self:raise_again(HERE .. "0: " .. text, operands.arith(frame.code[frame.at]))
end

function World.cdata(_, constant) return bytecode.cdata(constant) end

local function join(a, b) return a .. b end

--- As Lua joins values: from the right, a metamethod as soon as one of two is neither string nor number.
function World:concat(values, shadows, n)
  self:seen(unpack(shadows, 1, n))
  local v = values[n]
  for k = n - 1, 1, -1 do
    v = self:compute(function(i) return { a = i.b + k - 1, b = i.b + k } end, join, values[k], v)
  end
  return v, nil
end

local function length(a) return #a end

function World:length(v, s)
  self:seen(s)
  return self:compute(operands.length, length, v), nil
end

local function equal(a, b) return a == b end
local function less(a, b) return a < b end
local function less_equal(a, b) return a <= b end

function World:equal(a, as, b, bs)
  self:seen(as, bs)
  return self:compute(nil, equal, a, b)
end

function World:less(a, as, b, bs)
  self:seen(as, bs)
  return self:compute(nil, less, a, b)
end

function World:less_equal(a, as, b, bs)
  self:seen(as, bs)
  return self:compute(nil, less_equal, a, b)
end

function World:truth(v, s)
  self:seen(s, true) -- nobody asks for the truth of a known value
  return v and true or false
end

function World:tonumber_for(v, s, what)
  self:seen(s)
  local number = (type(v) == "string" or type(v) == "number") and tonumber(v)
  if not number then self:raise(("'for' %s must be a number"):format(what)) end
  return number, nil
end

--- Hosts look at the sign bit of a step that is 0, -0 or NaN.
function World.goes_on(_, index, limit, step)
  local turns = false
  for _ = index, limit, step do -- luacheck: ignore
    turns = true
    break
  end
  return turns
end

if jit then jit.off(World.goes_on) end -- their trace compilers do not

-- Functions ------------------------------------------------------------------------------------------------------------

function World.pin(_, v) return v end

function World.upvalue(_, fn, _, i)
  local _, v = getupvalue(fn, i)
  return v, nil
end

function World:set_upvalue(fn, _, i, v, vs)
  self:seen(vs)
  debug.setupvalue(fn, i, v)
end

function World.environment(_, fn) return getfenv(fn), nil end

function World.metamethod(_, v, _, name)
  local meta = getmetatable(v)
  return meta and rawget(meta, name), nil
end

function World:new_table(n_array, n_hash)
  self.tables = self.tables + 1
  return new_table(n_array, n_hash)
end

function World:duplicate(template)
  self.tables = self.tables + 1
  local t = {}
  for k = 1, template.n_array do t[k - 1] = template.array[k] end
  for k = 1, template.n_hash do t[template.keys[k]] = template.values[k] end
  return t
end

--- Functions that stand for closures. What they stand for is their upvalue: in the table, it would keep them alive.
local placeholders = setmetatable({}, { __mode = "k" })
local RECORD = 3
function World.make_room(_, t) return t end

function World:closure(proto, cells, env, envs)
  local record = { proto = proto, cells = cells, env = env, envs = envs }
  local enter = self.enter
  local placeholder
  placeholder = function(...) return enter(placeholder, record, ...) end
  placeholders[placeholder] = true
  return placeholder
end

function World.closure_of(_, f)
  if not placeholders[f] then return nil end
  local _, record = getupvalue(f, RECORD)
  return record
end

function World:prefers_native(f) return self.natives[f] or false end

--- Where a call of something that is no function stands.
function World:cannot_call(v, caller)
  local text = ("attempt to call a %s value"):format(type(v))
  if caller ~= "lua" then error(text, 0) end
  local frame = self.stack[self.stack.depth]
  local kind, name = slot_name(frame.proto, frame.at, frame.code[frame.at].a)
  if name then text = ("attempt to call %s '%s' (a %s value)"):format(kind, name, type(v)) end
  self:raise(text)
end

function World:too_deep() self:raise("stack overflow") end

-- Native functions -----------------------------------------------------------------------------------------------------

local function call_native(callee, ...) return pack(callee(...)) end

--- The name by which an instruction calls a function.
local function called_as(frame)
  local i = frame.code[frame.at]
  local iterates = i.name == "ITERC" or i.name == "ITERN"
  if not iterates and not i.name:find("^CALL") then return nil end
  return slot_name(frame.proto, frame.at, iterates and i.a - 3 or i.a)
end

--- Raises what a native function has raised, as if `caller` had called it in the frame `site`.
local function raise_of_native(message, caller, site)
  local text = ours(message)
  if not text then error(message, 0) end
  local k, why = text:match("^bad argument #(%d+) to 'callee' %((.*)%)$")
  local lua = caller ~= "native" and site
  if k then
    local kind, name
    if lua then kind, name = called_as(site) end
    if kind == "method" then k = k - 1 end
    text = kind == "method" and k == 0 and ("calling '%s' on bad self (%s)"):format(name, why)
      or ("bad argument #%d to '%s' (%s)"):format(k, name or "?", why)
  end
  error((lua and place_of(lua) or "") .. text, 0)
end

local special = {}

special[error] = function(world, args, n)
  local level = n < 2 and 1 or tonumber(args[2])
  local kind = type(args[1])
  if (kind == "string" or kind == "number") and level and level >= 1 then
    error(evaluate.position(world, level) .. args[1], 0)
  end
  error(args[1], 0)
end

--- A native function that pcall calls has no evaluated function for its caller.
special[pcall] = function(world, args, n)
  local f = args[1]
  if type(f) ~= "function" or bytecode.prototype(f) then return call_native(pcall, unpack(args, 1, n)) end
  local stack = world.stack
  if stack.caller == "native" then stack.site = nil end -- then another native one is the next
  stack.caller = "native"
  local rest = { unpack(args, 2, n) }
  local outcome = pack(pcall(world.native, world, f, nil, rest, {}, n - 1))
  if not outcome[1] then return outcome end
  return pack(true, unpack(outcome[2], 1, outcome[4]))
end

special[string.dump] = function(world, args, n)
  local closure = world:closure_of(args[1])
  if not closure then return call_native(string.dump, unpack(args, 1, n)) end
  local dump = bytecode.dump(closure.proto)
  return pack(args[2] and string.dump(loadstring(dump), args[2]) or dump)
end

--- The environment of a function, or of the one at a level: gives what reads it and what writes it.
local function environment_of(world, f)
  local frame = type(f) ~= "function" and evaluate.level(world, f or 1) or nil
  if type(f) == "number" and not frame then return nil end
  local fn = frame and frame.fn or f
  local record = world:closure_of(fn)
  local function write(env)
    if record then record.env = env else setfenv(fn, env) end
    for _, running in ipairs(world.stack) do
      if running.fn == fn then running.env = env end
    end
    return fn
  end
  return record and record.env or not record and getfenv(fn), write
end

special[getfenv] = function(world, args, n)
  local f = args[1]
  if type(f) ~= "function" and type(f) ~= "nil" and (type(f) ~= "number" or f < 1) then
    return call_native(getfenv, unpack(args, 1, n))
  end
  return { n = 1, (environment_of(world, f)) or getfenv(0) }
end

special[setfenv] = function(world, args, n)
  local f = args[1]
  local _, write
  if type(args[2]) == "table" and (type(f) == "function" or type(f) == "number" and f >= 1) then
    _, write = environment_of(world, f)
  end
  if not write then return call_native(setfenv, unpack(args, 1, n)) end
  return { n = 1, write(args[2]) }
end

--- `module` changes its caller's environment: that of a function in between, which then is the frame's.
if module then
  special[module] = function(world, args, n)
    local env, write = environment_of(world, 1)
    local function between(...)
      module(...)
      local changed = getfenv(1)
      return changed
    end
    write(setfenv(between, env)(unpack(args, 1, n)))
    return { n = 0 }
  end
end

special[collectgarbage] = function(world, args, n)
  evaluate.forget(world)
  local stack = world.stack
  for place in pairs(stack) do
    if type(place) == "number" and place < -stack.depth - 1 then stack[place] = nil end -- they have raised
  end
  return call_native(collectgarbage, unpack(args, 1, n))
end

function World:native(f, _, args, shadows, n)
  self:seen(unpack(shadows, 1, n))
  local stack = self.stack
  local caller, site = stack.caller, stack.site
  local place = -stack.depth - 1
  stack[place] = f -- for those who ask for the native function above a frame
  local own = special[f]
  local ok, results
  if own then
    ok, results = pcall(own, self, args, n)
  else
    ok, results = pcall(call_native, f, unpack(args, 1, n))
  end
  if not ok then raise_of_native(results, caller, site) end
  stack[place] = nil
  return results, {}, results.n
end

function World:abort(reason)
  error({ abort = reason, where = evaluate.where(self) }, 0)
end

plain_debug(special, placeholders, called_as, function(k, why)
  error(("%s0: bad argument #%d to 'callee' (%s)"):format(HERE, k, why), 0)
end)

--- A fresh world. natives: a set of Lua functions that it wants to run natively.
return function(natives)
  local world = setmetatable({ exact = true, steps_left = 1e6, strange = 0, tables = 0, natives = natives or {} }, World)
  function world.enter(placeholder, _, ...)
    local results, _, count = world.apply(placeholder, nil, { ... }, {}, select("#", ...))
    return unpack(results, 1, count)
  end
  return world
end
