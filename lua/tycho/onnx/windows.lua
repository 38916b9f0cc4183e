--- windows.lua -- ONNX operators over windows: convolutions, their transposes, pooling.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local ipairs = ipairs
local T = values.tensor
local floor, ceil, max = math.floor, math.ceil, math.max

local function list_of(v, n, default)
  local y = {}
  for i = 1, n do y[i] = v and v[i] or default end
  return y
end

return function(op)
  local function check_pad(a)
    local mode = a.auto_pad
    if mode and mode ~= "NOTSET" and mode ~= "SAME_UPPER" and mode ~= "SAME_LOWER" and mode ~= "VALID" then
      return ("auto_pad %q is not known"):format(mode)
    end
    return nil
  end

  --- Places before and after each of the n dims behind batch and channels.
  local function paddings(a, x, n, kernel, stride, dilation)
    local before, after = {}, {}
    local mode = a.auto_pad or "NOTSET"
    for i = 1, n do
      if mode == "NOTSET" then
        before[i], after[i] = a.pads and a.pads[i] or 0, a.pads and a.pads[n + i] or 0
      elseif mode == "VALID" then
        before[i], after[i] = 0, 0
      else
        local size = x:size(i + 2)
        local out = ceil(size / stride[i])
        local all = max(0, (out - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - size)
        local less = floor(all / 2)
        before[i], after[i] = less, all - less
        if mode == "SAME_LOWER" then before[i], after[i] = all - less, less end
      end
    end
    return before, after
  end

  local function padded(x, n, before, after, value)
    local any, around = false, { { 0, 0 }, { 0, 0 } }
    for i = 1, n do
      around[i + 2] = { before[i], after[i] }
      any = any or before[i] ~= 0 or after[i] ~= 0
    end
    return any and x:pad(around, value) or x
  end

  local convolutions = { ty.conv1d, ty.conv2d, ty.conv3d }

  --- A convolution over n dims; padding that differs before and after is made beforehand.
  local function convolve(a, x, w, bias)
    local n = x.ndim - 2
    local kernel = {}
    for i = 1, n do kernel[i] = w:size(i + 2) end
    local stride, dilation = list_of(a.strides, n, 1), list_of(a.dilations, n, 1)
    local before, after = paddings(a, x, n, kernel, stride, dilation)
    local even = true
    for i = 1, n do even = even and before[i] == after[i] end
    local opts = { stride = stride, dilation = dilation, padding = even and before or 0, groups = a.group or 1 }
    if not even then x = padded(x, n, before, after) end
    return convolutions[n](x, w, bias, opts)
  end
  op.convolve = convolve

  op("Conv", "auto_pad dilations group kernel_shape pads strides", function(a, x, w, bias)
    return convolve(a, T(x), T(w), bias ~= nil and T(bias) or nil)
  end, { check = check_pad })

  local transposed = { ty.conv_transpose1d, ty.conv_transpose2d, ty.conv_transpose3d }
  local known = "auto_pad dilations group kernel_shape output_padding output_shape pads strides"

  --- The whole of the transpose, of which pads are cut, and which output_padding lengthens.
  op("ConvTranspose", known, function(a, x, w, bias)
    x, w = T(x), T(w)
    local n = x.ndim - 2
    local stride, dilation = list_of(a.strides, n, 1), list_of(a.dilations, n, 1)
    local extra = list_of(a.output_padding, n, 0)
    local y = transposed[n](x, w, nil, { stride = stride, dilation = dilation, groups = a.group or 1 })
    local mode, around = a.auto_pad or "NOTSET", { { 0, 0 }, { 0, 0 } }
    for i = 1, n do
      local full = y:size(i + 2) + extra[i]
      local before, after = a.pads and a.pads[i] or 0, a.pads and a.pads[n + i] or 0
      local want = a.output_shape and a.output_shape[#a.output_shape - n + i]
        or mode:sub(1, 4) == "SAME" and x:size(i + 2) * stride[i]
      if want then
        local cut = max(0, full - want)
        before, after = ceil(cut / 2), floor(cut / 2)
        if mode == "SAME_UPPER" then before, after = after, before end
        extra[i] = extra[i] + max(0, want - full)
      end
      y = y:narrow(i + 2, before + 1, y:size(i + 2) - before + math.min(0, extra[i] - after))
      around[i + 2] = { 0, max(0, extra[i] - after) }
    end
    y = y:pad(around)
    if bias == nil then return y end
    local sizes = { -1 }
    for i = 1, n do sizes[i + 1] = 1 end
    return y + T(bias):reshape(sizes)
  end, { check = check_pad })

  ---------------------------------------------------------------------------------------------------------- pooling

  --- How windows lie: stride, dilation, padding (behind the last one more where ceil_mode asks for it), their numbers.
  local function windows_of(a, x)
    local n = x.ndim - 2
    local kernel, stride, dilation = list_of(a.kernel_shape, n, 1), list_of(a.strides, n, 1), list_of(a.dilations, n, 1)
    local before, after = paddings(a, x, n, kernel, stride, dilation)
    local more = {}
    for i = 1, n do
      more[i] = 0
      local reach = (kernel[i] - 1) * dilation[i] + 1
      local all = x:size(i + 2) + before[i] + after[i]
      if a.ceil_mode == 1 then
        local count = ceil((all - reach) / stride[i]) + 1
        if (count - 1) * stride[i] >= x:size(i + 2) + before[i] then count = count - 1 end
        more[i] = max(0, (count - 1) * stride[i] + reach - all)
      end
    end
    return n, kernel, stride, dilation, before, after, more
  end

  --- The windows of x as last dims: [batch, channels, places..., kernel...].
  local function unfolded(x, n, kernel, stride, dilation)
    for i = 1, n do
      local reach = (kernel[i] - 1) * dilation[i] + 1
      x = x:unfold(i + 2, reach, stride[i])
      if dilation[i] > 1 then x = x:slice(-1, 1, reach, dilation[i]) end
    end
    return x
  end

  local function last_dims(x, n)
    local dims = {}
    for i = 1, n do dims[i] = x.ndim - n + i end
    return dims
  end

  op("MaxPool", "auto_pad ceil_mode dilations kernel_shape pads storage_order strides", function(a, x)
    x = T(x)
    local n, kernel, stride, dilation, before, after, more = windows_of(a, x)
    for i = 1, n do after[i] = after[i] + more[i] end
    local low = values.is_float(x) and -math.huge or x.dtype == "u8" and 0 or -128
    local windows = unfolded(padded(x, n, before, after, low), n, kernel, stride, dilation)
    local flat = windows:flatten(-n, -1)
    local y = flat:max(-1)
    if a.outputs < 2 then return y end
    -- where each largest one stands in x, counted row by row (or column by column), batch and channels first
    local at = flat:argmax(-1) - 1
    local place, rest = nil, at
    local offsets = {}
    for i = n, 1, -1 do
      offsets[i] = rest:remainder(kernel[i])
      rest = rest:floor_divide(kernel[i])
    end
    local order = {}
    for i = 1, n do order[i] = a.storage_order == 1 and n + 1 - i or i end
    for _, i in ipairs(order) do
      local sizes = {}
      for k = 1, at.ndim do sizes[k] = k == i + 2 and at:size(k) or 1 end
      local here = values.places(at:size(i + 2)):reshape(sizes) * stride[i] - before[i] + offsets[i] * dilation[i]
      place = place and place * x:size(i + 2) + here or here
    end
    local planes, volume = x:size(1) * x:size(2), 1
    for i = 1, n do volume = volume * x:size(i + 2) end
    local sizes = { x:size(1), x:size(2) }
    for i = 1, n do sizes[i + 2] = 1 end
    return y, place + (values.places(planes) * volume):reshape(sizes)
  end, { check = check_pad })

  op("AveragePool", "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides", function(a, x)
    x = T(x)
    local n, kernel, stride, dilation, before, after, more = windows_of(a, x)
    local ones
    if a.count_include_pad == 1 then
      ones = padded(ty.ones_like(x:narrow(1, 1, 1):narrow(2, 1, 1)), n, before, after, 1)
      x = padded(x, n, before, after)
      before, after = list_of(nil, n, 0), list_of(nil, n, 0)
    else
      ones = ty.ones_like(x:narrow(1, 1, 1):narrow(2, 1, 1))
    end
    for i = 1, n do after[i] = after[i] + more[i] end
    local sum = unfolded(padded(x, n, before, after), n, kernel, stride, dilation)
    local count = unfolded(padded(ones, n, before, after), n, kernel, stride, dilation)
    return sum:sum(last_dims(sum, n)) / count:sum(last_dims(count, n))
  end, { check = check_pad })

  op("LpPool", "auto_pad ceil_mode dilations kernel_shape p pads strides", function(a, x)
    x = T(x)
    local n, kernel, stride, dilation, before, after, more = windows_of(a, x)
    for i = 1, n do after[i] = after[i] + more[i] end
    local p = a.p or 2
    local windows = unfolded(padded(x:abs(), n, before, after), n, kernel, stride, dilation)
    return windows:pow(p):sum(last_dims(windows, n)):pow(1 / p)
  end, { check = check_pad })

  local function all_places(name, f, attributes)
    op(name, attributes or "", function(a, x)
      x = T(x)
      return f(x, last_dims(x, x.ndim - 2), a)
    end)
  end
  all_places("GlobalAveragePool", function(x, d) return x:mean(d, true) end)
  all_places("GlobalMaxPool", function(x, d) return (x:max(d, true)) end)
  all_places("GlobalLpPool", function(x, d, a)
    local p = a.p or 2
    return x:abs():pow(p):sum(d, true):pow(1 / p)
  end, "p")

  op("MaxUnpool", "kernel_shape pads strides", function(a, x, index, shape)
    x, index = T(x), T(index)
    local n = x.ndim - 2
    local kernel, stride = list_of(a.kernel_shape, n, 1), list_of(a.strides, n, 1)
    local inferred = { x:size(1), x:size(2) }
    for i = 1, n do
      local cut = a.pads and a.pads[i] + a.pads[n + i] or 0
      inferred[i + 2] = (x:size(i + 2) - 1) * stride[i] + kernel[i] - cut
    end
    local total = 1
    for _, s in ipairs(inferred) do total = total * s end
    local y = ty.zeros({ total }, { dtype = x.dtype, device = x.device })
    y = y:scatter(1, index:reshape(-1) + 1, x:reshape(-1))
    y = y:reshape(inferred)
    if shape == nil then return y end
    local want, around = values.numbers(shape), {}
    for i = 1, #want do
      around[i] = { 0, want[i] - inferred[i] }
    end
    return y:pad(around)
  end)

  op("LRN", "alpha beta bias size", function(a, x)
    x = T(x)
    local size = a.size
    local before = floor((size - 1) / 2)
    local around = {}
    for d = 1, x.ndim do around[d] = { 0, 0 } end
    around[2] = { before, size - 1 - before }
    local sums = x:square():pad(around):unfold(2, size):sum(-1)
    return x / (sums * ((a.alpha or 0.0001) / size) + (a.bias or 1)):pow(a.beta or 0.75)
  end)

  --- Sums of the columns where windows lay.
  op("Col2Im", "dilations pads strides", function(a, x, image, block)
    x = T(x)
    local sizes, kernel = values.numbers(image), values.numbers(block)
    local n = #sizes
    local stride, dilation, pads = list_of(a.strides, n, 1), list_of(a.dilations, n, 1), list_of(a.pads, 2 * n, 0)
    local places, area, whole = {}, 1, {}
    for i = 1, n do
      whole[i] = sizes[i] + pads[i] + pads[n + i]
      places[i] = floor((whole[i] - (kernel[i] - 1) * dilation[i] - 1) / stride[i]) + 1
      area = area * kernel[i]
    end
    local batch, channels, volume = x:size(1), x:size(2) / area, 1
    for i = 1, n do volume = volume * whole[i] end
    local at -- [kernel..., places...]
    for i = 1, n do
      local k, p = {}, {}
      for d = 1, 2 * n do k[d], p[d] = d == i and kernel[i] or 1, d == n + i and places[i] or 1 end
      local here = values.places(kernel[i]):reshape(k) * dilation[i] + values.places(places[i]):reshape(p) * stride[i]
      at = at and at * whole[i] + here or here
    end
    local src = x:reshape(batch, channels, -1)
    local index = (at:reshape(-1) + 1):expand(src.shape)
    local y = ty.zeros({ batch, channels, volume }, { dtype = x.dtype, device = x.device }):scatter_add(3, index, src)
    local full = { batch, channels }
    for i = 1, n do full[i + 2] = whole[i] end
    y = y:reshape(full)
    for i = 1, n do y = y:narrow(i + 2, pads[i] + 1, sizes[i]) end
    return y
  end)
end
