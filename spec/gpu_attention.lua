--- gpu_attention.lua -- attention at reduced precision on a card, by cuDNN where it is found: `make test-gpu`, or
--    luajit spec/gpu_attention.lua [--soft]
-- In: a driver (TYCHO_CUDA_DRIVER) and a device. Out: a line for each shape: how far results and gradients are off those of f64 on the
-- CPU, by what roundings of weights and results to the dtype allow; whether a second run and a compiled one have the same bits.
-- Exit status 1 where one does not hold. Whether cuDNN was found is on stderr (TYCHO_LOG=0 keeps it back).
local ty = require "tycho"
assert(ty.cuda.is_available())
local soft = arg[1] == "--soft"
local ROUND = { f16 = 2 ^ -11, bf16 = 2 ^ -8 }
local failed = false

local function numbers(dtype, ...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return ((ty.arange(n, { dtype = "f64" }) * 1.7 + 0.3):sin() * 2):to(dtype):reshape { ... }
end
local function wide(x) return x:to "cpu":to "f64" end
local function same(x, y) return (wide(x):eq(wide(y))):all():item() end

local function check(dtype, b, h, n, m, d, causal)
  local q, k, v = numbers(dtype, b, n, h, d), numbers(dtype, b, m, h, d), numbers(dtype, b, m, h, d)
  local function f(x, y, z)
    return ty.scaled_dot_product_attention(x:transpose(2, 3), y:transpose(2, 3), z:transpose(2, 3), { causal = causal })
  end
  local a, c, e = q:to "cuda", k:to "cuda", v:to "cuda"
  local compiled = ty.compile(f)
  ty.precision "fast"
  local y = f(a, c, e)
  local again, third = same(y, f(a, c, e)), same(y, compiled(a, c, e)) and same(y, compiled(a, c, e))
  local slope = ty.grad(function(x) return (f(x, c, e):to "f32"):sin():sum() end)(a)
  ty.precision "exact"
  local want = f(wide(q), wide(k), wide(v))
  local off = (wide(y) - want):abs():max():item() / (4 * ROUND[dtype] * wide(v):abs():max():item())
  local whole = ty.grad(function(x) return f(x, wide(k), wide(v)):sin():sum() end)(wide(q))
  local slopes = (wide(slope) - whole):abs():max():item() / (16 * ROUND[dtype] * whole:abs():max():item())
  local ok = again and third and off <= 1 and slopes <= 1
  failed = failed or not ok
  print(("%-4s %d x %d heads, %d queries, %d keys, %d features%s: off by %.3f, gradients %.3f of what may be%s%s%s"):format(dtype, b, h, n,
    m, d, causal and ", causal" or "", off, slopes, again and "" or ", a second run differs", third and "" or ", compiled differs",
    ok and "" or " FAILED"))
end

for dtype in pairs(ROUND) do
  for _, causal in ipairs { false, true } do
    check(dtype, 2, 3, 40, 70, 16, causal)
    check(dtype, 1, 2, 1, 33, 64, causal)
    if not soft then
      check(dtype, 2, 8, 1000, 1000, 64, causal)
      check(dtype, 1, 4, 333, 777, 128, causal)
      check(dtype, 1, 2, 100, 130, 40, causal)
    end
  end
end
os.exit(failed and 1 or 0)
