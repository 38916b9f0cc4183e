--- values.lua -- what flows between the nodes of an ONNX graph: tensors, and small values that the host computes.
-- A host value is a table {host = true, dtype, rank, numbers...}: integers and bools, such as sizes and positions, of
-- at most one dim, or of two with `columns` (pads are put together so). Shapes are so computed by Lua, which lets one
-- capture serve many sizes; where a tensor is wanted, it becomes one. Sequences are tables {sequence = true, ...}.

local ty = require "tycho"

local type, ipairs = type, ipairs
local floor, ceil = math.floor, math.ceil

local M = {}

--- A host value of numbers; rank 0, 1, or 2 with so many columns.
local function host(dtype, numbers, rank, columns)
  numbers.host, numbers.dtype, numbers.rank, numbers.columns = true, dtype, rank, columns
  return numbers
end
M.host = host
ty.internals.grad.inline[host] = true -- it writes to what it is given: captures evaluate it

local function is_host(v) return type(v) == "table" and v.host == true end
M.is_host = is_host

--- Options of a tensor that a node makes: it lies where the model's call computes (M.device).
local function there(dtype) return { dtype = dtype, device = M.device } end
M.there = there
ty.internals.grad.inline[there] = true

--- A value as a tensor.
local function tensor(v)
  if not is_host(v) then return v end
  if v.rank == 0 then return ty.full({}, v[1], there(v.dtype)) end
  if #v == 0 then return ty.zeros({ 0 }, there(v.dtype)) end
  local numbers = {}
  for i = 1, #v do numbers[i] = v[i] end
  local t = ty.tensor(numbers, there(v.dtype))
  return v.columns and t:reshape(-1, v.columns) or t
end
M.tensor = tensor

