--- reductions.lua -- composites over dims: means, variances, norms, tests, the median.
-- Dims are a number or a list, 1-based, negative from the end; nil is all. keepdim leaves reduced dims with size 1.
-- Both may also stand in an options table: x:var{dims = 1, correction = 0}.

---@param ty table the core module
---@param check table check.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail = check.fail
  local where, abs, exp, log, sqrt, eq, ne = ty.where, ty.abs, ty.exp, ty.log, ty.sqrt, ty.eq, ty.ne
  local INF, is_complex = math.huge, ty.is_complex
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }
  local halves, autocast = { f16 = true, bf16 = true }, ty._half

  --- y, constant where it is 0: a root's gradient there is then 0 and not infinite times 0. The same values.
  local function still(y) return where(eq(y, 0), 0, y) end

  --- Arguments (dims, keepdim, opts) in any of their forms. known: further options. Returns dims, keepdim, options.
  local function arguments(who, x, dims, keepdim, opts, known)
    check.tensor(who, 1, x)
    if check.is_options(dims) then
      dims, keepdim, opts = nil, nil, dims
    elseif check.is_options(keepdim) then
      keepdim, opts = nil, keepdim
    end
    if opts ~= nil then
      local all = { dims = "any", keepdim = "boolean" }
      for k, v in pairs(known or {}) do all[k] = v end
      opts = check.options(who, opts, all)
      if dims == nil then dims = opts.dims end
      if keepdim == nil then keepdim = opts.keepdim end
    end
    return check.dims(who, dims, x.ndim), check.boolean(who, 3, keepdim, "keepdim", false), opts or {}
  end

  --- How many elements each result is made of.
  local function count(x, dims)
    if not dims then return x:numel() end
    local n = 1
    for i = 1, #dims do n = n * x:size(dims[i]) end
    return n
  end

  --- x in f32 and its dtype when that is a half float, in which the result is rounded but within ty.autocast; else x
  --- alone.
  local function wide(x)
    local dtype = x.dtype
    if halves[dtype] then return x:to("f32"), not autocast() and dtype or nil end
    return x
  end

  local function back(y, dtype) return dtype and y:to(dtype) or y end

  --- The arithmetic mean: the sum divided by the count; NaN of nothing.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; floats, integers give the default float
  local function mean(x, dims, keepdim)
    dims, keepdim = arguments("mean", x, dims, keepdim)
    local w, half = wide(x)
    return back(w:sum(dims, keepdim) / count(x, dims), half)
  end

  --- |d|^2.
  local function square_magnitude(d)
    if not is_complex(d) then return d * d end
    local a, b = d:real(), d:imag()
    return a * a + b * b
  end

  local function variance(who, x, dims, keepdim, opts)
    dims, keepdim, opts = arguments(who, x, dims, keepdim, opts, { correction = "number" })
    local w, half = wide(x)
    local n = count(x, dims)
    local d = w - w:sum(dims, true) / n
    return square_magnitude(d):sum(dims, keepdim) / math.max(0, n - (opts.correction or 1)), half
  end

  --- The variance, in two passes: the squares of what differs from the mean, divided by count - correction; of complex
  --- numbers those of the magnitudes.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@param opts? {correction: number?} 1: of a sample; 0: of a population
  ---@return tycho.Tensor # x without the dims; floats
  local function var(x, dims, keepdim, opts) return back(variance("var", x, dims, keepdim, opts)) end

  --- The standard deviation: the square root of the variance.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@param opts? {correction: number?} 1: of a sample; 0: of a population
  ---@return tycho.Tensor # x without the dims; floats
  local function std(x, dims, keepdim, opts)
    local y, half = variance("std", x, dims, keepdim, opts)
    return back(sqrt(still(y)), half)
  end

  --- Whether any element is not zero.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # bool, x without the dims; false of nothing
  local function any(x, dims, keepdim)
    dims, keepdim = arguments("any", x, dims, keepdim)
    local t = x.dtype == "bool" and x or ne(x, 0)
    if count(x, dims) == 0 then return ne(t:sum(dims, keepdim), 0) end
    return t:max(dims, keepdim)
  end

  --- Whether all elements are not zero; NaN is not.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # bool, x without the dims; true of nothing
  local function all(x, dims, keepdim)
    dims, keepdim = arguments("all", x, dims, keepdim)
    local t = x.dtype == "bool" and x or ne(x, 0)
    if count(x, dims) == 0 then return eq(t:sum(dims, keepdim), 0) end
    return t:min(dims, keepdim)
  end

  --- How many elements are not zero.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # i64, x without the dims
  local function count_nonzero(x, dims, keepdim)
    dims, keepdim = arguments("count_nonzero", x, dims, keepdim)
    return (x.dtype == "bool" and x or ne(x, 0)):sum(dims, keepdim)
  end

  --- log(sum(exp(x))) without overflow; -inf of nothing.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; floats
  local function logsumexp(x, dims, keepdim)
    dims, keepdim = arguments("logsumexp", check.real("logsumexp", 1, x), dims, keepdim)
    local w, half = wide(x)
    if not floats[w.dtype] then w = w:to("f32") end
    if count(x, dims) == 0 then return back(log(w:sum(dims, keepdim)), half) end
    local m = w:max(dims, true):detach() -- no part of the gradient: the result does not depend on it
    m = where(eq(abs(m), INF), 0, m) -- else inf - inf
    local s = log(exp(w - m):sum(dims, keepdim))
    if not keepdim then m = dims and m:squeeze(dims) or m:reshape {} end
    return back(s + m, half)
  end

  --- The p-norm of the elements: the p-th root of the sum of |x|^p. p = inf: the largest magnitude, -inf: the smallest,
  --- 0: how many are not zero.
  --- Raises where a dim is out of range or given twice, or the largest of nothing is asked for.
  ---@param x tycho.Tensor
  ---@param p? number 2
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; floats
  local function norm(x, p, dims, keepdim)
    check.tensor("norm", 1, x)
    p = check.number("norm", 2, p, "p", 2)
    dims, keepdim = arguments("norm", x, dims, keepdim)
    if is_complex(x) then x = abs(x) end
    local w, half = wide(x)
    if not floats[w.dtype] then w = w:to("f32") end
    local y
    if p == 2 then
      y = sqrt(still((w * w):sum(dims, keepdim)))
    elseif p == 1 then
      y = abs(w):sum(dims, keepdim)
    elseif p == 0 then
      y = ne(w, 0):to(w.dtype):sum(dims, keepdim)
    elseif p == INF or p == -INF then
      if count(x, dims) == 0 then fail("norm", "nothing to choose from in %s", check.text(x)) end
      y = p > 0 and abs(w):max(dims, keepdim) or abs(w):min(dims, keepdim)
    else
      y = still((abs(w) ^ p):sum(dims, keepdim)) ^ (1 / p)
    end
    return back(y, half)
  end

  --- The middle element in order; of an even count the lower one. NaN wins.
  --- Raises where the dim is out of range, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param dim? integer all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dim, dtype of x
  local function median(x, dim, keepdim)
    check.real("median", 1, x)
    keepdim = check.boolean("median", 3, keepdim, "keepdim", false)
    local rank = x.ndim
    if dim ~= nil then dim = check.dim("median", dim, rank) end
    local w = dim and x or x:reshape(-1)
    local d = dim or 1
    local n = w:size(d)
    if n == 0 then fail("median", "nothing to choose from in %s", check.text(x)) end
    local sorted = ty.sort(w, d)
    local y = sorted:narrow(d, math.floor((n + 1) / 2), 1)
    local last = sorted:narrow(d, n, 1) -- NaN stands last
    y = floats[x.dtype] and where(ne(last, last), last, y) or y:clone()
    if dim then return keepdim and y or y:squeeze(dim) end
    if not keepdim then return y:reshape {} end
    local ones = {}
    for i = 1, rank do ones[i] = 1 end
    return y:reshape(ones)
  end

  local reduced = "x without the dims"
  row { "mean", "x, dims = nil, keepdim = false", mean, "the arithmetic mean over dims", shape = reduced,
    dtype = "float", formula = "sum(x) / n" }
  row { "var", "x, dims = nil, keepdim = false, {correction = 1}", var, "the variance over dims", shape = reduced,
    dtype = "float", formula = "sum((x - mean(x))^2) / (n - correction)" }
  row { "std", "x, dims = nil, keepdim = false, {correction = 1}", std, "the standard deviation over dims",
    shape = reduced, dtype = "float", formula = "sqrt(var(x))" }
  row { "any", "x, dims = nil, keepdim = false", any, "bool: any element is not zero", shape = reduced, dtype = "bool" }
  row { "all", "x, dims = nil, keepdim = false", all, "bool: all elements are not zero", shape = reduced,
    dtype = "bool" }
  row { "count_nonzero", "x, dims = nil, keepdim = false", count_nonzero, "how many elements are not zero",
    shape = reduced, dtype = "i64" }
  row { "logsumexp", "x, dims = nil, keepdim = false", logsumexp, "log(sum(exp(x))) over dims without overflow",
    shape = reduced, dtype = "float", formula = "m + log(sum(exp(x - m))), m = max(x), or 0 where that is infinite" }
  row { "norm", "x, p = 2, dims = nil, keepdim = false", norm, "the p-norm over dims", shape = reduced, dtype = "float",
    formula = "sum(|x|^p)^(1/p)" }
  row { "median", "x, dim = nil, keepdim = false", median, "the middle element in order, the lower of two; NaN wins",
    shape = "x without the dim" }
end
