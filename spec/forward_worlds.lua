-- Worlds of fresh tensors, in which a function runs as it is and compiled: what specs of compiled forward passes compare with.

local H = require "spec.helper"
local ty, assert = H.ty, require "luassert"

local M = { live = ty.internals.grad.live }

local function bits(t)
  if not t then return "nil" end
  t = t:detach()
  return ("%s[%s] "):format(t.dtype, table.concat(t.shape, ","))
    .. H.ffi.string(H.bytes(t), t:numel() * H.dtype[t.dtype].bytes):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
end
M.bits = bits

--- What way(f, x, w ...) gives, with f as it is and compiled; a world of fresh tensors for each, of the same values.
function M.both(make, way, calls)
  local told, compiled = {}, nil
  for i = 1, 2 do
    ty.manual_seed(5)
    local world = make()
    world.f = i == 1 and world.run or ty.compile(world.run)
    if i == 2 then compiled = world.f end
    told[i] = {}
    for k = 1, calls or 3 do
      for n, v in ipairs { way(world, k) } do
        told[i][#told[i] + 1] = ("call %d, %d: "):format(k, n) .. (ty.is_tensor(v) and bits(v) or tostring(v):gsub("^.-:%d+: ", ""))
      end
      for n, p in ipairs(world.leaves) do
        told[i][#told[i] + 1] = ("call %d, gradient %d: "):format(k, n) .. bits(p.grad)
      end
      told[i][#told[i] + 1] = ("call %d, random numbers: "):format(k) .. bits(ty.rand(2))
    end
  end
  assert.same(told[1], told[2])
  return ty.explain(compiled)
end

--- All calls but those that capture were answered without Lua.
function M.answered(told, captures)
  assert.same({}, told.aborts)
  assert.equal(captures or 1, told.captures)
  assert.equal(told.calls, told.skips)
end

--- Ranges, backward plans for them, instances.
function M.ranged(told)
  local ranges, plans, instances = 0, 0, 0
  for _, t in ipairs(told.traces) do
    ranges, instances = ranges + t.ranges, instances + t.instances
    for _, p in ipairs(t.backward or {}) do plans = plans + (p.range and p.steps > 0 and 1 or 0) end
  end
  return ranges, plans, instances
end

--- That calls are served by ranges. plans: for so many backward passes, 1; most: sizes of their own, 16.
function M.served(told, plans, most)
  local ranges, have, instances = M.ranged(told)
  assert.same({}, told.aborts)
  assert.equal(2, told.captures) -- of one size, of any
  assert.truthy(ranges >= 1, "no range: " .. tostring(told.traces[1].no_range))
  assert.truthy(have >= (plans or 1), have .. " backward plans")
  assert.truthy(instances <= (most or 16), instances .. " instances")
  return told
end

function M.leaf(...) return ty.randn(...):requires_grad_() end

return M
