--- onnx_save_spec.lua -- functions and modules written as ONNX models: what the file computes, how it is written, what is
-- refused. Each model is read back by the loader, whose operators are proved by other specs, and, where Python has ONNX
-- Runtime (TYCHO_PYTHON names the interpreter, else python3), run there too.

local H = require "spec.helper"
local ty = H.ty
local nn, randn = ty.nn, ty.randn

local folder

local function path_of(name) return folder .. "/" .. name .. ".onnx" end

local function whole(list) return ty.tensor(list, { dtype = "i64" }) end

--- The tensors of results in the order in which a model gives them.
local function flat(list, v)
  if ty.is_tensor(v) then
    list[#list + 1] = v:detach():contiguous()
    return list
  end
  for _, k in ipairs(H.sorted(v)) do flat(list, v[k]) end
  return list
end

local function close(want, got, where)
  assert.equal(want.dtype, got.dtype, where)
  assert.same(want.shape, got.shape, where)
  if want.dtype == "bool" then want, got = want:to("u8"), got:to("u8") end
  local tolerance = want.dtype == "f16" and 1e-3 or 1e-5
  assert.is_true(ty.allclose(want, got, { rtol = tolerance, atol = 2e-6, equal_nan = true }), where)
end

local written = 0

--- Writes a model, reads it, and compares what it gives for other arguments of the same sizes, or for those of `more`.
local function round_trip(name, f, given, more)
  assert(ty.save(path_of(name), f, given))
  local m = assert(ty.load(path_of(name)))
  written = written + 1
  for _, args in ipairs { given, more } do
    local inputs = {}
    for _, v in ipairs(args) do
      if ty.is_tensor(v) then inputs[#inputs + 1] = v end
    end
    local want = ty.no_grad(function() return flat({}, { f(unpack(args)) }) end)
    local got = ty.no_grad(function() return { m(unpack(inputs)) } end)
    assert.equal(#want, #got, name)
    for i = 1, #want do close(want[i], got[i]:contiguous(), name .. " " .. i) end
    for i, t in ipairs(inputs) do ty.save(("%s/%s.in%d.npy"):format(folder, name, i), t) end
    for i, t in ipairs(want) do ty.save(("%s/%s.out%d.npy"):format(folder, name, i), t) end
  end
  return m
end

describe("a model of ONNX that is written", function()
  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute("mkdir " .. folder)
    ty.manual_seed(3)
  end)
  teardown(function() os.execute("rm -r " .. folder) end)

  it("computes what each operation on elements gives", function()
    local x, near = randn(20) * 2, ty.rand(20) * 1.9 - 0.95
    local names = "neg abs ceil floor round trunc sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh "
      .. "asinh erf sigmoid asin acos atan atanh acosh"
    for name in names:gmatch "%S+" do
      local at = name == "acosh" and near:abs() + 1 or name:find "^a[sct]" and near or x
      round_trip("map_" .. name, function(v) return ty[name](v) end, { at })
    end
    round_trip("log1p_small", function(v) return v:log1p(), v:expm1() end,
      { ty.tensor { 1e-7, -1e-7, 0, 1e-3, math.huge, 30 } })
  end)

  it("computes what each operation on two operands gives", function()
    local a, b = randn(4, 5) * 3, randn(5)
    local p, q = whole { 5, -7, 3, 4, 0, -9 }, whole { 2, 2, -2, 0, 3, -4 }
    local names = "add sub mul div floor_divide remainder fmod pow maximum minimum atan2 copysign"
    for name in names:gmatch "%S+" do
      round_trip("two_" .. name, function(x, y) return ty[name](x, y) end, { name == "pow" and a:abs() or a, b })
      if not name:find "atan2" and not name:find "copysign" then
        round_trip("whole_" .. name, function(x, y) return ty[name](x, y) end, { p, name == "pow" and q:abs() or q })
      end
    end
    local yes, no = randn(3, 4):gt(0), randn(3, 4):lt(0)
    round_trip("bools", function(x, y)
      return x:bitwise_and(y), x:bitwise_or(y), x:bitwise_xor(y), x:bitwise_not(), x:eq(y), x:ne(y), x:lt(y), x:le(y),
        x:to "f32", x:sum(), x:any(1), x:all(2), ty.maximum(x, y), x:argmax(2)
    end, { yes, no })
    round_trip("bits", function(x, y)
      return x:bitwise_and(y), x:bitwise_or(y), x:bitwise_xor(y), x:bitwise_not(), x:matmul(y:t()), x:max(1), x:abs()
    end, { (randn(3, 4) * 9):to "i32", (randn(3, 4) * 9):to "i32" })
    round_trip("half", function(x) return (x * 2):relu(), x:to "f64" end, { randn(9):to "f16" })
  end)

  it("computes reductions, scans, orders and places", function()
    round_trip("reductions", function(x)
      return x:sum(), x:mean(2), x:prod(1), x:var(1), x:norm(), x:sum { 1, 2 }, x:argmin(), x:amax(2), (x:max(2))
    end, { randn(3, 7) })
    round_trip("scans", function(x) return x:cumsum(2), x:cumprod(2), (x:cummax(2)), (x:cummin(1)) end, { randn(3, 7) })
    round_trip("sorted", function(x) return x:topk(2), x:sort(2), x:argsort(1, true) end, { randn(3, 8) })
    round_trip("search", function(x, y) return ty.searchsorted(x, y), ty.searchsorted(x, y, true) end,
      { (randn(7):sort()), randn(3, 4) })
    round_trip("places", function(x, i, s)
      return x:scatter(1, i, s), x:scatter_add(1, i, s), x:gather(1, i), x:index_select(1, i[{ {}, 1 }]), x[{ i[1] }]
    end, { randn(5, 3), whole { { 1, 2, -3 }, { 4, 5, 1 } }, randn(2, 3) })
    round_trip("write", function(x)
      local y = x:clone()
      y[{ { 1, 2 }, 2 }] = 5
      return y
    end, { randn(3, 3) })
  end)

  it("writes views as reshapes, slices, transposes, not as lists of places", function()
    local m = round_trip("views", function(x)
      return x:t():narrow(1, 2, 2):expand(2, 2):flip(1), x[{ { 1, 2 }, { 1, 4, 2 } }], x:reshape(4, 2):t(),
        x:unsqueeze(2):expand(2, 3, 4), x:flatten():narrow(1, 3, 4):reshape(2, 2), x:chunk(2, 2)[2] + 1
    end, { randn(2, 4) })
    assert.is_nil(m._about.kinds.Gather)
    m = round_trip("joins", function(x, y) return ty.cat({ x, y }, 2), ty.stack({ x, y }, 1), ty.stack({ x, y }, 3) end,
      { randn(2, 3), randn(2, 3) })
    assert.equal(3, m._about.kinds.Concat)
    assert.is_nil(m._about.kinds.ScatterElements)
    m = round_trip("pad", function(x) return x:pad { { 1, 1 }, { 0, 2 } } end, { randn(2, 3) })
    assert.same({ Pad = 1 }, m._about.kinds)
    round_trip("windows", function(x) return x:unfold(1, 3, 1) end, { randn(9) })
    round_trip("empty", function(x) return x[{ { 1, 0 } }]:sum(1) end, { randn(4, 3) })
  end)

  it("writes convolutions as such, whatever their kernel, stride, dilation, groups", function()
    for name, layer in pairs {
      plain = nn.Conv2d(4, 6, 3, { padding = 1 }), stride = nn.Conv2d(4, 6, 3, { stride = 2 }),
      groups = nn.Conv2d(4, 6, 3, { groups = 2, padding = 1 }), depthwise = nn.Conv2d(4, 4, 3, { groups = 4 }),
      dilated = nn.Conv2d(4, 6, 3, { dilation = 2 }), pointwise = nn.Conv2d(4, 6, 1), whole = nn.Conv2d(4, 6, 9),
    } do
      local m = round_trip("conv_" .. name, layer, { randn(2, 4, 9, 9) })
      assert.equal(1, m._about.kinds.Conv, name)
      assert.is_nil(m._about.kinds.Gather, name)
    end
    assert.equal(1, round_trip("conv1d", nn.Conv1d(4, 6, 3, { dilation = 2 }), { randn(2, 4, 9) })._about.kinds.Conv)
    assert.equal(1, round_trip("conv3d", nn.Conv3d(2, 3, 2), { randn(1, 2, 4, 5, 6) })._about.kinds.Conv)
    round_trip("transposed", nn.ConvTranspose2d(4, 3, 3, { stride = 2, padding = 1 }), { randn(1, 4, 5, 5) })
    round_trip("pools", function(x) return nn.MaxPool2d(2)(x), nn.AvgPool2d(3, { stride = 2, padding = 1 })(x) end,
      { randn(2, 3, 8, 8) })
  end)

  it("serves any batch and length where sizes may vary", function()
    local cnn = nn.Sequential(nn.Conv2d(1, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
      nn.Flatten(), nn.Linear(64, 10), nn.LayerNorm(10)):eval()
    local m = round_trip("cnn", cnn, { randn(2, 1, 8, 8), dynamic = { x = { [1] = "batch" } } }, { randn(5, 1, 8, 8) })
    assert.same({ { "x", "float[batch, 1, 8, 8]" } }, m._about.inputs)
    assert.same({ { "output", "float[batch, 10]" } }, m._about.outputs)
    round_trip("one", cnn, { randn(2, 1, 8, 8), dynamic = { x = { "batch" } } }, { randn(1, 1, 8, 8) })
    round_trip("lstm", nn.LSTM(4, 5), { randn(2, 3, 4), dynamic = { x = { 1 } } }, { randn(7, 3, 4) })
    local encoder = nn.TransformerEncoderLayer(8, 2):eval()
    m = round_trip("encoder", encoder, { randn(2, 5, 8), dynamic = { x = { "batch", "time" } } }, { randn(1, 9, 8) })
    assert.same({ { "output", "float[batch, time, 8]" } }, m._about.outputs)
    round_trip("mean", function(x) return x:mean(1), x:sum() / x:size(1) end, { randn(3, 2), dynamic = { x = { 1 } } },
      { randn(8, 2) })
    round_trip("causal", function(x)
      return ty.scaled_dot_product_attention(x, x, x, { causal = true })
    end, { randn(1, 2, 4, 3) })
  end)

  it("names inputs, results and weights", function()
    local net = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3))
    local m = round_trip("names", net, { whole { 1, 2, 3 }, inputs = { "tokens" }, outputs = { "scores" } })
    assert.same({ { "tokens", "int64[3]" } }, m._about.inputs)
    assert.same({ { "scores", "float[3, 3]" } }, m._about.outputs)
    assert.same({ "1.weight", "2.bias", "2.weight" }, H.sorted(m.parts))
    m = round_trip("tables", function(x, k) return { first = x * k, rest = { x + 1, x } } end, { randn(2, 3), 0.25 })
    assert.same({ { "first", "float[2, 3]" }, { "rest_1", "float[2, 3]" }, { "rest_2", "float[2, 3]" } },
      m._about.outputs)
    m = round_trip("clash", function(output) return output + 1 end, { randn(2) })
    assert.same({ { "output_", "float[2]" } }, m._about.outputs)
    local w = randn(4, 3)
    m = round_trip("tied", function(x) return x:matmul(w):matmul(w:t()) end, { randn(2, 4) })
    assert.equal(1, m._about.tensors) -- read in two ways, it stands in the file once
  end)

  it("puts weights beside the model", function()
    round_trip("beside", nn.Linear(64, 64), { randn(2, 64), weights = "beside" })
    local f = assert(io.open(path_of "beside" .. ".data", "rb"))
    local size = f:seek "end"
    f:close()
    assert.equal(64 * 64 * 4, size) -- the bias is small: it stays inside
  end)

  it("leaves what it was given as it was", function()
    local w, x = randn(3, 3):requires_grad_(), randn(2, 3)
    local function f(v) return v:matmul(w) end
    local before = f(x):detach():clone()
    assert(ty.save(path_of "kept", f, { x }))
    H.same(before, f(x):detach())
    assert.is_true(f(x).requires_grad)
    os.remove(path_of "kept")
  end)

  it("refuses what a model cannot hold, by name, and writes nothing", function()
    local x = randn(2, 3)
    local function refused(want, f, given)
      H.raises(want, ty.save, path_of "refused", f, given or { x })
      assert.is_nil(io.open(path_of "refused"))
    end
    refused("reads a value on its way", function(v) return v:sum():item() > 0 and v or -v end)
    refused("random numbers (call model:eval()", nn.Dropout(0.5))
    refused("the inverse of the error function", function(v) return v:erfinv() end)
    refused("a result must be a tensor", function(v) return v:size(1) end)
    refused("returns nothing", function() end)
    refused("argument 1 must be a function or a module", x)
    refused("argument 3 must be a table", function(v) return v end, 3)
    refused("unknown option output, did you mean outputs?", function(v) return v end, { x, output = {} })
    refused("there is no argument y", function(v) return v end, { x, dynamic = { y = { 1 } } })
    refused("has no dim 3", function(v) return v end, { x, dynamic = { v = { 3 } } })
    refused("two have the name", function(v) return v, v + 1 end, { x, outputs = { "a", "a" } })
    refused("an input or a weight is named \"v\"", function(v) return v + 1 end, { x, outputs = { "v" } })
    refused("does not take sizes", function(v) return v:matmul(ty.ones(3, 3)) end, { x, dynamic = { v = { 2 } } })
    refused("the graph is another one at other sizes", function(v)
      for _ = 1, v:size(1) do v = v * 2 end
      return v
    end, { x, dynamic = { v = { 1 } } })
    H.raises("oops", ty.save, path_of "refused", function() error "oops" end, { x })
    assert.is_nil((ty.save("/no/such/folder/m.onnx", function(v) return v end, { x })))
  end)

  it("gives in ONNX Runtime what it gives here", function()
    assert.is_true(written > 70, written)
    local python = os.getenv "TYCHO_PYTHON" or "python3"
    local log = folder .. "/log"
    local status = os.execute(("%s spec/onnx_runtime.py %s >%s 2>&1"):format(python, folder, log))
    if status ~= 0 and status ~= true then
      local code = type(status) == "number" and math.floor(status / 256) or 3
      if code == 3 or code == 127 then return pending "there is no ONNX Runtime" end
    end
    local f = assert(io.open(log))
    local text = f:read "*a"
    f:close()
    assert.equal(("%d models\n"):format(written), text)
  end)
end)
