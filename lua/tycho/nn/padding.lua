--- nn/padding.lua -- padding layers: constant, reflected, replicated, circular; of one, two or three dims of places.
-- In: [batch, channels, places...] or without the batch. Out: the same with more places. Sizes are one number for all
-- sides, or a list as PyTorch's: {left, right, top, bottom, front, back}, the last dim first; negative ones cut. All
-- are views joined: nothing is looked up by indices.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class = nn._check, nn.class
  local max, floor, cat = math.max, math.floor, ty.cat

  --- Dim d with `before` and `after` more places; before and after are at most the dim's size.
  local modes = {}

  function modes.reflect(x, d, before, after)
    local n, parts = x:size(d), {}
    if before > 0 then parts[1] = x:narrow(d, 2, before):flip(d) end
    parts[#parts + 1] = x
    if after > 0 then parts[#parts + 1] = x:narrow(d, n - after, after):flip(d) end
    return cat(parts, d)
  end

  function modes.circular(x, d, before, after)
    local n, parts = x:size(d), {}
    if before > 0 then parts[1] = x:narrow(d, n - before + 1, before) end
    parts[#parts + 1] = x
    if after > 0 then parts[#parts + 1] = x:narrow(d, 1, after) end
    return cat(parts, d)
  end

  function modes.replicate(x, d, before, after)
    local n, parts, sizes = x:size(d), {}, x.shape
    local function copies(at, count)
      sizes[d] = count
      return x:narrow(d, at, 1):expand(sizes)
    end
    if before > 0 then parts[1] = copies(1, before) end
    parts[#parts + 1] = x
    if after > 0 then parts[#parts + 1] = copies(n, after) end
    return cat(parts, d)
  end

  nn._padding_modes = modes
  local most = { reflect = -1, circular = 0, replicate = math.huge } -- beside the dim's size

  --- Pads the last #amounts dims, {before, after} each.
  local function pad(who, x, mode, amounts)
    local n = #amounts
    for i, a in ipairs(amounts) do
      local d = x.ndim - n + i
      local size = x:size(d)
      local first, last = max(0, -a[1]), max(0, -a[2])
      if first + last > 0 then
        if first + last >= size then
          check.fail(who, "padding %d, %d leaves nothing of %s (dim %d)", a[1], a[2], check.text(x), d)
        end
        x, size = x:narrow(d, 1 + first, size - first - last), size - first - last
      end
      local before, after = max(0, a[1]), max(0, a[2])
      if before > 0 or after > 0 then
        if size < 1 or max(before, after) > size + most[mode] then
          check.fail(who, "padding %d, %d is more than %s has places (dim %d)", a[1], a[2], check.text(x), d)
        end
        x = modes[mode](x, d, before, after)
      end
    end
    return x
  end

  --- The places that a convolution of these options pads.
  function nn._pad_for(who, x, n, kernel, o, mode)
    check.tensor(who, 1, x)
    if x.ndim ~= n + 1 and x.ndim ~= n + 2 then
      check.fail(who, "the input must have %d dims, or %d without a batch, got %s", n + 2, n + 1, check.text(x))
    end
    local amounts = {}
    for i = 1, n do
      local p = o.padding or 0
      if p == "valid" then p = 0 end
      if type(p) == "table" then p = p[i] end
      local before, after = p, p
      if p == "same" then
        local dilation = type(o.dilation) == "table" and o.dilation[i] or o.dilation or 1
        local total = dilation * (kernel[i] - 1)
        before = floor(total / 2)
        after = total - before
      end
      if type(before) ~= "number" or before < 0 or before % 1 ~= 0 then
        check.fail(who, "option padding must be whole and at least 0, got %s", check.show(before))
      end
      amounts[i] = { before, after }
    end
    return pad(who, x, mode, amounts)
  end

  --- Sizes as amounts of the last n dims, in their order.
  local function amounts_of(who, n, v)
    local list = {}
    if type(v) == "table" and #v ~= 2 * n then
      check.fail(who, "argument 1 (padding) must be a number or a list of %d, got a list of %d", 2 * n, #v)
    end
    for i = 1, n do
      list[i] = {}
      for side = 1, 2 do
        local p = type(v) == "table" and v[2 * (n - i) + side] or v
        if type(p) ~= "number" or p % 1 ~= 0 or math.abs(p) > 2 ^ 31 then
          check.fail(who, "argument 1 (padding) must be whole, got %s", check.show(p))
        end
        list[i][side] = p
      end
    end
    return list
  end

  local function describe(self)
    local parts = {}
    for i = #self.amounts, 1, -1 do
      parts[#parts + 1], parts[#parts + 2] = tostring(self.amounts[i][1]), tostring(self.amounts[i][2])
    end
    return table.concat(parts, ", ") .. (self.value and self.value ~= 0 and (", value = %g"):format(self.value) or "")
  end

  --- A class of padding of n dims of places.
  local function padding(name, n, mode)
    local c = class(name)
    nn[name], c.describe = c, describe
    function c:init(amounts, value)
      self.amounts = amounts_of(name, n, amounts)
      if mode == "constant" then self.value = check.number(name, 2, value, "value") end
      if mode == "zeros" then self.value = 0 end
    end
    function c:forward(x)
      check.tensor(name, 1, x)
      if x.ndim ~= n + 1 and x.ndim ~= n + 2 then
        check.fail(name, "the input must have %d dims, or %d without a batch, got %s", n + 2, n + 1, check.text(x))
      end
      if modes[mode] then return pad(name, x, mode, self.amounts) end
      local before, after = {}, {}
      for i = 1, n do
        before[i], after[i] = self.amounts[i][1], self.amounts[i][2]
        if before[i] + after[i] + x:size(-n - 1 + i) < 1 then
          check.fail(name, "padding %d, %d leaves nothing of %s", before[i], after[i], check.text(x))
        end
      end
      return ty.internals.correlation.pad(x, n, before, after, self.value)
    end
  end

  --- nn.ZeroPad1d(padding): zeros around the places.
  --- Raises where the padding is no number and no list of 2, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right}
  ---@return tycho.Module # [batch, channels, length], more of it
  padding("ZeroPad1d", 1, "zeros")
  --- nn.ZeroPad2d(padding): zeros around the places.
  --- Raises where the padding is no number and no list of 4, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom}
  ---@return tycho.Module # [batch, channels, height, width], more of them
  padding("ZeroPad2d", 2, "zeros")
  --- nn.ZeroPad3d(padding): zeros around the places.
  --- Raises where the padding is no number and no list of 6, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom, front, back}
  ---@return tycho.Module # [batch, channels, depth, height, width], more of them
  padding("ZeroPad3d", 3, "zeros")
  --- nn.ConstantPad1d(padding, value): one value around the places.
  --- Raises where the padding is no number and no list of 2, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right}
  ---@param value number
  ---@return tycho.Module # [batch, channels, length], more of it
  padding("ConstantPad1d", 1, "constant")
  --- nn.ConstantPad2d(padding, value): one value around the places.
  --- Raises where the padding is no number and no list of 4, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom}
  ---@param value number
  ---@return tycho.Module # [batch, channels, height, width], more of them
  padding("ConstantPad2d", 2, "constant")
  --- nn.ConstantPad3d(padding, value): one value around the places.
  --- Raises where the padding is no number and no list of 6, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom, front, back}
  ---@param value number
  ---@return tycho.Module # [batch, channels, depth, height, width], more of them
  padding("ConstantPad3d", 3, "constant")
  --- nn.ReflectionPad1d(padding): the places turned around at the ends, which are not repeated.
  --- Raises where the padding is no number and no list of 2 of less than there are places, or the input has other
  --- dims.
  ---@param padding integer|integer[] for all sides, or {left, right}
  ---@return tycho.Module # [batch, channels, length], more of it
  padding("ReflectionPad1d", 1, "reflect")
  --- nn.ReflectionPad2d(padding): the places turned around at the ends, which are not repeated.
  --- Raises where the padding is no number and no list of 4 of less than there are places, or the input has other
  --- dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom}
  ---@return tycho.Module # [batch, channels, height, width], more of them
  padding("ReflectionPad2d", 2, "reflect")
  --- nn.ReflectionPad3d(padding): the places turned around at the ends, which are not repeated.
  --- Raises where the padding is no number and no list of 6 of less than there are places, or the input has other
  --- dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom, front, back}
  ---@return tycho.Module # [batch, channels, depth, height, width], more of them
  padding("ReflectionPad3d", 3, "reflect")
  --- nn.ReplicationPad1d(padding): the places at the ends repeated.
  --- Raises where the padding is no number and no list of 2, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right}
  ---@return tycho.Module # [batch, channels, length], more of it
  padding("ReplicationPad1d", 1, "replicate")
  --- nn.ReplicationPad2d(padding): the places at the ends repeated.
  --- Raises where the padding is no number and no list of 4, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom}
  ---@return tycho.Module # [batch, channels, height, width], more of them
  padding("ReplicationPad2d", 2, "replicate")
  --- nn.ReplicationPad3d(padding): the places at the ends repeated.
  --- Raises where the padding is no number and no list of 6, or the input has other dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom, front, back}
  ---@return tycho.Module # [batch, channels, depth, height, width], more of them
  padding("ReplicationPad3d", 3, "replicate")
  --- nn.CircularPad1d(padding): the places of the other end.
  --- Raises where the padding is no number and no list of 2 of no more than there are places, or the input has other
  --- dims.
  ---@param padding integer|integer[] for all sides, or {left, right}
  ---@return tycho.Module # [batch, channels, length], more of it
  padding("CircularPad1d", 1, "circular")
  --- nn.CircularPad2d(padding): the places of the other end.
  --- Raises where the padding is no number and no list of 4 of no more than there are places, or the input has other
  --- dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom}
  ---@return tycho.Module # [batch, channels, height, width], more of them
  padding("CircularPad2d", 2, "circular")
  --- nn.CircularPad3d(padding): the places of the other end.
  --- Raises where the padding is no number and no list of 6 of no more than there are places, or the input has other
  --- dims.
  ---@param padding integer|integer[] for all sides, or {left, right, top, bottom, front, back}
  ---@return tycho.Module # [batch, channels, depth, height, width], more of them
  padding("CircularPad3d", 3, "circular")
end
