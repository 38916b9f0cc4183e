-- cuda_spec.lua -- the device "cuda", on the software GPU: bits are the CPU's; what goes wrong is said. `make test-cuda` runs
-- more specs there.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.loaded and it or pending
ty.device "cpu" -- also where CUDA_DEFAULT says otherwise: here both are asked for by name

local function moved(v) return type(v) == "userdata" and v:to "cuda" or v end

--- The same calls on both devices give the same bits.
local function same(what, f, ...)
  local there = {}
  for i = 1, select("#", ...) do there[i] = moved((select(i, ...))) end
  local want, got = { f(...) }, { f(unpack(there)) }
  for i = 1, #want do
    assert.equal("cuda", got[i].device)
    H.same(want[i], got[i]:to "cpu", what .. " " .. i)
  end
end

local function raises(pattern, f)
  local ok, message = pcall(f)
  assert.falsy(ok)
  assert.truthy(tostring(message):find(pattern), tostring(message))
end

--- Numbers of either sign, of few digits.
local function numbers(dtype, ...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return ((ty.arange(n, { dtype = "f64" }) * 1.7 + 0.3):sin() * 20):to(dtype):reshape { ... }
end

describe("a tensor on cuda", function()
  probe("tells where it lies, and comes back as it was", function()
    for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "bool" } do
      local x = H.mixed(dtype, { 3, 5 }, 1)
      local y = x:to "cuda"
      assert.equal("cuda", y.device)
      H.same(x, y:to "cpu")
      H.same(x:t():clone(), y:t():clone():to "cpu")
    end
    local y = ty.full({ 2 }, 1.5, { device = "cuda:0" })
    assert.truthy(tostring(y):find("[f32 2 cuda]", 1, true))
    assert.equal(1.5, y:get(2))
    assert.equal(3, y:sum():item())
    y:set(1, 4)
    assert.same({ 4, 1.5 }, y:totable())
  end)

  probe("does not mix with one elsewhere: the error names both", function()
    local here, there = ty.ones(2), ty.ones(2, { device = "cuda" })
    raises('add: operands lie on "cpu" and "cuda"', function() return here + there end)
    raises('einsum: operands lie on "cpu" and "cuda"', function() return ty.einsum("i,i->", here, there) end)
    raises('tensordot: operands lie on "cuda" and "cpu"', function() return ty.tensordot(there, here, 1) end)
    local rule = ty.custom_grad(function(x) return x * 2, x end, function() return there end)
    raises("custom_grad: the gradient of input 1 must be f32%[2%], got f32%[2%]@cuda", function()
      rule(ty.ones(2):requires_grad_()):sum():backward()
    end)
    local n = #ty.cuda.devices()
    local _, why = ty.device("cuda:" .. n)
    assert.truthy(why:find(('device "cuda:%d" is not available: there %%a+ %d CUDA devices?, and numbers begin at 0'):format(n, n)), why)
    for _, name in ipairs { "cuda:", "cuda:x", "cuda:01", "cuda:-1", "cuda:1.5" } do
      _, why = ty.device(name)
      assert.truthy(why:find('CUDA devices are named "cuda", "cuda:1" and so on', 1, true), why)
    end
  end)

  probe("has its memory counted, cached and given back", function()
    local x = ty.zeros(1000000, { device = "cuda" })
    local was = ty.cuda.memory()
    assert.truthy(was.used >= 4000000 and was.peak >= was.used and was.total >= was.free, was.used)
    x:release()
    local now = ty.cuda.memory()
    assert.truthy(now.used <= was.used - 4000000)
    assert.truthy(now.cached >= was.cached + 4000000)
    ty.cuda.empty_cache()
    assert.equal(0, ty.cuda.memory().cached)
    assert.equal("cuda", ty.cuda.devices()[1].device)
  end)
end)

local FLOATS, ALL = { "f32", "f64", "f16", "bf16" }, { "f32", "f64", "f16", "bf16", "i32", "i64", "i8", "i16", "u8" }

