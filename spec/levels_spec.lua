--- levels_spec.lua -- core has a folder for each level: a file uses its own level and lower ones, in words and in code.

local H = require "spec.helper"

--- In the order in which they stand on each other.
local LEVELS = { "base", "ir", "device", "record", "compile", "engine", "lua", "embed" }

--- Where a level calls a higher one all the same: through a pointer that the higher one gave it, and why.
local CALLBACKS = {
  ["record/tensor.h cut"] = "a value that is read is computed: the engine plans and runs",
  ["record/tensor.h recorded"] = "TYCHO_DUMP=r shows each operation as it is recorded",
  ["record/tensor.h quick"] = "an eager operation of a usual kind needs no graph",
  ["record/tensor.h forget"] = "what was packed of a buffer's contents goes with them",
  ["record/tensor.h where"] = "an error that a device tells later names the user's line",
  ["record/tensor.h drop"] = "memory of others is theirs to free, and what a user's gradient keeps is Lua's",
  ["record/tensor.h interrupted"] = "a run may be left undone when the host wants an end of it",
  ["record/grad.h write"] = "an assignment is recorded as record_write.c does it",
  ["record/grad.h custom"] = "rules of the library's functions are Lua, which a plan of the backward pass records",
  ["record/grad.h alike"] = "whether two Lua rules do the same is for Lua's part to say: a range has one of them",
  ["engine/engine.h say"] = "dumps go where the host wants them",
  ["engine/entry.h on_cut"] = "jit.graph hears of each cut",
}

local level = {}
for i, name in ipairs(LEVELS) do level[name] = i end

local function lines_of(command)
  local list, pipe = {}, io.popen(("cd '%s' && %s"):format(H.root, command))
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function level_of(path, prefix) return level[path:match("^" .. prefix .. "([%w_]+)/")] end

