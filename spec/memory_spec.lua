--- memory_spec.lua -- garbage that Lua cannot see is collected in time; failed allocations are errors, never crashes or leaks.

local H = require "spec.helper"
local ty = H.ty

local MANY = H.cases(4000, 20000) -- of 1 MB each: sixteen times what they may take

describe("temporaries of 1 MB by the thousand beside 200,000 Lua objects", function()
  local function peak(body)
    local out, status = H.script(H.process .. [[
      local ty = require "tycho"
      local objects = {}
      for i = 1, 200000 do objects[i] = { i } end
    ]] .. body .. [[
      print(memory "VmHWM", #objects)]])
    assert.equal(0, status, out)
    return tonumber(out:match("%d+"))
  end

  it("stay under 256 MB, eager", function()
    assert.truthy(peak([[
      local x = ty.zeros(512, 512)
      for i = 1, ]] .. MANY .. [[ do local y = x + i end]]) < 256 * 1024)
  end)

  it("stay under 256 MB, compiled", function()
    assert.truthy(peak [[
      local x = ty.zeros(512, 512)
      local f = jit.compile(function(v, i) local y = v + i return y * 2 end)
      for i = 1, 1500 do f(x, i):get(1, 1) end]] < 256 * 1024)
  end)

  it("stay under 256 MB when they are kept a while, in a coroutine, in tables", function()
    assert.truthy(peak [[
      local x = ty.zeros(512, 512)
      coroutine.wrap(function()
        local ring = {}
        for i = 1, 1500 do ring[i % 32] = { x + i, x:t() } end
      end)()]] < 256 * 1024)
  end)

  it("are freed at once by release and by scope", function()
    assert.truthy(peak [[
      collectgarbage "stop"
      local x = ty.zeros(512, 512)
      for i = 1, 1000 do (x + i):release() end
      for i = 1, 1000 do ty.scope(function() local a = x + i local b = a * 2 return 1 end) end]] < 110 * 1024)
  end)

  it("leave a collector alone that the host has stopped", function()
    local out = H.script([[
      local ty = require "tycho"
      collectgarbage "stop"
      local gone = 0
      local probe = newproxy(true)
      getmetatable(probe).__gc = function() gone = gone + 1 end
      probe = nil
      local x = ty.zeros(512, 512)
      for i = 1, 300 do local y = x + i end
      print(gone)]])
    assert.equal("0\n", out)
  end)
end)

describe("small and idle", function()
  local small = H.sanitized and pending or it

  small("a process that loaded the library and added two tensors stays under 12 MB", function()
    local out, status = H.script(H.process .. [[
      local ty = require "tycho"
      local y = ty.ones(4) + ty.ones(4)
      y:get(1)
      print(memory "VmRSS")]])
    assert.equal(0, status, out)
    assert.truthy(tonumber(out) < 12 * 1024, out)
  end)

  small("the shared object, stripped as it is installed, stays below 1.5 million bytes, and needs libc and libm alone", function()
    local so = package.searchpath and package.searchpath("tycho.core", package.cpath) or
      package.cpath:match("[^;]*build[^;]*"):gsub("%?", "tycho/core")
    local stripped = os.tmpname()
    assert(H.shell(("strip -o '%s' '%s'"):format(stripped, so)), "strip")
    local file = assert(io.open(stripped, "rb"))
    local bytes = file:seek "end"
    file:close()
    os.remove(stripped)
    assert.truthy(bytes > 100000 and bytes < 1.5e6, bytes)
    for _, object in ipairs { so, (so:gsub("core%.so$", "files.so")) } do
      local pipe = io.popen(("ldd '%s' 2>/dev/null"):format(object))
      local text = pipe:read "*a"
      pipe:close()
      assert.truthy(text:find "libc%.so", object)
      for name in text:gmatch("\n%s+(lib[%w_]+)[%w%.]*%.so") do
        assert.truthy(({ libc = true, libm = true, libdl = true, libpthread = true, libasan = true, libubsan = true })[name], name)
      end
    end
  end)

  it("nothing stays behind when tensors die", function()
    local function used()
      for _ = 1, 3 do collectgarbage() end
      return H.probe.memory().used
    end
    local before = used()
    do
      local x = ty.rand(100, 100)
      local y = ty.compile(function(v) return v:softmax(), v:t():clone(), v:matmul(v) end)
      local a, b, c = y(x)
      assert.truthy(a:numel() + b:numel() + c:numel() == 30000)
      a:add_(1)
    end
    assert.equal(before, used())
  end)

  it("a compiled function holds no memory of the tensors that it was called with, of their results, of those it wrote", function()
    local function used()
      for _ = 1, 3 do collectgarbage() end
      return H.probe.memory().used
    end
    local before = used()
    local model = { w = ty.rand(100, 100), seen = false }
    local f = ty.compile(function(x)
      model.w:mul_(0.5)
      model.seen = x + 1
      return x:matmul(model.w), x:t()
    end)
    for _ = 1, 3 do
      local y, turned = f(ty.rand(100, 100))
      assert.equal(20000, y:numel() + turned:numel())
    end
    assert.same({ 1, 3 }, { ty.explain(f).captures, ty.explain(f).skips })
    model.w, model.seen = nil, nil
    f = f or nil -- alive
    assert.truthy(#ty.explain(f):full() > 0)
    assert.equal(before, used())
    assert.equal(1, ty.explain(f).captures)
  end)

  it("reports and bounds what it caches", function()
    for i = 1, 40 do ty.zeros(1000000 + i):release() end
    local m = ty.stats().memory
    -- what is held follows the most that was ever live, here or by specs that ran before
    assert.truthy(m.cached <= math.max(256 * 1024 * 1024, m.peak), m.cached)
    assert.truthy(m.used >= 0 and m.peak >= m.used)
  end)
end)

describe("requests that are too large", function()
  it("raise an error that says so, and the next call works", function()
    for _, fn in ipairs { function() return ty.zeros(2 ^ 40) end, function() return ty.zeros(2 ^ 30, 2 ^ 30) end,
      function() return ty.ones(2 ^ 38):sum() end, function() return ty.zeros(1, 1):expand(2 ^ 20, 2 ^ 20):clone():numel() end } do
      local message = H.raises(fn)
      assert.truthy(message:find("memory") or message:find("too large"), message)
      assert.equal(2, (ty.ones(1) + 1):item())
    end
  end)
end)

describe("while allocations fail", function()
  it("workloads end in errors, leak nothing, and the next call works", function()
    local pipe = io.popen(("luajit '%sspec/starve.lua' 2>&1; echo \"status $?\""):format(H.root))
    local out = pipe:read "*a"
    pipe:close()
    assert.truthy(out:find("status 0\n", 1, true), out)
    local count = tonumber(out:match "(%d+) workloads\n")
    assert.equal(count, select(2, out:gsub("%d+ tries\n", "")))
    assert.truthy(count > H.cases(25, 50), count)
    local tries = 0
    for n in out:gmatch("(%d+) tries") do tries = tries + tonumber(n) end
    assert.truthy(tries > H.cases(750, 1500), tries)
  end)

  it("an error leaves the operands as they were", function()
    local x, y = ty.arange(1000), ty.arange(1000)
    local before = x:clone()
    for after = 0, 12 do
      for _, times in ipairs { 1, -1 } do
        H.probe.fail(after, times)
        local ok = pcall(function() x:mul_(y):add_(y) end)
        H.probe.fail(-1)
        if ok then
          H.same(before * y + y, x)
        else -- each step happened wholly or not at all
          assert.truthy(not H.difference(before, x) or not H.difference(before * y, x))
        end
        x:copy_(before)
      end
    end
  end)

  it("a compiled function that failed to write is as if not called, or wholly done", function()
    local function body(v, w)
      v[{ { 1, 500 } }] = v[{ { 501, 1000 } }] * 2
      w:add_(v)
      return v + w
    end
    local f = ty.compile(body)
    local x0, y0 = ty.arange(1000), ty.ones(1000)
    local x1, y1 = x0:clone(), y0:clone()
    local want = body(x1, y1)
    local done = 0
    for after = 0, 40 do
      local x, y = x0:clone(), y0:clone()
      x:get(1)
      y:get(1)
      H.probe.fail(after, -1)
      local result
      local ok = pcall(function()
        result = f(x, y)
        result:get(1)
      end)
      H.probe.fail(-1)
      if ok then
        H.same(want, result)
        done = done + 1
      end
      if result then
        H.same(want, result)
        H.same(x1, x)
        H.same(y1, y)
      end
    end
    assert.truthy(done > 0 and done < 41, done)
  end)
end)
