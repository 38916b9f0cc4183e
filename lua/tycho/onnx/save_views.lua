--- save_views.lua -- views by strides, and writes under them, as ONNX's Reshape, Slice, Gather, Transpose, Expand, Pad.
-- In: a builder of nodes (save_model.lua), the name of a contiguous value, its sizes, a view of it. Out: the name of a
-- value.

local ty = require "tycho"

local floor = math.floor
local concat, sort = table.concat, table.sort
local ipairs = ipairs

---@param ops table what graph_ops.lua gives
return function(ops)
  local M = {}

  local views = require("tycho.graph_views")(ops)

  local function same(a, b)
    if #a ~= #b then return false end
    for i = 1, #a do
      if a[i] ~= b[i] then return false end
    end
    return true
  end

  --- The value in other sizes; of one that was reshaped, what it was before.
  function M.reshape(B, x, from, to)
    if same(from, to) then return x end
    local y = B:node("Reshape", { B.reshaped[x] or x, B:ints(to) })
    B.reshaped[y] = B.reshaped[x] or x
    return y
  end

  --- The value repeated along its dims of size 1.
  function M.expand(B, x, from, to)
    return same(from, to) and x or B:node("Expand", { x, B:ints(to) })
  end

  --- Ranges of dims: {dim, first from 0, last, step}.
  local function slice(B, x, list)
    if #list == 0 then return x end
    local starts, ends, axes, steps = {}, {}, {}, {}
    for i, r in ipairs(list) do
      starts[i], axes[i], steps[i] = r[2], r[1] - 1, r[4]
      ends[i] = r[4] > 0 and r[3] + 1 or r[3] - 1
      if ends[i] < 0 then ends[i] = -2 ^ 31 end -- behind the first one: a place from the end is below that
    end
    return B:node("Slice", { x, B:ints(starts), B:ints(ends), B:ints(axes), B:ints(steps) })
  end

  --- The value with its dims in the order of the view's: order[i] is the view's dim that dim i is. Dims of the view
  --- that none is are of one place, or repeated.
  local function arrange(B, x, sizes, order, shape)
    local sorted, perm, moved = {}, {}, false
    for i = 1, #order do sorted[i] = i end
    sort(sorted, function(a, b) return order[a] < order[b] end)
    local inner, at, kept = {}, {}, {}
    for i, p in ipairs(sorted) do
      perm[i], inner[i], moved = p - 1, sizes[p], moved or p ~= i
      at[order[p]] = sizes[p]
    end
    if moved then x = B:node("Transpose", { x }, { perm = perm }) end
    for d = 1, #shape do kept[d] = at[d] or 1 end
    return M.expand(B, M.reshape(B, x, inner, kept), kept, shape)
  end

  --- By ranges: a slice of each dim, without those that have one place.
  local function by_ranges(B, x, from, v, shape, strides)
    x = M.reshape(B, x, from, v.sizes)
    local list, kept, order, sliced = {}, {}, {}, {}
    for d = 1, #v.sizes do
      local dim, first, step = v.taken[d], v.place[d], 1
      local last = first
      if dim then
        step = strides[dim] / v.own[d]
        last = first + step * (shape[dim] - 1)
        kept[#kept + 1], order[#order + 1] = shape[dim], dim
      end
      if first ~= 0 or last ~= v.sizes[d] - 1 or step ~= 1 then list[#list + 1] = { d, first, last, step } end
      sliced[d] = dim and shape[dim] or 1
    end
    return arrange(B, M.reshape(B, slice(B, x, list), sliced, kept), kept, order, shape)
  end

  --- Places of a dim that the view's dims read, as a tensor with a dim for each of these.
  local function places(first, steps, counts)
    local y = ty.full({ 1 }, first, { dtype = "i64" })
    for i, count in ipairs(counts) do
      y = y:unsqueeze(-1) + ty.arange(count, { dtype = "i64" }) * steps[i]
    end
    return y:reshape(counts)
  end

  --- By windows: a Gather of each dim, which puts the view's dims in its place.
  local function by_windows(B, x, from, v, shape, strides)
    local sizes, order, axis = {}, {}, 0
    for d = 1, #from do
      local dims, counts, steps = v.taken[d], {}, {}
      for i, dim in ipairs(dims) do counts[i], steps[i] = shape[dim], strides[dim] / v.own[d] end
      local plain = #dims == 1 and steps[1] == 1 and counts[1] == from[d]
      if not plain then
        x = B:node("Gather", { x, B:tensor(places(v.place[d], steps, counts)) }, { axis = axis })
      end
      for i, dim in ipairs(dims) do
        sizes[#sizes + 1], order[#order + 1] = counts[i], dim
        axis = axis + 1
      end
    end
    return arrange(B, x, sizes, order, shape)
  end

  --- For every element of a view its place in the tensor.
  local function all_places(shape, strides, offset)
    local y = ty.full({}, offset, { dtype = "i64" })
    for d = 1, #shape do y = y:unsqueeze(-1) + ty.arange(shape[d], { dtype = "i64" }) * strides[d] end
    return y
  end

  local MOST = 2 ^ 22 -- places that a file may list of one view

  --- The view of a value.
  function M.view(B, x, from, shape, strides, offset)
    if ops.numel(shape) == 0 then return M.reshape(B, slice(B, M.reshape(B, x, from, { -1 }),
      { { 1, 0, -1, 1 } }), { 0 }, shape) end
    local v = views.ranges(from, shape, strides, offset)
    if v and v.whole then return M.reshape(B, x, from, shape) end
    if v and v.run then
      local flat, count = { ops.numel(from) }, ops.numel(shape)
      x = slice(B, M.reshape(B, x, from, flat), { { 1, offset, offset + count - 1, 1 } })
      return M.reshape(B, x, { count }, shape)
    end
    if v then return by_ranges(B, x, from, v, shape, strides) end
    v = views.windows(from, shape, strides, offset)
    if v then return by_windows(B, x, from, v, shape, strides) end
    if ops.numel(shape) > MOST then B.refuse("a view of sizes {" .. concat(shape, ", ") .. "} that overlaps itself") end
    local at = B:tensor(all_places(shape, strides, offset))
    return B:node("Gather", { M.reshape(B, x, from, { ops.numel(from) }), at })
  end

  --- Where a write of these sizes and strides begins in each dim of a tensor, when it is a box of it; nil else.
  local function box(whole, shape, strides, offset)
    local own, begin = ops.row_major(whole), {}
    if #shape ~= #whole then return nil end
    for d = 1, #whole do
      if shape[d] > 1 and strides[d] ~= own[d] then return nil end
      begin[d] = floor(offset / own[d]) % whole[d]
      if begin[d] + shape[d] > whole[d] then return nil end
    end
    return begin
  end

  --- What a chain of writes into an empty tensor joins along one dim: operands in order and the dim; nil else.
  local function joined(n)
    local list, whole = {}, n.shape
    while n.op == "put" do
      local begin = box(whole, n.inputs[2].shape, n.strides, n.offset)
      if not begin then return nil end
      table.insert(list, 1, { node = n.inputs[2], begin = begin })
      n = n.inputs[1]
    end
    if n.op ~= "empty" or #list == 0 then return nil end
    local dim
    for d = 1, #whole do
      if list[1].node.shape[d] ~= whole[d] then
        if dim then return nil end
        dim = d
      end
    end
    dim = dim or 1
    local at, operands = 0, {}
    for i, e in ipairs(list) do
      for d = 1, #whole do
        if e.begin[d] ~= (d == dim and at or 0) then return nil end
        if d ~= dim and e.node.shape[d] ~= whole[d] then return nil end
      end
      at = at + e.node.shape[dim]
      operands[i] = e.node
    end
    return at == whole[dim] and operands or nil, dim
  end

  M.joined = joined

  --- A constant around a value, or nil: what to write for a `put` into a constant.
  local function padded(B, n)
    local a, b = n.inputs[1], n.inputs[2]
    local begin = a.op == "const" and n.dtype ~= "bool" and box(n.shape, b.shape, n.strides, n.offset)
    if not begin then return nil end
    local pads = {}
    for d = 1, #n.shape do
      pads[d] = begin[d]
      pads[#n.shape + d] = n.shape[d] - begin[d] - b.shape[d]
    end
    return B:node("Pad", { B:value(b), B:ints(pads), B:number(a.dtype, a.value) })
  end

  --- A value with what lies under a view of it replaced.
  function M.put(B, n)
    local a, b = n.inputs[1], n.inputs[2]
    if ops.numel(b.shape) == 0 then return B:value(a) end
    local list, dim = joined(n)
    if list then
      local names = {}
      for i, e in ipairs(list) do names[i] = B:value(e) end
      return #names == 1 and names[1] or B:node("Concat", names, { axis = dim - 1 })
    end
    local y = padded(B, n)
    if y then return y end
    if ops.numel(b.shape) > MOST then B.refuse "a write of so many places that are no range" end
    local flat, count = { ops.numel(a.shape) }, { ops.numel(b.shape) }
    local at = B:tensor(all_places(b.shape, n.strides, n.offset):reshape(count))
    y = B:node("ScatterElements", { M.reshape(B, B:value(a), a.shape, flat), at,
      M.reshape(B, B:value(b), b.shape, count) }, { axis = 0 })
    return M.reshape(B, y, flat, n.shape)
  end

  return M
end
