--- busted.lua -- runs busted under Windows: its modules in C, of which it needs little, are done here by FFI.
--   luajit spec/windows/busted.lua [busted's options] spec/x_spec.lua
-- In: BUSTED_LUA, the path where Debian's Lua modules lie. Out: as busted.

local ffi = require "ffi"

ffi.cdef [[
uint32_t GetFileAttributesA(const char *path);
uint64_t GetTickCount64(void);
void Sleep(uint32_t milliseconds);
char *_getcwd(char *to, int room);
int _chdir(const char *path);
]]

local function unable() return nil, "not here" end

--- What penlight takes of LuaFileSystem.
package.preload.lfs = function()
  local function attributes(path, what)
    local a = ffi.C.GetFileAttributesA(path)
    if a == 0xffffffff then return nil, path .. ": there is no such file" end
    local mode = bit.band(a, 0x10) ~= 0 and "directory" or "file"
    if what == "mode" then return mode end
    return what == nil and { mode = mode } or nil
  end
  return {
    attributes = attributes, symlinkattributes = attributes, dir = unable, mkdir = unable, rmdir = unable,
    currentdir = function() return ffi.string(ffi.C._getcwd(ffi.new "char[1024]", 1024)) end,
    chdir = function(path) return ffi.C._chdir(path) == 0 or nil end,
  }
end

package.preload.system = function()
  local function seconds() return tonumber(ffi.C.GetTickCount64()) / 1000 end
  return { gettime = os.time, monotime = seconds, sleep = function(s) ffi.C.Sleep(s * 1000) end }
end

package.preload.term = function()
  return { isatty = function() return false end, colors = setmetatable({}, { __index = function() return tostring end }) }
end

--- Those of the system lie in the root of the drive.
local files, here = 0, ffi.string(ffi.C._getcwd(ffi.new "char[1024]", 1024)):gsub("\\", "/")
rawset(os, "tmpname", function()
  files = files + 1
  local name = ("%s/build/windows/tmp/%d-%s"):format(here, files, tostring({}):match "%x+$")
  assert(io.open(name, "w")):close()
  return name
end)

package.path = package.path .. ";" .. os.getenv "BUSTED_LUA"
require "busted.runner" { standalone = false }
