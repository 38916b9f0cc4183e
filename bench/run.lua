--- make bench: speed, each row beside its floor, and beside NumPy and PyTorch where python3 has them.
-- In: build/bench/floor.so beside the library; TYCHO_PEERS_PYTHON names a python (else python3), and with
-- TYCHO_PEERS_COMPILE=1 torch.compile takes part too (half a minute more).
-- Out: a table; exit code 0 also where a mark is missed. One thread everywhere, float32.
--
-- Honest timing: counted is the time that the process computed, so that others disturb little (start-up
-- alone is wall time). Every row is measured in each of several rounds: ours, its floor and the peers one
-- right after the other. A row shows medians over the rounds, and the median of the ratios within a round.
-- A compiled call is followed by a read of one element, which makes the pending result whole.
--   luajit bench/run.lua [rounds = 7] [only rows whose name contains this]

local ffi = require "ffi"
local ty = require "tycho"

local ROUNDS, ONLY = tonumber(arg[1]) or 7, arg[2]
local BATCH = 0.03 -- seconds that one measurement of one row lasts, about
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local build = here .. "/../build/bench"
local luajit = "luajit"
for i = -1, -9, -1 do luajit = arg[i] or luajit end

ffi.cdef [[
  typedef struct { long seconds, nanoseconds; } timespec;
  int clock_gettime(int clock, timespec *t);
  int posix_spawnp(int *pid, const char *file, void *actions, void *attributes, char *const argv[],
                   char *const environment[]);
  int waitpid(int pid, int *status, int options);
  extern char **environ;
  void *aligned_alloc(size_t alignment, size_t bytes);
  double floor_read(const float *x, long n, long times);
  double floor_write(float *x, long n, long times);
  double floor_fma(long rounds);
  void floor_chain(const float *x, float *y, long n);
  void floor_softmax(const float *x, float *y, long rows, long n);
  void floor_layer_norm(const float *x, float *y, long rows, long n);
]]
local C = ffi.load(build .. "/floor.so")
local native = assert(package.loadlib(build .. "/floor.so", "luaopen_floor"))()

-- Time.

local tick = ffi.new("timespec")

local WALL, OWN = 1, 2 -- CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID

local function now(clock)
  ffi.C.clock_gettime(clock, tick)
  return tonumber(tick.seconds) + 1e-9 * tonumber(tick.nanoseconds)
end

local function median(list)
  local sorted = { unpack(list) }
  table.sort(sorted)
  local n = #sorted
  if n == 0 then return nil end
  return (sorted[math.floor((n + 1) / 2)] + sorted[math.floor(n / 2) + 1]) / 2
end

--- Seconds that one call of fn takes: as many calls as fill a batch, the best of three batches, since
--- what disturbs a measurement only ever makes it longer. Collections that fn's own garbage causes count.
local function seconds_of(fn)
  collectgarbage() -- no row pays for another
  local count, taken = 1
  while true do
    local started = now(OWN)
    for _ = 1, count do fn() end
    taken = now(OWN) - started
    if taken > BATCH / 4 then break end
    count = count * (taken > BATCH / 100 and 2 or 8)
  end
  count = math.max(1, math.floor(count * BATCH / 3 / taken))
  local best = math.huge
  for _ = 1, 3 do
    local started = now(OWN)
    for _ = 1, count do fn() end
    best = math.min(best, now(OWN) - started)
  end
  return best / count
end

