--- slices_spec.lua -- jit.start: calls in slices of time give what plain calls give, all at once, and disturb nothing between.

local H = require "spec.helper"
local ty = H.ty
local probe = H.probe

--- Work of some ten milliseconds, so that steps of no time stop in the middle of it.
local N = 384
local w = ty.randn(N, N) * 0.05

local function layers(x)
  for _ = 1, 6 do x = x:matmul(w):tanh() end
  return x
end

--- Goes on to the end in the shortest steps there are, calls fn(i) between them; gives the results' number, and them.
local function finish(run, fn)
  local steps = 0
  while not run:step(0) do
    steps = steps + 1
    if fn then fn(steps) end
  end
  return steps, run:results()
end

local function learner(seed)
  ty.manual_seed(seed)
  local nn = ty.nn
  local model = nn.Sequential(nn.Linear(N, N), nn.Tanh(), nn.Linear(N, N))
  local opt = ty.optim.AdamW(model:parameters(), { lr = 0.01 })
  local self = { model = model, steps = 0 }
  self.step = jit.compile(function(x, y)
    opt:zero_grad()
    local loss = ty.mse_loss(model(x), y)
    loss:backward()
    opt:step()
    self.steps = self.steps + 1
    return loss:detach()
  end)
  function self.bits()
    local list = {}
    for _, p in ipairs(model:parameters()) do list[#list + 1] = p:detach():clone() end
    return list
  end
  return self
end

local function same(a, b)
  assert.equal(#a, #b)
  for i = 1, #a do assert.truthy(a[i]:equal(b[i]), i) end
end

describe("a call in slices of time", function()
  local x = ty.randn(N, N)

  it("takes several steps and gives the bits of a plain call", function()
    local f = jit.compile(function(v) return layers(v), v:sum() end)
    local a, b = f(x)
    local steps, c, d = finish(jit.start(f, x))
    assert.truthy(steps > 5, steps)
    assert.truthy(a:equal(c) and b:equal(d))
    assert.equal(1, jit.explain(f).captures)
  end)

  it("gives tables, numbers, several results and none", function()
    local f = jit.compile(function(v, k) return { y = layers(v), k = k + 1 }, k, nil, "text" end)
    f(x, 1)
    local _, t, k, none, text = finish(jit.start(f, x, 5))
    assert.truthy(t.y:equal(layers(x)))
    assert.same({ 6, 5, "text" }, { t.k, k, text })
    assert.is_nil(none)
    local g = jit.compile(function(v) v.y = layers(v.x) end)
    local to = { x = x }
    g(to)
    local run = jit.start(g, to)
    assert.equal(0, select("#", select(2, finish(run))))
  end)

  it("is seen all at once when it is done: weights, optimiser, counters", function()
    local a, b = learner(3), learner(3)
    local y = ty.randn(N, N)
    for _ = 1, 2 do a.step(x, y) b.step(x, y) end
    local before = a.bits()
    local run = jit.start(a.step, x, y)
    local steps, loss = finish(run, function()
      same(before, a.bits())
      assert.equal(2, a.steps)
    end)
    assert.truthy(steps > 3, steps)
    assert.truthy(loss:equal(b.step(x, y)))
    same(b.bits(), a.bits())
    assert.equal(3, a.steps)
  end)

  it("works with weights that were packed once, though others need their place meanwhile", function()
    local f, row = jit.compile(layers), ty.randn(64, N)
    local others = {}
    for i = 1, 64 do others[i] = ty.randn(N, N) end -- more than is kept
    for _ = 1, 5 do f(row) end
    local want, hits = f(row), ty.stats().panels.hits
    local _, y = finish(jit.start(f, row))
    assert.truthy(ty.stats().panels.hits >= hits + 6)
    assert.truthy(y:equal(want))
    local evicted = ty.stats().panels.evictions
    _, y = finish(jit.start(f, row), function(step)
      if step > 1 then return end
      for _ = 1, 4 do
        for _, v in ipairs(others) do row:matmul(v):sum():item() end
      end
    end)
    assert.truthy(ty.stats().panels.evictions > evicted)
    assert.truthy(y:equal(want))
  end)

  it("lets go of what it read", function()
    local f = jit.compile(layers)
    f(x)
    for _ = 1, 3 do
      local v = ty.randn(N, N)
      collectgarbage()
      collectgarbage()
      local buffers = ty.stats().memory.used
      for _ = 1, 20 do select(2, finish(jit.start(f, v))):release() end
      collectgarbage()
      collectgarbage()
      assert.equal(buffers, ty.stats().memory.used)
      v:release()
      collectgarbage()
      assert.truthy(ty.stats().memory.used < buffers)
    end
  end)

  it("reads its inputs as they were when it began", function()
    local f = jit.compile(layers)
    local v, keep = x:clone(), x:clone()
    f(v)
    local _, y = finish(jit.start(f, v), function(i)
      if i == 1 then v:zero_() end
      if i == 2 then v:set(1, 1, 7) end
    end)
    assert.truthy(y:equal(layers(keep)))
    assert.equal(7, v:get(1, 1))
  end)

  it("lets other calls run between, of the same function and size, too", function()
    local f = jit.compile(layers)
    local other = ty.randn(N, N)
    f(x)
    local want, other_want, small = f(x), f(other), ty.ones(3, 4):sum():item()
    local _, y = finish(jit.start(f, x), function(i)
      if i > 3 then return end
      assert.truthy(f(other):equal(other_want))
      assert.equal(small, ty.ones(3, 4):sum():item())
      assert.truthy((other * 2):equal(other + other))
    end)
    assert.truthy(y:equal(want))
  end)

  it("may be one of several under way", function()
    local f = jit.compile(layers)
    local inputs, runs = {}, {}
    for i = 1, 4 do inputs[i] = ty.randn(N, N + i):matmul(ty.randn(N + i, N)) * 0.01 end
    for i = 1, 4 do runs[i] = jit.start(f, inputs[i]) end
    local left = 4
    while left > 0 do
      left = 0
      for i = 1, 4 do if not runs[i]:step(50) then left = left + 1 end end
    end
    for i = 1, 4 do assert.truthy(runs[i]:results():equal(layers(inputs[i])), i) end
  end)

  it("draws the random numbers that a plain call would, and others draw other ones meanwhile", function()
    local f = jit.compile(function(v) return layers(v + ty.randn(N, N)) end)
    f(x)
    ty.manual_seed(11)
    local want, after = f(x), ty.rand(3)
    ty.manual_seed(11)
    local between
    local _, y = finish(jit.start(f, x), function(i) if i == 1 then between = ty.rand(3) end end)
    assert.truthy(y:equal(want))
    assert.truthy(between:equal(after))
  end)

  it("raises where a tensor that it writes was written meanwhile, and writes nothing", function()
    local f = jit.compile(function(t, v) t:add_(layers(v)) end)
    local t = ty.zeros(N, N)
    f(t, x)
    local run = jit.start(f, t, x)
    assert.falsy(run:step(0))
    t:fill_(3)
    local ok, why = pcall(finish, run)
    assert.falsy(ok)
    assert.truthy(why:find("a tensor that the call writes has changed before it was done", 1, true), why)
    assert.truthy(t:equal(ty.full({ N, N }, 3)))
    assert.falsy(pcall(run.results, run))
    f(t, x)
    assert.truthy(t:equal(layers(x) + 3))
  end)

  it("raises where a field that it writes was set meanwhile", function()
    local state = { n = 1 }
    local f = jit.compile(function(v) state.n = state.n + 1 return layers(v) end)
    f(x)
    local run = jit.start(f, x)
    assert.falsy(run:step(0))
    state.n = 10
    local ok, why = pcall(finish, run)
    assert.falsy(ok)
    assert.truthy(why:find("a field or variable that the call writes", 1, true), why)
    assert.equal(10, state.n)
  end)

  it("raises where an assignment to a field that it writes would be another's now", function()
    local state, seen = {}, nil
    local f = jit.compile(function(v) state.y = layers(v) end)
    f(x)
    state.y = nil
    f(x)
    state.y = nil
    local run = jit.start(f, x)
    assert.falsy(run:step(0))
    local meta = setmetatable({}, { __newindex = function(t, k) seen = k rawset(t, k, 5) end })
    setmetatable(state, getmetatable(meta))
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, why = pcall(function() while not run:step(0) do end end)
    assert.falsy(ok)
    assert.truthy(why:find("slices_spec.lua:" .. line .. ": start: a field or variable that the call writes", 1, true), why)
    assert.is_nil(rawget(state, "y"))
    f(x)
    assert.equal("y", seen)
    assert.equal(5, state.y)
    run = jit.start(f, x) -- a key that is there is nobody else's
    assert.truthy(run:step())
    assert.truthy(state.y:equal(layers(x)))
  end)

  it("is not disturbed by a NaN in a field that it writes", function()
    local state = { n = 0 / 0 }
    local f = jit.compile(function(v) state.n = state.n + 1 return layers(v) end)
    f(x)
    local _, y = finish(jit.start(f, x))
    assert.truthy(y:equal(layers(x)))
    assert.truthy(state.n ~= state.n)
    local run = jit.start(f, x)
    assert.falsy(run:step(0))
    state.n = 3
    assert.error_matches(function() finish(run) end, "a field or variable that the call writes")
    assert.equal(3, state.n)
  end)

  it("goes on in slices where another one was done inside of it", function()
    local f = jit.compile(layers)
    f(x)
    local steps, y = finish(jit.start(function(v)
      local _, first = finish(jit.start(f, v))
      return f(first)
    end, x))
    assert.truthy(steps > 4, steps)
    assert.truthy(y:equal(layers(layers(x))))
  end)

  it("may yield objects and functions of its own", function()
    local run = jit.start(function(v)
      coroutine.yield(io.stdout, print)
      coroutine.yield(v, print)
      return v:sum()
    end, x)
    assert.falsy(run:step(0))
    assert.falsy(run:step(0))
    assert.is_true(run:step())
    assert.truthy(run:results():equal(x:sum()))
  end)

  it("raises where a gradient that it writes was changed meanwhile", function()
    local p = ty.randn(N, N):requires_grad_()
    local f = jit.compile(function(v) layers(v:matmul(p)):sum():backward() end)
    f(x)
    local run = jit.start(f, x)
    assert.falsy(run:step(0))
    p.grad = nil
    local ok, why = pcall(finish, run)
    assert.falsy(ok)
    assert.truthy(why:find("a gradient that the call writes", 1, true), why)
    assert.is_nil(p.grad)
  end)

  it("goes through parts that read data, to the bit of plain Lua", function()
    local function newton(v)
      local turns = 0
      local y = v
      while layers(y):abs():sum():item() > 1 and turns < 4 do
        y = layers(y) * 0.5
        turns = turns + 1
      end
      return y, turns
    end
    local f = jit.compile(newton)
    for _ = 1, 4 do f(x) end
    local want, turns = newton(x)
    local steps, y, n = finish(jit.start(f, x))
    assert.truthy(steps > 4, steps)
    assert.truthy(y:equal(want))
    assert.equal(turns, n)
  end)

  it("may be a plain function that calls compiled ones, and yields", function()
    local f = jit.compile(layers)
    f(x)
    local seen = {}
    local run = jit.start(function(v)
      local y = f(v)
      seen[#seen + 1] = "one"
      coroutine.yield()
      y = f(y)
      seen[#seen + 1] = "two"
      return y
    end, x)
    local _, y = finish(run)
    assert.truthy(y:equal(layers(layers(x))))
    assert.same({ "one", "two" }, seen)
  end)

  it("runs whole where C stands between: a comparison of table.sort", function()
    local f = jit.compile(function(v) return v:sum() * 2 end)
    f(x)
    local run = jit.start(function()
      local list = { 3, 1, 2 }
      table.sort(list, function(a, b) return f(x):item() == f(x):item() and a < b end)
      return list
    end)
    local _, list = finish(run)
    assert.same({ 1, 2, 3 }, list)
  end)

  it("captures what was not captured", function()
    local f = jit.compile(function(v) return layers(v) - 1 end)
    local _, y = finish(jit.start(f, x))
    assert.truthy(y:equal(layers(x) - 1))
    assert.equal(1, jit.explain(f).captures)
  end)

  it("has the sizes of a range", function()
    local f = jit.compile(layers)
    for i = 1, 24 do f(ty.ones(100 + i, N)) end
    local v, u = ty.randn(141, N), ty.randn(143, N)
    local _, y = finish(jit.start(f, v), function() assert.truthy(f(u):equal(layers(u))) end)
    assert.truthy(y:equal(layers(v)))
  end)

  it("leads to gradients", function()
    local p = ty.randn(N, N):requires_grad_()
    local f = jit.compile(function(v) return layers(v:matmul(p)) end)
    f(x)
    local _, y = finish(jit.start(f, x))
    y:sum():backward()
    local q = p.grad
    p.grad = nil
    layers(x:matmul(p)):sum():backward()
    assert.truthy(q:equal(p.grad))
  end)

  it("raises what the function raises, and the same again", function()
    local run = jit.start(function() error({ code = 7 }) end)
    for _ = 1, 2 do
      local ok, e = pcall(run.step, run)
      assert.same({ false, 7 }, { ok, e.code })
    end
    local f = jit.compile(function(v, i)
      local y = layers(v):index_select(1, i)
      return y
    end)
    local at = ty.tensor({ 1, 2 }, { dtype = "i64" })
    f(x, at)
    local bad = jit.start(f, x, ty.tensor({ 1, N + 5 }, { dtype = "i64" }))
    local ok, e = pcall(finish, bad)
    assert.falsy(ok)
    local _, want = pcall(f, x, ty.tensor({ 1, N + 5 }, { dtype = "i64" }))
    assert.equal(want, e)
  end)

  it("is left undone by cancel, and by Lua's collector", function()
    local f = jit.compile(function(t, v) t:add_(layers(v)) end)
    local t = ty.zeros(N, N)
    f(t, x)
    local keep = t:clone()
    local run = jit.start(f, t, x)
    assert.falsy(run:step(0))
    local held = ty.stats().memory.general
    run:cancel()
    assert.truthy(ty.stats().memory.general < held) -- at once, not when Lua's collector comes to it
    assert.equal("call in slices: cancelled", tostring(run))
    assert.error_matches(function() run:step() end, "was cancelled")
    for _ = 1, 20 do jit.start(f, t, x):step(0) end
    collectgarbage()
    collectgarbage()
    assert.truthy(t:equal(keep))
  end)

  it("is done at once without a budget", function()
    local f = jit.compile(layers)
    local run = jit.start(f, x)
    assert.is_true(run:step())
    assert.is_true(run:step(5))
    assert.is_true(run.done)
    assert.truthy(run:results():equal(layers(x)))
  end)

  it("takes compiled modules", function()
    local m = ty.nn.Linear(N, N)
    local c = jit.compile(m)
    local _, y = finish(jit.start(c, x))
    assert.truthy(y:equal(m(x)))
  end)

  it("says what is wrong with arguments", function()
    assert.error_matches(function() jit.start(5) end, "start: argument 1 must be a function or a module, got number 5")
    local run = jit.start(function() return 1 end)
    assert.error_matches(function() run:results() end, "has not ended")
    for _, bad in ipairs { -1, 0 / 0, "soon", {} } do
      assert.error_matches(function() run:step(bad) end, "step: argument 1 must be a number of microseconds")
    end
    assert.error_matches(function() run.step({}, 5) end, "call it as run:step")
    assert.is_true(run:step(1e300))
    assert.equal(1, (run:results()))
    local own
    own = jit.start(function() own:step() end)
    assert.error_matches(function() own:step() end, "cannot go on inside of itself")
  end)

  it("ends a process that leaves it under way", function()
    local out, status = H.script [[
      local ty = require "tycho"
      local w = ty.randn(384, 384)
      local f = jit.compile(function(x) for _ = 1, 6 do x = x:matmul(w):tanh() end return x end)
      f(w)
      for i = 1, 3 do runs = runs or {} runs[i] = jit.start(f, w) print(runs[i]:step(0)) end]]
    assert.equal(0, status, out)
    assert.equal("false\nfalse\nfalse\n", out)
  end)

  it("fails well when memory runs out at any of its allocations", function()
    local f = jit.compile(function(t, v) t:add_(layers(v)) return t * 2 end)
    local t = ty.zeros(N, N)
    f(t, x)
    local failed, want = 0, t:clone()
    for after = 0, 60 do
      local run = jit.start(f, t, x)
      probe.fail(after, -1)
      local ok, why = pcall(function() while not run:step(0) do end end)
      probe.fail(-1)
      if ok then
        want:add_(layers(x))
      else
        failed = failed + 1
        assert.truthy(tostring(why):find "memory" or tostring(why):find "thread", why)
      end
      assert.truthy(t:equal(want), after)
    end
    assert.truthy(failed > 5, failed)
    assert.truthy(f(t, x):equal((want + layers(x)) * 2))
  end)
end)
