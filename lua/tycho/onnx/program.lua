--- program.lua -- a graph as a list of steps: which operation, from which slots to which.
-- In: a decoded graph, operators, the functions that the model defines. Out: a program that runs on values. A node
-- whose operator, attribute or domain is not known is named with its name before anything runs.
--
-- A program has slots: names of values are numbered when it is built. What a graph inside of a node (If, Loop, Scan)
-- reads from around it is one more input of its program. The functions of the model are built in where they are called,
-- once for each call, since its attributes are theirs.

local values = require "tycho.onnx.values"

local format = string.format
local ipairs, pairs, unpack, type = ipairs, pairs, unpack, type
local setmetatable = setmetatable
local is_host = values.is_host
local inline = require("tycho").internals.grad.inline

local M = {}

local DEPTH = 32 -- graphs inside graphs, functions inside functions

---@class tycho.onnx.Program
---@field steps table[]
---@field inputs integer[] slots
---@field outputs integer[]
---@field constants {slot: integer, key: string?, value: any}[] key: of the module's parts
---@field reads {name: string, slot: integer, from: integer}[] what it takes from the program around, and from where
---@field run fun(parts: table, env: table?, ...): any

--- What a program is built with; one for each depth, each behind the one around it.
---@class tycho.onnx.Builder
---@field operators table<string, table> by domain and name
---@field functions table<string, table> decoded, by domain, name and overload
---@field opset table<string, integer> versions of operators by domain
---@field tensor fun(t: table): any
---@field sparse fun(t: table): any
---@field keep fun(name: string, v: any, fixed: boolean?): string?, any the part that it becomes, or the value itself
---@field fail fun(text: string)
---@field knows fun(name: string): boolean whether the program around has a value of that name
local Builder = {}
Builder.__index = Builder

-- Running -------------------------------------------------------------------------------------------------------------
-- Captures evaluate what runs a program. It closes over the program, which no one changes, so that steps are no guards;
-- the module's parts are handed in, which are.

--- Runs a step's operation on values.
local function perform(step, parts, args, slots)
  local n, host = step.n, step.host
  if host then
    local all = true
    for i = 1, n do
      if args[i] ~= nil and not is_host(args[i]) then all = false end
    end
    if all or step.any then
      local y = host(step.a, unpack(args, 1, n))
      if y ~= nil then return y end
    end
  end
  if step.programs then return step.f(step.a, parts, slots, unpack(args, 1, n)) end
  return step.f(step.a, unpack(args, 1, n))
end
inline[perform] = true

