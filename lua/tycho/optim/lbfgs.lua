--- optim/lbfgs.lua -- LBFGS: a quasi-Newton method that calls back for losses and gradients.
-- All parameters are one vector here. Values are read between the calls, so a step is not one plan; what it calls may
-- be.

---@param ty table the module tycho
---@param M table ty.optim, which is filled
---@param check table arguments.lua
return function(ty, M, check)
  local abs, max, min, sqrt = math.abs, math.max, math.min, math.sqrt
  local ipairs, pairs, type = ipairs, pairs, type
  local is_tensor = ty.is_tensor

  local function dot(a, b) return (a * b):sum():item() end
  local function largest(x) return x:abs():max():item() end

  ---------------------------------------------------------------------------------------------------------- line search

  --- The least point of the cubic through two points with their slopes, within low..high.
  local function cubic(x1, f1, g1, x2, f2, g2, low, high)
    if not low then low, high = min(x1, x2), max(x1, x2) end
    local d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    local square = d1 * d1 - g1 * g2
    if square < 0 then return (low + high) / 2 end
    local d2 = sqrt(square)
    local at
    if x1 <= x2 then at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2)) end
    return min(max(at, low), high)
  end

  local C1, C2, MOST = 1e-4, 0.9, 25 -- sufficient decrease, curvature, evaluations

  --- Goes on until a point is found that holds (the second result), or two points with one between them.
  local function bracket(at, t, start)
    local before, count = start, 0
    while true do
      local here = at(t)
      count = count + 1
      if count > MOST then return { start, here }, false, count end
      if here.f > start.f + C1 * t * start.slope or count > 2 and here.f >= before.f then
        return { before, here }, false, count
      end
      if abs(here.slope) <= -C2 * start.slope then return { here }, true, count end
      if here.slope >= 0 then return { before, here }, false, count end
      local low, high = t + 0.01 * (t - before.t), t * 10
      before, t = here, cubic(before.t, before.f, before.slope, t, here.f, here.slope, low, high)
    end
  end

  --- Makes the interval smaller, until a point in it holds.
  local function zoom(at, pair, start, size, tolerance, count)
    local stuck = false
    local low, high = 1, 2
    if pair[1].f > pair[2].f then low, high = 2, 1 end
    while count <= MOST do
      local a, b = pair[1], pair[2]
      if abs(b.t - a.t) * size < tolerance then break end
      local t = cubic(a.t, a.f, a.slope, b.t, b.f, b.slope)
      local left, right = min(a.t, b.t), max(a.t, b.t)
      local margin = 0.1 * (right - left)
      if min(right - t, t - left) < margin then -- too near to an end
        if stuck or t >= right or t <= left then
          t = abs(t - right) < abs(t - left) and right - margin or left + margin
          stuck = false
        else
          stuck = true
        end
      else
        stuck = false
      end
      local here = at(t)
      count = count + 1
      if here.f > start.f + C1 * t * start.slope or here.f >= pair[low].f then
        pair[high] = here
        if pair[1].f <= pair[2].f then low, high = 1, 2 else low, high = 2, 1 end
      else
        local done = abs(here.slope) <= -C2 * start.slope
        if not done and here.slope * (pair[high].t - pair[low].t) >= 0 then pair[high] = pair[low] end
        pair[low] = here
        if done then break end
      end
    end
    return pair[low], count
  end

  --- The point of a line that meets Wolfe's strong conditions. Nocedal, Wright 2006, algorithms 3.5 and 3.6.
  local function strong_wolfe(at, t, start, size, tolerance)
    local pair, done, count = bracket(at, t, start)
    if done then return pair[1], count end
    return zoom(at, pair, start, size, tolerance, count)
  end

  ---------------------------------------------------------------------------------------------------------- steps

  --- The gradients of all parameters side by side; zeros where there are none.
  local function gather(params)
    local list = {}
    for i, p in ipairs(params) do
      local g = p.grad
      list[i] = g ~= nil and g:reshape(-1) or ty.zeros({ p:numel() }, { dtype = p.dtype, device = p.device })
    end
    return ty.cat(list, 1)
  end

  --- Writes x, and adds t times d.
  local function move(params, x, d, t)
    local at = 1
    for i, p in ipairs(params) do
      local n = p:numel()
      p:copy_(x[i]):add_((d:narrow(1, at, n) * t):reshape(p.shape))
      at = at + n
    end
  end

  local function copies(params)
    local list = {}
    for i, p in ipairs(params) do list[i] = p:detach():clone() end
    return list
  end

  --- The direction: minus the gradient times what the remembered steps tell of the inverse of the second derivatives.
  local function direction(s, g)
    local q, count, al = -g, #s.old_dirs, {}
    for i = count, 1, -1 do
      al[i] = dot(s.old_stps[i], q) * s.ro[i]
      q = q - s.old_dirs[i] * al[i]
    end
    local r = q * s.H_diag
    for i = 1, count do r = r + s.old_stps[i] * (al[i] - dot(s.old_dirs[i], r) * s.ro[i]) end
    return r
  end

  --- Remembers the last step, where the slope has grown along it.
  local function remember(s, g, history)
    local y, step = g - s.prev_flat_grad, s.d * s.t
    local ys = dot(y, step)
    if ys <= 1e-10 then return end
    if #s.old_dirs >= history then
      for _, list in ipairs { s.old_dirs, s.old_stps, s.ro } do table.remove(list, 1) end
    end
    local n = #s.old_dirs + 1
    s.old_dirs[n], s.old_stps[n], s.ro[n] = y, step, 1 / ys
    s.H_diag = ys / dot(y, y)
  end

  --- One step from where the loss is `loss` and the gradient g. Gives both there, the count of calls, whether to end.
  local function iterate(group, s, evaluate, loss, g, last)
    local params, lr = group.params, group.lr
    s.n_iter = s.n_iter + 1
    local first = s.n_iter == 1
    if first then
      s.old_dirs, s.old_stps, s.ro, s.H_diag = {}, {}, {}, 1
    else
      remember(s, g, group.history_size)
    end
    s.d = direction(s, g)
    s.prev_flat_grad, s.prev_loss = g, loss
    s.t = first and min(1, 1 / g:abs():sum():item()) * lr or lr
    local d, slope = s.d, dot(g, s.d)
    if slope > -group.tolerance_change then return loss, g, 0, true end
    local x, calls, before = copies(params), 0, loss
    if group.line_search_fn == "strong_wolfe" then
      local function at(t)
        move(params, x, d, t)
        local f, own = evaluate()
        return { t = t, f = f, g = own, slope = dot(own, d) }
      end
      local start = { t = 0, f = loss, g = g, slope = slope }
      local found
      found, calls = strong_wolfe(at, s.t, start, largest(d), group.tolerance_change)
      loss, g, s.t = found.f, found.g, found.t
      move(params, x, d, s.t)
    else
      move(params, x, d, s.t)
      if not last then
        loss, g = evaluate()
        calls = 1
      end
    end
    local ends = largest(g) <= group.tolerance_grad or largest(d * s.t) <= group.tolerance_change
      or abs(loss - before) < group.tolerance_change
    return loss, g, calls, ends
  end

  local function run(self, closure)
    local group = self.groups[1]
    local s = group.state[1]
    local function evaluate()
      local loss = ty.enable_grad(closure)
      if not is_tensor(loss) or loss:numel() ~= 1 then
        check.fail("LBFGS", "the function must give the loss, a tensor of one element, got %s", check.show(loss))
      end
      return loss:item(), gather(group.params), loss
    end
    local loss, g, first = evaluate()
    local calls = 1
    s.n_iter, s.func_evals = s.n_iter or 0, (s.func_evals or 0) + 1
    if largest(g) <= group.tolerance_grad then return first:detach() end
    local most = group.max_eval > 0 and group.max_eval or math.floor(group.max_iter * 1.25)
    for i = 1, group.max_iter do
      local more, ends
      loss, g, more, ends = iterate(group, s, evaluate, loss, g, i == group.max_iter)
      calls, s.func_evals = calls + more, s.func_evals + more
      if ends or calls >= most then break end
    end
    return first:detach()
  end

  --- optim.LBFGS(params, {lr = 1, max_iter = 20, max_eval = 1.25 max_iter, tolerance_grad = 1e-7, tolerance_change =
  --- 1e-9, history_size = 100, line_search_fn}): opt:step(fn) calls fn, which forgets the gradients, computes the
  --- loss, calls its backward and gives it, several times; it gives the loss of the first call. line_search_fn =
  --- "strong_wolfe": the length of each step is looked for. Nocedal, Wright 2006, chapter 7.
  --- Raises where parameters are not leaves that require gradients or are in several groups, an option is not known
  --- or out of range, or fn gives no loss.
  ---@param params tycho.Tensor[]|table[] leaves, or one group of them
  ---@param opts? {lr: number?, max_iter: integer?, max_eval: integer?, tolerance_grad: number?, tolerance_change:
  ---  number?, history_size: integer?, line_search_fn: "strong_wolfe"|nil}
  ---@return tycho.Optimizer
  local LBFGS = M._optimizer("LBFGS", {
    defaults = { lr = 1, max_iter = 20, max_eval = 0, tolerance_grad = 1e-7, tolerance_change = 1e-9,
      history_size = 100, line_search_fn = "" },
    check = function(who, g)
      for _, name in ipairs { "max_iter", "history_size" } do
        if g[name] % 1 ~= 0 or g[name] < 1 then
          check.fail(who, "option %s must be whole and at least 1, got %.14g", name, g[name])
        end
      end
      if g.line_search_fn ~= "" and g.line_search_fn ~= "strong_wolfe" then
        check.fail(who, "option line_search_fn must be \"strong_wolfe\" or left out, got %q", g.line_search_fn)
      end
    end,
    single = true,
  })

  function LBFGS:step(closure)
    if type(closure) ~= "function" then
      check.fail("step", "LBFGS needs a function that gives the loss, got %s", check.show(closure))
    end
    return ty.no_grad(run, self, closure)
  end

  --- A value of a state, with tensors of its own.
  local function copied(v)
    if is_tensor(v) then return v:clone() end
    if type(v) ~= "table" then return v end
    local list = {}
    for k, e in pairs(v) do list[k] = copied(e) end
    return list
  end

  function LBFGS:load_state_dict(sd)
    local own = self.groups[1].state[1]
    self.groups[1].state[1] = {}
    local ok, why = pcall(M.Optimizer.load_state_dict, self, sd)
    if not ok then
      self.groups[1].state[1] = own
      error(why, 0)
    end
    self.groups[1].state[1] = copied(sd.groups[1].state[1])
  end
end
