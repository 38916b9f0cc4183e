--- tables.lua -- tables as captured code sees them: fields, metatables, overlays, length, iteration.
-- In: a table and its shadow, see capture.lua. Out: values with shadows; guards in the program. Aborts where the order
-- of keys or the length of a table with holes would be a guess.
--
-- A table has a record:
--     made inside   {value, fresh, shadow = {by key}, meta, meta_shadow, ...}; the real table holds the real values
--                   and is laid out as the native run's (layout.lua)
--     from outside  {value, slot, shadow, fields = {by key: shadow}, overlay = {by key: {value, shadow}} | nil, ...}
--     constant      {value, constant}; what is written there is dropped with the capture
-- Rules:
-- 1. Outside tables are never changed: writes go to the overlay, and every read asks the overlay first. The effects
--    repeat the writes in their order, since a key that comes or goes changes how the table is laid out; a later write
--    takes the place of an earlier one only where that makes no difference, whatever the table is like.
-- 2. A field that is there hides the metatable, so its presence is guarded; one that is missing is pinned, and so is
--    every table that is asked on the way.
-- 3. The length of an outside table is one guard while no key came or went. After that it must be a list without
--    holes: elsewhere Lua may answer any border (keys.lua). So it is with tables made inside whose layout is not
--    known.
-- 4. Tables that are written, and those that are read or written at the same keys, must be different tables in later
--    calls as they are now (guard_aliases). Where keys do not meet it does not matter, unless a key came and went
--    unseen while the other table grew.

local format, find, match, sort = string.format, string.find, string.match, table.sort
local type, rawget, next, pairs, rawequal = type, rawget, next, pairs, rawequal
local ipairs, tostring, getmetatable = ipairs, tostring, getmetatable
if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local raw_metatable = type(debug) == "table" and debug.getmetatable

--- LuaJIT may be built so that __len and __pairs work on tables.
local LENGTH_EVENT = #setmetatable({}, { __len = function() return 7 end }) == 7

local CHAIN_MAX = 100 -- tables behind each other by __index, as in Lua

local function is_identifier(k) return type(k) == "string" and find(k, "^[%a_][%w_]*$") ~= nil end

local function is_position(k) return type(k) == "number" and k >= 1 and k % 1 == 0 end

--- Without debug a table may hide its metatable.
local function metatable_of(world, t)
  if raw_metatable then return raw_metatable(t) end
  local mt = getmetatable(t)
  if mt ~= nil and (type(mt) ~= "table" or rawget(mt, "__metatable") ~= nil) then
    world:abort("a metatable is hidden from a LuaJIT without debug")
  end
  return mt
end

