--- save_model.lua -- a recorded graph on its way to an ONNX model: nodes, initializers, names.
-- In: a graph (graph.lua), the tensors that it takes, which of them are arguments and which weights by name. Out: a
-- builder whose lists save_unify.lua and save.lua read. Raises where a node cannot be written.
--
-- An initializer is {kind = "ints", list} of i64, {kind = "number", dtype, value} without dims, {kind = "tensor", t}.

local ty = require "tycho"
local encode = require "tycho.onnx.encode"

local internals = ty.internals
local format, lower = string.format, string.lower
local ipairs, unpack = ipairs, unpack

---@param ops table what graph_ops.lua gives
return function(ops)
  local M = {}

  local views = require("tycho.onnx.save_views")(ops)
  local operators = require("tycho.onnx.save_operators")(ops, views)

  local B = {}
  B.__index = B

  --- Raises: what ONNX has no operator for.
  function B.refuse(what, n)
    return internals.error(format("save: ONNX has no %s%s", what, n and format(", asked for by %s", tostring(n)) or ""))
  end

  function B.type_number(dtype)
    return encode.type_number[dtype] or internals.error(format("save: ONNX has no dtype %s", dtype))
  end

  --- Adds a node; gives the names of its values.
  function B:node(op, inputs, attributes, count)
    local k = (self.count[op] or 0) + 1
    self.count[op] = k
    local outputs = {}
    for i = 1, count or 1 do outputs[i] = format("%s_%d%s", lower(op), k, i > 1 and "_" .. i or "") end
    self.nodes[#self.nodes + 1] = { op = op, inputs = inputs, attributes = attributes or {}, outputs = outputs }
    return unpack(outputs)
  end

  local function initializer(self, v)
    local list = self.initializers
    list[#list + 1] = v
    v.name = v.name or format("constant_%d", #list)
    return v.name
  end

  function B:ints(list) return initializer(self, { kind = "ints", list = ops.copy(list) }) end
  function B:number(dtype, value) return initializer(self, { kind = "number", dtype = dtype, value = value }) end
  function B:tensor(t) return initializer(self, { kind = "tensor", t = t }) end

  --- The name of a node's value; operands come first.
  function B:value(n) return self.names[n] end

  -- Inputs ------------------------------------------------------------------------------------------------------------

  --- The tensors that inputs may be views of: arguments, weights, then whatever is read whole.
  local function bases(g, inputs, given)
    local list = {}
    local function add(name, t, argument)
      if t:is_contiguous() then
        list[#list + 1] = { name = name, t = t, argument = argument }
      end
    end
    for i, t in ipairs(given.tensors) do add(given.names[i], t, true) end
    for _, w in ipairs(given.weights) do add(w.name, w.tensor) end
    local others = {}
    for _, n in ipairs(g:inputs()) do others[#others + 1] = inputs[n.number] end
    table.sort(others, function(a, b) return a:numel() > b:numel() end)
    for i, t in ipairs(others) do add("weight_" .. i, t) end
    return list
  end

  --- Which base an input reads: {base, offset}; nil where it is read as it is.
  local function layout_of(list, n, t)
    if t:numel() == 0 then return nil end
    local before, after = 0, 0
    for d = 1, #n.shape do
      local reach = (n.shape[d] - 1) * n.strides[d]
      if reach < 0 then before = before + reach else after = after + reach end
    end
    for _, base in ipairs(list) do
      local offset = base.t.dtype == n.dtype and internals.graph_offset(t, base.t)
      if offset and offset + before >= 0 and offset + after < base.t:numel() then
        return { base = base, offset = offset, sizes = base.t.shape }
      end
    end
  end

  --- Where an input lies in the tensor that it is a view of: {offset, sizes}; nil where it is none.
  function B:input_layout(n) return self.layouts[n] end

  --- The name of that tensor.
  function B:base(n)
    local base = self.layouts[n].base
    if not base.argument and not base.written then
      base.written = true
      initializer(self, { kind = "tensor", t = base.t, name = base.name })
    end
    return base.name
  end

  local function input(self, n)
    local layout = self.layouts[n]
    if not layout then return self:tensor(self.inputs[n.number]) end
    return views.view(self, self:base(n), layout.sizes, n.shape, n.strides, layout.offset)
  end

  -- Nodes -------------------------------------------------------------------------------------------------------------

  --- What a node is made of, where that is not its operands: these, and what writes it.
  local function shortcut(self, n)
    if n.op == "put" then
      local list = views.joined(n)
      if list then return list end
    elseif n.op == "gather" then
      local rows = operators.index_of(n)
      if rows then return { n.inputs[1], rows } end
    elseif n.op == "matmul" then
      return operators.convolution(self, n)
    end
  end

  --- The nodes that outputs need, with operands and what writes them.
  local function needed(self, g)
    local wanted, made = {}, {}
    for _, n in ipairs(g:outputs()) do wanted[n] = true end
    for i = #g, 1, -1 do
      local n = g[i]
      if wanted[n] then
        local operands, write = shortcut(self, n)
        made[n] = { write = write }
        for _, a in ipairs(operands or n.inputs) do wanted[a] = true end
      end
    end
    return made
  end

  --- Writes a node; gives the name of its value.
  local function written(self, n, write, slots)
    if n.op == "input" then return input(self, n) end
    if n.op == "scalar" then return self:number(n.dtype, slots[n.slot]) end
    if write then return write() end
    local names = {}
    for k, a in ipairs(n.inputs) do names[k] = self.names[a] or "" end
    return operators.emit(self, n, names)
  end

  --- A builder of what a graph computes. given: {tensors =, names =} of arguments, {weights = {{name, tensor}}}.
  function M.build(g, inputs, given)
    local self = setmetatable({ nodes = {}, initializers = {}, count = {}, names = {}, layouts = {}, inputs = inputs,
      outputs = {}, renamed = {}, reshaped = {} }, B)
    g:nodes() -- puts them in order
    local list, slots = bases(g, inputs, given), g:scalars()
    for _, n in ipairs(g:inputs()) do self.layouts[n] = layout_of(list, n, inputs[n.number]) end
    local made = needed(self, g)
    for i = 1, #g do
      local n = g[i]
      if made[n] then self.names[n] = written(self, n, made[n].write, slots) end
    end
    for i, n in ipairs(g:outputs()) do
      self.outputs[i] = { value = self.names[n], dtype = n.dtype, shape = ops.copy(n.shape) }
    end
    return self
  end

  return M
end
