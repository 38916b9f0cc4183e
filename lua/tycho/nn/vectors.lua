--- nn/vectors.lua -- layers that compare vectors.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class = nn._check, nn.class

  ---@class tycho.nn.CosineSimilarity: tycho.Module
  local CosineSimilarity = class "CosineSimilarity"
  nn.CosineSimilarity = CosineSimilarity

  --- nn.CosineSimilarity{dim = -1, eps = 1e-8}: m(a, b), see ty.cosine_similarity.
  ---@param opts? {dim: integer?, eps: number?}
  ---@return tycho.Module # the broadcast sizes of both inputs without the dim
  function CosineSimilarity:init(opts)
    self.options = check.options("CosineSimilarity", opts, { dim = "number", eps = "number" })
  end

  function CosineSimilarity:forward(a, b) return ty.cosine_similarity(a, b, self.options) end

  ---@class tycho.nn.PairwiseDistance: tycho.Module
  local PairwiseDistance = class "PairwiseDistance"
  nn.PairwiseDistance = PairwiseDistance

  --- nn.PairwiseDistance{p = 2, eps = 1e-6, keepdim = false}: m(a, b), see ty.pairwise_distance.
  ---@param opts? {p: number?, eps: number?, keepdim: boolean?}
  ---@return tycho.Module # the broadcast sizes of both inputs without the last dim
  function PairwiseDistance:init(opts)
    self.options = check.options("PairwiseDistance", opts, { p = "number", eps = "number", keepdim = "boolean" })
  end

  function PairwiseDistance:forward(a, b) return ty.pairwise_distance(a, b, self.options) end
end
