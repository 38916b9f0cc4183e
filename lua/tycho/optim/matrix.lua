--- optim/matrix.lua -- optimisers that know rows and columns of a weight: Muon, Adafactor.

---@param ty table the module tycho
---@param M table ty.optim, which is filled
---@param check table arguments.lua
return function(ty, M, check)
  local is_tensor, sqrt, optimizer, max = ty.is_tensor, ty.sqrt, M._optimizer, math.max

  local function factor_of(v, p) return is_tensor(v) and v:to(p) or v end
  local function zeros(p, shape) return ty.zeros(shape or p.shape, { dtype = p.dtype, device = p.device }) end

  ---------------------------------------------------------------------------------------------------------- Muon

  --- The nearest orthogonal matrix, roughly: steps of a polynomial of degree 5 that drives singular values to 1.
  local function orthogonal(x, g)
    local tall = x:size(1) > x:size(2)
    if tall then x = x:t() end
    x = x / x:norm():clamp(g.eps)
    local a, b, c = g.ns_coefficients[1], g.ns_coefficients[2], g.ns_coefficients[3]
    for _ = 1, g.ns_steps do
      local gram = x:matmul(x:t())
      x = x * a + (gram * b + gram:matmul(gram) * c):matmul(x)
    end
    return tall and x:t() or x
  end

  --- optim.Muon(params, {lr = 1e-3, weight_decay = 0.1, momentum = 0.95, nesterov = true, ns_coefficients = {3.4445,
  --- -4.775, 2.0315}, eps = 1e-7, ns_steps = 5, adjust_lr_fn = "original"}): momentum made orthogonal by Newton and
  --- Schulz's iteration, for the weights of hidden linear layers; other parameters go to another optimiser. Jordan
  --- and others 2024. The rate is multiplied by sqrt(max(1, outputs / inputs)) of a weight [inputs, outputs], or by
  --- 0.2 sqrt(max(outputs, inputs)) where adjust_lr_fn = "match_rms_adamw" (Liu and others 2025, arXiv:2502.16982).
  --- The products are computed in the dtype of the parameter, not in bf16.
  --- Raises where a parameter has other than two dims, and as all optimisers do.
  ---@param params tycho.Tensor[]|table[] leaves of two dims, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, weight_decay: number?, momentum: number?, nesterov: boolean?, ns_coefficients:
  ---  number[]?, eps: number?, ns_steps: integer?, adjust_lr_fn: "original"|"match_rms_adamw"|nil} lr is the rate,
  ---  which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("Muon", {
    mixes = true,
    defaults = { lr = 1e-3, weight_decay = 0.1, momentum = 0.95, nesterov = true,
      ns_coefficients = { 3.4445, -4.775, 2.0315 }, eps = 1e-7, ns_steps = 5, adjust_lr_fn = "original" },
    check = function(who, g)
      if #g.ns_coefficients ~= 3 then check.fail(who, "option ns_coefficients must be three numbers") end
      if g.ns_steps % 1 ~= 0 or g.ns_steps > 99 then
        check.fail(who, "option ns_steps must be whole and below 100, got %.14g", g.ns_steps)
      end
      if g.adjust_lr_fn ~= "original" and g.adjust_lr_fn ~= "match_rms_adamw" then
        check.fail(who, "option adjust_lr_fn must be \"original\" or \"match_rms_adamw\", got %q", g.adjust_lr_fn)
      end
    end,
    start = function(_, p)
      if p.ndim ~= 2 then check.fail("Muon", "a parameter must have 2 dims, got %s", check.text(p)) end
      return { momentum_buffer = zeros(p) }
    end,
    update = function(g, p, grad, s)
      local buf = s.momentum_buffer
      buf:add_((grad - buf) * (1 - g.momentum))
      local move = orthogonal(g.nesterov and grad + (buf - grad) * g.momentum or buf, g)
      local inputs, outputs = p:size(1), p:size(2)
      local ratio = g.adjust_lr_fn == "original" and math.sqrt(max(1, outputs / max(inputs, 1)))
        or 0.2 * math.sqrt(max(outputs, inputs))
      p:mul_(1 - g.lr * g.weight_decay):sub_(move * (g.lr * ratio))
    end,
  })

  ---------------------------------------------------------------------------------------------------------- Adafactor

  local EPSILON = { f64 = 2 ^ -52, f32 = 2 ^ -23, f16 = 2 ^ -10, bf16 = 2 ^ -7 }

  --- x moved towards y by a share.
  local function follow(x, y, share) return x:add_((y - x) * share) end

  --- optim.Adafactor(params, {lr = 0.01, beta2_decay = -0.8, eps = 1e-3, eps1, d = 1, weight_decay = 0}): mean
  --- squares of rows and columns instead of one an element; the rate is relative to the parameter's size. Shazeer,
  --- Stern 2018, arXiv:1804.04235. eps: the least size of a parameter; eps1: the least mean square, the dtype's
  --- epsilon by default (PyTorch has both in one pair); d: what larger moves are cut to.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- out of range.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, beta2_decay: number?, eps: number?, eps1: number?, d: number?, weight_decay: number?}
  ---  lr: the largest relative rate, which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("Adafactor", {
    mixes = true,
    defaults = { lr = 0.01, beta2_decay = -0.8, eps = 1e-3, eps1 = 0, d = 1, weight_decay = 0 },
    check = function(who, g)
      if g.beta2_decay > 0 then
        check.fail(who, "option beta2_decay must not be above 0, got %.14g", g.beta2_decay)
      end
      if g.d < 1 then check.fail(who, "option d must be at least 1, got %.14g", g.d) end
    end,
    start = function(_, p)
      if p.ndim < 2 then return { step = 0, variance = zeros(p) } end
      local rows, columns = p.shape, p.shape
      rows[#rows], columns[#columns - 1] = 1, 1
      return { step = 0, row_var = zeros(p, rows), col_var = zeros(p, columns) }
    end,
    update = function(g, p, grad, s)
      s.step = s.step + 1
      local n = s.step
      local share = factor_of(n ^ g.beta2_decay, p)
      local least = g.eps1 > 0 and g.eps1 or EPSILON[p.dtype]
      local relative = is_tensor(n) and ty.minimum(1 / sqrt(n), g.lr):to(p) or math.min(g.lr, 1 / math.sqrt(n))
      local size = math.sqrt(p:numel())
      local alpha = (p:norm() / size):clamp(g.eps) * relative
      if g.weight_decay ~= 0 then p:mul_(1 - g.lr * g.weight_decay) end
      local squares, mean = grad * grad
      if s.variance then
        mean = follow(s.variance, squares, share)
      else
        follow(s.row_var, squares:mean(-1, true), share)
        follow(s.col_var, squares:mean(-2, true), share)
        mean = s.row_var * s.col_var / s.row_var:mean(-2, true):clamp(least)
      end
      local move = mean:clamp(least * least):rsqrt() * grad
      p:sub_(move * (alpha / (move:norm() / (size * g.d)):clamp(1)))
    end,
  })
end