return function(World)
  --- How a user would write a field; ks: the key's shadow, where it is a number of the call.
  function World.path_of(base, k, ks)
    if ks and not ks.pinned then
      local path = ks.path or "..."
      return format("%s[%s]", base or "?", match(path, "^%((.*)%)$") or path)
    end
    if base == "_G" and is_identifier(k) then return k end
    base = base or "?"
    if is_identifier(k) then return base .. "." .. k end
    if type(k) == "string" then return format("%s[%q]", base, k) end
    if type(k) == "number" or type(k) == "boolean" then return format("%s[%s]", base, tostring(k)) end
    return base .. "[" .. type(k) .. "]"
  end

  -- Records -----------------------------------------------------------------------------------------------------------

  --- Registers a table made inside; what it holds now is constant.
  function World:table(t)
    self.tables[t] = { value = t, fresh = true, shadow = {} }
    return t
  end

  --- The record of a table; for one from outside its kind and its identity among the others are guarded.
  function World:table_of(t, s)
    local o = self.tables[t]
    if s == nil or s.table then
      o = o or self.constants[t]
      if not o then self:abort("a table of unknown origin is used") end
      return o
    end
    if o then
      if o.fresh then self:abort("a table made inside was found outside") end
      self:emit({ "same", o.slot, s.slot }, s.path)
    else
      if not s.typed then self:emit({ "type", s.slot, "table" }, s.path) end
      o = { value = t, slot = s.slot, shadow = s, fields = {} }
      self.tables[t] = o
    end
    s.typed, s.pinned, s.table = true, true, o
    return o
  end

  --- Makes known which of a table's values are nil.
  function World:settle(o)
    local loose = o.loose
    if not loose then return end
    o.loose = nil
    for _, s in ipairs(loose) do self:typed(s.value, s) end
  end

  local function note_loose(o, s)
    if s == nil or s.typed or s.number then return end
    o.loose = o.loose or {}
    o.loose[#o.loose + 1] = s
  end

  --- Keeps count (of keys 1, 2 ...) and max (the greatest, nil when unknown) of a table whose value at k changes.
  local function tally(o, k, was, is)
    if o.count == nil or not is_position(k) or rawequal(was, nil) == rawequal(is, nil) then return end
    if not rawequal(is, nil) then
      o.count = o.count + 1
      if o.max and k > o.max then o.max = k end
    else
      o.count = o.count - 1
      if k == o.max then o.max = nil end
    end
  end

  -- Raw reads ---------------------------------------------------------------------------------------------------------

  --- The field k of an outside or constant table, without metamethods.
  function World:field(o, k)
    if type(k) == "number" then
      o.by_number = true
      if o.numbered then self:relate(o, k, nil) end
    end
    local entry = o.overlay and k ~= nil and o.overlay[k]
    if entry then return entry.value, entry.shadow end
    if o.constant then return self:constant(rawget(o.value, k)), nil end
    if k == nil or k ~= k then return nil, nil end
    local s = o.fields[k]
    if not s then
      if self:is_inside(k) then return nil, nil end -- a key made inside is in no outside table
      local v = rawget(o.value, k)
      s = self:slot(v, { "field", o.slot, k }, self.path_of(o.shadow.path, k))
      o.fields[k] = s
    end
    if self.turns then self:note_read(s) end
    return s.value, s
  end

  --- Whether an object was made inside.
  function World:is_inside(v)
    local kind = type(v)
    if kind == "table" then return self.tables[v] ~= nil and self.tables[v].fresh == true end
    if kind == "function" then return self.closures[v] ~= nil or self.iterators[v] ~= nil end
    if kind == "thread" then return self:is_thread(v) end
    return kind == "userdata" and self.is_tensor(v) and self.objects[v] == nil
  end

  --- t[k] without metamethods; k is known, or ks is its shadow (keys.lua).
  function World:raw_index(t, ts, k, ks)
    local o = self:table_of(t, ts)
    if ks then
      local v, s = self:element(o, k, ks)
      return v, s, o
    end
    if not o.fresh then
      local v, s = self:field(o, k)
      return v, s, o
    end
    if k == nil then return nil, nil, o end
    return rawget(t, k), o.shadow[k], o
  end

  --- The metatable of a table: nil is guarded, a table is known by its path.
  function World:metatable(o)
    if o.fresh then return o.meta, o.meta_shadow end
    if o.constant then return self:constant(metatable_of(self, o.value)), nil end
    local s = o.metatable
    if not s then
      local mt = metatable_of(self, o.value)
      s = self:slot(mt, { "metatable", o.slot }, format("metatable(%s)", o.shadow.path or "?"))
      o.metatable = s
      self:pin(mt, s)
    end
    if self.turns then self:note_read(s) end
    return s.value, s
  end

  --- The handler of an event, and its shadow; nil when the table has none, which is guarded.
  function World:event_of(o, event)
    local mt, ms = self:metatable(o)
    if mt == nil then return nil end
    local h, hs = self:raw_index(mt, ms, event)
    self:typed(h, hs)
    return h, hs
  end

  --- The metatable that all strings have, a table from outside like others; nil is guarded.
  local function string_metatable(world)
    local s = world.strings
    if not s then
      local mt = metatable_of(world, "")
      if world:in_ours() then return world:constant(mt), nil end
      s = world:slot(mt, { "string_metatable" }, "metatable(string)")
      world.strings = s
      world:pin(mt, s)
    end
    if world.turns then world:note_read(s) end
    return s.value, s
  end

  World.string_metatable = string_metatable

  --- The table of the modules that are loaded, one from outside like others.
  function World:loaded_modules()
    local t = self.C.loaded()
    if type(t) ~= "table" then self:abort("the host keeps its modules elsewhere") end
    if self:in_ours() then return self:constant(t), nil end
    self.modules = self.modules or self:slot(t, { "loaded" }, "package.loaded")
    return t, self.modules
  end

  --- The handler of an event for any value.
  function World:metamethod(v, s, event)
    local kind = type(v)
    if kind == "table" then return self:event_of(self:table_of(v, s), event) end
    if kind == "userdata" or kind == "cdata" then
      self:abort(format("a %s is used that is no tensor", kind))
    end
    self:typed(v, s)
    if kind ~= "string" then return nil end
    local mt, ms = string_metatable(self)
    if mt == nil then return nil end
    local h, hs = self:raw_index(mt, ms, event)
    self:typed(h, hs)
    return h, hs
  end

  -- t[k] --------------------------------------------------------------------------------------------------------------

  function World:index(t, ts, k, ks)
    for _ = 1, CHAIN_MAX do
      local kind = type(t)
      if kind == "userdata" and self.is_tensor(t) then return self:tensor_index(t, ts, k, ks) end
      k, ks = self:key_of(t, ts, k, ks)
      local h, hs
      if kind == "table" then
        local v, s, o = self:raw_index(t, ts, k, ks)
        if not rawequal(v, nil) then
          if not (o.fresh and o.meta == nil) then self:typed_later(s) end
          return v, s
        end
        if o.fresh and o.meta == nil then return nil, s end
        self:typed(v, s)
        h, hs = self:event_of(o, "__index")
        if h == nil then return nil, nil end
      else
        h, hs = self:metamethod(t, ts, "__index")
        if h == nil then self:abort(format("attempt to index a %s value", kind), nil, "error") end
      end
      if type(h) == "function" then
        local results, shadows, n = self.apply(h, hs, { t, k }, { ts, ks }, 2)
        if n == 0 then return nil, nil end
        return results[1], shadows[1]
      end
      t, ts = h, hs
    end
    return self:abort("a loop of __index")
  end

  -- t[k] = v ----------------------------------------------------------------------------------------------------------

  local function write_fresh(world, o, k, v, vs)
    tally(o, k, rawget(o.value, k), v)
    world:write(o, k, v)
    o.shadow[k] = vs
    note_loose(o, vs)
  end

  --- Whether a value surely stands at a key of the outside table, so that writing it adds none; its guard is seen to.
  local function stands(world, o, k, ks)
    local s
    if ks then s = world:new_key(o, k, ks) else s = o.fields[k] end
    if s == nil then return ks == nil and o.keylist ~= nil and not rawequal(rawget(o.value, k), nil) end
    if rawequal(s.value, nil) then return false end
    world:typed_later(s)
    return true
  end

  --- Notes a write as an effect: in place of the key's last one where no other key was written since, or where a value
  --- stands before and after, so that the key keeps its slot.
  local function note_effect(world, o, k, entry, v, vs)
    local e = entry.effect
    if e == nil or e ~= o.last_effect then
      if e then
        world:typed_later(entry.shadow)
        if not rawequal(entry.value, nil) and not rawequal(v, nil) then return world:typed_later(vs) end
        e.full = not rawequal(entry.value, nil)
      end
      e = { table = o, key = k }
      world.effects[#world.effects + 1], o.last_effect, entry.effect = e, e, e
    elseif rawequal(entry.value, nil) or rawequal(v, nil) then
      o.merged = true -- were another table this one, what is written there meanwhile would find other slots
    end
  end

  local function write_overlay(world, o, k, v, vs, ks)
    local overlay = o.overlay
    if not overlay then
      overlay = {}
      o.overlay = overlay
    end
    local entry = overlay[k]
    if not entry then
      entry = { value = rawget(o.value, k), key = k, ks = ks }
      overlay[k] = entry
      if not o.constant then
        if not stands(world, o, k, ks) then o.grown = true end
        if type(k) == "number" then
          o.by_number, o.numbered = true, o.numbered or {}
          o.numbered[#o.numbered + 1] = entry
        end
      end
    elseif type(k) == "number" and not o.constant then
      world:relate(o, k, ks)
    end
    if not o.constant then
      o.version = (o.version or 0) + 1
      note_effect(world, o, k, entry, v, vs)
      if rawequal(v, nil) then o.shrunk = true end
      tally(o, k, entry.value, v)
      note_loose(o, vs)
    end
    entry.value, entry.shadow = v, vs
  end

  --- t[k] = v without metamethods; k is known, or ks is its shadow.
  function World:raw_newindex(t, ts, k, v, vs, ks)
    if k == nil or k ~= k then self:abort("the key of an assignment is nil or NaN") end
    local o = self:table_of(t, ts)
    if o.fresh then write_fresh(self, o, k, v, vs) else write_overlay(self, o, k, v, vs, ks) end
  end

  function World:newindex(t, ts, k, ks, v, vs)
    for _ = 1, CHAIN_MAX do
      if type(t) == "userdata" and self.is_tensor(t) then return self:tensor_newindex(t, ts, k, ks, v, vs) end
      if type(t) ~= "table" then
        self:typed(t, ts)
        self:abort(format("attempt to assign to a field of a %s value", type(t)), nil, "error")
      end
      k, ks = self:key_of(t, ts, k, ks)
      local o = self:table_of(t, ts)
      local h, hs = self:event_of(o, "__newindex")
      if h ~= nil then
        local old, os = self:raw_index(t, ts, k, ks)
        self:typed(old, os)
        if not rawequal(old, nil) then h = nil end
      end
      if h == nil then return self:raw_newindex(t, ts, k, v, vs, ks) end
      if type(h) == "function" then
        self.apply(h, hs, { t, k, v }, { ts, ks, vs }, 3)
        return nil
      end
      t, ts = h, hs
    end
    return self:abort("a loop of __newindex")
  end

  -- Length and iteration ----------------------------------------------------------------------------------------------

  --- Guards the keys of an outside table as next() walks them; the list.
  function World:keys(o)
    if o.constant then self:abort("a table of the library is iterated") end
    local list = o.keylist
    if self.turns then self:note_read(false) end
    if list then return list end
    list = {}
    for k in next, o.value do
      local kind = type(k)
      if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
        self:abort(format("a table that has a %s as a key is iterated", kind), "use names or positions as keys")
      end
      list[#list + 1] = k
    end
    o.keylist = list
    self:emit({ "keys", o.slot, list }, o.shadow.path)
    return list
  end

  World.tally = tally

  --- Counts the positions of a table of which its list of keys is known.
  local function count_keys(o, list)
    o.count, o.max = 0, 0
    for _, k in ipairs(list) do
      if is_position(k) then
        o.count, o.max = o.count + 1, k > o.max and k or o.max
      end
    end
  end

  function World:abort_holes()
    self:abort("the length of a table with holes is asked", "keep lists without nil between", "holes")
  end

  --- The length of a table whose keys are counted: exactly 1 to count.
  local function sequence_length(world, o, get)
    local n = o.count
    local plain = o.max == n
    if o.max == nil then
      plain = true
      for i = n, 1, -1 do
        if rawequal(get(i), nil) then
          plain = false
          break
        end
      end
      if plain then o.max = n end
    end
    if not plain then world:abort_holes() end
    return n
  end
  World.sequence_length = sequence_length

  --- The raw length of a table, and its shadow.
  function World:table_size(o)
    if o.constant then
      if o.overlay then self:abort("a table of the library is written") end
      return #o.value, nil
    end
    self:settle(o)
    if not o.fresh then
      if self.turns then self:note_read(false) end
      return self:outside_length(o)
    end
    if not o.unordered then return #o.value, nil end
    if not o.count then
      local list = {}
      for k in next, o.value do list[#list + 1] = k end
      count_keys(o, list)
    end
    return sequence_length(self, o, function(i) return rawget(o.value, i) end), nil
  end

  --- The same, made known.
  function World:table_length(o) return self:pin(self:table_size(o)) end

  function World:length(v, s)
    local kind = type(v)
    if kind == "string" then return #self:pin(v, s), nil end
    if kind == "userdata" and self.is_tensor(v) then return self:tensor_length(v, s) end
    if kind ~= "table" then
      self:typed(v, s)
      self:abort(format("attempt to get length of a %s value", kind), nil, "error")
    end
    local o = self:table_of(v, s)
    if LENGTH_EVENT then
      local h, hs = self:event_of(o, "__len")
      if h ~= nil then
        local results, shadows = self.apply(h, hs, { v }, { s }, 1)
        return results[1], shadows[1]
      end
    end
    return self:table_size(o)
  end

  --- Whether next might walk a table of unknown layout in another order: not one key, nor a list that is out of reach.
  local function is_open(o)
    local t, n, list = o.value, 0, not o.inexact
    for k in next, t do n, list = n + 1, list and is_position(k) end
    return n > 1 and not list
  end

  --- next(t, k): the key behind k, its value and the value's shadow.
  function World:next(t, ts, k)
    local o = self:table_of(t, ts)
    if o.fresh then
      self:settle(o)
      if o.unordered and is_open(o) and not self:in_ours() then
        self:abort("a table that was made with several named fields is iterated", "iterate over a list of names")
      end
      local nk, v = next(t, k)
      if rawequal(nk, nil) then return nil end
      return nk, v, o.shadow[nk]
    end
    if o.constant and not o.overlay then
      local nk, v = next(t, k)
      return nk, self:constant(v), nil
    end
    if o.grown then self:abort("a table is iterated after keys were added") end
    self:pin_keys(o)
    self:keys(o)
    while true do
      k = next(t, k)
      if rawequal(k, nil) then return nil end
      local v, s = self:field(o, k)
      if o.overlay and o.overlay[k] then self:typed(v, s) end
      if not rawequal(v, nil) then return k, v, s end
    end
  end

  -- Aliases -----------------------------------------------------------------------------------------------------------

  --- Whether a write to a might be a write to what b's readers saw, were they one table.
  local function meet(a, b)
    if (a.grown or a.shrunk) and (b.keylist or b.length) then return true end
    if a.merged and b.grown or a.grown and b.merged then return true end
    if a.numbered and b.by_key_of_call or a.by_key_of_call and a.numbered and b.by_number then return true end
    for k in pairs(a.overlay) do
      if b.fields[k] or (b.overlay and b.overlay[k]) then return true end
      if (b.length or b.keylist) and is_position(k) then return true end
    end
    return false
  end

  function World:guard_aliases()
    local written, outside = {}, {}
    for _, o in pairs(self.tables) do
      if o.slot then
        outside[#outside + 1] = o
        if o.overlay then written[#written + 1] = o end
      end
    end
    local function by_slot(a, b) return a.slot < b.slot end
    sort(written, by_slot)
    sort(outside, by_slot)
    for _, a in ipairs(written) do
      for _, b in ipairs(outside) do
        -- of two written tables the earlier one asks
        local asked = b.overlay and b.slot < a.slot and meet(b, a)
        if a ~= b and not asked and meet(a, b) then self:emit({ "distinct", a.slot, b.slot }, a.shadow.path) end
      end
    end
  end
end
