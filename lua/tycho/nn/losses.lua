--- nn/losses.lua -- losses as modules: their options are given once. The functions are in losses.lua and ctc.lua of
--- the folder above.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check = nn._check

  --- A class around a loss: its options are those of the function, which takes the tensors first. Tensors among them
  --- are the module's buffers.
  local function loss(name, fn, known, operands)
    local c = nn.class(name)
    nn[name] = c
    known.reduction = "string"
    function c:init(opts) self.options = check.options(name, opts, known) end
    if operands == 3 then
      function c:forward(a, b, y) return fn(a, b, y, self.options) end
    else
      function c:forward(x, target) return fn(x, target, self.options) end
    end
    function c:describe()
      local names, parts = {}, {}
      for k in pairs(self.options) do names[#names + 1] = k end
      table.sort(names)
      for i, k in ipairs(names) do parts[i] = ("%s = %s"):format(k, check.show(self.options[k]):gsub("^%a+ ", "")) end
      return table.concat(parts, ", ")
    end
  end

  --- nn.CrossEntropyLoss{dim = -1, ignore_index, label_smoothing = 0, weight, reduction = "mean"}: see
  --- ty.cross_entropy.
  loss("CrossEntropyLoss", ty.cross_entropy,
    { dim = "number", ignore_index = "number", label_smoothing = "number", weight = "any" })
  --- nn.NLLLoss{dim = -1, ignore_index, weight, reduction = "mean"}: see ty.nll_loss.
  loss("NLLLoss", ty.nll_loss, { dim = "number", ignore_index = "number", weight = "any" })
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
  --- nn.BCELoss{weight, reduction = "mean"}: see ty.binary_cross_entropy.
  ---@param opts? {weight: tycho.Tensor|number|nil, reduction: "mean"|"sum"|"none"|nil}
  ---@return tycho.Module # chances x and y to a 0-d tensor
  loss("BCELoss", ty.binary_cross_entropy, { weight = "any" })
  --- nn.SoftMarginLoss{reduction = "mean"}: see ty.soft_margin_loss.
  loss("SoftMarginLoss", ty.soft_margin_loss, {})
  --- nn.MultiLabelSoftMarginLoss{weight, reduction = "mean"}: see ty.multilabel_soft_margin_loss.
  loss("MultiLabelSoftMarginLoss", ty.multilabel_soft_margin_loss, { weight = "any" })
  --- nn.MultiLabelMarginLoss{reduction = "mean"}: see ty.multilabel_margin_loss.
  loss("MultiLabelMarginLoss", ty.multilabel_margin_loss, {})
  --- nn.MultiMarginLoss{p = 1, margin = 1, weight, reduction = "mean"}: see ty.multi_margin_loss.
  loss("MultiMarginLoss", ty.multi_margin_loss, { p = "number", margin = "number", weight = "any" })
  --- nn.MarginRankingLoss{margin = 0, reduction = "mean"}: loss(a, b, y), see ty.margin_ranking_loss.
  loss("MarginRankingLoss", ty.margin_ranking_loss, { margin = "number" }, 3)
  --- nn.HingeEmbeddingLoss{margin = 1, reduction = "mean"}: see ty.hinge_embedding_loss.
  loss("HingeEmbeddingLoss", ty.hinge_embedding_loss, { margin = "number" })
  --- nn.CosineEmbeddingLoss{margin = 0, reduction = "mean"}: loss(a, b, y), see ty.cosine_embedding_loss.
  loss("CosineEmbeddingLoss", ty.cosine_embedding_loss, { margin = "number" }, 3)
  --- nn.TripletMarginLoss{margin = 1, p = 2, eps = 1e-6, swap = false, reduction = "mean"}: loss(anchor, positive,
  --- negative), see ty.triplet_margin_loss.
  loss("TripletMarginLoss", ty.triplet_margin_loss,
    { margin = "number", p = "number", eps = "number", swap = "boolean" }, 3)
  --- nn.GaussianNLLLoss{full = false, eps = 1e-6, reduction = "mean"}: loss(x, target, var), see
  --- ty.gaussian_nll_loss.
  loss("GaussianNLLLoss", ty.gaussian_nll_loss, { full = "boolean", eps = "number" }, 3)
  --- nn.PoissonNLLLoss{log_input = true, full = false, eps = 1e-8, reduction = "mean"}: see ty.poisson_nll_loss.
  loss("PoissonNLLLoss", ty.poisson_nll_loss, { log_input = "boolean", full = "boolean", eps = "number" })

  ---@class tycho.nn.CTCLoss: tycho.Module
  local CTCLoss = nn.class "CTCLoss"
  nn.CTCLoss = CTCLoss

  --- nn.CTCLoss{blank = 1, reduction = "mean", zero_infinity = false}: loss(x, target, times, lengths), see
  --- ty.ctc_loss.
  ---@param opts? {blank: integer?, reduction: "mean"|"sum"|"none"|nil, zero_infinity: boolean?}
  ---@return tycho.Module # log-probabilities [time, batch, classes] and labels [batch, labels] to a 0-d tensor
  function CTCLoss:init(opts)
    self.options = check.options("CTCLoss", opts, { blank = "number", reduction = "string", zero_infinity = "boolean" })
  end

  function CTCLoss:forward(x, target, times, lengths) return ty.ctc_loss(x, target, times, lengths, self.options) end
end
