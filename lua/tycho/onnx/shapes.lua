--- shapes.lua -- ONNX operators that move whole dims: reshapes, slices, joins, padding.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local ipairs, select, unpack = ipairs, select, unpack
local T, numbers, dim_of = values.tensor, values.numbers, values.dim
local floor = math.floor

local function copy(list)
  local y = {}
  for i = 1, #list do y[i] = list[i] end
  return y
end

return function(op)
  op("Shape", "start end", values.ops.Shape)
  op("Size", "", values.ops.Size)

  op("Reshape", "shape allowzero consumed_inputs", function(a, x, shape)
    x = T(x)
    local sizes = copy(shape and numbers(shape) or a.shape)
    if a.allowzero ~= 1 then
      for i, n in ipairs(sizes) do
        if n == 0 then sizes[i] = x:size(i) end
      end
    end
    return x:reshape(sizes)
  end)

  op("Flatten", "axis", function(a, x) return values.matrix(T(x), a.axis or 1) end)

  op("Transpose", "perm", function(a, x)
    x = T(x)
    local order = {}
    for i = 1, x.ndim do order[i] = a.perm and a.perm[i] + 1 or x.ndim + 1 - i end
    return #order > 0 and x:permute(order) or x
  end)

  op("Squeeze", "axes", function(a, x, axes)
    x = T(x)
    local list = axes and numbers(axes) or a.axes
    if not list then return x:squeeze() end
    local dims = {}
    for i, axis in ipairs(list) do dims[i] = dim_of(x, axis) end
    return #dims > 0 and x:squeeze(dims) or x
  end)

  op("Unsqueeze", "axes", function(a, x, axes)
    x = T(x)
    local list = copy(axes and numbers(axes) or a.axes)
    local rank = x.ndim + #list
    for i, axis in ipairs(list) do list[i] = axis < 0 and axis + rank or axis end
    table.sort(list)
    for _, axis in ipairs(list) do x = x:unsqueeze(axis + 1) end
    return x
  end)

  op("Expand", "", function(_, x, shape)
    x = T(x)
    local sizes, want = copy(numbers(shape)), {}
    local rank = math.max(#sizes, x.ndim)
    for i = 1, rank do
      local n, own = sizes[#sizes - rank + i] or 1, i > rank - x.ndim and x:size(i - rank + x.ndim) or 1
      want[i] = n == 1 and own or n
    end
    return x:expand(want)
  end)

  op("Tile", "axis tiles", function(_, x, repeats)
    x = T(x)
    local counts = copy(numbers(repeats))
    return #counts > 0 and x:tile(counts) or x
  end)

  op("Concat", "axis", function(a, ...)
    local list = {}
    for i = 1, select("#", ...) do list[i] = T((select(i, ...))) end
    return ty.cat(list, dim_of(list[1], a.axis or 1))
  end)

  op("Split", "axis split num_outputs", function(a, x, sizes)
    x = T(x)
    local d = dim_of(x, a.axis or 0)
    local list = sizes and numbers(sizes) or a.split
    if not list then
      local n, parts = x:size(d), a.num_outputs or a.outputs
      local each = floor((n + parts - 1) / parts)
      list = {}
      for i = 1, parts do list[i] = i < parts and each or n - each * (parts - 1) end
    end
    local out, at = {}, 1
    for i, n in ipairs(list) do
      out[i] = x:narrow(d, at, n)
      at = at + n
    end
    return unpack(out, 1, #list)
  end)

  op("Slice", "axes starts ends", function(a, x, starts, ends, axes, steps)
    x = T(x)
    local s, e = starts and numbers(starts) or a.starts, ends and numbers(ends) or a.ends
    local dims, by = axes and numbers(axes) or a.axes, steps and numbers(steps)
    for i = 1, #s do
      local d = dims and dim_of(x, dims[i]) or i
      local step = by and by[i] or 1
      local first, last = values.slice(x:size(d), s[i], e[i], step)
      if first then
        x = x:slice(d, first + 1, last + 1, step)
      else
        x = x:narrow(d, 1, 0)
      end
    end
    return x
  end)

  --- x with places around a dim that are taken from it: positions from 0 of each.
  local function taken(x, d, before, after, place)
    local n, at = x:size(d), {}
    for i = -before, n + after - 1 do at[#at + 1] = place(i, n) + 1 end
    return x:index_select(d, at)
  end

  local modes = {
    edge = function(i, n) return i < 0 and 0 or i >= n and n - 1 or i end,
    wrap = function(i, n) return i % n end,
    reflect = function(i, n)
      if n == 1 then return 0 end
      local period = 2 * (n - 1)
      i = i % period
      return i < n and i or period - i
    end,
  }

  op("Pad", "pads paddings mode value", function(a, x, pads, fill, axes)
    x = T(x)
    local list = pads and numbers(pads) or a.pads or a.paddings
    local dims, n = axes and numbers(axes), #list / 2
    local mode = a.mode or "constant"
    local pairs_of = {}
    for d = 1, x.ndim do pairs_of[d] = { 0, 0 } end
    for i = 1, n do
      local d = dims and dim_of(x, dims[i]) or i
      local before, after = list[i], list[n + i]
      if before < 0 then x, before = x:narrow(d, 1 - before, x:size(d) + before), 0 end
      if after < 0 then x, after = x:narrow(d, 1, x:size(d) + after), 0 end
      pairs_of[d] = { before, after }
    end
    if mode == "constant" then
      local value = fill ~= nil and values.number(fill) or a.value or 0
      if x.dtype == "bool" then return x:to("u8"):pad(pairs_of, value):to("bool") end
      return x:pad(pairs_of, value)
    end
    for d, p in ipairs(pairs_of) do
      if p[1] > 0 or p[2] > 0 then x = taken(x, d, p[1], p[2], modes[mode]) end
    end
    return x
  end, { check = function(a)
    local known = not a.mode or a.mode == "constant" or modes[a.mode]
    return not known and ("the mode %q is not supported"):format(a.mode) or nil
  end })

  op("DepthToSpace", "blocksize mode", function(a, x)
    x = T(x)
    local b, n, c, h, w = a.blocksize, x:size(1), x:size(2), x:size(3), x:size(4)
    local rest = floor(c / (b * b))
    if a.mode == "CRD" then
      x = x:reshape(n, rest, b, b, h, w):permute(1, 2, 5, 3, 6, 4)
    else
      x = x:reshape(n, b, b, rest, h, w):permute(1, 4, 5, 2, 6, 3)
    end
    return x:reshape(n, rest, h * b, w * b)
  end)

  op("SpaceToDepth", "blocksize mode", function(a, x)
    x = T(x)
    local b, n, c, h, w = a.blocksize, x:size(1), x:size(2), x:size(3), x:size(4)
    x = x:reshape(n, c, floor(h / b), b, floor(w / b), b)
    x = a.mode == "CRD" and x:permute(1, 2, 4, 6, 3, 5) or x:permute(1, 4, 6, 2, 3, 5)
    return x:reshape(n, c * b * b, floor(h / b), floor(w / b))
  end)

  op("Trilu", "upper", function(a, x, k)
    x = T(x)
    k = k ~= nil and values.number(k) or 0
    if x.dtype == "bool" then
      local y = x:to("u8")
      return (a.upper == 0 and y:tril(k) or y:triu(k)):to("bool")
    end
    return a.upper == 0 and x:tril(k) or x:triu(k)
  end)

  op("ReverseSequence", "batch_axis time_axis", function(a, x, lengths)
    x = T(x)
    local batch, time = a.batch_axis or 1, (a.time_axis or 0) + 1
    local n = x:size(time)
    lengths = T(lengths):unsqueeze(2)
    local at = (values.places(n) + 1):unsqueeze(1) -- [1, n], from 1
    at = ty.where(at:le(lengths), lengths + 1 - at, at) -- [batch, n]
    if time < batch + 1 then at = at:t() end
    for d = 3, x.ndim do at = at:unsqueeze(d) end
    return x:gather(time, at:expand(x.shape))
  end)

  op("CenterCropPad", "axes", function(a, x, shape)
    x = T(x)
    local sizes = numbers(shape)
    for i = 1, #sizes do
      local d = a.axes and dim_of(x, a.axes[i]) or i
      local own, want = x:size(d), sizes[i]
      if own > want then
        x = x:narrow(d, floor((own - want) / 2) + 1, want)
      elseif own < want then
        local around = {}
        for k = 1, x.ndim do around[k] = { 0, 0 } end
        local before = floor((want - own) / 2)
        around[d] = { before, want - own - before }
        x = x:pad(around)
      end
    end
    return x
  end)
end
