--- cuda_all.lua -- all that is to be proved of CUDA without a card, in one command: `make test-cuda`, or
--    luajit spec/cuda_all.lua [--specs="ops grad"] [--programs=300] [--seed=1] [--processors="75 90"] [--texts=2000]
--      [--nvdisasm=FILE] [--only=specs,fuzz,ptxas,ffma]
-- In: the software GPU, or the driver that TYCHO_CUDA_DRIVER names. Out: lines for each step, a table of all at the end; what a step
-- printed is in build/test-cuda. Exit status 1 where a step has failed.
-- Steps: specs  of operations and training with all tensors on the device: the CPU's bits
--        fuzz   random programs: eager, compiled and the CPU agree; ty.linalg stays on the CPU: the bits of cuSOLVER are its own
--        ptxas  takes what these have assembled, for each processor: no spills, few registers. texts: so many at most
--        ffma   what share of large products' inner loops multiply and add, and that no product and sum of a text became one
--               operation, where there is an nvdisasm
-- With --only texts of earlier runs stay.

local BUILD = os.getenv "TYCHO_BUILD" or "build"
local options = { specs = "cuda cuda_devices ops matrix vmap nn optim grad attention training index convolution", programs = "300",
  seed = "1", processors = "75 80 90 100 120", texts = "2000", nvdisasm = "", only = "" }
for _, word in ipairs(arg) do
  local name, value = word:match "^%-%-(%w+)=(.*)$"
  if not name or not options[name] then
    io.stderr:write(("spec/cuda_all.lua: unknown option %s; the head of this file has all\n"):format(word))
    os.exit(2)
  end
  options[name] = value
end
local programs = assert(tonumber(options.programs), "spec/cuda_all.lua: --programs must be a number")

local function wanted(step) return options.only == "" or ("," .. options.only .. ","):find("," .. step .. ",", 1, true) end

local here = io.popen("pwd"):read "*l"
local texts = ("%s/%s/cuda"):format(here, BUILD)
if options.only == "" then os.execute(("rm -rf '%s'"):format(texts)) end
os.execute(("mkdir -p '%s'"):format(texts))
local turn = require "spec.in_turn"(BUILD .. "/test-cuda", ("TYCHO_CUDA_PTX='%s'"):format(texts), { limit = 1800 })

if wanted "specs" then
  for name in options.specs:gmatch "%S+" do
    turn.step(name, ("CUDA_DEFAULT=1 busted --lua=/usr/bin/luajit --helper=spec/cuda.lua -o spec/report.lua --lpath='./?.lua' "
      .. "spec/%s_spec.lua"):format(name))
  end
end
if wanted "fuzz" then
  for name, share in ("fuzz 1 fuzz_lua 1 fuzz_grad 20"):gmatch "(%S+) (%d+)" do
    local n = math.ceil(programs / share)
    turn.step(("%s, %d programs"):format(name, n), ("FUZZ_DEVICE=cuda TYCHO_CUSOLVER=off luajit spec/%s.lua %d %s"):format(
      name, n, options.seed))
  end
end
if wanted "ptxas" then
  for processor in options.processors:gmatch "%d+" do
    turn.step("ptxas, sm_" .. processor, ("PTXAS_TEXTS=%s luajit spec/ptxas.lua '%s' %s"):format(options.texts, texts, processor))
  end
end
if wanted "ffma" then
  for _, processor in ipairs { 90, 100 } do -- these have wide tiles
    local what = ("multiply-adds, sm_%d"):format(processor)
    if options.nvdisasm == "" then turn.skip(what, "NVDISASM= says where nvdisasm is (PyPI: nvidia-cuda-nvdisasm)")
    else turn.step(what, ("luajit spec/ffma_share.lua '%s' '%s' %d"):format(options.nvdisasm, texts, processor)) end
    what = ("contraction, sm_%d"):format(processor)
    if options.nvdisasm == "" then turn.skip(what, "NVDISASM= says where nvdisasm is (PyPI: nvidia-cuda-nvdisasm)")
    else turn.step(what, ("luajit spec/contraction.lua '%s' '%s' %d"):format(options.nvdisasm, texts, processor)) end
  end
end
turn.finish()
