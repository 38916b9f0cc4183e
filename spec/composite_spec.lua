--- composite_spec.lua -- functions of several operations run as one plan in eager mode, where tensors are large.

local H = require "spec.helper"
local ty = H.ty
local rows = ty.internals.composites

local x = (ty.arange(16384):reshape(128, 128) * 0.37):sin() * 3
local p = x:abs() / 4

-- Arguments behind the first one, by name.
local others = {
  clamp = { -1, 1 }, leaky_relu = { 0.1 }, lerp = { p, 0.3 }, hypot = { p }, logaddexp = { p }, logical_and = { p }, logical_or = { p },
  logical_xor = { p }, masked_fill = { x:gt(0), 7 }, isclose = { p }, addmm = { x, x }, mse_loss = { p }, l1_loss = { p },
  smooth_l1_loss = { p }, huber_loss = { p }, bce_with_logits = { p }, kl_div = { p }, index_add = { 1, ty.arange(128):to "i64" + 1, p },
  cross_entropy = { (ty.arange(128) % 128):to "i64" + 1 }, nll_loss = { (ty.arange(128) % 128):to "i64" + 1 }, tensordot = { x, 1 },
}

-- Of other first arguments, or made of random numbers: elsewhere.
local elsewhere = {}
for name in ("dropout einsum meshgrid tri one_hot conv1d conv2d conv3d conv_transpose1d conv_transpose2d interpolate avg_pool1d " ..
  "avg_pool2d max_pool1d max_pool2d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d"):gmatch("%S+") do
  elsewhere[name] = true
end

local function bytes(v)
  if ty.is_tensor(v) then return v.dtype .. table.concat(v.shape, ",") .. table.concat(H.list(v), " ") end
  return tostring(v)
end

local function all_bytes(...)
  local list = { ... }
  for i = 1, select("#", ...) do list[i] = bytes(list[i]) end
  return table.concat(list, "; ")
end

describe("a composite of a large tensor", function()
  it("gives the bits of its operations one by one", function()
    local compared = 0
    for _, row in ipairs(rows) do
      if not elsewhere[row.name] and not row.single and row.only ~= "method" then
        local args = others[row.name] or {}
        local ok, want = pcall(function() return all_bytes(row.fn(x, unpack(args))) end)
        if ok then
          compared = compared + 1
          assert.equal(want, all_bytes(ty[row.name](x, unpack(args))), row.name)
        end
      end
    end
    assert.truthy(compared > 45, compared)
  end)

  it("is one plan", function()
    local function cuts(fn)
      local before = ty.stats().cuts
      local y = fn()
      return ty.stats().cuts - before, y
    end
    x:softmax(2)
    assert.equal(1, (cuts(function() return x:softmax(2) end)))
    assert.truthy(cuts(function() return x:narrow(1, 1, 2):softmax(2) end) ~= 1)
  end)

  it("keeps nothing but its result", function()
    local y = ty.full({ 1e6 }, 0.5)
    y:mul_(1)
    collectgarbage()
    collectgarbage "stop"
    local before = ty.stats().memory.used
    local z = y:gelu()
    local one = ty.stats().memory.used - before
    assert.truthy(one < 4.2e6, one)
    y:add_(1) -- in place: nobody else holds what it held
    assert.truthy(ty.stats().memory.used - before < 4.2e6, ty.stats().memory.used - before)
    collectgarbage "restart"
    assert.truthy(math.abs(z[1]:item() - 0.34573) < 1e-5)
  end)

  it("has a gradient", function()
    local w = x:clone():requires_grad_()
    local v = x:narrow(1, 1, 4):clone():requires_grad_()
    local a, b = (w:softmax(2) * w):sum(), (v:softmax(2) * v):sum()
    a:backward()
    b:backward()
    assert.equal(bytes(v.grad), bytes(w.grad:narrow(1, 1, 4)))
  end)

  it("may be written to its argument", function()
    local a, b = x:clone(), x:clone()
    a:softmax_(2)
    assert.equal(bytes(b:softmax(2)), bytes(a))
  end)

  it("raises at the caller's line, and works afterwards", function()
    local ok, e = pcall(function() return x:softmax(3) end)
    assert.equal(false, ok)
    assert.match("^[^:]*composite_spec%.lua:%d+: softmax: ", e)
    assert.equal(bytes(rows and x:softmax(2)), bytes(x:clone():softmax(2)))
  end)

  it("may be called in coroutines, captures and vmaps", function()
    local want = bytes(x:softmax(2))
    local co = coroutine.wrap(function()
      local y = x:softmax(2)
      coroutine.yield(bytes(y))
    end)
    assert.equal(want, co())
    local c = ty.compile(function(a) return a:softmax(2) end)
    for _ = 1, 3 do assert.equal(want, bytes(c(x))) end
    assert.equal(1, ty.explain(c).captures)
    assert.equal(want, bytes(ty.vmap(function(r) return r:softmax(1) end)(x)))
  end)
end)
