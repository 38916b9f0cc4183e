--- fourier_spec.lua -- ty.fft, windows, stft and istft.
-- Values and gradients against PyTorch's (fixtures/fourier.lua, made by fixtures/make_fourier.py); sizes against sums in f64,
-- with the error that pocketfft has; the bits of all instruction sets, layouts, threads, modes against each other.

local H = require "spec.helper"
local T = require "spec.torch_values"

local ty = H.ty
local fft = ty.fft
local fixtures = dofile(H.root .. "spec/fixtures/fourier.lua")
local F64 = { dtype = "f64" }

local function as_reals(y) return ty.is_complex(y) and ty.view_as_real(y) or y end

--- The call that a row of the fixtures tells.
local function call_of(row)
  local o = {}
  for k, v in pairs(row.options) do o[k] = type(v) == "table" and v.shape and T.tensor(v) or v end
  if not o.n_fft then
    local fn = fft[row.name]
    if row.name:find "shift" then return function(x) return fn(x, o.dim) end end
    return function(x) return fn(x, o) end
  end
  local n = o.n_fft
  o.n_fft = nil
  return function(x) return ty[row.name](x, n, o) end
end

describe("Fourier transforms are PyTorch's,", function()
  for i, row in ipairs(fixtures.cases) do
    it(("%s %d, with gradients, compiled and for examples"):format(row.name, i), function()
      local fn, given = call_of(row), T.tensor(row.x)
      local function f(p) return as_reals(fn(row.complex and ty.view_as_complex(p) or p)) end
      local leaf = given:clone():requires_grad_(true)
      local y = f(leaf)
      T.close(row.y, y, "value")
      y:backward(T.seed_of(y))
      T.close(row.g, leaf.grad, "gradient")
      local compiled = ty.compile(f)
      for _ = 1, 2 do H.same(y, compiled(given)) end
      local two = ty.stack({ given, given * 2 }, 1)
      local both = ty.vmap(f)(two)
      H.same(y:detach(), both[1])
      H.same(f(given * 2), both[2])
    end)
  end

  it("windows and frequencies", function()
    for name, list in pairs(fixtures.windows) do
      for i, want in ipairs(list) do
        T.close(want, ty[name](({ 1, 2, 7, 8 })[math.floor((i + 1) / 2)], i % 2 == 1, F64), name)
      end
    end
    for name, list in pairs(fixtures.frequencies) do
      for i, want in ipairs(list) do T.close(want, fft[name](({ 1, 2, 7, 8 })[i], 0.5, F64), name) end
    end
    assert.equal("f32", ty.hann_window(4).dtype)
    assert.equal("f64", ty.hamming_window(4, F64).dtype)
    assert.equal(1, ty.kaiser_window(9, false, 3)[5]:item())
    assert.equal(1, ty.blackman_window(9, false)[5]:item())
    assert.same({ 0, 1, 0 }, ty.bartlett_window(3, false):totable())
    assert.same({ 0 }, ty.hann_window(0).shape)
  end)
end)

--- The transform of pairs [n, 2] by products with cosines and sines.
local function summed(x)
  local n = x:size(1)
  local j = ty.arange(n, { dtype = "i64" })
  local turns = (j:unsqueeze(2) * j:unsqueeze(1)):remainder(n):to "f64" * (2 * math.pi / n)
  local c, s, re, im = turns:cos(), turns:sin(), x:select(-1, 1), x:select(-1, 2)
  return ty.stack({ c:matmul(re) + s:matmul(im), c:matmul(im) - s:matmul(re) }, -1)
end

local function largest(x) return x:abs():max():item() end

