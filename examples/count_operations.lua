-- What a model costs, counted on its graph: floating-point operations and bytes, by operation.
--   ./tycho examples/count_operations.lua [tokens = 64] [width = 128]
-- A block of a transformer with one head is compiled with a pass that counts and changes nothing: every node knows its
-- sizes. Bytes are those that the nodes would read and write one by one; jit.explain tells what fusion leaves of them.

local ty = require "tycho"

local tokens, width = tonumber(arg[1]) or 64, tonumber(arg[2]) or 128

local function attention(x, p)
  local q, k, v = x:matmul(p.q), x:matmul(p.k), x:matmul(p.v)
  local weights = (q:matmul(k:t()) / math.sqrt(width)):softmax()
  return weights:matmul(v):matmul(p.o)
end

local function block(x, p)
  x = x + attention(x:layer_norm(), p)
  return x + x:layer_norm():matmul(p.up):gelu():matmul(p.down)
end

local element_bytes = { bool = 1, u8 = 1, i8 = 1, i16 = 2, i32 = 4, i64 = 8, f16 = 2, bf16 = 2, f32 = 4, f64 = 8 }

local function elements(n)
  local count = 1
  for _, size in ipairs(n.shape) do count = count * size end
  return count
end

local function bytes(n) return elements(n) * element_bytes[n.dtype] end

-- Of products a multiplication and an addition for each term; else one operation for each element read or written.
local leaves = { input = true, const = true, scalar = true, iota = true, empty = true }

local function operations(n)
  if leaves[n.op] or n.op == "view" then return 0 end
  if n.op == "matmul" then
    local inner = n.inputs[1].shape
    return 2 * elements(n) * inner[#inner]
  end
  local most = elements(n)
  for _, a in ipairs(n.inputs) do most = math.max(most, elements(a)) end
  return most
end

local function traffic(n)
  if leaves[n.op] or n.op == "view" then return 0 end -- views move nothing, leaves are read by others
  local total = bytes(n)
  for _, a in ipairs(n.inputs) do total = total + bytes(a) end
  return total
end

local function count(g)
  local by_op, total = {}, { op = "total", nodes = 0, operations = 0, bytes = 0 }
  for n in g:nodes() do
    local row = by_op[n.op] or { op = n.op, nodes = 0, operations = 0, bytes = 0 }
    by_op[n.op] = row
    for _, sum in ipairs { row, total } do
      sum.nodes, sum.operations, sum.bytes = sum.nodes + 1, sum.operations + operations(n), sum.bytes + traffic(n)
    end
  end
  local rows = {}
  for _, row in pairs(by_op) do
    if row.operations > 0 then rows[#rows + 1] = row end
  end
  table.sort(rows, function(a, b)
    if a.operations ~= b.operations then return a.operations > b.operations end
    return a.op < b.op
  end)
  rows[#rows + 1] = total
  return rows
end

ty.manual_seed(1)
local function weight(a, b) return ty.randn(a, b) / math.sqrt(a) end
local p = {
  q = weight(width, width), k = weight(width, width), v = weight(width, width), o = weight(width, width),
  up = weight(width, 4 * width), down = weight(4 * width, width),
}
local x = ty.randn(tokens, width)
local nodes, rows
local compiled = jit.compile(block, { passes = { function(g) nodes, rows = #g, count(g) end } })
compiled(x, p)

print(("a block of width %d over %d tokens: %d nodes\n"):format(width, tokens, nodes))
print(("%-10s %6s %14s %12s %10s"):format("operation", "nodes", "operations", "bytes", "per byte"))
for _, row in ipairs(rows) do
  print(("%-10s %6d %14d %12d %10.2f"):format(row.op, row.nodes, row.operations, row.bytes,
    row.operations / math.max(row.bytes, 1)))
end
