-- cuda_linalg_spec.lua -- ty.linalg on the device "cuda" by cuSOLVER, on the software GPU and a stand-in of the library (spec/gpu/lib)
-- that checks its calls and computes by LAPACK. Decompositions are told by what they are, in f64.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty
local la = ty.linalg

local probe = cuda.soft and it or pending
ty.device "cpu"

local fake
if cuda.soft then
  local ffi = require "ffi"
  ffi.cdef "int soft_cusolver_routines(void);"
  fake = ffi.load(os.getenv "TYCHO_CUSOLVER")
end

--- f(...) and how many routines it took.
local function counted(f, ...)
  local before = fake.soft_cusolver_routines()
  local results = { f(...) }
  return fake.soft_cusolver_routines() - before, unpack(results)
end

local function complex(dtype) return dtype == "c64" or dtype == "c128" end
local PART = { f32 = "f32", f64 = "f64", c64 = "f32", c128 = "f64" }

local function numbers(dtype, ...)
  ty.manual_seed(7)
  local x = ty.randn({ ... }, { dtype = "f64" }):to(PART[dtype])
  return complex(dtype) and ty.complex(x, ty.randn({ ... }, { dtype = "f64" }):to(PART[dtype])) or x
end

local function wide(x)
  x = x:to "cpu"
  return complex(x.dtype) and x:to "c128" or x:to "f64"
end
local function adjoint(x) return complex(x.dtype) and x.mT:conj() or x.mT end

local function near(want, got, what)
  local a, b = wide(want), wide(got)
  assert.same(a.shape, b.shape, what)
  local digits = (want.dtype == "f64" or want.dtype == "c128") and 1e-11 or 2e-4
  local off = (a - b):abs():max():item() / math.max(1, a:abs():max():item())
  assert.truthy(off < digits, ("%s: off by %g"):format(what or "", off))
end

local function lies_there(...)
  for _, x in ipairs { ... } do assert.same({ "cuda", true }, { x.device, x:is_contiguous() }) end
end

local DTYPES = { "f32", "f64", "c64", "c128" }
local function each(name, sizes, f)
  probe(name, function()
    for _, dtype in ipairs(DTYPES) do
      for _, size in ipairs(sizes) do f(numbers(dtype, unpack(size)), dtype .. " " .. table.concat(size, "x")) end
    end
  end)
end

local SQUARE, ANY = { { 5, 5 }, { 2, 3, 4, 4 }, { 1, 1 } }, { { 6, 4 }, { 4, 6 }, { 3, 5, 5 }, { 2, 4, 3 }, { 1, 5 }, { 5, 1 } }

