--- forward_ranges_spec.lua -- compiled forward passes whose sizes change, and whose gradients are asked for outside: a plan for
-- a range of sizes, and one for its backward pass. All values and gradients are those of the plain function to the bit.
-- Random programs: fuzz_forward.lua.

local H = require "spec.helper"
local ty = H.ty
local worlds = require "spec.forward_worlds"
local bits, both, leaf, ranged, served = worlds.bits, worlds.both, worlds.leaf, worlds.ranged, worlds.served
local nn = ty.nn

--- Sizes of the k-th call: on a line first, then in mixed order.
local function size(k) return k < 14 and 18 + k or 12 + k * 7 % 23 end
local CALLS = 26

local function matrix(n, m) return ((ty.arange(n * m) * 0.37):sin() * 2):to("f32"):reshape(n, m) end

local function mlp()
  local w, b, u = leaf(6, 8), leaf(8), leaf(8, 3)
  return { leaves = { w, b, u }, run = function(x)
    local h = (x:matmul(w) + b):gelu()
    return h:matmul(u) / #x, h:softmax():mean(1)
  end }
end

--- One step of training with the loss outside.
local function step(world, k)
  local y, m = world.f(matrix(size(k), 6))
  local loss = y:square():sum() + m:sum()
  loss:backward()
  return loss:detach(), y:detach(), m:detach()
end

