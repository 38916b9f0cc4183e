--- layout_spec.lua -- tables that captured code makes or writes are laid out as plain Lua lays them out: their lengths, the
-- order in which next walks them, and what becomes of both when more is written.
-- Each function runs plain in one world and compiled in an equal one; what it gives is looked at in the table's own order.

local H = require "spec.helper"
local ty = H.ty

if jit and jit.off then jit.off(true, true) end -- traces of the host may answer # otherwise where there are holes

--- What a table shows, before and after more is written to it: length, keys in their order.
local function look(t)
  local out = {}
  local function add()
    out[#out + 1] = #t .. ":"
    for k in pairs(t) do out[#out + 1] = tostring(k) end
  end
  add()
  table.insert(t, 7)
  t.q1 = 1
  add()
  t[4], t[1], t.q2, t.a = 2, nil, 3, nil
  add()
  t[6] = 1
  add()
  return table.concat(out, " ")
end

local function pack(...) return { n = select("#", ...), ... } end

--- A function from the text of a chunk, plain and compiled, both called with the same arguments.
local function worlds(text)
  local plain = assert(loadstring(text))
  local twin = assert(loadstring(text))
  jit.off(plain, true)
  local f = ty.compile((twin(ty)))
  return plain(ty), f
end

local function show(v) return type(v) == "table" and "{" .. look(v) .. "}" or tostring(v) end

local function show_all(list)
  local out = {}
  for i = 1, list.n do out[i] = show(list[i]) end
  return table.concat(out, ", ")
end

--- The same results in each of some calls; the compiled function.
local function agree(text, ...)
  local plain, compiled = worlds(text)
  for _ = 1, 3 do
    local want, got = show_all(pack(plain(...))), show_all(pack(compiled(...)))
    if want ~= got then error(("%s\nplain:    %s\ncompiled: %s"):format(text, want, got), 0) end
  end
  return compiled
end

--- The keys of a table in their order, and its length.
local function keys_of(t)
  local out = { #t }
  for k in pairs(t) do out[#out + 1] = tostring(k) end
  return table.concat(out, " ")
end

--- Calls a function that writes what it is given, of which some is nil in some calls, plain and compiled. Upper-case names
--- are other ones each time.
local function agree_on_nils(text)
  for n = 1, 20 do
    local plain, f = worlds((text:gsub("%u", function(name) return name:lower() .. n end)))
    for i = 0, 11 do
      local t, u, a, b = {}, {}, i % 4 < 3 and i or nil, i % 3 < 2 and i or nil
      assert.equal(keys_of(plain(t, a, b)), keys_of(f(u, a, b)), text)
      assert.equal(keys_of(t), keys_of(u), text)
    end
    local e = ty.explain(f)
    assert.truthy(e.captures > 0 and e.skips > 0)
  end
end

local function captured(f)
  local e = ty.explain(f)
  return e.captures > 0 and e.skips > 0, e.aborts[1] and e.aborts[1].reason
end

--- Calls visit(text) for each sequence of at most n writes.
local function each_sequence(keys, n, visit, text)
  text = text or ""
  visit(text)
  if n == 0 then return end
  for _, k in ipairs(keys) do
    for _, v in ipairs { "x", "nil" } do each_sequence(keys, n - 1, visit, ("%s t[%s] = %s"):format(text, k, v)) end
  end
end

local SHAPES = { "{}", "{ x, nil, x }", "{ x, nil, nil }", "{ 1, nil, 3 }", "{ nil, nil, 3 }", "{ 1, 2, 3 }", "{ a = x, b = x }",
  "{ a = 1, b = x, c = 3, d = x, e = x }", "{ a = 1, b = 2, c = 3 }", "{ x, a = x }", "{ x, x, b = 1, a = x, c = 2 }",
  "{ [x] = 1, [2] = x, a = x }", "{ [0] = x, x }", "{ ... }", "{ n = select('#', ...), ... }", "{ a = x, (unpack({ x, nil, x }, 1, 3)) }",
  "{ a = x, unpack({ x, nil, x }, 1, 3) }" }

describe("a table that captured code makes", function()
  local function check(shape, writes)
    local f = agree(("return function(x, ...) local t = %s %s return #t, next(t), t end"):format(shape, writes), 8, 5, nil, 6)
    local ok, why = captured(f)
    assert.truthy(ok, why)
  end

  it("shows what plain Lua shows after each three writes to each shape of constructor", function()
    for _, shape in ipairs(SHAPES) do
      each_sequence({ "1", "3", "'a'" }, 3, function(writes) check(shape, writes) end)
    end
  end)

  it("shows what plain Lua shows after each five writes of two keys", function()
    for _, shape in ipairs { "{}", "{ x, nil, x, a = x }", "{ x, b = 1 }" } do
      each_sequence({ "3", "'a'" }, 5, function(writes) check(shape, writes) end)
    end
  end)

  local function gives(text, ...)
    local ok, why = captured(agree(text, ...))
    assert.truthy(ok, why)
  end

  it("keeps what stands behind a nil", function()
    gives("return function(x) return unpack({ x, nil, x }) end", 3)
    gives("return function(x) return { x, nil, x } end", 3)
    gives("return function(n) return { n, nil, 3 } end", 3)
    gives("return function(...) return { n = select('#', ...), ... } end", nil, 2, nil, 4)
    local _, loss_of = worlds "local ty = ... return function(x) return { x, nil, x + 1 } end"
    for _ = 1, 3 do
      local loss, none, acc = unpack(loss_of(ty.ones(2)))
      assert.same({ { 1, 1 }, { 2, 2 } }, { loss:totable(), acc:totable() })
      assert.is_nil(none)
    end
  end)

  it("is asked for its length, walked, unpacked, grown and cut by the library with holes in it", function()
    gives("return function(x) local t = { x, nil, x } t[5] = x table.insert(t, x) table.insert(t, 1, x) return #t, t, table.getn(t) end", 1)
    gives("return function(x) local t = { x, x, nil, x } local v = table.remove(t) return v, #t, t, select('#', unpack(t)) end", 1)
    gives("return function(x) local t = { x, x, nil, x } local v = table.remove(t, 1) return v, #t, t, unpack(t) end", 1)
    gives("return function(x) local t, s = { a = x, x, nil, b = x, x }, '' for k in pairs(t) do s = s .. k end return s, #t end", 1)
    gives("return function(x) local t = {} for i = 1, 9 do t[i] = i end for i = 3, 8 do t[i] = nil end return #t, t end", 1)
    gives("return function(x) local t, n = {}, 0 for i = 1, 40 do t[i % 7] = i % 3 ~= 0 and i or nil n = n + #t end return n, t end", 1)
  end)

  it("is made by table.new with its sizes", function()
    gives("local new = require 'table.new' return function(x) local t = new(3, 4) t[3] = x t.a = 1 return #t, t end", 1)
  end)

  it("guards whether values are nil that decide its layout", function()
    local f = ty.compile(function(a, b, c) return { a, b, c } end)
    local g = ty.compile(function(a, b) local t = { 1, 2, 3, 4 } t[4] = a t[2] = b return #t, t end)
    for i = 0, 15 do
      local a, b, c = i % 2 == 0 and i or nil, i % 4 < 2 and i or nil, i % 8 < 4 and i or nil
      assert.equal(look { a, b, c }, look(f(a, b, c)))
      local t = { 1, 2, 3, 4 }
      t[4], t[2] = a, b
      local n, u = g(a, b)
      assert.equal(#t, n)
      assert.equal(look(t), look(u))
    end
  end)

  it("guards whether values are nil that were overwritten", function()
    agree_on_nils [[return function(_, a, b)
      local t = {} t.P = a t.Q = a t[2] = a t.R = b t.S = 1 t.P = b t.Q = b t.U = a t[3] = b return t end]]
    agree_on_nils "return function(_, a, b) local t = { P = a, Q = b } t.R = a t.P = b t.S = b t.Q = 1 t.U = a return t end"
  end)

  it("may be empty between, and a name may come and go", function()
    gives("return function(x) local t = { a = x, b = 2 } t.a = nil t.c = x t.a = x t.b = nil t.d = 1 return next(t), t end", 1)
    gives("return function(x) local t = { a = 1, b = x, c = 2 } for k in pairs(t) do t[k] = nil end t.z = x t.b = x return t end", 1)
  end)

  it("is returned in its order however many names it has", function()
    for n = 1, 40, 3 do
      local fields = {}
      for i = 1, n do fields[i] = ("k%d = %s"):format(i * i, i % 3 == 0 and "x" or i) end
      gives(("return function(x) return { %s } end"):format(table.concat(fields, ", ")), 5)
    end
  end)

  it("is another trace where sizes of tensors give it another layout", function()
    local new = require "table.new"
    local function plain(n)
      local t = new(n, 0)
      t[1], t[3] = 1, 2
      return t
    end
    local f = ty.compile(function(x)
      local t = new(#x, 0)
      t[1], t[3] = 1, 2
      return t, x + 1
    end)
    for _, n in ipairs { 2, 3, 8, 2, 3, 8, 4, 4 } do assert.equal(look(plain(n)), look((f(ty.ones(n))))) end
    assert.truthy((captured(f)))
  end)

  it("is given to Tycho's functions as it is when what was asked of them is asked again for other sizes", function()
    local f = ty.compile(function(x) return ty.cat { x, x, nil, x, nil, nil, nil } end)
    for n = 2, 9 do assert.equal(2 * n, f(ty.ones(n)):size(1)) end
    assert.truthy(ty.explain(f).captures <= 2, "evaluated again for other sizes")
  end)
end)

describe("a table that a function of Tycho's makes", function()
  it("has the layout that it has in plain Lua, and gets the one that it gets there", function()
    local calls = { "x.shape", "x:size()", "x:stride()", "x:split(2)", "x:chunk(3)", "x:unbind()", "ty.meshgrid(x[1], x[2])",
      "ty.grad(function(p) return (p.a * p.b * p.c[1]):sum() end)({ b = x, a = x + 1, c = { x * 2 } })" }
    for _, call in ipairs(calls) do
      for _, writes in ipairs { "", "t[2] = nil", "t[#t + 1] = 1 t[#t + 1] = 2 t.n = 3", "t[1] = nil t[9] = 1 t.a = nil t[4] = 1" } do
        local f = agree(([[local ty = ... return function(k) local x = ty.ones(5, 2) * k local t = %s %s
          return #t, t, ty.is_tensor(t.c) end]]):format(call, writes), 2)
        assert.truthy(captured(f), call .. writes)
      end
    end
  end)
end)

describe("constructors", function()
  --- A random constructor: positions and names with constants and others, nils among them (so many of 16 fields), several
  --- values at the end.
  local function random_constructor(r, nils)
    local names, parts = {}, {}
    for i = 1, 12 do names[i] = "n" .. r.whole(1, 400) .. "_" .. i end
    for i = 1, r.whole(0, 9) do
      local kind, v = r.whole(1, 16), r.whole(1, 2) == 1 and "x" or tostring(i)
      if kind <= (nils or 2) then v = "nil" end
      parts[i] = kind <= 9 and v or kind <= 15 and ("%s = %s"):format(names[i], v) or ("[x + %d] = %s"):format(r.whole(0, 20), v)
    end
    if r.whole(1, 5) == 1 then parts[#parts + 1] = "..." end
    return "{ " .. table.concat(parts, ", ") .. " }"
  end

  it("make what they make in plain Lua, or are not captured: few", function()
    local r, refused, n = H.random(41), 0, 3000
    for _ = 1, n do
      local f = agree(("return function(x, ...) local t = %s return t end"):format(random_constructor(r)), 3, nil, 4)
      if not captured(f) then refused = refused + 1 end
    end
    assert.truthy(refused < 0.1 * n, ("%d of %d are refused"):format(refused, n))
  end)

  it("with many nils make what they make in plain Lua, or are not captured", function()
    local r = H.random(42)
    for _ = 1, 2000 do
      agree(("return function(x, ...) return %s end"):format(random_constructor(r, 8)), 3, nil, 4)
    end
  end)

  it("are known in functions that were made inside, and in those whose dumps are equal", function()
    agree("return function(x) local function f(y) return { b = y, a = 1, y, nil, 2 } end return f(x), { f(x) } end", 3)
    for _, fields in ipairs { "a = 1, b = x, c = 2, d = x", "d = x, c = 2, b = x, a = 1", "c = 2, d = x, a = 1, b = x" } do
      agree(("return function(x) return { %s } end"):format(fields), 3)
    end
  end)

  it("of stripped functions make what they make in plain Lua", function()
    local r = H.random(43)
    for _ = 1, 300 do
      local source = ("return function(x, ...) local t = %s t[x] = 1 t.n1 = nil return t, #t end"):format(random_constructor(r))
      local stripped = loadstring(string.dump(loadstring(source), true))
      jit.off(stripped, true)
      local plain, f = stripped(), ty.compile((stripped()))
      for _ = 1, 2 do assert.equal(show_all(pack(plain(3, nil, 4))), show_all(pack(f(3, nil, 4))), source) end
    end
  end)
end)

describe("where templates are out of reach", function()
  local bytecode = require "tycho.capture.bytecode"
  local constant = bytecode.constant
  before_each(function() bytecode.constant = function() end end)
  after_each(function() bytecode.constant = constant end)

  it("tables are captured, and neither walked nor asked for an end that holes hide", function()
    local f = ty.compile(function(x) local t = { a = x, b = 1, 2 } return #t, t.a + t.b, t end)
    for i = 1, 3 do
      local n, s, t = f(i)
      assert.same({ 1, i + 1, { a = i, b = 1, 2 } }, { n, s, t })
    end
    assert.truthy((captured(f)))
    local walks = ty.compile(function(x) local s = 0 for _, v in pairs { a = x, b = 1 } do s = s + v end return s end)
    local holes = ty.compile(function(x) local t = { 1, nil, x } return #t end)
    for i = 1, 3 do assert.same({ i + 1, 3 }, { walks(i), holes(i) }) end
    assert.matches("several named fields is iterated", (select(2, captured(walks))))
    assert.matches("table with holes", (select(2, captured(holes))))
  end)
end)

describe("a table from outside that captured code writes", function()
  local shapes = { "{}", "{ 1, 2, 3 }", "{ a = 1, b = 2 }", "{ 1, nil, 3 }", "{ 1, 2, b = 1, a = 2, c = 2 }",
    "(function() local t = {} for i = 1, 6 do t[i] = i end for i = 3, 5 do t[i] = nil end return t end)()" }

  --- The table after each of several calls, between which it is written from outside.
  local function check(shape, writes)
    local text = ("local t = %s return function(x) %s return t, x end"):format(shape, writes)
    local plain, f = worlds(text)
    for i = 1, 4 do
      local t, u = plain(i), f(i)
      local want, got = {}, {}
      for k, v in pairs(t) do want[#want + 1] = tostring(k) .. "=" .. tostring(v) end
      for k, v in pairs(u) do got[#got + 1] = tostring(k) .. "=" .. tostring(v) end
      want, got = #t .. ": " .. table.concat(want, " "), #u .. ": " .. table.concat(got, " ")
      if want ~= got then error(("%s, call %d\nplain:    %s\ncompiled: %s"):format(text, i, want, got), 0) end
      if i == 2 then
        for _, v in ipairs { t, u } do v[9], v.a, v.zz, v[9] = 1, nil, 1, nil end
      end
    end
    assert.truthy((captured(f)))
  end

  it("is what plain Lua leaves after each three writes", function()
    for _, shape in ipairs(shapes) do
      each_sequence({ "1", "4", "'a'" }, 3, function(writes) check(shape, writes) end)
    end
  end)

  it("is what plain Lua leaves after each five writes of two keys", function()
    for _, shape in ipairs { "{}", "{ 1, 2 }" } do
      each_sequence({ "4", "'a'" }, 5, function(writes) check(shape, writes) end)
    end
  end)

  it("is filled and thinned in turn", function()
    check("{}", "for i = 1, 9 do t[i] = i end for i = 2, 8 do t[i] = nil end")
    check("{}", "for i = 1, 20 do t['k' .. i] = i if i > 3 then t['k' .. i - 3] = nil end end")
    check("{}", "t.a = x t.b = x t.a = nil t.c = x t.d = x t.a = x t.e = x t.c = nil t.f = 1")
    check("{ 1, 2, 3 }", "table.insert(t, x) table.remove(t, 1) t[#t + 1] = x t[#t] = nil")
  end)

  it("is told of once for each field", function()
    local _, f = worlds "local t = {} return function(x) t.a = x t.b = x t.a = nil t.c = x t.a = x return x end"
    f(1)
    f(2)
    assert.same({ "writes t.a", "writes t.b", "writes t.c" }, ty.explain(f).traces[1].effects)
  end)

  it("sees values that turn nil", function()
    agree_on_nils "return function(t, a, b) t.P = a t.Q = a t[2] = a t.R = b t.S = 1 t.P = b t.Q = b t.U = a t[3] = b return t end"
  end)
end)