describe("loop programs on cuda give the CPU's bits:", function()
  local function each(name, dtypes, f, ...)
    local sizes = { ... }
    probe(name, function()
      for _, dtype in ipairs(dtypes) do same(dtype, f, numbers(dtype, unpack(sizes))) end
    end)
  end
  local function specials(name, dtypes, f)
    probe(name, function()
      for _, dtype in ipairs(dtypes) do
        same(dtype, f, H.mixed(dtype, { 300 }, 1), H.mixed(dtype, { 300 }, 2))
      end
    end)
  end
  specials("arithmetic, extremes, comparisons of NaN, -0, infinities, denormals", FLOATS, function(x, y)
    return x + y, x - y, x * y, x / y, x:maximum(y), x:minimum(y), x:lt(y), x:eq(y), x:abs():sqrt(), -x, x:floor(), x:round(),
      x:ceil(), x:trunc(), x:copysign(y)
  end)
  specials("functions", { "f32", "f64" }, function(x, y)
    return x:exp(), x:abs():log(), x:sin(), x:tanh(), x:erf(), x:abs():pow(y), x:atan2(y), x:erfinv(), x:expm1()
  end)
  specials("integers wrap, divide, shift", { "i32", "i64", "i8", "i16", "u8" }, function(x, y)
    return x + y, x * y, x:floor_divide(y), x % y, x:fmod(y), x:lshift(y), x:rshift(y), x:bitwise_and(y), x:bitwise_xor(y),
      x:maximum(y), x:abs()
  end)
  each("maps across what they store, by tiles", ALL, function(x)
    local y = x:permute(1, 3, 2)
    return y + 1, y:clone(), y * x:mean():to(x.dtype) - y, x:permute(3, 1, 2):clone(), x:permute(2, 3, 1):flip(3):abs(),
      y[{ {}, { 3, 40 }, { 2, 47, 3 } }]:clone(), ty.cat({ y, y }, 2):permute(3, 2, 1) * 2
  end, 3, 47, 67)
  probe("of more tiles than there are blocks of threads", function()
    same("tiles", function(x) return x:t() * 2 end, numbers("f32", 1030, 320))
  end)
  specials("conversions", ALL, function(x)
    return x:to "f32", x:to "f64", x:to "f16", x:to "bf16", x:to "i32", x:to "i64", x:to "i8", x:to "u8", x:to "bool"
  end)
  each("views", { "f32", "i8" }, function(x) return x:t() + 1, x[{ { 2, -1, 3 } }] * 2, x:flip(2) + x:flip(1) end, 7, 9)
  each("sums along rows, columns, all", ALL, function(x) return x:sum(2), x:sum(1), x:sum(), x:sum { 1, 3 }, x:prod(2) end, 6, 70, 5)
  each("long rows, in one kernel and in two", { "f32", "f64" }, function(x)
    return x:sum(2), x:t():contiguous():sum(1), x:max(2), (x:abs() + 1):log():sum(), x:argmin(2), x:t():contiguous():argmax(1), x:var(2)
  end, 3, 9001)
  probe("rows of every length, as many as a warp holds or not, and of -0", function()
    for _, dtype in ipairs { "f32", "f64", "f16", "i8", "i64" } do
      for _, rows in ipairs { 1, 4, 6, 32 } do
        for _, n in ipairs { 2, 4, 8, 12, 32, 36, 64, 66, 132 } do
          same(("%s %d x %d"):format(dtype, rows, n), function(x)
            return x:sum(2), x:max(2), x:argmax(2), x:argmin(2), x:to "f32":softmax(2), x:matmul(x[1])
          end, H.mixed(dtype, { rows, n }, n))
        end
      end
    end
    for _, dtype in ipairs { "f32", "f64" } do
      same("-0", function(x) return x:sum(2) end, -ty.zeros(8, 16, { dtype = dtype }))
      local tiny = dtype == "f32" and 1e-30 or 1e-200
      same("-0 of products", function(x) return x:matmul(-x[1]) end, ty.full({ 8, 16 }, tiny, { dtype = dtype }))
    end
  end)
  probe("maps by neighbours: of all widths, ends, operands that are one number a row, places that are not aligned", function()
    for _, dtype in ipairs(ALL) do
      same(dtype, function(x)
        return x + x, x[{ { 2, -1 } }] * 2, x[{ { 1, -2 } }]:to "f32" + 1, x:reshape(-1, 3) - x:reshape(-1, 3)[{ {}, { 1 } }],
          (x:reshape(3, -1) + x:reshape(3, -1)[{ {}, { 2 } }]):to "i8", x:to "f64"
      end, H.mixed(dtype, { 132 }, 1))
      same(dtype, function(x) return x + x, x:to "f16", -x end, H.mixed(dtype, { 135 }, 2))
    end
  end)
  each("places of extremes", { "f32", "i64", "f16" }, function(x) return x:argmax(2), x:argmin(1), x:round():argmax() end, 9, 130)
  each("softmax, norms", FLOATS, function(x)
    return x:softmax(2), x:log_softmax(1), x:logsumexp(2), (x - x:mean(2, true)) / x:std(2, { keepdim = true })
  end, 5, 200)
  each("scans", { "f32", "f64", "i32", "f16" }, function(x)
    return x:cumsum(2), x:cumsum(1), (x / 20):cumprod(2), x:cummax(2)
  end, 3, 4200)
  probe("scans of rows of several blocks, in three kernels and in one", function()
    for _, dtype in ipairs { "f32", "f64", "i32" } do
      same(dtype, function(x) return x:cumsum(1), x:cumprod(1), x:cummax(1), (x:cummin(1)) end, H.mixed(dtype, { 9000 }, 1))
    end
    same("two at once", function(x) return x:cumsum(2) - x:cumprod(2), x:logcumsumexp(2) end, numbers("f32", 2, 8200) / 20)
    local both = ty.compile(function(x) return x:cumsum(2) + x:logcumsumexp(2) end) -- one of them is a chain
    for _ = 1, 2 do same("a chain beside", both, numbers("f32", 2, 8200) / 20) end
    if os.getenv "CUDA_DEFAULT" then -- many rows
      same("many", function(x) return x:cumsum(2):sum() end, numbers("f32", 2048, 4100))
    end
  end)
  each("sums of exponentials that run", { "f32", "f64" }, function(x) return x:logcumsumexp(2), (x:round()):cummin(1) end, 4, 150)
  probe("rows that are empty", function()
    same("empty", function(x) return x:sum(2), x:t():sum(1), x:cumsum(2) end, ty.zeros(3, 0))
  end)
  probe("rows and columns that are NaN in places", function()
    same("nan", function(x) return x:max(2), x:argmax(2), x:min(1), x:argmin(1), x:sum(1), x:cummax(2) end, H.mixed("f32", { 20, 70 }, 3))
  end)
  probe("random numbers", function()
    for _, device in ipairs { "cpu", "cuda" } do
      ty.manual_seed(5)
      local x = { ty.rand(7, 9, { device = device }), ty.randn(100, { device = device }), ty.randint(1, 9, { 40 }, { device = device }) }
      if device == "cpu" then cuda.random = x
      else for i = 1, #x do H.same(cuda.random[i], x[i]:to "cpu") end end
    end
  end)
end)

