-- cuda_mixed_spec.lua -- operands of which one lies on the CPU, the other on "cuda": an error that names both, eager and
-- compiled, and the device works on. What functions make themselves lies where their operands lie, whatever the default is.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.loaded and it or pending
ty.device "cpu"

local function whole(...) return ty.ones(..., { dtype = "i64" }) end

--- Functions of two tensors, and makers of these.
local calls = {
  add = { function(a, b) return a + b end, ty.ones(3), ty.ones(3) },
  ["add of one element"] = { function(a, b) return a + b end, ty.ones(3), ty.tensor(1) },
  where = { function(a, b) return ty.where(a:gt(0), b, 0) end, ty.ones(3), ty.ones(3) },
  matmul = { ty.matmul, ty.ones(2, 3), ty.ones(3, 2) },
  einsum = { function(a, b) return ty.einsum("ij,jk->ik", a, b) end, ty.ones(2, 3), ty.ones(3, 2) },
  ["einsum in batches"] = { function(a, b) return ty.einsum("bij,bjk->bki", a, b) end, ty.ones(2, 2, 3), ty.ones(2, 3, 2) },
  tensordot = { ty.tensordot, ty.ones(2, 3), ty.ones(2, 3) },
  contract = { function(a, b) return ty.contract(a, b, 0, 1) end, ty.ones(2, 3), ty.ones(3, 2) },
  conv1d = { ty.conv1d, ty.ones(1, 2, 5), ty.ones(3, 2, 2) },
  conv2d = { ty.conv2d, ty.ones(1, 2, 5, 5), ty.ones(3, 2, 2, 2) },
  ["conv2d by groups"] = { function(a, b) return ty.conv2d(a, b, { groups = 2 }) end, ty.ones(1, 2, 5, 5), ty.ones(2, 1, 2, 2) },
  ["conv2d with a bias"] = { function(a, b) return ty.conv2d(a, a[{ {}, {}, { 1, 2 }, { 1, 2 } }], b) end, ty.ones(1, 2, 5, 5),
    ty.ones(1) },
  conv_transpose2d = { ty.conv_transpose2d, ty.ones(1, 2, 5, 5), ty.ones(2, 3, 2, 2) },
  attention = { function(a, b) return ty.scaled_dot_product_attention(a, b, b) end, ty.ones(1, 2, 3, 4), ty.ones(1, 2, 3, 4) },
  cat = { function(a, b) return ty.cat { a, b } end, ty.ones(3), ty.ones(3) },
  gather = { function(a, i) return a:gather(1, i) end, ty.ones(3), whole(2) },
  index = { function(a, i) return a[i] end, ty.ones(3), whole(2) },
  index_add = { function(a, b) return a:index_add(1, whole(1):to(a.device), b) end, ty.ones(3), ty.ones(1) },
  searchsorted = { ty.searchsorted, ty.ones(3), ty.ones(2) },
  assign = { function(a, b)
    local y = a:clone()
    y[{ { 1, 2 } }] = b
    return y
  end, ty.ones(3), ty.ones(2) },
  copy_ = { function(a, b) return a:clone():copy_(b) end, ty.ones(3), ty.ones(3) },
  solve = { ty.linalg.solve, ty.eye(3), ty.ones(3, 1) },
  lstsq = { ty.linalg.lstsq, ty.eye(3), ty.ones(3, 1) },
  cross_entropy = { ty.cross_entropy, ty.ones(2, 3), whole(2) },
  linear = { function(a, b) return ty.nn.Linear(3, 2):to(b.device)(a) end, ty.ones(2, 3), ty.ones(1) },
  Conv2d = { function(a, b) return ty.nn.Conv2d(2, 3, 2):to(b.device)(a) end, ty.ones(1, 2, 5, 5), ty.ones(1) },
  LSTM = { function(a, b) return ty.nn.LSTM(3, 2):to(b.device)(a) end, ty.ones(1, 2, 3), ty.ones(1) },
}

