-- latency.lua -- what new code costs, each in a process of its own; run.lua asks it.
-- In: "chain", "product", "calls", "mlp", "transformer", "step", "slices", "memory". Out: two numbers: seconds, bytes.
--   chain, product   the first call of a new function beyond its second: recorded, planned, made into machine
--                    code; for the first such function of this process, and the median of many that follow
--   calls            10,000 calls, of new functions and of new shapes among them: the time beyond the median of
--                    calls that are not new, at 99.9 % of calls and at worst
--   mlp, transformer the same as chain for whole networks, whose first call is captured
--   step             the whole first call of a compiled training step, loss, gradients and update, of an MLP
--                    784-128-10; and the median of such calls once the process has made several
--   slices           how far a step of a run in slices (jit.start) goes beyond its budget of 1 ms, in training steps of
--                    that MLP with 4 times as many rows: the median, and 99 of 100; while another process has the
--                    processor nothing goes on, so the lesser of time on the wall and of this process's counts
--   memory           what Lua and the library hold after 200 and after 1,000 captures of one function, all but the
--                    latest few of them evicted
-- Time that this thread computed, so that rivals do not count. One thread.

local ffi = require "ffi"
local ty = require "tycho"

ffi.cdef [[
  typedef struct { long seconds, nanoseconds; } timespec;
  int clock_gettime(int clock, timespec *t);
]]
local tick = ffi.new("timespec")

local function now()
  ffi.C.clock_gettime(3, tick) -- CLOCK_THREAD_CPUTIME_ID
  return tonumber(tick.seconds) + 1e-9 * tonumber(tick.nanoseconds)
end

local function at(list, share)
  table.sort(list)
  return list[math.max(1, math.ceil(share * #list))]
end

local STEPS = {
  function(a) return a * 1.5 end, function(a, x) return a + x end, function(a) return a:abs() end,
  function(a, x) return a:maximum(x) end, function(a, x) return a * x end, function(a, x) return a - x end,
  function(a) return a:sqrt() end,
}

--- The steps that the digits of `number` to base 7 name.
local function steps(number, count)
  local list = {}
  for i = 1, count do
    list[i], number = STEPS[number % #STEPS + 1], math.floor(number / #STEPS)
  end
  return function(x)
    local a = x
    for i = 1, count do a = list[i](a, x) end
    return a
  end
end

local function chain(i) return jit.compile(steps(1234567 + 7919 * i, 10)) end

local w, b, rows = ty.ones(64, 64), ty.ones(64), ty.ones(8, 64)
local function product(i)
  local tail = steps(100 + i, 4)
  return jit.compile(function(x)
    local y = x:matmul(w) + b
    return tail(y)
  end)
end

package.path = arg[0]:gsub("[^/]*$", "?.lua;") .. package.path
local models = require "models"(ty)

local function call(f, x, last)
  local started = now()
  f(x):get(1, last)
  return now() - started
end

local function first_beyond_second(make, x, last, count)
  local cold
  local warm = {}
  for i = 1, count or 100 do
    local f, own = make(i)
    x = own or x
    local first = call(f, x, last)
    local again = math.min(call(f, x, last), call(f, x, last))
    if cold then warm[#warm + 1] = first - again else cold = first - again end
  end
  return cold, at(warm, 0.5)
end

--- One call in 20 is of a new function, one in 20 is of a new shape.
local function calls()
  local f, x = chain(0), ty.ones(256)
  local times, known = {}, {}
  for i = 1, 10000 do
    local g, v = f, x
    if i % 20 == 0 then g = chain(i) end
    if i % 20 == 10 then v = ty.ones(100 + i / 10) end
    local started = now()
    g(v):get(1)
    times[i] = now() - started
    if g == f and v == x then known[#known + 1] = times[i] end
  end
  local usual = at(known, 0.5)
  return at(times, 0.999) - usual, times[#times] - usual
end

local function network(maker, ...)
  local sizes = { ... }
  return function()
    local f, x = maker(unpack(sizes))
    return jit.compile(f), x
  end
end

--- Nothing is subtracted: the step is learnt, compiled and made.
local function first_step()
  local list = {}
  for i = 1, 11 do
    local step, x = models.step({ 784, 128, 10 }, 64)
    step = jit.compile(step)
    local started = now()
    step(x):item()
    list[i] = now() - started
  end
  local first = table.remove(list, 1)
  return first, at(list, 0.5)
end

--- The time on the wall, or of all threads of this process.
local function clock(which)
  ffi.C.clock_gettime(which, tick)
  return tonumber(tick.seconds) + 1e-9 * tonumber(tick.nanoseconds)
end

local function beyond_slices()
  local WALL, PROCESS, BUDGET = 1, 2, 1e-3
  local step, x = models.step({ 784, 128, 10 }, 256)
  step = jit.compile(step)
  for _ = 1, 3 do step(x) end
  local list = {}
  for _ = 1, 100 do
    local run = jit.start(step, x)
    local done
    repeat
      local wall, own = clock(WALL), clock(PROCESS)
      done = run:step(BUDGET * 1e6)
      local took = math.min(clock(WALL) - wall, clock(PROCESS) - own)
      if not done then list[#list + 1] = math.max(took - BUDGET, 0) end
    until done
  end
  return at(list, 0.5), at(list, 0.99)
end

local several = jit.compile(function(x, name) return name .. "!", x * 2 + 1 end)
local captured = 0

--- Bytes that are held once the function was captured `count` times: each name is a value that guards hold.
local function held(count)
  local x = ty.ones(4)
  while captured < count do
    captured = captured + 1
    jit.warmup(several, x, "name" .. captured) -- or captures that are not used again would rest
  end
  assert(jit.explain(several).captures == count, "a call was not captured")
  collectgarbage()
  collectgarbage()
  return collectgarbage "count" * 1024 + ty.stats().memory.general
end

ty.threads(1)
local _ = (ty.ones(256) + 1):sum():item() -- the library has run
local what = ...
local p, q
if what == "chain" then p, q = first_beyond_second(chain, ty.ones(1, 256), 1)
elseif what == "product" then p, q = first_beyond_second(product, rows, 1)
elseif what == "mlp" then p, q = first_beyond_second(network(models.mlp, 64, 4), nil, 1)
elseif what == "transformer" then p, q = first_beyond_second(network(models.transformer, 12, 64, 16), nil, 1, 12)
elseif what == "step" then p, q = first_step()
elseif what == "slices" then p, q = beyond_slices()
elseif what == "memory" then p, q = held(200), held(1000)
else p, q = calls() end
print(("%.9g %.9g"):format(p, q))
