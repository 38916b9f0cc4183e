--- scopes_spec.lua -- ty.no_grad, ty.autocast, ty.vmap and their kin against coroutines: a mode belongs to the coroutine
-- that entered it, and holds for that one and for those that it resumes.
-- Each kind of mode by the same claims; three in a row; errors, garbage, compiled functions; what each kind computes; at
-- last random programs of coroutines against a slow model of the rule, also under a collector that never rests.

local H = require "spec.helper"
local random_scopes = require "spec.random_scopes"
local ty, ffi = H.ty, H.ffi
local modes, level = H.internals.modes, H.internals.vmap.level
local create, resume, wrap, yield, status = coroutine.create, coroutine.resume, coroutine.wrap, coroutine.yield,
  coroutine.status

local weight = ty.ones(2):requires_grad_()
local linear = ty.nn.Linear(2, 2)
local input = ty.ones(1, 2)

local function go(co, ...)
  local ok, y = resume(co, ...)
  if not ok then error(y, 0) end
  return y
end

local function collect()
  collectgarbage()
  collectgarbage()
end

local function bytes_of(seed, stream) return ffi.string(ffi.new("uint64_t[2]", seed, stream), 16) end

--- Calls fn() with random numbers of its own, as checkpoint does in the backward pass.
local function with_random(seed, fn)
  local scope = modes.random(bytes_of(seed, 0))
  local ok, e = pcall(fn)
  modes.leave(scope)
  if not ok then error(e, 0) end
end

-- Kinds of modes: what enters one, what tells whether it is in force.
local kinds = {
  ["ty.no_grad"] = {
    enter = ty.no_grad,
    inside = function() return not (weight * 2).requires_grad end,
  },
  ["ty.enable_grad"] = {
    around = ty.no_grad,
    enter = ty.enable_grad,
    inside = function() return (weight * 2).requires_grad end,
  },
  ["ty.grad"] = { -- tapes what its function does
    around = ty.no_grad,
    enter = function(fn)
      ty.grad(function(x)
        fn()
        return x:sum()
      end)(ty.ones(1))
    end,
    inside = function() return (weight * 2).requires_grad end,
  },
  ["a rule of custom_grad"] = { -- tapes nothing but for create_graph
    enter = function(fn)
      ty.custom_grad(function(x) return x * 1 end, function(_, g)
        fn()
        return g
      end)(ty.ones(1):requires_grad_()):backward()
    end,
    inside = function() return not (weight * 2).requires_grad end,
  },
  ["ty.autocast"] = {
    enter = function(fn) ty.autocast("bf16", fn) end,
    inside = function() return linear(input).dtype == "bf16" end,
  },
  ["ty.autocast that is off"] = {
    around = function(fn) ty.autocast("f16", fn) end,
    enter = function(fn) ty.autocast(false, fn) end,
    inside = function() return linear(input).dtype == "f32" end,
  },
  ["ty.vmap"] = {
    enter = function(fn)
      ty.vmap(function(x)
        fn()
        return x
      end)(ty.ones(2))
    end,
    inside = function() return not pcall(ty.rand, 1) end, -- it has no rule for random numbers
  },
  ["a backward pass through ty.checkpoint"] = {
    enter = ty.disable(function(fn) with_random(77, fn) end), -- as what the library does is run, not captured
    inside = function() return ty.random_state():sub(1, 16) == ("%016x"):format(77) end,
  },
}

