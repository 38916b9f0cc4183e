--- complex_rows.lua -- composites of complex numbers: made of parts, conjugates, angles, inner products.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
---@param complex table complex.lua
return function(ty, check, row, complex)
  local fail, is_tensor, is_complex = check.fail, ty.is_tensor, ty.is_complex
  local where, eq, atan2 = ty.where, ty.eq, ty.atan2
  local PARTS = { f32 = "f32", f64 = "f64", f16 = "f32", bf16 = "f32" }

  --- Argument i as reals: a tensor, a number, or nested tables of numbers.
  local function reals_of(who, i, v, opts)
    if type(v) == "table" or type(v) == "number" then
      return check.named(who, "tensor", ty.tensor, v, { dtype = opts.dtype, device = opts.device })
    end
    check.tensor(who, i, v)
    if is_complex(v) then fail(who, "argument %d must be of reals, got %s", i, check.text(v)) end
    return v
  end

  --- Two tensors of one shape and dtype, f32 or f64, of what was given as parts or polar coordinates.
  local function two(who, a, b, opts)
    if check.is_options(b) and opts == nil then b, opts = nil, b end
    opts = check.options(who, opts, { dtype = "string", device = "string", requires_grad = "boolean" })
    for i, v in pairs { a, b } do
      if is_tensor(v) then check.tensor(who, i, v) end
    end
    local dtype = opts.dtype and check.named(who, "empty", ty.empty, { 0 }, { dtype = opts.dtype }).dtype
    if dtype and dtype ~= "c64" and dtype ~= "c128" then fail(who, "dtype must be c64 or c128, got %s", dtype) end
    local part = dtype and (dtype == "c128" and "f64" or "f32")
    local first = is_tensor(a) and a or is_tensor(b) and b or nil
    local device = opts.device or first and first.device
    local like = part or first and (PARTS[first.dtype] or "f32")
    a = reals_of(who, 1, a, { dtype = like, device = device })
    b = reals_of(who, 2, b == nil and 0 or b, { dtype = like, device = device })
    if not part then
      part = ty.promote_types(a.dtype, b.dtype)
      part = PARTS[part] or "f32"
    end
    check.pair(who, a, b)
    a, b = unpack(ty.broadcast_tensors(a:to(part), b:to(part)))
    return a, b, opts
  end

  local function made(y, opts) return opts.requires_grad and y:detach():requires_grad_() or y end

  --- Complex numbers of real and imaginary parts.
  --- Raises where sizes do not broadcast, or a part is complex itself.
  ---@param re tycho.Tensor|number|table the real parts: a tensor, a number, nested tables
  ---@param im? tycho.Tensor|number|table the imaginary parts; 0
  ---@param opts? {dtype: tycho.dtype?, device: string?, requires_grad: boolean?} dtype: c128 for f64, else c64
  ---@return tycho.Tensor # the broadcast shape, c64 or c128
  local function from_parts(re, im, opts)
    local a, b
    a, b, opts = two("complex", re, im, opts)
    return made(complex.join(a, b), opts)
  end

  --- Complex numbers of magnitudes and angles: abs * (cos(angle) + i sin(angle)).
  --- Raises where sizes do not broadcast, or an argument is complex.
  ---@param abs tycho.Tensor|number|table the magnitudes
  ---@param angle tycho.Tensor|number|table in radians
  ---@param opts? {dtype: tycho.dtype?, device: string?, requires_grad: boolean?} dtype: c128 for f64, else c64
  ---@return tycho.Tensor # the broadcast shape, c64 or c128
  local function polar(abs, angle, opts)
    local a, b
    a, b, opts = two("polar", abs, angle, opts)
    return made(complex.join(a * ty.cos(b), a * ty.sin(b)), opts)
  end

  --- The conjugates: the imaginary parts negative. A real x as it is.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # shape and dtype of x
  local function conj(x)
    check.tensor("conj", 1, x)
    return is_complex(x) and complex.conjugate(x) or x
  end

  --- The angles in radians, from -pi to pi: atan2(im, re). Of reals 0, or pi below zero; NaN stays.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # shape of x; f32 or f64
  local function angle(x)
    check.tensor("angle", 1, x)
    if is_complex(x) then return atan2(x:imag(), x:real()) end
    local below = where(x:lt(0), math.pi, 0 * ty.abs(x):minimum(0))
    return where(ty.ne(x, x), x, below)
  end

  --- Whether the imaginary part is 0; so of all reals.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # bool, shape of x
  local function isreal(x)
    check.tensor("isreal", 1, x)
    return eq(ty.imag(x), 0)
  end

  --- Whether the imaginary part is not 0.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # bool, shape of x
  local function iscomplex(x)
    check.tensor("iscomplex", 1, x)
    return ty.ne(ty.imag(x), 0)
  end

  --- The inner product of two vectors: the sum of the products of a's conjugates with b.
  --- Raises where an argument is no vector, or the sizes differ.
  ---@param a tycho.Tensor [n]
  ---@param b tycho.Tensor [n]
  ---@return tycho.Tensor # 0-d
  local function vdot(a, b)
    check.rank("vdot", 1, a, 1)
    check.rank("vdot", 2, b, 1)
    if a:numel() ~= b:numel() then fail("vdot", "sizes differ, %s and %s", check.text(a), check.text(b)) end
    return ty.matmul(conj(a), b)
  end

  --- The conjugate transposes of matrices. A real x as a view.
  --- Raises where x has fewer than two dims.
  ---@param x tycho.Tensor [.., n, m]
  ---@return tycho.Tensor # [.., m, n]
  local function adjoint(x)
    check.tensor("adjoint", 1, x)
    if x.ndim < 2 then fail("adjoint", "needs at least 2 dims, got %s", check.text(x)) end
    return conj(x:transpose(-2, -1))
  end

  row { "complex", "re, im = 0, {dtype, device, requires_grad}", from_parts,
    "complex numbers of real and imaginary parts: tensors, numbers, nested tables", shape = "broadcast of both",
    dtype = "c64 or c128", only = "module", single = true }
  row { "polar", "abs, angle, {dtype, device, requires_grad}", polar, "complex numbers of magnitudes and angles",
    shape = "broadcast of both", dtype = "c64 or c128", formula = "abs * (cos(angle) + i sin(angle))", only = "module",
    single = true }
  row { "conj", "x", conj, "the conjugates: imaginary parts negative", shape = "x", inplace = true, single = true }
  row { "angle", "x", angle, "the angles of complex numbers in radians; of reals 0, or pi below zero", shape = "x",
    dtype = "float", formula = "atan2(im, re)" }
  row { "isreal", "x", isreal, "bool: the imaginary part is 0", shape = "x", dtype = "bool", single = true }
  row { "iscomplex", "x", iscomplex, "bool: the imaginary part is not 0", shape = "x", dtype = "bool", single = true }
  row { "vdot", "a, b", vdot, "the sum of the products of a's conjugates with b", shape = "0-d" }
  row { "adjoint", "x", adjoint, "the conjugate transposes of matrices", shape = "[.., m, n]", single = true }
end
