--- attention.lua -- scaled dot-product attention, in blocks: softmax(q k^t scale + mask) v.
-- In: queries, keys, values [..., positions, features]. Out: [..., queries, features of the values].
--
-- Few scores are computed as a whole. Many (more than WHOLE) are never in memory together: queries are taken in blocks,
-- and for each block the keys in blocks too, with the running maximum m, the running sum l of exp(s - m) and the
-- running product o of these with the values. A new block with maximum m' rescales what is there by exp(m - m'):
--   l' = l exp(m - m') + sum(exp(s - m')),   o' = o exp(m - m') + exp(s - m') v,   at the end o / l.
-- Milakov, Gimelshein 2018, arXiv:1805.02867; Rabe, Staats 2021, arXiv:2112.05682; Dao and others 2022,
-- arXiv:2205.14135.
-- For gradients each block of queries is computed again on the way back, so the scores of one block are what is kept.
--
-- Rules.
-- 1. The result is a function of the shapes and values alone: blocks depend on sizes and on nothing else.
-- 2. The maximum only keeps exp in range: it carries no gradient.
-- 3. A query without any key gives zeros.
-- 4. Half floats: products round to them, all between is f32.

---@param ty table the core module
---@param check table check.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, matmul = check.fail, ty.matmul
  local where, maximum, exp, eq = ty.where, ty.maximum, ty.exp, ty.eq
  local min, max, floor = math.min, math.max, math.floor
  local INF = math.huge
  local halves = { f16 = true, bf16 = true }

  local WHOLE = 2 ^ 22      -- scores that are computed at once
  local KEYS = 512          -- keys a block
  local QUERIES = { 64, 1024 } -- queries a block, least and most

  --- Scores of queries from i and keys from j on (1-based), masked; f32 or f64.
  local function scores(q, k, o, i, j)
    local s = matmul(q, k:transpose(-1, -2))
    if halves[s.dtype] then s = s:to("f32") end
    s = s * o.scale
    local n, m = q:size(-2), k:size(-2)
    local mask = o.mask
    if mask then
      if mask:size(-2) > 1 then mask = mask:narrow(-2, i, n) end
      if mask:size(-1) > 1 then mask = mask:narrow(-1, j, m) end
      s = mask.dtype == "bool" and where(mask, s, -INF) or s + mask
    end
    local ahead = o.ahead
    if ahead and j + m - 1 > i + ahead then -- query i sees the keys up to i + ahead
      local rows, columns = ty.arange(n, { dtype = "i64" }), ty.arange(m, { dtype = "i64" })
      s = where((rows + (i + ahead - j)):unsqueeze(2):ge(columns), s, -INF)
    end
    return s
  end

  --- The weights of a block as they meet the values.
  local function weigh(p, v, o)
    if o.dropout > 0 then p = ty.dropout(p, o.dropout) end
    local half = halves[v.dtype]
    if not half then return matmul(p, v) end
    return matmul(p:to(v.dtype), v):to("f32")
  end

  --- The largest scores of each query, without gradient; 0 where no key is seen.
  local function top(s)
    local m = s:detach():max(-1, true)
    return where(eq(m, -INF), 0, m)
  end

  local function finish(y, l) return y / where(eq(l, 0), 1, l) end

  --- Attention of queries from i on over all keys that they may see.
  local function attend(q, k, v, o, i)
    local last = k:size(-2)
    if o.ahead then last = max(min(last, i + q:size(-2) - 1 + o.ahead), 1) end
    local step = o.whole and last or KEYS
    local m, l, y
    for j = 1, last, step do
      local count = min(step, last - j + 1)
      local keys, values = k:narrow(-2, j, count), v:narrow(-2, j, count)
      local s = scores(q, keys, o, i, j)
      local least = top(s)
      if not m then
        local p = exp(s - least)
        m, l, y = least, p:sum(-1, true), weigh(p, values, o)
      else
        local both = maximum(m, least)
        local p, shrink = exp(s - both), exp(m - both)
        m, l, y = both, l * shrink + p:sum(-1, true), y * shrink + weigh(p, values, o)
      end
    end
    return finish(y, l)
  end

  local function count_of(x, rank)
    local n = 1
    for d = 1, rank do n = n * x:size(d) end
    return n
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
  local function check_operands(who, q, k, v)
    local all = { q, k, v }
    for i = 1, 3 do
      check.float(who, i, all[i])
      if all[i].ndim < 2 then fail(who, "argument %d must have at least 2 dims, got %s", i, check.text(all[i])) end
    end
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
    check_lead(who, mask, q)
    check_lead(who, mask, k)
    return mask
  end

  --- What the values give to each query, by softmax(q k^t scale + mask).
  --- Options: mask, of bools (true: seen) or of floats (added to the scores), which broadcasts to [..., queries, keys];
  --- causal = false: the last query sees all keys, each one before it one key less; dropout = 0, of the weights;
  --- training = true, else there is no dropout; scale = 1 / sqrt(features).
  --- Vaswani and others 2017, arXiv:1706.03762. Memory grows with queries + keys, not with their product.
  ---@param q tycho.Tensor floats [..., queries, features]
  ---@param k tycho.Tensor floats [..., keys, features]
  ---@param v tycho.Tensor floats [..., keys, width]
  ---@param opts? {mask: tycho.Tensor?, causal: boolean?, dropout: number?, training: boolean?, scale: number?}
  ---@return tycho.Tensor # [..., queries, width], dtype of q
  local function scaled_dot_product_attention(q, k, v, opts)
    local who = "scaled_dot_product_attention"
    check_operands(who, q, k, v)
    opts = check.options(who, opts, known)
    local n, m = q:size(-2), k:size(-2)
    local dropout = opts.training == false and 0 or opts.dropout or 0
    if not (dropout >= 0 and dropout <= 1) then fail(who, "option dropout must be in 0..1, got %.14g", dropout) end
    local lead = max(count_of(q, q.ndim - 2), count_of(k, k.ndim - 2))
    local o = {
      scale = opts.scale or 1 / math.sqrt(max(q:size(-1), 1)), dropout = dropout,
      mask = opts.mask ~= nil and check_mask(who, opts.mask, q, k) or nil, ahead = opts.causal and m - n or nil,
    }
    o.whole = lead * n * m <= WHOLE or m <= KEYS
    local dtype = q.dtype
    if m == 0 then fail(who, "no keys in %s", check.text(k)) end
    local rows = min(max(floor(WHOLE / (lead * KEYS)), QUERIES[1]), QUERIES[2])
    if lead * n * m <= WHOLE then
      local y = attend(q, k, v, o, 1)
      return y.dtype == dtype and y or y:to(dtype)
    end
    local parts = {}
    for i = 1, n, rows do
      local part = q:narrow(-2, i, min(rows, n - i + 1))
      local y = ty.checkpoint(function(a, b, c) return attend(a, b, c, o, i) end, part, k, v)
      parts[#parts + 1] = y.dtype == dtype and y or y:to(dtype)
    end
    return ty.cat(parts, -2)
  end

  row { "scaled_dot_product_attention", "q, k, v, {mask, causal = false, dropout = 0, training = true, scale}",
    scaled_dot_product_attention, "softmax(q k^t scale + mask) v, without the whole score matrix",
    shape = "[..., queries, width of v]", formula = "Vaswani and others 2017, arXiv:1706.03762" }
end
