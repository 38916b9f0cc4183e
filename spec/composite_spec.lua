--- composite_spec.lua -- functions of several operations run as one plan in eager mode, where tensors are large.

local H = require "spec.helper"
local ty = H.ty
local rows = ty.internals.composites

local x = (ty.arange(16384):reshape(128, 128) * 0.37):sin() * 3
local p = x:abs() / 4

-- Arguments behind the first one, by name.
local others = {
  clamp = { -1, 1 }, leaky_relu = { 0.1 }, lerp = { p, 0.3 }, hypot = { p }, logaddexp = { p }, logical_and = { p }, logical_or = { p },
  logical_xor = { p }, masked_fill = { x:gt(0), 7 }, isclose = { p }, addmm = { x, x }, mse_loss = { p }, l1_loss = { p },
  smooth_l1_loss = { p }, huber_loss = { p }, bce_with_logits = { p }, kl_div = { p }, index_add = { 1, ty.arange(128):to "i64" + 1, p },
  cross_entropy = { (ty.arange(128) % 128):to "i64" + 1 }, nll_loss = { (ty.arange(128) % 128):to "i64" + 1 }, tensordot = { x, 1 },
}

-- Of other first arguments, or made of random numbers: elsewhere.
local elsewhere = {}
for name in ("dropout einsum meshgrid tri one_hot conv1d conv2d conv3d conv_transpose1d conv_transpose2d interpolate avg_pool1d " ..
  "avg_pool2d max_pool1d max_pool2d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d"):gmatch("%S+") do
  elsewhere[name] = true
end

local function bytes(v)
  if ty.is_tensor(v) then return v.dtype .. table.concat(v.shape, ",") .. table.concat(H.list(v), " ") end
  return tostring(v)
end

local function all_bytes(...)
  local list = { ... }
  for i = 1, select("#", ...) do list[i] = bytes(list[i]) end
  return table.concat(list, "; ")
end

describe("a composite of a large tensor", function()
  it("gives the bits of its operations one by one", function()
    local compared = 0
    for _, row in ipairs(rows) do
      if not elsewhere[row.name] and not row.single and row.only ~= "method" then
        local args = others[row.name] or {}
        local ok, want = pcall(function() return all_bytes(row.fn(x, unpack(args))) end)
        if ok then
          compared = compared + 1
          assert.equal(want, all_bytes(ty[row.name](x, unpack(args))), row.name)
        end
      end
    end
    assert.truthy(compared > 45, compared)
  end)

  it("is one plan", function()
    local function cuts(fn)
      local before = ty.stats().cuts
      local y = fn()
      return ty.stats().cuts - before, y
    end
    local first = ty.ones(129, 128)
    assert.equal(1, (cuts(function() return first:softmax(2) end)))
    for _ = 1, 3 do x:softmax(2) end
    assert.equal(0, (cuts(function() return x:softmax(2) end))) -- an instance runs
  end)

  it("keeps nothing but its result", function()
    local y = ty.full({ 1e6 }, 0.5)
    y:mul_(1)
    collectgarbage()
    collectgarbage "stop"
    local before = ty.stats().memory.used
    local z = y:gelu()
    local one = ty.stats().memory.used - before
    assert.truthy(one < 4.2e6, one)
    y:add_(1) -- in place: nobody else holds what it held
    assert.truthy(ty.stats().memory.used - before < 4.2e6, ty.stats().memory.used - before)
    collectgarbage "restart"
    assert.truthy(math.abs(z[1]:item() - 0.34573) < 1e-5)
  end)

  it("has a gradient", function()
    local w = x:clone():requires_grad_()
    local v = x:narrow(1, 1, 4):clone():requires_grad_()
    local a, b = (w:softmax(2) * w):sum(), (v:softmax(2) * v):sum()
    a:backward()
    b:backward()
    assert.equal(bytes(v.grad), bytes(w.grad:narrow(1, 1, 4)))
  end)

  it("may be written to its argument", function()
    local a, b = x:clone(), x:clone()
    a:softmax_(2)
    assert.equal(bytes(b:softmax(2)), bytes(a))
  end)

  it("raises at the caller's line, and works afterwards", function()
    local ok, e = pcall(function() return x:softmax(3) end)
    assert.equal(false, ok)
    assert.match("^[^:]*composite_spec%.lua:%d+: softmax: ", e)
    assert.equal(bytes(rows and x:softmax(2)), bytes(x:clone():softmax(2)))
  end)

  it("may be called in coroutines, captures and vmaps", function()
    local want = bytes(x:softmax(2))
    local co = coroutine.wrap(function()
      local y = x:softmax(2)
      coroutine.yield(bytes(y))
    end)
    assert.equal(want, co())
    local c = ty.compile(function(a) return a:softmax(2) end)
    for _ = 1, 3 do assert.equal(want, bytes(c(x))) end
    assert.equal(1, ty.explain(c).captures)
    assert.equal(want, bytes(ty.vmap(function(r) return r:softmax(1) end)(x)))
  end)
end)

