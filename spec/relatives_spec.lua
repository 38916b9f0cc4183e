--- relatives_spec.lua -- what the relatives of this library get wrong, each as a claim.
-- Most claims run a function plain and compiled in twin worlds (twins.lua): results, errors and state must be equal
-- to
-- the bit in each call. Where Lua must be skipped, or captures must not multiply, the claim counts them.

local H = require "spec.helper"
local T = require "spec.twins"
local ty = H.ty

--- Calls the pair n times.
local function calls(pair, n, before)
  for i = 1, n do
    if before then pair:each(before, i) end
    pair:call()
  end
end

--- The number of captures is this, and further calls run no Lua of the user's.
local function settled(pair, captures)
  local skipped = pair:settle(1)
  assert.truthy(skipped, "Lua is not skipped: " .. pair:story())
  assert.equal(captures, pair:captures(), pair:story())
end

describe("a compiled function, where relatives fail,", function()
  it("has the dtype in its key", function()
    local pair = T.pair(function(W)
      W.f = function(x) return x * 2, x / 3, x:sum() end
      W.args = function() return W.x end
    end)
    for n, dtype in ipairs { "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool" } do
      pair:each(function(W) W.x = ty.tensor({ 1, 0, 3 }):to(dtype) end)
      pair:call()
      settled(pair, n)
    end
    calls(pair, 2, function(W) W.x = W.x:to "f16" end)
    settled(pair, 8)
  end)

  it("sees a closed-over tensor that was rebound", function()
    local pair = T.pair(function(W)
      local w = ty.tensor { 1, 2 }
      W.f = function(x) return x * w end
      W.rebind = function(t) w = t end
      W.args = function() return ty.tensor { 3, 4 } end
    end)
    calls(pair, 3)
    settled(pair, 1)
    pair:each(function(W) W.rebind(ty.tensor { 10, 20 }) end)
    calls(pair, 2)
    settled(pair, 1)
    pair:each(function(W) W.rebind(ty.tensor { { 10, 20 }, { 30, 40 } }) end)
    calls(pair, 2)
    settled(pair, 2)
  end)

  it("sees a global flag that flips a branch", function()
    local globals = getfenv(0)
    local pair = T.pair(function(W)
      W.f = setfenv(function(x) -- luacheck: ignore
        if relatives_training then return x * 0.5 end -- luacheck: ignore
        return x
      end, globals)
      W.args = function() return ty.tensor { 3, 4 } end
    end)
    for _, flag in ipairs { true, false, true, false } do
      globals.relatives_training = flag
      calls(pair, 2)
    end
    settled(pair, 2)
    globals.relatives_training = nil
    calls(pair, 2)
    settled(pair, 3)
  end)

  it("follows a list that is appended to while it is walked", function()
    for _, walk in ipairs {
      function(list, x)
        for i, v in ipairs(list) do
          if i < 5 then list[#list + 1] = v * 2 + x end
        end
        return #list
      end,
      function(list, x)
        for i = 1, #list do
          table.insert(list, list[i] + x)
          table.insert(list, 1, x)
        end
        return list[1], list[#list]
      end,
      function(list, x)
        local n = 0
        while list[n + 1] do
          n = n + 1
          if n > 4 then table.remove(list, n) else list[n] = list[n] * x end
        end
        return n
      end,
    } do
      local pair = T.pair(function(W)
        local list
        W.f = function(x) return walk(list, x) end
        W.args = function() return ty.tensor { 1, 2 } end
        W.fresh = function() list = { ty.ones(2), ty.zeros(2) } end
        W.state = function() return list end
        W.fresh()
      end)
      calls(pair, 3)
      calls(pair, 3, function(W) W.fresh() end)
    end
  end)

  it("takes tensors inside tables, old and new", function()
    local pair = T.pair(function(W)
      W.f = function(batch) return { y = batch.x * 2 + batch.extra.b, x = batch.x, n = #batch.list,
      batch.list[2] - 1 } end
      W.args = function() return { x = ty.tensor { W.n or 1, 2 }, extra = { b = ty.tensor(3) }, list = { 1,
      ty.ones(3) } } end
    end)
    calls(pair, 4, function(W, i) W.n = i end)
    settled(pair, 1)
  end)

  it("takes one tensor twice", function()
    local pair = T.pair(function(W)
      W.f = function(a, b)
        a:mul_(2)
        b:add_(1)
        return a + b, a * b
      end
      W.args = function() return W.a, W.b end
      W.a, W.b = ty.tensor { 1, 2 }, ty.tensor { 3, 4 }
      W.c = W.b
    end)
    calls(pair, 3)
    settled(pair, 1)
    pair:each(function(W) W.b = W.a end)
    calls(pair, 3)
    settled(pair, 2)
    pair:each(function(W) W.b = W.c end)
    calls(pair, 3)
    settled(pair, 2)
  end)

  it("is fed its own output", function()
    local pair = T.pair(function(W)
      W.f = function(h, x)
        local y = (h * 0.5 + x):tanh()
        W.h = y
        return y
      end
      W.h = ty.zeros(4)
      W.args = function() return W.h, ty.ones(4) end
      W.state = function() return W.h end
    end)
    calls(pair, 10)
    settled(pair, 1)
    pair = T.pair(function(W)
      W.f = function(h)
        h:mul_(0.5):add_(1)
        W.h = h * 1
        return h
      end
      W.h = ty.zeros(4)
      W.args = function() return W.h end
      W.state = function() return W.h end
    end)
    calls(pair, 10)
    settled(pair, 1)
  end)

  it("refuses to write to an expanded view with eager's error", function()
    local pair = T.pair(function(W)
      W.f = function(x)
        local e = x:expand(3, 2)
        x:add_(1)
        e:add_(1)
        return e
      end
      W.x = ty.zeros(1, 2)
      W.args = function() return W.x end
    end)
    calls(pair, 4)
    assert.truthy(H.raises(pair.compiled, pair.twin.x):find("^add_: .*share memory"))
    H.same(ty.full({ 1, 2 }, 5), pair.twin.x)
  end)

  it("joins views, mutation and branches", function()
    local pair = T.pair(function(W)
      W.f = function(x, flag)
        local row, column = x[1], x:t()[2]
        row:mul_(2)
        if flag then column:add_(1) else x:sub_(row) end
        local copy = row:clone()
        x[{ {}, 1 }] = 7
        return x:sum(), row, copy, column * 1
      end
      W.x = ty.arange(6):reshape(2, 3)
      W.args = function() return W.x, W.flag end
    end)
    for _, flag in ipairs { true, false, true, false } do
      calls(pair, 2, function(W) W.flag = flag end)
    end
    settled(pair, 2)
  end)

  it("gives results that stay valid beside those of later calls", function()
    local f = ty.compile(function(x) return x * 2, x:sum(), x[{ { 1, 2 } }] end)
    local kept = {}
    for i = 1, 10 do kept[i] = { f(ty.full({ 3 }, i)) } end
    collectgarbage()
    kept[4][1]:fill_(-1)
    for i = 1, 10 do
      assert.same(i == 4 and { -1, -1, -1 } or { 2 * i, 2 * i, 2 * i }, kept[i][1]:totable())
      assert.equal(3 * i, kept[i][2]:item())
      assert.same({ i, i }, kept[i][3]:totable())
    end
  end)

  it("raises eager's error, with its place, and writes nothing twice", function()
    local pair = T.pair(function(W)
      local count, list, state = 0, {}, { h = ty.zeros(2) }
      W.f = function(x)
        count = count + 1
        list[#list + 1] = count
        state.h:add_(1)
        state.last = x
        local y = x:matmul(state.w or x)
        state.h:add_(10)
        return y
      end
      W.x = ty.ones(2)
      W.weight = function(w) state.w = w end
      W.args = function() return W.x end
      W.state = function() return count, list, state end
    end)
    calls(pair, 3)
    pair:each(function(W) W.weight(ty.ones(3, 3)) end)
    calls(pair, 3)
    local ok, message = pcall(pair.compiled, pair.twin.x)
    assert.falsy(ok)
    assert.truthy(message:find("relatives_%a+%.lua:%d+: matmul: "), message)
    pair:each(function(W) W.f(ty.ones(3)) end) -- as many calls of the plain one in both
  end)

  it("raises for data as eager does, with nothing written twice", function()
    local pair = T.pair(function(W)
      local state = { n = 0, h = ty.zeros(3) }
      W.f = function(x, i)
        state.n = state.n + 1
        state.h:add_(1)
        local y = x[i]
        state.h:add_(y:sum())
        return y * 2
      end
      W.args = function() return ty.tensor { 4, 5, 6 }, ty.tensor({ 1, W.i or 1 }, { dtype = "i64" }) end
      W.state = function() return state end
    end)
    calls(pair, 4)
    for _, i in ipairs { 4, 3, 0, 9, 2 } do
      calls(pair, 2, function(W) W.i = i end)
    end
  end)

  it("prints inside each call, in order", function()
    local pair = T.pair(function(W)
      W.lines = {}
      local function say(...)
        W.lines[#W.lines + 1] = table.concat({ ... }, " ")
        io.write ""
      end
      W.f = function(x)
        say("before", tostring(x))
        local y = x + 1
        say("after", tostring(y))
        return y
      end
      W.args = function() return ty.tensor { 1, W.n or 2 } end
      W.state = function() return W.lines end
    end)
    calls(pair, 5, function(W, i) W.n = i end)
    local out = H.script([[
      local ty = require "tycho"
      local f = jit.compile(function(x) print("in", x) local y = x + 1 print("made", y) return y end)
      for i = 1, 3 do print("out", f(ty.tensor { i })) end]])
    local want = {}
    for i = 1, 3 do
      want[#want + 1] = ("in\t{%d} [f32 1 cpu]\nmade\t{%d} [f32 1 cpu]\nout\t{%d} [f32 1 cpu]\n"):format(i, i + 1,
      i + 1)
    end
    assert.equal(table.concat(want), out)
  end)

  it("breaks inside a called function", function()
    local pair = T.pair(function(W)
      local function steps(x)
        local n = 0
        while true do
          x = x * 2
          n = n + 1
          if x:sum():item() > 100 then break end
        end
        return x, n
      end
      W.f = function(x)
        local y, n = steps(x + 1)
        return y - 1, n
      end
      W.args = function() return ty.tensor { 1, W.n or 2 } end
    end, { parts = false })
    calls(pair, 5, function(W, i) W.n = i end)
      local abort = ty.explain(pair.compiled).aborts[1]
    assert.truthy(abort.file:find("relatives_%a+%.lua$"), abort.file)
    assert.equal("number", type(abort.line))
    assert.truthy(abort.reason:find("item"), abort.reason)
  end)

  it("sees a function that was redefined", function()
    local pair = T.pair(function(W)
      local unit = { act = function(x) return x + 1 end }
      W.f = function(x) return unit.act(x) * 2 end
      W.define = function(g) unit.act = g end
      W.args = function() return ty.tensor { 1, 2 } end
    end)
    calls(pair, 3)
    settled(pair, 1)
    pair:each(function(W) W.define(function(x) return x - 1 end) end)
    calls(pair, 3)
    settled(pair, 2)
  end)

  it("draws the random numbers of eager, in its order", function()
    local function draws(wrap)
      ty.manual_seed(42)
      local f = wrap(function(x)
        local noise = ty.randn(3)
        local unused = ty.rand(5) -- luacheck: ignore
        return x + noise, x * ty.rand(3):gt(0.5), x:dropout(0.5, true)
      end)
      local list = {}
      for _ = 1, 6 do
        for _, y in ipairs { f(ty.ones(3)) } do list[#list + 1] = y end
        list[#list + 1] = ty.rand(2)
      end
      return list, f
    end
    local plain = draws(function(f) return f end)
    local compiled, f = draws(ty.compile)
    for i, y in ipairs(plain) do H.same(y, compiled[i], "draw " .. i) end
      assert.equal(1, ty.explain(f).captures)
    assert.truthy(ty.explain(f).skips >= 3)
  end)

  it("does linear work in a loop that reads back each turn", function()
    local function operations(n)
      local f = ty.compile(function(x)
        local s = 0
        for i = 1, n do
          x = x * 0.5 + i
          s = s + x:sum():item()
        end
        return x, s
      end, { parts = false })
      local x = ty.ones(64)
      for _ = 1, 6 do f(x) end -- reading back is no capture: all six record
      local work = 0
      for _, g in ipairs(ty.explain(f).signatures[1].graphs) do work = work + g.operations * g.runs end
      return work / 6
    end
    local few, many = operations(6), operations(12)
    assert.truthy(many <= 2.5 * few, ("%g operations for 6 turns, %g for 12"):format(few, many))
  end)

  it("captures a learning rate and a step counter once in 1000 calls", function()
    local pair = T.pair(function(W)
      local optimiser = { lr = 0.1, step = 0, w = ty.ones(4) }
      W.f = function(gradient)
        optimiser.step = optimiser.step + 1
        local correction = 1 - 0.9 ^ optimiser.step
        optimiser.w = optimiser.w - gradient * (optimiser.lr / correction)
        return optimiser.w
      end
      W.each = function(i) optimiser.lr = 0.1 / (1 + i) end
      W.args = function() return ty.tensor { 1, 2, 3, 4 } end
      W.state = function() return optimiser end
    end)
    for i = 1, 1000 do
      pair:each(function(W) W.each(i) end)
      if i % 100 < 3 then
        pair:call()
      else
        pair:each(function(W) W.x = W.x or ty.tensor { 1, 2, 3, 4 } end)
        pair.plain.f(pair.plain.x)
        pair.compiled(pair.twin.x)
      end
    end
    settled(pair, 1)
  end)

  it("sees weights that were replaced, changed in place, or written through their address", function()
    local pair = T.pair(function(W)
      W.model = { { w = ty.ones(2, 2), b = ty.zeros(2) }, { w = ty.ones(2, 2) * 2, b = ty.ones(2) } }
      local model = W.model
      W.f = function(x)
        for i = 1, #model do x = x:matmul(model[i].w) + model[i].b end
        return x
      end
      W.x = ty.tensor { { 1, 2 } }
      W.args = function() return W.x end
    end)
    calls(pair, 3)
    settled(pair, 1)
    for _, change in ipairs {
      function(W) W.model[1].w = ty.ones(2, 2) * 5 end,
      function(W) W.model[1].w:add_(1) end,
      function(W) W.model[2].w[1] = 9 end,
      function(W) W.model[2].b:data()[1] = 77 end,
      function(W) W.model[2].b:data()[0] = -3 end,
      function(W) W.model[1].w:data()[3] = 1e3 end,
      function(W) W.model[1].w:copy_(ty.zeros(2, 2)) end,
    } do
      pair:each(change)
      calls(pair, 2)
      settled(pair, 1)
    end
  end)

  it("takes arguments that share storage, and gives outputs that alias them", function()
    local pair = T.pair(function(W)
      W.base = ty.arange(8)
      W.f = function(a, b)
        b:mul_(2)
        local c = a * 10
        a:add_(1)
        return a, b, c, a[{ { 2, 3 } }], a:reshape(2, 2):t()
      end
      W.args = function() return W.base[{ { 1, 4 } }], W.base[{ { W.from or 3, (W.from or 3) + 3 } }] end
      W.state = function() return W.base end
    end)
    calls(pair, 3)
    settled(pair, 1)
    calls(pair, 3, function(W) W.from = 5 end)
    settled(pair, 2)
    calls(pair, 3, function(W) W.from = 3 end)
    settled(pair, 2)
    for _, f in ipairs { pair.plain.f, pair.compiled } do -- what was given is the storage, not a copy
      local base = ty.arange(4)
      local a, _, _, view, square = f(base, ty.zeros(4))
      assert.truthy(rawequal(a, base))
      a:fill_(5)
      assert.same({ 5, 5 }, view:totable())
      square:fill_(6)
      assert.same({ 6, 6, 6, 6 }, base:totable())
      assert.same({ 1, 2 }, square:stride())
    end
  end)

  it("writes to an argument that is seen through another alias", function()
    local pair = T.pair(function(W)
      W.base = ty.arange(6)
      local alias = W.base[{ { 2, 5 } }]
      W.f = function(x)
        local before = alias * 1
        x:add_(100)
        return before, alias * 1, alias
      end
      W.args = function() return W.base end
    end)
    calls(pair, 4)
    settled(pair, 1)
  end)

  it("takes 500 lengths with at most 3 captures and no new machine code", function()
    local function body(x) return ((x * 2 + 1):relu() - x):exp(), x:sum() end
    local f = ty.compile(body)
    for _, n in ipairs { 2, 3, 4, 300, 700 } do f(ty.ones(n)) end
    local made = 0
    for n = 501, 2, -1 do
      local x = ty.arange(n) / n
      local before = ty.stats().kernels.misses
      local a, b = f(x)
      made = made + ty.stats().kernels.misses - before
      if n % 50 == 1 or n < 20 then
        local c, d = body(x)
        H.same(c, a)
        H.same(d, b)
      end
    end
    local captures = ty.explain(f).captures
    assert.truthy(captures <= 3, captures .. " captures")
    assert.equal(0, made)
  end)

  it("takes a length that was never seen without running Lua", function()
    local f = ty.compile(function(x) return (x * 2 + 1):relu() - x end)
    for n = 2, 501 do f(ty.ones(n)) end
    local e = ty.explain(f)
    assert.truthy(e.skips - e.captures >= 490, ("%d skips, %d captures"):format(e.skips, e.captures))
  end)

  it("takes sizes of 0 and 1 as eager does, with few captures", function()
    local pair = T.pair(function(W)
      W.f = function(x, y) return x * y + 1, (x + y):sum(), x:reshape(-1) end
      W.args = function() return ty.ones(W.n, 3) * 2, ty.arange(3 * W.m):reshape(W.m, 3) end
      W.n, W.m = 4, 4
    end)
    for _, size in ipairs { 4, 6, 9, 1, 0, 7, 1, 2, 0 } do
      calls(pair, 2, function(W) W.n, W.m = size, size end)
    end
    for _, size in ipairs { 4, 1, 6, 1, 5 } do
      calls(pair, 2, function(W) W.n, W.m = size, 1 end)
    end
    assert.truthy(pair:captures() <= 6, pair:captures() .. " captures")
  end)

  it("keeps a bounded number of traces, each as good as new, whatever the values", function()
    local pair = T.pair(function(W)
      local t = {}
      for i = 1, 200 do t[i] = i end
      W.f = function(x, k) return x * t[k] end
      W.x = ty.tensor { 1, 2 }
      W.args = function() return W.x, W.k end
    end)
    for i = 1, 400 do
      pair:each(function(W) W.k = i % 150 + 1 end)
      pair:call()
    end
      local e = ty.explain(pair.compiled)
    assert.truthy(#e.traces <= 64)
    pair:each(function(W) W.k = 7 end)
    assert.truthy((pair:settle(3, 200)))
  end)
end)

describe("policy:", function()
  before_each(function() jit.stance "default" end)
  after_each(function() jit.stance "default" end)

  local function plus(x) return x + 1 end

  it("no_recompile raises with the reason where a capture would be due", function()
    local k = 2
    local f = ty.compile(function(x, ...)
      if k > 1 then return x * k, ... end
      return x / k, ...
    end)
    local x = ty.ones(3)
    for _ = 1, 3 do f(x) end
    jit.stance "no_recompile"
    H.same(x * 2, (f(x)))
    k = 5
    H.same(x * 5, (f(x)))
    k = 1
    local message = H.raises(f, x)
    assert.truthy(message:find("no_recompile", 1, true), message)
    assert.truthy(message:find("k", 1, true), message)
    assert.truthy(H.raises(f, x, 1):find("no_recompile", 1, true))
    jit.stance "default"
    H.same(x, (f(x)))
    for _ = 1, 3 do f(x) end
    jit.stance "no_recompile"
    H.same(x, (f(x)))
    assert.equal(2, ty.explain(f).captures)
  end)

  it("eager runs the function itself", function()
    local lines = 0
    local f = ty.compile(function(x) lines = lines + 1 return x + lines end)
    local x = ty.ones(3)
    for _ = 1, 4 do f(x) end
    local e = ty.explain(f)
    assert.equal(4, lines)
    jit.stance "eager"
    H.same(x + 5, f(x))
    assert.equal(5, lines)
    assert.same({ e.captures, e.skips }, { ty.explain(f).captures, ty.explain(f).skips })
    jit.stance "default"
    H.same(x + 6, f(x))
    assert.equal(e.skips + 1, ty.explain(f).skips)
    assert.truthy(H.raises(jit.stance, "lazy"):find("^stance: "))
  end)

  it("fullgraph raises at the first abort, with place and reason", function()
    local f = ty.compile(function(x)
      local y = x + 1
      if y:sum():item() > 3 then return y end
      return x
    end, { fullgraph = true })
    local ok, message = pcall(f, ty.ones(3))
    assert.falsy(ok)
    assert.truthy(message:find("relatives_%a+%.lua:%d+"), message)
    assert.truthy(message:find("item"), message)
    local g = ty.compile(plus, { fullgraph = true })
    H.same(ty.ones(3) * 2, g(ty.ones(3)))
    local wrong = ty.compile(function(x) return x:matmul(ty.ones(9, 9)) end, { fullgraph = true })
    assert.truthy(H.raises(wrong, ty.ones(3)):find("matmul: inner sizes differ"))
  end)

  it("warmup is a call after which Lua is skipped", function()
    local n, h = 0, ty.zeros(3)
    local f = ty.compile(function(x)
      n = n + 1
      h:add_(x)
      return h * n
    end)
    H.same(ty.ones(3), jit.warmup(f, ty.ones(3)))
    assert.equal(1, ty.explain(f).captures)
    local before = ty.explain(f).skips
    H.same(ty.full({ 3 }, 4), f(ty.ones(3)))
    assert.equal(before + 1, ty.explain(f).skips)
    assert.same({ 2, { 2, 2, 2 } }, { n, h:totable() })
  end)

  it("a budget of nothing leaves captures to warmup", function()
    local f = ty.compile(function(x) return x * 2 - 1 end)
    jit.budget(0)
    local ok, message = pcall(function()
      for _ = 1, 5 do H.same(ty.ones(3), f(ty.ones(3))) end
      assert.equal(0, ty.explain(f).captures)
      jit.warmup(f, ty.ones(3))
      assert.equal(1, ty.explain(f).captures)
      H.same(ty.ones(3), f(ty.ones(3)))
      assert.truthy(ty.explain(f).skips >= 1)
    end)
    jit.budget(math.huge)
    assert(ok, message)
    local g = ty.compile(function(x) return x * 2 - 2 end)
    for _ = 1, 4 do g(ty.ones(3)) end
    assert.equal(1, ty.explain(g).captures)
  end)

  it("check finds nothing where all is right, and its eager runs leave no trace", function()
    local n, list = 0, {}
    local h = ty.zeros(3)
    local f = ty.compile(function(x)
      n = n + 1
      list[1] = n
      h:add_(x)
      return h * n + ty.rand(3)
    end)
    jit.check(f, 2)
    ty.manual_seed(9)
    local got = {}
    for i = 1, 8 do got[i] = f(ty.ones(3)) end
    assert.same({ 8, { 8 }, { 8, 8, 8 } }, { n, list, h:totable() })
    ty.manual_seed(9)
    for i = 1, 8 do H.same(ty.full({ 3 }, i) * i + ty.rand(3), got[i]) end
  end)

  it("check raises on the first bit that differs", function()
    local f = ty.compile(function(x) return x * 2 end, { backend = function()
      return function(x) return x * 3 end
    end })
    jit.check(f, 1)
    local raised
    for _ = 1, 5 do
      local ok, message = pcall(f, ty.ones(3))
      if not ok then raised = message end
    end
    assert.truthy(raised and raised:find("check"), tostring(raised))
  end)

  it("reset forgets", function()
    local f = ty.compile(function(x) return x - 3 end)
    for _ = 1, 4 do f(ty.ones(3)) end
    jit.reset(f)
    local e = ty.explain(f)
    assert.same({ 0, 0, 0 }, { e.captures, e.skips, #e.traces })
    for _ = 1, 4 do H.same(ty.full({ 3 }, -2), f(ty.ones(3))) end
    assert.equal(1, ty.explain(f).captures)
  end)

  it("disable keeps a function out of captures, and its callers right", function()
    local seen = 0
    local function look(x)
      seen = seen + 1
      return x * 2
    end
    assert.equal(look, jit.disable(look) or look)
    local f = ty.compile(function(x) return look(x) + 1 end, { parts = false })
    for i = 1, 5 do
      H.same(ty.full({ 3 }, 3), f(ty.ones(3)))
      assert.equal(i, seen)
    end
    local e = ty.explain(f)
    assert.same({ 0, 0 }, { e.captures, e.skips })
    assert.truthy(e.aborts[1].reason:find("disable"), e.aborts[1].reason)
  end)

  it("dynamic marks sizes beforehand, or keeps them fixed", function()
    local function body(x, w) return x:matmul(w) + 1 end
    local w = ty.ones(3, 2)
    for _, options in ipairs { { dynamic = { x = { 1 } } }, { dynamic = { [1] = { 1 } } } } do
      local f = ty.compile(body, options)
      for n = 2, 20 do
        for _ = 1, 2 do H.same(body(ty.ones(n, 3), w), f(ty.ones(n, 3), w)) end
      end
      assert.equal(1, ty.explain(f).captures)
    end
    local fixed = ty.compile(body, { dynamic = false })
    for n = 2, 6 do
      for _ = 1, 3 do H.same(body(ty.ones(n, 3), w), fixed(ty.ones(n, 3), w)) end
    end
    assert.equal(5, ty.explain(fixed).captures)
  end)

  it("a module that is loaded again captures anew only what changed, and keeps kernels", function()
    local source = [[
      local M = {}
      function M.act(x) return (x * %d):tanh() end
      function M.head(x) return x + 1 end
      return M]]
    local unit = assert(loadstring(source:format(2), "@unit.lua"))()
    local f = ty.compile(function(x) return unit.head(unit.act(x)) end)
    local g = ty.compile(function(x) return unit.head(x) * 2 end)
    local x = ty.ones(3)
    for _ = 1, 4 do f(x) g(x) end
    local before = ty.stats().kernels.misses
    unit = assert(loadstring(source:format(2), "@unit.lua"))()
    for _ = 1, 4 do
      H.same((x * 2):tanh() + 1, f(x))
      H.same((x + 1) * 2, g(x))
    end
    assert.same({ 2, 2 }, { ty.explain(f).captures, ty.explain(g).captures })
    unit = assert(loadstring(source:format(3), "@unit.lua"))()
    for _ = 1, 4 do H.same((x * 3):tanh() + 1, f(x)) end
    assert.equal(before, ty.stats().kernels.misses)
    assert.truthy(ty.explain(f).captures <= 3)
    assert.truthy(ty.explain(f).skips >= 6)
  end)
end)

describe("explain", function()

  it("shows guards as readable paths", function()
    local self = { layers = { { weight = ty.ones(64, 10) }, { weight = ty.ones(10, 4) } }, scale = 2, mode = "train" }
    local function body(me, x) -- luacheck: ignore
      if me.mode == "train" then x = x * me.scale end
      for i = 1, #me.layers do x = x:matmul(me.layers[i].weight) end
      return x
    end
    local f = ty.compile(function(x) return body(self, x) end)
    for _ = 1, 3 do f(ty.ones(2, 64)) end
    local e = ty.explain(f)
    local guards = table.concat(e.traces[1].guards, "\n")
    assert.truthy(guards:find("layers[2].weight: f32[10,4]", 1, true), guards)
    assert.truthy(guards:find("mode", 1, true) and guards:find("train", 1, true), guards)
    assert.truthy(e:full():find("layers[2].weight", 1, true))
    assert.truthy(e.traces[1].hits >= 1)
  end)

  it("tells which guard failed, with both values", function()
    local flag = "left"
    local f = ty.compile(function(x)
      if flag == "left" then return x + 1 end
      return x - 1
    end)
    for _ = 1, 3 do f(ty.ones(3)) end
    flag = "right"
    for _ = 1, 3 do f(ty.ones(3)) end
    local text = ty.explain(f):full()
    assert.truthy(#ty.explain(f).misses >= 1)
    assert.truthy(text:find("flag", 1, true), text)
    assert.truthy(text:find("left", 1, true) and text:find("right", 1, true), text)
  end)

  it("reports each abort with file, line, reason and cost", function()
    local f = ty.compile(function(x)
      local y = x + 1
      io.write("")
      return y
    end)
    local line = debug.getinfo(1, "l").currentline - 3
    for _ = 1, 3 do f(ty.ones(3)) end
    local e = ty.explain(f)
    assert.equal(0, e.skips)
    assert.truthy(e.aborts[1].file:find("relatives_%a+%.lua$"))
    assert.equal(line, e.aborts[1].line)
    assert.truthy(e.aborts[1].reason:find("write"), e.aborts[1].reason)
    assert.equal("number", type(e.aborts[1].cost))
    assert.truthy(tostring(e):find((":%d"):format(line), 1, true))
  end)

  it("names effects", function()
    local state = { n = 0 }
    local f = ty.compile(function(x)
      state.n = state.n + 1
      return x * state.n
    end)
    for _ = 1, 3 do f(ty.ones(3)) end
    local effects = ty.explain(f).traces[1].effects
    assert.equal(1, #effects)
    assert.truthy(tostring(effects[1]):find("state.n", 1, true), tostring(effects[1]))
  end)
end)