describe("what is composed, or done by the CPU, on cuda:", function()
  probe("unsigned integers", function()
    for _, dtype in ipairs { "u16", "u32", "u64" } do
      same(dtype, function(x, y)
        return x * y + 3, x:floor_divide(y), x:maximum(y), x:rshift(3), x:to "f32", x:sum(1), (x:sort()), x:argsort(),
          x:reshape(15, 20):matmul(y:reshape(20, 15)), x:gather(1, y:to "i64":remainder(300) + 1), x:cumsum(1),
          (x:sort()):searchsorted(y), x:scatter_add(1, y:to "i64":remainder(300) + 1, y)
      end, H.mixed(dtype, { 300 }, 1), H.mixed(dtype, { 300 }, 2))
    end
  end)
  probe("complex numbers and transforms", function()
    same("complex", function(x, y)
      local z = ty.complex(x, y)
      return ty.view_as_real(z * z + z:exp()), z:abs(), ty.view_as_real(z:matmul(z:t())), ty.view_as_real(ty.fft.fft(x)),
        ty.fft.irfft(ty.fft.rfft(y))
    end, numbers("f32", 12, 10), numbers("f32", 12, 10))
  end)
  probe("numbers in place of tensors lie where these do", function()
    for _, dtype in ipairs { "f32", "f64", "f16", "i64" } do
      for _, v in ipairs { 2, 0.25, -1, 0, 0 / 0 } do
        same(dtype, function(x)
          return x:fmax(v), x:fmin(v), ty.fmax(v, x), x:xlogy(v), ty.xlogy(v, x), x:xlog1py(v), x:addcmul(v, 3),
            x:addcdiv(3, v), x:addcmul(x, v), ty.hinge_embedding_loss(x:to "f32", v)
        end, numbers(dtype, 30))
      end
    end
  end)
end)

describe("products on cuda give the CPU's bits:", function()
  probe("blocks of k, batches, transposes, of each dtype", function()
    for _, dtype in ipairs(ALL) do
      local a, b = numbers(dtype, 2, 5, 640), numbers(dtype, 2, 640, 3)
      same(dtype, function(x, y) return x:matmul(y), y.mT:matmul(x.mT), x:matmul(y[1]) end, a, b)
    end
  end)
  probe("tiles: ends of rows, columns and k, blocks of k, operands that lie either way, batches", function()
    for _, dtype in ipairs { "f32", "f64", "f16", "bf16" } do
      local a, b = numbers(dtype, 2, 70, 523), numbers(dtype, 2, 523, 67)
      same(dtype, function(x, y) return x:matmul(y), y.mT:matmul(x.mT), x[1]:t():clone():t():matmul(y[2]:t():clone():t()) end, a, b)
    end
    same("a sum that underflows to -0", function(x, y) return x:matmul(y) end, ty.full({ 20, 30 }, 1e-30), ty.full({ 30, 20 }, -1e-30))
  end)
  probe("large tiles, with ends of rows, columns and k, blocks of k, operands that lie either way, aligned or not", function()
    local function mm(x, y) return x:matmul(y) end
    for _, k in ipairs { 1, 16, 40, 256, 257, 300 } do same("k " .. k, mm, numbers("f32", 2, 256, k), numbers("f32", 2, k, 256)) end
    same("ends", mm, numbers("f32", 2, 250, 40), numbers("f32", 2, 40, 201))
    same("along k", function(x, y) return x:matmul(y.mT) end, numbers("f32", 2, 250, 40), numbers("f32", 2, 201, 40))
    same("across", function(x, y) return x.mT:matmul(y) end, numbers("f32", 2, 40, 252), numbers("f32", 2, 40, 204))
    same("not aligned", function(x, y) return x.mT:matmul(y.mT) end, numbers("f32", 2, 40, 250), numbers("f32", 2, 201, 40))
    same("-0", mm, ty.full({ 300, 30 }, 1e-30), ty.full({ 30, 400 }, -1e-30))
  end)
  local wide_probe = cuda.soft and it or pending -- a card has wide tiles where it has 206,336 bytes of shared memory for a block
  wide_probe("wide tiles, with all of these ends, in a graph too; all sectors are read whole, and no banks are met twice", function()
    cuda.gives("^counts 1%.000 1%.000 28[2-6]\ncounts 1%.000 1%.000 28[2-6]\nreplays [1-9]%d*\nstatus 0\n$",
      "SOFT_GPU_CAPABILITY=90", [[
      require "spec.cuda"
      local ty, soft = require "tycho", require "spec.soft_gpu"
      local function numbers(...)
        local n = 1
        for _, size in ipairs { ... } do n = n * size end
        return ((ty.arange(n, { dtype = "f64" }) * 1.7 + 0.3):sin() * 20):to "f32":reshape { ... }
      end
      local function same(f, x, y)
        local want, got = f(x, y), f(x:to "cuda", y:to "cuda"):to "cpu"
        assert(want:eq(got):all():item() and (1 / want):eq(1 / got):all():item())
      end
      local function mm(x, y) return x:matmul(y) end
      for _, k in ipairs { 1, 16, 40, 257 } do same(mm, numbers(8, 250, k), numbers(8, k, 201)) end
      same(mm, numbers(8, 250, 40), numbers(8, 40, 204))
      same(function(x, y) return x:matmul(y.mT) end, numbers(8, 250, 40), numbers(8, 201, 40))
      same(function(x, y) return x.mT:matmul(y) end, numbers(8, 40, 252), numbers(8, 40, 204))
      same(function(x, y) return x.mT:matmul(y.mT) end, numbers(8, 40, 250), numbers(8, 201, 40))
      same(mm, ty.full({ 16, 128, 30 }, 1e-30), ty.full({ 16, 30, 256 }, -1e-30))
      local x, y = numbers(8, 256, 256):to "cuda", numbers(8, 256, 256):to "cuda"
      for _, b in ipairs { y, y.mT } do
        ty.synchronize()
        soft.cu.soft_gpu_reset_counts()
        local z = x:matmul(b)
        ty.synchronize()
        assert(soft.count "shared_ideal" > 0 and z)
        print(("counts %.3f %.3f %.0f"):format(soft.count "global_sectors" / soft.count "global_ideal", soft.count "shared_wavefronts"
          / soft.count "shared_ideal", soft.count "warp_instructions" / (x:numel() / 32))) -- the last: fewer than other tiles take
      end
      local f = ty.compile(function(a, b) return a:matmul(b):matmul(b):matmul(b) end)
      local was = ty.cuda.launches().replays
      for _ = 1, 4 do same(f, numbers(16, 128, 200), numbers(16, 200, 200)) end
      print("replays " .. ty.cuda.launches().replays - was)]])
  end)
  probe("one column, short and long", function()
    for _, dtype in ipairs { "f32", "f64", "bf16", "i32" } do
      local a = numbers(dtype, 4, 9000)
      same(dtype, function(x) return x:matmul(x[1]), x[{ {}, { 1, 33 } }]:matmul(x[2][{ { 5, 37 } }]) end, a)
    end
  end)
  probe("nothing to sum", function()
    same("k = 0", function(x, y) return x:matmul(y), x:matmul(y[{ {}, 1 }]) end, ty.zeros(3, 0), ty.zeros(0, 2))
  end)
  probe("what follows them in the same step", function()
    local f = ty.compile(function(x, w, b) return (x:matmul(w) + b):relu() * 2, (x:matmul(w):to "f16") + 1 end)
    for _ = 1, 3 do same("epilogue", f, numbers("f32", 9, 20), numbers("f32", 20, 6), numbers("f32", 6)) end
  end)
  probe("convolutions, with borders, strides, groups, and their gradients", function()
    same("conv", function(x, w)
      x, w = x:clone():requires_grad_(), w:clone():requires_grad_()
      local y = ty.conv2d(x, w, nil, { padding = 1, stride = 2 })
      y:sin():sum():backward()
      return y:detach(), x.grad, w.grad
    end, numbers("f32", 2, 4, 25, 23), numbers("f32", 3, 4, 3, 3)) -- large enough for implicit im2col
    same("borders", function(x, w) return ty.conv2d(x, w, nil, { padding = 1 }) end, numbers("f32", 1, 32, 16, 16),
      numbers("f32", 32, 32, 3, 3))
  end)
end)

