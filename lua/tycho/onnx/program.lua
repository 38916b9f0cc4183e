--- program.lua -- a graph as a list of steps: which operation, from which slots to which.
-- In: a decoded graph, operators, the functions that the model defines. Out: a program that runs on values. A node whose
-- operator, attribute or domain is not known is named with its name before anything runs.
--
-- A program has slots. Names of values are numbered when it is built; what a graph inside of a node (If, Loop, Scan) reads
-- from around it is one more input of its program.

local values = require "tycho.onnx.values"

local format = string.format
local ipairs, pairs, unpack, type, getmetatable = ipairs, pairs, unpack, type, getmetatable
local is_host = values.is_host

local M = {}

local DEPTH = 32 -- graphs inside graphs, functions inside functions

---@class tycho.onnx.Program
local Program = {}
Program.__index = Program

--- The value of an attribute as operators take it.
local function attribute_of(B, a)
  if a.g then return B.program(a.g) end
  if a.t or a.sparse_tensor then
    local v, why
    if a.t then v, why = B.tensor(a.t) else v, why = B.sparse(a.sparse_tensor) end
    return v or B.fail(format("the attribute %s: %s", a.name or "?", why))
  end
  if a.graphs then B.fail("a list of graphs is not supported as an attribute") end
  local kind = a.type
  if kind == 1 then return a.f or 0 end
  if kind == 2 then return a.i or 0 end
  if kind == 3 then return a.s or "" end
  if kind == 6 then return a.floats or {} end
  if kind == 7 then return a.ints or {} end
  if kind == 8 then return a.strings or {} end
  if a.floats or a.ints or a.strings then return a.floats or a.ints or a.strings end
  return a.i or a.f or a.s or a.tp or {}
end

local function name_of(node, index)
  local name = node.name and node.name ~= "" and node.name or format("node %d", index)
  return format("%s (%s)", name, node.op_type or "?")
end

local function key_of(domain, name) return (domain == "ai.onnx" and "" or domain or "") .. ":" .. name end

