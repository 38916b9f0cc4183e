--- plain_world.lua -- a world for the evaluator in which everything means what it means in Lua, and all is known.
-- Closures made inside get a real function that evaluates them when it is called, so they may go anywhere: into
-- metatables, to pcall, to string.gsub. Shadows are nil throughout; `strange` counts those that were not.

local evaluate = require "tycho.evaluate"
local new_table = require("tycho").internals.capture.table

local function pack(...) return { n = select("#", ...), ... } end

local World = {}
World.__index = World

function World:seen(...)
  for k = 1, select("#", ...) do
    if select(k, ...) ~= nil then self.strange = self.strange + 1 end
  end
end

function World:index(t, ts, k, ks)
  self:seen(ts, ks)
  return t[k], nil
end

function World:newindex(t, ts, k, ks, v, vs)
  self:seen(ts, ks, vs)
  t[k] = v
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
  return operators[op](a, b), nil
end

--- As Lua joins values: from the right, a metamethod as soon as one of two is neither string nor number.
function World:concat(values, shadows, n)
  self:seen(unpack(shadows, 1, n))
  local v = values[n]
  for k = n - 1, 1, -1 do v = values[k] .. v end
  return v, nil
end

function World:length(v, s)
  self:seen(s)
  return #v, nil
end

function World:equal(a, as, b, bs)
  self:seen(as, bs)
  return a == b
end

function World:less(a, as, b, bs)
  self:seen(as, bs)
  return a < b
end

function World:less_equal(a, as, b, bs)
  self:seen(as, bs)
  return a <= b
end

function World:truth(v, s)
  self:seen(s, true) -- nobody asks for the truth of a known value
  return v and true or false
end

function World:tonumber_for(v, s)
  self:seen(s)
  local number = tonumber(v)
  if not number then self:abort("a 'for' operand must be a number") end
  return number, nil
end

function World.pin(_, v) return v end

function World.upvalue(_, fn, _, i)
  local _, v = debug.getupvalue(fn, i)
  return v, nil
end

function World:set_upvalue(fn, _, i, v, vs)
  self:seen(vs)
  debug.setupvalue(fn, i, v)
end

function World.environment(_, fn) return getfenv(fn), nil end

function World.metamethod(_, v, _, name)
  local meta = getmetatable(v)
  return meta and meta[name], nil
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

function World.make_room(_, t) return t end

function World:closure(proto, cells, env, envs)
  local placeholder
  placeholder = function(...)
    local results, _, count = self.apply(placeholder, nil, { ... }, {}, select("#", ...))
    return unpack(results, 1, count)
  end
  self.closures[placeholder] = { proto = proto, cells = cells, env = env, envs = envs }
  return placeholder
end

function World:closure_of(f) return self.closures[f] end

function World:prefers_native(f) return self.natives[f] or false end

function World:native(f, _, args, shadows, n)
  self:seen(unpack(shadows, 1, n))
  if f == error and (n < 2 or args[2] == 1 or args[2] == 2) and type(args[1]) == "string" then
    local position = evaluate.position(self, args[2])
    if not position then self:abort("error() without a place") end
    error(position .. args[1], 0)
  end
  local results = pack(f(unpack(args, 1, n)))
  return results, {}, results.n
end

function World:abort(reason)
  error({ abort = reason, where = evaluate.where(self) }, 0)
end

--- A fresh world. natives: a set of Lua functions that it wants to run natively.
return function(natives)
  return setmetatable({
    steps_left = 1e6, strange = 0, tables = 0, natives = natives or {}, closures = {},
  }, World)
end
