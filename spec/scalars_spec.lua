--- scalars_spec.lua -- numbers that change between calls, through every function of the library.
-- Each function is called in many ways with a tensor and a number; where one of them is valid, a compiled function that
-- makes the same call must give eager's results, writes and errors for each of a row of numbers, whether it took the
-- number as a scalar of the plan, captured anew, or ran.

local H = require "spec.helper"
local T = require "spec.twins"
local ty = H.ty

--- What changes the state, gives what no twin can (memory, functions), or is about compiling itself.
local left_out = {}
for name in ([[release threads precision manual_seed default_dtype device blas deterministic compile explain graph scope set_print
    help data from_ptr reset stats version pass warmup stance budget disable check rows empty empty_like new_empty
    plot progress show profile]]):gmatch "%S+" do
  left_out[name] = true
end

local tensors = {
  function() return ty.tensor { { 1, 2, 3 }, { 4, 5, 6 } } end,
  function() return ty.tensor({ 3, 1, 2 }, { dtype = "u8" }) end,
}

local numbers = { 1, 2, 1, 3, 0.5, -1, 0, 1, -0.0, 0 / 0, 1 / 0, 2, 300, -2.5, 1 }

local calls = {
  function(f, x, k) return f(x, k) end,
  function(f, x, k) return f(k, x) end,
  function(f, x, k) return f(x, x, k) end,
  function(f, x, k) return f(x, k, x) end,
  function(f, x, k) return f(x, 1, k) end,
  function(f, x, k) return f(x, 0, k) end,
  function(f, x, k) return f(x, k, k) end,
  function(f, x, k) return f(x, x:gt(1), k) end,
  function(f, x, k) return f(x, { k }) end,
  function(f, x, k) return f({ x, x }, k) end,
  function(f, _, k) return f(k) end,
  function(f, _, k) return f(0, k, { 3 }) end,
  function(f, _, k) return f({ 2 }, k) end,
  function(f, _, k) return f(k, k + 1) end,
}

--- Further ways for functions that compute with numbers before they record.
local function series(f, _, k) return f(k, k + 2, 0.5, { dtype = "f16" }) end
local function stepped(f, _, k) return f(0, k * 3, k) end
local function whole(f, _, k) return f(k, k + 3, { dtype = "i32" }) end
local function index(f, x, k) return f(x, 1, x:gt(1):to "i64" + 1, k) end
local further = {
  tensor = {
    function(f, _, k) return f { k, 1, k * 2 } end,
    function(f, _, k) return f({ { k }, { 2 } }, { dtype = "bf16" }) end,
    function(f, _, k) return f({ k, 3 }, { dtype = "i32" }) end,
    function(f, _, k) return f { { k, 1 }, { true, 2 } } end,
    function(f, _, k) return f({ k, 3 }, { requires_grad = true }) end,
  },
  linspace = {
    function(f, _, k) return f(k, k + 2, 3) end,
    function(f, _, k) return f(-1, k, 4, { dtype = "f16" }) end,
    function(f, _, k) return f(k, 2, 1) end,
    function(f, _, k) return f(k, 2, 0) end,
  },
  arange = { series, stepped, whole },
  range = { series, stepped, whole },
  uniform = { function(f, _, k) return f(-1, k, { 3 }) end, function(f, _, k) return f(k, 400, { dtype = "f16" }) end },
  normal = { function(f, _, k) return f(k, 1, { 3 }) end, function(f, _, k) return f(k, k, 3, { dtype = "bf16" }) end },
  bernoulli = { function(f, _, k) return f(k, 3) end, function(f, _, k) return f(k, { 2, 2 }, { dtype = "i64" }) end },
  scatter = { index }, scatter_add = { index }, scatter_ = { index },
  pad = { function(f, x, k) return f(x, { { 1, 2 } }, k) end },
}

--- Everything that can be seen of f(x, k), as text.
local function seen(f, x, k)
  ty.manual_seed(7)
  local function pack(...) return { n = select("#", ...), ... } end
  local result = pack(pcall(f, x, k))
  if not result[1] and type(result[2]) == "string" then result[2] = result[2]:gsub("^[^\n]-:%d+: ", "") end
  return T.text({ result, x }, 2)
end

