--- tree_spec.lua -- nested tables made anew: shared tables, tables in themselves, metatables, what is said beside; and
-- that ty.grad, ty.vmap, ty.custom_grad walk them so, plain and captured.

local H = require "spec.helper"
local ty = H.ty
local tree = require "tycho.tree"

local function doubled(v) return type(v) == "number" and v * 2 or nil end

describe("a tree", function()
  it("is copied with its leaves replaced, and nothing else", function()
    local from = { 1, { a = 2, b = "text" }, true }
    assert.same({ 2, { a = 4, b = "text" }, true }, tree.map(from, doubled, {}))
    assert.same({ 1, { a = 2, b = "text" }, true }, from)
    assert.equal(14, tree.map(7, doubled, {}))
    assert.is_nil(tree.map(nil, doubled, {}))
  end)

  it("keeps what is one table one table, also tables in themselves", function()
    local shared = { 1 }
    local from = { shared, { shared } }
    from.own = from
    local y = tree.map(from, doubled, {})
    assert.equal(y, y.own)
    assert.equal(y[1], y[2][1])
    assert.are_not.equal(shared, y[1])
    local seen = {}
    assert.equal(tree.map(shared, doubled, seen), tree.map({ shared }, doubled, seen)[1])
  end)

  it("keeps metatables, and asks them nothing", function()
    local class = { __index = function() error "asked" end, __newindex = function() error "asked" end }
    local y = tree.map(setmetatable({ a = 3 }, class), doubled, {})
    assert.equal(class, getmetatable(y))
    assert.equal(6, rawget(y, "a"))
  end)

  it("takes what the function gives for a table, false too", function()
    local inner = {}
    local y = tree.map({ a = inner, b = 1 }, function(v)
      if v == inner then return v end
      if v == 1 then return false end
      return nil
    end, {})
    assert.equal(inner, y.a)
    assert.is_false(y.b)
  end)

  it("tells the function what is said beside, for all fields or each", function()
    local function said(v, beside) return type(v) ~= "table" and { v, beside } or nil end
    assert.same({ a = { 1, 5 }, b = { { 2, 5 } } }, tree.map({ a = 1, b = { 2 } }, said, {}, 5))
    assert.same({ a = { 1, 7 }, b = { { 2, false } } }, tree.map({ a = 1, b = { 2 } }, said, {}, { a = 7, b = { false } }))
    assert.same({ { 1, false } }, tree.map({ 1 }, said, {}))
  end)
end)

describe("functions of trees", function()
  local class = { __index = { double = function(self) return self.w * 2 end } }

  --- A model of a shared tensor, a shared table, a table in itself, a metatable.
  local function model(seed)
    local part = setmetatable({ w = ty.range(3):to("f32") + seed }, class)
    local m = { one = part, other = part, plain = { part.w }, name = "m", count = 3 }
    m.own = m
    return m
  end

  local function loss(m)
    assert(rawequal(m.one, m.other) and rawequal(m.own.own, m) and rawequal(m.plain[1], m.one.w))
    return (m.one:double() * m.plain[1] * m.count):sum()
  end

  --- f, plain and captured, over models.
  local function both(f)
    local fast = ty.compile(f)
    for seed = 1, 4 do
      local want, got = f(model(seed)), fast(model(seed))
      H.same(want, got)
      H.same(want, fast(model(seed)))
    end
    local told = ty.explain(fast)
    assert.same({}, told.aborts, tostring(told))
    assert.truthy(told.skips > 0)
  end

  it("are differentiated by each tensor once", function()
    local g = ty.grad(loss)(model(1))
    H.same(model(1).one.w * 12, g.one.w)
    assert.equal(g.own, g)
    assert.equal(g.one, g.other)
    both(function(m) return ty.grad(loss)(m).one.w end)
  end)

  it("are mapped over examples", function()
    local function each(m)
      return { sum = m.one.w * 2 + m.plain[1], also = m.other.w }
    end
    local y = ty.vmap(each)(model(1))
    H.same(model(1).one.w * 3, y.sum)
    both(function(m)
      local z = ty.vmap(each)(m)
      return z.sum + z.also
    end)
  end)

  it("leave alone what has no dim of examples", function()
    local table_of_all = { w = ty.ones(2) }
    ty.vmap(function(x, t)
      assert.equal(table_of_all, t)
      return x + t.w:sum()
    end, { 1, false })(ty.ones(3), table_of_all)
  end)

  it("keep what a gradient of the user's saves", function()
    local f = ty.custom_grad(function(x)
      local saved = { x = x, deep = { x } }
      saved.own = saved
      return x * x, saved
    end, function(saved, g)
      assert(rawequal(saved.own, saved))
      return g * (saved.x + saved.deep[1])
    end)
    both(function(m) return ty.grad(function(x) return f(x):sum() end)(m.one.w) end)
  end)
end)
