--- nn/windows.lua -- layers over windows: convolutions, pooling, upsampling. The functions are in convolution.lua,
-- pooling.lua and resample.lua of the folder above.
-- Weights and biases begin as PyTorch's: uniform within 1 / sqrt(inputs of one output).

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count, uniform = nn._check, nn.class, nn._count, nn._uniform
  local sqrt, cast = math.sqrt, nn._cast

  --- A size for n dims as a list: of a number, or of such a list.
  local function sizes(who, i, what, v, n)
    local list = {}
    for d = 1, n do list[d] = count(who, i, type(v) == "table" and v[d] or v, what) end
    return list
  end

  --- A setting as text: 3, or {3, 1}.
  local function shown(v)
    if type(v) ~= "table" then return tostring(v) end
    return "{" .. table.concat(v, ", ") .. "}"
  end

  ---------------------------------------------------------------------------------------------------------- convolution

  local conv_options = {
    stride = "any", padding = "any", dilation = "any", groups = "number", bias = "boolean", output_padding = "any",
    padding_mode = "string",
  }

  local function describe_conv(self)
    local text = ("%d, %d, %s"):format(self.inputs, self.outputs, shown(self.kernel))
    for _, name in ipairs { "stride", "padding", "output_padding", "dilation", "groups", "padding_mode" } do
      local v = self.options[name]
      if name == "padding_mode" then v = self.padding_mode end
      if v ~= nil then text = ("%s, %s = %s"):format(text, name, shown(v)) end
    end
    return text .. (self.bias and "" or ", bias = false")
  end

  --- A class of convolutions over n dims; fn: its function.
  local function convolution(name, n, fn, transposed)
    local c = class(name)
    nn[name], c.describe = c, describe_conv

    function c:init(inputs, outputs, kernel, opts)
      count(name, 1, inputs, "inputs")
      count(name, 2, outputs, "outputs")
      kernel = sizes(name, 3, "kernel", kernel, n)
      opts = check.options(name, opts, conv_options)
      local groups = count(name, 4, opts.groups or 1, "groups")
      if inputs % groups ~= 0 or outputs % groups ~= 0 then
        check.fail(name, "%d inputs and %d outputs do not divide into %d groups", inputs, outputs, groups)
      end
      if opts.output_padding ~= nil and not transposed then check.fail(name, "unknown option output_padding") end
      local mode = opts.padding_mode
      if mode == "zeros" then mode = nil end
      if mode ~= nil and (transposed or not nn._padding_modes[mode]) then
        check.fail(name, "option padding_mode must be \"zeros\"%s, got %q",
          transposed and "" or ", \"reflect\", \"replicate\" or \"circular\"", mode)
      end
      self.padding_mode = mode
      self.inputs, self.outputs, self.kernel = inputs, outputs, kernel
      self.options = {
        stride = opts.stride, padding = opts.padding, dilation = opts.dilation, groups = opts.groups,
        output_padding = opts.output_padding,
      }
      local shape = transposed and { inputs, outputs / groups } or { outputs, inputs / groups }
      local fan = shape[2]
      for d = 1, n do
        shape[2 + d] = kernel[d]
        fan = fan * kernel[d]
      end
      self.weight = uniform(shape, 1 / sqrt(fan))
      if opts.bias ~= false then self.bias = uniform({ outputs }, 1 / sqrt(fan)) end
    end

    function c:forward(x)
      local a, w, b = cast(x, self.weight, self.bias)
      if self.padding_mode then
        local o = self.options
        a = nn._pad_for(name, a, n, self.kernel, o, self.padding_mode)
        return fn(a, w, b, { stride = o.stride, dilation = o.dilation, groups = o.groups })
      end
      return fn(a, w, b, self.options)
    end
  end

  --- nn.Conv1d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true,
  --- padding_mode = "zeros"}): see ty.conv1d. padding_mode: also "reflect", "replicate" or "circular".
  ---@param inputs integer channels of the input
  ---@param outputs integer channels of the result
  ---@param kernel integer
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer?,
  ---  groups: integer?, bias: boolean?, padding_mode: string?} as of ty.conv1d
  ---@return tycho.Module # [batch, inputs, n] to [batch, outputs, m]
  convolution("Conv1d", 1, ty.conv1d)
  --- nn.Conv2d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true,
  --- padding_mode = "zeros"}): sizes are a number or {rows, columns}; see ty.conv2d. padding_mode: also "reflect",
  --- "replicate" or "circular".
  ---@param inputs integer channels of the input
  ---@param outputs integer channels of the result
  ---@param kernel integer|integer[] rows and columns
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil,
  ---  dilation: integer|integer[]|nil, groups: integer?, bias: boolean?, padding_mode: string?} as of ty.conv2d
  ---@return tycho.Module # [batch, inputs, h, w] to [batch, outputs, h2, w2]
  convolution("Conv2d", 2, ty.conv2d)
  --- nn.Conv3d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true,
  --- padding_mode = "zeros"}): sizes are a number or {planes, rows, columns}; see ty.conv3d. padding_mode: also
  --- "reflect", "replicate" or "circular".
  ---@param inputs integer channels of the input
  ---@param outputs integer channels of the result
  ---@param kernel integer|integer[] planes, rows and columns
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil,
  ---  dilation: integer|integer[]|nil, groups: integer?, bias: boolean?, padding_mode: string?} as of ty.conv3d
  ---@return tycho.Module # [batch, inputs, d, h, w] to [batch, outputs, d2, h2, w2]
  convolution("Conv3d", 3, ty.conv3d)
  --- nn.ConvTranspose1d(inputs, outputs, kernel, {stride = 1, padding = 0, output_padding = 0, dilation = 1,
  --- groups = 1, bias = true}): see ty.conv_transpose1d.
  ---@param inputs integer channels of the input
  ---@param outputs integer channels of the result
  ---@param kernel integer
  ---@param opts? {stride: integer?, padding: integer?, output_padding: integer?, dilation: integer?,
  ---  groups: integer?, bias: boolean?} as of ty.conv_transpose1d
  ---@return tycho.Module # [batch, inputs, n] to [batch, outputs, m]
  convolution("ConvTranspose1d", 1, ty.conv_transpose1d, true)
  --- nn.ConvTranspose2d(inputs, outputs, kernel, {stride = 1, padding = 0, output_padding = 0, dilation = 1,
  --- groups = 1, bias = true}): sizes are a number or {rows, columns}; see ty.conv_transpose2d.
  ---@param inputs integer channels of the input
  ---@param outputs integer channels of the result
  ---@param kernel integer|integer[] rows and columns
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil,
  ---  output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?,
  ---  bias: boolean?} as of ty.conv_transpose2d
  ---@return tycho.Module # [batch, inputs, h, w] to [batch, outputs, h2, w2]
  convolution("ConvTranspose2d", 2, ty.conv_transpose2d, true)
  --- nn.ConvTranspose3d(inputs, outputs, kernel, {stride = 1, padding = 0, output_padding = 0, dilation = 1,
  --- groups = 1, bias = true}): sizes are a number or {planes, rows, columns}; see ty.conv_transpose3d.
  ---@param inputs integer channels of the input
  ---@param outputs integer channels of the result
  ---@param kernel integer|integer[] planes, rows and columns
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil,
  ---  output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?,
  ---  bias: boolean?} as of ty.conv_transpose3d
  ---@return tycho.Module # [batch, inputs, d, h, w] to [batch, outputs, d2, h2, w2]
  convolution("ConvTranspose3d", 3, ty.conv_transpose3d, true)

  ---------------------------------------------------------------------------------------------------------- pooling

  local pool_options = {
    stride = "any", padding = "any", dilation = "any", ceil_mode = "boolean", count_include_pad = "boolean",
    divisor_override = "number", return_indices = "boolean",
  }

  --- A class of windows over n dims; its options are those of the function.
  local function pooling(name, n, fn)
    local c = class(name)
    nn[name] = c
    function c:init(kernel, opts)
      self.kernel = sizes(name, 1, "kernel", kernel, n)
      self.options = opts and check.options(name, opts, pool_options) or {}
    end
    function c:forward(x) return fn(x, self.kernel, self.options) end
    function c:describe() return shown(self.kernel) end
  end

  --- nn.MaxPool1d(kernel, {stride = kernel, padding = 0, dilation = 1, ceil_mode = false,
  --- return_indices = false}): see ty.max_pool1d.
  pooling("MaxPool1d", 1, ty.max_pool1d)
  --- nn.MaxPool2d(kernel, {stride = kernel, padding = 0, dilation = 1, ceil_mode = false,
  --- return_indices = false}): see ty.max_pool2d.
  pooling("MaxPool2d", 2, ty.max_pool2d)
  --- nn.MaxPool3d(kernel, {stride = kernel, padding = 0, dilation = 1, ceil_mode = false, return_indices = false}):
  --- see ty.max_pool3d.
  pooling("MaxPool3d", 3, ty.max_pool3d)
  --- nn.AvgPool1d(kernel, {stride = kernel, padding = 0, ceil_mode = false, count_include_pad = true}): see
  --- ty.avg_pool1d.
  ---@param kernel integer places of the window
  ---@param opts? {stride: integer?, padding: integer?, ceil_mode: boolean?, count_include_pad: boolean?} as of
  ---  ty.avg_pool1d
  pooling("AvgPool1d", 1, ty.avg_pool1d)
  --- nn.AvgPool2d(kernel, {stride = kernel, padding = 0, ceil_mode = false, count_include_pad = true}): see
  --- ty.avg_pool2d.
  ---@param kernel integer|integer[] places of the window, or {rows, columns}
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, ceil_mode: boolean?,
  ---  count_include_pad: boolean?} as of ty.avg_pool2d
  pooling("AvgPool2d", 2, ty.avg_pool2d)
  --- nn.AvgPool3d(kernel, {stride = kernel, padding = 0, ceil_mode = false, count_include_pad = true}): see
  --- ty.avg_pool3d.
  ---@param kernel integer|integer[] places of the window, or {planes, rows, columns}
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, ceil_mode: boolean?,
  ---  count_include_pad: boolean?} as of ty.avg_pool3d
  pooling("AvgPool3d", 3, ty.avg_pool3d)

  --- A class of windows whose places are given: forward(x, places, output_size).
  local function unpooling(name, n, fn)
    local c = class(name)
    nn[name] = c
    function c:init(kernel, opts)
      self.kernel = sizes(name, 1, "kernel", kernel, n)
      self.options = check.options(name, opts, { stride = "any", padding = "any" })
    end
    function c:forward(x, places, output_size)
      local o = self.options
      return fn(x, places, self.kernel, { stride = o.stride, padding = o.padding, output_size = output_size })
    end
    function c:describe() return shown(self.kernel) end
  end

  --- nn.MaxUnpool1d(kernel, {stride = kernel, padding = 0}): m(x, places, output_size), see ty.max_unpool1d.
  ---@param kernel integer
  ---@param opts? {stride: integer?, padding: integer?} as of ty.max_pool1d
  unpooling("MaxUnpool1d", 1, ty.max_unpool1d)
  --- nn.MaxUnpool2d(kernel, {stride = kernel, padding = 0}): m(x, places, output_size), see ty.max_unpool2d.
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil} as of ty.max_pool2d
  unpooling("MaxUnpool2d", 2, ty.max_unpool2d)
  --- nn.MaxUnpool3d(kernel, {stride = kernel, padding = 0}): m(x, places, output_size), see ty.max_unpool3d.
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil} as of ty.max_pool3d
  unpooling("MaxUnpool3d", 3, ty.max_unpool3d)

  --- A class of power means over windows.
  local function power_pooling(name, n, fn)
    local c = class(name)
    nn[name] = c
    function c:init(p, kernel, opts)
      self.p, self.kernel = check.number(name, 1, p, "p"), sizes(name, 2, "kernel", kernel, n)
      self.options = check.options(name, opts, { stride = "any", ceil_mode = "boolean" })
    end
    function c:forward(x) return fn(x, self.p, self.kernel, self.options) end
    function c:describe() return ("%g, %s"):format(self.p, shown(self.kernel)) end
  end

  --- nn.LPPool1d(p, kernel, {stride = kernel, ceil_mode = false}): see ty.lp_pool1d.
  ---@param p number
  ---@param kernel integer
  ---@param opts? {stride: integer?, ceil_mode: boolean?}
  power_pooling("LPPool1d", 1, ty.lp_pool1d)
  --- nn.LPPool2d(p, kernel, {stride = kernel, ceil_mode = false}): see ty.lp_pool2d.
  ---@param p number
  ---@param kernel integer|integer[]
  ---@param opts? {stride: integer|integer[]|nil, ceil_mode: boolean?}
  power_pooling("LPPool2d", 2, ty.lp_pool2d)

  --- A class of as many windows as asked for.
  local function adaptive(name, n, fn)
    local c = class(name)
    nn[name] = c
    function c:init(size) self.size = sizes(name, 1, "size", size, n) end
    function c:forward(x) return fn(x, self.size) end
    function c:describe() return shown(self.size) end
  end

  --- nn.AdaptiveAvgPool1d(size): as many windows as asked for, see ty.adaptive_avg_pool1d.
  adaptive("AdaptiveAvgPool1d", 1, ty.adaptive_avg_pool1d)
  --- nn.AdaptiveAvgPool2d(size): as many windows as asked for, see ty.adaptive_avg_pool2d.
  adaptive("AdaptiveAvgPool2d", 2, ty.adaptive_avg_pool2d)
  --- nn.AdaptiveAvgPool3d(size): as many windows as asked for, see ty.adaptive_avg_pool3d.
  adaptive("AdaptiveAvgPool3d", 3, ty.adaptive_avg_pool3d)
  --- nn.AdaptiveMaxPool3d(size): as many windows as asked for, see ty.adaptive_max_pool3d.
  adaptive("AdaptiveMaxPool3d", 3, ty.adaptive_max_pool3d)
  --- nn.AdaptiveMaxPool1d(size): as many windows as asked for, see ty.adaptive_max_pool1d.
  adaptive("AdaptiveMaxPool1d", 1, ty.adaptive_max_pool1d)
  --- nn.AdaptiveMaxPool2d(size): as many windows as asked for, see ty.adaptive_max_pool2d.
  adaptive("AdaptiveMaxPool2d", 2, ty.adaptive_max_pool2d)

  ---@class tycho.nn.Upsample: tycho.Module
  local Upsample = class "Upsample"
  nn.Upsample = Upsample

  --- nn.Upsample{size, scale (or scale_factor), mode = "nearest", align_corners = false, recompute_scale_factor
  --- = false}: see ty.interpolate.
  function Upsample:init(opts)
    opts = check.options("Upsample", opts, { size = "any", scale = "any", scale_factor = "any", mode = "string",
      align_corners = "boolean", recompute_scale_factor = "boolean" })
    self.options = { size = opts.size, mode = opts.mode, align_corners = opts.align_corners,
      recompute_scale_factor = opts.recompute_scale_factor }
    self.options.scale = opts.scale == nil and opts.scale_factor or opts.scale
  end

  function Upsample:forward(x) return ty.interpolate(x, self.options) end

  function Upsample:describe()
    local what = self.options.size and "size" or "scale"
    return ("%s = %s, mode = %s"):format(what, shown(self.options[what]), self.options.mode or "nearest")
  end
end