describe("transforms of several dims", function()
  it("are those of each dim in turn, and come back", function()
    local x = ty.randn(3, 6, 5, F64)
    local function near(a, b) assert(largest(as_reals(a) - as_reals(b)) < 1e-13) end
    near(fft.fftn(x), fft.fft(fft.fft(fft.fft(x), nil, 2), nil, 1))
    near(fft.fft2(x), fft.fft(fft.fft(x), nil, 2))
    near(fft.rfft2(x), fft.fft2(x):narrow(-1, 1, 3))
    near(fft.rfftn(x), fft.fftn(x):narrow(-1, 1, 3))
    near(fft.ifftn(fft.fftn(x)):real(), x)
    near(fft.ifft2(fft.fft2(x)):real(), x)
    near(fft.irfftn(fft.rfftn(x), { 3, 6, 5 }), x)
    near(fft.irfft2(fft.rfft2(x), { s = { 6, 5 } }), x)
    near(fft.ifft(fft.fft(x)):real(), x)
    near(fft.hfft(fft.ihfft(x), 5), x)
    near(fft.ifftshift(fft.fftshift(x)), x)
    assert.same({ 0, 0.25, -0.5, -0.25 }, fft.fftfreq(4):totable())
    assert.same({ 0, 0.25, 0.5 }, fft.rfftfreq(4):totable())
  end)

  it("find a signal again from its pieces", function()
    for _, n in ipairs { 8, 15, 32 } do
      local x, w = ty.randn(2, 100), ty.hann_window(n)
      assert(largest(ty.istft(ty.stft(x, n, { window = w }), n, { window = w, length = 100 }) - x) < 1e-5)
    end
  end)
end)

describe("ty.stats().fft", function()
  it("counts the plans that are kept, and their bytes, within a limit", function()
    local function stats() return ty.stats().fft end
    local x = ty.ones(1009)
    ty.fft.fft(x)
    local before = stats()
    ty.fft.fft(x)
    local again = stats()
    assert.same({ before.hits + 1, before.misses, before.entries }, { again.hits, again.misses, again.entries })
    for n = 5000, 5300 do ty.fft.fft(ty.ones(n)) end -- more than are kept
    local after = stats()
    assert.truthy(after.misses >= before.misses + 301 and after.evictions > before.evictions)
    assert.truthy(after.entries <= 256 and after.entries > 100 and after.bytes > 0 and after.bytes <= after.limit)
    assert.equal(32 * 2 ^ 20, after.limit)
  end)
end)

