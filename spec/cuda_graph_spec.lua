-- cuda_graph_spec.lua -- plans on the device "cuda" run as one graph from their second launch on, with the same bits.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.loaded and it or pending
ty.device "cpu"

--- Calls f, and tells how many kernels were launched by themselves, graphs made, graphs launched.
local function counted(f)
  local was = ty.cuda.launches()
  f()
  local now = ty.cuda.launches()
  return { now.kernels - was.kernels, now.graphs - was.graphs, now.replays - was.replays }
end

local function model(x, w, b)
  local h = (x:matmul(w) + b):tanh()
  return h:softmax(2):sum(1), (h * 3):sum()
end

describe("a plan on cuda", function()
  probe("is one launch from the second time on, with the bits of the CPU", function()
    local f = ty.compile(model)
    local w, b = ty.randn(8, 5), ty.randn(5)
    local seen = {}
    for i = 1, 5 do
      local x = ty.randn(4, 8)
      local p, q, there = nil, nil, x:to "cuda"
      local dw, db = w:to "cuda", b:to "cuda"
      seen[i] = counted(function() p, q = f(there, dw, db) end)
      local u, v = model(x, w, b)
      H.same(u, p:to "cpu")
      H.same(v, q:to "cpu")
    end
    assert.truthy(seen[1][1] >= 3 and seen[1][3] == 0)
    for i = 3, 5 do assert.same({ 0, 0, 1 }, seen[i]) end
  end)

  probe("keeps its graph for other sizes and scalars", function()
    local f = ty.compile(function(x, k) return (x * k):softmax(2):sum(1):cumsum(1), (x + k):sum(2) end, { dynamic = true })
    local made = 0
    for i = 1, 36 do -- 12 pairs of sizes; a graph for each way in which accesses of 16 bytes fit
      local x, k, y, z = ty.randn(3 + i % 4, 40 + i % 3), i / 7, nil, nil
      local there = x:to "cuda"
      local n = counted(function() y, z = f(there, k) end)
      if i > 24 then made = made + n[2] end
      H.same((x * k):softmax(2):sum(1):cumsum(1), y:to "cpu")
      H.same((x + k):sum(2), z:to "cpu")
    end
    assert.equal(0, made)
  end)

  probe("trains in place: what a launch wrote the next one reads", function()
    local function train(device)
      ty.manual_seed(4)
      local m = ty.nn.Sequential(ty.nn.Linear(6, 5), ty.nn.Tanh(), ty.nn.Linear(5, 3)):to(device)
      local opt = ty.optim.Adam(m:parameters(), { lr = 0.1 })
      local x, want = ty.randn(7, 6):to(device), (ty.arange(7):remainder(3) + 1):to("i64"):to(device)
      local step = ty.compile(function()
        opt:zero_grad()
        local loss = ty.cross_entropy(m(x), want)
        loss:backward()
        opt:step()
        return loss:detach()
      end)
      local losses = {}
      for i = 1, 8 do losses[i] = step():item() end
      return losses
    end
    local want, got = train "cpu", nil
    local n = counted(function() got = train "cuda" end)
    assert.same(want, got)
    assert.truthy(n[3] >= 4)
  end)

  probe("tells an index that is out of range, and goes on", function()
    local f = ty.compile(function(x, i) return (x:gather(1, i) * 2):exp():sum(), x:softmax(1):cumsum(1) end)
    local x = ty.ones(5, { device = "cuda" })
    local good = ty.tensor({ 1, 2, 5 }, { dtype = "i64", device = "cuda" })
    local bad = ty.tensor({ 1, 6, 5 }, { dtype = "i64", device = "cuda" })
    for _ = 1, 4 do f(x, good) end
    local want = (f(x, good)):item()
    local ok, why = pcall(function() return (f(x, bad)):item() end)
    assert.falsy(ok)
    assert.truthy(tostring(why):find "index 6 at %(2%) is out of range 1%.%.5", tostring(why))
    assert.equal(want, (f(x, good)):item())
  end)

  probe("lets go of memory behind its launches alone", function()
    local f = ty.compile(function(x)
      local y = x
      for i = 1, 6 do y = (y * i):softmax(2):matmul(x) end
      return y
    end)
    local x = ty.randn(6, 6)
    local there, want = x:to "cuda", nil
    for _ = 1, 6 do
      local y = f(there)
      local other = ty.full({ 6, 6 }, 7, { device = "cuda" }) -- takes what was freed
      want = want or (function()
        local v = x
        for i = 1, 6 do v = (v * i):softmax(2):matmul(x) end
        return v
      end)()
      H.same(want, y:to "cpu")
      assert.equal(252, other:sum():item())
    end
  end)

  probe("is forgotten with its kernels", function()
    for round = 1, 3 do
      local f = ty.compile(function(x) return (x * (round + 0.5)):softmax(1):cumsum(1), (x + round):sum():exp() end)
      local x = ty.arange(20, { device = "cuda" }) / 20
      local want = ((x:to "cpu") * (round + 0.5)):softmax(1):cumsum(1)
      for _ = 1, 4 do H.same(want, (f(x)):to "cpu") end
      ty.reset(f)
      f = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
    end
  end)
end)

local program = [[
  local ty = require "tycho"
  local f = ty.compile(function(x) return (x:softmax(1) * 2):cumsum(1):exp():sum(), x:sum() end)
  local x = ty.arange(50, { device = "cuda" }) / 50
  local ok, why
  for _ = 1, 40 do
    ok, why = pcall(function() return (f(x)):item() end)
    if not ok then break end
  end
  print(ok, why)
  print(ty.ones(3):sum():item())
  local n = ty.cuda.launches()
  print(n.kernels, n.graphs, n.replays)
]]

local soft_probe = cuda.soft and it or pending -- failures are the software GPU's to inject

describe("graphs on cuda", function()
  soft_probe("run to the bits of single launches, in any order that their edges allow", function()
    local one = cuda.run("TYCHO_CUDA_GRAPHS=0", program)
    local many = cuda.run("SOFT_GPU_SEED=7", program)
    assert.equal(one:match "^[^\n]*", many:match "^[^\n]*")
    assert.truthy(one:find "\t0\t0\n$", one)
    assert.truthy(many:find "\t1\t39\n$", many)
  end)

  soft_probe("that fail are told by who reads, and the CPU goes on", function()
    local text = cuda.run("SOFT_GPU_LOSE_AFTER=30", program)
    assert.truthy(text:find("^false\t.*has failed: .*\n3\n"), text)
    text = cuda.run("SOFT_GPU_FAIL_LAUNCH=20", program)
    assert.truthy(text:find("^false\t.*has failed: .*\n3\n"), text)
  end)
end)
