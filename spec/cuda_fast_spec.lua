-- cuda_fast_spec.lua -- products on the device "cuda" by cuBLASLt, on the software GPU and a stand-in of the library (spec/gpu/lib)
-- that checks its calls; its bits depend on all that it is told. The device's exact products are in cuda_spec.lua.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.soft and it or pending
ty.device "cpu"

local fake
if cuda.soft then
  -- fast kernels may take the processor's own exp2
  require("spec.soft_gpu").cu.soft_gpu_set("APPROXIMATE", 1)
  local ffi = require "ffi"
  ffi.cdef "int soft_cublaslt_products(void); int soft_cublaslt_asked(void);"
  fake = ffi.load(os.getenv "TYCHO_CUBLASLT")
end

--- Numbers of either sign, below 1.
local function numbers(dtype, ...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return ((ty.arange(n, { dtype = "f64" }) * 1.7 + 0.3):sin()):to(dtype):reshape { ... }
end

--- f(...) at that precision; how many products the library computed for it.
local function at(precision, f, ...)
  ty.precision(precision)
  local before = fake.soft_cublaslt_products()
  local results = { pcall(f, ...) }
  ty.precision "exact"
  assert(results[1], results[2])
  return fake.soft_cublaslt_products() - before, unpack(results, 2)
end

local EPS = { f16 = 2 ^ -11, bf16 = 2 ^ -8, f32 = 2 ^ -10 } -- of results; TF32's operands have 10 bits

--- y = a b up to one rounding of the dtype and those of sums in f32, against f64.
local function close(y, a, b, dtype)
  local function wide(x) return x:to "cpu":to "f64" end
  local x, z = wide(a), wide(b)
  local sums = x:abs():matmul(z:abs())
  local bound = x:matmul(z):abs() * EPS[dtype] + sums * (dtype == "f32" and 2 ^ -10 or x.shape[#x.shape] * 2 ^ -24) + 1e-7
  local off = (wide(y) - x:matmul(z)):abs() - bound
  assert.truthy(off:max():item() <= 0, ("off by %g more than %g"):format(off:max():item(), bound:max():item()))
end

local FORMS = { -- operands of a product, as a user has them
  ["in order"] = function(n) return n(8, 16), n(16, 24) end,
  ["a transposed"] = function(n) return n(16, 8):t(), n(16, 24) end,
  ["b transposed"] = function(n) return n(8, 16), n(24, 16):t() end,
  ["both transposed"] = function(n) return n(16, 8):t(), n(24, 16):t() end,
  ["sizes that are odd"] = function(n) return n(7, 5), n(5, 3) end,
  ["columns of a wider matrix"] = function(n) return n(8, 40)[{ {}, { 9, 24 } }], n(16, 40)[{ {}, { 1, 24 } }] end,
  ["columns that are not aligned"] = function(n) return n(8, 40)[{ {}, { 2, 17 } }], n(16, 27)[{ {}, { 3, 26 } }] end,
  ["columns of rows that are not"] = function(n) return n(8, 41)[{ {}, { 1, 16 } }], n(16, 27)[{ {}, { 1, 24 } }] end,
  ["every other row and column"] = function(n) return n(16, 32)[{ { 1, -1, 2 }, { 1, -1, 2 } }], n(16, 24) end,
  ["rows in reverse"] = function(n) return n(8, 16):flip(1), n(16, 24) end,
  ["one column"] = function(n) return n(8, 16), n(16, 1) end,
  ["one row"] = function(n) return n(1, 16), n(16, 24) end,
  ["a sum of one"] = function(n) return n(8, 1), n(1, 24) end,
  ["a long sum, by parts"] = function(n) return n(4, 500), n(500, 8) end,
  ["batches"] = function(n) return n(3, 8, 16), n(3, 16, 24) end,
  ["batches, transposed"] = function(n) return n(3, 16, 8):transpose(2, 3), n(3, 24, 16):transpose(2, 3) end,
  ["batches in another order"] = function(n) return n(8, 3, 16):transpose(1, 2), n(16, 3, 24):transpose(1, 2) end,
  ["batches that are every other one"] = function(n) return n(6, 8, 16)[{ { 1, -1, 2 } }], n(3, 16, 24) end,
  ["heads"] = function(n) return n(2, 5, 3, 8):transpose(2, 3), n(2, 7, 3, 8):transpose(2, 3):transpose(3, 4) end,
  ["one matrix for many"] = function(n) return n(2, 3, 8, 16), n(16, 24) end,
  ["one matrix for many, of which a has its own order"] = function(n) return n(8, 3, 16):transpose(1, 2), n(16, 24) end,
  ["one matrix for many, that are transposed"] = function(n) return n(3, 16, 8):transpose(2, 3), n(16, 24) end,
  ["one matrix, expanded"] = function(n) return n(3, 8, 16), n(1, 16, 24):expand(3, 16, 24) end,
  ["many for one"] = function(n) return n(8, 16), n(3, 16, 24) end,
  ["both broadcast"] = function(n) return n(3, 1, 8, 16), n(1, 2, 16, 24) end,
}

describe("a product by cuBLASLt", function()
  for name, form in pairs(FORMS) do
    probe("is right to a rounding: " .. name, function()
      for dtype, precision in pairs { f16 = "fast", bf16 = "fast", f32 = "tf32" } do
        local a, b = form(function(...) return numbers(dtype, ...):to "cuda" end)
        local n, y = at(precision, a.matmul, a, b)
        assert.equal(1, n)
        close(y, a, b, dtype)
      end
    end)
    probe("has the same bits compiled, whatever its operands are made of: " .. name, function()
      for dtype, precision in pairs { bf16 = "fast", f32 = "tf32" } do
        local a, b = form(function(...) return numbers(dtype, ...):to "cuda" end)
        for what, f in pairs {
          plain = function(x, z) return x:matmul(z) end,
          maps = function(x, z) return (x * 2):matmul(z - 1), x:exp():matmul(z) * 3 end,
          contiguous = function(x, z) return x:contiguous():matmul(z:contiguous()), (x + 1):contiguous():matmul(z) end,
          turned = function(x, z) return (z.mT:matmul(x.mT)).mT:contiguous():matmul(z.mT:contiguous()) end,
          what_follows = function(x, z) return (x:matmul(z) + 1):relu():to "f32":sum(), x:matmul(z):softmax(-1) end,
        } do
          local g = ty.compile(f)
          local _, want, want2 = at(precision, f, a, b)
          for _ = 1, 3 do
            local n, got, got2 = at(precision, g, a, b)
            assert.truthy(n > 0, what)
            H.same(want:to "cpu", got:to "cpu", what)
            if want2 then H.same(want2:to "cpu", got2:to "cpu", what) end
          end
        end
      end
    end)
  end

  probe("is asked for once, for sizes and how operands lie for the user", function()
    local a, b = numbers("f16", 13, 40):to "cuda", numbers("f16", 40, 11):to "cuda"
    at("fast", a.matmul, a, b)
    local asked = fake.soft_cublaslt_asked()
    for _ = 1, 5 do at("fast", a.matmul, a * 2, b + 1) end
    assert.equal(asked, fake.soft_cublaslt_asked())
  end)

  probe("goes by each device's own handle", function()
    local a, b = numbers("f16", 9, 130), numbers("f16", 130, 7)
    local n, y = at("fast", a.matmul, a:to "cuda", b:to "cuda")
    local k, z = at("fast", a.matmul, a:to "cuda:1", b:to "cuda:1")
    assert.same({ 1, 1, "cuda:1" }, { n, k, z.device })
    H.same(y:to "cpu", z:to "cpu")
    local _, w = at("tf32", ty.scaled_dot_product_attention, a:to "cuda:1", a:to "cuda:1", a:to "cuda:1")
    local _, v = at("tf32", ty.scaled_dot_product_attention, a:to "cuda", a:to "cuda", a:to "cuda")
    H.same(v:to "cpu", w:to "cpu")
  end)

  probe("leaves what is exact as it is: f32 and f64 at precision fast, all at exact, empty ones", function()
    local function mm(x, z) return x:matmul(z) end
    for _, dtype in ipairs { "f32", "f64", "i32" } do
      local a, b = numbers("f64", 8, 300):mul(9):to(dtype), numbers("f64", 300, 6):mul(9):to(dtype)
      local n, y = at("fast", mm, a:to "cuda", b:to "cuda")
      assert.equal(0, n)
      H.same(a:matmul(b), y:to "cpu")
    end
    for _, dtype in ipairs { "f16", "bf16", "f32" } do
      local a, b = numbers(dtype, 8, 300), numbers(dtype, 300, 6)
      local n, y = at("exact", mm, a:to "cuda", b:to "cuda")
      assert.equal(0, n)
      H.same(a:matmul(b), y:to "cpu")
    end
    local none = { dtype = "f16", device = "cuda" }
    local n, y = at("fast", mm, ty.zeros({ 3, 0 }, none), ty.zeros({ 0, 2 }, none))
    assert.equal(0, n)
    assert.same({ { 0, 0 }, { 0, 0 }, { 0, 0 } }, y:totable())
  end)

  probe("keeps its bits when a plan for a range of sizes serves another one", function()
    local f = function(x, w) return (x:matmul(w):relu() * 2):matmul(w.mT) end
    local g, w = ty.compile(f), numbers("bf16", 24, 8):to "cuda"
    for _, m in ipairs { 5, 6, 16, 9, 1, 33, 2 } do
      local x = numbers("bf16", m, 24):to "cuda"
      local _, want = at("fast", f, x, w)
      local n, got = at("fast", g, x, w)
      assert.equal(2, n)
      H.same(want:to "cpu", got:to "cpu", tostring(m))
    end
  end)

  probe("does not round parts of sums to half floats", function()
    for dtype, step in pairs { bf16 = 2 ^ -7, f16 = 2 ^ -10 } do
      local x = ty.cat { ty.full({ 50 }, 1 + step, { dtype = dtype }), ty.full({ 50 }, -1, { dtype = dtype }) }:reshape(100, 1):to "cuda"
      local n, y = at("fast", function() return ty.ones({ 1, 100 }, { dtype = dtype, device = "cuda" }):matmul(x) end)
      assert.same({ 1, 50 * step }, { n, y:item() })
    end
  end)

  probe("heeds the precision at each call", function()
    local f = function(x) return x:matmul(x) end
    local g, x = ty.compile(f), numbers("f32", 100, 100)
    local y = x:to "cuda"
    for _, precision in ipairs { "fast", "tf32", "exact", "tf32", "fast" } do
      local n, got = at(precision, g, y)
      assert.equal(precision == "tf32" and 1 or 0, n)
      local _, want = at(precision, f, y)
      H.same(want:to "cpu", got:to "cpu", precision)
      if precision ~= "tf32" then H.same(f(x), got:to "cpu") end
    end
  end)

  probe("is named by explain and graph", function()
    local f = ty.compile(function(x) return x:matmul(x) + 1 end)
    local x = numbers("f16", 4, 4):to "cuda"
    for _ = 1, 3 do at("fast", f, x) end
    local text = ty.explain(f):full()
    assert.truthy(text:find("2 operations in 0 kernels", 1, true) and text:find("by the device's library", 1, true), text)
  end)
end)

describe("within autocast on cuda", function()
  local function train(compiled, precision)
    ty.manual_seed(3)
    local m = ty.nn.Sequential(ty.nn.Linear(20, 16), ty.nn.ReLU(), ty.nn.Linear(16, 12), ty.nn.GELU(), ty.nn.Linear(12, 4)):to "cuda"
    local opt = ty.optim.Adam(m:parameters(), { lr = 0.05 })
    local x, want = numbers("f32", 16, 20):to "cuda", ty.arange(16):remainder(4):add(1):to "i64":to "cuda"
    local function step(a, b)
      opt:zero_grad()
      local loss = ty.autocast("bf16", function() return ty.cross_entropy(m(a), b) end)
      loss:backward()
      opt:step()
      return loss:detach()
    end
    local run, losses = compiled and ty.compile(step) or step, {}
    local before = fake.soft_cublaslt_products()
    for i = 1, 4 do losses[i] = at(precision, function() return (run(x, want):item()) end) and run(x, want):item() end
    return losses, m:parameters(), fake.soft_cublaslt_products() - before
  end
  probe("layers and their gradients go by the library, compiled as eagerly, bit for bit", function()
    local a, p, n = train(false, "exact")
    local b, q, k = train(true, "exact")
    assert.same(a, b)
    assert.equal(8 * 8, n) -- three products forward, three of weights and two of inputs backward
    assert.equal(n, k)
    assert.truthy(b[4] < b[1])
    for i = 1, #p do H.same(p[i]:detach():to "cpu", q[i]:detach():to "cpu") end
  end)
  probe("gradients are those of the CPU, to some roundings", function()
    local function grads(device)
      ty.manual_seed(2)
      local layer, x = ty.nn.Linear(20, 5):to(device), numbers("f32", 6, 20):to(device):requires_grad_()
      ty.autocast("bf16", function() return layer(x) end):to "f32":sin():sum():backward()
      return x.grad:to "cpu", layer.weight.grad:to "cpu"
    end
    local x, w = grads "cpu"
    local y, v = grads "cuda"
    assert.truthy((x - y):abs():max():item() < 0.1 and (w - v):abs():max():item() < 0.1)
  end)
end)

describe("attention by tensor cores", function()
  --- softmax(q k^t scale + mask) v in f64, and how far off roundings to 10 bits may bring it.
  local function whole(q, k, v, options)
    local n, m, scale = q:size(-2), k:size(-2), 1 / math.sqrt(q:size(-1))
    local scores = q:matmul(k.mT) * scale
    if options.mask then scores = options.mask.dtype == "bool" and options.mask:where(scores, -math.huge) or scores + options.mask end
    if options.causal then
      local seen = (ty.arange(m):reshape(1, m) - ty.arange(n):reshape(n, 1)):le(m - n)
      scores = seen:where(scores, -math.huge)
    end
    local size = (q:abs():matmul(k:abs().mT) * scale):max():item()
    local none = scores:max(-1, true):eq(-math.huge) -- a query that sees no key gets 0
    return none:where(0, none:where(0, scores):softmax(-1)):matmul(v), v:abs():max():item() * (2 + 2 * size) * 2 ^ -10
  end
  local function wide(x) return x:to "cpu":to "f64" end
  local function attend(name, sizes, options)
    probe(name, function()
      local lead, n, m, d, dv = unpack(sizes)
      for dtype, precision in pairs { bf16 = "fast", f16 = "fast", f32 = "tf32" } do
        local function operand(rows, columns)
          if not options.heads then return numbers(dtype, lead, rows, columns):to "cuda" end
          local more = numbers(dtype, lead, rows, 2, columns + 4):to "cuda"
          return more[{ "...", { options.heads, options.heads + columns - 1 } }]:transpose(2, 3)
        end
        local q, k, v = operand(n, d), operand(m, d), operand(m, dv)
        local o = { causal = options.causal }
        if options.mask then o.mask = numbers("f64", n, m) end
        if options.mask == "bits" then o.mask = o.mask:gt(-0.3) end
        local there = { causal = o.causal, mask = o.mask and (o.mask.dtype == "bool" and o.mask or o.mask:to(dtype)):to "cuda" }
        local function f(a, b, c) return ty.scaled_dot_product_attention(a, b, c, there) end
        local _, y = at(precision, f, q, k, v)
        local want, off = whole(wide(q), wide(k), wide(v), o)
        local worst = (wide(y) - want):abs():max():item()
        assert.equal(dtype, y.dtype)
        assert.truthy(worst <= off + EPS[dtype] * wide(v):abs():max():item(), ("%s: %g, %g may be"):format(dtype, worst, off))
        local exact = f(q, k, v)
        if n > 8 then assert.truthy((exact:to "cpu":ne(y:to "cpu")):any():item() or dtype == "bf16", dtype) end -- it is another way
        local g = ty.compile(f)
        for _ = 1, 3 do
          local _, z = at(precision, g, q, k, v)
          H.same(y:to "cpu", z:to "cpu")
        end
      end
    end)
  end
  attend("blocks of queries and keys, in part", { 2, 70, 67, 20, 70 }, {})
  attend("few features, an odd number", { 1, 30, 50, 7, 3 }, {})
  attend("heads that lie between positions", { 2, 40, 70, 16, 64 }, { heads = 1 })
  attend("heads that are not aligned", { 2, 40, 70, 32, 16 }, { heads = 2, causal = true })
  attend("128 features", { 1, 64, 64, 128, 128 }, { causal = true })
  attend("features of several pieces", { 1, 33, 40, 300, 130 }, {})
  attend("causal, more keys", { 2, 40, 100, 16, 16 }, { causal = true })
  attend("causal, more queries", { 1, 68, 30, 8, 8 }, { causal = true })
  attend("a mask that is added", { 1, 20, 70, 16, 8 }, { mask = "added" })
  attend("a mask of bools", { 1, 20, 70, 16, 8 }, { mask = "bits" })

  probe("keeps all bits of scores, which tell close keys apart", function()
    -- scores of 64 + j / 64 of key j, exact in f32; with 10 bits those of every fourth would be further apart, those behind them nearer
    local j = ty.arange(70, { dtype = "f32" })
    local q, k = ty.full({ 20, 16 }, 16), ty.ones(70, 16)
    k[{ {}, 1 }] = j / 256 + 1
    local v = ((j % 4):eq(3):to "f32" - (j % 4):eq(1):to "f32"):reshape(70, 1):expand(70, 16)
    for _, mask in ipairs { false, ty.ones({ 20, 70 }, { dtype = "bool" }) } do
      local function f(device)
        local function there(x) return x:to "f16":contiguous():to(device) end
        return ty.scaled_dot_product_attention(there(q), there(k), there(v), { mask = mask and mask:to(device) or nil })
      end
      local _, y = at("fast", f, "cuda")
      local off = (wide(y) - wide(f "cpu")):abs():max():item()
      assert.truthy(off < 2 ^ -9, off)
    end
  end)

  probe("its gradients are those of the whole matrix of scores, as far as roundings of all factors to 10 bits go", function()
    for _, options in ipairs { {}, { causal = true } } do
      local x, w, kept = {}, {}, {}
      for i, rows in ipairs { 66, 70, 70 } do
        kept[i] = numbers("f32", 2, rows, 24)
        x[i], w[i] = kept[i]:to "cuda":requires_grad_(), kept[i]:to "f64":requires_grad_()
      end
      local y = whole(w[1], w[2], w[3], options)
      y:sin():sum():backward()
      at("tf32", function() ty.scaled_dot_product_attention(x[1], x[2], x[3], options):sin():sum():backward() end)
      local q, k, v, scale = kept[1]:to "f64", kept[2]:to "f64", kept[3]:to "f64", 1 / math.sqrt(24)
      local size, slope = (q:abs():matmul(k:abs().mT)):max():item() * scale, v:abs():sum(-1):max():item()
      local rows = 66 -- of queries that a key may weigh in, by 1 at most
      local off = {
        scale * k:abs():max():item() * slope, rows * scale * q:abs():max():item() * slope, rows,
      }
      for n = 1, 3 do
        local worst = (wide(x[n].grad) - w[n].grad):abs():max():item()
        assert.truthy(worst <= off[n] * (3 + 2 * size) * 2 ^ -10, ("%d: %g, %g may be"):format(n, worst, off[n] * (3 + 2 * size) * 2 ^ -10))
        assert.truthy(worst < 2 ^ -7 * w[n].grad:abs():max():item(), worst)
      end
    end
  end)
  probe("rounds operands to the nearest, and scores not at all", function()
    local v = ty.full({ 5, 8 }, 1 + 3 * 2 ^ -12):to "cuda"
    local q = numbers("f32", 5, 8):to "cuda"
    local _, y = at("tf32", ty.scaled_dot_product_attention, q, q, v)
    assert.truthy((wide(y) - wide(v)):abs():max():item() <= 2 ^ -11)
    -- scores 400 + j / 64, of operands that have few digits
    local k = ty.full({ 64, 16 }, 25, { dtype = "f16" })
    k[{ {}, 16 }] = 25 + ty.arange(64) / 64
    local u, all = ty.full({ 3, 16 }, 4, { dtype = "f16" }), (ty.arange(64, { dtype = "f64" }) / 64):reshape(64, 1)
    local _, z = at("fast", ty.scaled_dot_product_attention, u:to "cuda", k:to "cuda", all:to "f16":to "cuda")
    local want = all.mT:softmax(-1):matmul(all):item()
    assert.truthy((wide(z) - want):abs():max():item() < 2 ^ -10, want)
  end)
  probe("dropout leaves what it leaves on the CPU", function()
    local x = numbers("f16", 2, 70, 16)
    local function f(device)
      ty.manual_seed(9)
      local q = x:to(device)
      return ty.scaled_dot_product_attention(q, q, q, { dropout = 0.4 })
    end
    local want = f "cpu"
    local _, y = at("fast", f, "cuda")
    assert.truthy((wide(want) - wide(y)):abs():max():item() < 0.01)
  end)
  probe("a compiled forward and backward are eager's, bit for bit", function()
    local function loss(q, k, v) return ty.scaled_dot_product_attention(q, k, v, { causal = true }):to "f32":sin():sum() end
    local function run(f)
      local x = {}
      for i = 1, 3 do x[i] = (numbers("bf16", 2, 40, 16) + i):to "cuda":requires_grad_() end
      f(x[1], x[2], x[3]):backward()
      return x[1].grad:to "cpu", x[2].grad:to "cpu", x[3].grad:to "cpu"
    end
    local g = ty.compile(loss)
    local _, a, b, c = at("fast", run, loss)
    for _ = 1, 3 do
      local _, d, e, h = at("fast", run, g)
      H.same(a, d) H.same(b, e) H.same(c, h)
    end
  end)
  probe("on processors before 8.0 it is exact", function()
    local file = os.tmpname()
    local f = assert(io.open(file, "w"))
    f:write [[
      local ty = require "tycho"
      local x = ty.randn(40, 16)
      ty.precision "tf32"
      local y, z = ty.scaled_dot_product_attention(x, x, x), x:to "cuda"
      assert(tostring(y) == tostring(ty.scaled_dot_product_attention(z, z, z):to "cpu"))
      print "same"]]
    f:close()
    local how = "cd '%s.' && env -u CUDA_DEFAULT SOFT_GPU_CAPABILITY=75 TYCHO_CACHE=off luajit '%s' 2>&1"
    local p = assert(io.popen(how:format(H.root, file)))
    local text = p:read "*a"
    p:close()
    os.remove(file)
    assert.equal("same\n", text)
  end)
end)

describe("the gradient of a compiled function under autocast", function()
  probe("is computed as its products were, outside of it too", function()
    local layer = ty.nn.Linear(12, 6):to "cuda"
    local function forward(x) return ty.autocast("bf16", layer, x):to "f32":sin():sum() end
    local x = numbers("f32", 9, 12):to "cuda"
    local function grads(f)
      layer.weight.grad = nil
      local before = fake.soft_cublaslt_products()
      f(x):backward()
      return fake.soft_cublaslt_products() - before, layer.weight.grad:to "cpu"
    end
    local n, want = grads(forward)
    assert.equal(2, n)
    local g = ty.compile(forward)
    for _ = 1, 4 do
      local k, got = grads(g)
      assert.equal(n, k)
      H.same(want, got)
    end
  end)
end)

--- A program on the device in a process of its own.
local function gives(want, environment, program)
  cuda.gives(want, "TYCHO_LOG= TYCHO_CUDA_INTERPRET=0 " .. environment, [[
    local ty = require "tycho"
    local function half(...) return ty.rand(...):to "f16":to "cuda" end
    ty.precision "fast"
  ]] .. program)
end

describe("what goes wrong with cuBLASLt:", function()
  local exact = [[
    local a, b = half(8, 300), half(300, 6)
    local y, z = a:matmul(b), a:matmul(b)
    assert(tostring(y:to "cpu") == tostring(a:to "cpu":matmul(b:to "cpu")) and tostring(y) == tostring(z))
  ]]
  local missing = "tycho: cuda: cuBLASLt was not found: products at reduced precision are computed exactly"
  probe("it is not there, or does not start: exact products go on, which one line says", function()
    for _, environment in ipairs {
      "TYCHO_CUBLASLT=/nowhere/x.so", "TYCHO_CUBLASLT=off", "TYCHO_CUBLASLT=libm.so.6", "SOFT_CUBLASLT_CREATE=-1",
    } do
      gives("^" .. missing .. "[^\n]*\nstatus 0\n$", environment, exact)
    end
    gives("^status 0\n$", "TYCHO_CUBLASLT=off TYCHO_LOG=0", exact)
  end)
  probe("it has no algorithm: exact products go on, which one line says", function()
    gives("^tycho: cuda: cuBLASLt has no algorithm for some products[^\n]*\nstatus 0\n$", "SOFT_CUBLASLT_NONE=-1", exact)
    gives("^tycho: cuda: cuBLASLt has no algorithm for some products[^\n]*\nstatus 0\n$", "SOFT_GPU_CAPABILITY=75", [[
      local a = half(4, 4):to "bf16"
      assert(tostring(a:matmul(a):to "cpu") == tostring(a:to "cpu":matmul(a:to "cpu")))]])
  end)
  probe("its algorithm does not take how an operand lies: it is packed, to the same bits", function()
    gives("^same\nstatus 0\n$", "SOFT_CUBLASLT_CHECK=-1", [[
      local a, b = half(8, 40), half(40, 64)
      local want = tostring(a[{ {}, { 9, 24 } }]:clone():matmul(b[{ { 1, 16 }, { 9, 40 } }]:clone()))
      for _ = 1, 2 do assert(want == tostring(a[{ {}, { 9, 24 } }]:matmul(b[{ { 1, 16 }, { 9, 40 } }]))) end
      print "same"]])
  end)
  probe("a call fails: the error names its status, and the next one goes on", function()
    gives("^false\t[^\n]*matmul: cuBLASLt fails: CUBLAS_STATUS_INTERNAL_ERROR %(an internal operation failed%)\n300\nstatus 0\n$",
      "SOFT_CUBLASLT_FAIL=1", [[
      local a, b = ty.ones(2, 300, { dtype = "f16", device = "cuda" }), ty.ones(300, 2, { dtype = "f16", device = "cuda" })
      print(pcall(function() return a:matmul(b):get(1, 1) end))
      print(a:matmul(b):get(2, 2))]])
  end)
  probe("there is no memory for its workspace, for operands in order, for results: it raises, and the next call goes on", function()
    gives("^false\t[^\n]*memory[^\n]*\n.*false\t[^\n]*memory[^\n]*\n300\nstatus 0\n$", "", [[
      local a, b = ty.ones(64, 300, { dtype = "f16", device = "cuda" }), ty.ones(300, 40, { dtype = "f16", device = "cuda" })
      local function try() return pcall(function() return a:flip(2):matmul(b):get(2, 3) end) end
      local failed = 0
      for room = 0, 100000, 512 do
        collectgarbage()
        ty.cuda.empty_cache()
        ty.cuda.limit(ty.cuda.memory().used + room)
        local ok, y = try()
        if ok then
          assert(y == 300, y)
        else
          failed = failed + 1
          assert(failed * 512 > room, "it goes on with less") -- more memory never fails where less was enough
          print(ok, y)
        end
      end
      assert(failed * 512 > 20000) -- with room for results but not for parts of sums
      ty.cuda.limit(math.huge)
      print(select(2, try()))]])
  end)
  probe("an index out of range before it leaves what it would write, in the same function", function()
    gives("^48\n96\n144\nfalse\t[^\n]*index 9[^\n]*\n144\n192\nstatus 0\n$", "SOFT_GPU_INITIALISED=0", [[
      local w, table = ty.zeros(4, 4, { dtype = "f16", device = "cuda" }), ty.ones(5, 3, { dtype = "f16", device = "cuda" })
      local f = ty.compile(function(i) w:add_(table:index_select(1, i):matmul(table[{ { 1, 4 } }].mT)) end)
      local function at(n) return ty.tensor({ 1, 2, n, 3 }, { dtype = "i64", device = "cuda" }) end
      for _ = 1, 3 do f(at(3)) print(w:sum():item()) end
      print(pcall(function() f(at(9)) return w:sum():item() end))
      print(w:sum():item())
      f(at(4))
      print(w:sum():item())]])
  end)
  probe("a child of a fork is told, and its parent goes on", function()
    gives("^3\nfalse\t[^\n]*a child process cannot use the CUDA device of its parent[^\n]*\n3\nstatus 0\n$", "", [[
      local ffi = require "ffi"
      ffi.cdef "int fork(void); int waitpid(int pid, int *status, int options);"
      local x = ty.ones(3, 3, { dtype = "f16", device = "cuda" })
      print(x:matmul(x):get(1, 1))
      io.stdout:flush()
      local pid = ffi.C.fork()
      if pid == 0 then print(pcall(function() return x:matmul(x):get(1, 1) end)) os.exit(0) end
      ffi.C.waitpid(pid, nil, 0)
      print(x:matmul(x):get(2, 2))]])
  end)
  for what, ending in pairs { ["at its end"] = "", ["by os.exit"] = "os.exit(0)", ["with its state closed first"] = "os.exit(0, true)" } do
    probe("a process ends while its products are in flight: " .. what, function()
      gives("^status 0\n$", "", [[
        local x = half(20, 20)
        local f = ty.compile(function(a) for _ = 1, 5 do a = (a:matmul(a) / 20):softmax(2) end return a end)
        for _ = 1, 4 do x = f(x) end
        KEPT = x
      ]] .. ending)
    end)
  end
  probe("exact half products that are large: a hint, once, says what there is", function()
    local program = [[
      ty.precision "exact"
      local function product(m, k, n)
        return ty.zeros({ m, k }, { dtype = "bf16", device = "cuda" }):matmul(ty.zeros({ k, n }, { dtype = "bf16", device = "cuda" }))
      end
      product(4, 400, 4)
      ty.synchronize()
      if LARGE then for _ = 1, 2 do product(512, 512, 512) end end
      os.exit(0)]] -- before it is computed
    gives("^status 0\n$", "", program)
    local said = "^tycho: cuda: exact products of half floats run on CUDA cores, at about a fifteenth [^\n]*\nstatus 0\n$"
    gives(said, "", "LARGE = true " .. program)
  end)
end)
