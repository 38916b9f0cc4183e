--- compile_spec.lua -- a compiled function behaves as plain Lua: what it returns, prints, raises, yields, changes.

local H = require "spec.helper"
local ty = H.ty

--- Compares two lists of results: tensors to the bit, tables by their fields, the rest by value.
local function alike(want, got, where)
  where = where or "result"
  if ty.is_tensor(want) then return H.same(want, got, where) end
  if type(want) ~= "table" then
    if want ~= want then return assert.truthy(got ~= got, where) end
    return assert.equal(want, got, where)
  end
  assert.equal("table", type(got), where)
  for k, v in pairs(want) do alike(v, got[k], where .. "." .. tostring(k)) end
  for k in pairs(got) do assert.truthy(want[k] ~= nil, where .. "." .. tostring(k)) end
end

local function pack(...) return { n = select("#", ...), ... } end

--- make() gives a function and its arguments, fresh for each of both runs.
local function equal(make, calls)
  local plain, compiled = pack(make()), pack(make())
  local f = ty.compile(compiled[1])
  for _ = 1, calls or 3 do
    local want = pack(pcall(plain[1], unpack(plain, 2, plain.n)))
    local got = pack(pcall(f, unpack(compiled, 2, compiled.n)))
    alike(want, got)
  end
end

