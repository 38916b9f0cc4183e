--- products.lua -- composites that stand on the matrix product: dot, outer, bmm, addmm, tensordot, einsum.
--
-- tensordot and einsum share one step, `contract`: two operands whose dims carry labels. Labels are of these kinds: in
-- both and wanted (batch), in both and not wanted (summed), in one and wanted; those in one and not wanted are summed
-- first. One permute of each operand makes a batched product of it (ty.contract), which copies nothing; without summed
-- labels it is a broadcast product, element by element.

---@param ty table the core module
---@param check table check.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, is_tensor, matmul = check.fail, ty.is_tensor, ty.matmul
  local grad, tracked = ty.internals.grad, ty.internals.vmap.tracked

  local rank = check.rank

  --- The sum of the products of two vectors.
  --- Raises where an argument is no vector, or the sizes differ.
  ---@param a tycho.Tensor [n]
  ---@param b tycho.Tensor [n]
  ---@return tycho.Tensor # 0-d
  local function dot(a, b)
    rank("dot", 1, a, 1)
    rank("dot", 2, b, 1)
    if a:numel() ~= b:numel() then fail("dot", "sizes differ, %s and %s", check.text(a), check.text(b)) end
    return matmul(a, b)
  end

  --- All products of an element of a with one of b.
  --- Raises where an argument is no vector.
  ---@param a tycho.Tensor [n]
  ---@param b tycho.Tensor [m]
  ---@return tycho.Tensor # [n, m]
  local function outer(a, b)
    rank("outer", 1, a, 1)
    rank("outer", 2, b, 1)
    return a:unsqueeze(2) * b
  end

  --- The matrix products of two stacks of matrices.
  --- Raises where an argument has not three dims, or the sizes do not fit.
  ---@param a tycho.Tensor [batch, n, k]
  ---@param b tycho.Tensor [batch, k, m]
  ---@return tycho.Tensor # [batch, n, m]
  local function bmm(a, b)
    rank("bmm", 1, a, 3)
    rank("bmm", 2, b, 3)
    if a:size(1) ~= b:size(1) or a:size(3) ~= b:size(2) then
      fail("bmm", "sizes do not fit, %s x %s", check.text(a), check.text(b))
    end
    return matmul(a, b)
  end

  --- beta * c + alpha * (a x b).
  --- Raises where inner sizes differ, or c does not broadcast to the product.
  ---@param c tycho.Tensor broadcasts with [n, m]
  ---@param a tycho.Tensor [n, k]
  ---@param b tycho.Tensor [k, m]
  ---@param opts? {alpha: number?, beta: number?} both 1
  ---@return tycho.Tensor # [n, m]
  local function addmm(c, a, b, opts)
    check.tensor("addmm", 1, c)
    rank("addmm", 2, a, 2)
    rank("addmm", 3, b, 2)
    opts = check.options("addmm", opts, { alpha = "number", beta = "number" })
    local n, m, sizes = a:size(1), b:size(2), c.shape
    if a:size(2) ~= b:size(1) then
      fail("addmm", "inner sizes differ, %s x %s", check.text(a), check.text(b))
    end
    local column, line = sizes[#sizes] or 1, sizes[#sizes - 1] or 1
    if #sizes > 2 or column ~= 1 and column ~= m or line ~= 1 and line ~= n then
      fail("addmm", "%s does not broadcast to {%d, %d}", check.text(c), n, m)
    end
    local y = matmul(a, b)
    if opts.alpha and opts.alpha ~= 1 then y = y * opts.alpha end
    if opts.beta and opts.beta ~= 1 then c = c * opts.beta end
    return y + c
  end

  row { "dot", "a, b", dot, "the sum of the products of two vectors", shape = "0-d" }
  row { "outer", "a, b", outer, "all products of an element of a with one of b", shape = "[n, m]" }
  row { "bmm", "a, b", bmm, "the matrix products of two stacks of matrices", shape = "[batch, n, m]" }
  row { "addmm", "c, a, b, {alpha = 1, beta = 1}", addmm, "beta * c + alpha * (a x b)", shape = "[n, m]",
    inplace = true }

  local function matrix_product(who, a, b, ranks)
    rank(who, 1, a, ranks[1])
    rank(who, 2, b, ranks[2])
    if a:size(-1) ~= b:size(1) then fail(who, "inner sizes differ, %s x %s", check.text(a), check.text(b)) end
    return matmul(a, b)
  end

  --- The product of two matrices.
  --- Raises where an argument is no matrix, or inner sizes differ.
  ---@param a tycho.Tensor [n, k]
  ---@param b tycho.Tensor [k, m]
  ---@return tycho.Tensor # [n, m]
  local function mm(a, b) return matrix_product("mm", a, b, { 2, 2 }) end

  --- The product of a matrix and a vector.
  --- Raises where the arguments are no matrix and vector, or inner sizes differ.
  ---@param a tycho.Tensor [n, k]
  ---@param v tycho.Tensor [k]
  ---@return tycho.Tensor # [n]
  local function mv(a, v) return matrix_product("mv", a, v, { 2, 1 }) end

  --- beta * c + alpha * y, under the name of who asked.
  local function added(who, c, y, opts)
    check.tensor(who, 1, c)
    opts = check.options(who, opts, { alpha = "number", beta = "number" })
    if opts.alpha and opts.alpha ~= 1 then y = y * opts.alpha end
    if opts.beta and opts.beta ~= 1 then c = c * opts.beta end
    c = check.named(who, "expand", ty.expand, c, y.shape)
    return y + c
  end

  --- beta * c + alpha * (a x v).
  --- Raises where inner sizes differ, or c does not broadcast to the product.
  ---@param c tycho.Tensor broadcasts to [n]
  ---@param a tycho.Tensor [n, k]
  ---@param v tycho.Tensor [k]
  ---@param opts? {alpha: number?, beta: number?} both 1
  ---@return tycho.Tensor # [n]
  local function addmv(c, a, v, opts)
    check.tensor("addmv", 1, c)
    rank("addmv", 2, a, 2)
    rank("addmv", 3, v, 1)
    return added("addmv", c, check.named("addmv", "mv", mv, a, v), opts)
  end

  --- beta * c + alpha * (all products of an element of a with one of b).
  --- Raises where a or b is no vector, or c does not broadcast to the products.
  ---@param c tycho.Tensor broadcasts to [n, m]
  ---@param a tycho.Tensor [n]
  ---@param b tycho.Tensor [m]
  ---@param opts? {alpha: number?, beta: number?} both 1
  ---@return tycho.Tensor # [n, m]
  local function addr(c, a, b, opts)
    check.tensor("addr", 1, c)
    rank("addr", 2, a, 1)
    rank("addr", 3, b, 1)
    return added("addr", c, outer(a, b), opts)
  end

  --- beta * c + alpha * (a x b), for stacks of matrices.
  --- Raises where the sizes do not fit, or c does not broadcast to the products.
  ---@param c tycho.Tensor broadcasts to [batch, n, m]
  ---@param a tycho.Tensor [batch, n, k]
  ---@param b tycho.Tensor [batch, k, m]
  ---@param opts? {alpha: number?, beta: number?} both 1
  ---@return tycho.Tensor # [batch, n, m]
  local function baddbmm(c, a, b, opts)
    check.tensor("baddbmm", 1, c)
    rank("baddbmm", 2, a, 3)
    rank("baddbmm", 3, b, 3)
    return added("baddbmm", c, check.named("baddbmm", "bmm", bmm, a, b), opts)
  end

  --- Sums of products over the last dims.
  --- Raises where the last sizes differ.
  ---@param a tycho.Tensor [.., k]
  ---@param b tycho.Tensor [.., k]
  ---@return tycho.Tensor # the other dims of a, then those of b
  local function inner(a, b)
    check.tensor("inner", 1, a)
    check.tensor("inner", 2, b)
    if a.ndim == 0 or b.ndim == 0 then return a * b end
    if a:size(-1) ~= b:size(-1) then fail("inner", "last sizes differ, %s and %s", check.text(a), check.text(b)) end
    return check.named("inner", "tensordot", ty.tensordot, a, b, { { -1 }, { -1 } })
  end

  --- Sums of products along a dim; of complex numbers with the conjugates of a.
  --- Raises where sizes do not broadcast.
  ---@param a tycho.Tensor
  ---@param b tycho.Tensor broadcasts with a
  ---@param dim? integer the last
  ---@return tycho.Tensor # the broadcast shape without the dim
  local function vecdot(a, b, dim)
    check.pair("vecdot", a, b)
    check.tensor("vecdot", 1, a)
    check.tensor("vecdot", 2, b)
    return check.named("vecdot", "sum", ty.sum, ty.conj(a) * b, dim or -1)
  end

  --- The cross product of vectors of three elements along a dim.
  --- Raises where sizes do not broadcast, or the dim has not three places.
  ---@param a tycho.Tensor
  ---@param b tycho.Tensor broadcasts with a
  ---@param dim? integer the last
  ---@return tycho.Tensor # the broadcast shape
  local function cross(a, b, dim)
    local who = "cross"
    check.tensor(who, 1, a)
    check.tensor(who, 2, b)
    check.together(who, a, b)
    local same = a.ndim == b.ndim
    check.dim(who, dim, math.min(a.ndim, b.ndim), -1)
    dim = dim or -1
    if dim > 0 and not same then
      fail(who, "dim %d of %s or %s? Give one from the end", dim, check.text(a), check.text(b))
    end
    if a:size(dim) ~= 3 or b:size(dim) ~= 3 then
      fail(who, "dim %d must have 3 places, got %s and %s", dim, check.text(a), check.text(b))
    end
    return a:roll(-1, dim) * b:roll(-2, dim) - a:roll(-2, dim) * b:roll(-1, dim)
  end

  --- The distances' gradients, by products: the sum over j of w[i, j] (a[i] - b[j]), w the gradient by the distance.
  --- Both are seen from the middle of b, so that little cancels.
  local function distances_back(saved, g)
    local a, b = saved[1], saved[2]
    local y = ty.cdist(a, b)
    local apart = y:gt(0)
    local w = ty.where(apart, g / ty.where(apart, y, 1), 0)
    local middle = b:mean(-2, true):detach()
    a, b = a - middle, b - middle
    return a * w:sum(-1, true) - matmul(w, b),
      b * w:sum(-2, true):transpose(-1, -2) - matmul(w:transpose(-1, -2), a)
  end

  local function same_but_rows(a, b)
    if a.dtype ~= b.dtype or a.ndim ~= b.ndim or a.dtype ~= "f32" and a.dtype ~= "f64" then return false end
    for d = 1, a.ndim - 2 do
      if a:size(d) ~= b:size(d) then return false end
    end
    return a:size(1) > 0 and a:size(-2) > 0 and b:size(-2) > 0
  end

  --- The p-norms of the differences of all pairs of rows.
  --- Raises where rows differ in length, or leading dims do not broadcast.
  ---@param a tycho.Tensor [.., n, k]
  ---@param b tycho.Tensor [.., m, k]
  ---@param p? number 2; also 0, 1, math.huge
  ---@return tycho.Tensor # [.., n, m]; floats
  local function cdist(a, b, p)
    local who = "cdist"
    check.tensor(who, 1, a)
    check.tensor(who, 2, b)
    p = check.number(who, 3, p, "p", 2)
    if a.ndim < 2 or b.ndim < 2 or a:size(-1) ~= b:size(-1) then
      fail(who, "rows must have the same length, got %s and %s", check.text(a), check.text(b))
    end
    if p < 0 then fail(who, "argument 3 (p) must not be negative, got %g", p) end
    local function distances(u, v)
      local x, y = u:unsqueeze(-2), v:unsqueeze(-3)
      check.together(who, x, y)
      return check.named(who, "norm", ty.norm, x - y, p, -1)
    end
    if p ~= 2 or not (grad.mode() and (tracked(a) or tracked(b))) or not same_but_rows(a, b) then
      return distances(a, b)
    end
    return grad.pure(function(u, v) return distances(u, v), { u, v } end, distances_back)(a, b)
  end

  --- The p-norms of the differences of each row with those behind it.
  --- Raises where x is no matrix.
  ---@param x tycho.Tensor [n, k]
  ---@param p? number 2; also 0, 1, math.huge
  ---@return tycho.Tensor # [n (n - 1) / 2]; floats
  local function pdist(x, p)
    rank("pdist", 1, x, 2)
    p = check.number("pdist", 2, p, "p", 2)
    if p < 0 then fail("pdist", "argument 2 (p) must not be negative, got %g", p) end
    local places = ty.triu_indices(x:size(1), x:size(1), 1, { device = x.device })
    return ty.norm(x:index_select(1, places[1]) - x:index_select(1, places[2]), p, 2)
  end

  row { "mm", "a, b", mm, "the product of two matrices", shape = "[n, m]", single = true }
  row { "mv", "a, v", mv, "the product of a matrix and a vector", shape = "[n]", single = true }
  row { "addmv", "c, a, v, {alpha = 1, beta = 1}", addmv, "beta * c + alpha * (a x v)", shape = "[n]" }
  row { "addr", "c, a, b, {alpha = 1, beta = 1}", addr, "beta * c + alpha * (a outer b)", shape = "[n, m]",
    inplace = true }
  row { "baddbmm", "c, a, b, {alpha = 1, beta = 1}", baddbmm, "beta * c + alpha * (a x b), for stacks of matrices",
    shape = "[batch, n, m]" }
  row { "inner", "a, b", inner, "sums of products over the last dims", shape = "other dims of a, then of b" }
  row { "vecdot", "a, b, dim = -1", vecdot, "sums of products along a dim", shape = "broadcast without the dim" }
  row { "cross", "a, b, dim = -1", cross, "the cross product of vectors of three elements",
    shape = "broadcast of a and b" }
  row { "cdist", "a, b, p = 2", cdist, "the distances of all pairs of rows", shape = "[.., n, m]", dtype = "float" }
  row { "pdist", "x, p = 2", pdist, "the distances of each row to those behind it", shape = "[n (n - 1) / 2]",
    dtype = "float", single = true }

  ---------------------------------------------------------------------------------------------------------- labels

  --- x with its dims in the order of `want`, a list of the labels in `labels`.
  local function permuted(x, labels, want)
    local place, order, same = {}, {}, true
    for d = 1, #labels do place[labels[d]] = d end
    for i = 1, #want do
      order[i] = place[want[i]]
      same = same and order[i] == i
    end
    return same and x or x:permute(order)
  end

  local function concat(...)
    local all = {}
    for i = 1, select("#", ...) do
      for _, v in ipairs((select(i, ...))) do all[#all + 1] = v end
    end
    return all
  end

  --- x without the labels that are neither wanted nor in `other`: they are summed. Returns x and its labels.
  local function sum_out(x, labels, wanted, other)
    local gone, left = {}, {}
    for d = 1, #labels do
      if wanted[labels[d]] or other[labels[d]] then left[#left + 1] = labels[d] else gone[#gone + 1] = d end
    end
    if #gone == 0 then return x, labels end
    return x:sum(gone), left
  end

  local function set_of(list)
    local set = {}
    for i = 1, #list do set[list[i]] = true end
    return set
  end

  --- x whose dims of size 1 are expanded to their labels' sizes.
  local function expanded(x, labels, size)
    local sizes, own, same = {}, x.shape, true
    for d = 1, #labels do
      sizes[d] = size[labels[d]]
      same = same and sizes[d] == own[d]
    end
    return same and x or x:expand(sizes)
  end

  --- One step: the product of a and b, summed over the labels that are not wanted. Labels are unique in each operand.
  local function contract(a, la, b, lb, wanted, size)
    a, la = sum_out(a, la, wanted, set_of(lb))
    b, lb = sum_out(b, lb, wanted, set_of(la))
    a, b = expanded(a, la, size), expanded(b, lb, size)
    local in_a, in_b = set_of(la), set_of(lb)
    local batch, summed, only_a, only_b = {}, {}, {}, {}
    for _, l in ipairs(la) do
      local list = not in_b[l] and only_a or wanted[l] and batch or summed
      list[#list + 1] = l
    end
    for _, l in ipairs(lb) do
      if not in_a[l] then only_b[#only_b + 1] = l end
    end
    local labels, sizes = concat(batch, only_a, only_b), {}
    for i = 1, #labels do sizes[i] = size[labels[i]] end
    a = permuted(a, la, concat(batch, only_a, summed))
    b = permuted(b, lb, concat(batch, summed, only_b))
    if #summed == 0 and #labels <= 8 then
      for _ = 1, #only_b do a = a:unsqueeze(-1) end
      local places = {}
      for i = 1, #labels do places[i] = (i > #batch and i <= #batch + #only_a) and 1 or sizes[i] end
      return a * b:reshape(places), labels
    end
    return ty.contract(a, b, #batch, #summed), labels
  end

  --- Sums products over pairs of dims: the last `dims` of a with the first of b, or the listed ones.
  --- Raises where the dims that are summed differ in number or size.
  ---@param a tycho.Tensor
  ---@param b tycho.Tensor
  ---@param dims? integer|integer[][] 2; or {dims of a, dims of b}
  ---@return tycho.Tensor # the other dims of a, then those of b
  local function tensordot(a, b, dims)
    local who = "tensordot"
    check.tensor(who, 1, a)
    check.tensor(who, 2, b)
    check.same_device(who, a, b)
    local da, db = {}, {}
    if dims == nil then dims = 2 end
    if type(dims) == "number" then
      check.whole(who, 3, dims, "dims")
      if dims < 0 or dims > a.ndim or dims > b.ndim then
        fail(who, "%g dims are out of range for %s and %s", dims, check.text(a), check.text(b))
      end
      for i = 1, dims do da[i], db[i] = a.ndim - dims + i, i end
    else
      if type(dims) ~= "table" or #dims ~= 2 then
        fail(who, "argument 3 must be a number or {dims of a, dims of b}, got %s", check.show(dims))
      end
      local lists = {}
      for i = 1, 2 do lists[i] = type(dims[i]) == "table" and dims[i] or { dims[i] } end
      if #lists[1] ~= #lists[2] then fail(who, "%d dims of a, %d of b", #lists[1], #lists[2]) end
      for i = 1, #lists[1] do
        da[i], db[i] = check.dim(who, lists[1][i], a.ndim), check.dim(who, lists[2][i], b.ndim)
      end
      if #lists[1] > 0 then
        check.dims(who, da, a.ndim) -- each once
        check.dims(who, db, b.ndim)
      end
    end
    local la, lb, size, wanted = {}, {}, {}, {}
    for d = 1, a.ndim do la[d] = "a" .. d end
    for d = 1, b.ndim do lb[d] = "b" .. d end
    for i = 1, #da do
      if a:size(da[i]) ~= b:size(db[i]) then
        fail(who, "sizes of dims %d and %d differ, %s and %s", da[i], db[i], check.text(a), check.text(b))
      end
      lb[db[i]] = la[da[i]]
    end
    for d = 1, #la do size[la[d]], wanted[la[d]] = a:size(d), true end
    for d = 1, #lb do
      wanted[lb[d]] = not wanted[lb[d]]
      size[lb[d]] = b:size(d)
    end
    if a.ndim + b.ndim - 2 * #da > 8 then fail(who, "the result has more than 8 dims") end
    return (check.under(who, contract, a, la, b, lb, wanted, size))
  end

  ---------------------------------------------------------------------------------------------------------- einsum

  --- The terms of an equation, "ij,...jk->...ik", as lists of letters with "..." for an ellipsis; and the
  --- output's, or nil.
  local function parse(who, equation)
    local text = equation:gsub("%s", "")
    local left, right = text:match("^(.-)%->(.*)$")
    local terms = {}
    local function term(part)
      local list, ellipsis = {}, false
      for dots, letter in part:gmatch("(%.*)(%a?)") do
        if dots ~= "" then
          if dots ~= "..." or ellipsis then fail(who, "equation %q: \"...\" stands once in a term", equation) end
          list[#list + 1], ellipsis = "...", true
        end
        if letter ~= "" then list[#list + 1] = letter end
      end
      return list
    end
    local bad = (left or text):match("[^%a%.,]") or (right or ""):match("[^%a%.]")
    if bad then fail(who, "equation %q: unexpected %q", equation, bad) end
    for part in ((left or text) .. ","):gmatch("(.-),") do terms[#terms + 1] = term(part) end
    return terms, right and term(right)
  end

  --- Replaces "..." by labels numbered from the right, so that they align as broadcasting does.
  local function spread(list, n)
    local labels = {}
    for _, l in ipairs(list) do
      if l == "..." then
        for i = n, 1, -1 do labels[#labels + 1] = "." .. i end
      else
        labels[#labels + 1] = l
      end
    end
    return labels
  end

  --- Labels of each operand, and the size of every label.
  local function label(who, terms, operands)
    local labels, size, dots = {}, {}, 0
    for i, x in ipairs(operands) do
      check.tensor(who, i + 1, x)
      check.same_device(who, operands[1], x)
      local letters, ellipsis = 0, false
      for _, l in ipairs(terms[i]) do
        if l == "..." then ellipsis = true else letters = letters + 1 end
      end
      local n = x.ndim - letters
      if n < 0 or n > 0 and not ellipsis then
        fail(who, "operand %d, %s, has %d dims, its term %q has %d", i, check.text(x), x.ndim,
          table.concat(terms[i]), letters)
      end
      dots = math.max(dots, ellipsis and n or 0)
      labels[i] = spread(terms[i], n)
      for d, l in ipairs(labels[i]) do
        local own, known = x:size(d), size[l]
        if known and known ~= own and not (l:sub(1, 1) == "." and (known == 1 or own == 1)) then
          fail(who, "label %s has the sizes %d and %d", l, known, own)
        end
        if not known or known == 1 then size[l] = own end
      end
    end
    return labels, size, dots
  end

  --- The output's labels: as written, or all that stand once, in alphabetical order, behind the ellipsis.
  local function output(who, out, labels, dots)
    local uses, list = {}, {}
    for _, ls in ipairs(labels) do
      for _, l in ipairs(ls) do uses[l] = (uses[l] or 0) + 1 end
    end
    if not out then
      for l, n in pairs(uses) do
        if n == 1 and l:sub(1, 1) ~= "." then list[#list + 1] = l end
      end
      table.sort(list)
      table.insert(list, 1, "...")
      return spread(list, dots)
    end
    list = spread(out, dots)
    local seen = {}
    for _, l in ipairs(list) do
      if seen[l] then fail(who, "label %s stands twice in the output", l) end
      if not uses[l] then fail(who, "label %s of the output stands in no operand", l) end
      seen[l] = true
    end
    if dots > 0 and not seen[".1"] then fail(who, "the output lacks the \"...\" of the operands") end
    return list
  end

  --- x whose repeated labels are one dim, its diagonal.
  local function diagonals(x, labels)
    local i = 1
    while i <= #labels do
      local same
      for j = i + 1, #labels do
        if labels[j] == labels[i] then same = j end
      end
      if same then
        local left = {}
        for d = 1, #labels do
          if d ~= i and d ~= same then left[#left + 1] = labels[d] end
        end
        left[#left + 1] = labels[i] -- the diagonal is the last dim
        x, labels, i = x:diagonal(0, i, same), left, 1
      else
        i = i + 1
      end
    end
    return x, labels
  end

  --- Sums of products by Einstein's convention, as NumPy's einsum: one letter a dim; letters that the output lacks are
  --- summed; "..." stands for broadcast dims; without "->" the output has the letters that stand once, in alphabetical
  --- order.
  --- Operands are taken from left to right.
  --- Raises where the equation is malformed, does not fit the operands, or a label has two sizes.
  ---@param equation string such as "ij,jk->ik"
  ---@param ... tycho.Tensor the operands; or one table of them
  ---@return tycho.Tensor # the output's dims
  local function einsum(equation, ...)
    local who = "einsum"
    if type(equation) ~= "string" then
      fail(who, "argument 1 must be an equation such as \"ij,jk->ik\", got %s", check.show(equation))
    end
    local operands = { ... }
    if #operands == 1 and type(operands[1]) == "table" and not is_tensor(operands[1]) then operands = operands[1] end
    local terms, out = parse(who, equation)
    if #terms ~= #operands then
      fail(who, "the equation %q has %d operands, %d were given", equation, #terms, #operands)
    end
    local labels, size, dots = label(who, terms, operands)
    out = output(who, out, labels, dots)
    if #out > 8 then fail(who, "the result has more than 8 dims") end
    local y, ly = diagonals(operands[1], labels[1])
    for i = 2, #operands do
      local wanted = set_of(out)
      for j = i + 1, #operands do
        for _, l in ipairs(labels[j]) do wanted[l] = true end
      end
      local b, lb = diagonals(operands[i], labels[i])
      y, ly = check.under(who, contract, y, ly, b, lb, wanted, size)
    end
    y, ly = sum_out(y, ly, set_of(out), {})
    return permuted(y, ly, out)
  end

  row { "tensordot", "a, b, dims = 2", tensordot, "products summed over pairs of dims",
    shape = "other dims of a, then of b" }
  row { "einsum", "equation, operands...", einsum, "sums of products by Einstein's convention, \"ij,jk->ik\"",
    shape = "the output's letters", formula = "as NumPy's einsum", only = "module", single = true }
end
