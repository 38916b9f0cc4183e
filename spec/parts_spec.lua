--- parts_spec.lua -- functions that are captured in parts: what no trace holds runs natively between them.

local H = require "spec.helper"
local ty = H.ty
local parts = require "tycho.capture.parts"

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

local function text(v)
  if ty.is_tensor(v) then return H.texts(v) end
  if type(v) == "table" then return "table " .. text(v[1]) end
  return tostring(v)
end

--- What a call gives and says, as text. `yields`: it runs in a coroutine.
local function account(f, yields, ...)
  said = {}
  local function call(...)
    local list = { pcall(...) }
    for i = 1, table.maxn(list) do list[i] = text(list[i]) end
    return table.concat(list, "|")
  end
  local results
  if yields then
    local co = coroutine.create(f)
    local all = { call(coroutine.resume, co, ...) }
    for k = 1, 10 do
      if coroutine.status(co) ~= "dead" then all[#all + 1] = call(coroutine.resume, co, k) end
    end
    results = table.concat(all, ";")
  else
    results = call(f, ...)
  end
  return table.concat(said, "\n") .. "\n=> " .. results
end

--- Makes a function twice; calls of one and calls of the other, compiled, give and say the same. Gives what explain
--- tells of the latter.
local function same(make, yields, ...)
  local plain, compiled = make(), ty.compile(make())
  for call = 1, 6 do
    assert.equal(account(plain, yields, ...), account(compiled, yields, ...), "call " .. call)
  end
  return ty.explain(compiled), compiled
end

--- The same, and it was captured in parts.
local function in_parts(make, yields, ...)
  local e = same(make, yields, ...)
  assert.equal(6, e.skips, tostring(e))
  assert.truthy(#e.parts > 0, tostring(e))
  return e
end

local a = ty.arange(1, 9)

--- A compiled function that is cut once.
local function two_parts()
  return ty.compile(function(x)
    local y = work(x)
    say "cut"
    return work(y)
  end)
end

describe("a function that no trace holds whole", function()
  it("is cut at a call of an unknown function", function()
    in_parts(function()
      return function(x)
        local y = work(x)
        say("between", y)
        return work(y) + x, "and this"
      end
    end, false, a)
  end)

  it("is cut where data decide a loop", function()
    local e = in_parts(function()
      return function(x)
        local y, n = x * 0.5 + 1, 0
        local err = (y * y - x):abs():max()
        while err:item() > 1e-6 and n < 50 do
          y, n = y - (y * y - x) / (y * 2), n + 1
          err = (y * y - x):abs():max()
        end
        return y, n
      end
    end, false, a)
    assert.equal(1, e.captures)
  end)

  it("is cut where data decide a branch", function()
    in_parts(function()
      return function(x)
        local y = work(x)
        if y:sum():item() > 10 then y = work(y * 2) + 1 else y = work(y * 3) - 1 end
        local b = y:get(1) + y:get(2)
        if b > 1 then y = work(y) * b end
        return y, b
      end
    end, false, a)
  end)

  --- How many parts were entered without Lua.
  local function linked(f)
    local n = 0
    for _, part in ipairs(ty.explain(f).parts) do n = n + (part.linked or 0) end
    return n
  end

  --- Calls of both give the same, and all parts of the last call but the first are entered without Lua.
  local function is_linked(make, n, ...)
    local _, f = same(make, false, ...)
    local before = linked(f)
    account(f, false, ...)
    assert.equal(n, linked(f) - before, tostring(ty.explain(f)))
  end

  it("goes on without Lua where data were read", function()
    is_linked(function()
      return function(x)
        local y, n = x * 0.5 + 1, 0
        local err = (y * y - x):abs():max()
        while err:item() > 1e-5 do
          y = y - (y * y - x) / (y * 2)
          err, n = (y * y - x):abs():max(), n + 1
        end
        return y, n
      end
    end, 5, a)
    is_linked(function()
      return function(x)
        for layer = 1, 9 do
          x = work(x) + layer
          if x:max():item() > 60 then return x, layer end
        end
        return nil, x
      end
    end, 17, a)
    is_linked(function()
      return function(x)
        local list, first = work(x):totable(), work(x):get(1)
        return work(x) * list[1] + first, #list, list
      end
    end, 2, a)
    is_linked(function()
      return function(x)
        local y = work(x)
        local few, most = y:gt(6), y:lt(8)
        local some = y[few]
        local low, unlike = y:masked_select(most), y:unique()
        return work(unlike) * (work(some):sum() + work(low):mean()), some:size(1), y:nonzero() * 2
      end
    end, 3, a)
  end)

  it("gives what the function returns where data were read", function()
    local function tail(x) return work(x):sum():item() end
    local function constants(x)
      local y = work(x)
      local s = y:get(2)
      return s, nil, "text", 0.5, 7, true, y
    end
    local function none(x)
      local s = work(x):get(2) -- luacheck: ignore
      return
    end
    local function behind(x)
      local last
      for i = 1, 3 do
        x = work(x) * 0.25
        if x:sum():item() > 1e9 then return x end
        last = x:get(i)
      end
      return last, x, last
    end
    local function several(x) return work(x):unique() end
    for _, f in ipairs { tail, constants, none, behind, several } do
      local e = in_parts(function() return f end, false, a)
      assert.equal(1, e.captures)
    end
  end)

  it("reads by what it is given to read by", function()
    local function f(x, read)
      local y = work(x):sum()
      local s = read(y)
      return work(x) + (type(s) == "number" and s or 1000)
    end
    local compiled = ty.compile(f)
    local function both(read) assert.equal(account(f, false, a, read), account(compiled, false, a, read)) end
    for _ = 1, 4 do both(a.item) end
    for _ = 1, 4 do
      both(a.totable)
      both(a.item)
      both(say)
    end
    assert.truthy(linked(compiled) > 4)
  end)

  it("goes on without Lua in turns of loops", function()
    local few = parts.FEW
    finally(function() parts.FEW = few end)
    parts.FEW = 0
    for _, range in ipairs { { 1, 7, 1 }, { 7, 1, -2 }, { 0.5, 3, 0.25 }, { 1, 0 / 0, 1 }, { 3, 1, 1 }, { 1, 3, 0.1 },
      { 0, -2, -0.5 } } do
      local first, last, by = range[1], range[2], range[3]
      local plain, compiled = {}, {}
      for k, list in ipairs { plain, compiled } do
        local function f(x)
          local s = 0
          for i = first, last, by do
            x = work(x) * 0.5
            if x:sum():item() * 0 == 0 then s = s * 2 + i end
            for j = 1, 2 do
              x = work(x) + j
              s = s + x:get(j) * i
            end
          end
          return x, s
        end
        if last ~= last then jit.off(f) end -- LuaJIT's traces make a turn of a loop up to NaN
        local g = k == 2 and ty.compile(f) or f
        for call = 1, 5 do list[call] = account(g, false, a) end
        if k == 2 and last == 7 then assert.truthy(linked(g) >= 60, tostring(ty.explain(g))) end
      end
      assert.same(plain, compiled)
    end
  end)

  it("goes on without Lua in walks by ipairs, and as Lua where something else walks", function()
    local function by_two(t, i)
      i = i + 2
      if t[i] then return i, t[i], "more" end
    end
    local function make()
      return function(x, walk, t, last, change)
        local s, n = 0, 0
        for i, v, more in walk, t, last do
          x = work(x) * 0.25 + i * v
          s = s * 2 + x:get(1) + i
          if change and i == 2 then t[#t + 1] = x:get(2) end
          if more then n = n + 1 end
          if s > 1e6 then return x, i, s end
        end
        for _ in ipairs(t) do s = s + work(x):sum():item() end
        return x, s, n, #t
      end
    end
    local plain, compiled = make(), ty.compile(make())
    local walks = ipairs {}
    for turn = 1, 3 do
      for k, case in ipairs { { walks, { 1, 2, 3, 4 }, 0 }, { walks, { 5, 6 }, 0, true }, { walks, {}, 0 }, { walks, { 1, nil, 3 }, 0 },
        { walks, { 1, 2, 1e7, 4 }, 0 }, { by_two, { 1, 2, 3, 4, 5 }, -1 }, { next, { 7, 8 } }, { walks, { 4, 3, 2 }, 1 },
        { walks, setmetatable({ 1 }, { __index = function(_, i) return i < 4 and i or nil end }), 0 }, { walks, "text", 0 },
        { walks, { 1, 2 } } } do
        local function copy()
          local t = type(case[2]) == "table" and setmetatable({ unpack(case[2], 1, table.maxn(case[2])) }, getmetatable(case[2]))
          return t or case[2]
        end
        assert.equal(account(plain, false, a, case[1], copy(), case[3], case[4]),
          account(compiled, false, a, case[1], copy(), case[3], case[4]), turn .. " " .. k)
      end
    end
    assert.truthy(linked(compiled) > 40, tostring(ty.explain(compiled)))
  end)

  it("raises what a read of data raises, though no Lua stands between", function()
    local function make()
      return function(x, i, y)
        local b = work(x):get(i)
        local s = 0
        for k = 1, 3 do
          y = work(y) + b
          s = s + y:sum(1):item() * k
        end
        return y, s
      end
    end
    local plain, compiled = make(), ty.compile(make())
    local one, many, gone = ty.ones(3, 1), ty.ones(3, 2), ty.ones(3, 1)
    gone:release()
    for _ = 1, 3 do
      for _, i in ipairs { 1, 8, 9, -1, 0, 1.5 } do
        for _, y in ipairs { one, many, gone } do
          assert.equal(account(plain, false, a, i, y), account(compiled, false, a, i, y))
        end
      end
    end
    assert.truthy(linked(compiled) > 10)
  end)

  it("takes each way that data lead", function()
    local function make()
      return function(x)
        local y = work(x)
        local s = y:sum():item()
        if s > 40 then return work(y) * s elseif s > 20 then return work(y) - s end
        return work(y) / (s + 1)
      end
    end
    local plain, compiled = make(), ty.compile(make())
    for turn = 1, 4 do
      for k = 0, 6 do
        local x = a * (k / 2)
        assert.equal(account(plain, false, x), account(compiled, false, x), turn .. " " .. k)
      end
    end
    assert.equal(28, ty.explain(compiled).skips)
  end)

  it("is cut in numeric loops, with few parts", function()
    local function make()
      return function(x)
        local y = x
        for i = 1, 1000 do
          y = work(y) * 0.1 + i * 0.01
          if i % 100 == 0 then say(i, y) end
        end
        return y
      end
    end
    local e = in_parts(make, false, a)
    local captures = e.captures
    for k = 2, #e.parts do captures = captures + (e.parts[k].captures or 0) end
    assert.truthy(captures < 8, tostring(e))
  end)

  it("is cut in loops over tables, in their order", function()
    in_parts(function()
      local t = { p = 1, q = 2, r = 3, 4, 5, 6 }
      return function(x)
        for k, v in pairs(t) do
          x = work(x) * 0.1 + v
          say(k, v)
        end
        for i, v in ipairs(t) do
          x = work(x) * 0.1 - v
          say(i, v, x)
        end
        for _, v in next, t do x = say(work(x) * 0.1 + v) end
        return x
      end
    end, false, a)
  end)

  it("is cut in loops that end in their middle, and in those that goto makes", function()
    in_parts(function()
      return function(x)
        local n, i = 0, 0
        repeat
          local y = work(x) * 0.5
          n = n + 1
          say("n", n, y:sum():item())
          x = y * y * 0.001 + y
          if n == 7 then break end
        until n > 9
        ::top::
        x = work(x) * 0.1
        i = i + 1
        say(i)
        if i < 5 then goto top end
        return x, n
      end
    end, false, a)
  end)

  it("is cut in a loop where one value is in use", function()
    in_parts(function()
      return function(x)
        while true do
          x = work(x) * 0.5
          if x:sum():item() < 10 then break end
        end
        return x
      end
    end, false, a)
    in_parts(function()
      return function(x, ...) -- what has `...` goes on in Lua
        while not ... do
          x = work(x) * 0.5
          if x:sum():item() < 10 then break end
        end
        return x, ...
      end
    end, false, a)
  end)

  it("is cut in loops inside of each other", function()
    in_parts(function()
      return function(x)
        for i = 1, 3 do
          for j = 3, 1, -1 do
            x = work(x) * 0.1 + j
            x = x - x:mean():item()
          end
          x = work(x) * 0.1 + i
          say(i, x)
        end
        return x
      end
    end, false, a)
  end)

  it("counts in loops as they do, by integers and by others, from numbers of each kind", function()
    in_parts(function()
      return function(x)
        local y, n = work(x), x:size(1)
        for i = 1, n do
          y = work(y)
          say(i, n)
        end
        for t = 0, n / 4, 0.25 do
          say(t)
          y = y + t
        end
        for i = n, 1, -2 do
          for k = i, n * 0.5 do say(i, k) end
          i = i + 0.5
          say(i)
          y = y * i
        end
        return y
      end
    end, false, ty.rand(3, 2))
  end)

  it("hands on as many values as there are", function()
    in_parts(function()
      return function(x, ...)
        local t = { work(x), say(work(x) * 3, ...) }
        local p, q = say(work(t[1]), t[2])
        say(select("#", ...), ...)
        return say(work(p + q) * #t, "x", ...)
      end
    end, false, a, 1, nil, "z", nil)
  end)

  it("raises natural errors, with their levels, places and values", function()
    for _, raise in ipairs { function(z) local unknown = nil return unknown(z) end, function() error("told", 2) end,
      function() error { "a value" } end, function(z) return z.a.b end, function(z) return z + {} end } do
      in_parts(function()
        return function(x)
          local y = work(x)
          say "before"
          return raise(work(y))
        end
      end, false, a)
    end
  end)

  for what, raise in pairs {
    ["an index of nil"] = function(z) return z.a.b end, ["a field set of nil"] = function(z) z.a.b = 1 end,
    ["a call of nil"] = function(z) return z.a() end, ["a sum with nil"] = function(z) return 1 + z.a end,
    ["a text with nil"] = function(z) return "a" .. z.a end, ["an order of tables"] = function(z) return z < {} end,
    ["an order of kinds"] = function(z) return 1 < z end, ["the length of nil"] = function(z) return #z.a end,
    ["a bound that is none"] = function(z) for i = 1, z.a do say(i) end end, ["a walk of nil"] = function(z) return ipairs(z.a) end,
    ["what is told"] = function() error "told" end, ["a value"] = function() error { 1 } end,
  } do
    it("is not cut before an error that its run raises: " .. what, function()
      local c = ty.compile(function(x, z)
        local y = work(x)
        raise(z)
        return work(y)
      end)
      for _ = 1, 3 do assert.falsy((pcall(c, a, {}))) end
      local e = ty.explain(c)
      assert.same({ 0, 0 }, { #e.traces, #e.parts })
      assert.truthy(#e.aborts > 0 and not e.aborts[1].cut)
    end)
  end

  it("names what is called or indexed in messages", function()
    in_parts(function()
      return function(x)
        local y, nothing = work(x), nil
        say "before"
        y = work(y)
        return nothing(y)
      end
    end, false, a)
    in_parts(function()
      local t = {}
      return function(x)
        local y = work(x)
        say "before"
        y = work(y)
        return t.field.of, y, missing_global.x -- luacheck: ignore
      end
    end, false, a)
  end)

  it("shows its lines and levels to debug.getinfo and in tracebacks", function()
    in_parts(function()
      return function(x)
        local y = work(x)
        local i = debug.getinfo(1, "Sl")
        say(i.short_src, i.currentline, i.linedefined, i.what)
        y = work(y)
        say(debug.traceback "here")
        return work(y)
      end
    end, false, a)
  end)

  it("yields", function()
    in_parts(function()
      return function(x)
        local y = work(x)
        local r = coroutine.yield(y)
        y = work(y) * r
        for i = 1, 3 do
          r = coroutine.yield(i)
          y = work(y) + r
        end
        return y
      end
    end, true, a)
  end)

  it("lets what is between see what was written before", function()
    in_parts(function()
      local state, n, t = ty.zeros(8), 0, {}
      return function(x)
        local y = work(x)
        state, n, t.n = state + y, n + 1, n
        say("s", state, n, t.n)
        state, n = state * 0.5, n * 2
        y:add_(state)
        say(y, n, t.n)
        t[n], t.last = y:sum(), { n }
        y:mul_(2)
        say(t.last[1], t[n])
        return y, n
      end
    end, false, a)
  end)

  it("sees what is written between", function()
    in_parts(function()
      local n, t, w = 0, { k = 1 }, ty.ones(8)
      local change = ty.disable(function()
        n, t.k = n + 1, t.k + 1
        w:mul_(1.5)
      end)
      return function(x)
        local y = work(x) * n
        change()
        y = work(y) * w * t.k + n
        change()
        return work(y) * w + t.k, n
      end
    end, false, a)
  end)

  it("calls functions and methods that hold the reason, compiled", function()
    local e = in_parts(function()
      local M = {}
      M.__index = M
      function M:__call(x)
        say("call", self.n)
        return work(x) * self.n * self.w
      end
      function M:go(x)
        say("go", self.n)
        self.n = self.n + 1
        return work(x) * self.n
      end
      local m = setmetatable({ n = 2, w = ty.ones(8) }, M)
      local function inner(x)
        local y = work(x) * x
        say("inner", y:sum():item())
        return work(y) * 2
      end
      return function(x)
        local h = work(x) * 2
        h = m(h)
        h = m:go(h) * 0.01
        for _ = 1, 3 do h = inner(h) * 0.1 + 1 end
        return inner(h), m.n
      end
    end, false, a)
    assert.truthy(#e.parts > 1)
  end)

  it("has the globals that it is given, before a call and meanwhile", function()
    local by_disabled = ty.disable(function(env) setfenv(2, env) end)
    local function by_callee(env)
      setfenv(2, env)
      return 1
    end
    local function by_itself(env) setfenv(2, env) end
    for _, set in ipairs { by_disabled, by_callee, by_itself, setfenv } do
      local function make()
        return setfenv(function(x, env)
          local y, was = work(x), value -- luacheck: ignore
          say(was)
          if env then set(set == setfenv and 1 or env, env) end
          y = work(y)
          return y, was, value -- luacheck: ignore
        end, setmetatable({ value = 1, set = set }, { __index = getfenv(1) }))
      end
      local plain, inside = make(), make()
      local compiled = ty.compile(inside)
      local function both(env) assert.equal(account(plain, false, a, env), account(compiled, false, a, env)) end
      both()
      both()
      both(setmetatable({ value = 7, set = set }, { __index = getfenv(1) }))
      both()
      for _, f in ipairs { plain, inside } do setfenv(f, setmetatable({ value = 9, set = set }, { __index = getfenv(1) })) end
      both()
      both()
    end
  end)

  it("has the globals that a function gives it which is called with what was read", function()
    local function set(env) setfenv(2, env) end
    local function make()
      return setfenv(function(x, env)
        local y = work(x)
        set(env, y:sum():item())
        return work(y), value -- luacheck: ignore
      end, { value = 1 })
    end
    local plain, compiled = make(), ty.compile(make())
    for i = 1, 4 do
      local env = { value = i + 1 }
      assert.equal(account(plain, false, a, env), account(compiled, false, a, env))
    end
  end)

  it("asks for the globals of what calls it, and sets these, through functions of its own", function()
    local function ask(level) return getfenv(level) end -- a tail call: 1 is what calls `ask`
    local function set(level, env)
      setfenv(level, env)
      return env
    end
    for _, how in ipairs { "ask", "set" } do
      for _, compile in ipairs { function(f) return f end, ty.compile } do
        same(function()
          local f = compile(function(x)
            local y = work(x)
            say "here"
            local env = how == "ask" and ask(2) or how == "set" and set(3, { value = 5 })
            return env.value, work(y)
          end)
          return setfenv(function(x)
            local v, y = f(x)
            return v, y, value, getfenv(1).value -- luacheck: ignore
          end, { value = 3, getfenv = getfenv })
        end, false, a)
      end
    end
  end)

  it("has its own globals after jit.reset, too", function()
    local function make()
      return setfenv(function(x, env)
        local y = work(x) + x:sum():item()
        if env then setfenv(1, env) end
        return y, value -- luacheck: ignore
      end, setmetatable({ value = 1 }, { __index = getfenv(1) }))
    end
    local plain, compiled = make(), ty.compile(make())
    local function both(env) assert.equal(account(plain, false, a, env), account(compiled, false, a, env)) end
    both()
    both()
    both(setmetatable({ value = 7 }, { __index = getfenv(1) }))
    ty.reset(compiled)
    both()
    both()
  end)

  it("has the variables that it is joined to", function()
    local function make(reads)
      local here, there = 1, 100
      local function other() return there end
      local function cut(x)
        local y = work(x)
        say "cut"
        return work(y), here
      end
      local function read(x)
        local y = work(x)
        local s = y:get(1)
        return work(y) * s, here
      end
      local f = reads and read or cut
      return f, function()
        for i = 1, 9 do
          if debug.getupvalue(f, i) == "here" then debug.upvaluejoin(f, i, other, 1) end
        end
      end
    end
    for _, reads in ipairs { false, true } do
      local plain, join = make(reads)
      local inside, join_inside = make(reads)
      local compiled = ty.compile(inside)
      for i = 1, 6 do
        assert.equal(account(plain, false, a), account(compiled, false, a))
        if i == 3 then
          join()
          join_inside()
        end
      end
    end
  end)

  it("calls what an object's metatable says at the time", function()
    local function make()
      local meta = { __call = function(_, x) return say("one") and work(x) end }
      local m = setmetatable({}, meta)
      return function(x) return m(work(x)) + 1 end, function(call) meta.__call = call end
    end
    local plain, change = make()
    local inside, change_inside = make()
    local compiled = ty.compile(inside)
    local function two(_, x) return say("two") and x * 2 end
    for i = 1, 9 do
      assert.equal(account(plain, false, a), account(compiled, false, a))
      if i % 3 == 0 then
        local call = i == 3 and two or nil
        change(call)
        change_inside(call)
      end
    end
    local hidden = setmetatable({}, { __call = function(_, x) return say("real") and work(x) end,
      __metatable = { __call = function(_, x) return say("false") and x end } })
    in_parts(function() return function(x) return hidden(work(x)) * 2 end end, false, a)
  end)

  it("takes tensors of other sizes", function()
    local function make()
      return function(x)
        local y = work(x)
        say(y:sum())
        return work(y) * x:size(1)
      end
    end
    local plain, compiled = make(), ty.compile(make())
    for n = 1, 30 do
      local x = ty.arange(n % 13 + 1)
      assert.equal(account(plain, false, x), account(compiled, false, x))
    end
    assert.truthy(ty.explain(compiled).skips >= 25)
  end)

  it("hands on variables of closures that are made behind", function()
    in_parts(function()
      return function(x)
        local y, n = work(x), x:sum():item()
        say "cut"
        local function add(v) n = n + v return n end
        y = work(y) * add(2)
        return y, add(1)
      end
    end, false, a)
  end)

  it("leaves closures that are made before and used behind to plain Lua", function()
    local kept
    local function counts(x)
      local n = 0
      local function add(v)
        n = n + v
        return n
      end
      local y = work(x) * add(2)
      say("cut", n)
      y = work(y) + add(3)
      n = n * 2
      local s = y:get(1)
      return y * add(1), n, s, add(0)
    end
    local function recurses(x)
      local depth = 0
      local function down(v, k)
        if k == 0 then return v end
        depth = depth + 1
        return down(work(v) * 0.1, k - 1)
      end
      local y = down(x, 2)
      say(y:size(1))
      local again = down
      return down(y, 1), again(y, 2), depth, again == down
    end
    local function in_loops(x)
      local total, f = 0, nil
      for i = 1, 3 do
        local scale = i * 0.1
        local function scaled(v)
          total, scale = total + 1, scale + 1
          return v * scale
        end
        x = scaled(work(x) * 0.1)
        say(i, total, scale)
        x = scaled(work(x)) + scale
        f = scaled
      end
      return f(x), total
    end
    local function know_each_other(x)
      local n, odd = 0, nil
      local function even(k) n = n + 1 if k == 0 then return true end return odd(k - 1) end
      function odd(k) n = n + 10 if k == 0 then return false end return even(k - 1) end
      local y = work(x) * (even(3) and 1 or 2)
      say "cut"
      return work(y), odd(2), n
    end
    local function protects(x)
      local n = 1
      local ok, y = pcall(function(v)
        n = n + 1
        say("in", n)
        return work(v) * n
      end, work(x))
      n = n * 3
      local bad, why = pcall(function() n = n + 1 say "worse" error({ n = n }) end)
      return work(y) + n, ok, bad, why.n
    end
    local function with_more(x, ...)
      local n, list = 1, { ... }
      local function all(v) n = n + 1 return v + #list end
      local y = all(work(x))
      say(...)
      return all(work(y)), n, ...
    end
    for _, f in ipairs { counts, recurses, in_loops, know_each_other, protects, with_more } do
      same(function() return f end, false, a, 2, 3)
      same(function() return f end, true, a, 2)
    end

    local function given_away(x)
      local n = 0
      local function add() n = n + 1 return n end
      local y = work(x)
      kept = say(add)
      add()
      n = n + 5
      return work(y), kept(), n, kept == add
    end
    local function makes_more(x)
      local n = 0
      local y = work(x)
      pcall(function() kept = function() n = n + 1 return n end say "in" end)
      n = n + 5
      return work(y), kept(), n
    end
    local function gives_itself_away(x)
      local n = 0
      local function add() n = n + 1 kept = add say(n) return n end
      local y = work(x) * add()
      n = n + 5
      return work(y), kept(), add(), n, kept == add
    end
    for _, f in ipairs { given_away, makes_more, gives_itself_away } do same(function() return f end, false, a) end
  end)

  it("gives back a loss whose graph was used up, which says so", function()
    local w = ty.ones(4):requires_grad_()
    local f = ty.compile(function(x)
      local loss = (w * x):square():sum()
      loss:backward()
      w.grad = nil
      return loss
    end)
    for _ = 1, 4 do
      local loss = f(ty.ones(4))
      assert.same({ true, false }, { loss.requires_grad, loss.is_leaf })
      assert.error_matches(function() loss:backward() end, "the graph was freed by an earlier backward")
      assert.error_matches(function() (loss * 2):backward() end, "the graph was freed by an earlier backward")
    end
    assert.equal(4, ty.explain(f).skips)
  end)

  it("may be stripped of its debug information", function()
    local chunk = [[
      local work, say = ...
      return function(x)
        for i = 1, 5 do
          x = work(x) * 0.1 + i
          say(i, x)
        end
        return x
      end]]
    in_parts(function() return loadstring(string.dump(loadstring(chunk), true))(work, say) end, false, a)
  end)

  it("makes tables that are walked in the same order, compiled or not", function()
    local function make()
      return function(x, way)
        local y = work(x)
        say "cut"
        if way then coroutine.running() end -- never captured
        local t = { lr = 0.1, x = y, 1, nil, 3, nil, momentum = 2, way = way, [10] = 1, nesterov = true }
        for k in pairs(t) do say(k) end
        return work(y), #t
      end
    end
    same(make, false, a, false)
    same(make, false, a, true)
  end)

  it("has its training step in one part, and its loss is read behind it", function()
    local function make()
      local w = (ty.arange(16):reshape(4, 4) / 16):requires_grad_()
      return function(x)
        local loss = (x:matmul(w):tanh() - x):square():mean()
        loss:backward()
        ty.no_grad(function() w:sub_(w.grad * 0.1) end)
        w.grad = nil
        return loss:item()
      end
    end
    local e = same(make, false, ty.ones(2, 4))
    assert.equal(6, e.skips)
  end)
end)

describe("a part", function()
  it("that does too little is not kept", function()
    local function sum(x)
      local s = 0
      for i = 1, 64 do s = s + x:get(i) end
      return s
    end
    local f, x = ty.compile(sum), ty.arange(64)
    for _ = 1, 4 do assert.equal(64 * 63 / 2, f(x)) end
    local e = ty.explain(f)
    assert.truthy(e.skips < 4)
    assert.match("a part would do too little", tostring(e:full()))
  end)

  it("that is not kept makes the tables that it makes otherwise", function()
    local chunk = [[
      local work, say = ...
      return function(x)
        local y = work(x)
        say "cut"
        local t, keys = { %s = 0.1, %s = y, %s = 2, %s = x, %s = "a", %s = y, %s = false, %s = x, 4, 5 }, {}
        for k in pairs(t) do keys[#keys + 1] = tostring(k) end
        return #t, table.concat(keys, " ")
      end]]
    local native = 0
    for k = 1, 24 do -- names fall into nodes by chance
      local names = {}
      for i = 1, 8 do names[i] = ("k%d"):format((k * 7 + i * 31) % 101) end
      local source = chunk:format(unpack(names))
      local plain, compiled = loadstring(source)(work, say), ty.compile(loadstring(source)(work, say))
      for _ = 1, 40 do assert.equal(account(plain, false, a), account(compiled, false, a)) end
      native = native + (tostring(ty.explain(compiled)):find "runs as it is" and 1 or 0)
    end
    assert.truthy(native > 0)
  end)

  it("is kept where another way through it does enough", function()
    local f = ty.compile(function(x)
      local y = work(x)
      while y:sum():item() > 1 do y = work(y) * 0.1 - 0.1 end
      return y
    end)
    for _ = 1, 40 do f(a) end
    assert.equal(40, ty.explain(f).skips)
  end)

  it("is none where the whole was asked for", function()
    local f = ty.compile(function(x) return work(x) + work(x):sum():item() end, { fullgraph = true })
    assert.error_matches(function() f(a) end, "fullgraph was asked for, but .*item reads data")
  end)

  it("goes with its function", function()
    local f = two_parts()
    said = {}
    f(a)
    f(a)
    local gone = setmetatable({ f }, { __mode = "v" })
    f = nil -- luacheck: ignore
    for _ = 1, 4 do collectgarbage() end
    assert.equal(nil, gone[1])
  end)

  it("begins anew after jit.reset", function()
    local f = two_parts()
    said = {}
    for _ = 1, 3 do f(a) end
    ty.reset(f)
    for _ = 1, 3 do f(a) end
    assert.equal(3, ty.explain(f).skips)
  end)

  it("is kept, however little it does, where FEW says so", function()
    local few = parts.FEW
    parts.FEW = 0
    local f = ty.compile(function(x) return x:get(1) + x:get(2) end)
    for _ = 1, 3 do assert.equal(3, f(a)) end
    parts.FEW = few
    assert.equal(3, ty.explain(f).skips)
  end)
end)

describe("values that go from part to part", function()
  local function grown(limit, keep)
    return function(x)
      local y, last, n = x * 1.5, x, 0
      while y:sum():item() < limit do
        if keep then keep[n + 1] = y end
        last, y, n = y, y * 1.25 + last * 0.125, n + 1
      end
      return y, last, n
    end
  end
  local function texts(...)
    local list = { ... }
    for i, v in ipairs(list) do list[i] = ty.is_tensor(v) and H.texts(v) or tostring(v) end
    return table.concat(list, " ")
  end

  it("are the same tensors wherever the function has put them meanwhile", function()
    local kept, own = {}, {}
    local plain, f = grown(100, kept), ty.compile(grown(100, own))
    local x = ty.tensor { 1, 2, 3 }
    for i = 1, 30 do
      local given = texts(f(x * i * 0.1))
      assert.equal(texts(plain(x * i * 0.1)), given)
      assert.equal(texts(unpack(kept)), texts(unpack(own)), "call " .. i)
    end
  end)

  it("outlive the call where it returns them, and are its own where calls are made meanwhile", function()
    local plain, f, inner = grown(100), ty.compile(grown(100)), ty.compile(grown(80))
    local x, wanted, given, inside = ty.tensor { 1, 2, 3 }, {}, {}, {}
    local function proxy()
      local p = newproxy(true)
      getmetatable(p).__gc = function() inside[#inside + 1] = { inner(x) } end
    end
    for _ = 1, 20 do inner(x) end
    local pause, step = collectgarbage("setpause", 1), collectgarbage("setstepmul", 10000)
    for i = 1, 60 do
      for _ = 1, 20 do proxy() end
      wanted[i], given[i] = { plain(x * i * 0.1) }, { f(x * i * 0.1) }
    end
    collectgarbage("setpause", pause)
    collectgarbage("setstepmul", step)
    collectgarbage()
    for i = 1, 60 do assert.equal(texts(unpack(wanted[i])), texts(unpack(given[i])), "call " .. i) end
    assert.truthy(#inside > 100)
    for _, list in ipairs(inside) do assert.equal(texts(grown(80)(x)), texts(unpack(list))) end
  end)
end)

describe("functions made before a cut", function()
  local w, count = ty.tensor { 1, 2, 3 }, 0
  --- A dump without what tells where the n variables of the function lay when it was made: two bytes each, which are
  --- between its instructions, of which RET0 or RET1 is the last one, and its constants.
  local function without_places(dump, n)
    local first, last = dump:find("[\75\76][%z\1-\15][\1\2]%z" .. ("[%z\1-\15][%z\128\192]"):rep(n))
    return first and dump:sub(1, first + 3) .. dump:sub(last + 1) or dump
  end

  --- What a call gives, with functions by what they give in turn.
  local function given_by(f, ...)
    local list = { pcall(f, ...) }
    for i, v in ipairs(list) do
      if type(v) == "function" then
        local info = debug.getinfo(v, "Su")
        local bytes = without_places(string.dump(v), info.nups):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
        v = ("%s:%d:%d:%s %s"):format(info.short_src, info.linedefined, info.nups, bytes, given_by(v, w))
      end
      list[i] = ty.is_tensor(v) and H.texts(v) or tostring(v)
    end
    return table.concat(list, "|")
  end

  local programs = {
    ["of what they are given, and a variable"] = function(x)
      local function loss(y) return (y * y + x):sum() end
      local y, n = x, 0
      while loss(y):item() > 8 and n < 20 do y, n = y * 0.5, n + 1 end
      return y, n, loss
    end,
    ["of each other and of themselves"] = function(x)
      local function power(y, n) return n == 0 and x or y * power(y, n - 1) end
      local function twice(y) return power(y, 2) + power(y, 1) end
      if twice(x):sum():item() > 20 then return twice, x end
      return power(x, 3), twice
    end,
    ["in turns of a loop, of its number"] = function(x)
      local list, sum = {}, 0
      for i = 1, 3 do
        list[i] = function(y) return y * i + x end
        sum = sum + list[i](x):sum():item()
      end
      return sum, list[1], list[2], list[3], list[1] == list[1], list[1] == list[2]
    end,
    ["of what `...` stands for, a table and the outside's variable"] = function(x, ...)
      local t, list, more = { scale = 2 }, { x }, select("#", ...)
      local function f(y)
        count = count + 1
        return y * t.scale + list[1] * more
      end
      if f(x):sum():item() > 10 then t.scale = 3 end
      return f(x), f, t.scale, count, ...
    end,
    ["with globals, and a string"] = function(x)
      local name = "sum"
      local function total(y) return tonumber("2") * y[name](y):item() end
      if x:mean():item() > 1 then return total(x), total end
      return total(x * 2), total, name
    end,
    ["of what is assigned later"] = function(x)
      local best
      local function try(c)
        local l = (x - c):abs():sum():item()
        if not best or l < best then best = l end
      end
      for c = 1, 4 do try(c) end
      return best, try
    end,
  }
  for name, plain in pairs(programs) do
    it("give what they give: " .. name, function()
      local f, own = ty.compile(plain), {}
      for i = 1, 20 do
        local x = w * (0.5 + i % 4 * 0.75)
        count = i
        local wanted = given_by(plain, x, i, nil)
        count = i
        assert.equal(wanted, given_by(f, x, i, nil), "call " .. i)
        for _, v in ipairs { select(2, f(x)) } do
          if type(v) == "function" then
            assert.falsy(own[v])
            own[v] = true
          end
        end
      end
      local does_too_little = name == "of what is assigned later"
      assert.truthy(does_too_little or ty.explain(f).skips > 0, tostring(ty.explain(f)))
    end)
  end

  it("share variables and globals as they are in each call", function()
    local scale, wide = 1, 10
    local function other() return wide end
    local function plain(x)
      local function f(y) return y * scale + (factor or 0) end -- luacheck: ignore
      if x:sum():item() > 100 then return x end
      return f, f(x)
    end
    local f = ty.compile(plain)
    local function check(what)
      for _ = 1, 4 do
        local g, y = f(w)
        local h, z = plain(w)
        assert.equal(H.texts(z), H.texts(y), what)
        assert.equal(H.texts(h(w)), H.texts(g(w)), what)
        assert.equal(debug.upvalueid(h, 1), debug.upvalueid(g, 1))
        assert.equal(getfenv(plain), getfenv(g))
      end
    end
    check "at first"
    scale = 3
    check "another value"
    for i = 1, 3 do
      if debug.getupvalue(plain, i) == "scale" then debug.upvaluejoin(plain, i, other, 1) end
    end
    check "another variable"
    setfenv(plain, setmetatable({ factor = 5 }, { __index = _G }))
    check "other globals"
  end)

  it("are not made in the trace's way under a hook, which would see how", function()
    local plain = programs["of each other and of themselves"]
    local f = ty.compile(plain)
    for _ = 1, 4 do f(w) end
    local line, skips, seen = debug.getinfo(plain, "S").linedefined, ty.explain(f).skips, 0
    debug.sethook(function() seen = seen + (debug.getinfo(2, "S").linedefined == line and 1 or 0) end, "c")
    local y = f(w)
    debug.sethook()
    assert.truthy(skips > 0)
    assert.equal(H.texts((plain(w))(w)), H.texts(y(w)))
    assert.equal(1, seen)
  end)
end)
