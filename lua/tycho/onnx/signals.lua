--- signals.lua -- ONNX operators of signals: Fourier transforms by products with their matrices, windows, filter banks.

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
      return ty.tensor(list, { dtype = row[1] })
    end)
  end
  window("HannWindow", function(t) return 0.5 - 0.5 * math.cos(t) end)
  window("HammingWindow", function(t) return 25 / 46 - 21 / 46 * math.cos(t) end)
  window("BlackmanWindow", function(t) return 0.42 - 0.5 * math.cos(t) + 0.08 * math.cos(2 * t) end)

  --- Cosines and sines of the transform from n places to m.
  local function matrices(n, m, length, dtype)
    local turns = (values.places(n):unsqueeze(2) * values.places(m):unsqueeze(1)):remainder(length)
    local at = turns:to("f64") * (2 * pi / length)
    return at:cos():to(dtype), at:sin():to(dtype)
  end

  --- The transform of real and imaginary parts along the last dim, of `length` places.
  local function transform(re, im, length, inverse, onesided)
    local n = re:size(-1)
    if n > length then
      re = re:narrow(-1, 1, length)
      im = im and im:narrow(-1, 1, length)
      n = length
    end
    local m = onesided and floor(length / 2) + 1 or length
    local c, s = matrices(n, m, length, re.dtype)
    if inverse then s = -s end
    local yr, yi = re:matmul(c), -re:matmul(s)
    if im then yr, yi = yr + im:matmul(s), yi + im:matmul(c) end
    if inverse then yr, yi = yr / length, yi / length end
    return yr, yi
  end

  op("DFT", "axis inverse onesided", function(a, x, length, axis)
    x = T(x)
    axis = axis ~= nil and values.number(axis) or a.axis or (a.opset >= 20 and -2 or 1)
    local d = values.dim(x, axis)
    local re, im = x:slice(-1, 1, 1):squeeze(-1), nil
    if x:size(-1) == 2 then im = x:slice(-1, 2, 2):squeeze(-1) end
    re = re:movedim(d, -1)
    im = im and im:movedim(d, -1)
    local n = length ~= nil and values.number(length) or re:size(-1)
    if a.inverse == 1 and a.onesided == 1 then -- the other half mirrors this one
      local whole = length ~= nil and n or 2 * (re:size(-1) - 1)
      local rest = whole - re:size(-1)
      if rest > 0 then
        re = ty.cat({ re, re:narrow(-1, 2, rest):flip(-1) }, -1)
        im = im and ty.cat({ im, -im:narrow(-1, 2, rest):flip(-1) }, -1)
      end
      local yr = transform(re, im, whole, true, false)
      return yr:movedim(-1, d):unsqueeze(-1)
    end
    local yr, yi = transform(re, im, n, a.inverse == 1, a.onesided == 1)
    return ty.stack({ yr:movedim(-1, d), yi:movedim(-1, d) }, -1)
  end)

  op("STFT", "onesided", function(a, x, step, shape, length)
    x = T(x)
    local n = length ~= nil and values.number(length) or T(shape):size(1)
    local re, im = x, nil
    if x.ndim == 3 then
      re = x:slice(-1, 1, 1):squeeze(-1)
      im = x:size(-1) == 2 and x:slice(-1, 2, 2):squeeze(-1) or nil
    end
    re = re:unfold(2, n, values.number(step))
    im = im and im:unfold(2, n, values.number(step))
    if shape ~= nil then
      re = re * T(shape)
      im = im and im * T(shape)
    end
    local yr, yi = transform(re, im, n, false, a.onesided ~= 0)
    return ty.stack({ yr, yi }, -1)
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
    return ty.tensor(rows, { dtype = schema.types[a.output_datatype or 1][1] })
  end)
end
