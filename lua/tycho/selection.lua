--- selection.lua -- results whose shape depends on data, of tensors on other devices than the CPU: there, by scans,
-- searches and sorts, so that of the elements none but the count is copied.
-- In: tensors, as lua_select.c gives them. Out: functions by name, whose results are those of the CPU.

local ty = require "tycho"

local M = {}

local function integers(x) return { dtype = "i64", device = x.device } end

--- Positions from 1 of the true elements of a row, in order: i64 [count].
local function places_of(flat)
  local n = flat:numel()
  if n == 0 then return ty.zeros({ 0 }, integers(flat)) end
  local before = flat:cumsum(1)
  local count = before[n]:item()
  if count == 0 then return ty.zeros({ 0 }, integers(flat)) end
  return ty.searchsorted(before, ty.range(count, integers(flat)))
end

--- Row-major positions from 1 of the elements of a mask that hold: i64 [count].
function M.places(mask)
  return places_of(mask:reshape(-1))
end

function M.nonzero(x)
  local flat = (x.dtype == "bool" and x or x:detach():ne(0)):reshape(-1)
  local at, sizes, columns = places_of(flat), x.shape, {}
  if #sizes == 0 or at:numel() == 0 then return ty.zeros({ at:numel(), #sizes }, integers(x)) end
  local rest = at - 1
  for d = #sizes, 2, -1 do
    columns[d] = rest % sizes[d] + 1
    rest = rest:floor_divide(sizes[d])
  end
  columns[1] = rest + 1
  return ty.stack(columns, 2)
end

--- x and the mask have sizes that broadcast.
function M.masked_select(x, mask)
  x, mask = unpack(ty.broadcast_tensors { x, mask })
  return x:reshape(-1):index_select(1, places_of(mask:reshape(-1)))
end

--- NaNs are one value, -0 is 0, as sorts have them; of equal ones the first.
function M.unique(x)
  local flat = x:reshape(-1)
  local n, plain = flat:numel(), flat:detach()
  if n == 0 then return flat:clone(), ty.zeros(x.shape, integers(x)) end
  local order = plain:argsort(1)
  local sorted = plain:index_select(1, order)
  local a, b = sorted[{ { 1, n - 1 } }], sorted[{ { 2, n } }]
  local differs = a:ne(b)
  if x.dtype:find "^b?f%d" then differs = differs:logical_and(a:isnan():logical_and(b:isnan()):logical_not()) end
  local group = ty.cat({ ty.ones({ 1 }, { dtype = "bool", device = x.device }), differs }, 1):cumsum(1)
  local first = order:index_select(1, ty.searchsorted(group, ty.range(group[n]:item(), integers(x))))
  local at = ty.scatter(group, 1, order, group)
  return flat:index_select(1, first), at:reshape(x.shape)
end

return M
