-- Runs specs and fuzzers, as many at a time as there are cores, each in a process of its own: `make test`.
--   luajit spec/run.lua FIXED N SEED [names, as grad or fuzz_lua: all others are left out]
-- In: the specs that lie here, and `fuzzers`, a share of FIXED programs of seed 1 and of N programs of SEED for each. Out: a
-- row for each job when it ends and below it what it printed, what failed once more at the end, and the counts of all as
-- `.ci/run` reads them. A job fails, and counts, that exits with an error, dies of a signal, or never says its counts.
--
-- The longest jobs begin first, so that none is waited for at the end. TEST_SEED, which specs choose their shares by, is SEED.

local ffi = require "ffi"

local FIXED, N, SEED = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
assert(FIXED and N and SEED, "spec/run.lua: FIXED N SEED [names]")
local LOGS, LIMIT = (os.getenv "TYCHO_BUILD" or "build") .. "/test", 900 -- where output goes; seconds after which a job hangs

--- Fuzzers by their shares of the programs. With `capture` each hit is compared with a capture: what differs lacks a guard.
--- With `far` programs run on a second device besides (far.c).
local fuzzers = {
  { "fuzz", 0.255 }, { "fuzz_lua", 0.16 }, { "fuzz_cells", 0.12 }, { "fuzz_library", 0.14 }, { "fuzz_alias", 0.05 },
  { "fuzz_hooks", 0.025 }, { "fuzz_vmap", 0.02 }, { "fuzz_grad", 0.015 }, { "fuzz_lifetimes", 0.05 }, { "fuzz_sizes", 0.01 },
  { "fuzz_scan", 0.01 }, { "fuzz_forward", 0.01 }, { "fuzz_keys", 0.12 },
  { "fuzz_onnx", 0.1 },
  { "fuzz_lua", 0.02, capture = true }, { "fuzz_alias", 0.02, capture = true }, { "fuzz_cells", 0.015, capture = true },
  { "fuzz_library", 0.01, capture = true }, { "fuzz_grad", 0.005, capture = true },
  { "fuzz_sizes", 0.002, capture = true }, { "fuzz_forward", 0.003, capture = true },
  { "fuzz", 0.035, far = true }, { "fuzz_lua", 0.025, far = true }, { "fuzz_grad", 0.003, far = true },
  { "fuzz_forward", 0.002, far = true },
}

--- Specs that run a second time with the second device as that of all tensors; `make test-far` runs more.
local far_specs = { "index", "vmap", "optim" }

--- What takes longest, in seconds of CPU, roughly, and what a program of a fuzzer takes; the order of all else matters little.
local seconds = { bits = 15, dist = 11, collect = 14, embed = 12, export = 12, checked = 11, interrupt = 11, files_memory = 10, hooks = 10,
  pages = 9, x64 = 9, ops = 8, capture = 7, threads = 7, convolution = 7, memory = 7, pool = 7, examples = 6, composite = 6,
  ranges = 6, scalars = 6, files = 6, amx = 5, sizes = 5, layout = 5, matrix = 5, docs = 5, surface = 5, repl = 5, scopes = 4,
  tiles = 4, product = 4, road = 3, slices = 3, orders = 3, graph = 3 }
local of_program = { fuzz = 0.008, fuzz_lua = 0.014, fuzz_grad = 0.05, fuzz_scan = 0.06, fuzz_forward = 0.04, fuzz_keys = 0.005,
  fuzz_hooks = 0.02, fuzz_vmap = 0.017, fuzz_sizes = 0.022, fuzz_alias = 0.006 }

-- --- processes

ffi.cdef [[
typedef struct { long user[2], system[2], rest[14]; } Usage;
int fork(void);
int setenv(const char *name, const char *value, int overwrite);
int execl(const char *path, const char *word, ...);
int wait4(int pid, int *status, int options, Usage *usage);
void _exit(int status);
typedef struct { long seconds, nanoseconds; } Clock;
int clock_gettime(int id, Clock *now);
]]

