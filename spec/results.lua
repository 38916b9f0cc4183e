--- results.lua -- a fixed set of results, in groups: what bits.lua hashes, and gpu_bits.lua compares on two devices.
-- In: add(tensors), which takes results as they come; both(f, ...), which takes those of f(...), eager and compiled. Out: {name =
-- function} and the names in order. All data come from the generator of helper.lua, and lie where ty.device says.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi

-- The dtypes that machines compute; u16, u32 and u64 are composed of these.
local DTYPES = { "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" }

return function(add, both)
  local groups, order = {}, {}
  local function group(name, fn)
    groups[name], order[#order + 1] = fn, name
  end

  local cached = {} -- what is drawn, for the next count of threads, too: results are of copies that nobody has packed
  --- Mixed values, special ones among them.
  local function mixed(dtype, shape, seed)
    local key = ("%s:%s:%s:%d"):format(ty.device(), dtype, table.concat(shape, ","), seed)
    cached[key] = cached[key] or H.mixed(dtype, shape, seed)
    return cached[key]:clone()
  end

  --- Values of everyday size, drawn once from a small set: quick for large shapes.
  local function plain(dtype, shape, seed)
    local key = ("%s plain %s:%s:%d"):format(ty.device(), dtype, table.concat(shape, ","), seed)
    if cached[key] then return cached[key]:clone() end
    local n, r = 1, H.random(seed)
    for _, s in ipairs(shape) do n = n * s end
    local v = ffi.new("double[?]", n)
    local whole = not H.is_float(dtype)
    for i = 0, n - 1 do v[i] = whole and r.whole(0, 9) or r.range(-3, 3) end
    if whole then
      local w = ffi.new("int64_t[?]", n)
      for i = 0, n - 1 do w[i] = dtype == "bool" and v[i] % 2 or v[i] end
      v = w
    end
    cached[key] = H.tensor(dtype, H.store(dtype, v, n), shape)
    return cached[key]:clone()
  end

  local FLOATS = { "f16", "bf16", "f32", "f64" }

  group("maps", function()
    for _, row in ipairs(H.ops) do
      if row.class == "map" and row.lua then
        local op = ty[row.lua]
        for _, dtype in ipairs(DTYPES) do
          if H.meet(row.rule, dtype) then
            local a, b, c = mixed(dtype, { 151 }, 1), mixed(dtype, { 151 }, 2), mixed("bool", { 151 }, 3)
            if row.arity == 1 then both(op, a)
            elseif row.arity == 2 then both(op, a, b)
            else both(op, c, a, b) end
          end
        end
      end
    end
  end)

  group("conversions", function()
    for _, from in ipairs(DTYPES) do
      for _, to in ipairs(DTYPES) do
        both(function(x) return x:to(to) end, mixed(from, { 151 }, 4))
      end
    end
  end)

  group("chains", function()
    for _, dtype in ipairs(FLOATS) do
      local x, row, column = plain(dtype, { 211, 307 }, 5), plain(dtype, { 307 }, 6), plain(dtype, { 211, 1 }, 7)
      both(function() return ((x * row + column):tanh() - 0.5):exp() * (x:t():sigmoid() / 3):t() end)
      both(function() return x:gelu(), x:softmax(), x:layer_norm(), x:logsumexp(2) end)
    end
    local v = plain("f32", { 60013 }, 8)
    both(function() return (v * 1.5 + 0.25):abs():sqrt():log1p() * v:flip() end)
    local i = plain("i32", { 60013 }, 9)
    both(function() return (i * 77 + 5) % 13, i:bitwise_xor(i:lshift(3)), i:gt(4):where(i, -i) end)
  end)

  group("reductions", function()
    for _, dtype in ipairs(DTYPES) do
      for _, shape in ipairs { { 17, 33 }, { 1, 71 }, { 3, 4099 }, { 517, 5 }, { 5, 7, 131 } } do
        local x = mixed(dtype, shape, 10)
        for _, name in ipairs { "sum", "prod", "max", "min", "argmax", "argmin" } do
          local op = ty[name]
          both(function() return op(x), op(x, 1), op(x, 2), op(x, -1) end)
        end
        if #shape == 3 then both(function() return x:sum { 1, 3 }, x:max { 1, 2 }, x:prod { 2, 3 } end) end
      end
    end
    for _, dtype in ipairs(FLOATS) do
      local x = plain(dtype, { 301, 1003 }, 11)
      both(function()
        return x:sum(), x:sum(1), x:sum(2), x:mean(1), x:var(2), x:std(1), (x * x):sum(), x:t():sum(1), x:prod(2)
      end)
    end
  end)

  group("scans", function()
    for _, dtype in ipairs(DTYPES) do
      for _, name in ipairs { "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp" } do
        local op = ty[name]
        for _, shape in ipairs { { 4103 }, { 37, 19 } } do
          local x = plain(dtype, shape, 12)
          both(function() return op(x, 1), op(x, -1) end)
        end
        both(function(x) return op(x, 1) end, mixed(dtype, { 77 }, 13))
      end
    end
  end)

  group("moves", function()
    for _, dtype in ipairs(DTYPES) do
      local x, y = mixed(dtype, { 13, 41 }, 14), mixed(dtype, { 13, 41 }, 15)
      local index = ty.arange(13 * 41, { dtype = "i64" }):mul(7):remainder(41):reshape(13, 41) + 1
      both(function() return x:sort(), x:argsort(2), x:gather(2, index), x:scatter(2, index, y), x:t():flip():clone() end)
    end
  end)

  local SHAPES = { { 1, 1, 1 }, { 1, 67, 31 }, { 7, 1, 301 }, { 3, 5, 2 }, { 33, 65, 17 }, { 9, 131, 513 }, { 61, 23, 1029 },
    { 129, 71, 67 } }

  group("products", function()
    for _, dtype in ipairs(DTYPES) do
      for _, s in ipairs(SHAPES) do
        local m, n, k = s[1], s[2], s[3]
        local a, w, wt = plain(dtype, { m, k }, 16), plain(dtype, { k, n }, 17), plain(dtype, { n, k }, 18)
        local bias, full = plain(dtype, { n }, 19), plain(dtype, { m, n }, 20)
        both(function() return a:matmul(w), a:matmul(wt:t()) end)
        both(function() return (a:matmul(w) + bias):relu() end)
        both(function() return full - (a:matmul(w) + bias):tanh() * 0.5, a:matmul(w):to "f16" end)
      end
      local batch = plain(dtype, { 3, 7, 65 }, 21)
      both(function() return batch:matmul(batch:transpose(2, 3)), (batch:matmul(plain(dtype, { 65, 9 }, 22)) + 1):sum(2) end)
    end
    local a, w, b = plain("f32", { 203, 605 }, 23), plain("f32", { 605, 307 }, 24), plain("f32", { 307 }, 25)
    for _ = 1, 3 do both(function() return (a:matmul(w) + b):gelu() end) end -- packed anew, then kept
    local x, g = mixed("f32", { 19, 70 }, 26), mixed("f32", { 70, 33 }, 27) -- infinities and NaNs
    both(function() return x:matmul(g):relu() end)
  end)

  --- Attention of these sizes, and its gradients.
  local function attention(dtype, lead, n, m, d, dv, opts, mix)
    local make = mix and mixed or plain
    local q, k, v = make(dtype, { lead, n, d }, 30), make(dtype, { lead, m, d }, 31), make(dtype, { lead, m, dv }, 32)
    both(function() return ty.scaled_dot_product_attention(q, k, v, opts) * 1 end)
    local g = plain(dtype, { lead, n, dv }, 33)
    both(function()
      return unpack(ty.grad(function(list)
        return (ty.scaled_dot_product_attention(list[1], list[2], list[3], opts) * g):sum()
      end)({ q, k, v }))
    end)
  end

  group("attention", function()
    for _, dtype in ipairs(FLOATS) do
      for _, s in ipairs { { 1, 1, 1, 1, 1 }, { 2, 17, 33, 8, 5 }, { 1, 65, 130, 64, 24 }, { 2, 129, 70, 10, 9 }, { 1, 3, 2, 300, 1 } } do
        local lead, n, m = unpack(s)
        local seen = ty.arange(n * m):mul(7):remainder(5):gt(0):reshape(n, m)
        for _, opts in ipairs { {}, { causal = true }, { mask = seen }, { mask = plain(dtype, { m }, 34), scale = 0.3 } } do
          attention(dtype, lead, n, m, s[4], s[5], opts)
        end
      end
      attention(dtype, 2, 33, 40, 9, 4, { causal = true }, true)
      ty.manual_seed(77)
      attention(dtype, 2, 70, 80, 9, 4, { causal = true, dropout = 0.3 })
    end
  end)

  group("random", function()
    for _, dtype in ipairs(FLOATS) do
      ty.manual_seed(2024)
      local opts = { dtype = dtype }
      both(function() return ty.rand({ 37, 21 }, opts), ty.randn({ 1001 }, opts) * 2 + ty.rand({ 1001 }, opts) end)
    end
    ty.manual_seed(5)
    both(function()
      return ty.randint(-50, 50, { 333 }), ty.uniform(2, 3, { 45 }), ty.normal(1, 2, { 45 }), ty.bernoulli(0.3, { 99 }),
        ty.randperm(101), ty.tensor({ 1, 2, 3, 4 }):multinomial(30, true), ty.ones(99):dropout(0.4)
    end)
    local a, w = plain("f32", { 90, 70 }, 28), plain("f32", { 70, 201 }, 29)
    both(function() return ty.rand(90, 201):lt(0.5):where(a:matmul(w), 0), ty.rand(70001) end)
  end)

  group("convolutions", function()
    for _, dtype in ipairs(FLOATS) do
      local x, w, b = plain(dtype, { 2, 3, 13, 11 }, 40), plain(dtype, { 5, 3, 3, 3 }, 41), plain(dtype, { 5 }, 42)
      both(function()
        return x:conv2d(w, b, { padding = 1 }):relu(), x:conv2d(w, nil, { stride = 2 }), x:conv2d(w, b):max_pool2d(2)
      end)
    end
  end)

  group("training", function()
    ty.manual_seed(11)
    local nn = ty.nn
    local model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 6 * 6, 32), nn.GELU(), nn.LayerNorm(32),
      nn.Dropout(0.1), nn.Linear(32, 10))
    local optimizer = ty.optim.AdamW(model:parameters(), { lr = 1e-2 })
    local x, labels = plain("f32", { 16, 1, 8, 8 }, 43), ty.arange(16, { dtype = "i64" }):remainder(10) + 1
    local step = ty.compile(function(images)
      optimizer:zero_grad()
      local loss = ty.cross_entropy(model(images), labels)
      loss:backward()
      optimizer:step()
      return loss
    end)
    for _ = 1, 12 do add(step(x):detach()) end
    for _, p in ipairs(model:parameters()) do add(p:detach()) end
  end)

  group("mapped and folded", function()
    local w, x, h = plain("f32", { 9, 9 }, 44) * 0.1, plain("f32", { 7, 5, 9 }, 45), plain("f32", { 5, 9 }, 46)
    both(function() return ty.vmap(function(row) return (row:matmul(w) + row):softmax(-1) end)(x) end)
    both(function()
      local last, all = ty.scan(function(state, row)
        local y = (state:matmul(w) + row):tanh()
        return y, y:sum(-1)
      end, h, x)
      return last, all
    end)
  end)

  return groups, order
end
