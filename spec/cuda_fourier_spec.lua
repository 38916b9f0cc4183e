-- cuda_fourier_spec.lua -- Fourier transforms on the device "cuda", on the software GPU: bits are the CPU's, and no part is done there.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty
local fft = ty.fft

local probe = cuda.loaded and it or pending
ty.device "cpu"

local function as_reals(y) return ty.is_complex(y) and ty.view_as_real(y) or y end

--- Both devices give the same bits; the result lies on the other.
local function same(what, f, ...)
  local there = {}
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    there[i] = ty.is_tensor(v) and v:to "cuda" or v
  end
  local want, got = as_reals(f(...)), as_reals(f(unpack(there, 1, select("#", ...))))
  assert.equal("cuda", got.device)
  H.same(want, got:to "cpu", what)
end

local function pairs_of(dtype, ...)
  return ty.view_as_complex(ty.randn({ ... }, { dtype = dtype }))
end

describe("a Fourier transform on cuda gives the CPU's bits:", function()
  -- each radix alone and among others; Bluestein's sum; odd numbers of real ones with and without a radix
  local sizes = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 19, 24, 30, 31, 45, 53, 59, 64, 74, 81, 118, 128, 385 }

  for _, dtype in ipairs { "f32", "f64" } do
    probe("of complex numbers, there and back, " .. dtype, function()
      for _, n in ipairs(sizes) do
        for _, rows in ipairs { 1, 5 } do
          local z = pairs_of(dtype, rows, n, 2)
          same(n, fft.fft, z)
          same(n, fft.ifft, z, nil, 2, "ortho")
        end
      end
    end)

    probe("of real numbers, and back to them, " .. dtype, function()
      for _, n in ipairs(sizes) do
        for _, rows in ipairs { 1, 5 } do
          local x = ty.randn({ rows, n }, { dtype = dtype })
          same(n, fft.rfft, x, nil, 2, "forward")
          same(n, fft.irfft, fft.rfft(x), n)
        end
      end
    end)

    probe("along other dims, " .. dtype, function()
      for _, n in ipairs { 6, 7, 15, 23 } do
        local z = pairs_of(dtype, 3, n, 5, 2)
        same(n, fft.fft, z, nil, 2)
        same(n, fft.rfft, z:real(), nil, 2)
        same(n, fft.irfft, z, 2 * n - 1, 2)
        same(n, fft.irfft, z, 2 * n - 2, 2)
        same(n, fft.fftn, z)
      end
    end)

    probe("their gradients, " .. dtype, function()
      for _, n in ipairs { 8, 15, 31, 37 } do
        local x = ty.randn({ 2, n }, { dtype = dtype })
        same(n, ty.grad(function(p) return as_reals(fft.rfft(p)):square():sum() end), x)
        local half = ty.randn({ 2, math.floor(n / 2) + 1, 2 }, { dtype = dtype })
        same(n, ty.grad(function(p) return fft.irfft(ty.view_as_complex(p), n):square():sum() end), half)
      end
    end)
  end

  probe("of long lines, in two dims and by Bluestein's sum", function()
    same("split", fft.fft, pairs_of("f32", 16400, 2))
    same("odd", fft.rfft, ty.randn(3 * 2187))
  end)

  probe("compiled, of many lines", function()
    local f = ty.compile(function(x) return as_reals(fft.rfft(x * 2)):square():sum(-1) end)
    local x = ty.randn(70, 12)
    local want = f(x)
    for _ = 1, 3 do H.same(want, f(x:to "cuda"):to "cpu") end
  end)
end)

local soft_probe = cuda.soft and it or pending