describe("attention on cuda gives the CPU's bits, and so do its gradients:", function()
  local function attend(name, dtype, sizes, options)
    probe(name, function()
      local n, m, d, dv = unpack(sizes)
      same(name, function(q, k, v, mask)
        ty.manual_seed(4)
        q, k, v = q:clone():requires_grad_(), k:clone():requires_grad_(), v:clone():requires_grad_()
        local o = { mask = options.masked and mask or nil, causal = options.causal, dropout = options.dropout }
        local y = ty.scaled_dot_product_attention(q, k, v, o)
        y:mul(y):sum():backward()
        return y:detach(), q.grad, k.grad, v.grad
      end, numbers(dtype, 2, n, d) / 9, numbers(dtype, 2, m, d) / 9, numbers(dtype, 2, m, dv) / 9,
        options.masked == "bits" and numbers(dtype, n, m):gt(0) or numbers(dtype, n, m))
    end)
  end
  attend("blocks of queries and keys", "f32", { 70, 67, 20, 70 }, {})
  attend("more queries than keys, causal", "f32", { 68, 3, 5, 4 }, { causal = true })
  attend("fewer queries than keys, causal", "f64", { 3, 66, 18, 4 }, { causal = true })
  attend("a mask that is added", "f32", { 5, 66, 8, 3 }, { masked = "added" })
  attend("a mask of bools", "f64", { 66, 5, 3, 8 }, { masked = "bits" })
  attend("dropout", "f32", { 9, 67, 4, 4 }, { dropout = 0.3 })
  attend("more features than a block of k", "f32", { 3, 4, 300, 270 }, {})
end)

describe("moves on cuda give the CPU's:", function()
  local index = ty.tensor({ { 1, 3, -1, 2 }, { 2, 2, 1, 3 } }, { dtype = "i64" })
  probe("gathers, scatters, sums at places", function()
    for _, dtype in ipairs(ALL) do
      same(dtype, function(x, s, i)
        return x:gather(1, i), x:index_select(2, i[1]), x:scatter(1, i, s), x:scatter_add(1, i, s), x:scatter(2, i:t(), s:t())
      end, numbers(dtype, 4, 4), numbers(dtype, 2, 4), index)
    end
  end)
  probe("sorts of long rows, of every dtype, rows that are not side by side, the first few", function()
    for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool" } do
      same(dtype, function(x) return x:argsort(1), x:argsort(1, true), (x:topk(5, 1)) end, H.mixed(dtype, { 2500 }, 1))
    end
    same("rows", function(x) return x:argsort(2), x:argsort(2, true) end, H.mixed("f32", { 2, 600, 3 }, 1))
  end)
  probe("scatters along one long dim: the last wins, sums keep their order", function()
    local function places(...) return (numbers("f64", ...):abs() * 2.4):floor():to "i64" + 1 end
    for _, dtype in ipairs(ALL) do
      same(dtype, function(x, i, y) return y:scatter_add(1, i, x), y:scatter(1, i, x) end, H.mixed(dtype, { 900 }, 2),
        places(900), H.mixed(dtype, { 60 }, 3))
    end
    same("lines", function(x, i, y)
      return y:index_add(2, i[1], x), y:scatter_add(2, i, x), y:scatter(2, i, x), y:t():scatter_add(1, i:t(), x:t())
    end, numbers("f32", 3, 300), places(3, 300), numbers("f32", 3, 60))
  end)
  probe("sorts and searches", function()
    for _, dtype in ipairs(ALL) do
      same(dtype, function(x)
        local sorted = x:sort(2)
        return sorted, x:argsort(1, true), (x:topk(3, 2)), ty.searchsorted(sorted, x), ty.searchsorted(sorted, x, { right = true })
      end, H.mixed(dtype, { 3, 40 }, 4))
    end
  end)
  probe("several index tensors in one key, read, written, in gradients, and beside masks", function()
    local function long(...) return ty.tensor({ ... }, { dtype = "i64" }) end
    local i, j, k = long(1, 3, -1, 1), long(4, -4, 2, 4), long(5, 1, -2, 5)
    for _, dtype in ipairs { "f32", "f64", "bf16", "i32", "u8", "bool" } do
      same(dtype, function(x, a, b, c)
        local y, z = x:clone(), x:clone()
        y[{ a, b, c }] = 1
        z[{ a, {}, c }] = x[{ b, {}, a }]
        return x[{ a, b, c }], x[{ a:reshape(4, 1), b }], x[{ a, {}, c }], x[{ 2, b, c }], y, z
      end, numbers("i32", 5, 5, 5):to(dtype), i, j, k)
    end
    same("masks", function(x, a, m) return x[{ m:gt(0), a }], x[{ {}, m:gt(0)[1], a[{ { 1, 2 } }] }] end, numbers("f32", 4, 4, 5), k,
      ty.tensor { { 1, 0, 0, 1 }, { 0, 1, 0, 0 }, { 0, 0, 0, 0 }, { 0, 0, 1, 0 } })
    same("gradient", function(x, a, b)
      x = x:clone():requires_grad_()
      ;(x[{ a, b }] * x[{ a, {}, b }]:sum(1)):sum():backward()
      return x.grad
    end, numbers("f32", 3, 4, 4), i, long(4, -4, 2, 4))
  end)
  probe("of several index tensors the one that is out of range is named by its dim", function()
    local x, one = ty.ones(3, 5):to "cuda", ty.ones({ 2 }, { dtype = "i64", device = "cuda" })
    local f = ty.compile(function(t, i, j) return t[{ i, j }] + 1 end)
    for _ = 1, 3 do
      raises("index %(dim 2%): index 9 at %(1%) is out of range 1%.%.5", function() return x[{ one, one + 8 }]:sum():item() end)
      raises("index %(dim 1%): index 4 at %(1%) is out of range 1%.%.3", function() return f(x, one + 3, one):sum():item() end)
      assert.equal(4, f(x, one, one + 4):sum():item())
    end
  end)
  probe("an index that is out of range is raised by who reads, and leaves what was there", function()
    local x, w = ty.ones(3, { device = "cuda" }), ty.zeros(3, { device = "cuda" })
    w:add_(1)
    local y = x:gather(1, ty.tensor({ 1, 9, -7 }, { dtype = "i64", device = "cuda" }))
    w:add_(y)
    raises("gather: index 9 at %(2%) is out of range 1%.%.3", function() return (y * 2):sum():item() end)
    assert.equal(3, w:sum():item())
    w:add_(1)
    assert.equal(6, w:sum():item())
  end)
  probe("in a compiled function it leaves all that the function writes, of every size", function()
    for _, dtype in ipairs { "f32", "i8", "bool" } do
      local w, table = ty.ones({ 5, 3 }, { dtype = dtype, device = "cuda" }), ty.zeros({ 5, 3 }, { dtype = dtype, device = "cuda" })
      local f = ty.compile(function(i) w:copy_(table:index_select(1, i)) end)
      local function at(n) return ty.tensor({ 1, 2, n, 3, 4 }, { dtype = "i64", device = "cuda" }) end
      for _ = 1, 3 do
        raises("index_select: index 9 at %(3, 1%) is out of range 1%.%.5", function() f(at(9)) return w:get(1, 1) end)
        assert.equal(15, w:to "i64":sum():item())
      end
      f(at(5))
      assert.equal(0, w:to "i64":sum():item())
    end
  end)
end)

