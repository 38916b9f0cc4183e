-- cuda_devices_spec.lua -- several CUDA devices in one process: each has its memory, stream, kernels and plans; copies between
-- them keep the order of both. The software GPU has two, whose kernels cannot touch each other's memory.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local two = cuda.loaded and #ty.cuda.devices() > 1
local probe = two and it or pending
local soft_probe = two and cuda.soft and it or pending
ty.device "cpu"

local BOTH = { "cuda", "cuda:1" }

local function raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.falsy(ok)
  assert.truthy(tostring(message):find(pattern), tostring(message))
end

describe("each of two CUDA devices", function()
  probe("gives the CPU's bits, where its operands lie", function()
    local x, y = ty.randn(70, 65), ty.randn(65, 9)
    local index = ty.tensor({ 3, 1, 3, 2 }, { dtype = "i64" })
    local function work(a, b, i)
      local p = a:matmul(b)
      return p, p:softmax(2), a:sum(1), a:cumsum(2), a:sort(2), a:index_select(1, i), a:index_add(1, i, a[{ { 1, 4 } }])
    end
    local want = { work(x, y, index) }
    for _, device in ipairs(BOTH) do
      local got = { work(x:to(device), y:to(device), index:to(device)) }
      for i = 1, #want do
        assert.equal(device, got[i].device)
        H.same(want[i], got[i]:to "cpu", device .. " " .. i)
      end
    end
  end)

  probe("makes what it is the default for, with the same random numbers", function()
    local want
    for _, device in ipairs { "cpu", "cuda", "cuda:1", "cuda:0" } do
      ty.device(device)
      ty.manual_seed(11)
      local x = ty.randn(5, 3)
      ty.device "cpu"
      assert.equal(device == "cuda:0" and "cuda" or device, x.device)
      want = want or x
      H.same(want, x:to "cpu")
    end
    assert.truthy(tostring(ty.ones(2, { device = "cuda:1" })):find("[f32 2 cuda:1]", 1, true))
  end)

  probe("has plans and graphs of its own", function()
    local f = ty.compile(function(x, w) return (x:matmul(w) * 2):softmax(2):sum(1), x:exp():sum() end)
    local w, there = ty.randn(6, 5), {}
    for _, device in ipairs(BOTH) do there[device] = w:to(device) end
    for i = 1, 5 do
      for _, device in ipairs(BOTH) do
        local x = ty.randn(4, 6)
        local a, b = f(x:to(device), there[device])
        assert.equal(device, a.device)
        local p, q = (x:matmul(w) * 2):softmax(2):sum(1), x:exp():sum()
        H.same(p, a:to "cpu", device .. i)
        H.same(q, b:to "cpu", device .. i)
      end
    end
    for _, device in ipairs(BOTH) do assert.truthy(ty.cuda.launches(device).replays > 0, device) end
  end)

  probe("counts and limits its own memory", function()
    local was = {}
    for _, device in ipairs(BOTH) do was[device] = ty.cuda.memory(device).used end
    local x = ty.zeros(1000000, { device = "cuda:1" })
    assert.equal(was.cuda, ty.cuda.memory "cuda".used)
    assert.truthy(ty.cuda.memory(1).used >= was["cuda:1"] + 4000000)
    assert.equal(math.huge, ty.cuda.limit(2000000, "cuda:1"))
    raises("out of memory", function() return ty.zeros(2000000, { device = "cuda:1" }) end)
    assert.equal(8000000, ty.zeros(2000000, { device = "cuda" }):numel() * 4)
    assert.equal(2000000, ty.cuda.limit(math.huge, "cuda:1"))
    assert.equal(0, x:sum():item())
    x:release()
    local cached = ty.cuda.memory "cuda".cached
    ty.cuda.empty_cache(1)
    assert.equal(0, ty.cuda.memory(1).cached)
    assert.equal(cached, ty.cuda.memory(0).cached)
    raises("cuda.memory: the device must be", ty.cuda.memory, "gpu")
    raises("cuda.launches: the device must be", ty.cuda.launches, -1)
  end)

  probe("trains a model of its own, to the same bits", function()
    local function train(device)
      ty.manual_seed(4)
      local m = ty.nn.Sequential(ty.nn.Linear(6, 5), ty.nn.Tanh(), ty.nn.Linear(5, 3)):to(device)
      local opt = ty.optim.Adam(m:parameters(), { lr = 0.1 })
      local x, want = ty.randn(7, 6):to(device), (ty.arange(7):remainder(3) + 1):to("i64"):to(device)
      return m, ty.compile(function()
        opt:zero_grad()
        local loss = ty.cross_entropy(m(x), want)
        loss:backward()
        opt:step()
        return loss:detach()
      end)
    end
    local steps, models = {}, {}
    for i, device in ipairs { "cpu", "cuda", "cuda:1" } do models[i], steps[i] = train(device) end
    for _ = 1, 4 do
      local want
      for i = 1, 3 do -- one step here, one there
        local loss = steps[i]():item()
        want = want or loss
        assert.equal(want, loss)
      end
    end
    for i = 2, 3 do
      for k, p in ipairs(models[1]:parameters()) do H.same(p:detach(), models[i]:parameters()[k]:detach():to "cpu") end
    end
  end)
end)

