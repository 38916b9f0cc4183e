--- export/routines.lua -- steps that are no loop programs, as C: copies, sorts, searches, scatters, attention.
-- In: a step and a kit {add(format, ...), use(piece), slot(number, dtype), refuse(what)}. Out: lines of its function; the
-- bytes of scratch that it takes.

local program = require "tycho.export.program"
local sizes = require "tycho.export.sizes"

local format, concat, ipairs = string.format, table.concat, ipairs
local text = sizes.text

local M = {}

function M.copy(s, kit)
  local node = s.node
  local from, to = kit.slot(s.slots[1], "u8"), kit.slot(s.slots[2], "u8")
  if s.slots[1] == s.slots[2] then return 0 end
  if not node then
    kit.add("for (int64_t i = 0; i < %s; i++) %s[i] = %s[i];", text(s.bytes), to, from)
    return 0
  end
  local size = program.bytes[node.dtype]
  local at, by, depth, whole = {}, {}, "", 1
  for d = #node.shape, 1, -1 do
    table.insert(at, 1, format("i%d * %s", d, text(whole * size)))
    whole = whole * node.shape[d]
  end
  for d, n in ipairs(node.shape) do
    kit.add("%sfor (int64_t i%d = 0; i%d < %s; i%d++)", depth, d, d, text(n), d)
    depth = depth .. "  "
    by[d] = format("i%d * %s", d, text(node.strides[d] * size))
  end
  kit.add("%sfor (int b = 0; b < %d; b++) %s[%s + b] = %s[%s + b];", depth, size, to, #at > 0 and concat(at, " + ") or "0",
    from, #by > 0 and concat(by, " + ") or "0")
  return 0
end

return M