describe("operands of two devices raise, and both are named:", function()
  for _, name in ipairs(H.sorted(calls)) do
    probe(name, function()
      local f, a, b = unpack(calls[name])
      for _, pair in ipairs { { a, b:to "cuda" }, { a:to "cuda", b } } do
        for _, g in ipairs { f, ty.compile(function(x, y) return f(x, y) end) } do
          local ok, why = pcall(g, unpack(pair))
          assert.falsy(ok, name)
          assert.truthy(tostring(why):find('operands lie on "%a+" and "%a+" %(move one with :to%)'), tostring(why))
        end
      end
      assert.equal(6, (ty.ones(3, { device = "cuda" }) * 2):sum():item()) -- which works on
    end)
  end

  probe("a gradient is moved to what it belongs to", function()
    for _, device in ipairs { "cpu", "cuda" } do
      local x = ty.ones(2):to(device):requires_grad_()
      local y = x * 2;
      y:backward(ty.tensor({ 3, 4 }, { device = device == "cpu" and "cuda" or "cpu" }))
      assert.same({ 6, 8 }, x.grad:totable())
    end
  end)
end)

describe("what functions make lies where their operands lie:", function()
  local function on_both(f)
    local want = f "cpu"
    ty.manual_seed(5)
    local got = f "cuda"
    assert.equal(#want, #got)
    for i = 1, #want do
      assert.equal("cuda", got[i].device)
      H.same(want[i], got[i]:to "cpu")
    end
  end

  probe("numbers that a scan carries", function()
    on_both(function(device)
      local x = ty.arange(5):to(device)
      local last, rows = ty.scan(function(c, r) return { c[1] + r, c[2] * 2 + r }, c[1] * r end, { 0, 1.5 }, x)
      return { last[1], last[2], rows }
    end)
    on_both(function(device) return { (ty.scan(function(c, r) return c + r:sum() end, 0, ty.ones(4, 2):to(device))) } end)
  end)

  probe("what turns of loops within loops draw on the CPU and move, with gradients", function()
    local function of(device, opts, nested)
      ty.manual_seed(9)
      local w, x = ty.ones(4):to(device):requires_grad_(), ty.arange(20):reshape(5, 1, 4):to(device)
      local function turn(c, r) return c + (r * w * ty.rand(4, { device = "cpu" }):to(device)):sum() end
      local c = ty.scan(nested and function(c, r) return (ty.scan(turn, c, r)) end or turn, 0, x, opts)
      c:backward()
      return { c:detach(), w.grad }
    end
    for _, opts in ipairs { {}, { checkpoint = true }, { reverse = true } } do
      on_both(function(device) return of(device, opts, false) end)
      on_both(function(device) return of(device, opts, true) end)
    end
  end)

  probe("averages of a model, and their count", function()
    for _, opts in ipairs { {}, { decay = 0.9 }, { use_buffers = true } } do
      on_both(function(device)
        ty.manual_seed(5)
        local m = ty.nn.Sequential(ty.nn.Linear(3, 2), ty.nn.BatchNorm1d(2)):to(device)
        local averages = ty.optim.AveragedModel(m, opts)
        for _ = 1, 3 do
          ty.no_grad(function() m[1].weight:mul_(1.25) end)
          averages:update_parameters(m)
        end
        return { averages.module[1].weight:detach(), averages.n_averaged }
      end)
    end
  end)

  probe("examples of other sizes, by which a model of ONNX is written", function()
    local path = os.tmpname() .. ".onnx"
    local m = ty.nn.Sequential(ty.nn.Conv2d(1, 2, 3, { padding = 1 }), ty.nn.Flatten(), ty.nn.Linear(32, 3)):eval():to "cuda"
    local x = ty.randn(2, 1, 4, 4)
    assert(ty.save(path, m, { x:to "cuda", dynamic = { x = { "batch" } } }))
    local back = assert(ty.load(path))
    os.remove(path)
    assert.truthy(ty.allclose(m(x:to "cuda"):to "cpu", back(x), { rtol = 1e-5, atol = 1e-6 }))
  end)

  probe("nodes of a model of ONNX", function()
    local W = require "spec.onnx_encode"
    local path = os.tmpname() .. ".onnx"
    local value, node = W.value, W.node
    --- A model of nodes over the inputs x1, x2 ... to y.
    local function model(inputs, nodes, initializer)
      local given = {}
      for i = 1, inputs do given[i] = value("x" .. i) end
      local f = assert(io.open(path, "wb"))
      f:write(W.model({ node = nodes, input = given, output = { value "y" }, initializer = initializer }, 20))
      f:close()
      local m = assert(ty.load(path))
      os.remove(path)
      return m
    end
    local grams = { mode = "TFIDF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = { 0 },
      ngram_indexes = { 0, 1 }, pool_int64s = { 5, 6 }, weights = { 0.5, 1.5 } }
    for name, case in pairs {
      sizes = { model(1, { node("Shape", { "x1" }, { "s" }), node("Cast", { "s" }, { "f" }, { to = W.numbers.f32 }),
        node("Mul", { "x1", "f" }, { "y" }) }), ty.randn(2) },
      filled = { model(1, { node("Shape", { "x1" }, { "s" }), node("ConstantOfShape", { "s" }, { "c" }),
        node("Add", { "x1", "c" }, { "y" }) }), ty.randn(2, 3) },
      grams = { model(1, { node("TfIdfVectorizer", { "x1" }, { "y" }, grams) }), ty.tensor({ { 5, 6, 5 } }, { dtype = "i64" }) },
      boxes = { model(2, { node("MaxRoiPool", { "x1", "x2" }, { "y" }, { pooled_shape = { 2, 2 } }) }),
        ty.arange(16):reshape(1, 1, 4, 4), ty.tensor { { 0, 0, 0, 3, 3 } } },
      window = { model(1, { node("HannWindow", { "n" }, { "w" }), node("Mul", { "x1", "w" }, { "y" }) },
        { W.tensor("n", ty.tensor(4, { dtype = "i64" })) }), ty.randn(4) },
    } do
      local m = case[1]
      on_both(function(device)
        m:to(device)
        local given = {}
        for i = 2, #case do given[i - 1] = case[i]:to(device) end
        local compiled = ty.compile(m)
        local y = m(unpack(given))
        for _ = 1, 3 do H.same(y, (compiled(unpack(given))), name) end
        return { y }
      end)
    end
  end)

  probe("constants of loops lie where they do: their graphs are sound, and products of the CPU's are packed there", function()
    cuda.gives("^0\n0\nstatus 0\n$", "TYCHO_CHECK=1", [[
      local ty = require "tycho"
      require "spec.cuda"
      local w, k = ty.randn(256, 256), ty.randn(3)
      local function product(device)
        return (ty.scan(function(c, r) return c * 0.5 + r:to "cpu":matmul(w):to(device) end, ty.zeros(64, 256, { device = device }),
          W:to(device))):to "cpu"
      end
      W = ty.randn(8, 64, 256)
      print((product "cpu" - product "cuda"):abs():max():item())
      local function sum(device)
        local there = {}
        for n = 1, 4 do there[n] = (k * n):to(device) end
        return (ty.scan(function(c, r)
          for n = 1, 4 do c = c + there[n] * r end
          return c + k[1]:to(device)
        end, ty.zeros(3, { device = device }), ty.ones(6, 3, { device = device }))):to "cpu"
      end
      print((sum "cpu" - sum "cuda"):abs():max():item())]])
  end)

  probe("numbers that a loop carries beside nested tensors lie with these", function()
    local x = ty.zeros(2, { device = "cuda" })
    local last = ty.scan(function(c, r) return { a = { b = c.a.b + r }, n = c.n + 1 } end, { a = { b = x }, n = 0 },
      ty.ones(3, 2, { device = "cuda" }))
    assert.equal("cuda", last.n.device)
    assert.equal(3, last.n:item())
    local counted = ty.scan(function(n) return n + 1 end, 0, { a = { b = ty.ones(3, { device = "cuda" }) } })
    assert.equal("cuda", counted.device)
  end)
end)
