--- capture/description.lua -- what a capture becomes: reads, guards, results and effects as plain tables.
-- In: a world whose function has ended, its results with shadows. Out: a description, of which C makes a trace; whether
-- two descriptions are one trace but for sizes. Aborts where a value cannot be found or made again in later calls.
--
-- A recipe says how later calls come by a value: {"value", v}, {"slot", reading instruction}, {"number", expression},
-- {"tensor", result of the plan}, {"table", position among what is made}, {"random", word}. Tables may hold themselves:
-- they get positions as they are mentioned, and their contents afterwards.

local bytecode = require "tycho.capture.bytecode"
local parts = require "tycho.capture.parts"

local type, rawget, select, pairs, ipairs, rawequal = type, rawget, select, pairs, ipairs, rawequal
local getmetatable, setmetatable, format = getmetatable, setmetatable, string.format

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

local recipe, position_of

local NOTHING, ANYTHING = { "value", nil }, { "value", true }

--- The position of an instruction in a prototype's code.
function position_of(by, proto)
  for at, ins in ipairs(proto.code) do
    if ins == by then return at end
  end
  return nil
end

--- The position of a fresh table in the description; its content is filled in later, since tables may hold themselves.
local function table_position(world, o)
  local list = world.made_tables
  if not o.position then
    list[#list + 1] = o
    o.position = #list
  end
  return o.position
end

local function tensor_position(world, v)
  local list, at = world.made_tensors, world.tensor_at
  if not at[v] then
    world:pin_viewed(v)
    if world.in_threads[v] and not world.said.unscoped then
      world.said.unscoped = true
      if world.C.is_scoped() then world:abort_thread("a tensor that a coroutine has made is given to a scope") end
      world:emit({ "unscoped" }, "the call")
    end
    list[#list + 1] = v
    at[v] = #list
  end
  return at[v]
end

--- A function from outside shares its variables and its globals with closures that are made.
local function share_with(world, f)
  if world:is_ours(f) then return end
  local s = world.objects[f]
  if not s or s.bytecode_only then
    world:abort("a function made inside has variables of one that may be another in later calls")
  end
  world.owners[f] = true
end

--- What a variable of a closure is to its maker, see continuation.maker_of: a cell that may be assigned later is nobody
--- else's, and the function that it belongs to has ended.
local function variable_of(world, c, v, k, r)
  local cell = c.cells[k]
  if cell.fn then
    share_with(world, cell.fn)
    return { cell.fn, cell.index }
  end
  local value, s = cell.values[cell.index], cell.shadows[cell.index]
  if not c.proto.upvalues[k].immutable then
    if world.goes_on or cell.maker and cell.maker ~= c then
      world:abort("a function made inside shares a variable that is assigned")
    end
    cell.maker = c
  end
  if rawequal(value, v) then return true end
  world:must_not_be_drawn(s)
  r[#r + 1] = { NOTHING, recipe(world, value, s) }
  return #r
end

--- The same as closure_position for any closure, which a rule has: nothing else comes to see it.
local function rule_position(world, v)
  local c = world.closures[v]
  if c.position then return c.position end
  if c.open then world:abort("functions made inside refer to one another") end
  local upvalues, r = {}, {}
  c.open = true
  share_with(world, c.root)
  for k = 1, #c.proto.upvalues do upvalues[k] = variable_of(world, c, v, k, r) end
  c.open = nil
  r.maker = parts.maker_of(c.parent, position_of(c.made_by, c.parent), upvalues, #r, c.root, c.owner)
  if not r.maker then world:abort("a function made inside cannot be made again") end
  world.made_tables[#world.made_tables + 1] = { made = r }
  world.makes_closures = true
  c.position = #world.made_tables
  return c.position
end

--- The position of a closure among the tables: behind those of closures that it has as variables. Where the function
--- is captured in parts, and no variable that it shares is assigned later, its maker gives it again.
local function closure_position(world, c)
  if c.position then return c.position end
  local at = c.by and position_of(c.by, bytecode.prototype(world.code))
  local maker = at and world.parts and world.parts:maker(at)
  if not maker then
    world:abort("a function made inside is returned or stored", "make it outside of the compiled function")
  end
  local r = { maker = maker.make }
  for k = 1, maker.n do r[k] = { NOTHING, NOTHING } end
  for k, u in ipairs(c.proto.upvalues) do
    if u.is_local and maker.taken[u.index] then
      local cell = c.cells[k]
      local v, s = cell.values[cell.index], cell.shadows[cell.index]
      world:must_not_be_drawn(s)
      r[u.index] = { NOTHING, recipe(world, v, s) }
    end
  end
  if maker.carried then r[maker.n + 1] = { NOTHING, recipe(world, world.fn, world.fn_shadow) } end
  world.makes_closures, world.makes_parts = true, true
  world.made_tables[#world.made_tables + 1] = { made = r }
  c.position = #world.made_tables
  return c.position
end

--- What stands for the hash of a scan's turn: what it read outside, with what that was, and how to read it again.
local function reads_position(world, reads)
  if reads.unsure then world:abort("a scan asks for the keys or the length of a table from outside") end
  if #world.effects > 0 then world:abort("a scan stands in a function that writes to tables or variables") end
  local values, roots, versions, absent, from, met = {}, {}, {}, {}, {}, {}
  for slot, instr in pairs(world:readers()) do from[slot] = instr[2] end
  local function add(slot, tensor)
    local v = world.slots[slot].value
    if tensor then versions[#versions + 1] = { { "value", slot }, { "version", slot } } end
    if v == nil then
      absent[#absent + 1] = { { "value", slot }, { "value", true } }
    else
      values[#values + 1] = { { "value", slot }, { "slot", slot } }
    end
    while from[slot] do slot = from[slot] end
    if not met[slot] then
      met[slot] = true
      roots[#roots + 1] = { { "value", slot }, { "slot", slot } }
    end
  end
  local of_tensor = {}
  for _, slot in ipairs(reads.tensors) do of_tensor[slot] = true end
  for slot in pairs(reads.slots) do
    if not of_tensor[slot] then add(slot) end
  end
  for slot in pairs(of_tensor) do add(slot, true) end
  local made, list = world.made_tables, { n_array = 0, n_hash = 8 }
  list[1] = { { "value", "program" }, { "value", world.again } }
  for name, fields in pairs { values = values, roots = roots, versions = versions, absent = absent } do
    local t = { n_array = 0, n_hash = #fields }
    for i, field in ipairs(fields) do t[i] = field end
    made[#made + 1] = { made = t }
    list[#list + 1] = { { "value", name }, { "table", #made } }
  end
  made[#made + 1] = { made = list }
  return #made
end

--- The position of a tensor that a rule has. One that needs a gradient, and was made inside, sees what the call keeps:
--- it would hold that call else, which holds the rule.
local function rule_tensor_position(world, v)
  if not world.said.unscoped then
    world.said.unscoped = true
    if world.C.is_scoped() then world:abort("a function with a gradient of its own keeps a tensor of a scope") end
    world:emit({ "unscoped" }, "the call")
  end
  if not v.requires_grad or world.C.viewed(v) then return tensor_position(world, v) end
  local at = world.rule_tensor_at[v]
  if not at then
    if world.tensor_at[v] then
      world:abort("a function with a gradient of its own closes over a result", "give it as an argument")
    end
    local storage = world.core.internals.grad.storage(v)
    local other = world.frozen[storage]
    local kept = world:tycho(world.C.frozen, "frozen", { v, other }, {}, other and 2 or 1)[1]
    at = tensor_position(world, kept)
    world.rule_tensor_at[v], world.of_rules[#world.of_rules + 1] = at, at
    world.frozen[storage] = other or kept
  end
  return at
end

local function object_recipe(world, v)
  local kind = type(v)
  if world:is_thread(v) then world:abort_thread("a coroutine made inside is returned or stored") end
  if kind == "table" then
    local o = world.tables[v]
    if o then return o.fresh and { "table", table_position(world, o) } or { "slot", o.slot } end
    if world.constants[v] then return { "value", v } end
  end
  local s = world.objects[v]
  if s and not s.bytecode_only then return { "slot", s.slot } end
  if kind == "userdata" and world.is_tensor(v) then
    return { "tensor", (world.in_rules and rule_tensor_position or tensor_position)(world, v) }
  end
  if kind == "function" then
    if world.closures[v] then
      return { "table", world.in_rules and rule_position(world, v) or closure_position(world, world.closures[v]) }
    end
    if not world.iterators[v] and (world.C.is_native(v) or world:is_ours(v)) then return { "value", v } end
  end
  local reads = world.in_rules and world.hashes[v]
  if reads then
    reads.position = reads.position or reads_position(world, reads)
    return { "table", reads.position }
  end
  return world:abort(format("a %s of unknown origin is returned or stored", kind))
end

--- How a value is found or made again in later calls.
function recipe(world, v, s)
  if s and (s.number or s.size or s.length or s.behind) then
    if s.pinned then return { "value", v } end
    return { "number", (world:number_id(v, s)) }
  end
  local kind = type(v)
  if s then
    if s.pinned and kind ~= "table" and kind ~= "userdata" and kind ~= "function" then return { "value", v } end
    return { "slot", s.slot }
  end
  if kind == "string" and world.random_at[v] then return { "random", world.random_at[v] + 1 } end
  if kind == "nil" or kind == "number" or kind == "string" or kind == "boolean" then return { "value", v } end
  return object_recipe(world, v)
end

--- What an overwritten write writes: all that counts is whether a value stood there.
local function overwritten(full) return full and ANYTHING or NOTHING end

--- How a table is made again: its sizes, its metatable, its writes.
local function table_recipe(world, o)
  world:settle(o) -- a nil among the elements decides what the table is
  local writes = world:writes(o)
  if o.inexact then world:abort("a table is kept whose constructor leaves open how LuaJIT laid it out") end
  local r = { n_array = o.n_array, n_hash = o.n_hash }
  if o.meta ~= nil then r.meta = recipe(world, o.meta, o.meta_shadow) end
  for k, w in ipairs(writes) do
    if w.last then world:must_not_be_drawn(o.shadow[w.key]) end
    r[k] = { recipe(world, w.key), w.last and recipe(world, rawget(o.value, w.key), o.shadow[w.key])
      or overwritten(w.full) }
  end
  return r
end

--- Fresh tables that are mentioned: each once, those found meanwhile appended behind.
local function table_recipes(world, recipes)
  local list, i = world.made_tables, #recipes + 1
  while list[i] do
    recipes[i] = list[i].made or table_recipe(world, list[i])
    i = i + 1
  end
  return recipes
end

local RUNS = {} -- metatable of what share_runs puts there

--- Calls of the trace share what runs their functions in the backward pass.
local function share_runs(world, d, kept)
  for _, v in ipairs(kept) do
    local fields = d.tables[world.tables[v].position]
    if world.core.internals.grad.again[v.back] then
      fields[#fields + 1] = { { "value", "again" }, { "value", setmetatable({}, RUNS) } }
    end
  end
end

--- What the rules of users have that results lead back to: {position of their list, how many}; nil: there are none.
local function rule_recipes(world)
  local kept = world.C.rules(world.made_tensors)
  if not kept or #kept == 0 then return nil end
  local list = { n_array = #kept, n_hash = 0 }
  world.in_rules = true
  for k, v in ipairs(kept) do list[k] = { { "value", k }, recipe(world, v) } end
  world.made_tables[#world.made_tables + 1] = { made = list }
  return { #world.made_tables, #kept }, kept
end

local function effect_recipes(world)
  local list = {}
  for _, e in ipairs(world.effects) do
    local cell, o, g = e.cell, e.table, e.gradient
    if g then
      list[#list + 1] = world.gradient_effect(g, recipe(world, g.value, g.shadow))
    elseif cell then
      list[#list + 1] = { "upvalue", cell.fslot, cell.index, recipe(world, cell.value, cell.shadow),
        path = world.upvalue_name(world.slots[cell.fslot].value, cell.index) }
    else
      local entry = o.overlay[e.key]
      local key = world.is_behind(entry) and { "behind", o.slot } or recipe(world, e.key, entry.ks)
      list[#list + 1] = { "set", o.slot, key,
        entry.effect == e and recipe(world, entry.value, entry.shadow) or overwritten(e.full),
        path = world.path_of(o.shadow.path, e.key, entry.ks) }
    end
  end
  return list
end

--- Adds the instructions of a later stage to a description.
local function append(d, list)
  local n = #d.program
  for i, instr in ipairs(list.program) do
    d.program[n + i], d.about[n + i], d.lines[n + i] = instr, list.about[i], list.lines[i]
  end
end

local function same_value(a, b)
  if type(a) == "number" and type(b) == "number" then
    return a == b and 1 / a == 1 / b or a ~= a and b ~= b
  end
  return rawequal(a, b)
end

local function same_values(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if not same_value(a[i], b[i]) then return false end
  end
  return true
end

--- Whether a tensor needs a gradient, as its guard asks.
local function needs(t) return t.requires_grad and (t.is_leaf and "leaf" or "taped") or "not" end

local function same_instruction(a, b)
  if a[1] ~= b[1] or a[2] ~= b[2] and not same_value(a[2], b[2]) then return false end
  if a[1] == "keys" or a[1] == "draw" then return same_values(a[3], b[3]) end
  if a[1] == "tensor" then -- it may have other sizes
    return a[3].dtype == b[3].dtype and a[3].ndim == b[3].ndim and needs(a[3]) == needs(b[3]) and a[4] == b[4]
  end
  return same_value(a[3], b[3]) and same_value(a[4], b[4]) and a[5] == b[5]
end

local function are_runs(a, b)
  return type(a) == "table" and type(b) == "table" and getmetatable(a) == RUNS and getmetatable(b) == RUNS
end

local function same_recipe(a, b)
  if a == nil or b == nil then return a == b end
  return a[1] == b[1] and (same_value(a[2], b[2]) or are_runs(a[2], b[2]))
end

local function same_effect(a, b)
  return a[1] == b[1] and a[2] == b[2] and same_recipe(a[4], b[4])
    and (a[1] == "set" and same_recipe(a[3], b[3]) or a[1] ~= "set" and a[3] == b[3])
end

local function same_lists(same, a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if not same(a[i], b[i]) then return false end
  end
  return true
end

local function same_table(a, b)
  local function same_pair(p, q) return same_recipe(p[1], q[1]) and same_recipe(p[2], q[2]) end
  return a.n_array == b.n_array and a.n_hash == b.n_hash and a.maker == b.maker and same_recipe(a.meta, b.meta)
    and same_lists(same_pair, a, b)
end

--- Whether two descriptions are one trace but for the sizes of tensors: the same reads, guards, results and effects.
local function same(a, b)
  local rules_a, rules_b = a.rules or {}, b.rules or {}
  return rules_a[1] == rules_b[1] and rules_a[2] == rules_b[2]
    and a.narg == b.narg and a.nresults == b.nresults and a.resume == b.resume and #a.tensors == #b.tensors
    and a.early == b.early and a.late == b.late and a.sharing == b.sharing
    and same_lists(same_instruction, a.program, b.program) and same_lists(same_recipe, a.results, b.results)
    and same_lists(same_effect, a.effects, b.effects) and same_lists(same_table, a.tables, b.tables)
end

M.same, M.same_value = same, same_value

--- Adds the methods to worlds.
function M.extend(World)
  --- Tables are made before numbers are drawn.
  function World:must_not_be_drawn(s)
    if s and s.number and s.number > self.C.DRAWN then
      self:abort("a number that is drawn in each call is kept in a table that is made", "return the number itself")
    end
  end

  --- The functions that share variables with closures that are made, each with what it shares now.
  function World:sharing_owners(of_parts)
    local list = {}
    for f in pairs(self.owners) do
      list[#list + 1] = f
      list[#list + 1] = select(2, self.core._hand_on(f, false))
    end
    if self.makes_parts then
      list[#list + 1] = of_parts.whole.f
      list[#list + 1] = of_parts.whole.shared
    end
    return list
  end

  --- Everything that a trace is made of, as plain tables.
  function World:describe(results, shadows, n)
    for _, s in ipairs(self.untyped) do self:typed(s.value, s) end
    local d = { narg = self.narg, program = self.program, about = self.about, lines = self.lines, paths = {},
      bounds = {}, results = {}, nresults = n,
      dynamic = self.dynamic, closures = self.closures_differ, gradients = self.ngradients,
      specialised = self.specialised }
    for i = 1, n do d.results[i] = recipe(self, results[i], shadows[i]) end
    d.effects = effect_recipes(self)
    d.tables = table_recipes(self, {})
    local kept
    d.rules, kept = rule_recipes(self)
    table_recipes(self, d.tables)
    share_runs(self, d, kept or {})
    local again = self.again
    again.program, again.narg, again.early, again.late = d.program, d.narg, #d.program, #d.program
    d.tensors, d.of_rules = self.made_tensors, self.of_rules
    self:guard_aliases()
    self:guard_cells()
    for k, s in pairs(self.slots) do d.paths[k] = s.path end
    for path, is in pairs(self.bounds or {}) do d.bounds[path] = is end
    d.early = #self.program
    append(d, self.deferred)
    d.late = #d.program
    append(d, self.drawn)
    d.sizes = {}
    for i, s in ipairs(self.sizes) do d.sizes[i] = s.value end
    d.sharing = self.C.sharing()
    d.tapes = { self.tape and self.tape:finish(self.made_tensors, self.sizes) }
    return d
  end
end

return M
