--- arrangement.lua -- composites that put elements elsewhere: stacks, diagonals, turns, blocks, combinations, windows.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row, _, as_one)
  local fail, is_tensor = check.fail, ty.is_tensor
  local cat, where = ty.cat, ty.where

  --- Tensors, given one by one or in one table, as a list.
  local function listed(who, ...)
    local list = { ... }
    if #list == 1 and type(list[1]) == "table" then list = list[1] end
    if #list == 0 then fail(who, "no tensors given") end
    for i = 1, #list do check.tensor(who, i, list[i]) end
    return list
  end

  --- A table of tensors, as a list.
  local function list_of(who, list)
    if type(list) ~= "table" then fail(who, "argument 1 must be a table of tensors, got %s", check.show(list)) end
    return listed(who, list)
  end

  local rank = check.rank

  --------------------------------------------------------------------------------------------------------- stacks

  --- x with at least n dims, as atleast_1d, atleast_2d and atleast_3d give it.
  local function at_least(x, n)
    local dims = x.ndim
    if dims >= n then return x end
    if dims == 0 then x = x:reshape(1) end
    if n >= 2 and x.ndim < 2 then x = x:unsqueeze(1) end
    if n == 3 and x.ndim < 3 then x = x:unsqueeze(3) end
    return x
  end

  local function joined(who, list, n, dim)
    local parts = {}
    for i, x in ipairs(list_of(who, list)) do parts[i] = at_least(x, n) end
    return check.named(who, "cat", cat, parts, dim)
  end

  --- Tensors one below the other: vectors are rows.
  --- Raises where the list is empty, or sizes differ in another dim than the first.
  ---@param list tycho.Tensor[]
  ---@return tycho.Tensor # at least two dims; the first sizes added up
  local function vstack(list) return joined("vstack", list, 2, 1) end

  --- Tensors side by side: along the second dim, vectors along their only one.
  --- Raises where the list is empty, or sizes differ in another dim.
  ---@param list tycho.Tensor[]
  ---@return tycho.Tensor # at least one dim
  local function hstack(list)
    local first = list_of("hstack", list)[1]
    return joined("hstack", list, 1, first.ndim < 2 and 1 or 2)
  end

  --- Tensors one behind the other along the third dim: vectors are [1, n, 1].
  --- Raises where the list is empty, or sizes differ in another dim.
  ---@param list tycho.Tensor[]
  ---@return tycho.Tensor # at least three dims
  local function dstack(list) return joined("dstack", list, 3, 3) end

  --- Vectors as columns, matrices beside them.
  --- Raises where the list is empty, or the numbers of rows differ.
  ---@param list tycho.Tensor[]
  ---@return tycho.Tensor # [n, columns]
  local function column_stack(list)
    local parts = {}
    for i, x in ipairs(list_of("column_stack", list)) do parts[i] = x.ndim <= 1 and x:reshape(-1, 1) or x end
    return check.named("column_stack", "cat", cat, parts, 2)
  end

  local function least(who, x, n)
    check.tensor(who, 1, x)
    return at_least(x, n)
  end

  --- x, a number as one element.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x, [1] of no dims
  local function atleast_1d(x) return least("atleast_1d", x, 1) end

  --- x as a matrix at least: a vector is a row.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x, [1, n] of a vector
  local function atleast_2d(x) return least("atleast_2d", x, 2) end

  --- x with three dims at least: a vector is [1, n, 1], a matrix [n, m, 1].
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # at least three dims
  local function atleast_3d(x) return least("atleast_3d", x, 3) end

  --- x cut along a dim: into so many parts, of which the first ones are longer by one where it does not divide, or
  --- behind the places that are listed.
  --- Raises where the number is below 1, or a place is out of order or range.
  ---@param x tycho.Tensor
  ---@param parts integer|integer[] how many; or how many places stand before each cut
  ---@param dim? integer 1
  ---@return tycho.Tensor[] # views
  local function tensor_split(x, parts, dim)
    local who = "tensor_split"
    check.tensor(who, 1, x)
    dim = check.dim(who, dim, x.ndim, 1)
    local n, sizes, last = x:size(dim), {}, 0
    if type(parts) == "table" then
      for i = 1, #parts + 1 do
        local place = parts[i] or n
        check.whole(who, 2, place, "places")
        if place < last or place > n then fail(who, "place %g does not lie from %d to %d", place, last, n) end
        sizes[i], last = place - last, place
      end
    else
      parts = check.whole(who, 2, parts, "parts")
      if parts < 1 then fail(who, "argument 2 (parts) must be at least 1, got %g", parts) end
      local short, more = math.floor(n / parts), n % parts
      for i = 1, parts do sizes[i] = i <= more and short + 1 or short end
    end
    return ty.split(x, sizes, dim)
  end

  row { "vstack", "list", vstack, "tensors one below the other; vectors are rows", shape = "the first sizes added up",
    only = "module" }
  row { "hstack", "list", hstack, "tensors side by side", shape = "the second sizes added up", only = "module" }
  row { "dstack", "list", dstack, "tensors one behind the other, along the third dim",
    shape = "the third sizes added up", only = "module" }
  row { "column_stack", "list", column_stack, "vectors as columns, matrices beside them", shape = "[n, columns]",
    only = "module" }
  row { "atleast_1d", "x", atleast_1d, "x with one dim at least", shape = "x, or [1]", single = true }
  row { "atleast_2d", "x", atleast_2d, "x with two dims at least; a vector is a row", shape = "x, or [1, n]",
    single = true }
  row { "atleast_3d", "x", atleast_3d, "x with three dims at least", shape = "x, [1, n, 1] or [n, m, 1]",
    single = true }
  --- A table of so many parts of equal size along a dim, or of those between places.
  local function split_evenly(who, x, parts, dim)
    check.tensor(who, 1, x)
    if dim > x.ndim then fail(who, "argument 1 must have at least %d dims, got %s", dim, check.text(x)) end
    if type(parts) == "number" and parts >= 1 and x:size(dim) % parts ~= 0 then
      fail(who, "%d places (dim %d) do not divide into %d parts of equal size", x:size(dim), dim, parts)
    end
    return check.named(who, "tensor_split", tensor_split, x, parts, dim)
  end

  --- Parts of equal size along dim 2, of a vector along its only one; or those between places, each beginning behind
  --- the place before. Raises where x has no dims, or they do not divide.
  ---@param x tycho.Tensor
  ---@param parts integer|integer[]
  ---@return tycho.Tensor[] # views
  local function hsplit(x, parts)
    return split_evenly("hsplit", x, parts, check.tensor("hsplit", 1, x).ndim == 1 and 1 or 2)
  end

  --- Parts of equal size along dim 1, or those between places. Raises where x has fewer than 2 dims, or they do not
  --- divide.
  ---@param x tycho.Tensor
  ---@param parts integer|integer[]
  ---@return tycho.Tensor[] # views
  local function vsplit(x, parts)
    if check.tensor("vsplit", 1, x).ndim < 2 then
      fail("vsplit", "argument 1 must have at least 2 dims, got %s", check.text(x))
    end
    return split_evenly("vsplit", x, parts, 1)
  end

  --- Parts of equal size along dim 3, or those between places. Raises where x has fewer than 3 dims, or they do not
  --- divide.
  ---@param x tycho.Tensor
  ---@param parts integer|integer[]
  ---@return tycho.Tensor[] # views
  local function dsplit(x, parts) return split_evenly("dsplit", x, parts, 3) end

  --- x with the sizes of another tensor, as a view that repeats. Raises where it does not broadcast to them.
  ---@param x tycho.Tensor
  ---@param other tycho.Tensor
  ---@return tycho.Tensor # the sizes of other
  local function expand_as(x, other)
    check.tensor("expand_as", 1, x)
    return check.named("expand_as", "expand", ty.expand, x, check.tensor("expand_as", 2, other).shape)
  end

  --- x with the sizes of another tensor of as many elements. Raises where it has others.
  ---@param x tycho.Tensor
  ---@param other tycho.Tensor
  ---@return tycho.Tensor # the sizes of other
  local function reshape_as(x, other)
    check.tensor("reshape_as", 1, x)
    return check.named("reshape_as", "reshape", ty.reshape, x, check.tensor("reshape_as", 2, other).shape)
  end

  row { "hsplit", "x, parts", hsplit, "a table of parts along dim 2", shape = "a table", single = true }
  row { "vsplit", "x, parts", vsplit, "a table of parts along dim 1", shape = "a table", single = true }
  row { "dsplit", "x, parts", dsplit, "a table of parts along dim 3", shape = "a table", single = true }
  row { "expand_as", "x, other", expand_as, "x repeated to the sizes of another tensor, a view", shape = "other",
    only = "method", single = true }
  row { "reshape_as", "x, other", reshape_as, "x with the sizes of another tensor", shape = "other", only = "method",
    single = true }
  row { "tensor_split", "x, parts, dim = 1", tensor_split, "a table of so many parts, or of those between places",
    shape = "x cut along the dim", single = true }

  ------------------------------------------------------------------------------------------------------ diagonals

  --- A new matrix, or stack of them, whose diagonals are the vectors along the last dim of x.
  --- Raises where the dims are the same or out of range.
  ---@param x tycho.Tensor [..., n]
  ---@param offset? integer 0; above zero: above the main diagonal
  ---@param dim1? integer where the rows are in the result, -2
  ---@param dim2? integer where the columns are, -1
  ---@return tycho.Tensor # x with two dims of n + |offset| in place of the last
  local function diag_embed(x, offset, dim1, dim2)
    local who = "diag_embed"
    check.tensor(who, 1, x)
    offset = check.whole(who, 2, offset, "offset", 0)
    if x.ndim == 0 then fail(who, "needs at least one dim, got %s", check.text(x)) end
    local dims = x.ndim + 1
    dim1, dim2 = check.dim(who, dim1, dims, -2), check.dim(who, dim2, dims, -1)
    if dim1 == dim2 then fail(who, "the dims must differ, both are %d", dim1) end
    local n, gap = x:size(-1), math.abs(offset)
    local options = { dtype = "i64", device = x.device }
    local rows, columns = ty.range(n + gap, options):unsqueeze(2), ty.range(n + gap, options)
    local pads = {}
    for d = 1, x.ndim do pads[d] = { 0, 0 } end
    -- along the columns: element j of the diagonal stands in column j + offset, or in column j
    pads[x.ndim] = offset > 0 and { gap, 0 } or { 0, gap }
    local zero = 0
    if x.dtype == "bool" then zero = false end
    local y = where(ty.eq(columns - rows, offset), (gap > 0 and ty.pad(x, pads) or x):unsqueeze(-2), zero)
    if dim1 == dims - 1 and dim2 == dims then return y end
    return y:movedim({ -2, -1 }, { dim1, dim2 })
  end

  --- Of a vector the matrix with that diagonal, of a matrix its diagonal.
  --- Raises where x has another number of dims.
  ---@param x tycho.Tensor [n], or [n, m]
  ---@param offset? integer 0; above zero: above the main diagonal
  ---@return tycho.Tensor # [n + |offset|, n + |offset|], or the diagonal as a view
  local function diag(x, offset)
    check.tensor("diag", 1, x)
    offset = check.whole("diag", 2, offset, "offset", 0)
    if x.ndim == 1 then return diag_embed(x, offset) end
    if x.ndim ~= 2 then fail("diag", "argument 1 must have 1 or 2 dims, got %s", check.text(x)) end
    return check.named("diag", "diagonal", ty.diagonal, x, offset)
  end

  --- The matrix whose diagonal are all elements of x in row-major order.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@param offset? integer 0; above zero: above the main diagonal
  ---@return tycho.Tensor # [n + |offset|, n + |offset|]
  local function diagflat(x, offset)
    check.tensor("diagflat", 1, x)
    return diag_embed(x:reshape(-1), check.whole("diagflat", 2, offset, "offset", 0))
  end

  --- The sum of a matrix's main diagonal.
  --- Raises where x is no matrix.
  ---@param x tycho.Tensor [n, m]
  ---@return tycho.Tensor # 0-d; integers and bool give i64
  local function trace(x) return rank("trace", 1, x, 2):diagonal():sum() end

  --- The matrices as blocks along a diagonal, zeros elsewhere; a vector is a row.
  --- Raises where a tensor has more than two dims, or none is given.
  ---@param ... tycho.Tensor|tycho.Tensor[] the blocks; or one table of them
  ---@return tycho.Tensor # [rows added up, columns added up], the promoted dtype
  local function block_diag(...)
    local blocks, parts, width, before = listed("block_diag", ...), {}, 0, 0
    for i, x in ipairs(blocks) do
      if x.ndim > 2 then fail("block_diag", "argument %d has more than 2 dims, %s", i, check.text(x)) end
      blocks[i] = at_least(x, 2)
      width = width + blocks[i]:size(2)
    end
    for i, x in ipairs(blocks) do
      local columns = x:size(2)
      parts[i] = ty.pad(x, { { 0, 0 }, { before, width - before - columns } })
      before = before + columns
    end
    return cat(parts, 1)
  end

  --- Rows and columns of the elements of a matrix's lower triangle that lie in rows of c, c + 1, ... columns, the first
  --- of them row `first`: element p of a triangle of rows of 1, 2, ... columns lies in row (sqrt(8 p + 1) + 1) / 2.
  --- at: 0, 1, ...; n, m: nil, or the sizes of a matrix that is seen from its other end.
  local corner = as_one(function(at, c, first, n, m)
    local p = n and (c * (c - 1) / 2 + at:numel() - 1) - at or at + c * (c - 1) / 2
    local line = ((ty.sqrt(p * 8 + 1) + 1) * 0.5):floor()
    local rows, columns = line + (first - c), p - line * (line - 1) * 0.5 + 1
    if n then rows, columns = (n + 1) - rows, (m + 1) - columns end
    return ty.stack { rows:to("i64"), columns:to("i64") }
  end)

  local function triangle_indices(who, n, m, k, opts, is_lower)
    n, m, k = check.whole(who, 1, n, "rows"), check.whole(who, 2, m, "columns", n),
      check.whole(who, 3, k, "diagonal", 0)
    opts = check.options(who, opts, { device = "string" })
    if n < 0 or m < 0 then fail(who, "sizes must not be negative, got %g and %g", n, m) end
    if not is_lower then k = m - n - k end -- from the last element on it is a lower triangle
    local first, last = math.max(1, 1 - k), math.min(n, m - k) -- rows of first + k, ... columns, before rows of all
    local count, full = math.max(last - first + 1, 0), math.max(n - math.max(last, first - 1), 0)
    local parts = {}
    if count > 0 or full == 0 then
      local total = count * (count + 1) / 2 + count * (first + k - 1)
      local at = ty.arange(total, { dtype = "f64", device = opts.device })
      parts[1] = corner(at, first + k, first, not is_lower and n or nil, m)
    end
    if full > 0 then
      local options = { dtype = "i64", device = opts.device }
      local rows = (ty.range(full, options) + (is_lower and n - full or 0)):unsqueeze(2):expand(full, m)
      local columns = ty.range(m, options):expand(full, m)
      table.insert(parts, is_lower and #parts + 1 or 1, ty.stack { rows:reshape(-1), columns:reshape(-1) })
    end
    return #parts == 1 and parts[1] or cat(parts, 2)
  end

  --- Rows and columns of the elements on and below the k-th diagonal, row by row.
  --- Raises where a size is negative.
  ---@param n integer rows
  ---@param m? integer columns, n
  ---@param k? integer the diagonal, 0; above zero: higher
  ---@param opts? {device: string?}
  ---@return tycho.Tensor # [2, count], i64, from 1
  local function tril_indices(n, m, k, opts) return triangle_indices("tril_indices", n, m, k, opts, true) end

  --- Rows and columns of the elements on and above the k-th diagonal, row by row.
  --- Raises where a size is negative.
  ---@param n integer rows
  ---@param m? integer columns, n
  ---@param k? integer the diagonal, 0; above zero: higher
  ---@param opts? {device: string?}
  ---@return tycho.Tensor # [2, count], i64, from 1
  local function triu_indices(n, m, k, opts) return triangle_indices("triu_indices", n, m, k, opts, false) end

  row { "diag_embed", "x, offset = 0, dim1 = -2, dim2 = -1", diag_embed, "matrices with these diagonals, else 0",
    shape = "x with two dims for the last" }
  row { "diag", "x, offset = 0", diag, "the matrix with that diagonal, or the diagonal of a matrix",
    shape = "[n, n] or [n]" }
  row { "diagflat", "x, offset = 0", diagflat, "the matrix whose diagonal are all elements", shape = "[n, n]" }
  row { "trace", "x", trace, "the sum of a matrix's main diagonal", shape = "0-d" }
  row { "block_diag", "blocks...", block_diag, "matrices as blocks along a diagonal, else 0", single = true,
    shape = "[rows added up, columns added up]", only = "module" }
  row { "tril_indices", "n, m = n, k = 0, {device}", tril_indices,
    "rows and columns of the elements on and below the k-th diagonal", shape = "[2, count]", dtype = "i64",
    only = "module", single = true }
  row { "triu_indices", "n, m = n, k = 0, {device}", triu_indices,
    "rows and columns of the elements on and above the k-th diagonal", shape = "[2, count]", dtype = "i64",
    only = "module", single = true }

  ---------------------------------------------------------------------------------------------------------- turns

  --- x turned by k quarters in the plane of two dims, from the first to the second.
  --- Raises where there are not two different dims.
  ---@param x tycho.Tensor
  ---@param k? integer 1; below zero it turns back
  ---@param dims? integer[] {1, 2}
  ---@return tycho.Tensor # a view; the two sizes are exchanged for an odd k
  local function rot90(x, k, dims)
    local who = "rot90"
    check.tensor(who, 1, x)
    k = check.whole(who, 2, k, "k", 1) % 4
    dims = dims or { 1, 2 }
    if type(dims) ~= "table" or #dims ~= 2 then
      fail(who, "argument 3 (dims) must be two dims, got %s", check.show(dims))
    end
    local a, b = check.dim(who, dims[1], x.ndim), check.dim(who, dims[2], x.ndim)
    if a == b then fail(who, "the dims must differ, both are %d", a) end
    if k == 0 then return x:reshape(x.shape) end
    if k == 2 then return x:flip { a, b } end
    if k == 1 then return x:flip(b):transpose(a, b) end
    return x:flip(a):transpose(a, b)
  end

  --- Columns in reverse order: along the second dim.
  --- Raises where x has fewer than two dims.
  ---@param x tycho.Tensor at least two dims
  ---@return tycho.Tensor # the sizes of x, a view
  local function fliplr(x)
    check.tensor("fliplr", 1, x)
    return x:flip(check.dim("fliplr", 2, x.ndim))
  end

  --- Rows in reverse order: along the first dim.
  --- Raises where x has no dims.
  ---@param x tycho.Tensor at least one dim
  ---@return tycho.Tensor # the sizes of x, a view
  local function flipud(x)
    check.tensor("flipud", 1, x)
    return x:flip(check.dim("flipud", 1, x.ndim))
  end

  --- The tensors broadcast to the sizes of all of them.
  --- Raises where sizes do not broadcast, or none is given.
  ---@param ... tycho.Tensor|tycho.Tensor[] the tensors; or one table of them
  ---@return tycho.Tensor[] # views of the same sizes
  local function broadcast_tensors(...)
    local list, sizes = listed("broadcast_tensors", ...), {}
    check.together("broadcast_tensors", unpack(list))
    for i = 1, #list do
      local own = list[i].shape
      for k = 0, #own - 1 do -- from the last dim on
        local size = own[#own - k]
        if not sizes[k + 1] or sizes[k + 1] == 1 then sizes[k + 1] = size end
      end
    end
    local all, y = {}, {}
    for k = 1, #sizes do all[k] = sizes[#sizes - k + 1] end
    for i = 1, #list do y[i] = list[i]:expand(all) end
    return y
  end

  row { "rot90", "x, k = 1, dims = {1, 2}", rot90, "x turned by k quarters in the plane of two dims",
    shape = "x, two sizes exchanged", single = true }
  row { "fliplr", "x", fliplr, "columns in reverse order", shape = "x", single = true }
  row { "flipud", "x", flipud, "rows in reverse order", shape = "x", single = true }
  row { "broadcast_tensors", "tensors...", broadcast_tensors, "a table of the tensors broadcast to the sizes of all",
    shape = "broadcast of all", only = "module", single = true }

  ----------------------------------------------------------------------------------------------------- combinations

  --- All choices of one element of each vector, the last one changing first.
  --- Raises where an argument is no vector, or none is given.
  ---@param ... tycho.Tensor|tycho.Tensor[] vectors; or one table of them
  ---@return tycho.Tensor # [product of the sizes, vectors]; of one vector it is that
  local function cartesian_prod(...)
    local list = listed("cartesian_prod", ...)
    for i = 1, #list do rank("cartesian_prod", i, list[i], 1) end
    if #list == 1 then return list[1] end
    local grid = check.named("cartesian_prod", "meshgrid", ty.meshgrid, list)
    for i = 1, #grid do grid[i] = grid[i]:reshape(-1) end
    return ty.stack(grid, 2)
  end

  --- Positions of the r-combinations of n places, in their order, as a list of columns.
  local function choices(n, r, again)
    local columns, at = {}, {}
    for k = 1, r do columns[k] = {} end
    local function from(k, first)
      if k > r then
        for i = 1, r do columns[i][#columns[i] + 1] = at[i] end
        return
      end
      for i = first, n do
        at[k] = i
        from(k + 1, again and i or i + 1)
      end
    end
    if r > 0 then from(1, 1) end
    return columns
  end

  --- All choices of r elements of a vector, by their places in ascending order.
  --- Raises where x is no vector, or r is negative.
  ---@param x tycho.Tensor [n]
  ---@param r? integer 2
  ---@param with_replacement? boolean false; true: an element may come more than once
  ---@return tycho.Tensor # [count, r]
  local function combinations(x, r, with_replacement)
    local who = "combinations"
    rank(who, 1, x, 1)
    r = check.whole(who, 2, r, "r", 2)
    local again = check.boolean(who, 3, with_replacement, "with_replacement", false)
    if r < 0 then fail(who, "argument 2 (r) must not be negative, got %g", r) end
    local columns = choices(x:numel(), r, again)
    if r == 0 or #columns[1] == 0 then return ty.zeros({ 0, r }, { dtype = x.dtype, device = x.device }) end
    for k = 1, r do
      columns[k] = x:index_select(1, ty.tensor(columns[k], { dtype = "i64", device = x.device }))
    end
    return ty.stack(columns, 2)
  end

  --- Kronecker's product: every element of a times all of b, as blocks.
  --- Raises where an argument is no tensor, or the result has more than 8 dims on the way.
  ---@param a tycho.Tensor
  ---@param b tycho.Tensor at most 4 dims, as a
  ---@return tycho.Tensor # each size the product of the two
  local function kron(a, b)
    check.tensor("kron", 1, a)
    check.tensor("kron", 2, b)
    local dims = math.max(a.ndim, b.ndim)
    if dims > 4 then fail("kron", "at most 4 dims, got %s and %s", check.text(a), check.text(b)) end
    local p, q, sizes = {}, {}, {}
    for d = 1, dims do
      local m, n = a.shape[d - dims + a.ndim] or 1, b.shape[d - dims + b.ndim] or 1
      p[2 * d - 1], p[2 * d], q[2 * d - 1], q[2 * d], sizes[d] = m, 1, 1, n, m * n
    end
    return (a:reshape(p) * b:reshape(q)):reshape(sizes)
  end

  --- Powers of the elements of a vector, as columns.
  --- Raises where x is no vector, or a number is negative.
  ---@param x tycho.Tensor [n]
  ---@param columns? integer n
  ---@param increasing? boolean false: the highest power first
  ---@return tycho.Tensor # [n, columns]
  local function vander(x, columns, increasing)
    rank("vander", 1, x, 1)
    columns = check.whole("vander", 2, columns, "columns", x:numel())
    increasing = check.boolean("vander", 3, increasing, "increasing", false)
    if columns < 0 then fail("vander", "argument 2 (columns) must not be negative, got %g", columns) end
    if columns == 0 then return ty.zeros({ x:numel(), 0 }, { dtype = x.dtype, device = x.device }) end
    local parts, power = {}, ty.ones_like(x)
    for k = 1, columns do
      parts[increasing and k or columns - k + 1] = power
      if k < columns then power = power * x end
    end
    return ty.stack(parts, 2)
  end

  row { "cartesian_prod", "vectors...", cartesian_prod, "all choices of one element of each vector",
    shape = "[product of the sizes, vectors]", only = "module", single = true }
  row { "combinations", "x, r = 2, with_replacement = false", combinations, "all choices of r elements of a vector",
    shape = "[count, r]", single = true }
  row { "kron", "a, b", kron, "Kronecker's product: every element of a times all of b",
    shape = "each size the product of the two" }
  row { "vander", "x, columns = n, increasing = false", vander, "powers of a vector's elements, as columns",
    shape = "[n, columns]" }

  -------------------------------------------------------------------------------------------------- sizes of images

  local function shuffle_factor(who, r)
    r = check.whole(who, 2, r, "factor")
    if r < 1 then fail(who, "argument 2 (factor) must be at least 1, got %g", r) end
    return r
  end

  --- Channels moved into blocks of r x r places.
  --- Raises where x has fewer than three dims, or r^2 does not divide the channels.
  ---@param x tycho.Tensor [..., c r^2, h, w]
  ---@param factor integer r
  ---@return tycho.Tensor # [..., c, h r, w r]
  local function pixel_shuffle(x, factor)
    local who = "pixel_shuffle"
    check.tensor(who, 1, x)
    local r, s = shuffle_factor(who, factor), x.shape
    local n = #s
    if n < 3 then fail(who, "needs at least 3 dims, got %s", check.text(x)) end
    if s[n - 2] % (r * r) ~= 0 then fail(who, "%d does not divide the channels of %s", r * r, check.text(x)) end
    local c, h, w = s[n - 2] / (r * r), s[n - 1], s[n]
    local y = x:reshape(-1, c, r, r, h, w):permute(1, 2, 5, 3, 6, 4)
    s[n - 2], s[n - 1], s[n] = c, h * r, w * r
    return y:reshape(s)
  end

  --- Blocks of r x r places moved into channels.
  --- Raises where x has fewer than three dims, or r does not divide the places.
  ---@param x tycho.Tensor [..., c, h r, w r]
  ---@param factor integer r
  ---@return tycho.Tensor # [..., c r^2, h, w]
  local function pixel_unshuffle(x, factor)
    local who = "pixel_unshuffle"
    check.tensor(who, 1, x)
    local r, s = shuffle_factor(who, factor), x.shape
    local n = #s
    if n < 3 then fail(who, "needs at least 3 dims, got %s", check.text(x)) end
    if s[n] % r ~= 0 or s[n - 1] % r ~= 0 then fail(who, "%d does not divide the places of %s", r, check.text(x)) end
    local c, h, w = s[n - 2], s[n - 1] / r, s[n] / r
    local y = x:reshape(-1, c, h, r, w, r):permute(1, 2, 4, 6, 3, 5)
    s[n - 2], s[n - 1], s[n] = c * r * r, h, w
    return y:reshape(s)
  end

  row { "pixel_shuffle", "x, factor", pixel_shuffle, "channels moved into blocks of places",
    shape = "[..., c, h r, w r]" }
  row { "pixel_unshuffle", "x, factor", pixel_unshuffle, "blocks of places moved into channels",
    shape = "[..., c r^2, h, w]" }

  --- The elements of x, in row-major order, that stand at offset + sum of (index - 1) * stride.
  --- As PyTorch's of a contiguous tensor, but a copy: elements may come more than once.
  --- Raises where an element lies outside of x, or a size or stride is negative.
  ---@param x tycho.Tensor
  ---@param sizes integer[]
  ---@param strides integer[] one a dim, in elements
  ---@param offset? integer the first element, 1
  ---@return tycho.Tensor # these sizes, the dtype of x
  local function as_strided(x, sizes, strides, offset)
    local who = "as_strided"
    check.tensor(who, 1, x)
    offset = check.whole(who, 4, offset, "offset", 1)
    if type(sizes) ~= "table" or type(strides) ~= "table" or is_tensor(sizes) or #sizes ~= #strides then
      fail(who, "the sizes and strides must be two lists of the same length")
    end
    local options = { dtype = "i64", device = x.device }
    local index, last, count = ty.full({}, offset, options), offset, 1
    for d = 1, #sizes do
      local size, stride = check.whole(who, 2, sizes[d], "sizes"), check.whole(who, 3, strides[d], "strides")
      if size < 0 or stride < 0 then
        fail(who, "sizes and strides must not be negative, got %g and %g", size, stride)
      end
      index = index:unsqueeze(-1) + ty.arange(size, options) * stride
      last, count = last + math.max(0, size - 1) * stride, count * size
    end
    if count > 0 and (offset < 1 or last > x:numel()) then
      fail(who, "elements %d to %d lie outside of the %d of %s", offset, last, x:numel(), check.text(x))
    end
    if count == 0 then return ty.zeros(sizes, { dtype = x.dtype, device = x.device }) end
    return x:reshape(-1):take(index)
  end

  --- Numbers whose logarithms are evenly spaced: base^start to base^stop.
  --- Raises where the count is no whole number from 0.
  ---@param start number exponent of the first
  ---@param stop number exponent of the last
  ---@param count integer how many
  ---@param base? number 10
  ---@param opts? {dtype: tycho.dtype?, device: string?}
  ---@return tycho.Tensor # [count]; f32
  local function logspace(start, stop, count, base, opts)
    if check.is_options(base) and opts == nil then base, opts = nil, base end
    base = check.number("logspace", 4, base, "base", 10)
    opts = check.options("logspace", opts, { dtype = "string", device = "string" })
    local options = { dtype = "f64", device = opts.device }
    local y = check.named("logspace", "linspace", ty.linspace, start, stop, count, options)
    return (base ^ y):to(opts.dtype or ty.default_dtype())
  end

  row { "as_strided", "x, sizes, strides, offset = 1", as_strided,
    "the elements at offset + sum of (index - 1) * stride, in row-major order", shape = "the sizes", single = true }
  row { "logspace", "start, stop, count, base = 10, {dtype, device}", logspace,
    "numbers whose logarithms are evenly spaced", shape = "[count]", only = "module", single = true }
end
