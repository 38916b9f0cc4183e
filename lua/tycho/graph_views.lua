--- graph_views.lua -- views by strides in the terms of other systems: ranges of dims, an order, dims of one place.
-- In: sizes of a contiguous tensor; a view's sizes, strides and offset over its elements. Out: under which sizes of the
-- tensor the view takes a range of each dim, or reads each dim by windows. nil where there are none.

---@param ops table what graph_ops.lua gives
return function(ops)
  local M = {}

  local floor, abs, max = math.floor, math.abs, math.max

  --- Dims of a view that move at all; the others have one place, or the same place again and again.
  local function moving(shape, strides)
    local list = {}
    for d = 1, #shape do
      if shape[d] > 1 and strides[d] ~= 0 then list[#list + 1] = d end
    end
    return list
  end

  --- Whether a view shows elements one behind the other.
  local function is_run(shape, strides)
    local own = ops.row_major(shape)
    for d = 1, #shape do
      if shape[d] ~= 1 and strides[d] ~= own[d] then return false end
    end
    return true
  end

  --- Where the view begins in each dim, and for each dim the view's dims that run along it, at most `most`.
  local function along(sizes, shape, strides, offset, most)
    local own, place, taken, last = ops.row_major(sizes), {}, {}, {}
    for d = 1, #sizes do
      place[d], taken[d] = floor(offset / own[d]) % max(sizes[d], 1), {}
      last[d] = place[d]
    end
    for _, v in ipairs(moving(shape, strides)) do
      local found
      for d = 1, #sizes do -- the coarsest that divides it
        if not found and #taken[d] < most and sizes[d] > 1 and strides[v] % own[d] == 0 then
          local to = last[d] + strides[v] / own[d] * (shape[v] - 1)
          if to >= 0 and to < sizes[d] then found, last[d] = d, to end
        end
      end
      if not found then return nil end
      table.insert(taken[found], v)
    end
    return place, taken, own
  end

  --- Sizes whose strides are these, the largest first; nil where one is no multiple of the next.
  local function sizes_by(numel, steps)
    table.sort(steps, function(a, b) return a > b end)
    local sizes, rest = {}, numel
    for _, step in ipairs(steps) do
      if rest % step ~= 0 then return nil end
      if step ~= rest then sizes[#sizes + 1] = rest / step end
      rest = step
    end
    if rest ~= 1 or #sizes == 0 then sizes[#sizes + 1] = rest end
    return #sizes <= 8 and sizes or nil
  end

  --- The view as ranges: {whole = true} of all elements in order, {run = true} of as many as it has; else `sizes` of
  --- the tensor (`from` itself where that does), `place`: where each dim begins, `taken`: the view's dim that runs
  --- along it or nil, `own`: strides of sizes.
  function M.ranges(from, shape, strides, offset)
    local numel = ops.numel(from)
    local run = is_run(shape, strides)
    if run and offset == 0 and ops.numel(shape) == numel then return { whole = true } end
    local function attempt(sizes)
      local place, taken, own = along(sizes, shape, strides, offset, 1)
      if not place then return nil end
      for d = 1, #sizes do taken[d] = taken[d][1] end
      return { sizes = sizes, place = place, taken = taken, own = own }
    end
    local y = attempt(from)
    if y then return y end
    local steps, both, seen = {}, {}, {}
    for _, v in ipairs(moving(shape, strides)) do
      local step = abs(strides[v])
      steps[#steps + 1] = step
      if not seen[step] then seen[step], both[#both + 1] = true, step end
    end
    for _, step in ipairs(ops.row_major(from)) do
      if not seen[step] then seen[step], both[#both + 1] = true, step end
    end
    for _, list in ipairs { steps, both } do
      local sizes = sizes_by(numel, list)
      y = sizes and attempt(sizes)
      if y then return y end
    end
    return run and { run = true } or nil
  end

  --- The view as windows: `place` and `own` as above, `taken`: lists of the view's dims that run along each dim.
  function M.windows(from, shape, strides, offset)
    local place, taken, own = along(from, shape, strides, offset, 8)
    return place and { sizes = from, place = place, taken = taken, own = own }
  end

  return M
end
