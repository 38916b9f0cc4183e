--- export_spec.lua -- jit.export: the compiled C gives Tycho's bits; what cannot be exported is refused by name.
-- luacheck: ignore 431 432
-- By default with gcc at one level; EXPORT_CC="gcc -O0;clang -O3 -mavx2" takes others, and EXPORT_BY what runs them
-- ("qemu-aarch64 -L ..."): `make test-export` is the matrix.

local H = require "spec.helper"
local X = require "spec.exported"
local ty, nn = H.ty, H.ty.nn

--- Whether a run has the i-th of the dtypes: every second one, or all where compilers are given.
local function share(i) return os.getenv "EXPORT_CC" ~= nil or H.share(i, 2) end

local compilers = {}
for c in (os.getenv "EXPORT_CC" or "gcc -O0"):gmatch "[^;]+" do compilers[#compilers + 1] = c end

local folder

before_each(function()
  folder = X.folder()
  ty.manual_seed(1)
end)
after_each(function() X.remove(folder) end)

--- NaNs are one value; all other bits count.
local function same(a, b)
  if type(a) == "number" then return a == b and 1 / a == 1 / b or a ~= a and b ~= b end
  if X.raw(a) == X.raw(b) then return true end
  if not H.is_float(a.dtype) then return false end
  local none, zero = a:ne(a), ty.zeros({}, { dtype = a.dtype })
  return none:equal(b:ne(b)) and X.raw(none:where(zero, a)) == X.raw(none:where(zero, b))
end

--- Exports f, compiles it, and compares with f itself. Gives the export.
local function check(f, args, options, flatten)
  options = options or {}
  local given = { n = args.n }
  for k, v in pairs(args) do given[k] = v end
  for _, k in ipairs { "weights", "dynamic", "outputs" } do given[k] = options[k] end
  local model = X.export(folder, f, given)
  for _, other in ipairs(options.calls or { args }) do
    local before = ty.get_rng_state and ty.get_rng_state()
    if options.seed then ty.manual_seed(options.seed) end
    local want = { f(unpack(other, 1, other.n or #other)) }
    if flatten then want = { flatten(unpack(want)) } end
    if before and not options.seed then ty.set_rng_state(before) end
    for _, compiler in ipairs(options.compilers or compilers) do
      local got, status = X.run(model, compiler, options.inputs and options.inputs(other) or other, want,
        { by = os.getenv "EXPORT_BY", sizes = options.sizes and options.sizes(other),
          random = options.seed and { options.seed, 0 } })
      assert.equal(0, status, compiler)
      assert.equal(#want, #got)
      for i = 1, #want do
        assert.truthy(same(want[i], got[i]), ("%s: result %d differs: %s, %s"):format(compiler, i,
          tostring(want[i]), tostring(got[i])))
      end
    end
  end
  return model
end

local nan, inf = 0 / 0, 1 / 0
local specials = { 0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -3, 1.5, -1.5, 2.5, 100, -100, 1e-3, 1e30, -1e30, 1e-40, nan, inf, -inf,
  7, 9, 0.3, 0.7, -0.9, 65504, 1e-7, 33, 12345.678, 88, -104, 2 ^ 31 }

--- The special values in some order, as far as the dtype has them.
local function special(dtype, shift)
  local list = {}
  for i = 1, #specials do
    local v = specials[(i + shift - 1) % #specials + 1]
    if not H.is_float(dtype) then
      if v ~= v or math.abs(v) > 100 then v = (i * 37) % 200 - 100 end
      v = math.floor(v)
      if H.dtype[dtype].kind == "u" then v = v % 256 elseif dtype == "bool" then v = v % 2 end
    end
    list[i] = v
  end
  return ty.tensor(list, { dtype = dtype })
end

--- All functions of a list as one function, so that one file serves many.
local function together(list)
  return function(...)
    local y = {}
    for i = 1, #list do y[i] = list[i](...) end
    return unpack(y)
  end
end

local function sized(dtype, shape)
  local x = ty.randn(shape)
  if dtype == "bool" then return x:gt(0) end
  if not H.is_float(dtype) then return (x * 30):abs():to(dtype) end
  return x:to(dtype)
end

describe("exported operations", function()
  for i, dtype in ipairs(H.dtypes) do
    local claim = share(i) and it or function() end
    claim("compute each element as Tycho does, specials included, of " .. dtype, function()
      local a, b, c = special(dtype, 0), special(dtype, 5), special("bool", 0)
      local list, tried = {}, 0
      for _, row in ipairs(H.ops) do
        if row.class == "map" and row.lua then
          local name, arity = row.lua, row.arity
          local function call(x, y, z)
            if arity == 1 then return ty[name](x) end
            if arity == 2 then return ty[name](x, y) end
            return z:where(x, y)
          end
          tried = tried + 1
          if pcall(call, a, b, c) then list[#list + 1] = call end
        end
      end
      for _, to in ipairs(H.dtypes) do list[#list + 1] = function(x) return x:to(to) end end
      assert.truthy(tried > 45 and #list > 40, #list)
      for at = 1, #list, 40 do
        check(together { unpack(list, at, math.min(at + 39, #list)) }, { a, b, c })
      end
    end)
  end

  local shapes = { {}, { 0 }, { 1 }, { 2 }, { 15 }, { 16 }, { 17 }, { 33 }, { 3, 70, 5 }, { 0, 3 }, { 3, 0 }, { 4, 1, 3 } }
  for i, dtype in ipairs { "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "u64", "bool" } do
    local claim = share(i) and it or function() end
    claim("reduce and scan in the canonical order, of " .. dtype, function()
      local list, inputs = {}, {}
      for k, shape in ipairs(shapes) do
        inputs[k] = sized(dtype, shape)
        local function add(fn) list[#list + 1] = function(...) return fn((select(k, ...))) end end
        add(function(x) return x:sum() end)
        add(function(x) return x:prod() end)
        for d = 1, #shape do
          add(function(x) return x:sum(d) end)
          add(function(x) return x:prod(d) end)
          add(function(x) return x:cumsum(d) end)
          add(function(x) return x:cumprod(d) end)
          add(function(x) return x:cummax(d) end)
          if shape[d] > 0 then
            add(function(x) return x:max(d) end)
            add(function(x) return x:min(d) end)
            add(function(x) return x:argmax(d) end)
            add(function(x) return x:argmin(d) end)
          end
        end
      end
      for at = 1, #list, 40 do check(together { unpack(list, at, math.min(at + 39, #list)) }, inputs) end
    end)
  end

  it("sum what is longer than a block", function()
    local x, y, z = ty.randn(9001), ty.randn(2, 20000, { dtype = "f64" }), ty.randn(1025, 70)
    x[7] = nan
    check(function(a, b, c) return a:sum(), b:sum(2), c:sum(1), c:argmax(1), a:cumsum(1), c:var(1), b:logcumsumexp(2) end,
      { x[{ { 8, 9001 } }], y, z })
    check(function(a) return a:max(), a:argmax(), a:cummax(1) end, { x })
  end)

  --- As sized, with what orders and extremes may stumble on.
  local function peculiar(dtype, rows, n)
    local x = sized(dtype, { rows, n })
    if not H.is_float(dtype) then return x end
    x = (x * 4):round() / 4 -- many are equal
    for i, v in ipairs { nan, -0.0, inf, -inf, nan, 0 } do x:set(i * 5 % rows + 1, i * 3 % n + 1, v) end
    x[rows] = -inf
    if dtype == "f32" then x:set(rows - 1, n, -nan) end
    return x
  end

  --- By numbers alone, and by the vectors of this machine.
  local vectors = { compilers = os.getenv "EXPORT_CC" and compilers or { "gcc -O0 -DTY_PLAIN", "gcc -O1 -march=native" } }

  for i, dtype in ipairs { "f32", "i64", "f64", "f16" } do
    local claim = share(i) and it or function() end
    claim("take short rows side by side and find extremes, of " .. dtype, function()
      local list, inputs = {}, {}
      for k, n in ipairs { 2, 3, 10, 33 } do
        inputs[k] = peculiar(dtype, 37, n)
        local function add(fn) list[#list + 1] = function(...) return fn((select(k, ...))) end end
        for _, name in ipairs { "sum", "prod", "max", "min", "argmax", "argmin" } do
          add(function(x) return x[name](x, 2) end)
        end
        add(function(x) return x:gt(1):any(2), x:gt(-1):all(2) end)
        if H.is_float(dtype) then
          add(function(x) return x:softmax(2) end)
          add(function(x) return (x - x:argmax(2, true)):log_softmax(2) end)
          add(function(x) return x:var(2) end)
          add(function(x) return (x:exp() * 2):argmin(2) end)
        end
      end
      check(together(list), inputs, vectors)
    end)

    claim("scan rows of many spans, of " .. dtype, function()
      local x = peculiar(dtype, 6, 4500)
      local y = x[{ { 1, 2 }, { 1, 300 } }]
      check(function(x, y)
        local z = H.is_float(dtype) and x:logcumsumexp(2) or x
        return x:cumsum(2), y:cumprod(2), x:cummax(2), x:cummin(2), z, x:argmax(2), x:argmin(2), x:sum(2), y:cumsum(2) + y
      end, { x, y }, vectors)
    end)
  end

  it("end where truth is settled, and not before", function()
    local x = ty.zeros(4, 9000, { dtype = "bool" })
    x:set(2, 5000, true)
    x:set(3, 9000, true)
    x:set(4, 1, true)
    check(function(x) return x:any(2), x:all(2), x:logical_not():all(2), x:any() end, { x }, vectors)
  end)

  it("divide whole numbers at their ends", function()
    local list = { 7, -7, 1, -1, 0, 2, -2, 2147483647, -2147483648, 2147483646, 3 }
    local a = ty.tensor(list, { dtype = "i32" })
    local b = a:to "i64" * 1073741825 * 3
    check(function(a, b)
      local c, d = a:unsqueeze(2), b:unsqueeze(2)
      return c % a, c:floor_divide(a), d % b, d:floor_divide(b), d % a:to "i64", c:to "i64" % b
    end, { a, b }, vectors)
  end)

  it("stage halves, and what is read backwards beside others", function()
    local x, y = ty.randn(3, 300), ty.randn(3, 300):to "f16"
    y[1] = special("f16", 0):repeat_interleave(10)[{ { 1, 300 } }]
    check(function(x, y)
      return x:eq(x:flip(2)), y:flip(2) + y, y * y - y, (y * 3):sqrt(), x:flip(2) * y, y:t() * 2
    end, { x, y }, vectors)
  end)

  for i, dtype in ipairs { "f64", "f32", "i32", "i64", "f16", "u8", "bool" } do
    local claim = share(i) and it or function() end
    claim("sort rows in every way that there is, of " .. dtype, function()
      local few, long = peculiar(dtype, 11, 8), peculiar(dtype, 2, 700)
      -- keys of 64 bits whose upper halves are equal, a few or many
      if dtype == "f64" then long = ty.cat({ long, ty.randn(2, 700, { dtype = dtype }) * 2 ^ -26 + 1 }, 1) end
      if dtype == "i64" then
        long = ty.cat({ long, long % 5 * 2 ^ 33 + long, (ty.rand(1, 700) * 2 ^ 37):to "i64" }, 1)
      end
      check(function(a, b, c, d)
        local y = {}
        for _, x in ipairs { a, b, c } do
          local last = #y
          y[last + 1], y[last + 2] = x:sort(2)
          y[last + 3], y[last + 4] = x:sort(2, true)
          y[last + 5] = x:argsort(1)
          y[last + 6], y[last + 7] = x:topk(2, 2)
        end
        local s, at = d:topk(5, 2)
        return s, at, d:argsort(2, true), unpack(y)
      end, { few, peculiar(dtype, 19, 33), peculiar(dtype, 3, 150), long }, vectors)
    end)
  end

  it("multiply matrices in the canonical order", function()
    local a, b, v = ty.randn(37, 300), ty.randn(300, 53), ty.randn(300)
    check(function(a, b, v)
      local d, e = a:to "f64", b:to "f64"
      return a:matmul(b), a:t():matmul(a), a:matmul(v), v:matmul(b), b:t():matmul(a:t()), a:to("f16"):matmul(b:to "f16"),
        a:to("bf16"):matmul(b:to "bf16"), d:matmul(e), d:matmul(v:to "f64"), (a * 10):to("i32"):matmul((b * 10):to "i32"),
        (a:matmul(b) + 1):relu(), (a:to("f16"):matmul(b:to "f16") * 2):to "f32", a:matmul(b):to "f64"
    end, { a, b, v })
    check(function(a, b, c, d) return a:matmul(b), a:matmul(b[1]), c:matmul(d), d:t():matmul(c:t()) end,
      { ty.randn(3, 7, 300), ty.randn(3, 300, 33), ty.randn(1, 9000), ty.randn(9000, 1) })
    for _, k in ipairs { 0, 1, 2, 15, 17 } do
      check(function(a, b) return a:matmul(b), a:t():matmul(a) end, { ty.randn(k, k), ty.randn(k, k + 1) })
    end
  end)

  it("round a fused product and sum once, whatever the processor has", function()
    local c, a, b = 1 + 2 ^ -23, 2 ^ -12 * (1 + 2 ^ -18), 2 ^ -12 * (1 - 2 ^ -18) -- twice rounded it is 1 + 2^-22
    local x, w = ty.tensor { { c, a }, { 1, 1 } }, ty.tensor { { 1, 1 }, { b, b } }
    assert.equal(c, x:matmul(w):get(1, 1))
    local function wide(rows, cols, by, dtype)
      return ty.randn(rows, cols, { dtype = dtype }) * ty.exp2(ty.randint(-by, by, { rows, cols }):to(dtype))
    end
    check(function(x, w, y, z, f, g) return x:matmul(w), y:matmul(z), f:matmul(g) end,
      { x, w, wide(40, 9, 540, "f64"), wide(9, 50, 540, "f64"), wide(40, 9, 75, "f32"), wide(9, 50, 75, "f32") })
  end)

  it("move elements: views, writes, gathers, scatters, sorts", function()
    local x, i = ty.randn(4, 6), ty.tensor({ { 1, 2 }, { 3, 6 }, { 1, 1 }, { 2, -1 } }, { dtype = "i64" })
    check(function(x, i)
      local y = x:clone()
      y[{ { 2, 3 }, { 1, 2 } }] = 7
      y[1] = x[2] * 2
      local s, p = x:sort(2)
      local t, q = x:topk(3, 2)
      return y, x:t(), x, x[1], x[{ { 2, 3 } }], x:reshape(2, 12), x:flip(1), x:gather(2, i), ty.cat({ x, x * 2 }, 2),
        x:pad { { 1, 1 }, { 2, 0 } }, s, p, t, q, x:sort(1, true), x:scatter(2, i, x[{ {}, { 1, 2 } }]),
        x:scatter_add(2, i, x[{ {}, { 1, 2 } }]), ty.searchsorted(s, x), x:index_select(1, i[{ {}, 1 }])
    end, { x, i })
    local special_values = special("f32", 0)
    check(function(v) return v:argsort(1), v:argsort(1, true), (v:sort(1)) end, { special_values })
    check(function(v) return v:argsort(1), v:argsort(1, true) end, { special("f16", 3) })
    check(function(v) return v:argsort(1), v:argsort(1, true) end, { special("i8", 3) })
  end)

  it("sort long rows, equal ones as they came, and transpose sizes beside those of tiles", function()
    for _, n in ipairs { 32, 33, 300 } do
      local few, wide = ty.randint(-3, 3, { 2, n }):float(), ty.randn(2, n, { dtype = "f64" }) * 1e200
      few[1][7], few[2][n] = 0 / 0, -0.0
      check(function(a, b) return a:argsort(2), a:argsort(2, true), b:argsort(2), b:argsort(2, true), a:argmax(2), a:argmin(2) end,
        { few, wide })
    end
    for _, size in ipairs { { 16, 16 }, { 17, 16 }, { 16, 33 }, { 47, 31 } } do
      local x, y = ty.randn(3, size[1], size[2]), ty.randn(3, size[2], size[1])
      check(function(x, y) return x:transpose(2, 3):contiguous() * 2, x:transpose(2, 3) + y, (y - 1):permute(3, 1, 2):contiguous() end,
        { x, y })
    end
  end)

  it("transform in the canonical order", function()
    for _, dtype in ipairs { "f32", "f64" } do
      local given = {}
      for i, n in ipairs { 1, 6, 23, 57, 177, 210 } do given[i] = ty.randn(3, n, 2, { dtype = dtype }) end
      check(function(...)
        local out = {}
        for _, v in ipairs { ... } do
          local h = ty.fft.rfft(v, nil, 2)
          out[#out + 1] = ty.view_as_real(ty.fft.ifft(ty.view_as_complex(v), nil, 1, "ortho"))
          out[#out + 1], out[#out + 2] = ty.view_as_real(h), ty.fft.irfft(h, v:size(2), 2)
        end
        return unpack(out)
      end, given)
    end
    check(function(v, w) return ty.view_as_real(ty.fft.fft(v)), ty.view_as_real(ty.fft.rfft(w)) end,
      { ty.randn(17280), ty.randn(8209) })
    check(function(v, w) return ty.view_as_real(ty.fft.rfft(v, nil, 1)), ty.fft.irfft(ty.view_as_complex(w), 177, 1) end,
      { ty.randn(177, 5, { dtype = "f64" }), ty.randn(89, 5, 2, { dtype = "f64" }) })
    check(function(v, w) -- passes of 7, 11 and 13 over lines side by side, with factors and without
      return ty.view_as_real(ty.fft.fft(ty.view_as_complex(w), nil, 1)), ty.view_as_real(ty.fft.rfft(v, nil, 1)),
        ty.fft.irfft(ty.view_as_complex(w), 1001, 1)
    end, { ty.randn(1001, 35), ty.randn(501, 35, 2) })
  end)

  it("attend in the canonical order", function()
    local q, k, v = ty.randn(2, 3, 100, 24), ty.randn(2, 3, 150, 24), ty.randn(2, 3, 150, 40)
    check(function(q, k, v, m)
      return ty.scaled_dot_product_attention(q, k, v), ty.scaled_dot_product_attention(q, k, v, { mask = m }),
        ty.scaled_dot_product_attention(q, k, v, { mask = m:gt(0) }),
        ty.scaled_dot_product_attention(q, k, v, { causal = true, scale = 0.3 }),
        ty.scaled_dot_product_attention(q:to "f64", k:to "f64", v:to "f64", { causal = true })
    end, { q, k, v, ty.randn(100, 150) })
  end)

  it("draw random numbers from a seed and a stream", function()
    check(function(x) return x + ty.rand(5, 3), ty.randn(7), ty.randint(1, 6, { 9 }), x:dropout(0.5) end, { ty.randn(5, 3) },
      { seed = 42 })
  end)
end)

describe("exported models", function()
  local function mlp() return nn.Sequential(nn.Linear(20, 33), nn.GELU(), nn.Linear(33, 7)) end

  it("are those of modules, weights inside or beside", function()
    local m = mlp()
    check(m, { ty.randn(5, 20) }, nil)
    check(function(x) return m(x):log_softmax(2) end, { ty.randn(1, 20) }, { weights = "beside" })
  end)

  it("convolve", function()
    local cnn = nn.Sequential(nn.Conv2d(2, 8, 3, { padding = 1 }), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
      nn.Conv2d(8, 16, 3, { stride = 2 }), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 3 * 3, 10))
    cnn:eval()
    check(function(x) return cnn(x):softmax(2) end, { ty.randn(3, 2, 15, 14) })
    check(function(x, w) return ty.conv2d(x, w, nil, { padding = 2, dilation = 2, groups = 2 }) end,
      { ty.randn(2, 4, 9, 8), ty.randn(6, 2, 3, 2) })
  end)

  it("attend: a transformer's block", function()
    local d, h = 24, 3
    local ln1, ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
    local qkv, proj, up, down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    check(function(x)
      local n, t = x:size(1), x:size(2)
      local y = qkv(ln1(x)):reshape(n, t, 3, h, d / h):permute(3, 1, 4, 2, 5)
      local a = ty.scaled_dot_product_attention(y[1], y[2], y[3], { causal = true })
      x = x + proj(a:transpose(2, 3):reshape(n, t, d))
      return x + down(up(ln2(x)):gelu())
    end, { ty.randn(2, 17, d) })
  end)

  it("recur: unrolled, and as a loop", function()
    local short, long = nn.LSTM(5, 6), nn.LSTM(5, 6)
    check(function(x) return short(x) end, { ty.randn(2, 4, 5) })
    check(function(x) return long(x) end, { ty.randn(2, 70, 5) })
    check(function(c, x) return ty.scan(function(c, v)
      local y = c * 0.5 + v
      return y, y:tanh()
    end, c, x) end, { ty.zeros(6), ty.randn(9, 6) })
  end)

  it("take numbers, tables of tensors, and give several results", function()
    check(function(x, s, t) return { a = x * s }, t.v + t.k, s * 2 + 1, x:to("i32") + 2 end,
      { ty.randn(3), 2.5, { v = ty.randn(2), k = 3 } },
      { inputs = function(a) return { a[1], a[2], a[3].v, a[3].k } end },
      function(r, b, n, i) return r.a, b, n, i end)
  end)

  it("compute with numbers in double, as Lua does, then round to the dtype", function()
    check(function(x, s, n)
      local h, b, d = x:to "f16", x:to "bf16", x:to "f64"
      return h * s, b + (s * 2 - 1) / 3, d * math.sqrt(s), x - math.floor(s), x * -math.abs(n), x + math.ceil(n)
    end, { ty.randn(5), 2.7182818, -3.3 })
  end)

  it("need no example but for sizes: other contents give their own results", function()
    local m = mlp()
    check(m, { ty.randn(5, 20) }, { calls = { { ty.zeros(5, 20) }, { ty.randn(5, 20) * 100 } } })
  end)
end)

describe("the exported interface", function()
  local function text(path)
    local f = assert(io.open(path))
    local s = f:read "*a"
    f:close()
    return s
  end

  it("names what it takes, with shapes, and warns of nothing", function()
    local m = check(function(image, gain) return image * gain end, { ty.randn(2, 3), 0.5 }, { outputs = { "bright" } })
    local header = text(folder .. "/model.h")
    assert.truthy(header:find("int model_run(const float *image, double gain, float *bright, void *workspace);", 1, true))
    assert.truthy(header:find("image      in: f32 [2, 3]", 1, true))
    assert.same({ "image", "gain" }, { m.info.inputs[1].name, m.info.inputs[2].name })
  end)

  it("says that an index is out of range", function()
    local x, i = ty.randn(4), ty.tensor({ 1, 4 }, { dtype = "i64" })
    local function f(x, i) return x:index_select(1, i) end
    local model = X.export(folder, f, { x, i })
    local want = { f(x, i) }
    local _, status = X.run(model, compilers[1], { x, ty.tensor({ 1, 5 }, { dtype = "i64" }) }, want,
      { by = os.getenv "EXPORT_BY" })
    assert.equal(1, status)
  end)

  it("says that a number is none of the integers that it meets", function()
    local function f(x, n) return x + n end
    local x = ty.tensor({ 1, 2 }, { dtype = "i32" })
    local model = X.export(folder, f, { x, 3 })
    local got, status = X.run(model, compilers[1], { x, 4 }, { f(x, 4) }, { by = os.getenv "EXPORT_BY" })
    assert.equal(0, status)
    assert.same({ 5, 6 }, got[1]:totable())
    local _, other = X.run(model, compilers[1], { x, 1e10 }, { f(x, 4) }, { by = os.getenv "EXPORT_BY" })
    assert.equal(2, other)
  end)

  it("refuses options of compilers that do not keep IEEE 754", function()
    X.export(folder, function(x) return x + 1 end, { ty.randn(3) })
    assert.truthy(os.execute(("cd %s && gcc -std=c11 -ffast-math -c model.c 2> log"):format(folder)) ~= 0)
    assert.truthy(text(folder .. "/log"):find "compile it without %-ffast%-math")
  end)

  it("compiles as C++ sees it", function()
    X.export(folder, function(x) return x + 1 end, { ty.randn(3) })
    local f = io.open(folder .. "/user.cc", "w")
    f:write '#include "model.h"\nint main() { return model_run(nullptr, nullptr, nullptr) == 77; }\n'
    f:close()
    assert.equal(0, os.execute(("cd %s && gcc -x c++ -Wall -Werror -fsyntax-only user.cc"):format(folder)))
  end)
end)

describe("what cannot be exported", function()
  local function refused(what, f, given)
    local ok, err = pcall(jit.export, f, folder .. "/model.c", given)
    assert.falsy(ok)
    assert.truthy(tostring(err):find(what, 1, true), tostring(err))
    assert.falsy(io.open(folder .. "/model.c"), "a file was written")
  end
  local x = ty.randn(3)

  it("is refused, by name, and nothing is written", function()
    refused("decided by a number among its arguments", function(x, n) return n > 1 and x or x * 2 end, { x, 2 })
    refused("needs the value of its argument n", function(x, n)
      for _ = 1, n do x = x * 2 end
      return x
    end, { x, 2 })
    local state = { n = 0 }
    refused("writes state.n", function(x)
      state.n = state.n + 1
      return x * 2
    end, { x })
    refused("cannot be captured whole", function(x) return x * x:sum():item() end, { x })
    refused("writes x in place", function(x)
      x:add_(1)
      return x * 2
    end, { x })
    refused("gives no tensor and no number", function() end, {})
    refused("math.random", function(x) return x * math.random() end, { x })
    refused("a function of Lua's of a number", function(x, s) return x * math.exp(s) end, { x, 2 })
    refused("is no tensor and no number", function(x) return x, "text" end, { x })
  end)

  it("leaves the world as it was", function()
    local state = { n = 0 }
    pcall(jit.export, function(x)
      state.n = state.n + 1
      return x * 2
    end, folder .. "/model.c", { x })
    assert.equal(0, state.n)
  end)

  it("are wrong arguments", function()
    refused("argument 1 must be a function or a module with `forward`, got number; the call is jit.export(model, \"model.c\", ", 3, {})
    refused("argument 3 must be a table", function() end, x)
    refused("unknown option wieghts, did you mean weights?", function() end, { wieghts = 1 })
    refused("option weights must be", function() end, { weights = "x" })
    refused("option name must be a name for C", function() end, { name = "2x" })
    refused("option outputs must be a list of names", function() end, { outputs = { 1 } })
    refused("option outputs must be a list of names", function() end, { outputs = "y" })
    refused("n, the number of arguments, must be a whole number", function() end, { n = "2" })
    refused("there is no argument [1.5]", function() end, { [1.5] = x })
    for said, more in pairs { ["no argument 4 (a table)"] = { { weights = "beside" } },
      ["no argument 4 (a tensor)"] = { x }, ["no argument 5 (a string)"] = { nil, "beside" } } do
      local ok, err = pcall(jit.export, function(v) return v end, folder .. "/model.c", { x }, unpack(more, 1, 2))
      assert.falsy(ok)
      assert.truthy(tostring(err):find(said, 1, true), err)
    end
    assert.has_error(function() jit.export(function() end, "model.txt") end)
    local y, why = jit.export(function(x) return x end, "/nowhere/model.c", { x })
    assert.equal(nil, y)
    assert.truthy(why)
  end)
end)

describe("sizes that callers give", function()
  it("are those of a batch, 1 among them", function()
    local m = nn.Sequential(nn.Linear(20, 33), nn.GELU(), nn.Linear(33, 7), nn.LayerNorm(7))
    local calls = {}
    for i, n in ipairs { 1, 2, 3, 17, 64, 300 } do calls[i] = { ty.randn(n, 20) } end
    check(function(x) return m(x):softmax(2), x:mean(), x:sum(1), x:cumsum(1), x:argmax(1), x:var(1) end,
      { ty.randn(4, 20) }, { dynamic = { x = { "n" } }, calls = calls, sizes = function(a) return { a[1]:size(1) } end })
  end)

  it("are several, shared between arguments", function()
    local calls = {}
    for i, n in ipairs { { 2, 3 }, { 5, 9 }, { 33, 17 }, { 16, 100 } } do
      calls[i] = { ty.randn(n[1], n[2]), ty.randn(n[2], n[1]) }
    end
    check(function(x, y) return x:matmul(y), (x + y:t()):sum(2), x:mean(1), x:softmax(2), x:t():contiguous() end,
      { ty.randn(4, 6), ty.randn(6, 4) }, { dynamic = { x = { "n", "m" }, y = { "m", "n" } }, calls = calls,
        sizes = function(a) return { a[1]:size(1), a[1]:size(2) } end })
  end)

  it("are those of a sequence: attention, recurrence", function()
    local calls = {}
    for i, n in ipairs { 1, 2, 7, 100 } do calls[i] = { ty.randn(2, n, 12) } end
    check(function(x)
      local a = ty.scaled_dot_product_attention(x, x, x, { causal = true })
      return a, ty.scan(function(c, v)
        local y = c * 0.5 + v
        return y, y:tanh()
      end, ty.zeros(12), x[1])
    end, { ty.randn(2, 5, 12) }, { dynamic = { x = { [2] = "t" } }, calls = calls,
      sizes = function(a) return { a[1]:size(2) } end })
  end)

  it("are those of images in a batch", function()
    local cnn = nn.Sequential(nn.Conv2d(2, 4, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
      nn.Linear(4 * 3 * 3, 5))
    local calls = {}
    for i, n in ipairs { 1, 2, 5 } do calls[i] = { ty.randn(n, 2, 6, 6) } end
    check(function(x) return cnn(x) end, { ty.randn(3, 2, 6, 6) }, { dynamic = { x = { "n" } }, calls = calls,
      sizes = function(a) return { a[1]:size(1) } end })
  end)

  it("out of range are told", function()
    local function f(x) return x * 2 end
    local model = X.export(folder, f, { ty.randn(4), dynamic = { x = { "n" } } })
    local _, status = X.run(model, compilers[1], { ty.randn(4) }, { ty.zeros(4) },
      { by = os.getenv "EXPORT_BY", sizes = { 0 } })
    assert.equal(3, status)
    local _, other = X.run(model, compilers[1], { ty.randn(4) }, { ty.zeros(4) },
      { by = os.getenv "EXPORT_BY", sizes = { 1025 } })
    assert.equal(3, other)
  end)

  it("that decide what is computed are refused", function()
    local ok, err = pcall(jit.export, function(x)
      for i = 1, x:size(1) do x = x * i end
      return x
    end, folder .. "/model.c", { ty.randn(4), dynamic = { x = { 1 } } })
    assert.falsy(ok)
    assert.truthy(tostring(err):find("its plan is another one for other sizes", 1, true), err)
    for _, limit in ipairs { 5, 600 } do -- what the smallest sizes do otherwise, or the largest
      ok, err = pcall(jit.export, function(x) return x:size(1) < limit and x * 2 or x * x end, folder .. "/model.c",
        { ty.randn(4), dynamic = { x = { 1 } } })
      assert.falsy(ok)
      assert.truthy(tostring(err):find("another", 1, true), err)
    end
    for what, given in pairs { ["there is no argument z"] = { z = { 1 } }, ["x has no dim 3"] = { x = { 3 } },
      ["must be a table"] = 1, ["is no name for C"] = { x = { "2n" } } } do
      ok, err = pcall(jit.export, function(x) return x end, folder .. "/model.c", { ty.randn(4, 2), dynamic = given })
      assert.falsy(ok)
      assert.truthy(tostring(err):find(what, 1, true), err)
    end
  end)
end)
