--- drawn_spec.lua -- numbers that math.random and clocks give to compiled functions: drawn in each call, as often and in
-- the order of plain Lua, and never by a call that no trace answers.

local H = require "spec.helper"
local T = require "spec.twins"
local ty = H.ty

local x = ty.tensor { 1, 2, 3 }

--- Calls f and its compiled form n times with what given(i) gives, each from one seed; compares results and what is drawn
--- afterwards. Gives the explanation.
local function same_stream(f, n, given, opts)
  local c = ty.compile(f, opts)
  local function all(fn)
    math.randomseed(11)
    local list = {}
    for i = 1, n do
      list[i] = T.text({ pcall(fn, given(i)) }, 2)
      if i % 4 == 0 then list[i] = list[i] .. math.random() end
    end
    return list, math.random()
  end
  local want, last = all(f)
  local got, last_too = all(c)
  assert.same(want, got)
  assert.equal(last, last_too)
  return ty.explain(c)
end

describe("numbers that are drawn", function()
  it("meet tensors in one trace, from the stream of plain Lua", function()
    local e = same_stream(function(a) return a * math.random() + math.random(6) end, 50, function() return x end)
    assert.same({ 1, 50 }, { e.captures, e.skips })
  end)

  it("are computed with, and given back, in their order", function()
    local e = same_stream(function(a, k)
      local p = math.random(3, 9) * k
      local q = math.floor(math.random() * 10) / p
      return a + q, p, q, math.max(p, q, 2)
    end, 30, function(i) return x, i / 3 end)
    assert.same({ 1, 30 }, { e.captures, e.skips })
  end)

  it("are drawn where nobody uses them", function()
    local e = same_stream(function(a)
      local _ = math.random()
      return a * 2
    end, 20, function() return x end)
    assert.equal(1, e.captures)
  end)

  it("are not drawn by traces that miss, nor by captures", function()
    local e = same_stream(function(a, flag)
      local r = math.random()
      if flag then a = a * 3 end
      return a * r
    end, 60, function(i) return i % 7 == 0 and x:to "f64" or x, i % 3 == 0 end)
    assert.truthy(e.captures >= 3 and e.skips == 60, e.skips)
  end)

  it("are drawn once where tensors come in other sizes", function()
    local e = same_stream(function(a) return a * math.random() + a:size(1) end, 30, function(i) return ty.ones(i % 9 + 1) end)
    assert.equal(2, e.captures)
  end)

  it("are drawn once where the tensors share memory otherwise", function()
    local base = ty.arange(8)
    same_stream(function(a, b)
      a:add_(math.random())
      return b * 1
    end, 24, function(i)
      local u = base * 1
      return u[{ { 1, 4 } }], i % 3 == 0 and u[{ { 2, 5 } }] or ty.ones(4)
    end)
  end)

  it("are drawn once where an index that is computed is out of range", function()
    same_stream(function(a, i)
      local r = math.random()
      return a[(i * 2):to "i64"] * r
    end, 24, function(i) return x, ty.tensor { i % 3 } end)
  end)

  it("are drawn once where an error is raised", function()
    same_stream(function(a, k)
      local r = math.random()
      if k % 5 == 0 then error "five" end
      return a * r
    end, 40, function(i) return x, i end)
  end)

  it("are drawn once where they decide", function()
    local e = same_stream(function(a)
      if math.random() > 0.5 then return a * 2 end
      return a * math.random()
    end, 40, function() return x end, { parts = false })
    assert.equal(0, e.captures)
    assert.truthy(e.aborts[1].reason:find("decided by a number that is drawn", 1, true))
  end)

  for name, f in pairs {
    ["a size"] = function() return ty.ones(math.random(4)) end,
    ["an integer"] = function(a) return a:to "i32" * math.random(4) end,
    ["an integer that fills"] = function() return ty.full({ 2 }, math.random(4), { dtype = "i64" }) end,
    ["an integer that is computed"] = function()
      return ty.full({ 2 }, math.floor(math.random() * 10), { dtype = "i64" })
    end,
    ["an exponent"] = function(a) return a ^ math.random(3) end,
    ["a text"] = function() return "drawn " .. math.random(9) end,
    ["a key"] = function() return ({ 5, 6, 7 })[math.random(3)] end,
    ["the end of a loop"] = function(a)
      for _ = 1, math.random(3) do a = a + 1 end
      return a
    end,
    ["an element of a table"] = function(a) return { a, math.random() } end,
  } do
    it("decide as in plain Lua: " .. name, function()
      assert.equal(0, same_stream(f, 30, function() return x end, { parts = false }).captures)
    end)
  end

  it("are stored in fields and upvalues", function()
    local state, last = { noise = 0 }, 0
    local function f(a)
      last = math.random()
      state.noise = state.noise + last
      return a + state.noise
    end
    same_stream(f, 20, function()
      state.noise = 0.25
      return x, last
    end)
    local c = ty.compile(f)
    math.randomseed(3)
    c(x)
    c(x)
    math.randomseed(3)
    local _, second = math.random(), math.random()
    assert.equal(second, last)
  end)

  it("go through Tycho's functions that take numbers", function()
    local e = same_stream(function(a) return a:clamp(0, math.random()):lerp(a, math.random()) + ty.tensor { math.random(), 1, 2 } end,
      20, function() return x end)
    assert.same({ 1, 20 }, { e.captures, e.skips })
  end)

  it("raise where plain Lua does", function()
    local e = same_stream(function(a, n) return a * math.random(n) end, 20, function(i) return x, i % 3 end, { parts = false })
    assert.same({ 2, "calls math.random" }, { e.captures, e.aborts[1].reason })
  end)
end)

describe("clocks", function()
  it("are read in each call", function()
    local c = ty.compile(function(a) return a * 1, os.clock(), os.time(), collectgarbage "count" end)
    local _, first, time, count = c(x)
    local until_then = os.clock() + 0.01
    while os.clock() < until_then do time = time + 0 end
    local _, second, later, counted = c(x)
    assert.truthy(second >= first + 0.01)
    assert.truthy(later >= time and later <= os.time())
    assert.truthy(count > 100 and counted > 100)
    assert.same({ 1, 2 }, { ty.explain(c).captures, ty.explain(c).skips })
  end)

  it("of other forms are not captured", function()
    local c = ty.compile(function() return os.time { year = 2020, month = 1, day = 1 } end)
    assert.equal(os.time { year = 2020, month = 1, day = 1 }, c())
    assert.equal("calls os.time", ty.explain(c).aborts[1].reason)
  end)
end)
