--- ranges_spec.lua -- one plan for a range of sizes: what models meet, and what decides otherwise within a range.
-- Each function is called at sizes on a line, so that a range comes to be, and then at those between; each result must
-- be that of the plain function to the bit. Random functions: fuzz_sizes.lua; all else about sizes: sizes_spec.lua.

local H = require "spec.helper"
local ty = H.ty
local nn = ty.nn

local function matrix(n, m) return ((ty.arange(n * m) * 0.37):sin() * 2):to("f32"):reshape(n, m) end

local function found(f)
  local instances, ranges = 0, 0
  for _, t in ipairs(ty.explain(f).traces) do instances, ranges = instances + t.instances, ranges + t.ranges end
  return { instances = instances, ranges = ranges, calls = ty.explain(f) }
end

--- The sizes that make ranges, and those from low to high in mixed order.
local function walk(low, high)
  local list, n = {}, high - low + 1
  local step = 7
  for k = 20, 32 do list[#list + 1] = k end
  while n % step == 0 do step = step + 2 end
  for k = 0, n - 1 do list[#list + 1] = low + k * step % n end
  return list
end

--- Calls body, plain and compiled, with arguments(n) for each size; results must be equal. Gives the compiled function.
local function sweep(body, arguments, sizes)
  local f = ty.compile(body)
  for _, n in ipairs(sizes or walk(10, 44)) do
    local want, got = { body(arguments(n)) }, { f(arguments(n)) }
    assert.equal(#want, #got)
    for i, v in ipairs(want) do
      if ty.is_tensor(v) then H.same(v, got[i]) else assert.equal(v, got[i]) end
    end
  end
  return f
end

describe("a range of sizes serves", function()
  it("a number of rows that changes", function()
    local w = matrix(8, 8)
    local f = sweep(function(x) return (x:matmul(w) + 1):relu():mean(1), x:softmax(2) * (1 / #x), x[{ { 2, -1 } }]:sum() end,
      function(n) return matrix(n, 8) end)
    local e = found(f)
    assert.truthy(e.ranges >= 1 and e.instances <= 16, e.instances .. " instances")
    assert.truthy(ty.explain(f):full():find("any sizes: %d+ sets and %d ranges? so far"))
  end)

  for _, kind in ipairs { "cat", "narrow" } do
    it("a decoder whose cache grows: " .. kind, function()
      local d, heads = 16, 2
      local wq, wk, wv = matrix(d, d) * 0.3, matrix(d, d):t() * 0.2, matrix(d, d) * 0.1
      local function split(t) return t:reshape(1, heads, d / heads):transpose(1, 2) end
      local function body(x, cache, n)
        local q, k, v = split(x:matmul(wq)), split(x:matmul(wk)), split(x:matmul(wv))
        if kind == "cat" then
          cache.k, cache.v = ty.cat({ cache.k, k }, 2), ty.cat({ cache.v, v }, 2)
          k, v = cache.k, cache.v
        else
          cache.k:narrow(2, n, 1):copy_(k)
          cache.v:narrow(2, n, 1):copy_(v)
          k, v = cache.k:narrow(2, 1, n), cache.v:narrow(2, 1, n)
        end
        return (q:matmul(k:transpose(2, 3)) / math.sqrt(d)):softmax():matmul(v):transpose(1, 2):reshape(1, d)
      end
      local function decode(f)
        local long = kind == "cat" and 4 or 200
        local cache = { k = ty.zeros(heads, long, d / heads), v = ty.ones(heads, long, d / heads) }
        local x, out = matrix(1, d), {}
        for n = 5, 150 do
          x = (f(x, cache, n) + x):layer_norm()
          out[#out + 1] = x
        end
        return ty.stack(out), cache
      end
      local f = ty.compile(body)
      local want, plain = decode(body)
      local got, cache = decode(f)
      H.same(want, got)
      H.same(plain.k, cache.k)
      local e = found(f)
      assert.truthy(e.ranges >= 3 and e.instances <= 45, e.instances .. " instances")
    end)
  end

  it("steps of training with any batch", function()
    local function trained(compiled)
      ty.manual_seed(3)
      local model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.25), nn.Linear(8, 3))
      local opt = ty.optim.AdamW(model:parameters(), { lr = 0.05 })
      local function step(x, y)
        opt:zero_grad()
        local loss = ty.cross_entropy(model(x), y)
        loss:backward()
        opt:step()
        return loss:detach()
      end
      local f, losses = compiled and ty.compile(step) or step, {}
      for i, n in ipairs(walk(10, 44)) do losses[i] = f(matrix(n, 6), (ty.arange(n) % 3 + 1):to "i64") end
      return ty.stack(losses), model:parameters(), f
    end
    local want, parameters = trained(false)
    local got, others, f = trained(true)
    H.same(want, got)
    for i, p in ipairs(parameters) do H.same(p, others[i]) end
    assert.truthy(found(f).ranges >= 1)
  end)

  it("sizes some steps apart, where halves of them are taken", function()
    local f = sweep(function(x) return x:unsqueeze(1):max_pool1d(2), x[{ {}, { 1, math.floor(x:size(2) / 2) } }] * 2 end,
      function(n) return matrix(3, n) end)
    local e = found(f)
    assert.truthy(e.ranges >= 2, e.ranges .. " ranges")
  end)

  it("fewer sizes, where plans for small and large ones differ", function()
    local f = sweep(function(x) return x * 2 * x[{ {}, 1 }]:exp():unsqueeze(2) end, function(n) return matrix(n, 16) end)
    assert.truthy(found(f).ranges >= 1)
  end)

  it("rows that go from one tensor to another", function()
    local f = sweep(function(x, y) return ty.cat { x, y } * 2, x:sum(1) - y:mean(1) end,
      function(n) return matrix(n, 4), matrix(60 - n, 4) end, walk(14, 44))
    assert.truthy(found(f).ranges >= 1)
  end)

  it("tensors that lie in one", function()
    local all = matrix(120, 4)
    local f = sweep(function(x, y) return x * y, x - 1 end,
      function(n) return all:narrow(1, 1, n), all:narrow(1, n + 1, n) end)
    assert.truthy(found(f).ranges >= 1)
  end)

  it("numbers that are lengths, or shares of one", function()
    local x = matrix(64, 3)
    local f = sweep(function(n, h) return x:narrow(1, 1, n) * n, x:narrow(1, n, 4), x[{ { 1, h } }]:sum(), n / 2 end,
      function(n) return n, 2 * n - 19 end, walk(12, 40))
    assert.truthy(found(f).ranges >= 1)
  end)
end)

describe("within a range of sizes", function()
  it("a branch may be for one of them", function()
    local f = sweep(function(x)
      if #x == 33 or #x * 2 == 48 then return x - 1 end
      return x * 2
    end, function(n) return matrix(n, 3) end)
    assert.truthy(found(f).ranges >= 1)
  end)

  it("a bound may end what can be called", function()
    local positions = matrix(40, 3)
    local f = ty.compile(function(x) return x + positions[{ { 1, #x } }] end)
    for _, n in ipairs(walk(10, 40)) do H.same(matrix(n, 3) + positions[{ { 1, n } }], f(matrix(n, 3))) end
    assert.truthy(found(f).ranges >= 1)
    for n = 41, 50 do
      local ok, message = pcall(f, matrix(n, 3))
      assert.falsy(ok)
      assert.truthy(message:find("out of range 1%.%.40"), message)
    end
  end)

  it("a reshape may fit one size alone", function()
    local f = ty.compile(function(x) return x:reshape(-1, 16) * 2 end)
    for _, n in ipairs(walk(10, 44)) do
      local ok, y = pcall(f, matrix(n, 4))
      assert.equal(n % 4 == 0, ok)
      if ok then H.same(matrix(n, 4):reshape(-1, 16) * 2, y) end
    end
  end)

  --- Sizes that make a range, and those behind them.
  local function sizes(first, last, ...)
    local list = {}
    for n = first, last, first < last and 1 or -1 do list[#list + 1] = n end
    for _, n in ipairs { ... } do list[#list + 1] = n end
    return list
  end

  it("a view may be a copy but for one size, at which it is written through", function()
    local f = sweep(function(x)
      local y = x:t():reshape(#x, 24)
      y:mul_(2)
      return x:sum(1), table.concat(y:stride(), ","), x:t():is_contiguous()
    end, function(n) return matrix(n, 24) end, sizes(16, 30, 24, 48, 12, 25))
    assert.truthy(found(f).ranges >= 1)
    sweep(function(x)
      local y = x:unfold(1, #x - 72, 24):contiguous()
      y:add_(1)
      return x:sum(1), x:unfold(1, #x - 72, 24):is_contiguous()
    end, function(n) return matrix(72 + n, 1)[{ {}, 1 }] end, sizes(16, 30, 24, 23, 25))
  end)

  it("what floor and remainders come to decides anew", function()
    sweep(function(x)
      if math.floor(#x / 7) % 2 == 1 then return x * 2 end
      return x * 3, math.floor(#x / 7) % 2
    end, function(n) return matrix(n, 2) end, sizes(20, 44, 10, 21, 32, 14, 35, 28))
    sweep(function(x) return #x * (#x + 1) / 2 % 2 == 0 and x * 2 or x * 3 end, function(n) return matrix(n, 2) end,
      sizes(16, 40, 11, 12, 13, 14))
  end)

  it("what is divided by a size lies on no line, though five sizes do", function()
    local list = { 12, 11, 10, -1, 0, -3, 8, 1, 6, -4, 2 }
    for j = -4, 12 do list[#list + 1] = j end
    local function lengths(a, b) return function(j) return -ty.arange(a + 31 * j) - 1, ty.ones(b - j) end end
    sweep(function(x, y) return x:slice(1, 1, -1, #y) * 1 end, lengths(234, 44), list)
    sweep(function(x, y) return x[{ { 1, -1, #y } }] * 1 end, lengths(234, 44), list)
    sweep(function(x, y) return ty.max_pool1d(x:reshape(1, 1, -1), #y) end, lengths(233, 44), list)
    sweep(function(x, y) return ty.avg_pool1d(x:reshape(1, 1, -1), #y) end, lengths(233, 44), list)
    sweep(function(x, y) return x:unfold(1, 9, #y):sum(2) end, lengths(234, 44), list)
    list = { 8, 9, 5, -2, -1, 0, 6, 1, 7, 3, -3 }
    for j = -3, 9 do list[#list + 1] = j end
    sweep(function(x, y)
      local p = x:chunk(#y)
      return p[1] * 1, p[#p] * 1, #p
    end, function(j) return ty.arange(172 + 34 * j), ty.ones(42 - j) end, list)
  end)

  it("a count of fractional steps is rounded as it is", function()
    local list = {}
    for n = 10, 20 do list[#list + 1] = n end
    for n = 8, 26 do list[#list + 1] = n end
    local text = "local ty = ... return function(x) return ty.%s(%g, 7 * #x, %g) end"
    for _, name in ipairs { "arange", "range" } do
      for _, step in ipairs { 0.7, 1.4, 1.1, 0.25 } do
        for first = 0, 7 do
          sweep(loadstring(text:format(name, first / 4, step))(ty), function(n) return ty.ones(n) end, list)
        end
      end
    end
  end)

  it("what is no whole number has a root of its own", function()
    for _, dtype in ipairs { "bf16", "f16", "f32" } do
      for _, body in ipairs {
        function(x) return x * math.sqrt(#x + 0.125) end,
        function(x) return x * (1 / math.sqrt(#x + 0.5)) end,
        function(x) return x * (1 / (#x + 0.375)) end,
      } do
        local list = sizes(240, 252)
        for n = 200, 300 do list[#list + 1] = n end
        assert.equal(0, found(sweep(body, function(n) return ty.ones({ n }, { dtype = dtype }) end, list)).ranges)
      end
    end
  end)

  local rare = H.share(0, 4) and it or function() end -- sums of 100 million elements
  rare("numbers that round alike are not told apart", function()
    local base, list = ty.tensor { { 1, 2 } }, {}
    for n = 2 ^ 26, 2 ^ 26 + 12 do list[#list + 1] = n end
    sweep(function(x) return x:var(), x[1] * (2 * #x) end, function(n) return base:expand(n, 2) end, list)
  end)

  it("explain tells why there is none", function()
    local f = sweep(function(x) return x * (#x % 7) end, function(n) return matrix(n, 2) end, sizes(20, 60))
    assert.equal(0, found(f).ranges)
    assert.truthy(ty.explain(f):full():find("no range of sizes: what the code does with sizes is not known between", 1, true))
  end)

  it("numbers made of sizes have their own bits", function()
    sweep(function(x)
      local w = 1 / #x
      return x * 2, math.sqrt(1 / #x), 1 / math.sqrt(#x), w * #x, x:to "f64" * w, x:to "f64" * math.sqrt(#x), x:to "i64" * math.sqrt(#x)
    end, function(n) return matrix(n, 2) end, sizes(16, 60))
    local f = sweep(function(x) return 1 / (x * -(#x - 20)) end, function(n) return matrix(n, 2) end, sizes(34, 21, 20, 19, 25))
    assert.truthy(found(f).ranges >= 1)
    sweep(function(x) return x, 1 / -(#x - 20) end, function(n) return matrix(n, 2) end, sizes(34, 21, 20, 19, 25))
  end)

  it("what is out of range between others raises", function()
    local room, long, short = ty.zeros(470), ty.arange(500), ty.ones(24)
    local function raises_as(body, arguments, list)
      local f = ty.compile(body)
      for _, n in ipairs(list) do
        room:zero_()
        local want = { pcall(body, arguments(n)) }
        room:zero_()
        local got = { pcall(f, arguments(n)) }
        assert.equal(want[1], got[1], "at " .. n)
        if want[1] then H.same(want[2], got[2]) else assert.equal(want[2], got[2]) end
      end
    end
    raises_as(function(a, b)
      room:narrow(1, 1, #a * #b):add_(1)
      return room:narrow(1, 1, #a * #b) * 1
    end, function(n) return ty.ones(n), ty.ones(44 - n) end, { 15, 14, 13, 12, 13, 14, 15, 16, 17, 18, 11, 10, 19, 9, 8, 20, 22 })
    raises_as(function(x) return long:narrow(1, 1, #x * (36 - #x) + 200) * 2 end, function(n) return ty.ones(n) end,
      { 6, 7, 8, 9, 30, 29, 28, 10, 11, 31, 27, 12, 20, 16, 18 })
    raises_as(function(x) return ty.ones((#x - 20) * (#x - 20)):max() + x end, function(n) return ty.ones(n) end, sizes(31, 21, 20, 19))
    raises_as(function(x) return long[{ { (#x - 20) * (#x - 20) - 2, -1 } }] * 1 end, function(n) return ty.ones(n) end,
      sizes(31, 22, 20, 21))
    raises_as(function(x, n)
      local _ = short:narrow(1, n * n % 26, 1) -- 25 at 21 and 31, 0 at 26
      return x * 2
    end, function(n) return ty.ones(4), n end, { 16, 17, 18, 19, 20, 22, 23, 24, 25, 27, 28, 21, 31, 26 })
    raises_as(function(x, y) return (x:unsqueeze(2) * x):flatten():narrow(1, 1, 60 * #x - 800) * y end,
      function(n) return ty.ones(n), ty.ones(1) end, { 14, 15, 16, 17, 18, 19, 41, 43, 45, 44, 46, 30, 25 })
  end)

  it("exponents may be those of a square, a root, a reciprocal", function()
    sweep(function(x) return x:pow(#x - 22), x:abs():pow((#x - 22) / 2) end, function(n) return matrix(n, 3):to "f64" end,
      sizes(30, 41, 21, 24, 23, 22, 26, 20))
    local f = sweep(function(x) return x:pow(#x - 22) end, function(n) return matrix(n, 3) end, sizes(30, 41, 21, 24, 23, 22, 25, 20))
    assert.truthy(found(f).ranges >= 1)
  end)

  it("what is empty at some sizes may not be so between", function()
    sweep(function(x) return x * 2, ty.arange(0, 2 * #x - 67, 73 - 2 * #x) end, function(n) return ty.ones(n) end,
      sizes(18, 29, 34, 35, 36, 33, 37, 40))
    sweep(function(x)
      local y = ty.ones(8, 8)
      y:diagonal(#x * 10 - 346):add_(1)
      return y * x[1], y:diagonal(#x * 10 - 346)
    end, function(n) return ty.ones(n) end, sizes(18, 29, 34, 35, 36))
  end)

  it("elements may share memory at one of them", function()
    local function body(x)
      local n = #x
      local y = ty.zeros(n + 36)
      y:unfold(1, n + 1, 35):unfold(2, 1, n):fill_(3)
      return y
    end
    local f = ty.compile(body)
    for _, n in ipairs(sizes(18, 29, 35, 34, 36)) do
      local ok, want = pcall(body, ty.ones(n))
      local done, got = pcall(f, ty.ones(n))
      assert.equal(ok, done, "at " .. n)
      if ok then H.same(want, got) end
    end
  end)

  it("a zero has the sign of what it was multiplied by", function()
    sweep(function(x)
      local z = ((#x - 33) * 0) * (#x - 35)
      return x * z, 1 / z
    end, function(n) return ty.ones(n) end, sizes(18, 29, 34, 33, 35, 36))
  end)

  it("dims may come to be equal", function()
    local f = sweep(function(x, y)
      return x:t():matmul(x), x:matmul(x:t()), ty.cat({ x, x:t():contiguous():reshape(#x, -1) }, 2), x:matmul(y)
    end, function(n) return matrix(n, 24), matrix(24, 24) end)
    assert.truthy(found(f).ranges >= 1)
    sweep(function(x) return x:matmul(x:t()):reshape(-1) end, function(n) return matrix(n, 24) end)
  end)

  it("constants that the function makes follow from sizes", function()
    sweep(function(x) return x * ty.tensor { #x, 2, 3 }, x + ty.tensor { 1, 2, 3 } end, function(n) return matrix(n, 3) end)
  end)

  it("indices are looked at in each call", function()
    local f = ty.compile(function(x, i) return x[i] * 2 end)
    for _, n in ipairs(walk(10, 44)) do
      local i = (ty.arange(n) % 5 + 1):to "i64"
      H.same(matrix(9, 3)[i] * 2, f(matrix(9, 3), i))
      i[n] = 10
      assert.error_matches(function() f(matrix(9, 3), i) end, "index 10 at .* is out of range 1%.%.9")
    end
    assert.truthy(found(f).ranges >= 1)
  end)

  it("indices that the function computes are looked at between its samples, too", function()
    local function body(x, t)
      local one, n = ty.arange(1, { dtype = "i64" }), #x
      local i = ty.minimum(one + n, one + (160 - n)):maximum(1)
      return t[i]
    end
    local f, t = ty.compile(body), ty.ones(60)
    for n = 101, 112 do H.same(body(ty.ones(n), t), (f(ty.ones(n), t))) end
    assert.truthy(found(f).ranges >= 1)
    for n = 60, 100 do
      assert.equal(n < 61 or n >= 100, (pcall(f, ty.ones(n), t)))
      assert.equal(n < 61 or n >= 100, (pcall(body, ty.ones(n), t)))
    end
  end)

  it("a finaliser may call the function with another size meanwhile", function()
    local f = ty.compile(function(x) return (x * 2 + 1):sum(1), x - #x end)
    for n = 20, 30 do f(matrix(n, 4)) end
    assert.truthy(found(f).ranges >= 1)
    local calls = 0
    for round = 1, 400 do
      local n = 12 + round % 30
      local x = matrix(n, 4)
      local want, other = (x * 2 + 1):sum(1), x - n
      getmetatable(newproxy(true)).__gc = function()
        calls = calls + 1
        f(matrix(12 + (round * 7) % 30, 4))
      end
      collectgarbage("setpause", 10)
      collectgarbage("step", 20)
      local a, b = f(x)
      H.same(want, a)
      H.same(other, b)
    end
    collectgarbage("setpause", 200)
    assert.truthy(calls > 50, calls .. " finalisers")
  end)

  it("memory may end, and nothing is lost", function()
    local function body(x) return (x * 2 + 1):matmul(x:t()):sum(1), x:softmax(2) end
    local f = ty.compile(body)
    for n = 20, 21 do f(matrix(n, 8)) end
    local failed = 0
    for after = 0, 400 do -- while a range is made, and while it serves
      local n = 22 + after % 27 -- each in both ways
      local x = matrix(n, 8)
      local want = body(x)
      H.probe.fail(after % 100, after % 2 == 0 and 1 or -1)
      local ok, y = pcall(f, x)
      H.probe.fail(-1)
      if ok then H.same(want, y) else assert.truthy(tostring(y):find "memory", tostring(y)) end
      failed = failed + (ok and 0 or 1)
    end
    assert.truthy(failed > 5, failed .. " failed")
    assert.truthy(found(f).ranges >= 1)
    for _, n in ipairs(walk(12, 40)) do H.same(body(matrix(n, 8)), (f(matrix(n, 8)))) end
  end)
end)
