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

  local attributes = "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision"

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
    if a.is_causal == 1 then
      local seen = ty.range(columns):unsqueeze(1):le(ty.range(rows):unsqueeze(2) + past)
      scores = ty.where(seen, scores, low)
    end
    if lengths ~= nil then
      local seen = ty.range(columns):unsqueeze(1):le(T(lengths):unsqueeze(2))
      scores = ty.where(seen:reshape(seen:size(1), 1, 1, columns), scores, low)
    end
    local weights = scores:softmax(-1)
    weights = ty.where(weights:isnan(), 0, weights)
    local y = weights:matmul(v)
    if flat then y = y:transpose(2, 3):flatten(3, 4) end
    local mode = a.qk_matmul_output_mode or 0
    local shown = mode == 0 and plain or mode == 1 and scores or mode == 2 and capped or weights
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
    local half, y = width / 2, nil
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
end
