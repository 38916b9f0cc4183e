--- forward_windows_spec.lua -- compiled forward passes over windows and loops whose sizes change, and whose gradients are asked
-- for outside: convolutions, pools and scans have ranges of sizes as products have (forward_ranges_spec.lua). All values and
-- gradients are those of the plain function to the bit.

local H = require "spec.helper"
local ty = H.ty
local worlds = require "spec.forward_worlds"
local both, leaf, served, ranged = worlds.both, worlds.leaf, worlds.served, worlds.ranged
local nn = ty.nn

--- Sizes of the k-th call: on a line first, then in mixed order.
local function size(k) return k < 14 and 18 + k or 12 + k * 7 % 23 end
local CALLS = 26

local function wave(...)
  local n = 1
  for i = 1, select("#", ...) do n = n * select(i, ...) end
  return ((ty.arange(n) * 0.37):sin() * 2):to("f32"):reshape(...)
end

--- A world of modules and a function of them.
local function network(modules, run)
  local leaves = {}
  for _, m in pairs(modules) do
    for _, p in ipairs(m:parameters()) do leaves[#leaves + 1] = p end
  end
  return { leaves = leaves, run = run }
end

--- A step of training on input(size): its result, and what else the function gives.
local function step(input)
  return function(world, k)
    local y, other = world.f(input(size(k)))
    local loss = y:square():sum()
    if other then loss = loss + other:sum() end
    loss:backward()
    return y:detach(), other and other:detach()
  end
end

local function batches(n) return wave(n, 2, 8, 8) end
local function images(n) return wave(2, 2, 2 * n, 2 * n) end

local function cnn()
  local m = { a = nn.Conv2d(2, 4, 3, { padding = 1 }), norm = nn.BatchNorm2d(4), b = nn.Conv2d(4, 6, 3, { stride = 2, padding = 1 }),
    out = nn.Linear(6, 3) }
  return network(m, function(x)
    local h = ty.max_pool2d(m.norm(m.a(x)):relu(), 2)
    h = ty.adaptive_avg_pool2d(m.b(h):relu(), 1)
    return m.out(h:reshape(#x, 6)), m.norm.running_var * 1
  end)
end

describe("a compiled forward pass over windows", function()
  before_each(function() collectgarbage() collectgarbage() end) -- whether there are leaves with hooks is a part of keys

  it("has one range and one backward pass for all batches", function() served(both(cnn, step(batches), CALLS)) end)

  it("has them for images of all sizes", function()
    served(both(cnn, step(function(n) return wave(2, 2, 4 * n, 4 * n) end), 2 * CALLS), 1, 24)
  end)

  local function over(fn)
    return function()
      local w = leaf(2, 1, 1)
      return { leaves = { w }, run = function(x) return fn(x * w) end }
    end
  end

  for name, fn in pairs {
    ["max_pool2d"] = function(x) return ty.max_pool2d(x, 2) end,
    ["max_pool2d of windows that overlap, padded"] = function(x) return ty.max_pool2d(x, 3, { stride = 2, padding = 1 }) end,
    ["max_pool2d of dilated windows"] = function(x) return ty.max_pool2d(x, 2, { stride = 4, dilation = 2, padding = 1 }) end,
    ["avg_pool2d"] = function(x) return ty.avg_pool2d(x, 2) end,
    ["avg_pool2d that leaves a rest"] = function(x) return ty.avg_pool2d(x, 2, { stride = 4 }) end,
    ["avg_pool2d that counts no padding"] = function(x)
      return ty.avg_pool2d(x, 3, { stride = 1, padding = 1, count_include_pad = false })
    end,
  } do
    it("has them for " .. name .. " of batches and of images", function()
      served(both(over(fn), step(batches), CALLS))
      served(both(over(fn), step(images), 2 * CALLS), 1, 24)
    end)
  end

  it("has them for transposed and dilated convolutions in groups", function()
    served(both(function()
      local w, u = leaf(4, 3, 3, 3), leaf(6, 3, 3, 3)
      return { leaves = { w, u }, run = function(x)
        local h = ty.conv_transpose2d(ty.cat({ x, x * 2 }, 2), w, { stride = 2, padding = 1, groups = 2 }):tanh()
        return ty.conv2d(h, u, { padding = 2, dilation = 2, groups = 2 })
      end }
    end, step(function(n) return wave(n, 2, 5, 6) end), CALLS))
  end)

  it("has gradients of gradients, of each call's own sizes", function()
    served(both(function()
      local w = leaf(3, 2, 3, 3)
      return { leaves = { w }, run = function(x) return ty.max_pool2d(ty.conv2d(x, w, { padding = 1 }):tanh(), 2) end }
    end, function(world, k)
      local w = world.leaves[1]
      local y = world.f(batches(size(k)))
      local other = world.f(batches(size(k + 5)))
      if k < 14 then return y:sum():backward() end
      y:square():sum():backward(nil, { create_graph = true })
      local sum = w.grad:square():sum() + other:sum()
      w.grad = nil
      sum:backward()
      local g = w.grad:detach()
      w.grad = nil
      return g
    end, CALLS))
  end)

  it("is used in part, twice, behind writes, in a checkpoint and without gradients as the plain function is", function()
    local told = both(function()
      local w = leaf(3, 2, 3, 3)
      return { leaves = { w }, run = function(x)
        local h = ty.conv2d(x, w, { padding = 1 })
        return ty.max_pool2d(h, 3, { stride = 2, padding = 1 }), ty.avg_pool2d(h:tanh(), 2)
      end }
    end, function(world, k)
      local out, way = {}, k < 14 and 0 or k % 6
      local x = batches(size(k)):requires_grad_()
      if way == 5 then return (ty.no_grad(world.f, x)) end
      local run = way == 4 and function(...) return ty.checkpoint(world.f, ...) end or world.f
      local y, z = run(x)
      run(batches(size(k + 3)))
      if way == 1 then ty.no_grad(function() z:mul_(2) end) end
      if way == 2 then ty.no_grad(function() x:mul_(2) end) end
      local loss = way == 3 and z:square():sum() or y:square():sum() + z:sum()
      for i = 1, 2 do
        out[2 * i - 1], out[2 * i] = pcall(loss.backward, loss, nil, { retain_graph = i == 1 and k % 2 == 0 })
        out[2 * i] = tostring(out[2 * i]):gsub("^.-:%d+: ", "")
      end
      out[5], out[6] = y:detach(), x.grad
      return unpack(out)
    end, 3 * CALLS)
    assert.truthy(ranged(told) >= 1, tostring(told.traces[1].no_range))
  end)

  it("follows what is counted in two dims, and what is decided by that", function()
    local told = both(function()
      local w = leaf(2, 1, 1)
      return { leaves = { w }, run = function(x)
        local places = x:size(3) * x:size(4)
        local y = ty.conv2d(x * w, ty.ones(1, 2, 2, 2), nil, { stride = 2 }) / places
        if places > 48 * (x:size(3) + x:size(4)) - 48 * 48 then y = y * 2 end -- not where both are 48
        return y * (1 / places) + places
      end }
    end, step(images), 2 * CALLS)
    assert.truthy(ranged(told) >= 1, tostring(told.traces[1].no_range))
  end)

  it("is none where a rule knows sizes that its results do not tell", function()
    local told = both(function()
      local w = leaf(2, 1, 64)
      return { leaves = { w }, run = function(x) return ty.conv1d(x, w:narrow(3, 1, x:size(3) - 40)) end }
    end, step(function(n) return wave(2, 1, 40 + n) end), CALLS)
    assert.equal(0, (ranged(told)))
    assert.equal("what a gradient knows follows from sizes", told.traces[1].no_range)
  end)
end)

describe("a compiled forward pass with a scan", function()
  before_each(function() collectgarbage() collectgarbage() end)

  local function scanned(opts)
    return function()
      local w, u = leaf(16, 16), leaf(16, 16)
      return { leaves = { w, u }, run = function(x)
        local scale = (w * 0.1):tanh()
        local last, all = ty.scan(function(h, row)
          h = (h:matmul(scale) + row:matmul(u) * 0.1):tanh()
          return h, h * row
        end, x[1] * 0, x, opts)
        return all, last
      end }
    end
  end

  local function rows(n) return wave(n, 2, 16) end

  it("has one range for all lengths", function() served(both(scanned(), step(rows), CALLS), 0) end)
  it("has one from the last row to the first", function() served(both(scanned { reverse = true }, step(rows), CALLS), 0) end)

  it("gives the gradient of the sequence and of what is carried first", function()
    served(both(function()
      local u = leaf(16, 16)
      return { leaves = { u }, run = function(x, h)
        return ty.scan(function(c, row)
          c = (c + row:matmul(u)):tanh()
          return c, c
        end, h, x)
      end }
    end, function(world, k)
      local x, h = rows(size(k)):requires_grad_(), wave(2, 16):requires_grad_()
      local last, all = world.f(x, h)
      if k % 3 > 0 then last = last:sum() + all:square():sum() end
      last:sum():backward()
      return x.grad, h.grad
    end, 2 * CALLS), 0)
  end)

  it("goes back through a length that it has not seen without a plan for it", function()
    local world = scanned()()
    local f = ty.compile(world.run)
    local function told(run, n)
      for _, p in ipairs(world.leaves) do p.grad = nil end
      local x, ones = rows(n), ty.ones(n, 2, 16)
      local before = ty.stats().plans.misses
      local all = run(x)
      all:backward(ones)
      local made = ty.stats().plans.misses - before
      return worlds.bits(world.leaves[1].grad) .. worlds.bits(world.leaves[2].grad), made
    end
    for n = 20, 40 do told(f, n) end
    for _, n in ipairs { 15, 17, 13 } do
      local got, made = told(f, n)
      assert.equal(0, made)
      assert.equal(told(world.run, n), got)
    end
  end)
end)
