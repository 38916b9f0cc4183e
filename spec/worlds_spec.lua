--- worlds_spec.lua -- worlds whose parts meet in ways that a capture did not see: one cell, table or tensor reached by
-- two paths, metamethods that come and go, values at the edges, effects on what is read again.
-- Each world is built twice (twins.lua) and called many times while it changes; all that can be seen must be equal to
-- the bit. `captures` is written by hand; a world without it aborts, or its count depends on the policy.

local T = require "spec.twins"
local ty = require("spec.helper").ty

--- build(W) makes the world, W.i is the number of the call, W.turn(i), if there, runs before each.
local function world(name, calls, captures, build)
  it(name, function()
    local pair = T.pair(build)
    for i = 1, calls do
      pair:each(function(W)
        W.i = i
        if W.turn then W.turn(i) end
      end)
      local ok, why = pcall(pair.call, pair)
      if not ok then error(("call %d: %s"):format(i, why), 0) end
    end
    if not captures then return end
    assert.truthy((pair:settle(1)), "Lua is not skipped: " .. pair:story())
    assert.equal(captures, pair:captures(), pair:story())
  end)
end

local function two() return ty.ones(2) end

local function counter()
  local n = 0
  return function()
    n = n + 1
    return n
  end, function() return n end
end

describe("one thing by two paths:", function()
  world("cells that closures made anew share, or not", 24, nil, function(W)
    W.f = function(x, up, get)
      up()
      up()
      return x * get()
    end
    W.args = function()
      local up, get = counter()
      if W.i % 3 == 0 then get = select(2, counter()) end
      return two(), up, get
    end
  end)

  world("cells that kept closures share, or not", 24, nil, function(W)
    local up1, get1 = counter()
    local up2, get2 = counter()
    W.f = function(x, up, get)
      up()
      up()
      return x * get()
    end
    W.args = function() return two(), W.i % 2 == 0 and up1 or up2, W.i % 3 == 0 and get1 or get2 end
  end)

  world("an upvalue that a called function writes, or another one", 12, nil, function(W)
    local k, j = 1, 1
    local function first() k = k + 1 end
    local function second() j = j + 1 end
    W.f = function(x, g)
      g()
      return x * k + j
    end
    W.args = function() return two(), W.i % 2 == 0 and first or second end
    W.state = function() return k, j end
  end)

  world("tables as two arguments", 12, 2, function(W)
    local a, b = { n = 1 }, { n = 2 }
    W.f = function(x, p, q)
      p.n = p.n + 1
      local y = x * q.n
      q.n = q.n * 2
      return y + p.n
    end
    W.args = function() return two(), a, W.i % 3 == 0 and a or b end
    W.state = function() return a, b end
  end)

  world("the environment as an argument", 12, 2, function(W)
    local env, other = { k = 1 }, { k = 7 }
    W.f = setfenv(function(x, t)
      k = k + 1 -- luacheck: ignore
      return x * t.k
    end, env)
    W.args = function() return two(), W.i % 3 == 0 and env or other end
    W.state = function() return env, other end
  end)

  world("a metatable as an argument that is written", 12, 3, function(W)
    local mt = { k = 1 }
    mt.__index = mt
    local o, other = setmetatable({}, mt), { k = 5 }
    W.f = function(x, t)
      t.k = t.k + 1
      return x * o.k
    end
    W.args = function() return two(), W.i % 3 == 0 and mt or W.i % 3 == 1 and o or other end
    W.state = function() return mt, o, other end
  end)

  world("fields under keys that may be one", 18, 2, function(W)
    local t = { 1, 2, 3 }
    W.f = function(x, i, j)
      t[i] = t[i] + 10
      return x * t[j]
    end
    W.args = function() return two(), W.i % 3 + 1, W.i % 2 + 1 end
    W.state = function() return t end
  end)

  world("an argument that is an upvalue, or a view of it", 9, 3, function(W)
    local w = ty.ones(3)
    W.f = function(x)
      x:add_(1)
      w:mul_(2)
      return x + w
    end
    W.args = function() return W.i % 3 == 1 and w or W.i % 3 == 2 and w[{ { 1, 3 } }] or ty.ones(3) end
    W.state = function() return w end
  end)

  world("a tensor in two fields, or a view, or another", 12, nil, function(W)
    local s = { a = two(), b = two() }
    W.f = function(x)
      s.a:add_(x)
      return s.b * 2
    end
    W.args = two
    W.turn = function(i) s.b = i % 3 == 0 and s.a or i % 3 == 1 and s.a[{ { 1, 2 } }] or ty.zeros(2) end
    W.state = function() return s end
  end)

  world("a buffer and a row of it", 6, 1, function(W)
    local s = { buffer = ty.zeros(4, 3) }
    s.row = s.buffer[2]
    W.f = function(x)
      s.row:add_(x)
      s.buffer[{ {}, 1 }] = 5
      s.last = s.buffer[3]
      return s.row, s.buffer:sum()
    end
    W.args = function() return ty.ones(3) end
    W.state = function() return s end
  end)

  world("a view that the last call left", 6, 2, function(W)
    local s = { buffer = ty.zeros(4, 3) }
    W.f = function(x)
      if s.last then s.last:add_(x) end
      s.last = s.buffer[3]
      return s.buffer * 1
    end
    W.args = function() return ty.ones(3) end
    W.state = function() return s end
  end)

  world("parts of a tensor that overlap", 4, 1, function(W)
    W.x = ty.arange(8)
    W.f = function(x)
      x[{ { 1, 5 } }]:copy_(x[{ { 3, 7 } }])
      x[{ { 4, 8 } }]:add_(x[{ { 1, 5 } }])
      return x * 1
    end
    W.args = function() return W.x end
  end)

  world("a view of an argument, written between calls", 6, 1, function(W)
    W.x = ty.arange(6):reshape(2, 3)
    W.f = function(x)
      W.v = x[2]
      return x:t(), W.v, x
    end
    W.turn = function() if W.v then W.v:add_(1) end end
    W.args = function() return W.x end
    W.state = function() return W.v end
  end)
end)

