--- gpu_libraries.lua -- NVIDIA's libraries as the device "cuda" calls them: luajit spec/gpu_libraries.lua
-- In: the driver that TYCHO_CUDA_DRIVER names, else the software GPU and its stand-ins. Out: a line for each library: where it was found,
-- or that it was not, how many results; of each that is wrong what it is. Their bits are their own: results are held against f64's, and
-- compiled calls against eager ones, to the bit. Exit status 1 where one is wrong; where no library is found nothing was proved.

local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty
if cuda.soft then require("spec.soft_gpu").cu.soft_gpu_set("APPROXIMATE", 1) end -- fast kernels may take the processor's own exp2
if not cuda.loaded then
  io.stderr:write("spec/gpu_libraries.lua: ", cuda.why, "\n")
  os.exit(1)
end
assert(ty.device "cpu")

--- The file of a library that this process has loaded, or nil.
local function loaded(name)
  for line in io.lines "/proc/self/maps" do
    local path = line:match "%s(/%S+)$"
    if path and path:lower():match "[^/]*$":find(name, 1, true) then return path end
  end
end

local EPS = { f16 = 2 ^ -11, bf16 = 2 ^ -8, f32 = 2 ^ -24, f64 = 2 ^ -53, c64 = 2 ^ -24, c128 = 2 ^ -53 }

local function wide(x)
  x = x:to "cpu"
  return ty.is_complex(x) and x:to "c128" or x:to "f64"
end

local function largest(x) return x:abs():max():item() end

--- What is wrong with `got`, where no element may be further than `bound` from `want`; nil: nothing.
local function off(got, want, bound)
  local by = wide(got) - want
  local worst = largest(by)
  if worst > bound or worst ~= worst then return ("off by %g, more than %g"):format(worst, bound) end
end

local checks = { cublaslt = {}, cudnn = {}, cusolver = {}, cufft = {} }

