--- cuda.lua -- speed of the device "cuda" beside PyTorch and JAX: `make bench-cuda`.
--    luajit bench/cuda.lua [--soft]
-- In: NVIDIA's driver and a card; python3 with torch or jax where it is to be compared. Out: a row for each case:
-- microseconds of a call (median of rounds), GB/s or TFLOP/s, launches of a call, the peers' times and their ratio
-- (above 1: faster than the peer). --soft: the software GPU of spec/gpu; sizes are small, and what can be counted
-- stands in the rows instead: launches, warp instructions, sectors of global memory by the least that would do,
-- wavefronts of shared memory likewise, bytes copied.

local soft = arg[1] == "--soft"
local ffi = require "ffi"
ffi.cdef [[
int setenv(const char *name, const char *value, int overwrite);
typedef struct { long seconds, nanoseconds; } BenchClock;
int clock_gettime(int id, BenchClock *now);
uint64_t soft_gpu_count(const char *name);
void soft_gpu_reset_counts(void);
]]
local BUILD = os.getenv "TYCHO_BUILD" or "build"
local library
if soft then
  local path = ("./%s/spec/libcuda.so"):format(BUILD)
  ffi.C.setenv("TYCHO_CUDA_DRIVER", path, 1)
  ffi.C.setenv("TYCHO_CACHE", "off", 1)
  ffi.C.setenv("TYCHO_NVJITLINK", "off", 1)
  ffi.C.setenv("TYCHO_CUDNN", "off", 0)
  ffi.C.setenv("SOFT_GPU_APPROXIMATE", "1", 0) -- of fast kernels
  library = ffi.load(path)
end
local ty = require "tycho"
local ok, why = ty.cuda.is_available()
if not ok then
  io.stderr:write("bench/cuda.lua: ", why, "\n")
  os.exit(1)
end
ty.manual_seed(1)
assert(ty.device "cuda")

local function now()
  local c = ffi.new "BenchClock"
  ffi.C.clock_gettime(1, c)
  return tonumber(c.seconds) * 1e6 + tonumber(c.nanoseconds) * 1e-3
end

-- Sizes: of a card, of the software GPU.
local side, rows, small = soft and 128 or 4096, soft and 64 or 8192, soft and 16 or 128

--- name, a function that is called again and again, bytes that it moves or nil, operations that it does or nil.
local function cases()
  local x, y = ty.randn(rows, side), ty.randn(rows, side)
  local a, b = ty.randn(side, side), ty.randn(side, side)
  local chain = ty.compile(function(v)
    for i = 1, 10 do v = v:flip(1):cumsum(1) * (1 / i) end
    return v
  end)
  local short = ty.randn(small)
  local model = ty.nn.Sequential(ty.nn.Linear(784, 128), ty.nn.ReLU(), ty.nn.Linear(128, 10))
  local opt = ty.optim.SGD(model:parameters(), { lr = 0.01 })
  local input, labels = ty.rand(small, 784), ty.randint(1, 10, { small })
  local train = ty.compile(function(u, v)
    opt:zero_grad()
    local loss = ty.cross_entropy(model(u), v)
    loss:backward()
    opt:step()
    return loss:detach()
  end)
  local map = ty.compile(function(u, v) return (u * 2 + v):tanh() end)
  -- causal, of bf16, by cuDNN where there is one: half of the pairs count
  local positions = soft and 64 or 2048
  local heads = ty.randn(2, 16, positions, 64):to "bf16"
  local attend = ty.compile(function(q) return ty.scaled_dot_product_attention(q, q, q, { causal = true }) end)
  local function attention()
    ty.precision "fast"
    local result = attend(heads)
    ty.precision "exact"
    return result
  end
  local bytes = rows * side * 4
  return {
    { "map", function() return map(x, y) end, 3 * bytes },
    { "row_sum", function() return x:sum(2) end, bytes },
    { "column_sum", function() return x:sum(1) end, bytes },
    { "softmax", function() return x:softmax(2) end, 2 * bytes },
    { "cumsum", function() return x:cumsum(2) end, 2 * bytes },
    { "matmul", function() return a:matmul(b) end, nil, 2 * side ^ 3 },
    { "attention", attention, nil, 2 * 2 * 16 * positions ^ 2 * 64 },
    { "chain_of_10", function() return chain(short) end },
    { "train_mlp", function() return train(input, labels) end },
  }
end

--- Median of rounds, microseconds of a call.
local function timed(f)
  for _ = 1, 6 do -- kernels, then those of graphs, are assembled
    f()
    ty.cuda.settle()
  end
  ty.synchronize()
  local times = {}
  for round = 1, 15 do
    local from, n = now(), 0
    repeat
      for _ = 1, 10 do f() end
      n = n + 10
      ty.synchronize()
    until now() - from > 20e3
    times[round] = (now() - from) / n
  end
  table.sort(times)
  return times[8]
end

--- The peers' times by name: {torch = {map = 12.3, ...}, jax = ...}; empty where they are not found.
local function peers()
  local found = {}
  local p = io.popen(("python3 bench/cuda_peers.py %d %d %d 2>/dev/null"):format(side, rows, small))
  for line in p:lines() do
    local peer, name, time = line:match "^(%w+) (%w+) ([%d.]+)$"
    if peer then
      found[peer] = found[peer] or {}
      found[peer][name] = tonumber(time)
    end
  end
  p:close()
  return found
end

local function counts_of(f)
  for _ = 1, 6 do
    f()
    ty.cuda.settle()
  end
  ty.synchronize()
  library.soft_gpu_reset_counts()
  local was = ty.cuda.launches()
  f()
  ty.synchronize()
  local is = ty.cuda.launches()
  local n = function(name) return tonumber(library.soft_gpu_count(name)) end
  local function ratio(a, b) return b > 0 and a / b or 1 end
  return ("%9d %9d %9d %12d %9.2f %9.2f %9d"):format(is.kernels - was.kernels, is.replays - was.replays, n "launches",
    n "warp_instructions", ratio(n "global_sectors", n "global_ideal"), ratio(n "shared_wavefronts", n "shared_ideal"),
    n "copied_bytes")
end

local device = ty.cuda.devices()[1]
print(("%s, sm_%d, driver %d.%d"):format(device.name, device.capability, device.driver / 1000,
  device.driver % 1000 / 10))
if soft then
  print(("%-12s %9s %9s %9s %12s %9s %9s %9s"):format("case", "singly", "graphs", "kernels", "instructions", "sectors",
    "shared", "copied"))
  for _, case in ipairs(cases()) do print(("%-12s %s"):format(case[1], counts_of(case[2]))) end
  return
end
local beside = peers()
print(("%-12s %10s %12s %10s %10s"):format("case", "us", "rate", "torch", "jax"))
for _, case in ipairs(cases()) do
  local time = timed(case[2])
  local rate = case[3] and ("%.0f GB/s"):format(case[3] / time / 1e3)
    or case[4] and ("%.1f TFLOP/s"):format(case[4] / time / 1e6) or ""
  local function ratio(peer)
    local other = beside[peer] and beside[peer][case[1]]
    return other and ("%.2f x"):format(other / time) or "-"
  end
  print(("%-12s %10.1f %12s %10s %10s"):format(case[1], time, rate, ratio "torch", ratio "jax"))
end
