--- activations.lua -- composites: the less common activations, and what is made of norms of vectors.
-- All take floats; f16 and bf16 are computed in f32 and rounded once. The common ones are in neural.lua.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail = check.fail
  local where, maximum, minimum, expm1 = ty.where, ty.maximum, ty.minimum, ty.expm1
  local sigmoid, tanh, abs, log = ty.sigmoid, ty.tanh, ty.abs, ty.log
  local half_floats = require("tycho.half")(ty, check)
  local wide, whole, back = half_floats.wide, half_floats.whole, half_floats.back

  ---------------------------------------------------------------------------------------------------------- limits

  -- Of equal operands the first has the gradient: at its limits an activation has none.

  --- x within low..high; NaN stays.
  --- Raises where x is not floating, or low lies above high.
  ---@param x tycho.Tensor floats
  ---@param low? number -1
  ---@param high? number 1
  ---@return tycho.Tensor # shape and dtype of x
  local function hardtanh(x, low, high)
    check.float("hardtanh", 1, x)
    low = check.number("hardtanh", 2, low, "low", -1)
    high = check.number("hardtanh", 3, high, "high", 1)
    if low > high then fail("hardtanh", "low, %.14g, lies above high, %.14g", low, high) end
    return minimum(high, maximum(low, x))
  end

  local function six(w) return minimum(6, maximum(0, w)) end

  --- min(max(x, 0), 6). Krizhevsky 2010. NaN stays.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function relu6(x)
    check.float("relu6", 1, x)
    return six(x)
  end

  --- relu6(x + 3) / 6: a sigmoid of three straight lines.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function hardsigmoid(x)
    local w, half = wide("hardsigmoid", 1, x)
    return back(six(w + 3) / 6, half)
  end

  --- x * relu6(x + 3) / 6. Howard and others 2019, arXiv:1905.02244.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function hardswish(x)
    local w, half = wide("hardswish", 1, x)
    return back(w * six(w + 3) / 6, half)
  end

  --- x above the threshold, else the value. NaN stays.
  --- Raises where x is not floating, or threshold or value is no number.
  ---@param x tycho.Tensor floats
  ---@param threshold number
  ---@param value number
  ---@return tycho.Tensor # shape and dtype of x
  local function thresholded(x, threshold, value)
    check.float("threshold", 1, x)
    threshold = check.number("threshold", 2, threshold, "threshold")
    value = check.number("threshold", 3, value, "value")
    return where(x:le(threshold), value, x)
  end

  --- 0 within -lambda..lambda, else x. NaN stays.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@param lambda? number 0.5
  ---@return tycho.Tensor # shape and dtype of x
  local function hardshrink(x, lambda)
    check.float("hardshrink", 1, x)
    lambda = check.number("hardshrink", 2, lambda, "lambda", 0.5)
    return where(abs(x):le(lambda), 0, x)
  end

  --- x moved towards 0 by lambda, 0 where it would pass it. NaN stays.
  --- Raises where x is not floating, or lambda is negative.
  ---@param x tycho.Tensor floats
  ---@param lambda? number 0.5
  ---@return tycho.Tensor # shape and dtype of x
  local function softshrink(x, lambda)
    check.float("softshrink", 1, x)
    lambda = check.number("softshrink", 2, lambda, "lambda", 0.5)
    if lambda < 0 then fail("softshrink", "argument 2 (lambda) must not be negative, got %.14g", lambda) end
    return where(abs(x):le(lambda), 0, where(x:gt(0), x - lambda, x + lambda))
  end

  ---------------------------------------------------------------------------------------------------------- smooth

  local SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

  --- An elu of fixed alpha and scale, which keeps mean 0 and variance 1. Klambauer and others 2017, arXiv:1706.02515.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function selu(x)
    local w, half = wide("selu", 1, x)
    return back(where(w:gt(0), w * SELU_SCALE, expm1(minimum(w, 0)) * (SELU_ALPHA * SELU_SCALE)), half)
  end

  --- x above zero, else alpha * (exp(x / alpha) - 1): an elu of one slope at 0. Barron 2017, arXiv:1704.07483.
  --- Raises where x is not floating, or alpha is 0.
  ---@param x tycho.Tensor floats
  ---@param alpha? number 1
  ---@return tycho.Tensor # shape and dtype of x
  local function celu(x, alpha)
    local w, half = wide("celu", 1, x)
    alpha = check.number("celu", 2, alpha, "alpha", 1)
    if alpha == 0 then fail("celu", "argument 2 (alpha) must not be 0") end
    return back(where(w:gt(0), w, expm1(minimum(w, 0) / alpha) * alpha), half)
  end

  --- x above zero, else weight * x, of one weight for all or one a channel. He and others 2015, arXiv:1502.01852.
  --- Raises where x is not floating, or the weight is neither one number nor one a channel.
  ---@param x tycho.Tensor floats: [batch, channels, ...], or any shape with one weight
  ---@param weight tycho.Tensor floats [1] or [channels]
  ---@return tycho.Tensor # shape of x
  local function prelu(x, weight)
    check.float("prelu", 1, x)
    check.float("prelu", 2, weight)
    local n = weight:numel()
    if weight.ndim > 1 or n ~= 1 and (x.ndim < 2 or n ~= x:size(2)) then
      fail("prelu", "argument 2, the weight, must be [1] or [channels], got %s for %s", check.text(weight),
        check.text(x))
    end
    local sizes = {}
    if n ~= 1 then
      sizes[1] = n
      for d = 3, x.ndim do sizes[d - 1] = 1 end
    end
    return where(x:gt(0), x, x * weight:reshape(sizes))
  end

  --- The first half of a dim times the sigmoid of the second. Dauphin and others 2016, arXiv:1612.08083.
  --- Raises where x is not floating, or the dim is out of range or of an odd size.
  ---@param x tycho.Tensor floats
  ---@param dim? integer the last
  ---@return tycho.Tensor # the dim has half the size
  local function glu(x, dim)
    local w, half = wide("glu", 1, x)
    dim = check.dim("glu", dim, x.ndim, -1)
    local n = x:size(dim)
    if n % 2 ~= 0 then fail("glu", "dim %d of %s does not divide into halves", dim, check.text(x)) end
    return back(w:narrow(dim, 1, n / 2) * sigmoid(w:narrow(dim, n / 2 + 1, n / 2)), half)
  end

  --- log(sigmoid(x)), without overflow.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function logsigmoid(x)
    local w, half = wide("logsigmoid", 1, x)
    return back(-ty.softplus(-w), half)
  end

  --- x / (1 + |x|).
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function softsign(x)
    local w, half = wide("softsign", 1, x)
    return back(w / (abs(w) + 1), half)
  end

  --- x - tanh(x).
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function tanhshrink(x)
    local w, half = wide("tanhshrink", 1, x)
    return back(w - tanh(w), half)
  end

  row { "hardtanh", "x, low = -1, high = 1", hardtanh, "x within low..high", shape = "x", inplace = true,
    formula = "min(max(x, low), high)" }
  row { "relu6", "x", relu6, "x within 0..6", shape = "x", inplace = true, formula = "min(max(x, 0), 6)" }
  row { "hardsigmoid", "x", hardsigmoid, "relu6(x + 3) / 6", shape = "x", inplace = true }
  row { "hardswish", "x", hardswish, "x * relu6(x + 3) / 6", shape = "x", inplace = true,
    formula = "Howard and others 2019, arXiv:1905.02244" }
  row { "threshold", "x, threshold, value", thresholded, "x above the threshold, else the value", shape = "x",
    inplace = true }
  row { "hardshrink", "x, lambda = 0.5", hardshrink, "0 within -lambda..lambda, else x", shape = "x", inplace = true }
  row { "softshrink", "x, lambda = 0.5", softshrink, "x moved towards 0 by lambda", shape = "x", inplace = true }
  row { "selu", "x", selu, "an elu of fixed alpha and scale, which keeps mean 0 and variance 1", shape = "x",
    inplace = true, formula = "Klambauer and others 2017, arXiv:1706.02515" }
  row { "celu", "x, alpha = 1", celu, "x above zero, else alpha * (exp(x / alpha) - 1)", shape = "x", inplace = true,
    formula = "Barron 2017, arXiv:1704.07483" }
  row { "prelu", "x, weight", prelu, "x above zero, else weight * x", shape = "x", inplace = true,
    formula = "He and others 2015, arXiv:1502.01852" }
  row { "glu", "x, dim = -1", glu, "the first half of a dim times the sigmoid of the second",
    shape = "x, half of the dim", formula = "Dauphin and others 2016, arXiv:1612.08083" }
  row { "logsigmoid", "x", logsigmoid, "log(sigmoid(x))", shape = "x", inplace = true, formula = "-softplus(-x)" }
  row { "softsign", "x", softsign, "x / (1 + |x|)", shape = "x", inplace = true }
  row { "tanhshrink", "x", tanhshrink, "x - tanh(x)", shape = "x", inplace = true }

  ---------------------------------------------------------------------------------------------------------- softmax

  --- The softmax of -x over one dim.
  --- Raises where x is not floating or dim is out of range.
  ---@param x tycho.Tensor floats
  ---@param dim? integer the last
  ---@return tycho.Tensor # shape and dtype of x
  local function softmin(x, dim)
    local w, half = whole("softmin", 1, x)
    return back(check.named("softmin", "softmax", ty.softmax, -w, dim), half)
  end

  --- The softmax of (x + noise of Gumbel's distribution) / tau: a sample of classes by their logits, with a gradient;
  --- takes a stream of random numbers. Jang, Gu, Poole 2016, arXiv:1611.01144.
  --- Options: tau = 1, the temperature; hard = false: 1 for the chosen class and 0 elsewhere, with the gradient of the
  --- soft sample; dim = -1.
  --- Raises where x is not floating, dim is out of range, or tau is not above 0.
  ---@param x tycho.Tensor floats: logits
  ---@param opts? {tau: number?, hard: boolean?, dim: integer?}
  ---@return tycho.Tensor # shape and dtype of x
  local function gumbel_softmax(x, opts)
    local who = "gumbel_softmax"
    local w, half = wide(who, 1, x)
    opts = check.options(who, opts, { tau = "number", hard = "boolean", dim = "number" })
    local tau, dim = opts.tau or 1, check.dim(who, opts.dim, x.ndim, -1)
    if tau <= 0 or tau ~= tau then fail(who, "option tau must be above 0, got %.14g", tau) end
    local uniform = maximum(ty.rand_like(w), 1e-30)
    local y = ty.softmax((w - log(-log(uniform))) / tau, dim)
    if opts.hard then
      local n, sizes = x:size(dim), {}
      sizes[1] = n
      for d = dim + 1, x.ndim do sizes[d - dim + 1] = 1 end
      local chosen = y:argmax(dim, true):eq(ty.range(1, n, 1, { dtype = "i64", device = x.device }):reshape(sizes))
      y = where(chosen, 1, 0) + (y - y:detach())
    end
    return back(y, half)
  end

  row { "softmin", "x, dim = -1", softmin, "the softmax of -x over a dim", shape = "x", inplace = true }
  row { "gumbel_softmax", "x, {tau = 1, hard = false, dim = -1}", gumbel_softmax,
    "a sample of classes by their logits, with a gradient", shape = "x",
    formula = "softmax((x - log(-log(u))) / tau), u uniform, Jang, Gu, Poole 2016, arXiv:1611.01144" }

  ---------------------------------------------------------------------------------------------------------- vectors

  --- x / max(|x|, eps), the norm over one dim: vectors of norm 1.
  --- Options: p = 2, of the norm; dim = -1 (PyTorch's is the second); eps = 1e-12.
  --- Raises where x is not floating, or dim is out of range.
  ---@param x tycho.Tensor floats
  ---@param opts? {p: number?, dim: integer?, eps: number?}
  ---@return tycho.Tensor # shape and dtype of x
  local function normalize(x, opts)
    local who = "normalize"
    local w, half = whole(who, 1, x)
    opts = check.options(who, opts, { p = "number", dim = "number", eps = "number" })
    local dim = check.dim(who, opts.dim, x.ndim, -1)
    return back(w / maximum(w:norm(opts.p or 2, dim, true), opts.eps or 1e-12), half)
  end

  --- Both operands in f32 or wider, the dtype of the first where it is of half floats, and the dim.
  local function vectors(who, a, b, dim)
    local p, half = whole(who, 1, a)
    local q = whole(who, 2, b)
    check.fits(who, 2, a, b)
    return p, q, half, dim and check.dim(who, dim, math.max(a.ndim, b.ndim), -1)
  end

  --- The cosine of the angle between vectors in one dim: sum(a b) / (max(|a|, eps) max(|b|, eps)).
  --- Options: dim = -1 (PyTorch's is the second); eps = 1e-8.
  --- Raises where sizes do not broadcast, or dim is out of range.
  ---@param a tycho.Tensor floats
  ---@param b tycho.Tensor floats, broadcasts to a, or a to it
  ---@param opts? {dim: integer?, eps: number?}
  ---@return tycho.Tensor # the broadcast sizes without the dim
  local function cosine_similarity(a, b, opts)
    local who = "cosine_similarity"
    opts = check.options(who, opts, { dim = "number", eps = "number" })
    local p, q, half, dim = vectors(who, a, b, opts.dim or -1)
    local eps, rank = opts.eps or 1e-8, math.max(a.ndim, b.ndim)
    dim = dim - rank - 1 -- from the end: operands may have other numbers of dims
    local y = (p * q):sum(dim)
    local function size_of(x) return maximum(-x.ndim <= dim and x:norm(2, dim) or abs(x), eps) end
    return back(y / (size_of(p) * size_of(q)), half)
  end

  --- The norm of a - b + eps over the last dim.
  --- Options: p = 2, of the norm; eps = 1e-6; keepdim = false.
  --- Raises where sizes do not broadcast.
  ---@param a tycho.Tensor floats [..., features]
  ---@param b tycho.Tensor floats [..., features]
  ---@param opts? {p: number?, eps: number?, keepdim: boolean?}
  ---@return tycho.Tensor # the broadcast sizes without the last dim
  local function pairwise_distance(a, b, opts)
    local who = "pairwise_distance"
    opts = check.options(who, opts, { p = "number", eps = "number", keepdim = "boolean" })
    local p, q, half = vectors(who, a, b, -1)
    return back((p - q + (opts.eps or 1e-6)):norm(opts.p or 2, -1, opts.keepdim), half)
  end

  row { "normalize", "x, {p = 2, dim = -1, eps = 1e-12}", normalize, "x divided by its norm over a dim", shape = "x",
    formula = "x / max(|x|, eps)" }
  row { "cosine_similarity", "a, b, {dim = -1, eps = 1e-8}", cosine_similarity,
    "the cosine of the angle between vectors in one dim", shape = "the broadcast of a and b without the dim",
    formula = "sum(a b) / (max(|a|, eps) max(|b|, eps))" }
  row { "pairwise_distance", "a, b, {p = 2, eps = 1e-6, keepdim = false}", pairwise_distance,
    "the norm of a - b + eps over the last dim", shape = "the broadcast of a and b without the last dim" }
end
