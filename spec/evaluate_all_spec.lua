--- evaluate_all_spec.lua -- whole programs under the evaluator, TYCHO_EVAL=all, print what they print natively. The
-- counters are asserted, so nothing passes by running natively.

local H = require "spec.helper"

--- Runs a program; gives what it wrote to stdout and the line of counters.
local function run(code, mode)
  local script, errors = os.tmpname(), os.tmpname()
  local f = assert(io.open(script, "w"))
  f:write(code)
  f:close()
  local p = assert(io.popen(("%s%stycho %s one 2 2>%s"):format(mode and "TYCHO_EVAL=" .. mode .. " " or "", H.root, script,
    errors)))
  local out = p:read "*a"
  p:close()
  local e = assert(io.open(errors))
  local err = e:read "*a"
  e:close()
  os.remove(script)
  os.remove(errors)
  return (out:gsub(script:gsub("%p", "%%%0"), "script")), (err:gsub(script:gsub("%p", "%%%0"), "script"))
end

--- Compares both ways of running; returns the counters: evaluated, calls, aborted, skipped.
local function compare(code)
  local want, wrong = run(code)
  assert.equal("", wrong)
  assert.truthy(#want > 0)
  local got, err = run(code, "all")
  assert.equal(want, got, err)
  local evaluated, calls, aborted, skipped =
    err:match("evaluated (%d+) functions in (%d+) calls, aborted (%d+), skipped (%d+)\n")
  return tonumber(evaluated), tonumber(calls), tonumber(aborted), tonumber(skipped)
end

describe("TYCHO_EVAL=all", function()
  it("runs closures, loops, strings, sorting and arguments of the script", function()
    local evaluated, calls, aborted, skipped = compare [[
      local t = {}
      for i = 1, 20 do t[#t + 1] = i * i % 7 end
      table.sort(t, function(a, b) return a > b end)
      print(table.concat(t, " "), arg[1], ...)
      local function counter()
        local n = 0
        return function(k) n = n + (k or 1) return n end
      end
      local a, b = counter(), counter()
      print(a(), a(5), b(), a())
      local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
      print(fib(14), ("hello"):gsub("l", function(c) return c:upper() end))
      goto done
      print "not here"
      ::done::
      print(select("#", unpack({ 1, nil, 3 }, 1, 3)), #{ n = 1, 2, 3 }, 2 ^ 10 % 7)
    ]]
    assert.same({ 6, 0, 0 }, { evaluated, aborted, skipped }) -- the chunk and five functions
    assert.truthy(calls > 1200) -- fib alone
  end)

  it("runs classes, metamethods and errors", function()
    local evaluated, _, aborted, skipped = compare [[
      local Point = {}
      Point.__index = Point
      Point.__add = function(a, b) return setmetatable({ x = a.x + b.x }, Point) end
      Point.__eq = function(a, b) return a.x == b.x end
      Point.__lt = function(a, b) return a.x < b.x end
      Point.__call = function(self, k) return self.x * k end
      Point.__tostring = function(self) return "point " .. self.x end
      Point.__concat = function(a, b) return tostring(a) .. "|" .. tostring(b) end
      function Point.new(x) return setmetatable({ x = x }, Point) end
      local p, q = Point.new(1), Point.new(2)
      print(p + q, p == q, p < q, q(21), p .. q, p .. "x")
      print(pcall(function() error("told") end))
      print(select(2, pcall(function() error({ "table" }) end))[1])
      local function check(v) if not v then error("bad value", 2) end end
      print(pcall(function() check(false) end))
      print(select(2, xpcall(function() error("first") end, function(e) return "handled " .. e end)))
      local proxy = setmetatable({}, { __index = function(_, k) return k .. "!" end, __newindex = function(_, k) print(k) end })
      proxy.set = 1
      print(proxy.get)
    ]]
    assert.same({ 16, 0, 0 }, { evaluated, aborted, skipped })
  end)

  it("runs coroutines, each on a stack of its own", function()
    local evaluated, _, aborted, skipped = compare [[
      local function walk(t)
        for _, v in ipairs(t) do
          if type(v) == "table" then walk(v) else coroutine.yield(v) end
        end
      end
      local function leaves(t) return coroutine.wrap(function() walk(t) end) end
      local list = {}
      for v in leaves { 1, { 2, { 3, 4 } }, { { 5 } } } do
        local inner = {}
        for w in leaves { v, { v * 2 } } do inner[#inner + 1] = w end
        list[#list + 1] = table.concat(inner, "+")
      end
      print(table.concat(list, " "))
      local co = coroutine.create(function(a)
        local ok, e = pcall(function() local b = coroutine.yield(a + 1) error("got " .. b, 0) end)
        return ok, e
      end)
      print(coroutine.resume(co, 1))
      print(coroutine.resume(co, "this"))
      print(coroutine.status(co), coroutine.resume(co))
    ]]
    assert.same({ 6, 0, 0 }, { evaluated, aborted, skipped })
  end)

  it("runs functions that tensors go through, compiled or not", function()
    local evaluated, _, aborted, skipped = compare [[
      local ty = require "tycho"
      local w = ty.arange(6):reshape(2, 3)
      local f = jit.compile(function(x, k) return (x:matmul(w) * k):relu():sum() end)
      for i = 1, 3 do print(f(ty.ones(4, 2) * i, i)) end
    ]]
    assert.same({ 2, 0 }, { evaluated, aborted })
    assert.truthy(skipped <= 4, skipped) -- of Tycho's own: wrappers of compiled functions, composites
  end)

  it("skips chunks that look at the stack, and says so", function()
    local evaluated, _, aborted, skipped = compare [[
      local function level() return debug.getinfo(1, "l").currentline end
      print(level(), type(getfenv(1)))
    ]]
    assert.same({ 0, 0, 1 }, { evaluated, aborted, skipped })
  end)

  it("runs a large program: luacheck", function()
    if not pcall(require, "luacheck") then
      pending("luacheck is not there")
      return
    end
    local evaluated, calls, aborted, skipped = compare [[
      local luacheck = require "luacheck"
      local report = luacheck.check_strings {
        "local x = 1\nlocal function f(a, b) return a end\nprint(y)\nfor i = 1, 2 do local x = i end",
        "return {", "local t = {} for k, v in pairs(t) do t[k] = function() return v end end return t" }
      for i, r in ipairs(report) do
        for _, w in ipairs(r) do print(i, w.code, w.line, w.column, w.name) end
      end
      print(report.warnings, report.errors, report.fatals)
    ]]
    assert.truthy(evaluated > 150, evaluated)
    assert.truthy(calls > 5000, calls)
    assert.equal(0, aborted)
    assert.truthy(skipped < evaluated / 10, skipped)
  end)
end)
