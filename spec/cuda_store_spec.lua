-- cuda_store_spec.lua -- kernels of the device "cuda" as they are assembled: kept on disk, assembled beside, interpreted
-- until then. Each claim runs programs of its own on the software GPU.
local H = require "spec.helper"
local cuda = require "spec.cuda"

local probe = cuda.soft and it or pending
local soft = cuda.driver or ""

local count = 0
local function folder()
  count = count + 1
  local name = os.tmpname()
  os.remove(name)
  return ("%s.%d"):format(name, count)
end

local function shell(command)
  local p = assert(io.popen(("( %s ) 2>&1"):format(command)))
  local text = p:read "*a"
  p:close()
  return text
end

--- Numbers that a program of several kernels gives, then what is known of the folder.
local program = [[
  local ty = require "tycho"
  local x = ty.arange(300, { device = "cuda" }) * 0.25
  print("bits", (x:sin() + 1):sum():item(), x:reshape(20, 15):matmul(x:reshape(15, 20)):exp():sum():item() > 0, x:cumsum(1):max():item())
  ty.cuda.settle()
  print("again", (x:sin() + 1):sum():item(), x:reshape(20, 15):matmul(x:reshape(15, 20)):exp():sum():item() > 0, x:cumsum(1):max():item())
  local c = ty.cuda.cache()
  print("counts", c.found, c.missed, c.written, c.removed)
  print("assembler", c.assembler, c.folder)
]]

local file = os.tmpname()
do
  local f = assert(io.open(file, "w"))
  f:write(program)
  f:close()
end

local function command(environment, at)
  return ("cd '%s.' && env -u CUDA_DEFAULT TYCHO_CUDA_DRIVER='%s' TYCHO_CUDA_LATE=0 TYCHO_NVJITLINK=off %s "
    .. "TYCHO_LOG=1 env %s luajit '%s'"):format(H.root, soft, at and ("TYCHO_CACHE='%s'"):format(at) or "", environment, file)
end

local function parse(text)
  local found, missed, written, removed = text:match "counts\t(%d+)\t(%d+)\t(%d+)\t(%d+)"
  assert.truthy(found, text)
  assert.equal(text:match "bits\t(.-)\n", text:match "again\t(.-)\n")
  return { bits = text:match "bits\t(.-)\n", found = tonumber(found), missed = tonumber(missed), written = tonumber(written),
    removed = tonumber(removed), text = text }
end

local function run(environment, at) return parse(shell(command(environment, at))) end
local function files(at) return tonumber(shell(("find '%s' -type f | wc -l"):format(at))) end
local function remove(at) shell(("rm -rf '%s'"):format(at)) end

describe("assembled kernels on disk", function()
  local want = cuda.soft and run("", "off") or nil

  probe("are found by a later process, which assembles nothing", function()
    local at = folder()
    local first, second = run("", at), run("", at)
    assert.equal(want.bits, first.bits)
    assert.equal(want.bits, second.bits)
    assert.same({ 0, true, first.missed }, { first.found, first.missed > 3, first.written })
    assert.same({ first.missed, 0, 0 }, { second.found, second.missed, second.written })
    assert.equal(first.written, files(at))
    remove(at)
  end)

  probe("are of one processor, driver and assembler", function()
    local at = folder()
    local n = run("", at).written
    assert.equal(0, run("SOFT_GPU_CAPABILITY=90", at).found)
    assert.equal(0, run("SOFT_GPU_DRIVER=12050", at).found)
    local other = run(("TYCHO_NVJITLINK='%s'"):format(soft), at)
    assert.same({ 0, n }, { other.found, other.written })
    assert.truthy(other.text:find("assembler\tnvJitLink 12.4 sm_80 driver 12040\t" .. at .. "/cuda", 1, true), other.text)
    -- a driver may refuse what an nvJitLink of a later major version makes: it is left alone
    local older = run(("TYCHO_NVJITLINK='%s' SOFT_GPU_DRIVER=11080"):format(soft), at)
    assert.truthy(older.text:find("assembler\tdriver 0.0 sm_80 driver 11080\t", 1, true), older.text)
    remove(at)
  end)

  probe("that were damaged are not used, and written anew", function()
    local at = folder()
    local n = run("", at).written
    shell(("cd '%s/cuda'; set -- *; truncate -s 100 $1; truncate -s 0 $2; printf X | dd of=$3 bs=1 seek=90 conv=notrunc; cp $3 $4")
      :format(at))
    local y = run("", at)
    assert.same({ want.bits, n - 4, 4, 4 }, { y.bits, y.found, y.missed, y.written })
    assert.equal(n, run("", at).found)
    remove(at)
  end)

  probe("that the driver does not take are removed, and it assembles the text itself", function()
    local at = folder()
    local n = run("", at).written
    local y = run("SOFT_GPU_FAIL_LOAD=1", at)
    assert.same({ want.bits, n, 0, 1 }, { y.bits, y.found, y.missed, y.written })
    remove(at)
  end)

  probe("stay below a cap: what was used least recently goes first", function()
    local at = folder()
    run("", at)
    local size = tonumber(shell(("du -sb --apparent-size '%s/cuda' | cut -f1"):format(at)))
    shell(("cd '%s/cuda'; set -- *; touch -d '2001-01-01' $1"):format(at))
    local oldest = shell(("ls -t '%s/cuda' | tail -1"):format(at)):match "%S+"
    shell(("rm \"%s/cuda/$(ls -t '%s/cuda' | head -1)\""):format(at, at)) -- one is written, and the cap is looked at
    shell(("touch -d '2001-01-01' '%s/cuda/%s'; mv '%s/cuda/%s' '%s/cuda/%s'"):format(at, oldest, at, oldest, at,
      ("0"):rep(32) .. ".cubin"))
    local y = run(("TYCHO_CACHE_MB=%g"):format(size * 0.9 / 1048576), at)
    assert.truthy(y.removed >= 1 and y.written >= 1 and y.bits == want.bits, y.text)
    assert.equal("", shell(("ls '%s/cuda' | grep '^%s'"):format(at, ("0"):rep(32))))
    assert.truthy(tonumber(shell(("du -sb --apparent-size '%s/cuda' | cut -f1"):format(at))) <= size * 0.9 + 4096)
    remove(at)
  end)

  probe("are written by two processes at once, each whole", function()
    local at = folder()
    local text = shell(("(%s) >'%s.1' & (%s) >'%s.2'; wait; cat '%s.1'; echo ===; cat '%s.2'"):format(command("", at), at,
      command("", at), at, at, at))
    local one, two = text:match "^(.-)===(.*)$"
    assert.equal(want.bits, parse(one).bits)
    assert.equal(want.bits, parse(two).bits)
    local third = run("", at)
    assert.same({ want.bits, 0 }, { third.bits, third.missed })
    assert.equal(third.found, files(at))
    os.remove(at .. ".1")
    os.remove(at .. ".2")
    remove(at)
  end)

  probe("lie where the environment says; a place that cannot be written keeps none", function()
    local at = folder()
    local y = run(("-u TYCHO_CACHE XDG_CACHE_HOME='%s'"):format(at))
    assert.equal(y.written, files(at .. "/tycho/cuda"))
    remove(at)
    y = run(("-u TYCHO_CACHE -u XDG_CACHE_HOME HOME='%s'"):format(at))
    assert.equal(y.written, files(at .. "/.cache/tycho/cuda"))
    remove(at)
    y = run("", "/dev/null/x")
    assert.same({ want.bits, 0 }, { y.bits, y.written })
    assert.truthy(run("", "off").text:find "assembler\t[^\n]*\tnil\n")
  end)
end)