describe("compiled functions on cuda", function()
  probe("give eager's bits, skip Lua, and say what the CPU did for them", function()
    local f = ty.compile(function(x) return (x * 2):matmul(x:t()):relu():sum(2) end)
    local x = numbers("f32", 70, 80) / 20
    local before = ty.blas()
    ty.blas(true) -- OpenBLAS has no other memory than the CPU's
    finally(function() ty.blas(before) end)
    for _ = 1, 3 do same("a product", f, x) end
    local text = tostring(ty.explain(f))
    assert.truthy(text:find("steps on cuda, of which the cpu does 1;", 1, true) and text:find "cuda refuses it", text)
    assert.truthy(tonumber(tostring(ty.explain(f)):match "(%d+) answered without running it") >= 1)
  end)

  for _, name in ipairs { "SGD", "Adam" } do
    probe("train a network as the CPU does, bit for bit: " .. name, function()
      local x, want = numbers("f32", 16, 20) / 20, ty.arange(16):remainder(4):add(1):to "i64"
      local function train(device)
        ty.manual_seed(3)
        local m = ty.nn.Sequential(ty.nn.Linear(20, 16), ty.nn.ReLU(), ty.nn.Dropout(0.2), ty.nn.Linear(16, 4)):to(device)
        local opt = ty.optim[name](m:parameters(), { lr = 0.05 })
        local u, v, losses = x:to(device), want:to(device), {}
        local step = ty.compile(function(a, b)
          opt:zero_grad()
          local loss = ty.cross_entropy(m(a), b)
          loss:backward()
          opt:step()
          return loss:detach()
        end)
        for i = 1, 5 do losses[i] = step(u, v):item() end
        assert.truthy(ty.explain(step).skips > 0)
        return losses, m:parameters()
      end
      local a, p = train "cpu"
      local b, q = train "cuda"
      assert.same(a, b)
      assert.truthy(b[5] < b[1])
      for i = 1, #p do H.same(p[i]:detach(), q[i]:detach():to "cpu") end
    end)
  end
end)

describe("searches on cuda in rows that are not sorted", function()
  probe("give the CPU's positions, so that categories by rounded running sums are the CPU's", function()
    for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i8", "u8", "i64", "u64" } do
      for _, n in ipairs { 1, 2, 7, 16, 33, 100 } do
        local row, v = H.mixed(dtype, { 3, n }, 1), H.mixed(dtype, { 3, 20 }, 2)
        same(dtype, function(x, y) return x:searchsorted(y), x:searchsorted(y, true) end, row, v)
      end
    end
    local falls = (ty.arange(3000, { dtype = "f64" }) * 1.7):sin():mul(20):exp():reshape(10, 300)
    assert.truthy(falls:cumsum(2):diff():lt(0):sum():item() > 0)
    same("categories", function(w)
      ty.manual_seed(5)
      return w:multinomial(500, true)
    end, falls)
  end)
end)

