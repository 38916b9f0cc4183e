--- neural.lua -- composites of neural networks: activations, softmax, norms, dropout, losses.
-- Activations and norms take floats. f16 and bf16 are computed in f32 and rounded once; within ty.autocast losses,
-- softmax and norms are not rounded (nn/autocast.lua, rule 2).

---@param ty table the core module
---@param check table check.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, is_tensor = check.fail, ty.is_tensor
  local where, maximum, minimum, exp, expm1 = ty.where, ty.maximum, ty.minimum, ty.exp, ty.expm1
  local log, log1p, tanh, erf = ty.log, ty.log1p, ty.tanh, ty.erf
  local sigmoid, sqrt, ne, abs = ty.sigmoid, ty.sqrt, ty.ne, ty.abs
  local check_index = ty.internals.check_index
  local halves, autocast = { f16 = true, bf16 = true }, ty._half

  --- A float tensor, in f32 when it is of half floats; then that dtype follows.
  local function wide(who, i, x)
    check.float(who, i, x)
    local dtype = x.dtype
    if halves[dtype] then return x:to("f32"), dtype end
    return x
  end

  --- The same for what stays in f32 within ty.autocast.
  local function whole(who, i, x)
    local w, half = wide(who, i, x)
    if half and autocast() then half = nil end
    return w, half
  end

  local function back(y, dtype) return dtype and y:to(dtype) or y end

  ---------------------------------------------------------------------------------------------------------- activations

  --- The larger of x and 0. NaN stays.
  --- Raises where x is not a tensor.
  ---@param x tycho.Tensor any shape and dtype
  ---@return tycho.Tensor # shape and dtype of x; bool gives i64
  local function relu(x)
    check.tensor("relu", 1, x)
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

  ---------------------------------------------------------------------------------------------------------- losses

  -- Each gives the dtype of its x; within ty.autocast f32 for half floats.

  --- The losses as asked for: "mean", "sum" or "none". count: what a mean divides by, if not their number.
  local function reduced(who, loss, reduction, count)
    reduction = reduction or "mean"
    if reduction == "none" then return loss end
    if reduction == "sum" then return loss:sum() end
    if reduction == "mean" then return loss:sum() / (count or loss:numel()) end
    return fail(who, "option reduction must be \"mean\", \"sum\" or \"none\", got %s", check.show(reduction))
  end

  local loss_options = { reduction = "string", dim = "number", ignore_index = "number", label_smoothing = "number" }

  --- Checks labels for x's class dim and gives them with that dim of size 1; and which are not ignored.
  local function labels_for(who, x, target, dim, opts)
    if target.dtype == "bool" or target.dtype:find("f", 1, true) then
      fail(who, "labels must be integers, got %s (use :to(\"i64\"))", check.text(target))
    end
    local want, got = x.shape, target.shape
    table.remove(want, dim)
    local same = #want == #got
    for d = 1, #want do same = same and want[d] == got[d] end
    if not same then fail(who, "labels %s do not fit %s", check.text(target), check.text(x)) end
    local labels, ignored, size = target:unsqueeze(dim), opts.ignore_index, x:size(dim)
    if not ignored then return labels end
    -- Checked as they are given, so that a capture leaves that to later calls; then it is seen that they are in range.
    local later = check_index(who, labels, size, ignored)
    local counted = ne(labels, ignored)
    labels = where(counted, labels:to("i64"), 1)
    if later then return labels, counted end -- gather looks at them
    return where(labels:lt(0), labels + (size + 1), labels):clamp(1, size), counted
  end

  --- The losses of labels under log-probabilities lp, reduced.
  local function label_loss(who, lp, x, target, dim, opts)
    local labels, counted = labels_for(who, x, target, dim, opts)
    local loss = -check.named(who, "gather", ty.gather, lp, dim, labels)
    local smoothing = opts.label_smoothing or 0
    if smoothing ~= 0 then
      loss = loss * (1 - smoothing) - lp:sum(dim, true) * (smoothing / x:size(dim))
    end
    if counted then loss = where(counted, loss, 0) end
    return reduced(who, loss:squeeze(dim), opts.reduction, counted and counted:sum())
  end

  --- Minus the log-probability of each label.
  --- Options: reduction = "mean", "sum" or "none"; dim = -1, of the classes; ignore_index, a label that counts for
  --- nothing.
  --- Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to
  --- the number of classes.
  ---@param x tycho.Tensor floats: log-probabilities, the classes in the last dim
  ---@param target tycho.Tensor integer labels from 1, sizes of x without the class dim
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?}
  ---@return tycho.Tensor # 0-d, or the sizes of the labels
  local function nll_loss(x, target, opts)
    local who = "nll_loss"
    local w, half = whole(who, 1, x)
    check.tensor(who, 2, target)
    opts = check.options(who, opts, { reduction = "string", dim = "number", ignore_index = "number" })
    local dim = check.dim(who, opts.dim, x.ndim, -1)
    return back(label_loss(who, w, x, target, dim, opts), half)
  end

  --- Minus the log-probability of each label under softmax(x); or of probabilities: -sum(target * log_softmax(x)).
  --- Options: reduction = "mean", "sum" or "none"; dim = -1, of the classes; ignore_index, a label that counts for
  --- nothing; label_smoothing = 0, the share that is spread over all classes.
  --- Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to
  --- the number of classes; where probabilities have other sizes than x.
  ---@param x tycho.Tensor floats: logits, the classes in the last dim
  ---@param target tycho.Tensor integer labels from 1, sizes of x without the class dim; or floats, shape of x
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, label_smoothing: number?}
  ---@return tycho.Tensor # 0-d, or the sizes of x without the class dim
  local function cross_entropy(x, target, opts)
    local who = "cross_entropy"
    local w, half = whole(who, 1, x)
    check.tensor(who, 2, target)
    opts = check.options(who, opts, loss_options)
    local share = opts.label_smoothing or 0
    if not (share >= 0 and share <= 1) then
      fail(who, "option label_smoothing must be in 0..1, got %.14g", share)
    end
    local dim = check.dim(who, opts.dim, x.ndim, -1)
    if x:size(dim) == 0 then fail(who, "no classes in %s", check.text(x)) end
    local lp = log_probabilities(w, dim)
    if not target.dtype:find("f", 1, true) then return back(label_loss(who, lp, x, target, dim, opts), half) end
    if check.text(target):match "%b[]" ~= check.text(x):match "%b[]" then
      fail(who, "probabilities %s do not fit %s", check.text(target), check.text(x))
    end
    if halves[target.dtype] then target = target:to("f32") end
    if share ~= 0 then target = target * (1 - share) + share / x:size(dim) end
    return back(reduced(who, -(lp * target):sum(dim), opts.reduction), half)
  end

  --- Predictions [n, 1] beside targets [n] would be n x n losses: one of the two must have the shape of all.
  local function check_pair(who, x, y)
    if not is_tensor(y) then return end
    local wider, higher = false, false
    for d = 1, math.min(x.ndim, y.ndim) do
      local a, b = x:size(-d), y:size(-d)
      wider, higher = wider or a < b, higher or b < a
    end
    for d = y.ndim + 1, x.ndim do higher = higher or x:size(-d) > 1 end
    for d = x.ndim + 1, y.ndim do wider = wider or y:size(-d) > 1 end
    if wider and higher then
      fail(who, "%s beside %s: each would be repeated to fit the other (reshape one of them)", check.text(x),
        check.text(y))
    end
  end

  --- The losses of x beside y under a function of both in f32 or wider, reduced. count: what a mean divides by.
  local function pair_loss(who, x, y, reduction, fn, count)
    local w, half = whole(who, 1, x)
    check.fits(who, 2, x, y)
    check_pair(who, x, y)
    if is_tensor(y) and halves[y.dtype] then y = y:to("f32") end
    return back(reduced(who, fn(w, y), reduction, count), half)
  end

  --- The squared differences, reduced.
  --- Raises where sizes differ so that each would be repeated to fit the other, or the reduction is not known.
  ---@param x tycho.Tensor
  ---@param y tycho.Tensor|number broadcasts to x, or x to it
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil} "mean"
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function mse_loss(x, y, opts)
    opts = check.options("mse_loss", opts, { reduction = "string" })
    return pair_loss("mse_loss", x, y, opts.reduction, function(a, b)
      local d = a - b
      return d * d
    end)
  end

  --- The magnitudes of the differences, reduced.
  --- Raises where sizes differ so that each would be repeated to fit the other, or the reduction is not known.
  ---@param x tycho.Tensor
  ---@param y tycho.Tensor|number broadcasts to x, or x to it
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil} "mean"
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function l1_loss(x, y, opts)
    opts = check.options("l1_loss", opts, { reduction = "string" })
    return pair_loss("l1_loss", x, y, opts.reduction, function(a, b) return abs(a - b) end)
  end

  --- A share that must be above zero.
  local function positive(who, name, v)
    if v <= 0 then fail(who, "option %s must be above 0, got %.14g", name, v) end
    return v
  end

  --- Half the squared difference up to delta, beyond it delta * (|difference| - delta / 2). Huber 1964.
  --- Raises where sizes do not fit each other, delta is not above 0, or the reduction is not known.
  ---@param x tycho.Tensor
  ---@param y tycho.Tensor|number broadcasts to x, or x to it
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, delta: number?} delta: 1
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function huber_loss(x, y, opts)
    opts = check.options("huber_loss", opts, { reduction = "string", delta = "number" })
    local delta = positive("huber_loss", "delta", opts.delta or 1)
    return pair_loss("huber_loss", x, y, opts.reduction, function(a, b)
      local d = abs(a - b)
      return where(d:le(delta), d * d * 0.5, (d - delta * 0.5) * delta)
    end)
  end

  --- Huber's loss divided by beta: half the squared difference over beta, beyond beta the difference less beta / 2.
  --- Girshick 2015, arXiv:1504.08083.
  --- Raises where sizes do not fit each other, beta is negative, or the reduction is not known.
  ---@param x tycho.Tensor
  ---@param y tycho.Tensor|number broadcasts to x, or x to it
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, beta: number?} beta: 1
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function smooth_l1_loss(x, y, opts)
    opts = check.options("smooth_l1_loss", opts, { reduction = "string", beta = "number" })
    local beta = positive("smooth_l1_loss", "beta", opts.beta or 1)
    return pair_loss("smooth_l1_loss", x, y, opts.reduction, function(a, b)
      local d = abs(a - b)
      return where(d:lt(beta), d * d * 0.5 / beta, d - beta * 0.5)
    end)
  end

  --- Of logits and chances in 0..1: -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))), without overflow.
  --- Options: reduction; weight, which multiplies the losses; pos_weight, which multiplies those of y.
  --- Raises where sizes do not fit each other, or the reduction is not known.
  ---@param x tycho.Tensor logits
  ---@param y tycho.Tensor|number broadcasts to x, or x to it
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil,
  ---  pos_weight: tycho.Tensor|number|nil} tensors or numbers that broadcast with x
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function bce_with_logits(x, y, opts)
    local who = "bce_with_logits"
    opts = check.options(who, opts, { reduction = "string", weight = "any", pos_weight = "any" })
    check.float(who, 1, x)
    local weight, pos = opts.weight, opts.pos_weight
    if weight ~= nil then check.fits(who, 3, x, weight) end
    if pos ~= nil then check.fits(who, 3, x, pos) end
    return pair_loss(who, x, y, opts.reduction, function(a, b)
      local loss
      if pos == nil then
        loss = maximum(a, 0) - a * b + log1p(exp(-abs(a)))
      else
        loss = (1 - b) * a + ((pos - 1) * b + 1) * (log1p(exp(-abs(a))) + maximum(-a, 0))
      end
      return weight ~= nil and loss * weight or loss
    end)
  end

  --- How far target, a distribution, is from x, logarithms of one: target * (log(target) - x); 0 where target is.
  --- Options: reduction, also "batchmean": the sum divided by the size of dim 1; log_target = false: target holds
  --- logarithms too. Kullback, Leibler 1951.
  --- Raises where sizes do not fit each other, or the reduction is not known.
  ---@param x tycho.Tensor log-probabilities
  ---@param target tycho.Tensor broadcasts to x, or x to it
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, log_target: boolean?}
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function kl_div(x, target, opts)
    local who = "kl_div"
    opts = check.options(who, opts, { reduction = "string", log_target = "boolean" })
    check.float(who, 1, x)
    check.float(who, 2, target)
    local reduction, count = opts.reduction, nil
    if reduction == "batchmean" then
      if x.ndim == 0 then fail(who, "\"batchmean\" needs a batch, got %s", check.text(x)) end
      reduction, count = "mean", x:size(1)
    end
    return pair_loss(who, x, target, reduction, function(a, b)
      if opts.log_target then return exp(b) * (b - a) end
      local some = b:gt(0)
      return where(some, b * (log(where(some, b, 1)) - a), 0)
    end, count)
  end

  row { "nll_loss", "x, target, {reduction = \"mean\", dim = -1, ignore_index}", nll_loss,
    "minus the log-probability of each label", shape = "0-d, or the labels'", dtype = "float" }
  row { "cross_entropy", "x, target, {reduction = \"mean\", dim = -1, ignore_index, label_smoothing = 0}",
    cross_entropy, "minus the log-probability of each label under softmax(x)",
    shape = "0-d, or the labels'", dtype = "float", formula = "nll_loss(log_softmax(x), target)" }
  row { "mse_loss", "x, y, {reduction = \"mean\"}", mse_loss, "the squared differences, their mean by default",
    shape = "0-d, or the broadcast of x and y", dtype = "float" }
  row { "l1_loss", "x, y, {reduction = \"mean\"}", l1_loss, "the magnitudes of the differences, their mean by default",
    shape = "0-d, or the broadcast of x and y", dtype = "float" }
  row { "huber_loss", "x, y, {reduction = \"mean\", delta = 1}", huber_loss,
    "half the squared difference up to delta, linear beyond", shape = "0-d, or the broadcast of x and y",
    dtype = "float", formula = "d <= delta: d^2 / 2, else delta (d - delta / 2), d = |x - y|, Huber 1964" }
  row { "smooth_l1_loss", "x, y, {reduction = \"mean\", beta = 1}", smooth_l1_loss,
    "half the squared difference over beta up to beta, linear beyond", shape = "0-d, or the broadcast of x and y",
    dtype = "float", formula = "d < beta: d^2 / (2 beta), else d - beta / 2, d = |x - y|" }
  row { "bce_with_logits", "x, y, {reduction = \"mean\", weight, pos_weight}", bce_with_logits,
    "cross entropy of chances y under sigmoid(x)", shape = "0-d, or the broadcast of x and y", dtype = "float",
    formula = "max(x, 0) - x y + log(1 + exp(-|x|))" }
  row { "kl_div", "x, target, {reduction = \"mean\", log_target = false}", kl_div,
    "how far the distribution target is from the log-probabilities x", shape = "0-d, or the broadcast of x and target",
    dtype = "float", formula = "target (log(target) - x), Kullback, Leibler 1951" }
end
