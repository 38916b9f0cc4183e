--- places.lua -- ONNX operators that take elements by their positions, or give positions.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local ipairs = ipairs
local T, dim_of = values.tensor, values.dim

--- Positions from 0, which count from the end where they are negative, as positions from 1.
local function from_1(index, n)
  index = index.dtype == "i64" and index or index:to("i64")
  return ty.where(index:lt(0), index + n, index) + 1
end

return function(op)
  op("Gather", "axis", function(a, x, index)
    x, index = T(x), T(index)
    local d = dim_of(x, a.axis or 0)
    local at = from_1(index, x:size(d))
    local sizes = {}
    for k = 1, x.ndim do
      if k == d then
        for i = 1, at.ndim do sizes[#sizes + 1] = at:size(i) end
      else
        sizes[#sizes + 1] = x:size(k)
      end
    end
    return x:index_select(d, at:reshape(-1)):reshape(sizes)
  end)

  op("GatherElements", "axis", function(a, x, index)
    x, index = T(x), T(index)
    local d = dim_of(x, a.axis or 0)
    return x:gather(d, from_1(index, x:size(d)))
  end)

  --- The positions, from 1, in x with its dims first + 1 .. first + n as one, that the tuples in index mean.
  local function tuples(x, index, first, n)
    local at
    for k = 1, n do
      local size = x:size(first + k)
      local i = index:slice(-1, k, k):squeeze(-1)
      i = ty.where(i:lt(0), i + size, i)
      at = at and at * size + i or i
    end
    return at + 1
  end

  local function product(x, first, last)
    local n = 1
    for d = first, last do n = n * x:size(d) end
    return n
  end

  op("GatherND", "batch_dims", function(a, x, index)
    x, index = T(x), T(index):to("i64")
    local b, n = a.batch_dims or 0, index:size(-1)
    local sizes = {}
    for d = 1, index.ndim - 1 do sizes[#sizes + 1] = index:size(d) end
    for d = b + n + 1, x.ndim do sizes[#sizes + 1] = x:size(d) end
    local batch, within, rest = product(x, 1, b), product(x, b + 1, b + n), product(x, b + n + 1, x.ndim)
    local at = tuples(x, index, b, n):reshape(batch, -1)
    at = at + values.places(batch):unsqueeze(2) * within
    return x:reshape(batch * within, rest):index_select(1, at:reshape(-1)):reshape(sizes)
  end)

  local reductions = { add = "sum", mul = "prod", max = "amax", min = "amin" }

  --- x with src at positions along a dim; one that several are written to takes them in order.
  local function scatter(x, d, at, src, how)
    if how == nil or how == "none" then return x:scatter(d, at, src) end
    return x:scatter_reduce(d, at, src, reductions[how])
  end

  local function scatter_elements(a, x, index, src)
    x, index, src = T(x), T(index), T(src)
    local d = dim_of(x, a.axis or 0)
    return scatter(x, d, from_1(index, x:size(d)), src, a.reduction)
  end
  op("ScatterElements", "axis reduction", scatter_elements)
  op("Scatter", "axis", scatter_elements)

  op("ScatterND", "reduction", function(a, x, index, src)
    x, index, src = T(x), T(index):to("i64"), T(src)
    local n = index:size(-1)
    local within, rest = product(x, 1, n), product(x, n + 1, x.ndim)
    local at = tuples(x, index, 0, n):reshape(-1, 1)
    local rows = at:size(1)
    local y = scatter(x:reshape(within, rest), 1, at:expand({ rows, rest }), src:reshape(rows, rest), a.reduction)
    return y:reshape(x.shape)
  end)

  op("TensorScatter", "axis mode", function(a, past, update, indices)
    past, update = T(past), T(update)
    local d = dim_of(past, a.axis or -2)
    local n, batch = update:size(d), past:size(1)
    local start = indices ~= nil and T(indices):to("i64") or ty.zeros({ batch }, values.there "i64")
    local at = start:unsqueeze(2) + values.places(n):unsqueeze(1)
    if a.mode == "circular" then at = at:remainder(past:size(d)) end
    at = at + 1
    local sizes = {}
    for k = 1, past.ndim do sizes[k] = k == 1 and batch or k == d and n or 1 end
    return past:scatter(d, at:reshape(sizes):expand(update.shape), update)
  end)

  op("NonZero", "", function(_, x)
    x = T(x)
    if x.ndim == 0 then x = x:reshape(1) end
    return (x:nonzero() - 1):t()
  end)

  op("Compress", "axis", function(a, x, condition)
    x, condition = T(x), T(condition)
    local at = condition:nonzero():reshape(-1)
    if not a.axis then return x:reshape(-1):index_select(1, at) end
    return x:index_select(dim_of(x, a.axis), at)
  end)

  op("TopK", "axis k largest sorted", function(a, x, k)
    x = T(x)
    local v, at = x:topk(k ~= nil and values.number(k) or a.k, dim_of(x, a.axis or -1), a.largest ~= 0)
    return v, at - 1
  end)

  op("OneHot", "axis", function(a, index, depth, pair)
    index, pair = T(index), T(pair)
    depth = values.number(depth)
    local axis = a.axis or -1
    local d = (axis < 0 and axis + index.ndim + 1 or axis) + 1
    index = index:to("i64")
    index = ty.where(index:lt(0), index + depth, index):unsqueeze(d)
    local sizes = {}
    for k = 1, index.ndim do sizes[k] = k == d and depth or 1 end
    local hot = index:eq(values.places(depth):reshape(sizes))
    return ty.where(hot, pair:slice(1, 2, 2):reshape({}), pair:slice(1, 1, 1):reshape({}))
  end)

  op("Unique", "axis sorted", function(a, x)
    x = T(x)
    local dim = a.axis and dim_of(x, a.axis)
    local y, at, counts = x:unique { dim = dim, sorted = a.sorted ~= 0, counts = true }
    local back = at:reshape(-1)
    local first = ty.full({ counts:size(1) }, back:numel(), { dtype = "i64", device = counts.device })
    first = first:scatter_reduce(1, back, values.places(back:numel()), "amin")
    return y, first, back - 1, counts
  end)

  --- Boxes that overlap a better one of their class less than asked, best first.
  op("NonMaxSuppression", "center_point_box", function(a, boxes, scores, most, overlap, least)
    boxes, scores = T(boxes), T(scores)
    most = most ~= nil and values.number(most) or 0
    overlap = overlap ~= nil and values.number(overlap) or 0
    least = least ~= nil and values.number(least)
    local all, marks, out = boxes:totable(), scores:totable(), {}
    local function corners(b)
      if a.center_point_box == 1 then return b[1] - b[3] / 2, b[2] - b[4] / 2, b[1] + b[3] / 2, b[2] + b[4] / 2 end
      return math.min(b[1], b[3]), math.min(b[2], b[4]), math.max(b[1], b[3]), math.max(b[2], b[4])
    end
    local function ratio(p, q)
      local a1, b1, c1, d1 = corners(p)
      local a2, b2, c2, d2 = corners(q)
      local w, h = math.min(c1, c2) - math.max(a1, a2), math.min(d1, d2) - math.max(b1, b2)
      if w <= 0 or h <= 0 then return 0 end
      return w * h / ((c1 - a1) * (d1 - b1) + (c2 - a2) * (d2 - b2) - w * h)
    end
    for batch, classes in ipairs(marks) do
      for class, row in ipairs(classes) do
        local order, kept = {}, {}
        for i, s in ipairs(row) do
          if not least or s > least then order[#order + 1] = i end
        end
        table.sort(order, function(p, q) return row[p] > row[q] or row[p] == row[q] and p < q end)
        for _, i in ipairs(order) do
          local fits = #kept < most
          for _, j in ipairs(kept) do fits = fits and ratio(all[batch][i], all[batch][j]) <= overlap end
          if fits then
            kept[#kept + 1] = i
            out[#out + 1] = { batch - 1, class - 1, i - 1 }
          end
        end
      end
    end
    return #out > 0 and ty.tensor(out, values.there "i64") or ty.zeros({ 0, 3 }, values.there "i64")
  end)

end
