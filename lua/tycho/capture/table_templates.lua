--- capture/table_templates.lua -- the layout of a table that is there: how to make one that is laid out alike.
-- In: a constructor's template, with what its function's bytecode tells; a table that a native function made.
-- Out: {n_array, n_hash, keys, exact}: sizes as lua_createtable takes them, and keys in an order such that a table of
-- these sizes into which they are written has the layout. Raises nothing except when out of memory.
--
-- Rules.
-- 1. LuaJIT's structures are never looked into: next(t, k) raises if, and only if, t has no slot for k, whether or
--    not a value stands there.
-- 2. In a hash part of known size keys lie where their hash says, or else in the highest nodes that were free. So which
--    nodes are occupied does not depend on the order of insertion, and whatever order leads to the same walk of `next`
--    leads to the same layout.
-- 3. Nothing tells the size of a hash part. That of a template follows from what the parser did (constructors.lua);
--    where this is open and the size depends on it, the layout is not `exact`. Other tables are taken for the smallest.

local constructors = require "tycho.capture.constructors"

local type, next, ipairs, error, setmetatable = type, next, ipairs, error, setmetatable
local rawget, rawset, rawequal, max = rawget, rawset, rawequal, math.max

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local undisturbed = require("tycho").internals.undisturbed -- what a hook raises says nothing of slots

local M = {}

--- Whether a table has a slot for a key.
---@param t table
---@param k any neither nil nor NaN
---@return boolean
function M.has_slot(t, k) return (undisturbed(next, t, k)) end

local has_slot = M.has_slot

-- The order of keys ---------------------------------------------------------------------------------------------------

--- Slots of the array part, for 0, 1, 2 ... A node for the position behind the last is taken for one more.
local function array_slots(t)
  local n = 0
  while has_slot(t, n) do n = n + 1 end
  return n
end

