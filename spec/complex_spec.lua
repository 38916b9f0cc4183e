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

  { "tests", function(z) return z:isnan(), z:isinf(), z:isfinite(), z:isreal() end },
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
      if not c.reads then assert.same({}, ty.explain(compiled).aborts) end

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
