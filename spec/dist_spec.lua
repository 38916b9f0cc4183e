--- dist_spec.lua -- ty.dist: several processes on each MPI that is installed, to the bits of one process; what goes wrong
--- is said on all ranks. The claims of the ranks are in dist_program.lua. `make test` has 2 and 4 ranks; where no MPI is
--- installed they are skipped (make deps-dist).

local H = require "spec.helper"
local ty = H.ty
local dist = ty.dist

local module = require "spec.module"
local run, MPIS = module.run, module.mpis()
local some
for _, m in ipairs(MPIS) do
  m.there = m.there and not H.asan
  if m.there then some = m end
end

local folder = os.tmpname()
os.remove(folder)
H.shell(("mkdir -p '%s'"):format(folder))

local function file(name, text)
  local path = folder .. "/" .. name
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
  return path
end

--- tycho --ranks, as users call it.
local function ranks(mpi, n, rest, env)
  return run(("cd '%s' && env -u LUA_PATH -u LUA_CPATH TYCHO_MPIRUN=%s %s ./tycho --ranks %d %s"):format(H.root, mpi.mpirun,
    env or "", n, rest))
end

local function count(text, what)
  local _, n = text:gsub(what:gsub("%p", "%%%0"), "")
  return n
end

local CLAIMS = { "sums", "pieces", "operations", "views", "copies", "messages", "groups", "disagreement", "captured", "training",
  "replicas", "steps", "stopped", "gradients", "loaders", "shards" }
