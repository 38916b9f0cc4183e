--- vmap_spec.lua -- ty.vmap against its slow reference: a loop over the examples whose results are stacked, to the bit.
-- Every operation of the table, composites, views, writes, gradients inside and outside, other vmaps, compiled and not;
-- what must raise.

local H = require "spec.helper"
local ty = H.ty
local nn = ty.nn
local F64, I64 = { dtype = "f64" }, { dtype = "i64" }

--- The slow reference, for tensors as arguments and results: which[k] = false: the same for all.
local function loop(f, which, ...)
  local args, rows, count, n = { ... }, {}, nil, select("#", ...)
  for i = 1, n do
    if which[i] ~= false then count = args[i]:size(1) end
  end
  for i = 1, count do
    local own = {}
    for k = 1, n do own[k] = which[k] ~= false and args[k][i] or args[k] end
    rows[i] = { f(unpack(own, 1, n)) }
  end
  local results = {}
  for k = 1, #rows[1] do
    local list = {}
    for i = 1, count do list[i] = rows[i][k] end
    results[k] = ty.stack(list)
  end
  return unpack(results)
end

local function in_dims(which, n)
  local dims = {}
  for i = 1, n do dims[i] = which[i] ~= false and 1 or false end
  return dims
end

--- f is the same by vmap, by vmap in a compiled function, and by the loop.
local function agrees(f, which, ...)
  local n = select("#", ...)
  local want = { loop(f, which, ...) }
  local g = ty.vmap(f, in_dims(which, n))
  local got = { g(...) }
  assert.equal(#want, #got)
  for k = 1, #want do H.same(want[k], got[k], "result " .. k) end
  return want, g
end

local function agrees_compiled(f, which, ...)
  local want, g = agrees(f, which, ...)
  local compiled = ty.compile(function(...) return g(...) end)
  for _ = 1, 2 do
    local got = { compiled(...) }
    for k = 1, #want do H.same(want[k], got[k], "compiled, result " .. k) end
  end
  local told = ty.explain(compiled)
  assert.same({}, told.aborts, tostring(told))
  assert.equal(2, told.skips)
end

--- Place i of a dim.
local function slice(x, dim, i) return x:narrow(dim, i, 1):squeeze(dim) end

local r = H.random(77)
local function rand(dtype, ...)
  local sizes, n = { ... }, 1
  for _, s in ipairs(sizes) do n = n * s end
  local v = {}
  for i = 1, n do
    if dtype == "bool" then v[i] = r.unit() < 0.5
    elseif H.is_float(dtype) then v[i] = r.range(-3, 3)
    else v[i] = r.whole(dtype == "u8" and 0 or -9, 9) end
  end
  return ty.tensor(v, { dtype = dtype }):reshape(sizes)
end

describe("every map of the table, for all examples at once,", function()
  for _, row in ipairs(H.ops) do
    local f = row.lua and row.class == "map" and ty[row.lua]
    local fits = { arith = "i32", int = "i64", bits = "bool", cmp = "i16", any = "u8" }
    for _, dtype in ipairs { "f32", "f64", "bf16", fits[row.rule] } do
      if f and row.name ~= "where" and H.meet(row.rule, dtype) then
        it(row.lua .. " in " .. dtype, function()
          if row.arity == 1 then
            agrees(f, {}, rand(dtype, 3, 4, 2))
            agrees(f, {}, rand(dtype, 3))
          else
            agrees(f, {}, rand(dtype, 3, 4, 2), rand(dtype, 3, 2))
            agrees(f, {}, rand(dtype, 3, 2), rand(dtype, 3, 4, 2))
            agrees(f, { true, false }, rand(dtype, 3, 2), rand(dtype, 4, 2))
            agrees(f, { false, true }, rand(dtype, 4, 1), rand(dtype, 3, 2))
            agrees(f, { true, false }, rand(dtype, 3), rand(dtype, 2))
          end
        end)
      end
    end
  end
  it("where", function()
    local c, a, b = rand("bool", 3, 2), rand("f32", 3, 4, 2), rand("f32", 3, 2)
    agrees(ty.where, {}, c, a, b)
    agrees(ty.where, { false, true, true }, c[1], a, b)
    agrees(ty.where, { true, false, false }, c, a[1], b[1])
    agrees(function(m, x) return ty.where(m, x, 2) end, {}, c, b)
  end)
end)

describe("what has a rule of its own", function()
  it("gives each example a result that it may write to, though it be the same for all", function()
    local own = ty.custom_grad(function(a) return a * 2, a end, function(_, g) return g * 2 end)
    for name, f in pairs { lgamma = ty.lgamma, own = own, exp = function(a) return ty.complex(a, a):exp():abs() end } do
      local x, z = ty.randn(3, 2), ty.rand(4) + 0.5
      local function loss(v, u)
        local y = f(u:clone())
        y[1] = v[1]
        y[{ { 2, 3 } }] = 0.5
        return (y * y):sum() * v:sum()
      end
      local g, h = ty.vmap(ty.grad(loss, { 1, 2 }), { 1, false })(x, z)
      for i = 1, 3 do
        local a, b = ty.grad(loss, { 1, 2 })(x[i], z)
        H.same(a, g[i], name)
        H.same(b, h[i], name)
      end
    end
  end)
end)

describe("every reduction and scan of the table,", function()
  for _, row in ipairs(H.ops) do
    local f = row.lua and (row.class == "reduce" or row.class == "scan") and ty[row.lua]
    for _, dtype in ipairs(f and { "f32", "f64", "f16", "i32" } or {}) do
      it(row.lua .. " in " .. dtype, function()
        local small, long, wide = rand(dtype, 3, 4, 5, 2), rand(dtype, 2, 9000), rand(dtype, 2, 700, 3)
        if row.class == "reduce" then
          agrees(f, {}, small)
          agrees(f, {}, rand(dtype, 3))
          agrees(f, {}, long)
        end
        for dim = 1, 3 do
          agrees(function(x) return f(x, dim) end, {}, small)
          if row.class == "reduce" then agrees(function(x) return f(x, dim, true) end, {}, small) end
        end
        agrees(function(x) return f(x, 1) end, {}, long)
        agrees(function(x) return f(x, 1) end, {}, wide)
        if row.rule == "sum" and row.class == "reduce" then
          agrees(function(x) return f(x, { 1, 3 }) end, {}, small)
        end
      end)
    end
  end
end)

describe("every product", function()
  local shapes = { { { 4, 5 }, { 5, 3 } }, { { 5 }, { 5, 3 } }, { { 4, 5 }, { 5 } }, { { 5 }, { 5 } },
    { { 2, 4, 5 }, { 5, 3 } }, { { 4, 5 }, { 2, 5, 3 } }, { { 2, 4, 5 }, { 5 } }, { { 2, 1, 4, 300 }, { 3, 300, 2 } },
    { { 4, 700 }, { 700, 1 } }, { { 0, 5 }, { 5, 3 } }, { { 4, 0 }, { 0, 3 } } }
  for _, s in ipairs(shapes) do
    for _, dtype in ipairs { "f32", "f64", "f16", "i32" } do
      it(("of [%s] and [%s] in %s"):format(table.concat(s[1], ","), table.concat(s[2], ","), dtype), function()
        local a, b = rand(dtype, 3, unpack(s[1])), rand(dtype, 3, unpack(s[2]))
        agrees(ty.matmul, {}, a, b)
        agrees(ty.matmul, { true, false }, a, b[1])
        agrees(ty.matmul, { false, true }, a[1], b)
      end)
    end
  end
end)

describe("a function of one example", function()
  local M, V = rand("f32", 4, 3, 5), rand("f32", 4, 6)
  local W, labels, index = rand("f32", 5, 2), ty.tensor({ 2, 1, 3, 3 }, I64), ty.tensor({ { 3, 1 }, { 1, 1 }, { 2, 3 },
    { 1, 2 } }, I64)
  local list = {
    softmax = { function(x) return x:softmax() end, M }, layer_norm = { function(x) return ty.layer_norm(x) end, M },
    var = { function(x) return x:var(1) end, M }, norm = { function(x) return x:norm() end, M },
    logsumexp = { function(x) return x:logsumexp(2) end, M }, gelu = { function(x) return x:gelu() end, M },
    cross_entropy = { function(x, y) return x:unsqueeze(1):cross_entropy(y:unsqueeze(1)) end, slice(M, 3, 1), labels },
    sort = { function(x) return x:sort(1, true) end, M }, topk = { function(x) return x:topk(2) end, M },
    median = { function(x) return x:median() end, M }, argsort = { function(x) return x:argsort(1) end, M },
    searchsorted = { function(x, y) return (x:sort()):searchsorted(y) end, V, V },
    einsum = { function(x) return ty.einsum("ij,jk->ki", x, W) end, M }, outer = { function(x) return x:outer(x) end, V },
    cat = { function(x) return ty.cat({ x, W:t(), x * 2 }, 1) end, M },
    stack = { function(x) return ty.stack({ x, x * x }, 2) end, V }, pad = { function(x) return x:pad { 1, { 0, 2 } } end, M },
    gather = { function(x, i) return x:gather(1, i:unsqueeze(1)) end, M, index },
    gather_shared = { function(i) return W:gather(1, i:unsqueeze(1)) end, index },
    rows = { function(x, i) return x[i] end, M, index }, embedding = { function(i) return W[i] end, index },
    index_select = { function(x, i) return x:index_select(1, i) end, M, index },
    scatter = { function(x, i) return ty.zeros(3):scatter(1, i, x[{ { 1, 2 } }]) end, V, index },
    scatter_add = { function(x, i) return x:scatter_add(1, i, x[{ { 3, 4 } }]) end, V, index },
    index_add = { function(x, i) return x:index_add(1, i, x[{ { 1, 2 } }]) end, M, index },
    one_hot = { function(i) return ty.one_hot(i, 4) end, index }, flip = { function(x) return x:flip(1) end, M },
    roll = { function(x) return x:roll(2, 2) end, M }, tril = { function(x) return x:tril() end, M },
    repeated = { function(x) return x:repeat_interleave(2, 1) end, M }, tile = { function(x) return x:tile(2, 2) end, M },
    view = { function(x) return x:t():reshape(15):view(5, 3)[{ { 1, 4, 2 }, 2 }] end, M },
    unfold = { function(x) return x:unfold(1, 3, 1) end, V }, diagonal = { function(x) return x:diagonal() end, M },
    bits = { function(x) return x:view_as("i32") end, M }, to = { function(x) return x:to("f16") end, M },
    take = { function(x, i) return x:take(i) end, M, index }, clamp = { function(x) return x:clamp(-1, 1) end, M },
    masked_fill = { function(x) return x:masked_fill(x:gt(0), 7) end, M },
    mask = { function(x) local y = x * 1; y[x:gt(0)] = 0; return y end, M },
    write = { function(x) local y = ty.zeros(4, 5); y[1] = x:sum(); y[{ { 2, 3 }, 2 }] = x[{ { 1, 2 }, 1 }]; return y end, M },
    write_all = { function(x) local y = ty.ones_like(x); local z = y[2]; y:mul_(x); return z + y end, M },
    write_number = { function(x) local y = x:clone(); y:fill_(3); y[1]:add_(x[1]); return y end, M },
    rows_of = { function(x) local s = ty.zeros(5); for _, row in x:rows() do s = s + row:exp() end; return s end, M },
    conv1d = { function(x) return ty.conv1d(x:unsqueeze(1), W[{ { 1, 3 } }]:reshape(2, 3, 1)) end, M },
    max_pool = { function(x) return ty.max_pool1d(x:unsqueeze(1), 2) end, M },
    attention = { function(x) return ty.scaled_dot_product_attention(x:unsqueeze(1), x:unsqueeze(1), x:unsqueeze(1)) end, M },
    number = { function(x) return x[1]:sum() * 2, ty.full({ 2 }, 3), x end, M },
    branch = { function(x) if x.ndim == 2 and x:size(1) == 3 then return x * 2 end; return x end, M },
    own_example = { function(x) return ty.arange(5) * x end, M },
    comparison = { function(x) return x:isclose(W:sum()), x:isnan() end, M },
    all = { function(x) return x:gt(0):all(), x:gt(0):any(1) end, M },
    solve = { function(x, b) return ty.linalg.solve(x:matmul(x:t()) + ty.eye(3), b[{ { 1, 3 } }]) end, M, V },
    solve_columns = { function(x) return ty.linalg.solve(x:matmul(x:t()) + ty.eye(3), x) end, M },
    solve_shared = { function(b) return ty.linalg.solve(W:t():matmul(W), b[{ { 1, 2 } }]) end, V }, inv =
      { function(x) return ty.linalg.inv(x:matmul(x:t())) end, M },
    det = { function(x) return ty.linalg.det(x:matmul(x:t())) end, M }, qr = { function(x) return ty.linalg.qr(x) end, M },
    svd = { function(x) return ty.linalg.svd(x) end, M }, eigh = { function(x) return ty.linalg.eigh(x:matmul(x:t())) end, M },
    cholesky = { function(x) return ty.linalg.cholesky(x:matmul(x:t()) + ty.eye(3)) end, M },
    lstsq = { function(x) return ty.linalg.lstsq(x:t(), x[1]) end, M },
  }
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  local lapack = { solve = 1, solve_columns = 1, solve_shared = 1, inv = 1, det = 1, qr = 1, svd = 1, eigh = 1, cholesky = 1,
    lstsq = 1 }
  for _, name in ipairs(names) do
    it(name .. " is the same for all at once, compiled too", function()
      local f = list[name][1]
      if lapack[name] then agrees(f, {}, unpack(list[name], 2)) else agrees_compiled(f, {}, unpack(list[name], 2)) end
    end)
  end

  it("with layers of a network", function()
    ty.manual_seed(1)
    local m = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    agrees_compiled(function(x) return m(x):detach() end, {}, M)
    local t = nn.TransformerBlock(8, 2)
    agrees(function(x) return t(x:unsqueeze(1)):detach() end, {}, rand("f32", 4, 3, 8))
    local c = nn.Sequential(nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.GELU(), nn.MaxPool2d(2), nn.Flatten())
    agrees(function(x) return c(x:unsqueeze(1)):detach() end, {}, rand("f32", 4, 1, 8, 8))
  end)

  it("with a batch norm, whose running means may be of each example, or left out, but not shared", function()
    local x = rand("f32", 3, 8, 4)
    for _, opts in ipairs { { track = false }, { track = false, affine = false } } do
      local norm = nn.BatchNorm1d(4, opts)
      agrees(function(v) return norm(v):detach() end, {}, x)
      agrees(ty.grad(function(v) return norm(v):sin():sum() end), {}, x)
    end
    local shared, seen = nn.BatchNorm1d(4), rand("f32", 8, 4)
    local message = H.raises(function() ty.vmap(function(v) return shared(v) end)(x) end)
    assert.truthy(message:find("BatchNorm1d: in training inside of ty.vmap every example has moments", 1, true), message)
    assert.same({ 0, 0, 0, 0 }, H.list(shared.running_mean)) -- nothing was written before
    assert.same({ 1, 1, 1, 1 }, H.list(shared.running_var))
    ty.vmap(function(v) return v + shared(seen):sum() end)(x) -- one batch for all
    local once = nn.BatchNorm1d(4)
    once(seen)
    H.same(once.running_var, shared.running_var)
    shared:eval()
    agrees(function(v) return shared(v):detach() end, {}, x)
    shared:train()
    -- Models side by side: everything of the module has a dim of models.
    local function fields(fn)
      return setmetatable({ training = true, channels = 4, eps = 1e-5, momentum = 0.1, weight = fn(ty.ones(4)),
        bias = fn(ty.zeros(4)), running_mean = fn(ty.zeros(4)), running_var = fn(ty.ones(4)) }, nn.BatchNorm1d)
    end
    local many = fields(function(t) return t:unsqueeze(1):expand({ 3, 4 }):clone() end)
    local got = ty.vmap(function(m, v) return m(v) end)(many, x)
    for i = 1, 3 do
      local one = nn.BatchNorm1d(4)
      H.same(one(x[i]):detach(), got[i])
      H.same(one.running_mean, many.running_mean[i])
      H.same(one.running_var, many.running_var[i])
    end
  end)

  it("of many models: parameters with a dim of models", function()
    local W1, W2, x = rand("f32", 6, 5, 4), rand("f32", 6, 4, 2), rand("f32", 7, 5)
    local function model(p, v) return v:matmul(p[1]):tanh():matmul(p.out) end
    local got = ty.vmap(model, { { 1, out = 1 }, false })({ W1, out = W2 }, x)
    for i = 1, 6 do H.same(model({ W1[i], out = W2[i] }, x), got[i]) end
  end)

  it("for one example and for none", function()
    local f = function(x) return x:softmax() * x:sum(), x:argmax(), x[{ { 1, 2 } }] end
    agrees(f, {}, rand("f32", 1, 5))
    local a, b, c = ty.vmap(f)(ty.zeros(0, 5))
    assert.same({ 0, 5 }, a.shape)
    assert.same({ 0 }, b.shape)
    assert.same({ 0, 2 }, c.shape)
  end)
end)

describe("dims of examples", function()
  local X = rand("f32", 3, 4, 5)

  it("are anywhere, in arguments and results", function()
    for dim = 1, 3 do
      for out = 1, 3 do
        local want = {}
        for i = 1, X:size(dim) do want[i] = slice(X, dim, i) * slice(X, dim, i):sum() end
        local got = ty.vmap(function(x) return x * x:sum() end, dim, out)(X)
        H.same(ty.stack(want, out), got)
        H.same(got, ty.vmap(function(x) return x * x:sum() end, dim - 4, out - 4)(X))
      end
    end
  end)

  it("of views: turned, reversed, with steps, repeated", function()
    local f = function(x) return x:cumsum(1) * x:max() end
    for _, v in ipairs { X:transpose(1, 2), X:flip(1), X[{ { 1, 3, 2 } }], X[1]:expand(6, 4, 5), X:permute(3, 1, 2), X[{ {}, 2 }] } do
      agrees(f, {}, v)
    end
  end)

  it("follow the nesting of tables, and repeat what is the same for all", function()
    local y = ty.vmap(function(p, k) return { sum = p.a + p.list[1] * k, same = p.list[1], { p.a } }, k end,
      { { a = 2, list = { false } }, false }, { { sum = 1, same = false, { 2 } }, false })(
      { a = X[1], list = { ty.ones(4) } }, 3)
    H.same(X[1]:t() + 3, y.sum)
    H.same(ty.ones(4), y.same)
    H.same(X[1], y[1][1])
    local a, b = ty.vmap(function() return 7, ty.arange(2) end)(X)
    assert.equal(7, a)
    assert.same({ 3, 2 }, b.shape)
  end)

  it("are met by other vmaps inside", function()
    local A, B = rand("f32", 3, 4), rand("f32", 2, 4)
    local got = ty.vmap(function(a) return ty.vmap(function(b) return (a * b):sum() end)(B) end)(A)
    assert.same({ 3, 2 }, got.shape)
    for i = 1, 3 do
      for j = 1, 2 do H.same((A[i] * B[j]):sum(), got[i][j]) end
    end
    local pairs_of = ty.vmap(ty.vmap(function(a, b) return a:matmul(b) end, { false, 1 }), { 1, false })
    H.same(got, pairs_of(A, B))
    agrees_compiled(ty.vmap(function(x) return x:softmax():cumsum(1) end, 2, 2), {}, X)
    agrees(ty.vmap(function(x)
      local y = ty.zeros(2)
      y[1] = x:sum()
      return y
    end), {}, X)
  end)
end)

describe("writes in place", function()
  it("reach the argument, as they reach slices of it", function()
    for _, dim in ipairs { 1, 2 } do
      local a = rand("f32", 3, 4)
      local b = a:clone()
      local function f(x)
        x:mul_(2)
        x[2] = x[1] + 1
        return x:sum()
      end
      local sums = {}
      for i = 1, a:size(dim) do sums[i] = f(slice(a, dim, i)) end
      H.same(ty.stack(sums), ty.vmap(f, dim)(b))
      H.same(a, b)
    end
  end)

  it("are seen where a tensor is given twice", function()
    local function f(a, b)
      a:mul_(2)
      return a + b
    end
    for _, dim in ipairs { 1, 2 } do
      local a = rand("f32", 3, 4)
      local b, c, other, rows = a:clone(), a:clone(), rand("f32", 3, 4), {}
      for i = 1, a:size(dim) do rows[i] = f(slice(a, dim, i), slice(a, dim, i)) end
      local g = ty.vmap(f, dim)
      local compiled = ty.compile(g)
      H.same(ty.stack(rows), g(b, b))
      H.same(ty.stack(rows), compiled(c, c))
      H.same(a, b)
      H.same(a, c)
      H.same(g(b, other), compiled(c, other))
      H.same(b, c)
      local t, want = { x = b }, b:t() * 10
      H.same(want, ty.vmap(function(x, y) return f(f(x.x, y), y) end, { { x = 2 }, 2 })(t, b))
    end
  end)

  it("reach the argument from compiled functions", function()
    local function f(x) return ty.vmap(function(v) v:add_(1) return v[1] * 2 end, 2)(x) end
    local compiled = ty.compile(f)
    local a, b = ty.zeros(3, 4), ty.zeros(3, 4)
    for _ = 1, 3 do
      H.same(f(a), compiled(b))
      H.same(a, b)
    end
    assert.same({}, ty.explain(compiled).aborts)
  end)

  it("leave results alone", function()
    local x = rand("f32", 3, 4)
    local y, z = ty.vmap(function(v) return v, v[{ { 1, 2 } }] end)(x)
    local was = x:clone()
    y:zero_()
    z:zero_()
    H.same(was, x)
  end)

  it("are as in a loop, or refused, where arguments share memory", function()
    local function add(a, b)
      a:add_(b)
      return (a * 2 + b):sum()
    end
    local function views(cut, dims) -- of one matrix, once for all examples and once in a loop
      local x = rand("f32", 4, 4)
      local y = x:clone()
      local a, b = cut(x)
      local c, d = cut(y)
      local p, q = dims and dims[1] or 1, dims and dims[2]
      if q == nil then q = 1 end
      local want = {}
      for i = 1, c:size(p) do want[i] = add(c:narrow(p, i, 1):squeeze(p), q and d:narrow(q, i, 1):squeeze(q) or d) end
      local ok, got = pcall(ty.vmap(add, dims or 1), a, b)
      if ok then
        H.same(ty.stack(want), got)
        H.same(y, x)
      else
        assert.truthy(got:find("vmap: the function writes to an argument, f32[", 1, true), got)
        assert.truthy(got:find("that shares memory with another one, f32[", 1, true), got)
      end
      local again = rand("f32", 4, 4)
      assert.equal(ok, (pcall(ty.compile(function(u, v) return ty.vmap(add, dims or 1)(u, v) end), cut(again))))
      return ok
    end
    local function columns(i, n, k, m) return function(x) return x:narrow(2, i, n), x:narrow(2, k, m) end end
    assert.is_true(views(function(x) return x, x end))
    assert.is_true(views(function(x) return x, x:detach() end))
    assert.is_true(views(function(x) return x:narrow(1, 1, 2), x:narrow(1, 3, 2) end))
    assert.is_true(views(function(x) return x[{ { 1, 3, 2 } }], x[{ { 2, 4, 2 } }] end))
    assert.is_true(views(columns(1, 2, 3, 2)))
    assert.is_true(views(columns(1, 3, 2, 3)))
    assert.is_true(views(function(x) return x:narrow(1, 1, 2):t(), x:narrow(1, 3, 2):t() end))
    assert.is_true(views(function(x) return x:flip(1):narrow(1, 1, 2), x:narrow(1, 1, 2) end))
    assert.is_true(views(function(x) return x:narrow(1, 1, 3), x[4] end, { 1, false }))
    assert.is_false(views(function(x) return x:narrow(1, 1, 3), x:narrow(1, 2, 3) end))
    assert.is_false(views(function(x) return x, x:t() end))
    assert.is_false(views(function(x) return x, x end, { 1, 2 }))
    assert.is_false(views(function(x) return x, x:flip(1) end))
    assert.is_false(views(function(x) return x, x[2] end, { 1, false }))
    assert.is_false(views(function(x) return x:t(), x:t():detach() end))
    local x = rand("f32", 4, 4)
    ty.vmap(function(a, b) return a + b end)(x, x:t()) -- nothing is written
  end)

  it("may not give a shared tensor different values", function()
    local shared, x = ty.zeros(4), rand("f32", 3, 4)
    assert.equal("add_: different values for each example of a vmap are written to a tensor that all share " ..
      "(make it inside, or clone it there)", H.raises(function() ty.vmap(function(v) shared:add_(v) return v end)(x) end))
    ty.vmap(function(v) shared:add_(1) return v end)(x)
    assert.same({ 1, 1, 1, 1 }, H.list(shared))
    H.same(x + 1, ty.vmap(function(v) return shared:clone():add_(v) end)(x))
  end)
end)

describe("gradients", function()
  local X, W, K = rand("f64", 5, 3), rand("f64", 3, 2), rand("f64", 3)
  local function model(x, w) return (x:matmul(w):tanh() * x[1]):sum() end
  local function all(f, ...) return loop(f, { true, false }, ...) end
  local function close(a, b)
    assert.truthy((a - b):abs():max():item() < 1e-13 * (1 + a:abs():max():item()))
  end

  it("inside are those of each example", function()
    agrees_compiled(ty.grad(model, { 1, 2 }), { true, false }, X, W)
    agrees_compiled(ty.value_and_grad(model), { true, false }, X, W)
    agrees(ty.grad(function(x) return ty.grad(function(v) return (v * v * v):sum() end)(x):sum() end), {}, X)
    agrees(function(x) return ty.jvp(function(v) return v:sin() * v end, x, K) end, {}, X)
  end)

  local rows = {
    map = function(x, w) return (x:exp() * w[1][1]):sum() end, product = model,
    views = function(x, w) return (x[{ { 1, 2 } }] * w[{ 2, {} }] * x:flip(1)[{ { 1, 2 } }]):sum() end,
    writes = function(x, w)
      local y = ty.zeros(4, F64)
      y[1] = x[2] * w[1][2]
      y[{ { 2, 4 } }] = x:sin()
      y:mul_(x:sum())
      return (y * y):sum()
    end,
    written = function(x, w)
      local y = x * 2
      y[2] = w[1][1]
      y:add_(x)
      return (y * w:sum(2)):sum()
    end,
    written_shared = function(x, w)
      local y = w:sum(2) * 2
      y[1] = x[1]
      return (y * y):sum()
    end,
    written_product = function(x, w)
      local y = w:sum(2) * 1
      y:mul_(x)
      return (y * x):sum()
    end,
    gradient_alone = function(x, w)
      return ty.grad(function(v) return (v * v * v):sum() end)(x):sum() + w:detach():sum()
    end,
    gather = function(x, w) return (w[ty.tensor({ 3, 1 }, I64)]:sum(2) * x[ty.tensor({ 1, 1 }, I64)]):sum() end,
    detached = function(x, w) return (x * x:detach() * w:detach():sum(2) * w[1][1]):sum() end,
    no_grad = function(x, w) return (x * ty.no_grad(function() return x * w[1][1] end)):sum() end,
    scans = function(x, w) return (x:cumprod(1) * w:logcumsumexp(1):sum(2)):sum() end,
    reductions = function(x, w) return x:norm() * x:max() * w:prod() + x:softmax():var() end,
    sorted = function(x, w) return ((x:sort()) * w:sum(2)):sum() end,
    cat = function(x, w) return (ty.cat { x, w[1], x * x } * ty.arange(8, F64)):sum() end,
    solve = function(x, w) return ty.linalg.solve(x:outer(x) + ty.eye(3, F64) * w:sum():exp(), x):sum() end,
    det = function(x, w) return ty.linalg.det(x:outer(x) + ty.eye(3, F64) * w[1][1]) end,
    checkpoint = function(x, w) return ty.checkpoint(function(v) return (v * w:sum(2)):sin():sum() end, x) end,
    checkpoint_closed = function(x, w) return ty.checkpoint(function() return (x * w:sum(2)):sin():sum() end) end,
    gradient = function(x, w) return (ty.grad(model)(x, w) * x):sum() end,
    gradient_2 = function(x, w) return (ty.grad(model, 2)(x, w) ^ 2):sum() end,
    vmap = function(x, w) return ty.vmap(function(v) return (v * x[1]):sin():sum() end)(w):sum() end,
  }
  rows.custom = function(x, w)
    local f = ty.custom_grad(function(a, b) return a * b:sum(), b end, function(s, g)
      return g * 5, (g * 3):sum() * s
    end)
    return f(x, w[{ {}, 1 }]):sum()
  end
  local names = {}
  for name in pairs(rows) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it("outside go through all examples: " .. name, function()
      local f = rows[name]
      local function outer(run) return function(x, w) return (run(f, x, w) ^ 2):sum() end end
      local by_vmap = outer(function(g, x, w) return ty.vmap(g, { 1, false })(x, w) end)
      local p, q = ty.grad(outer(all), { 1, 2 })(X, W)
      local a, b = ty.grad(by_vmap, { 1, 2 })(X, W)
      close(p, a)
      close(q, b)
      local x, w = X:clone():requires_grad_(), W:clone():requires_grad_()
      by_vmap(x, w):backward()
      close(p, x.grad)
      close(q, w.grad or q) -- none came
    end)
    it("inside, of each example: " .. name, function()
      local want = { loop(ty.grad(rows[name], { 1, 2 }), { true, false }, X, W) }
      local got = { ty.vmap(ty.grad(rows[name], { 1, 2 }), { 1, false })(X, W) }
      for k = 1, 2 do close(want[k], got[k]) end
    end)
  end

  it("of a compiled step clip the gradient of each example", function()
    local function learner()
      ty.manual_seed(5)
      local p = { ty.randn(3, 2), ty.zeros(2) }
      local each = ty.vmap(ty.grad(function(w, x, y) return ((x:matmul(w[1]) + w[2] - y) ^ 2):sum() end), { false, 1, 1 })
      return p, function(x, y)
        local g = each(p, x, y)
        for i, w in ipairs(p) do
          local flat = g[i]:reshape(x:size(1), w:numel())
          local scale = (1 / (flat:norm(2, 2, true) + 1e-6)):minimum(1)
          w:sub_(((flat * scale):mean(1) * 0.1):reshape(w.shape))
        end
        return p[1]:sum()
      end
    end
    local p, step = learner()
    local q, other = learner()
    local compiled = ty.compile(other)
    for n = 1, 6 do
      local x, y = ty.randn(4 + n % 2, 3), ty.randn(4 + n % 2, 2)
      H.same(step(x, y), compiled(x, y))
      for i = 1, 2 do H.same(p[i], q[i]) end
    end
    assert.same({}, ty.explain(compiled).aborts)
  end)

  it("may not reach a leaf from outside for each example", function()
    local w = K:clone():requires_grad_()
    assert.truthy(H.raises(function() ty.vmap(function(x) (x * w):sum():backward() return x end)(X) end)
      :find("a leaf from outside of a vmap would get a gradient for each example", 1, true))
    assert.is_nil(w.grad)
  end)

  it("leave nothing behind", function()
    collectgarbage()
    collectgarbage()
    local before = ty.internals.grad.live()
    for _ = 1, 3 do
      ty.grad(function(x) return ty.vmap(ty.grad(model), { 1, false })(x, W):sum() end)(X)
      pcall(ty.vmap(ty.grad(function() error "no" end)), X)
    end
    collectgarbage()
    collectgarbage()
    assert.truthy(ty.internals.grad.live() <= before)
  end)
end)

describe("Jacobians and Hessians", function()
  local x, A = rand("f64", 3), rand("f64", 4, 3)
  local function far(a, b) return (a - b):abs():max():item() end

  it("hold all derivatives", function()
    local f = function(v) return A:matmul(v):sin() end
    local J = ty.jacobian(f)(x)
    assert.truthy(far(A:matmul(x):cos():unsqueeze(2) * A, J) < 1e-14)
    for i = 1, 4 do H.same(ty.grad(function(v) return f(v)[i] end)(x), J[i]) end
    local Ja, Jb = ty.jacobian(function(a, b) return a:outer(b) end, { 1, 2 })(x, A[1])
    assert.same({ 3, 3, 3 }, Ja.shape)
    assert.equal(0, far(ty.eye(3, F64):unsqueeze(2) * A[1]:reshape(1, 3, 1), Ja))
    assert.equal(0, far(ty.eye(3, F64):unsqueeze(1) * x:reshape(3, 1, 1), Jb))
    assert.same({ 2, 3 }, ty.jacobian(function() return ty.ones(2, F64) end)(x).shape)
    assert.equal("jacobian: the function must give a float tensor, got number 5",
      H.raises(ty.jacobian(function() return 5 end), x))
    assert.truthy(H.raises(ty.jacobian, f, { mode = 1 }):find("^jacobian: argument 2 must be the number of an argument"))
    assert.equal("jacobian: argument 2 is asked for, the function was given 1", H.raises(ty.jacobian(f, 2), x))
    assert.truthy(H.raises(ty.jacobian(f), ty.ones({ 2 }, I64)):find("must be of floats", 1, true))
  end)

  it("of attention, whose result no example has for itself", function()
    local q, k = rand("f64", 3, 2), rand("f64", 4, 2)
    for which, f in ipairs { function(v) return ty.scaled_dot_product_attention(v, k, k) end,
      function(v) return ty.scaled_dot_product_attention(k, v, v, { causal = true }) end, function(v)
        ty.manual_seed(3)
        return ty.scaled_dot_product_attention(k, v, v, { dropout = 0.5 })
      end } do
      local J = ty.jacobian(f)(q)
      local h = ty.hessian(function(v) return f(v):square():sum() end)(q)
      assert.same({ which == 1 and 3 or 4, 2, 3, 2 }, J.shape)
      H.same(J, ty.compile(ty.jacobian(f))(q))
      for i = 1, 3 do
        for j = 1, 2 do
          local e = ty.zeros(3, 2, F64)
          e[i][j] = 1e-6
          assert.truthy(far((f(q + e) - f(q - e)) / 2e-6, J[{ {}, {}, i, j }]) < 1e-8)
          local g = ty.grad(function(v) return f(v):square():sum() end)
          assert.truthy(far((g(q + e) - g(q - e)) / 2e-6, h[{ {}, {}, i, j }]) < 1e-8)
        end
      end
    end
  end)

  it("of the second order, in compiled functions, for many points, differentiated", function()
    local f = function(v) return (A:matmul(v):tanh() * v:sum()):sum() end
    local Hf = ty.hessian(f)
    local h, eps = Hf(x), 1e-6
    for i = 1, 3 do
      local e = ty.zeros(3, F64)
      e[i] = eps
      assert.truthy(far((ty.grad(f)(x + e) - ty.grad(f)(x - e)) / (2 * eps), h[i]) < 1e-8)
    end
    agrees_compiled(Hf, {}, rand("f64", 4, 3))
    local g = ty.grad(function(w) return ty.hessian(function(v) return (v * v * v * w):sum() end)(x):sum() end)(A[1])
    assert.truthy(far(6 * x, g) < 1e-13)
  end)
end)

describe("random numbers", function()
  local X = ty.zeros(4, 3)

  it("are an error unless it is said which", function()
    assert.equal("vmap: random numbers need {randomness = \"different\"} for each example, or \"same\"",
      H.raises(function() ty.vmap(function(x) return x + ty.randn(3) end)(X) end))
    assert.truthy(H.raises(ty.vmap, ty.exp, 1, 1, { randomness = "some" }):find("randomness must be", 1, true))
  end)

  it("differ from example to example, or are the same, in every mode", function()
    local function draws(x) return x + ty.randn(3), ty.rand_like(x), ty.bernoulli(x + 0.5), ty.randperm(5) end
    for _, kind in ipairs { "different", "same" } do
      local f = ty.vmap(draws, { randomness = kind })
      local compiled = ty.compile(function(x) return f(x) end)
      for n = 1, 3 do
        ty.manual_seed(n)
        local want = { f(X) }
        ty.manual_seed(n)
        local got = { compiled(X) }
        for k = 1, 4 do
          H.same(want[k], got[k])
          local all_same = ty.equal(want[k], want[k][1]:expand(4, want[k]:size(2)))
          if k ~= 3 then assert.equal(kind == "same", all_same) end
        end
      end
      assert.same({}, ty.explain(compiled).aborts)
    end
    local permutations = ty.vmap(function() return ty.randperm(6) end, { randomness = "different" })(X)
    for i = 1, 4 do assert.same({ 1, 2, 3, 4, 5, 6 }, H.list((permutations[i]:sort()))) end
  end)

  it("follow each vmap's own choice", function()
    local function inner(x) return ty.vmap(function(v) return v + ty.rand({}) end, { randomness = "same" })(x) end
    local y = ty.vmap(inner, { randomness = "different" })(X)
    for i = 1, 4 do H.same(y[i][1]:expand(3), y[i]) end
    assert.falsy(ty.equal(y[1], y[2]))
    local z = ty.vmap(function(x)
      return ty.vmap(function(v) return v + ty.rand({}) end, { randomness = "different" })(x)
    end, { randomness = "same" })(X)
    H.same(z[1]:expand(4, 3), z)
    assert.falsy(ty.equal(z[1][1], z[1][2]))
  end)
end)

describe("errors", function()
  local X = rand("f32", 5, 3)
  local function raised(f, ...) return H.raises(ty.vmap(f, ...), X, ty.ones(4)) end
  local first = function(x) return x end

  it("tell what is wrong with arguments", function()
    assert.equal("vmap: argument 1 must be a function, got number 3", H.raises(ty.vmap, 3))
    assert.equal("vmap: sizes differ: 5 along dim 1 of f32[5,3], 4 along dim 1 of f32[4]", raised(first))
    assert.equal("vmap: in_dims: dim 3 of f32[5,3] is out of range (2 dims)", raised(first, 3))
    assert.equal("vmap: no argument has a dim of examples", raised(first, { false, false }))
    assert.equal("vmap: no argument has a dim of examples", H.raises(ty.vmap(first), 2))
    assert.equal("vmap: argument 2 (in_dims) must be a dim, false, or a table of them, got number 0",
      H.raises(ty.vmap, first, 0))
    assert.truthy(H.raises(ty.vmap, first, { "a" }):find("argument 2 (in_dims)", 1, true))
    assert.equal("vmap: out_dims: dim 4 of f32[3] is out of range (2 dims)", H.raises(ty.vmap(first, 1, 4), X))
    assert.equal("vmap: out_dims has no dim for f32[3], which differs from example to example",
      H.raises(ty.vmap(first, 1, false), X))
    assert.truthy(H.raises(ty.vmap, first, { speed = 3 }):find("speed", 1, true))
  end)

  it("are those of one example where operations do not fit", function()
    assert.equal("add: sizes do not broadcast, f32[3] and f32[2]",
      H.raises(ty.vmap(function(x) return x + ty.ones(2) end), X))
    assert.equal("matmul: inner sizes differ, f32[3] x f32[2,2]",
      H.raises(ty.vmap(function(x) return x:matmul(ty.ones(2, 2)) end), X))
    assert.truthy(H.raises(ty.vmap(function(x) return x:sum(2) end), X):find("sum: dim 2", 1, true))
  end)

  it("name the reading of values, and leave no vmap open", function()
    for _, f in ipairs { function(x) return x:sum():item() end, function(x) return x:totable() end, ty.unique,
      function(x) return x:data() end, function(x) return x:get(1) end, function(x) return x:nonzero() end } do
      assert.truthy(H.raises(ty.vmap(f), X):find("the values of a batched tensor are read", 1, true))
    end
    assert.same({ 2 }, ty.randn(2).shape) -- no level is open
    local leaked
    ty.vmap(function(x) leaked = x return x end)(X)
    assert.truthy(H.raises(leaked.totable, leaked):find("batched", 1, true))
    local double = ty.compile(function(x) return x * 2 end)
    for _ = 1, 3 do double(X[1]) end
    assert.truthy(H.raises(leaked.totable, double(leaked)):find("batched", 1, true))
    H.same(X[1] * 2, double(X[1]))
  end)

  it("leave printing alone, which shows all examples", function()
    local A, B, text = ty.tensor { { 1, 2 }, { 3, 4 } }, ty.tensor { 5, 6, 7 }, {}
    ty.vmap(function(a)
      text[1] = tostring(a)
      ty.vmap(function(b) text[2] = tostring(a[1] * b) return b end)(B)
      return a
    end)(A)
    assert.equal(tostring(A) .. " of all examples", text[1])
    assert.equal(tostring(A[{ {}, { 1, 1 } }] * B) .. " of all examples", text[2])
  end)

  it("of eight dims: there is no room for the batch", function()
    assert.truthy(H.raises(ty.vmap(function(x) return x:reshape(1, 1, 1, 1, 1, 1, 1, 3) + 1 end), X)
      :find("no room for the batch", 1, true))
  end)
end)

describe("functions that are compiled", function()
  it("run inside of a vmap as they are written", function()
    local f = ty.compile(function(x) return x:softmax() * x:sum() end)
    local X = rand("f32", 5, 3)
    for _ = 1, 3 do f(X[1]) end
    agrees(f, {}, X)
  end)

  it("serve batches of other sizes with one capture", function()
    local compiled = ty.compile(function(x) return ty.vmap(function(v) return v:softmax() * v:sum() end)(x) end,
      { dynamic = true })
    for n = 1, 6 do
      local x = rand("f32", n + 1, 3)
      H.same(x:softmax() * x:sum(2, true), compiled(x))
    end
    assert.equal(1, ty.explain(compiled).captures)
  end)
end)