describe("between two CUDA devices", function()
  probe("operands do not mix: the error names both", function()
    local a, b = ty.ones(2, { device = "cuda" }), ty.ones(2, { device = "cuda:1" })
    local both = '"cuda:?1?" and "cuda:?1?"'
    raises("add: operands lie on " .. both, function() return a + b end)
    raises(both, function() return ty.cat { a, b } end)
    raises(both, function() return ty.compile(function(x, y) return x * y end)(a, b) end)
    raises(both, function() return a:add_(b) end)
    raises(both, function() return b:reshape(1, 2):matmul(a:reshape(2, 1)) end)
    assert.equal(4, (a + b:to "cuda"):sum():item())
  end)

  probe("copies are of what was there, whatever either does next", function()
    local x = ty.randn(300, 40)
    for _, way in ipairs { { "cuda", "cuda:1" }, { "cuda:1", "cuda" } } do
      local from, to = way[1], way[2]
      local a = x:to(from)
      local b = a * 2 + 1 -- is being computed
      local c = b:to(to)
      b:mul_(0) -- behind the copy
      b:release()
      local d = ty.full({ 300, 40 }, 7, { device = from }) -- takes what was freed
      assert.equal(84000, d:sum():item())
      local e = (c - 1) / 2
      assert.equal(to, e.device)
      H.same((x * 2 + 1 - 1) / 2, e:to "cpu")
      H.same(x:t():clone(), a:t():to(to):clone():to "cpu")
      assert.equal(to, a:to(to):to(from):to(to).device)
    end
    local y = ty.ones(0, 3, { device = "cuda" }):to "cuda:1"
    assert.same({ 0, 3 }, y.shape)
  end)

  probe("copies stand in compiled functions and in gradients", function()
    local f = ty.compile(function(x, w) return (x:matmul(w):tanh():to "cuda:1" * 3):sum(1) end)
    local w = ty.randn(4, 5)
    for i = 1, 4 do
      local x = ty.randn(2 + i, 4)
      local y = f(x:to "cuda", w:to "cuda")
      assert.equal("cuda:1", y.device)
      H.same((x:matmul(w):tanh() * 3):sum(1), y:to "cpu")
    end
    local function slope(device, other)
      local v = w:to(device):requires_grad_()
      local loss = ((v * v):to(other):exp() * 2):sum()
      loss:backward()
      return v.grad
    end
    local g = slope("cuda", "cuda:1")
    assert.equal("cuda", g.device)
    H.same(slope("cpu", "cpu"), g:to "cpu")
  end)

  probe("an index that is out of range is told by who copies", function()
    local x = ty.arange(6, { device = "cuda" })
    local bad = x:index_select(1, ty.tensor({ 1, 9 }, { dtype = "i64", device = "cuda" }))
    raises("index_select: index 9 at %(2%) is out of range 1..6", function() return (bad:to "cuda:1"):sum():item() end)
    assert.equal(15, x:to "cuda:1":sum():item())
  end)

  soft_probe("no byte goes by way of the CPU", function()
    local soft = require "spec.soft_gpu"
    local x = ty.randn(1000):to "cuda"
    ty.synchronize()
    soft.cu.soft_gpu_reset_counts()
    local y = x:to "cuda:1"
    ty.synchronize()
    assert.equal("cuda:1", y.device)
    assert.equal(1, soft.count "copies")
    assert.equal(4000, soft.count "copied_bytes")
  end)
end)

local program = [[
  local ty = require "tycho"
  local x = ty.arange(50, { device = "cuda" }) / 7
  local f = ty.compile(function(a) return (a * 2 + 1):softmax(1):cumsum(1), a:sum():exp() end)
  local t = {}
  for i = 1, 6 do
    local a = (x + i):to "cuda:1"
    local p = f(a)
    local b = (p * a):to "cuda:0"
    a:mul_(0)
    t[i] = ("%.9g"):format((b + x):sum():item())
  end
  print(table.concat(t, " "))
]]

describe("two CUDA devices", function()
  soft_probe("give the same bits in any order that events allow, as peers or not", function()
    local one = cuda.run("", program)
    assert.truthy(one:find "^[%d.]+ [%d.e+ ]+\n$", one)
    for seed = 1, 3 do assert.equal(one, cuda.run("SOFT_GPU_SEED=" .. seed, program)) end
    assert.equal(one, cuda.run("SOFT_GPU_PEERS=0", program))
  end)

  soft_probe("fail each for itself: the other goes on", function()
    local text = cuda.run("SOFT_GPU_LOSE_AFTER=9", [[
      local ty = require "tycho"
      local x = ty.ones(3, { device = "cuda" })
      print(x:sum():item())
      local y = ty.ones(3, { device = "cuda:1" })
      local ok, why
      for _ = 1, 30 do
        ok, why = pcall(function() y = y + 1; return y:sum():item() end)
        if not ok then break end
      end
      print(ok, why)
      print((x * 2):sum():item(), pcall(function() return x:to "cuda:1":sum():item() end))]])
    assert.truthy(text:find '^3\nfalse\t[^\n]*"cuda:1"[^\n]*has failed: [^\n]*\n6\tfalse\t[^\n]*"cuda:1"', text)
  end)

  soft_probe("are one where the driver has one", function()
    local text = cuda.run("SOFT_GPU_DEVICES=1", [[
      local ty = require "tycho"
      print(#ty.cuda.devices(), ty.device "cuda:1")]])
    assert.equal('1\tnil\tdevice: device "cuda:1" is not available: there is 1 CUDA device, and numbers begin at 0\n', text)
  end)
end)
