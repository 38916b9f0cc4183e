--- constructors.lua -- what LuaJIT's parser makes of a table constructor: sizes of tables and of templates.
-- In: prototypes; a template. Out: what the evaluator must know of a constructor, in its instruction; the numbers of
-- nodes that the template's hash part may have. Cannot fail.
--
-- A constructor without constants makes its table of sizes that stand in its instruction. Others copy a template, which
-- the parser fills while it reads the fields: with constants, and with a placeholder for each name whose value comes
-- later. Until its end the template grows as any table does, so that its nodes depend on the order of the fields. The
-- template shows its constants, the bytecode the other fields in their order; how constants stood among these is
-- written nowhere. So whatever could have been written is tried, on a model of the parser's table.
--
-- Rules of the parser.
-- 1. The template is made at the first field that is a constant or has a name: with slots for the positions up to
--    there, and as many nodes as fields with keys need up to there. Position 0 always needs slots.
-- 2. A key that finds no free node makes the table anew: slots for as many positions as fill more than half of them,
--    nodes for all other keys that have values. Where a key without a value has the node that it belongs into, it takes
--    that one; which keys belong into one node is up to their hashes.
-- 3. At the end there are slots for all positions.
-- A function that is loaded from a dump has templates of the sizes that the dump tells instead. It is taken for one if
-- it was stripped, or if no constructor leads to the template.
-- Keys that are whole numbers and constants are taken for positions where they may be. Names with the constant nil
-- leave no trace in the templates of some LuaJITs: they are taken not to be there.

local format, concat, sort = string.format, table.concat, table.sort
local type, next, ipairs, rawget, rawequal, setmetatable = type, next, ipairs, rawget, rawequal, setmetatable
local max, floor = math.max, math.floor

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

--- Nodes of a hash part that is made for n keys.
---@param n integer
---@return integer
function M.nodes_for(n)
  if n == 0 then return 0 end
  local nodes = 2
  while nodes < n do nodes = nodes * 2 end
  return nodes
end

local nodes_for = M.nodes_for

local function is_position(k) return type(k) == "number" and k >= 0 and k < 2 ^ 24 and k % 1 == 0 end

-- Instructions --------------------------------------------------------------------------------------------------------

--- The position behind a constructor whose table goes to a register: where a variable begins there. Where none does,
--- the table is on its way to elsewhere.
local function end_of(proto, position, register)
  local variables = proto.variables or {}
  for i, v in ipairs(variables) do
    if v.first > position then
      local above = 1 -- a variable takes the register above those that live
      for k = 1, i - 1 do
        if variables[k].last >= v.first then above = above + 1 end
      end
      if above == register then return v.first end
    end
  end
  return #proto.code + 1
end