describe("a compiled forward pass for a range of sizes", function()
  before_each(function() collectgarbage() collectgarbage() end) -- whether there are leaves with hooks is a part of keys

  it("has a backward pass for the range", function()
    local told = served(both(mlp, step, CALLS))
    assert.truthy(told:full():find("backward plan %d, for a range of sizes: %d+ operations"), told:full())
  end)

  it("has one for each set of results that are used", function()
    served(both(mlp, function(world, k)
      local y, m = world.f(matrix(size(k), 6))
      if k % 2 == 0 then y:sum():backward() else m:square():sum():backward() end
    end, 2 * CALLS), 2)
  end)

  it("serves networks with dropout, norms and attention", function()
    local function network()
      local norm, up, down = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
      local leaves = {}
      for _, m in ipairs { norm, up, down } do
        for _, p in ipairs(m:parameters()) do leaves[#leaves + 1] = p end
      end
      return { leaves = leaves, run = function(x)
        local n = #x
        local h = up(norm(x)):reshape(n, 3, 8)
        local q, k, v = h[{ {}, 1 }], h[{ {}, 2 }], h[{ {}, 3 }]
        local told = ty.scaled_dot_product_attention(q:unsqueeze(1), k:unsqueeze(1), v:unsqueeze(1), { causal = true })[1]
        local weights = (q:matmul(k:t()) / math.sqrt(n)):softmax()
        return x + down(told + weights:matmul(v)):gelu():dropout(0.25)
      end }
    end
    served(both(network, function(world, k)
      local y = world.f(matrix(size(k), 8))
      y:square():mean():backward()
      return y:detach()
    end, CALLS))
  end)

  for _, kind in ipairs { "a leaf", "no leaf", "a part of one" } do
    it("gives the gradient of an argument that is " .. kind, function()
      served(both(mlp, function(world, k)
        local n = size(k)
        local x = matrix(kind == "a part of one" and n + 2 or n, 6):requires_grad_()
        local given = kind == "a leaf" and x or kind == "no leaf" and x * 1.5 or x[{ { 2, n + 1 } }]
        local y, m = world.f(given)
        if k % 3 > 0 then y = y:sum() + (given * given):sum() end
        (y:sum() + m:sum()):backward()
        return x.grad
      end, 2 * CALLS))
    end)
  end

  it("leaves calls of other sizes theirs, in whatever order they are gone back through", function()
    served(both(mlp, function(world, k)
      local losses, told = {}, {}
      for i = 0, 2 do
        local y, m = world.f(matrix(size(k + 3 * i), 6))
        losses[i + 1] = y:square():sum() * (i + 1) + m:sum()
      end
      local order = ({ { 1, 2, 3 }, { 3, 1, 2 }, { 2, 3, 1 } })[k % 3 + 1]
      for _, i in ipairs(order) do
        losses[i]:backward()
        told[#told + 1] = losses[i]:detach()
      end
      return unpack(told)
    end, CALLS))
  end)

  it("is gone back through twice, once it is kept", function()
    served(both(mlp, function(world, k)
      local y, m = world.f(matrix(size(k), 6))
      local loss = y:square():sum() + m:sum()
      loss:backward(nil, { retain_graph = true })
      world.f(matrix(size(k + 4), 6))
      loss:backward()
      return (pcall(loss.backward, loss))
    end, CALLS))
  end)

  it("has gradients of gradients, of each call's own sizes", function()
    served(both(mlp, function(world, k)
      local y, m = world.f(matrix(size(k), 6))
      local other = world.f(matrix(size(k + 5), 6))
      if k < 12 or k % 2 == 0 then
        (y:sum() + m:square():sum()):backward()
      else
        (y:square():sum() + m:square():sum()):backward(nil, { create_graph = true })
        local sum = other:square():sum()
        for _, p in ipairs(world.leaves) do
          sum = sum + p.grad:square():sum()
          p.grad = nil
        end
        sum:backward()
      end
      local told = {}
      for i, p in ipairs(world.leaves) do told[i], p.grad = p.grad:detach(), nil end
      return unpack(told)
    end, 2 * CALLS))
  end)

  it("may have rules inside, which know each call's sizes", function()
    served(both(function()
      local w, v = leaf(6, 6), leaf(6)
      local own = ty.custom_grad(function(t, n) return t * n, { n = n, t = t, rows = #t } end, function(s, g)
        return g * s.n + s.t * s.rows
      end)
      return { leaves = { w, v }, run = function(x)
        local y = own((x * v):tanh(), 1 / #x)
        local z = ty.checkpoint(function(t, n) return (t / n):softmax() * math.sqrt(n) end, y:matmul(w), #x)
        return z + y:mean(1), y * #x
      end }
    end, function(world, k)
      local y, z = world.f(matrix(size(k), 6))
      local other = world.f(matrix(size(k + 4), 6))
      y:square():sum():backward(nil, { retain_graph = true })
      other:sum():backward();
      (y:sum() + z:sum()):backward()
      return y:detach(), z:detach()
    end, 2 * CALLS), 2)
  end)

  it("is expanded for each call's own sizes", function()
    served(both(function()
      local w, u = leaf(6, 8), leaf(8, 3)
      return { leaves = { w, u }, run = function(x) return x:matmul(w):matmul(u) end }
    end, function(world, k)
      local y = world.f(matrix(size(k), 6))
      world.f(matrix(size(k + 5), 6)):sum():backward()
      if k > 16 then y:register_hook(function(g) return g * 3 end) end
      y:square():sum():backward()
    end, CALLS))
  end)

  it("tells hooks of its results and leaves", function()
    served(both(mlp, function(world, k)
      local told = {}
      local y, m = world.f(matrix(size(k), 6))
      if k > 18 then
        local other = world.f(matrix(size(k + 2), 6))
        y:register_hook(function(g)
          told[#told + 1] = g:clone()
          return g * 0.5
        end)
        other:sum():backward()
      end
      if k == 20 then world.leaves[2]:register_hook(function(g) told[#told + 1] = g:clone() end) end
      (y:square():sum() + m:sum()):backward()
      return unpack(told)
    end, CALLS))
  end)

  it("raises where what it keeps was changed, as the plain function does", function()
    served(both(function()
      local w = leaf(6, 8)
      return { leaves = { w }, run = function(x) return x:matmul(w):exp() end }
    end, function(world, k)
      local x = matrix(size(k), 6)
      local y = world.f(x)
      local other = world.f(matrix(size(k + 3), 6))
      if k % 4 == 3 then ty.no_grad(function() y:mul_(2) end) end
      if k % 5 == 4 then x:mul_(2) end
      local ok, why = pcall(function() y:sum():backward() end)
      other:sum():backward()
      return ok, (tostring(why):gsub("^.-:%d+: ", ""))
    end, CALLS))
  end)

  it("may be gone back through when the function has forgotten it", function()
    local world = mlp()
    local f = ty.compile(world.run)
    local function gradients(run, n, between)
      for _, p in ipairs(world.leaves) do p.grad = nil end
      local y, m = run(matrix(n, 6))
      local loss = y:square():sum() + m:sum()
      if between then between() end
      loss:backward()
      local told = {}
      for i, p in ipairs(world.leaves) do told[i] = bits(p.grad) end
      return table.concat(told)
    end
    for k = 1, 20 do gradients(f, 18 + k % 12) end
    assert.truthy(ranged(ty.explain(f)) >= 1)
    for _, n in ipairs { 13, 33, 22 } do
      assert.equal(gradients(world.run, n), gradients(f, n, function() f(matrix(n + 2, 6)) end))
    end
    local want = gradients(world.run, 19)
    assert.equal(want, gradients(f, 19, function()
      for k = 1, 40 do f(matrix(60 + k, 6)) end -- other ranges come
    end))
    assert.equal(want, gradients(f, 19, function()
      f(matrix(20, 6))
      jit.reset(f)
      collectgarbage()
    end))
  end)

  it("is for fewer sizes where the backward pass of others is another one", function()
    local told = both(function()
      local w = leaf(3, 4)
      return { leaves = { w }, run = function(x) return (x:unsqueeze(2) * w[1]):cumprod(1) end }
    end, function(world, k)
      local x = matrix(size(k), 4):requires_grad_()
      world.f(x):sum():backward()
      return x.grad
    end, 3 * CALLS)
    local ranges, plans = ranged(told)
    assert.equal(ranges, plans) -- a narrower one, or none
  end)

  it("may decide otherwise at one of its sizes", function()
    both(function()
      local w = leaf(6, 20)
      return { leaves = { w }, run = function(x)
        local y = x:matmul(w)
        if #x == 20 then return y * 2 end
        return #x % 2 == 0 and y.shape[1] == 24 and y:sum(1) or y:t():reshape(#x, -1)
      end }
    end, function(world, k)
      local y = world.f(matrix(size(k), 6))
      y:square():sum():backward()
      return y:detach()
    end, 2 * CALLS)
  end)

  it("raises where memory is short, or gives the right gradients; and so does the next call", function()
    local world = mlp()
    local function told(run, n)
      for _, p in ipairs(world.leaves) do p.grad = nil end
      local y, m = run(matrix(n, 6))
      local loss = y:square():sum() + m:sum()
      run(matrix(n + 1, 6))
      loss:backward()
      local list = {}
      for i, p in ipairs(world.leaves) do list[i] = bits(p.grad) end
      return table.concat(list)
    end
    local want = {}
    for n = 15, 35 do want[n] = told(world.run, n) end
    local function warm(calls)
      local f = ty.compile(function(...) return world.run(...) end)
      for k = 1, calls do told(f, 18 + k % 12) end
      return f
    end
    for _, calls in ipairs { 3, 7, 9, 13, 20 } do -- before the range, in its making, of its backward pass, behind it
      local f = warm(calls)
      H.probe.fail(-1)
      told(f, 26)
      local asked = H.probe.fail(-1)
      for after = 0, asked, calls == 20 and 1 or 7 do
        if calls < 20 then f = warm(calls) end
        local n = 15 + after % 20
        H.probe.fail(after, 1)
        local fine, what = pcall(told, f, n)
        H.probe.fail(-1)
        if fine then assert.equal(want[n], what, calls .. " " .. after)
        else assert.truthy(what:find("out of memory", 1, true), what) end
        assert.equal(want[n], told(f, n), calls .. " " .. after)
      end
    end
  end)
end)
