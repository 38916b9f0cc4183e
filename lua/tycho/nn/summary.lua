--- nn/summary.lua -- `nn.summary(model, inputs ...)`: what a model is made of, and what one call costs.
-- In: a module and example inputs; nothing is computed from them but what shapes depend on, and nothing that the call
-- writes remains. Out: a table of rows that prints as one. Wrong use, and errors of the model itself, raise.
--
-- Shapes are those that each module's forward gives while the whole model is recorded once. Multiply-adds are counted
-- on recorded graphs: those of the products, for the whole model and, with inputs of the same shapes, for each
-- module.

local map = require("tycho.tree").map

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, is_tensor = nn._check, ty.is_tensor
  local BYTES = {}
  for _, d in ipairs(ty.internals.probe.dtypes()) do BYTES[d.name] = d.bytes end

  local function numel(shape)
    local n = 1
    for _, s in ipairs(shape) do n = n * s end
    return n
  end

  --- Multiply-adds of what jit.graph gives: a graph or a list of them.
  local function multiply_adds(graph)
    if graph[1] and not graph[1].op then
      local sum = 0
      for _, g in ipairs(graph) do sum = sum + multiply_adds(g) end
      return sum
    end
    local sum = 0
    for _, node in ipairs(graph) do
      if node.op == "matmul" then
        local inner = graph[node.src[1]].shape
        sum = sum + numel(node.shape) * inner[#inner]
      end
    end
    return sum
  end

  --- Ones in the place of a tensor; tables with a metatable as they are.
  local function ones_for(v)
    if is_tensor(v) then return ty.ones(v.shape, { dtype = v.dtype, device = v.device }) end
    return type(v) == "table" and getmetatable(v) ~= nil and v or nil
  end

  local function stand_in(v) return map(v, ones_for, {}) end

  --- The shapes of what a module gave, and their bytes.
  local function shape_text(values, n)
    local parts, bytes = {}, 0
    local function add(v)
      if is_tensor(v) then
        parts[#parts + 1] = "[" .. table.concat(v.shape, ", ") .. "]"
        bytes = bytes + v:numel() * BYTES[v.dtype]
      elseif type(v) == "table" and getmetatable(v) == nil then
        for i = 1, #v do add(v[i]) end
      end
    end
    for i = 1, n do add(values[i]) end
    return table.concat(parts, " "), bytes
  end

  --- Sets a `forward` of its own on each module that tells what goes in and out; gives what puts all back.
  local function watch(modules, seen)
    local own = {}
    for i, m in ipairs(modules) do
      own[i] = rawget(m, "forward") or false
      local forward = m.forward
      rawset(m, "forward", function(...)
        local inputs = { n = select("#", ...), ... }
        local function note(...)
          local row = seen[m]
          if not row then
            row = { calls = 0, inputs = {} }
            seen[m] = row
            for k = 1, inputs.n do row.inputs[k] = inputs[k] == m and m or stand_in(inputs[k]) end
            row.n = inputs.n
            row.shape, row.bytes = shape_text({ ... }, select("#", ...))
          end
          row.calls = row.calls + 1
          return ...
        end
        return note(forward(...))
      end)
    end
    return function()
      for i, m in ipairs(modules) do rawset(m, "forward", own[i] or nil) end
    end
  end

  --- Parameters that were not taken yet, and their bytes.
  local function count_parameters(m, taken)
    local own, bytes = 0, 0
    for _, p in ipairs(m:parameters()) do
      if not taken[p] then
        taken[p] = true
        own, bytes = own + p:numel(), bytes + p:numel() * BYTES[p.dtype]
      end
    end
    return own, bytes
  end

  local function thousands(n)
    local text = ("%.0f"):format(n)
    while true do
      local more, changed = text:gsub("^(%d+)(%d%d%d)", "%1,%2")
      text = more
      if changed == 0 then return text end
    end
  end

  local function size_text(bytes)
    if bytes < 1e3 then return ("%d B"):format(bytes) end
    if bytes < 1e6 then return ("%.1f KB"):format(bytes / 1e3) end
    if bytes < 1e9 then return ("%.1f MB"):format(bytes / 1e6) end
    return ("%.2f GB"):format(bytes / 1e9)
  end

  ---@class tycho.Summary
  ---@field rows table[]
  ---@field parameters integer each once
  ---@field buffers integer numbers in tensors that are not trained
  ---@field multiply_adds integer of one call
  ---@field parameter_bytes integer
  ---@field output_bytes integer what the modules without parts give
  local Summary = {}
  Summary.__index = Summary

  function Summary:__tostring()
    local lines = { { "module", "output", "parameters", "multiply-adds" } }
    for _, r in ipairs(self.rows) do
      local name = r.path == "" and r.class or ("%s%s (%s)"):format(("  "):rep(r.depth), r.path:match "[^.]*$", r.class)
      lines[#lines + 1] = { name, r.shape, r.parameters > 0 and thousands(r.parameters) or "-",
        r.multiply_adds and (r.multiply_adds > 0 and thousands(r.multiply_adds) or "-") or "?" }
    end
    local widths = { 0, 0, 0, 0 }
    for _, line in ipairs(lines) do
      for i, cell in ipairs(line) do widths[i] = math.max(widths[i], #cell) end
    end
    local form = ("%%-%ds  %%-%ds  %%%ds  %%%ds"):format(unpack(widths))
    local rule = ("-"):rep(widths[1] + widths[2] + widths[3] + widths[4] + 6)
    local out = {}
    for i, line in ipairs(lines) do
      out[#out + 1] = form:format(unpack(line))
      if i == 1 then out[#out + 1] = rule end
    end
    out[#out + 1] = rule
    local beside = self.buffers > 0 and (", %s numbers in buffers"):format(thousands(self.buffers)) or ""
    out[#out + 1] = ("%s parameters (%s)%s; %s multiply-adds a call"):format(thousands(self.parameters),
      size_text(self.parameter_bytes), beside, thousands(self.multiply_adds))
    out[#out + 1] = ("%s of outputs are kept for gradients, at least"):format(size_text(self.output_bytes))
    return table.concat(out, "\n")
  end

  --- The rows of all modules, in the order of the walk; tensors that several hold count at the innermost one's first.
  local function rows_of(model, names, modules, seen)
    local rows, has_parts, taken = {}, {}, {}
    for i, name in ipairs(names) do
      for k = 1, i - 1 do
        if modules[k] ~= modules[i] and (names[k] == "" or name:sub(1, #names[k] + 1) == names[k] .. ".") then
          has_parts[modules[k]] = true
        end
      end
    end
    local sum = { rows = rows, parameters = model:num_parameters(), buffers = 0, parameter_bytes = 0, output_bytes = 0 }
    for _, b in ipairs(model:buffers()) do sum.buffers = sum.buffers + b:numel() end
    for i = #modules, 1, -1 do -- inner ones first
      local m, at = modules[i], seen[modules[i]]
      local own, bytes = count_parameters(m, taken)
      local _, depth = names[i]:gsub("[^.]+", "")
      rows[i] = { path = names[i], class = m.class_name, depth = depth, parameters = own, shape = at and at.shape or "",
        called = at and at.calls or 0 }
      sum.parameter_bytes = sum.parameter_bytes + bytes
      if at and not has_parts[m] then sum.output_bytes = sum.output_bytes + at.bytes * at.calls end
    end
    return sum
  end

  --- What a model is made of: a table that prints well. rows: path, class, depth, shape (of the output), parameters
  --- (its own, without those of its parts), called (how often), multiply_adds (of all its calls, its parts included).
  --- Further parameters, buffers, multiply_adds, parameter_bytes, output_bytes of the whole.
  --- Raises where the model is no module, and what its forward raises.
  ---@param model tycho.Module
  ---@param ... any inputs of its forward
  ---@return tycho.Summary
  function nn.summary(model, ...)
    if not nn.is_module(model) then check.fail("summary", "argument 1 must be a module, got %s", check.show(model)) end
    local names, modules, inputs = {}, {}, { n = select("#", ...), ... }
    for name, m in model:named_modules() do names[#names + 1], modules[#modules + 1] = name, m end
    local seen = {}
    local restore = watch(modules, seen)
    local random = ty.internals.check.random() -- drawn numbers are not to be missed
    local ok, graph = pcall(ty.graph, function() return model(unpack(inputs, 1, inputs.n)) end)
    restore()
    ty.internals.check.random(random)
    if not ok then return error(graph, 0) end
    local sum = rows_of(model, names, modules, seen)
    sum.multiply_adds = multiply_adds(graph)
    for i, row in ipairs(sum.rows) do
      local at = seen[modules[i]]
      if i == 1 then row.multiply_adds = sum.multiply_adds
      elseif at then
        local fine, part = ty.internals.protect(ty.graph, modules[i].forward, unpack(at.inputs, 1, at.n))
        row.multiply_adds = fine and multiply_adds(part) * at.calls or nil
      else
        row.multiply_adds = 0
      end
    end
    ty.internals.check.random(random)
    return setmetatable(sum, Summary)
  end

  --- What it is made of, and what one call costs: nn.summary(self, inputs ...).
  --- Raises what its forward raises.
  ---@param ... any inputs of its forward
  ---@return tycho.Summary
  function nn.Module:summary(...) return nn.summary(self, ...) end
end
