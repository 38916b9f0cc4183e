--- window_arguments.lua -- arguments of functions over windows: sizes for each dim of places, inputs with or without a
-- batch.

---@param check table arguments.lua
return function(check)
  local fail = check.fail
  local M = {}
  local MOST = 2 ^ 31 - 1 -- places of a dim

  --- An option that is one whole number for all n dims, or a list of n of them; least is the smallest allowed.
  function M.sizes_of(who, what, v, n, default, least)
    if v == nil then v = default end
    local list = {}
    for i = 1, n do
      local one = v
      if type(v) == "table" then
        one = v[i]
        if #v ~= n then fail(who, "%s must be a number or a list of %d, got a list of %d", what, n, #v) end
      end
      if type(one) ~= "number" or one % 1 ~= 0 or one < least then
        fail(who, "%s must be whole and at least %d, got %s", what, least, check.show(one))
      end
      if one > MOST then fail(who, "%s must be at most %d, got %s", what, MOST, check.show(one)) end
      list[i] = one
    end
    return list
  end

  --- x with a batch dim, and whether it had none. n: how many dims of places it has.
  function M.batched(who, x, n)
    check.tensor(who, 1, x)
    local rank = x.ndim
    if rank == n + 2 then return x, false end
    if rank == n + 1 then return x:unsqueeze(1), true end
    return fail(who, "argument 1 must have %d dims, or %d without a batch, got %s", n + 2, n + 1, check.text(x))
  end

  return M
end
