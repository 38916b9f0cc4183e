--- gpu.lua -- all that a CUDA card is to prove, in one command: `make test-gpu`, or
--    luajit spec/gpu.lua [--driver=libcuda.so.1] [--programs=20000] [--seed=1] [--only=bits,fuzz] [--soft]
-- In: NVIDIA's driver and a card (--soft: the software GPU of spec/gpu, to prove this file). Out: a line for each step, what
-- failed with the end of its output, the counts; what a step printed is in build/gpu. Exit status 1 where a step has failed.
-- Steps: device    what the card is
--        bits      specs of the device, then of operations, matrix, training ... with all tensors on it: the CPU's bits
--        ways      the same of the device with programs interpreted, plans launched call by call, kernels not kept
--        attention attention by cuDNN, where it is found, and without: results, gradients, the same bits again
--        fuzz      random programs: eager, compiled and the CPU agree
--        sanitizer compute-sanitizer's memcheck, racecheck, initcheck, synccheck, where it is found
--        bench     `make bench-cuda`: beside PyTorch and JAX where they are found

local BUILD = os.getenv "TYCHO_BUILD" or "build"
local options = { driver = "libcuda.so.1", programs = "20000", seed = "1", only = "", soft = false }
for _, word in ipairs(arg) do
  local name, value = word:match "^%-%-(%w+)=(.*)$"
  if word == "--soft" then options.soft = true
  elseif name and options[name] ~= nil and name ~= "soft" then options[name] = value
  else
    io.stderr:write(("spec/gpu.lua: unknown option %s; known: --driver= --programs= --seed= --only= --soft\n"):format(word))
    os.exit(2)
  end
end
local programs = assert(tonumber(options.programs), "spec/gpu.lua: --programs must be a number")

local here = io.popen("pwd"):read "*l"
local driver = options.soft and ("%s/%s/spec/libcuda.so"):format(here, BUILD) or options.driver
local environment = table.concat({
  ("TYCHO_CUDA_DRIVER='%s'"):format(driver), "TYCHO_LOG=0",
  ("LUA_PATH='%s/%s/?.lua;%s/%s/?/init.lua;;'"):format(here, BUILD, here, BUILD), ("LUA_CPATH='%s/%s/?.so;;'"):format(here, BUILD),
}, " ")
local turn = require "spec.in_turn"(BUILD .. "/gpu", environment)
local step, skip = turn.step, turn.skip

local function wanted(name) return options.only == "" or ("," .. options.only .. ","):find("," .. name .. ",", 1, true) end

local function spec(name)
  return ("busted --lua=/usr/bin/luajit --helper=spec/cuda.lua -o spec/report.lua --lpath='./?.lua' spec/%s_spec.lua"):format(name)
end

-- --- device

local ok = step("device", [[luajit -e 'local ty = require "tycho"; local ok, why = ty.cuda.is_available();
  if not ok then print(why) os.exit(1) end;
  local d = ty.cuda.devices()[1]; print(("%s, sm_%d, %d processors, driver %d.%d, %s"):format(d.name, d.capability,
  d.processors, d.driver / 1000, d.driver % 1000 / 10, ty.cuda.cache().assembler))']])
if not ok then
  print "there is no device to prove anything on"
  turn.finish()
end

-- --- bits, ways

-- What is said of failures is the software GPU's to inject; these run where it is.
local own = { "cuda", "cuda_graph" }
local all = { "ops", "matrix", "vmap", "nn", "optim", "grad", "attention", "training", "index", "moves", "product", "scan", "reduce" }
local function is_there(name)
  local f = io.open(("spec/%s_spec.lua"):format(name))
  if f then f:close() end
  return f ~= nil
end
if wanted "bits" then
  for _, name in ipairs(own) do step("bits: " .. name, spec(name)) end
  for _, name in ipairs(all) do
    if is_there(name) then step("bits: " .. name .. ", all on the device", "CUDA_DEFAULT=1 " .. spec(name)) end
  end
end
if wanted "ways" then
  step("ways: programs are interpreted", "TYCHO_CUDA_INTERPRET=all " .. spec "cuda")
  step("ways: launched call by call", "TYCHO_CUDA_GRAPHS=0 " .. spec "cuda")
  step("ways: assembled by the driver", "TYCHO_NVJITLINK=off TYCHO_CACHE=off " .. spec "cuda")
  step("ways: assembled beside", "TYCHO_CUDA_LATE=1 TYCHO_CACHE=off " .. spec "cuda")
  step("ways: kept", ("TYCHO_CUDA_LATE=1 TYCHO_CACHE='%s/%s/gpu/cache' "):format(here, BUILD) .. spec "cuda")
  step("ways: found", ("TYCHO_CACHE='%s/%s/gpu/cache' "):format(here, BUILD) .. spec "cuda")
end

-- --- attention

if wanted "attention" then
  local program = "luajit spec/gpu_attention.lua" .. (options.soft and " --soft" or "")
  local library = options.soft and ("SOFT_GPU_APPROXIMATE=1 TYCHO_CUDNN='%s/%s/spec/soft_cudnn.so' "):format(here, BUILD) or ""
  step("attention: by cuDNN where it is found", library .. "TYCHO_LOG= " .. program)
  step("attention: by Tycho's own kernels", library .. "TYCHO_CUDNN=off " .. program)
end

-- --- fuzz

if wanted "fuzz" then
  for name, share in pairs { fuzz = 0.6, fuzz_lua = 0.35, fuzz_grad = 0.05 } do
    step(("fuzz: %s, %d programs"):format(name, math.ceil(programs * share)),
      ("FUZZ_DEVICE=cuda luajit spec/%s.lua %d %s"):format(name, math.ceil(programs * share), options.seed))
  end
end

-- --- sanitizer

local function found(command)
  local p = io.popen(("command -v %s 2>/dev/null"):format(command))
  local path = p:read "*l"
  p:close()
  return path and path ~= "" and path
end

if wanted "sanitizer" then
  local tool = found "compute-sanitizer" or found "/usr/local/cuda/bin/compute-sanitizer"
  for _, check in ipairs { "memcheck", "racecheck", "initcheck", "synccheck" } do
    local what = "sanitizer: " .. check
    if options.soft then skip(what, "the software GPU checks by itself")
    elseif not tool then skip(what, "compute-sanitizer was not found (it comes with NVIDIA's toolkit)")
    else
      step(what, ("'%s' --tool %s --error-exitcode 9 --target-processes all %s"):format(tool, check, spec "cuda"))
    end
  end
end

-- --- bench

if wanted "bench" then step("bench", ("luajit bench/cuda.lua%s"):format(options.soft and " --soft" or "")) end

turn.finish()
