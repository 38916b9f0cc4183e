--- signals.lua -- ONNX operators of signals: Fourier transforms, windows, filter banks.

local ty = require "tycho"
local values = require "tycho.onnx.values"
local schema = require "tycho.onnx.schema"

local T = values.tensor
local floor, pi = math.floor, math.pi

return function(op)
  local function window(name, f)
    op(name, "output_datatype periodic", function(a, size)
      local n = values.number(size)
      local row = schema.types[a.output_datatype or 1]
      local list, period = {}, a.periodic == 0 and n - 1 or n
      for i = 0, n - 1 do list[i + 1] = f(2 * pi * i / period) end
      return ty.tensor(list, values.there(row[1]))
    end)
  end
  window("HannWindow", function(t) return 0.5 - 0.5 * math.cos(t) end)
  window("HammingWindow", function(t) return 25 / 46 - 21 / 46 * math.cos(t) end)
  window("BlackmanWindow", function(t) return 0.42 - 0.5 * math.cos(t) + 0.08 * math.cos(2 * t) end)

  local reals, numbers = ty.view_as_real, ty.view_as_complex
  local halves = { f16 = true, bf16 = true }

  --- Complex numbers of pairs, or of real numbers in a last dim of 1, which stay real; and whether they do. Half floats
  --- go by way of f32.
  local function given(x)
    if halves[x.dtype] then x = x:to "f32" end
    if x:size(-1) == 2 then return numbers(x:contiguous()), false end
    return x:squeeze(-1), true
  end

  --- The transform along dim d, of `length` places; half of it where it is onesided.
  local function there(z, is_real, length, d, onesided)
    if onesided and is_real then return ty.fft.rfft(z, length, d) end
    local y = ty.fft.fft(z, length, d)
    return onesided and y:narrow(d, 1, floor(length / 2) + 1) or y
  end

  op("DFT", "axis inverse onesided", function(a, x, length, axis)
    x = T(x)
    axis = axis ~= nil and values.number(axis) or a.axis or (a.opset >= 20 and -2 or 1)
    local d, dtype = values.dim(x, axis), x.dtype
    local z, is_real = given(x)
    local n = length ~= nil and values.number(length) or nil
    if a.inverse == 1 and a.onesided == 1 then -- the other half mirrors this one
      return ty.fft.irfft(z, n or 2 * (z:size(d) - 1), d):to(dtype):unsqueeze(-1)
    elseif a.inverse == 1 then
      return reals(ty.fft.ifft(z, n, d)):to(dtype)
    end
    return reals(there(z, is_real, n or z:size(d), d, a.onesided == 1)):to(dtype)
  end)

  op("STFT", "onesided", function(a, x, step, shape, length)
    x = T(x)
    local n = length ~= nil and values.number(length) or T(shape):size(1)
    local dtype, w = x.dtype, shape ~= nil and T(shape) or nil
    local z, is_real = given(x.ndim == 3 and x or x:unsqueeze(-1))
    z = z:unfold(2, n, values.number(step))
    if w then z = z * w:to(is_real and z.dtype or reals(z).dtype) end
    return reals(there(z, is_real, n, 3, a.onesided ~= 0)):to(dtype)
  end)

  op("MelWeightMatrix", "output_datatype", function(a, bins, length, rate, low, high)
    local m, n = values.number(bins), floor(values.number(length) / 2) + 1
    local sample, first, last = values.number(rate), values.number(low), values.number(high)
    local function mel(f) return 2595 * math.log10(1 + f / 700) end
    local from, upto, at = mel(first), mel(last), {}
    local step = (upto - from) / (m + 2)
    for i = 0, m + 1 do
      local hertz = 700 * (10 ^ ((from + i * step) / 2595) - 1)
      at[i] = floor((values.number(length) + 1) * hertz / sample)
    end
    local rows = {}
    for f = 0, n - 1 do
      rows[f + 1] = {}
      for i = 0, m - 1 do
        local lower, centre, upper, w = at[i], at[i + 1], at[i + 2], 0
        if centre == lower then
          if f == centre then w = 1 end
        elseif f >= lower and f <= centre then
          w = (f - lower) / (centre - lower)
        end
        if centre ~= upper and f >= centre and f < upper then w = (upper - f) / (upper - centre) end
        rows[f + 1][i + 1] = w
      end
    end
    return ty.tensor(rows, values.there(schema.types[a.output_datatype or 1][1]))
  end)
end
