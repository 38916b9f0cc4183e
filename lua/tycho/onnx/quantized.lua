--- quantized.lua -- ONNX operators on quantised numbers: to them, from them, products and convolutions of them.

local values = require "tycho.onnx.values"
local schema = require "tycho.onnx.schema"

local T = values.tensor

--- What a type holds.
local ranges = { u8 = { 0, 255 }, i8 = { -128, 127 }, i16 = { -32768, 32767 }, u16 = { 0, 65535 } }

return function(op)
  --- A scale or zero point as it goes with x: one number, one a place of `axis`, or one a block.
  local function along(v, x, axis, block)
    if v.ndim == 0 or v.ndim == 1 and v:size(1) == 1 then return v.ndim == 0 and v or v:reshape({}) end
    local d = values.dim(x, axis)
    if v.ndim == 1 then
      local sizes = {}
      for k = 1, x.ndim do sizes[k] = k == d and v:size(1) or 1 end
      return v:reshape(sizes)
    end
    local wide = v:repeat_interleave(block and block > 0 and block or 1, d)
    return wide:narrow(d, 1, x:size(d))
  end

  local function quantize(x, scale, zero, dtype, precise)
    local range = ranges[dtype]
    local y = (x / scale)
    if precise then y = y:to("f32") end
    y = y:round()
    if zero then y = y + zero:to("f32") end
    return y:clamp(range[1], range[2]):to(dtype)
  end

  op("QuantizeLinear", "axis saturate block_size output_dtype precision", function(a, x, scale, zero)
    x, scale = T(x), T(scale)
    zero = zero ~= nil and T(zero) or nil
    local row = a.output_dtype and a.output_dtype ~= 0 and schema.types[a.output_dtype]
    local dtype = zero and zero.dtype or row and row[1] or "u8"
    local axis = a.axis or 1
    if x.dtype ~= "f32" and x.dtype ~= "f64" then x = x:to("f32") end
    local block = a.block_size
    return quantize(x, along(scale, x, axis, block):to(x.dtype), zero and along(zero, x, axis, block), dtype)
  end)

  op("DequantizeLinear", "axis block_size output_dtype", function(a, x, scale, zero)
    x, scale = T(x), T(scale)
    local axis = a.axis or 1
    local y = x:to("f32")
    if zero ~= nil then y = y - along(T(zero), x, axis, a.block_size):to("f32") end
    return (y * along(scale, x, axis, a.block_size):to("f32")):to(scale.dtype)
  end)

  op("DynamicQuantizeLinear", "", function(_, x)
    x = T(x)
    local low, high = x:min():minimum(0), x:max():maximum(0)
    local scale = (high - low) / 255
    local zero = (-low / scale):round():clamp(0, 255)
    return quantize(x, scale, zero, "u8"), scale, zero:to("u8")
  end)

  local function less(x, zero, rows)
    x = T(x):to("i32")
    if zero == nil then return x end
    zero = T(zero):to("i32")
    if zero.ndim == 1 and zero:size(1) > 1 and rows then zero = zero:unsqueeze(2) end
    if zero.ndim == 1 and zero:size(1) == 1 then zero = zero:reshape({}) end
    return x - zero
  end

  op("MatMulInteger", "", function(_, x, y, xz, yz)
    return less(x, xz, true):matmul(less(y, yz)):to("i32")
  end)

  op("QLinearMatMul", "", function(_, x, xs, xz, y, ys, yz, zs, zz)
    local product = less(x, xz, true):matmul(less(y, yz)):to("f32")
    xs, ys = T(xs), T(ys)
    if xs.ndim == 1 and xs:size(1) > 1 then xs = xs:unsqueeze(2) end
    zz = T(zz)
    return quantize(product * (xs:to("f32") * ys:to("f32") / T(zs):to("f32")), 1, zz, zz.dtype)
  end)

  local conv = "auto_pad dilations group kernel_shape pads strides"

  op("ConvInteger", conv, function(a, x, w, xz, wz)
    local weight = T(w):to("f64")
    if wz ~= nil then
      wz = T(wz):to("f64")
      if wz.ndim == 1 then
        local sizes = { wz:size(1) }
        for k = 2, weight.ndim do sizes[k] = 1 end
        wz = wz:reshape(wz:size(1) == 1 and {} or sizes)
      end
      weight = weight - wz
    end
    return op.convolve(a, less(x, xz):to("f64"), weight):to("i32")
  end)

  op("QLinearConv", conv, function(a, x, xs, xz, w, ws, wz, ys, yz, bias)
    local function per_row(v, like)
      if v.ndim == 0 or v:size(1) == 1 then return v:reshape({}) end
      local sizes = { v:size(1) }
      for k = 2, like.ndim do sizes[k] = 1 end
      return v:reshape(sizes)
    end
    w, yz = T(w), T(yz)
    local weight = w:to("f64") - per_row(T(wz):to("f64"), w)
    local y = op.convolve(a, less(x, xz):to("f64"), weight, bias ~= nil and T(bias):to("f64") or nil)
    local scale = T(ws):to("f32")
    if scale.ndim == 1 and scale:size(1) > 1 then
      local sizes = {}
      for k = 1, y.ndim do sizes[k] = k == 2 and scale:size(1) or 1 end
      scale = scale:reshape(sizes)
    else
      scale = scale:reshape({})
    end
    return quantize(y:to("f32") * (T(xs):reshape({}) * scale / T(ys):reshape({})), 1, yz:reshape({}), yz.dtype)
  end)

end