for _, name in ipairs(H.sorted(kinds)) do
  local kind = kinds[name]
  local enter, inside = kind.enter, kind.inside
  local around = kind.around or function(fn) fn() end

  --- A coroutine that is suspended inside of the mode.
  local function suspended()
    local co = create(function()
      enter(function()
        assert.truthy(inside(), "before it yields")
        yield()
        assert.truthy(inside(), "after it yields")
      end)
      return inside()
    end)
    go(co)
    return co
  end

  --- In the mode's opposite, where there is one.
  local function claim(text, fn) it(text, function() around(fn) end) end

  describe(name .. " in a coroutine", function()
    claim("holds inside, and after a yield, and ends", function()
      assert.falsy(inside())
      enter(function() assert.truthy(inside()) end)
      assert.falsy(inside())
      assert.falsy(go(suspended()))
    end)

    claim("does not hold outside while the coroutine is suspended", function()
      local co = suspended()
      assert.falsy(inside())
      assert.falsy(wrap(inside)(), "another coroutine")
      go(co)
      assert.falsy(inside())
    end)

    claim("holds for what the coroutine resumes", function()
      local co = create(function()
        enter(function()
          local inner = wrap(function()
            yield(inside())
            return inside()
          end)
          assert.truthy(inner())
          yield(inner)
          assert.truthy(inside())
        end)
      end)
      local inner = go(co)
      assert.falsy(inner(), "resumed from elsewhere")
      go(co)
    end)

    claim("of the outside holds in a coroutine that is resumed there, and not when it is resumed elsewhere", function()
      local co = wrap(function()
        while true do yield(inside()) end
      end)
      assert.falsy(co())
      enter(function()
        assert.truthy(co())
        assert.truthy(co())
      end)
      assert.falsy(co())
    end)

    claim("is left in the middle of others', in either order", function()
      for order = 1, 2 do
        local a, b = suspended(), suspended()
        assert.falsy(inside())
        go(order == 1 and a or b)
        assert.falsy(inside())
        go(order == 1 and b or a)
        assert.falsy(inside())
      end
    end)

    claim("survives that another one is entered and left while it is suspended", function()
      local co = suspended()
      enter(function() assert.truthy(inside()) end)
      assert.falsy(inside())
      go(co)
    end)

    claim("ends with an error that is thrown out of it", function()
      local co = create(function()
        local ok, e = pcall(enter, function()
          yield()
          error("out", 0)
        end)
        assert.falsy(ok)
        assert.equal("out", e)
        return inside()
      end)
      go(co)
      assert.falsy(go(co))
      assert.falsy(inside())
    end)

    claim("ends with an error that ends the coroutine", function()
      local co = create(function()
        enter(function()
          yield()
          error("out", 0)
        end)
      end)
      go(co)
      assert.same({ false, "out" }, { resume(co) })
      assert.equal("dead", status(co))
      assert.falsy(inside())
    end)

    claim("of a coroutine that was abandoned and collected never holds again", function()
      suspended() -- the last one that asked for anything
      collect()
      assert.falsy(inside())
      for _ = 1, 60 do
        suspended()
        local co = suspended()
        suspended()
        assert.falsy(inside())
        go(co)
      end
      collect()
      local hold = {}
      for i = 1, 200 do -- at addresses that are free now
        hold[i] = create(function()
          yield(inside())
          return inside()
        end)
        assert.falsy(go(hold[i]))
      end
      for i = 1, 200 do assert.falsy(go(hold[i])) end
      assert.falsy(inside())
    end)

    claim("holds for generators in loops as for their callers", function()
      local function each()
        return wrap(function()
          for i = 1, 3 do
            enter(function()
              assert.truthy(inside())
              yield(i)
              assert.truthy(inside())
            end)
            assert.falsy(inside())
          end
        end)
      end
      local sum = 0
      for i in each() do
        assert.falsy(inside())
        sum = sum + i
      end
      assert.equal(6, sum)
    end)

    claim("holds in compiled functions, captured or recorded, as it does eagerly", function()
      local function body(x)
        local y, z = (x * weight + 1):tanh(), linear(x:reshape(1, 2))
        return y.requires_grad, z.dtype, y:detach(), z:detach()
      end
      for _, f in ipairs { ty.compile(body), H.lazy(body) } do
        local function agrees()
          local got, want = { f(input[1]) }, { body(input[1]) }
          for i = 1, 2 do assert.equal(want[i], got[i]) end
          for i = 3, 4 do H.same(want[i], got[i]) end
        end
        for _ = 1, 3 do
          agrees()
          local co = create(function()
            enter(function()
              agrees()
              yield()
              agrees()
            end)
            agrees()
          end)
          go(co)
          agrees()
          enter(agrees)
          go(co)
          agrees()
        end
        assert.same({}, ty.explain(f).aborts)
      end
    end)

    claim("of a compiled function that yields does not hold outside", function()
      local told
      local f = ty.compile(function(x)
        local y = x + 1
        enter(function()
          y = y * weight
          told = inside()
          yield(y)
          told = told and inside()
        end)
        return y + 1
      end)
      for _ = 1, 3 do
        local co = create(f)
        go(co, ty.ones(2))
        assert.falsy(inside())
        local y = ty.ones(2) * 3
        assert.same({ 3, 3 }, y:totable())
        assert.same({ 3, 3 }, go(co):totable())
        assert.truthy(told)
      end
    end)

    claim("is evaluated in a captured function while another coroutine is suspended in it", function()
      local co = suspended()
      local function body(x)
        local told, y = {}, nil
        local function tell()
          local a, b = x * weight, linear(x)
          told[#told + 1], told[#told + 2] = a.requires_grad, b.dtype
          y = (y or 0) + a:detach()
        end
        tell()
        enter(tell)
        tell()
        return y, unpack(told)
      end
      local f = ty.compile(body)
      for n = 1, 6 do
        local x = ty.ones(n % 3 + 1, 2)
        local got, want = { f(x) }, { body(x) }
        H.same(table.remove(want, 1), table.remove(got, 1))
        assert.same(want, got)
      end
      go(co)
    end)
  end)
end

describe("modes of several coroutines", function()
  it("of the running one decide, then those of the one that resumed it", function()
    local function asks() return ty._half() end
    local a = create(function()
      ty.autocast("bf16", function()
        yield()
        yield(asks())
      end)
      yield(asks())
    end)
    go(a)
    ty.autocast("f16", function()
      assert.equal("f16", asks())
      assert.equal("bf16", go(a), "entered earlier, resumed later")
      assert.equal("f16", asks())
      assert.equal("f16", go(a), "left, under the one outside")
    end)
    assert.falsy(asks())
  end)

  --- A coroutine that entered autocast and calls what it is given, inside of it.
  local function caller(dtype, make)
    local run = make(function()
      ty.autocast(dtype, function()
        local fn = yield()
        while fn do fn = yield(fn()) end
      end)
    end)
    run()
    return run
  end

  local function created(fn)
    local co = create(fn)
    return function(...) return go(co, ...) end
  end

  for name, make in pairs { ["coroutine.resume"] = created, ["coroutine.wrap"] = wrap } do
    it("are nested as the coroutines are, whoever was first: " .. name, function()
      local a, b, c = caller("bf16", make), caller("f16", make), caller("f32", make)
      local asks = make(function()
        while true do yield(ty._half()) end
      end)
      local function through(x, y, z) -- nobody on the way asks for anything
        return x(function() return y(function() return z(asks) end) end)
      end
      local function twice(x, y) return x(function() return y(asks) end) end
      for _ = 1, 2 do
        assert.equal("f32", through(a, b, c))
        assert.equal("bf16", through(c, b, a))
        assert.equal("f16", through(a, c, b))
        assert.equal("f16", twice(a, b))
        assert.equal("bf16", twice(b, a))
        assert.equal("f32", twice(b, c))
        assert.equal("bf16", a(asks))
        assert.falsy(asks())
      end
    end)
  end

  it("are nested as the coroutines are where fifty wait for each other", function()
    local n, list, halves = 50, {}, { "bf16", "f16", "f32" }
    for i = 1, n do
      list[i] = create(function()
        ty.autocast(halves[i % 3 + 1], function() yield()() end)
      end)
      go(list[i])
    end
    local function at(k) return k * 7 % n + 1 end
    local function nest(k)
      if k > 1 then assert.equal(halves[at(k - 1) % 3 + 1], ty._half()) end
      if k == n then return end
      go(list[at(k)], function() nest(k + 1) end)
      assert.equal(k > 1 and halves[at(k - 1) % 3 + 1] or nil, ty._half() or nil)
    end
    nest(1)
  end)

  it("of different kinds do not touch each other", function()
    local co = create(function()
      ty.autocast("bf16", function()
        ty.no_grad(function()
          yield()
          ty.enable_grad(yield)
        end)
        yield()
      end)
    end)
    local function tells() return { ty._half(), (weight * 2).requires_grad } end
    go(co)
    assert.same({ false, true }, tells())
    ty.autocast("f16", function()
      go(co)
      assert.same({ "f16", true }, tells())
      ty.no_grad(function()
        assert.same({ "f16", false }, tells())
        go(co)
        assert.same({ "f16", false }, tells())
      end)
    end)
    go(co)
    assert.same({ false, true }, tells())
  end)

  it("end with a stack that overflows inside of them", function()
    local depth = 0
    local function down()
      depth = depth + 1
      ty.no_grad(down)
      return depth
    end
    for _ = 1, 2 do
      assert.falsy((pcall(down)))
      assert.truthy((weight * 2).requires_grad)
      ty.enable_grad(function()
        assert.falsy((resume(create(down))))
        assert.truthy((weight * 2).requires_grad)
      end)
      collect()
    end
  end)

  it("that were passed by and never left end with the call that entered them, those inside of them before", function()
    local outer, inner
    local function within()
      inner = modes.grad(true)
      assert.truthy((weight * 2).requires_grad)
      modes.leave(outer)
      assert.truthy((weight * 2).requires_grad) -- as outside of both
      modes.leave(inner)
      modes.leave(outer)
    end
    local function enter()
      outer = modes.grad(false)
      assert.falsy((weight * 2).requires_grad)
      local co = create(function() return ty.no_grad(yield) end)
      go(co)
      within()
      assert.truthy((weight * 2).requires_grad)
      go(co)
    end
    enter()
    local function forget()
      modes.grad(false)
      assert.falsy((weight * 2).requires_grad)
    end
    forget()
    assert.truthy((weight * 2).requires_grad)
    local function deep(n) -- the same function, other calls
      if n > 0 then return (deep(n - 1)) end
      assert.truthy((weight * 2).requires_grad)
      forget()
      assert.truthy((weight * 2).requires_grad)
    end
    for n = 0, 40 do
      deep(n)
      pcall(function()
        modes.grad(false)
        error "passes by"
      end)
      assert.truthy((weight * 2).requires_grad)
    end
  end)

  it("close with their state, suspended or collected, in any order", function()
    local out, exit = H.script([[
      local ty = require "tycho"
      local w = ty.ones(2):requires_grad_()
      kept = {}
      for i = 1, 20 do
        local co = coroutine.create(function()
          local kinds = { ty.no_grad, function(fn) ty.autocast("bf16", fn) end, function(fn) ty.vmap(fn)(ty.ones(2)) end }
          kinds[i % 3 + 1](function() local y = w * 2 coroutine.yield(y) end)
        end)
        kept[i], kept[-i] = co, select(2, coroutine.resume(co))
      end
      for i = 1, 20, 2 do kept[i], kept[-i] = nil, nil end
      collectgarbage()
      setmetatable({}, { __gc = function() end })
      print((w * 2).requires_grad)
    ]])
    assert.equal("true\n", out)
    assert.equal(0, exit)
  end)
end)

describe("a suspended ty.vmap", function()
  local function suspended(...)
    local co = create(function(x)
      return ty.vmap(function(v)
        local more = yield(v)
        return v * 2 + (more or 1)
      end)(x)
    end)
    return co, go(co, ...)
  end

  it("gives what it gives without a pause", function()
    local co = suspended(ty.tensor { 1, 2, 3 })
    assert.same({ 3, 5, 7 }, go(co):totable())
  end)

  it("lends batched tensors that others compute with and pass back, and nobody reads", function()
    local co, v = suspended(ty.tensor { 1, 2, 3 })
    assert.truthy(H.raises(function() return v:item() end):find("^vmap: the values of a batched tensor are read"))
    local w = v * 10 + ty.tensor(0.5)
    assert.truthy(H.raises(function() return w:totable() end):find("^vmap: "))
    assert.same({ 12.5, 24.5, 36.5 }, go(co, w):totable())
  end)

  it("goes on inside of others that began earlier, and raises inside of a later one", function()
    local co
    local y = ty.vmap(function(x)
      co = suspended(ty.tensor { 1, 2, 3 })
      return x + go(co):sum()
    end)(ty.zeros(2))
    assert.same({ 15, 15 }, y:totable())
    co = suspended(ty.tensor { 1, 2, 3 })
    local message
    ty.vmap(function(x)
      message = H.raises(go, co, ty.tensor(1))
      return x + 1
    end)(ty.zeros(2))
    assert.truthy(message:find("^vmap: a coroutine that was suspended"), message)
    assert.equal("dead", status(co))
    assert.equal(0, level())
  end)

  it("does not make what others make one for each example", function()
    local shared = ty.zeros(1)
    local co = create(function()
      return ty.vmap(function(v)
        yield()
        return shared:copy_(v)
      end)(ty.ones(2, 1))
    end)
    go(co)
    assert.same({ 1 }, ty.rand(1).shape)
    assert.truthy(H.raises(go, co):find("different values for each example", 1, true))
    assert.same({ 0 }, shared:totable())
  end)

  it("batches at its own level when two run in turn", function()
    local a, va = suspended(ty.tensor { 1, 2, 3 })
    local b, vb = suspended(ty.tensor { 10, 20 })
    assert.truthy(level(va) < level(vb))
    assert.equal(0, level())
    assert.same({ 3, 5, 7 }, go(a):totable())
    assert.same({ 21, 41 }, go(b):totable())
  end)
end)

describe("gradients of functions that yield", function()
  it("are those of the function, with two in turn and plain work between", function()
    local function cube(x)
      yield()
      local y = x * x
      yield()
      return (y * x):sum()
    end
    local function start(v) return create(function() return ty.grad(cube)(ty.tensor(v)) end) end
    local a, b = start { 1, 2 }, start { 3 }
    for _ = 1, 2 do
      go(a)
      assert.truthy((weight * 2).requires_grad)
      ty.no_grad(function()
        go(b)
        assert.falsy((weight * 2).requires_grad)
      end)
    end
    assert.same({ 27 }, go(b):totable())
    assert.same({ 3, 12 }, go(a):totable())
  end)

  it("see what was computed outside while they were suspended", function()
    local co = create(function()
      return ty.grad(function(x)
        local more = yield(x)
        return (x * more):sum()
      end)(ty.tensor { 1, 2 })
    end)
    local x = go(co)
    local more = ty.no_grad(function() return x * 3 end)
    assert.same({ 3, 6 }, go(co, more):totable(), "not taped outside")
    co = create(function()
      return ty.grad(function(v)
        local w = yield(v)
        return (v * w):sum()
      end)(ty.tensor { 1, 2 })
    end)
    more = go(co) * 3
    assert.same({ 6, 12 }, go(co, more):totable(), "taped outside")
  end)

  it("are taped in turn where gradients are recorded, and not inside of ty.no_grad", function()
    local function start(x)
      return create(function()
        return ty.grad(function(v)
          yield()
          return (v * v * x):sum()
        end)(x)
      end)
    end
    local x = ty.tensor({ 2 }):requires_grad_()
    local co = start(x)
    go(co)
    assert.truthy(go(co).requires_grad)
    co = start(x)
    go(co)
    assert.falsy(ty.no_grad(go, co).requires_grad)
  end)

  it("go back through a rule that yields, and leave gradients on outside", function()
    local f = ty.custom_grad(function(x) return x * x, x end, function(x, g)
      yield((weight * 2).requires_grad)
      return g * x * 2
    end)
    local x = ty.tensor({ 3 }):requires_grad_()
    local co = create(function() f(x):sum():backward() end)
    assert.equal(false, go(co))
    assert.truthy((weight * 2).requires_grad)
    go(co)
    assert.same({ 6 }, x.grad:totable())
  end)
end)

describe("ty.checkpoint of a function that yields", function()
  local function noisy(x)
    local a = ty.rand(4)
    yield()
    return x * a + ty.rand(4)
  end

  local function finish(co)
    while status(co) == "suspended" do go(co) end
  end

  it("draws the same numbers in the backward pass, whatever is drawn outside meanwhile", function()
    local x, own = ty.ones(4):requires_grad_(), nil
    local co = create(function()
      local y = ty.checkpoint(noisy, x)
      own = y - 0
      yield()
      y:sum():backward()
    end)
    ty.manual_seed(5)
    go(co)
    go(co)
    assert.truthy(own.requires_grad)
    local before = ty.rand(3)
    go(co) -- suspended in the backward pass
    local between = ty.rand(3)
    finish(co)
    local after = ty.rand(3)
    ty.manual_seed(5)
    local a = ty.rand(4)
    ty.rand(4)
    H.same(a, x.grad)
    for _, t in ipairs { before, between, after } do H.same(ty.rand(3), t) end
  end)

  it("raises where others drew between the numbers of the way forth", function()
    local x = ty.ones(4):requires_grad_()
    local y
    local co = create(function() y = ty.checkpoint(noisy, x) end)
    go(co)
    ty.rand(1)
    go(co)
    local back = create(function() y:sum():backward() end)
    go(back)
    local ok, message = resume(back)
    assert.falsy(ok)
    assert.truthy(tostring(message):find("checkpoint: random numbers were drawn outside", 1, true), message)
    assert.truthy((weight * 2).requires_grad)
  end)

  it("minds no operation that draws nothing", function()
    local x = ty.ones(4):requires_grad_()
    local y
    local co = create(function() y = ty.checkpoint(noisy, x) end)
    go(co)
    assert.same({ 2, 2 }, (ty.ones(2) * 2):totable())
    finish(co)
    finish(create(function() y:sum():backward() end))
    assert.truthy(x.grad)
  end)
end)

describe("compiled functions beside coroutines", function()
  it("have one trace for each autocast, and find it again", function()
    local f = ty.compile(function(x) return linear(x):detach() end)
    local want = {}
    for round = 1, 3 do
      for _, dtype in ipairs { false, "bf16", "f16" } do
        local y = ty.autocast(dtype, f, input)
        assert.equal(dtype or "f32", y.dtype)
        if round == 1 then want[dtype] = y end
        H.same(want[dtype], y)
      end
    end
    assert.equal(3, #ty.explain(f).traces)
    assert.equal(3, ty.explain(f).captures)
  end)

  it("that do not mind a mode are captured once for each, at any sizes", function()
    local f = ty.compile(function(x) return x * 2 + 1 end)
    for n = 1, 12 do
      f(ty.ones(n))
      ty.no_grad(f, ty.ones(n + 1))
      ty.autocast("bf16", f, ty.ones(n + 2))
    end
    local told = ty.explain(f)
    assert.same({}, told.aborts)
    assert.truthy(told.captures <= 6, tostring(told))
  end)

  it("leave no mode open where a capture is given up inside of one", function()
    local function inner(x) return ty.vmap(function(v) return ty.no_grad(function() return v:item() end) end)(x) end
    local f = ty.compile(function(x)
      local ok = pcall(ty.autocast, "bf16", inner, x)
      return x + (ok and 1 or 2), ty._half()
    end)
    for _ = 1, 3 do
      local y, half = f(ty.ones(2))
      assert.same({ 3, 3 }, y:totable())
      assert.falsy(half)
      assert.truthy((weight * 2).requires_grad)
      assert.equal(0, level())
    end
  end)

  it("that are checked and yield leave nothing open", function()
    local f = ty.compile(function(x)
      return ty.no_grad(function()
        yield(x)
        return x * weight
      end)
    end)
    ty.check(f, 1)
    for _ = 1, 3 do
      local co = create(f)
      go(co, ty.ones(2))
      assert.truthy((weight * 2).requires_grad)
      assert.falsy(go(co).requires_grad)
      assert.truthy((weight * 2).requires_grad)
    end
    ty.check(f)
  end)
end)

describe("random programs of coroutines", function()
  it("are under the modes that the model says", function()
    for seed = 1, 100 do random_scopes.program(seed, 120, function() end) end
    local told = ty.explain(random_scopes.captured)
    assert.same({}, told.aborts)
    assert.truthy(told.skips > 300 and told.captures == 8, tostring(told)) -- taping, times dtypes
  end)

  --- In a process of their own, whose heap is small: it is walked at every step.
  local function alone(code)
    local out, exit = H.script(([[
      package.path = "%s?.lua;" .. package.path
      local program = require("spec.random_scopes").program
      %s
      print "as the model says"
    ]]):format(H.root, code))
    assert.equal("as the model says\n", out)
    assert.equal(0, exit)
  end

  it("are, with coroutines collected as they go", function()
    alone [[
      local function collect() collectgarbage() collectgarbage() end
      for seed = 1001, 1016 do program(seed, 80, collect) end
    ]]
  end)

  it("are, with a collector that never rests", function()
    alone [[
      collectgarbage("setpause", 0)
      collectgarbage("setstepmul", 1000)
      for seed = 2001, 2040 do program(seed, 120, function() end) end
      collectgarbage() collectgarbage()
      local ty = require "tycho"
      assert((ty.ones(2):requires_grad_() * 2).requires_grad and ty.internals.vmap.level() == 0)
    ]]
  end)
end)
