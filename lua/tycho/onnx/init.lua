--- onnx/init.lua -- ONNX models as modules: `ty.load "model.onnx"`.
-- In: a path. Out: a module whose parts are the model's weights and whose forward runs the graph in ordinary
-- operations, so that it is captured, differentiated, vectorised and moved like any other. nil and a message for a file
-- that is damaged, hostile, or asks for what is not supported.
--
--   local m = assert(ty.load "model.onnx")
--   local y = m(x)                         -- inputs in the order of the graph's; outputs likewise
--   local out = m { pixels = x }           -- or by name: a table of outputs by name
--   print(m)                               -- inputs, outputs, operators, parameters
--
-- Format: https://onnx.ai/onnx/repo-docs/IR.html, operators: https://onnx.ai/onnx/operators

local ty = require "tycho"
local nn = ty.nn
local check = require("tycho.arguments")(ty)
local program = require "tycho.onnx.program"
local values = require "tycho.onnx.values"

local format, concat = string.format, table.concat
local ipairs, pairs, unpack, type = ipairs, pairs, unpack, type

local MOST, SMALL = 28, 64 -- the newest version of the operators; elements of a value that the host keeps

local operators = {}

--- Adds an operator: its attributes, f(a, inputs...) -> outputs; check(a) says what of its attributes is not supported.
local op = setmetatable({}, { __call = function(_, name, attributes, f, more)
  local known = {}
  for a in attributes:gmatch("%S+") do known[a] = true end
  operators[":" .. name] = { attributes = known, f = f, check = more and more.check }
end })

for _, part in ipairs { "elements", "reductions", "shapes", "places", "windows", "normal", "recurrent", "control",
  "quantized", "attention", "images", "sequences", "signals", "grams" } do
  require("tycho.onnx." .. part)(op)
end

---@class tycho.onnx.Model: tycho.Module
local Model = nn.class "ONNX"

local function as_value(v)
  if type(v) == "table" and v.host then return values.tensor(v) end
  if type(v) == "table" and v.sequence then
    local list = {}
    for i, e in ipairs(v) do list[i] = as_value(e) end
    return list
  end
  return v
end

local function as_input(v)
  if type(v) ~= "table" then return v end
  local list = { sequence = true }
  for i, e in ipairs(v) do list[i] = e end
  return list
end

--- Where a call computes: where the first tensor that it is given lies, else the model's first part; nil: the default.
local function device_of(parts, given, n)
  for i = 1, n do
    if ty.is_tensor(given[i]) then return given[i].device end
  end
  for _, part in pairs(parts) do
    if ty.is_tensor(part) then return part.device end
  end
end

