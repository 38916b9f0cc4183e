--- pooling.lua -- composites over windows: pooling, which is a reduction over the windows' dims.
-- In: tensors [batch, channels, places...] or without the batch. Out: the same layout. Nothing here reads values. What
-- gradients know of a pooling (w) holds no sizes of tensors: they are the same function at all of them.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
---@param complex table complex.lua
return function(ty, check, row, complex)
  local fail = check.fail
  local correlation = require("tycho.correlation")(ty, complex)
  local arguments = require("tycho.window_arguments")(check)
  local sizes_of, batched = arguments.sizes_of, arguments.batched
  local pad, windows, last_sizes, taping = correlation.pad, correlation.windows, correlation.last_sizes,
    ty.internals.grad.mode
  local grad = ty.internals.grad
  local product = correlation.product
  local tracked = ty.internals.vmap.tracked
  local where, eq, ge, ne = ty.where, ty.eq, ty.ge, ty.ne
  local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
  local halves = { f16 = true, bf16 = true }

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

  --- Calls visit(k, index) for each place k of a window, from 0; view[index] are the elements there.
  local function each_tap(kernel, visit)
    for k = 0, product(kernel) - 1 do
      local index, rest = { "..." }, k
      for i = #kernel, 1, -1 do
        index[1 + i] = rest % kernel[i] + 1
        rest = (rest - rest % kernel[i]) / kernel[i]
      end
      visit(k, index)
    end
  end

  --- The windows in the last n dims of a view, reduced.
  local function fold(view, n, kernel, combine, reduce)
    if product(kernel) > TAPS then return reduce(view, last_dims(n)) end
    local y
    each_tap(kernel, function(_, index)
      local place = view[index]
      y = y and combine(y, place) or place
    end)
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

  --- Which place of its window the largest element has first, from 0, as floats; nil: a window has one place. Beside
  --- a NaN nothing is larger, and without one y is none.
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
  --- inside of x is meant.
  local function inner_taps(tap, y, w)
    local n, first, any = w.n, nil, false
    for i = 1, n do any = any or w.padding[i] > 0 end
    if not any then return tap end
    for i = 1, n do
      local window = ty.arange(y:size(y.ndim - n + i), { dtype = "f32", device = tap.device })
      local own = window * -w.stride[i] + w.padding[i] -- so many places of the window lie before x
      if w.dilation[i] > 1 then own = (own / w.dilation[i]):ceil() end
      own = own:clamp(0):to(tap.dtype)
      for _ = i + 1, n do own = own:unsqueeze(-1) end
      first = first and first * w.kernel[i] + own or own
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
    tap = tap and inner_taps(tap, y, w)
    each_tap(w.kernel, function(k, index) to[index] = tap and where(tap:eq(k), g, 0) or g end)
    return dx
  end

  --- Where the largest of each window lies, from 0, in the places of x, of which so many before each dim are not
  --- counted and `sizes` are, as one dim.
  local function flat_places(x, y, w, before, sizes)
    local n, kernel, at = w.n, w.kernel, nil
    local view = view_of(x, w)
    local tap = product(kernel) > TAPS and view:flatten(-n, -1):argmax(-1) - 1 or first_taps(view, kernel, y)
      or ty.zeros_like(y)
    tap = inner_taps(tap, y, w):to("i64")
    for i = n, 1, -1 do
      local d, below = x.ndim - n + i, 1
      for k = i + 1, n do below = below * sizes[k] end
      local within = i == 1 and tap or tap % kernel[i]
      if i > 1 then tap = ((tap - within) / kernel[i]):to("i64") end
      local first = ty.arange(y:size(d), { dtype = "i64", device = y.device }) * w.stride[i] - before[i]
      for _ = i + 1, n do first = first:unsqueeze(-1) end
      local here = (within * w.dilation[i] + first) * below
      at = at and at + here or here
    end
    return at
  end

  local none = { 0, 0, 0 }

  --- Windows that may share elements: g is added up at the places of the largest.
  local function spread_together(x, y, g, w)
    local lead, sizes = x.ndim - w.n, last_sizes(x, w.n)
    local at = flat_places(x, y, w, none, sizes)
    local dx = ty.zeros(x.shape, { dtype = g.dtype, device = g.device }):flatten(lead + 1, -1)
    at = (at:flatten(lead + 1, -1) + 1):clamp(1, dx:size(-1)) -- it is there anyway: so that captures can see that
    dx = dx:scatter_add(-1, at, g:flatten(lead + 1, -1))
    return dx:unflatten(-1, sizes)
  end

  local function largest(x, w) return fold(view_of(padded(x, w), w), w.n, w.kernel, ty.maximum, max_of) end

  local function spread(x, y, g, w)
    local dx = (w.apart and spread_apart or spread_together)(padded(x, w), y, g, w)
    return pad(dx, w.n, w.back, w.behind, 0)
  end

  local max_options = {
    stride = "any", padding = "any", dilation = "any", ceil_mode = "boolean", return_indices = "boolean",
  }

  local function max_pool(who, n, x, kernel, opts)
    local input, single, size, stride, padding, after, dilation
    input, single, opts, size, stride, padding, after, dilation =
      pool_arguments(who, n, x, kernel, opts, max_options)
    local back, behind, apart = {}, {}, product(size) <= TAPS
    for i = 1, n do
      back[i], behind[i] = -padding[i], -after[i]
      apart = apart and stride[i] > (size[i] - 1) * dilation[i]
    end
    local w = { n = n, kernel = size, stride = stride, padding = padding, after = after, dilation = dilation,
      back = back, behind = behind, apart = apart }
    local y = ruled(largest, input, spread, w)
    if not opts.return_indices then return single and y:squeeze(1) or y end
    local at = flat_places(padded(input:detach(), w), y:detach(), w, padding, last_sizes(input, n)) + 1
    if single then return y:squeeze(1), at:squeeze(1) end
    return y, at
  end

  local average_options = {
    stride = "any", padding = "any", dilation = "any", ceil_mode = "boolean", count_include_pad = "boolean",
    divisor_override = "number",
  }

  --- How many places each window of one dim counts, those from `low` to before `high` of the input: of the o-th window,
  --- from 0; and whether all count as many.
  local function window_counts(out, low, high, kernel, stride, padding, dilation)
    local function before(o, place) return max(0, min(kernel, ceil((place + padding - o * stride) / dilation))) end
    local same, count = true, before(0, high) - before(0, low)
    for o = 1, out - 1 do same = same and before(o, high) - before(o, low) == count end
    return count, same
  end

  --- The counts of all windows, as y is.
  local function window_counts_of(out, low, high, kernel, stride, padding, dilation, y)
    local along = ty.arange(out, { dtype = "f32", device = y.device })
    local function before(place)
      local taps = along * -stride + (place + padding)
      return (dilation > 1 and (taps / dilation):ceil() or taps):clamp(0, kernel)
    end
    return (before(high) - before(low)):to(y.dtype)
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
    local sizes, whole = g.shape, true
    for i = 1, n do
      local d = g.ndim - n + i
      sizes[d] = (sizes[d] - 1) * w.stride[i] + kernel[i] + w.rest[i]
      whole = whole and w.stride[i] == kernel[i] and w.rest[i] == 0
    end
    local dx = (whole and ty.empty or ty.zeros)(sizes, { dtype = g.dtype, device = g.device })
    local to = windows(dx, n, kernel, w.stride, w.dilation)
    each_tap(kernel, function(_, index) to[index] = g end)
    return pad(dx, n, w.back, w.behind, 0)
  end

  --- The sums of windows. Where these share no element, or stand at every place, the gradient is as simple: g at each
  --- place of its window, or sums of windows over g.
  local function window_sums(x, n, kernel, stride, padding, after, dilation)
    local apart, every, few = true, true, product(kernel) <= TAPS and product(kernel) > 1
    local rest, back, behind, before, beyond = {}, {}, {}, {}, {}
    for i = 1, n do
      apart, every = apart and stride[i] >= kernel[i], every and stride[i] == 1
      few = few and dilation[i] == 1
      back[i], behind[i] = -padding[i], -after[i]
      rest[i] = (x:size(x.ndim - n + i) + padding[i] + after[i] - kernel[i]) % stride[i] -- places behind the last one
      before[i], beyond[i] = kernel[i] - 1 - padding[i], kernel[i] - 1 - after[i]
    end
    local w = { n = n, kernel = kernel, stride = stride, padding = padding, after = after, dilation = dilation,
      every = every, rest = rest, back = back, behind = behind, before = before, beyond = beyond }
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
    local whole, divisor = opts.divisor_override or 1, opts.divisor_override
    if divisor == 0 or whole ~= whole then fail(who, "option divisor_override must not be %.14g", whole) end
    for i = 1, divisor and 0 or n do
      local low, high = include and -padding[i] or 0, input:size(2 + i) + (include and padding[i] or 0)
      local count, same = window_counts(outs[i], low, high, kernel[i], stride[i], padding[i], dilation[i])
      if same then
        whole = whole * count
      else
        local counts = window_counts_of(outs[i], low, high, kernel[i], stride[i], padding[i], dilation[i], y)
        for _ = i + 1, n do counts = counts:unsqueeze(-1) end
        y = y / counts
      end
    end
    if whole ~= 1 then y = y / whole end
    if half then y = y:to(half) end
    return single and y:squeeze(1) or y
  end

  --- The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
  --- Options: stride = kernel, padding = 0 (of -inf), dilation = 1, ceil_mode = false; return_indices = false: where
  --- the elements lie, as a second result (for ty.max_unpool1d).
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, length] or [channels, length]
  ---@param kernel integer
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil,
  ---  ceil_mode: boolean?, return_indices: boolean?}
  ---@return tycho.Tensor y, tycho.Tensor? places # [batch, channels, windows]; the same in i64, places from 1
  local function max_pool1d(x, kernel, opts) return max_pool("max_pool1d", 1, x, kernel, opts) end

  --- The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
  --- Options, a number or {rows, columns}: stride = kernel, padding = 0 (of -inf), dilation = 1; ceil_mode = false;
  --- return_indices = false: where the elements lie, row after row, as a second result (for ty.max_unpool2d).
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, height, width] or [channels, height, width]
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil,
  ---  ceil_mode: boolean?, return_indices: boolean?}
  ---@return tycho.Tensor y, tycho.Tensor? places # [batch, channels, windows down, windows across]; the same in i64,
  ---  places from 1
  local function max_pool2d(x, kernel, opts) return max_pool("max_pool2d", 2, x, kernel, opts) end

  --- The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
  --- Options, a number or {planes, rows, columns}: stride = kernel, padding = 0 (of -inf), dilation = 1;
  --- ceil_mode = false; return_indices = false: where the elements lie, as a second result (for ty.max_unpool3d).
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, depth, height, width] or [channels, depth, height, width]
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil,
  ---  ceil_mode: boolean?, return_indices: boolean?}
  ---@return tycho.Tensor y, tycho.Tensor? places # [batch, channels, windows of each dim]; the same in i64, places
  ---  from 1
  local function max_pool3d(x, kernel, opts) return max_pool("max_pool3d", 3, x, kernel, opts) end

  --- The mean of each window.
  --- Options: stride = kernel, padding = 0 (of zeros), dilation = 1, ceil_mode = false, count_include_pad = true;
  --- divisor_override: what the sums are divided by.
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, length] or [channels, length]
  ---@param kernel integer
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil,
  ---  ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
  ---@return tycho.Tensor # [batch, channels, windows]
  local function avg_pool1d(x, kernel, opts) return avg_pool("avg_pool1d", 1, x, kernel, opts) end

  --- The mean of each window.
  --- Options, a number or {rows, columns}: stride = kernel, padding = 0 (of zeros), dilation = 1; ceil_mode = false,
  --- count_include_pad = true; divisor_override: what the sums are divided by.
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, height, width] or [channels, height, width]
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil,
  ---  ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
  ---@return tycho.Tensor # [batch, channels, windows down, windows across]
  local function avg_pool2d(x, kernel, opts) return avg_pool("avg_pool2d", 2, x, kernel, opts) end

  --- The mean of each window.
  --- Options, a number or {planes, rows, columns}: stride = kernel, padding = 0 (of zeros), dilation = 1;
  --- ceil_mode = false, count_include_pad = true; divisor_override: what the sums are divided by.
  --- Raises where x has other dims, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, depth, height, width] or [channels, depth, height, width]
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil,
  ---  ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
  ---@return tycho.Tensor # [batch, channels, windows of each dim]
  local function avg_pool3d(x, kernel, opts) return avg_pool("avg_pool3d", 3, x, kernel, opts) end

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

  --- Means of as many windows as asked for, which cover each dim evenly.
  --- Raises where x has other dims, or a size is not above 0.
  ---@param x tycho.Tensor floats, [batch, channels, depth, height, width] or [channels, depth, height, width]
  ---@param size integer|integer[]
  ---@return tycho.Tensor # [batch, channels, planes, rows, columns]
  local function adaptive_avg_pool3d(x, size) return adaptive("adaptive_avg_pool3d", 3, x, size, adapt_mean) end

  --- The largest of as many windows as asked for, which cover each dim evenly.
  --- Raises where x has other dims, or a size is not above 0.
  ---@param x tycho.Tensor floats, [batch, channels, depth, height, width] or [channels, depth, height, width]
  ---@param size integer|integer[]
  ---@return tycho.Tensor # [batch, channels, planes, rows, columns]
  local function adaptive_max_pool3d(x, size) return adaptive("adaptive_max_pool3d", 3, x, size, adapt_max) end

  local pooled = "the places become windows"
  local max_arguments = "x, kernel, {stride = kernel, padding = 0, dilation = 1, ceil_mode = false, "
    .. "return_indices = false}"
  local average_arguments = "x, kernel, {stride = kernel, padding = 0, dilation = 1, ceil_mode = false, "
    .. "count_include_pad = true, divisor_override}"
  row { "max_pool1d", max_arguments, max_pool1d, "the largest element of each window", shape = pooled }
  row { "max_pool2d", max_arguments, max_pool2d, "the largest element of each window", shape = pooled }
  row { "max_pool3d", max_arguments, max_pool3d, "the largest element of each window", shape = pooled }
  row { "avg_pool1d", average_arguments, avg_pool1d, "the mean of each window", shape = pooled }
  row { "avg_pool2d", average_arguments, avg_pool2d, "the mean of each window", shape = pooled }
  row { "avg_pool3d", average_arguments, avg_pool3d, "the mean of each window", shape = pooled }
  row { "adaptive_avg_pool1d", "x, size", adaptive_avg_pool1d, "the means of `size` windows", shape = pooled }
  row { "adaptive_avg_pool2d", "x, size", adaptive_avg_pool2d, "the means of `size` windows a dim", shape = pooled }
  row { "adaptive_max_pool1d", "x, size", adaptive_max_pool1d, "the largest elements of `size` windows",
    shape = pooled }
  row { "adaptive_max_pool2d", "x, size", adaptive_max_pool2d, "the largest elements of `size` windows a dim",
    shape = pooled }
  row { "adaptive_avg_pool3d", "x, size", adaptive_avg_pool3d, "the means of `size` windows a dim", shape = pooled }
  row { "adaptive_max_pool3d", "x, size", adaptive_max_pool3d, "the largest elements of `size` windows a dim",
    shape = pooled }

  ---------------------------------------------------------------------------------------------------------- unpooling

  local unpool_options = { stride = "any", padding = "any", output_size = "table" }

  local function max_unpool(who, n, x, places, kernel, opts)
    local input, single = batched(who, x, n)
    check.float(who, 1, x)
    check.tensor(who, 2, places)
    if places.dtype == "bool" or places.dtype:find("f", 1, true)
      or check.text(places):match "%b[]" ~= check.text(x):match "%b[]" then
      fail(who, "argument 2 must be integers of the sizes of %s, got %s", check.text(x), check.text(places))
    end
    opts = check.options(who, opts, unpool_options)
    kernel = sizes_of(who, "argument 3, the window,", kernel, n, nil, 1)
    local stride = sizes_of(who, "option stride", opts.stride, n, kernel, 1)
    local padding = sizes_of(who, "option padding", opts.padding, n, 0, 0)
    local sizes, count, given = {}, 1, opts.output_size
    if given ~= nil and #given ~= n then
      fail(who, "option output_size must be a list of %d, got a list of %d", n, #given)
    end
    for i = 1, n do
      local usual = (input:size(2 + i) - 1) * stride[i] - 2 * padding[i] + kernel[i]
      sizes[i] = given and given[i] or usual
      if type(sizes[i]) ~= "number" or sizes[i] % 1 ~= 0 or sizes[i] < 1 or math.abs(sizes[i] - usual) >= stride[i] then
        fail(who, "option output_size must be within the stride of %d in dim %d, got %s", usual, i,
          check.show(sizes[i]))
      end
      count = count * sizes[i]
    end
    local flat, at = input:flatten(3, -1), (single and places:unsqueeze(1) or places):flatten(3, -1)
    local y = ty.zeros({ input:size(1), input:size(2), count }, { dtype = x.dtype, device = x.device })
    y = check.named(who, "scatter", ty.scatter, y, 3, at, flat):unflatten(3, sizes)
    return single and y:squeeze(1) or y
  end

  --- The inverse of max_pool1d, as far as there is one: elements at their places, zeros elsewhere.
  --- Options: stride = kernel, padding = 0, as of the pooling; output_size: a list, where the sizes that follow from
  --- these are not those that were pooled.
  --- Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled
  --- so.
  ---@param x tycho.Tensor floats, [batch, channels, windows] or [channels, windows]
  ---@param places tycho.Tensor integers from 1, as max_pool1d gives them with return_indices
  ---@param kernel integer
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
  ---@return tycho.Tensor # [batch, channels, length]
  local function max_unpool1d(x, places, kernel, opts)
    return max_unpool("max_unpool1d", 1, x, places, kernel, opts)
  end

  --- The inverse of max_pool2d, as far as there is one: elements at their places, zeros elsewhere. Options as of
  --- max_unpool1d.
  --- Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled
  --- so.
  ---@param x tycho.Tensor floats, [batch, channels, rows, columns] or [channels, rows, columns]
  ---@param places tycho.Tensor integers from 1, as max_pool2d gives them with return_indices
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
  ---@return tycho.Tensor # [batch, channels, height, width]
  local function max_unpool2d(x, places, kernel, opts)
    return max_unpool("max_unpool2d", 2, x, places, kernel, opts)
  end

  --- The inverse of max_pool3d, as far as there is one: elements at their places, zeros elsewhere. Options as of
  --- max_unpool1d.
  --- Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled
  --- so.
  ---@param x tycho.Tensor floats, [batch, channels, planes, rows, columns] or without the batch
  ---@param places tycho.Tensor integers from 1, as max_pool3d gives them with return_indices
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
  ---@return tycho.Tensor # [batch, channels, depth, height, width]
  local function max_unpool3d(x, places, kernel, opts)
    return max_unpool("max_unpool3d", 3, x, places, kernel, opts)
  end

  local unpooled = "windows become places"
  local unpool_arguments = "x, places, kernel, {stride = kernel, padding = 0, output_size}"
  row { "max_unpool1d", unpool_arguments, max_unpool1d, "elements at the places that max_pool1d told",
    shape = unpooled }
  row { "max_unpool2d", unpool_arguments, max_unpool2d, "elements at the places that max_pool2d told",
    shape = unpooled }
  row { "max_unpool3d", unpool_arguments, max_unpool3d, "elements at the places that max_pool3d told",
    shape = unpooled }

  ---------------------------------------------------------------------------------------------------------- power means

  local function lp_pool(who, n, x, p, kernel, opts)
    check.float(who, 1, x)
    p = check.number(who, 2, p, "p")
    if p == 0 then fail(who, "argument 2 (p) must not be 0") end
    opts = check.options(who, opts, { stride = "any", ceil_mode = "boolean" })
    local half = halves[x.dtype] and x.dtype
    local places = product(sizes_of(who, "argument 3, the window,", kernel, n, nil, 1))
    local y = avg_pool(who, n, (half and x:to("f32") or x):pow(p), kernel, opts)
    y = (ty.sign(y) * ty.relu(y:abs()) * places):pow(1 / p)
    return half and y:to(half) or y
  end

  --- The p-th root of the sum of p-th powers of each window. Options: stride = kernel, ceil_mode = false.
  --- Raises where x has other dims, p is 0, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, length] or [channels, length]
  ---@param p number
  ---@param kernel integer
  ---@param opts? {stride: integer|integer[]|nil, ceil_mode: boolean?}
  ---@return tycho.Tensor # [batch, channels, windows]
  local function lp_pool1d(x, p, kernel, opts) return lp_pool("lp_pool1d", 1, x, p, kernel, opts) end

  --- The p-th root of the sum of p-th powers of each window. Options: stride = kernel, ceil_mode = false.
  --- Raises where x has other dims, p is 0, a window does not fit, or an option is out of range.
  ---@param x tycho.Tensor floats, [batch, channels, height, width] or [channels, height, width]
  ---@param p number
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, ceil_mode: boolean?}
  ---@return tycho.Tensor # [batch, channels, windows down, windows across]
  local function lp_pool2d(x, p, kernel, opts) return lp_pool("lp_pool2d", 2, x, p, kernel, opts) end

  row { "lp_pool1d", "x, p, kernel, {stride = kernel, ceil_mode = false}", lp_pool1d,
    "the p-th root of the sum of p-th powers of each window", shape = pooled }
  row { "lp_pool2d", "x, p, kernel, {stride = kernel, ceil_mode = false}", lp_pool2d,
    "the p-th root of the sum of p-th powers of each window", shape = pooled }
end
