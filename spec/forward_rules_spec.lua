--- forward_rules_spec.lua -- compiled forward passes with checkpoint, custom_grad and scan inside, whose gradients are asked
--- for outside: traces, whose rules run in the backward pass as they do eagerly.

local H = require "spec.helper"
local ty = H.ty
local worlds = require "spec.forward_worlds"
local live, both, answered, leaf = worlds.live, worlds.both, worlds.answered, worlds.leaf

--- Each kind of rule: a world whose function gives two results, the second of which leads to the first.
local kinds = {}

function kinds.checkpoint()
  local w, v = leaf(4, 4), leaf(4)
  return { leaves = { w, v }, x = ty.randn(3, 4), run = function(x)
    local y = ty.checkpoint(function(a) return a:matmul(w):dropout(0.5):tanh() end, x * v)
    return y, (y * v):exp()
  end }
end

function kinds.custom_grad()
  local w, v = leaf(4, 4), leaf(4)
  local own = ty.custom_grad(function(a, b, k)
    local y = a:matmul(b):tanh() * k
    return y, { a = a, b = b, y = y, k = k }
  end, function(s, g)
    local h = g * (s.k - s.y * s.y / s.k)
    return h:matmul(s.b:t()), s.a:t():matmul(h)
  end)
  return { leaves = { w, v }, x = ty.randn(3, 4), run = function(x)
    local y = own(x * v, w, 0.5)
    return y, (y * v):exp()
  end }
end

function kinds.scan()
  local w, v = leaf(4, 4), leaf(4)
  local model = { w = w, scale = 0.7 }
  return { leaves = { w, v }, model = model, x = ty.randn(5, 4), run = function(x)
    local c, y = ty.scan(function(c, r)
      local n = (c:unsqueeze(1):matmul(model.w):squeeze(1) * model.scale + r * v):dropout(0.2):tanh()
      return n, n * 2
    end, x[1] * v, x)
    return y, (c * v):exp()
  end }
end

local function sum_of(...)
  local sum
  for _, t in ipairs { ... } do sum = sum and sum + t:sum() or t:sum() end
  return sum
end

