--- anomaly_spec.lua -- ty.detect_anomaly names the first operation that makes a NaN or an infinity.

local H = require "spec.helper"
local ty = H.ty
local nn = ty.nn

local Block = nn.class "Block"
function Block:init() self.fc = nn.Linear(3, 3) end
function Block:forward(x)
  local y = self.fc(x) * 0
  y = y:log()
  return y - y
end
local Net = nn.class "Net"
function Net:init() self.blocks = { nn.Linear(3, 3), Block() } end
function Net:forward(x)
  for _, block in ipairs(self.blocks) do x = block(x) end
  return x
end
local LINE = "spec/anomaly_spec.lua:" .. debug.getinfo(Block.forward, "S").linedefined + 2

local function here() return "spec/anomaly_spec.lua:" .. debug.getinfo(2, "l").currentline end
local function says(fn, ...)
  local ok, e = pcall(ty.detect_anomaly, fn, ...)
  assert.is_false(ok)
  return (e:gsub("%./spec", "spec"))
end

describe("ty.detect_anomaly", function()
  it("names operation, module, line and element of the first infinity, of compiled functions too", function()
    local net = Net()
    local want = "blocks.2 (Block), " .. LINE .. ": detect_anomaly: log gives infinity at [1, 1] (f32[2,3])"
    local compiled = jit.compile(net)
    for _ = 1, 3 do compiled(ty.ones(2, 3)) end
    assert.equal(want, says(net, ty.ones(2, 3)))
    assert.equal(want, says(compiled, ty.ones(2, 3)))
    local captured = jit.explain(compiled.forward and compiled).captures
    assert.truthy(compiled(ty.ones(2, 3)):isnan():all():item())
    assert.equal(captured, jit.explain(compiled).captures)
  end)

  it("names the operation whose gradient is the first, and where it was called", function()
    local at
    local function f()
      local x = ty.tensor({ 4, 0 }, { requires_grad = true })
      local y = x * 1
      local a = y * 3; at = here() local z = y:sqrt()
      local b = y + 2
      ;(a + z + b):sum():backward()
    end
    local e = says(f)
    assert.truthy(e:find("detect_anomaly: the gradient of sqrt gives infinity at [2] (f32[2]); it was called at " .. at, 1, true), e)
  end)

  it("lets masks have infinities, and tells of NaN that came from outside", function()
    local mask = ty.tensor { { true, false }, { false, true } }
    assert.equal(1, ty.detect_anomaly(function()
      local x = ty.ones(2, 2):requires_grad_()
      local y = x:masked_fill(mask, -math.huge):softmax()
      y:sum():backward()
      return 1
    end))
    local x = ty.tensor { 1, 0 / 0 }
    assert.truthy(says(function() return x * 2 end):find("mul is given NaN: argument 1 at [2]", 1, true))
    assert.truthy(says(function() return ty.ones(2) * ty.full({ 2 }, math.huge) - math.huge end)
      :find("sub gives NaN at [1] (f32[2])", 1, true))
  end)

  it("leaves all as it was, after errors too, and gives what the function gives", function()
    local methods, meta = {}, {}
    for k, v in pairs(ty.internals.methods) do methods[k] = v end
    for k, v in pairs(ty.internals.metatable) do meta[k] = v end
    local sqrt = ty.sqrt
    local w = ty.ones({ 2 }, { requires_grad = true })
    assert.same({ 1, nil, 3 }, { ty.detect_anomaly(function(...)
      (w * 2):sum():backward()
      return ...
    end, 1, nil, 3) })
    local what = {}
    local ok, e = pcall(ty.detect_anomaly, function() error(what) end)
    assert.is_false(ok)
    assert.is_true(rawequal(e, what))
    assert.is_false(ty.detect_anomaly(true))
    assert.is_false(pcall(function() return ty.zeros(1) / 0 * 0 end))
    assert.is_true(ty.detect_anomaly(false))
    assert.is_false(ty.detect_anomaly(false))
    assert.same(methods, ty.internals.methods)
    for k, v in pairs(meta) do assert.equal(v, ty.internals.metatable[k]) end
    assert.equal(sqrt, ty.sqrt)
    assert.equal("default", ty.stance())
    w.grad = nil
    w:sum():backward() -- no hook is left
    assert.same({ 1, 1 }, w.grad:totable())
  end)

  it("may stand in a compiled function", function()
    local f = jit.compile(function(x)
      local y = ty.detect_anomaly(function(a) return a:log() end, x)
      return y + 1
    end)
    for _ = 1, 3 do
      assert.same({ 1 }, f(ty.ones(1)):totable())
      assert.truthy(tostring(select(2, pcall(f, ty.zeros(1)))):find("log gives infinity at [1]", 1, true))
    end
  end)

  it("refuses what is no function", function()
    local _, e = pcall(ty.detect_anomaly, 3)
    assert.truthy(e:find("detect_anomaly: argument 1 must be a function, true or false, got number 3", 1, true))
  end)
end)
