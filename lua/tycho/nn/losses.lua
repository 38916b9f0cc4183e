--- nn/losses.lua -- losses as modules: their options are given once. The functions are in neural.lua.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check = nn._check

  --- A class around a loss: its options are those of the function. loss(x, target) gives a 0-d tensor.
  local function loss(name, fn, known)
    local c = nn.class(name)
    nn[name] = c
    known.reduction = "string"
    function c:init(opts) self.options = check.options(name, opts, known) end
    function c:forward(x, target) return fn(x, target, self.options) end
    function c:describe()
      local names, parts = {}, {}
      for k in pairs(self.options) do names[#names + 1] = k end
      table.sort(names)
      for i, k in ipairs(names) do parts[i] = ("%s = %s"):format(k, check.show(self.options[k]):gsub("^%a+ ", "")) end
      return table.concat(parts, ", ")
    end
  end

  --- nn.CrossEntropyLoss{dim = -1, ignore_index, label_smoothing = 0, reduction = "mean"}: see ty.cross_entropy.
  loss("CrossEntropyLoss", ty.cross_entropy, { dim = "number", ignore_index = "number", label_smoothing = "number" })
  --- nn.NLLLoss{dim = -1, ignore_index, reduction = "mean"}: see ty.nll_loss.
  loss("NLLLoss", ty.nll_loss, { dim = "number", ignore_index = "number" })
  --- nn.BCEWithLogitsLoss{weight, pos_weight, reduction = "mean"}: see ty.bce_with_logits.
  loss("BCEWithLogitsLoss", ty.bce_with_logits, { weight = "any", pos_weight = "any" })
  --- nn.MSELoss{reduction = "mean"}: see ty.mse_loss.
  loss("MSELoss", ty.mse_loss, {})
  --- nn.L1Loss{reduction = "mean"}: see ty.l1_loss.
  loss("L1Loss", ty.l1_loss, {})
  --- nn.HuberLoss{delta = 1, reduction = "mean"}: see ty.huber_loss.
  loss("HuberLoss", ty.huber_loss, { delta = "number" })
  --- nn.SmoothL1Loss{beta = 1, reduction = "mean"}: see ty.smooth_l1_loss.
  loss("SmoothL1Loss", ty.smooth_l1_loss, { beta = "number" })
  --- nn.KLDivLoss{log_target = false, reduction = "mean"}: see ty.kl_div.
  loss("KLDivLoss", ty.kl_div, { log_target = "boolean" })
end
