--- normal.lua -- ONNX operators that normalise.

local values = require "tycho.onnx.values"

local T = values.tensor

--- A vector of channels, dim 2 of x.
local function channels(v, x)
  local sizes = {}
  for d = 1, x.ndim do sizes[d] = d == 2 and v:size(1) or 1 end
  return v:reshape(sizes)
end

local function dims_from(x, first)
  local dims = {}
  for d = first, x.ndim do dims[#dims + 1] = d end
  return dims
end

return function(op)
  local batch = "epsilon momentum spatial training_mode is_test consumed_inputs"

  op("BatchNormalization", batch, function(a, x, scale, bias, mean, var)
    x, mean, var = T(x), T(mean), T(var)
    local function normal(m, v)
      local y = (x - channels(m, x)) / (channels(v, x) + (a.epsilon or 1e-5)):sqrt()
      return (y * channels(T(scale), x) + channels(T(bias), x)):to(x.dtype)
    end
    if a.training_mode ~= 1 then return normal(mean, var) end
    local dims = dims_from(x, 3)
    table.insert(dims, 1, 1)
    local m = x:mean(dims)
    local v = (x - channels(m, x)):square():mean(dims)
    local k = a.momentum or 0.9
    return normal(m, v), mean * k + m * (1 - k), var * k + v * (1 - k)
  end)

  op("InstanceNormalization", "epsilon consumed_inputs", function(a, x, scale, bias)
    x = T(x)
    local dims = dims_from(x, 3)
    local centred = x - x:mean(dims, true)
    local y = centred / (centred:square():mean(dims, true) + (a.epsilon or 1e-5)):sqrt()
    return y * channels(T(scale), x) + channels(T(bias), x)
  end)

  op("GroupNormalization", "epsilon num_groups stash_type", function(a, x, scale, bias)
    x, scale, bias = T(x), T(scale), T(bias)
    local groups = a.num_groups
    local y = x:reshape(x:size(1), groups, -1)
    local centred = y - y:mean(3, true)
    y = (centred / (centred:square():mean(3, true) + (a.epsilon or 1e-5)):sqrt()):reshape(x.shape)
    if a.opset < 21 then -- one number a group
      local each = x:size(2) / groups
      scale, bias = scale:repeat_interleave(each), bias:repeat_interleave(each)
    end
    return y * channels(scale, x) + channels(bias, x)
  end)

  op("LayerNormalization", "axis epsilon stash_type", function(a, x, scale, bias)
    x = T(x)
    local axis = a.axis or -1
    local dims = dims_from(x, values.dim(x, axis))
    local mean = x:mean(dims, true)
    local centred = x - mean
    local inverse = (centred:square():mean(dims, true) + (a.epsilon or 1e-5)):sqrt():reciprocal()
    local y = centred * inverse * T(scale)
    return bias ~= nil and y + T(bias) or y, mean, inverse
  end)

  op("RMSNormalization", "axis epsilon stash_type", function(a, x, scale)
    x = T(x)
    local axis = a.axis or -1
    local dims = dims_from(x, values.dim(x, axis))
    return x / (x:square():mean(dims, true) + (a.epsilon or 1e-5)):sqrt() * T(scale)
  end)

end
