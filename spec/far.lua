-- far.lua -- builds and registers the device "far" (far.c).
-- Out: {loaded, why, touch}: touch() reads its memory from elsewhere; loaded is false where LuaJIT's headers or the
-- device's memory are not there. FAR_DEFAULT=1 in the environment makes it the device of all that is made without one:
-- the specs then run on it.
local ty = require "tycho"

local root = debug.getinfo(1, "S").source:match("^@(.-)spec/[^/]*$")

local function shell(command)
  local ok = os.execute(command)
  return ok == 0 or ok == true
end

local function load()
  for _, dir in ipairs { "/usr/include/luajit-2.1", "/usr/local/include/luajit-2.1" } do
    if shell(("test -f '%s/lua.h'"):format(dir)) then
      local so = root .. "build/spec/far.so"
      local newer = ("test '%s' -nt '%sspec/far.c' && test '%s' -nt '%score/device/device.h' && test '%s' -nt '%score/ir/job.h'")
        :format(so, root, so, root, so, root)
      assert(shell(("%s || { mkdir -p '%sbuild/spec' && gcc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC "
        .. "-fvisibility=hidden -Wl,-z,nodelete -I'%s' -I'%score' -I'%s.' '%sspec/far.c' -o '%s.new' -lpthread && mv '%s.new' '%s'; }")
        :format(newer, root, dir, root, root, root, so, so, so)), "far.c does not compile")
      return assert(package.loadlib(so, "luaopen_far"))()
    end
  end
  return nil, "LuaJIT's headers are not there"
end

local touch, why = load()
local ok = touch ~= nil
if ok and os.getenv "FAR_DEFAULT" then assert(ty.device "far") end
return { loaded = ok, why = why, touch = touch }
