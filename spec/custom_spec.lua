--- custom_spec.lua -- passes and backends of users in captured calls: what they are given, what they change, what they
-- may not do. Expected values are those of plain functions, or written by hand.

local H = require "spec.helper"
local ty = H.ty

local function values(t) return t:totable() end

local function compiled(f, opts)
  local function own(...) return f(...) end -- compiled anew in each spec
  return jit.compile(own, opts)
end

-- x * s + 1, where each multiplication becomes an addition: a pass whose work shows in the values.
local function add_for_mul(g)
  for n in g:nodes() do
    if n.op == "mul" then g:replace(n, g:insert({ before = n }, "add", { n.inputs[1], n.inputs[2] })) end
  end
end

describe("passes", function()
  local x = ty.tensor { 1, 2, 3 }
  local function f(a, s) return a * s + 1 end

  it("change what later calls compute, and numbers stay arguments", function()
    local g = compiled(f, { passes = { add_for_mul } })
    assert.same({ 6, 7, 8 }, values(g(x, 4)))
    assert.same({ 7, 8, 9 }, values(g(x, 5)))
    local e = jit.explain(g)
    assert.equal(1, e.captures)
    assert.equal(2, e.skips)
    assert.truthy(e.traces[1].graph:find("add", 1, true))
    assert.is_nil(e.traces[1].graph:find("mul f32", 1, true))
  end)

  it("run once for a capture, with examples of the inputs", function()
    local seen = {}
    local function look(_, inputs) seen[#seen + 1] = inputs end
    local g = compiled(f, { passes = { look } })
    g(x, 2)
    g(x + 1, 3)
    assert.equal(1, #seen)
    assert.equal(1, #seen[1])
    assert.same({ 1, 2, 3 }, values(seen[1][1]))
  end)

  it("may compute with what they are given", function()
    local total
    local g = compiled(f, { passes = { function(_, inputs) total = inputs[1]:sum():item() end } })
    g(x, 2)
    assert.equal(6, total)
  end)

  it("see the values that written tensors get", function()
    local g = compiled(function(a, s) a:add_(a * s) return a:sum() end, { passes = { add_for_mul } })
    local a = ty.tensor { 1, 2, 3 }
    assert.equal(6 + 6 + 3 * 10, g(a, 10):item())
    assert.same({ 12, 14, 16 }, values(a))
    assert.equal(42 + 42 + 3, g(a, 1):item())
    assert.same({ 25, 29, 33 }, values(a))
  end)

  it("leave results of any shape as they were", function()
    local g = compiled(function(a) local b = a * 3 return { b, { b[1], a } }, b:t() end, { passes = { add_for_mul } })
    local m = ty.tensor { { 1, 2 }, { 3, 4 } }
    for _ = 1, 2 do
      local t, u = g(m)
      assert.same({ { 4, 5 }, { 6, 7 } }, values(t[1]))
      assert.same({ 4, 5 }, values(t[2][1]))
      assert.equal(m, t[2][2])
      assert.same({ { 4, 6 }, { 5, 7 } }, values(u))
    end
  end)

  it("serve further sizes", function()
    local g = compiled(f, { passes = { add_for_mul } })
    for n = 1, 5 do assert.same(values(ty.ones(n) + 4), values(g(ty.ones(n), 3))) end
  end)

  it("raise what they raise at the call, and nothing has happened", function()
    local g = compiled(function(a) a:add_(1) return a * 2 end, { passes = { function() error("no", 0) end } })
    local a = ty.tensor { 1 }
    for _ = 1, 2 do
      local ok, err = pcall(g, a)
      assert.is_false(ok)
      assert.equal("no", err)
      assert.same({ 1 }, values(a))
    end
  end)

  it("may not take elements by an index that nobody checks", function()
    local function by_itself(g)
      local root = g:outputs()[1]
      local index = g:inputs()[2]
      g:set_outputs { g:insert(nil, "gather", { g:inputs()[1], index }, { dim = 1 }) }
      return nil, root
    end
    local g = compiled(function(a, i) return a:neg() + i:sum():to "f32" end, { passes = { by_itself } })
    local a, i = ty.ones(3), ty.tensor({ 0, 1, 1000000 }, { dtype = "i64" })
    assert.same(values(a:neg() + i:sum():to "f32"), values(g(a, i)))
    assert.truthy(jit.explain(g):full():find("index that nobody checks", 1, true))
  end)

  it("may take elements by views of positions that are checked", function()
    local function backwards(g)
      local n
      for _, m in ipairs(g) do n = (m.op == "gather" or m.op == "scatter_add") and m or n end
      local at = n.inputs[2].inputs[1]
      assert.equal("positions", at.op)
      n.inputs[2] = g:insert({ after = at }, "view", { at }, { shape = { 3, 2 }, strides = { -1, 0 }, offset = 2 })
    end
    local a, i, s = ty.arange(8):reshape(4, 2), ty.tensor({ 1, 4, 1 }, { dtype = "i64" }), ty.ones(3, 2):cumsum(1)
    local rows = compiled(function(v, at) return v:index_select(1, at * 1) + 1 end, { passes = { backwards } })
    local sums = compiled(function(v, at, r) return v:index_add(1, at * 1, r) end, { passes = { backwards } })
    for _ = 1, 3 do
      assert.same(values(a[i:flip()] + 1), values(rows(a, i)))
      assert.same(values(a:index_add(1, i:flip(), s)), values(sums(a, i, s)))
    end
    for _, h in ipairs { rows, sums } do assert.is_nil(jit.explain(h):full():find("nobody checks", 1, true)) end
  end)

  it("may read the positions of a gather besides", function()
    local function plus_positions(g)
      local n
      for _, m in ipairs(g) do n = m.op == "gather" and m or n end
      local at = g:insert(nil, "cast", { n.inputs[2] }, { dtype = "f32" })
      g:set_outputs { g:insert(nil, "add", { n, at }) }
    end
    local a, i = ty.arange(160):reshape(4, 40), ty.arange(30, { dtype = "i64" }):mul(7):remainder(4) + 1
    local h = compiled(function(v, at) return v:index_select(1, at * 1) end, { passes = { plus_positions } })
    for n = 1, 3 do
      local at = i:roll(n, 1)
      local got = values(h(a, at)) -- before anything else leaves these positions behind
      assert.same(values(a[at] + (at:reshape(30, 1) - 1)), got)
    end
  end)

  it("are said not to be applied where the function cannot be captured", function()
    local g = compiled(function(a) return a * a:sum():item() end, { passes = { add_for_mul } })
    assert.same({ 6, 12, 18 }, values(g(x)))
    assert.truthy(jit.explain(g):full():find("passes and backend are not applied", 1, true))
  end)
end)

describe("a backend", function()
  local x = ty.tensor { 1, 2, 3 }
  local function f(a, s) return a * s + 1, a:sum() end

  it("computes each call from the present inputs and numbers", function()
    local made, given = 0, {}
    local g = compiled(f, {
      backend = function(graph)
        made = made + 1
        return function(...)
          given[#given + 1] = { ... }
          return graph:run(...)
        end
      end,
    })
    for s = 2, 4 do
      local a, b = g(x + s, s)
      assert.same({ (1 + s) * s + 1, (2 + s) * s + 1, (3 + s) * s + 1 }, values(a))
      assert.equal(6 + 3 * s, b:item())
    end
    assert.equal(1, made)
    assert.equal(3, #given)
    assert.same({ 5, 6, 7 }, values(given[3][1]))
    assert.equal(4, given[3][2])
    assert.equal(3, jit.explain(g).skips)
  end)

  it("writes tensors that the function writes", function()
    local g = compiled(function(a) a:mul_(2) return a + 1 end,
      { backend = function(graph) return function(...) return graph:run(...) end end })
    local a = ty.tensor { 1, 2 }
    local view = a[1]
    assert.same({ 3, 5 }, values(g(a)))
    assert.same({ 5, 9 }, values(g(a)))
    assert.same({ 4, 8 }, values(a))
    assert.equal(4, view:item())
  end)

  it("raises at the call, and nothing is written", function()
    local fail = false
    local g = compiled(function(a, t) a:mul_(2) t.n = t.n + 1 return a + 1 end, {
      backend = function(graph)
        return function(...)
          if fail then error({ "broken" }) end
          return graph:run(...)
        end
      end,
    })
    local a, t = ty.tensor { 1, 2 }, { n = 0 }
    g(a, t)
    fail = true
    local ok, err = pcall(g, a, t)
    assert.is_false(ok)
    assert.same({ "broken" }, err)
    assert.same({ 2, 4 }, values(a))
    assert.equal(1, t.n)
    fail = false
    g(a, t)
    assert.same({ 4, 8 }, values(a))
    assert.equal(2, t.n)
  end)

  local function giving(...)
    local results = { ... }
    return { backend = function() return function() return unpack(results) end end }
  end

  it("must give what the graph gives", function()
    local function one(a) return a + 1 end
    for _, wrong in ipairs { giving(), giving(1), giving(ty.ones(4)), giving(ty.ones(3, { dtype = "f64" })),
      giving(ty.ones(3), ty.ones(3)) } do
      assert.has_error(function() compiled(one, wrong)(x) end)
    end
  end)

  it("may give views, and one tensor for all", function()
    local same = ty.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    local function two(a) return a + 1, a * 2 end
    local g = compiled(two, giving(same[2], same[2]))
    local a, b = g(x)
    a:add_(1)
    assert.same({ 5, 6, 7 }, values(a))
    assert.same({ 4, 5, 6 }, values(b))
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, values(same))
  end)

  it("writes to copies of its inputs", function()
    local g = compiled(function(a) return a + 1 end, {
      backend = function(graph)
        return function(a)
          a:mul_(10)
          return graph:run(a)
        end
      end,
    })
    assert.same({ 11, 21, 31 }, values(g(x)))
    assert.same({ 1, 2, 3 }, values(x))
  end)

  it("may release or rewrite what the function writes: then the call raises", function()
    local a
    local g = compiled(function(t) t:mul_(2) return t + 1 end,
      { backend = function(graph) return function(...) a:release() return graph:run(...) end end })
    a = ty.tensor { 1, 2 }
    assert.has_error(function() g(a) end)
  end)

  it("may reset, call and capture compiled functions while it runs", function()
    local g
    local other = jit.compile(function(a) return a * 3 end)
    g = compiled(function(a) return a + 1 end, {
      backend = function(graph)
        return function(a)
          jit.reset(g)
          collectgarbage()
          return graph:run(other(a))
        end
      end,
    })
    for _ = 1, 3 do assert.same({ 4, 7, 10 }, values(g(x))) end
  end)

  it("gets random streams as numbers: the same bits in order", function()
    local function noise(a) return a + ty.rand(3) end
    local g = compiled(noise, { backend = function(graph) return function(...) return graph:run(...) end end })
    ty.manual_seed(3)
    local want = { values(noise(x)), values(noise(x)) }
    ty.manual_seed(3)
    assert.same(want[1], values(g(x)))
    assert.same(want[2], values(g(x)))
    assert.equal(2, jit.explain(g).skips)
  end)

  it("enters the key: another one is another function", function()
    local function one(a) return a + 1 end
    local options = giving(ty.ones(3))
    assert.equal(jit.compile(one, options), jit.compile(one, options))
    assert.not_equal(jit.compile(one, options), jit.compile(one))
  end)
end)
