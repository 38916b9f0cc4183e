-- gpu_command_spec.lua -- `make test-gpu` as a command (gpu.lua, in_turn.lua), on the software GPU and stand-ins: who has a card has it
-- for minutes, and must not lose them to the command.
local H = require "spec.helper"
local cuda = require "spec.cuda"

local probe = cuda.soft and it or pending

local folder = os.tmpname()
os.remove(folder)
teardown(function() os.execute(("rm -rf '%s'"):format(folder)) end)

local function write(name, text)
  os.execute(("mkdir -p '%s'"):format(folder))
  local path = folder .. "/" .. name
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
  return path
end

local function read(path)
  local f = assert(io.open(path))
  local text = f:read "*a"
  f:close()
  return text
end

--- What a program prints that has `turn`, steps in that folder; its status.
local function steps(options, program)
  return H.script(([[
    package.path = "%s?.lua;" .. package.path
    local turn = require "spec.in_turn"("%s/steps", "MARK=seen", %s)
    %s
    turn.finish()]]):format(H.root, folder, options, program))
end

describe("steps", function()
  it("go on after one that fails, tell the end of its output and its status, and count", function()
    local out, status = steps("{}", [[
      print(turn.step("first", "sh -c 'echo $MARK'"))
      turn.step("second", "sh -c 'echo the reason; exit 3'")
      turn.step("third", "sh -c 'kill -SEGV $$'")
      turn.step("fourth", "echo 'it: skipped, it has no card'")
      turn.skip("fifth", "not here")]])
    assert.equal(1, status)
    assert.truthy((out:find "first +passed +%d+ s  seen\ntrue\n"), out)
    assert.truthy((out:find "second +FAILED +%d+ s  status 3: %S+second%.txt\n    the reason\n"), out)
    assert.truthy((out:find "third +FAILED +%d+ s  status 139: "), out)
    assert.truthy((out:find "fourth +skipped +%d+ s  it: skipped, it has no card\n"), out)
    assert.truthy((out:find "1 passed, 2 failed, 2 skipped\n$"), out)
    assert.truthy(read(folder .. "/steps/results.txt"):find "^first +passed.*1 passed, 2 failed, 2 skipped\n$")
  end)

  it("that hang are ended at their limit with all that they began, beside others that go on", function()
    local from = os.time()
    local long = 3600 + from % 100000 -- no other run of this file has it
    local out, status = steps("{ jobs = 3, limit = 1 }", ([[
      turn.add("hangs", "sh -c 'sleep %d & sleep %d; wait'")
      turn.add("also", "sleep 50", 2)
      turn.add("quick", "echo fine")
      turn.drain()
      turn.step("after", "echo fine, too")]]):format(long, long))
    assert.equal(1, status)
    assert.truthy((out:find "hangs +FAILED +%d+ s  no end within 1 s: "), out)
    assert.truthy((out:find "also +FAILED +%d+ s  no end within 2 s: "), out)
    assert.truthy((out:find "after +passed"), out)
    assert.truthy((out:find "2 passed, 2 failed, 0 skipped\n$"), out)
    assert.truthy(os.time() - from <= 20)
    assert.truthy(os.execute(("pgrep -fx 'sleep %d' >/dev/null"):format(long)) ~= 0)
  end)

  it("are skipped where one has hung and nothing answers any more", function()
    local out, status = steps([[{ limit = 1, alive = "sh -c 'echo gone; exit 1'" }]], [[
      turn.step("hangs", "sleep 50")
      turn.step("after", "echo never")]])
    assert.equal(1, status)
    assert.truthy((out:find "hangs +FAILED.*nothing answers any more, the rest is skipped: .*after +skipped +0 s  nothing answers\n"), out)
  end)

  it("end when the minutes are over: what runs is cut off, what has not begun is skipped, neither has failed", function()
    local out, status = steps("{ minutes = 0.5 }", [[
      turn.share(0.1)
      turn.add("long", "sleep 50")
      turn.add("next", "echo never")
      turn.drain()
      turn.share(1)
      turn.step("later", "echo it has its share")]])
    assert.equal(0, status)
    assert.truthy((out:find "long +cut off"), out)
    assert.truthy((out:find "next +skipped +0 s  no time was left"), out)
    assert.truthy((out:find "later +passed"), out)
    assert.truthy((out:find "1 of what was skipped had begun, and was cut off when"), out)
    assert.truthy((out:find "1 passed, 0 failed, 2 skipped\n$"), out)
  end)

  it("that fail are looked at once more, alone, in a folder of their own that has their kernels", function()
    local out = steps([[{ look = function(job, lines)
      return { { what = "again " .. lines[1], command = "sh -c 'echo $TYCHO_CUDA_PTX $TYCHO_CACHE'" } }
    end }]], [[turn.step("bad one", "sh -c 'echo claim; exit 1'")]])
    local path = out:match "    again claim: (%S+/steps/bad_one%.failed/1)/output%.txt, and the PTX"
    assert.truthy(path, out)
    assert.equal(path .. " off\n", read(path .. "/output.txt"))
  end)
end)