local function now()
  local c = ffi.new "Clock"
  ffi.C.clock_gettime(1, c)
  return tonumber(c.seconds) + tonumber(c.nanoseconds) * 1e-9
end

local function lines_of(command)
  local pipe, list = io.popen(command), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

--- Starts a job; gives the number of its process, which is the job's own: no shell stays between.
local function start(job)
  job.log, job.began = ("%s/%s.log"):format(LOGS, job.name:gsub("[^%w_]+", "-")), now()
  local command = ("exec timeout --foreground -k 5 %d %s >'%s' 2>&1"):format(LIMIT, job.command, job.log)
  io.flush()
  local pid = ffi.C.fork()
  assert(pid >= 0, "no process can be started")
  if pid == 0 then
    ffi.C.execl("/bin/sh", ffi.cast("const char *", "sh"), ffi.cast("const char *", "-c"), ffi.cast("const char *", command),
      ffi.cast("const char *", nil))
    ffi.C._exit(127)
  end
  return pid
end

--- Waits for whichever process ends first. Gives its number, its status as wait(2) writes it and its seconds of CPU, with
--- those of processes that it waited for.
local function ended()
  local status, usage = ffi.new "int[1]", ffi.new "Usage"
  local pid = ffi.C.wait4(-1, status, 0, usage)
  local u, s = usage.user, usage.system
  return pid, status[0], tonumber(u[0] + s[0]) + tonumber(u[1] + s[1]) * 1e-6
end

-- --- jobs

local function busted()
  local path = lines_of("command -v busted")[1]
  return ("luajit %s --ignore-lua -o spec/report.lua --lpath='./?.lua'"):format(assert(path, "busted is not installed"))
end

local function add_fuzzer(jobs, f, total, seed)
  local programs = math.floor(total * f[2] + 0.5)
  local how = f.capture and " capture" or f.far and " far" or ""
  local environment = f.capture and "env TYCHO_CHECK=capture " or f.far and ("env FUZZ_DEVICE=far FAR_SEED=%d "):format(seed) or ""
  local twice = how == "" and 1 or 2 -- captures to compare with, another device
  jobs[#jobs + 1] = { family = f[1], name = ("%s %d %d%s"):format(f[1], programs, seed, how),
    seconds = programs * (of_program[f[1]] or 0.001) * twice,
    command = ("%sluajit spec/%s.lua %d %d"):format(environment, f[1], programs, seed) }
end