-- The first call is remembered, the second makes an instance, later ones are answered by it.
describe("a composite that came before", function()
  local small = (ty.arange(256):reshape(16, 16) * 0.37):sin() * 3
  local near = small:abs() / 4

  it("gives the bits of its operations one by one, for any layout and dtype", function()
    local compared = 0
    local layouts = { function(t) return t end, function(t) return t:t() end, function(t) return t[{ { 2, 9 } }] end,
      function(t) return t[{ {}, { 1, -1, 2 } }] end, function(t) return t:to "f64" end, function(t) return t:to "bf16" end,
      function(t) return t:to "i64" end, function(t) return t[1] end, function(t) return t:narrow(1, 1, 1):expand(5, 16) end,
      function(t) return t[{ { 3, 2 } }] end }
    local values = { {}, { 0.3 }, { -1, 1 }, { near }, { 2 }, { 1 }, { near, 0.3 }, { "none" }, { near:t(), "sum" }, { near:gt(1), 7 },
      { (ty.arange(16) % 16):to "i64" + 1 }, { true }, { near, near } }
    for _, row in ipairs(rows) do
      for _, layout in ipairs(row.single and {} or layouts) do
        for _, args in ipairs(values) do
          local t = layout(small)
          ty.manual_seed(5)
          local ok, want = pcall(function() return all_bytes(row.fn(t, unpack(args))) end)
          for _ = 1, ok and 3 or 0 do
            ty.manual_seed(5)
            compared = compared + 1
            assert.equal(want, all_bytes((row.only == "method" and ty.internals.methods or ty)[row.name](t, unpack(args))), row.name)
          end
        end
      end
    end
    assert.truthy(compared > 3000, compared)
  end)

  it("draws as its operations do", function()
    local function drawn(f)
      ty.manual_seed(9)
      local out = {}
      for i = 1, 5 do out[i] = bytes(f(small, 0.5, true)) end
      return table.concat(out, ";") .. bytes(ty.rand(3))
    end
    local plain
    for _, row in ipairs(rows) do plain = row.name == "dropout" and row.fn or plain end
    assert.equal(drawn(plain), drawn(ty.dropout))
  end)

  it("sees other numbers, settings and contents", function()
    for i = 1, 40 do
      local bound = i % 4 / 2
      assert.equal(bytes(small:minimum(bound):maximum(-bound)), bytes(small:clamp(-bound, bound)))
      local t = small * i
      assert.equal(bytes(t:sum(2) / 16), bytes(t:mean(2)))
    end
    local t = small:clone()
    for i = 1, 5 do
      t:mul_(0.5)
      assert.equal(bytes((t * t):sum():sqrt()), bytes(t:norm()), i)
    end
  end)

  it("is not taken for one that a gradient is asked of", function()
    for _ = 1, 3 do small:softmax(2) end
    local w = small:clone():requires_grad_()
    local g = ty.grad(function(q) return (q:softmax(2) * near):sum() end)(small)
    ;(w:softmax(2) * near):sum():backward()
    assert.equal(bytes(g), bytes(w.grad))
    ty.no_grad(function() assert.equal(bytes(small:softmax(2)), bytes(w:softmax(2))) end)
  end)

  it("raises as before, with an index out of range too", function()
    local labels = ty.tensor({ 1, 2, 3 }, { dtype = "i64" })
    local scores = small:narrow(1, 1, 3)
    local want = ty.cross_entropy(scores, labels):item()
    for _ = 1, 3 do assert.equal(want, ty.cross_entropy(scores, labels):item()) end
    labels[2] = 99
    for _ = 1, 3 do
      local ok, e = pcall(function() return ty.cross_entropy(scores, labels) end)
      assert.equal(false, ok)
      assert.match("composite_spec%.lua:%d+: .*99.*out of range", e)
    end
    labels[2] = 2
    assert.equal(want, ty.cross_entropy(scores, labels):item())
    assert.error_matches(function() return small:softmax(7) end, "softmax")
  end)

  it("may meet finalisers that call others, and the end of memory", function()
    local want = bytes(small:softmax(2))
    local tries, failed = 0, 0
    for i = 1, 300 do
      getmetatable(newproxy(true)).__gc = function()
        tries = tries + 1
        for k = 1, 8 do ty.ones(i % 7 + 1, k):softmax(2) end
      end
      collectgarbage("setpause", 10)
      collectgarbage("step", 10)
      assert.equal(want, bytes(small:softmax(2)))
      H.probe.fail(i % 30, i % 2 == 0 and 1 or -1)
      local ok, y = pcall(function() return small:logsumexp(i % 2 + 1) end)
      H.probe.fail(-1)
      if ok then assert.equal(16, #y) else failed = failed + 1 end
    end
    collectgarbage("setpause", 200)
    assert.truthy(tries > 50 and failed > 5, tries .. " " .. failed)
  end)
end)

describe("random calls of composites", function()
  local near_zero = ty.arange(48):reshape(6, 8) / 8 - 3

  --- Tensors of few shapes that share memory or not; contents that change from turn to turn.
  local function pool(turn)
    local a, b = near_zero * (turn % 5 + 1), near_zero:flip() / (turn % 3 + 1)
    local list = { a, b, a, a:narrow(1, 1, 3), a:narrow(1, 4, 3), a:narrow(1, 2, 3), b:t(), a[2], b[1], a:to "f64", b:to "f16", a:gt(0),
      a:abs():to "i64" % 8 + 1, ty.arange(6):to "i64" + 1 }
    return list
  end

  it("give the bits of operations one by one, or raise what they raise", function()
    local state = 12345
    local function random(n)
      state = (state * 1103515245 + 12345) % 2147483648
      return math.floor(state / 65536) % n + 1
    end
    local compared, raised = 0, 0
    local plain = { 0.5, 1, 2, -1, "sum", "none", true, { reduction = "none" }, { dims = 1 }, { 1, 2 } }
    for turn = 1, 4000 do
      local row, list, args = rows[random(#rows)], pool(turn), {}
      for k = 1, random(3) do args[k] = random(3) == 1 and plain[random(#plain)] or list[random(#list)] end
      if not ty.is_tensor(args[1]) then args[1] = list[random(#list)] end
      local function run(f)
        ty.manual_seed(turn)
        local results = { pcall(f, unpack(args)) }
        if not results[1] then return "raises " .. tostring(results[2]):gsub("^.-([%w_]+: )", "%1") end
        for k = 2, #results do results[k] = type(results[k]) == "table" and "table" or bytes(results[k]) end
        return table.concat(results, ";", 2)
      end
      local want = run(row.fn)
      local got = run((row.only == "method" and ty.internals.methods or ty)[row.name])
      assert.equal(want, got, row.name .. " in turn " .. turn)
      if want:find "^raises" then raised = raised + 1 else compared = compared + 1 end
    end
    assert.truthy(compared > 1000 and raised > 100, compared .. " " .. raised)
  end)
end)

-- So are functions in C that record several operations, and forms that write.
describe("a function in C that came before", function()
  local small = (ty.arange(256):reshape(16, 16) * 0.37):sin() * 3
  local k, i = ty.arange(16):to "i64" + 1, (ty.arange(256):reshape(16, 16) * 7 % 16):to "i64" + 1

  local calls = {
    rand = function() return ty.rand(3, 4) end, randn = function() return ty.randn(5, { dtype = "f64" }) end,
    randint = function() return ty.randint(-3, 9, { 4, 5 }) end, normal = function() return ty.normal(2, 3, { 7 }) end,
    uniform = function() return ty.uniform(2, 3, { 7 }) end, randperm = function() return ty.randperm(9) end,
    rand_like = function(x) return x:rand_like() end, randn_like = function(x) return x:randn_like { dtype = "f16" } end,
    bernoulli = function(x) return ty.bernoulli(x:sigmoid()) end,
    multinomial = function(x) return ty.multinomial(x:abs() + 0.1, 3) end,
    zeros = function() return ty.zeros(3, 4, { dtype = "i32" }) end, ones = function() return ty.ones { 2, 3 } end,
    full = function() return ty.full({ 2, 3 }, 2.5) end, full_like = function(x) return x:full_like(4) end,
    zeros_like = function(x) return x:zeros_like() end, arange = function() return ty.arange(3, 17, 2) end,
    range = function() return ty.range(9, { dtype = "f64" }) end, linspace = function() return ty.linspace(0, 1, 33) end,
    eye = function() return ty.eye(4, 6) end, clone = function(x) return x:clone() end,
    contiguous = function(x) return x:t():contiguous() end, view_as = function(x) return x:view_as "i32" end,
    sum = function(x) return x:sum { 1 } end, argmax = function(x) return x:argmax(2) end, cumsum = function(x) return x:cumsum(1) end,
    argsort = function(x) return x:argsort(1, true) end, sort = function(x) return x:sort() end,
    topk = function(x) return x:topk(3, 1, { largest = false }) end, tile = function(x) return x:tile(2, 1) end,
    searchsorted = function(x) return ty.arange(10):searchsorted(x) end, roll = function(x) return x:roll({ 3, 1 }, { 1, 2 }) end,
    gather = function(x) return x:gather(2, i) end, scatter = function(x) return x:scatter(1, i, 2) end,
    index_select = function(x) return x:index_select(1, k) end, take = function(x) return x:take(i) end,
    index = function(x) return x[k] end, pad = function(x) return x:pad({ { 1, 2 }, 3 }, 0.5) end,
    repeat_interleave = function(x) return x:repeat_interleave(2, 1) end,
    gelu = function(x) return x:gelu { approximate = "tanh" } end, layer_norm = function(x) return x:layer_norm { dims = { 1, 2 } } end,
    ["logaddexp of one"] = function(x) return x:logaddexp(x) end, ["hypot of its transpose"] = function(x) return x:hypot(x:t()) end,
    ["full of halves"] = function() return ty.full({ 300 }, 0.1, { dtype = "bf16" }) end,
    ["full of denormals"] = function() return ty.full({ 3 }, 2 ^ -140) end, to = function(x) return x:to "f16" end,
    fill_ = function(x) return x:fill_(0.1) end, zero_ = function(x) return x:narrow(1, 2, 3):zero_() end,
    ["fill_ of a column"] = function(x) return x:narrow(2, 2, 1):fill_(3) end, ["fill_ of bytes"] = function(x)
      local y = x:to "u8"
      return y:fill_(7)
    end,
    tril_ = function(x) return x:tril_() end, clamp_ = function(x) return x:clamp_(-1, 1) end,
    sigmoid_ = function(x) return x:sigmoid_() end, square_ = function(x) return x:square_() end,
    normal_ = function(x) return x:normal_(1, 2) end, uniform_ = function(x) return x:t():uniform_() end,
    masked_fill_ = function(x) return x:masked_fill_(x:gt(0), 3) end, scatter_ = function(x) return x:scatter_(2, i, x) end,
  }

  it("gives the bits that it gives when compiled, for other contents and layouts too", function()
    local layouts = { function(t) return t end, function(t) return t:t() end, function(t) return t[{ {}, { -1, 1, -1 } }] end,
      function(t) return ty.stack({ t, t }, 3)[{ {}, {}, 2 }] end }
    for name, call in pairs(calls) do
      local compiled = ty.compile(call)
      for _, layout in ipairs(layouts) do
        for round = 1, 5 do
          local x, y = layout(small * round), layout(small * round)
          ty.manual_seed(round)
          local want = all_bytes(compiled(x)) .. bytes(x) .. ty.random_state()
          ty.manual_seed(round)
          assert.equal(want, all_bytes(call(y)) .. bytes(y) .. ty.random_state(), name)
        end
      end
    end
  end)

  it("runs no cut", function()
    local own = { bernoulli = 2, multinomial = 2, searchsorted = 2, masked_fill_ = 1, sigmoid_ = 1, ["fill_ of a column"] = 1 } -- operations around it
    for name, call in pairs(calls) do
      local x = small:clone()
      for _ = 1, 4 do call(x) end
      local before = ty.stats().cuts
      call(x)
      assert.truthy(ty.stats().cuts - before <= (own[name] or 0), name)
    end
  end)

  it("returns the tensor that it writes, whose version it raises as its operations do", function()
    local w = ty.ones(16, 16):requires_grad_()
    for round = 1, 4 do
      local x = small * round
      assert.equal(x, x:clamp_(-1, 1))
      local product = w * x -- keeps x
      if round % 2 == 0 then x:tril_() else x:fill_(round) end
      assert.error_matches(function() product:sum():backward() end, "changed afterwards")
    end
  end)

  it("writes what lies elsewhere in its memory, and where others see it", function()
    for round = 1, 4 do
      local whole = small * round
      local want = whole:clone()
      for row = 1, 16 do
        want[row] = want[row]:clamp(-0.5, row)
        whole[row]:clamp_(-0.5, row)
        whole[row]:clamp_(-0.5, row)
      end
      assert.equal(bytes(want), bytes(whole))
      local x = small * round
      local seen = x:t()
      local data = x:data()
      x:tril_()
      assert.equal(bytes(x:t()), bytes(seen))
      assert.equal(x:get(1, 1), tonumber(data[0]))
      assert.equal(0, tonumber(data[1]))
    end
  end)

  it("does not take two tensors for one beside itself", function()
    local a, b = small:narrow(1, 1, 9), small:narrow(1, 2, 9)
    for _ = 1, 3 do assert.equal(bytes(a + (a - a) * 0.25), bytes(ty.lerp(a, a, 0.25))) end
    for _ = 1, 3 do assert.equal(bytes(a + (b - a) * 0.25), bytes(ty.lerp(a, b, 0.25))) end
    b = b:clone()
    for _ = 1, 3 do assert.equal(bytes(a + (b - a) * 0.25), bytes(ty.lerp(a, b, 0.25))) end
  end)

  it("sees the default dtype", function()
    for _ = 1, 3 do assert.equal("f32", ty.zeros(5, 7).dtype) end
    ty.default_dtype "f64"
    for _ = 1, 3 do assert.equal("f64", ty.zeros(5, 7).dtype) end
    ty.default_dtype "f32"
    for _ = 1, 3 do assert.equal("f32", ty.zeros(5, 7).dtype) end
  end)

  it("reads its options at each call, and asks tables with a metatable", function()
    local options, asked = { dims = 1, eps = 0 }, 0
    for round = 1, 6 do
      options.eps = round % 2
      local d = small - small:sum(1, true) / 16
      assert.equal(bytes(d / ((d * d):sum(1, true) / 16 + round % 2):sqrt()), bytes(small:layer_norm(options)))
      local trap = setmetatable({}, { __index = function() asked = asked + 1 end })
      small:sum(1, trap)
      assert.equal(round, asked)
    end
  end)

  it("raises as before", function()
    local function raises(pattern, f)
      local ok, e = pcall(f)
      assert.equal(false, ok)
      assert.match("^[^:]*composite_spec%.lua:%d+: " .. pattern, e)
    end
    for _ = 1, 5 do
      raises("sum: ", function() return (small:sum(3)) end)
      raises("randint: ", function() return (ty.randint(3, 2, { 4 })) end)
      raises("tril_: ", function() return (small:narrow(1, 1, 1):expand(16, 16):tril_()) end)
      raises("take: .*out of range", function() return (small:take(i + 1000)) end)
    end
  end)

  it("makes leaves anew", function()
    for _ = 1, 5 do
      local w = ty.zeros(3, { requires_grad = true })
      ;(w + 1):square():sum():backward()
      assert.same({ 2, 2, 2 }, w.grad:totable())
    end
  end)
end)
