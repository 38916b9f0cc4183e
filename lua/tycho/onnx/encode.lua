--- encode.lua -- messages of ONNX files written, by schema.lua's table of their fields.
-- In: tables as the decoder gives them; the bytes of a tensor are a tensor. Out: the message as a list of texts and
-- tensors, in order, and its size in bytes.
-- Format: https://protobuf.dev/programming-guides/encoding

local ty = require "tycho"
local schema = require "tycho.onnx.schema"

local char, floor = string.char, math.floor
local ipairs, pairs, type = ipairs, pairs, type

local M = {}

local widths = { bool = 1, u8 = 1, i8 = 1, i16 = 2, f16 = 2, bf16 = 2, i32 = 4, f32 = 4, i64 = 8, f64 = 8 }

--- Bytes of a tensor's elements.
function M.bytes_of(t) return t:numel() * widths[t.dtype] end

--- A whole number from 0 to 2^53 in seven bits a byte, the lowest first.
local function varint(n)
  if n < 128 then return char(n) end
  return char(n % 128 + 128) .. varint(floor(n / 128))
end

local LENGTH, INTEGER = 2, 0 -- how a field is written

local encode

--- Adds a field to the list; gives its bytes.
local function field(parts, number, row, v)
  local kind = row[2]
  if kind == "int" then
    local text = varint(number * 8 + INTEGER) .. varint(v)
    parts[#parts + 1] = text
    return #text
  end
  local at = #parts + 1
  parts[at] = ""
  local size = kind == "message" and encode(row[3], v, parts) or type(v) == "string" and #v or M.bytes_of(v)
  if kind ~= "message" then parts[at + 1] = v end -- strings and bytes; broken numbers are not written
  parts[at] = varint(number * 8 + LENGTH) .. varint(size)
  return #parts[at] + size
end

--- Adds a message to a list of texts and tensors; gives its bytes.
function encode(rows, t, parts)
  local numbers, size = {}, 0
  for number, row in pairs(rows) do
    if t[row[1]] ~= nil then numbers[#numbers + 1] = number end
  end
  table.sort(numbers)
  for _, number in ipairs(numbers) do
    local row = rows[number]
    local v = t[row[1]]
    for _, e in ipairs(row[4] and v or { v }) do size = size + field(parts, number, row, e) end
  end
  return size
end

--- The parts of a message and its bytes.
function M.message(kind, t)
  local parts = {}
  return parts, encode(schema[kind], t, parts)
end

--- The number of a dtype among ONNX's.
M.type_number = {}
for number, row in pairs(schema.types) do
  if row[1] == row[2] then M.type_number[row[1]] = number end
end

--- A tensor as a message; its elements as they lie.
function M.tensor(name, t)
  local sizes = t.shape
  return { name = name, dims = sizes, data_type = M.type_number[t.dtype], raw_data = t:detach():contiguous() }
end

--- An attribute: a whole number, a list of whole numbers, a text, or a tensor.
function M.attribute(name, v)
  if type(v) == "number" then return { name = name, i = v, type = 2 } end
  if type(v) == "string" then return { name = name, s = v, type = 3 } end
  if ty.is_tensor(v) then return { name = name, t = M.tensor(nil, v), type = 4 } end
  return { name = name, ints = v, type = 7 }
end

return M
