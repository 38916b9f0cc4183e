--- interrupt_spec.lua -- a signal ends what takes its time, as Ctrl-C does: soon, and with nothing half-written.

local H = require "spec.helper"
local ty = H.ty
local C = require "spec.hooked"(ty, require "spec.module").C
local clock = os.clock -- of all threads, so that other work on the machine does not count

local TOKEN = {}
local it = C and it or pending -- it needs LuaJIT's headers

--- Calls f while a signal comes 10 ms later; true when the hook's error came out, and the processor's time until then.
local function interrupted(f, ...)
  local begin = clock()
  C.interrupt_in(10, TOKEN)
  local ok, e = pcall(f, ...)
  return not ok and e == TOKEN, clock() - begin
end

local function bits(x)
  x = x:to "f64"
  return ty.stack({ x:sum(), x:square():sum() }):totable()
end

--- A call that takes a while ends early, and gives the same as before when it is made again.
local function ends_early(f, read)
  read = read or bits
  local want = read(f())
  local begin = clock()
  local again = read(f())
  local whole = clock() - begin
  assert.same(want, again)
  local raised, part = interrupted(f)
  assert.truthy(raised, "it ended before the signal came: " .. whole)
  assert.truthy(part < whole * 0.6, ("%.3f s of %.3f s"):format(part, whole))
  assert.same(want, read(f()))
end

local function wave(x, n)
  for _ = 1, n or 24 do x = (x * 1.7):sin():exp() end
  return x
end

describe("a signal ends early", function()
  local before
  before_each(function() before = ty.threads() end)
  after_each(function()
    ty.threads(before)
    debug.sethook()
  end)

  for _, threads in ipairs { 1, 2 } do
    local on = (" on %d thread%s"):format(threads, threads > 1 and "s" or "")
    it("a kernel" .. on, function()
      ty.threads(threads)
      local x = ty.arange(2e6):div(2e6)
      ends_early(ty.compile(function() return wave(x) end))
    end)

    it("a loop whose turns read data" .. on, function()
      ty.threads(threads)
      local x = ty.arange(8):div(8)
      ends_early(ty.compile(function()
        local y, n = x, 0
        while y:sum():item() < 1e9 and n < 1e5 do
          y, n = (y * 0.99 + 0.1):abs() - y * 0.01 + x * 0.001, n + 1
        end
        return y
      end))
    end)

    it("a product" .. on, function()
      ty.threads(threads)
      local a = ty.arange(4e6):reshape(2000, 2000):sin()
      ends_early(function() return a:matmul(a) end)
    end)
  end

  it("attention", function()
    local q = ty.arange(8 * 3000 * 64):reshape(8, 3000, 64):sin()
    ends_early(function() return ty.scaled_dot_product_attention(q, q, q) end)
  end)

  it("the gradient of attention", function()
    local q = ty.arange(2 * 3000 * 64):reshape(2, 3000, 64):sin():requires_grad_()
    local y = ty.scaled_dot_product_attention(q, q, q):sum()
    ends_early(function()
      q.grad = nil
      y:backward({ retain_graph = true })
      return q.grad
    end)
  end)

  it("a convolution", function()
    local x, w = ty.arange(4 * 64 * 96 * 96):reshape(4, 64, 96, 96):sin(), ty.arange(128 * 64 * 9):reshape(128, 64, 3, 3):cos()
    ends_early(function() return ty.conv2d(x, w) end)
  end)

  it("a sort of one row", function()
    local x = (ty.arange(3e6) * 7919):remainder(3e6 + 1)
    ends_early(function() return (x:sort()) end, function(y) return { y[1]:item(), y[1500000]:item(), y[-1]:item() } end)
  end)

  it("a sum of many elements to few places", function()
    local i, x = (ty.arange(2e7) * 31):remainder(7):to("i64") + 1, ty.full({ 2e7 }, 2 ^ -20, { dtype = "f16" })
    ends_early(function() return ty.zeros({ 7 }, { dtype = "f16" }):scatter_add(1, i, x) end)
  end)

  it("a sum of many rows to few places", function()
    local i, x = (ty.arange(2e5) * 31):remainder(7):to("i64") + 1, ty.full({ 2e5, 100 }, 2 ^ -20, { dtype = "f16" })
    ends_early(function() return ty.zeros({ 7, 100 }, { dtype = "f16" }):index_add(1, i, x) end)
  end)
end)

describe("a signal while a file", function()
  local name = os.tmpname()
  local path = name .. ".npy"
  after_each(function()
    debug.sethook()
    os.remove(path)
    os.remove(name)
  end)

  it("is written leaves what was there", function()
    ty.save(path, ty.ones(3))
    local x = ty.ones(6e7)
    local raised = interrupted(function()
      local saved = ty.save(path, x)
      return saved
    end)
    assert.truthy(raised)
    assert.equal(3, ty.load(path):numel())
    assert.truthy(ty.save(path, x:narrow(1, 1, 5)))
    assert.equal(5, ty.load(path):numel())
  end)

  it("is read ends early", function()
    local lines = {}
    for i = 1, 2e5 do lines[i] = ("%d,%.3f,%d"):format(i, i / 7, i % 5) end
    local f = assert(io.open(name, "w"))
    f:write(("a,b,c\n"), table.concat(lines, "\n"), "\n")
    f:close()
    ends_early(function() return assert(ty.csv.load(name)):tensor { "a", "b", "c" } end)
  end)
end)

