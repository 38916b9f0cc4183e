--- nn/dropout.lua -- layers that zero at random when training.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class = nn._check, nn.class

  --- A chance in 0..1.
  local function chance(who, p)
    p = check.number(who, 1, p, "p", 0.5)
    if p < 0 or p > 1 or p ~= p then check.fail(who, "argument 1 (p) must be in 0..1, got %.14g", p) end
    return p
  end

  ---@class tycho.nn.Dropout: tycho.Module
  local Dropout = class "Dropout"
  nn.Dropout = Dropout

  --- nn.Dropout(p = 0.5): zeroes elements by chance p when training.
  --- Raises where p lies outside of 0 to 1.
  ---@param p? number
  ---@return tycho.Module # the sizes of the input
  function Dropout:init(p)
    self.p = chance("Dropout", p)
  end

  function Dropout:forward(x)
    if not self.training or self.p == 0 then return x end
    return ty.dropout(x, self.p)
  end

  function Dropout:describe() return ("%g"):format(self.p) end

  --- A class that zeroes whole channels of n dims of places.
  local function channels(name, n)
    local c = class(name)
    nn[name] = c
    function c:init(p) self.p = chance(name, p) end
    function c:forward(x)
      check.float(name, 1, x)
      if x.ndim ~= n + 2 and x.ndim ~= n + 1 then
        check.fail(name, "the input must have %d dims, or %d without a batch, got %s", n + 2, n + 1, check.text(x))
      end
      if not self.training or self.p == 0 then return x end
      local sizes = x.shape
      for d = #sizes - n + 1, #sizes do sizes[d] = 1 end
      local kept = ty.rand(sizes, { dtype = "f32", device = x.device }):ge(self.p)
      return ty.where(kept, x * (1 / math.max(1 - self.p, 1e-30)), 0)
    end
    function c:describe() return ("%g"):format(self.p) end
  end

  --- nn.Dropout1d(p = 0.5): zeroes whole channels by chance p when training. Tompson and others 2014,
  --- arXiv:1411.4280.
  --- Raises where p lies outside of 0 to 1, or the input has other dims.
  ---@param p? number
  ---@return tycho.Module # [batch, channels, length] or without the batch, to the same
  channels("Dropout1d", 1)
  --- nn.Dropout2d(p = 0.5): zeroes whole channels by chance p when training. Tompson and others 2014,
  --- arXiv:1411.4280.
  --- Raises where p lies outside of 0 to 1, or the input has other dims.
  ---@param p? number
  ---@return tycho.Module # [batch, channels, height, width] or without the batch, to the same
  channels("Dropout2d", 2)
  --- nn.Dropout3d(p = 0.5): zeroes whole channels by chance p when training. Tompson and others 2014,
  --- arXiv:1411.4280.
  --- Raises where p lies outside of 0 to 1, or the input has other dims.
  ---@param p? number
  ---@return tycho.Module # [batch, channels, depth, height, width] or without the batch, to the same
  channels("Dropout3d", 3)

  ---@class tycho.nn.AlphaDropout: tycho.Module
  local AlphaDropout = class "AlphaDropout"
  nn.AlphaDropout = AlphaDropout

  --- nn.AlphaDropout(p = 0.5): sets elements to the lower limit of a selu by chance p when training, and scales so
  --- that mean and variance stay. Klambauer and others 2017, arXiv:1706.02515.
  --- Raises where p lies outside of 0 to 1, or the input is not floating.
  ---@param p? number
  ---@return tycho.Module # the sizes of the input
  function AlphaDropout:init(p) self.p = chance("AlphaDropout", p) end

  function AlphaDropout:forward(x)
    check.float("AlphaDropout", 1, x)
    local p, low = self.p, -1.7580993408473766
    if not self.training or p == 0 then return x end
    if p == 1 then return x * 0 end
    local a = ((1 - p) * (1 + p * low * low)) ^ -0.5
    local kept = ty.rand_like(x, { dtype = "f32" }):ge(p)
    return ty.where(kept, x, low) * a + -a * low * p
  end

  function AlphaDropout:describe() return ("%g"):format(self.p) end
end
