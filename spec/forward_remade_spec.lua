--- forward_remade_spec.lua -- values that a compiled forward pass does not keep for its backward pass: they are computed
--- again, in the plan for that or before its operations are gone back through, to the bits that eager code kept.

local H = require "spec.helper"
local ty = H.ty
local worlds = require "spec.forward_worlds"
local both, answered, leaf = worlds.both, worlds.answered, worlds.leaf

--- How many values of each kind a call of f keeps.
local function count(told)
  local n = { result = 0, again = 0, input = 0 }
  for _, v in ipairs(told.traces[1].kept) do n[v.what] = (n[v.what] or 0) + 1 end
  return n
end

--- exp's operand follows from x, which the second result keeps, and from v.
local function sums()
  local v, w = leaf(4), leaf(4)
  return { leaves = { v, w }, run = function(x) return (x * 2 + v):exp(), x * w end }
end

local function dropping()
  local w = leaf(6, 6)
  return { leaves = { w }, x = ty.randn(3, 6), run = function(x)
    return (x:matmul(w):dropout(0.5):sin() * ty.rand(3, 6):exp() * 2):tanh()
  end }
end

describe("a value that is computed again", function()
  it("is one that follows element by element from what is kept", function()
    local told = both(sums, function(world, k)
      local y, z = world.f(ty.full({ 4 }, 0.2 * k))
      local sum = y:sum() + z:sum()
      sum:backward()
    end)
    answered(told)
    local n = count(told)
    assert.same({ 0, 1 }, { n.result, n.again })
  end)

  it("follows from no product, reduction or attention", function()
    local told = both(function()
      local w, q = leaf(4, 4), leaf(2, 3, 4)
      return { leaves = { w, q }, x = ty.randn(3, 4), run = function(x)
        local h = x:matmul(w)
        local s = h:sum(1)
        return h:exp() * s, ty.scaled_dot_product_attention(q, q, q):sin(), s:sin()
      end }
    end, function(world)
      local a, b, c = world.f(world.x)
      local sum = a:sum() + b:sum() + c:sum()
      sum:backward()
    end)
    answered(told)
    assert.truthy(count(told).result >= 3) -- the product, its sum, the attention
  end)

  it("is none that costs more to compute than to keep: windows of a pooling, a gelu that a product reads", function()
    local function values_of(make, x)
      local told = both(make, function(world)
        world.f(x):sum():backward()
        return world.leaves[1].grad
      end)
      answered(told)
      local what = {}
      for _, v in ipairs(told.traces[1].kept) do what[v.type .. v.by] = v.what end
      return what
    end
    local pooled = values_of(function()
      local w, v = leaf(4, 1, 3, 3), leaf(2, 4, 3, 3)
      return { leaves = { w, v }, run = function(x)
        return (ty.conv2d(ty.max_pool2d(ty.conv2d(x, w, { padding = 1 }):relu(), 2), v))
      end }
    end, ty.randn(2, 1, 12, 12))
    assert.same({ "again", "result" }, { pooled["f32[2,4,12,12]"], pooled["f32[2,4,6,6]"] })
    for activation, what in pairs { relu = "again", gelu = "result" } do
      local values = values_of(function()
        local w, v = leaf(4, 8), leaf(8, 2)
        return { leaves = { w, v }, run = function(x) return x:matmul(w)[activation](x:matmul(w)):matmul(v) end }
      end, ty.randn(3, 4))
      assert.equal(what, values["f32[3,8]matmul"])
    end
  end)

  it("has the random numbers of its call", function()
    for _, create in ipairs { false, true } do -- by a plan; by the operations
      local told = both(dropping, function(world)
        local a, b = world.f(world.x), world.f(world.x)
        ty.rand(5)
        b:sum():backward(nil, { create_graph = create })
        a:sum():backward(nil, { create_graph = create })
        local g = world.leaves[1].grad
        world.leaves[1].grad = nil
        if create then g:square():sum():backward() end
        return g
      end)
      answered(told)
      assert.truthy(count(told).again > 0)
    end
  end)

  it("has the numbers of its call", function()
    for _, create in ipairs { false, true } do
      answered(both(function()
        local w = leaf(4)
        return { leaves = { w }, run = function(k) return (w * k + k):exp() * 2, w:sin() end }
      end, function(world, k)
        local a, b = world.f(k + 0.5), world.f(2 * k)
        a:sum():backward(nil, { create_graph = create })
        b:sum():backward(nil, { create_graph = create })
        local g = world.leaves[1].grad
        world.leaves[1].grad = nil
        return g
      end))
    end
  end)

  it("follows from what an input was, whatever is written to it", function()
    for _, create in ipairs { false, true } do
      answered(both(sums, function(world, k)
        local x = ty.full({ 4 }, 0.2 * k)
        local y = world.f(x)
        x:zero_()
        y:sum():backward(nil, { create_graph = create })
        local g = world.leaves[1].grad
        world.leaves[1].grad = nil
        return g
      end))
    end
  end)

  it("is there where the result is written over what the call was given", function()
    local function masked()
      local w = leaf(6)
      return { leaves = { w }, run = function(x) return ty.where((w * 2):gt(0.5), w:sin() * 3, w:exp()) * x end }
    end
    both(masked, function(world, k)
      local x = ty.full({ 6 }, 0.2 * k)
      x:copy_(world.f(x))
      x:sum():backward()
    end)
  end)

  it("is there when others that read the same were let go of", function()
    answered(both(sums, function(world, k)
      local y, z = world.f(ty.full({ 4 }, 0.2 * k))
      z:sum():backward()
      y:sum():backward()
      return pcall(function() z:sum():backward() end)
    end))
  end)

  it("takes no memory until then", function()
    local w = leaf(64, 64)
    local f = ty.compile(function(x) return (((x:matmul(w) * 2):sin() + 1):exp() * 3):tanh() end)
    local x = ty.randn(64, 64)
    for _ = 1, 3 do f(x) end
    collectgarbage() collectgarbage()
    local before = ty.stats().memory.used
    local y = f(x)
    assert.equal(2 * 64 * 64 * 4, ty.stats().memory.used - before) -- y, and the product or what sin was given
    assert.truthy(y.requires_grad)
  end)

  it("leaves f32's gradients as they are under each precision, compiled or not", function()
    local was = ty.precision()
    local function gradient(precision, compiled)
      ty.manual_seed(1)
      local w, x = leaf(8, 8), ty.randn(7, 8)
      local function pass(v) return ty.gelu(v:matmul(w)):tanh() end
      local f = compiled and ty.compile(pass) or pass
      ty.precision(precision)
      for _ = 1, 3 do
        w.grad = nil
        f(f(x)):sum():backward()
      end
      ty.precision(was)
      return w.grad
    end
    local want = gradient("exact", false)
    for _, precision in ipairs { "exact", "fast", "tf32" } do
      H.same(want, gradient(precision, false), precision)
      H.same(want, gradient(precision, true), precision .. ", compiled")
    end
  end)
end)
