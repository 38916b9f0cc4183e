--- save.lua -- `ty.save("model.onnx", f, {x, ...})`: what a function computes as an ONNX model.
-- In: a function or a module, example arguments, options. Out: a file. A function that reads a value on its way, or
-- computes what ONNX has no operator for, raises and says what; a file that cannot be written gives nil and a message.
--
-- The function runs once (per sample of sizes, where sizes are to vary) and its operations are recorded (graph.lua);
-- each becomes nodes of ONNX:
--   save_model.lua     a recording on its way: nodes, initializers, which tensors are weights
--   save_operators.lua  the table of operations; save_views.lua: views by strides
--   save_unify.lua     recordings at several sizes as one model
-- Tensors among the arguments are inputs, all else is frozen.

local ty = require "tycho"
local graph = require "tycho.graph"
local arguments = require "tycho.export.arguments"
local encode = require "tycho.onnx.encode"
local unify = require "tycho.onnx.save_unify"
local ops = require("tycho.graph_ops")(ty)
local models = require("tycho.onnx.save_model")(ops)

local internals = ty.internals
local fail = internals.error
local format, concat = string.format, table.concat
local ipairs, pairs, type, unpack = ipairs, pairs, type, unpack

local M = {}

local OPSET, IR = 18, 8
local MOST = 2 ^ 31 - 1 -- bytes of a message
local BESIDE = 1024 -- bytes from which on a weight goes into the file beside the model

local known = { weights = true, dynamic = true, inputs = true, outputs = true, n = true }
local call = "ty.save(\"model.onnx\", f, {example arguments})"

-- Recording -----------------------------------------------------------------------------------------------------------

