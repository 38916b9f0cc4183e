--- resample.lua -- composites: other numbers of places, and values between places.
-- In: tensors [batch, channels, places...]. Nothing here reads values.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail = check.fail
  local sizes_of = require("tycho.window_arguments")(check).sizes_of
  local floor, max, min = math.floor, math.max, math.min
  local halves = { f16 = true, bf16 = true }

  --- Places of x along a dim, by a list of positions from 0.
  local function places(x, d, list)
    local index = {}
    for i = 1, #list do index[i] = list[i] + 1 end
    return x:index_select(d, ty.tensor(index, { dtype = "i64", device = x.device }))
  end

  -- An output's place in the input is its own times steps / of: the number of places by that of outputs, or 1 by the
  -- scale that was asked for, which these need not have as their quotient.

  --- The nearest place below each output's. PyTorch's images (x of 4 dims) that keep or double their places take no
  --- notice of the scale, and so do these.
  local function nearest(x, d, out, middle, steps, of)
    local n = x:size(d)
    local times = out / n
    if not middle and x.ndim == 4 and (times == 1 or times == 2) then steps, of = n, out end
    if out == n and steps * out == n * of then return x end
    if times % 1 == 0 and steps * out == n * of then -- each place repeated
      local sizes = x:unsqueeze(d + 1).shape
      sizes[d + 1] = times
      return x:unsqueeze(d + 1):expand(sizes):flatten(d, d + 1)
    end
    local list = {}
    for i = 0, out - 1 do list[i + 1] = min(floor((i + (middle and 0.5 or 0)) * steps / of), n - 1) end
    return places(x, d, list)
  end

  --- The sum of several places of x times weights, for each output: lists of positions from 0 and of weights.
  local function weighted(x, d, positions, weights)
    local sizes, y = { #weights[1] }, nil
    for _ = d + 1, x.ndim do sizes[#sizes + 1] = 1 end
    for k, list in ipairs(positions) do
      local w = ty.tensor(weights[k], { dtype = x.dtype, device = x.device }):reshape(sizes)
      local term = places(x, d, list) * w
      y = y and y + term or term
    end
    return y
  end

  --- Where output i (from 0) of `out` lies among n places.
  local function source(i, n, out, corners, steps, of)
    if corners then return out > 1 and i * (n - 1) / (out - 1) or 0 end
    return (i + 0.5) * steps / of - 0.5
  end

  --- Keys' cubic at a distance; a: its slope at 1. Keys 1981.
  local function keys_cubic(t, a)
    t = math.abs(t)
    if t <= 1 then return ((a + 2) * t - (a + 3)) * t * t + 1 end
    if t < 2 then return (((t - 5) * t + 8) * t - 4) * a end
    return 0
  end

  --- By the four places beside each output's.
  local function cubic(x, d, out, corners, steps, of)
    local n, positions, weights = x:size(d), { {}, {}, {}, {} }, { {}, {}, {}, {} }
    for i = 0, out - 1 do
      local at = source(i, n, out, corners, steps, of)
      local low = floor(at)
      for k = 1, 4 do
        local j = low + k - 2
        positions[k][i + 1], weights[k][i + 1] = min(max(j, 0), n - 1), keys_cubic(at - j, -0.75)
      end
    end
    return weighted(x, d, positions, weights)
  end

  --- By all places that an output covers where there are fewer of them: a product with a matrix of weights.
  local function smoothed(x, d, out, scale, filter, reach)
    local n, matrix = x:size(d), {}
    if out == n then return x end
    local wide = max(scale, 1)
    for i = 0, out - 1 do
      local line, sum, center = {}, 0, (i + 0.5) * scale
      local first = max(floor(center - reach * wide + 0.5), 0)
      local last = min(floor(center + reach * wide + 0.5), n) - 1
      for j = 0, n - 1 do
        line[j + 1] = j >= first and j <= last and filter((j - center + 0.5) / wide) or 0
        sum = sum + line[j + 1]
      end
      for j = 1, n do line[j] = line[j] / sum end
      matrix[i + 1] = line
    end
    local w = ty.tensor(matrix, { dtype = x.dtype, device = x.device })
    return x:transpose(d, -1):matmul(w:t()):transpose(d, -1)
  end

  local function tent(t) return max(1 - math.abs(t), 0) end
  local function soft_cubic(t) return keys_cubic(t, -0.5) end

  --- Between the two places beside each output's.
  local function linear(x, d, out, corners, steps, of)
    local n = x:size(d)
    if out == n then return x end
    local low, high, share = {}, {}, {}
    for i = 0, out - 1 do
      local at = max(source(i, n, out, corners, steps, of), 0)
      local below = min(floor(at), n - 1)
      low[i + 1], high[i + 1], share[i + 1] = below, min(below + 1, n - 1), at - below
    end
    local sizes = { out }
    for _ = d + 1, x.ndim do sizes[#sizes + 1] = 1 end
    local a, b = places(x, d, low), places(x, d, high)
    return a + (b - a) * ty.tensor(share, { dtype = x.dtype, device = x.device }):reshape(sizes)
  end

  local modes = { nearest = true, ["nearest-exact"] = true, area = true, linear = linear, bilinear = linear,
    trilinear = linear, bicubic = cubic }

  local known = { size = "any", scale = "any", scale_factor = "any", mode = "string", align_corners = "boolean",
    antialias = "boolean", recompute_scale_factor = "boolean" }

  --- Another number of places in each dim behind batch and channels.
  --- Options: size, a number or a list; or scale (scale_factor), likewise; mode = "nearest" (of the place's corner),
  --- "nearest-exact" (of its middle), "linear" (also "bilinear", "trilinear"): between neighbours, "bicubic": of four
  --- a dim, "area": means; align_corners = false: whether the outer places keep their values; antialias = false: of
  --- linear and cubic modes, whether all places count that an output covers; recompute_scale_factor = false: whether
  --- places lie as with the size that follows from the scale, not with the scale, where that gives no whole number.
  --- Raises where x has other dims than 3 to 5, not one of size and scale is given, or the mode is not known.
  ---@param x tycho.Tensor [batch, channels, length], [batch, channels, height, width] or with a depth
  ---@param opts {size: integer|integer[]|nil, scale: number|number[]|nil, scale_factor: number|number[]|nil,
  ---  mode: string?, align_corners: boolean?, antialias: boolean?, recompute_scale_factor: boolean?}
  ---@return tycho.Tensor # [batch, channels, size...]
  local function interpolate(x, opts)
    local who = "interpolate"
    check.float(who, 1, x)
    opts = check.options(who, opts, known)
    local n, outs, scales = x.ndim - 2, {}, {}
    if n < 1 or n > 3 then fail(who, "argument 1 must have 3 to 5 dims, got %s", check.text(x)) end
    local wanted = opts.scale == nil and opts.scale_factor or opts.scale
    if (opts.size == nil) == (wanted == nil) then fail(who, "needs one of the options size and scale") end
    for i = 1, n do
      if x:size(2 + i) < 1 then fail(who, "nothing to begin with in %s", check.text(x)) end
      local scale = type(wanted) == "table" and wanted[i] or wanted
      if wanted ~= nil then
        if type(scale) ~= "number" or not (scale > 0 and scale < math.huge) then
          fail(who, "option scale must be above 0, got %s", check.show(scale))
        end
        outs[i], scales[i] = floor(x:size(2 + i) * scale), not opts.recompute_scale_factor and scale or nil
      end
    end
    outs = sizes_of(who, opts.size ~= nil and "option size" or "the size scaled", opts.size or outs, n, nil, 1)
    local mode, corners = opts.mode or "nearest", opts.align_corners
    local step = modes[mode]
    if not step then
      fail(who, "option mode must be \"nearest\", \"nearest-exact\", \"linear\", \"bilinear\", \"trilinear\", "
        .. "\"bicubic\" or \"area\", got %s", check.show(mode))
    end
    --- What steps and of are for dim i.
    local function ratio(i)
      if scales[i] then return 1, scales[i] end
      return x:size(2 + i), outs[i]
    end
    if mode == "nearest" or mode == "nearest-exact" then
      for i = 1, n do x = nearest(x, 2 + i, outs[i], mode ~= "nearest", ratio(i)) end
      return x
    end
    local half = halves[x.dtype] and x.dtype
    if half then x = x:to("f32") end
    if opts.antialias then
      if mode == "area" or corners then fail(who, "option antialias needs a linear or cubic mode, without corners") end
      step = function(y, d, out, _, steps, of)
        if mode == "bicubic" then return smoothed(y, d, out, steps / of, soft_cubic, 2) end
        return smoothed(y, d, out, steps / of, tent, 1)
      end
    end
    if mode == "area" then x = ty["adaptive_avg_pool" .. n .. "d"](x, outs)
    else
      for i = n, 1, -1 do x = step(x, 2 + i, outs[i], corners, ratio(i)) end
    end
    return half and x:to(half) or x
  end

  row { "interpolate", "x, {size, scale, mode = \"nearest\", align_corners = false, antialias = false}", interpolate,
    "another number of places in each dim behind batch and channels", shape = "[batch, channels, size...]",
    formula = "as PyTorch's interpolate" }

  ---------------------------------------------------------------------------------------------------------- grids

  --- Coordinates in -1..1 as places of n, from 0.
  local function unnormalized(g, n, corners)
    if corners then return (g + 1) * ((n - 1) / 2) end
    return ((g + 1) * n - 1) / 2
  end

  --- Coordinates turned around at the borders.
  local function reflected(at, n, corners)
    local low, span = corners and 0 or -0.5, corners and n - 1 or n
    if span == 0 then return at * 0 end
    local away = (at - low):abs()
    local rest = away % span
    local flips = ((away - rest) / span):round():detach()
    return ty.where((flips % 2):eq(0), rest + low, span + low - rest):clamp(0, n - 1)
  end

  --- Coordinates where the padding has them: as they are, or within the image.
  local function inside_of(at, n, padding, corners)
    if padding == "border" then return at:clamp(0, n - 1) end
    return padding == "reflection" and reflected(at, n, corners) or at
  end

  --- The weights of the neighbours of a place that lies t behind the second of four, or the first of two.
  local shares = {
    bilinear = function(t) return { 1 - t, t } end,
    bicubic = function(t)
      local a, u = -0.75, 1 - t
      local function near(d) return ((a + 2) * d - (a + 3)) * d * d + 1 end
      local function far(d) return ((d - 5) * d + 8) * d * a - 4 * a end
      return { far(t + 1), near(t), near(u), far(u + 1) }
    end,
  }

  --- The values of x [batch, channels, places] at positions from 0, one tensor a dim, [batch, points]; 0 outside.
  local function values_at(x, positions, sizes, inside)
    local flat, within = nil, nil
    for i, at in ipairs(positions) do
      local n = sizes[i]
      if not inside then
        local ok = at:ge(0):logical_and(at:le(n - 1))
        within = within and within:logical_and(ok) or ok
      end
      local whole = at:clamp(0, n - 1):to("i64"):clamp(0, n - 1)
      flat = flat and flat * n + whole or whole
    end
    local count = x:size(3)
    flat = (flat + 1):clamp(1, count)
    local y = x:gather(3, flat:unsqueeze(2):expand(x:size(1), x:size(2), flat:size(2)))
    return within and ty.where(within:unsqueeze(2), y, 0) or y
  end

  local grid_options = { mode = "string", padding_mode = "string", align_corners = "boolean" }
  local paddings = { zeros = true, border = true, reflection = true }

  --- The values of an image at the coordinates of a grid, which are in -1..1 from border to border; the last dim's
  --- comes first: {x, y} or {x, y, z}. Jaderberg and others 2015, arXiv:1506.02025.
  --- Options: mode = "bilinear" (between neighbours, in three dims too), "bicubic" (four neighbours a dim, by Keys'
  --- kernel of -0.75), or "nearest"; padding_mode = "zeros": what lies outside, "border": the places at the borders,
  --- "reflection": the image turned around there; align_corners = false: whether -1 and 1 are the middles of the
  --- outer places.
  --- Raises where the sizes do not fit each other, or an option is not known.
  ---@param x tycho.Tensor floats [batch, channels, height, width] or [batch, channels, depth, height, width]
  ---@param grid tycho.Tensor floats [batch, rows, columns, 2] or [batch, planes, rows, columns, 3]
  ---@param opts? {mode: "bilinear"|"bicubic"|"nearest"|nil, padding_mode: "zeros"|"border"|"reflection"|nil,
  ---  align_corners: boolean?}
  ---@return tycho.Tensor # [batch, channels, rows, columns], or with planes
  local function grid_sample(x, grid, opts)
    local who = "grid_sample"
    check.float(who, 1, x)
    check.float(who, 2, grid)
    opts = check.options(who, opts, grid_options)
    local n, mode, padding = x.ndim - 2, opts.mode or "bilinear", opts.padding_mode or "zeros"
    if n ~= 2 and n ~= 3 then fail(who, "argument 1 must have 4 or 5 dims, got %s", check.text(x)) end
    if grid.ndim ~= n + 2 or grid:size(-1) ~= n or grid:size(1) ~= x:size(1) then
      fail(who, "a grid for %s must be [%d, ..., %d] of %d dims, got %s", check.text(x), x:size(1), n, n + 2,
        check.text(grid))
    end
    if mode ~= "bilinear" and mode ~= "bicubic" and mode ~= "nearest" then
      fail(who, "option mode must be \"bilinear\", \"bicubic\" or \"nearest\", got %q", mode)
    end
    if not paddings[padding] then
      fail(who, "option padding_mode must be \"zeros\", \"border\" or \"reflection\", got %q", padding)
    end
    local half, corners = halves[x.dtype] and x.dtype, opts.align_corners
    local w, g = half and x:to("f32") or x, grid
    if g.dtype ~= w.dtype then g = g:to(w.dtype) end
    local at, sizes, outs = {}, {}, {}
    for i = 1, n do
      sizes[i], outs[i] = x:size(2 + i), grid:size(1 + i)
      if sizes[i] < 1 then fail(who, "nothing to begin with in %s", check.text(x)) end
      local c = unnormalized(g[{ "...", n + 1 - i }], sizes[i], corners)
      if mode ~= "bicubic" then c = inside_of(c, sizes[i], padding, corners) end
      at[i] = c:flatten(2)
    end
    w = w:flatten(3)
    local inside, y = padding ~= "zeros", nil
    if mode == "nearest" then
      for i = 1, n do at[i] = at[i]:detach():round() end
      y = values_at(w, at, sizes, inside)
    else
      local low, share = {}, {}
      for i = 1, n do
        low[i] = at[i]:detach():floor()
        share[i] = at[i] - low[i]
      end
      local weights, width, first = shares[mode], mode == "bicubic" and 4 or 2, mode == "bicubic" and -1 or 0
      for i = 1, n do share[i] = weights(share[i]) end
      for corner = 0, width ^ n - 1 do
        local positions, weight, rest = {}, nil, corner
        for i = n, 1, -1 do
          local k = rest % width
          rest = (rest - k) / width
          positions[i] = low[i] + (k + first)
          if mode == "bicubic" then positions[i] = inside_of(positions[i], sizes[i], padding, corners) end
          weight = weight and weight * share[i][k + 1] or share[i][k + 1]
        end
        -- an upper neighbour beyond the border has the weight 0 between two
        local term = values_at(w, positions, sizes, inside) * weight:unsqueeze(2)
        y = y and y + term or term
      end
    end
    y = y:unflatten(3, outs)
    return half and y:to(half) or y
  end

  --- The grid of an affine map of the places of an image: for each place of the result, theta times its coordinates
  --- {x, y, 1} or {x, y, z, 1}.
  --- Options: align_corners = false, as of grid_sample.
  --- Raises where theta or size is not of an image.
  ---@param theta tycho.Tensor floats [batch, 2, 3] or [batch, 3, 4]
  ---@param size integer[] {batch, channels, height, width} or {batch, channels, depth, height, width}
  ---@param opts? {align_corners: boolean?}
  ---@return tycho.Tensor # [batch, height, width, 2] or [batch, depth, height, width, 3]
  local function affine_grid(theta, size, opts)
    local who = "affine_grid"
    check.float(who, 1, theta)
    opts = check.options(who, opts, { align_corners = "boolean" })
    local n = type(size) == "table" and #size - 2 or 0
    if n ~= 2 and n ~= 3 then fail(who, "argument 2 must be a list of 4 or 5 sizes, got %s", check.show(size)) end
    if theta.ndim ~= 3 or theta:size(1) ~= size[1] or theta:size(2) ~= n or theta:size(3) ~= n + 1 then
      fail(who, "argument 1 must be [%s, %d, %d], got %s", tostring(size[1]), n, n + 1, check.text(theta))
    end
    local outs = sizes_of(who, "argument 2, the size,", { unpack(size, 3) }, n, nil, 1)
    local there, parts = { dtype = theta.dtype, device = theta.device }, {}
    for i = n, 1, -1 do
      local count = outs[i]
      local line = count > 1 and ty.arange(count, there) * (2 / (count - 1)) - 1 or ty.zeros({ 1 }, there)
      if not opts.align_corners then line = line * ((count - 1) / count) end
      local shape = {}
      for d = 1, n do shape[d] = d == i and count or 1 end
      parts[#parts + 1] = line:reshape(shape):expand(outs):reshape(-1)
    end
    parts[n + 1] = ty.ones_like(parts[1])
    local grid = ty.stack(parts, 2):matmul(theta:transpose(2, 3)) -- [batch, places, n]
    return grid:unflatten(2, outs)
  end

  row { "grid_sample", "x, grid, {mode = \"bilinear\", padding_mode = \"zeros\", align_corners = false}", grid_sample,
    "the values of an image at the coordinates of a grid", shape = "[batch, channels, rows, columns]",
    formula = "Jaderberg and others 2015, arXiv:1506.02025" }
  row { "affine_grid", "theta, size, {align_corners = false}", affine_grid,
    "the grid of an affine map of the places of an image", shape = "[batch, height, width, 2]",
    formula = "theta times {x, y, 1} of each place" }
end
