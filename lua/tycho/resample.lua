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