describe("a compiled function", function()
  it("follows control flow that depends on data", function()
    equal(function()
      return function(x)
        local steps = 0
        while x:sum():item() < 100 do
          x = x * 2
          steps = steps + 1
        end
        if x:max():item() > 50 then return x, "large", steps end
        return -x, "small", steps
      end, ty.tensor { 1, 2, 3 }
    end)
    equal(function()
      return function(x)
        local y = 0
        for i, row in x:rows() do
          if row:get(1) % 2 == 0 then y = row * i + y end
        end
        for i = 1, #x do y = y + x[i] end
        repeat y = y / 2 until y:abs():max():item() < 1
        return y
      end, ty.arange(12):reshape(4, 3)
    end)
  end)

  it("prints what and when plain Lua prints", function()
    local out
    local say = function(...) out[#out + 1] = table.concat({ ... }, " ") end
    local function f(x)
      say("in", tostring(x))
      local y = x + 1
      say("made", tostring(y), y:sum():item())
      return y
    end
    out = {}
    f(ty.tensor { 1, 2 })
    local plain = out
    out = {}
    ty.compile(f)(ty.tensor { 1, 2 })
    assert.same(plain, out)
    assert.same({ "in {1, 2} [f32 2 cpu]", "made {2, 3} [f32 2 cpu] 5" }, out)
  end)

  it("sees and makes changes of upvalues, globals and fields", function()
    equal(function()
      local w, count, model = ty.tensor { 1, 2 }, 0, { bias = ty.tensor { 5, 5 } }
      return function(x)
        count = count + 1
        w = w * 1.5
        model.bias = model.bias + count
        model.last = x
        return x * w + model.bias, count
      end, ty.tensor { 1, -1 }
    end, 5)
    local w = ty.tensor { 1 }
    local f = ty.compile(function(x) return x * w end)
    f(ty.tensor { 2 })
    w = ty.tensor { 10 }
    assert.equal(20, f(ty.tensor { 2 }):item())
    w:fill_(7)
    assert.equal(14, f(ty.tensor { 2 }):item())
    w = 3
    assert.equal(6, f(ty.tensor { 2 }):item())
  end)

  it("may call compiled functions, and be called by them", function()
    equal(function()
      local inner = ty.compile(function(x) return x:exp(), x:sum():item() end)
      local middle = ty.compile(function(x)
        local e, s = inner(x)
        return e * s
      end)
      return function(x) return middle(x) + inner(x), middle(inner(x)) end, ty.tensor { 0.5, 0.25 }
    end)
  end)

  it("tells 0 from -0 in a number that it computes and writes as text", function()
    equal(function()
      local k = 0
      return function(a)
        k = -k
        return ("%g %g"):format(a * k, k), 1 / tonumber(("%g"):format(a * k))
      end, 3
    end, 6)
  end)

  it("tells 0 from -0 in an argument that it writes as text, and in constants that an argument meets", function()
    local function text(a) return ("%g"):format(a) end
    local compiled = ty.compile(text)
    for _, a in ipairs { 0, 0, -0.0, 0, -0.0 } do assert.equal(text(a), compiled(a)) end
    equal(function()
      return function(x, a)
        local up = x / (a * 0)
        return up, x / (a * -0.0)
      end, ty.tensor { 1, -1 }, 2
    end)
  end)

  it("is a method as well", function()
    equal(function()
      local layer = { w = ty.tensor { { 1, 2 }, { 3, 4 } } }
      layer.apply = ty.compile(function(self, x) return x:matmul(self.w), self end)
      return function(x) return (layer:apply(x)) end, ty.tensor { 1, 1 }
    end)
  end)

  it("takes and gives any number of values, nil among them", function()
    equal(function() return function(...) return select("#", ...), ... end, nil, 1, nil end)
    equal(function() return function() end end)
    equal(function() return function(...) return ... end end)
    equal(function()
      return function(a, ...)
        local list = { ... }
        return a + #list, list, select(2, ...)
      end, ty.tensor { 1 }, ty.tensor { 2 }, "x", false
    end)
    local many = {}
    for i = 1, 150 do many[i] = ty.tensor { i } end
    equal(function() return function(...) return ... end, unpack(many) end)
  end)

  it("takes and gives tables: nested, with cycles, the same ones", function()
    equal(function()
      return function(t) return { sum = t.a + t.b.c, list = { t.a, t.b } }, t end,
        { a = ty.tensor { 1 }, b = { c = ty.tensor { 2 }, s = "text" } }
    end)
    local t = {}
    t.self = t
    assert.equal(t, ty.compile(function(v) return v.self end)(t))
  end)

  it("gives the very tensors that went in", function()
    local x = ty.tensor { 1 }
    local a, b = ty.compile(function(v) return v, v:add_(1) end)(x)
    assert.truthy(rawequal(a, x) and rawequal(b, x))
    assert.equal(2, x:item())
  end)

  it("yields and resumes inside", function()
    equal(function()
      return function(x)
        local body = function(v)
          local y = v + 1
          local received = coroutine.yield(y, y:sum():item())
          y = y * received
          coroutine.yield(y)
          return y + v
        end
        local co = coroutine.create(ty.compile(body))
        local trace = {}
        trace[1] = { coroutine.resume(co, x) }
        local unrelated = x * 100
        trace[2] = { coroutine.resume(co, 3) }
        trace[3] = { coroutine.resume(co) }
        trace[4] = coroutine.status(co)
        return trace, unrelated
      end, ty.tensor { 1, 2 }
    end)
  end)

  it("may be abandoned in the middle of a yield", function()
    local f = ty.compile(function(x)
      local y = x + 1
      coroutine.yield()
      return y
    end)
    for _ = 1, 300 do
      local co = coroutine.create(f)
      coroutine.resume(co, ty.ones(3))
    end
    collectgarbage()
    collectgarbage()
    assert.same({ 2, 2 }, (ty.ones(2) + 1):totable())
  end)

  it("interleaves with others in coroutines", function()
    local function worker(x)
      for i = 1, 5 do
        x = x * 2 + i
        coroutine.yield()
      end
      return x
    end
    local function drive(fn)
      local list, done = {}, {}
      for i = 1, 4 do list[i] = coroutine.create(fn) end
      for round = 1, 6 do
        for i = 1, 4 do
          local _, y = coroutine.resume(list[i], ty.tensor { i, round })
          done[i] = y
        end
      end
      return unpack(done)
    end
    alike(pack(drive(worker)), pack(drive(ty.compile(worker))))
  end)

  it("raises errors of the same text and level", function()
    local function thrower(level)
      return function(x)
        local function check(v)
          if v:sum():item() > 0 then error("too much", level) end
          return v
        end
        return check(x + 1)
      end
    end
    for level = 0, 3 do
      local f = thrower(level)
      local c = ty.compile(f)
      local x = ty.tensor { 1 }
      local function call(g) -- one line for both
        local ok, message = pcall(function() local y = g(x) return y end) -- luacheck: ignore
        return ok, message
      end
      alike(pack(call(f)), pack(call(c)))
    end
    local object = setmetatable({}, {})
    local _, e = pcall(ty.compile(function() error(object) end))
    assert.equal(object, e)
    _, e = pcall(ty.compile(function() local t = nil; return t.x end))
    assert.truthy(e:find("attempt to index local 't' (a nil value)", 1, true))
  end)

  it("appears in tracebacks once, with the function's own lines", function()
    local function f(x)
      local y = x + 1
      return debug.traceback("here") .. tostring(y:get(1)) .. ""
    end
    local function lines(g) local t = g(ty.ones(1)) return select(2, t:gsub("compile_spec%.lua", "")) end
    assert.equal(lines(f), lines(ty.compile(f)))
  end)

  it("may fail half-way and be called again", function()
    equal(function()
      local n = 0
      return function(x)
        n = n + 1
        local y = x * n
        if n % 2 == 1 then error("odd " .. n, 0) end
        return y, x:add_(y)
      end, ty.tensor { 1, 2 }
    end, 6)
  end)

  it("recurs as deep as plain Lua", function()
    local function make(wrap)
      local f
      f = wrap(function(n, x)
        if n == 0 then return x end
        local y = f(n - 1, x)
        return y
      end)
      return f
    end
    local function plain(g) return g end
    local x = ty.ones(2)
    for _, wrap in ipairs { plain, ty.compile } do H.same(x, make(wrap)(15000, x)) end
    local function sum(wrap)
      local f
      f = wrap(function(n, t)
        if n == 0 then return t * 0 end
        return t + f(n - 1, t)
      end)
      return f
    end
    H.same(sum(plain)(1500, x), sum(ty.compile)(1500, x))
    local endless
    endless = ty.compile(function(n) return 1 + endless(n + 1) end)
    local ok, message = pcall(endless, 1)
    assert.falsy(ok)
    assert.truthy(tostring(message):find("stack overflow"))
    H.same(x + 1, ty.compile(function(t) return t + 1 end)(x))
  end)

  it("makes tail calls as plain Lua", function()
    local even, odd
    even = ty.compile(function(n, x) if n == 0 then return x end return odd(n - 1, x) end)
    odd = ty.compile(function(n, x) if n == 0 then return -x end return even(n - 1, x) end)
    ty.budget(5) -- captures of so long calls end at a bound of steps
    local y = even(100000, ty.tensor(1))
    ty.budget(math.huge)
    assert.equal(1, y:item())
  end)

  it("works where C functions call back: sort, gsub, wrap, pcall, xpcall, metamethods", function()
    local list = { ty.tensor(3), ty.tensor(1), ty.tensor(2) }
    table.sort(list, ty.compile(function(a, b) return (a - b):item() < 0 end))
    assert.same({ 1, 2, 3 }, { list[1]:item(), list[2]:item(), list[3]:item() })
    local grown = ("1 2 3"):gsub("%d", ty.compile(function(d) return tostring((ty.tensor(tonumber(d)) * 10):item()) end))
    assert.equal("10 20 30", grown)
    local gen = coroutine.wrap(ty.compile(function(x)
      for i = 1, 3 do coroutine.yield(x * i) end
    end))
    assert.equal(2, gen(ty.tensor(2)):item())
    assert.equal(4, gen():item())
    local callable = setmetatable({}, { __call = ty.compile(function(_, x) return x + 1 end),
      __index = ty.compile(function(_, k) return k .. "!" end) })
    assert.equal(6, callable(ty.tensor(5)):item())
    assert.equal("key!", callable.key)
    assert.truthy(pcall(ty.compile(function(x) return x + 1 end), ty.tensor(1)))
    local ok, handled = xpcall(ty.compile(function() error("oops", 0) end), function(m) return m .. "?" end)
    assert.same({ false, "oops?" }, { ok, handled })
    local iterate = ty.compile(function(x) return x:rows() end)
    local n = 0
    for _ in iterate(ty.ones(4, 2)) do n = n + 1 end
    assert.equal(4, n)
    local f = ty.compile(function() return n end)
    setfenv(f, getfenv())
    assert.equal(4, f())
  end)

  it("compiles a function anew whose compiled one was collected", function()
    local function f(x) return x + 1 end
    for _ = 1, 3 do
      for _ = 1, 3 do assert.equal(3, ty.compile(f)(ty.tensor(2)):item()) end
      collectgarbage()
    end
  end)

  it("loses nothing to the garbage collector", function()
    local f = ty.compile(function(x)
      local y = x
      for i = 1, 20 do
        y = y + i
        if i % 5 == 0 then collectgarbage() end
      end
      return y
    end)
    for _ = 1, 5 do assert.equal(211, f(ty.tensor(1)):item()) end
    collectgarbage("setpause", 100)
    collectgarbage("setstepmul", 5000)
    local g = ty.compile(function(x)
      local keep = {}
      for i = 1, 100 do
        keep[i] = { x * i }
        local _ = { {}, {}, tostring(i) }
      end
      local s = 0
      for i = 1, 100 do s = keep[i][1] + s end
      return s
    end)
    assert.equal(5050, g(ty.tensor(1)):item())
    collectgarbage("setpause", 200)
    collectgarbage("setstepmul", 200)
  end)

  it("is dropped with its function", function()
    local weak = setmetatable({}, { __mode = "k" })
    do
      local f = function(x) return x + 1 end
      weak[f] = true
      weak[ty.compile(f)] = true
      for k in pairs(weak) do k(ty.ones(2)) end
    end
    for _ = 1, 4 do collectgarbage() end
    assert.equal(nil, next(weak))
  end)

  it("is dropped with its function when each knows the other: recursion, guarded functions and tables, modules", function()
    local weak = setmetatable({}, { __mode = "k" })
    local function round(compile)
      local recursive, helper
      local function plain(n, x) return n == 0 and x or recursive(n - 1, x + 1) end
      recursive = compile(plain)
      local state = {}
      helper = function(x) return x + (state.n or 1), state.run end
      state.run = compile(function(x) return (helper(x)) end)
      local module = { forward = function(self, x) return x * self.k end, k = 2 }
      module.run = compile(module)
      for _ = 1, 3 do
        assert.equal(3, recursive(3, ty.tensor(0)):item())
        assert.equal(6, state.run(ty.tensor(5)):item())
        assert.equal(10, module.run(ty.tensor(5)):item())
      end
      for _, v in ipairs { plain, recursive, helper, state, state.run, module, module.run } do weak[v] = true end
    end
    for i = 1, 20 do round(i % 2 == 0 and H.lazy or ty.compile) end
    for _ = 1, 6 do collectgarbage() end
    local left = 0
    for _ in pairs(weak) do left = left + 1 end
    -- what the last round left on the stack may still be there
    assert.truthy(left <= 7, left)
  end)

  it("survives the state's settings changing between calls", function()
    local f = ty.compile(function(x) return x / 3, ty.zeros(2) + 0.5 end)
    local i = ty.ones({ 2 }, { dtype = "i32" })
    assert.equal("f32", f(i).dtype)
    ty.default_dtype("f64")
    local a, b = f(i)
    ty.default_dtype("f32")
    assert.same({ "f64", "f64" }, { a.dtype, b.dtype })
    assert.equal("f32", f(i).dtype)
  end)

  it("may change another thread count, seed or default in its body", function()
    equal(function()
      return function(x)
        ty.manual_seed(3)
        local a = ty.rand(4)
        ty.threads(1)
        local b = x + a
        ty.threads(2)
        ty.manual_seed()
        return a, b
      end, ty.ones(4)
    end)
  end)

  it("runs graph, explain and compile inside", function()
    equal(function()
      return function(x)
        local y = x + 1
        local f = ty.compile(function(v) return v * 2 end)
        local z = f(y)
        ty.explain(f)
        ty.stats()
        return z, ty.help("add")
      end, ty.ones(3)
    end)
  end)
end)

describe("compile", function()
  it("of the same function is the same function, and of a compiled one itself", function()
    local f = function(x) return x end
    local c = ty.compile(f)
    assert.equal(c, ty.compile(f))
    assert.equal(c, ty.compile(c))
    assert.truthy(ty.compile(f, { fast = true }) ~= c)
    assert.equal(jit.compile, ty.compile)
    assert.equal("function", type(c))
  end)

  it("of C functions and library functions works", function()
    assert.equal(3, ty.compile(math.max)(1, 3))
    H.same(ty.ones(2):exp(), ty.compile(ty.exp)(ty.ones(2)))
    H.same(ty.ones(2):softmax(), ty.compile(ty.softmax)(ty.ones(2)))
  end)

  it("of a module gives a callable through which fields read and write", function()
    local m = { w = ty.tensor { 2 }, name = "layer" }
    function m:forward(x, k) return x * self.w * (k or 1), self.name end
    local c = ty.compile(m)
    local y, name = c(ty.tensor { 3 })
    assert.same({ 6, "layer" }, { y:item(), name })
    assert.equal(m.w, c.w)
    c.w = ty.tensor { 5 }
    assert.equal(5, m.w:item())
    assert.equal(30, (c(ty.tensor { 3 }, 2)):item())
    m.name = "other"
    assert.equal("other", c.name)
    assert.equal(c, ty.compile(c))
    assert.equal(15, (c:forward(ty.tensor { 3 })):item())
    assert.truthy(ty.explain(c).calls >= 1)
  end)

  it("refuses what is neither, and unknown options", function()
    assert.truthy(H.raises(function() local y = ty.compile(3) return y end):find("^compile: argument 1"))
    assert.truthy(H.raises(function() local y = ty.compile({}) return y end):find("^compile: argument 1"))
    assert.truthy(H.raises(function() local y = ty.compile(print, { fats = true }) return y end):find("^compile: unknown option fats"))
    assert.truthy(H.raises(function() local y = ty.compile(print, { fast = 1 }) return y end):find("^compile: option fast"))
  end)

  it("with fast stays near the exact result", function()
    local x = ty.rand(100)
    local f = function(a) return (a * 1.1 + 0.3) * a - a end
    -- terms below 2 that cancel: each rounding that contraction leaves out is worth at most 2^-24
    local difference = (f(x) - ty.compile(f, { fast = true })(x)):abs():max():item()
    assert.truthy(difference <= 4 * 2 ^ -24)
  end)
end)

describe("explain", function()
  it("tells the operations and bytes that fusion saved, of traces and of what is recorded", function()
    local function body(x) return ((x * 2 + 1) * x - 3):abs() end
    local f, recorded = ty.compile(body), H.lazy(function(x) return (body(x)) end)
    f(ty.ones(1000)):get(1)
    recorded(ty.ones(1000)):get(1)
    for _, g in ipairs { ty.explain(f).traces[1], ty.explain(recorded).signatures[1].graphs[1] } do
      assert.same({ 5, 4, 1 }, { g.operations, g.operations_saved, g.kernels })
      assert.equal(8000, g.bytes_moved) -- 1000 floats read, 1000 written
      assert.equal(4 * 8000 + 4000, g.bytes_saved) -- four results not written and read; x not read again
    end
  end)

  it("tells traces, hits, and what differed at each miss", function()
    local f = ty.compile(function(x, k) return x * k end)
    f(ty.ones(2, 3), 1)
    f(ty.ones(2, 3), 2)
    f(ty.ones(4), 1)
    f(ty.ones(4), ty.ones(4))
    f(ty.ones(4), 3)
    local e = ty.explain(f)
    assert.same({ 5, 3, 0, 0 }, { e.calls, e.captures, #e.aborts, #e.signatures })
    assert.equal(3, #e.traces)
    -- most recently used first; a capture is tried before the function is run, so the first call is a hit, too
    assert.same({ 2, 1, 2 }, { e.traces[1].hits, e.traces[2].hits, e.traces[3].hits })
    local function guards(i) return table.concat(e.traces[i].guards, "\n") end
    assert.truthy(guards(3):find("x: f32[2,3]", 1, true) and guards(3):find("k: a number", 1, true), guards(3))
    assert.truthy(guards(2):find("k: f32[4]", 1, true), guards(2))
    assert.same({ "tensor", "x", "f32[2,3]", "f32[4]" },
      { e.misses[1].guard, e.misses[1].path, e.misses[1].was, e.misses[1].now })
    assert.equal(2, #e.misses)
    for _, part in ipairs { "compile_spec.lua:", "5 calls", "3 captures", "guard x: f32[2,3]", "mul", e.misses[1].text } do
      assert.truthy(e:full():find(part, 1, true), part)
    end
    for _, part in ipairs { "compile_spec.lua:", "5 calls", "3 captures", "(x: f32[2,3], k: a number): 2 hits", e.misses[1].text } do
      assert.truthy(tostring(e):find(part, 1, true), part)
    end
    ty.reset(f)
    e = ty.explain(f)
    assert.same({ 0, 0, 0, 0 }, { e.calls, e.captures, #e.traces, #e.misses })
  end)

  it("prints in 25 lines at most, none of them wide, whatever there is to tell", function()
    local list = {}
    for i = 1, 60 do list["parameter_with_a_long_name_" .. i] = ty.full({ 3 }, i) end
    local f = ty.compile(function(x, k, ...)
      if k == 13 then print "" end
      for _, v in pairs(list) do x = x + v * k end
      if #x.shape == 2 then x = x:sum(1) end
      return k % 2 == 0 and x * select("#", ...) or x:item()
    end, { parts = false })
    local print_was = print
    print = function() end -- luacheck: ignore 121
    for i = 1, 40 do
      pcall(f, ty.ones(3), i % 14, unpack({}, 1, i % 9))
      pcall(f, ty.ones(i % 5 + 1, 3), i % 14, "text " .. i)
      pcall(f, ty.ones(1), i % 4 + 1, nil)
    end
    print = print_was -- luacheck: ignore 121
    local e, lines = ty.explain(f), 0
    for line in tostring(e):gmatch "[^\n]+" do
      lines = lines + 1
      assert.truthy(#line <= 160, line)
    end
    assert.truthy(#e.misses > 3 and #e.aborts > 0 and #e.traces > 4 and #e.signatures > 0, tostring(e))
    assert.truthy(lines <= 25, tostring(e))
    assert.truthy(#e:full() > 3000)
  end)

  it("gives a plain table to programs", function()
    local f = ty.compile(function(x) return x + 1 end)
    f(ty.ones(2))
    local e = ty.explain(f)
    local plain = e:table()
    assert.is_nil(getmetatable(plain))
    assert.same({ 1, 1, e.traces }, { plain.calls, plain.captures, plain.traces })
  end)

  it("tells why a call was not captured: file, line, reason, hint, cost", function()
    local f = ty.compile(function(x)
      local y = x + 1
      return y:item() + 1
    end, { parts = false })
    local line = debug.getinfo(1, "l").currentline - 2
    for _ = 1, 3 do assert.equal(3, f(ty.tensor(1))) end
    local e = ty.explain(f)
    local abort = e.aborts[1]
    assert.same({ 3, 0, 0 }, { e.calls, e.skips, e.captures })
    assert.equal(line, abort.line)
    assert.truthy(abort.file:find("compile_spec%.lua$"))
    assert.truthy(abort.reason:find("item", 1, true) and abort.hint and abort.cost > 0)
    assert.truthy(tostring(e):find(("compile_spec.lua:%d: %s"):format(line, abort.reason), 1, true))
  end)

  it("tells signatures, hits, misses and what differed of calls that are recorded", function()
    local f = H.lazy(function(x, k) return x * k end)
    f(ty.ones(2, 3), 1)
    f(ty.ones(2, 3), 2)
    f(ty.ones(4), 1)
    f(ty.ones(4), ty.ones(4))
    local e = ty.explain(f)
    assert.same({ 4, 1, 3, 0 }, { e.calls, e.signature_hits, e.signature_misses, e.captures })
    assert.equal(3, #e.signatures)
    assert.same({ "f32[4]", "f32[4]" }, e.signatures[1].signature)
    assert.same({ "f32[2,3]", "number" }, e.signatures[3].signature)
    assert.truthy(tostring(e):find("signatures: 1 hit, 3 misses", 1, true))
    assert.truthy(e:full():find("compile_spec.lua:", 1, true))
    assert.truthy(e:full():find("f32%[2,3%], number"))
    assert.truthy(#table.concat(e.differences, " ") > 10)
    ty.reset(f)
    assert.equal(0, ty.explain(f).calls)
  end)

  it("tells kernels, bytes moved and saved for each graph that a function is cut into", function()
    local f = ty.compile(function(x)
      local a = (x + 1) * 2
      a:sum():item()
      local b = a:exp()
      return b
    end, { parts = false })
    f(ty.ones(10))
    assert.truthy(ty.explain(f).aborts[1].reason:find("item", 1, true))
    local t = ty.explain(f).signatures[1]
    assert.truthy(#t.graphs >= 2)
    for _, g in ipairs(t.graphs) do
      assert.truthy(g.kernels >= 1 and g.operations >= 1 and g.bytes_moved > 0 and g.runs == 1)
    end
  end)

  it("keeps a bounded number of signatures", function()
    local f = H.lazy(function(x) return x + 1 end)
    for n = 1, 200 do f(ty.ones(n)) end
    local e = ty.explain(f)
    assert.truthy(#e.signatures <= 64)
    assert.truthy(e.evicted > 0)
    assert.truthy(e.signature_misses > 64 and e.signature_misses <= 200)
  end)

  it("leaves traces alone that answer nothing, and comes back to them", function()
    local field, known = {}, nil
    for i = 1, 600 do field["k" .. i] = i end
    local c, x = ty.compile(function(x, k) return x * field[k] end), ty.ones(2)
    for i = 1, 600 do
      local before = ty.explain(c).captures
      H.same(x * i, c(x, "k" .. i))
      if ty.explain(c).captures > before then known = i end
    end
    local e = ty.explain(c)
    assert.truthy(e.captures < 30, e.captures)
    assert.truthy(e.signature_hits < 400, e.signature_hits)
    for _ = 1, 2000 do H.same(x * known, c(x, "k" .. known)) end
    assert.truthy(ty.explain(c).skips - e.skips > 900, ty.explain(c).skips - e.skips)
    assert.equal(e.calls + 2000, ty.explain(c).calls)
  end)

  it("keeps a bounded number of traces, misses and aborts", function()
    local k = 0
    local f = ty.compile(function(x)
      if k == -1 then return x:item() end
      return x + ("a"):rep(k):len()
    end, { parts = false })
    for n = 1, 200 do
      k = n
      assert.equal(n, f(ty.tensor(0)):item())
    end
    k = -1
    for _ = 1, 200 do f(ty.tensor(0)) end
    local e = ty.explain(f)
    assert.truthy(#e.traces >= 1 and #e.traces <= 64, #e.traces)
    assert.truthy(#e.misses >= 1 and #e.misses <= 16, #e.misses)
    assert.truthy(#e.aborts >= 1 and #e.aborts <= 16, #e.aborts)
  end)
end)

describe("graph", function()
  it("shows what would be recorded and puts back what was written", function()
    local x = ty.tensor { 1, 2, 3 }
    local g = ty.graph(function(v)
      v:add_(100)
      return v * 2
    end, x)
    assert.same({ 1, 2, 3 }, x:totable())
    local ops = {}
    for i, node in ipairs(g) do ops[i] = node.op end
    assert.truthy(table.concat(ops, " "):find("add.*mul"))
    assert.truthy(g[#g].live)
    assert.same({ 3 }, g[#g].shape)
  end)

  it("gives a list where a value is demanded", function()
    local list = ty.graph(function(v)
      local s = v:sum():item()
      return v * s
    end, ty.ones(3))
    assert.equal(2, #list)
    assert.truthy(tostring(list):find("graph 2"))
  end)

  it("leaves results of the call usable, and raises what the function raises", function()
    local out
    ty.graph(function(v) out = v + 1 end, ty.ones(2))
    assert.same({ 2, 2 }, out:totable())
    local ok, message = pcall(ty.graph, function() error("inside", 0) end)
    assert.same({ false, "inside" }, { ok, message })
    assert.same({ 3, 3 }, (out + 1):totable())
  end)
end)

describe("a world of its own", function()
  it("loads twice, in one state or many coroutines, and closes cleanly", function()
    local out, status = H.script([[
      local ty = require "tycho"
      package.loaded.tycho, package.loaded["tycho.core"] = nil, nil
      assert(require "tycho")
      local f = jit.compile(function(x) return x + 1 end)
      kept = { f(ty.ones(3)), coroutine.create(function() local y = f(ty.ones(4)) coroutine.yield(y) end) }
      coroutine.resume(kept[2])
      setmetatable({}, { __gc = function() end })
      print(kept[1])
    ]])
    assert.equal("{2, 2, 2} [f32 3 cpu]\n", out)
    assert.equal(0, status)
  end)

  it("exits cleanly from inside a compiled function", function()
    local out, status = H.script([[
      local ty = require "tycho"
      jit.compile(function(x) local y = x + 1 print(y:get(1)) os.exit(3, true) end)(ty.ones(2))]])
    assert.equal("2\n", out)
    assert.equal(3, status)
  end)

  it("runs without the trace compiler, and without the jit and ffi libraries", function()
    for _, before in ipairs { "jit.off()", "jit = nil; package.loaded.jit = nil",
      "package.preload.ffi = function() error 'none' end; package.loaded.ffi = nil" } do
      local out, status = H.script(before .. [[

        local ty = require "tycho"
        local f = ty.compile(function(x) return (x * 2):exp():sum() end)
        print(f(ty.zeros(5)):item())]])
      assert.equal("5\n", out)
      assert.equal(0, status)
    end
  end)

  it("finds its C libraries beside its Lua files, and says which one is not there", function()
    local folder = package.cpath:match "[^;]*build[^;]*":gsub("%?.*", "")
    local function run(path, cpath, code)
      return H.script(code, { LUA_PATH = path .. "?.lua;" .. path .. "?/init.lua", LUA_CPATH = cpath })
    end
    local use = "local ty = require 'tycho' print(ty.ones(2):sum():item(), ty.csv.parse('a\\n1').rows)"
    assert.equal("2\t1\n", run(folder, "/nowhere/?.so", use))
    assert.truthy(run(H.root .. "lua/", "/nowhere/?.so", use):find("module 'tycho.core' not found", 1, true))
    local other = os.tmpname()
    os.remove(other)
    H.shell(("mkdir -p '%s/tycho' && cp '%stycho/core.so' '%s/tycho'"):format(other, folder, other))
    local out = run(H.root .. "lua/", other .. "/?.so", use)
    H.shell(("rm -r '%s'"):format(other))
    assert.truthy(out:find("tycho.files: files.so was not found: ", 1, true), out)
  end)

  it("captures where the host's assert is another function", function()
    local code = [[
      local ty = require "tycho"
      assert = function(v) if not v then error {} end return v end
      local f = ty.compile(function(x) assert(x) return x + 1 end)
      for _ = 1, 3 do f(ty.ones(2)) end
      print(ty.explain(f).skips, pcall(f))]]
    assert.truthy(H.script(code):find "^3\tfalse\ttable: ")
  end)
end)
