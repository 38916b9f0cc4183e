-- cuda_fast_spec.lua -- products on the device "cuda" by cuBLASLt, on the software GPU and a stand-in of the library (spec/gpu/lib)
-- that checks its calls; its bits depend on all that it is told. The device's exact products are in cuda_spec.lua.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.soft and it or pending
ty.device "cpu"

local fake
if cuda.soft then
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
    local n, y = at("fast", mm, ty.zeros({ 3, 0 }, { dtype = "f16", device = "cuda" }), ty.zeros({ 0, 2 }, { dtype = "f16", device = "cuda" }))
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

--- A process of its own: what it prints, with its exit status behind.
local function gives(want, environment, program)
  local file = os.tmpname()
  local f = assert(io.open(file, "w"))
  f:write([[
    local ty = require "tycho"
    local function half(...) return ty.rand(...):to "f16":to "cuda" end
    ty.precision "fast"
  ]], program)
  f:close()
  local p = assert(io.popen(("cd '%s.' && env -u CUDA_DEFAULT -u TYCHO_LOG TYCHO_CUDA_DRIVER='%s' TYCHO_CACHE=off "
    .. "TYCHO_CUDA_INTERPRET=0 %s timeout 60 luajit '%s' 2>&1; echo status $?"):format(H.root, cuda.driver or "", environment, file)))
  local text = p:read "*a"
  p:close()
  os.remove(file)
  assert.truthy(text:find(want), text)
end

describe("what goes wrong with cuBLASLt:", function()
  local exact = [[
    local a, b = half(8, 300), half(300, 6)
    local y, z = a:matmul(b), a:matmul(b)
    assert(tostring(y:to "cpu") == tostring(a:to "cpu":matmul(b:to "cpu")) and tostring(y) == tostring(z))
  ]]
  local missing = "tycho: cuda: cuBLASLt was not found: products at reduced precision are computed exactly"
  probe("it is not there, or does not start: exact products go on, which one line says", function()
    for _, environment in ipairs { "TYCHO_CUBLASLT=/nowhere/x.so", "TYCHO_CUBLASLT=off", "TYCHO_CUBLASLT=libm.so.6", "SOFT_CUBLASLT_CREATE=-1" } do
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
    gives("^tycho: cuda: exact products of half floats run on CUDA cores, at about a fifteenth [^\n]*\nstatus 0\n$", "", "LARGE = true " .. program)
  end)
end)
