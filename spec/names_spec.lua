--- names_spec.lua -- functions that others know by these names, against PyTorch, NumPy and SciPy (fixtures/names.lua, made
-- by fixtures/make_names.py): values, gradients, f32; compiled to the bit, and captured whole; by vmap as by a loop.

local H = require "spec.helper"
local ty = H.ty
local fixtures = require "spec.fixtures.names"

--- Cases: {name, function of the fixture's inputs, ...}.
--   near      how near the values must be, relative to 1 + |value|: 1e-13
--   single    the same for f32: 1e-5; false: not compared
--   slope     how near gradients must be: 1e-11; PyTorch's own trigamma is no nearer
--   reads     it reads values: it is captured in parts, and no vmap computes it for all examples at once
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
}

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

    if fixture and #fixture.inputs > 0 and not c.reads and c.vmap ~= false then
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

describe("other names of functions", function()
  local a, b = ty.tensor { { 0.25, -0.5 }, { 0.75, 0.125 } }, ty.tensor { { 1.5, 2 }, { 0.5, -3 } }
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
    local compared = { tolist = true }
    for _, c in ipairs(both) do compared[c[1]] = true end
    for _, row in ipairs(ty.internals.composites) do
      if row.alias then assert.truthy(compared[row.name], row.name) end
    end
    assert.same(a:totable(), a:tolist())
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
