--- matrices.lua -- functions of ty.linalg that stand on others there, on products and on norms.
-- In: ty.linalg with what LAPACK computes and its gradients (linalg.lua); how a function gets a rule for its gradient.
-- Out: more of ty.linalg. Leading dims are stacks.

---@param ty table the core module
---@param ruled fun(name: string, fn: function, rule: function, wants: integer) see linalg.lua
---@param pinv_rule fun(g: tycho.Tensor, p: tycho.Tensor, a: tycho.Tensor): tycho.Tensor
return function(ty, ruled, pinv_rule)
  local linalg, describe = ty.linalg, ty.internals.describe
  local check = require("tycho.arguments")(ty)
  local fail, where = check.fail, ty.where
  local INF = math.huge
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

  --- The transpose, of complex matrices the conjugate one.
  local function t(x) return ty.adjoint(x) end

  --- Adds a function with its line of help.
  local function define(name, args, help, fn)
    if fn then linalg[name] = fn end
    describe("linalg." .. name, args, help)
  end

  --- Matrices: at least two dims, floats or complex; half floats by way of f32.
  local function matrices(who, x, square)
    check.tensor(who, 1, x)
    if x.ndim < 2 then fail(who, "needs a matrix, got %s", check.text(x)) end
    if square and x:size(-1) ~= x:size(-2) then fail(who, "needs square matrices, got %s", check.text(x)) end
    local dtype = x.dtype
    if dtype == "f32" or dtype == "f64" or ty.is_complex(x) then return x end
    return x:to(floats[dtype] and "f32" or ty.default_dtype())
  end

  local tolerances = { rtol = "number", atol = "number" }

  --- What counts as zero among singular values of an m x n matrix, [..., 1].
  local function least(opts, s, m, n)
    local rtol = opts.rtol or (opts.atol and 0 or math.max(m, n) * ty.finfo(s.dtype).eps)
    local y = s:max(-1, true) * rtol
    return opts.atol and y:maximum(opts.atol) or y
  end

  -------------------------------------------------------------------------------------------------- singular values

  --- linalg.svdvals(a): the singular values of matrices, in descending order.
  --- Raises where a has fewer than two dims, or OpenBLAS is missing.
  ---@param a tycho.Tensor [..., n, m]
  ---@return tycho.Tensor # [..., min(n, m)]
  define("svdvals", "a", "the singular values, in descending order", function(a)
    local _, s = check.named("svdvals", "svd", linalg.svd, a)
    return s
  end)

  --- linalg.eigvalsh(a): the eigenvalues of symmetric matrices, in ascending order; the lower triangle is read.
  --- Raises where a matrix is not square, or OpenBLAS is missing.
  ---@param a tycho.Tensor [..., n, n]
  ---@return tycho.Tensor # [..., n]
  define("eigvalsh", "a", "the eigenvalues of symmetric matrices, in ascending order", function(a)
    local w = check.named("eigvalsh", "eigh", linalg.eigh, a)
    return w
  end)

  --- linalg.pinv(a, {rtol, atol}): the pseudo-inverse, by singular values. Those at most max(atol, rtol * the largest)
  --- count as 0.
  --- Raises where a has fewer than two dims, or OpenBLAS is missing.
  ---@param a tycho.Tensor [..., n, m]
  ---@param opts? {rtol: number?, atol: number?} rtol = max(n, m) * eps of the dtype, 0 where atol is given; atol = 0
  ---@return tycho.Tensor # [..., m, n]
  local function pinv(a, opts)
    a, opts = matrices("pinv", a), check.options("pinv", opts, tolerances)
    if a:numel() == 0 then return t(a):clone() end
    local u, s, vt = check.named("pinv", "svd", linalg.svd, a)
    local small = ty.le(s, least(opts, s, a:size(-2), a:size(-1)))
    local inverse = where(small, 0, 1 / where(small, 1, s))
    return (t(vt) * inverse:unsqueeze(-2)):matmul(t(u))
  end
  ruled("pinv", pinv, function(g, p, a) return pinv_rule(g[1], p, a) end, 1)
  define("pinv", "a, {rtol, atol}", "the pseudo-inverse of matrices")

  --- linalg.matrix_rank(a, {rtol, atol}): how many singular values exceed max(atol, rtol * the largest).
  --- Raises where a has fewer than two dims, or OpenBLAS is missing.
  ---@param a tycho.Tensor [..., n, m]
  ---@param opts? {rtol: number?, atol: number?} rtol = max(n, m) * eps of the dtype, 0 where atol is given; atol = 0
  ---@return tycho.Tensor # [...]; i64
  define("matrix_rank", "a, {rtol, atol}", "how many singular values are not zero", function(a, opts)
    a, opts = matrices("matrix_rank", a):detach(), check.options("matrix_rank", opts, tolerances)
    local s = check.named("matrix_rank", "svdvals", linalg.svdvals, a)
    return ty.gt(s, least(opts, s, a:size(-2), a:size(-1))):sum(-1)
  end)

  ------------------------------------------------------------------------------------------------------------ norms

  --- linalg.vector_norm(x, p = 2, dims = nil, keepdim = false): the p-norm of the elements over dims, as ty.norm.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param p? number 2; also math.huge, -math.huge, 0
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; floats
  local function vector_norm(x, p, dims, keepdim)
    check.tensor("vector_norm", 1, x)
    return check.named("vector_norm", "norm", ty.norm, x, p, dims, keepdim)
  end
  define("vector_norm", "x, p = 2, dims = nil, keepdim = false", "the p-norm of the elements over dims", vector_norm)

  --- The norm of matrices in the last two dims.
  local function norm_of(who, a, p)
    if p == "fro" then return ty.norm(a, 2, { -2, -1 }) end
    if p == "nuc" or p == 2 or p == -2 then
      local s = check.named(who, "svdvals", linalg.svdvals, a)
      return p == "nuc" and s:sum(-1) or p == 2 and s:max(-1) or s:min(-1)
    end
    if p == 1 or p == -1 then return a:abs():sum(-2)[p == 1 and "max" or "min"](a:abs():sum(-2), -1) end
    if p == INF or p == -INF then return a:abs():sum(-1)[p == INF and "max" or "min"](a:abs():sum(-1), -1) end
    return fail(who, "p must be \"fro\", \"nuc\", 1, -1, 2, -2 or infinite, got %s", check.show(p))
  end

  local function matrix_norm_of(who, a, p, dims, keepdim)
    a = matrices(who, a)
    keepdim = check.boolean(who, 4, keepdim, "keepdim", false)
    dims = dims or { -2, -1 }
    if type(dims) ~= "table" or #dims ~= 2 then fail(who, "the dims must be two, got %s", check.show(dims)) end
    local rows, columns = check.dim(who, dims[1], a.ndim), check.dim(who, dims[2], a.ndim)
    if rows == columns then fail(who, "the dims must differ, both are %d", rows) end
    local y = norm_of(who, a:movedim({ rows, columns }, { -2, -1 }), p == nil and "fro" or p)
    if not keepdim then return y end
    local sizes = a.shape
    sizes[rows], sizes[columns] = 1, 1
    return y:reshape(sizes)
  end

  --- linalg.matrix_norm(a, p = "fro", dims = {-2, -1}, keepdim = false): a norm of matrices: "fro" of all elements,
  --- "nuc" the sum of singular values, 2 and -2 the largest and smallest of these, 1 and -1 of the columns' sums of
  --- magnitudes, math.huge and -math.huge of the rows'.
  --- Raises where a has fewer than two dims, p is another, or for singular values OpenBLAS is missing.
  ---@param a tycho.Tensor [..., n, m]
  ---@param p? "fro"|"nuc"|number "fro"
  ---@param dims? integer[] {-2, -1}
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # a without the dims; floats
  define("matrix_norm", "a, p = \"fro\", dims = {-2, -1}, keepdim = false", "a norm of matrices: by all elements, "
    .. "singular values, columns or rows", function(a, p, dims, keepdim)
    return matrix_norm_of("matrix_norm", a, p, dims, keepdim)
  end)

  --- linalg.norm(x, p = nil, dims = nil, keepdim = false): a norm of vectors (one dim) or of matrices (two dims): see
  --- ty.linalg.vector_norm and ty.linalg.matrix_norm. Without p the square root of the sum of squares.
  --- Raises where x has more than two dims, p is given and dims are not.
  ---@param x tycho.Tensor
  ---@param p? number|"fro"|"nuc"
  ---@param dims? integer|integer[] all
  ---@param keepdim? boolean false
  ---@return tycho.Tensor # x without the dims; floats
  local norm_args = "x, p = nil, dims = nil, keepdim = false"
  define("norm", norm_args, "a norm of vectors or matrices", function(x, p, dims, keepdim)
    check.tensor("norm", 1, x)
    local list = check.dims("norm", dims, x.ndim)
    if p == nil then return ty.norm(x, 2, list, keepdim) end
    local n = list and #list or x.ndim
    if n == 1 and type(p) == "number" then return ty.norm(x, p, list, keepdim) end
    if n ~= 2 then fail("norm", "p = %s needs one or two dims, got %d", check.show(p), n) end
    return matrix_norm_of("norm", x, p, type(dims) == "table" and dims or nil, keepdim)
  end)

  --- linalg.cond(a, p = nil): the condition number: the largest singular value by the smallest; with another p than 2
  --- the norm of a times that of its inverse.
  --- Raises where a has fewer than two dims, with a norm that needs the inverse where a is not square or singular, or
  --- where OpenBLAS is missing.
  ---@param a tycho.Tensor [..., n, m]
  ---@param p? "fro"|"nuc"|number 2
  ---@return tycho.Tensor # [...]
  define("cond", "a, p = nil", "the condition number of matrices", function(a, p)
    a = matrices("cond", a)
    if p == nil or p == 2 or p == -2 then
      local s = check.named("cond", "svdvals", linalg.svdvals, a)
      local large, small = s:max(-1), s:min(-1)
      if p == -2 then large, small = small, large end
      return large / small
    end
    return norm_of("cond", a, p) * norm_of("cond", check.named("cond", "inv", linalg.inv, a), p)
  end)

  --------------------------------------------------------------------------------------------------------- products

  --- linalg.matrix_power(a, n): the product of n matrices a; of the inverse for a negative n.
  --- Raises where a matrix is not square, n is no whole number, or for a negative n where it is singular.
  ---@param a tycho.Tensor [..., k, k]
  ---@param n integer
  ---@return tycho.Tensor # [..., k, k]
  define("matrix_power", "a, n", "the product of n matrices, of the inverse for n below 0", function(a, n)
    check.tensor("matrix_power", 1, a)
    if a.ndim < 2 or a:size(-1) ~= a:size(-2) then
      fail("matrix_power", "needs square matrices, got %s", check.text(a))
    end
    n = check.whole("matrix_power", 2, n, "n")
    if n == 0 then return ty.eye(a:size(-1), { dtype = a.dtype, device = a.device }):expand(a.shape):clone() end
    if n < 0 then a, n = check.named("matrix_power", "inv", linalg.inv, a), -n end
    local y
    while n > 0 do
      if n % 2 == 1 then y = y and y:matmul(a) or a end
      n = math.floor(n / 2)
      if n > 0 then a = a:matmul(a) end
    end
    return y
  end)

  --- Where to cut a chain of matrices of these sizes: cuts[i][j] between i and j.
  local function cuts_of(sizes)
    local n, cost, cuts = #sizes - 1, {}, {}
    for i = 1, n do cost[i], cuts[i] = { [i] = 0 }, {} end
    for length = 2, n do
      for i = 1, n - length + 1 do
        local j = i + length - 1
        for k = i, j - 1 do
          local c = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
          if not cost[i][j] or c < cost[i][j] then cost[i][j], cuts[i][j] = c, k end
        end
      end
    end
    return cuts
  end

  --- linalg.multi_dot(list): the product of matrices, in the order that takes the fewest multiplications. The first and
  --- the last may be vectors.
  --- Raises where there are fewer than two, one has more than two dims, or inner sizes differ.
  ---@param list tycho.Tensor[]
  ---@return tycho.Tensor # [rows of the first, columns of the last]; a vector's dim is left out
  define("multi_dot", "list", "the product of matrices, in the cheapest order", function(list)
    local who = "multi_dot"
    if type(list) ~= "table" then fail(who, "argument 1 must be a table of tensors, got %s", check.show(list)) end
    local n, parts, sizes = #list, {}, {}
    if n < 2 then fail(who, "needs at least two tensors, got %d", n) end
    for i = 1, n do
      local x = check.tensor(who, i, list[i])
      if x.ndim == 1 and i == 1 then x = x:unsqueeze(1) elseif x.ndim == 1 and i == n then x = x:unsqueeze(2) end
      if x.ndim ~= 2 then fail(who, "tensor %d must be a matrix, got %s", i, check.text(list[i])) end
      if i > 1 and x:size(1) ~= sizes[i] then
        fail(who, "inner sizes differ, %s x %s", check.text(list[i - 1]), check.text(list[i]))
      end
      parts[i], sizes[i], sizes[i + 1] = x, x:size(1), x:size(2)
    end
    local cuts = cuts_of(sizes)
    local function product(i, j)
      if i == j then return parts[i] end
      return product(i, cuts[i][j]):matmul(product(cuts[i][j] + 1, j))
    end
    local y = product(1, n)
    if list[1].ndim == 1 then y = y:squeeze(1) end
    return list[n].ndim == 1 and y:squeeze(-1) or y
  end)

  --- The Taylor polynomial of degree 19, of matrices of norm 1 at most, by powers up to 4 (Paterson, Stockmeyer 1973).
  local function taylor(a, one)
    local b = a:matmul(a)
    local c, d = b:matmul(a), b:matmul(b)
    local f = { [0] = 1 }
    for k = 1, 19 do f[k] = f[k - 1] / k end
    local y
    for k = 16, 0, -4 do
      local part = one * f[k] + a * f[k + 1] + b * f[k + 2] + c * f[k + 3]
      y = y and y:matmul(d) + part or part
    end
    return y
  end

  --- linalg.matrix_exp(a): the exponential of matrices: the sum of a^k / k!. Reads the largest norm.
  --- By scaling to a norm of 1, a Taylor polynomial, and squaring.
  --- Raises where a matrix is not square.
  ---@param a tycho.Tensor [..., n, n]
  ---@return tycho.Tensor # [..., n, n]
  local function matrix_exp(a)
    a = matrices("matrix_exp", a, true)
    if a:numel() == 0 then return a:clone() end
    local norm = a:abs():sum(-2):max(-1, true):unsqueeze(-1)
    local finite, one = norm:lt(INF), ty.eye(a:size(-1), { dtype = a.dtype, device = a.device })
    local squarings = where(finite, norm, 1):log2():ceil():maximum(0)
    local y = taylor(a * ty.exp2(-squarings), one)
    for i = 1, squarings:max():item() do y = where(squarings:ge(i), y:matmul(y), y) end
    return where(finite, y, 0 / 0)
  end
  --- The derivative of exp at a^T towards g is the upper right block of exp of [[a^T, g], [0, a^T]].
  ruled("matrix_exp", matrix_exp, function(g, _, a)
    local n, at = a:size(-1), t(a)
    local block = ty.cat({ ty.cat({ at, g[1] }, -1), ty.cat({ ty.zeros_like(a), at }, -1) }, -2)
    return linalg.matrix_exp(block):narrow(-2, 1, n):narrow(-1, n + 1, n)
  end, 1)
  define("matrix_exp", "a", "the exponential of matrices")

  ---------------------------------------------------------------------------------------------------------- systems

  --- linalg.solve_triangular(a, b, {upper, left = true, unitriangular = false}): x with a x = b, or x a = b where
  --- left is false. Of a the other triangle is not read.
  --- Raises where upper is not told, sizes do not fit, a matrix is singular, or OpenBLAS is missing.
  ---@param a tycho.Tensor [..., n, n]
  ---@param b tycho.Tensor [..., n, m]; [..., m, n] where left is false
  ---@param opts {upper: boolean, left: boolean?, unitriangular: boolean?} unitriangular: the diagonal is taken for ones
  ---@return tycho.Tensor # the sizes of b
  define("solve_triangular", "a, b, {upper, left = true, unitriangular = false}", "x with a x = b, for triangles a",
    function(a, b, opts)
      local who = "solve_triangular"
      check.tensor(who, 1, a)
      check.tensor(who, 2, b)
      opts = check.options(who, opts, { upper = "boolean", left = "boolean", unitriangular = "boolean" })
      if opts.upper == nil then fail(who, "option upper must be true or false") end
      if b.ndim < 2 then fail(who, "argument 2 must be a matrix, got %s", check.text(b)) end
      local unit = opts.unitriangular or false
      if opts.left == false then return t(linalg._solve_triangular(t(a), t(b), not opts.upper, unit)) end
      return linalg._solve_triangular(a, b, opts.upper, unit)
    end)

  --- linalg.tensorinv(a, n = 2): the inverse of a as a map from its last dims to its first n.
  --- Raises where the products of the first n sizes and of the others differ, or a is singular.
  ---@param a tycho.Tensor
  ---@param n? integer 2
  ---@return tycho.Tensor # the other sizes, then the first n
  define("tensorinv", "a, n = 2", "the inverse of a as a map from its last dims to its first n", function(a, n)
    local who = "tensorinv"
    check.tensor(who, 1, a)
    n = check.whole(who, 2, n, "n", 2)
    if n < 1 or n >= a.ndim then fail(who, "argument 2 (n) must lie from 1 to %d, got %g", a.ndim - 1, n) end
    local sizes, rows, y = a.shape, 1, {}
    for d = 1, n do rows = rows * sizes[d] end
    for d = n + 1, #sizes do y[#y + 1] = sizes[d] end
    for d = 1, n do y[#y + 1] = sizes[d] end
    if rows * rows ~= a:numel() then fail(who, "the sizes of %s do not make a square", check.text(a)) end
    return check.named(who, "inv", linalg.inv, a:reshape(rows, rows)):reshape(y)
  end)

  --- linalg.tensorsolve(a, b): x with a x = b, summed over the last dims of a.
  --- Raises where the sizes of b are not the first ones of a, the others have another product, or a is singular.
  ---@param a tycho.Tensor the sizes of b, then those of x
  ---@param b tycho.Tensor
  ---@return tycho.Tensor # the last sizes of a
  define("tensorsolve", "a, b", "x with a x = b, summed over the last dims of a", function(a, b)
    local who = "tensorsolve"
    check.tensor(who, 1, a)
    check.tensor(who, 2, b)
    local sizes, given, y, n = a.shape, b.shape, {}, b:numel()
    for d = 1, #given do
      if given[d] ~= sizes[d] then fail(who, "sizes do not fit, %s and %s", check.text(a), check.text(b)) end
    end
    local columns = 1
    for d = #given + 1, #sizes do y[#y + 1], columns = sizes[d], columns * sizes[d] end
    if n ~= columns then fail(who, "the sizes of %s do not make a square", check.text(a)) end
    return check.named(who, "solve", linalg.solve, a:reshape(n, n), b:reshape(n)):reshape(y)
  end)
end