describe("an index out of range on cuda", function()
  local function bad(x, k) return x:add_(ty.arange(4, { device = "cuda" }):take(ty.full({ 3 }, k, { dtype = "i64", device = "cuda" }))) end
  local add = ty.compile(function(x, y) return x + y:to "cpu" end)
  local readers = {
    ["a copy to the CPU"] = function(x) return x:to "cpu" end, ["a list"] = function(x) return x:tolist() end,
    ["a text"] = tostring, ["a sum"] = function(x) return x:sum():item() end,
    ["a compiled function"] = function(x) return add(ty.ones(3), x) end,
    ["a comparison"] = function(x) return x:equal(x) end, ["a mask"] = function(x) return x[x:gt(0)] end,
    ["a write from it"] = function(x) return ty.zeros(3):copy_(x:to "cpu" * 2) end,
    ["a loop"] = function(x)
      local y = ty.zeros(3)
      for _ = 1, 3 do y = add(y, x) end
      return y
    end,
  }
  for what, read in pairs(readers) do
    probe("is told by " .. what .. ", each time, and what was to be written is as it was", function()
      local x = ty.arange(3, { device = "cuda" })
      for i = 1, 6 do
        raises("take: index 5 at %(1%) is out of range 1..4", function() return read(bad(x, 5)) end)
        H.same(ty.arange(3), x:to "cpu", what .. i)
        read(x)
      end
    end)
  end
end)

describe("what depends on data, on cuda,", function()
  local function floats(...) return (numbers("f32", ...) / 4):round() end
  local nan = 0 / 0
  local specials = ty.tensor { nan, 1, -0.0, 0, 1 / 0, nan, 2, -1 / 0, 1, 0, -nan, -0.0 }

  probe("nonzero, masks, unique are those of the CPU", function()
    for _, x in ipairs { floats(30, 41), floats(3, 5, 7), specials, floats(1), ty.zeros(4, 3), ty.zeros(0, 3), ty.ones(0),
      ty.tensor(3), ty.tensor(0), floats(9, 40):t(), floats(300)[{ { 2, 299, 3 } }] } do
      for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i64", "i8", "bool" } do
        local safe = dtype:find "f%d" and x or x:nan_to_num():clamp(-100, 100)
        local y = dtype == "bool" and safe:gt(1) or safe:to(dtype)
        same(dtype, function(v) return v:nonzero(), v:unique() end, y)
        same(dtype, function(v) return v:masked_select(v:gt(1)), v[v:gt(0)], (v:unique()) end, dtype == "bool" and safe or y)
      end
    end
    same("a mask of rows", function(x, m) return x[m:gt(0)], x[{ {}, m:gt(0) }], x:t()[{ 2, m:gt(1) }] end,
      floats(20, 20, 3):select(3, 1), floats(20))
  end)

  probe("of masks that broadcast, and of values that are written", function()
    same("masks", function(x, m)
      local y, z = x:clone(), x:clone()
      y[m:gt(0)] = 7
      z[m:gt(0)] = ty.arange(m:gt(0):to "i64":sum():item() * 6, { device = x.device }):reshape(-1, 6)
      return x:masked_select(m:reshape(-1, 1):gt(0)), y, z, ty.index_put(x, { m:gt(1) }, 1)
    end, floats(50, 6), floats(50))
  end)

  probe("gradients are the CPU's", function()
    local function slopes(device)
      local x = floats(40, 9):to(device):requires_grad_()
      local loss = (x[x:gt(0)] * 3):sum() + x:masked_select(x:lt(0)):exp():sum() + ((x:unique()) * 2):sum()
      loss:backward()
      return x.grad
    end
    H.same(slopes "cpu", slopes("cuda"):to "cpu")
  end)

  probe("is the same in compiled functions", function()
    local function of(x)
      local y = x * 2
      return y[y:gt(0)]:sum(), y:nonzero(), (y:unique())
    end
    local f = ty.compile(of)
    for i = 1, 4 do
      local x = floats(50) + i
      local want, got = { of(x) }, { f(x:to "cuda") }
      for k = 1, 3 do H.same(want[k], got[k]:to "cpu") end
    end
  end)

  local soft = cuda.soft and require "spec.soft_gpu"
  local claim = soft and it or pending
  claim("copies the counts to the CPU, not the elements", function()
    local x = floats(70000):to "cuda"
    for name, f in pairs {
      nonzero = function() return x:nonzero() end,
      mask = function() return x[x:gt(1)] end,
      row = function() return x:reshape(2, 35000)[{ 2, x[{ { 1, 35000 } }]:gt(1) }] end,
      rows_and_columns = function()
        local m, at = x:reshape(35000, 2), x[{ { 1, 35000 } }]:to "i64" % 2 + 1
        m[{ at, at }] = m[{ at + 1, at }]
        return m[{ 2, at }]
      end,
      mask_and_columns = function()
        return x:reshape(35000, 2)[{ x[{ { 1, 35000 } }]:gt(1), ty.ones({ 1 }, { dtype = "i64", device = "cuda" }) }]
      end,
      masked_select = function() return x:masked_select(x:gt(1)) end,
    } do
      ty.synchronize()
      soft.cu.soft_gpu_reset_counts()
      local y = f()
      ty.synchronize()
      assert.equal("cuda", y.device)
      assert.truthy(soft.count "copied_bytes" < 200, name .. tostring(soft.count "copied_bytes"))
    end
  end)
end)

