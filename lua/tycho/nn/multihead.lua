--- nn/multihead.lua -- attention of several heads with the arguments of PyTorch's module of that name, which gives the
-- weights of the keys, too. nn.MultiHeadAttention has rotary positions, caches, and fewer heads of keys.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count, cast = nn._check, nn.class, nn._count, nn._cast
  local is_tensor = ty.is_tensor

  ---@class tycho.nn.MultiheadAttention: tycho.Module
  local Attention = class "MultiheadAttention"
  nn.MultiheadAttention = Attention

  local known = { dropout = "number", bias = "boolean", kdim = "number", vdim = "number", batch_first = "boolean" }

  --- nn.MultiheadAttention(width, heads, {dropout = 0, bias = true, kdim = width, vdim = width, batch_first = true}):
  --- each head attends with its share of the features. Vaswani and others 2017, arXiv:1706.03762. Its call is
  --- m(query, key, value, {key_padding_mask, attn_mask, need_weights = true, average_attn_weights = true,
  --- is_causal = false}), and gives the result and the weights of the keys [batch, queries, keys]; with
  --- need_weights = false no weights, which is faster. These masks are PyTorch's: where one of bools is true, a key is
  --- not seen; floats are added.
  --- Raises where the width does not divide into the heads, or an option is not known or out of range.
  ---@param width integer
  ---@param heads integer
  ---@param opts? {dropout: number?, bias: boolean?, kdim: integer?, vdim: integer?, batch_first: boolean?}
  ---  kdim, vdim: features of keys and values
  ---@return tycho.Module # [batch, queries, width], [batch, keys, kdim], [batch, keys, vdim] to [batch, queries, width]
  function Attention:init(width, heads, opts)
    local who = "MultiheadAttention"
    self.width, self.heads = count(who, 1, width, "width"), count(who, 2, heads, "heads")
    if width % heads ~= 0 then check.fail(who, "a width of %d does not divide into %d heads", width, heads) end
    opts = check.options(who, opts, known)
    self.kdim, self.vdim = count(who, 3, opts.kdim or width, "kdim"), count(who, 3, opts.vdim or width, "vdim")
    self.dropout, self.batch_first = opts.dropout or 0, opts.batch_first ~= false
    if not (self.dropout >= 0 and self.dropout <= 1) then
      check.fail(who, "option dropout must be in 0..1, got %.14g", self.dropout)
    end
    local function weight(rows, columns) return nn.init.xavier_uniform_(nn.Parameter(ty.empty(rows, columns))) end
    if self.kdim == width and self.vdim == width then
      self.in_proj_weight = weight(width, 3 * width)
    else
      self.q_proj_weight = weight(width, width)
      self.k_proj_weight, self.v_proj_weight = weight(self.kdim, width), weight(self.vdim, width)
    end
    self.out_proj = nn.Linear(width, width, { bias = opts.bias })
    if opts.bias ~= false then
      self.in_proj_bias = nn.Parameter(ty.zeros(3 * width))
      nn.init.zeros_(self.out_proj.bias)
    end
  end

  function Attention.from_torch(_, k, v)
    if k:find "proj_weight$" and v.ndim == 2 then return v:t() end
    return v
  end

  --- An input as [batch, time, features].
  local function input(m, what, x, features)
    if not is_tensor(x) or x.ndim < 2 or x.ndim > 3 or x:size(-1) ~= features then
      check.fail(m.class_name, "%s must be [%s, %d], got %s", what, m.batch_first and "batch, time" or "time, batch",
        features, check.got(x))
    end
    if x.ndim == 2 then return x:unsqueeze(1) end
    return m.batch_first and x or x:transpose(1, 2)
  end

  --- Queries (part 0), keys (1) or values (2) of each head: [batch, heads, time, features].
  local function project(m, x, part, own)
    local all, width = m.in_proj_weight, m.width
    local a, weight, bias = cast(x, all or m[own], m.in_proj_bias)
    if all then weight = weight:narrow(2, part * width + 1, width) end
    local y = a:matmul(weight)
    if bias then y = y + bias:narrow(1, part * width + 1, width) end
    return y:unflatten(3, { m.heads, width / m.heads }):transpose(2, 3)
  end

  --- A mask that says what is not seen as floats to add. least, most: of its dims.
  local function added(m, what, mask, least, most, like)
    if not is_tensor(mask) or mask.ndim < least or mask.ndim > most then
      check.fail(m.class_name, "option %s must have %d or %d dims, got %s", what, least, most, check.got(mask))
    end
    if mask.dtype == "bool" then
      return ty.where(mask, ty.full({}, -math.huge, { dtype = like.dtype, device = like.device }), 0)
    end
    return check.float(m.class_name, 4, mask)
  end

  local call_options = { key_padding_mask = "any", attn_mask = "any", need_weights = "boolean",
    average_attn_weights = "boolean", is_causal = "boolean" }

  --- Both masks and the causal one as one of floats, nil: all is seen.
  local function joined(m, q, k, opts)
    local mask, padding, sum = opts.attn_mask, opts.key_padding_mask, nil
    if mask ~= nil then
      sum = added(m, "attn_mask", mask, 2, 3, q)
      if sum.ndim == 3 then -- [batch * heads, queries, keys]
        if sum:size(1) ~= q:size(1) * m.heads then
          check.fail(m.class_name, "option attn_mask must be [queries, keys] or [%d, queries, keys], got %s",
            q:size(1) * m.heads, check.text(mask))
        end
        sum = sum:unflatten(1, { q:size(1), m.heads })
      end
    end
    if padding ~= nil then
      local keys = added(m, "key_padding_mask", padding, 1, 2, q)
      keys = keys:unsqueeze(-2):unsqueeze(-2) -- [batch, 1, 1, keys]
      sum = sum and sum + keys or keys
    end
    if opts.is_causal then
      local seen = ty.ones({ q:size(3), k:size(3) }, { dtype = "bool", device = q.device }):tril(k:size(3) - q:size(3))
      local later = ty.where(seen, ty.zeros({}, { dtype = q.dtype, device = q.device }), -math.huge)
      sum = sum and sum + later or later
    end
    return sum
  end

  --- Attention of the query over the keys. Options: key_padding_mask [batch, keys] and attn_mask [queries, keys] or
  --- [batch heads, queries, keys], of bools (true: not seen) or floats (added); need_weights = true;
  --- average_attn_weights = true, over the heads; is_causal = false.
  --- Raises where an input or a mask has other sizes.
  ---@param query tycho.Tensor [batch, queries, width]
  ---@param key? tycho.Tensor [batch, keys, kdim], the query
  ---@param value? tycho.Tensor [batch, keys, vdim], the key
  ---@param opts? {key_padding_mask: tycho.Tensor?, attn_mask: tycho.Tensor?, need_weights: boolean?,
  ---  average_attn_weights: boolean?, is_causal: boolean?}
  ---@return tycho.Tensor # [batch, queries, width]
  ---@return tycho.Tensor? weights [batch, queries, keys], or [batch, heads, queries, keys] of each head
  function Attention:forward(query, key, value, opts)
    opts = check.options(self.class_name, opts, call_options)
    local single = is_tensor(query) and query.ndim == 2
    key = key == nil and query or key
    value = value == nil and key or value
    local q = project(self, input(self, "the query", query, self.width), 0, "q_proj_weight")
    local k = project(self, input(self, "the key", key, self.kdim), 1, "k_proj_weight")
    local v = project(self, input(self, "the value", value, self.vdim), 2, "v_proj_weight")
    local mask = joined(self, q, k, opts)
    local y, weights
    if opts.need_weights == false then
      y = ty.scaled_dot_product_attention(q, k, v, { mask = mask, dropout = self.dropout, training = self.training })
    else
      local scores = q:matmul(k:transpose(-1, -2)) * math.sqrt(self.heads / self.width)
      weights = ty.softmax(mask and scores + mask or scores, -1)
      if self.training and self.dropout > 0 then weights = ty.dropout(weights, self.dropout) end
      y = weights:matmul(v)
      if opts.average_attn_weights ~= false then weights = weights:mean(2) end
      if single then weights = weights:squeeze(1) end
    end
    y = self.out_proj(y:transpose(2, 3):flatten(3, 4))
    if single then return y:squeeze(1), weights end
    return self.batch_first and y or y:transpose(1, 2), weights
  end

  function Attention:describe() return ("%d, %d"):format(self.width, self.heads) end
end
