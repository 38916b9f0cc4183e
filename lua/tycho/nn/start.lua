--- nn/start.lua -- initialisers: what parameters begin with. `nn.init`.
-- In: a tensor, which is written in place and given back. The names, bounds and gains are PyTorch's. A layer's count
-- of inputs and outputs is read off its weight: [in, out] of a linear layer, [out, in, places...] of a convolution.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check = nn._check
  local sqrt = math.sqrt

  ---@class tycho.nn.init
  local M = {}
  nn.init = M

  --- Runs fn(t, ...) while no gradients are tracked; gives t.
  local function written(who, t, fn, ...)
    check.float(who, 1, t)
    ty.no_grad(fn, t, ...)
    return t
  end

  local function uniform(t, low, high) t:uniform_(low, high) end
  local function normal(t, mean, std) t:normal_(mean, std) end
  local function fill(t, v) t:fill_(v) end
  local function copy(t, v) t:copy_(v) end

  --- Uniform numbers.
  --- Raises where t is no float tensor.
  ---@param t tycho.Tensor
  ---@param low? number 0
  ---@param high? number 1
  ---@return tycho.Tensor # t itself
  function M.uniform_(t, low, high) return written("uniform_", t, uniform, low or 0, high or 1) end

  --- Normal numbers.
  --- Raises where t is no float tensor.
  ---@param t tycho.Tensor
  ---@param mean? number 0
  ---@param std? number 1
  ---@return tycho.Tensor # t itself
  function M.normal_(t, mean, std) return written("normal_", t, normal, mean or 0, std or 1) end

  --- One value in every element.
  --- Raises where t is no tensor, or v no number.
  ---@param t tycho.Tensor floats
  ---@param v number
  ---@return tycho.Tensor # t itself
  function M.constant_(t, v) return written("constant_", t, fill, check.number("constant_", 2, v, "value")) end

  --- 0 in every element.
  --- Raises where t is no tensor.
  ---@param t tycho.Tensor floats
  ---@return tycho.Tensor # t itself
  function M.zeros_(t) return written("zeros_", t, fill, 0) end

  --- 1 in every element.
  --- Raises where t is no tensor.
  ---@param t tycho.Tensor floats
  ---@return tycho.Tensor # t itself
  function M.ones_(t) return written("ones_", t, fill, 1) end

  --- The identity matrix.
  --- Raises where t has not two dims.
  ---@param t tycho.Tensor floats [n, m]
  ---@return tycho.Tensor # t itself
  function M.eye_(t)
    check.float("eye_", 1, t)
    if t.ndim ~= 2 then check.fail("eye_", "argument 1 must have 2 dims, got %s", check.text(t)) end
    return written("eye_", t, copy, ty.eye(t:size(1), t:size(2), { device = t.device }))
  end

  --- Normal numbers, those outside of low..high drawn anew. By the inverse of the distribution function.
  --- Raises where t is no float tensor.
  ---@param t tycho.Tensor
  ---@param mean? number 0
  ---@param std? number 1
  ---@param low? number -2
  ---@param high? number 2
  ---@return tycho.Tensor # t itself
  function M.trunc_normal_(t, mean, std, low, high)
    check.float("trunc_normal_", 1, t)
    mean, std = check.number("trunc_normal_", 2, mean, "mean", 0), check.number("trunc_normal_", 3, std, "std", 1)
    low, high = check.number("trunc_normal_", 4, low, "low", -2), check.number("trunc_normal_", 5, high, "high", 2)
    local ends = ty.tensor({ (low - mean) / std, (high - mean) / std }, { dtype = "f64", device = "cpu" })
    local bounds = ty.erf(ends / sqrt(2))
    local u = ty.uniform(bounds:get(1), bounds:get(2), t.shape, { dtype = "f64", device = t.device })
    return written("trunc_normal_", t, copy, (u:erfinv() * (std * sqrt(2)) + mean):clamp(low, high))
  end

  --- How many inputs and outputs an element of the weight's layer has.
  local function fans(who, t)
    check.float(who, 1, t)
    local shape = t.shape
    if #shape < 2 then check.fail(who, "argument 1 must have at least 2 dims, got %s", check.text(t)) end
    if #shape == 2 then return shape[1], shape[2] end
    local places = 1
    for i = 3, #shape do places = places * shape[i] end
    return shape[2] * places, shape[1] * places
  end
  M._fans = fans

  local gains = {
    linear = 1, conv1d = 1, conv2d = 1, conv_transpose1d = 1, conv_transpose2d = 1, sigmoid = 1, tanh = 5 / 3,
    relu = sqrt(2), selu = 3 / 4,
  }

  --- What keeps the variance through a nonlinearity.
  --- Raises for other names.
  ---@param name string linear, conv..., sigmoid, tanh, relu, leaky_relu, selu
  ---@param slope? number 0.01, of leaky_relu
  ---@return number
  function M.calculate_gain(name, slope)
    if name == "leaky_relu" then return sqrt(2 / (1 + (slope or 0.01) ^ 2)) end
    return gains[name] or check.fail("calculate_gain", "unknown nonlinearity %s", check.show(name))
  end

  --- Glorot, Bengio 2010: uniform within gain * sqrt(6 / (in + out)).
  --- Raises where t is no float tensor of at least two dims.
  ---@param t tycho.Tensor floats
  ---@param gain? number 1
  ---@return tycho.Tensor # t itself
  function M.xavier_uniform_(t, gain)
    local fan_in, fan_out = fans("xavier_uniform_", t)
    local bound = check.number("xavier_uniform_", 2, gain, "gain", 1) * sqrt(6 / (fan_in + fan_out))
    return written("xavier_uniform_", t, uniform, -bound, bound)
  end

  --- Glorot, Bengio 2010: normal of deviation gain * sqrt(2 / (in + out)).
  --- Raises where t is no float tensor of at least two dims.
  ---@param t tycho.Tensor floats
  ---@param gain? number 1
  ---@return tycho.Tensor # t itself
  function M.xavier_normal_(t, gain)
    local fan_in, fan_out = fans("xavier_normal_", t)
    gain = check.number("xavier_normal_", 2, gain, "gain", 1)
    return written("xavier_normal_", t, normal, 0, gain * sqrt(2 / (fan_in + fan_out)))
  end

  local kaiming_options = { a = "number", mode = "string", nonlinearity = "string" }

  --- The deviation of He and others 2015, arXiv:1502.01852.
  local function kaiming(who, t, opts)
    opts = check.options(who, opts, kaiming_options)
    local mode = opts.mode or "fan_in"
    local fan_in, fan_out = fans(who, t)
    if mode ~= "fan_in" and mode ~= "fan_out" then
      check.fail(who, "option mode must be \"fan_in\" or \"fan_out\", got %s", check.show(mode))
    end
    local gain = M.calculate_gain(opts.nonlinearity or "leaky_relu", opts.a or 0)
    return gain / sqrt(mode == "fan_in" and fan_in or fan_out)
  end

  --- He and others 2015: uniform within sqrt(3) * gain / sqrt(in).
  --- Options: a = 0, the slope of leaky_relu; mode = "fan_in" or "fan_out"; nonlinearity = "leaky_relu".
  --- Raises where t is no float tensor of at least two dims.
  ---@param t tycho.Tensor floats
  ---@param opts? {a: number?, mode: string?, nonlinearity: string?}
  ---@return tycho.Tensor # t itself
  function M.kaiming_uniform_(t, opts)
    local bound = sqrt(3) * kaiming("kaiming_uniform_", t, opts)
    return written("kaiming_uniform_", t, uniform, -bound, bound)
  end

  --- He and others 2015: normal of deviation gain / sqrt(in). Options as of kaiming_uniform_.
  --- Raises where t is no float tensor of at least two dims.
  ---@param t tycho.Tensor floats
  ---@param opts? {a: number?, mode: string?, nonlinearity: string?}
  ---@return tycho.Tensor # t itself
  function M.kaiming_normal_(t, opts)
    return written("kaiming_normal_", t, normal, 0, kaiming("kaiming_normal_", t, opts))
  end

  --- Rows, or columns where these are fewer, that are orthogonal and of length gain. Saxe and others 2013,
  --- arXiv:1312.6120. Needs OpenBLAS.
  --- Raises where t is no float tensor of at least two dims.
  ---@param t tycho.Tensor floats
  ---@param gain? number 1
  ---@return tycho.Tensor # t itself
  function M.orthogonal_(t, gain)
    check.float("orthogonal_", 1, t)
    gain = check.number("orthogonal_", 2, gain, "gain", 1)
    if t.ndim < 2 then check.fail("orthogonal_", "argument 1 must have at least 2 dims, got %s", check.text(t)) end
    local n = t:size(1)
    local m = t:numel() / math.max(n, 1)
    if n == 0 or m == 0 then return t end
    local q, r = ty.linalg.qr(ty.randn({ math.max(n, m), math.min(n, m) }, { dtype = "f64", device = t.device }))
    q = q * ty.where(r:diagonal():lt(0), -1, 1) -- so that all of them are equally likely
    if n < m then q = q:t() end
    return written("orthogonal_", t, copy, q:reshape(t.shape) * gain)
  end
end