describe("long loop programs on cuda", function()
  local pipe = cuda.soft and io.popen "command -v ptxas || ls /usr/local/cuda/bin/ptxas 2>/dev/null"
  local there = pipe and pipe:read "*l"
  if pipe then pipe:close() end
  local claim = there and it or pending -- ptxas comes with NVIDIA's toolkit
  claim("take few registers and spill none, rows of many sums and maps of many operands, in graphs, too, and keep their bits", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute(("mkdir '%s'"):format(folder)))
    cuda.gives("^same\nstatus 0", ("TYCHO_CUDA_PTX='%s'"):format(folder), [[
      require "spec.cuda"
      local ty = require "tycho"
      local x, k, there = {}, {}, {}
      for i = 1, 18 do
        x[i], k[i] = ((ty.arange(192, { dtype = "f64" }) * i + 0.5):sin()):reshape(4, 48), i / 8
        there[i] = x[i]:to "cuda"
      end
      local function rows(a, b)
        local z = (a[1] * b[1] + a[2]):cos()
        local y = z:sum(2)
        for i = 3, 18 do y = y * b[i] + (z * a[i] * b[i - 1]):sum(2) end
        return y, a[1]:sum(1), (a[2] * b[2]):sum(1), (a[3] * 2):sum(1) -- enough for a graph
      end
      local function map(a, b)
        local y, all = {}, a[1] * b[1]
        for i = 2, 8 do all = all * b[i] + a[i] end
        for i = 1, 8 do y[i] = all * a[i] end -- all are held until then
        return unpack(y)
      end
      for _, f in ipairs { rows, map } do
        local g = ty.compile(f)
        for n = 1, 4 do
          k[3] = n
          local want = { f(x, k) }
          for i, y in ipairs { g(there, k) } do assert(y:to "cpu":equal(want[i])) end
        end
      end
      print "same"]])
    local assembled = io.popen(("luajit spec/ptxas.lua '%s' 75 90"):format(folder))
    local text = assembled:read "*a"
    assembled:close()
    os.execute(("rm -r '%s'"):format(folder))
    for _, processor in ipairs { 75, 90 } do
      assert.truthy(text:find(("sm_%d: (%%d+) of %%1 texts, at most %%d+ registers, 0 bad\n"):format(processor)), text)
    end
  end)
end)

describe("on the software GPU, accesses are what they must be:", function()
  local soft = cuda.loaded and cuda.driver and cuda.driver:find "spec/libcuda.so" and require "spec.soft_gpu"
  --- Sectors by their ideal, wavefronts of shared memory by theirs, requests and warp instructions for 32 elements of x.
  local function counted(f, x, ...)
    local there, n = { x:to "cuda" }, x:numel() / 32
    for i = 1, select("#", ...) do there[i + 1] = (select(i, ...)):to "cuda" end
    ty.synchronize()
    soft.cu.soft_gpu_reset_counts()
    local y = f(unpack(there))
    ty.synchronize()
    assert.equal("cuda", y.device)
    return soft.count "global_sectors" / soft.count "global_ideal",
      soft.count "shared_wavefronts" / math.max(soft.count "shared_ideal", 1), soft.count "global_requests" / n,
      soft.count "warp_instructions" / n
  end
  local function least(name, sectors, shared, requests, instructions, f, ...)
    local operands = { ... }
    local claim = soft and it or pending
    claim(name, function()
      local a, b, c, d = counted(f, unpack(operands))
      local got = ("sectors %.3f, shared memory %.3f, requests %.3f, instructions %.2f"):format(a, b, c, d)
      assert.truthy(a <= sectors and b <= shared and c <= requests and d <= instructions, got)
    end)
  end
  least("a map takes 16 bytes at a time", 1, 0, 1.01, 10, function(x, y) return x + y end, numbers("f32", 32000), numbers("f32", 32000))
  least("so does one of halves and bytes", 1, 0, 0.76, 15, function(x) return x + 1 end, numbers("f16", 32000))
  least("long rows", 1, 0, 0.3, 7.5, function(x) return x:sum(2) end, numbers("f32", 32, 1000))
  least("short rows, of which a warp has several", 1, 0, 0.76, 24, function(x) return x:sum(2) end, numbers("f32", 2000, 16))
  least("rows in several passes", 1, 0, 1.2, 110, function(x) return x:softmax(2) end, numbers("f32", 200, 128))
  least("columns", 1, 0, 1.1, 10, function(x) return x:sum(1) end, numbers("f32", 100, 1024))
  least("a map that transposes", 1, 1, 3.13, 33, function(x, y) return x:t() + y end, numbers("f32", 256, 320), numbers("f32", 320, 256))
  least("a copy that permutes", 1, 1, 2.13, 30, function(x) return x:permute(1, 3, 4, 2):clone() end, numbers("f32", 2, 32, 8, 8))
  least("of two operands in halves", 1, 1, 6.26, 76, function(x, y, z) return x:t() + y:t() * z end, numbers("f16", 64, 96),
    numbers("f16", 64, 96), numbers("f16", 96, 64))
  least("a large product", 1, 1, 2.8, 295, function(x, y) return x:matmul(y) end, numbers("f32", 2, 256, 256), numbers("f32", 2, 256, 256))
  least("whose second operand is transposed", 1, 1, 4.3, 300, function(x, y) return x:matmul(y.mT) end, numbers("f32", 2, 256, 256),
    numbers("f32", 2, 256, 256))

  local function total(first, ...)
    for i = 1, select("#", ...) do first = first + (select(i, ...)) end
    return first
  end
  --- Requests for 32 elements of each of n operands, of f over them in one kernel.
  local function requests(f, n, dtype, ...)
    local operands = {}
    for i = 1, n do operands[i] = (numbers("f32", ...) + i):to(dtype) end
    local compiled = ty.compile(f)
    counted(compiled, unpack(operands))
    return (select(3, counted(compiled, unpack(operands))))
  end
  local held = soft and it or pending
  held("neighbours fill 64 registers of a thread: for more operands a map goes element by element, rows by pairs", function()
    local function rows(...) return total(...):sum(2) end
    for _, case in ipairs { { total, 15, "f32", 4.25 }, { total, 7, "f64", 4.25 }, { rows, 16, "f32", 4.25 }, { rows, 16, "f64", 8.25 } } do
      local f, n, dtype, most = unpack(case)
      local within, beyond = requests(f, n, dtype, 32, 128), requests(f, n + 1, dtype, 32, 128)
      assert.truthy(within <= most and beyond >= 2 * most, ("%d of %s: %g, one more: %g"):format(n, dtype, within, beyond))
    end
  end)
end)

local soft_probe = cuda.soft and it or pending -- failures are the software GPU's to inject

