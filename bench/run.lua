--- make bench: speed, each row beside its floor, and beside NumPy and PyTorch where python3 has them.
-- In: build/bench/floor.so and inside.so beside the library; TYCHO_PEERS_PYTHON names a python (else python3), and with
-- TYCHO_PEERS_COMPILE=1 torch.compile takes part too (a minute more).
-- Out: a table, and a picture of it, build/bench/figures.svg; exit code 0 also where a mark is missed.
-- float32 and one thread, unless a row says other.
--
-- Honest timing: counted is the time that the process computed, so that others disturb little (start-up
-- and rows of two threads are wall time). Every row is measured in each of several rounds: ours, its floor and
-- the peers one right after the other. A row shows medians over the rounds, and the median of the ratios
-- within a round. A compiled call is followed by a read of one element, which makes the pending result whole.
--   luajit bench/run.lua [rounds = 7] [only rows whose name contains this]

local ffi = require "ffi"
local ty = require "tycho"

local ROUNDS, ONLY = tonumber(arg[1]) or 7, arg[2]
local BATCH = 0.015 -- seconds that one measurement of one row lasts, about
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local build = here .. "/../build/bench"
package.path = here .. "/?.lua;" .. package.path
local measure = require "measure"
local now, median, progress, print_table = measure.now, measure.median, measure.progress, measure.print_table
local WALL = measure.WALL
local luajit = "luajit"
for i = -1, -9, -1 do luajit = arg[i] or luajit end

ffi.cdef [[
  int posix_spawnp(int *pid, const char *file, void *actions, void *attributes, char *const argv[],
                   char *const environment[]);
  int waitpid(int pid, int *status, int options);
  int kill(int pid, int signal);
  extern char **environ;
  void *aligned_alloc(size_t alignment, size_t bytes);
  double floor_read(const float *x, long n, long times);
  double floor_write(float *x, long n, long times);
  double floor_fma(long rounds);
  void floor_chain(const float *x, float *y, long n);
  void floor_softmax(const float *x, float *y, long rows, long n);
  void floor_layer_norm(const float *x, float *y, long rows, long n);
  void floor_rounds(const float *x, float *y, long n, long rounds);
  void floor_exp_tanh(const float *x, float *y, long n);
  double floor_two_cores(void);
  double inside_product(long m, long n, long k, const float *a, const float *b, const float *bias, float *y,
                        double seconds);
  void floor_gelu(const float *x, float *y, long n);
  void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                   const float *b, int ldb, float beta, float *y, int ldy);
  void openblas_set_num_threads(int n);
]]
local C, inside = ffi.load(build .. "/floor.so"), ffi.load(build .. "/inside.so")
local has_blas, blas = pcall(ffi.load, "libopenblas.so.0")
local native = assert(package.loadlib(build .. "/floor.so", "luaopen_floor"))()

-- Time.

local function seconds_of(fn, clock) return measure.seconds_of(fn, BATCH, clock) end