describe("metamethods that come and go:", function()
  world("__newindex", 12, nil, function(W)
    local log = {}
    local o = setmetatable({}, {})
    W.f = function(x)
      o.z = x
      return rawget(o, "z")
    end
    W.args = two
    W.turn = function(i)
      getmetatable(o).__newindex = i % 4 < 2 and function(s, k, v)
        log.n = (log.n or 0) + 1
        rawset(s, k, v * 2)
      end or nil
      if i % 3 == 0 then o.z = nil end
    end
    W.state = function() return log, o.z end
  end)

  world("__index past the end of a list", 12, nil, function(W)
    local list = setmetatable({ 1, 2 }, {})
    W.f = function(x)
      local i = 1
      while list[i] and i < 6 do
        x = x + list[i]
        i = i + 1
      end
      return x
    end
    W.args = two
    W.turn = function(i)
      getmetatable(list).__index = i % 4 < 2 and { 4, 4, 4 } or i % 4 == 2 and function(_, k) return k < 4 and k or nil end
        or nil
    end
  end)
end)

describe("values at the edges:", function()
  world("what arithmetic and math make of them", 27, 1, function(W)
    W.f = function(x, k)
      return x, k % 3, k % -3, k ^ 2, k ^ 0.5, math.floor(k), math.ceil(k), math.abs(k), math.max(k, 0), math.min(k, 0),
        math.sqrt(k), math.fmod(k, 2), math.modf(k), -k, k / 0
    end
    local values = { 0, -0.0, 1, 0 / 0, 1 / 0, -1 / 0, -1.5, 1e300, 2.5 }
    W.args = function() return two(), values[W.i % 9 + 1] end
  end)

  world("numbers on tensors of many dtypes", 32, nil, function(W)
    W.f = function(x, k) return x * k, x + k, x:lt(k), k end
    local dtypes, numbers = { "i32", "f32", "u8", "f16" }, { 2, 2.5, -1, 0 / 0, 1 / 0, 300, 2 ^ 31, 0.1 }
    W.args = function() return ty.tensor({ 1, 2, 3 }, { dtype = dtypes[W.i % 4 + 1] }), numbers[math.floor(W.i / 4) % 8 + 1] end
  end)

  world("equality over types", 24, nil, function(W)
    W.f = function(x, a, b)
      if a == b then x = x + 1 end
      if a ~= 1 then x = x * 2 end
      return x, a == b, rawequal(a, b)
    end
    local values = { 1, "1", 1.5, true, false, 0, -0.0, 0 / 0 }
    W.args = function() return two(), values[W.i % 8 + 1], values[(W.i * 3) % 8 + 1] end
  end)

  world("texts of numbers", 8, 4, function(W)
    W.f = function(x, k) return x, tostring(k), k .. "", ("%g"):format(k), tonumber(tostring(k)) end
    local values = { 0, -0.0, 1, 0 / 0 }
    W.args = function() return two(), values[W.i % 4 + 1] end
  end)

  world("loops with broken steps", 16, 4, function(W)
    W.f = function(x, a, b, c)
      for i = a, b, c do x = x + i end
      return x
    end
    W.args = function() return two(), 1, W.i % 4, (W.i % 2) + 0.5 end
  end)

  world("a fraction written to an integer tensor is refused before anything is written", 9, nil, function(W)
    local n = 0
    W.x = ty.zeros({ 4 }, { dtype = "i32" })
    W.f = function(x, v)
      n = n + 1
      x:add_(v)
      return x * 2
    end
    W.args = function() return W.x, W.i % 3 == 0 and W.i + 0.5 or W.i end
    W.state = function() return n end
  end)

  world("sizes of 0", 4, 1, function(W)
    W.f = function(x) return x * 2, x:sum(), x:sum(1), ty.cat { x, x } end
    W.args = function() return ty.zeros(0, 3) end
  end)

  world("120 results with holes", 4, 1, function(W)
    W.f = function(x)
      local t = {}
      for i = 1, 120 do t[i] = i % 3 ~= 0 and x + i or nil end
      return unpack(t, 1, 120)
    end
    W.args = two
  end)

  world("100 arguments", 4, 1, function(W)
    W.f = function(...)
      local s = 0
      for i = 1, select("#", ...) do s = s + (select(i, ...)) end
      return s
    end
    W.args = function()
      local t = {}
      for i = 1, 100 do t[i] = ty.full({ 2 }, i) end
      return unpack(t)
    end
  end)

  world("nil among varargs", 12, nil, function(W)
    W.f = function(x, ...)
      local t = { ... }
      return x, select("#", ...), #t, t[1], t[2], t[3], ...
    end
    W.args = function() return two(), unpack({ nil, W.i, nil }, 1, W.i % 4) end
  end)
end)

