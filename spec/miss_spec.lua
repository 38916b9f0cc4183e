--- miss_spec.lua -- what jit.explain says of calls that no trace answered: compared with the nearest trace, in words of
-- the user.

local H = require "spec.helper"
local ty = H.ty

local x = ty.ones(2, 3)

--- The text of the last miss of a function that was called by each of the calls.
local function last_miss(f, ...)
  for _, call in ipairs { ... } do call() end
  local misses = jit.explain(f).misses
  return misses[#misses] and misses[#misses].text
end

describe("a miss names", function()
  it("an argument by name and position, with its shapes", function()
    local f = jit.compile(function(a) return a * 2 end)
    assert.equal("`a` (argument 1) is f32[4,3], was f32[2,3]",
      last_miss(f, function() f(x) end, function() f(ty.ones(4, 3)) end))
  end)

  it("a table that is shorter by the counts of entries", function()
    local net = { c = { 1, 2, 3 } }
    local f = jit.compile(function(a)
      for i = 1, #net.c do a = a * net.c[i] end
      return a
    end)
    assert.equal("`net.c` is shorter: was 3 entries, is 2", last_miss(f, function() f(x) end, function()
      net.c = { 1, 2 }
      f(x)
    end))
    assert.equal("`net.c` is longer: was 2 entries, is 3", last_miss(f, function()
      jit.reset(f)
      f(x)
      net.c[3] = 5
      f(x)
    end))
  end)

  it("the key that a table got, or lost, or that their order is another one", function()
    local t = { b = 2 }
    local f = jit.compile(function(a)
      for _, v in pairs(t) do a = a + v end
      return a
    end)
    local function after(change)
      jit.reset(f)
      f(x)
      change()
      return last_miss(f, function() f(x) end)
    end
    assert.equal("`t` is given the new key `c`", after(function() t.c = 3 end))
    assert.equal("`t` is without its key `b`", after(function() t.b = nil end))
  end)

  it("that a table's keys have another order", function()
    local function filled(a, b, n)
      local t = {}
      for i = 1, n do t["k" .. i] = i end
      t[a], t[b] = 1, 2
      for i = 1, n do t["k" .. i] = nil end
      return t
    end
    local small, large
    for k = 1, 26 do -- two keys whose order depends on the table's size
      local a, b = string.char(96 + k), string.char(96 + k % 26 + 1)
      small, large = filled(a, b, 0), filled(a, b, 64)
      if next(small) ~= next(large) then break end
    end
    assert.not_equal(next(small), next(large))
    local model = { parts = small }
    local f = jit.compile(function(a)
      for _, v in pairs(model.parts) do a = a + v end
      return a
    end)
    assert.equal("`model.parts` is walked in another order of its keys", last_miss(f, function() f(x) end, function()
      model.parts = large
      f(x)
    end))
  end)

  it("a type by what it is now", function()
    local cfg = { scale = 2 }
    local f = jit.compile(function(a) return a * cfg.scale end)
    assert.equal("`cfg.scale` is f32[3], was a number", last_miss(f, function() f(x) end, function()
      cfg.scale = ty.ones(3)
      f(x)
    end))
  end)

  it("what a field is looked up in, where that is gone", function()
    local cfg = { inner = { w = 2 } }
    local f = jit.compile(function(a) return cfg.inner and a * cfg.inner.w or a end)
    assert.equal("`cfg.inner` is nil, was a table", last_miss(f, function() f(x) end, function()
      cfg.inner = nil
      f(x)
    end))
  end)

  it("the outcome of a comparison", function()
    local f = jit.compile(function(a, rate) return rate > 0.5 and a * rate or a end)
    assert.equal("`0.5 < rate` is true, was false", last_miss(f, function() f(x, 0.1) end, function() f(x, 0.9) end))
  end)

  it("the value of what was computed and looked at", function()
    local f = jit.compile(function(a, k) return a + #({ "p", "q", "r" })[k + 1] end)
    assert.equal("`(k + 1)` is 3, was 2", last_miss(f, function() f(x, 1) end, function() f(x, 2) end))
  end)

  it("what stands at a key that is a number of the call", function()
    local names = { "p", "q", "r" }
    local f = jit.compile(function(a, k) return a + #names[k + 1] end)
    assert.equal("`names[k + 1]` is \"r\", was \"q\"", last_miss(f, function() f(x, 1) end, function() f(x, 2) end))
    f = jit.compile(function(a, k) return a, names[k] end)
    assert.equal("`k` is 1.5, was a key of lists", last_miss(f, function() f(x, 1) end, function() f(x, 1.5) end))
  end)

  it("that a list got holes", function()
    local list = { 1, 2 }
    local f = jit.compile(function(a)
      list[#list + 1] = 1
      return a * 2, #list
    end)
    assert.equal("`list` is a list with holes, or a long one, was a short one without", last_miss(f, function() f(x) end, function()
      list[9] = 1
      f(x)
    end))
  end)

  it("whether a number was whole, where it met integers", function()
    local i = ty.tensor({ 1, 2 }, { dtype = "i32" })
    local f = jit.compile(function(a, k) return a * k end)
    assert.equal("`k` is 2.5, was a whole number", last_miss(f, function() f(i, 2) end, function() f(i, 2.5) end))
  end)

  it("functions by where they stand, and closures as such", function()
    local f = jit.compile(function(a, act) return act(a) end)
    local function twice(a) return a * 2 end
    local function relu(a) return a:relu() end
    local text = last_miss(f, function() f(x, twice) end, function() f(x, relu) end)
    assert.match("^`act` %(argument 2%) is the function at .*miss_spec.lua:%d+, was the function at .*miss_spec.lua:%d+$", text)
    local function scaled(k) return function(a) return a * k end end
    jit.reset(f)
    assert.match("^`act` %(argument 2%) is a new closure of the function at ", last_miss(f, function() f(x, scaled(1)) end,
      function() f(x, scaled(2)) end))
  end)

  it("strides, and whether a gradient is needed", function()
    local f = jit.compile(function(a) return a:detach() * 2 end, { dynamic = false })
    assert.equal("`a` (argument 1) is f32[2,3] as before, but of other strides",
      last_miss(f, function() f(x) end, function() f(ty.ones(3, 2):t()) end))
    assert.equal("`a` (argument 1) is f32[2,3], a leaf, was f32[2,3]",
      last_miss(f, function() jit.reset(f) f(x) end, function() f(ty.ones(2, 3):requires_grad_()) end))
  end)

  it("another number of arguments, and another mode", function()
    local f = jit.compile(function(a, ...) return a * select("#", ...) end)
    assert.equal("it is called with another number of arguments",
      last_miss(f, function() f(x, 1) end, function() f(x, 1, 2) end))
    jit.reset(f)
    assert.equal("it is called under other settings or modes",
      last_miss(f, function() f(x) end, function() ty.no_grad(f, x) end))
  end)

  it("the line where it was asked", function()
    local f = jit.compile(function(a, flag)
      if flag then a = a * 2 end
      return a
    end)
    f(x, true)
    f(x, false)
    local m = jit.explain(f).misses[1]
    assert.match("miss_spec.lua:%d+$", m.line)
    assert.same({ "equal", "flag", "true", "false" }, { m.guard, m.path, m.was, m.now })
  end)
end)

describe("a miss is compared with", function()
  it("the trace whose guards agree longest, not the one that hit last", function()
    local net = { c = { 1, 2, 3 } }
    local f = jit.compile(function(a)
      for i = 1, #net.c do a = a * net.c[i] end
      return a
    end)
    f(x)
    f(x:to "f64")
    net.c = { 1, 2 }
    local function text() return last_miss(f, function() f(x) end) end
    assert.equal("`net.c` is shorter: was 3 entries, is 2", text())
  end)

  it("the nearest trace wherever it stands among them", function()
    local f = jit.compile(function(a, b, name) return a + b + #name end)
    local y = ty.ones(2, 3, { dtype = "f64" })
    f(x, x, "one")
    f(y, x, "one")
    f(x, y, "one")
    f(y, y, "one")
    for _, k in ipairs { { x, x }, { y, x }, { x, y }, { y, y } } do
      assert.equal('`name` (argument 3) is "other", was "one"', last_miss(f, function()
        for _ = 1, 2 do -- traces are used, so that captures go on
          f(x, x, "one") f(y, x, "one") f(x, y, "one") f(y, y, "one")
        end
        f(k[1], k[2], "other")
      end))
    end
  end)
end)

describe("the text of a miss", function()
  it("runs no code of the user's", function()
    local asked = false
    local meta = { __tostring = function() asked = true return "?" end }
    local f = jit.compile(function(a, t) return t == nil and a or a * 2 end)
    f(x, nil)
    f(x, setmetatable({}, meta))
    f(x, 3)
    assert.is_false(asked)
    assert.truthy(jit.explain(f).misses[1].text:find("is a table, was nil", 1, true))
  end)

  it("keeps nothing that it is about", function()
    local f = jit.compile(function(a, t) return t == nil and a or a * 2 end)
    local weak = setmetatable({}, { __mode = "v" })
    f(x, nil)
    local function call()
      weak[1] = { 1 }
      f(x, weak[1])
    end
    call()
    jit.reset(f)
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak[1])
  end)
end)
