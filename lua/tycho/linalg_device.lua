--- linalg_device.lua -- ty.linalg of tensors on a device, by a library of the device where it has one.
-- In: the arguments of ty.linalg's functions, as users give them. Out: results on the device; nil where arguments are
-- wrong or empty, or the device has no library: the core's own function says so, or computes on the CPU with copies.
-- Matrices lie column by column for the library: a fresh copy of x transposed is such a matrix, and is overwritten.
-- Each function reads `info` back, which waits for the device, and raises what the CPU's raises.

---@param ty table the core module
---@param own table by name, see lua_solve.c
return function(ty, own)
  local solve, raise = ty.internals.solve, ty.internals.error
  local is_complex, is_tensor = ty.is_complex, ty.is_tensor
  local FLOAT = { [false] = { [false] = "f32", [true] = "f64" }, [true] = { [false] = "c64", [true] = "c128" } }
  local WIDE = { f64 = true, c128 = true, f32 = false, c64 = false, f16 = false, bf16 = false }

  --- The dtype of results.
  local function dtype_of(...)
    local wide, complex = false, false
    for i = 1, select("#", ...) do
      local x = select(i, ...)
      local own_width = WIDE[x.dtype]
      if own_width == nil then own_width = ty.default_dtype() == "f64" end
      wide, complex = wide or own_width, complex or is_complex(x)
    end
    return FLOAT[complex][wide]
  end

  local function real_of(dtype) return (dtype == "f64" or dtype == "c128") and "f64" or "f32" end

  --- Rows, columns, sizes of the dims before and their product; nil: no matrices, or nothing in them.
  local function sizes(x, square)
    if not is_tensor(x) or x.ndim < 2 or x:numel() == 0 then return nil end
    local lead = x.shape
    local n, m = table.remove(lead), table.remove(lead)
    if square and m ~= n then return nil end
    return m, n, lead, x:numel() / (m * n)
  end

  local function with(lead, n, more)
    local shape = { unpack(lead) }
    shape[#shape + 1], shape[#shape + 2] = n, more
    return shape
  end
  --- Memory for results, beside x.
  local function room(shape, x, dtype) return ty.zeros(shape, { dtype = dtype, device = x.device }) end
  local function infos(lead, x) return room(with(lead, 1), x, "i32") end

  --- The matrices for the library, as a tensor of their transposes.
  local function columns(x, dtype) return x:detach():to(dtype).mT:clone() end

  --- Raises by the first matrix whose info is not 0.
  local function check(who, info, text)
    local n = info:abs():max():item()
    if n == 0 then return end
    for _, v in ipairs(info:reshape(-1):totable()) do
      if v ~= 0 then raise(who .. ": " .. text:format(v)) end
    end
  end

  local function must_be_finite(who, x)
    local parts = is_complex(x) and ty.view_as_real(x) or x
    if not parts:isfinite():all():item() then raise(who .. ": the matrix holds NaN or infinity") end
  end

  --- The decomposition of a, its pivots, info; nil: the device has no library.
  local function factored(a, dtype, m, n, lead, count)
    local f, info = columns(a, dtype), infos(lead, a)
    local pivots = room(with(lead, math.min(m, n)), a, "i64")
    if not solve("lu", m, n, 0, count, f, pivots, info) then return nil end
    return f, pivots, info
  end

  function own.cholesky(a)
    local m, n, lead, count = sizes(a, true)
    if not m then return nil end
    local l, info = columns(a, dtype_of(a)), infos(lead, a)
    if not solve("cholesky", m, n, 0, count, l, info) then return nil end
    check("cholesky", info, "matrix is not positive definite (minor %d)")
    return l.mT:tril()
  end

  --- x with a x = b; b of at least two dims.
  local function solved(who, a, b, dtype)
    local _, n, lead, count = sizes(a, true)
    local f, pivots, info = factored(a, dtype, n, n, lead, count)
    if not f then return nil end
    check(who, info, "matrix is singular (pivot %d)")
    local x = columns(b, dtype)
    if not solve("lu_solve", n, n, b:size(-1), count, f, pivots, x, info) then return nil end
    return x.mT:contiguous()
  end

  --- Both with the leading dims of both; nil: they do not go together.
  local function broadcast(a, b)
    local shape, p, q = {}, a.shape, b.shape
    local rank = math.max(#p, #q)
    for i = 1, rank - 2 do
      local x, y = p[#p - rank + i] or 1, q[#q - rank + i] or 1
      if x ~= y and x ~= 1 and y ~= 1 then return nil end
      shape[i] = x == 1 and y or x
    end
    local function spread(x, s)
      shape[rank - 1], shape[rank] = s[#s - 1], s[#s]
      return x:expand(unpack(shape, 1, rank))
    end
    return spread(a, p), spread(b, q)
  end

  function own.solve(a, b)
    local m = sizes(a, true)
    if not m or not is_tensor(b) or b.ndim < 1 or b:numel() == 0 or b.device ~= a.device then return nil end
    local vector = b.ndim == 1
    local dtype, right = dtype_of(a, b), vector and b:unsqueeze(-1) or b
    if right:size(-2) ~= m then return nil end
    local wide, all = broadcast(a, right)
    local x = wide and solved("solve", wide, all, dtype)
    return x and (vector and x:squeeze(-1) or x)
  end

  function own.inv(a)
    local m = sizes(a, true)
    if not m then return nil end
    local dtype = dtype_of(a)
    return solved("inv", a, ty.eye(m, { dtype = dtype, device = a.device }):expand(unpack(a.shape)), dtype)
  end

  --- The diagonal of u, and the sign of the row exchanges.
  local function pivoted(a)
    local m, n, lead, count = sizes(a, true)
    if not m then return nil end
    local f, pivots = factored(a, dtype_of(a), m, n, lead, count)
    if not f then return nil end
    local order = ty.arange(n, { dtype = "i64", device = a.device }) + 1
    local odd = pivots:ne(order):to "i64":sum(-1):remainder(2)
    return f:diagonal(0, -2, -1), (1 - odd * 2):to(real_of(f.dtype))
  end

  function own.det(a)
    local d, sign = pivoted(a)
    return d and d:prod(-1) * sign
  end

  function own.slogdet(a)
    local d, sign = pivoted(a)
    if not d then return nil end
    local size = d:abs()
    local unit = is_complex(d) and d / size or d:sign()
    return unit:prod(-1) * sign, size:log():sum(-1)
  end

  function own.lu(a)
    local m, n, lead, count = sizes(a)
    if not m then return nil end
    local dtype, k = dtype_of(a), math.min(m, n)
    local f, pivots = factored(a, dtype, m, n, lead, count)
    if not f then return nil end
    local rows = {} -- which row of a stands where
    for i, list in ipairs(pivots:reshape(-1, k):totable()) do
      local row = {}
      for r = 1, m do row[r] = r end
      for d, other in ipairs(list) do row[d], row[other] = row[other], row[d] end
      rows[i] = row
    end
    local places = ty.tensor(rows, { dtype = "i64", device = a.device }):reshape(count, 1, m)
    local p = (ty.arange(m, { dtype = "i64", device = a.device }) + 1):reshape(m, 1):eq(places):to(dtype)
    local both, one = f.mT, ty.eye(m, { dtype = dtype, device = a.device })[{ {}, { 1, k } }]
    return p:reshape(with(lead, m, m)), both[{ "...", { 1, k } }]:tril(-1) + one, both[{ "...", { 1, k }, {} }]:triu()
  end

  function own.qr(a)
    local m, n, lead, count = sizes(a)
    if not m then return nil end
    local dtype, k = dtype_of(a), math.min(m, n)
    local f, info, tau = columns(a, dtype), infos(lead, a), room(with(lead, k), a, dtype)
    if not solve("qr", m, n, 0, count, f, tau, info) then return nil end
    local r, q = f.mT[{ "...", { 1, k }, {} }]:triu(), f[{ "...", { 1, k }, {} }]:clone()
    if not solve("qr_q", m, n, k, count, q, tau, info) then return nil end
    return q.mT:contiguous(), r
  end

  function own.svd(a)
    local m, n, lead, count = sizes(a)
    if not m then return nil end
    local dtype = dtype_of(a)
    local turned = m < n
    if turned then m, n = n, m end
    -- of the transpose: s is the same, u and v change places
    local f, info = columns(turned and a.mT or a, dtype), infos(lead, a)
    local s = room(with(lead, n), a, real_of(dtype))
    local u, v = room(with(lead, n, m), a, dtype), room(with(lead, n, n), a, dtype)
    must_be_finite("svd", a)
    if not solve("svd", m, n, 0, count, f, s, u, v, info) then return nil end
    check("svd", info, "the singular values did not converge")
    if turned then return v:contiguous(), s, u:contiguous() end
    return u.mT:contiguous(), s, v.mT:contiguous()
  end

  function own.eigh(a)
    local m, n, lead, count = sizes(a, true)
    if not m then return nil end
    local dtype = dtype_of(a)
    local f, info, w = columns(a, dtype), infos(lead, a), room(with(lead, n), a, real_of(dtype))
    must_be_finite("eigh", a)
    if not solve("eigh", m, n, 0, count, f, w, info) then return nil end
    check("eigh", info, "the eigenvalues did not converge")
    return w, f.mT:contiguous()
  end
end
