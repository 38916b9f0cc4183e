--- graph.lua -- graphs as Lua sees them: to walk, change, print, run; passes and backends of users.
-- In: the graph of a captured function, or a text. Out: an object of nodes that may be changed, and its text, which the
-- core reads back. Wrong use raises at the user's line; `lint` says what is wrong with a graph changed by hand.
--
--   local graph = require "tycho.graph"
--   local g, inputs = graph.record(function(x, w) return (x:matmul(w) + 1):relu() end, x, w)
--   print(g)
--   g:rewrite("mul(?x, 2)", function(m) return g:insert(nil, "add", { m.x, m.x }) end)
--   local y = g:run(x, w)
--
-- A node is a table: op (a row of the table of operations), dtype, shape, inputs (nodes), name, and the arguments that
-- graph_ops.lua lists. Read what you like; write only `name`, arguments, entries of `inputs`, and call g:lint() then.
-- g[1] ... g[#g] are the nodes in an order in which operands come first; after changes by hand only g:nodes() and what
-- stands on it (text, run ...) see to that order. Operations are those of the core, so types are strict: operands of
-- `add` have one dtype, and a cast is a node. Nodes are not merged by Lua; equal ones become one in the text.
--
-- How graphs pass between the core and Lua ("exchange"), in both directions a table:
--   text      the graph as ty_graph_print writes it and ty_graph_parse reads it. It is lossless: every argument, the
--             bits of constants and of scalar slots
--   outputs   numbers of the nodes whose values are wanted, from 1, in order; one may occur twice
-- jit.graph's tables have no outputs: the nodes marked `live` are taken. Inputs are the nodes `input` in the order of
-- their numbers (k2 of the text); scalars are the slots `$0 ...`.
--
-- A callable of a backend takes the graph's inputs in that order as tensors, then one Lua number for each slot (of a
-- random stream two: its number and the seed), and returns one tensor for each output, of the output's dtype and sizes.
-- It owns neither: it must not write to inputs, and must not return a tensor that shares memory with another one.
-- Passes and backends are customize's work: graph_passes.lua.
--
-- Rules for changes of this file
--  1. Nothing that Lua made reaches the core but as text, which the core verifies.
--  2. Users are found by looking, never kept: entries of `inputs` may be written at any time.
--  3. What the core knows (rules of operations, arity, which commute) is asked, not repeated.

local ty = require "tycho"

local internals = ty.internals
local fail, nearest, check_text = internals.error, internals.nearest, internals.graph_check

local ops = require("tycho.graph_ops")(ty)
local source = require("tycho.graph_source")(ty, ops)
local patterns = require("tycho.graph_match")(ops, internals)

local M = {}

---@class tycho.GraphNode
---@field op string
---@field dtype string
---@field device? string nil: the CPU
---@field shape integer[]
---@field inputs tycho.GraphNode[]
---@field name string unique when the graph made it
---@field graph tycho.GraphObject|false false once it was erased

---@class tycho.GraphObject
local Graph = {}
Graph.__index = Graph

local Node = {}

local function is_node(v) return type(v) == "table" and getmetatable(v) == Node end

--- Whether a value is a graph.
--- Raises never.
---@param v any
---@return boolean
local function is_graph(v) return type(v) == "table" and getmetatable(v) == Graph end

M.is_graph, M.Graph = is_graph, Graph

local function errorf(fmt, ...) return fail(fmt:format(...)) end

-- What a value is, for error texts.
local function show(v)
  if is_node(v) then return "node " .. tostring(v.name) end
  if is_graph(v) then return "a graph" end
  if ty.is_tensor(v) then return "a tensor" end
  return v == nil and "nothing" or type(v) == "string" and ("%q"):format(v:sub(1, 40)) or "a " .. type(v)
end

local function check_self(who, g)
  if not is_graph(g) then errorf("%s: call it as graph:%s(...), got %s", who, who, show(g)) end
  return g
end

local function check_node(who, g, i, n)
  if not is_node(n) then errorf("%s: argument %d must be a node, got %s", who, i, show(n)) end
  if n.graph == false then errorf("%s: argument %d: node %s was erased", who, i, tostring(n.name)) end
  if n.graph ~= g then errorf("%s: argument %d: node %s belongs to another graph", who, i, tostring(n.name)) end
  return n
end

-- Nodes ------------------------------------------------------------------------------------------------------------

