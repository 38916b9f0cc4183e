-- far.lua -- builds and registers the device "far" (far.c).
-- Out: {loaded, why, touch, waits}: touch() reads its memory from elsewhere, waits() counts who waited for it; loaded is
-- false where LuaJIT's headers or the device's memory are not there. FAR_DEFAULT=1 in the environment makes it the device
-- of all that is made without one: the specs then run on it.
local ty = require "tycho"

local module = require "spec.module"

local function load()
  local headers = module.headers()
  if not headers then return nil, "LuaJIT's headers are not there" end
  local so = module.build("far", ("-std=c11 -O1 -Wall -Wextra -Werror -Wl,-z,nodelete -I'%s' -I'%score' -I'%s.' -lpthread")
    :format(headers, module.root, module.root), { "core/device/device.h", "core/ir/job.h", "core/ir/program.h" })
  return assert(package.loadlib(so, "luaopen_far"))()
end

local touch, waits = load()
local ok = touch ~= nil
if ok and os.getenv "FAR_DEFAULT" then assert(ty.device "far") end
if not ok then return { loaded = false, why = waits } end
return { loaded = true, touch = touch, waits = waits }