local function copy_keys(t, list)
  for k in next, t do list[#list + 1] = k end
end

--- Copies the keys while the empty ones hold something: nobody else looks meanwhile, and nothing moves.
local function copy_filled(t, empty, list)
  for _, k in ipairs(empty) do rawset(t, k, true) end
  local ok, why = undisturbed(copy_keys, t, list)
  for _, k in ipairs(empty) do rawset(t, k, nil) end
  if not ok then error(why, 0) end
end

--- The keys in the order in which next would walk them if all slots were filled. stores: what of it may be empty, among
--- other things.
local function walk(t, stores)
  local empty, list = {}, {}
  for _, k in ipairs(stores) do
    if type(k) == "string" and rawget(t, k) == nil and has_slot(t, k) then empty[#empty + 1] = k end
  end
  local ok, why = undisturbed(copy_filled, t, empty, list)
  if not ok then error(why, 0) end
  return list
end

local Walk = {} -- what is looked for: keys as they lie in the hash part of a table of sizes n_array and nodes
Walk.__index = Walk

--- The keys as next walks them where they were inserted in the order of a list.
function Walk:of(list)
  local t, found = self.new(self.n_array, self.nodes), {}
  for _, k in ipairs(list) do rawset(t, k, true) end
  copy_keys(t, found)
  return found
end

function Walk:fits(list)
  local found = self:of(list)
  for i, k in ipairs(self.keys) do
    if not rawequal(found[i], k) then return false end
  end
  return true
end

--- Whether a key lies in the node where it belongs, as the i-th one: there it lies if it is inserted before all others.
function Walk:is_home(key, i)
  local list = { key }
  for _, k in ipairs(self.keys) do
    if not rawequal(k, key) then list[#list + 1] = k end
  end
  return rawequal(self:of(list)[i], key)
end

local MOST = 300 -- keys whose order is looked for

--- An order of insertion with which the keys are walked as they are; nil if there is none. First come those that lie in
--- the nodes where they belong, then the others from the last node down, which is how free nodes are given away.
function Walk:insertion()
  local keys, down = self.keys, {}
  for i = #keys, 1, -1 do down[#down + 1] = keys[i] end
  if self:fits(down) then return down end
  if self:fits(keys) then return keys end
  if #keys > MOST then return nil end
  local list, others = {}, {}
  for i = #keys, 1, -1 do
    local to = self:is_home(keys[i], i) and list or others
    to[#to + 1] = keys[i]
  end
  for _, k in ipairs(others) do list[#list + 1] = k end
  return self:fits(list) and list or nil
end

--- Splits the keys of a walk into those in so many slots of an array part and those in a hash part.
local function split(keys, slots)
  local array, hash = {}, {}
  for i, k in ipairs(keys) do
    local is_position = #array == i - 1 and type(k) == "number" and k >= 0 and k < slots and k % 1 == 0
    local list = is_position and array or hash
    list[#list + 1] = k
  end
  return array, hash
end

--- The layout of a table whose slots next walks in the order of keys. sizes(slots, array, hash): a set of the numbers
--- of nodes that the hash part may have. Nil where no order of insertion gives the order of keys with any of these.
local function find_layout(new, t, keys, sizes)
  local slots = array_slots(t)
  while true do
    local array, hash = split(keys, slots)
    local n_array = slots > 0 and max(slots - 1, 1) or 0 -- one slot alone cannot be asked for
    local found
    for nodes in next, sizes(slots, array, hash) do
      local list = setmetatable({ new = new, n_array = n_array, keys = hash, nodes = nodes }, Walk):insertion()
      if list then
        local exact = found == nil and slots ~= 1
        if not found or nodes < found.n_hash then found = { n_array = n_array, n_hash = nodes, keys = list } end
        found.exact = exact
      end
    end
    if found then
      for _, k in ipairs(found.keys) do array[#array + 1] = k end
      found.keys = array
      return found
    end
    slots = slots - 1
    if rawget(t, slots) == nil then return nil end -- else it may be a key of the hash part
  end
end

-- Templates and other tables ------------------------------------------------------------------------------------------

--- Whether an object is the template that stands in a dump. Fields that are stored later may hold the template itself.
local function is_template(object, template)
  if type(object) ~= "table" then return false end
  for i = 1, template.n_array do
    if not rawequal(rawget(object, i - 1), template.array[i]) then return false end
  end
  for i = 1, template.n_hash do
    local v, want = rawget(object, template.keys[i]), template.values[i]
    if not rawequal(v, want) and not (want == nil and rawequal(v, object)) then return false end
  end
  return true
end

--- The smallest hash part for its keys that gives their order, which is a guess.
local function smallest(_, _, hash)
  local least = constructors.nodes_for(#hash)
  return { [least] = true, [2 * least] = true, [4 * least] = true }
end

local layouts = setmetatable({}, { __mode = "k" }) -- by template: its layout, false where none was found

--- The layout of a template. new: makes tables as lua_createtable does; object: the template itself, if it is at hand.
---@param template table as bytecode.lua decodes it and evaluate.lua completes it
---@return table|false|nil
function M.layout(new, template, object)
  if not is_template(object, template) then return nil end
  local layout = layouts[object]
  if layout == nil then
    local keys = walk(object, template.stores)
    layout = find_layout(new, object, keys, function(...) return constructors.sizes(template, object, ...) end)
    if not layout then
      layout = find_layout(new, object, keys, smallest) or false
      if layout then layout.exact = false end
    end
    layouts[object] = layout
  end
  return layout
end

--- Gives a template that was loaded from a dump the slots that the dump has lost: positions behind the last one with a
--- value, names whose values come later.
local function add_slots(stores, object, copy)
  local added = {}
  local function add(k)
    rawset(copy, k, true)
    added[#added + 1] = k
  end
  for k = array_slots(copy), array_slots(object) - 1 do
    if rawget(copy, k) == nil then add(k) end
  end
  for _, k in ipairs(stores) do
    if type(k) == "string" and rawget(copy, k) == nil and has_slot(object, k) then add(k) end
  end
  for _, k in ipairs(added) do rawset(copy, k, nil) end
end

--- Lays a template that was loaded from a dump out as the one that was dumped. Whether it is laid out so then.
---@param template table as M.layout wants it
---@param object table the template that was dumped
---@param copy table the one that was loaded
---@return boolean
function M.lay_out(new, template, object, copy)
  local layout = M.layout(new, template, object)
  if not layout or not layout.exact then return false end
  local slots = array_slots(object)
  local is_list = template.n_hash == 0 and #layout.keys == #split(layout.keys, slots)
  if not is_list and array_slots(copy) ~= slots then return false end -- a position may become a node
  add_slots(template.stores, object, copy)
  local was, is = walk(object, template.stores), walk(copy, template.stores)
  local _, hash = split(was, slots)
  for i = 1, max(#was, #is) do
    if not rawequal(was[i], is[i]) then return false end
  end
  return array_slots(copy) == slots and layout.n_hash == constructors.nodes_for(max(template.n_hash, #hash))
end

--- The layout of a table that a native function made.
---@param t table
---@return table
function M.read(new, t)
  local keys = walk(t, {})
  return find_layout(new, t, keys, smallest) or { n_array = 0, n_hash = 0, keys = keys }
end

return M