describe("effects on what is read again:", function()
  world("a table that gains and loses keys", 12, nil, function(W)
    local t = { a = 1 }
    W.f = function(x)
      if t.a then
        t.a = nil
        t.b = x
      else
        t.a = 1
        t.b = nil
      end
      return x, (next(t))
    end
    W.args = two
    W.state = function() return t end
  end)

  world("a list that is sorted, grown and shrunk by the library", 12, 1, function(W)
    local list = { 3, 1, 2 }
    W.f = function(x)
      table.sort(list)
      table.insert(list, 1, #list)
      local r = table.remove(list)
      return x * r, table.concat(list, ","), unpack(list)
    end
    W.args = two
    W.state = function() return list end
  end)

  world("a history of the last results", 8, 3, function(W)
    local s = {}
    W.f = function(x)
      s[#s + 1] = x * 2
      if #s > 3 then table.remove(s, 1) end
      return s[1] + s[#s]
    end
    W.args = function() return ty.full({ 3 }, W.i) end
    W.state = function() return s end
  end)

  world("a ring of rows", 12, 2, function(W)
    local s = { rows = ty.zeros(4, 3), i = 0 }
    W.f = function(x)
      s.i = s.i % 4 + 1
      s.rows[s.i] = x * s.i
      return s.rows:mean(1)
    end
    W.args = function() return ty.ones(3) end
    W.state = function() return s end
  end)

  world("a state shared with a compiled function inside", 8, 1, function(W)
    local s = { n = 0, h = ty.zeros(3) }
    local g = ty.compile(function(x)
      s.n = s.n + 1
      s.h = s.h + x
      return s.h
    end)
    W.f = function(x)
      local a = g(x)
      s.n = s.n * 2
      local b = g(a)
      return a, b, s.n
    end
    W.args = function() return ty.ones(3) end
    W.state = function() return s end
  end)

  world("errors that are objects, caught inside", 6, 2, function(W)
    local s, e = { n = 0 }, { "object" }
    W.f = function(x, bad)
      local ok, why = pcall(function()
        s.n = s.n + 1
        s.h = x * s.n
        if bad then error(e) end
        return s.h
      end)
      return ok, why, s.n
    end
    W.args = function() return two(), W.i % 2 == 0 end
    W.state = function() return s, e end
  end)

  world("the collector between all steps", 30, 1, function(W)
    local s = { n = 0 }
    W.f = function(x)
      s.n = s.n + 1
      s.t = { x * s.n, { x } }
      return s.t[1] + 1, s.t
    end
    W.args = function()
      collectgarbage()
      return ty.ones(3)
    end
    W.state = function()
      collectgarbage()
      return s
    end
  end)

  world("a new metatable for what is outside", 6, nil, function(W)
    local o = {}
    W.f = function(x)
      setmetatable(o, { __index = { k = x } })
      return o.k + 1
    end
    W.args = two
    W.state = function() return o end
  end)
end)

-- Lua's library where captured code runs inside of it, and where it raises -------------------------------------------

describe("table.sort sees and says what the host's does:", function()
  local LISTS = {
    { 3, 1, 2, 5, 4, 9 }, { 2, 1 }, { 5, 4, 9, 2, 1, 7, 3, 8 }, { 1 }, {}, { 3, 3, 3, 3, 3 }, { 2, 9, 4 }, { 8, 7, 6, 5, 4, 3, 2, 1, 0 },
  }
  -- of a list t: `n` counts, say(...) keeps
  local orders = {
    ["looking at what has been moved"] = "function(a, b) say(t[1], t[2], t[3], #t) return a < b end",
    ["looking in other ways"] = "function(a, b) say(rawget(t, 2), next(t)) for _, v in ipairs(t) do say(v) end return a > b end",
    ["raising in the middle"] = "function(a, b) n = n + 1 if n == 4 then error('stop') end return a < b end",
    ["raising an object"] = "function(a, b) n = n + 1 if n == 6 then error({ code = n }) end return a < b end",
    ["raising by assert"] = "function(a, b) n = n + 1 assert(n ~= 5) return a < b end",
    ["writing"] = "function(a, b) n = n + 1 if n == 3 then t[2] = 100 end return a < b end",
    ["taking away"] = "function(a, b) t[1] = nil return a < b end",
    ["growing"] = "function(a, b) if #t < 12 then t[#t + 1] = 0 end return a < b end",
    ["shrinking"] = "function(a, b) if #t > 5 then t[#t] = nil end return a > b end",
    ["adding fields"] = "function(a, b) t.seen = (t.seen or '') .. tostring(t[3]) return a < b end",
    ["that is none"] = "function(a, b) return true end",
    ["that is none by equality"] = "function(a, b) return a <= b end",
    ["that gives nothing"] = "function(a, b) say(a, b) end",
    ["that sorts too"] = "function(a, b) local u = { b, a, 3 } table.sort(u) return u[1] == a and a ~= b end",
    ["of no function"] = "setmetatable({}, { __call = function(_, a, b) return a < b end })",
    ["of the host"] = "rawequal",
    ["by default"] = "nil",
    ["in a metamethod that counts and raises"] = [[(function()
      local mt = {}
      mt.__lt = function(a, b) n = n + 1 if n == 7 then error('lt') end say(a[1], t[1][1]) return a[1] < b[1] end
      for i = 1, #t do t[i] = setmetatable({ t[i] }, mt) end
    end)()]],
    ["of values of other types"] = "(function() t[2] = 'text' end)()",
  }
  for name, order in pairs(orders) do
    world("an order " .. name, 4 * #LISTS, nil, function(W)
      local said, t = {}, nil
      W.f = assert(loadstring(([[local said = ...
        return function(x, t, wild)
          local n = 0
          local function say(...) for i = 1, select("#", ...) do said[#said + 1] = tostring((select(i, ...))) end end
          local before = %s
          if wild then table.sort(t, before) return x * 2, n end
          local ok, why = pcall(table.sort, t, before)
          return x * 2, ok, why, n
        end]]):format(order), "=world"))(said)
      W.args = function()
        for i = #said, 1, -1 do said[i] = nil end
        t = { unpack(LISTS[(W.i - 1) % #LISTS + 1]) }
        return two(), t, W.i > 3 * #LISTS
      end
      W.state = function() return said, t end
    end)
  end
end)

describe("what error and assert raise, caught inside:", function()
  local raising = {}
  for text in ([[error("t"); error("t", 0); error("t", 1); error("t", "0"); error("t", 0.5); error("t", {}); error("t", "z"); error();
    error(nil); error(5); error(o); error(o, "z"); error(o, {}); error(o, 1); error(o, x); error(true, "0x1"); error(nil, true); error(x);
    error(x, x); error(5, nil); assert(false); assert(nil); assert(false, nil); assert(nil, nil, 3); assert(false, "t"); assert(false, 5);
    assert(false, o); assert(false, x); assert(false, "t", o); assert(nil, o, x); assert(false, 0.1); assert(); assert(o.none);
    assert(o.none, o.text); assert(o.none, o.number); return assert(false, "t"); return assert(o.none); return error("t");
    local ok = pcall(error, o) assert(not ok, "u"); local _, why = pcall(assert, false, "t") error(why); (assert)(o.none)]] .. ";")
    :gmatch "%s*(.-);" do raising[#raising + 1] = text end
  for _, text in ipairs(raising) do
    world(text, 5, nil, function(W)
      local o = { text = "text", number = 7 }
      W.f = assert(loadstring(([[local o = ...
        return function(x)
          local ok, why = pcall(function()
            %s
          end)
          return x * 2, ok, why
        end]]):format(text), "=world"))(o)
      W.args = function()
        o.number, o.text = W.i % 2, "text " .. W.i % 2
        return two()
      end
    end)
  end
end)

describe("a table of strings' methods that is not the host's:", function()
  local methods = getmetatable ""
  for name, other in pairs { ["none at all"] = false, ["another one"] = { len = function() return 5 end } } do
    it(name .. ": captures, later calls, misses and what is told of them are as before", function()
      local index = methods.__index
      local function body(x, t, k)
        local list = { x, nil, k, name = "n" .. k }
        table.sort(t)
        if t.mode == "add" then return x + t[1] + #list.name end
        return x * t[1], tostring(k), (pcall(error, "t")), string.rep("r", 2)
      end
      local compiled, texts = ty.compile(body), {}
      local function run(f, into)
        methods.__index = other or nil
        local ok, why = pcall(function()
          for k = 1, 8 do into[k] = { f(ty.ones(k % 3 + 1), { 2, 1, mode = k > 5 and "add" or nil }, k % 2) } end
        end)
        methods.__index = index
        assert(ok, why)
        for k, list in ipairs(into) do into[k] = T.text(list, 4) end
      end
      local plain, got = {}, {}
      run(body, plain)
      run(compiled, got)
      assert.same(plain, got)
      methods.__index = other or nil
      local ok, why = pcall(function()
        texts[1] = ty.explain(compiled):full()
        ty.stance "no_recompile"
        texts[2] = select(2, pcall(compiled, ty.ones(2), { "text" }, 1))
      end)
      methods.__index = index
      ty.stance "default"
      assert(ok, why)
      assert.truthy(texts[1]:find "captures", texts[1])
      assert.truthy(texts[2]:find "no_recompile", texts[2])
    end)
  end
end)

describe("functions of Lua's library do with odd arguments what the host's do:", function()
  local ok, ffi = pcall(require, "ffi")
  local calls = {}
  for text in ([[p == q; p ~= q; p == p; pcall(function() return p * x end); p .. "a"; pcall(function() return d + x end); "a" + x;
    pairs_of(nulls);
    next(nulls); nulls[1] == nil; not nulls[1]; #nulls; rawget(nulls, 1) and 1; own == nil; type(own); table.remove(t, false);
    table.remove(t, nil); table.remove(t, 1.5); table.remove(t, "2"); table.remove(t, one); table.remove(t, 2 ^ 32 + 1);
    table.concat(t, false);
    table.concat(t, nil); table.concat(t, 5); table.concat(t, ",", false); table.concat(t, ",", 1, false); table.concat(t, ",", "2");
    table.concat(t, ",", 2 ^ 32 + 1, 2 ^ 32); rawset(t, 1); rawset(t); rawget(t); setmetatable({}, { __index = rawset }).a;
    setmetatable({}, { __call = rawget })(); iterate(t, 0.5); iterate(t, x); iterate(t, "1"); iterate(t); iterate(t, 2 ^ 31);
    select(one, "a", "b"); select("2", "a", "b"); select(1.5, "a", "b"); select(2 ^ 31, "a"); select(2 ^ 32 + 1, "a");
    select(0 / 0, "a"); select(false, 1);
    unpack(t, one); unpack(t, false); unpack(t, "2"); unpack(t, 2 ^ 31, 3); unpack(t, 2 ^ 32 + 1, 2 ^ 32 + 2); unpack(t, nil, 2);
    table.insert(t, one, 5); table.insert(t, false, 5); table.insert(t, "1", 5); table.insert(t, 1.5, 5); tonumber(one);
    tonumber(false, 10);
    tostring(nulls[1]); setmetatable(t, false); next(t, false); rawequal(nulls[1], nil);
    ipairs(nulls)(nulls, 0)]] .. ";"):gmatch "%s*(.-);" do
    calls[#calls + 1] = text
  end
  for _, text in ipairs(ok and calls or {}) do
    world(text, 4, nil, function(W)
      local env = { n = 0, one = ffi.new("int64_t", 1), iterate = ipairs {}, d = ffi.new("uint8_t[1]") }
      setmetatable(env, { __index = _G })
      env.p = newproxy(true)
      env.q = newproxy(env.p)
      local events = getmetatable(env.p)
      events.__eq = function() env.n = env.n + 1 return true end
      events.__mul = function() env.n = env.n + 1 return env.n end
      events.__concat = events.__mul
      env.nulls = { ffi.new "void *", 2, a = ffi.new "void *" }
      env.pairs_of = function(t) local n = 0 for _ in pairs(t) do n = n + 1 end return n end
      env.x = two()
      W.f = setfenv(assert(loadstring(([[return function(x)
          local results = { pcall(function() return %s end) }
          for i = 2, 3 do
            if type(results[i]) == "cdata" or type(results[i]) == "userdata" then results[i] = type(results[i]) end
          end
          return x * 2, n, unpack(results, 1, 3)
        end]]):format(text), "=world")), env)()
      W.args = function()
        env.t = { 1, 2, 3 }
        return two()
      end
      W.state = function() return env.n, env.t end
    end)
  end
end)