describe("on cuda, by cuSOLVER:", function()
  each("solve and inv", SQUARE, function(a, what)
    local n = a.shape[#a.shape]
    local there, b = a:to "cuda", numbers(a.dtype, n, 3)
    local k, x = counted(la.solve, there, b:to "cuda")
    assert.equal(2 * a:numel() / n / n, k)
    near(la.solve(a, b), x, what)
    near(la.solve(a, b[{ {}, 1 }]), la.solve(there, b[{ {}, 1 }]:to "cuda"), what)
    near(la.inv(a), la.inv(there), what)
    near(la.solve(a[{ "..." }], b), la.solve(there.mT:contiguous().mT, b:to "cuda"), what)
    lies_there(x, la.inv(there))
    local there_now = there:to "cpu" -- what it is given stays
    if complex(a.dtype) then H.same(ty.view_as_real(a), ty.view_as_real(there_now)) else H.same(a, there_now) end
  end)
  probe("what it is given stays, however it lies, and shares with others", function()
    for _, dtype in ipairs { "f32", "f64" } do
      local a = (numbers(dtype, 4, 4) + ty.eye(4, { dtype = dtype }) * 9):to "cuda"
      a = a + a.mT
      local turned, b, kept = a.mT:contiguous().mT, numbers(dtype, 2, 4):to "cuda".mT, a:clone()
      for _, f in ipairs { la.inv, la.det, la.lu, la.cholesky, la.qr, la.svd, la.eigh, function(x) return la.solve(x, b) end } do
        local c = b:clone()
        f(turned)
        H.same(kept:to "cpu", turned:to "cpu")
        H.same(c:to "cpu", b:to "cpu")
      end
    end
  end)
  probe("solve goes by the wider dtype of either side", function()
    local a, b = numbers("f64", 4, 4), numbers("f64", 4, 2)
    near(la.solve(a, b:to "f32"), la.solve(a:to "cuda", b:to "f32":to "cuda"))
    near(la.solve(a:to "f32", b), la.solve(a:to "f32":to "cuda", b:to "cuda"))
    assert.equal("f64", la.solve(a:to "cuda", b:to "f32":to "cuda").dtype)
    assert.equal("c128", la.solve(a:to "cuda", b:to "c64":to "cuda").dtype)
  end)
  probe("solve broadcasts leading dims of either side", function()
    local a, b = numbers("f64", 3, 1, 4, 4), numbers("f64", 2, 4, 2)
    near(la.solve(a, b), la.solve(a:to "cuda", b:to "cuda"))
    near(la.solve(a[1][1], b), la.solve(a[1][1]:to "cuda", b:to "cuda"))
  end)
  each("det and slogdet, of singular matrices too", SQUARE, function(a, what)
    local zero = a * 0
    for _, x in ipairs { a, zero } do
      near(la.det(x), la.det(x:to "cuda"), what)
      local sign, log = la.slogdet(x)
      local s, l = la.slogdet(x:to "cuda")
      if x == a then near(sign, s, what) near(log, l, what) else assert.equal(-math.huge, l:to "cpu":max():item()) end
    end
  end)
  each("lu", ANY, function(a, what)
    local p, l, u = la.lu(a)
    local k, q, m, v = counted(la.lu, a:to "cuda")
    assert.truthy(k > 0)
    near(p, q, what) near(l, m, what) near(u, v, what)
  end)
  each("cholesky", SQUARE, function(a, what)
    local b = a:matmul(adjoint(a)) + ty.eye(a.shape[#a.shape], { dtype = PART[a.dtype] })
    local k, l = counted(la.cholesky, b:to "cuda")
    assert.equal(a:numel() / a.shape[#a.shape] ^ 2, k)
    near(la.cholesky(b), l, what)
  end)
  each("qr", ANY, function(a, what)
    local q, r = la.qr(a)
    local k, y, z = counted(la.qr, a:to "cuda")
    assert.truthy(k > 0)
    near(q, y, what) near(r, z, what)
    lies_there(y, z)
  end)
  each("svd", ANY, function(a, what)
    local _, s = la.svd(a)
    local k, u, t, v = counted(la.svd, a:to "cuda")
    assert.truthy(k > 0)
    near(s, t, what)
    lies_there(u, t, v)
    near(a, wide(u):matmul(wide(t):unsqueeze(-1) * wide(v)), what)
    local one = ty.eye(s.shape[#s.shape], { dtype = "f64" })
    near(adjoint(wide(u)):matmul(wide(u)):to(a.dtype), (adjoint(wide(u)) * 0):matmul(wide(u)) + one, what)
    near(wide(v):matmul(adjoint(wide(v))):to(a.dtype), wide(v):matmul(adjoint(wide(v)) * 0) + one, what)
  end)
  each("eigh reads the lower triangle", SQUARE, function(a, what)
    local w = la.eigh(a)
    local k, x, v = counted(la.eigh, a:to "cuda")
    assert.truthy(k > 0)
    near(w, x, what)
    lies_there(x, v)
    local low = wide(a):tril()
    local whole = low + adjoint(low:tril(-1))
    local one = ty.eye(a.shape[#a.shape], { dtype = "f64" })
    if complex(a.dtype) then whole = whole - ty.complex(ty.zeros_like(low:real()), low:imag()) * one end
    near(whole:to(a.dtype), wide(v):matmul(wide(x):unsqueeze(-1) * adjoint(wide(v))), what)
  end)
  probe("integers and half floats as f32, as on the CPU", function()
    local a = ty.tensor { { 4, 1 }, { 2, 3 } }
    for _, dtype in ipairs { "i32", "f16", "bf16" } do
      local x = la.solve(a:to(dtype):to "cuda", ty.ones(2):to "cuda")
      assert.equal("f32", x.dtype)
      near(la.solve(a, ty.ones(2)), x)
    end
  end)
  probe("gradients and vmap", function()
    local function grads(device)
      local a = (numbers("f64", 3, 4, 4) + ty.eye(4, { dtype = "f64" }) * 4):to(device):requires_grad_()
      local b = numbers("f64", 3, 4, 2):to(device):requires_grad_()
      local s = a:matmul(a.mT)
      local y = la.solve(a, b):sum() + la.cholesky(s):sum() + la.svd(a):abs():sum() + (la.eigh(s)):sum() + select(2, la.slogdet(s)):sum()
      y:backward()
      return y:detach(), a.grad, b.grad
    end
    local y, a, b = grads "cpu"
    local z, c, d = grads "cuda"
    near(y, z) near(a, c) near(b, d)
    local x = numbers("f64", 3, 4, 4)
    near(ty.vmap(la.inv)(x), ty.vmap(la.inv)(x:to "cuda"))
  end)
  probe("within a compiled function, as without", function()
    local f = function(a, b) return la.solve(a * 2, b + 1):relu() * 3, (la.qr(a)) end
    local g, a, b = ty.compile(f), numbers("f32", 5, 5):to "cuda", numbers("f32", 5, 2):to "cuda"
    local x, q = f(a, b)
    for _ = 1, 4 do
      local k, y, r = counted(g, a, b)
      assert.truthy(k > 0)
      H.same(x:to "cpu", y:to "cpu")
      H.same(q:to "cpu", r:to "cpu")
    end
  end)
  probe("each device has its own handle", function()
    local a = numbers("f64", 5, 5)
    local k, x = counted(la.inv, a:to "cuda:1")
    assert.same({ 2, "cuda:1" }, { k, x.device })
    H.same(la.inv(a:to "cuda"):to "cpu", x:to "cpu")
  end)
  probe("what it lacks goes to the CPU, to the CPU's bits", function()
    local a, b = numbers("f32", 5, 3), numbers("f32", 5, 2)
    local k, x = counted(la.lstsq, a:to "cuda", b:to "cuda")
    assert.same({ 0, "cuda" }, { k, x.device })
    H.same(la.lstsq(a, b), x:to "cpu")
    local s = numbers("f32", 4, 4)
    H.same(ty.view_as_real((la.eig(s))), ty.view_as_real((la.eig(s:to "cuda"))):to "cpu")
  end)
end)

describe("on cuda linalg raises as on the CPU:", function()
  local function same_error(f, ...)
    local there, here = {}, { ... }
    for i, x in ipairs(here) do there[i] = type(x) == "userdata" and x:to "cuda" or x end
    local ok, want = pcall(f, ...)
    local ok2, got = pcall(f, unpack(there))
    assert.same({ false, false }, { ok, ok2 })
    local function plain(text) return (tostring(text):gsub("^[^ ]*: ", ""):gsub("@cuda", "")) end
    assert.equal(plain(want), plain(got))
  end
  probe("singular, indefinite, not finite", function()
    local zero, nan = ty.zeros(2, 3, 3), ty.full({ 3, 3 }, 0 / 0)
    same_error(function(a) return la.solve(a, a) end, zero)
    same_error(la.inv, zero)
    same_error(la.cholesky, -ty.eye(3))
    same_error(la.svd, nan)
    same_error(la.eigh, nan)
  end)
  probe("shapes and arguments", function()
    local a, b = ty.ones(3, 4), ty.ones(3)
    for _, name in ipairs { "solve", "inv", "det", "slogdet", "cholesky", "eigh" } do same_error(la[name], a, b) end
    for _, name in ipairs { "inv", "det", "lu", "cholesky", "qr", "svd", "eigh" } do same_error(la[name], b) end
    same_error(la.solve, ty.eye(3), ty.ones(4))
    same_error(la.solve, ty.ones(2, 3, 3), ty.ones(3, 3, 1))
    same_error(la.solve, ty.eye(3), 5)
  end)
  probe("nothing in them", function()
    for _, name in ipairs { "inv", "det", "lu", "cholesky", "qr", "svd", "eigh" } do
      for _, sizes in ipairs { { 0, 0 }, { 0, 3, 3 } } do
        local want, got = la[name](ty.zeros(sizes)), la[name](ty.zeros(sizes):to "cuda")
        H.same(want, got:to "cpu")
      end
    end
  end)
end)

--- A program on the device in a process of its own.
local function gives(want, environment, program)
  cuda.gives(want, "TYCHO_LOG= TYCHO_CUDA_INTERPRET=0 " .. environment,
    "local ty = require 'tycho'\nlocal la = ty.linalg\n" .. program)
end

describe("what goes wrong with cuSOLVER:", function()
  probe("it is not there, or does not start: the CPU computes, which one line says", function()
    for _, environment in ipairs {
      "TYCHO_CUSOLVER=/nowhere/x.so", "TYCHO_CUSOLVER=off", "TYCHO_CUSOLVER=libm.so.6", "SOFT_CUSOLVER_CREATE=-1",
    } do
      gives("^tycho: cuda: cuSOLVER was not found: ty.linalg moves its operands to the CPU[^\n]*\ncuda\nstatus 0\n$", environment, [[
        local a = ty.rand(4, 4)
        for _ = 1, 2 do assert(tostring(la.inv(a:to "cuda"):to "cpu") == tostring(la.inv(a))) end
        for _, name in ipairs { "det", "lu", "qr", "svd", "eigh" } do la[name](a:to "cuda") end
        print(la.inv(a:to "cuda").device)]])
    end
  end)
  probe("a call fails: the error names its status, and the next one goes on", function()
    gives("^false\t[^\n]*lu: cuSOLVER fails: CUSOLVER_STATUS_INTERNAL_ERROR %(7%)\n0.5\nstatus 0\n$", "SOFT_CUSOLVER_FAIL=1", [[
      local a = (ty.eye(3) * 2):to "cuda"
      print(pcall(la.inv, a))
      print(la.inv(a):get(1, 1))]])
  end)
  probe("there is no memory for its workspace: it raises, and the next call goes on", function()
    gives("^false\t[^\n]*memory[^\n]*\n.*\n0.5\nstatus 0\n$", "", [[
      local a = (ty.eye(100) * 2):to "cuda"
      ty.synchronize()
      local failed = 0
      for room = 0, 200000, 4096 do
        ty.cuda.empty_cache()
        collectgarbage()
        ty.cuda.limit(ty.cuda.memory().used + room)
        local ok, y = pcall(function() return la.inv(a):get(3, 3) end)
        if not ok then failed = failed + 1 print(ok, y) else assert(y == 0.5) end
      end
      assert(failed > 30, failed)
      ty.cuda.limit(math.huge)
      print(la.inv(a):get(1, 1))]])
  end)
  probe("an index out of range before it is what is raised", function()
    gives("^false\t[^\n]*index 9[^\n]*\nstatus 0\n$", "SOFT_GPU_INITIALISED=0", [[
      local a = ty.eye(3):to "cuda"
      print(pcall(function() return la.inv(a:index_select(1, ty.tensor({ 1, 9, 2 }, { dtype = "i64", device = "cuda" }))) end))]])
  end)
  probe("a child of a fork is told, and its parent goes on", function()
    gives("^0.5\nfalse\t[^\n]*a child process cannot use the CUDA device of its parent[^\n]*\n0.5\nstatus 0\n$", "", [[
      local ffi = require "ffi"
      ffi.cdef "int fork(void); int waitpid(int pid, int *status, int options);"
      local a = (ty.eye(3) * 2):to "cuda"
      print(la.inv(a):get(1, 1))
      io.stdout:flush()
      local pid = ffi.C.fork()
      if pid == 0 then print(pcall(function() return la.inv(a):get(1, 1) end)) os.exit(0) end
      ffi.C.waitpid(pid, nil, 0)
      print(la.inv(a):get(2, 2))]])
  end)
  probe("a device that was lost is named", function()
    gives("^false\t[^\n]*has failed[^\n]*\n2\nstatus 0\n$", "SOFT_GPU_LOSE_AFTER=12", [[
      local a = (ty.eye(3) * 2):to "cuda"
      local ok, why
      for _ = 1, 20 do
        ok, why = pcall(function() return la.inv(la.inv(a) + 1):sum():item() end)
        if not ok then break end
      end
      print(ok, why)
      print(la.inv(ty.eye(2) * 0.5):get(1, 1))]])
  end)
end)
