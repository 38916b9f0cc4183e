--- save_operators.lua -- each row of the table of operations as nodes of ONNX.
-- In: a builder (save_model.lua) and a node of a graph (graph.lua). Out: the name of its value. What ONNX has no
-- operator for, and no short composition gives, is refused by name.
-- Operators: https://onnx.ai/onnx/operators

local ty = require "tycho"

local floor = math.floor
local ipairs, pairs = ipairs, pairs

---@param ops table what graph_ops.lua gives
---@param views table save_views.lua
return function(ops, views)
  local M = {} -- by operation: fn(B, n, names of operands...) -> name

  local function is_float(n) return ops.floats[n.dtype] end

  local function cast(B, x, dtype) return B:node("Cast", { x }, { to = B.type_number(dtype) }) end

  --- Whether a dtype is one of texts' words.
  local function one_of(words)
    local y = {}
    for w in words:gmatch "%S+" do y[w] = true end
    return y
  end

  ---------------------------------------------------------------------------------------------------------- maps

  -- Operators that take f16, f32 and f64 alone: others are computed in f32.
  local plain = { exp = "Exp", log = "Log", sqrt = "Sqrt", sin = "Sin", cos = "Cos", tan = "Tan", asin = "Asin",
    acos = "Acos", atan = "Atan", sinh = "Sinh", cosh = "Cosh", tanh = "Tanh", asinh = "Asinh", acosh = "Acosh",
    atanh = "Atanh", erf = "Erf", sigmoid = "Sigmoid" }
  local native = one_of "f16 f32 f64"

  for op, name in pairs(plain) do
    M[op] = function(B, n, x)
      if native[n.dtype] then return B:node(name, { x }) end
      return cast(B, B:node(name, { cast(B, x, "f32") }), n.dtype)
    end
  end

  for op, name in pairs { ceil = "Ceil", floor = "Floor", round = "Round" } do
    M[op] = function(B, n, x) return is_float(n) and B:node(name, { x }) or x end
  end

  for op, name in pairs { add = "Add", sub = "Sub", mul = "Mul", div = "Div", pow = "Pow" } do
    M[op] = function(B, _, a, b) return B:node(name, { a, b }) end
  end

  function M.neg(B, n, x)
    if n.dtype ~= "u8" then return B:node("Neg", { x }) end
    return B:node("Sub", { B:number("u8", 0), x })
  end

  function M.abs(B, _, x) return B:node("Abs", { x }) end

  function M.trunc(B, n, x)
    if not is_float(n) then return x end
    local low = B:node("Less", { x, B:number(n.dtype, 0) })
    return B:node("Where", { low, B:node("Ceil", { x }), B:node("Floor", { x }) })
  end

  function M.exp2(B, n, x) return B:node("Pow", { B:number(n.dtype, 2), x }) end

  --- tanh(x / 2) (exp(x) + 1), which keeps its digits near 0.
  function M.expm1(B, n, x)
    local half = M.tanh(B, n, B:node("Mul", { x, B:number(n.dtype, 0.5) }))
    return B:node("Mul", { half, B:node("Add", { M.exp(B, n, x), B:number(n.dtype, 1) }) })
  end

  --- With u = 1 + x: log(u) x / (u - 1), and x where u is 1.
  function M.log1p(B, n, x)
    local one = B:number(n.dtype, 1)
    local u = B:node("Add", { x, one })
    local near, log = B:node("Equal", { u, one }), M.log(B, n, u)
    local scaled = B:node("Mul", { log, B:node("Div", { x, B:node("Sub", { u, one }) }) })
    local far = B:node("Equal", { u, B:number(n.dtype, math.huge) })
    return B:node("Where", { near, x, B:node("Where", { far, log, scaled }) })
  end

  function M.log2(B, n, x) return B:node("Mul", { M.log(B, n, x), B:number(n.dtype, 1 / math.log(2)) }) end
  function M.log10(B, n, x) return B:node("Mul", { M.log(B, n, x), B:number(n.dtype, 1 / math.log(10)) }) end

  --- The divisor of integers, 1 in the place of 0, and where it is 0.
  local function divisor(B, n, b)
    local zero = B:node("Equal", { b, B:number(n.dtype, 0) })
    return B:node("Where", { zero, B:number(n.dtype, 1), b }), zero
  end

  function M.floor_divide(B, n, a, b)
    if is_float(n) then return B:node("Floor", { B:node("Div", { a, b }) }) end
    local d, zero = divisor(B, n, b)
    local none = B:number(n.dtype, 0)
    local rest = B:node("Mod", { a, d }) -- with the divisor's sign
    local y = B:node("Div", { B:node("Sub", { a, rest }), d })
    return B:node("Where", { zero, none, y })
  end

  local function remainder(B, n, a, b, way)
    if not is_float(n) then
      local d, zero = divisor(B, n, b)
      local y = B:node("Mod", { a, d }, { fmod = way == "fmod" and 1 or 0 })
      return B:node("Where", { zero, B:number(n.dtype, 0), y })
    end
    local r = B:node("Mod", { a, b }, { fmod = 1 })
    if way == "fmod" then return r end
    local none = B:number(n.dtype, 0)
    local signs = B:node("Xor", { B:node("Less", { r, none }), B:node("Less", { b, none }) })
    local differ = B:node("And", { signs, B:node("Not", { B:node("Equal", { r, none }) }) })
    return B:node("Where", { differ, B:node("Add", { r, b }), r })
  end

  function M.remainder(B, n, a, b) return remainder(B, n, a, b, "remainder") end
  function M.fmod(B, n, a, b) return remainder(B, n, a, b, "fmod") end

  function M.maximum(B, n, a, b) return B:node(n.dtype == "bool" and "Or" or "Max", { a, b }) end
  function M.minimum(B, n, a, b) return B:node(n.dtype == "bool" and "And" or "Min", { a, b }) end

  local function is_negative(B, dtype, x) -- also -0
    local none = B:number(dtype, 0)
    local over = B:node("Div", { B:number(dtype, 1), x })
    return B:node("Or", { B:node("Less", { x, none }), B:node("Less", { over, none }) })
  end

  function M.copysign(B, n, a, b)
    local y = B:node("Abs", { a })
    return B:node("Where", { is_negative(B, n.dtype, b), B:node("Neg", { y }), y })
  end

  function M.atan2(B, n, a, b)
    local none, pi = B:number(n.dtype, 0), B:number(n.dtype, math.pi)
    local y = M.atan(B, n, B:node("Div", { a, b }))
    local turned = B:node("Where", { is_negative(B, n.dtype, a), B:node("Sub", { y, pi }), B:node("Add", { y, pi }) })
    y = B:node("Where", { B:node("Less", { b, none }), turned, y })
    local origin = B:node("And", { B:node("Equal", { a, none }), B:node("Equal", { b, none }) })
    return B:node("Where", { origin, a, y })
  end

  local bits = { bitwise_and = "And", bitwise_or = "Or", bitwise_xor = "Xor", bitwise_not = "Not" }
  for op, name in pairs(bits) do
    M[op:gsub("bitwise_", "")] = function(B, n, ...)
      return B:node((n.dtype == "bool" and "" or "Bitwise") .. name, { ... })
    end
  end

  function M.eq(B, _, a, b) return B:node("Equal", { a, b }) end
  function M.ne(B, _, a, b) return B:node("Not", { B:node("Equal", { a, b }) }) end

  function M.lt(B, n, a, b)
    if n.inputs[1].dtype == "bool" then return B:node("And", { B:node("Not", { a }), b }) end
    return B:node("Less", { a, b })
  end

  function M.le(B, n, a, b)
    if n.inputs[1].dtype == "bool" then return B:node("Or", { B:node("Not", { a }), b }) end
    return B:node("LessOrEqual", { a, b })
  end

  function M.where(B, _, c, a, b) return B:node("Where", { c, a, b }) end

  function M.cast(B, n, x) return n.inputs[1].dtype == n.dtype and x or cast(B, x, n.dtype) end

  function M.bitcast(B, n, x)
    if n.inputs[1].dtype == n.dtype then return x end
    return B.refuse("bits read as another dtype", n)
  end

  ---------------------------------------------------------------------------------------------------------- leaves

  local function filled(B, n, name)
    if #n.shape == 0 then return name end
    return B:node("Expand", { name, B:ints(n.shape) })
  end

  function M.const(B, n)
    if n.bits then return B.refuse("a constant that no number gives", n) end
    return filled(B, n, B:number(n.dtype, n.value))
  end

  function M.empty(B, n) return filled(B, n, B:number(n.dtype, 0)) end

  function M.iota(B, n)
    local y = B:node("Range", { B:number("i64", 0), B:number("i64", ops.numel(n.shape)), B:number("i64", 1) })
    return views.reshape(B, y, { ops.numel(n.shape) }, n.shape)
  end

  ---------------------------------------------------------------------------------------------------------- reductions

  local function axes(list)
    local y = {}
    for i, d in ipairs(list) do y[i] = d - 1 end
    return y
  end

  for op, name in pairs { sum = "ReduceSum", prod = "ReduceProd", amax = "ReduceMax", amin = "ReduceMin" } do
    M[op] = function(B, n, x)
      local before = n.inputs[1].dtype
      local narrow = before == "bool" and (n.dtype == "i64" and "i64" or "u8") or before ~= n.dtype and n.dtype
      if narrow then x = cast(B, x, narrow) end
      local y = B:node(name, { x, B:ints(axes(n.dims)) }, { keepdims = 0 })
      return narrow == "u8" and n.dtype == "bool" and cast(B, y, "bool") or y
    end
  end

  for op, name in pairs { argmax = "ArgMax", argmin = "ArgMin" } do
    M[op] = function(B, n, x)
      local from, sizes, merged = n.inputs[1].shape, {}, 1
      for _, d in ipairs(n.dims) do merged = merged * from[d] end
      for d = 1, #from do
        if d == n.dims[1] then sizes[#sizes + 1] = merged
        elseif d < n.dims[1] or d > n.dims[#n.dims] then sizes[#sizes + 1] = from[d] end
      end
      if n.inputs[1].dtype == "bool" then x = cast(B, x, "u8") end
      return B:node(name, { views.reshape(B, x, from, sizes) }, { axis = n.dims[1] - 1, keepdims = 0 })
    end
  end

  ---------------------------------------------------------------------------------------------------------- scans

  function M.cumsum(B, n, x)
    if n.inputs[1].dtype ~= n.dtype then x = cast(B, x, n.dtype) end
    return B:node("CumSum", { x, B:number("i64", n.dim - 1) })
  end

  --- By doubling: each element joined with that 1, 2, 4 ... places before it.
  local function running(name, neutral)
    return function(B, n, x)
      if n.inputs[1].dtype ~= n.dtype then x = cast(B, x, n.dtype) end
      if n.dtype == "bool" then return B.refuse("a running maximum of bools", n) end
      local first, pads, shift = neutral(n), {}, 1
      if not first then return B.refuse("a running maximum of integers", n) end
      while shift < n.shape[n.dim] do
        for d = 1, 2 * #n.shape do pads[d] = d == n.dim and shift or d == n.dim + #n.shape and -shift or 0 end
        x = B:node(name, { x, B:node("Pad", { x, B:ints(pads), B:number(n.dtype, first) }) })
        shift = shift * 2
      end
      return x
    end
  end

  M.cumprod = running("Mul", function() return 1 end)
  M.cummax = running("Max", function(n) return is_float(n) and -math.huge end)
  M.cummin = running("Min", function(n) return is_float(n) and math.huge end)

  ---------------------------------------------------------------------------------------------------------- products

  local multiplied = one_of "f16 bf16 f32 f64 i32 i64"

  function M.matmul(B, n, a, b)
    if multiplied[n.dtype] then return B:node("MatMul", { a, b }) end
    return cast(B, B:node("MatMul", { cast(B, a, "i32"), cast(B, b, "i32") }), n.dtype)
  end

  --- A value with dims d and d + 1 exchanged.
  local function exchanged(B, x, rank, d)
    local perm = {}
    for i = 1, rank do perm[i] = i - 1 end
    perm[d], perm[d + 1] = d, d - 1
    return B:node("Transpose", { x }, { perm = perm })
  end

  --- y = softmax(scale q k^t + mask) v, with its heads, the last leading dim, behind the positions.
  function M.attend(B, n, q, k, v, mask)
    local qs, ks, masked = n.inputs[1].shape, n.inputs[2].shape, n.inputs[4]
    local rank, dtype = #qs, n.dtype
    local rows, columns = qs[rank - 1], ks[rank - 1]
    local wanted = ops.numel(n.inputs[3].shape) / columns * rows
    if n.dropout ~= 0 then return B.refuse("attention with dropout (call model:eval())", n) end
    local scaled = B:node("Mul", { q, B:number(dtype, n.value) })
    local s = B:node("MatMul", { scaled, exchanged(B, k, rank, rank - 1) })
    local low, hidden = B:number(dtype, -math.huge), false
    if n.causal then
      local seen = ty.ones(rows, columns):tril(columns - rows):to("bool")
      s, hidden = B:node("Where", { B:tensor(seen), s, low }), rows > columns
    end
    if #masked.shape > 0 then
      hidden = true
      s = masked.dtype == "bool" and B:node("Where", { mask, s, low }) or B:node("Add", { s, mask })
    end
    local p = B:node("Softmax", { s }, { axis = rank - 1 })
    if hidden then p = B:node("Where", { B:node("IsNaN", { p }), B:number(dtype, 0), p }) end -- a row that sees none
    local y, sizes = B:node("MatMul", { p, v }), ops.copy(qs)
    sizes[rank] = n.inputs[3].shape[rank]
    if rank > 2 then y = exchanged(B, y, rank, rank - 2) end
    y = B:node("Reshape", { y, B:ints { ops.numel(sizes) } })
    if n.shape[1] ~= wanted then -- what a backward pass would read
      local zeros = B:node("Expand", { B:number(dtype, 0), B:ints { n.shape[1] - ops.numel(sizes) } })
      y = B:node("Concat", { y, zeros }, { axis = 0 })
    end
    return y
  end

  ---------------------------------------------------------------------------------------------------------- moves

  function M.view(B, n, x)
    return views.view(B, x, n.inputs[1].shape, n.shape, n.strides, n.offset)
  end

  function M.put(B, n) return views.put(B, n) end

  --- The dims of sizes [.., n, ..] that an index of one dim is repeated along, in a view: nil where it is none.
  local function is_repeated(n, dim)
    if n.op ~= "view" then return false end
    for d = 1, #n.shape do
      if d ~= dim and n.shape[d] > 1 and n.strides[d] ~= 0 then return false end
    end
    return n.shape[dim] == ops.numel(n.inputs[1].shape) and n.offset == 0 and (n.strides[dim] == 1 or n.shape[dim] == 1)
  end

  --- The operands of a gather: of one that takes whole rows, the index without its repeats.
  function M.index_of(n)
    local a, index = n.inputs[1], n.inputs[2]
    if not is_repeated(index, n.dim) then return nil end
    for d = 1, #a.shape do
      if d ~= n.dim and n.shape[d] ~= a.shape[d] then return nil end
    end
    return index.inputs[1]
  end

  function M.gather(B, n, x, index)
    local rows = M.index_of(n)
    if not rows then return B:node("GatherElements", { x, index }, { axis = n.dim - 1 }) end
    return B:node("Gather", { x, views.reshape(B, B:value(rows), rows.shape, { ops.numel(rows.shape) }) },
      { axis = n.dim - 1 })
  end

  function M.scatter(B, n, x, index, src)
    return B:node("ScatterElements", { x, index, src }, { axis = n.dim - 1 })
  end

  function M.scatter_add(B, n, x, index, src)
    return B:node("ScatterElements", { x, index, src }, { axis = n.dim - 1, reduction = "add" })
  end

  function M.argsort(B, n, x)
    if n.inputs[1].dtype == "bool" then x = cast(B, x, "u8") end
    local _, at = B:node("TopK", { x, B:ints { n.shape[n.dim] } },
      { axis = n.dim - 1, largest = n.descending and 1 or 0, sorted = 1 }, 2)
    return at
  end

  --- How many of the sorted are below each value.
  function M.searchsorted(B, n, sorted, values)
    local a, b = n.inputs[1].shape, n.inputs[2].shape
    local rows, columns = ops.copy(a), ops.copy(b)
    table.insert(rows, #rows, 1)
    columns[#columns + 1] = 1
    local x, y = views.reshape(B, sorted, a, rows), views.reshape(B, values, b, columns)
    local below = B:node(n.right and "LessOrEqual" or "Less", { x, y })
    return B:node("ReduceSum", { cast(B, below, "i64"), B:ints { #columns - 1 } }, { keepdims = 0 })
  end

  --- Places from 0 of an index that counts from `base` or, negative, from the end.
  function M.positions(B, n, index)
    local from_end = B:node("Less", { index, B:number("i64", 0) })
    local counted = n.base == 0 and index or B:node("Sub", { index, B:number("i64", n.base) })
    return B:node("Where", { from_end, B:node("Add", { index, B:number("i64", n.places) }), counted })
  end

  function M.to(_, _, x) return x end

  ---------------------------------------------------------------------------------------------------------- convolution

  --- A product with windows as a convolution: {weight, the value that is read}, and how; nil where it is none.
  -- The product is [.., out, in * kernel] x [.., in * kernel, places]; its second operand the reshape of windows
  -- [batch, (groups,) in, kernel.., places..] over [batch, groups * in, sizes..] (correlation.lua).
  function M.convolution(B, n)
    local a, b = n.inputs[1], n.inputs[2]
    if not is_float(n) or b.op ~= "view" or b.offset ~= 0 then return nil end
    local w = b.inputs[1]
    local source, shape, strides, offset, sizes
    if w.op == "view" then
      source, shape, strides, offset, sizes = w.inputs[1], w.shape, w.strides, w.offset, w.inputs[1].shape
    elseif w.op == "input" then
      local of = B:input_layout(w)
      if not of then return nil end
      source, shape, strides, offset, sizes = w, w.shape, w.strides, of.offset, of.sizes
    else return nil end
    local dims = #sizes - 2
    if dims < 1 or offset ~= 0 then return nil end
    local grouped = #shape == 3 + 2 * dims
    if not grouped and #shape ~= 2 + 2 * dims then return nil end
    local own, first = ops.row_major(sizes), grouped and 3 or 2
    local groups, inner = grouped and shape[2] or 1, shape[first]
    if shape[1] ~= sizes[1] or groups * inner ~= sizes[2] then return nil end
    local function steps(d, step) return shape[d] == 1 or strides[d] == step end
    if not (steps(1, own[1]) and steps(first, own[2])) then return nil end
    if grouped and not steps(2, own[2] * inner) then return nil end
    local kernel, places, stride, dilation = {}, {}, {}, {}
    for i = 1, dims do
      local k, o = first + i, first + dims + i
      kernel[i], places[i] = shape[k], shape[o]
      dilation[i] = shape[k] == 1 and 1 or strides[k] / own[2 + i]
      stride[i] = shape[o] == 1 and 1 or strides[o] / own[2 + i]
      if dilation[i] % 1 ~= 0 or stride[i] % 1 ~= 0 or dilation[i] < 1 or stride[i] < 1 then return nil end
      local room = sizes[2 + i] - (kernel[i] - 1) * dilation[i] - 1
      if shape[o] == 1 and room > 0 then stride[i] = room + 1 end
      if floor(room / stride[i]) + 1 ~= places[i] then return nil end
    end
    local k, o = inner * ops.numel(kernel), ops.numel(places)
    local matrix, product = b.shape, a.shape
    if matrix[#matrix] ~= o or matrix[#matrix - 1] ~= k or #matrix ~= (grouped and 4 or 3) then return nil end
    local out = product[#product - 1]
    if ops.numel(product) ~= groups * out * k or grouped and product[#product - 2] ~= groups then return nil end
    return { a, source }, function()
      local weight = { groups * out, inner }
      for i = 1, dims do weight[2 + i] = kernel[i] end
      local x = w.op == "view" and B:value(source) or B:base(w)
      local y = B:node("Conv", { x, views.reshape(B, B:value(a), a.shape, weight) },
        { kernel_shape = kernel, strides = stride, dilations = dilation, group = groups })
      local given = { sizes[1], groups * out }
      for i = 1, dims do given[2 + i] = places[i] end
      return views.reshape(B, y, given, n.shape)
    end
  end

  ---------------------------------------------------------------------------------------------------------- others

  local reasons = {
    random = "random numbers (call model:eval(), or draw before the call)",
    erfinv = "the inverse of the error function", lshift = "shifts of integers", rshift = "shifts of integers",
    logcumsumexp = "a running logarithm of sums", loop = "a loop of ty.scan (unroll it in Lua)",
    attend_grad = "the gradient of attention", param = "the body of a loop",
  }

  --- The nodes for a node of the graph.
  function M.emit(B, n, names)
    local fn = M[n.op]
    if not fn then return B.refuse(reasons[n.op] or n.op, n) end
    return fn(B, n, unpack(names))
  end

  return M
end
