--- attention.lua -- ONNX operators of transformers: attention, rotary positions.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local T = values.tensor

return function(op)
  --- [batch, length, heads * size] as [batch, heads, length, size].
  local function heads(x, n)
    if x.ndim == 4 then return x end
    return x:reshape(x:size(1), x:size(2), n, -1):transpose(2, 3)
  end

  local attributes = "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap "
    .. "softmax_precision left_window_size right_window_size"

  op("Attention", attributes, function(a, q, k, v, mask, past_k, past_v, lengths)
    q, k, v = T(q), T(k), T(v)
    local flat = q.ndim == 3
    q, k, v = heads(q, a.q_num_heads), heads(k, a.kv_num_heads), heads(v, a.kv_num_heads)
    local past = 0
    if past_k ~= nil then
      past = T(past_k):size(3)
      k, v = ty.cat({ T(past_k), k }, 3), ty.cat({ T(past_v), v }, 3)
    end
    local present_k, present_v = k, v
    local group = q:size(2) / k:size(2)
    if group > 1 then k, v = k:repeat_interleave(group, 2), v:repeat_interleave(group, 2) end
    local scale = math.sqrt(a.scale or 1 / math.sqrt(q:size(4)))
    local scores = (q * scale):matmul((k * scale):transpose(3, 4))
    local plain = scores
    local rows, columns = q:size(3), k:size(3)
    if (a.softcap or 0) > 0 then scores = (scores / a.softcap):tanh() * a.softcap end
    local capped = scores
    local low = -math.huge
    if mask ~= nil then
      mask = T(mask)
      if mask:size(-1) < columns then
        local around = {}
        for d = 1, mask.ndim do around[d] = { 0, d == mask.ndim and columns - mask:size(-1) or 0 } end
        mask = mask.dtype == "bool" and mask:to("u8"):pad(around):to("bool") or mask:pad(around, low)
      end
      scores = mask.dtype == "bool" and ty.where(mask, scores, low) or scores + mask
    end
    -- how many keys stand before the first query
    local before = past
    if lengths ~= nil then
      lengths = T(lengths):to("i64"):reshape(-1, 1, 1, 1)
      before = lengths - rows
    end
    local left, right = a.left_window_size or -1, a.right_window_size or -1
    if a.is_causal == 1 then right = right < 0 and 0 or math.min(right, 0) end
    local at, own = values.places(columns):unsqueeze(1), values.places(rows):unsqueeze(2) + before
    if right >= 0 then scores = ty.where(at:le(own + right), scores, low) end
    if left >= 0 then scores = ty.where(at:ge(own - left), scores, low) end
    if lengths ~= nil then scores = ty.where(at:lt(lengths), scores, low) end
    local weights = scores:softmax(-1)
    weights = ty.where(weights:isnan(), 0, weights)
    local y = weights:matmul(v)
    if flat then y = y:transpose(2, 3):flatten(3, 4) end
    local mode = a.qk_matmul_output_mode or 0
    local shown = mode == 0 and plain or mode == 1 and capped or mode == 2 and scores or weights
    return y, present_k, present_v, shown
  end)

  op("RotaryEmbedding", "interleaved num_heads rotary_embedding_dim", function(a, x, cos, sin, positions)
    x, cos, sin = T(x), T(cos), T(sin)
    local flat = x.ndim == 3
    local shape = x.shape
    if flat then x = heads(x, a.num_heads) end
    local width = a.rotary_embedding_dim or 0
    if width == 0 then width = x:size(4) end
    if positions ~= nil then
      positions = T(positions):to("i64") + 1
      local sizes = { positions:size(1), positions:size(2), cos:size(2) }
      cos = cos:index_select(1, positions:reshape(-1)):reshape(sizes)
      sin = sin:index_select(1, positions:reshape(-1)):reshape(sizes)
    end
    cos, sin = cos:unsqueeze(2), sin:unsqueeze(2)
    local turned, rest = x:narrow(4, 1, width), x:narrow(4, width + 1, x:size(4) - width)
    local half, y = width / 2
    cos, sin = cos:narrow(-1, 1, half), sin:narrow(-1, 1, half)
    if a.interleaved == 1 then
      local p, q = turned:slice(4, 1, width - 1, 2), turned:slice(4, 2, width, 2)
      y = ty.stack({ p * cos - q * sin, p * sin + q * cos }, -1):flatten(-2, -1)
    else
      local p, q = turned:narrow(4, 1, half), turned:narrow(4, half + 1, half)
      y = ty.cat({ p * cos - q * sin, p * sin + q * cos }, 4)
    end
    if width < x:size(4) then y = ty.cat({ y, rest }, 4) end
    return flat and y:transpose(2, 3):reshape(shape) or y
  end)

  --- Attention whose state is a matrix a head, which each token in turn decays, corrects, adds to and reads.
  op("LinearAttention", "chunk_size kv_num_heads q_num_heads scale update_rule", function(a, q, k, v, ...)
    local state, decay, beta = ...
    q, k, v = T(q), T(k), T(v)
    local dtype, group = q.dtype, a.q_num_heads / a.kv_num_heads
    local function split(x, n) return heads(T(x):to("f32"), n) end
    q, k, v = split(q, a.q_num_heads), split(k, a.kv_num_heads), split(v, a.kv_num_heads)
    local kept = state ~= nil and T(state).dtype or dtype
    local s = state ~= nil and T(state):to("f32") or ty.zeros({ k:size(1), k:size(2), k:size(4), v:size(4) },
      { device = k.device })
    decay = decay ~= nil and split(decay, a.kv_num_heads) or nil
    beta = beta ~= nil and split(beta, T(beta):size(3) == a.kv_num_heads and a.kv_num_heads or 1) or nil
    local scale = (a.scale or 0) == 0 and 1 / math.sqrt(k:size(4)) or a.scale
    local rows = {}
    for t = 1, q:size(3) do
      local function at(x) return x:narrow(3, t, 1):squeeze(3) end
      local key, value = at(k), at(v)
      if decay then s = s * at(decay):exp():unsqueeze(-1) end
      if beta then value = at(beta) * (value - key:unsqueeze(-2):matmul(s):squeeze(-2)) end
      s = s + key:unsqueeze(-1) * value:unsqueeze(-2)
      local read = group > 1 and s:repeat_interleave(group, 2) or s
      rows[t] = at(q):unsqueeze(-2):matmul(read):squeeze(-2) * scale
    end
    return ty.stack(rows, 2):flatten(3, 4):to(dtype), s:to(kept)
  end)

  --- A depthwise convolution that sees what came before: the last places of the call before are given and handed on.
  op("CausalConvWithState", "activation", function(a, x, w, bias, state)
    x, w = T(x), T(w)
    local reach = w:size(3) - 1
    local before = state ~= nil and T(state) or ty.zeros({ x:size(1), x:size(2), reach },
      { dtype = x.dtype, device = x.device })
    local whole = ty.cat({ before, x }, 3)
    local y = ty.conv1d(whole, w, bias ~= nil and T(bias) or nil, { groups = x:size(2) })
    if a.activation and a.activation ~= "none" then y = y:silu() end
    return y, whole:narrow(3, whole:size(3) - reach + 1, reach)
  end)

  op("SwiGLU", "alpha", function(a, x, y)
    x, y = T(x), T(y)
    return x * (x * (a.alpha or 1)):sigmoid() * y
  end)
end
