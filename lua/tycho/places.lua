--- places.lua -- composites that read and write elements by positions, and those that say where values stand.
-- Positions count from 1, negative ones from the end. An index that is out of range raises where it is used.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, is_tensor = check.fail, ty.is_tensor
  local where, eq, ne = ty.where, ty.eq, ty.ne
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true, c64 = true, c128 = true } -- and pairs of them

  --- A tensor of integers.
  local function integers(who, i, x)
    check.tensor(who, i, x)
    if floats[x.dtype] or x.dtype == "bool" then
      fail(who, "argument %d must be of integers, got %s (use :to(\"i64\"))", i, check.text(x))
    end
    return x
  end

  --- Positions along a dim of that size: checked, and counted from 1.
  local function normal(who, size, index, device)
    return check.named(who, "take", ty.take, ty.range(size, { dtype = "i64", device = device }), index)
  end

  --- An index of one dim, spread over the other sizes of x; and the sizes of what goes there.
  local function along(who, x, dim, index)
    integers(who, 3, index)
    if index.ndim ~= 1 then fail(who, "the index must have one dim, got %s", check.text(index)) end
    local sizes, ones = x.shape, {}
    for d = 1, #sizes do ones[d] = 1 end
    if x:numel() == 0 and sizes[dim] > 0 then normal(who, sizes[dim], index, x.device) end -- looked at all the same
    ones[dim], sizes[dim] = index:numel(), index:numel()
    return index:reshape(ones):expand(sizes), sizes
  end

  local function same_sizes(who, src, sizes)
    local got = src.shape
    for d = 1, math.max(#sizes, #got) do
      if sizes[d] ~= got[d] then
        fail(who, "the source must have sizes {%s}, got %s", table.concat(sizes, ", "), check.text(src))
      end
    end
  end

  --- What goes into elements of x, in its dtype.
  local function fitting(who, x, v)
    if is_tensor(v) then
      if floats[v.dtype] and not floats[x.dtype] then
        fail(who, "%s values do not go into %s", v.dtype, check.text(x))
      end
      return v.dtype == x.dtype and v or v:to(x.dtype)
    end
    if type(v) == "number" and not floats[x.dtype] and v % 1 ~= 0 then
      fail(who, "%.14g does not fit %s", v, check.text(x))
    end
    return v
  end

  --- Elements of x at the index's positions along a dim; the other sizes broadcast. Without a dim x is flattened.
  --- Raises where the index is not of integers or out of range, or sizes do not broadcast.
  ---@param x tycho.Tensor
  ---@param index tycho.Tensor integers, as many dims as x
  ---@param dim? integer flattened
  ---@return tycho.Tensor # the broadcast shape, that of the index along dim
  local function take_along_dim(x, index, dim)
    local who = "take_along_dim"
    check.tensor(who, 1, x)
    integers(who, 2, index)
    if dim == nil then return check.named(who, "gather", ty.gather, x:reshape(-1), 1, index:reshape(-1)) end
    dim = check.dim(who, dim, x.ndim)
    if x.ndim ~= index.ndim then fail(who, "dims differ, %s and %s", check.text(x), check.text(index)) end
    local a, b = x.shape, index.shape
    for d = 1, #a do
      if d ~= dim then
        if a[d] ~= b[d] and a[d] ~= 1 and b[d] ~= 1 then
          fail(who, "sizes do not broadcast, %s and %s", check.text(x), check.text(index))
        end
        if a[d] == 1 then a[d] = b[d] else b[d] = a[d] end
      end
    end
    return check.named(who, "gather", ty.gather, x:expand(a), dim, index:expand(b))
  end

  --- x with src's places written at the positions of a dim that the index names; the last of equal ones wins.
  --- Raises where the index is not of integers or out of range, or the source has other sizes.
  ---@param x tycho.Tensor
  ---@param dim integer
  ---@param index tycho.Tensor integers [n]
  ---@param src tycho.Tensor sizes of x, but n along dim
  ---@return tycho.Tensor # shape and dtype of x
  local function index_copy(x, dim, index, src)
    local who = "index_copy"
    check.tensor(who, 1, x)
    dim = check.dim(who, dim, x.ndim)
    check.tensor(who, 4, src)
    local at, sizes = along(who, x, dim, index)
    same_sizes(who, src, sizes)
    return check.named(who, "scatter", ty.scatter, x, dim, at, fitting(who, x, src))
  end

  --- x with src's places added at the positions of a dim that the index names, one after the other.
  --- Raises where the index is not of integers or out of range, or the source has other sizes.
  ---@param x tycho.Tensor
  ---@param dim integer
  ---@param index tycho.Tensor integers [n], from 1, negative from the end
  ---@param src tycho.Tensor sizes of x, but n along dim
  ---@return tycho.Tensor # shape and dtype of x
  local function index_add(x, dim, index, src)
    local who = "index_add"
    check.tensor(who, 1, x)
    dim = check.dim(who, dim, x.ndim)
    check.tensor(who, 4, src)
    local at, sizes = along(who, x, dim, index)
    same_sizes(who, src, sizes)
    return check.named(who, "scatter_add", ty.scatter_add, x, dim, at, src)
  end

  --- x with a number at the positions of a dim that the index names.
  --- Raises where the index is not of integers or out of range, or the value does not fit the dtype.
  ---@param x tycho.Tensor
  ---@param dim integer
  ---@param index tycho.Tensor integers [n]
  ---@param value number|tycho.Tensor a number or 0-d tensor
  ---@return tycho.Tensor # shape and dtype of x
  local function index_fill(x, dim, index, value)
    local who = "index_fill"
    check.tensor(who, 1, x)
    dim = check.dim(who, dim, x.ndim)
    check.operand(who, 4, value)
    local at, sizes = along(who, x, dim, index)
    if is_tensor(value) then
      if value.ndim ~= 0 then fail(who, "the value must be a number or 0-d, got %s", check.text(value)) end
      value = value:expand(sizes)
    end
    return check.named(who, "scatter", ty.scatter, x, dim, at, fitting(who, x, value))
  end

  --- x with values written where the tensors of positions meet, one for each of the first dims; their sizes broadcast.
  --- A bool tensor names the places where it holds, which reads it. With accumulate values are added, in order; else
  --- the last of equal ones wins.
  --- Raises where positions are out of range, there are more of them than dims, or the values do not broadcast.
  ---@param x tycho.Tensor
  ---@param indices tycho.Tensor[] integers or bool
  ---@param values tycho.Tensor|number broadcasts to the positions and the other dims of x
  ---@param accumulate? boolean false
  ---@return tycho.Tensor # shape and dtype of x
  local function index_put(x, indices, values, accumulate)
    local who = "index_put"
    check.tensor(who, 1, x)
    if is_tensor(indices) then indices = { indices } end
    if type(indices) ~= "table" or #indices == 0 then
      fail(who, "argument 2 must be a table of index tensors, got %s", check.show(indices))
    end
    check.operand(who, 3, values)
    accumulate = check.boolean(who, 4, accumulate, "accumulate", false)
    local list = {}
    for i = 1, #indices do
      local index = check.tensor(who, 2, indices[i])
      if index.dtype == "bool" then
        local places = index:nonzero()
        for d = 1, index.ndim do list[#list + 1] = places:select(2, d) end
      else
        list[#list + 1] = integers(who, 2, index)
      end
    end
    if #list > x.ndim then fail(who, "%d index tensors for %s", #list, check.text(x)) end
    list = check.named(who, "broadcast_tensors", ty.broadcast_tensors, list)
    local place, sizes, rows, rest = nil, list[1].shape, 1, {}
    for i = 1, #list do
      local at = normal(who, x:size(i), list[i], x.device)
      place = place and (place - 1) * x:size(i) + at or at
      rows = rows * x:size(i)
    end
    for d = #list + 1, x.ndim do
      rest[#rest + 1] = x:size(d)
      sizes[#sizes + 1] = x:size(d)
    end
    local count, each = place:numel(), 1
    for _, n in ipairs(rest) do each = each * n end
    values = fitting(who, x, values)
    if not is_tensor(values) then values = ty.full({}, values, { dtype = x.dtype, device = x.device }) end
    values = check.named(who, "expand", ty.expand, values, sizes):reshape(count, each)
    local at = place:reshape(count, 1):expand(count, each)
    local fn = accumulate and "scatter_add" or "scatter"
    return check.named(who, fn, ty[fn], x:reshape(rows, each), 1, at, values):reshape(x.shape)
  end

  --- x with the elements of src, in order, where the mask holds.
  --- Raises where the mask is not bool or does not broadcast to x, or src has fewer elements than the mask has places.
  ---@param x tycho.Tensor
  ---@param mask tycho.Tensor bool, broadcasts to x
  ---@param src tycho.Tensor at least as many elements as the mask holds
  ---@return tycho.Tensor # shape and dtype of x
  local function masked_scatter(x, mask, src)
    local who = "masked_scatter"
    check.tensor(who, 1, x)
    check.tensor(who, 2, mask)
    check.tensor(who, 3, src)
    if mask.dtype ~= "bool" then fail(who, "the mask must be bool, got %s", check.text(mask)) end
    if src:numel() == 0 then fail(who, "the source has no elements, %s", check.text(src)) end
    mask = check.named(who, "expand", ty.expand, mask, x.shape)
    local nth = mask:reshape(-1):cumsum(1):maximum(1):reshape(x.shape)
    return where(mask, check.named(who, "take", ty.take, fitting(who, x, src):reshape(-1), nth), x)
  end

  row { "take_along_dim", "x, index, dim = nil", take_along_dim, "elements at the index's positions along a dim",
    shape = "index", single = true }
  row { "index_copy", "x, dim, index, src", index_copy,
    "x with src's places written at the index's positions along a dim", shape = "x", inplace = true }
  row { "index_add", "x, dim, index, src", index_add, "x with src's places added at the index's positions along a dim",
    shape = "x", inplace = true }
  row { "index_fill", "x, dim, index, value", index_fill, "x with a number at the index's positions along a dim",
    shape = "x", inplace = true }
  row { "index_put", "x, indices, values, accumulate = false", index_put,
    "x with values written where tensors of positions meet", shape = "x", inplace = true, single = true }
  row { "masked_scatter", "x, mask, src", masked_scatter, "x with the elements of src, in order, where the mask holds",
    shape = "x", inplace = true }

  ------------------------------------------------------------------------------------------------- parts of a tensor

  --- The places of a dim at one position, without that dim.
  --- Raises where the dim or the position is out of range.
  ---@param x tycho.Tensor
  ---@param dim integer
  ---@param index integer from 1, negative from the end
  ---@return tycho.Tensor # a view without the dim
  local function select_place(x, dim, index)
    check.tensor("select", 1, x)
    dim = check.dim("select", dim, x.ndim)
    local n = x:size(dim)
    index = check.whole("select", 3, index, "index")
    if index < 0 then index = index + n + 1 end
    if index < 1 or index > n then fail("select", "index %g is out of range 1..%d (dim %d)", index, n, dim) end
    return x:narrow(dim, index, 1):squeeze(dim)
  end

  --- A copy of x in which `part`, a view of the copy, is written.
  local function with_part(who, x, src, view_of)
    check.tensor(who, 1, x)
    check.tensor(who, 2, src)
    local y = x:clone()
    local part = view_of(y)
    same_sizes(who, src, part.shape)
    part:copy_(fitting(who, x, src))
    return y
  end

  --- x with src at one position of a dim.
  --- Raises where the position is out of range, or src has other sizes than the places there.
  ---@param x tycho.Tensor
  ---@param src tycho.Tensor sizes of x without the dim
  ---@param dim integer
  ---@param index integer from 1, negative from the end
  ---@return tycho.Tensor # shape and dtype of x
  local function select_scatter(x, src, dim, index)
    return with_part("select_scatter", x, src, function(y)
      return check.named("select_scatter", "select", select_place, y, dim, index)
    end)
  end

  --- x with src at places of a dim, as x:slice(dim, first, last, step) reads them.
  --- Raises where the places are out of range, or src has other sizes than they.
  ---@param x tycho.Tensor
  ---@param src tycho.Tensor
  ---@param dim? integer 1
  ---@param first? integer 1
  ---@param last? integer the last, included where a step hits it
  ---@param step? integer 1
  ---@return tycho.Tensor # shape and dtype of x
  local function slice_scatter(x, src, dim, first, last, step)
    return with_part("slice_scatter", x, src, function(y)
      return check.named("slice_scatter", "slice", ty.slice, y, dim or 1, first or 1, last or -1, step)
    end)
  end

  --- x with src on a diagonal.
  --- Raises where the dims are out of range or the same, or src has other sizes than the diagonal.
  ---@param x tycho.Tensor at least two dims
  ---@param src tycho.Tensor
  ---@param offset? integer 0; above zero: above the main diagonal
  ---@param dim1? integer 1
  ---@param dim2? integer 2
  ---@return tycho.Tensor # shape and dtype of x
  local function diagonal_scatter(x, src, offset, dim1, dim2)
    return with_part("diagonal_scatter", x, src, function(y)
      return check.named("diagonal_scatter", "diagonal", ty.diagonal, y, offset, dim1, dim2)
    end)
  end

  row { "select", "x, dim, index", select_place, "the places of a dim at one position, without that dim",
    shape = "x without the dim", single = true }
  row { "select_scatter", "x, src, dim, index", select_scatter, "x with src at one position of a dim", shape = "x" }
  row { "slice_scatter", "x, src, dim = 1, first = 1, last = -1, step = 1", slice_scatter,
    "x with src at places of a dim", shape = "x" }
  row { "diagonal_scatter", "x, src, offset = 0, dim1 = 1, dim2 = 2", diagonal_scatter, "x with src on a diagonal",
    shape = "x" }

  ---------------------------------------------------------------------------------------------- reductions by position

  --- y[i] joined with all y before it that have the same position, in order: positions are sorted along the dim.
  local function runs(y, at, dim, join)
    local n, s = y:size(dim), 1
    while s < n do
      local same = eq(at:narrow(dim, s + 1, n - s), at:narrow(dim, 1, n - s))
      local late = y:narrow(dim, s + 1, n - s)
      late = where(same, join(y:narrow(dim, 1, n - s), late), late)
      y, s = ty.cat({ y:narrow(dim, 1, s), late }, dim), s * 2
    end
    return y
  end

  local joins = { prod = ty.mul, amax = ty.maximum, amin = ty.minimum, sum = ty.add, mean = ty.add }
  local other_names = { mul = "prod", max = "amax", min = "amin", add = "sum" }

  --- x with elements of src joined at the index's positions along a dim: by sum, prod, mean, amax or amin.
  --- Raises where an index is not of integers or out of range, or the kind is not known.
  ---@param x tycho.Tensor
  ---@param dim integer
  ---@param index tycho.Tensor integers, as many dims as x
  ---@param src tycho.Tensor at least as large as the index
  ---@param reduce "sum"|"prod"|"mean"|"amax"|"amin" also "mul", "max", "min"
  ---@param opts? {include_self: boolean?} true: the element of x is one of those joined
  ---@return tycho.Tensor # shape and dtype of x
  local function scatter_reduce(x, dim, index, src, reduce, opts)
    local who = "scatter_reduce"
    check.tensor(who, 1, x)
    dim = check.dim(who, dim, x.ndim)
    integers(who, 3, index)
    check.tensor(who, 4, src)
    local kind = other_names[reduce] or reduce
    if not joins[kind] then
      fail(who, "argument 5 must be \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\", got %s", check.show(reduce))
    end
    opts = check.options(who, opts, { include_self = "boolean" })
    local own = opts.include_self ~= false
    src = fitting(who, x, src)
    local options = { dtype = "i64", device = x.device }
    local count = check.named(who, "scatter_add", ty.scatter_add, ty.zeros(x.shape, options), dim, index,
      ty.ones(index.shape, options))
    local met = ty.gt(count, 0)
    if kind == "sum" or kind == "mean" then
      local y = check.named(who, "scatter_add", ty.scatter_add, own and x or where(met, 0, x), dim, index, src)
      if kind == "sum" then return y end
      local n = own and count + 1 or count:maximum(1)
      return floats[x.dtype] and y / n:to(x.dtype) or y:floor_divide(n):to(x.dtype)
    end
    if index:numel() == 0 then return x:clone() end
    for d = 1, x.ndim do src = check.named(who, "narrow", ty.narrow, src, d, 1, index:size(d)) end
    index = where(index:lt(0), index + (x:size(dim) + 1), index)
    local order = index:argsort(dim)
    local at = index:gather(dim, order)
    local y = runs(src:gather(dim, order), at, dim, joins[kind])
    y = check.named(who, "scatter", ty.scatter, x, dim, at, y)
    return own and where(met, joins[kind](x, y), x) or y
  end

  row { "scatter_reduce", "x, dim, index, src, reduce, {include_self = true}", scatter_reduce,
    "x with elements of src joined at the index's positions along a dim", shape = "x", inplace = true }

  ----------------------------------------------------------------------------------------------------- where values are

  --- In which of the intervals between ascending boundaries each element lies, as searchsorted.
  --- Raises where the boundaries are no vector.
  ---@param x tycho.Tensor|number
  ---@param boundaries tycho.Tensor [n], ascending; that is not checked
  ---@param right? boolean false: before an equal boundary; true: behind it
  ---@return tycho.Tensor # shape of x; i64, from 1 (below all) to n + 1
  local function bucketize(x, boundaries, right)
    local who = "bucketize"
    check.operand(who, 1, x)
    check.tensor(who, 2, boundaries)
    if boundaries.ndim ~= 1 then fail(who, "the boundaries must have one dim, got %s", check.text(boundaries)) end
    return check.named(who, "searchsorted", ty.searchsorted, boundaries, x, right)
  end

  --- Whether each element is one of the values; NaN is none of them.
  --- Raises where neither is a tensor.
  ---@param x tycho.Tensor|number
  ---@param values tycho.Tensor|number any shape
  ---@param opts? {invert: boolean?} false; true: whether it is none of them
  ---@return tycho.Tensor # bool, shape of x
  local function isin(x, values, opts)
    check.operand("isin", 1, x)
    check.operand("isin", 2, values)
    if not is_tensor(x) and not is_tensor(values) then fail("isin", "one argument must be a tensor") end
    opts = check.options("isin", opts, { invert = "boolean" })
    local y
    if not is_tensor(values) or values:numel() == 1 then
      y = eq(x, is_tensor(values) and values:reshape {} or values)
    elseif values:numel() == 0 then
      y = is_tensor(x) and ty.zeros(x.shape, { dtype = "bool", device = x.device }) or ty.full({}, false)
    elseif not is_tensor(x) then
      y = eq(values, x):any()
    else
      local dtype = ty.promote_types(x.dtype, values.dtype)
      if dtype == "bool" then dtype = "u8" end
      local sorted = ty.sort(values:to(dtype):reshape(-1))
      x = x:to(dtype)
      y = eq(sorted:take(ty.searchsorted(sorted, x):minimum(sorted:numel())), x)
    end
    return opts.invert and ty.logical_not(y) or y
  end

  --- The elements in ascending order along the first dim.
  --- Raises where x has no dims.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # shape and dtype of x
  local function msort(x)
    check.real("msort", 1, x)
    local y = x:sort(check.dim("msort", 1, x.ndim))
    return y
  end

  --- The k-th smallest element along a dim, and its position; of equal ones the first.
  --- Raises where the dim is out of range, or k outside of 1 to its size.
  ---@param x tycho.Tensor
  ---@param k integer from 1
  ---@param dim? integer the last
  ---@param keepdim? boolean false
  ---@return tycho.Tensor values, tycho.Tensor positions # x without the dim; positions are i64 from 1
  local function kthvalue(x, k, dim, keepdim)
    local who = "kthvalue"
    check.real(who, 1, x)
    dim = check.dim(who, dim, x.ndim, -1)
    k = check.whole(who, 2, k, "k")
    keepdim = check.boolean(who, 4, keepdim, "keepdim", false)
    if k < 1 or k > x:size(dim) then fail(who, "k must lie from 1 to %d, got %g", x:size(dim), k) end
    local y, at = x:sort(dim)
    y, at = y:narrow(dim, k, 1), at:narrow(dim, k, 1)
    if keepdim then return y:clone(), at:clone() end
    return y:squeeze(dim):clone(), at:squeeze(dim):clone()
  end

  --- The element that comes most often along a dim, the smallest of several; and the last position where it stands.
  --- Raises where the dim is out of range, or nothing is to be chosen from.
  ---@param x tycho.Tensor
  ---@param dim? integer the last
  ---@param keepdim? boolean false
  ---@return tycho.Tensor values, tycho.Tensor positions # x without the dim; positions are i64 from 1
  local function mode(x, dim, keepdim)
    local who = "mode"
    check.real(who, 1, x)
    dim = check.dim(who, dim, x.ndim, -1)
    keepdim = check.boolean(who, 3, keepdim, "keepdim", false)
    local n = x:size(dim)
    if n == 0 then fail(who, "nothing to choose from in %s", check.text(x)) end
    local sorted, order = x:sort(dim)
    local ones = {}
    for d = 1, x.ndim do ones[d] = d == dim and n or 1 end
    local place = ty.range(n, { dtype = "i64", device = x.device }):reshape(ones)
    local begins = place:expand(x.shape)
    if n > 1 then
      local new = ne(sorted:narrow(dim, 2, n - 1), sorted:narrow(dim, 1, n - 1))
      local first = where(new, place:narrow(dim, 2, n - 1), 1)
      begins = ty.cat({ begins:narrow(dim, 1, 1), first }, dim):cummax(dim)
    end
    local at = (place - begins):argmax(dim, true)
    local y, positions = sorted:gather(dim, at), order:gather(dim, at)
    if keepdim then return y, positions end
    return y:squeeze(dim), positions:squeeze(dim)
  end

  row { "bucketize", "x, boundaries, right = false", bucketize, "which interval between boundaries each element is in",
    shape = "x", dtype = "i64", single = true }
  row { "isin", "x, values, {invert = false}", isin, "bool: the element is one of the values", shape = "x",
    dtype = "bool" }
  row { "msort", "x", msort, "the elements in ascending order along the first dim", shape = "x", single = true }
  row { "kthvalue", "x, k, dim = -1, keepdim = false", kthvalue,
    "two results: the k-th smallest element along a dim, and its position", shape = "x without the dim" }
  row { "mode", "x, dim = -1, keepdim = false", mode,
    "two results: the most frequent element along a dim, the smallest of several, and its last position",
    shape = "x without the dim" }

  --- How often each of the numbers 1, 2, ... comes, or the sums of their weights. Reads the largest number.
  --- Raises where x is no vector of integers, or a number is below 1.
  ---@param x tycho.Tensor integers [n], from 1
  ---@param weights? tycho.Tensor [n]
  ---@param minlength? integer 0: how long the result is at least
  ---@return tycho.Tensor # [the largest number, or minlength]; i64, or the dtype of the weights
  local function bincount(x, weights, minlength)
    local who = "bincount"
    integers(who, 1, x)
    if x.ndim ~= 1 then fail(who, "argument 1 must have one dim, got %s", check.text(x)) end
    minlength = check.whole(who, 3, minlength, "minlength", 0)
    if minlength < 0 then fail(who, "argument 3 (minlength) must not be negative, got %g", minlength) end
    if weights ~= nil then same_sizes(who, check.tensor(who, 2, weights), x.shape) end
    local n = minlength
    if x:numel() > 0 then
      local least, most = x:min():to("f64"):item(), x:max():to("f64"):item() -- as a double each is a number of Lua
      if least < 1 then fail(who, "numbers count from 1, got %.0f (add 1 to those that count from 0)", least) end
      n = math.max(n, most)
    end
    if n >= 2 ^ 40 then fail(who, "%.0f is too large to count all numbers up to it", n) end
    local dtype = weights and weights.dtype or "i64"
    local zeros = ty.zeros({ n }, { dtype = dtype, device = x.device })
    if x:numel() == 0 then return zeros end
    return ty.scatter_add(zeros, 1, x:to("i64"), weights or ty.ones(x.shape, { dtype = dtype, device = x.device }))
  end

  ------------------------------------------------------------------------------------------------------ unique

  local elements = ty.unique -- of all elements, sorted, where it has no options

  --- Which of n groups each place is in, from 1, and the first place of each.
  local function firsts(at, n)
    local place = ty.range(at:numel(), { dtype = "i64", device = at.device })
    local most = ty.full({ n }, at:numel(), { dtype = "i64", device = at.device })
    return scatter_reduce(most, 1, at, place, "amin")
  end

  --- The groups of equal rows of a matrix, in lexicographic order: the group of each row, and how many there are.
  local function groups_of(rows)
    local n, group, count = rows:size(1), nil, 1
    for k = 1, rows:size(2) do
      local values, at = elements(rows:select(2, k):detach())
      if group then
        values, at = elements((group - 1) * values:numel() + at)
      end
      group, count = at, values:numel()
    end
    return group or ty.ones({ n }, { dtype = "i64", device = rows.device }), math.min(count, n)
  end

  local unique_options = { dim = "number", sorted = "boolean", counts = "boolean" }

  --- unique where it has options.
  local function unique(x, opts)
    check.tensor("unique", 1, x)
    opts = check.options("unique", opts, unique_options)
    local dim = opts.dim and check.dim("unique", opts.dim, x.ndim)
    local count, values, at
    if dim then
      at, count = groups_of(x:movedim(dim, 1):reshape(x:size(dim), -1))
      values = x:index_select(dim, firsts(at, count))
    else
      values, at = elements(x)
      count = values:numel()
    end
    local flat = at:reshape(-1)
    if opts.sorted == false and count > 0 then
      local order = firsts(flat, count):argsort(1)
      values = values:index_select(dim or 1, order)
      at = order:argsort(1):take(at)
      flat = at:reshape(-1)
    end
    if not opts.counts then return values, at end
    local options = { dtype = "i64", device = x.device }
    return values, at, ty.scatter_add(ty.zeros({ count }, options), 1, flat, ty.ones({ flat:numel() }, options))
  end

  ty.internals.select_with(function(name, x, y)
    if name == "unique" and y ~= nil then return unique(x, y) end
    return ty.internals.load("tycho.selection")[name](x, y)
  end)

  row { "bincount", "x, weights = nil, minlength = 0", bincount, "how often each of the numbers 1, 2, ... comes",
    shape = "[the largest number]", dtype = "i64", single = true }

  --- Writes a number to the diagonal of x: the elements whose positions are the same in all dims.
  --- Raises where x has fewer than 2 dims, or more than 2 of different sizes, or is a leaf that requires a gradient.
  ---@param x tycho.Tensor [n, m], or [n, n, n, ...]
  ---@param value number
  ---@return tycho.Tensor # x itself
  local function fill_diagonal_in_place(x, value)
    local who = "fill_diagonal_"
    check.tensor(who, 1, x)
    local sizes = x.shape
    if #sizes < 2 then fail(who, "argument 1 must have at least 2 dims, got %s", check.text(x)) end
    local view = x
    for d = 3, #sizes do
      if sizes[d] ~= sizes[1] or sizes[2] ~= sizes[1] then
        fail(who, "all dims must have the same size, got %s", check.text(x))
      end
    end
    for _ = 2, #sizes do view = view:diagonal(0, 1, view.ndim) end
    check.named(who, "fill_", view.fill_, view, check.number(who, 2, value, "value"))
    return x
  end

  row { "fill_diagonal_", "x, value", fill_diagonal_in_place, "writes a number to the diagonal of x, returns it",
    shape = "x", only = "method", single = true }
end
