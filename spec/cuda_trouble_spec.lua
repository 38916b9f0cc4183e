-- cuda_trouble_spec.lua -- what goes wrong with the device "cuda", by failures that the software GPU is asked for: each is a clear
-- error, and the process and the CPU's tensors go on. More of it stands in cuda_spec.lua.
local cuda = require "spec.cuda"

local probe = cuda.soft and it or pending

--- A program on the device in a process of its own.
local function gives(want, environment, program)
  return cuda.gives(want, environment, "local ty = require 'tycho'\n" .. program)
end

describe("memory of cuda", function()
  probe("that garbage holds is given to who needs it, by one collection", function()
    gives("^done\n3\nstatus 0\n$", "SOFT_GPU_MEMORY=67108864", [[
      collectgarbage "setpause" collectgarbage("setpause", 100000)
      for i = 1, 20 do local x = ty.zeros(2500000, { device = "cuda" }); x = nil end
      print "done"
      print(ty.ones(3, { device = "cuda" }):sum():item())]])
  end)

  probe("has a limit, which raises, and may be lifted", function()
    gives("^inf\nfalse\t.*memory.*\n2500000\nfalse\t.*cuda.limit: argument 1 must be a number of bytes from 0, or math.huge, "
      .. "got x\nstatus 0\n$", "", [[
      print(ty.cuda.limit(4e6))
      print(pcall(ty.zeros, 2500000, { device = "cuda" }))
      assert(ty.cuda.limit(math.huge) == 4e6)
      print(ty.zeros(2500000, { device = "cuda" }):numel())
      print(pcall(ty.cuda.limit, "x"))]])
  end)

  probe("that the driver denies at any time raises or is done without, and the next call goes on", function()
    local program = [[
      local x = ty.arange(60)
      local f = ty.compile(function(a) return (a:reshape(6, 10):softmax(2):matmul(a:reshape(10, 6)) + 1):sum(1):cumsum(1) end)
      local want = tostring(f(x))
      local there
      for _ = 1, 3 do
        if type(there) ~= "userdata" then there = select(2, pcall(function() return x:to "cuda" end)) end
      end
      local failed = 0
      for _ = 1, 5 do
        local ok, y = pcall(function() return f(there):to "cpu" end)
        if ok then assert(tostring(y) == want, tostring(y)) else failed = failed + 1 assert(tostring(y):find "memory", tostring(y)) end
      end
      assert(failed <= 1, failed)
      assert(tostring(f(there):to "cpu") == want)
      print "same"]]
    for n = 1, 9 do gives("^same\nstatus 0\n$", "SOFT_GPU_FAIL_ALLOC=" .. n, program) end
  end)
end)

describe("a process that used cuda", function()
  local busy = [[
    local x = ty.randn(40, 40, { device = "cuda" })
    local f = ty.compile(function(a) for i = 1, 5 do a = (a / i):softmax(2):matmul(a) end return a end)
    for _ = 1, 4 do x = f(x) end
    KEPT = x
  ]]
  for what, ending in pairs {
    ["at its end"] = "", ["by os.exit"] = "os.exit(0)", ["with its state closed first"] = "os.exit(0, true)",
    ["in a coroutine"] = "coroutine.wrap(function() os.exit(0, true) end)()",
  } do
    probe("ends while work is in flight: " .. what, function()
      gives("^status 0\n$", "TYCHO_CUDA_LATE=1", busy .. ending)
      gives("^status 0\n$", "TYCHO_CUDA_LATE=0", busy .. ending)
    end)
  end
  probe("ends by an error, whose text is its own", function()
    gives("mine.*status 1\n$", "", busy .. "error 'mine'")
  end)
  probe("ends after its device was lost", function()
    gives("^false\nstatus 0\n$", "SOFT_GPU_LOSE_AFTER=9", busy .. "print((pcall(function() return KEPT:sum():item() end)))")
  end)
end)

describe("a driver", function()
  it("that lacks a function is too old, and is named", function()
    gives("the CUDA driver is too old: it has no cuInit, 11.4 or newer is needed", "TYCHO_CUDA_DRIVER=libm.so.6",
      "print(ty.cuda.is_available())")
  end)
  it("that is no library is not found", function()
    gives("there is no CUDA driver: /etc/passwd", "TYCHO_CUDA_DRIVER=/etc/passwd", "print(ty.cuda.is_available())")
  end)
end)