describe("numbers that change between calls", function()
  local names, ran, skipped = {}, 0, 0
  for _, source in ipairs { ty, ty.internals.methods } do
    for name, f in pairs(source) do
      if type(f) == "function" and not left_out[name] and not name:find "^_" and not names[name] then
        names[name] = f
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)

  for i, name in ipairs(names) do
    it("go through " .. name, function()
      local fn = names[name]
      local ways = { unpack(further[name] or {}) }
      for way, call in ipairs(calls) do
        if H.share(i + way, 2) then ways[#ways + 1] = call end
      end
      for way, call in ipairs(ways) do
        for _, make in ipairs(tensors) do
          if pcall(call, fn, make(), 1) or pcall(call, fn, make(), 2) then
            local function eager(x, k)
              local y = call(fn, x, k)
              return y
            end
            local function body(x, k)
              local y = call(fn, x, k)
              return y
            end
            local f = ty.compile(body)
            for _, k in ipairs(numbers) do
              ran = ran + 1
              local want, got = seen(eager, make(), k), seen(f, make(), k)
              if want ~= got then
                error(("way %d, number %g\neager:    %s\ncompiled: %s"):format(way, k, want:sub(1, 300), got:sub(1, 300)), 0)
              end
            end
            skipped = skipped + ty.explain(f).skips
          end
        end
      end
    end)
  end

  it("are skipped mostly", function()
    assert.truthy(skipped > 0.5 * ran, ("%d of %d calls"):format(skipped, ran))
  end)
end)

local held = { v = { 1, 2, 3 }, options = { delta = 1 } }

