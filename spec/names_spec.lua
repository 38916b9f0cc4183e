--- names_spec.lua -- functions that others know by these names, against PyTorch, NumPy and SciPy (fixtures/names.lua, made
-- by fixtures/make_names.py): values, gradients, f32; compiled to the bit, and captured whole; by vmap as by a loop.

local H = require "spec.helper"
local ty = H.ty
local fixtures = require "spec.fixtures.names"

local F64 = { dtype = "f64" }
local function I(...) return ty.tensor({ ... }, { dtype = "i64" }) end

--- Cases: {name, function of the fixture's inputs, ...}.
--   near      how near the values must be, relative to 1 + |value|: 1e-13
--   single    the same for f32: 1e-5; false: not compared
--   slope     how near gradients must be: 1e-11; PyTorch's own trigamma is no nearer
--   reads     it reads values: it is captured in parts, and no vmap computes it for all examples at once
--   whole     one of ty.linalg that reads nothing
--   vmap      false: there is nothing to map over, or sizes depend on values
local cases = {
  { "vstack", function(a, b) return ty.vstack { a, b } end },
  { "hstack", function(a, b) return ty.hstack { a, b } end },
  { "hstack_vectors", function(a, b) return ty.hstack { a, b } end },
  { "dstack", function(a, b) return ty.dstack { a, b } end },
  { "column_stack", function(a, b) return ty.column_stack { a, b } end },
  { "atleast_1d", function(x) return x:atleast_1d() end },
  { "atleast_2d", function(x) return x:atleast_2d() end },
  { "atleast_3d", function(a, b) return a:atleast_3d(), b:atleast_3d() end },
  { "tensor_split", function(x) return x:tensor_split(3) end },
  { "tensor_split_places", function(x) return x:tensor_split({ 1, 3 }, 2) end },
  { "diag_embed", function(x) return x:diag_embed() end },
  { "diag_embed_above", function(x) return x:diag_embed(1, 1, 3) end },
  { "diag_embed_below", function(x) return x:diag_embed(-2) end },
  { "diag", function(x) return x:diag() end },
  { "diag_below", function(x) return x:diag(-1) end },
  { "diag_of_matrix", function(x) return x:diag(1) end },
  { "diagflat", function(x) return x:diagflat(1) end },
  { "trace", function(x) return x:trace() end },
  { "block_diag", function(a, b, c) return ty.block_diag(a, b, c) end },
  { "tril_indices", function() return ty.tril_indices(3, 4, 1) end },
  { "triu_indices", function() return ty.triu_indices(4, 3, -1) end },
  { "rot90", function(x) return x:rot90() end },
  { "rot90_back", function(x) return x:rot90(-1, { 2, 3 }) end },
  { "rot90_half", function(x) return x:rot90(2) end },
  { "fliplr", function(x) return x:fliplr() end },
  { "flipud", function(x) return x:flipud() end },
  { "broadcast_tensors", function(a, b) return ty.broadcast_tensors(a, b) end },
  { "cartesian_prod", function(a, b) return ty.cartesian_prod(a, b) end },
  { "combinations", function(x) return x:combinations() end },
  { "combinations_again", function(x) return x:combinations(3, true) end },
  { "kron", function(a, b) return a:kron(b) end },
  { "kron_vector", function(a, b) return a:kron(b) end },
  { "vander", function(x) return x:vander(3) end },
  { "vander_increasing", function(x) return x:vander(nil, true) end },
  { "pixel_shuffle", function(x) return x:pixel_shuffle(2) end },
  { "pixel_unshuffle", function(x) return x:pixel_unshuffle(2) end },
  { "as_strided", function(x) return x:as_strided({ 2, 3 }, { 2, 1 }, 2) end },
  { "logspace", function() return ty.logspace(-1, 2, 5, { dtype = "f64" }) end },
  { "logspace_two", function() return ty.logspace(0, 4, 5, 2, { dtype = "f64" }) end },

  { "erfc", function(x) return x:erfc() end },
  { "lgamma", function(x) return x:lgamma() end },
  { "digamma", function(x) return x:digamma() end, slope = 1e-9 },
  { "polygamma", function(x) return ty.polygamma(1, x) end },
  { "polygamma_third", function(x) return ty.polygamma(3, x) end, near = 1e-12 },
  { "i0", function(x) return x:i0() end },
  { "i1", function(x) return x:i1() end },
  { "cbrt", function(x) return x:cbrt() end },
  { "frac", function(x) return x:frac() end },
  { "logit", function(x) return x:logit() end },
  { "logit_eps", function(x) return x:logit(0.1) end },
  { "sinc", function(x) return x:sinc() end },
  { "signbit", function(x) return x:signbit() end },
  { "deg2rad", function(x) return x:deg2rad() end },
  { "rad2deg", function(x) return x:rad2deg() end },
  { "fmax", function(a, b) return a:fmax(b) end },
  { "fmin", function(a, b) return a:fmin(b) end },
  { "xlogy", function(a, b) return a:xlogy(b) end },
  { "xlogy_values", function(a, b) return a:xlogy(b) end },
  { "xlog1py", function(a, b) return a:xlog1py(b) end },
  { "heaviside", function(x, value) return x:heaviside(value) end },
  { "logaddexp2", function(a, b) return a:logaddexp2(b) end },
  { "ldexp", function(x) return x:ldexp(ty.tensor({ 1, -2, 3 }, { dtype = "i64" })) end },
  { "float_power", function(x) return x:float_power(2.5) end, single = false },
  { "addcmul", function(x, a, b) return x:addcmul(a, b, { value = 0.5 }) end },
  { "addcdiv", function(x, a, b) return x:addcdiv(a, b, { value = -2 }) end },

  { "take_along_dim", function(x, i) return x:take_along_dim(i + 1, 2) end },
  { "take_along_dim_broadcast", function(x, i) return x:take_along_dim(i + 1, 1) end },
  { "take_along_dim_flat", function(x, i) return x:take_along_dim(i + 1) end },
  { "index_copy", function(x, s) return x:index_copy(1, I(3, 1), s) end },
  { "index_fill", function(x) return x:index_fill(2, I(4, -4), -1.5) end },
  { "index_put", function(x, v) return x:index_put({ I(1, 3), I(2, 4) }, v) end },
  { "index_put_rows", function(x, v) return x:index_put({ I(-1, 1) }, v) end },
  { "index_put_added", function(x, v) return x:index_put({ I(1, 3, 1), I(2, 4, 2) }, v, true) end },
  { "index_put_mask", function(x) return x:index_put({ ty.tensor { true, false, true } }, 9) end, reads = true },
  { "masked_scatter", function(x, s)
    return x:masked_scatter(ty.tensor { { true, false, true }, { false, true, true } }, s)
  end },
  { "select", function(x) return x:select(2, -1) end },
  { "select_scatter", function(x, s) return x:select_scatter(s, 2, 1) end },
  { "slice_scatter", function(x, s) return x:slice_scatter(s, 2, 1, 4, 2) end },
  { "diagonal_scatter", function(x, s) return x:diagonal_scatter(s, 1) end },
  { "isin", function(x, values) return x:isin(values) end },
  { "isin_not", function(x) return x:isin(I(3, 1), { invert = true }) end },
  { "bucketize", function(x) return x:bucketize(ty.tensor({ -1, 0, 2 }, F64)) end },
  { "bucketize_right", function(x) return x:bucketize(ty.tensor({ -1, 0, 2 }, F64), true) end },
  { "msort", function(x) return x:msort() end },
  { "kthvalue", function(x) return x:kthvalue(2, 1) end },
  { "kthvalue_kept", function(x) return (x:kthvalue(3, nil, true)) end },
  { "mode", function(x) return x:mode() end },
  { "mode_columns", function(x) return (x:mode(1, true)) end },
  { "bincount", function() return I(1, 3, 3, 6):bincount() end, reads = true },
  { "unique_rows", function(x) return x:unique { dim = 1, counts = true } end, reads = true },
  { "unique_columns", function(x) return (x:unique { dim = -1 }) end, reads = true },
  { "unique_counts", function(x) return x:unique { counts = true } end, reads = true },
  { "bincount_weights", function(w) return I(1, 3, 3, 6):bincount(w, 7) end, reads = true },

  { "nansum", function(x) return x:nansum(2) end },
  { "nanmean", function(x) return x:nanmean(1) end },
  { "nanmax", function(x) return x:nanmax(1) end },
  { "nanmin", function(x) return x:nanmin(1, true) end },
  { "quantile", function(x) return x:quantile(0.3) end },
  { "quantile_many", function(x) return x:quantile(ty.tensor({ 0, 0.25, 0.6, 1 }, F64), 2) end },
  { "quantile_kept", function(x) return x:quantile(0.4, 1, true) end },
  { "quantile_nan", function(x) return x:quantile(0.5, 2) end },
  { "nanquantile", function(x) return x:nanquantile(ty.tensor({ 0.25, 0.9 }, F64), 1) end },
  { "nanmedian", function(x) return x:nanmedian(2) end },
  { "percentile", function(x) return x:percentile(30, 2) end },
  { "aminmax", function(x) return x:aminmax(2) end },
  { "ptp", function(x) return x:ptp(1) end },
  { "var_mean", function(x) return x:var_mean { dims = 2, correction = 0 } end },
  { "std_mean", function(x) return x:std_mean(1, true) end },
  { "average", function(x, w) return x:average(2, w) end },
  { "cov", function(x) return x:cov() end },
  { "cov_weights", function(x, w) return x:cov { correction = 0, fweights = I(1, 2, 3, 1), aweights = w } end },
  { "cov_vector", function(x) return x:cov() end },
  { "corrcoef", function(x) return x:corrcoef() end },
  { "histc", function(x) return x:histc(7) end },
  { "histc_between", function(x) return x:histc(4, -1, 1) end },
  { "histogram", function(x) return x:histogram(5) end },
  { "histogram_density", function(x, w)
    return x:histogram(4, { range = { -1, 2 }, weight = w, density = true })
  end },
  { "histogram_edges", function(x) return (x:histogram(ty.tensor({ -1, 0, 0.5, 2 }, F64))) end },
  { "diff", function(x) return x:diff() end },
  { "diff_twice", function(x) return x:diff(2, 1) end },
  { "diff_more", function(x, a) return x:diff(1, -1, { prepend = a, append = a }) end },
  { "trapezoid", function(y) return y:trapezoid() end },
  { "trapezoid_at", function(y, x) return y:trapezoid(x, { dim = 1 }) end },
  { "cumulative_trapezoid", function(y) return y:cumulative_trapezoid { dx = 0.5, dim = 1 } end },
  { "interp", function(x) return x:interp(ty.tensor({ -1, 0, 2.5 }, F64), ty.tensor({ 3, 1, 4 }, F64)) end,
    single = false },
  { "interp_sides", function(x)
    return x:interp(ty.tensor({ -1, 0, 2.5 }, F64), ty.tensor({ 3, 1, 4 }, F64), { left = -7, right = 8 })
  end, single = false },
  { "mm", function(a, b) return a:mm(b) end },
  { "mv", function(a, v) return a:mv(v) end },
  { "addmv", function(c, a, v) return c:addmv(a, v, { alpha = 0.5, beta = -2 }) end },
  { "addr", function(c, a, b) return c:addr(a, b, { alpha = 2 }) end },
  { "baddbmm", function(c, a, b) return c:baddbmm(a, b, { beta = 0.5 }) end },
  { "inner", function(a, b) return a:inner(b) end },
  { "vecdot", function(a, b) return a:vecdot(b) end },
  { "cross", function(a, b) return a:cross(b) end },
  { "cross_columns", function(a, b) return a:cross(b, 1) end },
  { "cdist", function(a, b) return a:cdist(b) end },
  { "cdist_stack", function(a, b) return a:cdist(b, 1) end },
  { "cdist_cubic", function(a, b) return a:cdist(b, 3) end },
  { "cdist_largest", function(a, b) return a:cdist(b, math.huge) end },
  { "pdist", function(x) return x:pdist() end },

  { "polyval", function(p, x) return p:polyval(x) end },
  { "polyfit", function(x, y) return x:polyfit(y, 2) end, reads = true, near = 1e-11, single = 1e-2, slope = 1e-9 },
}

-- ty.linalg: what LAPACK computes or a norm decides reads values. Signs and permutations do not matter.
local la = ty.linalg
local of_matrices = {
  { "svdvals", function(a) return la.svdvals(a) end, slope = 1e-9 },
  { "eigvalsh", function(a) return la.eigvalsh(a + a:transpose(-2, -1)) end, slope = 1e-9 },
  { "pinv", function(a) return la.pinv(a) end, single = 1e-4, slope = 1e-9 },
  { "pinv_wide", function(a) return la.pinv(a) end, single = 1e-4, slope = 1e-9 },
  { "pinv_low_rank", function(a) return la.pinv(a:detach(), { rtol = 1e-5 }) end, single = 1e-4 },
  { "matrix_rank", function(a) return la.matrix_rank(a), la.matrix_rank(a, { atol = 3 }) end },
  { "slogdet", function(a) return la.slogdet(a) end, slope = 1e-9 },
  { "lu", function(a) return la.lu(a) end, slope = 1e-9 },
  { "lu_tall", function(a) return la.lu(a:detach()) end },
  { "lu_wide", function(a) return la.lu(a:detach()) end },
  { "norm", function(x) return la.norm(x), la.norm(x, nil, 1), la.norm(x, 1, 2, true), la.norm(x, "fro"),
    la.norm(x, math.huge), la.norm(x, 2, { 1, 2 }) end },
  { "vector_norm", function(x) return la.vector_norm(x, 3, { 1, 2 }), la.vector_norm(x) end, whole = true },
  { "matrix_norm", function(x)
    local list = { la.matrix_norm(x), la.matrix_norm(x, "nuc") }
    for _, p in ipairs { 2, -2, 1, -1, math.huge, -math.huge } do list[#list + 1] = la.matrix_norm(x, p) end
    list[#list + 1] = la.matrix_norm(x, "fro", { 1, 3 }, true)
    return list
  end, slope = 1e-9 },
  { "cond", function(a) return la.cond(a), la.cond(a, -2), la.cond(a, 1), la.cond(a, "fro") end, slope = 1e-8, near = 1e-11,
    single = 1e-3 },
  { "matrix_power", function(a) return la.matrix_power(a, 5), la.matrix_power(a, 0) end, single = 1e-4, whole = true },
  { "matrix_power_inverse", function(a) return la.matrix_power(a, -3) end, single = 1e-4, slope = 1e-9 },
  { "multi_dot", function(a, b, c, d) return la.multi_dot { a, b, c, d } end, whole = true },
  { "matrix_exp", function(a) return la.matrix_exp(a) end, single = 1e-3, near = 1e-12, slope = 1e-9 },
  { "solve_triangular", function(a, b) return la.solve_triangular(a, b, { upper = true }) end, single = 1e-3, slope = 1e-9 },
  { "solve_triangular_right", function(a, b)
    return la.solve_triangular(a, b, { upper = false, left = false, unitriangular = true })
  end, single = 1e-3, slope = 1e-9 },
  { "tensorinv", function(a) return la.tensorinv(a, 1) end, single = 1e-3, slope = 1e-9 },
  { "tensorsolve", function(a, b) return la.tensorsolve(a, b) end, single = 1e-3, slope = 1e-9 },
}
local has_lapack = ty.blas(true)
ty.blas(false)
for _, c in ipairs(of_matrices) do
  if not c.whole then c.reads = true end
  if has_lapack or c.whole then cases[#cases + 1] = c end
end

for _, way in ipairs { "lower", "higher", "nearest", "midpoint" } do
  cases[#cases + 1] = { "quantile_" .. way, function(x)
    return x:quantile(ty.tensor({ 0.1, 0.6 }, F64), -1, { interpolation = way })
  end }
end
for _, mode in ipairs { "full", "same", "valid" } do
  cases[#cases + 1] = { "convolve_" .. mode, function(a, v) return a:convolve(v, mode) end }
end
local spread = ty.tensor({ { 1, 2, 2, 3 }, { 2, 2, 1, 3 }, { 1, 1, 1, 1 } }, { dtype = "i64" })
for _, kind in ipairs { "sum", "prod", "mean", "amax", "amin" } do
  cases[#cases + 1] = { "scatter_reduce_" .. kind, function(x, s) return x:scatter_reduce(2, spread, s, kind) end }
  cases[#cases + 1] = { "scatter_reduce_without_" .. kind, function(x, s)
    return x:scatter_reduce(2, spread, s, kind, { include_self = false })
  end }
end

--- A tensor of a fixture.
local function tensor(v)
  local n = 1
  for _, size in ipairs(v.shape) do n = n * size end
  if n == 0 then return ty.zeros(v.shape, { dtype = v.dtype }) end
  return ty.tensor({ unpack(v, 1, n) }, { dtype = v.dtype }):reshape(v.shape)
end

--- Tensors of results, which may be tables of tensors, in a list.
local function flat(list, ...)
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if ty.is_tensor(v) then list[#list + 1] = v
    elseif type(v) == "table" then flat(list, unpack(v)) end
  end
  return list
end

local function is_float(x) return H.is_float(x.dtype) end

--- Where y lies farther from the fixture's values than `bound` relative to 1 + |value|: a text; nil: nowhere.
local function far(want, y, bound)
  if table.concat(want.shape, ",") ~= table.concat(y.shape, ",") then
    return ("sizes %s instead of %s"):format(table.concat(y.shape, ","), table.concat(want.shape, ","))
  end
  local got = H.list(y:to(want.dtype == "f64" and "f64" or y.dtype))
  for i = 1, #want do
    local w, g = want[i], got[i]
    if type(g) == "cdata" then g = tonumber(g) end
    if type(w) == "boolean" then g = g ~= 0 end
    local same = w == g or (w ~= w and g ~= g)
    if not same and not (type(w) == "number" and math.abs(w - g) <= bound * (1 + math.abs(w))) then
      return ("element %d is %.17g instead of %.17g"):format(i, tonumber(g) or -1, tonumber(w) or -1)
    end
  end
  return nil
end

--- The sum of cos of each element's position times the element, of all float results.
local function weighed(...)
  local sum = 0
  for _, y in ipairs(flat({}, ...)) do
    if is_float(y) and y.requires_grad then
      sum = sum + (ty.arange(y:numel(), { dtype = "f64" }):cos():reshape(y.shape) * y):sum()
    end
  end
  return sum
end

local function same_results(want, got)
  assert.equal(#want, #got)
  for k = 1, #want do H.same(want[k], got[k], "result " .. k) end
end

describe("the values of other libraries:", function()
  for _, c in ipairs(cases) do
    local name, f, fixture = c[1], c[2], fixtures[c[1]]
    it(name, function()
      assert.truthy(fixture, "make_names.py has no case of that name")
      local inputs, single, floats = {}, {}, {}
      for i, v in ipairs(fixture.inputs) do
        inputs[i] = tensor(v)
        single[i] = is_float(inputs[i]) and inputs[i]:to "f32" or inputs[i]
        if is_float(inputs[i]) then floats[#floats + 1] = i end
      end
      local results = flat({}, f(unpack(inputs)))
      assert.equal(#fixture.results, #results)
      for k, want in ipairs(fixture.results) do
        assert.equal(want.dtype, results[k].dtype, "result " .. k)
        assert.is_nil(far(want, results[k], c.near or 1e-13))
      end
      if c.single ~= false and #floats > 0 then
        for k, y in ipairs(flat({}, f(unpack(single)))) do
          if is_float(y) then assert.equal("f32", y.dtype, "result " .. k) end
          assert.is_nil(far(fixture.results[k], y, c.single or 1e-5), "f32, result " .. k)
        end
      end

      local compiled = ty.compile(function(...) return f(...) end)
      for _ = 1, 2 do same_results(results, flat({}, compiled(unpack(inputs)))) end
      if not c.reads then assert.same({}, ty.explain(compiled).aborts) end

      if not fixture.gradients then return end
      local leaves = {}
      for i, x in ipairs(inputs) do leaves[i] = is_float(x) and x:clone():requires_grad_() or x end
      weighed(f(unpack(leaves))):backward()
      for k, i in ipairs(floats) do
        local g = leaves[i].grad or ty.zeros_like(leaves[i])
        assert.is_nil(far(fixture.gradients[k], g, c.slope or 1e-11), "gradient " .. k)
      end
      local gradient = ty.grad(function(...) return weighed(f(...)) end, floats)
      local gradients = { gradient(unpack(inputs)) }
      local step = ty.compile(function(...) return gradient(...) end)
      for _ = 1, 2 do same_results(gradients, { step(unpack(inputs)) }) end
    end)

    local in_linalg = la[name:match "^%l+_?%l*"] ~= nil
    if fixture and #fixture.inputs > 0 and (not c.reads or in_linalg) and c.vmap ~= false then
      it(name .. " by vmap", function()
        local first, second, both = {}, {}, {}
        for i, v in ipairs(fixture.inputs) do
          first[i] = tensor(v)
          second[i] = is_float(first[i]) and first[i] * 0.75 or first[i]
          both[i] = ty.stack { first[i], second[i] }
        end
        local p, q = flat({}, f(unpack(first))), flat({}, f(unpack(second)))
        local got = flat({}, ty.vmap(f)(unpack(both)))
        for k = 1, #p do p[k] = ty.stack { p[k], q[k] } end
        same_results(p, got)
      end)
    end
  end
end)

describe("special functions of f64", function()
  for name, v in pairs(fixtures.exact) do
    it(name .. " is within 5 units of what 40 digits give, near zeros and ends too", function()
      local got = H.list(ty[name](ty.tensor(v.points, F64)))
      for i, want in ipairs(v.values) do
        local d = H.oracle.oracle_distance("f64", want, got[i])
        assert.truthy(d <= 5, ("%s(%.17g): %g units"):format(name, v.points[i], d))
      end
    end)
  end

  it("have the gradients of their orders, which a compiled function may read", function()
    local own = { order = 2 }
    local f = ty.compile(function(x) return ty.polygamma(own.order, x):sum() end)
    for _, order in ipairs { 2, 2, 0, 3, 1, 2 } do
      own.order = order
      local x = ty.tensor({ 0.4, 1.5, 3 }, F64):requires_grad_()
      f(x):backward()
      H.same(ty.polygamma(order + 1, x:detach()), x.grad)
    end
  end)
end)

describe("other names of functions", function()
  local a, b = ty.tensor { { 0.25, -0.5 }, { 0.75, 0.125 } }, ty.tensor { { 1.5, 2 }, { 0.5, -3 } }
  local k = ty.tensor({ { 1, 2 }, { 2, 1 } }, { dtype = "i64" })
  local both = { -- what the name gives, then what the function gives
    { "concat", function() return ty.concat { a, b }, ty.cat { a, b } end },
    { "concatenate", function() return ty.concatenate({ a, b }, 2), ty.cat({ a, b }, 2) end },
    { "clip", function() return a:clip(0, 0.5), a:clamp(0, 0.5) end },
    { "amax", function() return a:amax({ 1, 2 }, true), a:max({ 1, 2 }, true) end },
    { "amin", function() return a:amin(2), a:min(2) end },
    { "broadcast_to", function() return a:broadcast_to(3, 2, 2), a:expand(3, 2, 2) end },
    { "absolute", function() return a:absolute(), a:abs() end },
    { "negative", function() return a:negative(), a:neg() end },
    { "subtract", function() return a:subtract(b), a - b end },
    { "multiply", function() return a:multiply(b), a * b end },
    { "divide", function() return a:divide(b), a / b end },
    { "true_divide", function() return a:true_divide(b), a / b end },
    { "greater", function() return a:greater(b), a:gt(b) end },
    { "greater_equal", function() return a:greater_equal(b), a:ge(b) end },
    { "less", function() return a:less(b), a:lt(b) end },
    { "less_equal", function() return a:less_equal(b), a:le(b) end },
    { "not_equal", function() return a:not_equal(b), a:ne(b) end },
    { "swapaxes", function() return a:swapaxes(1, 2), a:transpose(1, 2) end },
    { "swapdims", function() return a:swapdims(1, 2), a:transpose(1, 2) end },
    { "moveaxis", function() return a:moveaxis(1, 2), a:movedim(1, 2) end },
    { "arcsin", function() return a:arcsin(), a:asin() end },
    { "arccos", function() return a:arccos(), a:acos() end },
    { "arctan", function() return b:arctan(), b:atan() end },
    { "arctan2", function() return a:arctan2(b), a:atan2(b) end },
    { "arcsinh", function() return b:arcsinh(), b:asinh() end },
    { "arccosh", function() return b:abs():arccosh(), b:abs():acosh() end },
    { "arctanh", function() return a:arctanh(), a:atanh() end },
    { "fix", function() return b:fix(), b:trunc() end },
    { "argwhere", function() return a:argwhere(), a:nonzero() end },
    { "row_stack", function() return ty.row_stack { a, b }, ty.vstack { a, b } end },
    { "trapz", function() return a:trapz(), a:trapezoid() end },
    { "conjugate", function() return a:conjugate(), a:conj() end },
    { "conj_physical", function() return a:conj_physical(), a:conj() end },
    { "vdot", function() return a[1]:vdot(b[1]), a[1]:dot(b[1]) end },
    { "bitwise_left_shift", function() return k:bitwise_left_shift(2), k:lshift(2) end },
    { "bitwise_right_shift", function() return k:bitwise_right_shift(1), k:rshift(1) end },
    { "sgn", function() return a:sgn(), a:sign() end },
    { "mod", function() return b:mod(a), b:remainder(a) end },
    { "power", function() return a:power(2), a:pow(2) end },
    { "around", function() return b:around(), b:round() end },
    { "rint", function() return b:rint(), b:round() end },
    { "invert", function() return k:invert(), k:bitwise_not() end },
    { "gammaln", function() return b:gammaln(), b:lgamma() end },
    { "psi", function() return b:psi(), b:digamma() end },
    { "expit", function() return b:expit(), b:sigmoid() end },
    { "copy", function() return b:copy(), b:clone() end },
    { "array", function() return ty.array { 1, 2 }, ty.tensor { 1, 2 } end },
    { "as_tensor", function() return ty.as_tensor { 1, 2 }, ty.tensor { 1, 2 } end },
    { "split_with_sizes", function() return a:split_with_sizes({ 1, 1 }, 2)[2], a:split({ 1, 1 }, 2)[2] end },
    { "permute_dims", function() return a:permute_dims(2, 1), a:permute(2, 1) end },
    { "degrees", function() return a:degrees(), a:rad2deg() end },
    { "radians", function() return a:radians(), a:deg2rad() end },
    { "expand_dims", function() return a:expand_dims(1), a:unsqueeze(1) end },
    { "take_along_axis", function() return a:take_along_axis(k, 2), a:take_along_dim(k, 2) end },
    { "clamp_min", function() return a:clamp_min(0), a:maximum(0) end },
    { "clamp_max", function() return a:clamp_max(0), a:minimum(0) end },
    { "swapaxes_", function() return a:clone():swapaxes_(1, 2), a:t() end },
    { "swapdims_", function() return a:clone():swapdims_(2, 1), a:t() end },
    { "binary_cross_entropy_with_logits", function()
      return ty.binary_cross_entropy_with_logits(a, b), ty.bce_with_logits(a, b)
    end },
    { "ravel", function() return a:ravel(), a:flatten() end },
    { "ger", function() return a[1]:ger(b[1]), a[1]:outer(b[1]) end },
  }

  for _, c in ipairs(both) do
    it(c[1] .. " gives what the function gives, compiled too", function()
      local y, want = c[2]()
      H.same(want, y)
      H.same(want, (ty.compile(c[2])()))
    end)
  end

  it("are all compared", function()
    local compared = { tolist = true, nelement = true }
    for _, c in ipairs(both) do compared[c[1]] = true end
    for _, row in ipairs(ty.internals.composites) do
      if row.alias then assert.truthy(compared[row.name], row.name) end
    end
    assert.same(a:totable(), a:tolist())
    assert.equal(4, a:nelement())
  end)

  it("raise under that name, and have the function's help", function()
    assert.truthy(H.raises(a.clip, a):find "^clip: needs min")
    assert.truthy(H.raises(a.amax, a, 3):find "^amax: dim 3 is out of range")
    assert.truthy(H.raises(ty.concat, { a, ty.ones(3) }):find "^concat: ")
    assert.truthy(ty.help("amax"):find("amax(x, dims = nil, keepdim = false)\n  the same as max: the largest", 1, true))
    assert.truthy(ty.help("amax"):find("the dtype of x", 1, true))
    assert.same(ty.help "amax", ty.help(ty.amax))
    assert.same(ty.help "max", ty.help(ty.max))
  end)
end)

describe("dtypes", function()
  --- Pairs whose dtype is not NumPy's: an integer beside a float, real or complex, takes the float's, as in PyTorch.
  local deviations = {}
  for pair in ("u16,f16 i16,f16 u32,f16 i32,f16 u64,f16 i64,f16 u32,f32 i32,f32 u64,f32 i64,f32 "
    .. "u32,c64 i32,c64 u64,c64 i64,c64"):gmatch "%S+" do deviations[pair] = true end

  it("meet as in PyTorch, and as in NumPy but for integers beside floats; operations and help agree", function()
    local seen, table_of, lines = {}, ty.help "promotion", {}
    for line in table_of:match("\n\n(.*)$"):gmatch "[^\n]+" do
      local words = {}
      for word in line:gmatch "%S+" do words[#words + 1] = word end
      lines[#lines + 1] = words
    end
    local at = {}
    for i, name in ipairs(lines[1]) do at[name] = i + 1 end
    for _, pair in ipairs(dofile(H.root .. "spec/fixtures/promotion.lua")) do
      local a, b, numpy, torch = unpack(pair)
      local name, got = a .. "," .. b, ty.promote_types(a, b)
      local x, y = ty.zeros({ 1 }, { dtype = a }), ty.zeros({ 1 }, { dtype = b })
      assert.truthy(not torch or torch == got, name)
      if numpy and numpy ~= got then
        assert.truthy(deviations[name], name)
        seen[name] = true
      end
      assert.equal(got, ty.promote_types(b, a), name)
      assert.equal(got, lines[at[a]][at[b]], name)
      assert.same({ got, got, got, got }, { ty.result_type(x, y), ty.result_type(y, x), ty.cat({ x, y }).dtype,
        ty.where(x:eq(0), x, y).dtype }, name)
      local counts = got == "bool" and "i64" or got
      assert.same({ counts, counts }, { (x + y).dtype, (y * x).dtype }, name)
      if got:sub(1, 1) ~= "c" then assert.equal(got, ty.maximum(x, y).dtype, name) end
    end
    assert.same(deviations, seen)
    assert.equal(15 + 1, #lines)
  end)

  it("beside numbers stay as they are, but for fractions beside integers", function()
    for _, dtype in ipairs { "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "c64", "c128" } do
      local x = ty.ones({ 1 }, { dtype = dtype })
      local float = dtype:find "^[bcf]"
      assert.same({ dtype, float and dtype or "f32", dtype }, { (x + 1).dtype, (x + 0.5).dtype, ty.result_type(x, 1) }, dtype)
    end
    assert.equal("f16", ty.result_type(ty.zeros({ 1 }, { dtype = "f16" }), 1))
    assert.equal("f32", ty.result_type(ty.zeros({ 1 }, { dtype = "i32" }), 0.5))
    assert.truthy(H.raises(ty.promote_types, "f32", "f33"):find("a dtype must be one of", 1, true))
    assert.truthy(H.raises(ty.result_type, 1, 2):find "^result_type: one argument must be a tensor")
  end)

  it("finfo and iinfo are true of their numbers", function()
    for _, name in ipairs { "f16", "bf16", "f32", "f64" } do
      local f, o = ty.finfo(name), { dtype = name }
      local function is(v) return ty.tensor(v, o):item() end
      assert.equal(f.max, is(f.max))
      assert.equal(f.min, is(f.min))
      assert.equal(f.tiny, is(f.tiny))
      assert.equal(math.huge, ty.tensor(f.max, o):mul(2):item())
      assert.truthy(ty.tensor(1, o):add(f.eps):item() > 1)
      assert.equal(1, ty.tensor(1, o):add(f.eps / 2):item())
      assert.equal(f.smallest_subnormal, is(f.smallest_subnormal))
      assert.equal(0, ty.tensor(f.smallest_subnormal, o):mul(0.5):item())
    end
    for _, name in ipairs { "u8", "i8", "i16", "i32" } do
      local i, o = ty.iinfo(name), { dtype = name }
      assert.equal(i.max, ty.tensor(i.max, o):item())
      assert.equal(i.min, ty.tensor(i.max, o):add(1):item())
      assert.equal(name:match "%d+", tostring(i.bits))
    end
    assert.truthy(H.raises(ty.finfo, "i32"):find "^finfo: argument 1 must be a float dtype")
    assert.truthy(H.raises(ty.iinfo, "f32"):find "^iinfo: argument 1 must be an integer dtype")
  end)

  it("casts by name, type_as and new tensors have them", function()
    local x = ty.tensor { 0, 1.75, -2 }
    local casts = { float = "f32", double = "f64", half = "f16", bfloat16 = "bf16", long = "i64", int = "i32", short = "i16",
      char = "i8", bool = "bool" }
    for name, dtype in pairs(casts) do H.same(x:to(dtype), x[name](x)) end
    H.same(x:abs():to "u8", x:abs():byte())
    assert.same({ "f64", "i64" }, { x:double().dtype, x:long().dtype })
    assert.same({ "f16", "f32", "bf16", "i32", "i16", "i8", "bool" }, { x:half().dtype, x:float().dtype, x:bfloat16().dtype,
      x:int().dtype, x:short().dtype, x:char().dtype, x:bool().dtype })
    local d = x:double()
    assert.equal("f64", x:type_as(d).dtype)
    assert.same({ 4, 8, 1 }, { x:element_size(), d:element_size(), x:bool():element_size() })
    H.same(ty.zeros({ 2, 3 }, F64), d:new_zeros(2, 3))
    H.same(ty.ones({ 2, 3 }, F64), d:new_ones({ 2, 3 }))
    H.same(ty.full({ 2 }, 7, F64), d:new_full({ 2 }, 7))
    H.same(ty.tensor({ 1, 2 }, F64), d:new_tensor { 1, 2 })
    assert.same({ "f64", { 2 } }, { d:new_empty(2).dtype, d:new_empty(2).shape })
    assert.equal("i64", d:new_zeros(2, { dtype = "i64" }).dtype)
    assert.truthy(H.raises(d.new_zeros, d, -1):find "^new_zeros: ")
    assert.truthy(H.raises(d.new_full, d, { 2 }, "a"):find "^new_full: ")
  end)
end)

describe("what else PyTorch's and NumPy's users write", function()
  it("dtypes by their names there", function()
    local names = { float32 = "f32", float64 = "f64", float16 = "f16", bfloat16 = "bf16", float = "f32", double = "f64",
      half = "f16", int64 = "i64", int32 = "i32", int16 = "i16", int8 = "i8", uint8 = "u8", long = "i64", int = "i32",
      short = "i16", byte = "u8", complex64 = "c64", complex128 = "c128", cfloat = "c64", cdouble = "c128" }
    for name, dtype in pairs(names) do
      assert.equal(dtype, ty.zeros({ 2 }, { dtype = name }).dtype)
      assert.equal(dtype, ty.compile(function(x) return x:to(name) end)(ty.ones(2)).dtype)
    end
    assert.truthy(H.raises(ty.zeros, 2, { dtype = "complex32" }):find("a dtype must be one of bool u8", 1, true))
  end)

  it("x.T, x.mT and x.nbytes, compiled too, with their gradients", function()
    local x = ty.arange(24, F64):reshape(2, 3, 4)
    local f = function(v) return v.T * 2, v.mT * 3, v.nbytes end
    local compiled = ty.compile(f)
    for _, v in ipairs { x, x, ty.ones(3, 2, 5), ty.ones(4, 2, 5) } do
      local p, q, n = compiled(v)
      H.same(v:permute(3, 2, 1) * 2, p)
      H.same(v:transpose(2, 3) * 3, q)
      assert.equal(v:numel() * v:element_size(), n)
    end
    assert.same({}, ty.explain(compiled).aborts)
    H.same(ty.full({ 2, 3 }, 2), ty.grad(function(v) return (v.T * 2):sum() end)(ty.ones(2, 3)))
    H.same(ty.ones(3), ty.ones(3).T)
    assert.truthy(H.raises(function() return ty.ones(3).mT end):find "^transpose: ")
    assert.truthy(H.raises(function() x.T = 1 end):find "cannot be set")
  end)
end)

describe("unique", function()
  it("gives elements and rows in the order in which they come", function()
    local values, at, counts = ty.tensor({ 3, 1, 3, 2, 1 }):unique { sorted = false, counts = true }
    assert.same({ { 3, 1, 2 }, { 1, 2, 1, 3, 2 }, { 2, 2, 1 } }, { values:totable(), at:totable(), counts:totable() })
    local rows, place = ty.tensor({ { 2, 1 }, { 0, 5 }, { 2, 1 } }):unique { dim = 1, sorted = false }
    assert.same({ { { 2, 1 }, { 0, 5 } }, { 1, 2, 1 } }, { rows:totable(), place:totable() })
    assert.same({ 0 }, (ty.zeros(0):unique { counts = true, sorted = false }).shape)
    assert.truthy(H.raises(ty.unique, ty.ones(2), { dim = 2 }):find "^unique: dim 2")
    assert.truthy(H.raises(ty.unique, ty.ones(2), { order = true }):find "^unique: unknown option")
  end)
end)

describe("draws", function()
  before_each(function() ty.manual_seed(11) end)
  after_each(function() ty.manual_seed() end)

  --- Mean and variance.
  local function moments(x)
    local v, m = x:double():var_mean()
    return m:item(), v:item()
  end

  local kinds = { -- by name: the draw, its mean and variance
    bernoulli_ = { function(x) return x:bernoulli_(0.3) end, 0.3, 0.21 },
    exponential_ = { function(x) return x:exponential_(2) end, 0.5, 0.25 },
    random_ = { function(x) return x:random_(-2, 3) end, 0.5, 35 / 12 },
    geometric_ = { function(x) return x:geometric_(0.4) end, 2.5, 3.75 },
    log_normal_ = { function(x) return x:log_normal_(0.2, 0.5):log() end, 0.2, 0.25 },
    cauchy_ = { function(x) return x:cauchy_(1, 2):sub_(1):div_(2):atan_() end, 0, math.pi ^ 2 / 12 },
    poisson = { function(x) return ty.poisson(x:fill_(3.5)) end, 3.5, 3.5 },
    poisson_large = { function(x) return ty.poisson(x:fill_(900)) end, 900, 900 },
  }

  for name, kind in pairs(kinds) do
    it(name .. " has its mean and variance, in f32 and f64, the same numbers compiled", function()
      for _, dtype in ipairs { "f32", "f64" } do
        local n = name:find "large" and 4000 or 40000
        ty.manual_seed(4)
        local y = kind[1](ty.zeros({ n }, { dtype = dtype }))
        assert.equal(dtype, y.dtype)
        local mean, variance = moments(y)
        assert.near(kind[2], mean, 5 * math.sqrt(kind[3] / n))
        assert.near(kind[3], variance, 12 * (kind[3] + kind[2]) / math.sqrt(n))
        if not name:find "large" then
          ty.manual_seed(4)
          H.same(y, ty.compile(kind[1])(ty.zeros({ n }, { dtype = dtype })))
        end
      end
    end)
  end

  it("poisson draws each number as often as it is likely", function()
    local n, y = 40000, ty.poisson(ty.full({ 40000 }, 2.5))
    local p = math.exp(-2.5)
    for k = 0, 8 do
      assert.near(p, y:eq(k):sum():item() / n, 5 * math.sqrt(p / n))
      p = p * 2.5 / (k + 1)
    end
    assert.same({ 0, 0 }, ty.poisson(ty.zeros(2)):totable())
    assert.truthy(H.raises(ty.poisson, ty.tensor { -1 }):find "^poisson: means must be finite and not negative")
  end)

  it("bernoulli_ takes a chance for each element, and raises for bad arguments", function()
    assert.same({ 0, 1, 0 }, ty.zeros(3):bernoulli_(ty.tensor { 0, 1, 0 }):totable())
    assert.truthy(H.raises(function() ty.zeros(2):bernoulli_(2) end):find "^bernoulli_: ")
    assert.truthy(H.raises(function() ty.zeros(2):exponential_(0) end):find "^exponential_: argument 2")
    assert.truthy(H.raises(function() ty.zeros(2):geometric_(1) end):find "^geometric_: argument 2")
    assert.truthy(H.raises(function() ty.zeros(2):long():exponential_() end):find "^exponential_: argument 1 must be of floats")
    assert.truthy(H.raises(function() ty.zeros(2):requires_grad_():cauchy_() end):find "^cauchy_: ")
    assert.truthy(H.raises(function() ty.zeros(2):log_normal_(0, 0) end):find "^log_normal_: ")
  end)

  it("random_ draws both bounds, what the dtype holds without them, and wants both or none", function()
    assert.same({ 1, 2, 3 }, (ty.zeros(200, { dtype = "i8" }):random_(1, 3):unique():totable()))
    for dtype, most in pairs { bool = 1, u8 = 255, f16 = 2048, u32 = 2 ^ 32 - 1, f32 = 2 ^ 24, u64 = 2 ^ 53 - 1 } do
      local x = ty.zeros(4000, { dtype = dtype }):random_():double()
      assert.truthy(x:min():item() >= 0 and x:max():item() <= most, dtype)
      assert.near(0.5, (x / most):mean():item(), 0.05, dtype)
    end
    assert.truthy(H.raises(function() ty.zeros(2):random_(6) end):find "both bounds are drawn, or none is given")
    assert.truthy(H.raises(function() ty.zeros(2):random_(2, 1) end):find "^random_: ")
    assert.truthy(H.raises(function() ty.zeros(2):cfloat():random_() end):find "^random_: argument 1 must not be complex")
  end)
end)

describe("short names", function()
  local x = ty.arange(24):reshape(2, 4, 3)

  it("of parts, sizes, dtypes, devices give what they stand for", function()
    for i, part in ipairs(x:hsplit(2)) do H.same(x:narrow(2, 2 * i - 1, 2), part) end
    for i, part in ipairs(x:vsplit(2)) do H.same(x:narrow(1, i, 1), part) end
    for i, part in ipairs(x:dsplit { 1 }) do H.same(x:narrow(3, i == 1 and 1 or 2, i == 1 and 1 or 2), part) end
    H.same(ty.arange(4):chunk(2)[2], ty.hsplit(ty.arange(4), 2)[2])
    assert.truthy(H.raises(x.hsplit, x, 3):find "^hsplit: 4 places %(dim 2%) do not divide into 3")
    assert.truthy(H.raises(ty.vsplit, ty.arange(3), 3):find "^vsplit: argument 1 must have at least 2 dims")
    assert.truthy(H.raises(ty.dsplit, ty.ones(2, 2), 2):find "^dsplit: argument 1 must have at least 3 dims")
    H.same(ty.arange(3):expand(2, 3), ty.arange(3):expand_as(ty.ones(2, 3)))
    H.same(x:reshape(6, 4), x:reshape_as(ty.ones(6, 4)))
    assert.same({ true, false, false }, { x:is_floating_point(), x:long():is_floating_point(), x:cfloat():is_floating_point() })
    assert.equal(x, x:cpu())
    if not ty.cuda.is_available() then assert.truthy(select(2, x:cuda()):find "cuda") end
  end)

  it("fill_diagonal_ writes where all positions are the same", function()
    assert.same({ { 9, 0, 0 }, { 0, 9, 0 } }, ty.zeros(2, 3):fill_diagonal_(9):totable())
    local y = ty.zeros(3, 3, 3):fill_diagonal_(1)
    assert.same({ 3, 1, 1, 1 }, { y:sum():item(), y:get(1, 1, 1), y:get(2, 2, 2), y:get(3, 3, 3) })
    assert.truthy(H.raises(function() ty.zeros(2, 3, 3):fill_diagonal_(1) end):find "all dims must have the same size")
    assert.truthy(H.raises(function() ty.zeros(3):fill_diagonal_(1) end):find "at least 2 dims")
    local f = ty.compile(function(a) return (a * 2):fill_diagonal_(0) end)
    H.same((ty.ones(3, 3) * 2):fill_diagonal_(0), f(ty.ones(3, 3)))
    local w = ty.ones(2, 2):requires_grad_();
    (w * 3):fill_diagonal_(5):sum():backward()
    assert.same({ { 0, 3 }, { 3, 0 } }, w.grad:totable())
  end)
end)

describe("options", function()
  it("are known under PyTorch's names, and raise by ours", function()
    local nn = ty.nn
    assert.equal(2, nn.LSTM(3, 4, { num_layers = 2 }).layers)
    assert.equal(6, nn.TransformerEncoderLayer(4, 2, { dim_feedforward = 6 }).linear1.outputs)
    assert.equal("LeakyReLU(0.5)", tostring(nn.LeakyReLU { negative_slope = 0.5 }))
    assert.equal("Softmax(1)", tostring(nn.Softmax { dim = 1 }))
    assert.is_nil(nn.LayerNorm(3, { elementwise_affine = false }).weight)
    local given = { batch_size = 2, drop_last = true, shuffle = false }
    local loader = ty.data.tensors(ty.range(5)):loader(given)
    assert.equal(2, loader:count())
    assert.same({ batch_size = 2, drop_last = true, shuffle = false }, given)
    assert.truthy(H.raises(nn.LSTM, 3, 4, { num_layers = "x" }):find "option layers must be a number")
    assert.truthy(H.raises(nn.LSTM, 3, 4, { num_layers = 2, layers = 2 }):find "unknown option num_layers")
    assert.truthy(H.raises(nn.Softmax, { dims = 1 }):find "unknown option dims, did you mean dim%?")
    local f = ty.compile(function(x) return ty.interpolate(x, { scale_factor = 2 }) end)
    assert.same({ 1, 1, 6 }, f(ty.ones(1, 1, 3)).shape)
  end)
end)

describe("dims in place", function()
  it("change the tensor itself, and leave its views and its memory", function()
    local x = ty.arange(6):reshape(1, 2, 3)
    local view = x[1]
    assert.equal(x, x:squeeze_(1))
    assert.same({ { 0, 1, 2 }, { 3, 4, 5 } }, x:totable())
    assert.same({ { 0, 3 }, { 1, 4 }, { 2, 5 } }, x:t_():totable())
    assert.same({ 3, 1, 2 }, x:unsqueeze_(2).shape)
    assert.same({ 2, 1, 3 }, x:transpose_(1, 3).shape)
    assert.same({ 1, 2, 3 }, x:swapaxes_(1, 2).shape)
    x:fill_(7)
    assert.same({ { 7, 7, 7 }, { 7, 7, 7 } }, view:totable())
    assert.truthy(H.raises(function() x:squeeze_(2) end):find "^squeeze_: dim 2 of f32%[1,2,3%] is not of size 1")
  end)

  it("have gradients, but for a leaf, and are batched", function()
    local w = ty.ones(2, 1):requires_grad_()
    assert.truthy(H.raises(w.squeeze_, w):find "^squeeze_: a leaf that requires a gradient keeps its dims")
    local y = w * 3
    y:squeeze_();
    (y * ty.tensor { 1, 2 }):sum():backward()
    assert.same({ { 3 }, { 6 } }, w.grad:totable())
    local x = ty.arange(6):reshape(2, 3)
    local z = ty.vmap(function(a)
      local b = a * 1
      return b:unsqueeze_(1):t_() * a
    end)(x)
    assert.same({ 2, 3, 3 }, z.shape)
    H.same(x:unsqueeze(3) * x:unsqueeze(2), z)
  end)

  it("end a capture: what it read before and after is right, whatever sizes come", function()
    local f = ty.compile(function(a) return a:unsqueeze_(1) + a:size(1) end)
    for _ = 1, 3 do
      for _, sizes in ipairs { { 2 }, { 1, 2 }, { 3, 2 } } do
        local x = ty.ones(sizes)
        local y = f(x)
        assert.same({ 1, unpack(sizes) }, y.shape)
        assert.same({ 1, unpack(sizes) }, x.shape)
        assert.equal(2, y:flatten():get(1))
      end
    end
    local outer = ty.ones(1, 3)
    local g = ty.compile(function(a) return a + outer end)
    assert.same({ 1, 3 }, g(ty.ones(3)).shape)
    outer:squeeze_()
    assert.same({ 3 }, g(ty.ones(3)).shape)
    outer:unsqueeze_(2)
    assert.same({ 3, 3 }, g(ty.ones(3)).shape)
  end)
end)

describe("names of many cases", function()
  it("triangles of every size and diagonal have the elements that lie there", function()
    for n = 0, 5 do
      for m = 0, 5 do
        for k = -6, 6 do
          local want = { { {}, {} }, { {}, {} } }
          for i = 1, n do
            for j = 1, m do
              for which, is in ipairs { j - i <= k, j - i >= k } do
                if is then table.insert(want[which][1], i) table.insert(want[which][2], j) end
              end
            end
          end
          assert.same(want, { ty.tril_indices(n, m, k):totable(), ty.triu_indices(n, m, k):totable() })
        end
      end
    end
  end)

  -- At most so many units in the last place: half of one is the rounding.
  local function near_f64(bound, f, x)
    local y, want = f(x), f(x:double())
    local size = want:abs():float()
    local unit = ((size:view_as "i32" + 1):view_as "f32":double() - size:double()):maximum(2 ^ -149)
    local off = ((y:double() - want):abs() / unit):masked_fill(size:isfinite():logical_not(), 0)
    assert.truthy(off:max():item() <= bound, off:max():item())
    H.same(y:isfinite(), size:isfinite())
  end

  it("special functions of f32 are those of f64, rounded, at all magnitudes", function()
    local bits = ty.arange(-2139095040, 2139095040, 104729):to "i32"
    local all = ty.cat({ bits:view_as "f32", -bits:view_as "f32", ty.tensor { 0, -0.0, 1 / 0, 2 ^ -149, -2 ^ -126 } }, 1)
    all = all:masked_fill(all:isnan(), 3)
    near_f64(0.51, ty.cbrt, all)
    near_f64(0.53, ty.erfc, ty.cat({ all, ty.linspace(-11, 11, 30000) }, 1))
    for n = 1, 5 do
      near_f64(0.51, function(x) return ty.polygamma(n, x) end, ty.cat({ all:abs(), ty.linspace(0.01, 30, 5000) }, 1))
    end
    near_f64(0.51, function(x) return ty.polygamma(1, x) end, ty.linspace(-6, 0, 5000))
  end)
end)

describe("arguments that do not fit raise, and name the function:", function()
  local x, i = ty.ones(2, 3), ty.ones({ 2 }, { dtype = "i64" })
  local calls = {
    { "diag", function() return ty.ones(1, 1, 1):diag() end, "1 or 2 dims" },
    { "rot90", function() return x:rot90(1, { 1, 1 }) end, "dims must differ" },
    { "kron", function() return x:kron(3) end, "must be a tensor" },
    { "combinations", function() return x:combinations() end, "must have 1 dim" },
    { "tensor_split", function() return x:tensor_split(0) end, "at least 1" },
    { "as_strided", function() return x:as_strided({ 4 }, { 2 }) end, "lie outside" },
    { "pixel_shuffle", function() return ty.ones(3, 2, 2):pixel_shuffle(2) end, "does not divide" },
    { "vstack", function() return ty.vstack {} end, "no tensors" },
    { "logspace", function() return ty.logspace(0, 1, -1) end, "logspace" },
    { "take_along_dim", function() return x:take_along_dim(ty.full({ 2, 1 }, 4, { dtype = "i64" }), 2) end, "out of range" },
    { "index_copy", function() return x:index_copy(1, i, x:t()) end, "source must have sizes" },
    { "index_fill", function() return x:long():index_fill(1, i, 0.5) end, "does not fit" },
    { "index_put", function() return x:index_put({ i, i, i }, 1) end, "3 index tensors" },
    { "masked_scatter", function() return x:masked_scatter(x:gt(0), ty.ones(5)) end, "out of range" },
    { "select", function() return x:select(1, 3) end, "out of range 1..2" },
    { "scatter_reduce", function() return x:scatter_reduce(1, ty.ones({ 1, 3 }, { dtype = "i64" }), x, "median") end, "argument 5" },
    { "bucketize", function() return x:bucketize(x) end, "boundaries must have one dim" },
    { "kthvalue", function() return x:kthvalue(4) end, "k must lie from 1 to 3" },
    { "mode", function() return ty.ones(2, 0):mode() end, "nothing to choose from" },
    { "bincount", function() return ty.zeros({ 2 }, { dtype = "i64" }):bincount() end, "count from 1" },
    { "quantile", function() return x:quantile(1.5) end, "must lie from 0 to 1" },
    { "percentile", function() return x:percentile(101) end, "must lie from 0 to 100" },
    { "cov", function() return ty.ones(1, 1, 1):cov() end, "at most 2 dims" },
    { "histc", function() return x:histc(0) end, "at least 1" },
    { "histogram", function() return x:histogram(3, { range = { 2, 1 } }) end, "in reverse" },
    { "trapezoid", function() return x:trapezoid(0.5) end, "{dx = ...}" },
    { "diff", function() return x:diff(-1) end, "must not be negative" },
    { "interp", function() return x:interp(i, ty.ones(3)) end, "as many values as points" },
    { "convolve", function() return ty.ones(2):convolve(ty.ones(2), "half") end, "argument 3" },
    { "polyfit", function() return ty.ones(2):polyfit(ty.ones(3), 1) end, "sizes do not fit" },
    { "addcmul", function() return x:addcmul(ty.ones(2), 1) end, "do not broadcast" },
    { "mm", function() return x:mm(x) end, "inner sizes differ" },
    { "mv", function() return x:mv(x) end, "must have 1 dim" },
    { "addmv", function() return ty.ones(5):addmv(x, ty.ones(3)) end, "addmv" },
    { "inner", function() return x:inner(ty.ones(2)) end, "last sizes differ" },
    { "cross", function() return x:cross(x, 1) end, "must have 3 places" },
    { "cdist", function() return x:cdist(ty.ones(2, 4)) end, "same length" },
    { "pinv", function() return la.pinv(ty.ones(3)) end, "needs a matrix" },
    { "pinv", function() return la.pinv(x, { tol = 1 }) end, "unknown option" },
    { "matrix_norm", function() return la.matrix_norm(x, 3) end, "must be" },
    { "norm", function() return la.norm(ty.ones(1, 1, 1), 2) end, "needs one or two dims" },
    { "matrix_power", function() return la.matrix_power(x, 2) end, "needs square matrices" },
    { "matrix_exp", function() return la.matrix_exp(x) end, "needs square matrices" },
    { "multi_dot", function() return la.multi_dot { x, x } end, "inner sizes differ" },
    { "solve_triangular", function() return la.solve_triangular(x, x) end, "upper must be" },
    { "tensorinv", function() return la.tensorinv(x, 1) end, "do not make a square" },
    { "tensorsolve", function() return la.tensorsolve(x, ty.ones(3)) end, "do not fit" },
    { "polygamma", function() return ty.polygamma(-1, x) end, "must not be negative" },
    { "logit", function() return x:logit "a" end, "must be a number" },
  }
  for _, c in ipairs(calls) do
    it(c[1], function()
      local why = H.raises(c[2])
      assert.truthy(why:find("^" .. c[1] .. ": ") and why:find(c[3], 1, true), why)
    end)
  end
end)
