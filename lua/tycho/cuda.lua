--- cuda.lua -- `ty.cuda`: the CUDA device, and what is known of it.
-- In: nothing but NVIDIA's driver, which is found when the device is first named. Out: numbers, texts; nil and a
-- message where there is no driver or no device. The work is done in cuda.so, which is loaded with this file.

local ty = require "tycho"

local C, missing = require "tycho.native" "cuda"

local M = {}

--- Adds the device "cuda" to the list; true, or nil and why there is none.
---@return boolean? opened, string? message
function M.open()
  if not C then return nil, missing end
  return C.open()
end

--- Whether there is a device: true, or false and why not.
---@return boolean available, string? message
function M.is_available()
  local ok, why = M.open()
  return ok == true, why
end

--- What the devices are: a list of {name =, capability = 90 for 9.0, processors =, driver = 12040 for 12.4}; it is
--- empty where there is none.
---@return table[]
function M.devices()
  if not M.open() then return {} end
  local about = C.about()
  return { {
    name = about.name, capability = about.capability, processors = about.processors, driver = about.driver,
  } }
end

--- Bytes of device memory: {used =, cached =, peak =} by this process, {free =, total =} of the device; nil and a
--- message where there is none.
---@return table? memory, string? message
function M.memory()
  local ok, why = M.open()
  if not ok then return nil, why end
  local about = C.about()
  return { used = about.used, cached = about.cached, peak = about.peak, free = about.free, total = about.total }
end

--- The most bytes of device memory that this process takes, used and cached; math.huge, as it is at first: all that
--- there is. What does not fit is "out of memory", after what is cached was given back and garbage collected. Without
--- an argument nothing changes. Gives the limit so far; nil and a message where there is no device. Raises where bytes
--- is no number from 0.
---@param bytes? number
---@return number? limit, string? message
function M.limit(bytes)
  if bytes ~= nil and (type(bytes) ~= "number" or bytes ~= bytes or bytes < 0) then
    error(("cuda.limit: argument 1 must be a number of bytes from 0, or math.huge, got %s"):format(tostring(bytes)), 2)
  end
  local ok, why = M.open()
  if not ok then return nil, why end
  return C.limit(bytes or -1)
end

--- Gives memory that is cached for reuse back to the driver.
function M.empty_cache()
  if M.open() then C.trim() end
end

--- What is known of assembled kernels on disk: {folder =, assembler =, found =, missed =, written =, removed =}; counts
--- are of this process, folder is nil where nothing is kept. The folder is tycho/cuda in $XDG_CACHE_HOME (~/.cache), or
--- cuda in $TYCHO_CACHE, `off` for none; it holds TYCHO_CACHE_MB megabytes at most, 256 if nothing is said, and what
--- was used least recently goes first. nil and a message where there is no device.
---@return table? cache, string? message
function M.cache()
  local ok, why = M.open()
  if not ok then return nil, why end
  return C.cache()
end

--- What was launched so far: {kernels =, graphs =, replays =}: kernels by themselves, graphs that were made of plans
--- (from the second run of the same kernels on), and how often those were launched. nil and a message where there is no
--- device.
---@return table? launches, string? message
function M.launches()
  local ok, why = M.open()
  if not ok then return nil, why end
  return C.launches()
end

--- Waits until kernels are assembled that were asked for so far; until then their programs run in a kernel that
--- interprets them, to the same bits. jit.warmup does so too.
function M.settle()
  if C then C.settle() end
end

--- Waits until devices have done what they were asked for; raises what went wrong there.
function M.synchronize() ty.synchronize() end

return M