for name, make in pairs(kinds) do
  describe("a compiled forward pass with " .. name, function()
    it("runs no Lua", function()
      answered(both(make, function(world)
        local y, z = world.f(world.x)
        sum_of(y, z):backward()
        return y, z, y.requires_grad, y.is_leaf
      end))
    end)

    it("may be used in part", function()
      answered(both(make, function(world, k)
        local y, z = world.f(world.x)
        local one = k % 2 == 0 and y or z
        one:sum():backward()
      end, 4))
    end)

    it("keeps the values of each call", function()
      answered(both(make, function(world, k)
        local a, b = world.f(world.x * k), world.f(world.x - k)
        sum_of(b):backward()
        sum_of(a):backward()
      end))
    end)

    it("goes back twice where the graph is retained, else raises", function()
      answered(both(make, function(world)
        local s = sum_of(world.f(world.x))
        s:backward(nil, { retain_graph = true })
        s:backward()
        return pcall(s.backward, s)
      end))
    end)

    it("has gradients of gradients", function()
      answered(both(make, function(world)
        local s = sum_of(world.f(world.x))
        s:backward(nil, { create_graph = true })
        local g = world.leaves[1].grad
        world.leaves[1].grad = nil
        g:square():sum():backward()
        return g
      end))
    end)

    it("keeps nothing where nothing is tracked", function()
      answered(both(make, function(world, k)
        local y = k % 2 == 0 and ty.no_grad(world.f, world.x) or world.f(world.x)
        if k % 2 == 1 then y:sum():backward() end
        return y, y.requires_grad
      end, 4), 2)
    end)

    it("says of writes in place what is said eagerly", function()
      for _, write in ipairs {
        function(_, y) y:mul_(3) end, function(_, _, z) z:mul_(3) end, function(world) world.given:mul_(3) end,
        function(world) world.leaves[1]:mul_(1.5) end, function(world) world.leaves[2]:mul_(1.5) end,
      } do
        local told = both(make, function(world)
          world.given = world.x:clone()
          local y, z = world.f(world.given)
          ty.no_grad(write, world, y, z)
          return pcall(function() sum_of(y, z):backward() end)
        end)
        assert.same({}, told.aborts)
      end
    end)

    it("passes gradients on to its input, also for ty.grad", function()
      local told = both(make, function(world)
        local x = world.x:detach():requires_grad_()
        sum_of(world.f(x)):backward()
        return x.grad, ty.grad(function(t) return (world.f(t)):square():sum() end)(world.x)
      end)
      assert.same({}, told.aborts)
      assert.equal(told.calls, told.skips)
    end)

    it("takes other sizes", function()
      local told = both(make, function(world, k)
        local y = world.f(ty.randn(3 + k, 4))
        y:sum():backward()
        return y
      end, 12)
      assert.same({}, told.aborts)
      assert.truthy(told.captures <= 3, told.captures)
      assert.equal(told.calls, told.skips)
    end)

    it("is let go of with its result, and by a backward pass", function()
      local world = make()
      local f = ty.compile(world.run)
      local function rest()
        for _ = 1, 3 do collectgarbage() end
        return live(), ty.stats().memory.used
      end
      for _ = 1, 2 do f(world.x):sum():backward() end
      local records, bytes = rest()
      for _ = 1, 3 do f(world.x) end
      local after, used = rest()
      assert.same({ records, bytes }, { after, used })
      f(world.x):sum():backward()
      assert.equal(records, (rest()))
    end)

    it("runs in scopes", function()
      both(make, function(world)
        local y = ty.scope(function() return (world.f(world.x * 1)) end)
        y:sum():backward()
        return ty.scope(function()
          local _, z = world.f(world.x * 2)
          z:sum():backward()
        end)
      end)
    end)
  end)
end

--- Plans of the backward passes through a function's calls.
local function plans(told)
  local n = 0
  for _, t in ipairs(told.traces) do
    for _, p in ipairs(t.backward or {}) do n = n + (p.steps > 0 and 1 or 0) end
  end
  return n
end

--- A gradient that each call's rule tells; `rule` may do more.
local function twice(rule)
  return ty.custom_grad(function(a, b) return { a * b, (a + b):tanh() }, { a = a, b = b } end, function(s, g, h)
    if rule then rule(s) end
    local t = h * (1 - (s.a + s.b):tanh():square())
    return g * s.b + t, g * s.a + t
  end)
end

