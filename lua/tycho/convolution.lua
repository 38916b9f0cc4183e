--- convolution.lua -- composites over windows: convolution, its transpose, pooling, interpolation.
-- In: tensors [batch, channels, places...] or without the batch. Out: the same layout.
--
-- Convolutions and their transposes are the products of correlation.lua. Pooling is a reduction over the windows' dims.
-- Nothing here reads values. Sizes are given as a number for all dims or as a list, one a dim.

---@param ty table the core module
---@param check table check.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail = check.fail
  local correlation = require("tycho.correlation")(ty)
  local pad, windows, taping = correlation.pad, correlation.windows, ty.internals.grad.mode
  local grad = ty.internals.grad
  local product = correlation.product
  local tracked = ty.internals.vmap.tracked
  local where, eq, ge, ne = ty.where, ty.eq, ty.ge, ty.ne
  local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
  local halves = { f16 = true, bf16 = true }
  local MOST = 2 ^ 31 - 1 -- places of a dim

  --- An option that is one whole number for all n dims, or a list of n of them; least is the smallest allowed.
  local function sizes_of(who, what, v, n, default, least)
    if v == nil then v = default end
    local list = {}
    for i = 1, n do
      local one = v
      if type(v) == "table" then
        one = v[i]
        if #v ~= n then fail(who, "%s must be a number or a list of %d, got a list of %d", what, n, #v) end
      end
      if type(one) ~= "number" or one % 1 ~= 0 or one < least then
        fail(who, "%s must be whole and at least %d, got %s", what, least, check.show(one))
      end
      if one > MOST then fail(who, "%s must be at most %d, got %s", what, MOST, check.show(one)) end
      list[i] = one
    end
    return list
  end

  --- x with a batch dim, and whether it had none. n: how many dims of places it has.
  local function batched(who, x, n)
    check.tensor(who, 1, x)
    local rank = x.ndim
    if rank == n + 2 then return x, false end
    if rank == n + 1 then return x:unsqueeze(1), true end
    return fail(who, "argument 1 must have %d dims, or %d without a batch, got %s", n + 2, n + 1, check.text(x))
  end

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
    if n == 3 and o.groups ~= 1 then fail(who, "three dims leave no room for groups, got %g", o.groups) end
    o.kernel = check_weight(who, input, weight, bias, n, o.groups, inputs, outputs)
    o.stride = sizes_of(who, "option stride", opts.stride, n, 1, 1)
    o.dilation = sizes_of(who, "option dilation", opts.dilation, n, 1, 1)
    return input, single, bias, opts, o
  end

  local function conv(who, n, x, weight, bias, opts)
    local input, single, o
    input, single, bias, opts, o = convolution_arguments(who, n, x, weight, bias, opts, conv_options, 2, 1)
    o.before, o.after = paddings(who, opts.padding, n, o.kernel, o.stride, o.dilation)
    o.size = {}
    for i = 1, n do
      local reach = (o.kernel[i] - 1) * o.dilation[i] + 1
      o.size[i] = input:size(2 + i)
      local room = o.size[i] + o.before[i] + o.after[i]
      if reach > room then
        fail(who, "a kernel that reaches %d places does not fit into %d (dim %d, padded)", reach, room, i)
      end
    end
    local y = with_bias(correlation.forward(input, weight, o), bias, n)
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

  --- Convolution over three dims, as in networks. Options as conv2d's, but all channels are in one group.
  --- Raises where channels or bias do not fit the weight, or the kernel does not fit into the padded input.
  ---@param x tycho.Tensor [batch, channels, depth, height, width] or [channels, depth, height, width]
  ---@param weight tycho.Tensor [out, channels, planes, rows, columns]
  ---@param bias? tycho.Tensor [out]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil,
  ---  dilation: integer|integer[]|nil}
  ---@return tycho.Tensor # [batch, out, ...], floor((n + 2 padding - dilation (size - 1) - 1) / stride) + 1 a dim
  local function conv3d(x, weight, bias, opts) return conv("conv3d", 3, x, weight, bias, opts) end

  row { "conv3d", "x, weight, bias, {stride = 1, padding = 0, dilation = 1}", conv3d,
    "convolution over three dims; weight [out, in, planes, rows, columns]",
    shape = "[batch, out, depth, height, width]",
    formula = "as conv1d, over three dims, in one group" }
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
    o.before, o.after, o.size = padding, {}, {}
    for i = 1, n do
      if extra[i] >= max(o.stride[i], o.dilation[i]) then
        fail(who, "option output_padding must be below stride or dilation, got %d", extra[i])
      end
      local reach = o.dilation[i] * (o.kernel[i] - 1) + 1
      o.size[i] = (input:size(2 + i) - 1) * o.stride[i] + reach - 2 * padding[i] + extra[i]
      o.after[i] = padding[i] - extra[i]
      if o.size[i] < 1 then fail(who, "padding %d leaves nothing of %s (dim %d)", padding[i], check.text(x), i) end
    end
    local y = with_bias(correlation.input(input, weight, o), bias, n)
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

  local transposed_arguments =
    "x, weight, bias, {stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1}"
  row { "conv_transpose1d", transposed_arguments, conv_transpose1d,
    "the transpose of conv1d; weight [in, out / groups, size]", shape = "[batch, out, length]",
    formula = "the gradient of conv1d by its x" }
  row { "conv_transpose2d", transposed_arguments, conv_transpose2d,
    "the transpose of conv2d; weight [in, out / groups, rows, columns]", shape = "[batch, out, height, width]",
    formula = "the gradient of conv2d by its x" }

  ---------------------------------------------------------------------------------------------------------- pooling

  --- Numbers of windows and the places needed behind each dim; ceil_mode lets the last window begin inside and end
  --- outside.
  local function pool_sizes(who, x, n, kernel, stride, padding, dilation, ceil_mode)
    local outs, after = {}, {}
    for i = 1, n do
      if 2 * padding[i] > kernel[i] then
        fail(who, "padding must be at most half of the window, got %d for %d", padding[i], kernel[i])
      end
      local length, reach = x:size(x.ndim - n + i), dilation[i] * (kernel[i] - 1) + 1
      local steps = (length + 2 * padding[i] - reach) / stride[i]
      local out = (ceil_mode and ceil(steps) or floor(steps)) + 1
      if ceil_mode and (out - 1) * stride[i] >= length + padding[i] then out = out - 1 end
      if out < 1 then
        fail(who, "a window that reaches %d places does not fit into %s (dim %d of the places)", reach, check.text(x),
          i)
      end
      outs[i], after[i] = out, max(padding[i], (out - 1) * stride[i] + reach - length - padding[i])
    end
    return outs, after
  end

  local function last_dims(n)
    local dims = {}
    for i = 1, n do dims[i] = -i end
    return dims
  end

  local function pool_arguments(who, n, x, kernel, opts, known)
    local input, single = batched(who, x, n)
    check.float(who, 1, x)
    opts = check.options(who, opts, known)
    kernel = sizes_of(who, "argument 2, the window,", kernel, n, nil, 1)
    local stride = sizes_of(who, "option stride", opts.stride, n, kernel, 1)
    local padding = sizes_of(who, "option padding", opts.padding, n, 0, 0)
    local dilation = sizes_of(who, "option dilation", opts.dilation, n, 1, 1)
    local outs, after = pool_sizes(who, input, n, kernel, stride, padding, dilation, opts.ceil_mode)
    return input, single, opts, kernel, stride, padding, after, dilation, outs
  end

  local TAPS = 16 -- up to so many places a window is folded place by place, which fuses; larger ones are reduced

  --- The windows in the last n dims of a view, reduced.
  local function fold(view, n, kernel, combine, reduce)
    if product(kernel) > TAPS then return reduce(view, last_dims(n)) end
    local y
    for i = 1, kernel[1] do
      for j = 1, kernel[2] or 1 do
        local place = n == 1 and view[{ "...", i }] or view[{ "...", i, j }]
        y = y and combine(y, place) or place
      end
    end
    return product(kernel) == 1 and y:clone() or y
  end

  local function sum_of(x, dims) return x:sum(dims) end
  local function mean_of(x, d, keep) return x:mean(d, keep) end
  local function max_of(x, d) return x:max(d) end

  local function of_input(saved, g, what) return what.rule(saved[1]:detach(), saved[2]:detach(), g, what.w) end

  --- fn(x, w), whose gradient is rule(x, y, g, w), neither of which reads anything else.
  local function ruled(fn, x, rule, w)
    if not (taping() and tracked(x)) then return fn(x, w) end
    return grad.pure(function(v)
      local y = fn(v, w)
      return y, { v, y }
    end, of_input, { rule = rule, w = w })(x)
  end

  --- Calls visit(k, index) for each place k of a window, from 0; view[index] are the elements there.
  local function each_tap(kernel, visit)
    local k = 0
    for i = 1, kernel[1] do
      for j = 1, kernel[2] or 1 do
        visit(k, kernel[2] and { "...", i, j } or { "...", i })
        k = k + 1
      end
    end
  end

  --- Which place of its window the largest element has first, from 0, as floats; nil: a window has one place. Beside a
  --- NaN nothing is larger, and without one y is none.
  local function first_taps(view, kernel, y)
    local most, tap = {}, nil
    each_tap(kernel, function(k, index)
      local e = view[index]
      most[k] = ge(e, y):bitwise_or(ne(e, e))
    end)
    for k = product(kernel) - 2, 0, -1 do tap = where(most[k], k, tap or k + 1) end
    return tap
  end

  --- The same where windows begin in the padding, of -inf: if that is the largest, all is -inf, and the first place
  --- inside of x is meant. starts: for each dim how many places of each window lie before x; nil: there is no padding.
  local function inner_taps(tap, y, kernel, starts)
    if not starts then return tap end
    local first
    for i = 1, #starts do
      local own = ty.tensor(starts[i], { dtype = tap.dtype, device = tap.device })
      for _ = i + 1, #starts do own = own:unsqueeze(-1) end
      first = first and first * kernel[i] + own or own
    end
    return where(eq(y, -math.huge), first, tap)
  end

  --- x with its padding, and its windows; w: what max_pool knows of them.
  local function padded(x, w) return pad(x, w.n, w.padding, w.after, -math.huge) end
  local function view_of(x, w) return windows(x, w.n, w.kernel, w.stride, w.dilation) end

  --- Windows that share no element: each place of a window gets g, or 0 where an earlier one was the largest.
  local function spread_apart(x, y, g, w)
    local from = view_of(x, w)
    local whole = from:numel() == x:numel() -- no element lies outside
    local dx = (whole and ty.empty or ty.zeros)(x.shape, { dtype = g.dtype, device = g.device })
    local to, tap = view_of(dx, w), first_taps(from, w.kernel, y)
    tap = tap and inner_taps(tap, y, w.kernel, w.starts)
    each_tap(w.kernel, function(k, index) to[index] = tap and where(tap:eq(k), g, 0) or g end)
    return dx
  end

  --- Windows that may share elements: g is added up at the places of the largest.
  local function spread_together(x, y, g, w)
    local n, kernel, stride, dilation = w.n, w.kernel, w.stride, w.dilation
    local view, sizes, at = view_of(x, w), x.shape, nil
    local many = product(kernel) > TAPS
    local tap = many and view:flatten(-n, -1):argmax(-1) - 1 or first_taps(view, kernel, y) or ty.zeros_like(y)
    tap = inner_taps(tap, y, kernel, w.starts):to("i64")
    for i = n, 1, -1 do
      local d, below = x.ndim - n + i, 1
      for k = d + 1, x.ndim do below = below * sizes[k] end
      local within = i == 1 and tap or tap % kernel[i]
      if i > 1 then tap = (tap - within) / kernel[i] tap = tap:to("i64") end
      local first = ty.arange(y:size(d), { dtype = "i64", device = y.device }) * stride[i]
      for _ = i + 1, n do first = first:unsqueeze(-1) end
      local here = (within * dilation[i] + first) * below
      at = at and at + here or here
    end
    local lead = x.ndim - n
    local dx = ty.zeros(x.shape, { dtype = g.dtype, device = g.device }):flatten(lead + 1, -1)
    at = (at:flatten(lead + 1, -1) + 1):clamp(1, dx:size(-1)) -- it is there anyway: so that captures can see that
    dx = dx:scatter_add(-1, at, g:flatten(lead + 1, -1))
    return dx:unflatten(-1, { unpack(sizes, lead + 1) })
  end

  local function largest(x, w) return fold(view_of(padded(x, w), w), w.n, w.kernel, ty.maximum, max_of) end

  local function spread(x, y, g, w)
    local dx = (w.apart and spread_apart or spread_together)(padded(x, w), y, g, w)
    return pad(dx, w.n, w.back, w.behind, 0)
  end

  local max_options = { stride = "any", padding = "any", dilation = "any", ceil_mode = "boolean" }

  local function max_pool(who, n, x, kernel, opts)
    local input, single, _, size, stride, padding, after, dilation, outs =
      pool_arguments(who, n, x, kernel, opts, max_options)
    local back, behind, starts, apart = {}, {}, nil, product(size) <= TAPS
    for i = 1, n do
      back[i], behind[i] = -padding[i], -after[i]
      if padding[i] > 0 then starts = starts or {} end
      apart = apart and stride[i] > (size[i] - 1) * dilation[i]
    end
    for i = 1, starts and n or 0 do
      starts[i] = {}
      for o = 1, outs[i] do starts[i][o] = max(0, ceil((padding[i] - (o - 1) * stride[i]) / dilation[i])) end
    end
    local y = ruled(largest, input, spread, { n = n, kernel = size, stride = stride, padding = padding, after = after,
      dilation = dilation, starts = starts, back = back, behind = behind, apart = apart })
    return single and y:squeeze(1) or y
  end

  local average_options = {
    stride = "any", padding = "any", ceil_mode = "boolean", count_include_pad = "boolean",
  }

  --- How many places each window of one dim counts: of the input, or of the padded input.
  local function window_counts(out, length, kernel, stride, padding, include)
    local counts, same = {}, true
    for o = 1, out do
      local first = (o - 1) * stride - padding
      local last = min(first + kernel, length + padding)
      counts[o] = include and last - first or min(last, length) - max(first, 0)
      same = same and counts[o] == counts[1]
    end
    return counts, same
  end

  local function sums(x, w)
    local view = windows(pad(x, w.n, w.padding, w.after, 0), w.n, w.kernel, w.stride, w.dilation)
    return fold(view, w.n, w.kernel, ty.add, sum_of)
  end

  local function spread_sums(_, g, w)
    local n, kernel = w.n, w.kernel
    if w.every then
      return fold(windows(pad(g, n, w.before, w.beyond, 0), n, kernel, w.stride, w.dilation), n, kernel, ty.add, sum_of)
    end
    local whole = g:numel() * product(kernel) == product(w.sizes)
    local dx = (whole and ty.empty or ty.zeros)(w.sizes, { dtype = g.dtype, device = g.device })
    local to = windows(dx, n, kernel, w.stride, w.dilation)
    each_tap(kernel, function(_, index) to[index] = g end)
    return pad(dx, n, w.back, w.behind, 0)
  end

  --- The sums of windows. Where these share no element, or stand at every place, the gradient is as simple: g at each
  --- place of its window, or sums of windows over g.
  local function window_sums(x, n, kernel, stride, padding, after, dilation)
    local apart, every, few = true, true, product(kernel) <= TAPS and product(kernel) > 1
    local sizes, back, behind, before, beyond = x.shape, {}, {}, {}, {}
    for i = 1, n do
      local d = #sizes - n + i
      apart, every = apart and stride[i] >= kernel[i], every and stride[i] == 1
      back[i], behind[i], sizes[d] = -padding[i], -after[i], sizes[d] + padding[i] + after[i]
      before[i], beyond[i] = kernel[i] - 1 - padding[i], kernel[i] - 1 - after[i]
    end
    local w = { n = n, kernel = kernel, stride = stride, padding = padding, after = after, dilation = dilation,
      every = every, sizes = sizes, back = back, behind = behind, before = before, beyond = beyond }
    if not (few and (apart or every) and taping() and tracked(x)) then return sums(x, w) end
    return grad.pure(function(v) return sums(v, w), {} end, spread_sums, w)(x)
  end

  local function avg_pool(who, n, x, kernel, opts)
    local input, single, stride, padding, after, dilation, outs
    input, single, opts, kernel, stride, padding, after, dilation, outs =
      pool_arguments(who, n, x, kernel, opts, average_options)
    local half = halves[x.dtype] and x.dtype
    if half then input = input:to("f32") end
    local include = opts.count_include_pad ~= false
    local y = window_sums(input, n, kernel, stride, padding, after, dilation)
    local whole = 1
    for i = 1, n do
      local counts, same = window_counts(outs[i], input:size(2 + i), kernel[i], stride[i], padding[i], include)
      if same then
        whole = whole * counts[1]
      else
        local sizes = { outs[i] }
        for k = i + 1, n do sizes[k - i + 1] = 1 end
        y = y / ty.tensor(counts, { dtype = y.dtype, device = y.device }):reshape(sizes)
      end
    end
    if whole ~= 1 then y = y / whole end
    if half then y = y:to(half) end
    return single and y:squeeze(1) or y
  end

  --- The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
  --- Options: stride = kernel, padding = 0 (of -inf), dilation = 1, ceil_mode = false.
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, length] or [channels, length]
  ---@param kernel integer
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil,
  ---  ceil_mode: boolean?}
  ---@return tycho.Tensor # [batch, channels, windows]
  local function max_pool1d(x, kernel, opts) return max_pool("max_pool1d", 1, x, kernel, opts) end

  --- The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
  --- Options, a number or {rows, columns}: stride = kernel, padding = 0 (of -inf), dilation = 1; ceil_mode = false.
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, height, width] or [channels, height, width]
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil,
  ---  ceil_mode: boolean?}
  ---@return tycho.Tensor # [batch, channels, windows down, windows across]
  local function max_pool2d(x, kernel, opts) return max_pool("max_pool2d", 2, x, kernel, opts) end

  --- The mean of each window.
  --- Options: stride = kernel, padding = 0 (of zeros), ceil_mode = false, count_include_pad = true.
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, length] or [channels, length]
  ---@param kernel integer
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, ceil_mode: boolean?,
  ---  count_include_pad: boolean?}
  ---@return tycho.Tensor # [batch, channels, windows]
  local function avg_pool1d(x, kernel, opts) return avg_pool("avg_pool1d", 1, x, kernel, opts) end

  --- The mean of each window.
  --- Options, a number or {rows, columns}: stride = kernel, padding = 0 (of zeros); ceil_mode = false,
  --- count_include_pad = true.
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, height, width] or [channels, height, width]
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, ceil_mode: boolean?,
  ---  count_include_pad: boolean?}
  ---@return tycho.Tensor # [batch, channels, windows down, windows across]
  local function avg_pool2d(x, kernel, opts) return avg_pool("avg_pool2d", 2, x, kernel, opts) end

  --- One dim cut into `out` windows, which overlap where it does not divide: from floor(i n / out) to
  --- ceil((i + 1) n / out). Gives what fn(part, its first place from 0) makes of each, joined.
  local function each_window(x, d, out, fn)
    local n, parts = x:size(d), {}
    for i = 0, out - 1 do
      local first = floor(i * n / out)
      parts[i + 1] = fn(x:narrow(d, first + 1, ceil((i + 1) * n / out) - first), first)
    end
    return ty.cat(parts, d)
  end

  --- The means of the windows.
  local function adapt_mean(x, d, out)
    local n = x:size(d)
    if n % out == 0 then return mean_of(x:unflatten(d, { out, n / out }), d + 1, false) end
    return each_window(x, d, out, function(part) return mean_of(part, d, true) end)
  end

  local function largest_even(x, w) return x:max(w.d + 1) end

  local function spread_even(x, _, g, w)
    local zeros = ty.zeros(x.shape, { dtype = g.dtype, device = g.device })
    return zeros:scatter(w.d + 1, x:argmax(w.d + 1, true), g:unsqueeze(w.d + 1))
  end

  local function largest_each(x, w)
    return each_window(x, w.d, w.out, function(part) return part:max(w.d, true) end)
  end

  local function spread_each(x, _, g, w)
    local at = each_window(x, w.d, w.out, function(part, first) return part:argmax(w.d, true) + first end)
    return ty.zeros(x.shape, { dtype = g.dtype, device = g.device }):scatter_add(w.d, at, g)
  end

  --- The largest of the windows; the first of equals has the gradient.
  local function adapt_max(x, d, out)
    local n, w = x:size(d), { d = d, out = out }
    if n % out == 0 then return ruled(largest_even, x:unflatten(d, { out, n / out }), spread_even, w) end
    return ruled(largest_each, x, spread_each, w)
  end

  --- The last dim comes first: so the first of equals is that of the first row.
  local function adaptive(who, n, x, outs, adapt)
    local input, single = batched(who, x, n)
    check.float(who, 1, x)
    outs = sizes_of(who, "argument 2, the output's size,", outs, n, nil, 1)
    local half = halves[x.dtype] and x.dtype
    local y = half and input:to("f32") or input
    for i = n, 1, -1 do
      if y:size(2 + i) < 1 then fail(who, "nothing to pool in %s", check.text(x)) end
      y = adapt(y, 2 + i, outs[i])
    end
    if half then y = y:to(half) end
    return single and y:squeeze(1) or y
  end

  --- Means of as many windows as asked for, which cover each dim evenly.
  --- Raises where x has other dims, or the size is not above 0.
  ---@param x tycho.Tensor floats, [batch, channels, length] or [channels, length]
  ---@param size integer
  ---@return tycho.Tensor # [batch, channels, size]
  local function adaptive_avg_pool1d(x, size) return adaptive("adaptive_avg_pool1d", 1, x, size, adapt_mean) end

  --- Means of as many windows as asked for, which cover each dim evenly.
  --- Raises where x has other dims, or a size is not above 0.
  ---@param x tycho.Tensor floats, [batch, channels, height, width] or [channels, height, width]
  ---@param size integer|integer[]
  ---@return tycho.Tensor # [batch, channels, rows, columns]
  local function adaptive_avg_pool2d(x, size) return adaptive("adaptive_avg_pool2d", 2, x, size, adapt_mean) end

  --- The largest of as many windows as asked for, which cover each dim evenly.
  --- Raises where x has other dims, or the size is not above 0.
  ---@param x tycho.Tensor floats, [batch, channels, length] or [channels, length]
  ---@param size integer
  ---@return tycho.Tensor # [batch, channels, size]
  local function adaptive_max_pool1d(x, size) return adaptive("adaptive_max_pool1d", 1, x, size, adapt_max) end

  --- The largest of as many windows as asked for, which cover each dim evenly.
  --- Raises where x has other dims, or a size is not above 0.
  ---@param x tycho.Tensor floats, [batch, channels, height, width] or [channels, height, width]
  ---@param size integer|integer[]
  ---@return tycho.Tensor # [batch, channels, rows, columns]
  local function adaptive_max_pool2d(x, size) return adaptive("adaptive_max_pool2d", 2, x, size, adapt_max) end

  local pooled = "the places become windows"
  row { "max_pool1d", "x, kernel, {stride = kernel, padding = 0, dilation = 1, ceil_mode = false}", max_pool1d,
    "the largest element of each window", shape = pooled }
  row { "max_pool2d", "x, kernel, {stride = kernel, padding = 0, dilation = 1, ceil_mode = false}", max_pool2d,
    "the largest element of each window", shape = pooled }
  row { "avg_pool1d", "x, kernel, {stride = kernel, padding = 0, ceil_mode = false, count_include_pad = true}",
    avg_pool1d, "the mean of each window", shape = pooled }
  row { "avg_pool2d", "x, kernel, {stride = kernel, padding = 0, ceil_mode = false, count_include_pad = true}",
    avg_pool2d, "the mean of each window", shape = pooled }
  row { "adaptive_avg_pool1d", "x, size", adaptive_avg_pool1d, "the means of `size` windows", shape = pooled }
  row { "adaptive_avg_pool2d", "x, size", adaptive_avg_pool2d, "the means of `size` windows a dim", shape = pooled }
  row { "adaptive_max_pool1d", "x, size", adaptive_max_pool1d, "the largest elements of `size` windows",
    shape = pooled }
  row { "adaptive_max_pool2d", "x, size", adaptive_max_pool2d, "the largest elements of `size` windows a dim",
    shape = pooled }

  ---------------------------------------------------------------------------------------------------------- interpolate

  --- Places of x along a dim, by a list of positions from 0.
  local function places(x, d, list)
    local index = {}
    for i = 1, #list do index[i] = list[i] + 1 end
    return x:index_select(d, ty.tensor(index, { dtype = "i64", device = x.device }))
  end

  --- The nearest place below each output's.
  local function nearest(x, d, out)
    local n = x:size(d)
    if out == n then return x end
    if out % n == 0 then -- each place repeated
      local sizes = x:unsqueeze(d + 1).shape
      sizes[d + 1] = out / n
      return x:unsqueeze(d + 1):expand(sizes):flatten(d, d + 1)
    end
    local list = {}
    for i = 0, out - 1 do list[i + 1] = min(floor(i * n / out), n - 1) end
    return places(x, d, list)
  end

  --- Between the two places beside each output's.
  local function linear(x, d, out, corners)
    local n = x:size(d)
    if out == n then return x end
    local low, high, share = {}, {}, {}
    for i = 0, out - 1 do
      local at = corners and (out > 1 and i * (n - 1) / (out - 1) or 0) or max((i + 0.5) * n / out - 0.5, 0)
      local below = min(floor(at), n - 1)
      low[i + 1], high[i + 1], share[i + 1] = below, min(below + 1, n - 1), at - below
    end
    local sizes = { out }
    for _ = d + 1, x.ndim do sizes[#sizes + 1] = 1 end
    local a, b = places(x, d, low), places(x, d, high)
    return a + (b - a) * ty.tensor(share, { dtype = x.dtype, device = x.device }):reshape(sizes)
  end

  --- Another number of places in each dim behind batch and channels.
  --- Options: size, a number or a list; or scale, likewise; mode = "nearest", or "linear" (also "bilinear"): between
  --- neighbours; align_corners = false: whether the outer places keep their values.
  --- Raises where x has other dims than 3 or 4, not one of size and scale is given, or the mode is not known.
  ---@param x tycho.Tensor [batch, channels, length] or [batch, channels, height, width]
  ---@param opts {size: integer|integer[]|nil, scale: number|number[]|nil, mode: string?, align_corners: boolean?}
  ---@return tycho.Tensor # [batch, channels, size...]
  local function interpolate(x, opts)
    local who = "interpolate"
    check.float(who, 1, x)
    opts = check.options(who, opts, { size = "any", scale = "any", mode = "string", align_corners = "boolean" })
    local n = x.ndim - 2
    if n ~= 1 and n ~= 2 then fail(who, "argument 1 must have 3 or 4 dims, got %s", check.text(x)) end
    if (opts.size == nil) == (opts.scale == nil) then fail(who, "needs one of the options size and scale") end
    local outs = {}
    for i = 1, n do
      if x:size(2 + i) < 1 then fail(who, "nothing to begin with in %s", check.text(x)) end
      local scale = type(opts.scale) == "table" and opts.scale[i] or opts.scale
      if opts.scale ~= nil then
        if type(scale) ~= "number" or not (scale > 0 and scale < math.huge) then
          fail(who, "option scale must be above 0, got %s", check.show(scale))
        end
        outs[i] = floor(x:size(2 + i) * scale)
      end
    end
    outs = sizes_of(who, opts.size ~= nil and "option size" or "the size scaled", opts.size or outs, n, nil, 1)
    local mode = opts.mode or "nearest"
    if mode == "nearest" then
      for i = 1, n do x = nearest(x, 2 + i, outs[i]) end
      return x
    end
    if mode ~= "linear" and mode ~= "bilinear" then
      fail(who, "option mode must be \"nearest\", \"linear\" or \"bilinear\", got %s", check.show(mode))
    end
    local half = halves[x.dtype] and x.dtype
    if half then x = x:to("f32") end
    for i = n, 1, -1 do x = linear(x, 2 + i, outs[i], opts.align_corners) end
    return half and x:to(half) or x
  end

  row { "interpolate", "x, {size, scale, mode = \"nearest\", align_corners = false}", interpolate,
    "another number of places in each dim behind batch and channels", shape = "[batch, channels, size...]",
    formula = "as PyTorch's interpolate, modes nearest, linear and bilinear" }

end
