-- cuda_copies_spec.lua -- copies between the CPU and the device "cuda" beside what is computed there, in every order that the
-- device may take.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.loaded and it or pending
local soft = cuda.soft and require "spec.soft_gpu"
local soft_probe = soft and it or pending
ty.device "cpu"

local LARGE = 30000 -- elements whose bytes go by the stream of copies

--- f() with work that is carried out as late as possible, then in other orders.
local function in_any_order(f)
  for seed = 0, soft and 6 or 0 do
    if soft then soft.set("SEED", seed) end
    f(seed)
  end
  if soft then soft.set("SEED", 0) end
end

describe("copies to cuda", function()
  soft_probe("do not wait for what is computed, nor it for them before it reads them", function()
    local w = ty.ones(LARGE):to "cuda"
    ty.synchronize()
    local big = ty.full({ 9e6 }, 2) -- more than is staged at once
    soft.cu.soft_gpu_reset_counts()
    local was = ty.cuda.launches()
    local y = (w * 3):sum()
    local x = big:to "cuda"
    assert.equal(0, soft.count "blocks")
    local now = ty.cuda.launches()
    assert.same({ 1, 1 }, { now.copies - was.copies, now.ahead - was.ahead })
    assert.equal(90000, y:item())
    assert.same({ 2, 2 }, { x:get(1), x:get(-1) })
    assert.equal(18, (x[{ { 1, 9 } }]):sum():item())
  end)

  probe("arrive before what reads them, of every size, whole and in parts", function()
    in_any_order(function()
      for _, n in ipairs { 1, 1000, 16384, 16385, 40000, 600000 } do
        local x = ty.arange(n)
        local y = x:to "cuda" + 1
        assert.equal(n, y:get(n))
        H.same(x + 1, y:to "cpu")
      end
    end)
  end)

  probe("into memory that was freed wait for those who used it", function()
    in_any_order(function(seed)
      local x = ty.full({ LARGE }, seed):to "cuda"
      for i = 1, 6 do
        local sums = {}
        for k = 1, 3 do sums[k] = (x * k):sum() end
        x:release()
        x = ty.full({ LARGE }, seed + i):to "cuda" -- the same block, mostly
        for k = 1, 3 do assert.equal(LARGE * k * (seed + i - 1), sums[k]:item()) end
      end
    end)
  end)

  probe("into a tensor that is there wait for those who read it", function()
    local put = ty.compile(function(x, value) x:copy_(value:to "cuda") end)
    in_any_order(function(seed)
      local x = ty.zeros(LARGE, { device = "cuda" })
      for i = 1, 5 do
        local y = x:cumsum(1)
        put(x, ty.full({ LARGE }, i + seed))
        assert.equal(i == 1 and 0 or LARGE * (i - 1 + seed), y:get(LARGE))
      end
      local z = x * 7 -- its block was just given out, and is being written
      put(z, ty.full({ LARGE }, 5))
      assert.equal(5 * LARGE, z:sum():item())
    end)
  end)

  probe("of a loader's batches feed steps as on the CPU, ahead of them", function()
    local data = ty.data.tensors(ty.randn(60, 2000), ty.randn(60, 1))
    local function train(device)
      ty.manual_seed(3)
      local m = ty.nn.Linear(2000, 1):to(device)
      local opt = ty.optim.SGD(m:parameters(), { lr = 1e-4 })
      local step = ty.compile(function(x, want)
        opt:zero_grad()
        local loss = (m(x) - want):square():mean()
        loss:backward()
        opt:step()
        return loss:detach()
      end)
      local losses = {}
      for _ = 1, 2 do
        for x, want in data:loader { batch = 10 } do
          losses[#losses + 1] = step(x:to(device), want:to(device))
        end
      end
      for i, loss in ipairs(losses) do losses[i] = loss:item() end
      return losses
    end
    local want = train "cpu"
    in_any_order(function()
      local was = ty.cuda.launches()
      assert.same(want, train "cuda")
      local now = ty.cuda.launches()
      assert.equal(12, now.copies - was.copies)
      assert.truthy(now.ahead - was.ahead >= 8, now.ahead - was.ahead)
    end)
  end)

  probe("are freed unread, and given back to the driver, without harm", function()
    in_any_order(function()
      for _ = 1, 4 do ty.ones(LARGE):to "cuda":release() end
      local x = ty.full({ LARGE }, 4):to "cuda"
      ty.ones(LARGE):to "cuda":release()
      ty.cuda.empty_cache()
      assert.equal(4 * LARGE, x:sum():item())
    end)
  end)

  soft_probe("are told where a profile looks, on a part of their own", function()
    local path = os.tmpname()
    local x = ty.ones(LARGE)
    ty.cuda.profile(function() return x:to "cuda":sum():item() end, path)
    local text = assert(io.open(path)):read "*a"
    os.remove(path)
    assert.truthy(text:find '"name":"copy from the cpu","cat":"copy","ph":"X","pid":2,"tid":1,')
    assert.truthy(text:find '"name":"sum %(cuda_copies_spec.lua:%d+%)","cat":"kernel","ph":"X","pid":2,"tid":0,')
  end)
end)

describe("reads from cuda", function()
  probe("of little and much are what was computed before, errors of checks are told with them", function()
    in_any_order(function()
      for _, n in ipairs { 1, 3, 1024, 1025, 50000 } do
        local x = ty.arange(n):to "cuda" * 2
        assert.equal((ty.arange(n) * 2):sum():item(), x:sum():item())
        assert.equal(2 * (n - 1), x:totable()[n])
        local index = ty.tensor({ 1, n + 1 }, { dtype = "i64", device = "cuda" })
        local ok, why = pcall(function() return x:gather(1, index):totable() end)
        assert.falsy(ok)
        assert.truthy(tostring(why):find "index %d+ at %(2%) is out of range", tostring(why))
        assert.equal(0, x:get(1))
      end
    end)
  end)

  soft_probe("touch nothing that nobody wrote where a turn of a loop joins what stands before it with what it makes", function()
    local function of(x, at) -- behind a check of indices copies are kernels, which the software GPU looks at
      local a = x[1]:gather(2, at)
      local front = ty.full({ 2, 1 }, 3, { device = x.device })
      return ty.scan(function(c, r)
        local y = ty.cat({ front, c:narrow(2, 1, 6) }, 2) + r
        return y, y
      end, a, x)
    end
    local x, at = ty.randn(9, 2, 7), ty.ones(2, 7, { dtype = "i64" })
    local last, rows = of(x, at)
    local l, r = of(x:to "cuda", at:to "cuda")
    H.same(last, l:to "cpu")
    H.same(rows, r:to "cpu")
  end)

  soft_probe("of a device that fails say so", function()
    cuda.gives("^false\t.*has failed.*\n3\nstatus 0\n$", "SOFT_GPU_LOSE_AFTER=3", [[
      local ty = require "tycho"
      print(pcall(function()
        for _ = 1, 10 do ty.ones(50000):to("cuda"):exp():sum():item() end
      end))
      print(ty.ones(3):sum():item())
    ]])
  end)
end)
