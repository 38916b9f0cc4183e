--- lifetimes_spec.lua -- large results of operations and compiled functions are let go of when nobody can use them, and
-- never before. Random programs: fuzz_lifetimes.lua.

local ffi = require "ffi"
local H = require "spec.helper"
local ty = H.ty

local BYTES = 4 * 2 ^ 17 -- of each result: large enough to be looked after
local function input() return ty.ones(2 ^ 17) end

local f = ty.compile(function(x) return x * 0.5 + 1 end)
local two = ty.compile(function(_, x) return x * 0.5 + 2 end)
for _ = 1, 4 do
  f(input())
  two(nil, input())
end

--- What `body` gives, and how many results it let go of; the collector stands still.
local function counted(body)
  collectgarbage()
  collectgarbage "stop"
  local before = ty.internals.lifetimes()
  local ok, y = pcall(body)
  collectgarbage "restart"
  assert(ok, y)
  return ty.internals.lifetimes() - before, y
end

local function values(list)
  local y = {}
  for i, v in ipairs(list) do y[i] = v[1]:item() end
  return y
end

describe("a compiled function's result is let go of when its line is come to again", function()
  it("where it was dropped", function()
    local x = input()
    assert.truthy(counted(function()
      for _ = 1, 20 do f(x) end
    end) >= 18)
  end)

  it("where a variable is overwritten, which was read before", function()
    local x = input()
    local n, sum = counted(function()
      local sum = 0
      for _ = 1, 20 do
        local y = f(x)
        sum = sum + (y * 2):sum():item() / 2 ^ 17
      end
      return sum
    end)
    assert.truthy(n >= 18)
    assert.equal(60, sum)
  end)

  it("where another call stands on the line", function()
    local x, list = input(), {}
    local n = counted(function()
      local sum = 0
      for _ = 1, 20 do
        local y = f(x) list[#list + 1] = two(nil, x)
        sum = sum + y:numel()
      end
    end)
    assert.truthy(n >= 18)
    assert.equal(50, ty.stack(list)[{ {}, 1 }]:sum():item())
  end)

  it("and the memory of many calls is that of a few", function()
    local x = input()
    counted(function()
      local before = ty.stats().memory.used
      for _ = 1, 50 do f(x) end
      assert.truthy(ty.stats().memory.used - before <= 4 * BYTES)
    end)
  end)
end)

describe("an operation's result is let go of when the next ones are called", function()
  local x, w = input(), ty.ones(2 ^ 17)
  local function let_go(body)
    body(3)
    return (counted(function() body(10) end))
  end

  it("where a variable is overwritten", function()
    assert.truthy(let_go(function(n)
      for _ = 1, n do
        local y = x * 2
        y = y + 1
        y = y:sqrt()
        local _ = y - 0.5
      end
    end) >= 38)
  end)

  it("within an expression, operators told from each other by their numbers", function()
    assert.truthy(let_go(function(n)
      for _ = 1, n do local _ = ((x * 2 + x):abs() * 0.5 - x) * x end
    end) >= 48)
  end)

  it("where its frame has ended", function()
    local function ends() local _ = x + 1 end
    assert.truthy(let_go(function(n)
      for _ = 1, n do ends() end
    end) >= 9)
  end)

  it("and gradients go back through it", function()
    local v = ty.ones(2 ^ 17):requires_grad_()
    local function step()
      v.grad = nil
      local y = v * 2
      y = y * y
      y = w * y
      y:sum():backward()
      return v.grad[1]:item()
    end
    for _ = 1, 4 do assert.equal(8, step()) end
  end)
end)

describe("a compiled function's result, or an operation's, stays", function()
  local x = input()
  local kept = {}
  local function keep(v) kept[#kept + 1] = v return 1 end -- stylua: ignore
  local thing = setmetatable({ abs = two, keep = function(_, v) keep(v) end }, { __add = two })
  local keeper = setmetatable({}, { __add = function(_, v) return keep(v) end })
  local function ends_in_operation(_, v)
    keep(v)
    return v:maximum(v)
  end
  local function ends_compiled(_, v)
    keep(v)
    return two(_, v)
  end
  local giver = setmetatable({}, { __sub = function() return x:abs() end })
  local cell = ffi.metatype("struct { int a; }", { __eq = function(_, v) return keep(v) == 2 end })()
  local sly = setmetatable({}, { __add = ends_in_operation })
  local slier = setmetatable({}, { __add = ends_compiled })
  local mul = { mul = function(_, v) keep(v) end }
  local held
  local ways = {
    ["in a table, an operator's"] = function()
      for i = 1, 3 do kept[i] = x * 0.5 end
    end,
    ["with an object's operator that ends in an operation"] = function()
      for _ = 1, 3 do
        local y = x * 2
        local _ = sly + y
      end
    end,
    ["with an object's operator that ends in a compiled function"] = function()
      for _ = 1, 3 do
        local y = x * 2
        local _ = slier + y
      end
    end,
    ["where an object's operator gives it, which ends in an operation"] = function()
      for i = 1, 3 do kept[i] = giver - 1 local _ = x - x end -- stylua: ignore
    end,
    ["with what LuaJIT calls where it compares with C data"] = function()
      for _ = 1, 3 do
        local y = x * 2
        if cell == y then kept = {} end
        local _ = x - 1
      end
    end,
    ["with the handler of an error, which ends in an operation"] = function()
      local function g(a, b) local _ = a - b end
      for i = 1, 3 do
        local _
        g(x, x)
        _, kept[i] = xpcall(function() g({}, {}) end, function() return x:abs() end)
        g(x, x)
      end
    end,
    ["where a hook calls operations"] = function()
      local function g()
        local y = x * 2
        local z = y:abs()
        return z:sum()
      end
      for _ = 1, 3 do g() end
      debug.sethook(function() return x:exp() end, "", 1)
      for i = 1, 3 do kept[i] = g():reshape(1) end
      debug.sethook()
    end,
    ["where an older one is given again"] = function()
      local memo
      local keeping = setmetatable({}, { __mul = function(_, v) memo = v return 1 end }) -- stylua: ignore
      local function get()
        if memo then return memo end
        return x:abs()
      end
      for i = 1, 6 do
        local y = get()
        local first = i == 4 and keeping or x
        local _ = first * y
        local _ = x - 1
      end
      for i = 1, 3 do kept[i] = memo end
    end,
    ["with one of two objects' operators"] = function()
      for i = 1, 6 do
        local y = x * 2
        local first = i % 2 == 0 and keeper or x
        local _ = first + y
      end
    end,
    ["with an object, and is an operand again on another way"] = function()
      local function g(given, n)
        local y = given
        if n % 2 == 0 then y = x * 2 end
        if n % 2 == 0 then local _ = keeper + y else local _ = x + y end
      end
      for i = 1, 6 do g(kept[#kept] or x, i) end
    end,
    ["where an instruction did not make it in this call"] = function()
      local function g(n)
        local y = x * 2
        if n % 2 == 1 and #kept > 0 then y = kept[#kept] end
        if n % 2 == 0 then local _ = keeper + y else local _ = x + y end
      end
      for i = 0, 5 do g(i) end
    end,
    ["in a table"] = function()
      for i = 1, 3 do kept[i] = f(x) end
    end,
    ["in a constructor"] = function()
      for i = 1, 3 do
        local t = { f(x) }
        kept[i] = t[1]
      end
    end,
    ["with whom it was given to"] = function()
      for _ = 1, 3 do keep(f(x)) end
    end,
    ["with a method of an object"] = function()
      for _ = 1, 3 do
        local y = f(x)
        thing:keep(y)
      end
    end,
    ["with an object's operator"] = function()
      for _ = 1, 3 do
        local y = f(x)
        local _ = keeper + y
      end
    end,
    ["with an operator that one of two objects has"] = function()
      for i = 1, 3 do
        local o, y = 1, f(x)
        o = i > 0 and keeper or o
        local _ = o + y
      end
    end,
    ["in closures"] = function()
      local fns = {}
      for i = 1, 3 do
        local y = f(x)
        fns[i] = function() return y end
      end
      for i = 1, 3 do kept[i] = fns[i]() end
    end,
    ["in an upvalue"] = function()
      for i = 1, 3 do
        held = f(x)
        kept[i] = held
      end
    end,
    ["where it is returned"] = function()
      local function g() return (f(x)) end
      for i = 1, 3 do kept[i] = g() end
    end,
    ["where it is a tail call's"] = function()
      local function g() return f(x) end
      for i = 1, 3 do kept[i] = g() end
    end,
    ["in calls that are not over"] = function()
      local function g(n)
        local y = f(x)
        if n > 1 then g(n - 1) end
        kept[n] = y
      end
      g(3)
    end,
    ["in coroutines"] = function()
      local function g()
        local y = f(x)
        coroutine.yield()
        keep(y)
      end
      local all = { coroutine.wrap(g), coroutine.wrap(g), coroutine.wrap(g) }
      for _ = 1, 2 do
        for i = 1, 3 do all[i]() end
      end
    end,
    ["where the function that made it keeps it"] = function()
      local y
      local own = ty.compile(function(v)
        y = v * 0.5 + 1
        return y
      end)
      for i = 1, 9 do
        own(x)
        kept[(i - 1) % 3 + 1] = y
      end
    end,
    ["where the function that made it puts it into a table"] = function()
      local box = {}
      local own = ty.compile(function(v)
        box.y = v * 0.5 + 1
        return box.y
      end)
      for i = 1, 9 do
        own(x)
        kept[(i - 1) % 3 + 1] = box.y
      end
    end,
    ["with a call of the same function that keeps its argument"] = function()
      local own = ty.compile(function(v, list)
        if list then list[#list + 1] = v end
        return v * 0.5 + 1
      end)
      local y = x
      for i = 1, 9 do
        local list
        if i > 6 then list = kept end
        y = own(y, list)
      end
    end,
    ["with what the line calls in its place"] = function()
      local function own(v)
        keep(v)
        return v * 0.5
      end
      local y = x
      for i = 1, 9 do
        local g = i % 3 == 0 and own or f
        y = g(y)
      end
    end,
    ["with a method of what may be another object"] = function()
      for i = 1, 3 do
        local y = f(x)
        local q = mul
        if i > 100 then q = y end
        q:mul(y)
      end
    end,
    ["with an operator of what may be another object"] = function()
      for i = 1, 3 do
        local y = f(x)
        local q = keeper
        if i > 100 then q = y end
        local _ = q + y
      end
    end,
    ["with an operator of what was a number before a closure wrote it"] = function()
      for _ = 1, 3 do
        local y = f(x)
        local n = 0
        local function set() n = keeper end
        set()
        local _ = n + y
      end
    end,
    ["with a function that was its method before a closure wrote it"] = function()
      for _ = 1, 3 do
        local y = f(x)
        local m = y.mul
        local function set() m = keep end
        set()
        m(y)
      end
    end,
    ["in another variable"] = function()
      local a, b, c
      for _ = 1, 3 do
        a, b, c = b, c, f(x)
      end
      kept[1], kept[2], kept[3] = a, b, c
    end,
    ["as a view"] = function()
      for i = 1, 3 do
        local y = f(x)
        kept[i] = y:reshape(2, -1)[1]
      end
    end,
    ["as a metamethod's, which no call gave"] = function()
      local h = keep
      for _ = 1, 3 do h(thing + x) end
    end,
    ["as that of a field whose name tensors have"] = function()
      for _ = 1, 3 do keep(thing:abs(x)) end
    end,
  }
  for name, way in pairs(ways) do
    it(name, function()
      kept = {}
      for _ = 1, 3 do
        kept = {}
        counted(way)
        assert.equal(3, #kept)
        values(kept)
        kept = {}
        counted(function()
          way()
          for _ = 1, 3 do local _ = (x + 1):abs() end
        end)
        values(kept)
      end
    end)
  end
end)

describe("a compiled function's result stays where it is read later, and not kept", function()
  local x = input()
  it("in a call that is not over", function()
    local function g(n)
      local y = f(x)
      local inner = n > 1 and g(n - 1) or 0
      return inner + y:sum():item() / 2 ^ 17
    end
    for _ = 1, 3 do
      local _, sum = counted(function() return g(4) end)
      assert.equal(6, sum)
    end
  end)

  it("in a coroutine", function()
    local function g()
      local y = f(x)
      coroutine.yield(0)
      coroutine.yield(y:sum():item() / 2 ^ 17)
    end
    for _ = 1, 3 do
      local _, sum = counted(function()
        local all, sum = {}, 0
        for i = 1, 4 do all[i] = coroutine.wrap(g) end
        for _ = 1, 2 do
          for i = 1, 4 do sum = sum + all[i]() end
        end
        return sum
      end)
      assert.equal(6, sum)
    end
  end)
end)

describe("gradients go back through results that were let go of", function()
  it("where they were recorded", function()
    local w = ty.ones(2 ^ 17):requires_grad_()
    local loss
    for i = 1, 4 do
      local y = f(w * i)
      loss = y:sum()
      loss:backward()
    end
    assert.equal(5, w.grad[1]:item())
  end)
end)

describe("results of operations stay", function()
  local x = ty.ones(2 ^ 14)
  local exp, cos = ty.exp, ty.cos

  it("where LuaJIT runs its own traces, whose frames lie otherwise", function()
    local kept = {}
    local function note(y, step, _, _) kept[step] = y end
    local function go()
      for i = 1, 200 do
        note(exp(x), i, 0.1, -cos(x)) -- two calls, three registers apart
      end
    end
    for _ = 1, 10 do
      go()
      for _, y in ipairs(kept) do assert.truthy(ty.internals.is_live(y)) end
    end
  end)

  it("where numbers have operators of their own", function()
    local kept = {}
    debug.setmetatable(0, { __mul = function(_, t)
      kept[#kept + 1] = t
      return t
    end })
    local ok, e = pcall(function()
      for _ = 1, 10 do
        local y = x + 1
        local _ = 2 * y
        local _ = x - 1
      end
    end)
    debug.setmetatable(0, nil)
    assert(ok, e)
    assert.equal(10, #kept)
    for _, y in ipairs(kept) do assert.truthy(ty.internals.is_live(y)) end
  end)

  it("where an operation runs as another event than its own", function()
    local add = debug.getmetatable(x).__add
    local o = setmetatable({}, { __index = function() return add(x, x) end })
    for _ = 1, 3 do assert.equal(2, o.field[1]:item()) end
  end)
end)
