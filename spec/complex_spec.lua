--- complex_spec.lua -- complex numbers against PyTorch and NumPy (fixtures/complex.lua, made by fixtures/make_complex.py):
-- values, gradients, c64; compiled to the bit, and captured whole; by vmap as by a loop; the views that they are; what
-- they go through; what has no meaning for them.

local H = require "spec.helper"
local ty = H.ty
local fixtures = require "spec.fixtures.complex"
local R, C = ty.view_as_real, ty.view_as_complex

local function I(...) return ty.tensor({ ... }, { dtype = "i64" }) end

--- Cases: {name, function of the fixture's inputs, ...}.
--   near      how near the values must be, relative to 1 + |value|: 1e-13
--   tight     the same relative to |value|, of the number as a whole
--   single    how near c64's values must be, relative to 1 + |value|: 2e-5; false: not compared
--   slope     how near gradients must be: 1e-11
--   ends      how near NumPy's values must be, part by part, with its infinities, NaN, and signs of zero
--   reads     it reads values: it is captured in parts, and no vmap computes it for all examples at once
--   lapack    the same, but vmap computes it
local cases = {
  { "neg", function(z) return -z end },
  { "conj", function(z) return z:conj() end },
  { "real", function(z) return z:real() end },
  { "imag", function(z) return z:imag() end },
  { "view_as_real", function(z) return R(z) end },
  { "view_as_complex", function(x) return C(x) end },
  { "complex", function(a, b) return ty.complex(a, b) end },
  { "polar", function(a, b) return ty.polar(a, b) end },
  { "abs", function(z) return z:abs() end, tight = 4e-16 },
  { "angle", function(z) return z:angle() end, tight = 1e-15 },
  { "sgn", function(z) return z:sgn() end, tight = 1e-15 },
  { "pow_whole", function(z) return z ^ 0, z ^ 1, z ^ 2, z ^ 3, z ^ 7, z ^ -1, z ^ -4 end },
  { "pow_number", function(z) return z ^ 0.5, z ^ 1.5, z ^ -0.7 end },
  { "pow", function(a, b) return a ^ b end },
  { "pow_real", function(a, b) return a ^ b end },
  { "real_pow", function(a, b) return a ^ b end },
  { "number_pow", function(z) return 2 ^ z end },
  { "sum", function(z) return z:sum(), z:sum(1), z:sum(2, true) end },
  { "mean", function(z) return z:mean(), z:mean(2) end },
  { "prod", function(z) return z:prod(), z:prod(2), z:prod(1, true) end },
  { "cumsum", function(z) return z:cumsum(2) end },
  { "cumprod", function(z) return z:cumprod(2) end },
  { "var", function(z) return z:var(), z:var(1, { correction = 0 }) end },
  { "std", function(z) return z:std(), z:std(2) end },
  { "norm", function(z) return z:norm(), z:norm(1, 2), z:norm(math.huge), z:norm(3, 1) end },
  { "matmul", function(a, b) return a:matmul(b) end },
  { "matmul_real", function(a, b) return a:matmul(b:real()), (b:real():t():matmul(a:t()):t()) end, slope = false },
  { "mv", function(a, b) return a:mv(b) end },
  { "bmm", function(a, b) return a:bmm(b) end },
  { "dot", function(a, b) return a:dot(b) end },
  { "vdot", function(a, b) return a:vdot(b) end },
  { "vecdot", function(a, b) return a:vecdot(b) end },
  { "outer", function(a, b) return a:outer(b) end },
  { "inner", function(a, b) return a:inner(b) end },
  { "einsum", function(a, b) return ty.einsum("ij,kj->ik", a, b) end },
  { "einsum_batch", function(a, b) return ty.einsum("bij,bjk->bik", a, b) end },
  { "tensordot", function(a, b) return ty.tensordot(a, b, 1) end },
  { "kron", function(a, b) return a:kron(b:reshape(1, 3)):reshape(2, 9) end },
  { "addmm", function(c, a, b) return c:addmm(a, b, { alpha = 0.5, beta = 2 }) end },
  { "trace", function(z) return z:trace() end },
  { "adjoint", function(z) return z:adjoint() end },
  { "lerp", function(a, b) return a:lerp(b, 0.25) end },
  { "addcmul", function(x, a, b) return x:addcmul(a, b, { value = 0.5 }) end },
  { "diff", function(z) return z:diff() end },
  { "cross", function(a, b) return a:cross(b) end },
  { "vander", function(z) return z:vander(3) end },

  { "reshape", function(z)
    return z:reshape(3, 2), z:t():reshape(-1), z:permute(2, 1), z:unsqueeze(2), z:flip(2)
  end },
  { "slices", function(z)
    return z[2], z[{ {}, { 2, 3 } }], z[{ {}, { 1, 3, 2 } }], z[{ {}, I(3, 1) }], z[z:abs():gt(1)]
  end, reads = true },
  { "cat", function(a, b) return ty.cat { a, b }, ty.stack({ a, b }, 3) end },
  { "cat_real", function(a, b) return ty.cat({ a, b }, 2) end },
  { "where", function(a, b) return a:abs():gt(1):where(a, b) end },
  { "gather", function(z) return z:gather(2, ty.tensor({ { 3, 1 }, { 2, 2 } }, { dtype = "i64" })) end },
  { "scatter", function(z, s)
    local at = ty.tensor({ { 3, 1 }, { 2, 1 } }, { dtype = "i64" })
    return z:scatter(2, at, s), z:scatter_add(2, ty.tensor({ { 3, 1 }, { 2, 2 } }, { dtype = "i64" }), s)
  end },
  { "index_select", function(z) return z:index_select(2, I(3, 1, 3)) end },
  { "masked_fill", function(z) return z:masked_fill(ty.tensor { true, false, true }, 2.5) end },
  { "pad", function(z) return z:pad({ { 0, 1 }, { 1, 2 } }, 1.5) end },
  { "roll", function(z) return z:roll(1, 2) end },
  { "tril", function(z) return z:tril(), z:triu(1) end },
  { "diag", function(z) return z:diag(), z:outer(z):diagonal() end },
  { "repeat_interleave", function(z) return z:repeat_interleave(2, 2) end },
  { "tile", function(z) return z:tile(2, 1) end },
  { "expand", function(z) return z:unsqueeze(1):expand(2, 2, 3) end },

  { "tests", function(z) return z:isnan(), z:isinf(), z:isfinite(), z:iscomplex():logical_not() end },
  { "isreal", function(z) return z:isreal() end },
  { "eq", function(a, b) return a:eq(b), a:ne(b) end },
  { "isclose", function(a, b) return a:isclose(b), a:isclose(b, { rtol = 0, atol = 2e-6 }) end, single = false },
  { "nonzero", function(z) return z:nonzero() end, reads = true },
  { "all", function(z) return z:all(2), z:any(2), z:count_nonzero(2) end },
  { "nan_to_num", function(z) return z:nan_to_num() end, single = false },

  { "ends_mul", function(a, b) return a:unsqueeze(2) * b end, ends = 1e-15 },
  { "ends_square", function(z) return z:square() end, ends = 1e-15 },
  { "ends_conj", function(z) return z:conj() end, ends = 0 },
  { "ends_angle", function(z) return z:angle() end, ends = 1e-15 },
  { "ends_abs", function(z) return z:abs() end, ends = 1e-15 },
  { "ends_sqrt", function(z) return z:sqrt() end, ends = 1e-15 },
  { "ends_exp", function(z) return z:exp() end, ends = 1e-15 },
  { "ends_log", function(z) return z:log() end, ends = 1e-15 },
  { "ends_div", function(a, b) return a:unsqueeze(2) / b end, ends = 1e-15 },
  { "huge_abs", function(z) return z:abs() end, tight = 1e-15, single = false },
  { "huge_sqrt", function(z) return z:sqrt() end, tight = 2e-15, single = false },
  { "huge_log", function(z) return z:log() end, tight = 2e-15, single = false },
  { "huge_div", function(z) return z:unsqueeze(2) / z[I(1, 6, 10, 15, 20)] end, ends = 1e-14, single = false },
  { "huge_exp", function(z) return z:exp() end, tight = 1e-13, single = false },
  { "near_one_log", function(z) return z:log() end, tight = 1e-15, single = false },
}
for _, name in ipairs { "exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "tanh", "sigmoid", "square", "reciprocal",
  "asin", "acos", "atan", "asinh", "acosh", "atanh", "tan", "log2", "log10", "log1p", "expm1", "exp2", "rsqrt" } do
  cases[#cases + 1] = { name, function(z) return z[name](z) end, tight = 4e-15, slope = 1e-10 }
end
for _, name in ipairs { "add", "sub", "mul", "div" } do
  local f = ty[name]
  cases[#cases + 1] = { name, function(a, b) return f(a, b) end }
  cases[#cases + 1] = { name .. "_broadcast", function(a, b) return f(a, b) end }
  cases[#cases + 1] = { name .. "_real", function(a, b) return f(a, b) end }
  cases[#cases + 1] = { "real_" .. name, function(a, b) return f(a, b) end }
  cases[#cases + 1] = { name .. "_number", function(a) return f(a, 2.5), f(1.5, a) end }
end

-- Linear algebra, by LAPACK, which reads values; vmap gives it all matrices at once.
if ty.blas(true) then
  ty.blas(false)
  local la = ty.linalg

  local function eig(a)
    local w, v = la.eig(a)
    return (v:abs() ^ 2 * w:unsqueeze(-2)):sum(-1), (v * (w * w):unsqueeze(-2)):matmul(la.inv(v)), w:exp():sum(-1)
  end

  local function eigvals(a)
    local w = la.eigvals(a)
    return w:sum(-1), (w ^ 3):sum(-1), w:exp():sum(-1)
  end

  local function svd(a)
    local u, s, vh = la.svd(a)
    return u:abs() ^ 2, s, (u * (s * s):unsqueeze(-2)):matmul(vh), vh:abs() ^ 2
  end

  local function eigh(a)
    local w, v = la.eigh(a + a:adjoint())
    return w, v:abs() ^ 2 * w:unsqueeze(-2), (v * w:exp():unsqueeze(-2)):matmul(v:adjoint())
  end

  local function qr(a)
    local q, r = la.qr(a)
    return q:abs() ^ 2, r:abs() ^ 2, q:matmul(r:tril())
  end

  for name, f in pairs { eig = eig, eig_of_reals = eig, eigvals = eigvals, eigvals_of_reals = eigvals, inv = la.inv,
    det = la.det, slogdet = la.slogdet, solve = la.solve, solve_vector = la.solve, solve_of_reals = la.solve,
    cholesky = function(a) return la.cholesky(a:matmul(a:adjoint())) end, svd_tall = svd, svd_wide = svd,
    lu = function(a) return select(2, la.lu(a)) end, qr_tall = qr, qr_wide = qr, eigh = eigh, svdvals = la.svdvals,
    solve_triangular = function(a, b) return la.solve_triangular(a, b, { upper = true }) end,
    eigvalsh = function(a) return la.eigvalsh(a + a:adjoint()) end, lstsq = la.lstsq, pinv = la.pinv,
    matrix_exp = la.matrix_exp, matrix_power = function(a) return la.matrix_power(a, 3), la.matrix_power(a, -2) end,
    matrix_norm = function(a)
      return la.matrix_norm(a), la.matrix_norm(a, "nuc"), la.matrix_norm(a, 2), la.matrix_norm(a, 1),
        la.matrix_norm(a, math.huge)
    end, cond = la.cond } do
    cases[#cases + 1] = { name, f, lapack = true, near = 1e-12, single = 2e-3, slope = 1e-10 }
  end
end

--- A tensor of a fixture.
local function tensor(v)
  local pairs_of = v.dtype == "c128"
  local n, sizes = pairs_of and 2 or 1, { unpack(v.shape) }
  for _, size in ipairs(v.shape) do n = n * size end
  if pairs_of then sizes[#sizes + 1] = 2 end
  local x = ty.tensor({ unpack(v, 1, n) }, { dtype = pairs_of and "f64" or v.dtype }):reshape(sizes)
  return pairs_of and C(x) or x
end

--- Tensors of results in a list.
local function flat(...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = select(i, ...) end
  return list
end

local function reals(x) return ty.is_complex(x) and R(x) or x end
local function is_smooth(x) return ty.is_complex(x) or H.is_float(x.dtype) end
local function same_number(w, g) return w == g and (w ~= 0 or 1 / w == 1 / g) or w ~= w and g ~= g end

--- Where y lies farther from the fixture's values than allowed: a text; nil: nowhere. by: "near", "tight" or "ends".
local function far(want, y, by, bound)
  if table.concat(want.shape, ",") ~= table.concat(y.shape, ",") then
    return ("sizes %s instead of %s"):format(table.concat(y.shape, ","), table.concat(want.shape, ","))
  end
  local got = H.list(reals(y))
  local width = ty.is_complex(y) and 2 or 1
  for i = 1, #want, width do
    local size = 0
    for k = i, i + width - 1 do
      if type(want[k]) == "number" then size = size + want[k] ^ 2 end
    end
    size = math.sqrt(size)
    if size == math.huge then size = math.max(math.abs(want[i]), math.abs(want[i + 1] or 0)) end
    for k = i, i + width - 1 do
      local w, g = want[k], got[k]
      if type(g) == "cdata" then g = tonumber(g) end
      if type(w) == "boolean" then g = g ~= 0 and g ~= false end
      local scale = by == "near" and 1 + size or by == "ends" and type(w) == "number" and math.abs(w) or size
      local ok = by == "ends" and same_number(w, g) or by ~= "ends" and (w == g or w ~= w and g ~= g)
        or type(w) == "number" and w - w == 0 and math.abs(w - g) <= bound * scale and (by ~= "ends" or w ~= 0)
      if not ok then return ("element %d is %.17g instead of %.17g"):format(k, tonumber(g) or -1, tonumber(w) or -1) end
    end
  end
  return nil
end

local function weighed(...)
  local sum = 0
  for _, y in ipairs(flat(...)) do
    if is_smooth(y) and y.requires_grad then
      y = reals(y)
      sum = sum + (ty.arange(y:numel(), { dtype = "f64" }):cos():reshape(y.shape) * y):sum()
    end
  end
  return sum
end

local function same_results(want, got)
  assert.equal(#want, #got)
  for k = 1, #want do
    assert.equal(want[k].dtype, got[k].dtype)
    H.same(reals(want[k]), reals(got[k]), "result " .. k)
  end
end

describe("complex numbers have the values of other libraries:", function()
  for _, c in ipairs(cases) do
    local name, f, fixture = c[1], c[2], fixtures[c[1]]
    local by = c.ends and "ends" or c.tight and "tight" or "near"
    it(name, function()
      assert.truthy(fixture, "make_complex.py has no case of that name")
      local inputs, single, smooth = {}, {}, {}
      for i, v in ipairs(fixture.inputs) do
        inputs[i] = tensor(v)
        single[i] = ty.is_complex(inputs[i]) and inputs[i]:to "c64" or inputs[i]:to "f32"
        smooth[i] = i
      end
      local results = flat(f(unpack(inputs)))
      for k, want in ipairs(fixture.results) do
        assert.equal(want.dtype, results[k].dtype, "result " .. k)
        assert.is_nil(far(want, results[k], by, c.ends or c.tight or c.near or 1e-13), "result " .. k)
      end
      if c.single ~= false and not c.ends then
        for k, want in ipairs(fixture.results) do
          local y = flat(f(unpack(single)))[k]
          if want.dtype == "c128" then assert.equal("c64", y.dtype, "result " .. k) end
          if want.dtype == "f64" then assert.equal("f32", y.dtype, "result " .. k) end
          assert.is_nil(far(want, y, "near", c.single or 2e-5), "c64, result " .. k)
        end
      end

      local compiled = ty.compile(function(...) return f(...) end)
      for _ = 1, 2 do same_results(results, flat(compiled(unpack(inputs)))) end
      if not (c.reads or c.lapack) then assert.same({}, ty.explain(compiled).aborts) end

      if not fixture.gradients or c.slope == false then return end
      local leaves = {}
      for i, x in ipairs(inputs) do leaves[i] = x:clone():requires_grad_() end
      weighed(f(unpack(leaves))):backward()
      for k, x in ipairs(leaves) do
        assert.is_nil(far(fixture.gradients[k], x.grad or ty.zeros_like(x), "near", c.slope or 1e-11), "gradient " .. k)
      end
      local gradient = ty.grad(function(...) return weighed(f(...)) end, smooth)
      local gradients = { gradient(unpack(inputs)) }
      local step = ty.compile(function(...) return gradient(...) end)
      for _ = 1, 2 do same_results(gradients, { step(unpack(inputs)) }) end
    end)

    if fixture and not c.reads then
      it(name .. " by vmap", function()
        local first, second, both = {}, {}, {}
        for i, v in ipairs(fixture.inputs) do
          first[i] = tensor(v)
          second[i] = first[i] * 0.75
          both[i] = ty.stack { first[i], second[i] }
        end
        local p, q = flat(f(unpack(first))), flat(f(unpack(second)))
        local got = flat(ty.vmap(f)(unpack(both)))
        for k = 1, #p do p[k] = ty.stack { p[k], q[k] } end
        same_results(p, got)
      end)
    end
  end
end)

local function numbers(...) return ty.complex({ ... }, 0) end
local function reals_of(z) return H.list(R(z)) end

describe("a complex tensor is a view of reals:", function()
  it("it shares memory with its reals, its parts, and what it was made of", function()
    local x = ty.zeros(3, 2)
    local z = C(x)
    z[2] = ty.complex(5, -6)
    x[{ 3, 2 }] = 7
    z:real():add_(1)
    R(z)[{ {}, 2 }]:mul_(2)
    assert.same({ 1, 0, 6, -12, 1, 14 }, reals_of(z))
    assert.same(reals_of(z), H.list(x))
  end)

  it("slices, steps and transposes are views, and their strides count numbers", function()
    local z = C(ty.arange(24):reshape(3, 4, 2))
    assert.same({ 4, 1 }, z:stride())
    local s = z[{ { 3, 1, -2 }, { 2, 4, 2 } }]
    assert.same({ -8, 2 }, s:stride())
    assert.same({ 18, 19, 22, 23, 2, 3, 6, 7 }, reals_of(s))
    s:zero_()
    assert.same({ 0, 1, 0, 0, 4, 5, 0, 0 }, reals_of(z[1]))
    assert.same({ 1, 4 }, z:t():stride())
    assert.is_false(z:t():is_contiguous())
    assert.is_true(z:t():contiguous():is_contiguous())
    assert.equal(96, z.nbytes)
    assert.equal(8, z:element_size())
  end)

  it("pairs may begin at any real, and overlap, but are not written then", function()
    local x = ty.arange(6)
    assert.same({ 1, 2, 3, 4 }, reals_of(C(x:narrow(1, 2, 4):reshape(2, 2))))
    local o = C(x:unfold(1, 2, 1))
    assert.same({ 0, 1, 1, 2, 2, 3, 3, 4, 4, 5 }, reals_of(o))
    assert.error_matches(function() o:zero_() end, "its elements share memory")
    assert.same({ 0, 2, 2, 4, 4, 6, 6, 8, 8, 10 }, reals_of(ty.grad(function(v) return (R(v) ^ 2):sum() end)(o)))
  end)

  it("view_as_complex refuses what is not pairs side by side", function()
    assert.error_matches(function() C(ty.zeros(3)) end, "view_as_complex: needs f32 or f64 with a last dim of 2.*f32%[3%]")
    assert.error_matches(function() C(ty.zeros(2, { dtype = "i64" })) end, "got i64%[2%]")
    assert.error_matches(function() C(ty.zeros(2, 2):t()) end, "do not lie side by side %(use :contiguous%(%)%)")
    assert.error_matches(function() R(ty.zeros(3)) end, "view_as_real: needs a complex tensor, got f32%[3%]")
    local most = ty.zeros({ 1, 1, 1, 1, 1, 1, 1 }, { dtype = "c64" })
    assert.equal(8, R(most).ndim)
    assert.error_matches(function() R(most:unsqueeze(1)) end, "no room for a dim of real and imaginary parts")
    assert.error_matches(function() ty.zeros({ 1, 1, 1, 1, 1, 1, 1, 1 }, { dtype = "c64" }) end, "too many dims")
  end)

  it("a compiled function sees a tensor and its reals share memory, as plain Lua does", function()
    local function f(z, x)
      x:add_(1)
      return z * 1, R(z):sum()
    end
    local compiled = ty.compile(f)
    for n = 1, 6 do
      local x, y = ty.arange(2 * n):reshape(n, 2), ty.arange(2 * n):reshape(n, 2)
      local apart = n % 2 == 0
      local p, q = f(C(x), apart and x:clone() or x)
      local r, s = compiled(C(y), apart and y:clone() or y)
      H.same(R(p), R(r), "numbers")
      H.same(q, s, "sum")
      H.same(x, y, "memory")
    end
  end)

  it("a compiled function serves any sizes and layouts", function()
    local function f(z, w, k) return z * w + k, (z / w):abs():sum(), z:matmul(w:conj()) end
    local compiled = ty.compile(f)
    for n = 1, 7 do
      local z, w = C(ty.randn(2 * n, 2))[{ { 1, 2 * n, 2 } }], C(ty.randn(n, 2)):flip()
      same_results(flat(f(z, w, n / 3)), flat(compiled(z, w, n / 3)))
    end
    assert.same({}, ty.explain(compiled).aborts)
    assert.truthy(ty.explain(compiled).captures <= 3)
  end)
end)

describe("complex numbers and Lua:", function()
  it("items are two numbers, tables hold pairs, elements are set by one or two", function()
    local z = ty.complex({ 1, -2 }, { 0.5, 3 })
    assert.same({ 1, 0.5 }, { z[1]:item() })
    assert.same({ -2, 3 }, { z:get(-1) })
    assert.same({ { 1, 0.5 }, { -2, 3 } }, z:totable())
    assert.same({ 1, 0.5 }, z[1]:totable())
    z:set(1, 4, 5):set(2, 6)
    assert.same({ 4, 5, 6, 0 }, reals_of(z))
    assert.same(reals_of(z), reals_of(C(ty.tensor(z:totable()))))
    assert.error_matches(function() z:set(1) end, "set: needs 1 indices for c64%[2%], then a real and an imaginary part")
    z[{ { 1 } }] = { 9 }
    z[2] = -1
    assert.same({ 9, 0, -1, 0 }, reals_of(z))
  end)

  it("they are printed as 1+2j in one format", function()
    assert.equal("{ 1.5+2.0j, -3.0-0.5j} [c64 2 cpu]", tostring(ty.complex({ 1.5, -3 }, { 2, -0.5 })))
    assert.equal("{{1+0j},\n {nan+infj}}\n[c128 2x1 cpu]", (tostring(ty.complex({ { 1 }, { 0 / 0 } },
      { { 0 }, { 1 / 0 } }, { dtype = "c128" })):gsub(" +1", "1"):gsub(" +nan", "nan")))
    assert.equal("0-1j [c64 cpu]", tostring(ty.complex(0, -1)))
    assert.equal("{} [c64 0 cpu]", tostring(ty.zeros(0, { dtype = "c64" })))
  end)

  it("they are made of parts, of reals, by name, at random", function()
    assert.equal("c64", ty.complex(1, 2).dtype)
    assert.equal("c128", ty.complex(ty.zeros(2, { dtype = "f64" }), 1).dtype)
    assert.equal("c64", ty.complex(ty.tensor({ 1, 2 }, { dtype = "i64" }), ty.zeros(2, { dtype = "f16" })).dtype)
    assert.same({ 1, 3, 1, 4, 2, 3, 2, 4 }, reals_of(ty.complex({ { 1 }, { 2 } }, ty.tensor { 3, 4 })))
    assert.is_true(ty.complex(1, 2, { requires_grad = true }).requires_grad)
    assert.same({ 1, 0, 2, 0 }, reals_of(ty.tensor({ 1, 2 }, { dtype = "c64" })))
    assert.same({ 0, 0, 1, 0, 2, 0 }, reals_of(ty.arange(3, { dtype = "complex128" })))
    assert.same({ 1, 0, 0, 0, 0, 0, 1, 0 }, reals_of(ty.eye(2, { dtype = "complex64" })))
    assert.same({ 1, 0, 1, 0 }, reals_of(ty.ones(2, { dtype = "c64" })))
    assert.same({ 2.5, 0 }, reals_of(ty.full({ 1 }, 2.5, { dtype = "cdouble" })))
    assert.equal("c128", ty.tensor({ 1 }):cdouble().dtype)
    assert.equal("c64", ty.tensor({ 1 }):cfloat().dtype)
    assert.equal("c64", ty.zeros(2, { dtype = "c64" }):new_ones(3).dtype)
    ty.manual_seed(3)
    local n = ty.randn(20000, { dtype = "c64" })
    assert.near(1, n:var():item(), 0.03)
    assert.near(0.5, n:imag():var():item(), 0.02)
    local u = ty.rand(20000, { dtype = "c128" })
    assert.near(0.5, u:imag():mean():item(), 0.01)
    assert.error_matches(function() ty.complex(ty.complex(1, 2), 1) end, "complex: argument 1 must be of reals, got c64%[%]")
    assert.error_matches(function() ty.complex(1, 2, { dtype = "f32" }) end, "dtype must be c64 or c128, got f32")
    assert.error_matches(function() ty.complex(ty.zeros(2), ty.zeros(3)) end, "complex: sizes do not broadcast")
  end)

  it("they meet other dtypes as NumPy's do; numbers of Lua's are weak", function()
    local c64, c128 = ty.zeros(1, { dtype = "c64" }), ty.zeros(1, { dtype = "c128" })
    local kinds = { bool = "c64", u8 = "c64", i64 = "c64", f16 = "c64", bf16 = "c64", f32 = "c64", f64 = "c128" }
    for dtype, want in pairs(kinds) do
      local x = ty.ones(1, { dtype = dtype })
      assert.equal(want, (c64 + x).dtype, dtype)
      assert.equal(want, (x * c64).dtype, dtype)
      assert.equal(want, (c64 / x).dtype, dtype)
      assert.equal("c128", (x - c128).dtype, dtype)
      assert.equal(want, ty.promote_types("c64", dtype))
      assert.equal(want, ty.result_type(c64, x))
      assert.equal(want, ty.cat({ c64, x }).dtype)
      assert.equal(want, ty.where(ty.ones(1):gt(0), x, c64).dtype)
    end
    assert.equal("c128", (c64 * c128).dtype)
    assert.equal("c64", (c64 * 2.5 + 1).dtype)
    assert.equal("c64", (2 ^ c64).dtype)
    assert.equal("f32", c64:abs().dtype)
    assert.equal("f64", c128:angle().dtype)
    assert.equal(ty.finfo("f32").eps, ty.finfo("c64").eps)
  end)

  it("forms with a trailing _ write through the first argument", function()
    local z = ty.complex({ 1, 2 }, { 3, 4 })
    local view = z:imag()
    z:mul_(2):add_(1):conj_()
    assert.same({ 3, -6, 5, -8 }, reals_of(z))
    assert.same({ -6, -8 }, H.list(view))
    z:div_(z)
    z:sub_(ty.complex(0, 1))
    z:neg_()
    assert.same({ -1, 1, -1, 1 }, reals_of(z))
    assert.error_matches(function() ty.ones(2):mul_(z) end, "complex numbers do not go into f32%[2%]")
    assert.error_matches(function() ty.ones(2):copy_(z) end, "complex numbers do not go into f32%[2%]")
    assert.error_matches(function() z:mul_(ty.ones(3, 2)) end, "broadcast")
    z[1] = -0.0
    assert.same({ -math.huge, math.huge }, (1 / R(z[1])):totable()) -- a real number has the imaginary part +0
    z:fill_(3)
    z:copy_(ty.tensor { 1, 2 })
    assert.same({ 1, 0, 2, 0 }, reals_of(z))
  end)

  it("masks choose both parts, and lead gradients back; integrals, means and convolutions are of the parts", function()
    local z, mask = C(ty.randn(3, 4, 2)):t(), ty.randn(4, 3):gt(0)
    local function of_parts(f, v, ...)
      local a, b = ty[f](v:real(), ...), ty[f](v:imag(), ...)
      assert.is_true(ty.allclose(ty.complex(a, b), ty[f](v, ...)), f)
    end
    of_parts("masked_select", z, mask)
    of_parts("masked_select", z, mask[{ {}, { 1 } }])
    for _, name in ipairs { "trapezoid", "cumulative_trapezoid", "nanmean", "average" } do of_parts(name, z) end
    of_parts("convolve", z[1], ty.randn(2))
    H.same(R(z:masked_fill(mask:logical_not(), 0)), R(ty.grad(function(v)
      return (R(v:masked_select(mask)) ^ 2):sum() * 0.5
    end)(z)))
  end)

  it("what needs an order, bits or reals says so, by its name", function()
    local z, x = numbers(1, 2, 3), ty.tensor { 1, 2, 3 }
    for _, name in ipairs { "lt", "le", "gt", "ge", "maximum", "minimum", "floor_divide", "remainder", "fmod", "atan2",
      "copysign", "bitwise_and", "lshift" } do
      assert.error_matches(function() ty[name](z, x) end, "^[^\n]*" .. name .. "[^\n]*complex", name)
      assert.error_matches(function() ty[name](x, z) end, "^[^\n]*complex", name)
    end
    for _, name in ipairs { "cbrt", "lgamma", "erfc", "frac", "logit", "signbit", "median", "kthvalue", "mode", "sort", "topk",
      "msort", "unique", "clamp", "relu", "logsumexp", "nanmax", "quantile", "cov", "float", "half", "int", "linalg.norm" } do
      local f = loadstring("return function(t, z, ...) return t." .. name .. "(z, ...) end")()
      local args = { clamp = 0, topk = 1, quantile = 0.5, kthvalue = 1 }
      local t = rawget(ty, name) == nil and not name:find "%." and ty.internals.methods or ty
      if name ~= "linalg.norm" then
        assert.error_matches(function() f(t, z, args[name]) end, "%f[%w]" .. name .. ":[^\n]*complex", name)
      end
    end
    for _, name in ipairs { "fmax", "fmin", "xlogy", "logaddexp2", "heaviside" } do
      assert.error_matches(function() ty[name](z, z) end, "%f[%w]" .. name .. ":[^\n]*complex", name)
    end
    for _, name in ipairs { "floor", "ceil", "round", "trunc", "max", "min", "argmax", "sort", "argsort", "median", "unique",
      "topk", "cummax", "clamp", "relu", "softmax", "erf", "quantile", "histc", "logsumexp", "bitwise_not", "gelu",
      "nanmedian", "cov", "logcumsumexp", "mse_loss", "layer_norm", "interpolate" } do
      local args = { clamp = 0, topk = 1, cummax = 1, logcumsumexp = 1, mse_loss = x, quantile = 0.5, histc = 3 }
      assert.error_matches(function() ty[name](z, args[name]) end, "complex", name)
    end
    for _, name in ipairs { "mse_loss", "l1_loss", "huber_loss", "bce_with_logits", "kl_div" } do
      assert.error_matches(function() ty[name](x, z) end, "complex", name)
    end
    for _, dtype in ipairs { "f32", "f64", "i64", "bool", "f16" } do
      assert.error_matches(function() z:to(dtype) end, "to: complex numbers do not go into " .. dtype)
    end
    assert.error_matches(function() z:view_as("i64") end, "view_as: not for complex numbers")
    assert.error_matches(function() x:view_as("c64") end, "use ty.view_as_complex")
    assert.error_matches(function() return z[z] end, "index tensor must be of integers")
    assert.error_matches(function() return z + ty.ones(2) end, "add: sizes do not broadcast, c64%[3%] and f32%[2%]")
    assert.error_matches(function() return z * ty.ones(2) end, "mul: sizes do not broadcast, c64%[3%] and f32%[2%]")
    assert.error_matches(function() return z:matmul(ty.ones(2)) end, "matmul: inner sizes differ, c64%[3%] x f32%[2%]")
    assert.error_matches(function() z:uniform_() end, "needs a float tensor, got c64")
    assert.error_matches(function() z:data() end, "complex")
  end)
end)

describe("inverse functions of complex numbers", function()
  local P, HALF = math.pi, math.pi / 2
  local L, T = 1.3169578969248166, 0.5493061443340549 -- log(2 + sqrt(3)), log(3) / 2
  -- {re, im, value's re, value's im} on both sides of the cuts: IEEE 754's signs of zero, as NumPy has them
  local sides = {
    asin = { { 2, 0, HALF, L }, { 2, -0.0, HALF, -L }, { -2, 0, -HALF, L }, { -2, -0.0, -HALF, -L } },
    acos = { { 2, 0, 0, -L }, { 2, -0.0, 0, L }, { -2, 0, P, -L }, { -2, -0.0, P, L } },
    acosh = { { -2, 0, L, P }, { -2, -0.0, L, -P }, { 0.5, 0, 0, P / 3 }, { 0.5, -0.0, 0, -P / 3 } },
    asinh = { { 0, 2, L, HALF }, { -0.0, 2, -L, HALF }, { 0, -2, L, -HALF }, { -0.0, -2, -L, -HALF } },
    atanh = { { 2, 0, T, HALF }, { 2, -0.0, T, -HALF }, { -2, 0, -T, HALF }, { -2, -0.0, -T, -HALF } },
    atan = { { 0, 2, HALF, T }, { -0.0, 2, -HALF, T }, { 0, -2, HALF, -T }, { -0.0, -2, -HALF, -T } },
  }
  local INF = math.huge
  local ends = {
    asin = { { INF, 0, HALF, INF }, { -INF, 1, -HALF, INF }, { INF, INF, P / 4, INF }, { 1, -INF, 0, -INF } },
    acos = { { INF, 0, 0, -INF }, { -INF, 1, P, -INF }, { INF, INF, P / 4, -INF }, { 1, -INF, HALF, INF } },
    acosh = { { INF, 0, INF, 0 }, { -INF, 1, INF, P }, { INF, INF, INF, P / 4 }, { 1, -INF, INF, -HALF } },
    atanh = { { INF, 0, 0, HALF }, { -INF, -1, -0.0, -HALF }, { INF, INF, 0, HALF }, { 1, -INF, 0, -HALF } },
    atan = { { INF, 0, HALF, 0 }, { -INF, -1, -HALF, -0.0 } },
  }

  it("tell the sides of their cuts apart by the sign of a zero, and have NumPy's values at infinity", function()
    for _, list in ipairs { sides, ends } do
      for name, points in pairs(list) do
        for _, p in ipairs(points) do
          local z = C(ty.tensor({ { p[1], p[2] } }, { dtype = "f64" }))
          local got = R(ty[name](z)):totable()[1]
          for k = 1, 2 do
            local text = ("%s(%g, %g): %.17g, %.17g"):format(name, p[1], p[2], got[1], got[2])
            assert.is_true(got[k] == p[k + 2] or math.abs(got[k] - p[k + 2]) <= 4e-16 * math.abs(p[k + 2]), text)
            if p[k + 2] == 0 then assert.equal(1 / p[k + 2], 1 / got[k], text) end
          end
        end
      end
    end
  end)

  it("are odd, also where the pole is near: NumPy's values", function()
    local values = { { 1.0012634936244005, 0.015187454420754606, 2.4388222222283167, 0.8306936113109065 },
      { 0.8897124316619623, 0.00875731863303569, 1.4189784183667453, 0.041936161597224325 } }
    for _, v in ipairs(values) do
      local z = C(ty.tensor({ { v[1], v[2] } }, { dtype = "f64" }))
      local y = R(ty.atanh(z)):totable()[1]
      for k = 1, 2 do assert.near(v[k + 2], y[k], 4e-16 * v[k + 2]) end
      H.same(R(-ty.atanh(z)), R(ty.atanh(-z)))
      H.same(R(-ty.atan(z)), R(ty.atan(-z)))
    end
  end)

  it("are not drawn in place, whatever numbers a compiled function is given", function()
    local f = ty.compile(function(z, a, b) return ty.uniform_(z * 1, a, b) end)
    for k = 1, 3 do
      assert.error_matches(function() f(C(ty.ones(2, 2)), 0, k) end, "uniform_: needs a float tensor, got c64")
    end
    local line = ty.compile(function(a, b) return ty.linspace(a, b, 4, { dtype = "u16" }) end)
    for k = 1, 3 do assert.error_matches(function() line(0, k) end, "linspace: dtype must be a float, got u16") end
    assert.same({ -math.huge, math.huge }, (1 / R(ty.full({}, -0.0, { dtype = "c64" }))):totable())
  end)
end)

describe("gradients of complex numbers", function()
  it("go along the cuts of inverse functions as these do, on both sides", function()
    local points = { asin = { 2, -2 }, acos = { 2, -2 }, acosh = { 0.5, -2 }, atanh = { 2, -2 }, log = { -2 }, sqrt = { -2 } }
    for name, list in pairs(points) do
      for _, x in ipairs(list) do
        for _, side in ipairs { 1 / math.huge, -1 / math.huge } do
          for part = 1, 2 do
            local function f(re)
              local im = ty.full({ 1 }, side, { dtype = "f64" })
              return ty.view_as_real(ty[name](ty.complex(re, im)))[{ "...", part }]:sum()
            end
            local at, step = ty.tensor({ x }, { dtype = "f64" }), 1e-5
            local want = (f(at + step):item() - f(at - step):item()) / (2 * step)
            assert.truthy(math.abs(ty.grad(f)(at):item() - want) < 1e-8, ("%s at %g, from %g: part %d"):format(name, x, 1 / side, part))
          end
        end
      end
    end
  end)

  it("are dL/dre + i dL/dim, and a step against them descends", function()
    local z = ty.complex({ 3, -1 }, { 4, 2 }, { requires_grad = true })
    z:abs():pow(2):sum():backward()
    assert.same({ 6, 8, -2, 4 }, reals_of(z.grad))
    assert.equal("c64", z.grad.dtype)
    z.grad = ty.complex({ 1, 2 }, 0)
    z:real():sum():backward()
    assert.same({ 2, 0, 3, 0 }, reals_of(z.grad))
  end)

  it("of convolutions are those of the sums that they stand for, once more as well", function()
    ty.manual_seed(5)
    local f64 = { dtype = "f64" }
    local function random(...) return ty.complex(ty.randn({ ... }, f64), ty.randn({ ... }, f64)) end
    local options = { stride = 2, padding = 1 }
    local function by_hand(x, w) -- y[b, o, p] = sum over c, k of w[o, c, k] x[b, c, 2 p + k]
      x = x:pad { { 0, 0 }, { 0, 0 }, { 1, 1 } }
      local y = {}
      for o = 1, w:size(1) do
        local sum = 0
        for c = 1, w:size(2) do
          for k = 1, w:size(3) do sum = sum + x:select(2, c):slice(2, k, k + 4, 2) * w[{ o, c, k }] end
        end
        y[o] = sum
      end
      return ty.stack(y, 2)
    end
    for kind, x in pairs { complex = random(2, 2, 5), real = ty.randn({ 2, 2, 5 }, f64) } do
      local w = random(3, 2, 3)
      local function gradients(conv)
        local loss = function(a, b) return R(conv(a, b)):sin():sum() end
        local twice = function(a, b)
          local g, h = ty.grad(loss, { 1, 2 })(a, b)
          return (g:abs() * h:abs():sum()):sum()
        end
        local list = { conv(x, w), ty.grad(loss, { 1, 2 })(x, w) }
        local g, h = ty.grad(twice, { 1, 2 })(x, w)
        list[#list + 1], list[#list + 2] = g, h
        return list
      end
      local want = gradients(by_hand)
      for i, got in ipairs(gradients(function(a, b) return ty.conv1d(a, b, nil, options) end)) do
        assert.is_true(ty.allclose(got, want[i], { rtol = 1e-10, atol = 1e-10 }), kind .. " " .. i)
      end
    end
  end)

  it("begin with one that is given where the result is complex", function()
    local z = ty.complex({ 1, 2 }, { 3, 4 }, { requires_grad = true })
    local y = z * ty.complex(0, 1)
    y:backward(ty.complex({ 1, 0 }, { 0, 1 }))
    assert.same({ 0, -1, 1, 0 }, reals_of(z.grad)) -- g conj(i)
    assert.error_matches(function() (z * 1):sum():backward() end, "a complex result has no gradient to begin with")
    assert.error_matches(function() ty.grad(function(v) return v:sum() end)(z) end, "must give a float tensor of one element")
  end)

  it("go through rules of Lua's, checkpoints, scans, slices that were written, twice", function()
    local twice = ty.custom_grad(function(a) return a * 2, a end, function(_, g) return g * 2 end)
    local z = C(ty.randn(4, 2))
    local function f(v) return (R(twice(v * v)) ^ 2):sum() end
    local function plain(v) return (R(2 * (v * v)) ^ 2):sum() end
    local want = ty.grad(plain)(z)
    local apart = ty.custom_grad(function(x) return x * 1 end, function()
      return ty.arange(16):reshape(4, 4)[{ {}, { 1, 3, 2 } }] -- its parts lie two apart
    end)
    local even = ty.grad(function(v) return apart(R(twice(v))):sum() end)(z)
    assert.same({ 0, 4, 8, 12, 16, 20, 24, 28 }, reals_of(even))
    assert.is_true(ty.allclose(want, ty.grad(f)(z), { rtol = 1e-5 }))
    assert.is_true(ty.allclose(want, ty.grad(function(v)
      return (R(ty.checkpoint(function(u) return 2 * (u * u) end, v)) ^ 2):sum()
    end)(z), { rtol = 1e-5 }))
    assert.is_true(ty.allclose(want, ty.compile(function(v) return ty.grad(f)(v) end)(z), { rtol = 1e-5 }))
    local g = ty.grad(function(v)
      local y = ty.zeros_like(v)
      y[{ { 1, 2 } }] = v[{ { 3, 4 } }] * 3
      y[4] = v[1]
      return R(y):sum()
    end)(z)
    assert.same({ 1, 1, 0, 0, 3, 3, 3, 3 }, reals_of(g))
    local second = ty.grad(function(v) return ty.grad(function(u) return (u * u * u):real():sum() end)(v):real():sum() end)(z)
    assert.is_true(ty.allclose(second, 6 * z:conj(), { rtol = 1e-4 })) -- of 3 conj(z^2), the real part
  end)

  it("are there on the axes, also of the second order: quotients, magnitudes, tanh", function()
    local at = { { 0, 0.5 }, { 0.5, 0 }, { 0, -2 }, { -2, 0 } }
    local by = C(ty.tensor({ 3, -1 }, { dtype = "f64" }))
    local weights = ty.tensor({ 1, 2 }, { dtype = "f64" })
    local functions = { quotient = function(z) return R(by / z) end, reciprocal = function(z) return R(z:reciprocal()) end,
      abs = function(z) return z:abs() end, tanh = function(z) return R(z:tanh()) end, log = function(z) return R(z:log()) end,
      numerator = function(z) return R(z / ty.complex(0, 2, { dtype = "c128" })) end }
    for name, f in pairs(functions) do
      for i, p in ipairs(at) do
        if name == "log" and i == 4 then break end -- on its cut
        local function value(x) return (f(C(x)) * weights):sum() end
        assert.is_true(ty.gradcheck(value, ty.tensor(p, { dtype = "f64" })), name)
        local function slope(x) return (ty.grad(value)(x) * weights):sum() end
        assert.is_true(ty.gradcheck(slope, ty.tensor(p, { dtype = "f64" })), name)
      end
    end
  end)

  it("of a compiled function are those of plain Lua, to the bit", function()
    local function f(z, w) return (z:matmul(w) * w):exp():abs():sum() + (z / (w + 3)):sqrt():real():sum() end
    local compiled = ty.compile(f)
    for _ = 1, 4 do
      local grads = {}
      for i, g in ipairs { f, compiled } do
        local z, w = C(ty.arange(8):reshape(2, 2, 2) / 7), C(ty.arange(4):reshape(2, 2) / 5 - 0.3)
        z:requires_grad_()
        w:requires_grad_()
        g(z, w):backward()
        grads[i] = { z.grad, w.grad }
      end
      same_results(grads[1], grads[2])
    end
  end)

  it("say that hooks belong on the reals", function()
    local z = ty.complex(1, 2, { requires_grad = true })
    assert.error_matches(function() z:register_hook(print) end, "register it on ty.view_as_real")
    local seen
    R(z):register_hook(function(g) seen = g:totable() end)
    z:abs():pow(2):backward()
    assert.near(2, seen[1], 1e-6)
    assert.near(4, seen[2], 1e-6)
  end)
end)

describe("complex numbers elsewhere:", function()
  it("a module has complex parameters, which optimisers step as pairs of reals", function()
    for _, name in ipairs { "SGD", "Adam", "AdamW", "RMSprop", "Adagrad" } do
      local function run(complex)
        local data = ty.arange(6):reshape(3, 2) / 3 - 0.5
        local m = { w = complex and C(data):requires_grad_() or data:clone():requires_grad_() }
        local opt = ty.optim[name]({ m.w }, { lr = 0.1 })
        for _ = 1, 4 do
          opt:zero_grad()
          local x = complex and R(m.w) or m.w
          local loss = ((x - 1) ^ 2 * ty.tensor { 1, 3 }):sum()
          loss:backward()
          opt:step()
        end
        return complex and R(m.w:detach()) or m.w:detach()
      end
      H.same(run(false), run(true), name)
    end
  end)

  it("files keep them: npy, npz, safetensors", function()
    local path = os.tmpname()
    for _, dtype in ipairs { "c64", "c128" } do
      local z = C(ty.randn(3, 4, 2)):to(dtype)
      for _, ending in ipairs { ".npy", ".npz", ".safetensors" } do
        local name = path .. ending
        if ending == ".npy" then
          assert.is_true(ty.save(name, z:t()))
          assert.same({ 4, 3 }, ty.load(name).shape)
          H.same(R(z:t()), R(ty.load(name)), dtype)
          H.same(R(z:t()), R(ty.load(name, { mmap = true })), dtype)
        elseif dtype == "c128" and ending == ".safetensors" then
          assert.error_matches(function() ty.save(name, { a = z }) end, "safetensors have no c128")
          assert.error_matches(function() ty.save(name, { a = ty.ones(2), b = z }) end, "safetensors have no c128, of which b is")
        else
          assert.is_true(ty.save(name, { a = z, b = ty.ones(2), c = z[1] }))
          local t = assert(ty.load(name))
          assert.equal(dtype, t.a.dtype)
          H.same(R(z), R(t.a), dtype)
          H.same(R(z[1]), R(t.c), dtype)
        end
        os.remove(name)
      end
    end
    os.remove(path)
  end)

  it("NumPy's files are read, of either order of bytes and of dims", function()
    for _, f in ipairs(fixtures.files) do
      local path = os.tmpname() .. ".npy" -- of its own: Windows keeps files that are mapped
      local file = assert(io.open(path, "wb"))
      file:write((f.bytes:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)))
      file:close()
      local z = assert(ty.load(path))
      assert.equal(f.dtype, z.dtype)
      H.same(R(tensor(f.values):to(f.dtype)), R(z), f.dtype)
      H.same(R(z), R(ty.load(path, { mmap = true })), f.dtype)
      os.remove(path)
    end
  end)

  it("vmap gives each example its gradient", function()
    local function loss(v, u) return (v * v * u):abs():sum() + v[1]:real() end
    local z, u = C(ty.randn(3, 4, 2)), C(ty.randn(4, 2))
    local got = ty.vmap(ty.grad(loss), { 1, false })(z, u)
    for i = 1, 3 do H.same(R(ty.grad(loss)(z[i], u)), R(got[i]), "example") end
    local all = ty.grad(function(v) return ty.vmap(loss, { 1, false })(v, u):sum() end)(z)
    assert.is_true(ty.allclose(all, got, { rtol = 1e-5, atol = 1e-6 }))
  end)

  it("vmap takes them along any dim, batched or not, and writes to what is made inside", function()
    local z, w = C(ty.randn(3, 5, 2)), C(ty.randn(3, 2))
    local got = ty.vmap(function(v, u)
      local y = ty.zeros_like(u)
      y[1] = v:sum()
      return y * u + v[1]
    end, { 2, false })(z, w)
    for i = 1, 5 do
      local v, y = z[{ {}, i }], ty.zeros_like(w)
      y[1] = v:sum()
      H.same(R(y * w + v[1]), R(got[i]), "example")
    end
  end)
end)

describe("random expressions of complex numbers", function()
  local unary = { "neg", "conj", "exp", "sin", "cos", "tanh", "sqrt", "log", "square", "sigmoid", "sinh", "atan" }
  local shapes = { function(z) return z:t():t() end, function(z) return z:flip(2) end, function(z) return z:roll(1, 1) end,
    function(z) return z:cumsum(2) end, function(z) return ty.cat({ z[{ { 2, 3 } }], z[{ { 1 } }] }, 1) end,
    function(z) return z:reshape(4, 3):reshape(3, 4) end, function(z) return z - z:mean(2, true) end,
    function(z) return z:matmul(z:t()):matmul(z) * 0.1 end, function(z) return ty.complex(z:imag(), z:real()) end,
    function(z) return z / (z:abs() + 1) end, function(z) return z:real():gt(0):where(z, -z) end,
    function(z)
      local y = z:clone()
      y[2] = z[1]
      y:imag():mul_(0.5)
      return y
    end }

  --- A function of two tensors [3, 4] and a number, by a seed.
  local function program(seed)
    local r, steps = H.random(seed), {}
    for i = 1, r.whole(2, 5) do
      local kind, k = r.whole(1, 4), r.whole(1, 100)
      steps[i] = function(y, z, w, s)
        if kind == 1 then return y[unary[k % #unary + 1]](y) end
        if kind == 2 then return shapes[k % #shapes + 1](y) end
        local other = k % 3 == 0 and s or k % 3 == 1 and w or z:real()
        local op = k % 4
        if op == 0 then return y + other elseif op == 1 then return other * y elseif op == 2 then return y - other end
        return k % 2 == 0 and y / (other + 3) or other / (y + 3)
      end
    end
    return function(z, w, s)
      local y = z
      for i = 1, #steps do y = steps[i](y, z, w, s) end
      return y, y:abs():sum()
    end
  end

  local function data(seed)
    ty.manual_seed(seed)
    return ty.randn(3, 4, { dtype = seed % 3 == 0 and "c128" or "c64" }), ty.randn(3, 4, { dtype = "c64" })
  end

  it("give the bits of plain Lua when compiled, and their gradients; by vmap those of a loop", function()
    for seed = 1, 90 do
      local f, what = program(seed), "seed " .. seed
      local compiled = ty.compile(f)
      for call = 1, 3 do
        local z, w = data(10 * seed + call)
        local results = { {}, {} }
        for i, g in ipairs { f, compiled } do
          local a, b = z:clone():requires_grad_(), w:clone():requires_grad_()
          local y, size = g(a, b, call / 2)
          size:backward()
          results[i] = { R(y:detach()), size:detach(), R(a.grad), b.grad and R(b.grad) or ty.zeros(1) }
        end
        for k = 1, 4 do H.same(results[1][k], results[2][k], what .. ", result " .. k) end
      end
      local z, w = data(seed)
      local v, u = data(3 * seed + 3 * (seed % 3))
      local both = ty.vmap(f, { 1, 1, false })(ty.stack { z, v:to(z.dtype) }, ty.stack { w, u }, 1.5)
      H.same(R((f(z, w, 1.5))), R(both[1]), what .. " by vmap")
      H.same(R((f(v:to(z.dtype), u, 1.5))), R(both[2]), what .. " by vmap")
    end
  end)
end)

describe("where complex numbers are not carried, the error names what is:", function()
  local z = numbers(1, 2)

  it("scans, exports, checks of gradients", function()
    assert.error_matches(function() ty.scan(function(c, x) return c * x, c end, z[1], z) end,
      "scan: complex numbers are not carried.*c64%[%].*ty.view_as_real")
    local path = os.tmpname() .. ".c"
    assert.error_matches(function() ty.export(function(x) return x * x end, path, { z }) end,
      "export: argument 1 is complex.*view_as_real")
    local ok, why = pcall(ty.export, function(x) return C(x) * 2 end, path, { ty.zeros(2, 2), name = "twice" })
    assert.truthy(not ok and tostring(why):find "a result is complex: give ty.view_as_real of it", tostring(why))
    assert.truthy(ty.export(function(x) return R(C(x) * C(x)) end, path, { ty.ones(2, 2), name = "square" }))
    os.remove(path)
    os.remove((path:gsub("c$", "h")))
    assert.is_true(ty.gradcheck(function(x) return (C(x) * C(x)):sqrt():abs():sum() end, { R(ty.randn(3, { dtype = "c128" })) }))
  end)

  it("a module's parameters may be, and are saved", function()
    local m = ty.nn.Module { w = ty.nn.Parameter(ty.complex({ 0.5, 1 }, { 1, -1 })) }
    function m:forward(x) return (x * self.w):abs():sum() end
    assert.equal(1, #m:parameters())
    m(z):backward()
    assert.equal("c64", m.w.grad.dtype)
    local state = m:state_dict()
    assert.same({ 0.5, 1, 1, -1 }, reals_of(state.w))
    m:load_state_dict { w = numbers(3, 4) }
    assert.same({ 3, 0, 4, 0 }, reals_of(m.w))
  end)
end)