local function arguments_text(n)
  local parts = {}
  for _, kind in ipairs(ops.arguments(n.op)) do
    local v = n[kind.field]
    if type(v) == "table" then v = "[" .. ops.list_text(v) .. "]" end
    if kind.field == "value" and n.bits then v = n.bits end
    if type(v) == "number" then v = source.number_text(v) end
    parts[#parts + 1] = ("%s=%s"):format(kind.field, tostring(v))
  end
  return #parts > 0 and "{" .. table.concat(parts, ", ") .. "}" or ""
end

local function operands_text(n)
  local names = {}
  for i, a in ipairs(n.inputs) do names[i] = tostring(is_node(a) and a.name or a) end
  return table.concat(names, ", ")
end

function Node.__tostring(n)
  local ok, text = internals.protect(function()
    return ("%s = %s(%s)%s : %s"):format(n.name, n.op, operands_text(n), arguments_text(n),
      ops.type_text(n.dtype, n.shape, n.device))
  end)
  return ok and text or "node " .. tostring(n.name)
end

local leaf_names = { input = "x", scalar = "scalar", const = "const" }

--- Gives a node a name that no other has been given: x1, add_1, add_2 ...; a name that the user chose is numbered
--- from the second time on.
local function name_node(g, n)
  local base = n.name ~= nil and tostring(n.name) or leaf_names[n.op] or n.op
  local k = (g._names[base] or 0) + 1
  g._names[base] = k
  if n.name ~= nil then n.name = k == 1 and base or base .. "_" .. k
  else n.name = base .. (n.op == "input" and "" or "_") .. k end
end

local function new_graph()
  return setmetatable({ _outputs = {}, _slots = {}, _names = {} }, Graph)
end

-- Order ------------------------------------------------------------------------------------------------------------

local function position(g, n)
  for i = 1, #g do
    if g[i] == n then return i end
  end
end

-- What is wrong with the form of a node: where its operands lie.
local function misplaced(g, n)
  if not is_node(n) then return ("%s stands among the nodes"):format(show(n)) end
  if n.graph ~= g then return ("node %s is not of this graph"):format(tostring(n.name)) end
  if type(n.inputs) ~= "table" then return ("node %s: inputs must be a list of nodes"):format(tostring(n.name)) end
  for i, a in ipairs(n.inputs) do
    if not is_node(a) then
      return ("node %s: operand %d must be a node, got %s"):format(tostring(n.name), i, show(a))
    end
    if a.graph ~= g then
      return ("node %s reads %s, which %s"):format(tostring(n.name), tostring(a.name),
        a.graph == false and "was erased" or "belongs to another graph")
    end
  end
end

local function cycle_text(path, a)
  local names, inside = {}, false
  for _, frame in ipairs(path) do
    inside = inside or frame.node == a
    if inside then names[#names + 1] = tostring(frame.node.name) end
  end
  names[#names + 1] = tostring(a.name)
  return ("nodes read each other in a cycle: %s"):format(table.concat(names, " -> "))
end

-- The nodes with operands first, else in the order that they have; nil and what is wrong where there is none.
local function sorted(g)
  local list, state, path = {}, {}, {} -- state: 1 on the path, 2 listed
  for i = 1, #g do
    if not state[g[i]] then
      path[1], state[g[i]] = { node = g[i], at = 0 }, 1
    end
    while #path > 0 do
      local frame = path[#path]
      frame.at = frame.at + 1
      local a = frame.node.inputs[frame.at]
      if not a then
        list[#list + 1], state[frame.node] = frame.node, 2
        path[#path] = nil
      elseif state[a] == 1 then
        return nil, cycle_text(path, a)
      elseif not state[a] then
        path[#path + 1], state[a] = { node = a, at = 0 }, 1
      end
    end
  end
  return list
end

-- Puts the nodes in order. nil, or what stands against it.
local function arrange(g)
  local seen, ordered = {}, true
  for i = 1, #g do
    local n = g[i]
    local wrong = misplaced(g, n)
    if wrong then return wrong end
    for _, a in ipairs(n.inputs) do ordered = ordered and seen[a] end
    if seen[n] then return ("node %s stands twice among the nodes"):format(tostring(n.name)) end
    seen[n] = true
  end
  for i, n in ipairs(g._outputs) do
    if not seen[n] then return ("output %d, %s, is no node of this graph"):format(i, show(n)) end
  end
  if ordered then return nil end
  local list, wrong = sorted(g)
  if not list then return wrong end
  for i = 1, #list do g[i] = list[i] end
end

-- For methods that need the order.
local function in_order(who, g)
  check_self(who, g)
  local wrong = arrange(g)
  if wrong then errorf("%s: %s", who, wrong) end
  return g
end

--- The nodes in an order in which operands come first. The walk is over those that there were when it began, without
--- those that were erased meanwhile.
--- Raises in the walk where the graph has a cycle.
---@return fun(): tycho.GraphNode?
function Graph:nodes()
  in_order("nodes", self)
  local list, i = ops.copy(self), 0
  return function()
    repeat i = i + 1 until not list[i] or list[i].graph == self
    return list[i]
  end
end

local function by_number(a, b) return a.number < b.number end

--- The nodes `input` in the order in which tensors are given for them.
--- Raises never.
---@return tycho.GraphNode[]
function Graph:inputs()
  check_self("inputs", self)
  local list = {}
  for i = 1, #self do
    if self[i].op == "input" then list[#list + 1] = self[i] end
  end
  table.sort(list, by_number)
  return list
end

--- The nodes whose values are the graph's results, in order.
--- Raises never.
---@return tycho.GraphNode[]
function Graph:outputs() return ops.copy(check_self("outputs", self)._outputs) end

--- Says which nodes are the results.
--- Raises where a node is none of the graph.
---@param list tycho.GraphNode[]
function Graph:set_outputs(list)
  check_self("set_outputs", self)
  if type(list) ~= "table" or is_node(list) or is_graph(list) then
    errorf("set_outputs: argument 1 must be a list of nodes, got %s", show(list))
  end
  for i = 1, #list do check_node("set_outputs", self, i, list[i]) end
  self._outputs = ops.copy(list)
end

--- Numbers recorded for the scalar slots: defaults of what is given behind the inputs.
--- Raises never.
---@return number[]
function Graph:scalars()
  in_order("scalars", self)
  return source.slot_values(self, self._slots)
end

local function reads(user, n)
  for _, a in ipairs(user.inputs) do
    if a == n then return true end
  end
  return false
end

--- The nodes that read a node, each once; outputs of the graph are not among them.
--- Raises where a node is none of the graph.
---@param node tycho.GraphNode
---@return tycho.GraphNode[]
function Graph:users(node)
  check_node("users", check_self("users", self), 1, node)
  local list = {}
  for i = 1, #self do
    if reads(self[i], node) then list[#list + 1] = self[i] end
  end
  return list
end

local function is_output(g, node)
  for _, n in ipairs(g._outputs) do
    if n == node then return true end
  end
  return false
end

-- Changes ----------------------------------------------------------------------------------------------------------

local function bits_of(g, value, dtype) -- of a scalar slot; gives its number
  g._slots[#g._slots + 1] = internals.graph_element(dtype, value, true)
  return #g._slots
end

-- Fields that stand for others when a leaf is made: the value of a new slot.
local function fill_leaf(g, n, args)
  if n.op == "input" then
    local inputs = g:inputs()
    local last = inputs[#inputs]
    n.number = n.number or (last and last.number or 0) + 1
    n.buffer = n.buffer or n.number
    n.strides = n.strides or type(n.shape) == "table" and ops.row_major(n.shape) or {}
  elseif n.op == "const" then
    ops.round_constant(n)
  elseif n.op == "scalar" and n.slot == nil then
    if type(args.value) ~= "number" then errorf("insert: scalar needs a value, got %s", show(args.value)) end
    n.slot = bits_of(g, args.value, n.dtype)
  elseif n.op == "random" and n.slot == nil then
    if not (ops.is_whole(args.stream) and ops.is_whole(args.seed)) then
      errorf("insert: random needs whole numbers stream and seed, got %s and %s", show(args.stream), show(args.seed))
    end
    n.slot = bits_of(g, args.stream, "i64")
    bits_of(g, args.seed, "i64")
    n.word = n.word or 0
  end
end

local making = { scalar = { value = true }, random = { stream = true, seed = true } }

local function set_fields(n, args)
  local known = { dtype = true, shape = true, name = true, device = true }
  for _, kind in ipairs(ops.arguments(n.op)) do known[kind.field] = true end
  for field in pairs(making[n.op] or {}) do known[field] = true end
  for field, v in pairs(args) do
    if not known[field] then
      local near = type(field) == "string" and nearest(field, known)
      errorf("insert: %s has no argument %s%s", n.op, tostring(field), near and ", did you mean " .. near .. "?" or "")
    end
    if not (making[n.op] and making[n.op][field]) then
      n[field] = type(v) == "table" and not is_node(v) and ops.copy(v) or v
    end
  end
  if n.dtype ~= nil and not ops.dtype[n.dtype] then
    local near = type(n.dtype) == "string" and nearest(n.dtype, ops.dtype)
    errorf("insert: there is no dtype %s%s", show(n.dtype), near and ", did you mean " .. near .. "?" or "")
  end
end

-- Where a new node goes: the place in the list.
local function place_of(g, where)
  if where == nil then return #g + 1 end
  if is_node(where) then return position(g, check_node("insert", g, 1, where)) + 1 end
  if type(where) == "table" and not is_graph(where) then
    if where.before ~= nil then return position(g, check_node("insert", g, 1, where.before)) end
    if where.after ~= nil then return position(g, check_node("insert", g, 1, where.after)) + 1 end
  end
  errorf("insert: argument 1 must be a node, {before = node}, {after = node} or nil, got %s", show(where))
end

-- Where a node lies that is not told: with its operands, a leaf with the graph's inputs. nil: on the CPU.
local function device_of(g, inputs)
  local from = inputs and inputs[1] or g:inputs()[1]
  return from and from.device
end

local function constant(g, value, dtype, at)
  local n = setmetatable({ op = "const", inputs = {}, dtype = dtype, shape = {}, value = value, graph = g,
    device = device_of(g) }, Node)
  if not ops.floats[dtype] then
    local back = internals.graph_value(dtype, internals.graph_element(dtype, value))
    if back ~= value then errorf("insert: %s does not fit %s", source.number_text(value), dtype) end
  end
  ops.round_constant(n)
  name_node(g, n)
  table.insert(g, at, n)
  return n
end

-- Operands that are numbers become constants of the dtype of the others.
local function operands_of(g, op, inputs, at)
  local row, list, dtype = ops.row[op], {}, nil
  if type(inputs) ~= "table" or is_node(inputs) or is_graph(inputs) then
    errorf("insert: argument 3 must be a list of nodes, got %s", show(inputs))
  end
  if #inputs ~= row.arity then
    errorf("insert: %s has %d operand%s, got %d", op, row.arity, row.arity == 1 and "" or "s", #inputs)
  end
  for i = #inputs, 1, -1 do
    if type(inputs[i]) ~= "number" then
      local a = inputs[i]
      if not is_node(a) then errorf("insert: operand %d must be a node or a number, got %s", i, show(a)) end
      if a.graph == false then errorf("insert: operand %d: node %s was erased", i, a.name) end
      if a.graph ~= g then errorf("insert: operand %d: node %s belongs to another graph", i, a.name) end
      if not (op == "where" and i == 1 and dtype) then dtype = a.dtype end
    end
  end
  for i = 1, #inputs do
    list[i] = inputs[i]
    if type(inputs[i]) == "number" then
      if not dtype then errorf("insert: at least one operand of %s must be a node", op) end
      list[i] = constant(g, inputs[i], dtype, at)
      at = at + 1
    end
  end
  return list, at
end

-- Whether a node reads slots that the graph has not; the core's texts may leave slots out.
local function slot_missing(g, n)
  if n.op ~= "scalar" and n.op ~= "random" or not ops.is_whole(n.slot) then return nil end
  local last = n.slot + (n.op == "random" and 1 or 0)
  if n.slot < 1 or last > #g._slots then
    return ("there is no slot %.0f, the graph has %d"):format(last, #g._slots)
  end
end

local function types_of(inputs)
  local out = {}
  for i, a in ipairs(inputs) do out[i] = ops.type_text(a.dtype, a.shape, a.device) end
  return table.concat(out, ", ")
end

--- A new node: its type follows from operands and arguments.
--- where: nil for the end, a node for right behind it, {before = node}, {after = node}; operands come first always.
--- op: a row of the table of operations. inputs: nodes; a number stands for a constant of the others' dtype.
--- args: the operation's arguments by name; `dtype` of casts and leaves, `shape` of views and leaves; `name`.
--- Raises where the operation is not known, or operands or arguments do not fit it.
---@param where? tycho.GraphNode|{before?: tycho.GraphNode, after?: tycho.GraphNode}
---@param op string
---@param inputs (tycho.GraphNode|number)[]
---@param args? table
---@return tycho.GraphNode
function Graph:insert(where, op, inputs, args)
  check_self("insert", self)
  if not ops.row[op] then
    local near = type(op) == "string" and nearest(op, ops.row)
    errorf("insert: there is no operation %s%s", show(op), near and (", did you mean %q?"):format(near) or "")
  end
  if args ~= nil and type(args) ~= "table" then errorf("insert: argument 4 must be a table, got %s", show(args)) end
  local slots = #self._slots
  local n = setmetatable({ op = op, graph = self }, Node)
  local at, before = place_of(self, where), #self
  set_fields(n, args or {})
  n.inputs, at = operands_of(self, op, inputs or {}, at)
  if ops.row[op].class == "leaf" and n.dtype == nil and op ~= "iota" and op ~= "random" then
    errorf("insert: %s needs a dtype", op)
  end
  n.device = n.device or device_of(self, n.inputs)
  if n.device == "cpu" then n.device = nil end
  fill_leaf(self, n, args or {})
  ops.infer(n)
  local wrong = ops.wrong(n) or slot_missing(self, n)
  if wrong then
    for _ = before + 1, #self do table.remove(self, at - 1).graph, at = false, at - 1 end -- constants made for it
    for k = #self._slots, slots + 1, -1 do self._slots[k] = nil end
    errorf("insert: %s(%s)%s: %s", op, types_of(n.inputs), arguments_text(n), wrong)
  end
  name_node(self, n)
  table.insert(self, at, n)
  return n
end

-- The nodes that a node is made of, itself included.
local function makers(n)
  local set, stack = { [n] = true }, { n }
  while #stack > 0 do
    local top = table.remove(stack)
    for _, a in ipairs(top.inputs) do
      if not set[a] then
        set[a] = true
        stack[#stack + 1] = a
      end
    end
  end
  return set
end

-- What replace does, but for the order of nodes.
local function rewire(g, node, with)
  local is = ops.type_text(with.dtype, with.shape, with.device)
  local was = ops.type_text(node.dtype, node.shape, node.device)
  if is ~= was then errorf("replace: %s is %s, but %s is %s", node.name, was, with.name, is) end
  if node == with then return end
  local keep = makers(with)
  for i = 1, #g do
    local user = g[i]
    for k, a in ipairs(user.inputs) do
      if a == node and not keep[user] then user.inputs[k] = with end
    end
  end
  for i, n in ipairs(g._outputs) do
    if n == node then g._outputs[i] = with end
  end
end

--- Lets all who read `node`, and the graph's outputs, read `with` in its place. Where `with` is itself made of `node`,
--- what lies between the two keeps reading it. `node` stays, without users, until it is erased.
--- Raises where a node is none of the graph.
---@param node tycho.GraphNode
---@param with tycho.GraphNode of the same dtype and shape
---@return tycho.GraphNode with
function Graph:replace(node, with)
  check_node("replace", check_self("replace", self), 1, node)
  check_node("replace", self, 2, with)
  rewire(self, node, with)
  arrange(self)
  return with
end

local function remove(g, node)
  table.remove(g, position(g, node))
  node.graph = false
end

--- Takes a node out. Raises while it has users or is an output.
---@param node tycho.GraphNode
function Graph:erase(node)
  check_node("erase", check_self("erase", self), 1, node)
  local users = self:users(node)
  if #users > 0 then
    errorf("erase: %s is read by %s%s", node.name, users[1].name, #users > 1 and " and others" or "")
  end
  if is_output(self, node) then errorf("erase: %s is an output of the graph", node.name) end
  remove(self, node)
end

--- Erases what no output is made of, but the inputs: their number stays. Returns how many nodes went.
--- Raises where the graph breaks a rule: see lint.
---@return integer
function Graph:dce()
  in_order("dce", self)
  local needed, kept, n = {}, 0, #self
  for _, y in ipairs(self._outputs) do
    for a in pairs(makers(y)) do needed[a] = true end
  end
  for i = 1, n do
    local node = self[i]
    if needed[node] or node.op == "input" then
      kept = kept + 1
      self[kept] = node
    else
      node.graph = false
    end
  end
  for i = n, kept + 1, -1 do self[i] = nil end
  return n - kept
end

-- Erases a node that nobody needs any more, and so on downwards.
local function prune(g, node)
  if node.graph ~= g or node.op == "input" or is_output(g, node) then return end
  for i = 1, #g do
    if reads(g[i], node) then return end
  end
  remove(g, node)
  for _, a in ipairs(node.inputs) do prune(g, a) end
end

-- Patterns ----------------------------------------------------------------------------------------------------------

--- Where a pattern holds: with a node the table of the pattern's names, and `root`, or nil; without one a list of such
--- tables, in the order of nodes. What patterns look like: graph_match.lua; for instance "add(mul(?x, ?y), ?z)".
--- Raises where the pattern is malformed.
---@param pattern string|table|function
---@param node? tycho.GraphNode
---@return table?
function Graph:match(pattern, node)
  check_self("match", self)
  local p = patterns.compile("match", pattern)
  if node ~= nil then return patterns.match(p, check_node("match", self, 2, node)) end
  local list = {}
  for n in self:nodes() do list[#list + 1] = patterns.match(p, n) end
  return list
end

local REWRITES = 4096 -- at one call, as many as a graph of the core has nodes: a rule beyond that feeds itself

--- Replaces the root of each match by the node that fn(match, graph) returns, until nothing new matches; what no longer
--- has readers is erased. fn may return nil to leave a match as it is. A node is asked about once for each time that it
--- matches as it stands, so a rule may keep its root: wrap it, for instance. Returns how many were replaced.
--- Raises where the pattern is malformed, or fn gives something else than a node.
---@param pattern string|table|function
---@param fn fun(match: table, graph: tycho.GraphObject): tycho.GraphNode?
---@return integer
function Graph:rewrite(pattern, fn)
  check_self("rewrite", self)
  local p = patterns.compile("rewrite", pattern)
  if type(fn) ~= "function" then errorf("rewrite: argument 2 must be a function, got %s", show(fn)) end
  local count, done, changed = 0, {}, true
  while changed do
    changed = false
    for n in self:nodes() do
      local found = not done[n] and patterns.match(p, n)
      if found then
        done[n] = true
        local with = fn(found, self)
        if with ~= nil then
          if not is_node(with) or with.graph ~= self then
            errorf("rewrite: the function must return a node of this graph or nil, got %s", show(with))
          end
          if n.graph ~= self then errorf("rewrite: the function erased %s, which matched", n.name) end
          rewire(self, n, with)
          if with ~= n then prune(self, n) end
          count, changed = count + 1, true
        end
      end
      if count > REWRITES then errorf("rewrite: no end after %d replacements", count - 1) end
    end
  end
  return count
end

-- Text -------------------------------------------------------------------------------------------------------------

-- The text and the number of each node in it, from 0. nil and what is wrong with the first node that cannot be said.
local function render(g)
  local lines, number_of, same, count = {}, {}, {}, 0
  for k, bits in ipairs(g._slots) do lines[k] = ("$%d = %s"):format(k - 1, bits) end
  for i = 1, #g do
    local n = g[i]
    local text, reason = ops.line(n, number_of)
    if not text then return nil, ("node %s: %s"):format(tostring(n.name), reason) end
    local apart = n.op == "empty" or ops.row[n.op].random
    if not apart and same[text] then
      number_of[n] = same[text]
    else
      number_of[n], same[text] = count, count
      lines[#lines + 1] = ("%%%d = %s"):format(count, text)
      count = count + 1
    end
  end
  return table.concat(lines, "\n") .. "\n", number_of
end

-- The text of a graph that is to be right; raises where it is not.
local function said(who, g)
  in_order(who, g)
  local text, number_of = render(g)
  if not text then errorf("%s: %s", who, number_of) end
  return text, number_of
end

--- The graph as text, which graph.parse and the core read back. Equal nodes are one there. A remark names the outputs.
--- Raises where the graph breaks a rule: see lint.
---@return string
function Graph:text()
  local text, number_of = said("text", self)
  local list = {}
  for i, n in ipairs(self._outputs) do list[i] = "%" .. number_of[n] end
  return text .. "# outputs: " .. table.concat(list, " ") .. "\n"
end

--- nil when the graph keeps all rules, else what is wrong, with the node's name.
--- Raises never.
---@return string?
function Graph:lint()
  check_self("lint", self)
  local wrong = arrange(self)
  if wrong then return wrong end
  local text, reason = render(self)
  if not text then return reason end
  for i = 1, #self do
    wrong = slot_missing(self, self[i])
    if wrong then return ("node %s: %s"):format(self[i].name, wrong) end
  end
  local ok
  ok, reason = check_text(text)
  if ok then return nil end
  for i = 1, #self do
    local n = self[i]
    wrong = ops.wrong(n)
    if wrong then return ("node %s: %s"):format(n.name, wrong) end
  end
  return reason
end

local function add_node(g, fields, operands, nodes)
  local n = setmetatable(fields, Node)
  n.graph, n.inputs = g, {}
  for i, k in ipairs(operands) do n.inputs[i] = nodes[k] end
  name_node(g, n)
  g[#g + 1] = n
  return n
end

-- A graph from a text that the core wrote.
local function read(text)
  local g, nodes = new_graph(), {}
  for line in text:gmatch("[^\n]+") do
    local number, rest = line:match("^%%(%d+) = (.*)$")
    if number then
      local fields, operands = ops.read(rest)
      nodes[tonumber(number)] = add_node(g, fields, operands, nodes)
    else
      g._slots[#g._slots + 1] = line:match("^%$%d+ = (0x%x+)$")
    end
  end
  return g, nodes
end

-- Nodes that nobody reads.
local function ends(g)
  local is_read, list = {}, {}
  for i = 1, #g do
    for _, a in ipairs(g[i].inputs) do is_read[a] = true end
  end
  for i = 1, #g do
    if not is_read[g[i]] then list[#list + 1] = g[i] end
  end
  return list
end

local function parse(who, text, outputs)
  local canonical, wrong = check_text(text)
  if not canonical then errorf("%s: the text is no graph: %s", who, wrong) end
  local g, nodes = read(canonical)
  local remark = text:match("#%s*outputs:([^\n]*)")
  if outputs then
    for i = 1, #outputs do
      local n = ops.is_whole(outputs[i]) and nodes[outputs[i] - 1]
      if not n then errorf("%s: output %d: there is no node %s", who, i, tostring(outputs[i])) end
      g._outputs[i] = n
    end
  elseif remark then
    for number in remark:gmatch("%%(%d+)") do
      local n = nodes[tonumber(number)]
      if not n then errorf("%s: output %%%s is no node", who, number) end
      g._outputs[#g._outputs + 1] = n
    end
  else
    g._outputs = ends(g)
  end
  return g
end

--- The graph of a text. Its outputs are those that a remark `# outputs: %3 %5` names, else the nodes that nobody reads.
--- Raises where the text is none of a graph; it names the line.
---@param text string
---@return tycho.GraphObject
function M.parse(text)
  if type(text) ~= "string" then errorf("parse: argument 1 must be a text, got %s", show(text)) end
  return parse("parse", text)
end

--- The graph of an exchange table (see above), or of what jit.graph gives. A graph is given back as it is.
--- Raises where it is no graph.
---@param t table
---@return tycho.GraphObject
function M.from(t)
  if is_graph(t) then return t end
  if type(t) == "table" and t.text == nil and type(t[1]) == "table" and t[1].text then
    errorf("from: %d graphs, since the function was cut between them; give one of them", #t)
  end
  if type(t) ~= "table" or type(t.text) ~= "string" then
    errorf("from: argument 1 must be what jit.graph gives, got %s", show(t))
  end
  local outputs = t.outputs
  if outputs == nil and t[1] then
    outputs = {}
    for i = 1, #t do
      if t[i].live then outputs[#outputs + 1] = i end
    end
  end
  return parse("from", t.text, outputs)
end

--- Runs f(...) once and gives the graph of what it computed, the tensors that were its inputs, and the results of f.
--- All results must be tensors of reals: they are the outputs. What f writes to is written, but is no part of the
--- graph. nil and the reason where f wanted a value on the way, or recorded more than one graph takes.
--- Raises where f is no function, and what f raises.
---@param f function
---@return tycho.GraphObject?, tycho.Tensor[]|string, tycho.Tensor[]? # what the graph takes and gives
---@param ... any what f is given
function M.record(f, ...)
  if type(f) == "table" and type(f.forward) == "function" then return M.record(f.forward, f, ...) end
  if type(f) ~= "function" then errorf("record: argument 1 must be a function, got %s", show(f)) end
  local results
  local function pass_on(...)
    results = { ... }
    for i = 1, select("#", ...) do
      if ty.is_complex(results[i]) then
        errorf("record: a graph holds reals, result %d is %s (give ty.view_as_real of it)", i, results[i].dtype)
      end
    end
    return ...
  end
  local text, outputs, inputs = internals.graph_record(function(...) return pass_on(f(...)) end, ...)
  if not text then return nil, "record: a value was wanted on the way, or the graph became too long" end
  return parse("record", text, outputs), inputs, results
end

--- The exchange table of a graph: what the core takes back.
--- Raises where the graph breaks a rule: see lint.
---@return {text: string, outputs: integer[]}
function Graph:export()
  local text, number_of = said("export", self)
  local list = {}
  for i, n in ipairs(self._outputs) do list[i] = number_of[n] + 1 end
  return { text = text, outputs = list }
end

--- A graph of its own with the same nodes, and a table from the old nodes to the new ones.
--- Raises where the graph breaks a rule: see lint.
---@return tycho.GraphObject, table<tycho.GraphNode, tycho.GraphNode>
function Graph:clone()
  in_order("clone", self)
  local g, new = new_graph(), {}
  for i = 1, #self do
    local n = {}
    for field, v in pairs(self[i]) do
      n[field] = type(v) == "table" and not is_graph(v) and ops.copy(v) or v
    end
    for k, a in ipairs(n.inputs) do n.inputs[k] = new[a] end
    n.graph, new[self[i]] = g, n
    g[i] = setmetatable(n, Node)
  end
  for i, n in ipairs(self._outputs) do g._outputs[i] = new[n] end
  for base, k in pairs(self._names) do g._names[base] = k end
  g._slots = ops.copy(self._slots)
  return g, new
end

-- The table of columns.
local function row_of(g, n, counts)
  local marks = {}
  for i, y in ipairs(g._outputs) do
    if y == n then marks[#marks + 1] = "output " .. i end
  end
  local args = arguments_text(n)
  return { n.name, n.op .. (args ~= "" and " " .. args or ""), operands_text(n),
    ops.type_text(n.dtype, n.shape, n.device), table.concat({ tostring(counts[n] or 0), unpack(marks) }, ", ") }
end

--- A table: name, operation with its arguments, operands, type, number of users and whether it is an output.
function Graph:__tostring()
  local wrong = arrange(self)
  if wrong then return "graph: " .. wrong end
  local counts, rows = {}, { { "node", "operation", "operands", "type", "users" } }
  for i = 1, #self do
    local once = {}
    for _, a in ipairs(self[i].inputs) do
      if not once[a] then counts[a] = (counts[a] or 0) + 1 end
      once[a] = true
    end
  end
  for i = 1, #self do
    local ok, row = internals.protect(row_of, self, self[i], counts)
    rows[i + 1] = ok and row or { tostring(self[i].name), "?", "?", "?", "?" }
  end
  local width, lines = { 0, 0, 0, 0 }, {}
  for _, row in ipairs(rows) do
    for c = 1, 4 do width[c] = math.max(width[c], #row[c]) end
  end
  for i, row in ipairs(rows) do
    local cells = {}
    for c = 1, 4 do cells[c] = row[c] .. (" "):rep(width[c] - #row[c]) end
    lines[i] = table.concat(cells, "  ") .. "  " .. row[5]
  end
  return table.concat(lines, "\n")
end

-- Running ----------------------------------------------------------------------------------------------------------

-- For what computes: the order is right and every node keeps the rules.
local function sound(who, g)
  check_self(who, g)
  local wrong = g:lint()
  if wrong then errorf("%s: %s", who, wrong) end
  return g
end

--- Lua source of the graph: `local ty = require "tycho"` ... `return function(x1, x2, s1) ... end`, which takes tensors
--- for the inputs, then numbers for the scalar slots (nil: what was recorded), and returns the outputs. Only public
--- functions are called, and the bits are those of the graph.
--- Raises where the graph breaks a rule: see lint.
---@return string
function Graph:source()
  sound("source", self)
  return source.source(self, self:inputs(), self._outputs, self:scalars())
end

--- Computes the outputs for the given inputs, node by node, by public functions. Takes what the source's function does.
--- Raises where inputs do not have the types of the graph.
---@param ... tycho.Tensor|number one tensor for each input, then a number for each scalar slot
---@return tycho.Tensor # the outputs
function Graph:run(...)
  sound("run", self)
  local inputs, slots, values = self:inputs(), self:scalars(), {}
  local given, n = { ... }, select("#", ...)
  if n < #inputs or n > #inputs + #slots then
    errorf("run: the graph takes %d tensors and %d numbers, got %d arguments", #inputs, #slots, n)
  end
  for i, node in ipairs(inputs) do
    source.check_input("run", i, node, given[i])
    values[node] = given[i]
  end
  for k = 1, #slots do
    local v = given[#inputs + k]
    if v ~= nil and type(v) ~= "number" then
      errorf("run: argument %d must be a number, got %s", #inputs + k, show(v))
    end
    slots[k] = v or slots[k]
  end
  local results = source.run(self, self._outputs, values, slots)
  return unpack(results, 1, #self._outputs)
end

-- Passes and backends of compiled functions.
for name, fn in pairs(require("tycho.graph_passes")(M, ops, internals, show)) do M[name] = fn end

return M
