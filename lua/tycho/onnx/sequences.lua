--- sequences.lua -- ONNX operators on sequences of tensors, and on values that may be absent.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local ipairs, unpack = ipairs, unpack
local T = values.tensor

return function(op)
  local function place(list, position)
    local at = values.number(position)
    return (at < 0 and at + #list or at) + 1
  end

  local function copy(list)
    local y = { sequence = true }
    for i, v in ipairs(list) do y[i] = v end
    return y
  end

  op("SequenceConstruct", "", function(_, ...) return copy { ... } end)
  op("SequenceEmpty", "dtype", function() return { sequence = true } end)
  op("SequenceLength", "", function(_, list) return values.host("i64", { #list }, 0) end)
  op("SequenceAt", "", function(_, list, position) return list[place(list, position)] end)
  op("SequenceInsert", "", function(_, list, v, position)
    local y = copy(list)
    table.insert(y, position ~= nil and place(list, position) or #y + 1, v)
    return y
  end)
  op("SequenceErase", "", function(_, list, position)
    local y = copy(list)
    table.remove(y, position ~= nil and place(list, position) or #y)
    return y
  end)

  op("ConcatFromSequence", "axis new_axis", function(a, list)
    local all = {}
    for i, v in ipairs(list) do all[i] = T(v) end
    local rank = all[1].ndim + (a.new_axis == 1 and 1 or 0)
    local d = (a.axis < 0 and a.axis + rank or a.axis) + 1
    return a.new_axis == 1 and ty.stack(all, d) or ty.cat(all, d)
  end)

  op("SplitToSequence", "axis keepdims", function(a, x, split)
    x = T(x)
    local axis = a.axis or 0
    local d = values.dim(x, axis)
    local n, sizes, list, at = x:size(d), {}, { sequence = true }, 1
    if split == nil then
      for i = 1, n do sizes[i] = 1 end
    else
      local given = values.numbers(split)
      if T(split).ndim == 0 then
        for first = 1, n, given[1] do sizes[#sizes + 1] = math.min(given[1], n - first + 1) end
      else
        for i = 1, #given do sizes[i] = given[i] end
      end
    end
    for i, size in ipairs(sizes) do
      local part = x:narrow(d, at, size)
      list[i] = split == nil and a.keepdims == 0 and part:squeeze(d) or part
      at = at + size
    end
    return list
  end)

  op("SequenceMap", "body", function(a, parts, env, list, ...)
    local given, out = { ... }, {}
    for i, v in ipairs(list) do
      local args = { v }
      for k, other in ipairs(given) do
        args[k + 1] = type(other) == "table" and other.sequence and other[i] or other
      end
      local results = { a.body.run(parts, env, unpack(args)) }
      for k = 1, #a.body.outputs do
        out[k] = out[k] or { sequence = true }
        out[k][i] = results[k]
      end
    end
    return unpack(out, 1, #a.body.outputs)
  end)

  op("Optional", "type", function(_, v) return v end)
  op("OptionalGetElement", "", function(_, v) return v end)
  op("OptionalHasElement", "", function(_, v) return values.host("bool", { v ~= nil and 1 or 0 }, 0) end)
end
