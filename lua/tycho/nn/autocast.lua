--- nn/autocast.lua -- mixed precision: the products of layers in a half float, all else as it is.
-- Within ty.autocast("bf16", fn):
-- 1. Linear, convolution, recurrent and attention layers take their operands in bf16 and give bf16. Parameters stay
-- in    f32, the master weights: gradients come back to them through the casts.
-- 2. What is added up or multiplied over a dim gives f32, as a function and as a module: losses, softmax,
-- log_softmax,    layer, group and RMS norms, sum, prod, cumsum, cumprod, mean, var, std, norm, logsumexp,
-- logcumsumexp. Half floats    have few bits to lose; all these compute in f32 as always, and are not rounded.
-- 3. All else is as it is without: products that are written out (x:matmul(w)), batch norms, pooling, dropout and
-- what    works element by element keep the dtype they get.

---@param ty table the module tycho
---@return function autocast, function cast what the layers ask, function half what rule 2 asks
return function(ty)
  local check = require("tycho.arguments")(ty)
  local unpack, select, pcall, error = unpack, select, pcall, error
  local names = { f16 = true, bf16 = true, f32 = true }

  --- What is in force, nil where nothing is. It enters the key of every compiled function.
  local enter, leave_mode, in_force = ty.internals.modes.autocast, ty.internals.modes.leave, ty.internals.modes.half

  --- Operands of a product as autocast wants them: f32 and half floats in its dtype, others as they are.
  local function cast(...)
    local dtype = in_force()
    if not dtype then return ... end
    local list = { ... }
    for i = 1, select("#", ...) do
      local t = list[i]
      if t ~= nil and names[t.dtype] then list[i] = t:to(dtype) end
    end
    return unpack(list, 1, select("#", ...))
  end

  local function leave(scope, ok, ...)
    leave_mode(scope)
    if not ok then return error(..., 0) end
    return ...
  end

  --- Calls fn(...); layers compute their products in that dtype meanwhile. Gives fn's results.
  --- Raises where the dtype is no half float, or fn no function; and what fn raises.
  ---@param dtype "bf16"|"f16"|"f32"|false false: as without
  ---@param fn function
  ---@param ... any what fn is given
  ---@return any ... # what fn gives
  local function autocast(dtype, fn, ...)
    if dtype ~= false and not names[dtype] then
      check.fail("autocast", "argument 1 must be \"bf16\", \"f16\", \"f32\" or false, got %s", check.show(dtype))
    end
    local meta = type(fn) == "table" and getmetatable(fn)
    if type(fn) ~= "function" and not (type(meta) == "table" and rawget(meta, "__call")) then
      check.fail("autocast", "argument 2 must be a function, got %s", check.show(fn))
    end
    return leave(enter(dtype), pcall(fn, ...))
  end

  --- What autocast() was given last: for rule 2, and for what runs again later.
  local function half() return in_force() or false end

  return autocast, cast, half
end
