--- closures_spec.lua -- functions that a compiled function makes in each call, and that do what no trace holds: they are
--- captured in parts, as their prototype's, and share variables as in plain Lua.

local H = require "spec.helper"
local ty = H.ty
local parts = require "tycho.capture.parts"
parts.ANEW = 1 -- most functions here do little; what that is for is a claim of its own, the last one
local probe = ty.internals.probe

local said -- what the functions under test have said, in order

--- No trace holds a call of it, and evaluation does not enter it.
local say = ty.disable(function(...)
  local list = {}
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    list[i] = ty.is_tensor(v) and H.texts(v) or (tostring(v):gsub("0x%x+", ""))
  end
  said[#said + 1] = table.concat(list, " ")
  return ...
end)

--- Several operations, which make a part worth its while.
local function work(x) return ((x * 2 + 1):exp():log() - 1) * 0.5 + 1 end

local function text(v)
  if ty.is_tensor(v) then return H.texts(v) end
  if type(v) == "table" then return "table " .. text(v[1]) end
  return type(v) == "function" and "function" or tostring(v)
end

--- What a call gives and says, as text. `yields`: it runs in a coroutine, which is given numbers.
local function account(f, yields, ...)
  said = {}
  local all = {}
  local function note(...)
    local list = { ... }
    for i = 1, select("#", ...) do list[i] = text(list[i]) end
    all[#all + 1] = table.concat(list, "|")
  end
  if not yields then
    note(pcall(f, ...))
  else
    local co = coroutine.create(f)
    note(coroutine.resume(co, ...))
    for k = 1, 12 do
      if coroutine.status(co) ~= "dead" then note(coroutine.resume(co, k)) end
    end
  end
  return table.concat(said, "\n") .. "\n=> " .. table.concat(all, ";")
end

--- Makes a function twice; calls of one and calls of the other, compiled, give and say the same. Gives what explain
--- tells of the latter, and both.
local function same(make, yields, ...)
  local plain, inside = make(), make()
  local compiled = ty.compile(inside)
  for call = 1, 6 do
    assert.equal(account(plain, yields, ...), account(compiled, yields, ...), "call " .. call)
  end
  return ty.explain(compiled), compiled, inside
end

--- The same, and parts answer all calls of it, and calls of what it makes.
local function in_parts(make, yields, ...)
  local e, compiled, inside = same(make, yields, ...)
  assert.equal(6, e.skips, tostring(e))
  local inner = #e.parts == 1 and 1 or 0 -- those of what it calls are explained there
  for k = 2, #e.parts do inner = inner + (e.parts[k].skips or 0) end
  assert.truthy(inner > 0, tostring(e))
  return e, compiled, inside
end

local a = ty.arange(1, 9)

local function helper(f, x, ...)
  local y = work(x)
  return f(y, ...), y
end

describe("a function that is made in each call and breaks", function()
  --- Each has a break in a function that is made inside.
  local programs = {
    ["a local function"] = function(x)
      local w = x * 0.5
      local function step(v)
        local y = work(v + w)
        say("loss", y:sum():item())
        return work(y) * 0.5
      end
      return step(step(x)), step(w)
    end,
    ["a protected body"] = function(x)
      local ok, y, more = pcall(function(...)
        local y = work(x)
        say("in", ...)
        return work(y) * 0.5, select("#", ...)
      end, 1, nil, "a", nil)
      return ok, y, more
    end,
    ["a body with a handler"] = function(x)
      local ok, y = xpcall(function()
        local y = work(x)
        say "in"
        return work(y) + y.none.x
      end, function(e) return "handled " .. e end)
      return ok, y
    end,
    ["a body without gradients"] = function(x)
      return ty.no_grad(function()
        local y = work(x)
        if y:sum():item() > 1e6 then return x end
        say "small"
        return ty.enable_grad(function() return work(y) * y:get(1) end)
      end)
    end,
    ["what a function of the user's calls"] = function(x)
      local s = x * 2
      return helper(function(v, k)
        local y = work(v + s)
        say(k, y)
        return work(y) * k
      end, x, 3)
    end,
    ["in turns of a loop"] = function(x)
      for i = 1, 4 do
        local scale = i * 0.25
        local function turn(v)
          local y = work(v) * scale
          say(i, y)
          return work(y) + i
        end
        x = turn(x) * 0.1
      end
      return x
    end,
    ["inside of another one"] = function(x)
      local function outer(v, k)
        local h = work(v) + k
        local function inner(u)
          local y = work(u + h) * k
          say("inner", k, y)
          return work(y) + x
        end
        say("outer", k)
        return inner(h) + inner(v)
      end
      return outer(x, 0.5) + outer(x, 0.25)
    end,
    ["that calls itself"] = function(x)
      local function down(v, k)
        local y = work(v)
        say(k, y)
        if k == 0 then return y end
        return down(work(y) * 0.1, k - 1) + y
      end
      return down(x, 3)
    end,
    ["with an assigned variable"] = function(x)
      local total, last = 0, nil
      local function step(v)
        local y = work(v)
        total, last = total + y:sum():item(), y
        say(total)
        return work(y) * 0.5
      end
      local y = step(x)
      total = total * 2
      say(total, last)
      y = step(y)
      return y, total, last, step(y)
    end,
    ["with what a body without gradients gives"] = function(x)
      local y, n = nil, 1
      ty.no_grad(function()
        y, n = work(x), n + 1
        say(n, y)
        y = work(y) * n
      end)
      n = n + 1
      local ok = pcall(function() n = n * 2 say(n) y = work(y) + n end)
      return work(y), n, ok
    end,
    ["with assigned parameters, and what may be another one"] = function(x, k, name)
      k = k or 2
      name = name and name .. "!" or "none"
      local function step(v)
        x, k = work(x) * 0.5, k + 1
        say(name, k, x)
        name = name .. k
        return work(v + x)
      end
      local y = step(x)
      x = x or y
      y = step(y) * k
      k = k > 3 and k * 2 or k
      return step(y), x, k, name
    end,
    ["of several that share variables"] = function(x)
      local n, list = 0, {}
      local function add(v) n = n + v say("add", n) return work(x) * n end
      local function get() return n end
      local function set(v) n = v say("set", get()) end
      list[1] = add(1)
      set(10)
      list[2] = add(2)
      n = n + 100
      list[3] = add(get())
      return list[1] + list[2] + list[3], get(), n
    end,
    ["of each other"] = function(x)
      local n, odd = 0, nil
      local function even(k, v)
        n = n + 1
        say("even", k, n)
        if k == 0 then return v end
        return odd(k - 1, work(v) * 0.5)
      end
      function odd(k, v)
        n = n + 10
        if k == 0 then return v end
        return even(k - 1, work(v) + n)
      end
      return even(5, x), n
    end,
    ["outside of a loop, with a variable of the outside"] = function(x)
      local best, at
      local function try(c)
        local l = (work(x) - c):abs():sum():item()
        if not best or l < best then best, at = l, c end
        return l
      end
      local sum = 0
      for c = 1, 5 do sum = sum + try(c) end
      for _, c in ipairs { 2, 9 } do sum = sum * 2 + try(c) end
      return best, at, sum
    end,
    ["with several results that a call takes"] = function(x)
      local n, t = 0, {}
      local function both(v)
        n = n + 1
        local y = work(v)
        say(n)
        return work(y), n, nil
      end
      t[1], t[2] = both(x)
      local list = { both(t[1]) }
      say(select("#", both(x)), n)
      return n, #list, both(list[1])
    end,
    ["and raises"] = function(x)
      local n = 0
      local function step(v, how)
        n = n + 1
        local y = work(v)
        say("before", n)
        y = work(y) * n
        if how == 1 then error("told", 2) end
        if how == 2 then error { n } end
        if how == 3 then return y + n.none end
        return y
      end
      local _, one = pcall(step, x, 1)
      local _, two = pcall(step, x, 2)
      n = n + 10
      local _, three = pcall(function() return step(x, 3) end)
      step(x)
      return one, two[1], three, n, step(x, 1)
    end,
    ["with `...` of both"] = function(x, ...)
      local n, given = 0, select("#", ...)
      local function step(v, ...)
        n = n + select("#", ...)
        say(n, ...)
        return work(v) * n, ...
      end
      local y, p, q = step(x, ...)
      return given, p, q, step(y, n, nil, ...)
    end,
    ["in a branch that data decide"] = function(x)
      local n = 0
      local function pick(v)
        local y = work(v)
        if y:sum():item() > 20 then n = n + 1 return work(y) * 0.1 end
        n = n + 100
        return work(y) * 3
      end
      for _ = 1, 6 do x = pick(x) end
      return x, n
    end,
  }
  --- What takes as many values as there are comes before the variables that are shared, an error behind them.
  local function raises_at_its_end(x)
    say(x:sum():item())
    say(select("#", x:sum():item()))
    local n, last, none = 0, nil, nil
    local function step(v)
      n, last = n + 1, v
      say(n)
      return work(v)
    end
    local y = step(x)
    n = n + 1
    n = n * 2
    n = n + #last
    say(n, last, y)
    return none.field
  end

  it("gives what it gives where the function runs as it is", function()
    same(function() return raises_at_its_end end, false, a)
  end)

  for name, f in pairs(programs) do
    it("gives what it gives: " .. name, function()
      in_parts(function() return f end, false, a, 2, "z")
      same(function() return f end, true, a, nil, nil)
    end)
  end

  it("is kept where functions that are called alone do enough, whichever closure is called first", function()
    local f = ty.compile(programs["a local function"])
    for _ = 1, 40 do account(f, false, a) end
    local e = ty.explain(f)
    assert.equal(e.calls, e.skips, tostring(e))
    local calls = 0
    for _, p in ipairs(e.parts) do calls = calls + (p.calls == 3 * e.calls and 1 or 0) end
    assert.truthy(calls > 0, tostring(e))
    local only = ty.compile(function(x)
      local function step(v)
        local y = work(v)
        say(y)
        return work(y)
      end
      return step(x)
    end)
    for _ = 1, 40 do account(only, false, a) end
    assert.equal(40, ty.explain(only).skips, tostring(ty.explain(only)))
  end)

  it("is read in loops without Lua, whose turns its trace takes by itself", function()
    local before = probe.turns()
    local e = in_parts(function()
      return function(x)
        local turns = 0
        local function solve(b)
          local y = b * 0.5 + 1
          local err = (y * y - b):abs():max()
          while err:item() > 1e-5 do
            y = y - (y * y - b) / (y * 2)
            err = (y * y - b):abs():max()
          end
          turns = turns + 1
          return y
        end
        return solve(x) + solve(x + 1), turns
      end
    end, false, a)
    local linked = 0
    for _, p in ipairs(e.parts) do linked = linked + (p.linked or 0) end
    assert.truthy(linked >= 40, tostring(e))
    assert.truthy(probe.turns() - before >= 10, tostring(e))
  end)

  it("yields", function()
    for _, call in ipairs { pcall, function(f, ...) return true, f(...) end, function(f, ...) return true, ty.no_grad(f, ...) end } do
      in_parts(function()
        return function(x)
          local n = 0
          local function step(v, k)
            local y = work(v)
            local r = coroutine.yield(k)
            n = n + r
            return work(y) * n
          end
          local _, y = call(step, x, "one")
          n = n * 2
          local _, z = call(step, y, "two")
          return z, n
        end
      end, true, a)
    end
  end)

  it("has its own variables in each of several calls that are suspended", function()
    local function f(x, k)
      local n = k
      local function step(v)
        n = n + 1
        local y = work(v)
        coroutine.yield(n)
        n = n * 2
        y = work(y) * n
        coroutine.yield(n)
        return y + n
      end
      local y = step(x)
      n = n + k
      return step(y), n
    end
    local function interleaved(g)
      local list, out = {}, {}
      for k = 1, 4 do list[k] = coroutine.wrap(g) end
      for turn = 1, 5 do
        for k = 1, 4 do
          local y, n = list[k](turn == 1 and a or nil, k)
          out[#out + 1] = text(y) .. text(n)
        end
      end
      return table.concat(out, ";")
    end
    local compiled = ty.compile(f)
    for _ = 1, 4 do assert.equal(interleaved(f), interleaved(compiled)) end
    assert.truthy(ty.explain(compiled).skips >= 12)
  end)

  it("shows its lines, names and levels", function()
    in_parts(function()
      return function(x)
        local n, nothing = 0, nil
        local function step(v)
          n = n + 1
          local y = work(v)
          local i = debug.getinfo(1, "nSl")
          say(i.name, i.namewhat, i.short_src, i.currentline, i.linedefined, debug.getinfo(2, "l").currentline)
          y = work(y)
          say(debug.traceback "here")
          return y
        end
        local y = step(x)
        say(pcall(function() say "in" return n.none.x end))
        say(pcall(function() n = nil say "in" return n + 1 end))
        local ok, why = pcall(function()
          local object = x
          local function change() object = {} end
          say "in"
          change()
          return object:method(work(work(y)))
        end)
        say(ok, why)
        say(pcall(function() say "in" return nothing(y) end))
        n = n or 1
        say(pcall(step, y))
        return y + n
      end
    end, false, a)
  end)

  it("is kept, and called later", function()
    local kept
    local function make()
      return function(x)
        local n = 0
        local function add(v)
          n = n + 1
          local y = work(v)
          say(n)
          return work(y) * n, n
        end
        local y = add(x)
        kept = kept or {}
        kept[#kept + 1] = add
        n = n + 10
        return add(y), add, function() n = n * 2 return n end
      end
    end
    local plain, compiled = make(), ty.compile(make())
    local function calls(f)
      local out = {}
      said, kept = {}, {}
      for _ = 1, 4 do
        local y, add, double = f(a)
        out[#out + 1] = text(y) .. " " .. double() .. " " .. select(2, add(a)) .. " " .. double()
        for _, g in ipairs(kept) do out[#out + 1] = select(2, g(a)) end
      end
      return table.concat(out, ";") .. table.concat(said, " ")
    end
    for _ = 1, 3 do assert.equal(calls(plain), calls(compiled)) end
    assert.truthy(ty.explain(compiled).skips > 8)
  end)

  --- Each has variables of its own in each turn of a loop, which are assigned and which closures share.
  local turns = {
    ["a list of closures"] = function(x)
      local list = {}
      for i = 1, 3 do
        local n = i
        list[i] = function(v)
          n = n + 1
          say(n)
          return work(v) * n
        end
        x = list[i](x) * 0.1
        n = n * 10
      end
      return list[1](x), list[2](x), list[3](x), list[1](x)
    end,
    ["a step of an optimiser"] = function(x)
      local sum, steps = 0, 0
      for epoch = 1, 3 do
        local total, worst = 0, nil
        for _, scale in ipairs { 1, 2, 3 } do
          local calls = 0
          local function closure()
            calls = calls + 1
            local y = work(x) * scale
            local l = y:sum():item()
            if not worst or l > worst then worst = l end
            total = total + l
            return y
          end
          x = x + closure() * 1e-3
          if calls ~= 1 then error "once" end
          steps = steps + calls
        end
        say(epoch, total, worst)
        sum = sum + total
      end
      return x, sum, steps
    end,
    ["while and break"] = function(x)
      local kept, k = {}, 0
      while true do
        local n = k
        local function get() return n end
        kept[#kept + 1] = get
        x = work(x) * 0.5
        say(k, n)
        n = n + 0.5
        if k == 3 then break end
        k = k + 1
      end
      return x, kept[1](), kept[2](), kept[4]()
    end,
    ["repeat, whose condition reads it"] = function(x)
      local kept = {}
      repeat
        local n = #kept
        local function add(v) n = n + v say("add", n) return work(x) end
        kept[#kept + 1] = function() n = n * 2 return n end
        x = add(3) * 0.5
      until n > 4
      return x, kept[1](), kept[1](), kept[2] and kept[2](), #kept
    end,
    ["scopes behind each other"] = function(x)
      local get, set, again
      do
        local n = 1
        get = function() n = n + 1 return n end
        x = work(x) say(n)
      end
      do
        local m = 10
        set = function(v) m = v return m end
        again = function() return m end
        x = work(x) say(m, set(20))
        m = m + 1
      end
      return x, get(), again(), set(3), again(), get()
    end,
    ["variables of several depths"] = function(x)
      local all, out = 0, {}
      for i = 1, 2 do
        local o = i
        for k = 1, 2 do
          local b, c = k, nil
          local function both(v)
            o, b, c, all = o + 1, b + 10, v, all + 100
            say(o, b, all)
            return work(v)
          end
          x = both(x) * 0.5
          out[#out + 1] = function() b = b + 1 return o, b, c end
          b = b * 2
        end
        o = o * 3
      end
      for k, f in ipairs(out) do say(k, f()) end
      for k, f in ipairs(out) do say(k, f()) end
      return x, all
    end,
    ["errors and protected bodies"] = function(x)
      local log = {}
      for i = 1, 4 do
        local tries, why = 0, nil
        local ok = pcall(function()
          tries = tries + 1
          local y = work(x)
          say("try", i, tries)
          if i % 2 == 0 then error("at " .. i, 0) end
          x = work(y) * 0.5
        end)
        if not ok then why = "failed" end
        log[i] = function() return tries, why end
        tries = tries + 10
      end
      for i = 1, 4 do say(i, log[i]()) end
      return x
    end,
    ["a parameter's place and `...`"] = function(x, k)
      for i = 1, 2 do
        local first = k
        local function count() first = first + i return first end
        say(count(), first)
        x = work(x) + count()
        if first < 0 then k = nil end
      end
      return x, k
    end,
  }
  for name, f in pairs(turns) do
    it("has variables of its own in each turn of a loop: " .. name, function()
      in_parts(function() return f end, false, a, 2)
      same(function() return f end, true, a, 2)
    end)
  end

  it("has variables of its own in each turn of a loop that runs as it is behind a part", function()
    local function f(x)
      local y, list = work(work(x)), {}
      say "begins"
      for i = 1, 3 do
        local n = i
        list[i] = function()
          n = n + 1
          return n
        end
        say(i, list[i]())
        n = n * 10
      end
      return y, list[1](), list[2](), list[3]()
    end
    local compiled = ty.compile(f)
    for _ = 1, 40 do assert.equal(account(f, false, a), account(compiled, false, a)) end
    assert.truthy(ty.explain(compiled).skips > 0)
  end)

  it("has variables of its own in each turn of loops that are suspended, and that debug looks at", function()
    local function f(x, k)
      local list = {}
      for i = 1, 3 do
        local n = k * i
        list[i] = function() n = n + 1 return n end
        local y = work(x)
        coroutine.yield(list[1](), n)
        n = n * 2
        x = y * 0.5
      end
      return x, list[1](), list[2](), list[3](), select(2, debug.getupvalue(list[2], 1)),
        debug.upvalueid(list[1], 1) == debug.upvalueid(list[2], 1)
    end
    local function interleaved(g)
      local list, out = {}, {}
      for k = 1, 3 do list[k] = coroutine.wrap(g) end
      for turn = 1, 4 do
        for k = 1, 3 do
          local given = { list[k](turn == 1 and a or nil, k) }
          for i = 1, table.maxn(given) do out[#out + 1] = text(given[i]) end
        end
      end
      return table.concat(out, ";")
    end
    local compiled = ty.compile(f)
    for _ = 1, 5 do assert.equal(interleaved(f), interleaved(compiled)) end
    assert.truthy(ty.explain(compiled).skips > 0)
  end)

  it("sees variables that debug changes or joins meanwhile", function()
    jit.off() -- LuaJIT's traces take the variable of an upvalue for a constant
    finally(function() jit.on() end)
    in_parts(function()
      local other = 100
      local function of() return other end
      return function(x)
        local n, k = 1, 2
        local function step(v)
          n = n + k
          local y = work(v)
          say(n)
          return work(y) * n, n
        end
        step(x)
        for i = 1, 9 do
          if debug.getupvalue(step, i) == "n" then debug.setupvalue(step, i, 50) end
        end
        local _, fifty = step(x)
        say(n)
        for i = 1, 9 do
          if debug.getupvalue(step, i) == "n" then debug.upvaluejoin(step, i, of, 1) end
        end
        local y, joined = step(x)
        return y, fifty, joined, n, of()
      end
    end, false, a)
  end)

  it("has the globals that are set meanwhile, in later calls too", function()
    local pause, stepmul = collectgarbage("setpause", 1), collectgarbage("setstepmul", 10000) -- it collects all the time
    finally(function()
      collectgarbage("setpause", pause)
      collectgarbage("setstepmul", stepmul)
    end)
    local by_caller = ty.disable(function(env) setfenv(2, env) end)
    local function make(assigns)
      return setfenv(function(x, env)
        local n, k = 0, 1
        local function step(v, to)
          if assigns then n = n + 1 end
          local y, was = work(v), value -- luacheck: ignore
          if to then by_caller(to) end
          y = work(y)
          say(was, value, n) -- luacheck: ignore
          return y * k
        end
        local y = step(step(x), env)
        say(value) -- luacheck: ignore
        by_caller(env)
        if assigns then n = n + 1 end
        return step(y), value, n -- luacheck: ignore
      end, setmetatable({ value = 1 }, { __index = getfenv(1) }))
    end
    for _, assigns in ipairs { false, true } do
      local plain, inside = make(assigns), make(assigns)
      local compiled = ty.compile(inside)
      for i = 1, 5 do
        local env = setmetatable({ value = i + 10 }, { __index = getfenv(1) })
        assert.equal(account(plain, false, a, env), account(compiled, false, a, env), "call " .. i)
      end
      assert.truthy(ty.explain(compiled).skips > 0)
    end
  end)

  it("may set its own globals", function()
    same(function()
      return setfenv(function(x, env)
        local n = 0
        local function step(v)
          n = n + 1
          local y = work(v)
          say(value) -- luacheck: ignore
          setfenv(1, env)
          say(value) -- luacheck: ignore
          return work(y) * n
        end
        return step(step(x)), value, n -- luacheck: ignore
      end, setmetatable({ value = 1 }, { __index = getfenv(1) }))
    end, false, a, setmetatable({ value = 7 }, { __index = getfenv(1) }))
  end)

  it("holds nothing when its call is over", function()
    local f = ty.compile(function(x, t)
      local n = 0
      local function step(v)
        n = n + #t
        local y = work(v)
        say(n)
        return work(y) * n
      end
      return step(x) + step(x)
    end)
    said = {}
    for _ = 1, 5 do f(a, { 1 }) end
    local t = { 1, 2 }
    local gone = setmetatable({ t }, { __mode = "v" })
    f(a, t)
    t = nil -- luacheck: ignore
    f(a, { 1 })
    for _ = 1, 3 do collectgarbage() end
    assert.equal(nil, gone[1])
    gone[1], f = f, nil -- luacheck: ignore
    for _ = 1, 4 do collectgarbage() end
    assert.equal(nil, gone[1])
  end)

  it("runs as it is where it does too little", function()
    local f = ty.compile(function(x)
      local s = 0
      local function add(i) s = s + x:get(i) end
      for i = 1, 8 do add(i) end
      return s
    end)
    for _ = 1, 60 do assert.equal(36, f(ty.arange(1, 9))) end
    local e = ty.explain(f)
    assert.truthy(e.skips < 60, tostring(e))
    assert.match("a part would do too little", tostring(e:full()))
  end)

  it("begins anew after jit.reset", function()
    local e, f, inside = in_parts(function() return programs["with an assigned variable"] end, false, a)
    assert.truthy(e.skips > 0)
    ty.reset(f)
    for _ = 1, 4 do assert.equal(account(inside, false, a), account(f, false, a)) end
    assert.truthy(ty.explain(f).skips >= 2)
  end)

  it("is made anew under a hook, too", function()
    local f = programs["with an assigned variable"]
    local compiled = ty.compile(f)
    for _ = 1, 4 do account(compiled, false, a) end
    for _, mask in ipairs { "c", "l", "r" } do
      local wanted = account(f, false, a)
      debug.sethook(function() end, mask)
      local given = account(compiled, false, a)
      debug.sethook()
      assert.equal(wanted, given)
    end
  end)

  it("needs no debug information", function()
    local chunk = [[
      local work, say = ...
      return function(x)
        local n = 0
        local function step(v)
          n = n + 1
          local y = work(v)
          say(n, y)
          return work(y) * n
        end
        local y = step(step(x))
        n = n + 5
        return step(y), n
      end]]
    in_parts(function() return loadstring(string.dump(loadstring(chunk), true))(work, say) end, false, a)
  end)

  it("is kept, however little it does, where FEW says so", function()
    local few = parts.FEW
    finally(function() parts.FEW = few end)
    parts.FEW = 0
    for _, f in pairs(programs) do same(function() return f end, false, a, 2, "z") end
  end)
end)

describe("a function that is made in each call", function()
  it("is called a method where a later variable has its argument's register", function()
    local tell = ty.disable(function() end)
    local function f(x)
      local turns = 3
      local function fails() turns = turns.none.field end
      tell(turns)
      tell(pcall(fails))
      tell(math.max(1, x:sum():item()), x:sum():item())
      local p, b, c, d, e, g, h, n = 1, 2, 3, 4, 5, 6, 7, 8
      local function count() n = n + 1 end
      count()
      return p + b + c + d + e + g + h + n
    end
    local c = ty.compile(f)
    for _ = 1, 4 do
      local _, plain = pcall(f, "text")
      assert.match("method 'sum'", plain)
      assert.same({ false, plain }, { pcall(c, "text") })
      assert.equal(f(ty.ones(2)), c(ty.ones(2)))
    end
  end)

  it("sees in a loop's first turn what was assigned before it", function()
    local few = parts.FEW
    finally(function() parts.FEW = few end)
    parts.FEW = 0
    local note = ty.disable(function() end)
    local function f(x, n)
      local list, turns = {}, 0
      repeat
        turns = turns + 1
        local function count() return turns end
        list[turns] = x:sum():item() * count()
        note(list[turns])
      until turns >= n
      return list
    end
    local c = ty.compile(f)
    for n = 1, 4 do assert.same(f(ty.ones(3), n), c(ty.ones(3), n)) end
  end)

  it("has parts of few operations where their fusion saves many bytes", function()
    finally(function() parts.ANEW = 1 end)
    parts.ANEW = 3
    local note = ty.disable(function() end)
    for size, kept in pairs { [4] = false, [64] = true } do
      local function f(x)
        local y = nil
        local function g()
          for _ = 1, 8 do x = x * 0.5 end
          note()
          for _ = 1, 8 do x = x * 2 end
          y = x
        end
        g()
        return y
      end
      local c, x = ty.compile(function(v) return f(v) end), ty.rand(size, size) -- which itself does nothing
      for _ = 1, 60 do assert.is_true(c(x):equal(f(x))) end
      assert.equal(kept, not tostring(ty.explain(c)):find "a part would do too little", tostring(ty.explain(c)))
    end
  end)

  it("has parts, however little it does, where what it calls does enough", function()
    finally(function() parts.ANEW = 1 end)
    parts.ANEW = 3
    local function root(x)
      local y = x * 0.5 + 1
      while (y * y - x):abs():max():item() > 1e-5 do y = y - (y * y - x) / (y * 2) end
      return y
    end
    local function f(x)
      local turns = 0
      local function solve(b)
        local y = root(b)
        turns = turns + 1
        return y
      end
      return solve(x) + solve(x + 1) * turns
    end
    local c, x = ty.compile(f), ty.arange(1, 101)
    for _ = 1, 60 do assert.is_true(c(x):equal(f(x))) end
    assert.equal(60, ty.explain(c).skips, tostring(ty.explain(c)))
  end)

  it("has no parts where these do too little for what it costs to make them", function()
    finally(function() parts.ANEW = 1 end)
    parts.ANEW = 3
    for operations, kept in pairs { [6] = false, [30] = true } do
      local count = 0
      local note = ty.disable(function() count = count + 1 end)
      local function f(x)
        local n = 2
        local function g(v)
          n = n + 1
          note(n)
          for _ = 1, operations do v = v * n end
          return v
        end
        return g(x)
      end
      local c, x = ty.compile(f), ty.ones(3)
      for _ = 1, 60 do assert.is_true(c(x):equal(f(x))) end
      assert.equal(120, count)
      assert.equal(kept, not tostring(ty.explain(c)):find "a part would do too little", tostring(ty.explain(c)))
    end
  end)
end)
