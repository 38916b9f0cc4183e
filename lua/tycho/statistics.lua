--- statistics.lua -- composites over dims: quantiles, reductions that pass over NaN, covariances, histograms,
-- differences, integrals, interpolation.
-- Dims are a number or a list, 1-based, negative from the end; nil is all. keepdim leaves reduced dims with size 1.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, is_tensor, is_complex = check.fail, ty.is_tensor, ty.is_complex
  local where, eq, ne, lt = ty.where, ty.eq, ty.ne, ty.lt
  local bitwise_and = ty.bitwise_and
  local INF = math.huge
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

  --- x as floats. complex: numbers of these are given as they are.
  local function float(who, i, x, complex)
    if complex and is_complex(check.tensor(who, i, x)) then return x end
    check.real(who, i, x)
    return floats[x.dtype] and x or x:to(ty.default_dtype())
  end

  local function vector(who, i, x)
    check.tensor(who, i, x)
    if x.ndim ~= 1 then fail(who, "argument %d must have one dim, got %s", i, check.text(x)) end
    return x
  end

  local reduced = "x without the dims"

  -------------------------------------------------------------------------------------------------------- without NaN

  --- (x, dims, keepdim) checked: x of floats, whether each element is NaN, dims, keepdim.
  local function with_nan(who, x, dims, keepdim, complex)
    x = float(who, 1, x, complex)
    dims = check.dims(who, dims, x.ndim)
    return x, ne(x, x), dims, check.boolean(who, 3, keepdim, "keepdim", false)
  end

  --- The sum of all that is no NaN.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; integers and bool give i64; 0 of nothing
  local function nansum(x, dims, keepdim)
    check.tensor("nansum", 1, x)
    if is_complex(x) then return where(ne(x, x), 0, x):sum(dims, keepdim) end
    if not floats[x.dtype] then return check.named("nansum", "sum", ty.sum, x, dims, keepdim) end
    local v, nan, list, keep = with_nan("nansum", x, dims, keepdim)
    return where(nan, 0, v):sum(list, keep)
  end

  --- The mean of all that is no NaN; NaN of nothing.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; floats
  local function nanmean(x, dims, keepdim)
    local v, nan, list, keep = with_nan("nanmean", x, dims, keepdim, true)
    local dtype = v.dtype
    if dtype == "f16" or dtype == "bf16" then v = v:to("f32") end
    local y = where(nan, 0, v):sum(list, keep) / ty.logical_not(nan):sum(list, keep):to(v.dtype)
    return y.dtype == dtype and y or y:to(dtype)
  end

  local function nan_extreme(who, x, dims, keepdim, of, beyond)
    local v, nan, list, keep = with_nan(who, x, dims, keepdim)
    local y = check.named(who, of, ty[of], where(nan, beyond, v), list, keep)
    return where(nan:all(list, keep), 0 / 0, y)
  end

  --- The largest of all that is no NaN; NaN where all is.
  --- Raises where a dim is out of range, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; floats
  local function nanmax(x, dims, keepdim) return nan_extreme("nanmax", x, dims, keepdim, "max", -INF) end

  --- The smallest of all that is no NaN; NaN where all is.
  --- Raises where a dim is out of range, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; floats
  local function nanmin(x, dims, keepdim) return nan_extreme("nanmin", x, dims, keepdim, "min", INF) end

  row { "nansum", "x, dims = nil, keepdim = false", nansum, "the sum of all that is no NaN", shape = reduced }
  row { "nanmean", "x, dims = nil, keepdim = false", nanmean, "the mean of all that is no NaN", shape = reduced,
    dtype = "float" }
  row { "nanmax", "x, dims = nil, keepdim = false", nanmax, "the largest of all that is no NaN", shape = reduced,
    dtype = "float" }
  row { "nanmin", "x, dims = nil, keepdim = false", nanmin, "the smallest of all that is no NaN", shape = reduced,
    dtype = "float" }

  --------------------------------------------------------------------------------------------------------- quantiles

  local ways = { linear = true, lower = true, higher = true, nearest = true, midpoint = true }

  --- Positions of q among n (a tensor where each row has its own count), from 0: below and above, and the weight of the
  --- latter.
  local function between(q, n, way)
    local place = q * (n - 1)
    if way == "nearest" then place = place:round() end
    local low, high = place:floor(), place:ceil()
    if way == "lower" then return low, low, 0 end
    if way == "higher" then return high, high, 0 end
    return low, high, way == "midpoint" and 0.5 or place - low
  end

  --- quantile and its kin. skip: NaN is passed over; else a row that holds one gives NaN. scale: 1, 100 for per cent.
  local function quantile_of(who, x, q, dim, keepdim, opts, scale, skip)
    x = float(who, 1, x)
    if type(q) ~= "number" then check.tensor(who, 2, q) end
    if check.is_options(dim) then dim, opts = nil, dim elseif check.is_options(keepdim) then
      keepdim, opts = nil, keepdim
    end
    opts = check.options(who, opts, { interpolation = "string" })
    local way = opts.interpolation or "linear"
    if not ways[way] then
      fail(who, "option interpolation must be linear, lower, higher, nearest or midpoint, got %s", check.show(way))
    end
    keepdim = check.boolean(who, 4, keepdim, "keepdim", false)
    if type(q) == "number" then
      if not (q >= 0 and q <= scale) then fail(who, "argument 2 (q) must lie from 0 to %d, got %g", scale, q) end
      q = ty.full({}, q / scale, { dtype = "f64", device = x.device })
    else
      if q.ndim > 1 then fail(who, "argument 2 (q) must be a number or a vector, got %s", check.text(q)) end
      q = q:to("f64") / scale
    end
    local rank = x.ndim
    local d = dim == nil and 1 or check.dim(who, dim, rank)
    local v = dim == nil and x:reshape(-1) or x
    if v:size(d) == 0 then fail(who, "nothing to choose from in %s", check.text(x)) end
    local rows = v:movedim(d, -1) -- [..., n]
    local sorted = rows:sort(-1) -- NaN stands last
    local dtype, many = x.dtype, q.ndim == 1
    if dtype == "f16" or dtype == "bf16" then sorted = sorted:to("f32") end
    local lead = sorted.shape
    lead[#lead] = many and q:numel() or 1
    local n = v:size(d)
    if skip then n = ty.eq(sorted, sorted):sum(-1, true):to("f64") end -- [..., 1]
    local low, high, weight = between(many and q or q:reshape(1), n, way)
    local function at(place)
      return check.named(who, "gather", ty.gather, sorted, -1, (place:maximum(0):to("i64") + 1):expand(lead))
    end
    local y = at(low)
    if is_tensor(weight) or weight ~= 0 then
      local above = at(high)
      weight = is_tensor(weight) and weight:to(sorted.dtype) or weight
      y = where(eq(y, above), y, y + (above - y) * weight) -- of two infinities, too
    end
    local last = sorted:narrow(-1, sorted:size(-1), 1)
    if not skip then y = where(ne(last, last), 0 / 0, y) end
    if dtype ~= y.dtype then y = y:to(dtype) end
    if keepdim then
      if dim == nil then
        local ones = { many and q:numel() or 1 }
        for k = 1, rank do ones[k + 1] = 1 end
        y = y:reshape(ones)
      else
        y = y:movedim(-1, 1):unsqueeze(d + 1)
      end
      return many and y or y:squeeze(1)
    end
    return many and y:movedim(-1, 1) or y:squeeze(-1)
  end

  --- What of the elements in order lies at the part q of the way from the first to the last; NaN where one is.
  --- Raises where q lies outside of 0 to 1, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param q number|tycho.Tensor 0 to 1, or a vector of such
  ---@param dim? integer all
  ---@param keepdim? boolean false
  ---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} "linear": between two elements
  ---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
  local function quantile(x, q, dim, keepdim, opts)
    return quantile_of("quantile", x, q, dim, keepdim, opts, 1, false)
  end

  --- As quantile, of all that is no NaN.
  --- Raises where q lies outside of 0 to 1, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param q number|tycho.Tensor 0 to 1, or a vector of such
  ---@param dim? integer all
  ---@param keepdim? boolean false
  ---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} "linear"
  ---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
  local function nanquantile(x, q, dim, keepdim, opts)
    return quantile_of("nanquantile", x, q, dim, keepdim, opts, 1, true)
  end

  --- As quantile, with q in per cent, as NumPy's.
  --- Raises where q lies outside of 0 to 100, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param q number|tycho.Tensor 0 to 100, or a vector of such
  ---@param dim? integer all
  ---@param keepdim? boolean false
  ---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} "linear"
  ---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
  local function percentile(x, q, dim, keepdim, opts)
    return quantile_of("percentile", x, q, dim, keepdim, opts, 100, false)
  end

  --- The middle of all that is no NaN; of an even count the lower one.
  --- Raises where the dim is out of range, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param dim? integer all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dim; floats
  local function nanmedian(x, dim, keepdim)
    return quantile_of("nanmedian", x, 0.5, dim, keepdim, { interpolation = "lower" }, 1, true)
  end

  local quantile_args = "x, q, dim = nil, keepdim = false, {interpolation = \"linear\"}"
  row { "quantile", quantile_args, quantile, "the element at a part of the way from the least to the largest",
    shape = "x without the dim", dtype = "float" }
  row { "nanquantile", quantile_args, nanquantile, "the quantile of all that is no NaN", shape = "x without the dim",
    dtype = "float" }
  row { "percentile", quantile_args, percentile, "the quantile at so many per cent", shape = "x without the dim",
    dtype = "float" }
  row { "nanmedian", "x, dim = nil, keepdim = false", nanmedian, "the middle of all that is no NaN",
    shape = "x without the dim", dtype = "float" }

  --------------------------------------------------------------------------------------------- two results, covariances

  --- The smallest and the largest element.
  --- Raises where the dim is out of range, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor least, tycho.Tensor largest # x without the dims; the dtype of x
  local function aminmax(x, dims, keepdim)
    check.tensor("aminmax", 1, x)
    return check.named("aminmax", "min", ty.min, x, dims, keepdim), x:max(dims, keepdim)
  end

  --- The largest element less the smallest.
  --- Raises where the dim is out of range, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims
  local function ptp(x, dims, keepdim)
    check.tensor("ptp", 1, x)
    return check.named("ptp", "max", ty.max, x, dims, keepdim) - x:min(dims, keepdim)
  end

  --- The mean over what a variance is given, which may be an options table.
  local function mean_beside(x, dims, keepdim, opts)
    local o = opts or check.is_options(keepdim) and keepdim or check.is_options(dims) and dims or {}
    if dims == o or dims == nil then dims = o.dims end
    if keepdim == o or keepdim == nil then keepdim = o.keepdim end
    return x:mean(dims, keepdim)
  end

  --- The variance and the mean.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@param opts? {correction: number?} 1
  ---@return tycho.Tensor variance, tycho.Tensor mean # x without the dims; floats
  local function var_mean(x, dims, keepdim, opts)
    check.tensor("var_mean", 1, x)
    return check.named("var_mean", "var", ty.var, x, dims, keepdim, opts), mean_beside(x, dims, keepdim, opts)
  end

  --- The standard deviation and the mean.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@param opts? {correction: number?} 1
  ---@return tycho.Tensor deviation, tycho.Tensor mean # x without the dims; floats
  local function std_mean(x, dims, keepdim, opts)
    check.tensor("std_mean", 1, x)
    return check.named("std_mean", "std", ty.std, x, dims, keepdim, opts), mean_beside(x, dims, keepdim, opts)
  end

  --- The mean with a weight for each element, as NumPy's.
  --- Raises where the weights have other sizes than x, or than its dim.
  ---@param x tycho.Tensor
  ---@param dim? integer all
  ---@param weights? tycho.Tensor sizes of x, or a vector along dim
  ---@return tycho.Tensor # x without the dim; floats
  local function average(x, dim, weights)
    local who = "average"
    x = float(who, 1, x, true)
    if dim ~= nil then dim = check.dim(who, dim, x.ndim) end
    if weights == nil then return x:mean(dim) end
    check.tensor(who, 3, weights)
    if dim and weights.ndim == 1 and x.ndim > 1 then
      local ones = {}
      for d = 1, x.ndim do ones[d] = d == dim and weights:numel() or 1 end
      weights = weights:reshape(ones)
      if weights:size(dim) ~= x:size(dim) then
        fail(who, "%d weights for %d places", weights:size(dim), x:size(dim))
      end
    end
    weights = check.named(who, "expand", ty.expand, weights, x.shape)
    return (x * weights):sum(dim) / weights:sum(dim)
  end

  --- The covariances of variables: rows of x, observations are columns.
  --- Raises where x has more than two dims, or weights do not fit.
  ---@param x tycho.Tensor [variables, observations], or one variable
  ---@param opts? {correction: number?, fweights: tycho.Tensor?, aweights: tycho.Tensor?} correction = 1; how often each
  --- observation comes, and how much it weighs
  ---@return tycho.Tensor # [variables, variables], 0-d of one; floats
  local function cov(x, opts)
    local who = "cov"
    x = float(who, 1, x)
    opts = check.options(who, opts, { correction = "number", fweights = "userdata", aweights = "userdata" })
    if x.ndim > 2 then fail(who, "argument 1 must have at most 2 dims, got %s", check.text(x)) end
    local v = x.ndim == 2 and x or x:reshape(1, -1)
    local n, w = v:size(2), nil
    for _, name in ipairs { "fweights", "aweights" } do
      local given = opts[name]
      if given then
        vector(who, name == "fweights" and 2 or 3, given)
        if given:numel() ~= n then fail(who, "%d weights for %d observations", given:numel(), n) end
        w = w and w * given:to(v.dtype) or given:to(v.dtype)
      end
    end
    local correction = opts.correction or 1
    local total = w and w:sum() or n
    local d = v - (w and (v * w):sum(2, true) / total or v:mean(2, true))
    local scale
    if w and opts.aweights then
      scale = total - (w * opts.aweights:to(v.dtype)):sum() / total * correction
    else
      scale = total - correction
    end
    local y = (w and d * w or d):matmul(d:t()) / (is_tensor(scale) and scale:maximum(0) or math.max(0, scale))
    return v:size(1) == 1 and y:reshape {} or y
  end

  --- The correlations of variables, rows of x: covariances divided by the deviations, from -1 to 1.
  --- Raises where x has more than two dims.
  ---@param x tycho.Tensor [variables, observations], or one variable
  ---@return tycho.Tensor # [variables, variables], 0-d of one; floats
  local function corrcoef(x)
    check.tensor("corrcoef", 1, x)
    local c = check.named("corrcoef", "cov", cov, x)
    if c.ndim == 0 then return c / c end
    local s = c:diagonal():sqrt()
    return (c / s:unsqueeze(2) / s):clamp(-1, 1)
  end

  row { "aminmax", "x, dims = nil, keepdim = false", aminmax, "two results: the smallest and the largest element",
    shape = reduced }
  row { "ptp", "x, dims = nil, keepdim = false", ptp, "the largest element less the smallest", shape = reduced }
  row { "var_mean", "x, dims = nil, keepdim = false, {correction = 1}", var_mean,
    "two results: the variance and the mean", shape = reduced, dtype = "float" }
  row { "std_mean", "x, dims = nil, keepdim = false, {correction = 1}", std_mean,
    "two results: the standard deviation and the mean", shape = reduced, dtype = "float" }
  row { "average", "x, dim = nil, weights = nil", average, "the mean with a weight for each element",
    shape = "x without the dim", dtype = "float" }
  row { "cov", "x, {correction = 1, fweights, aweights}", cov, "covariances of variables, the rows of x",
    shape = "[variables, variables]", dtype = "float" }
  row { "corrcoef", "x", corrcoef, "correlations of variables, the rows of x", shape = "[variables, variables]",
    dtype = "float" }

  ------------------------------------------------------------------------------------------------------- histograms

  --- The bounds of a histogram as tensors of 0 dims: given, or those of the elements; widened where they are equal.
  local function bounds(x, low, high)
    if low == high then
      if x:numel() == 0 then low, high = 0, 1 else low, high = x:min(), x:max() end
      local same = eq(low, high)
      if is_tensor(low) then return where(same, low - 1, low), where(same, high + 1, high) end
      return low, high
    end
    return low, high
  end

  --- How many elements, or what of their weights, lies in each of n intervals of equal width from low to high.
  local function counts(x, n, low, high, weights)
    local place = ((x - low) / (high - low) * n):floor()
    local inside = bitwise_and(ty.ge(x, low), ty.le(x, high))
    local bin = where(inside, place, 0):clamp(0, n - 1):to("i64") + 1
    local one = weights or 1
    return ty.scatter_add(ty.zeros({ n }, { dtype = x.dtype, device = x.device }), 1, bin:reshape(-1),
      where(inside, one, 0):to(x.dtype):reshape(-1))
  end

  --- How many elements lie in each of equally wide intervals; the last one holds its end. Others are not counted.
  --- Raises where bins is below 1, or min above max.
  ---@param x tycho.Tensor
  ---@param bins? integer 100
  ---@param min? number 0
  ---@param max? number 0; where both are equal, those of the elements
  ---@return tycho.Tensor # [bins]; floats
  local function histc(x, bins, min, max)
    local who = "histc"
    x = float(who, 1, x)
    bins = check.whole(who, 2, bins, "bins", 100)
    min, max = check.number(who, 3, min, "min", 0), check.number(who, 4, max, "max", 0)
    if bins < 1 then fail(who, "argument 2 (bins) must be at least 1, got %g", bins) end
    if min > max then fail(who, "min %g is above max %g", min, max) end
    return counts(x, bins, bounds(x, min, max))
  end

  --- How many elements lie between edges, and the edges. The last interval holds its end.
  --- Raises where bins is below 1, or the edges are no vector of at least two.
  ---@param x tycho.Tensor
  ---@param bins? integer|tycho.Tensor 10, of equal width; or the edges, ascending
  ---@param opts? {range: number[]?, weight: tycho.Tensor?, density: boolean?} range: {low, high}, by default those of
  --- the elements; density: divided by their sum and the widths
  ---@return tycho.Tensor counts, tycho.Tensor edges # [bins] and [bins + 1]; floats
  local function histogram(x, bins, opts)
    local who = "histogram"
    x = float(who, 1, x):reshape(-1)
    if check.is_options(bins) then bins, opts = nil, bins end
    opts = check.options(who, opts, { range = "table", weight = "userdata", density = "boolean" })
    local weights = opts.weight and check.tensor(who, 3, opts.weight):reshape(-1):to(x.dtype)
    if weights and weights:numel() ~= x:numel() then
      fail(who, "%d weights for %d elements", weights:numel(), x:numel())
    end
    local y, edges
    if is_tensor(bins) then
      edges = vector(who, 2, bins):to(x.dtype)
      local n = edges:numel() - 1
      if n < 1 then fail(who, "at least two edges, got %s", check.text(bins)) end
      local place = ty.searchsorted(edges, x, true) - 1
      place = where(eq(x, edges:narrow(1, n + 1, 1)), n, place)
      local inside = bitwise_and(ty.ge(place, 1), ty.le(place, n))
      y = ty.scatter_add(ty.zeros({ n }, { dtype = x.dtype, device = x.device }), 1, where(inside, place, 1),
        where(inside, weights or 1, 0):to(x.dtype))
    else
      bins = check.whole(who, 2, bins, "bins", 10)
      if bins < 1 then fail(who, "argument 2 (bins) must be at least 1, got %g", bins) end
      local range = opts.range or { 0, 0 }
      local low, high = check.number(who, 3, range[1], "range"), check.number(who, 3, range[2], "range")
      if low > high then fail(who, "the range {%g, %g} is in reverse", low, high) end
      low, high = bounds(x, low, high)
      y = counts(x, bins, low, high, weights)
      edges = ty.arange(bins + 1, { dtype = x.dtype, device = x.device }) / bins * (high - low) + low
    end
    if opts.density then y = y / y:sum() / (edges:narrow(1, 2, y:numel()) - edges:narrow(1, 1, y:numel())) end
    return y, edges
  end

  row { "histc", "x, bins = 100, min = 0, max = 0", histc, "how many elements lie in each of equally wide intervals",
    shape = "[bins]", dtype = "float" }
  row { "histogram", "x, bins = 10, {range, weight, density = false}", histogram,
    "two results: how many elements lie between edges, and the edges", shape = "[bins] and [bins + 1]",
    dtype = "float" }

  -------------------------------------------------------------------------------------------- differences, integrals

  --- The differences of neighbours along a dim, n times.
  --- Raises where n is negative, or what stands before or behind has other sizes.
  ---@param x tycho.Tensor at least one dim
  ---@param n? integer 1
  ---@param dim? integer the last
  ---@param opts? {prepend: tycho.Tensor?, append: tycho.Tensor?} what stands before and behind x along dim
  ---@return tycho.Tensor # x with n places less along dim
  local function diff(x, n, dim, opts)
    local who = "diff"
    check.tensor(who, 1, x)
    n = check.whole(who, 2, n, "n", 1)
    if check.is_options(dim) then dim, opts = nil, dim end
    dim = check.dim(who, dim, x.ndim, -1)
    opts = check.options(who, opts, { prepend = "userdata", append = "userdata" })
    if n < 0 then fail(who, "argument 2 (n) must not be negative, got %g", n) end
    if opts.prepend then x = check.named(who, "cat", ty.cat, { opts.prepend, x }, dim) end
    if opts.append then x = check.named(who, "cat", ty.cat, { x, opts.append }, dim) end
    for _ = 1, n do
      local size = math.max(0, x:size(dim) - 1)
      if size == 0 then return x:narrow(dim, 1, 0):clone() end
      local after, before = x:narrow(dim, 2, size), x:narrow(dim, 1, size)
      if x.dtype == "bool" then x = ne(after, before) else x = after - before end
    end
    return x
  end

  --- Areas of the trapezoids between neighbours along a dim, which is then the last.
  local function areas(who, y, x, opts)
    y = float(who, 1, y, true)
    if check.is_options(x) and opts == nil then x, opts = nil, x end
    opts = check.options(who, opts, { dx = "number", dim = "number" })
    if type(x) == "number" then
      fail(who, "argument 2 (x) must be a tensor, got %s (the distance is {dx = ...})", check.show(x))
    end
    local dim = check.dim(who, opts.dim, y.ndim, -1)
    local n = y:size(dim) - 1
    y = y:movedim(dim, -1)
    if n < 1 then return y:narrow(-1, 1, 0), dim end
    local mean = (y:narrow(-1, 2, n) + y:narrow(-1, 1, n)) * 0.5
    if x == nil then return mean * (opts.dx or 1), dim end
    check.tensor(who, 2, x)
    if x.ndim ~= 1 and x.ndim ~= y.ndim then
      fail(who, "x must be a vector or have the dims of y, got %s and %s", check.text(x), check.text(y))
    end
    x = x.ndim == 1 and x or x:movedim(dim, -1)
    if x:size(-1) ~= n + 1 then fail(who, "%d places of x for %d of y", x:size(-1), n + 1) end
    return mean * (x:narrow(-1, 2, n) - x:narrow(-1, 1, n)), dim
  end

  --- The integral along a dim by the trapezoidal rule.
  --- Raises where x has another number of places than y along the dim.
  ---@param y tycho.Tensor
  ---@param x? tycho.Tensor where the values stand: a vector, or sizes of y; without it dx apart
  ---@param opts? {dx: number?, dim: integer?} dx = 1, dim = -1
  ---@return tycho.Tensor # y without the dim; floats
  local function trapezoid(y, x, opts)
    local parts = areas("trapezoid", y, x, opts)
    return parts:sum(-1)
  end

  --- The integral up to each place behind the first, by the trapezoidal rule.
  --- Raises where x has another number of places than y along the dim.
  ---@param y tycho.Tensor
  ---@param x? tycho.Tensor where the values stand: a vector, or sizes of y; without it dx apart
  ---@param opts? {dx: number?, dim: integer?} dx = 1, dim = -1
  ---@return tycho.Tensor # y with one place less along dim; floats
  local function cumulative_trapezoid(y, x, opts)
    local parts, dim = areas("cumulative_trapezoid", y, x, opts)
    return parts:cumsum(-1):movedim(-1, dim)
  end

  row { "diff", "x, n = 1, dim = -1, {prepend, append}", diff, "the differences of neighbours along a dim",
    shape = "x with n places less" }
  row { "trapezoid", "y, x = nil, {dx = 1, dim = -1}", trapezoid, "the integral by the trapezoidal rule",
    shape = "y without the dim", dtype = "float" }
  row { "cumulative_trapezoid", "y, x = nil, {dx = 1, dim = -1}", cumulative_trapezoid,
    "the integral up to each place, by the trapezoidal rule", shape = "y with one place less", dtype = "float" }

  ----------------------------------------------------------------------------------------------------------- curves

  --- Values between points, on straight lines; those of the first and the last point beyond them. As NumPy's.
  --- Raises where the points are no two vectors of the same size, or none.
  ---@param x tycho.Tensor where
  ---@param xp tycho.Tensor [n], ascending; that is not checked
  ---@param fp tycho.Tensor [n], the values there
  ---@param opts? {left: number?, right: number?} the values below the first and above the last point
  ---@return tycho.Tensor # shape of x; floats
  local function interp(x, xp, fp, opts)
    local who = "interp"
    x, xp, fp = float(who, 1, x), float(who, 2, xp), float(who, 3, fp, true)
    opts = check.options(who, opts, { left = "number", right = "number" })
    vector(who, 2, xp)
    vector(who, 3, fp)
    local n = xp:numel()
    if n ~= fp:numel() or n == 0 then
      fail(who, "as many values as points, at least one; got %s and %s", check.text(xp), check.text(fp))
    end
    local below, above = opts.left or fp[1], opts.right or fp[n]
    if n == 1 then return where(lt(x, xp[1]), below, where(lt(xp[1], x), above, fp[1])) end
    local i = ty.searchsorted(xp:detach(), x:detach(), true):clamp(2, n)
    local x0, y0 = xp:take(i - 1), fp:take(i - 1)
    local y = y0 + (fp:take(i) - y0) / (xp:take(i) - x0) * (x - x0)
    return where(lt(x, xp[1]), below, where(lt(xp[n], x), above, where(eq(x, xp[n]), fp[n], y)))
  end

  local modes = { full = true, same = true, valid = true }

  --- The convolution of two vectors: sums of a[i] * v[k - i]. As NumPy's.
  --- Raises where an argument is no vector or empty, or the mode is not known.
  ---@param a tycho.Tensor [n]
  ---@param v tycho.Tensor [m]
  ---@param mode? "full"|"same"|"valid" "full": all that overlaps; "same": the middle; "valid": where all overlaps
  ---@return tycho.Tensor # [n + m - 1], [max(n, m)] or [max(n, m) - min(n, m) + 1]; floats
  local function convolve(a, v, mode)
    local who = "convolve"
    a, v = float(who, 1, a, true), float(who, 2, v, true)
    vector(who, 1, a)
    vector(who, 2, v)
    mode = mode or "full"
    if not modes[mode] then
      fail(who, "argument 3 must be \"full\", \"same\" or \"valid\", got %s", check.show(mode))
    end
    if a:numel() == 0 or v:numel() == 0 then fail(who, "an empty vector, %s and %s", check.text(a), check.text(v)) end
    if v:numel() > a:numel() then a, v = v, a end
    local dtype = ty.promote_types(a.dtype, v.dtype)
    local n, m = a:numel(), v:numel()
    local y = ty.conv1d(a:to(dtype):reshape(1, 1, n), v:to(dtype):flip():reshape(1, 1, m), nil, { padding = m - 1 })
    y = y:reshape(-1)
    if mode == "same" then return y:narrow(1, math.floor((m - 1) / 2) + 1, n) end
    if mode == "valid" then return y:narrow(1, m, n - m + 1) end
    return y
  end

  --- The value of a polynomial, the highest power's coefficient first. As NumPy's.
  --- Raises where the coefficients are no vector.
  ---@param p tycho.Tensor [degree + 1]
  ---@param x tycho.Tensor|number where
  ---@return tycho.Tensor # shape of x
  local function polyval(p, x)
    vector("polyval", 1, p)
    check.operand("polyval", 2, x)
    if not is_tensor(x) then check.number("polyval", 2, x, "x") end
    local y = is_tensor(x) and ty.zeros_like(x) or 0
    for k = 1, p:numel() do y = y * x + p[k] end
    return y
  end

  --- The coefficients of the polynomial of that degree that fits points best, in the sense of least squares; the
  --- highest power's first. As NumPy's. Stands on LAPACK.
  --- Raises where x and y differ in size, or the degree is negative.
  ---@param x tycho.Tensor [n]
  ---@param y tycho.Tensor [n] or [n, curves]
  ---@param degree integer
  ---@return tycho.Tensor # [degree + 1] or [degree + 1, curves]; floats
  local function polyfit(x, y, degree)
    local who = "polyfit"
    x, y = float(who, 1, x), float(who, 2, y)
    vector(who, 1, x)
    degree = check.whole(who, 3, degree, "degree")
    if degree < 0 then fail(who, "argument 3 (degree) must not be negative, got %g", degree) end
    if y.ndim < 1 or y.ndim > 2 or y:size(1) ~= x:numel() then
      fail(who, "sizes do not fit, %s and %s", check.text(x), check.text(y))
    end
    local powers = ty.vander(x, degree + 1)
    local scale = (powers * powers):sum(1):sqrt()
    local c = check.named(who, "lstsq", ty.linalg.lstsq, powers / scale, y)
    return c / (y.ndim == 2 and scale:unsqueeze(2) or scale)
  end

  row { "interp", "x, xp, fp, {left, right}", interp, "values between points, on straight lines", shape = "x",
    dtype = "float" }
  row { "convolve", "a, v, mode = \"full\"", convolve, "the convolution of two vectors", shape = "[n + m - 1]",
    dtype = "float" }
  row { "polyval", "p, x", polyval, "the value of a polynomial, the highest power's coefficient first", shape = "x" }
  row { "polyfit", "x, y, degree", polyfit, "the polynomial that fits points best, the highest power first",
    shape = "[degree + 1]", dtype = "float", single = true }
end
