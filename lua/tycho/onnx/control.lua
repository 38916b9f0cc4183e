--- control.lua -- ONNX operators that run graphs: If, Loop, Scan. Their graphs are attributes, programs here; they are
-- given the slots of the program around, which theirs read.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local select, unpack = select, unpack
local T = values.tensor

return function(op)
  op("If", "then_branch else_branch", function(a, parts, env, condition)
    local branch = values.number(condition) ~= 0 and a.then_branch or a.else_branch
    return branch.run(parts, env)
  end)

  op("Loop", "body", function(a, parts, env, most, condition, ...)
    local n = select("#", ...)
    local carried, rows = { ... }, {}
    local turns = most ~= nil and values.number(most) or math.huge
    local on = condition == nil or values.number(condition) ~= 0
    local made = #a.body.outputs - 1 - n
    for k = 1, made do rows[k] = {} end
    local turn = 0
    while turn < turns and on do
      local out = { a.body.run(parts, env, values.host("i64", { turn }, 0), condition ~= nil and condition
        or values.host("bool", { 1 }, 0), unpack(carried, 1, n)) }
      if out[1] ~= nil then on = values.number(out[1]) ~= 0 end
      for i = 1, n do carried[i] = out[i + 1] end
      for k = 1, made do rows[k][turn + 1] = T(out[n + 1 + k]) end
      turn = turn + 1
    end
    for k = 1, made do carried[n + k] = turn > 0 and ty.stack(rows[k], 1) or ty.zeros(0, values.there()) end
    return unpack(carried, 1, n + made)
  end)

  op("Scan", "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions "
    .. "directions",
    function(a, parts, env, ...)
      local given, m = { ... }, a.num_scan_inputs
      if a.opset < 9 then table.remove(given, 1) end
      local n = select("#", ...) - (a.opset < 9 and 1 or 0) - m
      local made = #a.body.outputs - n

      --- One run of the scan over sequences, from the carried values.
      local function run(carried, sequences)
        local rows = {}
        for k = 1, made do rows[k] = {} end
        local length
        local dims = {}
        for k = 1, m do
          local x = sequences[k]
          local axis = a.scan_input_axes and a.scan_input_axes[k] or 0
          dims[k] = values.dim(x, axis)
          length = x:size(dims[k])
        end
        local backward = a.scan_input_directions or a.directions
        for t = 1, length do
          local args = {}
          for i = 1, n do args[i] = carried[i] end
          for k = 1, m do
            local at = backward and backward[k] == 1 and length + 1 - t or t
            args[n + k] = sequences[k]:narrow(dims[k], at, 1):squeeze(dims[k])
          end
          local out = { a.body.run(parts, env, unpack(args, 1, n + m)) }
          for i = 1, n do carried[i] = out[i] end
          for k = 1, made do
            local reverse = a.scan_output_directions and a.scan_output_directions[k] == 1
            rows[k][reverse and length + 1 - t or t] = T(out[n + k])
          end
        end
        for k = 1, made do
          local axis = a.scan_output_axes and a.scan_output_axes[k] or 0
          local rank = rows[k][1].ndim + 1
          carried[n + k] = ty.stack(rows[k], (axis < 0 and axis + rank or axis) + 1)
        end
        return carried
      end

      local carried, sequences = {}, {}
      if a.opset >= 9 then
        for i = 1, n do carried[i] = T(given[i]) end
        for k = 1, m do sequences[k] = T(given[n + k]) end
        return unpack(run(carried, sequences), 1, n + made)
      end
      -- version 8: a batch dim in front
      local all = {}
      for b = 1, T(given[1]):size(1) do
        local c, s = {}, {}
        for i = 1, n do c[i] = T(given[i])[b] end
        for k = 1, m do s[k] = T(given[n + k])[b] end
        for i, v in ipairs(run(c, s)) do
          all[i] = all[i] or {}
          all[i][b] = T(v)
        end
      end
      for i = 1, n + made do all[i] = ty.stack(all[i], 1) end
      return unpack(all, 1, n + made)
    end)
end
