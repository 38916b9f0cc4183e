--- policy_spec.lua -- when calls are captured, and when no more: a budget of time, credit for captures that nobody had
-- use of, functions that are defined anew.

local H = require "spec.helper"
local ty = H.ty
local C = ty.internals.capture

local x = ty.tensor { 1, 2, 3 }

describe("a budget", function()
  local time, step

  before_each(function()
    time, step = 0, 0
    C.clock = function()
      time = time + step
      return time
    end
  end)

  after_each(function()
    C.clock = nil
    ty.budget(math.huge)
  end)

  local function loop(a, n)
    local s = 0
    for i = 1, n do s = s + i % 7 end
    return a * s
  end

  local function total(n)
    local s = 0
    for i = 1, n do s = s + i % 7 end
    return s
  end

  it("ends a capture that takes longer, and explain says so", function()
    local f = jit.compile(function(a, n) return loop(a, n) end)
    ty.budget(5)
    step = 0.001 -- every look at the clock takes a millisecond
    assert.same((x * total(5000)):totable(), f(x, 5000):totable())
    local e = jit.explain(f)
    assert.equal(0, e.captures)
    assert.equal(1, #e.aborts)
    assert.truthy(e.aborts[1].reason:find("longer than jit.budget allows", 1, true))
    assert.truthy(tostring(e):find("capture it by jit.warmup", 1, true))
  end)

  it("lets what is quick enough pass", function()
    local f = jit.compile(function(a, n) return loop(a, n) end)
    ty.budget(5)
    f(x, 5000)
    assert.equal(1, jit.explain(f).captures)
  end)

  it("is looked at while operations are recorded", function()
    local f = jit.compile(function(a)
      local b = a + 1
      return (b * 2):relu():sum()
    end)
    ty.budget(2)
    step = 0.001
    f(x)
    assert.equal(0, jit.explain(f).captures)
  end)

  it("makes the capture wait for warmup, which has all the time", function()
    local f = jit.compile(function(a, n) return loop(a, n) end)
    ty.budget(5)
    step = 0.001
    f(x, 5000)
    step = 0
    for _ = 1, 100 do f(x, 5000) end
    assert.equal(0, jit.explain(f).captures)
    assert.equal(1, #jit.explain(f).aborts)
    step = 0.001
    assert.same((x * total(5000)):totable(), jit.warmup(f, x, 5000):totable())
    assert.equal(1, jit.explain(f).captures)
    f(x, 5000)
    assert.equal(2, jit.explain(f).skips)
  end)
end)

describe("credit", function()
  -- Whether a call was captured, by the count.
  local function captured(f, ...)
    local before = jit.explain(f).captures
    f(...)
    return jit.explain(f).captures > before
  end

  it("ends for a while where each call needs a capture of its own", function()
    local f = jit.compile(function(a, name) return a + (name == "never" and 1 or 2) end)
    local made = 0
    for i = 1, 1000 do
      if captured(f, x, "name " .. i) then made = made + 1 end
    end
    assert.truthy(made >= 5 and made <= 14, made)
    -- what was captured still answers, the most recent ones
    local before = jit.explain(f).skips
    local t = jit.explain(f).traces
    assert.truthy(#t <= 16)
    assert.truthy(jit.explain(f).skips == before)
  end)

  it("is never gone: captures go on, ever more seldom, and credit comes back with use", function()
    local f = jit.compile(function(a, name) return a + (name == "never" and 1 or 2) end)
    local last = 0
    for i = 1, 3000 do
      if captured(f, x, "name " .. i) then last = i end
    end
    assert.truthy(last > 1000, last)
    for _ = 1, 10000 do f(x, "the same") end
    local e = jit.explain(f)
    assert.truthy(e.traces[1].hits > 1000)
    local made = 0
    for i = 1, 4 do
      if captured(f, x, "other " .. i) then made = made + 1 end
    end
    assert.truthy(made >= 3, made)
  end)

  it("is not spent by traces that are used", function()
    local f = jit.compile(function(a, name) return a + #name end)
    for round = 1, 3 do
      for i = 1, 12 do
        for _ = 1, 2 do f(x, ("n"):rep(i)) end
      end
      assert.equal(12, jit.explain(f).captures, round)
    end
  end)

  it("keeps the traces used last", function()
    local f = jit.compile(function(a, name) return a + #name end)
    for i = 1, 20 do
      for _ = 1, 3 do f(x, ("n"):rep(i)) end
    end
    assert.equal(16, #jit.explain(f).traces)
    assert.is_false(captured(f, x, ("n"):rep(20)))
    assert.is_false(captured(f, x, ("n"):rep(5)))
    assert.is_true(captured(f, x, ("n"):rep(4)))
  end)
end)

describe("a function that is defined anew", function()
  local source = "return function(a) return (a * %d + 1):relu() end"

  local function define(k) return assert(loadstring(source:format(k), "=module"))() end

  it("is captured anew where it is called, and nowhere else", function()
    local model = { inner = define(2), outer = define(3) }
    local f = jit.compile(function(a) return model.inner(a) end)
    local g = jit.compile(function(a) return model.outer(a) end)
    for _ = 1, 3 do f(x) g(x) end
    model.inner = define(5)
    for _ = 1, 3 do
      assert.same({ 6, 11, 16 }, f(x):totable())
      assert.same({ 4, 7, 10 }, g(x):totable())
    end
    assert.equal(2, jit.explain(f).captures)
    assert.equal(1, jit.explain(g).captures)
  end)

  it("keeps its kernels where the code is the same", function()
    local f = jit.compile(define(2))
    f(x)
    local before = ty.stats()
    local again = jit.compile(define(2))
    assert.not_equal(f, again)
    assert.same({ 3, 5, 7 }, again(x):totable())
    again(x)
    local after = ty.stats()
    assert.equal(1, jit.explain(again).captures)
    assert.equal(1, jit.explain(f).captures)
    assert.equal(before.kernels.misses, after.kernels.misses)
    assert.equal(before.plans.misses, after.plans.misses)
  end)

  it("keeps its kernels where constants are others: they are numbers of the kernel", function()
    local f = jit.compile(define(2))
    f(x)
    local before = ty.stats().kernels.misses
    assert.same({ 8, 15, 22 }, jit.compile(define(7))(x):totable())
    assert.equal(before, ty.stats().kernels.misses)
  end)

  it("is seen through modules that were loaded again", function()
    local module = { layer = define(2) }
    local net = { forward = function(self, a) return self.m.layer(a) + self.b end, m = module, b = 1 }
    local f = jit.compile(net)
    assert.same({ 4, 6, 8 }, f(x):totable())
    assert.same({ 4, 6, 8 }, f(x):totable())
    for k, v in pairs({ layer = define(3) }) do module[k] = v end
    for _ = 1, 2 do assert.same({ 5, 8, 11 }, f(x):totable()) end
    function net.forward(self, a) return self.m.layer(a) end
    for _ = 1, 2 do assert.same({ 4, 7, 10 }, f(x):totable()) end
  end)
end)

describe("explain", function()
  it("tells what a trace is for, and what each miss was about", function()
    local f = jit.compile(function(a, n, name) return name == "twice" and a * n or a + n end)
    f(x, 2, "twice")
    f(ty.ones(4), 2, "twice")
    f(ty.ones(5), 2, "twice")
    f(x, 2, "once")
    local e = jit.explain(f)
    local keys = {}
    for i, t in ipairs(e.traces) do keys[i] = t.key end
    table.sort(keys)
    assert.truthy(table.concat(keys, "\n"):find('(a: f32[3], n: a number, name: "twice")', 1, true), keys[1])
    assert.truthy(table.concat(keys, "\n"):find('(a: f32 of rank 1, of any sizes, n: a number, name: "twice")', 1, true))
    local misses = {}
    for i, m in ipairs(e.misses) do misses[i] = m.text end
    assert.same({ "`a` (argument 1) is f32[4], was f32[3]", '`name` (argument 3) is "once", was "twice"' }, misses)
  end)

  it("tells what was decided about sizes, and which of them decide otherwise", function()
    local f = jit.compile(function(a) return a.shape[1] > 4 and a * 2 or a + 1 end)
    for _, n in ipairs { 3, 2, 1, 5, 6 } do f(ty.ones(n)) end
    local e = jit.explain(f)
    assert.equal(3, e.captures)
    assert.equal("sizes of tensors that no call before had, which decide otherwise: 4 < shape[1]", e.misses[2].text)
    assert.match("^4 < shape%[1%]: true  %(.*policy_spec.lua:%d+%)$", e.traces[1].sizes[1])
    assert.truthy(e:full():find("sizes 4 < shape[1]: true", 1, true))
  end)

  it("names functions, and backends", function()
    local f = jit.compile(function(a) return a + math.floor(2.5) end,
      { backend = function(graph) return function(...) return graph:run(...) end end })
    f(x)
    local text = jit.explain(f):full()
    assert.truthy(text:find("is the function math.floor", 1, true), text)
    assert.truthy(text:find("computed by the backend's function", 1, true))
  end)
end)