--- Runs a command to its end; seconds that passed.
local function seconds_of_process(...)
  local words = { ... }
  local argv = ffi.new("char *[?]", #words + 1)
  for i, word in ipairs(words) do argv[i - 1] = ffi.cast("char *", word) end
  local pid, status = ffi.new("int[1]"), ffi.new("int[1]")
  local best = math.huge
  for _ = 1, 10 do
    local started = now(WALL)
    assert(ffi.C.posix_spawnp(pid, argv[0], nil, nil, argv, ffi.C.environ) == 0, words[1])
    ffi.C.waitpid(pid[0], status, 0)
    best = math.min(best, now(WALL) - started)
    assert(status[0] == 0, "a process of the benchmark failed: " .. table.concat(words, " "))
  end
  return best
end

-- Peers: one process that answers a row's name by the seconds of NumPy and of PyTorch.

local peers = {}

function peers.start()
  local python = os.getenv("TYCHO_PEERS_PYTHON") or "python3"
  local fifo = build .. "/answers"
  os.remove(fifo)
  if os.execute(("command -v %q >/dev/null && mkfifo %q"):format(python, fifo)) ~= 0 then return end
  peers.questions = io.popen(("%q %q 2>/dev/null >%q"):format(python, here .. "/peers.py", fifo), "w")
  peers.answers = io.open(fifo)
  os.remove(fifo)
  peers.versions = peers.answers:read("*l") -- nil when there is nothing to compare with
  if not peers.versions then peers.questions = nil end
end

--- Seconds (or bytes) of NumPy, PyTorch, torch.compile for a row; nil where a peer does not know it.
function peers.ask(name)
  if not peers.questions then return end
  peers.questions:write(name, "\n")
  peers.questions:flush()
  local numpy, torch, compiled = (peers.answers:read("*l") or ""):match("^(%S+) (%S+) (%S+)$")
  return tonumber(numpy), tonumber(torch), tonumber(compiled)
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

--- A row: name; ours, or setup(), which gives it and the tensors that it needs while it is measured; floor. They
--- are functions to be timed, or (raw) that measure by themselves. what: what the floor is; mark: a number that
--- ours, or ours/floor with mark_of = "ratio", must not pass.
local function row(r)
  if not ONLY or r.name:find(ONLY, 1, true) then rows[#rows + 1] = r end
end

local function whole(y) return y:get(1) end
local function whole2(y) return y:get(1, 1) end

do
  local a, b = ty.tensor { 1, 2, 3, 4 }, ty.tensor { 5, 6, 7, 8 }
  local u, v = native.vector4(1, 2, 3, 4), native.vector4(5, 6, 7, 8)
  local add = native.add4
  row { name = "add, 4 elements, eager", peer = "add4", what = "a C function of Lua's",
    ours = function() return a + b end,
    floor = function() return add(u, v) end, mark = 0.2e-6, unit = "us" }
  local compiled = jit.compile(function(x, y) return x + y end)
  row { name = "call of a compiled x + y, 4 elements", peer = "add4", what = "a C function of Lua's",
    ours = function() return whole(compiled(a, b)) end,
    floor = function() return add(u, v) end, unit = "us" }
end

local compiled_chain = jit.compile(chain)
for _, n in ipairs { 1e2, 1e4, 1e6, 1e7 } do
  local function floor() C.floor_chain(source, target, n) end
  local power = ("1e%d"):format(math.log10(n) + 0.5)
  local unit = n < 1e6 and "us" or "ms"
  row { name = "10 operations, " .. power .. ", compiled", peer = "chain" .. n, what = "fused loop in C",
    setup = function()
      local x = tensor(n)
      return function() return whole(compiled_chain(x)) end
    end,
    floor = floor, unit = unit, mark = n == 1e6 and 1.5 or nil, mark_of = "ratio" }
  row { name = "10 operations, " .. power .. ", eager", peer = "chain" .. n, what = "fused loop in C",
    setup = function()
      local x = tensor(n)
      return function() return chain(x) end
    end,
    floor = floor, unit = unit, eager = true }
end

local softmax = jit.compile(function(t) return t:softmax() end)
local layer_norm = jit.compile(function(t) return t:layer_norm() end)
for _, r in ipairs {
  { name = "softmax", ours = softmax, floor = C.floor_softmax },
  { name = "layer_norm", ours = layer_norm, floor = C.floor_layer_norm },
} do
  row { name = r.name .. " 512x512", peer = r.name, what = "fused loop in C",
    setup = function()
      local x = tensor(512, 512)
      return function() return whole2(r.ours(x)) end
    end,
    floor = function() r.floor(source, target, 512, 512) end, unit = "us" }
end

for _, n in ipairs { 100, 10000 } do
  local x = tensor(n)
  local compiled = jit.compile(breaking)
  row { name = ("2 breaks in 11 operations, 1e%d, compiled"):format(math.log10(n) + 0.5), what = "eager",
    ours = function() return whole(compiled(x)) end,
    floor = function() return whole(breaking(x)) end, unit = "us", mark = 1.1, mark_of = "ratio" }
end

for _, n in ipairs { 512, 1024 } do
  row { name = ("matmul %dx%d"):format(n, n), peer = "matmul" .. n, what = "multiply-add peak",
    setup = function()
      local a = tensor(n, n)
      return function() return a:matmul(a) end
    end,
    floor = function() return 2 * n ^ 3 / C.floor_fma(200000) end, raw_floor = true, unit = "GFLOP/s",
    work = 2 * n ^ 3 }
end

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

local scale = { us = 1e6, ms = 1e3, MB = 1e-6 }

local function show(r, value)
  if not value then return "-" end
  if r.unit == "GFLOP/s" then return ("%.1f"):format(r.work / value / 1e9) end
  local v = value * scale[r.unit]
  return (v < 1 and "%.3f" or v < 100 and "%.2f" or "%.0f"):format(v)
end

local terminal = os.execute("test -t 2") == 0

local function progress(text)
  if not terminal then return end
  io.stderr:write("\r", text, (" "):rep(60 - #text), text == "" and "\r" or "")
  io.stderr:flush()
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

local function measure(r)
  local numpy, torch, compiled
  local ours = r.raw and r.ours() or seconds_of(r.setup and r.setup() or r.ours)
  local floor = r.raw_floor and r.floor() or seconds_of(r.floor)
  if r.peer then numpy, torch, compiled = peers.ask(r.peer) end
  local function note(name, value)
    if not value then return end
    r[name] = r[name] or {}
    table.insert(r[name], value)
  end
  note("all_ours", ours)
  note("all_floor", floor)
  note("all_ratio", ours / floor)
  note("all_numpy", numpy)
  note("all_torch", torch)
  note("all_compiled", compiled)
end

local function verdict(r, ours, ratio)
  if not r.mark then return "", "" end
  if r.mark_of == "ratio" then
    return ("%.1f x"):format(r.mark), ratio <= r.mark and "met" or "MISSED"
  end
  return ("%g %s"):format(r.mark * scale[r.unit], r.unit), ours <= r.mark and "met" or "MISSED"
end

local WORDS = { true, false, true, false, true, false, false, false, false, false, true } -- columns that go left

local function print_table(lines)
  local width = {}
  for _, line in ipairs(lines) do
    for i, cell in ipairs(line) do width[i] = math.max(width[i] or 0, #cell) end
  end
  for _, line in ipairs(lines) do
    local out = {}
    for i, cell in ipairs(line) do
      out[i] = ("%" .. (WORDS[i] and "-" or "") .. math.max(width[i], 1) .. "s"):format(cell)
    end
    print((table.concat(out, "  "):gsub("%s+$", "")))
  end
end

ty.threads(1)
collectgarbage()
local started = now(WALL)
os.execute(("mkdir -p %q"):format(build))
peers.start()
local peak = machine()
for round = 0, ROUNDS do -- round 0 warms up
  for i, r in ipairs(rows) do
    progress(("round %d of %d, row %d of %d: %s"):format(round, ROUNDS, i, #rows, r.name))
    if round > 0 then measure(r)
    elseif not r.raw then
      seconds_of(r.setup and r.setup() or r.ours)
      if r.peer then peers.ask(r.peer) end
    end
  end
end
progress("")

print(("tycho %s, machine %s, 1 thread, medians of %d rounds; beside it %s"):format(ty.version,
  ty.stats().machine, ROUNDS, peers.versions or "nobody: no python with NumPy or PyTorch was found"))
print(("memory: read %.1f GB/s, write %.1f GB/s; near: read %.0f GB/s, write %.0f GB/s; "
  .. "multiply-add peak: %.0f GFLOP/s\n"):format(peak.read / 1e9, peak.write / 1e9, peak.read_near / 1e9,
  peak.write_near / 1e9, peak.fma / 1e9))

local lines = { { "", "ours", "", "floor", "what the floor is", "ours/floor", "NumPy", "PyTorch", "torch.compile",
  "mark", "" } }
for _, r in ipairs(rows) do
  local ours, ratio = median(r.all_ours), median(r.all_ratio)
  local mark, met = verdict(r, ours, ratio)
  lines[#lines + 1] = { r.name, show(r, ours), r.unit, show(r, median(r.all_floor)), r.what,
    ("%.2f"):format(ratio), show(r, median(r.all_numpy or {})), show(r, median(r.all_torch or {})),
    show(r, not r.eager and median(r.all_compiled or {})), mark, met }
end
print_table(lines)
print(("\n%.0f s"):format(now(WALL) - started))