describe("the levels of core", function()
  it("are all there is but formats and messages between ranks, which are libraries of their own", function()
    for _, folder in ipairs(lines_of "ls -d core/*/") do
      local name = folder:match "core/([%w_]+)/"
      assert.truthy(level[name] or name == "file" or name == "dist", folder)
    end
  end)

  it("include downwards only", function()
    local seen = 0
    for _, path in ipairs(lines_of "find core -name '*.[ch]'") do
      local own = level_of(path, "core/")
      for included in H.read(path):gmatch '#include "([%w_/]+%.h)"' do
        local other = level_of(included, "")
        seen = seen + 1
        if own and other then assert.truthy(other <= own, ("%s includes %s from above"):format(path, included)) end
      end
    end
    assert.truthy(seen > 200, seen)
  end)

  --- Who defines and who needs which symbol, by object whose source is there.
  local function symbols()
    local sources, defined, needed = {}, {}, {}
    for _, path in ipairs(lines_of "find core -name '*.c'") do sources[path:match "^core/(.*)%.c$"] = true end
    for _, line in ipairs(lines_of "find build/obj -name '*.o' -exec nm -A {} +") do
      local object, kind, name = line:match "^build/obj/([%w_/]+)%.o:%x*%s+(%a) ([%w_.]+)$"
      if not sources[object] then kind = nil end
      if kind == "U" then
        needed[#needed + 1] = { object, name }
      elseif kind and kind:upper() == kind then
        defined[name] = object
      end
    end
    return defined, needed
  end

  it("link downwards only", function()
    if H.asan then return pending "the objects are not those of a sanitizer's build" end
    local defined, needed = symbols()
    local seen = 0
    for _, pair in ipairs(needed) do
      local object, name = pair[1], pair[2]
      local from = defined[name]
      local own, other = level_of(object, ""), from and level_of(from, "")
      if own and other then
        seen = seen + 1
        assert.truthy(other <= own, ("%s needs %s of %s, from above"):format(object, name, from))
      end
    end
    assert.truthy(seen > 1000, seen)
  end)

  --- What differs between systems: headers, and calls beyond those of C.
  local SYSTEM = {
    ["base/system.h"] = true, ["base/system.c"] = true, ["file/file_system.c"] = true, ["base/interrupt.c"] = true,
    ["base/loop_exit.c"] = true, ["base/processor.c"] = true, ["base/system_windows.c"] = true,
    ["base/interrupt_windows.c"] = true, ["file/file_system_windows.c"] = true, ["dist/dist_system.c"] = true,
    ["device/cuda/store.c"] = true,
  }
  local SYSTEM_HEADERS = {
    "sys/", "linux/", "pthread.h", "sched.h", "semaphore.h", "dlfcn.h", "time.h", "unistd.h", "signal.h", "fcntl.h",
    "dirent.h", "poll.h", "ucontext.h", "cpuid.h", "windows.h", "mach/",
  }
  local SYSTEM_CALLS = {
    "mmap", "munmap", "mprotect", "madvise", "mremap", "memfd_create", "ftruncate", "sysconf", "syscall", "dlopen",
    "dlsym", "dlclose", "dlerror", "dladdr", "clock_gettime", "gettimeofday", "nanosleep", "usleep", "getpid",
    "signal", "raise", "kill", "sigaction", "sigprocmask", "isatty", "ioctl", "getrlimit", "setrlimit", "fstat", "stat",
    "lstat", "fstatat", "sendfile", "pread", "pwrite", "fsync", "linkat", "unlink", "realpath", "opendir", "readdir",
    "getauxval", "fork", "__cpuid", "__cpuid_count", "__get_cpuid", "__get_cpuid_count", "__builtin_cpu_init",
    "__builtin_cpu_supports", "__builtin_cpu_is",
  }
  local SYSTEM_PREFIXES = { "pthread_", "PTHREAD_", "sched_", "sem_", "MAP_", "PROT_", "MADV_", "RTLD_", "CLOCK_" }

  --- The first thing in a text of C that asks the operating system.
  local function asks(text)
    text = text:gsub("/%*.-%*/", " "):gsub('"[^"\n]*"', '""')
    for header in text:gmatch "#include <([%w_/.]+)>" do
      for _, name in ipairs(SYSTEM_HEADERS) do
        if header:sub(1, #name) == name then return header end
      end
    end
    local names = {}
    for before, name in text:gmatch "([%w_.>]?)([%a_][%w_]*)%s*%f[(]%(" do
      if before == "" then names[name] = true end
    end
    for _, name in ipairs(SYSTEM_CALLS) do
      if names[name] then return name end
    end
    for name in text:gmatch "%f[%w_][%a_][%w_]*" do
      for _, prefix in ipairs(SYSTEM_PREFIXES) do
        if name:sub(1, #prefix) == prefix then return name end
      end
    end
  end

  it("asks the operating system in few places", function()
    local seen = 0
    for _, path in ipairs(lines_of "find core -name '*.[ch]'") do
      local what = asks(H.read(path))
      if SYSTEM[path:match "^core/(.*)$"] then
        seen = seen + 1
        assert.truthy(what, path .. " asks nothing")
      else
        assert.falsy(what, ("%s asks the system: %s"):format(path, tostring(what)))
      end
    end
    assert.equal(11, seen)
  end)

  --- Files of a folder that call each other in circles: so many, and never more. Elsewhere there are none.
  local CIRCLES = {
    -- record, record_write, record_move, vmap, tape, complex: an operation on batched tensors is recorded for all examples,
    -- one on complex tensors of their reals, and what a tape keeps is copied, by the functions that ask whether an operand
    -- is batched, complex or taped
    record = 6,
    device = 4, -- x64_body, x64_ops: an operation asks for registers, which may write others out; fft, fft_plan: the plan
    -- of a length that is prime transforms its own roots
  }

  --- Groups of nodes that reach each other, of more than one (Tarjan). edges: node -> set of nodes.
  local function circles_of(edges)
    local number, low, stack, on, count, found = {}, {}, {}, {}, 0, {}
    local function visit(v)
      count = count + 1
      number[v], low[v] = count, count
      stack[#stack + 1], on[v] = v, true
      for w in pairs(edges[v] or {}) do
        if not number[w] then visit(w) end
        if on[w] then low[v] = math.min(low[v], low[w]) end
      end
      if low[v] ~= number[v] then return end
      local group = {}
      repeat
        local w = table.remove(stack)
        on[w], group[#group + 1] = nil, w
      until w == v
      if #group > 1 then
        table.sort(group)
        found[#found + 1] = group
      end
    end
    for v in pairs(edges) do
      if not number[v] then visit(v) end
    end
    return found
  end

  it("have no circles of files but where they are known", function()
    if H.asan then return pending "the objects are not those of a sanitizer's build" end
    local chain = circles_of { a = { b = true }, b = { c = true }, c = { b = true }, d = { a = true } }
    assert.same({ { "b", "c" } }, chain)
    local defined, needed = symbols()
    local edges, size, names = {}, {}, {}
    for _, pair in ipairs(needed) do
      local from = defined[pair[2]]
      if from and from ~= pair[1] then
        edges[pair[1]] = edges[pair[1]] or {}
        edges[pair[1]][from] = true
      end
    end
    for _, group in ipairs(circles_of(edges)) do
      local folder = group[1]:match "^[%w_]+"
      size[folder] = (size[folder] or 0) + #group
      names[folder] = (names[folder] or "") .. table.concat(group, " ") .. "; "
    end
    for folder, n in pairs(size) do
      local most = CIRCLES[folder] or 0
      assert.truthy(n <= most, ("%s: %d files in circles, at most %d: %s"):format(folder, n, most, names[folder]))
    end
    for folder, most in pairs(CIRCLES) do
      assert.equal(most, size[folder] or 0, folder .. " has fewer files in circles: lower its bound")
    end
  end)

  it("call upwards by few pointers, each for a reason", function()
    local found = {}
    for _, path in ipairs(lines_of "ls core/*/*.h") do
      local file = path:match "^core/(.*)$"
      if file:find "^record/" or file:find "^compile/" or file:find "^engine/" or file:find "^ir/" or file:find "^base/" then
        local text = H.read(path):gsub("/%*.-%*/", " ")
        for name in text:gmatch "%(%*([%a_][%w_]*)%)%(" do found[file .. " " .. name] = true end
      end
    end
    local n = 0
    for key in pairs(found) do
      n = n + 1
      assert.truthy(CALLBACKS[key], key .. " is no callback that is known")
    end
    for key in pairs(CALLBACKS) do assert.truthy(found[key], key .. " is gone") end
    assert.truthy(n <= 12, n)
  end)
end)
