--- log_spec.lua -- the line that tells of a compiled function which goes on running its Lua code: when it comes, what it
-- says, where it goes.

local H = require "spec.helper"
local ty = H.ty

local x = ty.tensor { 1, 2, 3 }
local lines

before_each(function()
  lines = {}
  jit.log = function(text) lines[#lines + 1] = text end
end)

after_each(function()
  jit.log = false
  ty.budget(math.huge)
  ty.internals.capture.clock = nil
end)

local function times(n, call)
  for i = 1, n do call(i) end
  return lines
end

--- What a script writes to stderr.
local function written(environment, script)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write(script)
  f:close()
  local pipe = io.popen(("%s LUA_PATH='%s' LUA_CPATH='%s' luajit '%s' 2>&1 >/dev/null"):format(environment, package.path,
    package.cpath, path))
  local text = pipe:read "*a"
  pipe:close()
  os.remove(path)
  return text
end

local ITEM = [[
local ty = require "tycho"
%s
local step = jit.compile(function(x)
  local total = x:sum():item()
  return x / total
end)
for _ = 1, 100 do step(ty.ones(4)) end
]]

describe("the line of a function that falls out of capture", function()
  it("names line, function, reason and remedy, once", function()
    local normalize = jit.compile(function(a) return a / a:sum():item() end)
    times(50, function() normalize(x) end)
    assert.equal(1, #lines)
    assert.match("^tycho: [^:]*log_spec.lua:%d+: normalize runs without compiling: item reads data; keep the value as a "
      .. "tensor, or read it outside of the compiled function$", lines[1])
  end)

  it("goes to stderr", function()
    local text = written("TYCHO_LOG=", ITEM:format "")
    assert.match("^tycho: [^\n]*:4: step runs without compiling: item reads data; [^\n]*\n$", text)
  end)

  it("is off by TYCHO_LOG=0", function() assert.equal("", written("TYCHO_LOG=0", ITEM:format "")) end)

  it("is off by jit.log = false", function()
    assert.equal("", written("TYCHO_LOG=1", ITEM:format "jit.log = false"))
  end)

  it("is on by jit.log = true, whatever TYCHO_LOG says", function()
    assert.match("item reads data", written("TYCHO_LOG=0", ITEM:format "jit.log = true"))
  end)

  it("is told again after jit.reset, of another reason", function()
    local how = "item"
    local f = jit.compile(function(a) if how == "item" then return a * a:sum():item() end return a * a:get(1) end,
      { parts = false })
    times(20, function() f(x) end)
    jit.reset(f)
    how = "get"
    times(20, function() f(x) end)
    assert.equal(2, #lines)
    assert.match("get reads data", lines[2])
  end)

  it("comes once for functions of one place", function()
    times(5, function()
      local f = jit.compile(function(a) return a + a:sum():item() end, { parts = false })
      times(10, function() f(x) end)
    end)
    assert.equal(1, #lines)
  end)

  it("names the function by its place where nothing names it", function()
    local list = { jit.compile(function(a) return a - a:sum():item() end, { parts = false }) }
    times(20, function() list[1](x) end)
    assert.match(": the function at [^:]*log_spec.lua:%d+ runs without", lines[1])
  end)

  it("comes where each call needs a capture of its own, with what changes", function()
    local f = jit.compile(function(a, name) return a + (name == "never" and 1 or 2) end)
    times(200, function(i) f(x, "name " .. i) end)
    assert.equal(1, #lines)
    assert.match("f runs without compiling: each call needs a capture of its own: `name` %(argument 2%) is \"name %d+\", was "
      .. "\"name %d+\"; keep it the same, or compile a function for each of its values$", lines[1])
  end)

  it("comes where each call needs a plan of its own, with the number that changes", function()
    local f = jit.compile(function(a, n) return a:narrow(1, n * n % 997 + 1, 2) * n end)
    local long = ty.arange(2000)
    times(700, function(i) f(long, i) end)
    assert.equal(1, #lines)
    assert.match("each value of `n` needs a plan of its own; keep it the same from call to call, or pad to a few sizes$",
      lines[1])
  end)

  it("comes at once where the budget is too small", function()
    local time, f = 0, jit.compile(function(a, n)
      local s = 0
      for i = 1, n do s = s + i % 7 end
      return a * s
    end)
    ty.internals.capture.clock = function()
      time = time + 0.001
      return time
    end
    ty.budget(5)
    f(x, 5000)
    assert.equal(1, #lines)
    assert.match("it takes longer than jit.budget allows; capture it by jit.warmup$", lines[1])
  end)
end)

describe("no line comes", function()
  it("for functions that are captured", function()
    local f = jit.compile(function(a, k) return a * k end)
    assert.same({}, times(100, function(i) f(x, i) end))
  end)

  it("for one failed capture", function()
    local f = jit.compile(function(a, once) return once and a * a:sum():item() or a * 2 end)
    f(x, true)
    assert.same({}, times(50, function() f(x, false) end))
  end)

  it("for calls that are not captured now and then", function()
    local f = jit.compile(function(a, i) return i % 20 == 0 and a * a:sum():item() or a * 2 end)
    assert.same({}, times(2000, function(i) f(x, i) end))
  end)

  it("for many traces that are used", function()
    local f = jit.compile(function(a, name) return a + #name end)
    assert.same({}, times(600, function(i) f(x, ("n"):rep(i % 12)) end))
  end)

  it("under fullgraph, which raises", function()
    local f = jit.compile(function(a) return a * a:sum():item() end, { fullgraph = true })
    assert.same({}, times(50, function() pcall(f, x) end))
  end)

  it("where jit.stance asks for eager calls", function()
    local f = jit.compile(function(a) return a * a:sum():item() end, { parts = false })
    ty.stance "eager"
    times(50, function() f(x) end)
    ty.stance "default"
    assert.same({}, lines)
  end)
end)

describe("jit.log = fn", function()
  local function run()
    local body = assert(loadstring("return function(a) return a * a:sum():item() end", "=" .. tostring {}))()
    local f = jit.compile(body, { parts = false })
    local results = {}
    times(20, function(i) results[i] = f(x):totable() end)
    for i = 1, 20 do assert.same({ 6, 12, 18 }, results[i]) end
    return f
  end

  it("may raise", function()
    local asked = 0
    jit.log = function()
      asked = asked + 1
      error "no"
    end
    run()
    assert.equal(1, asked)
  end)

  it("may try to yield", function()
    local asked = 0
    jit.log = function()
      asked = asked + 1
      coroutine.yield()
    end
    local co = coroutine.create(run)
    assert(coroutine.resume(co))
    assert.equal("dead", coroutine.status(co))
    assert.equal(1, asked)
  end)

  it("may call compiled functions", function()
    local double = jit.compile(function(a) return a * 2 end)
    local got
    jit.log = function() got = double(x):totable() end
    run()
    assert.same({ 2, 4, 6 }, got)
  end)

  it("may reset the function", function()
    local f
    jit.log = function() jit.reset(f) end
    f = jit.compile(function(a) return a * a:sum():item() end, { parts = false })
    for _ = 1, 20 do assert.same({ 6, 12, 18 }, f(x):totable()) end
  end)
end)
