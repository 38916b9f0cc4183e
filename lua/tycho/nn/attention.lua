--- nn/attention.lua -- attention of several heads, rotary positions, the transformer's block, caches.
-- In: [batch, time, width], or without the batch. Out: the same shape.
--
-- A cache holds the keys and values of the positions so far: attention:cache(batch, positions) makes an empty one
-- with room for that many; a forward with {cache = c} adds its positions behind those that are there, and sees them
-- all. What is added must not be more than there is room for. Under a cache attention is causal.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count, cast = nn._check, nn.class, nn._count, nn._cast
  local is_tensor = ty.is_tensor
  local attend = ty.scaled_dot_product_attention

  ---------------------------------------------------------------------------------------------------------- positions

  --- Turns pairs of features by angles that grow with the position: feature i with feature i + n / 2, by
  --- position * base^(-2 (i - 1) / n). Su and others 2021, arXiv:2104.09864.
  --- Raises where features are odd, or the base is not positive.
  ---@param x tycho.Tensor floats [..., time, features], features even
  ---@param offset? integer the position of the first time, 0
  ---@param base? number 10000
  ---@return tycho.Tensor # shape and dtype of x
  function nn.rotary(x, offset, base)
    check.float("rotary", 1, x)
    if x.ndim < 2 or x:size(-1) % 2 ~= 0 then
      check.fail("rotary", "argument 1 must be [..., time, features], features even, got %s", check.text(x))
    end
    if not is_tensor(offset) then offset = check.number("rotary", 2, offset, "offset", 0) end
    base = check.number("rotary", 3, base, "base", 10000)
    if base <= 0 or base ~= base then
      check.fail("rotary", "argument 3 (base) must be positive, got %s", check.show(base))
    end
    local half = x:size(-1) / 2
    local there = { device = x.device }
    local rates = ty.exp(ty.arange(half, there) * (-math.log(base) / half))
    local angles = (ty.arange(x:size(-2), there) + offset):unsqueeze(2) * rates
    local c, s = ty.cos(angles), ty.sin(angles)
    local w = (x.dtype == "f16" or x.dtype == "bf16") and x:to("f32") or x
    local a, b = w:narrow(-1, 1, half), w:narrow(-1, half + 1, half)
    local y = ty.cat({ a * c - b * s, b * c + a * s }, -1)
    return y.dtype == x.dtype and y or y:to(x.dtype)
  end

  ---------------------------------------------------------------------------------------------------------- attention

  ---@class tycho.nn.MultiHeadAttention: tycho.Module
  local Attention = class "MultiHeadAttention"
  nn.MultiHeadAttention = Attention

  --- nn.MultiHeadAttention(width, heads, {bias = true, dropout = 0, causal = false, rotary = false, kv_heads =
  --- heads}): each head attends with its share of the features. in_proj_weight [width, 3 width] makes queries, keys
  --- and values. Vaswani and others 2017, arXiv:1706.03762. kv_heads: so many heads of keys and values, each for
  --- heads / kv_heads of the queries (Ainslie and others 2023, arXiv:2305.13245); in_proj_weight has as many columns
  --- fewer.
  --- Raises where the width does not divide into the heads, these not into kv_heads, or features a head are odd with
  --- rotary.
  ---@param width integer
  ---@param heads integer
  ---@param opts? {bias: boolean?, dropout: number?, causal: boolean?, rotary: boolean|number|nil, kv_heads: integer?}
  ---  rotary: or its base
  ---@return tycho.Module # [batch, time, width] to [batch, time, width]
  function Attention:init(width, heads, opts)
    local who = "MultiHeadAttention"
    self.width, self.heads = count(who, 1, width, "width"), count(who, 2, heads, "heads")
    if width % heads ~= 0 then check.fail(who, "a width of %d does not divide into %d heads", width, heads) end
    self.features = width / heads
    opts = check.options(who, opts, { bias = "boolean", dropout = "number", causal = "boolean", rotary = "any",
      kv_heads = "number" })
    self.kv_heads = count(who, 3, opts.kv_heads or heads, "kv_heads")
    if heads % self.kv_heads ~= 0 then
      check.fail(who, "%d heads do not divide into %d of keys and values", heads, self.kv_heads)
    end
    local rotary = opts.rotary
    if rotary and rotary ~= true and (type(rotary) ~= "number" or rotary <= 0 or rotary ~= rotary) then
      check.fail(who, "option rotary must be a boolean or a positive base, got %s", check.show(rotary))
    end
    if rotary and width / heads % 2 ~= 0 then
      check.fail(who, "rotary positions need an even number of features a head, got %d", width / heads)
    end
    self.dropout, self.causal, self.rotary = opts.dropout or 0, opts.causal or false, rotary or false
    local columns = width + 2 * self.kv_heads * width / heads
    self.in_proj_weight = nn.init.xavier_uniform_(nn.Parameter(ty.empty(width, columns)))
    self.out_proj = nn.Linear(width, width, { bias = opts.bias })
    if opts.bias ~= false then
      self.in_proj_bias = nn.Parameter(ty.zeros(columns))
      nn.init.zeros_(self.out_proj.bias)
    end
  end

  function Attention.from_torch(_, k, v)
    if k == "in_proj_weight" and v.ndim == 2 then return v:t() end
    return v
  end

  --- Room for the keys and values of `positions` positions.
  --- Raises where a number is not whole.
  ---@param batch integer
  ---@param positions integer
  ---@return table cache {k, v: [batch, heads, positions, features], length: how many are there}
  function Attention:cache(batch, positions)
    local sizes = { count("cache", 1, batch, "batch"), self.kv_heads, count("cache", 2, positions, "positions"),
      self.features }
    local opts = { dtype = self.in_proj_weight.dtype, device = self.in_proj_weight.device }
    return { k = ty.zeros(sizes, opts), v = ty.zeros(sizes, opts), length = 0 }
  end

  --- [batch, time, heads * features] to [batch, heads, time, features].
  local function split_heads(m, x, heads) return x:unflatten(3, { heads, m.features }):transpose(2, 3) end

  --- Keys or values of each head of queries: [batch, kv_heads, time, features] to [batch, heads, time, features].
  local function each_head(m, x)
    if m.kv_heads == m.heads then return x end
    local sizes = x:unsqueeze(3).shape
    sizes[3] = m.heads / m.kv_heads
    return x:unsqueeze(3):expand(sizes):flatten(2, 3)
  end

  --- x with a batch.
  local function input(m, what, x)
    if not is_tensor(x) or x.ndim < 2 or x.ndim > 3 or x:size(-1) ~= m.width then
      check.fail(m.class_name, "%s must be [batch, time, %d], got %s", what, m.width, check.got(x))
    end
    return x.ndim == 2 and x:unsqueeze(1) or x
  end

  --- x times some columns of the projection, n from `from` on.
  local function project(m, x, from, n)
    local a, weight, bias = cast(x, m.in_proj_weight, m.in_proj_bias)
    if n < weight:size(2) then
      weight = weight:narrow(2, from, n)
      bias = bias and bias:narrow(1, from, n)
    end
    local y = a:matmul(weight)
    if bias then y = y + bias end
    return y
  end

  --- Queries, keys and values. Of one input by one product.
  local function project_all(m, q, k, v)
    local w, n = m.heads * m.features, m.kv_heads * m.features
    if q == k and k == v then
      local all = project(m, q, 1, w + 2 * n)
      return all:narrow(3, 1, w), all:narrow(3, w + 1, n), all:narrow(3, w + n + 1, n)
    end
    return project(m, q, 1, w), project(m, k, w + 1, n), project(m, v, w + n + 1, n)
  end

  --- Checks that a cache is one for such keys.
  local function check_cache(cache, k)
    local room = type(cache) == "table" and cache.k
    if not is_tensor(room) or room.ndim ~= 4 or not is_tensor(cache.v) or type(cache.length) ~= "number" then
      check.fail("MultiHeadAttention", "option cache must be what cache(batch, positions) gives, got %s",
        check.show(cache))
    end
    for _, d in ipairs { 1, 2, 4 } do
      if room:size(d) ~= k:size(d) then
        check.fail("MultiHeadAttention", "the cache is for %d sequences of %d heads of %d features, not %d of %d of %d",
          room:size(1), room:size(2), room:size(4), k:size(1), k:size(2), k:size(4))
      end
    end
  end

  --- Writes new keys and values behind those in the cache; all of them.
  local function remember(cache, k, v)
    local before, new = cache.length, k:size(3)
    if before + new > cache.k:size(3) then
      check.fail("MultiHeadAttention", "the cache has room for %d positions, %d and %d more do not fit",
        cache.k:size(3), before, new)
    end
    cache.k:narrow(3, before + 1, new):copy_(k)
    cache.v:narrow(3, before + 1, new):copy_(v)
    cache.length = before + new
    return cache.k:narrow(3, 1, before + new):to(k.dtype), cache.v:narrow(3, 1, before + new):to(v.dtype)
  end

  local known = { mask = "any", causal = "boolean", cache = "table" }

  --- Attention of q over k and v; of x to itself when k and v are left out. Options: mask, of bools (true: seen) or
  --- floats (added), which broadcasts to [batch, heads, queries, keys]; causal, the module's own by default; cache.
  --- Raises where an input is not [batch, time, width], the mask does not broadcast, or the cache is full.
  ---@param q tycho.Tensor [batch, time, width]
  ---@param k? tycho.Tensor|table [batch, keys, width]; or the options
  ---@param v? tycho.Tensor
  ---@param opts? {mask: tycho.Tensor?, causal: boolean?, cache: table?}
  ---@return tycho.Tensor # [batch, time, width]
  function Attention:forward(q, k, v, opts)
    if k ~= nil and not is_tensor(k) then k, opts = nil, k end
    opts = opts == nil and {} or opts
    if type(opts) ~= "table" then check.options(self.class_name, opts, known) end
    for name in pairs(opts) do
      if not known[name] then check.options(self.class_name, opts, known) end
    end
    local single = is_tensor(q) and q.ndim == 2
    local queries = input(self, "the input", q)
    local keys = k == nil and queries or input(self, "the keys", k)
    local values = v == nil and keys or input(self, "the values", v)
    local hq, hk, hv = project_all(self, queries, keys, values)
    hq = split_heads(self, hq, self.heads)
    hk, hv = split_heads(self, hk, self.kv_heads), split_heads(self, hv, self.kv_heads)
    local cache, causal = opts.cache, opts.causal
    if cache ~= nil then check_cache(cache, hk) end
    if causal == nil then causal = self.causal end
    if self.rotary then
      local base, offset = type(self.rotary) == "number" and self.rotary or 10000, cache and cache.length or 0
      hq, hk = nn.rotary(hq, offset, base), nn.rotary(hk, offset, base)
    end
    if cache then hk, hv = remember(cache, hk, hv) end
    local y = attend(hq, each_head(self, hk), each_head(self, hv), {
      mask = opts.mask, causal = causal or cache ~= nil, dropout = self.dropout, training = self.training,
    })
    y = self.out_proj(y:transpose(2, 3):flatten(3, 4))
    return single and y:squeeze(1) or y
  end

  function Attention:describe()
    return ("%d, %d%s%s%s"):format(self.width, self.heads, self.causal and ", causal" or "",
      self.rotary and ", rotary" or "",
      self.kv_heads ~= self.heads and (", kv_heads = %d"):format(self.kv_heads) or "")
  end

  ---------------------------------------------------------------------------------------------------------- block

  ---@class tycho.nn.TransformerBlock: tycho.Module
  local Block = class "TransformerBlock"
  nn.TransformerBlock = Block

  local block_options = {
    inner = "number", dropout = "number", causal = "boolean", rotary = "any", norm = "string", activation = "string",
    bias = "boolean", eps = "number",
  }

  --- nn.TransformerBlock(width, heads, {inner = 4 * width, dropout = 0, causal = false, rotary = false, norm =
  --- "layer", activation = "gelu", bias = true, eps = 1e-5}): y = x + attention(norm(x)), y +
  --- linear2(gelu(linear1(norm(y)))). Norms come first (Xiong and others 2020, arXiv:2002.04745). norm = "rms":
  --- RMSNorm.
  --- Raises where the width does not divide into the heads, or norm or activation is not known.
  ---@param width integer
  ---@param heads integer
  ---@param opts? {inner: integer?, dropout: number?, causal: boolean?, rotary: boolean|number|nil,
  ---  norm: "layer"|"rms"|nil, activation: string?, bias: boolean?, eps: number?}
  ---@return tycho.Module # [batch, time, width] to [batch, time, width]
  function Block:init(width, heads, opts)
    local who = "TransformerBlock"
    count(who, 1, width, "width")
    opts = check.options(who, opts, block_options)
    local inner, norm = opts.inner or 4 * width, opts.norm or "layer"
    local activation = opts.activation or "gelu"
    if norm ~= "layer" and norm ~= "rms" then
      check.fail(who, "option norm must be \"layer\" or \"rms\", got %q", norm)
    end
    if activation ~= "gelu" and activation ~= "relu" and activation ~= "silu" then
      check.fail(who, "option activation must be \"gelu\", \"relu\" or \"silu\", got %q", activation)
    end
    local Norm, affine = norm == "rms" and nn.RMSNorm or nn.LayerNorm, { eps = opts.eps }
    if norm == "layer" then affine.bias = opts.bias end
    self.self_attn = nn.MultiHeadAttention(width, heads,
      { bias = opts.bias, dropout = opts.dropout, causal = opts.causal, rotary = opts.rotary })
    self.linear1 = nn.Linear(width, inner, { bias = opts.bias })
    self.linear2 = nn.Linear(inner, width, { bias = opts.bias })
    self.norm1, self.norm2 = Norm(width, affine), Norm(width, affine)
    self.dropout, self.activation = opts.dropout or 0, activation
  end

  --- Room for the keys and values of `positions` positions.
  --- Raises where a number is not whole.
  ---@param batch integer
  ---@param positions integer
  ---@return table # what the option cache of the call takes
  function Block:cache(batch, positions) return self.self_attn:cache(batch, positions) end

  local function drop(m, x)
    if m.training and m.dropout > 0 then return ty.dropout(x, m.dropout) end
    return x
  end

  --- [batch, time, width] to the same shape. Options: mask, causal, cache, as of the attention.
  --- Raises where the input is not [batch, time, width].
  ---@param x tycho.Tensor
  ---@param opts? {mask: tycho.Tensor?, causal: boolean?, cache: table?}
  ---@return tycho.Tensor # [batch, time, width]
  function Block:forward(x, opts)
    local y = x + drop(self, self.self_attn(self.norm1(x), opts))
    local inner = self.linear1(self.norm2(y))
    if self.activation == "gelu" then inner = ty.gelu(inner)
    elseif self.activation == "relu" then inner = ty.relu(inner)
    else inner = ty.silu(inner) end
    return y + drop(self, self.linear2(drop(self, inner)))
  end
end