--- Starts a command; its process id.
local function spawn(...)
  local words = { ... }
  local argv = ffi.new("char *[?]", #words + 1)
  for i, word in ipairs(words) do argv[i - 1] = ffi.cast("char *", word) end
  local pid = ffi.new("int[1]")
  assert(ffi.C.posix_spawnp(pid, argv[0], nil, nil, argv, ffi.C.environ) == 0, words[1])
  return pid[0]
end

--- Waits for its end; the status.
local function await(pid)
  local status = ffi.new("int[1]")
  ffi.C.waitpid(pid, status, 0)
  return status[0]
end

--- Runs a command to its end; seconds that passed.
local function seconds_of_process(...)
  local best = math.huge
  for _ = 1, 10 do
    local started = now(WALL)
    local status = await(spawn(...))
    best = math.min(best, now(WALL) - started)
    assert(status == 0, "a process of the benchmark failed: " .. table.concat({ ... }, " "))
  end
  return best
end

--- Seconds that one call of fn takes, on average over a time in which the system gives rivals their turns.
local function mean_of(fn)
  local started, count = now(WALL), 0
  repeat
    fn()
    count = count + 1
  until now(WALL) - started > 0.25
  return (now(WALL) - started) / count
end

--- The same while another process spins; should this one die, it soon gives up.
local function mean_beside_rival(fn)
  local rival = spawn(luajit, "-e", "local x = os.clock() while os.clock() - x < 3 do end")
  local taken = mean_of(fn)
  ffi.C.kill(rival, 9)
  await(rival)
  return taken
end

-- Peers: one process that answers a row's name by the seconds of NumPy and of PyTorch.

local peers = { known = {} }

function peers.start() peers.versions, peers.answer = measure.peers(here .. "/peers.py", build) end

--- Seconds (or bytes) of NumPy, PyTorch, torch.compile, JAX for a row; nil where a peer does not know it.
--- Rows that ask the same within a round share the answer.
function peers.ask(name)
  if not peers.answer then return end
  local known = peers.known[name]
  if known then return unpack(known, 1, 4) end
  local numpy, torch, compiled, jax = peers.answer(name):match("^(%S+) (%S+) (%S+) (%S+)$")
  peers.known[name] = { tonumber(numpy), tonumber(torch), tonumber(compiled), tonumber(jax) }
  return unpack(peers.known[name], 1, 4)
end

-- Memory that rows and floors share, outside of Lua's heap, whose size tells how often it is collected.

local WIDEST = 10000000

local function floats(n)
  local p = ffi.cast("float *", ffi.C.aligned_alloc(64, 4 * n))
  for i = 0, n - 1 do p[i] = (i * 37 % 1000) / 250 - 2 end
  return p
end
local source, target = floats(WIDEST), floats(WIDEST)

--- A tensor with the same values. Its own memory: what others may change is never read late.
local function tensor(...)
  return ty.from_ptr(source, { ... }, "f32"):clone()
end

-- Rows.

local function chain(x)
  local a = x * 1.01 + 0.5
  a = a * x - x
  a = a:abs() * 0.25 + x
  a = a:maximum(0.1)
  a = a * a
  return a:minimum(6)
end

local function breaking(x)
  local a = x * 1.01 + 0.5
  a = a * x - x
  if a:max():item() > 1000 then a = a * 0.5 end
  a = a:abs() + x
  a = a * 0.25
  if a:sum():item() < -1e9 then a = -a end
  a = a * a - x
  return a:minimum(6)
end

local rows = {}

--- A row:
---   name, unit   with work, the operations, bytes or elements of a call, where the unit is a rate or for each
---   ours         a function to be timed, or setup() gives it and keeps what it needs while it is measured;
---                raw: it measures by itself and gives seconds or bytes
---   floor, what  likewise, raw_floor, make_floor (it is a setup); what it is. `by` counts its time, if not that of
---                ours (WALL or OWN)
---   threads      of ours
---   blas         OpenBLAS for the same
---   peer         the name under which peers.py knows it
---   mark         ours must not be slower: a number in SI units, or for rates, in the row's unit, not less
---   most         ours / floor must not be more
---   beats        ours must not be slower than "blas", "torch" or "numpy"
---   times        but so many times as fast
---   remark       in place of a mark
---   plot         its name in the picture
local function row(r)
  if not ONLY or r.name:find(ONLY, 1, true) then rows[#rows + 1] = r end
  return r
end

local function whole(y) return y:get(1) end
local function whole2(y) return y:get(1, 1) end

do
  local a, b = ty.tensor { 1, 2, 3, 4 }, ty.tensor { 5, 6, 7, 8 }
  local u, v = native.vector4(1, 2, 3, 4), native.vector4(5, 6, 7, 8)
  local add = native.add4
  row { name = "add, 4 elements, eager", peer = "add4", what = "a C function of Lua's",
    ours = function() return a + b end,
    floor = function() return add(u, v) end, mark = 0.2e-6, unit = "us", plot = "add, 4 elements" }
  local compiled = jit.compile(function(x, y) return x + y end)
  row { name = "call of a compiled x + y, 4 elements", peer = "add4", what = "a C function of Lua's",
    ours = function() return whole(compiled(a, b)) end,
    floor = function() return add(u, v) end, unit = "us" }
end

local compiled_chain = jit.compile(chain)
for _, r in ipairs { { 1e2, 0.4e-6, 20 }, { 1e4, 2e-6, 1.6 }, { 1e6, 520e-6, 1.16 }, { 1e7, 6.5e-3, 1.3 } } do
  local n = r[1]
  local function floor() C.floor_chain(source, target, n) end
  local power = ("1e%d"):format(math.log10(n) + 0.5)
  local unit = n < 1e6 and "us" or "ms"
  row { name = "10 operations, " .. power .. ", compiled", peer = "chain" .. n, what = "fused loop in C",
    plot = n >= 1e4 and "10 operations, " .. power,
    setup = function()
      local x = tensor(n)
      return function() return whole(compiled_chain(x)) end
    end,
    floor = floor, unit = unit, mark = r[2], most = r[3] }
  row { name = "10 operations, " .. power .. ", eager", peer = "chain" .. n, what = "fused loop in C",
    setup = function()
      local x = tensor(n)
      return function() return chain(x) end
    end,
    floor = floor, unit = unit, eager = true, beats = n == 1e6 and "torch" or nil }
end
local exp_tanh = jit.compile(function(x) return (x * 0.5):exp() * x:tanh() + x end)
row { name = "exp and tanh, 1e6", peer = "exp_tanh", what = "fused loop in C", plot = "exp and tanh, 1e6",
  setup = function()
    local x = tensor(1e6)
    return function() return whole(exp_tanh(x)) end
  end,
  floor = function() C.floor_exp_tanh(source, target, 1e6) end, unit = "ms", mark = 0.85e-3, most = 1.2 }

for _, r in ipairs { { 6, 0.40e-9, 1.18 }, { 20, 1.4e-9, 1.27 } } do
  local count = r[1]
  local compiled = jit.compile(function(x)
    local a = x
    for _ = 1, count do a = ((a * 0.9):maximum(0.5) + x):abs():minimum(3) end
    return a
  end)
  local name = ("%d operations, n = 4096"):format(5 * count)
  row { name = name, peer = "rounds" .. count, what = "8 vectors side by side, C", plot = name,
    setup = function()
      local x = tensor(4096)
      return function() return whole(compiled(x)) end
    end,
    floor = function() C.floor_rounds(source, target, 4096, count) end,
    unit = "ns/element", work = 4096, mark = r[2], most = r[3] }
  --- What an element costs once the call is paid: two lengths, and the difference of their times.
  local function beyond_call(fn, of)
    return function()
      local long, short = of(16384), of(4096)
      return (seconds_of(function() return fn(long) end) - seconds_of(function() return fn(short) end)) / 3
    end
  end
  row { name = name:gsub("n = 4096", "beyond the call"), what = "8 vectors side by side, C", raw = true,
    ours = beyond_call(function(x) return whole(compiled(x)) end, tensor),
    floor = beyond_call(function(n) C.floor_rounds(source, target, n, count) end, function(n) return n end),
    raw_floor = true, unit = "ns/element", work = 4096, mark = r[2], most = r[3] }
end

local softmax = jit.compile(function(t) return t:softmax() end)
local layer_norm = jit.compile(function(t) return t:layer_norm() end)
local gelu = jit.compile(function(t) return t:gelu() end)
for _, r in ipairs {
  { "softmax", softmax, C.floor_softmax, 155e-6, 1.19 },
  { "layer_norm", layer_norm, C.floor_layer_norm, 90e-6, 1.29 },
  { "gelu", gelu, function(x, y, m, n) C.floor_gelu(x, y, m * n) end, 150e-6, 1.15 },
} do
  row { name = r[1] .. " 512x512", peer = r[1], what = "fused loop in C", plot = r[1]:gsub("_", " ") .. " 512x512",
    setup = function()
      local x = tensor(512, 512)
      return function() return whole2(r[2](x)) end
    end,
    floor = function() r[3](source, target, 512, 512) end, unit = "us", mark = r[4], most = r[5] }
end

for _, n in ipairs { 256, 1024 } do
  local bytes = 4 * n * n
  local function bandwidth()
    local best = 0
    for _ = 1, 3 do best = math.max(best, C.floor_read(source, n * n, n == 256 and 200 or 12)) end
    return bytes / best
  end
  for _, over in ipairs { "rows", "columns", "all" } do
    local dim = ({ rows = 2, columns = 1 })[over]
    row { name = ("sum over %s %dx%d"):format(over, n, n), peer = "sum_" .. over .. n, what = "read bandwidth",
      plot = ("sum over %s %dx%d"):format(over, n, n),
      setup = function()
        local x = tensor(n, n)
        return function() return x:sum(dim) end
      end,
      floor = bandwidth, raw_floor = true, unit = "GB/s", work = bytes,
      mark = n == 256 and 110 or nil, most = n == 1024 and 1.1 or nil }
  end
  local x
  row { name = ("sums over columns beside rows, %d"):format(n), what = "sum over rows",
    setup = function()
      x = tensor(n, n)
      return function() return x:sum(1) end
    end,
    floor = function() return x:sum(2) end, unit = "us", most = 1.3 }
end

for _, n in ipairs { 100, 10000 } do
  local x = tensor(n)
  local compiled = jit.compile(breaking)
  row { name = ("2 breaks in 11 operations, 1e%d, compiled"):format(math.log10(n) + 0.5), what = "eager",
    ours = function() return whole(compiled(x)) end,
    floor = function() return whole(breaking(x)) end, unit = "us", most = 1.1 }
end

-- Products. OpenBLAS is called by FFI into memory that is there already, without bias and relu.

local function openblas(m, n, k, threads)
  if not has_blas then return end
  return function()
    blas.openblas_set_num_threads(threads or 1)
    blas.cblas_sgemm(101, 111, 111, m, n, k, 1, source, k, source, n, 0, target, n)
  end
end

local function peak(m, n, k) return function() return 2 * m * n * k / C.floor_fma(200000) end end

--- Seconds of a product in C, without the call from Lua, or of one with bias and relu.
local function from_c(m, n, k, dense)
  local a, b = source, source + m * k
  return function() return inside.inside_product(m, n, k, a, b, dense and b + k * n or nil, target, BATCH) end
end

local small, small_c = {}, {}
for _, size in ipairs {
  { 16, 16, 16 }, { 32, 32, 32 }, { 64, 64, 64 }, { 128, 128, 128 }, { 8, 64, 64 }, { 32, 128, 784 },
} do
  local m, n, k = unpack(size)
  local shape = ("%dx%dx%d"):format(m, k, n)
  small[#small + 1] = row { name = "product " .. shape, peer = ("product%dx%dx%d"):format(m, n, k),
    what = "multiply-add peak", plot = m >= 32 and "product " .. shape,
    setup = function()
      local a, b = tensor(m, k), tensor(k, n)
      return function() return a:matmul(b) end
    end,
    floor = peak(m, n, k), raw_floor = true, blas = openblas(m, n, k), unit = "GFLOP/s", work = 2 * m * n * k,
    mark = 150 }
  small_c[#small_c + 1] = row { name = "product " .. shape .. ", from C", what = "multiply-add peak",
    raw = true, ours = from_c(m, n, k), floor = peak(m, n, k), raw_floor = true, blas = openblas(m, n, k),
    unit = "GFLOP/s", work = 2 * m * n * k, mark = 150 }
end

for _, n in ipairs { 16, 32 } do -- the call is shared by many
  local one = openblas(n, n, n)
  row { name = ("%d products %dx%dx%d at once"):format(256, n, n, n), what = "multiply-add peak",
    setup = function()
      local a = tensor(256, n, n)
      return function() return a:matmul(a) end
    end,
    floor = peak(256 * n, n, n), raw_floor = true, unit = "GFLOP/s", work = 512 * n ^ 3, mark = 150,
    blas = one and function() for _ = 1, 256 do one() end end }
end

for _, size in ipairs { { 8, 64, 64 }, { 32, 128, 784 }, { 512, 512, 512 } } do
  local m, n, k = unpack(size)
  local shape = ("%dx%dx%d"):format(m, k, n)
  local dense = jit.compile(function(x, w, b) return (x:matmul(w) + b):relu() end)
  local plain = jit.compile(function(x, w) return x:matmul(w) end)
  local x, w, b
  local function setup()
    x, w, b = tensor(m, k), tensor(k, n), tensor(n)
    return function() return whole2(dense(x, w, b)) end
  end
  if m < 512 then
    row { name = "product, bias, relu " .. shape, peer = ("dense%dx%dx%d"):format(m, n, k), what = "multiply-add peak",
      plot = "product, bias, relu " .. shape,
      setup = setup, floor = peak(m, n, k), raw_floor = true, blas = openblas(m, n, k), unit = "GFLOP/s",
      work = 2 * m * n * k, mark = 150 }
    row { name = "product, bias, relu " .. shape .. ", from C", what = "multiply-add peak", raw = true,
      ours = from_c(m, n, k, true), floor = peak(m, n, k), raw_floor = true, blas = openblas(m, n, k),
      unit = "GFLOP/s", work = 2 * m * n * k, mark = 150 }
    row { name = "epilogue of bias, relu " .. shape .. ", from C", what = "the product, from C", raw = true,
      ours = from_c(m, n, k, true), floor = from_c(m, n, k), raw_floor = true, unit = "us", most = 1.03 }
  end
  row { name = "epilogue of bias, relu " .. shape, what = "the product, compiled", setup = setup,
    floor = function() return whole2(plain(x, w)) end, unit = "us", most = 1.03 }
end

local flags = ""
for line in io.lines("/proc/cpuinfo") do
  flags = line:match("^flags%s*:(.*)") or flags
  if flags ~= "" then break end
end
local isa = os.getenv("TYCHO_ISA") or flags:find("avx512bw", 1, true) and "avx512" or "avx2"
local two = tonumber(io.popen("nproc"):read("*l")) >= 2

for _, n in ipairs { 512, 1024, 2048 } do
  local a
  local function product() return a:matmul(a) end
  row { name = ("product %d, gemm.c %s"):format(n, isa), peer = "matmul" .. n, what = "multiply-add peak",
    plot = "product " .. n,
    setup = function()
      a = tensor(n, n)
      return product
    end,
    floor = peak(n, n, n), raw_floor = true, blas = openblas(n, n, n), unit = "GFLOP/s", work = 2 * n ^ 3,
    mark = 140, beats = "blas" }
  if two then
    row { name = ("product %d, gemm.c %s, 2 threads"):format(n, isa), what = "the same, 1 thread",
      setup = function()
        a = tensor(n, n)
        return product
      end,
      floor = product, threads = 2, blas = openblas(n, n, n, 2), unit = "GFLOP/s", work = 2 * n ^ 3, by = WALL,
      mark = 260, beats = "blas", most = n == 1024 and 1 / 1.8 or nil }
  end
end

if two then
  local long = jit.compile(function(x)
    local a = x
    for _ = 1, 20 do a = ((a * 0.9):maximum(0.5) + x):abs():minimum(3) end
    return a
  end)
  for _, r in ipairs { { "10 operations, 1e7", compiled_chain, 1e7 }, { "100 operations, 1e6", long, 1e6 } } do
    local x
    local function call() return whole(r[2](x)) end
    row { name = r[1] .. ", 2 threads", what = "the same, 1 thread", threads = 2, by = WALL, unit = "ms",
      setup = function()
        x = tensor(r[3])
        return call
      end,
      floor = call, most = 1 / 1.8 }
  end
end

if two then
  for _, n in ipairs { 512, 1024 } do
    local a
    local function product() return a:matmul(a) end
    local function alone()
      ty.threads(2)
      local taken = mean_of(product)
      ty.threads(1)
      return taken
    end
    row { name = ("product %d, 2 threads, a rival on the cores"):format(n), what = "without the rival", threads = 2,
      raw = true, raw_floor = true, unit = "us", floor = alone, most = 2.2,
      ours = function()
        a = tensor(n, n)
        product()
        return mean_beside_rival(product)
      end }
  end
end

ty.precision "fast"
local bf16_unit = ty.stats().bf16_unit
ty.precision "exact"
row { name = "product 1024, bf16, fast, " .. (bf16_unit and "gemm_amx.c " .. bf16_unit or "gemm.c " .. isa),
  peer = "bf16", what = "f32 multiply-add peak",
  setup = function()
    local a = tensor(1024, 1024):to("bf16")
    return function()
      ty.precision("fast")
      local y = a:matmul(a)
      ty.precision("exact")
      return y
    end
  end,
  floor = peak(1024, 1024, 1024), raw_floor = true, unit = "GFLOP/s", work = 2 * 1024 ^ 3,
  beats = bf16_unit and "torch" or nil, remark = not bf16_unit and "no unit for bf16 here" or nil }

--- Two numbers that latency.lua finds, in a process of its own.
local function latency(what)
  local pipe = assert(io.popen(("%s %q %s"):format(luajit, here .. "/latency.lua", what)))
  local p, q = assert(pipe:read("*l"), "latency.lua failed"):match("^(%S+) (%S+)$")
  pipe:close()
  return tonumber(p), tonumber(q)
end

for _, r in ipairs {
  { "chain", "new 10 operations, first in a process", "new 10 operations, warm", 50e-6, 10e-6 },
  { "product", "new product with epilogue, first", "new product with epilogue, warm", nil, 150e-6 },
  { "calls", "10,000 calls, 1 in 10 new: p99.9", "10,000 calls, 1 in 10 new: worst", 0.25e-3, 1e-3 },
  { "slices", "training in slices of 1 ms: beyond, median", "training in slices of 1 ms: beyond, p99", 0.1e-3, 0.3e-3,
    "the budget" },
} do
  local second
  row { name = r[2], raw = true, unit = "us", what = r[6] or "a call that is not new", mark = r[4],
    ours = function()
      local first
      first, second = latency(r[1])
      return first
    end }
  row { name = r[3], raw = true, unit = "us", what = r[6] or "a call that is not new", mark = r[5],
    ours = function() return second or select(2, latency(r[1])) end }
end

require "captured"(row, native, latency)
require "depth"(row)
require "parts"(row)
require "attention"(row)
require "files"(row, build)
require "data"(row, build)

local FIRST = 'io.write((require("tycho").ones(4) + 1):sum():item())'
local IDLE = 'require "tycho"'
local RESIDENT = ' for l in io.lines("/proc/self/status") do local kb = l:match("VmRSS:%s+(%d+)") '
  .. 'if kb then io.write(kb, "\\n") end end'

local function start(code)
  return function() return seconds_of_process(luajit, "-e", "io.output('/dev/null') " .. code) end
end

local function resident(code)
  return function()
    local pipe = assert(io.popen(("%s -e %q"):format(luajit, code .. RESIDENT)))
    local kb = assert(tonumber(pipe:read("*l")), "no VmRSS in /proc/self/status")
    pipe:close()
    return kb * 1024
  end
end

row { name = "process, start to end, first result", peer = "start", what = "luajit that does nothing",
  ours = start(FIRST), floor = start(""), raw = true, raw_floor = true,
  unit = "ms", mark = 8e-3 }
row { name = "resident memory, idle", peer = "resident", what = "luajit that does nothing",
  ours = resident(IDLE), floor = resident(""), raw = true, raw_floor = true, unit = "MB", mark = 12e6 }

-- The run.

local scale = { us = 1e6, ms = 1e3, MB = 1e-6, ["ns/element"] = 1e9 }
local rates = { ["GFLOP/s"] = 1e9, ["GB/s"] = 1e9 }

--- A time, or bytes, in the row's unit.
local function in_unit(r, value)
  if rates[r.unit] then return r.work / value / rates[r.unit] end
  return value * scale[r.unit] / (r.unit == "ns/element" and r.work or 1)
end

local function show(r, value)
  if not value then return "-" end
  local v = in_unit(r, value)
  if rates[r.unit] then return ("%.1f"):format(v) end
  return (v < 1 and "%.3f" or v < 100 and "%.2f" or "%.0f"):format(v)
end

--- Bandwidths in bytes and the peak in operations per second: the best of some tries.
local function machine()
  local best = { read = 0, write = 0, read_near = 0, write_near = 0, fma = 0 }
  local near = 65536 -- 256 KB: inside the second-level cache
  local function try(name, rate) best[name] = math.max(best[name], rate) end
  for _ = 1, 5 do
    try("read", C.floor_read(source, WIDEST, 1))
    try("write", C.floor_write(target, WIDEST, 1))
    try("read_near", C.floor_read(source, near, 100))
    try("write_near", C.floor_write(target, near, 100))
    try("fma", C.floor_fma(500000))
  end
  return best
end

local function measure_row(r)
  local numpy, torch, compiled, jax
  local cores = r.threads and C.floor_two_cores()
  ty.threads(r.threads or 1)
  local ours = r.raw and r.ours() or seconds_of(r.setup and r.setup() or r.ours, r.by)
  ty.threads(1)
  local base = r.make_floor and r.floor() or r.floor
  local floor = base and (r.raw_floor and base() or seconds_of(base, r.by))
  local openblas_took = r.blas and seconds_of(r.blas, r.by)
  if r.peer then numpy, torch, compiled, jax = peers.ask(r.peer) end
  local function note(name, value)
    if not value then return end
    r[name] = r[name] or {}
    table.insert(r[name], value)
  end
  note("all_ours", ours)
  note("all_cores", cores and 1 / cores)
  note("all_floor", floor)
  note("all_ratio", floor and ours / floor)
  note("all_blas", openblas_took)
  note("all_numpy", numpy)
  note("all_torch", torch)
  note("all_compiled", compiled)
  note("all_jax", jax)
  local rival = r.beats == "blas" and openblas_took or r.beats == "torch" and torch or r.beats == "numpy" and numpy
  note("all_rival", rival and rival / ours)
end

--- The marks as words, and which of them ours keeps.
local function verdict(r, ours, ratio)
  local words, missed, count = {}, {}, 0
  local function mark(text, kept)
    words[#words + 1], count = text, count + 1
    if not kept then missed[#missed + 1] = text end
  end
  if r.mark then
    local v, rate = in_unit(r, ours), rates[r.unit]
    local limit = rate and r.mark or r.mark * scale[r.unit]
    mark(("%g %s"):format(limit, r.unit), rate and v >= limit or not rate and v <= limit)
  end
  if r.most then mark(("%.2f x"):format(r.most), ratio <= r.most) end
  if r.all_rival then
    local times = r.times and ("%g x "):format(r.times) or ""
    mark(times .. ({ blas = "OpenBLAS", torch = "PyTorch", numpy = "Python's" })[r.beats],
      median(r.all_rival) >= (r.times or 1))
  end
  if r.remark then return r.remark, "" end
  if count == 0 then return "", "" end
  local met = #missed == 0 and "met" or #missed == count and "MISSED" or "MISSED: " .. table.concat(missed, ", ")
  if r.all_cores and #missed > 0 then -- what two threads that only spin gained at the same time
    met = ("%s (2 cores gave %.1f x)"):format(met, median(r.all_cores))
  end
  return table.concat(words, ", "), met
end

--- The first line of a file, or "".
local function line_of(path)
  local f = io.open(path)
  local line = f and f:read("*l") or ""
  if f then f:close() end
  return line
end

-- columns that go left
local WORDS = { true, false, true, false, true, false, false, false, false, false, false, true, true }

ty.threads(1)
collectgarbage()
local started = now(WALL)
os.execute(("mkdir -p %q"):format(build))
peers.start()
local best = machine()
local load = line_of("/proc/loadavg"):match("%S+")
for round = 0, ROUNDS do -- round 0 warms up
  peers.known = {}
  for i, r in ipairs(rows) do
    progress(("round %d of %d, row %d of %d: %s"):format(round, ROUNDS, i, #rows, r.name))
    if round > 0 then measure_row(r)
    elseif not r.raw then (r.setup and r.setup() or r.ours)() end
  end
end
progress("")

print(("tycho %s, machine %s, 1 thread, medians of %d rounds; beside it %s"):format(ty.version,
  ty.stats().machine, ROUNDS, peers.versions or "nobody: no python with NumPy or PyTorch was found"))
print(("load when it began: %s; counted is the process's own time, for rows of 2 threads wall time"):format(
  load or "unknown"))
print(("memory: read %.1f GB/s, write %.1f GB/s; near: read %.0f GB/s, write %.0f GB/s; "
  .. "multiply-add peak: %.0f GFLOP/s\n"):format(best.read / 1e9, best.write / 1e9, best.read_near / 1e9,
  best.write_near / 1e9, best.fma / 1e9))

local lines = { { "", "ours", "", "floor", "what the floor is", "ours/floor", "OpenBLAS", "NumPy", "PyTorch",
  "torch.compile", "JAX", "mark", "" } }
local bars = {}
for _, r in ipairs(rows) do
  local ours, ratio, floor = median(r.all_ours), median(r.all_ratio or {}), median(r.all_floor or {})
  local mark, met = verdict(r, ours, ratio)
  local numpy, torch = median(r.all_numpy or {}), median(r.all_torch or {})
  lines[#lines + 1] = { r.name, show(r, ours), r.unit, show(r, floor), r.what,
    ratio and ("%.2f"):format(ratio) or "-", show(r, median(r.all_blas or {})), show(r, numpy), show(r, torch),
    show(r, not r.eager and median(r.all_compiled or {})), show(r, median(r.all_jax or {})), mark, met }
  if r.plot then
    bars[#bars + 1] = { name = r.plot, value = ("%s %s"):format(show(r, ours), r.unit), ours = ratio,
      numpy = numpy and numpy / floor, torch = torch and torch / floor }
  end
end

--- Small products against a rival: the geometric mean of the ratios. OpenBLAS is called bare; NumPy, as
--- ours, from a language, with memory for the result.
for _, rival in ipairs {
  { small, "all_blas", "OpenBLAS", "", "OpenBLAS, called bare" },
  { small_c, "all_blas", "OpenBLAS", ", from C", "OpenBLAS, called bare" },
  { small, "all_numpy", "NumPy", "", "NumPy's, from Python" },
} do
  local list, key, name, how, what = unpack(rival)
  local sum, n = 0, 0
  for _, r in ipairs(list) do
    for i, took in ipairs(r[key] or {}) do sum, n = sum + math.log(took / r.all_ours[i]), n + 1 end
  end
  if n > 0 then
    local mean = math.exp(sum / n)
    lines[#lines + 1] = { "products up to 128, geometric mean" .. how, ("%.2f"):format(mean), "x " .. name, "-",
      what, "-", "-", "-", "-", "-", "-", "1.5 x", mean >= 1.5 and "met" or "MISSED" }
  end
end
print_table(lines, WORDS)
if not ONLY then
  require("figures")(build .. "/figures.svg", bars, peers.versions)
  print("\npicture: build/bench/figures.svg")
end
print(("\n%.0f s"):format(now(WALL) - started))