describe("a number of the caller's", function()
  for name, f in pairs {
    tensor = function(x, w) return x * ty.tensor(w) end,
    ["tensor of another dtype"] = function(x, w) return x * ty.tensor(w, { dtype = "f16" }) end,
    full = function(x, w) return x * ty.full({ 3 }, w) end,
    full_like = function(x, w) return x + ty.full_like(x, w) end,
    fill_ = function(x, w) return (x * 1):fill_(w) + x end,
    clamp = function(x, w) return x:clamp(0, w) end,
    masked_fill = function(x, w) return x:masked_fill(x:gt(1), w) end,
    ["elements at an index"] = function(x, w)
      local y = x * 1
      y[ty.tensor({ 1, 3 }, { dtype = "i64" })] = w
      return y
    end,
    ["elements at a computed index"] = function(x, w)
      local y = x * 1
      y[x:to "i64" % 3 + 1] = w * 2
      return y
    end,
    ["elements of a mask"] = function(x, w)
      local y = x * 1
      y[x:gt(1)] = w
      return y
    end,
    ["a part"] = function(x, w)
      local y = x * 1
      y[{ { 2, 3 } }] = w
      return y
    end,
    ["a power of it"] = function(x, w) return w ^ x end,
    ["its power"] = function(x, w) return x ^ (w + 0.1) end,
    ["its power in place"] = function(x, w) return (x * 1):pow_(w + 0.1) end,
    ["a norm"] = function(x, w) return x:norm(w + 0.1) end,
    ["a table"] = function(x, w) return x * ty.tensor { w, 1, w + 2 } end,
    ["nested tables"] = function(x, w) return x * ty.tensor({ { w, 1, 2 }, { 3, 4, w * 3 } }, { dtype = "f64" }) end,
    ["a table from outside"] = function(x) return x * ty.tensor(held.v) end,
    linspace = function(x, w) return x * ty.linspace(-w, w * 3, 3) end,
    ["linspace of a smaller dtype"] = function(x, w) return x * ty.linspace(w, 1, 3, { dtype = "f16" }) end,
    ["the start of arange"] = function(x, w) return x * ty.arange(w + 0.05, w + 2.5) end,
    ["the step of arange"] = function(x, w) return x * ty.arange(0, (w + 0.05) * 2.5, w + 0.05) end,
    ["the start of arange alone"] = function(x, w) return x * ty.arange(w / 100 + 0.05, 3) end,
    ["the end of arange"] = function(x, w) return x * ty.arange(2.1 + w / 100) end,
    ["the end of range"] = function(x, w) return x * ty.range(1, 3.1 + w / 100, { dtype = "f64" }) end,
    ["the start of range"] = function(x, w) return x * ty.range(w + 0.3, w + 2.7) end,
    padding = function(x, w) return x:pad({ { 1, 1 } }, w) end,
    ["what is scattered"] = function(x, w) return x:scatter(1, ty.tensor({ 1, 3 }, { dtype = "i64" }), w) end,
    ["what is added at an index"] = function(x, w) return x:scatter_add(1, ty.tensor({ 1, 3 }, { dtype = "i64" }), w) end,
    ["what is searched"] = function(x, w) return ty.searchsorted(x, w + 0.01) end,
    ["an integer that fills"] = function(_, w) return ty.full({ 3 }, math.floor(w * 7), { dtype = "i64" }) end,
    ["an integer at an index"] = function(x, w)
      local y = x:to "i32"
      y[2] = math.floor(w * 7)
      return y
    end,
    ["an option"] = function(x, w) return ty.huber_loss(x, x * 2, { delta = w + 1 }) end,
    ["an option of a method"] = function(x, w) return x:var(nil, { correction = w / 300 }) end,
    ["an option in a table from outside"] = function(x) return ty.huber_loss(x, x * 2, held.options) end,
    ["several options"] = function(x, w) return x:isclose(x + 1, { rtol = w, atol = w / 2 }) end,
    ["the scale of attention"] = function(x, w)
      local q = x:reshape(3, 1) * ty.tensor { 1, -2 }
      return ty.scaled_dot_product_attention(q, q + 1, q * 3, { scale = w })
    end,
    ["the scale of attention of half floats, masked"] = function(x, w)
      local q = (x:reshape(1, 3, 1) * ty.tensor { 1, -0.3, 0.7 }):to "bf16"
      return ty.scaled_dot_product_attention(q, q:sin(), q, { scale = w / 3, causal = true, mask = x:gt(1) })
    end,
  } do
    it("is read in each call, by one trace: " .. name, function()
      local c, x = ty.compile(f), ty.tensor { 1, 2, 3 }
      for i = 1, 300 do
        local w = i == 7 and 0 or i == 8 and 1 or i / 7
        held.v[2], held.options.delta = w, w + 1
        H.same(f(x, w), c(x, w))
      end
      local e = ty.explain(c)
      assert.equal(1, e.captures)
      assert.equal(300, e.skips)
    end)
  end

  for name, f in pairs {
    uniform = function(w) return ty.uniform(-w, w * 2, { 3 }) end,
    ["uniform in place"] = function(w) return ty.zeros(3):uniform_(w, w + 3) end,
    normal = function(w) return ty.normal(w, w * 2, { 2 }, { dtype = "f64" }) end,
    ["normal in place"] = function(w) return ty.zeros(3):normal_(w, w + 2) end,
    bernoulli = function(w) return ty.bernoulli(w / 50, { 9 }) end,
  } do
    it("is a parameter of what is drawn: " .. name, function()
      local c = ty.compile(f)
      for i = 1, 300 do
        local w = 1.1 + i / 7
        ty.manual_seed(i)
        local want, state = f(w), ty.random_state()
        ty.manual_seed(i)
        H.same(want, c(w))
        assert.equal(state, ty.random_state())
      end
      local e = ty.explain(c)
      assert.equal(1, e.captures)
      assert.equal(300, e.skips)
    end)
  end

  it("has other forms where it is 2, 3, 0.5 or -1 and an exponent, and one for all others", function()
    local x = ty.linspace(-3, 7, 500)
    for _, f in ipairs { function(a, p) return a ^ p end, function(a, p) return (a * 1):pow_(p) end } do
      local c = ty.compile(f)
      for round = 1, 3 do
        for _, p in ipairs { 4, 2, 0.5, -1, 3, 7.5, 0, -0.0, 1, -2, 1 / 0, 0 / 0, 1e300 } do H.same(f(x, p), c(x, p)) end
        assert.equal(5, ty.explain(c).captures, round)
      end
    end
  end)

  it("is searched among integers as what it is", function()
    local sorted = ty.tensor({ 1, 2, 3 }, { dtype = "i64" })
    local function f(w) return ty.searchsorted(sorted, w) end
    local c = ty.compile(f)
    for _, w in ipairs { 2, 3, 2.5, 1, 1.5, 0, 1 / 0, -1 / 0 } do H.same(f(w), c(w)) end
  end)

  it("is searched among floats as exactly as it is given", function()
    local sorted = ty.tensor { 0.1, 0.2, 2 }
    local function f(w) return ty.searchsorted(sorted, w, true) end
    local c = ty.compile(f)
    for _, w in ipairs { 1, 0.1, 2, 0.2, 3 } do H.same(f(w), c(w)) end
  end)

  it("is an exponent whose gradient goes through one trace", function()
    local function f(x, p)
      local y = (x ^ p):sum()
      x.grad = nil
      y:backward()
      return x.grad
    end
    local c = ty.compile(f)
    local function leaf() return ty.tensor({ 0.5, 1, 2 }):requires_grad_() end
    local a, b = leaf(), leaf()
    for i = 1, 50 do H.same(f(a, i / 7 + 0.01), c(b, i / 7 + 0.01)) end
    assert.equal(1, ty.explain(c).captures)
  end)

  it("raises where it does not fit, and only there", function()
    local function f(w) return ty.full({ 2 }, w, { dtype = "u8" }) end
    local c = ty.compile(f)
    for _, w in ipairs { 1, 2, 300, 3, 2.5, -1, 255, 0 / 0, 7 } do
      local want, got = { pcall(f, w) }, { pcall(c, w) }
      assert.equal(want[1], got[1])
      if want[1] then H.same(want[2], got[2]) end
    end
  end)

  it("raises where it is no bound of a distribution", function()
    local function f(w) return ty.uniform(0, w, { 2 }) end
    local c = ty.compile(f)
    for _, w in ipairs { 1, 2, -1, 3, 0 / 0, 1 / 0, 4 } do
      ty.manual_seed(3)
      local want = { pcall(f, w) }
      ty.manual_seed(3)
      local got = { pcall(c, w) }
      assert.equal(want[1], got[1])
      if want[1] then H.same(want[2], got[2]) end
    end
  end)

  it("is a size of arange, where it is whole", function()
    local c, x = ty.compile(function(n) return ty.arange(n):sum() end), nil
    for n = 2, 40 do x = c(n) end
    assert.equal(780, x:item())
    assert.truthy(ty.explain(c).captures <= 5)
  end)

  it("is a whole step of arange, where it changes no size", function()
    local function f(step) return ty.arange(0, 1000, step) end
    local c = ty.compile(f)
    for i = 501, 800 do H.same(f(i), c(i)) end
    assert.equal(1, ty.explain(c).captures)
  end)

  for name, f in pairs {
    fill_ = function(x, w) return x:gt(1):fill_(w) end,
    full = function(_, w) return ty.full({ 3 }, w, { dtype = "bool" }) end,
    full_like = function(x, w) return ty.full_like(x:gt(1), w) end,
    ["an element"] = function(x, w)
      local y = x:gt(1)
      y[2] = w
      return y
    end,
    ["elements of a mask"] = function(x, w)
      local y = x:gt(1)
      y[x:lt(3)] = w
      return y
    end,
    masked_fill = function(x, w) return x:gt(1):masked_fill(x:lt(2), w) end,
  } do
    it("is a truth value, by one trace, and raises where it is none: " .. name, function()
      local c, x = ty.compile(f), ty.tensor { 1, 2, 3 }
      for _, w in ipairs { 1, 0, 1, -0.0, 0, 1 } do H.same(f(x, w), c(x, w)) end
      assert.equal(1, ty.explain(c).captures)
      for _, w in ipairs { 2, 1, 0.5, 0, -1, 0 / 0, 1 } do
        local want, got = { pcall(f, x, w) }, { pcall(c, x, w) }
        assert.equal(want[1], got[1], w)
        if want[1] then H.same(want[2], got[2]) end
      end
    end)
  end

  it("is a scale of attention whose gradients are eager's", function()
    local function f(x, w)
      local y = ty.scaled_dot_product_attention(x, x, x, { scale = w })
      x.grad = nil
      y:square():sum():backward()
      return x.grad
    end
    local c = ty.compile(f)
    local function leaf() return ty.tensor({ { 0.5, 1 }, { 2, -0.3 } }):requires_grad_() end
    local a, b = leaf(), leaf()
    for i = 1, 9 do H.same(f(a, i / 7 + 0.01), c(b, i / 7 + 0.01)) end
  end)

  it("is a start of another count of steps in a trace of its own", function()
    local function f(a, b) return ty.arange(a, b) end
    local c = ty.compile(f)
    for i = 1, 20 do H.same(f(i / 3, i / 3 + 2 + i % 3), c(i / 3, i / 3 + 2 + i % 3)) end
    assert.truthy(ty.explain(c).captures <= 6)
  end)
end)
