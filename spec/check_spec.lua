--- check_spec.lua -- jit.check finds planted faults, tells where they are, and leaves no trace of its own run.

local H = require "spec.helper"
local ty = H.ty

local function values(t) return t:totable() end

--- A backend that computes what the graph says and then adds to one element of one result.
local function faulty(result, i, by)
  return {
    backend = function(graph)
      return function(...)
        local y = { graph:run(...) }
        y[result] = y[result]:clone()
        y[result]:set(i, y[result]:get(i) + by)
        return unpack(y)
      end
    end,
  }
end

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err
end

local x = ty.tensor { 1, 2, 3 }

describe("jit.check", function()
  it("is silent where all bits agree, and counts calls", function()
    local calls = 0
    local f = jit.compile(function(a, s) return { a * s, sum = a:sum() }, s + 1 end)
    f(x, 1)
    jit.check(f, 2)
    local plain_calls = function() calls = calls + 1 end
    for s = 1, 6 do
      local t, n = f(x, s)
      plain_calls()
      assert.same({ s, 2 * s, 3 * s }, values(t[1]))
      assert.equal(s + 1, n)
    end
    assert.equal(7, jit.explain(f).skips)
  end)

  it("names the result, the element and both values", function()
    local f = jit.compile(function(a) return a:sum(), { logits = a + 1 } end, faulty(2, 3, 0.5))
    jit.check(f, 1)
    assert.truthy(message(f, x):find("check: result 2.logits[3] differs: eager 4, compiled 4.5", 1, true))
  end)

  it("tells bits where values print alike, and elements by their position", function()
    local f = jit.compile(function(a) return a:reshape(2, 2) + 0 end, {
      backend = function()
        return function() return ty.tensor { { 0, 0 }, { -0.0, 0 } } end
      end,
    })
    jit.check(f, 1)
    local text = message(f, ty.zeros(4))
    assert.truthy(text:find("result 1[2,1] differs: eager 0, compiled -0", 1, true), text)
  end)

  it("sees what is written: tensors, fields, upvalues", function()
    local w = ty.zeros(2)
    local f = jit.compile(function(a) w:add_(a) return 1 end, faulty(1, 2, 1))
    jit.check(f, 1)
    assert.truthy(message(f, ty.ones(2)):find("check: w[2] differs: eager 1, compiled 2", 1, true))
    local t, n = {}, 0
    local wrong = false
    local g = jit.compile(function(a)
      n = n + 1
      t.mean = a + n
      return n
    end, {
      backend = function(graph)
        return function(...)
          if wrong then return graph:run(...):neg() end
          return graph:run(...)
        end
      end,
    })
    jit.check(g, 1)
    assert.equal(1, g(ty.ones(1)))
    assert.equal(1, n)
    assert.same({ 2 }, values(t.mean))
    wrong = true
    assert.truthy(message(g, ty.ones(1)):find("t.mean[1] differs: eager 3, compiled -3", 1, true))
  end)

  it("does nothing twice: fields, lists, upvalues, tensors, random streams, new keys", function()
    local function program()
      local n, log, w, o = 0, {}, ty.zeros(3), setmetatable({}, { __index = { k = 2 } })
      local view = w[{ { 2, 3 } }]
      local function f(a)
        n = n + o.k
        o.last = a
        log[#log + 1] = n
        view:add_(n)
        return w:sum(), ty.rand(2), { o, log, w, view }
      end
      return f, function() return n, log, values(w), o.last end
    end
    local plain, seen = program()
    local other, seen_other = program()
    local f = jit.compile(other)
    jit.check(f, 1)
    for i = 1, 4 do
      ty.manual_seed(i)
      local a, r, t = plain(i)
      ty.manual_seed(i)
      local b, q, u = f(i)
      assert.equal(a:item(), b:item())
      assert.same(values(r), values(q))
      assert.same(t[2], u[2])
      assert.same(values(t[4]), values(u[4]))
      assert.same({ seen() }, { seen_other() })
    end
    assert.equal(4, jit.explain(f).skips)
  end)

  it("compares results that hold themselves and each other", function()
    local f = jit.compile(function(a)
      local t = { a * 2 }
      t.self, t.list = t, { t }
      return t, t.list
    end)
    jit.check(f, 1)
    local t, list = f(x)
    assert.equal(t, t.self)
    assert.equal(t, list[1])
  end)

  it("takes all NaNs for one value", function()
    local f = jit.compile(function(a) return a / 0 - a / 0, 0 / 0 end)
    jit.check(f, 1)
    assert.has_no.errors(function() f(x) end)
  end)

  it("checks functions that are not captured, too", function()
    local hidden = newproxy and math.random -- keeps a state that nobody puts back
    local f = jit.compile(function(a) return a * hidden(1, 1000000) end)
    jit.check(f, 1)
    assert.truthy(message(f, x):find("check: result 1[1] differs", 1, true))
    local reading = jit.compile(function(a, t) t.n = (t.n or 0) + 1 return a * a:sum():item() end,
      { parts = false })
    jit.check(reading, 1)
    local t = {}
    for _ = 1, 3 do assert.same({ 6, 12, 18 }, values(reading(x, t))) end
    assert.equal(3, t.n)
    assert.equal(0, jit.explain(reading).skips)
  end)

  it("gives the error that both raise", function()
    local f = jit.compile(function(a, t) t.n = t.n + 1 return a:matmul(ty.ones(7)) end)
    jit.check(f, 1)
    local t = { n = 0 }
    assert.truthy(message(f, x, t):find("matmul: inner sizes differ", 1, true))
    assert.equal(1, t.n)
  end)

  it("lets functions yield", function()
    local f = jit.compile(function(a) return coroutine.yield(a) end)
    jit.check(f, 1)
    local co = coroutine.wrap(f)
    assert.equal(5, co(5))
    assert.equal(6, co(6))
  end)

  it("ends with 0 or nil, and knows its arguments", function()
    local f = jit.compile(function(a) return a + 1 end, faulty(1, 1, 1))
    jit.check(f, 1)
    message(f, x)
    jit.check(f)
    assert.same({ 3, 3, 4 }, values(f(x)))
    assert.has_error(function() jit.check(f, 1.5) end)
    assert.has_error(function() jit.check(print, 1) end)
    assert.has_error(function() jit.check(jit.compile(function() end, { fast = true }), 1) end)
  end)

  it("puts globals back by whatever way they are written", function()
    local base = { counter = 0, ty = ty, rawset = rawset }
    base._G = base
    local behind = setmetatable({}, { __index = base, __newindex = base })
    local ways = {
      "counter = counter + 1 return x * counter",
      "local name = 'counter' _G[name] = _G[name] + 1 return x * counter",
      "bump() return x * counter",
      "rawset(_G, 'counter', counter + 1) return x * counter",
      "counter = counter + 1 fresh = (fresh or 0) + 1 return x * counter + fresh",
    }
    for _, env in ipairs { base, behind } do
      base.bump = setfenv(function() counter = counter + 1 end, env) -- luacheck: ignore
      for _, body in ipairs(ways) do
        base.counter, base.fresh = 0, nil
        local compiled = jit.compile(setfenv(assert(loadstring("return function(x) " .. body .. " end"))(), env))
        jit.check(compiled, 1)
        for n = 1, 3 do
          local y = compiled(x)
          assert.equal(n, base.counter, body)
          assert.equal(n + (base.fresh or 0), values(y)[1], body)
        end
      end
    end
  end)

  -- What a function reads from a file is other text each time it runs, and nobody puts the file back.
  local function reading(lines, make, ...)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(table.concat(lines, "\n"), "\n")
    file:close()
    local f = jit.compile(make(io.lines(path), ...))
    jit.check(f, 1)
    local text = message(f)
    os.remove(path)
    return tostring(text):gsub("^[^ ]* ", "")
  end

  it("names what differs by kind and place: results", function()
    local known = { a = { 1 }, b = { 2 } }
    for want, case in pairs {
      ["result 1 differs: eager \"a\", compiled \"b\""] = function(v) return v end,
      ["result 1 differs: eager true, compiled false"] = function(v) return v == "a" end,
      ["result 1 differs: eager 5, compiled nil"] = function(v) return v == "a" and 5 or nil end,
      ["result 1 differs: eager a table, compiled true"] = function(v) return v ~= "a" or {} end,
      ["result 1 differs: eager 1, compiled 1.0000000000000002"] = function(v) return v == "a" and 1 or 1 + 2 ^ -52 end,
      ["result 1 differs: eager known.a, compiled known.b"] = function(v) return known[v] end,
      ["result 1 differs: eager a table, compiled known.b"] = function(v) return v == "a" and {} or known.b end,
      ["result 1 (metatable).__index differs: eager \"a\", compiled \"b\""] = function(v) return setmetatable({}, { __index = v }) end,
      ["result 1.a differs: eager 1, compiled nil"] = function(v) return { [v] = 1 } end,
      ["result 1[\"a b\"] differs: eager nil, compiled 1"] = function(v) return v == "a" and {} or { ["a b"] = 1 } end,
      ["the number of results differs: eager 1, compiled 2"] = function(v) return unpack(v == "a" and { 1 } or { 1, 2 }) end,
      ["result 1[2] differs: eager a table that is elsewhere, too, compiled another one"] = function(v)
        local a, b = {}, {}
        return { a, v == "a" and a or b }
      end,
    } do
      assert.equal("check: " .. want, reading({ "a", "b" }, function(read)
        return function() return case(read()) end
      end), want)
    end
  end)

  it("names what differs by kind and place: effects and errors", function()
    local known, list, w, v = {}, {}, ty.ones({ 2 }, { requires_grad = true }), ty.ones(2)
    for want, case in pairs {
      ["known[\"a b\"] differs: eager \"a\", compiled \"b\""] = function(said) known["a b"] = said end,
      ["known[7] differs: eager \"a\", compiled \"b\""] = function(said) known[7] = said end,
      ["list (metatable)[1] differs: eager \"a\", compiled \"b\""] = function(said) setmetatable(list, { said }) end,
      ["w.grad differs: eager a tensor f32[2], compiled nil"] = function(said) w.grad = said == "a" and ty.ones(2) or nil end,
      ["v differs: eager released, compiled alive"] = function(said) if said == "a" then v:release() end end,
      ["v differs: eager alive, compiled released"] = function(said)
        v:add_(0)
        if said == "b" then v:release() end
      end,
      ["the error differs: eager a, compiled b"] = function(said) error(said, 0) end,
      ["the outcome differs: eager returns, compiled raises b"] = function(said) if said == "b" then error(said, 0) end end,
    } do
      v = ty.ones(2)
      local got = reading({ "a", "b", "b", "b", "b" }, function(read)
        return function() return case(read()), known, list, w, v end
      end)
      assert.equal("check: " .. want, got)
    end
  end)

  it("lets functions release what they were given", function()
    local kept = {}
    local f = jit.compile(function(a)
      if kept[1] then kept[1]:release() end
      kept[1] = a * 2
      return a + 1
    end)
    jit.check(f, 1)
    for _ = 1, 3 do
      local before = kept[1]
      assert.same({ 2, 3, 4 }, values(f(x)))
      assert.is_true(not before or not ty.internals.is_live(before))
    end
  end)

  it("puts a large tensor back whose elements are written one by one", function()
    local large = ty.range(200000)
    local f = jit.compile(function(a)
      large:set(7, large:get(7) + a)
      return large:clone()
    end)
    jit.check(f, 1)
    for n = 1, 3 do
      local want = ty.range(200000)
      want[7] = 7 + n
      H.same(want, f(1))
      H.same(want, large)
    end
  end)

  it("puts memory of others back in its place", function()
    local memory = H.ffi.new("float[3]", 1, 2, 3)
    local t, empty = ty.from_ptr(memory, { 3 }, "f32"), ty.zeros(0)
    empty:data()
    local f = jit.compile(function(a)
      t:add_(a)
      empty:add_(1)
      return t:sum():item()
    end)
    jit.check(f, 1)
    for n = 1, 3 do
      assert.equal(6 + 3 * n, f(1))
      assert.same({ 1 + n, 2 + n, 3 + n }, { memory[0], memory[1], memory[2] })
    end
  end)

  it("looks at what the function can reach, not at the program around it", function()
    local around = {}
    for i = 1, 100000 do around[i] = { i } end
    local env = setmetatable({ around = around, step = 0 }, { __index = _G })
    local f = jit.compile(setfenv(function(a)
      step = step + 1 -- luacheck: ignore
      return a * step -- luacheck: ignore
    end, env))
    jit.check(f, 1)
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    for n = 1, 3 do assert.same({ n, 2 * n, 3 * n }, values(f(x))) end
    local taken = collectgarbage "count" - before
    collectgarbage "restart"
    assert.truthy(taken < 1000, taken .. " KB of notes") -- of the tables around it there would be 20 MB
  end)
end)
