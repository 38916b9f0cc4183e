--- images.lua -- ONNX operators that sample places (Resize, GridSample, AffineGrid, RoiAlign, MaxRoiPool), or read
-- files of images.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local fail = require("tycho.arguments")(ty).fail
local ipairs, unpack = ipairs, unpack
local T, numbers = values.tensor, values.numbers
local floor, ceil, abs, max, min = math.floor, math.ceil, math.abs, math.max, math.min

return function(op)
  --- Where place i from 0 of the output lies in the input.
  local coordinates = {
    half_pixel = function(i, s) return (i + 0.5) / s - 0.5 end,
    half_pixel_symmetric = function(i, s, n, m)
      local adjustment = m / (s * n)
      return n / 2 * (1 - adjustment) + (i + 0.5) / s - 0.5
    end,
    pytorch_half_pixel = function(i, s, _, m) return m > 1 and (i + 0.5) / s - 0.5 or 0 end,
    align_corners = function(i, s, n) return s * n ~= 1 and i * (n - 1) / (s * n - 1) or 0 end,
    asymmetric = function(i, s) return i / s end,
    tf_crop_and_resize = function(i, _, n, m, first, last)
      return m > 1 and first * (n - 1) + i * (last - first) * (n - 1) / (m - 1) or 0.5 * (first + last) * (n - 1)
    end,
  }
  coordinates.tf_half_pixel_for_nn = function(i, s) return (i + 0.5) / s end

  local nearest = {
    round_prefer_floor = function(x) return ceil(x - 0.5) end,
    round_prefer_ceil = function(x) return floor(x + 0.5) end,
    floor = floor,
    ceil = ceil,
  }

  local function cubic(a)
    return function(x)
      x = abs(x)
      if x <= 1 then return ((a + 2) * x - (a + 3)) * x * x + 1 end
      if x < 2 then return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a end
      return 0
    end
  end

  local function triangle(x) return max(0, 1 - abs(x)) end

  --- Taps of one dim: for each place of the output the first place and weights, sums 1.
  local function taps(a, n, m, s, first, last, linear)
    local where_ = coordinates[a.coordinate_transformation_mode or "half_pixel"]
    local kernel, reach = linear and triangle or cubic(a.cubic_coeff_a or -0.75), linear and 1 or 2
    local shrink = a.antialias == 1 and s < 1 and s or 1
    reach = reach / shrink
    local at, weights, outside, width = {}, {}, {}, 2 * ceil(reach)
    for i = 0, m - 1 do
      local x = where_(i, s, n, m, first, last)
      local begin = floor(x) - ceil(reach) + 1
      local row, sum = {}, 0
      for k = 0, width - 1 do
        local place = begin + k
        local w = kernel((x - place) * shrink)
        if a.exclude_outside == 1 and (place < 0 or place >= n) then w = 0 end
        row[k + 1], sum = w, sum + w
      end
      for k = 1, width do row[k] = row[k] / sum end
      at[i + 1], weights[i + 1] = begin, row
      outside[i + 1] = a.coordinate_transformation_mode == "tf_crop_and_resize" and (x < 0 or x > n - 1)
    end
    return at, weights, width, outside
  end

  --- A vector along dim d.
  local function vector(list, x, d, dtype)
    local sizes = {}
    for k = 1, x.ndim do sizes[k] = k == d and #list or 1 end
    return ty.tensor(list, { dtype = dtype, device = x.device }):reshape(sizes)
  end

  local function resize_dim(a, x, d, m, s, first, last)
    local n = x:size(d)
    local mode, y = a.mode or "nearest"
    local outside
    if mode == "nearest" then
      local where_ = coordinates[a.coordinate_transformation_mode or "half_pixel"]
      local round, at = nearest[a.nearest_mode or "round_prefer_floor"], {}
      outside = {}
      for i = 0, m - 1 do
        local place = where_(i, s, n, m, first, last)
        outside[i + 1] = a.coordinate_transformation_mode == "tf_crop_and_resize" and (place < 0 or place > n - 1)
        at[i + 1] = min(max(round(place), 0), n - 1) + 1
      end
      y = x:index_select(d, at)
    else
      local at, weights, width
      at, weights, width, outside = taps(a, n, m, s, first, last, mode == "linear")
      for k = 1, width do
        local places, w = {}, {}
        for i = 1, m do
          places[i] = min(max(at[i] + k - 1, 0), n - 1) + 1
          w[i] = weights[i][k]
        end
        local part = x:index_select(d, places) * vector(w, x, d, x.dtype)
        y = y and y + part or part
      end
    end
    local any, mask = false, {}
    for i = 1, m do
      mask[i] = outside[i] and 1 or 0
      any = any or outside[i]
    end
    if any then y = ty.where(vector(mask, x, d, "bool"), a.extrapolation_value or 0, y) end
    return y
  end

  local attributes = "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
    .. "keep_aspect_ratio_policy mode nearest_mode"

  local function resize(a, x, roi, scales, sizes)
    x = T(x)
    local dtype = x.dtype
    if not values.is_float(x) and (a.mode or "nearest") ~= "nearest" then x = x:to("f32") end
    local dims = {}
    for i = 1, x.ndim do dims[i] = i end
    if a.axes then
      dims = {}
      for i, axis in ipairs(a.axes) do dims[i] = values.dim(x, axis) end
    end
    local by, want = scales ~= nil and numbers(scales), sizes ~= nil and numbers(sizes)
    if by and #by == 0 then by = nil end
    if want and #want == 0 then want = nil end
    local policy, least = a.keep_aspect_ratio_policy or "stretch", nil
    if want and policy ~= "stretch" then
      for i, d in ipairs(dims) do
        local s = want[i] / x:size(d)
        least = least and (policy == "not_larger" and min(least, s) or policy == "not_smaller" and max(least, s)) or s
      end
    end
    local region = roi ~= nil and numbers(roi)
    for i, d in ipairs(dims) do
      local n = x:size(d)
      local s = by and by[i] or least or want[i] / n
      local m = want and (least and floor(least * n + 0.5) or want[i]) or floor(n * s)
      local first, last = 0, 1
      if a.coordinate_transformation_mode == "tf_crop_and_resize" then
        first, last = region[i], region[#region / 2 + i]
        if by then m = floor(n * (last - first) * s) end
      end
      if m ~= n or s ~= 1 or first ~= 0 or last ~= 1 then x = resize_dim(a, x, d, m, s, first, last) end
    end
    if x.dtype ~= dtype then x = x:round():to(dtype) end
    return x
  end

  local function check(a)
    if not coordinates[a.coordinate_transformation_mode or "half_pixel"] then
      return ("the mode %q is not supported"):format(a.coordinate_transformation_mode)
    end
    if a.mode and a.mode ~= "nearest" and a.mode ~= "linear" and a.mode ~= "cubic" then
      return ("the mode %q is not supported"):format(a.mode)
    end
    return nil
  end

  op("Resize", attributes, function(a, x, roi, scales, sizes)
    if a.opset < 11 then
      local as_then = { mode = a.mode, coordinate_transformation_mode = "asymmetric", nearest_mode = "floor" }
      return resize(as_then, x, nil, roi)
    end
    return resize(a, x, roi, scales, sizes)
  end, { check = check })
  op("Upsample", "mode scales", function(a, x, scales)
    local s = scales ~= nil and scales or values.host("f32", { unpack(a.scales) }, 1)
    return resize({ mode = a.mode == "bilinear" and "linear" or a.mode, coordinate_transformation_mode = "asymmetric",
      nearest_mode = "floor" }, x, nil, s)
  end)

  ------------------------------------------------------------------------------------------------------------ grids

  op("AffineGrid", "align_corners", function(a, theta, size)
    local sizes = {}
    for i, n in ipairs(numbers(size)) do sizes[i] = n end
    return ty.affine_grid(T(theta), sizes, { align_corners = a.align_corners == 1 })
  end)

  local modes = {
    linear = "bilinear", bilinear = "bilinear", cubic = "bicubic", bicubic = "bicubic", nearest = "nearest",
  }

  op("GridSample", "align_corners mode padding_mode", function(a, x, grid)
    return ty.grid_sample(T(x), T(grid), { mode = modes[a.mode or "linear"], padding_mode = a.padding_mode,
      align_corners = a.align_corners == 1 })
  end, { check = function(a)
    return a.mode and not modes[a.mode] and ("the mode %q is not supported"):format(a.mode) or nil
  end })

  --- Means (or maxima) of samples within boxes of a picture.
  op("RoiAlign", "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale",
    function(a, x, rois, batches)
      x, rois = T(x), T(rois)
      local height, width, scale = a.output_height or 1, a.output_width or 1, a.spatial_scale or 1
      local offset = (a.opset >= 16 and (a.coordinate_transformation_mode or "half_pixel") == "half_pixel") and 0.5 or 0
      local boxes, which, out = rois:totable(), numbers(batches), {}
      local h, w = x:size(3), x:size(4)

      --- Neighbours and weights of a place in a dim of n.
      local function neighbours(p, n)
        if p < -1 or p > n then return 0, 0, 0, 0 end
        p = max(p, 0)
        local low = floor(p)
        if low >= n - 1 then return n - 1, n - 1, 1, 0 end
        return low, low + 1, 1 - (p - low), p - low
      end

      for r, box in ipairs(boxes) do
        local x1, y1 = box[1] * scale - offset, box[2] * scale - offset
        local x2, y2 = box[3] * scale - offset, box[4] * scale - offset
        local rw, rh = x2 - x1, y2 - y1
        if offset == 0 then rw, rh = max(rw, 1), max(rh, 1) end
        local bh, bw = rh / height, rw / width
        local sh = (a.sampling_ratio or 0) > 0 and a.sampling_ratio or ceil(rh / height)
        local sw = (a.sampling_ratio or 0) > 0 and a.sampling_ratio or ceil(rw / width)
        local function line(first, bin, bins, samples, n)
          local low, high, wl, wh = {}, {}, {}, {}
          for i = 0, bins - 1 do
            for s = 0, samples - 1 do
              local p, q, u, v = neighbours(first + i * bin + (s + 0.5) * bin / samples, n)
              low[#low + 1], high[#high + 1], wl[#wl + 1], wh[#wh + 1] = p + 1, q + 1, u, v
            end
          end
          return low, high, wl, wh
        end
        local rl, rh2, ul, uh = line(y1, bh, height, sh, h)
        local cl, ch, vl, vh = line(x1, bw, width, sw, w)
        local picture = x[which[r] + 1]
        local function part(rows, columns, u, v)
          local like = { dtype = x.dtype, device = x.device }
          local weight = ty.tensor(u, like):unsqueeze(2) * ty.tensor(v, like):unsqueeze(1)
          return picture:index_select(2, rows):index_select(3, columns) * weight
        end
        local p, q = part(rl, cl, ul, vl), part(rl, ch, ul, vh)
        local s, t = part(rh2, cl, uh, vl), part(rh2, ch, uh, vh)
        local all
        if a.mode == "max" then
          all = p:maximum(q):maximum(s):maximum(t)
        else
          all = p + q + s + t
        end
        all = all:reshape(x:size(2), height, sh, width, sw)
        if a.mode == "max" then
          all = all:max({ 3, 5 })
        else
          all = all:sum({ 3, 5 }) / (sh * sw)
        end
        out[r] = all
      end
      return ty.stack(out, 1)
    end)

  --- Which of n places lie in each of so many bins of boxes from `first` to `last`: [boxes, bins, n].
  local function bins_of(first, last, bins, n)
    local span = (last - first + 1):clamp(1)
    local like = { dtype = span.dtype, device = span.device }
    local bin, place = ty.arange(bins, like), ty.arange(n, like)
    local from = (bin * span:unsqueeze(2) / bins):floor() + first:unsqueeze(2)
    local to = ((bin + 1) * span:unsqueeze(2) / bins):ceil() + first:unsqueeze(2)
    return place:ge(from:unsqueeze(3)):logical_and(place:lt(to:unsqueeze(3)))
  end

  --- The largest of `x` in each bin of its dim d, one after the other.
  local function largest(x, d, inside)
    local list = {}
    for i = 1, inside:size(2) do
      local mask = inside:select(2, i):unsqueeze(2):unsqueeze(d == 3 and 4 or 3)
      list[i] = ty.where(mask, x, -math.huge):max(d, true)
    end
    return ty.cat(list, d)
  end

  --- Maxima of boxes of an image, each cut into bins. Girshick 2015, arXiv:1504.08083.
  op("MaxRoiPool", "pooled_shape spatial_scale", function(a, x, rois)
    x, rois = T(x), T(rois)
    local function corner(i) -- half away from 0, as C rounds
      local v = rois:select(2, i) * (a.spatial_scale or 1)
      return v:sign() * (v:abs() + 0.5):floor()
    end
    local picture = x:index_select(1, rois:select(2, 1):to("i64") + 1)
    local rows = bins_of(corner(3), corner(5), a.pooled_shape[1], x:size(3))
    local columns = bins_of(corner(2), corner(4), a.pooled_shape[2], x:size(4))
    local some = rows:any(3):unsqueeze(3):logical_and(columns:any(3):unsqueeze(2)) -- [boxes, bins, bins]
    return ty.where(some:unsqueeze(2), largest(largest(picture, 3, rows), 4, columns), 0)
  end, { check = function(a)
    local sizes = a.pooled_shape
    if not sizes or #sizes ~= 2 or min(sizes[1], sizes[2]) < 1 then
      return "the attribute pooled_shape must be two sizes from 1"
    end
    return nil
  end })

  --- The pixels [height, width, channels] of a file of an image: PNG, JPEG, PNM.
  op("ImageDecoder", "pixel_format", function(a, file)
    local bytes, format = numbers(T(file)), a.pixel_format or "RGB"
    for i, b in ipairs(bytes) do bytes[i] = string.char(b) end
    local image, why = ty.image.decode(table.concat(bytes), { channels = 3, limit = 2 ^ 30 })
    if not image then fail("ImageDecoder", "%s", why) end
    if format == "BGR" then image = image:flip(1) end
    if format == "Grayscale" then -- ITU-R 601-2, in 2^-16
      local share = ty.tensor({ 19595, 38470, 7471 }, { dtype = "i32", device = "cpu" }):reshape(3, 1, 1)
      image = ((image:to("i32") * share):sum(1, true) + 32768):rshift(16):to "u8"
    end
    return image:permute(2, 3, 1)
  end, { check = function(a)
    local known = { RGB = true, BGR = true, Grayscale = true }
    return a.pixel_format and not known[a.pixel_format]
      and ("the pixel format %q is not supported"):format(a.pixel_format) or nil
  end })

  --- A convolution that takes each place of its kernel from where an offset says, between four neighbours.
  op("DeformConv", "dilations group kernel_shape offset_group pads strides", function(a, x, w, offset, bias, mask)
    x, w, offset = T(x), T(w), T(offset)
    local groups, own = a.group or 1, a.offset_group or 1
    local batch, channels, height, width = x:size(1), x:size(2), x:size(3), x:size(4)
    local kh, kw = w:size(3), w:size(4)
    local oh, ow = offset:size(3), offset:size(4)
    local stride, dilation, pads = a.strides or { 1, 1 }, a.dilations or { 1, 1 }, a.pads or { 0, 0, 0, 0 }
    offset = offset:reshape(batch, own, kh, kw, 2, oh, ow)
    local function line(n, step, first, sizes) return (values.places(n) * step + first):reshape(sizes):to(x.dtype) end
    local rows = line(kh, dilation[1], 0, { kh, 1, 1, 1 }) + line(oh, stride[1], -pads[1], { 1, 1, oh, 1 })
    local columns = line(kw, dilation[2], 0, { 1, kw, 1, 1 }) + line(ow, stride[2], -pads[2], { 1, 1, 1, ow })
    local y, z = rows + offset:slice(5, 1, 1):squeeze(5), columns + offset:slice(5, 2, 2):squeeze(5)
    local points, each = kh * kw * oh * ow, channels / own
    local flat = x:reshape(batch, own, each, height * width)
    y, z = y:reshape(batch, own, 1, points), z:reshape(batch, own, 1, points)
    local top, left, sum = y:floor(), z:floor(), nil
    for i = 0, 1 do
      for j = 0, 1 do
        local p, q = top + i, left + j
        local weight = (1 - (y - p):abs()) * (1 - (z - q):abs())
        local inside = p:ge(0):logical_and(p:le(height - 1)):logical_and(q:ge(0)):logical_and(q:le(width - 1))
        local at = (p:clamp(0, height - 1) * width + q:clamp(0, width - 1)):to("i64") + 1
        local part = flat:gather(4, at:expand({ batch, own, each, points })) * ty.where(inside, weight, 0)
        sum = sum and sum + part or part
      end
    end
    if mask ~= nil then sum = sum * T(mask):reshape(batch, own, 1, points) end
    local seen = sum:reshape(batch, groups, channels / groups * kh * kw, oh * ow)
    local kernel = w:reshape(groups, w:size(1) / groups, -1)
    local result = kernel:matmul(seen):reshape(batch, w:size(1), oh, ow)
    return bias ~= nil and result + T(bias):reshape(1, -1, 1, 1) or result
  end)
end
