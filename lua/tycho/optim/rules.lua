--- optim/rules.lua -- optimisers of one formula an element: SGD, Adam and their kin.
-- Formulas follow PyTorch's, step by step in the same order of operations. State tensors begin as zeros when the
-- optimiser is made, so each step records the same.

---@param ty table the module tycho
---@param M table ty.optim, which is filled
---@param check table arguments.lua
return function(ty, M, check)
  local is_tensor, sqrt, optimizer = ty.is_tensor, ty.sqrt, M._optimizer

  --- Counts of steps are numbers, or 0-d tensors where a scaler may leave steps out inside of a compiled function.
  --- What is computed from them: its root, and the factor that it is for p.
  local function root(v) return is_tensor(v) and sqrt(v) or math.sqrt(v) end
  local function factor_of(v, p) return is_tensor(v) and v:to(p) or v end

  ---------------------------------------------------------------------------------------------------------- SGD

  local function zeros(p) return ty.zeros(p.shape, { dtype = p.dtype, device = p.device }) end

  --- The gradient with weight decay as a part of it.
  local function decayed(g, p, grad)
    if g.weight_decay ~= 0 then return grad + p * g.weight_decay end
    return grad
  end

  --- optim.SGD(params, {lr = 1e-3, momentum = 0, dampening = 0, nesterov = false, weight_decay = 0}).
  --- Sutskever and others 2013. buf = momentum buf + (1 - dampening) g, the first one g; p = p - lr buf, or with
  --- nesterov p - lr (g + momentum buf).
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, momentum: number?, dampening: number?, nesterov: boolean?, weight_decay: number?}
  ---  lr is the rate, which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("SGD", {
    defaults = { lr = 1e-3, momentum = 0, dampening = 0, nesterov = false, weight_decay = 0 },
    check = function(who, g)
      if g.nesterov and (g.momentum == 0 or g.dampening ~= 0) then
        check.fail(who, "option nesterov needs a momentum and no dampening")
      end
    end,
    start = function(g, p)
      if g.momentum == 0 then return {} end
      return { momentum_buffer = zeros(p), step = 0 }
    end,
    update = function(g, p, grad, s)
      grad = decayed(g, p, grad)
      local momentum = g.momentum
      if momentum ~= 0 then
        local buf = s.momentum_buffer
        if not buf then
          buf = zeros(p)
          s.momentum_buffer, s.step = buf, 0
        end
        if g.dampening == 0 then
          buf:mul_(momentum):add_(grad)
        elseif is_tensor(s.step) then
          buf:copy_(ty.where(s.step:eq(0), grad, buf * momentum + grad * (1 - g.dampening)))
        elseif s.step == 0 then
          buf:copy_(grad)
        else
          buf:mul_(momentum):add_(grad * (1 - g.dampening))
        end
        s.step = s.step + 1
        grad = g.nesterov and grad + buf * momentum or buf
      end
      p:sub_(grad * g.lr)
    end,
  })

  ---------------------------------------------------------------------------------------------------------- Adam, AdamW

  local function adam_start(g, p)
    local s = { step = 0, exp_avg = zeros(p), exp_avg_sq = zeros(p) }
    if g.amsgrad then s.max_exp_avg_sq = zeros(p) end
    return s
  end

  local function adam(g, p, grad, s)
    local beta1, beta2 = g.betas[1], g.betas[2]
    s.step = s.step + 1
    local m, v = s.exp_avg, s.exp_avg_sq
    m:add_((grad - m) * (1 - beta1))
    v:mul_(beta2):add_(grad * grad * (1 - beta2))
    local correction, largest = factor_of(root(1 - beta2 ^ s.step), p), v
    if g.amsgrad then
      s.max_exp_avg_sq:maximum_(v)
      largest = s.max_exp_avg_sq
    end
    p:sub_(m / (sqrt(largest) / correction + g.eps) * factor_of(g.lr / (1 - beta1 ^ s.step), p))
  end

  --- optim.Adam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, amsgrad = false}).
  --- Kingma, Ba 2014, arXiv:1412.6980; weight decay is added to the gradient. amsgrad: Reddi and others 2018,
  --- arXiv:1904.09237.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, amsgrad: boolean?}
  ---  lr is the rate, which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("Adam", {
    defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, amsgrad = false },
    start = adam_start,
    update = function(g, p, grad, s) adam(g, p, decayed(g, p, grad), s) end,
  })

  --- optim.AdamW(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01, amsgrad = false}).
  --- Loshchilov, Hutter 2017, arXiv:1711.05101: p shrinks by lr * weight_decay before Adam's step.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, amsgrad: boolean?}
  ---  lr is the rate, which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("AdamW", {
    defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0.01, amsgrad = false },
    start = adam_start,
    update = function(g, p, grad, s)
      if g.weight_decay ~= 0 then p:mul_(1 - g.lr * g.weight_decay) end
      adam(g, p, grad, s)
    end,
  })

  ---------------------------------------------------------------------------------------------------------- RMSprop

  --- optim.RMSprop(params, {lr = 0.01, alpha = 0.99, eps = 1e-8, momentum = 0, centered = false, weight_decay = 0}).
  --- Tieleman, Hinton 2012; centered: Graves 2013, arXiv:1308.0850.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, alpha: number?, eps: number?, momentum: number?, centered: boolean?,
  ---  weight_decay: number?} lr is the rate, which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("RMSprop", {
    defaults = { lr = 0.01, alpha = 0.99, eps = 1e-8, momentum = 0, centered = false, weight_decay = 0 },
    start = function(g, p)
      local s = { square_avg = zeros(p) }
      if g.centered then s.grad_avg = zeros(p) end
      if g.momentum > 0 then s.momentum_buffer = zeros(p) end
      return s
    end,
    update = function(g, p, grad, s)
      grad = decayed(g, p, grad)
      s.square_avg:mul_(g.alpha):add_(grad * grad * (1 - g.alpha))
      local mean = s.square_avg
      if s.grad_avg then
        s.grad_avg:add_((grad - s.grad_avg) * (1 - g.alpha))
        mean = mean - s.grad_avg * s.grad_avg
      end
      local move = grad / (sqrt(mean) + g.eps)
      if s.momentum_buffer then move = s.momentum_buffer:mul_(g.momentum):add_(move) end
      p:sub_(move * g.lr)
    end,
  })

  --- optim.Adagrad(params, {lr = 0.01, lr_decay = 0, eps = 1e-10, weight_decay = 0, initial_accumulator = 0}).
  --- Duchi, Hazan, Singer 2011, JMLR 12.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, lr_decay: number?, eps: number?, weight_decay: number?, initial_accumulator: number?}
  ---  lr is the rate, which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("Adagrad", {
    defaults = { lr = 0.01, lr_decay = 0, eps = 1e-10, weight_decay = 0, initial_accumulator = 0 },
    start = function(g, p)
      return { step = 0, sum = ty.full(p.shape, g.initial_accumulator, { dtype = p.dtype, device = p.device }) }
    end,
    update = function(g, p, grad, s)
      grad = decayed(g, p, grad)
      s.step = s.step + 1
      s.sum:add_(grad * grad)
      p:sub_(grad / (sqrt(s.sum) + g.eps) * factor_of(g.lr / (1 + (s.step - 1) * g.lr_decay), p))
    end,
  })

  ---------------------------------------------------------------------------------------------------------- Lion

  --- optim.Lion(params, {lr = 1e-4, betas = {0.9, 0.99}, weight_decay = 0}). Chen and others 2023, arXiv:2302.06675:
  --- p = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, betas: number[]?, weight_decay: number?} lr: the rate, opt.lr afterwards
  ---@return tycho.Optimizer
  optimizer("Lion", {
    defaults = { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0 },
    start = function(_, p) return { exp_avg = zeros(p) } end,
    update = function(g, p, grad, s)
      local beta1, beta2, m = g.betas[1], g.betas[2], s.exp_avg
      if g.weight_decay ~= 0 then p:mul_(1 - g.lr * g.weight_decay) end
      p:sub_(ty.sign(m * beta1 + grad * (1 - beta1)) * g.lr)
      m:mul_(beta2):add_(grad * (1 - beta2))
    end,
  })
  ------------------------------------------------------------------------------------------------------ NAdam, RAdam

  --- Weight decay that shrinks p, where decoupled, or is added to the gradient, which it gives.
  local function decay(g, p, grad)
    if not g.decoupled_weight_decay then return decayed(g, p, grad) end
    if g.weight_decay ~= 0 then p:mul_(1 - g.lr * g.weight_decay) end
    return grad
  end

  --- Both running means of Adam after one more gradient, and the count of steps.
  local function moments(g, grad, s)
    s.step = s.step + 1
    s.exp_avg:add_((grad - s.exp_avg) * (1 - g.betas[1]))
    s.exp_avg_sq:mul_(g.betas[2]):add_(grad * grad * (1 - g.betas[2]))
    return s.exp_avg, s.exp_avg_sq, s.step
  end

  --- optim.NAdam(params, {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3,
  --- decoupled_weight_decay = false}): Adam with Nesterov's momentum. Dozat 2016.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, momentum_decay: number?,
  ---  decoupled_weight_decay: boolean?} lr is the rate, which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("NAdam", {
    defaults = { lr = 2e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3,
      decoupled_weight_decay = false },
    start = function(_, p) return { step = 0, mu_product = 1, exp_avg = zeros(p), exp_avg_sq = zeros(p) } end,
    update = function(g, p, grad, s)
      grad = decay(g, p, grad)
      local m, v, n = moments(g, grad, s)
      local beta1 = g.betas[1]
      local mu = beta1 * (1 - 0.96 ^ (n * g.momentum_decay) * 0.5)
      local next_mu = beta1 * (1 - 0.96 ^ ((n + 1) * g.momentum_decay) * 0.5)
      s.mu_product = s.mu_product * mu
      local denominator = sqrt(v / factor_of(1 - g.betas[2] ^ n, p)) + g.eps
      p:sub_(grad / denominator * factor_of((1 - mu) * g.lr / (1 - s.mu_product), p))
      p:sub_(m / denominator * factor_of(next_mu * g.lr / (1 - s.mu_product * next_mu), p))
    end,
  })

  --- What RAdam multiplies the rate by beside the adaptive part, nil while the variance is not known well enough: as
  --- numbers, or tensors with which of the two it is.
  local function rectified(beta2, n)
    local power = beta2 ^ n
    local most = 2 / (1 - beta2) - 1
    local length = most - n * power * 2 / (1 - power)
    if is_tensor(n) then
      local known = length:gt(5)
      local l = ty.where(known, length, 6)
      return sqrt((l - 4) * (l - 2) * most / (l * ((most - 4) * (most - 2))) * (1 - power)), known
    end
    if length <= 5 then return nil end
    return math.sqrt((length - 4) * (length - 2) * most / (length * ((most - 4) * (most - 2))) * (1 - power))
  end

  --- optim.RAdam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0,
  --- decoupled_weight_decay = false}): Adam whose first steps, while the variance is little known, do not adapt. Liu
  --- and others 2019, arXiv:1908.03265.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?,
  ---  decoupled_weight_decay: boolean?} lr is the rate, which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("RAdam", {
    defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, decoupled_weight_decay = false },
    start = function(_, p) return { step = 0, exp_avg = zeros(p), exp_avg_sq = zeros(p) } end,
    update = function(g, p, grad, s)
      local m, v, n = moments(g, decay(g, p, grad), s)
      local plain = m * factor_of(g.lr / (1 - g.betas[1] ^ n), p)
      local factor, known = rectified(g.betas[2], n)
      if factor then
        local adapted = plain * factor_of(factor, p) / (sqrt(v) + g.eps)
        plain = known and ty.where(known, adapted, plain) or adapted
      end
      p:sub_(plain)
    end,
  })

  ----------------------------------------------------------------------------------------------------- Adamax, Adadelta

  --- optim.Adamax(params, {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0}): Adam by the largest
  --- gradient instead of the mean square. Kingma, Ba 2014, arXiv:1412.6980.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?} lr is the rate, which opt.lr
  ---  changes later
  ---@return tycho.Optimizer
  optimizer("Adamax", {
    defaults = { lr = 2e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0 },
    start = function(_, p) return { step = 0, exp_avg = zeros(p), exp_inf = zeros(p) } end,
    update = function(g, p, grad, s)
      grad = decayed(g, p, grad)
      s.step = s.step + 1
      s.exp_avg:add_((grad - s.exp_avg) * (1 - g.betas[1]))
      s.exp_inf:mul_(g.betas[2]):maximum_(grad:abs() + g.eps)
      p:sub_(s.exp_avg / s.exp_inf * factor_of(g.lr / (1 - g.betas[1] ^ s.step), p))
    end,
  })

  --- optim.Adadelta(params, {lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0}). Zeiler 2012, arXiv:1212.5701.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, rho: number?, eps: number?, weight_decay: number?} lr is the rate, which opt.lr
  ---  changes later
  ---@return tycho.Optimizer
  optimizer("Adadelta", {
    defaults = { lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0 },
    start = function(_, p) return { square_avg = zeros(p), acc_delta = zeros(p) } end,
    update = function(g, p, grad, s)
      grad = decayed(g, p, grad)
      s.square_avg:mul_(g.rho):add_(grad * grad * (1 - g.rho))
      local delta = sqrt(s.acc_delta + g.eps) / sqrt(s.square_avg + g.eps) * grad
      s.acc_delta:mul_(g.rho):add_(delta * delta * (1 - g.rho))
      p:sub_(delta * g.lr)
    end,
  })

  ---------------------------------------------------------------------------------------------------------- Rprop, ASGD

  --- optim.Rprop(params, {lr = 0.01, etas = {0.5, 1.2}, step_sizes = {1e-6, 50}}): steps by the gradient's sign,
  --- whose size shrinks where that changes and grows where it stays; for gradients of all data. Riedmiller, Braun
  --- 1993.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, etas: number[]?, step_sizes: number[]?} lr: the first size of steps
  ---@return tycho.Optimizer
  optimizer("Rprop", {
    defaults = { lr = 0.01, etas = { 0.5, 1.2 }, step_sizes = { 1e-6, 50 } },
    check = function(who, g)
      if not (g.etas[1] > 0 and g.etas[1] < 1 and g.etas[2] > 1) then
        check.fail(who, "option etas must be a number in 0..1 and one above 1")
      end
    end,
    start = function(g, p)
      return { prev = zeros(p), step_size = ty.full(p.shape, g.lr, { dtype = p.dtype, device = p.device }) }
    end,
    update = function(g, p, grad, s)
      local turn = grad * s.prev
      local back = turn:lt(0)
      local factor = ty.where(turn:gt(0), g.etas[2], ty.ones_like(turn))
      factor = ty.where(back, g.etas[1], factor)
      s.step_size:mul_(factor):clamp_(g.step_sizes[1], g.step_sizes[2])
      local kept = ty.where(back, 0, grad)
      p:sub_(ty.sign(kept) * s.step_size)
      s.prev:copy_(kept)
    end,
  })

  --- optim.ASGD(params, {lr = 0.01, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0}): gradient descent of a
  --- falling rate; state.ax holds the average of the parameter from step t0 on. Polyak, Juditsky 1992.
  --- Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or
  --- negative.
  ---@param params tycho.Tensor[]|table[] leaves, or groups {params = list, lr = ...}
  ---@param opts? {lr: number?, lambd: number?, alpha: number?, t0: number?, weight_decay: number?} lr is the rate,
  ---  which opt.lr changes later
  ---@return tycho.Optimizer
  optimizer("ASGD", {
    defaults = { lr = 0.01, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0 },
    start = function(g, p) return { step = 0, eta = g.lr, mu = 1, ax = zeros(p) } end,
    update = function(g, p, grad, s)
      grad = decayed(g, p, grad)
      s.step = s.step + 1
      local eta = factor_of(s.eta, p)
      p:mul_(1 - eta * g.lambd):sub_(grad * eta)
      s.ax:add_((p - s.ax) * factor_of(s.mu, p))
      s.eta = g.lr / (s.step * (g.lambd * g.lr) + 1) ^ g.alpha
      local late = s.step - g.t0
      s.mu = 1 / (is_tensor(late) and late:maximum(1) or math.max(1, late))
    end,
  })
end