local function flatten(t, into)
  if type(t) ~= "table" then
    into[#into + 1] = t
  else
    for _, e in ipairs(t) do flatten(e, into) end
  end
  return into
end

--- The numbers of a value, in order; reads a tensor's elements. Bools are 0 and 1.
function M.numbers(v)
  if is_host(v) then return v end
  if v.dtype == "i64" then v = v:to("f64") end -- 2^63 - 1 stands for the end of a dim: nearly is enough
  local list = flatten(v.ndim == 0 and { v:item() } or v:totable(), {})
  for i, e in ipairs(list) do
    if type(e) == "boolean" then list[i] = e and 1 or 0 end
  end
  return list
end

--- The single number of a value.
function M.number(v) return M.numbers(v)[1] end

--- The host's value of a small tensor.
function M.of_tensor(t)
  local numbers = {}
  for i, e in ipairs(M.numbers(t)) do numbers[i] = e end
  return host(t.dtype, numbers, t.ndim)
end

--- A tensor of f32 numbers; rank 0 or 1.
function M.floats(list, rank)
  if rank == 0 then return ty.full({}, list[1]) end
  return #list > 0 and ty.tensor(list) or ty.zeros(0)
end

--- A dim of x, counted from 0 or from the end, as one from 1.
function M.dim(x, axis) return (axis < 0 and axis + x.ndim or axis) + 1 end

--- Whether a tensor is of floats.
function M.is_float(x) return x.dtype:sub(1, 1) == "f" or x.dtype == "bf16" end

--- x as a matrix: its dims before `axis` are rows, the others columns.
function M.matrix(x, axis)
  if axis < 0 then axis = axis + x.ndim end
  local rows, rest = 1, 1
  for d = 1, x.ndim do
    if d <= axis then rows = rows * x:size(d) else rest = rest * x:size(d) end
  end
  return x:reshape(rows, rest)
end

--- The positions 0 to n - 1.
function M.places(n) return ty.arange(0, n, 1, there "i64") end

---------------------------------------------------------------------------------------------- operations on the host

local function trunc(x) return x >= 0 and floor(x) or ceil(x) end

local function is_whole(dtype) return dtype ~= "f32" and dtype ~= "f64" and dtype ~= "f16" and dtype ~= "bf16" end

--- Element by element over host values, a single number going with each of the others.
local function map(dtype, f, ...)
  local given, n, rank = { ... }, 1, 0
  for _, v in ipairs(given) do
    if v.rank == 2 then return nil end
    if v.rank == 1 then rank = 1 end
    if #v ~= 1 then n = #v end
  end
  for _, v in ipairs(given) do
    if #v ~= 1 and #v ~= n then return nil end
  end
  local y = {}
  for i = 1, n do
    local a, b, c = given[1], given[2], given[3]
    y[i] = f(a[#a == 1 and 1 or i], b and b[#b == 1 and 1 or i], c and c[#c == 1 and 1 or i])
  end
  return host(dtype, y, rank)
end

local function truth(b) return b and 1 or 0 end

local ops = {}
M.ops = ops

local function arithmetic(name, f)
  ops[name] = function(_, a, b)
    if not is_whole(a.dtype) then return nil end
    return map(a.dtype, f, a, b)
  end
end

arithmetic("Add", function(a, b) return a + b end)
arithmetic("Sub", function(a, b) return a - b end)
arithmetic("Mul", function(a, b) return a * b end)
arithmetic("Div", function(a, b) return b == 0 and 0 or trunc(a / b) end)
arithmetic("Min", function(a, b) return b and b < a and b or a end)
arithmetic("Max", function(a, b) return b and b > a and b or a end)
arithmetic("Neg", function(a) return -a end)
arithmetic("Abs", function(a) return a < 0 and -a or a end)

function ops.Mod(a, x, y)
  if not is_whole(x.dtype) then return nil end
  return map(x.dtype, function(p, q)
    if q == 0 then return 0 end
    return a.fmod == 1 and p - q * trunc(p / q) or p - q * floor(p / q)
  end, x, y)
end

local function comparison(name, f)
  ops[name] = function(_, a, b) return map("bool", function(p, q) return truth(f(p, q)) end, a, b) end
end

comparison("Equal", function(a, b) return a == b end)
comparison("Less", function(a, b) return a < b end)
comparison("LessOrEqual", function(a, b) return a <= b end)
comparison("Greater", function(a, b) return a > b end)
comparison("GreaterOrEqual", function(a, b) return a >= b end)
comparison("And", function(a, b) return a ~= 0 and b ~= 0 end)
comparison("Or", function(a, b) return a ~= 0 or b ~= 0 end)

function ops.Not(_, a) return map("bool", function(p) return truth(p == 0) end, a) end

function ops.Where(_, c, a, b)
  return map(a.dtype, function(p, x, y) if p ~= 0 then return x end return y end, c, a, b)
end

function ops.Identity(_, a) return a end

--- A copy of a value's numbers, from place to place.
local function copy(x, first, last, step)
  local y = {}
  for i = first or 1, last or #x, step or 1 do y[#y + 1] = x[i] end
  return y
end

function ops.Cast(a, x)
  local to = a.dtype
  if not to or not is_whole(to) or not is_whole(x.dtype) then return nil end
  if to == "bool" then return map(to, function(p) return truth(p ~= 0) end, x) end
  if to ~= "i64" and to ~= "i32" then return nil end
  return host(to, copy(x), x.rank, x.columns)
end

--- A position from 0, which counts from the end where it is negative, as one from 1.
local function place(i, n) return (i < 0 and i + n or i) + 1 end

function ops.Gather(a, x, index)
  if x.rank ~= 1 or (a.axis or 0) > 0 then return nil end
  local y = {}
  for i = 1, #index do
    local at = place(index[i], #x)
    if x[at] == nil then return nil end
    y[i] = x[at]
  end
  return host(x.dtype, y, index.rank)
end

function ops.Concat(_, ...)
  local y, dtype = {}, nil
  for _, v in ipairs { ... } do
    if v.rank ~= 1 then return nil end
    dtype = v.dtype
    for i = 1, #v do y[#y + 1] = v[i] end
  end
  return host(dtype, y, 1)
end

function ops.Unsqueeze(a, x, axes)
  if x.rank ~= 0 or #(axes or a.axes) ~= 1 then return nil end
  return host(x.dtype, { x[1] }, 1)
end

function ops.Squeeze(_, x)
  if #x ~= 1 or x.rank == 2 then return nil end
  return host(x.dtype, { x[1] }, 0)
end

function ops.Reshape(_, x, shape)
  local n, columns = #x, shape[2]
  if #shape == 2 then
    if type(columns) ~= "number" or columns < 1 or n % columns ~= 0 or n == 0 then return nil end
    if shape[1] ~= -1 and shape[1] ~= n / columns then return nil end
    return host(x.dtype, copy(x), 2, columns)
  end
  if #shape > 2 or #shape == 1 and shape[1] ~= -1 and shape[1] ~= n or #shape == 0 and n ~= 1 then return nil end
  return host(x.dtype, copy(x), #shape)
end

function ops.Transpose(_, x)
  if x.rank ~= 2 then return nil end
  local y, rows = {}, #x / x.columns
  for j = 1, x.columns do
    for i = 1, rows do y[#y + 1] = x[(i - 1) * x.columns + j] end
  end
  return host(x.dtype, y, 2, rows)
end

function ops.ConstantOfShape(a, sizes)
  if #sizes ~= 1 or sizes[1] > 64 or not is_whole(a.dtype) then return nil end
  local y = {}
  for i = 1, sizes[1] do y[i] = a.number end
  return host(a.dtype, y, 1)
end

function ops.ReduceProd(a, x)
  if not is_whole(x.dtype) or x.rank == 2 then return nil end
  local y = 1
  for i = 1, #x do y = y * x[i] end
  return host(x.dtype, { y }, a.keepdims == 0 and 0 or x.rank)
end

function ops.ReduceSum(a, x)
  if not is_whole(x.dtype) or x.rank == 2 then return nil end
  local y = 0
  for i = 1, #x do y = y + x[i] end
  return host(x.dtype, { y }, a.keepdims == 0 and 0 or x.rank)
end

--- Positions from 0 that a slice of n places takes: first, last and step, in Lua's way; nil where it takes none.
function M.slice(n, start, stop, step)
  if step > 0 then
    if start < 0 then start = start + n end
    if stop < 0 then stop = stop + n end
    start = start < 0 and 0 or start > n and n or start
    stop = stop < 0 and 0 or stop > n and n or stop
    if stop <= start then return nil end
    return start, start + step * floor((stop - start - 1) / step), step
  end
  if start < 0 then start = start + n end
  if stop < 0 then stop = stop + n end
  start = start < -1 and -1 or start > n - 1 and n - 1 or start
  stop = stop < -1 and -1 or stop > n - 1 and n - 1 or stop
  if stop >= start then return nil end
  return start, start + step * floor((start - stop - 1) / -step), step
end

function ops.Slice(a, x, starts, ends, axes, steps)
  local axis = (axes or a.axes or { 0 })[1]
  if #(starts or a.starts) ~= 1 or x.rank == 0 or axis ~= 0 and (x.rank == 2 or axis ~= -1) then return nil end
  local step, width = steps and steps[1] or 1, x.columns or 1
  local first, last = M.slice(#x / width, (starts or a.starts)[1], (ends or a.ends)[1], step)
  local y = {}
  if first then
    for i = first, last, step do
      for j = 1, width do y[#y + 1] = x[i * width + j] end
    end
  end
  return host(x.dtype, y, x.rank, x.columns)
end

function ops.Range(_, start, limit, step)
  if not is_whole(start.dtype) then return nil end
  local y, n = {}, ceil((limit[1] - start[1]) / step[1])
  if n > 64 then return nil end
  for i = 1, n do y[i] = start[1] + (i - 1) * step[1] end
  return host(start.dtype, y, 1)
end

--- The sizes of a tensor from place `first` to `last`, from 0.
function ops.Shape(a, x)
  local rank = is_host(x) and x.rank or x.ndim
  local first, last = a.start or 0, a["end"] or rank
  if first < 0 then first = first + rank end
  if last < 0 then last = last + rank end
  first, last = first < 0 and 0 or first, last > rank and rank or last
  local y, columns = {}, is_host(x) and (x.columns or 1)
  for d = first + 1, last do
    y[#y + 1] = not columns and x:size(d) or d == 2 and columns or #x / (rank == 2 and columns or 1)
  end
  return host("i64", y, 1)
end

function ops.Size(_, x)
  if is_host(x) then return host("i64", { #x }, 0) end
  local n = 1
  for d = 1, x.ndim do n = n * x:size(d) end
  return host("i64", { n }, 0)
end

--- Those that take a tensor and give a host value.
M.of_any = { Shape = true, Size = true }

return M
