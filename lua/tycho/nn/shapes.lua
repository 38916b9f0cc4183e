--- nn/shapes.lua -- layers that move elements and compute nothing.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count = nn._check, nn.class, nn._count

  ---@class tycho.nn.Flatten: tycho.Module
  local Flatten = class "Flatten"
  nn.Flatten = Flatten

  --- nn.Flatten(first = 2, last = -1): those dims as one.
  --- Raises where a dim of the input is out of range.
  ---@param first? integer 2: the batch stays
  ---@param last? integer the last
  ---@return tycho.Module # [batch, ...] to [batch, the product of the rest]
  function Flatten:init(first, last)
    self.first, self.last = check.whole("Flatten", 1, first, "first", 2), check.whole("Flatten", 2, last, "last", -1)
  end

  function Flatten:forward(x) return x:flatten(self.first, self.last) end

  function Flatten:describe() return ("%d, %d"):format(self.first, self.last) end

  ---@class tycho.nn.Unflatten: tycho.Module
  local Unflatten = class "Unflatten"
  nn.Unflatten = Unflatten

  --- nn.Unflatten(dim, sizes): a dim as several of these sizes, one of which may be -1.
  --- Raises where the dim is no number or sizes no list; where they do not fit the input.
  ---@param dim integer
  ---@param sizes integer[]
  ---@return tycho.Module # [..., the product, ...] to [..., sizes..., ...]
  function Unflatten:init(dim, sizes)
    self.dim = check.whole("Unflatten", 1, dim, "dim")
    if type(sizes) ~= "table" or #sizes == 0 then
      check.fail("Unflatten", "argument 2 (sizes) must be a list, got %s", check.show(sizes))
    end
    self.sizes = sizes
  end

  function Unflatten:forward(x) return x:unflatten(self.dim, self.sizes) end

  function Unflatten:describe() return ("%d, {%s}"):format(self.dim, table.concat(self.sizes, ", ")) end

  --- Checks for [..., channels, height, width].
  local function image(who, x)
    check.tensor(who, 1, x)
    if x.ndim < 3 then check.fail(who, "the input must be [..., channels, height, width], got %s", check.text(x)) end
  end

  ---@class tycho.nn.PixelShuffle: tycho.Module
  local PixelShuffle = class "PixelShuffle"
  nn.PixelShuffle = PixelShuffle

  --- nn.PixelShuffle(factor): channels become places, factor times as many in each of two dims. Shi and others 2016,
  --- arXiv:1609.05158.
  --- Raises where channels do not divide by the square of the factor.
  ---@param factor integer
  ---@return tycho.Module # [..., channels factor^2, h, w] to [..., channels, h factor, w factor]
  function PixelShuffle:init(factor) self.factor = count("PixelShuffle", 1, factor, "factor") end

  function PixelShuffle:forward(x)
    image("PixelShuffle", x)
    local r, c = self.factor, x:size(-3)
    if c % (r * r) ~= 0 then
      check.fail("PixelShuffle", "%d channels do not divide by %d, the square of the factor", c, r * r)
    end
    local lead = x.ndim - 3
    local order, y = {}, x:unflatten(-3, { c / (r * r), r, r }) -- [..., c, r, r, h, w]
    for d = 1, lead do order[d] = d end
    for i, d in ipairs { 1, 4, 2, 5, 3 } do order[lead + i] = lead + d end
    return y:permute(order):flatten(lead + 4, lead + 5):flatten(lead + 2, lead + 3)
  end

  function PixelShuffle:describe() return tostring(self.factor) end

  ---@class tycho.nn.PixelUnshuffle: tycho.Module
  local PixelUnshuffle = class "PixelUnshuffle"
  nn.PixelUnshuffle = PixelUnshuffle

  --- nn.PixelUnshuffle(factor): the inverse of nn.PixelShuffle: places become channels.
  --- Raises where height or width does not divide by the factor.
  ---@param factor integer
  ---@return tycho.Module # [..., channels, h factor, w factor] to [..., channels factor^2, h, w]
  function PixelUnshuffle:init(factor) self.factor = count("PixelUnshuffle", 1, factor, "factor") end

  function PixelUnshuffle:forward(x)
    image("PixelUnshuffle", x)
    local r, h, w = self.factor, x:size(-2), x:size(-1)
    if h % r ~= 0 or w % r ~= 0 then
      check.fail("PixelUnshuffle", "%s does not divide into squares of %d places", check.text(x), r)
    end
    local lead, order = x.ndim - 3, {}
    local y = x:unflatten(-1, { w / r, r }):unflatten(-3, { h / r, r }) -- [..., c, h, r, w, r]
    for d = 1, lead do order[d] = d end
    for i, d in ipairs { 1, 3, 5, 2, 4 } do order[lead + i] = lead + d end
    return y:permute(order):flatten(lead + 1, lead + 3)
  end

  function PixelUnshuffle:describe() return tostring(self.factor) end

  ---@class tycho.nn.ChannelShuffle: tycho.Module
  local ChannelShuffle = class "ChannelShuffle"
  nn.ChannelShuffle = ChannelShuffle

  --- nn.ChannelShuffle(groups): the first channels of all groups, then the second ones, and so on. Zhang and others
  --- 2017, arXiv:1707.01083.
  --- Raises where channels do not divide into the groups.
  ---@param groups integer
  ---@return tycho.Module # [batch, channels, ...] to the same
  function ChannelShuffle:init(groups) self.groups = count("ChannelShuffle", 1, groups, "groups") end

  function ChannelShuffle:forward(x)
    check.tensor("ChannelShuffle", 1, x)
    if x.ndim < 3 or x:size(2) % self.groups ~= 0 then
      check.fail("ChannelShuffle", "the input must be [batch, channels, ...] in %d groups, got %s", self.groups,
        check.text(x))
    end
    return x:unflatten(2, { self.groups, x:size(2) / self.groups }):transpose(2, 3):flatten(2, 3)
  end

  function ChannelShuffle:describe() return tostring(self.groups) end

  ------------------------------------------------------------------------------------------------------ sliding blocks

  local blocks = ty.internals.blocks

  ---@class tycho.nn.Unfold: tycho.Module
  local Unfold = class "Unfold"
  nn.Unfold = Unfold

  --- nn.Unfold(kernel, {dilation = 1, padding = 0, stride = 1}): the windows of an image as columns.
  --- Raises where the input has other dims, a window does not fit, or an option is out of range.
  ---@param kernel integer|integer[] rows and columns
  ---@param opts? {dilation: integer|integer[]|nil, padding: integer|integer[]|nil, stride: integer|integer[]|nil}
  ---@return tycho.Module # [batch, channels, h, w] to [batch, channels rows columns, blocks], or without the batch
  function Unfold:init(kernel, opts) self.windows = blocks.windows_of("Unfold", kernel, opts) end

  function Unfold:forward(x) return blocks.columns_of("Unfold", x, self.windows) end

  function Unfold:describe() return table.concat(self.windows.kernel, " x ") end

  ---@class tycho.nn.Fold: tycho.Module
  local Fold = class "Fold"
  nn.Fold = Fold

  --- nn.Fold(size, kernel, {dilation = 1, padding = 0, stride = 1}): columns as windows of an image, which are added
  --- up where they overlap: the transpose of nn.Unfold.
  --- Raises where the input has not so many columns, or an option is out of range.
  ---@param size integer|integer[] height and width of the image
  ---@param kernel integer|integer[] rows and columns
  ---@param opts? {dilation: integer|integer[]|nil, padding: integer|integer[]|nil, stride: integer|integer[]|nil}
  ---@return tycho.Module # [batch, channels rows columns, blocks] to [batch, channels, h, w], or without the batch
  function Fold:init(size, kernel, opts)
    self.windows = blocks.windows_of("Fold", kernel, opts)
    self.sizes = { size, size }
    if type(size) == "table" then self.sizes = { size[1], size[2] } end
    for d = 1, 2 do count("Fold", 1, self.sizes[d], "the size") end
  end

  function Fold:forward(x) return blocks.image_of("Fold", x, self.sizes, self.windows) end

  function Fold:describe()
    return table.concat(self.sizes, " x ") .. ", " .. table.concat(self.windows.kernel, " x ")
  end
end