--- The tensors of a result, with names: results by position, fields of tables by name.
local function flatten(v, name, list)
  if ty.is_tensor(v) then
    list[#list + 1] = { name = name, t = v }
  elseif type(v) == "table" then
    local keys = {}
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, k in ipairs(keys) do flatten(v[k], name and name .. "_" .. tostring(k) or tostring(k), list) end
  else
    fail(format("save: a result must be a tensor or a table of tensors, got a %s", type(v)))
  end
  return list
end

local function results_of(...)
  local n, list = select("#", ...), {}
  if n == 0 then fail "save: the function returns nothing" end
  for i = 1, n do
    local v = (select(i, ...))
    flatten(v, n > 1 and "output_" .. i or ty.is_tensor(v) and "output" or nil, list)
  end
  return list
end

--- A recording of the call as a builder, and the names of its results.
local function recorded(fn, args, given)
  local names = {}
  local function run(...)
    local list = results_of(fn(...))
    local tensors = {}
    for i, e in ipairs(list) do names[i], tensors[i] = e.name, e.t end
    return unpack(tensors)
  end
  local g, inputs = ty.no_grad(function() return graph.record(run, unpack(args, 1, args.n)) end)
  if not g then
    fail("save: the function reads a value on its way (item, tolist, a print, a condition on data): "
      .. "a model of ONNX holds operations alone")
  end
  local of = { tensors = {}, names = given.names, weights = given.weights }
  for i, at in ipairs(given.at) do of.tensors[i] = args[at] end
  return models.build(g, inputs, of), names
end

--- The tensors of a model by name.
local function weights_of(model)
  local list = {}
  if model and ty.nn.is_module(model) then
    for _, each in ipairs { "named_parameters", "named_buffers" } do
      for name, t in model[each](model) do list[#list + 1] = { name = name, tensor = t:detach() } end
    end
  end
  return list
end

--- Recordings at sizes that have nothing in common, made one.
local function build_for_sizes(fn, args, given, names, dynamic)
  local sizes, by_argument = arguments.sizes("save", args, names, dynamic)
  local points, builders, result_names = {}, {}, nil
  local function sample(values)
    local ok, b, found = pcall(recorded, fn, arguments.resized(args, by_argument, values), given)
    if not ok then
      local at = {}
      for i, size in ipairs(sizes) do at[i] = format("%s = %d", size, values[size]) end
      fail(format("save: the function does not take sizes %s: %s", concat(at, ", "),
        type(b) == "table" and tostring(b[1]) or tostring(b)))
    end
    points[#points + 1], builders[#builders + 1], result_names = values, b, found
  end
  for k = 0, #sizes + 1 do
    local values = {}
    for i, size in ipairs(sizes) do
      values[size] = arguments.PRIMES[i] + ((k == i or k > #sizes) and 12 or 0)
    end
    sample(values)
  end
  local places = {}
  for i, at in ipairs(given.at) do
    for dim, size in pairs(by_argument[at] or {}) do places[size] = { argument = given.names[i], dim = dim } end
  end
  return unify.merge(builders, points, sizes, places), result_names, by_argument
end

-- The message ---------------------------------------------------------------------------------------------------------

--- Names of sizes from expressions: "batch", "2*batch + 1".
local function dimension(e)
  if type(e) == "number" then return { value = e } end
  if type(e) == "string" then return { param = e } end
  if #e.sizes == 0 then return { value = e.plus } end
  local text = concat(e.sizes, "*")
  if e.factor ~= 1 then text = format("%d*%s", e.factor, text) end
  if e.plus ~= 0 then text = format("%s %s %d", text, e.plus < 0 and "-" or "+", math.abs(e.plus)) end
  return { param = text }
end

local function value_info(name, dtype, shape)
  local dims = {}
  for d = 1, #shape do dims[d] = dimension(shape[d]) end
  return { name = name, type = { tensor = { elem_type = encode.type_number[dtype]
    or fail(format("save: ONNX has no dtype %s", dtype)), shape = { dims = dims } } } }
end

local function tensor_of(v)
  if v.kind == "tensor" then return v.t end
  if v.kind == "number" then return ty.full({}, v.value, { dtype = v.dtype }) end
  if #v.list == 0 then return ty.zeros({ 0 }, { dtype = "i64" }) end
  return ty.tensor(v.list, { dtype = "i64" })
end

--- Whether two initializers are the same: what one is known by.
local function key_of(v)
  if v.kind == "ints" then return "i " .. concat(v.list, " ") end
  if v.kind == "number" then return format("n %s %.17g %g", v.dtype, v.value, 1 / v.value) end
end

--- Final names of values: inputs and weights keep theirs, results get what the user wants.
local function rename(B, results, taken)
  local seen, map = {}, B.renamed
  local function final(name)
    while map[name] do name = map[name] end
    return name
  end
  local kept = {}
  for _, v in ipairs(B.initializers) do
    local key = key_of(v)
    if key and seen[key] then map[v.name] = seen[key]
    else
      kept[#kept + 1] = v
      if key then seen[key] = v.name end
    end
  end
  B.initializers = kept
  local made = {}
  for _, node in ipairs(B.nodes) do
    for _, name in ipairs(node.outputs) do made[name] = true end
  end
  for i, out in ipairs(B.outputs) do
    local name = final(out.value)
    if taken[results[i]] then fail(format("save: option outputs: an input or a weight is named %q", results[i])) end
    if made[name] then
      map[name], made[name] = results[i], nil
    else -- an input, a weight, or a value that is a result already
      B.nodes[#B.nodes + 1] = { op = "Identity", inputs = { name }, attributes = {}, outputs = { results[i] } }
    end
    taken[results[i]] = true
  end
  for _, node in ipairs(B.nodes) do
    for _, list in ipairs { node.inputs, node.outputs } do
      for i, name in ipairs(list) do list[i] = final(name) end
    end
  end
end

--- Takes out the nodes and initializers that no result needs.
local function prune(B, results)
  local wanted, nodes, constants = {}, {}, {}
  for _, name in ipairs(results) do wanted[name] = true end
  for i = #B.nodes, 1, -1 do
    local node, used = B.nodes[i], false
    for _, name in ipairs(node.outputs) do used = used or wanted[name] end
    if used then
      nodes[#nodes + 1] = node
      for _, name in ipairs(node.inputs) do wanted[name] = true end
    end
  end
  for _, v in ipairs(B.initializers) do
    if wanted[v.name] then constants[#constants + 1] = v end
  end
  for i = 1, math.floor(#nodes / 2) do nodes[i], nodes[#nodes + 1 - i] = nodes[#nodes + 1 - i], nodes[i] end
  B.nodes, B.initializers = nodes, constants
end

local function message_nodes(B)
  local list = {}
  for i, node in ipairs(B.nodes) do
    local attributes, names = {}, {}
    for name in pairs(node.attributes) do names[#names + 1] = name end
    table.sort(names)
    for k, name in ipairs(names) do attributes[k] = encode.attribute(name, node.attributes[name]) end
    list[i] = { op_type = node.op, name = "node_" .. i, input = node.inputs, output = node.outputs,
      attribute = attributes }
  end
  return list
end

--- Initializers as messages; with `beside`, large ones into the file of that name, whose parts come second.
local function message_tensors(B, beside)
  local list, parts, at = {}, {}, 0
  for i, v in ipairs(B.initializers) do
    local t = encode.tensor(v.name, tensor_of(v))
    local bytes = encode.bytes_of(t.raw_data)
    if beside and bytes >= BESIDE then
      local gap = -at % 64
      parts[#parts + 1], parts[#parts + 2] = ("\0"):rep(gap), t.raw_data
      t.raw_data, t.data_location = nil, 1
      t.external_data = { { key = "location", value = beside }, { key = "offset", value = format("%d", at + gap) },
        { key = "length", value = format("%d", bytes) } }
      at = at + gap + bytes
    end
    list[i] = t
  end
  return list, parts
end

--- Names that a user gave, in the place of those that were found.
local function named(what, list, given)
  if given == nil then return list end
  local y, seen = {}, {}
  for i = 1, #list do
    local name = given[i]
    if name ~= nil and (type(name) ~= "string" or name == "") then
      fail(format("save: option %s must be a list of names, got %s", what, tostring(name)))
    end
    y[i] = name or list[i]
    if seen[y[i]] then fail(format("save: option %s: two have the name %q", what, y[i])) end
    seen[y[i]] = true
  end
  if #given > #list then fail(format("save: option %s has %d names, there are %d", what, #given, #list)) end
  return y
end

--- Writes f(...) as a model. C: files.so.
function M.save(C, path, f, given)
  local args, opts = arguments.read("save", given, known, "{x, outputs = {\"scores\"}}")
  if opts.inputs ~= nil and type(opts.inputs) ~= "table" then fail "save: option inputs must be a list of names" end
  local fn, names = arguments.plain("save", f, args, internals.original, call)
  local of, found = { at = {}, weights = weights_of(args.model) }, {}
  for i = 1, args.n do
    if ty.is_tensor(args[i]) then
      of.at[#of.at + 1] = i
      found[#found + 1] = names[i] or "x" .. #of.at
    end
  end
  of.names = named("inputs", found, opts.inputs)
  for k, i in ipairs(of.at) do names[i] = of.names[k] end
  local taken = {}
  for _, name in ipairs(of.names) do taken[name] = true end
  for _, w in ipairs(of.weights) do
    while taken[w.name] do w.name = w.name .. "_" end
    taken[w.name] = true
  end
  local B, results, by_argument
  if opts.dynamic then B, results, by_argument = build_for_sizes(fn, args, of, names, opts.dynamic)
  else B, results = recorded(fn, args, of) end
  for i, name in ipairs(results) do
    while taken[name] do name = name .. "_" end
    results[i] = name
  end
  results = named("outputs", results, opts.outputs)
  rename(B, results, taken)
  prune(B, results)
  local inputs, outputs = {}, {}
  for k, i in ipairs(of.at) do
    local shape = args[i].shape
    for dim, size in pairs(by_argument and by_argument[i] or {}) do shape[dim] = size end
    inputs[k] = value_info(of.names[k], args[i].dtype, shape)
  end
  for i, out in ipairs(B.outputs) do outputs[i] = value_info(results[i], out.dtype, out.shape) end
  local beside = opts.weights == "beside" and path:match "[^/\\]*$" .. ".data" or nil
  local tensors, elsewhere = message_tensors(B, beside)
  local parts, bytes = encode.message("model", {
    ir_version = IR, producer_name = "tycho", opset_import = { { domain = "", version = OPSET } },
    graph = { name = path:match "([^/\\]*)%.[^.]*$", node = message_nodes(B), initializer = tensors, input = inputs,
      output = outputs },
  })
  if bytes > MOST then
    fail(format("save: the model has %.1f GB, an ONNX file 2 at most: write {..., weights = \"beside\"}", bytes / 1e9))
  end
  if beside then
    local ok, why = C.write(path .. ".data", elsewhere)
    if not ok then return nil, why end
  end
  return C.write(path, parts)
end

return M
