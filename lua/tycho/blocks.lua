--- blocks.lua -- the windows of an image as columns, and columns as windows that are added up: each is the other's
-- transpose.
-- In: [batch, channels, h, w], or columns [batch, channels rows columns, blocks]; both without the batch, too.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local correlation = ty.internals.correlation
  local pad, windows, spread = correlation.pad, correlation.windows, correlation.spread
  local sizes_of = require("tycho.window_arguments")(check).sizes_of
  local known = { dilation = "any", padding = "any", stride = "any" }

  --- The window and how it moves, checked.
  local function windows_of(who, kernel, opts)
    opts = check.options(who, opts, known)
    return {
      kernel = sizes_of(who, "the window", kernel, 2, nil, 1),
      dilation = sizes_of(who, "option dilation", opts.dilation, 2, 1, 1),
      padding = sizes_of(who, "option padding", opts.padding, 2, 0, 0),
      stride = sizes_of(who, "option stride", opts.stride, 2, 1, 1),
    }
  end

  --- How many blocks lie in each dim of an image of these sizes.
  local function blocks_of(who, w, sizes)
    local list = {}
    for d = 1, 2 do
      local reach, places = w.dilation[d] * (w.kernel[d] - 1) + 1, sizes[d] + 2 * w.padding[d]
      list[d] = math.floor((places - reach) / w.stride[d]) + 1
      if list[d] < 1 then
        check.fail(who, "a window that reaches %d places does not fit into %d (dim %d, padded)", reach, places, d)
      end
    end
    return list
  end

  --- The windows of x as columns. w: what windows_of gives.
  local function columns_of(who, x, w)
    check.tensor(who, 1, x)
    local single = x.ndim == 3
    if not single and x.ndim ~= 4 then
      check.fail(who, "the input must have 4 dims, or 3 without a batch, got %s", check.text(x))
    end
    local input = single and x:unsqueeze(1) or x
    blocks_of(who, w, { x:size(-2), x:size(-1) })
    input = pad(input, 2, w.padding, w.padding, 0)
    local view = windows(input, 2, w.kernel, w.stride, w.dilation) -- [b, c, h, w, kh, kw]
    local y = view:permute(1, 2, 5, 6, 3, 4):flatten(5, 6):flatten(2, 4)
    return single and y:squeeze(1) or y
  end

  --- Columns as windows of an image of that size.
  local function image_of(who, x, size, w)
    check.tensor(who, 1, x)
    local single, kernel = x.ndim == 2, w.kernel
    local blocks, places = blocks_of(who, w, size), kernel[1] * kernel[2]
    if not single and x.ndim ~= 3 or x:size(-2) % places ~= 0 or x:size(-1) ~= blocks[1] * blocks[2] then
      check.fail(who, "the input must be [batch, channels %d, %d], got %s", places, blocks[1] * blocks[2],
        check.text(x))
    end
    local columns = single and x:unsqueeze(1) or x
    local channels = columns:size(2) / places
    columns = columns:unflatten(3, blocks):unflatten(2, { channels, kernel[1], kernel[2] })
    local high, wide = size[1] + 2 * w.padding[1], size[2] + 2 * w.padding[2]
    local y = ty.zeros({ columns:size(1), channels, high, wide }, { dtype = x.dtype, device = x.device })
    for i = 1, kernel[1] do
      for j = 1, kernel[2] do
        local part = columns[{ {}, {}, i, j }]
        local at = { (i - 1) * w.dilation[1], (j - 1) * w.dilation[2] }
        part = spread(part, 2, w.stride)
        local rows, cols = part:size(3), part:size(4)
        y = y + pad(part, 2, at, { high - rows - at[1], wide - cols - at[2] }, 0)
      end
    end
    y = pad(y, 2, { -w.padding[1], -w.padding[2] }, { -w.padding[1], -w.padding[2] }, 0)
    return single and y:squeeze(1) or y
  end

  ty.internals.blocks = { windows_of = windows_of, columns_of = columns_of, image_of = image_of }

  --- Columns as windows of an image, which are added up where they overlap: the transpose of nn.Unfold.
  --- Raises where x has not so many columns, or an option is out of range.
  ---@param x tycho.Tensor [batch, channels rows columns, blocks], or without the batch
  ---@param size integer|integer[] height and width of the image
  ---@param kernel integer|integer[] rows and columns
  ---@param opts? {dilation: integer|integer[]|nil, padding: integer|integer[]|nil, stride: integer|integer[]|nil}
  ---@return tycho.Tensor # [batch, channels, height, width]
  local function fold(x, size, kernel, opts)
    check.tensor("fold", 1, x)
    local w = windows_of("fold", kernel, opts)
    return image_of("fold", x, sizes_of("fold", "argument 2 (size)", size, 2, nil, 1), w)
  end

  row { "fold", "x, size, kernel, {dilation = 1, padding = 0, stride = 1}", fold,
    "columns as windows of an image, added up", shape = "[batch, channels, height, width]" }
end