--- What takes longer: on 2 ranks with the first MPI, and of 4 ranks with the second one only some of the others; all of them
--- in `make test-long`.
local MODELS, FEW = { "units", "memory", "tensors", "stages" }, "operations messages groups captured training replicas stages"
if H.long then CLAIMS[#CLAIMS + 1] = "huge" end
local digests = {} -- claim and ranks to the digest that the first MPI gave

teardown(function() H.shell(("rm -rf '%s'"):format(folder)) end)

for _, mpi in ipairs(MPIS) do
  for _, n in ipairs { 2, 4 } do
    local probe = mpi.there and it or pending
    describe(("%d ranks on %s"):format(n, mpi.name), function()
      probe("give the bits of one process", function()
        local claims = n == 4 and table.concat(CLAIMS, " "):gsub(" huge", "") or table.concat(CLAIMS, " ")
        if H.long or n == 2 and mpi == some then claims = claims .. " " .. table.concat(MODELS, " ") end
        if not H.long and n == 4 and mpi ~= some then claims = FEW end
        local out, status = ranks(mpi, n, ("-q spec/dist_program.lua '%s' %s"):format(folder, claims))
        assert.equal(0, status, out)
        for name in claims:gmatch "%S+" do
          local digest, any = out:match(("%s\t(%%d+ letters %%d+ %%d+)\t([^\n]*)"):format(name))
          assert.truthy(digest, name .. ": " .. out)
          local key = any == "any ranks" and name or name .. n
          assert.equal(digests[key] or digest, digest, key)
          digests[key] = digest
        end
      end)
    end)
  end
end

--- A program for faults: rank 1 does what its argument says, the others exchange with it.
local FAULTS = [[
local ty = require "tycho"
local ffi = require "ffi"
ffi.cdef "int raise(int); unsigned sleep(unsigned); int getppid(void);"
local dist = ty.dist
local rank = dist.init { timeout = 1.5 }
local how = arg[1]
if rank == 1 then
  if how == "error" then error "on purpose" end
  if how == "kill" then ffi.C.raise(9) end
  if how == "hang" then ffi.C.sleep(100) end
  if how == "exit" then os.exit(7) end
  if how == "end" then os.exit(0) end
end
local ok, message = pcall(dist.all_reduce, ty.ones(3))
assert(not ok)
io.write("first: ", message, "\n")
ok, message = pcall(dist.barrier)
io.write("then: ", message, "\n")
error(message, 0)
]]

--- The same in the middle of a training step that is one plan: the others' gradients are under way, and nothing of theirs
--- is written. At step 4, rank 1: dies or hangs as its own step begins, is ended by a clock in one of many steps, dies between
--- two of its exchanges (it runs no plan then), has an error that it alone finds after its messages have left.
local STEP_FAULTS = [[
local ty = require "tycho"
local ffi = require "ffi"
ffi.cdef "int raise(int); unsigned sleep(unsigned); typedef struct { long is, iu, vs, vu; } span;"
ffi.cdef "int setitimer(int, const span *, void *);"
local dist, nn = ty.dist, ty.nn
local rank = dist.init { timeout = 1.5 }
local how = arg[1]
local m = nn.Sequential(nn.Linear(300, 400), nn.Tanh(), nn.Linear(400, 300), nn.Tanh(), nn.Linear(300, 3))
dist.replicate(m)
local opt = ty.optim.AdamW(m:parameters(), { lr = 0.01 })
local function plain(x, at)
  opt:zero_grad()
  local loss = (m(x) ^ 2):mean()
  loss:backward()
  local sums = dist.all_reduce(m[3].weight:detach() * at)
  local rows = (sums:sum() * 0 + at):to "i64":reshape(1)
  opt:step()
  return loss:detach() + x[1]:gather(1, rows):sum() * 0
end
local step = jit.compile(plain)
if rank == 1 and how == "between" then
  local W, n = require "tycho.dist.world", 0
  local exchange = W.exchange
  step = plain
  function W.exchange(...)
    n = n + 1
    if n == 3 * 7 + 3 then ffi.C.raise(9) end
    return exchange(...)
  end
end
local x = ty.ones(64, 300)
local before
local function run()
  for i = 1, how == "clock" and 1e6 or 8 do
    before = m[5].weight:detach():clone()
    if rank == 1 and i == 4 then
      if how == "kill" then ffi.C.raise(9) end
      if how == "hang" then ffi.C.sleep(100) end
      if how == "clock" then ffi.C.setitimer(2, ffi.new("span", { 0, 0, 0, 30000 }), nil) end
    end
    step(x, how == "error" and rank == 1 and i == 4 and 999 or 1)
  end
end
local ok, message = pcall(run)
assert(not ok)
local e = ty.explain(step)
io.write("whole: ", tostring(e.skips >= 3 and not tostring(e):find("up to", 1, true)), "\n")
io.write("kept: ", tostring(before:eq(m[5].weight):all():item()), "\n")
io.write("first: ", message, "\n")
ok, message = pcall(step, x, 1)
assert(not ok)
io.write("then: ", message, "\n")
error(message, 0)
]]

describe("a rank", function()
  local probe = some and it or pending
  local path, step_path
  setup(function()
    path = file("faults.lua", FAULTS)
    step_path = file("step_faults.lua", STEP_FAULTS)
  end)

  local function fails(how, sentence, code)
    for _, mpi in ipairs(MPIS) do
      if mpi.there and (mpi == some or how == "kill" or H.long) then
        local out, status = ranks(mpi, 3, ("'%s' %s"):format(path, how), "TYCHO_DIST_GRACE=2")
        assert.equal(code, status, out)
        for _, r in ipairs { 0, 2 } do
          assert.equal(1, count(out, ("[%d] first: "):format(r)), out)
          assert.truthy(out:find(("%%[%d%%] first: [^\n]*faults.lua:%%d+: all_reduce: %s\n"):format(r, sentence)), out)
          assert.truthy(out:find(("[%d] then: "):format(r), 1, true), out)
        end
        assert.truthy(out:find(("\ntycho: %s\n"):format(sentence)), out)
      end
    end
  end

  local function step_fails(how, sentence, code, only)
    for _, mpi in ipairs(MPIS) do
      if mpi.there and (mpi == (only or some) or how == "kill" or H.long) then
        local out, status = ranks(mpi, 3, ("'%s' %s"):format(step_path, how), "TYCHO_DIST_GRACE=2")
        assert.equal(code, status, out)
        for _, r in ipairs { 0, 2 } do
          for _, text in ipairs { "whole: true", "kept: true" } do
            assert.truthy(out:find(("[%d] %s\n"):format(r, text), 1, true), out)
          end
          assert.truthy(out:find(("%%[%d%%] first: [^\n]*step_faults.lua:%%d+: [%%w_]+: %s\n"):format(r, sentence)), out)
          assert.truthy(out:find(("%%[%d%%] then: [^\n]*: %s\n"):format(r, sentence)), out)
        end
        assert.truthy(out:find(("\ntycho: %s\n"):format(sentence)), out)
      end
    end
  end

  probe("that dies while gradients travel is named on all others", function()
    step_fails("kill", "rank 1 was ended by signal 9, Killed", 137)
  end)
  -- MPICH's UCX calls abort() in a process that reads the memory of one that is just then killed
  local mpich = MPIS[2].there and MPIS[2] or some
  probe("that dies in a step is named on all others", function()
    step_fails("clock", "rank 1 was ended by signal 27, [^\n]+", 155, mpich)
  end)
  probe("that dies between two exchanges of a step is named on all others", function()
    step_fails("between", "rank 1 was ended by signal 9, Killed", 137)
  end)
  probe("that hangs while gradients travel is named after the time that is allowed", function()
    step_fails("hang", "rank 1 did not answer within 1%.5 s", 143)
  end)
  probe("that leaves a step when its gradients have left ends the exchange on all", function()
    step_fails("error", "rank 1 has left a step undone: gather: index 999 [^\n]+", 1)
  end)

  probe("that raises is named on all others", function() fails("error", "rank 1 has exited with status 1", 1) end)
  probe("that exits is named, and its code is the run's", function() fails("exit", "rank 1 has exited with status 7", 7) end)
  probe("that is killed is named on all others", function() fails("kill", "rank 1 was ended by signal 9, Killed", 137) end)
  probe("that hangs is named after the time that is allowed, and ended", function()
    fails("hang", "rank 1 did not answer within 1%.5 s", 143)
  end)
  probe("that receives in a step what it does not expect ends the exchange on all", function()
    local script = file("expects.lua", [[
      local ty = require "tycho"
      local dist = ty.dist
      local rank = dist.init { timeout = 8 }
      local x = ty.ones(5)
      local step = jit.compile(function(a)
        if rank == 0 then dist.send(a, 1) end
        return rank == 1 and dist.recv(0, { like = x }) or a
      end)
      for _ = 1, 2 do step(x) end
      local ok, message = pcall(step, rank == 0 and ty.ones(3) or x)
      if ok then ok, message = pcall(dist.barrier) end
      print(ok, message)
    ]])
    local out = ranks(some, 3, ("'%s'"):format(script), "TYCHO_DIST_GRACE=2")
    local told = "recv: rank 0 has sent another dtype or other sizes than option like has\n"
    assert.equal(2, count(out, "barrier: rank 1 has left a step undone: " .. told), out)
    assert.truthy(out:find("%[1%] false\t[^\n]*expects.lua:%d+: " .. told), out)
  end)
  probe("that finds a failure tells the others itself, by messages", function()
    local script = file("tells.lua", [[
      local ty = require "tycho"
      local ffi = require "ffi"
      ffi.cdef "int setenv(const char *, const char *, int); unsigned sleep(unsigned); long time(long *);"
      ffi.C.setenv("TYCHO_DIST_FAILED", "", 1) -- as under mpirun alone
      local rank = ty.dist.init { timeout = 8 }
      ty.dist.barrier()
      if rank == 1 then ffi.C.sleep(4) os.exit(0) end
      if rank == 0 then ty.dist.init { timeout = 0.5 } end
      local began = tonumber(ffi.C.time(nil))
      local ok, message = pcall(ty.dist.barrier)
      print(message, tonumber(ffi.C.time(nil)) - began < 4)
    ]])
    local out = ranks(some, 3, ("'%s'"):format(script))
    assert.equal(2, count(out, "barrier: rank 1 did not answer within 0.5 s\ttrue\n"), out)
  end)

  probe("that has ended is named", function() fails("end", "rank 1 ended and took no part", 1) end)
end)

--- Each rank has a software GPU of its own, and NCCL's functions from nccl.c.
local function exists(path)
  local f = io.open(path)
  if f then f:close() end
  return f ~= nil
end
local build = H.root .. (os.getenv "TYCHO_BUILD" or "build")
local soft = some and exists(build .. "/spec/libcuda.so") and exists(build .. "/spec/soft_nccl.so")
local on_devices = ("DIST_DEVICE=cuda TYCHO_CUDA_DRIVER='%s/spec/libcuda.so' TYCHO_NCCL='%s/spec/soft_nccl.so' TMPDIR='%s' " ..
  "TYCHO_CACHE=off TYCHO_NVJITLINK=off TYCHO_CUDA_LATE=0 TYCHO_DIST_GRACE=2"):format(build, build, folder)

describe("tensors of CUDA devices", function()
  local probe = soft and it or pending
  local env = on_devices
  local PROGRAM = [[
    local ty = require "tycho"
    local ffi = require "ffi"
    ffi.cdef "unsigned sleep(unsigned);"
    assert(ty.cuda.is_available())
    local dist = ty.dist
    local rank = dist.init { timeout = 1.5 }
    local x = ty.ones(1000, { device = "cuda" })
    local function try(f, ...)
      local ok, y = pcall(function(...)
        local y = f(...)
        return y and ("sum %g"):format(y:sum():item()) or "sent" -- what a device does is known where it is read
      end, ...)
      io.write(y, "\n")
    end
    try(dist.all_reduce, x)
    if arg[1] == "order" then
      if rank == 0 then
        for tag = 0, 2 do try(dist.send, x, 1, { tag = tag }) end
      else
        try(dist.recv, 0)
        try(dist.recv, 0, { tag = 2 })
      end
      os.exit(rank == 0 and 0 or 3)
    end
    if arg[1] == "hang" and rank == 1 then ffi.C.sleep(100) end
    try(dist.all_reduce, x)
    try(dist.barrier)
    print(("device: %g"):format(x:sum():item())) -- it goes on
    os.exit(3)
  ]]
  local script
  setup(function() script = file("devices.lua", PROGRAM) end)

  probe("give the CPU's bits", function()
    local claims = "operations messages groups training stopped"
    if H.long then claims = claims .. " sums views copies captured gradients shards units" end
    for _, n in ipairs(H.long and { 2, 4 } or { 2 }) do
      local out, status = ranks(some, n, ("-q spec/dist_program.lua '%s' devices queued steps %s"):format(folder, claims), env)
      assert.equal(0, status, out)
      for name in claims:gmatch "%S+" do
        assert.equal(digests[name .. n], out:match(("%s\t(%%d+ letters %%d+ %%d+)"):format(name)), name)
      end
    end
  end)

  probe("are gathered and broadcast by NCCL's own functions, summed from slices that are sent", function()
    local log = folder .. "/nccl.log"
    local calls = file("calls.lua", [[
      local ty = require "tycho"
      assert(ty.cuda.is_available())
      ty.device "cuda"
      local x = ty.ones(40001)
      ty.dist.all_reduce(x)
      ty.dist.all_reduce(x, { fast = true })
      ty.dist.all_gather(x)
      ty.dist.broadcast(x, 1)
    ]])
    local out, status = ranks(some, 2, ("'%s'"):format(calls), env .. (" FAKE_NCCL_LOG='%s'"):format(log))
    assert.equal(0, status, out)
    local seen = {}
    for line in io.lines(log) do
      if line:find "rank 0$" then seen[#seen + 1] = line:match "^%S+ %d+" end
    end
    assert.same({ "Send 80000", "Recv 80000", "AllGather 80000", "Send 4", "Recv 4", "AllReduce 160004", "AllGather 160004",
      "Broadcast 160004" }, seen)
  end)

  local function fails(how, sentence, more)
    local out = ranks(some, 3, ("'%s' %s"):format(script, how), env .. " " .. (more or ""))
    for _, r in ipairs { 0, 2 } do
      assert.equal(1, count(out, ("[%d] sum 3000\n"):format(r)), out)
      local _, times = out:gsub(("%%[%d%%] [^\n]*devices.lua:%%d+: all_reduce: %s\n"):format(r, sentence), "")
      assert.equal(2, times, out) -- of the barrier, too
    end
    assert.equal(2, count(out, "device: 1000\n"), out)
  end

  probe("wait for no rank that is killed while it exchanges them", function()
    fails("kill", "rank 1 was ended by signal 9, Killed", "FAKE_NCCL_KILL=6")
  end)
  probe("wait for no rank that hangs", function() fails("hang", "rank 1 did not answer within 1%.5 s") end)
  probe("that NCCL loses on its way are an error of NCCL's", function()
    local out = ranks(some, 2, ("'%s' lost"):format(script), env .. " FAKE_NCCL_FAIL=3")
    assert.truthy(out:find("all_reduce: rank %d has an error of NCCL: remote process exited or there was a network error\n"), out)
  end)
  probe("leave weights as they are where a step's exchange fails, which is said where its loss is read", function()
    local step = file("kept.lua", [[
      local ty = require "tycho"
      ty.device "cuda"
      local nn = ty.nn
      ty.dist.init { timeout = 1.5 }
      ty.manual_seed(1)
      local m = ty.dist.replicate(nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 700), nn.Tanh(), nn.Linear(700, 30)))
      local opt = ty.optim.SGD(m:parameters(), { lr = 0.1, momentum = 0.9 })
      local step = jit.compile(function(x)
        opt:zero_grad()
        local loss = (m(x) ^ 2):mean()
        loss:backward()
        opt:step()
        return loss:detach()
      end)
      local function weights()
        local list = {}
        for i, p in ipairs(m:parameters()) do list[i] = ("%.9g"):format(p:detach():abs():sum():item()) end
        return table.concat(list, " ")
      end
      local x = ty.randn(4, 20)
      for _ = 1, 4 do step(x):item() end
      local before = weights()
      local loss = step(x)
      local ok, why = pcall(loss.item, loss)
      print(not ok and before == weights() and jit.explain(step).skips == 5 and "kept", why)
    ]])
    for call = H.long and 14 or 16, 16, 2 do -- the last three are the last step's: Send, Recv, AllGather
      local out = ranks(some, 2, ("'%s'"):format(step), env .. " FAKE_NCCL_KILL=" .. call)
      assert.truthy(out:find("%[0%] kept\t[^\n]*kept.lua:%d+: backward: rank 1 was ended by signal 9, Killed\n"), out)
    end
  end)
  probe("are received in the order in which they were sent, whatever their tags are", function()
    local out = ranks(some, 2, ("'%s' order"):format(script), env)
    assert.truthy(out:find("recv: rank 0 has sent tensors of CUDA devices before this one", 1, true), out)
  end)
  probe("need NCCL, and say so on all ranks", function()
    for text, more in pairs { ["and rank 0 has none: libnone.so was not found: is NCCL installed? (TYCHO_NCCL names it; or use " ..
      ":to(\"cpu\"))\n"] = "TYCHO_NCCL=libnone.so", ["has none: NCCL is too old: its version is 20602"] = "FAKE_NCCL_VERSION=20602" } do
      local out = ranks(some, 2, ("'%s' none"):format(script), env .. " " .. more)
      assert.equal(4, count(out, text), out)
    end
  end)
end)

