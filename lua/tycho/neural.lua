--- neural.lua -- composites of neural networks: activations, softmax, norms, dropout. Losses are in losses.lua, less
-- common activations in activations.lua.
-- Activations and norms take floats. f16 and bf16 are computed in f32 and rounded once; within ty.autocast softmax and
-- norms are not rounded (nn/autocast.lua, rule 2).

---@param ty table the core module
---@param check table check.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail = check.fail
  local where, maximum, minimum, exp, expm1 = ty.where, ty.maximum, ty.minimum, ty.exp, ty.expm1
  local log, log1p, tanh, erf, sigmoid, sqrt = ty.log, ty.log1p, ty.tanh, ty.erf, ty.sigmoid, ty.sqrt
  local half_floats = require("tycho.half")(ty, check)
  local wide, whole, back = half_floats.wide, half_floats.whole, half_floats.back

  ---------------------------------------------------------------------------------------------------------- activations

  --- The larger of x and 0. NaN stays.
  --- Raises where x is not a tensor.
  ---@param x tycho.Tensor any shape and dtype
  ---@return tycho.Tensor # shape and dtype of x; bool gives i64
  local function relu(x)
    check.real("relu", 1, x)
    return maximum(0, x) -- of equal ones the first: the gradient at 0 is 0
  end

  --- x above zero, else slope * x.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@param slope? number 0.01
  ---@return tycho.Tensor # shape and dtype of x
  local function leaky_relu(x, slope)
    check.float("leaky_relu", 1, x)
    slope = check.number("leaky_relu", 2, slope, "slope", 0.01)
    return where(x:gt(0), x, x * slope)
  end

  --- x above zero, else alpha * (exp(x) - 1).
  --- Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@param alpha? number 1
  ---@return tycho.Tensor # shape and dtype of x
  local function elu(x, alpha)
    local w, half = wide("elu", 1, x)
    alpha = check.number("elu", 2, alpha, "alpha", 1)
    return back(where(w:gt(0), w, expm1(minimum(w, 0)) * alpha), half)
  end

  --- x times the chance that a normal variable lies below x. Hendrycks, Gimpel 2016, arXiv:1606.08415.
  --- Raises where x is not floating, or for another form.
  ---@param x tycho.Tensor floats
  ---@param opts? {approximate: "none"|"tanh"|nil} "tanh": the paper's faster form
  ---@return tycho.Tensor # shape and dtype of x
  local function gelu(x, opts)
    local w, half = wide("gelu", 1, x)
    opts = check.options("gelu", opts, { approximate = "string" })
    local form = opts.approximate or "none"
    if form == "tanh" then
      local inner = (w + w * w * w * 0.044715) * math.sqrt(2 / math.pi)
      return back(w * 0.5 * (tanh(inner) + 1), half)
    elseif form ~= "none" then
      fail("gelu", "option approximate must be \"none\" or \"tanh\", got %s", check.show(form))
    end
    return back(w * 0.5 * (erf(w * math.sqrt(0.5)) + 1), half)
  end

  --- x * sigmoid(x), also called swish. Elfwing, Uchibe, Doya 2017, arXiv:1702.03118.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function silu(x)
    local w, half = wide("silu", 1, x)
    return back(w * sigmoid(w), half)
  end

  --- log(1 + exp(w)) without overflow, in w's dtype.
  --- Gradients at 0 count: 1 of maximum, -1/2 of the rest.
  local function soft(w) return maximum(w, 0) + log1p(exp(where(w:lt(0), w, -w))) end

  --- log(1 + exp(beta * x)) / beta: a smooth relu.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@param beta? number 1
  ---@return tycho.Tensor # shape and dtype of x
  local function softplus(x, beta)
    local w, half = wide("softplus", 1, x)
    beta = check.number("softplus", 2, beta, "beta", 1)
    if beta == 1 then return back(soft(w), half) end
    return back(soft(w * beta) / beta, half)
  end

  --- x * tanh(softplus(x)). Misra 2019, arXiv:1908.08681.
  --- Raises where x is not floating.
  ---@param x tycho.Tensor floats
  ---@return tycho.Tensor # shape and dtype of x
  local function mish(x)
    local w, half = wide("mish", 1, x)
    return back(w * tanh(soft(w)), half)
  end

  row { "relu", "x", relu, "the larger of x and 0", shape = "x", formula = "max(x, 0)", inplace = true, single = true }
  row { "leaky_relu", "x, slope = 0.01", leaky_relu, "x above zero, else slope * x", shape = "x", inplace = true }
  row { "elu", "x, alpha = 1", elu, "x above zero, else alpha * (exp(x) - 1)", shape = "x",
    formula = "Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289", inplace = true }
  row { "gelu", "x, {approximate = \"none\"}", gelu, "x times the chance that a normal variable lies below x",
    shape = "x", formula = "x / 2 * (1 + erf(x / sqrt(2))), Hendrycks, Gimpel 2016, arXiv:1606.08415", inplace = true }
  row { "silu", "x", silu, "x * sigmoid(x)", shape = "x",
    formula = "Elfwing, Uchibe, Doya 2017, arXiv:1702.03118", inplace = true }
  row { "softplus", "x, beta = 1", softplus, "log(1 + exp(beta * x)) / beta", shape = "x", inplace = true }
  row { "mish", "x", mish, "x * tanh(softplus(x))", shape = "x", formula = "Misra 2019, arXiv:1908.08681",
    inplace = true }

  ---------------------------------------------------------------------------------------------------------- softmax

  -- The maximum that is taken off changes no result, and so takes no part in gradients.

  --- Softmax over one dim: exp(x - max) / sum(exp(x - max)).
  --- Raises when x is not floating or dim is out of range.
  ---@param x tycho.Tensor floats, any shape
  ---@param dim? integer the last
  ---@return tycho.Tensor # shape and dtype of x
  local function softmax(x, dim)
    local w, half = whole("softmax", 1, x)
    dim = check.dim("softmax", dim, x.ndim, -1)
    if x:size(dim) == 0 then return back(w:clone(), half) end
    local e = exp(w - w:max(dim, true):detach())
    return back(e / e:sum(dim, true), half)
  end

  --- The logarithm of softmax, w in f32 or f64.
  local function log_probabilities(w, dim)
    local z = w - w:max(dim, true):detach()
    return z - log(exp(z):sum(dim, true))
  end

  --- The logarithm of softmax over one dim, exact for small probabilities.
  --- Raises where x is not floating or dim is out of range.
  ---@param x tycho.Tensor floats, any shape
  ---@param dim? integer the last
  ---@return tycho.Tensor # shape and dtype of x
  local function log_softmax(x, dim)
    local w, half = whole("log_softmax", 1, x)
    dim = check.dim("log_softmax", dim, x.ndim, -1)
    if x:size(dim) == 0 then return back(w:clone(), half) end
    return back(log_probabilities(w, dim), half)
  end

  row { "softmax", "x, dim = -1", softmax, "exp(x - max) / sum(exp(x - max)) over a dim", shape = "x", inplace = true }
  row { "log_softmax", "x, dim = -1", log_softmax, "the logarithm of softmax over a dim", shape = "x",
    formula = "z - log(sum(exp(z))), z = x - max(x)", inplace = true }

  ---------------------------------------------------------------------------------------------------------- norms

  --- Arguments of a norm: x in f32 or wider, its half dtype, the dims, their count, eps.
  local function norm_arguments(who, x, weight, bias, opts)
    local w, half = whole(who, 1, x)
    opts = check.options(who, opts, { dims = "any", eps = "number" })
    local dims = check.dims(who, opts.dims == nil and -1 or opts.dims, x.ndim)
    local n = 1
    for i = 1, #dims do n = n * x:size(dims[i]) end
    local sizes = x.shape
    for i, v in pairs { [2] = weight or nil, [3] = bias or nil } do
      check.tensor(who, i, v)
      local own = v.shape
      for d = 1, #own do
        local size = sizes[#sizes - #own + d]
        if not size or own[d] ~= size and own[d] ~= 1 then
          fail(who, "argument %d, %s, does not broadcast to %s", i, check.text(v), check.text(x))
        end
      end
    end
    return w, half, dims, n, opts.eps or 1e-5
  end

  --- Over the last dim (or dims): (x - mean) / sqrt(var + eps) * weight + bias, the variance with correction 0.
  --- Ba, Kiros, Hinton 2016, arXiv:1607.06450.
  --- Raises where x is not floating, a dim is out of range, or weight or bias does not broadcast to x.
  ---@param x tycho.Tensor floats
  ---@param weight? tycho.Tensor broadcasts to x
  ---@param bias? tycho.Tensor broadcasts to x
  ---@param opts? {dims: integer|integer[]|nil, eps: number?} the last dim, 1e-5
  ---@return tycho.Tensor # shape and dtype of x
  local function layer_norm(x, weight, bias, opts)
    if check.is_options(weight) then weight, opts = nil, weight
    elseif check.is_options(bias) then bias, opts = nil, bias end
    local w, half, dims, n, eps = norm_arguments("layer_norm", x, weight, bias, opts)
    local d = w - w:sum(dims, true) / n
    local y = d / sqrt((d * d):sum(dims, true) / n + eps)
    if weight then y = y * weight end
    if bias then y = y + bias end
    return back(y, half)
  end

  --- Over the last dim (or dims): x / sqrt(mean(x^2) + eps) * weight. Zhang, Sennrich 2019, arXiv:1910.07467.
  --- Raises where x is not floating, a dim is out of range, or the weight does not broadcast to x.
  ---@param x tycho.Tensor floats
  ---@param weight? tycho.Tensor broadcasts to x
  ---@param opts? {dims: integer|integer[]|nil, eps: number?} the last dim, 1e-5
  ---@return tycho.Tensor # shape and dtype of x
  local function rms_norm(x, weight, opts)
    if check.is_options(weight) then weight, opts = nil, weight end
    local w, half, dims, n, eps = norm_arguments("rms_norm", x, weight, nil, opts)
    local y = w / sqrt((w * w):sum(dims, true) / n + eps)
    if weight then y = y * weight end
    return back(y, half)
  end

  --- Elements zeroed by chance p, the others divided by 1 - p; takes a stream of random numbers when training.
  --- Srivastava and others 2014, JMLR 15.
  --- Raises where x is not floating, or p lies outside of 0 to 1.
  ---@param x tycho.Tensor floats
  ---@param p? number 0.5, in 0..1
  ---@param training? boolean true; false gives x
  ---@return tycho.Tensor # shape and dtype of x
  local function dropout(x, p, training)
    check.float("dropout", 1, x)
    p = check.number("dropout", 2, p, "p", 0.5)
    if not (p >= 0 and p <= 1) then fail("dropout", "argument 2 (p) must be in 0..1, got %.14g", p) end
    if not check.boolean("dropout", 3, training, "training", true) then return x end
    local kept = ty.rand_like(x, { dtype = "f32" }):ge(p)
    return where(kept, x * (1 / math.max(1 - p, 1e-30)), 0)
  end

  row { "layer_norm", "x, weight, bias, {dims = -1, eps = 1e-5}", layer_norm,
    "(x - mean) / sqrt(var + eps) * weight + bias over the last dims", shape = "x",
    formula = "Ba, Kiros, Hinton 2016, arXiv:1607.06450" }
  row { "rms_norm", "x, weight, {dims = -1, eps = 1e-5}", rms_norm,
    "x / sqrt(mean(x^2) + eps) * weight over the last dims", shape = "x",
    formula = "Zhang, Sennrich 2019, arXiv:1910.07467" }
  row { "dropout", "x, p = 0.5, training = true", dropout, "elements zeroed by chance p, the others divided by 1 - p",
    shape = "x", formula = "Srivastava and others 2014, JMLR 15", inplace = true }
end
