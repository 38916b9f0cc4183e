--- dtypes.lua -- dtypes as tables and names; tensors made in the dtype of another one.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail = check.fail
  local order = { "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128" }
  local unsigned = { u16 = 2, u32 = 4, u64 = 8 }
  local signed = { i8 = 1, i16 = 2, i32 = 4, i64 = 8 }
  local rank = {}
  for i, name in ipairs(order) do rank[name] = i end

  --- The dtype of that name, which may be PyTorch's or NumPy's.
  local function named(who, i, name)
    if type(name) ~= "string" then fail(who, "argument %d must be a dtype, got %s", i, check.show(name)) end
    return check.named(who, "empty", ty.empty, { 0 }, { dtype = name }).dtype
  end

  --- The dtype in which two meet, as in a sum of tensors of both: the larger of a kind, the float of a float and an
  --- integer; i16 for u8 and i8, f32 for f16 and bf16; of unsigned and signed integers the smallest that holds both,
  --- f64 for u64 and a signed one. ty.help "promotion" shows all pairs.
  --- Raises where a name is no dtype.
  ---@param a tycho.dtype
  ---@param b tycho.dtype
  ---@return tycho.dtype
  local function promote_types(a, b)
    a, b = named("promote_types", 1, a), named("promote_types", 2, b)
    if unsigned[a] or unsigned[b] then
      if not unsigned[a] or (unsigned[b] or 0) > unsigned[a] then a, b = b, a end -- a is unsigned, the widest
      if unsigned[b] or b == "u8" or b == "bool" then return a end
      if not signed[b] then return b end
      return signed[b] > unsigned[a] and b or ({ u16 = "i32", u32 = "i64", u64 = "f64" })[a]
    end
    local low, high = math.min(rank[a], rank[b]), math.max(rank[a], rank[b])
    low, high = order[low], order[high]
    if low == "u8" and high == "i8" then return "i16" end
    if low == "f16" and high == "bf16" then return "f32" end
    if low == "f64" and high == "c64" then return "c128" end
    return high
  end

  --- The dtype of what an operation makes of two tensors or numbers; numbers are weak: they do not widen a float.
  --- Raises where neither is a tensor.
  ---@param a tycho.Tensor|number|boolean
  ---@param b tycho.Tensor|number|boolean
  ---@return tycho.dtype
  local function result_type(a, b)
    check.pair("result_type", a, b)
    if ty.is_complex(a) or ty.is_complex(b) then
      if ty.is_tensor(a) and ty.is_tensor(b) then return promote_types(a.dtype, b.dtype) end
      return (ty.is_tensor(a) and a or b).dtype
    end
    local function empty(v) return ty.is_tensor(v) and ty.empty({ 0 }, { dtype = v.dtype }) or v end
    return ty.maximum(empty(a), empty(b)).dtype
  end

  --- {bits, significant bits, smallest normal exponent, largest exponent}
  local formats = { f16 = { 16, 11, -14, 15 }, bf16 = { 16, 8, -126, 127 }, f32 = { 32, 24, -126, 127 },
    f64 = { 64, 53, -1022, 1023 } }
  local integers = { u8 = { 8, 0, 255 }, i8 = { 8, -128, 127 }, i16 = { 16, -32768, 32767 },
    i32 = { 32, -2 ^ 31, 2 ^ 31 - 1 }, i64 = { 64, -2 ^ 63, 2 ^ 63 },
    u16 = { 16, 0, 65535 }, u32 = { 32, 0, 2 ^ 32 - 1 }, u64 = { 64, 0, 2 ^ 64 } }

  --- The limits of a float dtype: bits, max, min, eps (from 1 to the next number), tiny (the smallest normal number),
  --- smallest_subnormal, resolution. Of a complex dtype those of its parts.
  --- Raises where the dtype is no float.
  ---@param dtype tycho.dtype
  ---@return table<string, number>
  local function finfo(dtype)
    local name = named("finfo", 1, dtype)
    name = name == "c64" and "f32" or name == "c128" and "f64" or name -- of the parts
    local f = formats[name]
    if not f then fail("finfo", "argument 1 must be a float dtype, got %s", name) end
    local most, eps = (2 - 2 ^ (1 - f[2])) * 2 ^ f[4], 2 ^ (1 - f[2])
    return { dtype = name, bits = f[1], max = most, min = -most, eps = eps, tiny = 2 ^ f[3],
      smallest_normal = 2 ^ f[3], smallest_subnormal = 2 ^ (f[3] + 1 - f[2]),
      resolution = 10 ^ -math.floor(-math.log10(eps)) }
  end

  --- The limits of an integer dtype: bits, min, max. The largest of i64 is 2^63 - 1, which Lua's numbers round to 2^63,
  --- that of u64 2^64 - 1, rounded to 2^64.
  --- Raises where the dtype is no integer.
  ---@param dtype tycho.dtype
  ---@return table<string, number>
  local function iinfo(dtype)
    local name = named("iinfo", 1, dtype)
    local f = integers[name]
    if not f then fail("iinfo", "argument 1 must be an integer dtype, got %s", name) end
    return { dtype = name, bits = f[1], min = f[2], max = f[3] }
  end

  row { "promote_types", "a, b", promote_types, "the dtype in which two meet", shape = "a dtype", only = "module",
    single = true }
  row { "result_type", "a, b", result_type, "the dtype of what an operation makes of both", shape = "a dtype",
    only = "module", single = true }
  row { "finfo", "dtype", finfo, "the limits of a float dtype: max, eps, tiny ...", shape = "a table",
    only = "module", single = true }
  row { "iinfo", "dtype", iinfo, "the limits of an integer dtype: min, max, bits", shape = "a table",
    only = "module", single = true }

  ------------------------------------------------------------------------------------------------------------- casts

  --- x in f32. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function float(x) return check.real("float", 1, x):to("f32") end

  --- x in f64. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function double(x) return check.real("double", 1, x):to("f64") end

  --- x in f16. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function half(x) return check.real("half", 1, x):to("f16") end

  --- x in bf16. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function bfloat16(x) return check.real("bfloat16", 1, x):to("bf16") end

  --- x in i64. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function long(x) return check.real("long", 1, x):to("i64") end

  --- x in i32. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function int(x) return check.real("int", 1, x):to("i32") end

  --- x in i16. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function short(x) return check.real("short", 1, x):to("i16") end

  --- x in i8. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function char(x) return check.real("char", 1, x):to("i8") end

  --- x in u8. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function byte(x) return check.real("byte", 1, x):to("u8") end

  --- x in c64. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function cfloat(x) return check.tensor("cfloat", 1, x):to("c64") end

  --- x in c128. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function cdouble(x) return check.tensor("cdouble", 1, x):to("c128") end

  --- Whether each element is not zero. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x, bool
  local function bool(x)
    check.tensor("bool", 1, x)
    return ty.is_complex(x) and ty.ne(x, 0) or x:to("bool")
  end

  local function cast(name, fn, dtype)
    row { name, "x", fn, "x converted to " .. dtype, shape = "x", dtype = dtype, only = "method", single = true }
  end
  cast("float", float, "f32")
  cast("double", double, "f64")
  cast("half", half, "f16")
  cast("bfloat16", bfloat16, "bf16")
  cast("long", long, "i64")
  cast("int", int, "i32")
  cast("short", short, "i16")
  cast("char", char, "i8")
  cast("byte", byte, "u8")
  cast("cfloat", cfloat, "c64")
  cast("cdouble", cdouble, "c128")
  row { "bool", "x", bool, "bool: not zero", shape = "x", dtype = "bool", only = "method", single = true }

  --- x in the dtype of other. Raises where an argument is no tensor.
  ---@param x tycho.Tensor
  ---@param other tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function type_as(x, other)
    check.tensor("type_as", 1, x)
    return x:to(check.tensor("type_as", 2, other).dtype)
  end

  --- Bytes of an element. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return integer
  local function element_size(x)
    local dtype = check.tensor("element_size", 1, x).dtype
    if ty.is_complex(x) then return dtype == "c64" and 8 or 16 end
    return (formats[dtype] or integers[dtype] or { 8 })[1] / 8
  end

  --- Whether its elements are real floats. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return boolean
  local function is_floating_point(x) return formats[check.tensor("is_floating_point", 1, x).dtype] ~= nil end

  --- x on the CPU: the same tensor where it is there. Raises where x is no tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the sizes of x
  local function cpu(x) return check.tensor("cpu", 1, x):to "cpu" end

  --- x on a CUDA card: the same tensor where it is there; nil and a message where there is no such card.
  --- Raises where x is no tensor, or the number is none.
  ---@param x tycho.Tensor
  ---@param card? integer 0: the driver's ordinal
  ---@return tycho.Tensor? y, string? message # the sizes of x
  local function cuda(x, card)
    check.tensor("cuda", 1, x)
    return x:to(("cuda:%d"):format(check.whole("cuda", 2, card, "card", 0)))
  end

  row { "is_floating_point", "x", is_floating_point, "whether the elements are real floats", shape = "a boolean",
    single = true }
  row { "cpu", "x", cpu, "x on the CPU", shape = "x", only = "method", single = true }
  row { "cuda", "x, card = 0", cuda, "x on a CUDA card", shape = "x", only = "method", single = true }
  row { "type_as", "x, other", type_as, "x in the dtype of another tensor", shape = "x", only = "method",
    single = true }
  row { "element_size", "x", element_size, "bytes of an element", shape = "a number", only = "method", single = true }

  ----------------------------------------------------------------------------------------------------------- new ones

  --- What stands behind x: sizes and options, which have the dtype and device of x where they say nothing else.
  local function like(who, x, ...)
    check.tensor(who, 1, x)
    local args, n = { ... }, select("#", ...)
    while n > 0 and args[n] == nil do n = n - 1 end
    local opts = check.is_options(args[n]) and args[n] or nil
    if opts then n = n - 1 end
    opts = check.options(who, opts, { dtype = "string", device = "string" })
    args[n + 1] = { dtype = opts.dtype or x.dtype, device = opts.device or x.device }
    return unpack(args, 1, n + 1)
  end

  --- Zeros in the dtype and on the device of x.
  --- Raises where x is no tensor, or a size is no whole number from 0.
  ---@param x tycho.Tensor
  ---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} the sizes, or a table of them; then options
  ---@return tycho.Tensor # these sizes
  local function new_zeros(x, ...) return check.named("new_zeros", "zeros", ty.zeros, like("new_zeros", x, ...)) end

  --- Ones in the dtype and on the device of x.
  --- Raises where x is no tensor, or a size is no whole number from 0.
  ---@param x tycho.Tensor
  ---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} the sizes, or a table of them; then options
  ---@return tycho.Tensor # these sizes
  local function new_ones(x, ...) return check.named("new_ones", "ones", ty.ones, like("new_ones", x, ...)) end

  --- Elements of any value in the dtype and on the device of x.
  --- Raises where x is no tensor, or a size is no whole number from 0.
  ---@param x tycho.Tensor
  ---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} the sizes, or a table of them; then options
  ---@return tycho.Tensor # these sizes
  local function new_empty(x, ...) return check.named("new_empty", "empty", ty.empty, like("new_empty", x, ...)) end

  --- One value in every element, in the dtype and on the device of x.
  --- Raises where x is no tensor, or the value does not fit the dtype.
  ---@param x tycho.Tensor
  ---@param sizes integer|integer[]
  ---@param value number|boolean
  ---@param opts? {dtype: tycho.dtype?, device: string?} by default those of x
  ---@return tycho.Tensor # these sizes
  local function new_full(x, sizes, value, opts)
    return check.named("new_full", "full", ty.full, like("new_full", x, sizes, value, opts))
  end

  --- A copy of data in the dtype and on the device of x.
  --- Raises where x is no tensor, nested tables are ragged, or a number does not fit.
  ---@param x tycho.Tensor
  ---@param data number|boolean|table|tycho.Tensor nested tables, one level a dim
  ---@param opts? {dtype: tycho.dtype?, device: string?} by default those of x
  ---@return tycho.Tensor # the sizes of the nesting
  local function new_tensor(x, data, opts)
    return check.named("new_tensor", "tensor", ty.tensor, like("new_tensor", x, data, opts))
  end

  local sizes_and = "x, sizes..., {dtype, device}"
  local function new(name, args, fn, help)
    row { name, args, fn, help, shape = "the sizes", only = "method", single = true }
  end
  new("new_zeros", sizes_and, new_zeros, "zeros in the dtype and on the device of x")
  new("new_ones", sizes_and, new_ones, "ones in the dtype and on the device of x")
  new("new_empty", sizes_and, new_empty, "elements of any value in the dtype and on the device of x")
  new("new_full", "x, sizes, value, {dtype, device}", new_full, "one value, in the dtype and on the device of x")
  new("new_tensor", "x, data, {dtype, device}", new_tensor, "data, in the dtype and on the device of x")
end
