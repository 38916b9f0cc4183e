-- cuda_profile_spec.lua -- what is told of work on the device "cuda": ty.cuda.profile, jit.explain.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.loaded and it or pending
local soft_probe = cuda.soft and it or pending
ty.device "cpu"

local path = os.tmpname()
teardown(function() os.remove(path) end)

--- The events of the trace that are a device's: {name, kind, pid, from, to, bytes, kernels, line}; those of the CPU.
local function trace()
  local there, here = {}, {}
  for line in io.lines(path) do
    local name, kind, pid, from, long, args =
      line:match '^{"name":"([^"]*)","cat":"(%a+)","ph":"X","pid":(%d),"tid":%d+,"ts":([%d.]+),"dur":([%d.]+),"args":{(.*)}}'
    if name then
      local e = { name = name, kind = kind, pid = tonumber(pid), from = tonumber(from), to = from + long,
        bytes = tonumber(args:match '"bytes":(%d+)'), kernels = tonumber(args:match '"kernels":(%d+)'),
        line = args:match '"line":"[^"]*:(%d+)"' }
      local list = e.pid > 1 and there or here
      list[#list + 1] = e
    end
  end
  return there, here
end

local function names(list)
  local y = {}
  for i, e in ipairs(list) do y[i] = e.name end
  return y
end

describe("ty.cuda.profile", function()
  probe("names kernels by operation and line, in the order of the stream, and copies by their bytes", function()
    local x, w = ty.randn(5, 4):to "cuda", ty.randn(4, 3):to "cuda"
    local first
    local p, a, b = ty.cuda.profile(function()
      first = debug.getinfo(1, "l").currentline
      local y = x:matmul(w)
      local z = (y + 1):exp()
      z:sum():item()
      return 7, nil
    end, path)
    assert.same({ 7, nil }, { a, b })
    local function at(name, k) return ("%s (cuda_profile_spec.lua:%d)"):format(name, first + k) end
    local there, here = trace()
    assert.same({ at("matmul", 1), at("add", 2), at("exp", 2), at("sum", 3), "copy to the cpu" }, names(there))
    assert.same({ tostring(first + 3), 4 }, { there[4].line, there[5].bytes })
    local last = 0
    for _, e in ipairs(there) do
      assert.truthy(e.from >= last and e.to >= e.from, e.name)
      last = e.to
    end
    local whole = here[1]
    assert.equal("profile", whole.name)
    assert.truthy(there[1].from >= whole.from and last <= whole.to + 1)
    assert.equal(5, #p.kernels)
    local all = 0
    for _, row in ipairs(p.kernels) do all = all + row.seconds end
    assert.truthy(math.abs(all - p.busy) < 1e-9 and p.busy <= p.seconds)
    assert.truthy(tostring(p):find "kernels and copies of devices")
    assert.equal(0, p.lost)
  end)

  probe("tells a plan's kernels until a graph runs them, which is one event then", function()
    local f = ty.compile(function(x, w) return ((x:matmul(w) + 1):tanh() * 2):softmax(2):sum(1) end)
    local x, w = ty.randn(6, 4):to "cuda", ty.randn(4, 5):to "cuda"
    ty.cuda.profile(function()
      f(x, w)
      f(x, w)
      f(x, w)
      ty.synchronize()
    end, path)
    local there = trace()
    local kinds = {}
    for i, e in ipairs(there) do kinds[i] = e.kind end
    local n = #kinds - 2
    assert.truthy(n >= 3)
    for i = 1, n do assert.equal("kernel", kinds[i]) end
    assert.truthy(there[1].name:find "^matmul .*%(cuda_profile_spec.lua:%d+%)$", there[1].name)
    for i = n + 1, n + 2 do
      assert.same({ "graph", n }, { kinds[i], there[i].kernels })
      assert.truthy(there[i].name:find("^graph of " .. n .. " kernels: plan: "))
    end
  end)

  probe("counts copies of both ways and from device to device, each device with a part of its own", function()
    local big = ty.ones(300000)
    local two = #ty.cuda.devices() > 1
    local sent
    ty.cuda.profile(function()
      sent = big:to "cuda"
      if two then sent:to "cuda:1":sum():item() end
      sent:to "cpu"
    end, path)
    local seen = {}
    for _, e in ipairs((trace())) do seen[#seen + 1] = ("%d %s %s"):format(e.pid, e.name:gsub(" %(.*", ""), e.bytes or "-") end
    table.sort(seen)
    local want = { "2 copy from the cpu 1200000", "2 copy to the cpu 1200000" }
    if two then
      want = { "2 copy from the cpu 1200000", "2 copy to the cpu 1200000", "3 copy 1200000", "3 copy to the cpu 4" }
      for i = #seen, 1, -1 do
        if seen[i]:find "^3 sum" then table.remove(seen, i) end
      end
    end
    assert.same(want, seen)
  end)

  probe("ends with its function, gives the next one a clean start, and passes on errors", function()
    local x = ty.ones(4, { device = "cuda" })
    H.raises("mine", ty.cuda.profile, function()
      x:exp()
      error("mine", 0)
    end)
    x:exp()
    ty.cuda.profile(function() x:sin() end, path)
    local there = trace()
    assert.equal(1, #there)
    assert.truthy(there[1].name:find "^sin")
    H.raises("another profile is running", ty.cuda.profile, function() ty.cuda.profile(function() end) end)
    H.raises("cuda.profile: argument 1 must be a function, got number 3", ty.cuda.profile, 3)
    local y, why = ty.cuda.profile(function() end, "/nowhere/trace.json")
    assert.is_nil(y)
    assert.truthy(why:find "/nowhere/trace.json")
  end)

  soft_probe("outlives a device that fails meanwhile", function()
    cuda.gives("^true\tfalse\n3\nstatus 0\n$", "SOFT_GPU_LOSE_AFTER=3", [[
      local ty = require "tycho"
      local x, done = ty.arange(50):to "cuda", nil
      local p = ty.cuda.profile(function()
        for _ = 1, 10 do x = x + 1 end
        done = pcall(function() return x:sum():item() end)
      end)
      print(p ~= nil, done)
      print(ty.ones(3):sum():item())
    ]])
  end)
end)

describe("jit.explain of a plan on cuda", function()
  local function explained(f, pattern)
    local text = tostring(ty.explain(f))
    assert.truthy(text:find(pattern), text)
    assert.truthy(ty.explain(f):full():find(pattern))
    return ty.explain(f).traces[1].device_run
  end

  probe("tells launches, and that a graph runs it from the second time on", function()
    local f = ty.compile(function(x) return (x * 2):softmax(2):sum(1):cumsum(1), x:exp():mean() end)
    local x = ty.randn(5, 6):to "cuda"
    f(x)
    local first = explained(f, "last run on cuda: %d times launched; %d kernels one by one\n"
      .. "  one by one, since these kernels come the first time")
    f(x)
    local second = explained(f, "last run on cuda: 1 time launched; 1 graph of %d kernels\n")
    assert.same({ first.launches, 1, 0, 0 }, { second.graph_kernels, second.graphs, second.launches, second.interpreted })
    assert.is_nil(second.no_graph)
    assert.equal("cuda", ty.explain(f).traces[1].device)
  end)

  probe("tells that too few kernels are no graph, and of plans on the CPU nothing", function()
    local f = ty.compile(function(x) return x * 2 + 1 end)
    local x = ty.randn(5)
    f(x)
    assert.is_nil(ty.explain(f).traces[1].device_run)
    assert.falsy(tostring(ty.explain(f)):find "last run")
    local g = ty.compile(function(v) return v * 2 + 1 end)
    local there = x:to "cuda"
    for _ = 1, 3 do g(there) end
    explained(g, "1 time launched; 1 kernel one by one\n  one by one, since there are too few kernels in a row")
  end)

  probe("tells what the CPU does for it, and the bytes that move for that", function()
    local f = ty.compile(function(x, y) return x:to "cpu":sum() + 1, (y * 2):to "cuda" end)
    local x, y = ty.ones(8, { device = "cuda" }), ty.ones(5)
    f(x, y)
    local run = ty.explain(f).traces[1].device_run
    assert.truthy(run, tostring(ty.explain(f)))
    assert.same({ 20, 32 }, { run.bytes_in, run.bytes_out })
    explained(f, "20 B from the cpu, 32 B to the cpu")
  end)

  soft_probe("tells that graphs are off", function()
    cuda.gives("one by one, since TYCHO_CUDA_GRAPHS=0\n.*\n5\t0\t0\n", "TYCHO_CUDA_GRAPHS=0", [[
      local ty = require "tycho"
      local f = ty.compile(function(x) return (x * 2):softmax(2):sum(1):cumsum(1), x:exp():mean() end)
      local x = ty.ones(4, 4, { device = "cuda" })
      for _ = 1, 3 do f(x) end
      print(ty.explain(f))
      local r = ty.explain(f).traces[1].device_run
      print(r.launches, r.graphs, r.interpreted)
    ]])
  end)

  soft_probe("tells what the interpreter of loop programs ran", function()
    cuda.gives("\n  [1-5] loop programs? %a+ interpreted: code is still being assembled", "TYCHO_CUDA_LATE=1 TYCHO_CUDA_INTERPRET=all", [[
      local ty = require "tycho"
      local f = ty.compile(function(x) return (x * 2):softmax(2):sum(1):cumsum(1), x:exp():mean() end)
      f(ty.ones(4, 4, { device = "cuda" }))
      print(ty.explain(f))
    ]])
  end)
end)

describe("TYCHO_DUMP=a", function()
  soft_probe("prints the PTX of each kernel that a program uses, once, assembled beside or not, and of those that were kept", function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute(("mkdir -p '%s/texts'"):format(folder))
    for _, late in ipairs { 0, 1, 0 } do
      local environment = "TYCHO_DUMP=a TYCHO_CUDA_LATE=%d TYCHO_CUDA_GRAPHS=0 TYCHO_CACHE='%s' TYCHO_CUDA_PTX='%s/texts'"
      local text = cuda.run(environment:format(late, folder, folder), [[
        local ty = require "tycho"
        local x = ty.ones(6, 6):to "cuda"
        for _ = 1, 3 do x = (x:matmul(x) * 0.25):softmax(2):sort(1) end
        ty.cuda.settle()
        print(x:sum():item() > 5)]])
      assert.truthy(text:find("true\n", 1, true), text)
      local count, texts = 0, {}
      for kernel in ("\n" .. text):gsub("\n%-%- ", "\0"):gmatch "%zPTX\n([^%z]*)" do
        kernel = kernel:match "^.*\n}" or kernel
        assert.truthy(kernel:find("^%.version %d%.%d\n") and kernel:find(".visible .entry kernel(", 1, true), kernel)
        assert.falsy(texts[kernel], "twice")
        count, texts[kernel] = count + 1, true
      end
      local written = io.popen(("ls '%s/texts' | wc -l"):format(folder))
      local n = tonumber((written:read "*a"))
      written:close()
      assert.truthy(n >= 4 and (count == n or late == 1), ("%d printed, %d assembled"):format(count, n))
    end
    os.execute(("rm -rf '%s'"):format(folder))
  end)

  soft_probe("alone does so", function()
    for _, letters in ipairs { "help", "gfl" } do
      local text = cuda.run("TYCHO_DUMP=" .. letters, "local ty = require 'tycho' print(ty.ones(3):to 'cuda':sum():item())")
      assert.falsy(text:find "%.version")
    end
  end)
end)
