--- profile_spec.lua -- profiles: traces that viewers can read, numbers that hold against arithmetic.

local H = require "spec.helper"
local ty = H.ty

--- A strict reader of JSON: the value, or nil and where it is wrong.
local function parse_json(s)
  local at = 1
  local value
  local function skip() at = s:find("[^ \n\r\t]", at) or #s + 1 end
  local function fail(what) error({ what .. " at " .. at .. ": " .. s:sub(at, at + 20) }, 0) end
  local function text()
    local y = ""
    at = at + 1
    while true do
      local plain = s:match('^[^"\\%c]*', at)
      y, at = y .. plain, at + #plain
      local c = s:sub(at, at)
      if c == '"' then
        at = at + 1
        return y
      end
      if c ~= "\\" then fail "text" end
      local short, code = s:match('^\\(["\\/bfnrt])', at), s:match("^\\u(%x%x%x%x)", at)
      if not short and not code then fail "escape" end
      y, at = y .. (short or string.char(tonumber(code, 16) % 256)), at + (short and 2 or 6)
    end
  end
  local function list(close, item)
    local y = {}
    at = at + 1
    skip()
    if s:sub(at, at) == close then
      at = at + 1
      return y
    end
    while true do
      item(y)
      skip()
      local c = s:sub(at, at)
      at = at + 1
      if c == close then return y end
      if c ~= "," then fail "list" end
      skip()
    end
  end
  function value()
    skip()
    local c = s:sub(at, at)
    if c == '"' then return text() end
    if c == "[" then return list("]", function(y) y[#y + 1] = value() end) end
    if c == "{" then
      return list("}", function(y)
        if s:sub(at, at) ~= '"' then fail "key" end
        local key = text()
        skip()
        if s:sub(at, at) ~= ":" then fail "colon" end
        at = at + 1
        y[key] = value()
      end)
    end
    local number = s:match("^%-?%d+%.?%d*", at)
    if not number or number:find "%.$" then fail "value" end
    at = at + #number
    return tonumber(number)
  end
  local ok, y = pcall(value)
  if not ok then return nil, y[1] end
  skip()
  if at <= #s then return nil, "more at " .. at end
  return y
end

local path = os.tmpname()

local function trace()
  local f = assert(io.open(path, "rb"))
  local text = f:read "*a"
  f:close()
  local y, why = parse_json(text)
  assert.truthy(y, why)
  local spans, names = {}, {}
  for _, e in ipairs(y.traceEvents) do
    if e.ph == "X" then spans[#spans + 1] = e else names[e.tid] = e.args.name end
  end
  return spans, names
end

local function of_kind(spans, kind)
  local list = {}
  for _, e in ipairs(spans) do
    if e.cat == kind then list[#list + 1] = e end
  end
  return list
end

teardown(function() os.remove(path) end)

describe("ty.profile", function()
  it("writes a trace whose spans lie inside each other or apart, thread by thread", function()
    local f = jit.compile(function(x, w) return (x:matmul(w) + 1):relu():sum(1), (x * 2):softmax() end)
    local x, w = ty.randn(512, 512), ty.randn(512, 512)
    ty.profile(function()
      for _ = 1, 5 do f(x, w) end
      return (x + w):exp():sum():item()
    end, path)
    local spans, names = trace()
    assert.truthy(#spans > 20)
    local open, nested = {}, 0
    for _, e in ipairs(spans) do
      assert.truthy(e.ts >= 0 and e.dur >= 0)
      assert.truthy(names[e.tid])
      local stack = open[e.tid] or {}
      open[e.tid] = stack
      while #stack > 0 and stack[#stack] <= e.ts + 1e-3 do stack[#stack] = nil end
      if #stack > 0 then
        assert.truthy(e.ts + e.dur <= stack[#stack] + 2e-3, e.name)
        nested = nested + 1
      end
      stack[#stack + 1] = e.ts + e.dur
    end
    assert.truthy(nested > 5, nested)
    assert.equal(1, #of_kind(spans, "capture"))
    assert.truthy(of_kind(spans, "capture")[1].name:find "profile_spec.lua")
    assert.truthy(#of_kind(spans, "run") >= 5)
    assert.truthy(#of_kind(spans, "product") >= 5)
    assert.truthy(#of_kind(spans, "make") >= 1)
    assert.equal(1, #of_kind(spans, "function"))
    local main = of_kind(spans, "function")[1].tid
    assert.equal("Lua", names[main])
    for _, e in ipairs(of_kind(spans, "run")) do assert.equal(main, e.tid) end
  end)

  it("shows what workers did under their own names", function()
    local threads = ty.threads()
    ty.threads(3)
    local x, y = ty.randn(2 ^ 21), ty.randn(2 ^ 21)
    local f = jit.compile(function(a, b) return (a * b + a):exp() end)
    f(x, y)
    local found
    for _ = 1, 20 do -- the caller takes all chunks where the machine is busy
      ty.profile(function() for _ = 1, 5 do f(x, y) end end, path)
      local spans, names = trace()
      for _, e in ipairs(of_kind(spans, "chunk")) do
        if names[e.tid] ~= "Lua" then
          found = e.name
          assert.truthy(names[e.tid]:find "^worker %d+$")
        end
      end
      if found then break end
    end
    ty.threads(threads)
    assert.equal("mul add exp", found)
  end)

  it("counts bytes and operations of kernels as one does by hand", function()
    local n = 1000
    local f = jit.compile(function(x, y) return x * y + x end)
    local x, y = ty.randn(n, n), ty.randn(n)
    f(x, y)
    local report = ty.profile(function() for _ = 1, 3 do f(x, y) end end)
    assert.equal(1, #report.kernels)
    local k = report.kernels[1]
    assert.same({ "mul add", "kernel", 3 }, { k.name, k.kind, k.calls })
    assert.equal(3 * (n * n + n + n * n) * 4, k.bytes) -- x, y once for all rows, the result
    assert.equal(3 * 2 * n * n, k.flops)
  end)

  it("counts a multiplication and an addition in one as two", function()
    local f = jit.compile(function(x, y) return x * y + x end, { fast = true })
    local x, y = ty.randn(1000), ty.randn(1000)
    f(x, y)
    assert.equal(2000, ty.profile(function() f(x, y) end).kernels[1].flops)
  end)

  it("counts products, alone and with what follows them", function()
    local a, b, c = ty.randn(200, 300), ty.randn(300, 100), ty.randn(100)
    local f = jit.compile(function() return a:matmul(b) + c end)
    f()
    local k = ty.profile(function() f() end).kernels[1]
    assert.equal("matmul add [200 x 300 x 100 f32]", k.name)
    assert.equal(2 * 200 * 300 * 100 + 200 * 100, k.flops)
    assert.equal(4 * (200 * 300 + 300 * 100 + 100 + 200 * 100), k.bytes)
    k = ty.profile(function() a:matmul(b):get(1, 1) end).kernels[1]
    assert.equal("matmul [200 x 300 x 100 f32]", k.name)
    assert.equal(2 * 200 * 300 * 100, k.flops)
    assert.equal(4 * (200 * 300 + 300 * 100 + 200 * 100), k.bytes)
    -- windows overlap, but each element is read once
    local x, w = ty.randn(2, 3, 40, 40), ty.randn(8, 3, 5, 5)
    local conv = jit.compile(function() return ty.conv2d(x, w) end)
    conv()
    local bytes, flops = 0, 0
    for _, row in ipairs(ty.profile(function() conv() end).kernels) do
      if row.kind == "product" then bytes, flops = bytes + row.bytes, flops + row.flops end
    end
    assert.equal(2 * 2 * 8 * 36 * 36 * 75, flops)
    assert.equal(4 * (2 * 3 * 40 * 40 + 8 * 75 + 2 * 8 * 36 * 36), bytes)
    -- small ones take another way through the engine
    local p, q = ty.randn(8, 9), ty.randn(9, 10)
    k = ty.profile(function() p:matmul(q) end).kernels[1]
    assert.same({ "matmul [8 x 9 x 10 f32]", 2 * 720, 4 * (72 + 90 + 80) }, { k.name, k.flops, k.bytes })
  end)

  it("counts eager maps of every size by their elements", function()
    local x = ty.randn(1000)
    local report = ty.profile(function()
      for _ = 1, 4 do local _ = x + x end
      return x:sum():item()
    end)
    local by = {}
    for _, k in ipairs(report.kernels) do by[k.name] = k end
    assert.same({ 4, 4 * 1000, 4 * 3 * 4000 }, { by.add.calls, by.add.flops, by.add.bytes })
    assert.same({ 1, 1000, 4004 }, { by.sum.calls, by.sum.flops, by.sum.bytes })
  end)

  it("gives the function's results, and passes its errors on when the trace was written", function()
    local report, a, b = ty.profile(function() return 7, nil end)
    assert.same({ 7, nil }, { a, b })
    assert.truthy(report.seconds > 0)
    os.remove(path)
    local thrown = { "an object" }
    local ok, e = pcall(ty.profile, function()
      local _ = ty.ones(5) * 2
      error(thrown)
    end, path)
    assert.is_false(ok)
    assert.equal(thrown, e)
    assert.truthy(#of_kind((trace()), "kernel") >= 1)
    assert.truthy(ty.profile(function() return 1 end)) -- the next one works
  end)

  it("changes no bit of the results", function()
    local f = jit.compile(function(x, w) return x:matmul(w):softmax() end)
    local x, w = ty.randn(64, 32), ty.randn(32, 48)
    local want = f(x, w):totable()
    local _, got, eager = ty.profile(function() return f(x, w), x:matmul(w):softmax() end)
    assert.same(want, got:totable())
    assert.same(want, eager:totable())
  end)

  it("does not nest, and says so", function()
    local ok, message = pcall(ty.profile, function() ty.profile(function() end) end)
    assert.is_false(ok)
    assert.truthy(message:find("profile: another profile is running", 1, true), message)
    assert.truthy(ty.profile(function() end))
  end)

  it("keeps the newest events when there are more than it has room for, and counts the others", function()
    local x = ty.ones(4)
    local report = ty.profile(function()
      for _ = 1, 40000 do local _ = x + x end
    end)
    assert.truthy(report.lost >= 40000 - 32768, report.lost)
    assert.truthy(tostring(report):find("events had no room", 1, true))
  end)

  it("holds plans while it runs, and lets go of them", function()
    collectgarbage()
    ty.profile(function()
      for i = 1, 300 do
        local _ = ty.ones(3, i):sum(1)
      end
    end)
    assert.truthy(ty.stats().plans.entries > 0)
    assert.is_nil(ty.internals.profile_stop())
  end)

  it("says what it is told where nothing runs", function()
    local report = ty.profile(function() end)
    assert.same({}, report.kernels)
    assert.truthy(tostring(report):find("GB/s", 1, true))
    assert.truthy(report.machine.bandwidth > 1e8 and report.machine.flops > 1e8)
  end)

  it("prints no blanks at the ends of lines", function()
    local x = ty.rand(300):lt(0.5)
    local report = ty.profile(function() return x:logical_not() end)
    assert.equal(0, report.kernels[1].flops)
    assert.falsy((tostring(report) .. "\n"):find " \n")
  end)

  it("gives nil and why where the file cannot be written", function()
    local y, why = ty.profile(function() return 3 end, "/nowhere/trace.json")
    assert.is_nil(y)
    assert.truthy(why:find("^/nowhere/trace.json: "), why)
  end)

  it("raises on wrong use, at the user's line", function()
    for want, fn in pairs {
      ["profile: argument 1 must be a function, got nil"] = function() ty.profile() end,
      ["profile: argument 2 must be a path, got number 3"] = function() ty.profile(print, 3) end,
    } do
      local ok, message = pcall(fn)
      assert.is_false(ok)
      assert.truthy(message:find(want, 1, true), message)
      assert.truthy(message:find "profile_spec.lua:%d+: ", message)
    end
  end)
end)

describe("jit.profile", function()
  it("tells the line of each call of an operation that was called before elsewhere", function()
    local x = ty.ones(30000)
    for _ = 1, 3 do x:sum():item() end
    local lines = {}
    for k = 1, 3 do
      local report = jit.profile(k == 1 and function() x:sum():item() end or k == 2 and function() x:sum():item() end
        or function() x:sum():item() end)
      lines[k] = report.lines[1].line or 0
    end
    assert.truthy(lines[1] > 0)
    assert.same({ lines[1], lines[1], lines[1] + 1 }, lines)
  end)

  --- The rows of this file by line less `first`, and those of other places.
  local function rows(report, first)
    local here, others = {}, {}
    for _, r in ipairs(report.lines) do
      if r.file and r.file:find "profile_spec.lua$" then here[r.line - first] = r
      else others[#others + 1] = r end
    end
    return here, others
  end
  local function line() return debug.getinfo(2, "l").currentline end

  it("tells of eager operations the line, how often they ran, operations and bytes", function()
    local x = ty.randn(1000)
    local first = line()
    local report = jit.profile(function()
      for _ = 1, 4 do
        local y = x + x
        y = (y * 2 - x):exp()
        if y:sum():item() > 1e9 then return end
      end
    end)
    local here, others = rows(report, first)
    assert.same({}, others)
    assert.same({ 4, 4000, 4 * 3 * 4000 }, { here[3].runs, here[3].flops, here[3].bytes })
    assert.equal(4 * 3, here[4].runs)
    assert.equal("        y = (y * 2 - x):exp()", here[4].source)
    assert.equal(4, here[5].runs)
    local seconds = 0
    for _, r in pairs(here) do seconds = seconds + r.seconds end
    assert.near(report.busy, seconds, 1e-9)
    assert.truthy(tostring(report):find("profile_spec.lua:" .. first + 3 .. "  local y = x + x", 1, true))
    assert.same(report.lines, report:table().lines)
  end)

  it("shares a fused kernel among the lines whose operations it holds, for every size", function()
    local first = line()
    local f = jit.compile(function(x)
      local y = x * 2
      y = y + 1
      return y - x * x
    end)
    for _, n in ipairs { 1000, 777, 5000 } do -- later sizes are replayed, some in a range
      local x = ty.randn(n)
      for _ = 1, 3 do f(x) end
      local report = jit.profile(function() for _ = 1, 10 do f(x) end end)
      local here, others = rows(report, first)
      assert.same({}, others)
      assert.same({ 10, 10, 10 }, { here[2].runs, here[3].runs, here[4].runs })
      assert.near(0.25, here[2].share, 1e-9) -- one of four operations
      assert.near(0.25, here[3].share, 1e-9)
      assert.near(0.5, here[4].share, 1e-9)
      assert.near(10 * 4 * n, here[2].flops + here[3].flops + here[4].flops, 1e-6)
    end
  end)

  it("counts gradients where their operation stands, compiled with the pass, or before it, or not", function()
    local w = ty.randn({ 64, 64 }, { requires_grad = true })
    local x = ty.randn(64, 64)
    local first = line()
    local function loss()
      local h = x:matmul(w)
      return h:tanh():sum()
    end
    local function train()
      local y = loss()
      y:backward()
    end
    local compiled = jit.compile(loss)
    for what, step in pairs { eager = train, whole = jit.compile(train), outside = function() compiled():backward() end } do
      for _ = 1, 4 do step() end
      local report = jit.profile(function() for _ = 1, 5 do step() end end)
      local here = rows(report, first)
      assert.truthy(here[2].backward > 0 and here[2].backward < here[2].seconds, what)
      assert.truthy(here[3].backward > 0 and here[3].backward < here[3].seconds, what)
      assert.truthy(here[2].flops > here[3].flops and here[2].flops <= 5 * 2 * 2 * 64 ^ 3 + 1e5, what) -- two products
    end
  end)

  it("knows lines of functions that are called, and of those that the library calls", function()
    local first = line()
    local function inner(x) return x:exp() end
    local f = jit.compile(function(x) return inner(x) * 2 end)
    local g = ty.grad(function(x)
      return (x * x):sum()
    end)
    local x = ty.randn(100)
    f(x)
    local here = rows(jit.profile(function()
      f(x)
      g(x)
    end), first)
    assert.truthy(here[1] and here[2] and here[4])
    assert.truthy(here[1].share > 3 * here[2].share)
  end)

  it("gives results, passes errors on, and leaves nothing behind", function()
    local x = ty.ones(10)
    local report, a, b = jit.profile(function() return 1, 2 end)
    assert.same({ 1, 2 }, { a, b })
    assert.same({}, report.lines)
    H.raises("mine", jit.profile, function() error("mine", 0) end)
    H.raises("profile: argument 1 must be a function, got number 1", jit.profile, 1)
    H.raises("profile: argument 2 must be a path, got number 1", jit.profile, print, 1)
    local plain = ty.profile(function() return (x + 1):sum():item() end)
    assert.is_nil(plain.lines)
    local chunk = loadstring("local x = ...\nreturn (x * 3):sum():item()", "=(chunk)")
    local row = jit.profile(function() chunk(x) end).lines[1]
    assert.same({ "(chunk)", 2 }, { row.file, row.line })
    assert.is_nil(row.source)
  end)

  it("changes no bit, and captures what it would capture", function()
    local m = ty.nn.Linear(4, 4)
    local f = jit.compile(function(x) return m(x):softmax(2):detach() end)
    local x = ty.randn(3, 4)
    local _, y = jit.profile(function() return f(x) end)
    assert.same(m(x):softmax(2):totable(), y:totable())
    for _ = 1, 5 do f(x) end
    assert.equal(1, jit.explain(f).captures)
  end)
end)