describe("without a device,", function()
  local first = [[
    local ty = require "tycho"
    local y, why = ty.ones(2):to "cuda"
    print(y, why)
    print(select(2, pcall(ty.zeros, 2, { device = "cuda" })))
    print(ty.cuda.is_available())
    print(#ty.cuda.devices(), (ty.ones(2) * 2):sum():item())]]

  it("a driver that is not there is named, and the CPU goes on", function()
    local text = cuda.run("TYCHO_CUDA_DRIVER=/nowhere/libcuda.so", first)
    local why = "there is no CUDA driver: /nowhere/libcuda.so was not found"
    assert.truthy(text:find('nil\tto: device "cuda" is not available: ' .. why, 1, true), text)
    assert.truthy(text:find('zeros: device "cuda" is not available: there is no CUDA driver', 1, true), text)
    assert.truthy(text:find("false\tthere is no CUDA driver", 1, true), text)
    assert.truthy(text:find("0\t4\n", 1, true), text)
  end)

  local function on_soft(environment, program)
    return cuda.run(("TYCHO_CUDA_DRIVER='%s' TYCHO_CUDA_LATE=0 TYCHO_CUDA_INTERPRET= TYCHO_CACHE=off %s"):format(cuda.driver or "",
      environment), program)
  end

  soft_probe("a driver that has none, or an old one, says so", function()
    local text = on_soft("SOFT_GPU_DEVICES=0", first)
    assert.truthy(text:find("is not available: there is no CUDA device (CUDA_ERROR_NO_DEVICE", 1, true), text)
    text = on_soft("SOFT_GPU_CAPABILITY=70", first)
    assert.truthy(text:find("is too old: it has compute capability 7.0, 7.5 is needed", 1, true), text)
    text = on_soft("SOFT_GPU_DRIVER=11030", first)
    assert.truthy(text:find("the CUDA driver is too old: it is of CUDA 11.3, 11.4 or newer is needed", 1, true), text)
    assert.falsy(on_soft("SOFT_GPU_DRIVER=11040", first):find("too old", 1, true))
  end)

  soft_probe("a child of a fork is told, and its CPU and its parent go on", function()
    local text = on_soft("", [[
      local ffi, ty = require "ffi", require "tycho"
      ffi.cdef "int fork(void); int waitpid(int pid, int *status, int options);"
      local x = ty.ones(3, { device = "cuda" })
      print(x:sum():item())
      io.stdout:flush()
      local pid = ffi.C.fork()
      if pid == 0 then
        print(pcall(function() return (x * 2):sum():item() end))
        print(ty.ones(3):sum():item())
        os.exit(0)
      end
      ffi.C.waitpid(pid, nil, 0)
      print(x:sum():item())]])
    assert.truthy(text:find("^3\nfalse\t.*a child process cannot use the CUDA device of its parent.*\n3\n3\n$"), text)
  end)

  soft_probe("that was lost, each read says so, and the CPU goes on", function()
    local text = on_soft("SOFT_GPU_LOSE_AFTER=6", [[
      local ty = require "tycho"
      local x = ty.ones(3, { device = "cuda" })
      local ok, why
      for _ = 1, 20 do
        ok, why = pcall(function() x = x + 1; return x:sum():item() end)
        if not ok then break end
      end
      print(ok, why)
      print(pcall(function() return x:sum():item() end))
      print(ty.ones(3):sum():item())]])
    assert.truthy(text:find("^false\t.*has failed: .*; it can be used again by a new process\nfalse\t.*has failed.*\n3\n$"), text)
  end)

  soft_probe("that refuses a kernel, the error names operation and log, and other kernels go on", function()
    local program = [[
      local ty = require "tycho"
      local x = ty.tensor({ 3, 1, 2 }, { device = "cuda" })
      local function try(f) print(pcall(function() return f(x):sum():item() end)) end
      try(function(v) return v * 2 end)
      try(function(v) return v:argsort(1) end)
      try(function(v) return v * 2 end)]]
    local text = on_soft("SOFT_GPU_FAIL_LOAD=1 TYCHO_CUDA_INTERPRET=0", program)
    local why = "the CUDA driver [%d.]+ refuses its kernel: CUDA_ERROR_INVALID_PTX, refused, as was asked for"
    assert.truthy(text:find("^false\t.*a map: MUL: " .. why .. "\ntrue\t6\nfalse\t"), text)
    assert.equal("true\t12\ntrue\t6\ntrue\t12\n", on_soft("SOFT_GPU_FAIL_LOAD=1", program)) -- interpreted
    text = on_soft("SOFT_GPU_FAIL_LOAD=3", program)
    assert.truthy(text:find("^true\t12\nfalse\t.*sort: " .. why .. "\ntrue\t12\n$"), text)
  end)

  soft_probe("that refuses a kernel of a loop program, it is interpreted: what is written in place is whole", function()
    local program = [[
      local ty = require "tycho"
      local device = arg[1] or "cuda"
      local x, n = ty.arange(5000, { device = device }) / 999, ty.zeros(1, { device = device })
      local step = ty.compile(function()
        n:add_(1)
        x:mul_((-x):exp():sum() * 1e-3)
        n:add_((x:cumsum(1) * 2):sum())
      end)
      for _ = 1, 3 do step() end
      print(("%.9g %.9g %.9g"):format(n:item(), x:sum():item(), x:cumsum(1):sum():item()))]]
    local want = on_soft("TYCHO_CUDA_INTERPRET=0", program)
    assert.truthy(want:find "^[%d.]+ [%d.]+ [%d.]+\n$", want)
    for load = 1, 8 do assert.equal(want, on_soft("SOFT_GPU_FAIL_LOAD=" .. load, program), load) end
  end)

  soft_probe("memory that has run out raises, after what is cached was given back", function()
    local text = on_soft("SOFT_GPU_MEMORY=67108864", [[
      local ty = require "tycho"
      ty.zeros(10 * 1024 * 1024, { device = "cuda" }):release()
      local y = ty.zeros(3, 4 * 1024 * 1024, { device = "cuda" })
      print(y:numel())
      print(pcall(function() return y + 1 end))
      print(ty.ones(3, { device = "cuda" }):sum():item())]])
    assert.truthy(text:find("^12582912\nfalse\t.*memory.*\n3\n$"), text)
  end)
end)
