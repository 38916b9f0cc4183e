--- forward_spec.lua -- compiled functions whose results need a gradient: traces, whose backward pass is planned.
-- What is compared with is the same function without jit, to the bit. fuzz_forward.lua does the same with random programs.

local H = require "spec.helper"
local ty = H.ty
local worlds = require "spec.forward_worlds"
local live, bits, both, answered, leaf = worlds.live, worlds.bits, worlds.both, worlds.answered, worlds.leaf

local function network()
  local w1, b1, w2, b2 = leaf(7, 6), leaf(6), leaf(6, 3), leaf(3)
  return { leaves = { w1, b1, w2, b2 }, x = ty.randn(5, 7), run = function(x)
    return (x:matmul(w1) + b1):relu():matmul(w2) + b2
  end }
end

--- Two results, of which the second leads to the first.
local function pair()
  local w, v = leaf(4, 4), leaf(4)
  return { leaves = { w, v }, x = ty.randn(3, 4), run = function(x)
    local h = x:matmul(w):tanh()
    return h, (h * v):exp()
  end }
end

describe("a compiled forward pass", function()
  it("runs no Lua, and neither does its backward pass record", function()
    answered(both(network, function(world)
      local y = world.f(world.x)
      y:square():mean():backward()
      return y:detach()
    end))
    local world = network()
    local f = ty.compile(world.run)
    local g = ty.ones(5, 3)
    f(world.x):backward(g)
    local y = f(world.x)
    local before = ty.stats().operations
    y:backward(g)
    -- the leaves' gradients are added to those that are there
    assert.equal(4, ty.stats().operations - before)
  end)

  it("gives results that are what they are eagerly", function()
    answered(both(pair, function(world)
      local h, y = world.f(world.x)
      return h.requires_grad, h.is_leaf, y.requires_grad, y.is_leaf, h.grad, y:detach().requires_grad,
        y:sum().requires_grad
    end))
  end)

  it("gives gradients to the places of a leaf that its input shows", function()
    local function places()
      local w = leaf(4, 6)
      return { leaves = { w }, run = function(x, y) return x:exp() * x + y, (x - 2 * y):tanh() end }
    end
    for _, view in ipairs {
      function(w) return w:narrow(2, 3, 2), w:narrow(2, 5, 2) end, function(w) return w[3], w[2] end,
      function(w) return w:t()[{ { 2, 5 }, 4 }], w[{ 4, { 2, 5 } }] end,
      function(w) return w[{ 2, { 6, 1, -1 } }], w[4] end, function(w) return w[2]:detach(), w[4] end,
    } do
      answered(both(places, function(world)
        local y, z = world.f(view(world.leaves[1]))
        local sum = y:sum() + (z * 3):sum()
        sum:backward()
      end))
    end
  end)

  it("adds to leaves that are used before, behind and between, in the order of recording", function()
    answered(both(network, function(world)
      local w = world.leaves[3]
      local first = (w * 0.3):sum()
      local y = world.f(world.x)
      local between = (w:square() * 1.7):sum()
      local z = world.f(world.x * 1.3)
      local sum = (y * z):sum() + between + (w:sin() * 1.1):sum() + first
      sum:backward()
    end))
  end)

  it("passes gradients on to what its inputs were made from", function()
    answered(both(network, function(world)
      local x = leaf(5, 7)
      local hidden = x:tanh()
      local y = world.f(hidden)
      local sum = y:square():sum() + (hidden * 3):sum()
      sum:backward()
      return x.grad
    end))
  end)

  it("keeps the values of each call", function()
    answered(both(network, function(world, k)
      local a, b = world.f(world.x * k), world.f(world.x - k)
      b:square():sum():backward()
      a:square():sum():backward()
    end))
  end)

  it("keeps the part of a storage that it was given", function()
    answered(both(network, function(world, k)
      local all = ty.randn(20, 7)
      local a, b = world.f(all:narrow(1, k, 5)), world.f(all:narrow(1, 3 * k + 1, 5))
      b:square():sum():backward()
      a:square():sum():backward()
    end))
  end)

  it("keeps the numbers of each call", function()
    local function make()
      local w = leaf(6)
      return { leaves = { w }, run = function(k) return (w * k):sin() * (k + 1), w:exp() / k end }
    end
    answered(both(make, function(world, k)
      local a, b = world.f(k + 0.5)
      local c, d = world.f(k * 2)
      local sum = (a + b):sum()
      sum:backward()
      local more = (c * d):sum()
      more:backward()
    end))
    answered(both(make, function(world, k)
      local a, b = world.f(k + 0.5)
      local sum = (a * b):sum()
      sum:backward(nil, { create_graph = true })
      local g = world.leaves[1].grad
      world.leaves[1].grad = nil
      g:square():sum():backward()
      return g:detach()
    end))
  end)

  it("may be used in part", function()
    answered(both(pair, function(world, k)
      local h, y = world.f(world.x)
      local z = k == 1 and h or y
      z:sum():backward()
    end))
  end)

  it("gives parts of results, and results beside one another, their gradients", function()
    answered(both(pair, function(world)
      local h, y = world.f(world.x)
      local sum = (y[2] * h[1] + h:t()[1]:narrow(1, 1, 2):sum() + h:detach()[1]):sum()
      sum:backward()
    end))
  end)

  it("draws what it draws eagerly", function()
    local function make()
      local w = leaf(8, 8)
      return { leaves = { w }, run = function(x) return x:matmul(w):dropout(0.5):sin():dropout(0.25) end }
    end
    answered(both(make, function(world)
      local y, z = world.f(ty.randn(8, 8)), world.f(ty.randn(8, 8))
      local sum = (y * z):sum()
      sum:backward()
    end))
  end)

  it("has attention", function()
    local function make()
      local q, k, v = leaf(2, 5, 4), leaf(2, 5, 4), leaf(2, 5, 4)
      return { leaves = { q, k, v }, run = function(s)
        return ty.scaled_dot_product_attention(q * s, k, v, { causal = true })
      end }
    end
    answered(both(make, function(world, k) world.f(k):square():sum():backward() end))
  end)

  it("has effects beside", function()
    local function make()
      local w, seen = leaf(3), {}
      return { leaves = { w }, seen = seen, run = function(x)
        seen.count = (seen.count or 0) + 1
        seen.last = x + 1
        return w * x
      end }
    end
    answered(both(make, function(world, k)
      world.f(ty.full({ 3 }, k)):sum():backward()
      return world.seen.count, world.seen.last
    end, 4), 2)
  end)

  it("gives back what a backward pass inside left behind, too", function()
    local function make()
      local w = leaf(3)
      return { leaves = { w }, run = function(x)
        local y = (w * x):sin()
        y:sum():backward(nil, { retain_graph = true })
        return y * 2, y
      end }
    end
    answered(both(make, function(world, k)
      local a, b = world.f(ty.full({ 3 }, k))
      local sum = (a + b):sum()
      sum:backward()
    end), 2)
  end)

  it("takes other sizes", function()
    local told = both(network, function(world, k)
      local y = world.f(ty.randn(2 + k, 7))
      y:square():sum():backward()
      return y:detach()
    end, 12)
    assert.same({}, told.aborts)
    assert.truthy(told.captures <= 3, told.captures)
    assert.equal(told.calls, told.skips)
  end)
end)

