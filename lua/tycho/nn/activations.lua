--- nn/activations.lua -- activations as modules: their settings are given once. The functions are in neural.lua and
-- activations.lua of the folder above.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count = nn._check, nn.class, nn._count

  --- Settings that are given by name, in their order: nn.Softmax {dim = 2}. What is given otherwise stays as it is.
  local function in_order(name, settings, first, ...)
    if type(first) ~= "table" or ty.is_tensor(first) then return first, ... end
    local known, list = {}, {}
    for _, setting in ipairs(settings) do known[setting[1]] = type(setting[2]) end
    first = check.options(name, first, known)
    for i, setting in ipairs(settings) do list[i] = first[setting[1]] end
    return unpack(list, 1, #settings)
  end

  --- A class around a function of x. Behind it, in order: names and defaults of what follows x.
  local function activation(name, fn, ...)
    local c, settings = class(name), { ... }
    nn[name] = c
    if #settings == 0 then
      function c:forward(x) return fn(x) end -- luacheck: ignore 212
      return
    end
    function c:init(...)
      local given = { in_order(name, settings, ...) }
      for i, setting in ipairs(settings) do
        local v = given[i]
        if v == nil then v = setting[2] end
        if type(v) ~= type(setting[2]) then
          check.fail(name, "argument %d (%s) must be a %s, got %s", i, setting[1], type(setting[2]), check.show(v))
        end
        self[setting[1]] = v
      end
    end
    function c:describe()
      local parts = {}
      for i, setting in ipairs(settings) do parts[i] = tostring(self[setting[1]]) end
      return table.concat(parts, ", ")
    end
    local first, second = settings[1][1], settings[2] and settings[2][1]
    if second then
      function c:forward(x) return fn(x, self[first], self[second]) end
    else
      function c:forward(x) return fn(x, self[first]) end
    end
  end

  --- nn.ReLU(): max(x, 0), ty.relu as a module.
  --- Raises where the input is not a tensor.
  ---@return tycho.Module # the sizes of the input
  activation("ReLU", ty.relu)
  --- nn.LeakyReLU(slope = 0.01): see ty.leaky_relu.
  activation("LeakyReLU", ty.leaky_relu, { "slope", 0.01 })
  --- nn.ELU(alpha = 1): see ty.elu.
  activation("ELU", ty.elu, { "alpha", 1 })
  --- nn.SiLU(): x * sigmoid(x), see ty.silu.
  activation("SiLU", ty.silu)
  --- nn.Mish(): x * tanh(softplus(x)), see ty.mish.
  activation("Mish", ty.mish)
  --- nn.Softplus(beta = 1): see ty.softplus.
  activation("Softplus", ty.softplus, { "beta", 1 })
  --- nn.Sigmoid(): 1 / (1 + exp(-x)), see ty.sigmoid.
  activation("Sigmoid", ty.sigmoid)
  --- nn.Tanh(): ty.tanh as a module.
  --- Raises where the input is not a tensor.
  ---@return tycho.Module # the sizes of the input
  activation("Tanh", ty.tanh)
  --- nn.Softmax(dim = -1): see ty.softmax.
  activation("Softmax", ty.softmax, { "dim", -1 })
  --- nn.LogSoftmax(dim = -1): see ty.log_softmax.
  activation("LogSoftmax", ty.log_softmax, { "dim", -1 })
  --- nn.GELU(approximate = "none"): see ty.gelu.
  ---@param approximate? "none"|"tanh" "none"
  ---@return tycho.Module # the sizes of the input
  activation("GELU", function(x, form) return ty.gelu(x, { approximate = form }) end, { "approximate", "none" })
  --- nn.Identity(): gives what it is given.
  --- Raises never.
  ---@return tycho.Module # the input itself
  activation("Identity", function(x) return x end)

  --- nn.ReLU6(): x within 0..6, see ty.relu6.
  activation("ReLU6", ty.relu6)
  --- nn.SELU(): an elu of fixed alpha and scale, see ty.selu.
  activation("SELU", ty.selu)
  --- nn.CELU(alpha = 1): see ty.celu.
  activation("CELU", ty.celu, { "alpha", 1 })
  --- nn.Hardtanh(low = -1, high = 1): x within low..high, see ty.hardtanh.
  activation("Hardtanh", ty.hardtanh, { "low", -1 }, { "high", 1 })
  --- nn.Hardsigmoid(): relu6(x + 3) / 6, see ty.hardsigmoid.
  activation("Hardsigmoid", ty.hardsigmoid)
  --- nn.Hardswish(): x * relu6(x + 3) / 6, see ty.hardswish.
  activation("Hardswish", ty.hardswish)
  --- nn.Hardshrink(lambda = 0.5): see ty.hardshrink.
  activation("Hardshrink", ty.hardshrink, { "lambda", 0.5 })
  --- nn.Softshrink(lambda = 0.5): see ty.softshrink.
  activation("Softshrink", ty.softshrink, { "lambda", 0.5 })
  --- nn.Tanhshrink(): x - tanh(x), see ty.tanhshrink.
  activation("Tanhshrink", ty.tanhshrink)
  --- nn.Softsign(): x / (1 + |x|), see ty.softsign.
  activation("Softsign", ty.softsign)
  --- nn.LogSigmoid(): log(sigmoid(x)), see ty.logsigmoid.
  activation("LogSigmoid", ty.logsigmoid)
  --- nn.GLU(dim = -1): see ty.glu.
  activation("GLU", ty.glu, { "dim", -1 })
  --- nn.Softmin(dim = -1): see ty.softmin.
  activation("Softmin", ty.softmin, { "dim", -1 })
  --- nn.Softmax2d(): the softmax over the channels of [batch, channels, height, width] or [channels, height, width].
  --- Raises where the input has other dims.
  ---@return tycho.Module # the sizes of the input
  activation("Softmax2d", function(x)
    check.float("Softmax2d", 1, x)
    if x.ndim ~= 3 and x.ndim ~= 4 then
      check.fail("Softmax2d", "the input must have 3 or 4 dims, got %s", check.text(x))
    end
    return ty.softmax(x, -3)
  end)

  ---@class tycho.nn.Threshold: tycho.Module
  local Threshold = class "Threshold"
  nn.Threshold = Threshold

  --- nn.Threshold(threshold, value): x above the threshold, else the value; see ty.threshold.
  ---@param threshold number
  ---@param value number
  ---@return tycho.Module # the sizes of the input
  function Threshold:init(threshold, value)
    self.threshold = check.number("Threshold", 1, threshold, "threshold")
    self.value = check.number("Threshold", 2, value, "value")
  end

  function Threshold:forward(x) return ty.threshold(x, self.threshold, self.value) end

  function Threshold:describe() return ("%g, %g"):format(self.threshold, self.value) end

  ---@class tycho.nn.PReLU: tycho.Module
  local PReLU = class "PReLU"
  nn.PReLU = PReLU

  --- nn.PReLU(channels = 1, start = 0.25): x above zero, else weight * x; see ty.prelu.
  --- Raises where the count is not whole, or the input has other channels.
  ---@param channels? integer 1: one weight for all
  ---@param start? number what weights begin with
  ---@return tycho.Module # the sizes of the input
  function PReLU:init(channels, start)
    self.channels = count("PReLU", 1, channels or 1, "channels")
    self.weight = nn.Parameter(ty.full({ self.channels }, check.number("PReLU", 2, start, "start", 0.25)))
  end

  function PReLU:forward(x) return ty.prelu(x, self.weight) end

  function PReLU:describe() return tostring(self.channels) end

  ---@class tycho.nn.RReLU: tycho.Module
  local RReLU = class "RReLU"
  nn.RReLU = RReLU

  --- nn.RReLU(low = 1 / 8, high = 1 / 3): x above zero, else a slope times x: of uniform random slopes when training,
  --- else their mean. Xu and others 2015, arXiv:1505.00853.
  --- Raises where low lies above high, or the input is not floating.
  ---@param low? number
  ---@param high? number
  ---@return tycho.Module # the sizes of the input
  function RReLU:init(low, high)
    self.low, self.high = check.number("RReLU", 1, low, "low", 1 / 8), check.number("RReLU", 2, high, "high", 1 / 3)
    if self.low > self.high then check.fail("RReLU", "low, %.14g, lies above high, %.14g", self.low, self.high) end
  end

  function RReLU:forward(x)
    check.float("RReLU", 1, x)
    if not self.training then return ty.leaky_relu(x, (self.low + self.high) / 2) end
    return ty.where(x:gt(0), x, x * (ty.rand_like(x) * (self.high - self.low) + self.low))
  end

  function RReLU:describe() return ("%g, %g"):format(self.low, self.high) end
end