describe("A Fourier transform on cuda under ty.precision \"fast\"", function()
  local library
  local function transforms()
    if not library then
      local ffi = require "ffi"
      ffi.cdef "int soft_cufft_transforms(void);"
      library = ffi.load(os.getenv "TYCHO_CUFFT")
    end
    return library.soft_cufft_transforms()
  end
  local function fast(f, ...)
    ty.precision "fast"
    local ok, y = pcall(f, ...)
    ty.precision "exact"
    if not ok then error(y, 0) end
    return y
  end

  --- cuFFT's numbers are the exact ones but for roundings; so many calls of it.
  local function near(what, calls, f, x, ...)
    local want, was = as_reals(f(x, ...)), transforms()
    local got = as_reals(fast(f, x:to "cuda", ...)):to "cpu"
    assert.equal(calls, transforms() - was, what)
    assert.same(want.shape, got.shape)
    local most = math.max(1e-30, (want:abs():max()):item())
    local bound = want.dtype == "f64" and 1e-13 or 3e-6
    assert.truthy(((want - got):abs():max()):item() <= bound * most, what)
  end

  soft_probe("is cuFFT's, of numbers there and back and of real ones, along any dim, with each norm", function()
    for _, dtype in ipairs { "f32", "f64" } do
      for _, n in ipairs { 1, 2, 7, 16, 37 } do
        for _, norm in ipairs { "backward", "ortho", "forward" } do
          local z = pairs_of(dtype, 5, n, 2)
          near(n, 1, fft.fft, z, nil, 2, norm)
          near(n, 1, fft.ifft, z, nil, 2, norm)
          near(n, 1, fft.rfft, z:real(), nil, 2, norm)
          near(n, 1, fft.irfft, z, 2 * n - 1, 2, norm) -- imaginary parts of the first, and the last, do not count
          if n > 1 then near(n, 1, fft.irfft, z, 2 * n - 2, 2, norm) end
        end
      end
      local z = pairs_of(dtype, 3, 6, 4, 2)
      near("middle", 3, fft.fft, z, nil, 2)
      near("middle, real", 3, fft.rfft, z:real(), nil, 2)
      near("middle, to real", 3, fft.irfft, z, 10, 2)
      near("first", 1, fft.ifft, z, nil, 1)
      near("first, to real", 1, fft.irfft, z, 4, 1)
    end
  end)

  soft_probe("is cuFFT's in gradients, and leaves what it reads as it was", function()
    for _, n in ipairs { 1, 2, 7, 16 } do
      local weights = ty.arange(n) + 1
      local function slope(x) return ty.grad(function(p) return (as_reals(fft.rfft(p)):square():sum(-1):exp()):sum() end)(x) end
      near("rfft", 2, slope, ty.randn(3, n) / n)
      local half = ty.randn(3, math.floor(n / 2) + 1, 2)
      near("irfft", 2, ty.grad(function(p)
        return (fft.irfft(ty.view_as_complex(p), n):square() * weights:to(p.device)):sum()
      end), half)
      local there = half:to "cuda"
      fast(function() return fft.irfft(ty.view_as_complex(there), n) end)
      H.same(half, there:to "cpu")
    end
  end)

  soft_probe("is ours for what cuFFT is not asked: numbers that are not aligned", function()
    near("odd lines", 0, fft.rfft, ty.randn(3, 5, 3), nil, 2)
    near("odd lines, back", 0, fft.irfft, pairs_of("f32", 3, 3, 3, 2), 5, 2)
    near("not aligned", 0, function(x) return fft.rfft(x[{ { 2, 17 } }]) end, ty.randn(17))
  end)

  soft_probe("has the same bits compiled, from run to run, and is told apart from an exact one", function()
    local x = ty.randn(6, 16):to "cuda"
    local function f(v) return as_reals(fft.rfft(v * 2, nil, 2, "ortho")) + 1 end
    local g = ty.compile(f)
    local want = fast(f, x):to "cpu"
    for _ = 1, 3 do H.same(want, fast(g, x):to "cpu") end
    H.same(f(x:to "cpu"), g(x):to "cpu")
    assert.truthy(ty.explain(g):full():find "k2=50")
  end)

  soft_probe("is ours where cuFFT is not there, or refuses a plan", function()
    local program = [[
      local ty = require "tycho"
      local x = ty.arange(16) / 7
      local want = ty.view_as_real(ty.fft.rfft(x))
      ty.precision "fast"
      print(ty.view_as_real(ty.fft.rfft(x:to "cuda")):to "cpu":equal(want) and ty.fft.irfft(ty.fft.rfft(x)):equal(
        ty.fft.irfft(ty.fft.rfft(x):to "cuda"):to "cpu"))
    ]]
    cuda.gives("^true\nstatus 0", "TYCHO_CUFFT=off", program)
    cuda.gives("^true\nstatus 0", "SOFT_CUFFT_FAIL=-1", program)
  end)
end)
