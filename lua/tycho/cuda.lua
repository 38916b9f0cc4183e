--- cuda.lua -- `ty.cuda`: the CUDA devices, and what is known of them.
-- In: nothing but NVIDIA's driver, which is found when a device is first named. Out: numbers, texts; nil and a
-- message where there is no driver or no device. The work is done in cuda.so, which is loaded with this file.
-- A device is "cuda" or "cuda:0" (the first), "cuda:1", or its number, as the driver counts; without one the first.

local ty = require "tycho"

local C, missing = require "tycho.native" "cuda"

local M = {}

--- The number of a device that is named by it or by a text; nil where it is neither.
local function number_of(device)
  if device == nil or device == "cuda" then return 0 end
  if type(device) == "number" and device >= 0 and device % 1 == 0 then return device end
  local digits = type(device) == "string" and device:match "^cuda:(%d+)$"
  if digits and (digits == "0" or digits:sub(1, 1) ~= "0") then return tonumber(digits) end
end

--- Raises at the user's line where it is no device.
local function checked(who, device)
  local n = number_of(device)
  if n then return n end
  local text = "cuda.%s: the device must be \"cuda\", \"cuda:1\" or a number from 0, got %s"
  error(text:format(who, tostring(device)), 3)
end

--- Adds a device to the list of those that tensors may lie on; true, or nil and why there is none.
---@param device? string|integer
---@return boolean? opened, string? message
function M.open(device)
  if not C then return nil, missing end
  local n = number_of(device)
  if not n then return nil, "CUDA devices are named \"cuda\", \"cuda:1\" and so on" end
  return C.open(n)
end

--- Whether there is a device: true, or false and why not.
---@param device? string|integer
---@return boolean available, string? message
function M.is_available(device)
  local ok, why = M.open(checked("is_available", device))
  return ok == true, why
end

--- What the devices are: a list of {device = "cuda:1", name =, capability = 90 for 9.0, processors =, driver = 12040
--- for 12.4}; it is empty where there is none. Devices that cannot be used are left out; at most eight are used.
---@return table[]
function M.devices()
  local list = {}
  for n = 0, (C and C.count() or 0) - 1 do
    if M.open(n) then
      local about = C.about(n)
      list[#list + 1] = {
        device = n == 0 and "cuda" or "cuda:" .. n, name = about.name, capability = about.capability,
        processors = about.processors, driver = about.driver,
      }
    end
  end
  return list
end

--- Bytes of device memory: {used =, cached =, peak =} by this process, {free =, total =} of the device; nil and a
--- message where there is none.
---@param device? string|integer
---@return table? memory, string? message
function M.memory(device)
  local n = checked("memory", device)
  local ok, why = M.open(n)
  if not ok then return nil, why end
  local about = C.about(n)
  return { used = about.used, cached = about.cached, peak = about.peak, free = about.free, total = about.total }
end

--- The most bytes of device memory that this process takes, used and cached; math.huge, as it is at first: all that
--- there is. What does not fit is "out of memory", after what is cached was given back and garbage collected. Without
--- an argument nothing changes. Gives the limit so far; nil and a message where there is no device. Raises where bytes
--- is no number from 0.
---@param bytes? number
---@param device? string|integer
---@return number? limit, string? message
function M.limit(bytes, device)
  local n = checked("limit", device)
  if bytes ~= nil and (type(bytes) ~= "number" or bytes ~= bytes or bytes < 0) then
    error(("cuda.limit: argument 1 must be a number of bytes from 0, or math.huge, got %s"):format(tostring(bytes)), 2)
  end
  local ok, why = M.open(n)
  if not ok then return nil, why end
  return C.limit(n, bytes or -1)
end

--- Gives memory that is cached for reuse back to the driver.
---@param device? string|integer
function M.empty_cache(device)
  local n = checked("empty_cache", device)
  if M.open(n) then C.trim(n) end
end

--- What is known of assembled kernels on disk: {folder =, assembler =, found =, missed =, written =, removed =}; counts
--- are of this process, folder is nil where nothing is kept. The folder is tycho/cuda in $XDG_CACHE_HOME (~/.cache), or
--- cuda in $TYCHO_CACHE, `off` for none; it holds TYCHO_CACHE_MB megabytes at most, 256 if nothing is said, and what
--- was used least recently goes first. nil and a message where there is no device.
---@param device? string|integer
---@return table? cache, string? message
function M.cache(device)
  local n = checked("cache", device)
  local ok, why = M.open(n)
  if not ok then return nil, why end
  return C.cache(n)
end

--- What was launched so far: {kernels =, graphs =, replays =, copies =, ahead =}: kernels by themselves, graphs that
--- were made of plans (from the second run of the same kernels on), how often those were launched; copies of more than
--- 64 KB from the CPU, which go by a stream of their own, and how many of them did not wait for all that was asked
--- before. nil and a message where there is no
--- device.
---@param device? string|integer
---@return table? launches, string? message
function M.launches(device)
  local n = checked("launches", device)
  local ok, why = M.open(n)
  if not ok then return nil, why end
  return C.launches(n)
end

--- Runs fn() and tells where its time on the devices went: a table that prints well (rows of kernels, named by their
--- operations and the line of the most costly one, of graphs and copies: calls, seconds), then fn's results. path: a
--- trace is written there as by ty.profile, the CPU's events beside those of each device, which are measured by events
--- of its stream; a plan that runs as a graph is one event. nil and a message where there is no device, or the file
--- cannot be written.
--- Raises where fn is no function, while another profile runs, and what fn raises.
---@param fn function
---@param path? string
---@return tycho.Profile?, ...
function M.profile(fn, path)
  local ok, why = M.open()
  if not ok then return nil, why end
  ty.internals.load "tycho.profile"
  return ty.internals.profile_devices(C, fn, path)
end

--- Waits until kernels are assembled that were asked for so far; until then their programs run in a kernel that
--- interprets them, to the same bits. jit.warmup does so too.
function M.settle()
  if C then C.settle() end
end

--- Waits until devices have done what they were asked for; raises what went wrong there.
function M.synchronize() ty.synchronize() end

return M
