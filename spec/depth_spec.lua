--- depth_spec.lua -- functions of many operations are captured as a whole, and give the bits of eager mode.

local H = require "spec.helper"
local ty = H.ty

local function bits(t) return table.concat(H.list(t), " ") end

--- The function is captured once and answered by its trace afterwards, with the bits of eager mode.
local function is_one_trace(f, ...)
  local c = ty.compile(f)
  local want = bits(f(...))
  for _ = 1, 3 do assert.equal(want, bits(c(...))) end
  local e = ty.explain(c)
  assert.equal(1, e.captures, tostring(e.aborts and e.aborts[1] and e.aborts[1].reason))
  assert.equal(3, e.skips)
  return e
end

describe("a function of many operations", function()
  it("in one chain is one trace", function()
    local e = is_one_trace(function(x)
      for _ = 1, 10000 do x = x * 0.99 + 0.1 end
      return x
    end, ty.arange(4))
    assert.truthy(e.traces[1].operations >= 20000, e.traces[1].operations)
  end)

  it("side by side is one trace", function()
    is_one_trace(function(x)
      local sum = 0
      for i = 1, 3000 do sum = sum + (x * i + 1):sum() end
      return sum
    end, ty.arange(6))
  end)

  it("over many tensors from outside, each read or written, is one trace", function()
    local function world()
      local list = {}
      for i = 1, 1500 do list[i] = ty.full({ 3 }, i) end
      return list
    end
    local function body(list)
      return function(x)
        for i = 1, #list do
          if i % 3 == 0 then list[i]:add_(x) else x = x + list[i] end
        end
        return x
      end
    end
    local plain, compiled = world(), world()
    local f, c = body(plain), ty.compile(body(compiled))
    for _ = 1, 4 do assert.equal(bits(f(ty.ones(3))), bits(c(ty.ones(3)))) end
    for i = 1, #plain do assert.equal(bits(plain[i]), bits(compiled[i])) end
    assert.equal(1, ty.explain(c).captures)
  end)

  it("forward and back, with an optimiser, is one trace", function()
    local function world()
      ty.manual_seed(1)
      local layers = {}
      for i = 1, 200 do layers[i] = ty.nn.Linear(4, 4) end
      local model = ty.nn.Sequential(unpack(layers))
      local opt = ty.optim.AdamW(model:parameters(), { lr = 1e-2 })
      return function(x)
        opt:zero_grad()
        local loss = (model(x):tanh() - 1):square():mean()
        loss:backward()
        opt:step()
        return loss:detach()
      end, model
    end
    local f, plain = world()
    local g, model = world()
    local c = ty.compile(g)
    local x = ty.randn(2, 4)
    for _ = 1, 4 do assert.equal(bits(f(x)), bits(c(x))) end
    local e = ty.explain(c)
    assert.truthy(e.traces[1].operations > 4096, e.traces[1].operations)
    assert.truthy(e.skips >= 2, tostring(e))
    local other = model:parameters()
    for i, p in ipairs(plain:parameters()) do assert.equal(bits(p), bits(other[i])) end
  end)

  it("that reads more than a trace may is told how much that is", function()
    local list = {}
    for i = 1, 9000 do list[i] = ty.ones(1) end
    local c = ty.compile(function(x)
      for i = 1, #list do x = x + list[i] end
      return x
    end)
    for _ = 1, 2 do assert.equal(9001, c(ty.ones(1)):item()) end
    assert.match("it reads and makes 9%d%d%d values, and a trace may 8000", ty.explain(c).aborts[1].reason)
  end)

  it("may take any number of steps in a warmup", function()
    local function body(x)
      local n = 0
      for i = 1, 150000 do n = n + i % 3 end
      return x * n
    end
    local c = ty.compile(body)
    c(ty.ones(2))
    local why = ty.explain(c).aborts[1]
    assert.match("more steps than a capture may", why.reason)
    assert.match("warmup", why.hint)
    c = ty.compile(body)
    ty.warmup(c, ty.ones(2))
    assert.equal(bits(body(ty.ones(2))), bits(c(ty.ones(2))))
    assert.truthy(ty.explain(c).skips >= 1)
  end)
end)
