-- turns_spec.lua -- claims about loops whose turns a trace takes by itself: each gives what plain Lua gives, and sees what
-- plain Lua would see.

local H = require "spec.helper"
local ty = H.ty
local parts = require "tycho.capture.parts"
local probe = ty.internals.probe

local function told(...)
  local list = {}
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    list[i] = ty.is_tensor(v) and H.texts(v) or type(v) == "number" and ("%.17g"):format(v) or tostring(v)
  end
  return table.concat(list, ", ")
end

describe("a loop that a trace takes the turns of", function()
  local few
  setup(function() few, parts.FEW = parts.FEW, 0 end)
  teardown(function() parts.FEW = few end)

  --- The compiled function, calls of which give what f gives, the last ones with at least so many turns.
  local function takes(most, f, ...)
    local compiled = ty.compile(f)
    local turned
    for _ = 1, 8 do
      local want = told(f(...))
      local before = probe.turns()
      assert.equal(want, told(compiled(...)))
      turned = probe.turns() - before
    end
    assert.truthy(turned >= most, ("%d turns, %d wanted\n%s"):format(turned, most, tostring(ty.explain(compiled))))
    return compiled
  end

  local a = ty.arange(1, 33)

  it("reads its condition from what it makes", function()
    takes(3, function(x)
      local y, n = x * 0.5 + 1, 0
      local err = (y * y - x):abs():max()
      while err:item() > 1e-5 do
        y = y - (y * y - x) / (y * 2)
        err, n = (y * y - x):abs():max(), n + 1
      end
      return y, n, err
    end, a)
  end)

  it("hands values on from turn to turn, in other places too", function()
    takes(2, function(x)
      local before, now, n = x, x * 0.5, 0
      while now:max():item() < 1000 do before, now, n = now, now * 1.5 + before, n + 1 end
      return before, now, n
    end, a)
    takes(2, function(x)
      local p, q, r = x, x * 2, x * 3
      while p:max():item() < 1000 do p, q, r = q, r, p + q end
      return p, q, r
    end, a)
    takes(2, function(x)
      local p, q, n = x, x * 2, 10
      while q:max():item() < 1000 do p, q, n = q, q * 1.5, n * 0.5 end
      return p, p, q, n
    end, a)
  end)

  it("reads truth values and numbers of all kinds", function()
    takes(3, function(x)
      local y = x
      while y:lt(200):any():item() do y = y * 1.5 end
      return y
    end, a)
    for _, dtype in ipairs { "f64", "f16", "i32" } do
      takes(2, function(x)
        local y = x
        while y:max():item() < 200 do y = y + x end
        return y
      end, a:to(dtype))
    end
  end)

  it("compares with what is no number", function()
    takes(3, function(x)
      local y, n = x, 0
      while (y * 0):sum():item() == 0 do y, n = y * 1e5, n + 1 end
      return y, n
    end, a)
  end)

  it("draws as many random numbers", function()
    local function f(x)
      local n = 0
      while (ty.rand(8) + x):min():item() > 0.2 do n = n + 1 end
      return n, ty.rand(2)
    end
    local compiled = ty.compile(f)
    local zero = ty.zeros(8)
    for seed = 1, 40 do
      ty.manual_seed(seed)
      local want = told(f(zero))
      ty.manual_seed(seed)
      assert.equal(want, told(compiled(zero)))
    end
  end)

  it("sees a variable that its caller's hook changes", function()
    local limit = 1000
    local function f(x)
      while x:max():item() < limit do x = x * 1.25 end
      return x
    end
    local compiled = takes(3, f, a)
    local calls = 0
    debug.sethook(function()
      calls = calls + 1
      limit = calls > 20 and 50 or 1000
    end, "", 10)
    local y = compiled(a)
    debug.sethook()
    limit = 1000
    assert.truthy(calls > 0 and ty.is_tensor(y))
    assert.equal(told(f(a)), told(compiled(a)))
  end)

  it("sees what finalisers change between two turns", function()
    local limit, at
    local function f(x)
      while x:max():item() < limit do x = x * 1.05 end
      return x
    end
    limit = 1e5
    local compiled = takes(3, f, a)
    local function arm(later) -- each collection finalises one
      getmetatable(newproxy(true)).__gc = function()
        if later > 0 then arm(later - 1) else limit, at = 0, probe.turns() end
      end
    end
    local pause, speed = collectgarbage("setpause", 1), collectgarbage("setstepmul", 1e7) -- in every allocation
    collectgarbage()
    finally(function()
      collectgarbage("setpause", pause)
      collectgarbage("setstepmul", speed)
    end)
    local kept, ends = {}, 0
    for later = 1, 12 do
      limit, at = 1e5, nil
      arm(later)
      local y = compiled(a)
      kept[later % 5] = y -- its handle is not spare
      if at then
        assert.equal(at, probe.turns())
        ends = ends + (y:max():item() < 1e5 and 1 or 0)
      end
    end
    assert.truthy(ends > 0 and kept[1])
  end)

  it("is left by finalisers that take turns of their own", function()
    local function f(x)
      local before, y = x, x
      while y:max():item() < 1e5 do before, y = y, y * 1.5 end
      return before, y
    end
    local plain = { f(a) }
    local outer, inner, ran, armed = ty.compile(f), ty.compile(f), 0, true
    local function arm()
      getmetatable(newproxy(true)).__gc = function()
        if not armed then return end
        local turns = probe.turns()
        inner(a)
        ran = ran + (probe.turns() > turns and 1 or 0)
        arm()
      end
    end
    for _ = 1, 10 do inner(a) end
    local pause, speed = collectgarbage("setpause", 1), collectgarbage("setstepmul", 1e7) -- in every allocation
    finally(function()
      armed = false
      collectgarbage("setpause", pause)
      collectgarbage("setstepmul", speed)
    end)
    arm()
    local kept = {}
    for i = 1, 10 do
      kept[i] = { outer(a) }
      assert.equal(told(unpack(plain)), told(unpack(kept[i])))
    end
    assert.truthy(ran > 0)
  end)

  it("gives results that need a gradient", function()
    local w = ty.full({ 32 }, 1.25):requires_grad_()
    local function f(x)
      local y, n = x * w, 0
      while y:max():item() < 200 do y, n = y * w, n + 1 end
      return y, n
    end
    local compiled = ty.compile(f)
    for _ = 1, 8 do
      local grads = {}
      for i, g in ipairs { f, compiled } do
        w.grad = nil
        g(a):sum():backward()
        grads[i] = told(w.grad)
      end
      assert.equal(grads[1], grads[2])
    end
  end)

  it("keeps no tensors of its turns", function()
    local function f(x)
      while x:max():item() < 1e6 do x = x * 1.0625 end
      return x
    end
    local compiled = takes(3, f, ty.ones(4096))
    collectgarbage()
    collectgarbage()
    local x = ty.ones(4096)
    local before = probe.memory().used
    for _ = 1, 20 do compiled(x):release() end
    assert.truthy(probe.memory().used - before <= 4 * 4 * 4096)
  end)

  it("gives what it has where memory runs out", function()
    local function f(x)
      while x:max():item() < 1e4 do x = x * 1.125 end
      return x
    end
    local compiled = takes(3, f, a)
    local want = told(f(a))
    for after = 0, 120, 3 do
      probe.fail(after, 1)
      local ok, y = pcall(compiled, a)
      probe.fail(-1)
      if ok then assert.equal(want, told(y)) else assert.matches("out of memory", tostring(y)) end
      assert.equal(want, told(compiled(a)))
    end
  end)
end)
