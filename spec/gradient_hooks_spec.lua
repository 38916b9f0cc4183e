--- gradient_hooks_spec.lua -- hooks of tensors and modules beside gradients worked out by hand; ty.gradcheck.

local H = require "spec.helper"
local ty = H.ty
local nn = ty.nn

local function leaf(...) return ty.tensor({ ... }, { dtype = "f64", requires_grad = true }) end
local function list(t) return t:totable() end

describe("a tensor's hook", function()
  it("is called once, with the sum of what comes from all readers, those before it was registered too", function()
    local x = leaf(1, 2, 3)
    local y = x * 2
    local before = (y * 5):sum()
    local seen = {}
    y:register_hook(function(g) seen[#seen + 1] = list(g) end)
    local after = (y * y):sum()
    ;(before + after):backward()
    assert.same({ { 5 + 2 * 2, 5 + 2 * 4, 5 + 2 * 6 } }, seen)
    assert.same({ 18, 26, 34 }, list(x.grad))
  end)

  it("gives what goes on, in the order of registration, each what the one before gave", function()
    local x = leaf(1, 2)
    local y = x * 3
    local order = {}
    y:register_hook(function(g) order[#order + 1] = "first" return g * 10 end)
    y:register_hook(function(g) order[#order + 1] = list(g)[1] end)
    y:register_hook(function(g) return g + 1 end)
    y:sum():backward()
    assert.same({ "first", 10 }, order)
    assert.same({ 33, 33 }, list(x.grad))
  end)

  it("of a leaf sees what one pass gives, before it is added to grad", function()
    local x = leaf(1, 2)
    local seen = {}
    local handle = x:register_hook(function(g) seen[#seen + 1] = list(g) return g * 2 end)
    for _ = 1, 2 do (x * 3 + x):sum():backward() end
    assert.same({ { 4, 4 }, { 4, 4 } }, seen)
    assert.same({ 16, 16 }, list(x.grad))
    handle:remove()
    handle:remove()
    x:sum():backward()
    assert.same({ 17, 17 }, list(x.grad))
    assert.equal(2, #seen)
  end)

  it("is called by ty.grad, keeps the dims, and has a gradient of its own", function()
    local shape
    local function f(x)
      local y = x:reshape(2, 2) * x:reshape(2, 2)
      y:register_hook(function(g) shape = g.shape return g * g end)
      return (y * y):sum()
    end
    local x = ty.tensor({ 1, 2, 3, 4 }, { dtype = "f64" })
    local g = ty.grad(f)(x) -- (2 x^2)^2 * 2 x
    assert.same({ 2, 2 }, shape)
    for i, v in ipairs(list(g)) do assert.near(8 * i ^ 5, v, 1e-9) end
    local twice = ty.grad(function(a) return ty.grad(f)(a):sum() end)(x)
    for i, v in ipairs(list(twice)) do assert.near(512 * i ^ 7 + 8 * i ^ 4, v, 1e-6) end -- the hook is called in the outer pass, too
  end)

  it("is seen by compiled functions that were captured before and after, and lets them be captured when it is gone", function()
    local w = leaf(1, 2, 3)
    local function train(x)
      local loss = (w * x):sum()
      loss:backward()
      return loss
    end
    local compiled = jit.compile(train)
    local x = ty.tensor({ 1, 2, 3 }, { dtype = "f64" })
    for _ = 1, 3 do compiled(x) end
    assert.same({ 3, 6, 9 }, list(w.grad))
    local n = 0
    local handle = w:register_hook(function(g) n = n + 1 return g * 10 end)
    for _ = 1, 3 do compiled(x) end
    assert.equal(3, n)
    assert.same({ 33, 66, 99 }, list(w.grad))
    handle:remove()
    for _ = 1, 3 do compiled(x) end
    assert.equal(3, n)
    assert.same({ 36, 72, 108 }, list(w.grad))
    assert.truthy(jit.explain(compiled).skips >= 4)
  end)

  --- Makes two worlds, and calls run of one as it is and of the other compiled, n times; all must be the same. Gives what
  --- explain tells.
  local function alike(n, make)
    local plain, other, told = make(), make(), nil
    local compiled = jit.compile(other.run)
    for i = 1, n do
      for _, world in ipairs { plain, other } do
        if world.change then world.change(i) end
      end
      assert.same({ plain.run() }, { compiled() })
      assert.same(plain.state(), other.state(), "call " .. i)
      told = jit.explain(compiled)
    end
    return told
  end

  it("of a leaf is part of the trace: which hooks there are, and what they read, is guarded", function()
    local told = alike(28, function()
      local w, b, log, scale = leaf(1, 2), leaf(3, 4), { n = 0 }, 2
      local world, added = {}, {}
      function world.run()
        (w * w + b * b):sum():backward()
      end
      local changes = {
        [4] = function() added.a = w:register_hook(function(g) log.n = log.n + 1 return g * scale end) end,
        [8] = function() scale = 3 end,
        [10] = function() added.b = w:register_hook(function(g) log.last = g:sum() return nil end) end,
        [13] = function() added.a:remove() end,
        [16] = function() added.c = b:register_hook(function(g) return g + w end) end,
        [20] = function() added.b:remove() end,
        [24] = function() added.c:remove() end,
      }
      function world.change(i) if changes[i] then changes[i]() end end
      function world.state()
        return { list(w.grad), list(b.grad), log.n, log.last and log.last:item() }
      end
      return world
    end)
    assert.same({}, told.aborts)
    assert.truthy(told.skips >= 20, told.skips)
    local paths = {}
    for _, t in ipairs(told.traces) do paths[#paths + 1] = table.concat(t.guards, "\n") end
    assert.truthy(table.concat(paths, "\n"):find("b's hooks: is nil", 1, true), table.concat(paths, "\n"))
  end)

  it("that is registered inside is part of the trace, of any sizes, once a call", function()
    local w = leaf(2)
    local calls = 0
    local compiled = jit.compile(function(x)
      local y = w * x
      local gone = y:register_hook(function() return error "removed" end)
      y:register_hook(function(g) calls = calls + 1 return g * g:size(1) end)
      y:register_hook(function(g) return g + 1 end)
      gone:remove()
      gone:remove()
      y:sum():backward()
      return y:detach()
    end)
    for n = 1, 20 do
      w.grad = nil
      compiled(ty.full({ n }, 2, { dtype = "f64" }))
      assert.same({ 2 * n * (n + 1) }, list(w.grad))
      assert.equal(n, calls)
    end
    local told = jit.explain(compiled)
    assert.equal(20, told.skips)
    assert.truthy(told.captures <= 4, told.captures) -- sizes do not matter to hooks
    assert.same({}, told.aborts)
  end)

  it("of a leaf takes any sizes, and of a leaf that is made inside, too", function()
    local w = leaf(2)
    w:register_hook(function(g) return g * 3 end)
    local compiled = jit.compile(function(x)
      local p = x:clone():requires_grad_()
      p:register_hook(function(g) return g * 5 end)
      ;(w * p):sum():backward()
      return p.grad
    end)
    for n = 1, 20 do
      w.grad = nil
      assert.equal(10 * n, compiled(ty.full({ n }, 2, { dtype = "f64" })):sum():item())
      assert.same({ 3 * 2 * n }, list(w.grad))
    end
    local told = jit.explain(compiled)
    assert.same({ 20, {} }, { told.skips, told.aborts })
    assert.truthy(told.captures <= 4, told.captures)
    collectgarbage()
    collectgarbage()
    local alone = jit.compile(function(x) -- no leaf outside has any
      local p = x:clone():requires_grad_()
      p:register_hook(function(g) return g * 5 end)
      p:sum():backward()
      return p.grad
    end)
    for _ = 1, 5 do assert.same({ 5, 5 }, list(alone(ty.ones(2)))) end
    assert.same({ 1, 5 }, { jit.explain(alone).captures, jit.explain(alone).skips })
  end)

  it("that does what no trace can hold runs as it is, once a call", function()
    local told = alike(5, function()
      local w, seen, world = leaf(1, 2), {}, {}
      function world.run()
        local y = w * 2
        y:register_hook(function(g) seen[#seen + 1] = g:sum():item() if seen[#seen] > 1 then return g * 2 end end)
        y:sum():backward()
        return w.grad:sum():item()
      end
      function world.state() return { seen, list(w.grad) } end
      return world
    end)
    assert.truthy(#told.aborts > 0 and told.aborts[1].reason:find("item reads data", 1, true), told.aborts[1])
  end)

  it("of a tensor that is given back, or of one from outside, is registered for real", function()
    local w = leaf(1, 2)
    local kept = jit.compile(function(x)
      local y = w * x
      y:register_hook(function(g) return g * 10 end)
      return y
    end)
    local x = ty.tensor({ 1, 1 }, { dtype = "f64" })
    for i = 1, 4 do
      kept(x):sum():backward()
      assert.same({ 10 * i, 10 * i }, list(w.grad))
    end
    local n, on = 0, jit.compile(function(t)
      return t:register_hook(function(g) return g + 1 end)
    end)
    for _ = 1, 3 do on(w) end
    w.grad = nil
    w:sum():backward()
    assert.same({ 4, 4 }, list(w.grad))
    local off = jit.compile(function(handle) handle:remove() n = n + 1 end)
    local h = w:register_hook(function(g) return g * 100 end)
    off(h)
    off(h)
    w.grad = nil
    w:sum():backward()
    assert.same({ { 4, 4 }, 2 }, { list(w.grad), n })
  end)

  it("raises through a compiled step what it raises, where plain Lua does, and nothing is lost", function()
    local w, fails = leaf(1, 2), false
    local compiled = jit.compile(function()
      w.grad = nil
      local y = w * 3
      y:register_hook(function(g) if fails then error({ "mine" }) end return g * 2 end)
      y:sum():backward()
    end)
    for i = 1, 6 do
      fails = i % 3 == 0
      local ok, e = pcall(compiled)
      assert.same({ not fails, fails and { "mine" } or nil }, { ok, e })
      assert.same(not fails and { 6, 6 } or nil, w.grad and list(w.grad))
    end
  end)

  it("sees of a compiled function's result what its other results take, too", function()
    local w = leaf(1, 2)
    local function f()
      local h = w * 2
      return h, (h * h):sum()
    end
    local function run(fn)
      w.grad = nil
      local h, s = fn()
      local seen
      h:register_hook(function(g) seen = list(g) return g + 1 end)
      ;(h:sum() + s):backward()
      return { seen, list(w.grad) }
    end
    local compiled = jit.compile(f)
    assert.same({ { 5, 9 }, { 12, 20 } }, run(f))
    for _ = 1, 4 do assert.same({ { 5, 9 }, { 12, 20 } }, run(compiled)) end
  end)

  it("may be registered in a compiled function", function()
    local w = leaf(1, 2)
    local compiled = jit.compile(function(x)
      local y = w * x
      y:register_hook(function(g) return g * 3 end)
      y:sum():backward()
      return y
    end)
    for i = 1, 4 do
      compiled(ty.tensor({ 1, 1 }, { dtype = "f64" }))
      assert.same({ 3 * i, 3 * i }, list(w.grad))
    end
  end)

  it("passes errors on, and the next pass is whole", function()
    local x = leaf(1, 2)
    local fails = true
    x:register_hook(function() if fails then error({ "mine" }) end end)
    local ok, e = pcall(function() x:sum():backward() end)
    assert.is_false(ok)
    assert.same({ "mine" }, e)
    assert.is_nil(x.grad)
    fails = false
    x:sum():backward()
    assert.same({ 1, 1 }, list(x.grad))
  end)

  it("refuses what has no gradient of its own, and answers of other dims", function()
    local function says(text, fn, ...)
      local _, e = pcall(fn, ...)
      assert.truthy(tostring(e):find(text, 1, true), tostring(e))
    end
    local x = leaf(1, 2, 3)
    says("register_hook: f32[2] does not require grad", function() ty.ones(2):register_hook(print) end)
    says("argument 2 must be a function, got number 3", function() x:register_hook(3) end)
    says("is a view of part of another one", function() x:narrow(1, 1, 2):register_hook(print) end)
    local h = x:register_hook(function() return ty.ones(2) end)
    says("the hook must give nil or f64[3], got f32[2]", function() x:sum():backward() end)
    says("remove: argument 1 must be the handle of a hook, got nil", function() h.remove() end)
    h:remove()
    h = x:register_hook(function() return 3 end)
    says("the hook must give nil or f64[3], got number 3", function() x:sum():backward() end)
    h:remove()
    local m = nn.Linear(2, 2)
    says("register_forward_hook: argument 2 must be a function, got number 3", m.register_forward_hook, m, 3)
    says("register_forward_hook: argument 1 must be a module, got table", m.register_forward_hook, {}, print)
    local answers = { { ty.ones(7) }, { 3 }, {}, 5 }
    for i, want in ipairs { "gradient 1 that the hook gives must be f32[1,2], got f32[7]",
      "gradient 1 that the hook gives must be f32[1,2], got number 3", "nil or a list of 1 gradients, got table",
      "nil or a list of 1 gradients, got number 5" } do
      local hook = m:register_full_backward_hook(function() return answers[i] end)
      says(want, function() m(ty.ones(1, 2):requires_grad_()):sum():backward() end)
      hook:remove()
    end
  end)
end)

describe("retain_grad", function()
  it("keeps the gradient of a tensor that is no leaf, behind its hooks, and adds to it", function()
    local x = leaf(1, 2, 3)
    local y = x * 2
    y:retain_grad():retain_grad()
    y:register_hook(function(g) return g * 10 end)
    assert.is_nil(y.grad)
    ;(y * y):sum():backward(nil, { retain_graph = true })
    assert.same({ 40, 80, 120 }, list(y.grad))
    assert.same({ 80, 160, 240 }, list(x.grad))
    y:sum():backward()
    assert.same({ 50, 90, 130 }, list(y.grad))
    y.grad:zero_()
    assert.same({ 100, 180, 260 }, list(x.grad))
    y.grad = nil
    assert.is_nil(y.grad)
    assert.equal("grad: only a leaf that requires grad has one that can be set",
      H.raises(function() y.grad = ty.ones({ 3 }, { dtype = "f64" }) end):match("grad: .*"))
  end)

  it("does nothing to a leaf, and says what has no gradient", function()
    local x = leaf(1, 2)
    assert.equal(x, x:retain_grad())
    x:sum():backward()
    assert.same({ 1, 1 }, list(x.grad))
    assert.truthy(H.raises(ty.ones(2).retain_grad, ty.ones(2)):find("^retain_grad: f32%[2%] does not require grad"))
    assert.truthy(H.raises(ty.ones(2).retain_grad, (x * 2):detach()):find("^retain_grad: f64%[2%] does not require grad"))
    assert.truthy(H.raises(ty.ones(2).retain_grad, 3):find("^retain_grad: argument 1 must be a tensor"))
    assert.truthy(H.raises(ty.ones(2).retain_grad, (x * 2)[{ { 1, 1 } }]):find("^retain_grad: the tensor is a view of part"))
  end)

  it("is seen by views, keeps dims, serves complex numbers, half floats, and a second order", function()
    local x = ty.tensor({ 1, 2, 3, 4 }, { dtype = "f64", requires_grad = true })
    local y = (x * 1):reshape(2, 2)
    local flat = y:reshape(-1)
    y:retain_grad()
    ;(y * y):sum():backward()
    assert.same({ { 2, 4 }, { 6, 8 } }, y.grad:totable())
    assert.same({ 2, 4, 6, 8 }, list(flat.grad))
    assert.same({ 2, 6 }, list(y[{ {}, 1 }].grad))
    local z = ty.complex({ 3, 0 }, { 4, 1 }, { requires_grad = true }) * 1
    z:retain_grad()
    z:abs():sum():backward()
    assert.equal("c64", z.grad.dtype)
    assert.is_true(ty.allclose(ty.complex({ 0.6, 0 }, { 0.8, 1 }), z.grad))
    local h = ty.ones({ 2 }, { dtype = "bf16", requires_grad = true }) * 2
    h:retain_grad()
    h:sum():backward()
    assert.equal("bf16", h.grad.dtype)
    local a = leaf(2)
    local b = a * 3
    b:retain_grad()
    ;(b ^ 3):sum():backward(nil, { create_graph = true })
    assert.is_true(b.grad.requires_grad)
    local second = ty.grad(function(v)
      local w = v * 3
      w:retain_grad()
      ;(w ^ 3):sum():backward(nil, { create_graph = true })
      return w.grad:sum()
    end)
    assert.same({ 108 }, list(b.grad)) -- 3 b^2
    assert.same({ 108 }, list(second(a:detach()))) -- 6 b by a
  end)

  it("goes with writes: it is the gradient of what the tensor holds then", function()
    local x = leaf(1, 2)
    local y = x * 1
    y:retain_grad()
    y:mul_(3)
    y[1] = x[2] * 5
    ;(y * y):sum():backward()
    assert.same({ 20, 12 }, list(y.grad))
    assert.same({ 0, 36 + 100 }, list(x.grad))
  end)

  it("works inside of vmap, checkpoints, and of ty.grad", function()
    local function f(v)
      local p = v:clone():requires_grad_()
      local y = p * 2
      y:retain_grad()
      ;(y * y):sum():backward()
      return y.grad, p.grad
    end
    local x = ty.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "f64" })
    local g, h = ty.vmap(f)(x)
    assert.same({ { { 4, 8 }, { 12, 16 } }, { { 8, 16 }, { 24, 32 } } }, { g:totable(), h:totable() })
    local kept
    local own = ty.grad(function(v)
      kept = v * 2
      kept:retain_grad()
      return (kept * kept):sum()
    end)
    assert.same({ 8, 16 }, list(own(x[1])))
    assert.same({ 4, 8 }, list(kept.grad))
    local p = leaf(1, 2)
    local y = ty.checkpoint(function(v) return v * v end, p)
    y:retain_grad()
    ;(y * 3):sum():backward()
    assert.same({ { 3, 3 }, { 6, 12 } }, { list(y.grad), list(p.grad) })
  end)

  it("is the same of a compiled forward's results, captured before and after", function()
    local w = leaf(1, 2)
    local function f(x)
      local h = w * x
      return h, (h * h):sum()
    end
    local compiled = jit.compile(f)
    local x = ty.tensor({ 2, 3 }, { dtype = "f64" })
    for i = 1, 5 do
      local seen = {}
      for k, fn in ipairs { f, compiled } do
        w.grad = nil
        local h, s = fn(x * i)
        if i > 1 then h:retain_grad() end
        ;(s + h:sum()):backward()
        seen[k] = { h.grad and list(h.grad) or false, list(w.grad) }
      end
      assert.same(seen[1], seen[2])
      assert.equal(i > 1, seen[1][1] ~= false)
    end
  end)

  it("is captured where it stays inside, of any sizes; what is given back keeps its gradient", function()
    local w = leaf(2)
    local function inside(x)
      local y = w * x
      y:retain_grad()
      ;(y * y):sum():backward()
      local g = y.grad
      y.grad = nil
      return g * 2, y.grad == nil
    end
    local compiled = jit.compile(inside)
    for n = 1, 12 do
      w.grad = nil
      local g, gone = compiled(ty.full({ n }, 3, { dtype = "f64" }))
      assert.same({ n * 24, true }, { g:sum():item(), gone })
      assert.same({ 36 * n }, list(w.grad))
    end
    local told = jit.explain(compiled)
    assert.same({}, told.aborts)
    assert.truthy(told.skips >= 8, told.skips)
    local back = jit.compile(function(x)
      local y = w * x
      y:retain_grad()
      ;(y * y):sum():backward()
      return y
    end)
    for n = 1, 6 do assert.same({ 12 * n }, list(back(ty.full({ 1 }, 3 * n, { dtype = "f64" })).grad)) end
  end)

  it("of a tensor from outside is read anew by a compiled function", function()
    local x, y = leaf(1, 2), nil
    local compiled = jit.compile(function() return y.grad and y.grad * 2 or nil end)
    for i = 1, 8 do
      y = x * i
      if i % 3 > 0 then y:retain_grad() end
      ;(y * y):sum():backward()
      local got = compiled()
      assert.same(i % 3 > 0 and { 4 * i, 8 * i } or false, got and list(got) or false)
      if i == 4 then y.grad = nil assert.is_nil(compiled()) end
    end
  end)
end)

describe("a module's hooks", function()
  --- A layer with weights that are known, in f64.
  local function layer()
    local m = nn.Linear(2, 2):to "f64"
    ty.no_grad(function() m.weight:copy_(ty.tensor({ { 1, 2 }, { 3, 4 } })) m.bias:zero_() end)
    return m
  end
  local one = ty.tensor({ { 1, 1 } }, { dtype = "f64" })

  it("are called before and after in order, and replace what they give", function()
    local m, order = layer(), {}
    m:register_forward_pre_hook(function(self, x)
      assert.equal(m, self)
      order[#order + 1] = "before"
      return x * 2
    end)
    m:register_forward_hook(function(_, inputs, y)
      order[#order + 1] = list(inputs[1])[1][1]
      return y + 1
    end)
    local last = m:register_forward_hook(function(_, _, y) order[#order + 1] = list(y)[1][1] end)
    assert.same({ { 9, 13 } }, list(m(one)))
    assert.same({ "before", 2, 9 }, order)
    last:remove()
    m(one)
    assert.equal(5, #order)
    assert.equal("Linear(2, 2)", tostring(m))
    assert.equal(2, #m:parameters())
  end)

  it("of the backward pass see the gradients of inputs and results, and replace those of inputs", function()
    local m, seen = layer(), nil
    local x = one:clone():requires_grad_()
    local h = m:register_full_backward_hook(function(_, gi, go)
      seen = { list(gi[1]), list(go[1]) }
      return { gi[1] * 10 }
    end)
    m(x):sum():backward()
    assert.same({ { { 3, 7 } }, { { 1, 1 } } }, seen)
    assert.same({ { 30, 70 } }, list(x.grad))
    assert.same({ { 1, 1 }, { 1, 1 } }, list(m.weight.grad))
    h:remove()
    m(x):sum():backward()
    assert.same({ { 33, 77 } }, list(x.grad))
    local called
    m:register_full_backward_hook(function(_, gi, go) called = { #gi, #go } end)
    m(one):sum():backward()
    assert.same({ 0, 1 }, called)
  end)

  it("are part of the trace of compiled functions, which see when one comes and goes", function()
    local net = nn.Sequential(layer(), layer())
    local inner, whole = jit.compile(function(x) return net(x) * 2 end), jit.compile(net)
    local function both(want)
      for _ = 1, 3 do
        assert.same(want, list(inner(one) / 2))
        assert.same(want, list(whole(one)))
      end
    end
    both { { 22, 32 } }
    local a = net[1]:register_forward_hook(function(_, _, y) return y * 10 end)
    both { { 220, 320 } }
    local b = net:register_forward_hook(function(_, _, y) return y + 1 end)
    both { { 221, 321 } }
    local skips = jit.explain(inner).skips
    both { { 221, 321 } }
    assert.equal(skips + 3, jit.explain(inner).skips)
    local c = net:register_forward_pre_hook(function(_, x) return x + 1 end)
    both { { 441, 641 } }
    c:remove()
    a:remove()
    both { { 23, 33 } }
    b:remove()
    both { { 22, 32 } }
  end)

  it("give the same gradients compiled as eagerly, whatever is hooked", function()
    math.randomseed(5)
    for _ = 1, 12 do
      local net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)):to "f64"
      for i = 1, 3 do
        local k, scale = math.random(4), math.random()
        if k == 1 then net[i]:register_forward_hook(function(_, _, y) return y * scale + 1 end) end
        if k == 2 then net[i]:register_forward_pre_hook(function(_, x) return x:sin() end) end
        if k == 3 then net[i]:register_full_backward_hook(function(_, gi) return gi[1] and { gi[1] * scale } end) end
      end
      local x = ty.randn({ 5, 3 }, { dtype = "f64" })
      local function step(a)
        local loss = (net(a) * net(a)):sum()
        loss:backward()
        return loss
      end
      local function gradients(fn)
        net:zero_grad()
        local y = { list(fn(x)) }
        for i, p in ipairs(net:parameters()) do y[i + 1] = list(p.grad) end
        return y
      end
      local want, compiled = gradients(step), jit.compile(step)
      for _ = 1, 3 do assert.same(want, gradients(compiled)) end
      local forward = jit.compile(function(a) return net(a) end)
      for _ = 1, 3 do
        assert.same(want, gradients(function(a)
          local loss = (forward(a) * forward(a)):sum()
          loss:backward()
          return loss
        end))
      end
    end
  end)
end)

describe("ty.gradcheck", function()
  it("accepts gradients that are right, of several arguments and results, of integers beside them", function()
    local index = ty.tensor({ 2, 1, 2 }, { dtype = "i64" })
    assert.is_true(ty.gradcheck(function(x, i, w) return (x:index_select(1, i) * w):tanh(), x:exp():sum() end,
      { ty.randn(2, 3), index, ty.randn(3) }))
    assert.is_true(ty.gradcheck(function(x) return ty.dropout(x, 0.5) * x end, ty.randn(4)))
    assert.is_true(ty.gradcheck(jit.compile(function(x) return (x * x):softmax() end), ty.randn(2, 3)))
  end)

  it("names argument, element and both numbers where a gradient is wrong", function()
    local wrong = ty.custom_grad(function(x) return x * x, x end, function(x, g)
      local y = 2 * x * g
      y[{ 2, 1 }] = 0
      return y
    end)
    local x = ty.tensor({ { 1, 2 }, { 3, 4 } })
    local ok, why = ty.gradcheck(function(a, b) return a + wrong(b) end, { ty.ones(2, 2), x }, { raise = false })
    assert.is_false(ok)
    assert.truthy(why:find("argument 2, element [2, 1], by result 1, element 3: backward gives 0, differences give 6", 1, true), why)
    assert.truthy(why:find("^1 of the derivatives differ, by 6 at most"))
    local _, e = pcall(function() ty.gradcheck(wrong, { x }) end)
    assert.truthy(e:find("gradient_hooks_spec.lua:%d+: gradcheck: 1 of the derivatives"), e)
  end)

  it("refuses what it cannot compare", function()
    local function says(text, ...)
      local _, e = pcall(ty.gradcheck, ...)
      assert.truthy(tostring(e):find(text, 1, true), tostring(e))
    end
    says("argument 1 must be a function, got number 1", 1, ty.ones(1))
    says("argument 2 must be a list of arguments, got nil", print)
    says("argument 2 must hold a float tensor, got none", print, { 1 })
    says("the function must give a float tensor, got number 1", function() return 1 end, ty.ones(1))
    says("unknown option epsilon", print, ty.ones(1), { epsilon = 1 })
    says("option eps must be positive, got 0", print, ty.ones(1), { eps = 0 })
    says("option eps must be positive, got nan", print, ty.ones(1), { eps = 0 / 0 })
    says("options atol and rtol must not be negative, got -1 and 0.001", print, ty.ones(1), { atol = -1 })
  end)
end)