describe("until its kernel is assembled", function()
  local late = "-u TYCHO_CUDA_LATE "
  probe("a program is interpreted, to the same bits; then its own kernel is there", function()
    local at = folder()
    local y = run(late, at)
    local want = run("", "off")
    assert.equal(want.bits, y.bits)
    assert.truthy(y.text:find "the interpreter of loop programs was assembled for software GPU in %d+ ms", y.text)
    assert.truthy(y.written > 3)
    local second = run(late, at)
    assert.falsy(second.text:find "interpreter")
    assert.same({ want.bits, 0 }, { second.bits, second.written })
    remove(at)
  end)

  probe("what goes as several kernels is one or the other whole", function()
    local f = os.tmpname()
    local h = assert(io.open(f, "w"))
    h:write [[
      local ty = require "tycho"
      local x = ty.arange(18002):reshape(2, 9001) / 7
      for i = 1, 12 do -- each i is a program of its own
        local function g(a) return (a * i + 0.5):sum(2):sum():item(), (a + i):cumsum(2):max():item() end
        local want = { g(x) }
        local fused = ty.compile(function(a) return (a * 0.25 + 0.5):exp2():sum(2) + i end)
        local y = ty.arange(2 * (70 + i)):reshape(2, 70 + i) / 90
        for _ = 1, 4 do
          local p, q = fused(y):totable(), fused(y:to "cuda"):totable()
          assert(p[1] == q[1] and p[2] == q[2], i)
        end
        local there = x:to "cuda"
        for _ = 1, 4 do
          local sum, most = g(there)
          assert(sum == want[1] and most == want[2], i)
        end
      end
      print "same"]]
    h:close()
    local text = shell(("cd '%s.' && env -u CUDA_DEFAULT -u TYCHO_CUDA_LATE TYCHO_CUDA_DRIVER='%s' TYCHO_CACHE=off "
      .. "TYCHO_NVJITLINK=off timeout 60 luajit '%s'"):format(H.root, soft, f))
    os.remove(f)
    assert.truthy(text:find "same\n$", text)
  end)

  probe("nothing waits for what never comes: without the thread, or the interpreter", function()
    assert.equal(run("", "off").bits, run(late .. "TYCHO_CUDA_INTERPRET=0", "off").bits)
    assert.equal(run("", "off").bits, run("TYCHO_CUDA_INTERPRET=all", "off").bits)
  end)
end)

describe("a process ends", function()
  probe("while kernels are being assembled, and its fork lives without them", function()
    local f = os.tmpname()
    local h = assert(io.open(f, "w"))
    h:write [[
      local ffi, ty = require "ffi", require "tycho"
      ffi.cdef "int fork(void); int waitpid(int pid, int *status, int options);"
      local x = ty.arange(100, { device = "cuda" })
      for i = 1, 30 do x = x * i + i / 7 ; x = x:sin() end
      local pid = ffi.C.fork()
      if pid == 0 then print(pcall(function() return x:sum():item() end)) io.stdout:flush() os.exit(0) end
      ffi.C.waitpid(pid, nil, 0)
      print "parent"
    ]]
    h:close()
    local text = shell(("cd '%s.' && env -u CUDA_DEFAULT -u TYCHO_CUDA_LATE TYCHO_CUDA_DRIVER='%s' TYCHO_CACHE=off "
      .. "TYCHO_NVJITLINK='%s' timeout 20 luajit '%s'; echo $?"):format(H.root, soft, soft, f))
    os.remove(f)
    assert.truthy(text:find "false\t.*a child process cannot use the CUDA device", text)
    assert.truthy(text:find "parent\n0\n$", text)
  end)
end)

teardown(function() os.remove(file) end)
