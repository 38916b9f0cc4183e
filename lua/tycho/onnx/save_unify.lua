--- save_unify.lua -- one model of several recordings of a function at different sizes.
-- In: builders of the same function (save_model.lua), for each the sizes by name, where these sizes stand. Out: the
-- first builder, in which numbers that follow sizes are computed by nodes. Raises where the recordings differ in all
-- else.

local ty = require "tycho"

local format, concat = string.format, table.concat
local ipairs, pairs, type = ipairs, pairs, type

local M = {}

local function refuse(text)
  return ty.internals.error("save: the graph is another one at other sizes: " .. text)
end

--- How a number follows sizes: {factor, sizes = {names}, plus}; nil where it does not by a product and a sum.
local function fit(values, points, names)
  local first, same = values[1], true
  for _, v in ipairs(values) do same = same and (v == first or v ~= v and first ~= first) end
  if same then return { sizes = {}, factor = 0, plus = first } end
  for set = 1, 2 ^ #names - 1 do
    local chosen = {}
    for i, name in ipairs(names) do
      if math.floor(set / 2 ^ (i - 1)) % 2 == 1 then chosen[#chosen + 1] = name end
    end
    local products, other = {}, nil
    for k, point in ipairs(points) do
      products[k] = 1
      for _, name in ipairs(chosen) do products[k] = products[k] * point[name] end
      if products[k] ~= products[1] then other = k end
    end
    local factor = other and (values[other] - values[1]) / (products[other] - products[1]) or 0
    local plus, fits = values[1] - factor * products[1], other ~= nil and factor % 1 == 0
    for k, v in ipairs(values) do fits = fits and v == factor * products[k] + plus end
    if fits then return { sizes = chosen, factor = factor, plus = plus } end
  end
end

M.fit = fit

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" or ty.is_tensor(a) then return a == b end
  for k, v in pairs(a) do
    if not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

--- Raises where two recordings have not the same nodes.
local function check_nodes(a, b)
  for i = 1, math.max(#a.nodes, #b.nodes) do
    local x, y = a.nodes[i], b.nodes[i]
    if not x or not y or x.op ~= y.op or not same(x.inputs, y.inputs) then
      refuse(format("node %d is %s, and %s", i, x and x.op or "none", y and y.op or "none"))
    end
    if not same(x.attributes, y.attributes) then
      refuse(format("an attribute of %s, %s, follows a size", x.op, x.outputs[1]))
    end
  end
  if #a.initializers ~= #b.initializers then refuse "it has other constants" end
end

--- The names of values {size} by name, each a Shape of the argument that has it.
local function size_nodes(B, names, places)
  local y = {}
  for _, name in ipairs(names) do
    local at = places[name]
    y[name] = B:node("Shape", { at.argument }, { start = at.dim - 1, ["end"] = at.dim })
  end
  return y
end

--- The value, of one dim of one place, of a number that follows sizes.
local function number_node(B, expression, sizes)
  if #expression.sizes == 0 then return B:ints { expression.plus } end
  local y
  for _, name in ipairs(expression.sizes) do y = y and B:node("Mul", { y, sizes[name] }) or sizes[name] end
  if expression.factor ~= 1 then y = B:node("Mul", { y, B:ints { expression.factor } }) end
  if expression.plus ~= 0 then y = B:node("Add", { y, B:ints { expression.plus } }) end
  return y
end

local function expressions_of(lists, points, names, what)
  local y, follows = {}, false
  for k = 1, #lists[1] do
    local values = {}
    for i, list in ipairs(lists) do values[i] = list[k] end
    y[k] = fit(values, points, names)
    if not y[k] then
      refuse(format("a number of %s is %s at sizes of %s", what, concat(values, ", "), concat(names, ", ")))
    end
    follows = follows or #y[k].sizes > 0
  end
  return y, follows
end

--- Replaces an initializer by nodes where it follows sizes.
local function computed(B, all, points, names, sizes)
  local v, lists = all[1], {}
  for i, other in ipairs(all) do
    if other.kind ~= v.kind or other.name ~= v.name then refuse "it has other constants" end
    if v.kind == "tensor" then
      if v.t ~= other.t and not (v.t.dtype == other.t.dtype and same(v.t.shape, other.t.shape)
        and v.t:equal(other.t)) then
        refuse(format("the tensor %s, %s[%s], follows a size", v.name, v.t.dtype, concat(v.t.shape, ",")))
      end
    elseif v.kind == "ints" and #v.list ~= #other.list then refuse "it has lists of other lengths" end
    lists[i] = v.kind == "ints" and other.list or { other.value }
  end
  if v.kind == "tensor" then return nil end
  local list, follows = expressions_of(lists, points, names, v.name)
  if not follows then return nil end
  local parts = {}
  for k, e in ipairs(list) do parts[k] = number_node(B, e, sizes) end
  local y = #parts == 1 and parts[1] or B:node("Concat", parts, { axis = 0 })
  if v.kind == "number" then
    y = B:node("Reshape", { y, B:ints {} })
    if v.dtype ~= "i64" then y = B:node("Cast", { y }, { to = B.type_number(v.dtype) }) end
  end
  return y
end

--- One builder of several. points: by recording {size name = number}; places: by size name {argument =, dim =}.
function M.merge(builders, points, names, places)
  local B = builders[1]
  for i = 2, #builders do check_nodes(B, builders[i]) end
  local body, constants = B.nodes, B.initializers
  B.nodes = {}
  local sizes, kept, count = size_nodes(B, names, places), {}, #constants
  for k = 1, count do
    local all = {}
    for i, other in ipairs(builders) do all[i] = other.initializers[k] end
    local y = computed(B, all, points, names, sizes)
    if y then B.renamed[constants[k].name] = y else kept[#kept + 1] = constants[k] end
  end
  for k = count + 1, #constants do kept[#kept + 1] = constants[k] end
  B.initializers = kept
  for _, node in ipairs(body) do B.nodes[#B.nodes + 1] = node end
  for k, out in ipairs(B.outputs) do
    local lists = {}
    for i, other in ipairs(builders) do lists[i] = other.outputs[k].shape end
    out.shape = expressions_of(lists, points, names, "a result's shape")
  end
  return B
end

return M
