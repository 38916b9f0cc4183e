--- losses.lua -- composites: losses. As modules they are in nn/losses.lua.
-- Each gives the dtype of its x; f16 and bf16 are computed in f32 and rounded once, within ty.autocast not rounded.
-- Options are tables: reduction = "mean", "sum" or "none". Labels are integers from 1.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, is_tensor = check.fail, ty.is_tensor
  local where, maximum, exp, log, log1p = ty.where, ty.maximum, ty.exp, ty.log, ty.log1p
  local ne, abs, sqrt, softplus = ty.ne, ty.abs, ty.sqrt, ty.softplus
  local check_index, grad, tracked = ty.internals.check_index, ty.internals.grad, ty.internals.vmap.tracked
  local half_floats = require("tycho.half")(ty, check)
  local whole, back, halves = half_floats.whole, half_floats.back, half_floats.halves

  --- The losses as asked for: "mean", "sum" or "none". count: what a mean divides by, if not their number.
  local function reduced(who, loss, reduction, count)
    if ty.is_complex(loss) then fail(who, "not for complex numbers (a loss is a real number: take :abs())") end
    reduction = reduction or "mean"
    if reduction == "none" then return loss end
    if reduction == "sum" then return loss:sum() end
    if reduction == "mean" then return loss:sum() / (count or loss:numel()) end
    return fail(who, "option reduction must be \"mean\", \"sum\" or \"none\", got %s", check.show(reduction))
  end

  local loss_options = { reduction = "string", dim = "number", ignore_index = "number", label_smoothing = "number",
    weight = "any" }

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

  --- The weights of classes beside lp, in its dtype; nil where there are none.
  local function class_weights(who, weight, lp, dim)
    if weight == nil then return nil end
    if not is_tensor(weight) or weight.ndim ~= 1 or weight:size(1) ~= lp:size(dim) then
      fail(who, "option weight must be a tensor [%d], one number for each class, got %s", lp:size(dim),
        check.show(weight))
    end
    local sizes = {}
    for d = 1, lp.ndim do sizes[d] = d == dim and weight:size(1) or 1 end
    return weight:to(lp.dtype):reshape(sizes)
  end

  --- The losses of labels under log-probabilities lp, reduced. A mean divides by the weights of the labels.
  local function label_loss(who, lp, x, target, dim, opts)
    local labels, counted = labels_for(who, x, target, dim, opts)
    local loss = -check.named(who, "gather", ty.gather, lp, dim, labels)
    local weight, own = class_weights(who, opts.weight, lp, dim), nil
    if weight then
      own = weight:expand(lp.shape):gather(dim, labels)
      loss = loss * own
    end
    local smoothing = opts.label_smoothing or 0
    if smoothing ~= 0 then
      loss = loss * (1 - smoothing) - (weight and lp * weight or lp):sum(dim, true) * (smoothing / x:size(dim))
    end
    if counted then
      loss = where(counted, loss, 0)
      own = own and where(counted, own, 0)
    end
    return reduced(who, loss:squeeze(dim), opts.reduction, own and own:sum() or counted and counted:sum())
  end

  --- Minus the log-probability of each label.
  --- Options: reduction = "mean", "sum" or "none"; dim = -1, of the classes; ignore_index, a label that counts for
  --- nothing; weight [classes], which multiplies the losses of each class: a mean divides by those of the labels.
  --- Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to
  --- the number of classes; where weights are not one for each class.
  ---@param x tycho.Tensor floats: log-probabilities, the classes in the last dim
  ---@param target tycho.Tensor integer labels from 1, sizes of x without the class dim
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, weight: tycho.Tensor?}
  ---@return tycho.Tensor # 0-d, or the sizes of the labels
  local function nll_loss(x, target, opts)
    local who = "nll_loss"
    local w, half = whole(who, 1, x)
    check.tensor(who, 2, target)
    opts = check.options(who, opts,
      { reduction = "string", dim = "number", ignore_index = "number", weight = "any" })
    local dim = check.dim(who, opts.dim, x.ndim, -1)
    return back(label_loss(who, w, x, target, dim, opts), half)
  end

  --- Minus the log-probability of each label under softmax(x); or of probabilities: -sum(target * log_softmax(x)).
  --- Options: reduction = "mean", "sum" or "none"; dim = -1, of the classes; ignore_index, a label that counts for
  --- nothing; label_smoothing = 0, the share that is spread over all classes; weight [classes], which multiplies the
  --- losses of each class: of labels a mean divides by those of the labels.
  --- Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to
  --- the number of classes; where probabilities have other sizes than x, or weights are not one for each class.
  ---@param x tycho.Tensor floats: logits, the classes in the last dim
  ---@param target tycho.Tensor integer labels from 1, sizes of x without the class dim; or floats, shape of x
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, label_smoothing: number?,
  ---  weight: tycho.Tensor?}
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
    local lp = ty.log_softmax(w, dim)
    if not target.dtype:find("f", 1, true) then return back(label_loss(who, lp, x, target, dim, opts), half) end
    if check.text(target):match "%b[]" ~= check.text(x):match "%b[]" then
      fail(who, "probabilities %s do not fit %s", check.text(target), check.text(x))
    end
    if halves[target.dtype] then target = target:to("f32") end
    if share ~= 0 then target = target * (1 - share) + share / x:size(dim) end
    local weight = class_weights(who, opts.weight, lp, dim)
    if weight then target = target * weight end
    return back(reduced(who, -(lp * target):sum(dim), opts.reduction), half)
  end

  --- Predictions [n, 1] beside targets [n] would be n x n losses: one of the two must have the shape of all.
  local function check_pair(who, x, y)
    if not is_tensor(y) then return end
    if ty.is_complex(y) then check.float(who, 2, y) end
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
  local function above_zero(who, name, v)
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
    local delta = above_zero("huber_loss", "delta", opts.delta or 1)
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
    local beta = above_zero("smooth_l1_loss", "beta", opts.beta or 1)
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

  row { "nll_loss", "x, target, {reduction = \"mean\", dim = -1, ignore_index, weight}", nll_loss,
    "minus the log-probability of each label", shape = "0-d, or the labels'", dtype = "float" }
  row { "cross_entropy", "x, target, {reduction = \"mean\", dim = -1, ignore_index, label_smoothing = 0, weight}",
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

  ---------------------------------------------------------------------------------------------------------- chances

  local LEAST = -100 -- of a logarithm

  local function log_chances(x) return maximum(log(x), LEAST), maximum(log1p(-x), LEAST) end

  --- Gradients where logarithms were cut are those of chances that are just not 0 or 1, as PyTorch's.
  local function bce_back(saved, g)
    local x, y = saved[1], saved[2]
    local p, q = log_chances(x)
    return g * (x - y) / maximum((1 - x) * x, 1e-12), g * (q - p)
  end

  local function bce(x, y)
    local p, q = log_chances(x)
    return (y - 1) * q - y * p
  end

  local function tracked_bce(x, y)
    if not (grad.mode() and (tracked(x) or tracked(y))) then return bce(x, y) end
    return grad.pure(function(a, b) return bce(a, b), { a, b } end, bce_back)(x, y)
  end

  --- Of chances x and y in 0..1: -(y log x + (1 - y) log(1 - x)), logarithms of at least -100. Of logits:
  --- ty.bce_with_logits, which is exact where chances round to 0 or 1. Outside of 0..1 the loss is NaN.
  --- Options: reduction; weight, which multiplies the losses.
  --- Raises where x and y have not the same sizes, or the reduction is not known.
  ---@param x tycho.Tensor chances
  ---@param y tycho.Tensor the sizes of x
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil} weight: broadcasts with x
  ---@return tycho.Tensor # 0-d, or the sizes of x
  local function binary_cross_entropy(x, y, opts)
    local who = "binary_cross_entropy"
    opts = check.options(who, opts, { reduction = "string", weight = "any" })
    local w, half = whole(who, 1, x)
    local t = whole(who, 2, y)
    if check.text(x):match "%b[]" ~= check.text(y):match "%b[]" then
      fail(who, "targets %s do not fit %s", check.text(y), check.text(x))
    end
    local weight = opts.weight
    if weight ~= nil then check.fits(who, 3, x, weight) end
    local loss = tracked_bce(w, t.dtype == w.dtype and t or t:to(w.dtype))
    return back(reduced(who, weight ~= nil and loss * weight or loss, opts.reduction), half)
  end

  --- log(1 + exp(-y x)) of targets 1 and -1.
  --- Raises where sizes do not fit each other, or the reduction is not known.
  ---@param x tycho.Tensor floats
  ---@param y tycho.Tensor|number 1 or -1, broadcasts to x, or x to it
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil} "mean"
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function soft_margin_loss(x, y, opts)
    opts = check.options("soft_margin_loss", opts, { reduction = "string" })
    return pair_loss("soft_margin_loss", x, y, opts.reduction, function(a, b) return softplus(-(b * a)) end)
  end

  --- The mean over classes of bce_with_logits: several labels a sample.
  --- Options: reduction, over the samples; weight, of the classes.
  --- Raises where sizes do not fit each other, or the reduction is not known.
  ---@param x tycho.Tensor logits [..., classes]
  ---@param y tycho.Tensor 0 or 1, the sizes of x
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor?} weight: [classes]
  ---@return tycho.Tensor # 0-d, or the sizes of x without the last dim
  local function multilabel_soft_margin_loss(x, y, opts)
    local who = "multilabel_soft_margin_loss"
    opts = check.options(who, opts, { reduction = "string", weight = "any" })
    local w, half = whole(who, 1, x)
    check.tensor(who, 2, y)
    if x.ndim < 1 or check.text(x):match "%b[]" ~= check.text(y):match "%b[]" then
      fail(who, "targets %s do not fit %s", check.text(y), check.text(x))
    end
    if opts.weight ~= nil then check.fits(who, 3, x, opts.weight) end
    local loss = y * softplus(-w) + (1 - y) * softplus(w)
    if opts.weight ~= nil then loss = loss * opts.weight end
    return back(reduced(who, loss:sum(-1) / x:size(-1), opts.reduction), half)
  end

  ---------------------------------------------------------------------------------------------------------- margins

  --- Checks that these tensors of floats broadcast all together, and gives them in f32 or wider; the dtype of the
  --- first where it is of half floats.
  local function together(who, ...)
    local list, n, half = { ... }, select("#", ...), nil
    for i = 1, n do
      local w, dtype = whole(who, i, list[i])
      if i == 1 then half = dtype end
      list[i] = w
    end
    check.together(who, ...)
    return half, unpack(list, 1, n)
  end

  --- max(0, margin - y (a - b)): a is to lie above b where y is 1, below where it is -1.
  --- Raises where sizes do not broadcast, or the reduction is not known.
  ---@param a tycho.Tensor floats
  ---@param b tycho.Tensor floats
  ---@param y tycho.Tensor floats: 1 or -1
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} margin: 0
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function margin_ranking_loss(a, b, y, opts)
    local who = "margin_ranking_loss"
    opts = check.options(who, opts, { reduction = "string", margin = "number" })
    local half, p, q, t = together(who, a, b, y)
    return back(reduced(who, maximum((opts.margin or 0) - t * (p - q), 0), opts.reduction), half)
  end

  --- x where y is 1, max(0, margin - x) where it is -1: x is a distance.
  --- Raises where sizes do not fit each other, or the reduction is not known.
  ---@param x tycho.Tensor floats
  ---@param y tycho.Tensor|number 1 or -1, broadcasts to x, or x to it
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} margin: 1
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function hinge_embedding_loss(x, y, opts)
    opts = check.options("hinge_embedding_loss", opts, { reduction = "string", margin = "number" })
    local margin = opts.margin or 1
    return pair_loss("hinge_embedding_loss", x, y, opts.reduction, function(a, b)
      if not is_tensor(b) then return (b == 1 and 0 or maximum(margin - a, 0)) + (b == -1 and 0 or a) end
      return where(ne(b, 1), maximum(margin - a, 0), 0) + where(ne(b, -1), a, 0)
    end)
  end

  --- 1 - cos(a, b) where y is 1, max(0, cos(a, b) - margin) where it is -1, of vectors in the last dim.
  --- Raises where sizes do not broadcast, or the reduction is not known.
  ---@param a tycho.Tensor floats [..., features]
  ---@param b tycho.Tensor floats [..., features]
  ---@param y tycho.Tensor 1 or -1, [...]
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} margin: 0
  ---@return tycho.Tensor # 0-d, or the sizes of y
  local function cosine_embedding_loss(a, b, y, opts)
    local who = "cosine_embedding_loss"
    opts = check.options(who, opts, { reduction = "string", margin = "number" })
    local half, p, q = together(who, a, b)
    check.tensor(who, 3, y)
    if a.ndim < 1 or b.ndim < 1 then fail(who, "arguments 1 and 2 must have features, got %s", check.text(a)) end
    local tiny = 1e-12
    local cos = (p * q):sum(-1) / sqrt(((p * p):sum(-1) + tiny) * ((q * q):sum(-1) + tiny))
    check.together(who, cos, y)
    local margin = opts.margin or 0
    local loss = where(y:eq(1), 1 - cos, 0) + where(y:eq(-1), maximum(cos - margin, 0), 0)
    return back(reduced(who, loss, opts.reduction), half)
  end

  --- The norm of a - b + eps over the last dim.
  local function distance(a, b, p, eps) return (a - b + eps):norm(p, -1) end

  --- max(0, margin + |anchor - positive| - |anchor - negative|) of vectors in the last dim.
  --- Options: margin = 1; p = 2, of the norm; eps = 1e-6, added to the differences; swap = false: the distance of
  --- positive and negative where it is the smaller one (Balntas and others 2016); reduction.
  --- Raises where sizes do not broadcast, margin is not above 0, or the reduction is not known.
  ---@param anchor tycho.Tensor floats [..., features]
  ---@param positive tycho.Tensor floats [..., features]
  ---@param negative tycho.Tensor floats [..., features]
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?, p: number?, eps: number?, swap: boolean?}
  ---@return tycho.Tensor # 0-d, or the sizes without features
  local function triplet_margin_loss(anchor, positive, negative, opts)
    local who = "triplet_margin_loss"
    opts = check.options(who, opts, { reduction = "string", margin = "number", p = "number", eps = "number",
      swap = "boolean" })
    local half, a, b, c = together(who, anchor, positive, negative)
    if a.ndim < 1 then fail(who, "argument 1 must have features, got %s", check.text(anchor)) end
    local margin, p, eps = above_zero(who, "margin", opts.margin or 1), opts.p or 2, opts.eps or 1e-6
    local far = distance(a, c, p, eps)
    if opts.swap then far = ty.minimum(far, distance(b, c, p, eps)) end
    return back(reduced(who, maximum(margin + distance(a, b, p, eps) - far, 0), opts.reduction), half)
  end

  --- The mean over classes of max(0, margin - x[label] + x[class])^p, the label's own left out.
  --- Options: p = 1, or 2; margin = 1; weight, of the labels' classes; reduction.
  --- Raises where labels do not fit x or lie outside of its classes, p is not 1 or 2, or the reduction is not known.
  ---@param x tycho.Tensor floats [..., classes]
  ---@param target tycho.Tensor integer labels from 1, [...]
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, p: 1|2|nil, margin: number?, weight: tycho.Tensor?} weight:
  ---  [classes]
  ---@return tycho.Tensor # 0-d, or the sizes of the labels
  local function multi_margin_loss(x, target, opts)
    local who = "multi_margin_loss"
    opts = check.options(who, opts, { reduction = "string", p = "number", margin = "number", weight = "any" })
    local w, half = whole(who, 1, x)
    check.tensor(who, 2, target)
    local p, margin, weight = opts.p or 1, opts.margin or 1, opts.weight
    if p ~= 1 and p ~= 2 then fail(who, "option p must be 1 or 2, got %.14g", p) end
    if x.ndim < 1 then fail(who, "no classes in %s", check.text(x)) end
    local labels = labels_for(who, x, target, x.ndim, {})
    local loss = maximum(0, margin - check.named(who, "gather", ty.gather, w, -1, labels) + w)
    if p == 2 then loss = loss * loss end
    if weight ~= nil then
      check.tensor(who, 3, weight)
      if weight.ndim ~= 1 or weight:size(1) ~= x:size(-1) then
        fail(who, "option weight must be [%d], got %s", x:size(-1), check.text(weight))
      end
      loss = loss * weight:index_select(1, labels:reshape(-1)):reshape(labels.shape)
    end
    local other = ne(ty.range(1, x:size(-1), 1, { dtype = "i64", device = x.device }), labels)
    return back(reduced(who, where(other, loss, 0):sum(-1) / x:size(-1), opts.reduction), half)
  end

  --- Several labels a sample: the sum of max(0, 1 - x[label] + x[class]) over labels, and over classes that are no
  --- label, divided by the number of classes.
  --- Raises where labels have not the sizes of x, or the reduction is not known.
  ---@param x tycho.Tensor floats [..., classes]
  ---@param target tycho.Tensor integer labels from 1, [..., classes]: those before the first 0 count
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil} "mean"
  ---@return tycho.Tensor # 0-d, or the sizes of x without classes
  local function multilabel_margin_loss(x, target, opts)
    local who = "multilabel_margin_loss"
    opts = check.options(who, opts, { reduction = "string" })
    local w, half = whole(who, 1, x)
    check.tensor(who, 2, target)
    if target.dtype == "bool" or target.dtype:find("f", 1, true) then
      fail(who, "labels must be integers, got %s (use :to(\"i64\"))", check.text(target))
    end
    if x.ndim < 1 or check.text(x):match "%b[]" ~= check.text(target):match "%b[]" then
      fail(who, "labels %s do not fit %s", check.text(target), check.text(x))
    end
    local n = x:size(-1)
    local counts = target:gt(0):to("i64"):cumprod(-1):gt(0)
    local own = target:unsqueeze(-1):eq(ty.range(1, n, 1, { dtype = "i64", device = x.device }))
    own = own:logical_and(counts:unsqueeze(-1)) -- [..., label, class]
    local chosen = where(own, w:unsqueeze(-2), 0):sum(-1) -- x[label]
    local others = own:any(-2):logical_not()
    local loss = maximum(0, 1 - chosen:unsqueeze(-1) + w:unsqueeze(-2))
    local pairs_counted = counts:unsqueeze(-1):logical_and(others:unsqueeze(-2))
    return back(reduced(who, where(pairs_counted, loss, 0):sum({ -2, -1 }) / n, opts.reduction), half)
  end

  ---------------------------------------------------------------------------------------------------------- likelihoods

  --- Minus the log-likelihood of target under a normal distribution: (log(var) + (x - target)^2 / var) / 2. Nix,
  --- Weigend 1994.
  --- Options: full = false: with the constant log(2 pi) / 2; eps = 1e-6: variances below count as eps; reduction.
  --- Raises where sizes do not broadcast, eps is not above 0, or the reduction is not known.
  ---@param x tycho.Tensor floats: means
  ---@param target tycho.Tensor floats
  ---@param var tycho.Tensor|number variances, which broadcast to x; or the sizes of x without its last dim
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, full: boolean?, eps: number?}
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function gaussian_nll_loss(x, target, var, opts)
    local who = "gaussian_nll_loss"
    opts = check.options(who, opts, { reduction = "string", full = "boolean", eps = "number" })
    local half, a, b = together(who, x, target)
    local eps = above_zero(who, "eps", opts.eps or 1e-6)
    local v
    if type(var) == "number" then
      v = ty.full({}, var, { dtype = a.dtype, device = a.device })
    else
      v = whole(who, 3, var)
      if v.ndim > 0 and v.ndim == x.ndim - 1 and v:size(-1) == x:size(-2) then v = v:unsqueeze(-1) end
    end
    check.together(who, x, target, v)
    v = where(v:lt(eps), eps + (v - v:detach()), v) -- the gradient is that of v
    local d = a - b
    local loss = (log(v) + d * d / v) * 0.5
    if opts.full then loss = loss + 0.5 * math.log(2 * math.pi) end
    return back(reduced(who, loss, opts.reduction), half)
  end

  --- Minus the log-likelihood of counts under a Poisson distribution: exp(x) - target * x.
  --- Options: log_input = true; false: x is the mean itself, x - target * log(x + eps); full = false: with Stirling's
  --- approximation of log(target!) for targets above 1; eps = 1e-8; reduction.
  --- Raises where sizes do not fit each other, or the reduction is not known.
  ---@param x tycho.Tensor floats
  ---@param target tycho.Tensor|number counts, broadcast to x, or x to them
  ---@param opts? {reduction: "mean"|"sum"|"none"|nil, log_input: boolean?, full: boolean?, eps: number?}
  ---@return tycho.Tensor # 0-d, or the broadcast shape
  local function poisson_nll_loss(x, target, opts)
    local who = "poisson_nll_loss"
    opts = check.options(who, opts, { reduction = "string", log_input = "boolean", full = "boolean", eps = "number" })
    local eps = opts.eps or 1e-8
    return pair_loss(who, x, target, opts.reduction, function(a, t)
      local loss
      if opts.log_input == false then loss = a - t * log(a + eps) else loss = exp(a) - t * a end
      if not opts.full then return loss end
      if not is_tensor(t) then t = ty.full({}, t, { dtype = a.dtype, device = a.device }) end
      local large = t:gt(1)
      local s = where(large, t, 2) -- the logarithm's gradient is finite at 0
      return loss + where(large, s * log(s) - s + log(s * (2 * math.pi)) * 0.5, 0)
    end)
  end

  local both, apart = "0-d, or the broadcast of all", "0-d, or the sizes without the last dim"
  row { "binary_cross_entropy", "x, y, {reduction = \"mean\", weight}", binary_cross_entropy,
    "cross entropy of chances y under chances x", shape = "0-d, or x", dtype = "float",
    formula = "-(y log(x) + (1 - y) log(1 - x))" }
  row { "soft_margin_loss", "x, y, {reduction = \"mean\"}", soft_margin_loss, "log(1 + exp(-y x)) of y = 1 or -1",
    shape = "0-d, or the broadcast of x and y", dtype = "float", formula = "log(1 + exp(-y x))" }
  row { "multilabel_soft_margin_loss", "x, y, {reduction = \"mean\", weight}", multilabel_soft_margin_loss,
    "the mean over classes of bce_with_logits", shape = apart, dtype = "float",
    formula = "mean over classes of y softplus(-x) + (1 - y) softplus(x)" }
  row { "margin_ranking_loss", "a, b, y, {reduction = \"mean\", margin = 0}", margin_ranking_loss,
    "max(0, margin - y (a - b)) of y = 1 or -1", shape = both, dtype = "float",
    formula = "max(0, margin - y (a - b))" }
  row { "hinge_embedding_loss", "x, y, {reduction = \"mean\", margin = 1}", hinge_embedding_loss,
    "x where y is 1, max(0, margin - x) where it is -1", shape = "0-d, or the broadcast of x and y", dtype = "float" }
  row { "cosine_embedding_loss", "a, b, y, {reduction = \"mean\", margin = 0}", cosine_embedding_loss,
    "1 - cos(a, b) where y is 1, max(0, cos(a, b) - margin) where it is -1", shape = apart, dtype = "float" }
  row { "triplet_margin_loss",
    "anchor, positive, negative, {reduction = \"mean\", margin = 1, p = 2, eps = 1e-6, swap = false}",
    triplet_margin_loss, "max(0, margin + |anchor - positive| - |anchor - negative|)", shape = apart, dtype = "float" }
  row { "multi_margin_loss", "x, target, {reduction = \"mean\", p = 1, margin = 1, weight}", multi_margin_loss,
    "the mean over classes of max(0, margin - x[label] + x[class])^p", shape = "0-d, or the labels'", dtype = "float" }
  row { "multilabel_margin_loss", "x, target, {reduction = \"mean\"}", multilabel_margin_loss,
    "max(0, 1 - x[label] + x[class]) over labels and other classes", shape = apart, dtype = "float" }
  row { "gaussian_nll_loss", "x, target, var, {reduction = \"mean\", full = false, eps = 1e-6}", gaussian_nll_loss,
    "minus the log-likelihood under a normal distribution", shape = both, dtype = "float",
    formula = "(log(var) + (x - target)^2 / var) / 2, Nix, Weigend 1994" }
  row { "poisson_nll_loss", "x, target, {reduction = \"mean\", log_input = true, full = false, eps = 1e-8}",
    poisson_nll_loss, "minus the log-likelihood of counts under a Poisson distribution",
    shape = "0-d, or the broadcast of x and target", dtype = "float", formula = "exp(x) - target x" }
end
