--- optim/averages.lua -- averages of a model's parameters over the steps of its training: EMA and SWA.

---@param ty table the module tycho
---@param M table ty.optim, which is filled
---@param check table arguments.lua
return function(ty, M, check)
  local type, ipairs, pairs = type, ipairs, pairs
  local is_tensor = ty.is_tensor
  local nn = ty.nn

  ---@class tycho.optim.AveragedModel: tycho.Module
  local AveragedModel = nn.class "AveragedModel"
  M.AveragedModel = AveragedModel

  --- Tensors of a model by name: its parameters and, where asked for, buffers of floats.
  local function tensors(m, buffers)
    local list = {}
    for name, p in m:named_parameters() do list[name] = p end
    for name, b in m:named_buffers() do
      if buffers then list[name] = b end
    end
    return list
  end

  --- optim.AveragedModel(model, {decay, use_buffers = false}): a copy of the model, whose parameters are the means of
  --- the model's at each update_parameters(model) (SWA, Izmailov and others 2018, arXiv:1803.05407), or with decay
  --- running means in which a new one has the share 1 - decay (EMA). Buffers are copied, or averaged too.
  --- avg:update_parameters(m) after each step or epoch; avg(x) computes; avg.module is the copy; avg:eval() and
  --- avg:state_dict() as any module's.
  --- Raises where model is no module, or the decay lies outside of 0 to 1.
  ---@param model tycho.Module
  ---@param opts? {decay: number?, use_buffers: boolean?} decay: such as 0.999
  ---@return tycho.optim.AveragedModel # what the model gives
  function AveragedModel:init(model, opts)
    local who = "AveragedModel"
    if not nn.is_module(model) then check.fail(who, "argument 1 must be a module, got %s", check.show(model)) end
    opts = check.options(who, opts, { decay = "number", use_buffers = "boolean" })
    if opts.decay and not (opts.decay >= 0 and opts.decay <= 1) then
      check.fail(who, "option decay must be in 0..1, got %.14g", opts.decay)
    end
    self.module, self.decay, self.use_buffers = nn._copied(model), opts.decay or false, opts.use_buffers or false
    local _, tensor = next(tensors(model, true)) -- the count lies where they do
    self.n_averaged = ty.tensor(0, { dtype = "i64", device = tensor and tensor.device })
  end

  function AveragedModel:forward(...) return self.module(...) end

  function AveragedModel:describe() return self.decay and ("decay = %g"):format(self.decay) or "" end

  local function update(self, model, first, share)
    local theirs = tensors(model, true)
    local averaged = tensors(self.module, self.use_buffers)
    for name, own in pairs(tensors(self.module, true)) do
      local new = theirs[name]
      if new == nil then check.fail("update_parameters", "the model has no %s", name) end
      if averaged[name] and own.dtype:find("f", 1, true) then
        local moved = own + (new:to(own.device) - own) * share:to(own)
        own:copy_(ty.where(first:to(own.device), new:to(own.device), moved))
      else
        own:copy_(new)
      end
    end
  end

  --- Takes the model's parameters into the means: the first ones as they are.
  --- Raises where the model has other parameters than the copy.
  ---@param model tycho.Module
  function AveragedModel:update_parameters(model)
    if not nn.is_module(model) then
      check.fail("update_parameters", "argument 1 must be a module, got %s", check.show(model))
    end
    local n = self.n_averaged
    local share = self.decay and ty.full({}, 1 - self.decay, { dtype = "f64" }) or 1 / (n + 1):to("f64")
    ty.no_grad(update, self, model, n:eq(0), share)
    ty.no_grad(n.add_, n, 1)
  end

  --- The batch norms of a model.
  local function batch_norms(model)
    local list = {}
    for _, m in ipairs(model:modules()) do
      if is_tensor(m.running_mean) and type(m.momentum) == "number" then list[#list + 1] = m end
    end
    return list
  end

  --- optim.update_bn(loader, model): the running means of the model's batch norms anew, as the means over the batches
  --- of an iterator; a batch's first value is what the model is given. After parameters were averaged.
  --- Raises where model is no module.
  ---@param loader function|tycho.data.Loader what `for x in loader do` goes through
  ---@param model tycho.Module
  function M.update_bn(loader, model)
    if not nn.is_module(model) then
      check.fail("update_bn", "argument 2 must be a module, got %s", check.show(model))
    end
    local norms = batch_norms(model)
    if #norms == 0 then return end
    local before, trained, count = {}, {}, 0
    for _, m in ipairs(model:modules()) do trained[m] = m.training end
    for i, m in ipairs(norms) do before[i] = m.momentum end
    local function restore()
      for i, m in ipairs(norms) do m.momentum = before[i] end
      for m, on in pairs(trained) do m.training = on end
    end
    local ok, why = pcall(ty.no_grad, function()
      model:train()
      for _, m in ipairs(norms) do
        m.running_mean:zero_()
        m.running_var:fill_(1)
      end
      for x in loader do
        count = count + 1
        for _, m in ipairs(norms) do m.momentum = 1 / count end
        model(x)
      end
    end)
    restore()
    if not ok then error(why, 0) end
  end
end
