--- dims_in_place.lua -- forms of views with a trailing _, which change what dims their argument itself has.
-- In: a tensor. Out: the same tensor, whose elements stay where they are. All who have it see its new dims; views of it
-- that were made before keep theirs. A capture ends there, since what it has read of the tensor's dims would be wrong.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, set_view = check.fail, ty.internals.set_view

  --- x with the dims that fn gives it.
  local function changed(who, name, fn, x, ...)
    check.tensor(who, 1, x)
    if x.requires_grad and x.is_leaf then
      fail(who, "a leaf that requires a gradient keeps its dims, which its gradient has; use x:%s", name)
    end
    return set_view(x, check.named(who, name, fn, x, ...))
  end

  --- Removes dims of size 1 from x itself: those that are given, without any all of them.
  --- Raises where a given dim is not of size 1, or x is a leaf that requires a gradient.
  ---@param x tycho.Tensor
  ---@param dims? integer|integer[] all
  ---@return tycho.Tensor # x itself
  local function squeeze_in_place(x, dims) return changed("squeeze_", "squeeze", ty.squeeze, x, dims) end

  --- Gives x itself a new dim of size 1.
  --- Raises where the dim is out of range, or x is a leaf that requires a gradient.
  ---@param x tycho.Tensor
  ---@param dim integer its place among the dims of the result
  ---@return tycho.Tensor # x itself
  local function unsqueeze_in_place(x, dim) return changed("unsqueeze_", "unsqueeze", ty.unsqueeze, x, dim) end

  --- Exchanges two dims of x itself.
  --- Raises where a dim is out of range, or x is a leaf that requires a gradient.
  ---@param x tycho.Tensor
  ---@param dim1 integer
  ---@param dim2 integer
  ---@return tycho.Tensor # x itself
  local function transpose_in_place(x, dim1, dim2)
    return changed("transpose_", "transpose", ty.transpose, x, dim1, dim2)
  end

  --- Makes a matrix its own transpose.
  --- Raises where x has more than 2 dims, or is a leaf that requires a gradient.
  ---@param x tycho.Tensor [n, m]
  ---@return tycho.Tensor # x itself, [m, n]
  local function t_in_place(x) return changed("t_", "t", ty.t, x) end

  local function in_place(name, args, fn, help)
    row { name, args, fn, help .. ", returns it", shape = "as of " .. name:sub(1, -2), single = true }
  end
  in_place("squeeze_", "x, dims", squeeze_in_place, "removes dims of size 1 from x itself")
  in_place("unsqueeze_", "x, dim", unsqueeze_in_place, "gives x itself a new dim of size 1")
  in_place("transpose_", "x, dim1, dim2", transpose_in_place, "exchanges two dims of x itself")
  in_place("t_", "x", t_in_place, "makes a matrix its own transpose")
end
