--- torch_values.lua -- values that PyTorch gave, as the scripts beside the fixtures write them: read and compared.

local H = require "spec.helper"
local ty = H.ty

local M = {}

--- A tensor of the fixtures.
function M.tensor(v)
  if type(v) ~= "table" then return v end
  local data = {}
  for i = 1, #v do data[i] = v[i] end
  return ty.tensor(data, { dtype = v.dtype or "f64" }):reshape(v.shape)
end

--- Fails where a tensor is not within 1e-9 of the fixture's, which has 11 digits.
function M.close(want, got, what)
  assert(#want.shape == got.ndim and table.concat(want.shape, ",") == table.concat(got.shape, ","),
    ("%s: [%s] instead of [%s]"):format(what, table.concat(got.shape, ","), table.concat(want.shape, ",")))
  local flat = got:to("f64"):reshape(-1):totable()
  for i = 1, #want do
    local v = flat[i]
    local wrong = math.abs(want[i] - v)
    local same = want[i] == v or want[i] ~= want[i] and v ~= v
    if not same and (wrong ~= wrong or wrong > 1e-9 * math.max(1, math.abs(want[i]))) then
      error(("%s: element %d is %.12g instead of %.12g"):format(what, i, v, want[i]))
    end
  end
end

--- The state of a row as tensors by name.
function M.state_of(row)
  local sd = {}
  for name, v in pairs(row.state) do sd[name] = M.tensor(v) end
  return sd
end

function M.inputs_of(row)
  local list = {}
  for i, v in ipairs(row.inputs) do list[i] = M.tensor(v) end
  return list
end

--- The gradient that the scripts sent in: cos of each element's position.
function M.seed_of(y) return ty.arange(y:numel(), { dtype = "f64" }):cos():reshape(y.shape) end

return M
