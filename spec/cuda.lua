-- cuda.lua -- the device "cuda" for specs: on the driver that TYCHO_CUDA_DRIVER names, else on the software GPU (spec/gpu),
-- where `make gpu` has built it.
-- Out: {loaded, why, driver, soft}; loaded is false where there is neither, soft true on the software GPU.
-- CUDA_DEFAULT=1 in the environment makes it the device of all that is made without one: the specs then run on it.
local ty = require "tycho"

local module = require "spec.module"

local soft = ("%s%s/spec/libcuda.so"):format(module.root, os.getenv "TYCHO_BUILD" or "build")
local driver = os.getenv "TYCHO_CUDA_DRIVER"
local f = not driver and not module.windows and io.open(soft, "rb")
if f then
  f:close()
  driver = soft
end
local is_soft = driver ~= nil and driver:find("spec/libcuda%.so$") ~= nil
if is_soft then
  local ffi = require "ffi"
  ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
  ffi.C.setenv("TYCHO_CUDA_DRIVER", driver, 1)
  -- what was kept by other drivers is not its own; each kernel is assembled where it is first launched
  ffi.C.setenv("TYCHO_CACHE", "off", 0)
  ffi.C.setenv("TYCHO_NVJITLINK", "off", 0)
  ffi.C.setenv("TYCHO_CUDA_LATE", "0", 0)
  for name, file in pairs { CUBLASLT = "cublaslt", CUSOLVER = "cusolver", CUFFT = "cufft", CUDNN = "cudnn" } do -- stand-ins (spec/gpu/lib)
    ffi.C.setenv("TYCHO_" .. name, soft:gsub("libcuda%.so$", "soft_" .. file .. ".so"), 0)
  end
end

local M = { loaded = false, why = "the software GPU was not built (make gpu)" }

--- What a program prints in a process of its own on this driver, and its exit status. environment: more variables, as the
--- shell has them. What it makes lies on the CPU, unless it says otherwise.
function M.run(environment, program)
  return require("spec.helper").script(program, ("env -u CUDA_DEFAULT %s timeout 60"):format(environment))
end

--- The same where that, with a line "status 0" behind it, fits the pattern.
function M.gives(want, environment, program)
  local text, status = M.run(environment, program)
  text = ("%sstatus %s\n"):format(text, tostring(status))
  assert(text:find(want), text)
  return text
end

if not driver then return M end
local ok, why = ty.cuda.is_available()
if ok and os.getenv "CUDA_DEFAULT" then assert(ty.device "cuda") end
M.loaded, M.why, M.driver, M.soft = ok, why, driver, ok and is_soft
return M