--- What runs a model: a function of its own, since what is compiled of one model is nothing to another. numbers: places
--- of inputs that decide about what runs; optional: names of inputs that may be missing.
local function forward_of(p, known, optional, numbers)
  local names, results_of = p.names, p.results

  --- Inputs by name, in the graph's order.
  local function by_name(given)
    local list = {}
    for i, name in ipairs(names) do list[i] = given[name] end
    for name in pairs(given) do
      if not known[name] then
        check.fail("ONNX", "no input %q, the model has %s", tostring(name), concat(names, ", "))
      end
    end
    return list
  end

  return function(self, first, ...)
    local named = type(first) == "table" and first[1] == nil and not ty.is_tensor(first) and next(first) ~= nil
    local given = named and by_name(first) or { first, ... }
    for i, name in ipairs(names) do
      if given[i] == nil and not optional[name] then check.fail("ONNX", "the input %q is missing", name) end
      given[i] = as_input(given[i])
    end
    -- a number that decides about what runs is read first: what comes behind is one part of a compiled function
    for k = 1, #numbers do
      local i = numbers[k]
      local v = given[i]
      if ty.is_tensor(v) and v.ndim == 0 then
        local number = v:item()
        if type(number) == "boolean" then number = number and 1 or 0 end
        given[i] = values.host(v.dtype, { number }, 0)
      end
    end
    values.device = device_of(self.parts, given, #names)
    local results = { p.run(self.parts, nil, unpack(given, 1, #names)) }
    for i = 1, #results_of do results[i] = as_value(results[i]) end
    if not named then return unpack(results, 1, #results_of) end
    local out = {}
    for i, name in ipairs(results_of) do out[name] = results[i] end
    return out
  end
end

--- What the file says of inputs and outputs, how many nodes of which operator, how many parameters.
local function describe(m)
  local about, lines = m._about, {}
  lines[1] = format("ONNX model %s(opset %d%s)", about.name ~= "" and about.name .. " " or "", about.opset,
    about.producer ~= "" and ", " .. about.producer or "")
  local width = 0
  for _, v in ipairs(about.inputs) do width = math.max(width, #v[1]) end
  for _, v in ipairs(about.outputs) do width = math.max(width, #v[1]) end
  for _, v in ipairs(about.inputs) do lines[#lines + 1] = format("  input   %-" .. width .. "s  %s", v[1], v[2]) end
  for _, v in ipairs(about.outputs) do lines[#lines + 1] = format("  output  %-" .. width .. "s  %s", v[1], v[2]) end
  local kinds = {}
  for kind, n in pairs(about.kinds) do kinds[#kinds + 1] = { kind, n } end
  table.sort(kinds, function(a, b) return a[2] > b[2] or a[2] == b[2] and a[1] < b[1] end)
  local line = "  nodes   "
  for i, k in ipairs(kinds) do
    local text = format("%d %s%s", k[2], k[1], kinds[i + 1] and ", " or "")
    if #line + #text > 110 then
      lines[#lines + 1] = line:match "^(.-) ?$"
      line = "          "
    end
    line = line .. text
  end
  lines[#lines + 1] = line
  local count = 0
  for _, t in pairs(m.parts) do count = count + t:numel() end
  lines[#lines + 1] = format("  parts   %d numbers in %d tensors", count, about.tensors)
  return concat(lines, "\n")
end

Model.__tostring = describe

local function known_opsets(model)
  local opset = {}
  for _, o in ipairs(model.opset_import or {}) do
    local domain = o.domain or ""
    opset[domain == "ai.onnx" and "" or domain] = o.version or 1
  end
  return opset
end

local function functions_of(model)
  local list = {}
  for _, fn in ipairs(model.functions or {}) do
    local domain = fn.domain == "ai.onnx" and "" or fn.domain or ""
    list[format("%s:%s/%s", domain, fn.name or "", fn.overload or "")] = fn
  end
  return list
end

local function count_kinds(graph, kinds)
  for _, node in ipairs(graph.node or {}) do
    local kind = node.op_type or "?"
    kinds[kind] = (kinds[kind] or 0) + 1
  end
  return kinds
end

--- Inputs of operators that decide about what runs, or about shapes: by place.
local decides = {
  If = { 1 }, Loop = { 1, 2 }, Reshape = { 2 }, Expand = { 2 }, Tile = { 2 }, ConstantOfShape = { 1 },
  Slice = { 2, 3, 4, 5 }, Range = { 1, 2, 3 }, TopK = { 2 }, OneHot = { 2 }, Pad = { 2, 4 }, Split = { 2 },
  Squeeze = { 2 }, Unsqueeze = { 2 }, Resize = { 2, 3, 4 }, Upsample = { 2 }, CumSum = { 2 }, Trilu = { 2 },
}

--- The names of values that are wanted as numbers of the host, by themselves or for what the host makes of them.
local function wanted_as_numbers(graph)
  local wanted, nodes = {}, graph.node or {}
  for at = #nodes, 1, -1 do
    local node, all = nodes[at], false
    if values.ops[node.op_type] and not values.of_any[node.op_type] then
      for _, name in ipairs(node.output or {}) do all = all or wanted[name] end
    end
    local places = decides[node.op_type] or {}
    for i, name in ipairs(node.input or {}) do
      local decided = all
      for _, place in ipairs(places) do decided = decided or place == i end
      if decided then wanted[name] = true end
    end
  end
  return wanted
end

--- The module of a decoded model. Raises with a text that begins with "onnx: ".
local function make(reader, file, model, path)
  local graph = model.graph
  local m = Model()
  values.device = nil -- what is made now lies where the user's tensors do
  local function fail(text) error({ onnx = format("%s: %s", path, text) }, 0) end
  if not graph then fail "no model: it has no graph" end
  local opset = known_opsets(model)
  if (opset[""] or 1) > MOST then
    fail(format("its operators are of version %d, the newest known is %d", opset[""], MOST))
  end
  m.parts, m._transient = {}, { _about = true }
  local tensors = 0
  local B = program.builder { operators = operators, functions = functions_of(model), opset = opset, fail = fail }
  local hosted = wanted_as_numbers(graph)
  function B.tensor(t) return reader.tensor(file, t) end
  function B.sparse(t) return reader.sparse(file, t) end
  --- Weights become parts of the module; small integers stay with the host.
  function B.keep(name, t, fixed)
    if values.is_host(t) then return nil, t end
    local is_float = values.is_float(t)
    if (not is_float or hosted[name]) and t.ndim < 2 and t:numel() <= SMALL then return nil, values.of_tensor(t) end
    tensors = tensors + 1
    local key = name
    while m.parts[key] do key = key .. "_" end
    if is_float and t.ndim > 0 and not fixed then t:requires_grad_() end
    m.parts[key] = t
    return key
  end
  local p, known, optional, numbers, floats = program.graph(B, graph), {}, {}, {}, {}
  for _, v in ipairs(graph.input or {}) do
    local number = v.type and v.type.tensor and v.type.tensor.elem_type or 1
    floats[v.name or ""] = number == 1 or number == 10 or number == 11 or number == 16
  end
  for i, name in ipairs(p.names) do
    known[name] = true
    if hosted[name] and not floats[name] then numbers[#numbers + 1] = i end
  end
  local inputs, outputs = {}, {}
  for _, v in ipairs(graph.input or {}) do
    if v.type and v.type.optional then optional[v.name] = true end
    if known[v.name] then inputs[#inputs + 1] = { v.name, reader.type_text(v.type) } end
  end
  m.forward = forward_of(p, known, optional, numbers)
  for _, v in ipairs(graph.output or {}) do outputs[#outputs + 1] = { v.name, reader.type_text(v.type) } end
  m._about = { name = graph.name or "", opset = opset[""] or 1, producer = model.producer_name or "", inputs = inputs,
    outputs = outputs, kinds = count_kinds(graph, {}), tensors = tensors }
  return m
end

local M = { SMALL = SMALL, operators = operators }

--- The module of a .onnx file, see above.
---@param C table files.so
function M.format(C)
  local reader = require("tycho.onnx.reader")(C)
  local function load(path, text)
    local file, why = reader.open(path, text)
    if not file then return nil, why end
    local model
    model, why = reader.decode(file, "model")
    if not model then return nil, why end
    local ok, m = pcall(make, reader, file, model, path or "bytes")
    if ok then return m end
    if type(m) == "table" and m.onnx then return nil, m.onnx end
    return error(m, 0)
  end
  return { load = load, reader = reader }
end

return M
