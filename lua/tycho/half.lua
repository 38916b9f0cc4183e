--- half.lua -- half floats in composites: computed in f32, rounded once.
-- In: a float tensor. Out: it in f32 where it is of half floats, with the dtype that follows; or neither.

---@param ty table the core module
---@param check table arguments.lua
return function(ty, check)
  local halves, autocast = { f16 = true, bf16 = true }, ty._half
  local M = { halves = halves }

  --- A float tensor, in f32 when it is of half floats; then that dtype follows.
  function M.wide(who, i, x)
    check.float(who, i, x)
    local dtype = x.dtype
    if halves[dtype] then return x:to("f32"), dtype end
    return x
  end

  --- The same for what stays in f32 within ty.autocast.
  function M.whole(who, i, x)
    local w, half = M.wide(who, i, x)
    if half and autocast() then half = nil end
    return w, half
  end

  --- y in the dtype that wide or whole told.
  function M.back(y, dtype) return dtype and y:to(dtype) or y end

  return M
end