--- What the command prints with these options, and its status.
local function command(options, environment)
  local pipe = io.popen(("cd '%s' && env %s luajit spec/gpu.lua --folder='%s/gpu' %s 2>&1; echo \"status $?\""):format(H.root,
    environment or "", folder, options))
  local out = pipe:read "*a"
  pipe:close()
  local text, status = out:match "^(.*)status (%d+)\n$"
  return text, tonumber(status)
end

describe("make test-gpu", function()
  probe("holds results beside the CPU's, and gives them to each of compute-sanitizer's tools", function()
    local tool = write("sanitizer", "#!/bin/sh\n" .. [[echo "$*" >> "$0.calls"
      case "$*" in *--tool\ racecheck*) echo "ERROR SUMMARY: 1 error"; exit 9;; esac
      while [ "$1" != luajit ]; do shift; done
      exec "$@"]])
    os.execute(("chmod +x '%s'"):format(tool))
    local out, status = command(("--soft --only=bits,sample --groups='moves random' --sanitizer='%s' --minutes=5"):format(tool))
    assert.equal(1, status)
    assert.truthy((out:find "device +passed +%d+ s  software GPU, sm_80"), out)
    assert.truthy((out:find "bits: moves +passed +%d+ s  moves: 20 results, 0 differ from the CPU's\n"), out)
    assert.truthy((out:find "bits: random +passed"), out)
    assert.truthy((out:find "sample: memcheck +passed"), out)
    assert.truthy((out:find "sample: racecheck +FAILED +%d+ s  status 9: "), out)
    assert.truthy((out:find "6 passed, 1 failed, 0 skipped\n$"), out)
    local calls = read(tool .. ".calls")
    assert.truthy(calls:find("--tool memcheck --error-exitcode 9 --report-api-errors no luajit spec/gpu_bits.lua moves random\n", 1, true),
      calls)
    assert.truthy(calls:find("--tool initcheck --error-exitcode 9 luajit spec/gpu_bits.lua moves random\n", 1, true), calls)
  end)

  probe("says of a result that the device does not give its program, and keeps its kernels", function()
    local out, status = command("--soft --only=bits --groups=random", "SOFT_GPU_LOSE_AFTER=9")
    assert.equal(1, status)
    assert.truthy((out:find "bits: random +FAILED"), out)
    local all = read(folder .. "/gpu/bits_random.txt")
    assert.truthy((all:find "3, eager: raises [^\n]+device.-\n +program: .-= random "), all)
    local kept = out:match "random, %d+: (%S+)/output%.txt, and the PTX of its kernels beside it"
    assert.truthy(kept and os.execute(("ls '%s'/*.ptx >/dev/null"):format(kept)) == 0, out)
    assert.truthy(read(kept .. "/output.txt"):find("program of group", 1, true))
  end)

  it("refuses options that are none, and ends where there is no driver", function()
    local out, status = command "--sort"
    assert.equal(2, status)
    assert.truthy(out:find("unknown option --sort", 1, true), out)
    out, status = command "--only=bits,benches"
    assert.equal(2, status)
    assert.truthy(out:find("--only: there is no step benches; there are bits, sample,", 1, true), out)
    out, status = command "--minutes=soon"
    assert.equal(2, status)
    assert.truthy(out:find("--minutes must be a number from 0, got soon", 1, true), out)
    out, status = command "--driver=/no/libcuda.so"
    assert.equal(1, status)
    assert.truthy((out:find "device +FAILED.*there is no device to prove anything on\n"), out)
  end)
end)

describe("make bench-cuda", function()
  probe("has a row for each case with its marks, and goes by times that peers tell", function()
    local peer = write("peer", "#!/bin/sh\necho torch 2.0\necho torch chain_of_10_cpu 100000\necho torch row_sum 0.001\n"
      .. "echo jax is not installed\n")
    os.execute(("chmod +x '%s'"):format(peer))
    local pipe = io.popen(("cd '%s' && luajit bench/cuda.lua --small --only=row_sum,chain_of_10_cpu --python='%s' 2>&1"):format(
      H.root, peer))
    local out = pipe:read "*a"
    pipe:close()
    assert.truthy((out:find "the driver's copy: %d+ GB/s"), out)
    assert.truthy((out:find "  torch 2%.0\n  torch chain_of_10_cpu +100000%.0 us, [%d.]+ x\n"), out)
    assert.truthy((out:find "row_sum +[%d.]+ +%d+ GB/s +0%.00 +%-  %a+ [%d.]+ %(>= 0%.85 x copy%)\n"), out)
    assert.truthy((out:find "chain_of_10_cpu +[%d.]+ +[%d.]+ +%-  %a+ [%d.]+ %(<= 5%.00 us%), met [%d.]+ %(>= 1%.00 x torch%)\n"), out)
    assert.truthy((out:find "%d marks met, %d missed, 0 open: nothing to hold them against\n$"), out)
  end)
end)
