--- maths.lua -- composites element by element, masks, and the shapes that come from positions.

---@param ty table the core module
---@param check table check.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, is_tensor = check.fail, ty.is_tensor
  local where, maximum, minimum, sqrt, abs = ty.where, ty.maximum, ty.minimum, ty.sqrt, ty.abs
  local log1p, exp, eq, ne = ty.log1p, ty.exp, ty.eq, ty.ne
  local bitwise_and, bitwise_or, bitwise_xor = ty.bitwise_and, ty.bitwise_or, ty.bitwise_xor
  local bitwise_not, is_complex = ty.bitwise_not, ty.is_complex
  local INF = math.huge

  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true, c64 = true, c128 = true } -- and pairs of them
  local halves = { f16 = true, bf16 = true }
  local unsigned = { bool = true, u8 = true, u16 = true, u32 = true, u64 = true }

  --- x in f32 and its dtype when that is a half float; else x alone.
  local function wide(x)
    if not is_tensor(x) then return x end
    local dtype = x.dtype
    if halves[dtype] then return x:to("f32"), dtype end
    return x
  end

  --- y in the dtype that `wide` gave, if any.
  local function back(y, dtype) return dtype and y:to(dtype) or y end

  --- The half float that operands meet in, if they do: what a result computed in f32 goes back to.
  local function half_of(...)
    local half
    for i = 1, select("#", ...) do
      local v = select(i, ...)
      local dtype = is_tensor(v) and v.dtype
      if dtype and floats[dtype] then
        if not halves[dtype] or half and half ~= dtype then return nil end
        half = dtype
      end
    end
    return half
  end

  ---------------------------------------------------------------------------------------------------------- unary

  --- x * x, element by element.
  --- Raises where an argument is neither a tensor nor a number.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape and dtype of x; bool gives i64
  local function square(x)
    check.tensor("square", 1, x)
    return x * x
  end

  --- 1 / x, element by element; inf at zero.
  --- Raises where an argument is neither a tensor nor a number.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  local function reciprocal(x)
    check.tensor("reciprocal", 1, x)
    return 1 / x
  end

  --- 1 / sqrt(x), element by element; inf at zero, NaN below.
  --- Raises where an argument is neither a tensor nor a number.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  local function rsqrt(x)
    local w, half = wide(check.tensor("rsqrt", 1, x))
    return back(1 / sqrt(w), half)
  end

  --- -1, 0 or 1 as x is below, equal to or above zero; NaN stays, and so does the sign of zero. Of complex numbers
  --- x / |x|, and 0 at 0.
  --- Raises where an argument is neither a tensor nor a number.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape and dtype of x; bool gives i64
  local function sign(x)
    check.tensor("sign", 1, x)
    if is_complex(x) then
      local size = abs(x)
      local none = eq(size, 0)
      return where(none, 0, x) / where(none, 1, size)
    end
    return where(x:gt(0), 1, unsigned[x.dtype] and x or where(x:lt(0), -1, x))
  end

  --- Whether x is not a number.
  --- Raises where an argument is neither a tensor nor a number.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # bool, shape of x
  local function isnan(x)
    check.tensor("isnan", 1, x)
    return ne(x, x)
  end

  --- Whether x is infinite, of either sign.
  --- Raises where an argument is neither a tensor nor a number.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # bool, shape of x
  local function isinf(x)
    check.tensor("isinf", 1, x)
    if is_complex(x) then return bitwise_or(isinf(x:real()), isinf(x:imag())) end
    if not floats[x.dtype] then return ne(x, x) end
    return eq(abs(x), INF)
  end

  --- Whether x is neither infinite nor NaN.
  --- Raises where an argument is neither a tensor nor a number.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # bool, shape of x
  local function isfinite(x)
    check.tensor("isfinite", 1, x)
    if is_complex(x) then return bitwise_and(isfinite(x:real()), isfinite(x:imag())) end
    if not floats[x.dtype] then return eq(x, x) end
    return abs(x):lt(INF)
  end

  row { "square", "x", square, "x * x, element by element", shape = "x", inplace = true, single = true }
  row { "reciprocal", "x", reciprocal, "1 / x, element by element", shape = "x", dtype = "float", inplace = true,
    single = true }
  row { "rsqrt", "x", rsqrt, "1 / sqrt(x), element by element", shape = "x", dtype = "float", inplace = true }
  row { "sign", "x", sign, "-1, 0 or 1 as x is below, at or above zero; NaN stays", shape = "x", inplace = true }
  row { "isnan", "x", isnan, "bool: not a number", shape = "x", dtype = "bool", single = true }
  row { "isinf", "x", isinf, "bool: infinite, of either sign", shape = "x", dtype = "bool" }
  row { "isfinite", "x", isfinite, "bool: neither infinite nor NaN", shape = "x", dtype = "bool" }

  ---------------------------------------------------------------------------------------------------------- logic

  --- Whether it is not zero: NaN is true.
  local function truth(x)
    if not is_tensor(x) then return type(x) == "boolean" and x or type(x) == "number" and x ~= 0 end
    if x.dtype == "bool" then return x end
    return ne(x, 0)
  end

  --- Whether both are true; what is not zero is.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number|boolean
  ---@param b tycho.Tensor|number|boolean broadcasts with a
  ---@return tycho.Tensor # bool, the broadcast shape
  local function logical_and(a, b)
    check.pair("logical_and", a, b)
    return bitwise_and(truth(a), truth(b))
  end

  --- Whether either is true; what is not zero is.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number|boolean
  ---@param b tycho.Tensor|number|boolean broadcasts with a
  ---@return tycho.Tensor # bool, the broadcast shape
  local function logical_or(a, b)
    check.pair("logical_or", a, b)
    return bitwise_or(truth(a), truth(b))
  end

  --- Whether one alone is true; what is not zero is.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number|boolean
  ---@param b tycho.Tensor|number|boolean broadcasts with a
  ---@return tycho.Tensor # bool, the broadcast shape
  local function logical_xor(a, b)
    check.pair("logical_xor", a, b)
    return bitwise_xor(truth(a), truth(b))
  end

  --- Whether it is false, that is zero.
  --- Raises where an argument is neither a tensor nor a number.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # bool, shape of x
  local function logical_not(x)
    check.tensor("logical_not", 1, x)
    return bitwise_not(truth(x))
  end

  row { "logical_and", "a, b", logical_and, "bool: both are true; what is not zero is", shape = "broadcast of a and b",
    dtype = "bool", inplace = true }
  row { "logical_or", "a, b", logical_or, "bool: either is true; what is not zero is", shape = "broadcast of a and b",
    dtype = "bool", inplace = true }
  row { "logical_xor", "a, b", logical_xor, "bool: one alone is true; what is not zero is",
    shape = "broadcast of a and b", dtype = "bool", inplace = true }
  row { "logical_not", "x", logical_not, "bool: false, that is zero", shape = "x", dtype = "bool", inplace = true,
    single = true }

  --- isclose under the name of who asked.
  local function close_to(who, a, b, opts)
    check.numbers(who, a, b)
    opts = check.options(who, opts, { rtol = "number", atol = "number", equal_nan = "boolean" })
    local function widened(v) -- differences of integers wrap: they are taken in f64
      if is_tensor(v) and not floats[v.dtype] and not is_complex(v) then return v:to("f64") end
      return (wide(v))
    end
    local p, q = widened(a), widened(b)
    local bound = is_tensor(q) and abs(q) or math.abs(q)
    local near = ty.le(abs(p - q), bound * (opts.rtol or 1e-5) + (opts.atol or 1e-8))
    local close
    if is_tensor(q) then close = bitwise_and(near, bound:lt(INF)) -- inf <= inf would make all close to inf
    else close = bitwise_and(near, bound < INF) end
    close = bitwise_or(close, eq(p, q))
    if not opts.equal_nan or not (is_tensor(p) and is_tensor(q)) then return close end
    return bitwise_or(close, bitwise_and(ne(p, p), ne(q, q)))
  end

  --- Whether |a - b| <= atol + rtol * |b|, or a equals b; infinities are close to themselves alone.
  --- Options: rtol = 1e-5, atol = 1e-8, equal_nan = false.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@param opts? {rtol: number?, atol: number?, equal_nan: boolean?}
  ---@return tycho.Tensor # bool, the broadcast shape
  local function isclose(a, b, opts) return close_to("isclose", a, b, opts) end

  --- Whether all elements are close, see isclose. Computes: gives a Lua boolean.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@param opts? {rtol: number?, atol: number?, equal_nan: boolean?}
  ---@return boolean
  local function allclose(a, b, opts)
    return check.named("allclose", "isclose", ty.isclose, a, b, opts):all():item()
  end

  --- Whether shapes and all elements are equal; NaN equals nothing. Computes: gives a Lua boolean.
  --- Raises where an argument is not a tensor.
  ---@param a tycho.Tensor
  ---@param b tycho.Tensor
  ---@return boolean
  local function equal(a, b)
    check.tensor("equal", 1, a)
    check.tensor("equal", 2, b)
    local p, q = a.shape, b.shape
    if #p ~= #q then return false end
    for i = 1, #p do
      if p[i] ~= q[i] then return false end
    end
    return eq(a, b):all():item()
  end

  row { "isclose", "a, b, {rtol = 1e-5, atol = 1e-8, equal_nan = false}", isclose,
    "bool: |a - b| <= atol + rtol * |b|, or equal", shape = "broadcast of a and b", dtype = "bool",
    formula = "as NumPy's isclose" }
  row { "allclose", "a, b, {rtol = 1e-5, atol = 1e-8, equal_nan = false}", allclose,
    "a Lua boolean: all elements are close, see isclose", shape = "a Lua boolean", single = true }
  row { "equal", "a, b", equal, "a Lua boolean: shapes and all elements are equal", shape = "a Lua boolean",
    single = true }

  ---------------------------------------------------------------------------------------------------------- ranges

  --- A bound that may not fit an integer dtype raises under clamp's name.
  local function bound(x, name, fn, v)
    if floats[x.dtype] or is_tensor(v) then return fn(x, v) end
    return check.named("clamp", name, fn, x, v)
  end

  --- x, not below `min` and not above `max`; where these cross, `max` holds. Either may be nil. NaN stays.
  --- Raises where neither bound is given, or the sizes do not broadcast.
  ---@param x tycho.Tensor any shape
  ---@param min? tycho.Tensor|number
  ---@param max? tycho.Tensor|number
  ---@return tycho.Tensor # the broadcast shape, the promoted dtype
  local function clamp(x, min, max)
    check.real("clamp", 1, x)
    if min == nil and max == nil then fail("clamp", "needs min, max or both") end
    if min ~= nil then check.operand("clamp", 2, min) end
    if max ~= nil then check.operand("clamp", 3, max) end
    if is_tensor(min) or is_tensor(max) then check.together("clamp", x, min, max) end
    local y = x
    if min ~= nil then y = bound(y, "maximum", maximum, min) end
    if max ~= nil then y = bound(y, "minimum", minimum, max) end
    return y
  end

  --- a + weight * (b - a): a at weight 0, b at weight 1.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor
  ---@param b tycho.Tensor|number
  ---@param weight tycho.Tensor|number
  ---@return tycho.Tensor # the broadcast shape
  local function lerp(a, b, weight)
    check.tensor("lerp", 1, a)
    check.operand("lerp", 2, b)
    check.operand("lerp", 3, weight)
    check.together("lerp", a, b, weight)
    local half = half_of(a, b, weight)
    a, b, weight = wide(a), wide(b), wide(weight)
    return back(check.under("lerp", function() return a + (b - a) * weight end), half)
  end

  local largest = {
    f16 = 65504, bf16 = (2 - 2 ^ -7) * 2 ^ 127, f32 = (2 - 2 ^ -23) * 2 ^ 127, f64 = (2 - 2 ^ -52) * 2 ^ 1023,
  }

  --- Numbers in place of NaN and infinities.
  --- Raises where x is not a tensor or a number given is none.
  ---@param x tycho.Tensor any shape
  ---@param nan? number for NaN, 0
  ---@param posinf? number for inf, the dtype's largest
  ---@param neginf? number for -inf, the dtype's lowest
  ---@return tycho.Tensor # shape and dtype of x
  local function nan_to_num(x, nan, posinf, neginf)
    check.tensor("nan_to_num", 1, x)
    if is_complex(x) then return ty.view_as_complex(ty.nan_to_num(ty.view_as_real(x), nan, posinf, neginf)) end
    local most = largest[x.dtype]
    nan = check.number("nan_to_num", 2, nan, "nan", 0)
    posinf = check.number("nan_to_num", 3, posinf, "posinf", most or 0)
    neginf = check.number("nan_to_num", 4, neginf, "neginf", -(most or 0))
    if not most then return x end
    return where(ne(x, x), nan, where(eq(x, INF), posinf, where(eq(x, -INF), neginf, x)))
  end

  --- sqrt(a^2 + b^2) without overflow on the way.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@return tycho.Tensor # the broadcast shape, floats
  local function hypot(a, b)
    check.numbers("hypot", a, b)
    for i, v in pairs { a, b } do
      if is_complex(v) then check.float("hypot", i, v) end
    end
    local half = half_of(a, b)
    a, b = check.floats((wide(a)), (wide(b)))
    local function magnitude(v) return is_tensor(v) and abs(v) or math.abs(v) end
    local function infinite(v) return is_tensor(v) and eq(v, INF) or v == INF end
    local p, q = magnitude(a), magnitude(b)
    local none = bitwise_or(infinite(p), infinite(q))
    local swap = ty.lt(p, q)
    p, q = where(swap, b, a), where(swap, a, b) -- with their signs: smooth where q is 0
    local ratio = q / where(eq(p, 0), 1, p)
    return back(where(none, INF, abs(p) * sqrt(ratio * ratio + 1)), half)
  end

  --- log(exp(a) + exp(b)) without overflow.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@return tycho.Tensor # the broadcast shape, floats
  local function logaddexp(a, b)
    check.numbers("logaddexp", a, b)
    local half = half_of(a, b)
    a, b = check.floats((wide(a)), (wide(b)))
    local swap = ty.lt(a, b)
    local larger, other = where(swap, b, a), where(swap, a, b)
    local none = bitwise_and(eq(a, b), eq(abs(larger), INF)) -- equal infinities have no difference
    return back(larger + log1p(exp(where(none, 0, other - larger))), half)
  end

  row { "clamp", "x, min, max", clamp, "x, not below min and not above max; either may be nil",
    shape = "broadcast of the arguments", inplace = true }
  row { "lerp", "a, b, weight", lerp, "a + weight * (b - a)", shape = "broadcast of the arguments", inplace = true }
  row { "nan_to_num", "x, nan = 0, posinf, neginf", nan_to_num,
    "numbers in place of NaN and infinities; the dtype's largest by default", shape = "x", inplace = true }
  row { "hypot", "a, b", hypot, "sqrt(a^2 + b^2) without overflow on the way", shape = "broadcast of a and b",
    dtype = "float", formula = "m * sqrt(1 + (n / m)^2), m the larger, n the smaller magnitude", inplace = true }
  row { "logaddexp", "a, b", logaddexp, "log(exp(a) + exp(b)) without overflow", shape = "broadcast of a and b",
    dtype = "float", formula = "max(a, b) + log1p(exp(-|a - b|))", inplace = true }

  ---------------------------------------------------------------------------------------------------------- masks

  --- x with `value` where the mask holds.
  --- Raises where the mask is not bool or does not broadcast to x, or the value does not fit the dtype.
  ---@param x tycho.Tensor
  ---@param mask tycho.Tensor bool, broadcasts with x
  ---@param value tycho.Tensor|number|boolean a number or 0-d tensor, cast to x's dtype
  ---@return tycho.Tensor # the broadcast shape, dtype of x
  local function masked_fill(x, mask, value)
    check.tensor("masked_fill", 1, x)
    check.tensor("masked_fill", 2, mask)
    check.fits("masked_fill", 2, x, mask)
    check.operand("masked_fill", 3, value)
    local dtype = x.dtype
    if mask.dtype ~= "bool" then fail("masked_fill", "the mask must be bool, got %s", check.text(mask)) end
    if is_tensor(value) then
      if value.ndim ~= 0 then fail("masked_fill", "the value must be a number or 0-d, got %s", check.text(value)) end
      if floats[value.dtype] and not floats[dtype] then
        fail("masked_fill", "%s values do not go into %s", value.dtype, check.text(x))
      end
      value = value:to(dtype)
    elseif type(value) == "number" and not floats[dtype] and value % 1 ~= 0 then
      fail("masked_fill", "%.14g does not fit %s", value, check.text(x))
    end
    local y = where(mask, value, x)
    return y.dtype == dtype and y or y:to(dtype)
  end

  --- 1 at the class's place of a new last dim, else 0.
  --- Raises where the index is not of integers, or one lies outside of 1 to the number of classes.
  ---@param index tycho.Tensor integers, classes from 1
  ---@param classes? integer how many; by default the largest class, which computes the index
  ---@return tycho.Tensor # i64, shape of the index and `classes` behind
  local function one_hot(index, classes)
    local who = "one_hot"
    check.tensor(who, 1, index)
    if floats[index.dtype] or index.dtype == "bool" then
      fail(who, "the classes must be integers, got %s (use :to(\"i64\"))", check.text(index))
    end
    if classes == nil then
      classes = index:numel() > 0 and index:max():item() or 0
    end
    check.whole(who, 2, classes, "classes")
    if classes < 0 then fail(who, "argument 2 (classes) must not be negative, got %g", classes) end
    local sizes = index.shape
    sizes[#sizes + 1] = classes
    local zeros = check.named(who, "zeros", ty.zeros, sizes, { dtype = "i64", device = index.device })
    return check.named(who, "scatter", ty.scatter, zeros, -1, index:unsqueeze(-1), 1)
  end

  row { "masked_fill", "x, mask, value", masked_fill, "x with value where the bool mask holds",
    shape = "broadcast of x and mask", inplace = true }
  row { "one_hot", "index, classes", one_hot, "1 at the class's place of a new last dim, else 0",
    shape = "index, then classes", dtype = "i64" }

  ---------------------------------------------------------------------------------------------------------- positions

  --- bool [n, m] on the device: column - row <= k.
  local function lower(n, m, k, device)
    local options = { dtype = "i64", device = device }
    local rows, columns = ty.range(n, options):unsqueeze(2), ty.range(m, options)
    return columns:le(rows + k)
  end

  --- Ones on and below the k-th diagonal, zeros above.
  --- Raises where a size is negative.
  ---@param n integer rows
  ---@param m? integer columns, n
  ---@param k? integer the diagonal, 0; above zero: higher
  ---@param opts? {dtype: string?, device: string?}
  ---@return tycho.Tensor # [n, m], f32
  local function tri(n, m, k, opts)
    n = check.whole("tri", 1, n, "rows")
    m = check.whole("tri", 2, m, "columns", n)
    k = check.whole("tri", 3, k, "diagonal", 0)
    opts = check.options("tri", opts, { dtype = "string", device = "string" })
    if n < 0 or m < 0 then fail("tri", "sizes must not be negative, got %g and %g", n, m) end
    return lower(n, m, k, opts.device):to(opts.dtype or "f32")
  end

  local function triangle(who, x, k, keep_lower)
    check.tensor(who, 1, x)
    k = check.whole(who, 2, k, "diagonal", 0)
    if x.ndim < 2 then fail(who, "needs at least 2 dims, got %s", check.text(x)) end
    local zero
    if x.dtype == "bool" then zero = false else zero = 0 end
    if keep_lower then return where(lower(x:size(-2), x:size(-1), k, x.device), x, zero) end
    return where(lower(x:size(-2), x:size(-1), k - 1, x.device), zero, x)
  end

  --- The matrices in the last two dims, with zeros above the k-th diagonal.
  --- Raises where x has fewer than two dims.
  ---@param x tycho.Tensor [.., n, m]
  ---@param k? integer 0; above zero: higher
  ---@return tycho.Tensor # shape and dtype of x
  local function tril(x, k) return triangle("tril", x, k, true) end

  --- The matrices in the last two dims, with zeros below the k-th diagonal.
  --- Raises where x has fewer than two dims.
  ---@param x tycho.Tensor [.., n, m]
  ---@param k? integer 0; above zero: higher
  ---@return tycho.Tensor # shape and dtype of x
  local function triu(x, k) return triangle("triu", x, k, false) end

  --- Coordinates of a grid: one tensor for each axis, all of the grid's shape, as views.
  --- Options: indexing = "ij", the first axis is the first dim; "xy": it is the second one.
  --- Raises where an axis has not one dim, or there are none or more than 8.
  ---@param ... tycho.Tensor|tycho.Tensor[]|{indexing: "ij"|"xy"|nil} one dim each; or one table of them; then options
  ---@return tycho.Tensor[] # one tensor an axis, of the sizes of all axes
  local function meshgrid(...)
    local axes, opts = { ... }, nil
    if #axes > 0 and check.is_options(axes[#axes]) then opts = table.remove(axes) end
    if #axes == 1 and type(axes[1]) == "table" then axes = axes[1] end
    opts = check.options("meshgrid", opts, { indexing = "string" })
    local indexing = opts.indexing or "ij"
    if indexing ~= "ij" and indexing ~= "xy" then
      fail("meshgrid", "option indexing must be \"ij\" or \"xy\", got %s", check.show(indexing))
    end
    local sizes, place = {}, {}
    for i = 1, #axes do
      check.tensor("meshgrid", i, axes[i])
      if axes[i].ndim ~= 1 then fail("meshgrid", "argument %d must have one dim, got %s", i, check.text(axes[i])) end
      place[i] = indexing == "xy" and #axes > 1 and i <= 2 and 3 - i or i
      sizes[place[i]] = axes[i]:numel()
    end
    if #axes == 0 then fail("meshgrid", "no axes given") end
    if #axes > 8 then fail("meshgrid", "%d axes are more than 8", #axes) end
    local grid = {}
    for i = 1, #axes do
      local along = {}
      for d = 1, #sizes do along[d] = d == place[i] and sizes[d] or 1 end
      grid[i] = axes[i]:reshape(along):expand(sizes)
    end
    return grid
  end

  row { "tri", "n, m = n, k = 0, {dtype, device}", tri, "ones on and below the k-th diagonal", shape = "[n, m]",
    dtype = "f32",
    only = "module" }
  row { "tril", "x, k = 0", tril, "zeros above the k-th diagonal of the last two dims", shape = "x", inplace = true }
  row { "triu", "x, k = 0", triu, "zeros below the k-th diagonal of the last two dims", shape = "x", inplace = true }
  row { "meshgrid", "axes..., {indexing = \"ij\"}", meshgrid, "a table of a grid's coordinates, one tensor an axis",
    shape = "the sizes of the axes", only = "module", single = true }
end