describe("the backward pass through it", function()
  it("goes twice where the graph is retained, else raises", function()
    answered(both(network, function(world)
      local y = world.f(world.x):sum()
      y:backward(nil, { retain_graph = true })
      y:backward()
      return pcall(y.backward, y)
    end))
    answered(both(network, function(world)
      local y = world.f(world.x)
      y:sum():backward()
      return pcall(function() y:sum():backward() end)
    end))
  end)

  it("frees what it went through, and nothing else", function()
    local function make()
      local w, v = leaf(4), leaf(4)
      return { leaves = { w, v }, run = function(x)
        local a, b = (w * x):sin(), (v * x):exp()
        return a, b, a * 2
      end }
    end
    answered(both(make, function(world, k)
      local a, b, c = world.f(ty.full({ 4 }, k))
      a:sum():backward()
      local second, why = pcall(function() c:sum():backward() end)
      b:sum():backward()
      return second, why
    end))
  end)

  it("does not go through what was freed, even if nothing was kept there", function()
    local function make()
      local w = leaf(4)
      return { leaves = { w }, run = function(x)
        local a = w + x
        return a, a + 1
      end }
    end
    answered(both(make, function(world, k)
      local a, b = world.f(ty.full({ 4 }, k))
      if k > 1 then a:sum():backward() end
      return pcall(function() b:sum():backward() end)
    end))
  end)

  it("has a gradient itself", function()
    answered(both(network, function(world)
      local y = world.f(world.x)
      y:square():sum():backward(nil, { create_graph = true })
      local g = world.leaves[1].grad
      world.leaves[1].grad = nil
      local sum = g:square():sum() + y:sum()
      sum:backward()
    end))
    answered(both(function() -- two values that are one node of the plan
      local w = leaf(3)
      return { leaves = { w }, run = function(x)
        local a, b = (w * x):exp(), (w * x):exp()
        return a:dot(b * 3), a:square() * b
      end }
    end, function(world, k)
      local y, z = world.f(ty.full({ 3 }, 0.3 * k))
      y:backward(nil, { create_graph = true })
      local g = world.leaves[1].grad
      world.leaves[1].grad = nil
      local sum = g:square():sum() + z:sum()
      sum:backward()
    end))
    answered(both(pair, function(world)
      local x = world.x
      local inner = ty.grad(function(t)
        local h, y = world.f(t)
        return (h * y):sum()
      end)
      return ty.grad(function(t) return inner(t):square():sum() end)(x), inner(x), ty.jacobian(function(t)
        return (world.f(t))
      end)(x)
    end))
  end)

  it("is that of ty.grad, of a result that leads to nothing else", function()
    local function make()
      local w = leaf(4)
      return { leaves = { w }, run = function(x) return x * x, x * w end }
    end
    answered(both(make, function(world)
      local function way(i)
        local v, g = ty.value_and_grad(function(x) return ({ world.f(x) })[i]:sum() end)(ty.full({ 4 }, 3))
        return v.requires_grad, g.requires_grad, g:detach()
      end
      local a, b, c = way(1)
      return a, b, c, way(2)
    end))
  end)

  it("is that of ty.grad, which asks for the gradient of some alone", function()
    answered(both(network, function(world)
      local g = ty.grad(function(x) return world.f(x):square():sum() end)(world.x)
      return g:detach(), g.requires_grad
    end))
  end)

  it("raises where a value that it needs was changed", function()
    local function changed(make, change)
      local told = both(make, function(world, k)
        local h, y = world.f(world.x)
        if k ~= 2 then change(world, h, y) end -- with a plan for the backward pass, and before there is one
        local z = (y or h):sum()
        return pcall(z.backward, z)
      end)
      assert.same({}, told.aborts)
    end
    changed(network, function(world) world.x:mul_(2) end)
    changed(network, function(world) ty.no_grad(function() world.leaves[3]:mul_(2) end) end)
    changed(pair, function(_, h) ty.no_grad(function() h:mul_(2) end) end)
    changed(pair, function(_, h) h:mul_(2) end)
    changed(pair, function(_, _, y) y:mul_(2) end)
    changed(pair, function(_, h) h:detach():zero_() end)
  end)

  it("raises the same once more, since a pass that fails has not used up what it did not get through", function()
    local function fails_twice(world)
      local h, y = world.f(world.x)
      ty.no_grad(function() h:mul_(2) end)
      local first, why = pcall(function() y:sum():backward() end)
      return first, why, pcall(function() (y * 2):sum():backward() end)
    end
    answered(both(pair, fails_twice))
    -- and so do composites, whose calls are answered without the compiler
    local function write(w)
      local x = w * 1
      local y = ty.rms_norm(x:expand(2, 4))
      x:mul_(0.5)
      return y
    end
    for _ = 1, 3 do
      local y, said = write(leaf(1)), {}
      for i = 1, 3 do said[i] = select(2, pcall(function() y:sum():backward() end)) end
      for i = 1, 3 do assert.matches("div saved f32%[2,4%], which was changed afterwards", said[i]) end
    end
  end)

  it("raises where a result was changed after a backward pass from it, which others read but do not lead to", function()
    local function make()
      local w, v = leaf(4), leaf(4)
      return { leaves = { w, v }, run = function(x)
        local a = (w * x):sin()
        return a, a:detach() * v
      end }
    end
    answered(both(make, function(world)
      local a, b = world.f(ty.ones(4))
      a:sum():backward()
      ty.no_grad(function() a:mul_(2) end)
      return pcall(function() b:sum():backward() end)
    end))
  end)

  it("does not mind what was changed that it does not need", function()
    local function make()
      local w = leaf(4)
      return { leaves = { w }, run = function(x) return w + x, w * 2 end }
    end
    answered(both(make, function(world)
      local x = ty.ones(4)
      local y, z = world.f(x)
      x:zero_()
      y:mul_(3)
      local sum = (y + z):sum()
      sum:backward()
    end))
  end)

  it("goes through checkpoints around it", function()
    answered(both(network, function(world)
      ty.checkpoint(world.f, world.x):square():sum():backward()
    end))
  end)

  it("goes for all examples of a vmap at once", function()
    local told = both(network, function(world)
      local y = world.f(world.x)
      return ty.vmap(function(g)
        return ty.grad(function(t) return (world.f(t) * g):sum() end)(world.x)
      end)(ty.stack { y:detach(), y:detach() * 2 })
    end)
    assert.same({}, told.aborts)
  end)
end)

