--- evaluate_all_spec.lua -- whole programs under the evaluator, TYCHO_EVAL=all, print what they print natively, and end
-- as they end natively. The counters are asserted, so nothing passes by running natively.

local H = require "spec.helper"
local programs = require "spec.programs"

--- Runs a program; gives what it wrote to stdout and to stderr, the counters among it, and its status.
local function run(code, mode)
  local script, errors = os.tmpname(), os.tmpname()
  local f = assert(io.open(script, "w"))
  f:write(code)
  f:close()
  local p = assert(io.popen(("%s%stycho %s one 2 2>%s; echo \"status $?\""):format(
    mode and "TYCHO_EVAL=" .. mode .. " " or "", H.root, script, errors)))
  local out, status = p:read("*a"):match "^(.*)status (%d+)\n$"
  p:close()
  local e = assert(io.open(errors))
  local err = e:read "*a"
  e:close()
  os.remove(script)
  os.remove(errors)
  local name = script:gsub("%p", "%%%0")
  return (out:gsub(name, "script")), (err:gsub(name, "script")), status
end

--- Compares both ways of running; returns the counters: evaluated, calls, aborted, skipped.
local function compare(code)
  local want, wrong, status = run(code)
  assert.truthy(#want > 0)
  local got, err, ended = run(code, "all")
  assert.equal(want, got, err)
  assert.equal(status, ended)
  assert.equal(wrong:match "^[^\n]*", err:gsub("evaluated %d+ functions [^\n]*\n", ""):match "^[^\n]*")
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

  it("skips chunks that set hooks, and says so", function()
    local evaluated, _, aborted, skipped = compare [[
      local lines = 0
      debug.sethook(function() lines = lines + 1 end, "l")
      local x = 1
      debug.sethook()
      print(lines > 0, x)
    ]]
    assert.same({ 0, 0, 1 }, { evaluated, aborted, skipped })
  end)

  it("catches what Lua catches", function()
    local code = { "local function show(ok, m) print(ok, type(m) == 'table' or m) end" }
    for _, text in ipairs(programs.failing) do
      code[#code + 1] = ("show(pcall(function() %s\n end))"):format(text)
      code[#code + 1] = ("show(xpcall(function() %s\n end, function(m) return type(m) == 'string' and 'h:' .. m end))"):format(text)
    end
    local _, _, aborted, skipped = compare(table.concat(code, "\n"))
    assert.same({ 0, 0 }, { aborted, skipped })
  end)

  for k = 1, #programs.failing, 7 do
    local text = programs.failing[k]
    it("ends as Lua ends: " .. text, function()
      compare("print 'begins';\n" .. text)
      compare(("print 'begins'\nlocal function f()\n%s\n end\nf()\nprint 'not here'"):format(text))
    end)
  end

  it("tells the debug library of the functions that are evaluated", function()
    local _, _, aborted, skipped = compare [[
      local function show(t)
        local list = {}
        for k, v in pairs(t or {}) do
          if type(v) ~= "function" and type(v) ~= "table" then list[#list + 1] = k .. "=" .. tostring(v) end
        end
        table.sort(list)
        print(table.concat(list, " "))
      end
      local function f(a, b)
        show(debug.getinfo(1)) show(debug.getinfo(2, "nSl"))
        local c = 3
        print(debug.getlocal(1, 1), debug.getlocal(1, 3), (debug.getlocal(1, 9)), debug.setlocal(1, 3, 4), c)
        print((debug.traceback("told"):gsub("0x%x+", "")))
      end
      f(1, 2)
      local t = { m = function() f(3, 4) end }
      t:m()
      pcall(function() f() end)
      pcall(f, 1)
      show(debug.getinfo(print)) show(debug.getinfo(f, "SL")) show(debug.getinfo(50)) show(debug.getinfo(0, "nS"))
      local up = 1
      local function g() up = up + 1 return up end
      local function h() return up end
      print(debug.getupvalue(g, 1)) print(debug.setupvalue(g, 1, 10), g(), (debug.getupvalue(g, 2)))
      print(debug.upvalueid(g, 1) == debug.upvalueid(h, 1))
      local other = 5
      debug.upvaluejoin(h, 1, function() return other end, 1)
      print(h(), g())
      local u = setmetatable({}, { __add = function() show(debug.getinfo(1, "n")) return 1 end })
      print(u + 1)
      print((select(2, xpcall(function() local x = nil; x.y = 1 end, debug.traceback)):gsub("0x%x+", "")))
      for _ in (function() show(debug.getinfo(1, "n")) end) do end
      print(pcall(debug.getlocal, 50, 1), pcall(function() return (debug.getinfo(1, "?")) end))
    ]]
    assert.same({ 0, 0 }, { aborted, skipped })
  end)

  it("knows environments of functions and levels", function()
    compare [[
      print(getfenv(1) == _G, getfenv(print) == _G, getfenv() == _G)
      local function f() return v end
      setfenv(f, { v = 7 })
      print(f(), v, getfenv(f).v)
      local function inner() setfenv(1, { q = 9 }) return q end
      print(inner(), inner())
      local function outer() local function g() setfenv(2, { w = 5 }) end g() return w end
      print(outer(), pcall(setfenv, print, {}))
      local made = (function() local function k() return 1 end return k end)()
      print(getfenv(made) == _G)
      module("a.module", package.seeall)
      function hello() return "hello" end
      print(a.module.hello(), _NAME, _M == a.module)
    ]]
  end)

  it("collects what is dead", function()
    compare [[
      local weak = setmetatable({}, { __mode = "k" })
      local function f(...) local t = {} weak[t], weak[...] = 1, 2 return function() return t end end
      local function work()
        f({})()
        local function self() return self end
        weak[self] = 3
        pcall(function(x) weak[x] = 4 error(function() return x end) end, {})
        local co = coroutine.wrap(function() local t = {} weak[t] = 5 coroutine.yield() end)
        co()
        weak[co] = 6
      end
      work()
      collectgarbage() collectgarbage()
      print(next(weak))
      local gone = 0
      for i = 1, 50 do
        local p = newproxy(true)
        getmetatable(p).__gc = function() gone = gone + 1 end
      end
      for i = 1, 10 do collectgarbage() end
      print(gone >= 49)
    ]]
  end)

  it("dumps functions, reads protected metatables, computes with 64-bit integers", function()
    local _, _, aborted = compare [[
      print(loadstring(string.dump(function(a, b) local function inner(c) return c * a end return inner(b), "s" end))(6, 7))
      print(#string.dump(function(a) return a end, true) < #string.dump(function(a) return a end), pcall(string.dump, print))
      local T = setmetatable({}, { __metatable = "locked", __add = function() return "added" end, __call = function(_, x) return x end,
        __concat = function() return "cat" end, __unm = function() return "unm" end, __index = function(_, k) return k end,
        __lt = function() return true end, __le = function() return false end })
      print(getmetatable(T), T + 1, T(4), T .. "x", -T, T.foo, T < T, T <= T, pcall(setmetatable, T, {}))
      print(1LL + 2, 3ULL * 2, 1LL == 1LL, tostring(2i), -5LL % 3, 7LL / 2, 1LL < 2, 2LL ^ 10)
      print(pcall(function() return 1LL + {} end))
      local function deep(n) if n == 0 then return 0 end return 1 + deep(n - 1) end
      print(deep(5000), pcall(function() for i = 1, 3, -0 * 1 do return "once" end return "never" end))
      print(arg[0] ~= nil, arg[-1] ~= nil, arg[1], arg[2], #arg)
    ]]
    assert.equal(0, aborted)
  end)

  it("ends with the status of the program", function()
    for _, code in ipairs { "os.exit(3)", "error('x')", "os.exit()", "local t = nil; t.x = 1", "error()", "error({})", "return 7" } do
      local _, wrong, status = run(code)
      local _, err, got = run(code, "all")
      assert.equal(status, got, code)
      assert.equal(wrong:match "^[^\n]*", err:gsub("evaluated [^\n]*\n", ""):match "^[^\n]*", code)
    end
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