--- A program of a graph. given: names of its inputs; wanted: of its outputs.
--- B: {operators, functions, opset by domain, tensor, sparse, fail, depth, outer: slot of a name from around}
local function build(B, graph, given, wanted, constants, attributes)
  local slots, n = {}, 0
  local p = setmetatable({ steps = {}, inputs = {}, outputs = {}, constants = {}, reads = {}, parts = B.parts }, Program)
  if B.depth > DEPTH then B.fail(format("graphs are nested deeper than %d", DEPTH)) end

  local function define(name)
    n = n + 1
    slots[name] = n
    return n
  end

  --- The slot of a name that a node reads; from around where the graph has none.
  local function slot(name)
    local at = slots[name]
    if at then return at end
    if not B.around or not B.around(name) then
      B.fail(format("the value %q is read before any node gives it", name))
    end
    at = define(name)
    p.reads[#p.reads + 1] = { name = name, slot = at }
    return at
  end

  for i, name in ipairs(given) do p.inputs[i] = define(name) end
  for _, c in ipairs(constants) do
    local at = slots[c.name] or define(c.name)
    p.constants[#p.constants + 1] = { slot = at, value = c.value, key = c.key }
  end

  local inner = setmetatable({ depth = B.depth + 1 }, { __index = B })
  inner.around = function(name) return slots[name] ~= nil or B.around and B.around(name) end
  inner.program = function(g) return M.graph(inner, g) end

  for index, node in ipairs(graph.node or {}) do
    local label = name_of(node, index)
    local domain, kind = node.domain or "", node.op_type or ""
    local function fail(text) B.fail(format("%s: %s", label, text)) end
    inner.fail = function(text) return fail(text) end
    local given_here = {}
    for _, a in ipairs(node.attribute or {}) do
      local from = a
      if a.ref_attr_name and a.ref_attr_name ~= "" then
        from = attributes and attributes[a.ref_attr_name]
      end
      if a.name and from ~= nil then
        given_here[a.name] = from == a and attribute_of(inner, a) or from
      end
    end
    local fn = B.functions[key_of(domain, kind .. "/" .. (node.overload or ""))] or B.functions[key_of(domain, kind .. "/")]
    local row = B.operators[key_of(domain, kind)]
    local step = { label = label, ins = {}, n = #(node.input or {}), outs = {}, a = given_here }
    if fn then
      step.f = M.call(inner, fn, given_here)
    elseif row then
      given_here.opset = B.opset[domain == "ai.onnx" and "" or domain] or 1
      given_here.outputs = #(node.output or {})
      for name in pairs(given_here) do
        if not row.attributes[name] and name ~= "opset" and name ~= "outputs" then
          fail(format("the attribute %s is not supported", name))
        end
      end
      if row.check then
        local why = row.check(given_here)
        if why then fail(why) end
      end
      step.f, step.host = row.f, values.ops[kind]
      step.any = values.of_any[kind]
    else
      fail(format("the operator %s%s is not supported", domain ~= "" and domain .. "." or "", kind))
    end
    for i, name in ipairs(node.input or {}) do step.ins[i] = name ~= "" and slot(name) or 0 end
    for _, program in pairs(given_here) do -- what graphs inside read from here
      if type(program) == "table" and getmetatable(program) == Program then
        for _, r in ipairs(program.reads) do r.from = slot(r.name) end
        step.programs = true
      end
    end
    for i, name in ipairs(node.output or {}) do step.outs[i] = name ~= "" and define(name) or 0 end
    p.steps[index] = step
  end
  for i, name in ipairs(wanted) do p.outputs[i] = slot(name) end
  p.nslots = n

  -- what no later step reads is let go
  local last = {}
  for i, step in ipairs(p.steps) do
    for _, at in ipairs(step.ins) do last[at] = i end
    for _, program in pairs(step.a) do
      if type(program) == "table" and getmetatable(program) == Program then
        for _, r in ipairs(program.reads) do last[r.from] = i end
      end
    end
  end
  for _, at in ipairs(p.outputs) do last[at] = nil end
  for _, c in ipairs(p.constants) do last[c.slot] = nil end
  for at, i in pairs(last) do
    if at ~= 0 then
      local step = p.steps[i]
      step.dead = step.dead or {}
      step.dead[#step.dead + 1] = at
    end
  end
  return p
end

local function names_of(list)
  local names = {}
  for i, v in ipairs(list or {}) do names[i] = v.name or "" end
  return names
end

--- A graph's program. Its inputs are those that no initializer gives; of these B.keep may make parts of the module.
function M.graph(B, graph)
  local constants, given, known = {}, {}, {}

  local function add(name, v, why)
    if not v then B.fail(format("the initializer %q: %s", name, why)) end
    if known[name] then B.fail(format("two initializers are called %q", name)) end
    known[name] = true
    local key, value = B.keep(name, v)
    constants[#constants + 1] = { name = name, key = key, value = value }
  end

  for _, t in ipairs(graph.initializer or {}) do add(t.name or "", B.tensor(t)) end
  for _, t in ipairs(graph.sparse_initializer or {}) do add(t.values and t.values.name or "", B.sparse(t)) end
  for _, v in ipairs(graph.input or {}) do
    if not known[v.name] then given[#given + 1] = v.name end
  end
  local p = build(B, graph, given, names_of(graph.output), constants)
  p.names, p.results = given, names_of(graph.output)
  return p
end

--- A function of the model as an operation: a program built for these attributes.
function M.call(B, fn, given)
  local opset = {}
  for _, o in ipairs(fn.opset_import or {}) do opset[o.domain or ""] = o.version or 1 end
  for _, a in ipairs(fn.attribute_proto or {}) do
    if given[a.name] == nil then given[a.name] = attribute_of(B, a) end
  end
  local inner = setmetatable({ opset = opset, around = false }, { __index = B })
  local p = build(inner, fn, fn.input or {}, fn.output or {}, {}, given)
  return function(_, ...) return p:run(nil, ...) end
end

--- Runs a step's operation on values.
local function perform(step, args, env)
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
  if step.programs then return step.f(step.a, env, unpack(args, 1, n)) end
  return step.f(step.a, unpack(args, 1, n))
end

--- Runs the program: outputs in order. env: slots of the program around it, of which it reads some.
function Program:run(env, ...)
  local slots = {}
  for _, c in ipairs(self.constants) do slots[c.slot] = c.key and self.parts[c.key] or c.value end
  for _, r in ipairs(self.reads) do slots[r.slot] = env[r.from] end
  local given = { ... }
  for i, at in ipairs(self.inputs) do slots[at] = given[i] end
  for _, step in ipairs(self.steps) do
    local args = {}
    for i = 1, step.n do args[i] = slots[step.ins[i]] end
    local results = { perform(step, args, slots) }
    for i, at in ipairs(step.outs) do
      if at ~= 0 then slots[at] = results[i] end
    end
    if step.dead then
      for _, at in ipairs(step.dead) do slots[at] = nil end
    end
  end
  local out = {}
  for i, at in ipairs(self.outputs) do out[i] = slots[at] end
  return unpack(out, 1, #self.outputs)
end

return M