-- Products: as wide as a rounding of the result and those of sums in f32; operands of TF32 have 10 bits.
for _, how in ipairs { { "f16", "fast", 2 ^ -11 }, { "bf16", "fast", 2 ^ -8 }, { "f32", "tf32", 2 ^ -10 } } do
  local dtype, precision, eps = unpack(how)
  local function normal(...) return ty.randn({ ... }, { dtype = "f64" }):to(dtype) end
  for name, form in pairs {
    ["in order"] = function() return normal(64, 96), normal(96, 128) end,
    ["transposed"] = function() return normal(96, 64):t(), normal(128, 96):t() end,
    ["odd sizes"] = function() return normal(33, 77), normal(77, 51) end,
    ["batches"] = function() return normal(3, 64, 32), normal(3, 32, 48) end,
    ["heads"] = function() return normal(2, 17, 4, 64):transpose(2, 3), normal(2, 17, 4, 64):transpose(2, 3).mT end,
    ["one matrix for many"] = function() return normal(5, 16, 64), normal(64, 32) end,
    ["a long sum"] = function() return normal(8, 20000), normal(20000, 16) end,
    ["large"] = cuda.soft and function() return normal(128, 128), normal(128, 128) end
      or function() return normal(2048, 1024), normal(1024, 4096) end,
  } do
    checks.cublaslt[("%s, %s"):format(dtype, name)] = function()
      local a, b = form()
      local x, z = a:to "cuda", b:to "cuda"
      local function product(u, v) return u:matmul(v), (u:matmul(v) + 1):relu() end
      ty.precision(precision)
      local ok, y, r = pcall(product, x, z)
      local f = ty.compile(product)
      local again, y2, r2
      for _ = 1, 3 do again, y2, r2 = pcall(f, x, z) end
      ty.precision "exact"
      if not ok or not again then return tostring(ok and y2 or y) end
      local want, sums = wide(a):matmul(wide(b)), wide(a):abs():matmul(wide(b):abs())
      local bound = want:abs() * eps + sums * (dtype == "f32" and 2 ^ -10 or a.shape[#a.shape] * 2 ^ -24) + 1e-7
      local over = largest(((wide(y) - want):abs() - bound):maximum(0))
      return over > 0 and ("off by %g more than roundings are"):format(over) or H.difference(y:to "cpu", y2:to "cpu")
        or H.difference(r:to "cpu", r2:to "cpu")
    end
  end
end

-- Attention: weights and results are rounded to the dtype once each, what the backward pass is given too.
for _, dtype in ipairs { "f16", "bf16" } do
  local function normal(...) return ty.randn({ ... }, { dtype = "f64" }):to(dtype) end
  local function heads(b, h, n, d) return normal(b, n, h, d):transpose(2, 3) end
  for name, form in pairs {
    ["in order"] = function() return normal(2, 3, 40, 64), normal(2, 3, 40, 64), normal(2, 3, 40, 64) end,
    ["heads between positions"] = function() return heads(2, 4, 33, 64), heads(2, 4, 77, 64), heads(2, 4, 77, 64) end,
    ["keys that all heads share"] = function() return normal(2, 4, 20, 32), normal(2, 1, 50, 32), normal(2, 1, 50, 32) end,
    ["one query"] = function() return heads(2, 4, 1, 128), heads(2, 4, 77, 128), heads(2, 4, 77, 128) end,
    ["values of another width"] = function() return normal(2, 3, 20, 16), normal(2, 3, 40, 16), normal(2, 3, 40, 72) end,
    ["not aligned"] = function() return normal(3, 20, 43)[{ "...", { 2, 41 } }], normal(3, 30, 40), normal(3, 30, 40) end,
    ["large"] = cuda.soft and function() return heads(1, 2, 70, 64), heads(1, 2, 130, 64), heads(1, 2, 130, 64) end
      or function() return heads(2, 16, 1000, 64), heads(2, 16, 2048, 64), heads(2, 16, 2048, 64) end,
  } do
    for _, causal in ipairs { false, true } do
      checks.cudnn[("%s, %s%s"):format(dtype, name, causal and ", causal" or "")] = function()
        local q, k, v = form()
        local function attend(a, b, c) return ty.scaled_dot_product_attention(a, b, c, { causal = causal }) end
        local function slope(a, b, c) return ty.grad(function(x) return attend(x, b, c):to("f32"):sum() end)(a) end
        local function both(a, b, c) return attend(a, b, c), attend(a * 1, b, c + 0) * 2, slope(a, b, c) end
        local a, b, c = q:to "cuda", k:to "cuda", v:to "cuda"
        ty.precision "fast"
        local ok, y, r, g = pcall(both, a, b, c)
        local again, y2, r2, g2
        local f = ty.compile(both)
        for _ = 1, 3 do again, y2, r2, g2 = pcall(f, a, b, c) end
        ty.precision "exact"
        if not ok or not again then return tostring(ok and y2 or y) end
        local x, u, w = wide(q), wide(k), wide(v)
        local want, most = attend(x, u, w), largest(w)
        local inner = ty.grad(function(s) return attend(s, u, w):sum() end)(x)
        return off(y, want, 3 * EPS[dtype] * most) or off(g, inner, 40 * EPS[dtype] * largest(u) * most * q:size(-1) ^ 0.5)
          or H.difference(y:to "cpu", y2:to "cpu") or H.difference(r:to "cpu", r2:to "cpu") or H.difference(g:to "cpu", g2:to "cpu")
          or H.difference((y * 2):to "cpu", r:to "cpu")
      end
    end
  end
end

local la, SIZE = ty.linalg, cuda.soft and 12 or 96
for _, dtype in ipairs { "f32", "f64", "c64", "c128" } do
  local complex = dtype:sub(1, 1) == "c"
  local function normal(...)
    local part = { dtype = (dtype == "f32" or dtype == "c64") and "f32" or "f64" }
    local x = ty.randn({ ... }, part)
    return complex and ty.complex(x, ty.randn({ ... }, part)) or x
  end
  local function adjoint(x) return complex and x.mT:conj() or x.mT end
  local function check(name, f) checks.cusolver[("%s, %s"):format(dtype, name)] = f end
  local n = SIZE
  local small = EPS[dtype] * n * 50 -- of numbers of a normal distribution, and what sums of n of them add
  local function positive()
    local a = normal(n, n)
    return a:matmul(adjoint(a)) / n + ty.eye(n):to(a.dtype)
  end
  check("solve", function()
    local a, b = positive(), normal(n, 3)
    local x = la.solve(a:to "cuda", b:to "cuda")
    return off(x:to "cpu", la.solve(wide(a), wide(b)), small * 20)
  end)
  check("inv, a stack", function()
    local a = ty.stack { positive(), positive() }
    return off(wide(a):matmul(wide(la.inv(a:to "cuda"))), ty.eye(n):to(wide(a).dtype), small * 20)
  end)
  check("cholesky", function()
    local a = positive()
    local l = wide(la.cholesky(a:to "cuda"))
    return off(l:matmul(adjoint(l)), wide(a), small * 4)
  end)
  check("qr", function()
    local a = normal(n + 5, n)
    local q, r = la.qr(a:to "cuda")
    return off(wide(q):matmul(wide(r)), wide(a), small * 4) or off(adjoint(wide(q)):matmul(wide(q)), ty.eye(n):to(wide(a).dtype), small * 4)
  end)
  check("svd", function()
    local a = normal(n + 5, n)
    local u, s, vh = la.svd(a:to "cuda")
    return off((wide(u)[{ {}, { 1, n } }] * wide(s):to(wide(a).dtype)):matmul(wide(vh)), wide(a), small * 8)
  end)
  check("eigh", function()
    local a = positive()
    local w, v = la.eigh(a:to "cuda")
    return off((wide(v) * wide(w):to(wide(a).dtype)):matmul(adjoint(wide(v))), wide(a), small * 8)
  end)
end

-- Transforms: the CPU's, which are held against the oracle elsewhere; a sum of n has log2 n roundings of each.
for _, dtype in ipairs { "f32", "f64" } do
  for name, of in pairs {
    fft = function(x) return ty.fft.fft(ty.complex(x, x * 0.5)) end,
    ifft = function(x) return ty.fft.ifft(ty.complex(x, x * 0.5)) end,
    rfft = function(x) return ty.fft.rfft(x) end,
    irfft = function(x) return ty.fft.irfft(ty.fft.rfft(x)) end,
  } do
    for _, n in ipairs(cuda.soft and { 60, 64 } or { 1000, 4096, 65536, 10007 }) do
      checks.cufft[("%s, %s of %d"):format(dtype, name, n)] = function()
        local x = ty.randn({ 3, n }, { dtype = dtype })
        ty.precision "fast"
        local ok, y = pcall(of, x:to "cuda")
        ty.precision "exact"
        if not ok then return tostring(y) end
        local want = of(x:to "f64")
        return off(y, want, largest(want) * EPS[dtype] * 40)
      end
    end
  end
end

-- --- all of them

local bad, known = 0, 0
for _, library in ipairs { "cublaslt", "cudnn", "cusolver", "cufft" } do
  local names, wrong = {}, 0
  for name in pairs(checks[library]) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    ty.manual_seed(i)
    local ok, text = pcall(checks[library][name])
    if not ok or text then
      wrong = wrong + 1
      print(("%s, %s: %s"):format(library, name, tostring(text)))
    end
  end
  local path = loaded(library)
  bad, known = bad + wrong, known + (path and 1 or 0)
  print(("%s: %s; %d results, %d are wrong"):format(library, path or "was not found, and is not proved", #names, wrong))
  io.flush()
end
print(known == 0 and "libraries: skipped, none was found" or ("libraries: %d of 4 were found, %d results are wrong"):format(known, bad))
os.exit(bad == 0 and 0 or 1)
