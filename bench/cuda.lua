--- cuda.lua -- speed of the device "cuda" beside the driver's copy, PyTorch and JAX: `make bench-cuda`.
--    luajit bench/cuda.lua [--soft] [--small] [--only=map,matmul] [--python=python3] [--peers=cuda]
-- In: NVIDIA's driver and a card; a Python with torch or jax, where it is to be compared. Out: a row for each case of
-- cuda_cases.lua as soon as it is measured: microseconds of a call (median of rounds), GB/s or TFLOP/s, the marks.
-- Then a line for each time of a peer, which runs afterwards, in a process of its own, so that none shares the card;
-- it is ended after ten minutes. Then the table of all, and how many marks are met. A case that raises has its error
-- for a row, and the exit status is 1.
-- --small: sizes that any device does in no time, and --peers=cpu: peers on the CPU, both to prove this file. --soft:
-- the software GPU of spec/gpu with such sizes, and what can be counted in the rows instead of times:
--   singly     kernels that were launched by themselves          graphs  launches of a graph, which is many kernels
--   kernels    that ran, by either way                           instructions  that warps executed
--   sectors    of 32 bytes of global memory that were touched, by the least that would do: 1 is ideal
--   shared     passes of shared memory, by the least: 1 is without conflicts of banks
--   copied     bytes between CPU and device
-- What a library computes (cuBLASLt; here its stand-in) is in none of them.

local ffi = require "ffi"
ffi.cdef [[
int setenv(const char *name, const char *value, int overwrite);
typedef struct { long seconds, nanoseconds; } BenchClock;
int clock_gettime(int id, BenchClock *now);
uint64_t soft_gpu_count(const char *name);
void soft_gpu_reset_counts(void);
]]
local BUILD = os.getenv "TYCHO_BUILD" or "build"
local options = { only = "", python = "python3", peers = "cuda" }
for _, word in ipairs(arg) do
  local name, value = word:match "^%-%-(%w+)=(.*)$"
  if word == "--soft" or word == "--small" then options[word:sub(3)] = true
  elseif name and options[name] then options[name] = value
  else
    io.stderr:write(("bench/cuda.lua: unknown option %s; the head of this file has all\n"):format(word))
    os.exit(2)
  end
end
local soft, library = options.soft, nil
if soft then
  local path = ("./%s/spec/libcuda.so"):format(BUILD)
  ffi.C.setenv("TYCHO_CUDA_DRIVER", path, 1)
  ffi.C.setenv("TYCHO_CACHE", "off", 1)
  ffi.C.setenv("TYCHO_NVJITLINK", "off", 1)
  ffi.C.setenv("TYCHO_CUBLASLT", ("./%s/spec/soft_cublaslt.so"):format(BUILD), 0)
  ffi.C.setenv("TYCHO_CUDNN", "off", 0) -- the device's own kernel is what can be counted
  ffi.C.setenv("SOFT_GPU_APPROXIMATE", "1", 0) -- fast kernels may take the processor's own exp2
  library = ffi.load(path)
end
package.path = "./?.lua;" .. package.path
local ty = require "tycho"
local ok, why = ty.cuda.is_available()
if not ok then
  io.stderr:write("bench/cuda.lua: ", why, "\n")
  os.exit(1)
end
ty.manual_seed(1)
assert(ty.device "cuda")

-- Small sizes, and those of a card, in the order in which cuda_peers.py takes them. heads, length, width: attention's;
-- texts: of the GPT's batch; images, channels: ResNet's.
local ORDER = { "side", "rows", "small", "heads", "length", "width", "texts", "images", "channels" }
local chosen, sizes = (soft or options.small) and { 128, 64, 16, 2, 128, 64, 2, 2, 8 }
  or { 4096, 8192, 128, 32, 4096, 64, 16, 128, 64 }, {}
for i, name in ipairs(ORDER) do sizes[name] = chosen[i] end

local WALL, THREAD = 1, 3 -- clocks

local function now(clock)
  local c = ffi.new "BenchClock"
  ffi.C.clock_gettime(clock, c)
  return tonumber(c.seconds) * 1e6 + tonumber(c.nanoseconds) * 1e-3
end

--- Kernels, then those of graphs, are assembled.
local function warm(f)
  for _ = 1, 6 do
    f()
    ty.cuda.settle()
  end
  ty.synchronize()
end

local ROUNDS, CALLS = 15, 10

--- Median of rounds, microseconds of a call; where cpu is true of the thread alone, while the device is not waited for.
local function timed(f, cpu)
  warm(f)
  local times, clock = {}, cpu and THREAD or WALL
  for round = 1, ROUNDS do
    local began, spent, n = now(WALL), 0, 0
    repeat
      local from = now(clock)
      for _ = 1, CALLS do f() end
      n = n + CALLS
      if cpu then spent = spent + now(clock) - from end
      ty.synchronize()
      if not cpu then spent = spent + now(clock) - from end
    until now(WALL) - began > 20e3
    times[round] = spent / n
  end
  table.sort(times)
  return times[math.ceil(ROUNDS / 2)]
end

local function counts_of(f)
  warm(f)
  library.soft_gpu_reset_counts()
  local was = ty.cuda.launches()
  f()
  ty.synchronize()
  local is = ty.cuda.launches()
  local n = function(name) return tonumber(library.soft_gpu_count(name)) end
  local function ratio(a, b) return b > 0 and a / b or 1 end
  return ("%7d %7d %8d %13d %8.2f %8.2f %8d"):format(is.kernels - was.kernels, is.replays - was.replays, n "launches",
    n "warp_instructions", ratio(n "global_sectors", n "global_ideal"), ratio(n "shared_wavefronts", n "shared_ideal"),
    n "copied_bytes")