describe("a signal while a tensor is written", function()
  after_each(function() debug.sethook() end)

  it("leaves it as it was, in eager mode and compiled", function()
    for _, wrap in ipairs { function(f) return f end, ty.compile } do
      local x = ty.arange(1e7):div(1e7)
      local f = wrap(function(y) -- one kernel
        y:copy_(wave(y, 5))
        return y
      end)
      f(x:clone())
      f(x:clone())
      local want = bits(x)
      local raised = interrupted(f, x)
      assert.truthy(raised)
      assert.same(want, bits(x))
      assert.same(bits(wave(x, 5)), bits(f(x)))
    end
  end)

  it("leaves all tensors of a captured training step as they were", function()
    local function world()
      ty.manual_seed(3)
      local model = ty.nn.Sequential(ty.nn.Linear(600, 900), ty.nn.Tanh(), ty.nn.Linear(900, 600))
      local opt = ty.optim.AdamW(model:parameters(), { lr = 1e-3 })
      return model, function(x)
        opt:zero_grad()
        local loss = (model(x) - x):square():mean()
        loss:backward()
        opt:step()
        return loss:detach()
      end
    end
    local x = ty.arange(3000 * 600):reshape(3000, 600):sin()
    local model, step = world()
    local other, same = world()
    local c = ty.compile(step)
    --- Every parameter is as the other model's.
    local function agree()
      local p = other:parameters()
      for i, w in ipairs(model:parameters()) do
        if (w - p[i]):abs():sum():item() ~= 0 then return false end
      end
      return true
    end
    local ended = 0
    for _ = 1, 3 do assert.equal(same(x):item(), c(x):item()) end
    for _ = 1, 4 do
      assert.truthy(agree())
      local one
      interrupted(function() one = c(x) end)
      if one then -- the signal came too late
        assert.equal(same(x):item(), one:item())
      elseif agree() then
        ended = ended + 1
      else -- it came when the step was done
        same(x)
      end
    end
    assert.truthy(agree())
    assert.truthy(ended > 0, "no signal came in time")
  end)

  it("waits where others were written already", function()
    local list, sums = {}, {}
    for i = 1, 24 do list[i] = ty.full({ 1e6 }, i) end
    local f = ty.compile(function()
      for i = 1, #list do list[i]:add_(1) end
    end)
    for _ = 1, 3 do f() end
    for k = 1, 4 do
      C.interrupt_in(k, TOKEN)
      pcall(function()
        for _ = 1, 1e6 do f() end
      end)
      for i = 1, #list do sums[i] = list[i]:sum():item() / 1e6 - i end
      for i = 2, #list do assert.equal(sums[1], sums[i]) end
    end
  end)

  it("is waited out where there is no memory for another one", function()
    local probe = ty.internals.probe
    local x = ty.arange(6e6):div(6e6)
    local want = bits(wave(x))
    local f = ty.compile(function(y) y:copy_(wave(y)) end)
    f(x:clone())
    f(x:clone())
    for after = 0, 40 do
      probe.fail(after, -1)
      local ok = pcall(f, x)
      probe.fail(-1)
      if ok then break end
    end
    assert.same(want, bits(x))
  end)
end)

describe("a deadline", function()
  local x = ty.arange(2e6):div(2e6)

  --- That fn is late, and how many seconds that took.
  local function late(ms, fn, ...)
    local begin = clock()
    local ok, message = pcall(ty.deadline, ms, fn, ...)
    assert.equal(false, ok)
    assert.match("interrupt_spec%.lua:%d+: deadline: the time is over$", message)
    return clock() - begin
  end

  it("ends a run within it, and what it writes is as it was", function()
    local f, y = ty.compile(function(y) y:copy_(wave(y, 40)) end), x:clone()
    f(y)
    local begin = clock()
    f(y:copy_(x))
    local whole, want = clock() - begin, bits(y:copy_(x))
    -- A twentieth: the last of its kernels writes in place, takes a moment only, and is waited for.
    assert.truthy(late(whole * 50, f, y) < whole * 0.8)
    assert.same(want, bits(y))
  end)

  it("ends operations one after the other", function()
    late(5, function()
      local y = x
      while true do y = y + 1 end
    end)
  end)

  it("gives what the function gives, in time, and its errors", function()
    local function count(...) return select("#", ...), ... end
    assert.same({ 3, 1, nil, 3 }, { ty.deadline(1e6, count, 1, nil, 3) })
    local ok, e = pcall(ty.deadline, 1e6, error, TOKEN)
    assert.equal(false, ok)
    assert.equal(TOKEN, e)
    assert.equal(3, #ty.ones(3))
  end)

  it("is the earliest of those inside of each other", function()
    local function for_ever()
      local y = x
      while true do y = y + 1 end
    end
    late(1e6, ty.deadline, 5, for_ever)
    late(5, ty.deadline, 1e6, for_ever)
  end)

  it("belongs to its coroutine", function()
    local co = coroutine.wrap(function()
      return pcall(ty.deadline, 1, function()
        coroutine.yield()
        return x + 1
      end)
    end)
    co()
    local begin = clock()
    while clock() - begin < 0.01 do x:sum():item() end
    local ok, message = co()
    assert.equal(false, ok)
    assert.match("the time is over", message)
  end)

  it("ends with its function, which may go on after its error", function()
    assert.equal(2, ty.deadline(0, function()
      assert.equal(false, (pcall(function() return x + 1 end)))
      return 2
    end))
    assert.equal(2e6, (x + 1):numel())
  end)
end)
