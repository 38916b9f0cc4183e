--- capture/table_layout.lua -- tables made inside, laid out as LuaJIT lays them out, and how later calls make the same.
-- In: constructors, writes to tables made inside, tables that native functions made. Out: real tables whose `#` and
-- `next` are those of the native run's, and for each of them the sizes and the list of writes that make one like it.
-- Aborts where a table is of unknown layout and that would show at once.
--
-- A table's layout is the size of its array part, the number of nodes in its hash part, and which key has which slot.
-- It decides where `#` finds the end of a table with holes, in which order `next` walks, and when a later write makes
-- LuaJIT lay the table out anew. It follows from the sizes that the table was made with and from the writes to keys
-- without a slot, in their order; so these are what a trace repeats.
--
-- Rules.
-- 1. A write to a key that has a slot leaves the layout alone. A key whose value became nil keeps its slot until the
--    host needs it or lays the table out anew.
-- 2. Whether a value is nil counts when the layout is made anew. So an earlier write of the key takes the new value
--    only if no key got a slot since, or if the one is nil as the other is. Nothing else of what is overwritten counts.
-- 3. What decides whether a value is nil is guarded before the table is described or looked at (settle).
-- 4. Where a layout is not known (templates.lua) the table is `unordered`: neither is it walked nor, where it has
--    holes, asked for its length. Later calls make it from what is known on builds where templates are out of reach,
--    elsewhere (`inexact`) they do not make it.

local templates = require "tycho.capture.table_templates"

local next, ipairs, type, rawget, rawset, rawequal = next, ipairs, type, rawget, rawset, rawequal

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local has_slot = templates.has_slot

return function(World)
  -- Tables that constructors make -------------------------------------------------------------------------------------

  local function begin(o, n_array, n_hash)
    o.n_array, o.n_hash, o.writes, o.at, o.last_new, o.array_to = n_array, n_hash, {}, {}, 0, nil
  end

  --- An empty table of sizes as lua_createtable takes them.
  function World:new_table(n_array, n_hash)
    local t = self:table(self.C.table(n_array, n_hash))
    begin(self.tables[t], n_array, n_hash)
    return t
  end

  --- A copy of a template. object: the template itself, nil if it is out of reach.
  function World:duplicate(template, object)
    local layout = templates.layout(self.C.table, template, object)
    if layout then
      local t = self:new_table(layout.n_array, layout.n_hash)
      local o, empty = self.tables[t], {}
      o.unordered, o.inexact = not layout.exact, not layout.exact
      for _, k in ipairs(layout.keys) do
        local v = rawget(object, k)
        if rawequal(v, nil) or rawequal(v, object) then empty[#empty + 1] = k end -- a field that is stored later
        self:write(o, k, rawequal(v, nil) or v)
      end
      for _, k in ipairs(empty) do self:write(o, k, nil) end
      return t
    end
    local t = {}
    for k = 1, template.n_array do t[k - 1] = template.array[k] end
    for k = 1, template.n_hash do t[template.keys[k]] = template.values[k] end
    self:table(t)
    self.tables[t].unordered = true
    return t
  end

  --- Makes room for positions before n as LuaJIT does where several values end a constructor: the array part gets one
  --- slot more, and the hash part is filled anew. Gives the table to go on with, since nobody has seen this one yet.
  function World:make_room(t, n)
    local o = self.tables[t]
    if o.unordered then return t end
    local keys, named = {}, 0
    for k in next, o.at do
      if not (type(k) == "number" and k >= 0 and k <= o.n_array and k % 1 == 0) then named = named + 1 end
    end
    if named > o.n_hash then self:abort("a constructor with many computed fields ends in several values") end
    if n <= (o.n_array > 0 and o.n_array + 1 or 0) then return t end
    for k in next, t do keys[#keys + 1] = k end
    local larger = self.C.table(n, o.n_hash)
    self.tables[t], self.tables[larger], o.value = nil, o, larger
    begin(o, n, o.n_hash)
    for _, k in ipairs(keys) do self:write(o, k, rawget(t, k)) end
    return larger
  end

  -- Writes ------------------------------------------------------------------------------------------------------------

  --- Takes a table that a native function made as it is.
  local function read_history(world, o)
    local t = o.value
    local layout = templates.read(world.C.table, t)
    o.is_read = true -- keys that are gone may have slots
    begin(o, layout.n_array, layout.n_hash)
    for i, k in ipairs(layout.keys) do o.writes[i], o.at[k] = { key = k }, i end
    o.last_new = #o.writes
  end

  --- Looks how far the array part goes: behind a position that has a slot, and was never written. A search by
  --- doubling, and back by halves, since each look walks over empty slots.
  local function note_array(o, k)
    local t, step = o.value, 1
    while not o.at[k + step] and has_slot(t, k + step) do k, step = k + step, step * 2 end
    while step > 1 do
      step = step / 2
      if not o.at[k + step] and has_slot(t, k + step) then k = k + step end
    end
    o.array_to = k
  end

  --- Whether a key whose value is nil has a slot. What is known of the array part holds until another key gets a slot;
  --- a position that was never written then lies in it for sure, and so do all below.
  local function has_room(o, k)
    if o.is_read or type(k) ~= "number" or k < 0 or k % 1 ~= 0 then return has_slot(o.value, k) end
    if o.array_asked and o.array_to then
      if o.at[o.array_to] or not has_slot(o.value, o.array_to) then o.array_to = nil end
      o.array_asked = nil
    end
    if o.array_to and k <= o.array_to then return true end
    if not has_slot(o.value, k) then return false end
    if not o.at[k] then note_array(o, k) end
    return true
  end

  --- Notes a write that is about to happen.
  local function note_write(o, k, is)
    local was, i, list = rawget(o.value, k), o.at[k], o.writes
    local is_new = rawequal(was, nil) and not has_room(o, k)
    if is_new then o.array_asked = true end
    if not is_new then
      if rawequal(was, nil) == rawequal(is, nil) then return end
      if i and i >= o.last_new then
        local w = list[i]
        if w.undoes then w.undone, o.at[k] = true, w.undoes end
        return
      end
    end
    if i then list[i].full = not rawequal(was, nil) end
    list[#list + 1] = { key = k, undoes = not is_new and i }
    o.at[k] = #list
    if is_new then o.last_new = #list end
  end

  --- t[k] = v for a table made inside.
  function World:write(o, k, v)
    if not o.writes then read_history(self, o) end
    note_write(o, k, v)
    rawset(o.value, k, v)
  end

  --- The writes that lead to a table made inside as it is now: {key, last, full}. last: the key's value now is written,
  --- else full tells whether any is.
  function World:writes(o)
    if not o.writes then read_history(self, o) end
    local list, left = {}, 0
    for i, w in ipairs(o.writes) do
      local last = o.at[w.key] == i
      if not w.undone then list[#list + 1] = { key = w.key, last = last, full = not last and w.full } end
      if last and not rawequal(rawget(o.value, w.key), nil) then left = left + 1 end
    end
    for _ in next, o.value do left = left - 1 end
    if left ~= 0 then self:abort("a library function has written to a table") end
    return list
  end
end
