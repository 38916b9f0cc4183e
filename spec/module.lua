--- module.lua -- C modules of the specs, compiled where they are missing or older than what they are made of.
-- Out: {root, windows, shell, run, mpis, make_folder, remove_folder, headers, build}; root, the project's folder, ends with a slash.
-- It needs nothing of Tycho's.
-- TYCHO_BUILD names another folder than build, TYCHO_CC another compiler than gcc: where LuaJIT runs under an emulator.

local M = { root = debug.getinfo(1, "S").source:match("^@(.-)spec[/\\][^/\\]*$") }
if M.root == "" then M.root = "./" end

--- Under Windows there is no compiler: `make test-windows` has made them.
M.windows = jit.os == "Windows"

--- Runs a command of the shell; whether it succeeded.
function M.shell(command)
  local ok = os.execute(command)
  return ok == 0 or ok == true
end

--- What a command prints, and its exit status.
function M.run(command)
  local pipe = assert(io.popen(("{ %s\n} 2>&1; echo \"status $?\""):format(command)))
  local text = pipe:read "*a"
  pipe:close()
  local out, status = text:match "^(.-)status (%d+)%s*$"
  return out, tonumber(status)
end

--- The MPIs that processes are started by, there: whether this machine has it.
function M.mpis()
  local list = { { name = "Open MPI", mpirun = "mpirun.openmpi" }, { name = "MPICH", mpirun = "mpiexec.mpich" } }
  for _, m in ipairs(list) do
    m.there = jit.os == "Linux" and select(2, M.run("command -v " .. m.mpirun)) == 0
  end
  return list
end

--- Makes a folder, and those that it lies in; whether it is there.
function M.make_folder(path)
  return M.shell(M.windows and ('mkdir "%s"'):format(path:gsub("/", "\\")) or ("mkdir -p '%s'"):format(path))
end

--- Removes a folder with all that is in it.
function M.remove_folder(path)
  return M.shell(M.windows and ('rmdir /s /q "%s"'):format(path:gsub("/", "\\")) or ("rm -rf '%s'"):format(path))
end

--- The folder of LuaJIT's headers, or nil.
function M.headers()
  if M.windows then return end
  for _, folder in ipairs { "/usr/include/luajit-2.1", "/usr/local/include/luajit-2.1" } do
    if M.shell(("test -f '%s/lua.h'"):format(folder)) then return folder end
  end
end

local folder, compiler = os.getenv "TYCHO_BUILD" or "build", os.getenv "TYCHO_CC" or "gcc"

--- build/spec/NAME.so of spec/NAME.c, by those options of gcc's; it raises where that does not compile. Processes that run
--- at once may all find it missing, and each moves its own to its place.
---@param read? string[] headers that it includes, from the root
function M.build(name, options, read)
  if M.windows then return M.root .. "build/windows/spec/" .. name .. ".dll" end
  local source, so = M.root .. "spec/" .. name .. ".c", ("%s%s/spec/%s.so"):format(M.root, folder, name)
  local newer = {}
  for i, from in ipairs { source, unpack(read or {}) } do
    newer[i] = ("test '%s' -nt '%s'"):format(so, i == 1 and from or M.root .. from)
  end
  if not M.shell(table.concat(newer, " && ")) then
    local fresh = so .. tostring({}):match "0x%x+"
    assert(M.shell(("mkdir -p '%s%s/spec' && %s -shared -fPIC -fvisibility=hidden '%s' -o '%s' %s && mv '%s' '%s'")
      :format(M.root, folder, compiler, source, fresh, options, fresh, so)), name .. ".c does not compile")
  end
  return so
end

return M
