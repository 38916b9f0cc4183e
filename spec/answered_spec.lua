--- answered_spec.lua -- calls that came before, in eager mode: composites, functions in C of several operations, and forms
-- that write are answered by an instance of the second such call (lua_composite.c).

local H = require "spec.helper"
local ty = H.ty
local rows = {}
for _, row in ipairs(ty.internals.composites) do -- a second call of forms that change dims finds others
  if row.shape:find "^as of " == nil and row.alias ~= "transpose_" then rows[#rows + 1] = row end
end

local texts = H.texts

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
      while row.name == "new_empty" do row = rows[random(#rows)] end -- elements of any value
      for k = 1, random(3) do args[k] = random(3) == 1 and plain[random(#plain)] or list[random(#list)] end
      if not ty.is_tensor(args[1]) then args[1] = list[random(#list)] end
      local function run(f)
        ty.manual_seed(turn)
        local results = { pcall(f, unpack(args)) }
        if not results[1] then return "raises " .. tostring(results[2]):gsub("^.-([%w_]+: )", "%1") end
        for k = 2, #results do results[k] = type(results[k]) == "table" and "table" or texts(results[k]) end
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
    gelu = function(x) return x:gelu { approximate = "tanh" } end,
    layer_norm = function(x) return x:layer_norm { dims = { 1, 2 } } end,
    ["logaddexp of one"] = function(x) return x:logaddexp(x) end,
    ["hypot of its transpose"] = function(x) return x:hypot(x:t()) end,
    ["full of halves"] = function() return ty.full({ 300 }, 0.1, { dtype = "bf16" }) end,
    ["full of denormals"] = function() return ty.full({ 3 }, 2 ^ -140) end, to = function(x) return x:to "f16" end,
    fill_ = function(x) return x:fill_(0.1) end, zero_ = function(x) return x:narrow(1, 2, 3):zero_() end,
    ["fill_ of a column"] = function(x) return x:narrow(2, 2, 1):fill_(3) end, ["fill_ of bytes"] = function(x)
      local y = x:to "u8"
      return y:fill_(7)
    end,
    dot = function(x) return x[2]:dot(x[3]) end, outer = function(x) return x[2]:outer(x[3]) end,
    bmm = function(x) return x:unsqueeze(1):bmm(x:t():unsqueeze(1)) end,
    ["matmul by a vector"] = function(x) return x:matmul(x[2]) end,
    ["matmul of a stack"] = function(x) return x:matmul(x:expand(3, 16, 16)) end,
    cat = function(x) return ty.cat({ x, x[{ { 2, 4 } }] }, 1) end, stack = function(x) return ty.stack({ x, x:t(), x }, 3) end,
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
          local want = texts(compiled(x)) .. texts(x) .. ty.random_state()
          ty.manual_seed(round)
          assert.equal(want, texts(call(y)) .. texts(y) .. ty.random_state(), name)
        end
      end
    end
  end)

  it("runs no cut", function()
    local own = { bernoulli = 2, multinomial = 2, searchsorted = 2, masked_fill_ = 1, sigmoid_ = 1, -- operations around it
      ["fill_ of a column"] = 1 }
    for name, call in pairs(calls) do
      local x = small:clone()
      for _ = 1, 4 do call(x) end
      local least = math.huge -- what other specs left pending may be cut meanwhile
      for _ = 1, 10 do
        local before = ty.stats().cuts
        call(x)
        least = math.min(least, ty.stats().cuts - before)
      end
      assert.truthy(least <= (own[name] or 0), name)
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
      assert.equal(texts(want), texts(whole))
      local x = small * round
      local seen = x:t()
      local data = x:data()
      x:tril_()
      assert.equal(texts(x:t()), texts(seen))
      assert.equal(x:get(1, 1), tonumber(data[0]))
      assert.equal(0, tonumber(data[1]))
    end
  end)

  it("does not take two tensors for one beside itself", function()
    local a, b = small:narrow(1, 1, 9), small:narrow(1, 2, 9)
    for _ = 1, 3 do assert.equal(texts(a + (a - a) * 0.25), texts(ty.lerp(a, a, 0.25))) end
    for _ = 1, 3 do assert.equal(texts(a + (b - a) * 0.25), texts(ty.lerp(a, b, 0.25))) end
    b = b:clone()
    for _ = 1, 3 do assert.equal(texts(a + (b - a) * 0.25), texts(ty.lerp(a, b, 0.25))) end
  end)

  it("reads lists of tensors at each call", function()
    local list, one = { small[1], small[2] }, small[3]:clone()
    for round = 1, 8 do
      if round == 4 then list[1] = list[2] end
      if round > 6 then list[round % 2 + 1] = one end
      for j = 1, 2 do assert.equal(texts(list[j]), texts(ty.cat(list):narrow(1, 16 * j - 15, 16))) end
      assert.equal(texts(list[2]), texts(ty.stack(list)[2]))
    end
    for n = 1, 12 do
      local many = {}
      for j = 1, n do many[j] = small[j] end
      for _ = 1, 3 do assert.equal(texts(small[{ { 1, n } }]), texts(ty.stack(many))) end
    end
  end)

  it("sees the default dtype", function()
    for _ = 1, 3 do assert.equal("f32", ty.rand(5, 7).dtype) end
    ty.default_dtype "f64"
    for _ = 1, 3 do assert.equal("f64", ty.rand(5, 7).dtype) end
    ty.default_dtype "f32"
    for _ = 1, 3 do assert.equal("f32", ty.rand(5, 7).dtype) end
  end)

  it("reads its options at each call, and asks tables with a metatable", function()
    local options, asked = { dims = 1, eps = 0 }, 0
    for round = 1, 6 do
      options.eps = round % 2
      local d = small - small:sum(1, true) / 16
      assert.equal(texts(d / ((d * d):sum(1, true) / 16 + round % 2):sqrt()), texts(small:layer_norm(options)))
      local trap = setmetatable({}, { __index = function() asked = asked + 1 end })
      small:sum(1, trap)
      assert.equal(round, asked)
    end
  end)

  it("leaves out what has a rule of a call's own: a scan with a gradient", function()
    local composite = ty.internals.composite
    local function running(x)
      return ty.scan(function(s, r) return s + r, s end, x[1] * 0, x):sum()
    end
    for _ = 1, 4 do
      local x = ty.randn(80, 3):requires_grad_()
      local done, y = composite.try(running, x)
      if done ~= 1 then y = done and composite.run(running, x) or running(x) end
      y:backward()
      H.same(ty.ones(80, 3), x.grad)
    end
  end)

  it("raises as before", function()
    local function raises(pattern, f)
      local ok, e = pcall(f)
      assert.equal(false, ok)
      assert.match("^[^:]*answered_spec%.lua:%d+: " .. pattern, e)
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
