--- scan_spec.lua -- ty.scan beside the same loop written by hand: bits, gradients, nested tables, what it refuses.

local H = require "spec.helper"
local ty = H.ty

local i64 = { dtype = "i64" }

local function close(want, got, by)
  assert.equal(#want, #got)
  for i = 1, #want do
    assert.truthy(math.abs(want[i] - got[i]) <= by * math.max(1, math.abs(want[i])), ("%d: %.9g, %.9g"):format(i, want[i], got[i]))
  end
end

local function tree(v, fn)
  if ty.is_tensor(v) then return fn(v) end
  if type(v) ~= "table" then return v end
  local y = {}
  for k, e in pairs(v) do y[k] = tree(e, fn) end
  return y
end

local function rows(list)
  local function stack(path, like)
    if ty.is_tensor(like) then
      local all = {}
      for t, v in ipairs(list) do
        for _, k in ipairs(path) do v = v[k] end
        all[t] = v
      end
      return ty.stack(all)
    end
    local out = {}
    for k, e in pairs(like) do
      path[#path + 1] = k
      out[k] = stack(path, e)
      path[#path] = nil
    end
    return out
  end
  return stack({}, list[1])
end

local function length_of(xs)
  if ty.is_tensor(xs) then return xs:size(1) end
  return length_of(select(2, next(xs)))
end

--- What ty.scan is to give, one turn after the other.
local function by_hand(f, carry, xs, opts)
  opts = opts or {}
  local turns, list = opts.length or length_of(xs), {}
  for i = 1, turns do
    local t = opts.reverse and turns + 1 - i or i
    carry, list[t] = f(carry, xs ~= nil and tree(xs, function(x) return x[t] end) or nil)
  end
  return carry, list[1] ~= nil and rows(list) or nil
end

local function flat(v, into)
  into = into or {}
  if ty.is_tensor(v) then
    into[#into + 1] = tostring(v.dtype) .. " " .. table.concat(v.shape, ",") .. ": " .. table.concat(H.list(v), " ")
  elseif type(v) == "table" then
    local keys = {}
    for k in pairs(v) do keys[#keys + 1] = tostring(k) end
    table.sort(keys)
    for _, k in ipairs(keys) do flat(v[k] == nil and v[tonumber(k)] or v[k], into) end
  end
  return table.concat(into, "\n")
end

local function same(f, init, xs, opts)
  local carry, ys = by_hand(f, init, xs, opts)
  local c, y = ty.scan(f, init, xs, opts)
  assert.equal(flat(carry), flat(c))
  assert.equal(flat(ys), flat(y))
  local compiled = ty.compile(function(a, b) return ty.scan(f, a, b, opts) end)
  for _ = 1, 3 do
    c, y = compiled(init, xs)
    assert.equal(flat(carry), flat(c))
    assert.equal(flat(ys), flat(y))
  end
  return ty.explain(compiled)
end

local function mixed(c, x)
  local h = (c.h * 0.5 + x.a:sum()):tanh()
  return { h = h, n = c.n + x.k, m = c.m:logical_or(x.k:gt(2)) }, { h * 2, { before = c.n, even = (c.n % 2):eq(0) } }
end

describe("ty.scan gives the bits of a loop", function()
  it("over one tensor", function()
    local e = same(function(c, x)
      c = c * 0.5 + x
      return c, c:square()
    end, ty.zeros(3), ty.arange(12):reshape(4, 3))
    assert.equal(1, e.captures)
  end)

  it("from the last row to the first", function()
    same(function(c, x) return c * 0.5 + x, c - x end, ty.ones(3), ty.arange(12):reshape(4, 3), { reverse = true })
  end)

  it("over nested tables of several dtypes", function()
    local init = { h = ty.ones(2), n = ty.full({}, 2 ^ 53 + 2, i64), m = ty.zeros({}, { dtype = "bool" }) }
    same(mixed, init, { a = ty.arange(10):reshape(5, 2), k = ty.arange(5):to "i64" })
  end)

  it("of halves, NaN and infinities among them", function()
    for _, d in ipairs { "f16", "bf16", "f64" } do
      local x = ty.tensor({ 1, -0.0, 0 / 0, 1 / 0, -1 / 0, 3e-5 }, { dtype = d }):reshape(3, 2)
      same(function(c, r) return { c[1] + r, c[2] + 1 }, { r, c[2] } end, { ty.zeros({ 2 }, { dtype = d }), ty.zeros({}, i64) }, x)
    end
  end)

  it("where the carried values go round, or stay", function()
    same(function(c, x) return { c[2], c[3], c[1] }, c[1] + x end, { ty.zeros(2), ty.ones(2), ty.full({ 2 }, 2) }, ty.ones(5, 2))
    same(function(c, x) return c, x end, ty.ones(3), ty.arange(8):reshape(4, 2))
  end)

  it("for one row, and for a row without elements", function()
    same(function(c, x) return c + x:sum(), x end, ty.ones(3), ty.arange(2):reshape(1, 2))
    same(function(c, x) return c + x:sum(), x end, ty.ones(3), ty.zeros(4, 0))
  end)

  it("where carried values and results have many sizes", function()
    local init = { ty.zeros({}), ty.ones(3), ty.zeros(17), ty.ones(2), ty.ones(0), ty.ones(64) }
    same(function(c, x)
      local d = {}
      for i, t in ipairs(c) do d[i] = t * 0.5 + x end
      return d, { d[2] * 2, d[1], d[6], d[5], d[4] + 1, d[3], d[1] - 1 }
    end, init, ty.arange(4))
  end)

  it("without sequences", function()
    same(function(c) return c * 0.5 + 1, c end, ty.ones(3), nil, { length = 6 })
  end)

  it("without carried values", function()
    for _, f in ipairs { function(_, x) return nil, x * 2 end, function(c, x) return c, x * 2 end } do
      local _, y = ty.scan(f, nil, ty.ones(3, 2))
      assert.same({ { 2, 2 }, { 2, 2 }, { 2, 2 } }, y:totable())
    end
  end)

  it("without results of turns", function()
    local c, y = ty.scan(function(c, x) return c + x end, ty.zeros(2), ty.ones(3, 2))
    assert.same({ 3, 3 }, c:totable())
    assert.equal(nil, y)
  end)

  it("with products, and more constants than there are operands", function()
    ty.manual_seed(5)
    local w, bias = {}, {}
    for i = 1, 7 do w[i], bias[i] = ty.randn(4, 4), ty.randn(4) end
    same(function(h, x)
      for i = 1, 7 do h = (h:matmul(w[i]) + bias[i] + x):tanh() end
      return h, h:sum(2)
    end, ty.zeros(3, 4), ty.randn(6, 3, 4))
  end)

  it("with constants of other dtypes among many", function()
    local list = {}
    for i, d in ipairs { "f32", "i64", "f64", "u8", "f16", "bool", "i32", "f32" } do
      list[i] = ty.full({ 3 }, d == "bool" and 1 or i, { dtype = d })
    end
    same(function(c, x)
      for i = 1, #list do c = c * 0.5 + list[i]:to "f32" end
      return c + x, c
    end, ty.zeros(3), ty.ones(4, 3))
  end)

  it("with views, gathers, sorts, reductions and writes to its own tensors", function()
    ty.manual_seed(2)
    same(function(c, x)
      local s, i = c:sort()
      local y = ty.zeros(4)
      y[2] = x:max()
      y:narrow(1, 3, 2):copy_(s:narrow(1, 1, 2))
      return c:gather(1, i):flip(1) * 0.9 + y + x:t():sum(2):mean(), { s, i, y }
    end, ty.randn(4), ty.randn(5, 3, 2))
  end)

  it("in a scan", function()
    same(function(c, x)
      local last, inner = ty.scan(function(d, r) return d * 0.5 + r, d end, c, x)
      return last:sin(), inner
    end, ty.ones(2), ty.arange(24):reshape(3, 4, 2))
  end)

  it("with indices that a turn computes", function()
    local w = ty.arange(10):sin()
    same(function(c, x) return (c * 3 + x):remainder(10), w:gather(1, (c:remainder(10) + 1):reshape(1)) end,
      ty.zeros({}, i64), ty.arange(6):to "i64")
  end)

  it("for sizes that a capture has not seen", function()
    local f = ty.compile(function(c, x) return ty.scan(function(a, r) return a * 0.5 + r, a end, c, x) end)
    for n = 1, 9 do
      local x = ty.arange(n * 3):reshape(n, 3)
      local carry, ys = by_hand(function(a, r) return a * 0.5 + r, a end, ty.zeros(3), x)
      local c, y = f(ty.zeros(3), x)
      assert.equal(flat(carry), flat(c))
      assert.equal(flat(ys), flat(y))
    end
    assert.truthy(ty.explain(f).captures <= 3, ty.explain(f).captures)
  end)

  it("with indices from rows and carried values", function()
    local w, rows_of = ty.arange(20):sin():reshape(10, 2), ty.tensor({ { 1, 9, 3 }, { 10, -1, 2 } }, i64)
    same(function(c, i) return c + 1, { w:index_select(1, i), w[i], w:gather(1, i:reshape(3, 1)), w[c] } end, ty.ones({}, i64), rows_of)
    local ok, e = pcall(ty.scan, function(c, i) return c, w:index_select(1, i) end, ty.ones(1), rows_of + 1)
    assert.equal(false, ok)
    assert.match("index 11 at .* is out of range 1%.%.10", e)
  end)

  it("with one table in two places", function()
    local t = { h = ty.zeros({}) }
    local c = ty.scan(function(c) return { a = { h = c.a.h + 1 }, b = { h = c.b.h + 10 } } end, { a = t, b = t }, nil, { length = 3 })
    assert.same({ 3, 30 }, { c.a.h:item(), c.b.h:item() })
  end)

  it("in a vmap", function()
    local function over(scan)
      return flat { ty.vmap(function(h, x, w)
        return scan(function(c, r)
          c = c * 0.5 + r + w
          return c, c:sum()
        end, h, x)
      end)(ty.arange(12):reshape(4, 3), ty.arange(60):reshape(4, 5, 3), ty.arange(4)) }
    end
    assert.equal(over(by_hand), over(ty.scan))
  end)
end)

describe("ty.scan of no rows", function()
  it("gives what it began with, and no results", function()
    local c, y = ty.scan(mixed, { h = ty.ones(2), n = ty.full({}, 7, i64), m = ty.ones({}, { dtype = "bool" }) },
      { a = ty.zeros(0, 2), k = ty.zeros({ 0 }, i64) })
    assert.same({ 1, 1 }, c.h:totable())
    assert.equal(7, c.n:item())
    assert.equal(true, c.m:item())
    assert.same({ 0, 2 }, y[1].shape)
    assert.same({ 0 }, y[2].before.shape)
    assert.equal("i64", y[2].before.dtype)
  end)
end)

describe("ty.scan of tensors of 8 dims", function()
  local many = { 1, 2, 1, 2, 1, 2, 1, 2 }

  it("has the loop's gradient, also where a vmap adds the last of them", function()
    local function carried(scan)
      local h, x = (ty.arange(16):reshape(many) * 0.1):requires_grad_(), ty.arange(3):requires_grad_()
      local c, y = scan(function(c, r) return (c * 0.5 + r):sin(), c:sum() end, h, x)
      local loss = c:sum() + y:sum()
      loss:backward()
      return flat { h.grad, x.grad }
    end
    assert.equal(carried(by_hand), carried(ty.scan))
    local function of_each(scan)
      local h = (ty.arange(32):reshape(2, 2, 1, 2, 1, 2, 1, 2) * 0.1):requires_grad_()
      ty.vmap(function(c) return (scan(function(d, r) return (d * 0.5 + r):sin(), d:sum() end, c, ty.arange(3))) end)(h):sum():backward()
      return flat(h.grad)
    end
    assert.equal(of_each(by_hand), of_each(ty.scan))
  end)

  it("has the gradient of what a turn gives of the outside as it is, for each example", function()
    local x, inputs = ty.randn(2, 3), ty.randn(4, 1)
    local function loss(v)
      local c, y = ty.scan(function(_, r) return v, v * r:exp() end, ty.zeros(3), inputs)
      local _, z = ty.scan(function(_, r) return r, v end, ty.zeros(1), inputs)
      return (c * c):sum() + y:sum() + (z * z):sum()
    end
    local want = ty.stack { ty.grad(loss)(x[1]), ty.grad(loss)(x[2]) }
    H.same(want, ty.vmap(ty.grad(loss))(x))
    H.same(want, ty.compile(function(v) return ty.vmap(ty.grad(loss))(v) end)(x))
  end)

  it("refuses what would have 9, and says so", function()
    local function refuses(message, ...)
      local ok, e = pcall(ty.scan, ...)
      assert.equal(false, ok)
      assert.match(message, (e:gsub("@%w+", "")), 1, true)
    end
    local deep = ty.ones(many)
    refuses("scan: a turn's result may have 7 dims at most (turns are one more, and so are pieces of a checkpoint and " ..
        "examples of a vmap), got f32[1,2,1,2,1,2,1,2]",
      function(c) return c, deep end, ty.ones(1), ty.ones(3))
    refuses("scan: option checkpoint: argument 3 (xs) may have 7 dims at most, got f32[4,2,1,2,1,2,1,2]",
      function(c, r) return c, r end, ty.ones(1), ty.ones(4, 2, 1, 2, 1, 2, 1, 2), { checkpoint = 2 })
  end)
end)

describe("ty.scan of thousands of tensors", function()
  it("carries them, and goes back through them", function()
    local n, init, x = 2800, {}, ty.arange(6):reshape(3, 2)
    for i = 1, n do init[i] = ty.full({ 2 }, i):requires_grad_() end
    local function f(c, r)
      local d = {}
      for i = 1, n do d[i] = c[i] * 0.5 + r end
      return d, { c[1], c[n] }
    end
    local c, y = ty.scan(f, init, x)
    local loss = (c[1] * 3 + c[n] + y[2]:sum(1)):sum()
    loss:backward()
    local one, last = by_hand(function(d, r) return d * 0.5 + r, d end, init[n]:detach(), x)
    assert.equal(flat { one, last }, flat { c[n]:detach(), y[2]:detach() })
    assert.same({ 0.375, 0.375 }, init[1].grad:totable())
    assert.same({ 0, 0 }, init[2].grad:totable())
    assert.same({ 1.875, 1.875 }, init[n].grad:totable())
  end)

  it("has as many sequences", function()
    local xs = {}
    for i = 1, 2100 do xs[i] = ty.full({ 3 }, i):requires_grad_() end
    local c, y = ty.scan(function(c, r)
      for i = 1, #r do c = c + r[i] end
      return c, r
    end, ty.zeros({}), xs)
    c:backward()
    assert.equal(3 * 2100 * 2101 / 2, c:item())
    assert.same({ 2100, { 1, 1, 1 } }, { #y, xs[7].grad:totable() })
  end)
end)

describe("a plan with ty.scan", function()
  it("is as large for many rows as for few", function()
    local function operations(n)
      local f = ty.compile(function(c, x) return ty.scan(function(a, r) return (a * 0.5 + r):tanh(), a end, c, x) end)
      for _ = 1, 2 do f(ty.zeros(3), ty.ones(n, 3)) end
      return ty.explain(f).traces[1].operations
    end
    assert.equal(operations(2), operations(5000))
  end)

  it("goes with the last plan that runs it, however many others there are", function()
    local grown = tonumber((H.script([[
      local ty = require "tycho"
      local function round(from)
        for i = from, from + 700 do
          local w = ty.ones(i):requires_grad_()
          local c, y = ty.scan(function(c, x)
            for _ = 1, 10 do c = c * 0.5 + x * w end
            return c, (ty.scan(function(d) return d + c end, c, nil, { length = 2 }))
          end, ty.ones(i), ty.ones(3, i))
          local loss = c:sum() + y:sum()
          if i % 10 == 0 then loss:backward() end
          loss:item()
        end
        collectgarbage()
        collectgarbage()
        return ty.stats().memory.general
      end
      round(1)
      local before = round(1001)
      print((round(2001) - before) / before)]])))
    assert.truthy(grown < 0.15, grown)
  end)

  it("takes no more room for small results than they have elements", function()
    local function share(results) -- of what rows of so many elements would take at least
      return tonumber((H.script(([[
        local ty = require "tycho"
        local n, width = 2e5, 0
        local x = ty.randn(n)
        x:get(1)
        local before = ty.stats().memory.peak
        local c, y = ty.scan(function(c, r) return c * 0.5 + r, {%s} end, ty.zeros({}), x)
        for i = 1, #y do width = width + y[i]:numel() * 4 end
        y[1]:sum():item()
        print((ty.stats().memory.peak - before) / width)]]):format(results))))
    end
    assert.truthy(share "c" < 4)
    assert.truthy(share "c, r:expand(3) + c, c * r" < 4)
  end)

  it("is found again where an equal function runs", function()
    local function once() return (ty.scan(function(c, x) return (c * 0.5 + x):cos() end, ty.zeros(7), ty.ones(3, 7))):totable() end
    once()
    collectgarbage()
    collectgarbage()
    local before = ty.stats().plans.misses
    for _ = 1, 3 do once() end
    assert.equal(before, ty.stats().plans.misses)
  end)

  it("can be shown when what it repeats is gone", function()
    local f = ty.compile(function(c, x, t)
      local last = ty.scan(function(d, r) return d * 0.5 + r end, c, x)
      if t:sum():item() > 0 then return last * 2 end -- not captured
      return last
    end)
    for n = 1, 40 do f(ty.ones(n), ty.ones(3, n), ty.ones(1)) end
    for n = 1, 400 do ty.scan(function(d, r) return d * 0.25 + r end, ty.ones(n), ty.ones(2, n)) end
    assert.truthy(#ty.explain(f):full() > 0)
  end)

  it("draws the loop's random numbers also from the last row to the first, and where less is kept", function()
    for _, opts in ipairs { { reverse = true }, { checkpoint = true }, { checkpoint = 2, reverse = true } } do
      local function draw(scan)
        ty.manual_seed(11)
        local w = ty.ones(4):requires_grad_()
        local c, y = scan(function(c, x)
          local z = ty.rand(4)
          return c + (x * w * z):sum(), ty.scan(function(d) return d + ty.randn(2), d end, ty.zeros(2), nil, { length = 2, reverse = true })
        end, ty.zeros({}), ty.arange(20):reshape(5, 4):square(), opts)
        c:backward()
        return flat { c:detach(), y, w.grad, ty.rand(2) }
      end
      local want = draw(by_hand)
      assert.equal(want, draw(ty.scan))
    end
  end)

  it("draws other random numbers in each turn, and the same ones for its gradient", function()
    local function draw(scan)
      ty.manual_seed(11)
      local w = ty.ones(4):requires_grad_()
      local c, y = scan(function(c, x)
        local z = ty.rand(4)
        return c + (x * w * z):sum(), z
      end, ty.zeros({}), ty.arange(12):reshape(3, 4):square())
      c:backward()
      return y, w.grad, ty.rand(2)
    end
    local y, g, after = draw(ty.scan)
    local hy, hg, hafter = draw(by_hand)
    assert.equal(flat(hy), flat(y))
    assert.equal(flat(hg), flat(g))
    assert.equal(flat(hafter), flat(after))
    local c = ty.compile(draw)
    for _ = 1, 3 do
      local cy, cg, cafter = c(ty.scan)
      assert.equal(flat { y, g, after }, flat { cy, cg, cafter })
    end
  end)
end)

describe("the gradient of ty.scan", function()
  local W, b, xs, h0
  before_each(function()
    ty.manual_seed(3)
    W, b = (ty.randn(3, 3) * 0.5):requires_grad_(), ty.randn(3):requires_grad_()
    xs, h0 = ty.randn(7, 2, 3):requires_grad_(), ty.randn(2, 3):requires_grad_()
  end)

  local function f(h, x)
    h = (h:matmul(W) + x + b):tanh()
    return h, h:square()
  end

  local function gradients(scan, opts, turn)
    for _, p in ipairs { W, b, xs, h0 } do p.grad = nil end
    local c, y = scan(turn or f, h0, xs, opts)
    local loss = c:sum() + y:square():mean()
    loss:backward()
    return flat { loss:detach(), c:detach(), y:detach(), W.grad, b.grad, xs.grad, h0.grad }
  end

  for _, reverse in ipairs { false, true } do
    it("has the bits of the loop's" .. (reverse and ", backwards" or ""), function()
      assert.equal(gradients(by_hand, { reverse = reverse }), gradients(ty.scan, { reverse = reverse }))
    end)
  end

  it("is the same compiled, and where less is kept", function()
    for _, opts in ipairs { {}, { checkpoint = true }, { checkpoint = 2, reverse = true } } do
      local want = gradients(ty.scan, opts)
      local c = ty.compile(function() return gradients(ty.scan, opts) end)
      for _ = 1, 3 do assert.equal(want, c()) end
      local g = ty.compile(function()
        for _, p in ipairs { W, b, xs, h0 } do p.grad = nil end
        local carry, y = ty.scan(f, h0, xs, opts)
        local loss = carry:sum() + y:square():mean()
        loss:backward()
      end)
      for _ = 1, 3 do g() end
      assert.equal(1, ty.explain(g).captures)
      assert.truthy(want:find(flat { W.grad, b.grad, xs.grad, h0.grad }, 1, true))
    end
  end)

  it("goes to what is computed outside, once", function()
    local function from_outside(scan)
      W.grad, b.grad = nil, nil
      local v = W:tanh() * 2
      local c = scan(function(h, x) return (h:matmul(v) + x):sin() end, h0:detach(), xs:detach())
      c:sum():backward()
      return W.grad
    end
    local function without_rows(fn, c, x) return (by_hand(function(h, r) return fn(h, r), h end, c, x)) end
    close(H.list(from_outside(without_rows)), H.list(from_outside(ty.scan)), 1e-6)
  end)

  it("leaves out what needs none", function()
    local c, y = ty.scan(function(n, x) return n + 1, x * 2 end, ty.zeros({}, i64), xs:detach())
    assert.equal(false, y.requires_grad)
    assert.equal(7, c:item())
    local n, z = ty.scan(function(k, x) return k + 1, x * b end, ty.zeros({}, i64), xs:detach())
    z:sum():backward()
    assert.equal(7, n:item())
    close(H.list(xs:detach():sum { 1, 2 }), H.list(b.grad), 1e-5)
  end)

  it("is claimed for what the loop's results have one for, and for nothing else", function()
    local turns = {
      detached = function(c, x) return { (c[1] * x * W):detach(), c[2] + 1 }, (c[1] * W):detach() end,
      ["of the rows alone"] = function(c, x) return { (c[1] * W):detach(), c[2] }, x * c[1] * W end,
      ["of one of two"] = function(c, x) return { c[1] * W, c[2] + x }, c[2] * 2 end,
      ["a turn later"] = function(c) return { c[2] * 1, c[1] * W }, c[2] * 1 end,
      ["two turns later"] = function(c, x) return { c[2] + c[1], c[1] + x }, { c[1] * 1, c[2]:detach() } end,
      ["of what init needs"] = function(c) return { c[1]:detach() * 2, c[2] + 1 }, c[1] * 2 end,
    }
    for _, needs in ipairs { false, true } do
      for name, turn in pairs(turns) do
        local function claimed(scan)
          local c, y = scan(turn, { needs and h0 * 1 or h0:detach(), ty.ones(2, 3) }, ty.ones(5, 2, 3))
          y = ty.is_tensor(y) and { y } or y
          return table.concat({ tostring(c[1].requires_grad), tostring(c[2].requires_grad), tostring(y[1].requires_grad),
            tostring(y[2] and y[2].requires_grad) }, " ")
        end
        W = ty.ones(2, 3):requires_grad_()
        assert.equal(claimed(by_hand), claimed(ty.scan), name)
      end
    end
  end)

  it("draws the same random numbers where that is told by a second look", function()
    local function draw(scan)
      ty.manual_seed(5)
      local c, y = scan(function(c, x)
        local z = ty.rand(3)
        return c * z + x * b, { c:detach() + z, c * 1 }
      end, ty.zeros(3), ty.arange(12):reshape(4, 3))
      return flat { c:detach(), y[1], y[2]:detach(), ty.rand(2) }
    end
    local want = draw(by_hand)
    assert.equal(want, draw(ty.scan))
    local compiled = ty.compile(function()
      local z = ty.rand(3)
      local c = ty.scan(function(c) return { c[1] * ty.rand(3), c[1] * b } end, { z, ty.ones(3) }, nil, { length = 3 })
      return c[1]:detach(), c[2]:detach(), ty.rand(2)
    end)
    local function three() return flat { compiled() } end
    ty.manual_seed(6)
    local first = { three(), three(), three() }
    assert.equal(1, ty.explain(compiled).captures)
    ty.manual_seed(6)
    assert.same(first, { three(), three(), three() })
    assert.are_not.equal(first[1], first[2])
  end)

  it("is not computed for sequences that need none", function()
    local function share(x) -- how many times as much memory as the sequences themselves the rest takes
      return tonumber((H.script(([[
        local ty = require "tycho"
        local x, b = ty.randn(500, 4000), ty.ones(3):requires_grad_()
        x = %s
        x:get(1, 1)
        local before = ty.stats().memory.peak
        local c = ty.scan(function(c, r) return c * b + (r:sum() * 1e-3) end, ty.zeros(3), x)
        c:sum():backward()
        print((ty.stats().memory.peak - before) / (500 * 4000 * 4))]]):format(x))))
    end
    assert.truthy(share "x" < 1.2)
    assert.truthy(share "x * b[1]" > 2) -- a gradient for each
  end)

  it("comes where the function reads more constants than there are operands, in a scan in a scan", function()
    local h, x = ty.ones(3):requires_grad_(), ty.arange(12):reshape(4, 3):cos():requires_grad_()
    local k, one = ty.tensor { 3, 1, 2 }, { ty.full({ 1 }, 2), ty.full({ 1 }, 3), ty.full({ 1 }, 5) }
    local wide = { ty.full({ 1 }, 0.5, { dtype = "f64" }), ty.full({ 1 }, 0.25, { dtype = "f64" }) }
    local turns = {
      function(c, r)
        local v = (k * r):tanh()
        local w = r:cumsum(1) * 0.2 + (c:detach() * 0.5 + r * 0.25):sum() * 0.1
        return r, { v + w * 0.5, ty.cat { v:narrow(1, 1, 2), k:narrow(1, 3, 1) } }
      end,
      function(c, r)
        local v = (c * 0.1 + r * 0.2 + one[1] * 0.3):sin() * one[2] * 0.4 + one[3] * 0.6
        local w = v:to "f64" * wide[1] + wide[2]
        return w:to "f32" * 0.1, { v * one[1], w:to "f32" }
      end,
    }
    for _, turn in ipairs(turns) do
      local function nested(scan)
        h.grad, x.grad = nil, nil
        local c, y = scan(function(c)
          return scan(function(d, two) return scan(turn, d, two) end, c, x:unflatten(1, { 2, 2 }))
        end, h, nil, { length = 2 })
        local loss = c:sum() + y[1]:square():sum() + y[2]:sum()
        loss:backward()
        return x.grad
      end
      close(H.list(nested(by_hand)), H.list(nested(ty.scan)), 1e-5)
      local compiled = ty.compile(function() nested(ty.scan) end)
      for _ = 1, 2 do compiled() end
      assert.equal(1, ty.explain(compiled).captures)
    end
  end)

  it("has derivatives that are computed at once", function()
    local function f_of(scan)
      return function(w)
        local c, y = scan(function(c, x) return (c * w + x):sin(), ty.grad(function(u) return (u * c):cos():sum() end)(x) end,
          w * 0.5, ty.arange(6):reshape(3, 2) * 0.3)
        return (c + y:sum(1)):sum(), c
      end
    end
    local at = ty.tensor { 0.3, -0.7 }
    for _, derive in ipairs { ty.hessian, function(g) return ty.jacobian(function(w) return (select(2, g(w))) end) end } do
      close(H.list(derive(f_of(by_hand))(at)), H.list(derive(f_of(ty.scan))(at)), 1e-5)
    end
  end)

  it("writes to what a turn makes within a vmap, whose second derivatives are computed at once", function()
    local shared = ty.arange(3)
    local function f_of(scan)
      return function(w)
        return ty.vmap(function(all)
          return (scan(function(c, row)
            local y = shared * 1
            y:narrow(1, 2, 2):copy_(row:narrow(1, 1, 2))
            return c * row + y:mul_(0.5)
          end, all[1] * w, all))
        end)(ty.arange(12):reshape(2, 2, 3) * 0.3):square():sum()
      end
    end
    local at = ty.tensor { 0.3, -0.7, 0.2 }
    close(H.list(ty.hessian(f_of(by_hand))(at)), H.list(ty.hessian(f_of(ty.scan))(at)), 1e-5)
  end)

  it("has gradients of its own", function()
    local function second(scan, what)
      local given = { W = W:detach(), x = xs:detach(), h = h0:detach() }
      return ty.grad(function(v)
        return ty.grad(function(u)
          local p = { W = given.W, x = given.x, h = given.h }
          p[what] = u
          local c, y = scan(function(h, x)
            h = (h:matmul(p.W) + x):tanh()
            return h, h
          end, p.h, p.x)
          return c:sum() + y:square():sum()
        end)(v):square():sum()
      end)(given[what])
    end
    for _, what in ipairs { "W", "x", "h" } do
      close(H.list(second(by_hand, what)), H.list(second(ty.scan, what)), 2e-4)
    end
  end)

  it("goes to tensors from outside that a turn gives as they are", function()
    for _, view in ipairs { function(w) return w end, function(w) return w:t() end, function(w) return w[1] end } do
      local g = ty.grad(function(w)
        local c, y = ty.scan(function(c) return c, view(w) end, ty.ones(1), ty.zeros(3, 1))
        return y:sum() + c:sum()
      end)(ty.ones(2, 2))
      local want = ty.grad(function(w) return view(w):sum() * 3 end)(ty.ones(2, 2))
      assert.equal(flat(want), flat(g))
    end
  end)

  it("is right where a turn writes to what it is given", function()
    local function written(scan)
      local h, x = ty.tensor({ 0.5, 0.25 }):requires_grad_(), ty.ones(3, 2):requires_grad_()
      local c = scan(function(c, r)
        c = c:clone()
        c:mul_(r):sin_()
        return c + r, c
      end, h, x)
      c:sum():backward()
      return flat { h.grad, x.grad }
    end
    local function given(scan)
      local h, x = ty.tensor({ 0.5, 0.25 }):requires_grad_(), ty.ones(3, 2):requires_grad_()
      local c = scan(function(c, r)
        c:mul_(r):sin_()
        return c + r, c
      end, h, x)
      c:sum():backward()
      return flat { h.grad, x.grad }
    end
    assert.equal(written(by_hand), written(ty.scan))
    assert.equal(written(ty.scan), given(ty.scan))
    local function counted(scan) -- what is written needs no gradient itself
      local h = ty.tensor({ 0.5, 0.25 }):requires_grad_()
      local c = scan(function(c, r)
        local by = c.by:clone()
        if scan == ty.scan then by = c.by end
        by:add_(r)
        return { h = (c.h * by):sin(), by = by * 1 }
      end, { h = h, by = ty.ones(2) }, ty.ones(3, 2))
      c.h:sum():backward()
      return flat(h.grad)
    end
    assert.equal(counted(function(turn, c, x)
      for i = 1, 3 do c = turn(c, x[i]) end
      return c
    end), counted(ty.scan))
  end)

  it("is refused where the function is another one by then", function()
    local x = ty.ones(3, 2)
    local function changed(change, make)
      local state = { w = ty.ones(2):requires_grad_(), by = 2 }
      local c = ty.scan(make(state), ty.ones(2), x)
      change(state)
      local ok, e = pcall(function() c:sum():backward() end)
      assert.equal(false, ok)
      assert.match("scan: the function does something else when it runs again", e)
    end
    local function make(state) return function(c, r) return c * state.w * state.by + r end end
    changed(function(state) state.w = ty.ones(2) end, make)
    changed(function(state) state.by = 3 end, make)
    changed(function(state) ty.no_grad(function() state.w:mul_(0.5) end) end, make)
    changed(function(state) state.off = true end, function(state)
      return function(c, r) return state.off and c * state.w or (c * state.w):sin() + r end
    end)
  end)

  it("is captured once for all numbers of rows", function()
    local w = ty.tensor { 0.5, 2 }
    for _, opts in ipairs { {}, { reverse = true } } do
      local function g(x)
        return ty.grad(function(v)
          local c, y = ty.scan(function(h, r)
            h = (h * v + r):sin()
            return h, h * v
          end, ty.zeros(2), x, opts)
          return c:sum() + y:sum()
        end)(w)
      end
      local c = ty.compile(g)
      for n = 1, 9 do
        local x = ty.arange(2 * n):reshape(n, 2):cos()
        assert.equal(flat(g(x)), flat(c(x)))
      end
      assert.truthy(ty.explain(c).captures <= 3, ty.explain(c).captures)
    end
    local c = ty.compile(function(x) return (ty.scan(function(h) return h * 0.5 + 1 end, ty.zeros(2), nil, { length = x:size(1) })) end)
    for n = 1, 9 do c(ty.ones(n)) end
    assert.truthy(ty.explain(c).captures <= 3, ty.explain(c).captures)
  end)

  it("keeps less where nothing is given by turns, or there are none", function()
    for _, n in ipairs { 0, 1, 7 } do
      local h = ty.full({ 3 }, 2):requires_grad_()
      local c = ty.scan(function(c, r) return c * r end, h, ty.ones(n, 3), { checkpoint = true })
      c:sum():backward()
      assert.same({ 1, 1, 1 }, h.grad:totable())
    end
  end)

  it("from outside of a vmap goes to what is given and closed over", function()
    local h, x = ty.arange(12):reshape(4, 3):sin(), ty.arange(24):reshape(4, 2, 3):cos()
    local u, w = ty.arange(12):reshape(4, 3):cos(), ty.tensor { 0.5, -1, 2 }
    local turns = {
      function() return function(c, r) return c * 0.5, r end end,
      function() return function(c, r) return c, r * 2 end end,
      function() return function(c, r)
        c = (c * r * w):sin()
        return c, c * 2
      end end,
      function(v)
        local k = (v * w):tanh()
        return function(c, r)
          c = (c * k + r * w):sin()
          return c, c * v
        end
      end,
    }
    for i, make in ipairs(turns) do
      local function sums(scan)
        local given = { h, x, u, w }
        for k, t in ipairs(given) do given[k] = t:detach():requires_grad_() end
        w = given[4]
        local loss = ty.vmap(function(first, row, v)
          local c, y = scan(make(v), first, row)
          return (c * 2):sum() + y:square():sum()
        end)(given[1], given[2], given[3]):sum()
        loss:backward()
        local all = {}
        for k, t in ipairs(given) do all[k] = t.grad and t.grad:flatten() or ty.zeros(1) end
        return H.list(ty.cat(all))
      end
      local want, got = sums(by_hand), sums(ty.scan)
      assert.equal(#want, #got, i)
      close(want, got, 1e-5)
    end
  end)

  it("is that of each example in a vmap", function()
    local function each(scan)
      return H.list(ty.vmap(ty.grad(function(h, x)
        local c = scan(function(a, r) return (a * 0.5 + r * b:detach()):sin(), a end, h, x)
        return c:sum()
      end))(ty.arange(12):reshape(4, 3), ty.arange(60):reshape(4, 5, 3)))
    end
    close(each(by_hand), each(ty.scan), 1e-6)
  end)
end)

describe("a scope around what runs again for its gradient", function()
  local w = ty.tensor({ 0.5, -0.25 }):requires_grad_()

  --- The gradient of a loss that a function of a scope gives, beside the one without a scope.
  local function claim(fn)
    local function gradient(around)
      w.grad = nil
      local loss = around(fn)
      loss:backward()
      return flat { loss:detach(), w.grad }
    end
    assert.equal(gradient(function(f) return f() end), gradient(ty.scope))
    assert.equal(gradient(ty.scope), gradient(function(f) return (ty.scope(function() return (ty.scope(f)) end)) end))
  end

  it("leaves a scan's carried values, sequences and what its function closes over", function()
    claim(function()
      local k = ty.tensor { 2, 3 }
      local c, y = ty.scan(function(c, x) return (c * x * w * k):sin(), c * k end, ty.ones(2), ty.arange(6):reshape(3, 2))
      return c:sum() + y:square():sum()
    end)
  end)

  it("leaves what the second of two scans was given by the first, and what came out of an inner scope", function()
    claim(function()
      local k = ty.scope(function() return ty.tensor { 2, 3 } end)
      local _, y = ty.scan(function(c, x) return (c * x * w * k):sin(), c * k end, ty.ones(2), ty.ones(3, 2))
      return (ty.scan(function(c, x) return (c * x * w * k):cos() end, ty.ones(2), y)):sum()
    end)
    claim(function()
      local k
      local loss = ty.scope(function()
        k = ty.tensor { 2, 3 }
        return (ty.scan(function(c, x) return (c * x * w * k):sin() end, ty.ones(2), ty.ones(3, 2))):sum(), k
      end)
      return loss
    end)
  end)

  it("leaves what checkpoint and custom_grad read", function()
    claim(function()
      local k = ty.tensor { 2, 3 }
      return ty.checkpoint(function(x) return (x * w * k):sin():sum() end, ty.ones(2))
    end)
    claim(function()
      local k = ty.tensor { 2, 3 }
      local times_k = ty.custom_grad(function(x) return x * k end, function(_, g) return g * k end)
      return times_k(w * 2):sum()
    end)
  end)

  it("frees all the same what no gradient can be asked for any more", function()
    collectgarbage()
    collectgarbage()
    collectgarbage "stop"
    local function live() return ty.stats().memory.used end
    local function forward()
      local xs, k = ty.ones(8, 2), ty.full({ 2 ^ 18 }, 2)
      local c, y = ty.scan(function(a, x) return (a * x * w + k[1]):sin(), a end, ty.ones(2), xs)
      local d = ty.scan(function(a, x) return (a * x * w + k[2]):sin() end, ty.ones(2), y)
      return c:sum() + d:sum()
    end
    for _, f in ipairs {
      function() return forward():item() end,
      function() forward():backward() end,
      function() ty.scope(forward) end,
    } do
      ty.scope(f)
      local before = live()
      for _ = 1, 4 do ty.scope(f) end
      assert.truthy(live() - before < 2 ^ 20, live() - before)
    end
    collectgarbage "restart"
  end)
end)

describe("recurrent layers of long sequences", function()
  for _, kind in ipairs { "RNN", "GRU", "LSTM" } do
    it("give the bits of short ones behind each other: " .. kind, function()
      ty.manual_seed(4)
      local m, x = ty.nn[kind](3, 5), ty.randn(2, 70, 3)
      local y, h, c = m(x)
      local a, ha, ca = m(x:narrow(2, 1, 40))
      local b, hb, cb = m(x:narrow(2, 41, 30), ha, ca)
      assert.equal(flat { ty.cat({ a, b }, 2), hb, cb }, flat { y, h, c })
      assert.equal(true, y:is_contiguous())
      y:square():sum():backward()
      local g = {}
      for i, p in ipairs(m:parameters()) do
        g[i] = p.grad
        p.grad = nil
      end
      a, ha, ca = m(x:narrow(2, 1, 40))
      b = m(x:narrow(2, 41, 30), ha, ca)
      local loss = ty.cat({ a, b }, 2):square():sum()
      loss:backward()
      for i, p in ipairs(m:parameters()) do close(H.list(p.grad), H.list(g[i]), 1e-5) end
    end)
  end
end)

describe("ty.scan refuses", function()
  local x = ty.ones(3, 2)
  local function refuses(message, ...)
    local ok, e = pcall(ty.scan, ...)
    assert.equal(false, ok)
    assert.match(message, (e:gsub("@%w+", "")), 1, true) -- on another device
    assert.match("^[^:]*scan_spec%.lua:%d+: scan: ", e)
  end

  it("a carried value of another type", function()
    refuses("carried value 1 must stay f32[2], a turn gives f64[2]", function(c) return c:to "f64" end, ty.zeros(2), x)
    refuses("carried value 1 must stay f32[2], a turn gives f32[3]", function() return ty.zeros(3) end, ty.zeros(2), x)
    refuses("carried value 1 must stay a tensor, a turn gives table", function(c) return { c } end, ty.zeros(2), x)
    refuses("carried value a.b must stay a tensor, a turn gives nil", function() return { a = {} } end, { a = { b = ty.zeros(2) } }, x)
    refuses("a turn gives a carried value d, which it was not given", function(c) return { c = c.c, d = c.c } end, { c = ty.zeros(2) }, x)
  end)

  it("rows of different numbers, or none at all", function()
    refuses("sizes differ: 3 rows, and 4", function(c) return c end, ty.zeros(2), { x, ty.ones(4) })
    refuses("xs) must have a first dim", function(c) return c end, ty.zeros(2), ty.ones({}))
    refuses("option length is missing", function(c) return c end, ty.zeros(2))
    refuses("option length must be a whole number", function(c) return c end, ty.zeros(2), nil, { length = -1 })
    refuses("option checkpoint must be", function(c) return c end, ty.zeros(2), x, { checkpoint = 0.5 })
    refuses("init must hold tensors", function(c) return c end, { "no" }, x)
    refuses("the results of a turn must hold tensors", function(c) return c, { 1 } end, ty.zeros(2), x)
  end)

  it("what reads data, and works afterwards", function()
    refuses("the function reads the elements of a tensor", function(c, r) return c, r * r:sum():item() end, ty.zeros(2), x)
    local _, e = pcall(ty.scan, function(c, r) return c, coroutine.wrap(function() return r * 2 end)() end, ty.zeros(2), x)
    assert.match("or goes on with it in a coroutine", e, 1, true)
    assert.same({ 3, 3 }, (ty.scan(function(c, r) return c + r end, ty.zeros(2), x)):totable())
  end)

  it("what writes to tensors from outside, which are as they were", function()
    local outside = ty.ones(2)
    refuses("the function writes to a tensor from outside of it", function(c, r)
      outside:add_(r)
      return c
    end, ty.zeros(2), x)
    refuses("the function writes to a tensor from outside of it", function(c)
      outside:add_(1)
      return c
    end, ty.zeros(2), x)
    assert.same({ 1, 1 }, outside:totable())
  end)

  it("a BatchNorm in training, whose running means are not carried, and says what to do", function()
    ty.manual_seed(1)
    local m, other = ty.nn.BatchNorm1d(3), ty.nn.BatchNorm1d(3)
    local rows_of = ty.randn(4, 5, 3)
    local function normed(c, r) return c, m(r) end
    for _, scan in ipairs { ty.scan, ty.compile(function(...) return ty.scan(...) end) } do
      local ok, e = pcall(scan, normed, ty.zeros(1), rows_of)
      assert.equal(false, ok)
      assert.match("BatchNorm1d: in training inside of ty.scan the running means change", e, 1, true)
      assert.match("carry them: a turn begins by setting running_mean and running_var to what it was given", e, 1, true)
    end
    assert.same({ 0, 0, 0 }, m.running_mean:totable())
    local first = { mean = m.running_mean, var = m.running_var }
    local last, y = ty.scan(function(c, r)
      m.running_mean, m.running_var = c.mean, c.var
      local y = m(r)
      return { mean = m.running_mean, var = m.running_var }, y
    end, first, rows_of)
    m.running_mean, m.running_var = last.mean, last.var
    local list = {}
    for i = 1, 4 do list[i] = other(rows_of[i]) end
    assert.equal(flat { ty.stack(list), other.running_mean, other.running_var }, flat { y, m.running_mean, m.running_var })
    m:eval()
    other:eval()
    assert.equal(flat(other(rows_of[1])), flat((select(2, ty.scan(normed, ty.zeros(1), rows_of)))[1]))
  end)

  it("a write that leaves the values as they were, also where they are not computed yet", function()
    local function of_itself(y)
      local outside = y * 2
      return ty.scan(function(c, r)
        outside:minimum_(outside)
        return c, r
      end, ty.zeros(2), x)
    end
    for _, f in ipairs { of_itself, ty.compile(of_itself) } do
      refuses("the function writes to a tensor from outside of it", function(c) return (f(c)) end, ty.zeros(2), x)
      local ok, e = pcall(f, ty.ones(2))
      assert.equal(false, ok)
      assert.match("the function writes to a tensor from outside of it", e, 1, true)
    end
  end)

  it("more elements than there can be", function()
    refuses("option length must be", function(c) return c end, ty.zeros(2), nil, { length = 2 ^ 63 })
    for _, n in ipairs { 2 ^ 40, 2 ^ 50, 2 ^ 52 } do
      assert.has_error(function() ty.scan(function(c) return c, c end, ty.zeros(4), nil, { length = n }) end)
    end
  end)

  it("a gradient for a leaf from outside, within a turn", function()
    local w = ty.ones(2):requires_grad_()
    local ok, e = pcall(ty.scan, function(c, r)
      local loss = (w * r * c):sum()
      loss:backward()
      return c
    end, ty.zeros(2), x)
    assert.equal(false, ok)
    assert.match("a leaf from outside of a scan", e)
    assert.equal(nil, w.grad)
  end)

  it("to be looked at as a graph from outside", function()
    local function f() return (ty.scan(function(c, r) return c + r end, ty.zeros(2), x)) end
    assert.has_error(function() require "tycho.graph".record(f) end)
    assert.has_error(function() ty.graph(f) end)
  end)

  it("one scan and not the one around it", function()
    local c = ty.scan(function(c, r)
      pcall(ty.scan, function() error "x" end, ty.zeros(2), x)
      return c + r
    end, ty.zeros(2), x)
    assert.same({ 3, 3 }, c:totable())
  end)

  it("nothing that was written before an error", function()
    local o = ty.zeros(2)
    local function f()
      return (pcall(ty.scan, function()
        o:add_(1)
        error "x"
      end, ty.zeros(2), x))
    end
    f()
    assert.same({ 1, 1 }, o:totable())
    local c = ty.compile(f)
    for _ = 1, 3 do c() end
    assert.same({ 4, 4 }, o:totable())
  end)

  it("tensors of a turn that are used behind it", function()
    local kept
    ty.scan(function(c, r)
      kept = c + r
      return kept
    end, ty.zeros(2), x)
    assert.has_error(function() kept:totable() end)
  end)

  it("nothing that the function raises", function()
    local ok, e = pcall(ty.scan, function() error({ 7 }) end, ty.zeros(2), x)
    assert.equal(false, ok)
    assert.equal(7, e[1])
    ok, e = pcall(ty.scan, function(c, r) return c:matmul(r:reshape(2, 1)), 1 end, ty.zeros(3), x)
    assert.equal(false, ok)
    assert.match("matmul", e)
  end)
end)