describe("what lies between the rules of a compiled forward pass", function()
  --- Before, between and behind rules; what is before them is read behind them, too.
  local function around(rule, uses)
    return function()
      local w, v = leaf(4, 4), leaf(4)
      local own = twice(rule)
      return { leaves = { w, v }, x = ty.randn(3, 4), run = function(x)
        local a = (x * v):matmul(w):gelu()
        local p, q = own(a, x * v)
        local h = (p + a):softmax() * (uses == 1 and 1 or q)
        local y = ty.checkpoint(function(t) return t:matmul(w):tanh() end, h)
        return (y + a):exp() * h, y - p
      end }
    end
  end

  for uses = 1, 2 do
    it("has plans, also where " .. uses .. " of its results are used", function()
      local told = both(around(nil, uses), function(world, k)
        local y, z = world.f(world.x)
        local one = world.f(world.x * 2)
        if k % 2 == 0 then sum_of(y, z):backward() else z:square():sum():backward() end
        one:sum():backward()
      end, 6)
      answered(told)
      assert.truthy(plans(told) >= 3, plans(told))
    end)
  end

  it("is left where a rule raises, and the next pass is right", function()
    local raises = false
    answered(both(around(function() assert(not raises, "not now") end), function(world, k)
      local y = world.f(world.x)
      raises = k % 2 == 0
      local ok, why = pcall(function() y:sum():backward() end)
      raises = false
      return ok, (tostring(why):gsub("^.-:%d+: ", "")), (pcall(function() y:sum():backward() end))
    end, 4))
  end)

  it("goes on where a rule gives nothing, or goes back through others itself", function()
    local inner = ty.compile(around()().run)
    both(function()
      local w = leaf(4)
      local own = ty.custom_grad(function(a) return a * 2, { a } end, function(s, g)
        if g:sum():item() > 1e9 then return nil end
        local t = s[1]:detach():requires_grad_()
        ty.enable_grad(function() inner(t:unsqueeze(1)):sum():backward() end)
        return g * 2 + t.grad
      end)
      local none = ty.custom_grad(function(a) return a:sin(), a end, function() return nil end)
      return { leaves = { w }, run = function(x)
        local a = (x * w):tanh()
        return own(a) + none(a * 3) * a
      end }
    end, function(world, k)
      local x = ty.arange(4):to "f32":requires_grad_()
      local y = world.f(x) * k
      y:sum():backward()
      return x.grad
    end, 4)
  end)

  it("tells hooks that a rule registers on what comes later", function()
    local heard, early
    both(function()
      local w = leaf(3, 4)
      local own = ty.custom_grad(function(a) return a * 2 end, function(_, g)
        early:register_hook(function(h)
          heard = h:clone()
          return h * 3
        end)
        return g * 2
      end)
      return { leaves = { w }, x = ty.randn(3, 4), run = function(x)
        local a = (x * w):tanh()
        local b = a * w
        return own(b:exp()) + b, a
      end }
    end, function(world)
      local y
      y, early = world.f(world.x)
      y:sum():backward()
      return heard
    end, 4)
  end)

  it("is let go of by the pass, though the results live", function()
    local world = around()()
    local x, w = ty.randn(64, 64), leaf(64, 64)
    local own = twice()
    local f = ty.compile(function(t)
      local p, q = own((t * w):tanh(), (t + w):exp())
      return ((p * q):sin() * p):sum() + world.leaves[2]:sum()
    end)
    local function used(y)
      for _ = 1, 3 do collectgarbage() end
      return ty.stats().memory.used, y
    end
    for _ = 1, 3 do f(x):backward() end
    local before = used()
    local y = f(x)
    assert.truthy(used() >= before + x:numel() * 4)
    y:backward()
    assert.truthy(used() <= before + 1024)
    y = nil -- luacheck: ignore
  end)

  it("gives the gradients of those that are asked for by name, and tells hooks", function()
    both(around(), function(world, k)
      local x = world.x:detach():requires_grad_()
      local heard = ty.zeros(1)
      if k > 2 then x:register_hook(function(g) heard = g:clone() end) end
      local y = world.f(x * 1.5)
      if k == 4 then y:register_hook(function(g) return g * 2 end) end
      y:sum():backward()
      return x.grad, heard, ty.grad(function(t) return (world.f(t)):square():sum() end)(world.x)
    end, 5)
  end)
end)

for _, name in ipairs { "checkpoint", "custom_grad" } do
  local make = kinds[name]
  describe("a compiled forward pass with " .. name, function()
    it("raises where memory is short, or is right; and the next call is", function()
      local function step(world, f)
        for _, p in ipairs(world.leaves) do p.grad = nil end
        ty.manual_seed(4)
        sum_of(f(world.x)):backward()
        local told = {}
        for i, p in ipairs(world.leaves) do told[i] = worlds.bits(p.grad) end
        return table.concat(told, "\n")
      end
      ty.manual_seed(3)
      local world = make()
      local f = ty.compile(world.run)
      local want = step(world, world.run)
      step(world, f)
      H.probe.fail(-1)
      step(world, f)
      local asked, raised = H.probe.fail(-1), 0
      for after = 0, asked, 3 do
        H.probe.fail(after, 1)
        local fine, told = pcall(step, world, f)
        H.probe.fail(-1)
        if fine then assert.equal(want, told, after)
        else
          raised = raised + 1
          assert.truthy(told:find("out of memory", 1, true), told)
        end
        assert.equal(want, step(world, f), after)
      end
      assert.is_true(raised < asked, raised)
    end)
  end)
