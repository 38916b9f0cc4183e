--- attention.lua -- scaled dot-product attention: softmax(q k^t scale + mask) v.
-- In: queries, keys, values [..., positions, features]. Out: [..., queries, features of the values].
--
-- The work is one operation of the core (core/attend.c): queries and keys go in blocks, whose scores are never in
-- memory together, there and back. Milakov, Gimelshein 2018, arXiv:1805.02867; Rabe, Staats 2021, arXiv:2112.05682;
-- Dao and others 2022, arXiv:2205.14135.
--
-- Rules.
-- 1. A query without any key gives zeros.
-- 2. Half floats: the operation computes in f32, its result is rounded once.
-- 3. A mask that needs a gradient makes the scores an array like any other, and so does dropout under ty.vmap, where
--    examples may differ or must not. So do gradients of gradients (grad_attend.c). Only memory differs.
-- 4. Weights are dropped by their positions and two random words, so that the backward pass drops the same.

---@param ty table the core module
---@param check table check.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, matmul = check.fail, ty.matmul
  local where, exp, eq = ty.where, ty.exp, ty.eq
  local attend, level = ty.internals.attend, ty.internals.vmap.level
  local min, max = math.min, math.max
  local INF = math.huge
  local halves = { f16 = true, bf16 = true }

  --- Attention by operations on all scores.
  local function attend_whole(q, k, v, o)
    local s, mask = matmul(q, k:transpose(-1, -2)) * o.scale, o.mask
    if mask then s = mask.dtype == "bool" and where(mask, s, -INF) or s + mask end
    local n, m = q:size(-2), k:size(-2)
    if o.causal then -- query i sees the keys up to i + m - n
      local whole = { dtype = "i64", device = q.device }
      local rows, columns = ty.arange(n, whole), ty.arange(m, whole)
      s = where((rows + (m - n)):unsqueeze(2):ge(columns), s, -INF)
    end
    local top = s:detach():max(-1, true)
    local p = exp(s - where(eq(top, -INF), 0, top))
    local l = p:sum(-1, true)
    if o.dropout > 0 then p = ty.dropout(p, o.dropout) end
    return matmul(p, v) / where(eq(l, 0), 1, l)
  end

  --- Heads of queries in groups that share a head of keys and values: dim -3 of q becomes two.
  local function grouped(q, k, v, mask)
    if q.ndim < 3 or k.ndim ~= q.ndim or v.ndim ~= q.ndim then return nil end
    local heads, shared = q:size(-3), k:size(-3)
    if shared < 2 or heads <= shared or heads % shared ~= 0 or v:size(-3) ~= shared then return nil end
    if mask and mask.ndim >= 3 then
      mask = mask:size(-3) == 1 and mask:unsqueeze(-3) or mask:unflatten(-3, { shared, heads / shared })
    end
    return q:unflatten(-3, { shared, heads / shared }), k:unsqueeze(-3), v:unsqueeze(-3), mask
  end

  --- Checks that the dims before the last two broadcast.
  local function check_lead(who, a, b)
    local p, r = a.shape, b.shape
    for i = 2, min(#p, #r) - 1 do
      local m, n = p[#p - i], r[#r - i]
      if m ~= n and m ~= 1 and n ~= 1 then
        fail(who, "leading sizes do not broadcast, %s and %s", check.text(a), check.text(b))
      end
    end
  end

  --- Checks what attention is given.
  local function check_operand(who, i, x)
    check.float(who, i, x)
    if x.ndim < 2 then fail(who, "argument %d must have at least 2 dims, got %s", i, check.text(x)) end
  end

  --- Checks that they go together.
  local function check_operands(who, q, k, v)
    check_lead(who, q, k)
    check_lead(who, q, v)
    check_lead(who, k, v)
    if q:size(-1) ~= k:size(-1) then
      fail(who, "queries and keys have other features, %s and %s", check.text(q), check.text(k))
    end
    if k:size(-2) ~= v:size(-2) then
      fail(who, "keys and values have other positions, %s and %s", check.text(k), check.text(v))
    end
    if q.dtype ~= k.dtype or k.dtype ~= v.dtype then
      fail(who, "dtypes differ, %s, %s and %s", check.text(q), check.text(k), check.text(v))
    end
  end

  local known = { mask = "any", causal = "boolean", dropout = "number", scale = "number", training = "boolean" }

  local function check_mask(who, mask, q, k)
    local n, m = q:size(-2), k:size(-2)
    check.tensor(who, 4, mask)
    local dtype = mask.dtype
    if dtype ~= "bool" and not dtype:find("f", 1, true) then
      fail(who, "option mask must be of bools (true: seen) or floats (added), got %s", check.text(mask))
    end
    local rows, columns = mask.ndim >= 2 and mask:size(-2) or 1, mask.ndim >= 1 and mask:size(-1) or 1
    if rows ~= 1 and rows ~= n or columns ~= 1 and columns ~= m then
      fail(who, "option mask %s does not fit %d queries and %d keys", check.text(mask), n, m)
    end
    while mask.ndim < 2 do mask = mask:unsqueeze(1) end
    return mask
  end

  --- What the values give to each query, by softmax(q k^t scale + mask).
  --- Options: mask, of bools (true: seen) or of floats (added to the scores), which broadcasts to [..., queries, keys];
  --- causal = false: the last query sees all keys, each one before it one key less; dropout = 0, of the weights;
  --- training = true, else there is no dropout; scale = 1 / sqrt(features).
  --- Keys and values may have fewer heads (dim -3) than queries: each serves as many that stand side by side.
  --- Vaswani and others 2017, arXiv:1706.03762. Memory grows with queries + keys, not with their product.
  --- Raises where features, positions, dtypes or leading sizes do not fit each other, or the mask does not broadcast to
  --- the scores.
  ---@param q tycho.Tensor floats [..., queries, features]
  ---@param k tycho.Tensor floats [..., keys, features]
  ---@param v tycho.Tensor floats [..., keys, width]
  ---@param opts? {mask: tycho.Tensor?, causal: boolean?, dropout: number?, training: boolean?, scale: number?}
  ---@return tycho.Tensor # [..., queries, width], dtype of q
  local function scaled_dot_product_attention(q, k, v, opts)
    local who = "scaled_dot_product_attention"
    opts = check.options(who, opts, known)
    check_operand(who, 1, q)
    check_operand(who, 2, k)
    check_operand(who, 3, v)
    local mask = opts.mask ~= nil and check_mask(who, opts.mask, q, k) or nil
    local gq, gk, gv, gmask = grouped(q, k, v, mask)
    if gq then
      local y = scaled_dot_product_attention(gq, gk, gv, { mask = gmask, causal = opts.causal,
        dropout = opts.dropout, training = opts.training, scale = opts.scale })
      return y:flatten(-4, -3)
    end
    check_operands(who, q, k, v)
    if mask then
      check_lead(who, mask, q)
      check_lead(who, mask, k)
    end
    local dropout = opts.training == false and 0 or opts.dropout or 0
    if not (dropout >= 0 and dropout <= 1) then fail(who, "option dropout must be in 0..1, got %.14g", dropout) end
    local dtype, causal = q.dtype, opts.causal or false
    local scale = opts.scale or 1 / math.sqrt(max(q:size(-1), 1))
    local key = dropout > 0 and ty.randint(-2 ^ 31, 2 ^ 31 - 1, { 2 }, { dtype = "i32", device = q.device }) or nil
    local y
    if mask and mask.requires_grad or key and level(q) + level(k) + level(v) + level(key) > 0 then
      if halves[dtype] then q, k, v = q:to("f32"), k:to("f32"), v:to("f32") end
      y = attend_whole(q, k, v, { mask = mask, causal = causal, scale = scale, dropout = dropout })
    else
      y = attend(q, k, v, mask, key, causal, scale, dropout)
    end
    return y.dtype == dtype and y or y:to(dtype)
  end

  row { "scaled_dot_product_attention", "q, k, v, {mask, causal = false, dropout = 0, training = true, scale}",
    scaled_dot_product_attention, "softmax(q k^t scale + mask) v, without the whole score matrix",
    shape = "[..., queries, width of v]", formula = "Vaswani and others 2017, arXiv:1706.03762", single = true }
end
