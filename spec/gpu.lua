--- gpu.lua -- all that a CUDA card is to prove, in one command: `make test-gpu GPU_OPTIONS="..."`, or
--    luajit spec/gpu.lua [--minutes=10] [--only=bits,bench] [--jobs=8] [--programs=20000] [--seed=1] [--specs="ops nn"]
--      [--groups="maps products"] [--driver=libcuda.so.1] [--sanitizer=compute-sanitizer] [--folder=build/gpu] [--soft]
-- In: NVIDIA's driver and a card (--soft: the software GPU of spec/gpu, to prove this file; --sanitizer is then a stand-in). Out: a line
-- when a step begins and when it ends, what failed with the end of its output; a table, the counts. FOLDER/results.txt has the lines so
-- far, FOLDER/*.txt what each step printed, FOLDER/*.failed/ of what failed the program, both bits, the PTX of its kernels. Exit status 1
-- where a step has failed.
-- Steps, in the order of what they tell in a minute:
--   device     what the card is, which of NVIDIA's libraries are there
--   bits       results of every kind beside the CPU's, one by one (gpu_bits.lua)
--   sample     compute-sanitizer's four tools over some of them, where it is found (PyPI: nvidia-cuda-sanitizer-api)
--   libraries  cuBLASLt, cuDNN, cuSOLVER, cuFFT where they are found: near f64's results (gpu_libraries.lua)
--   bench      `make bench-cuda`: beside PyTorch and JAX where they are found; alone on the card
--   specs      those of the device, then of operations, matrix, training ... with all tensors on it
--   fuzz       random programs: eager, compiled and the CPU agree
--   ways       the device's spec with programs interpreted, launched call by call, assembled beside, kept on disk, found there
--   sanitizer  the four tools over all groups of bits
-- Kernels are assembled where they are first launched, and never interpreted (but by ways), so that the card runs them.
-- A step that does not end within its limit is ended, and has failed; where the card then does not answer, the rest is skipped.
-- groups: of bits, sample and sanitizer. jobs: steps at a time, half the processors unless said. minutes: bits has until 35 % of them,
-- sample 50 %, libraries 55 %, bench 90 %, the others the rest; what is then left is skipped.

local BUILD = os.getenv "TYCHO_BUILD" or "build"
local options = { driver = "libcuda.so.1", programs = "20000", seed = "1", only = "", jobs = "", minutes = "", specs = "", groups = "",
  sanitizer = "", folder = BUILD .. "/gpu", soft = false }

local function refuse(text, ...)
  io.stderr:write("spec/gpu.lua: ", text:format(...), "\n")
  os.exit(2)
end

for _, word in ipairs(arg) do
  local name, value = word:match "^%-%-(%w+)=(.*)$"
  if word == "--soft" then options.soft = true
  elseif name and options[name] ~= nil and name ~= "soft" then options[name] = value
  else refuse("unknown option %s; the head of this file has all", word) end
end

local function number_of(name, least)
  local n = tonumber(options[name])
  if not n and options[name] == "" then return nil end
  if not n or n < least or n ~= n then refuse("--%s must be a number from %g, got %s", name, least, options[name]) end
  return n
end
local programs, seed, minutes = number_of("programs", 1) or 20000, number_of("seed", 0) or 1, number_of("minutes", 0)

local STEPS = { "bits", "sample", "libraries", "bench", "specs", "fuzz", "ways", "sanitizer" }
local function wanted(name) return options.only == "" or ("," .. options.only .. ","):find("," .. name .. ",", 1, true) end
for name in options.only:gmatch "[^,]+" do
  if not (","..table.concat(STEPS, ",")..","):find("," .. name .. ",", 1, true) then
    refuse("--only: there is no step %s; there are %s", name, table.concat(STEPS, ", "))
  end
end

local function output_of(command)
  local p = io.popen(command .. " 2>/dev/null")
  local text = p:read "*a"
  p:close()
  return (text:gsub("%s+$", ""))
end

for _, tool in ipairs { "luajit", "timeout" } do
  if output_of("command -v " .. tool) == "" then refuse("%s was not found: see `make deps`", tool) end
end
local has_busted = output_of "command -v busted" ~= ""

local here, cores = output_of "pwd", tonumber(output_of "nproc") or 1
local jobs = number_of("jobs", 1) or math.max(1, math.min(8, math.floor(cores / 2)))

-- --- NVIDIA's libraries as PyPI's packages bring them: beside PyTorch there is often nothing else

local wheels = output_of [[python3 -c '
import glob, sys
print("\n".join(sorted({d for p in sys.path for d in glob.glob(p + "/nvidia/*")})))']]

local function in_wheels(what)
  local list = {}
  for folder in wheels:gmatch "[^\n]+" do
    if output_of(("ls -d '%s/%s'"):format(folder, what)) ~= "" then list[#list + 1] = ("%s/%s"):format(folder, what) end
  end
  return list
end

local function sanitizer()
  if options.sanitizer ~= "" then return options.sanitizer end
  local path = output_of "command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer"
  return path:match "[^\n]+" or in_wheels "bin/compute-sanitizer"[1]
end

local paths = in_wheels "lib"
table.insert(paths, 1, os.getenv "LD_LIBRARY_PATH")
local driver = options.soft and ("%s/%s/spec/libcuda.so"):format(here, BUILD) or options.driver
local environment = table.concat({
  ("TYCHO_CUDA_DRIVER='%s'"):format(driver), "TYCHO_LOG=0", ("TYCHO_THREADS=%d"):format(math.max(1, math.floor(cores / jobs))),
  ("LUA_PATH='%s/%s/?.lua;%s/%s/?/init.lua;;'"):format(here, BUILD, here, BUILD), ("LUA_CPATH='%s/%s/?.so;;'"):format(here, BUILD),
  options.soft and "" or ("LD_LIBRARY_PATH='%s'"):format(table.concat(paths, ":")),
}, " ")

-- --- failures: run once more, alone, with the PTX of what they launch

local again = {} -- by step: what of it failed, as commands
local function lua_pattern(text) return (text:gsub("%p", "%%%0")) end
local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local ALIVE = [[luajit -e 'local ty = require "tycho"; print(ty.ones(3, { device = "cuda" }):sum():item())']]
local turn = require "spec.in_turn"(options.folder, environment, { jobs = jobs, minutes = minutes, alive = ALIVE,
  look = function(job, lines)
    local list, seen = {}, {}
    for _, line in ipairs(lines) do
      local what, command
      if again[job.what] then what, command = again[job.what](line) end
      if what and not seen[what] and #list < 3 then
        seen[what] = true
        list[#list + 1] = { what = what, command = command }
      end
    end
    return list
  end })
local add, skip = turn.add, turn.skip

local OWN = "TYCHO_CUDA_LATE=0 TYCHO_CUDA_INTERPRET=0 "

local function spec(what, variables, name, limit)
  if not has_busted then return skip(what, "busted was not found: see `make deps`") end
  local command = ("%s busted --lua=/usr/bin/luajit --helper=spec/cuda.lua -o spec/report.lua --lpath='./?.lua' spec/%s_spec.lua"):format(
    variables, name)
  again[what] = function(line)
    local claim = line:match "^FAILED: (.*) %([^()]*:%d+%)$" or line:match "^ERROR: (.*) %([^()]*:%d+%)$"
    return claim, claim and ("%s --filter=%s"):format(command, quoted(lua_pattern(claim)))
  end
  add(what, command, limit)
end

local function bits(what, before, groups, limit)
  local command = OWN .. before .. "luajit spec/gpu_bits.lua"
  again[what] = function(line)
    local n = line:match "^(%d+), %a+[ %a]*: "
    local group = n and #groups == 1 and groups[1]
    return group and ("%s, %s"):format(group, n), group and ("%sluajit spec/gpu_bits.lua '%s:%s'"):format(OWN, group, n)
  end
  add(what, ("%s '%s'"):format(command, table.concat(groups, "' '")), limit)
end

-- --- device

if not turn.step("device", [[luajit -e 'local ty = require "tycho"; local ok, why = ty.cuda.is_available();
  if not ok then print(why) os.exit(1) end;
  assert(ty.ones(3, { device = "cuda" }):sum():item() == 3);
  local d = ty.cuda.devices()[1];
  print(("%s, sm_%d, %d processors, driver %d.%d, %s"):format(d.name, d.capability, d.processors, d.driver / 1000,
  d.driver % 1000 / 10, ty.cuda.cache().assembler))']], 120) then
  print "there is no device to prove anything on"
  turn.finish()
end

-- --- bits

--- Those of the names that `chosen` has, all where it is empty. Each name in it must be known.
local function choose(names, chosen, what)
  local list, rest = {}, " " .. chosen .. " "
  for _, name in ipairs(names) do
    local from, to = rest:find(" " .. name .. " ", 1, true)
    if from then rest = rest:sub(1, from) .. rest:sub(to) end
    if from or chosen == "" then list[#list + 1] = name end
  end
  if rest:find "%S" then refuse("there is no %s %q, there are: %s", what, rest:match "^%s*(.-)%s*$", table.concat(names, ", ")) end
  return list
end

local names = {}
for name in output_of(("env %s luajit spec/gpu_bits.lua list"):format(environment)):gmatch "[^\n]+" do names[#names + 1] = name end
if not names[1] then refuse "spec/gpu_bits.lua does not list its groups" end
local GROUPS = choose(names, options.groups, "group")
turn.share(0.35)
if wanted "bits" then
  for _, name in ipairs(GROUPS) do bits("bits: " .. name, "", { name }, 240) end
  turn.drain()
end

-- --- sample

-- Quick, and of every sort of kernel.
local QUICK, SAMPLE = { chains = true, moves = true, random = true, convolutions = true, training = true, ["mapped and folded"] = true }, {}
for _, name in ipairs(GROUPS) do
  if QUICK[name] then SAMPLE[#SAMPLE + 1] = name end
end

--- The four tools over these groups. Errors of the API are left out: Tycho asks for what may fail, and heeds the answers.
local function sanitize(what, groups, limit)
  local tool = sanitizer()
  for _, check in ipairs { "memcheck", "racecheck", "initcheck", "synccheck" } do
    local name = ("%s: %s%s"):format(what, check, #groups == 1 and ", " .. groups[1] or "")
    if options.soft and options.sanitizer == "" then skip(name, "the software GPU checks by itself")
    elseif not tool then skip(name, "compute-sanitizer was not found (NVIDIA's toolkit, or PyPI's nvidia-cuda-sanitizer-api)")
    else
      bits(name, ("'%s' --tool %s --error-exitcode 9%s "):format(tool, check, check == "memcheck" and " --report-api-errors no" or ""),
        groups, limit)
    end
  end
end
turn.share(0.5)
if wanted "sample" and SAMPLE[1] then
  sanitize("sample", SAMPLE, 300)
  turn.drain()
end

-- --- libraries, bench

turn.share(0.55)
if wanted "libraries" then turn.step("libraries", "luajit spec/gpu_libraries.lua", 200) end
turn.share(0.9)
if wanted "bench" then
  local soft = options.soft and " --soft" or ""
  turn.step("bench", ("TYCHO_THREADS=%d luajit bench/cuda.lua%s"):format(cores, soft), 900)
  local f = io.open(options.folder .. "/bench.txt")
  if f then
    print(f:read "*a")
    f:close()
  end
end

-- --- specs

-- What is said of failures is the software GPU's to inject: there are specs that skip most of theirs on a card.
local own = { "cuda", "cuda_graph", "cuda_copies", "cuda_devices", "cuda_fourier", "cuda_profile", "cuda_files", "cuda_mixed" }
local all = { "ops", "matrix", "vmap", "nn", "optim", "grad", "attention", "training", "index", "moves", "product", "scan", "reduce",
  "convolution" }
local known, own_of = {}, {}
for _, name in ipairs(own) do known[#known + 1], own_of[name] = name, true end
for _, name in ipairs(all) do known[#known + 1] = name end
turn.share(1)
if wanted "specs" then
  for _, name in ipairs(choose(known, options.specs, "spec of a device's")) do
    if own_of[name] then spec("specs: " .. name, "TYCHO_CUDA_LATE=0", name)
    else spec(("specs: %s, all on the device"):format(name), OWN .. "CUDA_DEFAULT=1", name) end
  end
  turn.drain()
end

-- --- fuzz

local PIECE = 1000 -- programs of a process: as many as its claims of the whole need
if wanted "fuzz" then
  for _, fuzzer in ipairs { { "fuzz", 0.6, PIECE }, { "fuzz_lua", 0.35, PIECE }, { "fuzz_grad", 0.05, PIECE / 4 } } do
    local name, rest, piece = fuzzer[1], math.ceil(programs * fuzzer[2]), 0
    while rest > 0 do
      local n = math.min(rest, fuzzer[3])
      local what = ("fuzz: %s, %d programs, seed %d"):format(name, n, seed + piece)
      local command = ("%sFUZZ_DEVICE=cuda luajit spec/%s.lua %d %d"):format(OWN, name, n, seed + piece)
      again[what] = function(line)
        local number = line:match "^program (%d+) of seed "
        return number and "program " .. number, number and ("%s %s"):format(command, number)
      end
      add(what, command, 900)
      rest, piece = rest - n, piece + 1
    end
  end
  turn.drain()
end

-- --- ways

if wanted "ways" then
  local folder = (options.folder:sub(1, 1) == "/" and "" or here .. "/") .. options.folder .. "/cache"
  local cache = ("TYCHO_CACHE='%s'"):format(folder)
  os.execute(("rm -rf '%s'"):format(folder))
  spec("ways: programs are interpreted", "TYCHO_CUDA_INTERPRET=all", "cuda")
  spec("ways: launched call by call", "TYCHO_CUDA_GRAPHS=0", "cuda")
  spec("ways: assembled by the driver", "TYCHO_NVJITLINK=off TYCHO_CACHE=off", "cuda")
  spec("ways: assembled beside", "TYCHO_CUDA_LATE=1 TYCHO_CACHE=off", "cuda")
  spec("ways: kept", "TYCHO_CUDA_LATE=1 " .. cache, "cuda")
  turn.drain()
  spec("ways: found", cache, "cuda")
  turn.drain()
end

-- --- sanitizer

if wanted "sanitizer" then
  for _, name in ipairs(GROUPS) do sanitize("sanitizer", { name }, 600) end
end
turn.finish()