describe("a training step", function()
  local function begins(n, rows, env)
    local script = file("order.lua", ([[
      local ty = require "tycho"
      if os.getenv "DIST_DEVICE" then ty.device "cuda" end
      local nn = ty.nn
      local m = ty.dist.replicate(nn.Sequential(nn.Linear(300, 400), nn.Tanh(), nn.Linear(400, 300), nn.Tanh(), nn.Linear(300, 3)))
      local opt = ty.optim.AdamW(m:parameters(), { lr = 0.01 })
      local step = jit.compile(function(x)
        opt:zero_grad()
        local loss = (m(x) ^ 2):mean()
        loss:backward()
        opt:step()
        return loss:detach()
      end)
      for _ = 1, 2 do step(ty.ones(%d, 300)) end
      assert(tostring(jit.explain(step)):find "; 6 exchanges with other ranks")
    ]]):format(rows))
    local out, status = ranks(some, n, ("-q '%s'"):format(script), "TYCHO_DUMP=p " .. env)
    assert.equal(0, status, out)
    local plan
    for text in out:gsub("%[%d%][^\n]*\n", ""):gsub("%-%- plan\n", "\1"):gmatch "[^\1]+" do
      plan = text:find(" await ", 1, true) and text or plan
    end
    assert.truthy(plan, out)
    local calls, begun, ended, products, written, last = {}, {}, {}, {}, {}, 0
    local in_place = {}
    for name in plan:gmatch "(out%d+) [^\n]*, in place" do in_place[name] = true end
    for number, kind, op, gives in plan:gmatch "\n  (%d+) +(%w+) +%%%d+ (%w+)[^\n]*%->([^\n]*)" do
      number = tonumber(number)
      if op == "call" or op == "await" then calls[#calls + 1] = number end
      if op == "call" then begun[#begun + 1] = number elseif op == "await" then ended[#ended + 1] = number end
      if kind == "gemm" then products[#products + 1] = number end
      for name in gives:gmatch "out%d+" do
        if in_place[name] then written[#written + 1] = number end
      end
      last = number
    end
    assert.equal(2 * (1 + 2 + 2 + 1), #calls) -- what ranks agree on; two large gradients there and back; the others at once
    assert.truthy(#products == 8 and calls[3] < products[7] and calls[4] < products[8], plan)
    assert.truthy(begun[3] < ended[2], plan) -- the second gradient leaves before the first one is waited for
    assert.truthy(#written >= 6 and math.min(unpack(written)) > calls[#calls], plan)
    assert.truthy(last > calls[#calls], plan)
  end

  local probe, probe_soft = some and it or pending, soft and it or pending
  probe("begins exchanges while backward goes on, and writes nothing in place before all have ended", function() begins(3, 64, "") end)
  probe_soft("does so on CUDA devices", function() begins(2, 8, on_devices) end)
end)

describe("tycho --ranks", function()
  local probe = some and it or pending

  probe("keeps lines whole behind their rank, shares the processors, gives code and arguments", function()
    local script = file("lines.lua", [[
      local ty = require "tycho"
      local dist = ty.dist
      for i = 1, 300 do io.write("line ", i, ("x"):rep(200)) io.write(" of ", dist.rank(), "\n") end
      io.write(("threads %d, %s %s"):format(ty.threads(), arg[1], arg[2]))
    ]])
    local out, status = ranks(some, 4, ("'%s' a 'b c'"):format(script))
    assert.equal(0, status, out)
    local seen = 0
    for line in out:gmatch "[^\n]+" do
      local rank, i, of = line:match "^%[(%d)%] line (%d+)x+ of (%d)$"
      if i then
        seen = seen + 1
        assert.equal(rank, of)
      else
        assert.truthy(line:find "^%[%d%] threads %d+, a b c$", line)
      end
    end
    assert.equal(1200, seen)
    assert.equal("2\t2\n", (ranks(some, 2, "-q -e 'print(ty.dist.size(), ty.threads())'", "TYCHO_THREADS=2")))
    assert.equal(("1\t%d\n"):format(math.max(1, math.floor(tonumber((run "nproc")) / 1))), (ranks(some, 1,
      "-q -e 'print(ty.dist.size(), ty.threads())'", "TYCHO_THREADS=")))
  end)

  local function ends(sum)
    os.remove(folder .. "/begun.2")
    local script = file("endless.lua", ([[
      local ty = require "tycho"
      local x, sum = ty.ones(30000), %s
      for _ = 1, 4 do sum(x) end
      io.open(arg[1] .. "/begun." .. ty.dist.rank(), "w"):close()
      while true do sum(x) end
    ]]):format(sum))
    local out, status = run(([[cd '%s'; TYCHO_MPIRUN=%s setsid ./tycho --ranks 3 '%s' '%s' & p=$!
      for i in $(seq 100); do [ -f '%s/begun.2' ] && break; sleep 0.1; done
      kill -INT $p; wait $p]]):format(H.root, some.mpirun, script, folder, folder))
    assert.equal(130, status, out)
    assert.equal("", (run(("ps -eo args | grep '[e]ndless.lua %s'"):format(folder))))
  end

  probe("ends all ranks on Ctrl-C, also those that compute", function()
    ends "ty.dist.all_reduce"
    ends "jit.compile(function(a) return ty.dist.all_reduce(a) + 1 end)"
  end)

  probe("starts again with fewer ranks from the last checkpoint", function()
    local script = file("elastic.lua", [[
      local ty = require "tycho"
      local dist, path = ty.dist, arg[1] .. "/elastic.safetensors"
      local rank, size = dist.init()
      local loader = ty.data.tensors(ty.arange(48)):loader { batch = 12, shuffle = true, shard = true }
      local w = ty.zeros(48)
      local saved = ty.load_checkpoint(path, { loader = loader })
      if saved then w = saved.w end
      for x, i in loader:epoch() do
        w = w + dist.all_reduce(ty.one_hot(x:to "i64" + 1, 48):sum(1):to "f32")
        assert(dist.save_checkpoint(path, { loader = loader, w = w }))
        if i == 2 and size == 3 and rank == 1 then require("ffi").cdef "int raise(int);" require("ffi").C.raise(9) end
      end
      if rank == 0 then print(("%d ranks, %g samples, each %g times"):format(size, w:sum():item(), w:max():item())) end
    ]])
    local out, status = ranks(some, 3, ("--restart 1 -q '%s' '%s'"):format(script, folder))
    assert.equal(0, status, out)
    assert.truthy(out:find("tycho: starting again with 2 ranks\n", 1, true), out)
    assert.truthy(out:find("2 ranks, 48 samples, each 1 times\n", 1, true), out)
  end)

  probe("says what it cannot do", function()
    for rest, text in pairs { ["0 x.lua"] = "takes a number of processes, got 0", ["2"] = "takes a script, or -e code",
      ["2 --restart x y"] = "--restart takes a number of times" } do
      local out, status = run(("cd '%s' && ./tycho --ranks %s"):format(H.root, rest))
      assert.equal(1, status)
      assert.truthy(out:find(text, 1, true), out)
    end
    local out, status = ranks({ mpirun = "no-such-mpirun" }, 2, "-e 1")
    assert.equal(1, status)
    assert.truthy(out:find("no-such-mpirun was not found: --ranks needs Open MPI or MPICH", 1, true), out)
    out, status = ranks(some, 2, "-e 'require \"tycho\" print(ty.dist.size())'", "TYCHO_MPI=libnothing.so")
    assert.equal(1, status)
    assert.truthy(out:find("init: libnothing.so was not found: is an MPI library installed?", 1, true), out)
  end)
end)

describe("the cost of all_reduce", function()
  it("is by the formula what a simulation of its messages gives, on 8 to 4,096 ranks", function()
    local cost = dofile "bench/dist_model.lua"
    local slow = { latencies = {}, each = 1e-6, rate = 1e9, fold = 5e9, block = 2 ^ 20 }
    local fast = { latencies = {}, each = 0.3e-6, rate = 12.5e9, fold = 10e9, block = 2 ^ 20 }
    for i = 1, 100 do -- some messages take much longer
      slow.latencies[i], fast.latencies[i] = 3e-5 * (1 + (i / 100) ^ 8), 5e-6 * (1 + (i / 100) ^ 8)
    end
    for _, m in ipairs { slow, fast } do
      for _, n in ipairs { 8, 64, 512, 4096 } do
        for _, bytes in ipairs { 4, 4096, 4e5, 1e8 } do
          local ratio = cost.formula(bytes, n, m) / cost.simulate(bytes, n, m)
          assert.truthy(ratio > 0.8 and ratio < 1.25, ("%d bytes on %d ranks: %g"):format(bytes, n, ratio))
        end
      end
    end
  end)
end)

describe("ranks that no launcher has started", function()
  local probe = MPIS[2].there and it or pending
  local port = 20000 + math.floor(os.time() * 7.3 + (os.clock() * 1e6)) % 20000
  local env = "env -u LUA_PATH -u LUA_CPATH TYCHO_THREADS=1 MASTER_ADDR=localhost LOCAL_WORLD_SIZE=3"

  probe("find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT", function()
    local out = run(([[cd '%s'; for r in 2 1 0; do RANK=$r WORLD_SIZE=3 MASTER_PORT=%d %s ./tycho spec/dist_program.lua \
      '%s' groups pieces >'%s/meet.'$r 2>&1 & done; wait; cat '%s/meet.'*]]):format(H.root, port, env, folder, folder, folder))
    assert.truthy(out:find "^groups\t%d+ letters [^\n]*\npieces\t%d+ letters [^\n]*\n$", out)
  end)
  probe("say that the first one does not answer", function()
    local out, status = run(([[cd '%s'; RANK=1 WORLD_SIZE=2 MASTER_PORT=%d %s ./tycho -e 'ty.dist.init { timeout = 0.3 }']])
      :format(H.root, port + 1, env))
    assert.equal(1, status)
    assert.truthy(out:find(("init: rank 0 does not answer at MASTER_ADDR localhost, MASTER_PORT %d\n"):format(port + 1), 1, true),
      out)
  end)
end)

describe("one process", function()
  it("is rank 0 of 1, and needs no MPI", function()
    local rank, size = dist.init()
    assert.equal(0, rank)
    assert.equal(1, size)
    assert.equal(0, dist.rank())
    assert.equal(1, dist.size())
    assert.is_nil(dist.library())
    local x = ty.tensor { { 1, 2 }, { 3, 4 } }
    for name, want in pairs { all_reduce = { 2, 2 }, broadcast = { 2, 2 }, reduce_scatter = { 2, 2 }, all_gather = { 1, 2, 2 } } do
      local y = dist[name](x)
      assert.same(want, y.shape, name)
      assert.falsy(rawequal(x, y))
      H.same(x, y:reshape(2, 2), name)
    end
    assert.truthy(rawequal(x, dist.part(x)))
    assert.truthy(rawequal(x, dist.all_reduce_(x)))
    dist.barrier()
    local m = ty.nn.Linear(2, 2)
    assert.truthy(rawequal(m, dist.replicate(m)))
    local opt = ty.optim.SGD(m:parameters(), { lr = 1 })
    assert.truthy(rawequal(opt, dist.shard(opt)))
    assert.truthy(rawequal(m, dist.fully_shard(m, { keep = true })))
    dist.release(m)
    assert.same({ 0 }, dist.group({ 0 }).ranks)
  end)

  it("tells what is wrong with arguments", function()
    local leaf = ty.ones(2):requires_grad_()
    for _, case in ipairs {
      { "all_reduce: argument 1 must be a tensor, got number 3", dist.all_reduce, 3 },
      { "all_reduce: argument 1, f32[2], requires grad, and no gradient goes to other ranks", dist.all_reduce, leaf },
      { 'all_reduce: option op must be one of sum mean max min prod, got "avg"', dist.all_reduce, ty.ones(1), { op = "avg" } },
      { "all_reduce: sum of bool: take op", dist.all_reduce, ty.ones(1):gt(0) },
      { 'all_reduce: the mean of i64[2]: use :to("f32")', dist.all_reduce, ty.ones(2):to "i64", { op = "mean" } },
      { "all_reduce: complex numbers have no max", dist.all_reduce, ty.ones(2):to "c64", { op = "max" } },
      { "all_reduce: unknown option groop, did you mean group?", dist.all_reduce, ty.ones(1), { groop = 1 } },
      { "all_reduce: option group must be what dist.group gave, got table", dist.all_reduce, ty.ones(1), { group = {} } },
      { "rank: option group must be what dist.group gave, got number 3", dist.rank, 3 },
      { "broadcast: argument 2 must be a rank, one of 0, got number 1", dist.broadcast, ty.ones(1), 1 },
      { "send: argument 2 must be a rank, one of 0, got nil", dist.send, ty.ones(1) },
      { "send: argument 2 is the rank itself, 0", dist.send, ty.ones(1), 0 },
      { "recv: option tag must be a whole number from 0 to 255, got 256", dist.recv, 0, { tag = 256 } },
      { "group: argument 1 must be a list of ranks, got table", dist.group, {} },
      { "group: a rank must be a whole number from 0 to 0, got number 1", dist.group, { 1 } },
      { "group: rank 0 is given twice", dist.group, { 0, 0 } },
      { "init: option timeout must be a number of seconds, got 0", dist.init, { timeout = 0 } },
      { "reduce_scatter: the first dim must divide by 1 ranks, got f32[]", dist.reduce_scatter, ty.tensor(1) },
      { "part: dim 2 is out of range", dist.part, ty.ones(3), 2 },
      { "replicate: argument 1 must be a module, got table", dist.replicate, {} },
      { "shard: argument 1 must be an optimiser of ty.optim, got nil", dist.shard },
      { "save_checkpoint: argument 1 must be a path", dist.save_checkpoint, 3, {} },
      { "fully_shard: argument 1 must be a module, got number 3", dist.fully_shard, 3 },
      { "fully_shard: unknown option kept; known: group keep", dist.fully_shard, ty.nn.Linear(1, 1), { kept = true } },
      { "tensor_parallel: argument 1 must be a module, got nil", dist.tensor_parallel },
      { "tensor_parallel: argument 2 must be a table of styles by path, got string", dist.tensor_parallel, ty.nn.Linear(1, 1), "x" },
      { "pipeline: argument 1 must be an nn.Sequential or a list of modules, got nil", dist.pipeline },
      { "backward: the pipeline was made without a loss", function() dist.pipeline({ ty.nn.Tanh() }):backward(ty.ones(4)) end },
      { "backward: the first dim of the batch must divide by 4 micro-batches, got f32[3]", function()
        dist.pipeline({ ty.nn.Tanh() }, { loss = ty.mse_loss }):backward(ty.ones(3), ty.ones(3))
      end },
      { "pipeline: the loss must be a tensor of one element, got f32[2]", function()
        dist.pipeline({ ty.nn.Tanh() }, { loss = function(y) return y end }):backward(ty.ones(8), ty.ones(8))
      end },
      { "cross_entropy: argument 1 must be a tensor, got nil", dist.cross_entropy },
      { "clip_grad_norm_: argument 1 must be a list of tensors, got nil", dist.clip_grad_norm_ },
    } do
      local ok, message = pcall(case[2], case[3], case[4])
      assert.falsy(ok, case[1])
      assert.truthy(message:find(case[1], 1, true), message)
    end
    H.same(ty.ones(2), ty.no_grad(dist.all_reduce, leaf), "inside of no_grad")
  end)

  if jit.os == "Linux" then
    it("that others started without MPI says so", function()
      local out, status = run(("cd '%s' && WORLD_SIZE=2 RANK=0 ./tycho -e 'ty.dist.rank()'"):format(H.root))
      assert.equal(1, status)
      assert.truthy(out:find("init: 2 processes were started, and none of them by MPI (use mpirun", 1, true), out)
    end)
  end
end)
