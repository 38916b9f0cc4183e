-- cuda.lua -- the device "cuda" for specs: on the software GPU of build/spec, or on the driver that TYCHO_CUDA_DRIVER names.
-- Out: {loaded, why}; loaded is false where neither is there. CUDA_DEFAULT=1 in the environment makes it the device of all
-- that is made without one: the specs then run on it.
local ty = require "tycho"

local ok, why = ty.cuda.is_available()
if ok and os.getenv "CUDA_DEFAULT" then assert(ty.device "cuda") end
return { loaded = ok, why = why }
