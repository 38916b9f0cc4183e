-- Messages of Protocol Buffers written by hand, for specs of ONNX files: encode(kind, {field = value}) by the reader's own
-- table of fields; a span is given as the string of its bytes.

local schema = require "tycho.onnx.schema"
local ffi = require "ffi"

local M = {}

local function varint(n)
  local bytes, v = {}, ffi.cast("uint64_t", ffi.cast("int64_t", n))
  repeat
    local low = tonumber(v % 128)
    v = v / 128
    bytes[#bytes + 1] = string.char(v ~= 0 and low + 128 or low)
  until v == 0
  return table.concat(bytes)
end
M.varint = varint

local function scalar(ctype, x) return ffi.string(ffi.new(ctype .. "[1]", x), ffi.sizeof(ctype)) end

local types = { int = 0, double = 1, float = 5 }

local encode

local function payload(row, v)
  local kind = row[2]
  if kind == "int" then return varint(v) end
  if kind == "float" or kind == "double" then return scalar(kind, v) end
  local bytes = kind == "message" and encode(row[3], v) or v
  return varint(#bytes) .. bytes
end

function encode(rows, t)
  local fields, out, names = {}, {}, {}
  for number, row in pairs(rows) do
    fields[#fields + 1] = number
    names[row[1]] = true
  end
  for name in pairs(t) do assert(names[name], "no field " .. name) end
  table.sort(fields)
  for _, number in ipairs(fields) do
    local row = rows[number]
    local v = t[row[1]]
    if v ~= nil then
      for _, e in ipairs(row[4] and v or { v }) do
        out[#out + 1] = varint(number * 8 + (types[row[2]] or 2)) .. payload(row, e)
      end
    end
  end
  return table.concat(out)
end

function M.encode(kind, t) return encode(schema[kind], t) end

local numbers = { f32 = 1, u8 = 2, i8 = 3, i16 = 5, i32 = 6, i64 = 7, bool = 9, f16 = 10, f64 = 11, bf16 = 16, u16 = 4, u32 = 12,
  u64 = 13 }
M.numbers = numbers

--- A tensor as a message.
function M.tensor(name, t)
  t = t:contiguous()
  local size = ({ f32 = 4, f64 = 8, i64 = 8, i32 = 4, i16 = 2, f16 = 2, bf16 = 2 })[t.dtype] or 1
  return { name = name, dims = t.shape, data_type = numbers[t.dtype], raw_data = ffi.string(t:data(), t:numel() * size) }
end

--- A value's name and type, for inputs and outputs.
function M.value(name, dtype, sizes)
  local dims = {}
  for i, n in ipairs(sizes or {}) do dims[i] = type(n) == "string" and { param = n } or { value = n } end
  return { name = name, type = { tensor = { elem_type = numbers[dtype or "f32"], shape = { dims = dims } } } }
end

--- An attribute: a number, a list of numbers (whole ones, or none of them), a string, a tensor message, a graph.
function M.attribute(name, v)
  if type(v) == "string" then return { name = name, s = v, type = 3 } end
  if type(v) == "number" then
    if v % 1 == 0 then return { name = name, i = v, type = 2 } end
    return { name = name, f = v, type = 1 }
  end
  if v.node then return { name = name, g = v, type = 5 } end
  if v.data_type then return { name = name, t = v, type = 4 } end
  if v[1] and v[1] % 1 ~= 0 then return { name = name, floats = v, type = 6 } end
  return { name = name, ints = v, type = 7 }
end

--- node("Add", {"a", "b"}, {"y"}, {axis = 1})
function M.node(kind, inputs, outputs, attributes, more)
  local node = { op_type = kind, input = inputs, output = outputs, attribute = {} }
  local names = {}
  for name in pairs(attributes or {}) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do node.attribute[i] = M.attribute(name, attributes[name]) end
  for k, v in pairs(more or {}) do node[k] = v end
  return node
end

--- The bytes of a model of that graph.
function M.model(graph, opset, more)
  local model = { ir_version = 10, graph = graph, opset_import = { { domain = "", version = opset or 21 } } }
  for k, v in pairs(more or {}) do model[k] = v end
  return M.encode("model", model)
end

return M