describe("what guards see", function()
  it("is whether an input requires grad", function()
    local told = both(network, function(world, k)
      local x = world.x
      if k > 3 then x = ty.randn(5, 7):requires_grad_(k % 2 == 0) end
      local y = world.f(x)
      y:sum():backward()
      return x.grad
    end, 6)
    answered(told, 2)
  end)

  it("is whether a closed-over tensor does", function()
    answered(both(network, function(world, k)
      world.leaves[1]:requires_grad_(k ~= 2)
      world.leaves[1].grad = nil
      world.f(world.x):sum():backward()
    end, 3), 2)
  end)

  it("is whether gradients are on", function()
    answered(both(network, function(world, k)
      local y = k % 2 == 0 and ty.no_grad(world.f, world.x) or world.f(world.x)
      return y.requires_grad
    end, 4), 2)
  end)

  it("is which tensors lead to one leaf", function()
    local function make()
      return { leaves = {}, run = function(a, b) return (a * b):sin() * a end }
    end
    local told = both(make, function(world, k)
      local all, other = leaf(8), leaf(8)
      local a = all:narrow(1, 1, 4)
      local b = k == 2 and all:narrow(1, 1, 4) or k == 4 and a or other:narrow(1, 1, 4)
      world.f(a, b):sum():backward()
      return all.grad, other.grad
    end, 6)
    assert.same({}, told.aborts)
  end)
end)