describe("a transform of any length", function()
  -- passes of each radix, whole and odd; products of primes; primes by Bluestein's sum; on both sides of a split in two dims
  local sizes = { 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 24, 29, 31, 32, 36, 45, 64, 97, 100, 121, 127, 128, 169,
    210, 243, 256, 289, 361, 400, 511, 512, 1009, 1024, 1210 }

  it("is that of the sum, to the error of the field's libraries", function()
    for _, n in ipairs(sizes) do
      local x = ty.randn(n, 2, F64)
      local want = summed(x)
      local size = largest(want)
      local bound = 4 + math.log(n) / math.log(2)
      local function near(got, eps, what)
        local error = largest(got:to "f64" - want) / size / eps
        assert(error < bound, ("%s of %d: %.1f eps"):format(what, n, error))
      end
      near(ty.view_as_real(fft.fft(ty.view_as_complex(x))), 2 ^ -52, "f64")
      local x32 = x:to "f32"
      want = summed(x32:to "f64")
      near(ty.view_as_real(fft.fft(ty.view_as_complex(x32))), 2 ^ -23, "f32")
    end
  end)

  it("is that of known signals where it is long", function()
    for _, n in ipairs { 16384, 16385, 17280, 32768, 40961, 59049, 65536, 99991 } do
      -- a wave of 3 turns, and an impulse at 1: their transforms are an impulse and a wave
      local turns = ty.arange(n, F64):mul(3):remainder(n) * (2 * math.pi / n)
      local wave = ty.stack({ turns:cos(), turns:sin() }, -1)
      local y = ty.view_as_real(fft.fft(ty.view_as_complex(wave)))
      y[4] = y[4] - ty.tensor({ n, 0 }, F64)
      assert(largest(y) < 1e-15 * n * 40, n)
      local one = ty.zeros(n, F64)
      one[2] = 1
      local angle = ty.arange(n, F64) * (-2 * math.pi / n)
      y = ty.view_as_real(fft.fft(one))
      assert(largest(y - ty.stack({ angle:cos(), angle:sin() }, -1)) < 5e-15, n)
      local x = ty.randn(n)
      assert(largest(fft.irfft(fft.rfft(x), n) - x) < 2e-6, n)
      assert(largest(fft.ifft(fft.fft(x)):real() - x) < 2e-6, n)
    end
  end)

  it("has its first half of a real signal, and comes back from it", function()
    for _, n in ipairs(sizes) do
      local x = ty.randn(3, n, F64)
      local all, half = fft.fft(x), fft.rfft(x)
      assert(largest(ty.view_as_real(half) - ty.view_as_real(all:narrow(-1, 1, math.floor(n / 2) + 1)))
        < 1e-14 * n, n)
      assert(largest(fft.irfft(half, n) - x) < 1e-14 * math.log(n + 1), n)
    end
  end)

  it("gives the same bits alone, among others, along any dim", function()
    for _, dtype in ipairs { "f32", "f64" } do
      for _, n in ipairs { 1, 2, 6, 7, 12, 17, 27, 31, 64, 100, 101, 129, 256, 1000 } do
        local x = ty.randn(21, n, 2):to(dtype)
        local z = ty.view_as_complex(x)
        local y = ty.view_as_real(fft.fft(z))
        H.same(y[20], ty.view_as_real(fft.fft(z[20])))
        H.same(y[{ { 1, 5 } }], ty.view_as_real(fft.fft(z[{ { 1, 5 } }])))
        H.same(y, ty.view_as_real(fft.fft(z:t(), nil, 1)):transpose(1, 2))
        H.same(y[{ { 1, 2 } }], ty.view_as_real(fft.fft(z[{ { 1, 2 } }]:t(), nil, 1)):transpose(1, 2))
        local r = x:select(-1, 1)
        local h = fft.rfft(r)
        H.same(ty.view_as_real(h), ty.view_as_real(fft.rfft(r:t(), nil, 1)):transpose(1, 2))
        H.same(ty.view_as_real(h[3]), ty.view_as_real(fft.rfft(r[3])))
        local back = fft.irfft(h, n)
        H.same(back, fft.irfft(h:t(), n, 1):t())
        H.same(back[3], fft.irfft(h[3], n))
      end
    end
  end)

  it("gives the same bits among many as alone", function()
    for _, dtype in ipairs { "f32", "f64" } do
      for _, n in ipairs { 1, 2, 3, 8, 15, 24, 45 } do -- from 32 to 2048 side by side
        local x = ty.randn(2100, n, 2):to(dtype)
        local z, r = ty.view_as_complex(x), x:select(-1, 1)
        local y, h = ty.view_as_real(fft.fft(z)), fft.rfft(r)
        local back = fft.irfft(h, n)
        H.same(y, ty.view_as_real(fft.fft(z:t(), nil, 1)):transpose(1, 2))
        H.same(back, fft.irfft(h:t(), n, 1):t())
        for _, i in ipairs { 1, 34, 2049, 2100 } do
          H.same(y[i], ty.view_as_real(fft.fft(z[i])))
          H.same(ty.view_as_real(h[i]), ty.view_as_real(fft.rfft(r[i])))
          H.same(back[i], fft.irfft(h[i], n))
        end
      end
    end
  end)

  it("gives the same bits by every instruction set and number of threads", function()
    local program = [[
      local ty = require "tycho"
      ty.manual_seed(1)
      local list = {}
      local function add(y) y = ty.is_complex(y) and ty.view_as_real(y) or y
        list[#list + 1] = (y:contiguous():view_as(y.dtype == "f64" and "i64" or "i32"):to "i64"
          * (ty.arange(y:numel(), { dtype = "i64" }):reshape(y.shape) * 2654435 + 1)):sum() % 2^52 end
      for _, dtype in ipairs { "f32", "f64" } do
        for _, n in ipairs { 1, 2, 3, 5, 6, 8, 11, 14, 16, 17, 19, 24, 30, 31, 40, 64, 81, 100, 128, 191, 243, 256, 385, 512,
          1000, 4096, 6561, 16384, 17496, 32768, 8209 } do
          for _, rows in ipairs { 1, 5, 33 } do
            if n * rows < 70000 then
              local x = ty.randn(rows, n, { dtype = dtype })
              local z = ty.view_as_complex(ty.stack({ x, x:flip(-1) }, -1))
              add(ty.fft.fft(z)) add(ty.fft.ifft(z:t(), nil, 1))
              local h = ty.fft.rfft(x)
              add(h) add(ty.fft.irfft(h, n)) add(ty.fft.rfft(x:t(), nil, 1)) add(ty.fft.irfft(h:t(), n, 1))
            end
          end
        end
      end
      local text = {}
      for i, v in ipairs(list) do text[i] = v:item() end
      print(table.concat(text, " "))
    ]]
    local want
    for i, env in ipairs { { TYCHO_THREADS = 2 }, { TYCHO_THREADS = 1, TYCHO_ISA = "avx2" },
      { TYCHO_THREADS = 3, TYCHO_ISA = "base" } } do
      local got = H.script(program, env)
      assert(#got > 1000, got)
      want = want or got
      assert.equal(want, got, i)
    end
  end)

  it("of zeros, infinities and NaN says so", function()
    assert.equal(0, largest(ty.view_as_real(fft.fft(ty.zeros(12)))))
    for _, bad in ipairs { math.huge, 0 / 0 } do
      local x = ty.ones(12)
      x[3] = bad
      local y = ty.view_as_real(fft.fft(x))
      assert.truthy(y:ne(y):any():item())
    end
  end)

  it("goes through gradients of gradients, f16 and integers", function()
    local function loss(p) return ty.view_as_real(fft.rfft(p)):square():square():sum() end
    local p = ty.randn(7, F64)
    local h = ty.hessian(loss)(p)
    local eps = 1e-5
    for i = 1, 7 do
      local d = ty.zeros(7, F64)
      d[i] = eps
      local g = ty.grad(loss)
      local want = (g(p + d) - g(p - d)) / (2 * eps)
      assert(largest(h[i] - want) < 1e-5 * math.max(1, largest(want)))
    end
    assert.equal("c64", fft.fft(ty.ones(4, { dtype = "f16" })).dtype)
    assert.equal("c64", fft.rfft(ty.ones(4, { dtype = "i32" })).dtype)
    assert.equal("c128", fft.fft(ty.ones(4, F64)).dtype)
  end)

  it("is refused with the reason where it cannot be", function()
    local x, z = ty.ones(3, 4), fft.fft(ty.ones(4))
    local function raises(text, ...)
      local got = H.raises(...)
      assert.equal(text, got)
    end
    raises("fft.fft: the length n must be a whole number from 1, got number 0", fft.fft, x, 0)
    raises("fft.fft: dim 3 is out of range 1..2, or -2..-1 from the end", fft.fft, x, nil, 3)
    raises("fft.fft: norm must be \"backward\", \"ortho\" or \"forward\", got string \"orth\"", fft.fft, x, nil, -1, "orth")
    raises("fft.fft: dim 1 of f32[0,2] is empty", fft.fft, ty.zeros(0))
    raises("fft.rfft: argument 1 must be real, got c64[4]", fft.rfft, z)
    raises("fft.irfft: a half of one number comes from none, or from one: give n = 1", fft.irfft, z[{ { 1 } }])
    raises("fft.fftn: dim 1 is given twice", fft.fftn, x, nil, { 1, 1 })
    raises("fft.fftn: 1 sizes for 2 dims", fft.fftn, x, { 3 }, { 1, 2 })
    raises("fft.fft: unknown option nn, did you mean n?; known: dim n norm", fft.fft, x, { nn = 3 })
    raises("fft.fft: argument 1 must be a tensor, got number 3", fft.fft, 3)
    raises("stft: n_fft = 8 is more than the 5 places of the signal", ty.stft, ty.ones(5), 8, { center = false })
    raises("stft: padding 8 on both sides by reflect needs more than 5 places", ty.stft, ty.ones(5), 16)
    raises("stft: the window must be [4], as long as win_length, got f32[3]", ty.stft, ty.ones(9), 4,
      { window = ty.ones(3) })
    raises("istft: needs 3 frequencies of some pieces for n_fft = 4, got c64[2,2]", ty.istft, fft.fft(ty.ones(2, 2)), 4,
      { onesided = true })
    raises("hann_window: the length must not be negative, got -1", ty.hann_window, -1)
  end)
end)
