--- elements.lua -- ONNX operators that go element by element.
-- A row: name, attributes, f(a, inputs...) -> outputs. a: the attributes, `opset`, `outputs` (how many are asked).

local ty = require "tycho"
local values = require "tycho.onnx.values"
local schema = require "tycho.onnx.schema"

local select, ipairs = select, ipairs
local T = values.tensor

local integers = { u8 = true, i8 = true, i16 = true, i32 = true, i64 = true, u16 = true, u32 = true, u64 = true }

--- As a float of the tensor's own dtype, where a function gave another.
local function as(x, like) return x.dtype == like.dtype and x or x:to(like.dtype) end

return function(op)
  local function unary(name, f, attributes)
    op(name, attributes or "consumed_inputs", function(a, x)
      x = T(x)
      return as(f(x, a), x)
    end)
  end

  for name, f in pairs {
    Abs = ty.abs, Neg = ty.neg, Ceil = ty.ceil, Floor = ty.floor, Round = ty.round, Sqrt = ty.sqrt, Exp = ty.exp,
    Log = ty.log, Sin = ty.sin, Cos = ty.cos, Tan = ty.tan, Asin = ty.asin, Acos = ty.acos, Atan = ty.atan,
    Sinh = ty.sinh, Cosh = ty.cosh, Tanh = ty.tanh, Asinh = ty.asinh, Acosh = ty.acosh, Atanh = ty.atanh, Erf = ty.erf,
    Sigmoid = ty.sigmoid, Relu = ty.relu, Sign = ty.sign, Reciprocal = ty.reciprocal, Mish = ty.mish,
    Softplus = function(x) return x:softplus() end,
    Softsign = ty.softsign, HardSwish = function(x) return x:hardswish() end,
  } do
    unary(name, f)
  end

  op("Identity", "", function(_, x) return x end)
  op("Not", "", function(_, x) return T(x):logical_not() end)
  op("IsNaN", "", function(_, x) return T(x):isnan() end)
  op("IsInf", "detect_negative detect_positive", function(a, x)
    x = T(x)
    local y = x:isinf()
    if a.detect_negative == 0 then y = y:logical_and(x:gt(0)) end
    if a.detect_positive == 0 then y = y:logical_and(x:lt(0)) end
    return y
  end)

  unary("Elu", function(x, a) return x:elu(a.alpha or 1) end, "alpha consumed_inputs")
  unary("LeakyRelu", function(x, a) return x:leaky_relu(a.alpha or 0.01) end, "alpha consumed_inputs")
  unary("ThresholdedRelu", function(x, a) return ty.where(x:gt(a.alpha or 1), x, 0) end, "alpha")
  unary("Celu", function(x, a) return x:celu(a.alpha or 1) end, "alpha")
  unary("Selu", function(x, a)
    local alpha, gamma = a.alpha or 1.67326319217681884765625, a.gamma or 1.05070102214813232421875
    return ty.where(x:gt(0), x, x:expm1() * alpha) * gamma
  end, "alpha gamma consumed_inputs")
  unary("HardSigmoid", function(x, a) return (x * (a.alpha or 0.2) + (a.beta or 0.5)):clamp(0, 1) end,
    "alpha beta consumed_inputs")
  unary("Swish", function(x, a) return x * (x * (a.alpha or 1)):sigmoid() end, "alpha")
  unary("Gelu", function(x, a)
    return x:gelu(a.approximate == "tanh" and { approximate = "tanh" } or nil)
  end, "approximate")
  unary("Shrink", function(x, a)
    local lambd, bias = a.lambd or 0.5, a.bias or 0
    return ty.where(x:lt(-lambd), x + bias, ty.where(x:gt(lambd), x - bias, 0))
  end, "lambd bias")

  op("PRelu", "consumed_inputs", function(a, x, slope)
    x, slope = T(x), T(slope)
    if a.opset < 7 and slope.ndim == 1 and slope:size(1) > 1 then -- one a channel
      for _ = 3, x.ndim do slope = slope:unsqueeze(-1) end
    end
    return ty.where(x:lt(0), x * slope, x)
  end)

  --- Broadcasting as it was before version 7: b's dims stand from `axis` on.
  local function spread(a, x, y)
    if a.axis and a.opset < 7 then
      local axis = a.axis < 0 and a.axis + x.ndim or a.axis
      for _ = axis + y.ndim + 1, x.ndim do y = y:unsqueeze(-1) end
    end
    return y
  end

  local function binary(name, f, attributes)
    op(name, (attributes or "") .. " axis broadcast consumed_inputs", function(a, x, y)
      x, y = T(x), T(y)
      return f(x, spread(a, x, y), a)
    end)
  end

  binary("Add", ty.add)
  binary("Sub", ty.sub)
  binary("Mul", ty.mul)
  binary("Div", function(x, y)
    if not integers[x.dtype] then return x / y end
    return (x - x:fmod(y)):floor_divide(y)
  end)
  binary("Mod", function(x, y, a) return a.fmod == 1 and x:fmod(y) or x:remainder(y) end, "fmod")
  binary("Pow", function(x, y)
    if integers[x.dtype] and not integers[y.dtype] then return x:to("f64"):pow(y:to("f64")):to(x.dtype) end
    return as(x:pow(integers[y.dtype] and not integers[x.dtype] and y:to(x.dtype) or y), x)
  end)
  binary("And", ty.logical_and)
  binary("Or", ty.logical_or)
  binary("Xor", ty.logical_xor)
  binary("Equal", ty.eq)
  binary("Less", ty.lt)
  binary("LessOrEqual", ty.le)
  binary("Greater", ty.gt)
  binary("GreaterOrEqual", ty.ge)
  binary("BitwiseAnd", ty.bitwise_and)
  binary("BitwiseOr", ty.bitwise_or)
  binary("BitwiseXor", ty.bitwise_xor)
  op("BitwiseNot", "", function(_, x) return T(x):bitwise_not() end)
  binary("BitShift", function(x, y, a)
    return a.direction == "LEFT" and as(x:lshift(y), x) or as(x:rshift(y), x)
  end, "direction")

  op("Where", "", function(_, c, x, y) return ty.where(T(c), T(x), T(y)) end)

  local function variadic(name, f)
    op(name, "consumed_inputs", function(_, first, ...)
      local y = T(first)
      for i = 1, select("#", ...) do y = f(y, T((select(i, ...)))) end
      return y
    end)
  end

  variadic("Min", ty.minimum)
  variadic("Max", ty.maximum)
  variadic("Sum", ty.add)
  op("Mean", "consumed_inputs", function(_, first, ...)
    local y, n = T(first), select("#", ...)
    for i = 1, n do y = y + T((select(i, ...))) end
    return y / (n + 1)
  end)

  op("Clip", "min max consumed_inputs", function(a, x, low, high)
    x = T(x)
    low, high = low and T(low) or a.min, high and T(high) or a.max
    if low == nil and high == nil then return x end
    return as(x:clamp(low, high), x)
  end)

  local function type_of(number)
    local row = schema.types[number]
    return row and row[1]
  end

  local function needs_type(attribute)
    return { check = function(a)
      local number = a[attribute]
      if not number then return nil end
      a.dtype = type_of(number)
      if not a.dtype then
        return ("the type %s is not supported"):format(schema.type_names[number] or tostring(number))
      end
      return nil
    end }
  end

  op("Cast", "to dtype saturate round_mode", function(a, x)
    x = T(x)
    return x.dtype == a.dtype and x or x:to(a.dtype)
  end, needs_type "to")
  op("CastLike", "saturate round_mode", function(_, x, like) return T(x):to(T(like).dtype) end)
  op("BitCast", "to dtype", function(a, x) return T(x):view_as(a.dtype) end, needs_type "to")

  op("Dropout", "ratio seed is_test consumed_inputs training_mode", function(a, x, ratio, training)
    x = T(x)
    local on = training ~= nil and values.number(training) ~= 0
    local p = ratio ~= nil and values.number(ratio) or a.ratio or 0.5
    if not on or p == 0 then return x, ty.ones_like(x, { dtype = "bool" }) end
    local mask = ty.rand_like(x, { dtype = "f32" }):ge(p)
    return ty.where(mask, x / (1 - p), 0), mask
  end)

  op("ConstantOfShape", "value", function(a, sizes)
    local list = {}
    for i, n in ipairs(values.numbers(sizes)) do list[i] = n end
    return ty.full(list, a.number, values.there(a.dtype))
  end, { check = function(a)
    local v = a.value
    a.number, a.dtype = v and values.number(v) or 0, v and v.dtype or "f32"
    return nil
  end })

  op("EyeLike", "dtype k", function(a, x)
    x = T(x)
    local row = a.dtype and type_of(a.dtype) or x.dtype
    local n, m = x:size(1), x:size(2)
    return (values.places(m):unsqueeze(1) - values.places(n):unsqueeze(2)):eq(a.k or 0):to(row)
  end)

  op("Range", "", function(_, start, limit, step)
    local dtype = T(start).dtype
    start, limit, step = values.number(start), values.number(limit), values.number(step)
    local n = math.max(0, math.ceil((limit - start) / step))
    if n == 0 then return ty.zeros({ 0 }, values.there(dtype)) end
    return as(ty.arange(n, values.there()) * step + start, { dtype = dtype })
  end)

  ------------------------------------------------------------------------------------------------------------ random

  local function random(name, like, make)
    op(name, "dtype high low mean scale seed shape sample_size", function(a, x)
      local sizes, dtype = a.shape, a.dtype and type_of(a.dtype)
      if like then
        x = T(x)
        sizes, dtype = x.shape, dtype or x.dtype
      end
      return make(a, sizes, { dtype = dtype or "f32" })
    end)
  end

  local function uniform(a, sizes, opts) return ty.uniform(a.low or 0, a.high or 1, sizes, opts) end
  local function normal(a, sizes, opts) return ty.normal(a.mean or 0, a.scale or 1, sizes, opts) end
  random("RandomUniform", false, uniform)
  random("RandomUniformLike", true, uniform)
  random("RandomNormal", false, normal)
  random("RandomNormalLike", true, normal)

  op("Bernoulli", "dtype seed", function(a, x)
    x = T(x)
    return ty.rand_like(x):lt(x):to(a.dtype and type_of(a.dtype) or x.dtype)
  end)
  op("Multinomial", "dtype sample_size seed", function(a, x)
    x = T(x)
    return (x:softmax(-1):multinomial(a.sample_size or 1, true) - 1):to(a.dtype and type_of(a.dtype) or "i32")
  end)
end