local function all_jobs()
  local jobs, command = {}, busted()
  for _, file in ipairs(lines_of "ls spec/*_spec.lua") do
    local name = file:match "([^/]*)_spec%.lua$"
    jobs[#jobs + 1] = { family = name, name = name .. "_spec.lua", seconds = seconds[name], command = command .. " " .. file }
  end
  for _, name in ipairs(far_specs) do
    jobs[#jobs + 1] = { family = name, name = name .. "_spec.lua far",
      command = ("env FAR_DEFAULT=1 FAR_SEED=%d %s --helper=spec/far.lua spec/%s_spec.lua"):format(SEED, command, name) }
  end
  for _, f in ipairs(fuzzers) do
    add_fuzzer(jobs, f, N, SEED)
    add_fuzzer(jobs, f, FIXED, 1)
  end
  if not os.getenv "TYCHO_CC" then -- another processor
    jobs[#jobs + 1] = { family = "fuzz", name = "fuzz 400 5 avx2", seconds = 3,
      command = "env TYCHO_ISA=avx2 TYCHO_CHECK=1 luajit spec/fuzz.lua 400 5" }
  end
  return jobs
end

--- Those that are asked for, longest first.
local function chosen(jobs, names)
  local wanted, list = {}, {}
  for _, name in ipairs(names) do wanted[name] = true end
  for i, job in ipairs(jobs) do
    job.at, job.seconds = i, job.seconds or 1
    if #names == 0 or wanted[job.family] ~= nil then
      wanted[job.family] = #names > 0 and "found" or nil
      list[#list + 1] = job
    end
  end
  for name, found in pairs(wanted) do
    assert(found == "found", ("there is no spec/%s_spec.lua and no fuzzer %s"):format(name, name))
  end
  table.sort(list, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return a.at < b.at
  end)
  return list
end

-- --- reports

--- Reads a job's log: counts, what is shown below its row, what failed.
local function read_log(job)
  local file = io.open(job.log)
  job.passed, job.failed, job.skipped, job.text = 0, 0, 0, {}
  for line in file and file:lines() or function() end do
    local passed, failed, skipped = line:match "^(%d+) passed, (%d+) failed,? ?(%d*)"
    if passed then
      job.counted, job.passed, job.failed = true, job.passed + passed, job.failed + failed
      job.skipped = job.skipped + (tonumber(skipped) or 0)
    elseif not line:find "^[%w_]+_spec%.lua +%d+ passed" and not line:find "^%w+: %d+ of %d+ programs, %d+ s$" then
      job.text[#job.text + 1] = line
    end
  end
  if file then file:close() end
end

--- What went wrong with the process itself, or nil.
local function process_failure(job)
  local signal, status = job.status % 128, math.floor(job.status / 256) % 256
  if signal ~= 0 then return ("died of signal %d"):format(signal) end
  if status == 124 or status == 137 then return ("hung: ended after %d seconds"):format(LIMIT) end
  if status > 128 then return ("died of signal %d"):format(status - 128) end
  if not job.counted then return ("exit status %d, without counts"):format(status) end
  if status ~= 0 and job.failed == 0 then return ("exit status %d, though nothing failed"):format(status) end
end

local function finish(job, status, cpu)
  job.status, job.cpu, job.wall = status, cpu, now() - job.began
  read_log(job)
  local failure = process_failure(job)
  if failure then
    job.failed = job.failed + 1
    table.insert(job.text, 1, ("FAILED: %s %s"):format(job.name, failure))
  end
end

local function print_row(job, at, of)
  local row = ("%3d/%d  %-32s %4d passed%s%s"):format(at, of, job.name, job.passed,
    job.failed > 0 and (", %d FAILED"):format(job.failed) or "", job.skipped > 0 and (", %d skipped"):format(job.skipped) or "")
  print(("%-70s %6.1f s %6.1f CPU"):format(row, job.wall, job.cpu))
  for _, line in ipairs(job.text) do print(line) end
end

--- Failures once more, and the totals. Gives the exit status.
local function close(jobs, began)
  local passed, failed, skipped, cpu = 0, 0, 0, 0
  for _, job in ipairs(jobs) do
    passed, failed, skipped, cpu = passed + job.passed, failed + job.failed, skipped + job.skipped, cpu + job.cpu
    if job.failed > 0 then print(("\n== %s\n%s"):format(job.name, table.concat(job.text, "\n"))) end
  end
  print(("\n%.0f s, %.0f s of CPU; fuzzers with seed %d"):format(now() - began, cpu, SEED))
  print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
  return failed == 0 and passed > 0 and 0 or 1
end

local function run(jobs, workers)
  local running, next_job, done = {}, 1, 0
  while done < #jobs do
    while next_job <= #jobs and next_job - done <= workers do
      running[start(jobs[next_job])] = jobs[next_job]
      next_job = next_job + 1
    end
    local pid, status, cpu = ended()
    local job = running[pid]
    if job then
      done = done + 1
      finish(job, status, cpu)
      print_row(job, done, #jobs)
      io.flush()
    end
  end
end

local began, workers = now(), tonumber(lines_of("nproc")[1]) or 2
local jobs = chosen(all_jobs(), { select(4, unpack(arg)) })
assert(os.execute("mkdir -p " .. LOGS) == 0)
ffi.C.setenv("TEST_SEED", tostring(SEED), 1)
print(("%d jobs, %d at a time; random programs of seed %d"):format(#jobs, workers, SEED))
run(jobs, workers)
os.exit(close(jobs, began))
