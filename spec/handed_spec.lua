--- handed_spec.lua -- functions that are cut where a call takes as many values as another one gives: f(x:item()), f(g(x)).

local H = require "spec.helper"
local ty = H.ty

local said -- what the functions under test have said, in order

--- No trace holds a call of it, and evaluation does not enter it.
local say = ty.disable(function(...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = (tostring((select(i, ...))):gsub("0x%x+", "")) end
  said[#said + 1] = table.concat(list, " ")
  return ...
end)

--- Several operations, which make a part worth its while.
local function work(x) return ((x * 2 + 1):exp():log() - 1) * 0.5 + 1 end

local function two(x) return work(x), 2 end

local function scaled(x, k) return work(x) * k end

local function text(v)
  if ty.is_tensor(v) then return H.texts(v) end
  if type(v) ~= "table" then return (tostring(v):gsub("0x%x+", "")) end
  local list = {}
  for i, item in ipairs(v) do list[i] = text(item) end
  return "{" .. table.concat(list, " ") .. "}"
end

local function texts(...)
  local list = { select("#", ...) }
  for i = 1, list[1] do list[i + 1] = text((select(i, ...))) end
  return table.concat(list, "|")
end

--- The traceback of an error, without what is below the function under test.
local function traced(why)
  return type(why) == "string" and debug.traceback(why, 2):gsub("\n[^\n]*in function 'xpcall'.*", "") or why
end

--- What a call gives and says, as text; it runs in a coroutine, too, where it may yield.
local function account(f, yields, ...)
  said = {}
  if not yields then return texts(xpcall(f, traced, ...)) .. "\n" .. table.concat(said, "\n") end
  local co, all = coroutine.create(f), {}
  all[1] = texts(coroutine.resume(co, ...))
  for k = 1, 9 do
    if coroutine.status(co) ~= "dead" then all[#all + 1] = texts(coroutine.resume(co, k)) end
  end
  return table.concat(all, "; ") .. "\n" .. table.concat(said, "\n")
end

local a = ty.arange(1, 9)

--- Calls of a function and of its like, compiled, give and say the same. Gives what explain tells of the latter.
local function same(make, yields)
  local plain, compiled = make(), ty.compile((make()))
  for call = 1, 9 do
    local x = a * (0.1 + call % 4 * 0.3)
    assert.equal(account(plain, yields, x, call), account(compiled, yields, x, call), "call " .. call)
  end
  return ty.explain(compiled)
end

--- How often a part was entered without Lua.
local function linked(e)
  local n = 0
  for _, part in ipairs(e.parts) do n = n + (part.linked or 0) end
  return n
end

describe("a number that is read", function()
  local taken = {
    ["by a function"] = function(x)
      local y = work(x)
      return work(scaled(y, y:sum():item()))
    end,
    ["by a function that is called last"] = function(x)
      local y = work(x)
      return scaled(y, y:sum():item())
    end,
    ["as the only value, by a method, and by one around it"] = function(x)
      local y = work(x)
      local z = y:add(y:mean():item())
      return work(z:mul(math.max(0, z:sum():item()))), select("#", 1, nil, z:mean():item())
    end,
    ["by functions around each other"] = function(x)
      local y = work(x)
      local p, q = select(2, 0, two(scaled(y, y:mean():item())))
      return work(p) * q
    end,
    ["by a closure that is made inside"] = function(x)
      local y = work(x)
      local function times(k) return work(y) * k end
      return work(times(y:sum():item()))
    end,
    ["in each turn of a loop, whose end it decides"] = function(x)
      local function is_large(k) return k > 2 end
      local n = 0
      while is_large(x:sum():item()) and n < 20 do x, n = work(x) * 0.5, n + 1 end
      return x, n
    end,
  }
  for how, f in pairs(taken) do
    it("is handed on without Lua where it is taken " .. how, function()
      local e = same(function() return f end)
      assert.equal(9, e.skips, tostring(e))
      assert.truthy(linked(e) > 5, tostring(e))
    end)
  end

  it("is given by a function that returns it behind others, without Lua", function()
    local e = same(function()
      return function(x)
        local y = work(x)
        return y, nil, y:sum():item()
      end
    end)
    assert.equal(9, e.skips)
    assert.equal(1, #e.parts, tostring(e))
  end)

  it("is what plain Lua gives to a constructor", function()
    same(function()
      return function(x)
        local y = work(x)
        local t, named = { y, y:get(1), y:get(2) }, { n = 1, nil, 3, y:mean():item() }
        return work(y) * t[2], #t, t, #named, named.n, next(named)
      end
    end)
  end)

  it("is taken as many times as a read gives it, whatever reads", function()
    for _, item in ipairs { function() return 1, 2, 3 end, function() end } do
      local e = same(function()
        local calls, other = 0, { item = item }
        local function count(...) return select("#", ...), ... end
        return function(x)
          calls = calls + 1
          local y = work(x)
          local from = calls % 3 == 0 and other or y:sum()
          local n, k = count(from:item())
          return work(y) * n, k, count(y:unique())
        end
      end)
      assert.truthy(linked(e) > 2, tostring(e))
    end
  end)

  it("goes natively to a function that holds a reason, which is called compiled", function()
    local function inner(x, k)
      local y = work(x) * k
      say(k)
      return work(y)
    end
    local e = same(function()
      return function(x)
        local y = work(x)
        return work(inner(y, y:mean():item()))
      end
    end)
    assert.equal(9, e.skips)
    assert.truthy(ty.explain(ty.compile(inner)).skips > 5)
  end)

  it("is not handed on to what is no function of a trace", function()
    local e = same(function()
      return function(x)
        local y = work(x)
        say(y:sum():item())
        return work(y), say(1, y:mean():item())
      end
    end)
    assert.same({ 9, 0 }, { e.skips, linked(e) })
  end)

  for name, call in pairs {
    ["an upvalue"] = function() local f = nil return function(y) return f(1, y:sum():item()) end end,
    ["a global"] = function() return function(y) return (no_such_function(y:sum():item())) end end, -- luacheck: ignore
    ["a field"] = function() local t = {} return function(y) return (t.field(y:sum():item())) end end,
    ["a method"] = function() local t = {} return function(y) return (t:method(y:sum():item())) end end,
  } do
    it("is given to what cannot be called, which the message names: " .. name, function()
      local e = same(call)
      assert.truthy(linked(e) == 0)
    end)
  end

  it("is given to what raises, with its level and its traceback", function()
    for level = 0, 2 do
      same(function()
        local function raise(x, k) if k > 3 then error("large", level) end return work(x) * k end
        return function(x)
          local y = work(x)
          local z = raise(y, y:sum():item())
          return work(z)
        end
      end)
    end
  end)
end)

describe("what a call gives", function()
  local function inner(x, k, ...)
    local y = work(x)
    say(k, ...)
    return work(y), k
  end

  it("is captured where another call, which ends the part, takes it", function()
    local e = same(function()
      return function(x)
        local y = inner(two(x))
        return work(y)
      end
    end)
    assert.equal(9, e.skips)
    assert.truthy(e.traces[1].operations > 5, tostring(e))
    assert.truthy(ty.explain(ty.compile(inner)).skips > 5)
  end)

  local takers = {
    ["in the last call"] = function(x) return inner(two(x)) end,
    ["in turns of loops"] = function(x)
      for k, v in pairs { 3, 4, name = 5 } do x = inner(k, v, two(x)) and inner(two(x)) * 0.1 end
      for i = 1, 3 do x = select(2, say(i, two(x))) end
      return x
    end,
    ["none at all, or many"] = function(x)
      local y, list = work(x), {}
      for i = 1, 300 do list[i] = i end
      say((function() end)())
      local n = select("#", say(unpack(list)))
      return work(y), n
    end,
    ["behind functions that are made before and after"] = function(x)
      local y, n = work(x), 1
      do
        local k = 3
        local function before() return y * k, k end
        say(before())
      end
      local function after() n = n + 1 return y * n end
      return after(), n, after
    end,
    ["around what is taken by another"] = function(x)
      local p, q = say(inner(two(x)))
      local t = { 0, inner(two(p)) }
      return work(p) * q, t, inner(two(x))
    end,
    ["by pcall"] = function(x)
      local ok, why = pcall(function(v, k) say(k) error { v } end, two(x))
      return ok, why, select(2, pcall(say, two(work(x))))
    end,
    ["to find a number"] = function(x)
      local y = work(x)
      local function second() return 2 end
      local k = y:get(second())
      return work(y) * k, y:get(second())
    end,
    ["by what yields"] = function(x)
      local y = work(x)
      local k = coroutine.yield(two(y))
      return work(y), k, coroutine.yield(two(work(x)))
    end,
  }
  for how, f in pairs(takers) do
    it("is what plain Lua gives to what takes it: " .. how, function()
      for _, yields in ipairs { false, true } do same(function() return f end, yields) end
    end)
  end

  it("keeps the place, the level and the names of what takes it", function()
    local function seen(_, k)
      local info = debug.getinfo(2, "Sl")
      say(k, info.short_src, info.currentline, info.what, debug.getinfo(1, "n").name, debug.traceback "here")
      error("told", k)
    end
    same(function()
      return function(x)
        local y = work(x)
        local z = seen(two(y))
        return work(z)
      end
    end)
    same(function()
      local list = {}
      return function(x)
        say(work(x))
        local z = list.missing(two(x))
        return z
      end
    end)
  end)

  it("goes to what sets the globals of who calls it", function()
    local function sets(x, k)
      say(k)
      setfenv(2, setmetatable({ value = k }, { __index = _G }))
      return x
    end
    same(function()
      return setfenv(function(x)
        local y = sets(two(x))
        return work(y), value -- luacheck: ignore
      end, getfenv(1))
    end)
    local set = ty.disable(function(_, k) setfenv(2, setmetatable({ value = k }, { __index = _G })) end)
    same(function()
      return setfenv(function(x)
        local y = work(x)
        set(y, y:mean():item())
        return work(y), value -- luacheck: ignore
      end, getfenv(1))
    end)
    same(function()
      return setfenv(function(x, k)
        local y = work(x)
        sets(y, k)
        return work(y), value -- luacheck: ignore
      end, getfenv(1))
    end)
  end)
end)
