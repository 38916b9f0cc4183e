--- convolution.lua -- composites over windows: convolution and its transpose. Pooling is in pooling.lua.
-- In: tensors [batch, channels, places...] or without the batch. Out: the same layout.
--
-- These are the products of correlation.lua. Nothing here reads values. Sizes are given as a number for all dims or as
-- a list, one a dim.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
---@param complex table complex.lua
return function(ty, check, row, complex)
  local fail = check.fail
  local correlation = require("tycho.correlation")(ty, complex)
  local arguments = require("tycho.window_arguments")(check)
  local sizes_of, batched = arguments.sizes_of, arguments.batched
  local floor, max = math.floor, math.max
  ty.internals.correlation = correlation -- for modules

  ---------------------------------------------------------------------------------------------------------- convolution

  local conv_options = { stride = "any", padding = "any", dilation = "any", groups = "number" }

  --- Places before and after each dim: a number, a list, "valid" (none) or "same" (as many outputs as inputs).
  local function paddings(who, v, n, kernel, stride, dilation)
    if v ~= "same" then
      local both = sizes_of(who, "option padding", v ~= "valid" and v or nil, n, 0, 0)
      return both, both
    end
    local before, after = {}, {}
    for i = 1, n do
      if stride[i] ~= 1 then fail(who, "option padding = \"same\" needs stride 1, got %d", stride[i]) end
      local total = dilation[i] * (kernel[i] - 1)
      before[i] = floor(total / 2)
      after[i] = total - before[i]
    end
    return before, after
  end

  --- Checks weight and bias; groups and the sizes of the kernel. inputs, outputs: the weight's dims of channels.
  local function check_weight(who, x, weight, bias, n, groups, inputs, outputs)
    check.tensor(who, 2, weight)
    check.same_device(who, x, weight)
    if weight.ndim ~= n + 2 then
      fail(who, "argument 2, the weight, must have %d dims, got %s", n + 2, check.text(weight))
    end
    local channels, shape = x:size(2), weight.shape
    if groups % 1 ~= 0 or groups < 1 then fail(who, "option groups must be whole and at least 1, got %g", groups) end
    local wanted = inputs == 2 and shape[2] * groups or shape[1]
    if channels ~= wanted then
      fail(who, "%s has %d channels, the weight %s%s takes %d", check.text(x), channels, check.text(weight),
        groups > 1 and (" in %d groups"):format(groups) or "", wanted)
    end
    if shape[1] % groups ~= 0 then
      fail(who, "%d channels of the weight %s do not divide into %d groups", shape[1], check.text(weight), groups)
    end
    local made = outputs == 1 and shape[1] or shape[2] * groups
    if bias ~= nil then
      check.tensor(who, 3, bias)
      check.same_device(who, x, bias)
      if bias.ndim ~= 1 or bias:size(1) ~= made then
        fail(who, "argument 3, the bias, must be [%d], got %s", made, check.text(bias))
      end
    end
    local kernel = {}
    for i = 1, n do
      kernel[i] = shape[i + 2]
      if kernel[i] < 1 then fail(who, "the weight %s is empty", check.text(weight)) end
    end
    return kernel, made
  end

  --- The bias added along the channels.
  local function with_bias(y, bias, n)
    if bias == nil then return y end
    local sizes = { bias:size(1) }
    for i = 1, n do sizes[i + 1] = 1 end
    return y + bias:reshape(sizes)
  end

  --- What both kinds of convolution are given: x with a batch, whether it had none, weight and bias checked, and what
  --- the products need to know. inputs, outputs: the weight's dims of channels.
  local function convolution_arguments(who, n, x, weight, bias, opts, known, inputs, outputs)
    if check.is_options(bias) then bias, opts = nil, bias end
    opts = check.options(who, opts, known)
    local input, single = batched(who, x, n)
    local o = { n = n, groups = opts.groups or 1 }
    o.kernel = check_weight(who, input, weight, bias, n, o.groups, inputs, outputs)
    o.stride = sizes_of(who, "option stride", opts.stride, n, 1, 1)
    o.dilation = sizes_of(who, "option dilation", opts.dilation, n, 1, 1)
    return input, single, bias, opts, o
  end

  --- fn(x, w, o, size), a group after the other where there are three dims of places: their windows have as many as
  --- there may be, without one for groups.
  local function by_groups(fn, x, w, o, size)
    if o.n < 3 or o.groups == 1 then return fn(x, w, o, size) end
    local groups, parts, alone = o.groups, {}, {}
    for k, v in pairs(o) do alone[k] = v end
    alone.groups = 1
    local xs, ws = x:chunk(groups, 2), w:chunk(groups, 1)
    for i = 1, groups do parts[i] = fn(xs[i], ws[i], alone, size) end
    return ty.cat(parts, 2)
  end

  local function conv(who, n, x, weight, bias, opts)
    local input, single, o
    input, single, bias, opts, o = convolution_arguments(who, n, x, weight, bias, opts, conv_options, 2, 1)
    o.before, o.after = paddings(who, opts.padding, n, o.kernel, o.stride, o.dilation)
    for i = 1, n do
      local reach = (o.kernel[i] - 1) * o.dilation[i] + 1
      local room = input:size(2 + i) + o.before[i] + o.after[i]
      if reach > room then
        fail(who, "a kernel that reaches %d places does not fit into %d (dim %d, padded)", reach, room, i)
      end
    end
    local y = with_bias(by_groups(correlation.forward, input, weight, o), bias, n)
    return single and y:squeeze(1) or y
  end

  --- Convolution over one dim, as in networks: the weight is not turned around.
  --- Options: stride = 1, padding = 0, or "same", dilation = 1, groups = 1.
  --- Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
  ---@param x tycho.Tensor [batch, channels, length] or [channels, length]
  ---@param weight tycho.Tensor [out, channels / groups, size]
  ---@param bias? tycho.Tensor [out]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil,
  ---  dilation: integer|integer[]|nil, groups: integer?}
  ---@return tycho.Tensor # [batch, out, floor((length + 2 padding - dilation (size - 1) - 1) / stride) + 1]
  local function conv1d(x, weight, bias, opts) return conv("conv1d", 1, x, weight, bias, opts) end

  --- Convolution over two dims, as in networks: the weight is not turned around.
  --- Options, a number or {rows, columns}: stride = 1, padding = 0, or "same", dilation = 1; groups = 1.
  --- Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
  ---@param x tycho.Tensor [batch, channels, height, width] or [channels, height, width]
  ---@param weight tycho.Tensor [out, channels / groups, rows, columns]
  ---@param bias? tycho.Tensor [out]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil,
  ---  dilation: integer|integer[]|nil, groups: integer?}
  ---@return tycho.Tensor # [batch, out, ...], floor((n + 2 padding - dilation (size - 1) - 1) / stride) + 1 a dim
  local function conv2d(x, weight, bias, opts) return conv("conv2d", 2, x, weight, bias, opts) end

  --- Convolution over three dims, as in networks: the weight is not turned around.
  --- Options, a number or {planes, rows, columns}: stride = 1, padding = 0, or "same", dilation = 1; groups = 1.
  --- Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
  ---@param x tycho.Tensor [batch, channels, depth, height, width] or [channels, depth, height, width]
  ---@param weight tycho.Tensor [out, channels / groups, planes, rows, columns]
  ---@param bias? tycho.Tensor [out]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil,
  ---  dilation: integer|integer[]|nil, groups: integer?}
  ---@return tycho.Tensor # [batch, out, ...], floor((n + 2 padding - dilation (size - 1) - 1) / stride) + 1 a dim
  local function conv3d(x, weight, bias, opts) return conv("conv3d", 3, x, weight, bias, opts) end

  row { "conv3d", "x, weight, bias, {stride = 1, padding = 0, dilation = 1, groups = 1}", conv3d,
    "convolution over three dims; weight [out, in / groups, planes, rows, columns]",
    shape = "[batch, out, depth, height, width]", formula = "as conv1d, over three dims" }
  row { "conv1d", "x, weight, bias, {stride = 1, padding = 0, dilation = 1, groups = 1}", conv1d,
    "convolution over one dim; weight [out, in / groups, size]", shape = "[batch, out, length]",
    formula = "y[n, o, t] = bias[o] + sum over c, i of weight[o, c, i] x[n, c, t stride + i dilation - padding]" }
  row { "conv2d", "x, weight, bias, {stride = 1, padding = 0, dilation = 1, groups = 1}", conv2d,
    "convolution over two dims; weight [out, in / groups, rows, columns]", shape = "[batch, out, height, width]",
    formula = "as conv1d, over two dims" }

  ---------------------------------------------------------------------------------------------------------- transposed

  local transpose_options = {
    stride = "any", padding = "any", output_padding = "any", dilation = "any", groups = "number",
  }

  local function conv_transpose(who, n, x, weight, bias, opts)
    local input, single, o
    input, single, bias, opts, o = convolution_arguments(who, n, x, weight, bias, opts, transpose_options, 1, 2)
    local padding = sizes_of(who, "option padding", opts.padding, n, 0, 0)
    local extra = sizes_of(who, "option output_padding", opts.output_padding, n, 0, 0)
    local size = {}
    o.before, o.after = padding, {}
    for i = 1, n do
      if extra[i] >= max(o.stride[i], o.dilation[i]) then
        fail(who, "option output_padding must be below stride or dilation, got %d", extra[i])
      end
      local reach = o.dilation[i] * (o.kernel[i] - 1) + 1
      size[i] = (input:size(2 + i) - 1) * o.stride[i] + reach - 2 * padding[i] + extra[i]
      o.after[i] = padding[i] - extra[i]
      if size[i] < 1 then fail(who, "padding %d leaves nothing of %s (dim %d)", padding[i], check.text(x), i) end
    end
    local y = with_bias(by_groups(correlation.input, input, weight, o, size), bias, n)
    return single and y:squeeze(1) or y
  end

  --- The transpose of conv1d, which is its gradient by x: each place adds its multiple of the weight to the output.
  --- Options: stride = 1, padding = 0 (cut from the output), output_padding = 0 (added behind), dilation = 1,
  --- groups = 1.
  --- Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
  ---@param x tycho.Tensor [batch, channels, length] or [channels, length]
  ---@param weight tycho.Tensor [channels, out / groups, size]
  ---@param bias? tycho.Tensor [out]
  ---@param opts? {stride: integer?, padding: integer?, output_padding: integer?, dilation: integer?, groups: integer?}
  ---@return tycho.Tensor # [batch, out, (length - 1) stride - 2 padding + dilation (size - 1) + output_padding + 1]
  local function conv_transpose1d(x, weight, bias, opts)
    return conv_transpose("conv_transpose1d", 1, x, weight, bias, opts)
  end

  --- The transpose of conv2d, which is its gradient by x: each place adds its multiple of the weight to the output.
  --- Options, a number or {rows, columns}: stride = 1, padding = 0 (cut from the output), output_padding = 0 (added
  --- behind), dilation = 1; groups = 1.
  --- Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
  ---@param x tycho.Tensor [batch, channels, height, width] or [channels, height, width]
  ---@param weight tycho.Tensor [channels, out / groups, rows, columns]
  ---@param bias? tycho.Tensor [out]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil,
  ---  output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?}
  ---@return tycho.Tensor # [batch, out, ...], of sizes as in one dim
  local function conv_transpose2d(x, weight, bias, opts)
    return conv_transpose("conv_transpose2d", 2, x, weight, bias, opts)
  end

  --- The transpose of conv3d, which is its gradient by x: each place adds its multiple of the weight to the output.
  --- Options, a number or {planes, rows, columns}: stride = 1, padding = 0 (cut from the output), output_padding = 0
  --- (added behind), dilation = 1; groups = 1.
  --- Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
  ---@param x tycho.Tensor [batch, channels, depth, height, width] or [channels, depth, height, width]
  ---@param weight tycho.Tensor [channels, out / groups, planes, rows, columns]
  ---@param bias? tycho.Tensor [out]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil,
  ---  output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?}
  ---@return tycho.Tensor # [batch, out, ...], of sizes as in one dim
  local function conv_transpose3d(x, weight, bias, opts)
    return conv_transpose("conv_transpose3d", 3, x, weight, bias, opts)
  end

  local transposed_arguments =
    "x, weight, bias, {stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1}"
  row { "conv_transpose1d", transposed_arguments, conv_transpose1d,
    "the transpose of conv1d; weight [in, out / groups, size]", shape = "[batch, out, length]",
    formula = "the gradient of conv1d by its x" }
  row { "conv_transpose2d", transposed_arguments, conv_transpose2d,
    "the transpose of conv2d; weight [in, out / groups, rows, columns]", shape = "[batch, out, height, width]",
    formula = "the gradient of conv2d by its x" }
  row { "conv_transpose3d", transposed_arguments, conv_transpose3d,
    "the transpose of conv3d; weight [in, out / groups, planes, rows, columns]",
    shape = "[batch, out, depth, height, width]", formula = "the gradient of conv3d by its x" }
end