--- Notes what a template does not tell: in `stores` the fields that are stored behind it in their order, by name, by
--- position, or by a computed key (false); in `last` the position from which several values go on.
local function read_stores(proto, position, i)
  local template, register, stores = i.k, i.a, {}
  template.stores, template.stripped = stores, proto.variables == nil
  for k = position + 1, end_of(proto, position, register) - 1 do
    local store = proto.code[k]
    local name = store.name
    if store.a == register and (name == "TNEW" or name == "TDUP") then break end
    if name == "TSETM" and store.a == register + 1 then
      template.last = store.k - 2 ^ 52
      stores[#stores + 1] = template.last
    elseif store.b == register then
      if name == "TSETS" then stores[#stores + 1] = store.k end
      if name == "TSETB" then stores[#stores + 1] = store.c end
      if name == "TSETV" then stores[#stores + 1] = false end
    end
  end
end

--- Notes in a prototype's instructions what its constructors make: n_array and n_hash of new tables, as lua_createtable
--- takes them; in templates what stands behind them.
---@param proto tycho.Prototype
function M.link(proto)
  for position, i in ipairs(proto.code) do
    if i.name == "TNEW" then -- slots of the array part from 0 on, as many as fit into 11 bits; bits of the hash part
      local slots, bits = i.d % 2048, floor(i.d / 2048)
      if slots == 2047 then slots = 2049 end
      i.n_array, i.n_hash = max(slots - 1, 0), bits > 0 and 2 ^ bits or 0
    elseif i.name == "TDUP" then
      read_stores(proto, position, i)
    end
  end
end

-- The parser's table --------------------------------------------------------------------------------------------------

-- slots, nodes; used: nodes that have a key; names: keys that are no positions, whichever; array, hash: of positions,
-- whether a value stands there. Which node a key has does not matter.
local Model = {}
Model.__index = Model

local function new_model(slots, nodes)
  return setmetatable({ slots = slots, nodes = nodes, used = 0, names = 0, array = {}, hash = {} }, Model)
end

--- Slots for an array part that is to hold positions with values, and how many of these lie in it.
local function best_slots(positions)
  local bins, n, slots, sum, inside = {}, #positions, 0, 0, 0
  for _, k in ipairs(positions) do
    local bin, limit = 0, 2
    while k > limit do bin, limit = bin + 1, limit * 2 end
    bins[bin] = (bins[bin] or 0) + 1
  end
  local bin, size = 0, 1
  while 2 * n > size and sum ~= n do
    if bins[bin] then
      sum = sum + bins[bin]
      if 2 * sum > size then slots, inside = 2 * size + 1, sum end
    end
    bin, size = bin + 1, size * 2
  end
  return slots, inside
end

--- Gives the table other sizes; keys without a value are lost.
function Model:resize(slots, nodes)
  local array, hash = self.array, self.hash
  self.slots, self.nodes, self.array, self.hash, self.used = slots, nodes, {}, {}, self.names
  for _, from in ipairs { array, hash } do
    for k, full in next, from do
      if full then self:set(k, true) end
    end
  end
end

--- Makes room for one more key: position k, or any other.
function Model:grow(k)
  local positions = { k }
  for _, from in ipairs { self.array, self.hash } do
    for i, full in next, from do
      if full then positions[#positions + 1] = i end
    end
  end
  local slots, inside = best_slots(positions)
  self:resize(slots, nodes_for(#positions - inside + self.names + (k and 0 or 1)))
end

--- Writes position k, or without it any other key that is not there.
function Model:set(k, full)
  if self.used == self.nodes and not (k and (k < self.slots or self.hash[k] ~= nil)) then self:grow(k) end
  if k and k < self.slots then
    self.array[k] = full
    return
  end
  if not (k and self.hash[k] ~= nil) then self.used = self.used + 1 end
  if k then self.hash[k] = full else self.names = self.names + 1 end
end

--- Calls visit(model) for all that may come of writing one more key, as set does. This model is used up.
function Model:each_set(k, full, visit)
  if not (k and (k < self.slots or self.hash[k] ~= nil)) then
    for other, has in next, self.hash do
      if not has then
        local m = self:copy()
        m.hash[other], m.used = nil, m.used - 1
        m:set(k, full)
        visit(m)
      end
    end
  end
  self:set(k, full)
  visit(self)
end

--- Whether its nodes are those of a list of keys alone.
function Model:holds(keys)
  for _, k in ipairs(keys) do
    if is_position(k) and not self.hash[k] then return false end
  end
  return self.used == #keys
end

--- A copy, and a text that is equal for tables that go on alike.
function Model:copy()
  local m = setmetatable({}, Model)
  for name, v in next, self do m[name] = v end
  m.array, m.hash = {}, {}
  for k, full in next, self.array do m.array[k] = full end
  for k, full in next, self.hash do m.hash[k] = full end
  return m
end

function Model:text()
  local out = {}
  for k, full in next, self.hash do out[#out + 1] = k + (full and 0.5 or 0) end
  sort(out)
  return format("%d %d %d %s", self.slots, self.nodes, self.used, concat(out, " "))
end

-- Constructors --------------------------------------------------------------------------------------------------------

--- What the template and the bytecode tell: full[k] and stored[k]: position k is a constant but nil, another value;
--- last: the last such position; computed: fields with computed keys that may stand before the first one of the
--- template, and only_names: they surely do if that one has a name.
local function read_fields(template, object, slots, array, hash)
  local f = { full = {}, stored = {}, last = -1, computed = 0, only_names = #hash > 0 }
  local names = {}
  for _, k in ipairs(hash) do
    local v = rawget(object, k)
    names[k], f.only_names = true, f.only_names and (v == nil or rawequal(v, object))
  end
  for _, k in ipairs(array) do f.full[k], f.last = true, max(f.last, k) end
  for _, k in ipairs(template.stores) do
    if type(k) == "number" and k < slots and not f.full[k] then f.stored[k], f.last = true, max(f.last, k) end
  end
  local constant = 1 -- the first position that is one, if any is
  while f.stored[constant] do constant = constant + 1 end
  for _, k in ipairs(template.stores) do
    if names[k] or f.stored[k] and k > constant then break end
    if type(k) ~= "string" and not f.stored[k] then f.computed = f.computed + 1 end
  end
  return f
end

--- All models of constructors that have these positions of constants and these other keys, in any order of the former
--- among the latter: rows[i][j] are those with i positions and j keys, by their text. first: the computed fields before
--- the template's first one, and the slots that it may be made with if that is a key.
local function each_order(positions, keys, full, first, try)
  local rows = {}
  for i = 0, #positions do
    rows[i] = {}
    for j = 0, #keys do rows[i][j] = {} end
  end
  local function add_position(i, j, m)
    local k = positions[i + 1]
    m = m or new_model(k + 1, nodes_for(first.computed))
    m:each_set(k, full[k] or false, function(y) rows[i + 1][j][y:text()] = y end)
  end
  local function add_key(i, j, m)
    local k = keys[j + 1]
    m:each_set(is_position(k) and k or nil, true, function(y) rows[i][j + 1][y:text()] = y end)
  end
  if #positions > 0 then add_position(0, 0, nil) end
  for _, slots in ipairs(#keys > 0 and first.slots or {}) do
    local zero = keys[1] == 0
    add_key(0, 0, new_model(zero and max(slots, 1) or slots, nodes_for(first.computed + (zero and 0 or 1))))
  end
  for i = 0, #positions do
    for j = 0, #keys do
      for _, m in next, rows[i][j] do
        if i == #positions and j == #keys then try(m) end
        if j < #keys then add_key(i, j, i < #positions and m:copy() or m) end
        if i < #positions then add_position(i, j, m) end
      end
    end
  end
end

local MOST = 1000 -- products of positions and keys, beyond which nothing is tried

--- The keys in all orders that matter: which of the names stand before the positions that are written as keys does not.
local function orders_of(positions, names)
  local orders = {}
  for before = 0, #positions > 0 and #names or 0 do
    local keys = {}
    for i = 1, before do keys[i] = names[i] end
    for _, k in ipairs(positions) do keys[#keys + 1] = k end
    for i = before + 1, #names do keys[#keys + 1] = names[i] end
    orders[before + 1] = keys
  end
  return orders
end

--- Tries the constructors whose last position is a given one: try(model).
local function each_constructor(f, last, array, hash, try)
  local positions, written, names = {}, {}, {} -- written: as keys
  for k = 1, last do
    if not f.stored[k] then positions[#positions + 1] = k end
  end
  for _, k in ipairs(array) do
    if k == 0 or k > last then written[#written + 1] = k end
  end
  for _, k in ipairs(hash) do
    local to = is_position(k) and written or names
    to[#to + 1] = k
  end
  if #positions * (#names + #written) > MOST then return end
  local first = { slots = { 0 } }
  if f.stored[1] then first.slots[2] = positions[1] or last + 1 end -- others stand before the first constant
  for _, keys in ipairs(orders_of(written, names)) do
    for computed = f.only_names and #positions == 0 and f.computed or 0, f.computed do
      first.computed = computed
      each_order(positions, keys, f.full, first, try)
    end
  end
end

--- The sizes that the hash part of a template may have: a set of numbers of nodes. object: the template itself; slots:
--- of its array part, which holds the positions `array`; hash: the keys of its hash part.
---@return table<integer, boolean>
function M.sizes(template, object, slots, array, hash)
  local f, sizes = read_fields(template, object, slots, array, hash), {}
  local may_be_loaded = slots == template.n_array and #hash == template.n_hash
  if may_be_loaded and template.stripped then return { [nodes_for(#hash)] = true } end
  local from, to = f.last, max(slots - 1, f.last)
  if template.last then from, to = template.last, template.last end
  for last = from, to do
    each_constructor(f, last, array, hash, function(m)
      if last >= 0 and m.slots <= last then m:resize(last + 1, m.nodes) end
      if m.slots == slots and m:holds(hash) then sizes[m.nodes] = true end
    end)
    if next(sizes) and last > from + 8 then break end -- nils at the end
  end
  if may_be_loaded and not next(sizes) then sizes[nodes_for(#hash)] = true end
  return sizes
end

return M