end

describe("a rule of a compiled forward pass", function()
  local function simple(world, k)
    local y = world.f(world.x or ty.full({ 4 }, k))
    y:sum():backward()
    return y
  end

  it("may be made inside, of numbers, tables and tensors of the call", function()
    answered(both(function()
      local w = leaf(4)
      return { leaves = { w }, run = function(x, k)
        local with = { k = k, x = x }
        local own = ty.custom_grad(function(a) return a * with.k, a end, function(a, g) return g * a * with.k + with.x end)
        return own(w * x)
      end }
    end, function(world, k)
      local y = world.f(ty.full({ 4 }, k), k + 0.5)
      y:sum():backward()
      return y
    end))
  end)

  it("may be made by a function that is called, in a loop, and inside of another", function()
    answered(both(function()
      local list = {}
      for i = 1, 3 do list[i] = leaf(4, 4) end
      local function block(x, w, i)
        return ty.checkpoint(function(h)
          return ty.checkpoint(function(a) return (a:matmul(w) * i):tanh() end, h) + h
        end, x)
      end
      return { leaves = list, x = ty.randn(2, 4), run = function(x)
        for i, w in ipairs(list) do x = block(x, w, i) end
        return x
      end }
    end, simple))
  end)

  it("sees variables as they are when the call has ended", function()
    answered(both(function()
      local w = leaf(4)
      return { leaves = { w }, run = function(x)
        local s = 1
        local y = ty.checkpoint(function(a) return a:sin() * s end, w * x)
        s = s + 2
        return y * s
      end }
    end, simple))
  end)

  it("shares no variable that is assigned: the function runs as it is", function()
    local told = both(function()
      local w = leaf(4)
      return { leaves = { w }, run = function(x)
        local n = 0
        local y = ty.checkpoint(function(a)
          n = n + 1
          return a:sin() * n
        end, w * x)
        return ty.checkpoint(function(a)
          n = n + 1
          return a:exp() * n
        end, y)
      end }
    end, simple)
    assert.truthy(told.aborts[1].text:find("shares a variable that is assigned", 1, true), told.aborts[1].text)
  end)

  it("has no variables of a function that may be another one in later calls", function()
    both(function()
      local w = leaf(4)
      local function make(k)
        return function(a) return ty.checkpoint(function(t) return t:sin() * k end, a) end
      end
      return { leaves = { w }, make = make, run = function(g, x) return g(w * x) end }
    end, function(world, k)
      local y = world.f(world.make(k + 0.5), ty.full({ 4 }, 0.3))
      y:sum():backward()
      return y
    end, 5)
  end)

  it("has arguments that share memory in its second run, too", function()
    answered(both(function()
      local w = leaf(3)
      return { leaves = { w }, run = function(x)
        local h = x * 1.5
        return ty.checkpoint(function(a, b)
          ty.no_grad(function() a:mul_(2) end)
          return (b * w):tanh()
        end, h, h[1])
      end }
    end, function(world, k)
      local y = world.f(ty.full({ 2, 3 }, 0.1 * k))
      y:sum():backward()
      return y
    end))
  end)

  it("is a scan's in no function that writes to tables", function()
    local told = both(function()
      local w, seen = leaf(4), { count = 0 }
      return { leaves = { w }, x = ty.randn(5, 4), run = function(x)
        local _, y = ty.scan(function(c, r)
          local n = (c * w + r * seen.count):tanh()
          return n, n
        end, ty.zeros(4), x)
        seen.last = seen.count
        return y
      end }
    end, simple)
    assert.truthy(told.aborts[1].text:find("writes to tables", 1, true), told.aborts[1].text)
  end)

  it("is let go of with the results that lead to it", function()
    local w, met = leaf(4), setmetatable({}, { __mode = "k" })
    local f = ty.compile(function(x, k)
      local with = { k = k }
      local own = ty.custom_grad(function(a) return a * with.k, a end, function(_, g)
        met[with] = true
        return g * with.k
      end)
      return own(w * x)
    end)
    for k = 1, 60 do f(ty.ones(4), k):sum():backward(nil, { retain_graph = true }) end
    for _ = 1, 3 do collectgarbage() end
    local left = 0
    for _ in pairs(met) do left = left + 1 end
    assert.truthy(left <= 16, left) -- captures of what runs again, ever fewer, hold what they were tried with
    assert.equal(60, ty.explain(f).skips)
  end)

  it("may close over a value that needs a gradient", function()
    answered(both(function()
      local w, v = leaf(4), leaf(4)
      return { leaves = { w, v }, run = function(x)
        local h = (w * x):sin()
        return ty.checkpoint(function() return (h * v):exp() end)
      end }
    end, simple))
  end)

  it("reads what it closes over as it is in the backward pass", function()
    answered(both(function()
      local w, n = leaf(4), 0
      local own = ty.custom_grad(function(x) return x * 2, x end, function(x, g)
        n = n + 1
        return g * x * n
      end)
      return { leaves = { w }, run = function(x) return own(w * x) end }
    end, simple))
  end)

  it("has several results, and is told of those without a gradient", function()
    answered(both(function()
      local w = leaf(4)
      local own = ty.custom_grad(function(x, y) return { x * y, x + y }, x end, function(s, a, b) return a * s + b, a * 2 end)
      return { leaves = { w }, run = function(x) return own(w * x, w) end }
    end, function(world, k)
      local a, b = world.f(ty.full({ 4 }, k))
      local one = k % 2 == 0 and a or b
      one:sum():backward()
      return a, b
    end, 4))
  end)

  it("raises what it raises eagerly", function()
    local told = both(function()
      local w = leaf(4)
      local own = ty.custom_grad(function(x) return x * 2 end, function(_, g) return g[1] end)
      return { leaves = { w }, run = function(x) return own(w * x) end }
    end, function(world, k)
      local y = world.f(ty.full({ 4 }, k))
      return pcall(function() y:sum():backward() end)
    end)
    answered(told)
  end)

  it("is a scan's, and raises where what that reads has changed", function()
    for _, change in ipairs {
      function(model) model.scale = model.scale + 0.5 end,
      function(model) model.w = model.w:detach():clone() end,
      function(model) ty.no_grad(function() model.w:mul_(2) end) end,
      function(model) model.w = nil end,
    } do
      local told = both(kinds.scan, function(world, k)
        local y = world.f(world.x)
        if k == 2 then change(world.model) end
        return pcall(function() y:sum():backward() end)
      end, 2)
      assert.same({}, told.aborts)
      assert.equal(2, told.skips)
    end
  end)

  it("is that of a scan in pieces, of long recurrent layers, of a scan in a checkpoint", function()
    answered(both(function()
      local w = leaf(4)
      return { leaves = { w }, x = ty.randn(7, 4), run = function(x)
        local _, y = ty.scan(function(c, r)
          local n = (c * w + r):tanh()
          return n, n
        end, ty.zeros(4), x, { checkpoint = 2 })
        return y
      end }
    end, simple))
    for _, kind in ipairs { "LSTM", "GRU" } do
      answered(both(function()
        local m = ty.nn[kind](3, 4, { layers = 2, bidirectional = kind == "GRU" })
        return { leaves = m:parameters(), x = ty.randn(70, 2, 3), run = function(x) return (m(x)) end }
      end, simple))
    end
    answered(both(function()
      local world = kinds.scan()
      local run = world.run
      world.run = function(x) return (ty.checkpoint(run, x)) end
      return world
    end, simple))
  end)
end)