end

-- --- marks

local copy -- bytes that the driver's own reads and writes in a second
local beside = {} -- the peers' times: {torch = {map = 12.3, ...}, jax = ...}
local results = {} -- {case =, time =} in order, and by name

--- Whether this process has loaded a library of that name.
local function has_loaded(name)
  for line in io.lines "/proc/self/maps" do
    if line:find(name, 1, true) then return true end
  end
  return false
end

--- What a case has reached of a mark; nil where there is nothing to hold it against.
local function reached(mark, case, time)
  if mark.of == "us" then return time end
  if mark.of == "copy" then return copy and case.bytes / (time * 1e-6) / copy end
  local other = beside[mark.of] and beside[mark.of][case.name]
  return other and other / time
end

--- Its marks as text; counts: {met =, MISSED =, open =}, which go up.
local function judged(result, counts)
  local list = {}
  for i, mark in ipairs(result.case.marks or {}) do
    local got, what = reached(mark, result.case, result.time), mark.of == "us" and " us" or " x " .. mark.of
    local least = mark.library and not has_loaded(mark.library) and mark.without or mark.least
    local asked = least and (">= %.2f%s"):format(least, what) or ("<= %.2f%s"):format(mark.most, what)
    local good = got and (not least or got >= least) and (not mark.most or got <= mark.most)
    local verdict = not got and "open" or good and "met" or "MISSED"
    counts[verdict] = counts[verdict] + 1
    list[i] = got and ("%s %.2f (%s)"):format(verdict, got, asked) or ("%s (%s)"):format(verdict, asked)
  end
  return table.concat(list, ", ")
end

local function row_of(result, counts)
  local case, time = result.case, result.time
  local rate = case.bytes and ("%.0f GB/s"):format(case.bytes / time / 1e3)
    or case.flops and ("%.2f TFLOP/s"):format(case.flops / time / 1e6) or ""
  local function ratio(peer)
    local other = beside[peer] and beside[peer][case.name]
    return other and ("%.2f"):format(other / time) or "-"
  end
  return ("%10.1f %14s %8s %8s  %s"):format(time, rate, ratio "torch", ratio "jax", judged(result, counts))
end

-- --- rows

local function say(...)
  print(...)
  io.flush()
end

local failed = 0

--- A row for each case that is asked for, by row(case, f).
local function each(row)
  for _, case in ipairs(require "bench.cuda_cases"(ty, sizes)) do
    if options.only == "" or ("," .. options.only .. ","):find("," .. case.name .. ",", 1, true) then
      ty.precision(case.precision or "exact")
      local fine, text = pcall(function() return row(case, case.make()) end)
      if not fine then failed = failed + 1 end
      say(("%-20s %s"):format(case.name, fine and text or "raises " .. tostring(text)))
      collectgarbage()
      collectgarbage()
      pcall(ty.cuda.empty_cache)
    end
  end
  if failed > 0 then say(failed .. " cases raise") end
end

local HEAD = ("%-20s %10s %14s %8s %8s  %s"):format("case", "us", "rate", "x torch", "x jax", "marks")

local function count_all()
  say(("%-20s %7s %7s %8s %13s %8s %8s %8s"):format("case", "singly", "graphs", "kernels", "instructions", "sectors",
    "shared", "copied"))
  each(function(_, f) return counts_of(f) end)
  say "sectors of global memory, passes of shared memory: by the least that would do; bench/cuda.lua's head has all"
end

local function measure_all()
  local why_not
  local driver = os.getenv "TYCHO_CUDA_DRIVER" or "libcuda.so.1"
  copy, why_not = require "bench.cuda_copy"(driver, sizes.rows * sizes.side * 4)
  say(copy and ("the driver's copy: %.0f GB/s read and written"):format(copy / 1e9) or "the driver's copy: " .. why_not)
  say(HEAD)
  each(function(case, f)
    local result = { case = case, time = timed(f, case.cpu) }
    results[#results + 1], results[case.name] = result, result
    return row_of(result, { met = 0, MISSED = 0, open = 0 })
  end)
end

--- Peers run; their times are told as they come.
local function hear_peers()
  local said = {}
  say "peers: torch, jax"
  local p = io.popen(("timeout -k 5 600 %s bench/cuda_peers.py %s %s 2>&1"):format(options.python,
    table.concat(chosen, " "), options.peers))
  for line in p:lines() do
    local peer, name, time = line:match "^(%w+) ([%w_]+) ([%d.]+)$"
    if peer == "torch" or peer == "jax" then
      beside[peer] = beside[peer] or {}
      beside[peer][name] = tonumber(time)
      local result = results[name]
      say(("  %s %-20s %10.1f us%s"):format(peer, name, time, result and (", %.2f x"):format(time / result.time) or ""))
    elseif line:find "^torch " or line:find "^jax " then
      said[#said + 1] = line
      say("  " .. line)
    end
  end
  p:close()
  if #said == 0 then say(("  %s does not run"):format(options.python)) end
end

local device = ty.cuda.devices()[1]
say(("%s, sm_%d, driver %d.%d"):format(device.name, device.capability, device.driver / 1000, device.driver % 1000 / 10))
if soft then
  count_all()
  os.exit(failed == 0 and 0 or 1)
end
measure_all()
hear_peers()
local counts = { met = 0, MISSED = 0, open = 0 }
say("\n" .. HEAD)
for _, result in ipairs(results) do say(("%-20s %s"):format(result.case.name, row_of(result, counts))) end
say(("%d marks met, %d missed, %d open: nothing to hold them against"):format(counts.met, counts.MISSED, counts.open))
os.exit(failed == 0 and 0 or 1)