describe("what a call keeps", function()
  it("is let go of with its result", function()
    local world = network()
    local f = ty.compile(world.run)
    f(world.x)
    collectgarbage()
    collectgarbage()
    local before, bytes = live(), ty.stats().memory.used
    for _ = 1, 3 do f(world.x) end
    local kept = { f(world.x) }
    assert.truthy(kept[1].requires_grad and live() > before)
    kept[1] = nil
    collectgarbage()
    collectgarbage()
    assert.equal(before, live())
    assert.equal(bytes, ty.stats().memory.used)
  end)

  it("is let go of by a backward pass", function()
    local world = network()
    local f = ty.compile(world.run)
    f(world.x):sum():backward()
    collectgarbage()
    collectgarbage()
    local before = live()
    local y = f(world.x)
    y:sum():backward()
    collectgarbage()
    collectgarbage()
    assert.equal(before + 1, live()) -- of y, which says so
  end)
end)

describe("a function whose results lead to", function()
  local function runs_as_it_is(make, reason)
    local told = both(make, function(world, k)
      local y = world.f(ty.full({ 4 }, k))
      y:sum():backward()
    end)
    assert.truthy(told.aborts[1] and told.aborts[1].text:find(reason, 1, true), told.aborts[1] and told.aborts[1].text)
  end

  it("a leaf that it makes runs as it is", function()
    runs_as_it_is(function()
      local w = leaf(4)
      return { leaves = { w }, run = function(x) return ty.ones(4):requires_grad_() * x * w end }
    end, "it leads to a leaf that was made inside (detach it)")
  end)
end)