--- What runs a program: outputs in order. parts: the module's; env: slots of the program around it, some of which it
--- reads.
local function runner(p)
  local constants, reads, inputs, steps, outputs = p.constants, p.reads, p.inputs, p.steps, p.outputs
  local function run(parts, env, ...)
    local slots, given = {}, { ... }
    for _, c in ipairs(constants) do
      if c.key then slots[c.slot] = parts[c.key] else slots[c.slot] = c.value end
    end
    for _, r in ipairs(reads) do slots[r.slot] = env[r.from] end
    for i, at in ipairs(inputs) do slots[at] = given[i] end
    for _, step in ipairs(steps) do
      local args = {}
      for i = 1, step.n do args[i] = slots[step.ins[i]] end
      local results = { perform(step, parts, args, slots) }
      for i, at in ipairs(step.outs) do
        if at ~= 0 then slots[at] = results[i] end
      end
      for _, at in ipairs(step.dead) do slots[at] = nil end
    end
    local out = {}
    for i, at in ipairs(outputs) do out[i] = slots[at] end
    return unpack(out, 1, #outputs)
  end
  inline[run] = true
  return run
end

-- Building ------------------------------------------------------------------------------------------------------------

--- A program to be, inside of another builder's or alone.
local function open(outer, fields)
  if (outer.depth or 0) > DEPTH then outer.fail(format("graphs are nested deeper than %d", DEPTH)) end
  local B = setmetatable(fields or {}, { __index = outer })
  B.depth = (outer.depth or 0) + 1
  B.slots, B.count = {}, 0
  B.program = { steps = {}, inputs = {}, outputs = {}, constants = {}, reads = {} }
  return B
end

function Builder:define(name)
  self.count = self.count + 1
  self.slots[name] = self.count
  return self.count
end

--- The slot of a name that is read; from around where this program has none.
function Builder:slot(name)
  local at = self.slots[name]
  if at then return at end
  if not (self.knows and self.knows(name)) then
    self.fail(format("the value %q is read before any node gives it", name))
  end
  at = self:define(name)
  self.program.reads[#self.program.reads + 1] = { name = name, slot = at }
  return at
end

--- A value that is there before the program runs: a part of the module, or a constant.
function Builder:constant(name, v, fixed)
  local key, value = self.keep(name, v, fixed)
  self.program.constants[#self.program.constants + 1] = { slot = self:define(name), key = key, value = value }
end

local by_kind = { "f", "i", "s", [6] = "floats", [7] = "ints", [8] = "strings" }
local absent = { f = 0, i = 0, s = "", floats = {}, ints = {}, strings = {} }

--- The value of an attribute as operators take it.
function Builder:attribute(a)
  if a.g then return M.graph(self, a.g) end
  if a.t or a.sparse_tensor then
    local v, why
    if a.t then v, why = self.tensor(a.t) else v, why = self.sparse(a.sparse_tensor) end
    return v or self.fail(format("the attribute %s: %s", a.name or "?", why))
  end
  if a.graphs then self.fail "a list of graphs is not supported as an attribute" end
  local field = by_kind[a.type or 0]
  if field then return a[field] or absent[field] end
  return a.floats or a.ints or a.strings or a.i or a.f or a.s or a.tp or {}
end

--- Attributes of a node by name; those that name one of the function around are the caller's.
function Builder:attributes(node)
  local given = {}
  for _, a in ipairs(node.attribute or {}) do
    local of_caller = a.ref_attr_name and a.ref_attr_name ~= ""
    if of_caller then
      given[a.name] = self.caller and self.caller[a.ref_attr_name]
    else
      given[a.name or "?"] = self:attribute(a)
    end
  end
  return given
end

local function domain_of(name) return name == "ai.onnx" and "" or name or "" end

local function is_program(v) return type(v) == "table" and v.steps ~= nil and v.run ~= nil end

--- The operation of a node: what runs it, what the host computes, whether it has programs.
function Builder:operation(node, given)
  local domain, kind = domain_of(node.domain), node.op_type or ""
  local key = domain .. ":" .. kind
  local fn = self.functions[key .. "/" .. (node.overload or "")] or self.functions[key .. "/"]
  if fn then return { f = M.call(self, fn, given), programs = true } end
  local row = self.operators[key]
  if not row then
    self.fail(format("the operator %s%s is not supported", domain ~= "" and domain .. "." or "", kind))
  end
  for name in pairs(given) do
    if not row.attributes[name] then self.fail(format("the attribute %s is not supported", name)) end
  end
  given.opset, given.outputs = self.opset[domain] or 1, #(node.output or {})
  local why = row.check and row.check(given)
  if why then self.fail(why) end
  return { f = row.f, host = values.ops[kind], any = values.of_any[kind] }
end

--- A value that a node Constant gives; nil and why there is none.
local function constant_of(a)
  if a.value_string or a.value_strings then return nil, "strings are not supported" end
  if a.value or a.sparse_value then return a.value or a.sparse_value end
  if a.value_int then return values.host("i64", { a.value_int }, 0) end
  if a.value_ints then return values.host("i64", { unpack(a.value_ints) }, 1) end
  if a.value_float then return values.floats({ a.value_float }, 0) end
  if a.value_floats then return values.floats(a.value_floats, 1) end
  return nil, "it has no value"
end

function Builder:node(node, index)
  local name_of = node.name and node.name ~= "" and node.name or format("node %d", index)
  local label = format("%s (%s)", name_of, node.op_type or "?")
  local fail = self.fail
  function self.fail(text) return fail(format("%s: %s", label, text)) end
  local given = self:attributes(node)
  if node.op_type == "Constant" and domain_of(node.domain) == "" then
    local v, why = constant_of(given)
    if v == nil then self.fail(why) end
    self:constant(node.output and node.output[1] or "", v, true)
    self.fail = fail
    return
  end
  local step = self:operation(node, given)
  step.a, step.label, step.ins, step.outs, step.dead, step.n = given, label, {}, {}, {}, #(node.input or {})
  for i, name in ipairs(node.input or {}) do step.ins[i] = name ~= "" and self:slot(name) or 0 end
  for _, program in pairs(given) do
    if is_program(program) then
      step.programs = true
      for _, r in ipairs(program.reads) do r.from = self:slot(r.name) end
    end
  end
  for i, name in ipairs(node.output or {}) do step.outs[i] = name ~= "" and self:define(name) or 0 end
  self.program.steps[#self.program.steps + 1] = step
  self.fail = fail
end

--- Says of each step which slots no later one reads, so that what lies there is let go.
local function find_dead(p)
  local last = {}
  for i, step in ipairs(p.steps) do
    for _, at in ipairs(step.ins) do last[at] = i end
    for _, program in pairs(step.a) do
      if is_program(program) then
        for _, r in ipairs(program.reads) do last[r.from] = i end
      end
    end
  end
  last[0] = nil
  for _, at in ipairs(p.outputs) do last[at] = nil end
  for at, i in pairs(last) do p.steps[i].dead[#p.steps[i].dead + 1] = at end
end

--- The program of nodes, whose inputs and constants are defined.
function Builder:finish(nodes, wanted)
  local p = self.program
  for index, node in ipairs(nodes or {}) do self:node(node, index) end
  for i, name in ipairs(wanted) do p.outputs[i] = self:slot(name) end
  find_dead(p)
  p.run = runner(p)
  return p
end

local function names_of(list)
  local names = {}
  for i, v in ipairs(list or {}) do names[i] = v.name or "" end
  return names
end

--- A graph's program. Its inputs are those that no initializer gives.
---@param outer tycho.onnx.Builder
---@return tycho.onnx.Program
function M.graph(outer, graph)
  local B, known = open(outer), {}
  function B.knows(name)
    return outer.slots ~= nil and (outer.slots[name] ~= nil or outer.knows and outer.knows(name))
  end


  local function add(name, v, why)
    if not v then B.fail(format("the initializer %q: %s", name, why)) end
    if known[name] then B.fail(format("two initializers are called %q", name)) end
    known[name] = true
    B:constant(name, v)
  end

  for _, t in ipairs(graph.initializer or {}) do add(t.name or "", B.tensor(t)) end
  for _, t in ipairs(graph.sparse_initializer or {}) do add(t.values and t.values.name or "", B.sparse(t)) end
  local given = {}
  for _, v in ipairs(graph.input or {}) do
    local name = v.name or ""
    if not known[name] then
      given[#given + 1] = name
      B.program.inputs[#given] = B:define(name)
    end
  end
  local p = B:finish(graph.node, names_of(graph.output))
  p.names, p.results = given, names_of(graph.output)
  return p
end

--- A function of the model as an operation, for a node of these attributes.
function M.call(outer, fn, given)
  local opset = {}
  for _, o in ipairs(fn.opset_import or {}) do opset[domain_of(o.domain)] = o.version or 1 end
  for _, a in ipairs(fn.attribute_proto or {}) do
    if given[a.name] == nil then given[a.name] = outer:attribute(a) end
  end
  local B = open(outer, { opset = opset, knows = false, caller = given })
  for i, name in ipairs(fn.input or {}) do B.program.inputs[i] = B:define(name) end
  local run = B:finish(fn.node, fn.output or {}).run
  local function call(_, parts, _, ...) return run(parts, nil, ...) end
  inline[call] = true
  return call
end

--- A builder: fields as tycho.onnx.Builder has them.
function M.builder(fields) return setmetatable(fields, Builder) end

return M
