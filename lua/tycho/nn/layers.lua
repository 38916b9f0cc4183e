--- nn/layers.lua -- linear and bilinear layers, embeddings.
-- What they begin with is PyTorch's: weights and biases uniform within 1 / sqrt(inputs), embeddings normal.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class = nn._check, nn.class
  local sqrt, max = math.sqrt, math.max
  local is_tensor, cast = ty.is_tensor, nn._cast

  --- A whole number of at least `least`.
  local function count(who, i, v, what, least)
    if type(v) ~= "number" or v % 1 ~= 0 or v < (least or 1) then
      check.fail(who, "argument %d (%s) must be whole and at least %d, got %s", i, what, least or 1, check.show(v))
    end
    return v
  end
  nn._count = count

  --- A parameter of uniform numbers within a bound.
  local function uniform(sizes, bound) return nn.Parameter(ty.uniform(-bound, bound, sizes)) end
  nn._uniform = uniform

  ---------------------------------------------------------------------------------------------------------- linear

  ---@class tycho.nn.Linear: tycho.Module
  local Linear = class "Linear"
  nn.Linear = Linear

  --- nn.Linear(inputs, outputs, {bias = true}): x weight + bias over the last dim; weight [inputs, outputs].
  --- Raises where a count is not whole, or the input does not end with `inputs`.
  ---@param inputs integer
  ---@param outputs integer
  ---@param opts? {bias: boolean?}
  ---@return tycho.nn.Linear # [..., inputs] to [..., outputs]
  function Linear:init(inputs, outputs, opts)
    count("Linear", 1, inputs, "inputs", 0)
    count("Linear", 2, outputs, "outputs", 0)
    opts = check.options("Linear", opts, { bias = "boolean" })
    self.inputs, self.outputs = inputs, outputs
    local bound = 1 / sqrt(max(inputs, 1))
    self.weight = uniform({ inputs, outputs }, bound)
    if opts.bias ~= false then self.bias = uniform({ outputs }, bound) end
  end

  --- [..., inputs] to [..., outputs].
  ---@param x tycho.Tensor
  ---@return tycho.Tensor
  function Linear:forward(x)
    if not is_tensor(x) or x.ndim < 1 or x:size(-1) ~= self.inputs then
      check.fail("Linear", "the input must be [..., %d], got %s", self.inputs, check.got(x))
    end
    local a, w, b = cast(x, self.weight, self.bias)
    local y = a:matmul(w)
    if b then y = y + b end
    return y
  end

  function Linear.from_torch(_, k, v)
    if k == "weight" and v.ndim == 2 then return v:t() end
    return v
  end

  function Linear:describe()
    return ("%d, %d%s"):format(self.inputs, self.outputs, self.bias and "" or ", bias = false")
  end

  ---------------------------------------------------------------------------------------------------------- embedding

  ---@class tycho.nn.Embedding: tycho.Module
  local Embedding = class "Embedding"
  nn.Embedding = Embedding

  --- nn.Embedding(entries, features, {padding_idx}): one row of the weight for each index; indices count from 1.
  --- padding_idx: an index whose row begins as zeros and gets no gradient.
  --- Raises where a count is not whole, or an index is no integer or out of range.
  ---@param entries integer
  ---@param features integer
  ---@param opts? {padding_idx: integer?}
  ---@return tycho.nn.Embedding # integers [...] to [..., features]
  function Embedding:init(entries, features, opts)
    opts = check.options("Embedding", opts, { padding_idx = "number" })
    self.entries = count("Embedding", 1, entries, "entries")
    self.features = count("Embedding", 2, features, "features", 0)
    self.weight = nn.Parameter(ty.randn(entries, features))
    local padding = opts.padding_idx
    if padding then
      if padding < 0 then padding = padding + entries + 1 end
      if padding % 1 ~= 0 or padding < 1 or padding > entries then
        check.fail("Embedding", "option padding_idx must be an index from 1 to %d, got %s", entries,
          check.show(opts.padding_idx))
      end
      self.padding_idx = padding
      ty.no_grad(function() self.weight:select(1, padding):zero_() end)
    end
  end

  --- Integers of any shape [...] to [..., features].
  ---@param index tycho.Tensor
  ---@return tycho.Tensor
  function Embedding:forward(index)
    if not is_tensor(index) or index.dtype == "bool" or index.dtype:find("f", 1, true) then
      check.fail("Embedding", "the input must be a tensor of integers, got %s", check.got(index))
    end
    local flat = index:reshape(-1)
    local y = self.weight:index_select(1, flat) -- no tail call: an error in it names this layer
    local padding = self.padding_idx
    if padding then -- of the end an index counts, too
      local empty = flat:eq(padding):logical_or(flat:eq(padding - self.entries - 1)):unsqueeze(2)
      y = ty.where(empty, y:detach(), y)
    end
    if index.ndim == 1 then return y end
    local sizes = index.shape
    sizes[#sizes + 1] = self.features
    return y:reshape(sizes)
  end

  function Embedding:describe()
    local padding = self.padding_idx and (", padding_idx = %d"):format(self.padding_idx) or ""
    return ("%d, %d%s"):format(self.entries, self.features, padding)
  end

  ---------------------------------------------------------------------------------------------------------- bags

  ---@class tycho.nn.EmbeddingBag: tycho.Module
  local EmbeddingBag = class "EmbeddingBag"
  nn.EmbeddingBag = EmbeddingBag

  --- nn.EmbeddingBag(entries, features, {mode = "mean"}): the mean, sum or largest of the rows of the weight that a
  --- bag of indices names; indices count from 1. m(index [bags, length]), or m(index [n], offsets [bags]): bag i
  --- begins at offsets[i], the first at 1. {weights = w}, of the sizes of index, multiplies the rows where mode is
  --- "sum".
  --- Raises where a count is not whole, the mode is not known, or an index is no integer or out of range.
  ---@param entries integer
  ---@param features integer
  ---@param opts? {mode: "mean"|"sum"|"max"|nil}
  ---@return tycho.Module # integers [bags, length] to [bags, features]; an empty bag gives zeros
  function EmbeddingBag:init(entries, features, opts)
    local who = "EmbeddingBag"
    opts = check.options(who, opts, { mode = "string" })
    self.entries, self.features = count(who, 1, entries, "entries"), count(who, 2, features, "features")
    self.mode = opts.mode or "mean"
    if self.mode ~= "mean" and self.mode ~= "sum" and self.mode ~= "max" then
      check.fail(who, "option mode must be \"mean\", \"sum\" or \"max\", got %q", self.mode)
    end
    self.weight = nn.Parameter(ty.randn(entries, features))
  end

  local function integers(who, what, t, ndim)
    if not is_tensor(t) or t.dtype == "bool" or t.dtype:find("f", 1, true) or t.ndim ~= ndim then
      check.fail(who, "%s must be integers of %d dim%s, got %s", what, ndim, ndim == 1 and "" or "s", check.got(t))
    end
  end

  --- Bags of lengths of their own: rows, and [bags, rows]: which rows are in which bag.
  local function ragged(m, index, offsets, weights)
    integers("EmbeddingBag", "the input", index, 1)
    integers("EmbeddingBag", "offsets", offsets, 1)
    local n, bags = index:size(1), offsets:size(1)
    local rows = m.weight:index_select(1, index)
    if weights then rows = rows * weights:unsqueeze(2) end
    local at = ty.range(1, n, 1, { dtype = "i64", device = index.device })
    local bag = at:ge(offsets:unsqueeze(2)):to("i64"):sum(1) -- of each row
    return rows, ty.range(1, bags, 1, { dtype = "i64", device = index.device }):unsqueeze(2):eq(bag)
  end

  --- integers [bags, length] or [n] with offsets to [bags, features].
  ---@param index tycho.Tensor
  ---@param offsets? tycho.Tensor|table integers [bags]; or the options
  ---@param opts? {weights: tycho.Tensor?}
  ---@return tycho.Tensor
  function EmbeddingBag:forward(index, offsets, opts)
    if offsets ~= nil and not is_tensor(offsets) then offsets, opts = nil, offsets end
    local weights = check.options("EmbeddingBag", opts, { weights = "any" }).weights
    if weights ~= nil then
      check.tensor("EmbeddingBag", 3, weights)
      if self.mode ~= "sum" then check.fail("EmbeddingBag", "weights need the mode \"sum\", got %q", self.mode) end
      if is_tensor(index) and check.text(weights):match "%b[]" ~= check.text(index):match "%b[]" then
        check.fail("EmbeddingBag", "weights %s do not fit %s", check.text(weights), check.text(index))
      end
    end
    if offsets ~= nil then
      local rows, own = ragged(self, index, offsets, weights)
      local counts = own:to(rows.dtype)
      if self.mode == "max" then
        local all = ty.where(own:unsqueeze(3), rows, -math.huge):max(2)
        return ty.where(own:any(2):unsqueeze(2), all, 0)
      end
      local y = counts:matmul(rows)
      return self.mode == "sum" and y or y / counts:sum(2, true):clamp(1)
    end
    integers("EmbeddingBag", "the input", index, 2)
    local rows = self.weight:index_select(1, index:reshape(-1)):reshape(index:size(1), index:size(2), self.features)
    if weights then rows = rows * weights:unsqueeze(3) end
    if self.mode == "max" then return rows:max(2) end
    if self.mode == "sum" then return rows:sum(2) end
    return rows:mean(2)
  end

  function EmbeddingBag:describe() return ("%d, %d, mode = %s"):format(self.entries, self.features, self.mode) end

  ---------------------------------------------------------------------------------------------------------- bilinear

  ---@class tycho.nn.Bilinear: tycho.Module
  local Bilinear = class "Bilinear"
  nn.Bilinear = Bilinear

  --- nn.Bilinear(inputs1, inputs2, outputs, {bias = true}): a W b + bias for each output, m(a, b); weight [outputs,
  --- inputs1, inputs2].
  --- Raises where a count is not whole, or the inputs do not end with these sizes.
  ---@param inputs1 integer
  ---@param inputs2 integer
  ---@param outputs integer
  ---@param opts? {bias: boolean?}
  ---@return tycho.Module # [..., inputs1] and [..., inputs2] to [..., outputs]
  function Bilinear:init(inputs1, inputs2, outputs, opts)
    local who = "Bilinear"
    self.inputs1, self.inputs2 = count(who, 1, inputs1, "inputs1"), count(who, 2, inputs2, "inputs2")
    self.outputs = count(who, 3, outputs, "outputs")
    opts = check.options(who, opts, { bias = "boolean" })
    local bound = 1 / sqrt(inputs1)
    self.weight = uniform({ outputs, inputs1, inputs2 }, bound)
    if opts.bias ~= false then self.bias = uniform({ outputs }, bound) end
  end

  --- [..., inputs1] and [..., inputs2] to [..., outputs].
  ---@param a tycho.Tensor
  ---@param b tycho.Tensor
  ---@return tycho.Tensor
  function Bilinear:forward(a, b)
    for i, x in ipairs { a, b } do
      if not is_tensor(x) or x.ndim < 1 or x:size(-1) ~= self["inputs" .. i] then
        check.fail("Bilinear", "input %d must be [..., %d], got %s", i, self["inputs" .. i], check.got(x))
      end
    end
    if not is_tensor(b) then check.fail("Bilinear", "input 2 must be [..., %d], got nil", self.inputs2) end
    local p, q, w, bias = cast(a, b, self.weight, self.bias)
    local y = ty.einsum("...i,oij,...j->...o", p, w, q)
    return bias and y + bias or y
  end

  function Bilinear:describe()
    return ("%d, %d, %d%s"):format(self.inputs1, self.inputs2, self.outputs, self.bias and "" or ", bias = false")
  end
end