describe("a compiled forward pass with windows", function()
  --- Convolutions of each kind and pools of each kind, whose gradients are functions of the library.
  local function windows()
    local a, b, w, v, u, o = leaf(4, 1, 3, 3), leaf(4), leaf(6, 2, 3, 3), leaf(6, 3, 2, 2), leaf(8, 3, 5), leaf(27, 2)
    return { leaves = { a, b, w, v, u, o }, x = ty.randn(2, 1, 11, 11), run = function(x)
      local h = ty.conv2d(x, a, b, { padding = 1 }):relu()
      h = ty.max_pool2d(h, 2)
      h = ty.conv2d(h, w, { groups = 2, stride = { 1, 2 }, padding = "valid" }):tanh()
      h = ty.conv_transpose2d(h, v, { stride = 2 })
      h = ty.avg_pool2d(h, { 1, 2 }, { stride = 1 })
      return ty.conv1d(h:flatten(3), u, { dilation = 2 }):flatten(2):narrow(2, 1, 27):matmul(o)
    end }
  end

  it("runs no Lua, and neither does its backward pass record", function()
    answered(both(windows, function(world)
      local y = world.f(world.x)
      y:square():mean():backward()
      return y:detach()
    end))
    local world = windows()
    local f, g = ty.compile(world.run), ty.ones(2, 2)
    f(world.x):backward(g)
    local y = f(world.x)
    local before = ty.stats().operations
    y:backward(g)
    assert.equal(#world.leaves, ty.stats().operations - before) -- added to the leaves' gradients
  end)

  it("passes gradients on to its input, again where the way is kept, and twice", function()
    answered(both(windows, function(world)
      local x = leaf(2, 1, 11, 11)
      local y = world.f(x)
      local told = { y:sum():detach() }
      y:backward(ty.ones(2, 2), { retain_graph = true })
      told[2] = x.grad:clone()
      y:square():sum():backward()
      told[3] = x.grad:clone()
      local z = world.f(x)
      local dx = ty.grad(function(v) return world.f(v):square():sum() end)(x)
      z:sin():sum():backward(nil, { create_graph = true })
      x.grad:square():sum():backward()
      told[4], told[5] = x.grad, dx
      return unpack(told)
    end), 2) -- inside of ty.grad
  end)

  it("does not mind writes behind it to what it was given", function()
    answered(both(windows, function(world)
      local x = ty.randn(2, 1, 11, 11)
      local y = world.f(x)
      x:zero_()
      ty.no_grad(function() world.leaves[1]:mul_(2) end)
      y:square():sum():backward()
    end))
  end)

  it("does not mind writes to what it gave", function()
    local function pool()
      local w = leaf(2, 2, 3)
      return { leaves = { w }, x = ty.randn(2, 2, 12), run = function(x)
        local h = ty.conv1d(x, w)
        return ty.max_pool1d(h, 2), h
      end }
    end
    answered(both(pool, function(world)
      local y, h = world.f(world.x)
      local first, second = y * 1.5, h * 2.5
      ty.no_grad(function() y:add_(1) h:mul_(0) end)
      local sum = first:sum() + second:sum()
      sum:backward()
    end))
  end)

  it("is let go of by a backward pass", function()
    local world = windows()
    local f = ty.compile(world.run)
    for _ = 1, 3 do f(world.x):sum():backward() end
    collectgarbage() collectgarbage()
    local before = live()
    f(world.x):sum():backward()
    collectgarbage() collectgarbage()
    assert.equal(before, live())
    local y = f(world.x):sum()
    y:backward()
    assert.has_error(function() y:backward() end)
  end)

  it("runs in half precision as eagerly", function()
    answered(both(windows, function(world)
      local y = ty.autocast("bf16", world.f, world.x)
      y:square():mean():backward()
      return y:detach()
    end))
  end)

  it("raises where memory is short, in it or behind it, or gives the right gradients; and the next call does", function()
    local function step(world, f)
      local x = leaf(2, 2, 7)
      for _, p in ipairs(world.leaves) do p.grad = nil end
      f(x):square():sum():backward()
      local told = { bits(x.grad) }
      for i, p in ipairs(world.leaves) do told[i + 1] = bits(p.grad) end
      return table.concat(told, "\n")
    end
    local function fresh(warm)
      ty.manual_seed(3)
      local u, v = leaf(2, 2, 3), leaf(3, 2, 2)
      local world = { leaves = { u, v } }
      function world.run(x) return ty.max_pool1d(ty.conv1d(ty.conv1d(x, u), v):relu(), 2) end
      world.f = ty.compile(world.run)
      if warm then world.f(leaf(2, 2, 7)):sum():backward() end
      ty.manual_seed(4)
      return world
    end
    local world = fresh(false)
    local want = step(world, world.run)
    for _, warm in ipairs { true, false } do
      world = fresh(warm)
      H.probe.fail(-1)
      step(world, world.f)
      local raised, asked = 0, H.probe.fail(-1)
      assert.is_true(asked > 20, asked)
      for after = 0, asked do
        world = fresh(warm)
        H.probe.fail(after, 1)
        local fine, told = pcall(step, world, world.f)
        H.probe.fail(-1)
        if fine then assert.equal(want, told, after)
        else
          raised = raised + 1
          assert.truthy(told:find("out of memory", 1, true), told)
        end
        ty.manual_seed(4)
        assert.equal(want, step(world, world.f), after)
      end
      assert.is_true(raised < asked, raised)
    end
  end)
end)
