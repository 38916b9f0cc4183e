--- pool_spec.lua -- the worker pool as a guest in a process: quiet when idle, right after a fork, and code memory that the
--- system, or the failing allocator, does not give.

local H = require "spec.helper"

--- What the scripts below share.
local words = [[
local ty = require "tycho"
local ffi = require "ffi"
ffi.cdef "int fork(void); int waitpid(int, int *, int); void _exit(int); int usleep(unsigned); unsigned alarm(unsigned);"
local function text(t)
  local c = t:clone()
  return ffi.string(c:data(), c:numel() * 4)
end
--- Runs fn in a child; true when it gave true within the time.
local function child(fn)
  local id = ffi.C.fork()
  if id == 0 then
    ffi.C.alarm(30)
    local ok, value = pcall(fn)
    if not ok then print(value) end
    io.flush()
    ffi.C._exit(ok and value and 0 or 1)
  end
  local status = ffi.new "int[1]"
  ffi.C.waitpid(id, status, 0)
  return status[0] == 0
end
]]

local function script(code, env)
  local out, status = H.script(words .. code, env)
  assert.equal(0, status, out)
  return out
end

describe("idle threads", function()
  it("use no CPU", function()
    local out = script([[
      ty.threads(2)
      local a, v = ty.rand(300, 300), ty.rand(1000000)
      for _ = 1, 5 do a:matmul(a):sum():item() v:exp():sum():item() end
      ffi.C.usleep(20000)
      local before = os.clock() -- of the process, all threads
      ffi.C.usleep(500000)
      print(os.clock() - before)
    ]])
    assert.is_true(tonumber(out) < 0.005, out)
  end)
end)

describe("a fork", function()
  local use = [[
    ty.threads(2)
    local a, v = ty.rand(200, 300), ty.rand(500000)
    local f = ty.compile(function() return (a:matmul(a:t()) + 1):tanh(), (v * 2 - 1):exp():sum() end)
    local function results()
      local p, q = f()
      return text(p) .. text(q) .. text(a:matmul(a:t()))
    end
    local want = results()
  ]]

  it("leaves a child whose threads work, and a parent whose threads work", function()
    script(use .. [[
      for _ = 1, 20 do
        assert(child(function()
          for _ = 1, 3 do assert(results() == want) end
          return child(function() return results() == want end) -- and a child of it
        end))
        assert(results() == want)
      end
    ]])
  end)

  it("leaves a child that compiles new functions and frees old ones", function()
    script(use .. [[
      local function fresh(k) return text(ty.compile(function() return (v * k):sin() + k end)()) end
      local first = fresh(3)
      for round = 1, 10 do
        assert(child(function()
          for k = 1, 20 do fresh(k) end
          f = nil
          collectgarbage()
          return fresh(3) == first
        end))
        for k = 20, 1, -1 do fresh(k + round) end
        assert(fresh(3) == first and results() == want)
      end
    ]])
  end)
end)

--- Code memory is a file in memory: a limit of no bytes on files makes the system refuse it, and nothing else here.
local refuse = [[
ffi.cdef "struct tycho_limit { unsigned long now, most; }; int setrlimit(int, const struct tycho_limit *);"
ffi.cdef "void *signal(int, void *);"
local function refuse()
  ffi.C.signal(25, ffi.cast("void *", 1)) -- SIGXFSZ, ignored
  assert(ffi.C.setrlimit(1, ffi.new("struct tycho_limit", 0, 0)) == 0)
end
]]

describe("where the system gives no memory for code", function()
  it("the portable machine runs, with the same bits, and the statistics say so in one line", function()
    local bits = ("dofile '%sspec/bits.lua'\n"):format(H.root)
    local say = "\nprint(require('tycho').stats().no_native)"
    local open = H.script(bits .. say, {}, 2)
    local shut, status = H.script("local ffi = require 'ffi'\n" .. refuse .. "refuse()\n" .. bits .. say, {}, 2)
    assert.equal(0, status, shut)
    local machine, hashes, why = shut:match "^machine (%w+)\n(.-)([^\n]*)\n$"
    assert.equal("tile", machine)
    assert.equal("the system lets no native code be made", why)
    assert.equal(hashes, open:match "^machine %w+\n(.-)[^\n]*\n$")
  end)

  it("later than at the start, new functions run on the portable machine with the same bits", function()
    local out = script(refuse .. [[
      local x = ty.rand(33, 71)
      local function fresh(k) return text(ty.compile(function() return ((x * k):sin() + k):softmax() end)()) end
      local want = {}
      for k = 1, 8 do want[k] = fresh(k) end
      print(child(function() -- which takes no more of its parent's
        refuse()
        for k = 8, 1, -1 do assert(fresh(k) == want[k]) end
        assert(text(ty.compile(function() return x:cosh():log() - 2 end)()) == text(x:cosh():log() - 2))
        print(ty.stats().no_native)
        return true
      end))
    ]])
    assert.equal("the system lets no native code be made\ntrue\n", out)
  end)
end)

describe("when allocations fail", function()
  it("memory for code among them, a call raises or gives the right bits, and the next one works", function()
    -- a child has to map memory of its own for the first code that it makes: which allocation fails goes through all
    local out = script([[
      local x = ty.rand(33, 71)
      local function fresh() return (ty.compile(function() return ((x * 3):sin() + 2):softmax() - x:atan() end)()) end
      local want = text(((x * 3):sin() + 2):softmax() - x:atan())
      local fail = ty.internals.probe.fail
      local raised, passed = 0, 0
      for times = 1, 3 do
        for after = 0, 60 do
          assert(child(function()
            ty.internals.probe.fail(after, times)
            local ok, y = pcall(fresh)
            fail(-1)
            if ok then assert(text(y) == want)
            else assert(tostring(y):find("memory", 1, true), y) end
            assert(text(fresh()) == want)
            return true
          end), after)
        end
      end
      fail(0)
      local asked
      pcall(fresh)
      asked = fail(-1)
      print(asked)
    ]])
    assert.is_true(tonumber(out:match "%d+") > 0, out)
  end)
end)
